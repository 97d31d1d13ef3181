/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who serves what: each node tells the others, over every channel, which services that lane of it
 * has, all of them each time that they change; one message at a time, and the newest again until it
 * has arrived. What a channel's other end has said goes with the channel.
 *
 * What is known here may be old: who is asked in vain says so, and the next is asked (calls.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "rpc/calls_internal.h"

#define TELL_WAIT_US  UINT64_C(2000000) /* for the other node's answer */
#define TELL_AGAIN_US UINT64_C(10000)   /* where the channel has no place, or no answer came */

static struct list *bucket_of(const struct calls *calls, uint64_t hash)
{
    return &calls->offers[hash_u64(hash) & (CALLS_BUCKETS - 1)];
}

/* ---- what others say ------------------------------------------------------ */

static struct calls_peer *find_peer(const struct calls *calls, const struct rpc *channel)
{
    LIST_FOREACH(node, &calls->peers)
    {
        struct calls_peer *peer = container_of(node, struct calls_peer, place);

        if (peer->channel == channel) {
            return peer;
        }
    }
    return NULL;
}

static void drop_offers(struct calls_peer *peer)
{
    for (uint32_t n = 0; n < peer->offer_count; n++) {
        list_remove(&peer->offers[n].place);
    }
    peer->offer_count = 0;
}

nigh_status calls_take_offers(struct calls *calls, const struct rpc *channel,
                              const struct rpc_request *request)
{
    struct calls_peer *peer = find_peer(calls, channel);
    uint32_t count = request->bytes / (uint32_t)sizeof(uint64_t);

    if (request->bytes % sizeof(uint64_t) != 0 || count > LIMIT_SERVICES) {
        return NIGH_INVALID;
    }
    if (peer == NULL) {
        return NIGH_NO_RESOURCES;
    }
    drop_offers(peer);
    for (uint32_t n = 0; n < count; n++) {
        struct calls_offer *offer = &peer->offers[n];

        offer->hash = hash_load64(request->payload + n * sizeof(uint64_t));
        list_push_back(bucket_of(calls, offer->hash), &offer->place);
    }
    peer->offer_count = count;
    return NIGH_OK;
}

static bool was_tried(const struct pending *pending, uint32_t rank)
{
    for (uint32_t n = 0; n < pending->tried; n++) {
        if (pending->those[n] == rank) {
            return true;
        }
    }
    return false;
}

/* By when, not by how often: who has just come would else be asked alone until it had caught up. */
static bool is_better(const struct calls_peer *peer, const struct calls_peer *than)
{
    uint32_t pending = rpc_pending(peer->channel), other = rpc_pending(than->channel);

    return pending != other ? pending < other : peer->turn < than->turn;
}

/* The peer of a rank that serves it; NULL: there is none. */
static struct calls_peer *server_of_rank(const struct calls *calls, uint64_t hash, uint32_t rank)
{
    LIST_FOREACH(node, bucket_of(calls, hash))
    {
        const struct calls_offer *offer = container_of(node, struct calls_offer, place);

        if (offer->hash == hash && offer->peer->rank == rank) {
            return offer->peer;
        }
    }
    return NULL;
}

/* The first of those that the call would go to, if it may; CALLS_NONE: none of them serves it. */
static uint32_t choose_near(struct calls *calls, const struct pending *pending)
{
    for (uint32_t n = 0; n < pending->call.near_count; n++) {
        uint32_t rank = pending->call.near[n];
        struct calls_peer *peer = server_of_rank(calls, pending->call.service, rank);
        bool here =
            rank == calls->config.rank && calls_find_service(calls, pending->call.service) != NULL;

        if ((peer != NULL || here) && !was_tried(pending, rank)) {
            return rank;
        }
    }
    return CALLS_NONE;
}

uint32_t calls_choose(struct calls *calls, const struct pending *pending)
{
    uint64_t hash = pending->call.service;
    uint32_t near = choose_near(calls, pending);
    struct calls_peer *best = NULL;

    if (near != CALLS_NONE) {
        return near;
    }
    if (calls_find_service(calls, hash) != NULL && !was_tried(pending, calls->config.rank)) {
        return calls->config.rank;
    }
    LIST_FOREACH(node, bucket_of(calls, hash))
    {
        const struct calls_offer *offer = container_of(node, struct calls_offer, place);
        struct calls_peer *peer = offer->peer;

        if (offer->hash == hash && !was_tried(pending, peer->rank) &&
            (best == NULL || is_better(peer, best))) {
            best = peer;
        }
    }
    if (best == NULL) {
        return CALLS_NONE;
    }
    best->turn = ++calls->turn;
    return best->rank;
}

/* ---- what others are told ------------------------------------------------- */

static void tell_at(struct calls *calls, uint64_t at_us)
{
    calls->tell_us = at_us < calls->tell_us ? at_us : calls->tell_us;
}

static void on_told(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                    uint64_t now_us)
{
    struct calls_peer *peer = context;

    (void)payload;
    (void)bytes;
    peer->is_telling = false;
    if (status != NIGH_OK && status != NIGH_UNSUPPORTED) {
        peer->told = 0;
        peer->again_us = now_us + TELL_AGAIN_US;
    }
    tell_at(peer->calls, peer->again_us);
}

static void tell(struct calls_peer *peer, uint64_t now_us)
{
    struct calls *calls = peer->calls;
    uint64_t hashes[LIMIT_SERVICES];
    struct rpc_piece piece = {.data = hashes,
                              .bytes = calls->service_count * (uint32_t)sizeof(hashes[0])};

    for (uint32_t n = 0; n < calls->service_count; n++) {
        hashes[n] = calls->services[n].hash;
    }
    if (rpc_call(peer->channel, CALLS_METHOD_OFFERS, &piece, piece.bytes > 0 ? 1 : 0,
                 now_us + TELL_WAIT_US, now_us, on_told, peer, NULL) != NIGH_OK) {
        peer->again_us = now_us + TELL_AGAIN_US;
        return;
    }
    peer->told = calls->version;
    peer->is_telling = true;
}

void calls_tell(struct calls *calls, uint64_t now_us)
{
    calls->tell_us = UINT64_MAX;
    LIST_FOREACH(node, &calls->peers)
    {
        struct calls_peer *peer = container_of(node, struct calls_peer, place);

        if (peer->is_telling || peer->told == calls->version) {
            continue;
        }
        if (now_us >= peer->again_us) {
            tell(peer, now_us);
        }
        if (!peer->is_telling) {
            tell_at(calls, peer->again_us);
        }
    }
}

/* ---- channels ------------------------------------------------------------- */

void calls_channel_up(struct calls *calls, struct rpc *channel, uint32_t rank)
{
    struct calls_peer *peer = calloc(1, sizeof(*peer));

    calls->lost[rank] = false;
    if (peer == NULL) {
        return; /* its services are called by its rank */
    }
    peer->calls = calls;
    peer->channel = channel;
    peer->rank = rank;
    /* A new channel's other end knows of none. */
    peer->told = calls->service_count == 0 ? calls->version : 0;
    for (uint32_t n = 0; n < LIMIT_SERVICES; n++) {
        peer->offers[n].peer = peer;
    }
    list_push_back(&calls->peers, &peer->place);
    calls->tell_us = 0;
}

void calls_drop_peer(struct calls_peer *peer)
{
    drop_offers(peer);
    list_remove(&peer->place);
    free(peer);
}

void calls_forget_peer(struct calls *calls, const struct rpc *channel)
{
    struct calls_peer *peer = find_peer(calls, channel);

    if (peer != NULL) {
        calls_drop_peer(peer);
    }
}
