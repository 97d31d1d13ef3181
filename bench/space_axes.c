/* SPDX-License-Identifier: Apache-2.0 */
/* See space_axes.h. */
#include "space_axes.h"

#include <string.h>

#include "base/random.h"
#include "harness.h"
#include "space_lru.h"

#define BLOCK_BYTES   512u
#define WORDS         (BLOCK_BYTES / 8)
#define OPS_A_LOOK    32u /* at whether it is over */
#define REPLAYED      20000u
#define REPLAYED_WARM 10000u

/* Where one thread is. */
struct walk {
    const struct axes *axes;
    const nigh_space_address *homes;
    struct random random;
    uint32_t rank;
    nigh_space_address last; /* 0: none yet */
};

static bool falls(struct walk *walk, enum axis axis)
{
    return random_below(&walk->random, 100) < walk->axes->percent[axis];
}

static uint32_t home_of(struct walk *walk)
{
    uint32_t others = walk->axes->nodes - 1;

    return falls(walk, AXIS_REMOTE)
               ? (walk->rank + 1 + (uint32_t)random_below(&walk->random, others)) %
                     walk->axes->nodes
               : walk->rank;
}

static nigh_space_address anywhere(struct walk *walk)
{
    nigh_space_address home = walk->homes[home_of(walk)];
    uint64_t half = SPACE_NODES_MOST * AXES_PART_BLOCKS, block;

    block = falls(walk, AXIS_SHARED) ? random_below(&walk->random, half)
                                     : half + walk->rank * AXES_PART_BLOCKS +
                                           random_below(&walk->random, AXES_PART_BLOCKS);
    return home + block * BLOCK_BYTES + random_below(&walk->random, WORDS) * 8;
}

static nigh_space_address step(struct walk *walk)
{
    if (walk->last == 0 || !falls(walk, AXIS_TIME)) {
        walk->last = walk->last != 0 && falls(walk, AXIS_SPACE)
                         ? (walk->last & ~(nigh_space_address)(BLOCK_BYTES - 1)) +
                               random_below(&walk->random, WORDS) * 8
                         : anywhere(walk);
    }
    return walk->last;
}

/* ---- all axes ------------------------------------------------------------- */

/* What an order has of them. */
struct job {
    struct axes axes;
    nigh_space_address homes[SPACE_NODES_MOST];
};

_Static_assert(sizeof(struct job) <= SPACE_NODES_MORE * sizeof(uint64_t), "an order has room");

static uint64_t run_until(struct space_nodes *nodes, uint32_t space, struct walk *walk,
                          uint64_t end_ns, uint64_t *reads)
{
    nigh_space *at = nodes->spaces[space];
    uint64_t count = 0, value = 0;

    while (space_nodes_lasts(nodes) && (count % OPS_A_LOOK != 0 || bench_now_ns() < end_ns)) {
        nigh_space_address address = step(walk);

        if (falls(walk, AXIS_READS)) {
            bench_check(nigh_space_read(at, address, &value, 8, SPACE_NODES_WAIT), "a read");
            ++*reads;
        } else {
            bench_check(nigh_space_write(at, address, &count, 8, SPACE_NODES_WAIT), "a write");
        }
        count++;
    }
    bench_check(nigh_space_fence(at, SPACE_NODES_WAIT), "a fence");
    return count;
}

static uint64_t run_one(struct space_nodes *nodes, const struct space_order *order, uint64_t end_ns,
                        uint64_t *reads)
{
    struct walk walk = {.rank = nodes->rank};
    struct job job;

    memcpy(&job, order->more, sizeof job);
    walk.axes = &job.axes;
    walk.homes = job.homes;
    random_init(&walk.random, 1 + nodes->rank);
    return run_until(nodes, order->space, &walk, end_ns, reads);
}

static void carry_axes(struct space_nodes *nodes, const struct space_order *order)
{
    uint64_t reads = 0;

    atomic_store(&nodes->shared->one[nodes->rank].told, run_one(nodes, order, UINT64_MAX, &reads));
}

void axes_prepare(struct space_nodes *nodes, uint32_t space, nigh_space_address *homes)
{
    for (uint32_t rank = 0; rank < nodes->count; rank++) {
        homes[rank] =
            space_nodes_alloc(nodes, space, rank, (uint64_t)AXES_HOME_BLOCKS * BLOCK_BYTES);
    }
}

void axes_run(struct space_nodes *nodes, uint32_t space, const nigh_space_address *homes,
              const struct axes *axes, uint32_t milliseconds, struct axes_result *result)
{
    struct space_order order = {.carry = carry_axes, .space = space};
    uint64_t asked = space_nodes_stats(nodes).space_reads, reads = 0, begin_ns, count;
    struct job job = {.axes = *axes};

    memcpy(job.homes, homes, sizeof job.homes);
    memcpy(order.more, &job, sizeof job);
    space_nodes_last(nodes, true);
    begin_ns = bench_now_ns();
    for (uint32_t rank = 1; rank < axes->nodes; rank++) {
        space_nodes_begin(nodes, rank, &order);
    }
    count = run_one(nodes, &order, begin_ns + milliseconds * UINT64_C(1000000), &reads);
    space_nodes_last(nodes, false);
    for (uint32_t rank = 1; rank < axes->nodes; rank++) {
        space_nodes_wait(nodes, rank);
        count += atomic_load(&nodes->shared->one[rank].told);
    }
    result->ops_s = (double)count * 1e9 / (double)(bench_now_ns() - begin_ns);
    asked = space_nodes_stats(nodes).space_reads - asked;
    result->hits = reads > 0 ? 1 - (double)asked / (double)reads : 1;
}

/* ---- against exact LRU ---------------------------------------------------- */

void axes_replay(struct space_nodes *nodes, uint32_t space, nigh_space_address area,
                 uint32_t blocks, uint32_t frames, const struct axes *axes,
                 struct axes_hits *result)
{
    nigh_space *at = nodes->spaces[space];
    nigh_space_address address = area;
    uint64_t value, asked = 0, found = 0;
    struct random random;
    struct lru lru;

    random_init(&random, 1);
    lru_begin(&lru, blocks, frames);
    for (uint32_t n = 0; n < REPLAYED_WARM + REPLAYED; n++) {
        bool is_again = random_below(&random, 100) < axes->percent[AXIS_TIME];
        uint64_t block = (address - area) / BLOCK_BYTES;

        if (n == REPLAYED_WARM) {
            asked = space_nodes_stats(nodes).space_reads;
        }
        if (!is_again) {
            block = random_below(&random, 100) < axes->percent[AXIS_SPACE]
                        ? block
                        : random_below(&random, blocks);
            address = area + block * BLOCK_BYTES + random_below(&random, WORDS) * 8;
        }
        bench_check(nigh_space_read(at, address, &value, 8, SPACE_NODES_WAIT), "a read");
        found += lru_use(&lru, (uint32_t)block) && n >= REPLAYED_WARM;
    }
    asked = space_nodes_stats(nodes).space_reads - asked;
    *result =
        (struct axes_hits){.ours = 1 - (double)asked / REPLAYED, .lru = (double)found / REPLAYED};
    lru_end(&lru);
}
