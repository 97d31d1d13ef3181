/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See replicas.h. A key's entry has a slot for each member that holds it or was asked to. What a
 * member told counts for the life and the link that it came by: each slot has the number of that
 * (an age), which grows with every link and every death, so that neither has to pass all keys.
 */
#include "cluster/replicas.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"
#include "cluster/replicas_internal.h"

#define SWEEP      1024u /* keys that a turn passes when a member came or went */
#define TURN       64u   /* keys that a turn judges */
#define NO_SWEEP   UINT32_MAX
#define CROWDED_US 10000u /* before a key is judged again, when too many are being made */

uint32_t replicas_keeper(const struct members *members, uint64_t key_hash,
                         bool (*is_out)(void *context, uint32_t rank), void *context)
{
    uint64_t best = 0;
    uint32_t keeper = members->self;

    for (uint32_t rank = 0; rank < members->count; rank++) {
        uint64_t weight = members_weight(members, rank, key_hash);

        if (weight > best && !is_out(context, rank)) {
            best = weight;
            keeper = rank;
        }
    }
    return keeper;
}

/* ---- judging -------------------------------------------------------------- */

static bool reaches(const struct replicas *replicas, uint32_t rank, const struct kept *kept)
{
    return replicas->config.shell.reaches(replicas->config.shell.context, rank, &kept->key);
}

/* What is not so any more goes: holders that are dead or did not tell it again, and members that
 * were asked and do not answer. */
static void clean(struct replicas *replicas, struct kept *kept, uint64_t now_us)
{
    for (uint32_t n = 0; n < REPLICAS_SLOTS; n++) {
        struct slot *slot = &kept->slots[n];

        if (slot->state == SLOT_HELD && !kept_stands(replicas, kept, slot)) {
            slot->state = SLOT_FREE;
        } else if (slot->state == SLOT_ASKED &&
                   (replicas_is_dead(replicas, slot->rank) ||
                    !reaches(replicas, slot->rank, kept) ||
                    now_us > clock_deadline_us(slot->begun_us,
                                               REPLICAS_MAKE_US + kept->object.data_size / 8))) {
            slot->state = SLOT_FREE;
            kept->failed[slot->rank / 64] |= UINT64_C(1) << slot->rank % 64;
            kept->why = NIGH_TIMEOUT;
            replicas->stats.failures++;
        }
    }
}

/* The heaviest member that can be asked, holds nothing and has not refused; UINT32_MAX: none. */
static uint32_t candidate(const struct replicas *replicas, struct kept *kept)
{
    const struct members *members = replicas->config.members;
    uint64_t best = 0;
    uint32_t found = UINT32_MAX;

    for (uint32_t rank = 0; rank < members->count; rank++) {
        uint64_t weight = members_weight(members, rank, kept->key_hash);

        if (weight > best && (kept->failed[rank / 64] >> rank % 64 & 1) == 0 &&
            !replicas_is_dead(replicas, rank) && kept_slot(kept, rank) == NULL &&
            reaches(replicas, rank, kept)) {
            best = weight;
            found = rank;
        }
    }
    return found;
}

/* Short of some: nobody more can be asked now, and nobody who was asked is at it. */
static struct replica_count count_of(const struct kept *kept, const struct slot *slot)
{
    return (struct replica_count){.wanted = kept->wanted,
                                  .held = kept_count_held(kept),
                                  .is_short =
                                      kept->is_short && kept_count_state(kept, SLOT_ASKED) == 0,
                                  .leaves = slot->leaves,
                                  .why = kept->why == NIGH_OK ? NIGH_TOO_FEW : kept->why};
}

/* Holders that wait hear of it when there is an end; and one that leaves, and heard that others
 * hold it, when they do not any more. */
static void tell_waiting(struct replicas *replicas, struct kept *kept)
{
    for (uint32_t n = 0; n < REPLICAS_SLOTS; n++) {
        struct slot *slot = &kept->slots[n];
        struct replica_count count = count_of(kept, slot);
        bool is_whole = count.held >= count.wanted, is_lost = slot->is_safe && !is_whole;

        if (slot->state == SLOT_HELD &&
            (is_lost || (slot->waits && (is_whole || count.is_short != 0)))) {
            slot->waits = is_lost && count.is_short == 0;
            slot->is_safe = slot->leaves && is_whole;
            replicas->config.shell.count(replicas->config.shell.context, slot->rank, &kept->key,
                                         &kept->object.birth, &count);
        }
    }
}

/* All that could be asked have refused, or there is nobody: later again. */
static void pause(struct kept *kept, uint64_t now_us, uint64_t *next_us)
{
    uint64_t wait_us = REPLICAS_PAUSE_US << min_u32(kept->pauses, 4);

    kept->is_short = true;
    kept->pauses++;
    memset(kept->failed, 0, sizeof(kept->failed));
    *next_us = min_u64(*next_us, clock_deadline_us(now_us, min_u64(wait_us, REPLICAS_PAUSE_MAX)));
}

/* Asks for what is lacking; *next_us: when it is looked at again at the latest. */
static void ask_new(struct replicas *replicas, struct kept *kept, uint64_t now_us,
                    uint64_t *next_us)
{
    uint32_t there = kept_count_held(kept) + kept_count_state(kept, SLOT_ASKED);

    for (uint32_t lacking = kept_lacking(kept->wanted, there); lacking > 0; lacking--) {
        struct slot *slot = kept_free_slot(kept);
        uint32_t rank = slot == NULL ? UINT32_MAX : candidate(replicas, kept);

        if (rank == UINT32_MAX) {
            pause(kept, now_us, next_us);
            return;
        }
        if (replicas->stats.asked + kept_count_state(kept, SLOT_ASKED) - kept->told_asked >=
            LIMIT_REPLICA_ASKED) {
            *next_us = min_u64(*next_us, clock_deadline_us(now_us, CROWDED_US));
            return;
        }
        *slot = (struct slot){.state = SLOT_ASKED, .rank = (uint16_t)rank, .begun_us = now_us};
    }
}

/* Those that make a copy are asked how far they are. Their answers may come at once. */
static void ask_all(struct replicas *replicas, struct kept *kept, uint64_t now_us,
                    uint64_t *next_us)
{
    for (uint32_t n = 0; n < REPLICAS_SLOTS; n++) {
        struct slot *slot = &kept->slots[n];

        if (slot->state != SLOT_ASKED) {
            continue;
        }
        *next_us = min_u64(*next_us, clock_deadline_us(now_us, REPLICAS_ASK_US));
        if (slot->asked_us == 0 || now_us >= clock_deadline_us(slot->asked_us, REPLICAS_ASK_US)) {
            slot->asked_us = now_us;
            replicas->config.shell.make(replicas->config.shell.context, slot->rank, &kept->key,
                                        &kept->object, kept->wanted);
        }
    }
}

/* One holder too many is let off: never the first, whose object it is, nor one that was asked, nor
 * one that leaves. */
static void release_one(struct replicas *replicas, struct kept *kept)
{
    struct slot *lightest = NULL;
    uint64_t least = UINT64_MAX;

    for (uint32_t n = 0; n < REPLICAS_SLOTS; n++) {
        struct slot *slot = &kept->slots[n];
        uint64_t weight = members_weight(replicas->config.members, slot->rank, kept->key_hash);

        if (slot->state == SLOT_HELD && !slot->leaves && slot->rank != kept->object.birth.rank &&
            weight < least && reaches(replicas, slot->rank, kept)) {
            least = weight;
            lightest = slot;
        }
    }
    if (lightest != NULL) {
        replicas->config.shell.release(replicas->config.shell.context, lightest->rank, &kept->key,
                                       &kept->object.birth);
        lightest->state = SLOT_FREE;
    }
}

/* Whether one is to hold it, and that is where it was born: nothing need be known of it. */
static bool is_at_home(const struct kept *kept)
{
    const struct slot *only = NULL;

    for (uint32_t n = 0; n < REPLICAS_SLOTS; n++) {
        if (kept->slots[n].state != SLOT_FREE) {
            if (only != NULL) {
                return false;
            }
            only = &kept->slots[n];
        }
    }
    return kept->wanted == 1 && only != NULL && only->state == SLOT_HELD && !only->leaves &&
           only->rank == kept->object.birth.rank;
}

/* What is to be done about a key. It may be gone afterwards. */
static void judge(struct replicas *replicas, struct kept *kept, uint64_t now_us)
{
    uint64_t next_us = UINT64_MAX;
    uint32_t held;

    clean(replicas, kept, now_us);
    if (kept_count_state(kept, SLOT_HELD) == 0 || is_at_home(kept)) {
        kept_drop(replicas, kept); /* nobody is left to copy it from; who makes one tells of it */
        return;
    }
    held = kept_count_held(kept);
    if (held >= kept->wanted) {
        replicas->stats.repaired += kept->is_lossy ? 1 : 0;
        kept->was_whole = true;
        kept->is_lossy = kept->is_short = false;
        kept->pauses = 0;
        kept->why = NIGH_OK;
        memset(kept->failed, 0, sizeof(kept->failed));
    }
    kept->is_lossy =
        kept->is_lossy || (kept->was_whole && held < kept->wanted && now_us >= kept->settle_us);
    if (now_us < kept->settle_us) {
        next_us = kept->settle_us;
    } else if (held > kept->wanted) {
        release_one(replicas, kept);
        next_us = clock_deadline_us(now_us, REPLICAS_PAUSE_US);
    } else {
        ask_new(replicas, kept, now_us, &next_us);
    }
    kept_recount(replicas, kept, kept->wanted);
    if (next_us != UINT64_MAX || kept_count_state(kept, SLOT_ASKED) > 0) {
        ask_all(replicas, kept, now_us, &next_us);
        kept_look_at(replicas, kept, next_us); /* an answer that came at once may want it sooner */
    }
    tell_waiting(replicas, kept);
}

/* ---- what holders say ----------------------------------------------------- */

/* A member holds one birth of a key: what it held before is gone. */
static bool takes_birth(struct replicas *replicas, struct kept *kept, uint32_t from,
                        const struct directory_object *object, uint64_t now_us)
{
    struct slot *slot = kept_slot(kept, from);

    if (birth_equal(&kept->object.birth, &object->birth)) {
        return true;
    }
    if (slot != NULL) {
        slot->state = SLOT_FREE;
    }
    clean(replicas, kept, now_us);
    if (kept_count_state(kept, SLOT_HELD) > 0) {
        kept_recount(replicas, kept, kept->wanted);
        kept_look_at(replicas, kept, now_us);
        return false;
    }
    memset(kept->slots, 0, sizeof(kept->slots));
    kept->object = *object;
    kept->was_whole = kept->is_lossy = kept->is_short = false;
    kept->why = NIGH_OK;
    kept->settle_us = clock_deadline_us(now_us, REPLICAS_SETTLE_US);
    return true;
}

/* A key that this keeper has not heard of: its first holder that waits has just put it, and nobody
 * else has it. Else others are about to tell. */
static struct kept *take_new(struct replicas *replicas, uint32_t from,
                             const struct directory_key *key, const struct directory_object *object,
                             bool waits, uint64_t now_us)
{
    struct kept *kept = kept_add(replicas, key, from);

    if (kept != NULL) {
        kept->object = *object;
        kept->settle_us = waits ? now_us : clock_deadline_us(now_us, REPLICAS_SETTLE_US);
    }
    return kept;
}

nigh_status replicas_told(struct replicas *replicas, uint32_t from, const struct directory_key *key,
                          const struct directory_object *object, uint32_t wanted, uint32_t how,
                          uint64_t now_us, struct replica_count *count)
{
    bool waits = (how & REPLICAS_WAITS) != 0, leaves = (how & REPLICAS_LEAVES) != 0;
    struct kept *kept = kept_find(replicas, key);
    struct slot *slot;
    uint32_t before;
    bool is_again;

    if (wanted < 1 || wanted > LIMIT_REPLICAS) {
        return NIGH_INVALID;
    }
    if (replicas_is_dead(replicas, from)) {
        return NIGH_BUSY; /* it has a link, and counts again soon: what it says now would not */
    }
    if (kept == NULL) {
        kept = take_new(replicas, from, key, object, waits, now_us);
    } else if (!takes_birth(replicas, kept, from, object, now_us)) {
        return NIGH_EXISTS;
    }
    if (kept == NULL) {
        return NIGH_LIMIT;
    }
    slot = kept_slot(kept, from);
    slot = slot != NULL ? slot : kept_free_slot(kept);
    if (slot == NULL) {
        return NIGH_LIMIT;
    }
    /* Who leaves asks how it stands: that hurries nothing. */
    is_again = slot->state == SLOT_HELD && slot->leaves && leaves && !waits &&
               slot->age == replicas->ages[from][kept_shard(key)].now &&
               timer_is_armed(&kept->timer);
    before = kept->wanted;
    kept->wanted = max_u32(before, wanted);
    if (kept->wanted != before) {
        /* What is new to this keeper alone was whole: another saw to that, and is dead. */
        kept->was_whole = before == 0 && wanted > 1 && !waits;
        kept->is_lossy = kept->is_short = false;
    }
    *slot = (struct slot){.state = SLOT_HELD,
                          .rank = (uint16_t)from,
                          .waits = waits || (slot->state == SLOT_HELD && slot->waits) ||
                                   (leaves && !(slot->state == SLOT_HELD && slot->leaves)),
                          .leaves = leaves,
                          .age = replicas->ages[from][kept_shard(key)].now};
    if (waits) {
        kept->is_short = false;
        kept_look_at(replicas, kept, now_us);
    }
    replicas->stats.wanted += kept->wanted - before;
    replicas->stats.missing += (uint64_t)kept_lacking(kept->wanted, kept->told_held) -
                               kept_lacking(before, kept->told_held);
    if (!is_again) {
        kept_look_at(replicas, kept, now_us);
    }
    *count = count_of(kept, slot);
    slot->is_safe = leaves && count->held >= count->wanted; /* as it hears by this */
    return NIGH_OK;
}

void replicas_gone(struct replicas *replicas, uint32_t from, const struct directory_key *key,
                   const struct birth *birth, uint64_t now_us)
{
    struct kept *kept = kept_find(replicas, key);
    struct slot *slot =
        kept == NULL || !birth_equal(&kept->object.birth, birth) ? NULL : kept_slot(kept, from);

    if (slot != NULL) {
        slot->state = SLOT_FREE;
        kept->settle_us = clock_deadline_us(now_us, REPLICAS_DELETE_US);
        kept_recount(replicas, kept, kept->wanted);
        kept_look_at(replicas, kept, now_us);
    }
}

void replicas_made(struct replicas *replicas, uint32_t from, const struct directory_key *key,
                   const struct birth *birth, nigh_status status, uint64_t now_us)
{
    struct kept *kept = kept_find(replicas, key);
    struct slot *slot =
        kept == NULL || !birth_equal(&kept->object.birth, birth) ? NULL : kept_slot(kept, from);

    if (slot == NULL || slot->state != SLOT_ASKED || status == NIGH_OK || status == NIGH_PENDING ||
        status == NIGH_BUSY) {
        return;
    }
    slot->state = SLOT_FREE;
    kept->failed[from / 64] |= UINT64_C(1) << from % 64;
    kept->why = status;
    replicas->stats.failures++;
    kept_recount(replicas, kept, kept->wanted);
    kept_look_at(replicas, kept, now_us);
}

/* ---- members come and go -------------------------------------------------- */

/* Who keeps account of no key any more, and since when. */
static void note_who_is_out(struct replicas *replicas, uint64_t now_us)
{
    const struct replicas_shell *shell = &replicas->config.shell;

    for (uint32_t rank = 0; rank < replicas->config.members->count; rank++) {
        bool is_out = shell->is_out(shell->context, rank);

        if (is_out && !replicas->was_out[rank]) {
            replicas->out_us[rank] = now_us;
        }
        replicas->was_out[rank] = is_out;
    }
}

/* Whether a member that would be the keeper went so lately that its holders may not have told this
 * one. Nobody's coming and going keeps that up but for keys of which it is the keeper itself. */
static bool is_new(const struct replicas *replicas, uint64_t key_hash, uint64_t now_us)
{
    const struct members *members = replicas->config.members;
    uint64_t own = members_weight(members, members->self, key_hash);

    for (uint32_t rank = 0; rank < members->count; rank++) {
        if (replicas->was_out[rank] &&
            now_us < clock_deadline_us(replicas->out_us[rank], REPLICAS_NEW_US) &&
            members_weight(members, rank, key_hash) >= own) {
            return true;
        }
    }
    return false;
}

/* All keys are looked at, from the first. */
static void sweep(struct replicas *replicas)
{
    if (replicas->sweep_at == NO_SWEEP) {
        replicas->sweep_at = 0;
    }
    replicas->sweep_again = replicas->sweep_at > 0;
}

void replicas_member_up(struct replicas *replicas, uint32_t rank, uint64_t shards)
{
    for (uint32_t shard = 0; shard < LIMIT_SHARDS; shard++) {
        replicas->ages[rank][shard].now += (uint32_t)(shards >> shard & 1);
    }
    replicas->told_all[rank] &= ~shards;
    sweep(replicas); /* it may be asked now */
}

void replicas_told_all(struct replicas *replicas, uint32_t rank, uint64_t shards)
{
    replicas->told_all[rank] |= shards;
    sweep(replicas);
}

void replicas_member_dead(struct replicas *replicas, uint32_t rank, uint64_t now_us)
{
    note_who_is_out(replicas, now_us);
    for (uint32_t shard = 0; shard < LIMIT_SHARDS; shard++) {
        struct age *age = &replicas->ages[rank][shard];

        age->died = ++age->now;
    }
    replicas->told_all[rank] = 0;
    sweep(replicas);
}

void replicas_moved(struct replicas *replicas, uint64_t now_us)
{
    note_who_is_out(replicas, now_us);
    sweep(replicas);
}

/* Whether this node keeps account of it still: a home that came back does from then on. */
static bool is_keeper(const struct replicas *replicas, const struct kept *kept)
{
    return replicas_keeper(replicas->config.members, kept->key_hash, replicas->config.shell.is_out,
                           replicas->config.shell.context) == replicas->config.members->self;
}

static bool go_on_sweeping(struct replicas *replicas, uint64_t now_us)
{
    uint32_t end;

    if (replicas->sweep_at == NO_SWEEP) {
        return false;
    }
    end = min_u32(replicas->sweep_at + SWEEP, replicas->used);
    for (; replicas->sweep_at < end; replicas->sweep_at++) {
        struct kept *kept = &replicas->kept[replicas->sweep_at];

        if (!kept->used) {
            continue;
        }
        if (!is_keeper(replicas, kept)) {
            kept_drop(replicas, kept);
            continue;
        }
        clean(replicas, kept, now_us);
        if (kept_count_held(kept) != kept->wanted || kept_count_state(kept, SLOT_ASKED) > 0) {
            kept->pauses = 0;
            kept_recount(replicas, kept, kept->wanted);
            kept_look_at(replicas, kept, now_us);
        }
    }
    if (replicas->sweep_at >= replicas->used) {
        replicas->sweep_at = replicas->sweep_again ? 0 : NO_SWEEP;
        replicas->sweep_again = false;
    }
    return true;
}

/* ---- questions, turns ----------------------------------------------------- */

nigh_status replicas_locate(struct replicas *replicas, uint32_t asker,
                            const struct directory_key *key, uint64_t now_us,
                            struct directory_answer *answer)
{
    struct kept *kept = kept_find(replicas, key);
    struct directory_answer found = {.state = DIRECTORY_KNOWN};

    /* Beginning behind the asker's own place, so that askers spread. */
    for (uint32_t n = 0;
         kept != NULL && n < REPLICAS_SLOTS && found.holder_count < DIRECTORY_HOLDERS; n++) {
        const struct slot *slot = &kept->slots[(n + asker) % REPLICAS_SLOTS];

        if (slot->rank != asker && kept_stands(replicas, kept, slot)) {
            found.holders[found.holder_count++] = slot->rank;
        }
    }
    if (found.holder_count == 0) {
        return is_new(replicas, directory_key_hash(key), now_us) ? NIGH_BUSY : NIGH_NOT_FOUND;
    }
    found.object = kept->object;
    *answer = found;
    return NIGH_OK;
}

bool replicas_turn(struct replicas *replicas, uint64_t now_us)
{
    bool worked = go_on_sweeping(replicas, now_us);

    for (uint32_t n = 0; n < TURN; n++) {
        struct timer *timer = timers_pop_expired(&replicas->timers, now_us);

        if (timer == NULL) {
            break;
        }
        judge(replicas, container_of(timer, struct kept, timer), now_us);
        worked = true;
    }
    return worked;
}

uint64_t replicas_due_us(const struct replicas *replicas)
{
    return replicas->sweep_at != NO_SWEEP ? 0 : timers_first_deadline(&replicas->timers);
}

/* ---- create, destroy ------------------------------------------------------ */

nigh_status replicas_create(const struct replicas_config *config, struct replicas **out)
{
    struct replicas *replicas = calloc(1, sizeof(*replicas));
    struct random random;

    if (replicas == NULL) {
        return NIGH_NO_RESOURCES;
    }
    replicas->config = *config;
    replicas->sweep_at = NO_SWEEP;
    replicas->kept = calloc(config->max_keys, sizeof(*replicas->kept));
    replicas->buckets = calloc(REPLICAS_KEY_BUCKETS, sizeof(*replicas->buckets));
    replicas->timer_storage = calloc(config->max_keys, sizeof(*replicas->timer_storage));
    replicas->ages = calloc(config->members->count, sizeof(*replicas->ages));
    if (replicas->kept == NULL || replicas->buckets == NULL || replicas->timer_storage == NULL ||
        replicas->ages == NULL) {
        replicas_destroy(replicas);
        return NIGH_NO_RESOURCES;
    }
    list_init(&replicas->free);
    for (uint32_t n = 0; n < REPLICAS_KEY_BUCKETS; n++) {
        list_init(&replicas->buckets[n]);
    }
    timers_init(&replicas->timers, replicas->timer_storage, config->max_keys);
    share_init(&replicas->shares, config->max_keys, config->members->count);
    random_init(&random, config->seed);
    for (uint32_t n = 0; n < 4; n++) {
        replicas->secret[n] = random_u64(&random);
    }
    note_who_is_out(replicas, 0); /* those have kept account of nothing */
    *out = replicas;
    return NIGH_OK;
}

void replicas_destroy(struct replicas *replicas)
{
    if (replicas == NULL) {
        return;
    }
    free(replicas->kept);
    free(replicas->buckets);
    free(replicas->timer_storage);
    free(replicas->ages);
    free(replicas);
}

void replicas_stats(const struct replicas *replicas, struct replicas_stats *stats)
{
    *stats = replicas->stats;
}

bool replicas_is_valid(const struct replicas *replicas)
{
    struct replicas_stats sum = {0};

    for (uint32_t n = 0; n < replicas->used; n++) {
        const struct kept *kept = &replicas->kept[n];

        if (!kept->used) {
            continue;
        }
        sum.keys++;
        sum.wanted += kept->wanted;
        sum.missing += kept_lacking(kept->wanted, kept->told_held);
        sum.asked += kept->told_asked;
        if (kept_find(replicas, &kept->key) != kept || kept->wanted < 1 ||
            kept->wanted > LIMIT_REPLICAS) {
            return false;
        }
    }
    return sum.keys == replicas->stats.keys && sum.wanted == replicas->stats.wanted &&
           sum.missing == replicas->stats.missing && sum.asked == replicas->stats.asked &&
           sum.asked <= LIMIT_REPLICA_ASKED && share_is_valid(&replicas->shares) &&
           timers_is_valid(&replicas->timers);
}
