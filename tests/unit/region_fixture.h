/* SPDX-License-Identifier: Apache-2.0 */
/* A descriptor to begin with, for the tests of regions. */
#ifndef TESTS_REGION_FIXTURE_H
#define TESTS_REGION_FIXTURE_H

#include <string.h>

#include "region/descriptor.h"

#define REGION_FIXTURE_ROOM  8u
#define REGION_FIXTURE_OWNER 1000u

/* Memory for one, as long as that has room. */
struct region_fixture {
    _Alignas(struct region_descriptor) uint8_t
        bytes[sizeof(struct region_descriptor) + REGION_FIXTURE_ROOM * sizeof(struct region_chunk)];
};

static inline struct region_descriptor *region_fixture_at(struct region_fixture *fixture)
{
    return (struct region_descriptor *)(void *)fixture->bytes;
}

static inline struct region_version region_fixture_version(uint64_t counter)
{
    return (struct region_version){.epoch = 3, .incarnation = 7, .counter = counter};
}

/* Of `chunks` chunks, at nodes 1, 2, 1, ... in their seventh lives; the last is short. */
static inline struct region_descriptor *region_fixture_make(struct region_fixture *fixture,
                                                            uint32_t chunks)
{
    struct region_descriptor *descriptor = region_fixture_at(fixture);

    memset(fixture, 0, sizeof(*fixture));
    descriptor->version = region_fixture_version(2);
    descriptor->birth = region_fixture_version(1);
    descriptor->geometry =
        (struct region_geometry){.size_bytes = chunks * UINT64_C(8192) - 100, .chunk_bytes = 8192};
    descriptor->uid = REGION_FIXTURE_OWNER;
    descriptor->gid = 100;
    descriptor->group_rights = REGION_READ;
    descriptor->name_bytes = 3;
    memcpy(descriptor->name, "tab", 3);
    descriptor->chunk_count = chunks;
    for (uint32_t n = 0; n < chunks; n++) {
        descriptor->chunks[n] = (struct region_chunk){
            .node = 1 + n % 2, .incarnation = 7, .handle = {.address = 50 + n, .key = 1}};
    }
    return descriptor;
}

#endif
