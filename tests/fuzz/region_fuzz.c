/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A descriptor of a region, or an ask for a change of one, from anybody: raw bytes, and a
 * descriptor that is right with some numbers put into it. What must hold: no assertion; what is
 * read is valid and is written as it came.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fuzz_input.h"
#include "region/ask_wire.h"
#include "region/descriptor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void read_one(const uint8_t *bytes, size_t size_bytes, uint32_t room)
{
    struct region_descriptor *descriptor = malloc(region_descriptor_bytes(room));
    uint8_t *copy = malloc(size_bytes + 1); /* its own memory, so that reading behind it is seen */
    uint8_t again[REGION_WIRE_BYTES];

    NIGH_ASSERT(descriptor != NULL && copy != NULL);
    memcpy(copy, bytes, size_bytes);
    if (region_descriptor_decode(copy, size_bytes, room, descriptor) == NIGH_OK) {
        NIGH_ASSERT(region_descriptor_is_valid(descriptor) && descriptor->chunk_count <= room);
        NIGH_ASSERT(region_descriptor_encode(descriptor, again) == size_bytes);
        NIGH_ASSERT(memcmp(again, bytes, size_bytes) == 0);
        NIGH_ASSERT(region_descriptor_rights(descriptor, descriptor->uid, 0) == REGION_ALL);
    } else {
        NIGH_ASSERT(region_descriptor_is_none(descriptor));
    }
    free(copy);
    free(descriptor);
}

static void read_ask(const uint8_t *bytes, size_t size_bytes)
{
    uint8_t *copy = malloc(size_bytes + 1);
    uint8_t again[REGION_ASK_BYTES];
    struct region_asking asking;

    NIGH_ASSERT(copy != NULL);
    memcpy(copy, bytes, size_bytes);
    if (region_ask_decode(copy, size_bytes, &asking) == NIGH_OK) {
        NIGH_ASSERT(asking.ask.kind < REGION_ASKS && asking.ask.node_count <= LIMIT_REGION_CHUNKS);
        NIGH_ASSERT(region_ask_encode(&asking.ask, again) == size_bytes);
        NIGH_ASSERT(memcmp(again, bytes, size_bytes) == 0);
    }
    free(copy);
}

/* As large as its bytes say, so that most of what is changed in it is looked at. */
static size_t make_one(struct fuzz_input *input, uint8_t *bytes)
{
    struct region_descriptor *made = calloc(1, region_descriptor_bytes(LIMIT_REGION_CHUNKS));
    uint32_t chunks = 1 + fuzz_byte(input) % 8, users = fuzz_byte(input) % 4;
    size_t size_bytes;

    NIGH_ASSERT(made != NULL);
    made->version = (struct region_version){.epoch = 1, .incarnation = 2, .counter = 9};
    made->birth = (struct region_version){.epoch = 1, .incarnation = 2, .counter = 1};
    made->geometry =
        (struct region_geometry){.size_bytes = chunks * UINT64_C(4096), .chunk_bytes = 4096};
    made->name_bytes = 1 + fuzz_byte(input) % LIMIT_REGION_NAME_BYTES;
    memset(made->name, 'n', made->name_bytes);
    for (uint32_t n = 0; n < users; n++) {
        (void)region_descriptor_grant(made, 1 + fuzz_byte(input), fuzz_byte(input) & REGION_ALL,
                                      fuzz_byte(input) & REGION_ALL);
    }
    made->chunk_count = chunks;
    for (uint32_t n = 0; n < chunks; n++) {
        made->chunks[n] = (struct region_chunk){
            .node = n, .incarnation = 1 + n, .handle = {.address = n, .key = n % 3}};
    }
    size_bytes = region_descriptor_encode(made, bytes);
    free(made);
    return size_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct fuzz_input input = {.bytes = data, .left = size_bytes};
    uint8_t bytes[REGION_WIRE_BYTES];
    uint8_t kind = fuzz_byte(&input);

    if (kind == 1) {
        read_ask(input.bytes, input.left);
        return 0;
    }
    if (kind % 2 == 0) {
        read_one(input.bytes, input.left, kind / 2);
        return 0;
    }
    size_bytes = make_one(&input, bytes);
    while (input.left > 0) {
        fuzz_patch(&input, bytes, size_bytes);
        read_one(bytes, size_bytes, LIMIT_REGION_CHUNKS);
    }
    return 0;
}
