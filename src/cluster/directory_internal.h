/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the directory share: an entry, the sets of members in it, and the directory
 * itself. directory.c answers members; directory_entries.c keeps and finds entries;
 * directory_changes.c has what a member's coming and going changes; directory_claims.c has claims,
 * directory_deletes.c tombstones.
 */
#ifndef CLUSTER_DIRECTORY_INTERNAL_H
#define CLUSTER_DIRECTORY_INTERNAL_H

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/random.h"
#include "cluster/directory.h"
#include "cluster/share.h"

#define DIRECTORY_NONE UINT32_MAX

/* Sets of ranks that an entry keeps, one behind the other. */
enum directory_set {
    SET_HOLDERS = 0,     /* of a tombstone: those that have not acknowledged */
    SET_UNCONFIRMED = 1, /* holders whose link came up, and that have not announced it again */
    SET_WAITERS = 2,     /* of a tombstone: holders that are yet to be told */
    SETS = 3
};

#define SET_WORDS (LIMIT_NODES / 64)

_Static_assert(LIMIT_NODES <= UINT16_MAX, "an entry has room for its payer");

/* What an entry counts as, in struct directory_stats. */
#define COUNTS_KNOWN     1u
#define COUNTS_WAITING   2u
#define COUNTS_TOMBSTONE 4u
#define COUNTS_CLAIMED   8u

struct entry {
    struct directory_key key;
    union {
        struct directory_object object; /* of a claim, its birth only */
        struct {                        /* of a tombstone */
            struct birth birth;
            uint32_t next_owed; /* number and one; the list of those that owe a drop */
            uint32_t prev_owed;
        } grave;
    };
    union {
        uint64_t ticket;      /* of a tombstone */
        struct {              /* of what is neither known nor a tombstone */
            uint32_t claimer; /* a rank and one; 0: nobody */
            bool doubted;     /* its member's link came up, and it has not claimed it again */
        } claim;
    };
    uint32_t next; /* of the same chain; free list */
    uint32_t seen; /* number of the first change that was not applied to it yet */
    bool used;
    bool tombstone;
    bool in_use; /* a holder said so of the tombstone's birth */
    bool told;   /* the tombstone's end; it stays while somebody has yet to announce */
    uint8_t counts;
    bool owes;      /* a tombstone, in the list of those whose drops are yet to be said */
    uint16_t payer; /* the member in whose share it is */
    uint64_t sets[];
};

enum change_kind {
    CHANGE_UP,
    CHANGE_ANNOUNCING,
    CHANGE_ANNOUNCED,
    CHANGE_DEAD,
    CHANGE_VIEW
};

/* What all entries of some shards have to know. */
struct change {
    enum change_kind kind;
    uint32_t rank;
    uint64_t shards;
    uint64_t rebuilt; /* the directory's, from then on */
    uint64_t epoch;   /* VIEW */
    uint64_t lap;     /* where the sweep was: it is over when that is there again */
    uint32_t cursor;
};

struct directory {
    struct directory_config config;
    uint32_t words; /* of a set */
    size_t stride;  /* of an entry */
    uint8_t *entries;
    uint32_t used; /* entries ever used */
    uint32_t free;
    uint32_t *heads; /* chains: number of their first entry, plus one */
    uint64_t mask;
    uint64_t secret[4];

    uint64_t announced[LIMIT_NODES]; /* shards that a member has announced since its link is up */
    uint64_t ever[LIMIT_NODES];      /* since this directory began, or it was dead */
    bool dead[LIMIT_NODES];
    uint64_t complete; /* shards that all have announced */
    uint64_t rebuilt;  /* shards that all have ever announced */

    struct change changes[LIMIT_DIRECTORY_CHANGES]; /* by number */
    uint32_t first_change;                          /* not everywhere yet */
    uint32_t next_change;
    uint64_t lap;
    uint32_t cursor;
    bool sweeping;
    uint32_t first_owed, last_owed; /* number and one */
    uint32_t owed;                  /* tombstones in that list */
    struct share shares;            /* entries, by payer */
    struct share claim_shares;      /* claims, by claimer */
    struct directory_stats stats;
};

_Static_assert((LIMIT_DIRECTORY_CHANGES & (LIMIT_DIRECTORY_CHANGES - 1)) == 0,
               "numbers of changes wrap");

/* ---- sets ----------------------------------------------------------------- */

static inline uint64_t *set_of(const struct directory *directory, struct entry *entry,
                               enum directory_set set)
{
    return entry->sets + (size_t)set * directory->words;
}

static inline void set_add(const struct directory *directory, struct entry *entry,
                           enum directory_set set, uint32_t rank)
{
    set_of(directory, entry, set)[rank / 64] |= UINT64_C(1) << rank % 64;
}

static inline void set_remove(const struct directory *directory, struct entry *entry,
                              enum directory_set set, uint32_t rank)
{
    set_of(directory, entry, set)[rank / 64] &= ~(UINT64_C(1) << rank % 64);
}

static inline bool set_has(const struct directory *directory, struct entry *entry,
                           enum directory_set set, uint32_t rank)
{
    return (set_of(directory, entry, set)[rank / 64] >> rank % 64 & 1) != 0;
}

static inline bool set_empty(const struct directory *directory, struct entry *entry,
                             enum directory_set set)
{
    for (uint32_t n = 0; n < directory->words; n++) {
        if (set_of(directory, entry, set)[n] != 0) {
            return false;
        }
    }
    return true;
}

/* The first rank of a set from `from` on; at least `nodes`: none. */
static inline uint32_t next_rank(const uint64_t *set, uint32_t from, uint32_t nodes)
{
    while (from < nodes) {
        uint64_t word = set[from / 64] >> from % 64;

        if (word != 0) {
            return from + (uint32_t)__builtin_ctzll(word);
        }
        from = (from / 64 + 1) * 64;
    }
    return nodes;
}

/* ---- an entry ------------------------------------------------------------- */

static inline uint64_t shard_of(const struct directory_key *key)
{
    return UINT64_C(1) << (hash_id20(key->id) >> 58);
}

static inline struct entry *entry_at(const struct directory *directory, uint32_t number)
{
    return (struct entry *)(void *)(directory->entries + number * directory->stride);
}

static inline uint32_t number_of(const struct directory *directory, const struct entry *entry)
{
    return (uint32_t)((size_t)((const uint8_t *)entry - directory->entries) / directory->stride);
}

static inline bool is_known(const struct directory *directory, struct entry *entry)
{
    return !set_empty(directory, entry, SET_HOLDERS);
}

static inline bool is_claimed(const struct entry *entry)
{
    return !entry->tombstone && entry->claim.claimer != 0;
}

static inline bool is_claimed_by(const struct entry *entry, uint32_t rank)
{
    return !entry->tombstone && entry->claim.claimer == rank + 1;
}

/* Whether `from` has yet to announce a key whose home this became. */
static inline bool is_untold(const struct directory *directory, uint32_t from,
                             const struct directory_key *key)
{
    const struct directory_shell *shell = &directory->config.shell;

    return shell->untold != NULL && shell->untold(shell->context, from, key);
}

/* Whether all who count have announced a key: what is not known of it is not so. */
static inline bool is_complete(const struct directory *directory, const struct directory_key *key)
{
    return (directory->complete & shard_of(key)) != 0 && !is_untold(directory, UINT32_MAX, key);
}

/* ... since this directory began, or they were dead. */
static inline bool is_rebuilt(const struct directory *directory, uint64_t rebuilt,
                              const struct directory_key *key)
{
    return (rebuilt & shard_of(key)) != 0 && !is_untold(directory, UINT32_MAX, key);
}

/* ---- directory_entries.c -------------------------------------------------- */

uint32_t *directory_chain_of(const struct directory *directory, const struct directory_key *key);
uint8_t directory_counts_of(const struct directory *directory, struct entry *entry);
void directory_count_as(struct directory_stats *stats, uint8_t counts, uint64_t one);
/* After every change of an entry. */
void directory_recount(struct directory *directory, struct entry *entry);
/* NULL: the payer has its share. */
struct entry *directory_add(struct directory *directory, const struct directory_key *key,
                            uint32_t payer);
void directory_drop_entry(struct directory *directory, struct entry *entry);
/* A key that nobody holds, waits for or claims is not kept. */
void directory_drop_if_idle(struct directory *directory, struct entry *entry);
/* The entry of a key that is not a tombstone, or (birth not NULL) the tombstone of that birth. */
struct entry *directory_find(struct directory *directory, const struct directory_key *key,
                             const struct birth *birth);

/* ---- directory_changes.c -------------------------------------------------- */

void directory_find_complete(struct directory *directory);
void directory_freshen(struct directory *directory, struct entry *entry);

/* Applies what an entry has not seen. False: it did, and the entry may be another or gone now. */
static inline bool is_fresh(struct directory *directory, struct entry *entry)
{
    if (entry->seen == directory->next_change) {
        return true;
    }
    directory_freshen(directory, entry);
    return false;
}

/* ---- directory_claims.c --------------------------------------------------- */

/* The key is nobody's own any more; the entry stays. */
void directory_end_claim(struct directory *directory, struct entry *entry);

/* ---- directory_deletes.c -------------------------------------------------- */

/* A tombstone that nobody has to acknowledge any more: tells its end, and goes, unless a member
 * that has yet to announce may hold its birth. */
void directory_end_tombstone(struct directory *directory, struct entry *entry, uint64_t rebuilt);
/* Another node's by now: its delete, if it has not ended, is to be asked of that. */
void directory_leave_tombstone(struct directory *directory, struct entry *entry);
/* A member holds it no longer. */
void directory_let_go(struct directory *directory, struct entry *entry, uint32_t rank,
                      uint64_t rebuilt);
/* A member waits no more; of a tombstone: need not be told any more. */
void directory_remove_waiter(struct directory *directory, struct entry *entry, uint32_t rank);
/* Has a tombstone's holder told: now (true), or later. */
bool directory_tell_drop(struct directory *directory, uint32_t rank,
                         const struct directory_key *key, const struct birth *birth);

#endif
