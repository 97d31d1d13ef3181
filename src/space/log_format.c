/* SPDX-License-Identifier: Apache-2.0 */
/* See log_format.h. */
#include "space/log_format.h"

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/crc32c.h"

#define BATCH_MAGIC UINT32_C(0x534c474e) /* "NGLS" */

/* Offsets in a batch's head; the checksum is of all behind it. */
enum {
    AT_MAGIC = 0,
    AT_CRC = 4,
    AT_FORMAT = 8,
    AT_SORT = 10,
    AT_SIZE = 12,
    AT_IDENTITY = 16,
    AT_LIFE = 24,
    AT_GENERATION = 32,
    AT_FIRST = 40,
    AT_RECORDS = 48,
};

/* Offsets in a record. */
enum {
    AT_KIND = 0,
    AT_SEAT = 1,
    AT_IS_OURS = 2,
    AT_LENGTH = 4,
    AT_ADDRESS = 8,
    AT_TERM = 16,
    AT_COUNT = 20,
    AT_OFFSET = 24,
    AT_BLOCKS = 28,
};

#define KIND(name, has_bytes, what) [SPACE_LOG_##name] = {#name, what, has_bytes},
static const struct {
    const char *name, *what;
    bool has_bytes;
} kinds[SPACE_LOG_KINDS] = {SPACE_LOG_TABLE(KIND)};
#undef KIND

const char *space_log_kind_name(uint8_t kind)
{
    return kind < SPACE_LOG_KINDS ? kinds[kind].name : "?";
}

const char *space_log_kind_what(uint8_t kind)
{
    return kind < SPACE_LOG_KINDS ? kinds[kind].what : "?";
}

bool space_log_kind_has_bytes(uint8_t kind)
{
    return kind < SPACE_LOG_KINDS && kinds[kind].has_bytes;
}

/* ---- records -------------------------------------------------------------- */

static uint32_t padded(uint32_t length)
{
    return (length + 7) & ~UINT32_C(7);
}

uint32_t space_log_record_bytes(const struct space_log_record *record)
{
    return SPACE_LOG_RECORD_BYTES + padded(record->length);
}

void space_log_put_record(uint8_t *out, const struct space_log_record *record)
{
    NIGH_ASSERT(record->kind != SPACE_LOG_NOTHING && record->kind < SPACE_LOG_KINDS);
    NIGH_ASSERT(kinds[record->kind].has_bytes == (record->length > 0));
    NIGH_ASSERT(record->length <= LIMIT_SPACE_BLOCK_BYTES);
    memset(out, 0, SPACE_LOG_RECORD_BYTES);
    out[AT_KIND] = record->kind;
    out[AT_SEAT] = record->seat;
    out[AT_IS_OURS] = record->is_ours ? 1 : 0;
    bytes_put_u32(out + AT_LENGTH, record->length);
    bytes_put_u64(out + AT_ADDRESS, record->address);
    bytes_put_u32(out + AT_TERM, record->epoch.term);
    bytes_put_u32(out + AT_COUNT, record->epoch.count);
    bytes_put_u32(out + AT_OFFSET, record->offset);
    bytes_put_u32(out + AT_BLOCKS, record->blocks);
    if (record->length > 0) {
        out += SPACE_LOG_RECORD_BYTES;
        memcpy(out, record->bytes, record->length);
        memset(out + record->length, 0, padded(record->length) - record->length);
    }
}

bool space_log_next_record(const struct space_log_batch *batch, uint32_t *at,
                           struct space_log_record *record)
{
    const uint8_t *head = batch->bytes + *at;
    uint32_t left = batch->size_bytes - *at, length;

    if (left < SPACE_LOG_RECORD_BYTES) {
        return false;
    }
    length = bytes_get_u32(head + AT_LENGTH);
    if (head[AT_KIND] == SPACE_LOG_NOTHING || head[AT_KIND] >= SPACE_LOG_KINDS ||
        head[AT_IS_OURS] > 1 || length > LIMIT_SPACE_BLOCK_BYTES ||
        padded(length) > left - SPACE_LOG_RECORD_BYTES ||
        kinds[head[AT_KIND]].has_bytes != (length > 0)) {
        return false;
    }
    *record = (struct space_log_record){
        .kind = head[AT_KIND],
        .seat = head[AT_SEAT],
        .is_ours = head[AT_IS_OURS] != 0,
        .address = bytes_get_u64(head + AT_ADDRESS),
        .epoch = {bytes_get_u32(head + AT_TERM), bytes_get_u32(head + AT_COUNT)},
        .offset = bytes_get_u32(head + AT_OFFSET),
        .blocks = bytes_get_u32(head + AT_BLOCKS),
        .length = length,
        .bytes = length > 0 ? head + SPACE_LOG_RECORD_BYTES : NULL,
    };
    *at += SPACE_LOG_RECORD_BYTES + padded(length);
    return true;
}

/* ---- batches -------------------------------------------------------------- */

static uint32_t to_sector(uint32_t size_bytes)
{
    return (uint32_t)align_up_u64(size_bytes, SPACE_LOG_SECTOR);
}

uint32_t space_log_seal_batch(uint8_t *bytes, uint32_t size_bytes,
                              const struct space_log_name *name, uint64_t first, uint32_t records)
{
    uint32_t whole = to_sector(size_bytes);

    NIGH_ASSERT(size_bytes > SPACE_LOG_HEAD_BYTES && whole <= LIMIT_SPACE_LOG_BATCH && records > 0);
    memset(bytes, 0, SPACE_LOG_HEAD_BYTES);
    memset(bytes + size_bytes, 0, whole - size_bytes);
    bytes_put_u32(bytes + AT_MAGIC, BATCH_MAGIC);
    bytes_put_u16(bytes + AT_FORMAT, SPACE_LOG_FORMAT);
    bytes_put_u16(bytes + AT_SORT, name->is_image ? 1 : 0);
    bytes_put_u32(bytes + AT_SIZE, size_bytes);
    bytes_put_u64(bytes + AT_IDENTITY, name->identity);
    bytes_put_u64(bytes + AT_LIFE, name->life);
    bytes_put_u64(bytes + AT_GENERATION, name->generation);
    bytes_put_u64(bytes + AT_FIRST, first);
    bytes_put_u32(bytes + AT_RECORDS, records);
    bytes_put_u32(bytes + AT_CRC, crc32c(0, bytes + AT_FORMAT, size_bytes - AT_FORMAT));
    return whole;
}

uint32_t space_log_batch_bytes(const uint8_t head[SPACE_LOG_HEAD_BYTES])
{
    uint32_t size_bytes = bytes_get_u32(head + AT_SIZE);

    if (bytes_get_u32(head + AT_MAGIC) != BATCH_MAGIC || size_bytes > LIMIT_SPACE_LOG_BATCH ||
        size_bytes < SPACE_LOG_HEAD_BYTES + SPACE_LOG_RECORD_BYTES) {
        return 0;
    }
    return to_sector(size_bytes);
}

nigh_status space_log_open_batch(const uint8_t *bytes, size_t size_bytes,
                                 struct space_log_batch *batch)
{
    uint32_t whole = size_bytes < SPACE_LOG_HEAD_BYTES ? 0 : space_log_batch_bytes(bytes);
    uint32_t used;

    if (whole == 0 || whole > size_bytes) {
        return NIGH_NOT_FOUND;
    }
    used = bytes_get_u32(bytes + AT_SIZE);
    if (bytes_get_u32(bytes + AT_CRC) != crc32c(0, bytes + AT_FORMAT, used - AT_FORMAT)) {
        return NIGH_NOT_FOUND;
    }
    if (bytes_get_u16(bytes + AT_FORMAT) != SPACE_LOG_FORMAT) {
        return NIGH_VERSION;
    }
    if (bytes_get_u32(bytes + AT_RECORDS) == 0 || bytes_get_u16(bytes + AT_SORT) > 1) {
        return NIGH_NOT_FOUND;
    }
    *batch = (struct space_log_batch){
        .bytes = bytes + SPACE_LOG_HEAD_BYTES,
        .size_bytes = used - SPACE_LOG_HEAD_BYTES,
        .records = bytes_get_u32(bytes + AT_RECORDS),
        .first = bytes_get_u64(bytes + AT_FIRST),
        .whole = whole,
        .name =
            {
                .identity = bytes_get_u64(bytes + AT_IDENTITY),
                .life = bytes_get_u64(bytes + AT_LIFE),
                .generation = bytes_get_u64(bytes + AT_GENERATION),
                .is_image = bytes_get_u16(bytes + AT_SORT) == 1,
            },
    };
    return NIGH_OK;
}

bool space_log_name_equal(const struct space_log_name *a, const struct space_log_name *b)
{
    return a->identity == b->identity && a->life == b->life && a->generation == b->generation &&
           a->is_image == b->is_image;
}
