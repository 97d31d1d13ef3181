/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated fabric: that what the contract does not promise happens, that what it forbids never
 * does, and what faults look like. What every provider promises is tested by tests/conformance;
 * equal runs and speed by fabric_sim_load_test.c.
 */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fabric/sim/sim.h"

#define AREA     65536u
#define LOG      256u
#define SEEDS    300u
#define LANDINGS 500u
#define TEARINGS 50u /* of each operation and size */

#define ALL_RIGHTS \
    (FABRIC_LOCAL_WRITE | FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE | FABRIC_REMOTE_ATOMIC)

/* ---- two nodes, one connection -------------------------------------------- */

struct side {
    struct fabric *fabric;
    struct fabric_endpoint *end;
    struct fabric_memory *memory;
    uint8_t *bytes; /* AREA */
    struct fabric_completion log[LOG];
    uint32_t logged;
    bool established;
    bool disconnected;
    nigh_status status;
};

struct pair {
    struct sim *sim;
    struct side side[2]; /* of nodes 1 and 2; [0] dialled */
    uint64_t until_us;   /* pair_step goes no further */
};

static const struct fabric_endpoint_options depths = {.sends = 64, .receives = 64};

static void pair_take(struct pair *pair, struct side *side)
{
    struct fabric_event event;

    if (side->fabric == NULL)
        return;
    side->logged += fabric_poll(side->fabric, side->log + side->logged, LOG - side->logged,
                                sim_now_us(pair->sim));
    assert_true(side->logged < LOG);
    while (fabric_next_event(side->fabric, &event)) {
        if (event.kind == FABRIC_REQUEST) {
            assert_int_equal(fabric_accept(side->fabric, event.endpoint, &depths, NULL, 0),
                             NIGH_OK);
            side->end = event.endpoint;
        } else if (event.kind == FABRIC_ESTABLISHED) {
            side->established = true;
        } else {
            assert_false(side->disconnected);
            side->disconnected = true;
            side->status = event.status;
        }
    }
}

/* The next thing happens. False: nothing will. */
static bool pair_step(struct pair *pair)
{
    uint64_t next_us = sim_next_us(pair->sim);

    if (next_us > pair->until_us)
        return false;
    sim_advance(pair->sim, next_us);
    pair_take(pair, &pair->side[0]);
    pair_take(pair, &pair->side[1]);
    return true;
}

#define PAIR_UNTIL(pair, condition)         \
    do {                                    \
        while (!(condition))                \
            assert_true(pair_step((pair))); \
    } while (0)

static void pair_run_out(struct pair *pair)
{
    while (pair_step(pair))
        ;
}

static void pair_make(struct pair *pair, const struct sim_options *options)
{
    memset(pair, 0, sizeof(*pair));
    pair->until_us = UINT64_MAX - 1;
    assert_int_equal(sim_create(options, &pair->sim), NIGH_OK);
    for (uint32_t i = 0; i < 2; i++) {
        struct side *side = &pair->side[i];

        assert_int_equal(sim_fabric(pair->sim, i + 1, 0, &side->fabric), NIGH_OK);
        side->bytes = calloc(1, AREA);
        assert_non_null(side->bytes);
        assert_int_equal(fabric_memory_register(side->fabric, side->bytes, AREA, FABRIC_HOST,
                                                ALL_RIGHTS, &side->memory),
                         NIGH_OK);
    }
    assert_int_equal(fabric_listen(pair->side[1].fabric, "2:0"), NIGH_OK);
}

static void pair_dial(struct pair *pair)
{
    assert_int_equal(
        fabric_connect(pair->side[0].fabric, "2:0", &depths, NULL, 0, &pair->side[0].end), NIGH_OK);
}

static void pair_open(struct pair *pair, const struct sim_options *options)
{
    pair_make(pair, options);
    pair_dial(pair);
    PAIR_UNTIL(pair, pair->side[0].established && pair->side[1].established);
}

static void pair_close(struct pair *pair)
{
    for (uint32_t i = 0; i < 2; i++) {
        fabric_destroy(pair->side[i].fabric);
        free(pair->side[i].bytes);
    }
    sim_destroy(pair->sim);
}

static struct fabric_remote pair_remote(struct pair *pair, uint32_t of, uint64_t offset)
{
    struct side *side = &pair->side[of];

    return fabric_memory_remote(side->fabric, side->memory, side->bytes + offset);
}

/* A post of `from`, between equal offsets of both areas. */
static void pair_post(struct pair *pair, uint32_t from, enum fabric_op op, uint32_t flags,
                      uint64_t tag, uint64_t offset, uint64_t bytes)
{
    struct side *side = &pair->side[from];
    struct fabric_slice slice = {side->bytes + offset, bytes, side->memory};
    struct fabric_work work = {.op = op,
                               .flags = flags,
                               .tag = tag,
                               .slices = &slice,
                               .slice_count = 1,
                               .operand = 1,
                               .remote = pair_remote(pair, 1 - from, offset)};

    assert_int_equal(fabric_post(side->fabric, side->end, &work, NULL), NIGH_OK);
}

static void pair_receive(struct pair *pair, uint32_t at, uint64_t tag, uint64_t offset,
                         uint64_t bytes)
{
    struct side *side = &pair->side[at];
    struct fabric_receive receive = {.tag = tag,
                                     .slice = {side->bytes + offset, bytes, side->memory}};

    assert_int_equal(fabric_post_receive(side->fabric, side->end, &receive, NULL), NIGH_OK);
}

static const struct fabric_completion *side_find(const struct side *side, bool receive,
                                                 uint64_t tag)
{
    for (uint32_t i = 0; i < side->logged; i++) {
        if ((side->log[i].op == FABRIC_RECV) == receive && side->log[i].tag == tag)
            return &side->log[i];
    }
    return NULL;
}

static uint64_t count_of(const uint8_t *bytes, uint64_t size, uint8_t value)
{
    uint64_t count = 0;

    for (uint64_t i = 0; i < size; i++)
        count += bytes[i] == value;
    return count;
}

/* ---- what is not promised happens ----------------------------------------- */

/* A READ, and a SEND behind it: the target answers the SEND by overwriting what is read. How many
 * bytes the READ saw of the new. */
static uint64_t overtaken(uint64_t seed, uint32_t late_ppm, uint32_t flags)
{
    enum {
        BYTES = 256
    };
    struct sim_options options = {.seed = seed, .late_read_ppm = late_ppm};
    struct pair pair;
    uint64_t seen;

    pair_open(&pair, &options);
    memset(pair.side[1].bytes, 1, BYTES);
    pair_receive(&pair, 1, 9, 4096, 8);
    pair_post(&pair, 0, FABRIC_READ, 0, 1, 0, BYTES);
    pair_post(&pair, 0, FABRIC_SEND, FABRIC_SIGNALLED | flags, 2, 4096, 8);
    PAIR_UNTIL(&pair, side_find(&pair.side[1], true, 9) != NULL);
    memset(pair.side[1].bytes, 2, BYTES);
    PAIR_UNTIL(&pair, side_find(&pair.side[0], false, 2) != NULL);
    seen = count_of(pair.side[0].bytes, BYTES, 2);
    assert_int_equal(seen + count_of(pair.side[0].bytes, BYTES, 1), BYTES);
    pair_close(&pair);
    return seen;
}

static void test_a_read_is_overtaken_and_torn(void **state)
{
    uint32_t none = 0, all = 0, torn = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint64_t seen = overtaken(seed, seed % 2 == 0 ? 0 : 500000, 0);

        none += seen == 0;
        all += seen == 256;
        torn += seen != 0 && seen != 256;
    }
    print_message("# reads: %u before, %u after, %u torn\n", none, all, torn);
    assert_true(none > SEEDS / 20 && all > SEEDS / 20 && torn > SEEDS / 20);
}

static void test_a_fence_is_not_overtaken(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        assert_int_equal(overtaken(seed, 500000, FABRIC_FENCE), 0);
}

/* An atomic, and a SEND behind it: has it acted when the SEND comes? */
static void test_an_atomic_is_overtaken(void **state)
{
    uint32_t before = 0, after = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_options options = {.seed = seed, .late_read_ppm = 300000};
        struct pair pair;
        uint64_t value;

        pair_open(&pair, &options);
        pair_receive(&pair, 1, 9, 4096, 8);
        pair_post(&pair, 0, FABRIC_FETCH_ADD, 0, 1, 0, 8);
        pair_post(&pair, 0, FABRIC_SEND, FABRIC_SIGNALLED, 2, 4096, 8);
        PAIR_UNTIL(&pair, side_find(&pair.side[1], true, 9) != NULL);
        memcpy(&value, pair.side[1].bytes, sizeof(value));
        before += value == 1;
        after += value == 0;
        PAIR_UNTIL(&pair, side_find(&pair.side[0], false, 2) != NULL);
        memcpy(&value, pair.side[1].bytes, sizeof(value));
        assert_int_equal(value, 1);
        pair_close(&pair);
    }
    assert_true(before > SEEDS / 20 && after > SEEDS / 20);
}

/* The destination of a READ fills in pieces, before it completes. */
static void test_a_read_lands_in_pieces(void **state)
{
    uint32_t partly = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_options options = {.seed = seed};
        struct pair pair;
        bool seen = false;

        pair_open(&pair, &options);
        memset(pair.side[1].bytes, 1, 4096);
        pair_post(&pair, 0, FABRIC_READ, FABRIC_SIGNALLED, 1, 0, 4096);
        while (side_find(&pair.side[0], false, 1) == NULL) {
            uint64_t count = count_of(pair.side[0].bytes, 4096, 1);

            seen = seen || (count != 0 && count != 4096);
            assert_true(pair_step(&pair));
        }
        assert_int_equal(count_of(pair.side[0].bytes, 4096, 1), 4096);
        partly += seen;
        pair_close(&pair);
    }
    assert_true(partly > SEEDS / 4);
}

/* A word at either end of a WRITE of one and of many, and one that is read: how often the writer's
 * and the reader's part of it are there, and the rest is not. */
static uint32_t torn_words(uint64_t seed, uint32_t torn, enum fabric_op op, uint64_t bytes)
{
    struct sim_options options = {.seed = seed, .torn_words = torn};
    struct pair pair;
    uint32_t seen = 0;

    pair_open(&pair, &options);
    assert_int_equal((pair.side[0].fabric->caps.ops & FABRIC_CAN_WORDS) == 0, torn);
    memset(pair.side[op == FABRIC_READ].bytes, 1, 4096);
    pair_post(&pair, 0, op, FABRIC_SIGNALLED, 1, 0, bytes);
    while (side_find(&pair.side[0], false, 1) == NULL) {
        for (uint64_t at = 0; at < bytes; at += 8) {
            uint64_t count = count_of(pair.side[op != FABRIC_READ].bytes + at, 8, 1);

            seen += count != 0 && count != 8;
        }
        assert_true(pair_step(&pair));
    }
    assert_int_equal(count_of(pair.side[op != FABRIC_READ].bytes, bytes, 1), bytes);
    pair_close(&pair);
    return seen;
}

/* Words are torn where that is asked for, and nowhere else. */
static void test_words_are_torn(void **state)
{
    static const enum fabric_op ops[] = {FABRIC_WRITE, FABRIC_READ};
    static const uint64_t sizes[] = {8, 64, 4096};

    (void)state;
    for (uint32_t i = 0; i < ARRAY_LENGTH(ops) * ARRAY_LENGTH(sizes); i++) {
        enum fabric_op op = ops[i % ARRAY_LENGTH(ops)];
        uint64_t bytes = sizes[i / ARRAY_LENGTH(ops)];
        uint32_t torn = 0;

        for (uint64_t seed = 0; seed < TEARINGS; seed++) {
            assert_int_equal(torn_words(seed, 0, op, bytes), 0);
            torn += torn_words(seed, 1, op, bytes) > 0;
        }
        assert_true(torn > TEARINGS / 4);
    }
}

/* The source of a WRITE is borrowed until its completion: what changes meanwhile may be sent. */
static void test_a_source_is_taken_late(void **state)
{
    uint32_t changed = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_options options = {.seed = seed};
        struct pair pair;

        pair_open(&pair, &options);
        memset(pair.side[0].bytes, 1, 4096);
        pair_post(&pair, 0, FABRIC_WRITE, FABRIC_SIGNALLED, 1, 0, 2048);
        pair_post(&pair, 0, FABRIC_WRITE, FABRIC_SIGNALLED | FABRIC_INLINE, 2, 2048, 512);
        assert_true(pair_step(&pair));
        memset(pair.side[0].bytes, 2, 4096);
        PAIR_UNTIL(&pair, side_find(&pair.side[0], false, 2) != NULL);
        changed += count_of(pair.side[1].bytes, 2048, 2) > 0;
        assert_int_equal(count_of(pair.side[1].bytes + 2048, 512, 1), 512); /* taken at once */
        pair_close(&pair);
    }
    assert_true(changed > SEEDS / 4);
}

/* ---- what is forbidden does not ------------------------------------------- */

/* WRITEs and SENDs of one endpoint, with everything that delays: each SEND finds what was written
 * before it, and SENDs come in order. */
static void test_no_send_overtakes_a_write(void **state)
{
    enum {
        ROUNDS = 20,
        BYTES = 1000
    };

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_options options = {
            .seed = seed, .late_read_ppm = 300000, .stall_ppm = 100000, .late_landing_ppm = 500000};
        uint32_t seen = 0;
        struct pair pair;

        pair_open(&pair, &options);
        for (uint32_t i = 0; i < ROUNDS; i++) {
            memset(pair.side[0].bytes + (uint64_t)i * BYTES, (int)i + 1, BYTES);
            pair_receive(&pair, 1, i, 40000, 8);
            pair_post(&pair, 0, FABRIC_READ, 0, 1000, 48000, 64);
            pair_post(&pair, 0, FABRIC_WRITE, 0, 1000, (uint64_t)i * BYTES, BYTES);
            if (i % 2 == 0)
                pair_post(&pair, 0, FABRIC_SEND, FABRIC_SIGNALLED, i, 40000, 8);
            else
                pair_post(&pair, 0, FABRIC_WRITE_IMM, FABRIC_SIGNALLED, i, 40000, 8);
        }
        /* Node 2 is looked at after each event. */
        while (seen < ROUNDS) {
            assert_true(pair_step(&pair));
            for (; seen < pair.side[1].logged; seen++) {
                assert_int_equal(pair.side[1].log[seen].tag, seen);
                assert_int_equal(pair.side[1].log[seen].status, NIGH_OK);
                assert_int_equal(count_of(pair.side[1].bytes + (uint64_t)seen * BYTES, BYTES,
                                          (uint8_t)(seen + 1)),
                                 BYTES);
            }
        }
        pair_close(&pair);
    }
}

/* ---- after a disconnect, and after destroy -------------------------------- */

struct landing {
    uint32_t read_after_disconnect;  /* pieces of a READ landed at its own side */
    uint32_t write_after_destroy;    /* a WRITE landed at the target, its poster being gone */
    uint32_t write_after_disconnect; /* a WRITE landed at a target that had disconnected */
};

/* Everything is under way in both directions; one side disconnects after some steps, later destroys
 * its endpoint. */
static void land(uint64_t seed, uint32_t late_ppm, struct landing *landing)
{
    struct sim_options options = {.seed = seed, .late_landing_ppm = late_ppm};
    uint32_t near = (uint32_t)(seed % 2), far = 1 - near;
    uint64_t reads, writes, at_destroy;
    bool failed[8] = {false};
    struct pair pair;

    pair_open(&pair, &options);
    memset(pair.side[far].bytes, 1, AREA);
    for (uint32_t i = 0; i < 8; i++) {
        pair_post(&pair, near, FABRIC_READ, FABRIC_SIGNALLED, i, (uint64_t)i * 1024, 1024);
        pair_post(&pair, far, FABRIC_WRITE, FABRIC_SIGNALLED, i, 16384 + (uint64_t)i * 1024, 1024);
    }
    memset(pair.side[near].bytes + 32768, 3, 8192);
    for (uint32_t i = 0; i < 8; i++)
        pair_post(&pair, near, FABRIC_WRITE, FABRIC_SIGNALLED, i, 32768 + (uint64_t)i * 1024, 1024);
    for (uint64_t i = 0; i < seed / 2 % 16; i++)
        assert_true(pair_step(&pair));
    fabric_disconnect(pair.side[near].fabric, pair.side[near].end);
    reads = count_of(pair.side[near].bytes, 8192, 1);
    writes = count_of(pair.side[near].bytes + 16384, 8192, 1);

    /* Only what has not completed may still land: a READ that failed has given its memory back. */
    for (uint64_t i = 0; i < seed / 32 % 16; i++) {
        uint32_t logged = pair.side[near].logged;

        if (!pair_step(&pair))
            break;
        for (; logged < pair.side[near].logged; logged++) {
            const struct fabric_completion *done = &pair.side[near].log[logged];

            if (done->op != FABRIC_READ || done->status == NIGH_OK)
                continue;
            memset(pair.side[near].bytes + done->tag * 1024, 7, 1024);
            failed[done->tag] = true;
        }
    }
    landing->read_after_disconnect += count_of(pair.side[near].bytes, 8192, 1) > reads;
    landing->write_after_disconnect += count_of(pair.side[near].bytes + 16384, 8192, 1) > writes;
    for (uint32_t i = 0; i < 8; i++)
        assert_true(!failed[i] ||
                    count_of(pair.side[near].bytes + (uint64_t)i * 1024, 1024, 7) == 1024);
    fabric_endpoint_destroy(pair.side[near].fabric, pair.side[near].end);
    at_destroy = count_of(pair.side[far].bytes + 32768, 8192, 3);
    memset(pair.side[near].bytes, 9, AREA); /* ours again: neither written nor read */
    pair_run_out(&pair);
    assert_int_equal(count_of(pair.side[near].bytes, AREA, 9), AREA);
    assert_int_equal(count_of(pair.side[far].bytes, AREA, 9), 0);
    assert_true(pair.side[far].disconnected);
    assert_int_equal(pair.side[far].logged, 8);
    landing->write_after_destroy += count_of(pair.side[far].bytes + 32768, 8192, 3) > at_destroy;
    pair_close(&pair);
}

static void test_late_landing_until_destroy(void **state)
{
    struct landing landing = {0};

    (void)state;
    for (uint64_t seed = 0; seed < LANDINGS; seed++)
        land(seed, 500000, &landing);
    print_message("# landed: %u READs and %u WRITEs after disconnect, %u WRITEs after destroy\n",
                  landing.read_after_disconnect, landing.write_after_disconnect,
                  landing.write_after_destroy);
    assert_true(landing.read_after_disconnect > LANDINGS / 40);
    assert_true(landing.write_after_disconnect > LANDINGS / 40);
    assert_true(landing.write_after_destroy > LANDINGS / 40);
}

static void test_no_late_landing_unless_asked(void **state)
{
    struct landing landing = {0};

    (void)state;
    for (uint64_t seed = 0; seed < LANDINGS; seed++)
        land(seed, 0, &landing);
    assert_int_equal(landing.read_after_disconnect, 0);
    assert_int_equal(landing.write_after_disconnect, 0);
}

/* A READ of what the target then takes back is refused, or was served before. */
static void test_a_deregistered_source_is_not_read(void **state)
{
    uint32_t refused = 0, served = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_options options = {.seed = seed, .late_read_ppm = 300000};
        struct pair pair;

        pair_open(&pair, &options);
        memset(pair.side[1].bytes, 1, 1024);
        pair_post(&pair, 0, FABRIC_READ, FABRIC_SIGNALLED, 1, 0, 1024);
        for (uint64_t i = 0; i < seed % 8 && pair.side[0].logged == 0; i++)
            assert_true(pair_step(&pair));
        fabric_memory_deregister(pair.side[1].fabric, pair.side[1].memory);
        memset(pair.side[1].bytes, 2, 1024);
        PAIR_UNTIL(&pair, pair.side[0].logged == 1);
        assert_int_equal(count_of(pair.side[0].bytes, 1024, 2), 0);
        if (pair.side[0].log[0].status == NIGH_OK) {
            served++;
        } else {
            assert_int_equal(pair.side[0].log[0].status, NIGH_DENIED);
            PAIR_UNTIL(&pair, pair.side[0].disconnected && pair.side[1].disconnected);
            refused++;
        }
        pair_close(&pair);
    }
    print_message("# %u refused, %u served\n", refused, served);
    assert_true(served > SEEDS / 10 && refused > SEEDS / 10);
}

/* What the target is told of a WRITE does not change when the writer's end is gone before. */
static void test_a_late_word_is_the_one_that_was_sent(void **state)
{
    uint32_t late = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_options options = {.seed = seed, .late_landing_ppm = 500000};
        struct fabric_slice slice;
        struct pair pair;

        pair_open(&pair, &options);
        pair_receive(&pair, 1, 9, 0, 8);
        slice = (struct fabric_slice){pair.side[0].bytes, 8, pair.side[0].memory};
        assert_int_equal(fabric_post(pair.side[0].fabric, pair.side[0].end,
                                     &(struct fabric_work){.op = FABRIC_WRITE_IMM,
                                                           .slices = &slice,
                                                           .slice_count = 1,
                                                           .imm = 4711,
                                                           .remote = pair_remote(&pair, 1, 64)},
                                     NULL),
                         NIGH_OK);
        fabric_disconnect(pair.side[0].fabric, pair.side[0].end);
        pair_run_out(&pair);
        assert_int_equal(pair.side[1].logged, 1);
        if (pair.side[1].log[0].status == NIGH_OK) {
            assert_int_equal(pair.side[1].log[0].imm, 4711);
            late++;
        }
        pair_close(&pair);
    }
    assert_true(late > SEEDS / 10);
}

/* ---- faults --------------------------------------------------------------- */

static void test_a_cut_is_silence_and_then_the_end(void **state)
{
    struct sim_options options = {.seed = 1};
    struct pair pair;
    uint64_t start_us;

    (void)state;
    pair_open(&pair, &options);
    pair_receive(&pair, 1, 9, 0, 8);
    start_us = sim_now_us(pair.sim);
    sim_cut(pair.sim, 2, 1, true);
    pair_post(&pair, 0, FABRIC_SEND, FABRIC_SIGNALLED, 1, 0, 8);
    pair.until_us = start_us + SIM_KEEPALIVE_US - 1;
    pair_run_out(&pair);
    assert_int_equal(pair.side[0].logged + pair.side[1].logged, 0);
    assert_false(pair.side[0].disconnected);
    pair.until_us++;
    pair_run_out(&pair);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(pair.side[i].disconnected);
        assert_int_equal(pair.side[i].status, NIGH_TIMEOUT);
        assert_int_equal(pair.side[i].logged, 1);
        assert_int_equal(pair.side[i].log[0].status, NIGH_PEER_LOST);
    }
    pair_close(&pair);
}

/* What node 2 says arrives, and that it did, it does not hear: it finds out alone, and says so. */
static void test_a_cut_of_one_way_is_found_by_who_hears_nothing(void **state)
{
    struct sim_options options = {.seed = 1};
    struct pair pair;
    uint64_t start_us;

    (void)state;
    pair_open(&pair, &options);
    pair_receive(&pair, 0, 8, 0, 8);
    pair_receive(&pair, 1, 9, 0, 8);
    start_us = sim_now_us(pair.sim);
    sim_cut_way(pair.sim, 1, 2, true);
    pair_post(&pair, 0, FABRIC_SEND, FABRIC_SIGNALLED, 1, 0, 8);
    pair_post(&pair, 1, FABRIC_SEND, FABRIC_SIGNALLED, 2, 64, 8);
    pair.until_us = start_us + SIM_KEEPALIVE_US - 1;
    pair_run_out(&pair);
    assert_int_equal(pair.side[0].logged, 1);
    assert_int_equal(pair.side[0].log[0].tag, 8);
    assert_int_equal(pair.side[1].logged, 0);
    assert_false(pair.side[0].disconnected || pair.side[1].disconnected);
    pair.until_us = UINT64_MAX - 1;
    PAIR_UNTIL(&pair, pair.side[1].disconnected);
    assert_int_equal(pair.side[1].status, NIGH_TIMEOUT);
    assert_false(pair.side[0].disconnected);
    PAIR_UNTIL(&pair, pair.side[0].disconnected);
    assert_int_equal(pair.side[0].status, NIGH_PEER_LOST);
    pair_close(&pair);
}

/* A READ asks, and is answered. */
static void test_a_read_needs_both_ways(void **state)
{
    (void)state;
    for (uint32_t from = 1; from <= 2; from++) {
        struct sim_options options = {.seed = from};
        struct pair pair;

        pair_open(&pair, &options);
        sim_cut_way(pair.sim, from, 3 - from, true);
        pair_post(&pair, 0, FABRIC_READ, FABRIC_SIGNALLED, 1, 0, 64);
        pair.until_us = sim_now_us(pair.sim) + SIM_KEEPALIVE_US / 2;
        pair_run_out(&pair);
        assert_int_equal(pair.side[0].logged, 0);
        sim_cut_way(pair.sim, from, 3 - from, false);
        pair.until_us = UINT64_MAX - 1;
        pair_run_out(&pair);
        assert_int_equal(pair.side[0].logged, 1);
        assert_int_equal(pair.side[0].log[0].status, NIGH_OK);
        assert_false(pair.side[0].disconnected || pair.side[1].disconnected);
        pair_close(&pair);
    }
}

static void test_a_cut_that_heals_loses_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_options options = {.seed = seed, .stall_ppm = 100000};
        struct pair pair;

        pair_open(&pair, &options);
        for (uint32_t i = 0; i < 32; i++)
            pair_receive(&pair, 1, i, (uint64_t)i * 8, 8);
        for (uint32_t i = 0; i < 32; i++) {
            if (i % 8 == 3)
                sim_cut(pair.sim, 1, 2, i % 16 == 3);
            if (i % 8 == 5) /* one way of a cut that heals, and one alone */
                sim_cut_way(pair.sim, 1 + (uint32_t)seed % 2, 2 - (uint32_t)seed % 2, i % 16 == 13);
            memset(pair.side[0].bytes + (uint64_t)i * 8, (int)i + 1, 8);
            pair_post(&pair, 0, FABRIC_SEND, FABRIC_SIGNALLED, i, (uint64_t)i * 8, 8);
            pair.until_us = sim_now_us(pair.sim) + 5;
            pair_run_out(&pair);
        }
        sim_cut(pair.sim, 1, 2, false);
        pair.until_us = UINT64_MAX - 1;
        pair_run_out(&pair);
        assert_int_equal(pair.side[1].logged, 32);
        for (uint32_t i = 0; i < 32; i++) {
            assert_int_equal(pair.side[1].log[i].tag, i);
            assert_int_equal(pair.side[1].log[i].status, NIGH_OK);
            assert_int_equal(pair.side[1].bytes[i * 8], i + 1);
        }
        assert_int_equal(pair.side[0].logged, 32);
        assert_false(pair.side[0].disconnected || pair.side[1].disconnected);
        pair_close(&pair);
    }
}

/* Its polls are empty; the seed decides whether its memory is served; afterwards all goes on. */
static void test_a_pause(void **state)
{
    uint32_t served = 0, silent = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_options options = {.seed = seed};
        struct pair pair;

        pair_open(&pair, &options);
        memset(pair.side[0].bytes, 1, 64);
        pair_receive(&pair, 1, 9, 4096, 8);
        sim_pause(pair.sim, 2, true);
        pair_post(&pair, 0, FABRIC_WRITE, FABRIC_SIGNALLED, 1, 0, 64);
        pair_post(&pair, 0, FABRIC_SEND, FABRIC_SIGNALLED, 2, 0, 8);
        pair.until_us = sim_now_us(pair.sim) + 100000;
        pair_run_out(&pair);
        assert_int_equal(pair.side[1].logged, 0);
        served += pair.side[0].logged == 2 && pair.side[1].bytes[0] == 1;
        silent += pair.side[0].logged == 0 && pair.side[1].bytes[0] == 0;
        sim_pause(pair.sim, 2, false);
        pair.until_us = UINT64_MAX - 1;
        pair_run_out(&pair);
        pair_take(&pair, &pair.side[1]); /* what came during the pause */
        assert_int_equal(pair.side[0].logged, 2);
        assert_int_equal(pair.side[1].logged, 1);
        assert_int_equal(pair.side[1].log[0].status, NIGH_OK);
        assert_false(pair.side[0].disconnected || pair.side[1].disconnected);
        pair_close(&pair);
    }
    assert_int_equal(served + silent, SEEDS);
    assert_true(served > SEEDS / 4 && silent > SEEDS / 4);
}

/* Peers of a node that serves nothing give up; it learns that when it goes on. */
static void test_a_long_pause_ends_connections(void **state)
{
    uint32_t ended = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct sim_options options = {.seed = seed};
        struct pair pair;

        pair_open(&pair, &options);
        sim_pause(pair.sim, 2, true);
        sim_advance(pair.sim, sim_now_us(pair.sim) + 2 * SIM_KEEPALIVE_US);
        pair_take(&pair, &pair.side[0]);
        assert_false(pair.side[1].disconnected);
        sim_pause(pair.sim, 2, false);
        pair_run_out(&pair);
        assert_int_equal(pair.side[0].disconnected, pair.side[1].disconnected);
        if (pair.side[0].disconnected) {
            assert_int_equal(pair.side[0].status, NIGH_TIMEOUT);
            assert_int_equal(pair.side[1].status, NIGH_PEER_LOST);
            ended++;
        }
        pair_close(&pair);
    }
    assert_true(ended > 0 && ended < 20);
}

/* Peers of a crashed node are told, or find out; its memory is left alone; it may come back. */
static void test_a_crash(void **state)
{
    uint32_t reset = 0, silent = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_options options = {.seed = seed, .late_landing_ppm = 500000};
        struct fabric_endpoint *again;
        struct pair pair;
        uint64_t start_us;

        pair_open(&pair, &options);
        memset(pair.side[0].bytes, 1, 8192);
        for (uint32_t i = 0; i < 4; i++) {
            pair_post(&pair, 0, FABRIC_WRITE, FABRIC_SIGNALLED, i, (uint64_t)i * 1024, 1024);
            pair_post(&pair, 1, FABRIC_READ, FABRIC_SIGNALLED, i, 4096 + (uint64_t)i * 1024, 1024);
        }
        for (uint64_t i = 0; i < seed % 8; i++)
            assert_true(pair_step(&pair));
        start_us = sim_now_us(pair.sim);
        sim_crash(pair.sim, 2);
        memset(pair.side[1].bytes, 5, AREA);
        assert_int_equal(fabric_connect(pair.side[1].fabric, "1:0", &depths, NULL, 0, &again),
                         NIGH_CLOSED);
        PAIR_UNTIL(&pair, pair.side[0].disconnected && pair.side[0].logged == 4);
        if (pair.side[0].status == NIGH_TIMEOUT) {
            assert_true(sim_now_us(pair.sim) >= start_us + SIM_KEEPALIVE_US);
            silent++;
        } else {
            assert_int_equal(pair.side[0].status, NIGH_PEER_LOST);
            assert_true(sim_now_us(pair.sim) < start_us + SIM_KEEPALIVE_US);
            reset++;
        }
        pair_run_out(&pair);
        assert_int_equal(count_of(pair.side[1].bytes, AREA, 5), AREA);
        assert_int_equal(count_of(pair.side[0].bytes, AREA, 5), 0);
        fabric_endpoint_destroy(pair.side[0].fabric, pair.side[0].end);
        fabric_destroy(pair.side[1].fabric);
        assert_int_equal(sim_fabric(pair.sim, 2, 0, &pair.side[1].fabric), NIGH_OK);
        assert_int_equal(fabric_listen(pair.side[1].fabric, "2:0"), NIGH_OK);
        pair.side[0].established = pair.side[1].established = false;
        pair_dial(&pair);
        PAIR_UNTIL(&pair, pair.side[0].established && pair.side[1].established);
        pair_close(&pair);
    }
    assert_true(reset > SEEDS / 4 && silent > SEEDS / 4);
}

static void test_endpoints_break(void **state)
{
    uint32_t broken = 0, whole = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_options options = {.seed = seed, .break_ppm = 50000};
        struct pair pair;

        pair_open(&pair, &options);
        for (uint32_t i = 0; i < 20; i++)
            pair_receive(&pair, 1, i, 0, 8);
        for (uint32_t i = 0; i < 20; i++)
            pair_post(&pair, 0, FABRIC_SEND, FABRIC_SIGNALLED, i, 0, 8);
        pair_run_out(&pair);
        assert_int_equal(pair.side[0].logged, 20);
        assert_int_equal(pair.side[1].logged, 20);
        for (uint32_t i = 0; i < 20; i++) {
            bool sent = pair.side[0].log[i].status == NIGH_OK;
            bool came = pair.side[1].log[i].status == NIGH_OK;

            assert_int_equal(pair.side[0].log[i].tag, i);
            assert_int_equal(pair.side[1].log[i].tag, i);
            assert_true(came || !sent); /* what completed has arrived */
        }
        assert_int_equal(pair.side[0].disconnected, pair.side[1].disconnected);
        broken += pair.side[0].disconnected;
        whole += !pair.side[0].disconnected;
        pair_close(&pair);
    }
    assert_true(broken > SEEDS / 4 && whole > SEEDS / 10);
}

static void test_connects_are_refused(void **state)
{
    uint32_t refused = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_options options = {.seed = seed, .refuse_ppm = 300000};
        struct pair pair;

        pair_make(&pair, &options);
        pair_dial(&pair);
        PAIR_UNTIL(&pair, pair.side[0].established || pair.side[0].disconnected);
        if (pair.side[0].disconnected)
            assert_int_equal(pair.side[0].status, NIGH_UNREACHABLE);
        refused += pair.side[0].disconnected;
        pair_close(&pair);
    }
    assert_true(refused > SEEDS / 5 && refused < SEEDS / 2);
}

static uint64_t time_of_a_write(uint32_t factor)
{
    struct sim_options options = {.seed = 7};
    struct pair pair;
    uint64_t start_us;

    pair_open(&pair, &options);
    sim_slow(pair.sim, 1, 2, factor);
    start_us = sim_now_us(pair.sim);
    pair_post(&pair, 0, FABRIC_WRITE, FABRIC_SIGNALLED, 1, 0, AREA);
    PAIR_UNTIL(&pair, pair.side[0].logged == 1);
    start_us = sim_now_us(pair.sim) - start_us;
    pair_close(&pair);
    return start_us;
}

static void test_a_slow_link(void **state)
{
    uint64_t plain_us = time_of_a_write(1), slow_us = time_of_a_write(50);

    (void)state;
    assert_in_range(plain_us, 65, 65 + 42);
    assert_in_range(slow_us, 50 * 60, 50 * (65 + 42));
}

/* A SEND that finds no receive ends both sides. */
static void test_no_receive(void **state)
{
    struct sim_options options = {.seed = 3};
    struct pair pair;

    (void)state;
    pair_open(&pair, &options);
    pair_post(&pair, 0, FABRIC_SEND, 0, 1, 0, 8);
    pair_run_out(&pair);
    assert_int_equal(pair.side[0].logged, 1);
    assert_int_equal(pair.side[0].log[0].status, NIGH_PROTOCOL);
    assert_int_equal(pair.side[0].status, NIGH_PROTOCOL);
    assert_int_equal(pair.side[1].status, NIGH_PROTOCOL);
    pair_close(&pair);
}

/* Places of unsignalled posts come back with the next completion, not before. */
static void test_unsignalled_posts_keep_their_places(void **state)
{
    struct sim_options options = {.seed = 3};
    struct fabric_work work = {.op = FABRIC_WRITE};
    struct pair pair;

    (void)state;
    pair_open(&pair, &options);
    work.remote = pair_remote(&pair, 1, 0);
    for (uint32_t i = 0; i < depths.sends; i++)
        pair_post(&pair, 0, FABRIC_WRITE, i + 1 == depths.sends ? FABRIC_SIGNALLED : 0, i, 0, 8);
    sim_advance(pair.sim, sim_now_us(pair.sim) + 100000);
    assert_int_equal(fabric_post(pair.side[0].fabric, pair.side[0].end, &work, NULL), NIGH_BUSY);
    pair_take(&pair, &pair.side[0]);
    assert_int_equal(pair.side[0].logged, 1);
    for (uint32_t i = 0; i < depths.sends; i++)
        assert_int_equal(fabric_post(pair.side[0].fabric, pair.side[0].end, &work, NULL), NIGH_OK);
    assert_int_equal(fabric_post(pair.side[0].fabric, pair.side[0].end, &work, NULL), NIGH_BUSY);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_read_is_overtaken_and_torn),
        cmocka_unit_test(test_a_fence_is_not_overtaken),
        cmocka_unit_test(test_an_atomic_is_overtaken),
        cmocka_unit_test(test_a_read_lands_in_pieces),
        cmocka_unit_test(test_words_are_torn),
        cmocka_unit_test(test_a_source_is_taken_late),
        cmocka_unit_test(test_no_send_overtakes_a_write),
        cmocka_unit_test(test_late_landing_until_destroy),
        cmocka_unit_test(test_no_late_landing_unless_asked),
        cmocka_unit_test(test_a_deregistered_source_is_not_read),
        cmocka_unit_test(test_a_cut_is_silence_and_then_the_end),
        cmocka_unit_test(test_a_late_word_is_the_one_that_was_sent),
        cmocka_unit_test(test_a_cut_of_one_way_is_found_by_who_hears_nothing),
        cmocka_unit_test(test_a_read_needs_both_ways),
        cmocka_unit_test(test_a_cut_that_heals_loses_nothing),
        cmocka_unit_test(test_a_pause),
        cmocka_unit_test(test_a_long_pause_ends_connections),
        cmocka_unit_test(test_a_crash),
        cmocka_unit_test(test_endpoints_break),
        cmocka_unit_test(test_connects_are_refused),
        cmocka_unit_test(test_a_slow_link),
        cmocka_unit_test(test_no_receive),
        cmocka_unit_test(test_unsignalled_posts_keep_their_places),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
