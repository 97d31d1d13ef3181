/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange of a node that leaves (docs/leaving.md): which of what is here would be gone with
 * it, and what is known of each. Who makes it safe is its keeper (cluster/replicas.h), who is told
 * that this holder does not count; the telling itself is exchange_replicas.c's.
 */
#include <string.h>

#include "base/clock.h"
#include "object/exchange_internal.h"
#include "object/exchange_replicas.h"

/* ---- what is known of one ------------------------------------------------- */

static uint64_t bytes_of(const struct held *held)
{
    return index_object_bytes(held->object.data_size, held->object.meta_size,
                              held->object.name_size);
}

static void count_one(struct exchange_leaving *counts, const struct held *held, uint64_t sign)
{
    struct exchange_leave_count *of = held->leave == LEAVE_WAITS  ? &counts->waiting
                                      : held->leave == LEAVE_SAFE ? &counts->safe
                                                                  : &counts->stuck;

    if (held->leave == LEAVE_NONE) {
        return;
    }
    of->objects += sign;
    of->bytes += sign * bytes_of(held);
    if (held->leave == LEAVE_STUCK) {
        counts->why[held->leave_why] += sign;
    }
    if (held->leave != LEAVE_SAFE && held->leave_is_alone) {
        counts->alone.objects += sign;
        counts->alone.bytes += sign * bytes_of(held);
    }
}

static void set(struct replication *replication, struct held *held, enum leave_state state,
                enum exchange_leave_why why, bool is_alone)
{
    count_one(&replication->leave.counts, held, UINT64_MAX);
    held->leave = (uint8_t)state;
    held->leave_why = (uint8_t)why;
    held->leave_is_alone = is_alone;
    count_one(&replication->leave.counts, held, 1);
}

static enum exchange_leave_why why_of(nigh_status status)
{
    switch (status) {
    case NIGH_OUT_OF_MEMORY: return EXCHANGE_LEAVE_NO_ROOM;
    case NIGH_QUOTA: return EXCHANGE_LEAVE_QUOTA;
    case NIGH_NOT_FOUND: return EXCHANGE_LEAVE_NO_POOL;
    case NIGH_TOO_FEW:
    case NIGH_LEAVING: return EXCHANGE_LEAVE_NOBODY;
    case NIGH_LIMIT: return EXCHANGE_LEAVE_LIMIT;
    default: return EXCHANGE_LEAVE_FAILED;
    }
}

void leave_count(struct replication *replication, struct held *held,
                 const struct replica_count *count)
{
    enum leave_state state = LEAVE_WAITS;

    /* One that the keeper had before it knew may have this node among the holders. */
    if (held->leave == LEAVE_NONE || !count->leaves) {
        return;
    }
    if (count->held >= held->wanted) {
        state = LEAVE_SAFE;
    } else if (count->is_short != 0) {
        state = LEAVE_STUCK;
    }
    set(replication, held, state, why_of(count->why), count->held == 0);
}

void leave_untold(struct replication *replication, struct held *held, nigh_status status)
{
    if (held->leave == LEAVE_NONE) {
        return;
    }
    if (status == NIGH_LIMIT || status == NIGH_EXISTS) {
        set(replication, held, LEAVE_STUCK, why_of(status), true);
    } else {
        set(replication, held, LEAVE_WAITS, 0, true);
    }
}

void leave_doubt(struct replication *replication, struct held *held)
{
    if (held->leave == LEAVE_SAFE) {
        set(replication, held, LEAVE_WAITS, 0, true);
    }
}

void leave_forget(struct replication *replication, struct held *held)
{
    set(replication, held, LEAVE_NONE, 0, false);
}

/* ---- looking at all ------------------------------------------------------- */

/* Whether nobody else is known to have it for good. */
static bool is_needed(const struct exchange *exchange, const struct store_sight *sight)
{
    if (!sight->is_copy || sight->is_given || sight->replicas > 0) {
        return true;
    }
    return sight->birth.rank != exchange_self(exchange) &&
           directory_member_is_dead(exchange->directory, sight->birth.rank);
}

void leave_sealed(struct exchange *exchange, const struct store_sight *sight)
{
    struct replication *replication = exchange->replication;
    struct leave *leave = &replication->leave;
    struct directory_key key;
    uint64_t key_hash;
    uint32_t home;
    struct held *held;

    if (!leave->leaves || sight->is_claim || !is_needed(exchange, sight)) {
        return;
    }
    exchange_key(exchange, sight->pool, sight->id, &key, &key_hash, &home);
    held = replication_find(replication, &key);
    if (held == NULL || held->gone || !birth_equal(&held->object.birth, &sight->birth)) {
        held = replication_hold(exchange, sight);
    }
    if (held == NULL) {
        leave->beyond.objects++;
        leave->beyond.bytes += sight->bytes;
    } else if (held->leave == LEAVE_NONE) {
        set(replication, held, LEAVE_WAITS, 0, true);
        replication_tell(replication, held);
    }
}

static void begin_walk(struct leave *leave)
{
    leave->walks = true;
    leave->pool = leave->cursor = 0;
    leave->beyond = (struct exchange_leave_count){0};
}

static void walk(struct exchange *exchange)
{
    struct leave *leave = &exchange->replication->leave;

    for (uint32_t n = 0; n < LEAVE_WALK; n++) {
        struct store_sight sight;

        while (leave->pool < LIMIT_POOLS && !exchange->pools[leave->pool].used) {
            leave->pool++;
        }
        if (leave->pool == LIMIT_POOLS) {
            leave->walks = false;
            return;
        }
        if (!store_next(exchange->config.store, leave->pool, &leave->cursor, &sight)) {
            leave->pool++;
            leave->cursor = 0;
        } else if (sight.entry == UINT32_MAX) {
            return; /* looked at enough for this turn */
        } else {
            leave_sealed(exchange, &sight);
        }
    }
}

void leave_member_dead(struct exchange *exchange)
{
    struct replication *replication = exchange->replication;

    if (!replication->leave.leaves) {
        return;
    }
    for (uint32_t n = 0; n < replication->held_used; n++) {
        struct held *held = &replication->held[n];

        if (held->used && held->leave == LEAVE_SAFE) {
            leave_doubt(replication, held);
            held->told_link = 0; /* a sweep follows */
        }
    }
    begin_walk(&replication->leave); /* copies of what was its may be all that is left */
}

/* ---- beginning, ending ---------------------------------------------------- */

static void undo(struct replication *replication)
{
    replication->leave = (struct leave){.counts = replication->leave.counts};
    for (uint32_t n = 0; n < replication->held_used; n++) {
        struct held *held = &replication->held[n];

        if (held->used && held->leave != LEAVE_NONE) {
            leave_forget(replication, held);
            replication_tell(replication, held);
        }
    }
}

void exchange_leave(struct exchange *exchange, bool leaves, uint64_t now_us)
{
    struct replication *replication = exchange->replication;

    exchange->now_us = now_us;
    if (leaves != replication->leave.leaves) {
        store_leave(exchange->config.store, leaves, now_us);
    }
    if (leaves) {
        replication->leave.leaves = true;
        begin_walk(&replication->leave);
    } else if (replication->leave.leaves) {
        undo(replication);
    }
}

void exchange_leaving(const struct exchange *exchange, struct exchange_leaving *leaving)
{
    const struct leave *leave = &exchange->replication->leave;

    *leaving = leave->counts;
    leaving->leaves = leave->leaves;
    leaving->looks = leave->walks;
    leaving->stuck.objects += leave->beyond.objects;
    leaving->stuck.bytes += leave->beyond.bytes;
    leaving->alone.objects += leave->beyond.objects;
    leaving->alone.bytes += leave->beyond.bytes;
    leaving->why[EXCHANGE_LEAVE_LIMIT] += leave->beyond.objects;
}

/* ---- turns ---------------------------------------------------------------- */

bool leave_turn(struct exchange *exchange, uint64_t now_us)
{
    struct leave *leave = &exchange->replication->leave;
    bool worked = leave->walks;

    if (leave->walks) {
        walk(exchange);
    }
    if (leave->leaves && now_us >= leave->again_us) {
        leave->again_us = clock_deadline_us(now_us, LEAVE_AGAIN_US);
        if (leave->counts.waiting.objects + leave->counts.stuck.objects > 0) {
            replication_sweep(exchange->replication);
            worked = true;
        }
    }
    return worked;
}

uint64_t leave_due_us(const struct replication *replication)
{
    const struct leave *leave = &replication->leave;

    if (leave->walks) {
        return 0;
    }
    return leave->leaves && leave->counts.waiting.objects + leave->counts.stuck.objects > 0
               ? leave->again_us
               : UINT64_MAX;
}

bool leave_is_valid(const struct replication *replication)
{
    struct exchange_leaving counts = {0};

    for (uint32_t n = 0; n < replication->held_used; n++) {
        if (replication->held[n].used) {
            count_one(&counts, &replication->held[n], 1);
        }
    }
    return memcmp(&counts, &replication->leave.counts, sizeof(counts)) == 0;
}
