/* SPDX-License-Identifier: Apache-2.0 */
/* See barrier.h. What is known of barriers from views before, or of a death, and how the home of
 * this view comes to know it. */
#include "region/barrier_internal.h"

/* ---- what is known from before -------------------------------------------- */

/* Says it to the home of this view, which is to note it. */
void barrier_tell_home(struct region_barriers *barriers, struct region_barrier *barrier)
{
    struct region_message message = {.kind = REGION_KNOWN,
                                     .peer = barriers->home,
                                     .base = barrier->birth,
                                     .barrier = {.number = barrier->number,
                                                 .latest = barrier_latest_round(barrier),
                                                 .is_part = barrier_has_parties(barrier),
                                                 .is_broken = barrier->is_broken},
                                     .ranks = barrier->before};

    if (barriers->is_root || barriers->home == REGION_NOBODY) {
        return;
    }
    barrier->is_taker = message.barrier.is_part;
    barriers->shell.send(barriers->shell.context, &message);
}

/* To whom takes it that somebody here takes part: it had said otherwise, and that was lost, or has
 * noted all else. */
static void say_nobody_takes_part(struct region_barriers *barriers,
                                  const struct region_version *birth, uint64_t number)
{
    struct region_message said = {.kind = REGION_KNOWN,
                                  .peer = barriers->home,
                                  .base = *birth,
                                  .barrier = {.number = number}};

    barriers->shell.send(barriers->shell.context, &said);
}

void barrier_take_no_part(struct region_barriers *barriers, struct region_barrier *barrier)
{
    barrier->is_taker = false;
    if (barrier->is_owed && !barrier->is_noted) {
        barrier_tell_home(barriers, barrier);
    } else {
        say_nobody_takes_part(barriers, &barrier->birth, barrier->number);
    }
}

/* A party here died, or somebody who counted: nobody else may know it. */
void barrier_learn_broken(struct region_barriers *barriers, struct region_barrier *barrier)
{
    barrier->is_broken = true;
    barrier->is_owed = !(barriers->is_root && barriers->may_pass);
    barrier->is_noted = false;
    barrier_tell_home(barriers, barrier);
}

static void say_noted(struct region_barriers *barriers, struct region_barrier *barrier,
                      uint32_t rank, nigh_status status)
{
    struct region_barrier_word word = {.number = barrier->number,
                                       .round = barrier_latest_round(barrier),
                                       .is_broken = barrier->is_broken};

    region_set_remove(&barrier->owing, rank);
    barrier_send(barriers, &barrier->birth, REGION_NOTED, rank, status, &word);
}

/* That the region is none any more. */
void barrier_say_gone(struct region_barriers *barriers, struct region_barrier *barrier)
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

void barrier_forget_before(struct region_barrier *barrier)
{
    barrier->is_owed = barrier->is_noted = false;
    barrier->before = barrier->unseen = (struct region_set){{0}};
}

/* Whoever took part is known to live, as the home heard it from itself, or to be dead. */
static void forget_if_noted(struct region_barrier *barrier, bool is_broken)
{
    if (barrier->is_noted && (is_broken || region_set_is_empty(&barrier->unseen))) {
        barrier_forget_before(barrier);
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
    barrier->heard = barrier_latest_round(barrier);
    barrier->told = REGION_NOBODY;
    barrier->is_owed = true;
    barrier->is_taker = barrier->is_noted = false;
    if (!barrier_has_parties(barrier)) {
        barrier->round = 0; /* who arrives here asks */
    }
}

/* ---- the home of a view --------------------------------------------------- */

/* It knows all that is known of views before: the latest round, and who takes part. */
static void note(struct region_barriers *barriers, struct region_barrier *barrier)
{
    struct region_set owing = barrier->owing;
    uint64_t latest = barrier_latest_round(barrier);

    REGION_SET_FOREACH(rank, &barrier->before)
    {
        if (!barriers->shell.is_alive(barriers->shell.context, rank)) {
            barrier->is_broken = true;
        }
    }
    barrier_forget_before(barrier);
    if (barrier->round == 0) {
        barrier_adopt(barriers, barrier, latest == 0 ? barrier_first_round(barriers) : latest);
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
        barrier_pass(barriers, barrier, barrier->heard, NIGH_OK);
    }
    region_set_add(&barrier->owing, message->peer);
    barrier->is_owed = true;
    if (barriers->may_pass) {
        note(barriers, barrier);
    }
}

nigh_status barrier_take_known(struct region_barriers *barriers,
                               const struct region_message *message)
{
    const struct region_barrier_word *word = &message->barrier;
    struct region_barrier *barrier = barrier_find(barriers, word->number);
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
        status = barrier_get(barriers, &message->base, word->number, &barrier);
        if (status == NIGH_NOT_FOUND || status == NIGH_LIMIT) {
            struct region_barrier_word said = {.number = word->number};

            barrier_send(barriers, &message->base, REGION_NOTED, message->peer, status, &said);
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
        barrier_go_on(barriers, barrier);
    }
    return NIGH_OK;
}

/* Whether the home knows all that is known here: of what was told before more became known it does
 * not. The round of NOTED is no answer to an ask. */
static void hear_noted(struct region_barriers *barriers, struct region_barrier *barrier,
                       const struct region_message *message)
{
    const struct region_barrier_word *word = &message->barrier;

    barrier->is_noted =
        (word->is_broken || !barrier->is_broken) && word->round >= barrier_latest_round(barrier);
    if (!barrier->is_noted) {
        barrier_tell_home(barriers, barrier);
    }
}

void barrier_take_noted(struct region_barriers *barriers, const struct region_message *message)
{
    const struct region_barrier_word *word = &message->barrier;
    struct region_barrier *barrier = barrier_find(barriers, word->number);

    if (message->peer != barriers->home) {
        return;
    }
    if (barrier == NULL || !region_version_equal(&barrier->birth, &message->base)) {
        say_nobody_takes_part(barriers, &message->base, word->number);
        return;
    }
    if (message->status != NIGH_OK) {
        barrier_end(barriers, barrier, message->status);
        return;
    }
    if (barrier->is_owed && !barrier->is_noted) {
        hear_noted(barriers, barrier, message);
    } else if (!barrier_has_parties(barrier)) {
        say_nobody_takes_part(barriers, &message->base, word->number);
    } else {
        barrier->is_taker = true; /* of who took part before, perhaps, and left */
    }
    forget_if_noted(barrier, word->is_broken);
    barrier_go_on(barriers, barrier);
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
            barrier_drop_child(container_of(node, struct barrier_child, link));
        }
    }
    barriers->parent = parent;
    barriers->home = home;
    barriers->is_root = is_root;
    barriers->may_pass = barriers->knows_all = false;
    LIST_FOREACH_SAFE(at, &barriers->all)
    {
        barrier_go_on(barriers, container_of(at, struct region_barrier, link));
    }
}

/* What the home has noted it hears no more of: it asks who may have left, once it can say NOTED. */
static void link_home(struct region_barriers *barriers, struct region_barrier *barrier,
                      uint32_t rank)
{
    if (rank == barriers->home && barrier->is_owed && !barrier->is_noted) {
        barrier_tell_home(barriers, barrier);
    }
    if (region_set_has(&barrier->takers, rank) && barrier->is_owed) {
        region_set_add(&barrier->owing, rank);
    } else if (region_set_has(&barrier->takers, rank)) {
        say_noted(barriers, barrier, rank, NIGH_OK);
    }
    if (region_set_has(&barrier->unseen, rank)) {
        region_set_remove(&barrier->unseen, rank);
        forget_if_noted(barrier, barrier->is_broken);
    }
}

void region_barriers_link(struct region_barriers *barriers, uint32_t rank)
{
    LIST_FOREACH_SAFE(at, &barriers->all)
    {
        struct region_barrier *barrier = container_of(at, struct region_barrier, link);
        struct barrier_child *child = barrier_find_child(barrier, rank);

        link_home(barriers, barrier, rank);
        if (child != NULL) {
            barrier_say_passed(barriers, barrier, child, NIGH_OK);
        }
        if (rank == barriers->parent && barrier_is_in_tree(barrier)) {
            barrier->told = REGION_NOBODY;
            barrier_report(barriers, barrier);
        }
        (void)barrier_drop_if_over(barriers, barrier);
    }
}

void region_barriers_unlink(struct region_barriers *barriers, uint32_t rank)
{
    LIST_FOREACH(at, &barriers->all)
    {
        struct region_barrier *barrier = container_of(at, struct region_barrier, link);

        if (region_set_has(&barrier->before, rank)) {
            region_set_add(&barrier->unseen, rank);
        }
    }
}

void region_barriers_dead(struct region_barriers *barriers, uint32_t rank)
{
    LIST_FOREACH_SAFE(at, &barriers->all)
    {
        struct region_barrier *barrier = container_of(at, struct region_barrier, link);
        struct barrier_child *child = barrier_find_child(barrier, rank);

        if (child == NULL && barrier->told != rank && barriers->home != rank &&
            !region_set_has(&barrier->before, rank) && !region_set_has(&barrier->takers, rank)) {
            continue;
        }
        region_set_remove(&barrier->takers, rank);
        region_set_remove(&barrier->owing, rank);
        barrier_learn_broken(barriers, barrier);
        if (child != NULL) {
            barrier_drop_child(child);
            barrier_report(barriers, barrier);
        }
        barrier_go_on(barriers, barrier);
    }
}

void region_barriers_know(struct region_barriers *barriers)
{
    barriers->knows_all = barriers->is_root;
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
            barrier_go_on(barriers, barrier);
        } else {
            barrier_end(barriers, barrier, NIGH_NOT_FOUND);
        }
    }
}

void region_barriers_shut(struct region_barriers *barriers)
{
    barriers->may_pass = false;
}
