/* SPDX-License-Identifier: Apache-2.0 */
/* See barrier.h. Parties, rounds and the tree. */
#include <stdlib.h>

#include "region/barrier_internal.h"

/* ---- what is said --------------------------------------------------------- */

void barrier_send(struct region_barriers *barriers, const struct region_version *birth,
                  enum region_message_kind kind, uint32_t rank, nigh_status status,
                  const struct region_barrier_word *word)
{
    struct region_message message = {
        .kind = kind, .peer = rank, .status = status, .base = *birth, .barrier = *word};

    barriers->shell.send(barriers->shell.context, &message);
}

/* Who has not heard of any round hears the first with the home's answer. */
static bool hears_rounds(const struct barrier_child *child)
{
    return child->round != 0 || child->via == 0;
}

void barrier_say_passed(struct region_barriers *barriers, const struct region_barrier *barrier,
                        struct barrier_child *child, nigh_status status)
{
    struct region_barrier_word word = {.number = barrier->number,
                                       .round = hears_rounds(child) ? barrier->round : 0,
                                       .ask = child->ask,
                                       .is_broken = barrier->is_broken,
                                       .is_answer = child->via == 0};

    child->knows_broken = barrier->is_broken;
    barrier_send(barriers, &barrier->birth, REGION_PASSED, child->rank, status, &word);
}

/* The latest round that somebody here or below knows of. */
uint64_t barrier_latest_round(const struct region_barrier *barrier)
{
    uint64_t round = max_u64(barrier->round, barrier->heard);

    LIST_FOREACH(at, &barrier->children)
    {
        round = max_u64(round, container_of(at, struct barrier_child, link)->latest);
    }
    return round;
}

/* Who has arrived in the round here and below; *parties: how many there are to be, 0: they do not
 * agree. */
static uint32_t count_arrived(const struct region_barrier *barrier, uint32_t *parties)
{
    uint32_t count = barrier->round == 0 ? 0 : barrier->waiting;
    bool agree = count == 0 || barrier->parties != 0;

    *parties = count == 0 ? 0 : barrier->parties;
    LIST_FOREACH(at, &barrier->children)
    {
        const struct barrier_child *child = container_of(at, struct barrier_child, link);

        if (barrier->round == 0 || child->round != barrier->round || child->count == 0) {
            continue;
        }
        agree = agree && child->parties != 0 && (count == 0 || child->parties == *parties);
        *parties = child->parties;
        count += min_u32(child->count, UINT32_MAX - count);
    }
    if (!agree) {
        *parties = 0;
    }
    return count;
}

static bool is_said(const struct region_barrier *barrier, const struct region_barrier_word *word)
{
    const struct region_barrier_word *said = &barrier->said;

    return said->round == word->round && said->latest == word->latest && said->ask == word->ask &&
           said->count == word->count && said->parties == word->parties &&
           said->is_broken == word->is_broken;
}

void barrier_report(struct region_barriers *barriers, struct region_barrier *barrier)
{
    struct region_barrier_word word = {.number = barrier->number,
                                       .round = barrier->round,
                                       .latest = barrier_latest_round(barrier),
                                       .ask = barrier->asked,
                                       .is_part = true,
                                       .is_broken = barrier->is_broken};

    word.count = count_arrived(barrier, &word.parties);
    if (barriers->parent == REGION_NOBODY ||
        (barrier->told == barriers->parent && is_said(barrier, &word))) {
        return;
    }
    barrier->told = barriers->parent;
    barrier->said = word;
    barrier_send(barriers, &barrier->birth, REGION_ARRIVED, barriers->parent, NIGH_OK, &word);
}

/* ---- barriers ------------------------------------------------------------- */

struct region_barrier *barrier_find(struct region_barriers *barriers, uint64_t number)
{
    LIST_FOREACH(at, &barriers->all)
    {
        struct region_barrier *barrier = container_of(at, struct region_barrier, link);

        if (barrier->number == number) {
            return barrier;
        }
    }
    return NULL;
}

struct barrier_child *barrier_find_child(const struct region_barrier *barrier, uint32_t rank)
{
    LIST_FOREACH(at, &barrier->children)
    {
        struct barrier_child *child = container_of(at, struct barrier_child, link);

        if (child->rank == rank) {
            return child;
        }
    }
    return NULL;
}

void barrier_drop_child(struct barrier_child *child)
{
    list_remove(&child->link);
    free(child);
}

static bool knows_anything(const struct region_barrier *barrier)
{
    return barrier->is_broken || barrier_latest_round(barrier) != 0 ||
           !region_set_is_empty(&barrier->before);
}

/* Or it is to be kept for those who do. */
static bool is_of_use(const struct region_barrier *barrier)
{
    return barrier_is_in_tree(barrier) || !region_set_is_empty(&barrier->takers) ||
           (barrier->is_owed && knows_anything(barrier));
}

/* Nobody takes part here, or below: who is above hears it. */
bool barrier_drop_if_over(struct region_barriers *barriers, struct region_barrier *barrier)
{
    struct region_barrier_word word = {.number = barrier->number};

    if (barrier->is_taker && !barrier_has_parties(barrier)) {
        barrier_take_no_part(barriers, barrier);
    }
    if (!barrier_is_in_tree(barrier) && barrier->told != REGION_NOBODY &&
        barrier->told == barriers->parent) {
        barrier_send(barriers, &barrier->birth, REGION_ARRIVED, barrier->told, NIGH_OK, &word);
        barrier->told = REGION_NOBODY;
    }
    if (!barrier_is_in_tree(barrier)) {
        barrier->since = 0; /* what answers who took part is not for who comes later */
        barrier->answered = barrier->asked;
    }
    if (!barrier_is_in_tree(barrier) && !barriers->is_root) {
        barrier->heard = barrier_latest_round(barrier);
        barrier->round = 0; /* who arrives here from now on hears of it */
    }
    if (is_of_use(barrier)) {
        return false;
    }
    if (barriers->is_root) {
        *barriers->shell.rounds = max_u64(*barriers->shell.rounds, barrier_latest_round(barrier));
    }
    list_remove(&barrier->link);
    barriers->count--;
    free(barrier);
    return true;
}

/* Of those that are counted. */
static void end_waiting(struct region_barriers *barriers, struct region_barrier *barrier,
                        nigh_status status)
{
    barrier->waiting = barrier->parties = 0;
    LIST_FOREACH(at, &barrier->members)
    {
        struct region_party *party = container_of(at, struct region_party, link);

        if (party->waits) {
            party->waits = false;
            barriers->shell.passed(barriers->shell.context, party, status);
        }
    }
}

static void end_all_waiting(struct region_barriers *barriers, struct region_barrier *barrier,
                            nigh_status status)
{
    struct list_node *at;

    while ((at = list_pop_front(&barrier->newcomers)) != NULL) {
        list_push_back(&barrier->members, at);
    }
    end_waiting(barriers, barrier, status);
}

/* All of a barrier goes, here; who takes part takes part no more. */
void barrier_end(struct region_barriers *barriers, struct region_barrier *barrier,
                 nigh_status status)
{
    struct list_node *at;

    end_all_waiting(barriers, barrier, status);
    LIST_FOREACH_SAFE(node, &barrier->children)
    {
        struct barrier_child *child = container_of(node, struct barrier_child, link);

        barrier_say_passed(barriers, barrier, child, status);
        barrier_drop_child(child);
    }
    while ((at = list_pop_front(&barrier->members)) != NULL) {
        container_of(at, struct region_party, link)->barrier = NULL;
    }
    if (status == NIGH_NOT_FOUND) {
        barrier_say_gone(barriers, barrier);
    }
    barrier->takers = (struct region_set){{0}};
    barrier_forget_before(barrier);
    (void)barrier_drop_if_over(barriers, barrier);
}

nigh_status barrier_get(struct region_barriers *barriers, const struct region_version *birth,
                        uint64_t number, struct region_barrier **out)
{
    struct region_barrier *barrier = barrier_find(barriers, number);

    if (barriers->may_pass && !region_version_equal(&barriers->birth, birth)) {
        return NIGH_NOT_FOUND;
    }
    if (barrier != NULL && !region_version_equal(&barrier->birth, birth)) {
        if (region_version_compare(&barrier->birth, birth) > 0) {
            return NIGH_NOT_FOUND;
        }
        barrier_end(barriers, barrier, NIGH_NOT_FOUND); /* of a region that was */
        barrier = NULL;
    }
    if (barrier == NULL && barriers->count == LIMIT_REGION_BARRIERS) {
        return NIGH_LIMIT;
    }
    if (barrier == NULL) {
        barrier = calloc(1, sizeof(*barrier));
        if (barrier == NULL) {
            return NIGH_NO_RESOURCES;
        }
        barrier->birth = *birth;
        barrier->number = number;
        barrier->told = REGION_NOBODY;
        barrier->round = barriers->knows_all ? barrier_first_round(barriers) : 0;
        list_init(&barrier->members);
        list_init(&barrier->children);
        list_init(&barrier->newcomers);
        list_push_back(&barriers->all, &barrier->link);
        barriers->count++;
    }
    *out = barrier;
    return NIGH_OK;
}

/* ---- rounds --------------------------------------------------------------- */

/* Those below are told of the round. */
void barrier_tell_children(struct region_barriers *barriers, struct region_barrier *barrier,
                           nigh_status status)
{
    LIST_FOREACH(at, &barrier->children)
    {
        struct barrier_child *child = container_of(at, struct barrier_child, link);

        if (child->round < barrier->round && hears_rounds(child)) {
            child->count = 0;
            barrier_say_passed(barriers, barrier, child, status);
        }
    }
}

/* Which round this is, which was not known here: nobody here is counted yet. */
void barrier_adopt(struct region_barriers *barriers, struct region_barrier *barrier, uint64_t round)
{
    barrier->round = round;
    barrier_tell_children(barriers, barrier, NIGH_OK);
}

/* All before this round is over: who waits was counted, as nothing passes without those who take
 * part; but for those whose ask is under way. */
void barrier_pass(struct region_barriers *barriers, struct region_barrier *barrier, uint64_t round,
                  nigh_status status)
{
    barrier->round = round;
    end_waiting(barriers, barrier, status);
    barrier_tell_children(barriers, barrier, status);
}

/* ---- newcomers ------------------------------------------------------------ */

/* The ask by which who is new now is answered: one that begins now, as one that is under way may
 * have been heard before; behind that the next, whose number is not known yet, but not less. */
static uint64_t ask(struct region_barriers *barriers, struct region_barrier *barrier)
{
    if (barrier->asked != barrier->answered) {
        return barrier->asked + 1;
    }
    barrier->asked = ++*barriers->shell.asks;
    if (barrier->since == 0) {
        barrier->since = barrier->asked;
    }
    return barrier->asked;
}

/* From now on it is in step with the others. */
static void count_in(struct region_barrier *barrier, struct region_party *party)
{
    list_push_back(&barrier->members, &party->link);
    party->ask = 0;
    barrier->parties =
        barrier->waiting == 0 || barrier->parties == party->parties ? party->parties : 0;
    barrier->waiting++;
}

/* Newcomers of before the ask that was under way are in the round that is known here now, or one
 * before it has passed with them; so it is with those below. Others are asked for in turn. */
static void take_answer(struct region_barriers *barriers, struct region_barrier *barrier)
{
    bool is_over = true;

    barrier->answered = barrier->asked;
    LIST_FOREACH_SAFE(at, &barrier->newcomers)
    {
        struct region_party *party = container_of(at, struct region_party, link);

        if (party->ask > barrier->answered) {
            is_over = false;
            break;
        }
        list_remove(&party->link);
        count_in(barrier, party);
    }
    LIST_FOREACH(at, &barrier->children)
    {
        struct barrier_child *child = container_of(at, struct barrier_child, link);

        if (child->via > barrier->answered) {
            is_over = false;
        } else if (child->via != 0) {
            child->via = 0;
            barrier_say_passed(barriers, barrier, child, NIGH_OK);
        }
    }
    if (!is_over) {
        (void)ask(barriers, barrier);
    }
}

static void break_up(struct region_barriers *barriers, struct region_barrier *barrier)
{
    end_all_waiting(barriers, barrier, NIGH_PEER_LOST);
    LIST_FOREACH(at, &barrier->children)
    {
        struct barrier_child *child = container_of(at, struct barrier_child, link);

        if (!child->knows_broken) {
            barrier_say_passed(barriers, barrier, child, NIGH_OK);
        }
    }
}

void barrier_go_on(struct region_barriers *barriers, struct region_barrier *barrier)
{
    uint32_t parties, count;

    if (barrier_drop_if_over(barriers, barrier)) {
        return;
    }
    if (barrier->is_broken) {
        break_up(barriers, barrier);
    }
    if (!barriers->is_root) {
        if (barrier_is_in_tree(barrier)) {
            barrier_report(barriers, barrier);
        }
        return;
    }
    if (!barriers->may_pass || barrier->is_broken) {
        return;
    }
    while (barrier->asked != barrier->answered) {
        take_answer(barriers, barrier);
    }
    count = count_arrived(barrier, &parties);
    if (count > 0 && (parties == 0 || count > parties)) {
        barrier_pass(barriers, barrier, barrier->round + 1, NIGH_INVALID);
    } else if (count > 0 && count == parties) {
        barrier_pass(barriers, barrier, barrier->round + 1, NIGH_OK);
    }
}

/* ---- parties -------------------------------------------------------------- */

nigh_status region_barrier_arrive(struct region_barriers *barriers,
                                  const struct region_version *birth, uint64_t number,
                                  uint32_t parties, struct region_party *party)
{
    struct region_barrier *barrier = NULL;
    nigh_status status;

    if (party->waits) {
        return NIGH_BUSY;
    }
    if (party->barrier != NULL && (party->barrier->number != number ||
                                   !region_version_equal(&party->barrier->birth, birth))) {
        region_barrier_leave(barriers, party, false);
    }
    status = barrier_get(barriers, birth, number, &barrier);
    if (status != NIGH_OK) {
        return status;
    }
    party->parties = parties;
    party->waits = true;
    if (party->barrier != NULL) {
        list_remove(&party->link);
    }
    if (party->barrier != NULL && party->ask == 0) {
        count_in(barrier, party);
    } else {
        party->barrier = barrier;
        party->ask = ask(barriers, barrier);
        list_push_back(&barrier->newcomers, &party->link);
    }
    barrier_go_on(barriers, barrier);
    return NIGH_OK;
}

/* It waits no longer, and is not counted. */
static void take_back(struct region_barrier *barrier, struct region_party *party)
{
    if (party->waits && party->ask == 0) {
        barrier->waiting--;
    }
    if (barrier->waiting == 0) {
        barrier->parties = 0;
    }
    party->waits = false;
    list_remove(&party->link);
}

void region_barrier_withdraw(struct region_barriers *barriers, struct region_party *party)
{
    struct region_barrier *barrier = party->barrier;

    if (!party->waits) {
        return;
    }
    take_back(barrier, party);
    list_push_back(&barrier->members, &party->link);
    barrier_go_on(barriers, barrier);
}

void region_barrier_leave(struct region_barriers *barriers, struct region_party *party,
                          bool is_dead)
{
    struct region_barrier *barrier = party->barrier;

    if (barrier == NULL) {
        return;
    }
    take_back(barrier, party);
    party->barrier = NULL;
    if (is_dead) {
        barrier_learn_broken(barriers, barrier);
        barrier_report(barriers, barrier); /* before it is said that nobody here takes part */
    }
    barrier_go_on(barriers, barrier);
}

/* ---- the tree ------------------------------------------------------------- */

static nigh_status take_arrived(struct region_barriers *barriers,
                                const struct region_message *message)
{
    const struct region_barrier_word *word = &message->barrier;
    struct region_barrier *barrier = barrier_find(barriers, word->number);
    struct barrier_child *child =
        barrier == NULL ? NULL : barrier_find_child(barrier, message->peer);
    nigh_status status = NIGH_OK;

    if (!word->is_part) {
        if (child != NULL && region_version_equal(&barrier->birth, &message->base)) {
            barrier_drop_child(child);
            barrier_go_on(barriers, barrier);
        }
        return NIGH_OK;
    }
    status = barrier_get(barriers, &message->base, word->number, &barrier);
    if (status == NIGH_NOT_FOUND || status == NIGH_LIMIT) {
        struct region_barrier_word said = {
            .number = word->number, .round = word->round + 1, .ask = word->ask};

        barrier_send(barriers, &message->base, REGION_PASSED, message->peer, status, &said);
        return NIGH_OK;
    }
    if (status != NIGH_OK) {
        return status;
    }
    child = barrier_find_child(barrier, message->peer);
    if (child == NULL) {
        child = calloc(1, sizeof(*child));
        if (child == NULL) {
            (void)barrier_drop_if_over(barriers, barrier);
            return NIGH_NO_RESOURCES;
        }
        child->rank = message->peer;
        list_push_back(&barrier->children, &child->link);
    }
    if (child->ask != word->ask) {
        child->ask = word->ask;
        child->via = ask(barriers, barrier);
    }
    child->round = word->round;
    child->latest = word->latest;
    child->count = word->count;
    child->parties = word->parties;
    child->knows_broken = word->is_broken;
    barrier->is_broken = barrier->is_broken || word->is_broken;
    if (word->latest > barrier->round && barrier->round != 0) {
        barrier_pass(barriers, barrier, word->latest,
                     NIGH_OK); /* as somebody heard from above, once */
    } else if (word->round < barrier->round && word->round != 0) {
        barrier_say_passed(barriers, barrier, child, NIGH_OK); /* which it has not heard */
    }
    barrier_go_on(barriers, barrier);
    return NIGH_OK;
}

/* It may have passed. */
static void hear_from_above(struct region_barriers *barriers, struct region_barrier *barrier,
                            const struct region_message *message)
{
    const struct region_barrier_word *word = &message->barrier;

    barrier->is_broken = barrier->is_broken || word->is_broken;
    if (barrier->round == 0 && word->round != 0) {
        barrier_adopt(barriers, barrier, word->round);
    } else if (word->round > barrier->round) {
        barrier_pass(barriers, barrier, word->round, message->status);
    }
    if (word->is_answer && word->ask == barrier->asked && barrier->asked != barrier->answered) {
        take_answer(barriers, barrier);
    }
}

static void take_passed(struct region_barriers *barriers, const struct region_message *message)
{
    struct region_barrier *barrier = barrier_find(barriers, message->barrier.number);

    if (message->peer != barriers->parent) {
        return;
    }
    if (barrier == NULL || !region_version_equal(&barrier->birth, &message->base) ||
        !barrier_is_in_tree(barrier)) {
        struct region_barrier_word word = {.number = message->barrier.number};

        barrier_send(barriers, &message->base, REGION_ARRIVED, message->peer, NIGH_OK, &word);
    }
    if (barrier == NULL || !region_version_equal(&barrier->birth, &message->base) ||
        barrier->since == 0 || message->barrier.ask < barrier->since) {
        return; /* it was said to who took part before */
    }
    if (message->status == NIGH_NOT_FOUND || message->status == NIGH_LIMIT) {
        barrier_end(barriers, barrier, message->status);
        return;
    }
    hear_from_above(barriers, barrier, message);
    barrier_go_on(barriers, barrier);
}

nigh_status region_barriers_take(struct region_barriers *barriers,
                                 const struct region_message *message)
{
    switch (message->kind) {
    case REGION_ARRIVED: return take_arrived(barriers, message);
    case REGION_KNOWN: return barrier_take_known(barriers, message);
    case REGION_NOTED: barrier_take_noted(barriers, message); break;
    default: take_passed(barriers, message); break;
    }
    return NIGH_OK;
}

/* ---- made, checked -------------------------------------------------------- */

void region_barriers_init(struct region_barriers *barriers,
                          const struct region_barrier_shell *shell)
{
    *barriers =
        (struct region_barriers){.parent = REGION_NOBODY, .home = REGION_NOBODY, .shell = *shell};
    list_init(&barriers->all);
}

void region_barriers_end(struct region_barriers *barriers, nigh_status status)
{
    LIST_FOREACH_SAFE(at, &barriers->all)
    {
        barrier_end(barriers, container_of(at, struct region_barrier, link), status);
    }
}

/* Whoever waits to be counted has an ask under way, or the next. */
static bool are_newcomers_valid(const struct region_barrier *barrier)
{
    bool is_asked = barrier->asked != barrier->answered;

    LIST_FOREACH(at, &barrier->newcomers)
    {
        const struct region_party *party = container_of(at, struct region_party, link);

        if (!is_asked || !party->waits || party->ask <= barrier->answered ||
            party->ask > barrier->asked + 1) {
            return false;
        }
    }
    LIST_FOREACH(at, &barrier->children)
    {
        if (!is_asked && container_of(at, struct barrier_child, link)->via != 0) {
            return false;
        }
    }
    return !barrier->is_broken || list_empty(&barrier->newcomers);
}

bool region_barriers_are_valid(const struct region_barriers *barriers)
{
    uint32_t count = 0;

    LIST_FOREACH(at, &barriers->all)
    {
        const struct region_barrier *barrier = container_of(at, struct region_barrier, link);
        uint32_t waiting = 0;

        count++;
        LIST_FOREACH(node, &barrier->members)
        {
            waiting += container_of(node, struct region_party, link)->waits ? 1 : 0;
        }
        if (waiting != barrier->waiting || (barrier->is_broken && waiting > 0) ||
            !is_of_use(barrier) || !are_newcomers_valid(barrier)) {
            return false;
        }
    }
    return count == barriers->count && count <= LIMIT_REGION_BARRIERS;
}
