/* SPDX-License-Identifier: Apache-2.0 */
/* See sends.h. */
#include "cluster/sends.h"

#include <stdlib.h>

#include "base/check.h"

#define SENDS_A_SLAB 16u

struct sends_slab {
    struct list_node link;
    struct list free;
    uint32_t used;
    uint8_t *memory;
    struct fabric_memory *registration;
    struct send sends[SENDS_A_SLAB];
};

void sends_init(struct sends *sends, struct fabric *fabric, uint32_t frame_bytes)
{
    *sends = (struct sends){.fabric = fabric, .stride = (frame_bytes + 63) & ~63u};
    list_init(&sends->slabs);
}

static struct sends_slab *add_slab(struct sends *sends)
{
    uint64_t bytes = (uint64_t)SENDS_A_SLAB * sends->stride;
    struct sends_slab *slab = calloc(1, sizeof(*slab));

    if (slab == NULL) {
        return NULL;
    }
    slab->memory = aligned_alloc(64, bytes);
    if (slab->memory == NULL ||
        fabric_memory_register(sends->fabric, slab->memory, bytes, FABRIC_HOST, FABRIC_LOCAL_WRITE,
                               &slab->registration) != NIGH_OK) {
        free(slab->memory);
        free(slab);
        return NULL;
    }
    list_init(&slab->free);
    for (uint32_t n = 0; n < SENDS_A_SLAB; n++) {
        slab->sends[n] = (struct send){.slab = slab,
                                       .bytes = slab->memory + (size_t)n * sends->stride,
                                       .memory = slab->registration};
        list_push_back(&slab->free, &slab->sends[n].link);
    }
    list_push_front(&sends->slabs, &slab->link);
    sends->slab_count++;
    return slab;
}

static void drop_slab(struct sends *sends, struct sends_slab *slab)
{
    NIGH_ASSERT(slab->used == 0);
    list_remove(&slab->link);
    fabric_memory_deregister(sends->fabric, slab->registration);
    free(slab->memory);
    free(slab);
    sends->slab_count--;
}

void sends_fini(struct sends *sends)
{
    NIGH_ASSERT(sends->used == 0);
    LIST_FOREACH_SAFE(node, &sends->slabs)
    {
        drop_slab(sends, container_of(node, struct sends_slab, link));
    }
}

struct send *sends_take(struct sends *sends)
{
    struct sends_slab *slab = NULL;
    struct send *send;

    if (!list_empty(&sends->slabs)) {
        slab = container_of(list_first(&sends->slabs), struct sends_slab, link);
    }
    if (slab == NULL || slab->used == SENDS_A_SLAB) {
        slab = add_slab(sends);
    }
    if (slab == NULL) {
        return NULL;
    }
    send = container_of(list_pop_front(&slab->free), struct send, link);
    sends->used++;
    if (++slab->used == SENDS_A_SLAB) {
        list_remove(&slab->link);
        list_push_back(&sends->slabs, &slab->link);
    }
    return send;
}

void sends_give(struct sends *sends, struct send *send)
{
    struct sends_slab *slab = send->slab;
    bool was_full = slab->used-- == SENDS_A_SLAB;

    list_push_front(&slab->free, &send->link);
    sends->used--;
    if (was_full) {
        list_remove(&slab->link);
        list_push_front(&sends->slabs, &slab->link);
    }
    /* One slab's worth of free buffers stays, lest each frame make one and give it back. */
    if (slab->used == 0 &&
        (uint64_t)sends->slab_count * SENDS_A_SLAB - sends->used >= UINT64_C(2) * SENDS_A_SLAB) {
        drop_slab(sends, slab);
    }
}

uint64_t sends_memory_bytes(const struct sends *sends)
{
    return (uint64_t)sends->slab_count *
           (sizeof(struct sends_slab) + (uint64_t)SENDS_A_SLAB * sends->stride);
}
