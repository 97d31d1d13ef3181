/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs, their states, and the completion queues that they share.
 *
 * A completion queue is made for so many entries and never resized, which not every device can: a
 * queue pair takes its share of one that has room, and gives it back when it is gone and the queue
 * was seen empty, because what it completed last may still lie there (V8).
 */
#include <errno.h>
#include <string.h>

#include "fabric/verbs/verbs_internal.h"

#define LOG_MODULE "fabric"
#include "base/log.h"

#define ACCESS           (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)
#define ATTR_ROCE_KERNEL 0xe00000 /* bits that a kernel's rdma_ucm sets by mistake */
#define TIMEOUT_MOST     16       /* 4 us << 16, about a quarter of a second a try */
#define FIRST_PACKET     0x10000u /* of either end of what leads back: any number will do */

/* ---- completion queues ---- */

static uint32_t entries_of(const struct verbs *verbs)
{
    return min_u32((uint32_t)verbs->device.attr.max_cqe, VERBS_CQ_ENTRIES);
}

/* V8: which of the device's interrupts wakes us. A lane of its own has one of its own, as far as
 * there are so many. */
static int vector_of(const struct verbs *verbs)
{
    int count = verbs->device.context->num_comp_vectors;

    return count > 0 ? (int)(verbs->vector % (uint32_t)count) : 0;
}

static struct verbs_cq *cq_make(struct verbs *verbs, uint32_t share)
{
    struct verbs_cq *made = &verbs->cqs[verbs->cq_count];
    uint32_t entries = entries_of(verbs);

    if (verbs->cq_count == VERBS_CQS || share > entries)
        return NULL;
    made->cq = verbs->library->create_cq(verbs->device.context, (int)entries, made, verbs->channel,
                                         vector_of(verbs));
    if (made->cq == NULL)
        return NULL;
    made->entries = entries;
    made->used = made->returning = made->unacknowledged = 0;
    verbs->cq_count++;
    verbs->fabric.is_armed = false; /* this one is not */
    return made;
}

/* What else a completion queue must have room for: all of the stock's receives may end in it. */
static uint32_t stock_share(const struct verbs *verbs, const struct fabric_stock *stock,
                            const struct verbs_cq *cq)
{
    return stock == NULL || (stock->cqs & UINT64_C(1) << (cq - verbs->cqs)) != 0 ? 0 : stock->depth;
}

static struct verbs_cq *cq_find(struct verbs *verbs, uint32_t share,
                                const struct fabric_stock *stock)
{
    for (uint32_t i = 0; i < verbs->cq_count; i++) {
        struct verbs_cq *cq = &verbs->cqs[i];
        uint32_t wanted = share + stock_share(verbs, stock, cq);

        if (cq->returning > 0 && wanted > cq->entries - cq->used)
            verbs_complete_drain(verbs, cq);
        if (wanted <= cq->entries - cq->used)
            return cq;
    }
    return cq_make(verbs, share + (stock != NULL ? stock->depth : 0));
}

/* ---- queue pairs ---- */

nigh_status verbs_queue_make(struct fabric_endpoint *endpoint)
{
    struct verbs *verbs = endpoint->verbs;
    uint32_t share = endpoint->slot_depth + endpoint->receive_depth;
    struct fabric_stock *stock = endpoint->stock;
    struct verbs_cq *cq = cq_find(verbs, share, stock);
    struct ibv_qp_init_attr init = {
        .qp_context = endpoint,
        .srq = stock != NULL ? stock->srq : NULL,
        .send_cq = cq != NULL ? cq->cq : NULL,
        .recv_cq = cq != NULL ? cq->cq : NULL,
        .cap = {.max_send_wr = endpoint->slot_depth,
                .max_recv_wr = stock != NULL ? 0 : max_u32(endpoint->receive_depth, 1),
                .max_send_sge = verbs->fabric.caps.slices,
                .max_recv_sge = stock != NULL ? 0 : 1,
                .max_inline_data = endpoint->inline_most},
        .qp_type = IBV_QPT_RC};

    if (cq == NULL)
        return verbs->cq_count == VERBS_CQS || share > entries_of(verbs) ? NIGH_LIMIT
                                                                         : NIGH_NO_RESOURCES;
    endpoint->qp = verbs->library->create_qp(verbs->pd, &init);
    if (endpoint->qp == NULL)
        return NIGH_NO_RESOURCES;
    endpoint->cq = cq;
    endpoint->cq_share = share;
    cq->used += share;
    if (stock != NULL) {
        cq->used += stock_share(verbs, stock, cq);
        verbs_stock_join(endpoint);
    }
    return NIGH_OK;
}

static bool enter_one(const struct verbs *verbs, struct ibv_qp *qp, struct ibv_qp_attr *attr,
                      int mask)
{
    int error = verbs->library->modify_qp(qp, attr, mask);

    if (error != 0)
        LOG_WARN("a queue pair does not change its state",
                 "to=%d errno=%d do=\"nothing: its connection ends, and is made anew; if it comes "
                 "again, see the kernel's log (dmesg) and the card\"",
                 attr->qp_state, error);
    return error == 0;
}

/* iWARP's kernel enters the last state by itself, and names none to us. */
static bool enter(struct fabric_endpoint *endpoint, struct ibv_qp_attr *attr, int mask)
{
    return (mask & IBV_QP_STATE) == 0 || enter_one(endpoint->verbs, endpoint->qp, attr, mask);
}

static bool ask(struct fabric_endpoint *endpoint, enum ibv_qp_state state, struct ibv_qp_attr *attr,
                int *mask)
{
    memset(attr, 0, sizeof(*attr));
    attr->qp_state = state;
    *mask = 0;
    if (endpoint->verbs->library->init_qp_attr(endpoint->id->id, attr, mask) != 0)
        return false;
    if (endpoint->verbs->device.port.link_layer == IBV_LINK_LAYER_INFINIBAND)
        *mask &= ~ATTR_ROCE_KERNEL;
    return true;
}

/* What peers may do through a queue pair. */
static unsigned access_of(const struct verbs *verbs)
{
    return (verbs->fabric.caps.ops & FABRIC_CAN_ATOMICS) != 0 ? ACCESS | IBV_ACCESS_REMOTE_ATOMIC
                                                              : ACCESS;
}

bool verbs_queue_init(struct fabric_endpoint *endpoint)
{
    struct ibv_qp_attr attr;
    int mask;

    if (!ask(endpoint, IBV_QPS_INIT, &attr, &mask))
        return false;
    if ((mask & IBV_QP_ACCESS_FLAGS) != 0)
        attr.qp_access_flags = access_of(endpoint->verbs);
    if (!enter(endpoint, &attr, mask))
        return false;
    endpoint->has_receives = true;
    return true;
}

/* V6: of who accepts rdma_cm has what the dialler asked for, which may be beyond this device: then
 * that refuses the state. */
static void serve(const struct verbs *verbs, struct ibv_qp_attr *attr, int mask)
{
    if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0)
        attr->max_dest_rd_atomic =
            (uint8_t)min_u32(attr->max_dest_rd_atomic, verbs->fabric.caps.reads);
}

/* V6: what both sides agreed on, as far as this device can; one at least, or none would ever go. */
static void admit(struct fabric_endpoint *endpoint, uint32_t agreed)
{
    endpoint->reads_most = max_u32(min_u32(agreed, endpoint->verbs->fabric.caps.reads), 1);
}

/* V15: how long an answer is awaited, and how often asked again, is each side's own. What rdma_cm
 * took has come back in `attr`; it takes the dialler's retries for both. */
static void set_patience(const struct verbs *verbs, struct ibv_qp_attr *attr, int mask)
{
    uint8_t most = (uint8_t)max_u32(verbs->ack_timeout, TIMEOUT_MOST);

    if ((mask & IBV_QP_TIMEOUT) != 0 && (attr->timeout == 0 || attr->timeout > most))
        attr->timeout = most;
    if ((mask & IBV_QP_RETRY_CNT) != 0)
        attr->retry_cnt = verbs->retries;
}

/* RNR: the peer has no receive. It ends the connection at once (F36); the device's own patience,
 * which rdma_cm sets to 655 ms, is never used. */
bool verbs_queue_start(struct fabric_endpoint *endpoint)
{
    struct ibv_qp_attr attr;
    int mask;

    if (!ask(endpoint, IBV_QPS_RTR, &attr, &mask))
        return false;
    if ((mask & IBV_QP_MIN_RNR_TIMER) != 0)
        attr.min_rnr_timer = 1;
    serve(endpoint->verbs, &attr, mask);
    if (!enter(endpoint, &attr, mask))
        return false;
    endpoint->is_started = true;
    if (!ask(endpoint, IBV_QPS_RTS, &attr, &mask))
        return false;
    attr.rnr_retry = 0;
    set_patience(endpoint->verbs, &attr, mask);
    admit(endpoint,
          (mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 ? attr.max_rd_atomic : endpoint->asked_depth);
    attr.max_rd_atomic = (uint8_t)endpoint->reads_most;
    return enter(endpoint, &attr, mask);
}

void verbs_queue_started(struct fabric_endpoint *endpoint)
{
    endpoint->is_started = true;
    admit(endpoint, endpoint->asked_depth);
}

/* ---- what leads back ---- */

/* V17: it answers, and posts nothing: what it completes is only the end of its peer, which says so
 * itself. So it has no room in the completion queue, and events of it are of no endpoint. */
static struct ibv_qp *make_answers(struct fabric_endpoint *endpoint)
{
    struct ibv_qp_init_attr init = {
        .send_cq = endpoint->cq->cq,
        .recv_cq = endpoint->cq->cq,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC};

    return endpoint->verbs->library->create_qp(endpoint->verbs->pd, &init);
}

static bool start_loop(const struct fabric_endpoint *endpoint, struct ibv_qp *qp,
                       const struct ibv_qp *peer, const struct ibv_ah_attr *way)
{
    const struct verbs *verbs = endpoint->verbs;
    uint8_t reads = (uint8_t)verbs->fabric.caps.reads;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = verbs->device.port_number,
                               .qp_access_flags = access_of(verbs)};

    if (!enter_one(verbs, qp, &attr,
                   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
        return false;
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                                .ah_attr = *way,
                                .path_mtu = verbs->device.port.active_mtu,
                                .dest_qp_num = peer->qp_num,
                                .rq_psn = FIRST_PACKET,
                                .max_dest_rd_atomic = reads,
                                .min_rnr_timer = 1};
    if (!enter_one(verbs, qp, &attr,
                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
        return false;
    attr =
        (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                             .sq_psn = FIRST_PACKET,
                             .retry_cnt = verbs->retries,
                             .timeout = verbs->ack_timeout != 0 ? verbs->ack_timeout : TIMEOUT_MOST,
                             .max_rd_atomic = reads};
    return enter_one(verbs, qp, &attr,
                     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                         IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

nigh_status verbs_queue_loop(struct fabric_endpoint *endpoint, const struct ibv_ah_attr *way)
{
    endpoint->answers = make_answers(endpoint);
    if (endpoint->answers == NULL)
        return NIGH_NO_RESOURCES;
    if (!start_loop(endpoint, endpoint->answers, endpoint->qp, way) ||
        !start_loop(endpoint, endpoint->qp, endpoint->answers, way))
        return NIGH_UNREACHABLE;
    endpoint->is_started = endpoint->has_receives = true;
    admit(endpoint, endpoint->verbs->fabric.caps.reads);
    return NIGH_OK;
}

/* ---- ended ---- */

void verbs_queue_stop(struct fabric_endpoint *endpoint)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    (void)enter(endpoint, &attr, IBV_QP_STATE);
}

static void destroy_one(struct verbs *verbs, struct ibv_qp *qp)
{
    int error = verbs->library->destroy_qp(qp);

    if (error == EIO && verbs_loss_is_taken(verbs))
        error = 0;
    if (error != 0)
        LOG_ERROR("a queue pair is not destroyed",
                  "errno=%d do=\"see the kernel's log (dmesg) and the driver: the node ends here, "
                  "as the device could write to memory on\"",
                  error);
    NIGH_ASSERT(error == 0); /* else the memory of others could not be given back */
}

void verbs_queue_destroy(struct fabric_endpoint *endpoint)
{
    if (endpoint->qp == NULL)
        return;
    if (endpoint->stock != NULL)
        verbs_stock_settle(endpoint);
    destroy_one(endpoint->verbs, endpoint->qp);
    endpoint->qp = NULL;
    if (endpoint->answers != NULL)
        destroy_one(endpoint->verbs, endpoint->answers);
    endpoint->answers = NULL;
    if (endpoint->stock != NULL)
        verbs_stock_forget(endpoint);
    endpoint->cq->returning += endpoint->cq_share;
    endpoint->cq = NULL;
}
