/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of a lane that fills and copies of regions pass through, registered where there is a
 * fabric. Those of copies sessions have by turns (lane_region_copies.c): each may have one more as
 * long as it has fewer than are free, so that there is one for whoever comes, and of n sessions
 * that want all they can get none has more than any other (Choudhury, Hahne: ToN '98, of packets
 * of a switch). What is filled comes from a buffer that all fills with that byte share, so no fill
 * waits for another's.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "node/lane_regions.h"

#define BUFFERS_BYTES ((size_t)LIMIT_REGION_BUFFERS * LIMIT_REGION_COPY_BYTES)

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

static void put_free(struct lane_regions *at, uint8_t *buffer)
{
    memcpy(buffer, &at->free_buffers, sizeof(at->free_buffers));
    at->free_buffers = buffer;
    at->free_buffer_count++;
}

static bool need_buffers(struct lane_regions *at)
{
    if (at->buffers != NULL)
        return true;
    at->buffers = make(at, BUFFERS_BYTES, &at->buffers_at);
    for (uint32_t n = 0; n < LIMIT_REGION_BUFFERS && at->buffers != NULL; n++)
        put_free(at, at->buffers + (size_t)n * LIMIT_REGION_COPY_BYTES);
    return at->buffers != NULL;
}

uint8_t *lane_region_buffer_take(struct lane_regions *at, uint32_t slot)
{
    uint8_t *buffer;

    if (!need_buffers(at) || at->copiers[slot].buffers >= at->free_buffer_count)
        return NULL;
    buffer = at->free_buffers;
    memcpy(&at->free_buffers, buffer, sizeof(at->free_buffers));
    at->free_buffer_count--;
    at->copiers[slot].buffers++;
    return buffer;
}

void lane_region_buffer_give(struct lane_regions *at, uint32_t slot, uint8_t *buffer)
{
    if (buffer == NULL)
        return;
    at->copiers[slot].buffers--;
    put_free(at, buffer);
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
    unmake(at, at->buffers, BUFFERS_BYTES, at->buffers_at);
    at->buffers = NULL;
    for (uint32_t n = 0; n < REGION_FILLS; n++) {
        unmake(at, at->fills[n].bytes, LIMIT_REGION_COPY_BYTES, at->fills[n].at);
        at->fills[n].bytes = NULL;
    }
    free(at->copiers);
    at->copiers = NULL;
}
