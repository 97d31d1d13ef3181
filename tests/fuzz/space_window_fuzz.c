/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes in a window, written by its client between any two steps of the lane: it goes beyond
 * nothing, and believes no bound from there; nor does a client of what a node wrote.
 *
 * Input: commands of one byte and what they need; see command().
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fuzz_input.h"
#include "memory/space_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static struct space_window window;
static struct space_producer producer;
static struct space_consumer consumer;
static struct space_mapped space = {.number = 1, .cache = {.shift = 12, .mask = 4095}};
static struct space_record waits[LIMIT_SPACE_TAKEN];
static uint32_t waiting;

static void begin(void)
{
    waiting = 0;
    space_consumer_init(&consumer, &window);
}

static void check(void)
{
    NIGH_ASSERT(consumer.next - consumer.first <= LIMIT_SPACE_TAKEN);
    NIGH_ASSERT(consumer.taken - consumer.told <= LIMIT_SPACE_RING_BYTES);
    NIGH_ASSERT(consumer.head >= consumer.told && consumer.head <= consumer.taken);
    NIGH_ASSERT(consumer.tail - consumer.taken <= LIMIT_SPACE_RING_BYTES);
    NIGH_ASSERT(waiting == 0 || consumer.first != consumer.next);
    NIGH_ASSERT(producer.tail - producer.head <= LIMIT_SPACE_RING_BYTES);
}

static void take(void)
{
    struct space_record record;

    switch (space_consumer_take(&consumer, &record)) {
    case SPACE_WINDOW_TAKEN:
        NIGH_ASSERT(record.length <= LIMIT_SPACE_BLOCK_BYTES && waiting < LIMIT_SPACE_TAKEN);
        NIGH_ASSERT(record.kind > 0 && record.kind < SPACE_RECORD_KINDS);
        waits[waiting++] = record;
        break;
    case SPACE_WINDOW_BROKEN: begin(); break;
    default: break;
    }
}

/* The next of a row. */
static void pass(void)
{
    struct space_write write;
    uint8_t *out;

    if (!space_consumer_peek(&consumer, &write)) {
        return;
    }
    NIGH_ASSERT(waiting == 0 && write.length > 0 && write.length <= LIMIT_SPACE_BLOCK_BYTES);
    out = malloc((write.length + 7u) & ~7u);
    NIGH_ASSERT(out != NULL);
    space_consumer_peek_bytes(&consumer, &write, out);
    free(out);
    space_consumer_pass(&consumer, &write);
}

/* One that waits is carried out. */
static void carry_out(uint32_t which)
{
    struct space_record *record = &waits[which];
    uint32_t bytes = ((uint32_t)record->length + 7) & ~7u;
    uint8_t *out = malloc(bytes + 1); /* of its own, so that its end is seen */

    NIGH_ASSERT(out != NULL);
    memset(out, 0, bytes + 1);
    (void)space_record_fits(record, 512);
    if (record->kind == SPACE_RECORD_WRITE) {
        space_consumer_bytes(&consumer, record, out);
    }
    if (space_kind_is_asked(record->kind)) {
        space_consumer_reply(&consumer, record, NIGH_OK, 1, out,
                             record->kind == SPACE_RECORD_READ ? record->length : 0);
    } else if (which % 2 == 0) {
        space_consumer_done(&consumer, record->number);
    } else {
        space_consumer_done_in_a_row(&consumer, record->number);
    }
    waits[which] = waits[--waiting];
    free(out);
}

static void write_some(uint32_t length)
{
    uint8_t *from = calloc(1, length); /* likewise */
    uint64_t ticket;

    NIGH_ASSERT(from != NULL);
    if (space_producer_write(&producer, &space, 4096, from, length, &ticket)) {
        (void)space_producer_is_done(&producer, ticket);
    }
    free(from);
}

static void read_some(uint32_t offset, uint32_t length)
{
    uint8_t *out = malloc(length);

    NIGH_ASSERT(out != NULL);
    length = min_u32(length, 4096 - offset);
    (void)space_producer_look(&producer);
    if (producer.pending[space_note_of(&space, space_hash(4096, 12))] != 0) {
        (void)space_producer_read_own(&producer, &space, space_hash(4096, 12), 4096 + offset, out,
                                      length);
    }
    free(out);
}

static void command(struct fuzz_input *input)
{
    uint64_t hints[LIMIT_SPACE_HINTS];

    switch (fuzz_byte(input) % 10) {
    case 0: take(); break;
    case 1:
        if (waiting > 0) {
            carry_out(fuzz_byte(input) % waiting);
        }
        break;
    case 2: space_consumer_tell(&consumer); break;
    case 3: shared_store_relaxed(&window.tail.value, fuzz_number(input)); break;
    case 4: /* the next record, as it may be, and said to be there */
        space_ring_store(&window, consumer.taken,
                         space_word_of(fuzz_byte(input) % 20, 0, (uint16_t)fuzz_number(input), 1));
        shared_store_relaxed(&window.tail.value,
                             consumer.taken + (fuzz_number(input) & ~UINT64_C(15)));
        break;
    case 5: fuzz_patch(input, &window, sizeof window); break;
    case 6: (void)space_consumer_hints(&consumer, hints); break;
    case 7: pass(); break;
    case 8: write_some(1 + fuzz_byte(input) * 16u); break;
    default: read_some(fuzz_byte(input), 1 + fuzz_byte(input)); break;
    }
    check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct fuzz_input input = {.bytes = data, .left = size_bytes};
    static struct space_set set; /* of a cache that is empty */

    memset(&window, 0, sizeof window);
    space.cache.sets = &set;
    space.cache.count = 1;
    begin();
    space_producer_init(&producer, &window);
    while (input.left > 0) {
        command(&input);
    }
    return 0;
}
