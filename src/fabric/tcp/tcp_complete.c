/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completions, taken out of the rings in the order of the posts.
 *
 * A post that ended stays behind earlier ones that have not: a later completion says that the
 * slices of the earlier, unsignalled ones are free.
 */
#include "fabric/tcp/tcp_internal.h"

static struct tcp_work *work_at(const struct fabric_endpoint *endpoint, uint32_t index)
{
    return &endpoint->works[index & endpoint->work_mask];
}

static bool work_has_ended(const struct fabric_endpoint *endpoint, const struct tcp_work *work)
{
    if (tcp_op_is_read(work->op))
        return work->answered;
    return (int32_t)(endpoint->acked - work->number) >= 0;
}

static bool has_work(const struct fabric_endpoint *endpoint)
{
    return endpoint->head != endpoint->tail &&
           (endpoint->state == TCP_FAILED ||
            (endpoint->head != endpoint->next &&
             work_has_ended(endpoint, work_at(endpoint, endpoint->head))));
}

static bool has_receive(const struct fabric_endpoint *endpoint)
{
    return endpoint->receive_head !=
           (endpoint->state == TCP_FAILED ? endpoint->receive_tail : endpoint->receive_filled);
}

void tcp_complete_mark(struct fabric_endpoint *endpoint)
{
    if (!list_is_linked(&endpoint->completing) && (has_work(endpoint) || has_receive(endpoint)))
        list_push_back(&endpoint->tcp->completing, &endpoint->completing);
}

static void take_receive(struct fabric_endpoint *endpoint, struct fabric_completion *out)
{
    const struct tcp_receive *receive =
        &endpoint->receives[endpoint->receive_head & endpoint->receive_mask];
    bool is_filled = endpoint->receive_head != endpoint->receive_filled;

    *out = (struct fabric_completion){
        .endpoint = endpoint,
        .context = endpoint->context,
        .tag = receive->tag,
        .op = FABRIC_RECV,
        .status = is_filled ? receive->status : endpoint->flush,
        .has_imm = is_filled && receive->has_imm,
        .imm = is_filled ? receive->imm : 0,
        .bytes = is_filled && receive->status == NIGH_OK ? receive->bytes : 0,
    };
    endpoint->receive_head++;
    if (endpoint->stock != NULL)
        endpoint->stock->taken--;
    if (!is_filled)
        endpoint->receive_filled++;
}

/* Ends the first post. False: it wants no completion. */
static bool take_work(struct fabric_endpoint *endpoint, struct fabric_completion *out)
{
    const struct tcp_work *work = work_at(endpoint, endpoint->head);
    nigh_status status = NIGH_OK;

    if (endpoint->head == endpoint->next || !work_has_ended(endpoint, work)) {
        bool is_refused = endpoint->refusal != NIGH_OK && endpoint->refused == endpoint->head;

        status = is_refused ? endpoint->refusal : endpoint->flush;
    }
    if (endpoint->head == endpoint->next)
        endpoint->next++;
    endpoint->head++;
    if (status == NIGH_OK && (work->flags & FABRIC_SIGNALLED) == 0)
        return false;
    *out = (struct fabric_completion){
        .endpoint = endpoint,
        .context = endpoint->context,
        .tag = work->tag,
        .op = (enum fabric_op)work->op,
        .status = status,
        .bytes = work->bytes,
    };
    return true;
}

uint32_t tcp_complete_take(struct tcp *tcp, struct fabric_completion *completions, uint32_t count)
{
    uint32_t taken = 0;

    while (taken < count && !list_empty(&tcp->completing)) {
        struct fabric_endpoint *endpoint =
            container_of(list_pop_front(&tcp->completing), struct fabric_endpoint, completing);

        /* Posts first: receives may fill every batch, and whoever answers them waits for the
         * memory of what went out. */
        while (taken < count && has_work(endpoint))
            taken += take_work(endpoint, &completions[taken]);
        while (taken < count && has_receive(endpoint))
            take_receive(endpoint, &completions[taken++]);
        tcp_complete_mark(endpoint); /* at the end: others come first */
    }
    return taken;
}
