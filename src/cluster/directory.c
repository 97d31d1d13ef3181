/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See directory.h. Entries lie in one array, found through chains of a hash that whoever chooses
 * ids does not know (so that he cannot make chains long).
 *
 * A member's up, announced or dead changes what all entries say of it. With a million keys that is
 * too long for one turn, so it is noted as a change with a number, and applied to an entry when
 * that is looked at (fresh), and by a sweep that passes some entries a turn. What is answered is
 * therefore the same as if it had been applied at once.
 */
#include "cluster/directory.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/random.h"
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

struct entry {
    struct directory_key key;
    union {
        struct directory_object object;
        struct { /* of a tombstone */
            struct birth birth;
            uint32_t next_owed; /* number and one; the list of those that owe a drop */
            uint32_t prev_owed;
        } grave;
    };
    uint64_t ticket; /* of a tombstone */
    uint32_t next;   /* of the same chain; free list */
    uint32_t seen;   /* number of the first change that was not applied to it yet */
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
    CHANGE_ANNOUNCED,
    CHANGE_DEAD
};

/* What all entries of some shards have to know. */
struct change {
    enum change_kind kind;
    uint32_t rank;
    uint64_t shards;
    uint64_t rebuilt; /* the directory's, from then on */
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
    struct directory_stats stats;
};

_Static_assert((LIMIT_DIRECTORY_CHANGES & (LIMIT_DIRECTORY_CHANGES - 1)) == 0,
               "numbers of changes wrap");

/* ---- sets ----------------------------------------------------------------- */

static uint64_t *set_of(const struct directory *directory, struct entry *entry,
                        enum directory_set set)
{
    return entry->sets + (size_t)set * directory->words;
}

static void set_add(const struct directory *directory, struct entry *entry, enum directory_set set,
                    uint32_t rank)
{
    set_of(directory, entry, set)[rank / 64] |= UINT64_C(1) << rank % 64;
}

static void set_remove(const struct directory *directory, struct entry *entry,
                       enum directory_set set, uint32_t rank)
{
    set_of(directory, entry, set)[rank / 64] &= ~(UINT64_C(1) << rank % 64);
}

static bool set_has(const struct directory *directory, struct entry *entry, enum directory_set set,
                    uint32_t rank)
{
    return (set_of(directory, entry, set)[rank / 64] >> rank % 64 & 1) != 0;
}

static bool set_empty(const struct directory *directory, struct entry *entry,
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
static uint32_t next_rank(const uint64_t *set, uint32_t from, uint32_t nodes)
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

/* ---- entries -------------------------------------------------------------- */

uint64_t directory_key_hash(const struct directory_key *key)
{
    return hash_mix(hash_id20(key->id) ^ HASH_K0, hash_u64(key->pool) ^ HASH_K1);
}

static uint64_t shard_of(const struct directory_key *key)
{
    return UINT64_C(1) << (hash_id20(key->id) >> 58);
}

static uint32_t *chain_of(const struct directory *directory, const struct directory_key *key)
{
    const uint64_t *secret = directory->secret;
    uint64_t head =
        hash_mix(hash_load64(key->id) ^ secret[0], hash_load64(key->id + 8) ^ secret[1]);
    uint64_t tail = hash_mix(hash_load32(key->id + 16) ^ secret[2], key->pool ^ secret[3]);

    return &directory->heads[hash_mix(head ^ secret[3], tail ^ secret[0]) & directory->mask];
}

static struct entry *entry_at(const struct directory *directory, uint32_t number)
{
    return (struct entry *)(void *)(directory->entries + number * directory->stride);
}

static uint32_t number_of(const struct directory *directory, const struct entry *entry)
{
    return (uint32_t)((size_t)((const uint8_t *)entry - directory->entries) / directory->stride);
}

static bool is_known(const struct directory *directory, struct entry *entry)
{
    return !set_empty(directory, entry, SET_HOLDERS);
}

static uint8_t counts_of(const struct directory *directory, struct entry *entry)
{
    if (!entry->used) {
        return 0;
    }
    if (entry->tombstone) {
        return COUNTS_TOMBSTONE;
    }
    return (uint8_t)((is_known(directory, entry) ? COUNTS_KNOWN : 0) |
                     (set_empty(directory, entry, SET_WAITERS) ? 0 : COUNTS_WAITING));
}

static void count_as(struct directory_stats *stats, uint8_t counts, uint64_t one)
{
    stats->keys += (counts & COUNTS_KNOWN) != 0 ? one : 0;
    stats->waiting += (counts & COUNTS_WAITING) != 0 ? one : 0;
    stats->tombstones += (counts & COUNTS_TOMBSTONE) != 0 ? one : 0;
}

/* Who neither holds a key nor waits for it does not pay for it, if another can. */
static void choose_payer(struct directory *directory, struct entry *entry)
{
    uint32_t nodes = directory->config.nodes;
    uint32_t rank;

    if (!entry->used || entry->tombstone || set_has(directory, entry, SET_HOLDERS, entry->payer) ||
        set_has(directory, entry, SET_WAITERS, entry->payer)) {
        return;
    }
    rank = next_rank(set_of(directory, entry, SET_HOLDERS), 0, nodes);
    if (rank >= nodes) {
        rank = next_rank(set_of(directory, entry, SET_WAITERS), 0, nodes);
    }
    if (rank < nodes && share_take(&directory->shares, rank)) {
        share_give(&directory->shares, entry->payer);
        entry->payer = (uint16_t)rank;
    }
}

/* After every change of an entry. */
static void recount(struct directory *directory, struct entry *entry)
{
    uint8_t counts = counts_of(directory, entry);

    choose_payer(directory, entry);
    if (counts != entry->counts) {
        count_as(&directory->stats, entry->counts, UINT64_MAX);
        count_as(&directory->stats, counts, 1);
        entry->counts = counts;
    }
}

/* NULL: the payer has its share. */
static struct entry *add(struct directory *directory, const struct directory_key *key,
                         uint32_t payer)
{
    uint32_t *chain = chain_of(directory, key);
    uint32_t number = directory->free;
    struct entry *entry;

    if (!share_take(&directory->shares, payer)) {
        directory->stats.refused++;
        return NULL;
    }
    if (number != DIRECTORY_NONE) {
        directory->free = entry_at(directory, number)->next;
    } else {
        NIGH_ASSERT(directory->used < directory->config.max_keys); /* the shares are all of it */
        number = directory->used++;
    }
    entry = entry_at(directory, number);
    memset(entry, 0, directory->stride);
    entry->key = *key;
    entry->used = true;
    entry->payer = (uint16_t)payer;
    entry->seen = directory->next_change;
    entry->next = *chain;
    *chain = number + 1;
    return entry;
}

static void drop_entry(struct directory *directory, struct entry *entry)
{
    uint32_t number = number_of(directory, entry);
    uint32_t *at = chain_of(directory, &entry->key);

    NIGH_ASSERT(entry->used && !entry->owes);
    while (*at != number + 1) {
        NIGH_ASSERT(*at != 0);
        at = &entry_at(directory, *at - 1)->next;
    }
    *at = entry->next;
    entry->used = false;
    share_give(&directory->shares, entry->payer);
    recount(directory, entry);
    entry->next = directory->free;
    directory->free = number;
}

/* A key that nobody holds and nobody waits for is not kept. */
static void drop_if_idle(struct directory *directory, struct entry *entry)
{
    if (!entry->tombstone && !is_known(directory, entry) &&
        set_empty(directory, entry, SET_WAITERS)) {
        drop_entry(directory, entry);
    } else {
        recount(directory, entry);
    }
}

/* ---- drops that are yet to be said ---------------------------------------- */

/* A tombstone's holder is yet to be told. */
static void owe(struct directory *directory, struct entry *entry, uint32_t rank)
{
    uint32_t number = number_of(directory, entry) + 1;

    NIGH_ASSERT(entry->tombstone && set_has(directory, entry, SET_HOLDERS, rank));
    set_add(directory, entry, SET_WAITERS, rank);
    if (entry->owes) {
        return;
    }
    entry->owes = true;
    entry->grave.next_owed = 0;
    entry->grave.prev_owed = directory->last_owed;
    if (directory->last_owed != 0) {
        entry_at(directory, directory->last_owed - 1)->grave.next_owed = number;
    } else {
        directory->first_owed = number;
    }
    directory->last_owed = number;
    directory->owed++;
}

static void owe_nothing(struct directory *directory, struct entry *entry)
{
    uint32_t next = entry->grave.next_owed, prev = entry->grave.prev_owed;

    entry->owes = false;
    if (prev != 0) {
        entry_at(directory, prev - 1)->grave.next_owed = next;
    } else {
        directory->first_owed = next;
    }
    if (next != 0) {
        entry_at(directory, next - 1)->grave.prev_owed = prev;
    } else {
        directory->last_owed = prev;
    }
    directory->owed--;
}

/* A member waits no more; of a tombstone: need not be told any more. */
static void remove_waiter(struct directory *directory, struct entry *entry, uint32_t rank)
{
    set_remove(directory, entry, SET_WAITERS, rank);
    if (entry->owes && set_empty(directory, entry, SET_WAITERS)) {
        owe_nothing(directory, entry);
    }
}

/* ---- changes of members --------------------------------------------------- */

/* A tombstone that nobody has to acknowledge any more: tells its end, and goes, unless a member
 * that has yet to announce may hold its birth. */
static void end_tombstone(struct directory *directory, struct entry *entry, uint64_t rebuilt)
{
    uint64_t ticket = entry->ticket;
    nigh_status status = entry->in_use ? NIGH_IN_USE : NIGH_OK;
    bool told = entry->told;

    if (!set_empty(directory, entry, SET_HOLDERS)) {
        return;
    }
    entry->told = true;
    if ((rebuilt & shard_of(&entry->key)) != 0) {
        drop_entry(directory, entry);
    }
    if (!told) {
        directory->config.shell.deleted(directory->config.shell.context, ticket, status);
    }
}

/* A member holds it no longer. */
static void let_go(struct directory *directory, struct entry *entry, uint32_t rank,
                   uint64_t rebuilt)
{
    bool held = set_has(directory, entry, SET_HOLDERS, rank);

    set_remove(directory, entry, SET_HOLDERS, rank);
    set_remove(directory, entry, SET_UNCONFIRMED, rank);
    if (!entry->tombstone) {
        drop_if_idle(directory, entry);
    } else if (held) {
        remove_waiter(directory, entry, rank);
        end_tombstone(directory, entry, rebuilt);
    }
}

static void apply(struct directory *directory, struct entry *entry, const struct change *change)
{
    uint32_t rank = change->rank;

    switch (change->kind) {
    case CHANGE_UP:
        if (set_has(directory, entry, SET_HOLDERS, rank)) {
            set_add(directory, entry, SET_UNCONFIRMED, rank);
        }
        remove_waiter(directory, entry, rank); /* what it holds it announces, and is told then */
        drop_if_idle(directory, entry);
        return;
    case CHANGE_ANNOUNCED:
        if (set_has(directory, entry, SET_UNCONFIRMED, rank)) {
            let_go(directory, entry, rank, change->rebuilt);
            return;
        }
        break;
    case CHANGE_DEAD:
        remove_waiter(directory, entry, rank);
        if (set_has(directory, entry, SET_HOLDERS, rank)) {
            let_go(directory, entry, rank, change->rebuilt);
            return;
        }
        drop_if_idle(directory, entry);
        break;
    }
    if (entry->used && entry->told) {
        end_tombstone(directory, entry, change->rebuilt);
    }
}

/* Applies what an entry has not seen. False: it did, and the entry may be another or gone now. */
static bool is_fresh(struct directory *directory, struct entry *entry)
{
    if (entry->seen == directory->next_change) {
        return true;
    }
    while (entry->used && entry->seen != directory->next_change) {
        const struct change *change = &directory->changes[entry->seen % LIMIT_DIRECTORY_CHANGES];

        entry->seen++;
        if ((change->shards & shard_of(&entry->key)) != 0) {
            apply(directory, entry, change);
        }
    }
    return false;
}

static bool is_everywhere(const struct directory *directory, const struct change *change)
{
    return directory->used == 0 || directory->lap > change->lap + 1 ||
           (directory->lap == change->lap + 1 && directory->cursor >= change->cursor);
}

/* Passes up to `count` entries. */
static void sweep(struct directory *directory, uint32_t count)
{
    if (directory->sweeping) {
        return; /* from inside its callbacks */
    }
    directory->sweeping = true;
    while (directory->first_change != directory->next_change) {
        if (is_everywhere(directory,
                          &directory->changes[directory->first_change % LIMIT_DIRECTORY_CHANGES])) {
            directory->first_change++;
            continue;
        }
        if (count-- == 0) {
            break;
        }
        if (directory->cursor < directory->used) {
            struct entry *entry = entry_at(directory, directory->cursor);

            if (entry->used) {
                (void)is_fresh(directory, entry);
            }
            directory->cursor++;
        }
        if (directory->cursor >= directory->used) {
            directory->cursor = 0;
            directory->lap++;
        }
    }
    directory->sweeping = false;
}

static void note_change(struct directory *directory, enum change_kind kind, uint32_t rank,
                        uint64_t shards)
{
    /* Rare: members come and go faster than turns pass. From inside a sweep there is always room,
     * since callbacks do not note changes. */
    while (directory->next_change - directory->first_change == LIMIT_DIRECTORY_CHANGES) {
        NIGH_ASSERT(!directory->sweeping);
        sweep(directory, LIMIT_DIRECTORY_TURN);
    }
    directory->changes[directory->next_change % LIMIT_DIRECTORY_CHANGES] =
        (struct change){.kind = kind,
                        .rank = rank,
                        .shards = shards,
                        .rebuilt = directory->rebuilt,
                        .lap = directory->lap,
                        .cursor = directory->cursor};
    directory->next_change++;
    sweep(directory, LIMIT_DIRECTORY_TURN);
}

bool directory_turn(struct directory *directory)
{
    if (directory->first_change == directory->next_change) {
        return false;
    }
    sweep(directory, LIMIT_DIRECTORY_TURN);
    return directory->first_change != directory->next_change;
}

/* ---- looking -------------------------------------------------------------- */

/* The entry of a key that is not a tombstone, or (birth not NULL) the tombstone of that birth. */
static struct entry *find(struct directory *directory, const struct directory_key *key,
                          const struct birth *birth)
{
    const uint32_t *chain = chain_of(directory, key);
    uint32_t at = *chain;

    while (at != 0) {
        struct entry *entry = entry_at(directory, at - 1);

        if (memcmp(&entry->key, key, sizeof(*key)) != 0) {
            at = entry->next;
        } else if (!is_fresh(directory, entry)) {
            at = *chain; /* it may be gone */
        } else if (entry->tombstone == (birth != NULL) &&
                   (birth == NULL || birth_equal(birth, &entry->object.birth))) {
            return entry;
        } else {
            at = entry->next;
        }
    }
    return NULL;
}

/* ---- create, destroy ------------------------------------------------------ */

static void find_complete(struct directory *directory)
{
    directory->complete = UINT64_MAX;
    directory->rebuilt = UINT64_MAX;
    for (uint32_t rank = 0; rank < directory->config.nodes; rank++) {
        if (!directory->dead[rank]) {
            directory->complete &= directory->announced[rank];
            directory->rebuilt &= directory->ever[rank];
        }
    }
}

nigh_status directory_create(const struct directory_config *config, struct directory **out)
{
    struct directory *directory;
    struct random random;

    if (config->nodes == 0 || config->nodes > LIMIT_NODES || config->self >= config->nodes ||
        config->max_keys == 0 || config->max_keys > LIMIT_DIRECTORY_KEYS) {
        return NIGH_INVALID;
    }
    directory = calloc(1, sizeof(*directory));
    if (directory == NULL) {
        return NIGH_NO_RESOURCES;
    }
    directory->config = *config;
    directory->words = (config->nodes + 63) / 64;
    directory->stride = sizeof(struct entry) + SETS * directory->words * sizeof(uint64_t);
    directory->free = DIRECTORY_NONE;
    share_init(&directory->shares, config->max_keys, config->nodes);
    directory->mask = round_up_pow2_u64(config->max_keys) - 1;
    random_init(&random, config->seed);
    for (uint32_t n = 0; n < 4; n++) {
        directory->secret[n] = random_u64(&random);
    }
    /* Touched only as far as they are used. */
    directory->entries = calloc(config->max_keys, directory->stride);
    directory->heads = calloc(directory->mask + 1, sizeof(*directory->heads));
    if (directory->entries == NULL || directory->heads == NULL) {
        directory_destroy(directory);
        return NIGH_NO_RESOURCES;
    }
    find_complete(directory);
    *out = directory;
    return NIGH_OK;
}

void directory_destroy(struct directory *directory)
{
    if (directory == NULL) {
        return;
    }
    free(directory->heads);
    free(directory->entries);
    free(directory);
}

bool directory_is_complete(const struct directory *directory, uint64_t shards)
{
    return (directory->complete & shards) == shards;
}

/* ---- answers -------------------------------------------------------------- */

static void name_ranks(const uint64_t *set, uint32_t from, uint32_t to,
                       struct directory_answer *answer)
{
    for (uint32_t rank = next_rank(set, from, to);
         rank < to && answer->holder_count < DIRECTORY_HOLDERS;
         rank = next_rank(set, rank + 1, to)) {
        answer->holders[answer->holder_count++] = rank;
    }
}

/* The holders that an asker should try, confirmed ones first, beginning behind its own rank so that
 * askers spread over them. */
static struct directory_answer answer_of(const struct directory *directory, struct entry *entry,
                                         uint32_t asker)
{
    struct directory_answer answer = {.state = DIRECTORY_KNOWN, .object = entry->object};
    const uint64_t *holders = set_of(directory, entry, SET_HOLDERS);
    const uint64_t *unconfirmed = set_of(directory, entry, SET_UNCONFIRMED);
    uint64_t set[SET_WORDS];

    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t n = 0; n < directory->words; n++) {
            set[n] = pass == 0 ? holders[n] & ~unconfirmed[n] : unconfirmed[n];
        }
        name_ranks(set, asker + 1, directory->config.nodes, &answer);
        name_ranks(set, 0, asker, &answer);
    }
    return answer;
}

/* Tells those who wait, if there is somebody to go to. What is told may come back as a call. */
static void wake(struct directory *directory, const struct directory_key *key)
{
    uint32_t nodes = directory->config.nodes;
    struct entry *entry = find(directory, key, NULL);
    uint32_t rank = 0;

    while (entry != NULL && is_known(directory, entry) &&
           (rank = next_rank(set_of(directory, entry, SET_WAITERS), rank, nodes)) < nodes) {
        struct directory_answer answer = answer_of(directory, entry, rank);

        if (answer.holder_count > 0) {
            set_remove(directory, entry, SET_WAITERS, rank);
            recount(directory, entry);
            directory->config.shell.found(directory->config.shell.context, rank, key, &answer);
            entry = find(directory, key, NULL);
        }
        rank++;
    }
}

/* Has a tombstone's holder told: now (true), or later. */
static bool tell_drop(struct directory *directory, uint32_t rank, const struct directory_key *key,
                      const struct birth *birth)
{
    struct entry *entry;

    if (directory->config.shell.drop(directory->config.shell.context, rank, key, birth)) {
        return true;
    }
    entry = find(directory, key, birth);
    if (entry != NULL && set_has(directory, entry, SET_HOLDERS, rank)) {
        owe(directory, entry, rank);
    }
    return false;
}

/* ---- what members say ----------------------------------------------------- */

nigh_status directory_announce(struct directory *directory, uint32_t from,
                               const struct directory_key *key,
                               const struct directory_object *object, bool is_copy, uint64_t now_us)
{
    struct directory_key kept = *key; /* callbacks may change the caller's */
    struct birth birth = object->birth;
    struct entry *entry;

    (void)now_us;
    NIGH_ASSERT(from < directory->config.nodes);
    entry = find(directory, key, &object->birth);
    if (entry != NULL) {
        /* The answer may be lost, and the tombstone gone when it is announced again: it stays until
         * this one has acknowledged, too. */
        set_add(directory, entry, SET_HOLDERS, from);
        set_remove(directory, entry, SET_UNCONFIRMED, from);
        (void)tell_drop(directory, from, &kept, &birth);
        return NIGH_IN_USE;
    }
    entry = find(directory, key, NULL);
    if (entry != NULL && is_known(directory, entry)) {
        if (!birth_equal(&entry->object.birth, &object->birth)) {
            return NIGH_EXISTS;
        }
    } else {
        if (is_copy && (directory->ever[from] & shard_of(key)) != 0) {
            return NIGH_IN_USE;
        }
        if (entry == NULL) {
            entry = add(directory, key, from);
        }
        if (entry == NULL) {
            return NIGH_LIMIT;
        }
        entry->object = *object;
    }
    set_add(directory, entry, SET_HOLDERS, from);
    set_remove(directory, entry, SET_UNCONFIRMED, from);
    set_remove(directory, entry, SET_WAITERS, from);
    recount(directory, entry);
    if ((entry->counts & COUNTS_WAITING) != 0) {
        wake(directory, &kept);
    }
    return NIGH_OK;
}

nigh_status directory_locate(struct directory *directory, uint32_t from,
                             const struct directory_key *key, bool wait,
                             struct directory_answer *answer)
{
    struct entry *entry = find(directory, key, NULL);
    struct directory_answer found = {.state = directory_is_complete(directory, shard_of(key))
                                                  ? DIRECTORY_ABSENT
                                                  : DIRECTORY_NOT_YET};

    NIGH_ASSERT(from < directory->config.nodes);
    if (entry != NULL && is_known(directory, entry)) {
        struct directory_answer known = answer_of(directory, entry, from);

        if (known.holder_count > 0) {
            *answer = known;
            return NIGH_OK;
        }
    }
    if (wait && entry == NULL) {
        entry = add(directory, key, from);
        if (entry == NULL) {
            return NIGH_LIMIT;
        }
    }
    if (wait) {
        set_add(directory, entry, SET_WAITERS, from);
        recount(directory, entry);
    }
    *answer = found;
    return NIGH_OK;
}

void directory_unwait(struct directory *directory, uint32_t from, const struct directory_key *key)
{
    struct entry *entry = find(directory, key, NULL);

    NIGH_ASSERT(from < directory->config.nodes);
    if (entry != NULL) {
        set_remove(directory, entry, SET_WAITERS, from);
        drop_if_idle(directory, entry);
    }
}

void directory_forget(struct directory *directory, uint32_t from, const struct directory_key *key,
                      const struct birth *birth)
{
    struct entry *entry = find(directory, key, NULL);

    NIGH_ASSERT(from < directory->config.nodes);
    if (entry == NULL || !is_known(directory, entry) || !birth_equal(&entry->object.birth, birth)) {
        entry = find(directory, key, birth);
    }
    if (entry != NULL) {
        let_go(directory, entry, from, directory->rebuilt);
    }
}

/* ---- deletes -------------------------------------------------------------- */

/* The entry becomes a tombstone; who waits for the key (it may hold the birth itself) waits on, for
 * another birth. */
static nigh_status bury(struct directory *directory, struct entry *entry, uint64_t ticket)
{
    uint32_t nodes = directory->config.nodes;
    uint32_t waiter = next_rank(set_of(directory, entry, SET_WAITERS), 0, nodes);

    if (waiter < nodes) {
        struct entry *waiting = add(directory, &entry->key, waiter);

        if (waiting == NULL) {
            return NIGH_LIMIT;
        }
        memcpy(set_of(directory, waiting, SET_WAITERS), set_of(directory, entry, SET_WAITERS),
               directory->words * sizeof(uint64_t));
        recount(directory, waiting);
        memset(set_of(directory, entry, SET_WAITERS), 0, directory->words * sizeof(uint64_t));
    }
    entry->tombstone = true;
    entry->ticket = ticket;
    recount(directory, entry);
    return NIGH_OK;
}

nigh_status directory_delete(struct directory *directory, uint32_t except,
                             const struct directory_key *key, uint64_t ticket, uint64_t now_us)
{
    struct entry *entry = find(directory, key, NULL);
    uint32_t nodes = directory->config.nodes;
    struct directory_key kept = *key;
    struct birth birth;
    uint64_t holders[SET_WORDS];
    bool held_elsewhere;

    (void)now_us;
    if (entry == NULL || !is_known(directory, entry)) {
        return directory_is_complete(directory, shard_of(key)) ? NIGH_NOT_FOUND : NIGH_BUSY;
    }
    memcpy(holders, set_of(directory, entry, SET_HOLDERS), directory->words * sizeof(uint64_t));
    if (except < nodes) {
        holders[except / 64] &= ~(UINT64_C(1) << except % 64);
    }
    held_elsewhere = next_rank(holders, 0, nodes) < nodes;
    if (held_elsewhere || (directory->rebuilt & shard_of(key)) == 0) {
        if (bury(directory, entry, ticket) != NIGH_OK) {
            return NIGH_LIMIT;
        }
    }
    if (except < nodes) {
        set_remove(directory, entry, SET_HOLDERS, except);
        set_remove(directory, entry, SET_UNCONFIRMED, except);
    }
    if (!held_elsewhere) {
        entry->told = entry->tombstone; /* by what is returned */
        drop_if_idle(directory, entry);
        return NIGH_OK;
    }
    birth = entry->object.birth;
    for (uint32_t rank = next_rank(holders, 0, nodes); rank < nodes;
         rank = next_rank(holders, rank + 1, nodes)) {
        (void)tell_drop(directory, rank, &kept, &birth);
    }
    return NIGH_PENDING;
}

bool directory_owes(const struct directory *directory)
{
    return directory->owed > 0;
}

/* Says all that one tombstone owes; what is not taken puts it at the end of the list again. */
static bool tell_one(struct directory *directory, struct entry *entry)
{
    uint64_t ranks[SET_WORDS];
    struct directory_key key = entry->key;
    struct birth birth = entry->grave.birth;
    uint32_t nodes = directory->config.nodes;
    size_t bytes = directory->words * sizeof(uint64_t);
    bool taken = false;

    memcpy(ranks, set_of(directory, entry, SET_WAITERS), bytes);
    memset(set_of(directory, entry, SET_WAITERS), 0, bytes);
    owe_nothing(directory, entry);
    for (uint32_t rank = next_rank(ranks, 0, nodes); rank < nodes;
         rank = next_rank(ranks, rank + 1, nodes)) {
        taken = tell_drop(directory, rank, &key, &birth) || taken;
    }
    return taken;
}

bool directory_tell_owed(struct directory *directory, uint32_t count)
{
    bool taken = false;

    for (count = count < directory->owed ? count : directory->owed;
         count > 0 && directory->first_owed != 0; count--) {
        struct entry *entry = entry_at(directory, directory->first_owed - 1);

        if (is_fresh(directory, entry)) {
            taken = tell_one(directory, entry) || taken;
        }
    }
    return taken;
}

void directory_dropped(struct directory *directory, uint32_t from, const struct directory_key *key,
                       const struct birth *birth, nigh_status status)
{
    struct entry *entry = find(directory, key, birth);

    NIGH_ASSERT(from < directory->config.nodes);
    if (entry != NULL && set_has(directory, entry, SET_HOLDERS, from)) {
        entry->in_use = entry->in_use || status == NIGH_IN_USE;
        let_go(directory, entry, from, directory->rebuilt);
    }
}

/* ---- members -------------------------------------------------------------- */

void directory_member_up(struct directory *directory, uint32_t rank, uint64_t shards)
{
    NIGH_ASSERT(rank < directory->config.nodes);
    directory->dead[rank] = false;
    directory->announced[rank] &= ~shards;
    find_complete(directory);
    note_change(directory, CHANGE_UP, rank, shards);
}

void directory_announced(struct directory *directory, uint32_t rank, uint64_t shards)
{
    NIGH_ASSERT(rank < directory->config.nodes);
    directory->announced[rank] |= shards;
    directory->ever[rank] |= shards;
    find_complete(directory);
    note_change(directory, CHANGE_ANNOUNCED, rank, shards);
}

void directory_member_dead(struct directory *directory, uint32_t rank)
{
    NIGH_ASSERT(rank < directory->config.nodes);
    directory->dead[rank] = true;
    directory->announced[rank] = 0;
    directory->ever[rank] = 0;
    find_complete(directory);
    note_change(directory, CHANGE_DEAD, rank, UINT64_MAX);
}

/* ---- numbers -------------------------------------------------------------- */

void directory_stats(const struct directory *directory, struct directory_stats *stats)
{
    *stats = directory->stats;
    stats->bytes = sizeof(*directory) + directory->used * directory->stride +
                   (directory->mask + 1) * sizeof(*directory->heads);
}

static bool is_linked(const struct directory *directory, struct entry *entry)
{
    uint32_t at = *chain_of(directory, &entry->key);

    for (uint32_t steps = 0; at != 0 && steps <= directory->used; steps++) {
        if (at - 1 == number_of(directory, entry)) {
            return true;
        }
        at = entry_at(directory, at - 1)->next;
    }
    return false;
}

/* Only holders are told, and who is yet to be told stands in the list. */
static bool is_owing_valid(const struct directory *directory, struct entry *entry)
{
    for (uint32_t w = 0; w < directory->words; w++) {
        if ((set_of(directory, entry, SET_WAITERS)[w] &
             ~set_of(directory, entry, SET_HOLDERS)[w]) != 0) {
            return false;
        }
    }
    return entry->owes == !set_empty(directory, entry, SET_WAITERS);
}

static bool is_entry_valid(const struct directory *directory, struct entry *entry)
{
    for (uint32_t w = 0; w < directory->words; w++) {
        if ((set_of(directory, entry, SET_UNCONFIRMED)[w] &
             ~set_of(directory, entry, SET_HOLDERS)[w]) != 0) {
            return false;
        }
    }
    if (entry->counts != counts_of(directory, entry) || !is_linked(directory, entry) ||
        entry->seen - directory->first_change > directory->next_change - directory->first_change) {
        return false;
    }
    if (entry->tombstone) {
        return is_owing_valid(directory, entry) &&
               (!set_empty(directory, entry, SET_HOLDERS) ||
                (entry->told && (entry->seen != directory->next_change ||
                                 (directory->rebuilt & shard_of(&entry->key)) == 0)));
    }
    return !entry->told &&
           (is_known(directory, entry) || !set_empty(directory, entry, SET_WAITERS));
}

bool directory_is_valid(const struct directory *directory)
{
    struct directory_stats sum = {0};
    uint32_t used = 0, free = 0, owed = 0, paid = 0;

    for (uint32_t at = directory->free; at != DIRECTORY_NONE; at = entry_at(directory, at)->next) {
        if (entry_at(directory, at)->used || ++free > directory->used) {
            return false;
        }
    }
    for (uint32_t n = 0; n < directory->used; n++) {
        struct entry *entry = entry_at(directory, n);

        if (!entry->used) {
            continue;
        }
        used++;
        owed += entry->owes ? 1 : 0;
        count_as(&sum, entry->counts, 1);
        if (!is_entry_valid(directory, entry)) {
            return false;
        }
    }
    for (uint32_t rank = 0; rank < directory->config.nodes; rank++) {
        paid += directory->shares.used[rank];
    }
    return used + free == directory->used && paid == used && owed == directory->owed &&
           share_is_valid(&directory->shares) && sum.keys == directory->stats.keys &&
           sum.waiting == directory->stats.waiting && sum.tombstones == directory->stats.tombstones;
}
