/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a spill file's header and name: nothing but what was encoded decodes, and what
 * decodes encodes back. */
#include <stddef.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "object/spill_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void try_header(uint8_t bytes[SPILL_FILE_HEADER_BYTES])
{
    struct spill_file_header header;
    uint8_t again[SPILL_FILE_HEADER_BYTES];

    if (spill_file_decode(bytes, &header) != NIGH_OK) {
        return;
    }
    NIGH_ASSERT(spill_file_payload_bytes(&header) <=
                LIMIT_OBJECT_BYTES + 8 + LIMIT_META_BYTES + LIMIT_NAME_BYTES);
    spill_file_encode(&header, again);
    spill_file_decode(again, &header);
}

static void try_name(const uint8_t *data, size_t size_bytes)
{
    char name[128], again[SPILL_FILE_NAME_BYTES];
    uint32_t pool, lane, incarnation;
    uint64_t generation;
    bool temporary;

    size_bytes = size_bytes < sizeof name - 1 ? size_bytes : sizeof name - 1;
    memcpy(name, data, size_bytes);
    name[size_bytes] = 0;
    if (spill_file_parse_name(name, &pool, &lane, &incarnation, &generation, &temporary)) {
        spill_file_name(pool, lane, incarnation, generation, again);
        NIGH_ASSERT(strncmp(again, name, strlen(again)) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    uint8_t bytes[SPILL_FILE_HEADER_BYTES] = {0};

    try_name(data, size_bytes);
    memcpy(bytes, data, size_bytes < sizeof bytes ? size_bytes : sizeof bytes);
    try_header(bytes);
    /* With a right magic and checksum, so that the fuzzer gets behind them. */
    bytes_put_u64(bytes, SPILL_FILE_MAGIC);
    bytes_put_u32(bytes + 124, crc32c(0, bytes, 124));
    try_header(bytes);
    return 0;
}
