/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the control connections share. peers.c has their life and the port that they
 * come in by; peers_connection.c one connection; peers_offer.c what a handshake ends in;
 * peers_member.c what lanes are told of a member; peers_join.c who has no rank yet; peers_struck.c
 * who has none any more; peers_swim.c the datagrams. For no one else.
 */
#ifndef NODE_PEERS_INTERNAL_H
#define NODE_PEERS_INTERNAL_H

#include <sys/socket.h>

#include "cluster/swim_wire.h"
#include "node/peers.h"

#define PEERS_CONNECTIONS (LIMIT_NODES + LIMIT_PEER_HANDSHAKES)
#define PEERS_NOBODY      UINT32_MAX
#define PEERS_LISTEN      UINT32_MAX       /* the number of the listening socket */
#define PEERS_DATAGRAMS   (UINT32_MAX - 1) /* and of the one for datagrams */
#define PEERS_SILENCE_US  UINT64_C(2000000)

struct connection {
    int fd; /* -1: free */
    bool connecting;
    bool writable; /* watched for it */
    uint32_t rank; /* of whom we dial, or who proved to be it; PEERS_NOBODY: not known yet */
    struct auth *auth;
    bool proved;
    bool joins;           /* it has the key, and no rank yet */
    uint64_t deadline_us; /* of the handshake, or of joining */
    uint64_t ping_us;
    uint64_t sent; /* messages */
    uint64_t received;
    uint8_t in[64];
    uint32_t in_bytes;
    uint8_t out[256];
    uint32_t out_bytes;
    uint8_t *welcome; /* what one that joins is told; then its connection ends */
    uint32_t welcome_bytes, welcome_sent;
};

struct member {
    struct peer peer;
    char text[MEMBERS_ADDRESS_BYTES]; /* "": nobody has that rank, as far as known here */
    uint32_t connection;              /* of peer.connected; PEERS_NOBODY */
    struct sockaddr_storage address;
    socklen_t address_bytes;
    struct link_peer info; /* as it was last up */
    uint64_t owed_dead;    /* lanes that must still be told that it is dead */
    uint64_t owed;         /* lanes that must still be told how it is now */
    bool leaves;           /* so it said last, while it was up */
    bool complained;       /* of its last refusal, in the log */
    nigh_status refused;   /* why the last handshake failed since it was up; NIGH_OK: none did */
};

/* Membership by datagrams. */
struct peers_swim {
    int fd;            /* -1: none, and no membership */
    struct swim *swim; /* NULL: not opened yet, or none */
    struct swim_wire wire;
    uint64_t due_us;
    uint64_t opened_us;
    uint64_t period_us;
    bool is_heard;     /* a datagram of another member came */
    bool silence_told; /* the log has said that none does */
    struct swim_actions actions;
};

struct peers {
    struct peers_config config;
    uint32_t incarnation;
    uint32_t life;
    struct lane **lanes;
    uint32_t lane_count;
    struct auth_offer offer;
    int listen_fd;
    uint64_t listen_us;  /* when it is watched again; 0: it is */
    uint32_t handshakes; /* accepted connections that have not proved themselves */
    uint64_t now_us;
    bool is_struck; /* this node: it ends, or is alone */
    struct peers_counters counters;
    struct peers_swim swim;
    struct member members[LIMIT_NODES];
    struct connection connections[PEERS_CONNECTIONS];
};

/* A bit for each. */
static inline uint64_t peers_all_lanes(uint32_t lanes)
{
    return lanes == 64 ? UINT64_MAX : (UINT64_C(1) << lanes) - 1;
}

static inline uint32_t peers_number_of(const struct peers *peers,
                                       const struct connection *connection)
{
    return (uint32_t)(connection - peers->connections);
}

/* ---- peers_connection.c ---- */

/* What dials are spread by. */
uint32_t peers_jitter(void);

/* Shuts it down first: a child of the program may have a copy. */
void peers_close_socket(int *fd);

/* Takes the descriptor over and begins a handshake; NULL: no place or no memory, and it stays the
 * caller's. rank: whom we dial, else PEERS_NOBODY. */
struct connection *peers_add_connection(struct peers *peers, int fd, bool dials, uint32_t rank);

/* Lets go of a connection, if it is one; its member is told nothing. */
void peers_drop_connection(struct peers *peers, struct connection *connection);

/* The connection is over, for whatever reason: its member hears of it. */
void peers_end_connection(struct peers *peers, struct connection *connection, bool goodbye);

/* Whether it is watched for room to write in, too. */
void peers_watch(struct peers *peers, struct connection *connection, bool writable);

/* Says something to one that has proved itself. */
void peers_say(struct peers *peers, struct connection *connection, enum auth_message message);

/* Its descriptor is ready. */
void peers_connection_ready(struct peers *peers, struct connection *connection, uint32_t events);

/* Its deadline, its pings; returns when it must be called next. */
uint64_t peers_tick_connection(struct peers *peers, struct connection *connection);

/* ---- peers.c ---- */

/* A socket that listens for other nodes; `why` as peers_create has it. */
nigh_status peers_bind(const char *text, int *fd, struct sockaddr_storage *address,
                       socklen_t *bytes, char *why, size_t why_bytes);

/* ---- peers_offer.c ---- */

/* "host:port" or "[ipv6]:port"; to listen on, host may be "*" or "". */
nigh_status peers_look_up(const char *text, bool listens, struct sockaddr_storage *address,
                          socklen_t *bytes);

/* A handshake was refused: it is counted, and said where that is news. */
void peers_count_refusal(struct peers *peers, const struct connection *connection);

/* A handshake is done: its other side has the key. Lets it in, or drops the connection. */
void peers_proved(struct peers *peers, struct connection *connection);

/* ---- peers_join.c ---- */

/* One that joins has proved that it has the key. */
void peers_join(struct peers *peers, struct connection *connection);

/* Tells it, once it is decided; returns when to look again. */
uint64_t peers_tick_join(struct peers *peers, struct connection *connection);

/* ---- peers_struck.c ---- */

/* Whether it was decided that a rank is nobody's any more. */
bool peers_rank_is_struck(const struct peers *peers, uint32_t rank);

/* Tells the other side of a connection that its rank is, and lets go of it. */
void peers_say_struck(struct peers *peers, struct connection *connection);

/* A member says that this node was struck off; the connection may be over. */
void peers_hear_struck(struct peers *peers, struct connection *connection);

/* This node was struck off: it lets go of all others, and says so. Once. */
void peers_are_left(struct peers *peers);

/* To lanes a member that was struck off is a dead one; its connection, if there is one, ends. */
void peers_strike(struct peers *peers, uint32_t rank);

/* ---- peers_member.c ---- */

/* As peers_create. */
nigh_status peers_look_members_up(struct peers *peers, char *why, size_t why_bytes);

/* One that joined says where it is: its port, at the host that it comes from. */
void peers_learn(struct peers *peers, uint32_t rank, const struct connection *connection);

/* Carries out what peer.h decided of a member. */
void peers_act(struct peers *peers, uint32_t rank, const struct peer_actions *actions);

/* Its dials, its death, what lanes are owed; returns when it must be called next. */
uint64_t peers_tick_member(struct peers *peers, uint32_t rank);

/* ---- peers_swim.c ---- */

/* The socket, at the address of the control port; without it there is no membership, which is no
 * error. */
void peers_swim_listen(struct peers *peers, const struct sockaddr_storage *address,
                       socklen_t bytes);
void peers_swim_open(struct peers *peers);
void peers_swim_destroy(struct peers *peers);
/* Its descriptor is ready. */
void peers_swim_ready(struct peers *peers);
/* Probes, suspicions; returns when it must be called next. */
uint64_t peers_swim_tick(struct peers *peers);
/* Says goodbye to some. */
void peers_swim_leave(struct peers *peers);
/* What the members say of one of them. */
enum swim_state peers_swim_state(const struct peers *peers, uint32_t rank);

#endif
