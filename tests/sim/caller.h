/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls in a simulated cluster: every lane runs the state machine that ships (rpc/calls.h) over its
 * links' third endpoint. caller.c begins calls, and holds every end against what is promised;
 * server.c has the services, which answer at once, late, never, or refuse, and come and go.
 */
#ifndef TESTS_SIM_CALLER_H
#define TESTS_SIM_CALLER_H

#include "rpc/calls.h"
#include "world.h"

#define CALLER_NODES         4u /* most of a world that has calls */
#define CALLER_NAMES         6u /* of services */
#define CALLER_CALLS         2048u
#define CALLER_REGISTRATIONS 1024u
#define CALLER_REQUESTS      1024u
#define CALLER_UID           500u /* of the first session's process; the next has the next */

/* What no part of the machine answers, so that it is known to be a service's. */
#define CALLER_NO NIGH_CORRUPT

/* A call that was begun, for ever. The number is its serial, from 1. */
struct caller_call {
    uint32_t node, session, lane, incarnation;
    uint32_t name; /* of the service */
    uint32_t rank; /* or CALLS_ANY */
    uint32_t bytes;
    uint32_t loan; /* of mover.c: what it brings; 0: nothing */
    bool idempotent, urgent, one_way;
    bool canceled; /* asked for, or its client died */
    bool dropped;  /* its node died: nobody hears how it ended */
    bool ended;
    bool untaken; /* its end said that nobody has carried it out */
    bool is_the_judges;
    bool said_no;     /* the service did, once at least */
    uint32_t answers; /* that the service gave, of NIGH_OK */
    uint32_t carried_out;
    uint32_t open; /* its place among those that have not ended */
    uint64_t begun_us, deadline_us;
    nigh_status status;
};

/* A service that a node registered, for ever: its address is the tag. */
struct caller_registration {
    uint32_t node, name;
    bool gone;
};

/* One that its service has not answered, or will never. */
struct caller_request {
    bool used;
    uint32_t node, lane, serial;
    uint32_t turn;   /* of the call; 0: it is to be refused */
    uint64_t number; /* of all requests */
    uint64_t id;
    const struct caller_registration *of;
};

/* What a lane was told of another node. */
struct caller_sight {
    bool lost;        /* and not heard of since */
    bool was_lost;    /* ever */
    uint64_t lost_us; /* when it was last */
};

struct caller_world {
    struct random random;
    uint32_t names;
    uint64_t hash[CALLER_NAMES];
    uint32_t places; /* of a channel; 0: what ships has */
    uint32_t payload_bytes, most_bytes;
    uint32_t ring_bytes; /* 0: there are none */
    enum link_way ways[CALLER_NODES];
    uint32_t calls, requests; /* of a lane's tables */
    uint64_t gap_us;          /* between what a node does */
    uint32_t steps[CALLER_NODES];
    uint64_t late_us; /* an answer takes up to so long */
    uint32_t never_percent, refuse_percent, no_percent;

    struct caller_registration registrations[CALLER_REGISTRATIONS];
    uint32_t registration_count;
    struct caller_registration *serving[CALLER_NODES][CALLER_NAMES];
    uint64_t registered_us[CALLER_NODES][CALLER_NAMES];
    uint64_t withdrawn_us[CALLER_NODES][CALLER_NAMES]; /* 0: never */
    struct caller_request all[CALLER_REQUESTS];
    uint64_t request_count;

    struct caller_call call[CALLER_CALLS];
    uint32_t call_count;
    uint32_t open[CALLER_CALLS]; /* serials of those that have not ended */
    uint32_t open_count;
    uint32_t lost[CALLER_CALLS]; /* serials of those that ended so, not looked at yet */
    uint32_t lost_count;
    struct caller_sight sight[CALLER_NODES][WORLD_LANES][CALLER_NODES];
    uint8_t bytes[LIMIT_CALL_BYTES]; /* of a request that is sent */
    uint8_t reply[LIMIT_CALL_BYTES];
};

static inline uint64_t caller_below(struct caller_world *calls, uint64_t bound)
{
    return random_below(&calls->random, bound);
}

static inline bool caller_dice(struct caller_world *calls, uint32_t percent)
{
    return caller_below(calls, 100) < percent;
}

/* ---- caller.c ------------------------------------------------------------- */

/* The latest that something may end: its deadline, and the tick that its lane takes to see it, from
 * when its node could do anything. */
uint64_t caller_latest_us(const struct world *world, uint32_t node, uint64_t deadline_us);
struct caller_sight *caller_sight_of(const struct world_lane *lane, uint32_t rank);

/* ---- server.c ------------------------------------------------------------- */

/* First in a request, and in an answer; each byte behind it follows from it. */
struct caller_told {
    uint32_t serial, caller;
    uint32_t what; /* of a request: the name; of an answer: the node that gives it */
    uint32_t turn; /* of a request: 0; of an answer: how often the call had been carried out */
};

void caller_fill_told(uint8_t *to, const struct caller_told *told, uint32_t count);
/* Whether it is one of so many bytes. */
bool caller_read_told(const uint8_t *bytes, uint32_t count, struct caller_told *told);
/* What a call's request, and the answer that a node gives to it, are: their bytes tell of which
 * call, of whom, they are. How many; `most` at most. */
void caller_fill_request(const struct caller_world *calls, uint8_t *to, uint32_t serial);
uint32_t caller_fill_reply(const struct caller_world *calls, uint8_t *to, uint32_t serial,
                           uint32_t server, uint32_t turn);
/* Which turn of a call its answer is of; 0: these are not the bytes of an answer of that node. */
uint32_t caller_read_reply(const struct caller_world *calls, const uint8_t *bytes, uint32_t count,
                           uint32_t serial, uint32_t server);
/* calls_shell.request, of a lane. */
void server_take(void *context, void *tag, const struct calls_request *request);
/* Registers or withdraws a name at a node. */
void server_change(struct world *world, uint32_t node, uint32_t name);
void server_node_starts(struct world *world, uint32_t node);
void server_node_ends(struct world *world, uint32_t node);

#endif
