/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of a lane that fills and copies of regions pass through, registered where there is a
 * fabric. Those of copies sessions have by turns (lane_region_copies.c), as far as their shares go
 * (session_shares.h): one of their own, and those that are common alike. They are made many at a
 * time, as they are used: what is common first, what is sessions' own when that is not enough, and
 * not kept then. What is filled comes from a buffer that all fills with that byte share, so no
 * fill waits for another's.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "node/lane_regions.h"

#define BUFFERS_BYTES ((size_t)LIMIT_REGION_BUFFERS * LIMIT_REGION_COPY_BYTES)
#define BUFFERS_LEFT \
    (LIMIT_REGION_BUFFERS + LIMIT_REGION_BUFFERS / 2) /* free, beside those of one slab */

/* NULL: there is no memory for that. */
static uint8_t *make(struct lane_regions *at, size_t bytes, struct fabric_memory **memory)
{
    struct fabric *fabric = at->lane->config.fabric;
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (made == MAP_FAILED)
        return NULL;
    (void)madvise(made, bytes, MADV_DONTFORK);
    if (fabric != NULL && fabric_memory_register(fabric, made, bytes, FABRIC_HOST,
                                                 FABRIC_LOCAL_WRITE, memory) != NIGH_OK) {
        (void)munmap(made, bytes);
        return NULL;
    }
    return made;
}

static void unmake(struct lane_regions *at, uint8_t *made, size_t bytes,
                   struct fabric_memory *memory)
{
    if (made == NULL)
        return;
    if (memory != NULL)
        fabric_memory_deregister(at->lane->config.fabric, memory);
    (void)munmap(made, bytes);
}

/* ---- of copies ------------------------------------------------------------ */

static void put_free(struct lane_regions *at, struct region_buffers *slab, uint8_t *buffer)
{
    memcpy(buffer, &slab->free, sizeof(slab->free));
    slab->free = buffer;
    slab->free_count++;
    at->free_buffer_count++;
}

static bool make_slab(struct lane_regions *at, struct region_buffers *slab)
{
    slab->bytes = make(at, BUFFERS_BYTES, &slab->at);
    for (uint32_t n = 0; n < LIMIT_REGION_BUFFERS && slab->bytes != NULL; n++)
        put_free(at, slab, slab->bytes + (size_t)n * LIMIT_REGION_COPY_BYTES);
    return slab->bytes != NULL;
}

static void unmake_slab(struct lane_regions *at, struct region_buffers *slab)
{
    unmake(at, slab->bytes, BUFFERS_BYTES, slab->at);
    at->free_buffer_count -= slab->free_count;
    *slab = (struct region_buffers){.bytes = NULL};
}

/* NULL: there is no memory for more. */
static struct region_buffers *need_free(struct lane_regions *at)
{
    struct region_buffers *unmade = NULL;

    for (uint32_t n = 0; n < REGION_SLABS; n++) {
        struct region_buffers *slab = &at->buffers[n];

        if (slab->free_count > 0)
            return slab;
        if (unmade == NULL && slab->bytes == NULL)
            unmade = slab;
    }
    NIGH_ASSERT(unmade != NULL);
    return make_slab(at, unmade) ? unmade : NULL;
}

/* What is more than a few have in hand goes; as much is left as would be made again at once. */
static void drop_slabs(struct lane_regions *at)
{
    for (uint32_t n = 1; n < REGION_SLABS && at->free_buffer_count >= BUFFERS_LEFT; n++) {
        if (at->buffers[n].free_count == LIMIT_REGION_BUFFERS)
            unmake_slab(at, &at->buffers[n]);
    }
}

bool lane_region_buffer_take(struct lane_regions *at, struct region_copy_piece *piece)
{
    struct region_buffers *slab;

    if (!lane_region_share(at, REGION_TABLE_BUFFERS, piece->copy->slot, &piece->counts))
        return false;
    slab = need_free(at);
    if (slab == NULL) {
        session_shares_give(&at->shares, REGION_TABLE_BUFFERS, &piece->counts);
        return false;
    }
    piece->slab = slab;
    piece->buffer = slab->free;
    memcpy(&slab->free, piece->buffer, sizeof(slab->free));
    slab->free_count--;
    at->free_buffer_count--;
    return true;
}

void lane_region_buffer_give(struct lane_regions *at, struct region_copy_piece *piece)
{
    if (piece->buffer == NULL)
        return;
    session_shares_give(&at->shares, REGION_TABLE_BUFFERS, &piece->counts);
    put_free(at, piece->slab, piece->buffer);
    piece->buffer = NULL;
    drop_slabs(at);
}

/* ---- of fills ------------------------------------------------------------- */

const struct region_fill *lane_region_fill(struct lane_regions *at, uint8_t byte)
{
    struct region_fill *fill = &at->fills[byte];

    if (fill->bytes == NULL) {
        fill->bytes = make(at, LIMIT_REGION_COPY_BYTES, &fill->at);
        if (fill->bytes == NULL)
            return NULL;
        memset(fill->bytes, byte, LIMIT_REGION_COPY_BYTES);
    }
    return fill;
}

/* ---- create, destroy ------------------------------------------------------ */

nigh_status lane_region_buffers_init(struct lane_regions *at)
{
    at->copiers = calloc(at->lane->config.max_sessions, sizeof(*at->copiers));
    return at->copiers == NULL ? NIGH_NO_RESOURCES : NIGH_OK;
}

void lane_region_buffers_fini(struct lane_regions *at)
{
    for (uint32_t n = 0; n < REGION_SLABS; n++)
        unmake_slab(at, &at->buffers[n]);
    for (uint32_t n = 0; n < REGION_FILLS; n++) {
        unmake(at, at->fills[n].bytes, LIMIT_REGION_COPY_BYTES, at->fills[n].at);
        at->fills[n].bytes = NULL;
    }
    free(at->copiers);
    at->copiers = NULL;
}
