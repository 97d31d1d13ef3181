/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions as sessions may ask for them (node/lane_region_*.c), of a lane that is alone: what is
 * wrong is refused, handles are their session's, each submission ends once whatever becomes of its
 * session, and random lives leave what was written where it was written, and nothing behind. Some
 * go to what the lane takes for another node: a write that breaks off with its link, and fills
 * whose chunk is elsewhere when part of them has landed.
 */
#include "support/support.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/blake.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "fabric/sim/sim.h"
#include "node/lane_regions.h"
#include "node_echo_store.h"
#include "region/regions_internal.h"
#include "support/links_side.h"

#define SLOTS   4u
#define PLACES  8u /* of LIMIT_CALL_BYTES each, for all sessions */
#define OFFSET  UINT64_C(65536)
#define MOST    (UINT64_C(4) << 20)
#define WAIT_MS 20000
#define FOREVER UINT64_MAX

static struct session_node_page page;
static struct lane *lane;
static struct bulk_memories *bulks;
static struct lane_seat seats[SLOTS];
static bool is_open[SLOTS];
static uint8_t memory[PLACES * LIMIT_CALL_BYTES];
static uint64_t now_us = 1000;

static void no_kick(void *context, uint32_t number)
{
    (void)context;
    (void)number;
}

static void open_session(uint32_t slot)
{
    memset(seats[slot].memory, 0, session_memory_bytes(1));
    assert_int_equal(lane_session_open(lane, &seats[slot]), NIGH_OK);
    is_open[slot] = true;
}

static uint64_t rate_bytes, rate_ops; /* of a session, for the next lane */

static int set_up(void **state)
{
    struct lane_config config = {.lanes = 1,
                                 .max_sessions = SLOTS,
                                 .page = &page,
                                 .region_memory_bytes = MOST,
                                 .session_rate_bytes = rate_bytes,
                                 .session_rate_ops = rate_ops,
                                 .store = {.incarnation = 1}};
    struct bulk_memories_config files = {
        .lanes = 1, .most_bytes = 2 * MOST, .own_uid = 70, .kick = no_kick};

    (void)state;
    assert_int_equal(bulk_memories_create(&files, &bulks), NIGH_OK);
    config.bulks = bulks;
    memset(&page, 0, sizeof(page));
    assert_int_equal(lane_create(&config, &lane), NIGH_OK);
    lane_store(lane)->pools = UINT64_MAX;
    echo_leased = (struct echo_leased){.offset = OFFSET, .bytes = sizeof memory, .at = memory};
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        seats[slot] = (struct lane_seat){.slot = slot,
                                         .session_id = slot + 1,
                                         .uid = 70 + slot / 2,
                                         .gid = 7,
                                         .may_write = true,
                                         .socket_fd = -1};
        seats[slot].memory = mmap(NULL, session_memory_bytes(1), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        open_session(slot);
    }
    return 0;
}

/* This lane, and the node that it takes for another while it posts: of rank 0. */
static struct {
    struct sim *sim;
    struct support_side here, there;
    struct members members;
    const struct members *alone; /* the lane's own */
} linked;

static void (*undo)(void); /* what a test that fails leaves; NULL: nothing */

/* What is under way over it ends. */
static void link_end(void)
{
    links_destroy(linked.here.links);
    lane->config.fabric = linked.here.fabric;
    lane_region_bytes_fini(lane->regions);   /* which are registered there */
    lane_region_buffers_fini(lane->regions); /* likewise: of fills */
    assert_int_equal(lane_region_buffers_init(lane->regions), NIGH_OK);
    lane->config.fabric = NULL;
    fabric_destroy(linked.here.fabric);
    support_side_close(&linked.there);
    sim_destroy(linked.sim);
    linked.sim = NULL;
}

static int tear_down(void **state)
{
    (void)state;
    if (undo != NULL) {
        undo();
    }
    if (linked.sim != NULL) {
        link_end();
    }
    bulk_memories_stop(bulks);
    lane_destroy(lane);
    bulk_memories_destroy(bulks);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        munmap(seats[slot].memory, session_memory_bytes(1));
    }
    return 0;
}

/* ---- rings ---------------------------------------------------------------- */

static struct session_lane *ring_of(uint32_t slot)
{
    return session_lane_of(seats[slot].memory, 0);
}

static uint32_t completed(uint32_t slot)
{
    return atomic_load(&ring_of(slot)->cq_tail.value);
}

static void turn(void)
{
    const struct regions *regions = lane->regions->regions;

    (void)lane_turn(lane, ++now_us);
    /* Of many that takes long: not each time. */
    assert_true((regions_counts(regions)->names > 32 && now_us % 32 != 0) ||
                regions_are_valid(regions));
}

static void put(uint32_t slot, const struct session_sqe *sqe)
{
    struct session_lane *ring = ring_of(slot);
    uint32_t tail = atomic_load(&ring->sq_tail.value);

    atomic_store(&ring->cq_head.value, completed(slot));
    ring->sq[tail % LIMIT_RING_ENTRIES] = *sqe;
    atomic_store(&ring->sq_tail.value, tail + 1);
    atomic_store(session_ready(ring, slot), 1);
}

static void submit(uint32_t slot, const struct session_sqe *sqe)
{
    put(slot, sqe);
    turn();
}

static bool has_ended(uint32_t slot)
{
    turn();
    return completed(slot) == atomic_load(&ring_of(slot)->sq_tail.value);
}

static struct session_cqe last_of(uint32_t slot)
{
    return ring_of(slot)->cq[(completed(slot) - 1) % LIMIT_RING_ENTRIES];
}

static void pass(uint32_t turns)
{
    for (uint32_t n = 0; n < turns; n++) {
        turn();
    }
}

/* Submits one, and waits until all have ended: others may have been left before it. */
static struct session_cqe ask(uint32_t slot, struct session_sqe sqe)
{
    static uint32_t cookies;
    uint32_t at;

    sqe.cookie = ++cookies;
    submit(slot, &sqe);
    assert_true(SUPPORT_WAIT(has_ended(slot), WAIT_MS));
    at = completed(slot);
    do {
        at--;
    } while (ring_of(slot)->cq[at % LIMIT_RING_ENTRIES].cookie != sqe.cookie);
    return ring_of(slot)->cq[at % LIMIT_RING_ENTRIES];
}

static struct session_sqe a_question(enum session_region_what what, uint64_t number,
                                     uint64_t offset, uint64_t count)
{
    struct session_region_id id = {.number = number, .offset = offset};
    struct session_sqe sqe = {.op = SESSION_OP_REGION,
                              .name_size = (uint16_t)what,
                              .offset = OFFSET,
                              .data_size = count,
                              .argument = FOREVER};

    memcpy(sqe.id, &id, LIMIT_ID_BYTES);
    return sqe;
}

static nigh_status create_with(uint32_t slot, const char *name, uint64_t size_bytes, uint32_t flags)
{
    struct session_region_make make = {
        .size_bytes = size_bytes, .where = flags, .group_rights = REGION_READ};

    memcpy(memory, &make, sizeof(make));
    memcpy(memory + sizeof(make), name, strlen(name));
    return ask(slot, a_question(SESSION_REGION_CREATE, 0, 0, sizeof(make) + strlen(name))).status;
}

static nigh_status create(uint32_t slot, const char *name, uint64_t size_bytes)
{
    return create_with(slot, name, size_bytes, 0);
}

static nigh_status open_region(uint32_t slot, const char *name, uint32_t rights, uint64_t *number)
{
    struct session_cqe cqe;

    memcpy(memory, name, strlen(name));
    cqe = ask(slot, a_question(SESSION_REGION_OPEN, 0, rights, strlen(name)));
    *number = cqe.generation;
    return cqe.status;
}

static nigh_status read_some(uint32_t slot, uint64_t number, uint64_t offset, uint64_t count)
{
    struct session_sqe sqe = a_question(SESSION_REGION_READ, number, offset, 0);

    sqe.ref = count;
    return ask(slot, sqe).status;
}

static nigh_status write_some(uint32_t slot, uint64_t number, uint64_t offset, uint64_t count)
{
    return ask(slot, a_question(SESSION_REGION_WRITE, number, offset, count)).status;
}

static struct session_sqe a_fill(uint64_t number, uint64_t offset, uint8_t byte, uint64_t count)
{
    struct session_sqe sqe = a_question(SESSION_REGION_FILL, number, offset, 1);

    memory[0] = byte;
    sqe.ref = count;
    return sqe;
}

static struct session_sqe a_copy(uint64_t to, uint64_t to_offset, uint64_t from,
                                 uint64_t from_offset, uint64_t count)
{
    struct session_region_source source = {.number = from, .offset = from_offset};
    struct session_sqe sqe = a_question(SESSION_REGION_COPY, to, to_offset, sizeof(source));

    memcpy(memory, &source, sizeof(source));
    sqe.ref = count;
    return sqe;
}

static struct session_sqe a_grant(uint64_t handle, uint32_t user, uint32_t give, uint32_t take)
{
    struct session_region_grant grant = {.user = user, .give = give, .take = take};

    memcpy(memory, &grant, sizeof(grant));
    return a_question(SESSION_REGION_GRANT, handle, 0, sizeof(grant));
}

/* ---- what is refused ------------------------------------------------------ */

static void a_handle_is_its_sessions(void **state)
{
    uint64_t mine, other;

    (void)state;
    assert_int_equal(create(0, "r", 5000), NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_ALL, &mine), NIGH_OK);
    assert_int_equal(open_region(2, "r", REGION_WRITE, &other), NIGH_DENIED);
    assert_int_equal(open_region(2, "r", REGION_READ, &other), NIGH_OK);
    assert_int_equal(write_some(0, mine, 0, 8), NIGH_OK);
    assert_int_equal(write_some(2, other, 0, 8), NIGH_DENIED);
    assert_int_equal(read_some(2, other, 4992, 8), NIGH_OK);
    assert_int_equal(read_some(2, other, 4993, 8), NIGH_INVALID);
    assert_int_equal(read_some(1, mine, 0, 8), NIGH_INVALID);
    assert_int_equal(read_some(0, mine + 1, 0, 8), NIGH_INVALID);
    assert_int_equal(read_some(0, mine + (UINT64_C(1) << 32), 0, 8), NIGH_INVALID);
    assert_int_equal(ask(0, a_question(SESSION_REGION_CLOSE, mine, 0, 0)).status, NIGH_OK);
    assert_int_equal(ask(0, a_question(SESSION_REGION_CLOSE, mine, 0, 0)).status, NIGH_INVALID);
    assert_int_equal(read_some(0, mine, 0, 8), NIGH_INVALID);
    assert_int_equal(ask(2, a_question(SESSION_REGION_FREE, other, 0, 0)).status, NIGH_DENIED);
}

static void what_is_wrong_is_refused(void **state)
{
    uint64_t number;
    struct session_sqe sqe;

    (void)state;
    assert_int_equal(create(0, "r", 5000), NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_ALL, &number), NIGH_OK);
#define REFUSED(what, count, change)                        \
    do {                                                    \
        sqe = a_question(what, number, 0, count);           \
        change;                                             \
        assert_int_equal(ask(0, sqe).status, NIGH_INVALID); \
    } while (0)
    REFUSED(0, 0, (void)0);
    REFUSED(SESSION_REGION_WHATS, 0, (void)0);
    REFUSED(SESSION_REGION_WRITE, 0, (void)0);
    REFUSED(SESSION_REGION_WRITE, LIMIT_CALL_BYTES + 1, (void)0);
    REFUSED(SESSION_REGION_WRITE, 8, sqe.offset = 3);
    REFUSED(SESSION_REGION_WRITE, 8, sqe.offset = UINT64_MAX - 4);
    REFUSED(SESSION_REGION_WRITE, 8, sqe.flags = 2);
    REFUSED(SESSION_REGION_WRITE, 8, sqe.flags = SESSION_FLAG_INTO);
    REFUSED(SESSION_REGION_READ, 0, sqe.ref = 0);
    REFUSED(SESSION_REGION_READ, 0, sqe.ref = LIMIT_CALL_BYTES + 1);
    REFUSED(SESSION_REGION_STAT, 0, sqe.flags = SESSION_FLAG_INTO);
    REFUSED(SESSION_REGION_STAT, 0, sqe.offset = OFFSET + sizeof memory - 8);
    REFUSED(SESSION_REGION_ADD, 0, sqe.id[8] = 4);
    REFUSED(SESSION_REGION_SWAP, 4, (void)0);
    REFUSED(SESSION_REGION_GRANT, 15, (void)0);
    REFUSED(SESSION_REGION_RESIZE, 31, (void)0);
    REFUSED(SESSION_REGION_CREATE, 32, (void)0);
    REFUSED(SESSION_REGION_CREATE, 32 + 65, (void)0);
    REFUSED(SESSION_REGION_MOVE, 0, sqe.ref = 1);
    REFUSED(SESSION_REGION_OPEN, 0, sqe.id[8] = 1);
    REFUSED(SESSION_REGION_OPEN, 65, sqe.id[8] = 1);
    REFUSED(SESSION_REGION_OPEN, 1, sqe.id[8] = 8);
#undef REFUSED
    seats[1].may_write = false;
    assert_int_equal(ask(1, a_question(SESSION_REGION_STAT, 0, 0, 0)).status, NIGH_DENIED);
}

static void fills_and_copies_are_judged(void **state)
{
    const uint64_t many = 3 * LIMIT_REGION_COPY_BYTES;
    uint64_t mine, read_only, write_only, other;

    (void)state;
    assert_int_equal(create(0, "r", 2 * many), NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_ALL, &mine), NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_READ, &read_only), NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_WRITE, &write_only), NIGH_OK);
    assert_int_equal(open_region(2, "r", REGION_READ, &other), NIGH_OK);
    assert_int_equal(ask(0, a_fill(read_only, 0, 1, 8)).status, NIGH_DENIED);
    assert_int_equal(ask(0, a_fill(write_only, 0, 1, 8)).status, NIGH_OK);
    assert_int_equal(ask(0, a_fill(mine + 77, 0, 1, 8)).status, NIGH_INVALID);
    assert_int_equal(ask(1, a_fill(mine, 0, 1, 8)).status, NIGH_INVALID);
    assert_int_equal(ask(0, a_fill(mine, 0, 1, 0)).status, NIGH_INVALID);
    assert_int_equal(ask(0, a_fill(mine, 1, 1, 2 * many)).status, NIGH_INVALID);
    assert_int_equal(ask(0, a_fill(mine, 8, 1, UINT64_MAX)).status, NIGH_INVALID);
    for (uint64_t count = 8; count <= many; count += many - 8) { /* of a piece, and of some */
        assert_int_equal(ask(0, a_copy(mine, 0, read_only, 8, count)).status, NIGH_OK);
        assert_int_equal(ask(0, a_copy(write_only, 0, mine, 8, count)).status, NIGH_OK);
        assert_int_equal(ask(0, a_copy(read_only, 0, mine, 8, count)).status, NIGH_DENIED);
        assert_int_equal(ask(0, a_copy(mine, 0, write_only, 8, count)).status, NIGH_DENIED);
        assert_int_equal(ask(0, a_copy(mine + 77, 0, mine, 8, count)).status, NIGH_INVALID);
        assert_int_equal(ask(0, a_copy(mine, 0, mine + 77, 8, count)).status, NIGH_INVALID);
        assert_int_equal(ask(1, a_copy(mine, 0, mine, 8, count)).status, NIGH_INVALID);
        assert_int_equal(ask(2, a_copy(other, 0, other, 8, count)).status, NIGH_DENIED);
        assert_int_equal(ask(0, a_copy(mine, 0, mine, 2 * many - count + 1, count)).status,
                         NIGH_INVALID);
        assert_int_equal(ask(0, a_copy(mine, 2 * many - count + 1, mine, 0, count)).status,
                         NIGH_INVALID);
    }
    assert_int_equal(ask(0, a_copy(mine, 0, mine, 8, 0)).status, NIGH_INVALID);
    assert_int_equal(ask(0, a_copy(mine, 8, mine, 0, UINT64_MAX)).status, NIGH_INVALID);
    assert_int_equal(ask(0, a_copy(mine, 0, mine, UINT64_MAX, 8)).status, NIGH_INVALID);
}

/* What is refused for its end has changed nothing before that. */
static void a_copy_that_does_not_fit_copies_nothing(void **state)
{
    const uint64_t many = 3 * LIMIT_REGION_COPY_BYTES;
    uint64_t from, to;

    (void)state;
    assert_int_equal(create(0, "from", many), NIGH_OK);
    assert_int_equal(create(0, "to", many - 1), NIGH_OK);
    assert_int_equal(open_region(0, "from", REGION_ALL, &from), NIGH_OK);
    assert_int_equal(open_region(0, "to", REGION_ALL, &to), NIGH_OK);
    assert_int_equal(ask(0, a_fill(from, 0, 7, many)).status, NIGH_OK);
    assert_int_equal(ask(0, a_copy(to, 0, from, 0, many)).status, NIGH_INVALID);
    assert_int_equal(read_some(0, to, 0, 8), NIGH_OK);
    assert_int_equal(memory[0], 0);
    assert_int_equal(ask(0, a_copy(to, 0, from, 0, many - 1)).status, NIGH_OK);
    assert_int_equal(read_some(0, to, many - 9, 8), NIGH_OK);
    assert_int_equal(memory[7], 7);
}

/* As many as there may be, of which most have no buffer: all end, in time or with their session,
 * and leave buffers for others. */
static void copies_without_buffers_wait(void **state)
{
    const uint64_t many = MOST / 4;
    struct session_sqe sqe;
    uint64_t number;

    (void)state;
    for (uint32_t way = 0; way < 3; way++) {
        assert_int_equal(way > 0 ? NIGH_OK : create(0, "r", 2 * many), NIGH_OK);
        assert_int_equal(open_region(0, "r", REGION_ALL, &number), NIGH_OK);
        for (uint32_t n = 0; n < 32; n++) {
            sqe = a_copy(number, many, number, 0, many);
            sqe.argument = way == 1 ? 5 : FOREVER;
            put(0, &sqe);
        }
        turn();
        turn();
        if (way == 0) {
            assert_false(turns_are_empty(&lane->regions->copy_turns));
        } else if (way == 1) {
            now_us += 1000;
        } else {
            lane_session_close(lane, 0);
            /* They are its user's until they have ended, and nobody's who comes. */
            assert_int_equal(lane->regions->shares.tables[REGION_TABLE_COPIES].slot_used[0], 0);
            assert_int_equal(lane->regions->shares.tables[REGION_TABLE_COPIES].used, 32);
            open_session(0);
        }
        now_us += LIMIT_REGION_AGAIN_US;
        for (uint32_t n = 0; n < 10000 && !list_empty(&lane->regions->copies); n++) {
            turn();
            now_us += LIMIT_REGION_AGAIN_US;
        }
        assert_int_equal(lane->regions->shares.tables[REGION_TABLE_COPIES].used, 0);
        assert_true(has_ended(0));
    }
    assert_int_equal(lane->regions->free_buffer_count, LIMIT_REGION_BUFFERS);
    assert_int_equal(lane->regions->shares.tables[REGION_TABLE_BUFFERS].used, 0);
}

/* What cannot be made is not there, and takes no room. */
static void memory_has_an_end(void **state)
{
    uint64_t number;

    (void)state;
    assert_int_equal(create(0, "large", MOST + 1), NIGH_OUT_OF_MEMORY);
    assert_int_equal(create(0, "large", MOST), NIGH_OK);
    assert_int_equal(create(0, "more", 1), NIGH_OUT_OF_MEMORY);
    assert_int_equal(open_region(0, "more", REGION_READ, &number), NIGH_NOT_FOUND);
    assert_int_equal(open_region(0, "large", REGION_ALL, &number), NIGH_OK);
    assert_int_equal(ask(0, a_question(SESSION_REGION_FREE, number, 0, 0)).status, NIGH_OK);
    assert_true(SUPPORT_WAIT(create(0, "more", 1) == NIGH_OK, WAIT_MS)); /* it goes in a moment */
}

/* A submission that waits ends when its time is over, and no later. */
static void a_question_ends_in_time(void **state)
{
    struct session_region_make make = {.size_bytes = MOST};
    struct session_sqe sqe = a_question(SESSION_REGION_CREATE, 0, 0, sizeof(make) + 1);

    (void)state;
    memcpy(memory, &make, sizeof(make));
    memory[sizeof(make)] = 'r';
    sqe.argument = 5;
    submit(0, &sqe);
    now_us += 10;
    turn();
    assert_int_equal(completed(0), 1);
    assert_true(SUPPORT_WAIT(create(0, "r", 1) == NIGH_EXISTS, WAIT_MS)); /* it went on */
}

/* What is copied a step a turn goes with its session, and its deadline with it. */
static void a_session_that_ends_leaves_no_deadline(void **state)
{
    struct session_sqe sqe = {
        .op = SESSION_OP_BULK_MAKE, .data_size = MOST, .meta_size = SESSION_MEMORY_READ};
    struct session_bulk part = {.bytes = MOST, .access = SESSION_MEMORY_READ};
    uint64_t number;

    (void)state;
    assert_int_equal(create(0, "r", MOST), NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_ALL, &number), NIGH_OK);
    part.number = ask(0, sqe).generation;
    memcpy(memory, &part, sizeof(part));
    sqe = a_question(SESSION_REGION_WRITE, number, 0, sizeof(part));
    sqe.flags = SESSION_FLAG_INTO;
    assert_int_equal(ask(0, sqe).status, NIGH_OK);
    sqe.argument = 1000;
    submit(0, &sqe);
    assert_int_not_equal(completed(0), atomic_load(&ring_of(0)->sq_tail.value));
    lane_session_close(lane, 0);
    open_session(0);
    now_us += 2000;
    turn();
    assert_int_equal(open_region(0, "r", REGION_ALL, &number), NIGH_OK);
    assert_int_equal(write_some(0, number, 0, 8), NIGH_OK);
}

/* What there is no room for in a turn comes again, though nobody wakes the lane; and at once when
 * there is room. Here: of one more name. */
static void what_is_said_to_oneself_comes_again(void **state)
{
    struct regions *regions = lane->regions->regions;
    struct region other = {.regions = regions, .name_bytes = 1, .name = "s"};
    struct region_descriptor *descriptor = calloc(1, region_descriptor_bytes(1));
    struct region_message message = {.kind = REGION_COMMIT, .descriptor = descriptor};

    (void)state;
    assert_non_null(descriptor);
    assert_int_equal(create(0, "r", 8), NIGH_OK);
    for (uint32_t n = 0; n < 8; n++) {
        turn();
    }
    descriptor->version = message.change =
        (struct region_version){.epoch = 1, .incarnation = 1, .counter = 100};
    descriptor->birth = descriptor->version;
    descriptor->flags = REGION_FREED;
    descriptor->geometry = (struct region_geometry){.size_bytes = 1, .chunk_bytes = 4096};
    descriptor->name_bytes = 1;
    descriptor->name[0] = 's';
    regions->config.names = regions->count;
    regions_say(&other, &message);
    for (uint32_t n = 0; n < 3; n++) {
        turn();
        assert_true(regions_are_short(regions));
        assert_in_range(lane_due_us(lane), 0, now_us + LIMIT_REGION_AGAIN_US);
        now_us = max_u64(now_us, lane_due_us(lane));
    }
    regions->config.names++;
    turn();
    assert_false(regions_are_short(regions));
    assert_non_null(regions_find(regions, "s", 1));
    free(descriptor);
}

/* ---- sharing -------------------------------------------------------------- */

static struct session_sqe a_read(uint64_t number, uint64_t count)
{
    struct session_sqe sqe = a_question(SESSION_REGION_READ, number, 0, 0);

    sqe.ref = count;
    sqe.offset = OFFSET + LIMIT_CALL_BYTES;
    return sqe;
}

/* A neighbour that has as many long operations under way as it can: what they move in one turn of
 * the lane is bounded, and a short read beside them waits for no more than a turn. */
static void a_neighbour_with_long_operations_holds_nobody_up(void **state)
{
    uint64_t mine, others, most = 0;
    struct session_sqe sqe;

    (void)state;
    assert_int_equal(create(0, "r", MOST), NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_ALL, &others), NIGH_OK);
    assert_int_equal(open_region(1, "r", REGION_ALL, &mine), NIGH_OK);
    sqe = a_fill(others, 0, 7, MOST);
    for (uint32_t n = 0; n < 32; n++) {
        put(0, &sqe);
    }
    turn();
    for (uint32_t n = 0; n < 16; n++) {
        uint32_t before = completed(1);

        sqe = a_read(mine, 64);
        put(1, &sqe);
        turn();
        most = max_u64(
            most, lane->regions->peers[lane->regions->ranks].windows[QOS_HIGH].under_way_bytes);
        assert_int_equal(completed(1), before + 1);
    }
    assert_in_range(completed(0), 1, 12); /* of three after its opening: 17 turns, a MiB each */
    assert_in_range(most, LIMIT_QOS_HERE / 2, LIMIT_QOS_HERE);
    assert_true(SUPPORT_WAIT(has_ended(0), WAIT_MS));
}

/* Of two that move as much as they can, of the same length, either has half. */
static void neighbours_share_alike(void **state)
{
    uint64_t numbers[2], fills[2] = {0};
    struct session_sqe sqe;

    (void)state;
    assert_int_equal(create(0, "r", MOST), NIGH_OK);
    for (uint32_t slot = 0; slot < 2; slot++) {
        assert_int_equal(open_region(slot, "r", REGION_ALL, &numbers[slot]), NIGH_OK);
        fills[slot] = completed(slot);
    }
    for (uint32_t slot = 0; slot < 2; slot++) { /* one asks for six times as much at once */
        sqe = a_fill(numbers[slot], 0, 7, MOST);
        for (uint32_t n = 0; n < (slot == 0 ? 60 : 10); n++) {
            put(slot, &sqe);
        }
    }
    while (completed(1) - fills[1] < 10) {
        turn();
    }
    assert_in_range(completed(0) - fills[0], 8, 12);
    assert_true(SUPPORT_WAIT(has_ended(0), WAIT_MS));
}

/* Of low priority, by its handle or by its session, comes last. */
static void low_priority_comes_last(void **state)
{
    uint64_t low, high;
    struct session_sqe sqe;
    uint32_t before;

    (void)state;
    for (uint32_t way = 0; way < 2; way++) {
        seats[0].is_low = way == 1;
        assert_int_equal(way == 0 ? create(0, "r", MOST) : NIGH_OK, NIGH_OK);
        assert_int_equal(
            open_region(0, "r", way == 0 ? REGION_WRITE | SESSION_REGION_LOW : REGION_WRITE, &low),
            NIGH_OK);
        assert_int_equal(open_region(1, "r", REGION_ALL, &high), NIGH_OK);
        before = completed(0);
        sqe = a_fill(low, 0, 7, MOST);
        for (uint32_t n = 0; n < 10; n++) {
            put(0, &sqe);
        }
        sqe = a_fill(high, 0, 9, MOST);
        for (uint32_t n = 0; n < 10; n++) {
            put(1, &sqe);
        }
        for (uint32_t end = completed(1) + 10; completed(1) < end;) {
            turn();
        }
        assert_in_range(completed(0) - before, 0, 2);
        assert_true(SUPPORT_WAIT(has_ended(0), WAIT_MS));
    }
    seats[0].is_low = false;
    assert_int_equal(open_region(1, "r", SESSION_REGION_LOW, &high), NIGH_INVALID);
}

static int set_up_with_rates(void **state)
{
    int result;

    rate_bytes = 1000000;
    rate_ops = 1000;
    result = set_up(state);
    rate_bytes = rate_ops = 0;
    return result;
}

static uint32_t buffers_of(uint32_t slot)
{
    return lane->regions->shares.tables[REGION_TABLE_BUFFERS].slot_used[slot];
}

static void put_copies(uint32_t slot, uint64_t number, uint32_t count, uint64_t bytes)
{
    struct session_sqe sqe = a_copy(number, MOST / 2, number, 0, bytes);

    for (uint32_t n = 0; n < count; n++) {
        put(slot, &sqe);
    }
    turn();
}

/* Of what stands still: one holds its buffers for as long as it likes. Whoever comes has some. */
static void who_copies_leaves_buffers_to_others(void **state)
{
    const uint32_t share = LIMIT_REGION_BUFFERS_OWN + LIMIT_REGION_BUFFERS / 3;
    uint64_t numbers[SLOTS];
    uint32_t before;

    (void)state;
    assert_int_equal(create(0, "r", MOST), NIGH_OK);
    for (uint32_t slot = 0; slot < 2; slot++) {
        assert_int_equal(open_region(slot, "r", REGION_ALL, &numbers[slot]), NIGH_OK);
    }
    put_copies(0, numbers[0], 100, MOST / 2); /* which have had their session's bytes, soon */
    for (uint32_t n = 0; n < 20; n++) {
        turn();
    }
    assert_false(turns_are_empty(&lane->regions->copy_turns));
    assert_int_equal(buffers_of(0), share);
    before = completed(1);
    put_copies(1, numbers[1], 1, 64);
    for (uint32_t n = 0; n < 4; n++) {
        turn();
    }
    assert_int_equal(completed(1), before + 1);
    assert_int_equal(buffers_of(0), share);
}

/* Of three of a user that copy without end each has its own, and a third of what they leave to
 * others, however many copies it has under way. */
static void copies_share_buffers_alike(void **state)
{
    const uint32_t share = LIMIT_REGION_BUFFERS_OWN + LIMIT_REGION_BUFFERS / 7;
    static const uint32_t copies[] = {90, 30, 10};
    uint64_t numbers[SLOTS];
    uint32_t least = UINT32_MAX, most = 0;

    (void)state;
    assert_int_equal(create(0, "r", MOST), NIGH_OK);
    for (uint32_t slot = 0; slot < 3; slot++) {
        seats[slot].uid = 70;
        lane_session_close(lane, slot);
        open_session(slot);
        assert_int_equal(open_region(slot, "r", REGION_ALL, &numbers[slot]), NIGH_OK);
    }
    for (uint32_t slot = 0; slot < 3; slot++) {
        put_copies(slot, numbers[slot], copies[slot], MOST / 2);
    }
    for (uint32_t n = 0; n < 400; n++) {
        turn();
        now_us += LIMIT_REGION_AGAIN_US;
        for (uint32_t slot = 0; slot < 3 && n >= 200; slot++) {
            least = min_u32(least, buffers_of(slot));
            most = max_u32(most, buffers_of(slot));
        }
    }
    print_message("# %u to %u buffers of %u each\n", least, most, LIMIT_REGION_BUFFERS);
    assert_true(least >= share - 4 && most <= share + 4);
}

/* Buffers by hand, until the session has its share: they stand still. */
static struct {
    struct region_copy copies[SLOTS];
    struct region_copy_piece pieces[2 * LIMIT_REGION_BUFFERS];
    uint32_t count;
} hands;

static bool holds_buffer(uint32_t slot)
{
    struct region_copy_piece *piece = &hands.pieces[hands.count];

    hands.copies[slot].slot = slot;
    *piece = (struct region_copy_piece){.copy = &hands.copies[slot]};
    if (hands.count + 1 < ARRAY_LENGTH(hands.pieces) &&
        lane_region_buffer_take(lane->regions, piece)) {
        hands.count++;
        return true;
    }
    return false;
}

static void give_buffers(void)
{
    while (hands.count > 0) {
        lane_region_buffer_give(lane->regions, &hands.pieces[--hands.count]);
    }
    assert_int_equal(lane->regions->shares.tables[REGION_TABLE_BUFFERS].used, 0);
    assert_true(session_shares_are_valid(&lane->regions->shares));
}

/* Sessions that come one after the other, whose copies go on without them: their user has had its
 * share by then, and others copy as ever. */
static void who_comes_again_leaves_buffers_to_others(void **state)
{
    uint64_t number;
    uint32_t before;

    (void)state;
    assert_int_equal(create(3, "r", MOST), NIGH_OK);
    assert_int_equal(open_region(2, "r", REGION_ALL, &number), NIGH_OK); /* of the same user */
    for (uint32_t n = 0; n < 20; n++) {
        for (uint32_t slot = 0; slot < 2; slot++) {
            while (holds_buffer(slot)) {
            }
            lane_session_close(lane, slot);
            open_session(slot);
        }
    }
    assert_in_range(hands.count, LIMIT_REGION_BUFFERS / 2,
                    LIMIT_REGION_BUFFERS / 2 + 4 * LIMIT_REGION_BUFFERS_OWN);
    assert_false(holds_buffer(0));
    before = completed(2);
    put_copies(2, number, 4, MOST / 2);
    assert_int_equal(buffers_of(2), LIMIT_REGION_BUFFERS_OWN + LIMIT_REGION_BUFFERS / 6);
    while (completed(2) < before + 4) {
        turn();
        now_us += LIMIT_REGION_AGAIN_US;
    }
    give_buffers();
}

/* They are made as they are wanted, and what was made for few is not kept. */
static void buffers_are_made_as_they_are_wanted(void **state)
{
    struct lane_regions *at = lane->regions;

    (void)state;
    session_shares_table(&at->shares, REGION_TABLE_BUFFERS, REGION_BUFFERS_MOST, 0);
    assert_true(holds_buffer(0));
    assert_int_equal(at->free_buffer_count, LIMIT_REGION_BUFFERS - 1);
    while (hands.count < LIMIT_REGION_BUFFERS) {
        assert_true(holds_buffer(hands.count % SLOTS));
    }
    assert_int_equal(at->free_buffer_count, 0);
    assert_true(holds_buffer(0));
    assert_int_equal(at->free_buffer_count, LIMIT_REGION_BUFFERS - 1);
    for (uint32_t n = 0; n < hands.count; n++) {
        hands.pieces[n].buffer[LIMIT_REGION_COPY_BYTES - 1] = (uint8_t)n;
    }
    for (uint32_t n = 0; n < hands.count; n++) {
        assert_int_equal(hands.pieces[n].buffer[LIMIT_REGION_COPY_BYTES - 1], (uint8_t)n);
    }
    give_buffers();
    assert_int_equal(at->free_buffer_count, LIMIT_REGION_BUFFERS);
    assert_true(at->buffers[0].bytes != NULL && at->buffers[1].bytes == NULL);
}

/* Of what is common, where there is one left, and sessions' own stand still: by turns, however
 * many copies wait. */
static void one_buffer_goes_round(void **state)
{
    struct lane_regions *at = lane->regions;
    struct session_shares_table *table = &at->shares.tables[REGION_TABLE_BUFFERS];
    static const uint32_t copies[] = {120, 20, 20};
    uint64_t numbers[SLOTS];
    uint32_t before[SLOTS];

    (void)state;
    assert_int_equal(create(0, "r", MOST), NIGH_OK);
    for (uint32_t slot = 0; slot < 3; slot++) {
        seats[slot].uid = 70;
        lane_session_close(lane, slot);
        open_session(slot);
        assert_int_equal(open_region(slot, "r", REGION_ALL, &numbers[slot]), NIGH_OK);
        before[slot] = completed(slot);
    }
    for (uint32_t slot = 0; slot < 3; slot++) {
        assert_true(holds_buffer(slot));
    }
    table->common_used += table->common - 1; /* of others */
    for (uint32_t slot = 0; slot < 3; slot++) {
        put_copies(slot, numbers[slot], copies[slot], 64);
    }
    while (completed(2) - before[2] < 10) {
        turn();
        now_us += LIMIT_REGION_AGAIN_US;
    }
    assert_in_range(completed(0) - before[0], 8, 16);
    assert_in_range(completed(1) - before[1], 8, 16);
    table->common_used -= table->common - 1;
    assert_true(SUPPORT_WAIT((now_us += LIMIT_REGION_AGAIN_US, has_ended(0)), WAIT_MS));
    give_buffers();
}

/* As many copies as a session's ring takes are not all that the lane has. */
static void copies_leave_copies_to_others(void **state)
{
    struct session_shares_table *table = &lane->regions->shares.tables[REGION_TABLE_COPIES];
    uint64_t numbers[2];

    (void)state;
    assert_int_equal(create(0, "r", MOST), NIGH_OK);
    for (uint32_t slot = 0; slot < 2; slot++) {
        assert_int_equal(open_region(slot, "r", REGION_ALL, &numbers[slot]), NIGH_OK);
    }
    table->common_used += table->common - 48; /* of others */
    put_copies(0, numbers[0], 64, MOST / 2);
    assert_int_equal(table->slot_used[0], LIMIT_REGION_COPIES_OWN + 48 / 3);
    put_copies(1, numbers[1], 1, MOST / 2);
    assert_int_equal(table->slot_used[1], 1);
    table->common_used -= table->common - 48;
}

/* ---- fills ---------------------------------------------------------------- */

static nigh_status no_memory(struct fabric *fabric, void *address, uint64_t bytes,
                             enum fabric_kind kind, uint32_t rights, struct fabric_memory **made)
{
    (void)address;
    (void)bytes;
    (void)kind;
    (void)rights;
    *made = NULL;
    return fabric->registrations < REGION_FILLS ? NIGH_OK : NIGH_LIMIT;
}

/* Of each byte, by any number at once, to other nodes: none waits for a buffer, and what it is of
 * stays as it is. */
static void fills_wait_for_no_buffer(void **state)
{
    static const struct fabric_provider provider = {.memory_register = no_memory};
    struct lane_regions *at = lane->regions;
    struct fabric fabric = {.provider = &provider};
    struct fabric_slice slices[2 * REGION_FILLS];
    uint64_t number;

    (void)state;
    assert_int_equal(create(0, "r", MOST), NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_ALL, &number), NIGH_OK);
    lane->config.fabric = &fabric;
    for (uint32_t n = 0; n < ARRAY_LENGTH(slices); n++) {
        struct region_io io = {.what = SESSION_REGION_FILL,
                               .operand = n,
                               .op.region = regions_find(at->regions, "r", 1)};
        struct region_part part = {
            .io = &io, .post.piece.length_bytes = MOST, .piece_bytes = LIMIT_REGION_COPY_BYTES};

        assert_int_equal(lane_region_slice(at, &part, &slices[n]), NIGH_OK);
        assert_int_equal(slices[n].bytes, LIMIT_REGION_COPY_BYTES);
    }
    lane->config.fabric = NULL;
    for (uint32_t n = 0; n < ARRAY_LENGTH(slices); n++) {
        const uint8_t *bytes = slices[n].address;

        assert_true(bytes[0] == (uint8_t)n && bytes[LIMIT_REGION_COPY_BYTES - 1] == (uint8_t)n);
    }
}

/* Ends of one thing in a thousand turns, when so many are asked for at a time. */
static uint32_t ends_in(uint32_t slot, const struct session_sqe *sqe, uint32_t at_once,
                        uint64_t turn_us)
{
    uint32_t begun = completed(slot), asked = begun;

    for (uint64_t end_us = now_us + 1000 * turn_us; now_us < end_us; now_us += turn_us - 1) {
        for (; asked - completed(slot) < at_once; asked++) {
            put(slot, sqe);
        }
        turn();
    }
    asked = completed(slot) - begun;
    assert_true(SUPPORT_WAIT((now_us += 1000, has_ended(slot)), WAIT_MS));
    return asked;
}

static uint32_t reads_in_a_second(uint32_t slot, uint64_t number, uint64_t bytes)
{
    struct session_sqe sqe = a_read(number, bytes);

    return ends_in(slot, &sqe, 32, 1000);
}

static void a_session_has_no_more_than_its_rates(void **state)
{
    uint64_t number, other;
    uint32_t count;
    struct session_sqe sqe;

    (void)state;
    assert_int_equal(create(0, "r", MOST), NIGH_OK);
    now_us += 1000000;
    assert_int_equal(open_region(0, "r", REGION_ALL, &number), NIGH_OK);
    count = reads_in_a_second(0, number, 8); /* a thousand, and what ten milliseconds bring */
    assert_in_range(count, 950, 1020);
    now_us += 1000000;
    count = reads_in_a_second(0, number, 8000); /* 125, likewise */
    assert_in_range(count, 120, 130);
    assert_true(lane->regions->counts.operations_held > 0);
    /* It is for itself that one waits: */
    assert_int_equal(open_region(1, "r", REGION_ALL, &other), NIGH_OK);
    now_us += 1000000;
    sqe = a_fill(number, 0, 7, MOST); /* four seconds' worth */
    assert_int_equal(ask(0, sqe).status, NIGH_OK);
    sqe = a_read(number, 8);
    sqe.argument = 100000;
    submit(0, &sqe);
    assert_int_equal(read_some(1, other, 0, 8), NIGH_OK);
    assert_false(has_ended(0));
    now_us += 200000; /* nor is it refused: its time is over */
    assert_true(has_ended(0));
    assert_int_equal(ring_of(0)->cq[(completed(0) - 1) % LIMIT_RING_ENTRIES].status, NIGH_TIMEOUT);
    now_us += 4000000;
    assert_int_equal(read_some(0, number, 0, 8), NIGH_OK);
}

static void changes_and_lists_are_operations(void **state)
{
    uint64_t number;
    struct session_sqe sqe;
    uint32_t count;

    (void)state;
    assert_int_equal(create(0, "r", MOST), NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_ALL, &number), NIGH_OK);
    now_us += 1000000;
    sqe = a_grant(number, 12345, REGION_READ, 0);
    count = ends_in(0, &sqe, 4, 100); /* in a tenth of a second: a hundred, and ten at once */
    assert_in_range(count, 95, 115);
    /* Of one that has no handle, too. */
    assert_null(lane_region_handles(lane->regions, 1));
    sqe = a_question(SESSION_REGION_LIST, 0, 0, 0);
    count = ends_in(1, &sqe, LIMIT_REGION_LISTS_EACH, 1000);
    assert_in_range(count, 950, 1020);
}

/* Changes and lists that are not begun end in time, are cancelled, and go with their session; what
 * was to be created is not. */
static void what_is_held_of_no_handle_goes_with_its_session(void **state)
{
    const uint32_t cookies[] = {4711, 4712, 4713};
    uint64_t number, none;
    struct session_sqe sqe;

    (void)state;
    assert_int_equal(create(0, "r", MOST), NIGH_OK);
    for (uint32_t way = 0; way < 4; way++) {
        struct session_region_make make = {.size_bytes = 4096};

        now_us += 10000000;
        assert_int_equal(open_region(0, "r", REGION_ALL, &number), NIGH_OK);
        assert_int_equal(ask(0, a_fill(number, 0, 7, MOST)).status, NIGH_OK); /* four seconds' */
        for (uint32_t n = 0; n < 3; n++) {
            sqe = n == 0   ? a_grant(number, 12345, REGION_READ, 0)
                  : n == 1 ? a_question(SESSION_REGION_LIST, 0, 0, 0)
                           : a_question(SESSION_REGION_CREATE, 0, 0, sizeof(make) + 4);
            if (n == 2) {
                memcpy(memory, &make, sizeof(make));
                memcpy(memory + sizeof(make), "held", 4);
            }
            sqe.cookie = cookies[n];
            sqe.argument = way == 0 ? 100000 : FOREVER;
            submit(0, &sqe);
        }
        turn();
        assert_false(list_empty(&lane->regions->limited));
        assert_int_equal(lane->regions->asked_count, 2);
        assert_int_equal(lane->regions->list_count, 1);
        if (way == 0) {
            now_us += 200000;
            assert_true(has_ended(0));
            for (uint32_t n = 1; n <= 3; n++) {
                assert_int_equal(ring_of(0)->cq[(completed(0) - n) % LIMIT_RING_ENTRIES].status,
                                 NIGH_TIMEOUT);
            }
        } else if (way == 1) {
            for (uint32_t n = 0; n < 3; n++) {
                struct session_sqe cancel = {.op = SESSION_OP_CANCEL, .argument = cookies[n]};

                submit(0, &cancel);
            }
            assert_true(has_ended(0));
        } else if (way == 2) {
            lane_session_rest(lane, 0);
            assert_int_equal(lane_session_reset(lane, &seats[0]), NIGH_OK);
        } else {
            lane_session_close(lane, 0);
            open_session(0);
        }
        assert_true(list_empty(&lane->regions->limited));
        assert_int_equal(lane->regions->asked_count, 0);
        assert_int_equal(lane->regions->list_count, 0);
        assert_int_equal(open_region(1, "held", REGION_READ, &none), NIGH_NOT_FOUND);
    }
}

/* What is held ends with its handle, and with its session. */
static void what_is_held_goes_with_its_session(void **state)
{
    uint64_t number;
    struct session_sqe sqe;

    (void)state;
    assert_int_equal(create(0, "r", MOST), NIGH_OK);
    for (uint32_t way = 0; way < 4; way++) {
        now_us += 10000000;
        assert_int_equal(open_region(0, "r", REGION_ALL, &number), NIGH_OK);
        assert_int_equal(ask(0, a_fill(number, 0, 7, MOST)).status, NIGH_OK);
        sqe = a_read(number, 8);
        sqe.cookie = 4711;
        submit(0, &sqe);
        sqe = a_copy(number, 0, number, 100000, 100000);
        submit(0, &sqe);
        assert_false(list_empty(&lane->regions->limited));
        if (way == 0) {
            assert_int_equal(ask(0, a_question(SESSION_REGION_CLOSE, number, 0, 0)).status,
                             NIGH_OK);
        } else if (way == 1) {
            struct session_sqe cancel = {.op = SESSION_OP_CANCEL, .argument = 4711};

            submit(0, &cancel);
            assert_false(list_empty(&lane->regions->limited)); /* the copy's */
            lane_session_rest(lane, 0);
            assert_int_equal(lane_session_reset(lane, &seats[0]), NIGH_OK);
        } else {
            lane_session_close(lane, 0);
            open_session(0);
        }
        assert_true(list_empty(&lane->regions->limited));
        turn();
        assert_int_equal(lane->regions->shares.tables[REGION_TABLE_IOS].used, 0);
        assert_true(list_empty(&lane->regions->copies));
    }
}

/* ---- mapped --------------------------------------------------------------- */

#define PIECE UINT64_C(8192)

static struct session_cqe map(uint32_t slot, uint64_t handle, uint64_t count, uint32_t flags)
{
    struct session_sqe sqe = a_question(SESSION_REGION_MAP, handle, 0, 0);

    sqe.ref = count;
    sqe.flags = (uint8_t)flags;
    return ask(slot, sqe);
}

static uint64_t map_number(uint32_t slot, uint64_t handle, uint32_t flags)
{
    struct session_cqe cqe = map(slot, handle, 8, flags);

    assert_int_equal(cqe.status, NIGH_OK);
    assert_int_equal(cqe.flags, SESSION_CQE_MAPPED);
    return cqe.generation;
}

static nigh_status unmap(uint32_t slot, uint64_t number)
{
    return ask(slot, a_question(SESSION_REGION_UNMAP, number, 0, 0)).status;
}

/* The bytes, as a client maps them. */
static uint8_t *bytes_of(uint32_t slot, uint64_t number, uint64_t count, bool writes)
{
    uint8_t *at;
    int fd = -1;

    assert_int_equal(lane_region_map_open(lane, slot, number, &fd), NIGH_OK);
    at = mmap(NULL, count, PROT_READ | (writes ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    if (!writes) {
        assert_ptr_equal(mmap(NULL, count, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    }
    close(fd);
    return at;
}

static uint8_t read_byte(uint32_t slot, uint64_t handle)
{
    assert_int_equal(read_some(slot, handle, 0, 1), NIGH_OK);
    return memory[0];
}

static void write_byte(uint32_t slot, uint64_t handle, uint8_t byte)
{
    memory[0] = byte;
    assert_int_equal(write_some(slot, handle, 0, 1), NIGH_OK);
}

/* A region of uid 70 (slots 0 and 1), open in slot 0, that uid 71 (slots 2 and 3) may write. */
static uint64_t shared_with_another(uint64_t size_bytes, uint64_t *others)
{
    uint64_t mine;

    assert_int_equal(create_with(0, "r", size_bytes, SESSION_REGION_MAPPABLE), NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_ALL, &mine), NIGH_OK);
    assert_int_equal(ask(0, a_grant(mine, 71, REGION_READ | REGION_WRITE, 0)).status, NIGH_OK);
    assert_int_equal(open_region(2, "r", REGION_READ | REGION_WRITE, others), NIGH_OK);
    return mine;
}

/* ---- what other nodes ask, and bring -------------------------------------- */

#define BROUGHT 5u

/* What opens the one chunk of "r" now, as its mappers know it. */
static struct region_spot a_spot(const struct region *region, uint64_t offset_bytes)
{
    struct region_place place;
    struct region_spot spot = {.offset_bytes = offset_bytes, .name_bytes = 1, .name = "r"};

    assert_true(SUPPORT_WAIT((turn(), region_place(region, 0, &place)), WAIT_MS));
    spot.handle = place.handle;
    return spot;
}

static nigh_status bring(const struct region_spot *to, uint8_t byte)
{
    uint8_t bytes[REGION_PUT_HEAD_BYTES + BROUGHT];
    size_t head = region_put_encode(to, bytes);

    memset(bytes + head, byte, BROUGHT);
    return lane_region_put_here(lane->regions, bytes, head + BROUGHT);
}

static nigh_status push(const struct region_spot *from, const struct region_spot *to)
{
    struct region_push asked = {.from = *from, .to = *to, .bytes = BROUGHT};

    return lane_region_push_here(lane->regions, &asked);
}

/* By the handle that a chunk had before a revoke nothing lands in it, and nothing leaves it; nor by
 * one that it never had, nor behind its memory. */
static void what_is_brought_needs_a_handle(void **state)
{
    uint64_t mine, others;
    struct region_spot before, now, wrong, behind;
    const struct region *region;

    (void)state;
    mine = shared_with_another(LIMIT_REGION_UNIT_BYTES, &others);
    region = regions_look(lane->regions->regions, "r", 1);
    assert_non_null(region);
    before = a_spot(region, 0);
    assert_int_equal(bring(&before, 7), NIGH_OK);
    assert_int_equal(read_byte(0, mine), 7);
    assert_int_equal(push(&before, &before), NIGH_OK);
    assert_int_equal(ask(0, a_grant(mine, 71, 0, REGION_WRITE)).status, NIGH_OK);
    now = a_spot(region, 0);
    assert_false(region_window_equal(now.handle, before.handle));
    assert_int_equal(bring(&before, 8), NIGH_STALE);
    assert_int_equal(read_byte(0, mine), 7);
    assert_int_equal(push(&before, &now), NIGH_ELSEWHERE);
    assert_int_equal(push(&now, &before), NIGH_STALE);
    wrong = behind = now;
    wrong.handle.key++;
    assert_int_equal(bring(&wrong, 9), NIGH_STALE);
    wrong = now;
    wrong.chunk = 1;
    assert_int_equal(bring(&wrong, 9), NIGH_STALE);
    wrong = now;
    wrong.name[0] = 's';
    assert_int_equal(bring(&wrong, 9), NIGH_STALE);
    behind.offset_bytes = LIMIT_REGION_UNIT_BYTES - BROUGHT + 1;
    assert_int_equal(bring(&behind, 9), NIGH_STALE);
    assert_int_equal(push(&behind, &now), NIGH_ELSEWHERE);
    behind.offset_bytes--;
    assert_int_equal(bring(&behind, 9), NIGH_OK);
    assert_int_equal(push(&now, &behind), NIGH_OK);
    assert_int_equal(read_byte(0, mine), 7);
}

/* ---- what sessions are told ----------------------------------------------- */

static uint32_t told(uint32_t slot)
{
    return atomic_load(&ring_of(slot)->event_tail.value);
}

static struct session_event last_told(uint32_t slot)
{
    return ring_of(slot)->events[(told(slot) - 1) % LIMIT_EVENT_ENTRIES];
}

static bool is_told(uint32_t slot, uint32_t count)
{
    turn();
    return told(slot) == count;
}

/* Of what it has open alone, once each, and only who asked for it; nothing is asked for it. */
static void who_has_it_open_is_told(void **state)
{
    const struct session_region_make smaller = {.size_bytes = LIMIT_REGION_UNIT_BYTES};
    uint64_t mine, others, again;
    struct session_event event;
    uint8_t id[20];
    uint32_t before[SLOTS], resize;

    (void)state;
    echo_hears_regions = 1u << 0 | 1u << 2;
    mine = shared_with_another(4 * LIMIT_REGION_UNIT_BYTES, &others);
    assert_int_equal(open_region(2, "r", REGION_READ, &again), NIGH_OK);
    assert_int_equal(open_region(3, "r", REGION_READ | REGION_WRITE, &again), NIGH_OK);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        before[slot] = told(slot);
    assert_int_equal(ask(0, a_grant(mine, 71, 0, REGION_WRITE)).status, NIGH_OK);
    assert_true(SUPPORT_WAIT(is_told(2, before[2] + 1), WAIT_MS));
    event = last_told(2);
    assert_int_equal(event.kind_meta, NIGH_EVENT_REGION_REVOKED | REGION_READ << 8);
    assert_int_equal(event.data_size, others);
    blake_id20("r", 1, id);
    assert_memory_equal(event.id, id, sizeof id);
    resize = told(0);
    memcpy(memory, &smaller, sizeof(smaller));
    assert_int_equal(ask(0, a_question(SESSION_REGION_RESIZE, mine, 0, sizeof(smaller))).status,
                     NIGH_OK);
    assert_true(SUPPORT_WAIT(is_told(2, before[2] + 3), WAIT_MS));
    assert_int_equal(last_told(2).kind_meta, NIGH_EVENT_REGION_RESIZED);
    assert_true(SUPPORT_WAIT(is_told(0, resize + 1), WAIT_MS));
    assert_int_equal(ask(0, a_question(SESSION_REGION_FREE, mine, 0, 0)).status, NIGH_OK);
    assert_true(SUPPORT_WAIT(is_told(2, before[2] + 5), WAIT_MS));
    assert_int_equal(last_told(2).kind_meta, NIGH_EVENT_REGION_FREED);
    assert_true(SUPPORT_WAIT(is_told(0, resize + 2), WAIT_MS));
    for (uint32_t n = 0; n < 100; n++)
        turn();
    assert_int_equal(told(2), before[2] + 5); /* both of its handles: freed, and resized */
    assert_int_equal(told(0), resize + 2);
    assert_int_equal(told(1), before[1]);
    assert_int_equal(told(3), before[3]);
    echo_hears_regions = 0;
}

/* What the region is like is no secret from who had it open. */
static void who_has_no_right_left_looks_at_it_still(void **state)
{
    const struct session_region_grant group = {.whose = 1, .take = REGION_READ};
    uint64_t mine, others, again;

    (void)state;
    mine = shared_with_another(LIMIT_REGION_UNIT_BYTES, &others);
    memcpy(memory, &group, sizeof(group));
    assert_int_equal(ask(0, a_question(SESSION_REGION_GRANT, mine, 0, sizeof(group))).status,
                     NIGH_OK);
    assert_int_equal(ask(0, a_grant(mine, 71, 0, REGION_READ | REGION_WRITE)).status, NIGH_OK);
    assert_int_equal(read_some(2, others, 0, 8), NIGH_DENIED);
    assert_int_equal(ask(2, a_question(SESSION_REGION_STAT, others, 0, 0)).status, NIGH_OK);
    assert_int_equal(open_region(2, "r", REGION_READ, &again), NIGH_DENIED);
}

/* Its home takes nobody more. */
static void home_is_full(const char *name)
{
    struct region_mapping *mapping = regions_find(lane->regions->regions, name, 1)->mapping;

    region_mapping_take(mapping, &(struct region_message){.kind = REGION_MAPPED,
                                                          .peer = mapping->home,
                                                          .status = NIGH_LIMIT});
}

/* A home that cannot tell of a region has not freed it; what it does then is told when it can. */
static void a_home_that_is_full_frees_nothing(void **state)
{
    uint32_t before = told(0);
    uint64_t handle;

    (void)state;
    echo_hears_regions = 1;
    assert_int_equal(create(0, "r", 4096), NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_ALL, &handle), NIGH_OK);
    home_is_full("r");
    pass(10);
    assert_int_equal(told(0), before);
    assert_int_equal(write_some(0, handle, 0, 8), NIGH_OK);
    pass(10);
    assert_int_equal(told(0), before);
    home_is_full("r");
    assert_int_equal(ask(0, a_question(SESSION_REGION_FREE, handle, 0, 0)).status, NIGH_OK);
    assert_int_equal(write_some(0, handle, 0, 8), NIGH_NOT_FOUND);
    assert_true(SUPPORT_WAIT(is_told(0, before + 1), WAIT_MS));
    assert_int_equal(last_told(0).kind_meta, NIGH_EVENT_REGION_FREED);
    echo_hears_regions = 0;
}

static uint32_t tells_some(uint32_t slot)
{
    uint32_t before = told(slot);

    turn();
    assert_in_range(told(slot) - before, 0, LIMIT_REGION_NEWS);
    return told(slot);
}

/* As many handles as a turn does not pass: the lane goes on, and all are told in the end. */
static void many_are_told_in_turns(void **state)
{
    const uint32_t count = 4 * LIMIT_REGION_NEWS;
    struct session_sqe sqe;
    uint64_t mine, number;

    (void)state;
    echo_hears_regions = 1u << 1;
    assert_int_equal(create(0, "r", 5000), NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_ALL, &mine), NIGH_OK);
    for (uint32_t n = 0; n < count; n++)
        assert_int_equal(open_region(1, "r", REGION_READ, &number), NIGH_OK);
    sqe = a_question(SESSION_REGION_FREE, mine, 0, 0);
    put(0, &sqe);
    assert_true(SUPPORT_WAIT(tells_some(1) == count, WAIT_MS));
    assert_true(SUPPORT_WAIT(has_ended(0), WAIT_MS));
    assert_true(list_empty(&lane->regions->news));
    echo_hears_regions = 0;
}

/* ---- memory that sessions donate ------------------------------------------ */

#define GIFT (4 * LIMIT_REGION_UNIT_BYTES)

static int a_gift(uint8_t **at)
{
    int fd = memfd_create("gift", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_int_equal(ftruncate(fd, (off_t)GIFT), 0);
    *at = mmap(NULL, GIFT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(*at, MAP_FAILED);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    return fd;
}

/* The node closes what it takes. */
static nigh_status donate(uint32_t slot, int fd, uint64_t *number)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    nigh_status status = lane_region_donate(lane, slot, copy, GIFT, number);

    if (status != NIGH_OK)
        assert_int_equal(close(copy), 0);
    return status;
}

static uint64_t donated(uint32_t slot, int fd)
{
    uint64_t number = 0;

    assert_int_equal(donate(slot, fd, &number), NIGH_OK);
    return number;
}

static struct session_sqe a_creation(const char *name, uint64_t size_bytes, uint64_t which,
                                     uint32_t where)
{
    struct session_region_make make = {
        .size_bytes = size_bytes, .chunk_bytes = which, .where = where};

    memcpy(memory, &make, sizeof(make));
    memcpy(memory + sizeof(make), name, strlen(name));
    return a_question(SESSION_REGION_CREATE, 0, 0, sizeof(make) + strlen(name));
}

static nigh_status create_of(uint32_t slot, const char *name, uint64_t size_bytes, uint64_t which)
{
    return ask(slot, a_creation(name, size_bytes, which, SESSION_REGION_DONATED)).status;
}

static bool has_memory(uint64_t bytes)
{
    turn();
    return region_memories_bytes(lane->regions->memories) == bytes;
}

static void a_donation_is_its_sessions_and_is_used_once(void **state)
{
    uint64_t number, handle;
    uint8_t *at;
    int fd = a_gift(&at);

    (void)state;
    at[0] = 42;
    number = donated(0, fd);
    assert_true(has_memory(GIFT));
    assert_int_equal(create_of(1, "r", GIFT, number), NIGH_CLOSED);
    assert_int_equal(create_of(2, "r", GIFT, number), NIGH_CLOSED);
    for (uint32_t bit = 0; bit < 64; bit++) {
        assert_int_equal(create_of(0, "r", GIFT, number ^ UINT64_C(1) << bit), NIGH_CLOSED);
    }
    assert_int_equal(create_of(0, "r", GIFT, number), NIGH_OK);
    assert_int_equal(create_of(0, "s", GIFT, number), NIGH_CLOSED);
    assert_int_equal(open_region(0, "r", REGION_ALL, &handle), NIGH_OK);
    assert_int_equal(read_byte(0, handle), 42);
    write_byte(0, handle, 43);
    assert_int_equal(at[0], 43);
    assert_int_equal(map(0, handle, 8, 0).status, NIGH_UNSUPPORTED);
    lane_session_close(lane, 0);
    open_session(0);
    assert_int_equal(open_region(0, "r", REGION_ALL, &handle), NIGH_OK);
    assert_int_equal(read_byte(0, handle), 43); /* it is a region, whoever's it was */
    assert_int_equal(ask(0, a_question(SESSION_REGION_FREE, handle, 0, 0)).status, NIGH_OK);
    assert_true(SUPPORT_WAIT(has_memory(0), WAIT_MS));
    assert_int_equal(at[0], 43);
    munmap(at, GIFT);
    close(fd);
}

/* Whatever becomes of the question: the offer is over with it. */
static void a_donation_goes_with_the_question(void **state)
{
    static const struct {
        const char *name;
        uint64_t size_bytes;
        uint32_t where;
        nigh_status status;
    } wrong[] = {
        {"there", GIFT, SESSION_REGION_DONATED, NIGH_EXISTS},
        {"r", GIFT - 1, SESSION_REGION_DONATED, NIGH_INVALID},
        {"r", 2 * GIFT, SESSION_REGION_DONATED, NIGH_INVALID},
        {"r", GIFT, SESSION_REGION_DONATED | SESSION_REGION_MAPPABLE, NIGH_INVALID},
        {"r", GIFT, SESSION_REGION_DONATED | SESSION_REGION_SPREAD, NIGH_INVALID},
        {"r", GIFT, SESSION_REGION_DONATED | SESSION_REGION_ON, NIGH_INVALID},
    };
    uint64_t number;
    uint8_t *at;
    int fd = a_gift(&at);

    (void)state;
    assert_int_equal(create(0, "there", PIECE), NIGH_OK);
    for (uint32_t n = 0; n < sizeof wrong / sizeof wrong[0]; n++) {
        number = donated(0, fd);
        assert_int_equal(
            ask(0, a_creation(wrong[n].name, wrong[n].size_bytes, number, wrong[n].where)).status,
            wrong[n].status);
        assert_true(SUPPORT_WAIT(has_memory(PIECE), WAIT_MS));
        assert_int_equal(create_of(0, "r", GIFT, number), NIGH_CLOSED);
    }
    munmap(at, GIFT);
    close(fd);
}

/* A session that ends at any moment: all of it is a region, or nothing is left. */
static void a_donor_that_ends_leaves_a_region_or_nothing(void **state)
{
    uint64_t number, handle;
    struct session_sqe sqe;
    uint8_t *at;
    int fd = a_gift(&at);

    (void)state;
    (void)donated(0, fd);
    lane_session_close(lane, 0);
    open_session(0);
    assert_true(SUPPORT_WAIT(has_memory(0), WAIT_MS));
    for (uint32_t turns = 0; turns < 6; turns++) {
        nigh_status status;

        number = donated(0, fd);
        sqe = a_creation("r", GIFT, number, SESSION_REGION_DONATED);
        put(0, &sqe);
        for (uint32_t n = 0; n < turns; n++) {
            turn();
        }
        lane_session_close(lane, 0);
        open_session(0);
        assert_true(SUPPORT_WAIT((status = open_region(0, "r", REGION_ALL, &handle)) == NIGH_OK ||
                                     has_memory(0),
                                 WAIT_MS));
        if (status != NIGH_OK) {
            assert_int_equal(status, NIGH_NOT_FOUND);
            continue;
        }
        assert_true(has_memory(GIFT));
        assert_int_equal(ask(0, a_question(SESSION_REGION_FREE, handle, 0, 0)).status, NIGH_OK);
        assert_true(SUPPORT_WAIT(has_memory(0), WAIT_MS));
    }
    munmap(at, GIFT);
    close(fd);
}

static void donations_are_few_and_count(void **state)
{
    uint64_t number, numbers[LIMIT_SESSION_DONATIONS];
    uint8_t *at;
    int fd = a_gift(&at);

    (void)state;
    for (uint32_t n = 0; n < LIMIT_SESSION_DONATIONS; n++) {
        numbers[n] = donated(0, fd);
    }
    assert_int_equal(donate(0, fd, &number), NIGH_OVERLOADED);
    number = donated(1, fd);
    assert_true(has_memory((LIMIT_SESSION_DONATIONS + 1) * GIFT));
    assert_int_equal(create_of(1, "s", GIFT, number), NIGH_OK);
    assert_int_equal(create_of(0, "r", GIFT, numbers[0]), NIGH_OK);
    (void)donated(0, fd); /* its place is free again */
    assert_int_equal(create_with(2, "most", MOST - 5 * GIFT, 0), NIGH_OUT_OF_MEMORY);
    seats[3].may_write = false;
    assert_int_equal(donate(3, fd, &number), NIGH_DENIED);
    seats[3].may_write = true;
    munmap(at, GIFT);
    close(fd);
}

/* What nobody will ask for counts no more. */
static void what_is_offered_in_vain_may_be_dropped(void **state)
{
    uint64_t number, handle;
    uint8_t *at;
    int fd = a_gift(&at);

    (void)state;
    number = donated(0, fd);
    lane_region_donation_drop(lane, 1, number);
    lane_region_donation_drop(lane, 2, number);
    for (uint32_t bit = 0; bit < 64; bit++) {
        lane_region_donation_drop(lane, 0, number ^ UINT64_C(1) << bit);
    }
    assert_int_equal(create_of(0, "r", GIFT, number), NIGH_OK);
    lane_region_donation_drop(lane, 0, number); /* it is a region's */
    assert_int_equal(open_region(0, "r", REGION_ALL, &handle), NIGH_OK);
    assert_int_equal(read_byte(0, handle), 0);
    number = donated(0, fd);
    assert_true(has_memory(2 * GIFT));
    lane_region_donation_drop(lane, 0, number);
    assert_true(SUPPORT_WAIT(has_memory(GIFT), WAIT_MS));
    lane_region_donation_drop(lane, 0, number);
    assert_int_equal(create_of(0, "s", GIFT, number), NIGH_CLOSED);
    munmap(at, GIFT);
    close(fd);
}

/* Its home may be another node, which takes its time. */
static void what_is_asked_for_is_the_questions(void **state)
{
    struct lane_regions *regions = lane->regions;
    struct region_asked asked = {.slot = 0};
    const struct region_donation *donation;
    uint64_t number;
    uint8_t *at;
    int fd = a_gift(&at);

    (void)state;
    number = donated(0, fd);
    donation = &regions->sessions[0]->donations[number % LIMIT_SESSION_DONATIONS];
    assert_int_equal(lane_region_donation_ask(regions, 0, number, GIFT, &asked), NIGH_OK);
    lane_region_donation_drop(lane, 0, number);
    assert_non_null(donation->memory);
    lane_region_donation_end(regions, &asked);
    assert_null(donation->memory);
    assert_true(SUPPORT_WAIT(has_memory(0), WAIT_MS));
    munmap(at, GIFT);
    close(fd);
}

/* An address is believed of nobody but this process. */
static void an_address_is_of_this_process_alone(void **state)
{
    _Alignas(8) static uint8_t own[3 * LIMIT_REGION_UNIT_BYTES];
    struct session_sqe sqe = a_creation("r", sizeof own, (uintptr_t)own, SESSION_REGION_OWN);
    uint64_t handle;

    (void)state;
    seats[0].pid = getpid() + 1;
    assert_int_equal(ask(0, sqe).status, NIGH_DENIED);
    seats[0].pid = 0; /* one of a process that cannot be seen from here */
    assert_int_equal(ask(0, sqe).status, NIGH_DENIED);
    seats[0].pid = getpid();
    own[0] = 7;
    own[sizeof own - 1] = 8;
    assert_int_equal(ask(0, sqe).status, NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_ALL, &handle), NIGH_OK);
    assert_int_equal(read_byte(0, handle), 7);
    write_byte(0, handle, 9);
    assert_int_equal(own[0], 9);
    sqe = a_creation("s", UINT64_MAX, (uintptr_t)own, SESSION_REGION_OWN);
    assert_int_equal(ask(0, sqe).status, NIGH_INVALID);
    sqe = a_creation("s", 8, UINT64_MAX - 7, SESSION_REGION_OWN);
    assert_int_equal(ask(0, sqe).status, NIGH_INVALID);
    sqe = a_creation("s", 8, (uintptr_t)own, SESSION_REGION_OWN | SESSION_REGION_DONATED);
    assert_int_equal(ask(0, sqe).status, NIGH_INVALID);
    seats[0].pid = 0;
}

static void a_map_is_its_sessions(void **state)
{
    uint64_t mine, others, plain, number, again;
    struct session_sqe sqe;
    int fd = -1;

    (void)state;
    mine = shared_with_another(PIECE, &others);
    assert_int_equal(create(0, "plain", PIECE), NIGH_OK);
    assert_int_equal(open_region(0, "plain", REGION_ALL, &plain), NIGH_OK);
    assert_int_equal(map(0, plain, 8, 0).status, NIGH_UNSUPPORTED);
    assert_int_equal(map(0, mine, PIECE + 1, 0).status, NIGH_INVALID);
    assert_int_equal(map(0, mine, 0, 0).status, NIGH_INVALID);
    assert_int_equal(map(0, mine, 8, 2).status, NIGH_INVALID);
    assert_int_equal(map(1, mine, 8, 0).status, NIGH_INVALID);
    sqe = a_question(SESSION_REGION_MAP, mine, 0, 1);
    sqe.ref = 8;
    assert_int_equal(ask(0, sqe).status, NIGH_INVALID);
    assert_int_equal(lane->regions->map_count, 0);
    number = map_number(0, mine, SESSION_FLAG_WRITES);
    assert_int_equal(lane_region_map_open(lane, 1, number, &fd), NIGH_NOT_FOUND);
    assert_int_equal(lane_region_map_open(lane, 0, number + 1, &fd), NIGH_NOT_FOUND);
    assert_int_equal(unmap(1, number), NIGH_INVALID);
    assert_int_equal(unmap(0, number + 1), NIGH_INVALID);
    assert_int_equal(unmap(0, number), NIGH_OK);
    assert_int_equal(unmap(0, number), NIGH_INVALID);
    assert_int_equal(lane_region_map_open(lane, 0, number, &fd), NIGH_NOT_FOUND);
    again = map_number(0, mine, 0);
    assert_int_not_equal(again, number);
    assert_int_equal(unmap(0, number), NIGH_INVALID);
    lane_session_close(lane, 0);
    open_session(0);
    assert_int_equal(lane->regions->map_count, 0);
    assert_int_equal(unmap(0, again), NIGH_INVALID);
}

/* Who may not write any more keeps what it has mapped, as it was, and that alone. */
static void a_revoke_leaves_who_has_it_mapped_behind(void **state)
{
    uint64_t mine, others, beside, number, besides;
    uint8_t *at, *at_beside;
    int fd = -1;

    (void)state;
    mine = shared_with_another(PIECE, &others);
    assert_int_equal(open_region(1, "r", REGION_ALL, &beside), NIGH_OK);
    number = map_number(2, others, SESSION_FLAG_WRITES);
    besides = map_number(1, beside, SESSION_FLAG_WRITES);
    at = bytes_of(2, number, PIECE, true);
    at_beside = bytes_of(1, besides, PIECE, true);
    write_byte(0, mine, 1);
    assert_int_equal(*at, 1);
    *at = 2;
    at[PIECE - 1] = 3;
    assert_int_equal(ask(0, a_grant(mine, 71, 0, REGION_WRITE)).status, NIGH_OK);
    assert_int_equal(read_byte(0, mine), 2); /* what was there is */
    assert_int_equal(read_some(0, mine, PIECE - 1, 1), NIGH_OK);
    assert_int_equal(memory[0], 3);
    *at = 4;
    assert_int_equal(read_byte(0, mine), 2);
    write_byte(0, mine, 5);
    assert_int_equal(*at, 4);
    assert_int_equal(*at_beside, 4);
    assert_int_equal(lane->regions->kept_bytes, PIECE);
    assert_int_equal(lane_region_map_open(lane, 2, number, &fd), NIGH_STALE);
    assert_int_equal(lane_region_map_open(lane, 1, besides, &fd), NIGH_STALE);
    assert_int_equal(read_some(2, others, 0, 1), NIGH_STALE); /* both are told */
    assert_int_equal(write_some(1, beside, 0, 1), NIGH_STALE);
    assert_int_equal(map(1, beside, 8, 0).status, NIGH_STALE);
    assert_int_equal(map(2, others, 8, SESSION_FLAG_WRITES).status, NIGH_DENIED);
    assert_int_equal(unmap(2, number), NIGH_STALE);
    assert_int_equal(lane->regions->kept_bytes, PIECE);
    assert_int_equal(*at_beside, 4);
    assert_int_equal(unmap(1, besides), NIGH_STALE);
    assert_int_equal(lane->regions->kept_bytes, 0);
    assert_int_equal(read_byte(2, others), 5);
    munmap(at_beside, PIECE);
    at_beside = bytes_of(1, map_number(1, beside, SESSION_FLAG_WRITES), PIECE, true);
    *at_beside = 6;
    assert_int_equal(read_byte(0, mine), 6);
    munmap(at, PIECE);
    munmap(at_beside, PIECE);
}

/* It may have kept what it says that it gave back. */
static void who_was_given_memory_once_is_not_forgotten(void **state)
{
    uint64_t mine, others, number;
    uint8_t *at;

    (void)state;
    mine = shared_with_another(PIECE, &others);
    number = map_number(2, others, SESSION_FLAG_WRITES);
    at = bytes_of(2, number, PIECE, true);
    assert_int_equal(unmap(2, number), NIGH_OK);
    lane_session_close(lane, 2);
    open_session(2);
    *at = 1;
    assert_int_equal(read_byte(0, mine), 1);
    assert_int_equal(ask(0, a_grant(mine, 71, 0, REGION_WRITE)).status, NIGH_OK);
    assert_int_equal(read_byte(0, mine), 1);
    /* Nobody has it mapped, as was said: its pages are the system's. */
    assert_true(SUPPORT_WAIT(region_memories_bytes(lane->regions->memories) == PIECE, WAIT_MS));
    assert_int_equal(*at, 0);
    *at = 2;
    assert_int_equal(read_byte(0, mine), 1);
    write_byte(0, mine, 3);
    assert_int_equal(*at, 2);
    munmap(at, PIECE);
}

/* A revoke of what was not given, or was not mapped, leaves memory where it is. */
static void who_keeps_its_rights_keeps_its_memory(void **state)
{
    uint64_t mine, others, number;
    uint8_t *at;

    (void)state;
    mine = shared_with_another(PIECE, &others);
    assert_int_equal(open_region(2, "r", REGION_READ, &others), NIGH_OK);
    number = map_number(2, others, 0);
    at = bytes_of(2, number, PIECE, false);
    assert_int_equal(ask(0, a_grant(mine, 71, 0, REGION_WRITE)).status, NIGH_OK);
    write_byte(0, mine, 1);
    assert_int_equal(*at, 1);
    assert_int_equal(read_byte(2, others), 1);
    assert_int_equal(unmap(2, number), NIGH_OK);
    munmap(at, PIECE);
}

/* More users than are remembered: any of them may be the one whose right is taken. */
static void many_who_have_memory_are_anybody(void **state)
{
    uint64_t mine, others, number;
    uint8_t *at;

    (void)state;
    for (uint32_t n = 0; n <= LIMIT_REGION_TAKERS; n++) {
        seats[3].uid = 100 + n;
        lane_session_close(lane, 3);
        open_session(3);
        if (n == 0) {
            mine = shared_with_another(PIECE, &others);
        }
        assert_int_equal(ask(0, a_grant(mine, seats[3].uid, REGION_READ | REGION_WRITE, 0)).status,
                         NIGH_OK);
        assert_int_equal(open_region(3, "r", REGION_READ | REGION_WRITE, &others), NIGH_OK);
        number = map_number(3, others, SESSION_FLAG_WRITES);
        at = bytes_of(3, number, PIECE, true);
        if (n < LIMIT_REGION_TAKERS) {
            munmap(at, PIECE);
        }
    }
    *at = 1;
    assert_int_equal(ask(0, a_grant(mine, seats[3].uid, 0, REGION_WRITE)).status, NIGH_OK);
    *at = 2;
    assert_int_equal(read_byte(0, mine), 1);
    munmap(at, PIECE);
}

/* Without memory for it a revoke waits, and the chunk with it; nothing else does. */
static void a_revoke_waits_for_memory(void **state)
{
    uint64_t mine, others, plain;
    struct session_sqe sqe;
    uint8_t *at;

    (void)state;
    mine = shared_with_another(MOST / 2, &others);
    assert_int_equal(create(1, "plain", MOST / 2), NIGH_OK);
    assert_int_equal(open_region(1, "plain", REGION_ALL, &plain), NIGH_OK);
    at = bytes_of(2, map_number(2, others, SESSION_FLAG_WRITES), MOST / 2, true);
    *at = 1;
    at[MOST / 2 - 1] = 2;
    sqe = a_grant(mine, 71, 0, REGION_WRITE);
    submit(0, &sqe);
    for (uint32_t n = 0; n < 100; n++) {
        now_us += LIMIT_REGION_RENEW_US;
        turn();
    }
    assert_false(has_ended(0));
    assert_int_equal(write_some(1, plain, 0, 8), NIGH_OK);
    assert_int_equal(ask(1, a_question(SESSION_REGION_FREE, plain, 0, 0)).status, NIGH_OK);
    assert_true(SUPPORT_WAIT((now_us += LIMIT_REGION_RENEW_US, has_ended(0)), WAIT_MS));
    *at = 3;
    assert_int_equal(read_byte(0, mine), 1);
    assert_int_equal(read_some(0, mine, MOST / 2 - 1, 1), NIGH_OK);
    assert_int_equal(memory[0], 2);
    munmap(at, MOST / 2);
}

/* A free needs none: it passes what waits for it, or is on its way into other memory. */
static void a_free_waits_for_no_memory(void **state)
{
    uint64_t mine, others, beside;
    struct session_sqe sqe;
    uint8_t *at;

    (void)state;
    for (uint32_t way = 0; way < 2; way++) {
        uint64_t bytes = way == 0 ? MOST : MOST / 2;

        mine = shared_with_another(bytes, &others);
        assert_int_equal(open_region(1, "r", REGION_ALL, &beside), NIGH_OK);
        at = bytes_of(2, map_number(2, others, SESSION_FLAG_WRITES), bytes, true);
        sqe = a_grant(mine, 71, 0, REGION_WRITE);
        submit(0, &sqe);
        for (uint32_t n = 0; n < 10; n++) {
            turn();
        }
        assert_true(way == 1 || !has_ended(0));
        assert_int_equal(ask(1, a_question(SESSION_REGION_FREE, beside, 0, 0)).status, NIGH_OK);
        assert_true(has_ended(0));
        *at = 1; /* who has it mapped keeps it */
        munmap(at, bytes);
        for (uint32_t slot = 0; slot < 3; slot++) {
            lane_session_close(lane, slot);
            open_session(slot);
        }
        assert_true(SUPPORT_WAIT(region_memories_bytes(lane->regions->memories) == 0, WAIT_MS));
        assert_int_equal(lane->regions->kept_bytes, 0);
    }
}

/* ---- a link to others ----------------------------------------------------- */

/* What others are asked, who answer when a test says so. */
static struct {
    struct link *link;
    uint64_t calls[LIMIT_REGION_PUTS * 2];
    uint64_t bytes[LIMIT_REGION_PUTS * 2];
    uint32_t count;
} asked;

static void on_asked(void *context, struct link *link, const struct rpc_request *request,
                     uint64_t at_us)
{
    struct region_push push;

    (void)context;
    (void)at_us;
    assert_int_equal(request->method, CALLS_METHOD_REGION_PUSH);
    assert_int_equal(region_push_decode(request->payload, request->bytes, &push), NIGH_OK);
    assert_true(asked.count < ARRAY_LENGTH(asked.calls));
    asked.link = link;
    asked.bytes[asked.count] = push.bytes;
    asked.calls[asked.count++] = request->call;
}

/* All that was asked for was done. */
static void answer_asked(void)
{
    uint8_t bytes[REGION_PUSHED_BYTES];
    struct rpc_piece said = {.data = bytes, .bytes = sizeof(bytes)};

    while (asked.count > 0) {
        asked.count--;
        bytes_put_u64(bytes, asked.bytes[asked.count]);
        rpc_reply(link_calls(asked.link), asked.calls[asked.count], NIGH_OK, &said, 1);
    }
}

/* Of this incarnation of its node. */
static void side_links(struct support_side *side, uint32_t rank, uint32_t incarnation)
{
    const struct links_shell shell = {.context = side,
                                      .up = support_side_up,
                                      .down = support_side_down,
                                      .request = support_no_request,
                                      .called = on_asked,
                                      .bulk = support_no_bulk};
    const struct links_config config = {
        .fabric = side->fabric,
        .rank = rank,
        .incarnation = incarnation,
        .lanes = 1,
        .nodes = 2,
        .rpc = {.requests = 4, .calls = 4, .queue = 1, .payload_bytes = 200},
        .calls = {.requests = 32, .calls = 32, .queue = 1, .payload_bytes = REGION_PUSH_BYTES},
        .waits = 4,
        .bulk_receives = 4,
        .bulk_bytes = 1024,
        .reads = 3,
        .writes = 4,
        .shell = shell};

    assert_int_equal(links_create(&config, &side->links), NIGH_OK);
}

static void side_begin(struct support_side *side, uint32_t rank)
{
    char address[FABRIC_ADDRESS_BYTES];

    (void)snprintf(address, sizeof(address), "%u:0", rank);
    assert_int_equal(sim_fabric(linked.sim, rank, 0, &side->fabric), NIGH_OK);
    support_side_listen(side, address);
    side_links(side, rank, 1);
}

static void side_meets(struct support_side *side, const struct support_side *other, uint32_t rank,
                       uint32_t incarnation)
{
    struct link_peer info = {.rank = rank,
                             .incarnation = incarnation,
                             .dials = rank == 0,
                             .lanes = 1,
                             .bulk_endpoints = 1,
                             .region_endpoints = 1};

    memcpy(info.addresses[0], other->address, sizeof(other->address));
    assert_int_equal(links_peer_up(side->links, &info, sim_now_us(linked.sim)), NIGH_OK);
}

static void links_pass(uint32_t turns)
{
    for (uint32_t n = 0; n < turns; n++) {
        (void)links_turn(linked.here.links, sim_now_us(linked.sim));
        (void)links_turn(linked.there.links, sim_now_us(linked.sim));
        sim_advance(linked.sim, sim_now_us(linked.sim) + 10);
    }
}

static void link_begin(void)
{
    const struct sim_options options = {.seed = 1};

    memset(&linked, 0, sizeof(linked));
    members_alone(&linked.members);
    linked.members.count = 2;
    linked.members.self = 1;
    assert_int_equal(sim_create(&options, &linked.sim), NIGH_OK);
    side_begin(&linked.there, 0);
    side_begin(&linked.here, 1);
    side_meets(&linked.there, &linked.here, 1, 1);
    side_meets(&linked.here, &linked.there, 0, 1);
    links_pass(1000);
    assert_non_null(linked.here.link);
    assert_true(link_carries(linked.here.link, LINK_REGIONS));
}

/* From here on the lane takes its chunks for another node's: nothing but posts is done then. */
static void away_begin(uint32_t slot)
{
    linked.alone = lane->config.exchange.members;
    lane->config.fabric = linked.here.fabric;
    lane->config.views = (struct views *)&linked; /* that there are some, and no more */
    lane->config.exchange.members = &linked.members;
    (void)lane_serve(lane, slot);
    echo_channel = link_rpc(linked.here.link);
    lane->exchange = (struct exchange *)&linked; /* likewise */
    lane_region_posts_go(lane->regions);
}

static void away_end(void)
{
    lane->exchange = NULL;
    echo_channel = NULL;
    lane->config.exchange.members = linked.alone;
    lane->config.views = NULL;
    lane->config.fabric = NULL;
}

/* Its link takes a write to what the lane takes for another node's. */
static void put_write_there(uint32_t slot, uint64_t number, uint64_t timeout_us)
{
    struct session_sqe sqe = a_question(SESSION_REGION_WRITE, number, 0, 8);

    sqe.argument = timeout_us;
    put(slot, &sqe);
    away_begin(slot);
    away_end();
    turn();
    assert_int_not_equal(completed(slot), atomic_load(&ring_of(slot)->sq_tail.value));
}

/* ---- buffers of few bytes ------------------------------------------------- */

static struct {
    struct region_io ios[LIMIT_REGION_STAGING];
    struct region_peer peers[LIMIT_REGION_STAGING];
    uint32_t count;
} staged;

/* Of reads that stand still: a session, or what goes to a node, has another buffer. */
static bool stages(uint32_t slot, uint32_t peer)
{
    struct lane_regions *at = lane->regions;
    struct region_io *io = &staged.ios[staged.count];
    struct region_part part = {.io = io,
                               .peer = &staged.peers[peer],
                               .post.piece.length_bytes = 8,
                               .piece_bytes = LIMIT_QOS_PIECE};
    static const struct fabric_provider provider = {.memory_register = no_memory};
    struct fabric fabric = {.provider = &provider};
    struct fabric_slice slice;
    nigh_status status;

    if (staged.count == LIMIT_REGION_STAGING) {
        return false;
    }
    *io = (struct region_io){.what = SESSION_REGION_READ,
                             .slot = slot,
                             .place_bytes = 8,
                             .op.region = regions_find(at->regions, "r", 1)};
    lane->config.fabric = &fabric;
    status = lane_region_slice(at, &part, &slice);
    lane->config.fabric = NULL;
    assert_true(status == NIGH_OK || status == NIGH_BUSY);
    staged.count += status == NIGH_OK;
    return status == NIGH_OK;
}

static void stage_begin(void)
{
    uint64_t number;

    memset(&staged, 0, sizeof(staged));
    assert_int_equal(create(0, "r", MOST), NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_ALL, &number), NIGH_OK);
    free(lane->regions->staged); /* of more sessions than there are, one a buffer */
    lane->regions->staged = calloc(LIMIT_REGION_STAGING, sizeof(uint32_t));
}

static void stage_end(void)
{
    struct lane_regions *at = lane->regions;

    while (staged.count > 0) {
        lane_region_staging_give(at, &staged.ios[--staged.count]);
    }
    assert_int_equal(at->free_staging_count, LIMIT_REGION_STAGING);
    for (uint32_t n = 0; n < LIMIT_REGION_STAGING; n++) {
        assert_true(at->staged[n] == 0 && staged.peers[n].staged == 0);
    }
}

/* Wherever they go: a session that wants all it can get leaves some to those that come later. */
static void a_session_leaves_buffers_to_others(void **state)
{
    static const uint32_t had[] = {64, 64, 64, 32, 16, 8, 4, 2};

    (void)state;
    stage_begin();
    for (uint32_t slot = 0; slot < ARRAY_LENGTH(had); slot++) {
        while (stages(slot, staged.count)) {
        }
        assert_int_equal(lane->regions->staged[slot], had[slot]);
    }
    stage_end();
}

/* What it has as it ends, at a node that stands still, is not of who has its slot next. */
static void a_slot_does_not_inherit_buffers(void **state)
{
    struct lane_regions *at = lane->regions;
    uint32_t count;

    (void)state;
    stage_begin();
    while (stages(0, 0)) {
        list_push_back(&at->ios[0], &staged.ios[staged.count - 1].link);
    }
    count = staged.count;
    assert_int_equal(at->staged[0], LIMIT_REGION_STAGED);
    lane_region_staging_leave(at, 0);
    assert_true(stages(0, 1));
    assert_int_equal(at->staged[0], 1);
    for (uint32_t n = 0; n < count; n++) {
        list_remove(&staged.ios[n].link);
    }
    stage_end();
}

/* However many sessions' operations wait for nodes that stand still, others go to one that does
 * not. */
static void a_node_that_stands_still_leaves_buffers_to_others(void **state)
{
    static const uint32_t had[] = {128, 64, 32, 16};

    (void)state;
    stage_begin();
    for (uint32_t peer = 0; peer < ARRAY_LENGTH(had); peer++) {
        while (stages(staged.count, peer)) {
        }
        assert_int_equal(staged.peers[peer].staged, had[peer]);
    }
    stage_end();
}

static const char *const round_names[] = {"x", "y", "z"};

#define ROUND ARRAY_LENGTH(round_names)

/* Of a region: where the lane takes its only chunk to be. */
static struct region_chunk *chunk_of(const char *name)
{
    return (struct region_chunk *)&region_known(regions_find(lane->regions->regions, name, 1))
        ->chunks[0];
}

/* Nodes of which each has a region, at the other end of the link; one buffer is left. */
static struct {
    struct region_peer peers[ROUND + 1], *peers_before;
    struct turns_seat seats[SLOTS * (ROUND + 1) * QOS_CLASSES], *seats_before;
    uint32_t asked_pushes[SLOTS * ROUND], *asked_before;
    struct region_chunk chunks_before[ROUND];
    struct regions_peer members[ROUND], *members_before; /* as regions know them */
    struct fabric_memory *memory;
    uint8_t bytes[4096];
    uint8_t *kept; /* buffers */
} around;

/* Of the members that regions know only the node itself has anything to say. */
static void know_members(struct regions_peer *members)
{
    struct regions *regions = lane->regions->regions;
    struct regions_peer *before = &regions->peers[0];
    bool is_busy = list_is_linked(&before->link);
    struct list_node *node;

    if (is_busy) {
        list_remove(&before->link);
    }
    members[0] = *before;
    list_init(&members[0].letters);
    while ((node = list_pop_front(&before->letters)) != NULL) {
        list_push_back(&members[0].letters, node);
    }
    if (is_busy) {
        list_push_back(&regions->busy, &members[0].link);
    }
    regions->peers = members;
}

/* Also where it is away no more. */
static void round_end(void)
{
    struct lane_regions *at = lane->regions;

    undo = NULL;
    if (lane->config.fabric != NULL) {
        away_end();
    }
    if (asked.count > 0) { /* of a test that failed: it counts with the peers that it has now */
        answer_asked();
        links_pass(100);
    }
    at->peers = around.peers_before;
    at->seats = around.seats_before;
    at->asked_pushes = around.asked_before;
    at->ranks = 1;
    for (uint32_t n = 0; n < ROUND; n++) {
        *chunk_of(round_names[n]) = around.chunks_before[n];
    }
    know_members(around.members_before);
    fabric_memory_deregister(linked.there.fabric, around.memory);
    link_end();
}

static void round_begin(void)
{
    struct lane_regions *at = lane->regions;

    link_begin();
    linked.members.count = ROUND + 1;
    linked.members.self = ROUND;
    memset(&around, 0, sizeof(around));
    assert_int_equal(fabric_memory_register(linked.there.fabric, around.bytes, sizeof around.bytes,
                                            FABRIC_HOST,
                                            FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE |
                                                FABRIC_LOCAL_WRITE | FABRIC_REMOTE_ATOMIC,
                                            &around.memory),
                     NIGH_OK);
    for (uint32_t n = 0; n < ROUND; n++) {
        struct region_chunk *chunk = chunk_of(round_names[n]);
        struct fabric_remote remote =
            fabric_memory_remote(linked.there.fabric, around.memory, around.bytes);

        around.chunks_before[n] = *chunk;
        around.members[n].incarnation = chunk->incarnation;
        chunk->node = n;
        chunk->handle = (struct region_window){.address = remote.address, .key = remote.key};
    }
    around.members_before = at->regions->peers;
    know_members(around.members);
    for (uint32_t n = 0; n <= ROUND; n++) {
        for (uint32_t class = 0; class < QOS_CLASSES; class ++) {
            qos_window_init(&around.peers[n].windows[class], LIMIT_QOS_WINDOW);
            turns_init(&around.peers[n].turns[class], LIMIT_QOS_QUANTUM);
        }
    }
    around.peers_before = at->peers;
    around.seats_before = at->seats;
    around.asked_before = at->asked_pushes;
    at->peers = around.peers;
    at->seats = around.seats;
    at->asked_pushes = around.asked_pushes;
    at->ranks = ROUND;
    away_begin(0);
    undo = round_end;
}

static void put_writes(uint32_t slot, uint64_t number, uint32_t count)
{
    struct session_sqe sqe = a_question(SESSION_REGION_WRITE, number, 0, 8);

    for (uint32_t n = 0; n < count; n++) {
        put(slot, &sqe);
    }
    (void)lane_serve(lane, slot);
}

/* Of all but one, as if others had them: it comes back again and again, and each node gets it. */
static void buffers_that_come_back_go_round(void **state)
{
    struct lane_regions *at = lane->regions;
    uint64_t handles[ROUND];
    uint32_t before[ROUND], ended[ROUND];

    (void)state;
    for (uint32_t slot = 0; slot < ROUND; slot++) {
        assert_int_equal(create(slot, round_names[slot], 4096), NIGH_OK);
        assert_int_equal(open_region(slot, round_names[slot], REGION_ALL, &handles[slot]), NIGH_OK);
        assert_int_equal(write_some(slot, handles[slot], 0, 8), NIGH_OK);
    }
    round_begin();
    before[0] = completed(0);
    put_writes(0, handles[0], 1);
    while (completed(0) == before[0]) {
        links_pass(1);
    }
    assert_int_equal(at->free_staging_count, LIMIT_REGION_STAGING);
    memcpy(&around.kept, at->free_staging, sizeof(around.kept));
    memset(at->free_staging, 0, sizeof(uintptr_t));
    at->free_staging_count = 1;
    for (uint32_t slot = 0; slot < ROUND; slot++) {
        before[slot] = completed(slot);
        put_writes(slot, handles[slot], 30);
    }
    while (completed(2) - before[2] < 10) {
        links_pass(1);
    }
    for (uint32_t slot = 0; slot < ROUND; slot++) {
        ended[slot] = completed(slot) - before[slot];
    }
    while (completed(0) - before[0] < 30 || completed(1) - before[1] < 30 ||
           completed(2) - before[2] < 30) {
        links_pass(1);
    }
    memcpy(at->free_staging, &around.kept, sizeof(around.kept));
    at->free_staging_count += LIMIT_REGION_STAGING - 1;
    round_end();
    assert_in_range(ended[0], 8, 12);
    assert_in_range(ended[1], 8, 12);
}

/* ---- locks in doubt ------------------------------------------------------- */

static struct session_sqe a_lock(uint64_t number)
{
    struct session_region_lock lock = {.number = 5, .mode = SESSION_REGION_EXCLUSIVE};

    memcpy(memory, &lock, sizeof(lock));
    return a_question(SESSION_REGION_LOCK, number, REGION_READ | REGION_WRITE, sizeof(lock));
}

static uint64_t locked(uint32_t slot, uint64_t number)
{
    struct session_cqe cqe = ask(slot, a_lock(number));

    assert_int_equal(cqe.status, NIGH_OK);
    return cqe.generation;
}

static void let_go(uint32_t slot, uint64_t number)
{
    assert_int_equal(ask(slot, a_question(SESSION_REGION_CLOSE, number, 0, 0)).status, NIGH_OK);
}

/* Under which the region's only chunk is open. */
static struct region_window window_of(const char *name)
{
    const struct region *region = regions_find(lane->regions->regions, name, 1);

    return region->home->config.now->chunks[0].handle;
}

/* A write under a lock breaks off with its link, whatever that broke for: it may land yet. So the
 * next has the lock only when all chunks have new handles; also where the first has let go before
 * that, as its deadline was over. Else they keep them. */
static void a_lock_in_doubt_goes_on_behind_a_fence(void **state)
{
    static const nigh_status reasons[] = {NIGH_PEER_LOST, NIGH_TIMEOUT,      NIGH_PROTOCOL,
                                          NIGH_DENIED,    NIGH_NO_RESOURCES, NIGH_BUSY};
    uint64_t mine, others, held;
    struct region_window before;
    struct session_sqe sqe;

    (void)state;
    assert_int_equal(create(0, "r", 4096), NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_ALL, &mine), NIGH_OK);
    assert_int_equal(open_region(1, "r", REGION_ALL, &others), NIGH_OK);
    let_go(0, locked(0, mine)); /* behind the fence of the first lock of all */
    for (uint32_t n = 0; n < 2 * ARRAY_LENGTH(reasons); n++) {
        bool is_late = n % 2 == 1;

        before = window_of("r");
        held = locked(0, mine);
        assert_int_equal(write_some(0, held, 0, 8), NIGH_OK);
        let_go(0, held);
        let_go(1, locked(1, others));
        assert_true(region_window_equal(window_of("r"), before));
        held = locked(0, mine);
        link_begin();
        put_write_there(0, held, is_late ? 100 : FOREVER);
        if (is_late) {
            now_us += 100;
            let_go(0, held);
        }
        sqe = a_lock(others);
        submit(1, &sqe);
        for (uint32_t turns = 0; turns < 20; turns++) {
            turn();
        }
        assert_false(has_ended(1));
        link_break(linked.here.link, reasons[n / 2], sim_now_us(linked.sim));
        links_pass(2);
        assert_true(SUPPORT_WAIT(has_ended(0), WAIT_MS));
        link_end();
        if (!is_late) {
            assert_int_equal(ring_of(0)->cq[(completed(0) - 1) % LIMIT_RING_ENTRIES].status,
                             NIGH_PEER_LOST);
            let_go(0, held);
        }
        assert_true(SUPPORT_WAIT(has_ended(1), WAIT_MS));
        assert_false(region_window_equal(window_of("r"), before));
        let_go(1, ring_of(1)->cq[(completed(1) - 1) % LIMIT_RING_ENTRIES].generation);
    }
}

/* ---- without a lease ------------------------------------------------------ */

/* Others may have been told that this node is dead; nothing but rings is served then. */
static void lease_ends(void)
{
    lane->config.views = (struct views *)&linked; /* that there are some, and no more */
    lane->lease_us = 0;
}

static void lease_begins(void)
{
    lane->lease_us = UINT64_MAX;
    lane_regions_tell(lane->regions);
    lane->config.views = NULL;
    lane->lease_us = 0;
}

/* Whether what is submitted without a lease ends at once. */
static bool ends_without(uint32_t slot, struct session_sqe sqe)
{
    uint32_t before = lane->sessions[slot].cq_tail;

    put(slot, &sqe);
    lease_ends();
    (void)lane_serve(lane, slot);
    lane_regions_tell(lane->regions);
    return lane->sessions[slot].cq_tail != before;
}

/* As time passes, and no lease comes. */
static bool is_unsure_at(uint64_t then_us)
{
    now_us = lane->now_us = then_us;
    (void)lane_turn_regions(lane);
    return !list_empty(&lane->regions->unsure);
}

/* Neither that it was held until it was let go, nor that it is had. */
static void of_locks_nothing_is_said_without_a_lease(void **state)
{
    uint64_t mine, others, held;

    (void)state;
    assert_int_equal(create(0, "r", 4096), NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_ALL, &mine), NIGH_OK);
    assert_int_equal(open_region(1, "r", REGION_ALL, &others), NIGH_OK);
    let_go(0, locked(0, mine));
    assert_false(ends_without(0, a_lock(mine))); /* though the node has kept it */
    lease_begins();
    assert_true(has_ended(0));
    assert_int_equal(last_of(0).status, NIGH_OK);
    held = last_of(0).generation;
    assert_false(ends_without(0, a_question(SESSION_REGION_CLOSE, held, 0, 0)));
    assert_false(ends_without(1, a_lock(others)));
    lease_begins();
    assert_true(has_ended(0));
    assert_int_equal(last_of(0).status, NIGH_OK);
    assert_true(SUPPORT_WAIT(has_ended(1), WAIT_MS));
    let_go(1, last_of(1).generation);
}

/* Its session ends, it has waited for a lease for long, or it is lost with the view. */
static void a_lock_that_is_left_without_a_lease_is_left_for_good(void **state)
{
    uint64_t mine, others, held, before_us;

    (void)state;
    assert_int_equal(create(0, "r", 4096), NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_ALL, &mine), NIGH_OK);
    assert_int_equal(open_region(1, "r", REGION_ALL, &others), NIGH_OK);
    held = locked(0, mine);
    assert_false(ends_without(0, a_question(SESSION_REGION_CLOSE, held, 0, 0)));
    lane_session_close(lane, 0);
    is_open[0] = false;
    assert_true(list_empty(&lane->regions->unsure));
    lane->config.views = NULL;
    let_go(1, locked(1, others));
    open_session(0);
    held = locked(1, others);
    before_us = clock_now_us(&clock_monotonic);
    assert_false(ends_without(1, a_question(SESSION_REGION_CLOSE, held, 0, 0)));
    assert_true(is_unsure_at(before_us)); /* whatever turn it was let go in */
    assert_false(is_unsure_at(clock_now_us(&clock_monotonic) + LIMIT_NODE_GRACE_US));
    lane->config.views = NULL;
    assert_true(has_ended(1));
    assert_int_equal(last_of(1).status, NIGH_TIMEOUT);
    held = locked(1, others);
    assert_false(ends_without(1, a_question(SESSION_REGION_CLOSE, held, 0, 0)));
    regions_drop(lane->regions->regions);
    lane_regions_tell(lane->regions);
    lane->config.views = NULL;
    assert_true(has_ended(1));
    assert_int_equal(last_of(1).status, NIGH_LOCK_LOST);
}

/* ---- copies between others ------------------------------------------------- */

/* "x", "y" and "z", each a chunk, as regions of slots 0 to `slots`. */
static void round_open(uint32_t slots, uint64_t size_bytes, uint64_t handles[SLOTS][ROUND])
{
    for (uint32_t n = 0; n < ROUND; n++) {
        assert_int_equal(create(0, round_names[n], size_bytes), NIGH_OK);
        for (uint32_t slot = 0; slot < slots; slot++) {
            assert_int_equal(open_region(slot, round_names[n], REGION_ALL, &handles[slot][n]),
                             NIGH_OK);
            assert_int_equal(write_some(slot, handles[slot][n], 0, 8), NIGH_OK);
        }
    }
    echo_places = 4 * LIMIT_REGION_PUTS;
    memset(&asked, 0, sizeof(asked));
}

/* From where it is to where it is to be, neither of them here. */
static void put_copy(uint32_t slot, uint64_t to, uint64_t from, uint64_t bytes)
{
    struct session_sqe sqe = a_copy(to, 0, from, 0, bytes);

    put(slot, &sqe);
    (void)lane_serve(lane, slot);
}

/* A lock on what a copy reads, whose node is asked to bring it elsewhere, and stands still: its
 * term is over, or its session closes it, and nobody else has it before that has ended, and is no
 * copy. */
static void a_lock_stays_while_its_region_is_pushed(void **state)
{
    struct session_region_lock lock = {.number = 5, .mode = SESSION_REGION_SHARED, .term_us = 100};
    uint64_t handles[SLOTS][ROUND], held;
    struct session_sqe sqe;
    struct session_cqe cqe;

    (void)state;
    round_open(2, 4096, handles);
    for (uint32_t way = 0; way < 2; way++) {
        bool is_closed = way == 1;
        uint32_t before;

        memcpy(memory, &lock, sizeof(lock));
        cqe = ask(0, a_question(SESSION_REGION_LOCK, handles[0][1], REGION_READ, sizeof(lock)));
        assert_int_equal(cqe.status, NIGH_OK);
        held = cqe.generation;
        before = completed(0);
        round_begin();
        put_copy(0, handles[0][0], held, 64);
        links_pass(100);
        away_end();
        assert_int_equal(asked.count, 1);
        sqe = a_lock(handles[1][1]);
        submit(1, &sqe);
        pass(5);
        assert_false(has_ended(1));
        if (is_closed) {
            sqe = a_question(SESSION_REGION_CLOSE, held, 0, 0);
            submit(0, &sqe);
        } else {
            now_us += lock.term_us;
        }
        pass(20);
        assert_false(has_ended(1));
        assert_int_equal(completed(0), before + is_closed);
        answer_asked();
        links_pass(100);
        assert_true(SUPPORT_WAIT(has_ended(1), WAIT_MS));
        assert_true(SUPPORT_WAIT(completed(0) == before + 1 + is_closed, WAIT_MS));
        assert_int_equal(last_of(0).status, is_closed ? NIGH_CANCELED : NIGH_LOCK_LOST);
        round_end();
        let_go(1, last_of(1).generation);
        if (!is_closed) {
            assert_int_equal(ask(0, a_question(SESSION_REGION_CLOSE, held, 0, 0)).status,
                             NIGH_LOCK_LOST);
        }
    }
}

/* Nodes that are asked to bring something to another stand still: what else goes to that one goes.
 */
static void who_is_asked_stops_nothing_of_others(void **state)
{
    uint64_t handles[SLOTS][ROUND];
    uint32_t before;

    (void)state;
    round_open(2, 2 * LIMIT_REGION_COPY_BYTES, handles);
    round_begin();
    around.peers[0].windows[QOS_HIGH].most_bytes = 4 * LIMIT_REGION_COPY_BYTES;
    for (uint32_t n = 0; n < 4; n++) {
        put_copy(0, handles[0][0], handles[0][1 + n % 2], LIMIT_REGION_COPY_BYTES);
    }
    links_pass(100);
    assert_int_equal(asked.count, 4);
    before = completed(1);
    put_writes(1, handles[1][0], 1);
    links_pass(200);
    assert_int_equal(completed(1), before + 1);
    assert_int_equal(last_of(1).status, NIGH_OK);
    answer_asked();
    links_pass(100);
    assert_int_equal(around.peers[0].windows[QOS_HIGH].under_way_bytes, 0);
    assert_int_equal(lane->regions->qos.high_under_way, 0);
    round_end();
    assert_true(SUPPORT_WAIT(has_ended(0), WAIT_MS));
    assert_int_equal(last_of(0).status, NIGH_OK);
}

/* Who asks much of a node that stands still leaves places there to others, waits for none, and
 * leaves none of its own to who has its slot next. */
static void who_asks_leaves_places_to_others(void **state)
{
    static const uint32_t had[] = {8, 12};
    uint64_t handles[SLOTS][ROUND];
    struct lane_regions *at = lane->regions;

    (void)state;
    round_open(ARRAY_LENGTH(had), 4096, handles);
    round_begin();
    for (uint32_t slot = 0; slot < ARRAY_LENGTH(had); slot++) {
        uint32_t before = completed(slot), stay = had[slot] - asked.count;

        for (uint32_t n = 0; n < LIMIT_REGION_PUTS + 4; n++) {
            put_copy(slot, handles[slot][0], handles[slot][1], 8);
        }
        put_writes(slot, handles[slot][0], 1);
        for (uint32_t n = 0; n < 300; n++) {
            links_pass(1);
            (void)lane_region_copies_turn(at);
        }
        assert_int_equal(asked.count, had[slot]);
        assert_int_equal(completed(slot) - before, LIMIT_REGION_PUTS + 5 - stay);
        assert_int_equal(last_of(slot).status, NIGH_OK);
    }
    away_end();
    lane_session_close(lane, 0);
    open_session(0);
    assert_int_equal(around.asked_pushes[1], 0);
    answer_asked();
    links_pass(100);
    pass(5);
    for (uint32_t n = 0; n < ARRAY_LENGTH(around.asked_pushes); n++) {
        assert_int_equal(around.asked_pushes[n], 0);
    }
    assert_int_equal(around.peers[1].pushes, 0);
    assert_true(has_ended(1));
    round_end();
}

/* ---- what has landed ------------------------------------------------------ */

static uint8_t byte_at(uint32_t slot, uint64_t number, uint64_t offset)
{
    assert_int_equal(read_some(slot, number, offset, 1), NIGH_OK);
    return memory[0];
}

/* Memory for calls, of zeros, that a write comes from: what such a write says. */
static struct session_sqe a_write_from(uint32_t slot, uint64_t number, uint64_t bytes)
{
    struct session_sqe sqe = {
        .op = SESSION_OP_BULK_MAKE, .data_size = bytes, .meta_size = SESSION_MEMORY_READ};
    struct session_bulk part = {.bytes = bytes, .access = SESSION_MEMORY_READ};

    part.number = ask(slot, sqe).generation;
    sqe = a_question(SESSION_REGION_WRITE, number, 0, sizeof(part));
    sqe.flags = SESSION_FLAG_INTO;
    memcpy(memory, &part, sizeof(part));
    return sqe;
}

/* A write, or fill, of many pieces begins; its chunk is frozen, and opened again, while it waits
 * for its next turn; somebody else's write of a byte that it has written is acknowledged. It goes
 * on, and leaves that byte alone. */
static void what_has_landed_is_not_written_again(void **state)
{
    const uint64_t many = MOST / 2;
    uint64_t low, mine, other;
    struct session_sqe sqe, begins;

    (void)state;
    assert_int_equal(create(0, "r", many), NIGH_OK);
    assert_int_equal(create(0, "s", MOST / 4), NIGH_OK);
    for (uint32_t way = 0; way < 2; way++) {
        struct region_peer *here = &lane->regions->peers[lane->regions->ranks];
        uint64_t refused = lane->regions->counts.parts_refused;

        assert_int_equal(open_region(0, "r", REGION_WRITE | SESSION_REGION_LOW, &low), NIGH_OK);
        assert_int_equal(open_region(0, "s", REGION_WRITE, &other), NIGH_OK);
        assert_int_equal(open_region(1, "r", REGION_ALL, &mine), NIGH_OK);
        assert_int_equal(ask(1, a_fill(mine, 0, 5, many)).status, NIGH_OK);
        assert_int_equal(ask(1, a_grant(mine, 99, REGION_WRITE, 0)).status, NIGH_OK);
        sqe = a_fill(other, 0, 0, MOST / 4);
        begins = way == 0 ? a_fill(low, 0, 0, many) : a_write_from(0, low, many);
        put(0, &begins); /* as much as goes in a turn; then nothing of low priority has one */
        for (uint32_t n = 0; n < 100; n++) {
            put(0, &sqe);
        }
        turn();
        assert_false(turns_are_empty(&here->turns[QOS_LOW]));
        sqe = a_grant(mine, 99, 0, REGION_WRITE);
        submit(1, &sqe);
        for (uint32_t n = 0; n < 20 && !has_ended(1); n++) {
            now_us += LIMIT_REGION_HOLD_US; /* its home waits for who has it mapped, for so long */
            here->windows[QOS_HIGH].run_bytes = 0; /* its time has not come */
        }
        assert_true(has_ended(1));
        write_byte(1, mine, 9);
        assert_false(turns_are_empty(&here->turns[QOS_LOW])); /* it waits yet */
        assert_int_equal(lane->regions->counts.parts_refused, refused);
        assert_true(SUPPORT_WAIT(has_ended(0), WAIT_MS));
        assert_int_equal(lane->regions->counts.parts_refused, refused + 1);
        assert_int_equal(read_byte(1, mine), 9);
        for (uint64_t n = LIMIT_REGION_COPY_BYTES / 4; n < many; n += LIMIT_REGION_COPY_BYTES / 2) {
            assert_int_equal(byte_at(1, mine, n), 0);
        }
        assert_int_equal(byte_at(1, mine, many - 1), 0);
        let_go(0, low);
        let_go(0, other);
        let_go(1, mine);
    }
}

/* Whoever maps the region is to post nothing more under the handle. */
static void known_handle_is_set(const char *name, struct region_window handle)
{
    struct region_mapping *mapping = regions_find(lane->regions->regions, name, 1)->mapping;

    mapping->config.now->chunks[0].handle = handle;
    mapping->is_stale = region_window_is_none(handle);
}

/* Pieces of a fill land at another node; then its handle is no good, by the fabric, or by what is
 * known: the chunk is here, and the rest of the fill goes here. */
static void what_has_landed_elsewhere_stays_there(void **state)
{
    static uint8_t there[MOST / 4];
    static const char *const names[] = {"r", "s"};

    (void)state;
    for (uint32_t way = 0; way < 2; way++) {
        uint64_t reach = way == 0 ? 2 * LIMIT_REGION_COPY_BYTES : sizeof(there), landed = 0, number;
        struct region_window handle = {0};
        struct fabric_memory *at;
        struct fabric_remote remote;
        struct session_sqe sqe;

        memset(there, 0, sizeof(there));
        assert_int_equal(create(0, names[way], sizeof(there)), NIGH_OK);
        assert_int_equal(open_region(0, names[way], REGION_ALL, &number), NIGH_OK);
        assert_int_equal(byte_at(0, number, 0), 0);
        link_begin();
        assert_int_equal(fabric_memory_register(linked.there.fabric, there, reach, FABRIC_HOST,
                                                FABRIC_REMOTE_WRITE | FABRIC_LOCAL_WRITE, &at),
                         NIGH_OK);
        remote = fabric_memory_remote(linked.there.fabric, at, there);
        handle.address = remote.address;
        handle.key = remote.key;
        known_handle_is_set(names[way], handle);
        sqe = a_fill(number, 0, 7, sizeof(there));
        put(0, &sqe);
        away_begin(0);
        if (way == 1) {
            known_handle_is_set(names[way], REGION_NO_WINDOW);
        }
        links_pass(200);
        away_end();
        assert_true(SUPPORT_WAIT(has_ended(0), WAIT_MS));
        link_end();
        assert_int_equal(ring_of(0)->cq[(completed(0) - 1) % LIMIT_RING_ENTRIES].status, NIGH_OK);
        while (landed < sizeof(there) && there[landed] == 7) {
            landed++;
        }
        assert_int_equal(landed, (way == 0 ? 2 : 4) * LIMIT_REGION_COPY_BYTES);
        for (uint64_t n = 0; n < sizeof(there); n += LIMIT_REGION_COPY_BYTES) {
            assert_int_equal(byte_at(0, number, n), n < landed ? 0 : 7);
            assert_int_equal(byte_at(0, number, n + LIMIT_REGION_COPY_BYTES - 1),
                             n < landed ? 0 : 7);
        }
    }
}

/* ---- other lives of a node ------------------------------------------------- */

/* Who was at the other end of the link begins anew, with what it had where that was. */
static void meet_again(uint32_t incarnation)
{
    echo_channel = NULL;
    links_destroy(linked.there.links);
    links_peer_down(linked.here.links, 0, NIGH_PEER_LOST, sim_now_us(linked.sim));
    side_links(&linked.there, 0, incarnation);
    side_meets(&linked.there, &linked.here, 1, 1);
    side_meets(&linked.here, &linked.there, 0, incarnation);
    links_pass(1000);
    assert_non_null(linked.here.link);
    assert_true(link_carries(linked.here.link, LINK_REGIONS));
    echo_channel = link_rpc(linked.here.link);
}

/* One of everything that posts, to and from another node: all of the first eight bytes. */
static void put_one_of_each(uint32_t slot, uint64_t number, uint64_t other)
{
    struct session_sqe sqe = a_question(SESSION_REGION_READ, number, 0, 0);

    sqe.ref = 8;
    put(slot, &sqe);
    put_writes(slot, number, 1);
    sqe = a_fill(number, 0, 5, 8);
    put(slot, &sqe);
    sqe = a_question(SESSION_REGION_ADD, number, 0, 0);
    sqe.ref = 1;
    put(slot, &sqe);
    sqe = a_question(SESSION_REGION_SWAP, number, 0, 8);
    put(slot, &sqe);
    (void)lane_serve(lane, slot);
    put_copy(slot, number, other, 8);
    put_copy(slot, other, number, 8);
}

static void lanes_pass(uint32_t turns)
{
    for (uint32_t n = 0; n < turns; n++) {
        links_pass(10);
        lane_region_posts_retry(lane->regions);
        lane_regions_tell(lane->regions);
        (void)lane_region_copies_turn(lane->regions);
    }
}

/* A chunk is another life's of its node than the link is to, which stands still, or of which this
 * node knows nothing: nothing goes there, though the handle opens something; nor is anybody asked
 * to. What goes to the life that is there does, and the rest when the other is met. */
static void what_is_another_lifes_does_not_go_to_this_one(void **state)
{
    static const uint8_t none[8];
    uint64_t handles[SLOTS][ROUND];
    uint32_t before, others;

    (void)state;
    round_open(2, 4096, handles);
    round_begin();
    agreed_put(&lane->regions->in, 1, true);
    chunk_of("x")->node = 1;
    chunk_of("y")->incarnation = 2; /* at node 1, too */
    before = completed(0);
    others = completed(1);
    put_one_of_each(0, handles[0][1], handles[0][2]);
    lanes_pass(50);
    assert_int_equal(completed(0), before);
    assert_int_equal(asked.count, 0);
    assert_memory_equal(around.bytes, none, sizeof(none));
    put_writes(1, handles[1][0], 1);
    lanes_pass(10);
    assert_int_equal(completed(1), others + 1);
    assert_int_equal(last_of(1).status, NIGH_OK);
    chunk_of("z")->incarnation = 2;
    meet_again(2);
    lanes_pass(50);
    answer_asked(); /* what may be brought from there to there now */
    lanes_pass(50);
    assert_int_equal(completed(0), before + 7);
    while (completed(0) != before) {
        assert_int_equal(ring_of(0)->cq[before++ % LIMIT_RING_ENTRIES].status, NIGH_OK);
    }
    round_end();
    agreed_put(&lane->regions->in, 1, false);
}

/* A chunk that moves here is not read out of another life of the node that lends it: without a link
 * to that one the move fails. */
static void what_moves_is_not_read_from_another_life(void **state)
{
    struct lane_regions *at = lane->regions;
    struct region_holder_act act = {.action = REGION_ACT_COPY,
                                    .bytes = 4096,
                                    .source = {.incarnation = 2, .handle = {.address = 64}}};
    struct region *region;
    struct region_chunk_here *chunk;
    struct region_window before;

    (void)state;
    assert_int_equal(create(0, "r", 4096), NIGH_OK);
    region = regions_find(at->regions, "r", 1);
    chunk = ((struct region_here *)region_data(region))->chunks[0];
    before = chunk->handle;
    link_begin();
    away_begin(0);
    lane_region_act(at, region, &act);
    away_end();
    assert_int_equal(chunk->copies, 0);
    assert_int_equal(chunk->did, NIGH_PEER_LOST);
    list_remove(&chunk->link); /* which its holder did not ask for */
    chunk->handle = before;
}

/* ---- words of this node ---------------------------------------------------- */

/* Beside peers, over a fabric whose atomics are the processor's, too, or are not. `closed`: its
 * chunk is not open any more, and who asks does not know it yet. What it found. */
static uint64_t change_word(struct session_sqe *sqe, const char *name, uint32_t caps, bool closed)
{
    struct region *region = regions_find(lane->regions->regions, name, 1);
    struct region_here *here = region_data(region);
    struct region_chunk_here *chunk = here->chunks[0];
    struct region_window before = chunk->handle, handle = {0};
    struct fabric_memory *at;
    struct fabric_remote remote;

    link_begin();
    linked.members.self = 0; /* the node where the chunk is, as the lane knows it */
    linked.here.fabric->caps.ops &= ~(uint32_t)FABRIC_CAN_ATOMICS_HERE;
    linked.here.fabric->caps.ops |= caps;
    assert_int_equal(fabric_memory_register(linked.here.fabric, chunk->memory->address,
                                            chunk->memory->bytes, FABRIC_HOST,
                                            FABRIC_LOCAL_WRITE | FABRIC_REMOTE_ATOMIC, &at),
                     NIGH_OK);
    remote = fabric_memory_remote(linked.here.fabric, at, chunk->memory->address);
    handle.address = remote.address;
    handle.key = remote.key;
    known_handle_is_set(name, handle);
    chunk->handle = closed ? before : handle;
    echo_links = linked.here.links;
    put(0, sqe);
    away_begin(0);
    links_pass(200);
    away_end();
    echo_links = NULL;
    chunk->handle = before;
    known_handle_is_set(name, before);
    assert_true(SUPPORT_WAIT(has_ended(0), WAIT_MS));
    assert_int_equal(last_of(0).status, NIGH_OK);
    return last_of(0).generation;
}

/* Where the fabric's atomics are not the processor's the lane does none itself. */
static void own_words_go_the_way_of_peers(void **state)
{
    const uint64_t old = 12;
    struct session_sqe add, swap;
    uint64_t number;

    (void)state;
    assert_int_equal(create(0, "r", 4096), NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_ALL, &number), NIGH_OK);
    assert_int_equal(byte_at(0, number, 8), 0);
    add = a_question(SESSION_REGION_ADD, number, 8, 0);
    add.ref = 12;
    assert_int_equal(change_word(&add, "r", 0, false), 0);
    assert_int_equal(links_counters(linked.here.links)->atomics, 1);
    link_end();
    assert_int_equal(byte_at(0, number, 8), 12);
    swap = a_question(SESSION_REGION_SWAP, number, 8, sizeof(old));
    swap.ref = 7;
    memcpy(memory, &old, sizeof(old));
    assert_int_equal(change_word(&swap, "r", 0, false), 12);
    assert_int_equal(links_counters(linked.here.links)->atomics, 1);
    link_end();
    assert_int_equal(byte_at(0, number, 8), 7);
    assert_int_equal(change_word(&add, "r", FABRIC_CAN_ATOMICS_HERE, false), 7);
    assert_int_equal(links_counters(linked.here.links)->atomics, 0); /* the processor's */
    link_end();
    assert_int_equal(byte_at(0, number, 8), 19);
}

/* What is closed here is not asked of the device: its refusal would cost others what is under way.
 */
static void an_own_word_that_is_closed_is_not_presented(void **state)
{
    struct session_sqe add;
    uint64_t number;

    (void)state;
    assert_int_equal(create(0, "r", 4096), NIGH_OK);
    assert_int_equal(open_region(0, "r", REGION_ALL, &number), NIGH_OK);
    add = a_question(SESSION_REGION_ADD, number, 8, 0);
    add.ref = 12;
    assert_int_equal(change_word(&add, "r", 0, true), 0);
    assert_int_equal(links_counters(linked.here.links)->atomics, 0);
    link_end();
    assert_int_equal(byte_at(0, number, 8), 12);
}

/* ---- shares --------------------------------------------------------------- */

/* So few that four sessions can use them up, beside what is kept for what they leave behind. */
static struct session_shares_table *few(enum region_table table, uint32_t places, uint32_t own)
{
    struct session_shares *shares = &lane->regions->shares;

    assert_int_equal(shares->tables[table].used, 0);
    session_shares_table(shares, table, places + own * SLOTS, own);
    return &shares->tables[table];
}

/* A lock that others may have beside it, or wait for behind one that has it alone. */
static void put_lock(uint32_t slot, uint64_t handle, uint64_t number)
{
    const struct session_region_lock lock = {.number = number, .mode = SESSION_REGION_SHARED};
    struct session_sqe sqe = a_question(SESSION_REGION_LOCK, handle, 0, sizeof(lock));
    const uint32_t at = slot * LIMIT_CALL_BYTES + (uint32_t)number % 256 * sizeof(lock);

    memcpy(memory + at, &lock, sizeof(lock));
    sqe.offset = OFFSET + at;
    sqe.cookie = (uint32_t)number;
    put(slot, &sqe);
}

/* Of the last `count` completions, those of this status. */
static uint32_t ended_with(uint32_t slot, uint32_t count, nigh_status status)
{
    uint32_t found = 0;

    for (uint32_t n = 0; n < count; n++) {
        found += ring_of(slot)->cq[(completed(slot) - 1 - n) % LIMIT_RING_ENTRIES].status == status;
    }
    return found;
}

static void open_all(const char *name, uint64_t *handles)
{
    assert_int_equal(create(0, name, 4096), NIGH_OK);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        assert_int_equal(open_region(slot, name, REGION_READ, &handles[slot]), NIGH_OK);
    }
}

/* One that has as many operations wait as it can gets no more than its share: it is told so, and
 * others read, and wait for locks, as ever; its user's other session too. */
static void who_waits_leaves_operations_to_others(void **state)
{
    const struct session_shares_table *table = few(REGION_TABLE_IOS, 128, 8);
    uint64_t handles[SLOTS], mine, held;
    uint32_t before;

    (void)state;
    open_all("r", handles);
    assert_int_equal(open_region(0, "r", REGION_ALL, &mine), NIGH_OK);
    held = locked(0, mine);
    before = completed(1);
    for (uint32_t n = 0; n < 200; n++) {
        put_lock(1, handles[1], 5);
    }
    pass(10);
    assert_int_equal(table->slot_used[1], 8 + 96 / 3);
    assert_int_equal(completed(1) - before, 200 - 8 - 96 / 3);
    assert_int_equal(ended_with(1, 200 - 8 - 96 / 3, NIGH_BUSY), 200 - 8 - 96 / 3);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        before = completed(slot);
        for (uint32_t n = 0; n < 8 && slot != 1; n++) {
            put_lock(slot, handles[slot], 5);
        }
        pass(4);
        assert_int_equal(completed(slot), before); /* they wait */
    }
    assert_int_equal(table->used, 8 + 96 / 3 + 3 * 8);
    before = completed(2);
    put_lock(2, handles[2], 6);
    for (uint32_t n = 0; n < 4; n++) {
        struct session_sqe sqe = a_read(handles[2], 8);

        put(2, &sqe);
    }
    pass(10);
    assert_int_equal(completed(2), before + 5);
    assert_int_equal(ended_with(2, 5, NIGH_OK), 5);
    lane_session_close(lane, 1);
    is_open[1] = false;
    assert_int_equal(table->used, 3 * 8);
    let_go(0, held);
    pass(10);
    assert_int_equal(table->used, 0);
    assert_true(session_shares_are_valid(&lane->regions->shares));
    open_session(1);
}

/* Nor does one that holds as many locks as it can. */
static void who_holds_locks_leaves_locks_to_others(void **state)
{
    const struct session_shares_table *table = few(REGION_TABLE_HOLDS, 64, 4);
    uint64_t handles[SLOTS];

    (void)state;
    open_all("r", handles);
    for (uint32_t n = 0; n < 100; n++) {
        put_lock(1, handles[1], n);
    }
    pass(20);
    assert_int_equal(ended_with(1, 100, NIGH_OK), 4 + 48 / 3);
    assert_int_equal(ended_with(1, 100, NIGH_BUSY), 100 - 4 - 48 / 3);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        for (uint32_t n = 0; n < 4; n++) {
            put_lock(slot, handles[slot], 100 + n);
        }
        pass(10);
        assert_int_equal(ended_with(slot, 4, slot == 1 ? NIGH_BUSY : NIGH_OK), 4);
    }
    lane_session_close(lane, 1);
    is_open[1] = false;
    pass(4);
    assert_int_equal(table->used, 3 * 4);
    open_session(1);
}

/* Nor one that wants all changed at once. */
static void who_changes_leaves_changes_to_others(void **state)
{
    const struct session_shares_table *table = few(REGION_TABLE_ASKED, 16, 1);
    static const uint32_t counts[SLOTS] = {1, 32, 1, 1};
    struct session_region_make make = {.size_bytes = 8};

    (void)state;
    for (uint32_t slot = SLOTS; slot-- > 0;) {
        for (uint32_t n = 0; n < counts[slot]; n++) {
            struct session_sqe sqe = a_question(SESSION_REGION_CREATE, 0, 0, sizeof(make) + 2);
            uint8_t *at = memory + slot * LIMIT_CALL_BYTES + n * 64;

            memcpy(at, &make, sizeof(make));
            at[sizeof(make)] = (uint8_t)('a' + slot);
            at[sizeof(make) + 1] = (uint8_t)('0' + n);
            sqe.offset = OFFSET + (uint64_t)(at - memory);
            put(slot, &sqe);
        }
    }
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        assert_true(SUPPORT_WAIT(has_ended(slot), WAIT_MS));
        assert_int_equal(ended_with(slot, counts[slot], NIGH_OK),
                         slot == 1 ? 1 + 12 / 3 : counts[slot]);
    }
    assert_int_equal(table->used, 0);
}

/* Nor a member's sessions from other members', or from those here. */
static void a_member_leaves_changes_to_others(void **state)
{
    struct lane_regions *at = lane->regions;
    struct region_asked *taken[16];
    uint32_t count = 0;

    (void)state;
    link_begin();
    share_init(&at->peers_asked, 8, 2);
    while ((taken[count] = lane_region_asked_take(at, 0, linked.here.link)) != NULL) {
        count++;
    }
    assert_int_equal(count, 1 + 6 - 6 / LIMIT_SHARE_LEFT);
    assert_true(share_take(&at->peers_asked, 1));
    assert_int_equal(at->shares.tables[REGION_TABLE_ASKED].used, 0);
    while (count > 0) {
        lane_region_asked_drop(at, taken[--count]);
    }
    share_give(&at->peers_asked, 1);
    assert_int_equal(at->peers_asked.used[0] + at->peers_asked.common_used, 0);
    link_end();
}

/* Nor one that maps all it can. */
static void who_maps_leaves_maps_to_others(void **state)
{
    const struct session_shares_table *table = few(REGION_TABLE_MAPS, 16, 1);
    uint64_t mine, others;

    (void)state;
    mine = shared_with_another(PIECE, &others);
    for (uint32_t n = 0; n < 1 + 12 / 3; n++) {
        assert_int_equal(map(0, mine, 8, 0).status, NIGH_OK);
    }
    assert_int_equal(map(0, mine, 8, 0).status, NIGH_LIMIT);
    assert_int_equal(map(2, others, 8, 0).status, NIGH_OK);
    lane_session_close(lane, 0);
    open_session(0);
    assert_int_equal(table->used, 1);
}

/* What is canceled of a session's own is looked for among its own alone. */
static void one_cancels_its_own(void **state)
{
    struct session_sqe cancel = {.op = SESSION_OP_CANCEL, .cookie = 9, .argument = 5};
    uint64_t handles[SLOTS], mine, held;
    uint32_t before;

    (void)state;
    open_all("r", handles);
    assert_int_equal(open_region(0, "r", REGION_ALL, &mine), NIGH_OK);
    held = locked(0, mine);
    put_lock(1, handles[1], 5);
    put_lock(2, handles[2], 5);
    pass(4);
    before = completed(2);
    put(1, &cancel);
    pass(4);
    assert_int_equal(completed(2), before);
    assert_int_equal(ended_with(1, 2, NIGH_CANCELED), 1);
    let_go(0, held);
    pass(4);
    assert_int_equal(ended_with(2, 1, NIGH_OK), 1);
}

/* ---- random lives --------------------------------------------------------- */

#define NAMES 3u
#define SIZE  20000u

/* What is to be in a region of each name, as long as no more than one session writes at once. */
static uint8_t model[NAMES][SIZE];
static bool is_there[NAMES];
static uint64_t numbers[SLOTS][NAMES];
static bool has[SLOTS][NAMES];

static const char *name_of(uint32_t n)
{
    static const char *const names[NAMES] = {"a", "b", "c"};

    return names[n];
}

static void check_read(uint32_t slot, uint32_t n, uint64_t offset, uint64_t count)
{
    nigh_status status = read_some(slot, numbers[slot][n], offset, count);

    if (status == NIGH_OK) {
        assert_true(is_there[n]);
        assert_memory_equal(memory, model[n] + offset, count);
    } else if (status == NIGH_STALE) { /* a map of it is of memory that a grant took away */
        assert_true(n == 0 && lane->regions->map_count > 0);
    } else if (status != NIGH_NOT_FOUND) { /* it was opened before another had its name */
        fail_msg("%s: %s", name_of(n), nigh_status_name(status));
    }
}

static void check_write(uint32_t slot, uint32_t n, uint64_t offset, uint64_t count,
                        uint64_t *random)
{
    for (uint64_t i = 0; i < count; i++) {
        memory[i] = (uint8_t)(support_random(random) >> 30);
    }
    if (write_some(slot, numbers[slot][n], offset, count) == NIGH_OK) {
        assert_true(is_there[n]);
        memcpy(model[n] + offset, memory, count);
    }
}

static void check_fill(uint32_t slot, uint32_t n, uint64_t offset, uint64_t count, uint8_t byte)
{
    if (ask(slot, a_fill(numbers[slot][n], offset, byte, count)).status == NIGH_OK) {
        assert_true(is_there[n]);
        memset(model[n] + offset, byte, count);
    }
}

static void check_copy(uint32_t slot, uint32_t n, uint64_t offset, uint64_t count, uint64_t *random)
{
    uint32_t from = (uint32_t)(support_random(random) >> 20) % NAMES;
    uint64_t at = (support_random(random) >> 20) % (SIZE - count + 1);

    if (has[slot][from] &&
        ask(slot, a_copy(numbers[slot][n], offset, numbers[slot][from], at, count)).status ==
            NIGH_OK) {
        assert_true(is_there[n] && is_there[from]);
        memmove(model[n] + offset, model[from] + at, count);
    }
}

static void end_session(uint32_t slot, bool rests)
{
    if (rests) {
        lane_session_rest(lane, slot);
        assert_int_equal(lane_session_reset(lane, &seats[slot]), NIGH_OK);
    } else {
        lane_session_close(lane, slot);
        open_session(slot);
    }
    memset(has[slot], 0, sizeof has[slot]);
}

/* Something whose end nobody waits for. */
static void leave_something(uint32_t slot, uint64_t *random)
{
    struct session_sqe sqe = a_question(
        (uint32_t)(support_random(random) >> 20) % SESSION_REGION_WHATS, numbers[slot][0],
        support_random(random) % SIZE, support_random(random) >> 20 & 127);

    sqe.ref = support_random(random) >> 20 & 255;
    sqe.flags = (support_random(random) >> 20 & 15) == 0;
    sqe.argument = support_random(random) >> 20 & 3;
    if (sqe.name_size == SESSION_REGION_FREE || sqe.name_size == SESSION_REGION_RESIZE ||
        sqe.name_size == SESSION_REGION_WRITE || sqe.name_size == SESSION_REGION_ADD ||
        sqe.name_size == SESSION_REGION_SWAP || sqe.name_size == SESSION_REGION_CREATE ||
        sqe.name_size == SESSION_REGION_FILL || sqe.name_size == SESSION_REGION_COPY ||
        sqe.name_size == SESSION_REGION_CLOSE) {
        sqe.id[4] ^= 0x55; /* of no handle, so that what is in regions stays known */
        sqe.data_size = min_u64(sqe.data_size, sqe.name_size == SESSION_REGION_COPY ? 15 : 31);
    }
    if (sqe.name_size == SESSION_REGION_MAP) {
        sqe.data_size = 0; /* else it is refused, almost always */
    }
    for (uint32_t n = 0; n < 64; n++) {
        memory[n] = (uint8_t)(support_random(random) >> 20);
    }
    submit(slot, &sqe);
}

static void step(uint64_t *random)
{
    uint32_t what = (uint32_t)(support_random(random) >> 20) % 16;
    uint32_t slot = (uint32_t)(support_random(random) >> 20) % SLOTS;
    uint32_t n = (uint32_t)(support_random(random) >> 20) % NAMES;
    uint64_t offset = (support_random(random) >> 20) % SIZE;
    uint64_t count = 1 + (support_random(random) >> 20) % min_u64(SIZE - offset, LIMIT_CALL_BYTES);
    nigh_status status;

    switch (what) {
    case 0:
        status = create_with(slot, name_of(n), SIZE, n == 0 ? SESSION_REGION_MAPPABLE : 0);
        if (status != NIGH_OK && (status == NIGH_EXISTS) != is_there[n]) {
            fail_msg("%s: %s", name_of(n), nigh_status_name(status));
        }
        if (status == NIGH_OK) {
            memset(model[n], 0, SIZE);
            is_there[n] = true;
        }
        break;
    case 1:
        if (has[slot][n] &&
            ask(slot, a_question(SESSION_REGION_FREE, numbers[slot][n], 0, 0)).status == NIGH_OK) {
            is_there[n] = false;
        }
        break;
    case 2: end_session(slot, true); break;
    case 3: end_session(slot, false); break;
    case 4:
        if (has[slot][n]) {
            assert_int_equal(
                ask(slot, a_question(SESSION_REGION_CLOSE, numbers[slot][n], 0, 0)).status,
                NIGH_OK);
            has[slot][n] = false;
        }
        break;
    case 5:
    case 6: leave_something(slot, random); break;
    case 7: now_us += 3; break;
    default:
        if (!has[slot][n]) {
            has[slot][n] = open_region(slot, name_of(n), REGION_ALL, &numbers[slot][n]) == NIGH_OK;
        } else if (what == 8) {
            check_fill(slot, n, offset, count, (uint8_t)offset);
        } else if (what < 11) {
            check_copy(slot, n, offset, count, random);
        } else if (what < 13) {
            check_write(slot, n, offset, count, random);
        } else {
            check_read(slot, n, offset, count);
        }
    }
}

static void random_lives_keep_what_is_written(void **state)
{
    uint64_t random = support_seed(), end_us = support_now_us() + support_budget_ms(1500) * 1000;
    uint64_t steps = 0;

    (void)state;
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        seats[slot].uid = 70;
    }
    memset(is_there, 0, sizeof is_there);
    memset(has, 0, sizeof has);
    for (; support_now_us() < end_us || steps < 600; steps++) {
        step(&random);
    }
    now_us += 10;
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        assert_true(SUPPORT_WAIT(has_ended(slot), WAIT_MS));
        end_session(slot, false);
    }
    assert_int_equal(lane->regions->map_count, 0);
    assert_int_equal(lane->regions->kept_bytes, 0);
    print_message("# %llu steps, %llu operations\n", (unsigned long long)steps,
                  (unsigned long long)lane->regions->counts.operations);
}

/* ---- placed --------------------------------------------------------------- */

/* Ranks that are not, none, more than may be, and more than there are bytes of. */
static void places_that_are_wrong_are_refused(void **state)
{
    static const struct {
        uint32_t ranks, bytes;
        uint16_t rank;
        nigh_status status;
    } cases[] = {
        {1, 3, 0, NIGH_OK},
        {2, 5, SESSION_REGION_LOST, NIGH_OK},
        {1, 3, 1, NIGH_INVALID},
        {0, 1, 0, NIGH_INVALID},
        {2, 4, 0, NIGH_INVALID}, /* no name */
        {LIMIT_REGION_CHUNKS + 1, 2 * LIMIT_REGION_CHUNKS + 3, 0, NIGH_INVALID},
        {UINT32_MAX / 2 + 1, 1, 0, NIGH_INVALID},
        {UINT32_MAX, 60, 0, NIGH_INVALID},
    };

    (void)state;
    for (uint32_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        struct session_region_make make = {
            .size_bytes = 1, .where = SESSION_REGION_AT, .rank = cases[n].ranks};

        memset(memory, 'a' + (int)n, LIMIT_CALL_BYTES);
        memcpy(memory, &make, sizeof(make));
        for (uint32_t at = 0; at < cases[n].ranks && at <= LIMIT_REGION_CHUNKS; at++) {
            memcpy(memory + sizeof(make) + at * sizeof(uint16_t), &cases[n].rank, sizeof(uint16_t));
        }
        assert_int_equal(
            ask(0, a_question(SESSION_REGION_CREATE, 0, 0, sizeof(make) + cases[n].bytes)).status,
            cases[n].status);
    }
}

/* ---- listed --------------------------------------------------------------- */

#define LISTED 300u

static struct session_region_page listed; /* the last page */

static nigh_status list_after(uint32_t slot, const char *after, uint32_t after_bytes)
{
    struct session_sqe sqe = a_question(SESSION_REGION_LIST, 0, 0, after_bytes);
    struct session_cqe cqe;

    memmove(memory, after, after_bytes);
    cqe = ask(slot, sqe);
    if (cqe.status == NIGH_OK) {
        assert_int_equal(cqe.data_size, sizeof(listed));
        assert_int_equal(cqe.offset, OFFSET);
        memcpy(&listed, memory, sizeof(listed));
        assert_int_equal(listed.silent, 0);
    }
    return cqe.status;
}

/* Its name, as a string; the next one's place. */
static uint32_t look_at(uint32_t at, struct session_region_entry *entry,
                        char name[LIMIT_REGION_NAME_BYTES + 1])
{
    memcpy(entry, listed.entries + at, sizeof(*entry));
    memset(name, 0, LIMIT_REGION_NAME_BYTES + 1);
    memcpy(name,
           listed.entries + at + sizeof(*entry) +
               entry->user_count * sizeof(struct session_region_user) +
               entry->chunk_count * sizeof(uint16_t),
           entry->name_bytes);
    return at + entry->bytes;
}

/* Counts those that a session sees, each once and in order. */
static uint32_t count_listed(uint32_t slot, uint32_t *pages)
{
    char last[LIMIT_REGION_NAME_BYTES + 1] = "", name[LIMIT_REGION_NAME_BYTES + 1];
    uint32_t count = 0;

    *pages = 0;
    do {
        uint32_t at = 0;

        assert_int_equal(list_after(slot, last, (uint32_t)strlen(last)), NIGH_OK);
        for (uint32_t n = 0; n < listed.count; n++) {
            struct session_region_entry entry;

            at = look_at(at, &entry, name);
            assert_true(strcmp(name, last) > 0);
            assert_int_equal(entry.size_bytes, 1 + strlen(name));
            assert_int_equal(entry.home, 0);
            assert_int_equal(entry.rights, slot < 2 ? REGION_ALL : REGION_READ);
            memcpy(last, name, sizeof(last));
        }
        assert_int_equal(at, listed.bytes);
        count += listed.count;
        (*pages)++;
    } while (listed.more != 0);
    return count;
}

/* Names of any bytes and lengths. */
static void odd_name(uint32_t n, char name[LIMIT_REGION_NAME_BYTES + 1])
{
    uint64_t random = n * UINT64_C(77) + 1;
    uint32_t length = 8 + (uint32_t)(support_random(&random) >> 20) % 56;

    memset(name, 0, LIMIT_REGION_NAME_BYTES + 1);
    for (uint32_t at = 0; at < length; at++) {
        name[at] = (char)(1 + (support_random(&random) >> 20) % 255);
    }
}

static void all_are_listed_once_and_in_order(void **state)
{
    char name[LIMIT_REGION_NAME_BYTES + 1];
    uint64_t handle;
    uint32_t pages;

    (void)state;
    assert_int_equal(count_listed(0, &pages), 0);
    for (uint32_t n = 0; n < LISTED; n++) {
        odd_name(n, name);
        assert_int_equal(create(0, name, 1 + strlen(name)), NIGH_OK);
    }
    assert_int_equal(count_listed(0, &pages), LISTED);
    assert_true(pages > 2);
    assert_int_equal(count_listed(2, &pages), LISTED); /* of the group */
    for (uint32_t n = 0; n < LISTED; n += 3) {
        odd_name(n, name);
        assert_int_equal(open_region(0, name, REGION_ALL, &handle), NIGH_OK);
        assert_int_equal(ask(0, a_question(SESSION_REGION_FREE, handle, 0, 0)).status, NIGH_OK);
        assert_int_equal(ask(0, a_question(SESSION_REGION_CLOSE, handle, 0, 0)).status, NIGH_OK);
    }
    assert_int_equal(count_listed(0, &pages), LISTED - LISTED / 3);
}

/* Also where more of them than a home looks at for one answer lie before what one sees. */
static void who_has_no_right_does_not_see(void **state)
{
    char name[LIMIT_REGION_NAME_BYTES + 1];
    struct session_region_entry entry;
    struct session_region_grant nobody = {.whose = REGION_OF_GROUP, .take = REGION_READ};
    struct session_region_grant him = {.whose = REGION_OF_USER, .user = 71, .give = REGION_WRITE};
    uint64_t handle;

    (void)state;
    for (uint32_t n = 0; n < LIMIT_REGION_LIST_LOOKS + 40; n++) {
        (void)snprintf(name, sizeof(name), "hidden-%04u", n);
        assert_int_equal(create(0, name, 1), NIGH_OK);
        assert_int_equal(open_region(0, name, REGION_MASTER, &handle), NIGH_OK);
        memcpy(memory, &nobody, sizeof(nobody));
        assert_int_equal(ask(0, a_question(SESSION_REGION_GRANT, handle, 0, sizeof(nobody))).status,
                         NIGH_OK);
    }
    assert_int_equal(list_after(2, "", 0), NIGH_OK);
    assert_int_equal(listed.count, 0);
    assert_int_equal(listed.more, 0);
    memcpy(memory, &him, sizeof(him));
    assert_int_equal(ask(0, a_question(SESSION_REGION_GRANT, handle, 0, sizeof(him))).status,
                     NIGH_OK);
    assert_int_equal(list_after(2, "", 0), NIGH_OK);
    assert_int_equal(listed.count, 1);
    (void)look_at(0, &entry, name);
    assert_int_equal(entry.rights, REGION_WRITE);
    assert_int_equal(entry.user_count, 1);
    assert_int_equal(strcmp(name, "hidden-0295"), 0);
    assert_int_equal(list_after(2, name, (uint32_t)strlen(name)), NIGH_OK);
    assert_int_equal(listed.count, 0);
}

static void a_list_that_is_wrong_is_refused(void **state)
{
    struct session_sqe sqe = a_question(SESSION_REGION_LIST, 0, 0, 0);
    char long_name[LIMIT_REGION_NAME_BYTES + 1];

    (void)state;
    memset(long_name, 'x', sizeof(long_name));
    assert_int_equal(create(0, "r", 1), NIGH_OK);
    assert_int_equal(list_after(0, long_name, sizeof(long_name)), NIGH_INVALID);
    assert_int_equal(list_after(0, long_name, sizeof(long_name) - 1), NIGH_OK);
    assert_int_equal(listed.count, 0);
    assert_int_equal(list_after(0, "a\0b", 3), NIGH_INVALID);
    assert_int_equal(list_after(0, "q", 1), NIGH_OK);
    assert_int_equal(listed.count, 1);
    sqe.offset = OFFSET + sizeof memory - 8; /* the answer has no room */
    assert_int_equal(ask(0, sqe).status, NIGH_INVALID);
    sqe = a_question(SESSION_REGION_LIST, 1, 0, 0);
    assert_int_equal(ask(0, sqe).status, NIGH_INVALID);
    sqe = a_question(SESSION_REGION_LIST, 0, 1, 0);
    assert_int_equal(ask(0, sqe).status, NIGH_INVALID);
    sqe = a_question(SESSION_REGION_LIST, 0, 0, 0);
    sqe.flags = SESSION_FLAG_INTO;
    assert_int_equal(ask(0, sqe).status, NIGH_INVALID);
    sqe.flags = 0;
    sqe.argument = 0;
    assert_int_equal(ask(0, sqe).status, NIGH_TIMEOUT);
}

/* One session has some under way at once, at most; what is canceled, or whose session went, is
 * over. */
static void lists_have_a_bound(void **state)
{
    struct session_sqe sqe = a_question(SESSION_REGION_LIST, 0, 0, 0);

    (void)state;
    for (uint32_t n = 0; n < LIMIT_REGION_LISTS_EACH + 1; n++) {
        sqe.cookie = n;
        sqe.offset = OFFSET + n * LIMIT_CALL_BYTES;
        put(0, &sqe);
    }
    turn();
    assert_true(SUPPORT_WAIT(has_ended(0), WAIT_MS));
    for (uint32_t n = 0; n < LIMIT_REGION_LISTS_EACH + 1; n++) {
        const struct session_cqe *cqe =
            &ring_of(0)->cq[(completed(0) - 1 - n) % LIMIT_RING_ENTRIES];

        /* An old client does not know NIGH_OVERLOADED. */
        assert_int_equal(cqe->status, cqe->cookie == LIMIT_REGION_LISTS_EACH ? NIGH_BUSY : NIGH_OK);
    }
    put(0, &sqe);
    lane_session_close(lane, 0);
    is_open[0] = false;
    turn();
    assert_int_equal(lane->regions->list_count, 0);
    assert_int_equal(lane->regions->shares.tables[REGION_TABLE_LISTS].used, 0);
    open_session(0);
    assert_int_equal(list_after(0, "", 0), NIGH_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_handle_is_its_sessions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fills_and_copies_are_judged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_copy_that_does_not_fit_copies_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(copies_without_buffers_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_has_an_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(places_that_are_wrong_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_are_listed_once_and_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_has_no_right_does_not_see, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_list_that_is_wrong_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lists_have_a_bound, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_question_ends_in_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_session_that_ends_leaves_no_deadline, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_said_to_oneself_comes_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_neighbour_with_long_operations_holds_nobody_up, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(neighbours_share_alike, set_up, tear_down),
        cmocka_unit_test_setup_teardown(low_priority_comes_last, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_copies_leaves_buffers_to_others, set_up_with_rates,
                                        tear_down),
        cmocka_unit_test_setup_teardown(copies_share_buffers_alike, set_up_with_rates, tear_down),
        cmocka_unit_test_setup_teardown(one_buffer_goes_round, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_comes_again_leaves_buffers_to_others, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(buffers_are_made_as_they_are_wanted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(copies_leave_copies_to_others, set_up_with_rates,
                                        tear_down),
        cmocka_unit_test_setup_teardown(fills_wait_for_no_buffer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_session_leaves_buffers_to_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_slot_does_not_inherit_buffers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_node_that_stands_still_leaves_buffers_to_others, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(buffers_that_come_back_go_round, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_session_has_no_more_than_its_rates, set_up_with_rates,
                                        tear_down),
        cmocka_unit_test_setup_teardown(changes_and_lists_are_operations, set_up_with_rates,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_held_of_no_handle_goes_with_its_session,
                                        set_up_with_rates, tear_down),
        cmocka_unit_test_setup_teardown(what_is_held_goes_with_its_session, set_up_with_rates,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_map_is_its_sessions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_brought_needs_a_handle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_has_it_open_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_has_no_right_left_looks_at_it_still, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_home_that_is_full_frees_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_are_told_in_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_revoke_leaves_who_has_it_mapped_behind, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_was_given_memory_once_is_not_forgotten, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_keeps_its_rights_keeps_its_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_donation_is_its_sessions_and_is_used_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_donation_goes_with_the_question, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_donor_that_ends_leaves_a_region_or_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(donations_are_few_and_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_offered_in_vain_may_be_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_asked_for_is_the_questions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_address_is_of_this_process_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_who_have_memory_are_anybody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_revoke_waits_for_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_free_waits_for_no_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lock_in_doubt_goes_on_behind_a_fence, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lock_stays_while_its_region_is_pushed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_locks_nothing_is_said_without_a_lease, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_lock_that_is_left_without_a_lease_is_left_for_good,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_is_asked_stops_nothing_of_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_asks_leaves_places_to_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_has_landed_is_not_written_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_has_landed_elsewhere_stays_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_another_lifes_does_not_go_to_this_one, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_moves_is_not_read_from_another_life, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(own_words_go_the_way_of_peers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_own_word_that_is_closed_is_not_presented, set_up,
                                        tear_down),

        cmocka_unit_test_setup_teardown(who_waits_leaves_operations_to_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_holds_locks_leaves_locks_to_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_changes_leaves_changes_to_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_member_leaves_changes_to_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_maps_leaves_maps_to_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_cancels_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(random_lives_keep_what_is_written, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
