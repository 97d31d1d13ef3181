/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who keeps account of the replicas of a key, and what that one knows and does (docs/replicas.md).
 *
 * Of the members that are not dead the heaviest for a key (members_weight) is its keeper: its home,
 * as long as that lives. Holders tell the keeper what they hold and how many nodes are to; where
 * there are too few it asks members that hold none to make a copy, and again until there are as
 * many. Soft state: holders tell all of it again to a keeper whose link came up, and to the next
 * keeper when one is dead. Two members that do not agree on who lives may both be keepers for a
 * while: then more replicas are made than need be, never fewer.
 *
 * Pure: time comes in as an argument, what is to be said goes out through struct replicas_shell.
 */
#ifndef CLUSTER_REPLICAS_H
#define CLUSTER_REPLICAS_H

#include "cluster/directory.h"
#include "cluster/members.h"

struct replicas;

#define REPLICAS_SETTLE_US UINT64_C(500000)   /* a keeper that is new to a key hears its holders */
#define REPLICAS_NEW_US    UINT64_C(2000000)  /* ... of a death, after a second, and they tell */
#define REPLICAS_DELETE_US UINT64_C(6000000)  /* one holder less by a delete: others follow */
#define REPLICAS_ASK_US    UINT64_C(250000)   /* who makes a copy is asked how far it is */
#define REPLICAS_MAKE_US   UINT64_C(10000000) /* and has so long for it, and a second for 8 MB */
#define REPLICAS_PAUSE_US  UINT64_C(500000)   /* after all were asked in vain; doubled */
#define REPLICAS_PAUSE_MAX UINT64_C(8000000)

/* What the keeper tells a holder. */
struct replica_count {
    uint32_t wanted;
    uint32_t held;     /* by members that do not leave */
    uint32_t is_short; /* 1: more cannot be made now, */
    bool leaves;       /* who is told so does not count */
    nigh_status why;   /* as the last that was asked said; NIGH_TOO_FEW: there is nobody to ask */
};

/* How a holder tells of what it holds. */
#define REPLICAS_WAITS  1u /* it is told when there are as many, or no more can be made */
#define REPLICAS_LEAVES 2u /* it leaves, and does not count; it is told so once */

struct replicas_shell {
    void *context;
    /* Whether a member can be asked: it is this node, or its link for the key is up. */
    bool (*reaches)(void *context, uint32_t rank, const struct directory_key *key);
    bool (*is_dead)(void *context, uint32_t rank);
    /* Whether a member keeps account of no key: it is dead, or out of the view. Also of self. */
    bool (*is_out)(void *context, uint32_t rank);
    /* Asks a member to hold a copy, or how far that is; replicas_made follows, perhaps at once. */
    void (*make)(void *context, uint32_t rank, const struct directory_key *key,
                 const struct directory_object *object, uint32_t wanted);
    /* Tells a holder that it need not stay one: there are more than are wanted. */
    void (*release)(void *context, uint32_t rank, const struct directory_key *key,
                    const struct birth *birth);
    /* Tells a holder that waits how many there are. It waits no more. */
    void (*count)(void *context, uint32_t rank, const struct directory_key *key,
                  const struct birth *birth, const struct replica_count *count);
};

struct replicas_config {
    const struct members *members;
    uint32_t max_keys;
    uint64_t seed; /* random: who chooses ids cannot make them collide */
    struct replicas_shell shell;
};

nigh_status replicas_create(const struct replicas_config *config, struct replicas **replicas);
void replicas_destroy(struct replicas *replicas);

/* The keeper of a key, as this node sees who lives. */
uint32_t replicas_keeper(const struct members *members, uint64_t key_hash,
                         bool (*is_out)(void *context, uint32_t rank), void *context);

/*
 * A member holds a replica, of which there are to be `wanted`: 1 of what is handed over by one that
 * leaves. `how`: REPLICAS_*; who waits is told by shell.count, and *count says how it stands.
 * NIGH_OK;
 * NIGH_EXISTS: others hold another birth; NIGH_BUSY: it counts as dead here; NIGH_LIMIT: no room,
 * or beyond its share; NIGH_INVALID: no such number. Whether this node is the keeper is the
 * caller's to know.
 */
nigh_status replicas_told(struct replicas *replicas, uint32_t from, const struct directory_key *key,
                          const struct directory_object *object, uint32_t wanted, uint32_t how,
                          uint64_t now_us, struct replica_count *count);

/* A member has let a birth go, as it was deleted: others are expected to follow. */
void replicas_gone(struct replicas *replicas, uint32_t from, const struct directory_key *key,
                   const struct birth *birth, uint64_t now_us);

/* What who was asked for a copy says: NIGH_OK (it will tell that it holds it), NIGH_PENDING,
 * NIGH_BUSY (ask again), or why not. */
void replicas_made(struct replicas *replicas, uint32_t from, const struct directory_key *key,
                   const struct birth *birth, nigh_status status, uint64_t now_us);

/* A link to a member is up, of these shards (directory.h): it tells all that it holds there, and
 * then that this was all. Till then what it told before is not doubted. */
void replicas_member_up(struct replicas *replicas, uint32_t rank, uint64_t shards);
void replicas_told_all(struct replicas *replicas, uint32_t rank, uint64_t shards);
/* Others are keepers now: views changed, or a member counts again. */
void replicas_moved(struct replicas *replicas, uint64_t now_us);
/* Its life is over: it holds nothing. */
void replicas_member_dead(struct replicas *replicas, uint32_t rank, uint64_t now_us);

/* The holders of a key but `asker`, for those whose home is dead. NIGH_OK; NIGH_BUSY: none is known
 * here, and some may have yet to tell, as others kept account of it until lately (within
 * REPLICAS_NEW_US); NIGH_NOT_FOUND: none is known here. */
nigh_status replicas_locate(struct replicas *replicas, uint32_t asker,
                            const struct directory_key *key, uint64_t now_us,
                            struct directory_answer *answer);

/* A bounded part of what is to be done; true if there was some. */
bool replicas_turn(struct replicas *replicas, uint64_t now_us);
uint64_t replicas_due_us(const struct replicas *replicas);

struct replicas_stats {
    uint64_t keys;     /* of which this node is the keeper */
    uint64_t wanted;   /* replicas of all of them */
    uint64_t missing;  /* of these, now */
    uint64_t asked;    /* that are being made, now */
    uint64_t repaired; /* keys that had all, lost some, and have all again; ever */
    uint64_t failures; /* times that a member was asked in vain; ever */
    uint64_t refused;  /* keys beyond the table or a member's share of it; ever */
};

void replicas_stats(const struct replicas *replicas, struct replicas_stats *stats);
bool replicas_is_valid(const struct replicas *replicas);

#endif
