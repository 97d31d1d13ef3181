/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How two nodes convince each other that both have the cluster's key, before either allocates
 * anything for the other (docs/protocol.md, SECURITY.md).
 *
 * Pure: bytes come in, bytes go out; randomness and time are arguments. The dialler says HELLO, the
 * acceptor answers CHALLENGE with its proof over both nonces, the dialler proves itself and both
 * have a fresh session key, by which everything after is authenticated: the offers (lanes, fabric
 * addresses), and the tokens by which endpoints of the fabric are opened. Payload is neither
 * encrypted nor authenticated.
 *
 * What is refused, each with a status and a sentence: another magic or version, another list of
 * members (but from who joins), a rank that is not one or our own, a wrong key (a proof that does
 * not fit), a replayed handshake (nonces are fresh on both sides), no incarnation, a directory that
 * is kept elsewhere than ours. An incarnation
 * lower than one seen before is refused by who keeps the peers (peer.h).
 */
#ifndef CLUSTER_AUTH_H
#define CLUSTER_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"

#define AUTH_KEY_BYTES     32
#define AUTH_NONCE_BYTES   32
#define AUTH_PROOF_BYTES   32
#define AUTH_TOKEN_BYTES   16
#define AUTH_WHY_BYTES     192
#define AUTH_VERSION_MIN   23u
#define AUTH_VERSION_MAX   23u
#define AUTH_ADDRESS_BYTES 80
#define AUTH_JOINER        UINT32_MAX /* the rank of who has none yet, and is told one */
#define AUTH_MESSAGE_BYTES 8192       /* the longest message of a control connection */

/* What a node says of itself. */
struct auth_identity {
    uint32_t rank;
    uint32_t incarnation;
    uint32_t life;  /* random: two processes of one incarnation are told apart by it */
    uint64_t epoch; /* members.epoch */
};

/* What a node offers once it is believed: authenticated by the session key. */
struct auth_offer {
    uint32_t lanes;
    uint32_t bulk_endpoints;   /* that it wants of each link; 0 is 1 */
    uint32_t region_endpoints; /* likewise, for regions */
    uint32_t space_endpoints;  /* that it has, at rail 0: 1 where it serves spaces, else 0 */
    uint64_t directory;        /* where it is kept, as a number (redis_digest); 0: by the nodes */
    /* "host:port": where it takes control connections. Of who joined others learn it by this. */
    char member[AUTH_ADDRESS_BYTES];
    /* Of the lanes' fabrics. Nodes offer ":port"; the host is the connection's
     * (node/peers_offer.c). */
    char addresses[LIMIT_LANES][AUTH_ADDRESS_BYTES];
};

enum auth_state {
    AUTH_WAITS = 0, /* for bytes */
    AUTH_DONE,      /* the peer is believed; peer, offer and session are set, what is to be sent
                       still is (the acceptor's offer) */
    AUTH_REFUSED    /* status and why are set, nothing else is to be believed; what is to be sent
                       still is (a refusal) */
};

/*
 * One handshake. Internals are in auth.c; it has no memory of its own and may lie anywhere. About
 * 30 KiB.
 */
struct auth {
    enum auth_state state;
    nigh_status status; /* REFUSED: NIGH_DENIED (key, replay), NIGH_VERSION, NIGH_INVALID (members,
                           rank, incarnation), NIGH_NOT_FOUND (directory), NIGH_PROTOCOL */
    char why[AUTH_WHY_BYTES];
    struct auth_identity peer;
    struct auth_offer offer;         /* the peer's */
    uint8_t session[AUTH_KEY_BYTES]; /* the fresh key */
    bool dials;
    uint16_t version; /* the highest that both speak: what is said goes by it, tokens name it */
    /* For auth.c only. */
    uint8_t step;
    struct auth_identity self;
    struct auth_offer own;
    uint8_t key[AUTH_KEY_BYTES];
    uint8_t nonce[AUTH_NONCE_BYTES];
    uint8_t transcript[512];
    uint32_t transcript_bytes;
    uint8_t in[AUTH_MESSAGE_BYTES];
    uint32_t in_bytes;
    uint8_t out[AUTH_MESSAGE_BYTES];
    uint32_t out_bytes;
    uint32_t expected_rank; /* of whom we dial; UINT32_MAX: any */
};

/*
 * Begins a handshake. `nonce` is AUTH_NONCE_BYTES of fresh randomness. expected_rank: whom we dial,
 * or UINT32_MAX at the acceptor. The dialler has something to send at once.
 */
void auth_begin(struct auth *auth, bool dials, const uint8_t key[AUTH_KEY_BYTES],
                const struct auth_identity *self, const struct auth_offer *own,
                uint32_t expected_rank, const uint8_t nonce[AUTH_NONCE_BYTES]);

/* Feeds bytes that arrived; takes no more than the handshake needs and returns how many (the rest
 * belongs to what comes after). */
uint32_t auth_input(struct auth *auth, const uint8_t *bytes, uint32_t count);

/* What must be sent next: *bytes points into auth until the next call. 0: nothing. auth_sent says
 * how much of it went out. */
uint32_t auth_output(const struct auth *auth, const uint8_t **bytes);
void auth_sent(struct auth *auth, uint32_t count);

/* ---- after the handshake: authenticated messages of a control connection -- */

enum auth_message {
    AUTH_PING = 1,
    AUTH_LEAVES = 2, /* a PING of a node that leaves (docs/leaving.md) */
    AUTH_BYE = 3,    /* the node stops in order: do not wait dead_ms for it */
    AUTH_STRUCK = 4  /* who hears it was struck off: its rank is nobody's for ever */
};

/* Writes one message of at most 64 bytes to `out`; returns its length. `sequence` counts up from 0
 * in each direction. */
uint32_t auth_seal(const struct auth *auth, enum auth_message message, uint64_t sequence,
                   uint8_t out[64]);
/* Bytes of every message. */
uint32_t auth_sealed_bytes(void);
/* Checks one: NIGH_OK and what it is, or NIGH_PROTOCOL (forged, replayed, out of order). */
nigh_status auth_open(const struct auth *auth, const uint8_t *bytes, uint64_t sequence,
                      enum auth_message *message);

/* What one side says beyond that, authenticated by the session's key: its proof. */
void auth_prove(const struct auth *auth, bool of_dialler, const void *bytes, size_t count,
                uint8_t proof[AUTH_PROOF_BYTES]);
/* Constant time. */
bool auth_is_proof(const uint8_t proof[AUTH_PROOF_BYTES], const uint8_t said[AUTH_PROOF_BYTES]);

/* ---- tokens: private data of a fabric connection -------------------------- */

/* Exactly FABRIC_PRIVATE_BYTES or less on the wire. */
struct auth_token {
    uint32_t magic;
    uint16_t version;
    uint8_t kind; /* which endpoint of the rail: LINK_CONTROL, ... */
    uint8_t reserved;
    uint16_t rank;
    uint16_t rail;
    uint32_t incarnation;        /* of the dialler */
    uint32_t target_incarnation; /* of whom it means to reach */
    uint32_t serial;             /* grows with every token of a session: each is good once */
    uint8_t proof[AUTH_TOKEN_BYTES];
};

_Static_assert(sizeof(struct auth_token) == 40, "the token is on the wire");

/* Fills magic and proof over the rest. */
void auth_token_sign(struct auth_token *token, const uint8_t session[AUTH_KEY_BYTES]);

/* Whether it was signed with this session's key. Constant time. The caller checks that the version
 * is the session's, and the serial a new one. */
bool auth_token_check(const struct auth_token *token, const uint8_t session[AUTH_KEY_BYTES]);

/* Reads a key file's contents: 64 hexadecimal digits and white space, or 32 raw bytes. NIGH_INVALID
 * with a sentence. */
nigh_status auth_key_parse(const uint8_t *text, size_t bytes, uint8_t key[AUTH_KEY_BYTES],
                           char *why, size_t why_bytes);

#endif
