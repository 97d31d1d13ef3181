/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of collectives share (collect.h). */
#ifndef RPC_COLLECT_INTERNAL_H
#define RPC_COLLECT_INTERNAL_H

#include "base/check.h"
#include "base/list.h"
#include "rpc/collect.h"

/* The number of the edge to this node's own service; those below are children's. */
#define COLLECT_OWN   LIMIT_COLLECT_FAN
#define COLLECT_EDGES (LIMIT_COLLECT_FAN + 1u)

enum edge_state {
    EDGE_NONE = 0,
    EDGE_TO_ASK,
    EDGE_ASKED,
    EDGE_OVER /* what came of it is counted */
};

struct edge {
    enum edge_state state;
    uint32_t head; /* whom it leads to */
    struct collect_wire wire;
};

struct collect {
    bool used;
    uint32_t generation;
    struct list_node place; /* in `free`, or `all` */
    struct list_node due;
    struct collect_from from;
    struct collect_wire wire; /* what this node was asked for; what its children are, but `ranks` */
    uint64_t service;
    uint32_t uid;
    uint64_t deadline_us; /* of the edges: before that of who asks */
    uint8_t *request;
    uint32_t request_bytes;
    uint8_t *value;     /* wire.value_room */
    struct ranks whole; /* that are to be counted */
    struct collect_said said;
    uint32_t asked; /* edges */
    struct edge edges[COLLECT_EDGES];
};

struct collects {
    struct collects_config config;
    uint64_t version; /* 0: there is no group yet */
    struct ranks in;
    struct collect *all_places; /* LIMIT_COLLECTS */
    struct list free;
    struct list all;
    struct list due;
    uint32_t under_way;
    struct collects_counts counts;
};

/* ---- collect.c ---- */

/* A place, its request copied; its edges are the caller's to set. NIGH_OVERLOADED,
 * NIGH_NO_RESOURCES. */
nigh_status collect_open(struct collects *collects, const struct collect_from *from,
                         const uint8_t *request, uint32_t request_bytes, uint32_t value_room,
                         struct collect **out);
void collect_make_due(struct collects *collects, struct collect *collect);

/* ---- collect_value.c: what is counted, and what the replies are reduced to ---- */

void collect_note_error(struct collect *collect, uint32_t rank, nigh_status status, uint32_t count,
                        bool taken);
/* What this node's own service said. */
void collect_add_reply(struct collect *collect, uint32_t rank, const uint8_t *bytes,
                       uint32_t count);
/* What a child answered for its run. False: it is no answer, and nothing of it counts. */
bool collect_add_said(struct collect *collect, const struct ranks *run, const uint8_t *bytes,
                      uint32_t count);

#endif
