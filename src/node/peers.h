/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node's control connections: one to each other member of the cluster, over which both sides
 * prove that they have the cluster's key, tell where their lanes' fabrics listen, and show that
 * they live.
 *
 * A guest of lane 0, like the front door: everything runs on the thread that drives that lane, and
 * nothing waits. What it finds out (a peer is up, lost, dead; cluster/peer.h decides) it tells the
 * lanes. Beside them the members tell each other by datagrams, at the same port, who lives
 * (docs/membership.md); without those the connections judge alone. Nothing is allocated for a peer
 * before it has proved itself but one connection's handshake, of which there are at most
 * LIMIT_PEER_HANDSHAKES. Who joins by this node has a connection of that kind, until it is told its
 * rank.
 */
#ifndef NODE_PEERS_H
#define NODE_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/auth.h"
#include "cluster/members.h"
#include "cluster/peer.h"
#include "cluster/swim.h"
#include "node/lane.h"
#include "node/views.h"

struct peers;

struct peers_config {
    const struct members *members; /* outlives it */
    uint8_t key[AUTH_KEY_BYTES];
    uint64_t dead_us;    /* a lost peer is dead after so long */
    struct views *views; /* hears of the dead; NULL: nothing is agreed */
    /* Called once, when this node hears that it was struck off: it is no member any more, and has
     * no connection from then on. NULL: nobody wants to know. Lane 0's driver. */
    void (*struck)(void *context);
    void *context;                      /* of struck */
    char listen[MEMBERS_ADDRESS_BYTES]; /* "": as the members' list says of us */
};

/* Looks the members' addresses up and listens. On failure `why` is a sentence with a remedy:
 * NIGH_INVALID (a name that cannot be looked up), NIGH_BUSY (the port is taken),
 * NIGH_NO_RESOURCES. Start-up thread. */
nigh_status peers_create(const struct peers_config *config, struct peers **peers, char *why,
                         size_t why_bytes);

/* Opens it: the lanes are there, with their exchanges; `offer` is where their fabrics listen. */
nigh_status peers_open(struct peers *peers, struct lane **lanes, uint32_t lane_count,
                       uint32_t incarnation, const struct auth_offer *offer);

/* Says goodbye to every peer (a stop in order), and closes. No lane is running. */
void peers_close(struct peers *peers);
void peers_destroy(struct peers *peers);

/* In a child of the program: lets go of its copies of the sockets, and does nothing else. */
void peers_in_child(struct peers *peers);

/* A descriptor that peers added to lane 0's epoll is ready; `number` as in its data. */
void peers_ready(struct peers *peers, uint32_t number, uint32_t events);

/* Deadlines, dials, pings; returns when it must be called next. Lane 0's driver. */
uint64_t peers_tick(struct peers *peers, uint64_t now_us);

/* Whether this node was struck off, as it heard. Lane 0's driver. */
bool peers_is_struck(const struct peers *peers);

/* Whether a rank is somebody's, as far as is known here. Lane 0's driver. */
bool peers_is_member(const struct peers *peers, uint32_t rank);

/* What is known of a member. Lane 0's driver. */
struct peers_view {
    uint32_t rank;
    enum peer_state state;
    uint32_t incarnation;
    nigh_status refused;  /* as nigh_node_info has it */
    bool leaves;          /* it is up, and says that it leaves */
    enum swim_state life; /* what the members say of it (cluster/swim.h) */
    const char *address;
};

void peers_look(const struct peers *peers, uint32_t rank, struct peers_view *view);

struct peers_counters {
    uint64_t accepted, dialled, refused_key, refused_version, refused_members, refused_protocol;
    uint64_t deaths, joined;
    uint64_t suspected, found_dead, refuted, datagrams_refused; /* of membership */
};

/* Other members that have answered datagrams: of these silence is noticed. Lane 0's driver. */
uint32_t peers_reached(const struct peers *peers);

const struct peers_counters *peers_counters(const struct peers *peers);

#endif
