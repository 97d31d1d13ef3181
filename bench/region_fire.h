/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of a region that processes at all nodes write and read while its chunks move: what each
 * process does, and what they share to know of every byte that is read whether it may be there.
 *
 * A record is of one writer. Every word of it says of which write it is, and has a checksum of
 * that, of whose record it is and of its place there; the last word has one of all others. A read
 * that began when write n had been acknowledged, and ended when write m had begun, may find words
 * of n to m: no others, as what is read beside a write may be torn between words and no further. A
 * write whose end is not known (PEER_LOST, a node that was killed) may land at any time since.
 *
 * One more record is written by whoever has a lock, with the handle of the lock. There nothing
 * lands later: what is found is what was acknowledged last, or the beginning of a write after it.
 */
#ifndef BENCH_REGION_FIRE_H
#define BENCH_REGION_FIRE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "nigh/nigh.h"
#include "nigh/region.h"

enum {
    FIRE_NODES = 8,    /* most of them; a client at each */
    FIRE_CHUNKS = 64,  /* most of them */
    FIRE_SLOTS = 64,   /* records of a client */
    FIRE_WORDS = 64,   /* of a record */
    FIRE_UNKNOWN = 8,  /* writes of a record whose end is not known; then it is not written again */
    FIRE_RETIRED = 16, /* operations that have ended, and are looked at again */
    FIRE_STATUSES = 64,
    FIRE_MOVES = 1 << 17, /* of which it is known how long they were waited for */
    FIRE_PARTS = 64,      /* of a power of two, in a distribution */
    FIRE_TIMES = FIRE_PARTS * 36,
    FIRE_LOST = 2 /* the last chunks may be at a node that is killed */
};

#define FIRE_BYTES       (FIRE_WORDS * UINT64_C(8))
#define FIRE_SECOND_US   UINT64_C(1000000)
#define FIRE_PATIENCE_US (20 * FIRE_SECOND_US)
#define FIRE_NO_NODE     UINT32_MAX

/* What is going on; operations are counted by what was when they began. */
enum fire_mode {
    FIRE_PLAIN,  /* nothing moves */
    FIRE_MOVING, /* as many chunks move as were asked for */
    FIRE_FAULTS, /* they move without end, and a process has the lock for as long as it may */
    FIRE_MODES,
    FIRE_OVER = FIRE_MODES
};

enum fire_kind {
    FIRE_READ,
    FIRE_WRITE,
    FIRE_LOCKED_READ, /* with the handle of a lock */
    FIRE_LOCKED_WRITE,
    FIRE_LOCK,
    FIRE_UNLOCK,
    FIRE_MOVE,
    FIRE_KINDS
};

/* A distribution of nanoseconds, to one part in FIRE_PARTS. */
struct fire_times {
    _Atomic uint64_t count, most;
    _Atomic uint32_t counts[FIRE_TIMES];
};

struct fire_slot {
    _Atomic uint32_t acknowledged, begun; /* writes: numbers from 1 on */
    _Atomic uint32_t unknown_count, unknown[FIRE_UNKNOWN];
};

/* Of a client, which it alone writes. */
struct fire_counts {
    _Atomic uint64_t begun, ended, ended_well;
};

/* All processes have it; anonymous memory. */
struct fire {
    const char *name;
    char *const *sockets;
    uint32_t nodes, chunks;
    uint64_t chunk_bytes, seed;

    _Atomic uint32_t mode;    /* enum fire_mode */
    _Atomic uint32_t avoid;   /* a node that chunks, but the last ones, keep away from */
    _Atomic uint32_t avoided; /* they do */
    _Atomic uint64_t goal;    /* of moves */
    _Atomic pid_t holding;    /* who has the lock, and may be killed */
    _Atomic uint64_t lock_losses, moves;

    /* Of each chunk: the last of its moves to begin, and to end. */
    _Atomic uint32_t move_begun[FIRE_CHUNKS], move_ended[FIRE_CHUNKS];
    _Atomic uint64_t pauses[FIRE_MOVES]; /* the longest wait of an operation beside that move */
    struct fire_times times[FIRE_MODES], move_times;

    struct fire_slot slots[FIRE_NODES][FIRE_SLOTS], locked;
    struct fire_counts clients[FIRE_NODES];
    _Atomic uint64_t statuses[FIRE_MODES][FIRE_KINDS][FIRE_STATUSES];

    /* What must not be, and how often records were read torn, and ends that came late. */
    _Atomic uint64_t wrong, stale, twice, undocumented, torn, late;
};

extern struct fire *fire;

uint64_t fire_now_ns(void);
uint32_t fire_random(uint64_t *random, uint32_t bound);
void fire_breathe(uint32_t ms);

void fire_time(struct fire_times *times, uint64_t ns);
/* Nanoseconds; quantile from 0 to 1. */
double fire_quantile(const struct fire_times *times, double quantile);

/* How an operation ended: counted, and held against what is documented of it. */
void fire_ended(enum fire_kind kind, nigh_status status);
/* What the client's connection, or its node, may be the reason for. */
bool fire_is_of_client(nigh_status status);

/* A client of the node and the region, as soon as both are there; false: it is over. */
bool fire_open(uint32_t node, uint32_t access, nigh_client **client, nigh_region **region);

/* The region's size, with the records where they are. */
uint64_t fire_region_bytes(void);

/* What a client does until it is over; then it reads all its records once more. */
void fire_client(uint32_t number);
/* What one does that has the lock as long as it may. */
void fire_holder(uint32_t number);

#endif
