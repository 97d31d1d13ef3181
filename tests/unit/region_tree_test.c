/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers of many members, in the tree that they really have: eighty nodes' machines of all their
 * regions, whose letters are carried in order. Each says to one node what has arrived there and
 * below, no node hears more than LIMIT_REGION_FAN others, and three edges lead from the last to the
 * home; so it is with other members, and another home. A node that only counts for others breaks
 * the barrier as it dies.
 */
#include <stdlib.h>
#include <string.h>

#include "region/letter.h"
#include "region/regions.h"

#include "support/support.h"

enum {
    MEMBERS = 80,
    DEPTH = 3, /* 1 + 8 + 64 have their places above the last ones */
    ROUNDS = 3,
    ACTS = 16,
    NUMBER = 7,
    FRAMES = 1 << 17 /* no more before all is quiet: a view takes some thirteen thousand */
};

#define CHUNK_BYTES UINT64_C(4096)
#define OWNER       1000u

struct frame {
    struct list_node link;
    uint32_t from, to; /* members */
    enum regions_frame kind;
    uint32_t count;
    uint8_t bytes[];
};

struct act {
    struct region *region;
    struct region_holder_act what;
};

struct member {
    struct regions *regions; /* NULL: dead */
    struct region *region;
    struct regions_party party;
    uint32_t parent;   /* to whom it said that some had arrived; MEMBERS: to nobody */
    uint32_t children; /* who said it here */
    uint32_t passed;
    bool waits;
    nigh_status status; /* of the last */
};

static struct {
    struct member members[MEMBERS];
    struct list frames;
    struct act acts[ACTS];
    uint32_t act_count;
    uint32_t home;
    uint64_t epoch, arrived; /* letters */
    struct region_set view;
    struct region_version birth;
    nigh_status answer;
    bool has_answer;
    struct regions_op read;
    struct region_post post;
    bool is_posted, has_read;
} world;

/* Ranks have gaps. */
static uint32_t rank_of(uint32_t member)
{
    return 3 + 2 * member;
}

static uint32_t member_of(uint32_t rank)
{
    assert_true(rank >= 3 && rank % 2 == 1 && rank < rank_of(MEMBERS));
    return (rank - 3) / 2;
}

/* ---- the shell ------------------------------------------------------------ */

static uint32_t on_home(void *context, uint64_t hash)
{
    (void)context;
    (void)hash;
    return rank_of(world.home);
}

static bool on_send(void *context, uint32_t rank, enum regions_frame kind, const uint8_t *bytes,
                    uint32_t count)
{
    const struct member *member = context;
    struct frame *frame = malloc(sizeof *frame + count);

    assert_non_null(frame);
    *frame = (struct frame){.from = (uint32_t)(member - world.members),
                            .to = member_of(rank),
                            .kind = kind,
                            .count = count};
    memcpy(frame->bytes, bytes, count);
    list_push_back(&world.frames, &frame->link);
    return true;
}

static void on_act(void *context, struct region *region, const struct region_holder_act *what)
{
    (void)context;
    assert_true(world.act_count < ACTS);
    world.acts[world.act_count++] = (struct act){.region = region, .what = *what};
}

static void on_post(void *context, struct regions_op *op, const struct region_post *post)
{
    (void)context;
    assert_ptr_equal(op, &world.read);
    world.post = *post;
    world.is_posted = true;
}

static nigh_status on_judge(void *context, struct regions_op *op,
                            const struct region_descriptor *descriptor)
{
    (void)context;
    (void)op;
    world.birth = descriptor->birth;
    return NIGH_OK;
}

static void on_ended(void *context, struct regions_op *op, nigh_status status)
{
    (void)context;
    (void)op;
    assert_int_equal(status, NIGH_OK);
    world.has_read = true;
}

static void on_answered(void *context, struct region_ask *ask, nigh_status status)
{
    (void)context;
    (void)ask;
    world.answer = status;
    world.has_answer = true;
}

static void on_locked(void *context, struct regions_hold *hold, nigh_status status)
{
    (void)context;
    (void)hold;
    (void)status;
    fail();
}

static void on_wanted(void *context, struct regions_hold *hold)
{
    on_locked(context, hold, NIGH_OK);
}

static void on_passed(void *context, struct regions_party *party, nigh_status status)
{
    struct member *member = container_of(party, struct member, party);

    (void)context;
    assert_true(member->waits);
    member->waits = false;
    member->status = status;
    member->passed += status == NIGH_OK ? 1 : 0;
}

/* ---- what happens --------------------------------------------------------- */

/* Whoever says that some have arrived says it to one. */
static void note(const struct frame *frame)
{
    static struct region_letter letter;
    struct member *from = &world.members[frame->from];

    if (frame->kind != REGIONS_LETTER)
        return;
    assert_int_equal(region_letter_decode(frame->bytes, frame->count, &letter), NIGH_OK);
    if (letter.message.kind != REGION_ARRIVED)
        return;
    world.arrived++;
    world.members[frame->to].children += from->parent == MEMBERS ? 1 : 0;
    from->parent = from->parent == MEMBERS ? frame->to : from->parent;
    assert_int_equal(from->parent, frame->to);
}

static bool deliver(void)
{
    struct list_node *node = list_pop_front(&world.frames);
    struct frame *frame = node == NULL ? NULL : container_of(node, struct frame, link);
    struct regions *to = frame == NULL ? NULL : world.members[frame->to].regions;

    if (frame == NULL)
        return false;
    if (to != NULL && world.members[frame->from].regions != NULL) {
        note(frame);
        assert_int_equal(
            regions_receive(to, rank_of(frame->from), frame->kind, frame->bytes, frame->count),
            NIGH_OK);
    }
    free(frame);
    return true;
}

static bool do_act(void)
{
    struct act todo;
    struct region_window handle = REGION_NO_WINDOW;

    if (world.act_count == 0)
        return false;
    todo = world.acts[--world.act_count];
    if (todo.what.action == REGION_ACT_OPEN)
        handle = (struct region_window){.address = 4096, .key = 1};
    regions_did(todo.region, todo.what.chunk, NIGH_OK, handle);
    return true;
}

static bool turn_all(void)
{
    bool any = false;

    for (uint32_t n = 0; n < MEMBERS; n++) {
        if (world.members[n].regions != NULL) {
            any = regions_turn(world.members[n].regions) || any;
        }
    }
    return any;
}

/* What goes round for ever is a failure. */
static void settle(void)
{
    uint32_t frames = 0;
    bool any;

    do {
        any = turn_all();
        while (deliver()) {
            any = true;
            assert_true(++frames < FRAMES);
        }
        while (do_act()) {
            any = true;
        }
        if (world.is_posted) {
            world.is_posted = false;
            regions_posted(&world.read, 0, world.post.place.handle, NIGH_OK);
        }
    } while (any);
    for (uint32_t n = 0; n < MEMBERS; n++) {
        assert_true(world.members[n].regions == NULL ||
                    regions_are_valid(world.members[n].regions));
    }
}

/* ---- a world -------------------------------------------------------------- */

static void begin_view(uint32_t home)
{
    world.home = home;
    world.epoch++;
    memset(&world.view, 0, sizeof(world.view));
    for (uint32_t n = 0; n < MEMBERS; n++) {
        world.members[n].parent = MEMBERS;
        world.members[n].children = 0;
        if (world.members[n].regions != NULL) {
            region_set_add(&world.view, rank_of(n));
            regions_lease(world.members[n].regions, false);
        }
    }
    world.arrived = 0;
    for (uint32_t n = 0; n < MEMBERS; n++) {
        if (world.members[n].regions != NULL) {
            regions_view(world.members[n].regions, world.epoch, &world.view);
            regions_lease(world.members[n].regions, true);
        }
    }
    settle();
}

static void begin_member(uint32_t n)
{
    struct regions_config config = {.self = rank_of(n),
                                    .incarnation = n + 1,
                                    .nodes = rank_of(MEMBERS),
                                    .names = 4,
                                    .seed = n,
                                    .shell = {.context = &world.members[n],
                                              .home = on_home,
                                              .send = on_send,
                                              .act = on_act,
                                              .post = on_post,
                                              .judge = on_judge,
                                              .ended = on_ended,
                                              .answered = on_answered,
                                              .locked = on_locked,
                                              .wanted = on_wanted,
                                              .passed = on_passed}};

    assert_int_equal(regions_create(&config, &world.members[n].regions), NIGH_OK);
}

static void join_all(void)
{
    for (uint32_t n = 0; n < MEMBERS; n++) {
        for (uint32_t other = 0; other < MEMBERS; other++) {
            if (other != n) {
                regions_alive(world.members[n].regions, rank_of(other), other + 1);
                regions_link(world.members[n].regions, rank_of(other), true);
            }
        }
    }
}

/* A region, of a chunk at node 0; and its birth, which a read looks at. */
static void make_region(void)
{
    const uint32_t node = rank_of(0);
    struct region_ask ask = {.kind = REGION_ASK_CREATE,
                             .uid = OWNER,
                             .name = "tree",
                             .name_bytes = 4,
                             .geometry = {CHUNK_BYTES, CHUNK_BYTES},
                             .nodes = &node,
                             .node_count = 1};

    regions_ask(world.members[world.home].regions, "tree", 4, &ask);
    settle();
    assert_true(world.has_answer);
    assert_int_equal(world.answer, NIGH_OK);
    for (uint32_t n = 0; n < MEMBERS; n++) {
        assert_int_equal(
            regions_open(world.members[n].regions, "tree", 4, &world.members[n].region), NIGH_OK);
    }
    world.read.op.length_bytes = 8;
    regions_begin(world.members[1].region, &world.read);
    settle();
    assert_true(world.has_read);
}

static void begin(uint32_t home)
{
    memset(&world, 0, sizeof(world));
    list_init(&world.frames);
    for (uint32_t n = 0; n < MEMBERS; n++) {
        begin_member(n);
    }
    join_all();
    begin_view(home);
    make_region();
}

static void end_member(uint32_t n)
{
    struct member *member = &world.members[n];

    if (member->regions == NULL)
        return;
    regions_leave(&member->party, false);
    regions_close(member->region);
    regions_destroy(member->regions);
    member->regions = NULL;
}

static void end(void)
{
    settle();
    for (uint32_t n = 0; n < MEMBERS; n++) {
        end_member(n);
    }
    while (deliver()) {
    }
}

static void arrive(uint32_t n, uint32_t parties)
{
    struct member *member = &world.members[n];

    member->waits = true;
    assert_int_equal(regions_arrive(member->region, &world.birth, NUMBER, parties, &member->party),
                     NIGH_OK);
}

/* Of those that live. */
static void assert_all_have_passed(uint32_t rounds)
{
    for (uint32_t n = 0; n < MEMBERS; n++) {
        assert_true(world.members[n].regions == NULL || world.members[n].passed == rounds);
    }
}

/* One after the other, from `first` on, to the last before it; nobody goes on before that. */
static void pass_one_round(uint32_t first, uint32_t round)
{
    for (uint32_t n = 0; n < MEMBERS; n++) {
        assert_all_have_passed(round - 1);
        arrive((first + n) % MEMBERS, MEMBERS);
        if (n % 16 == 0 || n + 2 >= MEMBERS) {
            settle();
        }
    }
    assert_all_have_passed(round);
}

/* All have arrived since the view began: all but the home have said so. */
static void check_tree(uint32_t members)
{
    uint32_t deepest = 0, edges = 0;

    for (uint32_t n = 0; n < MEMBERS; n++) {
        uint32_t at = n, depth = 0;

        if (world.members[n].regions == NULL)
            continue;
        assert_in_range(world.members[n].children, 0, LIMIT_REGION_FAN);
        edges += world.members[n].children;
        for (; at != world.home; at = world.members[at].parent) {
            assert_true(world.members[at].parent < MEMBERS);
            assert_true(++depth <= DEPTH);
        }
        deepest = max_u32(deepest, depth);
    }
    assert_int_equal(edges, members - 1);
    assert_int_equal(deepest, DEPTH);
}

/* ---- tests ---------------------------------------------------------------- */

static void arrivals_go_up_a_tree(void **state)
{
    (void)state;
    begin(11);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        pass_one_round(round * 29 % MEMBERS, round);
    }
    check_tree(MEMBERS);
    print_message("# %llu letters of %u arrivals\n", (unsigned long long)world.arrived,
                  ROUNDS * MEMBERS);
    end();
}

/* Those that wait are counted up another. */
static void another_home_has_another_tree(void **state)
{
    (void)state;
    begin(11);
    pass_one_round(0, 1);
    for (uint32_t n = 0; n < MEMBERS / 2; n++) {
        arrive(n, MEMBERS);
    }
    settle();
    begin_view(70);
    for (uint32_t n = MEMBERS / 2; n < MEMBERS; n++) {
        assert_all_have_passed(1);
        arrive(n, MEMBERS);
    }
    settle();
    assert_all_have_passed(2);
    check_tree(MEMBERS);
    end();
}

/* The others find it dead, and then are in a view without it. */
static void kill_member(uint32_t victim)
{
    regions_destroy(world.members[victim].regions);
    world.members[victim].regions = NULL;
    for (uint32_t n = 0; n < MEMBERS; n++) {
        if (world.members[n].regions != NULL) {
            regions_dead(world.members[n].regions, rank_of(victim));
        }
    }
    settle();
}

/* It uses nothing of the region, and nobody knows whether somebody there did. */
static void who_counts_for_others_breaks_it_as_it_dies(void **state)
{
    const uint32_t home = 11, victim = home + 1; /* the first below the home */

    (void)state;
    begin(home);
    for (uint32_t n = 0; n < MEMBERS; n++) {
        if (n != victim && n != home) {
            arrive(n, MEMBERS - 1);
        }
    }
    settle();
    assert_all_have_passed(0);
    assert_int_equal(world.members[victim].children, LIMIT_REGION_FAN);
    kill_member(victim);
    for (uint32_t n = 0; n < MEMBERS; n++) {
        assert_false(world.members[n].waits);
        assert_true(n == victim || n == home || world.members[n].status == NIGH_PEER_LOST);
    }
    for (uint32_t n = 0; n < MEMBERS; n++) {
        if (world.members[n].regions != NULL && world.members[n].party.party.barrier != NULL) {
            regions_leave(&world.members[n].party, false);
        }
    }
    begin_view(home);
    for (uint32_t n = 0; n < MEMBERS; n++) {
        if (n != victim) {
            arrive(n, MEMBERS - 1);
        }
    }
    settle();
    assert_all_have_passed(1); /* by the tree of those that are left */
    check_tree(MEMBERS - 1);
    end();
}

static void leave(uint32_t n)
{
    regions_leave(&world.members[n].party, false);
}

/* Of two the home goes on, and who takes its place is as deep in the tree as can be, where nobody
 * has heard of that. */
static void who_is_new_deep_in_the_tree_waits(void **state)
{
    const uint32_t home = 11, other = home - 1, late = home - 2;

    (void)state;
    begin(home);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        arrive(other, 2);
        settle();
        arrive(home, 2);
        assert_int_equal(world.members[home].passed, round + 1);
        assert_int_equal(world.members[other].passed, round);
        leave(home);
        arrive(late, 2);
        settle();
        assert_int_equal(world.members[other].passed, round + 1);
        assert_true(world.members[late].waits);
        leave(late);
        world.members[late].waits = false;
        settle();
    }
    end();
}

/* What a member says to the home, of views or of rounds before. */
static void say_to_home(uint32_t from, enum region_message_kind kind, uint64_t latest)
{
    struct region_message message = {.kind = kind, .base = world.birth};
    uint8_t bytes[REGION_LETTER_BYTES];
    size_t count;

    message.barrier = (struct region_barrier_word){.number = NUMBER, .latest = latest};
    message.barrier.is_part = kind == REGION_ARRIVED;
    message.barrier.ask = kind == REGION_ARRIVED ? 1 : 0;
    count = region_letter_encode(&message, "tree", 4, bytes);
    assert_int_equal(regions_receive(world.members[world.home].regions, rank_of(from),
                                     REGIONS_LETTER, bytes, (uint32_t)count),
                     NIGH_OK);
}

/* All have left, and the first that is heard of who comes is of rounds that the home has told it
 * before; so is what somebody knew of a view. */
static void what_was_said_before_all_left_is_of_no_use(void **state)
{
    const uint32_t home = 11, first = home + 1, second = home + 2;

    (void)state;
    begin(home);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        arrive(first, 2);
        arrive(home, 2);
        settle();
        assert_int_equal(world.members[home].passed, round);
    }
    leave(first);
    leave(home);
    settle();
    say_to_home(first, REGION_ARRIVED, 2);
    arrive(home, 2);
    say_to_home(second, REGION_KNOWN, ROUNDS);
    assert_true(world.members[home].waits);
    settle();
    arrive(first, 2);
    settle();
    assert_false(world.members[home].waits);
    assert_int_equal(world.members[home].passed, ROUNDS + 1);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrivals_go_up_a_tree),
        cmocka_unit_test(another_home_has_another_tree),
        cmocka_unit_test(who_counts_for_others_breaks_it_as_it_dies),
        cmocka_unit_test(who_is_new_deep_in_the_tree_waits),
        cmocka_unit_test(what_was_said_before_all_left_is_of_no_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
