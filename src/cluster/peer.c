/* SPDX-License-Identifier: Apache-2.0 */
/* See peer.h. */
#include "cluster/peer.h"

#include <string.h>

#include "base/clock.h"

#define PEER_BACKOFF_MIN_US UINT64_C(20000)
#define PEER_BACKOFF_MAX_US UINT64_C(1000000)

void peer_init(struct peer *peer, bool dials, uint64_t dead_after_us, uint64_t silence_us,
               uint64_t now_us)
{
    memset(peer, 0, sizeof(*peer));
    peer->dials = dials;
    peer->dead_after_us = dead_after_us;
    peer->silence_us = silence_us;
    peer->dial_us = now_us;
    peer->dead_us = clock_deadline_us(now_us, dead_after_us);
}

/* Twice as late each time, half of it at random. */
static void back_off(struct peer *peer, uint32_t jitter, uint64_t now_us)
{
    uint64_t wait_us = PEER_BACKOFF_MIN_US;

    for (uint32_t n = 0; n < peer->attempts && wait_us < PEER_BACKOFF_MAX_US; n++) {
        wait_us *= 2;
    }
    wait_us = wait_us < PEER_BACKOFF_MAX_US ? wait_us : PEER_BACKOFF_MAX_US;
    peer->attempts++;
    peer->dial_us = now_us + wait_us / 2 + wait_us / 2 * jitter / UINT32_MAX;
}

nigh_status peer_connected(struct peer *peer, uint32_t incarnation, uint32_t life, uint64_t now_us,
                           struct peer_actions *actions)
{
    bool new_life = incarnation != peer->incarnation;

    memset(actions, 0, sizeof(*actions));
    /* Of a node that is dead a lower one is no ghost: its clock went back. */
    if ((incarnation < peer->incarnation && peer->state != PEER_DEAD) ||
        (incarnation == peer->incarnation && life != peer->life)) {
        if (peer->dialling) {
            peer_dial_failed(peer, 0, now_us);
        }
        return NIGH_DENIED;
    }
    peer->dialling = false;
    actions->lost = peer->connected && !new_life;
    actions->dead = new_life && (peer->state == PEER_UP || peer->state == PEER_LOST);
    actions->up = true;
    peer->state = PEER_UP;
    peer->connected = true;
    peer->incarnation = incarnation;
    peer->life = life;
    peer->attempts = 0;
    peer->heard_us = now_us;
    return NIGH_OK;
}

void peer_dial_failed(struct peer *peer, uint32_t jitter, uint64_t now_us)
{
    peer->dialling = false;
    back_off(peer, jitter, now_us);
}

void peer_disconnected(struct peer *peer, bool goodbye, uint32_t jitter, uint64_t now_us,
                       struct peer_actions *actions)
{
    memset(actions, 0, sizeof(*actions));
    if (!peer->connected) {
        return;
    }
    peer->connected = false;
    back_off(peer, jitter, now_us);
    if (goodbye) {
        peer->state = PEER_DEAD;
        actions->dead = true;
        return;
    }
    peer->state = PEER_LOST;
    peer->dead_us = clock_deadline_us(now_us, peer->dead_after_us);
    actions->lost = true;
}

void peer_condemned(struct peer *peer, uint32_t incarnation, uint32_t jitter, uint64_t now_us,
                    struct peer_actions *actions)
{
    memset(actions, 0, sizeof(*actions));
    if ((peer->state != PEER_UP && peer->state != PEER_LOST) || incarnation < peer->incarnation) {
        return;
    }
    if (peer->connected) {
        peer->connected = false;
        back_off(peer, jitter, now_us);
    }
    peer->state = PEER_DEAD;
    actions->dead = true;
}

void peer_gone(struct peer *peer, struct peer_actions *actions)
{
    *actions = (struct peer_actions){.dead = peer->state != PEER_DEAD};
    peer->connected = peer->dialling = false;
    peer->state = PEER_DEAD;
}

void peer_heard(struct peer *peer, uint64_t now_us)
{
    peer->heard_us = now_us;
}

uint64_t peer_tick(struct peer *peer, uint64_t now_us, struct peer_actions *actions)
{
    uint64_t due_us = UINT64_MAX;

    memset(actions, 0, sizeof(*actions));
    if (peer->connected) {
        uint64_t silent_us = clock_deadline_us(peer->heard_us, peer->silence_us);

        if (now_us < silent_us) {
            return silent_us;
        }
        /* The caller closes the connection. */
        peer_disconnected(peer, false, 0, now_us, actions);
        peer->dial_us = now_us;
    }
    if (peer->state == PEER_AWAY || peer->state == PEER_LOST) {
        if (now_us >= peer->dead_us) {
            peer->state = PEER_DEAD;
            actions->dead = true;
            actions->lost = false; /* dead says it, too */
        } else {
            due_us = peer->dead_us;
        }
    }
    if (peer->dials && !peer->dialling) {
        if (now_us >= peer->dial_us) {
            peer->dialling = true;
            actions->dial = true;
        } else if (peer->dial_us < due_us) {
            due_us = peer->dial_us;
        }
    }
    return due_us;
}

bool peer_is_valid(const struct peer *peer)
{
    return (peer->state == PEER_UP) == peer->connected && !(peer->connected && peer->dialling);
}
