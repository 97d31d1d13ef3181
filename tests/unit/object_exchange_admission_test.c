/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three lanes' exchanges over the simulated fabric, of which one pulls from the two others. What
 * pulls are admitted with is shared among the holders, also when one of these stands still; who
 * waits is told where an object is, and who asks is told why not; and when a holder dies the other
 * one takes over.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "fabric/sim/sim.h"
#include "memory/extent_internal.h"
#include "memory/pin.h"
#include "object/exchange_figures.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_pull.h"
#include "object/exchange_replicas.h"
#include "support/lane_store.h"
#include "support/support.h"

#define KIB      UINT64_C(1024)
#define ENTRIES  256u
#define CLUSTER  UINT64_C(0x706f6f6c)
#define GETS     16u
#define ADMITTED (1024 * KIB)
#define SOON_US  UINT64_C(300000) /* before anybody calls the neglected back */
#define TOLD_US  UINT64_C(2000)   /* some messages long, and nothing to EXCHANGE_ASK_US */

enum {
    PULLER,
    NEGLECTS, /* it stands still, when a test says so */
    SERVES,
    SIDES
};

struct side {
    struct members members;
    struct support_store lane;
    struct fabric *fabric;
    struct exchange *exchange;
    bool is_still;                /* so are the dead */
    struct session_cqe cqe[GETS]; /* by the operation's number */
    bool has_ended[GETS];
};

static struct sim *sim;
static struct side sides[SIDES];
static uint32_t born; /* objects, ever */
static enum exchange_path path;

/* ---- stores ----------------------------------------------------------------- */

static void on_complete(void *context, uint32_t session, const struct session_cqe *cqe)
{
    struct side *side = context;

    (void)session;
    assert_true(cqe->cookie < GETS);
    side->cqe[cqe->cookie] = *cqe;
    side->has_ended[cqe->cookie] = true;
}

static uint64_t on_wall(void *context)
{
    (void)context;
    return sim_now_us(sim) * 1000;
}

static void open_store(struct side *side, uint32_t rank)
{
    const struct support_store_options options = {.rank = rank,
                                                  .entries = ENTRIES,
                                                  .wall_ns = on_wall,
                                                  .complete = on_complete,
                                                  .context = side};

    support_store_open(&side->lane, &options);
}

/* ---- a cluster -------------------------------------------------------------- */

static void open_side(uint32_t rank)
{
    struct side *side = &sides[rank];
    struct exchange_config config = {.members = &side->members,
                                     .lanes = 1,
                                     .incarnation = 1,
                                     .max_keys = 1024,
                                     .pull_bytes = ADMITTED,
                                     .chunk_bytes = 64 * KIB,
                                     .path = path,
                                     .seed = 1 + rank};
    char why[256], text[8];

    memset(side, 0, sizeof(*side));
    (void)snprintf(text, sizeof(text), "%u", rank);
    assert_int_equal(members_parse("n0:1,n1:1,n2:1", text, &side->members, why, sizeof(why)),
                     NIGH_OK);
    open_store(side, rank);
    assert_int_equal(sim_fabric(sim, rank, 0, &side->fabric), NIGH_OK);
    (void)snprintf(text, sizeof(text), "%u:0", rank);
    assert_int_equal(fabric_listen(side->fabric, text), NIGH_OK);
    config.fabric = side->fabric;
    config.store = side->lane.store;
    config.extents = side->lane.set;
    assert_int_equal(exchange_create(&config, &side->exchange), NIGH_OK);
    assert_int_equal(exchange_pool_add(side->exchange, 0, CLUSTER), NIGH_OK);
}

static void end_exchange(struct side *side)
{
    exchange_destroy(side->exchange);
    fabric_destroy(side->fabric);
    side->exchange = NULL;
    side->fabric = NULL;
}

static void close_side(struct side *side)
{
    if (side->exchange != NULL) {
        end_exchange(side);
    }
    support_store_close(&side->lane);
}

/* To the next thing that happens, but no further than a millisecond. */
static uint64_t next_us(void)
{
    uint64_t now_us = sim_now_us(sim), at_us = min_u64(sim_next_us(sim), now_us + 1000);

    for (uint32_t rank = 0; rank < SIDES; rank++) {
        if (!sides[rank].is_still) {
            at_us = min_u64(at_us, exchange_due_us(sides[rank].exchange));
        }
    }
    return max_u64(at_us, now_us + 20);
}

static void pass(uint64_t us)
{
    uint64_t end_us = sim_now_us(sim) + us;

    while (sim_now_us(sim) < end_us) {
        for (uint32_t rank = 0; rank < SIDES; rank++) {
            if (!sides[rank].is_still) {
                (void)exchange_turn(sides[rank].exchange, sim_now_us(sim));
                (void)store_tick(sides[rank].lane.store, sim_now_us(sim));
            }
        }
        sim_advance(sim, min_u64(next_us(), end_us));
    }
    for (uint32_t rank = 0; rank < SIDES; rank++) {
        assert_true(sides[rank].exchange == NULL || exchange_is_valid(sides[rank].exchange));
    }
}

/* Nobody has met anybody yet. */
static void cluster_begin(enum exchange_path of)
{
    struct sim_options options = {.seed = 7};

    born = 0;
    path = of;
    assert_int_equal(sim_create(&options, &sim), NIGH_OK);
    for (uint32_t rank = 0; rank < SIDES; rank++) {
        open_side(rank);
    }
}

static void cluster_meet(void)
{
    for (uint32_t rank = 0; rank < SIDES; rank++) {
        for (uint32_t other = 0; other < SIDES; other++) {
            struct link_peer peer = {
                .rank = other, .incarnation = 1, .dials = rank > other, .lanes = 1};

            (void)snprintf(peer.addresses[0], sizeof(peer.addresses[0]), "%u:0", other);
            if (other != rank) {
                assert_int_equal(exchange_peer_up(sides[rank].exchange, &peer, sim_now_us(sim)),
                                 NIGH_OK);
            }
        }
    }
    pass(20000);
}

static void cluster_open(enum exchange_path of)
{
    cluster_begin(of);
    cluster_meet();
}

static void cluster_close(void)
{
    for (uint32_t rank = 0; rank < SIDES; rank++) {
        close_side(&sides[rank]);
    }
    sim_destroy(sim);
}

/* ---- objects ---------------------------------------------------------------- */

static void submit(struct side *side, const struct directory_key *key, uint32_t number,
                   struct session_sqe sqe)
{
    memcpy(sqe.id, key->id, LIMIT_ID_BYTES);
    sqe.cookie = number;
    side->has_ended[number] = false;
    store_submit(side->lane.store, 0, &sqe, sim_now_us(sim));
}

static struct directory_key new_key(uint32_t home)
{
    struct directory_key key = {.pool = CLUSTER};

    do {
        memset(key.id, (int)(++born), LIMIT_ID_BYTES);
    } while (members_home(&sides[PULLER].members, directory_key_hash(&key)) != home);
    return key;
}

/* What an object consists of: no part of it is like the one before. */
static uint8_t byte_of(const struct directory_key *key, uint64_t n)
{
    return (uint8_t)(key->id[0] + n / KIB);
}

static void put_key(uint32_t rank, const struct directory_key *key, uint64_t bytes)
{
    struct side *side = &sides[rank];
    struct session_sqe seal = {.op = SESSION_OP_SEAL};
    uint8_t *at;

    submit(side, key, 0, (struct session_sqe){.op = SESSION_OP_CREATE, .data_size = bytes});
    assert_true(side->has_ended[0] && side->cqe[0].status == NIGH_OK);
    at = extent_bytes_at(side->lane.set, side->cqe[0].offset);
    for (uint64_t n = 0; n < bytes; n++) {
        at[n] = byte_of(key, n);
    }
    seal.ref = side->cqe[0].ref;
    submit(side, key, 0, seal);
    assert_true(side->has_ended[0] && side->cqe[0].status == NIGH_OK);
}

/* A new object at a node, whose home is the puller: where it is needs no message. */
static struct directory_key put(uint32_t rank, uint64_t bytes)
{
    struct directory_key key = new_key(PULLER);

    put_key(rank, &key, bytes);
    pass(5000);
    return key;
}

static void begin_get(const struct directory_key *key, uint32_t number)
{
    submit(&sides[PULLER], key, number,
           (struct session_sqe){.op = SESSION_OP_GET, .argument = 60000000});
}

static bool is_got(uint32_t number)
{
    assert_true(!sides[PULLER].has_ended[number] || sides[PULLER].cqe[number].status == NIGH_OK);
    return sides[PULLER].has_ended[number];
}

/* ---- tests ------------------------------------------------------------------ */

/* A member that does nothing for what it is asked has its share, and pulls from others pass. */
static void who_neglects_leaves_room(void **state)
{
    struct directory_key of_others[6], of_it[5];

    (void)state;
    cluster_open(EXCHANGE_TWO_SIDED);
    for (uint32_t n = 0; n < ARRAY_LENGTH(of_it); n++) {
        of_it[n] = put(NEGLECTS, 300 * KIB);
    }
    for (uint32_t n = 0; n < ARRAY_LENGTH(of_others); n++) {
        of_others[n] = put(SERVES, 300 * KIB);
    }
    sides[NEGLECTS].is_still = true;
    for (uint32_t n = 0; n < ARRAY_LENGTH(of_it); n++) {
        begin_get(&of_it[n], n);
    }
    pass(1000);
    assert_true(sides[PULLER].exchange->admission.count > 0);
    for (uint32_t n = 0; n < ARRAY_LENGTH(of_others); n++) {
        begin_get(&of_others[n], 8 + n);
    }
    pass(SOON_US);
    for (uint32_t n = 0; n < ARRAY_LENGTH(of_others); n++) {
        assert_true(is_got(8 + n));
    }
    for (uint32_t n = 0; n < ARRAY_LENGTH(of_it); n++) {
        assert_false(is_got(n));
    }
    /* It goes on: all of it comes. */
    sides[NEGLECTS].is_still = false;
    pass(5000000);
    for (uint32_t n = 0; n < ARRAY_LENGTH(of_it); n++) {
        assert_true(is_got(n));
    }
    assert_int_equal(sides[PULLER].exchange->counts.pull_bytes_now, 0);
    cluster_close();
}

/* Who has nothing under way is not passed for ever by small ones: what is large comes, too. */
static void what_is_large_is_not_passed(void **state)
{
    struct directory_key large, small[GETS - 1];

    (void)state;
    cluster_open(EXCHANGE_TWO_SIDED);
    large = put(NEGLECTS, 900 * KIB); /* today it does not */
    for (uint32_t n = 0; n < ARRAY_LENGTH(small); n++) {
        small[n] = put(SERVES, 200 * KIB);
    }
    begin_get(&small[0], 1);
    begin_get(&large, 0);
    for (uint32_t n = 1; n < ARRAY_LENGTH(small); n++) {
        begin_get(&small[n], 1 + n);
    }
    for (uint32_t n = 0; n < 10000 && !is_got(0); n++) {
        pass(50);
    }
    assert_true(is_got(0));
    assert_false(is_got(GETS - 1));
    pass(SOON_US);
    assert_true(is_got(GETS - 1));
    cluster_close();
}

/* Two alone share nothing: one holder may have all. */
static void one_holder_alone_goes_on(void **state)
{
    struct directory_key keys[8];

    (void)state;
    cluster_open(EXCHANGE_TWO_SIDED);
    for (uint32_t n = 0; n < ARRAY_LENGTH(keys); n++) {
        keys[n] = put(SERVES, 600 * KIB);
    }
    for (uint32_t n = 0; n < ARRAY_LENGTH(keys); n++) {
        begin_get(&keys[n], n);
    }
    pass(SOON_US);
    for (uint32_t n = 0; n < ARRAY_LENGTH(keys); n++) {
        assert_true(is_got(n));
    }
    cluster_close();
}

/* It waits before there is an object, and hears of the seal from the home: where the home is the
 * holder itself, where it is another, and where it is the one that waits. */
static void who_waits_is_told_at_once(void **state)
{
    static const uint32_t homes[] = {PULLER, NEGLECTS, SERVES};

    (void)state;
    cluster_open(EXCHANGE_TWO_SIDED);
    for (uint32_t n = 0; n < ARRAY_LENGTH(homes); n++) {
        struct directory_key key = new_key(homes[n]);

        begin_get(&key, n);
        pass(EXCHANGE_ASK_US / 10);
        assert_false(is_got(n));
        put_key(SERVES, &key, 4 * KIB);
        pass(TOLD_US);
        assert_true(is_got(n));
    }
    cluster_close();
}

/* ---- a holder dies ---------------------------------------------------------- */

/* Runs until some bytes of the one pull are here, but not all: the rank of who sends them. */
static uint32_t half_way(uint64_t bytes)
{
    const struct pull *pull = sides[PULLER].exchange->pulls;

    for (uint32_t n = 0; n < 10000 && pull->received < bytes / 4; n++) {
        pass(20);
    }
    assert_true(pull->state == PULL_STREAMING || pull->state == PULL_READING);
    assert_true(pull->received >= bytes / 4 && pull->received < bytes);
    return pull->link->rank;
}

static void die(uint32_t rank)
{
    sides[rank].is_still = true;
    sim_crash(sim, rank);
    end_exchange(&sides[rank]);
    for (uint32_t other = 0; other < SIDES; other++) {
        if (other != rank) {
            exchange_peer_dead(sides[other].exchange, rank, sim_now_us(sim));
        }
    }
}

static nigh_status told; /* of the last question */
static struct exchange_places told_places;

static void on_where(void *context, uint64_t token, nigh_status status,
                     const struct exchange_places *places)
{
    (void)context;
    (void)token;
    told = status;
    told_places = *places;
}

/* What the puller hears of where an object is. */
static nigh_status where(const struct directory_key *key)
{
    nigh_status status;

    told_places = (struct exchange_places){0};
    status = exchange_where(sides[PULLER].exchange, 0, key->id, 0, sim_now_us(sim), &told_places,
                            on_where, NULL, 1);
    if (status != NIGH_PENDING) {
        return status;
    }
    told = NIGH_PENDING;
    pass(TOLD_US);
    return told;
}

/* A new key whose home is dead, for which that one stands in. */
static struct directory_key new_key_kept_by(uint32_t rank)
{
    struct directory_key key;

    do {
        key = new_key(NEGLECTS);
    } while (replication_keeper(sides[PULLER].exchange, directory_key_hash(&key)) != rank);
    return key;
}

/* That one has the only replica of it. */
static void hold(uint32_t rank, const struct directory_key *key)
{
    struct store_sight sight = {.birth = {.counter = 1}, .data_size = 100, .replicas = 2};

    memcpy(sight.id, key->id, sizeof sight.id);
    assert_non_null(replication_hold(sides[rank].exchange, &sight));
}

/* A home that has not heard all members yet will know, and is to be asked again; so does who stands
 * in for one that just died, this node or another, of replicas; after a while it is not. */
static void where_it_is_only_a_home_will_know(void **state)
{
    struct directory_key of_living, here, there;

    (void)state;
    cluster_begin(EXCHANGE_TWO_SIDED);
    of_living = new_key(PULLER);
    assert_int_equal(where(&of_living), NIGH_BUSY);
    cluster_meet();
    assert_int_equal(where(&of_living), NIGH_OK);
    die(NEGLECTS);
    here = new_key_kept_by(PULLER);
    there = new_key_kept_by(SERVES);
    assert_int_equal(where(&here), NIGH_BUSY);
    assert_int_equal(where(&there), NIGH_BUSY);
    pass(REPLICAS_NEW_US);
    assert_int_equal(where(&here), NIGH_PEER_LOST);
    assert_int_equal(where(&there), NIGH_PEER_LOST);
    hold(PULLER, &here);
    hold(PULLER, &there);
    assert_int_equal(where(&here), NIGH_OK);
    assert_int_equal(where(&there), NIGH_OK);
    assert_int_equal(told_places.count, 0);
    of_living = new_key(SERVES);
    assert_int_equal(where(&of_living), NIGH_OK);
    cluster_close();
}

/* Of what has a replica on a node that lives nobody hears that it is lost, from the moment on in
 * which its home is known to be dead; and the only one that has one is told so much at once. */
static void what_lives_is_not_said_to_be_lost(void **state)
{
    struct directory_key here, there, own;

    (void)state;
    cluster_open(EXCHANGE_TWO_SIDED);
    die(NEGLECTS);
    here = new_key_kept_by(PULLER);
    there = new_key_kept_by(SERVES);
    own = new_key_kept_by(SERVES);
    hold(SERVES, &here);
    hold(SERVES, &there);
    assert_int_equal(where(&here), NIGH_BUSY); /* nobody had a turn to tell it */
    hold(PULLER, &own);
    assert_int_equal(where(&own), NIGH_OK);
    while (where(&here) == NIGH_BUSY) {
        pass(TOLD_US);
    }
    assert_int_equal(where(&here), NIGH_OK);
    assert_int_equal(told_places.count, 1);
    assert_int_equal(told_places.ranks[0], SERVES);
    assert_int_equal(where(&there), NIGH_OK);
    assert_int_equal(told_places.count, 1);
    cluster_close();
}

/* Ranks that nobody has, and the dead, have no share: one holder may have all. What it has it keeps
 * when there is another again. */
static void where_one_other_lives_nothing_is_shared(void **state)
{
    const struct exchange *exchange;
    struct link_peer peer = {.rank = NEGLECTS, .incarnation = 2, .lanes = 1, .addresses = {"1:0"}};
    struct directory_key halves[2], small;

    (void)state;
    cluster_open(EXCHANGE_TWO_SIDED);
    exchange = sides[PULLER].exchange;
    die(NEGLECTS);
    for (uint32_t n = 0; n < ARRAY_LENGTH(halves); n++) {
        halves[n] = put(SERVES, 500 * KIB);
    }
    small = put(SERVES, 20 * KIB);
    sides[SERVES].is_still = true;
    for (uint32_t n = 0; n < ARRAY_LENGTH(halves); n++) {
        begin_get(&halves[n], n);
    }
    pass(1000);
    assert_int_equal(exchange->counts.pull_bytes_now, 1000 * KIB);
    assert_int_equal(exchange->admission.count, 0);
    assert_int_equal(exchange_peer_up(sides[PULLER].exchange, &peer, sim_now_us(sim)), NIGH_OK);
    begin_get(&small, 2);
    pass(1000);
    assert_int_equal(exchange->counts.pull_bytes_now, 1000 * KIB);
    assert_int_equal(exchange->admission.count, 1);
    sides[SERVES].is_still = false;
    pass(SOON_US);
    assert_true(is_got(0) && is_got(1) && is_got(2));
    cluster_close();
}

/* Its waiters do not hear of it: what is missing, or all, comes from the other one. */
static void another_takes_over_half_way(enum exchange_path by)
{
    const uint64_t bytes = 900 * KIB;
    struct directory_key key;
    const uint8_t *at;
    uint32_t first, second;
    uint64_t served;

    cluster_open(by);
    key = put(NEGLECTS, bytes);
    submit(&sides[SERVES], &key, 1,
           (struct session_sqe){.op = SESSION_OP_GET, .argument = 60000000});
    pass(SOON_US);
    assert_true(sides[SERVES].has_ended[1] && sides[SERVES].cqe[1].status == NIGH_OK);
    begin_get(&key, 1);
    first = half_way(bytes);
    second = first == SERVES ? NEGLECTS : SERVES;
    assert_false(is_got(1));
    served = sides[second].exchange->counts.served_bytes;
    die(first);
    pass(SOON_US);
    assert_true(is_got(1));
    assert_true(sides[second].exchange->counts.served_bytes > served);
    assert_int_equal(sides[PULLER].exchange->counts.pulls, 1);
    assert_int_equal(sides[PULLER].cqe[1].data_size, bytes);
    at = extent_bytes_at(sides[PULLER].lane.set, sides[PULLER].cqe[1].offset);
    for (uint64_t n = 0; n < bytes; n++) {
        assert_int_equal(at[n], byte_of(&key, n));
    }
    cluster_close();
}

static void another_holder_sends_the_rest(void **state)
{
    (void)state;
    another_takes_over_half_way(EXCHANGE_TWO_SIDED);
}

static void another_holder_lends_the_rest(void **state)
{
    (void)state;
    another_takes_over_half_way(EXCHANGE_ONE_SIDED);
}

/* One holder's bytes are not what was sealed; the other cannot be reached just now, and is waited
 * for. */
static void a_holder_out_of_reach_is_waited_for(void **state)
{
    struct link_peer peer = {.rank = NEGLECTS,
                             .incarnation = 1,
                             .dials = PULLER > NEGLECTS,
                             .lanes = 1,
                             .addresses = {"2:0"}};
    struct directory_key key;
    struct store_sight sight;
    uint8_t *bytes;

    (void)state;
    cluster_open(EXCHANGE_TWO_SIDED);
    (void)snprintf(peer.addresses[0], sizeof(peer.addresses[0]), "%u:0", NEGLECTS);
    key = put(SERVES, 100 * KIB);
    submit(&sides[NEGLECTS], &key, 1,
           (struct session_sqe){.op = SESSION_OP_GET, .argument = 60000000});
    pass(20000);
    assert_true(sides[NEGLECTS].has_ended[1] && sides[NEGLECTS].cqe[1].status == NIGH_OK);
    assert_true(store_see(sides[SERVES].lane.store, 0, key.id, hash_id20(key.id), &sight));
    bytes = extent_bytes_at(sides[SERVES].lane.set, sight.offset);
    bytes[7] ^= 1; /* its sum is known by now */
    exchange_peer_lost(sides[PULLER].exchange, NEGLECTS, sim_now_us(sim));
    begin_get(&key, 2);
    pass(2000000);
    assert_true(sides[PULLER].exchange->counts.crc_failures > 3);
    assert_false(is_got(2));
    assert_int_equal(exchange_peer_up(sides[PULLER].exchange, &peer, sim_now_us(sim)), NIGH_OK);
    pass(3000000);
    assert_true(is_got(2));
    cluster_close();
}

/* Its time begins with it, not when its lane last had something to do. */
static void a_delete_after_a_rest_has_its_time(void **state)
{
    struct directory_key key;
    struct side *side = &sides[PULLER];

    (void)state;
    cluster_open(EXCHANGE_TWO_SIDED);
    key = new_key(SERVES);
    put_key(SERVES, &key, KIB);
    pass(5000);
    side->is_still = true;
    pass(6000000);
    submit(side, &key, 1, (struct session_sqe){.op = SESSION_OP_DELETE});
    side->is_still = false;
    pass(100000);
    assert_true(side->has_ended[1]);
    assert_int_equal(side->cqe[1].status, NIGH_OK);
    cluster_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_neglects_leaves_room),
        cmocka_unit_test(what_is_large_is_not_passed),
        cmocka_unit_test(one_holder_alone_goes_on),
        cmocka_unit_test(who_waits_is_told_at_once),
        cmocka_unit_test(where_it_is_only_a_home_will_know),
        cmocka_unit_test(what_lives_is_not_said_to_be_lost),
        cmocka_unit_test(where_one_other_lives_nothing_is_shared),
        cmocka_unit_test(another_holder_sends_the_rest),
        cmocka_unit_test(another_holder_lends_the_rest),
        cmocka_unit_test(a_holder_out_of_reach_is_waited_for),
        cmocka_unit_test(a_delete_after_a_rest_has_its_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
