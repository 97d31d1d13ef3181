/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of one lane: for each key whose home this node is, which birth of the object is
 * admitted, who holds it, who waits for it, and whether it was deleted.
 *
 * Soft state: owners announce what they hold, and announce it all again when a link comes up or
 * this node came back; until every member that is not dead has, an unknown key is "not yet known",
 * not absent. Pure; what must be told to other nodes goes out through struct directory_shell.
 *
 * States of a key (docs/directory.md):
 *   absent    nobody holds it; perhaps some wait
 *   claimed   nobody holds it, and only one birth is to come: that of the member that claims it
 *   known     one birth is admitted, with at least one holder
 *   deleted   a tombstone of one birth: stays until every holder acknowledged or is dead
 */
#ifndef CLUSTER_DIRECTORY_H
#define CLUSTER_DIRECTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"

struct directory;

/* What tells one sealed object from another of the same id. */
struct birth {
    uint64_t counter;
    uint32_t incarnation;
    uint32_t rank;
};

_Static_assert(sizeof(struct birth) == 16, "a birth is on the wire");

static inline bool birth_equal(const struct birth *a, const struct birth *b)
{
    return a->counter == b->counter && a->incarnation == b->incarnation && a->rank == b->rank;
}

/* A pool as the cluster knows it, and an id in it. */
struct directory_key {
    uint64_t pool; /* hash of the pool's name and rules: pools of other rules are other pools */
    uint8_t id[LIMIT_ID_BYTES];
    uint32_t reserved; /* 0 */
};

_Static_assert(sizeof(struct directory_key) == 32, "a key is on the wire");

/* Hash of a key: the same at every node; the home is chosen by it. */
uint64_t directory_key_hash(const struct directory_key *key);

struct directory_object {
    struct birth birth;
    uint64_t data_size;
    uint32_t meta_size;
    uint32_t name_size;
};

_Static_assert(sizeof(struct directory_object) == 32, "an object's record is on the wire");

static inline bool directory_object_equal(const struct directory_object *a,
                                          const struct directory_object *b)
{
    return birth_equal(&a->birth, &b->birth) && a->data_size == b->data_size &&
           a->meta_size == b->meta_size && a->name_size == b->name_size;
}

#define DIRECTORY_HOLDERS 8 /* most that one answer names */

enum directory_state {
    DIRECTORY_ABSENT = 0,
    DIRECTORY_KNOWN = 1,
    DIRECTORY_NOT_YET = 2, /* members have yet to announce: ask again, or wait */
    DIRECTORY_DELETED = 3  /* no answer today: what was deleted is ABSENT, or NOT_YET */
};

/* Where an object is: holders other than the asker, in an order that differs by asker, so that load
 * spreads. */
struct directory_answer {
    enum directory_state state;
    uint32_t holder_count;
    uint32_t holders[DIRECTORY_HOLDERS];
    struct directory_object object;
};

/* Callbacks come from inside the calls below, any of them (of directory_delete: `drop` only). They
 * may call back, save directory_member_*, directory_announcing, directory_announced, directory_view
 * and directory_turn; untold and keeps may not. */
struct directory_shell {
    void *context;
    /* Tells a waiting node where the object is. It waits no more. */
    void (*found)(void *context, uint32_t rank, const struct directory_key *key,
                  const struct directory_answer *answer);
    /* Tells a holder to drop a birth; it answers with directory_dropped. False: not now; the
     * directory remembers it with the tombstone, and says it again from directory_tell_owed. */
    bool (*drop)(void *context, uint32_t rank, const struct directory_key *key,
                 const struct birth *birth);
    /* A delete is over: all holders acknowledged or are dead. status: NIGH_OK; NIGH_IN_USE (some
     * holder still has readers: gone at their last release). Once for each directory_delete that
     * returned NIGH_PENDING. */
    void (*deleted)(void *context, uint64_t ticket, nigh_status status);
    /* Whether a member (UINT32_MAX: any that counts) has yet to announce a key, whose home this
     * node became since. NULL: homes do not move. */
    bool (*untold)(void *context, uint32_t from, const struct directory_key *key);
    /* Whether this node is the home of a key in the view of an epoch. NULL as above. */
    bool (*keeps)(void *context, uint64_t epoch, const struct directory_key *key);
};

struct directory_config {
    uint32_t nodes; /* members */
    uint32_t self;
    uint32_t max_keys; /* bound, tombstones and waited-for ones counted; NIGH_LIMIT beyond, and
                          beyond a member's share of it (share.h) */
    uint64_t seed;     /* random: who chooses ids cannot make them collide */
    struct directory_shell shell;
};

nigh_status directory_create(const struct directory_config *config, struct directory **directory);
void directory_destroy(struct directory *directory);

/*
 * A member holds an object. NIGH_OK: admitted; NIGH_EXISTS: another birth is, or another member has
 * claimed the key; NIGH_IN_USE: this birth was deleted (drop it; while its tombstone stands
 * shell.drop says so, too, and the tombstone waits for the answer to that); NIGH_LIMIT. Wakes those
 * who wait. A copy cannot bring an absent key back (it may be of a birth that was deleted while it
 * was pulled: NIGH_IN_USE), unless the member has not announced the key's shard to the end yet,
 * since this directory began or since it was dead: then the directory is being rebuilt.
 */
nigh_status directory_announce(struct directory *directory, uint32_t from,
                               const struct directory_key *key,
                               const struct directory_object *object, bool is_copy,
                               uint64_t now_us);

/*
 * A member is about to seal this birth of a key, and nobody else is to have one. NIGH_OK: the key
 * is its own until it announces the birth, forgets it, is dead, or announces all without claiming
 * it again; a new claim of the same member stands in the former's place. NIGH_EXISTS: a birth is
 * admitted, or another member has claimed the key. NIGH_BUSY: members have yet to announce (ask
 * again); but not if `held`, which says that it was granted before. NIGH_LIMIT. Who waits for the
 * key waits on, and a delete of it finds nothing.
 */
nigh_status directory_claim(struct directory *directory, uint32_t from,
                            const struct directory_key *key, const struct birth *birth, bool held);

/* Where is it, besides at `from`? `wait`: if it is not known, `from` is told when it is (once;
 * asking again changes nothing). NIGH_LIMIT: cannot wait. */
nigh_status directory_locate(struct directory *directory, uint32_t from,
                             const struct directory_key *key, bool wait,
                             struct directory_answer *answer);
void directory_unwait(struct directory *directory, uint32_t from, const struct directory_key *key);

/* A member no longer holds a birth (evicted, or a pull found that it is not there), nor claims the
 * key for it. */
void directory_forget(struct directory *directory, uint32_t from, const struct directory_key *key,
                      const struct birth *birth);

/*
 * Deletes whatever birth is admitted. `except`: the asker, which dropped its own already
 * (UINT32_MAX: nobody). NIGH_OK: nobody else held it; NIGH_NOT_FOUND (deleted already, perhaps, and
 * that not over yet); NIGH_PENDING: shell.deleted follows with `ticket`, or came from inside a
 * `drop`; NIGH_BUSY: not yet known (ask again); NIGH_LIMIT.
 *
 * Those who wait for the key wait on. While a member has yet to announce the shard for the first
 * time, the tombstone stays, told or not, so that what it announces does not come back.
 */
nigh_status directory_delete(struct directory *directory, uint32_t except,
                             const struct directory_key *key, uint64_t ticket, uint64_t now_us);

/* A holder's answer to shell.drop: NIGH_OK, NIGH_NOT_FOUND, NIGH_IN_USE. */
void directory_dropped(struct directory *directory, uint32_t from, const struct directory_key *key,
                       const struct birth *birth, nigh_status status);

/*
 * Shards: a key's is the top six bits of hash_id20 of its id; a set of them is a mask of 64 bits,
 * since a member may announce over several links, each of some shards.
 *
 * A member's link of these shards is up: it will announce all that it holds there; what it held
 * before, or claimed, and does not announce again is forgotten at directory_announced. What it
 * waited for, it asks for again.
 */
void directory_member_up(struct directory *directory, uint32_t rank, uint64_t shards);
void directory_announced(struct directory *directory, uint32_t rank, uint64_t shards);

/*
 * A member begins to announce all that it holds of these shards once more, as news of what it holds
 * no longer may not have come: what it does not announce again is forgotten at directory_announced,
 * too. It waits on for what it waits for, and is told what it is to drop; what is absent is absent,
 * as the member announces what it sealed meanwhile as ever.
 */
void directory_announcing(struct directory *directory, uint32_t rank, uint64_t shards);

/* Its incarnation is over (or it was never seen): it holds nothing, waits for nothing, owes
 * nothing.
 */
void directory_member_dead(struct directory *directory, uint32_t rank);
bool directory_member_is_dead(const struct directory *directory, uint32_t rank);

/*
 * Homes have moved: what this node is not the home of in the view of an epoch it forgets, and its
 * deletes end NIGH_BUSY, so that the new home is asked. Epoch 0: everybody was heard of what this
 * node became the home of (untold says so).
 */
void directory_view(struct directory *directory, uint64_t epoch);

/*
 * A bounded part of what the five calls above have to change at all keys; they begin with one
 * themselves. True: there is more to do. Answers do not depend on it: a key that is asked for is
 * brought up to date first; the ends of deletes and stats do.
 */
bool directory_turn(struct directory *directory);
bool directory_is_sweeping(const struct directory *directory); /* there is something to do */

/* Says again what shell.drop had no room for, of up to `count` tombstones, oldest first. True: some
 * of it was taken. */
bool directory_tell_owed(struct directory *directory, uint32_t count);
bool directory_owes(const struct directory *directory);

/* Whether every member that is not dead, this node too, has announced these shards since its link
 * came up last. */
bool directory_is_complete(const struct directory *directory, uint64_t shards);

/* Keys that are known, keys that somebody waits for, tombstones, claims; bytes of memory that it
 * uses; announcements, waits, claims and deletes (ever) that would have been beyond a member's
 * share. */
struct directory_stats {
    uint64_t keys, waiting, tombstones, claims, bytes;
    uint64_t refused;
};

void directory_stats(const struct directory *directory, struct directory_stats *stats);

bool directory_is_valid(const struct directory *directory);

#endif
