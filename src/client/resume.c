/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coming back: when the node died, the next call that needs it connects again and resumes the
 * session. Gets without IPC never come here; they go on over the memory that is still mapped.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "client/attach.h"
#include "client/client_internal.h"
#include "client/error.h"
#include "client/lease.h"
#include "client/ring.h"
#include "client/socket.h"
#include "memory/memfd.h"

#define RESUME_ATTEMPTS 2

static bool resume_is_same_file(int fd, ino_t inode)
{
    struct stat file;

    return fstat(fd, &file) == 0 && file.st_ino == inode;
}

/* Whether the welcome speaks of the memory that this client has mapped. */
static bool resume_fits(const nigh_client *client, const struct attach_answer *answer)
{
    const struct session_welcome *welcome = &answer->welcome;

    if (welcome->lanes != client->lanes || welcome->session != client->session ||
        welcome->slot != client->slot || welcome->extent_bytes != client->extent_bytes ||
        answer->fd_count != SESSION_WELCOME_FDS(client->lanes) ||
        !resume_is_same_file(answer->fds[1], client->memory_inode)) {
        return false;
    }
    for (uint32_t i = 0; i < client->lanes; i++) {
        if (!resume_is_same_file(answer->fds[2 + 2 * i], client->lane[i].index_inode)) {
            return false;
        }
    }
    return true;
}

/* Takes the new doorbells, node page and socket; the numbers of descriptors stay, because threads
 * may be asleep on the old ones. */
static nigh_status resume_adopt(nigh_client *client, struct attach_answer *answer, int *socket_fd)
{
    struct epoll_event readable = {.events = EPOLLIN};
    uint64_t page_bytes;
    nigh_status status = memfd_size(answer->fds[0], &page_bytes);

    if (status == NIGH_OK && page_bytes < sizeof(*client->node_page)) {
        status = NIGH_PROTOCOL;
    }
    if (status == NIGH_OK) {
        /* Over the old one: other threads may be looking at it. No more than that one has: what
         * lies behind it is not ours, and a newer node's page may be longer. */
        status = memfd_map_at(client->node_page, answer->fds[0], sizeof(*client->node_page), 0);
    }
    if (status != NIGH_OK) {
        return status;
    }
    if (dup3(*socket_fd, client->socket_fd, O_CLOEXEC) < 0) {
        return NIGH_NO_RESOURCES;
    }
    fd_close(socket_fd);
    if (epoll_ctl(client->poll_fd, EPOLL_CTL_ADD, client->socket_fd, &readable) != 0) {
        /* A loop that sleeps on the descriptor would hear nothing. The node is to see an end, or
         * it refuses the next attempt. */
        (void)shutdown(client->socket_fd, SHUT_RDWR);
        return NIGH_NO_RESOURCES;
    }
    for (uint32_t i = 0; i < client->lanes; i++) {
        fd_close(&client->lane[i].doorbell);
        client->lane[i].doorbell = answer->fds[3 + 2 * i];
        answer->fds[3 + 2 * i] = -1;
    }
    return NIGH_OK;
}

/* Pins that a lane set for us and whose completions went with the node: no view will end them. The
 * lanes set none before they are asked again. */
static void resume_clear_pins(nigh_client *client)
{
    for (uint32_t i = 0; i < client->lanes; i++) {
        struct client_lane *lane = &client->lane[i];

        for (uint32_t pin = 0; pin < LIMIT_LANE_PINS; pin++) {
            if (atomic_load_explicit(&lane->views[pin], memory_order_acquire) == 0 &&
                shared_load_relaxed(&lane->shared->pin_entry[pin]) != 0) {
                pin_clear(&lane->shared->pin_entry[pin]);
            }
        }
    }
}

static void resume_begin_anew(nigh_client *client, const struct attach_answer *answer)
{
    memcpy(client->token, answer->welcome.token, sizeof(client->token));
    atomic_store_explicit(&client->node_incarnation, answer->welcome.incarnation,
                          memory_order_relaxed);
    client->late_grants = 0;
    attach_hear_offers(client, &answer->welcome);
    atomic_fetch_add_explicit(&client->connections, 1, memory_order_relaxed);
    ring_reset(client);
    resume_clear_pins(client);
    lease_came_back(client);
    for (uint32_t i = 0; i < client->lanes; i++) {
        client->lane[i].sq_tail = 0;
        atomic_store_explicit(&client->lane[i].cq_head, 0, memory_order_relaxed);
        atomic_store_explicit(&client->lane[i].event_head, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&client->state, CLIENT_ATTACHED, memory_order_release);
    if (client->armed) { /* what the last node had of it may have gone unsaid */
        atomic_store_explicit(&client->front->poke_wanted, 1, memory_order_relaxed);
        shared_fence();
    }
    ring_pay(client); /* first: what is created from now on may have the same place */
    ring_flush(client);
    if (client->subscribed) {
        /* The node forgot that it was asked for events, and some of them were never told. */
        struct session_sqe sqe = {.op = SESSION_OP_SUBSCRIBE, .argument = client->hears};

        for (uint32_t i = 0; i < client->lanes; i++) {
            struct session_sqe copy = sqe;

            ring_submit(client, i, NULL, 0, false, &copy);
        }
        ring_flush(client);
        atomic_store_explicit(&client->events_missed, true, memory_order_relaxed);
        client_ring_bell(client); /* that is an event, of which no lane tells */
        ring_tell(client);
    }
}

/* Connects and says hello, unless one waits for its answer already. */
static nigh_status resume_ask(nigh_client *client, uint64_t timeout_us, char *text)
{
    struct session_hello hello;
    nigh_status status;

    if (client->resume_fd >= 0) {
        return NIGH_OK;
    }
    status = attach_connect(client->socket_path, timeout_us, &client->resume_fd, text);
    if (status == NIGH_OK) {
        attach_fill_hello(client, &hello);
        hello.flags |= SESSION_HELLO_RESUME;
        hello.session = client->session;
        memcpy(hello.token, client->token, sizeof(hello.token));
        attach_hello(client->resume_fd, &hello);
    }
    return status;
}

/* Whether the session is there still, for all that is known, and what stood in the way may pass. */
static bool resume_may_come(nigh_status status)
{
    return status == NIGH_TIMEOUT || status == NIGH_UNREACHABLE || status == NIGH_BUSY ||
           status == NIGH_NO_RESOURCES;
}

/* The node has no such session: this client's memory is nobody's any more. */
static nigh_status resume_give_up(nigh_client *client, nigh_status status, const char *text)
{
    (void)snprintf(client->end_text, sizeof(client->end_text),
                   "the node was restarted and does not know this session (%.380s): open a new "
                   "client",
                   text);
    client->socket_path[0] = '\0';
    client_lose(client, status == NIGH_EXPELLED ? NIGH_EXPELLED : NIGH_NODE_LOST);
    return (nigh_status)atomic_load(&client->why);
}

/* Asks, unless that was done before, and waits for the answer. False: nobody can be asked. */
static bool resume_call(nigh_client *client, uint64_t timeout_us, struct attach_answer *answer,
                        nigh_status *status, char *why)
{
    bool waits = client->resume_fd >= 0;

    if (resume_ask(client, timeout_us, why) != NIGH_OK) {
        return false;
    }
    *status = attach_await(client->resume_fd, timeout_us, answer, why);
    if (waits && *status == NIGH_UNREACHABLE) {
        /* Who was asked has gone since: another may be there. */
        fd_close(&client->resume_fd);
        return resume_call(client, timeout_us, answer, status, why);
    }
    return true;
}

/* Goes on with what the node answered, or with its refusal. */
static nigh_status resume_take(nigh_client *client, nigh_status status,
                               struct attach_answer *answer, char *why)
{
    if (status == NIGH_OK && !resume_fits(client, answer)) {
        status = NIGH_PROTOCOL;
        (void)snprintf(why, CLIENT_TEXT_BYTES, "it resumed another session");
    }
    if (status == NIGH_OK) {
        status = resume_adopt(client, answer, &client->resume_fd);
        (void)snprintf(why, CLIENT_TEXT_BYTES, "%s", nigh_status_string(status));
    }
    if (status == NIGH_OK) {
        resume_begin_anew(client, answer);
    }
    attach_answer_fini(answer);
    if (status != NIGH_TIMEOUT) {
        fd_close(&client->resume_fd);
    }
    return status;
}

/*
 * One attempt. NIGH_NODE_LOST while the client is CLIENT_LOST still: not there yet, and the session
 * may be resumed later; `text` says why. What asked and got no answer in time stays asked: the node
 * may answer before the next attempt, and would have to refuse a second question.
 */
static nigh_status resume_try(nigh_client *client, uint64_t timeout_us, char *text)
{
    struct attach_answer answer = {.fd_count = 0};
    char why[CLIENT_TEXT_BYTES];
    nigh_status status;

    if (!resume_call(client, timeout_us, &answer, &status, why)) {
        (void)snprintf(text, CLIENT_TEXT_BYTES, "the node died, and is not back: %.400s", why);
        return NIGH_NODE_LOST;
    }
    status = resume_take(client, status, &answer, why);
    if (status == NIGH_OK) {
        return NIGH_OK;
    }
    if (resume_may_come(status)) {
        (void)snprintf(text, CLIENT_TEXT_BYTES, "the node died, and is not ready yet: %.400s", why);
        return NIGH_NODE_LOST;
    }
    status = resume_give_up(client, status, why);
    (void)snprintf(text, CLIENT_TEXT_BYTES, "%s", client->end_text);
    return status;
}

void resume_leave(nigh_client *client)
{
    char text[CLIENT_TEXT_BYTES];

    /* Both wait in the socket that is kept, if nobody is there yet. */
    if (resume_ask(client, 0, text) == NIGH_OK) {
        socket_say_bye(client->resume_fd);
    }
}

void resume_probe(nigh_client *client)
{
    char text[CLIENT_TEXT_BYTES];

    (void)resume_try(client, 0, text);
}

bool resume_is_needed(const nigh_client *client)
{
    return client->lose_later != NIGH_OK ||
           atomic_load_explicit(&client->state, memory_order_relaxed) != CLIENT_ATTACHED ||
           !life_goes_on(client);
}

nigh_status resume_ensure(nigh_client *client, uint64_t timeout_us)
{
    char text[CLIENT_TEXT_BYTES];
    nigh_status status = NIGH_NODE_LOST;

    if (client->lose_later != NIGH_OK) {
        return NIGH_NODE_LOST;
    }
    /* A welcome may have waited for so long that who sent it is dead, too. */
    for (int attempt = 0; attempt < RESUME_ATTEMPTS; attempt++) {
        if (atomic_load_explicit(&client->state, memory_order_relaxed) == CLIENT_ATTACHED) {
            if (life_goes_on(client)) {
                return NIGH_OK;
            }
            if (client->holds > 0) {
                return NIGH_NODE_LOST; /* in the middle of something: the next call finds out */
            }
            life_lost(client);
        }
        if (atomic_load_explicit(&client->state, memory_order_relaxed) == CLIENT_DEAD) {
            status = (nigh_status)atomic_load_explicit(&client->why, memory_order_relaxed);
            return error_explain(client, status, "%s",
                                 client->end_text[0] != '\0' ? client->end_text
                                                             : nigh_status_string(status));
        }
        if (client->holds > 0) {
            return NIGH_NODE_LOST;
        }
        status = resume_try(client, min_u64(timeout_us, LIMIT_NODE_GRACE_US), text);
        if (status != NIGH_OK) {
            return error_explain(client, status, "%s", text);
        }
    }
    return life_goes_on(client) ? NIGH_OK : NIGH_NODE_LOST;
}
