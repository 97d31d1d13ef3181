/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is the tcp provider's own: addresses, the wire, strangers and peers that lie, bounds. What
 * the contract promises is tested over all providers in tests/conformance.
 */
#include "support/support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "fabric/tcp/tcp_internal.h"

#define MIB         (UINT64_C(1) << 20)
#define AREA        (64 * MIB)
#define DEPTH       32u
#define PATIENCE_MS 10000
#define LOG_ENTRIES 256u

/* ---- one fabric, an area, and what it said ---- */

struct side {
    struct fabric *fabric;
    struct fabric_endpoint *endpoint; /* the last requested or dialled */
    struct fabric_memory *memory;
    uint8_t *area;
    uint64_t skew_us;
    uint32_t requests, established, disconnected;
    nigh_status status;
    struct fabric_completion log[LOG_ENTRIES];
    uint32_t logged;
};

static const struct fabric_endpoint_options depths = {.sends = DEPTH, .receives = DEPTH};

static void side_open_as(struct side *side, const char *address, const struct tcp_options *options)
{
    memset(side, 0, sizeof(*side));
    assert_int_equal(tcp_create(options, &side->fabric), NIGH_OK);
    side->area = calloc(1, AREA);
    assert_non_null(side->area);
    assert_int_equal(fabric_memory_register(side->fabric, side->area, AREA, FABRIC_HOST,
                                            FABRIC_LOCAL_WRITE | FABRIC_REMOTE_READ |
                                                FABRIC_REMOTE_WRITE | FABRIC_REMOTE_ATOMIC,
                                            &side->memory),
                     NIGH_OK);
    if (address != NULL)
        assert_int_equal(fabric_listen(side->fabric, address), NIGH_OK);
}

static void side_open(struct side *side, const char *address)
{
    side_open_as(side, address, NULL);
}

static void side_close(struct side *side)
{
    fabric_destroy(side->fabric);
    free(side->area);
}

static bool side_poll(struct side *side)
{
    struct fabric_event event;
    uint32_t n;

    n = fabric_poll(side->fabric, side->log + side->logged, LOG_ENTRIES - side->logged,
                    support_now_us() + side->skew_us);
    side->logged += n;
    while (fabric_next_event(side->fabric, &event)) {
        side->requests += event.kind == FABRIC_REQUEST;
        side->established += event.kind == FABRIC_ESTABLISHED;
        side->disconnected += event.kind == FABRIC_DISCONNECTED;
        if (event.kind == FABRIC_DISCONNECTED)
            side->status = event.status;
        if (event.kind == FABRIC_REQUEST)
            side->endpoint = event.endpoint;
    }
    return n > 0;
}

#define COMES(side, condition)              \
    SUPPORT_WAIT(({                         \
                     (void)side_poll(side); \
                     (condition);           \
                 }),                        \
                 PATIENCE_MS)
#define COMES2(a, b, condition)          \
    SUPPORT_WAIT(({                      \
                     (void)side_poll(a); \
                     (void)side_poll(b); \
                     (condition);        \
                 }),                     \
                 PATIENCE_MS)

static struct fabric_slice slice_of(const struct side *side, uint64_t offset, uint64_t bytes)
{
    return (struct fabric_slice){side->area + offset, bytes, side->memory};
}

static void post_receive(struct side *side, uint64_t tag, uint64_t offset, uint64_t bytes)
{
    const struct fabric_receive receive = {.tag = tag, .slice = slice_of(side, offset, bytes)};

    assert_int_equal(fabric_post_receive(side->fabric, side->endpoint, &receive, NULL), NIGH_OK);
}

static nigh_status post(struct side *side, enum fabric_op op, uint64_t tag, uint64_t offset,
                        uint64_t bytes, struct fabric_remote remote)
{
    const struct fabric_slice slice = slice_of(side, offset, bytes);
    const struct fabric_work work = {.op = op,
                                     .flags = FABRIC_SIGNALLED,
                                     .tag = tag,
                                     .slices = &slice,
                                     .slice_count = 1,
                                     .remote = remote};

    return fabric_post(side->fabric, side->endpoint, &work, NULL);
}

static uint32_t count_of(const struct side *side, nigh_status status)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < side->logged; i++)
        count += side->log[i].status == status;
    return count;
}

/* Two sides, connected. */
static void join(struct side *dialler, struct side *acceptor, const char *listen)
{
    char address[FABRIC_ADDRESS_BYTES];

    side_open(dialler, NULL);
    side_open(acceptor, listen);
    fabric_address(acceptor->fabric, address);
    assert_int_equal(fabric_connect(dialler->fabric, address, &depths, NULL, 0, &dialler->endpoint),
                     NIGH_OK);
    assert_true(COMES2(dialler, acceptor, acceptor->requests == 1));
    assert_int_equal(fabric_accept(acceptor->fabric, acceptor->endpoint, &depths, NULL, 0),
                     NIGH_OK);
    assert_true(COMES2(dialler, acceptor, acceptor->established == 1 && dialler->established == 1));
}

/* ---- a peer made of a bare socket ---- */

static int stranger_by(const struct side *side, int family)
{
    struct sockaddr_in there = {.sin_family = AF_INET};
    struct sockaddr_in6 there6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    char address[FABRIC_ADDRESS_BYTES];
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    fabric_address(side->fabric, address);
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    there.sin_port = there6.sin6_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    assert_true(fd >= 0);
    assert_int_equal(family == AF_INET6 ? connect(fd, (struct sockaddr *)&there6, sizeof(there6))
                                        : connect(fd, (struct sockaddr *)&there, sizeof(there)),
                     0);
    return fd;
}

static int stranger(const struct side *side)
{
    return stranger_by(side, AF_INET);
}

static void say(int fd, const void *bytes, size_t count)
{
    assert_int_equal(send(fd, bytes, count, MSG_NOSIGNAL), count);
}

static bool is_closed(int fd)
{
    uint8_t byte;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* All of it, while the side is polled. */
static void hear(struct side *side, int fd, uint8_t *bytes, size_t count)
{
    size_t have = 0;

    assert_true(COMES(side, ({
                          ssize_t n = recv(fd, bytes + have, count - have, MSG_DONTWAIT);

                          have += n > 0 ? (size_t)n : 0;
                          have == count;
                      })));
}

static void greet(int fd)
{
    const struct tcp_preamble preamble = {
        .kind = TCP_PREAMBLE_CONNECT, .private_bytes = 2, .private_data = "hi"};
    uint8_t bytes[TCP_PREAMBLE_BYTES];

    tcp_preamble_write(&preamble, bytes);
    say(fd, bytes, sizeof(bytes));
}

/* A stranger whom the side has accepted. */
static int accepted_by(struct side *side, int family)
{
    uint32_t established = side->established, requests = side->requests;
    uint8_t answer[TCP_PREAMBLE_BYTES];
    struct tcp_preamble preamble;
    int fd = stranger_by(side, family);

    greet(fd);
    assert_true(COMES(side, side->requests > requests));
    assert_int_equal(fabric_accept(side->fabric, side->endpoint, &depths, NULL, 0), NIGH_OK);
    assert_true(COMES(side, side->established > established));
    hear(side, fd, answer, sizeof(answer));
    assert_int_equal(tcp_preamble_read(answer, &preamble), NIGH_OK);
    assert_int_equal(preamble.kind, TCP_PREAMBLE_ACCEPT);
    return fd;
}

static int accepted(struct side *side)
{
    return accepted_by(side, AF_INET);
}

static void say_frame(int fd, const struct tcp_frame *frame)
{
    uint8_t bytes[TCP_FRAME_BYTES];

    tcp_frame_write(frame, bytes);
    say(fd, bytes, sizeof(bytes));
}

static struct tcp_frame hear_frame(struct side *side, int fd)
{
    uint8_t bytes[TCP_FRAME_BYTES];
    struct tcp_frame frame;

    hear(side, fd, bytes, sizeof(bytes));
    assert_int_equal(tcp_frame_read(bytes, &frame), NIGH_OK);
    return frame;
}

/* ---- addresses ---- */

static void addresses_are_numbers_with_a_port(void **state)
{
    static const char *const good[] = {"1.2.3.4:5", "[::1]:65535", "0.0.0.0:1", "[fe80::1%lo]:7"};
    static const char *const bad[] = {"",           ":",         "1.2.3.4",       "1.2.3.4:",
                                      ":5",         "1.2.3.4:0", "1.2.3.4:65536", "1.2.3.4:+5",
                                      "::1:5",      "[::1]",     "[::1:5",        "::1]:5",
                                      "[]:5",       "host:5",    "1.2.3.4:5 ",    "1.2.3.4:5:6",
                                      "[1.2.3.4:5", "*:5",       "1.2.3.4:00000"};
    struct address address;
    char text[FABRIC_ADDRESS_BYTES], endless[3 * FABRIC_ADDRESS_BYTES];

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        assert_int_equal(address_parse(good[i], &address), NIGH_OK);
        address_format(&address, text);
        assert_string_equal(text, good[i]);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        assert_int_equal(address_parse(bad[i], &address), NIGH_INVALID);
    memset(endless, '1', sizeof(endless));
    memcpy(endless + sizeof(endless) - 3, ":1", 3);
    assert_int_equal(address_parse(endless, &address), NIGH_INVALID);
}

static nigh_status try_listen(const char *address, char where[FABRIC_ADDRESS_BYTES])
{
    struct fabric *fabric;
    nigh_status status;

    assert_int_equal(tcp_create(NULL, &fabric), NIGH_OK);
    status = fabric_listen(fabric, address);
    fabric_address(fabric, where);
    fabric_destroy(fabric);
    return status;
}

static void listening_takes_every_form(void **state)
{
    struct side side;
    char where[FABRIC_ADDRESS_BYTES];

    (void)state;
    assert_int_equal(try_listen("127.0.0.1:0", where), NIGH_OK);
    assert_memory_equal(where, "127.0.0.1:", 10);
    assert_int_not_equal(atoi(where + 10), 0);
    assert_int_equal(try_listen("localhost:0", where), NIGH_OK);
    assert_int_equal(try_listen("*:0", where), NIGH_OK);
    assert_memory_equal(where, "*:", 2);
    assert_int_not_equal(atoi(where + 2), 0);
    assert_int_equal(try_listen("192.0.2.1:0", where), NIGH_INVALID); /* nobody's */
    assert_int_equal(try_listen("127.0.0.1", where), NIGH_INVALID);
    assert_string_equal(where, "");
    side_open(&side, "127.0.0.1:0");
    fabric_address(side.fabric, where);
    assert_int_equal(try_listen(where, where), NIGH_BUSY);
    assert_int_equal(fabric_listen(side.fabric, "127.0.0.1:0"), NIGH_BUSY);
    side_close(&side);
}

static bool has_ipv6(void)
{
    struct sockaddr_in6 here = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&here, sizeof(here)) == 0;

    if (fd >= 0)
        close(fd);
    return has;
}

static void a_message_crosses(const char *listen)
{
    struct side alice, bob;

    join(&alice, &bob, listen);
    post_receive(&bob, 7, 0, 100);
    memcpy(alice.area, "far memory, near", 17);
    assert_int_equal(post(&alice, FABRIC_SEND, 1, 0, 17, (struct fabric_remote){0}), NIGH_OK);
    assert_true(COMES2(&alice, &bob, alice.logged == 1 && bob.logged == 1));
    assert_int_equal(bob.log[0].bytes, 17);
    assert_string_equal((char *)bob.area, "far memory, near");
    side_close(&alice);
    side_close(&bob);
}

static void messages_cross_over_ipv6(void **state)
{
    (void)state;
    if (!has_ipv6())
        SUPPORT_SKIP("no IPv6 here");
    a_message_crosses("[::1]:0");
}

static void both_families_reach_a_wildcard(void **state)
{
    struct side side;

    (void)state;
    side_open(&side, "*:0");
    close(accepted_by(&side, AF_INET));
    if (has_ipv6())
        close(accepted_by(&side, AF_INET6));
    else
        printf("# IPv6 was not tried: there is no ::1 here\n");
    side_close(&side);
}

/* ---- the wire ---- */

static void preambles_read_back(void **state)
{
    struct tcp_preamble in = {.kind = TCP_PREAMBLE_ACCEPT}, out;
    uint8_t bytes[TCP_PREAMBLE_BYTES], wrong[TCP_PREAMBLE_BYTES];

    (void)state;
    in.private_bytes = FABRIC_PRIVATE_BYTES;
    memset(in.private_data, 0xa5, sizeof(in.private_data));
    tcp_preamble_write(&in, bytes);
    assert_int_equal(tcp_preamble_read(bytes, &out), NIGH_OK);
    assert_int_equal(out.kind, in.kind);
    assert_int_equal(out.private_bytes, in.private_bytes);
    assert_memory_equal(out.private_data, in.private_data, sizeof(in.private_data));
    for (size_t i = 0; i < 8; i++) { /* magic, version, kind, length */
        memcpy(wrong, bytes, sizeof(wrong));
        wrong[i] ^= 0x40;
        assert_int_equal(tcp_preamble_read(wrong, &out),
                         i == 4 || i == 5 ? NIGH_VERSION : NIGH_PROTOCOL);
    }
}

static void frames_read_back(void **state)
{
    const struct tcp_frame in = {.kind = TCP_FRAME_WRITE_IMM,
                                 .ack = 0x01020304,
                                 .bytes = LIMIT_FABRIC_MESSAGE,
                                 .key = 0x11121314,
                                 .imm = 0x21222324,
                                 .address = UINT64_C(0x3132333435363738)};
    uint8_t bytes[TCP_FRAME_BYTES];
    struct tcp_frame out;

    (void)state;
    tcp_frame_write(&in, bytes);
    assert_int_equal(tcp_frame_read(bytes, &out), NIGH_OK);
    assert_int_equal(out.kind, in.kind);
    assert_int_equal(out.ack, in.ack);
    assert_int_equal(out.bytes, in.bytes);
    assert_int_equal(out.key, in.key);
    assert_int_equal(out.imm, in.imm);
    assert_true(out.address == in.address);
    assert_int_equal(out.status, NIGH_OK);
}

static void odd_frames_are_none(void **state)
{
    static const struct tcp_frame odd[] = {
        {.kind = 0},
        {.kind = TCP_FRAME_KINDS},
        {.kind = 255},
        {.kind = TCP_FRAME_SEND, .bytes = LIMIT_FABRIC_MESSAGE + 1},
        {.kind = TCP_FRAME_READ, .bytes = UINT32_MAX},
        {.kind = TCP_FRAME_FETCH_ADD, .bytes = 16},
        {.kind = TCP_FRAME_COMPARE_SWAP, .bytes = 8},
        {.kind = TCP_FRAME_ACK, .bytes = 1},
        {.kind = TCP_FRAME_REFUSED},
        {.kind = TCP_FRAME_REFUSED, .status = NIGH_DENIED, .bytes = 1},
        {.kind = TCP_FRAME_SEND, .status = NIGH_DENIED},
        {.kind = TCP_FRAME_SEND, .of_read = true},
    };
    const struct tcp_frame good = {.kind = TCP_FRAME_ACK};
    uint8_t bytes[TCP_FRAME_BYTES];
    struct tcp_frame out;

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(odd); i++) {
        tcp_frame_write(&odd[i], bytes);
        assert_int_equal(tcp_frame_read(bytes, &out), NIGH_PROTOCOL);
    }
    tcp_frame_write(&good, bytes);
    bytes[0] ^= 1;
    assert_int_equal(tcp_frame_read(bytes, &out), NIGH_PROTOCOL);
    bytes[0] ^= 1;
    bytes[TCP_FRAME_BYTES - 1] = 1;
    assert_int_equal(tcp_frame_read(bytes, &out), NIGH_PROTOCOL);
}

/* ---- strangers ---- */

static void strangers_who_talk_rubbish_are_not_heard_of(void **state)
{
    struct side side;
    uint8_t bytes[TCP_PREAMBLE_BYTES];
    const struct tcp_preamble answer = {.kind = TCP_PREAMBLE_ACCEPT};

    (void)state;
    side_open(&side, "127.0.0.1:0");
    for (int i = 0; i < 4; i++) {
        int fd = stranger(&side);

        tcp_preamble_write(&answer, bytes); /* the answer to nothing */
        if (i == 1)
            memset(bytes, 'G', sizeof(bytes));
        if (i == 2)
            bytes[4]++; /* the version */
        say(fd, bytes, i == 3 ? 5 : sizeof(bytes));
        if (i == 3)
            shutdown(fd, SHUT_WR);
        assert_true(COMES(&side, is_closed(fd)));
        close(fd);
    }
    assert_int_equal(side.requests + side.disconnected, 0);
    assert_int_equal(tcp_of(side.fabric)->endpoint_count, 0);
    assert_int_equal(tcp_of(side.fabric)->half_open, 0);
    side_close(&side);
}

static void a_preamble_may_come_byte_by_byte(void **state)
{
    const struct tcp_preamble preamble = {.kind = TCP_PREAMBLE_CONNECT};
    uint8_t bytes[TCP_PREAMBLE_BYTES];
    struct side side;
    int fd;

    (void)state;
    side_open(&side, "127.0.0.1:0");
    fd = stranger(&side);
    tcp_preamble_write(&preamble, bytes);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        assert_int_equal(side.requests, 0);
        say(fd, bytes + i, 1);
        (void)side_poll(&side);
    }
    assert_true(COMES(&side, side.requests == 1));
    fabric_reject(side.fabric, side.endpoint);
    close(fd);
    side_close(&side);
}

static void the_silent_do_not_keep_the_honest_out(void **state)
{
    int fds[LIMIT_FABRIC_HALF_OPEN + 8];
    struct side side;
    int honest;

    (void)state;
    side_open(&side, "127.0.0.1:0");
    for (size_t i = 0; i < ARRAY_LENGTH(fds); i++) {
        fds[i] = stranger(&side);
        (void)side_poll(&side);
        assert_true(tcp_of(side.fabric)->half_open <= LIMIT_FABRIC_HALF_OPEN);
    }
    assert_true(COMES(&side, tcp_of(side.fabric)->half_open == LIMIT_FABRIC_HALF_OPEN &&
                                 is_closed(fds[0])));
    assert_false(is_closed(fds[ARRAY_LENGTH(fds) - 1]));
    honest = accepted(&side);
    /* And in the end the silent are gone. */
    side.skew_us = LIMIT_FABRIC_HANDSHAKE_US + 1;
    assert_true(COMES(&side, tcp_of(side.fabric)->half_open == 0));
    for (size_t i = 0; i < ARRAY_LENGTH(fds); i++) {
        assert_true(is_closed(fds[i]));
        close(fds[i]);
    }
    assert_int_equal(tcp_of(side.fabric)->endpoint_count, 1);
    assert_int_equal(side.disconnected, 0);
    close(honest);
    side_close(&side);
}

static void requests_are_bounded_too(void **state)
{
    int fds[LIMIT_FABRIC_HALF_OPEN], one_more;
    struct side side;

    (void)state;
    side_open(&side, "127.0.0.1:0");
    for (size_t i = 0; i < ARRAY_LENGTH(fds); i++) {
        fds[i] = stranger(&side);
        greet(fds[i]);
        assert_true(COMES(&side, side.requests == i + 1));
    }
    one_more = stranger(&side);
    assert_true(COMES(&side, is_closed(one_more)));
    close(one_more);
    for (size_t i = 0; i < ARRAY_LENGTH(fds); i++)
        close(fds[i]);
    assert_true(COMES(&side, side.disconnected == ARRAY_LENGTH(fds)));
    assert_int_equal(side.status, NIGH_PEER_LOST);
    assert_int_equal(tcp_of(side.fabric)->half_open, 0);
    side_close(&side);
}

/* ---- peers that lie ---- */

enum {
    RECEIVES = 3,
    SENDS = 2
};

/* What a peer says that ends its endpoint with NIGH_PROTOCOL, after two SENDs and no READ of ours.
 */
static const struct tcp_frame lies[] = {
    {.kind = TCP_FRAME_KINDS},
    {.kind = TCP_FRAME_SEND, .bytes = UINT32_MAX},
    {.kind = TCP_FRAME_ACK, .ack = SENDS + 1},
    {.kind = TCP_FRAME_ACK, .ack = UINT32_MAX},
    {.kind = TCP_FRAME_RESPONSE},
    {.kind = TCP_FRAME_RESPONSE, .bytes = 64},
    {.kind = TCP_FRAME_REFUSED, .status = NIGH_DENIED, .of_read = true},
    {.kind = TCP_FRAME_REFUSED, .status = NIGH_DENIED, .ack = SENDS},
};

static void lies_cost_the_endpoint_and_nothing_else(void **state)
{
    struct side side;

    (void)state;
    side_open(&side, "127.0.0.1:0");
    for (size_t i = 0; i < ARRAY_LENGTH(lies); i++) {
        int fd = accepted(&side);

        side.logged = 0;
        for (uint64_t j = 0; j < RECEIVES; j++)
            post_receive(&side, j, 0, 64);
        for (uint64_t j = 0; j < SENDS; j++)
            assert_int_equal(post(&side, FABRIC_SEND, j, 0, 8, (struct fabric_remote){0}), NIGH_OK);
        say_frame(fd, &lies[i]);
        assert_true(COMES(&side, side.disconnected == i + 1 && side.logged == RECEIVES + SENDS));
        assert_int_equal(side.status, NIGH_PROTOCOL);
        for (int j = 0; j < 10; j++)
            assert_false(side_poll(&side));
        if (lies[i].ack != SENDS)
            assert_int_equal(count_of(&side, NIGH_PROTOCOL), RECEIVES + SENDS);
        fabric_endpoint_destroy(side.fabric, side.endpoint);
        close(fd);
    }
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(side.area[i], 0);
    side_close(&side);
}

static void answers_longer_than_the_question_are_lies(void **state)
{
    static const uint32_t lengths[] = {65, 0, LIMIT_FABRIC_MESSAGE};
    struct side side;

    (void)state;
    side_open(&side, "127.0.0.1:0");
    for (size_t i = 0; i < ARRAY_LENGTH(lengths); i++) {
        int fd = accepted(&side);
        struct tcp_frame lie = {.kind = TCP_FRAME_RESPONSE, .bytes = lengths[i]};

        side.logged = 0;
        assert_int_equal(post(&side, FABRIC_READ, 1, 128, 64, (struct fabric_remote){1, 2}),
                         NIGH_OK);
        assert_int_equal(hear_frame(&side, fd).kind, TCP_FRAME_READ);
        say_frame(fd, &lie);
        say(fd, "too much, and where does it go?", 31);
        assert_true(COMES(&side, side.disconnected == i + 1 && side.logged == 1));
        assert_int_equal(side.status, NIGH_PROTOCOL);
        assert_int_equal(side.area[128], 0);
        fabric_endpoint_destroy(side.fabric, side.endpoint);
        close(fd);
    }
    side_close(&side);
}

static void an_end_in_the_middle_of_a_frame_is_a_lost_peer(void **state)
{
    struct side side;
    uint8_t bytes[TCP_FRAME_BYTES];
    const struct tcp_frame frame = {.kind = TCP_FRAME_SEND, .bytes = 32};

    (void)state;
    side_open(&side, "127.0.0.1:0");
    tcp_frame_write(&frame, bytes);
    for (size_t half = 0; half < 3; half++) {
        int fd = accepted(&side);

        side.logged = 0;
        post_receive(&side, 1, 0, 64);
        say(fd, bytes, half == 0 ? 7 : sizeof(bytes));
        if (half == 2)
            say(fd, "half of the bytes", 16);
        close(fd);
        assert_true(COMES(&side, side.disconnected == half + 1 && side.logged == 1));
        assert_int_equal(side.status, NIGH_PEER_LOST);
        assert_int_equal(side.log[0].status, NIGH_PEER_LOST);
        fabric_endpoint_destroy(side.fabric, side.endpoint);
    }
    side_close(&side);
}

static void a_refused_peer_is_told_which_request_it_was(void **state)
{
    struct side side;
    struct fabric_remote remote;
    struct tcp_frame frame;
    int fd;

    (void)state;
    side_open(&side, "127.0.0.1:0");
    fd = accepted(&side);
    remote = fabric_memory_remote(side.fabric, side.memory, side.area + AREA - 4);
    post_receive(&side, 1, 0, 64);
    frame = (struct tcp_frame){.kind = TCP_FRAME_SEND, .bytes = 5};
    say_frame(fd, &frame);
    say(fd, "hello", 5);
    frame = (struct tcp_frame){
        .kind = TCP_FRAME_WRITE, .bytes = 5, .key = remote.key, .address = remote.address};
    say_frame(fd, &frame);
    say(fd, "wrong", 5);
    do
        frame = hear_frame(&side, fd);
    while (frame.kind == TCP_FRAME_ACK);
    assert_int_equal(frame.kind, TCP_FRAME_REFUSED);
    assert_int_equal(frame.status, NIGH_DENIED);
    assert_false(frame.of_read);
    assert_int_equal(frame.ack, 1);
    assert_int_equal(side.disconnected, 0); /* as long as it may not have read that */
    close(fd);
    assert_true(COMES(&side, side.disconnected == 1));
    assert_memory_equal(side.area, "hello", 5);
    assert_int_equal(side.area[AREA - 4], 0);
    side_close(&side);
}

/* A WRITE whose memory goes as it comes: who asked hears that it was refused only where nothing of
 * it is written. Of an odd one the first bytes of a word wait for the others. */
static void what_is_written_in_part_is_not_refused(void **state)
{
    static const char said[] = "all of sixteen..";
    static const uint32_t come[] = {0, 3, 8};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(come); i++) {
        struct side side;
        struct fabric_remote remote;
        struct tcp_frame frame;
        int fd;

        side_open(&side, "127.0.0.1:0");
        fd = accepted(&side);
        remote = fabric_memory_remote(side.fabric, side.memory, side.area);
        frame = (struct tcp_frame){
            .kind = TCP_FRAME_WRITE, .bytes = 16, .key = remote.key, .address = remote.address};
        say_frame(fd, &frame);
        say(fd, said, come[i]);
        assert_true(COMES(&side, side.endpoint->in.left == 16 - come[i]));
        assert_memory_equal(side.area, come[i] == 8 ? said : "\0\0\0\0\0\0\0", 8);
        fabric_memory_deregister(side.fabric, side.memory);
        say(fd, said + come[i], 16 - come[i]);
        do
            frame = hear_frame(&side, fd);
        while (frame.kind == TCP_FRAME_ACK);
        assert_int_equal(frame.kind, TCP_FRAME_REFUSED);
        assert_int_equal(frame.status, come[i] == 8 ? NIGH_PEER_LOST : NIGH_DENIED);
        assert_int_equal(side.area[8], 0);
        close(fd);
        side_close(&side);
    }
}

static void a_refused_peer_that_stays_is_left(void **state)
{
    struct side side;
    const struct tcp_frame frame = {.kind = TCP_FRAME_READ, .bytes = 5};
    int fd;

    (void)state;
    side_open(&side, "127.0.0.1:0");
    fd = accepted(&side);
    say_frame(fd, &frame);
    assert_int_equal(hear_frame(&side, fd).kind, TCP_FRAME_REFUSED);
    assert_int_equal(
        fabric_post_receive(side.fabric, side.endpoint, &(struct fabric_receive){.tag = 1}, NULL),
        NIGH_CLOSED);
    assert_int_equal(side.disconnected, 0);
    side.skew_us = TCP_LINGER_US + 1;
    assert_true(COMES(&side, side.disconnected == 1));
    assert_int_equal(side.status, NIGH_DENIED);
    close(fd);
    side_close(&side);
}

/* A socket that listens, for a bare acceptor; its address in `address`. */
static int bare_door(int backlog, struct sockaddr_in *here, char address[FABRIC_ADDRESS_BYTES])
{
    socklen_t bytes = sizeof(*here);
    int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *here = (struct sockaddr_in){.sin_family = AF_INET};
    here->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(door, (struct sockaddr *)here, sizeof(*here)), 0);
    assert_int_equal(listen(door, backlog), 0);
    assert_int_equal(getsockname(door, (struct sockaddr *)here, &bytes), 0);
    (void)snprintf(address, FABRIC_ADDRESS_BYTES, "127.0.0.1:%u", ntohs(here->sin_port));
    return door;
}

/* The queue of the other side is full, so that connect(2) does not get on. */
static void a_dial_that_gets_nowhere_ends(void **state)
{
    struct sockaddr_in there;
    char address[FABRIC_ADDRESS_BYTES];
    struct side side;
    int door = bare_door(0, &there, address), fds[4];

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(fds); i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(fds[i], (struct sockaddr *)&there, sizeof(there));
    }
    side_open(&side, NULL);
    assert_int_equal(fabric_connect(side.fabric, address, &depths, NULL, 0, &side.endpoint),
                     NIGH_OK);
    (void)side_poll(&side);
    assert_int_equal(side.endpoint->state, TCP_DIALLING);
    assert_true(fabric_due_us(side.fabric) > support_now_us());
    side.skew_us = 2 * LIMIT_FABRIC_HANDSHAKE_US;
    assert_true(COMES(&side, side.disconnected == 1));
    assert_int_equal(side.status, NIGH_UNREACHABLE);
    for (size_t i = 0; i < ARRAY_LENGTH(fds); i++)
        close(fds[i]);
    close(door);
    side_close(&side);
}

static void a_dialler_is_not_fooled(void **state)
{
    struct sockaddr_in here;
    char address[FABRIC_ADDRESS_BYTES];
    struct side side;
    int door = bare_door(1, &here, address);

    (void)state;
    side_open(&side, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        static const nigh_status statuses[] = {NIGH_PROTOCOL, NIGH_PEER_LOST, NIGH_TIMEOUT};
        uint8_t answer[TCP_PREAMBLE_BYTES];
        int fd;

        assert_int_equal(fabric_connect(side.fabric, address, &depths, NULL, 0, &side.endpoint),
                         NIGH_OK);
        fd = accept(door, NULL, NULL);
        hear(&side, fd, answer, sizeof(answer));
        if (i == 0)
            say(fd, answer, sizeof(answer)); /* his own words */
        if (i == 1)
            shutdown(fd, SHUT_WR);
        if (i == 2)
            side.skew_us = 2 * LIMIT_FABRIC_HANDSHAKE_US;
        assert_true(COMES(&side, side.disconnected == i + 1));
        assert_int_equal(side.status, statuses[i]);
        fabric_endpoint_destroy(side.fabric, side.endpoint);
        close(fd);
    }
    close(door);
    side_close(&side);
}

/* ---- bounds ---- */

static void a_peer_that_never_reads_costs_no_memory(void **state)
{
    struct side side;
    struct fabric_remote remote;
    struct tcp_frame frame;
    size_t before;
    int fd;

    (void)state;
    side_open(&side, "127.0.0.1:0");
    fd = accepted(&side);
    remote = fabric_memory_remote(side.fabric, side.memory, side.area);
    frame = (struct tcp_frame){
        .kind = TCP_FRAME_READ, .bytes = AREA, .key = remote.key, .address = remote.address};
    before = mallinfo2().uordblks;
    for (uint32_t i = 0; i < LIMIT_FABRIC_READS; i++)
        say_frame(fd, &frame);
    for (uint64_t i = 0; i < DEPTH; i++)
        assert_int_equal(post(&side, FABRIC_SEND, i, 0, MIB, (struct fabric_remote){0}), NIGH_OK);
    assert_int_equal(post(&side, FABRIC_SEND, 99, 0, 1, (struct fabric_remote){0}), NIGH_BUSY);
    assert_true(COMES(&side, side.endpoint->response_count == LIMIT_FABRIC_READS &&
                                 side.endpoint->is_blocked));
    assert_true(mallinfo2().uordblks <= before);
    /* One more than it may ask. */
    say_frame(fd, &frame);
    assert_true(COMES(&side, side.disconnected == 1 && side.logged == DEPTH));
    assert_int_equal(side.status, NIGH_PROTOCOL);
    close(fd);
    side_close(&side);
}

static void large_payloads_leave_room_for_small_ones(void **state)
{
    struct side alice, bob;
    struct fabric_endpoint *large, *small_there;
    char address[FABRIC_ADDRESS_BYTES];
    uint32_t polls = 0;
    enum {
        LARGE = 8
    };

    (void)state;
    join(&alice, &bob, "127.0.0.1:0");
    large = alice.endpoint;
    fabric_address(bob.fabric, address);
    assert_int_equal(fabric_connect(alice.fabric, address, &depths, NULL, 0, &alice.endpoint),
                     NIGH_OK);
    assert_true(COMES2(&alice, &bob, bob.requests == 2));
    small_there = bob.endpoint;
    assert_int_equal(fabric_accept(bob.fabric, small_there, &depths, NULL, 0), NIGH_OK);
    assert_true(COMES2(&alice, &bob, bob.established == 2 && alice.established == 2));
    post_receive(&bob, 5, 0, 8);

    /* More than TCP_EPOLL_EVERY polls move under way on the one, then eight bytes on the other. */
    assert_true(LARGE * AREA >= 2 * TCP_EPOLL_EVERY * TCP_POLL_TURNS * LIMIT_FABRIC_TURN_BYTES);
    for (uint32_t n = 0; n < LARGE; n++) {
        const struct fabric_slice slice = slice_of(&alice, 0, AREA);
        const struct fabric_work work = {
            .op = FABRIC_WRITE,
            .tag = 1,
            .flags = FABRIC_SIGNALLED,
            .slices = &slice,
            .slice_count = 1,
            .remote = fabric_memory_remote(bob.fabric, bob.memory, bob.area)};

        assert_int_equal(fabric_post(alice.fabric, large, &work, NULL), NIGH_OK);
    }
    for (int i = 0; i < 4; i++) {
        (void)side_poll(&alice);
        (void)side_poll(&bob);
    }
    assert_int_equal(alice.logged, 0);
    assert_int_equal(post(&alice, FABRIC_SEND, 2, 0, 8, (struct fabric_remote){0}), NIGH_OK);
    while (bob.logged == 0) {
        (void)side_poll(&alice);
        (void)side_poll(&bob);
        assert_true(++polls <= TCP_EPOLL_EVERY);
    }
    assert_int_equal(bob.log[0].tag, 5);
    assert_true(count_of(&alice, NIGH_OK) < LARGE); /* not all of the large ones have ended */
    assert_true(COMES2(&alice, &bob, alice.logged == LARGE + 1));
    side_close(&alice);
    side_close(&bob);
}

/* ---- keys ---- */

static int compare_keys(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static void keys_are_not_used_again_soon(void **state)
{
    enum {
        ROUNDS = 3 * LIMIT_FABRIC_MEMORIES
    };
    uint32_t *keys = calloc(ROUNDS, sizeof(*keys));
    struct side side;

    (void)state;
    assert_non_null(keys);
    side_open(&side, NULL);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct fabric_memory *memory;

        assert_int_equal(fabric_memory_register(side.fabric, side.area, 64, FABRIC_HOST,
                                                FABRIC_REMOTE_READ, &memory),
                         NIGH_OK);
        keys[i] = fabric_memory_remote(side.fabric, memory, side.area).key;
        assert_non_null(tcp_memory_reach(tcp_of(side.fabric), keys[i], (uintptr_t)side.area, 64,
                                         FABRIC_REMOTE_READ));
        for (uint32_t j = i > 64 ? i - 64 : 0; j < i; j++)
            assert_null(tcp_memory_reach(tcp_of(side.fabric), keys[j], (uintptr_t)side.area, 64,
                                         FABRIC_REMOTE_READ));
        fabric_memory_deregister(side.fabric, memory);
    }
    assert_null(tcp_memory_reach(tcp_of(side.fabric), 0, (uintptr_t)side.area, 1, 15));
    qsort(keys, ROUNDS, sizeof(*keys), compare_keys);
    for (uint32_t i = 1; i < ROUNDS; i++)
        assert_true(keys[i - 1] != keys[i]);
    free(keys);
    side_close(&side);
}

static void registrations_are_bounded(void **state)
{
    static struct fabric_memory *memories[LIMIT_FABRIC_MEMORIES];
    struct side side;

    (void)state;
    side_open(&side, NULL); /* has one */
    for (uint32_t i = 1; i < LIMIT_FABRIC_MEMORIES; i++)
        assert_int_equal(
            fabric_memory_register(side.fabric, side.area, 64, FABRIC_HOST, 0, &memories[i]),
            NIGH_OK);
    assert_int_equal(
        fabric_memory_register(side.fabric, side.area, 64, FABRIC_HOST, 0, &memories[0]),
        NIGH_LIMIT);
    fabric_memory_deregister(side.fabric, memories[7]);
    assert_int_equal(
        fabric_memory_register(side.fabric, side.area, 64, FABRIC_HOST, 0, &memories[7]), NIGH_OK);
    side_close(&side);
}

static void reach_ends_at_every_edge(void **state)
{
    struct side side;
    struct tcp *tcp;
    uint32_t key;
    uint64_t start;

    (void)state;
    side_open(&side, NULL);
    tcp = tcp_of(side.fabric);
    key = fabric_memory_remote(side.fabric, side.memory, side.area).key;
    start = (uintptr_t)side.area;
    assert_ptr_equal(tcp_memory_reach(tcp, key, start, AREA, FABRIC_REMOTE_READ), side.area);
    assert_non_null(tcp_memory_reach(tcp, key, start + AREA - 1, 1, FABRIC_REMOTE_READ));
    assert_null(tcp_memory_reach(tcp, key, start, AREA + 1, FABRIC_REMOTE_READ));
    assert_null(tcp_memory_reach(tcp, key, start - 1, 1, FABRIC_REMOTE_READ));
    assert_null(tcp_memory_reach(tcp, key, start - 1, 2, FABRIC_REMOTE_READ));
    assert_null(tcp_memory_reach(tcp, key, start + AREA, 1, FABRIC_REMOTE_READ));
    assert_null(tcp_memory_reach(tcp, key, start + 1, UINT64_MAX, FABRIC_REMOTE_READ));
    assert_null(tcp_memory_reach(tcp, key, UINT64_MAX, 2, FABRIC_REMOTE_READ));
    assert_null(tcp_memory_reach(tcp, key ^ 1, start, 1, FABRIC_REMOTE_READ));
    assert_null(
        tcp_memory_reach(tcp, key ^ (1u << TCP_KEY_SLOT_BITS), start, 1, FABRIC_REMOTE_READ));
    side_close(&side);
}

/* The READ's answer is under way when its memory goes: nobody gets other bytes for it. */
static void memory_goes_while_it_is_read(uint64_t bytes)
{
    struct side side;
    struct tcp_frame frame;
    struct fabric_remote remote;
    uint8_t *heard = malloc(TCP_CHUNK_BYTES);
    int fd, small = 65536;
    ssize_t n;

    side_open(&side, "127.0.0.1:0");
    fd = accepted(&side);
    assert_int_equal(setsockopt(side.endpoint->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)),
                     0);
    memset(side.area, 0xee, AREA);
    remote = fabric_memory_remote(side.fabric, side.memory, side.area);
    frame = (struct tcp_frame){.kind = TCP_FRAME_READ,
                               .bytes = (uint32_t)bytes,
                               .key = remote.key,
                               .address = remote.address};
    say_frame(fd, &frame);
    assert_true(COMES(&side, side.endpoint->is_blocked));
    fabric_memory_deregister(side.fabric, side.memory);
    memset(side.area, 0x11, AREA); /* which nobody may see now */
    frame = hear_frame(&side, fd);
    assert_int_equal(frame.kind, TCP_FRAME_RESPONSE);
    for (uint64_t left = frame.bytes;; left -= (uint64_t)n) {
        (void)side_poll(&side);
        n = recv(fd, heard, min_u64(left, TCP_CHUNK_BYTES), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        n = n < 0 ? 0 : n;
        for (ssize_t i = 0; i < n; i++)
            assert_int_equal(heard[i], 0xee);
        assert_true((uint64_t)n < left); /* or the READ would be answered */
    }
    assert_true(COMES(&side, side.disconnected == 1));
    assert_int_equal(side.status, NIGH_PEER_LOST);
    close(fd);
    free(heard);
    side_close(&side);
}

static void memory_may_go_while_it_is_read(void **state)
{
    (void)state;
    memory_goes_while_it_is_read(TCP_CHUNK_BYTES);
    memory_goes_while_it_is_read(AREA);
}

/* Between two pieces of an answer it is a refusal. */
static void memory_may_go_before_it_is_read(void **state)
{
    struct side side;
    struct tcp_frame frame, more;
    struct fabric_remote remote;
    uint8_t bytes[16];
    int fd;

    (void)state;
    side_open(&side, "127.0.0.1:0");
    fd = accepted(&side);
    remote = fabric_memory_remote(side.fabric, side.memory, side.area);
    frame = (struct tcp_frame){
        .kind = TCP_FRAME_READ, .bytes = 16, .key = remote.key, .address = remote.address};
    side.endpoint->is_blocked = true; /* the socket takes nothing */
    say_frame(fd, &frame);
    say_frame(fd, &frame);
    assert_true(COMES(&side, side.endpoint->response_count == 2));
    fabric_memory_deregister(side.fabric, side.memory);
    side.endpoint->is_blocked = false;
    tcp_endpoint_work(side.endpoint);
    more = hear_frame(&side, fd);
    assert_int_equal(more.kind, TCP_FRAME_REFUSED);
    assert_int_equal(more.status, NIGH_DENIED);
    assert_true(more.of_read);
    assert_int_equal(recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT), 0); /* nothing follows */
    close(fd);
    side_close(&side);
}

/* ---- acknowledgements, keep-alive, signals ---- */

static void acknowledgements_travel_with_what_is_sent(void **state)
{
    const struct tcp_frame frame = {.kind = TCP_FRAME_SEND};
    struct side side;
    int fd;

    (void)state;
    side_open(&side, "127.0.0.1:0");
    fd = accepted(&side);
    for (uint64_t i = 0; i < 3; i++)
        post_receive(&side, i, 0, 8);
    say_frame(fd, &frame);
    assert_true(COMES(&side, side.logged == 1));
    assert_int_equal(post(&side, FABRIC_SEND, 9, 0, 0, (struct fabric_remote){0}), NIGH_OK);
    assert_int_equal(hear_frame(&side, fd).ack, 1); /* the first that comes is the SEND */
    /* By itself when nothing is sent, */
    say_frame(fd, &frame);
    assert_int_equal(hear_frame(&side, fd).kind, TCP_FRAME_ACK);
    /* and before a sleep. */
    say_frame(fd, &frame);
    assert_true(COMES(&side, side.logged == 3));
    (void)fabric_arm(side.fabric);
    {
        uint8_t bytes[TCP_FRAME_BYTES];
        struct tcp_frame last;

        assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, PATIENCE_MS), 1);
        assert_int_equal(recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT), sizeof(bytes));
        assert_int_equal(tcp_frame_read(bytes, &last), NIGH_OK);
        assert_int_equal(last.ack, 3);
    }
    close(fd);
    side_close(&side);
}

/* The peer says them in one piece, so that a poll finds all of them. */
static void say_frames(int fd, const struct tcp_frame *frames, uint32_t count)
{
    uint8_t bytes[8 * TCP_FRAME_BYTES];

    assert_true(count <= 8);
    for (uint32_t n = 0; n < count; n++)
        tcp_frame_write(&frames[n], bytes + n * TCP_FRAME_BYTES);
    say(fd, bytes, count * TCP_FRAME_BYTES);
}

/* What has come to the peer: frames, without a poll of the side. */
static uint32_t heard(int fd, struct tcp_frame *last)
{
    uint8_t bytes[8 * TCP_FRAME_BYTES];
    ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (n < 0)
        return 0;
    assert_int_equal(n % TCP_FRAME_BYTES, 0);
    assert_int_equal(tcp_frame_read(bytes + n - TCP_FRAME_BYTES, last), NIGH_OK);
    return (uint32_t)n / TCP_FRAME_BYTES;
}

/* Nobody at the side hears of a WRITE, so that no answer follows with which it could travel. */
static void a_write_is_acknowledged_in_the_poll_that_carried_it_out(void **state)
{
    const struct tcp_frame message = {.kind = TCP_FRAME_SEND}, write = {.kind = TCP_FRAME_WRITE};
    const struct tcp_frame writes[] = {write, write, write}, last[] = {message, write, write};
    const struct tcp_frame first[] = {write, write, message};
    struct fabric_endpoint *endpoint;
    struct tcp_frame said;
    struct side side;
    int fd;

    (void)state;
    side_open(&side, "127.0.0.1:0");
    fd = accepted(&side);
    endpoint = side.endpoint;
    for (uint64_t i = 0; i < 2; i++)
        post_receive(&side, i, 0, 8);
    say_frames(fd, writes, 3);
    assert_true(COMES(&side, endpoint->carried == 3));
    assert_int_equal(heard(fd, &said), 1); /* one for all of the poll */
    assert_int_equal(said.kind, TCP_FRAME_ACK);
    assert_int_equal(said.ack, 3);
    say_frames(fd, last, 3);
    assert_true(COMES(&side, endpoint->carried == 6));
    assert_int_equal(heard(fd, &said), 1);
    assert_int_equal(said.ack, 6);
    /* What a message ends is not: its receiver is about to answer. */
    say_frames(fd, first, 3);
    assert_true(COMES(&side, endpoint->carried == 9));
    assert_int_equal(heard(fd, &said), 0);
    assert_int_equal(post(&side, FABRIC_SEND, 9, 0, 0, (struct fabric_remote){0}), NIGH_OK);
    assert_int_equal(hear_frame(&side, fd).ack, 9);
    close(fd);
    side_close(&side);
}

/* ---- what epoll is asked to tell ---- */

static bool watches_nobody_more;

/* Instead of the system's, of which it is. */
int epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event)
{
    if (watches_nobody_more && op == EPOLL_CTL_ADD) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, epoll_fd, op, fd, event);
}

/* How many descriptors are in the set of a fabric's. */
static uint32_t watched(const struct side *side)
{
    char path[64], line[256];
    uint32_t count = 0;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fabric_fd(side->fabric));
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        count += strncmp(line, "tfd:", 4) == 0;
    (void)fclose(file);
    return count;
}

static void poll_often(struct side *side)
{
    for (uint32_t n = 0; n < 2 * TCP_HUSH_POLLS; n++)
        (void)side_poll(side);
}

static void say_once(struct side *alice, struct side *bob, uint64_t tag)
{
    post_receive(bob, tag, 0, 64);
    assert_int_equal(post(alice, FABRIC_SEND, tag, 0, 64, (struct fabric_remote){0}), NIGH_OK);
}

/* Who polls without sleeping is not told of what it reads anyway, which would cost who sends; and
 * is before it sleeps. Where the system does not let it, it does not sleep. */
static void who_is_read_all_the_time_is_not_watched(void **state)
{
    struct side alice, bob;

    (void)state;
    join(&alice, &bob, "127.0.0.1:0");
    say_once(&alice, &bob, 1);
    assert_true(COMES2(&alice, &bob, alice.logged == 1 && bob.logged == 1));
    poll_often(&bob);
    assert_int_equal(watched(&bob), 1); /* who listens */
    say_once(&alice, &bob, 2);
    assert_true(COMES2(&alice, &bob, alice.logged == 2 && bob.logged == 2));
    watches_nobody_more = true;
    poll_often(&bob);
    assert_false(fabric_arm(bob.fabric));
    say_once(&alice, &bob, 3);
    assert_true(COMES2(&alice, &bob, alice.logged == 3 && bob.logged == 3));
    watches_nobody_more = false;
    assert_true(COMES(&bob, fabric_arm(bob.fabric)));
    assert_int_equal(watched(&bob), 2);
    say_once(&alice, &bob, 4);
    assert_int_equal(
        poll(&(struct pollfd){.fd = fabric_fd(bob.fabric), .events = POLLIN}, 1, PATIENCE_MS), 1);
    assert_true(COMES2(&alice, &bob, alice.logged == 4 && bob.logged == 4));
    assert_int_equal(count_of(&alice, NIGH_OK) + count_of(&bob, NIGH_OK), 8);
    side_close(&alice);
    side_close(&bob);
}

/* Its socket takes no more: it waits until it does, which epoll says. */
static void who_is_not_watched_may_have_to_wait(void **state)
{
    const uint64_t bytes = 32 * MIB;
    struct side alice, bob;

    (void)state;
    join(&alice, &bob, "127.0.0.1:0");
    say_once(&alice, &bob, 1);
    assert_true(COMES2(&alice, &bob, alice.logged == 1 && bob.logged == 1));
    poll_often(&alice);
    assert_int_equal(watched(&alice), 0);
    post_receive(&bob, 2, 0, bytes);
    assert_int_equal(post(&alice, FABRIC_SEND, 2, 0, bytes, (struct fabric_remote){0}), NIGH_OK);
    assert_true(COMES(&alice, watched(&alice) == 1));
    assert_true(COMES2(&alice, &bob, alice.logged == 2 && bob.logged == 2));
    assert_int_equal(count_of(&alice, NIGH_OK) + count_of(&bob, NIGH_OK), 4);
    side_close(&alice);
    side_close(&bob);
}

/* Where the system does not let epoll say that, it is tried again at each poll, and nobody sleeps.
 */
static void who_waits_and_cannot_be_watched_tries_again(void **state)
{
    const uint64_t bytes = 32 * MIB;
    struct side alice, bob;

    (void)state;
    join(&alice, &bob, "127.0.0.1:0");
    say_once(&alice, &bob, 1);
    assert_true(COMES2(&alice, &bob, alice.logged == 1 && bob.logged == 1));
    poll_often(&alice);
    assert_int_equal(watched(&alice), 0);
    watches_nobody_more = true;
    post_receive(&bob, 2, 0, bytes);
    assert_int_equal(post(&alice, FABRIC_SEND, 2, 0, bytes, (struct fabric_remote){0}), NIGH_OK);
    poll_often(&alice); /* until its socket is full, and longer */
    assert_false(fabric_arm(alice.fabric));
    assert_int_equal(alice.logged, 1);
    assert_true(COMES2(&alice, &bob, alice.logged == 2 && bob.logged == 2));
    assert_int_equal(watched(&alice), 0);
    watches_nobody_more = false;
    assert_int_equal(count_of(&alice, NIGH_OK) + count_of(&bob, NIGH_OK), 4);
    assert_true(COMES(&alice, fabric_arm(alice.fabric)));
    assert_int_equal(watched(&alice), 1);
    side_close(&alice);
    side_close(&bob);
}

static int option_of(const struct side *side, int level, int name)
{
    int value = 0;
    socklen_t bytes = sizeof(value);

    assert_int_equal(getsockopt(side->endpoint->fd, level, name, &value, &bytes), 0);
    return value;
}

/* How many of the last answers the system still waits for an acknowledgement of. */
static uint32_t unacknowledged(const struct side *side)
{
    struct tcp_info info;
    socklen_t bytes = sizeof(info);

    assert_int_equal(getsockopt(side->endpoint->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
    return info.tcpi_unacked;
}

/* READs one after the other are a conversation, in which the system would let acknowledgements wait
 * for the next. How often none was waited for when a READ was over. */
static uint32_t quick_answers(struct side *alice, struct side *bob, uint32_t count, uint64_t bytes)
{
    struct fabric_remote remote = fabric_memory_remote(bob->fabric, bob->memory, bob->area);
    uint32_t quick = 0;

    for (uint32_t n = 0; n < count; n++) {
        uint32_t before = alice->logged;

        assert_int_equal(post(alice, FABRIC_READ, n, 0, bytes, remote), NIGH_OK);
        assert_true(COMES2(alice, bob, alice->logged == before + 1));
        quick += unacknowledged(bob) == 0;
    }
    return quick;
}

static void large_answers_are_acknowledged_at_once(void **state)
{
    struct side alice, bob;

    (void)state;
    join(&alice, &bob, "127.0.0.1:0");
    assert_true(quick_answers(&alice, &bob, 40, 4 * TCP_QUICK_BYTES) >= 30);
    assert_true(quick_answers(&alice, &bob, 40, 8) <= 30); /* they travel with the next */
    side_close(&alice);
    side_close(&bob);
}

static void the_kernel_probes_silent_peers(void **state)
{
    struct side alice, bob;

    (void)state;
    join(&alice, &bob, "127.0.0.1:0");
    assert_int_equal(option_of(&alice, IPPROTO_TCP, TCP_NODELAY), 1);
    assert_int_equal(option_of(&alice, SOL_SOCKET, SO_KEEPALIVE), 1);
    assert_int_equal(option_of(&bob, SOL_SOCKET, SO_KEEPALIVE), 1);
    assert_int_equal(option_of(&bob, IPPROTO_TCP, TCP_KEEPIDLE), 5);
    assert_int_equal(option_of(&bob, IPPROTO_TCP, TCP_USER_TIMEOUT), 15000);
    assert_int_equal(tcp_status_of_errno(ETIMEDOUT), NIGH_TIMEOUT);
    assert_int_equal(tcp_status_of_errno(ECONNRESET), NIGH_PEER_LOST);
    side_close(&alice);
    side_close(&bob);
}

/* From here on the wire to this socket is silent, as if it were cut: what comes in is dropped
 * before the kernel looks at it, probes and repeated bytes too, and nothing is acknowledged. */
static void cut(int fd)
{
    struct sock_filter drop[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog program = {.len = 1, .filter = drop};

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)), 0);
}

static void a_silent_wire_is_a_lost_peer(void **state)
{
    const struct tcp_options options = {.keepalive_ms = 1000};
    struct side idle, busy, whole;
    uint64_t from_us;
    int fds[3];

    (void)state;
    side_open_as(&idle, "127.0.0.1:0", &options);
    side_open_as(&busy, "127.0.0.1:0", &options);
    side_open_as(&whole, "127.0.0.1:0", &options);
    fds[0] = accepted(&idle);
    fds[1] = accepted(&busy);
    fds[2] = accepted(&whole);
    cut(fds[0]);
    cut(fds[1]);
    from_us = support_now_us();
    assert_int_equal(post(&busy, FABRIC_SEND, 1, 0, 64, (struct fabric_remote){0}), NIGH_OK);
    assert_true(SUPPORT_WAIT(({
                                 (void)side_poll(&idle);
                                 (void)side_poll(&busy);
                                 (void)side_poll(&whole);
                                 idle.disconnected == 1 && busy.disconnected == 1 &&
                                     busy.logged == 1;
                             }),
                             3 * PATIENCE_MS));
    /* Not sooner than it may: a wire that is slow is none that is cut. */
    assert_true(support_now_us() - from_us >= 2000000);
    assert_int_equal(idle.status, NIGH_TIMEOUT);
    assert_int_equal(busy.status, NIGH_TIMEOUT);
    assert_int_equal(count_of(&busy, NIGH_PEER_LOST), 1);
    /* As silent, but its kernel answers. */
    assert_int_equal(whole.disconnected, 0);
    for (uint32_t n = 0; n < 3; n++)
        close(fds[n]);
    side_close(&idle);
    side_close(&busy);
    side_close(&whole);
}

/* Would end the test if it raised SIGPIPE: what goes to a peer that closed is reset, what follows
 * finds a broken pipe. */
static void posts_to_a_peer_that_is_gone_fail(void **state)
{
    const struct linger abort_it = {.l_onoff = 1, .l_linger = 0};

    (void)state;
    for (int aborts = 0; aborts < 2; aborts++) {
        struct side side;
        int fd;

        side_open(&side, "127.0.0.1:0");
        fd = accepted(&side);
        if (aborts == 1)
            (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort_it, sizeof(abort_it));
        close(fd);
        for (uint64_t i = 0; i < DEPTH; i++)
            assert_int_equal(post(&side, FABRIC_SEND, i, 0, 64, (struct fabric_remote){0}),
                             NIGH_OK);
        assert_true(COMES(&side, side.logged == DEPTH && side.disconnected == 1));
        assert_int_equal(count_of(&side, NIGH_PEER_LOST), DEPTH);
        side_close(&side);
    }
}

static int hold(void *argument)
{
    (void)argument;
    alarm(20);
    pause();
    return 0;
}

/* A program that forked: its child has every descriptor. What ends here ends at the peer all the
 * same, and nothing more is heard of it, whatever still comes in. */
static void a_child_with_copies_keeps_nothing_alive(void **state)
{
    struct side a, b;
    struct fabric_remote nowhere = {0};
    char address[FABRIC_ADDRESS_BYTES];
    struct side again;
    pid_t child;

    (void)state;
    join(&a, &b, "127.0.0.1:0");
    post_receive(&a, 1, 0, 4096);
    child = support_fork(hold, NULL);
    fabric_endpoint_destroy(a.fabric, a.endpoint);
    (void)post(&b, FABRIC_SEND, 2, 0, 4096, nowhere);
    assert_true(COMES2(&a, &b, b.disconnected == 1));
    assert_int_equal(a.disconnected, 0);
    fabric_address(b.fabric, address);
    side_close(&b);
    side_open(&again, address);
    side_close(&again);
    side_close(&a);
    kill(child, SIGKILL);
    (void)support_join(child, 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_numbers_with_a_port),
        cmocka_unit_test(listening_takes_every_form),
        cmocka_unit_test(messages_cross_over_ipv6),
        cmocka_unit_test(both_families_reach_a_wildcard),
        cmocka_unit_test(preambles_read_back),
        cmocka_unit_test(frames_read_back),
        cmocka_unit_test(odd_frames_are_none),
        cmocka_unit_test(strangers_who_talk_rubbish_are_not_heard_of),
        cmocka_unit_test(a_preamble_may_come_byte_by_byte),
        cmocka_unit_test(the_silent_do_not_keep_the_honest_out),
        cmocka_unit_test(requests_are_bounded_too),
        cmocka_unit_test(lies_cost_the_endpoint_and_nothing_else),
        cmocka_unit_test(answers_longer_than_the_question_are_lies),
        cmocka_unit_test(an_end_in_the_middle_of_a_frame_is_a_lost_peer),
        cmocka_unit_test(a_refused_peer_is_told_which_request_it_was),
        cmocka_unit_test(what_is_written_in_part_is_not_refused),
        cmocka_unit_test(a_refused_peer_that_stays_is_left),
        cmocka_unit_test(a_dial_that_gets_nowhere_ends),
        cmocka_unit_test(a_dialler_is_not_fooled),
        cmocka_unit_test(a_peer_that_never_reads_costs_no_memory),
        cmocka_unit_test(large_payloads_leave_room_for_small_ones),
        cmocka_unit_test(keys_are_not_used_again_soon),
        cmocka_unit_test(registrations_are_bounded),
        cmocka_unit_test(reach_ends_at_every_edge),
        cmocka_unit_test(memory_may_go_while_it_is_read),
        cmocka_unit_test(memory_may_go_before_it_is_read),
        cmocka_unit_test(acknowledgements_travel_with_what_is_sent),
        cmocka_unit_test(a_write_is_acknowledged_in_the_poll_that_carried_it_out),
        cmocka_unit_test(who_is_read_all_the_time_is_not_watched),
        cmocka_unit_test(who_is_not_watched_may_have_to_wait),
        cmocka_unit_test(who_waits_and_cannot_be_watched_tries_again),
        cmocka_unit_test(large_answers_are_acknowledged_at_once),
        cmocka_unit_test(the_kernel_probes_silent_peers),
        cmocka_unit_test(a_silent_wire_is_a_lost_peer),
        cmocka_unit_test(a_child_with_copies_keeps_nothing_alive),
        cmocka_unit_test(posts_to_a_peer_that_is_gone_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
