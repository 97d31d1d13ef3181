/* SPDX-License-Identifier: Apache-2.0 */
/* See region_plain.h. */
#include "region_plain.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

/* Until the first byte is there: spinning as nodes do, for a while, or asleep. */
static ssize_t take_some(int fd, enum plain_way way, void *bytes, size_t room)
{
    static uint64_t yield_ns;
    uint64_t until_ns = bench_now_ns() + PLAIN_SPIN_US * 1000;

    for (;;) {
        uint64_t now_ns = bench_now_ns();
        bool spins = way != PLAIN_SLEEPS && now_ns < until_ns;
        ssize_t n = recv(fd, bytes, room, spins ? MSG_DONTWAIT : 0);

        if (n >= 0 || (errno != EAGAIN && errno != EINTR)) {
            return n;
        }
        if (way == PLAIN_YIELDS && now_ns >= yield_ns) {
            (void)sched_yield();
            yield_ns = now_ns + PLAIN_YIELD_US * 1000;
        }
    }
}

/* False: the other side ended. */
static bool take_all(int fd, enum plain_way way, uint8_t *bytes, uint64_t count)
{
    for (uint64_t done = 0; done < count;) {
        uint64_t room = count - done < PLAIN_STEP ? count - done : PLAIN_STEP;
        ssize_t n = take_some(fd, way, bytes + done, room);

        if (n <= 0) {
            return false;
        }
        done += (uint64_t)n;
    }
    return true;
}

static void serve(int listen_fd, enum plain_way way)
{
    uint8_t *bytes = bench_memory_create(PLAIN_MOST), request[PLAIN_BYTES];
    int fd = bench_tcp_accept(listen_fd);
    uint64_t wanted;

    while (take_all(fd, way, request, sizeof request)) {
        memcpy(&wanted, request, sizeof wanted);
        while (wanted > 0) {
            ssize_t n = send(fd, bytes, wanted < PLAIN_MOST ? wanted : PLAIN_MOST, MSG_NOSIGNAL);

            if (n <= 0) {
                _exit(0);
            }
            wanted -= (uint64_t)n;
        }
    }
    _exit(0);
}

void plain_open(struct plain *plain, enum plain_way way, enum plain_way server_way, int core)
{
    int port, listen_fd = bench_tcp_listen(&port);

    plain->way = way;
    plain->pid = bench_fork(core);
    if (plain->pid == 0) {
        serve(listen_fd, server_way);
    }
    plain->fd = bench_tcp_connect(port);
    close(listen_fd);
}

void plain_ask(const struct plain *plain, uint64_t count)
{
    uint8_t request[PLAIN_BYTES] = {0};

    memcpy(request, &count, sizeof count);
    if (send(plain->fd, request, sizeof request, MSG_NOSIGNAL) != (ssize_t)sizeof request) {
        bench_fail("the plain server ended");
    }
}

void plain_take(const struct plain *plain, void *bytes, uint64_t count)
{
    if (!take_all(plain->fd, plain->way, bytes, count)) {
        bench_fail("the plain server ended");
    }
}

void plain_close(struct plain *plain)
{
    close(plain->fd);
    (void)kill(plain->pid, SIGKILL);
    (void)waitpid(plain->pid, NULL, 0);
}
