/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of replicas share: the entries of keys. For no one else; see replicas.h. */
#ifndef CLUSTER_REPLICAS_INTERNAL_H
#define CLUSTER_REPLICAS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap_timer.h"
#include "base/limits.h"
#include "base/list.h"
#include "cluster/replicas.h"
#include "cluster/share.h"

#define REPLICAS_KEY_BUCKETS 8192u
#define REPLICAS_SLOTS       (LIMIT_REPLICAS + 4u)

enum slot_state {
    SLOT_FREE = 0,
    SLOT_HELD, /* its member told so */
    SLOT_ASKED /* its member makes a copy, or is about to */
};

struct slot {
    enum slot_state state;
    uint16_t rank;
    bool waits;
    bool leaves;       /* HELD: and does not count */
    bool is_safe;      /* leaves: and was told that others hold it */
    uint32_t age;      /* HELD: of what it told */
    uint64_t begun_us; /* ASKED */
    uint64_t asked_us; /* last */
};

struct kept {
    struct list_node bucket; /* free list */
    struct timer timer;
    struct directory_key key;
    struct directory_object object;
    uint64_t key_hash;
    uint32_t wanted;
    uint32_t payer;
    bool used;
    bool was_whole;
    bool is_lossy; /* was whole, and is not any more */
    bool is_short;
    uint32_t pauses;
    nigh_status why;                   /* asked in vain, last; NIGH_OK: nobody was */
    uint64_t settle_us;                /* nothing is made before */
    uint64_t failed[LIMIT_NODES / 64]; /* asked in vain, since the last pause */
    struct slot slots[REPLICAS_SLOTS];
    uint32_t told_held; /* as it counts in the stats */
    uint32_t told_asked;
};

/* What is known of a member's words about one shard. */
struct age {
    uint32_t now;  /* what it says from now on */
    uint32_t died; /* what it said before is void */
};

struct replicas {
    struct replicas_config config;
    struct kept *kept;
    uint32_t used;
    struct list free;
    struct list *buckets;
    uint64_t secret[4];
    struct timers timers;
    struct timer **timer_storage;
    struct age (*ages)[LIMIT_SHARDS]; /* by rank */
    uint64_t told_all[LIMIT_NODES];   /* shards */
    bool was_out[LIMIT_NODES];        /* at the last look */
    uint64_t out_us[LIMIT_NODES];     /* since when */
    struct share shares;
    uint32_t sweep_at; /* NO_SWEEP: none is under way */
    bool sweep_again;
    struct replicas_stats stats;
};

/* Which shard a key is of. */
uint32_t kept_shard(const struct directory_key *key);
/* NULL: there is none. */
struct kept *kept_find(const struct replicas *replicas, const struct directory_key *key);
struct slot *kept_slot(struct kept *kept, uint32_t rank);
struct slot *kept_free_slot(struct kept *kept);

bool replicas_is_dead(const struct replicas *replicas, uint32_t rank);
/* Whether what a member said still stands: said by this link, or by one before it in the same life
 * as long as not all was told again. */
bool kept_stands(const struct replicas *replicas, const struct kept *kept, const struct slot *slot);
uint32_t kept_count_state(const struct kept *kept, enum slot_state state);
/* Holders that stay. */
uint32_t kept_count_held(const struct kept *kept);
uint32_t kept_lacking(uint32_t wanted, uint32_t held);
/* The stats follow what the slots say. */
void kept_recount(struct replicas *replicas, struct kept *kept, uint32_t wanted_before);
/* Looks at it at `at_us` at the latest. */
void kept_look_at(struct replicas *replicas, struct kept *kept, uint64_t at_us);

/* NULL: `payer` has no share left. */
struct kept *kept_add(struct replicas *replicas, const struct directory_key *key, uint32_t payer);
void kept_drop(struct replicas *replicas, struct kept *kept);

#endif
