/* SPDX-License-Identifier: Apache-2.0 */
/* See peers.h. Datagrams between members, and what they find out together (docs/membership.md): the
 * socket of cluster/swim.h, and what follows from its verdicts. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/random.h"
#include "node/front_internal.h"
#include "node/peers_internal.h"

#define LOG_MODULE "peers"
#include "base/log.h"

#define PEERS_PERIOD_MIN_US  UINT64_C(100000)
#define PEERS_PERIOD_MAX_US  UINT64_C(1000000)
#define PEERS_SILENT_PERIODS 20 /* without a datagram, before the log says so */

/* ---- open, close ---------------------------------------------------------- */

void peers_swim_listen(struct peers *peers, const struct sockaddr_storage *address, socklen_t bytes)
{
    struct peers_swim *own = &peers->swim;

    own->fd = socket(address->ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (own->fd < 0 || bind(own->fd, (const struct sockaddr *)address, bytes) != 0) {
        /* The connections do without. */
        LOG_WARN("no socket for datagrams of other nodes: connections alone tell who is dead",
                 "errno=%d do=\"free the UDP port of the control port's number, and start the node "
                 "again\"",
                 errno);
        fd_close(&own->fd);
    }
}

void peers_swim_open(struct peers *peers)
{
    struct peers_swim *own = &peers->swim;
    const struct members *members = peers->config.members;
    uint64_t period_us =
        min_u64(max_u64(peers->config.dead_us / 4, PEERS_PERIOD_MIN_US), PEERS_PERIOD_MAX_US);
    struct swim_config config = {
        .self = members->self,
        .count = members->count,
        .listed = members->listed,
        .incarnation = peers->incarnation,
        .period_us = period_us,
        .timeout_us = SWIM_TIMEOUT_US(period_us),
        /* Never sooner than a connection that fell silent would count as dead. */
        .suspicion_us = clock_deadline_us(peers->config.dead_us, PEERS_SILENCE_US),
    };

    if (own->fd < 0 || random_system_seed(&config.seed) != NIGH_OK) {
        return;
    }
    own->opened_us = own->due_us = clock_now_us(&clock_monotonic);
    own->period_us = period_us;
    own->swim = swim_create(&config, own->due_us);
    swim_wire_init(&own->wire, members->epoch, members->self, members->count, peers->config.key);
    if (own->swim == NULL || lane_watch(peers->lanes[0], own->fd, EPOLLIN,
                                        front_data(FRONT_PEER, PEERS_DATAGRAMS)) != NIGH_OK) {
        LOG_WARN("no memory for membership: connections alone tell who is dead",
                 "members=%u do=\"free some, and start the node again\"", members->count);
        swim_destroy(own->swim);
        own->swim = NULL;
    }
}

void peers_swim_destroy(struct peers *peers)
{
    /* The lane that watched it is gone. */
    fd_close(&peers->swim.fd);
    swim_destroy(peers->swim.swim);
    peers->swim.swim = NULL;
}

/* ---- what follows --------------------------------------------------------- */

/* It is dead by the members' word: what is pending on it fails now, as after any death. A
 * connection that stands ends; it may come back, as after any death. */
static void condemn(struct peers *peers, const struct swim_update *update)
{
    struct member *member = &peers->members[update->rank];
    struct peer_actions actions;

    peer_condemned(&member->peer, SWIM_NODE_INCARNATION(update->incarnation), peers_jitter(),
                   peers->now_us, &actions);
    if (actions.dead && member->connection != PEERS_NOBODY) {
        peers_drop_connection(peers, &peers->connections[member->connection]);
        member->connection = PEERS_NOBODY;
    }
    peers_act(peers, update->rank, &actions);
}

static void on_change(struct peers *peers, const struct swim_update *update)
{
    const char *address = peers->members[update->rank].text;

    switch (update->state) {
    case SWIM_SUSPECT:
        peers->counters.suspected++;
        LOG_WARN("a member is suspected",
                 "rank=%u address=%s by=%u do=\"nothing: it has time to answer; if it comes often, "
                 "give that node processors, or all a larger --dead-ms\"",
                 update->rank, address, update->from);
        break;
    case SWIM_DEAD:
        peers->counters.found_dead++;
        LOG_WARN("a member is declared dead",
                 "rank=%u address=%s by=%u do=\"see to that machine, its nighd and the network "
                 "(nigh nodes); one that lives comes back by itself\"",
                 update->rank, address, update->from);
        condemn(peers, update);
        break;
    case SWIM_ALIVE:
        LOG_INFO("a member is alive again", "rank=%u address=%s", update->rank, address);
        break;
    case SWIM_LEFT: LOG_INFO("a member has left", "rank=%u address=%s", update->rank, address);
    case SWIM_STATES: break;
    }
}

static void carry_on(struct peers *peers, const struct swim_event *event)
{
    struct peers_swim *own = &peers->swim;
    struct swim_actions *actions = &own->actions;
    uint8_t bytes[SWIM_WIRE_BYTES];

    swim_step(own->swim, event, peers->now_us, actions);
    own->due_us = actions->due_us;
    for (uint32_t n = 0; n < actions->sends; n++) {
        const struct member *to = &peers->members[actions->send[n].to];
        size_t size_bytes = swim_wire_encode(&own->wire, &actions->send[n], bytes);

        if (to->address_bytes == 0) {
            continue; /* it joined, and has not come yet */
        }
        /* One that cannot be sent is one that is lost. */
        (void)sendto(own->fd, bytes, size_bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
                     (const struct sockaddr *)&to->address, to->address_bytes);
    }
    if (actions->refuted) {
        peers->counters.refuted++;
        LOG_WARN("other nodes suspected this one, which refutes it: it was slow, or stood still",
                 "health=%u do=\"give it processors (no CPU limit, not swapped out), or all nodes "
                 "a larger --dead-ms\"",
                 swim_health(own->swim));
    }
    for (uint32_t n = 0; n < actions->changes; n++) {
        on_change(peers, &actions->changed[n]);
    }
}

/* ---- in, and time --------------------------------------------------------- */

void peers_swim_ready(struct peers *peers)
{
    struct peers_swim *own = &peers->swim;
    uint8_t bytes[SWIM_WIRE_BYTES + 1]; /* a longer one is seen to be longer */

    for (uint32_t n = 0; n < LIMIT_SWIM_TURN && own->swim != NULL; n++) {
        struct swim_message message;
        ssize_t got = recvfrom(own->fd, bytes, sizeof(bytes), MSG_DONTWAIT, NULL, NULL);

        if (got < 0) {
            return;
        }
        if (swim_wire_decode(&own->wire, bytes, (size_t)got, &message) != NIGH_OK ||
            peers_rank_is_struck(peers, message.from)) {
            peers->counters.datagrams_refused++;
            continue;
        }
        own->is_heard = true;
        carry_on(peers, &(struct swim_event){.kind = SWIM_RECEIVE, .message = &message});
    }
}

/* Others are connected, and nothing of them comes this way. */
static void notice_silence(struct peers *peers)
{
    struct peers_swim *own = &peers->swim;

    if (own->is_heard || own->silence_told ||
        peers->now_us < own->opened_us + PEERS_SILENT_PERIODS * own->period_us) {
        return;
    }
    for (uint32_t rank = 0; rank < peers->config.members->count; rank++) {
        if (rank != peers->config.members->self && peers->members[rank].peer.state == PEER_UP) {
            own->silence_told = true;
            LOG_WARN("no datagram of another node arrives: connections alone tell who is dead",
                     "port=udp do=\"let UDP through at the control port\"");
            return;
        }
    }
}

uint64_t peers_swim_tick(struct peers *peers)
{
    struct peers_swim *own = &peers->swim;

    if (own->swim == NULL || peers->is_struck) {
        return UINT64_MAX;
    }
    if (peers->now_us >= own->due_us) {
        carry_on(peers, &(struct swim_event){.kind = SWIM_TICK});
        notice_silence(peers);
    }
    return own->due_us;
}

void peers_swim_leave(struct peers *peers)
{
    if (peers->swim.swim != NULL) {
        carry_on(peers, &(struct swim_event){.kind = SWIM_LEAVE});
    }
}

enum swim_state peers_swim_state(const struct peers *peers, uint32_t rank)
{
    return peers->swim.swim == NULL ? SWIM_ALIVE : swim_state_of(peers->swim.swim, rank);
}

uint32_t peers_reached(const struct peers *peers)
{
    uint32_t count = 0;

    for (uint32_t rank = 0; peers->swim.swim != NULL && rank < peers->config.members->count;
         rank++) {
        count += swim_is_reached(peers->swim.swim, rank);
    }
    return count;
}
