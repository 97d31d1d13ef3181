/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls and answers as a client may submit them (node/lane_calls.c): the lane believes nothing that
 * is said of memory, and an answer only of who was asked.
 */
#include "support/support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "memory/memfd.h"
#include "node/lane_internal.h"
#include "node_echo_store.h"

#define SLOT   3u
#define OFFSET UINT64_C(65536)
/* Of files, of which a uid has half. */
#define MOST_BYTES (8 * SESSION_PAGE)
/* Populating so much takes 15 ms of a processor and more, as does unmapping and giving back. */
#define LARGE_BYTES (UINT64_C(96) << 20)
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define TURNS_US 12000u /* populating takes longer still then */
#else
#define TURNS_US 4000u
#endif

static struct session_node_page page;
static struct lane *lane;
static struct services *services;
static struct bulk_memories *bulks;
static struct lane_seat seat = {
    .slot = SLOT, .session_id = 9, .pool = 5, .uid = 77, .may_write = true, .socket_fd = -1};
static uint8_t memory[2 * LIMIT_CALL_BYTES];
static uint64_t now_us = 1000;
static struct session_request asked;
static uint32_t asked_count;
static uint8_t asked_bytes[8];

static void on_request(void *context, const struct session_request *request)
{
    (void)context;
    asked = *request;
    asked_count++;
    memcpy(asked_bytes, request->bytes, min_u32(request->count, sizeof asked_bytes));
}

static struct session_service service = {.hash = 0x0201, .slot = SLOT, .handler = on_request};

static void serve(uint32_t slot)
{
    const struct calls_service one = {.hash = service.hash, .tag = &service};

    service.slot = slot;
    calls_set_services(lane->calls, &one, 1, now_us);
}

static bool lanes_are_gone;
static uint64_t most_bytes = MOST_BYTES;

static void no_kick(void *context, uint32_t number)
{
    (void)context;
    (void)number;
    assert_false(lanes_are_gone);
}

static int set_up(void **state)
{
    struct lane_config config = {
        .lanes = 1, .max_sessions = SLOT + 1, .page = &page, .store = {.incarnation = 1}};
    struct bulk_memories_config files = {
        .lanes = 1, .most_bytes = most_bytes, .own_uid = UINT32_MAX, .kick = no_kick};

    (void)state;
    assert_int_equal(services_create(1, no_kick, NULL, &services), NIGH_OK);
    assert_int_equal(bulk_memories_create(&files, &bulks), NIGH_OK);
    config.services = services;
    config.bulks = bulks;
    memset(&page, 0, sizeof(page));
    assert_int_equal(lane_create(&config, &lane), NIGH_OK);
    lane_store(lane)->pools = UINT64_MAX;
    seat.memory = mmap(NULL, session_file_bytes(1), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(lane_session_open(lane, &seat), NIGH_OK);
    memset(memory, 0, sizeof memory);
    echo_leased = (struct echo_leased){.offset = OFFSET, .bytes = sizeof memory, .at = memory};
    asked_count = 0;
    serve(SLOT);
    return 0;
}

/* The session has places of its own, and no lease. */
static int set_up_places(void **state)
{
    seat.has_places = true;
    (void)set_up(state);
    echo_leased = (struct echo_leased){.bytes = 0};
    return 0;
}

static int set_up_large(void **state)
{
    most_bytes = 4 * LARGE_BYTES;
    (void)set_up(state);
    most_bytes = MOST_BYTES;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bulk_memories_stop(bulks);
    lanes_are_gone = true; /* nobody kicks them any more */
    lane_destroy(lane);
    services_destroy(services);
    bulk_memories_destroy(bulks);
    lanes_are_gone = false;
    seat.quota_max_bytes = 0;
    seat.has_places = false;
    munmap(seat.memory, session_file_bytes(1));
    return 0;
}

static struct session_lane *ring(void)
{
    return session_lane_of(seat.memory, 0);
}

static uint32_t completed(void)
{
    return atomic_load(&ring()->cq_tail.value);
}

static const struct session_cqe *last(void)
{
    return &ring()->cq[(completed() - 1) % LIMIT_RING_ENTRIES];
}

static void submit(struct session_sqe sqe)
{
    uint32_t tail = atomic_load(&ring()->sq_tail.value);

    atomic_store(&ring()->cq_head.value, completed());
    ring()->sq[tail % LIMIT_RING_ENTRIES] = sqe;
    atomic_store(&ring()->sq_tail.value, tail + 1);
    atomic_store(session_ready(ring(), SLOT), 1);
    (void)lane_turn(lane, ++now_us);
    assert_true(calls_is_valid(lane->calls));
}

static struct session_sqe a_call(uint32_t cookie)
{
    return (struct session_sqe){.op = SESSION_OP_CALL,
                                .cookie = cookie,
                                .id = {0x01, 0x02},
                                .offset = OFFSET,
                                .data_size = 3,
                                .ref = 16,
                                .argument = UINT64_MAX};
}

static struct session_sqe a_reply(nigh_status status, uint64_t bytes)
{
    return (struct session_sqe){.op = SESSION_OP_REPLY,
                                .cookie = 99,
                                .argument = asked.id,
                                .ref = (uint64_t)(int64_t)status,
                                .offset = OFFSET + LIMIT_CALL_BYTES,
                                .data_size = bytes};
}

static void refused(struct session_sqe sqe, nigh_status status)
{
    uint32_t before = completed(), asked_before = asked_count;

    submit(sqe);
    assert_int_equal(completed(), before + 1);
    assert_int_equal(last()->status, status);
    assert_int_equal(asked_count, asked_before);
}

static void a_call_and_its_answer_go_through_the_rings(void **state)
{
    (void)state;
    memcpy(memory, "ask", 3);
    memcpy(memory + LIMIT_CALL_BYTES, "told", 4);
    submit(a_call(1));
    assert_int_equal(asked_count, 1);
    assert_int_equal(asked.uid, 77);
    assert_int_equal(asked.count, 3);
    assert_memory_equal(asked_bytes, "ask", 3);
    assert_int_equal(completed(), 0);
    submit(a_reply(NIGH_OK, 4));
    assert_int_equal(completed(), 2);
    assert_int_equal(last()->cookie, 99);
    assert_int_equal(last()->status, NIGH_OK);
    assert_int_equal(ring()->cq[0].cookie, 1);
    assert_int_equal(ring()->cq[0].data_size, 4);
    assert_memory_equal(memory, "told", 4);
    refused(a_reply(NIGH_OK, 4), NIGH_NOT_FOUND);
}

/* There was none such when its client was made, which would take the node for a broken one. */
static void an_older_client_is_told_what_it_knows(void **state)
{
    static const nigh_status told[] = {NIGH_BUSY, NIGH_OVERLOADED};

    (void)state;
    for (uint16_t version = 1; version <= 2; version++) {
        uint32_t place = completed() % LIMIT_RING_ENTRIES;

        seat.version = version;
        submit(a_call(version));
        submit(a_reply(NIGH_OVERLOADED, 0));
        assert_int_equal(ring()->cq[place].cookie, version);
        assert_int_equal(ring()->cq[place].status, told[version - 1]);
    }
}

static void calls_of_memory_that_is_not_leased_are_refused(void **state)
{
    struct session_sqe sqe;

    (void)state;
    for (uint32_t n = 0; n < 6; n++) {
        static const struct {
            uint64_t offset, bytes, room;
        } places[] = {{OFFSET - 1, 3, 0},
                      {OFFSET + sizeof memory - 2, 3, 0},
                      {OFFSET + sizeof memory - 8, 3, 16},
                      {UINT64_MAX, 3, 3},
                      {OFFSET, LIMIT_CALL_BYTES + 1, 0},
                      {OFFSET, 3, UINT64_MAX}};

        sqe = a_call(n);
        sqe.offset = places[n].offset;
        sqe.data_size = places[n].bytes;
        sqe.ref = places[n].room;
        refused(sqe, NIGH_INVALID);
    }
    sqe = a_call(7);
    sqe.flags = 128;
    refused(sqe, NIGH_INVALID);
    sqe = a_call(8);
    sqe.meta_size = UINT32_MAX - 1; /* the rank */
    refused(sqe, NIGH_INVALID);
    sqe = a_call(9);
    sqe.id[0] = 5;
    refused(sqe, NIGH_NOT_FOUND);
}

/* The client gives its lease back between a call and its end. */
static void nothing_is_written_to_what_was_leased_before(void **state)
{
    (void)state;
    submit(a_call(1));
    echo_leased = (struct echo_leased){.offset = OFFSET + LIMIT_CALL_BYTES,
                                       .bytes = LIMIT_CALL_BYTES,
                                       .at = memory + LIMIT_CALL_BYTES};
    memcpy(memory + LIMIT_CALL_BYTES, "told", 4);
    submit(a_reply(NIGH_OK, 4));
    assert_int_equal(ring()->cq[0].cookie, 1);
    assert_int_equal(ring()->cq[0].status, NIGH_INVALID);
    assert_int_equal(memory[0], 0);
}

/* With no byte leased to it a session calls, answers, and is answered, where it has its own. */
static void own_places_need_no_lease(void **state)
{
    uint8_t *own = session_places_of(seat.memory, 1, 0);
    struct session_sqe call = a_call(1), reply;

    (void)state;
    refused(a_call(0), NIGH_INVALID); /* there is no lease */
    memcpy(own + SESSION_PLACES_BYTES - LIMIT_CALL_BYTES, "ask", 3);
    call.offset = SESSION_OWN_PLACE | (SESSION_PLACES_BYTES - LIMIT_CALL_BYTES);
    call.ref = LIMIT_CALL_BYTES;
    submit(call);
    assert_int_equal(asked_count, 1);
    assert_memory_equal(asked_bytes, "ask", 3);
    memcpy(own, "told", 4);
    reply = a_reply(NIGH_OK, 4);
    reply.offset = SESSION_OWN_PLACE;
    submit(reply);
    assert_int_equal(last()->status, NIGH_OK);
    assert_int_equal(ring()->cq[1].cookie, 1);
    assert_int_equal(ring()->cq[1].status, NIGH_OK);
    assert_memory_equal(own + SESSION_PLACES_BYTES - LIMIT_CALL_BYTES, "told", 4);
}

static void what_is_not_all_in_own_places_is_refused(void **state)
{
    static const struct {
        uint64_t offset, bytes, room;
    } places[] = {{SESSION_OWN_PLACE | (SESSION_PLACES_BYTES - 2), 3, 0},
                  {SESSION_OWN_PLACE | (SESSION_PLACES_BYTES - 8), 3, 16},
                  {SESSION_OWN_PLACE | SESSION_PLACES_BYTES, 1, 0},
                  {UINT64_MAX, 3, 3},
                  {UINT64_MAX - 1, 1, 1},
                  {SESSION_PLACES_BYTES - LIMIT_CALL_BYTES, 3, 0}};
    struct session_sqe sqe;

    (void)state;
    for (uint32_t n = 0; n < ARRAY_LENGTH(places); n++) {
        sqe = a_call(n);
        sqe.offset = places[n].offset;
        sqe.data_size = places[n].bytes;
        sqe.ref = places[n].room;
        refused(sqe, NIGH_INVALID);
    }
}

/* A session of before there were places, whose memory ends where they would begin. */
static void who_has_no_own_places_names_none(void **state)
{
    struct session_sqe sqe = a_call(1);

    (void)state;
    sqe.offset = SESSION_OWN_PLACE;
    refused(sqe, NIGH_INVALID);
}

static void answers_are_of_who_was_asked_alone(void **state)
{
    struct session_sqe sqe;

    (void)state;
    serve(SLOT - 1);
    submit(a_call(1));
    refused(a_reply(NIGH_OK, 0), NIGH_NOT_FOUND);
    serve(SLOT);
    refused(a_reply((nigh_status)1, 0), NIGH_INVALID);
    refused(a_reply(NIGH_PENDING, 0), NIGH_INVALID);
    refused(a_reply((nigh_status)(NIGH_STATUS_LOWEST - 1), 0), NIGH_INVALID);
    refused(a_reply(NIGH_OK, LIMIT_CALL_BYTES + 1), NIGH_INVALID);
    sqe = a_reply(NIGH_OK, 4);
    sqe.offset = OFFSET + sizeof memory;
    refused(sqe, NIGH_INVALID);
    sqe = a_reply(NIGH_OK, 0);
    sqe.argument = UINT64_MAX;
    refused(sqe, NIGH_NOT_FOUND);
    sqe.argument = 0;
    refused(sqe, NIGH_NOT_FOUND);
    submit(a_reply(NIGH_DENIED, 0));
    assert_int_equal(calls_under_way(lane->calls), 0);
}

/* ---- calls of many: of this node alone ----------------------------------- */

static struct session_sqe a_collect(uint32_t cookie, struct session_collect wanted)
{
    struct session_sqe sqe = a_call(cookie);

    sqe.op = SESSION_OP_COLLECT;
    sqe.ref = wanted.reduce == COLLECT_NONE ? 0 : 64;
    memcpy(memory, &wanted, sizeof(wanted));
    memcpy(memory + sizeof(wanted), "ask", 3);
    return sqe;
}

static const struct session_collect all_of_it = {.all = 1, .fan = 4, .reduce = COLLECT_CONCAT};

static void a_call_of_many_goes_through_the_rings(void **state)
{
    struct session_collected said;

    (void)state;
    submit(a_collect(1, all_of_it));
    assert_int_equal(asked_count, 1);
    assert_int_equal(asked.uid, 77);
    assert_memory_equal(asked_bytes, "ask", 3);
    assert_int_equal(completed(), 0);
    memcpy(memory + LIMIT_CALL_BYTES, "told", 4);
    submit(a_reply(NIGH_OK, 4));
    assert_int_equal(completed(), 2);
    assert_int_equal(last()->cookie, 1);
    assert_int_equal(last()->status, NIGH_OK);
    assert_int_equal(last()->data_size, sizeof(said) + 12);
    assert_int_not_equal(last()->generation, 0);
    memcpy(&said, memory, sizeof(said));
    assert_int_equal(said.answered, 1);
    assert_int_equal(said.value_bytes, 12);
    assert_memory_equal(memory + sizeof(said) + 8, "told", 4);
    assert_int_equal(collects_under_way(lane->collect.collects), 0);
}

static void calls_of_many_are_looked_at(void **state)
{
    struct session_collect wanted = all_of_it;
    struct session_sqe sqe;

    (void)state;
    for (uint32_t n = 0; n < 6; n++) {
        static const struct {
            uint64_t offset, bytes, room;
        } places[] = {{OFFSET - 1, 3, 64},
                      {OFFSET + sizeof memory - sizeof(struct session_collect) - 2, 3, 0},
                      {OFFSET + sizeof memory - sizeof(struct session_collected) - 8, 3, 16},
                      {UINT64_MAX, 3, 3},
                      {OFFSET, LIMIT_COLLECT_BYTES + 1, 64},
                      {OFFSET, 3, LIMIT_COLLECT_BYTES + 1}};

        sqe = a_collect(n, all_of_it);
        sqe.offset = places[n].offset;
        sqe.data_size = places[n].bytes;
        sqe.ref = places[n].room;
        refused(sqe, NIGH_INVALID);
    }
    sqe = a_collect(7, all_of_it);
    sqe.flags = 1;
    refused(sqe, NIGH_INVALID);
    wanted.fan = 1;
    refused(a_collect(8, wanted), NIGH_INVALID);
    wanted.fan = 255;
    refused(a_collect(8, wanted), NIGH_INVALID);
    wanted.fan = 4;
    wanted.reduce = 255;
    refused(a_collect(9, wanted), NIGH_INVALID);
    wanted = all_of_it;
    wanted.all = 0;
    wanted.ranks[0] = 3; /* there is no rank 1 */
    refused(a_collect(10, wanted), NIGH_INVALID);
    wanted = all_of_it;
    wanted.version = 1000;
    refused(a_collect(11, wanted), NIGH_STALE);
    assert_int_equal(collects_under_way(lane->collect.collects), 0);
}

/* As its own calls are, in the errors, too. */
static void an_older_client_is_told_of_many_what_it_knows(void **state)
{
    static const nigh_status told[] = {NIGH_BUSY, NIGH_OVERLOADED};

    (void)state;
    for (uint16_t version = 1; version <= 2; version++) {
        struct session_collected said;

        seat.version = version;
        submit(a_collect(version, all_of_it));
        submit(a_reply(NIGH_OVERLOADED, 0));
        memcpy(&said, memory, sizeof(said));
        assert_int_equal(said.failed, 1);
        assert_int_equal(said.errors, 1);
        assert_int_equal(said.first[0].status, told[version - 1]);
    }
}

static void calls_of_many_end_with_their_session(void **state)
{
    (void)state;
    submit(a_collect(1, all_of_it));
    assert_int_equal(collects_under_way(lane->collect.collects), 1);
    lane_session_close(lane, SLOT);
    assert_int_equal(collects_under_way(lane->collect.collects), 0);
    assert_int_equal(calls_under_way(lane->calls), 0);
    assert_int_equal(calls_unanswered(lane->calls), 0);
    assert_int_equal(lane_session_open(lane, &seat), NIGH_OK);
    submit(a_collect(1, all_of_it));
    lane_session_rest(lane, SLOT);
    assert_int_equal(calls_unanswered(lane->calls), 0);
    assert_int_equal(lane_session_reset(lane, &seat), NIGH_OK);
    submit(a_collect(2, all_of_it));
    submit((struct session_sqe){.op = SESSION_OP_CANCEL, .cookie = 3, .argument = 2});
    assert_int_equal(completed(), 2);
    assert_int_equal(ring()->cq[0].status, NIGH_CANCELED);
    assert_int_equal(last()->status, NIGH_OK);
    assert_int_equal(calls_unanswered(lane->calls), 0);
}

/* The client gives its lease back before the end. */
static void what_came_of_many_is_written_to_leases_alone(void **state)
{
    (void)state;
    submit(a_collect(1, all_of_it));
    echo_leased = (struct echo_leased){.offset = OFFSET + LIMIT_CALL_BYTES,
                                       .bytes = LIMIT_CALL_BYTES,
                                       .at = memory + LIMIT_CALL_BYTES};
    memset(memory, 9, sizeof(struct session_collected));
    submit(a_reply(NIGH_OK, 4));
    assert_int_equal(last()->cookie, 1);
    assert_int_equal(last()->status, NIGH_INVALID);
    assert_int_equal(memory[0], 9);
}

/* Whatever became of its session, what was called for it is over, and another's is not told. */
static void calls_end_with_their_session(void **state)
{
    (void)state;
    submit(a_call(1));
    lane_session_close(lane, SLOT);
    assert_int_equal(calls_under_way(lane->calls), 0);
    assert_int_equal(calls_unanswered(lane->calls), 0);
    assert_int_equal(lane_session_open(lane, &seat), NIGH_OK);
    assert_int_equal(completed(), 0);
    submit(a_call(1));
    lane_session_rest(lane, SLOT);
    assert_int_equal(calls_under_way(lane->calls), 0);
    assert_int_equal(lane_session_reset(lane, &seat), NIGH_OK);
    submit(a_call(2));
    submit((struct session_sqe){.op = SESSION_OP_CANCEL, .cookie = 3, .argument = 2});
    assert_int_equal(completed(), 2);
    assert_int_equal(ring()->cq[0].status, NIGH_CANCELED);
    assert_int_equal(last()->cookie, 3);
    assert_int_equal(last()->status, NIGH_OK);
}

/* Whoever reads only has no memory for calls, and those without bytes are none the less calls. */
static void who_may_only_read_calls_nobody(void **state)
{
    struct session_sqe sqe = a_call(1);

    (void)state;
    lane_session_close(lane, SLOT);
    seat.may_write = false;
    assert_int_equal(lane_session_open(lane, &seat), NIGH_OK);
    sqe.data_size = sqe.ref = 0;
    refused(sqe, NIGH_DENIED);
    /* Nor does it have links measured, which takes some of the network. */
    sqe = (struct session_sqe){.op = SESSION_OP_LINKS,
                               .cookie = 2,
                               .flags = SESSION_FLAG_MEASURE,
                               .argument = SESSION_ALL_RANKS};
    refused(sqe, NIGH_DENIED);
    seat.may_write = true;
}

static atomic_bool was_removed;

static void *remove_service(void *of)
{
    services_remove(of, &service);
    atomic_store(&was_removed, true);
    return NULL;
}

static void *add_service(void *of)
{
    assert_int_equal(services_add(of, &service), NIGH_OK);
    return NULL;
}

static void turn_until_over(pthread_t thread)
{
    while (pthread_tryjoin_np(thread, NULL) != 0)
        (void)lane_turn(lane, ++now_us);
}

/* A lane that is quiet looks at little; that a service has gone is told to who waits for it. */
static void a_quiet_lane_tells_that_a_service_went(void **state)
{
    struct session_front *front = session_front_of(seat.memory);
    pthread_t thread;
    uint32_t wakes;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, add_service, services), 0);
    turn_until_over(thread);
    submit(a_call(1));
    while (lane->quiet_until_us <= now_us + 1000)
        (void)lane_turn(lane, ++now_us);
    atomic_store(&front->waiting, 1);
    wakes = atomic_load(&front->wake);
    assert_int_equal(pthread_create(&thread, NULL, remove_service, services), 0);
    while (!atomic_load(&was_removed))
        (void)lane_turn(lane, now_us);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(completed(), 1);
    assert_int_equal(last()->status, NIGH_CLOSED);
    assert_int_equal(atomic_load(&front->wake), wakes + 1);
}

/* ---- services of sessions ------------------------------------------------- */

static struct session_sqe of_service(uint8_t op, uint32_t cookie)
{
    return (struct session_sqe){.op = op, .cookie = cookie, .id = {0x07}};
}

/* A receive, at the second place. */
static struct session_sqe a_receive(uint32_t cookie, uint64_t timeout_us)
{
    struct session_sqe sqe = of_service(SESSION_OP_RECEIVE, cookie);

    sqe.offset = OFFSET + LIMIT_CALL_BYTES;
    sqe.argument = timeout_us;
    return sqe;
}

static struct session_sqe an_answer_and_receive(uint32_t cookie, uint64_t id, nigh_status status,
                                                uint64_t bytes)
{
    struct session_sqe sqe = a_receive(cookie, UINT64_MAX);
    int32_t said = status;

    sqe.flags = SESSION_FLAG_ANSWER;
    sqe.data_size = bytes;
    memcpy(sqe.id + 8, &id, sizeof id);
    memcpy(sqe.id + 16, &said, sizeof said);
    return sqe;
}

static struct session_sqe a_call_of_it(uint32_t cookie)
{
    struct session_sqe sqe = a_call(cookie);

    memset(sqe.id, 0, sizeof sqe.id);
    sqe.id[0] = 0x07;
    return sqe;
}

static void opened(void)
{
    submit(of_service(SESSION_OP_SERVICE_OPEN, 50));
    assert_int_equal(last()->status, NIGH_OK);
}

static void a_session_serves(void **state)
{
    (void)state;
    opened();
    memcpy(memory, "ask", 3);
    submit(a_receive(51, UINT64_MAX));
    assert_int_equal(completed(), 1);
    submit(a_call_of_it(1));
    assert_int_equal(completed(), 2);
    assert_int_equal(last()->cookie, 51);
    assert_int_equal(last()->data_size, 3);
    assert_int_equal(last()->meta_size, 77); /* the uid */
    assert_memory_equal(memory + LIMIT_CALL_BYTES, "ask", 3);
    memcpy(memory + LIMIT_CALL_BYTES, "told", 4);
    submit(an_answer_and_receive(52, last()->generation, NIGH_OK, 4));
    assert_int_equal(completed(), 3);
    assert_int_equal(last()->cookie, 1);
    assert_int_equal(last()->data_size, 4);
    assert_memory_equal(memory, "told", 4);
    submit((struct session_sqe){.op = SESSION_OP_CANCEL, .cookie = 53, .argument = 52});
    assert_int_equal(ring()->cq[3].cookie, 52);
    assert_int_equal(ring()->cq[3].status, NIGH_CANCELED);
    submit(a_receive(54, 0));
    assert_int_equal(last()->cookie, 54);
    assert_int_equal(last()->status, NIGH_TIMEOUT);
}

static void what_no_service_may_submit_is_refused(void **state)
{
    struct session_sqe sqe;
    uint64_t id;

    (void)state;
    refused(a_receive(1, 0), NIGH_CLOSED);
    refused(of_service(SESSION_OP_SERVICE_CLOSE, 2), NIGH_NOT_FOUND);
    opened();
    refused(of_service(SESSION_OP_SERVICE_OPEN, 3), NIGH_EXISTS);
    sqe = of_service(SESSION_OP_SERVICE_OPEN, 4);
    sqe.flags = 1;
    refused(sqe, NIGH_INVALID);
    sqe = a_receive(5, UINT64_MAX);
    sqe.offset += 1; /* its end is not leased */
    refused(sqe, NIGH_INVALID);
    sqe.offset = UINT64_MAX;
    refused(sqe, NIGH_INVALID);
    submit(a_call_of_it(6));
    submit(a_receive(7, 0));
    assert_int_equal(last()->cookie, 7);
    id = last()->generation;
    refused(an_answer_and_receive(8, id, (nigh_status)1, 0), NIGH_INVALID);
    refused(an_answer_and_receive(9, id, NIGH_PENDING, 0), NIGH_INVALID);
    refused(an_answer_and_receive(10, id, NIGH_OK, LIMIT_CALL_BYTES + 1), NIGH_INVALID);
    assert_int_equal(calls_under_way(lane->calls), 1);
    seat.may_write = false;
    sqe = of_service(SESSION_OP_SERVICE_OPEN, 11);
    sqe.id[1] = 1;
    refused(sqe, NIGH_DENIED);
    seat.may_write = true;
    for (uint8_t n = 1; n < LIMIT_SESSION_SERVICES; n++) {
        sqe.id[1] = n;
        submit(sqe);
        assert_int_equal(last()->status, NIGH_OK);
    }
    sqe.id[1] = LIMIT_SESSION_SERVICES;
    refused(sqe, NIGH_LIMIT);
}

/* Whether received or not: who called hears of the end. */
static void a_service_that_is_closed_ends_what_it_has(void **state)
{
    (void)state;
    opened();
    submit(a_call_of_it(1));
    submit(a_call_of_it(2));
    submit(a_receive(3, UINT64_MAX));
    submit(of_service(SESSION_OP_SERVICE_CLOSE, 4));
    assert_int_equal(completed(), 5);
    assert_int_equal(ring()->cq[2].status, NIGH_CLOSED);
    assert_int_equal(ring()->cq[3].status, NIGH_CLOSED);
    assert_int_equal(calls_under_way(lane->calls), 0);
    opened();
    submit(a_receive(5, UINT64_MAX));
    submit(of_service(SESSION_OP_SERVICE_CLOSE, 6));
    assert_int_equal(ring()->cq[6].cookie, 5);
    assert_int_equal(ring()->cq[6].status, NIGH_CLOSED);
}

/* The name is free, and nothing is written to rings that begin anew. */
static void services_end_with_their_session(void **state)
{
    (void)state;
    opened();
    submit(a_receive(1, UINT64_MAX));
    lane_session_rest(lane, SLOT);
    assert_int_equal(lane->pull_count, 0);
    assert_int_equal(lane_session_reset(lane, &seat), NIGH_OK);
    assert_int_equal(completed(), 0);
    opened();
    submit(a_receive(2, UINT64_MAX));
    lane_session_close(lane, SLOT);
    assert_int_equal(lane_session_open(lane, &seat), NIGH_OK);
    assert_int_equal(completed(), 0);
    opened();
}

/* The lease is closed between a receive and its request. */
static void a_request_is_not_written_to_what_was_leased_before(void **state)
{
    (void)state;
    opened();
    submit(a_receive(1, UINT64_MAX));
    echo_leased = (struct echo_leased){.offset = OFFSET, .bytes = LIMIT_CALL_BYTES, .at = memory};
    memcpy(memory, "ask", 3);
    submit(a_call_of_it(2));
    assert_int_equal(last()->cookie, 1);
    assert_int_equal(last()->status, NIGH_INVALID);
    assert_int_equal(memory[LIMIT_CALL_BYTES], 0);
    assert_int_equal(calls_unanswered(lane->calls), 1); /* it waits for the next */
}

/* ---- memory that calls bring ---- */

static uint8_t pages[2][4096];

/* A piece of the process's memory, of a session. */
static uint64_t piece_of(uint8_t *at, uint64_t session, uint32_t access)
{
    struct session_memory piece = {
        .address = at, .bytes = sizeof pages[0], .session = session, .access = access};
    uint64_t number = 0;

    assert_int_equal(bulk_memories_add(bulks, &piece, &number), NIGH_OK);
    return number;
}

static struct session_sqe a_call_with(uint32_t cookie, struct session_bulk bulk)
{
    struct session_sqe sqe = a_call(cookie);

    memcpy(memory, &bulk, sizeof bulk);
    memcpy(memory + sizeof bulk, "ask", 3);
    sqe.name_size = 1;
    return sqe;
}

static struct session_sqe a_move(uint64_t number, uint8_t flags)
{
    struct session_sqe sqe = {.op = SESSION_OP_BULK,
                              .cookie = 50,
                              .flags = flags,
                              .argument = asked.id,
                              .ref = 1,
                              .offset = 2,
                              .data_size = 90};

    memcpy(sqe.id, &number, sizeof number);
    return sqe;
}

static void a_call_brings_memory(void **state)
{
    uint64_t mine = piece_of(pages[0], seat.session_id, 3);
    uint64_t here = piece_of(pages[1], seat.session_id, 3);
    struct session_bulk bulk = {.number = mine, .offset = 10, .bytes = 100, .access = 1};
    struct session_bulk_info info;

    (void)state;
    memset(pages, 0, sizeof pages);
    memset(pages[0] + 11, 5, 90);
    submit(a_call_with(1, bulk));
    assert_int_equal(asked_count, 1);
    assert_int_equal(asked.bulks, 1);
    assert_int_equal(asked.count, sizeof info + 3);
    memcpy(&info, asked_bytes, sizeof info.bytes);
    assert_int_equal(info.bytes, 100);
    assert_int_equal(bulk_memories_wait(bulks, mine, 0), NIGH_TIMEOUT);
    submit(a_move(here, 0));
    assert_int_equal(last()->cookie, 50);
    assert_int_equal(last()->status, NIGH_OK);
    assert_memory_equal(pages[1] + 2, pages[0] + 11, 90);
    assert_int_equal(pages[1][1] + pages[1][92], 0);
    assert_int_equal(bulk_memories_wait(bulks, here, 0), NIGH_OK);
    /* To what it is not for, beyond it, of another's, of no request. */
    refused(a_move(here, SESSION_FLAG_PUSH), NIGH_DENIED);
    refused(a_move(here, SESSION_FLAG_PUSH | 2), NIGH_INVALID);
    refused(a_move(here + 1, 0), NIGH_CLOSED);
    refused(a_move(piece_of(pages[1], seat.session_id + 1, 3), 0), NIGH_INVALID);
    refused(a_move(piece_of(pages[1], seat.session_id, 1), 0), NIGH_DENIED);
    asked.id++;
    refused(a_move(here, 0), NIGH_NOT_FOUND);
    asked.id--;
    serve(SLOT - 1); /* it keeps its tag */
    refused(a_move(here, 0), NIGH_NOT_FOUND);
    serve(SLOT);
    submit(a_reply(NIGH_OK, 0));
    assert_int_equal(bulk_memories_wait(bulks, mine, 0), NIGH_OK);
    assert_int_equal(bulk_memories_remove(bulks, mine, 0, false), NIGH_OK);
    refused(a_call_with(2, bulk), NIGH_CLOSED);
}

static void memory_that_is_not_the_sessions_is_refused(void **state)
{
    uint64_t mine = piece_of(pages[0], seat.session_id, 1);
    uint64_t others = piece_of(pages[1], seat.session_id + 1, 3);
    struct session_bulk bulk = {.number = mine, .bytes = 100, .access = 1};
    struct session_sqe sqe = a_call_with(9, bulk);

    (void)state;
    for (uint32_t n = 0; n < 8; n++) {
        const struct {
            struct session_bulk bulk;
            nigh_status status;
        } wrong[] = {
            {{.number = others, .bytes = 1, .access = 1}, NIGH_INVALID},
            {{.number = 0, .bytes = 1, .access = 1}, NIGH_CLOSED},
            {{.number = UINT64_MAX, .bytes = 1, .access = 1}, NIGH_CLOSED},
            {{.number = mine, .offset = 4096, .bytes = 1, .access = 1}, NIGH_INVALID},
            {{.number = mine, .offset = UINT64_MAX, .bytes = 2, .access = 1}, NIGH_INVALID},
            {{.number = mine, .bytes = UINT64_MAX, .access = 1}, NIGH_INVALID},
            {{.number = mine, .bytes = 1, .access = 3}, NIGH_DENIED},
            {{.number = mine, .bytes = 1, .access = 0}, NIGH_DENIED}};

        refused(a_call_with(n, wrong[n].bulk), wrong[n].status);
    }
    sqe.flags = SESSION_FLAG_ONE_WAY;
    refused(sqe, NIGH_INVALID);
    sqe.flags = SESSION_FLAG_IDEMPOTENT;
    refused(sqe, NIGH_INVALID);
    sqe.flags = 0;
    for (uint32_t n = 0; n < 3; n++) {
        sqe.name_size = (uint16_t[]){LIMIT_CALL_BULKS + 1, UINT16_MAX, 256}[n];
        refused(sqe, NIGH_INVALID);
    }
    sqe.name_size = 1;
    sqe.data_size = LIMIT_CALL_BYTES - 31;
    refused(sqe, NIGH_INVALID);
    sqe.data_size = UINT64_MAX - 31;
    refused(sqe, NIGH_INVALID);
    assert_int_equal(bulk_memories_wait(bulks, mine, 0), NIGH_OK);
    assert_int_equal(bulk_memories_wait(bulks, others, 0), NIGH_OK);
}

static void a_session_that_ends_brings_nothing_any_more(void **state)
{
    uint64_t mine = piece_of(pages[0], seat.session_id, 3);
    struct session_bulk bulk = {.number = mine, .bytes = 100, .access = 3};

    (void)state;
    submit(a_call_with(1, bulk));
    assert_int_equal(bulk_memories_wait(bulks, mine, 0), NIGH_TIMEOUT);
    lane_session_close(lane, SLOT);
    assert_int_equal(bulk_memories_wait(bulks, mine, 0), NIGH_OK);
    assert_int_equal(bulks_loans(calls_bulks(lane->calls)), 0);
    assert_int_equal(lane_session_open(lane, &seat), NIGH_OK);
}

/* ---- memory that the node makes for calls ---- */

#define PAGE SESSION_PAGE

static struct session_sqe a_make(uint32_t cookie, uint64_t bytes, uint32_t access)
{
    return (struct session_sqe){
        .op = SESSION_OP_BULK_MAKE, .cookie = cookie, .data_size = bytes, .meta_size = access};
}

static struct session_sqe a_wait(uint32_t cookie, uint64_t number, uint64_t timeout_us,
                                 uint8_t flags)
{
    struct session_sqe sqe = {
        .op = SESSION_OP_BULK_WAIT, .cookie = cookie, .argument = timeout_us, .flags = flags};

    memcpy(sqe.id, &number, sizeof number);
    return sqe;
}

/* A thread is at it: the lane says how it ended in some later turn. */
static void await_completions(uint32_t count)
{
    assert_true(SUPPORT_WAIT(((void)lane_turn(lane, ++now_us), completed() >= count), 20000));
    assert_int_equal(completed(), count);
}

static uint64_t made(uint32_t cookie, uint64_t bytes)
{
    uint32_t before = completed();

    submit(a_make(cookie, bytes, 3));
    await_completions(before + 1);
    assert_int_equal(last()->cookie, cookie);
    assert_int_equal(last()->status, NIGH_OK);
    return last()->generation;
}

static void await_bytes(uint64_t bytes)
{
    assert_true(SUPPORT_WAIT(((void)lane_turn(lane, ++now_us), bulk_memories_bytes(bulks) == bytes),
                             20000));
}

static void a_session_has_files_made(void **state)
{
    uint64_t number = made(1, 2 * PAGE);
    struct session_bulk bulk = {.number = number, .offset = 10, .bytes = 100, .access = 3};
    uint64_t size = 0;
    uint32_t before;
    int fd = -1, other = -1;

    (void)state;
    assert_int_equal(bulk_memories_open(bulks, number, seat.session_id + 1, &fd), NIGH_NOT_FOUND);
    assert_int_equal(bulk_memories_open(bulks, number + 1, seat.session_id, &fd), NIGH_NOT_FOUND);
    assert_int_equal(bulk_memories_open(bulks, number, seat.session_id, &fd), NIGH_OK);
    assert_int_equal(memfd_size(fd, &size), NIGH_OK);
    assert_int_equal(size, 2 * PAGE);
    assert_int_equal(pwrite(fd, "from far", 8, 11), 8);
    submit(a_call_with(2, bulk));
    assert_int_equal(asked_count, 1);
    submit(a_move(piece_of(pages[0], seat.session_id, 3), 0));
    assert_int_equal(last()->status, NIGH_OK);
    assert_memory_equal(pages[0] + 2, "from far", 8);
    /* It is lent: it stays, whatever is asked; and is asked for no more than so often. */
    submit(a_wait(3, number, 0, 0));
    assert_int_equal(last()->status, NIGH_TIMEOUT);
    submit(a_wait(4, number, 0, SESSION_FLAG_END));
    assert_int_equal(last()->status, NIGH_TIMEOUT);
    before = completed();
    submit(a_wait(5, number, UINT64_MAX, 0));
    submit(a_wait(6, number, UINT64_MAX, SESSION_FLAG_END));
    assert_int_equal(completed(), before);
    assert_int_equal(bulk_memories_open(bulks, number, seat.session_id, &other), NIGH_NOT_FOUND);
    /* The thread has been at it, and has left it. */
    (void)made(7, PAGE);
    assert_int_equal(bulk_memories_bytes(bulks), 3 * PAGE);
    refused(a_call_with(8, bulk), NIGH_CLOSED);
    before = completed();
    submit(a_reply(NIGH_OK, 0));
    await_completions(before + 4); /* the reply, its call, and both */
    await_bytes(PAGE);
    refused(a_wait(9, number, 0, 0), NIGH_NOT_FOUND);
    /* Its pages were taken back. */
    assert_int_equal(pread(fd, memory, 8, 11), 8);
    assert_memory_equal(memory, "\0\0\0\0\0\0\0\0", 8);
    (void)close(fd);
}

static void what_no_client_may_have_made_is_refused(void **state)
{
    struct session_sqe sqe = a_make(1, PAGE, 3);
    uint64_t refused_before = bulk_memories_refused(bulks);

    (void)state;
    sqe.flags = 1;
    refused(sqe, NIGH_INVALID);
    refused(a_make(2, 0, 3), NIGH_INVALID);
    refused(a_make(3, PAGE, 0), NIGH_INVALID);
    refused(a_make(4, PAGE, 4), NIGH_INVALID);
    refused(a_make(5, MOST_BYTES + 1, 3), NIGH_OUT_OF_MEMORY);
    refused(a_make(6, UINT64_MAX, 3), NIGH_OUT_OF_MEMORY);
    refused(a_make(7, UINT64_MAX - PAGE, 3), NIGH_OUT_OF_MEMORY);
    refused(a_make(8, MOST_BYTES / 2 + 1, 3), NIGH_QUOTA);
    seat.quota_max_bytes = PAGE;
    refused(a_make(9, PAGE + 1, 3), NIGH_QUOTA);
    (void)made(10, PAGE);
    refused(a_make(11, 1, 3), NIGH_QUOTA);
    seat.quota_max_bytes = 0;
    (void)made(12, 3 * PAGE - 1);
    refused(a_make(13, 1, 3), NIGH_QUOTA);
    assert_int_equal(bulk_memories_bytes(bulks), MOST_BYTES / 2);
    /* Those that are none are not counted among those that were refused for want of room. */
    assert_int_equal(bulk_memories_refused(bulks), refused_before + 7);
    seat.may_write = false;
    refused(a_make(14, PAGE, 3), NIGH_DENIED);
    seat.may_write = true;
}

static void what_is_not_a_sessions_file_is_not_waited_for(void **state)
{
    uint64_t open = piece_of(pages[0], seat.session_id, 3), others, number = made(1, PAGE);
    struct session_bulk bulk = {.number = number, .bytes = 100, .access = 3};
    uint32_t before;

    (void)state;
    for (uint8_t flags = 0; flags < 2; flags++) {
        refused(a_wait(2, 0, UINT64_MAX, flags), NIGH_NOT_FOUND);
        refused(a_wait(3, UINT64_MAX, UINT64_MAX, flags), NIGH_NOT_FOUND);
        refused(a_wait(4, open, UINT64_MAX, flags), NIGH_NOT_FOUND);
    }
    refused(a_wait(5, number, 0, 2), NIGH_INVALID);
    seat.session_id++;
    others = made(6, PAGE);
    seat.session_id--;
    refused(a_wait(7, others, UINT64_MAX, 0), NIGH_NOT_FOUND);
    refused(a_wait(8, others, UINT64_MAX, SESSION_FLAG_END), NIGH_NOT_FOUND);
    bulk.number = others;
    refused(a_call_with(9, bulk), NIGH_INVALID);
    /* A wait that is cancelled, and an end: the file stays. */
    bulk.number = number;
    submit(a_call_with(10, bulk));
    for (uint8_t flags = 0; flags < 2; flags++) {
        before = completed();
        submit(a_wait(11, number, UINT64_MAX, flags));
        assert_int_equal(completed(), before);
        submit((struct session_sqe){.op = SESSION_OP_CANCEL, .cookie = 12, .argument = 11});
        await_completions(before + 2);
        submit(a_wait(13, number, 1, flags));
        await_completions(before + 3);
        assert_int_equal(last()->status, NIGH_TIMEOUT);
    }
    before = completed();
    for (uint32_t n = 0; n < LIMIT_SESSION_BULK_ASKS; n++) {
        submit(a_wait(100 + n, number, UINT64_MAX, 0));
    }
    assert_int_equal(completed(), before);
    refused(a_wait(14, number, UINT64_MAX, 0), NIGH_BUSY);
    refused(a_make(15, 1, 3), NIGH_BUSY);
    before = completed();
    submit(a_reply(NIGH_OK, 0));
    for (uint32_t n = 0; n < LIMIT_SESSION_BULK_ASKS; n++) {
        atomic_store(&ring()->cq_head.value, completed());
        (void)lane_turn(lane, ++now_us);
    }
    await_completions(before + 2 + LIMIT_SESSION_BULK_ASKS);
}

#define FILES 300u

static nigh_status ask_as(uint32_t uid, uint64_t session)
{
    const struct bulk_wish wish = {.bytes = PAGE, .access = 3, .uid = uid};
    const struct bulk_asker asker = {.session = session};

    return bulk_memories_make(bulks, &asker, &wish);
}

/* However many sessions it has; what has ended counts until it is taken. Root may, whatever others
 * have. Files are fewer: of these it has half, too. */
static void a_uid_has_half_of_what_may_be_asked(void **state)
{
    static struct bulk_end made[FILES];

    (void)state;
    for (uint32_t n = 0; n < FILES; n++) {
        assert_int_equal(ask_as(4001, 1000 + n % 16), NIGH_PENDING);
        assert_true(SUPPORT_WAIT(bulk_memories_take_end(bulks, 0, &made[n]), 20000));
    }
    for (uint32_t n = 0; n < FILES; n++) {
        assert_int_equal(
            bulk_memories_await(bulks, &made[n].asker, made[n].number, UINT64_MAX, true),
            NIGH_PENDING);
    }
    assert_true(SUPPORT_WAIT(bulk_memories_bytes(bulks) == 0, 20000));
    for (uint32_t n = FILES; n < LIMIT_BULK_ASKS / 2; n++) {
        assert_int_equal(ask_as(4001, 1000 + n % 16), NIGH_PENDING);
    }
    assert_int_equal(ask_as(4001, 2000), NIGH_BUSY);
    assert_int_equal(ask_as(4002, 2000), NIGH_PENDING);
    assert_int_equal(ask_as(0, 2001), NIGH_PENDING);
}

static void files_go_with_their_session(void **state)
{
    uint64_t number = made(1, PAGE);
    struct session_bulk bulk = {.number = number, .bytes = 100, .access = 3};
    uint32_t before;

    (void)state;
    submit(a_call_with(2, bulk));
    before = completed();
    submit(a_wait(3, number, UINT64_MAX, SESSION_FLAG_END));
    submit(a_make(4, PAGE, 3));
    lane_session_close(lane, SLOT);
    bulk_memories_end(bulks, seat.session_id);
    await_bytes(0);
    before = completed() - before;
    assert_true(before <= 1); /* what was made in time; nothing is said after the end */
    assert_int_equal(lane_session_open(lane, &seat), NIGH_OK);
    submit(a_wait(5, number, 0, 0));
    assert_int_equal(last()->status, NIGH_NOT_FOUND);
    (void)made(6, PAGE);
}

static uint64_t own_us(void)
{
    struct timespec own;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
    return (uint64_t)own.tv_sec * 1000000 + (uint64_t)own.tv_nsec / 1000;
}

static void turns_take_little(struct session_sqe sqe)
{
    uint64_t before_us = own_us(), took_us;

    submit(sqe);
    took_us = own_us() - before_us;
    assert_true(SUPPORT_WAIT(bulk_memories_have_news(bulks, 0), 20000));
    before_us = own_us();
    (void)lane_turn(lane, ++now_us);
    took_us += own_us() - before_us;
    assert_int_equal(last()->cookie, sqe.cookie);
    assert_int_equal(last()->status, NIGH_OK);
    if (took_us > TURNS_US) {
        fail_msg("turns of %llu us", (unsigned long long)took_us);
    }
}

/* By what this thread, whose turns are the lane's, has of a processor. */
static void gigabytes_are_not_a_lanes_to_make(void **state)
{
    (void)state;
    turns_take_little(a_make(1, LARGE_BYTES, 3));
    turns_take_little(a_wait(2, last()->generation, UINT64_MAX, SESSION_FLAG_END));
    assert_int_equal(bulk_memories_bytes(bulks), 0);
}

/* Lanes that go have files lent, and asks for them under way. */
static void a_node_stops_amid_files(void **state)
{
    uint64_t number = made(1, PAGE);
    struct session_bulk bulk = {.number = number, .bytes = 100, .access = 3};

    (void)state;
    submit(a_call_with(2, bulk));
    submit(a_wait(3, number, UINT64_MAX, 0));
    submit(a_wait(4, number, UINT64_MAX, SESSION_FLAG_END));
    submit(a_make(5, PAGE, 3));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_call_and_its_answer_go_through_the_rings),
        TEST(an_older_client_is_told_what_it_knows),
        TEST(an_older_client_is_told_of_many_what_it_knows),
        TEST(calls_of_memory_that_is_not_leased_are_refused),
        TEST(nothing_is_written_to_what_was_leased_before),
        cmocka_unit_test_setup_teardown(own_places_need_no_lease, set_up_places, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_all_in_own_places_is_refused, set_up_places,
                                        tear_down),
        TEST(who_has_no_own_places_names_none),
        TEST(answers_are_of_who_was_asked_alone),
        TEST(calls_end_with_their_session),
        TEST(a_call_of_many_goes_through_the_rings),
        TEST(calls_of_many_are_looked_at),
        TEST(calls_of_many_end_with_their_session),
        TEST(what_came_of_many_is_written_to_leases_alone),
        TEST(who_may_only_read_calls_nobody),
        TEST(a_quiet_lane_tells_that_a_service_went),
        TEST(a_session_serves),
        TEST(what_no_service_may_submit_is_refused),
        TEST(a_service_that_is_closed_ends_what_it_has),
        TEST(services_end_with_their_session),
        TEST(a_request_is_not_written_to_what_was_leased_before),
        TEST(a_session_has_files_made),
        TEST(what_no_client_may_have_made_is_refused),
        TEST(what_is_not_a_sessions_file_is_not_waited_for),
        TEST(files_go_with_their_session),
        cmocka_unit_test_setup_teardown(a_uid_has_half_of_what_may_be_asked, set_up_large,
                                        tear_down),
        cmocka_unit_test_setup_teardown(gigabytes_are_not_a_lanes_to_make, set_up_large, tear_down),
        TEST(a_node_stops_amid_files),
        TEST(a_call_brings_memory),
        TEST(memory_that_is_not_the_sessions_is_refused),
        TEST(a_session_that_ends_brings_nothing_any_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
