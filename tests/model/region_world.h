/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small world around one region: two homes, the second of which takes over when the first dies;
 * two holders; and a mapper with a client that writes and reads. What can happen in it, one step at
 * a time, over the production code. For region_explore.c, region_world.c and region_state.c only.
 */
#ifndef TESTS_MODEL_REGION_WORLD_H
#define TESTS_MODEL_REGION_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "region/holder.h"
#include "region/home.h"
#include "region/mapping.h"

#define HOMES      2u
#define HOLDERS    2u
#define CHUNKS     2u
#define FIRST      HOMES             /* rank of the first holder */
#define MAPPER     (HOMES + HOLDERS) /* its rank */
#define MAPPERS    1u
#define NODES      (MAPPER + MAPPERS)
#define QUEUE      6u
#define ASKS       3u
#define CHUNK      UINT64_C(4096)
#define WORLD_TOLD 100 /* a message of the shells': a member has told all */

struct budget {
    uint8_t writes, reads, fails, breaks, home_deaths, deaths, leases;
    bool opens_slowly; /* an OPEN ends at any later time */
};

struct letter {
    struct region_message message;
    struct region_window handles[CHUNKS];
};

struct queue {
    uint32_t count;
    struct letter letters[QUEUE];
};

union descriptor {
    struct region_descriptor descriptor;
    uint8_t bytes[sizeof(struct region_descriptor) + CHUNKS * sizeof(struct region_chunk)];
};

/* A chunk's memory at a holder. */
struct memory {
    bool exists, is_over; /* over: a change that took it from the chunk was acknowledged */
    bool is_writable, was_open;
    uint8_t value;
    uint64_t handle; /* that the network knows; 0: none */
};

struct pending {
    bool is_pending;
    struct region_holder_act act;
};

struct flight {
    bool is_posted;
    uint32_t node;
    struct region_window handle;
};

struct client {
    struct region_op op;
    bool is_busy, is_write;
    uint8_t value;         /* that is written */
    uint8_t least[CHUNKS]; /* that a read may see */
    uint8_t begun[CHUNKS]; /* the same, when this one began */
    uint8_t last;          /* that was ever written */
    struct flight flights[CHUNKS];
};

enum ask_state {
    ASK_NOT_YET,
    ASK_ASKED,
    ASK_ANSWERED
};

struct world {
    struct budget left;
    struct region_home homes[HOMES];
    union descriptor home_now[HOMES], home_next[HOMES];
    struct region_holder holders[HOLDERS];
    struct region_slot slots[HOLDERS][CHUNKS];
    union descriptor kept[HOLDERS];
    struct region_mapping mapping;
    union descriptor mapped[MAPPERS];
    struct client client;
    struct queue queues[NODES][NODES]; /* from, to */
    struct memory memories[HOLDERS][CHUNKS];
    struct pending pending[HOLDERS][CHUNKS];
    uint64_t last_handle;
    bool is_dead[NODES];
    bool knows_dead[HOMES][HOLDERS];
    uint32_t home;           /* that is */
    uint32_t home_of[NODES]; /* that a node goes by */
    struct region_ask asks[ASKS];
    enum ask_state ask_states[ASKS];
    uint32_t asked;
    struct region_version acked; /* the last change that the first home acknowledged */
    bool is_revoked;
    bool is_checked; /* what was rebuilt */
    bool overflow;   /* a queue was full: not explored further */
};

/* All of it: an explorer copies it away, and back. */
extern struct world now;

/* What is asked of the region, in order, and how many chunks it has: the same in all states. */
extern const struct region_ask *world_asks;
extern uint32_t world_ask_count, world_chunks;

/* What landed, and what was refused, since somebody set them to 0. */
extern uint64_t world_landed, world_refused;

/* The explorer's: fails with the steps that led here, unless it holds. */
void world_claim(bool holds, const char *what);

/* A home, and nothing asked of it yet. */
void world_init(const struct budget *left);

/*
 * What may happen. Each says whether it could; if not, nothing was changed.
 */
bool world_deliver(uint32_t from, uint32_t to);
bool world_finish_act(uint32_t k, uint32_t chunk, bool fails);
bool world_land(uint32_t chunk);
bool world_begin_op(bool is_write);
bool world_ask_next(void);
bool world_home_dies(void); /* who asked it hears of its end */
bool world_holder_dies(uint32_t k);
bool world_learn_death(uint32_t h, uint32_t k);
bool world_learn_home(uint32_t node); /* a node hears who the home is */
bool world_break_link(uint32_t node); /* it breaks, and is back */
bool world_change_lease(uint32_t k);
bool world_hold_over(void); /* mappers are not waited for any longer */

/* What nobody could tell from what comes later is done at once: after each of the above. */
void world_finish_quick_acts(void);

/* region_state.c: equal for equal states, and never 0. */
uint64_t world_hash(void);

/* region_state.c: equal descriptors are one, that stays: what is on its way refers to it. */
const struct region_descriptor *world_intern(const struct region_descriptor *descriptor);

#endif
