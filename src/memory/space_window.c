/* SPDX-License-Identifier: Apache-2.0 */
/* Windows, the client's side; see space_window.h. space_consumer.c has the lane's. */
#include "memory/space_window.h"

#include "base/futex.h"
#include "memory/space_record.h"

void space_producer_init(struct space_producer *producer, struct space_window *window)
{
    *producer = (struct space_producer){.window = window};
}

/* Looks at the lane's word, and forgets what is carried out. */
bool space_producer_look(struct space_producer *producer)
{
    uint64_t head = shared_load_acquire(&producer->window->head.value);

    if (head - producer->head > producer->tail - producer->head) {
        return false; /* before what it said, or beyond what there is */
    }
    while (producer->head < head) {
        uint64_t word = space_ring_load(producer->window, producer->head);
        uint32_t bytes = space_record_bytes(space_word_kind(word), space_word_length(word));

        if (bytes > head - producer->head) {
            return false;
        }
        if (space_word_kind(word) == SPACE_RECORD_WRITE) {
            producer->pending[space_word_note(word)]--;
        }
        producer->head += bytes;
    }
    return true;
}

static bool has_room(struct space_producer *producer, uint32_t bytes)
{
    if (producer->tail - producer->head + bytes <= LIMIT_SPACE_RING_BYTES) {
        return true;
    }
    return space_producer_look(producer) &&
           producer->tail - producer->head + bytes <= LIMIT_SPACE_RING_BYTES;
}

static void put_head(struct space_producer *producer, enum space_record_kind kind, uint32_t note,
                     uint32_t length, uint32_t space, uint64_t address)
{
    space_ring_store(producer->window, producer->tail,
                     space_word_of(kind, note, (uint16_t)length, space));
    space_ring_store(producer->window, producer->tail + 8, address);
}

/* What was put there is the lane's from here on. */
static void publish(struct space_producer *producer, uint32_t bytes)
{
    producer->tail += bytes;
    shared_store_release(&producer->window->tail.value, producer->tail);
}

bool space_producer_write(struct space_producer *producer, const struct space_mapped *space,
                          uint64_t address, const void *bytes, uint32_t length, uint64_t *ticket)
{
    uint32_t size = space_record_bytes(SPACE_RECORD_WRITE, length);
    uint32_t note = space_note_of(space, space_hash(address, space->cache.shift));
    const uint8_t *from = (const uint8_t *)bytes;
    uint64_t at = producer->tail + SPACE_GRANULE;
    uint64_t value = 0;

    NIGH_ASSERT(length > 0 && length <= LIMIT_SPACE_BLOCK_BYTES);
    if (!has_room(producer, size)) {
        return false;
    }
    put_head(producer, SPACE_RECORD_WRITE, note, length, space->number, address);
    for (; length >= 8; length -= 8, from += 8, at += 8) {
        memcpy(&value, from, 8);
        space_ring_store(producer->window, at, value);
    }
    if (length > 0) {
        value = 0;
        memcpy(&value, from, length);
        space_ring_store(producer->window, at, value);
    }
    producer->pending[note]++;
    *ticket = producer->tail;
    publish(producer, size);
    return true;
}

bool space_producer_say(struct space_producer *producer, enum space_record_kind kind,
                        const struct space_mapped *space, uint64_t address)
{
    NIGH_ASSERT(kind == SPACE_RECORD_FENCE || kind == SPACE_RECORD_UNLOCK ||
                kind == SPACE_RECORD_FETCH);
    if (!has_room(producer, SPACE_GRANULE)) {
        return false;
    }
    put_head(producer, kind, 0, 0, space->number, address);
    publish(producer, SPACE_GRANULE);
    return true;
}

bool space_producer_ask(struct space_producer *producer, enum space_record_kind kind,
                        const struct space_mapped *space, uint64_t address, uint32_t length,
                        const uint64_t operands[2], uint64_t timeout_us)
{
    uint32_t size = space_record_bytes(kind, length);
    uint64_t at = producer->tail + SPACE_GRANULE;

    NIGH_ASSERT(space_kind_is_asked(kind) && length <= LIMIT_SPACE_BLOCK_BYTES);
    if (!has_room(producer, size)) {
        return false;
    }
    put_head(producer, kind, 0, length, space->number, address);
    space_ring_store(producer->window, at, timeout_us);
    space_ring_store(producer->window, at + 8, ++producer->sequence);
    if (space_kind_has_operands(kind)) {
        space_ring_store(producer->window, at + 16, operands[0]);
        space_ring_store(producer->window, at + 24, operands[1]);
    }
    publish(producer, size);
    return true;
}

bool space_producer_is_answered(const struct space_producer *producer)
{
    return shared_load_acquire(&producer->window->reply.sequence) == producer->sequence;
}

nigh_status space_producer_answer(const struct space_producer *producer, uint64_t *value,
                                  void *bytes, uint32_t length)
{
    struct space_reply *reply = &producer->window->reply;

    *value = shared_load_relaxed(&reply->value);
    if (length > 0) {
        space_bytes_load(producer->window->reply_bytes, 0, bytes, length);
    }
    return (nigh_status)(int32_t)shared_load_relaxed(&reply->status);
}

bool space_producer_is_done(const struct space_producer *producer, uint64_t ticket)
{
    /* From the head as this side last saw it on, nothing was put over a record. */
    if (ticket < producer->head ||
        (shared_load_acquire(&producer->window->ring[space_ring_at(ticket)]) & SPACE_RECORD_DONE)) {
        return true;
    }
    return shared_load_acquire(&producer->window->head.value) > ticket;
}

/* ---- kept locks ----------------------------------------------------------- */

uint32_t space_producer_note_lock(struct space_producer *producer, const struct space_mapped *space,
                                  uint64_t block, bool is_alone, uint64_t value)
{
    uint32_t note = space_note_of(space, space_hash(block, space->cache.shift));

    if (value == 0 || value > LIMIT_SPACE_HOLDS) {
        return SPACE_NO_KEPT;
    }
    producer->kept[value - 1] =
        (struct space_kept){.block = block, .space = space->number, .is_alone = is_alone};
    producer->kept_at[note] = (uint8_t)(value - 1);
    return (uint32_t)value - 1;
}

bool space_producer_is_of(const struct space_producer *producer, uint32_t kept, uint32_t space,
                          uint64_t block)
{
    return producer->kept[kept].block == block && producer->kept[kept].space == space;
}

bool space_producer_keep(struct space_producer *producer, uint32_t kept)
{
    uint64_t held = SPACE_KEPT_HELD, word = producer->tail | SPACE_KEPT_KEPT;

    if (!shared_compare_exchange(&producer->window->kept[kept], &held, word)) {
        producer->kept[kept] = (struct space_kept){0};
        return false;
    }
    producer->kept[kept].word = word;
    return true;
}

uint32_t space_producer_find_kept(const struct space_producer *producer,
                                  const struct space_mapped *space, uint64_t block, bool is_alone)
{
    uint32_t n = producer->kept_at[space_note_of(space, space_hash(block, space->cache.shift))];
    const struct space_kept *kept = &producer->kept[n];

    return kept->block == block && kept->space == space->number && kept->is_alone == is_alone &&
                   kept->word != 0
               ? n
               : SPACE_NO_KEPT;
}

bool space_producer_take_kept(struct space_producer *producer, uint32_t kept)
{
    uint64_t word = producer->kept[kept].word;

    producer->kept[kept].word = 0;
    if (!shared_compare_exchange(&producer->window->kept[kept], &word, SPACE_KEPT_HELD)) {
        producer->kept[kept] = (struct space_kept){0};
        return false;
    }
    return true;
}

/* ---- failures, sleep ------------------------------------------------------ */

uint32_t space_producer_failures(struct space_producer *producer, nigh_status *status,
                                 uint64_t *address)
{
    struct space_failure *failure = &producer->window->failure;
    uint32_t count = shared_load_acquire(&failure->count);
    uint32_t more = count - producer->failures;

    *status = more == 0 ? NIGH_OK : (nigh_status)(int32_t)shared_load_relaxed(&failure->status);
    *address = shared_load_relaxed(&failure->address);
    producer->failures = count;
    return more;
}

uint32_t space_producer_begin_sleep(struct space_producer *producer)
{
    uint32_t news = shared_load_relaxed(&producer->window->news.value);

    shared_store_relaxed(&producer->window->asleep.value, news | 1);
    shared_fence();
    return news;
}

nigh_status space_producer_sleep(struct space_producer *producer, uint32_t news,
                                 uint64_t timeout_us)
{
    return futex_wait(&producer->window->news.value, news, timeout_us);
}

void space_producer_end_sleep(struct space_producer *producer)
{
    shared_store_relaxed(&producer->window->asleep.value, 0);
}

/* ---- own writes ----------------------------------------------------------- */

/* What of own writes touches a read. */
struct own {
    uint32_t count;   /* that are not carried out */
    bool newest_is;   /* the newest that touches it is one of these, */
    bool newest_does; /* and has all of it */
    uint64_t newest;  /* where */
};

/* Whether a WRITE touches bytes of a space. */
static bool touches(const struct space_producer *producer, uint64_t at, uint64_t word,
                    uint32_t space, uint64_t address, uint32_t length)
{
    uint64_t begin;

    if (space_word_kind(word) != SPACE_RECORD_WRITE || space_word_space(word) != space) {
        return false;
    }
    begin = space_ring_load(producer->window, at + 8);
    return begin < address + length && address < begin + space_word_length(word);
}

/* Puts what a WRITE has of a read over it. */
static void overlay(const struct space_producer *producer, uint64_t at, uint64_t word,
                    uint64_t address, uint8_t *out, uint32_t length)
{
    uint64_t begin = space_ring_load(producer->window, at + 8);
    uint64_t from = max_u64(begin, address);
    uint64_t to = min_u64(begin + space_word_length(word), address + length);

    while (from < to) {
        uint64_t skip = from - begin;
        uint64_t count = min_u64(8 - skip % 8, to - from);
        uint64_t value =
            space_ring_load(producer->window, at + SPACE_GRANULE + (skip & ~UINT64_C(7)));

        memcpy(out + (from - address), (const uint8_t *)&value + skip % 8, count);
        from += count;
    }
}

/* Looks at all own writes from the oldest on; `out`, unless NULL, has them put over it. */
static struct own look_at_own(const struct space_producer *producer, uint32_t space,
                              uint64_t address, uint8_t *out, uint32_t length)
{
    struct own own = {0};

    for (uint64_t at = producer->head; at < producer->tail;) {
        uint64_t word = shared_load_acquire(&producer->window->ring[space_ring_at(at)]);

        if (touches(producer, at, word, space, address, length)) {
            uint64_t begin = space_ring_load(producer->window, at + 8);

            own.newest_is = (word & SPACE_RECORD_DONE) == 0;
            own.newest_does =
                begin <= address && address + length <= begin + space_word_length(word);
            own.newest = at;
            if (own.newest_is) {
                own.count++;
                if (out != NULL) {
                    overlay(producer, at, word, address, out, length);
                }
            }
        }
        at += space_record_bytes(space_word_kind(word), space_word_length(word));
    }
    return own;
}

/*
 * What is pending only becomes less. So where as many are before the space is looked at as after
 * it, these were pending at that moment, and what was not was carried out before it: over what was
 * there at that moment they are what the thread sees. Each try that fails has fewer of them.
 */
enum space_answer space_producer_read_own(struct space_producer *producer,
                                          const struct space_mapped *space, uint64_t hash,
                                          uint64_t address, void *out, uint32_t length)
{
    for (uint32_t tries = 0; tries < LIMIT_SPACE_READ_TRIES; tries++) {
        struct own before, after;

        if (!space_producer_look(producer)) {
            return SPACE_ASK;
        }
        before = look_at_own(producer, space->number, address, NULL, length);
        if (before.newest_is && before.newest_does) {
            overlay(producer, before.newest,
                    space_ring_load(producer->window, before.newest) & ~SPACE_RECORD_DONE, address,
                    (uint8_t *)out, length);
            return SPACE_READ;
        }
        if (space_mapped_read(producer, space, hash, address, out, length) == SPACE_ASK) {
            return SPACE_ASK;
        }
        if (!space_producer_look(producer)) {
            return SPACE_ASK;
        }
        after = look_at_own(producer, space->number, address, (uint8_t *)out, length);
        if (after.count == before.count) {
            return SPACE_READ;
        }
    }
    return SPACE_ASK;
}
