/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing a client, the guard that tells a forked child from its parent, and the end
 * that all pending operations share when the node is gone.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "client/attach.h"
#include "client/bulk.h"
#include "client/client_internal.h"
#include "client/copies.h"
#include "client/error.h"
#include "client/extents.h"
#include "client/op.h"
#include "client/pairs.h"
#include "client/pins.h"
#include "client/region.h"
#include "client/ring.h"
#include "client/services.h"
#include "client/socket.h"
#include "client/space.h"
#include "memory/memfd.h"

#define CLIENT_OPEN_TIMEOUT_US UINT64_C(5000000)
#define CLIENT_OPEN_PAUSE_US \
    UINT64_C(1000)            /* twice so long before the third attempt to open, and ... */
#define CLIENT_OPEN_PAUSES 6u /* ... twice as long before each after, so often */
#define CLIENT_OPEN_FLAGS  (NIGH_OPEN_READ_ONLY | NIGH_OPEN_LOW_PRIORITY)
#define CLIENT_GUARD_BYTES 4096

static _Atomic uint64_t client_serials = 1;

/* ---- the guard ------------------------------------------------------------ */

/* A page that the kernel clears in every child, however it was made (fork, clone, no atfork). */
static nigh_status client_make_guard(nigh_client *client)
{
    void *page =
        mmap(NULL, CLIENT_GUARD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED) {
        return NIGH_NO_RESOURCES;
    }
    if (madvise(page, CLIENT_GUARD_BYTES, MADV_WIPEONFORK) != 0) {
        (void)munmap(page, CLIENT_GUARD_BYTES);
        return NIGH_NO_RESOURCES;
    }
    client->guard = page;
    atomic_store_explicit(&client->guard->word, GUARD_ALIVE, memory_order_relaxed);
    return NIGH_OK;
}

nigh_status client_look(const nigh_client *client)
{
    uint32_t word;
    int32_t ended;

    if (client == NULL) {
        return NIGH_INVALID;
    }
    /* What it was that ended the client was written before. */
    word = atomic_load_explicit(&client->guard->word, memory_order_acquire);
    if (word == GUARD_CHILD) {
        return NIGH_FORKED;
    }
    if (word == GUARD_DEAD) {
        return (nigh_status)atomic_load_explicit(&client->why, memory_order_relaxed);
    }
    ended = shared_load_relaxed(&client->front->ended);
    return ended == NIGH_OK ? NIGH_OK : client_end_status(ended);
}

nigh_status client_end_status(int32_t said)
{
    bool known = said < NIGH_OK && said >= NIGH_STATUS_LOWEST;

    /* The last two are calls' answers to a program that errs: they leave its operations as they
     * are. */
    if (!known || said == NIGH_PENDING || said == NIGH_INVALID || said == NIGH_FORKED) {
        return NIGH_PROTOCOL;
    }
    return (nigh_status)said;
}

/* Nobody has the lock for long, and who looks at a pair with it (pair_now.c) leaves as soon
 * as another wants it: sleeping for it would take longer. */
static void lock_slowly(nigh_client *client)
{
    bool has = false;

    atomic_fetch_add_explicit(&client->lock_wanted, 1, memory_order_relaxed);
    for (uint32_t n = 0; n < LIMIT_LOCK_TURNS && !has; n++) {
        client_relax();
        has = pthread_mutex_trylock(&client->lock) == 0;
    }
    if (!has) {
        (void)pthread_mutex_lock(&client->lock);
    }
    atomic_fetch_sub_explicit(&client->lock_wanted, 1, memory_order_relaxed);
}

void client_lock(nigh_client *client)
{
    if (unlikely(pthread_mutex_trylock(&client->lock) != 0)) {
        lock_slowly(client);
    }
}

void client_unlock(nigh_client *client)
{
    (void)pthread_mutex_unlock(&client->lock);
}

void client_ring_bell(nigh_client *client)
{
    const uint64_t one = 1;

    if (client->armed) {
        client->armed = false;
        (void)!write(client->bell_fd, &one, sizeof(one));
    }
}

void client_tell_change(nigh_client *client, uint32_t before)
{
    if (before != atomic_load_explicit(&client->state, memory_order_relaxed)) {
        client_ring_bell(client);
    }
}

/* ---- the end of everything pending ---------------------------------------- */

/* Unlinks an op from wherever it waits and puts it into `ending`, once. */
static void client_collect(struct list *ending, struct client_op *op)
{
    if ((op->flags & OP_ENDING) != 0) {
        return;
    }
    op->flags |= OP_ENDING;
    if (list_is_linked(&op->queue)) {
        list_remove(&op->queue);
    }
    list_push_back(ending, &op->queue);
}

static void client_end_all(nigh_client *client, nigh_status status)
{
    struct list ending;
    struct list_node *node;

    list_init(&ending);
    for (uint32_t i = 0; i < client->lanes; i++) {
        for (uint32_t place = 0; place < LIMIT_RING_ENTRIES; place++) {
            struct client_op *op = client->lane[i].pending[place].op;

            if (op != NULL) {
                client_collect(&ending, op);
                copies_forget(client, i, (uint16_t)place);
                client->lane[i].pending[place].op = NULL;
            }
        }
    }
    for (struct client_op *op; (op = pairs_take_op(client)) != NULL;) {
        client_collect(&ending, op);
    }
    LIST_FOREACH_SAFE(waiting, &client->feed)
    {
        client_collect(&ending, container_of(waiting, struct client_op, queue));
    }
    while ((node = list_pop_front(&ending)) != NULL) {
        op_end_all(container_of(node, struct client_op, queue), status);
    }
}

void client_lose(nigh_client *client, nigh_status status)
{
    bool resumable = status == NIGH_NODE_LOST && life_may_return(client);
    uint32_t state = atomic_load_explicit(&client->state, memory_order_relaxed);

    if (state == CLIENT_DEAD || (state == CLIENT_LOST && resumable)) {
        return;
    }
    if (client->holds > 0) {
        if (client->lose_later == NIGH_OK || !resumable) {
            client->lose_later = status;
        }
        return;
    }
    if (client->socket_fd >= 0) {
        /* Closed only when another takes its number: a thread may be asleep on it. */
        (void)epoll_ctl(client->poll_fd, EPOLL_CTL_DEL, client->socket_fd, NULL);
    }
    if (resumable) {
        atomic_store_explicit(&client->state, CLIENT_LOST, memory_order_release);
    } else {
        life_say_end(client, status);
        atomic_store_explicit(&client->why, status, memory_order_relaxed);
        atomic_store_explicit(&client->state, CLIENT_DEAD, memory_order_release);
        atomic_store_explicit(&client->guard->word, GUARD_DEAD, memory_order_release);
    }
    client_end_all(client, status);
    pairs_lose(client);
    ring_reset(client);
    op_arm(client); /* nothing waits for room any more: the descriptor is not to say so */
    /* The socket, with its end of file, is out of the descriptor already. */
    client_ring_bell(client);
    ring_tell(client);
}

void client_hold(nigh_client *client)
{
    client->holds++;
}

void client_let_go(nigh_client *client)
{
    nigh_status status;

    /* What had completed before the end still counts, unless it is rubbish. */
    if (client->holds == 1 && client->lose_later != NIGH_OK &&
        client->lose_later != NIGH_PROTOCOL) {
        ring_take_last(client);
    }
    status = (nigh_status)client->lose_later;
    client->holds--;
    if (client->holds == 0 && status != NIGH_OK) {
        client->lose_later = NIGH_OK;
        client_lose(client, status);
    }
}

/* ---- open ----------------------------------------------------------------- */

/* Copies what the caller's struct has; what this version does not know of it must be zero. */
static nigh_status client_read_options(const nigh_client_options *given, nigh_client_options *out)
{
    const uint8_t *bytes = (const uint8_t *)given;

    memset(out, 0, sizeof(*out));
    if (given == NULL) {
        return NIGH_OK;
    }
    if (given->struct_size < sizeof(given->struct_size)) {
        error_set_open("nigh_client_options.struct_size is not set: set it to "
                       "sizeof(nigh_client_options)");
        return NIGH_INVALID;
    }
    for (size_t i = sizeof(*out); i < given->struct_size; i++) {
        if (bytes[i] != 0) {
            error_set_open("the program asks for an option that this libnigh does not know: "
                           "install a newer libnigh");
            return NIGH_INVALID;
        }
    }
    memcpy(out, given, min_size(given->struct_size, sizeof(*out)));
    if ((out->flags & ~CLIENT_OPEN_FLAGS) != 0) {
        error_set_open("unknown bits 0x%x in nigh_client_options.flags",
                       out->flags & ~CLIENT_OPEN_FLAGS);
        return NIGH_INVALID;
    }
    if (out->spin_us > LIMIT_SPIN_US) {
        error_set_open("spin_us is %u, at most %u are allowed", out->spin_us, LIMIT_SPIN_US);
        return NIGH_INVALID;
    }
    return NIGH_OK;
}

static nigh_status client_copy_text(char *out, size_t out_bytes, const char *text, const char *what)
{
    if (text == NULL) {
        out[0] = '\0';
        return NIGH_OK;
    }
    if (bytes_copy_text(out, out_bytes, text) != NIGH_OK) {
        error_set_open("the %s is %zu bytes long, at most %zu are allowed", what, strlen(text),
                       out_bytes - 1);
        return NIGH_INVALID;
    }
    return NIGH_OK;
}

static nigh_status client_make_fds(nigh_client *client)
{
    struct epoll_event bell = {.events = EPOLLIN};

    client->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    client->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    client->room_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    client->lead_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (client->poll_fd < 0 || client->bell_fd < 0 || client->room_fd < 0 || client->lead_fd < 0 ||
        epoll_ctl(client->poll_fd, EPOLL_CTL_ADD, client->bell_fd, &bell) != 0 ||
        epoll_ctl(client->poll_fd, EPOLL_CTL_ADD, client->room_fd, &bell) != 0) {
        error_set_open("no descriptor left (%s): raise RLIMIT_NOFILE", strerror(errno));
        return NIGH_NO_RESOURCES;
    }
    return NIGH_OK;
}

/* A client without a node yet. */
static nigh_status client_create(const nigh_client_options *options, nigh_client **out)
{
    nigh_client *client = calloc(1, sizeof(*client));
    nigh_status status;

    if (client == NULL) {
        error_set_open("no memory for a client");
        return NIGH_NO_RESOURCES;
    }
    client->socket_fd = client->poll_fd = client->bell_fd = client->lead_fd = -1;
    client->room_fd = client->resume_fd = -1;
    client->room_due_us = UINT64_MAX;
    client->serial = atomic_fetch_add_explicit(&client_serials, 1, memory_order_relaxed);
    client->open_timeout_us =
        options->timeout_us != 0 ? options->timeout_us : CLIENT_OPEN_TIMEOUT_US;
    client->hello_flags =
        ((options->flags & NIGH_OPEN_READ_ONLY) != 0 ? SESSION_HELLO_READ_ONLY : 0) |
        ((options->flags & NIGH_OPEN_LOW_PRIORITY) != 0 ? SESSION_HELLO_LOW : 0);
    list_init(&client->feed);
    list_init(&client->services);
    list_init(&client->bulks);
    list_init(&client->regions);
    list_init(&client->closing);
    list_init(&client->spaces);
    list_init(&client->space_memories);
    (void)pthread_mutex_init(&client->lock, NULL);
    (void)pthread_mutex_init(&client->reply_lock, NULL);
    *out = client; /* for the caller to destroy, whatever follows */
    status = client_copy_text(client->pool, sizeof(client->pool), options->pool, "pool's name");
    if (status == NIGH_OK && options->name != NULL) {
        status =
            client_copy_text(client->name, sizeof(client->name), options->name, "client's name");
    } else {
        (void)memccpy(client->name, program_invocation_short_name, '\0', sizeof(client->name) - 1);
    }
    if (status == NIGH_OK && (status = client_make_guard(client)) != NIGH_OK) {
        error_set_open("the kernel gives no page that fork clears (MADV_WIPEONFORK): Linux 4.14 or "
                       "newer is needed");
    }
    if (status == NIGH_OK && (status = pins_create(client->serial, &client->pins)) != NIGH_OK) {
        error_set_open("no memory, or no thread-specific key, for a client");
    }
    return status == NIGH_OK ? client_make_fds(client) : status;
}

/* Unmaps, closes and frees. In a forked child the shared mappings are not there, and their places
 * may be somebody else's by now: only what is private goes. */
static void client_destroy(nigh_client *client)
{
    bool child = client->guard != NULL &&
                 atomic_load_explicit(&client->guard->word, memory_order_relaxed) == GUARD_CHILD;

    if (!child) {
        extents_unmap(client);
        for (uint32_t i = 0; i < client->lanes; i++) {
            if (client->indexes[i].header != NULL) {
                memfd_unmap(client->indexes[i].header, client->index_bytes[i]);
            }
        }
        if (client->node_page != NULL) {
            memfd_unmap(client->node_page, client->shared_bytes);
        }
    }
    for (uint32_t i = 0; client->lane != NULL && i < client->lanes; i++) {
        fd_close(&client->lane[i].doorbell);
    }
    pairs_free(client, child);
    fd_close(&client->socket_fd);
    fd_close(&client->resume_fd);
    fd_close(&client->poll_fd);
    fd_close(&client->bell_fd);
    fd_close(&client->room_fd);
    fd_close(&client->lead_fd);
    if (client->pins != NULL) {
        pins_close(client->pins);
    }
    if (client->guard != NULL) {
        (void)munmap(client->guard, CLIENT_GUARD_BYTES);
    }
    if (!child) {
        (void)pthread_mutex_destroy(&client->lock);
        (void)pthread_mutex_destroy(&client->reply_lock);
    }
    free(client->lane);
    free(client);
}

/* How long this process spins: as it was told; else as the node does, but not at all on one core,
 * where the lane may have to run. */
static uint32_t client_spin_us(uint32_t asked_us, uint32_t node_us)
{
    cpu_set_t set;

    if (asked_us != 0) {
        return min_u32(asked_us, LIMIT_SPIN_US);
    }
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1) {
        return 0;
    }
    return min_u32(node_us, LIMIT_SPIN_US);
}

/* Hello, welcome, mappings; takes the socket over, on failure too. timeout_us: of the welcome. */
static nigh_status client_attach(nigh_client *client, int socket_fd,
                                 const nigh_client_options *options, uint64_t timeout_us)
{
    struct epoll_event readable = {.events = EPOLLIN};
    struct attach_answer answer;
    struct session_hello hello;
    char text[CLIENT_TEXT_BYTES];
    nigh_status status;

    client->socket_fd = socket_fd;
    attach_fill_hello(client, &hello);
    hello.quota_bytes = options->quota_bytes;
    attach_hello(socket_fd, &hello);
    status = attach_await(socket_fd, timeout_us, &answer, text);
    if (status == NIGH_OK) {
        status = attach_map(client, &answer, text);
        attach_answer_fini(&answer);
    }
    if (status == NIGH_OK && epoll_ctl(client->poll_fd, EPOLL_CTL_ADD, socket_fd, &readable) != 0) {
        (void)snprintf(text, sizeof(text), "cannot watch the socket: %s", strerror(errno));
        status = NIGH_NO_RESOURCES;
    }
    if (status != NIGH_OK) {
        error_set_open("%s", text);
        return status;
    }
    atomic_store_explicit(&client->quota_bytes, options->quota_bytes, memory_order_relaxed);
    client->spin_us = client_spin_us(options->spin_us, answer.welcome.spin_us);
    atomic_store_explicit(&client->state, CLIENT_ATTACHED, memory_order_release);
    if (client->may_write) {
        extents_prefault(client, options->prefault_bytes);
    }
    return NIGH_OK;
}

/* The socket's path: the option, the environment, the default. */
static nigh_status client_find_path(nigh_client *client, const char *given)
{
    const char *path = given;

    if (path == NULL) {
        path = getenv("NIGH_SOCKET");
    }
    if (path == NULL || (given == NULL && path[0] == '\0')) {
        path = NIGH_DEFAULT_SOCKET;
    }
    if (path[0] == '\0') {
        error_set_open("the socket's path is empty");
        return NIGH_INVALID;
    }
    if (bytes_copy_text(client->socket_path, sizeof(client->socket_path), path) != NIGH_OK) {
        error_set_open("the socket's path is %zu bytes long, at most %d are allowed: choose a "
                       "shorter one for nighd and NIGH_SOCKET",
                       strlen(path), LIMIT_SOCKET_PATH_BYTES);
        return NIGH_INVALID;
    }
    return NIGH_OK;
}

/* Of the time to open in. */
static uint64_t client_left_us(uint64_t deadline_us)
{
    return clock_left_us(clock_now_us(&clock_monotonic), deadline_us);
}

/* Before the next attempt to attach. False: there is none, or no time for it. */
static bool client_tries_again(uint32_t attempt, uint64_t deadline_us)
{
    uint64_t pause_us = CLIENT_OPEN_PAUSE_US << min_u32(attempt, CLIENT_OPEN_PAUSES);

    if (attempt + 1 >= LIMIT_OPEN_TRIES ||
        clock_now_us(&clock_monotonic) + pause_us >= deadline_us) {
        return false;
    }
    if (attempt > 0) {
        (void)poll(NULL, 0, (int)(pause_us / 1000));
    }
    return true;
}

/*
 * Connects and attaches. A node that was killed takes connections, and closes them, until the
 * machine has done away with all of it; one to which many come at once closes those that have not
 * said hello for longest. So who is closed upon asks again who is there.
 */
static nigh_status client_reach(nigh_client *client, const nigh_client_options *options)
{
    uint64_t deadline_us =
        clock_deadline_us(clock_now_us(&clock_monotonic), client->open_timeout_us);
    char text[CLIENT_TEXT_BYTES];
    nigh_status status;
    int socket_fd;

    for (uint32_t attempt = 0;; attempt++) {
        status = attach_connect(client->socket_path, client_left_us(deadline_us), &socket_fd, text);
        if (status != NIGH_OK) {
            error_set_open(attempt > 0 ? "the node died or stopped just now: %.400s" : "%s", text);
            return status;
        }
        status = client_attach(client, socket_fd, options, client_left_us(deadline_us));
        if (status != NIGH_UNREACHABLE || !client_tries_again(attempt, deadline_us)) {
            return status;
        }
        fd_close(&client->socket_fd);
    }
}

nigh_status nigh_client_open(const nigh_client_options *given, nigh_client **out)
{
    nigh_client_options options;
    nigh_client *client = NULL;
    nigh_status status;

    error_set_open("%s", "");
    if (out == NULL) {
        error_set_open("there is nowhere to put the client: the last argument is NULL");
        return NIGH_INVALID;
    }
    status = client_read_options(given, &options);
    if (status != NIGH_OK) {
        return status;
    }
    status = client_create(&options, &client);
    if (status == NIGH_OK) {
        status = client_find_path(client, options.socket_path);
    }
    if (status == NIGH_OK) {
        status = client_reach(client, &options);
    }
    if (status != NIGH_OK) {
        if (client != NULL) {
            client_destroy(client);
        }
        return status;
    }
    *out = client;
    return NIGH_OK;
}

int session_attach(int socket_fd, const struct nigh_client_options *given,
                   const struct session_driver *driver, struct nigh_client **out)
{
    nigh_client_options options;
    nigh_client *client = NULL;
    nigh_status status;

    error_set_open("%s", "");
    status = out == NULL ? NIGH_INVALID : client_read_options(given, &options);
    if (status == NIGH_OK) {
        status = client_create(&options, &client);
    }
    if (status == NIGH_OK) {
        if (driver != NULL) {
            client->driver_copy = *driver;
            client->driver = &client->driver_copy;
        }
        status = client_attach(client, socket_fd, &options, client->open_timeout_us);
        socket_fd = -1;
    }
    if (status != NIGH_OK) {
        fd_close(&socket_fd);
        if (client != NULL) {
            client_destroy(client);
        }
        return status;
    }
    *out = client;
    return NIGH_OK;
}

void nigh_client_close(nigh_client *client)
{
    if (client == NULL) {
        return;
    }
    if (atomic_load_explicit(&client->guard->word, memory_order_relaxed) != GUARD_CHILD) {
        serve_end(client);
        client_lock(client);
        if (atomic_load_explicit(&client->state, memory_order_relaxed) == CLIENT_ATTACHED) {
            socket_say_bye(client->socket_fd);
        } else if (atomic_load_explicit(&client->state, memory_order_relaxed) == CLIENT_LOST) {
            resume_leave(client);
        }
        client_lose(client, NIGH_CLOSED);
        client_unlock(client);
        bulk_end(client);
    }
    regions_end(client);
    spaces_end(client);
    client_destroy(client);
}

/* ---- the descriptor ------------------------------------------------------- */

int nigh_client_fd(nigh_client *client)
{
    nigh_status status = client_look(client);

    return status == NIGH_FORKED || status == NIGH_INVALID ? -1 : client->poll_fd;
}

nigh_status nigh_client_arm(nigh_client *client)
{
    /* What is asked first may find the end already. */
    uint32_t before =
        client == NULL ? CLIENT_DEAD : atomic_load_explicit(&client->state, memory_order_relaxed);
    nigh_status status = client_check(client);
    uint64_t rung;

    if (status != NIGH_OK) {
        return status;
    }
    client_lock(client);
    client->armed = false; /* what is taken in here needs no bell: the caller looks next */
    (void)!read(client->bell_fd, &rung, sizeof(rung));
    if (atomic_load_explicit(&client->state, memory_order_relaxed) == CLIENT_ATTACHED) {
        socket_take_in(client);
        pairs_take_bells(client, false); /* which may look into the socket, too */
        pairs_arm(client);
        op_arm(client);
        /* Set after the socket was emptied and before the caller looks: a poke from here on stays
         * in the socket, or whoever takes it out rings the bell. Of a node that is away the next
         * one is asked, by who resumes (resume.c). */
        atomic_store_explicit(&client->front->poke_wanted, 1, memory_order_relaxed);
        shared_fence();
    }
    client->armed = true;
    client_tell_change(client, before);
    client_unlock(client);
    return NIGH_OK;
}
