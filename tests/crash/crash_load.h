/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load for the crash tests: processes that do a bit of everything at random, and look at every byte
 * they get. They tell each other through a board in shared memory which objects there may be.
 */
#ifndef TESTS_CRASH_LOAD_H
#define TESTS_CRASH_LOAD_H

#include <stdatomic.h>

#include "crash/crash_world.h"

#define LOAD_BOARD 1024u

/* What the processes share; zeroed, in memory that fork keeps shared. */
struct load_board {
    _Atomic uint64_t object[LOAD_BOARD]; /* 0, or what load_id makes an id of */
    _Atomic uint64_t next_serial;
    _Atomic uint32_t stop; /* asks everyone who is not killed to end */
};

/* How one process fares: written by it, read by the test. */
struct load_report {
    _Atomic uint64_t steps;    /* operations begun */
    _Atomic uint64_t verified; /* objects read, every byte right */
    _Atomic uint64_t puts;
    _Atomic uint64_t slowest_us; /* of one operation */
    _Atomic int32_t failure;     /* 0, or the status that should not have been */
    _Atomic uint32_t failed_in;  /* which operation, from 1 */
};

/* Memory that forked children share; fails the test when there is none. */
void *load_shared(size_t size_bytes);

/* One random operation. False: something failed that may not; *report says what. */
struct load;
bool load_step(struct load *load);

/* A process's load over its own client, its heap; `seed` not 0. Never destroyed: its process ends.
 */
struct load *load_create(nigh_client *client, struct load_board *board, struct load_report *report,
                         uint64_t seed);

/* Lets go of everything that the load holds. */
void load_release_all(struct load *load);

#endif
