/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member that has the key and misuses it, for scripts that test a cluster:
 *
 *   cluster-liar LIST RANK KEY_FILE [HOW]...
 *
 * It is let in by every node of a lower rank, as any member is, and then does at each of them, as
 * fast as it is let, until its standard input ends:
 *   keys      announces objects that it has not got
 *   waits     asks for objects that are nowhere, to be told when they come
 *   loans     borrows what is announced to it and what it guesses, over and over, and gives nothing
 * back deletes   announces objects and deletes them, and never answers when it is told to drop them
 *   strangers deletes and drops what is not its own to, announces births of others
 *   rebirths  says it is back under a higher incarnation, over and over
 *   links     ends its connections of the fabric as soon as they are up
 *   mute      answers no call at all
 *   bait      lends what it is asked for, 8 MiB each, and never has anything of it read
 * As a home it knows of nothing. It prints a line of JSON once a second, and one at the end: what
 * it was answered, by status, and what the nodes keep for it by its own books.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/blake.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"
#include "cluster/auth.h"
#include "cluster/link.h"
#include "cluster/members.h"
#include "fabric/tcp/tcp.h"
#include "object/exchange_wire.h"
#include "rpc/calls.h"
#include "rpc/collect.h"

/* As exchanges of up to eight members have them; what is not told must be equal. */
#define REQUESTS   32u
#define CALLS      48u
#define PAYLOAD    8448u
#define BULKS      16u
#define USERS      64u /* requests of the channel for calls */
#define USER_CALLS 72u /* its calls, with the urgent ones */
#define BULK       (32768u + (uint32_t)sizeof(struct wire_chunk))
#define RECORDS    64u   /* of one ANNOUNCE */
#define KNOWN      4096u /* objects of others that it remembers */
#define READS      64u   /* under way over one endpoint, as it says */
#define WRITES     64u /* the same, of regions: without, it had no endpoints for these, and no link */
#define LOANS      65536u
#define GUESSED    100u /* names of objects that it tries */
#define BAITS      2u   /* taken; then it stands still, but for the control connection */
#define BAIT_BYTES (UINT64_C(8) << 20)
#define STATUSES   64
#define GIVE_UP_US UINT64_C(100000) /* a call that is not answered makes room for the next */

enum how {
    KEYS = 1,
    WAITS = 2,
    LOANS_KEPT = 4,
    DELETES = 8,
    STRANGERS = 16,
    REBIRTHS = 32,
    LINKS = 64,
    MUTE = 128,
    BAIT = 256,
    REPLICAS = 512
};

static const char *const names[] = {"keys",     "waits", "loans", "deletes", "strangers",
                                    "rebirths", "links", "mute",  "bait",    "replicas"};

struct known {
    struct directory_key key;
    struct directory_object object;
};

struct node {
    uint32_t rank;
    int fd; /* of the control connection; -1: none */
    struct auth auth;
    uint64_t sent, ping_us;
    struct link *link; /* NULL: not up */
    struct known known[KNOWN];
    uint32_t known_count, known_next;
    uint64_t loans[LOANS];
    uint32_t loan_count, renewed;
    uint64_t renew_us;
};

static struct members members;
static uint8_t cluster_key[AUTH_KEY_BYTES];
static struct node nodes[LIMIT_NODES];
static struct fabric *fabric;
static struct links *links;
static struct random dice;
static uint32_t how, incarnation;
static uint64_t now_us, baited, births, answers[STATUSES], connections;

static void die(const char *why)
{
    (void)fprintf(stderr, "cluster-liar: %s\n", why);
    exit(2);
}

/* ---- the control connection ------------------------------------------------ */

static int dial(const char *address)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    char host[MEMBERS_ADDRESS_BYTES];
    char *colon;
    int fd;

    (void)snprintf(host, sizeof(host), "%s", address);
    colon = strrchr(host, ':');
    *colon = '\0';
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0) {
        die("a member's address is none");
    }
    fd = socket(found->ai_family, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
        (void)close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

/* Proves that it is a member. False: it was not let in. */
static bool shake_hands(struct node *node)
{
    struct auth_identity self = {.rank = members.self,
                                 .incarnation = incarnation,
                                 .life = (uint32_t)random_u64(&dice),
                                 .epoch = members.epoch};
    struct auth_offer offer = {.lanes = 1};
    uint8_t nonce[AUTH_NONCE_BYTES], byte;
    const uint8_t *bytes;
    uint32_t count;

    (void)snprintf(offer.addresses[0], sizeof(offer.addresses[0]), ":1");
    (void)random_system_fill(nonce, sizeof(nonce));
    auth_begin(&node->auth, true, cluster_key, &self, &offer, node->rank, nonce);
    do {
        while ((count = auth_output(&node->auth, &bytes)) > 0) {
            ssize_t n = send(node->fd, bytes, count, MSG_NOSIGNAL);

            if (n <= 0) {
                return false;
            }
            auth_sent(&node->auth, (uint32_t)n);
        }
        if (node->auth.state == AUTH_WAITS) {
            if (recv(node->fd, &byte, 1, 0) != 1) {
                return false;
            }
            (void)auth_input(&node->auth, &byte, 1);
        }
    } while (node->auth.state == AUTH_WAITS || auth_output(&node->auth, &bytes) > 0);
    return node->auth.state == AUTH_DONE;
}

static void leave(struct node *node)
{
    if (node->fd >= 0) {
        links_peer_down(links, node->rank, NIGH_PEER_LOST, now_us);
        (void)close(node->fd);
        node->fd = -1;
    }
}

static void join(struct node *node)
{
    struct link_peer peer = {.rank = node->rank, .dials = true};

    node->fd = dial(members.addresses[node->rank]);
    if (node->fd < 0 || !shake_hands(node)) {
        if (node->fd >= 0) {
            (void)close(node->fd);
            node->fd = -1;
        }
        return;
    }
    connections++;
    node->sent = 0;
    node->ping_us = now_us;
    peer.incarnation = node->auth.peer.incarnation;
    peer.lanes = node->auth.offer.lanes;
    peer.bulk_endpoints = node->auth.offer.bulk_endpoints;
    peer.region_endpoints = node->auth.offer.region_endpoints;
    peer.version = node->auth.version;
    memcpy(peer.session, node->auth.session, sizeof(peer.session));
    for (uint32_t lane = 0; lane < peer.lanes; lane++) {
        const char *host = members.addresses[node->rank];

        (void)snprintf(peer.addresses[lane], sizeof(peer.addresses[lane]), "%.*s%s",
                       (int)(strrchr(host, ':') - host), host, node->auth.offer.addresses[lane]);
    }
    if (links_peer_up(links, &peer, now_us) != NIGH_OK) {
        leave(node);
    }
}

/* Pings, and takes what comes. */
static void keep_control(struct node *node)
{
    uint8_t bytes[4096], ping[64];
    ssize_t n;

    if (node->fd < 0) {
        join(node);
        return;
    }
    do {
        n = recv(node->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    } while (n > 0);
    if (now_us >= node->ping_us) {
        uint32_t count = auth_seal(&node->auth, AUTH_PING, node->sent++, ping);

        node->ping_us = now_us + 300000;
        if (send(node->fd, ping, count, MSG_NOSIGNAL) != (ssize_t)count) {
            n = 0;
        }
    }
    if (n == 0) {
        leave(node);
    }
}

static struct directory_object fresh_object(void)
{
    return (struct directory_object){
        .birth = {.counter = ++births, .incarnation = incarnation, .rank = members.self},
        .data_size = UINT64_C(1) << 20};
}

/* ---- what it is asked ------------------------------------------------------- */

static void remember(struct node *node, const uint8_t *payload, uint32_t bytes)
{
    struct wire_announce said;

    for (uint32_t at = 0; at + sizeof(said) <= bytes; at += (uint32_t)sizeof(said)) {
        memcpy(&said, payload + at, sizeof(said));
        if ((said.flags & WIRE_GONE) == 0) {
            node->known[node->known_next++ % KNOWN] = (struct known){said.key, said.object};
            node->known_count += node->known_count < KNOWN ? 1 : 0;
        }
    }
}

static void on_request(void *context, struct link *link, const struct rpc_request *request,
                       uint64_t now)
{
    static const int8_t fine[PAYLOAD];
    struct wire_located nowhere = {.state = DIRECTORY_ABSENT};
    struct {
        struct wire_pulled pulled;
        struct wire_piece piece;
    } bait;
    struct rpc_piece piece = {.data = fine};

    (void)context;
    (void)now;
    if (request->method == WIRE_ANNOUNCE) {
        remember(&nodes[link_rank(link)], request->payload, request->bytes);
        piece.bytes = request->bytes / (uint32_t)sizeof(struct wire_announce);
    }
    if (request->call == 0 || (how & MUTE) != 0 ||
        (request->method == WIRE_DROP && (how & DELETES) != 0)) {
        return;
    }
    if (request->method == WIRE_PROBE) { /* its links are what others want measured, and are not */
        rpc_reply(link_rpc(link), request->call, NIGH_UNSUPPORTED, NULL, 0);
        return;
    }
    if (request->method == WIRE_LOCATE && (how & BAIT) != 0) {
        bait.pulled = (struct wire_pulled){.state = WIRE_PULLED,
                                           .way = WIRE_LOAN,
                                           .object = fresh_object(),
                                           .sums = {.known = 1},
                                           .bytes = BAIT_BYTES,
                                           .serve = 1,
                                           .pieces = 1};
        bait.pulled.object.data_size = BAIT_BYTES;
        bait.piece = (struct wire_piece){.address = 4096, .bytes = BAIT_BYTES, .key = 1};
        piece = (struct rpc_piece){.data = &bait, .bytes = sizeof(bait)};
        baited++;
    } else if (request->method == WIRE_LOCATE) {
        piece = (struct rpc_piece){.data = &nowhere, .bytes = sizeof(nowhere)};
    }
    rpc_reply(link_rpc(link), request->call,
              request->method == WIRE_PULL ? NIGH_NOT_FOUND : NIGH_OK, &piece,
              piece.bytes > 0 ? 1 : 0);
}

/* What came of a call of many: nothing, rubbish, or more than there are. */
static void answer_many(struct link *link, uint64_t call)
{
    static uint8_t said[sizeof(struct collect_said) + 64];
    static uint32_t turns;
    struct rpc_piece piece = {.data = said, .bytes = ++turns * 31 % sizeof(said)};

    random_fill(&dice, said, sizeof(said));
    if (turns % 3 == 0) {
        struct collect_said good = {.answered = 3};

        memcpy(said, &good, sizeof(good));
        piece.bytes = sizeof(good);
    }
    rpc_reply(link_calls(link), call, NIGH_OK, &piece, piece.bytes > 0 ? 1 : 0);
}

/* It has no services. */
static void on_called(void *context, struct link *link, const struct rpc_request *request,
                      uint64_t now)
{
    (void)context;
    (void)now;
    if (request->call != 0 && request->method == CALLS_METHOD_COLLECT) {
        answer_many(link, request->call);
    } else if (request->call != 0) {
        rpc_reply(link_calls(link), request->call, NIGH_PENDING, NULL, 0);
    }
}

static void on_nothing(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                       uint64_t now)
{
    (void)context;
    (void)status;
    (void)payload;
    (void)bytes;
    (void)now;
}

/* A call of many whose head is right but in one place, or in none: of the right version it goes on
 * to the other node. */
static void call_many(struct link *link, uint64_t now)
{
    static uint32_t turns;
    struct {
        struct calls_wire called;
        struct collect_wire wire;
    } said = {.wire = {.version = members.epoch,
                       .origin = members.self,
                       .fan = 2 + turns % 3,
                       .depth = 1 + turns % 20}};
    struct rpc_piece piece = {.data = &said, .bytes = sizeof(said)};

    ranks_put(&said.wire.ranks, link_rank(link));
    ranks_put(&said.wire.ranks, turns % members.count);
    if (++turns % 4 == 0) {
        random_fill(&dice, (uint8_t *)&said.wire + random_below(&dice, 52), 4);
    }
    (void)rpc_call(link_calls(link), CALLS_METHOD_COLLECT, &piece, 1, now + GIVE_UP_US, now,
                   on_nothing, NULL, NULL);
}

/* Calls and messages of all lengths around a call's head, of methods that there are not, of
 * services that nobody has. */
static void call_rubbish(struct link *link, uint64_t now)
{
    static const uint8_t rubbish[CALLS_PAYLOAD] = {0xff, 0xff, 0xff};
    static uint32_t ups;

    for (uint32_t n = 0; n < USERS / 2; n++) {
        struct rpc_piece piece = {.data = rubbish, .bytes = n == 31 ? CALLS_PAYLOAD : n};

        (void)rpc_one_way(link_calls(link), n % 3 == 0 ? CALLS_METHOD_COLLECT : CALLS_METHOD,
                          &piece, 1, now);
        if (n % 4 == 0) {
            call_many(link, now);
        }
        (void)rpc_one_way(link_calls(link), CALLS_METHOD_OFFERS, &piece, 1, now);
        (void)rpc_call(link_calls(link), n % 5 == 0 ? 0xffff : CALLS_METHOD, &piece, 1,
                       now + GIVE_UP_US, now, on_nothing, NULL, NULL);
    }
    /* Of memory that nobody lent, which costs the link: not each time. */
    if (++ups % 4 == 0) {
        struct rpc_piece piece = {.data = rubbish, .bytes = sizeof(struct bulks_push)};

        (void)rpc_one_way(link_calls(link), (uint16_t)(BULKS_METHOD_PUSH + ups / 4 % 3), &piece, 1,
                          now);
    }
}

static void on_up(void *context, struct link *link, uint64_t now)
{
    (void)context;
    nodes[link_rank(link)].link = link;
    call_rubbish(link, now);
    (void)rpc_one_way(link_rpc(link), WIRE_ANNOUNCED, NULL, 0, now);
}

static void on_down(void *context, struct link *link, nigh_status reason, uint64_t now)
{
    struct node *node = &nodes[link_rank(link)];

    (void)context;
    (void)reason;
    (void)now;
    node->link = NULL;
    node->loan_count = 0;
}

static void on_bulk(void *context, struct link *link, const uint8_t *bytes, uint32_t count,
                    uint64_t now)
{
    (void)context;
    (void)link;
    (void)bytes;
    (void)count;
    (void)now;
}

/* ---- what it says ----------------------------------------------------------- */

static void count(int status)
{
    answers[status <= 0 && status > -STATUSES ? -status : STATUSES - 1]++;
}

static void on_status(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                      uint64_t now)
{
    (void)context;
    (void)payload;
    (void)bytes;
    (void)now;
    count((int)status);
}

/* Of an ANNOUNCE: one of each record. */
static void on_statuses(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                        uint64_t now)
{
    on_status(context, status, payload, bytes, now);
    for (uint32_t n = 0; status == NIGH_OK && n < bytes; n++) {
        count((int8_t)payload[n]);
    }
}

static void on_replica_states(void *context, nigh_status status, const uint8_t *payload,
                              uint32_t bytes, uint64_t now)
{
    struct wire_replica_state state;

    on_status(context, status, payload, bytes, now);
    for (uint32_t n = 0; status == NIGH_OK && n + sizeof(state) <= bytes; n += sizeof(state)) {
        memcpy(&state, payload + n, sizeof(state));
        count((int)state.status);
    }
}

static void on_loan(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                    uint64_t now)
{
    struct node *node = context;
    struct wire_pulled pulled;

    on_status(context, status, payload, bytes, now);
    if (status == NIGH_OK && bytes >= sizeof(pulled)) {
        memcpy(&pulled, payload, sizeof(pulled));
        if (pulled.way == WIRE_LOAN && node->loan_count < LOANS) {
            node->loans[node->loan_count++] = pulled.serve;
        }
    }
}

/* What an answer holds is the call's to say: sizes tell nothing. */
static rpc_done *hears(uint16_t method)
{
    switch (method) {
    case WIRE_ANNOUNCE: return on_statuses;
    case WIRE_REPLICAS: return on_replica_states;
    case WIRE_LOCATE:
    case WIRE_PULL: return on_loan;
    default: return on_status;
    }
}

/* False: no room in the channel now. */
static bool say(struct node *node, uint16_t method, const void *said, size_t bytes)
{
    struct rpc_piece piece = {.data = said, .bytes = (uint32_t)bytes};

    return rpc_call(link_rpc(node->link), method, &piece, 1, now_us + GIVE_UP_US, now_us,
                    hears(method), node, NULL) == NIGH_OK;
}

/* A key that was never used, whose home the node is. */
static struct directory_key fresh_key(const struct node *node)
{
    struct directory_key key = {.pool = 1};

    do {
        random_fill(&dice, key.id, sizeof(key.id));
    } while (members_home(&members, directory_key_hash(&key)) != node->rank);
    return key;
}

static bool announce(struct node *node)
{
    struct wire_announce said[RECORDS];

    for (uint32_t n = 0; n < RECORDS; n++) {
        said[n] = (struct wire_announce){.key = fresh_key(node), .object = fresh_object()};
    }
    return say(node, WIRE_ANNOUNCE, said, sizeof(said));
}

static bool wait_for_nothing(struct node *node)
{
    struct wire_locate said = {.key = fresh_key(node), .wait = WIRE_WAIT_TELL};

    return say(node, WIRE_LOCATE, &said, sizeof(said));
}

/* An object that cluster-load may have put, where the home would lend it at once. */
static bool borrow_by_name(struct node *node, uint64_t pool)
{
    struct wire_locate said = {.key = {.pool = pool}};
    char name[32];

    (void)snprintf(name, sizeof(name), "load-%u", (uint32_t)random_below(&dice, GUESSED));
    blake_id20(name, strlen(name), said.key.id);
    return members_home(&members, directory_key_hash(&said.key)) != node->rank ||
           say(node, WIRE_LOCATE, &said, sizeof(said));
}

static bool borrow(struct node *node)
{
    const struct known *known =
        &node->known[random_below(&dice, node->known_count > 0 ? node->known_count : 1)];
    struct wire_pull said = {.key = known->key, .birth = known->object.birth, .way = WIRE_LOAN};

    /* First many of few. */
    for (uint32_t n = 0; n < 8 && node->loan_count < LOANS / 16; n++) {
        if (node->known_count == 0 || !borrow_by_name(node, known->key.pool)) {
            return false;
        }
    }
    return node->known_count > 0 && say(node, WIRE_PULL, &said, sizeof(said));
}

static bool delete_own(struct node *node)
{
    struct wire_announce born = {.key = fresh_key(node), .object = fresh_object()};
    struct wire_delete said = {.key = born.key};

    return say(node, WIRE_ANNOUNCE, &born, sizeof(born)) &&
           say(node, WIRE_DELETE, &said, sizeof(said));
}

/* What others announced to this node or to it, as if it were its own to say. */
static bool meddle(struct node *node)
{
    const struct known *known =
        &node->known[random_below(&dice, node->known_count > 0 ? node->known_count : 1)];
    struct wire_drop drop = {.key = fresh_key(node), .birth = known->object.birth};
    struct wire_announce born = {.key = fresh_key(node), .object = known->object};

    return say(node, WIRE_DROP, &drop, sizeof(drop)) &&
           say(node, WIRE_ANNOUNCE, &born, sizeof(born));
}

/* Says of each loan that it is still read. */
static void renew(struct node *node)
{
    for (uint32_t n = 0; n < 256 && node->renewed < node->loan_count; n++) {
        struct wire_more more = {.serve = node->loans[node->renewed]};
        struct rpc_piece piece = {.data = &more, .bytes = sizeof(more)};

        if (rpc_one_way(link_rpc(node->link), WIRE_MORE, &piece, 1, now_us) != NIGH_OK) {
            return;
        }
        node->renewed++;
    }
    if (node->renewed >= node->loan_count && now_us >= node->renew_us) {
        node->renewed = 0;
        node->renew_us = now_us + 3000000;
    }
}

/* Says that it holds replicas of what it holds not, eight of each, and has others make such of what
 * they told of, whether it is the one to ask or not. */
static bool replicate(struct node *node)
{
    const struct known *known =
        &node->known[random_below(&dice, node->known_count > 0 ? node->known_count : 1)];
    struct wire_replica told = {.key = fresh_key(node), .object = fresh_object(), .wanted = 8};
    struct wire_replicate asked = {.key = told.key, .object = told.object, .wanted = 8};

    /* Of what they told it of it is the keeper; of the other it is not. */
    if (node->known_count > 0 && random_below(&dice, 2) == 0) {
        asked.key = known->key;
        asked.object = known->object;
    }
    return say(node, WIRE_REPLICAS, &told, sizeof(told)) &&
           say(node, WIRE_REPLICATE, &asked, sizeof(asked));
}

static void misbehave(struct node *node)
{
    static bool (*const ways[])(struct node *) = {announce, wait_for_nothing, borrow, delete_own,
                                                  meddle};

    if (node->link == NULL) {
        return;
    }
    if ((how & LINKS) != 0) {
        link_break(node->link, NIGH_PEER_LOST, now_us);
        return;
    }
    if ((how & LOANS_KEPT) != 0) {
        renew(node);
    }
    for (uint32_t i = 0; (how & REPLICAS) != 0 && i < CALLS / 4 && replicate(node); i++) {
    }
    for (uint32_t n = 0; n < sizeof(ways) / sizeof(*ways); n++) {
        for (uint32_t i = 0; (how >> n & 1) != 0 && i < CALLS / 4; i++) {
            if (!ways[n](node)) {
                break;
            }
        }
    }
}

/* ---- the program ------------------------------------------------------------ */

static void print(void)
{
    uint32_t up = 0, loans = 0;

    for (uint32_t rank = 0; rank < members.self; rank++) {
        up += nodes[rank].link != NULL ? 1 : 0;
        loans += nodes[rank].loan_count;
    }
    printf("{\"up\": %u, \"loans\": %u, \"baited\": %" PRIu64 ", \"connections\": %" PRIu64, up,
           loans, baited, connections);
    for (int n = 0; n < STATUSES; n++) {
        if (answers[n] > 0) {
            printf(", \"%s\": %" PRIu64, nigh_status_name((nigh_status)-n), answers[n]);
        }
    }
    printf("}\n");
    (void)fflush(stdout);
}

static void open_links(void)
{
    struct links_config config = {
        .rank = members.self,
        .incarnation = incarnation,
        .lanes = 1,
        .nodes = members.count,
        .rpc = {.requests = REQUESTS,
                .calls = CALLS,
                .queue = 8,
                .payload_bytes = PAYLOAD,
                .epoch = members.epoch},
        .waits = 512,
        .calls = {.requests = USERS,
                  .calls = USER_CALLS,
                  .payload_bytes = CALLS_PAYLOAD,
                  .epoch = members.epoch},
        .bulk_receives = BULKS,
        .bulk_bytes = BULK,
        .reads = READS,
        .writes = WRITES,
        .shell = {.up = on_up,
                  .down = on_down,
                  .request = on_request,
                  .bulk = on_bulk,
                  .called = on_called},
    };

    if (tcp_create(NULL, &fabric) != NIGH_OK) {
        die("no fabric");
    }
    config.fabric = fabric;
    if (links_create(&config, &links) != NIGH_OK) {
        die("no links");
    }
}

/* All of it again, as a process that was started anew would. */
static void be_reborn(void)
{
    for (uint32_t rank = 0; rank < members.self; rank++) {
        leave(&nodes[rank]);
    }
    links_destroy(links);
    fabric_destroy(fabric);
    incarnation++;
    open_links();
}

static void read_key(const char *path)
{
    uint8_t text[256];
    char why[256];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

    if (n < 0 || auth_key_parse(text, (size_t)n, cluster_key, why, sizeof(why)) != NIGH_OK) {
        die("no key");
    }
    (void)close(fd);
}

static bool is_over(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;

    return poll(&in, 1, 0) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

int main(int argc, char **argv)
{
    uint64_t print_us = 0, reborn_us = 0;
    char why[256];

    if (argc < 4 || members_parse(argv[1], argv[2], &members, why, sizeof(why)) != NIGH_OK) {
        die("usage: cluster-liar LIST RANK KEY_FILE [HOW]...");
    }
    read_key(argv[3]);
    for (int n = 4; n < argc; n++) {
        for (uint32_t bit = 0; bit < sizeof(names) / sizeof(*names); bit++) {
            how |= strcmp(argv[n], names[bit]) == 0 ? 1u << bit : 0;
        }
    }
    now_us = clock_now_us(&clock_monotonic);
    random_init(&dice, now_us);
    incarnation = (uint32_t)(now_us / 10000) +
                  1; /* above that of whom it follows, however often that was reborn */
    open_links();
    for (uint32_t rank = 0; rank < members.self; rank++) {
        nodes[rank].rank = rank;
        nodes[rank].fd = -1;
    }
    while (!is_over()) {
        bool worked;

        now_us = clock_now_us(&clock_monotonic);
        if ((how & REBIRTHS) != 0 && now_us >= reborn_us) {
            reborn_us = now_us + 20000;
            be_reborn();
        }
        for (uint32_t rank = 0; rank < members.self; rank++) {
            keep_control(&nodes[rank]);
            misbehave(&nodes[rank]);
        }
        worked = baited < BAITS && links_turn(links, now_us);
        if (now_us >= print_us) {
            print_us = now_us + 1000000;
            print();
        }
        if (!worked) {
            struct pollfd doze = {.fd = baited < BAITS ? fabric_fd(fabric) : -1, .events = POLLIN};

            (void)poll(&doze, 1, 1);
        }
    }
    print();
    return 0;
}
