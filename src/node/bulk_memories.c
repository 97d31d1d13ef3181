/* SPDX-License-Identifier: Apache-2.0 */
/* See node/bulk_memories.h. */
#include "node/bulk_memories.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "node/bulk_memories_internal.h"

/* A number: of the node's beginning, so that those of another are none of ours; of the piece in all
 * of that; and of its place. */
#define NUMBER_PLACE_BITS  10
#define NUMBER_SERIAL_BITS 34

_Static_assert(LIMIT_BULKS <= 1u << NUMBER_PLACE_BITS, "a place fits a number");

nigh_status bulk_memories_create(const struct bulk_memories_config *config,
                                 struct bulk_memories **out)
{
    struct bulk_memories *memories = calloc(1, sizeof(*memories));
    pthread_condattr_t attributes;

    if (memories == NULL)
        return NIGH_NO_RESOURCES;
    memories->config = *config;
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
    NIGH_ASSERT(!memories->started);
    for (uint32_t n = 0; n < memories->used; n++) {
        if (memories->all[n].state != BULK_FREE && memories->all[n].made)
            bulk_memories_drop_file(&memories->all[n]);
    }
    (void)pthread_cond_destroy(&memories->changed);
    (void)pthread_mutex_destroy(&memories->lock);
    free(memories);
}

/* ---- the table ------------------------------------------------------------ */

struct bulk_memory *bulk_memories_find(struct bulk_memories *memories, uint64_t number)
{
    struct bulk_memory *memory = &memories->all[number % LIMIT_BULKS];

    return memory->state == BULK_THERE && memory->number == number ? memory : NULL;
}

nigh_status bulk_memories_place(struct bulk_memories *memories, uint64_t session,
                                struct bulk_memory **out)
{
    uint64_t beginning = (uint64_t)memories->config.incarnation
                         << (NUMBER_PLACE_BITS + NUMBER_SERIAL_BITS);
    struct bulk_memory *memory = NULL;
    uint32_t count = 0;

    _Static_assert(LIMIT_BULKS == 1u << NUMBER_PLACE_BITS, "a place is a number's low bits");
    for (uint32_t n = 0; n < memories->used; n++) {
        struct bulk_memory *at = &memories->all[n];

        if (memory == NULL && at->state == BULK_FREE)
            memory = at;
        count += at->state != BULK_FREE && at->memory.session == session;
    }
    if (memory == NULL && memories->used < LIMIT_BULKS)
        memory = &memories->all[memories->used++];
    if (memory == NULL || count >= LIMIT_SESSION_BULKS)
        return NIGH_LIMIT;
    memories->serial = (memories->serial + 1) % (UINT64_C(1) << NUMBER_SERIAL_BITS);
    *memory = (struct bulk_memory){.number = beginning | memories->serial << NUMBER_PLACE_BITS |
                                             (uint64_t)(memory - memories->all),
                                   .fd = -1};
    *out = memory;
    return NIGH_OK;
}

nigh_status bulk_memories_add(struct bulk_memories *memories, const struct session_memory *memory,
                              uint64_t *number)
{
    struct bulk_memory *piece;
    nigh_status status;

    (void)pthread_mutex_lock(&memories->lock);
    status = bulk_memories_place(memories, memory->session, &piece);
    if (status == NIGH_OK) {
        piece->memory = *memory;
        piece->state = BULK_THERE;
        *number = piece->number;
    }
    (void)pthread_mutex_unlock(&memories->lock);
    return status;
}

/* Locked. */
void bulk_memories_tell(struct bulk_memories *memories)
{
    atomic_fetch_add_explicit(&memories->version, 1, memory_order_release);
    for (uint32_t lane = 0; lane < memories->config.lanes; lane++)
        memories->config.kick(memories->config.context, lane);
}

bool bulk_memories_sleep(struct bulk_memories *memories, uint64_t deadline_us)
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
    memory = bulk_memories_find(memories, number);
    memory->going = true;
    memory->forced = force;
    if (memory->uses > 0 && force)
        bulk_memories_tell(memories);
    while (memory->uses > 0 && in_time)
        in_time = bulk_memories_sleep(memories, deadline_us);
    if (memory->uses == 0) {
        /* Lanes take their turns whatever a peer does: that needs no deadline. */
        if (memory->registered > 0)
            bulk_memories_tell(memories);
        while (memory->registered > 0)
            (void)bulk_memories_sleep(memories, UINT64_MAX);
        memory->state = BULK_FREE;
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
    memory = bulk_memories_find(memories, number);
    memory->waiting++;
    while (memory->uses > 0 && in_time)
        in_time = bulk_memories_sleep(memories, deadline_us);
    is_free = memory->uses == 0;
    memory->waiting--;
    (void)pthread_mutex_unlock(&memories->lock);
    return is_free ? NIGH_OK : NIGH_TIMEOUT;
}

/* ---- by a lane's driver ---- */

nigh_status bulk_memories_take(struct bulk_memories *memories, uint64_t number, uint64_t session,
                               struct bulk_memory **out)
{
    struct bulk_memory *memory;
    nigh_status status = NIGH_OK;

    (void)pthread_mutex_lock(&memories->lock);
    memory = bulk_memories_find(memories, number);
    if (memory == NULL || memory->going)
        status = NIGH_CLOSED;
    else if (memory->memory.session != session)
        status = NIGH_INVALID;
    if (status == NIGH_OK) {
        memory->uses++;
        *out = memory;
    }
    (void)pthread_mutex_unlock(&memories->lock);
    return status;
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
               atomic_load_explicit(&memories->seen[lane], memory_order_relaxed) ||
           atomic_load_explicit(&memories->over[lane], memory_order_relaxed) != 0;
}

void bulk_memories_turn(struct bulk_memories *memories, uint32_t lane, struct fabric *fabric,
                        void (*breaks)(void *context, const struct bulk_memory *memory),
                        void *context)
{
    uint64_t version = atomic_load_explicit(&memories->version, memory_order_acquire);
    uint32_t used;

    if (version == atomic_load_explicit(&memories->seen[lane], memory_order_relaxed))
        return;
    (void)pthread_mutex_lock(&memories->lock);
    used = memories->used;
    (void)pthread_mutex_unlock(&memories->lock);
    for (uint32_t n = 0; n < used; n++) {
        struct bulk_memory *memory = &memories->all[n];
        bool goes, forced;

        (void)pthread_mutex_lock(&memories->lock);
        goes = memory->state == BULK_THERE && memory->going && memory->uses == 0 &&
               memory->at[lane] != NULL;
        forced = memory->state == BULK_THERE && memory->forced && memory->uses > 0;
        (void)pthread_mutex_unlock(&memories->lock);
        if (forced)
            breaks(context, memory);
        if (!goes)
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
