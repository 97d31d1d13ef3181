/* SPDX-License-Identifier: Apache-2.0 */
/* See collect_edges.h. */
#include "rpc/collect_edges.h"

static void on_ask(void *context, const struct collect_ask *ask, uint64_t now_us)
{
    struct collect_edges *edges = context;
    struct calls_call call = {
        .service = ask->service,
        .deadline_us = ask->deadline_us,
        .rank = ask->rank,
        .collect = ask->wire,
        .is_of_another = true,
        .origin = ask->origin,
        .caller = {.owner = edges->first + ask->place,
                   .begun = ask->generation,
                   .cookie = ask->number,
                   .uid = ask->uid,
                   .bytes = ask->request_bytes,
                   .room = LIMIT_CALL_BYTES},
    };

    calls_begin(edges->calls, &call, now_us);
}

static void on_forget(void *context, uint32_t place, uint64_t now_us)
{
    struct collect_edges *edges = context;

    calls_forget(edges->calls, edges->first + place, now_us);
}

static void on_answer(void *context, const struct collect_from *from, const struct collect_end *end)
{
    struct collect_edges *edges = context;
    struct rpc_piece pieces[2] = {{.data = end->said, .bytes = sizeof(*end->said)},
                                  {.data = end->value, .bytes = end->said->value_bytes}};

    if (from->channel == NULL) {
        edges->answer(edges->context, &from->caller, end);
    } else {
        rpc_reply(from->channel, from->call, NIGH_OK, pieces, end->said->value_bytes > 0 ? 2 : 1);
    }
}

nigh_status collect_edges_init(struct collect_edges *edges, uint32_t rank, uint32_t nodes)
{
    struct collects_config config = {
        .rank = rank,
        .nodes = nodes,
        .shell = {.context = edges, .ask = on_ask, .forget = on_forget, .answer = on_answer}};

    return collects_create(&config, &edges->collects);
}

void collect_edges_fini(struct collect_edges *edges)
{
    collects_destroy(edges->collects);
    edges->collects = NULL;
}

const uint8_t *collect_edges_bytes(const struct collect_edges *edges,
                                   const struct calls_caller *caller)
{
    return collect_bytes(edges->collects, caller->owner - edges->first, caller->begun);
}

void collect_edges_ended(struct collect_edges *edges, const struct calls_caller *caller,
                         const struct calls_end *end)
{
    collect_ended(edges->collects, caller->owner - edges->first, caller->cookie, caller->begun,
                  end);
}

void collect_edges_take(struct collect_edges *edges, struct rpc *channel, uint32_t rank,
                        const struct rpc_request *request, uint64_t now_us)
{
    struct collect_from from = {.channel = channel, .call = request->call, .rank = rank};
    nigh_status status;

    if (request->call == 0) {
        return; /* nobody could be told what came of it */
    }
    status = collect_take(edges->collects, &from, request, now_us);
    if (status != NIGH_OK) {
        calls_refuse_call(channel, request->call, status);
    }
}
