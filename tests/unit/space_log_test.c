/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A space's log on a disk that loses, tears and reorders what was not synced: a node appends what
 * it likes, its power goes at any operation of the disk, and it begins again from what there is,
 * several times. What was said to be durable is there, nothing is there that was not appended, and
 * it is all up to one record and none behind it. And images are made all the while.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "space_log_disk.h"
#include "space_log_model.h"
#include "support/support.h"

#define SEEDS      2000u
#define LIVES      5u
#define STEPS      160u
#define APPENDED   4096u
#define FILE_BYTES LIMIT_SPACE_LOG_BYTES_MIN
#define IDENTITY   UINT64_C(0x5ace)

/* One node, over its lives. */
static struct node {
    struct disk disk;
    struct space_log_files files;
    struct random random;
    struct space_log log;
    struct space_log_state state;
    uint8_t home[MODEL_BLOCKS * MODEL_BYTES];
    struct model begin;    /* as it was at the beginning of this life */
    struct model appended; /* all that was appended; */
    struct model applied;  /* all that was applied: what an image has */
    struct model_record records[APPENDED];
    uint64_t from;     /* the number of the first of these */
    uint64_t is_done;  /* applied up to this */
    bool is_sync;      /* applied once it is durable; else as it is appended */
    struct space_log_job job;
    bool has_job;
    uint32_t image_at; /* what is put next */
    struct model_record image_record;
    bool has_image_record;
    uint64_t life;
} node;

static struct {
    uint64_t records, images, stops, cuts, commits, in_commits, busy;
} seen;

/* ---- a life --------------------------------------------------------------- */

static nigh_status begin_life(uint64_t stops_at)
{
    struct space_log_found found;
    struct space_log_name name = {.identity = IDENTITY, .life = ++node.life};
    nigh_status status;

    memset(node.home, 0x77, sizeof(node.home));
    assert_int_equal(space_log_state_init(&node.state, &model_geometry, node.home, 1), NIGH_OK);
    status = space_log_recover(&node.files, IDENTITY, &node.state, &found);
    assert_int_equal(status, NIGH_OK);
    /* All up to one record, and that one is not before what was said to be durable. */
    if (node.life > 1) {
        uint64_t durable = node.log.durable == 0 ? node.from - 1 : node.log.durable;

        assert_true(found.next > durable);
        assert_true(found.next <= max_u64(node.log.next, node.from));
        node.applied = node.begin;
        for (uint64_t n = node.from; n < found.next; n++) {
            model_apply(&node.applied, &node.records[n - node.from]);
        }
        assert_true(model_equals(&node.applied, &node.state));
        seen.cuts += found.next < node.log.next;
    }
    node.begin = node.appended = node.applied;
    node.from = found.next;
    node.is_done = found.next - 1;
    node.has_job = node.has_image_record = false;
    space_log_fini(&node.log);
    node.disk.stops_at = stops_at;
    status = space_log_start(&node.log, &node.files, &name, FILE_BYTES, &node.state, &found);
    space_log_state_fini(&node.state);
    return status;
}

/* All that was appended is durable up to `number`. */
static void apply_up_to(uint64_t number)
{
    for (; node.is_done < number; node.is_done++) {
        model_apply(&node.applied, &node.records[node.is_done + 1 - node.from]);
    }
}

static void append(void)
{
    struct model_record record;
    uint64_t number;
    nigh_status status;

    if (node.log.next - node.from == APPENDED) {
        return;
    }
    model_choose(&node.appended, &node.random, &record);
    if (record.record.length > 0) {
        record.record.bytes = record.bytes;
    }
    status = space_log_append(&node.log, &record.record, &number);
    seen.busy += status == NIGH_BUSY;
    if (status != NIGH_OK) {
        return;
    }
    assert_int_equal(number, node.log.next - 1);
    node.records[number - node.from] = record;
    model_apply(&node.appended, &record);
    seen.records++;
    if (!node.is_sync) {
        apply_up_to(number);
    }
}

/* The lane hears of it in its own time. */
static void hear(void)
{
    uint64_t before = node.log.durable;

    node.has_job = false;
    space_log_ended(&node.log, &node.job);
    if (node.log.durable > before) {
        seen.commits++;
        seen.in_commits += node.log.durable - before;
    }
    apply_up_to(node.log.durable);
}

static void work(void)
{
    if (node.has_job) {
        hear();
    } else if (space_log_take_job(&node.log, &node.job)) {
        node.has_job = true;
        space_log_run(&node.files, &node.job);
    }
}

static void fill_image(void)
{
    nigh_status status;

    while (space_log_fills(&node.log) && random_below(&node.random, 8) != 0) {
        if (!node.has_image_record) {
            if (!model_next_of_image(&node.applied, &node.image_at, &node.image_record)) {
                (void)space_log_end_image(&node.log);
                return;
            }
            node.has_image_record = node.image_record.record.kind != SPACE_LOG_NOTHING;
        }
        if (node.has_image_record) {
            status = space_log_put(&node.log, &node.image_record.record);
            node.has_image_record = status != NIGH_OK;
        }
    }
}

static void live(void)
{
    for (uint32_t n = 0; n < STEPS && !node.disk.has_stopped; n++) {
        uint64_t what = random_below(&node.random, 8);

        if (what < 4) {
            for (uint64_t k = random_below(&node.random, 8); k > 0; k--) {
                append();
            }
        } else if (what < 6) {
            work();
        } else if (what < 7) {
            fill_image();
        } else if (space_log_wants_image(&node.log) || random_below(&node.random, 16) == 0) {
            if (space_log_begin_image(&node.log)) {
                node.image_at = 0;
                node.has_image_record = false;
            }
        }
    }
    seen.images += node.log.images;
    seen.stops += node.disk.has_stopped;
}

static void begin_node(uint64_t seed, bool is_sync)
{
    memset(&node, 0, sizeof(node));
    disk_init(&node.disk, seed);
    random_init(&node.random, seed * 2 + 1);
    node.files = disk_files(&node.disk);
    node.is_sync = is_sync;
    node.from = 1;
}

static void end_node(void)
{
    space_log_fini(&node.log);
    disk_fini(&node.disk);
}

/* A start that the disk stopped has no log; what was there before it is there. */
static void live_once(uint64_t stops_at)
{
    if (begin_life(stops_at) == NIGH_OK) {
        live();
    } else {
        assert_true(node.disk.has_stopped);
    }
    disk_start(&node.disk, UINT64_MAX);
}

/* ---- tests ---------------------------------------------------------------- */

static void what_was_durable_is_there_whenever_the_power_goes(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    memset(&seen, 0, sizeof(seen));
    for (uint32_t n = 0; n < SEEDS; n++) {
        begin_node(seed + n, n % 2 == 0);
        for (uint32_t life = 0; life < LIVES; life++) {
            live_once(random_below(&node.random, life == 0 ? 40 : 120));
        }
        assert_int_equal(begin_life(UINT64_MAX), NIGH_OK);
        end_node();
    }
    print_message("# %u nodes, %llu stops: %llu records, %llu commits of %llu, %llu images, %llu "
                  "times something was lost, %llu times there was no room\n",
                  SEEDS, (unsigned long long)seen.stops, (unsigned long long)seen.records,
                  (unsigned long long)seen.commits, (unsigned long long)seen.in_commits,
                  (unsigned long long)seen.images, (unsigned long long)seen.cuts,
                  (unsigned long long)seen.busy);
    assert_true(seen.images > SEEDS / 8 && seen.cuts > SEEDS / 2 && seen.busy > 0);
}

/* One course, stopped at each of its operations, several ways. */
static void the_power_may_go_at_each_operation(void **state)
{
    uint64_t seed = support_seed(), boundaries = 0;

    (void)state;
    for (uint32_t course = 0; course < 6; course++) {
        bool is_over = false;

        for (uint32_t at = 0; !is_over; at++) {
            for (uint32_t way = 0; way < 4; way++) {
                begin_node(seed + course, course % 2 == 0);
                random_init(&node.disk.random, seed + at * 4 + way);
                live_once(at);
                is_over = at > node.disk.operations + 1000 || at > 400;
                live_once(UINT64_MAX);
                assert_int_equal(begin_life(UINT64_MAX), NIGH_OK);
                end_node();
            }
            boundaries++;
        }
    }
    print_message("# %llu boundaries\n", (unsigned long long)boundaries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_durable_is_there_whenever_the_power_goes),
        cmocka_unit_test(the_power_may_go_at_each_operation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
