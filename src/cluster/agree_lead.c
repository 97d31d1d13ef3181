/* SPDX-License-Identifier: Apache-2.0 */
/* See agree_internal.h. What a leader proposes: whom it does not hear goes out, who asks comes in,
 * and a view is active when nobody can serve as of an earlier one. */
#include "base/clock.h"
#include "cluster/agree_internal.h"

#define LOG_MODULE "views"
#include "base/log.h"

/* How soon it looks again at what may end without a message. */
#define LEAD_LOOK_US UINT64_C(50000)
#define LEAD_LATE_US (AGREE_RENEW_US / 2)

/* What a member said before it said goodbye may come behind that. Who begins anew has no lease. */
static bool is_late(const struct agree *agree, const struct agree_member *member,
                    const struct agree_head *head)
{
    return member->dead_us != 0 && agree->now_us - member->dead_us < LEAD_LATE_US &&
           (head->flags & AGREE_FLAG_FIRST) == 0;
}

/* Who kept nothing must not vote again before it has the log, as one that never had it: it is taken
 * out, once it could vote in its own place. */
static void note_bare(struct agree *agree, uint32_t rank, bool is_bare)
{
    struct agree_member *member = &agree->members[rank];

    if (is_bare && !member->is_bare) {
        member->added_us = member->stored = 0; /* what it was told is gone */
    }
    member->is_bare = is_bare;
    if (is_bare && agree_conf_role(&agree->own, rank) != AGREE_NO_ROLE) {
        member->is_gone = agree_has_settled(agree, rank) && agreed_has(&agree->applied.in, rank);
    }
}

void agree_lead_heard(struct agree *agree, uint32_t rank, const struct agree_head *head)
{
    struct agree_member *member = &agree->members[rank];

    if (is_late(agree, member, head)) {
        return;
    }
    if (member->heard_us == 0 || member->dead_us != 0 ||
        agree->now_us - member->heard_us >= AGREE_LEASE_US) {
        member->since_us = agree->now_us;
    }
    member->heard_us = agree->now_us;
    member->dead_us = 0;
    member->is_gone = false; /* who wanted it struck off is refused; it may vote again */
    note_bare(agree, rank, (head->flags & AGREE_FLAG_BARE) != 0);
    member->leaves = (head->flags & AGREE_FLAG_LEAVES) != 0;
    member->is_mute = (head->flags & AGREE_FLAG_MUTE) != 0;
    member->adopted = head->numbers[1]; /* a new life begins below what the last one had */
    if (head->numbers[3] == agree->own_token && head->numbers[2] <= agree->now_us) {
        member->contact_us = max_u64(member->contact_us, head->numbers[2]);
    }
}

uint64_t agree_leads_until_us(const struct agree *agree)
{
    uint64_t contacts[AGREE_SERVERS];
    uint32_t voters = 0;

    if (!agree->leads || !agree->ready) {
        return 0;
    }
    for (uint32_t n = 0; n < agree->own.count; n++) { /* latest first */
        uint32_t rank = agree->own.servers[n].rank, place = voters;
        uint64_t contact_us =
            rank == agree->config.self ? UINT64_MAX / 2 : agree->members[rank].contact_us;

        if (agree->own.servers[n].role != RAFT_VOTER) {
            continue;
        }
        for (voters++; place > 0 && contacts[place - 1] < contact_us; place--) {
            contacts[place] = contacts[place - 1];
        }
        contacts[place] = contact_us;
    }
    return voters == 0 || contacts[voters / 2] == 0 ? 0 : contacts[voters / 2] + AGREE_LEADS_US;
}

static bool is_alive(const struct agree *agree, uint32_t rank)
{
    const struct agree_member *member = &agree->members[rank];
    uint64_t heard_us = max_u64(member->heard_us, agree->leads_us);

    return rank == agree->config.self ||
           (member->dead_us == 0 && agree->now_us - heard_us < agree->config.dead_us);
}

bool agree_asks(const struct agree *agree, uint32_t rank)
{
    const struct agree_member *member = &agree->members[rank];

    return rank == agree->config.self || (member->heard_us != 0 && member->dead_us == 0 &&
                                          agree->now_us - member->heard_us < AGREE_LEASE_US);
}

bool agree_has_settled(const struct agree *agree, uint32_t rank)
{
    return rank == agree->config.self ||
           (agree_asks(agree, rank) &&
            agree->now_us - agree->members[rank].since_us >= AGREE_SETTLE_US);
}

/* Who should be in. *due_us: when that may change by itself. */
static struct agreed_set wanted(const struct agree *agree, uint64_t *due_us)
{
    struct agreed_set set = {{0}};

    for (uint32_t rank = 0; rank < agree_ranks(agree); rank++) {
        const struct agree_member *member = &agree->members[rank];
        bool in = agreed_has(&agree->applied.in, rank);
        bool stays = in ? is_alive(agree, rank) : agree_has_settled(agree, rank);

        agreed_put(&set, rank, stays && agree_is_member(agree, rank));
        if (in && stays && rank != agree->config.self) {
            *due_us = min_u64(*due_us,
                              max_u64(member->heard_us, agree->leads_us) + agree->config.dead_us);
        } else if (!in && !stays && agree_asks(agree, rank)) {
            *due_us = min_u64(*due_us, member->since_us + AGREE_SETTLE_US);
        }
    }
    return set;
}

/* Whether a member cannot serve as of an epoch before the present one any more. */
static bool has_left(const struct agree *agree, uint32_t rank)
{
    uint64_t adopted = rank == agree->config.self ? agree->adopted : agree->members[rank].adopted;

    return adopted >= agree->applied.epoch || (!agreed_has(&agree->applied.in, rank) &&
                                               agree->now_us - agree->epoch_us >= AGREE_GRACE_US);
}

static bool all_have_left(const struct agree *agree)
{
    for (uint32_t rank = 0; rank < agree->config.count; rank++) {
        if (agreed_has(&agree->applied.wary, rank) && !has_left(agree, rank)) {
            return false;
        }
    }
    return true;
}

uint64_t agree_lead(struct agree *agree)
{
    struct agreed_command command = {.epoch = agree->applied.epoch};
    uint64_t due_us = UINT64_MAX;

    if (agree->now_us >= agree_leads_until_us(agree)) {
        return due_us;
    }
    if (agree->epoch != agree->applied.epoch) {
        agree->epoch = agree->applied.epoch;
        agree->epoch_us = agree->now_us;
    }
    command.in = wanted(agree, &due_us);
    due_us = min_u64(due_us, agree_change_voters(agree));
    if (agree_seat(agree) || agree_name(agree) || agree_strike(agree, &due_us)) {
        return agree->now_us + LEAD_LOOK_US;
    }
    if (agree->apply_pending) {
        return due_us;
    }
    if (!agreed_same(&command.in, &agree->applied.in)) {
        command.kind = AGREED_SET;
        (void)agree_raft_propose(agree, &command);
        return agree->now_us + LEAD_LOOK_US;
    }
    if (agree->applied.active == agree->applied.epoch) {
        return due_us;
    }
    if (all_have_left(agree)) {
        command.kind = AGREED_ACTIVATE;
        command.in = (struct agreed_set){{0}};
        (void)agree_raft_propose(agree, &command);
    }
    return agree->now_us + LEAD_LOOK_US;
}
