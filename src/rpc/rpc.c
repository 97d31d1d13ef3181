/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel's life: making it, ending it, what it looks like when whole. Calls are in rpc_call.c,
 * frames that arrive in rpc_receive.c.
 */
#include "rpc/rpc_internal.h"

#include <endian.h>
#include <stdlib.h>

#include "base/check.h"

_Static_assert(LIMIT_RPC_REQUESTS <= UINT16_MAX, "all credits fit one frame");
_Static_assert(LIMIT_RPC_CALLS <= 1u << 12, "a number has at least 52 bits of generation");

static bool config_is_valid(const struct rpc_config *config)
{
    return config->requests >= 1 && config->requests <= LIMIT_RPC_REQUESTS && config->calls >= 1 &&
           config->calls <= LIMIT_RPC_CALLS && config->queue <= LIMIT_RPC_QUEUE &&
           config->payload_bytes >= 1 && config->payload_bytes <= LIMIT_RPC_PAYLOAD &&
           (config->pool == NULL || config->pool->payload_bytes == config->payload_bytes) &&
           config->shell.send != NULL && config->shell.request != NULL;
}

/* Cuts the parts of a channel out of its block, those that need the most alignment first. */
static void carve(struct rpc *rpc)
{
    const struct rpc_config *config = &rpc->config;
    uint8_t *at = (uint8_t *)(rpc + 1);
    struct timer **timers;

    rpc->slots = (struct rpc_slot *)at;
    at += sizeof(*rpc->slots) * config->calls;
    rpc->waiters = (struct rpc_waiter *)at;
    at += sizeof(*rpc->waiters) * config->queue;
    timers = (struct timer **)at;
    at += sizeof(struct timer *) * config->calls;
    rpc->answers = (struct rpc_answer *)at;
    at += sizeof(*rpc->answers) * config->calls;

    timers_init(&rpc->timers, timers, config->calls);
    for (uint32_t i = 0; i < config->calls; i++) {
        list_push_back(&rpc->free_slots, &rpc->slots[i].link);
    }
    for (uint32_t i = 0; i < config->queue; i++) {
        rpc->waiters[i].payload = at;
        at += config->payload_bytes;
        list_push_back(&rpc->free_waiters, &rpc->waiters[i].link);
    }
    NIGH_ASSERT(at == (uint8_t *)rpc + rpc->block_bytes);
}

/* Cannot overflow: every factor is bounded. */
uint64_t rpc_memory_bytes(const struct rpc_config *config)
{
    return sizeof(struct rpc) +
           config->calls *
               (sizeof(struct rpc_slot) + sizeof(struct rpc_answer) + sizeof(struct timer *)) +
           config->queue * (sizeof(struct rpc_waiter) + (size_t)config->payload_bytes);
}

nigh_status rpc_create(const struct rpc_config *config, struct rpc **rpc)
{
    size_t bytes;
    struct rpc *made;

    if (!config_is_valid(config)) {
        return NIGH_INVALID;
    }
    bytes = rpc_memory_bytes(config);
    made = calloc(1, bytes);
    if (made == NULL) {
        return NIGH_NO_RESOURCES;
    }
    made->config = *config;
    made->block_bytes = bytes;
    made->credits = config->requests;
    while (1u << made->slot_bits < config->calls) {
        made->slot_bits++;
    }
    list_init(&made->free_slots);
    list_init(&made->cancels);
    list_init(&made->queue);
    list_init(&made->free_waiters);
    carve(made);
    *rpc = made;
    return NIGH_OK;
}

void rpc_destroy(struct rpc *rpc)
{
    if (rpc == NULL) {
        return;
    }
    NIGH_ASSERT(rpc->depth == 0 && !rpc->receiving);
    NIGH_ASSERT(rpc->pending == 0);
    LIST_FOREACH_SAFE(entry, &rpc->queue)
    {
        rpc_waiter_free(rpc, container_of(entry, struct rpc_waiter, link)); /* one-way messages */
    }
    free(rpc);
}

nigh_status rpc_pool_create(uint32_t places, uint32_t payload_bytes, struct rpc_pool **pool)
{
    size_t bytes =
        sizeof(struct rpc_pool) + places * (sizeof(struct rpc_waiter) + (size_t)payload_bytes);
    struct rpc_pool *made;
    uint8_t *at;

    if (places > LIMIT_RPC_QUEUE || payload_bytes < 1 || payload_bytes > LIMIT_RPC_PAYLOAD) {
        return NIGH_INVALID;
    }
    made = calloc(1, bytes);
    if (made == NULL) {
        return NIGH_NO_RESOURCES;
    }
    made->places = made->free_count = places;
    made->payload_bytes = payload_bytes;
    made->block_bytes = bytes;
    made->waiters = (struct rpc_waiter *)(made + 1);
    list_init(&made->free);
    at = (uint8_t *)(made->waiters + places);
    for (uint32_t i = 0; i < places; i++, at += payload_bytes) {
        made->waiters[i].payload = at;
        made->waiters[i].is_shared = true;
        list_push_back(&made->free, &made->waiters[i].link);
    }
    *pool = made;
    return NIGH_OK;
}

void rpc_pool_destroy(struct rpc_pool *pool)
{
    NIGH_ASSERT(pool == NULL || pool->free_count == pool->places);
    free(pool);
}

uint32_t rpc_pool_used(const struct rpc_pool *pool)
{
    return pool->places - pool->free_count;
}

uint32_t rpc_receives(const struct rpc_config *config)
{
    return config->requests + config->calls + RPC_CREDIT_RECEIVES + RPC_IN_HAND;
}

uint32_t rpc_max_sends(const struct rpc_config *config)
{
    return config->requests + config->calls + RPC_CREDIT_RECEIVES;
}

void rpc_end(struct rpc *rpc, nigh_status reason, uint64_t now_us)
{
    NIGH_ASSERT(reason != NIGH_OK);
    if (rpc->ended) {
        return;
    }
    rpc->ended = true;
    /* Waiting one-way messages, which nobody waits for. */
    LIST_FOREACH_SAFE(entry, &rpc->queue)
    {
        struct rpc_waiter *waiter = container_of(entry, struct rpc_waiter, link);
        if (waiter->call == 0) {
            rpc_waiter_free(rpc, waiter);
        }
    }
    for (uint32_t i = 0; i < rpc->config.calls; i++) {
        struct rpc_slot *slot = &rpc->slots[i];

        if (slot->state == RPC_SLOT_HELD) {
            rpc_slot_free(rpc, slot);
        } else if (slot->state != RPC_SLOT_FREE) {
            rpc->counters.lost++;
            rpc_slot_end(rpc, slot, reason, now_us);
        }
    }
    NIGH_ASSERT(rpc->pending == 0 && list_empty(&rpc->queue));
}

void rpc_send(struct rpc *rpc, struct rpc_header header, const struct rpc_piece *pieces,
              uint32_t count)
{
    struct rpc_header wire = {
        .magic = RPC_MAGIC,
        .kind = header.kind,
        .method = htole16(header.method),
        .call = htole64(header.call),
        .status = (int32_t)htole32((uint32_t)header.status),
        .bytes = htole32((uint32_t)rpc_pieces_bytes(pieces, count)),
        .credits = htole16((uint16_t)rpc->owed),
        .left_ms = htole32(header.left_ms),
        .epoch = htole32((uint32_t)rpc->config.epoch),
    };

    NIGH_ASSERT(!rpc->ended);
    rpc->owed = 0;
    rpc->depth++;
    rpc->config.shell.send(rpc->config.shell.context, &wire, pieces, count);
    rpc->depth--;
}

uint64_t rpc_pieces_bytes(const struct rpc_piece *pieces, uint32_t count)
{
    uint64_t sum = 0;

    if (count > RPC_PIECES) {
        return UINT64_MAX;
    }
    for (uint32_t i = 0; i < count; i++) {
        sum += pieces[i].bytes;
    }
    return sum;
}

const struct rpc_counters *rpc_counters(const struct rpc *rpc)
{
    return &rpc->counters;
}

void *rpc_context(const struct rpc *rpc)
{
    return rpc->config.shell.context;
}

uint32_t rpc_pending(const struct rpc *rpc)
{
    return rpc->pending;
}

uint64_t rpc_due_us(const struct rpc *rpc)
{
    return timers_first_deadline(&rpc->timers);
}

/* ---- is it whole? ---- */

static uint32_t count_of(const struct list *list)
{
    uint32_t count = 0;

    LIST_FOREACH(node, list)
    {
        count++;
    }
    return count;
}

static bool slot_is_valid(const struct rpc *rpc, const struct rpc_slot *slot)
{
    switch (slot->state) {
    case RPC_SLOT_FREE:
        return list_is_linked(&slot->link) && slot->waiter == NULL && !timer_is_armed(&slot->timer);
    case RPC_SLOT_WAITING:
        return !list_is_linked(&slot->link) && slot->generation != 0 &&
               (slot->waiter == NULL ? timer_is_armed(&slot->timer)
                                     : slot->waiter->call == rpc_slot_call(rpc, slot));
    case RPC_SLOT_SENT:
        return !list_is_linked(&slot->link) && slot->generation != 0 && slot->waiter == NULL;
    case RPC_SLOT_HELD:
        return slot->generation != 0 && slot->waiter == NULL && !timer_is_armed(&slot->timer);
    }
    return false;
}

static bool counters_are_valid(const struct rpc *rpc)
{
    const struct rpc_counters *c = &rpc->counters;

    return c->calls == c->replies + c->timeouts + c->canceled + c->lost + rpc->pending;
}

bool rpc_pool_is_valid(const struct rpc_pool *pool)
{
    return pool->free_count <= pool->places && count_of(&pool->free) == pool->free_count;
}

bool rpc_is_valid(const struct rpc *rpc)
{
    uint32_t slots[RPC_SLOT_HELD + 1] = {0};
    uint32_t queued = 0, shared = 0;

    for (uint32_t i = 0; i < rpc->config.calls; i++) {
        if (!slot_is_valid(rpc, &rpc->slots[i])) {
            return false;
        }
        slots[rpc->slots[i].state]++;
    }
    LIST_FOREACH(node, &rpc->queue)
    {
        const struct rpc_waiter *waiter = container_of(node, struct rpc_waiter, link);
        if (waiter->bytes > rpc->config.payload_bytes ||
            (waiter->call != 0 && rpc_slot_named(rpc, waiter->call)->waiter != waiter)) {
            return false;
        }
        queued++;
        shared += waiter->is_shared;
    }
    if (queued - shared + count_of(&rpc->free_waiters) != rpc->config.queue ||
        shared != rpc->shared ||
        (rpc->config.pool != NULL && !rpc_pool_is_valid(rpc->config.pool)) ||
        count_of(&rpc->free_slots) != slots[RPC_SLOT_FREE] ||
        count_of(&rpc->cancels) > slots[RPC_SLOT_HELD] ||
        slots[RPC_SLOT_WAITING] + slots[RPC_SLOT_SENT] != rpc->pending) {
        return false;
    }
    /* What waits, waits for a credit. */
    if (rpc->credits > 0 && (queued > 0 || !list_empty(&rpc->cancels))) {
        return false;
    }
    return rpc->credits <= rpc->config.requests && rpc->owed <= rpc->config.requests &&
           timers_is_valid(&rpc->timers) && counters_are_valid(rpc);
}
