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

static void say_passed(struct region_barriers *barriers, const struct region_barrier *barrier,
                       struct barrier_child *child, nigh_status status)
{
    struct region_barrier_word word = {
        .number = barrier->number, .round = barrier->round, .is_broken = barrier->is_broken};

    child->knows_broken = barrier->is_broken;
    send(barriers, &barrier->birth, REGION_PASSED, child->rank, status, &word);
}

/* The latest round that somebody here or below knows of. */
static uint64_t latest_round(const struct region_barrier *barrier)
{
    uint64_t round = barrier->round;

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

/* Nobody takes part here, or below: who is above hears it. */
static bool drop_if_over(struct region_barriers *barriers, struct region_barrier *barrier)
{
    struct region_barrier_word word = {.number = barrier->number};

    if (!list_empty(&barrier->members) || !list_empty(&barrier->children)) {
        return false;
    }
    if (barriers->parent != REGION_NOBODY && barrier->told == barriers->parent) {
        send(barriers, &barrier->birth, REGION_ARRIVED, barrier->told, NIGH_OK, &word);
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

        if (child->round < barrier->round) {
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
        report(barriers, barrier);
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
    barrier->is_broken = barrier->is_broken || is_dead;
    party->waits = false;
    party->barrier = NULL;
    list_remove(&party->link);
    if (is_dead && list_empty(&barrier->members)) {
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
    } else if (word->round < barrier->round) {
        say_passed(barriers, barrier, child, NIGH_OK); /* which it has not heard */
    }
    go_on(barriers, barrier);
    return NIGH_OK;
}

static void take_passed(struct region_barriers *barriers, const struct region_message *message)
{
    struct region_barrier *barrier = find(barriers, message->barrier.number);

    if (message->peer != barriers->parent) {
        return;
    }
    if (barrier == NULL || !region_version_equal(&barrier->birth, &message->base)) {
        struct region_barrier_word word = {.number = message->barrier.number};

        send(barriers, &message->base, REGION_ARRIVED, message->peer, NIGH_OK, &word);
        return;
    }
    if (message->status == NIGH_NOT_FOUND || message->status == NIGH_LIMIT) {
        end_barrier(barriers, barrier, message->status);
        return;
    }
    barrier->is_broken = barrier->is_broken || message->barrier.is_broken;
    if (barrier->round == 0 && message->barrier.round != 0) {
        adopt(barriers, barrier, message->barrier.round);
    } else if (message->barrier.round > barrier->round) {
        pass(barriers, barrier, message->barrier.round, message->status);
    }
    go_on(barriers, barrier);
}

nigh_status region_barriers_take(struct region_barriers *barriers,
                                 const struct region_message *message)
{
    if (message->kind == REGION_ARRIVED) {
        return take_arrived(barriers, message);
    }
    take_passed(barriers, message);
    return NIGH_OK;
}

void region_barriers_place(struct region_barriers *barriers, uint32_t parent, bool is_root)
{
    barriers->parent = parent;
    barriers->is_root = is_root;
    barriers->may_pass = false;
    LIST_FOREACH_SAFE(at, &barriers->all)
    {
        struct region_barrier *barrier = container_of(at, struct region_barrier, link);

        LIST_FOREACH_SAFE(node, &barrier->children)
        {
            drop_child(container_of(node, struct barrier_child, link));
        }
        barrier->told = REGION_NOBODY;
        go_on(barriers, barrier);
    }
}

void region_barriers_link(struct region_barriers *barriers, uint32_t rank)
{
    LIST_FOREACH(at, &barriers->all)
    {
        struct region_barrier *barrier = container_of(at, struct region_barrier, link);
        struct barrier_child *child = find_child(barrier, rank);

        if (child != NULL) {
            say_passed(barriers, barrier, child, NIGH_OK);
        }
        if (rank == barriers->parent) {
            barrier->told = REGION_NOBODY;
            report(barriers, barrier);
        }
    }
}

void region_barriers_dead(struct region_barriers *barriers, uint32_t rank)
{
    LIST_FOREACH_SAFE(at, &barriers->all)
    {
        struct region_barrier *barrier = container_of(at, struct region_barrier, link);
        struct barrier_child *child = find_child(barrier, rank);

        if (child == NULL && barrier->told != rank) {
            continue;
        }
        barrier->is_broken = true;
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
    *barriers = (struct region_barriers){.parent = REGION_NOBODY, .shell = *shell};
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
            (list_empty(&barrier->members) && list_empty(&barrier->children))) {
            return false;
        }
    }
    return count == barriers->count && count <= LIMIT_REGION_BARRIERS;
}
