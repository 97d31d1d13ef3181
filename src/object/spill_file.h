/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that holds one spilled object: a header of 128 bytes, then data, metadata and name as
 * they lay in memory.
 *
 * This is the format alone, pure: no file is opened here. Everything in a file may be torn,
 * truncated or another's; a header is believed only if its own checksum holds and it names the very
 * object that is wanted, and bytes only if theirs holds. Numbers are little-endian.
 */
#ifndef OBJECT_SPILL_FILE_H
#define OBJECT_SPILL_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"

#define SPILL_FILE_MAGIC        UINT64_C(0x4c4c49505348474e) /* "NGHSPILL" */
#define SPILL_FILE_FORMAT       1u
#define SPILL_FILE_HEADER_BYTES 128u

struct spill_file_header {
    uint8_t id[LIMIT_ID_BYTES];
    uint32_t incarnation; /* with the generation: the birth */
    uint64_t generation;
    uint32_t pool;
    uint32_t lane;
    uint64_t data_size;
    uint32_t meta_size;
    uint32_t name_size;
    uint32_t data_crc; /* CRC32C of the data */
    uint32_t tail_crc; /* CRC32C of what follows the data: padding, metadata, name */
};

void spill_file_encode(const struct spill_file_header *header,
                       uint8_t bytes[SPILL_FILE_HEADER_BYTES]);

/*
 * NIGH_CORRUPT: not a header (magic, checksum, sizes out of range); NIGH_VERSION: a later format.
 * *header is written on success only. Any 128 bytes may be handed in.
 */
nigh_status spill_file_decode(const uint8_t bytes[SPILL_FILE_HEADER_BYTES],
                              struct spill_file_header *header);

/* Bytes behind the header: data, padding to 8, metadata, name. */
uint64_t spill_file_payload_bytes(const struct spill_file_header *header);

/* Whether `found` is of the object that `wanted` names (everything but the checksums). */
bool spill_file_is_of(const struct spill_file_header *found,
                      const struct spill_file_header *wanted);

/* "p3-l0-i1-g00000000000000ff.object"; and whether a directory entry has that form (or the
 * temporary one). */
#define SPILL_FILE_NAME_BYTES 64
void spill_file_name(uint32_t pool, uint32_t lane, uint32_t incarnation, uint64_t generation,
                     char name[SPILL_FILE_NAME_BYTES]);

/* The parts of a name; false when it is none. `temporary`: it ends in ".writing". */
bool spill_file_parse_name(const char *name, uint32_t *pool, uint32_t *lane, uint32_t *incarnation,
                           uint64_t *generation, bool *temporary);

#endif
