/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small world for exploring pins: one index of a few entries, blocks of data of one word each,
 * two sessions, and what the lane and the readers of the scenarios in pins_explore.c do again and
 * again. For that file and pins_world.c only.
 */
#ifndef TESTS_MODEL_PINS_WORLD_H
#define TESTS_MODEL_PINS_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/index.h"
#include "object/index_writer.h"
#include "object/pin_scan.h"

#define WORLD_ENTRIES  3 /* and 8 slots */
#define WORLD_BLOCKS   3
#define WORLD_SESSIONS 2
#define WORLD_POISON   UINT64_C(0xdeaddeaddeaddead)

/* The objects of the scenarios; all have the same first slot. */
enum world_object {
    WORLD_K,
    WORLD_L,
    WORLD_M,
    WORLD_OBJECTS
};

struct world_session {
    struct pin_chunk chunks[1];
    _Atomic uint32_t chunks_used;
    _Atomic uint64_t lane_pins[1];
};

struct world {
    struct index index; /* the readers' */
    struct index_writer writer;
    struct pin_scan scan;
    struct pin_table tables[WORLD_SESSIONS];
    struct world_session sessions[WORLD_SESSIONS];
    uint64_t blocks[WORLD_BLOCKS];
    uint8_t id[WORLD_OBJECTS][LIMIT_ID_BYTES];
    uint64_t hash[WORLD_OBJECTS];
    uint32_t number[WORLD_OBJECTS]; /* the lane's: entries of objects made by world_put */
    uint32_t answer[3];             /* each reader's: what index_acquire said */
};

extern struct world world;

/* An empty index, sessions without pins whose first chunk is open, poison in all blocks. */
void world_make(void);

/* The word that a block holds for an object of a generation. */
uint64_t world_value(enum world_object object, uint64_t generation);

/* The lane's: a new object with its bytes in a block, sealed and in the slots. */
void world_put(enum world_object object, uint32_t block);

/* The lane's: evicts if nobody pins; then the memory is poisoned at once. True if it did. */
bool world_evict(enum world_object object);

/* The lane's: takes the object from the slots, and poisons the memory if nobody pins, else looks
 * again up to `looks` times. True if it is gone. */
bool world_delete(enum world_object object, uint32_t looks);

/*
 * A reader's: looks up; on a hit checks that the entry is the object's, and uses the bytes for a
 * while; then lets go. Slots: each reader its own session and pin word.
 */
enum index_answer world_get(uint32_t session, uint32_t slot, enum world_object object);

/* A reader's: uses the bytes of an entry that it has pinned, for a while. */
void world_use(enum world_object object, uint32_t number, uint64_t generation);

#endif
