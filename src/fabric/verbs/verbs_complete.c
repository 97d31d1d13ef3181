/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the device to the rings, and from the rings to the caller.
 *
 * What the device completes is known by a number of the endpoint, how often that number was used,
 * and a position in a ring: what comes late, of an endpoint that is gone, hits nothing (V8).
 */
#include <arpa/inet.h>

#include "fabric/verbs/verbs_internal.h"

#define LOG_MODULE "fabric"
#include "base/log.h"

#define NUMBER_BITS     13
#define GENERATION_BITS 18
#define RECEIVE_BIT     (UINT64_C(1) << 32)
#define NUMBER_SHIFT    33
#define GENERATIONS     ((UINT32_C(1) << GENERATION_BITS) - 1) /* 0 is none */

_Static_assert(LIMIT_FABRIC_STOCKS <= 1 << NUMBER_BITS, "numbers of stocks fit");
_Static_assert(LIMIT_FABRIC_ENDPOINTS <= 1 << NUMBER_BITS, "numbers fit");

uint64_t verbs_complete_id(const struct fabric_endpoint *endpoint, bool is_receive,
                           uint32_t position)
{
    uint64_t generation = endpoint->verbs->table[endpoint->number].generation % GENERATIONS + 1;

    return generation << (NUMBER_SHIFT + NUMBER_BITS) | (uint64_t)endpoint->number << NUMBER_SHIFT |
           (is_receive ? RECEIVE_BIT : 0) | position;
}

/* No endpoint's: those have a generation, from 1 on. */
uint64_t verbs_complete_shared_id(const struct fabric_stock *stock, uint32_t position)
{
    return (uint64_t)stock->number << NUMBER_SHIFT | RECEIVE_BIT | position;
}

static bool is_shared(uint64_t id)
{
    return id >> (NUMBER_SHIFT + NUMBER_BITS) == 0;
}

static uint32_t number_of(uint64_t id)
{
    return (uint32_t)(id >> NUMBER_SHIFT) & ((1u << NUMBER_BITS) - 1);
}

static struct fabric_endpoint *find(const struct verbs *verbs, uint64_t id)
{
    uint32_t number = number_of(id);
    const struct verbs_entry *entry = &verbs->table[number];
    uint32_t generation = (uint32_t)(id >> (NUMBER_SHIFT + NUMBER_BITS));

    return number < verbs->fresh && entry->generation % GENERATIONS + 1 == generation
               ? entry->endpoint
               : NULL;
}

/* ---- what the device says ---- */

/* Why a post failed, as its completion has it. Of a message that is longer than its receive some
 * targets say that it was invalid, and the kernel's software device (rxe) that it could not be
 * done.
 */
static nigh_status status_of_send(enum ibv_wc_status status, uint8_t op)
{
    switch (status) {
    case IBV_WC_REM_ACCESS_ERR: return NIGH_DENIED;
    case IBV_WC_REM_INV_REQ_ERR: return op == FABRIC_SEND ? NIGH_LIMIT : NIGH_DENIED;
    case IBV_WC_REM_OP_ERR: return op == FABRIC_SEND ? NIGH_LIMIT : NIGH_PROTOCOL;
    case IBV_WC_RNR_RETRY_EXC_ERR: return NIGH_PROTOCOL;
    default: return NIGH_PEER_LOST;
    }
}

static nigh_status status_of_receive(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_SUCCESS: return NIGH_OK;
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR: /* rxe's word for it */
    case IBV_WC_REM_INV_REQ_ERR: return NIGH_LIMIT;
    default: return NIGH_PEER_LOST;
    }
}

static void fail(struct fabric_endpoint *endpoint, enum ibv_wc_status status, nigh_status event)
{
    if (endpoint->state >= VERBS_FAILING)
        return;
    if (status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_LOC_ACCESS_ERR)
        LOG_ERROR("a queue pair failed by our own memory: deregistered too early?",
                  "status=%d do=\"have it looked into (nigh support): it is a mistake of nigh or "
                  "of the driver; the connection is made anew\"",
                  status);
    verbs_endpoint_fail(endpoint, event);
}

/* One that succeeded says so of all before it (of one queue pair they end in order). */
static void retire(struct fabric_endpoint *endpoint, uint32_t position)
{
    while ((int32_t)(endpoint->slot_head - position) <= 0) {
        const struct verbs_slot *slot =
            &endpoint->slots[endpoint->slot_head++ & endpoint->slot_mask];

        endpoint->reads -= slot->is_read;
        if (slot->kind == VERBS_SLOT_PROBE)
            endpoint->is_probed = false;
        else if (slot->kind == VERBS_SLOT_WORK && slot->is_final)
            endpoint->ended = slot->work + 1;
    }
    if (endpoint->next != endpoint->tail && endpoint->state == VERBS_OPEN)
        verbs_endpoint_work(endpoint);
}

static void on_slot(struct fabric_endpoint *endpoint, uint32_t position, const struct ibv_wc *wc)
{
    struct verbs_slot *slot = &endpoint->slots[position & endpoint->slot_mask];
    uint8_t op = endpoint->works[slot->work & endpoint->work_mask].op;

    if (position - endpoint->slot_head >= endpoint->slot_tail - endpoint->slot_head)
        return; /* of one that was said to have ended: a device that says things twice */
    if (wc->status == IBV_WC_SUCCESS) {
        retire(endpoint, position);
        return;
    }
    slot->has_failed = true;
    slot->status = status_of_send(wc->status, op);
    if (slot->kind == VERBS_SLOT_LAST)
        endpoint->is_drained = true;
    fail(endpoint, wc->status,
         wc->status == IBV_WC_RETRY_EXC_ERR || wc->status == IBV_WC_RESP_TIMEOUT_ERR
             ? NIGH_TIMEOUT
             : slot->status);
}

static void fill(struct verbs *verbs, struct verbs_receive *receive, const struct ibv_wc *wc)
{
    receive->has_ended = true;
    receive->status = status_of_receive(wc->status);
    if (wc->status != IBV_WC_SUCCESS)
        return;
    verbs->fabric.counts.messages++;
    receive->bytes = wc->byte_len;
    receive->has_imm = (wc->wc_flags & IBV_WC_WITH_IMM) != 0;
    receive->imm = receive->has_imm ? ntohl(wc->imm_data) : 0;
    verbs->fabric.counts.immediates += receive->has_imm;
}

static void heed(struct fabric_endpoint *endpoint, const struct verbs_receive *receive,
                 const struct ibv_wc *wc)
{
    if (wc->status != IBV_WC_SUCCESS)
        fail(endpoint, wc->status, receive->status);
    else if (endpoint->state == VERBS_ACCEPTING)
        verbs_endpoint_join(endpoint); /* the first message may overtake the last of the set-up */
}

static void on_receive(struct fabric_endpoint *endpoint, uint32_t position, const struct ibv_wc *wc)
{
    struct verbs_receive *receive = &endpoint->receives[position & endpoint->receive_mask];

    if (position - endpoint->receive_filled >= endpoint->receive_posted - endpoint->receive_filled)
        return;
    fill(endpoint->verbs, receive, wc);
    while (endpoint->receive_filled != endpoint->receive_posted &&
           endpoint->receives[endpoint->receive_filled & endpoint->receive_mask].has_ended)
        endpoint->receive_filled++;
    heed(endpoint, receive, wc);
}

/* A receive of a stock, which takes it back when nobody is there to see it. */
static void on_shared(struct verbs *verbs, const struct ibv_wc *wc)
{
    struct fabric_endpoint *endpoint = verbs_stock_endpoint(verbs, wc->qp_num);
    struct verbs_shared *shared =
        verbs_stock_came(verbs, number_of(wc->wr_id), (uint32_t)wc->wr_id, endpoint);

    if (shared == NULL || endpoint == NULL)
        return;
    fill(verbs, &shared->receive, wc);
    endpoint->is_quiet = endpoint->is_quiet && wc->status != IBV_WC_SUCCESS;
    heed(endpoint, &shared->receive, wc);
    verbs_complete_mark(endpoint);
}

static void on_completion(struct verbs *verbs, const struct ibv_wc *wc)
{
    struct fabric_endpoint *endpoint;

    if (is_shared(wc->wr_id)) {
        on_shared(verbs, wc);
        return;
    }
    endpoint = find(verbs, wc->wr_id);
    if (endpoint == NULL || endpoint->qp == NULL)
        return;
    endpoint->is_quiet = endpoint->is_quiet && wc->status != IBV_WC_SUCCESS;
    if ((wc->wr_id & RECEIVE_BIT) != 0)
        on_receive(endpoint, (uint32_t)wc->wr_id, wc);
    else
        on_slot(endpoint, (uint32_t)wc->wr_id, wc);
    verbs_complete_mark(endpoint);
}

/* How many were there, at most VERBS_POLL_BATCH. */
static uint32_t reap(struct verbs *verbs, struct verbs_cq *cq)
{
    struct ibv_wc wcs[VERBS_POLL_BATCH];
    int count = ibv_poll_cq(cq->cq, (int)VERBS_POLL_BATCH, wcs);

    if (count < 0) {
        LOG_ERROR("a completion queue cannot be read",
                  "result=%d do=\"see the kernel's log (dmesg) and the card; if it stays, start "
                  "the node again\"",
                  count);
        return 0;
    }
    for (int i = 0; i < count; i++)
        on_completion(verbs, &wcs[i]);
    if (count < (int)VERBS_POLL_BATCH) { /* it was empty */
        cq->used -= cq->returning;
        cq->returning = 0;
    }
    return (uint32_t)count;
}

bool verbs_complete_reap(struct verbs *verbs)
{
    bool any = false;

    for (uint32_t i = 0; i < verbs->cq_count; i++) {
        uint32_t rounds = 0, count;

        do {
            count = reap(verbs, &verbs->cqs[i]);
            any = any || count > 0;
        } while (count == VERBS_POLL_BATCH && ++rounds < VERBS_POLL_ROUNDS);
    }
    return any;
}

void verbs_complete_drain(struct verbs *verbs, struct verbs_cq *cq)
{
    for (uint32_t i = 0; i <= cq->entries / VERBS_POLL_BATCH; i++) {
        if (reap(verbs, cq) < VERBS_POLL_BATCH)
            return;
    }
}

/* ---- what the caller takes ---- */

static bool has_work(const struct fabric_endpoint *endpoint)
{
    return endpoint->state == VERBS_FAILED ? endpoint->head != endpoint->tail
                                           : endpoint->head != endpoint->ended;
}

static bool has_receive(const struct fabric_endpoint *endpoint)
{
    if (endpoint->stock != NULL)
        return endpoint->came.first != VERBS_NO_RECEIVE;
    return endpoint->receive_head !=
           (endpoint->state == VERBS_FAILED ? endpoint->receive_tail : endpoint->receive_filled);
}

/* Before ESTABLISHED was taken there are no completions; while it fails they wait for the rest. */
void verbs_complete_mark(struct fabric_endpoint *endpoint)
{
    if ((endpoint->state == VERBS_OPEN || endpoint->state == VERBS_FAILED) &&
        !list_is_linked(&endpoint->completing) && (has_work(endpoint) || has_receive(endpoint)))
        list_push_back(&endpoint->verbs->completing, &endpoint->completing);
}

static void take_receive(struct fabric_endpoint *endpoint, struct fabric_completion *out)
{
    const struct verbs_receive *receive =
        endpoint->stock != NULL
            ? verbs_stock_take(endpoint)
            : &endpoint->receives[endpoint->receive_head++ & endpoint->receive_mask];

    *out = (struct fabric_completion){.endpoint = endpoint,
                                      .context = endpoint->context,
                                      .tag = receive->tag,
                                      .op = FABRIC_RECV,
                                      .status = receive->status,
                                      .has_imm = receive->has_imm,
                                      .imm = receive->imm,
                                      .bytes = receive->bytes};
}

/* Ends the first post. False: it wants no completion. */
static bool take_work(struct fabric_endpoint *endpoint, struct fabric_completion *out)
{
    const struct verbs_work *work = &endpoint->works[endpoint->head & endpoint->work_mask];
    bool has_ended = (int32_t)(endpoint->ended - endpoint->head) > 0;
    nigh_status status = has_ended ? NIGH_OK : work->status;

    endpoint->head++;
    if (status == NIGH_OK && (work->flags & FABRIC_SIGNALLED) == 0)
        return false;
    *out = (struct fabric_completion){.endpoint = endpoint,
                                      .context = endpoint->context,
                                      .tag = work->tag,
                                      .op = (enum fabric_op)work->op,
                                      .status = status,
                                      .bytes = work->bytes};
    return true;
}

uint32_t verbs_complete_take(struct verbs *verbs, struct fabric_completion *completions,
                             uint32_t count)
{
    uint32_t taken = 0;

    while (taken < count && !list_empty(&verbs->completing)) {
        struct fabric_endpoint *endpoint =
            container_of(list_pop_front(&verbs->completing), struct fabric_endpoint, completing);

        while (taken < count && has_receive(endpoint))
            take_receive(endpoint, &completions[taken++]);
        while (taken < count && has_work(endpoint))
            taken += take_work(endpoint, &completions[taken]);
        verbs_complete_mark(endpoint); /* at the end: others come first */
    }
    return taken;
}
