/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake of two nodes: that it works, and everything that it must not believe. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/auth.h"
#include "support/support.h"

#define ANY_RANK UINT32_MAX

/* One message of the wire, as the test takes it apart: magic, kind and length first. */
enum kind {
    HELLO = 1,
    CHALLENGE = 2,
    PROOF = 3,
    OFFER = 4,
    REFUSE = 5
};

#define HELLO_BYTES        64u
#define CHALLENGE_BYTES    96u
#define PROOF_BYTES        40u
#define OFFER_SPACES       20u /* where that word lies */
#define OFFER_BYTES(lanes) (112u + (lanes)*AUTH_ADDRESS_BYTES + AUTH_PROOF_BYTES)

static const uint8_t key_one[AUTH_KEY_BYTES] = {1, 2, 3};
static const uint8_t key_two[AUTH_KEY_BYTES] = {1, 2, 4};

/* Both ends. The dialler is rank 7 with two lanes, the acceptor rank 3 with four. */
struct pair {
    struct auth dialler, acceptor;
    struct auth_identity identities[2];
    struct auth_offer offers[2];
    uint8_t nonces[2][AUTH_NONCE_BYTES];
    uint32_t expected_rank;
    const uint8_t *keys[2];
};

static void pair_default(struct pair *pair)
{
    static uint8_t fresh;

    memset(pair, 0, sizeof(*pair));
    pair->identities[0] = (struct auth_identity){.rank = 7, .incarnation = 70, .epoch = 99};
    pair->identities[1] = (struct auth_identity){.rank = 3, .incarnation = 30, .epoch = 99};
    pair->offers[0].lanes = 2;
    pair->offers[1].lanes = 4;
    pair->offers[0].directory = pair->offers[1].directory = 5;
    for (uint32_t lane = 0; lane < 4; lane++) {
        snprintf(pair->offers[0].addresses[lane % 2], AUTH_ADDRESS_BYTES, "d:%u", lane % 2);
        snprintf(pair->offers[1].addresses[lane], AUTH_ADDRESS_BYTES, "a:%u", lane);
    }
    memset(pair->nonces[0], ++fresh, AUTH_NONCE_BYTES);
    memset(pair->nonces[1], ++fresh, AUTH_NONCE_BYTES);
    pair->nonces[0][0] = 0xd;
    pair->nonces[1][0] = 0xa;
    pair->expected_rank = 3;
    pair->keys[0] = pair->keys[1] = key_one;
}

static void pair_begin(struct pair *pair)
{
    auth_begin(&pair->dialler, true, pair->keys[0], &pair->identities[0], &pair->offers[0],
               pair->expected_rank, pair->nonces[0]);
    auth_begin(&pair->acceptor, false, pair->keys[1], &pair->identities[1], &pair->offers[1],
               ANY_RANK, pair->nonces[1]);
}

/* Moves what one has to say to the other, `step` bytes at a time; all of it may be kept in `copy`.
 */
static uint32_t move(struct auth *from, struct auth *to, uint32_t step, uint8_t *copy)
{
    const uint8_t *bytes;
    uint32_t moved = 0, count;

    while ((count = auth_output(from, &bytes)) > 0) {
        uint8_t piece[AUTH_MESSAGE_BYTES];

        count = count < step ? count : step;
        memcpy(piece, bytes, count);
        if (copy != NULL) {
            memcpy(copy + moved, piece, count);
        }
        auth_sent(from, count);
        (void)auth_input(to, piece, count);
        moved += count;
    }
    return moved;
}

static void run(struct pair *pair, uint32_t step)
{
    while (move(&pair->dialler, &pair->acceptor, step, NULL) +
               move(&pair->acceptor, &pair->dialler, step, NULL) >
           0) {
    }
}

static bool is_zero(const void *bytes, size_t count)
{
    const uint8_t *at = bytes;

    for (size_t n = 0; n < count; n++) {
        if (at[n] != 0) {
            return false;
        }
    }
    return true;
}

/* ---- it works ------------------------------------------------------------- */

static void check_done(const struct pair *pair)
{
    assert_int_equal(pair->dialler.state, AUTH_DONE);
    assert_int_equal(pair->acceptor.state, AUTH_DONE);
    assert_memory_equal(&pair->dialler.peer, &pair->identities[1], sizeof(struct auth_identity));
    assert_memory_equal(&pair->acceptor.peer, &pair->identities[0], sizeof(struct auth_identity));
    assert_memory_equal(&pair->dialler.offer, &pair->offers[1], sizeof(struct auth_offer));
    assert_memory_equal(&pair->acceptor.offer, &pair->offers[0], sizeof(struct auth_offer));
    assert_memory_equal(pair->dialler.session, pair->acceptor.session, AUTH_KEY_BYTES);
    assert_false(is_zero(pair->dialler.session, AUTH_KEY_BYTES));
    /* The cluster's key is not kept. */
    assert_true(is_zero(pair->dialler.key, AUTH_KEY_BYTES));
    assert_true(is_zero(pair->acceptor.key, AUTH_KEY_BYTES));
}

static void two_nodes_believe_each_other(void **state)
{
    (void)state;
    static const uint32_t steps[] = {AUTH_MESSAGE_BYTES, 1, 7, 63, 64, 65};

    for (size_t n = 0; n < sizeof(steps) / sizeof(steps[0]); n++) {
        struct pair pair;

        pair_default(&pair);
        pair_begin(&pair);
        run(&pair, steps[n]);
        check_done(&pair);
    }
}

static void any_lanes_are_offered(void **state)
{
    (void)state;
    for (uint32_t lanes = 1; lanes <= LIMIT_LANES; lanes *= 2) {
        struct pair pair;

        pair_default(&pair);
        pair.offers[0].lanes = lanes;
        pair.offers[1].lanes = LIMIT_LANES / lanes;
        memset(pair.offers[0].addresses, 0, sizeof(pair.offers[0].addresses));
        memset(pair.offers[1].addresses, 0, sizeof(pair.offers[1].addresses));
        pair_begin(&pair);
        run(&pair, AUTH_MESSAGE_BYTES);
        check_done(&pair);
    }
}

static void sessions_are_fresh(void **state)
{
    (void)state;
    struct pair one, two;

    pair_default(&one);
    pair_begin(&one);
    run(&one, AUTH_MESSAGE_BYTES);
    pair_default(&two);
    memcpy(two.nonces[0], one.nonces[0], AUTH_NONCE_BYTES); /* one side's nonce is enough */
    pair_begin(&two);
    run(&two, AUTH_MESSAGE_BYTES);
    assert_memory_not_equal(one.dialler.session, two.dialler.session, AUTH_KEY_BYTES);
}

/* What follows the handshake in the same bytes is left to who comes next. */
static void what_follows_is_not_taken(void **state)
{
    (void)state;
    struct pair pair;
    uint8_t stream[2 * AUTH_MESSAGE_BYTES];
    const uint8_t *bytes;
    uint32_t count;

    pair_default(&pair);
    pair_begin(&pair);
    move(&pair.dialler, &pair.acceptor, AUTH_MESSAGE_BYTES, NULL);
    move(&pair.acceptor, &pair.dialler, AUTH_MESSAGE_BYTES, NULL);
    count = auth_output(&pair.dialler, &bytes); /* proof and offer */
    assert_int_equal(count, PROOF_BYTES + OFFER_BYTES(2));
    memcpy(stream, bytes, count);
    memset(stream + count, 0x77, 100);
    assert_int_equal(auth_input(&pair.acceptor, stream, count + 100), count);
    assert_int_equal(pair.acceptor.state, AUTH_DONE);
    assert_int_equal(auth_input(&pair.acceptor, stream + count, 100), 0);
    count = auth_output(&pair.acceptor, &bytes);
    memcpy(stream, bytes, count);
    count += auth_seal(&pair.acceptor, AUTH_PING, 0, stream + count);
    assert_int_equal(auth_input(&pair.dialler, stream, count), count - auth_sealed_bytes());
    assert_int_equal(pair.dialler.state, AUTH_DONE);
}

/* ---- who is refused ------------------------------------------------------- */

static void check_refused(const struct pair *pair, nigh_status status, const char *dialler,
                          const char *acceptor)
{
    assert_int_equal(pair->dialler.state, AUTH_REFUSED);
    assert_int_equal(pair->dialler.status, status);
    assert_string_equal(pair->dialler.why, dialler);
    assert_int_equal(pair->acceptor.state, AUTH_REFUSED);
    assert_int_equal(pair->acceptor.status, status);
    assert_string_equal(pair->acceptor.why, acceptor);
    assert_true(is_zero(pair->dialler.session, AUTH_KEY_BYTES));
    assert_true(is_zero(pair->acceptor.session, AUTH_KEY_BYTES));
}

#define OTHER_KEY "the other node has another cluster key"
#define OLD_PROOF "the other node repeats an old handshake, or has no key"
#define OTHER_LIST                                                                       \
    "the other node has another list of members, or one has --state and the other not; " \
    "start all nodes with the same"
#define OTHER_RANK "the other node has a rank that is not its own; give each node its own --member"
#define NO_VERSION "the other node speaks no common version of the protocol"
#define OTHER_DIRECTORY                                                                         \
    "the other node has another --directory, or one has it and the other not; start all nodes " \
    "with the same"
#define NO_LIFE "the other node has no incarnation"

static void another_key_is_refused(void **state)
{
    (void)state;
    struct pair pair;

    for (uint32_t side = 0; side < 2; side++) {
        pair_default(&pair);
        pair.keys[side] = key_two;
        pair_begin(&pair);
        run(&pair, 13);
        check_refused(&pair, NIGH_DENIED, OTHER_KEY, OTHER_KEY);
    }
}

/* A dialler without the key that goes on in spite of it. */
static void a_dialler_must_prove_itself(void **state)
{
    (void)state;
    struct pair pair;
    uint8_t proof[PROOF_BYTES] = {'N', 'G', 'H', 'A', PROOF, 0, PROOF_BYTES, 0};

    pair_default(&pair);
    pair_begin(&pair);
    move(&pair.dialler, &pair.acceptor, AUTH_MESSAGE_BYTES, NULL);
    assert_int_equal(auth_input(&pair.acceptor, proof, sizeof(proof)), sizeof(proof));
    assert_int_equal(pair.acceptor.state, AUTH_REFUSED);
    assert_int_equal(pair.acceptor.status, NIGH_DENIED);
    assert_string_equal(pair.acceptor.why, OLD_PROOF);
}

static void other_members_are_refused(void **state)
{
    (void)state;
    struct pair pair;

    pair_default(&pair);
    pair.identities[0].epoch++;
    pair_begin(&pair);
    run(&pair, AUTH_MESSAGE_BYTES);
    check_refused(&pair, NIGH_INVALID, OTHER_LIST, OTHER_LIST);
}

/* Of another server, or of none: both sides hear it, whoever dials. */
static void another_directory_is_refused(void **state)
{
    (void)state;
    struct pair pair;

    for (uint32_t n = 0; n < 4; n++) {
        pair_default(&pair);
        pair.offers[n / 2].directory = n % 2 == 0 ? 0 : 6;
        pair_begin(&pair);
        run(&pair, AUTH_MESSAGE_BYTES);
        check_refused(&pair, NIGH_NOT_FOUND, OTHER_DIRECTORY, OTHER_DIRECTORY);
        assert_true(is_zero(&pair.acceptor.offer, sizeof(pair.acceptor.offer)));
    }
}

/* One that joins has no list and no rank; nobody is asked to join. */
static void who_joins_is_believed_without_a_list(void **state)
{
    (void)state;
    struct pair pair;

    pair_default(&pair);
    pair.identities[0].rank = AUTH_JOINER;
    pair.identities[0].epoch = 0;
    pair.expected_rank = UINT32_MAX;
    snprintf(pair.offers[0].member, sizeof(pair.offers[0].member), "10.0.0.9:7470");
    pair_begin(&pair);
    run(&pair, AUTH_MESSAGE_BYTES);
    check_done(&pair);
    assert_string_equal(pair.acceptor.offer.member, "10.0.0.9:7470");
    pair_default(&pair);
    pair.identities[1].rank = AUTH_JOINER;
    pair.expected_rank = UINT32_MAX;
    pair_begin(&pair);
    run(&pair, AUTH_MESSAGE_BYTES);
    assert_int_equal(pair.dialler.state, AUTH_REFUSED);
    pair_default(&pair);
    pair.identities[0].rank = pair.identities[1].rank = AUTH_JOINER;
    pair.expected_rank = UINT32_MAX;
    pair_begin(&pair);
    run(&pair, AUTH_MESSAGE_BYTES);
    assert_int_equal(pair.acceptor.state, AUTH_REFUSED);
}

static void wrong_ranks_are_refused(void **state)
{
    (void)state;
    struct pair pair;

    /* Ours; none; not who was dialled; no incarnation. The other side hears INVALID. */
    for (uint32_t n = 0; n < 4; n++) {
        pair_default(&pair);
        pair.identities[0].rank = n == 0 ? 3 : n == 1 ? LIMIT_NODES : 7;
        pair.expected_rank = n == 2 ? 4 : 3;
        pair.identities[0].incarnation = n == 3 ? 0 : 70;
        pair_begin(&pair);
        run(&pair, AUTH_MESSAGE_BYTES);
        if (n == 2) {
            check_refused(&pair, NIGH_INVALID, OTHER_RANK, OTHER_LIST);
        } else {
            check_refused(&pair, NIGH_INVALID, OTHER_LIST, n == 3 ? NO_LIFE : OTHER_RANK);
        }
    }
}

static void other_versions_are_refused(void **state)
{
    (void)state;
    /* min, max, whether there is one in common */
    static const uint16_t ranges[][3] = {{0, 0, 0},
                                         {AUTH_VERSION_MIN - 1, AUTH_VERSION_MIN - 1, 0},
                                         {AUTH_VERSION_MAX + 1, AUTH_VERSION_MAX + 1, 0},
                                         {AUTH_VERSION_MAX + 1, AUTH_VERSION_MAX, 0},
                                         {AUTH_VERSION_MIN, AUTH_VERSION_MIN - 1, 0}};
    struct pair pair;

    for (size_t n = 0; n < sizeof(ranges) / sizeof(ranges[0]); n++) {
        uint8_t hello[HELLO_BYTES];
        const uint8_t *bytes;

        pair_default(&pair);
        pair_begin(&pair);
        assert_int_equal(auth_output(&pair.dialler, &bytes), sizeof(hello));
        memcpy(hello, bytes, sizeof(hello));
        auth_sent(&pair.dialler, sizeof(hello));
        memcpy(hello + 8, ranges[n], 4);
        auth_input(&pair.acceptor, hello, sizeof(hello));
        run(&pair, AUTH_MESSAGE_BYTES);
        check_refused(&pair, NIGH_VERSION, NO_VERSION, NO_VERSION);
    }
}

/* A dialler that speaks later versions too is answered in ours; an acceptor that answers in one
 * that we do not speak is refused. */
static void the_common_version_is_spoken(void **state)
{
    (void)state;
    struct pair pair;
    uint8_t message[AUTH_MESSAGE_BYTES];
    const uint8_t *bytes;
    uint32_t count;
    uint16_t later = AUTH_VERSION_MAX + 1, version;

    pair_default(&pair);
    pair_begin(&pair);
    count = auth_output(&pair.dialler, &bytes);
    memcpy(message, bytes, count);
    auth_sent(&pair.dialler, count);
    memcpy(message + 10, &later, sizeof(later));
    auth_input(&pair.acceptor, message, count);
    count = auth_output(&pair.acceptor, &bytes);
    assert_int_equal(count, CHALLENGE_BYTES);
    memcpy(message, bytes, count);
    memcpy(&version, message + 8, sizeof(version));
    assert_int_equal(version, AUTH_VERSION_MAX);
    memcpy(message + 8, &later, sizeof(later));
    auth_input(&pair.dialler, message, count);
    assert_int_equal(pair.dialler.state, AUTH_REFUSED);
    assert_int_equal(pair.dialler.status, NIGH_VERSION);
}

/* A node that speaks a version less says so in its HELLO. */
static void speak_at_most(struct auth *dialler, uint16_t version)
{
    memcpy(dialler->out + 10, &version, sizeof(version));
    memcpy(dialler->transcript + 10, &version, sizeof(version));
}

/* Who speaks a version that knows nothing of spaces is told nothing of them, and not believed in
 * it; else both are. */
static void spaces_are_offered_to_who_knows_them(void **state)
{
    (void)state;
    for (uint16_t version = AUTH_VERSION_MIN; version <= AUTH_VERSION_MAX; version++) {
        for (uint32_t wanted = 0; wanted < 4; wanted++) {
            struct pair pair;
            bool knows = version >= AUTH_VERSION_SPACES;

            pair_default(&pair);
            pair.offers[0].space_endpoints = wanted % 2;
            pair.offers[1].space_endpoints = wanted / 2;
            pair_begin(&pair);
            speak_at_most(&pair.dialler, version);
            run(&pair, AUTH_MESSAGE_BYTES);
            if (!knows) {
                pair.offers[0].space_endpoints = pair.offers[1].space_endpoints = 0;
            }
            check_done(&pair);
            assert_int_equal(pair.dialler.version, version);
            assert_int_equal(pair.acceptor.version, version);
            assert_int_equal(pair.acceptor.offer.space_endpoints, knows ? wanted % 2 : 0);
            assert_int_equal(pair.dialler.offer.space_endpoints, knows ? wanted / 2 : 0);
            assert_int_equal(pair.acceptor.in[OFFER_SPACES], knows ? wanted % 2 : 0);
        }
    }
}

static void more_than_one_endpoint_for_spaces_is_nonsense(void **state)
{
    (void)state;
    struct pair pair;

    pair_default(&pair);
    pair.offers[0].space_endpoints = 2;
    pair_begin(&pair);
    run(&pair, AUTH_MESSAGE_BYTES);
    assert_int_equal(pair.acceptor.state, AUTH_REFUSED);
    assert_int_equal(pair.acceptor.status, NIGH_PROTOCOL);
}

/* ---- attackers without the key -------------------------------------------- */

/* All bytes of a handshake, by side. */
static uint32_t record(struct pair *pair, uint8_t of_dialler[AUTH_MESSAGE_BYTES],
                       uint8_t of_acceptor[AUTH_MESSAGE_BYTES], uint32_t *acceptor_bytes)
{
    uint32_t dialler_bytes;

    pair_default(pair);
    pair_begin(pair);
    dialler_bytes = move(&pair->dialler, &pair->acceptor, AUTH_MESSAGE_BYTES, of_dialler);
    *acceptor_bytes = move(&pair->acceptor, &pair->dialler, AUTH_MESSAGE_BYTES, of_acceptor);
    dialler_bytes +=
        move(&pair->dialler, &pair->acceptor, AUTH_MESSAGE_BYTES, of_dialler + dialler_bytes);
    *acceptor_bytes +=
        move(&pair->acceptor, &pair->dialler, AUTH_MESSAGE_BYTES, of_acceptor + *acceptor_bytes);
    check_done(pair);
    return dialler_bytes;
}

static void a_replay_is_refused(void **state)
{
    (void)state;
    static uint8_t of_dialler[AUTH_MESSAGE_BYTES], of_acceptor[AUTH_MESSAGE_BYTES];
    struct pair recorded, pair;
    uint32_t acceptor_bytes, dialler_bytes;

    dialler_bytes = record(&recorded, of_dialler, of_acceptor, &acceptor_bytes);
    /* Everything the dialler said, to the acceptor, which has another nonce now. */
    pair_default(&pair);
    pair_begin(&pair);
    auth_input(&pair.acceptor, of_dialler, dialler_bytes);
    assert_int_equal(pair.acceptor.state, AUTH_REFUSED);
    assert_int_equal(pair.acceptor.status, NIGH_DENIED);
    assert_string_equal(pair.acceptor.why, OLD_PROOF);
    /* And the other way. */
    auth_input(&pair.dialler, of_acceptor, acceptor_bytes);
    assert_int_equal(pair.dialler.state, AUTH_REFUSED);
    assert_int_equal(pair.dialler.status, NIGH_DENIED);
}

/* Every bit of every byte of either side's messages. Nobody may end in belief of a peer whose
 * messages were changed; the side that made the change undone may be done before it is seen. */
static void every_changed_byte_is_refused(void **state)
{
    (void)state;
    static uint8_t of_dialler[AUTH_MESSAGE_BYTES], of_acceptor[AUTH_MESSAGE_BYTES];
    struct pair pair;
    uint32_t totals[2], at = 0;

    totals[0] = record(&pair, of_dialler, of_acceptor, &totals[1]);
    for (uint32_t side = 0; side < 2; side++) {
        for (at = 0; at < totals[side] * 2; at++) {
            uint32_t said[2] = {0, 0};
            bool moved = true;

            pair_default(&pair);
            pair_begin(&pair);
            while (moved) {
                moved = false;
                for (uint32_t from = 0; from < 2; from++) {
                    struct auth *speaker = from == 0 ? &pair.dialler : &pair.acceptor;
                    struct auth *listener = from == 0 ? &pair.acceptor : &pair.dialler;
                    uint8_t copy[AUTH_MESSAGE_BYTES];
                    const uint8_t *bytes;
                    uint32_t count = auth_output(speaker, &bytes);

                    memcpy(copy, bytes, count);
                    auth_sent(speaker, count);
                    if (from == side && at / 2 >= said[from] && at / 2 < said[from] + count) {
                        copy[at / 2 - said[from]] ^= at % 2 == 0 ? 1 : 0x80;
                    }
                    said[from] += count;
                    auth_input(listener, copy, count);
                    moved = moved || count > 0;
                }
            }
            /* The listener of the changed bytes never believes, whatever changed: a longer length
             * leaves it waiting for more. */
            if ((side == 0 ? pair.acceptor.state : pair.dialler.state) == AUTH_DONE) {
                fail_msg("byte %u of side %u was changed, and believed", at / 2, side);
            }
        }
    }
}

/* A peer without the key says to us what we said. */
static void reflection_is_refused(void **state)
{
    (void)state;
    struct pair pair;
    struct auth other;
    uint8_t message[AUTH_MESSAGE_BYTES];
    const uint8_t *bytes;
    uint32_t count;

    /* Our HELLO back to us as the dialler. */
    pair_default(&pair);
    pair_begin(&pair);
    count = auth_output(&pair.dialler, &bytes);
    memcpy(message, bytes, count);
    auth_input(&pair.dialler, message, count);
    assert_int_equal(pair.dialler.state, AUTH_REFUSED);
    assert_int_equal(pair.dialler.status, NIGH_PROTOCOL);

    /* Our HELLO to our own acceptor (rank 7's, to get an answer for our dial): our own rank. */
    auth_begin(&other, false, key_one, &pair.identities[0], &pair.offers[0], ANY_RANK,
               pair.nonces[1]);
    auth_input(&other, message, count);
    assert_int_equal(other.state, AUTH_REFUSED);
    assert_int_equal(other.status, NIGH_INVALID);

    /* With the rank changed there: it answers, for another transcript than our dial's. */
    auth_begin(&other, false, key_one, &pair.identities[0], &pair.offers[0], ANY_RANK,
               pair.nonces[1]);
    message[12] = 3;
    auth_input(&other, message, count);
    assert_int_equal(other.state, AUTH_WAITS);
    pair_begin(&pair);
    count = auth_output(&other, &bytes);
    memcpy(message, bytes, count);
    auth_input(&pair.dialler, message, count);
    assert_int_equal(pair.dialler.state, AUTH_REFUSED);
    message[12] = 3; /* nor as rank 3's */
    pair_begin(&pair);
    auth_input(&pair.dialler, message, count);
    assert_int_equal(pair.dialler.state, AUTH_REFUSED);
    assert_int_equal(pair.dialler.status, NIGH_DENIED);

    /* The acceptor's proof as the dialler's. */
    pair_begin(&pair);
    move(&pair.dialler, &pair.acceptor, AUTH_MESSAGE_BYTES, NULL);
    count = auth_output(&pair.acceptor, &bytes);
    memcpy(message, (uint8_t[]){'N', 'G', 'H', 'A', PROOF, 0, PROOF_BYTES, 0}, 8);
    memcpy(message + 8, bytes + CHALLENGE_BYTES - AUTH_PROOF_BYTES, AUTH_PROOF_BYTES);
    auth_input(&pair.acceptor, message, PROOF_BYTES);
    assert_int_equal(pair.acceptor.state, AUTH_REFUSED);
    assert_int_equal(pair.acceptor.status, NIGH_DENIED);
}

/* The offer of the dialler is none of the acceptor. */
static void an_offer_is_not_reflected(void **state)
{
    (void)state;
    struct pair pair;
    uint8_t message[AUTH_MESSAGE_BYTES];
    const uint8_t *bytes;
    uint32_t count;

    pair_default(&pair);
    pair_begin(&pair);
    move(&pair.dialler, &pair.acceptor, AUTH_MESSAGE_BYTES, NULL);
    move(&pair.acceptor, &pair.dialler, AUTH_MESSAGE_BYTES, NULL);
    count = auth_output(&pair.dialler, &bytes);
    memcpy(message, bytes + PROOF_BYTES, count - PROOF_BYTES);
    auth_input(&pair.dialler, message, count - PROOF_BYTES);
    assert_int_equal(pair.dialler.state, AUTH_REFUSED);
    assert_int_equal(pair.dialler.status, NIGH_DENIED);
}

/* Before the acceptor is believed, what a dialler says does not depend on the key; and the
 * acceptor says of it only its proof. */
static void nothing_of_the_key_shows_before_the_proof(void **state)
{
    (void)state;
    struct pair one, two;
    const uint8_t *a, *b;

    pair_default(&one);
    memcpy(&two, &one, sizeof(two));
    two.keys[0] = two.keys[1] = key_two;
    pair_begin(&one);
    pair_begin(&two);
    assert_int_equal(auth_output(&one.dialler, &a), HELLO_BYTES);
    assert_int_equal(auth_output(&two.dialler, &b), HELLO_BYTES);
    assert_memory_equal(a, b, HELLO_BYTES);
    move(&one.dialler, &one.acceptor, AUTH_MESSAGE_BYTES, NULL);
    move(&two.dialler, &two.acceptor, AUTH_MESSAGE_BYTES, NULL);
    assert_int_equal(auth_output(&one.acceptor, &a), CHALLENGE_BYTES);
    assert_int_equal(auth_output(&two.acceptor, &b), CHALLENGE_BYTES);
    assert_memory_equal(a, b, CHALLENGE_BYTES - AUTH_PROOF_BYTES);
    assert_memory_not_equal(a + CHALLENGE_BYTES - AUTH_PROOF_BYTES,
                            b + CHALLENGE_BYTES - AUTH_PROOF_BYTES, AUTH_PROOF_BYTES);
    /* No offer (lanes, addresses) is said to one that is not believed. */
    assert_true(is_zero(&one.acceptor.offer, sizeof(one.acceptor.offer)));
}

/* Messages that may not come now, of lengths that they do not have. */
static void nonsense_is_refused(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < 8; kind++) {
        for (uint32_t bytes = 0; bytes < 65536; bytes = bytes < 128 ? bytes + 1 : bytes * 2 + 1) {
            for (uint32_t dials = 0; dials < 2; dials++) {
                struct pair pair;
                struct auth *auth;
                uint8_t message[128] = {'N', 'G', 'H', 'A', (uint8_t)kind};
                bool right = dials == 0 ? kind == HELLO && bytes == HELLO_BYTES
                                        : (kind == CHALLENGE && bytes == CHALLENGE_BYTES) ||
                                              (kind == REFUSE && bytes == 16);

                message[6] = (uint8_t)bytes;
                message[7] = (uint8_t)(bytes >> 8);
                pair_default(&pair);
                pair_begin(&pair);
                auth = dials != 0 ? &pair.dialler : &pair.acceptor;
                auth_input(auth, message, 8);
                assert_int_equal(auth->state, right ? AUTH_WAITS : AUTH_REFUSED);
                assert_true(right || auth->status == NIGH_PROTOCOL);
            }
        }
    }
}

/* Whatever status a refusal carries, the handshake is refused, with one of ours. */
static void any_refusal_refuses(void **state)
{
    (void)state;
    for (int32_t status = -300; status < 300; status++) {
        struct pair pair;
        uint8_t message[16] = {'N', 'G', 'H', 'A', REFUSE, 0, 16, 0};

        memcpy(message + 8, &status, sizeof(status));
        pair_default(&pair);
        pair_begin(&pair);
        auth_input(&pair.dialler, message, sizeof(message));
        assert_int_equal(pair.dialler.state, AUTH_REFUSED);
        assert_true(pair.dialler.status == NIGH_VERSION || pair.dialler.status == NIGH_DENIED ||
                    pair.dialler.status == NIGH_INVALID || pair.dialler.status == NIGH_NOT_FOUND ||
                    pair.dialler.status == NIGH_PROTOCOL);
        assert_true(pair.dialler.why[0] != '\0');
    }
}

/* ---- messages ------------------------------------------------------------- */

static void messages_are_authentic_and_in_order(void **state)
{
    (void)state;
    struct pair pair, other;
    uint8_t message[64], changed[64];
    enum auth_message what = AUTH_BYE;

    pair_default(&pair);
    pair_begin(&pair);
    run(&pair, AUTH_MESSAGE_BYTES);
    pair_default(&other);
    pair_begin(&other);
    run(&other, AUTH_MESSAGE_BYTES);

    for (uint64_t sequence = 0; sequence < 3; sequence++) {
        for (int said = AUTH_PING; said <= AUTH_STRUCK; said++) {
            assert_int_equal(auth_seal(&pair.dialler, (enum auth_message)said, sequence, message),
                             auth_sealed_bytes());
            assert_int_equal(auth_open(&pair.acceptor, message, sequence, &what), NIGH_OK);
            assert_int_equal(what, said);
            /* Again, too early, back to who said it, in another session. */
            assert_int_equal(auth_open(&pair.acceptor, message, sequence + 1, &what),
                             NIGH_PROTOCOL);
            assert_int_equal(auth_open(&pair.acceptor, message, sequence - 1, &what),
                             NIGH_PROTOCOL);
            assert_int_equal(auth_open(&pair.dialler, message, sequence, &what), NIGH_PROTOCOL);
            assert_int_equal(auth_open(&other.acceptor, message, sequence, &what), NIGH_PROTOCOL);
            for (uint32_t at = 0; at < auth_sealed_bytes() * 8; at++) {
                memcpy(changed, message, sizeof(changed));
                changed[at / 8] ^= (uint8_t)(1 << at % 8);
                what = (enum auth_message)42;
                assert_int_equal(auth_open(&pair.acceptor, changed, sequence, &what),
                                 NIGH_PROTOCOL);
                assert_int_equal(what, 42);
            }
        }
        /* Authentic, and not known. */
        auth_seal(&pair.dialler, (enum auth_message)(AUTH_STRUCK + 1), sequence, message);
        assert_int_equal(auth_open(&pair.acceptor, message, sequence, &what), NIGH_PROTOCOL);
        auth_seal(&pair.dialler, (enum auth_message)0, sequence, message);
        assert_int_equal(auth_open(&pair.acceptor, message, sequence, &what), NIGH_PROTOCOL);
    }
}

static void tokens_are_authentic(void **state)
{
    (void)state;
    struct auth_token token = {
        .kind = 1, .rank = 7, .rail = 2, .incarnation = 70, .target_incarnation = 30, .serial = 5};

    auth_token_sign(&token, key_one);
    assert_true(auth_token_check(&token, key_one));
    assert_false(auth_token_check(&token, key_two));
    for (uint32_t at = 0; at < sizeof(token) * 8; at++) {
        struct auth_token changed = token;

        ((uint8_t *)&changed)[at / 8] ^= (uint8_t)(1 << at % 8);
        assert_false(auth_token_check(&changed, key_one));
    }
}

/* ---- keys ----------------------------------------------------------------- */

static void keys_are_read(void **state)
{
    (void)state;
    uint8_t key[AUTH_KEY_BYTES], raw[AUTH_KEY_BYTES];
    char why[AUTH_WHY_BYTES] = "";
    char text[200] = "";

    for (uint32_t n = 0; n < AUTH_KEY_BYTES; n++) {
        sprintf(text + 2 * n, n % 2 == 0 ? "%02x" : "%02X", 0xf0 - 7 * n % 0xf0);
        raw[n] = (uint8_t)(0xf0 - 7 * n % 0xf0);
    }
    assert_int_equal(auth_key_parse((uint8_t *)text, 64, key, why, sizeof(why)), NIGH_OK);
    assert_memory_equal(key, raw, sizeof(raw));
    memset(key, 0, sizeof(key));
    strcat(text, "\n");
    assert_int_equal(auth_key_parse((uint8_t *)text, 65, key, why, sizeof(why)), NIGH_OK);
    assert_memory_equal(key, raw, sizeof(raw));
    assert_int_equal(auth_key_parse(raw, 32, key, why, sizeof(why)), NIGH_OK);
    assert_memory_equal(key, raw, sizeof(raw));
}

static void wrong_keys_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "ab",
        "not a key",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdeg"};
    uint8_t key[AUTH_KEY_BYTES] = {9};

    for (size_t n = 0; n < sizeof(wrong) / sizeof(wrong[0]); n++) {
        char why[AUTH_WHY_BYTES] = "";

        assert_int_equal(
            auth_key_parse((const uint8_t *)wrong[n], strlen(wrong[n]), key, why, sizeof(why)),
            NIGH_INVALID);
        assert_non_null(strstr(why, "a cluster key is 64 hexadecimal digits"));
        assert_int_equal(key[0], 9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_nodes_believe_each_other),
        cmocka_unit_test(any_lanes_are_offered),
        cmocka_unit_test(sessions_are_fresh),
        cmocka_unit_test(what_follows_is_not_taken),
        cmocka_unit_test(another_key_is_refused),
        cmocka_unit_test(a_dialler_must_prove_itself),
        cmocka_unit_test(other_members_are_refused),
        cmocka_unit_test(another_directory_is_refused),
        cmocka_unit_test(who_joins_is_believed_without_a_list),
        cmocka_unit_test(wrong_ranks_are_refused),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(the_common_version_is_spoken),
        cmocka_unit_test(spaces_are_offered_to_who_knows_them),
        cmocka_unit_test(more_than_one_endpoint_for_spaces_is_nonsense),
        cmocka_unit_test(a_replay_is_refused),
        cmocka_unit_test(every_changed_byte_is_refused),
        cmocka_unit_test(reflection_is_refused),
        cmocka_unit_test(an_offer_is_not_reflected),
        cmocka_unit_test(nothing_of_the_key_shows_before_the_proof),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(any_refusal_refuses),
        cmocka_unit_test(messages_are_authentic_and_in_order),
        cmocka_unit_test(tokens_are_authentic),
        cmocka_unit_test(keys_are_read),
        cmocka_unit_test(wrong_keys_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
