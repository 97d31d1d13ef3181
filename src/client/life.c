/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the node that a client is attached to still lives, and what a client does that finds it
 * dead. Every call reads two words of the node page (client_check); what comes here is the slow
 * path behind it, and what every call does that needs the node. See "When the node dies" in
 * docs/client.md.
 */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "client/attach.h"
#include "client/client_internal.h"
#include "client/error.h"
#include "client/ring.h"
#include "client/socket.h"

#define LIFE_PROBE_US                                                          \
    10000 /* how often calls that need no node look whether there is one again \
           */

bool life_goes_on(const nigh_client *client)
{
    const struct session_node_page *page = client->node_page;
    uint32_t incarnation = shared_load_acquire(&page->incarnation);

    /* Another one has taken over what this client has mapped; or the page does not say. */
    if (incarnation != 0 &&
        incarnation != atomic_load_explicit(&client->node_incarnation, memory_order_relaxed)) {
        return false;
    }
    return !session_node_ended(page);
}

bool life_may_return(const nigh_client *client)
{
    const struct session_node_page *page = client->node_page;

    return client->socket_path[0] != '\0' &&
           (page == NULL || shared_load_acquire(&page->life) == 0 ||
            shared_load_acquire(&page->kept) != 0);
}

void life_lost(nigh_client *client)
{
    socket_take_in(client); /* its last words, if it had any */
    if (atomic_load_explicit(&client->state, memory_order_relaxed) == CLIENT_ATTACHED &&
        client->lose_later == NIGH_OK) {
        ring_take_in(client, NULL);
        client_lose(client, NIGH_NODE_LOST);
    }
}

void life_find_out(nigh_client *client)
{
    if (atomic_load_explicit(&client->state, memory_order_relaxed) == CLIENT_ATTACHED &&
        !life_goes_on(client)) {
        life_lost(client);
    }
}

void life_say_end(nigh_client *client, nigh_status status)
{
    char said[4 * sizeof(client->bye) + 1];

    if (client->end_text[0] != '\0' || status == NIGH_CLOSED) {
        return;
    }
    if (client->bye[0] != '\0') {
        bytes_printable_sentence(client->bye, strlen(client->bye), said, sizeof(said));
        (void)snprintf(client->end_text, sizeof(client->end_text),
                       "the node ended this session: %.380s; open a new client", said);
    } else if (status != NIGH_NODE_LOST) {
        (void)snprintf(client->end_text, sizeof(client->end_text), "%s",
                       nigh_status_string(status));
    } else if (client->node_page != NULL &&
               shared_load_acquire(&client->node_page->stopping) != 0) {
        (void)snprintf(client->end_text, sizeof(client->end_text),
                       "the node was stopped, and what it had is gone: open a new client when one "
                       "is there again");
    } else {
        (void)snprintf(client->end_text, sizeof(client->end_text),
                       "the node died, and what it had is gone: open a new client when one is "
                       "there again");
    }
}

/* The node died and its memory is kept: gets go on over it. Whether its successor is there, and
 * knows this session, is found out by the way. */
static void life_probe(nigh_client *client)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);

    if (now_us - atomic_load_explicit(&client->probed_us, memory_order_relaxed) < LIFE_PROBE_US ||
        pthread_mutex_trylock(&client->lock) != 0) {
        return;
    }
    atomic_store_explicit(&client->probed_us, now_us, memory_order_relaxed);
    if (atomic_load_explicit(&client->state, memory_order_relaxed) == CLIENT_LOST) {
        resume_probe(client);
    }
    client_unlock(client);
}

/* The page says that the node has ended, or is another's, which may not know this session. */
static void life_look(nigh_client *client)
{
    if (atomic_load_explicit(&client->state, memory_order_acquire) == CLIENT_LOST) {
        life_probe(client);
        return;
    }
    client_lock(client);
    life_find_out(client);
    client_unlock(client);
}

nigh_status client_check_slow(nigh_client *client)
{
    nigh_status status = client_look(client);

    if (status == NIGH_OK && !life_goes_on(client)) {
        life_look(client);
        status = client_look(client);
    } else if (status != NIGH_OK && status != NIGH_FORKED && status != NIGH_INVALID &&
               atomic_load_explicit(&client->guard->word, memory_order_relaxed) == GUARD_ALIVE) {
        /* The node says so in memory: its sentence is in the socket, or about to be. */
        client_lock(client);
        socket_take_in(client);
        client_unlock(client);
    }
    if (status == NIGH_OK || status == NIGH_FORKED || status == NIGH_INVALID) {
        return status;
    }
    /* Written before the word that says so. */
    if (atomic_load_explicit(&client->guard->word, memory_order_acquire) == GUARD_DEAD &&
        client->end_text[0] != '\0') {
        return error_explain(client, status, "%s", client->end_text);
    }
    return error_explain(client, status, "%s", nigh_status_string(status));
}
