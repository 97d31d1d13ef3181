/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client pays for a space's bytes that are here: a read hit, hot and of 100,000 blocks at
 * random, against a plain seqlock in shared memory, with a look-up of the block and without; a
 * write into the store buffer; a full fence with nothing pending; how many writes a second a lane
 * on another core applies; and how often blocks are here, against exact LRU.
 *
 * One process: one thread on core 0, and where another is the lane, that on core 1. No node, no
 * network.
 *
 * bench-space-view OUT.json [ROUNDS]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/random.h"
#include "harness.h"
#include "memory/space_window.h"
#include "space/frames.h"
#include "space_hits.h"
#include "space_plain.h"

#define BLOCK_BYTES 512u
#define SHIFT       9u
#define MANY        100000u
#define HOT         1000u
#define SETS        (MANY * 3 / 2 / SPACE_WAYS)
#define READS       100000u /* of a round, of each kind */
#define ROUNDS      25
#define BURST       (LIMIT_SPACE_RING_BYTES / 32 / 2) /* writes that are timed in a row */
#define FLOOD       2000000u                          /* writes that another core applies */
#define TURNS       2000u                             /* full fences that wait for the lane */

static struct space_plain plain;
static struct space_frames frames;
static struct space_mapped space;
static struct space_producer producer;
static struct space_consumer consumer;
static struct space_window *window;
static uint64_t addresses[MANY];
static uint32_t order[2][READS]; /* hot, all */
static int rounds = ROUNDS;
static volatile uint64_t sink;

/* ---- set-up ---------------------------------------------------------------- */

static void fill(uint32_t n, uint64_t address)
{
    uint64_t words[BLOCK_BYTES / 8];
    uint32_t frame = space_frames_take(&frames, address);

    for (uint32_t k = 0; k < BLOCK_BYTES / 8; k++) {
        words[k] = n;
    }
    if (frame == SPACE_NO_FRAME) {
        bench_fail("a set is full, with two blocks in three frames");
    }
    space_bytes_store(space_frames_bytes(&frames, frame), 0, words, sizeof words);
    space_word_show(space_frames_word(&frames, frame));
    space_plain_fill(&plain, n, address, n);
}

static void set_up(void)
{
    struct random random;
    struct space_view view;
    void *memory = bench_memory_create(space_view_cache_bytes(SETS, BLOCK_BYTES));

    space_view_make_cache(memory, SETS, BLOCK_BYTES, &view);
    bench_check(space_frames_init(&frames, &view), "frames");
    space = (struct space_mapped){.cache = view, .home = {.shift = SHIFT}, .number = 1};
    window = bench_memory_create(sizeof *window);
    space_plain_create(&plain, MANY);
    space_producer_init(&producer, window);
    space_consumer_init(&consumer, window);
    random_init(&random, 1);
    for (uint32_t n = 0; n < MANY; n++) {
        addresses[n] = (UINT64_C(1) + n % 4) << 48 | (uint64_t)(n / 4 + 1) << SHIFT;
        fill(n, addresses[n]);
    }
    for (uint32_t n = 0; n < READS; n++) {
        order[0][n] = (uint32_t)random_below(&random, HOT);
        order[1][n] = (uint32_t)random_below(&random, MANY);
    }
}

/* ---- rows ------------------------------------------------------------------ */

/* Each gives nanoseconds of one operation, over many. */
typedef double timed(uint32_t which);

static double time_hit(uint32_t which)
{
    uint64_t begin = bench_now_ns(), sum = 0, value;

    for (uint32_t n = 0; n < READS; n++) {
        uint64_t address = addresses[order[which][n]] + n % 64 * 8;

        if (space_producer_read(&producer, &space, address, &value, 8) != SPACE_READ) {
            bench_fail("a block is not here");
        }
        sum += value;
    }
    sink = sum;
    return (double)(bench_now_ns() - begin) / READS;
}

static double time_plain(uint32_t which)
{
    uint64_t begin = bench_now_ns(), sum = 0;

    for (uint32_t n = 0; n < READS; n++) {
        sum += space_plain_find_and_read(&plain, addresses[order[which][n]] + n % 64 * 8);
    }
    sink = sum;
    return (double)(bench_now_ns() - begin) / READS;
}

static double time_known(uint32_t which)
{
    uint64_t begin = bench_now_ns(), sum = 0;

    for (uint32_t n = 0; n < READS; n++) {
        sum += space_plain_read(&plain.blocks[order[which][n]], n % 64 * 8);
    }
    sink = sum;
    return (double)(bench_now_ns() - begin) / READS;
}

/* The next block is known when the last one is read. */
static double time_hit_chain(uint32_t which)
{
    uint64_t begin = bench_now_ns(), value = 0;

    for (uint32_t n = 0; n < READS; n++) {
        uint64_t address = addresses[order[which][(n + value) % READS]] + n % 64 * 8;

        if (space_producer_read(&producer, &space, address, &value, 8) != SPACE_READ) {
            bench_fail("a block is not here");
        }
    }
    sink = value;
    return (double)(bench_now_ns() - begin) / READS;
}

static double time_plain_chain(uint32_t which)
{
    uint64_t begin = bench_now_ns(), value = 0;

    for (uint32_t n = 0; n < READS; n++) {
        value = space_plain_find_and_read(&plain, addresses[order[which][(n + value) % READS]] +
                                                      n % 64 * 8);
    }
    sink = value;
    return (double)(bench_now_ns() - begin) / READS;
}

static double time_memcpy(uint32_t which)
{
    uint64_t begin = bench_now_ns(), sum = 0;
    uint8_t block[BLOCK_BYTES];

    for (uint32_t n = 0; n < READS / 8; n++) {
        memcpy(block, (const void *)plain.blocks[order[which][n]].words, sizeof block);
        __asm__ volatile("" ::"r"(block) : "memory");
        sum += block[n % BLOCK_BYTES];
    }
    sink = sum;
    return (double)(bench_now_ns() - begin) / (READS / 8);
}

static double time_whole(uint32_t which)
{
    uint64_t begin = bench_now_ns(), sum = 0;
    uint8_t block[BLOCK_BYTES];

    for (uint32_t n = 0; n < READS / 8; n++) {
        if (space_producer_read(&producer, &space, addresses[order[which][n]], block,
                                sizeof block) != SPACE_READ) {
            bench_fail("a block is not here");
        }
        sum += block[n % BLOCK_BYTES];
    }
    sink = sum;
    return (double)(bench_now_ns() - begin) / (READS / 8);
}

/* What the lane does with one record, the block being here to be written. */
static void apply(const struct space_record *record)
{
    uint64_t bytes[BLOCK_BYTES / 8];
    uint32_t frame = space_frames_find(&frames, record->address);

    if (!space_record_fits(record, BLOCK_BYTES) || frame == SPACE_NO_FRAME) {
        bench_fail("a record is not what was written");
    }
    space_consumer_bytes(&consumer, record, bytes);
    space_word_change(space_frames_word(&frames, frame), space_frames_bytes(&frames, frame),
                      (uint32_t)record->address % BLOCK_BYTES, bytes, record->length);
    space_consumer_done_in_a_row(&consumer, record->number);
}

static uint32_t serve(void)
{
    struct space_record record;
    uint32_t count = 0;

    while (count < 64 && space_consumer_take(&consumer, &record) == SPACE_WINDOW_TAKEN) {
        apply(&record);
        count++;
    }
    space_consumer_tell(&consumer);
    return count;
}

static void serve_all(void)
{
    while (serve() > 0) {
    }
    (void)space_producer_look(&producer);
}

static double time_writes(bool rings)
{
    static _Atomic uint32_t asleep;
    double ns = 0;
    uint32_t count = 0;

    for (uint32_t burst = 0; burst < 16; burst++) {
        uint64_t begin = bench_now_ns(), ticket;

        for (uint32_t n = 0; n < BURST; n++) {
            uint64_t address = addresses[order[0][count % READS]] + count % 64 * 8;
            uint64_t value = order[0][count++ % READS];

            if (!space_producer_write(&producer, &space, address, &value, 8, &ticket) ||
                (rings && space_producer_must_ring(&asleep))) {
                bench_fail("there is room for a burst");
            }
        }
        ns += (double)(bench_now_ns() - begin);
        serve_all();
    }
    return ns / count;
}

static double time_write(uint32_t which)
{
    (void)which;
    return time_writes(false);
}

static double time_write_and_look(uint32_t which)
{
    (void)which;
    return time_writes(true);
}

/* A seqlock's writer, of the same blocks. */
static double time_plain_write(uint32_t which)
{
    uint64_t begin = bench_now_ns();

    for (uint32_t n = 0; n < READS; n++) {
        space_plain_write(&plain.blocks[order[which][n]], n % 64 * 8, order[which][n]);
    }
    return (double)(bench_now_ns() - begin) / READS;
}

static double time_read_own(uint32_t which)
{
    double ns = 0;
    uint64_t value, ticket;
    uint32_t count = 0;

    (void)which;
    for (uint32_t round = 0; round < READS / 16; round++) {
        uint64_t begin;

        for (uint64_t n = 0; n < 4; n++) { /* that are pending, one of them of it */
            (void)space_producer_write(&producer, &space, addresses[(round + n) % HOT], &n, 8,
                                       &ticket);
        }
        begin = bench_now_ns();
        for (uint32_t n = 0; n < 16; n++, count++) {
            if (space_producer_read(&producer, &space, addresses[round % HOT], &value, 8) !=
                SPACE_READ) {
                bench_fail("an own write is not seen");
            }
            sink = value;
        }
        ns += (double)(bench_now_ns() - begin);
        serve_all();
    }
    return ns / count;
}

static double time_fence(uint32_t which)
{
    uint64_t begin = bench_now_ns();

    (void)which;
    for (uint32_t n = 0; n < READS; n++) {
        if (!space_producer_is_empty(&producer)) {
            bench_fail("nothing is pending");
        }
        __asm__ volatile("" ::: "memory");
    }
    return (double)(bench_now_ns() - begin) / READS;
}

static double time_plain_fence(uint32_t which)
{
    uint64_t begin = bench_now_ns();

    (void)which;
    for (uint32_t n = 0; n < READS; n++) {
        atomic_thread_fence(memory_order_seq_cst);
    }
    return (double)(bench_now_ns() - begin) / READS;
}

static double time_scan(uint32_t which)
{
    uint64_t begin = bench_now_ns(), sum = 0;

    for (uint32_t n = 0; n < READS; n++) {
        sum += space_frames_find(&frames, addresses[order[which][n]]);
    }
    sink = sum;
    return (double)(bench_now_ns() - begin) / READS;
}

/* ---- with a lane on another core ------------------------------------------- */

static _Atomic uint32_t ends;

static void *lane(void *argument)
{
    (void)argument;
    bench_pin(1);
    while (atomic_load_explicit(&ends, memory_order_relaxed) == 0) {
        serve();
    }
    return NULL;
}

/* Millions of writes a second, from the first that is written to the last that is applied. */
static double time_flood(uint32_t which)
{
    uint64_t begin = bench_now_ns(), ticket;

    for (uint32_t n = 0; n < FLOOD; n++) {
        uint64_t address = addresses[order[which][n % READS]] + n % 64 * 8, value = n;

        while (!space_producer_write(&producer, &space, address, &value, 8, &ticket)) {
        }
    }
    while (!space_producer_is_empty(&producer)) {
    }
    return FLOOD * 1e3 / (double)(bench_now_ns() - begin);
}

static double time_write_and_fence(uint32_t which)
{
    uint64_t begin = bench_now_ns(), ticket;

    for (uint32_t n = 0; n < TURNS; n++) {
        uint64_t value = n;

        if (!space_producer_write(&producer, &space, addresses[order[which][n]], &value, 8,
                                  &ticket)) {
            bench_fail("there is room");
        }
        while (!space_producer_is_empty(&producer)) {
        }
    }
    return (double)(bench_now_ns() - begin) / TURNS;
}

/* A ring of 16 bytes each way that carries nothing and checks nothing. */
static struct {
    _Alignas(128) _Atomic uint64_t tail;
    _Alignas(128) _Atomic uint64_t head;
    _Alignas(128) _Atomic uint64_t entries[1024][2];
} bare;

static void *bare_lane(void *argument)
{
    uint64_t head = 0, sum = 0;

    (void)argument;
    bench_pin(1);
    while (atomic_load_explicit(&ends, memory_order_relaxed) == 0) {
        uint64_t tail = atomic_load_explicit(&bare.tail, memory_order_acquire);

        for (; head != tail; head++) {
            sum += bare.entries[head % 1024][0] + bare.entries[head % 1024][1];
        }
        if (atomic_load_explicit(&bare.head, memory_order_relaxed) != head) {
            atomic_store_explicit(&bare.head, head, memory_order_release);
        }
    }
    sink = sum;
    return NULL;
}

static double time_bare_flood(uint32_t which)
{
    uint64_t begin = bench_now_ns(), tail = bare.tail, head = bare.head, end = tail + FLOOD;

    (void)which;
    while (tail != end) {
        if (tail - head == 1024) {
            head = atomic_load_explicit(&bare.head, memory_order_acquire);
            continue;
        }
        atomic_store_explicit(&bare.entries[tail % 1024][0], tail, memory_order_relaxed);
        atomic_store_explicit(&bare.entries[tail % 1024][1], tail, memory_order_relaxed);
        atomic_store_explicit(&bare.tail, ++tail, memory_order_release);
    }
    while (atomic_load_explicit(&bare.head, memory_order_acquire) != tail) {
    }
    return FLOOD * 1e3 / (double)(bench_now_ns() - begin);
}

static double time_bare_turn(uint32_t which)
{
    uint64_t begin = bench_now_ns(), tail = bare.tail;

    (void)which;
    for (uint32_t n = 0; n < TURNS; n++) {
        atomic_store_explicit(&bare.entries[tail % 1024][0], tail, memory_order_relaxed);
        atomic_store_explicit(&bare.tail, ++tail, memory_order_release);
        while (atomic_load_explicit(&bare.head, memory_order_acquire) != tail) {
        }
    }
    return (double)(bench_now_ns() - begin) / TURNS;
}

/* One time with a lane beside it. */
static double beside(void *(*body)(void *), timed *what, uint32_t which)
{
    pthread_t thread;
    double value;

    atomic_store(&ends, 0);
    if (pthread_create(&thread, NULL, body, NULL) != 0) {
        bench_fail("no thread");
    }
    value = what(which);
    atomic_store(&ends, 1);
    (void)pthread_join(thread, NULL);
    (void)space_producer_look(&producer);
    return value;
}

static double time_our_flood(uint32_t which)
{
    return beside(lane, time_flood, which);
}

static double time_their_flood(uint32_t which)
{
    return beside(bare_lane, time_bare_flood, which);
}

static double time_our_turn(uint32_t which)
{
    return beside(lane, time_write_and_fence, which);
}

static double time_their_turn(uint32_t which)
{
    return beside(bare_lane, time_bare_turn, which);
}

/* ---- all of them ----------------------------------------------------------- */

#define ONE "one thread, core 0; ns over batches"
#define TWO "thread on core 0, lane on core 1, both spinning"

struct row {
    const char *name, *unit, *path;
    timed *ours, *theirs;
    const char *baseline_name;
    uint32_t which; /* blocks: 0: HOT, 1: MANY */
    enum bench_on on;
    double target;
    const char *better;
};

#define SEQLOCK "seqlock with look-up"

static const struct row rows[] = {
    {"space-view: read hit, 8 B, 1,000 blocks", "ns", ONE, time_hit, time_plain, SEQLOCK, 0,
     BENCH_ON_MEDIAN, 40, "lower"},
    {"space-view: the same, ratio", "ns", ONE, time_hit, time_plain, SEQLOCK, 0, BENCH_ON_RATIO, 3,
     "lower"},
    {"space-view: the same, no look-up there", "ns", ONE, time_hit, time_known, "seqlock", 0,
     BENCH_NO_TARGET, 0, NULL},
    {"space-view: read hit, 100,000 blocks", "ns", ONE, time_hit, time_plain, SEQLOCK, 1,
     BENCH_ON_RATIO, 3, "lower"},
    {"space-view: the same, no look-up there", "ns", ONE, time_hit, time_known, "seqlock", 1,
     BENCH_NO_TARGET, 0, NULL},
    {"space-view: chain of hits, 1,000 blocks", "ns", ONE, time_hit_chain, time_plain_chain,
     SEQLOCK, 0, BENCH_NO_TARGET, 0, NULL},
    {"space-view: chain of hits, 100,000 blocks", "ns", ONE, time_hit_chain, time_plain_chain,
     SEQLOCK, 1, BENCH_NO_TARGET, 0, NULL},
    {"space-view: read hit, 512 B, 1,000 blocks", "ns", ONE, time_whole, time_memcpy, "memcpy", 0,
     BENCH_NO_TARGET, 0, NULL},
    {"space-view: read of an own write, 4 pending", "ns", ONE, time_read_own, time_plain, SEQLOCK,
     0, BENCH_NO_TARGET, 0, NULL},
    {"space-view: the lane's look-up", "ns", ONE, time_scan, time_plain, SEQLOCK, 0,
     BENCH_NO_TARGET, 0, NULL},
    {"space-view: write into the store buffer", "ns", ONE, time_write, time_plain_write,
     "seqlock's writer", 0, BENCH_ON_MEDIAN, 25, "lower"},
    {"space-view: and look whether the lane sleeps", "ns", ONE, time_write_and_look,
     time_plain_write, "seqlock's writer", 0, BENCH_ON_MEDIAN, 25, "lower"},
    {"space-view: full fence, nothing pending", "ns", ONE, time_fence, time_plain_fence,
     "fence of the processor", 0, BENCH_ON_MEDIAN, 30, "lower"},
    {"space-view: applied writes, 1,000 blocks", "M/s", TWO, time_our_flood, time_their_flood,
     "bare ring of 16 B", 0, BENCH_ON_MEDIAN, 20, "higher"},
    {"space-view: applied writes, 100,000 blocks", "M/s", TWO, time_our_flood, time_their_flood,
     "bare ring of 16 B", 1, BENCH_NO_TARGET, 0, NULL},
    {"space-view: write and full fence", "ns", TWO, time_our_turn, time_their_turn,
     "bare ring of 16 B", 0, BENCH_NO_TARGET, 0, NULL},
};

static void measure(const struct row *row)
{
    struct samples ours = {0}, theirs = {0}, ratios = {0};
    struct bench_row out = {.name = row->name,
                            .unit = row->unit,
                            .baseline_name = row->baseline_name,
                            .on = row->on,
                            .target = row->target,
                            .better = row->better,
                            .path = row->path};

    (void)row->ours(row->which);
    (void)row->theirs(row->which);
    for (int n = 0; n < rounds; n++) {
        double value = row->ours(row->which), baseline = row->theirs(row->which);

        samples_add(&ours, value);
        samples_add(&theirs, baseline);
        samples_add(&ratios, value / baseline);
    }
    out.median = samples_quantile(&ours, 0.5);
    out.p99 = samples_quantile(&ours, 0.99);
    out.least = samples_quantile(&ours, 0);
    out.most = samples_quantile(&ours, 1);
    out.baseline = samples_quantile(&theirs, 0.5);
    bench_row_set_ratios(&out, &ratios);
    bench_row_write(&out);
    samples_free(&ours);
    samples_free(&theirs);
    samples_free(&ratios);
}

static const struct hits_trace traces[] = {
    {"GAM, space 0 %, time 0 %, 15 % cached", HITS_GAM, 0, 0, 15},
    {"GAM, space 50 %, time 0 %, 15 % cached", HITS_GAM, 50, 0, 15},
    {"GAM, space 90 %, time 0 %, 15 % cached", HITS_GAM, 90, 0, 15},
    {"GAM, space 0 %, time 50 %, 15 % cached", HITS_GAM, 0, 50, 15},
    {"GAM, space 0 %, time 90 %, 15 % cached", HITS_GAM, 0, 90, 15},
    {"GAM, space 50 %, time 50 %, 15 % cached", HITS_GAM, 50, 50, 15},
    {"GAM, space 0 %, time 0 %, 50 % cached", HITS_GAM, 0, 0, 50},
    {"GAM, space 50 %, time 0 %, 50 % cached", HITS_GAM, 50, 0, 50},
    {"GAM, space 90 %, time 90 %, 50 % cached", HITS_GAM, 90, 90, 50},
    {"Zipf 0.99, 15 % cached", HITS_ZIPF, 0, 0, 15},
    {"Zipf 0.99, 50 % cached", HITS_ZIPF, 0, 0, 50},
    {"Zipf and a scan, 15 % cached", HITS_SCAN, 0, 0, 15},
    {"a loop, 50 % cached", HITS_LOOP, 0, 0, 50},
    {"a row that fills 80 % of the frames", HITS_SPAN, 0, 0, 80},
    {"a row that fills 100 % of the frames", HITS_SPAN, 0, 0, 100},
};

static void measure_hits(const struct hits_trace *trace)
{
    struct hits_result result;
    char name[80];
    struct bench_row row = {.name = name,
                            .unit = "hits",
                            .baseline_name = "exact LRU",
                            .on = trace->kind == HITS_SPAN ? BENCH_NO_TARGET : BENCH_ON_RATIO,
                            .target = 0.98,
                            .better = "higher",
                            .path = "four threads' hints, rings of 64; a trace of a seed"};

    hits_replay(trace, &result);
    (void)snprintf(name, sizeof name, "space-view: %s", trace->name);
    row.median = row.p99 = result.ours;
    row.baseline = result.lru;
    row.ratio = result.lru > 0 ? result.ours / result.lru : 1;
    bench_row_write(&row);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        bench_fail("usage: bench-space-view OUT.json [ROUNDS]");
    }
    if (argc > 2 && argv[2][0] != '\0') {
        rounds = (int)bench_number(argv[2], 1000);
    }
    bench_pin(0);
    set_up();
    bench_rows_open(argv[1]);
    for (size_t n = 0; n < ARRAY_LENGTH(rows); n++) {
        measure(&rows[n]);
    }
    for (size_t n = 0; n < ARRAY_LENGTH(traces); n++) {
        measure_hits(&traces[n]);
    }
    return bench_rows_close() == 0 ? 0 : 1;
}
