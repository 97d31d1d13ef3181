/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an endpoint: made, sized, told about, failed, drained, destroyed; and the identifiers
 * of rdma_cm, which live a little longer. */
#include <stdlib.h>

#include "fabric/verbs/verbs_internal.h"

#define NO_ENTRY UINT32_MAX

/* ---- made ---- */

static uint32_t table_take(struct verbs *verbs)
{
    uint32_t number = verbs->free;

    if (number != NO_ENTRY)
        verbs->free = verbs->table[number].next_free;
    else
        number = verbs->fresh++;
    verbs->table[number].generation++;
    return number;
}

struct fabric_endpoint *verbs_endpoint_make(struct verbs *verbs, enum verbs_state state)
{
    struct fabric_endpoint *endpoint = calloc(1, sizeof(*endpoint));

    NIGH_ASSERT(verbs->endpoint_count < LIMIT_FABRIC_ENDPOINTS);
    if (endpoint == NULL)
        return NULL;
    endpoint->id = calloc(1, sizeof(*endpoint->id));
    if (endpoint->id == NULL) {
        free(endpoint);
        return NULL;
    }
    endpoint->id->endpoint = endpoint;
    endpoint->verbs = verbs;
    endpoint->number = table_take(verbs);
    verbs->table[endpoint->number].endpoint = endpoint;
    endpoint->state = VERBS_FAILED;
    list_push_back(&verbs->every, &endpoint->every);
    verbs->endpoint_count++;
    verbs_endpoint_set_state(endpoint, state);
    return endpoint;
}

void verbs_endpoint_unsize(struct fabric_endpoint *endpoint)
{
    free(endpoint->works);
    free(endpoint->inline_bytes);
    free(endpoint->slots);
    free(endpoint->receives);
    endpoint->works = NULL;
    endpoint->inline_bytes = NULL;
    endpoint->slots = NULL;
    endpoint->receives = NULL;
    if (endpoint->stock != NULL)
        endpoint->stock->users--;
    endpoint->stock = NULL;
}

nigh_status verbs_endpoint_size(struct fabric_endpoint *endpoint,
                                const struct fabric_endpoint_options *options)
{
    const struct verbs *verbs = endpoint->verbs;
    uint64_t works = round_up_pow2_u64(options->sends);
    uint32_t own = options->stock != NULL ? 0 : options->receives;
    uint64_t receives = round_up_pow2_u64(own);
    uint32_t depth = options->sends + VERBS_RESERVED;
    uint64_t slots;

    if (options->sends > LIMIT_FABRIC_DEPTH || options->receives > LIMIT_FABRIC_DEPTH)
        return NIGH_INVALID;
    if (depth > (uint32_t)verbs->device.attr.max_qp_wr ||
        own > (uint32_t)verbs->device.attr.max_qp_wr)
        return NIGH_LIMIT;
    slots = round_up_pow2_u64(depth);
    endpoint->works = calloc(works, sizeof(*endpoint->works));
    endpoint->inline_most = fabric_inline_bytes(&verbs->fabric, options);
    endpoint->inline_bytes = calloc(works, endpoint->inline_most);
    endpoint->slots = calloc(slots, sizeof(*endpoint->slots));
    endpoint->receives = calloc(receives, sizeof(*endpoint->receives));
    if (endpoint->works == NULL || endpoint->inline_bytes == NULL || endpoint->slots == NULL ||
        endpoint->receives == NULL) {
        verbs_endpoint_unsize(endpoint);
        return NIGH_NO_RESOURCES;
    }
    endpoint->work_mask = (uint32_t)works - 1;
    endpoint->work_depth = options->sends;
    endpoint->slot_mask = (uint32_t)slots - 1;
    endpoint->slot_depth = depth;
    endpoint->receive_mask = (uint32_t)receives - 1;
    endpoint->receive_depth = own;
    endpoint->came = (struct verbs_shared_list){VERBS_NO_RECEIVE, VERBS_NO_RECEIVE};
    endpoint->stock = options->stock;
    if (endpoint->stock != NULL)
        endpoint->stock->users++;
    endpoint->context = options->context;
    return NIGH_OK;
}

/* ---- lists ---- */

static bool is_connecting(enum verbs_state state)
{
    return state < VERBS_JOINED;
}

static bool is_half_open(enum verbs_state state)
{
    return state == VERBS_REQUESTED;
}

void verbs_endpoint_set_state(struct fabric_endpoint *endpoint, enum verbs_state state)
{
    struct verbs *verbs = endpoint->verbs;

    verbs->connecting -= is_connecting(endpoint->state);
    verbs->half_open -= is_half_open(endpoint->state);
    verbs->open_count -= endpoint->state == VERBS_OPEN;
    endpoint->state = state;
    verbs->connecting += is_connecting(state);
    verbs->half_open += is_half_open(state);
    verbs->open_count += state == VERBS_OPEN;
    if (state == VERBS_OPEN && verbs->open_count == 1)
        verbs->keepalive_due_us = 0;
}

void verbs_endpoint_work(struct fabric_endpoint *endpoint)
{
    if (!list_is_linked(&endpoint->working))
        list_push_back(&endpoint->verbs->working, &endpoint->working);
}

void verbs_endpoint_set_patience(struct fabric_endpoint *endpoint, uint64_t patience_us)
{
    endpoint->patience_us = patience_us;
    endpoint->deadline_us = 0; /* counted from the next poll, which knows what time it is */
    endpoint->verbs->due_us = 0;
    if (!list_is_linked(&endpoint->timed))
        list_push_back(&endpoint->verbs->timed, &endpoint->timed);
}

void verbs_endpoint_tell(struct fabric_endpoint *endpoint, enum fabric_event_kind event)
{
    endpoint->event = event;
    if (!list_is_linked(&endpoint->eventful))
        list_push_back(&endpoint->verbs->eventful, &endpoint->eventful);
}

void verbs_endpoint_join(struct fabric_endpoint *endpoint)
{
    verbs_endpoint_set_state(endpoint, VERBS_JOINED);
    verbs_unlink(&endpoint->timed);
    verbs_endpoint_tell(endpoint, FABRIC_ESTABLISHED);
}

/* ---- identifiers ---- */

void verbs_id_destroy(struct verbs *verbs, struct verbs_id *id)
{
    if (list_is_linked(&id->lingering)) {
        list_remove(&id->lingering);
        verbs->lingering_count--;
    }
    if (id->id != NULL)
        (void)verbs->library->destroy_id(id->id);
    free(id);
}

void verbs_id_linger(struct verbs *verbs, struct verbs_id *id)
{
    id->endpoint = NULL;
    id->deadline_us = 0;
    if (verbs->lingering_count == VERBS_LINGERING)
        verbs_id_destroy(verbs,
                         container_of(list_first(&verbs->lingering), struct verbs_id, lingering));
    list_push_back(&verbs->lingering, &id->lingering);
    verbs->lingering_count++;
    verbs->linger_due_us = 0;
}

void verbs_id_destroy_late(struct verbs *verbs, uint64_t now_us)
{
    uint64_t due_us = UINT64_MAX;

    LIST_FOREACH_SAFE(node, &verbs->lingering)
    {
        struct verbs_id *id = container_of(node, struct verbs_id, lingering);

        if (id->deadline_us == 0)
            id->deadline_us = now_us + VERBS_LINGER_US;
        if (now_us < id->deadline_us)
            due_us = min_u64(due_us, id->deadline_us);
        else
            verbs_id_destroy(verbs, id);
    }
    verbs->linger_due_us = due_us;
}

/* Gives the peer to understand that there is an end (V10): a word, or the end of the identifier,
 * which rdma_cm tells of in its own way. */
static void part(struct fabric_endpoint *endpoint, enum verbs_state state)
{
    const struct verbs_library *library = endpoint->verbs->library;
    struct verbs_id *id = endpoint->id;

    if (id->id == NULL)
        return;
    if (state >= VERBS_ACCEPTING) {
        (void)library->disconnect(id->id);
        endpoint->has_parted = true;
        return;
    }
    if (state == VERBS_REQUESTED || state == VERBS_ACCEPTED)
        (void)library->reject(id->id, NULL, 0);
    (void)library->destroy_id(id->id);
    id->id = NULL;
}

static void give_up_id(struct fabric_endpoint *endpoint)
{
    struct verbs_id *id = endpoint->id;

    endpoint->id = NULL;
    if (endpoint->has_parted)
        verbs_id_linger(endpoint->verbs, id);
    else
        verbs_id_destroy(endpoint->verbs, id);
}

/* ---- ended ---- */

static bool is_drained(const struct fabric_endpoint *endpoint)
{
    if (endpoint->qp == NULL)
        return true;
    return (endpoint->is_drained ||
            (endpoint->slot_head == endpoint->slot_tail && !endpoint->has_last)) &&
           (endpoint->stock == NULL || endpoint->has_let_go || !endpoint->is_started) &&
           endpoint->receive_filled == endpoint->receive_posted;
}

void verbs_endpoint_fail(struct fabric_endpoint *endpoint, nigh_status status)
{
    enum verbs_state state = endpoint->state;

    NIGH_ASSERT(state < VERBS_FAILING);
    verbs_endpoint_set_state(endpoint, VERBS_FAILING);
    verbs_unlink(&endpoint->accepting);
    verbs_unlink(&endpoint->timed);
    if (endpoint->qp != NULL) {
        verbs_queue_stop(endpoint);
        if (state >= VERBS_ACCEPTING)
            endpoint->has_last = verbs_send_empty(endpoint, VERBS_SLOT_LAST);
        verbs_endpoint_set_patience(endpoint, VERBS_DRAIN_US);
    }
    part(endpoint, state);
    if (!endpoint->is_known) {
        verbs_endpoint_destroy(endpoint);
        return;
    }
    endpoint->status = status;
    verbs_endpoint_tell(endpoint, FABRIC_DISCONNECTED);
    list_push_back(&endpoint->verbs->failing, &endpoint->failing);
}

/* What came back of the device says where it stopped: what was posted before the first failure and
 * needed no word of its own has succeeded (V9). */
static void settle(struct fabric_endpoint *endpoint)
{
    uint32_t first = endpoint->slot_head;

    while (first != endpoint->slot_tail && !endpoint->slots[first & endpoint->slot_mask].has_failed)
        first++;
    if (first == endpoint->slot_tail) /* nothing is known */
        first = endpoint->slot_head;
    for (uint32_t i = endpoint->ended; i != endpoint->tail; i++)
        endpoint->works[i & endpoint->work_mask].status = NIGH_PEER_LOST;
    if (endpoint->has_refused)
        endpoint->works[endpoint->next & endpoint->work_mask].status = NIGH_DENIED;
    for (uint32_t i = endpoint->slot_head; i != endpoint->slot_tail; i++) {
        const struct verbs_slot *slot = &endpoint->slots[i & endpoint->slot_mask];
        struct verbs_work *work = &endpoint->works[slot->work & endpoint->work_mask];

        if (slot->kind != VERBS_SLOT_WORK)
            continue;
        if (slot->has_failed && work->status == NIGH_PEER_LOST)
            work->status = slot->status;
        if ((int32_t)(first - i) > 0 && !slot->is_signalled && slot->is_final)
            work->status = NIGH_OK;
    }
    for (uint32_t i = endpoint->receive_filled; i != endpoint->receive_tail; i++) {
        struct verbs_receive *receive = &endpoint->receives[i & endpoint->receive_mask];

        if (!receive->has_ended)
            receive->status = NIGH_PEER_LOST;
        receive->has_ended = true;
    }
}

void verbs_endpoint_finish(struct fabric_endpoint *endpoint)
{
    struct verbs_cq *cq = endpoint->cq;

    if (cq != NULL && !is_drained(endpoint))
        verbs_complete_drain(endpoint->verbs, cq);
    verbs_unlink(&endpoint->failing);
    verbs_unlink(&endpoint->timed);
    verbs_unlink(&endpoint->working);
    verbs_queue_destroy(endpoint);
    settle(endpoint);
    verbs_endpoint_set_state(endpoint, VERBS_FAILED);
    verbs_complete_mark(endpoint);
}

void verbs_endpoint_finish_all(struct verbs *verbs)
{
    LIST_FOREACH_SAFE(node, &verbs->failing)
    {
        struct fabric_endpoint *endpoint = container_of(node, struct fabric_endpoint, failing);

        if (is_drained(endpoint))
            verbs_endpoint_finish(endpoint);
    }
}

void verbs_endpoint_disconnect(struct fabric_endpoint *endpoint)
{
    if (endpoint->state < VERBS_FAILING)
        verbs_endpoint_fail(endpoint, NIGH_PEER_LOST);
}

/* The queue pair first: when this returns nothing of it touches memory (F31). */
void verbs_endpoint_destroy(struct fabric_endpoint *endpoint)
{
    struct verbs *verbs = endpoint->verbs;
    struct verbs_entry *entry = &verbs->table[endpoint->number];

    verbs_queue_destroy(endpoint);
    if (endpoint->stock != NULL)
        verbs_stock_give_back(endpoint);
    if (endpoint->state < VERBS_FAILING)
        part(endpoint, endpoint->state);
    give_up_id(endpoint);
    verbs_endpoint_set_state(endpoint, VERBS_FAILED);
    verbs_unlink(&endpoint->working);
    verbs_unlink(&endpoint->completing);
    verbs_unlink(&endpoint->eventful);
    verbs_unlink(&endpoint->timed);
    verbs_unlink(&endpoint->accepting);
    verbs_unlink(&endpoint->failing);
    list_remove(&endpoint->every);
    entry->endpoint = NULL;
    entry->next_free = verbs->free;
    verbs->free = endpoint->number;
    verbs->endpoint_count--;
    verbs_endpoint_unsize(endpoint);
    free(endpoint);
}
