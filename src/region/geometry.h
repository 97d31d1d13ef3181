/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a region is cut: chunks of one size, the last of which may be short; and which pieces of
 * which chunks a range is (docs/regions.md).
 *
 * Pure; any thread.
 */
#ifndef REGION_GEOMETRY_H
#define REGION_GEOMETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"

struct region_geometry {
    uint64_t size_bytes;  /* of the region */
    uint64_t chunk_bytes; /* a multiple of LIMIT_REGION_UNIT_BYTES */
};

/* A range within one chunk. */
struct region_piece {
    uint32_t chunk;
    uint64_t offset_bytes; /* from the chunk's begin */
    uint64_t length_bytes;
};

/* NIGH_INVALID: no size, or not a size of a chunk; NIGH_LIMIT: it would be too many chunks. */
nigh_status region_geometry_check(const struct region_geometry *geometry);

/* Of one that is right. */
uint32_t region_geometry_chunks(const struct region_geometry *geometry);

/* How much of a chunk belongs to the region: the chunk's size, save of the last one. */
uint64_t region_geometry_chunk_bytes(const struct region_geometry *geometry, uint32_t chunk);

/* Whether all of a range is in the region. Nothing is, at its end too. */
bool region_geometry_has(const struct region_geometry *geometry, uint64_t offset_bytes,
                         uint64_t length_bytes);

/*
 * The first piece of a range that is in the region, and not of no length. The rest of the range
 * begins where the piece ends.
 */
struct region_piece region_geometry_first(const struct region_geometry *geometry,
                                          uint64_t offset_bytes, uint64_t length_bytes);

/* The piece of such a range that lies in one chunk; of no length, where none does. */
struct region_piece region_geometry_piece(const struct region_geometry *geometry,
                                          uint64_t offset_bytes, uint64_t length_bytes,
                                          uint32_t chunk);

#endif
