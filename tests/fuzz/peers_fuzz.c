/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node's control port, and the port of its lane, against strangers and members: who knocks, or is
 * dialled, with the key or without, with any rank, incarnation, life and addresses; handshakes
 * changed, stopped in the middle, said again; messages after them; ends of every kind; tokens for
 * data connections. The fuzzer's end of a handshake is the production code, so that it comes far.
 *
 * What must hold: who has not proved itself, or is not let in, changes nothing that is known of any
 * member; lanes are told of no one else, in order; a data connection needs a token of the session
 * that stands; nothing is left behind.
 *
 * peers.c and its parts are compiled in here, with the system calls and the lane that it uses
 * replaced.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "cluster/address.h"
#include "cluster/link.h"
#include "fabric/sim/sim.h"
#include "fuzz_input.h"

static int fuzz_socket(int family, int type, int protocol);
static int fuzz_connect(int fd, const struct sockaddr *address, socklen_t bytes);
static int fuzz_accept(int fd);
static int fuzz_getpeername(int fd, struct sockaddr *address, socklen_t *bytes);
static uint64_t fuzz_now_us(void);

#define socket(family, type, protocol)     fuzz_socket(family, type, protocol)
#define connect(fd, address, bytes)        fuzz_connect(fd, address, bytes)
#define accept4(fd, address, bytes, flags) fuzz_accept(fd)
#define getpeername(fd, address, bytes)    fuzz_getpeername(fd, address, bytes)
#define clock_now_us(clock)                fuzz_now_us()
#include "../../src/node/peers.c"
#include "../../src/node/peers_connection.c"
#include "../../src/node/peers_join.c"
#include "../../src/node/peers_member.c"
#include "../../src/node/peers_offer.c"
#include "../../src/node/peers_struck.c"
/* Nothing is sent to the machine's own ports, and no datagram comes: fuzz-swim has those. */
#define sendto(fd, bytes, size, flags, address, length) \
    ((void)(bytes), (void)(address), (ssize_t)(size))
#define recvfrom(fd, bytes, size, flags, address, length) ((void)(bytes), (ssize_t)-1)
#include "../../src/node/peers_swim.c"
#undef sendto
#undef recvfrom
#undef socket
#undef connect
#undef accept4
#undef getpeername
#undef clock_now_us

#define MEMBERS  6u
#define LISTED   4u /* the rest are seats that nobody has yet */
#define SELF     1u /* dials rank 0, and is dialled by 2 and 3 */
#define ENDS     12u
#define WATCHES  (PEERS_CONNECTIONS + 2)
#define STEPS    200u
#define OUR_LIFE 7u /* incarnation of the node */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

/* The other end of a connection. */
struct end {
    int fd; /* -1: free */
    struct auth auth;
    bool is_changed; /* what it said is not what the code says */
    uint64_t sent;
};

struct lane {
    uint32_t count;
    int fds[WATCHES];
    uint64_t data[WATCHES];
    uint32_t events[WATCHES];
};

/* What the lane was told of a member last. */
struct told {
    bool up;
    bool is_dead;
    struct link_peer info;
};

static struct {
    struct fuzz_input input;
    struct members members;
    struct peers *peers;
    struct lane lane;
    struct end ends[ENDS];
    int queue[ENDS]; /* connections to accept */
    uint32_t queued;
    bool is_open;              /* sockets are the fuzzer's from here on */
    bool is_full;              /* the lane's mailbox */
    bool leaves;               /* this node */
    uint64_t now_us, start_us; /* start_us: from the listener to the lanes */
    struct told told[MEMBERS];
    bool agrees;                                        /* whatever the input says */
    struct agree_look look;                             /* what is agreed */
    char seats[MEMBERS - LISTED][AGREED_ADDRESS_BYTES]; /* as a voter knows them; "": not */
    struct agreed_set struck;                           /* off */
    uint32_t ends_told;                                 /* times that we were told of our end */
    struct sim *sim;
    struct fabric *fabric, *stranger;
    struct links *links;
} fuzz;

static struct {
    uint64_t lives, ups, refused, deaths, tokens, tokens_good, joins;
} counts;

static const uint8_t fuzz_key[AUTH_KEY_BYTES] = {1};

/* ---- the system ------------------------------------------------------------ */

static uint64_t fuzz_now_us(void)
{
    return fuzz.now_us;
}

static struct end *free_end(void)
{
    for (uint32_t n = 0; n < ENDS; n++) {
        if (fuzz.ends[n].fd < 0) {
            return &fuzz.ends[n];
        }
    }
    return NULL;
}

static void close_end(struct end *end)
{
    fd_close(&end->fd);
    end->is_changed = false;
}

/* A pair of sockets: one is the node's, the other an end's. -1: no end is free. */
static int new_pair(struct end **end)
{
    int fds[2];

    *end = free_end();
    if (*end == NULL) {
        errno = EMFILE;
        return -1;
    }
    NIGH_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    (*end)->fd = fds[1];
    (*end)->sent = 0;
    return fds[0];
}

static struct auth_offer fuzz_offer(void)
{
    static const char *const addresses[] = {
        ":7001",
        ":7001",
        ":7001",
        ":7001",
        ":1",
        "host:1",
        "",
        ":",
        ":12345678901234567890123456789012345678901234567890123456789012345678901234567890"};
    static const char *const members[] = {"127.0.0.1:5", "127.0.0.1:6", "0.0.0.0:5", "host:7",
                                          "127.0.0.1:1", "127.0.0.1:2", "nowhere",   ""};
    uint8_t how = fuzz_byte(&fuzz.input);
    struct auth_offer offer = {.lanes = 1u << how % 3};

    snprintf(offer.member, sizeof(offer.member), "%s", members[how / 32]);
    for (uint32_t lane = 0; lane < offer.lanes; lane++) {
        snprintf(offer.addresses[lane], sizeof(offer.addresses[lane]), "%s",
                 addresses[how / 4 % ARRAY_LENGTH(addresses)]);
    }
    return offer;
}

static void begin_end(struct end *end, bool dials, uint32_t rank)
{
    uint8_t how = fuzz_byte(&fuzz.input), who = fuzz_byte(&fuzz.input);
    uint8_t key[AUTH_KEY_BYTES] = {how % 8 == 7 ? 2 : 1}, nonce[AUTH_NONCE_BYTES] = {how, who};
    uint32_t other = how / 8 % 4 == 0 ? AUTH_JOINER : who % 9u;
    struct auth_identity identity = {.rank = how % 8 == 6 ? other : rank,
                                     .incarnation = 1 + who / 4 % 4u,
                                     .life = who / 64,
                                     .epoch = fuzz.members.epoch + (how % 8 == 5)};
    struct auth_offer offer = fuzz_offer();

    auth_begin(&end->auth, dials, key, &identity, &offer, dials ? SELF : UINT32_MAX, nonce);
}

static int fuzz_socket(int family, int type, int protocol)
{
    struct end *end;
    int fd;

    if (!fuzz.is_open) {
        return socket(family, type, protocol);
    }
    fd = new_pair(&end);
    if (fd >= 0) {
        begin_end(end, false, 0);
    }
    return fd;
}

static int fuzz_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    uint8_t how = fuzz_byte(&fuzz.input);

    (void)fd;
    (void)address;
    (void)bytes;
    errno = how % 8 == 7 ? ECONNREFUSED : EINPROGRESS;
    return -1;
}

static int fuzz_accept(int fd)
{
    (void)fd;
    if (fuzz.queued == 0) {
        errno = fuzz_byte(&fuzz.input) % 4 == 0 ? EMFILE : EAGAIN;
        return -1;
    }
    return fuzz.queue[--fuzz.queued];
}

static int fuzz_getpeername(int fd, struct sockaddr *address, socklen_t *bytes)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};

    (void)fd;
    memcpy(address, &from, sizeof(from));
    *bytes = sizeof(from);
    return 0;
}

/* ---- the lane -------------------------------------------------------------- */

nigh_status lane_watch(struct lane *lane, int fd, uint32_t events, uint64_t data)
{
    NIGH_ASSERT(lane->count < WATCHES);
    for (uint32_t n = 0; n < lane->count; n++) {
        NIGH_ASSERT(lane->fds[n] != fd);
    }
    lane->fds[lane->count] = fd;
    lane->data[lane->count] = data;
    lane->events[lane->count++] = events;
    return NIGH_OK;
}

void views_dead(struct views *views, uint32_t rank)
{
    (void)views;
    (void)rank;
}

void views_look(struct views *views, struct agree_look *look)
{
    (void)views;
    *look = fuzz.look;
}

bool views_seat_of(struct views *views, uint32_t rank, char address[AGREED_ADDRESS_BYTES])
{
    (void)views;
    if (rank < LISTED || fuzz.seats[rank - LISTED][0] == '\0') {
        return false;
    }
    memcpy(address, fuzz.seats[rank - LISTED], AGREED_ADDRESS_BYTES);
    return true;
}

bool views_is_struck(const struct views *views, uint32_t rank)
{
    (void)views;
    return agreed_has(&fuzz.struck, rank);
}

bool views_is_voter(struct views *views, uint32_t rank)
{
    (void)views;
    return rank < agree_voters(fuzz.members.listed);
}

static void on_struck(void *context)
{
    (void)context;
    fuzz.ends_told++;
}

bool views_join(struct views *views, const char *address, struct views_seat *seat)
{
    static const nigh_status statuses[] = {NIGH_OK, NIGH_OK, NIGH_NO_RESOURCES, NIGH_NO_QUORUM};
    uint8_t how = fuzz_byte(&fuzz.input);

    (void)views;
    NIGH_ASSERT(address_is_spelled(address) && !address_is_any(address));
    *seat = (struct views_seat){.status = statuses[how / 4 % 4], .rank = 4, .roster = {.count = 1}};
    snprintf(seat->roster.addresses[0], AGREED_ADDRESS_BYTES, "%s", address);
    counts.joins += how % 4 == 0;
    return how % 4 == 0;
}

void lane_unwatch(struct lane *lane, int fd)
{
    for (uint32_t n = 0; n < lane->count; n++) {
        if (lane->fds[n] == fd) {
            lane->count--;
            lane->fds[n] = lane->fds[lane->count];
            lane->data[n] = lane->data[lane->count];
            lane->events[n] = lane->events[lane->count];
            return;
        }
    }
}

/* Of a member that proved itself, and whose connection stands. */
static void check_info(uint32_t rank, const struct link_peer *info)
{
    const struct member *member = &fuzz.peers->members[rank];
    const struct connection *connection = &fuzz.peers->connections[member->connection];

    NIGH_ASSERT(member->connection < PEERS_CONNECTIONS && connection->proved);
    NIGH_ASSERT(info->rank == rank && info->incarnation == member->peer.incarnation);
    NIGH_ASSERT(info->dials == (rank < SELF) && is_pow2(info->lanes) && info->lanes <= LIMIT_LANES);
    NIGH_ASSERT(memcmp(info->session, connection->auth->session, sizeof(info->session)) == 0);
    for (uint32_t lane = 0; lane < info->lanes; lane++) {
        NIGH_ASSERT(strncmp(info->addresses[lane], "127.0.0.1:", 10) == 0);
    }
}

bool lane_leaves(const struct lane *lane)
{
    (void)lane;
    return fuzz.leaves;
}

bool lane_tell_peer(struct lane *lane, enum lane_mail kind, uint32_t rank, struct link_peer *info)
{
    struct told *told = &fuzz.told[rank];

    (void)lane;
    if (fuzz.is_full) {
        return false;
    }
    NIGH_ASSERT(rank < MEMBERS && rank != SELF && (kind == LANE_PEER_UP) == (info != NULL));
    told->up = kind == LANE_PEER_UP;
    told->is_dead = kind == LANE_PEER_DEAD || (told->is_dead && kind == LANE_PEER_LOST);
    if (told->up) {
        check_info(rank, info);
        if (memcmp(&told->info, info, sizeof(*info)) != 0) {
            told->info = *info;
        }
        NIGH_ASSERT(links_peer_up(fuzz.links, info, fuzz.now_us) == NIGH_OK);
        free(info);
        counts.ups++;
    } else if (kind == LANE_PEER_DEAD) {
        links_peer_dead(fuzz.links, rank, fuzz.now_us);
        counts.deaths++;
    } else {
        links_peer_down(fuzz.links, rank, NIGH_PEER_LOST, fuzz.now_us);
    }
    return true;
}

static void on_link(void *context, struct link *link, uint64_t now_us)
{
    (void)context;
    (void)now_us;
    NIGH_ASSERT(fuzz.told[link_rank(link)].up);
}

static void on_link_down(void *context, struct link *link, nigh_status reason, uint64_t now_us)
{
    (void)context;
    (void)link;
    (void)now_us;
    NIGH_ASSERT(reason != NIGH_OK);
}

static void on_link_request(void *context, struct link *link, const struct rpc_request *request,
                            uint64_t now_us)
{
    (void)context;
    (void)now_us;
    (void)link;
    (void)request;
}

static void on_link_bulk(void *context, struct link *link, const uint8_t *bytes, uint32_t count,
                         uint64_t now_us)
{
    (void)context;
    (void)link;
    (void)bytes;
    (void)count;
    (void)now_us;
}

/* ---- what must hold -------------------------------------------------------- */

struct known {
    enum peer_state state;
    uint32_t incarnation, life, connection;
    uint32_t lanes; /* of info, as the rest */
    uint8_t session[AUTH_KEY_BYTES];
    char address[FABRIC_ADDRESS_BYTES];
};

static void look(struct known known[MEMBERS])
{
    memset(known, 0, sizeof(struct known) * MEMBERS);
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
        const struct member *member = &fuzz.peers->members[rank];

        known[rank].state = member->peer.state;
        known[rank].incarnation = member->peer.incarnation;
        known[rank].life = member->peer.life;
        known[rank].connection = member->connection;
        known[rank].lanes = member->info.lanes;
        memcpy(known[rank].session, member->info.session, sizeof(known[rank].session));
        memcpy(known[rank].address, member->info.addresses[0], sizeof(known[rank].address));
    }
}

static bool offer_is_good(const struct auth *auth)
{
    for (uint32_t lane = 0; lane < auth->own.lanes; lane++) {
        if (auth->own.addresses[lane][0] != ':') {
            return false;
        }
    }
    return true;
}

/* Whether somebody may be let in as a member of whom this was known. */
static bool may_enter(const struct known *known, uint32_t rank, const struct auth_identity *who)
{
    for (uint32_t n = 0; n < ENDS; n++) {
        const struct auth *auth = &fuzz.ends[n].auth;

        if (auth->self.rank == rank && auth->self.incarnation == who->incarnation &&
            auth->self.life == who->life && auth->dials == (rank > SELF) &&
            auth->self.epoch == fuzz.members.epoch && offer_is_good(auth)) {
            return who->incarnation > known->incarnation ||
                   (who->incarnation == known->incarnation ? who->life == known->life
                                                           : known->state == PEER_DEAD);
        }
    }
    return false;
}

/* What one connection did to what is known: `number` is its, or was. */
static void check_change(const struct known before[MEMBERS], uint32_t number)
{
    struct known after[MEMBERS];

    look(after);
    if (fuzz.peers->is_struck) {
        return; /* it lets go of all */
    }
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
        struct auth_identity who = {.incarnation = after[rank].incarnation,
                                    .life = after[rank].life};

        if (memcmp(&before[rank], &after[rank], sizeof(after[rank])) == 0 ||
            before[rank].connection == number) {
            continue;
        }
        NIGH_ASSERT(after[rank].connection == number && after[rank].state == PEER_UP);
        NIGH_ASSERT(may_enter(&before[rank], rank, &who));
    }
}

static void check(void)
{
    struct peers *peers = fuzz.peers;
    uint32_t open = 0, handshakes = 0;

    for (uint32_t n = 0; n < PEERS_CONNECTIONS; n++) {
        const struct connection *connection = &peers->connections[n];

        open += connection->fd >= 0;
        handshakes += connection->fd >= 0 && !connection->proved && !connection->auth->dials;
        NIGH_ASSERT(connection->fd < 0 || !connection->proved ||
                    peers->members[connection->rank].connection == n);
    }
    NIGH_ASSERT(handshakes == peers->handshakes && handshakes <= LIMIT_PEER_HANDSHAKES);
    NIGH_ASSERT(fuzz.lane.count == open + (peers->listen_us == 0) + (peers->swim.swim != NULL));
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
        const struct member *member = &peers->members[rank];

        NIGH_ASSERT(peer_is_valid(&member->peer));
        NIGH_ASSERT((member->connection != PEERS_NOBODY) == member->peer.connected);
        /* A seat is let in from where it was given to alone. */
        NIGH_ASSERT(rank < LISTED || fuzz.peers->config.views == NULL ||
                    fuzz.seats[rank - LISTED][0] == '\0' || member->peer.state != PEER_UP ||
                    strcmp(fuzz.seats[rank - LISTED], member->text) == 0);
        NIGH_ASSERT(fuzz.is_full || member->owed != 0 || rank == SELF ||
                    fuzz.told[rank].up == (member->peer.state == PEER_UP));
        /* Who is struck off is nobody, to whoever is. */
        NIGH_ASSERT(member->peer.state != PEER_UP ||
                    (!peers->is_struck && !peers_rank_is_struck(peers, rank)));
    }
    NIGH_ASSERT(fuzz.ends_told == (peers->is_struck ? 1 : 0));
    NIGH_ASSERT(links_is_valid(fuzz.links));
}

/* ---- steps ----------------------------------------------------------------- */

/* Everything that is ready, once. */
static void pump(void)
{
    struct pollfd polls[WATCHES];
    uint64_t data[WATCHES];
    uint32_t count = fuzz.lane.count;

    for (uint32_t n = 0; n < count; n++) {
        polls[n] = (struct pollfd){
            .fd = fuzz.lane.fds[n],
            .events = (short)(POLLIN | ((fuzz.lane.events[n] & EPOLLOUT) != 0 ? POLLOUT : 0))};
        data[n] = fuzz.lane.data[n];
    }
    NIGH_ASSERT(poll(polls, count, 0) >= 0);
    for (uint32_t n = 0; n < count; n++) {
        uint32_t number = (uint32_t)data[n];
        struct known before[MEMBERS];

        if (number == PEERS_LISTEN || polls[n].revents == 0) {
            continue;
        }
        look(before);
        peers_ready(fuzz.peers, number, (uint32_t)polls[n].revents);
        check_change(before, number);
    }
}

static void knock(uint32_t rank)
{
    struct known before[MEMBERS];
    struct end *end;
    int fd = new_pair(&end);

    if (fd < 0) {
        return;
    }
    begin_end(end, true, rank);
    fuzz.queue[fuzz.queued++] = fd;
    look(before);
    peers_ready(fuzz.peers, PEERS_LISTEN, EPOLLIN);
    check_change(before, PEERS_LISTEN);
    while (fuzz.queued > 0) {
        (void)close(fuzz.queue[--fuzz.queued]);
    }
}

/* What the node said to an end; and what that has to say. */
static void carry(struct end *end, bool changed)
{
    uint8_t bytes[AUTH_MESSAGE_BYTES];
    const uint8_t *out;
    ssize_t got;
    uint32_t count;

    if (end->fd < 0) {
        return;
    }
    got = recv(end->fd, bytes, sizeof(bytes), 0);
    if (got == 0) {
        close_end(end);
        return;
    }
    if (got > 0 && end->auth.state == AUTH_WAITS) {
        (void)auth_input(&end->auth, bytes, (uint32_t)got);
    }
    count = auth_output(&end->auth, &out);
    if (count == 0) {
        return;
    }
    memcpy(bytes, out, count);
    auth_sent(&end->auth, count);
    if (changed) {
        fuzz_patch(&fuzz.input, bytes, count);
        end->is_changed = true;
    }
    (void)send(end->fd, bytes, count, MSG_NOSIGNAL);
}

/* A whole handshake. */
static void carry_all(struct end *end)
{
    for (uint32_t n = 0; n < 4; n++) {
        carry(end, false);
        pump();
    }
}

static void say_raw(struct end *end)
{
    uint8_t bytes[64];
    uint32_t count = 1 + fuzz_byte(&fuzz.input) % sizeof(bytes);

    fuzz_fill(&fuzz.input, bytes, count);
    if (end->fd >= 0) {
        (void)send(end->fd, bytes, count, MSG_NOSIGNAL);
    }
}

static void say_sealed(struct end *end)
{
    uint8_t how = fuzz_byte(&fuzz.input), bytes[64];
    uint32_t count;

    if (end->fd < 0 || end->auth.state != AUTH_DONE) {
        return;
    }
    count = auth_seal(&end->auth, (enum auth_message)(1 + how % 5), end->sent++, bytes);
    if (how / 8 % 8 == 7) {
        fuzz_patch(&fuzz.input, bytes, count);
    }
    (void)send(end->fd, bytes, how / 64 == 3 ? count / 2 : count, MSG_NOSIGNAL);
}

static void tick(uint64_t us)
{
    fuzz.now_us += us;
    for (uint32_t n = 0; n < 4; n++) {
        (void)peers_tick(fuzz.peers, fuzz.now_us);
    }
}

/* ---- data connections ------------------------------------------------------ */

static void links_pass(uint64_t us)
{
    sim_advance(fuzz.sim, sim_now_us(fuzz.sim) + us);
    for (uint32_t n = 0; n < 8 && links_turn(fuzz.links, fuzz.now_us); n++) {
        NIGH_ASSERT(links_is_valid(fuzz.links));
    }
}

/* Whether a token is what the member that is up says. */
static bool token_is_good(const struct auth_token *token)
{
    const struct told *told = &fuzz.told[token->rank % MEMBERS];

    return token->rank < MEMBERS && told->up && !told->info.dials && token->kind <= LINK_BULK &&
           token->rail < told->info.lanes && token->incarnation == told->info.incarnation &&
           token->target_incarnation == OUR_LIFE && token->version == told->info.version &&
           auth_token_check(token, told->info.session);
}

static void use_token(void)
{
    uint8_t how = fuzz_byte(&fuzz.input);
    const struct told *told = &fuzz.told[how % LISTED];
    struct auth_token token = {.kind = how / 4 % 2,
                               .rank = how % LISTED,
                               .rail = how / 8 % 2,
                               .incarnation = told->info.incarnation,
                               .target_incarnation = OUR_LIFE,
                               .serial = fuzz_byte(&fuzz.input),
                               .version = (uint16_t)told->info.version};
    struct fabric_endpoint_options options = {.sends = 1, .receives = 1};
    struct fabric_endpoint *endpoint;
    bool accepted = false;

    if (how / 16 % 4 == 1) {
        fuzz_patch(&fuzz.input, &token, offsetof(struct auth_token, proof));
    }
    auth_token_sign(&token, told->info.session);
    if (how / 16 % 4 == 2) {
        fuzz_patch(&fuzz.input, &token, sizeof(token));
    }
    if (fabric_connect(fuzz.stranger, "1:0", &options, &token, sizeof(token) - (how / 64 == 3),
                       &endpoint) != NIGH_OK) {
        return;
    }
    for (uint32_t n = 0; n < 20; n++) {
        struct fabric_completion completion;
        struct fabric_event event;

        links_pass(100);
        (void)fabric_poll(fuzz.stranger, &completion, 1, sim_now_us(fuzz.sim));
        while (fabric_next_event(fuzz.stranger, &event)) {
            accepted = accepted || event.kind == FABRIC_ESTABLISHED;
        }
    }
    counts.tokens++;
    if (accepted) {
        NIGH_ASSERT(token_is_good(&token) && how / 64 != 3 && token.serial > 0);
        counts.tokens_good++;
    }
    fabric_endpoint_destroy(fuzz.stranger, endpoint);
    links_pass(100);
}

/* ---- one life -------------------------------------------------------------- */

static void begin(void)
{
    struct peers_config config = {
        .members = &fuzz.members, .dead_us = 5000000, .listen = "127.0.0.1:0", .struck = on_struck};
    uint8_t how = fuzz_byte(&fuzz.input);
    struct auth_offer offer = {.lanes = 1, .addresses = {":7000"}};
    struct lane *lanes[1] = {&fuzz.lane};
    struct sim_options options = {.seed = 1};
    struct links_config links = {
        .rank = SELF,
        .incarnation = OUR_LIFE,
        .lanes = 1,
        .nodes = MEMBERS,
        .rpc = {.requests = 1, .calls = 1, .queue = 1, .payload_bytes = 8},
        .bulk_receives = 1,
        .bulk_bytes = 64,
        .reads = 1,
        .shell = {.up = on_link,
                  .down = on_link_down,
                  .request = on_link_request,
                  .bulk = on_link_bulk},
    };
    static struct lane *lanes_kept[1];
    char why[256];

    log_set_level(LOG_LEVEL_ERROR);
    NIGH_ASSERT(members_parse("127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:4", "1", &fuzz.members,
                              why, sizeof(why)) == NIGH_OK &&
                members_agree(&fuzz.members, MEMBERS, why, sizeof(why)) == NIGH_OK);
    if (how / 4 % 2 == 1) { /* a test may have said it before */
        fuzz.look = (struct agree_look){.has_lease = how / 8 % 2 == 1, .seats = how / 16 % 3};
        for (uint32_t n = 0; n < how / 64 % 3; n++) {
            snprintf(fuzz.seats[n], AGREED_ADDRESS_BYTES, "127.0.0.1:%u", 5 + n);
        }
    }
    config.views =
        how % 4 != 0 || fuzz.agrees ? (struct views *)(void *)&fuzz : NULL; /* only handed on */
    for (uint32_t n = 0; n < ENDS; n++) {
        fuzz.ends[n].fd = -1;
    }
    fuzz.now_us = 1000;
    NIGH_ASSERT(sim_create(&options, &fuzz.sim) == NIGH_OK);
    NIGH_ASSERT(sim_fabric(fuzz.sim, SELF, 0, &fuzz.fabric) == NIGH_OK);
    NIGH_ASSERT(sim_fabric(fuzz.sim, 9, 0, &fuzz.stranger) == NIGH_OK);
    NIGH_ASSERT(fabric_listen(fuzz.fabric, "1:0") == NIGH_OK);
    links.fabric = fuzz.fabric;
    NIGH_ASSERT(links_create(&links, &fuzz.links) == NIGH_OK);
    memcpy(config.key, fuzz_key, sizeof(config.key));
    NIGH_ASSERT(peers_create(&config, &fuzz.peers, why, sizeof(why)) == NIGH_OK);
    fuzz.now_us += fuzz.start_us;
    lanes_kept[0] = lanes[0];
    NIGH_ASSERT(peers_open(fuzz.peers, lanes_kept, 1, OUR_LIFE, &offer) == NIGH_OK);
    fuzz.is_open = true;
    if (how % 16 == 13) { /* the node has a seat, and the first of the list alone votes */
        fuzz.members.listed = SELF;
    }
    agreed_put(&fuzz.struck, LISTED, how / 128 == 1);
}

static void end_all(void)
{
    uint32_t here = 0;

    counts.lives++;
    counts.refused += fuzz.peers->counters.refused_members + fuzz.peers->counters.refused_key +
                      fuzz.peers->counters.refused_protocol;
    fuzz.is_full = false;
    peers_close(fuzz.peers);
    here = fuzz.lane.count;
    NIGH_ASSERT(here <= 2); /* the ports */
    peers_destroy(fuzz.peers);
    for (uint32_t n = 0; n < ENDS; n++) {
        struct end *end = &fuzz.ends[n];
        uint8_t byte;

        /* Nobody else has the node's end. */
        while (end->fd >= 0 && recv(end->fd, &byte, 1, 0) > 0) {
        }
        NIGH_ASSERT(end->fd < 0 || recv(end->fd, &byte, 1, 0) == 0 || errno == ECONNRESET);
        close_end(end);
    }
    links_destroy(fuzz.links);
    fabric_destroy(fuzz.stranger);
    fabric_destroy(fuzz.fabric);
    sim_destroy(fuzz.sim);
}

static void step(void)
{
    uint8_t command = fuzz_byte(&fuzz.input);
    struct end *end = &fuzz.ends[command / 16 % ENDS];

    switch (command % 16) {
    case 0:
    case 1: knock(2 + command / 16 % 2); break;
    case 2:
    case 3:
    case 4: carry_all(end); break;
    case 5: carry(end, false); break;
    case 6: carry(end, true); break;
    case 7: say_raw(end); break;
    case 8:
    case 9: say_sealed(end); break;
    case 10: close_end(end); break;
    case 11: tick(UINT64_C(1) << command / 16); break;
    case 12: tick((uint64_t)fuzz_byte(&fuzz.input) * 100000); break;
    case 13:
    case 14: use_token(); break;
    default: fuzz.is_full = command / 16 % 4 == 0; break;
    }
    pump();
    (void)peers_tick(fuzz.peers, fuzz.now_us);
    check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    memset(&fuzz, 0, sizeof(fuzz));
    fuzz.input = (struct fuzz_input){.bytes = data, .left = size_bytes};
    begin();
    tick(1);
    for (uint32_t n = 0; n < STEPS && fuzz.input.left > 0; n++) {
        step();
    }
    end_all();
    return 0;
}
