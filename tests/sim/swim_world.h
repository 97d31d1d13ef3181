/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of a cluster that speak the membership protocol to each other, in one process: virtual
 * time, and a seed that decides every delay and loss. No bytes, unless `encodes` says so; no nodes:
 * the protocol alone.
 */
#ifndef TESTS_SIM_SWIM_WORLD_H
#define TESTS_SIM_SWIM_WORLD_H

#include <stdio.h>

#include "base/random.h"
#include "cluster/swim_wire.h"

#define SECOND UINT64_C(1000000)

struct swim_world_config {
    uint32_t count;
    uint32_t listed; /* as swim_config has it */
    uint32_t loss_permille;
    uint64_t seed;
    bool encodes; /* datagrams are bytes, with their digests */
    FILE *trace;
};

struct swim_node {
    struct swim *swim; /* NULL: dead, or not started */
    uint32_t incarnation;
    uint64_t tick_us;      /* the one that is waited for */
    uint64_t paused_us;    /* it does nothing before this */
    uint64_t slow_min_us;  /* what it receives it looks at so much later, at least */
    uint64_t slow_more_us; /* and at most so much more */
    uint32_t side;         /* of a cut */
    uint64_t sent, received;
    uint64_t suspected; /* times that it began to suspect somebody by itself */
    uint64_t declared;  /* ... and declared somebody dead who ran */
    uint32_t known_by;  /* members that hold it for dead */
    uint64_t known_us;  /* when the last of them learnt it */
    uint64_t first_us;  /* when somebody first suspected it, dead as it was; 0: nobody yet */
};

struct swim_world_event {
    uint64_t at_us;
    uint64_t order; /* of equal times */
    uint32_t node;
    uint32_t message; /* UINT32_MAX: a tick */
};

struct swim_world {
    struct swim_world_config config;
    struct random random;
    uint64_t now_us, order, steps;
    uint64_t false_deaths; /* told by somebody of who ran, and was not slow */
    uint64_t suspicions, refutations;
    struct swim_node *nodes;
    struct swim_world_event *heap;
    uint32_t heap_count, heap_room;
    struct swim_message *messages;
    uint32_t *unused;
    uint32_t message_room, unused_count;
};

void swim_world_init(struct swim_world *world, const struct swim_world_config *config);
void swim_world_fini(struct swim_world *world);

/* Starts a node, or the next life of one. */
void swim_world_start(struct swim_world *world, uint32_t rank);
void swim_world_start_all(struct swim_world *world);
/* Without a word. */
void swim_world_kill(struct swim_world *world, uint32_t rank);
void swim_world_leave(struct swim_world *world, uint32_t rank);
/* Neither its time nor what it receives is looked at meanwhile. */
void swim_world_pause(struct swim_world *world, uint32_t rank, uint64_t for_us);
void swim_world_run(struct swim_world *world, uint64_t until_us);
/* Until all that run hold it for dead; false: not by then. */
bool swim_world_run_until_known(struct swim_world *world, uint32_t rank, uint64_t until_us);
uint32_t swim_world_running(const struct swim_world *world);
/* How many of those that run see this member in this state. */
uint32_t swim_world_seen(const struct swim_world *world, uint32_t rank, enum swim_state state);

#endif
