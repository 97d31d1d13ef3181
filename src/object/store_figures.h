/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of the store: shares of its memory, bounds and times of its own. */
#ifndef OBJECT_STORE_FIGURES_H
#define OBJECT_STORE_FIGURES_H

#include "base/limits.h"

/* A queue for memory up to this long is looked through whenever someone leaves it. */
#define STORE_SHORT_QUEUE 64u

/* Leases together take no more than this share of a lane's memory: idle ones help nobody. */
#define STORE_LEASED_SHARE 4u

/* Shares of a lane's memory: less free than the first, and it evicts ahead until the second is. */
#define STORE_LOW_SHARE  32u
#define STORE_HIGH_SHARE 16u

/* Ahead of need no object goes that takes more than this share of the second of them. */
#define STORE_AHEAD_EACH_SHARE 4u

/* Files that may be under way when more are begun ahead of need: the rest of the disk's queue is
 * for who waits. */
#define STORE_AHEAD_WRITING (LIMIT_SPILL_QUEUE / 2 - LIMIT_EVICT_BATCH)

/* Where nothing may be evicted ahead of need it is tried again less and less often, at last after
 * LIMIT_RETRY_US times two to this power, halved; and when somebody does need room. */
#define STORE_AHEAD_BARREN 10u

/* Room that is kept in one piece where memory is in pieces: for the next lease or two. */
#define STORE_GATHER_BYTES (2 * LIMIT_LEASE_BYTES_MIN)

/* Who is above a quota loses at least this share of it, if so much is unused. */
#define STORE_QUOTA_SHARE 64u

/* So much of an extent is evicted here and there, in vain, before a whole one is emptied. */
#define STORE_SCATTER_SHARE 8u

/* What emptying one run costs more than emptying extents here and there, in this share of an extent
 * for each, is what moving their memory is worth. */
#define STORE_MOVING_SHARE 8u

/* From this size on, and half an extent, it is asked first whether an object could fit at all. */
#define STORE_FIT_BYTES LIMIT_LEASE_BYTES_MAX

/* Objects that a look for what stays in memory reads at most, where no pin tells. */
#define STORE_FIT_RECORDS 4096u

/* A large object costs others at most so many times its size if it does not fit after all. */
#define STORE_SPENT_SHARE 4u

/* Long operations that get on in one turn. */
#define STORE_TURN_WORKS 8u

/* The policy is told of another size when it is off by more than this share of it. */
#define STORE_POLICY_SHARE 16u

/* How long a reading of the wall clock serves. */
#define STORE_WALL_US 1000000u

/* Waiting claims are looked at so often, and asked for again if their home did not know yet. */
#define STORE_CLAIM_US 20000u

#endif
