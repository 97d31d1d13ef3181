/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes in the memory of a pair, written by its other side between any two steps of this one:
 * neither a writer nor a reader goes beyond its own memory, nor believes a bound from there.
 *
 * Input: commands of one byte and what they need; see command().
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "memory/pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static struct pair_half half;
static struct pair_writer writer;
static struct pair_reader reader;

static uint32_t next(const uint8_t **data, size_t *size, uint32_t bytes)
{
    uint32_t value = 0;

    for (uint32_t n = 0; n<bytes && * size> 0; n++, (*size)--)
        value |= (uint32_t) * (*data)++ << 8 * n;
    return value;
}

static void check_writer(void)
{
    NIGH_ASSERT(writer.tail - writer.head <= LIMIT_PAIR_ENTRIES);
    NIGH_ASSERT(writer.data_tail - writer.data_head <= LIMIT_PAIR_DATA_BYTES);
}

static void write_one(uint32_t bytes)
{
    uint8_t *from = calloc(1, bytes + 1); /* of its own, so that its end is seen */
    struct pair_record record = {.bytes = bytes};
    uint32_t number;

    if (pair_write(&writer, &record, from, &number) == PAIR_BROKEN)
        pair_begin_writer(&writer, &half);
    else
        pair_withdraw(&writer, writer.tail - 1 - bytes % 100);
    check_writer();
    free(from);
}

static void read_one(void)
{
    uint8_t *to = malloc(LIMIT_CALL_BYTES);
    uint32_t head = reader.head;
    struct pair_record record;
    bool withdrawn;
    enum pair_answer answer = pair_read(&reader, &record, to, &withdrawn);

    NIGH_ASSERT(answer != PAIR_DONE || record.bytes <= LIMIT_CALL_BYTES);
    NIGH_ASSERT(reader.head == head + (answer == PAIR_DONE));
    free(to);
}

static void command(const uint8_t **data, size_t *size)
{
    uint32_t at;

    switch (next(data, size, 1) % 6) {
    case 0: write_one(next(data, size, 2) % (LIMIT_CALL_BYTES + 1)); break;
    case 1: read_one(); break;
    case 2: shared_store_relaxed(&half.head.value, next(data, size, 4)); break;
    case 3: /* the entry that is read next, as it may be */
        at = reader.head % LIMIT_PAIR_ENTRIES;
        half.entries[at].record.bytes = next(data, size, 4);
        shared_store_relaxed(&half.entries[at].commit, reader.head + 1);
        break;
    case 4: /* any word before the data */
        at = next(data, size, 2) % (offsetof(struct pair_half, data) / 4);
        ((uint32_t *)(void *)&half)[at] = next(data, size, 4);
        break;
    default: (void)pair_wants_bell(&writer); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    memset(&half, 0, offsetof(struct pair_half, data));
    pair_begin_writer(&writer, &half);
    pair_begin_reader(&reader, &half);
    while (size_bytes > 0)
        command(&data, &size_bytes);
    return 0;
}
