/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any messages, with any descriptors, on a session's socket: a whole node takes them, answers or
 * closes, and never waits.
 *
 * Input: messages, each a byte of descriptors to pass along (0 to 3), two bytes of length, the
 * bytes. A first byte of 0xff puts a good hello before them, so that what follows meets an open
 * session.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/fd.h"
#include "memory/session.h"
#include "nigh/node.h"
#include "node/front.h"
#include "node/hello.h"
#include "node/node_internal.h"

#define ANSWER_MS 20000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static nigh_node *fuzz_node(void)
{
    static nigh_node *node;
    nigh_node_options options = {
        .struct_size = sizeof(options), .memory_bytes = 16 << 20, .lanes = 1, .max_sessions = 4};

    if (node == NULL)
        NIGH_ASSERT(nigh_node_start(&options, &node) == NIGH_OK);
    return node;
}

static void try_pure(const uint8_t *data, size_t size_bytes)
{
    char sentence[HELLO_SENTENCE_BYTES] = "";
    struct session_hello hello;
    uint16_t version = 0;

    if (hello_read(data, size_bytes, &hello, &version, sentence) != NIGH_OK) {
        NIGH_ASSERT(sentence[0] != '\0');
        return;
    }
    NIGH_ASSERT(version >= SESSION_VERSION_MIN && version <= SESSION_VERSION_MAX);
    NIGH_ASSERT(memchr(hello.pool, 0, sizeof(hello.pool)) != NULL);
    NIGH_ASSERT(memchr(hello.name, 0, sizeof(hello.name)) != NULL);
}

static void say_hello(int fd)
{
    struct session_hello hello = {
        .header = {.magic = SESSION_MAGIC, .kind = SESSION_HELLO},
        .version_min = SESSION_VERSION_MIN,
        .version_max = SESSION_VERSION_MAX,
    };

    (void)fd_send_message(fd, &hello, sizeof(hello), NULL, 0);
}

/* One message with descriptors; an empty one too, which our own functions refuse to send. */
static void say(int fd, const uint8_t *bytes, size_t size_bytes, size_t fd_count)
{
    static const int passed[3] = {0, 1, 2};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(passed))];
    } control = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size_bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (fd_count > 0) {
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), passed, fd_count * sizeof(int));
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    }
    (void)sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Everything the node says until it closes; a node that does not is a find. */
static void drain(int fd)
{
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        uint8_t bytes[LIMIT_SESSION_MESSAGE_BYTES];
        int fds[LIMIT_SESSION_FDS];
        size_t size = 0, count = 0;
        nigh_status status;
        int n = poll(&ready, 1, ANSWER_MS);

        if (n < 0 && errno == EINTR)
            continue; /* libFuzzer's own alarm */
        NIGH_ASSERT(n == 1);
        status = fd_recv_message(fd, bytes, sizeof(bytes), &size, fds, LIMIT_SESSION_FDS, &count);
        if (status == NIGH_CLOSED)
            return;
        for (size_t i = 0; status == NIGH_OK && i < count; i++)
            fd_close(&fds[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    int pair[2];

    try_pure(data, size_bytes);
    NIGH_ASSERT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    NIGH_ASSERT(fd_set_nonblock(pair[0]) == NIGH_OK);
    while (front_attach(fuzz_node()->door_fd, pair[0]) == NIGH_BUSY)
        ;
    if (size_bytes > 0 && data[0] == 0xff) {
        say_hello(pair[1]);
        data++;
        size_bytes--;
    }
    while (size_bytes >= 3) {
        size_t length = min_size((size_t)(data[1] | data[2] << 8), size_bytes - 3);

        say(pair[1], data + 3, length, data[0] % 4);
        data += 3 + length;
        size_bytes -= 3 + length;
    }
    (void)shutdown(pair[1], SHUT_WR);
    drain(pair[1]);
    close(pair[1]);
    return 0;
}
