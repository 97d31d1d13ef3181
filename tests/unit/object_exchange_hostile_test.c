/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random lives of a node whose peer has the key and says anything. The fuzz target runs the same
 * driver with the fuzzer's bytes; this one sees to it that every build does some of it.
 */
#include "../fuzz/exchange_fuzz.c"

#include "cluster/link_internal.h"
#include "support/support.h"

#include <stdio.h>

#define LIFE_BYTES 2000u
#define LIVES_MIN  100u /* however slow the machine is */

static void random_lives_leave_the_books_right(void **state)
{
    uint64_t seed = support_seed(), end_us = support_now_us() + support_budget_ms(4000) * 1000;
    uint8_t *bytes = malloc(LIFE_BYTES);
    uint64_t lives = 0;

    (void)state;
    assert_non_null(bytes);
    for (; lives < LIVES_MIN || support_now_us() < end_us; lives++) {
        uint64_t random = seed + lives * UINT64_C(0x9e3779b97f4a7c15) + 1;

        for (uint32_t i = 0; i < LIFE_BYTES; i++) {
            bytes[i] = (uint8_t)(support_random(&random) >> 24);
        }
        (void)LLVMFuzzerTestOneInput(bytes, LIFE_BYTES - lives % 8); /* which end, too */
    }
    free(bytes);
    printf("# %llu lives: %llu copies, %llu of them large, %llu own objects, %llu links ended\n",
           (unsigned long long)lives, (unsigned long long)counts.copies,
           (unsigned long long)counts.large_copies, (unsigned long long)counts.own,
           (unsigned long long)counts.breaks);
    /* A driver that only sends rubbish proves little: so much must come of it. */
    assert_true(counts.copies > lives / 2 && counts.large_copies > lives / 10);
    assert_true(counts.own > 0 && counts.breaks > 0);
}

/* ---- one lie at a time ----------------------------------------------------- */

static void begin_with(uint8_t how)
{
    memset(&fuzz, 0, sizeof(fuzz));
    fuzz.input = (struct fuzz_input){&how, 1};
    begin();
    fuzz.polite = true;
}

/* Keys of objects that a test put here. */
static uint32_t put_keys[OPS], put_count;

static void finish_with(void)
{
    settle();
    check(0);
    while (put_count > 0) {
        (void)submit(NULL, OP_DELETE, put_keys[--put_count],
                     (struct session_sqe){.op = SESSION_OP_DELETE});
    }
    check_nothing_is_held();
    end();
}

/* The n-th key whose home the peer is. */
static uint32_t key_of_peer(uint32_t n)
{
    for (uint32_t key = 0;; key++) {
        struct directory_key name = key_of(key);

        if (members_home(&fuzz.members, directory_key_hash(&name)) == 1 && n-- == 0) {
            return key;
        }
    }
}

static struct op *begin_get(uint32_t key, uint64_t timeout_us)
{
    struct op *op = submit(NULL, OP_GET, key,
                           (struct session_sqe){.op = SESSION_OP_GET, .argument = timeout_us});

    assert_non_null(op);
    return op;
}

/* The node's next request of a method. */
static struct asked *wait_asked(uint16_t method)
{
    for (uint32_t n = 0; n < 10000; n++) {
        for (uint32_t i = 0; i < CALLS; i++) {
            if (fuzz.asked[i].call != 0 && fuzz.asked[i].method == method) {
                return &fuzz.asked[i];
            }
        }
        pass(100);
    }
    fail_msg("method %u is not asked for", method);
    return NULL;
}

/* Bytes of the peer's region, lent. */
static struct wire_piece piece_of(uint64_t offset, uint64_t bytes)
{
    struct fabric_remote remote =
        fabric_memory_remote(fuzz.peer, fuzz.memory, fuzz.region + offset);

    return (struct wire_piece){.address = remote.address, .bytes = bytes, .key = remote.key};
}

static void answer(struct asked *asked, const struct wire_pulled *pulled, const void *bytes,
                   uint32_t count)
{
    struct wire_piece piece = piece_of(0, pulled->bytes);
    struct rpc_piece pieces[2] = {{.data = pulled, .bytes = sizeof(*pulled)},
                                  {.data = bytes, .bytes = count}};

    if (pulled->way == WIRE_LOAN && pulled->pieces == 1 && bytes == NULL) {
        pieces[1].data = &piece;
        pieces[1].bytes = count = sizeof(piece);
    }
    tell(&pulled->sums);
    rpc_reply(fuzz.rpc, asked->call, NIGH_OK, pieces, count > 0 ? 2 : 1);
    asked->call = 0;
}

static struct wire_pulled loan_of(struct directory_object object)
{
    return (struct wire_pulled){.state = WIRE_PULLED,
                                .way = WIRE_LOAN,
                                .object = object,
                                .sums = sums_of(&object),
                                .bytes = content_of(&object),
                                .serve = 1,
                                .pieces = content_of(&object) > 0};
}

/* What an object is like does not change: memory that was taken for it fits no other. */
static void sizes_of_a_birth_do_not_change(void **state)
{
    struct directory_object object = {.birth = {1, 1, 1}, .data_size = 512};
    struct wire_pulled pulled;
    struct op *op;

    (void)state;
    begin_with(0);
    op = begin_get(key_of_peer(0), 1000000);
    pulled = loan_of(object);
    pulled.sums.data_crc++; /* so that it is asked for again */
    answer(wait_asked(WIRE_LOCATE), &pulled, NULL, 0);
    pulled.object.data_size = UINT64_C(1) << 40;
    pulled.way = WIRE_INLINE;
    answer(wait_asked(WIRE_LOCATE), &pulled, fuzz.region, 512);
    pass(1100000);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_OUT_OF_MEMORY); /* there is not that much */
    finish_with();
}

static void an_object_of_no_bytes_may_be_lent(void **state)
{
    struct directory_object object = {.birth = {1, 1, 1}};
    struct wire_pulled pulled;
    struct op *op;

    (void)state;
    begin_with(0);
    op = begin_get(key_of_peer(0), 1000000);
    pulled = loan_of(object);
    answer(wait_asked(WIRE_LOCATE), &pulled, NULL, 0);
    pass(2000);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_OK);
    finish_with();
}

/* The bytes are here, but never their sums: memory comes back all the same. */
static void a_holder_that_never_sums_holds_nothing(void **state)
{
    struct directory_object object = {.birth = {1, 1, 1}, .data_size = 20000};
    struct wire_pulled pulled;
    struct op *op;

    (void)state;
    begin_with(0);
    op = begin_get(key_of_peer(0), 20000);
    pulled = loan_of(object);
    pulled.sums.known = 0;
    answer(wait_asked(WIRE_LOCATE), &pulled, NULL, 0);
    (void)wait_asked(WIRE_DONE);
    pass(30000);
    assert_int_equal(op->cqe.status, NIGH_TIMEOUT);
    assert_int_equal(fuzz.exchange->counts.pulls_now, 1);
    pass(EXCHANGE_SILENCE * 1000000 + 600000);
    assert_int_equal(fuzz.exchange->counts.pulls_now, 0);
    assert_int_equal(fuzz.exchange->counts.pull_bytes_now, 0);
    finish_with();
}

/* Nobody waits any more when the holder answers: nothing is begun. */
static void what_nobody_waits_for_is_not_begun(void **state)
{
    struct directory_object object = {.birth = {1, 1, 1}, .data_size = 20000};
    uint8_t located[sizeof(struct wire_located)];
    struct wire_pulled pulled;
    struct rpc_piece piece = {.data = located, .bytes = sizeof(located)};
    struct wire_located where = {
        .state = DIRECTORY_KNOWN, .holder_count = 1, .holders = {1}, .object = object};
    struct asked *asked;

    (void)state;
    begin_with(2); /* messages only */
    (void)begin_get(key_of_peer(0), 20000);
    memcpy(located, &where, sizeof(where));
    asked = wait_asked(WIRE_LOCATE);
    rpc_reply(fuzz.rpc, asked->call, NIGH_OK, &piece, 1);
    asked->call = 0;
    asked = wait_asked(WIRE_PULL);
    pass(30000);
    pulled = loan_of(object);
    pulled.way = WIRE_STREAM;
    answer(asked, &pulled, NULL, 0);
    pass(2000);
    assert_int_equal(fuzz.exchange->counts.pulls_now, 0);
    finish_with();
}

/* ---- messages for an object of which nothing is known yet ------------------ */

#define STREAMED (2u * (BULK - (uint32_t)sizeof(struct wire_chunk)) + 104)

/* A get of the n-th object, which does not fit an answer, and what its LOCATE says. */
static struct op *locate_large(uint32_t n, struct wire_locate *locate, struct asked **asked)
{
    struct op *op = begin_get(key_of_peer(n), 1000000);

    *asked = wait_asked(WIRE_LOCATE);
    assert_int_equal((*asked)->bytes, sizeof(*locate));
    memcpy(locate, (*asked)->payload, sizeof(*locate));
    return op;
}

static struct directory_object streamed_object(void)
{
    return (struct directory_object){.birth = {1, 1, 1}, .data_size = STREAMED};
}

/* The n-th message of an object; the last gives back what is left of `credits`. */
static void say_chunk_of(const struct directory_object *object, const struct wire_locate *locate,
                         uint32_t n, uint32_t credits)
{
    uint32_t room = BULK - (uint32_t)sizeof(struct wire_chunk);
    uint32_t left = (uint32_t)object->data_size - n * room;
    struct wire_chunk chunk = {
        .tag = locate->tag, .offset = n * room, .bytes = left < room ? left : room};

    if (left <= room) {
        chunk.flags = WIRE_LAST;
        chunk.unused = credits - n - 1;
        chunk.sums = sums_of(object);
        tell(&chunk.sums);
    }
    post(LINK_BULK, &chunk, sizeof(chunk), fuzz.region + chunk.offset, chunk.bytes);
}

static void say_chunk(const struct wire_locate *locate, uint32_t n, uint32_t credits)
{
    struct directory_object object = streamed_object();

    say_chunk_of(&object, locate, n, credits);
}

static struct wire_pulled stream_of(struct directory_object object)
{
    struct wire_pulled pulled = loan_of(object);

    pulled.way = WIRE_STREAM;
    return pulled;
}

static uint32_t count_asked(uint16_t method)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < CALLS; n++) {
        count += fuzz.asked[n].call != 0 && fuzz.asked[n].method == method;
    }
    return count;
}

/* One round trip: who is asked where it is has it, and sends it. Whether the answer or the messages
 * come first is all the same: they take different connections. */
static void a_home_sends_at_once(void **state)
{
    (void)state;
    begin_with(2); /* messages only */
    for (uint32_t n = 0; n < 2 * BULKS; n++) {
        uint32_t early = n % 4;
        struct wire_pulled pulled;
        struct wire_locate locate;
        struct asked *asked;
        struct op *op = locate_large(n, &locate, &asked);

        assert_int_equal(locate.credits, BULKS / 2);
        for (uint32_t i = 0; i < early; i++) {
            say_chunk(&locate, i, locate.credits);
            pass(1000);
        }
        pulled = stream_of(streamed_object());
        answer(asked, &pulled, NULL, 0);
        pass(1000);
        for (uint32_t i = early; i < 3; i++) {
            say_chunk(&locate, i, locate.credits);
            pass(1000);
        }
        assert_int_equal(op->kind, OP_FREE);
        assert_int_equal(op->cqe.status, NIGH_OK);
        assert_int_equal(count_asked(WIRE_PULL), 0);
        assert_int_equal(links_counters(fuzz.exchange->links)->downs, 0);
    }
    for (uint32_t n = 0; n < 2 * BULKS; n++) {
        (void)submit(NULL, OP_DELETE, key_of_peer(n),
                     (struct session_sqe){.op = SESSION_OP_DELETE});
    }
    finish_with();
}

/* ---- receives are there before anybody hears of them */

static struct {
    const struct fabric_provider *real;
    struct fabric_provider provider;
    const struct fabric_endpoint *bulk, *control;
    uint32_t posted; /* receives of `bulk`, now */
    uint32_t frames; /* that left while all were granted */
} watch;

static const struct exchange_link *only_link(void)
{
    return container_of(list_first(&fuzz.exchange->live), struct exchange_link, place);
}

static nigh_status watched_post(struct fabric_endpoint *endpoint, const struct fabric_work *work,
                                const struct fabric_work **bad)
{
    if (endpoint == watch.control) {
        assert_true(only_link()->granted <= watch.posted);
        watch.frames += only_link()->granted == BULKS ? 1 : 0;
    }
    return watch.real->post(endpoint, work, bad);
}

static nigh_status watched_receive(struct fabric_endpoint *endpoint,
                                   const struct fabric_receive *receive,
                                   const struct fabric_receive **bad)
{
    for (const struct fabric_receive *at = receive; at != NULL; at = at->next) {
        watch.posted += endpoint == watch.bulk ? 1 : 0;
    }
    return watch.real->post_receive(endpoint, receive, bad);
}

static nigh_status watched_stock(struct fabric_stock *stock, const struct fabric_receive *receive,
                                 const struct fabric_receive **bad)
{
    for (const struct fabric_receive *at = receive; at != NULL; at = at->next) {
        watch.posted++;
    }
    return watch.real->stock_post(stock, receive, bad);
}

static uint32_t watched_poll(struct fabric *fabric, struct fabric_completion *completions,
                             uint32_t count, uint64_t now_us)
{
    uint32_t taken = watch.real->poll(fabric, completions, count, now_us);

    for (uint32_t n = 0; n < taken; n++) {
        watch.posted -=
            completions[n].endpoint == watch.bulk && completions[n].op == FABRIC_RECV ? 1 : 0;
    }
    return taken;
}

static void watch_begin(void)
{
    const struct link *link = only_link()->link;

    memset(&watch, 0, sizeof(watch));
    watch.real = fuzz.fabric->provider;
    watch.provider = *watch.real;
    watch.provider.post = watched_post;
    watch.provider.post_receive = watched_receive;
    watch.provider.stock_post = watched_stock;
    watch.provider.poll = watched_poll;
    watch.bulk = link->sides[LINK_BULK].endpoint;
    watch.control = link->sides[LINK_CONTROL].endpoint;
    watch.posted = BULKS;
    fuzz.fabric->provider = &watch.provider;
}

/* A message may be asked for in its own receive's place as soon as it is copied, and not before:
 * the next one may come at once. */
static void take_a_stream(uint8_t how)
{
    uint32_t room = BULK - (uint32_t)sizeof(struct wire_chunk);
    struct directory_object object = {.birth = {1, 1, 1}, .data_size = UINT64_C(12) * room};
    struct wire_pulled pulled = stream_of(object);
    struct wire_locate locate;
    struct asked *asked;
    struct op *op;

    begin_with(how);
    op = locate_large(0, &locate, &asked);
    watch_begin();
    pulled.sums = sums_of(&object);
    answer(asked, &pulled, NULL, 0);
    pass(1000);
    assert_int_equal(only_link()->granted, BULKS);
    for (uint32_t n = 0; n < 12; n++) {
        say_chunk_of(&object, &locate, n, n + only_link()->granted);
        pass(1000);
    }
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_OK);
    assert_true(watch.frames > 1);
    assert_int_equal(watch.posted, BULKS);
    fuzz.fabric->provider = watch.real;
    (void)submit(NULL, OP_DELETE, key_of_peer(0), (struct session_sqe){.op = SESSION_OP_DELETE});
    finish_with();
}

/* Also where all links share them, and there are no more than one link may be granted. */
static void what_is_granted_has_receives(void **state)
{
    (void)state;
    take_a_stream(2);
    take_a_stream(12);
}

/* A home that only says where: what was offered is there for the holder. */
static void what_was_offered_comes_back(void **state)
{
    struct wire_located where = {
        .state = DIRECTORY_KNOWN, .holder_count = 1, .holders = {1}, .object = streamed_object()};
    struct rpc_piece piece = {.data = &where, .bytes = sizeof(where)};
    struct wire_locate locate;
    struct asked *asked;

    (void)state;
    begin_with(2);
    (void)locate_large(0, &locate, &asked);
    rpc_reply(fuzz.rpc, asked->call, NIGH_OK, &piece, 1);
    asked->call = 0;
    asked = wait_asked(WIRE_PULL);
    assert_int_equal(
        container_of(list_first(&fuzz.exchange->live), struct exchange_link, place)->granted,
        3); /* as many as it needs, and no others */
    assert_int_equal(links_counters(fuzz.exchange->links)->downs, 0);
    finish_with();
}

/* There is no memory for what the home sends: it is told to stop, and what it sent all the same
 * goes nowhere. */
static void what_does_not_fit_is_stopped(void **state)
{
    struct wire_pulled pulled;
    struct wire_locate locate;
    struct asked *asked;
    struct op *op;

    (void)state;
    begin_with(2);
    op = locate_large(0, &locate, &asked);
    say_chunk(&locate, 0, locate.credits);
    pass(1000);
    pulled = stream_of(streamed_object());
    pulled.object.data_size = UINT64_C(1) << 40;
    answer(asked, &pulled, NULL, 0);
    pass(1000);
    say_chunk(&locate, 1, locate.credits);
    say_chunk(&locate, 2, locate.credits);
    pass(1000);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_OUT_OF_MEMORY);
    assert_int_equal(links_counters(fuzz.exchange->links)->downs, 0);
    assert_int_equal(
        container_of(list_first(&fuzz.exchange->live), struct exchange_link, place)->granted, 0);
    finish_with();
}

/* More messages than were granted, before anything is known of them. */
static void more_than_was_offered_costs_the_link(void **state)
{
    struct wire_locate locate;
    struct asked *asked;

    (void)state;
    begin_with(2);
    (void)locate_large(0, &locate, &asked);
    for (uint32_t n = 0; n <= locate.credits; n++) {
        assert_int_equal(links_counters(fuzz.exchange->links)->downs, 0);
        say_chunk(&locate, 0, locate.credits);
        pass(1000);
    }
    assert_int_equal(links_counters(fuzz.exchange->links)->downs, 1);
    finish_with();
}

/* More holders are to be told than calls fit a channel: they are told one after the other. */
static void many_deletes_break_no_link(void **state)
{
    struct wire_announce said = {.object = {.birth = {1, 1, 1}, .data_size = 8}};
    struct rpc_piece piece = {.data = &said, .bytes = sizeof(said)};
    struct op *ops[2 * CALLS];
    uint32_t keys[2 * CALLS], count = 0;

    (void)state;
    begin_with(0);
    pass(2000);
    (void)rpc_one_way(fuzz.rpc, WIRE_ANNOUNCED, NULL, 0, fuzz.now_us);
    for (uint32_t key = 0; count < 2 * CALLS; key++) {
        said.key = key_of(key);
        if (members_home(&fuzz.members, directory_key_hash(&said.key)) == 0) {
            assert_int_equal(rpc_call(fuzz.rpc, WIRE_ANNOUNCE, &piece, 1, UINT64_MAX, fuzz.now_us,
                                      on_reply, NULL, NULL),
                             NIGH_OK);
            pass(1000);
            keys[count++] = key;
        }
    }
    for (uint32_t n = 0; n < count; n++) {
        ops[n] = submit(NULL, OP_DELETE, keys[n], (struct session_sqe){.op = SESSION_OP_DELETE});
    }
    for (uint32_t n = 0; n < 100; n++) {
        pass(1000);
        be_polite();
        fuzz.polite = true;
    }
    assert_int_equal(links_counters(fuzz.exchange->links)->downs, 0);
    for (uint32_t n = 0; n < count; n++) {
        assert_int_equal(ops[n]->kind, OP_FREE);
        assert_int_equal(ops[n]->cqe.status, NIGH_OK);
    }
    finish_with();
}

/* ---- shares, and what is a peer's to say ------------------------------------ */

/* The end of a call of the peer. */
struct reply {
    bool ended;
    nigh_status status;
    uint8_t payload[PAYLOAD];
};

static void on_end(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                   uint64_t now_us)
{
    struct reply *reply = context;

    (void)now_us;
    reply->ended = true;
    reply->status = status;
    if (bytes > 0) {
        memcpy(reply->payload, payload, bytes);
    }
}

static void call(struct reply *reply, uint16_t method, const void *said, uint32_t bytes)
{
    struct rpc_piece piece = {.data = said, .bytes = bytes};

    *reply = (struct reply){0};
    assert_int_equal(
        rpc_call(fuzz.rpc, method, &piece, 1, UINT64_MAX, fuzz.now_us, on_end, reply, NULL),
        NIGH_OK);
    for (uint32_t n = 0; n < 100 && !reply->ended; n++) {
        pass(100);
    }
}

/* The n-th key whose home the node is. */
static uint32_t key_of_node(uint32_t n)
{
    for (uint32_t key = 0;; key++) {
        struct directory_key name = key_of(key);

        if (members_home(&fuzz.members, directory_key_hash(&name)) == 0 && n-- == 0) {
            return key;
        }
    }
}

/* What the node says to one announcement. */
static nigh_status announce(uint32_t key, struct birth birth, uint32_t flags)
{
    struct wire_announce said = {
        .key = key_of(key), .object = {.birth = birth, .data_size = 8}, .flags = flags};
    struct reply reply;

    call(&reply, WIRE_ANNOUNCE, &said, sizeof(said));
    assert_true(reply.ended);
    assert_int_equal(reply.status, NIGH_OK);
    return (nigh_status)(int8_t)reply.payload[0];
}

static struct exchange_stats numbers(void)
{
    struct exchange_stats stats;

    exchange_stats(fuzz.exchange, &stats);
    return stats;
}

static void put(uint32_t key, uint64_t size)
{
    struct op *op =
        submit(NULL, OP_CREATE, key,
               (struct session_sqe){.op = SESSION_OP_CREATE, .data_size = size, .argument = 1000});

    assert_true(op != NULL && put_count < OPS);
    put_keys[put_count++] = key;
    pass(3000);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_OK);
}

static bool is_here(uint32_t key, struct store_sight *sight)
{
    struct directory_key name = key_of(key);

    return store_see(fuzz.store, POOL, name.id, hash_id20(name.id), sight);
}

static void announced(void)
{
    pass(2000);
    (void)rpc_one_way(fuzz.rpc, WIRE_ANNOUNCED, NULL, 0, fuzz.now_us);
    pass(2000);
}

static void what_is_not_a_peers_to_say_is_refused(void **state)
{
    struct birth its = {1, 1, 1}, ours = {1, 1, 0};
    struct wire_delete delete = {.key = key_of(0)};
    struct wire_locate locate = {.wait = 1};
    struct wire_drop drop;
    struct store_sight sight;
    struct reply reply;

    (void)state;
    begin_with(0);
    announced();
    assert_int_equal(announce(key_of_node(0), its, 0), NIGH_OK);
    assert_int_equal(announce(key_of_node(1), ours, 0), NIGH_DENIED);
    assert_int_equal(announce(key_of_peer(0), its, 0), NIGH_DENIED);
    assert_int_equal(announce(key_of_peer(0), its, WIRE_GONE), NIGH_DENIED);
    assert_int_equal(numbers().claims_refused, 3);
    assert_int_equal(numbers().directory.keys, 1);
    delete.key = key_of(key_of_peer(0));
    call(&reply, WIRE_DELETE, &delete, sizeof(delete));
    assert_int_equal(reply.status, NIGH_DENIED);
    locate.key = key_of(key_of_peer(0));
    call(&reply, WIRE_LOCATE, &locate, sizeof(locate));
    assert_int_equal(reply.status, NIGH_DENIED);
    assert_int_equal(numbers().directory.waiting, 0);
    /* Who is not the home does not say what is deleted. */
    put(key_of_node(2), 100);
    put(key_of_peer(1), 100);
    assert_true(is_here(key_of_node(2), &sight));
    drop = (struct wire_drop){.key = key_of(key_of_node(2)), .birth = sight.birth};
    call(&reply, WIRE_DROP, &drop, sizeof(drop));
    assert_int_equal(reply.status, NIGH_DENIED);
    assert_true(is_here(key_of_node(2), &sight));
    assert_int_equal(numbers().claims_refused, 6);
    assert_true(is_here(key_of_peer(1), &sight));
    drop = (struct wire_drop){.key = key_of(key_of_peer(1)), .birth = sight.birth};
    call(&reply, WIRE_DROP, &drop, sizeof(drop));
    assert_int_equal(reply.status, NIGH_OK);
    assert_false(is_here(key_of_peer(1), &sight));
    assert_int_equal(links_counters(fuzz.exchange->links)->downs, 0);
    finish_with();
}

static void a_peer_takes_its_share_of_keys(void **state)
{
    struct store_sight sight;
    uint32_t count = 0;

    (void)state;
    begin_with(0);
    announced();
    while (count < MAX_KEYS &&
           announce(key_of_node(count), (struct birth){1, 1, 1}, 0) == NIGH_OK) {
        count++;
    }
    assert_in_range(count, MAX_KEYS / 2, MAX_KEYS * 7 / 8);
    assert_int_equal(numbers().shares_refused, 1);
    for (uint32_t n = 0; n < MAX_KEYS - count; n++) {
        put(key_of_node(100 + n), 10);
        assert_true(is_here(key_of_node(100 + n), &sight));
    }
    assert_int_equal(numbers().directory.keys, MAX_KEYS);
    assert_int_equal(numbers().announcements_refused, 0);
    finish_with();
}

/* The peer borrows the n-th object of the node, which was put. */
static nigh_status borrow(uint32_t n)
{
    struct wire_pull pull = {.way = WIRE_LOAN, .key = key_of(key_of_node(n))};
    struct store_sight sight;
    struct reply reply;

    assert_true(is_here(key_of_node(n), &sight));
    pull.birth = sight.birth;
    call(&reply, WIRE_PULL, &pull, sizeof(pull));
    assert_true(reply.ended);
    return reply.status;
}

static void a_peer_takes_its_share_of_loans(void **state)
{
    nigh_status status = NIGH_OK;
    uint32_t count = 0;

    (void)state;
    begin_with(0);
    share_init(&fuzz.exchange->serve_shares, 16, 2);
    announced();
    for (uint32_t n = 0; n < 5; n++) {
        put(key_of_node(n), 5000);
    }
    for (; count < 20; count++) {
        status = borrow(count / 4);
        if (status != NIGH_OK) {
            break;
        }
    }
    assert_int_equal(status, NIGH_BUSY);
    assert_in_range(count, 8, 14);
    assert_int_equal(numbers().loans_now, count);
    assert_int_equal(numbers().shares_refused, 1);
    assert_true(share_take(&fuzz.exchange->serve_shares, 0)); /* another's */
    share_give(&fuzz.exchange->serve_shares, 0);
    break_side(LINK_CONTROL);
    pass(2000);
    assert_int_equal(numbers().loans_now, 0);
    assert_int_equal(fuzz.exchange->serve_shares.used[1], 0);
    finish_with();
}

/* An object can be lent 255 times: others want it too. */
static void a_peer_takes_its_share_of_an_object(void **state)
{
    (void)state;
    begin_with(0);
    announced();
    put(key_of_node(0), 5000);
    put(key_of_node(1), 5000);
    for (uint32_t n = 0; n < LIMIT_SERVES_A_PEER; n++) {
        assert_int_equal(borrow(0), NIGH_OK);
    }
    assert_int_equal(borrow(0), NIGH_BUSY);
    assert_int_equal(numbers().loans_now, LIMIT_SERVES_A_PEER);
    assert_int_equal(numbers().shares_refused, 1);
    assert_int_equal(borrow(1), NIGH_OK);
    break_side(LINK_CONTROL);
    pass(2000);
    assert_int_equal(numbers().loans_now, 0);
    finish_with();
}

static void a_peer_takes_its_share_of_deletes(void **state)
{
    static struct reply replies[16];
    uint32_t count = 0;

    (void)state;
    begin_with(0);
    share_init(&fuzz.exchange->asked_shares, 4, 2);
    announced();
    for (uint32_t n = 0; n < 5; n++) {
        assert_int_equal(announce(key_of_node(n), (struct birth){1, 1, 1}, 0), NIGH_OK);
    }
    for (; count < 5; count++) {
        struct wire_delete said = {.key = key_of(key_of_node(count))};

        call(&replies[count], WIRE_DELETE, &said, sizeof(said)); /* the peer drops nothing */
        if (replies[count].ended) {
            break;
        }
    }
    assert_int_equal(replies[count].status, NIGH_BUSY);
    assert_in_range(count, 2, 3);
    assert_int_equal(numbers().shares_refused, 1);
    for (uint32_t n = 0; n < CALLS; n++) {
        say_reply(&fuzz.asked[n]);
    }
    pass(2000);
    for (uint32_t n = 0; n < count; n++) {
        assert_true(replies[n].ended);
        assert_int_equal(replies[n].status, NIGH_OK);
    }
    assert_int_equal(fuzz.exchange->asked_shares.used[1], 0);
    finish_with();
}

/* ---- no room ---------------------------------------------------------------- */

static uint64_t downs(void)
{
    return links_counters(fuzz.exchange->links)->downs;
}

/* The node's link to the peer. */
static struct exchange_link *the_link(void)
{
    return container_of(list_first(&fuzz.exchange->live), struct exchange_link, place);
}

/* All places of the node's channel, and all that it shares with others. */
static void fill_channel(void)
{
    struct directory_key key = key_of(key_of_peer(9));
    struct rpc_piece piece = {.data = &key, .bytes = sizeof(key)};
    uint32_t count = 0;

    while (rpc_one_way(link_rpc(the_link()->link), WIRE_UNWAIT, &piece, 1, fuzz.now_us) ==
           NIGH_OK) {
        count++;
    }
    assert_in_range(count, REQUESTS, REQUESTS + 16 + EXCHANGE_WAITS);
}

#define PARTS 10u /* messages of an object that needs more than the node has receives */

static struct directory_object object_of_parts(void)
{
    return (struct directory_object){.birth = {1, 1, 1}, .data_size = PARTS * 512};
}

/* Messages [from, end) of such an object. */
static void say_parts(uint64_t tag, uint32_t from, uint32_t end)
{
    struct directory_object object = object_of_parts();
    struct wire_chunk chunk = {.tag = tag, .bytes = 512};

    for (uint32_t n = from; n < end; n++) {
        chunk.offset = n * 512;
        if (n + 1 == PARTS) {
            chunk.flags = WIRE_LAST;
            chunk.sums = sums_of(&object);
            tell(&chunk.sums);
        }
        post(LINK_BULK, &chunk, sizeof(chunk), fuzz.region + chunk.offset, 512);
    }
}

/* The channel has no room when all of a stream that was granted has come: more is wanted as soon as
 * there is room. The link stands, and what has come need not come again. */
static void a_stream_outlasts_a_full_channel(void **state)
{
    struct wire_pulled pulled;
    struct wire_locate locate;
    struct asked *asked;
    struct op *op;

    (void)state;
    begin_with(2); /* messages only */
    announced();
    op = locate_large(0, &locate, &asked);
    pulled = stream_of(object_of_parts());
    answer(asked, &pulled, NULL, 0);
    pass(1000);
    assert_int_equal(the_link()->granted, BULKS);
    say_parts(locate.tag, 0, BULKS);
    fill_channel();
    pass(EXCHANGE_PAUSE_US / 2);
    assert_int_equal(links_counters(fuzz.exchange->links)->downs, 0);
    assert_int_equal(the_link()->granted, 0); /* nothing could be said */
    pass(EXCHANGE_PAUSE_US);
    assert_int_equal(the_link()->granted, PARTS - BULKS);
    say_parts(locate.tag, BULKS, PARTS);
    pass(1000);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_OK);
    assert_int_equal(the_link()->granted, 0);
    assert_int_equal(links_counters(fuzz.exchange->links)->downs, 0);
    put_keys[put_count++] = key_of_peer(0);
    finish_with();
}

/* Who waited for a stream leaves while the channel is full: the holder is told when there is room.
 */
static void a_full_channel_does_not_keep_what_nobody_wants(void **state)
{
    struct wire_pulled pulled;
    struct wire_locate locate;
    struct asked *asked;
    struct op *op;

    (void)state;
    begin_with(2); /* messages only */
    announced();
    op = locate_large(0, &locate, &asked);
    pulled = stream_of(object_of_parts());
    answer(asked, &pulled, NULL, 0);
    pass(op->deadline_us - fuzz.now_us - 5);
    fill_channel();
    pass(25);
    assert_int_equal(op->cqe.status, NIGH_TIMEOUT);
    assert_int_equal(numbers().pulls_now, 1);
    pass(2 * EXCHANGE_PAUSE_US);
    assert_int_equal(numbers().pulls_now, 0);
    assert_int_equal(links_counters(fuzz.exchange->links)->downs, 0);
    finish_with();
}

/* All is READ, and the holder cannot be told yet. */
static void a_loan_outlasts_a_full_channel(void **state)
{
    struct directory_object object = {.birth = {1, 1, 1}, .data_size = 20000};
    struct wire_pulled pulled;
    struct wire_locate locate;
    struct asked *asked;
    struct op *op;

    (void)state;
    begin_with(0);
    announced();
    op = locate_large(0, &locate, &asked);
    pulled = loan_of(object);
    answer(asked, &pulled, NULL, 0);
    pass(20);
    assert_true(links_counters(fuzz.exchange->links)->reads > 0);
    fill_channel();
    pass(EXCHANGE_PAUSE_US / 2);
    assert_int_equal(op->kind, OP_GET);
    pass(2 * EXCHANGE_PAUSE_US);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_OK);
    assert_int_equal(links_counters(fuzz.exchange->links)->downs, 0);
    put_keys[put_count++] = key_of_peer(0);
    finish_with();
}

/* What the node has sent so far is credited: the peer's next frame brings no credit. */
static void credit_all(void)
{
    struct directory_key key = key_of(key_of_peer(9));
    struct rpc_piece piece = {.data = &key, .bytes = sizeof(key)};

    assert_int_equal(rpc_one_way(fuzz.rpc, WIRE_UNWAIT, &piece, 1, fuzz.now_us), NIGH_OK);
    pass(1000);
}

/* There is no memory for what is lent or sent, and the holder cannot be told yet. */
static void what_does_not_fit_outlasts_a_full_channel(void **state)
{
    (void)state;
    for (uint32_t streams = 0; streams < 2; streams++) {
        uint16_t method = streams == 1 ? WIRE_STOP : WIRE_DONE;
        struct wire_pulled pulled;
        struct wire_locate locate;
        struct asked *asked;
        struct op *op;

        begin_with(streams == 1 ? 2 : 0);
        announced();
        op = locate_large(0, &locate, &asked);
        pulled = streams == 1 ? stream_of(streamed_object()) : loan_of(streamed_object());
        pulled.object.data_size = UINT64_C(1) << 40;
        credit_all();
        answer(asked, &pulled, NULL, 0);
        fill_channel();
        pass(EXCHANGE_PAUSE_US / 2);
        assert_int_equal(op->kind, OP_FREE);
        assert_int_equal(op->cqe.status, NIGH_OUT_OF_MEMORY);
        assert_int_equal(fuzz.one_ways[method], 0);
        assert_false(exchange_is_idle(fuzz.exchange));
        pass(2 * EXCHANGE_PAUSE_US);
        assert_int_equal(fuzz.one_ways[method], 1);
        assert_int_equal(links_counters(fuzz.exchange->links)->downs, 0);
        if (streams == 1) {
            say_chunk(&locate, 2, locate.credits); /* the last, which gives back what was granted */
        }
        finish_with();
    }
}

/* What is said later is not said over another link. */
static void what_is_declined_ends_with_its_link(void **state)
{
    struct wire_pulled pulled;
    struct wire_locate locate;
    struct asked *asked;

    (void)state;
    begin_with(0);
    announced();
    (void)locate_large(0, &locate, &asked);
    pulled = loan_of(streamed_object());
    pulled.object.data_size = UINT64_C(1) << 40;
    credit_all();
    answer(asked, &pulled, NULL, 0);
    fill_channel();
    pass(EXCHANGE_PAUSE_US / 2);
    assert_int_equal(fuzz.exchange->declines, 1);
    exchange_peer_lost(fuzz.exchange, 1, fuzz.now_us);
    assert_int_equal(fuzz.exchange->declines, 0);
    fuzz.polite = true;
    peer_up();
    pass(3 * EXCHANGE_PAUSE_US);
    assert_int_equal(fuzz.one_ways[WIRE_DONE], 0);
    finish_with();
}

/* What is noted of where a loan lies is allocated for the first, and serves those after it. */
static void loans_take_turns_with_their_pieces(void **state)
{
    struct directory_object object = {.birth = {1, 1, 1}, .data_size = 20000};
    const union piece_run *run = NULL;

    (void)state;
    begin_with(0);
    announced();
    for (uint32_t n = 0; n < 3; n++) {
        struct wire_pulled pulled = loan_of(object);
        struct wire_locate locate;
        struct asked *asked;
        struct op *op = locate_large(n, &locate, &asked);

        answer(asked, &pulled, NULL, 0);
        pass(20);
        assert_int_equal(fuzz.exchange->free_run_count, 0);
        pass(10000);
        assert_int_equal(op->cqe.status, NIGH_OK);
        assert_int_equal(fuzz.exchange->free_run_count, 1);
        assert_true(n == 0 || run == fuzz.exchange->free_runs);
        run = fuzz.exchange->free_runs;
        put_keys[put_count++] = key_of_peer(n);
    }
    finish_with();
}

/* What was begun, and whose last holder is gone, leaves what it was admitted with to others. */
static void what_is_nowhere_holds_up_nobody(void **state)
{
    struct directory_object object = {.birth = {1, 1, 1}, .data_size = 60000};
    struct wire_located where = {.state = DIRECTORY_KNOWN, .holder_count = 1, .holders = {1}};
    struct rpc_piece piece = {.data = &where, .bytes = sizeof(where)};
    struct wire_pulled pulled;
    struct wire_locate locate;
    struct asked *asked;
    struct op *op;

    (void)state;
    begin_with(1);
    announced();
    fuzz.exchange->config.pull_bytes = object.data_size; /* one at a time */
    (void)locate_large(0, &locate, &asked);
    pulled = stream_of(object);
    answer(asked, &pulled, NULL, 0);
    pass(100);
    assert_int_equal(numbers().pulls_now, 1);
    assert_true(numbers().pull_bytes_now > 0);
    exchange_peer_lost(fuzz.exchange, 1, fuzz.now_us);
    fuzz.polite = true;
    peer_up();
    asked = wait_asked(WIRE_LOCATE);
    where.state = DIRECTORY_ABSENT;
    rpc_reply(fuzz.rpc, asked->call, NIGH_OK, &piece, 1);
    asked->call = 0;
    pass(1000);
    assert_true(numbers().pull_bytes_now > 0);
    op = begin_get(key_of_peer(1), GET_MOST_US);
    asked = wait_asked(WIRE_LOCATE);
    where.state = DIRECTORY_KNOWN;
    where.object = object;
    rpc_reply(fuzz.rpc, asked->call, NIGH_OK, &piece, 1);
    asked->call = 0;
    asked = wait_asked(WIRE_PULL);
    pulled = loan_of(object);
    answer(asked, &pulled, NULL, 0);
    pass(10000);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_OK);
    put_keys[put_count++] = key_of_peer(1);
    finish_with();
}

static void answer_announcement(struct asked *asked, nigh_status status)
{
    int8_t answers[16];
    struct rpc_piece piece = {.data = answers,
                              .bytes = asked->bytes / (uint32_t)sizeof(struct wire_announce)};

    memset(answers, status, sizeof(answers));
    rpc_reply(fuzz.rpc, asked->call, NIGH_OK, &piece, 1);
    asked->call = 0;
}

static struct asked *find_asked(uint16_t method)
{
    for (uint32_t i = 0; i < CALLS; i++) {
        if (fuzz.asked[i].call != 0 && fuzz.asked[i].method == method) {
            return &fuzz.asked[i];
        }
    }
    return NULL;
}

/* The peer is a home without room: it is told again, less and less often, until it has. */
static void a_full_home_is_told_again(void **state)
{
    uint64_t told_us;
    struct asked *asked;

    (void)state;
    begin_with(0);
    announced();
    put(key_of_peer(0), 100);
    put(key_of_peer(1), 100);
    for (uint32_t n = 1; n <= 4; n++) {
        for (asked = wait_asked(WIRE_ANNOUNCE); asked != NULL; asked = find_asked(WIRE_ANNOUNCE)) {
            answer_announcement(asked, NIGH_LIMIT);
            pass(100);
        }
        assert_true(numbers().announcements_refused >= n);
        assert_true(exchange_is_idle(fuzz.exchange));
        told_us = fuzz.now_us;
        pass((EXCHANGE_AGAIN_US << (n - 1)) / 2 - 5000);
        assert_null(find_asked(WIRE_ANNOUNCE));
        pass((EXCHANGE_AGAIN_US << (n - 1)) / 2 + 10000);
        assert_non_null(find_asked(WIRE_ANNOUNCE));
        assert_true(fuzz.now_us - told_us < (EXCHANGE_AGAIN_US << n));
    }
    answer_announcement(wait_asked(WIRE_ANNOUNCE), NIGH_OK);
    pass(EXCHANGE_AGAIN_MAX);
    assert_null(find_asked(WIRE_ANNOUNCE));
    /* From the beginning: another may be refused another time. */
    put(key_of_peer(2), 100);
    answer_announcement(wait_asked(WIRE_ANNOUNCE), NIGH_LIMIT);
    pass(EXCHANGE_AGAIN_US + 10000);
    asked = wait_asked(WIRE_ANNOUNCE);
    assert_int_equal(asked->bytes, 3 * sizeof(struct wire_announce));
    answer_announcement(asked, NIGH_OK);
    finish_with();
}

/* So is this node's own directory. */
static void what_the_own_home_has_no_room_for_is_found_later(void **state)
{
    uint32_t count = 0;

    (void)state;
    begin_with(0);
    announced();
    while (announce(key_of_node(count), (struct birth){1, 1, 1}, 0) == NIGH_OK) {
        count++;
    }
    for (uint32_t n = 0; n <= MAX_KEYS - count; n++) {
        put(key_of_node(100 + n), 10);
    }
    assert_int_equal(numbers().announcements_refused, 1);
    assert_int_equal(numbers().directory.keys, MAX_KEYS);
    assert_int_equal(announce(key_of_node(0), (struct birth){1, 1, 1}, WIRE_GONE), NIGH_OK);
    assert_int_equal(numbers().directory.keys, MAX_KEYS - 1);
    pass(EXCHANGE_AGAIN_US + 10000);
    assert_int_equal(numbers().directory.keys, MAX_KEYS);
    assert_int_equal(numbers().announcements_refused, 1);
    finish_with();
}

/* What was deleted while its announcement waited is not announced: the delete overtook that. */
static void what_is_gone_is_not_announced(void **state)
{
    struct directory_key name;
    struct asked *first, *asked;
    uint32_t told = 0;

    (void)state;
    begin_with(0);
    name = key_of(key_of_peer(1));
    announced();
    put(key_of_peer(0), 100);
    first = wait_asked(WIRE_ANNOUNCE);
    put(key_of_peer(1), 100); /* waits for the answer to that */
    (void)submit(NULL, OP_DELETE, key_of_peer(1), (struct session_sqe){.op = SESSION_OP_DELETE});
    asked = wait_asked(WIRE_DELETE);
    rpc_reply(fuzz.rpc, asked->call, NIGH_NOT_FOUND, NULL, 0);
    asked->call = 0;
    answer_announcement(first, NIGH_OK);
    pass(1000);
    asked = wait_asked(WIRE_ANNOUNCE);
    for (uint32_t at = 0; at < asked->bytes; at += (uint32_t)sizeof(struct wire_announce)) {
        struct wire_announce record;

        memcpy(&record, asked->payload + at, sizeof(record));
        if (memcmp(&record.key, &name, sizeof(name)) == 0) {
            assert_int_equal(record.flags, WIRE_GONE);
            told++;
        }
    }
    assert_true(told > 0);
    answer_announcement(asked, NIGH_OK);
    finish_with();
}

/* ---- claims ------------------------------------------------------------------ */

static void a_peer_claims_what_is_its_own(void **state)
{
    struct birth its = {1, 1, 1}, ours = {1, 1, 0}, next = {2, 1, 1};

    (void)state;
    begin_with(0);
    assert_int_equal(announce(key_of_node(0), its, WIRE_CLAIM), NIGH_BUSY); /* it has to tell all */
    announced();
    assert_int_equal(announce(key_of_node(0), its, WIRE_CLAIM), NIGH_OK);
    assert_int_equal(numbers().directory.claims, 1);
    assert_int_equal(numbers().directory.keys, 0);
    assert_int_equal(announce(key_of_node(1), ours, WIRE_CLAIM), NIGH_DENIED);
    assert_int_equal(announce(key_of_node(1), ours, WIRE_CLAIM | WIRE_COPY), NIGH_DENIED);
    assert_int_equal(announce(key_of_peer(0), its, WIRE_CLAIM), NIGH_DENIED);
    assert_int_equal(numbers().claims_refused, 3);
    put(key_of_node(0), 100); /* of a key that it has to itself */
    pass(2000);
    assert_int_equal(numbers().conflicts, 1);
    assert_int_equal(announce(key_of_node(0), its, WIRE_GONE), NIGH_OK);
    assert_int_equal(numbers().directory.claims, 0);
    put(key_of_node(2), 100);
    pass(2000);
    assert_int_equal(announce(key_of_node(2), next, WIRE_CLAIM), NIGH_EXISTS);
    finish_with();
}

/* The next view, in which the node is a home anew, of everything; its peer has told all. */
static void begin_view(struct agreed *agreed)
{
    struct wire_view view = {.epoch = ++agreed->epoch};
    struct rpc_piece piece = {.data = &view, .bytes = sizeof(view)};

    agreed->in = agreed_all(2);
    exchange_view(fuzz.exchange, agreed, fuzz.now_us);
    pass(2000);
    assert_int_equal(rpc_one_way(fuzz.rpc, WIRE_VIEW, &piece, 1, fuzz.now_us), NIGH_OK);
    announced();
}

static void activate_view(struct agreed *agreed)
{
    agreed->active = agreed->epoch;
    exchange_view(fuzz.exchange, agreed, fuzz.now_us);
    pass(2000);
}

/* A home that is not sure of its view yet refuses what it is told, and hears all of it again; but
 * who claims asks again by itself, and tells nothing more. */
static void a_claim_that_is_early_comes_again_alone(void **state)
{
    struct birth its = {1, 1, 1}, other = {2, 1, 1};
    struct agreed agreed = {0};

    (void)state;
    begin_with(0);
    announced();
    begin_view(&agreed);
    assert_int_equal(announce(key_of_node(0), its, WIRE_CLAIM), NIGH_BUSY);
    activate_view(&agreed);
    assert_int_equal(announce(key_of_node(0), its, WIRE_CLAIM), NIGH_OK);
    fuzz.exchange->views.epoch = 0; /* as if it had never been a home */
    agreed = (struct agreed){.epoch = 1};
    begin_view(&agreed);
    assert_int_equal(announce(key_of_node(1), other, WIRE_CLAIM | WIRE_HELD), NIGH_BUSY);
    activate_view(&agreed);
    assert_int_equal(announce(key_of_node(2), its, WIRE_CLAIM), NIGH_BUSY);
    (void)rpc_one_way(fuzz.rpc, WIRE_ANNOUNCING, NULL, 0, fuzz.now_us);
    assert_int_equal(announce(key_of_node(1), other, WIRE_CLAIM | WIRE_HELD), NIGH_OK);
    announced();
    assert_int_equal(announce(key_of_node(2), its, WIRE_CLAIM), NIGH_OK);
    assert_int_equal(announce(key_of_node(0), its, WIRE_CLAIM | WIRE_GONE), NIGH_OK);
    assert_int_equal(announce(key_of_node(1), other, WIRE_CLAIM | WIRE_GONE), NIGH_OK);
    assert_int_equal(announce(key_of_node(2), its, WIRE_CLAIM | WIRE_GONE), NIGH_OK);
    finish_with();
}

/* An exclusive create, which nothing ends yet. */
static struct op *claim(uint32_t key)
{
    struct session_sqe sqe = {.op = SESSION_OP_CREATE,
                              .flags = SESSION_FLAG_EXCLUSIVE,
                              .data_size = 100,
                              .argument = 1000};
    struct op *op = submit(NULL, OP_CREATE, key, sqe);

    assert_true(op != NULL && put_count < OPS);
    put_keys[put_count++] = key;
    return op;
}

/* What the home is asked with: the flags of the last record of a key. */
static uint32_t flags_of(const struct asked *asked, uint32_t key)
{
    struct directory_key name = key_of(key);
    uint32_t flags = UINT32_MAX;

    for (uint32_t at = 0; at < asked->bytes; at += (uint32_t)sizeof(struct wire_announce)) {
        struct wire_announce record;

        memcpy(&record, asked->payload + at, sizeof(record));
        flags = memcmp(&record.key, &name, sizeof(name)) == 0 ? record.flags : flags;
    }
    return flags;
}

static void a_home_grants_and_refuses(void **state)
{
    static const nigh_status useless[] = {NIGH_BUSY, NIGH_PENDING, NIGH_DENIED, (nigh_status)7};
    struct asked *asked;
    struct op *op;

    (void)state;
    begin_with(0);
    announced();
    op = claim(key_of_peer(0));
    for (uint32_t n = 0; n < ARRAY_LENGTH(useless); n++) {
        asked = wait_asked(WIRE_ANNOUNCE);
        assert_int_equal(flags_of(asked, key_of_peer(0)), WIRE_CLAIM);
        answer_announcement(asked, useless[n]);
        pass(100);
        assert_int_equal(op->kind, OP_CREATE);
    }
    answer_announcement(wait_asked(WIRE_ANNOUNCE), NIGH_OK);
    asked = wait_asked(WIRE_ANNOUNCE); /* it is sealed at once */
    assert_int_equal(flags_of(asked, key_of_peer(0)), 0);
    answer_announcement(asked, NIGH_OK);
    pass(1000);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_OK);
    op = claim(key_of_peer(1));
    answer_announcement(wait_asked(WIRE_ANNOUNCE), NIGH_EXISTS);
    pass(1000);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_EXISTS);
    answer_announcement(wait_asked(WIRE_ANNOUNCE), NIGH_OK); /* it is held no longer */
    finish_with();
}

/* A home that goes by another view yet is told of what was granted as of what is held: again. */
static void what_was_granted_is_told_again(void **state)
{
    uint32_t held = WIRE_CLAIM | WIRE_HELD | WIRE_REPEAT, key;
    struct asked *asked;
    struct op *op;

    (void)state;
    begin_with(0);
    key = key_of_peer(0);
    announced();
    op = submit(NULL, OP_OTHER, key,
                (struct session_sqe){.op = SESSION_OP_CREATE,
                                     .flags = SESSION_FLAG_EXCLUSIVE,
                                     .data_size = 100,
                                     .argument = 1000});
    answer_announcement(wait_asked(WIRE_ANNOUNCE), NIGH_OK);
    pass(1000);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_OK);
    announcer_walk(&the_link()->announcer, true);
    for (uint32_t n = 0; n < 3; n++) {
        asked = wait_asked(WIRE_ANNOUNCE);
        assert_int_equal(flags_of(asked, key), held);
        assert_int_equal(fuzz.one_ways[WIRE_ANNOUNCED], 1 + n);
        answer_announcement(asked, NIGH_BUSY);
    }
    asked = wait_asked(WIRE_ANNOUNCE);
    assert_int_equal(flags_of(asked, key), held);
    answer_announcement(asked, NIGH_DENIED); /* which says nothing of views */
    pass(EXCHANGE_AGAIN_US);
    assert_null(find_asked(WIRE_ANNOUNCE));
    assert_true(exchange_is_idle(fuzz.exchange));
    (void)submit(op, OP_SEAL, key,
                 (struct session_sqe){.op = SESSION_OP_SEAL, .ref = op->cqe.ref, .argument = 1000});
    put_keys[put_count++] = key;
    asked = wait_asked(WIRE_ANNOUNCE);
    assert_int_equal(flags_of(asked, key), 0);
    answer_announcement(asked, NIGH_OK);
    finish_with();
}

static void a_home_that_is_silent_is_not_waited_for(void **state)
{
    struct asked *asked;
    struct op *op;

    (void)state;
    begin_with(0);
    announced();
    op = claim(key_of_peer(0));
    asked = wait_asked(WIRE_ANNOUNCE);
    pass(LIMIT_CLAIM_US + 10000);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_TIMEOUT);
    answer_announcement(asked, NIGH_OK); /* too late */
    asked = wait_asked(WIRE_ANNOUNCE);
    assert_true((flags_of(asked, key_of_peer(0)) & WIRE_GONE) != 0);
    answer_announcement(asked, NIGH_OK);
    finish_with();
}

/* ---- news that are lost ------------------------------------------------------ */

/* Reads the records of an announcement, and answers it: how many are of a key and have these flags.
 */
static uint32_t take_announcement(struct asked *asked, uint32_t key, uint32_t flags)
{
    struct directory_key name = key_of(key);
    uint32_t told = 0;

    for (uint32_t at = 0; at < asked->bytes; at += (uint32_t)sizeof(struct wire_announce)) {
        struct wire_announce record;

        memcpy(&record, asked->payload + at, sizeof(record));
        told += memcmp(&record.key, &name, sizeof(name)) == 0 && record.flags == flags ? 1 : 0;
    }
    answer_announcement(asked, NIGH_OK);
    return told;
}

static void evict_all(void)
{
    assert_non_null(
        submit(NULL, OP_OTHER, 0,
               (struct session_sqe){.op = SESSION_OP_EVICT, .argument = UINT64_C(1) << 30}));
    pass(1000);
}

/* Whether a member says at once that its news are told, and what. */
static bool heard(struct reply *reply, const void *said, uint32_t bytes)
{
    call(reply, WIRE_HEAR, said, bytes);
    return reply->ended;
}

/* A home hears of what was news when it asked, and of no more. */
static void a_home_is_answered_when_news_are_told(void **state)
{
    struct reply reply, other;
    struct asked *asked;

    (void)state;
    begin_with(0);
    announced();
    announcer_walk(&the_link()->announcer, true);
    the_link()->announcer.retry_us = UINT64_MAX;
    assert_true(heard(&reply, "", 0)); /* what a walk tells is in no queue */
    assert_int_equal(reply.status, NIGH_BUSY);
    the_link()->announcer.retry_us = 0;
    pass(2000);
    assert_true(heard(&reply, "x", 1));
    assert_int_equal(reply.status, NIGH_PROTOCOL);
    assert_true(heard(&reply, "", 0));
    assert_int_equal(reply.status, NIGH_OK);
    put(key_of_peer(0), 100);
    asked = wait_asked(WIRE_ANNOUNCE);
    assert_false(heard(&reply, "", 0));
    assert_false(heard(&other, "", 0));
    assert_true(reply.ended && reply.status == NIGH_BUSY); /* one question at a time */
    put(key_of_peer(1), 100);                              /* is news since */
    answer_announcement(asked, NIGH_OK);
    pass(2000);
    assert_true(other.ended && other.status == NIGH_OK);
    answer_announcement(wait_asked(WIRE_ANNOUNCE), NIGH_OK);
    pass(2000);
    assert_true(heard(&reply, "", 0));
    assert_int_equal(reply.status, NIGH_OK);
    assert_int_equal(downs(), 0);
    finish_with();
}

/* A delete of what this home does not know; the question that it asks the peer. */
static struct asked *delete_unknown(struct op **op, uint32_t key)
{
    *op = submit(NULL, OP_DELETE, key, (struct session_sqe){.op = SESSION_OP_DELETE});
    return wait_asked(WIRE_HEAR);
}

static void answer_heard(struct asked *asked, nigh_status status)
{
    rpc_reply(fuzz.rpc, asked->call, status, NULL, 0);
    asked->call = 0;
    pass(2000);
}

/* Nothing is absent before everybody was heard: who says so, who does not know the question, who
 * cannot say yet, and who says nothing. */
static void a_home_hears_before_it_says_that_there_is_nothing(void **state)
{
    struct op *op, *other;
    struct asked *asked;

    (void)state;
    begin_with(0);
    announced();
    asked = delete_unknown(&op, key_of_node(0));
    /* What comes meanwhile is asked for anew. */
    other = submit(NULL, OP_DELETE, key_of_node(1), (struct session_sqe){.op = SESSION_OP_DELETE});
    pass(2000);
    assert_int_equal(count_asked(WIRE_HEAR), 1);
    assert_int_equal(announce(key_of_node(0), (struct birth){1, 1, 1}, 0), NIGH_OK);
    answer_heard(asked, NIGH_OK);
    asked = wait_asked(WIRE_DROP);
    answer_heard(asked, NIGH_OK);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_OK);
    assert_int_equal(other->kind, OP_DELETE);
    answer_heard(wait_asked(WIRE_HEAR), NIGH_UNSUPPORTED);
    assert_int_equal(other->kind, OP_FREE);
    assert_int_equal(other->cqe.status, NIGH_NOT_FOUND);
    answer_heard(delete_unknown(&op, key_of_node(0)), NIGH_BUSY);
    assert_int_equal(op->kind, OP_DELETE);
    answer_heard(wait_asked(WIRE_HEAR), NIGH_OK);
    assert_int_equal(op->cqe.status, NIGH_NOT_FOUND);
    (void)delete_unknown(&op, key_of_node(0)); /* and now it is mute */
    pass(2 * EXCHANGE_ERASE_US);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_TIMEOUT);
    finish_with();
}

/* A peer asks for a delete of what is nowhere, and gives that up while others are heard: what is
 * put since stays. */
static void a_delete_that_was_given_up_takes_nothing(void **state)
{
    struct wire_delete said = {.gone = 1};
    struct rpc_piece piece = {.data = &said, .bytes = sizeof(said)};
    struct reply reply = {0};
    struct asked *asked;

    (void)state;
    begin_with(0);
    announced();
    said.key = key_of(key_of_node(0));
    assert_int_equal(rpc_call(fuzz.rpc, WIRE_DELETE, &piece, 1, fuzz.now_us + 500000, fuzz.now_us,
                              on_end, &reply, NULL),
                     NIGH_OK);
    asked = wait_asked(WIRE_HEAR);
    pass(1000000);
    assert_true(reply.ended && reply.status == NIGH_TIMEOUT);
    assert_int_equal(announce(key_of_node(0), (struct birth){1, 1, 1}, 0), NIGH_OK);
    answer_heard(asked, NIGH_OK);
    assert_int_equal(count_asked(WIRE_DROP), 0);
    assert_int_equal(numbers().directory.keys, 1);
    finish_with();
}

/* More is evicted than the queue of its home holds: that hears that all which is here follows, then
 * what is, and that it was all. */
static void what_is_gone_is_told_however_much_it_is(void **state)
{
    struct asked *asked;
    struct store_sight sight;

    (void)state;
    begin_with(0);
    announced();
    for (uint32_t n = 0; n < 6; n++) {
        put(key_of_peer(n), 100);
        answer_announcement(wait_asked(WIRE_ANNOUNCE), NIGH_OK);
        pass(1000);
    }
    assert_int_equal(fuzz.one_ways[WIRE_ANNOUNCED], 1);
    the_link()->announcer.size = 4;
    the_link()->announcer.head = 0;
    evict_all();
    assert_false(is_here(key_of_peer(5), &sight));
    assert_int_equal(numbers().news_lost, 2);
    put(key_of_peer(6), 100); /* is lost as well */
    assert_false(exchange_is_idle(fuzz.exchange));
    assert_int_equal(fuzz.one_ways[WIRE_ANNOUNCING], 0); /* what is lost now needs no other */
    asked = wait_asked(WIRE_ANNOUNCE);
    assert_int_equal(take_announcement(asked, key_of_peer(6), WIRE_REPEAT), 0);
    asked = wait_asked(WIRE_ANNOUNCE);
    assert_int_equal(fuzz.one_ways[WIRE_ANNOUNCING], 1);
    assert_int_equal(fuzz.one_ways[WIRE_ANNOUNCED], 1);
    assert_int_equal(take_announcement(asked, key_of_peer(6), WIRE_REPEAT), 1);
    pass(2000);
    assert_int_equal(fuzz.one_ways[WIRE_ANNOUNCED], 2);
    assert_int_equal(fuzz.one_ways[WIRE_ANNOUNCING], 1);
    assert_int_equal(count_asked(WIRE_ANNOUNCE), 0);
    assert_true(exchange_is_idle(fuzz.exchange));
    assert_int_equal(downs(), 0);
    finish_with();
}

/* What is lost while all is told is told once more, after the end of that. */
static void what_is_gone_meanwhile_is_told_after_that(void **state)
{
    struct asked *asked;

    (void)state;
    begin_with(0);
    announced();
    for (uint32_t n = 0; n < 3; n++) {
        put(key_of_peer(n), 100);
        answer_announcement(wait_asked(WIRE_ANNOUNCE), NIGH_OK);
        pass(1000);
    }
    the_link()->announcer.size = 2;
    the_link()->announcer.head = 0;
    the_link()->announcer.lost = true;
    announcer_walk(&the_link()->announcer, false);
    asked = wait_asked(WIRE_ANNOUNCE);
    assert_int_equal(fuzz.one_ways[WIRE_ANNOUNCING], 1);
    evict_all(); /* one of them as it is told */
    assert_int_equal(numbers().news_lost, 2);
    answer_announcement(asked, NIGH_OK);
    answer_announcement(wait_asked(WIRE_ANNOUNCE), NIGH_OK);
    pass(2000);
    assert_int_equal(fuzz.one_ways[WIRE_ANNOUNCED], 3);
    assert_int_equal(fuzz.one_ways[WIRE_ANNOUNCING], 2);
    assert_true(exchange_is_idle(fuzz.exchange));
    finish_with();
}

/* The channel is full when all is to be told: as soon as there is room. */
static void a_full_channel_loses_no_news(void **state)
{
    (void)state;
    begin_with(0);
    announced();
    fill_channel();
    the_link()->announcer.lost = true;
    announcer_walk(&the_link()->announcer, false);
    pass(EXCHANGE_PAUSE_US / 2);
    assert_int_equal(fuzz.one_ways[WIRE_ANNOUNCING], 0);
    pass(2 * EXCHANGE_PAUSE_US);
    assert_int_equal(fuzz.one_ways[WIRE_ANNOUNCING], 1);
    assert_int_equal(fuzz.one_ways[WIRE_ANNOUNCED], 2);
    assert_int_equal(downs(), 0);
    finish_with();
}

/* An object of 100 bytes, in an answer that says that its home counts the node as a holder. */
static struct wire_pulled noted_object(void)
{
    struct directory_object object = {.birth = {1, 1, 1}, .data_size = 100};
    struct wire_pulled pulled = loan_of(object);

    pulled.way = WIRE_INLINE;
    pulled.pieces = 0;
    pulled.noted = 1;
    return pulled;
}

/* Its home notes a holder, then hears that all is told again, and that this was all: nothing. So
 * the copy that comes with the answer is told. */
static void what_was_noted_before_is_told(void **state)
{
    struct wire_pulled pulled;
    struct wire_locate locate;
    struct asked *asked;
    struct op *op;

    (void)state;
    begin_with(0);
    announced();
    op = locate_large(0, &locate, &asked);
    pulled = noted_object();
    answer(asked, &pulled, fuzz.region, (uint32_t)pulled.bytes);
    pass(1000);
    assert_int_equal(downs(), 0);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_OK);
    assert_int_equal(count_asked(WIRE_ANNOUNCE), 0); /* it is noted */
    (void)locate_large(1, &locate, &asked);
    the_link()->announcer.lost = true;
    announcer_walk(&the_link()->announcer, false);
    take_announcement(wait_asked(WIRE_ANNOUNCE), 0, 0); /* the first */
    pass(1000);
    assert_int_equal(fuzz.one_ways[WIRE_ANNOUNCED], 2);
    answer(asked, &pulled, fuzz.region, (uint32_t)pulled.bytes);
    asked = wait_asked(WIRE_ANNOUNCE);
    assert_int_equal(take_announcement(asked, key_of_peer(1), WIRE_COPY), 1);
    put_keys[put_count++] = key_of_peer(0);
    put_keys[put_count++] = key_of_peer(1);
    finish_with();
}

/* A home notes a holder, and is the key's home no more when its answer comes: the next one, here
 * the node itself, is told of the copy, and keeps it or has it dropped. */
static void what_an_earlier_home_noted_is_told(void **state)
{
    struct agreed agreed = {0};
    struct wire_pulled pulled;
    struct wire_locate locate;
    struct store_sight sight;
    struct asked *asked;
    struct op *op;

    (void)state;
    begin_with(0);
    announced();
    begin_view(&agreed);
    activate_view(&agreed);
    op = locate_large(0, &locate, &asked);
    agreed.epoch++; /* its peer has not said yet that it goes by this one */
    agreed.in = agreed_all(1);
    activate_view(&agreed);
    assert_int_equal(op->kind, OP_GET);
    pulled = noted_object();
    answer(asked, &pulled, fuzz.region, (uint32_t)pulled.bytes);
    pass(1000);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_OK);
    assert_int_equal(numbers().directory.keys, is_here(key_of_peer(0), &sight) ? 1 : 0);
    put_keys[put_count++] = key_of_peer(0);
    finish_with();
}

/* Its home notes a holder that cannot keep the copy, while other news are under way. */
static void who_keeps_no_copy_says_so(void **state)
{
    struct wire_pulled pulled;
    struct wire_locate locate;
    struct asked *asked, *news;

    (void)state;
    begin_with(0);
    announced();
    put(key_of_peer(1), 100);
    news = wait_asked(WIRE_ANNOUNCE);
    (void)locate_large(0, &locate, &asked);
    pulled = noted_object();
    pulled.object.data_size = UINT64_C(1) << 40;
    credit_all();
    answer(asked, &pulled, fuzz.region, 100);
    pass(1000);
    answer_announcement(news, NIGH_OK);
    assert_int_equal(take_announcement(wait_asked(WIRE_ANNOUNCE), key_of_peer(0), WIRE_GONE), 1);
    finish_with();
}

/* The node is the home: what a peer has not told when that was all is gone. */
static void what_a_peer_does_not_tell_again_is_gone(void **state)
{
    struct store_sight sight;

    (void)state;
    begin_with(0);
    announced();
    assert_int_equal(announce(key_of_node(0), (struct birth){1, 1, 1}, 0), NIGH_OK);
    assert_int_equal(announce(key_of_node(1), (struct birth){2, 1, 1}, 0), NIGH_OK);
    (void)rpc_one_way(fuzz.rpc, WIRE_ANNOUNCING, NULL, 0, fuzz.now_us);
    pass(2000);
    assert_int_equal(numbers().directory.keys, 2);
    assert_int_equal(announce(key_of_node(1), (struct birth){2, 1, 1}, WIRE_REPEAT), NIGH_OK);
    announced();
    assert_int_equal(numbers().directory.keys, 1);
    put(key_of_node(0), 100); /* there is no other birth of it */
    assert_true(is_here(key_of_node(0), &sight));
    assert_int_equal(numbers().conflicts, 0);
    finish_with();
}

/* And this node's own directory. */
static void the_own_home_forgets_what_is_gone(void **state)
{
    (void)state;
    begin_with(0);
    announced();
    for (uint32_t n = 0; n < 6; n++) {
        put(key_of_node(n), 100);
    }
    assert_int_equal(numbers().directory.keys, 6);
    fuzz.exchange->own.size = 2;
    fuzz.exchange->own.head = 0;
    evict_all();
    assert_true(numbers().news_lost > 0);
    pass(3000);
    assert_int_equal(numbers().directory.keys, 0);
    assert_true(directory_is_complete(fuzz.exchange->directory, UINT64_MAX));
    put(key_of_node(0), 100);
    assert_int_equal(numbers().conflicts, 0);
    finish_with();
}

/* A copy that goes with its last view is no place to get it from. */
static void what_leaves_no_copy_is_not_announced(void **state)
{
    struct wire_pulled pulled;
    struct op *op;

    (void)state;
    begin_with(0);
    announced();
    pulled = loan_of((struct directory_object){.birth = {1, 1, 1}});
    op = submit(NULL, OP_GET, key_of_peer(0),
                (struct session_sqe){
                    .op = SESSION_OP_GET, .flags = SESSION_FLAG_NO_COPY, .argument = 1000000});
    assert_non_null(op);
    answer(wait_asked(WIRE_LOCATE), &pulled, NULL, 0);
    pass(2000);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_OK);
    assert_int_equal(count_asked(WIRE_ANNOUNCE), 0);
    finish_with();
}

/* A delete that the other nodes could not be told of is refused before anything happens. */
static void a_delete_without_room_is_refused(void **state)
{
    struct store_sight sight;
    struct op *op;

    (void)state;
    begin_with(0);
    announced();
    put(key_of_node(0), 100);
    fuzz.exchange->erases_now += LIMIT_ERASES;
    op = submit(NULL, OP_DELETE, key_of_node(0), (struct session_sqe){.op = SESSION_OP_DELETE});
    pass(1000);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_LIMIT);
    assert_true(is_here(key_of_node(0), &sight));
    assert_int_equal(numbers().directory.keys, 1);
    fuzz.exchange->erases_now -= LIMIT_ERASES;
    op = submit(NULL, OP_DELETE, key_of_node(0), (struct session_sqe){.op = SESSION_OP_DELETE});
    pass(2000);
    assert_int_equal(op->cqe.status, NIGH_OK);
    finish_with();
}

/* More drops than there is room for: each holder is told all the same. */
static void every_holder_is_told_to_drop(void **state)
{
    struct op *ops[12];

    (void)state;
    begin_with(0);
    share_init(&fuzz.exchange->drop_shares, 4, 2);
    announced();
    for (uint32_t n = 0; n < 10; n++) {
        assert_int_equal(announce(key_of_node(n), (struct birth){1, 1, 1}, 0), NIGH_OK);
    }
    for (uint32_t n = 0; n < 10; n++) {
        ops[n] =
            submit(NULL, OP_DELETE, key_of_node(n), (struct session_sqe){.op = SESSION_OP_DELETE});
    }
    pass(1000);
    assert_true(directory_owes(fuzz.exchange->directory));
    for (uint32_t n = 0; n < 400; n++) {
        pass(1000);
        be_polite();
        fuzz.polite = true;
    }
    assert_false(directory_owes(fuzz.exchange->directory));
    assert_int_equal(links_counters(fuzz.exchange->links)->downs, 0);
    for (uint32_t n = 0; n < 10; n++) {
        assert_int_equal(ops[n]->kind, OP_FREE);
        assert_int_equal(ops[n]->cqe.status, NIGH_OK);
    }
    finish_with();
}

/* All memory is taken by what cannot leave: the get that finds none says so, as a create would. */
static void a_get_without_memory_says_so(void **state)
{
    struct directory_object object = {.birth = {1, 1, 1}, .data_size = 20000};
    struct wire_located where = {
        .state = DIRECTORY_KNOWN, .holder_count = 1, .holders = {1}, .object = object};
    struct rpc_piece piece = {.data = &where, .bytes = sizeof(where)};
    struct op *op, *other;
    struct asked *asked;

    (void)state;
    begin_with(0);
    announced();
    for (uint32_t n = 0; n < EXTENTS; n++) {
        put(key_of_node(n), LIMIT_EXTENT_BYTES_MIN - 256);
        (void)begin_get(key_of_node(n), 1000); /* and holds it */
        pass(20);
    }
    op = begin_get(key_of_peer(0), 30000);
    other = begin_get(key_of_peer(1), 30000);
    for (uint32_t n = 0; n < 2; n++) {
        struct directory_key nowhere = key_of(key_of_peer(1));

        asked = wait_asked(WIRE_LOCATE);
        if (memcmp(asked->payload, &nowhere, sizeof(nowhere)) == 0) {
            where.state = DIRECTORY_ABSENT;
        } else {
            where.state = DIRECTORY_KNOWN;
        }
        rpc_reply(fuzz.rpc, asked->call, NIGH_OK, &piece, 1);
        asked->call = 0;
    }
    pass(40000);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_OUT_OF_MEMORY);
    assert_int_equal(other->cqe.status, NIGH_TIMEOUT); /* that one is nowhere */
    finish_with();
}

/* Who waits at a home whose link broke asks again when it is back, some a turn. */
static void who_waits_asks_a_home_that_is_back(void **state)
{
    struct wire_located nowhere = {.state = DIRECTORY_ABSENT};
    struct rpc_piece piece = {.data = &nowhere, .bytes = sizeof(nowhere)};
    uint32_t asked_again = 0;

    (void)state;
    begin_with(0);
    announced();
    for (uint32_t n = 0; n < CALLS; n++) {
        (void)begin_get(key_of_peer(n), 1000000);
    }
    for (uint32_t n = 0; n < CALLS; n++) {
        struct asked *asked = wait_asked(WIRE_LOCATE);

        rpc_reply(fuzz.rpc, asked->call, NIGH_OK, &piece, 1);
        asked->call = 0;
    }
    pass(2000);
    exchange_peer_lost(fuzz.exchange, 1, fuzz.now_us);
    fuzz.polite = true;
    peer_up();
    for (uint32_t n = 0; n < 1000 && asked_again < CALLS; n++) {
        struct asked *asked = find_asked(WIRE_LOCATE);

        if (asked != NULL) {
            rpc_reply(fuzz.rpc, asked->call, NIGH_OK, &piece, 1);
            asked->call = 0;
            asked_again++;
        }
        pass(100);
    }
    assert_int_equal(asked_again, CALLS); /* long before EXCHANGE_ASK_US */
    assert_true(list_empty(&fuzz.exchange->roused));
    finish_with();
}

/* ---- keys and pieces ------------------------------------------------------- */

/* A READ of the peer, of what the node lends or not; up to a frame. */
static const uint8_t *read_from_node(struct fabric_remote remote, uint32_t bytes)
{
    struct side *side = &fuzz.sides[LINK_BULK];
    struct fabric_slice slice = {
        .address = side->receives[RECEIVES - 1], .bytes = bytes, .memory = fuzz.memory};
    struct fabric_work work = {.op = FABRIC_READ,
                               .flags = FABRIC_SIGNALLED,
                               .slices = &slice,
                               .slice_count = 1,
                               .remote = remote};

    memset(slice.address, 0xee, bytes);
    assert_int_equal(fabric_post(fuzz.peer, side->endpoint, &work, NULL), NIGH_OK);
    pass(20000);
    return slice.address;
}

/* An object that the node holds, lent to the peer from an offset on: the pieces. */
static uint32_t borrow_pieces(uint32_t key, uint64_t from, struct wire_piece *pieces,
                              nigh_status *status)
{
    struct wire_pull pull = {.key = key_of(key), .way = WIRE_LOAN, .tag = from};
    struct wire_pulled pulled = {0};
    struct store_sight sight;
    struct reply reply;

    assert_true(is_here(key, &sight));
    pull.birth = sight.birth;
    call(&reply, WIRE_PULL, &pull, sizeof(pull));
    assert_true(reply.ended);
    *status = reply.status;
    if (reply.status == NIGH_OK) {
        memcpy(&pulled, reply.payload, sizeof(pulled));
        assert_int_equal(pulled.way, WIRE_LOAN);
        assert_int_equal(pulled.from, from);
        memcpy(pieces, reply.payload + sizeof(pulled), pulled.pieces * sizeof(*pieces));
    }
    return pulled.pieces;
}

#define LARGE (2 * LIMIT_EXTENT_BYTES_MIN)

/* A key opens one extent: an object in several is told in as many pieces. */
static void each_extent_has_its_key(void **state)
{
    struct wire_piece pieces[8];
    struct fabric_remote beyond;
    struct store_sight sight;
    nigh_status status;
    uint32_t count, key;
    uint64_t sum = 0;

    (void)state;
    begin_with(0);
    announced();
    key = key_of_node(0);
    put(key, LARGE);
    assert_true(is_here(key, &sight));
    count = borrow_pieces(key, 0, pieces, &status);
    assert_in_range(count, 2, 3);
    for (uint32_t n = 0; n < count; n++) {
        uint8_t *bytes = extent_bytes_at(fuzz.set, sight.offset + sum);

        bytes[pieces[n].bytes - 1] = (uint8_t)(n + 1);
        assert_int_equal(
            read_from_node(
                (struct fabric_remote){pieces[n].address + pieces[n].bytes - 1, pieces[n].key},
                1)[0],
            n + 1);
        for (uint32_t m = 0; m < n; m++) {
            assert_int_not_equal(pieces[n].key, pieces[m].key);
        }
        sum += pieces[n].bytes;
    }
    assert_int_equal(sum, LARGE);
    /* From anywhere, and not from beyond. */
    assert_int_equal(borrow_pieces(key, LARGE - 100, pieces, &status), 1);
    assert_int_equal(pieces[0].bytes, 100);
    (void)borrow_pieces(key, LARGE + 1, pieces, &status);
    assert_int_equal(status, NIGH_PROTOCOL);
    assert_int_equal(downs(), 0);
    /* A key does not reach into the next extent. */
    (void)borrow_pieces(key, 0, pieces, &status);
    beyond = (struct fabric_remote){pieces[0].address + pieces[0].bytes - 1, pieces[0].key};
    assert_int_equal(read_from_node(beyond, 2)[1], 0xee);
    assert_int_equal(downs(), 1);
    finish_with();
}

/* Pieces beyond what a reply holds: the rest is told to who asks again. */
static void pieces_that_do_not_fit_are_told_later(void **state)
{
    struct wire_piece pieces[8];
    nigh_status status;
    uint32_t key;

    (void)state;
    begin_with(0);
    announced();
    key = key_of_node(0);
    put(key, LARGE);
    fuzz.exchange->inline_bytes = 2 * sizeof(struct wire_piece) - 1;
    assert_int_equal(borrow_pieces(key, 0, pieces, &status), 1);
    assert_int_equal(borrow_pieces(key, pieces[0].bytes, pieces, &status), 1);
    assert_int_equal(downs(), 0);
    finish_with();
}

/* The key of an extent ends with its memory, and where that comes it has one. */
static void memory_that_moved_has_a_new_key(void **state)
{
    struct fabric_remote remote;
    uint32_t extent, number;
    uint64_t before;

    (void)state;
    begin_with(0);
    announced();
    before = numbers().registrations;
    assert_int_equal(extent_take(fuzz.set, 0, extent_owner(9, 9), 1, &extent), NIGH_OK);
    memset(fuzz.set->arena + extent * LIMIT_EXTENT_BYTES_MIN, 'k', 100);
    remote = fabric_memory_remote(fuzz.fabric, fuzz.exchange->memories[extent],
                                  fuzz.set->arena + extent * LIMIT_EXTENT_BYTES_MIN);
    assert_int_equal(read_from_node(remote, 100)[99], 'k');
    assert_int_equal(downs(), 0);
    number = extent_unused(fuzz.set, 0);
    assert_int_equal(extent_move(fuzz.set, extent, number), NIGH_OK);
    assert_int_equal(numbers().registrations, before + 1);
    assert_null(fuzz.exchange->memories[extent]);
    assert_int_equal(read_from_node(remote, 100)[99], 0xee);
    assert_int_equal(downs(), 1);
    assert_non_null(fuzz.exchange->memories[number]);
    finish_with();
}

/* Extents are registered once, when they are made: transfers find them so. */
static void transfers_register_nothing(void **state)
{
    struct directory_object object = {.birth = {1, 1, 1}, .data_size = 20000};
    uint64_t before = 0;

    (void)state;
    begin_with(0);
    announced();
    for (uint32_t n = 0; n < 5; n++) {
        struct wire_piece pieces[8];
        struct wire_pulled pulled;
        nigh_status status;
        struct op *op = begin_get(key_of_peer(n), 1000000);

        pulled = loan_of(object);
        answer(wait_asked(WIRE_LOCATE), &pulled, NULL, 0);
        pass(2000);
        assert_int_equal(op->cqe.status, NIGH_OK);
        put(key_of_node(n), 30000);
        assert_int_equal(borrow_pieces(key_of_node(n), 0, pieces, &status), 1);
        (void)read_from_node((struct fabric_remote){pieces[0].address, pieces[0].key}, 1000);
        if (n == 0) {
            before = numbers().registrations;
            assert_in_range(before, EXTENTS, EXTENTS + 4);
        }
    }
    assert_int_equal(numbers().registrations, before);
    assert_int_equal(downs(), 0);
    for (uint32_t n = 0; n < 5; n++) {
        (void)submit(NULL, OP_DELETE, key_of_peer(n),
                     (struct session_sqe){.op = SESSION_OP_DELETE});
    }
    finish_with();
}

static void say_loan(struct asked *asked, const struct wire_pulled *pulled,
                     const struct wire_piece *pieces, uint32_t count)
{
    answer(asked, pulled, pieces, count * (uint32_t)sizeof(*pieces));
}

/* A loan that ends before the object does: what is left is another, from there on. */
static void what_a_loan_does_not_cover_is_asked_for(void **state)
{
    struct directory_object object = {.birth = {1, 1, 1}, .data_size = 20000};
    struct fabric_memory *apart;
    struct wire_piece pieces[2] = {0};
    struct wire_pulled pulled;
    static uint8_t copy[20000];
    struct wire_pull pull;
    struct asked *asked;
    struct op *op;

    (void)state;
    begin_with(0);
    memcpy(copy, fuzz.region, sizeof(copy));
    assert_int_equal(fabric_memory_register(fuzz.peer, copy, sizeof(copy), FABRIC_HOST,
                                            FABRIC_REMOTE_READ, &apart),
                     NIGH_OK);
    op = begin_get(key_of_peer(0), 1000000);
    pieces[0] = piece_of(0, 5000);
    pulled = loan_of(object);
    say_loan(wait_asked(WIRE_LOCATE), &pulled, pieces, 1);
    asked = wait_asked(WIRE_PULL);
    assert_int_equal(asked->bytes, sizeof(pull));
    memcpy(&pull, asked->payload, sizeof(pull));
    assert_int_equal(pull.way, WIRE_LOAN);
    assert_int_equal(pull.tag, 5000);
    /* The rest under two keys; the first begins earlier than need be. */
    pulled.from = 3000;
    pulled.pieces = 2;
    pieces[0] = piece_of(3000, 9000);
    pieces[1].address = fabric_memory_remote(fuzz.peer, apart, copy + 12000).address;
    pieces[1].key = fabric_memory_remote(fuzz.peer, apart, copy + 12000).key;
    pieces[1].bytes = 8000;
    say_loan(asked, &pulled, pieces, 2);
    pass(3000);
    assert_int_equal(op->kind, OP_FREE);
    assert_int_equal(op->cqe.status, NIGH_OK);
    assert_int_equal(downs(), 0);
    (void)submit(NULL, OP_DELETE, key_of_peer(0), (struct session_sqe){.op = SESSION_OP_DELETE});
    finish_with(); /* the registration goes with its fabric */
}

/* Pieces that are none cost the link, and nothing of them is read. */
static void pieces_that_are_none_cost_the_link(void **state)
{
    struct directory_object object = {.birth = {1, 1, 1}, .data_size = 20000};

    (void)state;
    for (uint32_t lie = 0; lie < 8; lie++) {
        struct wire_piece pieces[EXCHANGE_PIECES + 1];
        struct wire_pulled pulled;
        uint32_t count = 3;
        struct asked *asked;

        begin_with(0);
        pulled = loan_of(object);
        pulled.pieces = 3;
        pieces[0] = piece_of(0, 4000);
        pieces[1] = piece_of(4000, 16000);
        pieces[2] = piece_of(0, 1);
        (void)begin_get(key_of_peer(0), 100000);
        asked = wait_asked(WIRE_LOCATE);
        switch (lie) {
        case 0: break;                         /* beyond the object */
        case 1: pieces[1].bytes = 8000; break; /* a short one in the middle */
        case 2: pieces[0].bytes = 0, pulled.pieces = count = 1; break;
        case 3: pieces[0].bytes = UINT64_MAX, pulled.pieces = count = 1; break;
        case 4: count = 2; break;                                  /* fewer than it says */
        case 5: pulled.pieces = 2; break;                          /* more */
        case 6: pulled.from = 1, pulled.pieces = count = 1; break; /* a hole before it */
        default:                                                   /* no headway */
            pulled.pieces = 0;
            say_loan(asked, &pulled, pieces, 0);
            asked = wait_asked(WIRE_PULL);
            assert_int_equal(downs(), 0);
            count = 0;
            break;
        }
        say_loan(asked, &pulled, pieces, count);
        pass(1000);
        assert_int_equal(downs(), 1);
        assert_int_equal(links_counters(fuzz.exchange->links)->reads, 0);
        finish_with();
    }
}

#include "object_exchange_push.c"
#include "object_exchange_measured.c"
#include "object_exchange_trees.c"

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_of_a_birth_do_not_change),
        cmocka_unit_test(an_object_of_no_bytes_may_be_lent),
        cmocka_unit_test(a_holder_that_never_sums_holds_nothing),
        cmocka_unit_test(what_nobody_waits_for_is_not_begun),
        cmocka_unit_test(many_deletes_break_no_link),
        cmocka_unit_test(what_is_not_a_peers_to_say_is_refused),
        cmocka_unit_test(a_peer_takes_its_share_of_keys),
        cmocka_unit_test(a_peer_takes_its_share_of_loans),
        cmocka_unit_test(a_peer_takes_its_share_of_an_object),
        cmocka_unit_test(a_peer_takes_its_share_of_deletes),
        cmocka_unit_test(a_peer_claims_what_is_its_own),
        cmocka_unit_test(a_claim_that_is_early_comes_again_alone),
        cmocka_unit_test(a_home_grants_and_refuses),
        cmocka_unit_test(what_was_granted_is_told_again),
        cmocka_unit_test(a_home_that_is_silent_is_not_waited_for),
        cmocka_unit_test(a_full_home_is_told_again),
        cmocka_unit_test(what_is_gone_is_not_announced),
        cmocka_unit_test(what_is_gone_is_told_however_much_it_is),
        cmocka_unit_test(what_is_gone_meanwhile_is_told_after_that),
        cmocka_unit_test(a_full_channel_loses_no_news),
        cmocka_unit_test(what_was_noted_before_is_told),
        cmocka_unit_test(what_an_earlier_home_noted_is_told),
        cmocka_unit_test(who_keeps_no_copy_says_so),
        cmocka_unit_test(what_a_peer_does_not_tell_again_is_gone),
        cmocka_unit_test(the_own_home_forgets_what_is_gone),
        cmocka_unit_test(what_leaves_no_copy_is_not_announced),
        cmocka_unit_test(what_the_own_home_has_no_room_for_is_found_later),
        cmocka_unit_test(a_delete_without_room_is_refused),
        cmocka_unit_test(every_holder_is_told_to_drop),
        cmocka_unit_test(a_get_without_memory_says_so),
        cmocka_unit_test(who_waits_asks_a_home_that_is_back),
        cmocka_unit_test(a_home_sends_at_once),
        cmocka_unit_test(what_is_granted_has_receives),
        cmocka_unit_test(what_was_offered_comes_back),
        cmocka_unit_test(what_does_not_fit_is_stopped),
        cmocka_unit_test(more_than_was_offered_costs_the_link),
        cmocka_unit_test(a_stream_outlasts_a_full_channel),
        cmocka_unit_test(a_full_channel_does_not_keep_what_nobody_wants),
        cmocka_unit_test(a_loan_outlasts_a_full_channel),
        cmocka_unit_test(what_does_not_fit_outlasts_a_full_channel),
        cmocka_unit_test(what_is_declined_ends_with_its_link),
        cmocka_unit_test(loans_take_turns_with_their_pieces),
        cmocka_unit_test(what_is_nowhere_holds_up_nobody),
        cmocka_unit_test(each_extent_has_its_key),
        cmocka_unit_test(pieces_that_do_not_fit_are_told_later),
        cmocka_unit_test(memory_that_moved_has_a_new_key),
        cmocka_unit_test(transfers_register_nothing),
        cmocka_unit_test(what_a_loan_does_not_cover_is_asked_for),
        cmocka_unit_test(pieces_that_are_none_cost_the_link),
        cmocka_unit_test(a_holder_pushes),
        cmocka_unit_test(a_window_is_granted_once),
        cmocka_unit_test(what_names_no_window_costs_the_link),
        cmocka_unit_test(what_lies_otherwise_in_a_window_costs_the_link),
        cmocka_unit_test(a_window_is_of_one_pull),
        cmocka_unit_test(what_was_granted_to_be_written_is_not_sent),
        cmocka_unit_test(a_holder_writes_where_it_may),
        cmocka_unit_test(a_puller_is_pushed_to),
        cmocka_unit_test(windows_that_are_none_are_refused),
        cmocka_unit_test(who_cannot_push_sends),
        cmocka_unit_test(a_loan_has_its_registration),
        cmocka_unit_test(a_home_is_answered_when_news_are_told),
        cmocka_unit_test(a_home_hears_before_it_says_that_there_is_nothing),
        cmocka_unit_test(a_delete_that_was_given_up_takes_nothing),
        cmocka_unit_test(a_probe_that_is_none_is_refused),
        cmocka_unit_test(one_probe_at_a_time_is_sent),
        cmocka_unit_test(what_is_no_part_of_a_probe_costs_the_link),
        cmocka_unit_test(a_probe_that_is_not_answered_ends),
        cmocka_unit_test(a_probe_that_stands_still_ends),
        cmocka_unit_test(who_cannot_measure_is_let_be),
        cmocka_unit_test(the_lower_rank_measures_first),
        cmocka_unit_test(what_is_pulled_is_lent_as_far_as_it_came),
        cmocka_unit_test(who_waits_for_more_is_told_in_time),
        cmocka_unit_test(what_came_wrong_is_called_wrong),
        cmocka_unit_test(what_is_lent_stays_when_its_pull_ends),
        cmocka_unit_test(what_has_come_is_not_sent_anew),
        cmocka_unit_test(who_may_not_have_it_is_not_lent_it),
        cmocka_unit_test(who_is_sent_about_in_vain_insists),
        cmocka_unit_test(who_is_sent_in_circles_gets_out),
        cmocka_unit_test(nobody_to_be_sent_to_costs_the_link),
        cmocka_unit_test(random_lives_leave_the_books_right),
        cmocka_unit_test(a_window_that_was_taken_back_is_not_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
