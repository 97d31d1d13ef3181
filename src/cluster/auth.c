/* SPDX-License-Identifier: Apache-2.0 */
/* See auth.h. Proofs are BLAKE2b keyed with the cluster's key or the session's (libsodium). */
#include "cluster/auth.h"

#include <ctype.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

#define AUTH_MAGIC       UINT32_C(0x4148474e) /* "NGHA" */
#define AUTH_TOKEN_MAGIC UINT32_C(0x5448474e) /* "NGHT" */

#define AUTH_OTHER_DIRECTORY                                                                    \
    "the other node has another --directory, or one has it and the other not; start all nodes " \
    "with the same"

enum auth_kind {
    KIND_HELLO = 1,
    KIND_CHALLENGE = 2,
    KIND_PROOF = 3,
    KIND_OFFER = 4,
    KIND_REFUSE = 5
};

/* Every message begins with it; bytes is the length of all of it. */
struct head {
    uint32_t magic;
    uint16_t kind;
    uint16_t bytes;
};

struct hello {
    struct head head;
    uint16_t version_min;
    uint16_t version_max;
    uint32_t rank;
    uint32_t incarnation;
    uint32_t life;
    uint64_t epoch;
    uint8_t nonce[AUTH_NONCE_BYTES];
};

_Static_assert(sizeof(struct hello) == 64, "hello is on the wire");

struct challenge {
    struct head head;
    uint16_t version;
    uint16_t reserved;
    uint32_t rank;
    uint32_t incarnation;
    uint32_t life;
    uint64_t epoch;
    uint8_t nonce[AUTH_NONCE_BYTES];
    uint8_t proof[AUTH_PROOF_BYTES];
};

_Static_assert(sizeof(struct challenge) == 96, "challenge is on the wire");

struct proof {
    struct head head;
    uint8_t proof[AUTH_PROOF_BYTES];
};

_Static_assert(sizeof(struct proof) == 40, "proof is on the wire");

struct offer {
    struct head head;
    uint32_t lanes;
    uint32_t bulk_endpoints;
    uint32_t region_endpoints;
    uint32_t space_endpoints; /* before AUTH_VERSION_SPACES: 0, and not looked at */
    uint64_t directory;
    char member[AUTH_ADDRESS_BYTES];
    /* lanes addresses, then a proof by the session's key */
};

_Static_assert(sizeof(struct offer) == 112, "offer is on the wire");
_Static_assert(sizeof(struct offer) + LIMIT_LANES * AUTH_ADDRESS_BYTES + AUTH_PROOF_BYTES +
                       sizeof(struct proof) <=
                   AUTH_MESSAGE_BYTES,
               "the longest that is said at once");

struct refuse {
    struct head head;
    int32_t status;
    uint16_t version_min;
    uint16_t version_max;
};

_Static_assert(sizeof(struct refuse) == 16, "refuse is on the wire");

/* What is expected next. */
enum auth_step {
    STEP_HELLO = 0,     /* acceptor */
    STEP_CHALLENGE = 1, /* dialler */
    STEP_PROOF = 2,     /* acceptor */
    STEP_OFFER = 3,     /* both */
    STEP_END = 4
};

/* ---- proofs --------------------------------------------------------------- */

/* A keyed digest of a label and up to two pieces. */
static void digest(uint8_t *out, size_t out_bytes, const uint8_t key[AUTH_KEY_BYTES],
                   const char *label, const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    crypto_generichash_state state;

    crypto_generichash_init(&state, key, AUTH_KEY_BYTES, out_bytes);
    crypto_generichash_update(&state, (const uint8_t *)label, strlen(label) + 1);
    crypto_generichash_update(&state, a, a_bytes);
    crypto_generichash_update(&state, b, b_bytes);
    crypto_generichash_final(&state, out, out_bytes);
}

static void remember(struct auth *auth, const void *bytes, uint32_t count)
{
    NIGH_ASSERT(auth->transcript_bytes + count <= sizeof(auth->transcript));
    memcpy(auth->transcript + auth->transcript_bytes, bytes, count);
    auth->transcript_bytes += count;
}

static void derive_session(struct auth *auth)
{
    digest(auth->session, sizeof(auth->session), auth->key, "nigh session", auth->transcript,
           auth->transcript_bytes, NULL, 0);
}

static const char *offer_label(bool dialler)
{
    return dialler ? "nigh offer of the dialler" : "nigh offer of the acceptor";
}

/* ---- sending -------------------------------------------------------------- */

static struct head head_of(enum auth_kind kind, uint32_t bytes)
{
    return (struct head){.magic = AUTH_MAGIC, .kind = (uint16_t)kind, .bytes = (uint16_t)bytes};
}

static void put(struct auth *auth, const void *bytes, uint32_t count)
{
    NIGH_ASSERT(auth->out_bytes + count <= sizeof(auth->out));
    memcpy(auth->out + auth->out_bytes, bytes, count);
    auth->out_bytes += count;
}

static void put_hello(struct auth *auth)
{
    struct hello hello = {
        .head = head_of(KIND_HELLO, sizeof(hello)),
        .version_min = AUTH_VERSION_MIN,
        .version_max = AUTH_VERSION_MAX,
        .rank = auth->self.rank,
        .incarnation = auth->self.incarnation,
        .life = auth->self.life,
        .epoch = auth->self.epoch,
    };

    memcpy(hello.nonce, auth->nonce, sizeof(hello.nonce));
    remember(auth, &hello, sizeof(hello));
    put(auth, &hello, sizeof(hello));
}

static void put_challenge(struct auth *auth)
{
    struct challenge challenge = {
        .head = head_of(KIND_CHALLENGE, sizeof(challenge)),
        .version = auth->version,
        .rank = auth->self.rank,
        .incarnation = auth->self.incarnation,
        .life = auth->self.life,
        .epoch = auth->self.epoch,
    };

    memcpy(challenge.nonce, auth->nonce, sizeof(challenge.nonce));
    remember(auth, &challenge, offsetof(struct challenge, proof));
    digest(challenge.proof, sizeof(challenge.proof), auth->key, "nigh acceptor", auth->transcript,
           auth->transcript_bytes, NULL, 0);
    put(auth, &challenge, sizeof(challenge));
}

static void put_proof(struct auth *auth)
{
    struct proof proof = {.head = head_of(KIND_PROOF, sizeof(proof))};

    digest(proof.proof, sizeof(proof.proof), auth->key, "nigh dialler", auth->transcript,
           auth->transcript_bytes, NULL, 0);
    put(auth, &proof, sizeof(proof));
}

/* Whether offers say anything of spaces. */
static bool has_spaces(const struct auth *auth)
{
    return auth->version >= AUTH_VERSION_SPACES;
}

static void put_offer(struct auth *auth)
{
    uint32_t addresses = auth->own.lanes * AUTH_ADDRESS_BYTES;
    struct offer offer = {
        .head = head_of(KIND_OFFER, (uint32_t)sizeof(offer) + addresses + AUTH_PROOF_BYTES),
        .lanes = auth->own.lanes,
        .bulk_endpoints = auth->own.bulk_endpoints,
        .region_endpoints = auth->own.region_endpoints,
        .space_endpoints = has_spaces(auth) ? auth->own.space_endpoints : 0,
        .directory = auth->own.directory,
    };
    uint8_t proof[AUTH_PROOF_BYTES];

    memcpy(offer.member, auth->own.member, sizeof(offer.member));
    digest(proof, sizeof(proof), auth->session, offer_label(auth->dials), &offer, sizeof(offer),
           auth->own.addresses, addresses);
    put(auth, &offer, sizeof(offer));
    put(auth, auth->own.addresses, addresses);
    put(auth, proof, sizeof(proof));
}

/* ---- ends ----------------------------------------------------------------- */

/* The cluster's key is needed no more. */
static void wipe(struct auth *auth)
{
    sodium_memzero(auth->key, sizeof(auth->key));
    sodium_memzero(auth->transcript, sizeof(auth->transcript));
}

static void end_refused(struct auth *auth, nigh_status status, const char *why)
{
    auth->state = AUTH_REFUSED;
    auth->status = status;
    snprintf(auth->why, sizeof(auth->why), "%s", why);
    wipe(auth);
    sodium_memzero(auth->session, sizeof(auth->session));
}

/* Says so to the peer, too, where it may not know yet. */
static void refuse(struct auth *auth, nigh_status status, const char *why)
{
    struct refuse message = {
        .head = head_of(KIND_REFUSE, sizeof(message)),
        .status = status,
        .version_min = AUTH_VERSION_MIN,
        .version_max = AUTH_VERSION_MAX,
    };

    auth->out_bytes = 0;
    put(auth, &message, sizeof(message));
    end_refused(auth, status, why);
}

static void take_refusal(struct auth *auth, const struct refuse *message)
{
    nigh_status status = (nigh_status)message->status;

    switch (status) {
    case NIGH_VERSION:
        end_refused(auth, status, "the other node speaks no common version of the protocol");
        break;
    case NIGH_DENIED: end_refused(auth, status, "the other node has another cluster key"); break;
    case NIGH_INVALID:
        end_refused(auth, status,
                    "the other node has another list of members, or one has --state and the other "
                    "not; start all nodes with the same");
        break;
    case NIGH_NOT_FOUND: end_refused(auth, status, AUTH_OTHER_DIRECTORY); break;
    default: end_refused(auth, NIGH_PROTOCOL, "the other node refused the handshake"); break;
    }
}

/* ---- receiving ------------------------------------------------------------ */

/* Who joins knows no list, and is asked by nobody. */
static bool is_joining(const struct auth *auth)
{
    return auth->dials ? auth->self.rank == AUTH_JOINER : auth->peer.rank == AUTH_JOINER;
}

static bool check_identity(struct auth *auth)
{
    if (auth->peer.epoch != auth->self.epoch && !is_joining(auth)) {
        refuse(auth, NIGH_INVALID,
               "the other node has another list of members, or one has --state and the other not; "
               "start all nodes with the same");
        return false;
    }
    if (auth->peer.rank == auth->self.rank ||
        (auth->peer.rank >= LIMIT_NODES && (auth->dials || !is_joining(auth))) ||
        (auth->expected_rank != UINT32_MAX && auth->peer.rank != auth->expected_rank)) {
        refuse(auth, NIGH_INVALID,
               "the other node has a rank that is not its own; give each node its own --member");
        return false;
    }
    if (auth->peer.incarnation == 0) {
        refuse(auth, NIGH_INVALID, "the other node has no incarnation");
        return false;
    }
    return true;
}

static void take_hello(struct auth *auth, const uint8_t *bytes)
{
    struct hello hello;

    memcpy(&hello, bytes, sizeof(hello));
    if (hello.version_min > AUTH_VERSION_MAX || hello.version_max < AUTH_VERSION_MIN) {
        refuse(auth, NIGH_VERSION, "the other node speaks no common version of the protocol");
        return;
    }
    auth->peer = (struct auth_identity){.rank = hello.rank,
                                        .incarnation = hello.incarnation,
                                        .life = hello.life,
                                        .epoch = hello.epoch};
    if (!check_identity(auth)) {
        return;
    }
    remember(auth, &hello, sizeof(hello));
    auth->version =
        hello.version_max < AUTH_VERSION_MAX ? hello.version_max : (uint16_t)AUTH_VERSION_MAX;
    put_challenge(auth);
    auth->step = STEP_PROOF;
}

static void take_challenge(struct auth *auth, const uint8_t *bytes)
{
    struct challenge challenge;
    uint8_t expected[AUTH_PROOF_BYTES];

    memcpy(&challenge, bytes, sizeof(challenge));
    if (challenge.version < AUTH_VERSION_MIN || challenge.version > AUTH_VERSION_MAX) {
        end_refused(auth, NIGH_VERSION, "the other node speaks no common version of the protocol");
        return;
    }
    remember(auth, &challenge, offsetof(struct challenge, proof));
    digest(expected, sizeof(expected), auth->key, "nigh acceptor", auth->transcript,
           auth->transcript_bytes, NULL, 0);
    if (sodium_memcmp(expected, challenge.proof, sizeof(expected)) != 0) {
        refuse(auth, NIGH_DENIED, "the other node has another cluster key");
        return;
    }
    auth->peer = (struct auth_identity){.rank = challenge.rank,
                                        .incarnation = challenge.incarnation,
                                        .life = challenge.life,
                                        .epoch = challenge.epoch};
    if (!check_identity(auth)) {
        return;
    }
    auth->version = challenge.version;
    derive_session(auth);
    put_proof(auth);
    put_offer(auth);
    auth->step = STEP_OFFER;
}

static void take_proof(struct auth *auth, const uint8_t *bytes)
{
    uint8_t expected[AUTH_PROOF_BYTES];

    digest(expected, sizeof(expected), auth->key, "nigh dialler", auth->transcript,
           auth->transcript_bytes, NULL, 0);
    /* A node with another key finds that out itself, and says so: this is somebody who goes on. */
    if (sodium_memcmp(expected, bytes + offsetof(struct proof, proof), sizeof(expected)) != 0) {
        refuse(auth, NIGH_DENIED, "the other node repeats an old handshake, or has no key");
        return;
    }
    derive_session(auth);
    auth->step = STEP_OFFER;
}

static bool is_lane_count(uint32_t lanes)
{
    return lanes > 0 && lanes <= LIMIT_LANES && (lanes & (lanes - 1)) == 0;
}

static void take_offer(struct auth *auth, const uint8_t *bytes, uint32_t count)
{
    const uint8_t *addresses = bytes + sizeof(struct offer);
    struct offer offer;
    uint8_t expected[AUTH_PROOF_BYTES];
    uint32_t address_bytes;

    memcpy(&offer, bytes, sizeof(offer));
    if (!is_lane_count(offer.lanes) || offer.bulk_endpoints > LIMIT_BULK_ENDPOINTS ||
        offer.region_endpoints > LIMIT_REGION_ENDPOINTS ||
        (has_spaces(auth) && offer.space_endpoints > 1) ||
        count != sizeof(offer) + offer.lanes * AUTH_ADDRESS_BYTES + AUTH_PROOF_BYTES) {
        end_refused(auth, NIGH_PROTOCOL, "the other node's offer is not well formed");
        return;
    }
    address_bytes = offer.lanes * AUTH_ADDRESS_BYTES;
    digest(expected, sizeof(expected), auth->session, offer_label(!auth->dials), bytes,
           sizeof(offer), addresses, address_bytes);
    if (sodium_memcmp(expected, addresses + address_bytes, sizeof(expected)) != 0) {
        end_refused(auth, NIGH_DENIED, "the other node's offer is not authentic");
        return;
    }
    /* It would find nothing that we put. The acceptor, which hears first, says so to the dialler.
     */
    if (offer.directory != auth->own.directory) {
        refuse(auth, NIGH_NOT_FOUND, AUTH_OTHER_DIRECTORY);
        return;
    }
    memset(&auth->offer, 0, sizeof(auth->offer));
    auth->offer.lanes = offer.lanes;
    auth->offer.bulk_endpoints = offer.bulk_endpoints;
    auth->offer.region_endpoints = offer.region_endpoints;
    auth->offer.space_endpoints = has_spaces(auth) ? offer.space_endpoints : 0;
    auth->offer.directory = offer.directory;
    memcpy(auth->offer.member, offer.member, sizeof(auth->offer.member));
    auth->offer.member[AUTH_ADDRESS_BYTES - 1] = '\0';
    memcpy(auth->offer.addresses, addresses, address_bytes);
    for (uint32_t lane = 0; lane < offer.lanes; lane++) {
        auth->offer.addresses[lane][AUTH_ADDRESS_BYTES - 1] = '\0';
    }
    if (!auth->dials) {
        put_offer(auth);
    }
    auth->step = STEP_END;
    auth->state = AUTH_DONE;
    wipe(auth);
}

#define NOT_NOW UINT32_MAX /* no head says so: its length has 16 bits */

/* What a message of this kind must be long: never less than a head; NOT_NOW: it may not come now.
 */
static uint32_t expected_bytes(const struct auth *auth, const struct head *head)
{
    switch ((enum auth_kind)head->kind) {
    case KIND_HELLO: return auth->step == STEP_HELLO ? sizeof(struct hello) : NOT_NOW;
    case KIND_CHALLENGE: return auth->step == STEP_CHALLENGE ? sizeof(struct challenge) : NOT_NOW;
    case KIND_PROOF: return auth->step == STEP_PROOF ? sizeof(struct proof) : NOT_NOW;
    case KIND_OFFER:
        return auth->step == STEP_OFFER && head->bytes >= sizeof(struct offer) + AUTH_PROOF_BYTES &&
                       head->bytes <= AUTH_MESSAGE_BYTES
                   ? head->bytes
                   : NOT_NOW;
    case KIND_REFUSE: return auth->step != STEP_HELLO ? sizeof(struct refuse) : NOT_NOW;
    }
    return NOT_NOW;
}

static void take(struct auth *auth, const struct head *head)
{
    struct refuse refusal;

    switch ((enum auth_kind)head->kind) {
    case KIND_HELLO: take_hello(auth, auth->in); break;
    case KIND_CHALLENGE: take_challenge(auth, auth->in); break;
    case KIND_PROOF: take_proof(auth, auth->in); break;
    case KIND_OFFER: take_offer(auth, auth->in, head->bytes); break;
    case KIND_REFUSE:
        memcpy(&refusal, auth->in, sizeof(refusal));
        take_refusal(auth, &refusal);
        break;
    }
}

uint32_t auth_input(struct auth *auth, const uint8_t *bytes, uint32_t count)
{
    uint32_t taken = 0;

    while (auth->state == AUTH_WAITS && taken < count) {
        struct head head;
        uint32_t wanted = sizeof(head);
        uint32_t step;

        if (auth->in_bytes >= sizeof(head)) {
            memcpy(&head, auth->in, sizeof(head));
            wanted = head.bytes;
        }
        step = wanted - auth->in_bytes < count - taken ? wanted - auth->in_bytes : count - taken;
        memcpy(auth->in + auth->in_bytes, bytes + taken, step);
        auth->in_bytes += step;
        taken += step;
        if (auth->in_bytes < sizeof(head)) {
            continue;
        }
        memcpy(&head, auth->in, sizeof(head));
        if (head.magic != AUTH_MAGIC || head.bytes != expected_bytes(auth, &head)) {
            end_refused(auth, NIGH_PROTOCOL, "what came is not a node's handshake");
        } else if (auth->in_bytes == head.bytes) {
            auth->in_bytes = 0;
            take(auth, &head);
        }
    }
    return taken;
}

/* ---- the rest ------------------------------------------------------------- */

void auth_begin(struct auth *auth, bool dials, const uint8_t key[AUTH_KEY_BYTES],
                const struct auth_identity *self, const struct auth_offer *own,
                uint32_t expected_rank, const uint8_t nonce[AUTH_NONCE_BYTES])
{
    NIGH_ASSERT(sodium_init() >= 0);
    NIGH_ASSERT(is_lane_count(own->lanes));
    memset(auth, 0, sizeof(*auth));
    auth->dials = dials;
    auth->self = *self;
    auth->own = *own;
    auth->expected_rank = expected_rank;
    memcpy(auth->key, key, sizeof(auth->key));
    memcpy(auth->nonce, nonce, sizeof(auth->nonce));
    auth->step = STEP_HELLO;
    if (dials) {
        put_hello(auth);
        auth->step = STEP_CHALLENGE;
    }
}

uint32_t auth_output(const struct auth *auth, const uint8_t **bytes)
{
    *bytes = auth->out;
    return auth->out_bytes;
}

void auth_sent(struct auth *auth, uint32_t count)
{
    NIGH_ASSERT(count <= auth->out_bytes);
    memmove(auth->out, auth->out + count, auth->out_bytes - count);
    auth->out_bytes -= count;
}

void auth_prove(const struct auth *auth, bool of_dialler, const void *bytes, size_t count,
                uint8_t proof[AUTH_PROOF_BYTES])
{
    digest(proof, AUTH_PROOF_BYTES, auth->session,
           of_dialler ? "nigh word of the dialler" : "nigh word of the acceptor", bytes, count,
           NULL, 0);
}

bool auth_is_proof(const uint8_t proof[AUTH_PROOF_BYTES], const uint8_t said[AUTH_PROOF_BYTES])
{
    return sodium_memcmp(proof, said, AUTH_PROOF_BYTES) == 0;
}

/* ---- messages ------------------------------------------------------------- */

struct sealed {
    uint32_t magic;
    uint32_t message;
    uint64_t sequence;
    uint8_t proof[AUTH_TOKEN_BYTES];
};

_Static_assert(sizeof(struct sealed) == 32, "a message is on the wire");

static void sealed_proof(const struct auth *auth, bool of_dialler, const struct sealed *sealed,
                         uint8_t proof[AUTH_TOKEN_BYTES])
{
    digest(proof, AUTH_TOKEN_BYTES, auth->session,
           of_dialler ? "nigh message of the dialler" : "nigh message of the acceptor", sealed,
           offsetof(struct sealed, proof), NULL, 0);
}

uint32_t auth_sealed_bytes(void)
{
    return sizeof(struct sealed);
}

uint32_t auth_seal(const struct auth *auth, enum auth_message message, uint64_t sequence,
                   uint8_t out[64])
{
    struct sealed sealed = {.magic = AUTH_MAGIC, .message = message, .sequence = sequence};

    sealed_proof(auth, auth->dials, &sealed, sealed.proof);
    memcpy(out, &sealed, sizeof(sealed));
    return sizeof(sealed);
}

nigh_status auth_open(const struct auth *auth, const uint8_t *bytes, uint64_t sequence,
                      enum auth_message *message)
{
    struct sealed sealed;
    uint8_t expected[AUTH_TOKEN_BYTES];

    memcpy(&sealed, bytes, sizeof(sealed));
    sealed_proof(auth, !auth->dials, &sealed, expected);
    if (sealed.magic != AUTH_MAGIC || sealed.sequence != sequence || sealed.message < AUTH_PING ||
        sealed.message > AUTH_STRUCK ||
        sodium_memcmp(expected, sealed.proof, sizeof(expected)) != 0) {
        return NIGH_PROTOCOL;
    }
    *message = (enum auth_message)sealed.message;
    return NIGH_OK;
}

/* ---- tokens --------------------------------------------------------------- */

static void token_proof(const struct auth_token *token, const uint8_t session[AUTH_KEY_BYTES],
                        uint8_t proof[AUTH_TOKEN_BYTES])
{
    digest(proof, AUTH_TOKEN_BYTES, session, "nigh token", token,
           offsetof(struct auth_token, proof), NULL, 0);
}

void auth_token_sign(struct auth_token *token, const uint8_t session[AUTH_KEY_BYTES])
{
    token->magic = AUTH_TOKEN_MAGIC;
    token_proof(token, session, token->proof);
}

bool auth_token_check(const struct auth_token *token, const uint8_t session[AUTH_KEY_BYTES])
{
    uint8_t expected[AUTH_TOKEN_BYTES];

    token_proof(token, session, expected);
    return token->magic == AUTH_TOKEN_MAGIC &&
           sodium_memcmp(expected, token->proof, sizeof(expected)) == 0;
}

/* ---- keys ----------------------------------------------------------------- */

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (uint8_t)tolower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

nigh_status auth_key_parse(const uint8_t *text, size_t bytes, uint8_t key[AUTH_KEY_BYTES],
                           char *why, size_t why_bytes)
{
    uint8_t made[AUTH_KEY_BYTES];
    size_t digits = 0;

    if (bytes == AUTH_KEY_BYTES) {
        memcpy(key, text, AUTH_KEY_BYTES);
        return NIGH_OK;
    }
    for (size_t n = 0; n < bytes; n++) {
        int digit = hex_digit(text[n]);

        if (isspace(text[n])) {
            continue;
        }
        if (digit < 0 || digits == 2 * sizeof(made)) {
            digits = 0;
            break;
        }
        made[digits / 2] = (uint8_t)(digits % 2 == 0 ? digit << 4 : made[digits / 2] | digit);
        digits++;
    }
    if (digits != 2 * sizeof(made)) {
        snprintf(why, why_bytes,
                 "a cluster key is %d hexadecimal digits, or %d bytes (make one: (umask 077; od "
                 "-An -v -tx1 -N32 "
                 "/dev/urandom | tr -d ' \\n' >FILE))",
                 2 * AUTH_KEY_BYTES, AUTH_KEY_BYTES);
        return NIGH_INVALID;
    }
    memcpy(key, made, sizeof(made));
    sodium_memzero(made, sizeof(made));
    return NIGH_OK;
}
