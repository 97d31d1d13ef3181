/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which thread has which window. A thread claims a place by compare-and-swap, finds there the
 * window of a thread that ended, or makes one, and gives the place back when it ends, with what is
 * not carried out: who has it next waits for that.
 */
#include "client/space.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/fd.h"
#include "client/error.h"
#include "client/socket.h"
#include "memory/memfd.h"

/* Of a place. */
#define PLACE_FREE   0u
#define PLACE_OWNED  1u
#define PLACE_ENDING 2u /* its thread ends, and looks at the client */

#define GUARD_BYTES 4096

/* The places of one client; lives until the client and every thread have let go. */
struct client_windows {
    _Atomic uint32_t references;
    _Atomic uint32_t closed;
    uint64_t serial;
    uint32_t life; /* of the process that has them */
    nigh_client *client;
    _Atomic uint32_t places[LIMIT_SESSION_WINDOWS];
    struct client_window *windows[LIMIT_SESSION_WINDOWS]; /* of whose place it is; changed locked */
};

/* What one thread has of one client. */
struct space_thread {
    struct space_thread *next;
    struct client_windows *windows;
    uint32_t place;
    bool is_new; /* what a thread before left there is not looked at yet */
};

__thread struct space_cache space_cache __attribute__((tls_model("initial-exec")));

/* The calling thread's; the key's destructor frees them. */
static __thread struct space_thread *space_threads;
static pthread_once_t windows_once = PTHREAD_ONCE_INIT;
static pthread_key_t windows_key;
static bool windows_key_made;
static _Atomic uint32_t *windows_life; /* a word that fork hands to a child as 0 */
static _Atomic uint32_t windows_lives = 1;
static _Atomic uint64_t windows_serials = 1;

/* ---- the end of a thread -------------------------------------------------- */

bool window_let_go(struct client_window *window)
{
    struct space_mapped named = {.number = 0};

    while (window->hold_count > 0) {
        const struct space_hold *hold = &window->holds[window->hold_count - 1];

        named.number = hold->space;
        if (!space_producer_say(&window->producer, SPACE_RECORD_UNLOCK, &named, hold->block)) {
            return false;
        }
        window->hold_count--;
    }
    return true;
}

/* Others may wait for what it holds: it is let go now, if the node makes room for that. */
static void let_go_at_end(nigh_client *client, struct client_window *window)
{
    uint64_t until_us = clock_deadline_us(clock_now_us(&clock_monotonic), LIMIT_NODE_GRACE_US);
    bool is_done =
        window->hold_count == 0 ||
        window->connection != atomic_load_explicit(&client->connections, memory_order_relaxed);

    while (!is_done && client_life_is_same(client) && clock_now_us(&clock_monotonic) < until_us) {
        uint32_t news = space_producer_begin_sleep(&window->producer);

        is_done = window_let_go(window);
        window_ring(client, window);
        if (!is_done) {
            (void)space_producer_sleep(&window->producer, news, LIMIT_SPACE_LOOK_US);
        }
        space_producer_end_sleep(&window->producer);
    }
}

static void windows_put(struct client_windows *windows)
{
    if (atomic_fetch_sub_explicit(&windows->references, 1, memory_order_acq_rel) == 1) {
        free(windows);
    }
}

/* A client that closes meanwhile waits for who is at it, or is seen here to be closed. */
static void free_thread(struct space_thread *thread)
{
    struct client_windows *windows = thread->windows;
    _Atomic uint32_t *place = &windows->places[thread->place];
    bool is_child = atomic_load_explicit(windows_life, memory_order_relaxed) != windows->life;

    if (!is_child) {
        atomic_store_explicit(place, PLACE_ENDING, memory_order_seq_cst);
        if (atomic_load_explicit(&windows->closed, memory_order_seq_cst) == 0 &&
            windows->windows[thread->place] != NULL) {
            let_go_at_end(windows->client, windows->windows[thread->place]);
        }
    }
    atomic_store_explicit(place, PLACE_FREE, memory_order_release);
    windows_put(windows);
    free(thread);
}

static void thread_ends(void *unused)
{
    (void)unused;
    space_cache.serial = 0;
    while (space_threads != NULL) {
        struct space_thread *thread = space_threads;

        space_threads = thread->next;
        free_thread(thread);
    }
}

static void make_key(void)
{
    void *page =
        mmap(NULL, GUARD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED) {
        return;
    }
    if (madvise(page, GUARD_BYTES, MADV_WIPEONFORK) != 0 ||
        pthread_key_create(&windows_key, thread_ends) != 0) {
        (void)munmap(page, GUARD_BYTES);
        return;
    }
    windows_life = page;
    windows_key_made = true;
}

/* Another one than that of any process which this one is a child of. */
static uint32_t life_of_process(void)
{
    uint32_t life = 0;
    uint32_t next = atomic_fetch_add_explicit(&windows_lives, 1, memory_order_relaxed);

    return atomic_compare_exchange_strong_explicit(windows_life, &life, next, memory_order_relaxed,
                                                   memory_order_relaxed)
               ? next
               : life;
}

/* ---- of a client ---------------------------------------------------------- */

nigh_status windows_create(nigh_client *client)
{
    struct client_windows *windows;

    if (client->windows != NULL) {
        return NIGH_OK;
    }
    (void)pthread_once(&windows_once, make_key);
    windows = windows_key_made ? calloc(1, sizeof(*windows)) : NULL;
    if (windows == NULL) {
        return NIGH_NO_RESOURCES;
    }
    windows->serial = client->serial;
    windows->life = life_of_process();
    windows->client = client;
    atomic_store_explicit(&windows->references, 1, memory_order_relaxed);
    client->windows = windows;
    return NIGH_OK;
}

static void free_window(struct client_window *window, bool is_child)
{
    if (window != NULL && !is_child) {
        memfd_unmap(window->producer.window, sizeof(*window->producer.window));
    }
    free(window);
}

void windows_end(nigh_client *client, bool is_child)
{
    struct client_windows *windows = client->windows;

    if (windows == NULL) {
        return;
    }
    atomic_store_explicit(&windows->closed, 1, memory_order_seq_cst);
    for (uint32_t n = 0; n < LIMIT_SESSION_WINDOWS; n++) {
        while (!is_child &&
               atomic_load_explicit(&windows->places[n], memory_order_seq_cst) == PLACE_ENDING) {
            (void)sched_yield();
        }
        free_window(windows->windows[n], is_child);
        windows->windows[n] = NULL;
    }
    client->windows = NULL;
    windows_put(windows);
}

bool windows_are_pending(const nigh_client *client)
{
    const struct client_windows *windows = client->windows;

    for (uint32_t n = 0; n < LIMIT_SESSION_WINDOWS; n++) {
        const struct client_window *window = windows->windows[n];

        if (window != NULL &&
            window->connection ==
                atomic_load_explicit(&client->connections, memory_order_relaxed) &&
            shared_load_relaxed(&window->producer.window->tail.value) !=
                shared_load_acquire(&window->producer.window->head.value)) {
            return true;
        }
    }
    return false;
}

/* ---- of a thread ---------------------------------------------------------- */

/* The record of a client; frees those of clients that were closed meanwhile. */
static struct space_thread *look_up(uint64_t serial)
{
    struct space_thread **link = &space_threads;
    struct space_thread *found = NULL;

    while (*link != NULL) {
        struct space_thread *thread = *link;

        if (atomic_load_explicit(&thread->windows->closed, memory_order_acquire) != 0) {
            *link = thread->next;
            free_thread(thread);
            continue;
        }
        if (thread->windows->serial == serial) {
            found = thread;
        }
        link = &thread->next;
    }
    return found;
}

/* LIMIT_SESSION_WINDOWS: none is free. */
static uint32_t claim(struct client_windows *windows)
{
    for (uint32_t n = 0; n < LIMIT_SESSION_WINDOWS; n++) {
        uint32_t nobody = PLACE_FREE;

        if (atomic_compare_exchange_strong_explicit(&windows->places[n], &nobody, PLACE_OWNED,
                                                    memory_order_acquire, memory_order_relaxed)) {
            return n;
        }
    }
    return LIMIT_SESSION_WINDOWS;
}

static nigh_status find_thread(nigh_client *client, struct space_thread **out)
{
    struct space_thread *thread = look_up(client->serial);
    uint32_t place;

    if (thread != NULL) {
        *out = thread;
        return NIGH_OK;
    }
    thread = calloc(1, sizeof(*thread));
    /* The key's value only has to be not NULL, so that the destructor runs. */
    if (thread == NULL || pthread_setspecific(windows_key, &windows_key) != 0) {
        free(thread);
        return error_note(client, NIGH_NO_RESOURCES);
    }
    place = claim(client->windows);
    if (place == LIMIT_SESSION_WINDOWS) {
        free(thread);
        return error_set(client, NIGH_LIMIT,
                         "%d threads of this client use spaces already, and one more cannot",
                         LIMIT_SESSION_WINDOWS);
    }
    *thread = (struct space_thread){
        .next = space_threads, .windows = client->windows, .place = place, .is_new = true};
    atomic_fetch_add_explicit(&client->windows->references, 1, memory_order_relaxed);
    space_threads = thread;
    *out = thread;
    return NIGH_OK;
}

/* ---- made ----------------------------------------------------------------- */

/* The memory of one that the node has made. */
static nigh_status map_window(nigh_client *client, const struct client_op *op, void **memory)
{
    uint64_t bytes = 0;
    int fd = -1;
    nigh_status status;

    client_lock(client);
    status = socket_ask_space(client, op->u.space.number, &fd);
    if (status == NIGH_OK && op->u.space.connection !=
                                 atomic_load_explicit(&client->connections, memory_order_relaxed)) {
        status = NIGH_CLOSED;
    }
    client_unlock(client);
    if (status == NIGH_OK) {
        status = memfd_size(fd, &bytes);
    }
    if (status == NIGH_OK && bytes < sizeof(struct space_window)) {
        status = NIGH_PROTOCOL;
    }
    if (status == NIGH_OK) {
        status = memfd_map(fd, sizeof(struct space_window), MEMFD_WRITABLE, memory);
    }
    fd_close(&fd);
    return status;
}

static void end_window(nigh_client *client, const struct client_op *made)
{
    struct client_op op;

    space_init(&op, client, SESSION_SPACE_WINDOW_END, LIMIT_NODE_GRACE_US);
    op.u.space.number = made->u.space.number;
    op.u.space.connection = made->u.space.connection;
    (void)op_run(&op);
}

static nigh_status make_window(nigh_client *client, uint64_t deadline_us,
                               struct client_window **out)
{
    struct client_window *window = calloc(1, sizeof(*window));
    struct client_op op;
    void *memory = NULL;
    nigh_status status;

    if (window == NULL) {
        return error_note(client, NIGH_NO_RESOURCES);
    }
    space_init(&op, client, SESSION_SPACE_WINDOW, 0);
    op.deadline_us = deadline_us;
    status = space_run(&op);
    if (status == NIGH_OK && (status = map_window(client, &op, &memory)) != NIGH_OK) {
        end_window(client, &op);
        (void)error_note(client, status);
    }
    if (status != NIGH_OK) {
        free(window);
        return status;
    }
    space_producer_init(&window->producer, memory);
    window->number = op.u.space.number;
    window->connection = op.u.space.connection;
    window->serial = atomic_fetch_add_explicit(&windows_serials, 1, memory_order_relaxed);
    *out = window;
    return NIGH_OK;
}

/* In place of one of a connection that is gone. */
static nigh_status renew(nigh_client *client, struct space_thread *thread, uint64_t deadline_us)
{
    struct client_window **place = &thread->windows->windows[thread->place];
    struct client_window *window, *old;
    nigh_status status = make_window(client, deadline_us, &window);

    if (status != NIGH_OK) {
        return status;
    }
    space_cache.serial = 0;
    client_lock(client);
    old = *place;
    *place = window;
    client_unlock(client);
    free_window(old, false);
    thread->is_new = false;
    return NIGH_OK;
}

/* What a thread before has left is to be over: its writes are not this one's. */
static nigh_status take_over(nigh_space *space, struct space_thread *thread, uint64_t deadline_us)
{
    struct client_window *window = thread->windows->windows[thread->place];
    nigh_status status = window_settle(space, window, deadline_us);
    uint64_t address;
    nigh_status last;

    while (status == NIGH_OK && !window_let_go(window)) {
        status = window_wait_room(space, window, deadline_us);
    }
    if (status == NIGH_OK) {
        status = window_wait_empty(space, window, deadline_us);
    }
    if (status == NIGH_OK) {
        (void)space_producer_failures(&window->producer, &last, &address);
        thread->is_new = false;
    }
    return status;
}

nigh_status windows_find(nigh_space *space, uint64_t deadline_us, struct client_window **window)
{
    nigh_client *client = space->client;
    struct client_window *had;
    struct space_thread *thread = NULL;
    nigh_status status = find_thread(client, &thread);

    if (status != NIGH_OK) {
        return status;
    }
    had = thread->windows->windows[thread->place];
    if (had == NULL || had->connection != space->connection) {
        status = renew(client, thread, deadline_us);
        if (status == NIGH_OK &&
            thread->windows->windows[thread->place]->connection != space->connection) {
            status = space_check_slow(space, "a space");
        }
    } else if (thread->is_new) {
        status = take_over(space, thread, deadline_us);
    }
    if (status != NIGH_OK) {
        return status;
    }
    *window = thread->windows->windows[thread->place];
    space_cache.window = *window;
    space_cache.serial = client->serial;
    return NIGH_OK;
}
