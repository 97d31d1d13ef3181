/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See agree_internal.h. Whom a leader has vote: one of one or two members, three of three or four,
 * five of five or more; others in place of those that are lost, or leave.
 *
 * One member is added to those that take part in Raft, or taken out, and the next when that is
 * decided: libraft has no other way, and begins none while one is under way. Before anybody votes
 * it has the log (it is a standby, to libraft), so that nothing waits for it. Who is lost is taken
 * out before another comes: what is left needs no more that live than there were. Between two odd
 * numbers of voters as many have to live as of the higher one: that is passed as fast as can be,
 * and back, where one of two falls silent.
 *
 * Those that vote after a change decide it. So it is begun when they have written what was sent to
 * them since it was asked for, and taken back when they fall silent all the same.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "cluster/agree_internal.h"

#define LOG_MODULE "views"
#include "base/log.h"

#define VOTERS_NEXT     2u /* that are made ready at once */
#define VOTERS_LOOK_US  UINT64_C(50000)
#define VOTERS_SHAKY_US UINT64_C(600000) /* two heartbeats, and less than an election */

enum step {
    STEP_NONE,
    STEP_ADD,
    STEP_STANDBY,
    STEP_VOTE,
    STEP_REMOVE
};

/* What there is to go by. */
struct plan {
    uint32_t voters;
    uint32_t live;   /* of them, that answered lately */
    uint32_t gone;   /* of them, that are lost, or leave */
    uint32_t goes;   /* the first of these to be taken out; AGREE_NOBODY: none */
    bool goes_lost;  /* it is lost */
    uint32_t wanted; /* so many others are to vote */
    uint32_t next[VOTERS_NEXT];
    uint32_t count; /* of next */
    uint32_t first; /* of next, one that can vote now; AGREE_NOBODY: none */
    uint32_t ready; /* how many can */
};

static uint64_t replace_us(const struct agree *agree)
{
    return AGREE_REPLACE_DEADS * agree->config.dead_us;
}

/* Since when a voter has not answered, as far as a leader can tell: what was before it led it does
 * not know, and what came while it stood still it is about to hear. */
static uint64_t heard_us(const struct agree *agree, uint32_t rank)
{
    return max_u64(agree->members[rank].acked_us, max_u64(agree->leads_us, agree->awake_us));
}

static bool is_silent(const struct agree *agree, uint32_t rank, uint64_t us)
{
    return rank != agree->config.self && agree->now_us - heard_us(agree, rank) >= us;
}

/* Its link stands, it has what it kept, and can keep what it says. */
static bool can_answer(const struct agree *agree, uint32_t rank)
{
    const struct agree_member *member = &agree->members[rank];

    return rank == agree->config.self ||
           (member->dead_us == 0 && !member->is_bare && !member->is_mute);
}

/* And it has answered lately, whoever stood still meanwhile. */
static bool is_live(const struct agree *agree, uint32_t rank)
{
    uint64_t acked_us = agree->members[rank].acked_us;

    return rank == agree->config.self ||
           (can_answer(agree, rank) && acked_us != 0 && agree->now_us - acked_us < AGREE_LEASE_US);
}

static bool leaves(const struct agree *agree, uint32_t rank)
{
    return rank == agree->config.self ? agree->leaves : agree->members[rank].leaves;
}

/* A leader that is new knows nobody yet. */
static bool knows_members(const struct agree *agree)
{
    return agree->now_us - agree->leads_us >= AGREE_GRACE_US;
}

/* Whether a member that does not vote could. */
static bool could_vote(const struct agree *agree, uint32_t rank)
{
    return !agree_is_voter(&agree->own, rank) && agree_is_member(agree, rank) &&
           agreed_has(&agree->applied.in, rank) && agree_has_settled(agree, rank) &&
           !leaves(agree, rank) && !agree->members[rank].is_mute && !agree->members[rank].is_gone &&
           agree->now_us >= agree->members[rank].spurned_us;
}

static bool is_ready(struct agree *agree, uint32_t rank)
{
    return agree_conf_role(&agree->own, rank) == RAFT_STANDBY && is_live(agree, rank) &&
           agree->members[rank].stored + AGREE_TRAILING >= raft_last_index(&agree->raft);
}

/* ---- the plan ------------------------------------------------------------- */

/* Of those that go the lost come before those that leave, and this one last. */
static void note_voter(const struct agree *agree, uint32_t rank, uint64_t lost_us,
                       struct plan *plan)
{
    bool is_lost = is_silent(agree, rank, lost_us);

    plan->live += is_live(agree, rank) ? 1 : 0;
    if (!is_lost && !leaves(agree, rank)) {
        return;
    }
    plan->gone++;
    if (plan->goes == AGREE_NOBODY || plan->goes == agree->config.self ||
        (is_lost && !plan->goes_lost)) {
        plan->goes = rank;
        plan->goes_lost = is_lost;
    }
}

/* Of two voters both decide, so one that falls silent is let go while it can be. */
static void look_at_voters(const struct agree *agree, struct plan *plan)
{
    plan->voters = agree_conf_voters(&agree->own);
    for (uint32_t n = 0; n < agree->own.count; n++) {
        if (agree->own.servers[n].role == RAFT_VOTER) {
            note_voter(agree, agree->own.servers[n].rank,
                       plan->voters == 2 ? VOTERS_SHAKY_US : replace_us(agree), plan);
        }
    }
}

static uint32_t how_many(const struct agree *agree, const struct plan *plan)
{
    uint32_t could = 0;

    for (uint32_t rank = 0; rank < agree_ranks(agree); rank++) {
        could += could_vote(agree, rank) ? 1 : 0;
    }
    if (plan->voters % 2 == 0) {
        return 1;
    }
    if (plan->gone > 0) {
        return (uint32_t)min_u64(plan->gone, VOTERS_NEXT);
    }
    return plan->voters < AGREE_VOTERS && could >= 2 ? 2 : 0;
}

static void choose(struct agree *agree, bool take_part, struct plan *plan)
{
    for (uint32_t rank = 0; rank < agree_ranks(agree) && plan->count < plan->wanted; rank++) {
        bool does = agree_conf_role(&agree->own, rank) != AGREE_NO_ROLE;

        if (does != take_part || !could_vote(agree, rank)) {
            continue;
        }
        plan->next[plan->count++] = rank;
        if (is_ready(agree, rank)) {
            plan->ready++;
            plan->first = plan->first == AGREE_NOBODY ? rank : plan->first;
        }
    }
}

static struct plan make_plan(struct agree *agree)
{
    struct plan plan = {.goes = AGREE_NOBODY, .first = AGREE_NOBODY};

    look_at_voters(agree, &plan);
    plan.wanted = how_many(agree, &plan);
    choose(agree, true, &plan); /* first those that were chosen before */
    choose(agree, false, &plan);
    return plan;
}

/* ---- what follows from it ------------------------------------------------- */

/* Who takes part, does not vote, and is not to. */
static uint32_t useless(const struct agree *agree, const struct plan *plan)
{
    for (uint32_t n = 0; n < agree->own.count && knows_members(agree); n++) {
        uint32_t rank = agree->own.servers[n].rank;
        bool is_next = agree->own.servers[n].role == RAFT_VOTER;

        for (uint32_t m = 0; m < plan->count; m++) {
            is_next = is_next || plan->next[m] == rank;
        }
        if (!is_next) {
            return rank;
        }
    }
    return AGREE_NOBODY;
}

/* A voter that is one too many: nobody comes that would make their number odd. */
static uint32_t spare(const struct agree *agree, const struct plan *plan)
{
    uint32_t spare = AGREE_NOBODY;

    for (uint32_t n = 0; n < agree->own.count; n++) {
        uint32_t rank = agree->own.servers[n].rank;

        if (agree_is_voter(&agree->own, rank) && rank != agree->config.self &&
            (spare == AGREE_NOBODY || rank > spare)) {
            spare = rank;
        }
    }
    return plan->count == 0 && knows_members(agree) ? spare : AGREE_NOBODY;
}

/* Who is ready votes: two of them where they are more; one where one has gone, or is to go that
 * lives and has the time. */
static bool may_vote(const struct plan *plan)
{
    if (plan->ready == 0) {
        return false;
    }
    if (plan->voters % 2 == 0 || plan->gone == 0) {
        return plan->gone == 0 && plan->ready >= plan->wanted;
    }
    return !plan->goes_lost && plan->voters < AGREE_VOTERS &&
           (plan->voters == 1 || plan->live > (plan->voters + 1) / 2);
}

/* Whether those that live decide without it. */
static bool can_go(const struct agree *agree, const struct plan *plan, uint32_t rank)
{
    uint32_t live = plan->live - (is_live(agree, rank) ? 1 : 0);

    return plan->voters > 1 && live > (plan->voters - 1) / 2;
}

/* With nobody to come in its place who leaves goes all the same, and who is lost where there is
 * another that goes: their number stays odd. */
static uint32_t to_remove(const struct agree *agree, const struct plan *plan)
{
    uint32_t rank = plan->goes;

    if (plan->voters % 2 == 0) {
        rank = rank == AGREE_NOBODY ? spare(agree, plan) : rank;
    } else if (plan->count > 0 ? plan->ready == 0 : plan->goes_lost && plan->gone < 2) {
        return AGREE_NOBODY;
    }
    return rank != AGREE_NOBODY && can_go(agree, plan, rank) ? rank : AGREE_NOBODY;
}

/* Who is to vote is added, and then gets the log; who does not take it is passed by for a while. */
static enum step prepare(struct agree *agree, const struct plan *plan, uint32_t *rank)
{
    for (uint32_t n = 0; n < plan->count; n++) {
        struct agree_member *member = &agree->members[plan->next[n]];
        uint32_t role = agree_conf_role(&agree->own, plan->next[n]);

        *rank = plan->next[n];
        if (role == AGREE_NO_ROLE && !member->is_bare) { /* who kept nothing is told first */
            return agree->own.count < AGREE_SERVERS ? STEP_ADD : STEP_NONE;
        }
        if (role == RAFT_SPARE) {
            return STEP_STANDBY;
        }
        member->added_us = member->added_us == 0 ? agree->now_us : member->added_us;
        if (agree->now_us - member->added_us >= replace_us(agree)) {
            member->added_us = 0;
            member->spurned_us = agree->now_us + replace_us(agree);
        }
    }
    return STEP_NONE;
}

/* Who takes part, and is said to be gone for good, or comes without what it kept: it must not vote
 * again before it has the log. */
static uint32_t goner(const struct agree *agree, const struct plan *plan)
{
    for (uint32_t n = 0; n < agree->own.count; n++) {
        uint32_t rank = agree->own.servers[n].rank;

        if (agree->members[rank].is_gone &&
            (!agree_is_voter(&agree->own, rank) || can_go(agree, plan, rank))) {
            return rank;
        }
    }
    return AGREE_NOBODY;
}

static enum step next_step(struct agree *agree, const struct plan *plan, uint32_t *rank)
{
    *rank = goner(agree, plan);
    if (*rank == AGREE_NOBODY) {
        *rank = useless(agree, plan);
    }
    if (*rank != AGREE_NOBODY) {
        return STEP_REMOVE;
    }
    if (may_vote(plan)) {
        *rank = plan->first;
        return STEP_VOTE;
    }
    *rank = to_remove(agree, plan);
    return *rank != AGREE_NOBODY ? STEP_REMOVE : prepare(agree, plan, rank);
}

/* ---- who is to decide it --------------------------------------------------- */

static void on_shown(struct raft_barrier *entry, int status)
{
    (void)status; /* who has written it counts, decided or not */
    free(entry);
}

/* Has all write an entry that nobody needs: heartbeats are answered by a full disk, too. */
static void have_shown(struct agree *agree, uint32_t who)
{
    struct raft_barrier *entry = calloc(1, sizeof(*entry));

    if (entry == NULL || raft_barrier(&agree->raft, entry, on_shown) != 0) {
        free(entry);
        return;
    }
    agree->shown_index = raft_last_index(&agree->raft);
    agree->shown_us = agree->now_us;
    agree->shown_for = who;
}

static bool has_shown(const struct agree *agree, uint32_t rank)
{
    return rank == agree->config.self ||
           (is_live(agree, rank) && agree->members[rank].stored >= agree->shown_index);
}

/* Whether it votes once the step is done. */
static bool votes_then(const struct agree *agree, enum step step, uint32_t of, uint32_t rank)
{
    return rank == of ? step == STEP_VOTE : agree_is_voter(&agree->own, rank);
}

/* Whether those that vote then are to decide it: so many of them have shown that they write, since
 * it was asked for. Who decides alone has nobody to hear from. Who comes does not count beside
 * those that vote already: to libraft it gives nobody its vote before it has heard that it has one,
 * so where who leads is lost those others must be enough to elect one of them that has. */
static bool is_theirs(struct agree *agree, const struct plan *plan, enum step step, uint32_t of)
{
    uint32_t who = step == STEP_VOTE ? plan->goes : of, voters = 0, shown = 0;

    for (uint32_t n = 0; n < agree->own.count; n++) {
        uint32_t rank = agree->own.servers[n].rank;

        if (votes_then(agree, step, of, rank)) {
            voters++;
            shown += has_shown(agree, rank) && (rank != of || plan->voters == 1) ? 1 : 0;
        }
    }
    if (voters == 1 && votes_then(agree, step, of, agree->config.self)) {
        return true;
    }
    if (agree->shown_index == 0 || agree->now_us - agree->shown_us >= AGREE_LEASE_US ||
        (who != AGREE_NOBODY && who != agree->shown_for)) {
        have_shown(agree, who);
        return false;
    }
    return 2 * shown > voters;
}

static bool is_to_begin(struct agree *agree, const struct plan *plan, enum step step, uint32_t rank)
{
    if (step == STEP_NONE || agree->log.count >= AGREE_ENTRIES / 2) {
        return false;
    }
    return step == STEP_ADD || step == STEP_STANDBY ||
           (step == STEP_REMOVE && !agree_is_voter(&agree->own, rank)) ||
           is_theirs(agree, plan, step, rank);
}

/* ---- carried out ---------------------------------------------------------- */

static void on_change(struct raft_change *request, int status)
{
    struct agree *agree = request->data;

    (void)status; /* what came of it is in effect */
    agree->change_pending = false;
}

static int begin(struct agree *agree, enum step step, uint32_t rank)
{
    raft_id id = agree_id(rank);

    switch (step) {
    case STEP_ADD: return raft_add(&agree->raft, &agree->change, id, agree->names[rank], on_change);
    case STEP_STANDBY:
        return raft_assign(&agree->raft, &agree->change, id, RAFT_STANDBY, on_change);
    case STEP_VOTE: return raft_assign(&agree->raft, &agree->change, id, RAFT_VOTER, on_change);
    default: return raft_remove(&agree->raft, &agree->change, id, on_change);
    }
}

/* libraft 0.15 that cannot write, or lacks memory, for one member more or less has freed what it
 * goes on with, and forgets that it must not end the request: it is left alone from then on. */
static void carry_out(struct agree *agree, enum step step, uint32_t rank)
{
    static const char *const words[] = {"", "is to vote", "gets the log", "votes now",
                                        "takes no part any more"};
    const struct raft_server *before = agree->raft.configuration.servers;
    int error;

    agree->change.data = agree;
    agree->change_pending = true;
    error = begin(agree, step, rank);
    if (error == 0) {
        LOG_INFO("who votes is changed", "rank=%u %s voters=%u", rank, words[step],
                 agree_conf_voters(&agree->own));
        return;
    }
    agree->change_pending = false;
    if (agree->raft.configuration.servers != before) {
        raft_configuration_init(&agree->raft.configuration);
        agree->failed = true;
        LOG_ERROR(
            "this node votes on views no more: libraft has given up on a change of who votes",
            "error=%d do=\"start the node again; if the machine lacked memory, free some first\"",
            error);
    }
}

/* Whether so many of those that vote answer that they decide. Of two both have to, before libraft
 * does not lead any more. */
static bool is_answered(const struct agree *agree)
{
    uint32_t voters = 0, heard = 0;

    for (uint32_t n = 0; n < agree->own.count; n++) {
        uint32_t rank = agree->own.servers[n].rank;

        if (agree->own.servers[n].role == RAFT_VOTER) {
            voters++;
            heard += can_answer(agree, rank) && !is_silent(agree, rank, VOTERS_SHAKY_US) ? 1 : 0;
        }
    }
    return 2 * heard > voters;
}

/* What decides a change are those that vote then, and they may be fewer that live than it takes,
 * where those that voted before are enough. Who has begun it is the only one that can have counted
 * those who have it, until another leads in a later term; and it has not, or it would have kept
 * that (agree_raft_settle). So it may do as if it had died before it wrote that entry. */
bool agree_take_back(struct agree *agree)
{
    if (agree->log.begun == 0 || !agree->running || agree->failed ||
        (raft_state(&agree->raft) == RAFT_LEADER && is_answered(agree))) {
        return false;
    }
    agree_raft_drop(agree);
    return true;
}

uint64_t agree_change_voters(struct agree *agree)
{
    uint64_t due_us = UINT64_MAX;
    struct plan plan;
    enum step step;
    uint32_t rank;

    if (agree->change_pending || agree->raft.configuration_uncommitted_index != 0) {
        return due_us; /* its end is heard of */
    }
    plan = make_plan(agree);
    step = next_step(agree, &plan, &rank);
    if (is_to_begin(agree, &plan, step, rank)) {
        carry_out(agree, step, rank);
    }
    if (step != STEP_NONE || plan.count > 0 || plan.voters % 2 == 0) {
        return agree->now_us + VOTERS_LOOK_US;
    }
    for (uint32_t n = 0; n < agree->own.count; n++) {
        uint64_t lost_us = heard_us(agree, agree->own.servers[n].rank) + replace_us(agree);

        if (lost_us > agree->now_us) {
            due_us = min_u64(due_us, lost_us);
        }
    }
    return due_us;
}
