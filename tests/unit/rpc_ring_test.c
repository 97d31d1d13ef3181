/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings that frames are written into: what two sides count that follow the rules always agrees, no
 * frame lies on another that was not taken out, nobody waits for ever, and two immediates without a
 * frame are never on their way at once; what breaks a rule is refused and changes nothing. And
 * which of two ways is taken for the quicker one.
 */
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/random.h"
#include "rpc/rpc_ring.h"
#include "rpc/rpc_way.h"

#define MOST_UNITS 512u
#define PIPE       1024u

/* One side: the ring that it reads, the peer's that it writes to, and what is on its way to it. */
struct end {
    struct rpc_ring_writer writer;
    struct rpc_ring_reader reader;
    uint8_t memory[MOST_UNITS * RPC_RING_UNIT]; /* of the reader's ring */
    struct {
        uint32_t imm, bytes;
        uint8_t fill;
    } pipe[PIPE]; /* in order */
    uint32_t first, count;
    uint32_t news;    /* of them, without a frame */
    uint8_t last_out; /* what the frames that left last were filled with */
    uint8_t last_in;
};

struct pair {
    struct end ends[2];
    struct random random;
    uint64_t frames, news, full, skips;
};

static void pair_open(struct pair *pair, uint64_t seed, uint32_t units, uint32_t frame_bytes)
{
    memset(pair, 0, sizeof(*pair));
    random_init(&pair->random, seed);
    assert_true(rpc_ring_is_enough(units, frame_bytes));
    for (uint32_t n = 0; n < 2; n++) {
        pair->ends[n].writer.units = units;
        pair->ends[n].reader.units = units;
        pair->ends[n].reader.frame_bytes = frame_bytes;
    }
}

static void put(struct end *to, uint32_t imm, uint32_t bytes, uint8_t fill)
{
    assert_true(to->count < PIPE);
    to->pipe[(to->first + to->count) % PIPE].imm = imm;
    to->pipe[(to->first + to->count) % PIPE].bytes = bytes;
    to->pipe[(to->first + to->count) % PIPE].fill = fill;
    to->count++;
}

/* Whether there was room. The bytes land at once: before what was said of them comes. */
static bool write_frame(struct pair *pair, uint32_t from, uint32_t bytes)
{
    struct end *end = &pair->ends[from], *to = &pair->ends[1 - from];
    uint32_t before = end->writer.at, place = UINT32_MAX;

    if (!rpc_ring_take(&end->writer, bytes, &place)) {
        assert_int_equal(place, UINT32_MAX);
        pair->full++;
        return false;
    }
    assert_true(place * RPC_RING_UNIT + bytes <= to->reader.units * RPC_RING_UNIT);
    pair->skips += place != before;
    memset(to->memory + (size_t)place * RPC_RING_UNIT, ++end->last_out, bytes);
    put(to, rpc_ring_imm(&end->reader, place), bytes, end->last_out);
    pair->frames++;
    return true;
}

static void tell(struct pair *pair, uint32_t from)
{
    struct end *end = &pair->ends[from], *to = &pair->ends[1 - from];

    if (rpc_ring_must_tell(&end->reader)) {
        put(to, rpc_ring_imm(&end->reader, RPC_RING_NONE), 0, 0);
        assert_int_equal(++to->news, 1); /* one receive is kept for them */
        pair->news++;
        assert_false(rpc_ring_must_tell(&end->reader));
    }
}

static void take(struct pair *pair, uint32_t at)
{
    struct end *end = &pair->ends[at];
    uint32_t imm, bytes, place;
    uint8_t fill;

    if (end->count == 0) {
        return;
    }
    imm = end->pipe[end->first].imm;
    bytes = end->pipe[end->first].bytes;
    fill = end->pipe[end->first].fill;
    end->first = (end->first + 1) % PIPE;
    end->count--;
    assert_int_equal(rpc_ring_came(&end->writer, &end->reader, imm, bytes, &place), NIGH_OK);
    assert_int_equal(place == RPC_RING_NONE, bytes == 0);
    if (bytes == 0) {
        end->news--;
    } else {
        assert_int_equal(fill, ++end->last_in);
        for (uint32_t n = 0; n < bytes; n++) {
            assert_int_equal(end->memory[(size_t)place * RPC_RING_UNIT + n], fill);
        }
    }
    tell(pair, at);
}

static void settle(struct pair *pair)
{
    while (pair->ends[0].count + pair->ends[1].count > 0) {
        take(pair, 0);
        take(pair, 1);
    }
}

static void frames_lie_behind_each_other(void **state)
{
    static struct pair pair;
    struct rpc_ring_writer *writer = &pair.ends[0].writer;
    uint32_t place;

    (void)state;
    pair_open(&pair, 1, 16, 4 * RPC_RING_UNIT);
    assert_true(rpc_ring_take(writer, 1, &place));
    assert_int_equal(place, 0);
    assert_true(rpc_ring_take(writer, 3 * RPC_RING_UNIT + 1, &place));
    assert_int_equal(place, 1);
    assert_true(rpc_ring_take(writer, 4 * RPC_RING_UNIT, &place));
    assert_int_equal(place, 5);
    assert_true(rpc_ring_take(writer, 4 * RPC_RING_UNIT, &place));
    assert_int_equal(place, 9);
    /* Three units are left, and a frame of four does not fit there, nor at the start. */
    assert_false(rpc_ring_take(writer, 4 * RPC_RING_UNIT, &place));
    assert_int_equal(writer->used, 13);
    writer->used -= 9;
    assert_true(rpc_ring_take(writer, 4 * RPC_RING_UNIT, &place));
    assert_int_equal(place, 0);
    assert_int_equal(writer->used, 4 + 3 + 4);
    /* There is room for four units, but not for those that would be skipped, too. */
    writer->at = 13;
    writer->used = 10;
    assert_false(rpc_ring_take(writer, 4 * RPC_RING_UNIT, &place));
    writer->used = 9;
    assert_true(rpc_ring_take(writer, 4 * RPC_RING_UNIT, &place));
    assert_int_equal(writer->used, 16);
    /* To the very end, and the next is the first again. */
    writer->at = 12;
    writer->used = 0;
    assert_true(rpc_ring_take(writer, 4 * RPC_RING_UNIT, &place));
    assert_int_equal(place, 12);
    assert_int_equal(writer->at, 0);
}

static void what_is_owed_goes_with_the_next_frame(void **state)
{
    static struct pair pair;

    (void)state;
    pair_open(&pair, 2, 16, 4 * RPC_RING_UNIT);
    assert_true(write_frame(&pair, 0, 4 * RPC_RING_UNIT));
    assert_true(write_frame(&pair, 0, 4 * RPC_RING_UNIT));
    settle(&pair);
    assert_int_equal(pair.ends[1].reader.owed, 8); /* half, not more */
    assert_int_equal(pair.news, 0);
    assert_true(write_frame(&pair, 1, 1));
    assert_int_equal(pair.ends[1].reader.owed, 0);
    assert_int_equal(pair.ends[0].writer.used, 8);
    settle(&pair);
    assert_int_equal(pair.ends[0].writer.used, 0);
    assert_int_equal(pair.ends[1].writer.used, 1);
    /* More than half goes alone. */
    for (uint32_t n = 0; n < 3; n++) {
        assert_true(write_frame(&pair, 0, 3 * RPC_RING_UNIT));
    }
    settle(&pair);
    assert_int_equal(pair.news, 1);
    assert_int_equal(pair.ends[0].writer.used, 0);
}

/* Both sides write what there is room for, hear and tell, in any order; then who has no room gets
 * it by the other's taking in alone. */
static void pairs_at_random(void **state)
{
    static struct pair pair;
    uint64_t seed = support_seed(), frames = 0, news = 0, full = 0, skips = 0, pairs = 0;
    uint64_t end_us = support_now_us() + support_budget_ms(300) * 1000;

    (void)state;
    while (support_now_us() < end_us || pairs < 200) {
        struct random *random = &pair.random;
        uint32_t frame_units, units;

        pair_open(&pair, seed + pairs, 4, 1);
        frame_units = 1 + (uint32_t)random_below(random, 12);
        units = RPC_RING_FRAMES * frame_units + (uint32_t)random_below(random, 40);
        pair_open(&pair, seed + pairs, units, frame_units * RPC_RING_UNIT);
        for (uint32_t step = 0; step < 2000; step++) {
            uint32_t side = (uint32_t)random_below(random, 2);

            if (random_below(random, 2) == 0 && pair.ends[1 - side].count < PIPE / 2) {
                (void)write_frame(&pair, side,
                                  1 + (uint32_t)random_below(random, frame_units * RPC_RING_UNIT));
            } else {
                take(&pair, side);
            }
            for (uint32_t n = 0; n < 2; n++) {
                assert_true(rpc_ring_is_valid(&pair.ends[n].writer, &pair.ends[n].reader));
            }
        }
        settle(&pair);
        assert_true(write_frame(&pair, 0, frame_units * RPC_RING_UNIT));
        assert_true(write_frame(&pair, 1, frame_units * RPC_RING_UNIT));
        frames += pair.frames;
        news += pair.news;
        full += pair.full;
        skips += pair.skips;
        pairs++;
    }
    print_message("# %llu pairs, %llu frames, %llu behind a gap, %llu found no room, %llu news\n",
                  (unsigned long long)pairs, (unsigned long long)frames, (unsigned long long)skips,
                  (unsigned long long)full, (unsigned long long)news);
    assert_true(news > pairs && full > pairs && skips > pairs);
}

static void what_breaks_a_rule_does_nothing(void **state)
{
    const struct rpc_ring_writer writer = {.units = 40, .at = 7, .used = 30};
    const struct rpc_ring_reader reader = {
        .units = 32, .frame_bytes = 8 * RPC_RING_UNIT - 5, .at = 28, .owed = 20};
    const struct {
        uint32_t freed, place;
        uint64_t bytes;
        nigh_status status;
    } cases[] = {
        {0, 28, 4 * RPC_RING_UNIT, NIGH_OK},
        {30, 28, 1, NIGH_OK},
        {31, 28, 1, NIGH_PROTOCOL}, /* more than was taken */
        {0, 27, 1, NIGH_PROTOCOL},  /* on what was there */
        {0, 29, 1, NIGH_PROTOCOL},  /* behind a gap */
        {0, 0, 1, NIGH_PROTOCOL},   /* though it fits before the end */
        {0, 0, 5 * RPC_RING_UNIT, NIGH_OK},
        {0, 28, 5 * RPC_RING_UNIT, NIGH_PROTOCOL}, /* beyond the end */
        {0, 0, 8 * RPC_RING_UNIT - 5, NIGH_OK},
        {0, 0, 8 * RPC_RING_UNIT - 4, NIGH_PROTOCOL}, /* longer than a frame */
        {0, 0, UINT64_MAX, NIGH_PROTOCOL},
        {0, RPC_RING_NONE, 1, NIGH_PROTOCOL},
        {21, RPC_RING_NONE, 0, NIGH_OK},
        {20, RPC_RING_NONE, 0, NIGH_PROTOCOL}, /* half: it could have waited */
        {0, RPC_RING_NONE, 0, NIGH_PROTOCOL},
        {31, RPC_RING_NONE, 0, NIGH_PROTOCOL},
        {21, 28, 0, NIGH_PROTOCOL}, /* a frame of nothing */
    };
    struct rpc_ring_writer no_writer = {0}, one;
    struct rpc_ring_reader no_reader = {0}, other;
    uint32_t place;

    (void)state;
    for (size_t n = 0; n < ARRAY_LENGTH(cases); n++) {
        uint32_t imm = cases[n].freed << 16 | cases[n].place;

        one = writer;
        other = reader;
        assert_int_equal(rpc_ring_came(&one, &other, imm, cases[n].bytes, &place), cases[n].status);
        if (cases[n].status == NIGH_OK) {
            assert_int_equal(place, cases[n].place);
            assert_int_equal(one.used, writer.used - cases[n].freed);
        } else {
            assert_memory_equal(&one, &writer, sizeof(writer));
            assert_memory_equal(&other, &reader, sizeof(reader));
        }
        /* Who gave no ring, and was given none, is told nothing by immediates. */
        assert_int_equal(rpc_ring_came(&no_writer, &no_reader, imm, cases[n].bytes, &place),
                         NIGH_PROTOCOL);
    }
    /* More than is free, whatever the peer may have heard. */
    other = reader;
    other.owed = 29;
    one = writer;
    assert_int_equal(rpc_ring_came(&one, &other, 28, 4 * RPC_RING_UNIT, &place), NIGH_PROTOCOL);
    assert_int_equal(rpc_ring_came(&one, &other, 28, 3 * RPC_RING_UNIT, &place), NIGH_OK);
    assert_false(rpc_ring_is_enough(15, 3 * RPC_RING_UNIT + 1));
    assert_true(rpc_ring_is_enough(16, 3 * RPC_RING_UNIT + 1));
    assert_false(rpc_ring_is_enough(RPC_RING_MOST + 1, 1));
    assert_false(rpc_ring_is_enough(16, 0));
    assert_false(rpc_ring_is_enough(0, 1));
}

/* ---- which way ------------------------------------------------------------ */

/* Measures where each call takes so long; `odd` of every way take a hundred times that. */
static enum rpc_way_kind measured(uint64_t sent_us, uint64_t written_us, uint32_t odd,
                                  struct rpc_way *way)
{
    uint32_t calls[RPC_WAYS] = {0};

    rpc_way_begin(way);
    while (rpc_way_wants(way)) {
        enum rpc_way_kind kind = rpc_way_next(way);
        uint64_t us = kind == RPC_WAY_SENT ? sent_us : written_us;

        assert_int_equal(rpc_way_next(way), kind);
        rpc_way_took(way, calls[kind]++ < 1 + odd ? 100 * us : us);
        /* Neither is ahead by more than one. */
        assert_in_range(calls[0] + 1 - calls[1], 0, 2);
    }
    assert_int_equal(calls[RPC_WAY_SENT], 1 + RPC_WAY_CALLS);
    assert_int_equal(calls[RPC_WAY_WRITTEN], 1 + RPC_WAY_CALLS);
    return rpc_way_quicker(way);
}

static void the_quicker_way_is_taken(void **state)
{
    struct rpc_way way;

    (void)state;
    assert_int_equal(measured(100, 200, 0, &way), RPC_WAY_SENT);
    assert_int_equal(measured(200, 100, 0, &way), RPC_WAY_WRITTEN);
    assert_int_equal(rpc_way_us(&way, RPC_WAY_SENT), 200);
    assert_int_equal(rpc_way_us(&way, RPC_WAY_WRITTEN), 100);
    /* Alike, and nearly: a ring has its price. */
    assert_int_equal(measured(100, 100, 0, &way), RPC_WAY_SENT);
    assert_int_equal(measured(160, 150, 0, &way), RPC_WAY_SENT);
    assert_int_equal(measured(160, 149, 0, &way), RPC_WAY_WRITTEN);
    assert_int_equal(measured(0, 0, 0, &way), RPC_WAY_SENT);
    /* Odd moments, fewer than half of all, are not heard. */
    assert_int_equal(measured(200, 100, RPC_WAY_CALLS / 2, &way), RPC_WAY_WRITTEN);
    assert_int_equal(rpc_way_us(&way, RPC_WAY_WRITTEN), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_lie_behind_each_other),
        cmocka_unit_test(what_is_owed_goes_with_the_next_frame),
        cmocka_unit_test(pairs_at_random),
        cmocka_unit_test(what_breaks_a_rule_does_nothing),
        cmocka_unit_test(the_quicker_way_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
