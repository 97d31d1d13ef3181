/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The books of one entry, and the lists that they stand in (store_record.c). Every object has an
 * index entry (shared memory, read by clients) and a record of the same number (the lane's own):
 * what the entry says is what a restart finds; what the record says is made again from the entries.
 * For the store alone.
 */
#ifndef OBJECT_STORE_RECORD_H
#define OBJECT_STORE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/index.h"
#include "nigh/object.h"
#include "nigh/status.h"

struct store;
struct store_pool;
struct store_session;

/* No entry, in the lists of records: entry 0 is one. */
#define STORE_NONE UINT32_MAX

/* Bits of store_record.flags. */
#define RECORD_WRITING 1u  /* a disk job reads its memory */
#define RECORD_READING 2u  /* a disk job reads the file into its memory; the entry is SPILLED */
#define RECORD_ON_DISK 4u  /* its file is written, whether its memory is still there or not */
#define RECORD_WRITTEN 8u  /* stands in store.written */
#define RECORD_COPYING 32u /* CREATED, and being copied to be sealed */
#define RECORD_SECOND  32u /* SPILLED and DOOMED: another birth of its id was admitted */
#define RECORD_ASKED                                                                          \
    16u /* DELETING, and its DELETE waits for the answer; CREATED, and its SEAL waits for the \
           home; SPILLED and being read, and another node has asked for it */
#define RECORD_DOOMED                                                                           \
    64u /* SPILLED and being read: dropped as soon as that has ended; CREATED, and another node \
           has the id now: its seal is refused */
#define RECORD_TRANSIENT \
    128u /* DELETING, because all who wanted it want no copy: others may be served with it */

/* The lane's books of one entry. All zero: nothing is known, the entry is FREE. */
struct store_record {
    uint32_t block; /* of the heap, and one; 0: no memory */
    uint32_t next;  /* entry, and one, in the list it is in: see store_list */
    uint32_t prev;
    uint32_t chain;     /* entry, and one: the next shadow of the bucket */
    uint32_t near_next; /* entry, and one: others whose memory begins in the same extent */
    uint32_t near_prev;
    uint32_t serial; /* of the session that made it; 0: nobody */
    uint16_t maker;  /* its slot */
    uint8_t readers; /* checksums under way, and loans */
    uint8_t flags;   /* RECORD_* */
};

_Static_assert(sizeof(struct store_record) == 32, "docs/objects.md promises this");

/*
 * A list through records: what a session has created, what it made that is in memory, copies, the
 * graveyard, what was written. A record is in one at most. Ends hold entry and one.
 */
struct store_list {
    uint32_t first;
    uint32_t last;
    uint32_t count;
};

/* Whether something of the lane itself reads the entry's memory. */
static inline bool store_is_read(const struct store_record *record)
{
    return record->readers > 0 || (record->flags & (RECORD_WRITING | RECORD_READING)) != 0;
}

void store_list_push(struct store_pool *pool, struct store_list *list, uint32_t entry);
/* list NULL: its owner is gone, and the list goes on without ends. */
void store_list_remove(struct store_pool *pool, struct store_list *list, uint32_t entry);

/* The session that made an entry, if it is still there. */
struct store_session *store_maker(const struct store *store, const struct store_record *record);

/* Shadows: created objects that claim nothing, and deleting ones. */
void store_shadow_add(struct store_pool *pool, uint64_t hash, uint32_t entry);
void store_shadow_remove(struct store_pool *pool, uint64_t hash, uint32_t entry);
bool store_shadow_find(struct store_pool *pool, const uint8_t *id, uint64_t hash, uint32_t *entry);
/* The first of a hash's bucket, and one; the rest by their chain. Others' may be among them. */
uint32_t store_shadow_first(const struct store_pool *pool, uint64_t hash);

/* Counts bytes of the arena as live, or no more. */
void store_live(struct store *store, uint64_t offset, uint64_t bytes, bool live);
/* Counts (1) or discounts (-1) something that keeps extents from being emptied. */
void store_obstacle(struct store *store, uint64_t offset, uint64_t bytes, int change);
void store_object_obstacle(struct store *store, struct store_pool *pool, uint32_t entry,
                           int change);
/*
 * The lane itself begins (1) or ends (-1) to hold an object where it is: pulled or read back to be
 * sealed, read for another node or a checksum. That ends without anybody's doing. Its memory is
 * bound all the while.
 */
void store_passing(struct store *store, struct store_pool *pool, uint32_t entry, int change);

/* Counts what is in memory and on disk as well, and so may leave memory without a write; it has
 * both when this is called. */
void store_backed(struct store *store, const struct store_pool *pool, uint32_t entry, bool backed);

/* Blocks: what store_block_take gives counts as live; give is its end. */
nigh_status store_block_take(struct store *store, uint32_t heap, uint64_t bytes, uint32_t *block);
void store_block_give(struct store *store, uint32_t block);

/* The memory of an entry, from when it has one until it is given back (returns its bytes). */
void store_memory_bind(struct store *store, struct store_pool *pool, uint32_t entry,
                       uint32_t block);
uint64_t store_memory_unbind(struct store *store, struct store_pool *pool, uint32_t entry);
uint64_t store_memory_bytes(const struct store *store, const struct store_pool *pool,
                            uint32_t entry);

/* The list of what is sealed and in memory that an entry is in; NULL: of none with ends. */
struct store_list *store_list_of(struct store *store, struct store_pool *pool, uint32_t entry);

/* Checksums and loans, which need an entry's memory to stay where it is. False: too many. */
bool store_reader_enter(struct store *store, struct store_pool *pool, uint32_t entry);
void store_reader_leave(struct store *store, struct store_pool *pool, uint32_t entry);

/* What a session's quota counts. */
void store_charge(struct store_session *session, uint64_t bytes);
void store_discharge(struct store_session *session, uint64_t bytes);

/* Wall clock, within a microsecond or so a second. */
uint64_t store_wall_ns(struct store *store);

/* Tells the pool's subscribers. Before the entry is released. */
void store_say(struct store *store, struct store_pool *pool, uint32_t entry, nigh_event_kind kind);

#endif
