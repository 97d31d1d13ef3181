/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor: a request of 64 bytes over TCP and an answer of the object's size, by plain sockets;
 * with or without a CRC32C of what came; and memcpy. As many different objects on both sides as the
 * others have, so that caches are as warm.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "transfer.h"

struct raw {
    bool spins, sums;
    int fd;
    int epoll_fd; /* -1: it sleeps in recv */
    pid_t pid;
    uint8_t *area;
    uint64_t area_bytes;
    uint32_t sink; /* keeps the sums alive */
};

/* No two objects lie on one page; small ones do not alias. */
static uint64_t stride_of(const struct workload *workload)
{
    return (workload->bytes + 64 + 63) & ~UINT64_C(63);
}

/* ---- sockets ---- */

/* An epoll with the socket and one more descriptor; or -1, if not wanted. */
static int watch(int fd, bool wanted)
{
    struct epoll_event event = {.events = EPOLLIN};
    int other_fd, epoll_fd;

    if (!wanted) {
        return -1;
    }
    other_fd = eventfd(0, EFD_CLOEXEC);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (other_fd < 0 || epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0 ||
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, other_fd, &event) != 0) {
        bench_fail("no epoll for the raw comparison");
    }
    return epoll_fd;
}

static void sleep_on(int epoll_fd)
{
    struct epoll_event event;

    if (epoll_fd >= 0) {
        (void)epoll_wait(epoll_fd, &event, 1, -1);
    }
}

static void receive_all(int fd, int epoll_fd, uint8_t *bytes, uint64_t count, bool spins)
{
    while (count > 0) {
        ssize_t n;

        sleep_on(epoll_fd);
        n = recv(fd, bytes, count, spins ? MSG_DONTWAIT : 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            continue;
        }
        if (n <= 0) {
            bench_fail("the raw connection ended");
        }
        bytes += n;
        count -= (uint64_t)n;
    }
}

static bool send_all(int fd, const uint8_t *bytes, uint64_t count)
{
    while (count > 0) {
        ssize_t n = send(fd, bytes, count < TRANSFER_CHUNK ? count : TRANSFER_CHUNK, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        bytes += n;
        count -= (uint64_t)n;
    }
    return true;
}

/* The next request; false: the connection ended. Who spins does so for a while, then sleeps. */
static bool next_request(int fd, int epoll_fd, uint8_t request[TRANSFER_REQUEST], bool spins)
{
    uint64_t until_ns = bench_now_ns() + TRANSFER_SPIN_US * 1000;
    size_t have = 0;

    while (have < TRANSFER_REQUEST) {
        ssize_t n;

        sleep_on(epoll_fd);
        n = recv(fd, request + have, TRANSFER_REQUEST - have, spins ? MSG_DONTWAIT : 0);
        if (n > 0) {
            have += (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            if (bench_now_ns() > until_ns) {
                poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
                until_ns = bench_now_ns() + TRANSFER_SPIN_US * 1000;
            }
        } else if (n == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

static void serve(int listen_fd, const struct workload *workload, bool spins, bool polls)
{
    uint64_t stride = stride_of(workload);
    uint8_t *area = bench_memory_create(stride * workload->objects);
    uint8_t request[TRANSFER_REQUEST];
    int one = 1, fd, epoll_fd;

    memset(area, 7, stride * workload->objects);
    fd = accept(listen_fd, NULL, NULL);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    epoll_fd = watch(fd, polls);
    while (next_request(fd, epoll_fd, request, spins)) {
        uint32_t number;

        memcpy(&number, request, sizeof number);
        if (!send_all(fd, area + stride * number, workload->bytes)) {
            break;
        }
    }
    _exit(0);
}

/* ---- the series ---- */

static void raw_open(struct series *series, const struct workload *workload)
{
    struct raw *raw = calloc(1, sizeof *raw);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    if (raw == NULL || listen_fd < 0 ||
        bind(listen_fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listen_fd, 1) != 0 ||
        getsockname(listen_fd, (struct sockaddr *)&address, &length) != 0) {
        bench_fail("no socket for the raw comparison");
    }
    raw->spins = (series->variant & RAW_SPINS) != 0;
    raw->sums = (series->variant & RAW_SUMS) != 0;
    raw->pid = fork();
    if (raw->pid < 0) {
        bench_fail("fork failed");
    }
    if (raw->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        bench_pin((series->variant & RAW_SAME_CORE) != 0 ? TRANSFER_HERE : TRANSFER_THERE);
        serve(listen_fd, workload, raw->spins, (series->variant & RAW_EPOLL) != 0);
    }
    raw->area_bytes = stride_of(workload) * workload->objects;
    raw->area = bench_memory_create(raw->area_bytes);
    raw->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(raw->fd, (struct sockaddr *)&address, sizeof address) != 0) {
        bench_fail("cannot connect to the raw server");
    }
    setsockopt(raw->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    raw->epoll_fd = watch(raw->fd, (series->variant & RAW_EPOLL) != 0);
    close(listen_fd);
    series->state = raw;
    series->pids[0] = getpid();
    series->pids[1] = raw->pid;
}

static void raw_round(struct series *series, const struct workload *workload,
                      struct samples *samples)
{
    struct raw *raw = series->state;
    uint64_t stride = stride_of(workload);
    uint8_t request[TRANSFER_REQUEST] = {0};

    for (uint32_t number = 0; number < workload->objects; number++) {
        uint8_t *to = raw->area + stride * number;
        uint64_t left = workload->bytes;
        uint64_t start = bench_now_ns();
        uint32_t crc = 0;

        memcpy(request, &number, sizeof number);
        if (!send_all(raw->fd, request, sizeof request)) {
            bench_fail("the raw connection ended");
        }
        while (left > 0) {
            uint64_t chunk = left < TRANSFER_CHUNK ? left : TRANSFER_CHUNK;

            receive_all(raw->fd, raw->epoll_fd, to, chunk, raw->spins);
            if (raw->sums) {
                crc = crc32c(crc, to, chunk);
            }
            to += chunk;
            left -= chunk;
        }
        samples_add(samples, (double)(bench_now_ns() - start));
        raw->sink += crc;
    }
}

static void raw_close(struct series *series)
{
    struct raw *raw = series->state;

    close(raw->fd);
    if (raw->epoll_fd >= 0) {
        close(raw->epoll_fd);
    }
    waitpid(raw->pid, NULL, 0);
    bench_memory_destroy(raw->area, raw->area_bytes);
    if (raw->sink == 1) { /* as likely as not: the sums must be computed */
        bench_now_ns();
    }
    free(raw);
}

const struct series_kind transfer_raw = {raw_open, raw_round, raw_close, NULL, NULL};

/* ---- memcpy ---- */

struct copies {
    uint8_t *from, *to;
    uint64_t bytes;
};

static void copy_open(struct series *series, const struct workload *workload)
{
    struct copies *copies = calloc(1, sizeof *copies);

    if (copies == NULL) {
        bench_fail("no memory");
    }
    copies->bytes = stride_of(workload) * workload->objects;
    copies->from = bench_memory_create(copies->bytes);
    copies->to = bench_memory_create(copies->bytes);
    memset(copies->from, 7, copies->bytes);
    series->state = copies;
}

static void copy_round(struct series *series, const struct workload *workload,
                       struct samples *samples)
{
    struct copies *copies = series->state;
    uint64_t stride = stride_of(workload);

    for (uint32_t number = 0; number < workload->objects; number++) {
        uint64_t start = bench_now_ns();

        memcpy(copies->to + stride * number, copies->from + stride * number, workload->bytes);
        __asm__ volatile("" ::"r"(copies->to) : "memory");
        samples_add(samples, (double)(bench_now_ns() - start));
    }
}

static void copy_close(struct series *series)
{
    struct copies *copies = series->state;

    bench_memory_destroy(copies->from, copies->bytes);
    bench_memory_destroy(copies->to, copies->bytes);
    free(copies);
}

const struct series_kind transfer_memcpy = {copy_open, copy_round, copy_close, NULL, NULL};
