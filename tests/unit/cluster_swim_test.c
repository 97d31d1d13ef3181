/* SPDX-License-Identifier: Apache-2.0 */
/* One member, told what others say: each rule of docs/membership.md by itself; and the datagrams.
 */
#include "support/support.h"

#include <string.h>

#include "cluster/swim_internal.h"
#include "cluster/swim_wire.h"

#define COUNT     6
#define SELF      0
#define PERIOD    UINT64_C(1000000)
#define TIMEOUT   UINT64_C(300000)
#define FIRST     SWIM_INCARNATION(1, 0)
#define SHORTEST  (4 * PERIOD) /* a suspicion of six members: log10 counts as 1 */
#define LONGEST   (6 * SHORTEST)
#define MANY_USES 1000

static const uint8_t cluster_key[AUTH_KEY_BYTES] = {9};

static struct swim *swim;
static struct swim_actions actions;
static uint64_t now_us;

static int set_up(void **state)
{
    struct swim_config config = {.self = SELF,
                                 .count = COUNT,
                                 .incarnation = 1,
                                 .period_us = PERIOD,
                                 .timeout_us = TIMEOUT,
                                 .seed = 5};

    (void)state;
    now_us = 1000;
    swim = swim_create(&config, now_us);
    actions.due_us = now_us;
    return swim == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    assert_true(swim_is_valid(swim));
    swim_destroy(swim);
    return 0;
}

/* ---- helpers -------------------------------------------------------------- */

static struct swim_update of(uint32_t rank, enum swim_state state, uint64_t incarnation,
                             uint32_t from)
{
    return (struct swim_update){
        .incarnation = incarnation, .rank = rank, .from = from, .state = state};
}

static void hear(enum swim_kind kind, uint32_t from, uint32_t target, uint64_t sequence,
                 uint32_t count, const struct swim_update *updates)
{
    struct swim_message message = {.kind = kind,
                                   .from = from,
                                   .to = SELF,
                                   .target = target,
                                   .incarnation = FIRST,
                                   .sequence = sequence,
                                   .count = count};

    if (count > 0) {
        memcpy(message.updates, updates, count * sizeof(*updates));
    }
    swim_step(swim, &(struct swim_event){.kind = SWIM_RECEIVE, .message = &message}, now_us,
              &actions);
}

/* `teller` says this, in the answer to a probe that we never made. */
static void say(uint32_t teller, struct swim_update update)
{
    hear(SWIM_ACK, teller, teller, 0, 1, &update);
}

static void tick(void)
{
    now_us = actions.due_us;
    swim_step(swim, &(struct swim_event){.kind = SWIM_TICK}, now_us, &actions);
}

static const struct swim_message *sent(enum swim_kind kind)
{
    for (uint32_t n = 0; n < actions.sends; n++) {
        if (actions.send[n].kind == kind) {
            return &actions.send[n];
        }
    }
    return NULL;
}

/* Goes on to the next probe, and says whom it is of. */
static uint32_t next_probe(uint64_t *sequence)
{
    uint64_t probes = swim_counters(swim)->probes;

    while (swim_counters(swim)->probes == probes) {
        tick();
    }
    for (uint32_t n = 0; n < actions.sends; n++) {
        if (actions.send[n].sequence == swim->probe.sequence) {
            *sequence = actions.send[n].sequence;
            return actions.send[n].to;
        }
    }
    fail();
    return 0;
}

/* All answer, for so long. */
static void all_answer_until(uint64_t until_us, uint32_t but)
{
    while (actions.due_us < until_us) {
        uint64_t sequence;
        uint32_t rank = next_probe(&sequence);

        if (rank != but) {
            hear(SWIM_ACK, rank, rank, sequence, 0, NULL);
        }
    }
}

/* All have answered once. */
static void meet(void)
{
    all_answer_until(now_us + 2 * COUNT * PERIOD, COUNT);
    for (uint32_t rank = 1; rank < COUNT; rank++) {
        assert_true(swim_is_reached(swim, rank));
    }
    assert_int_equal(swim_health(swim), 0);
}

/* Time passes, and what comes due meanwhile; nobody answers, and nobody is to blame for it. */
static void pass(uint64_t for_us)
{
    uint64_t end_us = now_us + for_us;

    while (actions.due_us <= end_us) {
        tick();
        swim->health = 0;
    }
    now_us = end_us;
}

/* ---- what is known -------------------------------------------------------- */

static void order_does_not_matter(void **state)
{
    struct swim_update said[] = {
        of(3, SWIM_ALIVE, FIRST, 3),       of(3, SWIM_SUSPECT, FIRST, 1),
        of(3, SWIM_ALIVE, FIRST + 1, 3),   of(3, SWIM_SUSPECT, FIRST + 1, 2),
        of(3, SWIM_DEAD, FIRST + 1, 2),    of(3, SWIM_ALIVE, FIRST + 2, 3),
        of(3, SWIM_DEAD, FIRST, 4),        of(3, SWIM_LEFT, FIRST + 1, 3),
        of(3, SWIM_SUSPECT, FIRST + 2, 1),
    };
    uint64_t random = 1;

    for (uint32_t turn = 0; turn < MANY_USES; turn++) {
        uint32_t seen = 0;

        tear_down(state);
        set_up(state);
        while (seen != (1u << ARRAY_LENGTH(said)) - 1) {
            uint32_t n = (uint32_t)(support_random(&random) % ARRAY_LENGTH(said));

            seen |= 1u << n;
            say(1 + n % 2, said[n]);
        }
        assert_int_equal(swim_state_of(swim, 3), SWIM_SUSPECT);
        assert_true(swim_incarnation_of(swim, 3) == FIRST + 2);
    }
}

static void an_old_message_neither_kills_nor_revives(void **state)
{
    (void)state;
    say(1, of(3, SWIM_DEAD, FIRST, 1));
    say(1, of(3, SWIM_ALIVE, FIRST, 3));
    assert_int_equal(swim_state_of(swim, 3), SWIM_DEAD);
    say(1, of(3, SWIM_ALIVE, FIRST + 1, 3));
    say(1, of(3, SWIM_DEAD, FIRST, 1));
    say(1, of(3, SWIM_LEFT, FIRST, 3));
    assert_int_equal(swim_state_of(swim, 3), SWIM_ALIVE);
    hear(SWIM_ACK, 3, 3, 0, 0, NULL); /* as FIRST, which is over */
    assert_true(swim_incarnation_of(swim, 3) == FIRST + 1);
}

static void an_old_answer_answers_nothing(void **state)
{
    uint64_t sequence, again;
    uint32_t rank;

    (void)state;
    rank = next_probe(&sequence);
    hear(SWIM_ACK, rank, rank, sequence, 0, NULL);
    assert_true(swim_is_reached(swim, rank));
    while (next_probe(&again) != rank) {
    }
    hear(SWIM_ACK, rank, rank, sequence, 0, NULL);
    assert_int_equal(swim->probe.target, rank);
    hear(SWIM_ACK, rank, rank, again, 0, NULL);
    assert_int_equal(swim->probe.target, SWIM_NOBODY);
}

static void a_suspicion_of_ourselves_is_refuted(void **state)
{
    (void)state;
    say(2, of(SELF, SWIM_SUSPECT, FIRST, 1));
    assert_true(actions.refuted);
    assert_true(swim_incarnation_of(swim, SELF) == FIRST + 1);
    assert_int_equal(swim_health(swim), 1);
    say(2, of(SELF, SWIM_SUSPECT, FIRST, 4));
    assert_false(actions.refuted);
    say(2, of(SELF, SWIM_DEAD, FIRST + 1, 4));
    assert_true(swim_incarnation_of(swim, SELF) == FIRST + 2);
    hear(SWIM_PING, 2, SELF, 7, 0, NULL);
    assert_true(sent(SWIM_ACK)->incarnation == FIRST + 2);
    /* What a life before it left, by a clock that was ahead. */
    say(2, of(SELF, SWIM_DEAD, SWIM_INCARNATION(9, 3), 4));
    assert_true(swim_incarnation_of(swim, SELF) == SWIM_INCARNATION(9, 4));
}

/* ---- probes --------------------------------------------------------------- */

static void each_is_probed_once_a_round(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 20; round++) {
        uint32_t seen = 0;

        for (uint32_t n = 1; n < COUNT; n++) {
            uint64_t sequence;
            uint32_t rank = next_probe(&sequence);

            assert_false((seen >> rank) & 1);
            seen |= 1u << rank;
            hear(SWIM_ACK, rank, rank, sequence, 0, NULL);
        }
    }
}

static void who_is_silent_is_asked_through_others_and_suspected(void **state)
{
    uint64_t sequence, begun_us;
    uint32_t rank, asked = 0;

    (void)state;
    meet();
    rank = next_probe(&sequence);
    begun_us = now_us;
    tick();
    assert_true(now_us == begun_us + TIMEOUT);
    for (uint32_t n = 0; n < actions.sends; n++) {
        if (actions.send[n].kind == SWIM_PING_REQ) {
            assert_int_equal(actions.send[n].target, rank);
            assert_int_not_equal(actions.send[n].to, rank);
            asked |= 1u << actions.send[n].to;
        }
    }
    assert_int_equal(__builtin_popcount(asked), __builtin_popcount(asked & 0x3e));
    assert_true(__builtin_popcount(asked) >= 1);
    tick();
    assert_int_equal(swim_state_of(swim, rank), SWIM_SUSPECT);
    assert_int_equal(actions.changed[0].rank, rank);
    assert_true(swim_health(swim) > 0); /* of those who were asked nobody said anything */
}

static void an_answer_through_another_counts(void **state)
{
    uint64_t sequence;
    uint32_t rank;

    (void)state;
    meet();
    rank = next_probe(&sequence);
    tick();
    hear(SWIM_ACK, sent(SWIM_PING_REQ)->to, rank, sequence, 0, NULL);
    all_answer_until(now_us + 3 * PERIOD, COUNT);
    assert_int_equal(swim_state_of(swim, rank), SWIM_ALIVE);
}

static void who_never_answered_is_not_suspected(void **state)
{
    (void)state;
    hear(SWIM_PING, 1, SELF, 3, 0, NULL); /* its datagrams come here; do ours come there? */
    pass(60 * PERIOD);
    for (uint32_t rank = 1; rank < COUNT; rank++) {
        assert_int_equal(swim_state_of(swim, rank), SWIM_ALIVE);
    }
    assert_int_equal(swim_health(swim), 0);
}

static void a_probe_for_another_is_answered(void **state)
{
    const struct swim_message *ping;

    (void)state;
    hear(SWIM_PING_REQ, 1, 4, 77, 0, NULL);
    ping = sent(SWIM_PING);
    assert_int_equal(ping->to, 4);
    hear(SWIM_ACK, 4, 4, ping->sequence, 0, NULL);
    assert_int_equal(sent(SWIM_ACK)->to, 1);
    assert_int_equal(sent(SWIM_ACK)->target, 4);
    assert_true(sent(SWIM_ACK)->sequence == 77);
    hear(SWIM_PING_REQ, 2, 5, 78, 0, NULL);
    while (sent(SWIM_NACK) == NULL) {
        tick();
    }
    assert_int_equal(sent(SWIM_NACK)->to, 2);
    assert_true(sent(SWIM_NACK)->sequence == 78);
}

static void probes_for_others_have_a_bound(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < LIMIT_SWIM_RELAYS; n++) {
        hear(SWIM_PING_REQ, 1, 4, n, 0, NULL);
        assert_non_null(sent(SWIM_PING));
    }
    hear(SWIM_PING_REQ, 1, 4, 99, 0, NULL);
    assert_null(sent(SWIM_PING));
    pass(5 * PERIOD); /* the NACKs go, a few a step */
    assert_int_equal(swim->relay_count, 0);
}

/* ---- suspicion ------------------------------------------------------------ */

static void a_suspicion_ends_in_death_or_is_refuted(void **state)
{
    (void)state;
    say(1, of(3, SWIM_SUSPECT, FIRST, 1));
    say(1, of(4, SWIM_SUSPECT, FIRST, 1));
    all_answer_until(now_us + LONGEST - 3 * PERIOD, COUNT);
    assert_int_equal(swim_state_of(swim, 3), SWIM_SUSPECT);
    hear(SWIM_ACK, 4, 4, 0, 0, NULL); /* that it speaks does not refute it: it did not hear of it */
    assert_int_equal(swim_state_of(swim, 4), SWIM_SUSPECT);
    say(1, of(4, SWIM_ALIVE, FIRST + 1, 4));
    all_answer_until(now_us + 5 * PERIOD, COUNT);
    assert_int_equal(swim_state_of(swim, 3), SWIM_DEAD);
    assert_int_equal(swim_state_of(swim, 4), SWIM_ALIVE);
}

static void confirmations_shorten_a_suspicion(void **state)
{
    uint32_t deaths = 0;

    (void)state;
    assert_true(swim_suspicion_us(swim, 0) == LONGEST);
    assert_true(swim_suspicion_us(swim, 1) < LONGEST);
    assert_true(swim_suspicion_us(swim, 2) < swim_suspicion_us(swim, 1));
    assert_true(swim_suspicion_us(swim, 3) == SHORTEST);
    for (uint32_t n = 0; n < 4; n++) { /* of one, however often: none */
        say(1, of(3, SWIM_SUSPECT, FIRST, 1));
        say(1, of(4, SWIM_SUSPECT, FIRST, 1 + n + (n > 2 ? 1 : 0)));
    }
    for (uint64_t end_us = now_us + SHORTEST + 1000; actions.due_us <= end_us;) {
        tick();
        swim->health = 0;
        for (uint32_t n = 0; n < actions.changes; n++) {
            deaths += actions.changed[n].state == SWIM_DEAD;
        }
    }
    assert_int_equal(deaths, 1);
    assert_int_equal(swim_state_of(swim, 4), SWIM_DEAD);
    assert_int_equal(swim_state_of(swim, 3), SWIM_SUSPECT);
}

static void who_is_suspected_hears_of_it(void **state)
{
    (void)state;
    say(1, of(3, SWIM_SUSPECT, FIRST, 1));
    for (uint32_t n = 0; n < MANY_USES; n++) { /* also long after others hear of it no more */
        hear(SWIM_PING, 3, SELF, n, 0, NULL);
        assert_true(sent(SWIM_ACK)->count > 0);
        assert_int_equal(sent(SWIM_ACK)->updates[0].rank, 3);
        assert_int_equal(sent(SWIM_ACK)->updates[0].state, SWIM_SUSPECT);
    }
}

static void who_knows_to_be_slow_waits_longer(void **state)
{
    uint64_t begun_us;

    (void)state;
    meet();
    say(1, of(3, SWIM_SUSPECT, FIRST, 1));
    begun_us = now_us;
    swim->health = 2;
    for (uint64_t end_us = now_us + LONGEST + 5 * PERIOD; actions.due_us <= end_us;) {
        tick();
        swim->health = 2;
    }
    assert_true(now_us > begun_us + LONGEST + 2 * PERIOD);
    assert_int_equal(swim_state_of(swim, 3), SWIM_SUSPECT);
}

static void who_knows_to_be_slow_asks_the_suspect_first(void **state)
{
    uint64_t sequence;
    uint32_t turn;

    (void)state;
    meet();
    turn = swim->order[(swim->position + 1) % (COUNT - 1)]; /* who would come after the next */
    for (uint32_t rank = 1, told = 0; told < 2; rank++) {
        if (rank != swim->order[swim->position % (COUNT - 1)] && rank != turn) {
            say(SELF + 1, of(rank, SWIM_SUSPECT, FIRST, SELF + 1));
            now_us++;
            told++;
        }
    }
    swim->health = 2;
    for (uint32_t n = 0; n < 2; n++) { /* the older suspicion first, and each once */
        uint32_t suspect = swim->suspects[n];

        assert_int_equal(next_probe(&sequence), suspect);
        swim->probe.target = SWIM_NOBODY;
        swim->health = 2;
    }
    assert_int_equal(swim_state_of(swim, next_probe(&sequence)), SWIM_ALIVE);
}

static void time_that_stood_still_does_not_count(void **state)
{
    (void)state;
    meet();
    say(1, of(3, SWIM_SUSPECT, FIRST, 1));
    actions.due_us += 100 * LONGEST;
    tick();
    assert_int_equal(swim_state_of(swim, 3), SWIM_SUSPECT);
    assert_true(swim_health(swim) > 0);
    assert_int_equal(swim_counters(swim)->late, 1);
    say(1, of(3, SWIM_ALIVE, FIRST + 1, 3));
    assert_int_equal(swim_state_of(swim, 3), SWIM_ALIVE);
}

/* ---- news ----------------------------------------------------------------- */

static void news_go_out_as_often_as_they_should(void **state)
{
    uint32_t times[COUNT] = {0};

    (void)state;
    say(1, of(3, SWIM_SUSPECT, FIRST, 1));
    for (uint32_t n = 0; n < 4; n++) {
        hear(SWIM_PING, 2, SELF, n, 0, NULL);
    }
    say(1, of(4, SWIM_DEAD, FIRST, 1));
    hear(SWIM_PING, 2, SELF, 9, 0, NULL);
    assert_int_equal(sent(SWIM_ACK)->updates[0].rank, 4); /* what was sent least comes first */
    times[4] = 1;
    for (uint32_t n = 0; n < MANY_USES; n++) {
        hear(SWIM_PING, 2, SELF, n, 0, NULL);
        for (uint32_t u = 0; u < sent(SWIM_ACK)->count; u++) {
            times[sent(SWIM_ACK)->updates[u].rank]++;
        }
    }
    assert_int_equal(times[4], swim_transmissions(COUNT));
    assert_int_equal(times[3], swim_transmissions(COUNT) - 5);
    assert_int_equal(swim_transmissions(COUNT), 9);
    assert_int_equal(swim_transmissions(1000), 30);
}

static void the_dead_are_knocked_at(void **state)
{
    uint32_t knocks = 0;

    (void)state;
    meet();
    say(1, of(3, SWIM_DEAD, FIRST, 1));
    for (uint32_t n = 0; n < 10 * SWIM_KNOCK_PERIODS; n++) {
        uint64_t sequence;
        uint32_t rank = next_probe(&sequence);

        for (uint32_t s = 0; s < actions.sends; s++) {
            if (actions.send[s].to == 3) {
                knocks++;
                assert_int_equal(actions.send[s].updates[0].state, SWIM_DEAD);
            }
        }
        assert_int_not_equal(rank, 3);
        hear(SWIM_ACK, rank, rank, sequence, 0, NULL);
    }
    assert_int_equal(knocks, 10);
}

static void who_leaves_says_so_and_is_silent(void **state)
{
    (void)state;
    swim_step(swim, &(struct swim_event){.kind = SWIM_LEAVE}, now_us, &actions);
    assert_true(actions.sends > 1 && actions.due_us == UINT64_MAX);
    assert_int_equal(actions.send[0].updates[0].rank, SELF);
    assert_int_equal(actions.send[0].updates[0].state, SWIM_LEFT);
    hear(SWIM_PING, 1, SELF, 1, 0, NULL);
    assert_int_equal(actions.sends, 0);
}

/* ---- datagrams ------------------------------------------------------------ */

static size_t encoded(struct swim_message *message, uint8_t bytes[SWIM_WIRE_BYTES])
{
    struct swim_wire wire;

    *message = (struct swim_message){.kind = SWIM_PING_REQ,
                                     .from = 1,
                                     .to = 2,
                                     .target = 3,
                                     .incarnation = SWIM_INCARNATION(7, 2),
                                     .sequence = UINT64_C(0x1122334455667788),
                                     .count = 2};
    message->updates[0] = of(4, SWIM_SUSPECT, FIRST, 1);
    message->updates[1] = of(5, SWIM_LEFT, FIRST + 9, 5);
    swim_wire_init(&wire, 42, 1, COUNT, cluster_key);
    return swim_wire_encode(&wire, message, bytes);
}

static nigh_status decoded(uint64_t cluster, uint32_t self, uint8_t key_byte, const uint8_t *bytes,
                           size_t size_bytes, struct swim_message *message)
{
    struct swim_wire wire;
    uint8_t key[AUTH_KEY_BYTES] = {key_byte};

    swim_wire_init(&wire, cluster, self, COUNT, key);
    return swim_wire_decode(&wire, bytes, size_bytes, message);
}

static void a_datagram_comes_as_it_went(void **state)
{
    struct swim_message message, got = {.count = 0};
    uint8_t bytes[SWIM_WIRE_BYTES];
    size_t size_bytes = encoded(&message, bytes);

    (void)state;
    assert_int_equal(size_bytes, 40 + 2 * 16 + 16);
    assert_int_equal(bytes[0], 'N'); /* the same on every machine */
    assert_int_equal(bytes[24], 0x88);
    assert_int_equal(decoded(42, 2, 9, bytes, size_bytes, &got), NIGH_OK);
    assert_int_equal(got.kind, SWIM_PING_REQ);
    assert_true(got.from == 1 && got.to == 2 && got.target == 3 && got.count == 2);
    assert_true(got.incarnation == message.incarnation && got.sequence == message.sequence);
    assert_memory_equal(&got.updates[1], &message.updates[1], sizeof(got.updates[1]));
}

static void what_is_not_for_us_is_refused(void **state)
{
    struct swim_message message, got = {.count = 77};
    uint8_t bytes[SWIM_WIRE_BYTES + 1] = {0};
    size_t size_bytes = encoded(&message, bytes);

    (void)state;
    assert_int_equal(decoded(43, 2, 9, bytes, size_bytes, &got), NIGH_VERSION);
    assert_int_equal(decoded(42, 3, 9, bytes, size_bytes, &got), NIGH_PROTOCOL);
    assert_int_equal(decoded(42, 2, 8, bytes, size_bytes, &got), NIGH_DENIED);
    for (size_t n = 0; n <= SWIM_WIRE_BYTES; n++) {
        assert_true(n == size_bytes || decoded(42, 2, 9, bytes, n, &got) != NIGH_OK);
    }
    for (size_t bit = 0; bit < 8 * size_bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(decoded(42, 2, 9, bytes, size_bytes, &got), NIGH_OK);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(got.count, 77); /* nothing was written */
}

static nigh_status with(struct swim_message message)
{
    struct swim_wire wire;
    struct swim_message got;
    uint8_t bytes[SWIM_WIRE_BYTES];
    size_t size_bytes;

    swim_wire_init(&wire, 42, 1, COUNT, cluster_key);
    size_bytes = swim_wire_encode(&wire, &message, bytes);
    return decoded(42, 2, 9, bytes, size_bytes, &got);
}

static void who_has_the_key_says_what_may_be_said(void **state)
{
    uint8_t bytes[SWIM_WIRE_BYTES];
    struct swim_message good, bad;

    (void)state;
    encoded(&good, bytes);
    assert_int_equal(with(good), NIGH_OK);
    bad = good;
    bad.from = 2; /* as ourselves */
    assert_int_equal(with(bad), NIGH_PROTOCOL);
    bad = good;
    bad.from = COUNT;
    assert_int_equal(with(bad), NIGH_PROTOCOL);
    bad = good;
    bad.target = COUNT;
    assert_int_equal(with(bad), NIGH_PROTOCOL);
    bad = good;
    bad.kind = SWIM_KINDS;
    assert_int_equal(with(bad), NIGH_PROTOCOL);
    bad = good;
    bad.incarnation = 5; /* of no node */
    assert_int_equal(with(bad), NIGH_PROTOCOL);
    bad = good;
    bad.updates[1].rank = COUNT;
    assert_int_equal(with(bad), NIGH_PROTOCOL);
    bad = good;
    bad.updates[1].from = COUNT;
    assert_int_equal(with(bad), NIGH_PROTOCOL);
    bad = good;
    bad.updates[1].state = SWIM_STATES;
    assert_int_equal(with(bad), NIGH_PROTOCOL);
    bad = good;
    bad.updates[1].incarnation = UINT64_MAX; /* nobody could refute it */
    assert_int_equal(with(bad), NIGH_PROTOCOL);
}

#define WITH_ONE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ONE(order_does_not_matter),
        WITH_ONE(an_old_message_neither_kills_nor_revives),
        WITH_ONE(an_old_answer_answers_nothing),
        WITH_ONE(a_suspicion_of_ourselves_is_refuted),
        WITH_ONE(each_is_probed_once_a_round),
        WITH_ONE(who_is_silent_is_asked_through_others_and_suspected),
        WITH_ONE(an_answer_through_another_counts),
        WITH_ONE(who_never_answered_is_not_suspected),
        WITH_ONE(a_probe_for_another_is_answered),
        WITH_ONE(probes_for_others_have_a_bound),
        WITH_ONE(a_suspicion_ends_in_death_or_is_refuted),
        WITH_ONE(confirmations_shorten_a_suspicion),
        WITH_ONE(who_is_suspected_hears_of_it),
        WITH_ONE(who_knows_to_be_slow_waits_longer),
        WITH_ONE(who_knows_to_be_slow_asks_the_suspect_first),
        WITH_ONE(time_that_stood_still_does_not_count),
        WITH_ONE(news_go_out_as_often_as_they_should),
        WITH_ONE(the_dead_are_knocked_at),
        WITH_ONE(who_leaves_says_so_and_is_silent),
        cmocka_unit_test(a_datagram_comes_as_it_went),
        cmocka_unit_test(what_is_not_for_us_is_refused),
        cmocka_unit_test(who_has_the_key_says_what_may_be_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
