/* SPDX-License-Identifier: Apache-2.0 */
/* The crossover: links with known costs and noisy clocks, and what is made of them. */
#include "object/crossover.h"

#include "base/random.h"
#include "support/support.h"

#define LEAST (UINT64_C(8) << 10)
#define KIB   UINT64_C(1024)
#define MIB   (KIB * KIB)
#define SEEDS 50u

/* base + each * KiB, microseconds. */
struct cost {
    double base, each;
};

struct link {
    struct cost path[CROSSOVER_PATHS];
    uint32_t noise;       /* percent, either way */
    uint32_t outliers;    /* percent of transfers that take twenty times as long */
    uint32_t burst, calm; /* transfers that take three times as long, and those between them */
    uint64_t low, high;   /* sizes, spread evenly over their logarithm */
    struct random random;
    struct crossover crossover;
    uint64_t probes, transfers;
};

static void begin(struct link *link, uint64_t seed)
{
    random_init(&link->random, seed);
    crossover_init(&link->crossover, LEAST);
    link->probes = link->transfers = 0;
}

static uint64_t a_size(struct link *link)
{
    uint64_t size = link->low;

    while (size < link->high && random_below(&link->random, 8) != 0) {
        size += size / 4;
    }
    return size < link->high ? size : link->high;
}

static uint64_t took_us(struct link *link, enum crossover_path path, uint64_t bytes)
{
    double us = link->path[path].base + link->path[path].each * (double)bytes / 1024;

    if (link->burst != 0 && link->transfers % (link->burst + link->calm) < link->burst) {
        us *= 3;
    }
    us *= 1 + ((double)random_below(&link->random, 2 * link->noise + 1) - link->noise) / 100;
    return (uint64_t)(random_below(&link->random, 100) < link->outliers ? us * 20 : us);
}

static void transfer(struct link *link, uint64_t count)
{
    for (uint64_t n = 0; n < count; n++) {
        uint64_t bytes = a_size(link);
        uint64_t from = crossover_next(&link->crossover);
        bool reads = bytes >= from;
        enum crossover_path path = reads ? CROSSOVER_ONE_SIDED : CROSSOVER_TWO_SIDED;

        link->probes += reads != (bytes >= crossover_bytes(&link->crossover));
        link->transfers++;
        crossover_note(&link->crossover, path, bytes, took_us(link, path, bytes));
        assert_true(crossover_is_valid(&link->crossover));
    }
}

static void it_is_32_kib_until_measured(void **state)
{
    struct crossover crossover;

    (void)state;
    crossover_init(&crossover, LEAST);
    assert_int_equal(crossover_bytes(&crossover), 32 * KIB);
    /* One path alone says nothing. */
    for (uint32_t n = 0; n < 100; n++) {
        crossover_note(&crossover, CROSSOVER_TWO_SIDED, 64 * KIB, 50);
    }
    assert_int_equal(crossover_bytes(&crossover), 32 * KIB);
}

/* Sent: 20 us and 1 us a KiB. Read: 60 us and 0.5 us a KiB. They cross at 80 KiB. */
static void it_is_where_the_paths_cost_the_same(void **state)
{
    uint32_t near = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct link link = {
            .path = {{20, 1}, {60, 0.5}}, .noise = 30, .outliers = 10, .low = 8 * KIB, .high = MIB};

        begin(&link, seed);
        transfer(&link, 2000);
        assert_in_range(crossover_bytes(&link.crossover), 20 * KIB, 320 * KIB);
        near += crossover_bytes(&link.crossover) >= 40 * KIB &&
                crossover_bytes(&link.crossover) <= 160 * KIB;
    }
    assert_true(near >= SEEDS * 9 / 10);
}

static void it_goes_down_as_far_as_it_may(void **state)
{
    struct link link = {
        .path = {{50, 1}, {20, 0.5}}, .noise = 30, .outliers = 5, .low = 8 * KIB, .high = MIB};

    (void)state;
    begin(&link, 1);
    transfer(&link, 2000);
    assert_in_range(crossover_bytes(&link.crossover), LEAST, 16 * KIB);
    assert_true(crossover_next(&link.crossover) >= LEAST);
}

static void a_link_may_have_none(void **state)
{
    struct link link = {
        .path = {{20, 0.5}, {60, 1}}, .noise = 30, .outliers = 5, .low = 8 * KIB, .high = 8 * MIB};

    (void)state;
    begin(&link, 1);
    transfer(&link, 40000);
    assert_true(crossover_bytes(&link.crossover) == CROSSOVER_NONE);
    /* And finds one again. */
    link.path[CROSSOVER_ONE_SIDED] = (struct cost){30, 0.2};
    transfer(&link, 40000);
    assert_true(crossover_bytes(&link.crossover) < MIB);
}

static void it_follows_a_link_that_changes(void **state)
{
    struct link link = {
        .path = {{20, 1}, {60, 0.5}}, .noise = 20, .outliers = 5, .low = 8 * KIB, .high = MIB};

    (void)state;
    begin(&link, 1);
    transfer(&link, 2000);
    assert_in_range(crossover_bytes(&link.crossover), 40 * KIB, 160 * KIB);
    link.path[CROSSOVER_ONE_SIDED] = (struct cost){220, 0.5}; /* 400 KiB */
    transfer(&link, 20000);
    assert_in_range(crossover_bytes(&link.crossover), 200 * KIB, 800 * KIB);
}

static void what_was_not_measured_is_not_answered(void **state)
{
    /* Only 40 to 50 KiB is ever pulled, and there it is better sent. */
    struct link link = {
        .path = {{20, 1}, {90, 0.5}}, .noise = 10, .low = 40 * KIB, .high = 50 * KIB};

    (void)state;
    begin(&link, 1);
    transfer(&link, 1000);
    assert_in_range(crossover_bytes(&link.crossover), 50 * KIB, 64 * KIB);
}

/* Sizes right below and right above the border of two classes may be the same in KiB: there is no
 * line through them. */
static void sizes_at_a_border_say_something_too(void **state)
{
    static const struct {
        uint64_t sent_bytes, read_bytes;
        uint64_t sent_us, read_us;
    } sizes[] = {{16 * KIB - 1, 12 * KIB, 100, 150}, {16 * KIB, 20 * KIB, 200, 150}};
    struct crossover crossover;

    (void)state;
    crossover_init(&crossover, LEAST);
    for (uint32_t n = 0; n < 100; n++) {
        crossover_note(&crossover, CROSSOVER_TWO_SIDED, sizes[n % 2].sent_bytes,
                       sizes[n % 2].sent_us);
        crossover_note(&crossover, CROSSOVER_ONE_SIDED, sizes[n % 2].read_bytes,
                       sizes[n % 2].read_us);
        assert_in_range(crossover_bytes(&crossover), LEAST, 64 * KIB);
        assert_true(crossover_next(&crossover) >= LEAST);
    }
    assert_in_range(crossover_bytes(&crossover), 12 * KIB, 20 * KIB);
}

/* One size alone, far from where the crossover begins, and the other way is the better one. */
static void a_single_size_finds_its_way(void **state)
{
    static const struct {
        uint64_t bytes;
        struct cost sent, read;
        bool is_read;
    } cases[] = {
        {16 * KIB, {60, 1}, {20, 0.5}, true},       {128 * KIB, {10, 1}, {100, 1}, false},
        {256 * KIB, {10, 0.5}, {100, 0.5}, false},  {512 * KIB, {10, 0.4}, {100, 0.4}, false},
        {1536 * KIB, {10, 0.4}, {100, 0.5}, false}, {128 * KIB, {100, 1}, {10, 1}, true},
    };

    (void)state;
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        struct link link = {.path = {cases[n].sent, cases[n].read},
                            .noise = 20,
                            .outliers = 5,
                            .low = cases[n].bytes,
                            .high = cases[n].bytes};

        begin(&link, n + 1);
        transfer(&link, 200);
        assert_int_equal(cases[n].bytes >= crossover_bytes(&link.crossover), cases[n].is_read);
        link.probes = link.transfers = 0;
        transfer(&link, 20000);
        assert_int_equal(cases[n].bytes >= crossover_bytes(&link.crossover), cases[n].is_read);
        assert_true(link.probes <= link.transfers / CROSSOVER_PROBE);
    }
}

/* Everything is slow for a while, now and then: that is not the fault of the path that is taken. */
static void bad_moments_turn_nobody_away(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct link link = {.path = {{20, 0.2}, {40, 0.25}},
                            .noise = 20,
                            .burst = 12,
                            .calm = 288,
                            .low = 128 * KIB,
                            .high = 128 * KIB};
        uint64_t wrong = 0;

        begin(&link, seed);
        transfer(&link, 500);
        for (uint32_t n = 0; n < 10000; n++) {
            wrong += 128 * KIB >= crossover_bytes(&link.crossover);
            transfer(&link, 1);
        }
        assert_in_range(wrong, 0, 500);
    }
}

static void probes_are_a_bounded_share(void **state)
{
    struct link link = {
        .path = {{20, 1}, {60, 0.5}}, .noise = 20, .outliers = 5, .low = 8 * KIB, .high = MIB};

    (void)state;
    begin(&link, 1);
    transfer(&link, 500);
    link.probes = link.transfers = 0;
    transfer(&link, 20000);
    assert_true(link.probes > 0);
    assert_true(link.probes <= link.transfers / CROSSOVER_PROBE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_32_kib_until_measured),
        cmocka_unit_test(it_is_where_the_paths_cost_the_same),
        cmocka_unit_test(it_goes_down_as_far_as_it_may),
        cmocka_unit_test(a_link_may_have_none),
        cmocka_unit_test(it_follows_a_link_that_changes),
        cmocka_unit_test(what_was_not_measured_is_not_answered),
        cmocka_unit_test(sizes_at_a_border_say_something_too),
        cmocka_unit_test(a_single_size_finds_its_way),
        cmocka_unit_test(bad_moments_turn_nobody_away),
        cmocka_unit_test(probes_are_a_bounded_share),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
