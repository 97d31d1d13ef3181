/* SPDX-License-Identifier: Apache-2.0 */
/* Windows, the lane's side: what a client wrote is anything; see space_window.h. */
#include "base/futex.h"
#include "memory/space_record.h"

void space_consumer_init(struct space_consumer *consumer, struct space_window *window)
{
    *consumer = (struct space_consumer){.window = window};
}

bool space_record_fits(const struct space_record *record, uint32_t block_bytes)
{
    uint32_t offset = (uint32_t)record->address & (block_bytes - 1);

    if (space_kind_is_atomic(record->kind) && offset % 8 != 0) {
        return false;
    }
    return record->length <= block_bytes - offset;
}

/* What a kind may have for a length. */
static bool is_length_of(uint32_t kind, uint32_t length)
{
    if (kind == SPACE_RECORD_WRITE || kind == SPACE_RECORD_READ) {
        return length > 0 && length <= LIMIT_SPACE_BLOCK_BYTES;
    }
    return length == (space_kind_is_atomic(kind) ? 8 : 0);
}

/* Copies the head of a record out, and checks the copy. False: it cannot be. */
static bool copy_head(struct space_consumer *consumer, uint64_t room, struct space_record *record,
                      uint64_t *word, uint32_t *bytes)
{
    uint64_t at = consumer->taken;
    uint32_t kind;

    *word = space_ring_load(consumer->window, at);
    kind = space_word_kind(*word);
    *record = (struct space_record){
        .at = at,
        .number = consumer->next,
        .kind = (uint8_t)kind,
        .length = space_word_length(*word),
        .space = space_word_space(*word),
        .address = space_ring_load(consumer->window, at + 8),
    };
    *bytes = space_record_bytes(kind, record->length);
    if ((*word & SPACE_RECORD_DONE) != 0 || kind == 0 || kind >= SPACE_RECORD_KINDS ||
        !is_length_of(kind, record->length) || *bytes > room) {
        return false;
    }
    if (space_kind_is_asked(kind)) {
        record->timeout_us = space_ring_load(consumer->window, at + 16);
        record->sequence = (uint32_t)space_ring_load(consumer->window, at + 24);
    }
    if (space_kind_has_operands(kind)) {
        record->operands[0] = space_ring_load(consumer->window, at + 32);
        record->operands[1] = space_ring_load(consumer->window, at + 40);
    }
    return true;
}

/* Whether a tail may be: whole granules, and no more of them than there is room for. */
static bool is_tail(const struct space_consumer *consumer, uint64_t tail)
{
    uint64_t held = consumer->taken - consumer->told;

    return tail % SPACE_GRANULE == 0 && tail - consumer->taken <= LIMIT_SPACE_RING_BYTES - held;
}

enum space_window_answer space_consumer_take(struct space_consumer *consumer,
                                             struct space_record *record)
{
    uint64_t tail = shared_load_acquire(&consumer->window->tail.value);
    uint64_t word;
    uint32_t bytes;

    if (tail == consumer->taken) {
        return SPACE_WINDOW_NONE;
    }
    if (!is_tail(consumer, tail)) {
        return SPACE_WINDOW_BROKEN;
    }
    if (consumer->next - consumer->first == LIMIT_SPACE_TAKEN) {
        return SPACE_WINDOW_FULL;
    }
    if (!copy_head(consumer, tail - consumer->taken, record, &word, &bytes)) {
        return SPACE_WINDOW_BROKEN;
    }
    consumer->records[consumer->next % LIMIT_SPACE_TAKEN] =
        (struct space_taken){.at = consumer->taken, .end = consumer->taken + bytes, .word = word};
    consumer->next++;
    consumer->taken += bytes;
    consumer->tail = tail;
    return SPACE_WINDOW_TAKEN;
}

/* The client's word is looked at once for all that it says is there: another processor has it. */
bool space_consumer_peek(struct space_consumer *consumer, struct space_write *write)
{
    uint64_t at = consumer->taken;
    uint64_t word;

    if (consumer->first != consumer->next) {
        return false;
    }
    if (consumer->tail == at) {
        uint64_t tail = shared_load_acquire(&consumer->window->tail.value);

        if (tail == at || !is_tail(consumer, tail)) {
            return false;
        }
        consumer->tail = tail;
    }
    word = space_ring_load(consumer->window, at);
    *write = (struct space_write){
        .at = at,
        .address = space_ring_load(consumer->window, at + 8),
        .space = space_word_space(word),
        .bytes = space_record_bytes(SPACE_RECORD_WRITE, space_word_length(word)),
        .length = space_word_length(word)};
    return (word & 0xff) == SPACE_RECORD_WRITE && is_length_of(SPACE_RECORD_WRITE, write->length) &&
           write->bytes <= consumer->tail - at;
}

static void copy_bytes(const struct space_consumer *consumer, uint64_t at, uint32_t length,
                       void *out)
{
    uint8_t *to = (uint8_t *)out;

    for (uint32_t done = 0; done < length; done += 8) {
        uint64_t value = space_ring_load(consumer->window, at + SPACE_GRANULE + done);

        memcpy(to + done, &value, 8);
    }
}

void space_consumer_bytes(const struct space_consumer *consumer, const struct space_record *record,
                          void *out)
{
    copy_bytes(consumer, record->at, record->length, out);
}

void space_consumer_peek_bytes(const struct space_consumer *consumer,
                               const struct space_write *write, void *out)
{
    copy_bytes(consumer, write->at, write->length, out);
}

void space_consumer_done_in_a_row(struct space_consumer *consumer, uint32_t number)
{
    struct space_taken *taken = &consumer->records[number % LIMIT_SPACE_TAKEN];

    NIGH_ASSERT(number - consumer->first < consumer->next - consumer->first && !taken->is_done);
    taken->is_done = true;
    if (number != consumer->first) {
        shared_store_release(&consumer->window->ring[space_ring_at(taken->at)],
                             taken->word | SPACE_RECORD_DONE);
        return;
    }
    while (consumer->first != consumer->next &&
           consumer->records[consumer->first % LIMIT_SPACE_TAKEN].is_done) {
        consumer->head = consumer->records[consumer->first % LIMIT_SPACE_TAKEN].end;
        consumer->first++;
    }
}

void space_consumer_tell(struct space_consumer *consumer)
{
    if (consumer->told != consumer->head) {
        consumer->told = consumer->head;
        shared_store_release(&consumer->window->head.value, consumer->head);
    }
}

void space_consumer_done(struct space_consumer *consumer, uint32_t number)
{
    space_consumer_done_in_a_row(consumer, number);
    space_consumer_tell(consumer);
}

void space_consumer_reply(struct space_consumer *consumer, const struct space_record *record,
                          nigh_status status, uint64_t value, const void *bytes, uint32_t length)
{
    struct space_reply *reply = &consumer->window->reply;

    NIGH_ASSERT(length <= LIMIT_SPACE_BLOCK_BYTES);
    space_consumer_done(consumer, record->number);
    if (length > 0) {
        space_bytes_store(consumer->window->reply_bytes, 0, bytes, length);
    }
    shared_store_relaxed(&reply->value, value);
    shared_store_relaxed(&reply->status, (uint32_t)status);
    shared_store_release(&reply->sequence, record->sequence);
}

void space_consumer_fail(struct space_consumer *consumer, const struct space_record *record,
                         nigh_status status)
{
    struct space_failure *failure = &consumer->window->failure;

    shared_store_relaxed(&failure->status, (uint32_t)status);
    shared_store_relaxed(&failure->address, record->address);
    shared_store_release(&failure->count, ++consumer->failures);
}

/* ---- kept locks ----------------------------------------------------------- */

void space_consumer_grant(struct space_consumer *consumer, uint32_t kept, bool is_wanted)
{
    shared_store_release(&consumer->window->kept[kept],
                         is_wanted ? SPACE_KEPT_WANTED : SPACE_KEPT_HELD);
}

bool space_consumer_want(struct space_consumer *consumer, uint32_t kept, uint64_t *until)
{
    uint64_t word = shared_exchange(&consumer->window->kept[kept], SPACE_KEPT_WANTED);
    uint64_t place = word & ~SPACE_KEPT_STATE;

    if ((word & SPACE_KEPT_STATE) != SPACE_KEPT_KEPT) {
        return false;
    }
    /* Behind the exchange: who put it there had said all before it. */
    *until = min_u64(place, shared_load_acquire(&consumer->window->tail.value));
    return true;
}

void space_consumer_drop(struct space_consumer *consumer, uint32_t kept)
{
    shared_store_release(&consumer->window->kept[kept], SPACE_KEPT_FREE);
}

bool space_consumer_is_kept(const struct space_consumer *consumer, uint32_t kept, uint64_t at)
{
    uint64_t word = shared_load_acquire(&consumer->window->kept[kept]);

    return (word & SPACE_KEPT_STATE) == SPACE_KEPT_KEPT && (word & ~SPACE_KEPT_STATE) <= at;
}

/* ---- sleep, hints --------------------------------------------------------- */

void space_consumer_wake(struct space_consumer *consumer)
{
    struct space_window *window = consumer->window;

    /* Between what was told and the look; the sleeper's stands the other way round. */
    shared_fence();
    if (shared_load_relaxed(&window->asleep.value) == (consumer->news | 1)) {
        consumer->news += 2;
        shared_store_relaxed(&window->news.value, consumer->news);
        (void)futex_wake(&window->news.value, 1);
    }
}

uint32_t space_consumer_hints(struct space_consumer *consumer, uint64_t hints[LIMIT_SPACE_HINTS])
{
    uint64_t count = shared_load_relaxed(&consumer->window->hint_count.value);
    uint64_t left = min_u64(count - consumer->hints, LIMIT_SPACE_HINTS);

    for (uint64_t n = 0; n < left; n++) {
        hints[n] =
            shared_load_relaxed(&consumer->window->hints[(count - left + n) % LIMIT_SPACE_HINTS]);
    }
    consumer->hints = count;
    return (uint32_t)left;
}
