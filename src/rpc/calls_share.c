/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each service has of the places of a link (calls.h): which calls of it wait, how many are
 * under way, and whether it may have one more. One that has not answered for a while takes no more
 * than half of what there is, while others are called, too; and where such ones hold most of a
 * link, the others may have places that are kept for the urgent.
 */
#include <stdlib.h>

#include "base/hash.h"
#include "rpc/calls_internal.h"

bool calls_shares_init(struct calls *calls)
{
    struct calls_shares *shares = &calls->shares;
    uint32_t nodes = calls->config.nodes;

    list_init(&shares->free);
    shares->all = calloc(calls->config.calls, sizeof(*shares->all));
    shares->buckets = calloc(CALLS_BUCKETS, sizeof(*shares->buckets));
    shares->ranks = calloc(nodes, sizeof(*shares->ranks));
    if (shares->all == NULL || shares->buckets == NULL || shares->ranks == NULL) {
        return false;
    }
    for (uint32_t n = 0; n < CALLS_BUCKETS; n++) {
        list_init(&shares->buckets[n]);
    }
    for (uint32_t rank = 0; rank < nodes; rank++) {
        list_init(&shares->ranks[rank].busy);
        for (uint32_t n = 0; n < CALLS_QUEUES; n++) {
            list_init(&shares->ranks[rank].waiting[n]);
        }
    }
    return true;
}

void calls_shares_fini(struct calls *calls)
{
    free(calls->shares.all);
    free(calls->shares.buckets);
    free(calls->shares.ranks);
}

/* ---- shares ---------------------------------------------------------------- */

static struct share *share_new(struct calls *calls, uint32_t rank, uint64_t service)
{
    struct calls_shares *shares = &calls->shares;
    struct list_node *node = list_pop_front(&shares->free);
    struct share *share = node != NULL ? container_of(node, struct share, bucket)
                                       : &shares->all[shares->used++]; /* as many as calls */

    *share = (struct share){.service = service, .rank = rank};
    for (uint32_t n = 0; n < CALLS_QUEUES; n++) {
        list_init(&share->waiting[n]);
    }
    return share;
}

static struct share *share_of(struct calls *calls, uint32_t rank, uint64_t service)
{
    struct list *bucket = &calls->shares.buckets[hash_u64(service + rank) & (CALLS_BUCKETS - 1)];
    struct share *share;

    LIST_FOREACH(node, bucket)
    {
        share = container_of(node, struct share, bucket);
        if (share->rank == rank && share->service == service) {
            return share;
        }
    }
    share = share_new(calls, rank, service);
    list_push_front(bucket, &share->bucket);
    return share;
}

/* Nothing of it waits or is under way: what it was like is forgotten. */
static void share_settle(struct calls *calls, struct share *share)
{
    if (share->sent == 0 && list_empty(&share->waiting[0]) && list_empty(&share->waiting[1])) {
        list_remove(&share->bucket);
        list_push_front(&calls->shares.free, &share->bucket);
    }
}

static uint32_t queue_number(const struct pending *pending)
{
    return pending->call.urgent ? 0 : 1;
}

struct list *calls_shares_waiting(struct calls *calls, uint32_t rank, bool urgent)
{
    return &calls->shares.ranks[rank].waiting[urgent ? 0 : 1];
}

static void note_shared(struct calls *calls, uint32_t rank, uint64_t now_us)
{
    calls->shares.ranks[rank].shared_until_us = now_us + LIMIT_CALL_SHARED_US;
}

bool calls_wait(struct calls *calls, struct pending *pending, uint64_t now_us)
{
    struct calls_rank *at = &calls->shares.ranks[pending->rank];
    struct share *share = share_of(calls, pending->rank, pending->call.service);
    uint32_t number = queue_number(pending);
    bool is_first = list_empty(&share->waiting[number]);

    if (at->last != share->service && at->last != 0) {
        note_shared(calls, pending->rank, now_us);
    }
    at->last = share->service;
    pending->share = share;
    pending->state = PENDING_WAITING;
    list_push_back(&share->waiting[number], &pending->queue);
    if (is_first) {
        list_push_back(&at->waiting[number], &share->turn[number]);
    }
    calls->waiting_count++;
    return is_first;
}

void calls_stop_waiting(struct calls *calls, struct pending *pending, bool is_sent, uint64_t now_us)
{
    struct share *share = pending->share;
    uint32_t number = queue_number(pending);

    list_remove(&pending->queue);
    calls->waiting_count--;
    if (list_empty(&share->waiting[number])) {
        list_remove(&share->turn[number]);
    }
    if (!is_sent) {
        pending->share = NULL;
    } else if (share->sent++ == 0) {
        share->heard_us =
            share->heard_us == 0 ? now_us : share->heard_us + (now_us - share->idle_us);
        share->channel = pending->channel;
        list_push_back(&calls->shares.ranks[share->rank].busy, &share->busy);
    }
    share_settle(calls, share);
}

struct pending *calls_next_waiting(struct calls *calls, uint32_t rank, bool urgent, uint64_t now_us)
{
    struct list *queue = calls_shares_waiting(calls, rank, urgent);
    uint32_t number = urgent ? 0 : 1;
    struct list_node *node = list_first(queue);
    struct share *share = container_of(node, struct share, turn[number]);

    if (node != list_last(queue)) {
        note_shared(calls, rank, now_us);
        list_remove(node);
        list_push_back(queue, node);
    }
    return container_of(list_first(&share->waiting[number]), struct pending, queue);
}

void calls_heard(struct calls *calls, struct pending *pending, bool is_answer, uint64_t now_us)
{
    struct share *share = pending->share;

    pending->share = NULL;
    share->heard_us = is_answer ? now_us : share->heard_us;
    if (--share->sent == 0) {
        share->idle_us = now_us;
        list_remove(&share->busy);
        share_settle(calls, share);
    }
}

/* ---- who may have one more ------------------------------------------------- */

static bool is_silent(const struct share *share, uint64_t now_us)
{
    uint64_t until_us = share->sent > 0 ? now_us : share->idle_us;

    return share->heard_us != 0 && until_us >= share->heard_us + LIMIT_CALL_SILENT_US;
}

/* Whether those that do not answer have most of a channel's places. */
static bool is_held_up(const struct calls *calls, uint32_t rank, const struct rpc *channel,
                       uint64_t now_us)
{
    uint32_t held = 0;

    LIST_FOREACH(node, &calls->shares.ranks[rank].busy)
    {
        const struct share *share = container_of(node, struct share, busy);

        held += share->channel == channel && is_silent(share, now_us) ? share->sent : 0;
    }
    return held > calls->config.channel_calls / 2;
}

bool calls_may_go(const struct calls *calls, const struct pending *pending,
                  const struct rpc *channel, bool whatever_is_kept, uint64_t now_us)
{
    const struct share *share = pending->share;
    uint32_t places = calls->config.channel_calls, used = rpc_pending(channel);
    uint32_t all = places + places / LIMIT_URGENT_SHARE;
    uint32_t left = all > used ? all - used : 0, kept = min_u32(left, all - places);

    if (places == 0) {
        return true;
    }
    if (!pending->call.urgent) {
        left -= kept;
    }
    if (is_silent(share, now_us) && now_us < calls->shares.ranks[share->rank].shared_until_us) {
        return share->sent < left;
    }
    return left > 0 || pending->call.urgent || whatever_is_kept ||
           (share->sent < kept && is_held_up(calls, share->rank, channel, now_us));
}

/* ---- is it whole? ----------------------------------------------------------- */

bool calls_shares_are_valid(const struct calls *calls, uint32_t sent)
{
    uint32_t under_way = 0;

    for (uint32_t n = 0; n < calls->shares.used; n++) {
        const struct share *share = &calls->shares.all[n];

        under_way += share->sent;
        if ((share->sent > 0) != list_is_linked(&share->busy)) {
            return false;
        }
    }
    return under_way == sent;
}
