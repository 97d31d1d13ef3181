/* SPDX-License-Identifier: Apache-2.0 */
/* A mapping: operations in pieces, what is refused and tried again, and what a home's word changes.
 */
#include "region/mapping.h"

#include "region_fixture.h"
#include "support/support.h"

#define HOME 5u
#define ROOM 8u

static struct {
    struct region_mapping mapping;
    struct region_fixture now, home;
    struct region_post posts[16];
    uint32_t post_count;
    uint32_t maps, unmaps, holds;
    uint64_t held;       /* the change that was answered for last */
    nigh_status judged;  /* what is to be said */
    uint32_t ended_life; /* of node 2, the last */
    struct region_op *ended;
    nigh_status status;
    uint32_t ends;
} world;

static void on_send(void *context, const struct region_message *message)
{
    (void)context;
    assert_true(message->peer == HOME || message->peer == HOME + 1);
    if (message->kind == REGION_DONE) {
        assert_int_equal(message->of, REGION_HOLD);
        world.holds++;
        world.held = message->change.counter;
    }
    world.maps += message->kind == REGION_MAP;
    world.unmaps += message->kind == REGION_UNMAP;
}

static void on_post(void *context, struct region_op *op, const struct region_post *post)
{
    (void)context;
    (void)op;
    assert_true(world.post_count < 16);
    world.posts[world.post_count++] = *post;
}

static nigh_status on_judge(void *context, struct region_op *op,
                            const struct region_descriptor *descriptor)
{
    (void)context;
    (void)op;
    assert_false(region_descriptor_is_none(descriptor));
    return world.judged;
}

static bool on_has_ended(void *context, uint32_t node, uint32_t incarnation)
{
    (void)context;
    assert_int_not_equal(node, REGION_NOBODY);
    assert_int_not_equal(incarnation, 0);
    return node == 2 && incarnation <= world.ended_life;
}

static void on_ended(void *context, struct region_op *op, nigh_status status)
{
    (void)context;
    world.ended = op;
    world.status = status;
    world.ends++;
}

static struct region_descriptor *begin(void)
{
    struct region_mapping_config config = {.room = ROOM,
                                           .now = region_fixture_at(&world.now),
                                           .has_lease = true,
                                           .shell = {.send = on_send,
                                                     .post = on_post,
                                                     .judge = on_judge,
                                                     .ended = on_ended,
                                                     .has_ended = on_has_ended}};

    memset(&world, 0, sizeof(world));
    region_mapping_init(&world.mapping, &config);
    return region_fixture_make(&world.home, 3); /* 24476 bytes */
}

static void tell(nigh_status status)
{
    region_mapping_take(&world.mapping,
                        &(struct region_message){.kind = REGION_MAPPED,
                                                 .peer = HOME,
                                                 .status = status,
                                                 .descriptor = region_fixture_at(&world.home)});
    assert_true(region_mapping_is_valid(&world.mapping));
}

static struct region_descriptor *begin_known(void)
{
    struct region_descriptor *descriptor = begin();

    region_mapping_home(&world.mapping, HOME);
    assert_int_equal(world.maps, 1);
    tell(NIGH_OK);
    return descriptor;
}

static void start(struct region_op *op, uint64_t offset_bytes, uint64_t length_bytes)
{
    *op = (struct region_op){.offset_bytes = offset_bytes, .length_bytes = length_bytes};
    region_mapping_begin(&world.mapping, op);
    assert_true(region_mapping_is_valid(&world.mapping));
}

/* A post has ended. */
static void posted(struct region_op *op, uint32_t at, nigh_status status)
{
    region_mapping_posted(&world.mapping, op, world.posts[at].piece.chunk,
                          world.posts[at].place.handle, status);
    assert_true(region_mapping_is_valid(&world.mapping));
}

static void assert_ended(const struct region_op *op, nigh_status status)
{
    assert_int_equal(world.ends, 1);
    assert_ptr_equal(world.ended, op);
    assert_int_equal(world.status, status);
    world.ends = 0;
}

static void an_operation_is_a_piece_a_chunk(void **state)
{
    struct region_op op;

    (void)state;
    begin_known();
    start(&op, 8000, 16000);
    assert_int_equal(world.post_count, 3);
    assert_int_equal(world.posts[0].piece.length_bytes, 192);
    assert_int_equal(world.posts[1].place.node, 2);
    assert_int_equal(world.posts[1].place.handle.address, 51);
    assert_int_equal(world.posts[2].piece.length_bytes, 16000 - 192 - 8192);
    posted(&op, 1, NIGH_OK);
    posted(&op, 0, NIGH_OK);
    assert_int_equal(world.ends, 0);
    posted(&op, 2, NIGH_OK);
    assert_ended(&op, NIGH_OK);
    start(&op, 24470, 6);
    posted(&op, 3, NIGH_OK);
    assert_ended(&op, NIGH_OK);
}

/* A change may have been told to somebody and not to this node. */
static void what_is_refused_is_asked_for_once_more(void **state)
{
    struct region_descriptor *descriptor = begin_known();
    struct region_op op;

    (void)state;
    start(&op, 24470, 7);
    assert_int_equal(world.maps, 2);
    descriptor->geometry.size_bytes++;
    tell(NIGH_OK);
    posted(&op, 0, NIGH_OK);
    assert_ended(&op, NIGH_OK);
    start(&op, 24470, 8);
    assert_int_equal(world.maps, 3);
    tell(NIGH_OK);
    assert_ended(&op, NIGH_INVALID);
    world.judged = NIGH_DENIED;
    start(&op, 0, 1);
    assert_int_equal(world.ends, 0);
    assert_int_equal(world.maps, 4);
    world.judged = NIGH_OK;
    tell(NIGH_OK);
    posted(&op, 1, NIGH_OK);
    assert_ended(&op, NIGH_OK);
}

/* An answer that was on its way may be of before. */
static void an_answer_to_an_earlier_question_is_not_enough(void **state)
{
    struct region_op first, op;

    (void)state;
    begin_known();
    start(&first, 24470, 7);
    start(&op, 24470, 8);
    assert_int_equal(world.maps, 2);
    tell(NIGH_OK);
    assert_ended(&first, NIGH_INVALID);
    assert_int_equal(world.maps, 3);
    tell(NIGH_OK);
    assert_ended(&op, NIGH_INVALID);
}

/* A region may have been created, and somebody told so, while the answer that there is none was on
 * its way: who begins behind that finds it. */
static void what_is_created_behind_an_answer_is_found(void **state)
{
    struct region_op first, op, last;

    (void)state;
    begin();
    region_mapping_home(&world.mapping, HOME);
    start(&first, 0, 1);
    tell(NIGH_NOT_FOUND); /* asked for before it began */
    assert_int_equal(world.ends, 0);
    assert_int_equal(world.maps, 2);
    start(&op, 0, 1);
    tell(NIGH_NOT_FOUND);
    assert_ended(&first, NIGH_NOT_FOUND);
    assert_int_equal(world.maps, 3);
    start(&last, 0, 0);
    tell(NIGH_OK);
    assert_ended(&last, NIGH_OK);
    assert_int_equal(world.post_count, 1);
    posted(&op, 0, NIGH_OK);
    assert_ended(&op, NIGH_OK);
    assert_int_equal(world.maps, 3);
}

/* Who opens a region, or looks at it, posts nothing. */
static void an_operation_of_no_length_looks(void **state)
{
    struct region_op op;

    (void)state;
    begin_known();
    start(&op, 0, 0);
    assert_ended(&op, NIGH_OK);
    region_mapping_take(&world.mapping,
                        &(struct region_message){.kind = REGION_CHANGED, .peer = HOME});
    start(&op, 0, 0);
    assert_int_equal(world.ends, 0);
    tell(NIGH_OK);
    assert_ended(&op, NIGH_OK);
    region_mapping_take(&world.mapping,
                        &(struct region_message){.kind = REGION_CHANGED, .peer = HOME});
    start(&op, 0, 0);
    tell(NIGH_NOT_FOUND);
    assert_ended(&op, NIGH_NOT_FOUND);
    assert_int_equal(world.post_count, 0);
}

static void what_was_not_told_yet_waits(void **state)
{
    struct region_op op;

    (void)state;
    begin();
    start(&op, 0, 1);
    assert_int_equal(world.maps, 0); /* the home is not known */
    region_mapping_home(&world.mapping, HOME);
    assert_int_equal(world.maps, 1);
    assert_int_equal(world.post_count, 0);
    tell(NIGH_OK);
    assert_int_equal(world.post_count, 1);
    posted(&op, 0, NIGH_OK);
    assert_ended(&op, NIGH_OK);
}

static void what_was_refused_goes_where_it_is_by_then(void **state)
{
    struct region_descriptor *descriptor = begin_known();
    struct region_op op, other;

    (void)state;
    start(&op, 0, 16384);
    start(&other, 0, 1);
    posted(&op, 1, NIGH_OK);
    posted(&op, 0, NIGH_STALE);
    assert_int_equal(world.maps, 2);
    assert_int_equal(world.post_count, 3);
    posted(&other, 2, NIGH_STALE); /* the same handle: asked for already */
    assert_int_equal(world.maps, 2);
    descriptor->version.counter++;
    descriptor->chunks[0].node = 2;
    descriptor->chunks[0].handle.address = 60;
    tell(NIGH_OK);
    assert_int_equal(world.post_count, 5);
    assert_int_equal(world.posts[3].place.node, 2);
    assert_int_equal(world.posts[3].place.handle.address, 60);
    posted(&op, 3, NIGH_OK);
    assert_ended(&op, NIGH_OK);
    posted(&other, 4, NIGH_OK);
    assert_ended(&other, NIGH_OK);
}

/* What is refused of a handle that is another by now is tried with that one at once. */
static void an_old_refusal_asks_nobody(void **state)
{
    struct region_descriptor *descriptor = begin_known();
    struct region_op op;

    (void)state;
    start(&op, 0, 1);
    descriptor->version.counter++;
    descriptor->chunks[0].handle.address = 60;
    region_mapping_take(&world.mapping,
                        &(struct region_message){.kind = REGION_CHANGED, .peer = HOME});
    tell(NIGH_OK);
    assert_int_equal(world.maps, 2);
    posted(&op, 0, NIGH_STALE);
    assert_int_equal(world.maps, 2);
    assert_int_equal(world.posts[1].place.handle.address, 60);
    posted(&op, 1, NIGH_OK);
    assert_ended(&op, NIGH_OK);
}

static void refused_for_ever_is_busy(void **state)
{
    struct region_op op;

    (void)state;
    begin_known();
    start(&op, 0, 1);
    for (uint32_t n = 0; n < LIMIT_REGION_TRIES; n++) {
        assert_int_equal(world.ends, 0);
        posted(&op, n, NIGH_STALE);
        tell(NIGH_OK);
    }
    assert_ended(&op, NIGH_BUSY);
}

/* More often than one that stands is tried does what it waits for move; but it goes on. */
static void what_goes_on_is_not_busy(void **state)
{
    struct region_descriptor *descriptor = begin_known();
    struct region_op op;

    (void)state;
    start(&op, 0, 24000);
    for (uint32_t done = 1; done <= 2; done++) {
        for (uint32_t n = 1; n < LIMIT_REGION_TRIES; n++) {
            posted(&op, 0, NIGH_STALE);
            descriptor->chunks[0].handle.address += 100;
            descriptor->version.counter++;
            world.post_count = 0;
            tell(NIGH_OK);
            assert_int_equal(world.post_count, 1);
        }
        region_mapping_posted(&world.mapping, &op, done, REGION_NO_WINDOW, NIGH_OK);
    }
    posted(&op, 0, NIGH_OK);
    assert_ended(&op, NIGH_OK);
}

/* All pieces of an operation are refused by one revoke: that is one try. */
static void one_revoke_is_one_try(void **state)
{
    struct region_descriptor *descriptor = begin_known();
    struct region_op op;

    (void)state;
    start(&op, 0, 24000);
    for (uint32_t n = 1; n < LIMIT_REGION_TRIES; n++) {
        for (uint32_t chunk = 0; chunk < 3; chunk++) {
            posted(&op, chunk, NIGH_STALE);
            descriptor->chunks[chunk].handle.address += 100;
        }
        world.post_count = 0;
        descriptor->version.counter++;
        tell(NIGH_OK);
        assert_int_equal(world.post_count, 3);
    }
    for (uint32_t chunk = 0; chunk < 3; chunk++) {
        posted(&op, chunk, NIGH_OK);
    }
    assert_ended(&op, NIGH_OK);
}

static void rights_are_judged_at_each_try(void **state)
{
    struct region_op op;

    (void)state;
    begin_known();
    start(&op, 0, 1);
    posted(&op, 0, NIGH_STALE);
    world.judged = NIGH_DENIED;
    tell(NIGH_OK);
    assert_ended(&op, NIGH_DENIED);
    assert_int_equal(world.post_count, 1);
    start(&op, 0, 1);
    tell(NIGH_OK);
    assert_ended(&op, NIGH_DENIED);
}

static void what_is_posted_comes_back_before_an_end(void **state)
{
    struct region_op op;

    (void)state;
    begin_known();
    start(&op, 0, 16384);
    region_mapping_cancel(&world.mapping, &op, NIGH_TIMEOUT);
    posted(&op, 0, NIGH_OK);
    assert_int_equal(world.ends, 0);
    posted(&op, 1, NIGH_STALE); /* not tried again */
    assert_ended(&op, NIGH_TIMEOUT);
    assert_int_equal(world.post_count, 2);
}

static void what_is_lost_is_said(void **state)
{
    struct region_descriptor *descriptor = begin();
    struct region_op op;

    (void)state;
    region_chunk_lose(&descriptor->chunks[1]);
    descriptor->chunks[2].handle = REGION_NO_WINDOW; /* its holder has no lease */
    region_mapping_home(&world.mapping, HOME);
    tell(NIGH_OK);
    start(&op, 8192, 1);
    assert_ended(&op, NIGH_PEER_LOST);
    start(&op, 16384, 1);
    assert_int_equal(world.post_count, 0);
    region_mapping_cancel(&world.mapping, &op, NIGH_TIMEOUT);
    assert_ended(&op, NIGH_TIMEOUT);
    start(&op, 0, 1);
    posted(&op, 0, NIGH_PEER_LOST);
    assert_ended(&op, NIGH_PEER_LOST);
}

static void say_changed(struct region_descriptor *descriptor)
{
    descriptor->version.counter++;
    region_mapping_take(&world.mapping,
                        &(struct region_message){.kind = REGION_CHANGED, .peer = HOME});
    tell(NIGH_OK);
}

/* Whoever is at a node again may have given its handles anew: the ones of before are not presented,
 * though a home that has not heard of it tells them once more, or later ones. */
static void where_a_life_has_ended_nothing_is_posted(void **state)
{
    struct region_descriptor *descriptor = begin_known();
    struct region_op op, other;

    (void)state;
    world.ended_life = 7;
    region_mapping_dead(&world.mapping, 2);
    assert_int_equal(world.maps, 2);
    start(&op, 8192, 1);
    assert_int_equal(world.post_count, 0);
    tell(NIGH_OK);
    assert_int_equal(world.post_count, 0);
    start(&other, 0, 1); /* at node 1 */
    assert_int_equal(world.post_count, 1);
    posted(&other, 0, NIGH_OK);
    assert_ended(&other, NIGH_OK);
    descriptor->chunks[1].handle.address = 61;
    say_changed(descriptor);
    assert_int_equal(world.post_count, 1);
    descriptor->chunks[1].incarnation = 8; /* another came to be there */
    say_changed(descriptor);
    assert_int_equal(world.post_count, 2);
    assert_int_equal(world.posts[1].place.handle.address, 61);
    posted(&op, 1, NIGH_OK);
    assert_ended(&op, NIGH_OK);
    world.ended_life = 8;
    region_mapping_dead(&world.mapping, 2);
    start(&op, 8192, 1);
    region_chunk_lose(&descriptor->chunks[1]);
    say_changed(descriptor);
    assert_ended(&op, NIGH_PEER_LOST);
    assert_int_equal(world.post_count, 2);
}

/* A home may know before this node does that a holder was started again, and after it. */
static void a_life_ends_alone(void **state)
{
    struct region_descriptor *descriptor = begin_known();
    struct region_op op;
    uint32_t maps;

    (void)state;
    descriptor->chunks[1].incarnation = 8;
    say_changed(descriptor);
    maps = world.maps;
    world.ended_life = 7;
    region_mapping_dead(&world.mapping, 2);
    assert_int_equal(world.maps, maps); /* there is nothing to ask */
    start(&op, 8192, 1);
    assert_int_equal(world.post_count, 1);
    posted(&op, 0, NIGH_OK);
    assert_ended(&op, NIGH_OK);
    descriptor->chunks[0].node = 2; /* what the home does not know to have ended yet */
    descriptor->chunks[0].handle.address = 70;
    say_changed(descriptor);
    start(&op, 0, 1);
    assert_int_equal(world.post_count, 1);
    descriptor->chunks[0].incarnation = 9;
    say_changed(descriptor);
    assert_int_equal(world.post_count, 2);
    posted(&op, 1, NIGH_OK);
    assert_ended(&op, NIGH_OK);
}

static void another_of_the_name_is_not_it(void **state)
{
    struct region_descriptor *descriptor = begin_known();
    struct region_op op, other;

    (void)state;
    start(&op, 0, 1);
    start(&other, 8192, 1);
    posted(&op, 0, NIGH_STALE);
    descriptor->version.counter += 2;
    descriptor->birth.counter += 2;
    tell(NIGH_OK);
    assert_ended(&op, NIGH_NOT_FOUND);
    posted(&other, 1, NIGH_STALE);
    assert_ended(&other, NIGH_NOT_FOUND);
    start(&op, 0, 1);
    assert_ended(&op, NIGH_NOT_FOUND);
}

static void one_cut_otherwise_is_not_it(void **state)
{
    struct region_descriptor *descriptor = begin_known();
    struct region_op op;

    (void)state;
    start(&op, 8192, 1);
    posted(&op, 0, NIGH_STALE);
    descriptor->geometry.chunk_bytes *= 2;
    descriptor->chunk_count = region_geometry_chunks(&descriptor->geometry);
    tell(NIGH_OK);
    assert_ended(&op, NIGH_NOT_FOUND);
}

static void hold(uint32_t peer, uint64_t chunks, uint64_t change)
{
    region_mapping_take(&world.mapping,
                        &(struct region_message){.kind = REGION_HOLD,
                                                 .peer = peer,
                                                 .change = region_fixture_version(change),
                                                 .chunks = {.words = {chunks}}});
    assert_true(region_mapping_is_valid(&world.mapping));
}

static void what_is_held_is_posted_no_more(void **state)
{
    struct region_descriptor *descriptor = begin_known();
    struct region_op op, other;

    (void)state;
    start(&op, 0, 16384); /* chunks 0 and 1 */
    assert_int_equal(world.post_count, 2);
    hold(HOME + 1, 3, 7); /* is nobody's to say */
    hold(HOME, 1, 8);
    start(&other, 0, 20000);
    assert_int_equal(world.post_count, 4); /* but chunk 0 */
    posted(&op, 1, NIGH_OK);
    assert_int_equal(world.holds, 0);
    posted(&op, 0, NIGH_OK);
    assert_int_equal(world.holds, 1);
    assert_int_equal(world.held, 8);
    assert_ended(&op, NIGH_OK);
    posted(&other, 2, NIGH_OK);
    posted(&other, 3, NIGH_OK);
    assert_int_equal(world.holds, 1); /* once */
    assert_int_equal(world.ends, 0);
    region_mapping_take(&world.mapping,
                        &(struct region_message){.kind = REGION_CHANGED, .peer = HOME});
    descriptor->version.counter++;
    tell(NIGH_OK);
    assert_int_equal(world.post_count, 5); /* and goes on */
    posted(&other, 4, NIGH_OK);
    assert_ended(&other, NIGH_OK);
}

/* Whoever is asked and has nothing to wait for says so; of a home before nobody waits any more. */
static void who_has_nothing_posted_stands_still(void **state)
{
    struct region_op op;

    (void)state;
    begin();
    region_mapping_home(&world.mapping, HOME);
    hold(HOME, 1, 5);
    assert_int_equal(world.holds, 1);
    tell(NIGH_OK);
    start(&op, 0, 1);
    hold(HOME, 1, 6);
    assert_int_equal(world.holds, 1);
    region_mapping_home(&world.mapping, HOME + 1);
    posted(&op, 0, NIGH_OK);
    assert_int_equal(world.holds, 1);
    region_mapping_home(&world.mapping, HOME);
    tell(NIGH_NOT_FOUND);
    hold(HOME, 1, 7); /* it is gone, and asked all the same */
    assert_int_equal(world.holds, 2);
}

static void without_a_lease_nobody_is_asked(void **state)
{
    struct region_op op;

    (void)state;
    begin_known();
    region_mapping_lease(&world.mapping, false);
    start(&op, 0, 1); /* goes on with what is known */
    posted(&op, 0, NIGH_STALE);
    assert_ended(&op, NIGH_NO_QUORUM);
    assert_int_equal(world.maps, 1);
    region_mapping_lease(&world.mapping, true);
    assert_int_equal(world.maps, 2);
}

static void only_the_home_is_heard(void **state)
{
    struct region_message message = {
        .kind = REGION_MAPPED, .peer = HOME + 1, .status = NIGH_NOT_FOUND};

    (void)state;
    begin();
    region_mapping_home(&world.mapping, HOME);
    region_mapping_take(&world.mapping, &message);
    assert_false(world.mapping.is_gone);
    tell(NIGH_OK);
    region_mapping_end(&world.mapping);
    assert_int_equal(world.unmaps, 1);
}

/* The answer to a mapping of the name that was here before comes first, and the one to this. */
static void the_last_answer_counts(void **state)
{
    struct region_message message = {.kind = REGION_MAPPED, .peer = HOME, .status = NIGH_NOT_FOUND};

    (void)state;
    begin();
    region_mapping_home(&world.mapping, HOME);
    tell(NIGH_OK);
    region_mapping_take(&world.mapping, &message);
    assert_true(world.mapping.is_gone);
    region_mapping_end(&world.mapping);
    assert_int_equal(world.unmaps, 0); /* its home does not count on it */
}

/* A home says why it has none. */
static void a_home_without_room_is_full(void **state)
{
    struct region_message message = {.kind = REGION_MAPPED, .peer = HOME, .status = NIGH_LIMIT};
    struct region_op op;

    (void)state;
    begin();
    region_mapping_home(&world.mapping, HOME);
    start(&op, 0, 1);
    region_mapping_take(&world.mapping, &message);
    assert_ended(&op, NIGH_LIMIT);
}

static void a_bound_of_operations(void **state)
{
    static struct region_op ops[LIMIT_REGION_OPS + 1];

    (void)state;
    begin();
    for (uint32_t n = 0; n < LIMIT_REGION_OPS; n++) { /* start looks at all of them each time */
        ops[n] = (struct region_op){.length_bytes = 1};
        region_mapping_begin(&world.mapping, &ops[n]);
    }
    start(&ops[LIMIT_REGION_OPS], 0, 1);
    assert_ended(&ops[LIMIT_REGION_OPS], NIGH_OVERLOADED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operation_is_a_piece_a_chunk),
        cmocka_unit_test(what_is_refused_is_asked_for_once_more),
        cmocka_unit_test(an_answer_to_an_earlier_question_is_not_enough),
        cmocka_unit_test(what_is_created_behind_an_answer_is_found),
        cmocka_unit_test(an_operation_of_no_length_looks),
        cmocka_unit_test(what_was_not_told_yet_waits),
        cmocka_unit_test(what_was_refused_goes_where_it_is_by_then),
        cmocka_unit_test(an_old_refusal_asks_nobody),
        cmocka_unit_test(refused_for_ever_is_busy),
        cmocka_unit_test(what_goes_on_is_not_busy),
        cmocka_unit_test(one_revoke_is_one_try),
        cmocka_unit_test(rights_are_judged_at_each_try),
        cmocka_unit_test(what_is_posted_comes_back_before_an_end),
        cmocka_unit_test(what_is_lost_is_said),
        cmocka_unit_test(where_a_life_has_ended_nothing_is_posted),
        cmocka_unit_test(a_life_ends_alone),
        cmocka_unit_test(another_of_the_name_is_not_it),
        cmocka_unit_test(one_cut_otherwise_is_not_it),
        cmocka_unit_test(what_is_held_is_posted_no_more),
        cmocka_unit_test(who_has_nothing_posted_stands_still),
        cmocka_unit_test(without_a_lease_nobody_is_asked),
        cmocka_unit_test(only_the_home_is_heard),
        cmocka_unit_test(the_last_answer_counts),
        cmocka_unit_test(a_home_without_room_is_full),
        cmocka_unit_test(a_bound_of_operations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
