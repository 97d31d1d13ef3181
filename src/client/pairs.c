/* SPDX-License-Identifier: Apache-2.0 */
/* See pairs.h. The life of pairs, and who waits for them; what goes through is in pair_calls.c. */
#include "client/client_internal.h"
#include "client/op.h"
#include "client/pairs.h"
#include "client/ring.h"
#include "client/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "client/pair_calls.h"
#include "client/services.h"
#include "memory/memfd.h"

#define PAIR_BELLS 16 /* taken from the kernel at a time */
#define PAIR_RINGS 8  /* of one bell that are read in a turn */
#define PAIR_TIMER LIMIT_SESSION_PAIRS

/* ---- the set -------------------------------------------------------------- */

static struct client_pairs *pairs_of(const nigh_client *client)
{
    return atomic_load_explicit(&client->pairs, memory_order_acquire);
}

static uint64_t live_of(const struct client_pairs *pairs)
{
    return atomic_load_explicit(&pairs->live, memory_order_relaxed);
}

static bool watch(const struct client_pairs *pairs, int fd, uint32_t number)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};

    return epoll_ctl(pairs->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void free_set(struct client_pairs *pairs, bool unmaps)
{
    if (pairs->window != NULL && unmaps) {
        memfd_unmap(pairs->window, sizeof(struct pair_memory) * LIMIT_SESSION_PAIRS);
    }
    for (uint32_t n = 0; n < LIMIT_SESSION_PAIRS; n++) {
        fd_close(&pairs->all[n].bell_fd);
    }
    fd_close(&pairs->timer_fd);
    fd_close(&pairs->epoll_fd);
    free(pairs);
}

/* Made with the first pair, and there until the client is closed: threads look at it as they wait.
 */
static struct client_pairs *make_set(nigh_client *client)
{
    struct client_pairs *pairs = pairs_of(client);
    struct epoll_event event = {.events = EPOLLIN};

    if (pairs != NULL) {
        return pairs;
    }
    pairs = calloc(1, sizeof(*pairs));
    if (pairs == NULL) {
        return NULL;
    }
    for (uint32_t n = 0; n < LIMIT_SESSION_PAIRS; n++) {
        pairs->all[n].bell_fd = -1;
    }
    atomic_store_explicit(&pairs->due_us, UINT64_MAX, memory_order_relaxed);
    pairs->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    pairs->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (pairs->timer_fd < 0 || pairs->epoll_fd < 0 || !watch(pairs, pairs->timer_fd, PAIR_TIMER) ||
        memfd_reserve(sizeof(struct pair_memory) * LIMIT_SESSION_PAIRS, &pairs->window) !=
            NIGH_OK ||
        epoll_ctl(client->poll_fd, EPOLL_CTL_ADD, pairs->epoll_fd, &event) != 0) {
        free_set(pairs, true);
        return NULL;
    }
    atomic_store_explicit(&client->pairs, pairs, memory_order_release);
    return pairs;
}

void pairs_free(nigh_client *client, bool child)
{
    struct client_pairs *pairs = pairs_of(client);

    if (pairs != NULL) {
        free_set(pairs, !child);
        atomic_store_explicit(&client->pairs, NULL, memory_order_relaxed);
    }
}

/* ---- the node ------------------------------------------------------------- */

/* False: the queue is full. */
static bool say(const nigh_client *client, uint16_t kind, struct session_pair_ask ask)
{
    ask.header = (struct session_message_header){.magic = SESSION_MAGIC, .kind = kind};
    return fd_send_message(client->socket_fd, &ask, sizeof(ask), NULL, 0) != NIGH_BUSY;
}

/* The place and its memory are the node's again, when the other side has let go, too. */
static void let_go(const nigh_client *client, struct client_pairs *pairs, uint32_t place)
{
    struct session_pair_ask drop = {.place = place, .serial = pairs->all[place].serial};
    uint64_t bit = UINT64_C(1) << place;

    pairs->owed = say(client, SESSION_PAIR_DROP, drop) ? pairs->owed & ~bit : pairs->owed | bit;
}

/* There is no pair for that name for so long. */
static void refuse(nigh_client *client, uint64_t hash, uint64_t wait_us)
{
    struct client_pair_refused *oldest = &client->pair_refused[0];

    for (uint32_t n = 0; n < LIMIT_PAIR_REFUSED; n++) {
        struct client_pair_refused *one = &client->pair_refused[n];

        if (one->hash == hash) {
            oldest = one;
            break;
        }
        if (one->until_us < oldest->until_us) {
            oldest = one;
        }
    }
    oldest->hash = hash;
    oldest->until_us = clock_now_us(&clock_monotonic) + wait_us;
}

/* Where as many names are refused as are remembered, every other is, too. */
static bool is_refused(const nigh_client *client, uint64_t hash)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);
    uint32_t refused = 0;

    for (uint32_t n = 0; n < LIMIT_PAIR_REFUSED; n++) {
        bool counts = now_us < client->pair_refused[n].until_us;

        if (client->pair_refused[n].hash == hash) {
            return counts;
        }
        refused += counts;
    }
    return refused == LIMIT_PAIR_REFUSED;
}

void pairs_learn(nigh_client *client, uint64_t hash, uint32_t rank)
{
    if (!client->has_pairs || client->driver != NULL || pair_find(pairs_of(client), hash) != NULL ||
        is_refused(client, hash)) {
        return;
    }
    refuse(client, hash, LIMIT_PAIR_AGAIN_US); /* not again before it was answered */
    (void)say(client, SESSION_PAIR_ASK, (struct session_pair_ask){.hash = hash, .rank = rank});
}

/* ---- one pair ------------------------------------------------------------- */

static nigh_service *find_service(const nigh_client *client, uint64_t hash)
{
    LIST_FOREACH_SAFE(node, &client->services)
    {
        nigh_service *service = container_of(node, nigh_service, place);

        if (service->session.hash == hash && service->handler == NULL) {
            return service;
        }
    }
    return NULL;
}

/* Memory that was a pair's is read as zeroes from now on, by who looks without the lock. */
static void unmap_pair(struct client_pair *pair)
{
    void *zeroes = mmap(pair->memory, sizeof(*pair->memory), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

    if (zeroes != MAP_FAILED) {
        (void)madvise(zeroes, sizeof(*pair->memory), MADV_DONTFORK);
    }
}

void pair_end(nigh_client *client, struct client_pair *pair, bool is_lost)
{
    struct client_pairs *pairs = pairs_of(client);
    uint32_t place = (uint32_t)(pair - pairs->all);
    uint64_t bit = UINT64_C(1) << place;
    struct pair_call calls[LIMIT_PAIR_ENTRIES];

    if ((live_of(pairs) & bit) == 0) {
        return;
    }
    /* What was answered counts, unless it is rubbish: then this comes back here. */
    if (!pair->serves && !pair_take_replies(client, pair)) {
        return;
    }
    atomic_fetch_and_explicit(&pairs->live, ~bit, memory_order_relaxed);
    atomic_fetch_and_explicit(&pairs->wanted, ~bit, memory_order_relaxed);
    (void)epoll_ctl(pairs->epoll_fd, EPOLL_CTL_DEL, pair->bell_fd, NULL);
    fd_close(&pair->bell_fd); /* the other side sees the end */
    unmap_pair(pair);
    if (pair->service != NULL) {
        pair->service->pair_mask &= ~bit;
    } else {
        refuse(client, pair->hash, LIMIT_PAIR_AGAIN_US);
    }
    if (!is_lost) {
        let_go(client, pairs, place);
    }
    memcpy(calls, pair->calls, sizeof(calls)); /* the place may be another's before the end */
    for (uint32_t tag = 0; tag < LIMIT_PAIR_ENTRIES && !pair->serves; tag++) {
        if (calls[tag].used && calls[tag].op != NULL) {
            pair_lost_call(calls[tag].op);
        }
    }
}

void pair_broken(nigh_client *client, struct client_pair *pair)
{
    /* Nothing more is read of it. */
    pair->in.half = NULL;
    pair_end(client, pair, false);
}

static void begin_pair(nigh_client *client, struct client_pair *pair,
                       const struct session_pair *told, int bell_fd)
{
    struct pair_memory *memory = pair->memory;
    bool serves = (told->flags & SESSION_PAIR_SERVES) != 0;
    struct pair_half *reads = serves ? &memory->requests : &memory->replies;
    struct pair_look *look = &pairs_of(client)->look[told->place];

    memset(pair, 0, sizeof(*pair));
    pair->memory = memory;
    pair->hash = told->hash;
    pair->serial = told->serial;
    pair->uid = told->uid;
    pair->rank = told->rank;
    pair->serves = serves;
    pair->bell_fd = bell_fd;
    atomic_store_explicit(&look->head, 0, memory_order_relaxed);
    atomic_store_explicit(&look->reads, reads, memory_order_relaxed);
    pair_begin_reader(&pair->in, reads);
    pair_begin_writer(&pair->out, serves ? &memory->replies : &memory->requests);
    for (uint32_t tag = 0; tag < LIMIT_PAIR_ENTRIES; tag++) {
        pair->free[tag] = (uint8_t)(LIMIT_PAIR_ENTRIES - 1 - tag);
    }
    if (serves) {
        pair->service = find_service(client, told->hash);
    }
    /* Threads may be asleep already that did not say so here: the first record rings. */
    shared_store_relaxed(&reads->asleep.value, 1);
}

/* Descriptors that are taken over are set to -1. */
static bool take_pair(nigh_client *client, const struct session_pair *told, int fds[2])
{
    bool serves = (told->flags & SESSION_PAIR_SERVES) != 0;
    struct client_pairs *pairs;
    struct client_pair *pair;
    uint64_t size_bytes = 0;

    if (client->driver != NULL || told->place >= LIMIT_SESSION_PAIRS || fds[1] < 0 ||
        (serves && find_service(client, told->hash) == NULL) ||
        memfd_size(fds[0], &size_bytes) != NIGH_OK || size_bytes != sizeof(struct pair_memory) ||
        (pairs = make_set(client)) == NULL) {
        return false;
    }
    pair = &pairs->all[told->place];
    pair_end(client, pair, true); /* none, for a node that is in its senses */
    pairs->owed &= ~(UINT64_C(1) << told->place);
    pair->memory = (struct pair_memory *)pairs->window + told->place;
    if (memfd_map_at(pair->memory, fds[0], size_bytes, MEMFD_WRITABLE | MEMFD_PREFAULT) !=
            NIGH_OK ||
        !watch(pairs, fds[1], told->place)) {
        unmap_pair(pair);
        return false;
    }
    begin_pair(client, pair, told, fds[1]);
    fds[1] = -1;
    atomic_fetch_or_explicit(&pairs->live, UINT64_C(1) << told->place, memory_order_release);
    if (serves) {
        pair->service->pair_mask |= UINT64_C(1) << told->place;
        pairs_want(pair->service);
        shared_store_release(&pair->memory->requests.open.value, PAIR_OPEN);
    }
    if (atomic_load_explicit(&client->leading, memory_order_relaxed)) {
        ring_tell(client); /* who sleeps for all knew of no bell when it lay down */
    }
    return true;
}

void pairs_told(nigh_client *client, const struct session_pair *told, int fds[2])
{
    if (told->status == NIGH_OK && !take_pair(client, told, fds)) {
        /* Lost where the queue is full, and then the place is. */
        (void)say(client, SESSION_PAIR_DROP,
                  (struct session_pair_ask){.place = told->place, .serial = told->serial});
    } else if (told->status == NIGH_BUSY) {
        refuse(client, told->hash, LIMIT_PAIR_SOON_US);
    }
    fd_close(&fds[0]);
    fd_close(&fds[1]);
}

/* ---- ends ----------------------------------------------------------------- */

static void end_what_ended(nigh_client *client)
{
    struct client_pairs *pairs = pairs_of(client);
    uint64_t live = pairs != NULL ? live_of(pairs) : 0;

    for (; live != 0; live &= live - 1) {
        uint32_t place = (uint32_t)__builtin_ctzll(live);
        struct client_pair *pair = &pairs->all[place];

        if (shared_load_acquire(&client->front->pair_ended[place]) == pair->serial) {
            pair_end(client, pair, false);
        }
    }
}

static void take_news(nigh_client *client)
{
    uint32_t news = shared_load_acquire(&client->front->pair_news);

    if (news == atomic_load_explicit(&client->pair_news, memory_order_relaxed)) {
        return;
    }
    atomic_store_explicit(&client->pair_news, news, memory_order_relaxed);
    end_what_ended(client);
    socket_take_in(client);
    end_what_ended(client); /* also of what came just now */
}

void pairs_unserve(nigh_service *service)
{
    struct client_pairs *pairs = pairs_of(service->client);

    while (service->pair_mask != 0) {
        pair_end(service->client, &pairs->all[__builtin_ctzll(service->pair_mask)], false);
    }
}

struct client_op *pairs_take_op(nigh_client *client)
{
    struct client_pairs *pairs = pairs_of(client);
    uint64_t live = pairs != NULL ? live_of(pairs) : 0;

    for (; live != 0; live &= live - 1) {
        struct client_pair *pair = &pairs->all[__builtin_ctzll(live)];

        for (uint32_t tag = 0; tag < LIMIT_PAIR_ENTRIES && !pair->serves; tag++) {
            struct client_op *op = pair->calls[tag].op;

            if (op != NULL) {
                pair->calls[tag].op = NULL;
                op->flags &= ~OP_PAIRED;
                return op;
            }
        }
    }
    return NULL;
}

void pairs_lose(nigh_client *client)
{
    struct client_pairs *pairs = pairs_of(client);

    while (pairs != NULL && live_of(pairs) != 0) {
        struct client_pair *pair = &pairs->all[__builtin_ctzll(live_of(pairs))];

        pair->in.half = NULL;
        pair_end(client, pair, true);
    }
    if (pairs != NULL) {
        pairs->owed = 0;
    }
}

/* ---- waiting -------------------------------------------------------------- */

bool pairs_are_ready(const nigh_client *client)
{
    struct client_pairs *pairs = pairs_of(client);
    uint64_t wanted;

    if (atomic_load_explicit(&client->state, memory_order_relaxed) != CLIENT_ATTACHED) {
        return false; /* nothing is taken in any more */
    }
    if (shared_load_relaxed(&client->front->pair_news) !=
        atomic_load_explicit(&client->pair_news, memory_order_relaxed)) {
        return true;
    }
    if (pairs == NULL) {
        return false;
    }
    wanted = atomic_load_explicit(&pairs->wanted, memory_order_acquire);
    for (; wanted != 0; wanted &= wanted - 1) {
        struct pair_look *look = &pairs->look[__builtin_ctzll(wanted)];

        if (pair_is_readable(atomic_load_explicit(&look->reads, memory_order_relaxed),
                             atomic_load_explicit(&look->head, memory_order_relaxed))) {
            return true;
        }
    }
    return false;
}

bool pairs_any(const nigh_client *client)
{
    const struct client_pairs *pairs = pairs_of(client);

    return pairs != NULL && live_of(pairs) != 0;
}

int pairs_bell(const nigh_client *client)
{
    const struct client_pairs *pairs = pairs_of(client);

    return pairs != NULL ? pairs->epoll_fd : -1;
}

/* The fence between this and the next look at the pairs is the caller's. */
void pairs_sleep(nigh_client *client)
{
    struct client_pairs *pairs = pairs_of(client);
    uint64_t live = pairs != NULL ? live_of(pairs) : 0;

    for (; live != 0; live &= live - 1) {
        struct pair_look *look = &pairs->look[__builtin_ctzll(live)];

        shared_store_relaxed(
            &atomic_load_explicit(&look->reads, memory_order_relaxed)->asleep.value, 1);
    }
}

void pairs_set_timer(const struct client_pairs *pairs)
{
    uint64_t due_us = atomic_load_explicit(&pairs->due_us, memory_order_relaxed);
    struct itimerspec at = {0};

    if (due_us != UINT64_MAX) {
        at.it_value.tv_sec = (time_t)(due_us / 1000000);
        at.it_value.tv_nsec = (long)(due_us % 1000000) * 1000 + 1;
    }
    (void)timerfd_settime(pairs->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

void pairs_arm(nigh_client *client)
{
    const struct client_pairs *pairs = pairs_of(client);

    if (pairs != NULL) {
        pairs_sleep(client);
        pairs_end_overdue(client, 0); /* ends none: what is due is known again */
        pairs_set_timer(pairs);
    }
}

void pairs_time(const nigh_client *client, uint64_t was_due_us)
{
    if (pairs_due_us(client) != was_due_us) {
        pairs_set_timer(pairs_of(client));
    }
}

/* One that rings without end is heard now and then: its other side costs no more than requests do.
 * A bell whose other end is closed is an end. */
static void take_bell(nigh_client *client, struct client_pair *pair)
{
    uint8_t rung;

    for (uint32_t n = 0; n < PAIR_RINGS; n++) {
        ssize_t got = recv(pair->bell_fd, &rung, sizeof(rung), MSG_DONTWAIT);

        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (got <= 0) {
            pair_end(client, pair, false);
            return;
        }
    }
}

void pairs_take_bells(nigh_client *client, bool sleeps)
{
    struct client_pairs *pairs = pairs_of(client);
    struct epoll_event rung[PAIR_BELLS];
    int count = pairs != NULL ? epoll_wait(pairs->epoll_fd, rung, PAIR_BELLS, 0) : 0;
    uint64_t expired;

    for (int n = 0; n < count; n++) {
        uint32_t place = rung[n].data.u32;

        if (place == PAIR_TIMER) {
            (void)!read(pairs->timer_fd, &expired, sizeof(expired));
            client_ring_bell(client); /* an application may have slept on it */
        } else if ((live_of(pairs) >> place & 1) != 0) {
            take_bell(client, &pairs->all[place]);
        }
    }
    if (count <= 0) {
        return;
    }
    /* Others may sleep on, whom those that rang take for woken. */
    if (sleeps || atomic_load_explicit(&client->leading, memory_order_relaxed)) {
        pairs_sleep(client);
        shared_fence();
    }
    /* What came before that rings no more; and calls of pairs that ended went to the lanes. */
    if (atomic_load_explicit(&client->state, memory_order_relaxed) == CLIENT_ATTACHED) {
        ring_take_in(client, NULL);
    }
}

uint64_t pairs_due_us(const nigh_client *client)
{
    const struct client_pairs *pairs = pairs_of(client);

    return pairs != NULL ? atomic_load_explicit(&pairs->due_us, memory_order_relaxed) : UINT64_MAX;
}

bool pairs_are_due(const nigh_client *client, uint64_t now_us)
{
    return now_us >= pairs_due_us(client);
}

void pairs_take_in(nigh_client *client)
{
    struct client_pairs *pairs;
    uint64_t wanted;

    take_news(client);
    pairs = pairs_of(client);
    if (pairs == NULL) {
        return;
    }
    for (uint64_t owed = pairs->owed; owed != 0; owed &= owed - 1) {
        let_go(client, pairs, (uint32_t)__builtin_ctzll(owed));
    }
    wanted = atomic_load_explicit(&pairs->wanted, memory_order_relaxed);
    for (; wanted != 0; wanted &= wanted - 1) {
        struct client_pair *pair = &pairs->all[__builtin_ctzll(wanted)];

        if (pair->serves) {
            pair_feed_receives(pair->service);
        } else {
            (void)pair_take_replies(client, pair);
        }
    }
}
