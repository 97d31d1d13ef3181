/* SPDX-License-Identifier: Apache-2.0 */
/* See barrier.h. */
#include "region/barrier.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"

/* What a node below says of itself and of those below it. */
struct barrier_child {
    struct list_node link;
    uint32_t rank;
    uint64_t round, latest; /* that it is in; that it has heard of */
    uint32_t count, parties;
    bool knows_broken;
};

struct region_barrier {
    struct list_node link;
    struct region_version birth; /* of the region */
    uint64_t number;
    uint64_t round; /* that has not passed yet; 0: not known, so nobody here is counted */

    uint32_t parties; /* as who waits here said; 0: nobody does, or they do not agree */
    uint32_t waiting;
    struct list members, children;
    bool is_broken;
    uint32_t told; /* to whom it was said that somebody here takes part; REGION_NOBODY: to none */
    struct region_barrier_word said; /* to it, last */

    /* What is known of views before, or of a death, and is kept until the home knows it. */
    bool is_owed, is_noted;   /* noted: but for what is not known of `unseen` */
    bool is_taker;            /* the home was told that somebody here takes part */
    uint64_t heard;           /* the latest round, of whoever is none of the children any more */
    struct region_set before; /* who took part, or counted; if one of them is dead, it is broken */
    struct region_set unseen; /* of those: whether they live in this view is not known */
    struct region_set takers; /* the home: who take part since before this view */
    struct region_set owing;  /* the home: who is to hear that it knows what they told */
};

/* ---- what is said --------------------------------------------------------- */

static void send(struct region_barriers *barriers, const struct region_version *birth,
                 enum region_message_kind kind, uint32_t rank, nigh_status status,
                 const struct region_barrier_word *word)
{
    struct region_message message = {
        .kind = kind, .peer = rank, .status = status, .base = *birth, .barrier = *word};

    barriers->shell.send(barriers->shell.context, &message);
}

/* Who asks which round it is hears it of who knows the latest: after views changed, the home. */
static bool may_say_round(const struct region_barrier *barrier, uint64_t round)
{
    return round != 0 || !barrier->is_owed || barrier->is_noted || barrier->is_broken;
}

static void say_passed(struct region_barriers *barriers, const struct region_barrier *barrier,
                       struct barrier_child *child, nigh_status status)
{
    struct region_barrier_word word = {
        .number = barrier->number,
        .round = may_say_round(barrier, child->round) ? barrier->round : 0,
        .is_broken = barrier->is_broken};

    child->knows_broken = barrier->is_broken;
    send(barriers, &barrier->birth, REGION_PASSED, child->rank, status, &word);
}

/* The latest round that somebody here or below knows of. */
static uint64_t latest_round(const struct region_barrier *barrier)
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

    return said->round == word->round && said->latest == word->latest &&
           said->count == word->count && said->parties == word->parties &&
           said->is_broken == word->is_broken;
}

static void report(struct region_barriers *barriers, struct region_barrier *barrier)
{
    struct region_barrier_word word = {.number = barrier->number,
                                       .round = barrier->round,
                                       .latest = latest_round(barrier),
                                       .is_part = true,
                                       .is_broken = barrier->is_broken};

    word.count = count_arrived(barrier, &word.parties);
    if (barriers->parent == REGION_NOBODY ||
        (barrier->told == barriers->parent && is_said(barrier, &word))) {
        return;
    }
    barrier->told = barriers->parent;
    barrier->said = word;
    send(barriers, &barrier->birth, REGION_ARRIVED, barriers->parent, NIGH_OK, &word);
}

/* ---- what is known from before -------------------------------------------- */

/* Says it to the home of this view, which is to note it. */
static void tell_home(struct region_barriers *barriers, struct region_barrier *barrier)
{
    struct region_message message = {.kind = REGION_KNOWN,
                                     .peer = barriers->home,
                                     .base = barrier->birth,
                                     .barrier = {.number = barrier->number,
                                                 .latest = latest_round(barrier),
                                                 .is_part = !list_empty(&barrier->members),
                                                 .is_broken = barrier->is_broken},
                                     .ranks = barrier->before};

    if (barriers->is_root || barriers->home == REGION_NOBODY) {
        return;
    }
    barrier->is_taker = message.barrier.is_part;
    barriers->shell.send(barriers->shell.context, &message);
}

/* A party here died, or somebody who counted: nobody else may know it. */
static void learn_broken(struct region_barriers *barriers, struct region_barrier *barrier)
{
    barrier->is_broken = true;
    barrier->is_owed = !(barriers->is_root && barriers->may_pass);
    barrier->is_noted = false;
    tell_home(barriers, barrier);
}

static void say_noted(struct region_barriers *barriers, struct region_barrier *barrier,
                      uint32_t rank, nigh_status status)
{
    struct region_barrier_word word = {
        .number = barrier->number, .round = latest_round(barrier), .is_broken = barrier->is_broken};

    region_set_remove(&barrier->owing, rank);
    send(barriers, &barrier->birth, REGION_NOTED, rank, status, &word);
}

/* That the region is none any more. */
static void say_gone(struct region_barriers *barriers, struct region_barrier *barrier)
{
    REGION_SET_FOREACH(rank, &barrier->takers)
    {
        region_set_add(&barrier->owing, rank);
    }
    REGION_SET_FOREACH(rank, &barrier->owing)
    {
        say_noted(barriers, barrier, rank, NIGH_NOT_FOUND);
    }
}

static void forget_before(struct region_barrier *barrier)
{
    barrier->is_owed = barrier->is_noted = false;
    barrier->before = barrier->unseen = (struct region_set){{0}};
}

/* Whoever took part is known to live, as the home heard it from itself, or to be dead. */
static void forget_if_noted(struct region_barrier *barrier)
{
    if (barrier->is_noted && (barrier->is_broken || region_set_is_empty(&barrier->unseen))) {
        forget_before(barrier);
    }
}

/* In the next view they are to be heard of again. */
static void keep_for_next(const struct region_barriers *barriers, struct region_barrier *barrier)
{
    LIST_FOREACH(at, &barrier->children)
    {
        region_set_add(&barrier->before, container_of(at, struct barrier_child, link)->rank);
    }
    REGION_SET_FOREACH(rank, &barrier->takers)
    {
        region_set_add(&barrier->before, rank);
    }
    if (barrier->told != REGION_NOBODY) {
        region_set_add(&barrier->before, barrier->told);
    }
    if (!barriers->is_root && barriers->home != REGION_NOBODY) {
        region_set_add(&barrier->before, barriers->home);
    }
    barrier->unseen = barrier->before;
    barrier->takers = barrier->owing = (struct region_set){{0}};
    barrier->heard = latest_round(barrier);
    barrier->told = REGION_NOBODY;
    barrier->is_owed = true;
    barrier->is_taker = barrier->is_noted = false;
    if (list_empty(&barrier->members)) {
        barrier->round = 0; /* who arrives here asks */
    }
}

/* ---- barriers ------------------------------------------------------------- */

static struct region_barrier *find(struct region_barriers *barriers, uint64_t number)
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

static struct barrier_child *find_child(const struct region_barrier *barrier, uint32_t rank)
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

static void drop_child(struct barrier_child *child)
{
    list_remove(&child->link);
    free(child);
}

/* Somebody takes part, here or below. */
static bool is_in_tree(const struct region_barrier *barrier)
{
    return !list_empty(&barrier->members) || !list_empty(&barrier->children);
}

static bool knows_anything(const struct region_barrier *barrier)
{
    return barrier->is_broken || latest_round(barrier) != 0 ||
           !region_set_is_empty(&barrier->before);
}

/* Or it is to be kept for those who do. */
static bool is_of_use(const struct region_barrier *barrier)
{
    return is_in_tree(barrier) || !region_set_is_empty(&barrier->takers) ||
           (barrier->is_owed && knows_anything(barrier));
}

/* Nobody takes part here, or below: who is above hears it. */
static bool drop_if_over(struct region_barriers *barriers, struct region_barrier *barrier)
{
    struct region_barrier_word word = {.number = barrier->number};

    if (barrier->is_taker && list_empty(&barrier->members)) {
        tell_home(barriers, barrier);
    }
    if (!is_in_tree(barrier) && barrier->told != REGION_NOBODY &&
        barrier->told == barriers->parent) {
        send(barriers, &barrier->birth, REGION_ARRIVED, barrier->told, NIGH_OK, &word);
        barrier->told = REGION_NOBODY;
    }
    if (!is_in_tree(barrier) && !barriers->is_root) {
        barrier->heard = latest_round(barrier);
        barrier->round = 0; /* who arrives here from now on asks */
    }
    if (is_of_use(barrier)) {
        return false;
    }
    list_remove(&barrier->link);
    barriers->count--;
    free(barrier);
    return true;
}

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

/* All of a barrier goes, here; who takes part takes part no more. */
static void end_barrier(struct region_barriers *barriers, struct region_barrier *barrier,
                        nigh_status status)
{
    struct list_node *at;

    end_waiting(barriers, barrier, status);
    LIST_FOREACH_SAFE(node, &barrier->children)
    {
        struct barrier_child *child = container_of(node, struct barrier_child, link);

        say_passed(barriers, barrier, child, status);
        drop_child(child);
    }
    while ((at = list_pop_front(&barrier->members)) != NULL) {
        container_of(at, struct region_party, link)->barrier = NULL;
    }
    if (status == NIGH_NOT_FOUND) {
        say_gone(barriers, barrier);
    }
    barrier->takers = (struct region_set){{0}};
    forget_before(barrier);
    (void)drop_if_over(barriers, barrier);
}

static nigh_status get(struct region_barriers *barriers, const struct region_version *birth,
                       uint64_t number, struct region_barrier **out)
{
    struct region_barrier *barrier = find(barriers, number);

    if (barrier != NULL && !region_version_equal(&barrier->birth, birth)) {
        if (region_version_compare(&barrier->birth, birth) > 0) {
            return NIGH_NOT_FOUND;
        }
        end_barrier(barriers, barrier, NIGH_NOT_FOUND); /* of a region that was */
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
        list_init(&barrier->members);
        list_init(&barrier->children);
        list_push_back(&barriers->all, &barrier->link);
        barriers->count++;
    }
    *out = barrier;
    return NIGH_OK;
}

/* ---- rounds --------------------------------------------------------------- */

/* Those below are told of the round. */
static void tell_children(struct region_barriers *barriers, struct region_barrier *barrier,
                          nigh_status status)
{
    LIST_FOREACH(at, &barrier->children)
    {
        struct barrier_child *child = container_of(at, struct barrier_child, link);

        if (child->round < barrier->round && may_say_round(barrier, child->round)) {
            child->count = 0;
            say_passed(barriers, barrier, child, status);
        }
    }
}

/* Which round this is, which was not known here: who waits here is counted in it from now on. */
static void adopt(struct region_barriers *barriers, struct region_barrier *barrier, uint64_t round)
{
    barrier->round = round;
    tell_children(barriers, barrier, NIGH_OK);
}

/* All before this round is over: who waits was counted, as nothing passes without those who take
 * part. */
static void pass(struct region_barriers *barriers, struct region_barrier *barrier, uint64_t round,
                 nigh_status status)
{
    barrier->round = round;
    end_waiting(barriers, barrier, status);
    tell_children(barriers, barrier, status);
}

static void break_up(struct region_barriers *barriers, struct region_barrier *barrier)
{
    end_waiting(barriers, barrier, NIGH_PEER_LOST);
    LIST_FOREACH(at, &barrier->children)
    {
        struct barrier_child *child = container_of(at, struct barrier_child, link);

        if (!child->knows_broken) {
            say_passed(barriers, barrier, child, NIGH_OK);
        }
    }
}

static void go_on(struct region_barriers *barriers, struct region_barrier *barrier)
{
    uint32_t parties, count;

    if (drop_if_over(barriers, barrier)) {
        return;
    }
    if (barrier->is_broken) {
        break_up(barriers, barrier);
    }
    if (!barriers->is_root) {
        if (is_in_tree(barrier)) {
            report(barriers, barrier);
        }
        return;
    }
    if (!barriers->may_pass || barrier->is_broken) {
        return;
    }
    if (barrier->round == 0) {
        adopt(barriers, barrier, max_u64(latest_round(barrier), 1));
    }
    count = count_arrived(barrier, &parties);
    if (count > 0 && (parties == 0 || count > parties)) {
        pass(barriers, barrier, barrier->round + 1, NIGH_INVALID);
    } else if (count > 0 && count == parties) {
        pass(barriers, barrier, barrier->round + 1, NIGH_OK);
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
    status = get(barriers, birth, number, &barrier);
    if (status != NIGH_OK) {
        return status;
    }
    if (party->barrier == NULL) {
        party->barrier = barrier;
        list_push_back(&barrier->members, &party->link);
    }
    party->waits = true;
    barrier->parties = barrier->waiting == 0 || barrier->parties == parties ? parties : 0;
    barrier->waiting++;
    go_on(barriers, barrier);
    return NIGH_OK;
}

void region_barrier_withdraw(struct region_barriers *barriers, struct region_party *party)
{
    struct region_barrier *barrier = party->barrier;

    if (!party->waits) {
        return;
    }
    party->waits = false;
    barrier->waiting--;
    if (barrier->waiting == 0) {
        barrier->parties = 0;
    }
    go_on(barriers, barrier);
}

void region_barrier_leave(struct region_barriers *barriers, struct region_party *party,
                          bool is_dead)
{
    struct region_barrier *barrier = party->barrier;

    if (barrier == NULL) {
        return;
    }
    barrier->waiting -= party->waits ? 1 : 0;
    if (barrier->waiting == 0) {
        barrier->parties = 0;
    }
    party->waits = false;
    party->barrier = NULL;
    list_remove(&party->link);
    if (is_dead) {
        learn_broken(barriers, barrier);
        report(barriers, barrier); /* before it is said that nobody here takes part */
    }
    go_on(barriers, barrier);
}

/* ---- the tree ------------------------------------------------------------- */

static nigh_status take_arrived(struct region_barriers *barriers,
                                const struct region_message *message)
{
    const struct region_barrier_word *word = &message->barrier;
    struct region_barrier *barrier = find(barriers, word->number);
    struct barrier_child *child = barrier == NULL ? NULL : find_child(barrier, message->peer);
    nigh_status status = NIGH_OK;

    if (!word->is_part) {
        if (child != NULL && region_version_equal(&barrier->birth, &message->base)) {
            drop_child(child);
            go_on(barriers, barrier);
        }
        return NIGH_OK;
    }
    status = get(barriers, &message->base, word->number, &barrier);
    if (status == NIGH_NOT_FOUND || status == NIGH_LIMIT) {
        struct region_barrier_word said = {.number = word->number, .round = word->round + 1};

        send(barriers, &message->base, REGION_PASSED, message->peer, status, &said);
        return NIGH_OK;
    }
    if (status != NIGH_OK) {
        return status;
    }
    child = find_child(barrier, message->peer);
    if (child == NULL) {
        child = calloc(1, sizeof(*child));
        if (child == NULL) {
            (void)drop_if_over(barriers, barrier);
            return NIGH_NO_RESOURCES;
        }
        child->rank = message->peer;

        list_push_back(&barrier->children, &child->link);
    }
    child->round = word->round;
    child->latest = word->latest;
    child->count = word->count;
    child->parties = word->parties;
    child->knows_broken = word->is_broken;
    barrier->is_broken = barrier->is_broken || word->is_broken;
    if (word->latest > barrier->round && barrier->round != 0) {
        pass(barriers, barrier, word->latest, NIGH_OK); /* as somebody heard from above, once */
    } else if (word->round < barrier->round && may_say_round(barrier, word->round)) {
        say_passed(barriers, barrier, child, NIGH_OK); /* which it has not heard */
    }
    go_on(barriers, barrier);
    return NIGH_OK;
}

static void hear_from_above(struct region_barriers *barriers, struct region_barrier *barrier,
                            const struct region_message *message)
{
    const struct region_barrier_word *word = &message->barrier;

    barrier->is_broken = barrier->is_broken || word->is_broken;
    if (barrier->round == 0 && word->round != 0) {
        adopt(barriers, barrier, word->round);
    } else if (word->round > barrier->round) {
        pass(barriers, barrier, word->round, message->status);
    }
}

static void take_passed(struct region_barriers *barriers, const struct region_message *message)
{
    struct region_barrier *barrier = find(barriers, message->barrier.number);

    if (message->peer != barriers->parent) {
        return;
    }
    if (barrier == NULL || !region_version_equal(&barrier->birth, &message->base) ||
        !is_in_tree(barrier)) {
        struct region_barrier_word word = {.number = message->barrier.number};

        send(barriers, &message->base, REGION_ARRIVED, message->peer, NIGH_OK, &word);
    }
    if (barrier == NULL || !region_version_equal(&barrier->birth, &message->base)) {
        return;
    }
    if (message->status == NIGH_NOT_FOUND || message->status == NIGH_LIMIT) {
        end_barrier(barriers, barrier, message->status);
        return;
    }
    hear_from_above(barriers, barrier, message);
    go_on(barriers, barrier);
}

/* ---- the home of a view --------------------------------------------------- */

/* It knows all that is known of views before: the latest round, and who takes part. */
static void note(struct region_barriers *barriers, struct region_barrier *barrier)
{
    struct region_set owing = barrier->owing;

    REGION_SET_FOREACH(rank, &barrier->before)
    {
        if (!barriers->shell.is_alive(barriers->shell.context, rank)) {
            barrier->is_broken = true;
        }
    }
    forget_before(barrier);
    if (barrier->round == 0) {
        adopt(barriers, barrier, max_u64(latest_round(barrier), 1));
    }
    REGION_SET_FOREACH(rank, &owing)
    {
        say_noted(barriers, barrier, rank, NIGH_OK);
    }
}

static void hear_known(struct region_barriers *barriers, struct region_barrier *barrier,
                       const struct region_message *message)
{
    const struct region_barrier_word *word = &message->barrier;

    barrier->is_broken = barrier->is_broken || word->is_broken;
    REGION_SET_FOREACH(rank, &message->ranks)
    {
        region_set_add(&barrier->before, rank);
    }
    barrier->heard = max_u64(barrier->heard, word->latest);
    if (barrier->round != 0 && barrier->heard > barrier->round) {
        pass(barriers, barrier, barrier->heard, NIGH_OK);
    }
    region_set_add(&barrier->owing, message->peer);
    barrier->is_owed = true;
    if (barriers->may_pass) {
        note(barriers, barrier);
    }
}

static nigh_status take_known(struct region_barriers *barriers,
                              const struct region_message *message)
{
    const struct region_barrier_word *word = &message->barrier;
    struct region_barrier *barrier = find(barriers, word->number);
    nigh_status status = NIGH_OK;
    bool is_there = barrier != NULL && region_version_equal(&barrier->birth, &message->base);

    if (!barriers->is_root) {
        return NIGH_OK;
    }
    if (is_there && !word->is_part) {
        region_set_remove(&barrier->takers, message->peer);
    }
    if (word->is_part || word->is_broken || word->latest != 0 ||
        !region_set_is_empty(&message->ranks)) {
        status = get(barriers, &message->base, word->number, &barrier);
        if (status == NIGH_NOT_FOUND || status == NIGH_LIMIT) {
            struct region_barrier_word said = {.number = word->number};

            send(barriers, &message->base, REGION_NOTED, message->peer, status, &said);
            return NIGH_OK;
        }
        if (status != NIGH_OK) {
            return status;
        }
        if (word->is_part) {
            region_set_add(&barrier->takers, message->peer);
        }
        hear_known(barriers, barrier, message);
        is_there = true;
    }
    if (is_there) {
        go_on(barriers, barrier);
    }
    return NIGH_OK;
}

/* It had said otherwise, and what it said then was lost. */
static void say_nobody_takes_part(struct region_barriers *barriers,
                                  const struct region_message *noted)
{
    struct region_message said = {.kind = REGION_KNOWN,
                                  .peer = noted->peer,
                                  .base = noted->base,
                                  .barrier = {.number = noted->barrier.number}};

    barriers->shell.send(barriers->shell.context, &said);
}

/* Of what was told before more became known here it says too little. */
static void take_noted(struct region_barriers *barriers, const struct region_message *message)
{
    const struct region_barrier_word *word = &message->barrier;
    struct region_barrier *barrier = find(barriers, word->number);

    if (message->peer != barriers->home) {
        return;
    }
    if (barrier == NULL || !region_version_equal(&barrier->birth, &message->base)) {
        say_nobody_takes_part(barriers, message);
        return;
    }
    if (message->status == NIGH_NOT_FOUND || message->status == NIGH_LIMIT) {
        end_barrier(barriers, barrier, message->status);
        return;
    }
    if (list_empty(&barrier->members) && (!barrier->is_owed || barrier->is_noted)) {
        say_nobody_takes_part(barriers, message);
    } else if (barrier->is_owed && !barrier->is_noted) {
        barrier->is_noted = message->status == NIGH_OK &&
                            (word->is_broken || !barrier->is_broken) &&
                            word->round >= latest_round(barrier);
        if (!barrier->is_noted) {
            tell_home(barriers, barrier);
        }
    }
    hear_from_above(barriers, barrier, message);
    forget_if_noted(barrier);
    tell_children(barriers, barrier, NIGH_OK); /* who asked meanwhile */
    go_on(barriers, barrier);
}

nigh_status region_barriers_take(struct region_barriers *barriers,
                                 const struct region_message *message)
{
    switch (message->kind) {
    case REGION_ARRIVED: return take_arrived(barriers, message);
    case REGION_KNOWN: return take_known(barriers, message);
    case REGION_NOTED: take_noted(barriers, message); break;
    default: take_passed(barriers, message); break;
    }
    return NIGH_OK;
}

/* ---- views, links, deaths ------------------------------------------------- */

void region_barriers_place(struct region_barriers *barriers, uint32_t parent, uint32_t home,
                           bool is_root)
{
    LIST_FOREACH(at, &barriers->all)
    {
        struct region_barrier *barrier = container_of(at, struct region_barrier, link);

        keep_for_next(barriers, barrier);
        LIST_FOREACH_SAFE(node, &barrier->children)
        {
            drop_child(container_of(node, struct barrier_child, link));
        }
    }
    barriers->parent = parent;
    barriers->home = home;
    barriers->is_root = is_root;
    barriers->may_pass = false;
    LIST_FOREACH_SAFE(at, &barriers->all)
    {
        go_on(barriers, container_of(at, struct region_barrier, link));
    }
}

/* What the home has noted it hears no more of: it asks who may have left. */
static void link_home(struct region_barriers *barriers, struct region_barrier *barrier,
                      uint32_t rank)
{
    if (rank == barriers->home && barrier->is_owed && !barrier->is_noted) {
        tell_home(barriers, barrier);
    }
    if (barriers->may_pass && region_set_has(&barrier->takers, rank)) {
        say_noted(barriers, barrier, rank, NIGH_OK);
    }
    if (region_set_has(&barrier->unseen, rank)) {
        region_set_remove(&barrier->unseen, rank);
        forget_if_noted(barrier);
    }
}

void region_barriers_link(struct region_barriers *barriers, uint32_t rank)
{
    LIST_FOREACH_SAFE(at, &barriers->all)
    {
        struct region_barrier *barrier = container_of(at, struct region_barrier, link);
        struct barrier_child *child = find_child(barrier, rank);

        link_home(barriers, barrier, rank);
        if (child != NULL) {
            say_passed(barriers, barrier, child, NIGH_OK);
        }
        if (rank == barriers->parent && is_in_tree(barrier)) {
            barrier->told = REGION_NOBODY;
            report(barriers, barrier);
        }
        (void)drop_if_over(barriers, barrier);
    }
}

void region_barriers_dead(struct region_barriers *barriers, uint32_t rank)
{
    LIST_FOREACH_SAFE(at, &barriers->all)
    {
        struct region_barrier *barrier = container_of(at, struct region_barrier, link);
        struct barrier_child *child = find_child(barrier, rank);

        if (child == NULL && barrier->told != rank && barriers->home != rank &&
            !region_set_has(&barrier->before, rank) && !region_set_has(&barrier->takers, rank)) {
            continue;
        }
        region_set_remove(&barrier->takers, rank);
        region_set_remove(&barrier->owing, rank);
        learn_broken(barriers, barrier);
        if (child != NULL) {
            drop_child(child);
            report(barriers, barrier);
        }
        go_on(barriers, barrier);
    }
}

void region_barriers_open(struct region_barriers *barriers, const struct region_version *birth)
{
    if (!barriers->is_root ||
        (barriers->may_pass && region_version_equal(&barriers->birth, birth))) {
        return;
    }
    barriers->may_pass = true;
    barriers->birth = *birth;
    LIST_FOREACH_SAFE(at, &barriers->all)
    {
        struct region_barrier *barrier = container_of(at, struct region_barrier, link);

        if (region_version_equal(&barrier->birth, birth)) {
            note(barriers, barrier);
            go_on(barriers, barrier);
        } else {
            end_barrier(barriers, barrier, NIGH_NOT_FOUND);
        }
    }
}

void region_barriers_shut(struct region_barriers *barriers)
{
    barriers->may_pass = false;
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
        end_barrier(barriers, container_of(at, struct region_barrier, link), status);
    }
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
            !is_of_use(barrier)) {
            return false;
        }
    }
    return count == barriers->count && count <= LIMIT_REGION_BARRIERS;
}
