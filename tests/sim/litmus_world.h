/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes that serve one space, in one process, by seed, that run litmus tests: real engines, windows
 * and views; links are channels in order, in which bytes land at any time before their message.
 * Nothing breaks. Of threads, lanes and links each goes as fast as the round says, so that every
 * order comes to be: now nearly as they take turns, now one far behind the others. For
 * litmus_world.c and space_litmus_test.c only.
 */
#ifndef TESTS_SIM_LITMUS_WORLD_H
#define TESTS_SIM_LITMUS_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "space/engine.h"
#include "space/windows.h"
#include "support/space_litmus.h"

#define LITMUS_NODES   4u
#define LITMUS_CLIENTS (LITMUS_THREADS + 1) /* a node; the last one sets up, looks, and evicts */
#define LITMUS_BYTES   64u                  /* of a block */
#define LITMUS_FILLERS 12u                  /* blocks of each home that evict others */
#define LITMUS_DEPTH   256u

struct litmus_item {
    struct space_send send;
    bool has_landed;
};

struct litmus_channel {
    uint32_t first, count;
    struct litmus_item items[LITMUS_DEPTH];
    uint32_t ends[SPACE_SEATS]; /* of wants_end, by cookie, that are to be told */
    uint32_t arrived;           /* of these, all */
};

struct litmus_client {
    uint32_t window;
    struct space_window *memory;
    struct space_producer producer;
    struct space_mapped mapped;
};

struct litmus_node {
    struct space_engine *engine;
    struct space_windows *windows;
    void *home, *cache;
    uint64_t home_bytes, cache_bytes;
    struct litmus_client clients[LITMUS_CLIENTS];
    uint64_t blocks[LITMUS_VARIABLES], fillers[LITMUS_FILLERS];
    bool is_awake; /* its turn may do something */
    bool is_asked; /* the client that evicts waits */
};

/* Of a round. */
struct litmus_thread {
    uint32_t node;
    struct litmus_client *client;
    uint32_t at, read;         /* ops done, of which reads */
    bool is_asked, is_without; /* the lock that it tried to have */
};

struct litmus_world {
    struct random random;
    uint64_t now_us, events;
    struct litmus_node nodes[LITMUS_NODES];
    struct litmus_channel channels[LITMUS_NODES][LITMUS_NODES]; /* from, to */
    const char *broken;                                         /* what does not hold */
    /* Of a round. */
    struct litmus_cell *cell;
    uint64_t addresses[LITMUS_VARIABLES];
    struct litmus_thread threads[LITMUS_THREADS];
    uint64_t outcome;
    bool told, evicts;
    /* How fast each goes: threads, nodes, those that evict, channels. */
    uint32_t weights[LITMUS_THREADS + 2 * LITMUS_NODES + LITMUS_NODES * LITMUS_NODES];
};

void litmus_world_init(struct litmus_world *world, uint64_t seed);
void litmus_world_fini(struct litmus_world *world);

/* One round of a cell, to its end; false: something else than an outcome is wrong, see `broken`. */
bool litmus_world_round(struct litmus_world *world, struct litmus_cell *cell, uint64_t *outcome);

uint64_t litmus_world_evictions(const struct litmus_world *world);

#endif
