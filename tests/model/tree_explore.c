/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every interleaving of a source and some pullers of one object of two pieces, who ask, are served
 * or not as tree_judge (the production code) says, come further piece by piece, and are whole; and
 * who die, let go, find their bytes wrong, or lose patience with who serves them, each so often.
 *
 * A puller may ask anybody at any time: wherever others might send it.
 *
 * True, everywhere: nobody serves more at once than it may; nobody waits for itself, by however
 * many others; and as long as somebody has not got all, somebody can get on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "object/tree.h"
#include "support/support.h"

#define PULLERS 4u
#define NODES   (PULLERS + 1) /* the source is the last */
#define SOURCE  PULLERS
#define PIECES  2u
#define NOBODY  7u
#define PLACES  (1u << 24)

struct node {
    uint8_t is_gone, is_whole, has, parent;
};

struct state {
    struct node nodes[NODES];
    uint8_t deaths, spoils, losses; /* how often each may happen still */
};

static uint32_t fanout;
static uint64_t *seen;
static uint64_t *queue;
static uint32_t seen_count;

/* ---- states as numbers ----------------------------------------------------- */

static uint64_t pack(const struct state *state)
{
    uint64_t packed = 1;

    for (uint32_t n = 0; n < PULLERS; n++) {
        const struct node *node = &state->nodes[n];

        packed = packed << 7 | (uint64_t)(node->is_gone << 6 | node->is_whole << 5 |
                                          node->has << 3 | node->parent);
    }
    return packed << 6 | (uint64_t)(state->deaths << 4 | state->spoils << 2 | state->losses);
}

static struct state unpack(uint64_t packed)
{
    struct state state = {
        .deaths = packed >> 4 & 3, .spoils = packed >> 2 & 3, .losses = packed & 3};

    packed >>= 6;
    for (uint32_t n = PULLERS; n-- > 0; packed >>= 7) {
        state.nodes[n] = (struct node){.is_gone = packed >> 6 & 1,
                                       .is_whole = packed >> 5 & 1,
                                       .has = packed >> 3 & 3,
                                       .parent = packed & 7};
    }
    state.nodes[SOURCE] = (struct node){.is_whole = 1, .has = PIECES, .parent = NOBODY};
    return state;
}

static void reach(const struct state *state)
{
    uint64_t packed = pack(state);
    uint32_t at = (uint32_t)(packed * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (PLACES - 1);

    while (seen[at] != 0 && seen[at] != packed) {
        at = (at + 1) & (PLACES - 1);
    }
    if (seen[at] == 0) {
        assert_true(seen_count < PLACES / 2);
        seen[at] = packed;
        queue[seen_count++] = packed;
    }
}

/* ---- what happens ---------------------------------------------------------- */

static uint32_t children_of(const struct state *state, uint32_t who)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < PULLERS; n++) {
        count += state->nodes[n].parent == who;
    }
    return count;
}

/* It is served no more; what it has it keeps, or not. */
static void lose_seat(struct state *state, uint32_t who, bool is_spoilt)
{
    state->nodes[who].parent = NOBODY;
    if (is_spoilt) {
        state->nodes[who].has = 0;
    }
    for (uint32_t n = 0; n < PULLERS && state->nodes[who].has == 0; n++) {
        if (state->nodes[n].parent == who) {
            lose_seat(state, n, is_spoilt);
        }
    }
}

static bool ask(struct state *state, uint32_t who, uint32_t whom)
{
    const struct node *holder = &state->nodes[whom];
    struct tree_holder seen_as = {.is_whole = holder->is_whole,
                                  .is_fed = holder->parent != NOBODY,
                                  .has = holder->has,
                                  .children = children_of(state, whom),
                                  .fanout = fanout};

    if (who == whom || holder->is_gone ||
        tree_judge(&seen_as, state->nodes[who].has, false) != TREE_SERVE) {
        return false;
    }
    state->nodes[who].parent = (uint8_t)whom;
    return true;
}

static bool get_on(struct state *state, uint32_t who, uint32_t whom)
{
    struct node *node = &state->nodes[who];

    if (node->is_gone || node->is_whole) {
        return false;
    }
    if (node->parent == NOBODY) {
        return ask(state, who, whom);
    }
    if (whom != 0) {
        return false; /* the rest is asked of nobody */
    }
    if (node->has == PIECES && state->nodes[node->parent].is_whole) {
        node->is_whole = 1; /* its sums are right */
        node->parent = NOBODY;
        return true;
    }
    if (node->has < state->nodes[node->parent].has) {
        node->has++;
        return true;
    }
    return false;
}

static void go_wrong(const struct state *from, uint32_t who)
{
    const struct node *node = &from->nodes[who];
    struct state state = *from;

    if (node->is_gone) {
        return;
    }
    if (from->deaths > 0) {
        for (uint32_t n = 0; n < PULLERS; n++) {
            if (state.nodes[n].parent == who) {
                lose_seat(&state, n, false);
            }
        }
        state.nodes[who] = (struct node){.is_gone = 1, .parent = NOBODY};
        state.deaths--;
        reach(&state);
    }
    state = *from;
    if (from->spoils > 0 && !node->is_whole && node->has > 0) {
        for (uint32_t n = 0; n < PULLERS; n++) {
            if (state.nodes[n].parent == who) {
                lose_seat(&state, n, true);
            }
        }
        lose_seat(&state, who, true);
        state.spoils--;
        reach(&state);
    }
    state = *from;
    if (from->losses > 0 && node->parent != NOBODY) {
        lose_seat(&state, who, false);
        state.losses--;
        reach(&state);
    }
}

/* ---- what must hold -------------------------------------------------------- */

static void check(const struct state *state)
{
    for (uint32_t n = 0; n < NODES; n++) {
        uint32_t at = n, steps = 0;

        assert_true(children_of(state, n) <= fanout);
        for (; state->nodes[at].parent != NOBODY; steps++) {
            assert_true(steps < NODES); /* else it waits for itself */
            at = state->nodes[at].parent;
        }
    }
}

static bool is_over(const struct state *state)
{
    for (uint32_t n = 0; n < PULLERS; n++) {
        if (!state->nodes[n].is_gone && !state->nodes[n].is_whole) {
            return false;
        }
    }
    return true;
}

static void explore_from(const struct state *state)
{
    bool gets_on = is_over(state);

    check(state);
    for (uint32_t who = 0; who < PULLERS; who++) {
        for (uint32_t whom = 0; whom < NODES; whom++) {
            struct state next = *state;

            if (get_on(&next, who, whom)) {
                gets_on = true;
                reach(&next);
            }
        }
        go_wrong(state, who);
    }
    assert_true(gets_on);
}

static void everybody_gets_on(void **state)
{
    struct state first = {.deaths = 2, .spoils = 1, .losses = 2};

    (void)state;
    seen = malloc(PLACES * sizeof(*seen));
    queue = malloc(PLACES / 2 * sizeof(*queue));
    assert_true(seen != NULL && queue != NULL);
    for (uint32_t n = 0; n < PULLERS; n++) {
        first.nodes[n].parent = NOBODY;
    }
    for (fanout = 1; fanout <= 3; fanout++) {
        memset(seen, 0, PLACES * sizeof(*seen));
        seen_count = 0;
        reach(&first);
        for (uint32_t n = 0; n < seen_count; n++) {
            struct state from = unpack(queue[n]);

            explore_from(&from);
        }
        printf("# served at once %u: %u states\n", fanout, seen_count);
        assert_true(seen_count > 10000);
    }
    free(seen);
    free(queue);
}

/* ---- the rest of tree.h ---------------------------------------------------- */

static void who_was_sent_the_fewest_is_first(void **state)
{
    struct tree_seat seats[] = {{1, 3}, {2, 0}, {3, 2}, {4, 0}};

    (void)state;
    tree_order(seats, 4);
    assert_int_equal(seats[0].rank, 2);
    assert_int_equal(seats[1].rank, 4); /* as they stood, where that is equal */
    assert_int_equal(seats[2].rank, 3);
    assert_int_equal(seats[3].rank, 1);
}

static void who_climbs_in_vain_is_alone_at_last(void **state)
{
    struct tree_climb climb = {0};

    (void)state;
    assert_true(tree_sent(&climb, 1000));
    assert_false(tree_is_tired(&climb, 1000 + LIMIT_TREE_PATIENCE_US));
    assert_true(tree_is_tired(&climb, 1001 + LIMIT_TREE_PATIENCE_US));
    tree_in_vain(&climb);
    tree_fed(&climb, 5000); /* what came makes up for it */
    for (uint32_t n = 0; n < LIMIT_TREE_TRIES; n++) {
        assert_false(climb.alone);
        tree_in_vain(&climb);
    }
    assert_true(climb.alone);
    for (uint32_t n = 0; n < LIMIT_TREE_HOPS; n++) {
        assert_true(tree_sent(&climb, 6000));
    }
    assert_false(tree_sent(&climb, 6000));
}

static void who_is_alone_is_served_by_who_has_all(void **state)
{
    struct tree_holder holder = {.is_whole = true, .children = 9, .fanout = 2};

    (void)state;
    assert_int_equal(tree_judge(&holder, 0, true), TREE_SERVE);
    assert_int_equal(tree_judge(&holder, 0, false), TREE_SEND_ON);
    holder = (struct tree_holder){.is_fed = true, .has = 100, .fanout = 2};
    assert_int_equal(tree_judge(&holder, 0, true), TREE_NOT_HERE);
    assert_int_equal(tree_judge(&holder, 99, false), TREE_SERVE);
    assert_int_equal(tree_judge(&holder, 100, false), TREE_NOT_YET);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_gets_on),
        cmocka_unit_test(who_was_sent_the_fewest_is_first),
        cmocka_unit_test(who_climbs_in_vain_is_alone_at_last),
        cmocka_unit_test(who_is_alone_is_served_by_who_has_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
