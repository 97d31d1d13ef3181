/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives that endpoints share: a shared receive queue of the device, and what is known of each
 * receive that it has.
 *
 * A receive that a queue pair took and did not complete would be gone with it: the device says
 * nothing of it any more. So a queue pair that goes is put into its error state, its last word is
 * awaited, and what came is taken before it is destroyed (V16).
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "fabric/verbs/verbs_internal.h"

#define LOG_MODULE "fabric"
#include "base/log.h"

/* ---- lists of receives ---- */

static const struct verbs_shared_list none = {VERBS_NO_RECEIVE, VERBS_NO_RECEIVE};

static void append(struct fabric_stock *stock, struct verbs_shared_list *list, uint32_t number,
                   enum verbs_shared_state state)
{
    struct verbs_shared *shared = &stock->receives[number];

    shared->state = (uint8_t)state;
    shared->next = VERBS_NO_RECEIVE;
    if (list->first == VERBS_NO_RECEIVE)
        list->first = number;
    else
        stock->receives[list->last].next = number;
    list->last = number;
}

static uint32_t pop(struct fabric_stock *stock, struct verbs_shared_list *list)
{
    uint32_t number = list->first;

    NIGH_ASSERT(number != VERBS_NO_RECEIVE);
    list->first = stock->receives[number].next;
    return number;
}

/* ---- with and without a device ---- */

static uint32_t low_of(const struct fabric_stock *stock)
{
    return stock->depth / VERBS_STOCK_LOW;
}

/* The device says once that there are less; it is asked again when there are twice as many. */
static void watch(struct fabric_stock *stock)
{
    struct ibv_srq_attr attr = {.srq_limit = low_of(stock)};

    if (stock->is_watched || low_of(stock) == 0 || stock->held < 2 * low_of(stock))
        return;
    stock->is_watched = true; /* a device that cannot say it is not asked again */
    if (stock->verbs->library->modify_srq(stock->srq, &attr, IBV_SRQ_LIMIT) != 0)
        LOG_DEBUG("the device does not say when a stock of receives is low", "depth=%u",
                  stock->depth);
}

/* Hands over all that wait. What the device does not take now waits for the next time. */
static void hand_over(struct fabric_stock *stock)
{
    while (stock->srq != NULL && stock->waiting.first != VERBS_NO_RECEIVE) {
        struct ibv_recv_wr requests[VERBS_BATCH], *bad = NULL;
        uint32_t count = 0, taken;
        int error;

        for (uint32_t i = stock->waiting.first; i != VERBS_NO_RECEIVE && count < VERBS_BATCH;
             i = stock->receives[i].next) {
            struct verbs_shared *shared = &stock->receives[i];

            if (shared->memory != NULL)
                shared->receive.slice.lkey = shared->memory->mr->lkey;
            requests[count] = (struct ibv_recv_wr){.wr_id = verbs_complete_shared_id(stock, i),
                                                   .sg_list = &shared->receive.slice,
                                                   .num_sge = shared->receive.slice.length > 0};
            if (count > 0)
                requests[count - 1].next = &requests[count];
            count++;
        }
        error = ibv_post_srq_recv(stock->srq, requests, &bad);
        taken = error != 0 && bad >= requests && bad < requests + count ? (uint32_t)(bad - requests)
                                                                        : count;
        stock->verbs->fabric.counts.receive_doorbells++;
        for (uint32_t i = 0; i < taken; i++)
            stock->receives[pop(stock, &stock->waiting)].state = VERBS_SHARED_HELD;
        stock->held += taken;
        if (error != 0) {
            LOG_WARN("the device takes no receives",
                     "errno=%d do=\"see the kernel's log (dmesg) and the card; if it stays, start "
                     "the node again\"",
                     error);
            return;
        }
    }
    if (stock->srq != NULL)
        watch(stock);
}

bool verbs_stock_enter(struct fabric_stock *stock)
{
    struct verbs *verbs = stock->verbs;
    struct ibv_srq_init_attr init = {.attr = {.max_wr = stock->depth, .max_sge = 1}};

    stock->srq = verbs->library->create_srq(verbs->pd, &init);
    stock->is_watched = false;
    if (stock->srq != NULL)
        hand_over(stock);
    return stock->srq != NULL;
}

/* No queue pair is there: what the device had it does not touch any more. */
void verbs_stock_leave(struct fabric_stock *stock)
{
    int error = stock->srq != NULL ? stock->verbs->library->destroy_srq(stock->srq) : 0;

    if (error == EIO && verbs_loss_is_taken(stock->verbs))
        error = 0;
    if (error != 0)
        LOG_ERROR("a shared receive queue is not destroyed",
                  "errno=%d do=\"see the kernel's log (dmesg) and the driver: the node ends here, "
                  "as the device could write to memory on\"",
                  error);
    NIGH_ASSERT(error == 0); /* else the memory of others could not be given back */
    stock->srq = NULL;
    stock->cqs = 0;
    stock->held = 0;
    for (uint32_t i = 0; i < stock->depth; i++) {
        if (stock->receives[i].state == VERBS_SHARED_HELD)
            append(stock, &stock->waiting, i, VERBS_SHARED_WAITS);
    }
}

/* ---- made and ended ---- */

static bool has_number(struct verbs *verbs, struct fabric_stock *stock)
{
    for (uint32_t i = 0; i < LIMIT_FABRIC_STOCKS; i++) {
        if (verbs->stock_table[i] == NULL) {
            verbs->stock_table[i] = stock;
            stock->number = i;
            return true;
        }
    }
    return false;
}

static void drop(struct fabric_stock *stock)
{
    stock->verbs->stock_table[stock->number] = NULL;
    free(stock->receives);
    free(stock);
}

nigh_status verbs_stock_create(struct fabric *fabric, uint32_t depth, struct fabric_stock **out)
{
    struct verbs *verbs = verbs_of(fabric);
    struct fabric_stock *stock;

    if ((fabric->caps.ops & FABRIC_CAN_SHARE) == 0)
        return NIGH_UNSUPPORTED;
    if (depth == 0 || depth > LIMIT_FABRIC_STOCK)
        return NIGH_INVALID;
    if (depth > (uint32_t)verbs->device.attr.max_srq_wr)
        return NIGH_LIMIT;
    stock = calloc(1, sizeof(*stock));
    if (stock == NULL)
        return NIGH_NO_RESOURCES;
    *stock = (struct fabric_stock){.verbs = verbs, .depth = depth, .free = none, .waiting = none};
    if (!has_number(verbs, stock)) {
        free(stock);
        return NIGH_LIMIT;
    }
    stock->receives = calloc(depth, sizeof(*stock->receives));
    for (uint32_t i = 0; stock->receives != NULL && i < depth; i++)
        append(stock, &stock->free, i, VERBS_SHARED_FREE);
    if (stock->receives == NULL || (!verbs->is_gone && !verbs_stock_enter(stock))) {
        drop(stock);
        return NIGH_NO_RESOURCES;
    }
    list_push_back(&verbs->stocks, &stock->node);
    *out = stock;
    return NIGH_OK;
}

void verbs_stock_destroy(struct fabric_stock *stock)
{
    struct verbs *verbs = stock->verbs;

    NIGH_ASSERT(stock->users == 0);
    for (uint32_t i = 0; i < verbs->cq_count; i++) {
        if ((stock->cqs & UINT64_C(1) << i) != 0)
            verbs->cqs[i].returning += stock->depth;
    }
    verbs_stock_leave(stock);
    list_remove(&stock->node);
    drop(stock);
}

/* ---- posted ---- */

nigh_status verbs_stock_post(struct fabric_stock *stock, const struct fabric_receive *receive,
                             const struct fabric_receive **bad)
{
    nigh_status status = NIGH_OK;

    for (; receive != NULL; receive = receive->next) {
        uint32_t number;

        if (!verbs_memory_covers(stock->verbs, &receive->slice, FABRIC_LOCAL_WRITE))
            status = NIGH_INVALID;
        else if (stock->taken == stock->depth)
            status = NIGH_BUSY;
        if (status != NIGH_OK) {
            if (bad != NULL)
                *bad = receive;
            break;
        }
        number = pop(stock, &stock->free);
        stock->receives[number] = (struct verbs_shared){
            .receive = {.tag = receive->tag,
                        .slice = {.addr = (uintptr_t)receive->slice.address,
                                  .length = (uint32_t)min_u64(receive->slice.bytes,
                                                              LIMIT_FABRIC_MESSAGE)}},
            .memory = receive->slice.memory};
        append(stock, &stock->waiting, number, VERBS_SHARED_WAITS);
        stock->taken++;
    }
    hand_over(stock);
    return status;
}

void verbs_stock_is_low(struct verbs *verbs, const struct ibv_srq *srq)
{
    LIST_FOREACH(node, &verbs->stocks)
    {
        struct fabric_stock *stock = container_of(node, struct fabric_stock, node);

        if (stock->srq != srq)
            continue;
        verbs->fabric.counts.stock_lows++;
        stock->is_watched = false; /* until there are enough again */
    }
}

/* ---- endpoints ---- */

static struct fabric_endpoint **bucket_of(struct verbs *verbs, uint32_t qp_number)
{
    return &verbs->by_qp[qp_number % VERBS_QP_BUCKETS];
}

struct fabric_endpoint *verbs_stock_endpoint(const struct verbs *verbs, uint32_t qp_number)
{
    struct fabric_endpoint *endpoint = verbs->by_qp[qp_number % VERBS_QP_BUCKETS];

    while (endpoint != NULL && endpoint->qp_number != qp_number)
        endpoint = endpoint->next_by_qp;
    return endpoint;
}

void verbs_stock_join(struct fabric_endpoint *endpoint)
{
    struct verbs *verbs = endpoint->verbs;
    struct fabric_endpoint **bucket = bucket_of(verbs, endpoint->qp->qp_num);

    endpoint->qp_number = endpoint->qp->qp_num;
    endpoint->stock->cqs |= UINT64_C(1) << (endpoint->cq - verbs->cqs);
    endpoint->next_by_qp = *bucket;
    *bucket = endpoint;
}

/* Some devices never say their last word, and have done all by then. */
void verbs_stock_settle(struct fabric_endpoint *endpoint)
{
    struct verbs *verbs = endpoint->verbs;
    uint64_t end_us = clock_now_us(&clock_monotonic) + VERBS_LAST_US;

    if (!endpoint->is_started || verbs->is_gone)
        return;
    if (endpoint->state < VERBS_FAILING)
        verbs_queue_stop(endpoint);
    do {
        (void)verbs_event_device(verbs);
        verbs_complete_drain(verbs, endpoint->cq);
    } while (!endpoint->has_let_go && !verbs->is_gone && clock_now_us(&clock_monotonic) < end_us);
}

void verbs_stock_forget(struct fabric_endpoint *endpoint)
{
    struct fabric_endpoint **at = bucket_of(endpoint->verbs, endpoint->qp_number);

    while (*at != endpoint)
        at = &(*at)->next_by_qp;
    *at = endpoint->next_by_qp;
    if (!endpoint->verbs->is_gone) /* before the device gives its number to another */
        verbs_complete_drain(endpoint->verbs, endpoint->cq);
}

void verbs_stock_give_back(struct fabric_endpoint *endpoint)
{
    struct fabric_stock *stock = endpoint->stock;

    while (endpoint->came.first != VERBS_NO_RECEIVE) {
        uint32_t number = pop(stock, &endpoint->came);
        struct verbs_receive *receive = &stock->receives[number].receive;

        *receive = (struct verbs_receive){.tag = receive->tag, .slice = receive->slice};
        append(stock, &stock->waiting, number, VERBS_SHARED_WAITS);
    }
    hand_over(stock);
}

/* ---- completed ---- */

struct verbs_shared *verbs_stock_came(struct verbs *verbs, uint32_t number, uint32_t position,
                                      struct fabric_endpoint *endpoint)
{
    struct fabric_stock *stock = number < LIMIT_FABRIC_STOCKS ? verbs->stock_table[number] : NULL;

    if (stock == NULL || position >= stock->depth ||
        stock->receives[position].state != VERBS_SHARED_HELD)
        return NULL;
    stock->held--;
    if (endpoint == NULL) { /* of a queue pair that is gone */
        append(stock, &stock->waiting, position, VERBS_SHARED_WAITS);
        hand_over(stock);
    } else {
        append(stock, &endpoint->came, position, VERBS_SHARED_CAME);
    }
    return &stock->receives[position];
}

struct verbs_receive *verbs_stock_take(struct fabric_endpoint *endpoint)
{
    struct fabric_stock *stock = endpoint->stock;
    uint32_t number = pop(stock, &endpoint->came);

    append(stock, &stock->free, number, VERBS_SHARED_FREE);
    stock->taken--;
    return &stock->receives[number].receive;
}
