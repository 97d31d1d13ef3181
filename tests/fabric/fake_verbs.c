/* SPDX-License-Identifier: Apache-2.0 */
/* See fake_verbs.h: the device. Registrations, queues, and the engine that moves bytes. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "fabric/fake_internal.h"

#define MESSAGE_BYTES (UINT32_C(1) << 30)
#define CQ_ENTRIES    16384
#define QP_ENTRIES    8192
#define SLICES        16u
#define INLINE_BYTES  256u
#define READS         8u
#define CHUNK_BYTES   (UINT64_C(256) * 1024) /* of one queue pair in one step */
#define LATE_STEPS    12u
#define RETRY_STEPS   400u /* in vain, until a queue pair gives its peer up */
#define QUIET_STEPS   1000000u
#define FLUSH_A_STEP  8u
#define ASYNC_EVENTS  256u
#define SRQS          16 /* of one context */

#define IWARP_READ_SLICES 1

/* The devices; everything of them under one lock. */
struct fake fake = {.next_qp = 100, .next_key = 1, .next_port = 20000};

struct fake_context {
    struct ibv_context base;
    struct list_node node;
    struct ibv_async_event events[ASYNC_EVENTS];
    uint32_t count;
};

struct fake_mr {
    struct ibv_mr base;
    int access;
    struct list_node node;
};

struct fake_channel {
    struct ibv_comp_channel base;
    struct fake_cq *waiting[64];
    uint32_t count;
};

struct fake_wc {
    struct ibv_wc wc;
    uint32_t qp_number;
    uint32_t position; /* in the send queue */
    bool is_send;
};

struct fake_cq {
    struct ibv_cq base;
    struct list_node node;
    struct fake_wc *ring;
    uint32_t head, tail, taken_events, acknowledged;
    uint32_t vector;
    bool is_armed;
    bool has_overrun; /* nothing comes out of it any more */
};

struct fake_send {
    struct ibv_send_wr wr;
    struct ibv_sge slices[SLICES];
    uint8_t inline_bytes[INLINE_BYTES];
    uint64_t bytes, done;
    uint32_t late;
    bool has_ended;
    enum ibv_wc_status status;
};

struct fake_receive {
    uint64_t id;
    struct ibv_sge slice;
    bool has_slice;
};

struct fake_srq {
    struct ibv_srq base;
    struct list_node node;
    struct fake_receive *receives;
    uint32_t depth, head, tail, limit, users;
};

struct fake_qp {
    struct ibv_qp base;
    struct list_node node;
    struct fake_send *sends;
    struct fake_receive *receives;
    uint32_t send_depth, receive_depth, inline_bytes;
    uint32_t head, tail, reclaimed; /* of the send queue; the slots before `reclaimed` are free */
    uint32_t receive_head, receive_tail;
    uint32_t peer, vain;
    uint32_t reads_most;
    struct fake_srq *srq;      /* NULL: it has receives of its own */
    struct fake_receive taken; /* of the SRQ, for the message that comes */
    bool has_taken, has_said_last;
    bool is_stuck;           /* behind a post that failed, until that one's turn has come */
    uint32_t unacknowledged; /* events */
};

void fake_lock(void)
{
    (void)pthread_mutex_lock(&fake.mutex);
}

void fake_unlock(void)
{
    (void)pthread_mutex_unlock(&fake.mutex);
}

int fake_refusal(enum fake_verbs_call call)
{
    int error = 0;

    fake_lock();
    if (fake.faults.calls[call].error != 0 && fake.faults.calls[call].after-- == 0) {
        errno = error = fake.faults.calls[call].error;
        fake.faults.calls[call].error = 0;
    }
    fake_unlock();
    return error;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void set_up(void)
{
    pthread_mutexattr_t attr;

    (void)pthread_mutexattr_init(&attr);
    (void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&fake.mutex, &attr);
    list_init(&fake.contexts);
    list_init(&fake.memories);
    list_init(&fake.queues);
    list_init(&fake.completions);
    list_init(&fake.ids);
    list_init(&fake.srqs);
    for (uint32_t i = 0; i < FAKE_DEVICES; i++) {
        (void)snprintf(fake.devices[i].name, sizeof(fake.devices[i].name), "fake%u", i);
        fake.devices[i].transport_type = IBV_TRANSPORT_IB;
        fake.cm_contexts[i].device = &fake.devices[i];
        fake.cm_contexts[i].cmd_fd = fake.cm_contexts[i].async_fd = -1;
    }
    fake.faults.port = IBV_PORT_ACTIVE;
    fake.faults.mtu = IBV_MTU_4096;
}

/* ---- a descriptor that is readable while something is queued ---- */

static void fd_raise(int fd)
{
    (void)eventfd_write(fd, 1);
}

static void fd_lower(int fd)
{
    eventfd_t value;

    (void)eventfd_read(fd, &value);
}

/* ---- completions ---- */

static struct fake_qp *find_queue(uint32_t number)
{
    LIST_FOREACH(node, &fake.queues)
    {
        struct fake_qp *qp = container_of(node, struct fake_qp, node);

        if (qp->base.qp_num == number)
            return qp;
    }
    return NULL;
}

static void say_of(struct fake_context *context, const struct ibv_async_event *event)
{
    if (context->count < ASYNC_EVENTS)
        context->events[context->count++] = *event;
    fd_raise(context->base.async_fd);
}

static void say(struct fake_context *context, enum ibv_event_type type)
{
    say_of(context, &(struct ibv_async_event){.event_type = type});
}

/* What was said of something that is gone, and not heard. */
static void unsay(struct fake_context *context, const void *element)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < context->count; i++) {
        if (context->events[i].element.qp != element)
            context->events[kept++] = context->events[i];
    }
    context->count = kept;
}

static void cq_push(struct ibv_cq *base, const struct fake_wc *wc)
{
    struct fake_cq *cq = container_of(base, struct fake_cq, base);
    struct fake_channel *channel = container_of(base->channel, struct fake_channel, base);

    if (cq->has_overrun)
        return;
    if (cq->tail - cq->head == (uint32_t)base->cqe || fake.faults.overrun) {
        fake.counts.overruns += !fake.faults.overrun;
        fake.faults.overrun = false;
        cq->has_overrun = true;
        say(container_of(base->context, struct fake_context, base), IBV_EVENT_CQ_ERR);
        return;
    }
    cq->ring[cq->tail++ % (uint32_t)base->cqe] = *wc;
    if (!cq->is_armed || base->channel == NULL)
        return;
    cq->is_armed = false;
    NIGH_ASSERT(channel->count < 64);
    channel->waiting[channel->count++] = cq;
    fd_raise(channel->base.fd);
}

static void send_done(struct fake_qp *qp, uint32_t position, enum ibv_wc_status status)
{
    const struct fake_send *send = &qp->sends[position % qp->send_depth];
    struct fake_wc wc = {.wc = {.wr_id = send->wr.wr_id, .status = status},
                         .qp_number = qp->base.qp_num,
                         .position = position,
                         .is_send = true};

    cq_push(qp->base.send_cq, &wc);
}

/* The receive that the next message fills: of an SRQ it is taken now. NULL: there is none. */
static const struct fake_receive *receive_next(struct fake_qp *qp)
{
    struct fake_srq *srq = qp->srq;
    struct ibv_async_event event = {.event_type = IBV_EVENT_SRQ_LIMIT_REACHED};

    if (srq == NULL)
        return qp->receive_head != qp->receive_tail
                   ? &qp->receives[qp->receive_head % qp->receive_depth]
                   : NULL;
    if (!qp->has_taken && srq->head == srq->tail)
        return NULL;
    if (!qp->has_taken) {
        qp->taken = srq->receives[srq->head++ % srq->depth];
        qp->has_taken = true;
    }
    if (srq->limit > srq->tail - srq->head) {
        srq->limit = 0; /* said once */
        event.element.srq = &srq->base;
        say_of(container_of(srq->base.context, struct fake_context, base), &event);
    }
    return &qp->taken;
}

static void receive_done(struct fake_qp *qp, enum ibv_wc_status status, uint64_t bytes,
                         const struct ibv_send_wr *from)
{
    const struct fake_receive *receive = receive_next(qp);
    struct fake_wc wc = {.wc = {.wr_id = receive->id, .status = status, .qp_num = qp->base.qp_num}};

    if (qp->srq == NULL)
        qp->receive_head++;
    qp->has_taken = false;
    wc.wc.byte_len = (uint32_t)bytes;
    if (from != NULL && from->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
        wc.wc.wc_flags = IBV_WC_WITH_IMM;
        wc.wc.imm_data = from->imm_data;
    }
    if (status == IBV_WC_SUCCESS)
        fake_cm_heard(qp->base.qp_num);
    cq_push(qp->base.recv_cq, &wc);
}

/* What it took of an SRQ comes back; then it says that it takes no more. */
static bool flush_shared(struct fake_qp *qp)
{
    struct ibv_async_event event = {.event_type = IBV_EVENT_QP_LAST_WQE_REACHED,
                                    .element.qp = &qp->base};

    if (qp->has_taken) {
        receive_done(qp, IBV_WC_WR_FLUSH_ERR, 0, NULL);
        return true;
    }
    if (qp->has_said_last || fake.faults.no_last_word)
        return false;
    qp->has_said_last = true;
    say_of(container_of(qp->base.context, struct fake_context, base), &event);
    return true;
}

/* Some of what a queue pair in its error state has comes back. */
static bool flush(struct fake_qp *qp)
{
    uint32_t sends = min_u32(qp->tail - qp->head, FLUSH_A_STEP);
    bool any = false;

    if (fake.faults.lose_flush)
        return false;
    if (fake.faults.odd_flush)
        sends = qp->tail - qp->head; /* all at once, the last first */
    for (uint32_t i = 0; i < sends; i++) {
        uint32_t position = fake.faults.odd_flush ? qp->tail - 1 - i : qp->head + i;

        send_done(qp, position, IBV_WC_WR_FLUSH_ERR);
        any = true;
    }
    qp->head += sends;
    if (qp->srq != NULL)
        return flush_shared(qp) || any;
    for (uint32_t i = 0; i < FLUSH_A_STEP && qp->receive_head != qp->receive_tail; i++) {
        receive_done(qp, IBV_WC_WR_FLUSH_ERR, 0, NULL);
        any = true;
    }
    return any;
}

/* ---- memory ---- */

/* Whether the bytes lie in a registration of that key and protection domain, with that right. */
static bool reaches(const struct ibv_pd *pd, uint32_t key, uint64_t address, uint64_t bytes,
                    int access)
{
    if (bytes == 0)
        return true; /* InfiniBand's rule: nothing is looked up for what touches nothing */
    LIST_FOREACH(node, &fake.memories)
    {
        const struct fake_mr *mr = container_of(node, struct fake_mr, node);
        uint64_t offset = address - (uintptr_t)mr->base.addr;

        if (mr->base.rkey == key)
            return mr->base.pd == pd && (mr->access & access) == access &&
                   offset <= mr->base.length && bytes <= mr->base.length - offset;
    }
    return false;
}

static bool is_read(const struct fake_send *send)
{
    return send->wr.opcode == IBV_WR_RDMA_READ || send->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
           send->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

/* Where the bytes from `done` on lie here, at most `*bytes`; NULL: nowhere that is allowed. */
static uint8_t *local_place(const struct fake_qp *qp, struct fake_send *send, uint64_t done,
                            uint64_t *bytes)
{
    int access = is_read(send) ? IBV_ACCESS_LOCAL_WRITE : 0;

    if (is_read(send) && fake_is_iwarp(qp->base.context))
        access |= IBV_ACCESS_REMOTE_WRITE; /* it lands as the peer's write */
    if ((send->wr.send_flags & IBV_SEND_INLINE) != 0) {
        *bytes = min_u64(*bytes, send->bytes - done);
        return send->inline_bytes + done;
    }
    for (int i = 0; i < send->wr.num_sge; i++) {
        const struct ibv_sge *slice = &send->slices[i];

        if (done >= slice->length) {
            done -= slice->length;
            continue;
        }
        *bytes = min_u64(*bytes, slice->length - done);
        if (!reaches(qp->base.pd, slice->lkey, slice->addr + done, *bytes, access))
            return NULL;
        return (uint8_t *)(uintptr_t)(slice->addr + done);
    }
    return NULL;
}

/* ---- the engine: one work request ---- */

enum outcome {
    GOES_ON, /* in another step */
    ENDED,
    REFUSED, /* send->status says why */
};

static enum outcome refuse(struct fake_qp *target, struct fake_send *send,
                           enum ibv_wc_status status)
{
    send->status = status;
    if (target != NULL)
        target->base.state = IBV_QPS_ERR;
    return REFUSED;
}

/* Up to a chunk of bytes between the slices and an address of the target. */
static enum outcome move(struct fake_qp *qp, struct fake_qp *target, struct fake_send *send,
                         uint64_t address, bool inwards)
{
    uint64_t budget = CHUNK_BYTES;

    while (send->done < send->bytes && budget > 0) {
        uint64_t part = budget;
        uint8_t *here = local_place(qp, send, send->done, &part);

        if (here == NULL)
            return refuse(NULL, send, IBV_WC_LOC_PROT_ERR);
        if (inwards)
            memmove(here, (const void *)(uintptr_t)(address + send->done), part);
        else
            memmove((void *)(uintptr_t)(address + send->done), here, part);
        send->done += part;
        budget -= part;
    }
    (void)target;
    return send->done == send->bytes ? ENDED : GOES_ON;
}

static enum outcome do_send(struct fake_qp *qp, struct fake_qp *target, struct fake_send *send)
{
    const struct fake_receive *receive = receive_next(target);
    enum outcome outcome;

    if (receive == NULL)
        return refuse(NULL, send, IBV_WC_RNR_RETRY_EXC_ERR);
    if (send->bytes > (receive->has_slice ? receive->slice.length : 0)) {
        receive_done(target, IBV_WC_LOC_LEN_ERR, 0, NULL);
        return refuse(target, send, IBV_WC_REM_INV_REQ_ERR);
    }
    if (receive->has_slice && !reaches(target->base.pd, receive->slice.lkey, receive->slice.addr,
                                       receive->slice.length, IBV_ACCESS_LOCAL_WRITE)) {
        receive_done(target, IBV_WC_LOC_PROT_ERR, 0, NULL);
        return refuse(target, send, IBV_WC_REM_OP_ERR);
    }
    outcome = move(qp, target, send, receive->slice.addr, false);
    if (outcome == ENDED)
        receive_done(target, IBV_WC_SUCCESS, send->bytes, &send->wr);
    return outcome;
}

static enum outcome do_write(struct fake_qp *qp, struct fake_qp *target, struct fake_send *send)
{
    bool has_imm = send->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    enum outcome outcome;

    if (has_imm && receive_next(target) == NULL)
        return refuse(NULL, send, IBV_WC_RNR_RETRY_EXC_ERR);
    if (send->bytes > 0 &&
        !reaches(target->base.pd, send->wr.wr.rdma.rkey, send->wr.wr.rdma.remote_addr, send->bytes,
                 IBV_ACCESS_REMOTE_WRITE))
        return refuse(target, send, IBV_WC_REM_ACCESS_ERR);
    outcome = move(qp, target, send, send->wr.wr.rdma.remote_addr, false);
    if (outcome == ENDED && has_imm)
        receive_done(target, IBV_WC_SUCCESS, send->bytes, &send->wr);
    return outcome;
}

static enum outcome do_read(struct fake_qp *qp, struct fake_qp *target, struct fake_send *send)
{
    if (send->bytes > 0 &&
        !reaches(target->base.pd, send->wr.wr.rdma.rkey, send->wr.wr.rdma.remote_addr, send->bytes,
                 IBV_ACCESS_REMOTE_READ))
        return refuse(target, send, IBV_WC_REM_ACCESS_ERR);
    return move(qp, target, send, send->wr.wr.rdma.remote_addr, true);
}

static enum outcome do_atomic(struct fake_qp *qp, struct fake_qp *target, struct fake_send *send)
{
    uint64_t address = send->wr.wr.atomic.remote_addr, bytes = sizeof(uint64_t), old, value;
    uint8_t *here = local_place(qp, send, 0, &bytes);

    if (address % sizeof(uint64_t) != 0)
        return refuse(target, send, IBV_WC_REM_INV_REQ_ERR);
    if (!reaches(target->base.pd, send->wr.wr.atomic.rkey, address, sizeof(uint64_t),
                 IBV_ACCESS_REMOTE_ATOMIC))
        return refuse(target, send, IBV_WC_REM_ACCESS_ERR);
    if (here == NULL || bytes != sizeof(uint64_t))
        return refuse(NULL, send, IBV_WC_LOC_PROT_ERR);
    memcpy(&old, (const void *)(uintptr_t)address, sizeof(old));
    value = old;
    if (send->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        value = old + send->wr.wr.atomic.compare_add;
    else if (old == send->wr.wr.atomic.compare_add)
        value = send->wr.wr.atomic.swap;
    memcpy((void *)(uintptr_t)address, &value, sizeof(value));
    memcpy(here, &old, sizeof(old));
    return ENDED;
}

static enum outcome act(struct fake_qp *qp, struct fake_send *send)
{
    struct fake_qp *target = find_queue(qp->peer);

    if (fake.faults.is_cut || target == NULL || target->base.state < IBV_QPS_RTR ||
        target->base.state == IBV_QPS_ERR) {
        if (++qp->vain > RETRY_STEPS)
            return refuse(NULL, send, IBV_WC_RETRY_EXC_ERR);
        return GOES_ON;
    }
    qp->vain = 0;
    if (fake.faults.end_status != IBV_WC_SUCCESS) {
        enum ibv_wc_status status = fake.faults.end_status;

        fake.faults.end_status = IBV_WC_SUCCESS;
        return refuse(NULL, send, status);
    }
    switch (send->wr.opcode) {
    case IBV_WR_SEND: return do_send(qp, target, send);
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM: return do_write(qp, target, send);
    case IBV_WR_RDMA_READ: return do_read(qp, target, send);
    default: return do_atomic(qp, target, send);
    }
}

/* ---- the engine: a queue pair ---- */

/* Those that ended, in their order. */
static bool complete(struct fake_qp *qp)
{
    bool any = false;

    while (qp->head != qp->tail && qp->base.state == IBV_QPS_RTS) {
        const struct fake_send *send = &qp->sends[qp->head % qp->send_depth];

        if (!send->has_ended)
            break;
        if (send->status != IBV_WC_SUCCESS || (send->wr.send_flags & IBV_SEND_SIGNALED) != 0)
            send_done(qp, qp->head, send->status);
        if (send->status != IBV_WC_SUCCESS)
            qp->base.state = IBV_QPS_ERR;
        qp->head++;
        any = true;
    }
    return any;
}

/* What may act acts, in order; READs that are late are overtaken by what is not fenced. */
static bool run(struct fake_qp *qp)
{
    uint64_t reads = 0;
    bool any = false;

    for (uint32_t i = qp->head; i != qp->tail && !qp->is_stuck; i++) {
        struct fake_send *send = &qp->sends[i % qp->send_depth];
        enum outcome outcome;

        if (send->has_ended)
            continue;
        if ((send->wr.send_flags & IBV_SEND_FENCE) != 0 && reads > 0)
            break;
        reads += is_read(send);
        fake.counts.most_reads = max_u64(fake.counts.most_reads, reads);
        if (is_read(send) && (send->late > 0 || reads > 1)) {
            send->late -= send->late > 0;
            any = true;
            continue;
        }
        outcome = act(qp, send);
        any = any || outcome != GOES_ON || qp->vain < RETRY_STEPS;
        if (outcome == GOES_ON)
            break;
        send->has_ended = true;
        reads -= is_read(send);
        qp->is_stuck = outcome == REFUSED;
    }
    return complete(qp) || any;
}

/* Whether anything is going on. */
static bool step(void)
{
    bool any = false;

    LIST_FOREACH(node, &fake.queues)
    {
        struct fake_qp *qp = container_of(node, struct fake_qp, node);

        if (qp->base.state == IBV_QPS_RTS)
            any = run(qp) || any;
        else if (qp->base.state == IBV_QPS_ERR)
            any = flush(qp) || any;
    }
    return any;
}

/* ---- the data path ---- */

static int fake_poll_cq(struct ibv_cq *base, int most, struct ibv_wc *wcs)
{
    struct fake_cq *cq = container_of(base, struct fake_cq, base);
    int count = 0;

    fake_lock();
    (void)step();
    for (; count < most && cq->head != cq->tail; count++) {
        const struct fake_wc *wc = &cq->ring[cq->head++ % (uint32_t)base->cqe];
        struct fake_qp *qp = wc->is_send ? find_queue(wc->qp_number) : NULL;

        wcs[count] = wc->wc;
        if (qp != NULL && (int32_t)(wc->position + 1 - qp->reclaimed) > 0)
            qp->reclaimed = wc->position + 1;
    }
    fake_unlock();
    return count;
}

static int fake_req_notify_cq(struct ibv_cq *base, int solicited_only)
{
    struct fake_cq *cq = container_of(base, struct fake_cq, base);

    (void)solicited_only;
    fake_lock();
    for (uint32_t i = 0; i < QUIET_STEPS && step(); i++)
        ;
    cq->is_armed = true;
    fake.counts.notifications++;
    fake_unlock();
    return 0;
}

/* iWARP has no immediate data and no atomics, and this device one slice for a READ. */
static bool is_beyond_iwarp(const struct ibv_send_wr *wr)
{
    switch (wr->opcode) {
    case IBV_WR_SEND:
    case IBV_WR_RDMA_WRITE: return false;
    case IBV_WR_RDMA_READ: return wr->num_sge > IWARP_READ_SLICES;
    default: return true;
    }
}

static int take_send(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
    struct fake_send *send = &qp->sends[qp->tail % qp->send_depth];
    uint64_t bytes = 0;

    if (fake.faults.refuse_error != 0 && fake.faults.refuse_after-- == 0) {
        int error = fake.faults.refuse_error;

        fake.faults.refuse_error = 0;
        return error;
    }
    if ((qp->base.state != IBV_QPS_RTS && qp->base.state != IBV_QPS_ERR) ||
        (fake_is_iwarp(qp->base.context) && is_beyond_iwarp(wr)))
        return EINVAL;
    if (qp->tail - qp->reclaimed >= qp->send_depth || wr->num_sge > (int)SLICES)
        return ENOMEM;
    *send = (struct fake_send){.wr = *wr, .late = fake.faults.late_reads ? LATE_STEPS : 0};
    for (int i = 0; i < wr->num_sge; i++) {
        NIGH_ASSERT(wr->sg_list[i].length > 0);
        send->slices[i] = wr->sg_list[i];
        if ((wr->send_flags & IBV_SEND_INLINE) != 0) {
            if (bytes + wr->sg_list[i].length > qp->inline_bytes)
                return EINVAL;
            memcpy(send->inline_bytes + bytes, (const void *)(uintptr_t)wr->sg_list[i].addr,
                   wr->sg_list[i].length);
        }
        bytes += wr->sg_list[i].length;
    }
    send->bytes = bytes;
    fake.counts.requests++;
    fake.counts.signalled += (wr->send_flags & IBV_SEND_SIGNALED) != 0;
    fake.counts.solicited += (wr->send_flags & IBV_SEND_SOLICITED) != 0;
    fake.counts.fenced += (wr->send_flags & IBV_SEND_FENCE) != 0;
    fake.counts.inlined += (wr->send_flags & IBV_SEND_INLINE) != 0;
    fake.counts.longest = max_u64(fake.counts.longest, bytes);
    qp->tail++;
    return bytes > MESSAGE_BYTES ? EINVAL : 0;
}

static int fake_post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct fake_qp *qp = container_of(base, struct fake_qp, base);
    int error = 0;

    fake_lock();
    fake.counts.doorbells++;
    for (; wr != NULL && error == 0; wr = error == 0 ? wr->next : wr)
        error = take_send(qp, wr);
    if (error != 0)
        *bad = wr;
    fake_unlock();
    return error;
}

static int fake_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fake_qp *qp = container_of(base, struct fake_qp, base);
    int error = 0;

    fake_lock();
    for (; wr != NULL; wr = wr->next) {
        struct fake_receive *receive = &qp->receives[qp->receive_tail % qp->receive_depth];

        error = fake_refusal(FAKE_VERBS_POST_RECV);
        if (base->state < IBV_QPS_INIT || qp->srq != NULL)
            error = EINVAL;
        else if (qp->receive_tail - qp->receive_head >= qp->receive_depth)
            error = ENOMEM;
        if (error != 0) {
            *bad = wr;
            break;
        }
        *receive = (struct fake_receive){.id = wr->wr_id, .has_slice = wr->num_sge > 0};
        if (wr->num_sge > 0)
            receive->slice = wr->sg_list[0];
        qp->receive_tail++;
    }
    fake_unlock();
    return error;
}

static int fake_post_srq_recv(struct ibv_srq *base, struct ibv_recv_wr *wr,
                              struct ibv_recv_wr **bad)
{
    struct fake_srq *srq = container_of(base, struct fake_srq, base);
    int error = 0;

    fake_lock();
    for (; wr != NULL; wr = wr->next) {
        if (srq->tail - srq->head >= srq->depth) {
            error = ENOMEM;
            *bad = wr;
            break;
        }
        srq->receives[srq->tail++ % srq->depth] = (struct fake_receive){
            .id = wr->wr_id,
            .slice = wr->num_sge > 0 ? wr->sg_list[0] : (struct ibv_sge){.length = 0},
            .has_slice = wr->num_sge > 0};
    }
    fake_unlock();
    return error;
}

/* ---- devices ---- */

static struct ibv_device **get_device_list(int *count)
{
    struct ibv_device **list = calloc(FAKE_DEVICES + 1, sizeof(*list));

    *count = 0;
    for (uint32_t i = 0; i < FAKE_DEVICES; i++) {
        if (!fake.is_absent[i])
            list[(*count)++] = &fake.devices[i];
    }
    return list;
}

uint32_t fake_device_of(const struct sockaddr *address)
{
    static const char *const addresses[FAKE_DEVICES] = {FAKE_VERBS_ADDRESS,
                                                        FAKE_VERBS_OTHER_ADDRESS};
    uint32_t device = 0;
    struct in_addr ours;

    for (; device < FAKE_DEVICES; device++) {
        (void)inet_pton(AF_INET, addresses[device], &ours);
        if (address->sa_family == AF_INET &&
            ((const struct sockaddr_in *)address)->sin_addr.s_addr == ours.s_addr)
            break;
    }
    return device < FAKE_DEVICES && fake.is_absent[device] ? FAKE_DEVICES : device;
}

static void free_device_list(struct ibv_device **list)
{
    free(list);
}

static const char *get_device_name(struct ibv_device *device)
{
    return device->name;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
    struct fake_context *context = calloc(1, sizeof(*context));

    context->base.device = device;
    context->base.num_comp_vectors = FAKE_VERBS_VECTORS;
    context->base.async_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    context->base.ops.poll_cq = fake_poll_cq;
    context->base.ops.req_notify_cq = fake_req_notify_cq;
    context->base.ops.post_send = fake_post_send;
    context->base.ops.post_recv = fake_post_recv;
    context->base.ops.post_srq_recv = fake_post_srq_recv;
    fake_lock();
    list_push_back(&fake.contexts, &context->node);
    fake_unlock();
    return &context->base;
}

static int close_device(struct ibv_context *base)
{
    struct fake_context *context = container_of(base, struct fake_context, base);

    fake_lock();
    list_remove(&context->node);
    fake_unlock();
    (void)close(base->async_fd);
    free(context);
    return 0;
}

static uint32_t reads_of(const struct ibv_context *context)
{
    uint32_t reads = fake.faults.reads[context->device - fake.devices];

    return reads != 0 ? reads : READS;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    bool is_iwarp = fake_is_iwarp(context);

    memset(attr, 0, sizeof(*attr));
    attr->max_qp_wr = QP_ENTRIES;
    attr->max_cqe = CQ_ENTRIES;
    attr->max_sge = (int)SLICES;
    attr->max_sge_rd = is_iwarp ? IWARP_READ_SLICES : (int)SLICES;
    attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = (int)reads_of(context);
    attr->atomic_cap = is_iwarp           ? IBV_ATOMIC_NONE
                       : fake.faults.glob ? IBV_ATOMIC_GLOB
                                          : IBV_ATOMIC_HCA;
    attr->phys_port_cnt = 1;
    attr->max_srq = fake.faults.no_srq ? 0 : SRQS;
    attr->max_srq_wr = QP_ENTRIES;
    attr->max_srq_sge = 1;
    return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    (void)context;
    if (fake.faults.is_taken)
        return EIO;
    memset(attr, 0, sizeof(*attr));
    attr->state = fake.faults.port;
    attr->max_msg_sz = MESSAGE_BYTES;
    attr->max_mtu = IBV_MTU_4096;
    attr->active_mtu = fake.faults.mtu;
    attr->gid_tbl_len = 2;
    attr->link_layer = IBV_LINK_LAYER_ETHERNET;
    return port == 1 ? 0 : EINVAL;
}

static int query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    (void)context;
    (void)port;
    memset(gid, 0, sizeof(*gid));
    gid->raw[15] = index == 1 && !fake.faults.no_gid;
    if (gid->raw[15] != 0 && fake.faults.link_local) {
        gid->raw[0] = 0xfe;
        gid->raw[1] = 0x80;
    }
    return 0;
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = calloc(1, sizeof(*pd));

    pd->context = context;
    fake_lock();
    fake.pds++;
    fake_unlock();
    return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
    fake_lock();
    fake.pds--;
    fake_unlock();
    free(pd);
    return 0;
}

/* ---- registrations ---- */

/* What an iWARP device does not know. */
static bool has_foreign_access(const struct ibv_context *context, int access)
{
    return fake_is_iwarp(context) && (access & IBV_ACCESS_REMOTE_ATOMIC) != 0;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *address, size_t bytes, int access)
{
    struct fake_mr *mr;

    if (fake.faults.refuse_memory || has_foreign_access(pd->context, access) ||
        ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0 &&
         (access & IBV_ACCESS_LOCAL_WRITE) == 0)) {
        errno = fake.faults.refuse_memory ? ENOMEM : EINVAL;
        return NULL;
    }
    mr = calloc(1, sizeof(*mr));
    mr->base = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = address, .length = bytes};
    mr->access = access;
    fake_lock();
    mr->base.lkey = mr->base.rkey = fake.next_key++ << 8 | 0x77;
    list_push_front(&fake.memories, &mr->node); /* what is used soon is found soon */
    fake.counts.registrations++;
    fake_unlock();
    return &mr->base;
}

static int dereg_mr(struct ibv_mr *base)
{
    struct fake_mr *mr = container_of(base, struct fake_mr, base);
    bool is_kept;

    fake_lock();
    is_kept = fake.faults.keep_memory && !list_empty(&fake.queues);
    if (!is_kept)
        list_remove(&mr->node);
    fake_unlock();
    if (is_kept)
        return errno = EBUSY;
    free(mr);
    return fake.faults.is_taken ? EIO : 0;
}

/* ---- completion queues ---- */

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
    struct fake_channel *channel = calloc(1, sizeof(*channel));

    channel->base.context = context;
    channel->base.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    fake_lock();
    fake.channels++;
    fake_unlock();
    return &channel->base;
}

static int destroy_comp_channel(struct ibv_comp_channel *base)
{
    (void)close(base->fd);
    fake_lock();
    fake.channels--;
    fake_unlock();
    free(container_of(base, struct fake_channel, base));
    return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int entries, void *cq_context,
                                struct ibv_comp_channel *channel, int vector)
{
    struct fake_cq *cq;

    if (fake_refusal(FAKE_VERBS_CREATE_CQ) != 0)
        return NULL;
    if (entries > CQ_ENTRIES || vector < 0 || vector >= context->num_comp_vectors) {
        errno = EINVAL;
        return NULL;
    }
    cq = calloc(1, sizeof(*cq));
    cq->vector = (uint32_t)vector;
    cq->base.context = context;
    cq->base.cq_context = cq_context;
    cq->base.channel = channel;
    cq->base.cqe = entries;
    cq->ring = calloc((size_t)entries, sizeof(*cq->ring));
    fake_lock();
    list_push_back(&fake.completions, &cq->node);
    fake.cqs++;
    fake_unlock();
    return &cq->base;
}

static int destroy_cq(struct ibv_cq *base)
{
    struct fake_cq *cq = container_of(base, struct fake_cq, base);

    fake_lock();
    NIGH_ASSERT(cq->taken_events == cq->acknowledged); /* the real one would wait for ever */
    if (base->channel != NULL) {
        struct fake_channel *channel = container_of(base->channel, struct fake_channel, base);
        uint32_t kept = 0;

        for (uint32_t i = 0; i < channel->count; i++) {
            if (channel->waiting[i] != cq)
                channel->waiting[kept++] = channel->waiting[i];
        }
        channel->count = kept;
    }
    list_remove(&cq->node);
    fake.cqs--;
    fake_unlock();
    free(cq->ring);
    free(cq);
    return 0;
}

static int get_cq_event(struct ibv_comp_channel *base, struct ibv_cq **out, void **cq_context)
{
    struct fake_channel *channel = container_of(base, struct fake_channel, base);
    struct fake_cq *cq = NULL;

    fake_lock();
    if (channel->count > 0) {
        cq = channel->waiting[0];
        memmove(channel->waiting, channel->waiting + 1,
                --channel->count * sizeof(channel->waiting[0]));
        cq->taken_events++;
        *out = &cq->base;
        *cq_context = cq->base.cq_context;
    }
    if (channel->count == 0)
        fd_lower(base->fd);
    fake_unlock();
    errno = EAGAIN;
    return cq != NULL ? 0 : -1;
}

static void ack_cq_events(struct ibv_cq *base, unsigned count)
{
    fake_lock();
    container_of(base, struct fake_cq, base)->acknowledged += count;
    fake_unlock();
}

/* ---- shared receive queues ---- */

static struct ibv_srq *create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
    struct fake_srq *srq;

    if (fake.faults.no_srq || init->attr.max_wr > QP_ENTRIES || init->attr.max_sge > 1) {
        errno = EINVAL;
        return NULL;
    }
    srq = calloc(1, sizeof(*srq));
    srq->base.context = pd->context;
    srq->base.pd = pd;
    srq->depth = init->attr.max_wr;
    srq->receives = calloc(srq->depth, sizeof(*srq->receives));
    fake_lock();
    list_push_back(&fake.srqs, &srq->node);
    fake_unlock();
    return &srq->base;
}

static int modify_srq(struct ibv_srq *base, struct ibv_srq_attr *attr, int mask)
{
    struct fake_srq *srq = container_of(base, struct fake_srq, base);

    if (mask != IBV_SRQ_LIMIT || attr->srq_limit > srq->depth)
        return EINVAL;
    fake_lock();
    srq->limit = attr->srq_limit;
    fake.counts.limits++;
    fake_unlock();
    return 0;
}

static int destroy_srq(struct ibv_srq *base)
{
    struct fake_srq *srq = container_of(base, struct fake_srq, base);

    fake_lock();
    NIGH_ASSERT(srq->users == 0); /* the real one would not go */
    unsay(container_of(base->context, struct fake_context, base), srq);
    list_remove(&srq->node);
    fake_unlock();
    free(srq->receives);
    free(srq);
    return fake.faults.is_taken ? EIO : 0;
}

/* ---- queue pairs ---- */

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    struct fake_qp *qp;

    if (fake_refusal(FAKE_VERBS_CREATE_QP) != 0)
        return NULL;
    if (fake.faults.refuse_queues || init->cap.max_inline_data > INLINE_BYTES ||
        init->cap.max_send_wr > QP_ENTRIES || init->cap.max_recv_wr > QP_ENTRIES) {
        errno = fake.faults.refuse_queues ? ENOMEM : EINVAL;
        return NULL;
    }
    qp = calloc(1, sizeof(*qp));
    qp->base.context = pd->context;
    qp->base.qp_context = init->qp_context;
    qp->base.pd = pd;
    qp->base.send_cq = init->send_cq;
    qp->base.recv_cq = init->recv_cq;
    qp->base.state = IBV_QPS_RESET;
    qp->send_depth = init->cap.max_send_wr;
    qp->receive_depth = init->cap.max_recv_wr;
    qp->inline_bytes = init->cap.max_inline_data;
    qp->sends = calloc(qp->send_depth, sizeof(*qp->sends));
    qp->receives = calloc(qp->receive_depth, sizeof(*qp->receives));
    qp->srq = init->srq != NULL ? container_of(init->srq, struct fake_srq, base) : NULL;
    fake_lock();
    if (qp->srq != NULL)
        qp->srq->users++;
    qp->base.qp_num = fake.next_qp++;
    list_push_back(&fake.queues, &qp->node);
    fake_unlock();
    return &qp->base;
}

static void note_patience(const struct fake_qp *qp, const struct ibv_qp_attr *attr)
{
    if (fake_cm_dialled(qp->base.qp_num)) {
        fake.given.dialler_timeout = attr->timeout;
        fake.given.dialler_retries = attr->retry_cnt;
    } else {
        fake.given.acceptor_timeout = attr->timeout;
        fake.given.acceptor_retries = attr->retry_cnt;
    }
}

/* One step at a time; an iWARP queue pair that its kernel has brought up goes no step back. */
static bool may_enter(const struct fake_qp *qp, enum ibv_qp_state state)
{
    return state == IBV_QPS_ERR || (int)state == (int)qp->base.state + 1;
}

/* What is beyond the device is not cut down to it, but refused. */
static bool is_beyond(const struct fake_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    uint32_t reads = reads_of(qp->base.context);

    return ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 && attr->max_rd_atomic > reads) ||
           ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 && attr->max_dest_rd_atomic > reads) ||
           ((mask & IBV_QP_ACCESS_FLAGS) != 0 &&
            has_foreign_access(qp->base.context, (int)attr->qp_access_flags));
}

static int modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
    struct fake_qp *qp = container_of(base, struct fake_qp, base);
    int error = fake_refusal(FAKE_VERBS_MODIFY_QP);

    if (error != 0)
        return error;
    fake_lock();
    if ((mask & IBV_QP_STATE) == 0 || !may_enter(qp, attr->qp_state) || is_beyond(qp, attr, mask))
        error = EINVAL;
    else if (attr->qp_state == IBV_QPS_RTS && attr->rnr_retry != 0)
        error = EINVAL; /* it would wait for receives: the credits of the caller are wrong */
    else
        base->state = attr->qp_state;
    if (error == 0 && (mask & IBV_QP_DEST_QPN) != 0)
        qp->peer = attr->dest_qp_num;
    if (error == 0 && (mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0)
        qp->reads_most = attr->max_rd_atomic;
    if (error == 0 && attr->qp_state == IBV_QPS_RTS)
        note_patience(qp, attr);
    fake_unlock();
    return error;
}

void fake_queue_join(uint32_t qp_number, uint32_t peer_qp)
{
    struct fake_qp *qp = find_queue(qp_number);

    if (qp == NULL || qp->base.state == IBV_QPS_ERR)
        return;
    qp->base.state = IBV_QPS_RTS;
    qp->peer = peer_qp;
}

static int destroy_qp(struct ibv_qp *base)
{
    struct fake_qp *qp = container_of(base, struct fake_qp, base);

    fake_lock();
    NIGH_ASSERT(qp->unacknowledged == 0); /* the real one would wait for ever */
    if (qp->srq != NULL) {
        qp->srq->users--; /* what it has taken and not completed nobody hears of any more */
        fake.counts.lost_receives += qp->has_taken;
    }
    unsay(container_of(base->context, struct fake_context, base), base);
    list_remove(&qp->node);
    fake_unlock();
    free(qp->sends);
    free(qp->receives);
    free(qp);
    return fake.faults.is_taken ? EIO : 0;
}

/* ---- events of the device ---- */

/* Of whose queue pair it is; NULL: of none. */
static struct fake_qp *queue_of(const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return event->element.qp != NULL ? container_of(event->element.qp, struct fake_qp, base)
                                         : NULL;
    default: return NULL;
    }
}

static int get_async_event(struct ibv_context *base, struct ibv_async_event *event)
{
    struct fake_context *context = container_of(base, struct fake_context, base);
    int result = -1;

    fake_lock();
    if (context->count > 0) {
        *event = context->events[0];
        memmove(context->events, context->events + 1,
                --context->count * sizeof(context->events[0]));
        if (queue_of(event) != NULL)
            queue_of(event)->unacknowledged++;
        result = 0;
    }
    if (context->count == 0)
        fd_lower(base->async_fd);
    fake_unlock();
    errno = EAGAIN;
    return result;
}

static void ack_async_event(struct ibv_async_event *event)
{
    fake_lock();
    if (queue_of(event) != NULL)
        queue_of(event)->unacknowledged--;
    fake_unlock();
}

void fake_verbs_plug(uint32_t device)
{
    fake_lock();
    fake.is_absent[device] = false;
    fake_unlock();
}

uint32_t fake_verbs_held(uint32_t device)
{
    uint32_t count;

    fake_lock();
    count = fake_cm_held(device);
    LIST_FOREACH(node, &fake.contexts)
    {
        count +=
            container_of(node, struct fake_context, node)->base.device == &fake.devices[device];
    }
    fake_unlock();
    return count;
}

void fake_verbs_async(enum ibv_event_type type)
{
    fake_lock();
    LIST_FOREACH(node, &fake.contexts)
    {
        say(container_of(node, struct fake_context, node), type);
    }
    fake_unlock();
}

void fake_verbs_fail_queues(enum fake_verbs_side side, enum ibv_event_type type)
{
    fake_lock();
    LIST_FOREACH(node, &fake.queues)
    {
        struct fake_qp *qp = container_of(node, struct fake_qp, node);
        struct ibv_async_event event = {.event_type = type, .element.qp = &qp->base};

        if (fake_cm_dialled(qp->base.qp_num) != (side == FAKE_VERBS_DIALLER))
            continue;
        qp->base.state = IBV_QPS_ERR;
        say_of(container_of(qp->base.context, struct fake_context, base), &event);
    }
    fake_unlock();
}

/* ---- what tests ask for ---- */

#define FAULT(function, field)  \
    void function(bool on)      \
    {                           \
        fake_lock();            \
        fake.faults.field = on; \
        fake_unlock();          \
    }

FAULT(fake_verbs_late_reads, late_reads)
FAULT(fake_verbs_cut, is_cut)
FAULT(fake_verbs_odd_flush, odd_flush)
FAULT(fake_verbs_lose_flush, lose_flush)
FAULT(fake_verbs_refuse_memory, refuse_memory)
FAULT(fake_verbs_refuse_queues, refuse_queues)
FAULT(fake_verbs_keep_memory, keep_memory)
FAULT(fake_verbs_no_gid, no_gid)
FAULT(fake_verbs_link_local, link_local)
FAULT(fake_verbs_take, is_taken)
FAULT(fake_verbs_late_established, late_established)
FAULT(fake_verbs_no_options, no_options)
FAULT(fake_verbs_no_srq, no_srq)
FAULT(fake_verbs_no_last_word, no_last_word)
FAULT(fake_verbs_glob, glob)
FAULT(fake_verbs_overrun, overrun)

void fake_verbs_refuse_post(uint32_t after, int error)
{
    fake_lock();
    fake.faults.refuse_after = after;
    fake.faults.refuse_error = error;
    fake_unlock();
}

void fake_verbs_refuse_call(enum fake_verbs_call call, uint32_t after, int error)
{
    fake_lock();
    fake.faults.calls[call].after = after;
    fake.faults.calls[call].error = error;
    fake_unlock();
}

bool fake_verbs_has_refused(enum fake_verbs_call call)
{
    bool has;

    fake_lock();
    has = fake.faults.calls[call].error == 0;
    fake_unlock();
    return has;
}

void fake_verbs_end_post(enum ibv_wc_status status)
{
    fake_lock();
    fake.faults.end_status = status;
    fake_unlock();
}

void fake_verbs_lose_event(enum rdma_cm_event_type type, bool on)
{
    fake_lock();
    fake.faults.lost[type] = on;
    fake_unlock();
}

void fake_verbs_port(enum ibv_port_state state)
{
    fake_lock();
    fake.faults.port = state;
    fake_unlock();
}

void fake_verbs_reads(uint32_t device, uint32_t count)
{
    fake_lock();
    fake.faults.reads[device] = count;
    fake_unlock();
}

void fake_verbs_lead(uint32_t device)
{
    fake_lock();
    fake.faults.lead = device + 1;
    fake_unlock();
}

void fake_verbs_mtu(enum ibv_mtu mtu)
{
    fake_lock();
    fake.faults.mtu = mtu;
    fake_unlock();
}

struct fake_verbs_given fake_verbs_given(void)
{
    struct fake_verbs_given given;

    fake_lock();
    given = fake.given;
    fake_unlock();
    return given;
}

struct fake_verbs_counts fake_verbs_counts(void)
{
    struct fake_verbs_counts counts;

    fake_lock();
    counts = fake.counts;
    fake_unlock();
    return counts;
}

static uint32_t length(const struct list *list)
{
    uint32_t count = 0;

    LIST_FOREACH(node, list)
    {
        (void)node;
        count++;
    }
    return count;
}

const char *fake_verbs_left(void)
{
    static char left[200];

    (void)pthread_once(&once, set_up);
    left[0] = '\0';
    if (!list_empty(&fake.contexts) || !list_empty(&fake.memories) || !list_empty(&fake.queues) ||
        !list_empty(&fake.ids) || !list_empty(&fake.srqs) ||
        fake.pds + fake.cqs + fake.channels + fake.cm_channels + fake.cm_events > 0)
        (void)snprintf(
            left, sizeof(left),
            "contexts %u memories %u queue pairs %u identifiers %u domains %u completion "
            "queues %u channels %u and %u events %u shared receive queues %u",
            length(&fake.contexts), length(&fake.memories), length(&fake.queues), length(&fake.ids),
            fake.pds, fake.cqs, fake.channels, fake.cm_channels, fake.cm_events,
            length(&fake.srqs));
    return left;
}

static const struct ibv_context *nth_context(uint32_t number)
{
    LIST_FOREACH(node, &fake.contexts)
    {
        if (number-- == 0)
            return &container_of(node, struct fake_context, node)->base;
    }
    return NULL;
}

static void sum_up(struct fake_verbs_sum *sum, const struct ibv_context *context)
{
    LIST_FOREACH(node, &fake.queues)
    {
        const struct fake_qp *qp = container_of(node, struct fake_qp, node);
        bool is_ours = qp->base.context == context;

        sum->queue_pairs += is_ours;
        sum->sends += is_ours ? qp->send_depth : 0;
        sum->receives += is_ours ? qp->receive_depth : 0;
        sum->posted_receives += is_ours ? qp->receive_tail - qp->receive_head : 0;
    }
    LIST_FOREACH(node, &fake.srqs)
    {
        const struct fake_srq *srq = container_of(node, struct fake_srq, node);
        bool is_ours = srq->base.context == context;

        sum->shared_queues += is_ours;
        sum->shared_receives += is_ours ? srq->depth : 0;
        sum->posted_shared += is_ours ? srq->tail - srq->head : 0;
    }
    LIST_FOREACH(node, &fake.completions)
    {
        const struct fake_cq *cq = container_of(node, struct fake_cq, node);

        sum->completion_queues += cq->base.context == context;
        sum->vectors |= cq->base.context == context ? UINT64_C(1) << cq->vector : 0;
        sum->completion_entries += cq->base.context == context ? (uint64_t)cq->base.cqe : 0;
    }
    LIST_FOREACH(node, &fake.memories)
    {
        const struct fake_mr *mr = container_of(node, struct fake_mr, node);

        sum->registrations += mr->base.context == context;
        sum->registered_bytes += mr->base.context == context ? mr->base.length : 0;
    }
}

struct fake_verbs_sum fake_verbs_sum(uint32_t context)
{
    struct fake_verbs_sum sum = {0};

    fake_lock();
    sum_up(&sum, nth_context(context));
    fake_unlock();
    return sum;
}

/* Of all devices. */
static void set_transport(enum ibv_transport_type type)
{
    for (size_t i = 0; i < sizeof(fake.devices) / sizeof(fake.devices[0]); i++) {
        fake.devices[i].transport_type = type;
    }
}

void fake_verbs_start(void)
{
    (void)pthread_once(&once, set_up);
    fake_lock();
    fake.faults = (struct fake_faults){.port = IBV_PORT_ACTIVE, .mtu = IBV_MTU_4096};
    set_transport(IBV_TRANSPORT_IB);
    fake.counts = (struct fake_verbs_counts){.requests = 0};
    fake.given = (struct fake_verbs_given){.route_tos = 0};
    fake.is_absent[0] = false;
    fake.is_absent[1] = true;
    fake_unlock();
}

void fake_verbs_iwarp(bool on)
{
    fake_lock();
    set_transport(on ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB);
    fake_unlock();
}

static struct verbs_library library;

static void fill(void)
{
    library = fake_cm_calls;
    library.get_device_list = get_device_list;
    library.free_device_list = free_device_list;
    library.get_device_name = get_device_name;
    library.open_device = open_device;
    library.close_device = close_device;
    library.query_device = query_device;
    library.query_port = query_port;
    library.query_gid = query_gid;
    library.alloc_pd = alloc_pd;
    library.dealloc_pd = dealloc_pd;
    library.reg_mr = reg_mr;
    library.dereg_mr = dereg_mr;
    library.create_comp_channel = create_comp_channel;
    library.destroy_comp_channel = destroy_comp_channel;
    library.create_cq = create_cq;
    library.destroy_cq = destroy_cq;
    library.get_cq_event = get_cq_event;
    library.ack_cq_events = ack_cq_events;
    library.create_qp = create_qp;
    library.modify_qp = modify_qp;
    library.destroy_qp = destroy_qp;
    library.create_srq = create_srq;
    library.modify_srq = modify_srq;
    library.destroy_srq = destroy_srq;
    library.get_async_event = get_async_event;
    library.ack_async_event = ack_async_event;
}

const struct verbs_library *fake_verbs_library(void)
{
    static pthread_once_t filled = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, set_up);
    (void)pthread_once(&filled, fill);
    return &library;
}
