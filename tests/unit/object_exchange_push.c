/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node that is pushed to, and one that pushes, with a peer that does as it likes; and loans with
 * a registration each. Part of object_exchange_hostile_test.c, which includes it.
 */

#define PUSHES    6 /* begin_with: EXCHANGE_PUSH */
#define REGISTERS 8 /* EXCHANGE_REGISTER */
#define ROOM      ((uint32_t)(WINDOW - sizeof(struct wire_chunk)))
#define PUSHED    (2u * ROOM + 104)
#define OFFERED   (BULKS / 2)

/* What a request grants behind its first bytes. */
static uint32_t windows_in(const struct asked *asked, uint32_t head_bytes,
                           struct wire_window *windows)
{
    uint32_t count = (asked->bytes - head_bytes) / (uint32_t)sizeof(*windows);

    assert_true(count <= WIRE_WINDOWS);
    assert_int_equal(asked->bytes, head_bytes + count * sizeof(*windows));
    memcpy(windows, asked->payload + head_bytes, count * sizeof(*windows));
    return count;
}

static struct op *locate_pushed(uint32_t n, uint64_t timeout_us, struct wire_locate *locate,
                                struct wire_window *windows, struct asked **asked)
{
    struct op *op = begin_get(key_of_peer(n), timeout_us);

    *asked = wait_asked(WIRE_LOCATE);
    memcpy(locate, (*asked)->payload, sizeof(*locate));
    assert_int_equal(locate->way, WIRE_PUSH);
    assert_int_equal(windows_in(*asked, sizeof(*locate), windows), locate->credits);
    return op;
}

static struct directory_object pushed_object(uint64_t size)
{
    return (struct directory_object){.birth = {1, 1, 1}, .data_size = size};
}

static struct wire_pulled push_of(struct directory_object object)
{
    struct wire_pulled pulled = loan_of(object);

    pulled.way = WIRE_PUSH;
    return pulled;
}

/* The n-th message of an object of `size`. */
static struct wire_chunk chunk_of(uint64_t tag, uint32_t n, uint64_t size, uint32_t unused)
{
    struct directory_object object = pushed_object(size);
    uint64_t left = content_of(&object) - (uint64_t)n * ROOM;
    struct wire_chunk chunk = {
        .tag = tag, .offset = (uint64_t)n * ROOM, .bytes = left < ROOM ? (uint32_t)left : ROOM};

    if (left <= ROOM) {
        chunk.flags = WIRE_LAST;
        chunk.unused = unused;
        chunk.sums = sums_of(&object);
        tell(&chunk.sums);
    }
    return chunk;
}

static void write_chunk(const struct wire_window *window, const struct wire_chunk *chunk)
{
    push(LINK_BULK, window, chunk, sizeof(*chunk), fuzz.region + chunk->offset, chunk->bytes);
    pass(1000);
}

/* The windows that the node has granted to a pull. */
static uint32_t granted_to(uint64_t tag, uint32_t *numbers_out)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < BULKS; n++) {
        if (staging()->windows[n].state != PUSH_FREE && staging()->windows[n].tag == tag) {
            numbers_out[count++] = n;
        }
    }
    return count;
}

/* One round trip, whether the answer comes first or the messages do. */
static void a_holder_pushes(void **state)
{
    (void)state;
    begin_with(PUSHES);
    for (uint32_t n = 0; n < 2 * BULKS; n++) {
        struct wire_window windows[WIRE_WINDOWS];
        uint32_t early = n % 4;
        struct wire_pulled pulled;
        struct wire_locate locate;
        struct asked *asked;
        struct op *op = locate_pushed(n, 1000000, &locate, windows, &asked);

        assert_int_equal(locate.credits, OFFERED);
        for (uint32_t i = 0; i < 3; i++) {
            struct wire_chunk chunk = chunk_of(locate.tag, i, PUSHED, 0);

            if (i == early) {
                pulled = push_of(pushed_object(PUSHED));
                answer(asked, &pulled, NULL, 0);
                pass(1000);
            }
            write_chunk(&windows[i], &chunk);
        }
        if (early == 3) {
            pulled = push_of(pushed_object(PUSHED));
            answer(asked, &pulled, NULL, 0);
            pass(1000);
        }
        assert_int_equal(op->kind, OP_FREE);
        assert_int_equal(op->cqe.status, NIGH_OK);
        assert_int_equal(only_link()->granted, 0);
        assert_int_equal(push_free(only_link()), BULKS);
    }
    assert_int_equal(downs(), 0);
    assert_int_equal(count_asked(WIRE_PULL), 0);
    assert_int_equal(numbers().pulled_bytes_pushed, 2 * BULKS * PUSHED);
    assert_int_equal(numbers().pulled_bytes_two_sided + numbers().pulled_bytes_one_sided, 0);
    for (uint32_t n = 0; n < 2 * BULKS; n++) {
        (void)submit(NULL, OP_DELETE, key_of_peer(n),
                     (struct session_sqe){.op = SESSION_OP_DELETE});
    }
    finish_with();
}

/* A PULL of the n-th object, whose home only says where it is: the windows that come with that. */
static struct op *ask_pushed(uint32_t n, uint64_t size, struct wire_pull *pull,
                             struct wire_window *windows, struct asked **asked)
{
    struct wire_located where = {
        .state = DIRECTORY_KNOWN, .holder_count = 1, .holders = {1}, .object = pushed_object(size)};
    struct rpc_piece piece = {.data = &where, .bytes = sizeof(where)};
    struct op *op = begin_get(key_of_peer(n), 1000000);

    *asked = wait_asked(WIRE_LOCATE);
    rpc_reply(fuzz.rpc, (*asked)->call, NIGH_OK, &piece, 1);
    (*asked)->call = 0;
    *asked = wait_asked(WIRE_PULL);
    memcpy(pull, (*asked)->payload, sizeof(*pull));
    assert_int_equal(pull->way, WIRE_PUSH);
    assert_int_equal(windows_in(*asked, sizeof(*pull), windows), pull->credits);
    return op;
}

/* A pull is given up; its holder may still write where it was told to. Nobody else is told so
 * before the holder has said that it is done. */
static void a_window_is_granted_once(void **state)
{
    enum {
        MESSAGES = 9
    };
    const uint64_t size = MESSAGES * ROOM - 8;
    struct wire_window first[WIRE_WINDOWS], windows[WIRE_WINDOWS];
    uint32_t ours[BULKS], count, written = 0;
    struct wire_pulled pulled;
    struct wire_locate locate;
    struct wire_chunk chunk;
    struct asked *asked;
    struct wire_pull pull;
    uint64_t given_up;
    struct op *op;

    (void)state;
    begin_with(PUSHES);
    op = locate_pushed(0, 20000, &locate, first, &asked);
    given_up = locate.tag;
    pulled = push_of(pushed_object(PUSHED));
    answer(asked, &pulled, NULL, 0);
    pass(30000);
    assert_int_equal(op->cqe.status, NIGH_TIMEOUT);
    assert_int_equal(numbers().pulls_now, 0);
    assert_int_equal(granted_to(given_up, ours), OFFERED);

    op = ask_pushed(1, size, &pull, windows, &asked);
    assert_int_equal(pull.credits, BULKS - OFFERED);
    pulled = push_of(pushed_object(size));
    answer(asked, &pulled, NULL, 0);
    pass(1000);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        struct wire_window window;

        count = granted_to(pull.tag, ours);
        for (uint32_t n = 0; n < count; n++) {
            for (uint32_t m = written; m < OFFERED; m++) {
                assert_int_not_equal(ours[n], first[m].imm & 0xfff);
            }
        }
        if (i == 4) { /* late, and then the last word */
            chunk = chunk_of(given_up, 0, PUSHED, 0);
            write_chunk(&first[written++], &chunk);
        }
        assert_true(window_of(pull.tag, &window));
        chunk = chunk_of(pull.tag, i, size, count - 1);
        write_chunk(&window, &chunk);
    }
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_OK);
    assert_int_equal(push_free(only_link()), BULKS - OFFERED + written);
    chunk = (struct wire_chunk){.tag = given_up, .flags = WIRE_LAST, .unused = 1};
    write_chunk(&first[written], &chunk);
    assert_int_equal(push_free(only_link()), BULKS);
    assert_int_equal(only_link()->granted, 0);
    assert_int_equal(downs(), 0);
    (void)submit(NULL, OP_DELETE, key_of_peer(1), (struct session_sqe){.op = SESSION_OP_DELETE});
    finish_with();
}

static void what_names_no_window_costs_the_link(void **state)
{
    (void)state;
    for (uint32_t lie = 0; lie < 9; lie++) {
        struct wire_window windows[WIRE_WINDOWS], window;
        struct wire_pulled pulled;
        struct wire_locate locate;
        struct wire_chunk chunk;
        struct asked *asked;
        enum link_endpoint kind = LINK_BULK;
        uint32_t bytes = sizeof(chunk);

        begin_with(PUSHES);
        (void)locate_pushed(0, 1000000, &locate, windows, &asked);
        pulled = push_of(pushed_object(PUSHED));
        answer(asked, &pulled, NULL, 0);
        pass(1000);
        chunk = chunk_of(locate.tag, 0, PUSHED, 0);
        write_chunk(&windows[0], &chunk);
        assert_int_equal(downs(), 0);
        chunk = chunk_of(locate.tag, 1, PUSHED, 0);
        window = windows[1];
        switch (lie) {
        case 0: window.imm = windows[0].imm; break;   /* what it has said already */
        case 1: window.imm += 1u << 12; break;        /* a grant that is still to come */
        case 2: window.imm -= 1u << 12; break;        /* one that never was */
        case 3: window.imm = 1u << 12 | 4; break;     /* a window that nobody granted */
        case 4: window.imm = 1u << 12 | BULKS; break; /* none at all */
        case 5: window.imm = UINT32_MAX; break;
        case 6: kind = LINK_CONTROL; break; /* which takes none */
        case 7: bytes = 16; break;          /* no head */
        default: window.address = windows[0].address, chunk.bytes = WINDOW; break; /* too long */
        }
        push(kind, &window, &chunk, bytes, fuzz.region + ROOM, bytes < 20 ? 0 : chunk.bytes);
        pass(1000);
        assert_int_equal(downs(), 1);
        finish_with();
    }
}

/* A message that waits in its window for the answer is what it is when it is taken. */
static void what_lies_otherwise_in_a_window_costs_the_link(void **state)
{
    (void)state;
    for (uint32_t lie = 0; lie < 6; lie++) {
        struct wire_window windows[WIRE_WINDOWS];
        struct wire_pulled pulled;
        struct wire_locate locate;
        struct wire_chunk chunk, *there;
        struct asked *asked;

        begin_with(PUSHES);
        (void)locate_pushed(0, 1000000, &locate, windows, &asked);
        chunk = chunk_of(locate.tag, 0, PUSHED, 0);
        write_chunk(&windows[0], &chunk);
        there = (struct wire_chunk *)(void *)(staging()->bytes +
                                              (windows[0].imm & 0xfff) * staging()->stride);
        assert_int_equal(there->tag, locate.tag);
        switch (lie) {
        case 0: there->bytes = 50000; break;
        case 1: there->tag++; break;
        case 2: there->offset = 8; break;
        case 3: there->flags = WIRE_LAST, there->unused = OFFERED; break; /* more than is left */
        case 4:                                                           /* it has come already */
            write_chunk(&windows[0], &chunk);
            assert_int_equal(downs(), 1);
            break;
        default: /* it is sent, and not written */
            post(LINK_BULK, &chunk, sizeof(chunk), fuzz.region, chunk.bytes);
            pass(1000);
            break;
        }
        pulled = push_of(pushed_object(PUSHED));
        if (lie != 4) {
            answer(asked, &pulled, NULL, 0);
            pass(1000);
        }
        assert_int_equal(downs(), 1);
        finish_with();
    }
}

/* A message in a window that another pull was granted. */
static void a_window_is_of_one_pull(void **state)
{
    struct wire_window first[WIRE_WINDOWS], second[WIRE_WINDOWS];
    struct wire_pulled pulled = {0};
    struct wire_locate locate;
    struct wire_chunk chunk;
    struct asked *asked;
    struct wire_pull pull;

    (void)state;
    begin_with(PUSHES);
    (void)locate_pushed(0, 1000000, &locate, first, &asked);
    pulled = push_of(pushed_object(PUSHED));
    answer(asked, &pulled, NULL, 0);
    pass(1000);
    (void)ask_pushed(1, PUSHED, &pull, second, &asked);
    answer(asked, &pulled, NULL, 0);
    pass(1000);
    chunk = chunk_of(pull.tag, 0, PUSHED, 0);
    write_chunk(&second[0], &chunk);
    assert_int_equal(downs(), 0);
    chunk = chunk_of(pull.tag, 1, PUSHED, 0);
    write_chunk(&first[0], &chunk);
    assert_int_equal(downs(), 1);
    finish_with();
}

/* What a pull that was given up leaves are windows: a message that is sent was not granted. */
static void what_was_granted_to_be_written_is_not_sent(void **state)
{
    struct wire_window windows[WIRE_WINDOWS];
    struct wire_pulled pulled;
    struct wire_locate locate;
    struct wire_chunk chunk;
    struct asked *asked;

    (void)state;
    begin_with(PUSHES);
    (void)locate_pushed(0, 20000, &locate, windows, &asked);
    pulled = push_of(pushed_object(PUSHED));
    answer(asked, &pulled, NULL, 0);
    pass(30000);
    assert_int_equal(numbers().pulls_now, 0);
    chunk = (struct wire_chunk){.tag = locate.tag};
    post(LINK_BULK, &chunk, sizeof(chunk), NULL, 0);
    pass(1000);
    assert_int_equal(downs(), 1);
    finish_with();
}

/* What waits in a window for an answer, which takes the window back, is not taken at the cost of
 * windows that another pull has left: these stay granted. */
static void a_window_that_was_taken_back_is_not_taken(void **state)
{
    struct wire_window first[WIRE_WINDOWS], windows[WIRE_WINDOWS];
    struct wire_pulled pulled = push_of(pushed_object(PUSHED));
    struct wire_locate locate;
    struct wire_chunk chunk;
    struct asked *asked;

    (void)state;
    begin_with(PUSHES);
    (void)locate_pushed(0, 20000, &locate, first, &asked);
    answer(asked, &pulled, NULL, 0);
    pass(1000);
    for (uint32_t n = 0; n < 2; n++) {
        chunk = chunk_of(locate.tag, n, PUSHED, 0);
        write_chunk(&first[n], &chunk);
    }
    pass(30000); /* nobody waits any more: one window is left */
    assert_int_equal(numbers().pulls_now, 0);
    assert_int_equal(push_free(only_link()), BULKS - 1);

    (void)locate_pushed(1, 1000000, &locate, windows, &asked);
    assert_int_equal(locate.credits, OFFERED - 1);
    chunk = chunk_of(locate.tag, 0, PUSHED, 0);
    write_chunk(&windows[0], &chunk);
    assert_int_equal(downs(), 0);
    rpc_reply(fuzz.rpc, asked->call, NIGH_BUSY, NULL, 0);
    asked->call = 0;
    pass(1000);
    assert_int_equal(downs(), 1);
    finish_with();
}

/* Its window's key opens the staging memory of its own link: not what lies around that, not what
 * objects lie in, and nobody may read there. */
static void a_holder_writes_where_it_may(void **state)
{
    (void)state;
    for (uint32_t lie = 0; lie < 4; lie++) {
        struct wire_window windows[WIRE_WINDOWS], window;
        struct wire_locate locate;
        struct asked *asked;
        uint8_t before;
        struct fabric_remote object;

        begin_with(PUSHES);
        (void)locate_pushed(0, 1000000, &locate, windows, &asked);
        window = windows[0];
        before = fuzz.set->arena[0];
        object = fabric_memory_remote(fuzz.fabric, fuzz.exchange->memories[0], fuzz.set->arena);
        switch (lie) {
        case 0: window.address -= 8; break;
        case 1: window.address += BULKS * staging()->stride; break;
        case 2: window.address = object.address; break;
        default: window.address = object.address, window.key = object.key; break;
        }
        push(LINK_BULK, &window, "intruded", 8, fuzz.region, 64);
        pass(1000);
        assert_int_equal(downs(), 1);
        assert_int_equal(fuzz.set->arena[0], before);
        finish_with();
    }
    begin_with(PUSHES);
    pass(2000);
    assert_int_equal(
        read_from_node(fabric_memory_remote(fuzz.fabric, staging()->memory, staging()->bytes),
                       1)[0],
        0xee);
    assert_int_equal(downs(), 1);
    finish_with();
}

/* ---- the node is the holder ------------------------------------------------ */

/* A PULL of what the node has, with `count` windows of the peer's. */
static struct reply pull_pushed(uint32_t key, uint32_t credits, uint32_t count, uint64_t bytes)
{
    struct wire_pull pull = {
        .key = key_of(key), .way = WIRE_PUSH, .credits = credits, .tag = UINT64_C(77)};
    uint8_t payload[sizeof(pull) + 16 * sizeof(struct wire_window)];
    struct store_sight sight;
    struct reply reply;

    assert_true(is_here(key, &sight) && count <= 16);
    pull.birth = sight.birth;
    memcpy(payload, &pull, sizeof(pull));
    for (uint32_t n = 0; n < count; n++) {
        struct fabric_remote remote =
            fabric_memory_remote(fuzz.peer, fuzz.open, fuzz.windows[n % WIRE_WINDOWS]);
        struct wire_window window = {
            .address = remote.address, .bytes = bytes, .key = remote.key, .imm = 100 + n};

        memcpy(payload + sizeof(pull) + n * sizeof(window), &window, sizeof(window));
    }
    call(&reply, WIRE_PULL, payload, (uint32_t)(sizeof(pull) + count * sizeof(struct wire_window)));
    assert_true(reply.ended);
    return reply;
}

static void more_windows(uint64_t serve, uint32_t credits, uint32_t count)
{
    struct wire_more more = {.serve = serve, .credits = credits};
    uint8_t payload[sizeof(more) + WIRE_WINDOWS * sizeof(struct wire_window)];
    struct rpc_piece piece = {
        .data = payload, .bytes = (uint32_t)(sizeof(more) + count * sizeof(struct wire_window))};

    memcpy(payload, &more, sizeof(more));
    for (uint32_t n = 0; n < count; n++) {
        struct fabric_remote remote = fabric_memory_remote(fuzz.peer, fuzz.open, fuzz.windows[n]);
        struct wire_window window = {
            .address = remote.address, .bytes = WINDOW, .key = remote.key, .imm = 200 + n};

        memcpy(payload + sizeof(more) + n * sizeof(window), &window, sizeof(window));
    }
    (void)rpc_one_way(fuzz.rpc, WIRE_MORE, &piece, 1, fuzz.now_us);
    pass(2000);
}

static void a_puller_is_pushed_to(void **state)
{
    struct wire_pulled pulled;
    struct wire_chunk chunk;
    struct store_sight sight;
    struct reply reply;
    uint32_t key;

    (void)state;
    begin_with(0); /* whatever it chooses itself */
    announced();
    key = key_of_node(0);
    put(key, 2 * ROOM + 100);
    assert_true(is_here(key, &sight));
    memset(extent_bytes_at(fuzz.set, sight.offset), 'a', ROOM);
    memset(extent_bytes_at(fuzz.set, sight.offset + ROOM), 'b', ROOM);
    reply = pull_pushed(key, 2, 2, WINDOW);
    assert_int_equal(reply.status, NIGH_OK);
    memcpy(&pulled, reply.payload, sizeof(pulled));
    assert_int_equal(pulled.way, WIRE_PUSH);
    pass(2000);
    assert_int_equal(fuzz.imm_count, 2);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(fuzz.imms[n], 100 + n);
        assert_int_equal(fuzz.imm_bytes[n], WINDOW);
        memcpy(&chunk, fuzz.windows[n], sizeof(chunk));
        assert_int_equal(chunk.tag, 77);
        assert_int_equal(chunk.offset, n * ROOM);
        assert_int_equal(chunk.bytes, ROOM);
        assert_int_equal(chunk.flags, 0);
        assert_int_equal(fuzz.windows[n][WINDOW - 1], 'a' + n);
    }
    assert_int_equal(numbers().loans_now, 1);
    more_windows(pulled.serve, 2, 2);
    assert_int_equal(fuzz.imm_count, 3);
    assert_int_equal(fuzz.imms[2], 200);
    memcpy(&chunk, fuzz.windows[0], sizeof(chunk));
    assert_int_equal(chunk.flags, WIRE_LAST);
    assert_int_equal(chunk.unused, 1);
    assert_int_equal(chunk.sums.data_crc,
                     exchange_crc(0, extent_bytes_at(fuzz.set, sight.offset), 2 * ROOM + 100));
    assert_int_equal(numbers().loans_now, 0);
    assert_int_equal(numbers().served_pushes, 1);
    assert_int_equal(downs(), 0);
    finish_with();
}

static void windows_that_are_none_are_refused(void **state)
{
    struct wire_pulled pulled;
    struct reply reply;
    uint32_t key;

    (void)state;
    for (uint32_t lie = 0; lie < 4; lie++) {
        begin_with(0);
        announced();
        key = key_of_node(0);
        put(key, 20 * ROOM);
        assert_int_equal(pull_pushed(key, 2, 1, WINDOW).status, NIGH_PROTOCOL);
        assert_int_equal(pull_pushed(key, 1, 2, WINDOW).status, NIGH_PROTOCOL);
        assert_int_equal(pull_pushed(key, 1, 1, sizeof(struct wire_chunk)).status, NIGH_PROTOCOL);
        assert_int_equal(pull_pushed(key, WIRE_WINDOWS + 1, WIRE_WINDOWS + 1, WINDOW).status,
                         NIGH_PROTOCOL);
        assert_int_equal(numbers().loans_now, 0);
        assert_int_equal(numbers().loans_ever + numbers().served_bytes, 0);
        assert_int_equal(numbers().served_pushes, 0);
        reply = pull_pushed(key, 1, 1, WINDOW);
        assert_int_equal(reply.status, NIGH_OK);
        memcpy(&pulled, reply.payload, sizeof(pulled));
        assert_int_equal(downs(), 0);
        switch (lie) {
        case 0: more_windows(pulled.serve, 2, 1); break;
        case 1: more_windows(pulled.serve, 2, 0); break; /* credits alone are of messages */
        case 2: more_windows(pulled.serve, 1, 2); break;
        default: more_windows(pulled.serve, BULKS + 1, BULKS + 1); break;
        }
        assert_int_equal(downs(), 1);
        assert_int_equal(numbers().loans_now, 0);
        finish_with();
    }
}

/* ---- who cannot ------------------------------------------------------------ */

/* A peer that says so is asked for messages; a node whose own fabric cannot asks for nothing else,
 * and pushes nothing. */
static void who_cannot_push_sends(void **state)
{
    struct wire_window windows[WIRE_WINDOWS];
    struct wire_located where = {.state = DIRECTORY_KNOWN,
                                 .holder_count = 1,
                                 .holders = {1},
                                 .object = pushed_object(PUSHED)};
    struct rpc_piece piece = {.data = &where, .bytes = sizeof(where)};
    struct wire_locate locate;
    struct wire_pull pull;
    struct asked *asked;

    (void)state;
    begin_with(PUSHES);
    (void)locate_pushed(0, 1000000, &locate, windows, &asked);
    rpc_reply(fuzz.rpc, asked->call, NIGH_OK, &piece, 1);
    asked->call = 0;
    asked = wait_asked(WIRE_PULL);
    rpc_reply(fuzz.rpc, asked->call, NIGH_UNSUPPORTED, NULL, 0);
    asked->call = 0;
    asked = wait_asked(WIRE_PULL);
    memcpy(&pull, asked->payload, sizeof(pull));
    assert_int_equal(pull.way, WIRE_STREAM);
    assert_int_equal(asked->bytes, sizeof(pull));
    assert_int_equal(push_free(only_link()), BULKS);
    assert_int_equal(downs(), 0);
    finish_with();

    begin_with(PUSHES);
    exchange_peer_lost(fuzz.exchange, 1, fuzz.now_us);
    fuzz.fabric->caps.ops &= ~FABRIC_CAN_WRITE_IMM;
    peer_up();
    pass(2000);
    assert_null(staging());
    (void)begin_get(key_of_peer(0), 1000000);
    asked = wait_asked(WIRE_LOCATE);
    assert_int_equal(asked->bytes, sizeof(locate));
    memcpy(&locate, asked->payload, sizeof(locate));
    assert_int_equal(locate.way, 0);
    assert_int_equal(locate.credits, OFFERED);
    announced();
    put(key_of_node(0), 20 * ROOM);
    assert_int_equal(pull_pushed(key_of_node(0), 1, 1, WINDOW).status, NIGH_UNSUPPORTED);
    assert_int_equal(numbers().loans_now, 0);
    finish_with();
}

/* ---- a registration each --------------------------------------------------- */

static void end_loan(uint64_t serve)
{
    struct wire_more done = {.serve = serve};
    struct rpc_piece piece = {.data = &done, .bytes = sizeof(done)};

    (void)rpc_one_way(fuzz.rpc, WIRE_DONE, &piece, 1, fuzz.now_us);
    pass(2000);
}

/* Each loan is registered, whole and nothing but it, and no longer than it lasts. */
static void a_loan_has_its_registration(void **state)
{
    struct wire_piece pieces[8];
    struct store_sight sight;
    nigh_status status;
    uint64_t before;
    uint32_t key;

    (void)state;
    for (uint32_t end = 0; end < 3; end++) {
        begin_with(REGISTERS);
        announced();
        key = key_of_node(0);
        put(key, LARGE);
        assert_true(is_here(key, &sight));
        before = numbers().registrations;
        assert_int_equal(borrow_pieces(key, 4096, pieces, &status), 1);
        assert_int_equal(pieces[0].bytes, LARGE - 4096);
        assert_int_equal(numbers().registrations, before + 1);
        assert_int_equal(
            read_from_node((struct fabric_remote){pieces[0].address, pieces[0].key}, 1)[0],
            PATTERN);
        assert_int_equal(downs(), 0);
        switch (end) {
        case 0: /* what is around it */ pieces[0].address -= 8; break;
        case 1: end_loan((uint64_t)fuzz.exchange->serves[0].generation << 32); break;
        default:
            exchange_peer_lost(fuzz.exchange, 1, fuzz.now_us);
            peer_up();
            pass(2000);
            break;
        }
        assert_int_equal(numbers().loans_now, end == 0 ? 1 : 0);
        before = downs();
        assert_int_equal(
            read_from_node((struct fabric_remote){pieces[0].address, pieces[0].key}, 1)[0], 0xee);
        assert_int_equal(downs(), before + 1);
        finish_with();
    }
}
