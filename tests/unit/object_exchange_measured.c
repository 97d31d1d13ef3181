/* SPDX-License-Identifier: Apache-2.0 */
/* A part of object_exchange_hostile_test.c: a peer that lies while links are measured, as who asks
 * and as who is asked. */

#define MEASURES 20u /* how a life begins in which the node measures, too */

static nigh_status probe(struct wire_probe said, uint32_t bytes)
{
    struct reply reply;

    call(&reply, WIRE_PROBE, &said, bytes);
    assert_true(reply.ended);
    return reply.status;
}

/* Sizes, ways and credits that nobody may ask for are refused, and nothing is sent for them. */
static void a_probe_that_is_none_is_refused(void **state)
{
    const struct wire_probe loan = {.bytes = 1u << 18, .way = WIRE_LOAN};
    const struct wire_probe stream = {.bytes = 1000, .way = WIRE_STREAM, .credits = 2};
    struct wire_probe said = loan;

    (void)state;
    begin_with(0);
    assert_int_equal(probe(said, sizeof(said) - 1), NIGH_PROTOCOL);
    said.bytes++;
    assert_int_equal(probe(said, sizeof(said)), NIGH_LIMIT);
    said.bytes = UINT32_MAX;
    assert_int_equal(probe(said, sizeof(said)), NIGH_LIMIT);
    said.bytes = 0;
    assert_int_equal(probe(said, sizeof(said)), NIGH_LIMIT);
    said = loan;
    said.credits = 1;
    assert_int_equal(probe(said, sizeof(said)), NIGH_PROTOCOL);
    said = stream;
    said.way = WIRE_PUSH;
    assert_int_equal(probe(said, sizeof(said)), NIGH_PROTOCOL);
    said.way = 77;
    assert_int_equal(probe(said, sizeof(said)), NIGH_PROTOCOL);
    said = stream;
    said.credits = 0;
    assert_int_equal(probe(said, sizeof(said)), NIGH_PROTOCOL);
    said.credits = EXCHANGE_STREAM + 1;
    assert_int_equal(probe(said, sizeof(said)), NIGH_PROTOCOL);
    said.credits = 1; /* more than fits a message */
    assert_int_equal(probe(said, sizeof(said)), NIGH_PROTOCOL);
    assert_int_equal(links_counters(fuzz.exchange->links)->bulk_messages, 0);
    assert_int_equal(probe(loan, sizeof(loan)), NIGH_OK);
    assert_int_equal(links_counters(fuzz.exchange->links)->downs, 0);
    finish_with();
}

/* While messages of one are owed there is no other: what is asked for costs little. */
static void one_probe_at_a_time_is_sent(void **state)
{
    struct wire_probe said = {.bytes = 1000, .way = WIRE_STREAM, .credits = 2};
    struct prober *prober;

    (void)state;
    begin_with(0);
    prober = &fuzz.exchange->prober;
    assert_int_equal(probe(said, sizeof(said)), NIGH_OK);
    assert_int_equal(prober->sending, 0);
    /* As if its endpoint had been full. */
    the_link()->probed = (struct probed){.bytes = 100, .part = 100};
    prober->sending = 1;
    prober->send_us = UINT64_MAX;
    assert_int_equal(probe(said, sizeof(said)), NIGH_BUSY);
    prober->send_us = fuzz.now_us;
    pass(1000);
    assert_int_equal(prober->sending, 0);
    assert_int_equal(probe(said, sizeof(said)), NIGH_OK);
    assert_int_equal(downs(), 0);
    finish_with();
}

/* What the node asks first: messages. */
static struct asked *wait_probe(struct wire_probe *said)
{
    struct asked *asked = wait_asked(WIRE_PROBE);

    assert_int_equal(asked->bytes, sizeof(*said));
    memcpy(said, asked->payload, sizeof(*said));
    assert_int_equal(said->way, WIRE_STREAM);
    assert_int_equal(said->bytes, PROBE_BYTES);
    assert_int_equal(said->credits, 2);
    return asked;
}

static void answer_probe(struct asked *asked)
{
    struct wire_probed probed = {0};
    struct rpc_piece piece = {.data = &probed, .bytes = sizeof(probed)};

    rpc_reply(fuzz.rpc, asked->call, NIGH_OK, &piece, 1);
    asked->call = 0;
}

static void say_part(uint64_t tag, uint64_t offset, uint32_t bytes)
{
    struct wire_chunk chunk = {.tag = tag, .offset = offset, .bytes = bytes};

    post(LINK_BULK, &chunk, sizeof(chunk), fuzz.region, bytes);
    pass(1000);
}

/* Of another probe, elsewhere, nothing, too much, or one more than was asked for. */
static void what_is_no_part_of_a_probe_costs_the_link(void **state)
{
    (void)state;
    for (uint32_t lie = 0; lie < 5; lie++) {
        struct wire_probe said;
        struct asked *asked;

        begin_with(MEASURES);
        asked = wait_probe(&said);
        say_part(said.tag, 0, 500);
        assert_int_equal(downs(), 0);
        switch (lie) {
        case 0: say_part(said.tag + (UINT64_C(1) << 32), 500, 500); break;
        case 1: say_part(said.tag, 400, 500); break;
        case 2: say_part(said.tag, 500, 0); break;
        case 3: say_part(said.tag, 500, 501); break;
        default:
            say_part(said.tag, 500, 500);
            answer_probe(asked);
            assert_int_equal(downs(), 0);
            say_part(said.tag, 0, 500);
        }
        assert_int_equal(downs(), 1);
        assert_null(fuzz.exchange->prober.link);
        finish_with();
    }
}

/* What was granted for it may still come, and stays granted until it does; once, and no more of it
 * than that. Objects go over the link as before, and nobody is asked again. */
static void is_given_up(uint64_t tag)
{
    const struct prober *prober = &fuzz.exchange->prober;

    assert_null(prober->link);
    assert_int_equal(prober->wanting, 0);
    assert_int_equal(the_link()->granted, 2);
    assert_int_equal(exchange_measure(fuzz.exchange, UINT64_MAX), NIGH_OK);
    pass(3000000);
    assert_null(prober->link);
    assert_int_equal(the_link()->granted, 2);
    say_part(tag, 0, 500);
    assert_int_equal(the_link()->granted, 1);
    check(0); /* what is owed is granted still */
    say_part(tag, 500, 500);
    assert_int_equal(the_link()->granted, 0);
    assert_int_equal(downs(), 0);
    say_part(tag, 0, 500);
    assert_int_equal(downs(), 1);
}

static void a_probe_that_is_not_answered_ends(void **state)
{
    struct wire_probe said;

    (void)state;
    begin_with(MEASURES);
    (void)wait_probe(&said);
    pass(EXCHANGE_CALL_US - 100000);
    assert_non_null(fuzz.exchange->prober.link);
    pass(200000);
    is_given_up(said.tag);
    finish_with();
}

static void a_probe_that_stands_still_ends(void **state)
{
    struct wire_probe said;

    (void)state;
    begin_with(MEASURES);
    answer_probe(wait_probe(&said));
    pass(2 * EXCHANGE_CALL_US - 100000);
    assert_non_null(fuzz.exchange->prober.link);
    pass(200000);
    is_given_up(said.tag);
    finish_with();
}

/* An older node: what there is to learn is learnt from objects. */
static void who_cannot_measure_is_let_be(void **state)
{
    struct wire_probe said;
    struct asked *asked;

    (void)state;
    begin_with(MEASURES);
    asked = wait_probe(&said);
    rpc_reply(fuzz.rpc, asked->call, NIGH_UNSUPPORTED, NULL, 0);
    asked->call = 0;
    pass(3000000);
    assert_int_equal(count_asked(WIRE_PROBE), 0);
    assert_int_equal(the_link()->granted, 0);
    assert_int_equal(fuzz.exchange->prober.wanting, 0);
    assert_int_equal(downs(), 0);
    finish_with();
}

/* Both at once would measure each other. */
static void the_lower_rank_measures_first(void **state)
{
    const struct wire_probe loan = {.bytes = 1000, .way = WIRE_LOAN};
    struct wire_probe said;
    struct asked *asked;

    (void)state;
    begin_with(MEASURES);
    asked = wait_probe(&said);
    assert_int_equal(probe(loan, sizeof(loan)), NIGH_BUSY);
    rpc_reply(fuzz.rpc, asked->call, NIGH_UNSUPPORTED, NULL, 0);
    asked->call = 0;
    pass(1000);
    assert_int_equal(probe(loan, sizeof(loan)), NIGH_OK);
    finish_with();
}
