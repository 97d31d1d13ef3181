/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which objects leave a full memory first: the eviction policy of one lane.
 *
 * A state machine over entry numbers: no clock, no memory but what init is given, no I/O. It knows
 * nothing of pins, of spilling or of the index; it offers candidates, and the caller says what
 * became of each. States, transitions, the choice of the algorithm and the measurements behind it:
 * docs/eviction.md.
 *
 * The algorithm is S3-FIFO (Yang et al., SOSP'23) with the correlation window of Clock2Q+ (Zhai et
 * al., arXiv 2511.21958), its queues measured in bytes, and a border between small and main queue
 * that moves by what the history of both says, as in ARC (Megiddo and Modha, FAST'03).
 *
 * Thread: the lane's only. Time: constant per call, amortised; evict_victims passes over at most
 * LIMIT_EVICT_SCAN entries that it does not offer. The same calls give the same answers.
 */
#ifndef OBJECT_EVICT_H
#define OBJECT_EVICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nigh/status.h"

/* Where an entry is. FREE: the policy does not know it. */
enum evict_place {
    EVICT_FREE = 0,
    EVICT_YOUNG = 1,   /* newcomers; their hints are not counted */
    EVICT_SMALL = 2,   /* on trial: a hint saves them, else they are the next to go */
    EVICT_MAIN = 3,    /* proven: used again after the trial began, or soon after they went */
    EVICT_PARKED = 4,  /* offered and kept: tried again, a few at a time */
    EVICT_OFFERED = 5, /* in the caller's hands, until evict_evicted, evict_kept or evict_forget */
    EVICT_PLACES = 6
};

/* The fields of these three are evict.c's own. */
struct evict_node {
    uint32_t toward_head;
    uint32_t toward_tail;
    uint32_t granules;
    uint32_t hash;
};

struct evict_ghost {
    uint32_t hash;  /* 0: nothing here */
    uint32_t stamp; /* when it went, by its queue's clock, from which, and whether it was missed */
};

struct evict_queue {
    uint64_t granules;
    uint32_t count;
    uint32_t head;
    uint32_t tail;
};

struct evict {
    struct evict_node *nodes;
    uint8_t *marks;
    struct evict_ghost *ghosts;
    struct evict_queue queues[EVICT_PLACES]; /* of OFFERED only the sums; FREE is not used */
    uint64_t went[2];                        /* granules evicted after trial, and from main */
    uint64_t capacity;                       /* granules, as are the next three */
    uint64_t small_target;
    uint64_t small_target_min;
    uint64_t small_target_max;
    uint32_t max_entries;
    uint32_t ghost_buckets;
    uint32_t retry_credit; /* earned by offers of entries never kept, spent on kept ones */
};

/* Bytes of storage for entries 0 to max_entries - 1: at most 23 an entry and 128 more. */
size_t evict_storage_bytes(uint32_t max_entries);

/*
 * An empty policy for a memory of capacity_bytes. `storage` has evict_storage_bytes(max_entries)
 * bytes, begins on a cache line, need not be zeroed, and stays the caller's; there is nothing to
 * fini. NIGH_INVALID: no entries, more than LIMIT_INDEX_ENTRIES, less than a granule of capacity,
 * or a misaligned storage.
 */
nigh_status evict_init(struct evict *evict, uint32_t max_entries, uint64_t capacity_bytes,
                       void *storage);

/*
 * The memory grew or shrank to capacity_bytes (a granule at least). Moves no entry; the border
 * stays at its share of the capacity, rounded down: so not for every little change.
 */
void evict_resize(struct evict *evict, uint64_t capacity_bytes);

/* An object of this id will probably be admitted soon: fetches what that will look at. */
void evict_expect(const struct evict *evict, uint64_t id_hash);

/*
 * A new object in a FREE entry. id_hash is any good 64-bit hash of its id: an object that comes
 * back soon is recognised by it (a false recognition costs a little of the hit ratio, no more).
 * Sizes count in granules, up to 256 GiB.
 */
void evict_admit(struct evict *evict, uint32_t entry, uint64_t size_bytes, uint64_t id_hash);

/*
 * An object of this id was asked for and is not in memory. If it went from trial lately, a longer
 * trial would have kept it; that counts once an object. Any id is allowed.
 */
void evict_missed(struct evict *evict, uint64_t id_hash);

/*
 * A hint that the entry was used. Anything is allowed: entries out of range and FREE ones are
 * ignored, a hint for the entry's previous object counts for the present one.
 */
void evict_touch(struct evict *evict, uint32_t entry);

/* The owner asks to keep the object longer, knowingly: it goes where proven objects are. Not FREE.
 */
void evict_refresh(struct evict *evict, uint32_t entry);

/* The object was deleted or left otherwise than by eviction: nothing is remembered. Not FREE. */
void evict_forget(struct evict *evict, uint32_t entry);

/*
 * Offers candidates, first to go first, until max_count of them or bytes_wanted bytes, and returns
 * how many it wrote to entries[]. 0: every entry is FREE or OFFERED already (or max_count or
 * bytes_wanted is 0). No entry is offered again before the caller has answered for it; it may take
 * its time, as a spill does. Of all offers, at most one in four is of an entry that was kept
 * before, unless nothing else is left. Drain the hints before.
 */
uint32_t evict_victims(struct evict *evict, uint32_t max_count, uint64_t bytes_wanted,
                       uint32_t *entries);

/*
 * The same for room that nobody needs yet. It ends before an entry of more than bytes_each, before
 * a newcomer, and before less would stay than newcomers may take; it offers nothing that was kept
 * before.
 */
uint32_t evict_spare(struct evict *evict, uint32_t max_count, uint64_t bytes_wanted,
                     uint64_t bytes_each, uint32_t *entries);

/* The object left memory (spilled, or gone): its entry is FREE, its return is watched for. Also for
 * an entry that was not offered. Not FREE. */
void evict_evicted(struct evict *evict, uint32_t entry);

/* An OFFERED entry stays: pinned, or its spill failed. */
void evict_kept(struct evict *evict, uint32_t entry);

/* Whether all that could be offered was kept before: time to wait for a release instead. */
bool evict_only_kept_left(const struct evict *evict);

/* EVICT_FREE also for an entry out of range. */
enum evict_place evict_where(const struct evict *evict, uint32_t entry);

/* Bytes (in whole granules) of the entries in a place that is not FREE. */
uint64_t evict_bytes(const struct evict *evict, enum evict_place place);

/* Checks every link, sum and bound; for tests. Time: linear. */
bool evict_is_valid(const struct evict *evict);

#endif
