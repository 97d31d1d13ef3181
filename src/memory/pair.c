/* SPDX-License-Identifier: Apache-2.0 */
/* See pair.h. */
#include "memory/pair.h"

#include <string.h>

#include "base/check.h"

#define PAIR_MASK (LIMIT_PAIR_ENTRIES - 1u)

/* What was copied out of shared memory before this is not read there again. */
#define pair_copied_out() __asm__ volatile("" ::: "memory")

void pair_begin_writer(struct pair_writer *writer, struct pair_half *half)
{
    memset(writer, 0, sizeof(*writer));
    writer->half = half;
}

void pair_begin_reader(struct pair_reader *reader, struct pair_half *half)
{
    *reader = (struct pair_reader){.half = half};
}

/* Long bytes lie in a ring, in two pieces where it ends. */
static void data_in(struct pair_half *half, uint32_t at, const uint8_t *bytes, uint32_t count)
{
    uint32_t begin = at & (LIMIT_PAIR_DATA_BYTES - 1);
    uint32_t first = min_u32(count, LIMIT_PAIR_DATA_BYTES - begin);

    memcpy(half->data + begin, bytes, first);
    memcpy(half->data, bytes + first, count - first);
}

static void data_out(const struct pair_half *half, uint32_t at, uint8_t *bytes, uint32_t count)
{
    uint32_t begin = at & (LIMIT_PAIR_DATA_BYTES - 1);
    uint32_t first = min_u32(count, LIMIT_PAIR_DATA_BYTES - begin);

    memcpy(bytes, half->data + begin, first);
    memcpy(bytes + first, half->data, count - first);
}

/* The reader's word is looked at only where what it said before leaves no room. */
static enum pair_answer make_room(struct pair_writer *writer, uint32_t data_bytes)
{
    uint32_t head;

    if (writer->tail - writer->head < LIMIT_PAIR_ENTRIES &&
        writer->data_tail - writer->data_head + data_bytes <= LIMIT_PAIR_DATA_BYTES) {
        return PAIR_DONE;
    }
    head = shared_load_acquire(&writer->half->head.value);
    if (head - writer->head > writer->tail - writer->head) {
        return PAIR_BROKEN; /* before what it said, or beyond what there is */
    }
    if (head != writer->head) {
        writer->head = head;
        writer->data_head = writer->data_end[(head - 1) & PAIR_MASK];
    }
    return writer->tail - writer->head < LIMIT_PAIR_ENTRIES &&
                   writer->data_tail - writer->data_head + data_bytes <= LIMIT_PAIR_DATA_BYTES
               ? PAIR_DONE
               : PAIR_NONE;
}

enum pair_answer pair_write(struct pair_writer *writer, const struct pair_record *record,
                            const void *bytes, uint32_t *number)
{
    uint32_t data_bytes = pair_data_bytes(record->bytes);
    enum pair_answer room = make_room(writer, data_bytes);
    struct pair_entry *entry = &writer->half->entries[writer->tail & PAIR_MASK];

    NIGH_ASSERT(record->bytes <= LIMIT_CALL_BYTES);
    if (room != PAIR_DONE) {
        return room;
    }
    entry->record = *record;
    shared_store_relaxed(&entry->withdrawn, 0);
    if (data_bytes > 0) {
        data_in(writer->half, writer->data_tail, bytes, record->bytes);
    } else if (record->bytes > 0) {
        memcpy(entry->bytes, bytes, record->bytes);
    }
    writer->data_tail += data_bytes;
    writer->data_end[writer->tail & PAIR_MASK] = writer->data_tail;
    *number = writer->tail++;
    shared_store_release(&entry->commit, writer->tail);
    return PAIR_DONE;
}

bool pair_wants_bell(const struct pair_writer *writer)
{
    _Atomic uint32_t *asleep = &writer->half->asleep.value;

    /* Between publishing and looking; the sleeper's stands the other way round. */
    shared_fence();
    return shared_load_relaxed(asleep) != 0 && shared_exchange(asleep, 0) != 0;
}

void pair_withdraw(const struct pair_writer *writer, uint32_t number)
{
    /* An entry that was used again since is another's. */
    if (writer->tail - number <= LIMIT_PAIR_ENTRIES) {
        shared_store_relaxed(&writer->half->entries[number & PAIR_MASK].withdrawn, 1);
    }
}

enum pair_answer pair_read(struct pair_reader *reader, struct pair_record *record, void *bytes,
                           bool *withdrawn)
{
    const struct pair_half *half = reader->half;
    const struct pair_entry *entry = &half->entries[reader->head & PAIR_MASK];
    uint32_t data_bytes;

    if (!pair_is_readable(half, reader->head)) {
        return PAIR_NONE;
    }
    *record = entry->record;
    *withdrawn = shared_load_relaxed(&entry->withdrawn) != 0;
    pair_copied_out();
    if (record->bytes > LIMIT_CALL_BYTES) {
        return PAIR_BROKEN;
    }
    data_bytes = pair_data_bytes(record->bytes);
    if (data_bytes > 0) {
        data_out(half, reader->data_head, bytes, record->bytes);
    } else {
        memcpy(bytes, entry->bytes, record->bytes);
    }
    pair_copied_out();
    reader->data_head += data_bytes;
    reader->head++;
    shared_store_release(&reader->half->head.value, reader->head);
    return PAIR_DONE;
}
