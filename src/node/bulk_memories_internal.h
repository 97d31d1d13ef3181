/* SPDX-License-Identifier: Apache-2.0 */
/* What bulk_memories.c (the table, and what lanes do) and bulk_maker.c (files, and the thread that
 * makes them) share. For no one else. */
#ifndef NODE_BULK_MEMORIES_INTERNAL_H
#define NODE_BULK_MEMORIES_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/check.h"
#include "node/bulk_memories.h"

enum bulk_ask_kind {
    ASK_FREE = 0,
    ASK_MAKE,
    ASK_WAIT,
    ASK_END
};

/* A submission that waits for the thread, or whose lane has not taken its end yet. */
struct bulk_ask {
    enum bulk_ask_kind kind;
    bool over;
    nigh_status status; /* ASK_MAKE: if not NIGH_OK, what it ends with when the rest is unmade */
    uint64_t number;    /* of the piece */
    uint32_t uid;       /* whose share it counts for */
    uint64_t deadline_us;
    struct bulk_asker asker;
};

struct bulk_memories {
    struct bulk_memories_config config;
    _Atomic uint64_t version; /* written locked: counts what lanes are to look at */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t serial;
    uint32_t used; /* pieces below are, or were */
    struct bulk_memory all[LIMIT_BULKS];
    _Atomic uint64_t seen[LIMIT_LANES]; /* each by its lane */
    /* bulk_maker.c */
    pthread_t thread;
    bool started, stopping;
    uint32_t next; /* piece that has its turn */
    uint64_t made_bytes, refused;
    uint64_t told_us; /* when it may be logged again that one could not be made */
    struct bulk_ask asks[LIMIT_BULK_ASKS];
    _Atomic uint32_t over[LIMIT_LANES]; /* asks of each that are; written locked */
};

/* All locked. */

/* The piece of a number, if anybody may find it; NULL. */
struct bulk_memory *bulk_memories_find(struct bulk_memories *memories, uint64_t number);
/* A free place, with a number of its own. NIGH_LIMIT. */
nigh_status bulk_memories_place(struct bulk_memories *memories, uint64_t session,
                                struct bulk_memory **memory);
void bulk_memories_tell(struct bulk_memories *memories);
/* Until something changes; false: it is too late. */
bool bulk_memories_sleep(struct bulk_memories *memories, uint64_t deadline_us);

/* Not locked: unmaps and closes what is left of a file; no thread and no lane runs. */
void bulk_memories_drop_file(struct bulk_memory *memory);

#endif
