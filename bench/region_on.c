/* SPDX-License-Identifier: Apache-2.0 */
/* See region_on.h. */
#include "region_on.h"

#include <unistd.h>

#include "harness.h"

nigh_region *region_on(nigh_client *client, const char *name, uint32_t rank, uint32_t chunks,
                       uint64_t chunk_bytes, uint64_t patience_us)
{
    nigh_region_spec spec = {.struct_size = sizeof spec,
                             .name = name,
                             .size = chunks * chunk_bytes,
                             .chunk_size = chunk_bytes,
                             .where = NIGH_REGION_ON,
                             .rank = rank};
    uint64_t until_ns = bench_now_ns() + patience_us * 1000;
    nigh_region *region = NULL;

    while (nigh_region_create(client, &spec, patience_us, &region) != NIGH_OK &&
           nigh_region_open(client, name, NIGH_REGION_ALL, patience_us, &region) != NIGH_OK) {
        if (bench_now_ns() > until_ns) {
            bench_fail("the nodes do not find each other");
        }
        (void)usleep(1000);
    }
    return region;
}
