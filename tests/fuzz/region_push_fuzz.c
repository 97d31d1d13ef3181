/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a member is asked to bring to another, and is brought, from anybody: raw bytes, and such
 * that are right with some numbers put into them. What must hold: no assertion, and no byte beside
 * them is looked at; what is read is written as it came.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fuzz_input.h"
#include "region/push_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void read_push(const uint8_t *bytes, size_t size_bytes)
{
    uint8_t *copy = malloc(size_bytes + 1); /* its own memory, so that reading behind it is seen */
    uint8_t again[REGION_PUSH_BYTES];
    struct region_push push;

    NIGH_ASSERT(copy != NULL);
    memcpy(copy, bytes, size_bytes);
    if (region_push_decode(copy, size_bytes, &push) == NIGH_OK) {
        NIGH_ASSERT(push.bytes > 0 && push.bytes <= LIMIT_REGION_COPY_BYTES);
        NIGH_ASSERT(region_push_encode(&push, again) == size_bytes);
        NIGH_ASSERT(memcmp(again, bytes, size_bytes) == 0);
    }
    free(copy);
}

static void read_put(const uint8_t *bytes, size_t size_bytes)
{
    uint8_t *copy = malloc(size_bytes + 1);
    uint8_t again[REGION_PUT_HEAD_BYTES];
    struct region_spot to;
    size_t head;

    NIGH_ASSERT(copy != NULL);
    memcpy(copy, bytes, size_bytes);
    if (region_put_decode(copy, size_bytes, &to, &head) == NIGH_OK) {
        NIGH_ASSERT(head < size_bytes && size_bytes - head <= REGION_PUT_BYTES);
        NIGH_ASSERT(region_put_encode(&to, again) == head);
        NIGH_ASSERT(memcmp(again, bytes, head) == 0);
    }
    free(copy);
}

static struct region_spot make_spot(struct fuzz_input *input)
{
    struct region_spot spot = {.handle = {.address = fuzz_byte(input), .key = fuzz_byte(input)},
                               .offset_bytes = fuzz_byte(input),
                               .chunk = fuzz_byte(input) % LIMIT_REGION_CHUNKS,
                               .name_bytes = 1 + fuzz_byte(input) % LIMIT_REGION_NAME_BYTES};

    memset(spot.name, 'a' + fuzz_byte(input) % 26, spot.name_bytes);
    return spot;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct fuzz_input input = {.bytes = data, .left = size_bytes};
    uint8_t bytes[REGION_PUSH_BYTES + 64] = {0};
    uint8_t kind = fuzz_byte(&input);
    struct region_push push;
    uint32_t count;

    if (kind % 4 == 0)
        read_push(input.bytes, input.left);
    if (kind % 4 == 1)
        read_put(input.bytes, input.left);
    if (kind % 4 < 2)
        return 0;
    push = (struct region_push){.from = make_spot(&input),
                                .to = make_spot(&input),
                                .bytes = 1 + fuzz_byte(&input),
                                .node = fuzz_byte(&input),
                                .incarnation = fuzz_byte(&input)};
    count = (uint32_t)(kind % 4 == 2 ? region_push_encode(&push, bytes)
                                     : region_put_encode(&push.to, bytes) + 1 + kind / 4);
    do {
        if (kind % 4 == 2)
            read_push(bytes, count);
        else
            read_put(bytes, count);
        if (input.left > 0)
            fuzz_patch(&input, bytes, count);
    } while (input.left > 0);
    return 0;
}
