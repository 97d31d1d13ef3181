/* SPDX-License-Identifier: Apache-2.0 */
/* See swim.h. What is known of each member, how a suspicion ends, and how ours is refuted. */
#include "cluster/swim_internal.h"

/* Logarithms by which a suspicion shrinks: log(c + 1) / log(k + 1) in thousandths, by k and c
 * (Lifeguard, section IV-B). */
static const uint16_t shrinks[SWIM_CONFIRMATIONS + 1][SWIM_CONFIRMATIONS + 1] = {
    {1000, 1000, 1000, 1000}, {0, 1000, 1000, 1000}, {0, 631, 1000, 1000}, {0, 500, 792, 1000}};

uint64_t swim_suspicion_us(const struct swim *swim, uint32_t confirmations)
{
    /* Who could confirm: all but the suspect and its first accuser. */
    uint32_t others = swim->live > 2 ? swim->live - 2 : 0;
    uint32_t k = min_u32(SWIM_CONFIRMATIONS, others);
    uint64_t min_us = swim->suspicion_min_us;
    uint64_t range_us = min_us * (SWIM_SUSPICION_MAX - 1);

    return min_us + range_us - range_us / 1000 * shrinks[k][min_u32(confirmations, k)];
}

void swim_feel(struct swim *swim, int32_t by)
{
    int32_t health = (int32_t)swim->health + by;

    swim->health = health < 0 ? 0 : min_u32((uint32_t)health, SWIM_HEALTH_MAX);
}

static void tell(const struct swim_update *update, struct swim_actions *actions)
{
    NIGH_ASSERT(actions->changes < LIMIT_SWIM_CHANGES);
    actions->changed[actions->changes++] = *update;
}

static bool is_live(uint8_t state)
{
    return state == SWIM_ALIVE || state == SWIM_SUSPECT;
}

static void remove_suspect(struct swim *swim, uint32_t rank)
{
    for (uint32_t n = 0; n < swim->suspect_count; n++) {
        if (swim->suspects[n] == rank) {
            swim->suspects[n] = swim->suspects[--swim->suspect_count];
            return;
        }
    }
}

/* A suspicion that stands is confirmed by somebody of whom that was not known. */
static void confirm(struct swim *swim, const struct swim_update *update)
{
    struct swim_member *member = &swim->members[update->rank];

    if (member->accusations == ARRAY_LENGTH(member->accusers)) {
        return;
    }
    for (uint32_t n = 0; n < member->accusations; n++) {
        if (member->accusers[n] == update->from) {
            return;
        }
    }
    member->accusers[member->accusations++] = (uint16_t)update->from;
    swim_note(swim, update->rank);
}

/* Somebody says of us what is not so, or a life of ours that is over began later by its clock: from
 * here on we are of an incarnation that nobody has accused. */
static void refute(struct swim *swim, const struct swim_update *update,
                   struct swim_actions *actions)
{
    struct swim_member *self = &swim->members[swim->config.self];

    if (swim->left || update->incarnation < self->incarnation ||
        update->incarnation >= SWIM_INCARNATION_LAST ||
        (update->incarnation == self->incarnation && update->state == SWIM_ALIVE)) {
        return;
    }
    self->incarnation = update->incarnation + 1;
    swim_note(swim, swim->config.self);
    if (update->state != SWIM_ALIVE) {
        swim->counters.refuted++;
        actions->refuted = true;
        swim_feel(swim, 1);
    }
}

/* What counts from now on. */
static void take(struct swim *swim, const struct swim_update *update, uint64_t now_us,
                 struct swim_actions *actions)
{
    struct swim_member *member = &swim->members[update->rank];
    uint8_t before = member->state;
    bool is_news = member->incarnation != 0 || update->state != SWIM_ALIVE ||
                   (uint32_t)update->incarnation != 0 || before != SWIM_ALIVE;

    if (before == SWIM_SUSPECT) {
        remove_suspect(swim, update->rank);
    }
    swim->live += (uint32_t)is_live((uint8_t)update->state) - (uint32_t)is_live(before);
    swim->dead += (uint32_t)(update->state == SWIM_DEAD) - (uint32_t)(before == SWIM_DEAD);
    member->incarnation = update->incarnation;
    member->state = (uint8_t)update->state;
    if (update->state == SWIM_SUSPECT) {
        member->since_us = now_us;
        member->accusers[0] = (uint16_t)update->from;
        member->accusations = 1;
        member->asked = update->from == swim->config.self;
        swim->suspects[swim->suspect_count++] = (uint16_t)update->rank;
        swim->counters.suspected++;
    } else if (update->state == SWIM_DEAD) {
        member->teller = (uint16_t)update->from;
        swim->counters.deaths++;
    }
    member->reached |= before != update->state; /* by whoever found out */
    /* That a member is there all find out by themselves: at a start that would be news of everybody
     * for everybody. But one that joins nobody asks. What refutes a suspicion is passed on also by
     * who did not know of that. */
    if (is_news) {
        swim_note(swim, update->rank);
    }
    if (before != update->state) {
        tell(update, actions);
    }
}

void swim_hear(struct swim *swim, const struct swim_update *update, uint64_t now_us,
               struct swim_actions *actions)
{
    const struct swim_member *member = &swim->members[update->rank];

    if (update->rank == swim->config.self) {
        refute(swim, update, actions);
        return;
    }
    if (update->incarnation > member->incarnation ||
        (update->incarnation == member->incarnation && (uint8_t)update->state > member->state)) {
        take(swim, update, now_us, actions);
    } else if (update->state == SWIM_SUSPECT && member->state == SWIM_SUSPECT &&
               update->incarnation == member->incarnation) {
        confirm(swim, update);
    }
}

void swim_accuse(struct swim *swim, uint32_t rank, uint64_t now_us, struct swim_actions *actions)
{
    struct swim_update update = {
        .incarnation = swim->members[rank].incarnation,
        .rank = rank,
        .from = swim->config.self,
        .state = SWIM_SUSPECT,
    };

    swim_hear(swim, &update, now_us, actions);
}

/* Who knows that it is slow waits longer: what refutes the suspicion may be here, unread. */
static uint64_t suspicion_end_us(const struct swim *swim, uint32_t rank)
{
    const struct swim_member *member = &swim->members[rank];

    return member->since_us +
           swim_suspicion_us(swim, member->accusations - 1u) * (1 + swim->health);
}

uint64_t swim_judge_us(const struct swim *swim, uint64_t now_us)
{
    uint64_t due_us = UINT64_MAX;

    for (uint32_t n = 0; n < swim->suspect_count; n++) {
        due_us = min_u64(due_us, suspicion_end_us(swim, swim->suspects[n]));
    }
    return max_u64(due_us, now_us);
}

void swim_judge(struct swim *swim, uint64_t now_us, struct swim_actions *actions)
{
    for (uint32_t n = 0; n < swim->suspect_count;) {
        uint32_t rank = swim->suspects[n];
        struct swim_update update = {
            .incarnation = swim->members[rank].incarnation,
            .rank = rank,
            .from = swim->config.self,
            .state = SWIM_DEAD,
        };

        if (now_us < suspicion_end_us(swim, rank)) {
            n++;
        } else if (actions->changes < LIMIT_SWIM_CHANGES) {
            swim_hear(swim, &update, now_us, actions); /* the last suspect has its place now */
        } else {
            return;
        }
    }
}
