/* SPDX-License-Identifier: Apache-2.0 */
/* See state.h. */
#include "node/state.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/fd.h"
#include "memory/memfd.h"

nigh_status state_create(int *out_fd, struct state **state)
{
    void *memory;
    int fd;
    nigh_status status = memfd_create_sealed("nigh-state", sizeof(struct state), 0, &fd);

    if (status != NIGH_OK)
        return status;
    status = memfd_map(fd, sizeof(struct state), MEMFD_WRITABLE | MEMFD_PREFAULT, &memory);
    if (status != NIGH_OK) {
        fd_close(&fd);
        return status;
    }
    *out_fd = fd;
    *state = memory;
    (*state)->format = STATE_FORMAT;
    return NIGH_OK;
}

void state_publish(struct state *state)
{
    atomic_store_explicit(&state->magic, STATE_MAGIC, memory_order_release);
}

bool state_shape_is_sane(const struct state_shape *shape)
{
    return is_pow2(shape->lanes) && shape->lanes <= LIMIT_LANES && is_pow2(shape->extent_bytes) &&
           shape->extent_bytes >= LIMIT_EXTENT_BYTES_MIN &&
           shape->extent_bytes <= LIMIT_EXTENT_BYTES_MAX && shape->entries_a_lane > 0 &&
           shape->entries_a_lane <= LIMIT_INDEX_ENTRIES && shape->max_sessions > 0 &&
           shape->max_sessions <= LIMIT_SESSIONS && shape->memory_bytes >= shape->extent_bytes &&
           shape->max_objects / shape->lanes <= shape->entries_a_lane;
}

nigh_status state_adopt(int fd, struct state **out, char *why, size_t why_bytes)
{
    struct state *state;
    void *memory;
    uint64_t bytes;
    nigh_status status = NIGH_OK;

    if (memfd_size(fd, &bytes) != NIGH_OK || bytes < 16 ||
        memfd_map(fd, bytes, MEMFD_WRITABLE, &memory) != NIGH_OK) {
        snprintf(why, why_bytes, "what was kept of the former node is not its state");
        return NIGH_PROTOCOL;
    }
    state = memory;
    if (atomic_load_explicit(&state->magic, memory_order_acquire) != STATE_MAGIC) {
        snprintf(why, why_bytes, "the former node was killed before it had begun");
        status = NIGH_PROTOCOL;
    } else if (state->format != STATE_FORMAT && state->format != STATE_FORMAT_OLD) {
        snprintf(why, why_bytes,
                 "the memory that was kept has format %u and this nighd knows %u; start the nighd "
                 "that made it, or stop the service to begin empty",
                 state->format, STATE_FORMAT);
        status = NIGH_VERSION;
    } else if (bytes < sizeof(*state) || !state_shape_is_sane(&state->shape)) {
        snprintf(why, why_bytes, "the former node's state is damaged");
        status = NIGH_PROTOCOL;
    }
    if (status != NIGH_OK) {
        memfd_unmap(memory, bytes);
        return status;
    }
    *out = state;
    return NIGH_OK;
}

void state_unmap(struct state *state)
{
    if (state != NULL)
        memfd_unmap(state, sizeof(*state));
}

/* ---- pools ---- */

void state_put_pool(struct state *state, uint32_t number, const struct pool_rules *rules)
{
    struct state_pool *pool = &state->pools[number];

    atomic_store_explicit(&pool->valid, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    pool->owner_uid = rules->owner_uid;
    pool->group_gid = rules->group_gid;
    pool->mode = rules->mode;
    pool->strict = rules->strict;
    pool->quota_bytes = rules->quota_bytes;
    memcpy(pool->name, rules->name, sizeof(pool->name));
    atomic_store_explicit(&pool->valid, 1, memory_order_release);
}

bool state_get_pool(const struct state *state, uint32_t number, struct pool_rules *rules)
{
    const struct state_pool *pool = &state->pools[number];

    if (atomic_load_explicit(&pool->valid, memory_order_acquire) != 1 ||
        memchr(pool->name, 0, sizeof(pool->name)) == NULL || !pool_name_is_valid(pool->name))
        return false;
    memset(rules, 0, sizeof(*rules));
    memcpy(rules->name, pool->name, sizeof(rules->name));
    rules->owner_uid = pool->owner_uid;
    rules->group_gid = pool->group_gid;
    rules->mode = pool->mode & 0777;
    rules->strict = pool->strict != 0;
    rules->quota_bytes = pool->quota_bytes;
    return true;
}

/* ---- sessions ---- */

void state_put_session(struct state *state, uint32_t slot, const struct state_session *session)
{
    struct state_session *record = &state->sessions[slot];
    const size_t first = offsetof(struct state_session, pool);

    atomic_store_explicit(&record->valid, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    memcpy((uint8_t *)record + first, (const uint8_t *)session + first, sizeof(*record) - first);
    atomic_store_explicit(&record->valid, 1, memory_order_release);
}

void state_drop_session(struct state *state, uint32_t slot)
{
    atomic_store_explicit(&state->sessions[slot].valid, 0, memory_order_release);
}
