/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leased slabs: memory that the lane has lent to this client, from which small objects are cut
 * without asking. All functions want the client's lock.
 *
 * A lease that is used up is closed once nothing cut from it is still to be sealed, so that the
 * lane gets back what was never used; and so is one that a client has which sleeps in a call for
 * long. What a client keeps that sleeps elsewhere takes from others nothing but speed: who gets no
 * lease asks for each object. The lane keeps at most LIMIT_LEASE_PIECES unsealed pieces of
 * a lease apart; the client stays below, by counting what may lie between sealed objects.
 */
#include <string.h>

#include "base/clock.h"
#include "client/client_internal.h"
#include "client/lease.h"
#include "client/places.h"
#include "client/quota.h"
#include "client/ring.h"

#define LEASE_OBJECT_BYTES (LIMIT_LEASE_BYTES_MIN / 4) /* what is small whatever the lease */
#define LEASE_REST_US      10000                       /* no new asking after a refusal */
#define LEASE_PIECES       (LIMIT_LEASE_PIECES - 4)

void lease_reset(nigh_client *client)
{
    for (uint32_t i = 0; i < client->lanes; i++) {
        memset(client->lane[i].leases, 0, sizeof(client->lane[i].leases));
        client->lane[i].lease_current = 0;
        client->lane[i].lease_want = LIMIT_LEASE_BYTES_MIN;
        client->lane[i].lease_asked = false;
    }
}

void lease_forget_asked(nigh_client *client)
{
    for (uint32_t i = 0; i < client->lanes; i++) {
        client->lane[i].lease_asked = false;
    }
}

void lease_came_back(nigh_client *client)
{
    for (uint32_t i = 0; i < client->lanes; i++) {
        for (uint32_t n = 0; n < LIMIT_PUT_LEASES; n++) {
            struct client_lease *lease = &client->lane[i].leases[n];

            lease->holes += lease->bytes != 0;
        }
    }
}

static struct client_lease *lease_find(struct client_lane *lane, uint64_t offset)
{
    for (uint32_t i = 0; i < LIMIT_PUT_LEASES; i++) {
        struct client_lease *lease = &lane->leases[i];

        if (lease->bytes != 0 && offset - lease->offset < lease->bytes) {
            return lease;
        }
    }
    return NULL;
}

/* Gives a retired lease back when its last writer is done. */
static void lease_settle(nigh_client *client, uint32_t lane, struct client_lease *lease)
{
    struct session_sqe sqe = {.op = SESSION_OP_LEASE_CLOSE, .offset = lease->offset};

    if (!lease->retired || lease->writers + lease->sealing > 0) {
        return;
    }
    if (lease->used < lease->bytes || lease->holes > 0) {
        if (!ring_has_room(client, lane, UINT32_MAX) ||
            atomic_load_explicit(&client->state, memory_order_relaxed) != CLIENT_ATTACHED) {
            return; /* tried again when another lease is looked for */
        }
        ring_submit(client, lane, NULL, 0, false, &sqe);
    }
    memset(lease, 0, sizeof(*lease));
}

static bool lease_has_room(const struct client_lease *lease, uint64_t bytes)
{
    return lease->bytes != 0 && !lease->retired && lease->bytes - lease->used >= bytes &&
           lease->writers + lease->holes < LEASE_PIECES;
}

/* Turns to a lease with room; those without are retired. */
static struct client_lease *lease_choose(nigh_client *client, uint32_t lane, uint64_t bytes)
{
    struct client_lane *at = &client->lane[lane];
    struct client_lease *chosen = &at->leases[at->lease_current];

    if (lease_has_room(chosen, bytes)) {
        return chosen;
    }
    for (uint32_t i = 0; i < LIMIT_PUT_LEASES; i++) {
        if (lease_has_room(&at->leases[i], bytes)) {
            /* The one before has too little left for such objects. */
            if (chosen->bytes != 0) {
                chosen->retired = true;
                lease_settle(client, lane, chosen);
            }
            at->lease_current = i;
            return &at->leases[i];
        }
        lease_settle(client, lane, &at->leases[i]);
    }
    return NULL;
}

bool lease_cut(nigh_client *client, uint32_t lane, uint64_t bytes, uint64_t *offset)
{
    struct client_lease *lease = lease_choose(client, lane, bytes);

    if (lease == NULL) {
        return false;
    }
    *offset = lease->offset + lease->used;
    lease->used += bytes;
    lease->writers++;
    client->cuts++;
    return true;
}

/* Gives those of a lane back that nobody writes to. */
static void lease_retire(nigh_client *client, uint32_t lane)
{
    for (uint32_t i = 0; i < LIMIT_PUT_LEASES; i++) {
        struct client_lease *lease = &client->lane[lane].leases[i];

        if (lease->bytes != 0) {
            lease->retired = true;
            lease_settle(client, lane, lease);
        }
    }
}

void lease_rest(nigh_client *client)
{
    for (uint32_t lane = 0; lane < client->lanes; lane++) {
        lease_retire(client, lane);
        calls_rest(client, lane);
    }
}

bool lease_may_rest(const nigh_client *client)
{
    for (uint32_t lane = 0; lane < client->lanes; lane++) {
        for (uint32_t i = 0; i < LIMIT_PUT_LEASES; i++) {
            if (client->lane[lane].leases[i].bytes != 0) {
                return true;
            }
        }
        if (calls_may_rest(client, lane)) {
            return true;
        }
    }
    return false;
}

void lease_make_way(nigh_client *client, uint32_t lane, uint64_t bytes)
{
    if (bytes < max_u64(LIMIT_LEASE_BYTES_MAX, client->extent_bytes)) {
        return;
    }
    lease_retire(client, lane);
}

void lease_sealing(nigh_client *client, uint32_t lane, uint64_t offset)
{
    struct client_lease *lease = lease_find(&client->lane[lane], offset);

    if (lease != NULL && lease->writers > 0) {
        lease->writers--;
        lease->sealing++;
    }
}

void lease_sealed(nigh_client *client, uint32_t lane, uint64_t offset, bool well)
{
    struct client_lease *lease = lease_find(&client->lane[lane], offset);

    if (lease == NULL || lease->sealing == 0) {
        return;
    }
    /* What the lane refused is still in the lease. */
    lease->holes += !well;
    lease->sealing--;
    lease_settle(client, lane, lease);
}

void lease_gave_up(nigh_client *client, uint32_t lane, uint64_t offset, uint64_t bytes)
{
    struct client_lease *lease = lease_find(&client->lane[lane], offset);

    if (lease == NULL || lease->writers == 0) {
        return;
    }
    if (offset + bytes == lease->offset + lease->used) {
        lease->used -= bytes;
    } else {
        lease->holes++;
    }
    lease->writers--;
    lease_settle(client, lane, lease);
}

void lease_granted(nigh_client *client, uint32_t lane, uint64_t offset, uint64_t bytes)
{
    struct client_lane *at = &client->lane[lane];
    struct session_sqe sqe = {.op = SESSION_OP_LEASE_CLOSE, .offset = offset};

    if (bytes > client->arena_bytes || offset > client->arena_bytes - bytes ||
        offset % LIMIT_GRANULE_BYTES != 0 || bytes % LIMIT_GRANULE_BYTES != 0) {
        return;
    }
    for (uint32_t i = 0; i < LIMIT_PUT_LEASES; i++) {
        struct client_lease *lease = &at->leases[i];

        if (lease->bytes == 0) {
            lease->offset = offset;
            lease->bytes = bytes;
            lease->used = lease->writers = lease->sealing = lease->holes = 0;
            lease->retired = false;
            at->lease_want = min_u64(max_u64(at->lease_want, bytes) * 2, LIMIT_LEASE_BYTES_MAX);
            at->lease_granted_us = clock_now_us(&clock_monotonic);
            client->cuts++;
            return;
        }
    }
    if (ring_has_room(client, lane, UINT32_MAX)) {
        ring_submit(client, lane, NULL, 0, false, &sqe);
    }
}

bool lease_is_for(const nigh_client *client, uint32_t lane, uint64_t bytes)
{
    const struct client_lane *at = &client->lane[lane];

    return bytes <= max_u64(LEASE_OBJECT_BYTES, at->leases[at->lease_current].bytes / 2) &&
           !quota_is_below(client, bytes);
}

/* Who used the last one up slowly needs no large one, which would be idle for long. */
static uint64_t lease_wanted(struct client_lane *at)
{
    if (clock_now_us(&clock_monotonic) - at->lease_granted_us > LIMIT_LEASE_IDLE_US) {
        at->lease_want = LIMIT_LEASE_BYTES_MIN;
    }
    return at->lease_want;
}

/* Leases with room for more such objects, the current one not counted. */
static bool lease_has_another(const struct client_lane *at, uint64_t bytes)
{
    for (uint32_t i = 0; i < LIMIT_PUT_LEASES; i++) {
        if (i != at->lease_current && lease_has_room(&at->leases[i], bytes)) {
            return true;
        }
    }
    return false;
}

static bool lease_has_place(const struct client_lane *at)
{
    for (uint32_t i = 0; i < LIMIT_PUT_LEASES; i++) {
        if (at->leases[i].bytes == 0) {
            return true;
        }
    }
    return false;
}

void lease_renew(nigh_client *client, uint32_t lane, uint64_t bytes, struct session_sqe *sqe)
{
    struct client_lane *at = &client->lane[lane];
    const struct client_lease *current = &at->leases[at->lease_current];
    uint64_t left = current->bytes - current->used;

    if (at->lease_asked || !lease_is_for(client, lane, bytes) || !lease_has_place(at) ||
        lease_has_another(at, bytes) ||
        (current->bytes != 0 && !current->retired &&
         left >= max_u64(current->bytes / 4, 4 * bytes) &&
         current->writers + current->holes < LEASE_PIECES / 2)) {
        return;
    }
    sqe->flags |= SESSION_FLAG_RENEW;
    sqe->argument = session_renew_argument(lease_wanted(at), sqe->argument);
    at->lease_asked = true;
}

bool lease_ask(nigh_client *client, uint32_t lane, bool no_evict, struct session_sqe *sqe)
{
    struct client_lane *at = &client->lane[lane];

    if (at->lease_asked || !lease_has_place(at) ||
        clock_now_us(&clock_monotonic) - at->lease_refused_us < LEASE_REST_US) {
        return false;
    }
    sqe->op = SESSION_OP_LEASE;
    sqe->flags = no_evict ? SESSION_FLAG_NO_EVICT : 0;
    sqe->argument = lease_wanted(at);
    at->lease_asked = true;
    return true;
}

void lease_answered(nigh_client *client, uint32_t lane, bool granted)
{
    client->lane[lane].lease_asked = false;
    if (!granted) {
        client->lane[lane].lease_refused_us = clock_now_us(&clock_monotonic);
        client->lane[lane].lease_want = LIMIT_LEASE_BYTES_MIN;
    }
}
