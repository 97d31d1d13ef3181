/* SPDX-License-Identifier: Apache-2.0 */
/* A holder: what it does to memory, in which order, and what it answers. */
#include "region/holder.h"

#include "region_fixture.h"
#include "support/support.h"

#define SELF 2u /* has the chunks of odd numbers */
#define HOME 5u
#define ROOM 4u

static struct {
    struct region_holder holder;
    struct region_slot slots[ROOM];
    struct region_fixture kept, next;
    struct region_holder_act acts[8];
    uint32_t act_count;
    struct region_message said; /* the last */
    struct region_window handles[ROOM];
    uint32_t said_count;
    uint64_t change; /* what is heard is of it */
} world;

static void on_act(void *context, const struct region_holder_act *act)
{
    (void)context;
    assert_true(world.act_count < 8);
    world.acts[world.act_count++] = *act;
}

static void on_send(void *context, const struct region_message *message)
{
    (void)context;
    world.said = *message;
    memcpy(world.handles, message->handles, sizeof(world.handles));
    world.said_count++;
}

static struct region_descriptor *begin(void)
{
    struct region_holder_config config = {.self = SELF,
                                          .room = ROOM,
                                          .slots = world.slots,
                                          .kept = region_fixture_at(&world.kept),
                                          .home = region_fixture_version(0),
                                          .has_lease = true,
                                          .shell = {.act = on_act, .send = on_send}};

    memset(&world, 0, sizeof(world));
    world.change = 2;
    region_holder_init(&world.holder, &config);
    return region_fixture_make(&world.next, 4);
}

static struct region_chunks set_of(uint32_t chunk)
{
    struct region_chunks chunks = {0};

    region_chunks_add(&chunks, chunk);
    return chunks;
}

static void hear(struct region_message message)
{
    message.peer = HOME;
    message.change = region_fixture_version(world.change);
    region_holder_take(&world.holder, &message);
    assert_true(region_holder_is_valid(&world.holder));
}

/* It was told to do this last, and did. */
static void did(enum region_holder_action action, uint32_t chunk, nigh_status status,
                uint64_t handle)
{
    assert_true(world.act_count > 0);
    assert_int_equal(world.acts[world.act_count - 1].action, action);
    assert_int_equal(world.acts[world.act_count - 1].chunk, chunk);
    region_holder_did(&world.holder, chunk, status, (struct region_window){.address = handle});
    assert_true(region_holder_is_valid(&world.holder));
}

static void assert_said(enum region_message_kind of, nigh_status status, uint32_t count)
{
    assert_int_equal(world.said_count, count);
    assert_int_equal(world.said.kind, REGION_DONE);
    assert_int_equal(world.said.of, of);
    assert_int_equal(world.said.status, status);
    assert_int_equal(world.said.peer, HOME);
}

/* It has chunk 1, open under a handle. */
static void make_open(uint64_t handle)
{
    struct region_descriptor *next = begin();

    next->chunks[3].node = 1;
    hear((struct region_message){
        .kind = REGION_PREPARE, .chunks = set_of(1), .geometry = next->geometry});
    did(REGION_ACT_MAKE, 1, NIGH_OK, 0);
    hear((struct region_message){.kind = REGION_COMMIT, .descriptor = next});
    hear((struct region_message){.kind = REGION_THAW, .base = next->version});
    did(REGION_ACT_OPEN, 1, NIGH_OK, handle);
    assert_said(REGION_THAW, NIGH_OK, 3);
    assert_int_equal(world.handles[1].address, handle);
    world.act_count = world.said_count = 0;
    world.change = 3;
}

static void what_is_made_is_open_once_it_thaws(void **state)
{
    (void)state;
    make_open(77);
    assert_true(region_chunks_has(&world.said.chunks, 1));
    assert_false(region_chunks_has(&world.said.chunks, 3));
}

static void chunks_keep_their_size(void **state)
{
    struct region_geometry other = {.size_bytes = 8 * 4096, .chunk_bytes = 4096};
    struct region_descriptor *next;

    (void)state;
    make_open(77);
    hear((struct region_message){
        .kind = REGION_PREPARE, .chunks = set_of(3), .geometry = other, .is_move = true});
    assert_said(REGION_PREPARE, NIGH_BUSY, 1);
    next = region_fixture_make(&world.next, 4);
    next->version.counter = 3;
    next->geometry.chunk_bytes = 4096;
    next->geometry.size_bytes = 4 * 4096;
    hear((struct region_message){.kind = REGION_COMMIT, .descriptor = next});
    assert_said(REGION_COMMIT, NIGH_PROTOCOL, 2);
    assert_int_equal(region_fixture_at(&world.kept)->version.counter, 2);
    hear((struct region_message){.kind = REGION_SETTLE, .descriptor = next});
    assert_said(REGION_SETTLE, NIGH_PROTOCOL, 3);
    assert_int_equal(world.act_count, 0);
}

/* A home that lies, or is in haste: memory is made yet when the chunk is another's already. */
static void what_is_anothers_by_now_is_not_opened(void **state)
{
    struct region_descriptor *next = begin();

    (void)state;
    next->chunks[3].node = 1;
    hear((struct region_message){
        .kind = REGION_PREPARE, .chunks = set_of(1), .geometry = next->geometry});
    hear((struct region_message){.kind = REGION_COMMIT, .descriptor = next});
    hear((struct region_message){.kind = REGION_THAW, .base = next->version});
    world.change = 3;
    next->version.counter = 3;
    next->chunks[1].node = 1;
    hear((struct region_message){.kind = REGION_COMMIT, .descriptor = next});
    did(REGION_ACT_MAKE, 1, NIGH_OK, 0);
    assert_int_equal(world.act_count, 1);
    hear((struct region_message){.kind = REGION_THAW, .base = next->version});
    did(REGION_ACT_CUT, 1, NIGH_OK, 0);
    assert_true(region_holder_is_empty(&world.holder));
}

static void what_cannot_be_made_is_said(void **state)
{
    struct region_descriptor *next = begin();

    (void)state;
    hear((struct region_message){
        .kind = REGION_PREPARE, .chunks = set_of(1), .geometry = next->geometry});
    assert_int_equal(world.acts[0].bytes, 8192);
    did(REGION_ACT_MAKE, 1, NIGH_OUT_OF_MEMORY, 0);
    assert_said(REGION_PREPARE, NIGH_OUT_OF_MEMORY, 1);
    hear((struct region_message){.kind = REGION_THAW});
    assert_said(REGION_THAW, NIGH_OK, 2);
    assert_true(region_holder_is_empty(&world.holder));
}

static void frozen_is_said_when_nothing_can_come_any_more(void **state)
{
    (void)state;
    make_open(77);
    hear((struct region_message){.kind = REGION_FREEZE, .chunks = set_of(1)});
    assert_int_equal(world.said_count, 0);
    assert_int_equal(world.acts[0].handle.address, 77);
    hear((struct region_message){.kind = REGION_FREEZE, .chunks = set_of(1)}); /* once more */
    assert_int_equal(world.act_count, 1);
    did(REGION_ACT_CLOSE, 1, NIGH_OK, 0);
    assert_said(REGION_FREEZE, NIGH_OK, 1);
    hear((struct region_message){.kind = REGION_FREEZE, .chunks = set_of(1)});
    assert_said(REGION_FREEZE, NIGH_OK, 2);
    assert_int_equal(world.handles[1].address, 0);
}

/* What it waits for may never be. */
static void what_opens_is_closed_before_it_is_open(void **state)
{
    (void)state;
    make_open(77);
    hear((struct region_message){.kind = REGION_FREEZE, .chunks = set_of(1)});
    did(REGION_ACT_CLOSE, 1, NIGH_OK, 0);
    hear((struct region_message){.kind = REGION_THAW, .base = region_fixture_version(2)});
    assert_int_equal(world.acts[world.act_count - 1].action, REGION_ACT_OPEN);
    world.change = 4;
    hear((struct region_message){.kind = REGION_FREEZE, .chunks = set_of(1)});
    assert_int_equal(world.said_count, 1); /* the first FREEZE */
    did(REGION_ACT_CLOSE, 1, NIGH_OK, 0);
    assert_said(REGION_FREEZE, NIGH_OK, 2);
    hear((struct region_message){.kind = REGION_THAW, .base = region_fixture_version(2)});
    did(REGION_ACT_OPEN, 1, NIGH_OK, 78);
    assert_said(REGION_THAW, NIGH_OK, 3);
    assert_int_equal(world.handles[1].address, 78);
}

static void what_moves_is_lent_and_then_cut(void **state)
{
    struct region_descriptor *next;

    (void)state;
    make_open(77);
    hear((struct region_message){.kind = REGION_FREEZE, .chunks = set_of(1), .is_move = true});
    did(REGION_ACT_CLOSE, 1, NIGH_OK, 0);
    did(REGION_ACT_LEND, 1, NIGH_OK, 78);
    assert_said(REGION_FREEZE, NIGH_OK, 1);
    assert_int_equal(world.handles[1].address, 78);
    next = region_fixture_make(&world.next, 4);
    next->version.counter = 3;
    next->chunks[1].node = next->chunks[3].node = 1;
    hear((struct region_message){.kind = REGION_COMMIT, .descriptor = next});
    hear((struct region_message){.kind = REGION_THAW, .base = next->version});
    did(REGION_ACT_CLOSE, 1, NIGH_OK, 0);
    assert_said(REGION_THAW, NIGH_OK, 3); /* to give it back may take long */
    assert_false(region_chunks_has(&world.said.chunks, 1));
    assert_false(region_holder_is_empty(&world.holder));
    did(REGION_ACT_CUT, 1, NIGH_OK, 0);
    assert_true(region_holder_is_empty(&world.holder));
}

static void what_comes_is_open_when_it_was_copied(void **state)
{
    struct region_descriptor *next = begin();

    (void)state;
    hear((struct region_message){
        .kind = REGION_PREPARE, .chunks = set_of(1), .is_move = true, .geometry = next->geometry});
    did(REGION_ACT_MAKE, 1, NIGH_OK, 0);
    assert_false(region_chunks_has(&world.said.chunks, 1)); /* not its bytes yet */
    hear((struct region_message){
        .kind = REGION_COPY, .chunks = set_of(1), .source = {.node = 3, .handle = {.address = 9}}});
    assert_int_equal(world.acts[1].source.handle.address, 9);
    assert_int_equal(world.acts[1].bytes, 8192);
    did(REGION_ACT_COPY, 1, NIGH_PEER_LOST, 0);
    assert_said(REGION_COPY, NIGH_PEER_LOST, 2);
    hear((struct region_message){
        .kind = REGION_COPY, .chunks = set_of(1), .source = {.node = 3, .handle = {.address = 9}}});
    did(REGION_ACT_COPY, 1, NIGH_OK, 0);
    assert_said(REGION_COPY, NIGH_OK, 3);
    assert_true(region_chunks_has(&world.said.chunks, 1));
}

/* What lies behind the end of a region that was cut short is not seen again. */
static void what_is_cut_off_is_zeroed(void **state)
{
    struct region_descriptor *next;

    (void)state;
    make_open(77);
    next = region_fixture_make(&world.next, 2); /* 16284 bytes: 8092 of chunk 1 */
    next->geometry.size_bytes = 8192 + 100;
    next->version.counter = 3;
    hear((struct region_message){.kind = REGION_FREEZE, .chunks = set_of(1)});
    did(REGION_ACT_CLOSE, 1, NIGH_OK, 0);
    hear((struct region_message){.kind = REGION_COMMIT, .descriptor = next});
    hear((struct region_message){.kind = REGION_THAW, .base = next->version});
    assert_int_equal(world.acts[1].wipe_from, 100);
    assert_int_equal(world.acts[1].wipe_to, 8192);
    did(REGION_ACT_OPEN, 1, NIGH_OK, 78);
}

/* What was written behind the end that a region had when its chunk was opened, neither. */
static void what_grew_within_a_chunk_is_zeroed_too(void **state)
{
    struct region_descriptor *next = begin();

    (void)state;
    next = region_fixture_make(&world.next, 2);
    next->geometry.size_bytes = 8192 + 100;
    hear((struct region_message){
        .kind = REGION_PREPARE, .chunks = set_of(1), .geometry = next->geometry});
    did(REGION_ACT_MAKE, 1, NIGH_OK, 0);
    hear((struct region_message){.kind = REGION_COMMIT, .descriptor = next});
    hear((struct region_message){.kind = REGION_THAW, .base = next->version});
    did(REGION_ACT_OPEN, 1, NIGH_OK, 77);
    next->geometry.size_bytes = 8192 + 5000;
    next->version.counter = world.change = 3;
    hear((struct region_message){.kind = REGION_COMMIT, .descriptor = next});
    next->geometry.size_bytes = 8192 + 50;
    next->version.counter = world.change = 4;
    hear((struct region_message){.kind = REGION_FREEZE, .chunks = set_of(1)});
    did(REGION_ACT_CLOSE, 1, NIGH_OK, 0);
    hear((struct region_message){.kind = REGION_COMMIT, .descriptor = next});
    hear((struct region_message){.kind = REGION_THAW, .base = next->version});
    assert_int_equal(world.acts[world.act_count - 1].wipe_from, 50);
    assert_int_equal(world.acts[world.act_count - 1].wipe_to, 5000);
}

/* Nor when it grows again before its holder, which has no lease, opens it. */
static void what_is_cut_off_and_grows_is_zeroed(void **state)
{
    struct region_descriptor *next;

    (void)state;
    make_open(77);
    region_holder_lease(&world.holder, false, HOME);
    did(REGION_ACT_CLOSE, 1, NIGH_OK, 0);
    next = region_fixture_make(&world.next, 2);
    for (uint32_t counter = 3; counter <= 4; counter++) {
        next->geometry.size_bytes = counter == 3 ? 8192 + 100 : 8192 + 5000;
        next->version.counter = world.change = counter;
        hear((struct region_message){.kind = REGION_FREEZE, .chunks = set_of(1)});
        hear((struct region_message){.kind = REGION_COMMIT, .descriptor = next});
        hear((struct region_message){.kind = REGION_THAW, .base = next->version});
    }
    region_holder_lease(&world.holder, true, HOME);
    world.change = 5;
    hear((struct region_message){.kind = REGION_SETTLE, .descriptor = next});
    assert_int_equal(world.acts[world.act_count - 1].action, REGION_ACT_OPEN);
    assert_int_equal(world.acts[world.act_count - 1].wipe_from, 100);
    assert_int_equal(world.acts[world.act_count - 1].wipe_to, 8192);
    did(REGION_ACT_OPEN, 1, NIGH_OK, 78);
}

/* A region is freed, and another has its name before its memory is given back. */
static void what_is_made_anew_waits_for_what_was(void **state)
{
    struct region_descriptor *next;

    (void)state;
    make_open(77);
    next = region_fixture_make(&world.next, 4);
    next->version.counter = 3;
    next->flags = REGION_FREED;
    next->chunk_count = 0;
    hear((struct region_message){.kind = REGION_FREEZE, .chunks = set_of(1)});
    did(REGION_ACT_CLOSE, 1, NIGH_OK, 0);
    hear((struct region_message){.kind = REGION_COMMIT, .descriptor = next});
    hear((struct region_message){.kind = REGION_THAW, .base = next->version});
    assert_said(REGION_THAW, NIGH_OK, 3);
    world.change = 4;
    next = region_fixture_make(&world.next, 4);
    hear((struct region_message){
        .kind = REGION_PREPARE, .chunks = set_of(1), .geometry = next->geometry});
    assert_int_equal(world.said_count, 3);
    did(REGION_ACT_CUT, 1, NIGH_OK, 0);
    did(REGION_ACT_MAKE, 1, NIGH_OK, 0);
    assert_said(REGION_PREPARE, NIGH_OK, 4);
    assert_true(region_chunks_has(&world.said.chunks, 1));
    hear((struct region_message){.kind = REGION_THAW}); /* given up: no region was there before */
    assert_said(REGION_THAW, NIGH_OK, 5);
}

static void memory_of_another_change_is_not_what_is_made(void **state)
{
    struct region_descriptor *next = begin();

    (void)state;
    hear((struct region_message){
        .kind = REGION_PREPARE, .chunks = set_of(1), .geometry = next->geometry});
    did(REGION_ACT_MAKE, 1, NIGH_OK, 0);
    world.change = 3;
    hear((struct region_message){
        .kind = REGION_PREPARE, .chunks = set_of(1), .geometry = next->geometry});
    assert_said(REGION_PREPARE, NIGH_BUSY, 2);
    hear((struct region_message){
        .kind = REGION_COPY, .chunks = set_of(1), .source = {.node = 3, .handle = {.address = 9}}});
    assert_said(REGION_COPY, NIGH_BUSY, 3);
    assert_int_equal(world.act_count, 1);
}

static void no_memory_is_given_without_a_lease(void **state)
{
    struct region_descriptor *next = begin();

    (void)state;
    region_holder_lease(&world.holder, false, HOME);
    hear((struct region_message){
        .kind = REGION_PREPARE, .chunks = set_of(1), .geometry = next->geometry});
    assert_said(REGION_PREPARE, NIGH_NO_QUORUM, 1);
    assert_int_equal(world.act_count, 0);
}

/* A round that came late, after a link broke and what was lost was said again. */
static void what_is_late_is_not_new(void **state)
{
    struct region_descriptor *next;

    (void)state;
    make_open(77);
    next = region_fixture_make(&world.next, 4);
    next->version.counter = 3;
    next->chunks[3].node = 1;
    hear((struct region_message){.kind = REGION_FREEZE, .chunks = set_of(1)});
    did(REGION_ACT_CLOSE, 1, NIGH_OK, 0);
    hear((struct region_message){.kind = REGION_COMMIT, .descriptor = next});
    hear((struct region_message){.kind = REGION_THAW, .base = next->version});
    did(REGION_ACT_OPEN, 1, NIGH_OK, 78);
    assert_said(REGION_THAW, NIGH_OK, 3);
    hear((struct region_message){.kind = REGION_FREEZE, .chunks = set_of(1)});
    world.change = 2;
    hear((struct region_message){.kind = REGION_THAW, .base = region_fixture_version(2)});
    assert_int_equal(world.said_count, 3);
    assert_int_equal(world.act_count, 2);
    world.change = 3;
    hear((struct region_message){.kind = REGION_THAW,
                                 .base = next->version}); /* its answer is lost */
    assert_said(REGION_THAW, NIGH_OK, 4);
    assert_int_equal(world.handles[1].address, 78);
}

static void who_keeps_another_descriptor_says_so(void **state)
{
    (void)state;
    make_open(77);
    hear((struct region_message){.kind = REGION_THAW, .base = region_fixture_version(1)});
    assert_said(REGION_THAW, NIGH_STALE, 1);
    assert_int_equal(world.handles[1].address, 77);
    assert_int_equal(world.act_count, 0);
}

static void who_is_not_the_home_is_not_heard(void **state)
{
    struct region_version later = {.epoch = 4, .incarnation = 1};

    (void)state;
    make_open(77);
    region_holder_home(&world.holder, 6, &later);
    assert_int_equal(world.said_count, 1);
    assert_int_equal(world.said.kind, REGION_HELD);
    assert_int_equal(world.said.peer, 6);
    assert_true(region_chunks_has(&world.said.chunks, 1));
    assert_int_equal(world.handles[1].address, 77);
    assert_non_null(world.said.descriptor);
    hear((struct region_message){.kind = REGION_FREEZE, .chunks = set_of(1)});
    assert_int_equal(world.act_count, 0);
    region_holder_home(&world.holder, HOME, &(struct region_version){.epoch = 3});
    assert_int_equal(world.said_count, 1); /* an earlier one is not gone back to */
}

static void settled_by_nothing_is_cut(void **state)
{
    struct region_version later = {.epoch = 4, .incarnation = 1};
    struct region_message settle = {.kind = REGION_SETTLE, .peer = 6, .change = later};

    (void)state;
    make_open(77);
    region_holder_home(&world.holder, 6, &later);
    settle.change.counter = 1;
    region_holder_take(&world.holder, &settle);
    did(REGION_ACT_CLOSE, 1, NIGH_OK, 0);
    did(REGION_ACT_CUT, 1, NIGH_OK, 0);
    assert_int_equal(world.said.of, REGION_SETTLE);
    assert_true(region_holder_is_empty(&world.holder));
    region_holder_home(&world.holder, 6, &later);
    assert_int_equal(world.said_count, 2); /* there is nothing to tell */
}

static void without_a_lease_all_is_frozen(void **state)
{
    struct region_message settle = {
        .kind = REGION_SETTLE, .peer = HOME, .change = region_fixture_version(4)};

    (void)state;
    make_open(77);
    region_holder_lease(&world.holder, false, HOME);
    did(REGION_ACT_CLOSE, 1, NIGH_OK, 0);
    hear((struct region_message){.kind = REGION_THAW, .base = region_fixture_version(2)});
    assert_said(REGION_THAW, NIGH_OK, 1);
    assert_int_equal(world.act_count, 1); /* stays so */
    region_holder_lease(&world.holder, true, HOME);
    assert_int_equal(world.said.kind, REGION_HELD);
    assert_int_equal(world.act_count, 1);
    region_fixture_at(&world.next)->version.counter = 4;
    settle.descriptor = region_fixture_at(&world.next);
    region_holder_take(&world.holder, &settle);
    did(REGION_ACT_OPEN, 1, NIGH_OK, 80);
    assert_said(REGION_SETTLE, NIGH_OK, 3);
    assert_int_equal(world.handles[1].address, 80);
}

static void who_was_dead_has_nothing(void **state)
{
    (void)state;
    make_open(77);
    region_holder_drop(&world.holder);
    did(REGION_ACT_CLOSE, 1, NIGH_OK, 0);
    did(REGION_ACT_CUT, 1, NIGH_OK, 0);
    assert_true(region_holder_is_empty(&world.holder));
    assert_int_equal(world.said_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_made_is_open_once_it_thaws),
        cmocka_unit_test(chunks_keep_their_size),
        cmocka_unit_test(what_is_anothers_by_now_is_not_opened),
        cmocka_unit_test(what_cannot_be_made_is_said),
        cmocka_unit_test(frozen_is_said_when_nothing_can_come_any_more),
        cmocka_unit_test(what_opens_is_closed_before_it_is_open),
        cmocka_unit_test(what_moves_is_lent_and_then_cut),
        cmocka_unit_test(what_comes_is_open_when_it_was_copied),
        cmocka_unit_test(what_is_cut_off_is_zeroed),
        cmocka_unit_test(what_grew_within_a_chunk_is_zeroed_too),
        cmocka_unit_test(what_is_cut_off_and_grows_is_zeroed),
        cmocka_unit_test(what_is_made_anew_waits_for_what_was),
        cmocka_unit_test(memory_of_another_change_is_not_what_is_made),
        cmocka_unit_test(no_memory_is_given_without_a_lease),
        cmocka_unit_test(what_is_late_is_not_new),
        cmocka_unit_test(who_keeps_another_descriptor_says_so),
        cmocka_unit_test(who_is_not_the_home_is_not_heard),
        cmocka_unit_test(settled_by_nothing_is_cut),
        cmocka_unit_test(without_a_lease_all_is_frozen),
        cmocka_unit_test(who_was_dead_has_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
