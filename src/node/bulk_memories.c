/* SPDX-License-Identifier: Apache-2.0 */
/* See node/bulk_memories.h. */
#include "node/bulk_memories.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

struct bulk_memories {
    uint32_t lanes;
    void (*kick)(void *context, uint32_t lane);
    void *context;
    _Atomic uint64_t version; /* written locked: counts what lanes are to look at */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t serial;
    struct bulk_memory all[LIMIT_BULKS];
    _Atomic uint64_t seen[LIMIT_LANES]; /* each by its lane */
};

nigh_status bulk_memories_create(uint32_t lanes, void (*kick)(void *context, uint32_t lane),
                                 void *context, struct bulk_memories **out)
{
    struct bulk_memories *memories = calloc(1, sizeof(*memories));
    pthread_condattr_t attributes;

    if (memories == NULL)
        return NIGH_NO_RESOURCES;
    memories->lanes = lanes;
    memories->kick = kick;
    memories->context = context;
    (void)pthread_mutex_init(&memories->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&memories->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    *out = memories;
    return NIGH_OK;
}

void bulk_memories_destroy(struct bulk_memories *memories)
{
    if (memories == NULL)
        return;
    (void)pthread_cond_destroy(&memories->changed);
    (void)pthread_mutex_destroy(&memories->lock);
    free(memories);
}

/* Locked. */
static struct bulk_memory *find(struct bulk_memories *memories, uint64_t number)
{
    for (uint32_t n = 0; n < LIMIT_BULKS && number != 0; n++) {
        if (memories->all[n].number == number)
            return &memories->all[n];
    }
    return NULL;
}

nigh_status bulk_memories_add(struct bulk_memories *memories, const struct session_memory *memory,
                              uint64_t *number)
{
    nigh_status status = NIGH_LIMIT;

    (void)pthread_mutex_lock(&memories->lock);
    for (uint32_t n = 0; n < LIMIT_BULKS && status != NIGH_OK; n++) {
        if (memories->all[n].number == 0) {
            memories->all[n] =
                (struct bulk_memory){.memory = *memory, .number = ++memories->serial};
            *number = memories->serial;
            status = NIGH_OK;
        }
    }
    (void)pthread_mutex_unlock(&memories->lock);
    return status;
}

/* Locked. */
static void tell_lanes(struct bulk_memories *memories)
{
    atomic_fetch_add_explicit(&memories->version, 1, memory_order_release);
    for (uint32_t lane = 0; lane < memories->lanes; lane++)
        memories->kick(memories->context, lane);
}

/* Until something changes; false: it is too late. Locked. */
static bool wait_for_change(struct bulk_memories *memories, uint64_t deadline_us)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_us / 1000000),
                             .tv_nsec = (long)(deadline_us % 1000000) * 1000};

    if (deadline_us == UINT64_MAX) {
        (void)pthread_cond_wait(&memories->changed, &memories->lock);
        return true;
    }
    return pthread_cond_timedwait(&memories->changed, &memories->lock, &until) == 0;
}

nigh_status bulk_memories_remove(struct bulk_memories *memories, uint64_t number,
                                 uint64_t timeout_us, bool force)
{
    uint64_t deadline_us = clock_deadline_us(clock_now_us(&clock_monotonic), timeout_us);
    struct bulk_memory *memory;
    bool in_time = true;

    (void)pthread_mutex_lock(&memories->lock);
    memory = find(memories, number);
    memory->going = true;
    memory->forced = force;
    if (memory->uses > 0 && force)
        tell_lanes(memories);
    while (memory->uses > 0 && in_time)
        in_time = wait_for_change(memories, deadline_us);
    if (memory->uses == 0) {
        /* Lanes take their turns whatever a peer does: that needs no deadline. */
        if (memory->registered > 0)
            tell_lanes(memories);
        while (memory->registered > 0)
            (void)wait_for_change(memories, UINT64_MAX);
        memory->number = 0;
        in_time = true;
    }
    memory->going = memory->forced = false;
    (void)pthread_mutex_unlock(&memories->lock);
    return in_time ? NIGH_OK : NIGH_TIMEOUT;
}

nigh_status bulk_memories_wait(struct bulk_memories *memories, uint64_t number, uint64_t timeout_us)
{
    uint64_t deadline_us = clock_deadline_us(clock_now_us(&clock_monotonic), timeout_us);
    struct bulk_memory *memory;
    bool in_time = true, is_free;

    (void)pthread_mutex_lock(&memories->lock);
    memory = find(memories, number);
    memory->waiting++;
    while (memory->uses > 0 && in_time)
        in_time = wait_for_change(memories, deadline_us);
    is_free = memory->uses == 0;
    memory->waiting--;
    (void)pthread_mutex_unlock(&memories->lock);
    return is_free ? NIGH_OK : NIGH_TIMEOUT;
}

/* ---- by a lane's driver ---- */

struct bulk_memory *bulk_memories_take(struct bulk_memories *memories, uint64_t number,
                                       uint64_t session)
{
    struct bulk_memory *memory;

    (void)pthread_mutex_lock(&memories->lock);
    memory = find(memories, number);
    if (memory != NULL && (memory->going || memory->memory.session != session))
        memory = NULL;
    if (memory != NULL)
        memory->uses++;
    (void)pthread_mutex_unlock(&memories->lock);
    return memory;
}

void bulk_memories_give(struct bulk_memories *memories, struct bulk_memory *memory)
{
    (void)pthread_mutex_lock(&memories->lock);
    if (--memory->uses == 0 && (memory->going || memory->waiting > 0))
        (void)pthread_cond_broadcast(&memories->changed);
    (void)pthread_mutex_unlock(&memories->lock);
}

nigh_status bulk_memories_register(struct bulk_memories *memories, struct bulk_memory *memory,
                                   uint32_t lane, struct fabric *fabric)
{
    uint32_t access = memory->memory.access;
    uint32_t rights = ((access & SESSION_MEMORY_READ) != 0 ? FABRIC_REMOTE_READ : 0) |
                      ((access & SESSION_MEMORY_WRITE) != 0 ? FABRIC_LOCAL_WRITE : 0);
    nigh_status status;

    if (memory->at[lane] != NULL || fabric == NULL)
        return NIGH_OK;
    status = fabric_memory_register(fabric, memory->memory.address, memory->memory.bytes,
                                    FABRIC_HOST, rights, &memory->at[lane]);
    if (status != NIGH_OK) {
        memory->at[lane] = NULL;
        return status;
    }
    (void)pthread_mutex_lock(&memories->lock);
    memory->registered++;
    (void)pthread_mutex_unlock(&memories->lock);
    return NIGH_OK;
}

bool bulk_memories_have_news(const struct bulk_memories *memories, uint32_t lane)
{
    return atomic_load_explicit(&memories->version, memory_order_acquire) !=
           atomic_load_explicit(&memories->seen[lane], memory_order_relaxed);
}

void bulk_memories_turn(struct bulk_memories *memories, uint32_t lane, struct fabric *fabric,
                        void (*breaks)(void *context, const struct bulk_memory *memory),
                        void *context)
{
    uint64_t version = atomic_load_explicit(&memories->version, memory_order_acquire);

    for (uint32_t n = 0; n < LIMIT_BULKS; n++) {
        struct bulk_memory *memory = &memories->all[n];
        bool goes, forced;

        (void)pthread_mutex_lock(&memories->lock);
        goes = memory->number != 0 && memory->going && memory->uses == 0;
        forced = memory->number != 0 && memory->forced && memory->uses > 0;
        (void)pthread_mutex_unlock(&memories->lock);
        if (forced)
            breaks(context, memory);
        if (!goes || memory->at[lane] == NULL)
            continue;
        fabric_memory_deregister(fabric, memory->at[lane]);
        memory->at[lane] = NULL;
        (void)pthread_mutex_lock(&memories->lock);
        memory->registered--;
        (void)pthread_cond_broadcast(&memories->changed);
        (void)pthread_mutex_unlock(&memories->lock);
    }
    atomic_store_explicit(&memories->seen[lane], version, memory_order_relaxed);
}
