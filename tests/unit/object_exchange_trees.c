/* SPDX-License-Identifier: Apache-2.0 */
/* Part of object_exchange_hostile_test.c: large objects that are served while they are pulled, to a
 * peer that is their holder, too, and says anything. */

#define TREE_DATA  20000u
#define TREE_FIRST 8000u /* bytes of it that the peer lends at first */

/* A call of the peer that need not end at once. */
static void begin_call(struct reply *reply, uint16_t method, const void *said, uint32_t bytes)
{
    struct rpc_piece piece = {.data = said, .bytes = bytes};

    *reply = (struct reply){0};
    assert_int_equal(
        rpc_call(fuzz.rpc, method, &piece, 1, UINT64_MAX, fuzz.now_us, on_end, reply, NULL),
        NIGH_OK);
    pass(2000);
}

static struct directory_object tree_object(void)
{
    return (struct directory_object){.birth = {1, 1, 1}, .data_size = TREE_DATA};
}

/* The node pulls an object of which the peer lends the first bytes, and wants more. */
static struct asked *pull_first(struct op **op, struct wire_pulled *pulled)
{
    struct wire_piece piece = piece_of(0, TREE_FIRST);
    struct asked *asked;
    struct wire_pull pull;

    *op = begin_get(key_of_peer(0), 1000000);
    *pulled = loan_of(tree_object());
    pulled->partial = 1;
    say_loan(wait_asked(WIRE_LOCATE), pulled, &piece, 1);
    asked = wait_asked(WIRE_PULL);
    memcpy(&pull, asked->payload, sizeof(pull));
    assert_int_equal(pull.serve, 1); /* it goes on with what it has */
    assert_int_equal(pull.tag, TREE_FIRST);
    return asked;
}

/* The peer lends the rest. */
static void lend_rest(struct asked *asked, struct wire_pulled *pulled)
{
    struct wire_piece piece = piece_of(TREE_FIRST, TREE_DATA - TREE_FIRST);

    pulled->partial = 0;
    pulled->from = TREE_FIRST;
    say_loan(asked, pulled, &piece, 1);
    pass(3000);
}

static struct wire_pull tree_pull(uint64_t serve, uint64_t from)
{
    return (struct wire_pull){.key = key_of(key_of_peer(0)),
                              .birth = tree_object().birth,
                              .way = WIRE_LOAN,
                              .tag = from,
                              .serve = serve,
                              .flags = WIRE_PULL_SENT};
}

static struct wire_pulled pulled_in(const struct reply *reply, struct wire_piece *pieces)
{
    struct wire_pulled pulled;

    assert_true(reply->ended);
    assert_int_equal(reply->status, NIGH_OK);
    memcpy(&pulled, reply->payload, sizeof(pulled));
    assert_int_equal(pulled.state, WIRE_PULLED);
    assert_int_equal(pulled.way, WIRE_LOAN);
    memcpy(pieces, reply->payload + sizeof(pulled), pulled.pieces * sizeof(*pieces));
    return pulled;
}

static uint64_t bytes_of(const struct wire_pulled *pulled, const struct wire_piece *pieces)
{
    uint64_t bytes = 0;

    for (uint32_t n = 0; n < pulled->pieces; n++) {
        bytes += pieces[n].bytes;
    }
    return bytes;
}

/* What the node has of it is lent to the peer. */
static uint64_t borrow_first(struct reply *reply, struct wire_piece *pieces)
{
    struct wire_pull pull = tree_pull(0, 0);
    struct wire_pulled pulled;

    begin_call(reply, WIRE_PULL, &pull, sizeof(pull));
    pulled = pulled_in(reply, pieces);
    assert_int_equal(bytes_of(&pulled, pieces), TREE_FIRST);
    assert_int_equal(pulled.partial, 1);
    assert_int_equal(pulled.sums.known, 0); /* it has not seen them agree */
    return pulled.serve;
}

static void say_done(uint64_t serve)
{
    struct wire_more more = {.serve = serve};
    struct rpc_piece piece = {.data = &more, .bytes = sizeof(more)};

    assert_int_equal(rpc_one_way(fuzz.rpc, WIRE_DONE, &piece, 1, fuzz.now_us), NIGH_OK);
    pass(2000);
}

static void forget_tree_object(void)
{
    (void)submit(NULL, OP_DELETE, key_of_peer(0), (struct session_sqe){.op = SESSION_OP_DELETE});
    finish_with();
}

static void what_is_pulled_is_lent_as_far_as_it_came(void **state)
{
    struct wire_piece pieces[8];
    struct wire_pulled pulled, lent;
    struct wire_pull pull;
    struct asked *asked;
    struct reply reply;
    uint64_t serve;
    struct op *op;

    (void)state;
    begin_with(0);
    announced();
    asked = pull_first(&op, &pulled);
    serve = borrow_first(&reply, pieces);
    assert_memory_equal(
        read_from_node((struct fabric_remote){pieces[0].address, pieces[0].key}, 500), fuzz.region,
        500);
    /* More is there when it has come, and not before. */
    pull = tree_pull(serve, TREE_FIRST);
    begin_call(&reply, WIRE_PULL, &pull, sizeof(pull));
    assert_false(reply.ended);
    lend_rest(asked, &pulled);
    assert_int_equal(op->cqe.status, NIGH_OK);
    lent = pulled_in(&reply, pieces);
    assert_int_equal(lent.serve, serve);
    assert_int_equal(bytes_of(&lent, pieces), TREE_DATA - TREE_FIRST);
    assert_int_equal(lent.partial, 0);
    assert_int_equal(lent.sums.known, 1);
    assert_int_equal(lent.sums.data_crc, pulled.sums.data_crc);
    say_done(serve);
    assert_int_equal(numbers().loans_now, 0);
    assert_int_equal(numbers().served_partial, 1);
    assert_int_equal(downs(), 0);
    forget_tree_object();
}

/* A question for more is answered in a while though there is none: who asks may go elsewhere. */
static void who_waits_for_more_is_told_in_time(void **state)
{
    struct wire_piece pieces[8];
    struct wire_pulled pulled, lent;
    struct wire_pull pull;
    struct asked *asked;
    struct reply reply;
    struct op *op;

    (void)state;
    begin_with(0);
    announced();
    asked = pull_first(&op, &pulled);
    pull = tree_pull(borrow_first(&reply, pieces), TREE_FIRST);
    begin_call(&reply, WIRE_PULL, &pull, sizeof(pull));
    pass(LIMIT_TREE_WAIT_US - 10000);
    assert_false(reply.ended);
    pass(20000);
    lent = pulled_in(&reply, pieces);
    assert_int_equal(lent.pieces, 0);
    assert_int_equal(lent.partial, 1);
    lend_rest(asked, &pulled);
    assert_int_equal(op->cqe.status, NIGH_OK);
    say_done(lent.serve);
    forget_tree_object();
}

/* Bytes with wrong sums are worth nothing to whoever read them here, and are never called right. */
static void what_came_wrong_is_called_wrong(void **state)
{
    for (uint32_t how = 0; how < 2; how++) {
        struct wire_piece pieces[8];
        struct wire_pulled pulled;
        struct wire_more more = {0};
        struct wire_pull pull;
        struct asked *asked;
        struct reply reply;
        struct op *op;

        (void)state;
        begin_with(0);
        announced();
        asked = pull_first(&op, &pulled);
        more.serve = borrow_first(&reply, pieces);
        pull = tree_pull(more.serve, TREE_FIRST);
        if (how == 0) {
            begin_call(&reply, WIRE_PULL, &pull, sizeof(pull));
        } else {
            begin_call(&reply, WIRE_DONE, &more, sizeof(more));
        }
        assert_false(reply.ended);
        pulled.sums.data_crc++;
        tell(&pulled.sums);
        lend_rest(asked, &pulled);
        assert_true(reply.ended);
        assert_int_equal(reply.status, NIGH_CORRUPT);
        assert_int_equal(numbers().crc_failures, 1);
        assert_int_equal(numbers().loans_now, 0);
        /* Asked for again, from its start. */
        asked = wait_asked(WIRE_LOCATE);
        pulled = loan_of(tree_object());
        answer(asked, &pulled, NULL, 0);
        pass(3000);
        assert_int_equal(op->cqe.status, NIGH_OK);
        forget_tree_object();
    }
}

/* Nobody here wants it any more: its memory stays where it is while it is lent. */
static void what_is_lent_stays_when_its_pull_ends(void **state)
{
    struct wire_piece pieces[8];
    struct wire_pulled pulled;
    nigh_node_stats stats = {0};
    struct wire_pull pull;
    struct asked *asked;
    struct reply reply;
    uint64_t serve;
    struct op *op;

    (void)state;
    begin_with(0);
    announced();
    asked = pull_first(&op, &pulled);
    serve = borrow_first(&reply, pieces);
    pass(1000000); /* the get's deadline */
    assert_int_equal(op->cqe.status, NIGH_TIMEOUT);
    lend_rest(asked, &pulled);
    assert_int_equal(fuzz.exchange->counts.pulls_now, 0);
    store_stats(fuzz.store, &stats);
    assert_int_equal(stats.objects_deleting, 1);
    assert_memory_equal(
        read_from_node((struct fabric_remote){pieces[0].address, pieces[0].key}, 500), fuzz.region,
        500);
    /* No more of it comes, and that is said; then it is gone. */
    pull = tree_pull(serve, TREE_FIRST);
    begin_call(&reply, WIRE_PULL, &pull, sizeof(pull));
    assert_true(reply.ended);
    assert_int_equal(reply.status, NIGH_NOT_FOUND);
    assert_int_equal(numbers().loans_now, 0);
    pass(5000);
    stats = (nigh_node_stats){0};
    store_stats(fuzz.store, &stats);
    assert_int_equal(stats.objects_deleting, 0);
    finish_with();
}

/* Others may be lent it while its home is asked: that is not to send it anew into the same place.
 */
static void what_has_come_is_not_sent_anew(void **state)
{
    struct wire_located where = {
        .state = DIRECTORY_KNOWN, .holder_count = 1, .holders = {1}, .object = tree_object()};
    struct rpc_piece piece = {.data = &where, .bytes = sizeof(where)};
    struct wire_pulled pulled;
    struct wire_locate locate;
    struct wire_pull pull;
    struct asked *asked;
    struct op *op;

    (void)state;
    begin_with(0);
    announced();
    asked = pull_first(&op, &pulled);
    rpc_reply(fuzz.rpc, asked->call, NIGH_NOT_FOUND, NULL, 0);
    asked->call = 0;
    asked = wait_asked(WIRE_LOCATE);
    memcpy(&locate, asked->payload, sizeof(locate));
    assert_int_equal(locate.only, 1);
    assert_int_equal(locate.credits, 0);
    rpc_reply(fuzz.rpc, asked->call, NIGH_OK, &piece, 1);
    asked->call = 0;
    asked = wait_asked(WIRE_PULL);
    memcpy(&pull, asked->payload, sizeof(pull));
    assert_int_equal(pull.tag, TREE_FIRST);
    lend_rest(asked, &pulled);
    assert_int_equal(op->cqe.status, NIGH_OK);
    forget_tree_object();
}

/* Only this birth, and only to those who were sent here for it. */
static void who_may_not_have_it_is_not_lent_it(void **state)
{
    struct wire_pulled pulled;
    struct asked *asked;
    struct op *op;

    (void)state;
    begin_with(0);
    announced();
    asked = pull_first(&op, &pulled);
    for (uint32_t lie = 0; lie < 7; lie++) {
        struct wire_pull pull = tree_pull(0, 0);
        nigh_status status = NIGH_NOT_FOUND;
        struct reply reply;

        switch (lie) {
        case 0: pull.birth.counter++; break;
        case 1: pull.flags = 0; break;
        case 2: pull.flags |= WIRE_PULL_ALONE; break;
        case 3: pull.key.pool++; break;
        case 4: pull.tag = TREE_DATA + 8, status = NIGH_PROTOCOL; break;
        case 5: pull.tag = TREE_FIRST, status = NIGH_BUSY; break; /* it has as much itself */
        default: pull.serve = UINT64_C(7) << 32; break;
        }
        begin_call(&reply, WIRE_PULL, &pull, sizeof(pull));
        assert_true(reply.ended);
        assert_int_equal(reply.status, status);
    }
    assert_int_equal(numbers().served_partial, 0);
    lend_rest(asked, &pulled);
    assert_int_equal(op->cqe.status, NIGH_OK);
    forget_tree_object();
}

static void send_on_to(struct asked *asked, uint32_t rank, uint32_t count, uint32_t bytes)
{
    struct wire_located located = {
        .state = WIRE_SENT_ON, .holder_count = count, .holders = {rank}, .object = tree_object()};
    struct rpc_piece piece = {.data = &located, .bytes = bytes};

    rpc_reply(fuzz.rpc, asked->call, NIGH_OK, &piece, 1);
    asked->call = 0;
}

/* The peer says that it holds it; the node asks for it. */
static struct asked *ask_holder(struct op **op)
{
    struct wire_located where = {
        .state = DIRECTORY_KNOWN, .holder_count = 1, .holders = {1}, .object = tree_object()};
    struct rpc_piece piece = {.data = &where, .bytes = sizeof(where)};
    struct asked *asked;

    *op = begin_get(key_of_peer(0), 3000000);
    asked = wait_asked(WIRE_LOCATE);
    rpc_reply(fuzz.rpc, asked->call, NIGH_OK, &piece, 1);
    asked->call = 0;
    return wait_asked(WIRE_PULL);
}

/* Sent to nobody again and again, it insists; and then it is served, or not. */
static void who_is_sent_about_in_vain_insists(void **state)
{
    struct wire_pulled pulled = loan_of(tree_object());
    struct asked *asked;
    struct wire_pull pull;
    struct op *op;

    (void)state;
    begin_with(0);
    announced();
    asked = ask_holder(&op);
    for (uint32_t n = 0; n < LIMIT_TREE_TRIES; n++) {
        memcpy(&pull, asked->payload, sizeof(pull));
        assert_int_equal(pull.flags & WIRE_PULL_ALONE, 0);
        send_on_to(asked, 7, 1, sizeof(struct wire_located));
        asked = wait_asked(WIRE_PULL);
    }
    memcpy(&pull, asked->payload, sizeof(pull));
    assert_int_equal(pull.flags, WIRE_PULL_ALONE);
    pulled = loan_of(tree_object());
    answer(asked, &pulled, NULL, 0);
    pass(3000);
    assert_int_equal(op->cqe.status, NIGH_OK);
    assert_int_equal(downs(), 0);
    forget_tree_object();
}

/* Around and around: not for ever. */
static void who_is_sent_in_circles_gets_out(void **state)
{
    struct asked *asked;
    struct wire_pull pull;
    struct op *op;
    uint32_t hops = 0;

    (void)state;
    begin_with(0);
    announced();
    asked = ask_holder(&op);
    memcpy(&pull, asked->payload, sizeof(pull));
    for (; (pull.flags & WIRE_PULL_ALONE) == 0; hops++) {
        assert_true(hops < (LIMIT_TREE_TRIES + 1) * (LIMIT_TREE_HOPS + 1));
        send_on_to(asked, 1, 1, sizeof(struct wire_located));
        asked = wait_asked(WIRE_PULL);
        memcpy(&pull, asked->payload, sizeof(pull));
    }
    assert_true(hops > LIMIT_TREE_HOPS);
    /* Who is not to be sent on is not. */
    send_on_to(asked, 1, 1, sizeof(struct wire_located));
    pass(2000);
    assert_int_equal(downs(), 1);
    finish_with();
}

static void nobody_to_be_sent_to_costs_the_link(void **state)
{
    (void)state;
    for (uint32_t lie = 0; lie < 3; lie++) {
        struct asked *asked;
        struct op *op;

        begin_with(0);
        announced();
        asked = ask_holder(&op);
        send_on_to(asked, 1,
                   lie == 0   ? 0
                   : lie == 1 ? DIRECTORY_HOLDERS + 1
                              : 1,
                   sizeof(struct wire_located) - (lie == 2 ? 8 : 0));
        pass(2000);
        assert_int_equal(downs(), 1);
        finish_with();
    }
}
