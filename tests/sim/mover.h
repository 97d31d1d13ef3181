/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that calls bring, in a simulated cluster with calls (caller.h): in half of these worlds
 * calls lend memory of their lane, services pull from it and push into it by the machine that ships
 * (rpc/bulks.h), over the links' READs, and each end is held against what docs/calls.md promises.
 * Drawn from a generator of its own.
 *
 * A lane has places for memory. One that is nobody's holds bytes that nobody may change, and so do
 * some behind one that is in use: whatever lands where it must not is found there.
 */
#ifndef TESTS_SIM_MOVER_H
#define TESTS_SIM_MOVER_H

#include "caller.h"
#include "rpc/bulks.h"

#define MOVER_LOANS  1024u
#define MOVER_MOVES  2048u
#define MOVER_ORDERS 256u
#define MOVER_PARTS  3u
#define MOVER_PLACES 40u /* of a lane */
#define MOVER_EDGE   32u /* bytes behind a place that nobody touches */
#define MOVER_EACH   5u  /* moves of one request, at most */

enum mover_use {
    PLACE_FREE = 0,
    PLACE_LENT,  /* with a call */
    PLACE_MOVES, /* of a service */
    PLACE_GIVEN  /* by a move, which ends now */
};

struct mover_place {
    uint8_t *bytes;
    uint64_t size; /* that it has, or had last: those, and the edge, are looked at */
    enum mover_use use;
    uint32_t of; /* loan or move */
    uint32_t part;
};

/* A lane's. */
struct mover_memory {
    uint8_t *bytes;
    uint64_t size;
    struct fabric_memory *registration;
    struct mover_place places[MOVER_PLACES];
    uint32_t next_look;
    uint32_t losing; /* the node whose link just ends, and 1 */
};

/* What a call brings, for ever; its number is from 1. */
struct mover_loan {
    uint32_t serial; /* of the call */
    uint32_t node;
    uint32_t parts;
    bool lives;                             /* its node does */
    struct mover_place *place[MOVER_PARTS]; /* NULL: it was given back */
    uint64_t bytes[MOVER_PARTS];
    uint32_t access[MOVER_PARTS];
};

/* What a service asked for, for ever. */
struct mover_move {
    uint32_t loan, order;
    uint32_t node, lane, session, incarnation;
    uint32_t part;
    bool push, ended, canceled;
    uint64_t offset, bytes;
    struct mover_place *place;
    nigh_status status;
};

/* A request whose service is to move something, or has. */
struct mover_order {
    bool used;
    bool answers; /* when all of it has ended, and not before */
    uint32_t node, lane, loan;
    uint32_t left, open;
    uint32_t request;        /* its place, */
    uint64_t request_number; /* and number, in caller_world */
    uint64_t number, id;
};

struct mover_world {
    struct random random;
    uint32_t places;
    uint64_t most_bytes;
    uint32_t brings_percent; /* of calls that may */
    uint64_t late_us;        /* between what a service moves, at most */
    struct mover_loan loans[MOVER_LOANS + 1];
    uint32_t loan_count;
    struct mover_move moves[MOVER_MOVES];
    uint32_t move_count, open_count;
    struct mover_order orders[MOVER_ORDERS];
    uint64_t order_count;
};

void mover_choose(struct world *world);
void mover_lane_starts(struct world_lane *lane);
/* Its calls are gone. */
void mover_lane_ends(struct world_lane *lane);
void mover_node_ends(struct world *world, uint32_t node);
/* A client dies, with what its services move. */
void mover_forget(struct world *world, uint32_t node, uint32_t session);
/* The link to a node, numbered from 1, just ends; 0: it has. */
void mover_loses(struct world_lane *lane, uint32_t node);
struct bulks_shell mover_shell(struct world_lane *lane);

/* What a call brings; 0: nothing. */
uint32_t mover_open(struct world_lane *lane, uint32_t serial, struct bulks_loan **loan);
uint32_t mover_parts(const struct world *world, uint32_t loan);
/* It has ended: who did not give up itself has its memory back. */
void mover_call_ended(struct world *world, uint32_t loan, bool gave_up);
/* What the service sees of it. */
void mover_check_infos(const struct world_lane *lane, uint32_t loan,
                       const struct calls_request *request);
/* Its service is to move some of it, later. Whether it answers when that has ended. */
bool mover_take(struct world_lane *lane, uint32_t loan, uint32_t request);

void mover_check_lane(struct world_lane *lane);
bool mover_is_idle(const struct world *world);
void mover_why_not_idle(struct world *world);

#endif
