/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of keys that a keeper has account of, and what their slots say; see replicas.h. */
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "cluster/replicas_internal.h"

/* ---- finding -------------------------------------------------------------- */

uint32_t kept_shard(const struct directory_key *key)
{
    return (uint32_t)(hash_id20(key->id) >> 58);
}

static struct list *bucket_of(const struct replicas *replicas, const struct directory_key *key)
{
    const uint64_t *secret = replicas->secret;
    uint64_t head =
        hash_mix(hash_load64(key->id) ^ secret[0], hash_load64(key->id + 8) ^ secret[1]);
    uint64_t tail = hash_mix(hash_load32(key->id + 16) ^ secret[2], key->pool ^ secret[3]);

    return &replicas->buckets[hash_mix(head ^ secret[3], tail ^ secret[0]) % REPLICAS_KEY_BUCKETS];
}

struct kept *kept_find(const struct replicas *replicas, const struct directory_key *key)
{
    LIST_FOREACH(node, bucket_of(replicas, key))
    {
        struct kept *kept = container_of(node, struct kept, bucket);

        if (memcmp(&kept->key, key, sizeof(*key)) == 0) {
            return kept;
        }
    }
    return NULL;
}

struct slot *kept_slot(struct kept *kept, uint32_t rank)
{
    for (uint32_t n = 0; n < REPLICAS_SLOTS; n++) {
        if (kept->slots[n].state != SLOT_FREE && kept->slots[n].rank == rank) {
            return &kept->slots[n];
        }
    }
    return NULL;
}

struct slot *kept_free_slot(struct kept *kept)
{
    for (uint32_t n = 0; n < REPLICAS_SLOTS; n++) {
        if (kept->slots[n].state == SLOT_FREE) {
            return &kept->slots[n];
        }
    }
    return NULL;
}

/* ---- what slots say ------------------------------------------------------- */

bool replicas_is_dead(const struct replicas *replicas, uint32_t rank)
{
    return rank != replicas->config.members->self &&
           replicas->config.shell.is_dead(replicas->config.shell.context, rank);
}

bool kept_stands(const struct replicas *replicas, const struct kept *kept, const struct slot *slot)
{
    uint32_t shard = kept_shard(&kept->key);
    const struct age *age = &replicas->ages[slot->rank][shard];

    if (slot->state != SLOT_HELD || replicas_is_dead(replicas, slot->rank)) {
        return false;
    }
    return slot->age == age->now || (slot->age - age->died < age->now - age->died &&
                                     (replicas->told_all[slot->rank] >> shard & 1) == 0);
}

uint32_t kept_count_state(const struct kept *kept, enum slot_state state)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < REPLICAS_SLOTS; n++) {
        count += kept->slots[n].state == state ? 1 : 0;
    }
    return count;
}

uint32_t kept_count_held(const struct kept *kept)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < REPLICAS_SLOTS; n++) {
        count += kept->slots[n].state == SLOT_HELD && !kept->slots[n].leaves ? 1 : 0;
    }
    return count;
}

uint32_t kept_lacking(uint32_t wanted, uint32_t held)
{
    return wanted > held ? wanted - held : 0;
}

void kept_recount(struct replicas *replicas, struct kept *kept, uint32_t wanted_before)
{
    uint32_t held = kept_count_held(kept), asked = kept_count_state(kept, SLOT_ASKED);
    uint32_t wanted = kept->used ? kept->wanted : 0;

    replicas->stats.wanted += (uint64_t)wanted - wanted_before;
    replicas->stats.missing +=
        (uint64_t)kept_lacking(wanted, held) - kept_lacking(wanted_before, kept->told_held);
    replicas->stats.asked += (uint64_t)asked - kept->told_asked;
    kept->told_held = held;
    kept->told_asked = asked;
}

void kept_look_at(struct replicas *replicas, struct kept *kept, uint64_t at_us)
{
    nigh_status status;

    if (timer_is_armed(&kept->timer) && kept->timer.deadline_us <= at_us) {
        return;
    }
    timers_cancel(&replicas->timers, &kept->timer);
    status = timers_add(&replicas->timers, &kept->timer, at_us);
    NIGH_ASSERT(status == NIGH_OK); /* there is one for each */
}

/* ---- entries -------------------------------------------------------------- */

struct kept *kept_add(struct replicas *replicas, const struct directory_key *key, uint32_t payer)
{
    struct list_node *node;
    struct kept *kept;

    if (!share_take(&replicas->shares, payer)) {
        replicas->stats.refused++;
        return NULL;
    }
    node = list_pop_front(&replicas->free);
    if (node != NULL) {
        kept = container_of(node, struct kept, bucket);
    } else {
        NIGH_ASSERT(replicas->used < replicas->config.max_keys); /* the shares are all of them */
        kept = &replicas->kept[replicas->used++];
    }
    memset(kept, 0, sizeof(*kept));
    kept->used = true;
    kept->key = *key;
    kept->key_hash = directory_key_hash(key);
    kept->payer = payer;
    list_push_back(bucket_of(replicas, key), &kept->bucket);
    replicas->stats.keys++;
    return kept;
}

void kept_drop(struct replicas *replicas, struct kept *kept)
{
    uint32_t wanted = kept->wanted;

    timers_cancel(&replicas->timers, &kept->timer);
    list_remove(&kept->bucket);
    share_give(&replicas->shares, kept->payer);
    memset(kept->slots, 0, sizeof(kept->slots));
    kept->used = false;
    kept_recount(replicas, kept, wanted);
    replicas->stats.keys--;
    list_push_front(&replicas->free, &kept->bucket);
}
