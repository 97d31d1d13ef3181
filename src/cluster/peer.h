/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When another node counts as up, lost and dead: one peer's state, decided from what its control
 * connection sees.
 *
 *   away -> (up | dead) ; up -> lost | dead ; lost -> up | dead ; dead -> up
 *
 * The node of the higher rank dials. A lost connection is dialled again with back-off (the acceptor
 * waits). Lost for dead_ms, or back with a higher incarnation, or a goodbye, or the members'
 * verdict (swim.h): the peer that was is dead; its memory is gone and what is pending on it fails.
 * Pure; the clock and jitter are arguments.
 */
#ifndef CLUSTER_PEER_H
#define CLUSTER_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"

enum peer_state {
    PEER_AWAY = 0, /* never seen yet */
    PEER_UP,
    PEER_LOST, /* its connection is gone; what it holds may come back */
    PEER_DEAD
};

/* What the caller must do, in this order. */
struct peer_actions {
    bool dead; /* the incarnation known so far is over, and its connection: tell the lanes */
    bool lost; /* the connection is over, the incarnation may not be: tell the lanes. Not both */
    bool up;   /* tell the lanes */
    bool dial; /* begin a connection */
};

struct peer {
    enum peer_state state;
    bool dials; /* we dial */
    bool connected;
    bool dialling;
    uint32_t incarnation; /* last one that was up; 0: none */
    uint32_t life;        /* of which process that is */
    uint32_t attempts;    /* in vain, since it was last up */
    uint64_t dial_us;     /* not before this */
    uint64_t dead_us;     /* LOST: dead at this time */
    uint64_t heard_us;
    uint64_t dead_after_us;
    uint64_t silence_us; /* a connection that says nothing for so long is lost */
};

void peer_init(struct peer *peer, bool dials, uint64_t dead_after_us, uint64_t silence_us,
               uint64_t now_us);

/* A handshake succeeded. NIGH_DENIED: its incarnation is lower than one that was up, and is not
 * dead yet (a ghost, or a node whose clock went back: that one is let in when it counts as dead),
 * or it is another process of the same incarnation (which would call other objects by the same
 * births, and is never let in): the caller closes the connection; a dialler waits its back-off,
 * peer_dial_failed need not be called. A connection that takes the place of a live one of the same
 * incarnation loses the old one first; of the old one's end the caller says nothing any more. */
nigh_status peer_connected(struct peer *peer, uint32_t incarnation, uint32_t life, uint64_t now_us,
                           struct peer_actions *actions);

/* The dial failed, or the handshake was refused. jitter: 0 .. UINT32_MAX, random. */
void peer_dial_failed(struct peer *peer, uint32_t jitter, uint64_t now_us);

/* The connection ended. `goodbye`: in order. */
void peer_disconnected(struct peer *peer, bool goodbye, uint32_t jitter, uint64_t now_us,
                       struct peer_actions *actions);

/* The members found this incarnation of it dead (cluster/swim.h). It counts for the life that was
 * up, and for one before a later life: the peer is dead, connected or not, and may come back. Of
 * one that is away nothing follows. The caller closes the connection. */
void peer_condemned(struct peer *peer, uint32_t incarnation, uint32_t jitter, uint64_t now_us,
                    struct peer_actions *actions);

/* It is a member no more: dead, connected or not. The caller closes the connection. */
void peer_gone(struct peer *peer, struct peer_actions *actions);

/* Something authentic was heard. */
void peer_heard(struct peer *peer, uint64_t now_us);

/* Time passes. Returns when it must be called next. `lost` (or `dead`) of a peer that was
 * connected: it was silent for too long, and the caller closes the connection. */
uint64_t peer_tick(struct peer *peer, uint64_t now_us, struct peer_actions *actions);

bool peer_is_valid(const struct peer *peer);

#endif
