/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the collectives of a lane (collect.h) and its calls (calls.h): every edge of a tree is a
 * call, and each collective is an owner of calls of its own, above all sessions.
 *
 * The lane gives its calls' shell on to here for those that are of a collective, and what comes
 * over its links. Pure as both are; the same thread.
 */
#ifndef RPC_COLLECT_EDGES_H
#define RPC_COLLECT_EDGES_H

#include "rpc/collect.h"

struct collect_edges {
    struct collects *collects;
    struct calls *calls; /* set once they are made, with LIMIT_COLLECTS owners from `first` on */
    uint32_t first;
    void *context;
    /* What came of a session's collective. */
    void (*answer)(void *context, const struct calls_caller *caller, const struct collect_end *end);
};

/* `first`, `context` and `answer` are set; makes the collectives. */
nigh_status collect_edges_init(struct collect_edges *edges, uint32_t rank, uint32_t nodes);
void collect_edges_fini(struct collect_edges *edges);

static inline bool collect_edges_has(const struct collect_edges *edges,
                                     const struct calls_caller *caller)
{
    return caller->owner >= edges->first;
}

/* calls_shell.bytes and .ended, for calls that it has. */
const uint8_t *collect_edges_bytes(const struct collect_edges *edges,
                                   const struct calls_caller *caller);
void collect_edges_ended(struct collect_edges *edges, const struct calls_caller *caller,
                         const struct calls_end *end);

/* A request of CALLS_METHOD_COLLECT. */
void collect_edges_take(struct collect_edges *edges, struct rpc *channel, uint32_t rank,
                        const struct rpc_request *request, uint64_t now_us);

#endif
