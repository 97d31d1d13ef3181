/* SPDX-License-Identifier: Apache-2.0 */
/* A region on one node of a cluster that has just begun. */
#ifndef BENCH_REGION_ON_H
#define BENCH_REGION_ON_H

#include <stdint.h>

#include "nigh/region.h"

/* `chunks` chunks of `chunk_bytes`, as soon as the nodes have found each other; or the one of that
 * name that an attempt made which did not hear of it. */
nigh_region *region_on(nigh_client *client, const char *name, uint32_t rank, uint32_t chunks,
                       uint64_t chunk_bytes, uint64_t patience_us);

#endif
