/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a member answers when regions are listed, or asks, from anybody: raw bytes, and an answer
 * that is right with some numbers put into it. What must hold: no assertion, and no byte beside
 * them is looked at; reading comes to an end, in the order of names; what is read is written as it
 * came.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fuzz_input.h"
#include "region/list_wire.h"

#define REGIONS 4u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static struct region_descriptor *room(void)
{
    struct region_descriptor *descriptor = calloc(1, region_descriptor_bytes(LIMIT_REGION_CHUNKS));

    NIGH_ASSERT(descriptor != NULL);
    return descriptor;
}

/* False: there is no room for the name that may end an answer, though this one has none. */
static bool write_again(struct region_list_writer *to, const struct region_listed *listed)
{
    struct region_descriptor *made = room();
    bool fits;

    made->geometry = listed->geometry;
    made->uid = listed->uid;
    made->gid = listed->gid;
    made->group_rights = (uint8_t)listed->group_rights;
    made->other_rights = (uint8_t)listed->other_rights;
    made->flags =
        (listed->is_mappable ? REGION_MAPPABLE : 0) | (listed->is_donated ? REGION_DONATED : 0);
    made->name_bytes = (uint8_t)listed->name_bytes;
    memcpy(made->name, listed->name, listed->name_bytes);
    made->grant_count = listed->grant_count;
    memcpy(made->grants, listed->grants, listed->grant_count * sizeof(made->grants[0]));
    made->chunk_count = listed->chunk_count;
    for (uint32_t n = 0; n < listed->chunk_count; n++) {
        NIGH_ASSERT(listed->nodes[n] < LIMIT_NODES || listed->nodes[n] == REGION_NOBODY);
        made->chunks[n].node = listed->nodes[n];
    }
    fits = region_list_put(to, made, listed->rights);
    free(made);
    return fits;
}

static void check_one(const struct region_listed *listed, const char *last, uint32_t last_bytes)
{
    NIGH_ASSERT(listed->name_bytes > 0 && listed->name_bytes <= LIMIT_REGION_NAME_BYTES);
    NIGH_ASSERT(listed->chunk_count > 0 && listed->chunk_count <= LIMIT_REGION_CHUNKS);
    NIGH_ASSERT(listed->grant_count <= LIMIT_REGION_GRANTS && listed->rights != 0);
    NIGH_ASSERT(region_name_compare(listed->name, listed->name_bytes, last, last_bytes) > 0);
}

static void read_answer(const uint8_t *bytes, size_t size_bytes, const char *after,
                        uint32_t after_bytes)
{
    uint8_t *copy = malloc(size_bytes + 1); /* its own memory, so that reading behind it is seen */
    uint8_t *again = calloc(1, REGION_LIST_BYTES);
    static struct region_listed listed;
    struct region_list_reader from;
    struct region_list_writer to;
    char last[LIMIT_REGION_NAME_BYTES];
    uint32_t last_bytes = after_bytes, count = 0;
    bool fits = true;
    nigh_status status;

    NIGH_ASSERT(copy != NULL && again != NULL);
    memcpy(copy, bytes, size_bytes);
    memcpy(last, after, after_bytes);
    region_list_begin(&to, again);
    status = region_list_open(&from, copy, (uint32_t)size_bytes, after, after_bytes);
    while (status == NIGH_OK && (status = region_list_next(&from, &listed)) == NIGH_OK) {
        check_one(&listed, last, last_bytes);
        NIGH_ASSERT(++count <= size_bytes);
        last_bytes = listed.name_bytes;
        memcpy(last, listed.name, last_bytes);
        fits = fits && write_again(&to, &listed);
    }
    NIGH_ASSERT(status == NIGH_NOT_FOUND || status == NIGH_PROTOCOL);
    if (status == NIGH_NOT_FOUND && fits) {
        NIGH_ASSERT(region_list_end(&to, from.has_more ? from.through : NULL, from.through_bytes) ==
                    size_bytes);
        NIGH_ASSERT(memcmp(again, bytes, size_bytes) == 0);
    }
    free(again);
    free(copy);
}

static void read_ask(const uint8_t *bytes, size_t size_bytes)
{
    uint8_t *copy = malloc(size_bytes + 1);
    uint8_t again[REGION_LIST_ASK_BYTES];
    struct region_list_ask ask;

    NIGH_ASSERT(copy != NULL);
    memcpy(copy, bytes, size_bytes);
    if (region_list_ask_decode(copy, size_bytes, &ask) == NIGH_OK) {
        NIGH_ASSERT(ask.after_bytes <= LIMIT_REGION_NAME_BYTES);
        NIGH_ASSERT(region_list_ask_encode(&ask, again) == size_bytes);
        NIGH_ASSERT(memcmp(again, bytes, size_bytes) == 0);
    }
    free(copy);
}

/* Of small regions, so that most of what is changed in it is looked at; some out of order. */
static uint32_t make_answer(struct fuzz_input *input, uint8_t *bytes)
{
    uint32_t count = fuzz_byte(input) % (REGIONS + 1);
    struct region_descriptor *made = room();
    struct region_list_writer to;

    region_list_begin(&to, bytes);
    for (uint32_t n = 0; n < count; n++) {
        made->chunk_count = 1 + fuzz_byte(input) % 4;
        made->geometry = (struct region_geometry){.size_bytes = made->chunk_count * UINT64_C(4096),
                                                  .chunk_bytes = 4096};
        made->uid = 1;
        made->name_bytes = 1 + fuzz_byte(input) % LIMIT_REGION_NAME_BYTES;
        memset(made->name, (int)('b' + n - (fuzz_byte(input) % 8 == 1)), made->name_bytes);
        made->grant_count = fuzz_byte(input) % 3;
        for (uint32_t grant = 0; grant < made->grant_count; grant++) {
            made->grants[grant] = (struct region_grant){.uid = 2 + grant, .rights = REGION_READ};
        }
        NIGH_ASSERT(region_list_put(&to, made, REGION_READ));
    }
    free(made);
    return fuzz_byte(input) % 2 == 0 ? region_list_end(&to, NULL, 0)
                                     : region_list_end(&to, "zz", 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct fuzz_input input = {.bytes = data, .left = size_bytes};
    static uint8_t bytes[REGION_LIST_BYTES];
    uint8_t kind = fuzz_byte(&input);
    uint32_t count;

    if (kind % 4 == 0) {
        read_ask(input.bytes, input.left);
        return 0;
    }
    if (kind % 4 == 1) {
        read_answer(input.bytes, input.left, "a", kind / 4 % 2);
        return 0;
    }
    count = make_answer(&input, bytes);
    read_answer(bytes, count, "a", 1);
    while (input.left > 0) {
        fuzz_patch(&input, bytes, count);
        read_answer(bytes, count - (kind / 4) % count, "a", 1);
    }
    return 0;
}
