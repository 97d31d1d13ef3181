/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces between embedded nodes over TCP: what a word costs that is here, that is at the own home,
 * that another node has; writes, fences, atomics and locks; beside memcpy, a plain seqlock with a
 * look-up and without, a mutex of pthreads, nigh's own calls, and MPI's one-sided operations over
 * TCP, which have no cache. And GAM's micro-benchmark on two to four nodes, and how much of it is
 * found here, against exact LRU of the same trace. And what it costs that a space is durable.
 *
 * Two nodes spin, each beside one core; four sleep, on all cores; and a nighd on core 1 that has a
 * client on core 0. Rounds of all that is compared alternate, and each is compared with its floor's
 * of the same turn. What takes nanoseconds is timed by many at once.
 *
 * bench-space NIGHD MPI-HELPER|- OUT.json [ROUNDS]; -: without MPI
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "harness.h"
#include "region_ranks.h"
#include "space_axes.h"
#include "space_durable.h"
#include "space_nodes.h"
#include "space_others.h"
#include "space_plain.h"

#define KIB           UINT64_C(1024)
#define MIB           (KIB * KIB)
#define ROUNDS        15
#define SETTLE_US     6000
#define NO_FLOOR      (-1)
#define BLOCK         512u
#define MANY          100000u /* blocks that are read at random */
#define HOT           1000u   /* and those of them that are hot */
#define READS         100000u
#define BATCH         1000u /* of those that are timed at once */
#define FEW           16u   /* that the first cache has, with all that belongs to them */
#define BURST         500u  /* writes in a row, for which there is room */
#define BURSTS        16u
#define FLOOD         20000u
#define FLOODS        5u
#define OPS           200u /* of a round, that take microseconds */
#define RELOCKS       2000u
#define RELOCKS_BATCH 100u
#define LONG_BYTES    65536u /* of a read of many blocks */
#define LONGS         25u
#define TRACE         2000u /* of which some are misses, */
#define TRACE_BATCH   100u  /* and which are timed so many at once */
#define WALK_BLOCKS   8192u /* of which the small cache has an eighth */
#define SMALL_CACHE   (512 * KIB)
#define NEAR_BLOCKS   1024u
#define TRACE_HOT     300u
#define CELL_MS       100
#define BIG           0 /* spaces: all that is read is kept there, */
#define SMALL         1 /* and little of it here */

static const nigh_space_spec specs[SPACE_NODES_SPACE] = {
    {.struct_size = sizeof(nigh_space_spec),
     .name = "big",
     .home_size = 64 * MIB,
     .cache_size = 96 * MIB,
     .block_size = BLOCK},
    {.struct_size = sizeof(nigh_space_spec),
     .name = "small",
     .home_size = 8 * MIB,
     .cache_size = SMALL_CACHE,
     .block_size = BLOCK},
};

static struct space_nodes pair, four;
static struct bench_node daemon_node;
static nigh_client *daemon_client;
static nigh_space *daemon_space;
static nigh_space_address daemon_area;
static struct ranks ranks;
static struct space_plain plain;

/* Of the pair: blocks of node 1's home that are here to be read, or to be written; those of the
 * small space there and here, and a word and a block of their own. */
static nigh_space_address many, owned, far, near, counter, locked;
/* Of the four. */
static nigh_space_address third, four_counter, four_locked;
static uint32_t orders[2][READS]; /* of blocks: hot, all */
static uint32_t walked;
static volatile uint64_t sink;

struct series {
    const char *name, *unit, *path;
    void (*run)(struct series *series, struct samples *round);
    uint32_t which;      /* what it says of it is at `run` */
    int floor;           /* its number, or NO_FLOOR */
    double target;       /* of the median; 0: none */
    double ratio;        /* likewise, of the floor's */
    bool by_mean;        /* it is means that are compared */
    bool is_faster;      /* the floor's, of its own: how often as fast it is, and more is better */
    bool is_rate;        /* more is better */
    bool is_mpi;         /* or compared to that: nothing without the ranks */
    const char *counted; /* what is counted of it */
    double count_target;
    struct samples samples, ratios, counts;
    double median; /* of the last round */
};

/* How many of a hundred reads found what they read here, when so many did not since the node had
 * counted `before`. */
static void count_found(struct series *series, uint64_t before, uint32_t reads)
{
    uint64_t asked = space_nodes_stats(&pair).space_reads - before;

    samples_add(&series->counts, 100 - 100 * (double)asked / reads);
}

/* ---- what is read and written here ---------------------------------------- */

static nigh_space *big(void)
{
    return pair.spaces[BIG];
}

static nigh_space *small(void)
{
    return pair.spaces[SMALL];
}

static uint64_t read_word(nigh_space *space, nigh_space_address address)
{
    uint64_t value = 0;
    nigh_status status = nigh_space_read(space, address, &value, 8, SPACE_NODES_WAIT);

    if (__builtin_expect(status != NIGH_OK, 0)) {
        bench_check(status, "a read");
    }
    return value;
}

static void write_word(nigh_space *space, nigh_space_address address, uint64_t value)
{
    nigh_status status = nigh_space_write(space, address, &value, 8, SPACE_NODES_WAIT);

    if (__builtin_expect(status != NIGH_OK, 0)) {
        bench_check(status, "a write");
    }
}

static void fence(nigh_space *space)
{
    bench_check(nigh_space_fence(space, SPACE_NODES_WAIT), "a fence");
}

static void add_mean(struct samples *round, uint64_t begin_ns, uint32_t count)
{
    samples_add(round, (double)(bench_now_ns() - begin_ns) / count);
}

/* READS of them, or `count`; `some` is inlined. */
static inline __attribute__((always_inline)) void
batches(struct samples *round, uint32_t count,
        uint64_t (*some)(uint32_t first, const uint32_t *order), const uint32_t *order)
{
    uint64_t sum = 0;

    for (uint32_t first = 0; first < count; first += BATCH) {
        uint64_t begin_ns = bench_now_ns();

        sum += some(first, order);
        add_mean(round, begin_ns, BATCH);
    }
    sink = sum;
}

static inline uint64_t some_hits(uint32_t first, const uint32_t *order)
{
    nigh_space *space = big();
    uint64_t sum = 0;

    for (uint32_t n = first; n < first + BATCH; n++) {
        sum += read_word(space, many + (uint64_t)order[n] * BLOCK + n % 64 * 8);
    }
    return sum;
}

static void run_hits(struct series *series, struct samples *round)
{
    uint64_t asked = space_nodes_stats(&pair).space_reads;

    batches(round, READS, some_hits, orders[series->which]);
    count_found(series, asked, READS);
}

/* Called, as what a library has is. */
static __attribute__((noinline)) uint64_t read_plain(nigh_space_address address)
{
    return space_plain_find_and_read(&plain, address);
}

static inline uint64_t some_plain(uint32_t first, const uint32_t *order)
{
    uint64_t sum = 0;

    for (uint32_t n = first; n < first + BATCH; n++) {
        sum += read_plain(many + (uint64_t)order[n] * BLOCK + n % 64 * 8);
    }
    return sum;
}

static void run_plain(struct series *series, struct samples *round)
{
    batches(round, READS, some_plain, orders[series->which]);
}

static inline uint64_t some_known(uint32_t first, const uint32_t *order)
{
    uint64_t sum = 0;

    for (uint32_t n = first; n < first + BATCH; n++) {
        sum += space_plain_read(&plain.blocks[order[n]], n % 64 * 8);
    }
    return sum;
}

static void run_plain_known(struct series *series, struct samples *round)
{
    batches(round, READS, some_known, orders[series->which]);
}

static inline uint64_t some_near(uint32_t first, const uint32_t *order)
{
    nigh_space *space = small();
    uint64_t sum = 0;

    for (uint32_t n = first; n < first + BATCH; n++) {
        sum += read_word(space, near + (uint64_t)(order[n] % NEAR_BLOCKS) * BLOCK + n % 64 * 8);
    }
    return sum;
}

static void run_near(struct series *series, struct samples *round)
{
    batches(round, READS, some_near, orders[series->which]);
}

/* Blocks of 512 bytes. */
static inline uint64_t some_blocks(uint32_t first, const uint32_t *order)
{
    nigh_space *space = big();
    uint8_t block[BLOCK];
    uint64_t sum = 0;

    for (uint32_t n = first; n < first + BATCH; n++) {
        bench_check(nigh_space_read(space, many + (uint64_t)order[n] * BLOCK, block, sizeof block,
                                    SPACE_NODES_WAIT),
                    "a read");
        sum += block[n % BLOCK];
    }
    return sum;
}

static void run_blocks(struct series *series, struct samples *round)
{
    batches(round, READS / 8, some_blocks, orders[series->which]);
}

static inline uint64_t some_copies(uint32_t first, const uint32_t *order)
{
    uint8_t block[BLOCK];
    uint64_t sum = 0;

    for (uint32_t n = first; n < first + BATCH; n++) {
        memcpy(block, (const void *)plain.blocks[order[n]].words, sizeof block);
        __asm__ volatile("" ::"r"(block) : "memory");
        sum += block[n % BLOCK];
    }
    return sum;
}

static void run_memcpy(struct series *series, struct samples *round)
{
    batches(round, READS / 8, some_copies, orders[series->which]);
}

/* Those that are here to be written, all of them in turn. */
static void burst(nigh_space *space, nigh_space_address area, uint32_t count, uint32_t blocks)
{
    for (uint32_t n = 0; n < count; n++) {
        write_word(space, area + (uint64_t)(orders[0][n % READS] % blocks) * BLOCK + n % 64 * 8, n);
    }
}

static void run_writes(struct series *series, struct samples *round)
{
    (void)series;
    for (uint32_t n = 0; n < BURSTS; n++) {
        uint64_t begin_ns = bench_now_ns();

        burst(big(), owned, BURST, HOT);
        add_mean(round, begin_ns, BURST);
        fence(big());
    }
}

static inline uint64_t some_plain_writes(uint32_t first, const uint32_t *order)
{
    for (uint32_t n = first; n < first + BATCH; n++) {
        space_plain_write(&plain.blocks[order[n]], n % 64 * 8, n);
    }
    return 0;
}

static void run_plain_writes(struct series *series, struct samples *round)
{
    batches(round, READS, some_plain_writes, orders[series->which]);
}

/* Millions a second, from the first that is written to the last that is applied. */
static void flood(struct samples *round, nigh_space *space, nigh_space_address area,
                  uint32_t blocks)
{
    for (uint32_t n = 0; n < FLOODS; n++) {
        uint64_t begin_ns = bench_now_ns();

        burst(space, area, FLOOD, blocks);
        fence(space);
        samples_add(round, FLOOD * 1e3 / (double)(bench_now_ns() - begin_ns));
    }
}

static void run_flood(struct series *series, struct samples *round)
{
    (void)series;
    flood(round, big(), owned, HOT);
}

/* What each takes where what the lane touches for it is in the first cache. */
static void run_flood_of_few(struct series *series, struct samples *round)
{
    (void)series;
    flood(round, big(), owned, FEW);
}

static void run_daemon_flood(struct series *series, struct samples *round)
{
    (void)series;
    flood(round, daemon_space, daemon_area, HOT);
}

static inline uint64_t some_fences(uint32_t first, const uint32_t *order)
{
    nigh_space *space = big();

    (void)order;
    for (uint32_t n = first; n < first + BATCH; n++) {
        fence(space);
    }
    return 0;
}

static void run_fences(struct series *series, struct samples *round)
{
    batches(round, READS, some_fences, orders[series->which]);
}

static inline uint64_t some_plain_fences(uint32_t first, const uint32_t *order)
{
    (void)order;
    for (uint32_t n = first; n < first + BATCH; n++) {
        atomic_thread_fence(memory_order_seq_cst);
    }
    return 0;
}

static void run_plain_fences(struct series *series, struct samples *round)
{
    batches(round, READS, some_plain_fences, orders[series->which]);
}

/* ---- what another node has ------------------------------------------------ */

/* So many, a fifth more before those that are told: both sides are awake then. */
static void sample(struct samples *round, uint32_t count, void (*op)(uint32_t n))
{
    for (uint32_t n = 0; n < count + count / 5; n++) {
        uint64_t begin_ns = bench_now_ns();

        op(n);
        if (n >= count / 5) {
            samples_add(round, (double)(bench_now_ns() - begin_ns));
        }
    }
}

/* A block of node 1's home that has not been used here for long. */
static nigh_space_address walk(void)
{
    return far + (uint64_t)(walked++ % WALK_BLOCKS) * BLOCK;
}

static void call_once(uint32_t n)
{
    (void)n;
    space_nodes_call(&pair);
}

static void run_calls(struct series *series, struct samples *round)
{
    (void)series;
    sample(round, OPS, call_once);
}

static void read_once(uint32_t n)
{
    (void)n;
    sink = read_word(small(), walk());
}

static void run_misses(struct series *series, struct samples *round)
{
    (void)series;
    sample(round, OPS, read_once);
}

static void write_once(uint32_t n)
{
    write_word(small(), walk(), n);
    fence(small());
}

static void run_write_misses(struct series *series, struct samples *round)
{
    (void)series;
    sample(round, OPS, write_once);
}

static void run_upgrades(struct series *series, struct samples *round)
{
    (void)series;
    for (uint32_t n = 0; n < OPS; n++) {
        nigh_space_address address = walk();
        uint64_t begin_ns;

        sink = read_word(small(), address);
        begin_ns = bench_now_ns();
        write_word(small(), address, n);
        fence(small());
        samples_add(round, (double)(bench_now_ns() - begin_ns));
    }
}

/* By another node: these blocks are its alone. */
static void carry_writes(struct space_nodes *nodes, const struct space_order *order)
{
    nigh_space *space = nodes->spaces[order->space];

    for (uint32_t n = 0; n < order->count; n++) {
        write_word(space, order->address + n * order->stride, n);
    }
    fence(space);
}

static void have_written(struct space_nodes *nodes, uint32_t rank, nigh_space_address address,
                         uint32_t count)
{
    struct space_order order = {
        .carry = carry_writes, .space = SMALL, .address = address, .stride = BLOCK, .count = count};

    space_nodes_do(nodes, rank, &order);
}

static void read_near_once(uint32_t n)
{
    sink = read_word(small(), near + (uint64_t)n * BLOCK);
}

static void run_fetches(struct series *series, struct samples *round)
{
    (void)series;
    have_written(&pair, 1, near, OPS + OPS / 5);
    sample(round, OPS, read_near_once);
}

static void add_once(uint32_t n)
{
    (void)n;
    bench_check(nigh_space_fetch_add(small(), counter, 1, SPACE_NODES_WAIT, NULL), "an addition");
}

static void run_adds(struct series *series, struct samples *round)
{
    (void)series;
    sample(round, OPS, add_once);
}

static void carry_adds(struct space_nodes *nodes, const struct space_order *order)
{
    while (space_nodes_lasts(nodes)) {
        bench_check(nigh_space_fetch_add(nodes->spaces[order->space], order->address, 1,
                                         SPACE_NODES_WAIT, NULL),
                    "an addition");
    }
}

static void run_contended_adds(struct series *series, struct samples *round)
{
    struct space_order order = {.carry = carry_adds, .space = SMALL, .address = counter};

    (void)series;
    space_nodes_last(&pair, true);
    space_nodes_begin(&pair, 1, &order);
    sample(round, OPS, add_once);
    space_nodes_last(&pair, false);
    space_nodes_wait(&pair, 1);
}

/* ---- locks ---------------------------------------------------------------- */

static void lock_once(nigh_space *space, nigh_space_address address)
{
    bench_check(nigh_space_lock_write(space, address, 1, SPACE_NODES_WAIT), "a lock");
    bench_check(nigh_space_unlock(space, address, 1, SPACE_NODES_WAIT), "a lock's end");
}

static void relock(struct samples *round, nigh_space *space, nigh_space_address address)
{
    /* What a thread has locked twice it keeps. */
    lock_once(space, address);
    lock_once(space, address);
    for (uint32_t first = 0; first < RELOCKS; first += RELOCKS_BATCH) {
        uint64_t begin_ns = bench_now_ns();

        for (uint32_t n = 0; n < RELOCKS_BATCH; n++) {
            lock_once(space, address);
        }
        add_mean(round, begin_ns, RELOCKS_BATCH);
    }
}

static void run_relocks(struct series *series, struct samples *round)
{
    (void)series;
    relock(round, small(), locked);
}

static void run_daemon_relocks(struct series *series, struct samples *round)
{
    (void)series;
    relock(round, daemon_space, daemon_area);
}

/* Of so many that none is kept. */
static void run_locks(struct series *series, struct samples *round)
{
    (void)series;
    for (uint32_t first = 0; first < RELOCKS; first += RELOCKS_BATCH) {
        uint64_t begin_ns = bench_now_ns();

        for (uint32_t n = first; n < first + RELOCKS_BATCH; n++) {
            lock_once(small(), near + (uint64_t)(n % NEAR_BLOCKS) * BLOCK);
        }
        add_mean(round, begin_ns, RELOCKS_BATCH);
    }
}

static inline uint64_t some_mutexes(uint32_t first, const uint32_t *order)
{
    (void)order;
    for (uint32_t n = first; n < first + BATCH; n++) {
        others_lock();
        others_unlock();
    }
    return 0;
}

static void run_mutex(struct series *series, struct samples *round)
{
    batches(round, READS / 8, some_mutexes, orders[series->which]);
}

static void carry_locks(struct space_nodes *nodes, const struct space_order *order)
{
    while (space_nodes_lasts(nodes)) {
        lock_once(nodes->spaces[order->space], order->address);
    }
}

static void lock_far_once(uint32_t n)
{
    (void)n;
    lock_once(small(), locked);
}

static void run_handoffs(struct series *series, struct samples *round)
{
    struct space_order order = {.carry = carry_locks, .space = SMALL, .address = locked};

    (void)series;
    space_nodes_last(&pair, true);
    space_nodes_begin(&pair, 1, &order);
    sample(round, OPS, lock_far_once);
    space_nodes_last(&pair, false);
    space_nodes_wait(&pair, 1);
}

static void mutex_once(uint32_t n)
{
    (void)n;
    others_lock();
    others_unlock();
}

static void run_contended_mutex(struct series *series, struct samples *round)
{
    (void)series;
    others_contend(true);
    sample(round, RELOCKS, mutex_once);
    others_contend(false);
}

/* ---- four nodes ----------------------------------------------------------- */

static void call_four_once(uint32_t n)
{
    (void)n;
    space_nodes_call(&four);
}

static void run_calls_of_four(struct series *series, struct samples *round)
{
    (void)series;
    sample(round, OPS, call_four_once);
}

static void read_third_once(uint32_t n)
{
    sink = read_word(four.spaces[SMALL], third + (uint64_t)n * BLOCK);
}

/* The home is node 1; node 2 has them. */
static void run_three_hops(struct series *series, struct samples *round)
{
    (void)series;
    have_written(&four, 2, third, OPS + OPS / 5);
    sample(round, OPS, read_third_once);
}

static void run_two_hops(struct series *series, struct samples *round)
{
    (void)series;
    have_written(&four, 1, third, OPS + OPS / 5);
    sample(round, OPS, read_third_once);
}

static void add_four_once(uint32_t n)
{
    (void)n;
    bench_check(nigh_space_fetch_add(four.spaces[SMALL], four_counter, 1, SPACE_NODES_WAIT, NULL),
                "an addition");
}

static void run_adds_of_four(struct series *series, struct samples *round)
{
    struct space_order order = {.carry = carry_adds, .space = SMALL, .address = four_counter};

    (void)series;
    space_nodes_last(&four, true);
    for (uint32_t rank = 1; rank < four.count; rank++) {
        space_nodes_begin(&four, rank, &order);
    }
    sample(round, OPS, add_four_once);
    space_nodes_last(&four, false);
    for (uint32_t rank = 1; rank < four.count; rank++) {
        space_nodes_wait(&four, rank);
    }
}

/* Node 1's turn of two. */
static void carry_turns(struct space_nodes *nodes, const struct space_order *order)
{
    _Atomic uint32_t *turn = &nodes->shared->turn;

    for (uint32_t n = 0; n < order->count; n++) {
        while (atomic_load(turn) != 1) {
            bench_word_wait(turn, 0);
        }
        lock_once(nodes->spaces[order->space], order->address);
        bench_word_set(turn, 0);
    }
}

/* What the other node locked last, and has given back: it is wanted from there. */
static void run_turns(struct series *series, struct samples *round)
{
    struct space_order order = {
        .carry = carry_turns, .space = SMALL, .address = four_locked, .count = OPS};
    _Atomic uint32_t *turn = &four.shared->turn;

    (void)series;
    atomic_store(turn, 1);
    space_nodes_begin(&four, 1, &order);
    for (uint32_t n = 0; n < OPS; n++) {
        uint64_t begin_ns;

        while (atomic_load(turn) != 0) {
            bench_word_wait(turn, 1);
        }
        begin_ns = bench_now_ns();
        lock_once(four.spaces[SMALL], four_locked);
        samples_add(round, (double)(bench_now_ns() - begin_ns));
        if (n + 1 < OPS) {
            bench_word_set(turn, 1);
        }
    }
    space_nodes_wait(&four, 1);
}

/* ---- MPI, and what a cache saves ------------------------------------------ */

static void run_mpi(struct series *series, struct samples *round)
{
    static const char *const ops[] = {"get", "put", "add"};

    samples_add(&series->counts, ranks_round(&ranks, ops[series->which], 8, OPS, round));
}

static void run_mpi_long(struct series *series, struct samples *round)
{
    samples_add(&series->counts, ranks_round(&ranks, "get", LONG_BYTES, LONGS, round));
}

static void read_long_once(uint32_t n)
{
    static uint8_t bytes[LONG_BYTES];
    nigh_space_address address = walk();

    (void)n;
    walked += LONG_BYTES / BLOCK - 1;
    bench_check(nigh_space_read(small(), address, bytes, sizeof bytes, SPACE_NODES_WAIT), "a read");
}

static void run_long_reads(struct series *series, struct samples *round)
{
    (void)series;
    walked = (walked + LONG_BYTES / BLOCK - 1) / (LONG_BYTES / BLOCK) * (LONG_BYTES / BLOCK);
    sample(round, LONGS, read_long_once);
}

/* `which` of a hundred are here, the others of a walk. */
static void run_trace(struct series *series, struct samples *round)
{
    uint32_t hot = 0;
    uint64_t asked, sum = 0;

    for (uint32_t n = 0; n < TRACE_HOT; n++) {
        sum += read_word(small(), far + (uint64_t)(WALK_BLOCKS + n) * BLOCK);
    }
    asked = space_nodes_stats(&pair).space_reads;
    for (uint32_t first = 0; first < TRACE; first += TRACE_BATCH) {
        uint64_t begin_ns = bench_now_ns();

        for (uint32_t n = 0; n < TRACE_BATCH; n++) {
            bool is_here = n * 37 % 100 < series->which;

            sum += read_word(small(),
                             is_here ? far + (uint64_t)(WALK_BLOCKS + hot++ % TRACE_HOT) * BLOCK
                                     : walk());
        }
        add_mean(round, begin_ns, TRACE_BATCH);
    }
    count_found(series, asked, TRACE);
    sink = sum;
}

/* ---- what is measured ----------------------------------------------------- */

/* In the order in which they are measured: what one is compared to comes before it. */
enum {
    PLAIN_KNOWN,
    PLAIN_HOT,
    HIT_HOT,
    PLAIN_MANY,
    HIT_MANY,
    HIT_NEAR,
    MEMCPY,
    HIT_BLOCK,
    PLAIN_WRITE,
    WRITE,
    APPLIED,
    APPLIED_FEW,
    APPLIED_BY_DAEMON,
    PLAIN_FENCE,
    FENCE,
    MUTEX,
    LOCK,
    RELOCK,
    RELOCK_BY_DAEMON,
    MUTEX_CONTENDED,
    HANDOFF,
    CALL,
    MISS,
    WRITE_MISS,
    UPGRADE,
    FETCH,
    ADD,
    ADD_CONTENDED,
    MPI_GETS,
    MPI_PUTS,
    MPI_ADDS,
    MPI_LONG,
    LONG,
    TRACE_80,
    TRACE_95,
    CALL_OF_FOUR,
    TWO_HOPS,
    THREE_HOPS,
    ADD_OF_FOUR,
    TURNS,
    SERIES
};

#define ONE     "one thread, core 0"
#define CLIENT  "client alone, core 0, of an embedded node"
#define DRIVEN  "client on core 0, which drives its embedded node's lane"
#define DAEMON  "client on core 0, nighd on core 1, both spinning"
#define BOTH    "two embedded nodes, tcp, each beside a core, both spinning"
#define SLEEPY  "four embedded nodes, tcp, all blocking, client on core 0"
#define MPI     "Open MPI, btl tcp, osc pt2pt, a target that waits in MPI"
#define FOUND   "of 100 found here"
#define CARRIED "bytes of TCP"

/* What all have. */
#define IS(name_, unit_, path_, run_, which_, floor_)                                    \
    .name = (name_), .unit = (unit_), .path = (path_), .run = (run_), .which = (which_), \
    .floor = (floor_)

static struct series all[SERIES] = {
    [PLAIN_KNOWN] = {IS("seqlock, 8 B, 1,000 blocks", "ns", ONE, run_plain_known, 0, NO_FLOOR)},
    [PLAIN_HOT] = {IS("seqlock with look-up, 8 B, 1,000 blocks", "ns", ONE, run_plain, 0,
                      NO_FLOOR)},
    [HIT_HOT] = {IS("read hit, 8 B, 1,000 blocks", "ns", CLIENT, run_hits, 0, PLAIN_HOT),
                 .target = 40, .ratio = 3, .counted = FOUND},
    [PLAIN_MANY] = {IS("seqlock with look-up, 8 B, 100,000 blocks", "ns", ONE, run_plain, 1,
                       NO_FLOOR)},
    [HIT_MANY] = {IS("read hit, 8 B, 100,000 blocks", "ns", CLIENT, run_hits, 1, PLAIN_MANY),
                  .counted = FOUND},
    [HIT_NEAR] = {IS("read of the own home, 8 B, 1,000 blocks", "ns", CLIENT, run_near, 0,
                     PLAIN_HOT)},
    [MEMCPY] = {IS("memcpy, 512 B, 1,000 blocks", "ns", ONE, run_memcpy, 0, NO_FLOOR)},
    [HIT_BLOCK] = {IS("read hit, 512 B, 1,000 blocks", "ns", CLIENT, run_blocks, 0, MEMCPY)},
    [PLAIN_WRITE] = {IS("seqlock's writer, 8 B", "ns", ONE, run_plain_writes, 0, NO_FLOOR)},
    [WRITE] = {IS("write into the store buffer, 8 B", "ns", CLIENT, run_writes, 0, PLAIN_WRITE),
               .target = 25},
    [APPLIED] = {IS("applied writes, 8 B", "M/s", DRIVEN, run_flood, 0, NO_FLOOR), .target = 20,
                 .is_rate = true},
    [APPLIED_FEW] = {IS("applied writes, 8 B, of 16 blocks", "M/s", DRIVEN, run_flood_of_few, 0,
                        NO_FLOOR),
                     .is_rate = true},
    [APPLIED_BY_DAEMON] = {IS("applied writes, 8 B, by a nighd", "M/s", DAEMON, run_daemon_flood, 0,
                              NO_FLOOR),
                           .target = 20, .is_rate = true},
    [PLAIN_FENCE] = {IS("fence of the processor", "ns", ONE, run_plain_fences, 0, NO_FLOOR)},
    [FENCE] = {IS("full fence, nothing pending", "ns", CLIENT, run_fences, 0, PLAIN_FENCE),
               .target = 30},
    [MUTEX] = {IS("mutex of pthreads, taken and given back", "ns", ONE, run_mutex, 0, NO_FLOOR)},
    [LOCK] = {IS("lock by the lane, taken and given back, of 1,024 blocks here", "ns", DRIVEN,
                 run_locks, 0, MUTEX)},
    [RELOCK] = {IS("lock held here last, taken and given back", "ns", DRIVEN, run_relocks, 0,
                   MUTEX),
                .target = 200},
    [RELOCK_BY_DAEMON] = {IS("the same of a nighd", "ns", DAEMON, run_daemon_relocks, 0, MUTEX),
                          .target = 200},
    [MUTEX_CONTENDED] = {IS("mutex of pthreads that another wants, too", "ns",
                            "two processes, each on a core", run_contended_mutex, 0, NO_FLOOR)},
    [HANDOFF] = {IS("lock held here last, that another node asks for", "ns", BOTH, run_handoffs, 0,
                    MUTEX_CONTENDED)},
    [CALL] = {IS("a call of 64 bytes", "ns", BOTH, run_calls, 0, NO_FLOOR)},
    [MISS] = {IS("read miss, clean", "ns", BOTH, run_misses, 0, CALL), .ratio = 1.5},
    [WRITE_MISS] = {IS("write miss, clean, and fence", "ns", BOTH, run_write_misses, 0, CALL)},
    [UPGRADE] = {IS("write of what is here to be read, and fence", "ns", BOTH, run_upgrades, 0,
                    CALL)},
    [FETCH] = {IS("read of the own home that another has, dirty", "ns", BOTH, run_fetches, 0,
                  CALL)},
    [ADD] = {IS("addition at another home", "ns", BOTH, run_adds, 0, CALL)},
    [ADD_CONTENDED] = {IS("the same, while its home adds, too", "ns", BOTH, run_contended_adds, 0,
                          CALL)},
    [MPI_GETS] = {IS("MPI_Get, 8 B", "ns", MPI, run_mpi, 0, MISS), .is_mpi = true,
                  .counted = CARRIED, .count_target = 8},
    [MPI_PUTS] = {IS("MPI_Put, 8 B", "ns", MPI, run_mpi, 1, WRITE_MISS), .is_mpi = true,
                  .counted = CARRIED, .count_target = 8},
    [MPI_ADDS] = {IS("MPI_Fetch_and_op, 8 B", "ns", MPI, run_mpi, 2, ADD), .is_mpi = true,
                  .counted = CARRIED, .count_target = 8},
    [MPI_LONG] = {IS("MPI_Get, 64 KiB", "ns", MPI, run_mpi_long, 0, NO_FLOOR), .is_mpi = true,
                  .counted = CARRIED, .count_target = LONG_BYTES},
    [LONG] = {IS("read of 64 KiB of which nothing is here", "ns", BOTH, run_long_reads, 0,
                 MPI_LONG)},
    [TRACE_80] = {IS("reads of which 80 % hit", "ns", BOTH, run_trace, 80, MPI_GETS), .ratio = 3.5,
                  .is_faster = true, .counted = FOUND},
    [TRACE_95] = {IS("reads of which 95 % hit", "ns", BOTH, run_trace, 95, MPI_GETS), .ratio = 10,
                  .is_faster = true, .counted = FOUND},
    [CALL_OF_FOUR] = {IS("a call of 64 bytes, blocking", "ns", SLEEPY, run_calls_of_four, 0,
                         NO_FLOOR)},
    [TWO_HOPS] = {IS("read miss, clean, blocking", "ns", SLEEPY, run_two_hops, 0, CALL_OF_FOUR)},
    [THREE_HOPS] = {IS("read miss, dirty at a third node, blocking", "ns", SLEEPY, run_three_hops,
                       0, CALL_OF_FOUR)},
    [ADD_OF_FOUR] = {IS("addition while three others add, too, blocking", "ns", SLEEPY,
                        run_adds_of_four, 0, CALL_OF_FOUR)},
    [TURNS] = {IS("lock that another node held last, taken and given back, blocking", "ns", SLEEPY,
                  run_turns, 0, CALL_OF_FOUR)},
};

/* ---- rounds --------------------------------------------------------------- */

static void measure(struct series *series)
{
    const struct series *floor = series->floor == NO_FLOOR ? NULL : &all[series->floor];
    struct samples round = {0};

    if (series->is_mpi && ranks.to == NULL) {
        return;
    }
    (void)usleep(SETTLE_US); /* those of the round before sleep by then */
    series->run(series, &round);
    series->median = samples_quantile(&round, 0.5);
    samples_append(&series->samples, &round);
    samples_free(&round);
    if (floor != NULL && floor->samples.count > 0) {
        double ratio = series->median / floor->median;

        samples_add(&series->ratios, series->is_faster ? 1 / ratio : ratio);
    }
}

/* ---- rows ----------------------------------------------------------------- */

static void tell_time(struct series *series, bool by_time)
{
    char name[128];
    struct bench_row row = {.name = name,
                            .unit = series->unit,
                            .median = samples_quantile(&series->samples, 0.5),
                            .p99 = samples_quantile(&series->samples, series->is_rate ? 0 : 0.99),
                            .least = samples_quantile(&series->samples, 0),
                            .most = samples_quantile(&series->samples, 1),
                            .better = series->is_faster || series->is_rate ? "higher" : "lower",
                            .path = series->path};

    (void)snprintf(name, sizeof name, "%s%s", series->name,
                   by_time && series->ratio > 0 ? ": by itself" : "");
    if (series->ratios.count > 0 && !(by_time && series->ratio > 0)) {
        row.baseline_name = all[series->floor].name;
        row.baseline = samples_quantile(&all[series->floor].samples, 0.5);
        bench_row_set_ratios(&row, &series->ratios);
    }
    if (by_time && series->target > 0) {
        row.on = BENCH_ON_MEDIAN;
        row.target = series->target;
    } else if (row.baseline_name != NULL && series->ratio > 0) {
        row.on = BENCH_ON_RATIO;
        row.target = series->ratio;
    }
    bench_row_write(&row);
}

static void tell_count(struct series *series)
{
    char name[128];
    struct bench_row row = {.name = name,
                            .unit = "",
                            .median = samples_quantile(&series->counts, 0.5),
                            .p99 = samples_quantile(&series->counts, 0.99),
                            .on = series->count_target > 0 ? BENCH_ON_MEDIAN : BENCH_NO_TARGET,
                            .target = series->count_target,
                            .better = "higher",
                            .path = series->is_mpi ? "that its sockets carried, of one"
                                                   : "as its node counted what it was asked for"};

    (void)snprintf(name, sizeof name, "%s: %s", series->name, series->counted);
    bench_row_write(&row);
}

static double median_of(uint32_t n)
{
    return samples_quantile(&all[n].samples, 0.5);
}

/* What a cache that costs a hit and a miss as they were measured can be worth. */
static void tell_limit(const struct series *series)
{
    double misses = 1 - series->which / 100.0;
    double mpi = median_of(MPI_GETS), miss = median_of(MISS), hit = median_of(HIT_HOT);
    char name[128];
    struct bench_row row = {
        .name = name,
        .unit = "times",
        .median = mpi / (misses * miss + (1 - misses) * hit),
        .path = "MPI_Get / (misses * read miss + hits * read hit), of their medians"};

    row.p99 = row.median;
    (void)snprintf(name, sizeof name, "%s: the most that it can be", series->name);
    bench_row_write(&row);
}

static void tell(struct series *series)
{
    if (series->samples.count == 0) {
        return;
    }
    if (series->ratio > 0 || series->target == 0) {
        tell_time(series, false);
    }
    if (series->target > 0) {
        tell_time(series, true);
    }
    if (series->counts.count > 0) {
        tell_count(series);
    }
    if (series->is_faster && series->ratios.count > 0) {
        tell_limit(series);
    }
}

/* ---- GAM's axes ----------------------------------------------------------- */

static const char *const axis_names[AXES] = {"remote", "shared", "reads", "space", "time"};
/* Where the others of a table are. */
static const struct axes base = {.percent = {50, 20, 80, 50, 20}};

static void measure_cell(const nigh_space_address *homes, enum axis axis, uint32_t percent,
                         uint32_t count, int rounds)
{
    struct axes axes = base;
    struct samples rates = {0}, hits = {0};
    struct axes_result result;
    char name[80];
    struct bench_row row = {.name = name, .unit = "k/s", .path = SLEEPY, .is_silent = true};

    axes.nodes = count;
    axes.percent[axis] = percent;
    for (int round = 0; round < rounds; round++) {
        axes_run(&four, SMALL, homes, &axes, CELL_MS, &result);
        samples_add(&rates, result.ops_s / 1e3);
        samples_add(&hits, 100 * result.hits);
    }
    row.median = samples_quantile(&rates, 0.5);
    row.p99 = samples_quantile(&rates, 0.01);
    (void)snprintf(name, sizeof name, "GAM, %u nodes, %s %u %%", count, axis_names[axis], percent);
    bench_row_write(&row);
    printf("  %9.0f %5.1f %%", row.median, samples_quantile(&hits, 0.5));
    row.unit = "%";
    row.median = row.p99 = samples_quantile(&hits, 0.5);
    (void)snprintf(name, sizeof name, "GAM, %u nodes, %s %u %%: reads that hit", count,
                   axis_names[axis], percent);
    bench_row_write(&row);
    samples_free(&rates);
    samples_free(&hits);
}

static void measure_axes(int rounds)
{
    nigh_space_address homes[SPACE_NODES_MOST];

    axes_prepare(&four, SMALL, homes);
    printf("GAM's benchmark: thousands of operations a second of all nodes, and how many of the "
           "first one's reads hit;\nwhere not told otherwise %u %% remote, %u %% shared, %u %% "
           "reads, %u %% space locality, %u %% time locality (%s)\n%-14s",
           base.percent[0], base.percent[1], base.percent[2], base.percent[3], base.percent[4],
           SLEEPY, "");
    for (uint32_t count = 2; count <= four.count; count++) {
        printf("  %9u nodes  ", count);
    }
    printf("\n");
    for (enum axis axis = 0; axis < AXES; axis++) {
        for (uint32_t percent = 0; percent <= 100; percent += 25) {
            printf("%-8s %3u %%", axis_names[axis], percent);
            for (uint32_t count = 2; count <= four.count; count++) {
                measure_cell(homes, axis, percent, count, rounds);
            }
            printf("\n");
            (void)fflush(stdout);
        }
    }
}

static void measure_hits(void)
{
    static const uint32_t of[][2] = {{0, 0}, {50, 0}, {90, 0}, {0, 50}, {0, 90}, {50, 50}};
    uint32_t frames = (uint32_t)((SMALL_CACHE / BLOCK + SPACE_WAYS - 1) / SPACE_WAYS * SPACE_WAYS);
    char name[80];
    struct bench_row row = {.name = name,
                            .unit = "hits",
                            .baseline_name = "exact LRU",
                            .on = BENCH_ON_RATIO,
                            .target = 0.98,
                            .better = "higher",
                            .path = BOTH};

    for (uint32_t n = 0; n < sizeof of / sizeof *of; n++) {
        struct axes axes = {.percent = {[AXIS_SPACE] = of[n][0], [AXIS_TIME] = of[n][1]}};
        struct axes_hits hits;

        axes_replay(&pair, SMALL, far, WALK_BLOCKS, frames, &axes, &hits);
        row.median = row.p99 = hits.ours;
        row.baseline = hits.lru;
        row.ratio = hits.lru > 0 ? hits.ours / hits.lru : 1;
        (void)snprintf(name, sizeof name, "GAM, space %u %%, time %u %%, 12.5 %% cached", of[n][0],
                       of[n][1]);
        bench_row_write(&row);
    }
}

/* ---- from begin to end ---------------------------------------------------- */

static void open_pair(void)
{
    space_nodes_open(&pair, 2, true, specs);
    many = space_nodes_alloc(&pair, BIG, 1, (uint64_t)MANY * BLOCK);
    owned = space_nodes_alloc(&pair, BIG, 1, (uint64_t)HOT * BLOCK);
    far = space_nodes_alloc(&pair, SMALL, 1, (uint64_t)(WALK_BLOCKS + TRACE_HOT) * BLOCK);
    near = space_nodes_alloc(&pair, SMALL, 0, (uint64_t)NEAR_BLOCKS * BLOCK);
    counter = space_nodes_alloc(&pair, SMALL, 1, BLOCK);
    locked = space_nodes_alloc(&pair, SMALL, 1, BLOCK);
    for (uint32_t n = 0; n < MANY; n++) {
        (void)read_word(big(), many + (uint64_t)n * BLOCK);
        space_plain_fill(&plain, n, many + (uint64_t)n * BLOCK, n);
    }
    for (uint32_t n = 0; n < HOT; n++) {
        write_word(big(), owned + (uint64_t)n * BLOCK, n);
    }
    fence(big());
}

static void open_four(void)
{
    nigh_space_spec own[SPACE_NODES_SPACE] = {specs[BIG], specs[SMALL]};

    own[BIG].home_size = own[BIG].cache_size = MIB; /* nothing is done with it */
    space_nodes_open(&four, SPACE_NODES_MOST, false, own);
    bench_pin(0);
    third = space_nodes_alloc(&four, SMALL, 1, (uint64_t)(OPS + OPS / 5) * BLOCK);
    four_counter = space_nodes_alloc(&four, SMALL, 1, BLOCK);
    four_locked = space_nodes_alloc(&four, SMALL, 1, BLOCK);
}

static void open_daemon(void)
{
    struct bench_node_options options = {
        .memory = "64M", .core = 1, .spin_us = 2000, .spaces = "64M"};
    nigh_space_spec spec = {
        .struct_size = sizeof spec, .name = "daemon", .home_size = 2 * MIB, .block_size = BLOCK};

    bench_node_start(&daemon_node, &options);
    daemon_client = bench_client(&daemon_node, 2000, 0, 0);
    bench_check(nigh_space_create(daemon_client, &spec, SPACE_NODES_WAIT, &daemon_space),
                "a space of nighd");
    bench_check(
        nigh_space_alloc(daemon_space, (uint64_t)HOT * BLOCK, 0, SPACE_NODES_WAIT, &daemon_area),
        "memory of a space of nighd");
}

static void open_all(const char *helper)
{
    struct random random;

    random_init(&random, 1);
    for (uint32_t n = 0; n < READS; n++) {
        orders[0][n] = (uint32_t)random_below(&random, HOT);
        orders[1][n] = (uint32_t)random_below(&random, MANY);
    }
    bench_pin(0);
    space_plain_create(&plain, MANY);
    others_open();
    if (strcmp(helper, "-") != 0) {
        ranks_open(&ranks, helper, LONG_BYTES, false);
    }
    open_daemon();
    open_pair();
    open_four();
}

static void close_all(void)
{
    space_nodes_close(&four);
    space_nodes_close(&pair);
    nigh_client_close(daemon_client);
    bench_node_stop(&daemon_node);
    if (ranks.to != NULL) {
        ranks_close(&ranks);
    }
    others_close();
}

int main(int argc, char **argv)
{
    int rounds = argc > 4 ? (int)bench_number(argv[4], INT_MAX) : ROUNDS;

    if (argc < 4) {
        bench_fail("usage: bench-space NIGHD MPI-HELPER|- OUT.json [ROUNDS]");
    }
    bench_nighd_path = argv[1];
    open_all(argv[2]);
    for (int round = 0; round < rounds; round++) {
        for (int n = 0; n < SERIES; n++) {
            measure(&all[n]);
        }
    }
    bench_rows_open(argv[3]);
    for (int n = 0; n < SERIES; n++) {
        tell(&all[n]);
    }
    measure_hits();
    measure_axes(rounds < 3 ? rounds : 3);
    close_all();
    durable_measure(rounds);
    return bench_rows_close() > 0 ? 1 : 0;
}
