/* SPDX-License-Identifier: Apache-2.0 */
/* The spill file's format: see spill_file.h. */
#include "object/spill_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"

/* Offsets in the header; the checksum of bytes 0 .. 123 stands last. */
enum {
    AT_MAGIC = 0,
    AT_FORMAT = 8,
    AT_POOL = 12,
    AT_LANE = 16,
    AT_ID = 20,
    AT_INCARNATION = 40,
    AT_META_SIZE = 44,
    AT_GENERATION = 48,
    AT_DATA_SIZE = 56,
    AT_NAME_SIZE = 64,
    AT_DATA_CRC = 68,
    AT_TAIL_CRC = 72,
    AT_HEADER_CRC = 124,
};

void spill_file_encode(const struct spill_file_header *header,
                       uint8_t bytes[SPILL_FILE_HEADER_BYTES])
{
    memset(bytes, 0, SPILL_FILE_HEADER_BYTES);
    bytes_put_u64(bytes + AT_MAGIC, SPILL_FILE_MAGIC);
    bytes_put_u32(bytes + AT_FORMAT, SPILL_FILE_FORMAT);
    bytes_put_u32(bytes + AT_POOL, header->pool);
    bytes_put_u32(bytes + AT_LANE, header->lane);
    memcpy(bytes + AT_ID, header->id, LIMIT_ID_BYTES);
    bytes_put_u32(bytes + AT_INCARNATION, header->incarnation);
    bytes_put_u32(bytes + AT_META_SIZE, header->meta_size);
    bytes_put_u64(bytes + AT_GENERATION, header->generation);
    bytes_put_u64(bytes + AT_DATA_SIZE, header->data_size);
    bytes_put_u32(bytes + AT_NAME_SIZE, header->name_size);
    bytes_put_u32(bytes + AT_DATA_CRC, header->data_crc);
    bytes_put_u32(bytes + AT_TAIL_CRC, header->tail_crc);
    bytes_put_u32(bytes + AT_HEADER_CRC, crc32c(0, bytes, AT_HEADER_CRC));
}

nigh_status spill_file_decode(const uint8_t bytes[SPILL_FILE_HEADER_BYTES],
                              struct spill_file_header *header)
{
    struct spill_file_header found;

    if (bytes_get_u64(bytes + AT_MAGIC) != SPILL_FILE_MAGIC ||
        bytes_get_u32(bytes + AT_HEADER_CRC) != crc32c(0, bytes, AT_HEADER_CRC)) {
        return NIGH_CORRUPT;
    }
    if (bytes_get_u32(bytes + AT_FORMAT) != SPILL_FILE_FORMAT) {
        return NIGH_VERSION;
    }
    memcpy(found.id, bytes + AT_ID, LIMIT_ID_BYTES);
    found.pool = bytes_get_u32(bytes + AT_POOL);
    found.lane = bytes_get_u32(bytes + AT_LANE);
    found.incarnation = bytes_get_u32(bytes + AT_INCARNATION);
    found.generation = bytes_get_u64(bytes + AT_GENERATION);
    found.data_size = bytes_get_u64(bytes + AT_DATA_SIZE);
    found.meta_size = bytes_get_u32(bytes + AT_META_SIZE);
    found.name_size = bytes_get_u32(bytes + AT_NAME_SIZE);
    found.data_crc = bytes_get_u32(bytes + AT_DATA_CRC);
    found.tail_crc = bytes_get_u32(bytes + AT_TAIL_CRC);
    if (found.data_size > LIMIT_OBJECT_BYTES || found.meta_size > LIMIT_META_BYTES ||
        found.name_size > LIMIT_NAME_BYTES || found.pool >= LIMIT_POOLS ||
        found.lane >= LIMIT_LANES) {
        return NIGH_CORRUPT;
    }
    *header = found;
    return NIGH_OK;
}

uint64_t spill_file_payload_bytes(const struct spill_file_header *header)
{
    return ((header->data_size + 7) & ~UINT64_C(7)) + header->meta_size + header->name_size;
}

bool spill_file_is_of(const struct spill_file_header *found, const struct spill_file_header *wanted)
{
    return memcmp(found->id, wanted->id, LIMIT_ID_BYTES) == 0 &&
           found->incarnation == wanted->incarnation && found->generation == wanted->generation &&
           found->pool == wanted->pool && found->lane == wanted->lane &&
           found->data_size == wanted->data_size && found->meta_size == wanted->meta_size &&
           found->name_size == wanted->name_size;
}

void spill_file_name(uint32_t pool, uint32_t lane, uint32_t incarnation, uint64_t generation,
                     char name[SPILL_FILE_NAME_BYTES])
{
    snprintf(name, SPILL_FILE_NAME_BYTES,
             "p%" PRIu32 "-l%" PRIu32 "-i%" PRIu32 "-g%016" PRIx64 ".object", pool, lane,
             incarnation, generation);
}

bool spill_file_parse_name(const char *name, uint32_t *pool, uint32_t *lane, uint32_t *incarnation,
                           uint64_t *generation, bool *temporary)
{
    char again[SPILL_FILE_NAME_BYTES];
    uint32_t p, l, i;
    uint64_t g;
    size_t length;

    if (sscanf(name, "p%10" SCNu32 "-l%10" SCNu32 "-i%10" SCNu32 "-g%16" SCNx64, &p, &l, &i, &g) !=
        4) {
        return false;
    }
    /* sscanf is lenient: only what writing the parts again gives back is such a name. */
    spill_file_name(p, l, i, g, again);
    length = strlen(again);
    if (strncmp(name, again, length) != 0 ||
        (name[length] != 0 && strcmp(name + length, ".writing") != 0)) {
        return false;
    }
    *pool = p;
    *lane = l;
    *incarnation = i;
    *generation = g;
    *temporary = name[length] != 0;
    return true;
}
