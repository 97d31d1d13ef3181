/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See directory_internal.h. Entries lie in one array, found through chains of a hash that whoever
 * chooses ids does not know (so that he cannot make chains long). Each is in one member's share.
 */
#include "cluster/directory_internal.h"

uint64_t directory_key_hash(const struct directory_key *key)
{
    return hash_mix(hash_id20(key->id) ^ HASH_K0, hash_u64(key->pool) ^ HASH_K1);
}

uint32_t *directory_chain_of(const struct directory *directory, const struct directory_key *key)
{
    const uint64_t *secret = directory->secret;
    uint64_t head =
        hash_mix(hash_load64(key->id) ^ secret[0], hash_load64(key->id + 8) ^ secret[1]);
    uint64_t tail = hash_mix(hash_load32(key->id + 16) ^ secret[2], key->pool ^ secret[3]);

    return &directory->heads[hash_mix(head ^ secret[3], tail ^ secret[0]) & directory->mask];
}

uint8_t directory_counts_of(const struct directory *directory, struct entry *entry)
{
    if (!entry->used) {
        return 0;
    }
    if (entry->tombstone) {
        return COUNTS_TOMBSTONE;
    }
    return (uint8_t)((is_known(directory, entry) ? COUNTS_KNOWN : 0) |
                     (is_claimed(entry) ? COUNTS_CLAIMED : 0) |
                     (set_empty(directory, entry, SET_WAITERS) ? 0 : COUNTS_WAITING));
}

void directory_count_as(struct directory_stats *stats, uint8_t counts, uint64_t one)
{
    stats->keys += (counts & COUNTS_KNOWN) != 0 ? one : 0;
    stats->waiting += (counts & COUNTS_WAITING) != 0 ? one : 0;
    stats->tombstones += (counts & COUNTS_TOMBSTONE) != 0 ? one : 0;
    stats->claims += (counts & COUNTS_CLAIMED) != 0 ? one : 0;
}

/* Who neither holds a key nor claims it nor waits for it does not pay for it, if another can. */
static void choose_payer(struct directory *directory, struct entry *entry)
{
    uint32_t nodes = directory->config.nodes;
    uint32_t rank;

    if (!entry->used || entry->tombstone || set_has(directory, entry, SET_HOLDERS, entry->payer) ||
        set_has(directory, entry, SET_WAITERS, entry->payer) ||
        is_claimed_by(entry, entry->payer)) {
        return;
    }
    rank = is_claimed(entry) ? entry->claim.claimer - 1
                             : next_rank(set_of(directory, entry, SET_HOLDERS), 0, nodes);
    if (rank >= nodes) {
        rank = next_rank(set_of(directory, entry, SET_WAITERS), 0, nodes);
    }
    if (rank < nodes && share_take(&directory->shares, rank)) {
        share_give(&directory->shares, entry->payer);
        entry->payer = (uint16_t)rank;
    }
}

void directory_recount(struct directory *directory, struct entry *entry)
{
    uint8_t counts = directory_counts_of(directory, entry);

    choose_payer(directory, entry);
    if (counts != entry->counts) {
        directory_count_as(&directory->stats, entry->counts, UINT64_MAX);
        directory_count_as(&directory->stats, counts, 1);
        entry->counts = counts;
    }
}

struct entry *directory_add(struct directory *directory, const struct directory_key *key,
                            uint32_t payer)
{
    uint32_t *chain = directory_chain_of(directory, key);
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

void directory_drop_entry(struct directory *directory, struct entry *entry)
{
    uint32_t number = number_of(directory, entry);
    uint32_t *at = directory_chain_of(directory, &entry->key);

    NIGH_ASSERT(entry->used && !entry->owes && !is_claimed(entry));
    while (*at != number + 1) {
        NIGH_ASSERT(*at != 0);
        at = &entry_at(directory, *at - 1)->next;
    }
    *at = entry->next;
    entry->used = false;
    share_give(&directory->shares, entry->payer);
    directory_recount(directory, entry);
    entry->next = directory->free;
    directory->free = number;
}

void directory_drop_if_idle(struct directory *directory, struct entry *entry)
{
    if (!entry->tombstone && !is_known(directory, entry) && !is_claimed(entry) &&
        set_empty(directory, entry, SET_WAITERS)) {
        directory_drop_entry(directory, entry);
    } else {
        directory_recount(directory, entry);
    }
}

struct entry *directory_find(struct directory *directory, const struct directory_key *key,
                             const struct birth *birth)
{
    const uint32_t *chain = directory_chain_of(directory, key);
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
