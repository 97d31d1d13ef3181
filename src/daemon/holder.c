/* SPDX-License-Identifier: Apache-2.0 */
/* See holder.h. */
#include "daemon/holder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "node/keeper.h"

#define LOG_MODULE "holder"
#include "base/log.h"

#define HOLDER_NAME          "nighd-hold" /* in ps; the node is nighd */
#define HOLDER_FIRST_FD      3            /* where the child finds its descriptors */
#define HOLDER_MESSAGE_BYTES 512
#define HOLDER_MESSAGES      64 /* read at one time before signals are looked at again */

/* Descriptors: those of the memory, of every session, of every index, and a few. */
#define HOLDER_FDS (LIMIT_EXTENTS + LIMIT_SESSIONS + LIMIT_POOLS * LIMIT_LANES + 16)

/* More deaths than this in so much time: something is wrong for good. */
#define HOLDER_DEATHS_MOST 10
#define HOLDER_DEATHS_US   (UINT64_C(10) * 1000000)

struct holder_item {
    char name[KEEPER_NAME_BYTES];
    int fd;
};

struct holder {
    int socket_fd; /* where the child's messages arrive */
    int signal_fd;
    char address[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
    char **arguments;
    int ready_fd;  /* of the first child; -1: none, or it has it already */
    bool is_again; /* the first child was started */
    bool stopping; /* somebody asked for the end */
    pid_t child;
    uint32_t count;
    struct holder_item items[HOLDER_FDS];
    uint64_t deaths[HOLDER_DEATHS_MOST]; /* when the latest ones were, a ring */
    uint32_t death_count;
};

/* ---- the store ---- */

static void holder_forget(struct holder *holder, const char *name)
{
    for (uint32_t i = 0; i < holder->count;) {
        if (strcmp(holder->items[i].name, name) != 0) {
            i++;
            continue;
        }
        fd_close(&holder->items[i].fd);
        holder->items[i] = holder->items[--holder->count];
    }
}

/* A name has one descriptor, the latest: of two the next node could not know which is meant. */
static void holder_keep(struct holder *holder, const char *name, int fd)
{
    struct holder_item *item;

    holder_forget(holder, name);
    item = &holder->items[holder->count];
    if (holder->count == HOLDER_FDS || strlen(name) >= sizeof(item->name) || name[0] == '\0') {
        LOG_WARN("a descriptor cannot be kept over a restart, as its name does not fit, or as many "
                 "as can be are kept: what it stands for begins anew with the next node",
                 "name=\"%s\" count=%u do=\"keep fewer: a larger --extent, fewer --lanes, or fewer "
                 "--max-sessions\"",
                 LOG_QUOTE(name), holder->count);
        fd_close(&fd);
        return;
    }
    snprintf(item->name, sizeof(item->name), "%s", name);
    item->fd = fd;
    holder->count++;
}

/* One message: lines of KEY=VALUE. fd is -1 when none came with it. */
static void holder_act(struct holder *holder, char *text, int fd)
{
    bool store = false, forget = false;
    const char *name = "";
    char *place = NULL;

    for (char *line = strtok_r(text, "\n", &place); line != NULL;
         line = strtok_r(NULL, "\n", &place)) {
        if (strcmp(line, "FDSTORE=1") == 0)
            store = true;
        else if (strcmp(line, "FDSTOREREMOVE=1") == 0)
            forget = true;
        else if (strncmp(line, "FDNAME=", 7) == 0)
            name = line + 7;
    }
    if (store && fd >= 0) {
        holder_keep(holder, name, fd);
        fd = -1;
    } else if (forget) {
        holder_forget(holder, name);
    }
    fd_close(&fd);
}

/* The first descriptor of a message. Whoever knows the address may send more, and the padding lets
 * one more through: it is closed, or strangers could use up all that we may have open. */
static int holder_take_fd(struct cmsghdr *control, int fd)
{
    size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(fd);

    for (size_t i = 0; i < count; i++) {
        int one;

        memcpy(&one, CMSG_DATA(control) + i * sizeof(one), sizeof(one));
        if (fd < 0)
            fd = one;
        else
            fd_close(&one);
    }
    return fd;
}

/* Reads one message of the child; others' are thrown away. False: there is none. */
static bool holder_read(struct holder *holder)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int))];
    } control;
    char text[HOLDER_MESSAGE_BYTES];
    struct iovec part = {.iov_base = text, .iov_len = sizeof(text) - 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t size = recvmsg(holder->socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    struct ucred sender = {0};
    int fd = -1;

    if (size < 0)
        return errno == EINTR;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level != SOL_SOCKET)
            continue;
        if (c->cmsg_type == SCM_CREDENTIALS && c->cmsg_len == CMSG_LEN(sizeof(sender)))
            memcpy(&sender, CMSG_DATA(c), sizeof(sender));
        if (c->cmsg_type == SCM_RIGHTS)
            fd = holder_take_fd(c, fd);
    }
    text[size] = '\0';
    if (sender.pid != holder->child) {
        fd_close(&fd);
        return true;
    }
    holder_act(holder, text, fd);
    return true;
}

/* ---- the child ---- */

/* Puts the descriptors where the protocol wants them: from 3 on, in order, open across exec. */
static bool holder_place_fds(struct holder *holder)
{
    int above = HOLDER_FIRST_FD + (int)holder->count;

    for (uint32_t i = 0; i < holder->count; i++) {
        int fd = fcntl(holder->items[i].fd, F_DUPFD_CLOEXEC, above);

        if (fd < 0)
            return false;
        holder->items[i].fd = fd;
    }
    for (uint32_t i = 0; i < holder->count; i++) {
        if (dup2(holder->items[i].fd, HOLDER_FIRST_FD + (int)i) < 0)
            return false;
    }
    return true;
}

static bool holder_set_environment(const struct holder *holder)
{
    size_t bytes = (size_t)holder->count * KEEPER_NAME_BYTES + 1;
    char *names = malloc(bytes);
    char number[16];
    size_t at = 0;

    if (names == NULL)
        return false;
    names[0] = '\0';
    for (uint32_t i = 0; i < holder->count; i++)
        at += (size_t)snprintf(names + at, bytes - at, "%s%s", i > 0 ? ":" : "",
                               holder->items[i].name);
    setenv("LISTEN_FDNAMES", names, 1);
    snprintf(number, sizeof(number), "%u", holder->count);
    setenv("LISTEN_FDS", number, 1);
    snprintf(number, sizeof(number), "%d", (int)getpid());
    setenv("LISTEN_PID", number, 1);
    setenv("NOTIFY_SOCKET", holder->address, 1);
    setenv(KEEPER_HOLDER_VARIABLE, holder->is_again ? "again" : "first", 1);
    free(names);
    return true;
}

/* In the child: never returns. */
static void holder_exec(struct holder *holder, pid_t parent, const sigset_t *mask)
{
    /* Without its keeper a node could not survive; it ends in good order instead. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (holder->ready_fd >= 0)
        (void)fcntl(holder->ready_fd, F_SETFD, 0);
    if (holder_set_environment(holder) && holder_place_fds(holder))
        execv("/proc/self/exe", holder->arguments);
    fprintf(stderr, "nighd: cannot start the node: %s\n", strerror(errno));
    _exit(EXIT_FAILURE);
}

static bool holder_spawn(struct holder *holder, const sigset_t *mask)
{
    pid_t parent = getpid();
    pid_t child = fork();

    if (child == 0)
        holder_exec(holder, parent, mask);
    if (child < 0) {
        fprintf(stderr, "nighd: cannot start the node: %s\n", strerror(errno));
        return false;
    }
    holder->child = child;
    holder->is_again = true;
    fd_close(&holder->ready_fd);
    return true;
}

/* Whether it died too often lately to be started again. */
static bool holder_dies_too_often(struct holder *holder)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);
    uint64_t *oldest = &holder->deaths[holder->death_count % HOLDER_DEATHS_MOST];
    bool too_often =
        holder->death_count >= HOLDER_DEATHS_MOST && now_us - *oldest < HOLDER_DEATHS_US;

    *oldest = now_us;
    holder->death_count++;
    return too_often;
}

/* The child has ended, with this status. -1: it goes on with a new one; else the exit code. */
static int holder_child_ended(struct holder *holder, int status, const sigset_t *mask)
{
    while (holder_read(holder)) /* what it said last */
        ;
    holder->child = 0;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    /* A child that has hardly begun knows no better answer to SIGTERM than to die of it. */
    if (holder->stopping)
        return WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGINT ? 0 : EXIT_FAILURE;
    LOG_WARN("the node died",
             "signal=%d kept=%u do=\"see its lines before this one; signal 9 is somebody's, or the "
             "kernel's for want of memory (dmesg)\"",
             WTERMSIG(status), holder->count);
    if (holder_dies_too_often(holder)) {
        fprintf(stderr, "nighd: the node died %d times within ten seconds; not starting it again\n",
                HOLDER_DEATHS_MOST + 1);
        return EXIT_FAILURE;
    }
    return holder_spawn(holder, mask) ? -1 : EXIT_FAILURE;
}

/* ---- running ---- */

static bool holder_open(struct holder *holder)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t bytes = sizeof(address);
    int on = 1;

    holder->socket_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (holder->socket_fd < 0 ||
        setsockopt(holder->socket_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0)
        return false;
    /* An empty address lets the kernel choose an abstract name that nobody has. */
    if (bind(holder->socket_fd, (const struct sockaddr *)&address, sizeof(sa_family_t)) != 0 ||
        getsockname(holder->socket_fd, (struct sockaddr *)&address, &bytes) != 0)
        return false;
    bytes -= (socklen_t)offsetof(struct sockaddr_un, sun_path);
    memcpy(holder->address, address.sun_path, bytes);
    holder->address[0] = '@';
    holder->address[bytes] = '\0';
    return true;
}

/* Takes one signal: those to stop are handed to the child. -1: go on; else the exit code. */
static int holder_take_signal(struct holder *holder, const sigset_t *mask)
{
    struct signalfd_siginfo info;
    int status;

    if (read(holder->signal_fd, &info, sizeof(info)) != sizeof(info))
        return -1;
    if (info.ssi_signo != SIGCHLD) {
        holder->stopping = holder->stopping || info.ssi_signo != SIGHUP;
        if (holder->child > 0)
            kill(holder->child, (int)info.ssi_signo);
        return -1;
    }
    if (holder->child > 0 && waitpid(holder->child, &status, WNOHANG) == holder->child)
        return holder_child_ended(holder, status, mask);
    return -1;
}

static int holder_serve(struct holder *holder, const sigset_t *mask)
{
    for (;;) {
        struct pollfd fds[2] = {{.fd = holder->socket_fd, .events = POLLIN},
                                {.fd = holder->signal_fd, .events = POLLIN}};
        int code = -1;

        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return EXIT_FAILURE;
        for (int i = 0; i < HOLDER_MESSAGES && holder_read(holder); i++)
            ;
        if (fds[1].revents != 0)
            code = holder_take_signal(holder, mask);
        if (code >= 0)
            return code;
    }
}

static void holder_raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int holder_run(char **argv, int ready_fd)
{
    static struct holder holder;
    sigset_t set, before;

    prctl(PR_SET_NAME, HOLDER_NAME);
    holder.ready_fd = ready_fd;
    holder.arguments = argv;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, &before);
    holder_raise_descriptors();
    holder.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (holder.signal_fd < 0 || !holder_open(&holder)) {
        fprintf(stderr, "nighd: cannot hold: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    if (!holder_spawn(&holder, &before))
        return EXIT_FAILURE;
    return holder_serve(&holder, &before);
}
