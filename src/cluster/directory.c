/* SPDX-License-Identifier: Apache-2.0 */
/* See directory.h. */
#include "cluster/directory.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/table.h"

#define DIRECTORY_NONE UINT32_MAX

/* Sets of ranks that an entry keeps, one behind the other. */
enum directory_set {
    SET_HOLDERS = 0,     /* of a tombstone: those that have not acknowledged */
    SET_UNCONFIRMED = 1, /* holders whose link came up, and that have not announced it again */
    SET_WAITERS = 2,
    SETS = 3
};

struct entry {
    struct directory_key key;
    struct directory_object object;
    uint64_t ticket; /* of a tombstone */
    uint32_t next;   /* of the same hash; free list */
    bool used;
    bool tombstone;
    bool in_use; /* a holder said so of the tombstone's birth */
    uint64_t sets[];
};

struct directory {
    struct directory_config config;
    uint32_t words; /* of a set */
    size_t stride;  /* of an entry */
    uint8_t *entries;
    uint32_t used; /* entries ever used */
    uint32_t free;
    struct table table;              /* hash of a key -> first entry */
    uint64_t announced[LIMIT_NODES]; /* shards that a member has announced */
    bool dead[LIMIT_NODES];
    uint64_t complete; /* shards that all have */
    struct directory_stats stats;
};

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

/* ---- entries -------------------------------------------------------------- */

uint64_t directory_key_hash(const struct directory_key *key)
{
    return hash_mix(hash_id20(key->id) ^ HASH_K0, hash_u64(key->pool) ^ HASH_K1);
}

static uint64_t shard_of(const struct directory_key *key)
{
    return UINT64_C(1) << (hash_id20(key->id) >> 58);
}

static struct entry *entry_at(const struct directory *directory, uint32_t number)
{
    return (struct entry *)(void *)(directory->entries + number * directory->stride);
}

static uint32_t number_of(const struct directory *directory, const struct entry *entry)
{
    return (uint32_t)((size_t)((const uint8_t *)entry - directory->entries) / directory->stride);
}

/* The entry of a key that is not a tombstone, or (birth not NULL) the tombstone of that birth. */
static struct entry *find(struct directory *directory, const struct directory_key *key,
                          const struct birth *birth)
{
    uint64_t *first = table_find(&directory->table, directory_key_hash(key));
    uint32_t at = first == NULL ? DIRECTORY_NONE : (uint32_t)*first;

    while (at != DIRECTORY_NONE) {
        struct entry *entry = entry_at(directory, at);

        if (memcmp(&entry->key, key, sizeof(*key)) == 0 && entry->tombstone == (birth != NULL) &&
            (birth == NULL || birth_equal(birth, &entry->object.birth))) {
            return entry;
        }
        at = entry->next;
    }
    return NULL;
}

static struct entry *add(struct directory *directory, const struct directory_key *key)
{
    uint64_t hash = directory_key_hash(key);
    uint64_t *first = table_find(&directory->table, hash);
    uint32_t number = directory->free;
    struct entry *entry;

    if (number == DIRECTORY_NONE && directory->used == directory->config.max_keys) {
        return NULL;
    }
    if (first == NULL && table_insert(&directory->table, hash, DIRECTORY_NONE) != NIGH_OK) {
        return NULL;
    }
    first = table_find(&directory->table, hash);
    if (number != DIRECTORY_NONE) {
        directory->free = entry_at(directory, number)->next;
    } else {
        number = directory->used++;
    }
    entry = entry_at(directory, number);
    memset(entry, 0, directory->stride);
    entry->key = *key;
    entry->used = true;
    entry->next = (uint32_t)*first;
    *first = number;
    return entry;
}

static void drop_entry(struct directory *directory, struct entry *entry)
{
    uint64_t hash = directory_key_hash(&entry->key);
    uint32_t number = number_of(directory, entry);
    uint64_t *first = table_find(&directory->table, hash);

    NIGH_ASSERT(first != NULL && entry->used);
    if ((uint32_t)*first == number) {
        *first = entry->next;
    } else {
        struct entry *before = entry_at(directory, (uint32_t)*first);

        while (before->next != number) {
            before = entry_at(directory, before->next);
        }
        before->next = entry->next;
    }
    if ((uint32_t)*first == DIRECTORY_NONE) {
        (void)table_remove(&directory->table, hash, NULL);
    }
    entry->used = false;
    entry->next = directory->free;
    directory->free = number;
}

static bool is_known(const struct directory *directory, struct entry *entry)
{
    return !set_empty(directory, entry, SET_HOLDERS);
}

/* A key that nobody holds and nobody waits for is not kept. */
static void drop_if_idle(struct directory *directory, struct entry *entry)
{
    if (!entry->tombstone && !is_known(directory, entry) &&
        set_empty(directory, entry, SET_WAITERS)) {
        drop_entry(directory, entry);
    }
}

/* ---- create, destroy ------------------------------------------------------ */

static void find_complete(struct directory *directory)
{
    directory->complete = UINT64_MAX;
    for (uint32_t rank = 0; rank < directory->config.nodes; rank++) {
        if (!directory->dead[rank]) {
            directory->complete &= directory->announced[rank];
        }
    }
}

nigh_status directory_create(const struct directory_config *config, struct directory **out)
{
    struct directory *directory;

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
    /* Touched only as far as it is used. */
    directory->entries = calloc(config->max_keys, directory->stride);
    if (directory->entries == NULL ||
        table_init(&directory->table, config->max_keys, HASH_K3) != NIGH_OK) {
        free(directory->entries);
        free(directory);
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
    table_fini(&directory->table);
    free(directory->entries);
    free(directory);
}

bool directory_is_complete(const struct directory *directory, uint64_t shards)
{
    return (directory->complete & shards) == shards;
}

/* ---- answers -------------------------------------------------------------- */

/* The holders that an asker should try, confirmed ones first, beginning behind its own rank so that
 * askers spread over them. */
static void name_holders(const struct directory *directory, struct entry *entry, uint32_t asker,
                         struct directory_answer *answer)
{
    uint32_t nodes = directory->config.nodes;

    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t n = 1; n <= nodes && answer->holder_count < DIRECTORY_HOLDERS; n++) {
            uint32_t rank = (asker + n) % nodes;

            if (rank != asker && set_has(directory, entry, SET_HOLDERS, rank) &&
                set_has(directory, entry, SET_UNCONFIRMED, rank) == (pass == 1)) {
                answer->holders[answer->holder_count++] = rank;
            }
        }
    }
}

static struct directory_answer answer_of(const struct directory *directory, struct entry *entry,
                                         uint32_t asker)
{
    struct directory_answer answer = {.state = DIRECTORY_KNOWN, .object = entry->object};

    name_holders(directory, entry, asker, &answer);
    return answer;
}

/* Tells those who wait, if there is somebody to go to. */
static void wake(struct directory *directory, struct entry *entry)
{
    for (uint32_t rank = 0; rank < directory->config.nodes; rank++) {
        struct directory_answer answer;

        if (!set_has(directory, entry, SET_WAITERS, rank)) {
            continue;
        }
        answer = answer_of(directory, entry, rank);
        if (answer.holder_count == 0) {
            continue;
        }
        set_remove(directory, entry, SET_WAITERS, rank);
        directory->config.shell.found(directory->config.shell.context, rank, &entry->key, &answer);
    }
}

/* ---- what members say ----------------------------------------------------- */

nigh_status directory_announce(struct directory *directory, uint32_t from,
                               const struct directory_key *key,
                               const struct directory_object *object, bool is_copy, uint64_t now_us)
{
    struct entry *entry;

    (void)now_us;
    NIGH_ASSERT(from < directory->config.nodes);
    if (find(directory, key, &object->birth) != NULL) {
        return NIGH_IN_USE;
    }
    entry = find(directory, key, NULL);
    if (entry != NULL && is_known(directory, entry)) {
        if (!birth_equal(&entry->object.birth, &object->birth)) {
            return NIGH_EXISTS;
        }
    } else {
        if (is_copy && directory_is_complete(directory, shard_of(key))) {
            return NIGH_IN_USE;
        }
        if (entry == NULL) {
            entry = add(directory, key);
        }
        if (entry == NULL) {
            return NIGH_LIMIT;
        }
        entry->object = *object;
    }
    set_add(directory, entry, SET_HOLDERS, from);
    set_remove(directory, entry, SET_UNCONFIRMED, from);
    set_remove(directory, entry, SET_WAITERS, from);
    wake(directory, entry);
    return NIGH_OK;
}

nigh_status directory_locate(struct directory *directory, uint32_t from,
                             const struct directory_key *key, bool wait,
                             struct directory_answer *answer)
{
    struct entry *entry = find(directory, key, NULL);
    struct directory_answer found = {.state = DIRECTORY_ABSENT};

    NIGH_ASSERT(from < directory->config.nodes);
    if (entry != NULL && is_known(directory, entry)) {
        found = answer_of(directory, entry, from);
        if (found.holder_count > 0) {
            *answer = found;
            return NIGH_OK;
        }
    }
    if (wait && entry == NULL) {
        entry = add(directory, key);
        if (entry == NULL) {
            return NIGH_LIMIT;
        }
    }
    if (wait) {
        set_add(directory, entry, SET_WAITERS, from);
    }
    found = (struct directory_answer){.state = directory_is_complete(directory, shard_of(key))
                                                   ? DIRECTORY_ABSENT
                                                   : DIRECTORY_NOT_YET};
    *answer = found;
    return NIGH_OK;
}

void directory_unwait(struct directory *directory, uint32_t from, const struct directory_key *key)
{
    struct entry *entry = find(directory, key, NULL);

    if (entry != NULL) {
        set_remove(directory, entry, SET_WAITERS, from);
        drop_if_idle(directory, entry);
    }
}

/* A holder of a tombstone's birth has it no longer, or is dead: the delete may be over. */
static void acknowledge(struct directory *directory, struct entry *entry, uint32_t rank)
{
    uint64_t ticket = entry->ticket;
    nigh_status status = entry->in_use ? NIGH_IN_USE : NIGH_OK;

    set_remove(directory, entry, SET_HOLDERS, rank);
    set_remove(directory, entry, SET_UNCONFIRMED, rank);
    if (set_empty(directory, entry, SET_HOLDERS)) {
        drop_entry(directory, entry);
        directory->config.shell.deleted(directory->config.shell.context, ticket, status);
    }
}

static void let_go(struct directory *directory, struct entry *entry, uint32_t rank)
{
    if (entry->tombstone) {
        if (set_has(directory, entry, SET_HOLDERS, rank)) {
            acknowledge(directory, entry, rank);
        }
        return;
    }
    set_remove(directory, entry, SET_HOLDERS, rank);
    set_remove(directory, entry, SET_UNCONFIRMED, rank);
    drop_if_idle(directory, entry);
}

void directory_forget(struct directory *directory, uint32_t from, const struct directory_key *key,
                      const struct birth *birth)
{
    struct entry *tombstone = find(directory, key, birth);
    struct entry *entry = find(directory, key, NULL);

    if (tombstone != NULL) {
        let_go(directory, tombstone, from);
    }
    if (entry != NULL && birth_equal(&entry->object.birth, birth) &&
        set_has(directory, entry, SET_HOLDERS, from)) {
        let_go(directory, entry, from);
    }
}

/* ---- deletes -------------------------------------------------------------- */

nigh_status directory_delete(struct directory *directory, uint32_t except,
                             const struct directory_key *key, uint64_t ticket, uint64_t now_us)
{
    struct entry *entry = find(directory, key, NULL);
    struct birth birth;

    (void)now_us;
    if (entry == NULL || !is_known(directory, entry)) {
        return directory_is_complete(directory, shard_of(key)) ? NIGH_NOT_FOUND : NIGH_BUSY;
    }
    if (except < directory->config.nodes) {
        set_remove(directory, entry, SET_HOLDERS, except);
        set_remove(directory, entry, SET_UNCONFIRMED, except);
    }
    if (!is_known(directory, entry)) {
        drop_if_idle(directory, entry);
        return NIGH_OK;
    }
    memset(set_of(directory, entry, SET_WAITERS), 0, directory->words * sizeof(uint64_t));
    entry->tombstone = true;
    entry->ticket = ticket;
    birth = entry->object.birth;
    for (uint32_t rank = 0; rank < directory->config.nodes; rank++) {
        if (set_has(directory, entry, SET_HOLDERS, rank)) {
            directory->config.shell.drop(directory->config.shell.context, rank, key, &birth);
        }
    }
    return NIGH_PENDING;
}

void directory_dropped(struct directory *directory, uint32_t from, const struct directory_key *key,
                       const struct birth *birth, nigh_status status)
{
    struct entry *entry = find(directory, key, birth);

    if (entry != NULL && set_has(directory, entry, SET_HOLDERS, from)) {
        entry->in_use = entry->in_use || status == NIGH_IN_USE;
        acknowledge(directory, entry, from);
    }
}

/* ---- members -------------------------------------------------------------- */

/* Calls `change` for each entry of these shards; it may drop the entry. */
static void each_entry(struct directory *directory, uint32_t rank, uint64_t shards,
                       void (*change)(struct directory *directory, struct entry *entry,
                                      uint32_t rank))
{
    for (uint32_t n = 0; n < directory->used; n++) {
        struct entry *entry = entry_at(directory, n);

        if (entry->used && (shard_of(&entry->key) & shards) != 0) {
            change(directory, entry, rank);
        }
    }
}

static void doubt(struct directory *directory, struct entry *entry, uint32_t rank)
{
    if (set_has(directory, entry, SET_HOLDERS, rank)) {
        set_add(directory, entry, SET_UNCONFIRMED, rank);
    }
    set_remove(directory, entry, SET_WAITERS, rank);
    drop_if_idle(directory, entry);
}

static void settle(struct directory *directory, struct entry *entry, uint32_t rank)
{
    if (set_has(directory, entry, SET_UNCONFIRMED, rank)) {
        let_go(directory, entry, rank);
    }
}

static void bury(struct directory *directory, struct entry *entry, uint32_t rank)
{
    set_remove(directory, entry, SET_WAITERS, rank);
    if (set_has(directory, entry, SET_HOLDERS, rank)) {
        let_go(directory, entry, rank);
    } else {
        drop_if_idle(directory, entry);
    }
}

void directory_member_up(struct directory *directory, uint32_t rank, uint64_t shards)
{
    NIGH_ASSERT(rank < directory->config.nodes);
    directory->dead[rank] = false;
    directory->announced[rank] &= ~shards;
    find_complete(directory);
    each_entry(directory, rank, shards, doubt);
}

void directory_announced(struct directory *directory, uint32_t rank, uint64_t shards)
{
    NIGH_ASSERT(rank < directory->config.nodes);
    directory->announced[rank] |= shards;
    find_complete(directory);
    each_entry(directory, rank, shards, settle);
}

void directory_member_dead(struct directory *directory, uint32_t rank)
{
    NIGH_ASSERT(rank < directory->config.nodes);
    directory->dead[rank] = true;
    directory->announced[rank] = 0;
    find_complete(directory);
    each_entry(directory, rank, UINT64_MAX, bury);
}

/* ---- numbers -------------------------------------------------------------- */

void directory_stats(const struct directory *directory, struct directory_stats *stats)
{
    struct directory_stats sum = {0};

    for (uint32_t n = 0; n < directory->used; n++) {
        struct entry *entry = entry_at(directory, n);

        if (!entry->used) {
            continue;
        }
        sum.tombstones += entry->tombstone ? 1 : 0;
        sum.keys += !entry->tombstone && is_known(directory, entry) ? 1 : 0;
        sum.waiting += !set_empty(directory, entry, SET_WAITERS) ? 1 : 0;
    }
    sum.bytes =
        directory->used * directory->stride + directory->table.count * sizeof(struct table_slot);
    *stats = sum;
}

bool directory_is_valid(const struct directory *directory)
{
    uint32_t linked = 0, free = 0;

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
        linked++;
        for (uint32_t w = 0; w < directory->words; w++) {
            if ((set_of(directory, entry, SET_UNCONFIRMED)[w] &
                 ~set_of(directory, entry, SET_HOLDERS)[w]) != 0) {
                return false;
            }
        }
        if (entry->tombstone
                ? set_empty(directory, entry, SET_HOLDERS)
                : !is_known(directory, entry) && set_empty(directory, entry, SET_WAITERS)) {
            return false;
        }
    }
    return linked + free == directory->used && table_is_valid(&directory->table);
}
