/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes on a control connection, as the acceptor and as the dialler of a handshake, in pieces
 * of any length; and what comes after it. The fuzzer knows the key that it may use: it can have the
 * proofs of whatever it says put in, and so gets behind each of them.
 *
 * Input: the role, then commands: raw bytes, or a message whose proof is made right by a peer that
 * is the production code as well, changed here and there.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/auth.h"
#include "fuzz_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static const uint8_t key[AUTH_KEY_BYTES] = {1};

static struct auth_offer offer_of(uint32_t lanes)
{
    struct auth_offer offer = {.lanes = lanes};

    for (uint32_t lane = 0; lane < lanes; lane++) {
        memcpy(offer.addresses[lane], "host:1", 7);
    }
    return offer;
}

/* Whoever is believed has told what a node may tell. */
static void check(const struct auth *auth)
{
    const uint8_t *bytes;

    NIGH_ASSERT(auth->in_bytes <= sizeof(auth->in));
    NIGH_ASSERT(auth_output(auth, &bytes) <= AUTH_MESSAGE_BYTES);
    NIGH_ASSERT(auth->state != AUTH_REFUSED || (auth->status != NIGH_OK && auth->why[0] != '\0'));
    if (auth->state != AUTH_DONE) {
        return;
    }
    NIGH_ASSERT(is_pow2(auth->offer.lanes) && auth->offer.lanes <= LIMIT_LANES);
    NIGH_ASSERT(auth->peer.rank != auth->self.rank && auth->peer.rank < LIMIT_NODES);
    NIGH_ASSERT(auth->peer.incarnation != 0 && auth->peer.epoch == auth->self.epoch);
    NIGH_ASSERT(auth->offer.directory == auth->own.directory);
    for (uint32_t lane = 0; lane < auth->offer.lanes; lane++) {
        NIGH_ASSERT(memchr(auth->offer.addresses[lane], '\0', AUTH_ADDRESS_BYTES) != NULL);
    }
}

/* Hands over bytes of their own length, so that a sanitizer sees one that is read behind them. */
static uint32_t feed(struct auth *auth, const uint8_t *bytes, uint32_t count)
{
    uint8_t *copy = malloc(count);
    uint32_t taken;

    NIGH_ASSERT(copy != NULL || count == 0);
    if (count > 0) {
        memcpy(copy, bytes, count);
    }
    taken = auth_input(auth, copy, count);
    NIGH_ASSERT(taken <= count && (taken == count || auth->state != AUTH_WAITS));
    free(copy);
    check(auth);
    return taken;
}

static void feed_raw(struct auth *auth, struct fuzz_input *input)
{
    uint32_t count = fuzz_byte(input);

    if (count > input->left) {
        count = (uint32_t)input->left;
    }
    feed(auth, input->bytes, count);
    input->bytes += count;
    input->left -= count;
}

/* What one end has to say, to the other; perhaps changed, perhaps in two pieces. */
static void carry(struct auth *from, struct auth *to, struct fuzz_input *input)
{
    uint8_t message[AUTH_MESSAGE_BYTES];
    const uint8_t *bytes;
    uint32_t count = auth_output(from, &bytes), split;
    uint8_t how = fuzz_byte(input);

    if (count == 0) {
        return;
    }
    memcpy(message, bytes, count);
    auth_sent(from, count);
    if (how % 2 == 1) {
        fuzz_patch(input, message, count);
    }
    split = how / 2 % count;
    if (feed(to, message, split) == split) {
        feed(to, message + split, count - split);
    }
}

static void open_any(struct auth *auth, struct auth *peer, struct fuzz_input *input)
{
    uint8_t message[64];
    enum auth_message what;

    auth_seal(peer, (enum auth_message)(fuzz_byte(input) % 6), fuzz_byte(input) % 4, message);
    if (fuzz_byte(input) % 2 == 1) {
        fuzz_patch(input, message, auth_sealed_bytes());
    }
    if (auth_open(auth, message, fuzz_byte(input) % 4, &what) == NIGH_OK) {
        NIGH_ASSERT(what >= AUTH_PING && what <= AUTH_STRUCK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static struct auth ends[2]; /* the dialler, the acceptor */
    struct fuzz_input input = {.bytes = data, .left = size_bytes};
    struct auth_identity identities[2] = {{.rank = 1, .incarnation = 1, .epoch = 5},
                                          {.rank = 2, .incarnation = 1, .epoch = 5}};
    uint8_t how = fuzz_byte(&input);
    struct auth_offer offers[2] = {offer_of(1u << how % 7), offer_of(2)};
    uint8_t nonces[2][AUTH_NONCE_BYTES] = {{1}, {2}};

    offers[0].directory = how / 7 % 8 == 7;
    for (uint32_t n = 0; n < 2; n++) {
        auth_begin(&ends[n], n == 0, key, &identities[n], &offers[n], n == 0 ? 2 : UINT32_MAX,
                   nonces[n]);
    }
    for (uint32_t steps = 0; input.left > 0 && steps < 64; steps++) {
        uint8_t command = fuzz_byte(&input);
        struct auth *one = &ends[command / 16 % 2], *other = &ends[1 - command / 16 % 2];

        switch (command % 4) {
        case 0: feed_raw(one, &input); break;
        case 1:
        case 2: carry(one, other, &input); break;
        default: open_any(one, other, &input); break;
        }
    }
    return 0;
}
