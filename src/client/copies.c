/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of large items of an asynchronous put, made outside the client's lock by whoever waits or
 * polls next.
 *
 * A step whose bytes are still to be copied holds a place of the ring, from which its SEAL leaves
 * when they are; so giving up an op, and the client's end, find it where they look for everything
 * else. A copy that has begun is not interrupted: its op ends when it is done (OP_DOOMED), because
 * until then the bytes that it reads are looked at, and its memory goes to nobody else.
 */
#include "client/client_internal.h"
#include "client/copies.h"
#include "client/lease.h"
#include "client/op.h"
#include "client/put.h"
#include "client/ring.h"

/* A copy under way. */
struct copies_job {
    struct client_op *op;
    size_t step;
    uint32_t lane;
    uint16_t number; /* of the place */
    uint32_t sequence;
    struct copy_target target;
    struct put_wish wish;
    const void *data;
};

void copies_want(struct client_op *op, size_t step, uint32_t lane, const struct copy_target *target)
{
    nigh_client *client = op->client;
    struct client_pending *place = &client->lane[lane].pending[ring_hold(client, lane, op, step)];

    place->copy = COPY_WANTED;
    place->target = *target;
    op->copies++;
    atomic_fetch_add_explicit(&client->copies_wanted, 1, memory_order_relaxed);
}

/* Memory that will not be sealed goes back. */
static void copies_give_back(nigh_client *client, uint32_t lane, const struct copy_target *target)
{
    struct session_sqe sqe = {.op = SESSION_OP_ABORT, .ref = target->ref};

    if (target->leased) {
        lease_gave_up(client, lane, target->offset, target->bytes);
    } else if (!ring_has_room(client, lane, UINT32_MAX)) {
        return; /* only of a copy that its client came back in the middle of */
    } else if (atomic_load_explicit(&client->state, memory_order_relaxed) == CLIENT_ATTACHED) {
        ring_submit(client, lane, NULL, 0, false, &sqe);
    } else {
        ring_owe(client, lane, target->ref);
    }
}

void copies_forget(nigh_client *client, uint32_t lane, uint16_t number)
{
    struct client_pending *place = &client->lane[lane].pending[number];
    struct copy_target target = place->target;

    if (place->copy != COPY_WANTED) {
        return; /* whoever is at it sees that the op is gone from the place */
    }
    place->op->copies--;
    atomic_fetch_sub_explicit(&client->copies_wanted, 1, memory_order_relaxed);
    ring_drop(client, lane, number);
    copies_give_back(client, lane, &target);
}

/* The next copy to make, which is then the caller's. Locked. */
static bool copies_take(nigh_client *client, struct copies_job *job)
{
    for (uint32_t lane = 0; lane < client->lanes; lane++) {
        for (uint16_t i = 0; i < LIMIT_RING_ENTRIES && client->lane[lane].in_flight > 0; i++) {
            struct client_pending *place = &client->lane[lane].pending[i];

            if (!place->used || place->copy != COPY_WANTED) {
                continue;
            }
            place->copy = COPY_UNDER_WAY;
            atomic_fetch_sub_explicit(&client->copies_wanted, 1, memory_order_relaxed);
            *job = (struct copies_job){.op = place->op,
                                       .step = place->step,
                                       .lane = lane,
                                       .number = i,
                                       .sequence = place->sequence,
                                       .target = place->target};
            return true;
        }
    }
    return false;
}

/* The op was given up, or the client lost, while its bytes were copied. Locked. */
static void copies_end_doomed(nigh_client *client, struct copies_job *job)
{
    struct client_op *op = job->op;

    copies_give_back(client, job->lane, &job->target);
    if (op->copies == 0) {
        op_end(op, (nigh_status)op->result);
        ring_tell(client);
    }
}

/* The bytes are there (or, by `status`, cannot be): the SEAL leaves. Locked. */
static void copies_done(nigh_client *client, struct copies_job *job, nigh_status status)
{
    struct client_pending *place = &client->lane[job->lane].pending[job->number];
    bool held = place->used && place->copy == COPY_UNDER_WAY && place->sequence == job->sequence;
    bool wanted = held && place->op == job->op;
    struct session_sqe sqe;

    job->op->copies--;
    if (wanted && status == NIGH_OK) {
        put_fill_seal(client, &job->wish, job->target.offset, job->target.ref, job->target.leased,
                      0, &sqe);
        ring_send(client, job->lane, job->number, &sqe);
    } else {
        if (held) {
            ring_drop(client, job->lane, job->number);
        }
        if (wanted) {
            struct session_cqe refused = {.status = status};

            copies_give_back(client, job->lane, &job->target);
            op_step_done(job->op, job->step, SESSION_OP_SEAL, &refused);
            ring_tell(client);
        } else {
            copies_end_doomed(client, job);
        }
    }
    ring_flush(client);
}

void copies_make(nigh_client *client)
{
    struct copies_job job;

    if (!copies_are_wanted(client)) {
        return;
    }
    client_lock(client);
    while (copies_take(client, &job)) {
        nigh_status status = job.op->kind->source(job.op, job.step, &job.data, &job.wish);

        if (status == NIGH_OK && job.wish.bytes > job.target.bytes) {
            status = NIGH_INVALID; /* the caller changed the item meanwhile */
        }
        client_unlock(client);
        if (status == NIGH_OK) {
            uint8_t *to = client->write_arena + job.target.offset;

            put_copy(client, job.lane, to, job.data, job.wish.data_size);
            put_copy_tail(&job.wish, to);
        }
        client_lock(client);
        copies_done(client, &job, status);
    }
    client_unlock(client);
}
