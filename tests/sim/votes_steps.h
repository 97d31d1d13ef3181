/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of who votes do to their members; a test has one world. */
#ifndef SIM_VOTES_STEPS_H
#define SIM_VOTES_STEPS_H

#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cluster/agree_internal.h"
#include "views_world.h"

#define SECOND     UINT64_C(1000000)
#define REPLACE_US (AGREE_REPLACE_DEADS * world.dead_us)

static struct views_world world;

static inline void run(uint64_t us)
{
    if (!views_run(&world, world.now_us + us)) {
        fail_msg("%s, at %llu us", world.broken, (unsigned long long)world.now_us);
    }
}

static inline bool lives(uint32_t rank)
{
    return world.nodes[rank].agree != NULL;
}

static inline struct agreed_set the_living(void)
{
    struct agreed_set set = views_everybody(&world);

    for (uint32_t rank = 0; rank < world.count; rank++) {
        agreed_put(&set, rank, agreed_has(&set, rank) && lives(rank));
    }
    return set;
}

/* All that live are in one active view. */
static inline void settle(uint64_t within_us)
{
    struct agreed_set in = the_living();
    uint64_t until_us = world.now_us + within_us;

    while (!views_settled(&world, &in)) {
        if (world.now_us >= until_us) {
            views_print(&world);
            fail_msg("not settled after %llu us", (unsigned long long)within_us);
        }
        run(SECOND / 100);
    }
}

static inline uint64_t voters(void)
{
    return views_voters(&world).words[0];
}

static inline void await_voters(uint64_t wanted, uint64_t within_us)
{
    uint64_t until_us = world.now_us + within_us;

    while (voters() != wanted) {
        if (world.now_us >= until_us) {
            views_print(&world);
            fail_msg("%llx vote, not %llx, after %llu us", (unsigned long long)voters(),
                     (unsigned long long)wanted, (unsigned long long)within_us);
        }
        run(SECOND / 100);
    }
}

static inline void init(uint32_t listed, uint32_t count, uint64_t seed)
{
    views_init(&world, count, seed);
    world.listed = listed;
}

static inline void begin(uint32_t listed, uint32_t count, uint64_t seed)
{
    init(listed, count, seed);
    for (uint32_t rank = 0; rank < listed; rank++) {
        views_start(&world, rank);
    }
    settle(10 * SECOND);
}

static inline void join(uint32_t joiner)
{
    uint64_t until_us = world.now_us + 10 * SECOND;
    uint32_t via = 0;

    while (!lives(via)) {
        via++;
    }
    views_join(&world, joiner, via);
    while (world.joiners[joiner].rank == AGREE_NOBODY) {
        assert_true(world.now_us < until_us);
        run(SECOND / 100);
    }
    settle(10 * SECOND);
}

static inline uint32_t leader(void)
{
    for (uint32_t rank = 0; rank < world.count; rank++) {
        if (lives(rank) && world.nodes[rank].agree->leads) {
            return rank;
        }
    }
    return AGREE_NOBODY;
}

static inline uint32_t await_leader(void)
{
    for (uint32_t n = 0; leader() == AGREE_NOBODY; n++) {
        assert_true(n < 1000);
        run(SECOND / 100);
    }
    return leader();
}

static inline void on_change(struct raft_change *request, int status)
{
    (void)request;
    (void)status;
}

/* One entry of the log; until the leader has it decided. */
static inline void add_entry(struct agree *agree)
{
    uint64_t applied = agree->raft.last_applied;

    assert_true(agree_raft_barrier(agree));
    agree_run_later(agree);
    for (uint32_t n = 0; agree->raft.last_applied == applied; n++) {
        assert_true(n < 100000);
        run(1);
    }
}

/* From side to side nothing comes. */
static inline void cut_off(uint64_t side, bool cut)
{
    for (uint32_t from = 0; from < world.count; from++) {
        for (uint32_t to = 0; to < world.count; to++) {
            world.cut[from][to] = cut && ((side >> from & 1) != (side >> to & 1));
        }
    }
}

static inline void leave(uint32_t rank, bool leaves)
{
    agree_leave(world.nodes[rank].agree, leaves, world.now_us);
    world.nodes[rank].due_us = world.now_us;
}

#endif
