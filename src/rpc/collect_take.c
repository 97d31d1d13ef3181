/* SPDX-License-Identifier: Apache-2.0 */
/* How a collective begins (collect.h): what a client wants, or another node asks, is checked, and
 * the edges are reckoned from it. */
#include <string.h>

#include "rpc/collect_internal.h"

/* So much of the time that is left is kept at each level for the answer's way up: whoever is silent
 * is then missed by the node above it, and does not cost that node's own answer. */
#define KEEP_ONE_OF   8u
#define KEEP_LEAST_US UINT64_C(2000)

static uint64_t deadline_of_edges(uint64_t deadline_us, uint64_t now_us)
{
    uint64_t left_us = deadline_us > now_us ? deadline_us - now_us : 0;
    uint64_t keep_us = left_us / KEEP_ONE_OF;

    if (deadline_us == UINT64_MAX) {
        return deadline_us;
    }
    keep_us = keep_us < KEEP_LEAST_US ? KEEP_LEAST_US : keep_us;
    return now_us + (keep_us > left_us / 2 ? left_us / 2 : left_us - keep_us);
}

static void set_edges(struct collects *collects, struct collect *collect)
{
    uint32_t self = collects->config.rank;
    struct ranks runs[LIMIT_COLLECT_FAN];
    uint32_t count = ranks_split(&collect->whole, self, collect->wire.fan, runs);

    for (uint32_t n = 0; n < count; n++) {
        struct edge *edge = &collect->edges[n];

        edge->state = EDGE_TO_ASK;
        edge->head = ranks_next(&runs[n], self);
        edge->wire = collect->wire;
        edge->wire.ranks = runs[n];
        edge->wire.depth++;
    }
    if (ranks_has(&collect->whole, self)) {
        collect->edges[COLLECT_OWN].state = EDGE_TO_ASK;
        collect->edges[COLLECT_OWN].head = self;
    }
    collect_make_due(collects, collect);
}

static bool is_room(uint32_t reduce, uint32_t room)
{
    if (reduce == COLLECT_NONE) {
        return room == 0;
    }
    return reduce < COLLECT_REDUCES && room <= LIMIT_COLLECT_BYTES &&
           (reduce == COLLECT_CONCAT || (room > 0 && room % 8 == 0));
}

static nigh_status open_it(struct collects *collects, const struct collect_from *from,
                           const struct collect_wire *wire, const struct collect_task *task,
                           uint64_t now_us)
{
    struct collect *collect;
    nigh_status status;

    if (wire->fan < 2 || wire->fan > LIMIT_COLLECT_FAN ||
        !is_room(wire->reduce, wire->value_room) || task->request_bytes > LIMIT_COLLECT_BYTES) {
        return NIGH_INVALID;
    }
    if (wire->version != collects->version) {
        return NIGH_STALE;
    }
    if (!ranks_are_within(&wire->ranks, &collects->in)) {
        return NIGH_INVALID;
    }
    if (task->deadline_us <= now_us) {
        return NIGH_TIMEOUT;
    }
    status = collect_open(collects, from, task->request, task->request_bytes, wire->value_room,
                          &collect);
    if (status != NIGH_OK) {
        return status;
    }
    collect->wire = *wire;
    collect->whole = wire->ranks;
    collect->service = task->service;
    collect->uid = task->uid;
    collect->deadline_us = deadline_of_edges(task->deadline_us, now_us);
    set_edges(collects, collect);
    return NIGH_OK;
}

static nigh_status count_asked(struct collects *collects, uint64_t *good, nigh_status status)
{
    *(status == NIGH_OK      ? good
      : status == NIGH_STALE ? &collects->counts.stale
                             : &collects->counts.refused) += 1;
    return status;
}

static nigh_status begin(struct collects *collects, const struct collect_from *from,
                         const struct collect_task *task, uint64_t now_us)
{
    struct collect_wire wire = {
        .version = task->version != 0 ? task->version : collects->version,
        .ranks = task->all ? collects->in : task->ranks,
        .origin = collects->config.rank,
        .value_room = task->value_room,
        .reduce = (uint8_t)task->reduce,
        .fan = (uint8_t)task->fan,
    };

    if (task->fan > LIMIT_COLLECT_FAN || task->reduce >= COLLECT_REDUCES) {
        return NIGH_INVALID;
    }
    return collects->version == 0 ? NIGH_NO_QUORUM : open_it(collects, from, &wire, task, now_us);
}

nigh_status collect_begin(struct collects *collects, const struct collect_from *from,
                          const struct collect_task *task, uint64_t now_us)
{
    return count_asked(collects, &collects->counts.begun, begin(collects, from, task, now_us));
}

/* What an honest node asks: of us, and of others, neither itself nor who began it being among them.
 * So a set grows smaller with each edge, and none leads back. */
static bool is_honest(const struct collects *collects, const struct collect_wire *wire,
                      uint32_t asker)
{
    return ranks_has(&wire->ranks, collects->config.rank) && !ranks_has(&wire->ranks, asker) &&
           wire->origin < collects->config.nodes && !ranks_has(&wire->ranks, wire->origin) &&
           wire->depth > 0 && wire->depth <= LIMIT_COLLECT_DEPTH;
}

static nigh_status take(struct collects *collects, const struct collect_from *from,
                        const struct rpc_request *came, uint64_t now_us)
{
    struct calls_wire called;
    struct collect_wire wire;
    uint32_t head = (uint32_t)(sizeof(called) + sizeof(wire));
    struct collect_task task = {.deadline_us = came->deadline_us};

    if (came->bytes < head) {
        return NIGH_INVALID;
    }
    memcpy(&called, came->payload, sizeof(called));
    memcpy(&wire, came->payload + sizeof(called), sizeof(wire));
    task.service = called.service;
    task.uid = called.uid;
    task.request = came->payload + head;
    task.request_bytes = came->bytes - head;
    /* Of another view it may name ranks that are none here. */
    if (called.bulks != 0 || wire.version == 0 || !is_honest(collects, &wire, from->rank)) {
        return NIGH_INVALID;
    }
    return open_it(collects, from, &wire, &task, now_us);
}

nigh_status collect_take(struct collects *collects, const struct collect_from *from,
                         const struct rpc_request *came, uint64_t now_us)
{
    return count_asked(collects, &collects->counts.taken, take(collects, from, came, now_us));
}
