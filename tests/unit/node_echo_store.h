/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that only echoes: it completes every submission at once and keeps nothing. For tests of
 * what stands in front of the store; linked in place of the real one.
 */
#ifndef TESTS_NODE_ECHO_STORE_H
#define TESTS_NODE_ECHO_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "object/exchange.h"
#include "object/store.h"

struct store {
    struct store_config config;
    uint32_t submitted[LIMIT_SESSIONS];
    _Atomic uint64_t ticks;
    _Atomic uint64_t due_us;
    uint64_t now_us; /* of the last submission */
    bool hold;       /* keep submissions without completing them */
    struct session_sqe last;
    uint32_t pools_to_fail; /* so many store_pool_add fail from now on */
    uint64_t pools;         /* a bit for each that was added */
};

/* The last exchange_where: it ends as a test says. */
struct echo_where {
    nigh_status status; /* of the call */
    struct exchange_places places;
    exchange_where_done *done;
    void *context;
    uint64_t token;
    uint64_t within_us;
    uint32_t pool;
    bool here; /* what store_see says */
};

extern struct echo_where echo_where;

/* The last exchange_replicate, likewise. */
struct echo_copies {
    nigh_status status;
    struct exchange_copies asked;
    uint32_t pool;
};

extern struct echo_copies echo_copies;

/* How often the exchange had a turn, or only looked; whether a look finds something. */
struct echo_turns {
    uint32_t turns, looks;
    bool comes;
    uint64_t due_us; /* 0: never */
};

extern struct echo_turns echo_turns;

/* To any node, from its lane to ours; NULL: no link is up. */
extern struct rpc *echo_channel;
/* What a channel takes, as exchange_users_places says. */
extern uint32_t echo_places;
/* What exchange_lane_links gives. */
extern struct links *echo_links;

/* What store_leased_bytes has for any session. */
struct echo_leased {
    uint64_t offset;
    uint64_t bytes; /* 0: nothing */
    uint8_t *at;
};

extern struct echo_leased echo_leased;
/* Sessions that asked for events of regions, a bit each. */
extern uint64_t echo_hears_regions;

#endif
