/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where rows lie, are locked and are changed together: in a space (space_store.c), or in memory of
 * one process with its mutexes (memory_store.c), which is what the space is compared with.
 *
 * A change of several rows is whole, though whoever makes it may die at any moment: in the space
 * its locks are let go then, so that others come upon rows of which some were changed. Therefore
 *
 *   1. each row that is to be changed gets a mark, whose log, and which number there
 *   2. what they are to be is written to the worker's log
 *   3. store fence; the log's number is put: from here on it was done
 *   4. store fence; each row is written, in one write that also takes the mark away
 *   5. the locks are let go, behind all that
 *
 * Who locks a row and finds a mark, finds what a dead one left: it looks into that log, and writes
 * the row as it says there, or takes the mark away, if the number was not put.
 *
 * A store is one thread's.
 */
#ifndef STORE_H
#define STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rows.h"

enum {
    WORKERS_MAX = 60
};

/* Where in a change of rows the process is to die. */
enum death {
    DEATH_NONE,
    DEATH_LOCKED,    /* it has the locks */
    DEATH_MARKED,    /* and the marks are there */
    DEATH_COMMITTED, /* and the log's number, but no row is changed */
    DEATH_APPLIED,   /* half of them are */
    DEATH_ANY        /* at any moment of the next few milliseconds */
};

struct change {
    uint64_t row;
    const void *head; /* its mark is 0 */
    uint32_t head_bytes;
    const void *tail; /* what of the row's second block is to be written, from its begin */
    uint32_t tail_bytes;
};

struct store {
    /* Locks a row, alone or with others who read it, and reads its first bytes. false: another has
     * it. */
    bool (*lock)(struct store *store, uint64_t row, bool alone, void *head, uint32_t bytes);
    void (*unlock)(struct store *store, uint64_t row);
    void (*read)(struct store *store, uint64_t at, void *to, uint64_t bytes);
    void (*write)(struct store *store, uint64_t at, const void *from, uint64_t bytes);
    /* Whole rows, zeroed; near the thread. */
    uint64_t (*allocate)(struct store *store, uint64_t bytes);
    /* Rows that this thread has locked alone are changed, all or none. */
    void (*commit)(struct store *store, const struct change *changes, uint32_t count);
    /* All that the thread has done all can see. */
    void (*finish)(struct store *store);
    void (*close)(struct store *store);
};

/* The numbers of all logs' places; processes share it. */
struct store_logs {
    _Atomic uint64_t log[WORKERS_MAX];
    _Atomic uint64_t settled; /* rows that had a mark of a dead one */
};

/* ---- in a space ----------------------------------------------------------- */

/* Creates a space of so many bytes at each node, and as many for others' blocks; in `name`, of
 * SPACE_NAME_BYTES, is what it is called. */
#define SPACE_NAME_BYTES 48
void space_store_create(const char *socket, uint64_t home_bytes, char *name);
void space_store_delete(const char *socket, const char *name);

/* worker: whose log it has, if it is to change rows; else WORKERS_MAX. Locks are waited for so long
 * where another node has them. */
struct store *space_store_open(const char *socket, const char *name, struct store_logs *logs,
                               uint32_t worker, uint64_t lock_us);

/* The next change of rows is where the process dies. */
void space_store_dies(struct store *store, enum death death);

/* ---- in memory ------------------------------------------------------------ */

struct memory;
struct memory *memory_create(uint64_t bytes);
void memory_destroy(struct memory *memory);
struct store *memory_store_open(struct memory *memory);

#endif
