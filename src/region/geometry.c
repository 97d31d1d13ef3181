/* SPDX-License-Identifier: Apache-2.0 */
/* See geometry.h. */
#include "region/geometry.h"

#include "base/check.h"

nigh_status region_geometry_check(const struct region_geometry *geometry)
{
    uint64_t chunk_bytes = geometry->chunk_bytes;

    if (geometry->size_bytes == 0 || chunk_bytes == 0 ||
        chunk_bytes % LIMIT_REGION_UNIT_BYTES != 0 || chunk_bytes > LIMIT_REGION_CHUNK_BYTES) {
        return NIGH_INVALID;
    }
    if ((geometry->size_bytes - 1) / chunk_bytes >= LIMIT_REGION_CHUNKS) {
        return NIGH_LIMIT;
    }
    return NIGH_OK;
}

uint32_t region_geometry_chunks(const struct region_geometry *geometry)
{
    return (uint32_t)((geometry->size_bytes - 1) / geometry->chunk_bytes) + 1;
}

uint64_t region_geometry_chunk_bytes(const struct region_geometry *geometry, uint32_t chunk)
{
    NIGH_ASSERT(chunk < region_geometry_chunks(geometry));
    return min_u64(geometry->chunk_bytes,
                   geometry->size_bytes - (uint64_t)chunk * geometry->chunk_bytes);
}

bool region_geometry_has(const struct region_geometry *geometry, uint64_t offset_bytes,
                         uint64_t length_bytes)
{
    return offset_bytes <= geometry->size_bytes &&
           length_bytes <= geometry->size_bytes - offset_bytes;
}

struct region_piece region_geometry_first(const struct region_geometry *geometry,
                                          uint64_t offset_bytes, uint64_t length_bytes)
{
    uint64_t within = offset_bytes % geometry->chunk_bytes;

    NIGH_ASSERT(length_bytes > 0 && region_geometry_has(geometry, offset_bytes, length_bytes));
    return (struct region_piece){
        .chunk = (uint32_t)(offset_bytes / geometry->chunk_bytes),
        .offset_bytes = within,
        .length_bytes = min_u64(length_bytes, geometry->chunk_bytes - within),
    };
}

struct region_piece region_geometry_piece(const struct region_geometry *geometry,
                                          uint64_t offset_bytes, uint64_t length_bytes,
                                          uint32_t chunk)
{
    uint64_t begin = (uint64_t)chunk * geometry->chunk_bytes;
    uint64_t from = max_u64(begin, offset_bytes);
    uint64_t to = min_u64(begin + geometry->chunk_bytes, offset_bytes + length_bytes);

    NIGH_ASSERT(chunk < region_geometry_chunks(geometry));
    NIGH_ASSERT(region_geometry_has(geometry, offset_bytes, length_bytes));
    if (from >= to) {
        return (struct region_piece){.chunk = chunk};
    }
    return (struct region_piece){
        .chunk = chunk, .offset_bytes = from - begin, .length_bytes = to - from};
}
