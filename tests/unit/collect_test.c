/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives (rpc/collect.h) of many nodes in virtual time. The test plays the calls between them:
 * each goes on when the test says so, or chance. Whatever comes, every collective ends once, no
 * service is asked twice for one, every rank is counted once, and what is said to be unasked is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "rpc/collect.h"
#include "support/support.h"

#define MOST     48u /* nodes: a bit of a word each */
#define CALLS    2048u
#define OPS      512u
#define VERSION  UINT64_C(5)
#define DEADLINE UINT64_C(1000000)

enum call_state {
    CALL_FREE = 0,
    CALL_WAITS,   /* for a link: nobody has it */
    CALL_TRAVELS, /* on its way to the other node */
    CALL_SERVED,  /* there */
    CALL_RETURNS  /* its answer is on its way */
};

struct call {
    enum call_state state;
    uint32_t node; /* that makes it */
    uint32_t life; /* of it */
    struct collect_ask ask;
    uint8_t request[64];
    bool taken;
    nigh_status status; /* RETURNS */
    uint32_t bytes;
    uint8_t reply[LIMIT_CALL_BYTES];
};

struct node {
    struct collects *collects; /* NULL: it is dead */
    uint32_t life;
};

/* One collective, as the world knows it: its number is the service's name. */
struct op {
    uint32_t root;
    struct ranks ranks;
    uint32_t times[MOST]; /* that a service was asked */
    bool said_ok[MOST];
    uint32_t ends;
    bool given_up;
    struct collect_said said;
    uint8_t value[LIMIT_COLLECT_BYTES];
};

static struct node nodes[MOST];
static struct call calls[CALLS];
static struct op ops[OPS];
static uint32_t node_count, op_count;
static uint64_t now_us;
static nigh_status (*serve)(uint32_t rank, uint8_t *reply, uint32_t *bytes);

/* ---- calls ---------------------------------------------------------------- */

static void on_ask(void *context, const struct collect_ask *ask, uint64_t at_us)
{
    struct node *node = context;

    (void)at_us;
    assert_true(ask->request_bytes <= sizeof(calls[0].request));
    for (uint32_t n = 0; n < CALLS; n++) {
        struct call *call = &calls[n];

        if (call->state != CALL_FREE) {
            continue;
        }
        call->state = CALL_WAITS;
        call->node = (uint32_t)(node - nodes);
        call->life = node->life;
        call->ask = *ask;
        call->taken = false;
        memcpy(call->request, collect_bytes(node->collects, ask->place, ask->generation),
               ask->request_bytes);
        return;
    }
    fail();
}

/* The other node's: each call is a channel of its own. */
static struct rpc *channel_of(const struct call *call)
{
    return (struct rpc *)(uintptr_t)call;
}

/* Its caller does not wait any more. */
static void withdraw(struct call *call)
{
    struct node *to = &nodes[call->ask.rank];

    if (call->state == CALL_SERVED && call->ask.wire != NULL && to->collects != NULL) {
        collect_withdrawn(to->collects, channel_of(call), 1, now_us);
    }
    call->state = CALL_FREE;
}

static void end_call(struct call *call, nigh_status status)
{
    struct node *node = &nodes[call->node];
    struct collect_ask ask = call->ask;
    struct calls_end end = {.status = status, .taken = call->taken, .rank = ask.rank};

    if (status == NIGH_OK) {
        end.bytes = call->reply;
        end.count = call->bytes;
    }
    if (call->state == CALL_RETURNS) {
        call->state = CALL_FREE;
    } else {
        withdraw(call);
    }
    if (node->collects != NULL && node->life == call->life) {
        collect_ended(node->collects, ask.place, ask.number, ask.generation, &end);
    }
}

static void on_forget(void *context, uint32_t place, uint64_t at_us)
{
    struct node *node = context;

    (void)at_us;
    for (uint32_t n = 0; n < CALLS; n++) {
        struct call *call = &calls[n];

        if (call->state != CALL_FREE && call->node == (uint32_t)(node - nodes) &&
            call->life == node->life && call->ask.place == place) {
            end_call(call, NIGH_CANCELED);
        }
    }
}

static void on_answer(void *context, const struct collect_from *from, const struct collect_end *end)
{
    struct call *call = (struct call *)(uintptr_t)from->channel;
    struct op *op = &ops[from->caller.cookie];

    (void)context;
    assert_int_equal(end->status, NIGH_OK);
    if (call == NULL) {
        op->ends++;
        op->said = *end->said;
        memcpy(op->value, end->value, end->said->value_bytes);
        return;
    }
    assert_int_equal(call->state, CALL_SERVED);
    call->state = CALL_RETURNS;
    call->status = NIGH_OK;
    call->bytes = (uint32_t)sizeof(*end->said) + end->said->value_bytes;
    memcpy(call->reply, end->said, sizeof(*end->said));
    memcpy(call->reply + sizeof(*end->said), end->value, end->said->value_bytes);
}

/* ---- the world ------------------------------------------------------------ */

static void turn(void)
{
    for (uint32_t n = 0; n < node_count; n++) {
        if (nodes[n].collects != NULL) {
            (void)collects_turn(nodes[n].collects, now_us);
            assert_true(collects_is_valid(nodes[n].collects));
        }
    }
}

static void start_node(uint32_t rank)
{
    struct collects_config config = {
        .rank = rank,
        .nodes = node_count,
        .shell = {
            .context = &nodes[rank], .ask = on_ask, .forget = on_forget, .answer = on_answer}};
    struct ranks all = ranks_all(node_count);

    assert_int_equal(collects_create(&config, &nodes[rank].collects), NIGH_OK);
    nodes[rank].life++;
    collects_group(nodes[rank].collects, VERSION, &all);
}

/* One and a bit, eight bytes each: sums tell how many, and who. */
static nigh_status serve_bits(uint32_t rank, uint8_t *reply, uint32_t *bytes)
{
    uint64_t words[2] = {1, UINT64_C(1) << rank};

    memcpy(reply, words, sizeof(words));
    *bytes = sizeof(words);
    return NIGH_OK;
}

static void begin_world(uint32_t count)
{
    node_count = count;
    op_count = 0;
    now_us = 1000000;
    serve = serve_bits;
    for (uint32_t n = 0; n < CALLS; n++) {
        calls[n].state = CALL_FREE;
        calls[n].ask.wire = NULL;
    }
    memset(ops, 0, sizeof(ops));
    for (uint32_t n = 0; n < count; n++) {
        start_node(n);
    }
}

static void end_world(void)
{
    for (uint32_t n = 0; n < node_count; n++) {
        collects_destroy(nodes[n].collects);
        nodes[n].collects = NULL;
    }
}

/* Links that are lost: whoever called over one hears it at once, and so does who was asked. */
static void cut(uint32_t one, uint32_t other)
{
    for (uint32_t n = 0; n < CALLS; n++) {
        struct call *call = &calls[n];
        bool is_of = call->ask.wire != NULL && ((call->node == one && call->ask.rank == other) ||
                                                (call->node == other && call->ask.rank == one));

        if (call->state == CALL_FREE || !is_of) {
            continue;
        }
        if (call->state == CALL_SERVED && nodes[call->ask.rank].collects != NULL) {
            collects_channel_down(nodes[call->ask.rank].collects, channel_of(call), now_us);
        }
        if (call->state != CALL_FREE) {
            end_call(call, NIGH_PEER_LOST);
        }
    }
}

static void kill_node(uint32_t rank)
{
    for (uint32_t n = 0; n < op_count; n++) {
        ops[n].given_up = ops[n].given_up || (ops[n].root == rank && ops[n].ends == 0);
    }
    collects_destroy(nodes[rank].collects);
    nodes[rank].collects = NULL;
    for (uint32_t n = 0; n < CALLS; n++) {
        if (calls[n].state != CALL_FREE && calls[n].node == rank && calls[n].ask.wire == NULL) {
            calls[n].state = CALL_FREE;
        }
    }
    for (uint32_t n = 0; n < node_count; n++) {
        cut(rank, n);
    }
}

static void send_call(struct call *call)
{
    if (nodes[call->ask.rank].collects == NULL) {
        end_call(call, NIGH_PEER_LOST); /* never sent */
        return;
    }
    call->state = CALL_TRAVELS;
    call->taken = true;
}

static void reply_with(struct call *call, nigh_status status, bool taken)
{
    call->state = CALL_RETURNS;
    call->status = status;
    call->taken = taken;
    call->bytes = 0;
}

static void arrive(struct call *call)
{
    struct node *to = &nodes[call->ask.rank];
    uint8_t bytes[sizeof(struct calls_wire) + sizeof(struct collect_wire) + 64];
    struct calls_wire called = {.service = call->ask.service, .uid = call->ask.uid};
    struct collect_from from = {.channel = channel_of(call), .call = 1, .rank = call->node};
    struct rpc_request came = {.method = CALLS_METHOD_COLLECT,
                               .call = 1,
                               .payload = bytes,
                               .deadline_us = call->ask.deadline_us};
    nigh_status status;

    call->state = CALL_SERVED;
    if (call->ask.wire == NULL) {
        ops[call->ask.service].times[call->ask.rank]++;
        assert_int_equal(ops[call->ask.service].times[call->ask.rank], 1);
        return;
    }
    memcpy(bytes, &called, sizeof(called));
    memcpy(bytes + sizeof(called), call->ask.wire, sizeof(*call->ask.wire));
    memcpy(bytes + sizeof(called) + sizeof(*call->ask.wire), call->request,
           call->ask.request_bytes);
    came.bytes = (uint32_t)(sizeof(called) + sizeof(*call->ask.wire)) + call->ask.request_bytes;
    status = collect_take(to->collects, &from, &came, now_us);
    if (status != NIGH_OK) {
        assert_int_not_equal(status, NIGH_INVALID); /* an honest node asks nothing of the sort */
        reply_with(call, status, false);
    }
}

static void answer_call(struct call *call, nigh_status status)
{
    assert_null(call->ask.wire);
    reply_with(call, status, true);
    if (status == NIGH_OK) {
        call->status = serve(call->ask.rank, call->reply, &call->bytes);
        ops[call->ask.service].said_ok[call->ask.rank] = call->status == NIGH_OK;
    }
}

/* One step of a call on its way. */
static void go_on(struct call *call)
{
    switch (call->state) {
    case CALL_WAITS: send_call(call); break;
    case CALL_TRAVELS: arrive(call); break;
    case CALL_RETURNS: end_call(call, call->status); break;
    case CALL_SERVED:
        if (call->ask.wire == NULL) {
            answer_call(call, NIGH_OK);
        }
        break;
    default: break;
    }
    turn();
}

static bool may_go_on(const struct call *call)
{
    return call->state != CALL_FREE && (call->state != CALL_SERVED || call->ask.wire == NULL);
}

/* Everything comes, and time stands still. */
static void settle(void)
{
    bool any;

    turn();
    do {
        any = false;
        for (uint32_t n = 0; n < CALLS; n++) {
            if (may_go_on(&calls[n])) {
                go_on(&calls[n]);
                any = true;
            }
        }
    } while (any);
}

/* Deadlines of calls that have come. */
static void pass(uint64_t us)
{
    now_us += us;
    for (uint32_t n = 0; n < CALLS; n++) {
        if (calls[n].state != CALL_FREE && calls[n].ask.deadline_us <= now_us) {
            end_call(&calls[n], NIGH_TIMEOUT);
        }
    }
    turn();
}

static struct collect_task task_of(uint32_t reduce, uint32_t room)
{
    return (struct collect_task){.service = op_count,
                                 .all = true,
                                 .fan = 3,
                                 .reduce = reduce,
                                 .value_room = room,
                                 .deadline_us = now_us + DEADLINE,
                                 .request = (const uint8_t *)"ask",
                                 .request_bytes = 3};
}

static nigh_status begin_op(uint32_t root, const struct collect_task *task)
{
    struct collect_from from = {.caller = {.owner = 1, .cookie = op_count}};
    struct op *op = &ops[op_count];
    nigh_status status;

    assert_true(op_count < OPS);
    op->root = root;
    op->ranks = task->all ? ranks_all(node_count) : task->ranks;
    status = collect_begin(nodes[root].collects, &from, task, now_us);
    op_count += status == NIGH_OK;
    return status;
}

static struct op *begin_all(uint32_t root)
{
    struct collect_task task = task_of(COLLECT_SUM_U64, 16);

    assert_int_equal(begin_op(root, &task), NIGH_OK);
    turn();
    return &ops[op_count - 1];
}

static uint32_t times_asked(const struct op *op)
{
    uint32_t times = 0;

    for (uint32_t n = 0; n < node_count; n++) {
        times += op->times[n];
    }
    return times;
}

static void check_op(const struct op *op)
{
    const struct collect_said *said = &op->said;
    uint64_t words[2] = {0};

    assert_true(op->ends <= 1);
    if (op->ends == 0) {
        return;
    }
    assert_int_equal(said->answered + said->failed + said->unknown + said->unasked,
                     ranks_count(&op->ranks));
    /* What is said to be unasked is so for ever. */
    assert_true(times_asked(op) <= said->answered + said->failed + said->unknown);
    memcpy(words, op->value, said->value_bytes);
    assert_int_equal(words[0], said->answered);
    assert_int_equal(__builtin_popcountll(words[1]), said->answered);
    for (uint32_t n = 0; n < node_count; n++) {
        assert_true((words[1] >> n & 1) == 0 || op->said_ok[n]);
    }
}

static void assert_said(const struct op *op, uint32_t answered, uint32_t failed, uint32_t unknown,
                        uint32_t unasked)
{
    assert_int_equal(op->ends, 1);
    check_op(op);
    assert_int_equal(op->said.answered, answered);
    assert_int_equal(op->said.failed, failed);
    assert_int_equal(op->said.unknown, unknown);
    assert_int_equal(op->said.unasked, unasked);
}

static uint32_t under_way(void)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < node_count; n++) {
        count += nodes[n].collects != NULL ? collects_under_way(nodes[n].collects) : 0;
    }
    return count;
}

/* The call to a node's collective, or service; NULL: there is none. */
static struct call *find_call(uint32_t rank, bool is_service)
{
    for (uint32_t n = 0; n < CALLS; n++) {
        if (calls[n].state != CALL_FREE && calls[n].ask.rank == rank &&
            (calls[n].ask.wire == NULL) == is_service) {
            return &calls[n];
        }
    }
    return NULL;
}

/* ---- trees ---------------------------------------------------------------- */

static void counted(uint32_t node, struct collects_counts expected)
{
    assert_memory_equal(collects_counts(nodes[node].collects), &expected, sizeof(expected));
}

static void all_are_asked_once_and_counted(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= MOST; count++) {
        struct op *op;

        begin_world(count);
        op = begin_all(count / 2);
        settle();
        assert_said(op, count, 0, 0, 0);
        assert_int_equal(times_asked(op), count);
        assert_int_equal(op->said.errors, 0);
        assert_int_equal(under_way(), 0);
        for (uint32_t n = 0; n < count; n++) {
            bool is_root = n == count / 2;

            counted(n, (struct collects_counts){
                           .begun = is_root, .taken = !is_root, .answered = is_root ? count : 0});
        }
        end_world();
    }
}

static void only_those_that_are_named_are_asked(void **state)
{
    struct collect_task task;
    struct op *op;

    (void)state;
    begin_world(10);
    task = task_of(COLLECT_SUM_U64, 16);
    task.all = false;
    for (uint32_t rank = 1; rank < 10; rank += 2) {
        ranks_put(&task.ranks, rank);
    }
    assert_int_equal(begin_op(4, &task), NIGH_OK); /* which is none of them */
    op = &ops[0];
    settle();
    assert_said(op, 5, 0, 0, 0);
    for (uint32_t rank = 0; rank < 10; rank++) {
        assert_int_equal(op->times[rank], rank % 2);
    }
    ranks_put(&task.ranks, 10); /* nobody */
    assert_int_equal(begin_op(4, &task), NIGH_INVALID);
    end_world();
}

/* ---- deaths --------------------------------------------------------------- */

static void who_was_dead_before_is_passed_over(void **state)
{
    struct op *op;

    (void)state;
    begin_world(13);
    kill_node(1); /* the root's first child, of 1 to 4 */
    kill_node(2); /* the next of that run */
    op = begin_all(0);
    settle();
    assert_said(op, 11, 0, 0, 2);
    assert_int_equal(op->said.errors, 2);
    assert_int_equal(op->said.first[0].status, NIGH_PEER_LOST);
    assert_int_equal(op->said.first[0].count, 1);
    assert_int_equal(op->said.first[0].taken, 0);
    end_world();
}

static void a_node_that_dies_takes_its_run_along(void **state)
{
    struct op *op;
    struct call *call;

    (void)state;
    begin_world(13);
    op = begin_all(0);
    call = find_call(1, false);
    go_on(call);
    go_on(call); /* it has it, and has asked nobody yet that we know of */
    kill_node(1);
    settle();
    assert_said(op, 9, 0, 4, 0);
    assert_int_equal(op->said.errors, 1);
    assert_int_equal(op->said.first[0].rank, 1);
    assert_int_equal(op->said.first[0].count, 4);
    assert_int_equal(op->said.first[0].taken, 1);
    end_world();
}

static void who_loses_its_parent_gives_up(void **state)
{
    struct op *op;
    struct call *call;

    (void)state;
    begin_world(13);
    op = begin_all(0);
    call = find_call(1, false);
    go_on(call);
    go_on(call);
    assert_int_equal(collects_under_way(nodes[1].collects), 1);
    cut(0, 1);
    assert_int_equal(collects_under_way(nodes[1].collects), 0);
    assert_null(find_call(2, false)); /* whom it would have asked */
    settle();
    assert_said(op, 9, 0, 4, 0);
    end_world();
}

/* ---- versions ------------------------------------------------------------- */

static void another_version_is_refused(void **state)
{
    struct ranks all = ranks_all(13);
    struct collect_task task;
    struct op *op;

    (void)state;
    begin_world(13);
    collects_group(nodes[1].collects, VERSION + 1, &all);
    op = begin_all(0);
    settle();
    assert_said(op, 9, 0, 0, 4); /* nobody behind it is asked in its place */
    assert_int_equal(op->said.first[0].status, NIGH_STALE);
    assert_int_equal(op->said.first[0].rank, 1);
    assert_int_equal(op->said.first[0].count, 4);
    /* And of the caller's own node. */
    task = task_of(COLLECT_SUM_U64, 16);
    task.version = VERSION;
    assert_int_equal(begin_op(1, &task), NIGH_STALE);
    counted(1, (struct collects_counts){.stale = 2});
    counted(0, (struct collects_counts){.begun = 1, .answered = 9, .failed = 4});
    assert_int_equal(begin_op(0, &task), NIGH_OK);
    settle();
    end_world();
}

static void without_a_group_nobody_is_asked(void **state)
{
    struct ranks none = {{0}};
    struct collect_task task;

    (void)state;
    begin_world(2);
    task = task_of(COLLECT_SUM_U64, 16);
    collects_group(nodes[0].collects, 0, &none);
    assert_int_equal(begin_op(0, &task), NIGH_NO_QUORUM);
    end_world();
}

/* ---- time, cancel --------------------------------------------------------- */

static void who_is_silent_is_missed_alone(void **state)
{
    struct op *op;
    struct call *call;

    (void)state;
    begin_world(13);
    op = begin_all(0);
    /* All answer but node 3, which is behind node 1. */
    while (find_call(3, true) == NULL) {
        for (uint32_t n = 0; n < CALLS; n++) {
            if (may_go_on(&calls[n])) {
                go_on(&calls[n]);
            }
        }
    }
    call = find_call(3, true);
    for (uint32_t n = 0; n < CALLS * 2; n++) {
        if (&calls[n % CALLS] != call && may_go_on(&calls[n % CALLS])) {
            go_on(&calls[n % CALLS]);
        }
    }
    assert_int_equal(op->ends, 0);
    for (uint64_t us = 0; us < DEADLINE && op->ends == 0; us += DEADLINE / 100) {
        pass(DEADLINE / 100);
        for (uint32_t n = 0; n < CALLS; n++) {
            if (calls[n].state == CALL_RETURNS) {
                go_on(&calls[n]);
            }
        }
    }
    assert_true(now_us < 1000000 + DEADLINE); /* the answer is there before it is too late */
    assert_said(op, 12, 0, 1, 0);
    assert_int_equal(op->said.first[0].rank, 3);
    assert_int_equal(op->said.first[0].count, 1);
    assert_int_equal(op->said.first[0].status, NIGH_TIMEOUT);
    assert_int_equal(under_way(), 0);
    end_world();
}

static void a_cancel_reaches_all(void **state)
{
    (void)state;
    begin_world(40);
    (void)begin_all(0);
    for (uint32_t round = 0; round < 6; round++) {
        for (uint32_t n = 0; n < CALLS; n++) {
            if (may_go_on(&calls[n]) && calls[n].ask.wire != NULL) {
                go_on(&calls[n]);
            }
        }
    }
    assert_true(under_way() > 10);
    assert_false(collect_cancel(nodes[0].collects, 1, 77, now_us));
    assert_true(collect_cancel(nodes[0].collects, 1, 0, now_us));
    assert_int_equal(under_way(), 0);
    settle();
    assert_int_equal(ops[0].ends, 0);
    end_world();
}

static void a_session_that_goes_takes_its_own_along(void **state)
{
    struct op *op;

    (void)state;
    begin_world(5);
    op = begin_all(0);
    collects_forget(nodes[0].collects, 2, now_us); /* another */
    assert_int_equal(collects_under_way(nodes[0].collects), 1);
    collects_forget(nodes[0].collects, 1, now_us);
    assert_int_equal(under_way(), 0);
    settle();
    assert_int_equal(op->ends, 0);
    end_world();
}

static void too_many_are_refused(void **state)
{
    struct collect_task task;

    (void)state;
    begin_world(2);
    for (uint32_t n = 0; n < LIMIT_COLLECTS; n++) {
        (void)begin_all(0);
    }
    task = task_of(COLLECT_SUM_U64, 16);
    assert_int_equal(begin_op(0, &task), NIGH_OVERLOADED);
    counted(0, (struct collects_counts){.begun = LIMIT_COLLECTS, .refused = 1});
    settle();
    for (uint32_t n = 0; n < LIMIT_COLLECTS; n++) {
        assert_said(&ops[n], 2, 0, 0, 0);
    }
    assert_int_equal(begin_op(0, &task), NIGH_OK);
    end_world();
}

/* ---- values --------------------------------------------------------------- */

static nigh_status serve_rank(uint32_t rank, uint8_t *reply, uint32_t *bytes)
{
    uint64_t word = 100 + rank;

    memcpy(reply, &word, 8);
    *bytes = 8;
    return NIGH_OK;
}

static nigh_status serve_half(uint32_t rank, uint8_t *reply, uint32_t *bytes)
{
    double number = rank - 2.5;

    memcpy(reply, &number, 8);
    *bytes = 8;
    return NIGH_OK;
}

/* As many bytes as its rank. */
static nigh_status serve_lengths(uint32_t rank, uint8_t *reply, uint32_t *bytes)
{
    memset(reply, (int)rank, rank);
    *bytes = rank;
    return NIGH_OK;
}

static struct op *reduce(uint32_t what, uint32_t room)
{
    struct collect_task task = task_of(what, room);

    assert_int_equal(begin_op(3, &task), NIGH_OK);
    settle();
    assert_int_equal(ops[op_count - 1].ends, 1);
    return &ops[op_count - 1];
}

static uint64_t reduce_u64(uint32_t what)
{
    uint64_t word;

    memcpy(&word, reduce(what, 8)->value, 8);
    return word;
}

static double reduce_f64(uint32_t what)
{
    double number;

    memcpy(&number, reduce(what, 8)->value, 8);
    return number;
}

static void replies_are_reduced(void **state)
{
    (void)state;
    begin_world(20);
    serve = serve_rank;
    assert_int_equal(reduce_u64(COLLECT_SUM_U64), 2190);
    assert_int_equal(reduce_u64(COLLECT_MIN_U64), 100);
    assert_int_equal(reduce_u64(COLLECT_MAX_U64), 119);
    assert_int_equal(reduce(COLLECT_NONE, 0)->said.value_bytes, 0);
    serve = serve_half;
    assert_true(reduce_f64(COLLECT_SUM_F64) == 140.0);
    assert_true(reduce_f64(COLLECT_MIN_F64) == -2.5);
    assert_true(reduce_f64(COLLECT_MAX_F64) == 16.5);
    end_world();
}

static uint32_t check_entries(const struct op *op)
{
    uint32_t at = 0, count = 0, before = 0;

    while (at < op->said.value_bytes) {
        struct collect_entry entry;

        memcpy(&entry, op->value + at, sizeof(entry));
        at += (uint32_t)sizeof(entry);
        assert_int_equal(entry.bytes, entry.rank);
        assert_true(count == 0 || entry.rank > before);
        for (uint32_t n = 0; n < entry.bytes; n++) {
            assert_int_equal(op->value[at + n], entry.rank);
        }
        at += entry.bytes;
        before = entry.rank;
        count++;
    }
    assert_int_equal(at, op->said.value_bytes);
    return count;
}

static void replies_are_put_together_by_rank(void **state)
{
    struct op *op;

    (void)state;
    begin_world(20);
    serve = serve_lengths;
    op = reduce(COLLECT_CONCAT, LIMIT_COLLECT_BYTES);
    assert_int_equal(op->said.answered, 20);
    assert_int_equal(check_entries(op), 20);
    /* What has no room counts as failed. */
    op = reduce(COLLECT_CONCAT, 100);
    assert_int_equal(op->said.answered + op->said.failed, 20);
    assert_true(op->said.failed > 0);
    assert_int_equal(op->said.first[0].status, NIGH_LIMIT);
    assert_int_equal(check_entries(op), op->said.answered);
    end_world();
}

static nigh_status serve_long_of_four(uint32_t rank, uint8_t *reply, uint32_t *bytes)
{
    (void)serve_bits(rank, reply, bytes);
    *bytes = rank == 4 ? 8 : 16;
    return rank == 5 ? NIGH_DENIED : NIGH_OK;
}

static void a_reply_that_does_not_fit_does_not_count(void **state)
{
    struct op *op;
    bool seen[2] = {false, false};

    (void)state;
    begin_world(13);
    serve = serve_long_of_four;
    op = reduce(COLLECT_SUM_U64, 16);
    assert_said(op, 11, 2, 0, 0);
    assert_int_equal(op->said.errors, 2);
    for (uint32_t n = 0; n < 2; n++) {
        seen[op->said.first[n].rank - 4] =
            op->said.first[n].status == (op->said.first[n].rank == 4 ? NIGH_INVALID : NIGH_DENIED);
    }
    assert_true(seen[0] && seen[1]);
    end_world();
}

/* ---- liars ---------------------------------------------------------------- */

static nigh_status take(struct collect_wire wire, uint32_t asker, uint32_t bytes)
{
    static uint8_t payload[CALLS_PAYLOAD + 64];
    struct calls_wire called = {.service = 0};
    struct collect_from from = {.channel = channel_of(&calls[0]), .call = 1, .rank = asker};
    struct rpc_request came = {
        .call = 1, .payload = payload, .bytes = bytes, .deadline_us = now_us + DEADLINE};
    nigh_status status;

    memcpy(payload, &called, sizeof(called));
    memcpy(payload + sizeof(called), &wire, sizeof(wire));
    status = collect_take(nodes[2].collects, &from, &came, now_us);
    if (status == NIGH_OK) {
        collects_channel_down(nodes[2].collects, from.channel, now_us);
    }
    return status;
}

static void what_no_honest_node_asks_is_refused(void **state)
{
    const uint32_t head = sizeof(struct calls_wire) + sizeof(struct collect_wire);
    struct collect_wire good = {
        .version = VERSION, .origin = 0, .value_room = 16, .reduce = 1, .fan = 2, .depth = 1};
    struct collect_wire bad;

    (void)state;
    begin_world(8);
    ranks_put(&good.ranks, 2);
    ranks_put(&good.ranks, 3);
    assert_int_equal(take(good, 1, head + 3), NIGH_OK);
    assert_int_equal(take(good, 1, head - 1), NIGH_INVALID);
    assert_int_equal(take(good, 1, head + LIMIT_COLLECT_BYTES + 1), NIGH_INVALID);
    assert_int_equal(take(good, 3, head), NIGH_INVALID); /* the asker is among them */
    bad = good;
    bad.origin = 3;
    assert_int_equal(take(bad, 1, head), NIGH_INVALID);
    bad.origin = 8;
    assert_int_equal(take(bad, 1, head), NIGH_INVALID);
    bad = good;
    ranks_drop(&bad.ranks, 2);
    assert_int_equal(take(bad, 1, head), NIGH_INVALID); /* it is not for us */
    bad = good;
    ranks_put(&bad.ranks, 8);
    assert_int_equal(take(bad, 1, head), NIGH_INVALID); /* nobody */
    bad = good;
    bad.version++;
    assert_int_equal(take(bad, 1, head), NIGH_STALE);
    bad.version = 0;
    assert_int_equal(take(bad, 1, head), NIGH_INVALID);
    bad = good;
    bad.fan = 1;
    assert_int_equal(take(bad, 1, head), NIGH_INVALID);
    bad.fan = LIMIT_COLLECT_FAN + 1;
    assert_int_equal(take(bad, 1, head), NIGH_INVALID);
    bad = good;
    bad.reduce = COLLECT_REDUCES;
    assert_int_equal(take(bad, 1, head), NIGH_INVALID);
    bad.reduce = COLLECT_NONE; /* which has no value */
    assert_int_equal(take(bad, 1, head), NIGH_INVALID);
    bad = good;
    bad.value_room = 12;
    assert_int_equal(take(bad, 1, head), NIGH_INVALID);
    bad.value_room = LIMIT_COLLECT_BYTES + 8;
    assert_int_equal(take(bad, 1, head), NIGH_INVALID);
    bad = good;
    bad.depth = LIMIT_COLLECT_DEPTH + 1;
    assert_int_equal(take(bad, 1, head), NIGH_INVALID);
    assert_int_equal(under_way(), 0);
    end_world();
}

/* Node 1, which has 1 to 4 of 13, says this; what the others say is true. */
static const struct op *lie(struct collect_said said, const uint64_t *value, uint32_t value_bytes)
{
    struct op *op = begin_all(0);
    struct call *call = find_call(1, false);

    go_on(call);
    call->state = CALL_RETURNS;
    call->status = NIGH_OK;
    memcpy(call->reply, &said, sizeof(said));
    memcpy(call->reply + sizeof(said), value, value_bytes);
    call->bytes = (uint32_t)sizeof(said) + value_bytes;
    settle();
    assert_int_equal(op->ends, 1);
    return op;
}

static void assert_lie(struct collect_said said, const uint64_t *value, uint32_t value_bytes)
{
    const struct op *op = lie(said, value, value_bytes);

    assert_said(op, 9, 0, 4, 0);
    assert_int_equal(op->said.first[0].status, NIGH_PROTOCOL);
    assert_int_equal(op->said.first[0].count, 4);
}

static void an_answer_that_is_none_counts_for_nothing(void **state)
{
    const uint64_t value[2] = {4, 0x1e};
    struct collect_said good = {.answered = 4, .value_bytes = 16}, bad;

    (void)state;
    begin_world(13);
    assert_int_equal(lie(good, value, 16)->said.answered, 13);
    bad = good;
    bad.answered = 5;
    assert_lie(bad, value, 16);
    bad = good;
    bad.value_bytes = 8;
    assert_lie(bad, value, 8);
    assert_lie(bad, value, 16);
    bad = good;
    bad.errors = 1;
    bad.first[0] = (struct collect_error){.rank = 2, .status = NIGH_BUSY, .count = 1};
    assert_lie(bad, value, 16); /* an error, and all answered */
    bad = good;
    bad.answered = 3;
    bad.failed = 1;
    assert_lie(bad, value, 16); /* and no error */
    bad.errors = 1;
    bad.first[0] = (struct collect_error){.rank = 2, .status = NIGH_BUSY, .count = 1};
    bad.failed = 2;
    assert_lie(bad, value, 16); /* one more than there are */
    bad.failed = UINT32_MAX;
    bad.unknown = 2; /* just as many, if one adds in 32 bits */
    assert_lie(bad, value, 16);
    bad.failed = 0;
    bad.unknown = 0;
    assert_lie(bad, value, 16); /* one fewer */
    bad.failed = 1;
    bad.errors = LIMIT_COLLECT_ERRORS + 1;
    assert_lie(bad, value, 16);
    bad.errors = 1;
    bad.first[0] = (struct collect_error){.rank = 7, .status = NIGH_BUSY, .count = 1};
    assert_lie(bad, value, 16); /* of another's run */
    bad.first[0].rank = UINT32_MAX;
    assert_lie(bad, value, 16);
    bad.first[0] = (struct collect_error){.rank = 2, .status = NIGH_PENDING, .count = 1};
    assert_lie(bad, value, 16);
    bad.first[0] = (struct collect_error){.rank = 2, .status = NIGH_OK, .count = 1};
    assert_lie(bad, value, 16);
    bad.first[0] = (struct collect_error){.rank = 2, .status = NIGH_BUSY, .count = 5};
    assert_lie(bad, value, 16);
    end_world();
}

static void entries_that_are_none_count_for_nothing(void **state)
{
    static const struct {
        uint32_t words[8];
        uint32_t count, answered;
    } lies[] = {
        {{1, 0, 2, 0, 3, 0}, 6, 4},       /* one is missing */
        {{1, 0, 2, 0, 4, 0, 3, 0}, 8, 4}, /* not by rank */
        {{1, 0, 2, 0, 3, 0, 5, 0}, 8, 4}, /* another's */
        {{1, 0, 2, 0, 3, 0, 4, 4}, 8, 4}, /* longer than it is */
        {{1, 0, 2, 0, 3, 0, 4}, 7, 4},    /* shorter than an entry */
    };

    (void)state;
    for (uint32_t n = 0; n < sizeof(lies) / sizeof(lies[0]); n++) {
        struct collect_said said = {.answered = lies[n].answered, .value_bytes = lies[n].count * 4};
        struct collect_task task;
        struct call *call;

        begin_world(13);
        task = task_of(COLLECT_CONCAT, LIMIT_COLLECT_BYTES);
        assert_int_equal(begin_op(0, &task), NIGH_OK);
        turn();
        call = find_call(1, false);
        go_on(call);
        call->state = CALL_RETURNS;
        call->status = NIGH_OK;
        memcpy(call->reply, &said, sizeof(said));
        memcpy(call->reply + sizeof(said), lies[n].words, said.value_bytes);
        call->bytes = (uint32_t)sizeof(said) + said.value_bytes;
        settle();
        assert_int_equal(ops[0].said.answered, 9);
        assert_int_equal(ops[0].said.unknown, 4);
        end_world();
    }
}

/* ---- random lives --------------------------------------------------------- */

static void random_begin(struct random *random)
{
    uint32_t root = (uint32_t)random_below(random, node_count);
    struct collect_task task = task_of(COLLECT_SUM_U64, 16);

    if (nodes[root].collects == NULL || op_count == OPS) {
        return;
    }
    task.fan = 2 + (uint32_t)random_below(random, 5);
    task.deadline_us = now_us + random_below(random, 3 * DEADLINE);
    if (random_below(random, 3) == 0) {
        task.all = false;
        for (uint32_t rank = 0; rank < node_count; rank++) {
            if (random_below(random, 2) == 0) {
                ranks_put(&task.ranks, rank);
            }
        }
    }
    (void)begin_op(root, &task);
    turn();
}

static void random_harm(struct random *random)
{
    uint32_t rank = (uint32_t)random_below(random, node_count);
    uint32_t other = (uint32_t)random_below(random, node_count);
    struct ranks all = ranks_all(node_count);

    switch (random_below(random, 6)) {
    case 0:
        if (nodes[rank].collects != NULL && random_below(random, 4) == 0) {
            kill_node(rank);
        }
        for (uint32_t n = 0; n < node_count; n++) {
            if (nodes[n].collects == NULL && random_below(random, 2) == 0) {
                start_node(n);
            }
        }
        break;
    case 1: cut(rank, other); break;
    case 2:
        if (nodes[rank].collects != NULL) {
            collects_group(nodes[rank].collects, VERSION + (random_below(random, 8) == 0), &all);
        }
        break;
    case 3:
        if (op_count > 0) {
            struct op *op = &ops[random_below(random, op_count)];

            if (nodes[op->root].collects != NULL) {
                op->given_up =
                    collect_cancel(nodes[op->root].collects, 1, (uint32_t)(op - ops), now_us) ||
                    op->given_up;
            }
        }
        break;
    default: pass(random_below(random, DEADLINE / 4)); break;
    }
    turn();
}

static void random_step(struct random *random)
{
    struct call *call = &calls[random_below(random, 256)];

    if (call->state == CALL_SERVED && call->ask.wire == NULL && random_below(random, 8) == 0) {
        answer_call(call, NIGH_DENIED);
    } else if (may_go_on(call)) {
        go_on(call);
    }
}

/* What was not given up has ended once its deadline and all answers have come. */
static void check_all(void)
{
    pass(4 * DEADLINE);
    settle();
    for (uint32_t n = 0; n < op_count; n++) {
        check_op(&ops[n]);
        assert_int_equal(ops[n].ends, !ops[n].given_up);
    }
    assert_int_equal(under_way(), 0);
}

static void random_lives_end_well(void **state)
{
    uint64_t end_us = support_now_us() + support_budget_ms(0) * 1000;
    uint32_t ends = 0, whole = 0, life = 0;
    struct random random;

    (void)state;
    random_init(&random, support_seed());
    for (; life < 200 || support_now_us() < end_us; life++) {
        begin_world(2 + (uint32_t)random_below(&random, MOST - 2));
        for (uint32_t n = 0; n < 3000; n++) {
            uint64_t what = random_below(&random, UINT64_C(200) << life % 4);

            if (what == 0) {
                random_harm(&random);
            } else if (what % 200 == 1) {
                random_begin(&random);
            } else {
                random_step(&random);
            }
        }
        check_all();
        for (uint32_t n = 0; n < op_count; n++) {
            ends += ops[n].ends;
            whole += ops[n].ends == 1 && ops[n].said.errors == 0;
        }
        end_world();
    }
    printf("# %u lives: %u ended, %u of them whole\n", life, ends, whole);
    assert_true(ends > 5 * life / 2 && whole > life / 10 && whole < ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_asked_once_and_counted),
        cmocka_unit_test(only_those_that_are_named_are_asked),
        cmocka_unit_test(who_was_dead_before_is_passed_over),
        cmocka_unit_test(a_node_that_dies_takes_its_run_along),
        cmocka_unit_test(who_loses_its_parent_gives_up),
        cmocka_unit_test(another_version_is_refused),
        cmocka_unit_test(without_a_group_nobody_is_asked),
        cmocka_unit_test(who_is_silent_is_missed_alone),
        cmocka_unit_test(a_cancel_reaches_all),
        cmocka_unit_test(a_session_that_goes_takes_its_own_along),
        cmocka_unit_test(too_many_are_refused),
        cmocka_unit_test(replies_are_reduced),
        cmocka_unit_test(replies_are_put_together_by_rank),
        cmocka_unit_test(a_reply_that_does_not_fit_does_not_count),
        cmocka_unit_test(what_no_honest_node_asks_is_refused),
        cmocka_unit_test(an_answer_that_is_none_counts_for_nothing),
        cmocka_unit_test(entries_that_are_none_count_for_nothing),
        cmocka_unit_test(random_lives_end_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
