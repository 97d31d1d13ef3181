/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs provider over a device that errs: what docs/verbs.md promises beyond the fabric's
 * contract, which the conformance tests hold it to. V1, V2, ... are that page's numbers.
 */
#include "conformance/world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "fabric/address.h"
#include "fabric/fake_verbs.h"
#include "fabric/verbs/verbs.h"

#define SIZE UINT64_C(4096)

struct scene {
    struct world *world;
    struct world_area *here, *there;
    struct world_end *alice, *bob;
};

static void scene_make(struct scene *scene, struct world *world, uint32_t depth)
{
    scene->world = world;
    scene->here = world_area(world, ALICE, 64 * SIZE, ALL_RIGHTS);
    scene->there = world_area(world, BOB, 64 * SIZE, ALL_RIGHTS);
    world_join_deep(world, ALICE, BOB, depth, &scene->alice, &scene->bob);
}

static struct fabric_work write_of(const struct scene *scene, struct fabric_slice *slice,
                                   uint64_t tag, uint32_t flags)
{
    *slice = area_slice(scene->here, 0, 64);
    return (struct fabric_work){.op = FABRIC_WRITE,
                                .flags = flags,
                                .tag = tag,
                                .slices = slice,
                                .slice_count = 1,
                                .remote = area_remote(scene->there, 0)};
}

static uint32_t left_of(const char *what)
{
    const char *found = strstr(fake_verbs_left(), what);
    unsigned count = 0;

    if (found != NULL)
        (void)sscanf(found + strlen(what), " %u", &count);
    return count;
}

/* ---- which device ---- */

static void expect_why(const struct verbs_options *options, const char *part)
{
    char why[VERBS_WHY_BYTES] = "";
    struct fabric *fabric = NULL;

    assert_int_equal(verbs_create(options, why, &fabric), NIGH_UNSUPPORTED);
    assert_null(fabric);
    if (strstr(why, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", why, part);
}

/* V1: what is wrong is said, and nothing is left behind. */
static void test_what_is_wrong_is_said(void **state)
{
    struct verbs_options options = {.library = fake_verbs_library()};

    (void)state;
    fake_verbs_start();
    fake_verbs_port(IBV_PORT_DOWN);
    expect_why(&options, "port 1 of fake0 is down");
    fake_verbs_port(IBV_PORT_INIT);
    expect_why(&options, "subnet manager");
    fake_verbs_port(IBV_PORT_ACTIVE);
    fake_verbs_no_gid(true);
    expect_why(&options, "no GID");
    fake_verbs_no_gid(false);
    fake_verbs_link_local(true);
    expect_why(&options, "only link-local GIDs");
    fake_verbs_link_local(false);
    fake_verbs_refuse_queues(true);
    expect_why(&options, "no queue pair");
    fake_verbs_refuse_queues(false);
    options.device = "mlx5_7";
    expect_why(&options, "no RDMA device mlx5_7");
    options.address = "10.1.2.3";
    expect_why(&options, "no RDMA device has the address 10.1.2.3");
    options.address = FAKE_VERBS_ADDRESS;
    expect_why(&options, "is of fake0, not of mlx5_7");
    options.address = "nonsense";
    expect_why(&options, "is no address");
    assert_string_equal(fake_verbs_left(), "");
}

static char mtu_line[512];

static void take_mtu_line(void *context, enum log_level level, const char *line, size_t length)
{
    (void)context;
    (void)length;
    if (level <= LOG_LEVEL_WARN && strstr(line, "MTU") != NULL)
        (void)snprintf(mtu_line, sizeof(mtu_line), "%s", line);
}

/* V1: GIDs of the link are all that InfiniBand needs (there they are subnets'), that iWARP has, and
 * that an address which was named may have. */
static void test_link_local_gids_that_will_do(void **state)
{
    struct verbs_options options = {.library = fake_verbs_library()};
    char why[VERBS_WHY_BYTES];
    struct fabric *fabric = NULL;

    (void)state;
    fake_verbs_start();
    fake_verbs_link_local(true);
    fake_verbs_iwarp(true);
    assert_int_equal(verbs_create(&options, why, &fabric), NIGH_OK);
    fabric_destroy(fabric);
    fake_verbs_iwarp(false);
    options.address = FAKE_VERBS_ADDRESS;
    assert_int_equal(verbs_create(&options, why, &fabric), NIGH_OK);
    fabric_destroy(fabric);
    assert_string_equal(fake_verbs_left(), "");
}

/* F69: atomics are atomic with those of processors where the device says so, and words are never
 * said to be whole. */
static void test_what_is_said_of_words(void **state)
{
    const uint32_t words = FABRIC_CAN_ATOMICS | FABRIC_CAN_ATOMICS_HERE | FABRIC_CAN_WORDS;
    const uint32_t said[] = {FABRIC_CAN_ATOMICS, FABRIC_CAN_ATOMICS | FABRIC_CAN_ATOMICS_HERE, 0};
    struct verbs_options options = {.library = fake_verbs_library(), .address = FAKE_VERBS_ADDRESS};
    char why[VERBS_WHY_BYTES];

    (void)state;
    fake_verbs_start();
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        struct fabric *fabric = NULL;

        fake_verbs_glob(i == 1);
        fake_verbs_iwarp(i == 2);
        assert_int_equal(verbs_create(&options, why, &fabric), NIGH_OK);
        assert_int_equal(fabric->caps.ops & words, said[i]);
        fabric_destroy(fabric);
    }
    fake_verbs_iwarp(false);
    assert_string_equal(fake_verbs_left(), "");
}

/* V1: packets that are smaller than any network needs them to be are said once, with the remedy. */
static void test_a_small_mtu_is_said(void **state)
{
    static const struct log_sink sink = {.write = take_mtu_line};
    struct verbs_options options = {.library = fake_verbs_library()};
    const enum ibv_mtu mtus[] = {IBV_MTU_1024, IBV_MTU_512};
    char why[VERBS_WHY_BYTES];

    (void)state;
    fake_verbs_start();
    log_set_sink(&sink);
    for (size_t i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
        struct fabric *fabric = NULL;

        assert_string_equal(mtu_line, "");
        fake_verbs_mtu(mtus[i]);
        assert_int_equal(verbs_create(&options, why, &fabric), NIGH_OK);
        fabric_destroy(fabric);
    }
    log_set_sink(NULL);
    assert_non_null(strstr(mtu_line, "device=fake0 port=1 mtu=512 most=4096"));
    assert_non_null(strstr(mtu_line, "raise that of its interface"));
    assert_string_equal(fake_verbs_left(), "");
}

/* ---- how packets travel ---- */

/* A fabric of other options in the place of one of the world's. */
static void replace(struct world *world, uint32_t fabric, struct verbs_options options)
{
    char why[VERBS_WHY_BYTES], address[FABRIC_ADDRESS_BYTES];

    if (options.library == NULL)
        options.library = fake_verbs_library();
    fabric_destroy(world->fabrics[fabric]);
    assert_int_equal(verbs_create(&options, why, &world->fabrics[fabric]), NIGH_OK);
    (void)snprintf(address, sizeof(address), "%s:0",
                   options.address != NULL ? options.address : FAKE_VERBS_ADDRESS);
    assert_int_equal(fabric_listen(world->fabrics[fabric], address), NIGH_OK);
    fabric_address(world->fabrics[fabric], world->addresses[fabric]);
}

/* ALICE on fake0, BOB on fake1. */
static void part(struct world *world)
{
    fake_verbs_plug(1);
    replace(world, ALICE, (struct verbs_options){.address = FAKE_VERBS_ADDRESS});
    replace(world, BOB, (struct verbs_options){.address = FAKE_VERBS_OTHER_ADDRESS});
}

/* V15: what is asked for reaches rdma_cm before the route is looked up, and the queue pairs; each
 * side has its own. */
static void test_options_reach_the_device(void **state)
{
    struct world *world = *state;
    struct world_end *alice, *bob;
    struct fake_verbs_given given;

    replace(world, BOB, (struct verbs_options){.tos = 8, .ack_timeout = 12, .retries = 5});
    assert_int_equal(fake_verbs_given().listen_tos, 8);
    replace(world, ALICE, (struct verbs_options){.tos = 106, .ack_timeout = 18, .retries = 3});
    world_join(world, ALICE, BOB, &alice, &bob);
    given = fake_verbs_given();
    assert_int_equal(given.route_tos, 106);
    assert_int_equal(given.route_ack_timeout, 18);
    assert_int_equal(given.connect_retries, 3);
    assert_int_equal(given.dialler_timeout, 18);
    assert_int_equal(given.dialler_retries, 3);
    assert_int_equal(given.acceptor_timeout, 12);
    assert_int_equal(given.acceptor_retries, 5);
}

/* V15: nothing is said that was not asked for, and rdma_cm's own timeout has a bound. */
static void test_options_are_the_systems(void **state)
{
    struct world *world = *state;
    struct world_end *alice, *bob;
    struct fake_verbs_given given;

    fake_verbs_no_options(true);
    world_join(world, ALICE, BOB, &alice, &bob);
    given = fake_verbs_given();
    assert_int_equal(fake_verbs_counts().options_refused, 0);
    assert_int_equal(given.route_tos, 0);
    assert_int_equal(given.connect_retries, 7);
    assert_int_equal(given.dialler_timeout, 16);
    assert_int_equal(given.acceptor_timeout, 16);
    assert_int_equal(given.acceptor_retries, 7);
}

/* V15: a system that lacks the options is as it is; the bound on its timeout is the one asked for.
 */
static void test_options_that_are_not_known(void **state)
{
    struct world *world = *state;
    struct world_end *alice, *bob;

    fake_verbs_no_options(true);
    replace(world, ALICE, (struct verbs_options){.tos = 106, .ack_timeout = 17});
    world_join(world, ALICE, BOB, &alice, &bob);
    assert_int_equal(fake_verbs_counts().options_refused, 4); /* who listens, and who dials */
    assert_int_equal(fake_verbs_given().route_tos, 0);
    assert_int_equal(fake_verbs_given().dialler_timeout, 17);
}

static void expect_out_of_bounds(struct verbs_options options, const char *part)
{
    char why[VERBS_WHY_BYTES] = "";
    struct fabric *fabric = NULL;

    options.library = fake_verbs_library();
    assert_int_equal(verbs_create(&options, why, &fabric), NIGH_INVALID);
    assert_null(fabric);
    if (strstr(why, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", why, part);
}

/* V15 */
static void test_options_have_bounds(void **state)
{
    (void)state;
    fake_verbs_start();
    expect_out_of_bounds((struct verbs_options){.tos = 256}, "tos 256");
    expect_out_of_bounds((struct verbs_options){.ack_timeout = 7}, "ack_timeout 7");
    expect_out_of_bounds((struct verbs_options){.ack_timeout = 21}, "within 8 to 20");
    expect_out_of_bounds((struct verbs_options){.retries = 8}, "retries 8");
    assert_string_equal(fake_verbs_left(), "");
}

/* ---- doorbells and signals ---- */

/* V5: a chain is one doorbell; of what is not signalled, few are. */
static void test_a_chain_is_one_doorbell(void **state)
{
    enum {
        POSTS = 16
    };
    struct scene scene;
    struct fabric_slice slice;
    struct fabric_work chain[POSTS];
    struct fake_verbs_counts before, after;

    scene_make(&scene, *state, 128);
    for (uint32_t i = 0; i < POSTS; i++) {
        chain[i] = write_of(&scene, &slice, i, i + 1 < POSTS ? 0 : FABRIC_SIGNALLED);
        chain[i].next = i + 1 < POSTS ? &chain[i + 1] : NULL;
    }
    before = fake_verbs_counts();
    assert_int_equal(end_post(scene.alice, chain), NIGH_OK);
    after = fake_verbs_counts();
    assert_int_equal(after.doorbells - before.doorbells, 1);
    assert_int_equal(after.requests - before.requests, POSTS);
    assert_int_equal(after.signalled - before.signalled, 1);
    assert_int_equal(end_wait(scene.alice, POSTS - 1), NIGH_OK);
}

/* V5: one in so many is signalled, so that slots come back; the device's count of them is strict.
 */
static void test_unsignalled_posts_go_on_for_ever(void **state)
{
    enum {
        ROUNDS = 40,
        BURST = 100
    };
    struct scene scene;
    struct fabric_slice slice;
    struct fake_verbs_counts before, after;

    scene_make(&scene, *state, 128);
    before = fake_verbs_counts();
    for (uint64_t i = 0; i < ROUNDS; i++) {
        for (uint32_t j = 0; j < BURST; j++) {
            struct fabric_work work = write_of(&scene, &slice, 0, 0);

            assert_int_equal(end_post(scene.alice, &work), NIGH_OK);
        }
        struct fabric_work last = write_of(&scene, &slice, i, FABRIC_SIGNALLED);

        assert_int_equal(end_post(scene.alice, &last), NIGH_OK);
        assert_int_equal(end_wait(scene.alice, i), NIGH_OK);
    }
    after = fake_verbs_counts();
    assert_int_equal(after.requests - before.requests, ROUNDS * (BURST + 1));
    assert_true(after.signalled - before.signalled <= ROUNDS * (1 + BURST / 16));
    assert_true(after.signalled - before.signalled > ROUNDS);
    assert_int_equal(after.overruns, 0);
}

/* V5: flags reach the device where they mean something. */
static void test_flags_reach_the_device(void **state)
{
    struct scene scene;
    struct fabric_slice slice;
    struct fabric_work work;
    struct fake_verbs_counts before, after;

    scene_make(&scene, *state, 16);
    end_receive(scene.bob, 1, scene.there, 0, 64);
    before = fake_verbs_counts();
    work = write_of(&scene, &slice, 1, FABRIC_SIGNALLED | FABRIC_FENCE | FABRIC_SOLICITED);
    assert_int_equal(end_post(scene.alice, &work), NIGH_OK);
    work = write_of(&scene, &slice, 2, FABRIC_SIGNALLED | FABRIC_INLINE | FABRIC_SOLICITED);
    work.op = FABRIC_SEND;
    assert_int_equal(end_post(scene.alice, &work), NIGH_OK);
    assert_int_equal(end_wait(scene.alice, 2), NIGH_OK);
    after = fake_verbs_counts();
    assert_int_equal(after.fenced - before.fenced, 1);
    assert_int_equal(after.solicited - before.solicited, 1);
    assert_int_equal(after.inlined - before.inlined, 1);
}

/* V5: a chain that the device takes only up to `at` goes on later, in order, each once. */
static void refuse_in_the_middle(struct scene *scene, uint32_t at)
{
    enum {
        POSTS = 12
    };
    struct fabric_slice slices[POSTS];
    struct fabric_work chain[POSTS];
    struct fake_verbs_counts device;
    struct fabric_counts counts;
    uint32_t seen = 0;

    for (uint32_t i = 0; i < POSTS; i++) {
        end_receive(scene->bob, i, scene->there, (uint64_t)i * 64, 64);
        chain[i] = write_of(scene, &slices[i], i, i % 3 == 0 ? 0 : FABRIC_SIGNALLED);
        chain[i].op = i % 4 == 1 ? FABRIC_READ : FABRIC_SEND;
        slices[i].bytes = i + 1;
    }
    for (uint32_t i = 0; i + 1 < POSTS; i++)
        chain[i].next = &chain[i + 1];
    fake_verbs_refuse_post(at, ENOMEM);
    device = fake_verbs_counts();
    counts = scene->world->fabrics[ALICE]->counts;
    assert_int_equal(end_post(scene->alice, chain), NIGH_OK);
    assert_comes(scene->world, scene->alice->logged == POSTS - POSTS / 3 &&
                                   scene->bob->logged == POSTS - POSTS / 4);
    for (uint32_t i = 0; i < POSTS; i++) {
        if (i % 3 == 0)
            continue;
        assert_int_equal(scene->alice->log[seen].tag, i);
        assert_int_equal(scene->alice->log[seen++].status, NIGH_OK);
    }
    for (uint32_t i = 0; i < scene->bob->logged; i++) /* 0, 2, 3, 4, 6, 7, ... */
        assert_int_equal(scene->bob->log[i].bytes, i + 1 + (i + 2) / 3);
    /* What was refused from the first on was none. */
    assert_int_equal(scene->world->fabrics[ALICE]->counts.requests - counts.requests,
                     fake_verbs_counts().requests - device.requests);
    assert_int_equal(scene->world->fabrics[ALICE]->counts.doorbells - counts.doorbells,
                     fake_verbs_counts().doorbells - device.doorbells - (at == 0 ? 1 : 0));
}

static void test_a_batch_that_fails_in_the_middle_goes_on(void **state)
{
    struct scene scene;

    scene_make(&scene, *state, 64);
    for (uint32_t at = 0; at < 12; at++) {
        refuse_in_the_middle(&scene, at);
        end_destroy(scene.alice);
        end_destroy(scene.bob);
        world_join_deep(scene.world, ALICE, BOB, 64, &scene.alice, &scene.bob);
    }
}

/* V5 V6: of one connection, more often than READs may act at once: those that were taken back count
 * no more. */
static void test_refused_reads_are_not_lost(void **state)
{
    enum {
        POSTS = 8
    };
    struct scene scene;
    uint32_t rounds;

    scene_make(&scene, *state, 64);
    rounds = 4 * scene.world->fabrics[ALICE]->caps.reads;
    for (uint32_t i = 0; i < rounds; i++) {
        struct fabric_slice slice;
        struct fabric_work chain[POSTS];

        for (uint32_t j = 0; j < POSTS; j++) {
            chain[j] = write_of(&scene, &slice, (uint64_t)i * POSTS + j, FABRIC_SIGNALLED);
            chain[j].op = FABRIC_READ;
            chain[j].next = j + 1 < POSTS ? &chain[j + 1] : NULL;
        }
        fake_verbs_refuse_post(i % POSTS, ENOMEM);
        assert_int_equal(end_post(scene.alice, chain), NIGH_OK);
        assert_comes(scene.world, scene.alice->logged == (i + 1) * POSTS);
    }
    for (uint32_t i = 0; i < scene.alice->logged; i++) {
        assert_int_equal(scene.alice->log[i].tag, i);
        assert_int_equal(scene.alice->log[i].status, NIGH_OK);
    }
}

/* V5: exactly one in so many is signalled, as if nothing had been taken back in between. */
static void test_refused_posts_are_signalled_as_others(void **state)
{
    enum {
        POSTS = 16,
        ROUNDS = 40,
        EVERY = 32
    };
    struct scene scene;
    uint64_t requests, signalled;

    scene_make(&scene, *state, 64);
    requests = fake_verbs_counts().requests;
    signalled = fake_verbs_counts().signalled;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct fabric_slice slice;
        struct fabric_work chain[POSTS];

        for (uint32_t j = 0; j < POSTS; j++) {
            chain[j] = write_of(&scene, &slice, 0, 0);
            chain[j].next = j + 1 < POSTS ? &chain[j + 1] : NULL;
        }
        fake_verbs_refuse_post(i % POSTS, ENOMEM);
        assert_int_equal(end_post(scene.alice, chain), NIGH_OK);
        assert_comes(scene.world,
                     fake_verbs_counts().requests - requests == (uint64_t)(i + 1) * POSTS);
        world_steps(scene.world, 5); /* what is signalled comes back */
    }
    assert_int_equal(fake_verbs_counts().signalled - signalled, ROUNDS * POSTS / EVERY);
}

/* V5: a device that refuses a post for good ends the endpoint; each post completes once. */
static void test_a_post_that_is_refused_for_good(void **state)
{
    enum {
        POSTS = 10,
        GOOD = 4
    };
    struct scene scene;
    struct fabric_slice slice;

    scene_make(&scene, *state, 64);
    fake_verbs_refuse_post(GOOD, EINVAL);
    for (uint64_t i = 0; i < POSTS; i++) {
        struct fabric_work work = write_of(&scene, &slice, i, FABRIC_SIGNALLED);
        nigh_status status = end_post(scene.alice, &work);

        assert_int_equal(status, i <= GOOD ? NIGH_OK : NIGH_CLOSED);
    }
    assert_comes(scene.world, scene.alice->logged == GOOD + 1 && scene.bob->disconnected == 1);
    assert_int_equal(end_wait(scene.alice, GOOD), NIGH_PEER_LOST);
    assert_int_equal(scene.alice->disconnected, 1);
}

/* ---- READs ---- */

/* V6: no more than the peer serves, whatever is posted, and WRITEs among them keep their order. */
static void test_reads_are_admitted(void **state)
{
    enum {
        POSTS = 100
    };
    struct scene scene;
    struct fabric_slice slice;

    scene_make(&scene, *state, 128);
    fake_verbs_late_reads(true);
    for (uint64_t i = 0; i < POSTS; i++) {
        struct fabric_work work = write_of(&scene, &slice, i, FABRIC_SIGNALLED);

        work.op = i % 5 == 4 ? FABRIC_WRITE : FABRIC_READ;
        assert_int_equal(end_post(scene.alice, &work), NIGH_OK);
    }
    assert_comes(scene.world, scene.alice->logged == POSTS);
    for (uint64_t i = 0; i < POSTS; i++)
        assert_int_equal(scene.alice->log[i].tag, i);
    assert_true(fake_verbs_counts().most_reads <= scene.world->fabrics[ALICE]->caps.reads);
    assert_true(fake_verbs_counts().most_reads > 1);
}

/* Many READs of the other one's memory, all at once. */
static void read_much(struct world *world, struct world_end *end, const struct world_area *here,
                      const struct world_area *there)
{
    enum {
        READS = 50
    };
    uint32_t before = end->logged;

    for (uint64_t i = 0; i < READS; i++)
        end_read(end, i, here, 0, area_remote(there, 0), 64);
    assert_comes(world, end->logged == before + READS);
    for (uint32_t i = before; i < end->logged; i++)
        assert_int_equal(end->log[i].status, NIGH_OK);
}

/* V6: a device that serves more and one that serves fewer agree on the fewer, whoever dials and
 * whoever reads. */
static void agree_on_reads(struct world *world)
{
    enum {
        FEW = 3
    };
    struct world_area *areas[2];

    fake_verbs_reads(1, FEW);
    part(world);
    assert_true(world->fabrics[ALICE]->caps.reads > FEW);
    assert_int_equal(world->fabrics[BOB]->caps.reads, FEW);
    areas[ALICE] = world_area(world, ALICE, SIZE, ALL_RIGHTS);
    areas[BOB] = world_area(world, BOB, SIZE, ALL_RIGHTS);
    for (uint32_t from = ALICE; from <= BOB; from++) {
        struct world_end *ends[2];

        world_join_deep(world, from, 1 - from, 64, &ends[from], &ends[1 - from]);
        assert_int_equal(fake_verbs_given().answer_serves, FEW);
        assert_int_equal(fake_verbs_given().answer_asks, FEW);
        fake_verbs_late_reads(true);
        read_much(world, ends[ALICE], areas[ALICE], areas[BOB]);
        read_much(world, ends[BOB], areas[BOB], areas[ALICE]);
        fake_verbs_late_reads(false);
        assert_int_equal(fake_verbs_counts().most_reads, FEW);
        end_destroy(ends[ALICE]);
        end_destroy(ends[BOB]);
    }
}

static void test_reads_are_what_both_agreed_on(void **state)
{
    agree_on_reads(*state);
}

static void test_reads_are_agreed_on_over_iwarp(void **state)
{
    fake_verbs_iwarp(true);
    agree_on_reads(*state);
}

/* ---- flush ---- */

static void load(struct scene *scene, uint32_t posts)
{
    for (uint64_t i = 0; i < posts; i++) {
        struct fabric_slice slice;
        struct fabric_work work = write_of(scene, &slice, i, i % 2 == 0 ? FABRIC_SIGNALLED : 0);

        work.op = i % 3 == 2 ? FABRIC_READ : FABRIC_WRITE;
        end_receive(scene->alice, i, scene->here, 0, 64);
        assert_int_equal(end_post(scene->alice, &work), NIGH_OK);
    }
}

static void expect_each_once(const struct scene *scene, uint32_t posts)
{
    for (uint32_t i = 0; i < posts; i++) {
        assert_true(end_count(scene->alice, i) == 1 ||
                    (i % 2 == 1 && end_count(scene->alice, i) == 0));
        assert_int_equal(end_count_receives(scene->alice, i), 1);
        assert_int_equal(end_find_receive(scene->alice, i)->status, NIGH_PEER_LOST);
    }
    assert_int_equal(scene->alice->disconnected, 1);
}

/* V9: what comes back in any order completes in the order of the posts, each once. */
static void test_flush_in_odd_order(void **state)
{
    enum {
        POSTS = 30
    };
    struct scene scene;

    scene_make(&scene, *state, 64);
    fake_verbs_odd_flush(true);
    load(&scene, POSTS);
    end_disconnect(scene.alice);
    assert_comes(scene.world, scene.alice->logged == 2 * POSTS); /* none had acted */
    expect_each_once(&scene, POSTS);
    for (uint32_t i = 0, next = 0; i < scene.alice->logged; i++) {
        if (scene.alice->log[i].op != FABRIC_RECV)
            assert_int_equal(scene.alice->log[i].tag, next++);
    }
}

/* V9: what does not come back at all completes when its time is up, the queue pair being gone. */
static void test_flush_that_never_comes(void **state)
{
    enum {
        POSTS = 30
    };
    struct scene scene;

    scene_make(&scene, *state, 64);
    fake_verbs_lose_flush(true);
    load(&scene, POSTS);
    end_disconnect(scene.alice);
    world_steps(scene.world, 20);
    assert_int_equal(scene.alice->logged, 0);
    assert_int_equal(left_of("queue pairs"), 2);
    world_pass(scene.world, 1000000);
    assert_int_equal(scene.alice->logged, 2 * POSTS);
    assert_int_equal(left_of("queue pairs"), 1);
    expect_each_once(&scene, POSTS);
    assert_comes(scene.world, left_of("queue pairs") == 0); /* the peer's, a little later */
}

/* ---- set-up and end ---- */

/* V2 V4: a message may be there before the last word of the set-up. */
static void test_the_first_message_establishes(void **state)
{
    struct world *world = *state;
    struct world_area *here = world_area(world, ALICE, 64, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 64, ALL_RIGHTS);
    struct world_end *alice = world_dial(world, ALICE, world->addresses[BOB], NULL, 0);
    struct world_end *bob;

    fake_verbs_late_established(true);
    fake_verbs_lose_event(RDMA_CM_EVENT_ESTABLISHED, true);
    bob = world_accept(world, world_next_request(world, BOB), NULL, 0);
    end_receive(bob, 1, there, 0, 64);
    assert_comes(world, alice->established == 1);
    world_steps(world, 10);
    assert_int_equal(bob->established, 0);
    end_send(alice, 1, here, 0, 8);
    assert_int_equal(end_wait_receive(bob, 1), NIGH_OK);
    assert_int_equal(bob->established, 1);
}

/* V2: words of rdma_cm that are lost end a dial by its own patience. */
static void test_lost_words_end_by_patience(void **state)
{
    static const enum rdma_cm_event_type lost[] = {
        RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_CONNECT_REQUEST};
    struct world *world = *state;

    for (size_t i = 0; i < ARRAY_LENGTH(lost); i++) {
        struct world_end *alice;

        fake_verbs_lose_event(lost[i], true);
        alice = world_dial(world, ALICE, world->addresses[BOB], NULL, 0);
        world_pass(world, 30000000);
        assert_int_equal(alice->disconnected, 1);
        assert_true(alice->status == NIGH_UNREACHABLE || alice->status == NIGH_TIMEOUT);
        end_destroy(alice);
        fake_verbs_lose_event(lost[i], false);
    }
}

/* What rdma_cm may say of a dial, held up at one of its steps by a word that is lost. */
struct dial_case {
    enum rdma_cm_event_type lost, said;
    int status;
};

/* V2: a dial that rdma_cm gives up ends at once, whichever step it was at. */
static void test_a_dial_that_is_given_up(void **state)
{
    static const struct dial_case cases[] = {
        {RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH},
        {RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT},
        {RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL},
        {RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT},
    };
    struct world *world = *state;

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct world_end *alice;

        fake_verbs_lose_event(cases[i].lost, true);
        alice = world_dial(world, ALICE, world->addresses[BOB], NULL, 0);
        world_steps(world, 50);
        assert_int_equal(alice->disconnected, 0);
        fake_verbs_say(FAKE_VERBS_DIALLER, cases[i].said, cases[i].status);
        world_steps(world, 50);
        assert_int_equal(alice->disconnected, 1);
        assert_int_equal(alice->status, NIGH_UNREACHABLE);
        fake_verbs_say(FAKE_VERBS_DIALLER, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
        world_steps(world, 50);
        assert_int_equal(alice->disconnected, 1);
        end_destroy(alice);
        fake_verbs_lose_event(cases[i].lost, false);
        assert_int_equal(left_of("identifiers"), 2);
    }
}

/* V2: a request that rdma_cm gives up, before it was answered and behind it. */
static void test_a_request_that_is_given_up(void **state)
{
    static const enum rdma_cm_event_type said[] = {RDMA_CM_EVENT_CONNECT_ERROR,
                                                   RDMA_CM_EVENT_UNREACHABLE};
    static const nigh_status statuses[] = {NIGH_PEER_LOST, NIGH_TIMEOUT};
    struct world *world = *state;

    fake_verbs_lose_event(RDMA_CM_EVENT_CONNECT_RESPONSE, true);
    for (size_t i = 0; i < 2 * ARRAY_LENGTH(said); i++) {
        struct world_end *alice = world_dial(world, ALICE, world->addresses[BOB], NULL, 0), *bob;
        struct world_request *request = world_next_request(world, BOB);

        bob = i % 2 == 0 ? NULL : world_accept(world, request, NULL, 0);
        world_steps(world, 50);
        fake_verbs_say(FAKE_VERBS_ACCEPTOR, said[i / 2], -ETIMEDOUT);
        world_steps(world, 50);
        assert_int_equal(bob == NULL ? request->disconnected : bob->disconnected, 1);
        assert_int_equal(bob == NULL ? request->status : bob->status, statuses[i / 2]);
        assert_comes(world, alice->disconnected == 1);
        if (bob != NULL)
            end_destroy(bob);
        else
            fabric_endpoint_destroy(world->fabrics[BOB], request->endpoint);
        request->taken = true;
        end_destroy(alice);
    }
    world_pass(world, 3000000);
    assert_int_equal(left_of("identifiers"), 2);
}

/* V2 V10: of a connection, and behind its end: the other side hears of it, and each hears it once.
 */
static void test_a_connection_that_is_given_up(void **state)
{
    static const enum rdma_cm_event_type said[] = {RDMA_CM_EVENT_TIMEWAIT_EXIT,
                                                   RDMA_CM_EVENT_UNREACHABLE};
    static const nigh_status statuses[] = {NIGH_PEER_LOST, NIGH_TIMEOUT};
    struct world *world = *state;

    for (uint32_t i = 0; i < 2 * ARRAY_LENGTH(said); i++) {
        struct world_end *ends[2];
        uint32_t side = i % 2;

        world_join(world, ALICE, BOB, &ends[0], &ends[1]);
        fake_verbs_say(side == 0 ? FAKE_VERBS_DIALLER : FAKE_VERBS_ACCEPTOR, said[i / 2], 0);
        assert_comes(world, ends[0]->disconnected == 1 && ends[1]->disconnected == 1);
        assert_int_equal(ends[side]->status, statuses[i / 2]);
        assert_int_equal(ends[1 - side]->status, NIGH_PEER_LOST);
        for (uint32_t late = 0; late < ARRAY_LENGTH(said); late++) {
            fake_verbs_say(FAKE_VERBS_DIALLER, said[late], 0);
            fake_verbs_say(FAKE_VERBS_ACCEPTOR, said[late], 0);
        }
        world_steps(world, 50);
        assert_int_equal(ends[0]->disconnected + ends[1]->disconnected, 2);
        end_destroy(ends[side]);
        fake_verbs_say(FAKE_VERBS_DIALLER, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
        fake_verbs_say(FAKE_VERBS_ACCEPTOR, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
        world_steps(world, 50);
        end_destroy(ends[1 - side]);
    }
    world_pass(world, 3000000);
    assert_int_equal(left_of("identifiers"), 2);
}

/* V1: a queue pair is of one device: what is reached only through another is out of reach. */
static void test_a_route_through_another_device(void **state)
{
    struct world *world = *state;
    struct world_end *alice, *bob, *lost;

    fake_verbs_plug(1);
    fake_verbs_lead(1);
    lost = world_dial(world, ALICE, world->addresses[BOB], NULL, 0);
    assert_comes(world, lost->disconnected == 1);
    assert_int_equal(lost->status, NIGH_UNREACHABLE);
    assert_int_equal(fake_verbs_held(1), 0);
    end_destroy(lost);
    fake_verbs_lead(0);
    world_join(world, ALICE, BOB, &alice, &bob);
}

/* V1: who listens on all addresses hears of requests that come in through other devices, and turns
 * them away before anybody sees them. */
static void test_a_request_through_another_device(void **state)
{
    struct world *world = *state;
    struct world_end *alice, *bob, *lost;
    const char *port;
    char address[FABRIC_ADDRESS_BYTES];

    fake_verbs_plug(1);
    fabric_destroy(world->fabrics[BOB]);
    world->fabrics[BOB] = NULL;
    assert_int_equal(world_provider.fabric(world, BOB, 0, &world->fabrics[BOB]), NIGH_OK);
    assert_int_equal(fabric_listen(world->fabrics[BOB], "*:0"), NIGH_OK);
    fabric_address(world->fabrics[BOB], address);
    port = strrchr(address, ':');
    assert_non_null(port);
    (void)snprintf(world->addresses[BOB], FABRIC_ADDRESS_BYTES, "%s%s", FAKE_VERBS_OTHER_ADDRESS,
                   port);
    lost = world_dial(world, ALICE, world->addresses[BOB], NULL, 0);
    assert_comes(world, lost->disconnected == 1);
    assert_int_equal(lost->status, NIGH_UNREACHABLE);
    assert_int_equal(world->request_count, 0);
    assert_int_equal(fake_verbs_held(1), 0);
    end_destroy(lost);
    (void)snprintf(world->addresses[BOB], FABRIC_ADDRESS_BYTES, "%s%s", FAKE_VERBS_ADDRESS, port);
    world_join(world, ALICE, BOB, &alice, &bob);
}

/* V10: the peer's end is heard of without rdma_cm, too: by what is flushed, or by asking. */
static void test_an_end_without_a_word(void **state)
{
    struct scene scene;

    scene_make(&scene, *state, 16);
    fake_verbs_lose_event(RDMA_CM_EVENT_DISCONNECTED, true);
    end_destroy(scene.alice);
    world_pass(scene.world, 60000000);
    assert_int_equal(scene.bob->disconnected, 1);
    assert_int_equal(scene.bob->status, NIGH_TIMEOUT);
}

/* V11: identifiers linger for a while, and never many. */
static void test_identifiers_do_not_pile_up(void **state)
{
    enum {
        ROUNDS = 30
    };
    struct world *world = *state;

    fake_verbs_lose_event(RDMA_CM_EVENT_DISCONNECTED, true);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct world_end *alice, *bob;

        world_join(world, ALICE, BOB, &alice, &bob);
        end_destroy(alice);
        end_destroy(bob);
    }
    assert_true(left_of("identifiers") <= 2 + 2 * 64);
    world_pass(world, 3000000);
    assert_int_equal(left_of("identifiers"), 2); /* those that listen */
}

/* V12: who is silent is asked, once at a time; who speaks is not. */
static void test_silence_is_probed(void **state)
{
    struct scene scene;
    struct fake_verbs_counts before, after;

    scene_make(&scene, *state, 16);
    before = fake_verbs_counts();
    world_pass(scene.world, 51000000);
    after = fake_verbs_counts();
    assert_in_range(after.requests - before.requests, 2 * 4, 2 * 11); /* two ends, every 5 s */
    assert_int_equal(scene.alice->logged + scene.bob->logged, 0);
}

/* V14: the device goes: everything ends, once, and nothing begins. */
static void test_a_device_that_goes(void **state)
{
    struct scene scene;
    struct world_end *end;

    scene_make(&scene, *state, 16);
    end_receive(scene.alice, 1, scene.here, 0, 64);
    fake_verbs_remove(0);
    assert_comes(scene.world, scene.alice->disconnected > 0 && scene.bob->disconnected > 0 &&
                                  scene.alice->logged == 1);
    assert_int_equal(scene.alice->status, NIGH_PEER_LOST);
    end = world_dial(scene.world, ALICE, scene.world->addresses[BOB], NULL, 0);
    assert_comes(scene.world, end->disconnected > 0);
    assert_int_equal(end->status, NIGH_UNREACHABLE);
    world_pass(scene.world, 100000);
    assert_int_equal(scene.alice->disconnected, 1);
}

/* Posts move bytes from one end to the other. */
static void expect_traffic(struct scene *scene)
{
    struct world_end *alice, *bob;
    struct fabric_slice slice;
    struct fabric_work work = write_of(scene, &slice, 7, FABRIC_SIGNALLED);

    world_join_deep(scene->world, ALICE, BOB, 16, &alice, &bob);
    memset(scene->here->bytes, 0x5a, 64);
    memset(scene->there->bytes, 0, 64);
    assert_int_equal(end_post(alice, &work), NIGH_OK);
    assert_comes(scene->world, alice->logged == 1);
    assert_int_equal(alice->log[0].status, NIGH_OK);
    assert_memory_equal(scene->there->bytes, scene->here->bytes, 64);
}

/* V14: whoever takes a device away waits until nothing of it is held: no queue pair, registration,
 * identifier or context, whatever the caller still has. */
static void test_a_device_that_goes_is_let_go(void **state)
{
    struct scene scene;
    struct world_area *late;

    scene_make(&scene, *state, 16);
    end_receive(scene.alice, 1, scene.here, 0, 64);
    fake_verbs_lose_flush(true);
    fake_verbs_cut(true);
    end_destroy(scene.bob); /* its identifier lingers, as nobody hears its word */
    fake_verbs_remove(0);
    assert_comes(scene.world, scene.alice->logged == 1);
    assert_int_equal(fake_verbs_held(0), 0);
    assert_int_equal(left_of("queue pairs") + left_of("memories") + left_of("domains"), 0);
    assert_int_equal(left_of("completion queues"), 0);
    /* Memory comes and goes without one. */
    area_deregister(scene.there);
    late = world_area(scene.world, BOB, SIZE, ALL_RIGHTS);
    assert_int_equal(left_of("memories"), 0);
    assert_int_equal(area_remote(late, 0).key, 0);
}

/* It is there again: what was registered is, at the address and the port of before. */
static void test_a_device_that_comes_again(void **state)
{
    struct scene scene;
    char before[FABRIC_ADDRESS_BYTES], after[FABRIC_ADDRESS_BYTES];

    scene_make(&scene, *state, 16);
    fabric_address(scene.world->fabrics[BOB], before);
    fake_verbs_remove(0);
    assert_comes(scene.world, scene.alice->disconnected == 1 && scene.bob->disconnected == 1);
    world_pass(scene.world, UINT64_C(3000000));
    assert_int_equal(fake_verbs_held(0), 0);
    fake_verbs_plug(0);
    world_pass(scene.world, UINT64_C(1500000));
    fabric_address(scene.world->fabrics[BOB], after);
    assert_string_equal(before, after);
    expect_traffic(&scene);
}

static nigh_status make_loop(struct world *world, struct world_end **end)
{
    struct fabric_endpoint_options options;

    *end = world_end(world, ALICE);
    options = end_options(*end, 16, 0);
    return fabric_loop(world->fabrics[ALICE], &options, &(*end)->endpoint);
}

/* It writes, on its own device. */
static void expect_loop(struct world *world, const struct world_area *area)
{
    struct world_end *end;

    assert_int_equal(make_loop(world, &end), NIGH_OK);
    memset(area->bytes, 0x5a, 64);
    memset(area->bytes + 64, 0, 64);
    end_write(end, 1, area, 0, area_remote(area, 64), 64);
    assert_int_equal(end_wait(end, 1), NIGH_OK);
    assert_memory_equal(area->bytes, area->bytes + 64, 64);
}

/* V17 V14: it goes with its device, both its queue pairs, and is made anew on the next. */
static void test_loops_of_a_device_that_goes(void **state)
{
    struct world *world = *state;
    struct world_area *area = world_area(world, ALICE, SIZE, ALL_RIGHTS);
    struct world_end *end, *none;

    assert_int_equal(make_loop(world, &end), NIGH_OK);
    assert_int_equal(left_of("queue pairs"), 2);
    fake_verbs_cut(true); /* nothing comes of what is posted */
    end_write(end, 1, area, 0, area_remote(area, 64), 64);
    fake_verbs_remove(0);
    assert_comes(world, end->disconnected == 1 && end->logged == 1);
    assert_int_equal(end->status, NIGH_PEER_LOST);
    assert_int_equal(end->log[0].status, NIGH_PEER_LOST);
    assert_int_equal(left_of("queue pairs"), 0);
    assert_int_equal(make_loop(world, &none), NIGH_UNREACHABLE);
    fake_verbs_cut(false);
    fake_verbs_plug(0);
    world_pass(world, UINT64_C(1500000));
    expect_loop(world, area);
}

/* V17: whatever the device refuses of it, nothing is left, and the next one is whole. */
static void test_a_loop_that_is_refused(void **state)
{
    static const struct {
        enum fake_verbs_call call;
        uint32_t count;
    } calls[] = {{FAKE_VERBS_CREATE_QP, 2}, {FAKE_VERBS_MODIFY_QP, 6}};
    struct world *world = *state;
    struct world_area *area = world_area(world, ALICE, SIZE, ALL_RIGHTS);
    struct world_end *end;

    for (size_t i = 0; i < ARRAY_LENGTH(calls); i++) {
        for (uint32_t after = 0; after < calls[i].count; after++) {
            bool makes = calls[i].call == FAKE_VERBS_CREATE_QP;

            fake_verbs_refuse_call(calls[i].call, after, ENOMEM);
            assert_int_equal(make_loop(world, &end), makes ? NIGH_NO_RESOURCES : NIGH_UNREACHABLE);
            assert_true(fake_verbs_has_refused(calls[i].call));
            assert_null(end->endpoint);
            assert_int_equal(left_of("queue pairs"), 0);
        }
    }
    fake_verbs_no_gid(true);
    assert_int_equal(make_loop(world, &end), NIGH_UNREACHABLE);
    fake_verbs_no_gid(false);
    expect_loop(world, area);
    assert_int_equal(end->disconnected, 0);
}

/* What cannot be registered with the new one leaves the fabric without, until it can. */
static void test_a_device_that_comes_again_too_small(void **state)
{
    struct scene scene;

    scene_make(&scene, *state, 16);
    fake_verbs_refuse_memory(true);
    fake_verbs_remove(0);
    assert_comes(scene.world, scene.alice->disconnected == 1 && scene.bob->disconnected == 1);
    fake_verbs_plug(0);
    world_pass(scene.world, UINT64_C(2500000));
    assert_int_equal(fake_verbs_held(0), 0);
    fake_verbs_refuse_memory(false);
    world_pass(scene.world, UINT64_C(1500000));
    expect_traffic(&scene);
}

/* Somebody has its port: it is let go, all of it, until the port is free. */
static void test_a_device_that_comes_again_without_its_port(void **state)
{
    const struct verbs_library *library = fake_verbs_library();
    struct rdma_event_channel *channel = library->create_event_channel();
    struct rdma_cm_id *squatter;
    struct address address;
    struct scene scene;
    uint64_t before;

    scene_make(&scene, *state, 16);
    fake_verbs_remove(0);
    assert_comes(scene.world, scene.alice->disconnected == 1 && scene.bob->disconnected == 1);
    before = fake_verbs_counts().registrations;
    fake_verbs_plug(0);
    assert_int_equal(address_parse(scene.world->addresses[BOB], &address), NIGH_OK);
    assert_int_equal(library->create_id(channel, &squatter, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(library->bind_addr(squatter, (struct sockaddr *)&address.storage), 0);
    assert_int_equal(library->listen(squatter, 1), 0);
    world_pass(scene.world, UINT64_C(2500000));
    assert_int_equal(left_of("memories"), 1); /* ALICE's */
    assert_int_equal(left_of("contexts"), 1);
    assert_int_equal(fake_verbs_counts().registrations - before, 1); /* which takes long */
    assert_int_equal(library->destroy_id(squatter), 0);
    library->destroy_event_channel(channel);
    world_pass(scene.world, UINT64_C(1500000));
    expect_traffic(&scene);
}

/* A fabric that was given the addresses of two devices goes on with the other. */
static void test_another_device_is_taken(void **state)
{
    struct world *world = *state;
    const struct verbs_options options = {.library = fake_verbs_library(),
                                          .address =
                                              FAKE_VERBS_ADDRESS "," FAKE_VERBS_OTHER_ADDRESS};
    char why[VERBS_WHY_BYTES], before[FABRIC_ADDRESS_BYTES], after[FABRIC_ADDRESS_BYTES];
    struct scene scene;

    fake_verbs_plug(1);
    fabric_destroy(world->fabrics[BOB]);
    assert_int_equal(verbs_create(&options, why, &world->fabrics[BOB]), NIGH_OK);
    assert_int_equal(fabric_listen(world->fabrics[BOB], FAKE_VERBS_ADDRESS ":0"), NIGH_OK);
    fabric_address(world->fabrics[BOB], world->addresses[BOB]);
    scene_make(&scene, world, 16);
    fabric_address(world->fabrics[BOB], before);
    fake_verbs_remove(0);
    assert_comes(world, scene.alice->disconnected == 1 && scene.bob->disconnected == 1);
    assert_int_equal(fake_verbs_held(0), 0);
    fabric_address(world->fabrics[BOB], after);
    assert_non_null(strstr(after, FAKE_VERBS_OTHER_ADDRESS ":"));
    assert_string_equal(strrchr(before, ':'), strrchr(after, ':'));
    fake_verbs_plug(0);
    world_pass(world, UINT64_C(1500000)); /* ALICE has hers again */
    (void)snprintf(world->addresses[BOB], FABRIC_ADDRESS_BYTES, "%s", after);
    expect_traffic(&scene);
}

static void test_addresses_have_bounds(void **state)
{
    const struct verbs_options options = {
        .library = fake_verbs_library(), .address = "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4,10.0.0.5"};
    char why[VERBS_WHY_BYTES] = "";
    struct fabric *fabric = NULL;

    (void)state;
    assert_int_equal(verbs_create(&options, why, &fabric), NIGH_INVALID);
    assert_non_null(strstr(why, "4 addresses"));
}

static void test_a_device_that_fails(void **state)
{
    struct scene scene;

    scene_make(&scene, *state, 16);
    fake_verbs_async(IBV_EVENT_PORT_ERR);
    fake_verbs_async(IBV_EVENT_PORT_ACTIVE);
    world_steps(scene.world, 200);
    assert_int_equal(scene.alice->disconnected + scene.bob->disconnected, 0);
    fake_verbs_async(IBV_EVENT_DEVICE_FATAL);
    assert_comes(scene.world, scene.alice->disconnected == 1 && scene.bob->disconnected == 1);
    world_pass(scene.world, UINT64_C(1500000));
    expect_traffic(&scene);
    fake_verbs_async(IBV_EVENT_SRQ_ERR);
    assert_comes(scene.world, left_of("queue pairs") == 0);
}

/* A queue pair that fails with nothing posted says so by its device alone. */
static void test_a_queue_pair_that_fails(void **state)
{
    static const enum ibv_event_type said[] = {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR,
                                               IBV_EVENT_QP_ACCESS_ERR};
    struct world *world = *state;

    for (size_t i = 0; i < ARRAY_LENGTH(said); i++) {
        struct world_end *alice, *bob;

        world_join(world, ALICE, BOB, &alice, &bob);
        fake_verbs_fail_queues(i % 2 == 0 ? FAKE_VERBS_DIALLER : FAKE_VERBS_ACCEPTOR, said[i]);
        world_steps(world, 200); /* long before silence is probed */
        assert_int_equal(alice->disconnected + bob->disconnected, 2);
        assert_int_equal(alice->status, NIGH_PEER_LOST);
        assert_int_equal(bob->status, NIGH_PEER_LOST);
        fake_verbs_fail_queues(FAKE_VERBS_DIALLER, said[i]);
        world_steps(world, 50);
        assert_int_equal(alice->disconnected + bob->disconnected, 2);
        end_destroy(alice);
        end_destroy(bob);
    }
}

/* V14: a completion queue that runs over says nothing any more; what it would have said is said all
 * the same, once each. */
static void test_a_completion_queue_that_runs_over(void **state)
{
    struct scene scene;
    struct fabric_slice slice;

    scene_make(&scene, *state, 16);
    end_receive(scene.alice, 1, scene.here, 0, 64);
    fake_verbs_overrun(true);
    for (uint64_t tag = 2; tag < 6; tag++) {
        struct fabric_work work = write_of(&scene, &slice, tag, FABRIC_SIGNALLED);

        assert_int_equal(end_post(scene.alice, &work), NIGH_OK);
    }
    assert_comes(scene.world, scene.alice->disconnected == 1 && scene.bob->disconnected == 1);
    assert_comes(scene.world, scene.alice->logged == 5);
    for (uint32_t n = 0; n < 5; n++)
        assert_int_equal(scene.alice->log[n].status, NIGH_PEER_LOST);
    world_pass(scene.world, UINT64_C(1500000));
    assert_int_equal(scene.alice->logged, 5);
    expect_traffic(&scene);
}

static uint32_t last_words;

static int hear_event(struct ibv_context *context, struct ibv_async_event *event)
{
    int result = fake_verbs_library()->get_async_event(context, event);

    last_words += result == 0 && event->event_type == IBV_EVENT_DEVICE_FATAL;
    return result;
}

/* Some devices are taken away without a word before: whatever is ended then, the system ends
 * itself, and says EIO. It has when it says DEVICE_FATAL: nothing is given back before. */
static void test_a_device_that_was_taken(void **state)
{
    static struct verbs_library library;
    struct world *world = *state;
    struct scene scene;

    library = *fake_verbs_library();
    library.get_async_event = hear_event;
    last_words = 0;
    replace(world, ALICE,
            (struct verbs_options){.library = &library, .address = FAKE_VERBS_ADDRESS});
    scene_make(&scene, world, 16);
    (void)world_area(world, ALICE, SIZE, ALL_RIGHTS);
    end_receive(scene.alice, 1, scene.here, 0, 64);
    fake_verbs_take(true);
    fake_verbs_async(IBV_EVENT_PORT_ERR);
    fake_verbs_async(IBV_EVENT_DEVICE_FATAL);
    end_destroy(scene.alice);
    assert_int_equal(last_words, 1);
    area_deregister(scene.here);
    assert_comes(world, scene.bob->disconnected == 1);
    world_steps(world, 200);
    assert_int_equal(left_of("queue pairs") + left_of("memories"), 0);
    fake_verbs_take(false);
    world_pass(world, UINT64_C(1500000));
    scene.here = world_area(world, ALICE, 64 * SIZE, ALL_RIGHTS);
    expect_traffic(&scene);
}

/* A device that fails again and again is taken once a second. */
static void test_a_device_that_fails_all_the_time(void **state)
{
    struct scene scene;
    uint64_t before, began_us = support_now_us();

    scene_make(&scene, *state, 16);
    before = fake_verbs_counts().registrations;
    for (uint32_t i = 0; i < 100; i++) {
        fake_verbs_async(IBV_EVENT_DEVICE_FATAL);
        world_steps(scene.world, 100);
    }
    /* Of two fabrics, at once and then each second, as far as the machine is slow. */
    assert_true(fake_verbs_counts().registrations - before <=
                2 * (2 + (support_now_us() - began_us) / 1000000));
    world_pass(scene.world, UINT64_C(1500000));
    expect_traffic(&scene);
}

static struct ibv_context *spied_context;
static int spied_fd;

static int spy_resolve(struct rdma_cm_id *id, struct sockaddr *source, struct sockaddr *address,
                       int timeout_ms)
{
    int result = fake_verbs_library()->resolve_addr(id, source, address, timeout_ms);

    spied_context = id->verbs;
    spied_context->cmd_fd = spied_fd;
    return result;
}

/* Who removes a device waits for rdma_cm's own descriptor of it, too: that is closed whatever
 * identifier hears of it, also one that only lingers. */
static void test_a_removal_is_heard_by_what_lingers(void **state)
{
    struct world *world = *state;
    static struct verbs_library library;
    const struct verbs_options alices = {.library = &library, .address = FAKE_VERBS_ADDRESS};
    const struct verbs_options bobs = {.library = fake_verbs_library(),
                                       .address = FAKE_VERBS_OTHER_ADDRESS};
    struct world_end *alice, *bob;
    struct stat nothing, there;
    char why[VERBS_WHY_BYTES];

    library = *fake_verbs_library();
    library.resolve_addr = spy_resolve;
    spied_fd = open("/", O_RDONLY | O_CLOEXEC);
    assert_true(spied_fd > STDERR_FILENO);
    fake_verbs_plug(1);
    fabric_destroy(world->fabrics[ALICE]);
    fabric_destroy(world->fabrics[BOB]);
    assert_int_equal(verbs_create(&alices, why, &world->fabrics[ALICE]), NIGH_OK);
    assert_int_equal(verbs_create(&bobs, why, &world->fabrics[BOB]), NIGH_OK);
    assert_int_equal(fabric_listen(world->fabrics[BOB], FAKE_VERBS_OTHER_ADDRESS ":0"), NIGH_OK);
    fabric_address(world->fabrics[BOB], world->addresses[BOB]);
    world_join(world, ALICE, BOB, &alice, &bob);
    end_destroy(alice);
    fake_verbs_remove(0);
    assert_comes(world, bob->disconnected == 1 && fake_verbs_held(0) == 0);
    assert_int_equal(stat("/dev/null", &nothing), 0);
    assert_int_equal(fstat(spied_fd, &there), 0);
    assert_true(there.st_rdev == nothing.st_rdev);
    spied_context->cmd_fd = -1;
    (void)close(spied_fd);
}

static uint32_t longest_message;

static int say_longest(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    int error = fake_verbs_library()->query_port(context, port, attr);

    attr->max_msg_sz = longest_message;
    return error;
}

/* V7: one whose messages are shorter, but long enough in pieces, is handed shorter pieces. */
static void test_another_device_has_shorter_messages(void **state)
{
    enum {
        PIECE = 8 << 20,
        SLICES = 8
    };
    struct world *world = *state;
    static struct verbs_library library;
    struct fabric_slice slices[SLICES];
    struct fabric_work work = {.op = FABRIC_SEND, .slices = slices, .slice_count = SLICES};
    struct world_end *alice, *bob;
    struct world_area *area;

    library = *fake_verbs_library();
    library.query_port = say_longest;
    longest_message = 2 * SLICES * PIECE;
    replace(world, ALICE,
            (struct verbs_options){.library = &library, .address = FAKE_VERBS_ADDRESS});
    area = world_area(world, ALICE, PIECE + 1, ALL_RIGHTS);
    for (uint32_t i = 0; i < SLICES; i++)
        slices[i] = area_slice(area, 0, PIECE + 1);
    fake_verbs_remove(0);
    world_steps(world, 200);
    longest_message = SLICES * PIECE;
    fake_verbs_plug(0);
    world_pass(world, UINT64_C(1500000));
    world_join(world, ALICE, BOB, &alice, &bob);
    assert_int_equal(fabric_post(world->fabrics[ALICE], alice->endpoint, &work, NULL),
                     NIGH_INVALID);
}

/* ---- memory and completion queues ---- */

/* V13: a registration that the device holds on to is given up with the queue pairs. */
static void test_memory_that_is_held_on_to(void **state)
{
    struct scene scene;

    scene_make(&scene, *state, 16);
    fake_verbs_keep_memory(true);
    end_destroy(scene.alice);
    world_steps(scene.world, 1); /* its peer has a queue pair still */
    area_deregister(scene.there);
    assert_int_equal(left_of("queue pairs"), 0);
    assert_int_equal(left_of("memories"), 1);
    assert_comes(scene.world, scene.bob->disconnected == 1);
    fake_verbs_keep_memory(false);
}

static void test_memory_that_cannot_be_registered(void **state)
{
    struct world *world = *state;
    struct fabric_memory *memory = NULL;
    static uint8_t bytes[64];

    fake_verbs_refuse_memory(true);
    assert_int_equal(fabric_memory_register(world->fabrics[ALICE], bytes, sizeof(bytes),
                                            FABRIC_HOST, ALL_RIGHTS, &memory),
                     NIGH_NO_RESOURCES);
    assert_null(memory);
    fake_verbs_refuse_memory(false);
    assert_int_equal(fabric_memory_register(world->fabrics[ALICE], bytes, sizeof(bytes),
                                            FABRIC_HOST, FABRIC_REMOTE_WRITE, &memory),
                     NIGH_OK);
    fabric_memory_deregister(world->fabrics[ALICE], memory);
}

static void test_a_queue_pair_that_is_refused(void **state)
{
    struct world *world = *state;
    struct world_end *end = world_end(world, ALICE);
    struct fabric_endpoint_options options = end_options(end, 4, 4);

    fake_verbs_refuse_queues(true);
    assert_int_equal(fabric_connect(world->fabrics[ALICE], world->addresses[BOB], &options, NULL, 0,
                                    &end->endpoint),
                     NIGH_NO_RESOURCES);
    assert_null(end->endpoint);
    assert_int_equal(left_of("identifiers"), 2);
}

/* ---- calls of the set-up that fail ---- */

/* A dial of which one call fails, and what becomes of both sides. */
struct refusal {
    enum fake_verbs_call call;
    uint32_t after;      /* so many of that kind; of the same side's and the other's */
    bool is_requested;   /* the other side hears of the dial at all */
    nigh_status dialler; /* its end */
};

/* Queue pairs change their states in this order: the dialler's to INIT, the acceptor's to INIT, RTR
 * and RTS, the dialler's to RTR and RTS. */
static const struct refusal refusals[] = {
    {FAKE_VERBS_RESOLVE_ADDR, 0, false, NIGH_UNREACHABLE},
    {FAKE_VERBS_RESOLVE_ROUTE, 0, false, NIGH_UNREACHABLE},
    {FAKE_VERBS_INIT_QP_ATTR, 0, false, NIGH_UNREACHABLE},
    {FAKE_VERBS_MODIFY_QP, 0, false, NIGH_UNREACHABLE},
    {FAKE_VERBS_POST_RECV, 0, false, NIGH_PEER_LOST},
    {FAKE_VERBS_POST_RECV, 1, false, NIGH_PEER_LOST},
    {FAKE_VERBS_CONNECT, 0, false, NIGH_UNREACHABLE},
    {FAKE_VERBS_INIT_QP_ATTR, 1, true, NIGH_UNREACHABLE},
    {FAKE_VERBS_MODIFY_QP, 1, true, NIGH_UNREACHABLE},
    {FAKE_VERBS_POST_RECV, 2, true, NIGH_UNREACHABLE},
    {FAKE_VERBS_INIT_QP_ATTR, 2, true, NIGH_UNREACHABLE},
    {FAKE_VERBS_MODIFY_QP, 2, true, NIGH_UNREACHABLE},
    {FAKE_VERBS_INIT_QP_ATTR, 3, true, NIGH_UNREACHABLE},
    {FAKE_VERBS_MODIFY_QP, 3, true, NIGH_UNREACHABLE},
    {FAKE_VERBS_ACCEPT, 0, true, NIGH_UNREACHABLE},
    {FAKE_VERBS_INIT_QP_ATTR, 4, true, NIGH_PEER_LOST},
    {FAKE_VERBS_MODIFY_QP, 4, true, NIGH_PEER_LOST},
    {FAKE_VERBS_INIT_QP_ATTR, 5, true, NIGH_PEER_LOST},
    {FAKE_VERBS_MODIFY_QP, 5, true, NIGH_PEER_LOST},
    {FAKE_VERBS_ESTABLISH, 0, true, NIGH_PEER_LOST},
};

/* Two receives each, which come back. */
static void fill_receives(struct world_end *end, const struct world_area *area)
{
    end_receive(end, 1, area, 0, 8);
    end_receive(end, 2, area, 8, 8);
}

static void expect_receives_back(struct world_end *end)
{
    assert_comes(end->world, end->logged == 2);
    for (uint64_t tag = 1; tag <= 2; tag++)
        assert_int_equal(end_find_receive(end, tag)->status, NIGH_PEER_LOST);
}

static void expect_refusal(struct world *world, const struct refusal *refusal,
                           struct world_area *const areas[2])
{
    struct world_end *alice, *bob = NULL;
    bool is_dialled = refusal->call != FAKE_VERBS_RESOLVE_ADDR; /* else it fails while it begins */

    fake_verbs_refuse_call(refusal->call, refusal->after, EINVAL);
    alice = world_dial(world, ALICE, world->addresses[BOB], NULL, 0);
    if (is_dialled)
        fill_receives(alice, areas[ALICE]);
    if (refusal->is_requested) {
        bob = world_accept(world, world_next_request(world, BOB), NULL, 0);
        fill_receives(bob, areas[BOB]);
    }
    assert_comes(world, alice->disconnected == 1);
    assert_true(fake_verbs_has_refused(refusal->call));
    if (alice->status != refusal->dialler)
        fail_msg("call %d after %u: %d", (int)refusal->call, refusal->after, (int)alice->status);
    if (is_dialled)
        expect_receives_back(alice);
    if (bob != NULL) {
        assert_comes(world, bob->disconnected == 1);
        assert_int_equal(bob->status, NIGH_PEER_LOST);
        expect_receives_back(bob);
        end_destroy(bob);
    }
    end_destroy(alice);
    assert_int_equal(alice->established, 0);
    world_pass(world, 1500000); /* identifiers linger */
    assert_int_equal(left_of("queue pairs"), 0);
    assert_int_equal(left_of("identifiers"), 2);
}

/* Whatever of a set-up fails ends it on both sides, once, gives back what was posted, and leaves
 * nothing; the next one is as if nothing had been. */
static void test_calls_of_the_set_up_that_fail(void **state)
{
    struct world *world = *state;
    struct world_area *areas[2] = {world_area(world, ALICE, SIZE, ALL_RIGHTS),
                                   world_area(world, BOB, SIZE, ALL_RIGHTS)};
    struct world_end *alice, *bob;

    for (size_t i = 0; i < ARRAY_LENGTH(refusals); i++)
        expect_refusal(world, &refusals[i], areas);
    world_join(world, ALICE, BOB, &alice, &bob);
    end_receive(bob, 1, areas[BOB], 0, 64);
    end_send(alice, 1, areas[ALICE], 0, 64);
    assert_int_equal(end_wait_receive(bob, 1), NIGH_OK);
}

/* What a dial needs at once is refused at once. */
static void test_a_dial_that_does_not_begin(void **state)
{
    static const enum fake_verbs_call calls[] = {FAKE_VERBS_CREATE_CQ, FAKE_VERBS_CREATE_QP,
                                                 FAKE_VERBS_CREATE_ID};
    struct world *world = *state;
    struct world_end *end = world_end(world, ALICE), *alice, *bob;
    struct fabric_endpoint_options options = end_options(end, 4, 4);

    for (size_t i = 0; i < ARRAY_LENGTH(calls); i++) {
        fake_verbs_refuse_call(calls[i], 0, ENOMEM);
        assert_int_equal(fabric_connect(world->fabrics[ALICE], world->addresses[BOB], &options,
                                        NULL, 0, &end->endpoint),
                         NIGH_NO_RESOURCES);
        assert_null(end->endpoint);
        assert_int_equal(left_of("queue pairs"), 0);
        assert_int_equal(left_of("identifiers"), 2);
    }
    world_join(world, ALICE, BOB, &alice, &bob);
}

/* A receive that the device does not take ends the connection; each completes once. */
static void test_a_receive_that_is_refused(void **state)
{
    struct scene scene;

    scene_make(&scene, *state, 16);
    end_receive(scene.alice, 1, scene.here, 0, 8);
    fake_verbs_refuse_call(FAKE_VERBS_POST_RECV, 0, EINVAL);
    end_receive(scene.alice, 2, scene.here, 8, 8);
    assert_int_equal(end_post_receive(scene.alice, 3, area_slice(scene.here, 16, 8)), NIGH_CLOSED);
    assert_comes(scene.world, scene.alice->disconnected == 1 && scene.bob->disconnected == 1);
    assert_int_equal(scene.alice->status, NIGH_PEER_LOST);
    expect_receives_back(scene.alice);
}

/* ---- words of the device ---- */

/* How a post ended, of a device that says why, and what its caller hears of it and of the end. */
struct ending {
    enum ibv_wc_status said;
    enum fabric_op op;
    nigh_status status, disconnected;
};

/* V9, and what happens when: a peer without a receive, and one who does not answer. */
static void test_words_of_the_device(void **state)
{
    static const struct ending endings[] = {
        {IBV_WC_RNR_RETRY_EXC_ERR, FABRIC_SEND, NIGH_PROTOCOL, NIGH_PROTOCOL},
        {IBV_WC_RNR_RETRY_EXC_ERR, FABRIC_WRITE_IMM, NIGH_PROTOCOL, NIGH_PROTOCOL},
        {IBV_WC_RETRY_EXC_ERR, FABRIC_SEND, NIGH_PEER_LOST, NIGH_TIMEOUT},
        {IBV_WC_RETRY_EXC_ERR, FABRIC_READ, NIGH_PEER_LOST, NIGH_TIMEOUT},
        {IBV_WC_RESP_TIMEOUT_ERR, FABRIC_READ, NIGH_PEER_LOST, NIGH_TIMEOUT},
        {IBV_WC_REM_ACCESS_ERR, FABRIC_WRITE, NIGH_DENIED, NIGH_DENIED},
        {IBV_WC_REM_INV_REQ_ERR, FABRIC_WRITE, NIGH_DENIED, NIGH_DENIED},
        {IBV_WC_REM_INV_REQ_ERR, FABRIC_SEND, NIGH_LIMIT, NIGH_LIMIT},
        {IBV_WC_REM_OP_ERR, FABRIC_SEND, NIGH_LIMIT, NIGH_LIMIT},
        {IBV_WC_REM_OP_ERR, FABRIC_READ, NIGH_PROTOCOL, NIGH_PROTOCOL},
        {IBV_WC_FATAL_ERR, FABRIC_WRITE, NIGH_PEER_LOST, NIGH_PEER_LOST},
    };
    struct scene scene;

    scene_make(&scene, *state, 16);
    for (size_t i = 0; i < ARRAY_LENGTH(endings); i++) {
        struct fabric_slice slice;
        struct fabric_work work = write_of(&scene, &slice, 1, FABRIC_SIGNALLED);

        work.op = endings[i].op;
        end_receive(scene.bob, 1, scene.there, 64, 64);
        fake_verbs_end_post(endings[i].said);
        assert_int_equal(end_post(scene.alice, &work), NIGH_OK);
        end_write(scene.alice, 2, scene.here, 0, area_remote(scene.there, 0), 8);
        assert_int_equal(end_wait(scene.alice, 1), endings[i].status);
        assert_int_equal(end_wait(scene.alice, 2), NIGH_PEER_LOST);
        assert_comes(scene.world, scene.alice->disconnected == 1 && scene.bob->disconnected == 1);
        assert_int_equal(scene.alice->status, endings[i].disconnected);
        end_destroy(scene.alice);
        end_destroy(scene.bob);
        world_join_deep(scene.world, ALICE, BOB, 16, &scene.alice, &scene.bob);
    }
}

/* An accept that failed may be tried again, or not. */
static void test_an_accept_without_a_queue_pair(void **state)
{
    struct world *world = *state;
    struct world_end *alice = world_dial(world, ALICE, world->addresses[BOB], NULL, 0);
    struct world_request *request = world_next_request(world, BOB);
    struct fabric_endpoint_options options = {.sends = 4, .receives = 4};
    struct world_end *bob;

    fake_verbs_refuse_queues(true);
    assert_int_equal(fabric_accept(world->fabrics[BOB], request->endpoint, &options, NULL, 0),
                     NIGH_NO_RESOURCES);
    fake_verbs_refuse_queues(false);
    bob = world_accept(world, request, NULL, 0);
    assert_comes(world, alice->established == 1 && bob->established == 1);
}

/* V8: shares are given back: deep endpoints come and go without more completion queues, and many at
 * once get more; none ever runs over. */
static void test_completion_queues_are_shared(void **state)
{
    enum {
        DEEP = 4000,
        ROUNDS = 10
    };
    struct world *world = *state;
    struct world_end *ends[8];

    for (uint32_t i = 0; i < ROUNDS; i++) {
        world_join_deep(world, ALICE, BOB, DEEP, &ends[0], &ends[1]);
        end_destroy(ends[0]);
        end_destroy(ends[1]);
    }
    assert_int_equal(left_of("completion queues"), 2);
    for (uint32_t i = 0; i < 8; i += 2)
        world_join_deep(world, ALICE, BOB, DEEP, &ends[i], &ends[i + 1]);
    assert_int_equal(left_of("completion queues"), 4);
    assert_int_equal(fake_verbs_counts().overruns, 0);
}

/* V8: every completion queue of a fabric is on the vector that was asked for, or what is left of it
 * by the device's number of them. */
static void test_completion_queues_have_their_vector(void **state)
{
    enum {
        DEEP = 4000,
        ENDS = 8
    };
    struct world *world = *state;
    struct world_end *ends[ENDS];
    uint32_t on_third = 0, on_first = 0;

    replace(world, ALICE, (struct verbs_options){.vector = 3});
    replace(world, BOB, (struct verbs_options){.vector = FAKE_VERBS_VECTORS + 1});
    for (uint32_t i = 0; i < ENDS; i += 2)
        world_join_deep(world, ALICE, BOB, DEEP, &ends[i], &ends[i + 1]);
    assert_int_equal(left_of("completion queues"), 4);
    for (uint32_t i = 0; i < WORLD_FABRICS; i++) {
        struct fake_verbs_sum sum = fake_verbs_sum(i);

        on_third += sum.vectors == UINT64_C(1) << 3 ? sum.completion_queues : 0;
        on_first += sum.vectors == UINT64_C(1) << 1 ? sum.completion_queues : 0;
    }
    assert_int_equal(on_third, 2);
    assert_int_equal(on_first, 2);
}

static uint32_t variant;

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_wrong_is_said),
        cmocka_unit_test(test_link_local_gids_that_will_do),
        cmocka_unit_test(test_a_small_mtu_is_said),
        cmocka_unit_test(test_what_is_said_of_words),
        WORLD_TEST(test_options_reach_the_device),
        WORLD_TEST(test_options_are_the_systems),
        WORLD_TEST(test_options_that_are_not_known),
        cmocka_unit_test(test_options_have_bounds),
        WORLD_TEST(test_a_chain_is_one_doorbell),
        WORLD_TEST(test_unsignalled_posts_go_on_for_ever),
        WORLD_TEST(test_flags_reach_the_device),
        WORLD_TEST(test_a_batch_that_fails_in_the_middle_goes_on),
        WORLD_TEST(test_refused_reads_are_not_lost),
        WORLD_TEST(test_refused_posts_are_signalled_as_others),
        WORLD_TEST(test_a_post_that_is_refused_for_good),
        WORLD_TEST(test_reads_are_admitted),
        WORLD_TEST(test_reads_are_what_both_agreed_on),
        WORLD_TEST(test_reads_are_agreed_on_over_iwarp),
        WORLD_TEST(test_flush_in_odd_order),
        WORLD_TEST(test_flush_that_never_comes),
        WORLD_TEST(test_the_first_message_establishes),
        WORLD_TEST(test_lost_words_end_by_patience),
        WORLD_TEST(test_a_dial_that_is_given_up),
        WORLD_TEST(test_a_request_that_is_given_up),
        WORLD_TEST(test_a_connection_that_is_given_up),
        WORLD_TEST(test_a_route_through_another_device),
        WORLD_TEST(test_a_request_through_another_device),
        WORLD_TEST(test_an_end_without_a_word),
        WORLD_TEST(test_identifiers_do_not_pile_up),
        WORLD_TEST(test_silence_is_probed),
        WORLD_TEST(test_a_device_that_goes),
        WORLD_TEST(test_a_device_that_goes_is_let_go),
        WORLD_TEST(test_a_device_that_comes_again),
        WORLD_TEST(test_loops_of_a_device_that_goes),
        WORLD_TEST(test_a_loop_that_is_refused),
        WORLD_TEST(test_a_device_that_comes_again_too_small),
        WORLD_TEST(test_a_device_that_comes_again_without_its_port),
        WORLD_TEST(test_another_device_is_taken),
        cmocka_unit_test(test_addresses_have_bounds),
        WORLD_TEST(test_a_completion_queue_that_runs_over),
        WORLD_TEST(test_a_device_that_fails),
        WORLD_TEST(test_a_queue_pair_that_fails),
        WORLD_TEST(test_memory_that_is_held_on_to),
        WORLD_TEST(test_memory_that_cannot_be_registered),
        WORLD_TEST(test_a_queue_pair_that_is_refused),
        WORLD_TEST(test_calls_of_the_set_up_that_fail),
        WORLD_TEST(test_a_dial_that_does_not_begin),
        WORLD_TEST(test_a_receive_that_is_refused),
        WORLD_TEST(test_words_of_the_device),
        WORLD_TEST(test_an_accept_without_a_queue_pair),
        WORLD_TEST(test_completion_queues_are_shared),
        WORLD_TEST(test_a_device_that_was_taken),
        WORLD_TEST(test_a_device_that_fails_all_the_time),
        WORLD_TEST(test_a_removal_is_heard_by_what_lingers),
        WORLD_TEST(test_another_device_has_shorter_messages),
        WORLD_TEST(test_completion_queues_have_their_vector),
    };

    if (world_provider.missing() != NULL)
        return 1;
    for (size_t i = 0; i < ARRAY_LENGTH(tests); i++)
        tests[i].initial_state = &variant;
    return cmocka_run_group_tests_name("fabric-verbs", tests, NULL, NULL);
}
