/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs of sessions that call each other without the node (docs/session.md, "Pairs"): it makes the
 * memory and the bell, gives both to both, and keeps who has which until both have let go; then it
 * takes the memory's pages back. When a session lets go, or ends, the other is told by a word in
 * its own session's memory, which nobody else can write. The node never reads what lies in a pair.
 */
#include <limits.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/futex.h"
#include "memory/memfd.h"
#include "memory/pair.h"
#include "memory/session.h"
#include "node/front_internal.h"
#include "node/services.h"

#define PAIR_NO_PLACE LIMIT_SESSION_PAIRS

/* ---- the table ------------------------------------------------------------ */

static struct front_pair *find_free(struct front *front)
{
    for (uint32_t n = 0; n < LIMIT_PAIRS; n++) {
        if (front->pairs[n].serial == 0)
            return &front->pairs[n];
    }
    return NULL;
}

/* A place of the session that no pair has, or PAIR_NO_PLACE. */
static uint32_t find_place(const struct front *front, uint32_t slot)
{
    uint64_t used = 0;
    uint32_t place = 0;

    _Static_assert(LIMIT_SESSION_PAIRS == 64, "a place is a bit");
    for (uint32_t n = 0; n < LIMIT_PAIRS; n++) {
        for (uint32_t side = 0; front->pairs[n].serial != 0 && side < 2; side++) {
            const struct front_pair_side *at = &front->pairs[n].side[side];

            if (at->has && at->slot == slot)
                used |= UINT64_C(1) << at->place;
        }
    }
    while (place < PAIR_NO_PLACE && (used >> place & 1) != 0)
        place++;
    return place;
}

static bool has_pair(const struct front *front, uint32_t slot, uint64_t hash)
{
    for (uint32_t n = 0; n < LIMIT_PAIRS; n++) {
        const struct front_pair *pair = &front->pairs[n];

        if (pair->serial != 0 && pair->hash == hash && pair->side[0].has &&
            pair->side[0].slot == slot)
            return true;
    }
    return false;
}

/* Whether a uid has its share: half, but for root and the node's own. */
static bool has_share(const struct front *front, uint32_t uid)
{
    uint32_t count = 0;

    if (uid == 0 || uid == front->config.own_uid)
        return false;
    for (uint32_t n = 0; n < LIMIT_PAIRS; n++) {
        const struct front_pair *pair = &front->pairs[n];

        count += pair->serial != 0 && ((pair->side[0].has && pair->side[0].uid == uid) ||
                                       (pair->side[1].has && pair->side[1].uid == uid));
    }
    return count >= LIMIT_PAIRS / 2;
}

static bool stands(const struct front_pair *pair)
{
    return pair->serial != 0 && pair->side[0].has && pair->side[1].has;
}

uint32_t front_pairs_count(const struct front *front)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < LIMIT_PAIRS; n++)
        count += stands(&front->pairs[n]);
    return count;
}

/* ---- telling -------------------------------------------------------------- */

/* Says that there is something to look at, and wakes who sleeps. */
static void tell_news(const struct node_session *session)
{
    struct session_message_header poke = {.magic = SESSION_MAGIC, .kind = SESSION_POKE};
    struct session_front *shared = session_front_of(session->seat.memory);

    atomic_fetch_add_explicit(&shared->pair_news, 1, memory_order_release);
    shared_fence();
    if (shared_load_relaxed(&shared->waiting) != 0) {
        atomic_fetch_add_explicit(&shared->wake, 1, memory_order_release);
        futex_wake(&shared->wake, INT_MAX);
    }
    if (shared_exchange(&shared->poke_wanted, 0) != 0 && session->socket_fd >= 0)
        (void)fd_send_message(session->socket_fd, &poke, sizeof(poke), NULL, 0);
}

static void tell_ended(struct front *front, const struct front_pair *pair, uint32_t side)
{
    const struct front_pair_side *at = &pair->side[side];
    const struct node_session *session = &front->config.sessions->slots[at->slot];

    shared_store_release(&session_front_of(session->seat.memory)->pair_ended[at->place],
                         pair->serial);
    tell_news(session);
}

/* The memory goes with who lets go last: the other may still be reading there. One that keeps it
 * mapped all the same has zeroes, and what it writes from now on is memory of its own. */
static void let_go(struct front *front, struct front_pair *pair, uint32_t side)
{
    front->pairs_dropped += stands(pair) ? 1 : 0;
    pair->side[side].has = false;
    if (pair->side[1 - side].has) {
        tell_ended(front, pair, 1 - side);
        return;
    }
    (void)memfd_punch(pair->memory_fd, sizeof(struct pair_memory));
    fd_close(&pair->memory_fd);
    pair->serial = 0;
}

void front_pairs_end(struct front *front, const struct node_session *session)
{
    for (uint32_t n = 0; n < LIMIT_PAIRS; n++) {
        for (uint32_t side = 0; front->pairs[n].serial != 0 && side < 2; side++) {
            const struct front_pair_side *at = &front->pairs[n].side[side];

            if (at->has && at->slot == session->seat.slot)
                let_go(front, &front->pairs[n], side);
        }
    }
}

void front_pair_dropped(struct front *front, const struct node_session *session,
                        const struct session_pair_ask *drop)
{
    for (uint32_t n = 0; n < LIMIT_PAIRS && drop->serial != 0; n++) {
        for (uint32_t side = 0; front->pairs[n].serial == drop->serial && side < 2; side++) {
            const struct front_pair_side *at = &front->pairs[n].side[side];

            if (at->has && at->slot == session->seat.slot)
                let_go(front, &front->pairs[n], side);
        }
    }
}

void front_pairs_fini(struct front *front)
{
    for (uint32_t n = 0; n < LIMIT_PAIRS; n++) {
        if (front->pairs[n].serial != 0)
            fd_close(&front->pairs[n].memory_fd);
    }
}

/* ---- making --------------------------------------------------------------- */

static nigh_status send_pair(struct front *front, const struct front_pair *pair, uint32_t side,
                             int bell_fd)
{
    const struct front_pair_side *at = &pair->side[side];
    const struct node_session *session = &front->config.sessions->slots[at->slot];
    int fds[2] = {pair->memory_fd, bell_fd};
    struct session_pair message = {
        .header = {.magic = SESSION_MAGIC, .kind = SESSION_PAIR},
        .status = NIGH_OK,
        .flags = side == 1 ? SESSION_PAIR_SERVES : 0,
        .hash = pair->hash,
        .place = at->place,
        .serial = pair->serial,
        .uid = pair->side[1 - side].uid,
        .rank = front->config.rank,
    };
    nigh_status status = fd_send_message(session->socket_fd, &message, sizeof(message), fds, 2);

    if (status == NIGH_OK)
        tell_news(session);
    return status;
}

/* Who serves gets it first: who called may then use it at once. */
static nigh_status give_pair(struct front *front, struct front_pair *pair)
{
    int bells[2] = {-1, -1};
    nigh_status status;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, bells) != 0)
        return NIGH_NO_RESOURCES;
    status = send_pair(front, pair, 1, bells[1]);
    pair->side[1].has = status == NIGH_OK;
    if (status == NIGH_OK)
        status = send_pair(front, pair, 0, bells[0]);
    pair->side[0].has = status == NIGH_OK;
    fd_close(&bells[0]);
    fd_close(&bells[1]);
    return status;
}

/* As a call through the node is allowed, or not; and within the bounds. */
static nigh_status may_have(struct front *front, const struct node_session *session,
                            const struct session_pair_ask *ask, uint32_t *server)
{
    const struct node_session *serves;

    if (!session->seat.may_write)
        return NIGH_DENIED;
    if (front->services == NULL || ask->rank != front->config.rank ||
        !services_find(front->services, ask->hash, server))
        return NIGH_NOT_FOUND;
    serves = &front->config.sessions->slots[*server];
    if (serves == session || serves->state != NODE_SESSION_OPEN)
        return NIGH_NOT_FOUND;
    if (shared_load_relaxed(&session_front_of(serves->seat.memory)->takes_pairs) != 1)
        return NIGH_UNSUPPORTED;
    if (has_pair(front, session->seat.slot, ask->hash))
        return NIGH_EXISTS;
    if (has_share(front, session->seat.uid) || has_share(front, serves->seat.uid))
        return NIGH_LIMIT;
    if (front_has_unread(session, LIMIT_PAIR_UNREAD_BYTES) ||
        front_has_unread(serves, LIMIT_PAIR_UNREAD_BYTES))
        return NIGH_BUSY;
    return NIGH_OK;
}

static void seat_side(const struct front *front, struct front_pair *pair, uint32_t side,
                      uint32_t slot)
{
    pair->side[side] = (struct front_pair_side){
        .slot = slot,
        .place = find_place(front, slot),
        .uid = front->config.sessions->slots[slot].seat.uid,
    };
}

static nigh_status make_pair(struct front *front, uint64_t hash, uint32_t caller, uint32_t server)
{
    struct front_pair *pair = find_free(front), made = {.hash = hash, .memory_fd = -1};
    nigh_status status;

    seat_side(front, &made, 0, caller);
    seat_side(front, &made, 1, server);
    if (pair == NULL || made.side[0].place == PAIR_NO_PLACE || made.side[1].place == PAIR_NO_PLACE)
        return NIGH_LIMIT;
    status =
        memfd_create_sealed("nigh-pair", sizeof(struct pair_memory), MEMFD_DATA, &made.memory_fd);
    if (status != NIGH_OK)
        return status;
    if (front->pair_serial == 0)
        front->pair_serial = front->config.incarnation << 16;
    if (++front->pair_serial == 0)
        front->pair_serial = 1;
    made.serial = front->pair_serial;
    *pair = made;
    status = give_pair(front, pair);
    if (status == NIGH_OK)
        front->pairs_made++;
    else
        let_go(front, pair, 0);
    return status;
}

void front_pair_asked(struct front *front, struct node_session *session,
                      const struct session_pair_ask *ask)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);
    uint32_t server = 0;
    struct session_pair refusal = {
        .header = {.magic = SESSION_MAGIC, .kind = SESSION_PAIR},
        .status = may_have(front, session, ask, &server),
        .hash = ask->hash,
        .rank = front->config.rank,
    };

    /* Making one costs this lane as much as many calls: nobody has it make them in a row. */
    if (refusal.status == NIGH_OK && (now_us - session->pair_us < LIMIT_PAIR_ASK_US ||
                                      now_us - front->pair_us < LIMIT_PAIR_GRANT_US)) {
        refusal.status = NIGH_BUSY;
    } else if (refusal.status == NIGH_OK) {
        refusal.status = make_pair(front, ask->hash, session->seat.slot, server);
        session->pair_us = front->pair_us = now_us;
    }
    /* Who does not read its answers goes without. */
    if (refusal.status != NIGH_OK &&
        fd_send_message(session->socket_fd, &refusal, sizeof(refusal), NULL, 0) == NIGH_OK)
        tell_news(session);
}
