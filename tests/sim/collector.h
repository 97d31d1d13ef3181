/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of many in a simulated cluster with calls (caller.h): every lane runs the machine that
 * ships (rpc/collect_edges.h), clients begin multicasts and reduces, and each end is held against
 * what docs/collectives.md promises. Drawn from a generator of its own.
 */
#ifndef TESTS_SIM_COLLECTOR_H
#define TESTS_SIM_COLLECTOR_H

#include "caller.h"
#include "rpc/collect_edges.h"

#define COLLECTOR_MANY     1024u
#define COLLECTOR_REQUESTS 1024u
/* In a request's serial: it is of a collective. */
#define COLLECTOR_MARK UINT32_C(0x40000000)

/* One that was begun, for ever. Its number is its serial, from 1. Sets of nodes are bits. */
struct collector_one {
    uint32_t node, session, lane, incarnation;
    uint32_t name;
    uint32_t fan, reduce, room, bytes;
    uint32_t wanted;
    uint32_t seen;         /* whose service has had it */
    uint32_t carried_out;  /* and did it, */
    uint32_t ok, no, odd;  /* and answered so while somebody waited: well, with no, unfit */
    uint32_t said_unasked; /* an error names them as those that certainly are not */
    uint32_t silent;       /* the judge's: who is not to answer */
    bool ended, given_up, is_the_judges;
    struct collect_said said;
    uint64_t version;
    uint32_t open; /* its place among those that have not ended */
    uint64_t begun_us, deadline_us;
};

/* What a service has, and has not answered. */
struct collector_request {
    bool used, is_refused;
    uint32_t node, lane, serial;
    uint64_t number, id;
    const struct caller_registration *of;
};

struct collector_world {
    struct random random;
    uint32_t steps[CALLER_NODES];
    uint64_t late_us;
    uint32_t never_percent, refuse_percent, no_percent, odd_percent;
    struct collector_one one[COLLECTOR_MANY];
    uint32_t count;
    uint32_t open[COLLECTOR_MANY];
    uint32_t open_count;
    struct collector_request requests[COLLECTOR_REQUESTS];
    uint64_t request_count;
    uint8_t bytes[LIMIT_COLLECT_BYTES];
};

/* ---- collector_ends.c ----------------------------------------------------- */

/* collect_edges.answer, of a lane. */
void collector_ended(void *context, const struct calls_caller *caller,
                     const struct collect_end *end);
/* One that ended, or was given up, is not under way any more. */
void collector_close(struct collector_world *many, struct collector_one *one);
/* What a node replies; how many bytes. */
uint32_t collector_fill_reply(uint8_t *to, const struct collector_one *one, uint32_t serial,
                              uint32_t rank);
/* Nobody carries out what it is said to be unasked for, then or later. */
void collector_check_unasked(struct world *world, const struct collector_one *one, uint32_t serial);
/* A set in words. */
const char *collector_names(uint32_t set, char *to, size_t size);

/* ---- collector.c ---------------------------------------------------------- */

void collector_choose(struct world *world);
void collector_lane_starts(struct world_lane *lane);
void collector_node_ends(struct world *world, uint32_t node);
void collector_forget(struct world *world, uint32_t node, uint32_t session);
/* A request of another node. */
void collector_hand(struct world_lane *lane, struct link *link, const struct rpc_request *request);
/* True: it is of a collective, and done with. */
bool collector_take(struct world_lane *lane, const struct caller_registration *of,
                    const struct calls_request *request);
void collector_calm(struct world *world);
void collector_check(struct world *world);
void collector_check_lane(struct world_lane *lane);
bool collector_is_idle(const struct world *world);
void collector_why_not_idle(struct world *world);
void collector_judge(struct world *world);

#endif
