/* SPDX-License-Identifier: Apache-2.0 */
/* See directory.h. Making one, and what members say and ask. */
#include "cluster/directory_internal.h"

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
    share_init(&directory->claim_shares, LIMIT_CLAIMS, config->nodes);
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
    directory_find_complete(directory);
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
    struct entry *entry = directory_find(directory, key, NULL);
    uint32_t rank = 0;

    while (entry != NULL && is_known(directory, entry) &&
           (rank = next_rank(set_of(directory, entry, SET_WAITERS), rank, nodes)) < nodes) {
        struct directory_answer answer = answer_of(directory, entry, rank);

        if (answer.holder_count > 0) {
            set_remove(directory, entry, SET_WAITERS, rank);
            directory_recount(directory, entry);
            directory->config.shell.found(directory->config.shell.context, rank, key, &answer);
            entry = directory_find(directory, key, NULL);
        }
        rank++;
    }
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
    entry = directory_find(directory, key, &object->birth);
    if (entry != NULL) {
        /* The answer may be lost, and the tombstone gone when it is announced again: it stays until
         * this one has acknowledged, too. */
        set_add(directory, entry, SET_HOLDERS, from);
        set_remove(directory, entry, SET_UNCONFIRMED, from);
        (void)directory_tell_drop(directory, from, &kept, &birth);
        return NIGH_IN_USE;
    }
    entry = directory_find(directory, key, NULL);
    if (entry != NULL && set_has(directory, entry, SET_HOLDERS, from) &&
        !birth_equal(&entry->object.birth, &object->birth)) {
        /* A member holds one birth of a key: that the other is gone was to be said, and is lost. */
        directory_let_go(directory, entry, from, directory->rebuilt);
        entry = directory_find(directory, key, NULL);
    }
    if (entry != NULL && is_claimed_by(entry, from)) {
        /* It comes to be that birth, or has been given up. */
        directory_end_claim(directory, entry);
        directory_drop_if_idle(directory, entry);
        entry = directory_find(directory, key, NULL);
    }
    if (entry != NULL && (is_known(directory, entry) || is_claimed(entry))) {
        if (is_claimed(entry) || !birth_equal(&entry->object.birth, &object->birth)) {
            return NIGH_EXISTS;
        }
    } else {
        if (is_copy && (directory->ever[from] & shard_of(key)) != 0 &&
            !is_untold(directory, from, key)) {
            return NIGH_IN_USE;
        }
        if (entry == NULL) {
            entry = directory_add(directory, key, from);
        }
        if (entry == NULL) {
            return NIGH_LIMIT;
        }
        entry->object = *object;
    }
    set_add(directory, entry, SET_HOLDERS, from);
    set_remove(directory, entry, SET_UNCONFIRMED, from);
    set_remove(directory, entry, SET_WAITERS, from);
    directory_recount(directory, entry);
    if ((entry->counts & COUNTS_WAITING) != 0) {
        wake(directory, &kept);
    }
    return NIGH_OK;
}

nigh_status directory_locate(struct directory *directory, uint32_t from,
                             const struct directory_key *key, bool wait,
                             struct directory_answer *answer)
{
    struct entry *entry = directory_find(directory, key, NULL);
    struct directory_answer found = {.state = is_complete(directory, key) ? DIRECTORY_ABSENT
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
        entry = directory_add(directory, key, from);
        if (entry == NULL) {
            return NIGH_LIMIT;
        }
    }
    if (wait) {
        set_add(directory, entry, SET_WAITERS, from);
        directory_recount(directory, entry);
    }
    *answer = found;
    return NIGH_OK;
}

void directory_unwait(struct directory *directory, uint32_t from, const struct directory_key *key)
{
    struct entry *entry = directory_find(directory, key, NULL);

    NIGH_ASSERT(from < directory->config.nodes);
    if (entry != NULL) {
        set_remove(directory, entry, SET_WAITERS, from);
        directory_drop_if_idle(directory, entry);
    }
}

void directory_forget(struct directory *directory, uint32_t from, const struct directory_key *key,
                      const struct birth *birth)
{
    struct entry *entry = directory_find(directory, key, NULL);

    NIGH_ASSERT(from < directory->config.nodes);
    if (entry != NULL && is_claimed_by(entry, from) && birth_equal(&entry->object.birth, birth)) {
        directory_end_claim(directory, entry);
        directory_drop_if_idle(directory, entry);
        return;
    }
    if (entry == NULL || !is_known(directory, entry) || !birth_equal(&entry->object.birth, birth)) {
        entry = directory_find(directory, key, birth);
    }
    if (entry != NULL) {
        directory_let_go(directory, entry, from, directory->rebuilt);
    }
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
    uint32_t at = *directory_chain_of(directory, &entry->key);

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
    if (entry->counts != directory_counts_of(directory, entry) || !is_linked(directory, entry) ||
        entry->seen - directory->first_change > directory->next_change - directory->first_change) {
        return false;
    }
    if (entry->tombstone) {
        return is_owing_valid(directory, entry) &&
               (!set_empty(directory, entry, SET_HOLDERS) ||
                (entry->told &&
                 (entry->seen != directory->next_change || directory_is_sweeping(directory) ||
                  !is_rebuilt(directory, directory->rebuilt, &entry->key))));
    }
    if (is_claimed(entry) ? is_known(directory, entry) : entry->claim.doubted) {
        return false;
    }
    return !entry->told && (is_known(directory, entry) || is_claimed(entry) ||
                            !set_empty(directory, entry, SET_WAITERS));
}

bool directory_is_valid(const struct directory *directory)
{
    struct directory_stats sum = {0};
    uint32_t used = 0, free = 0, owed = 0, paid = 0, claims = 0;

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
        directory_count_as(&sum, entry->counts, 1);
        if (!is_entry_valid(directory, entry)) {
            return false;
        }
    }
    for (uint32_t rank = 0; rank < directory->config.nodes; rank++) {
        paid += directory->shares.used[rank];
        claims += directory->claim_shares.used[rank];
    }
    if (!share_is_valid(&directory->claim_shares) || claims != sum.claims ||
        sum.claims != directory->stats.claims) {
        return false;
    }
    return used + free == directory->used && paid == used && owed == directory->owed &&
           share_is_valid(&directory->shares) && sum.keys == directory->stats.keys &&
           sum.waiting == directory->stats.waiting && sum.tombstones == directory->stats.tombstones;
}
