/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that arrive, and the server's side of a channel: requests that the handler owes an answer,
 * and credits that the peer is owed.
 *
 * A frame is copied out and checked whole, against the rules and against what it speaks of, before
 * anything changes: what is refused has had no effect.
 */
#include "rpc/rpc_internal.h"

#include <endian.h>
#include <string.h>

#include "base/check.h"

/* ---- is it a frame that the peer may send now? ---- */

static struct rpc_header read_header(const void *frame)
{
    struct rpc_header header;

    memcpy(&header, frame, sizeof(header));
    header.method = le16toh(header.method);
    header.call = le64toh(header.call);
    header.status = (int32_t)le32toh((uint32_t)header.status);
    header.bytes = le32toh(header.bytes);
    header.credits = le16toh(header.credits);
    header.reserved = le16toh(header.reserved);
    header.left_ms = le32toh(header.left_ms);
    header.epoch = le32toh(header.epoch);
    return header;
}

/* Fields that a kind does not have are zero. */
static bool fields_are_valid(const struct rpc_header *header)
{
    switch (header->kind) {
    case RPC_REQUEST: return header->status == 0;
    case RPC_REPLY:
        return header->method == 0 && header->left_ms == 0 && header->status <= 0 &&
               header->status >= NIGH_STATUS_LOWEST;
    case RPC_ONE_WAY: return header->call == 0 && header->status == 0 && header->left_ms == 0;
    case RPC_CANCEL:
        return header->method == 0 && header->status == 0 && header->left_ms == 0 &&
               header->bytes == 0;
    case RPC_CREDIT:
        return header->method == 0 && header->call == 0 && header->status == 0 &&
               header->left_ms == 0 && header->bytes == 0;
    default: return false;
    }
}

static bool needs_credit(uint8_t kind)
{
    return kind == RPC_REQUEST || kind == RPC_ONE_WAY || kind == RPC_CANCEL;
}

/* Both sides count the same way, so what does not add up is the peer's fault. */
static bool credits_are_valid(const struct rpc *rpc, const struct rpc_header *header)
{
    if (header->credits > rpc->config.requests - rpc->credits) {
        return false;
    }
    if (header->kind == RPC_CREDIT && header->credits <= rpc->config.requests / 2) {
        return false; /* the one receive for CREDIT frames would not do */
    }
    return !needs_credit(header->kind) || rpc->owed < rpc->config.requests;
}

static struct rpc_answer *answer_named(const struct rpc *rpc, uint64_t call)
{
    struct rpc_slot *slot = rpc_slot_named(rpc, call); /* both sides have as many */

    return slot == NULL ? NULL : &rpc->answers[slot - rpc->slots];
}

static bool call_is_valid(const struct rpc *rpc, const struct rpc_header *header)
{
    const struct rpc_slot *slot = rpc_slot_named(rpc, header->call);
    const struct rpc_answer *answer = answer_named(rpc, header->call);

    if (header->kind == RPC_ONE_WAY || header->kind == RPC_CREDIT) {
        return true;
    }
    if (slot == NULL) {
        return false;
    }
    switch (header->kind) {
    case RPC_REQUEST: return answer->state != RPC_ANSWER_OPEN && answer->call != header->call;
    case RPC_CANCEL:
        /* It may have crossed our answer, but not another CANCEL. */
        return answer->call == header->call && answer->state != RPC_ANSWER_CANCELED;
    default:
        return rpc_slot_call(rpc, slot) == header->call &&
               (slot->state == RPC_SLOT_SENT || slot->state == RPC_SLOT_HELD);
    }
}

/* ---- what came ---- */

static void take_request(struct rpc *rpc, const struct rpc_header *header, const uint8_t *payload,
                         uint64_t now_us)
{
    struct rpc_request request = {
        .method = header->method,
        .call = header->call,
        .payload = payload,
        .bytes = header->bytes,
        .deadline_us = UINT64_MAX,
    };

    if (header->kind == RPC_REQUEST) {
        *answer_named(rpc, header->call) = (struct rpc_answer){header->call, RPC_ANSWER_OPEN};
        if (header->left_ms != UINT32_MAX) {
            request.deadline_us = now_us + (uint64_t)header->left_ms * 1000;
        }
    }
    rpc->counters.requests++;
    rpc->depth++;
    rpc->config.shell.request(rpc->config.shell.context, &request, now_us);
    rpc->depth--;
}

static void send_reply(struct rpc *rpc, uint64_t call, nigh_status status,
                       const struct rpc_piece *pieces, uint32_t count)
{
    struct rpc_header header = {.kind = RPC_REPLY, .call = call, .status = (int32_t)status};

    rpc_send(rpc, header, pieces, count);
}

/* Answered here and at once: the caller has its slot again one round trip after it gave up,
 * however long the handler takes. */
static void take_cancel(struct rpc *rpc, uint64_t call)
{
    struct rpc_answer *answer = answer_named(rpc, call);

    if (answer->state != RPC_ANSWER_OPEN) {
        return;
    }
    answer->state = RPC_ANSWER_CANCELED;
    send_reply(rpc, call, NIGH_CANCELED, NULL, 0);
    if (rpc->config.shell.canceled != NULL) {
        rpc->depth++;
        rpc->config.shell.canceled(rpc->config.shell.context, call);
        rpc->depth--;
    }
}

static void take_frame(struct rpc *rpc, const struct rpc_header *header, const uint8_t *payload,
                       uint64_t now_us)
{
    switch (header->kind) {
    case RPC_REQUEST:
    case RPC_ONE_WAY: take_request(rpc, header, payload, now_us); break;
    case RPC_REPLY:
        rpc_slot_replied(rpc, rpc_slot_named(rpc, header->call), (nigh_status)header->status,
                         payload, header->bytes, now_us);
        break;
    case RPC_CANCEL: take_cancel(rpc, header->call); break;
    default: break; /* CREDIT: all of it is in the header */
    }
}

/* With half or fewer owed the peer has some left, or some on their way, and more will go with the
 * next frame. With more than half, a second CREDIT frame cannot be on its way. */
static void give_credits_back(struct rpc *rpc)
{
    if (!rpc->ended && rpc->owed > rpc->config.requests / 2) {
        rpc->counters.credit_frames++;
        rpc_send(rpc, (struct rpc_header){.kind = RPC_CREDIT}, NULL, 0);
    }
}

nigh_status rpc_receive(struct rpc *rpc, const void *frame, uint32_t bytes, uint64_t now_us)
{
    struct rpc_header header;

    NIGH_ASSERT(!rpc->receiving);
    if (rpc->ended) {
        return NIGH_CLOSED;
    }
    if (bytes < sizeof(header)) {
        return NIGH_PROTOCOL;
    }
    header = read_header(frame);
    if (header.magic != RPC_MAGIC) {
        return NIGH_PROTOCOL;
    }
    if (header.epoch != (uint32_t)rpc->config.epoch) {
        return NIGH_VERSION; /* what its other fields mean is not ours to judge */
    }
    if (header.reserved != 0 || header.bytes != bytes - sizeof(header) ||
        header.bytes > rpc->config.payload_bytes || !fields_are_valid(&header) ||
        !credits_are_valid(rpc, &header) || !call_is_valid(rpc, &header)) {
        return NIGH_PROTOCOL;
    }
    rpc->receiving = true;
    rpc->credits += header.credits;
    if (needs_credit(header.kind)) {
        rpc->owed++; /* true once this receive is posted again; until then the spare one stands in
                      */
    }
    rpc_drain(rpc, now_us);
    take_frame(rpc, &header, (const uint8_t *)frame + sizeof(header), now_us);
    give_credits_back(rpc);
    rpc->receiving = false;
    return NIGH_OK;
}

bool rpc_is_awaited(const struct rpc *rpc, uint64_t call)
{
    const struct rpc_answer *answer = answer_named(rpc, call);

    return !rpc->ended && answer != NULL && answer->call == call &&
           answer->state == RPC_ANSWER_OPEN;
}

void rpc_reply(struct rpc *rpc, uint64_t call, nigh_status status, const struct rpc_piece *pieces,
               uint32_t count)
{
    struct rpc_answer *answer = answer_named(rpc, call);

    NIGH_ASSERT(answer != NULL);
    NIGH_ASSERT(status <= NIGH_OK && status >= NIGH_STATUS_LOWEST);
    NIGH_ASSERT(rpc_pieces_bytes(pieces, count) <= rpc->config.payload_bytes);
    if (rpc->ended || answer->call != call) {
        return; /* cancelled, and the slot has had another request since */
    }
    NIGH_ASSERT(answer->state == RPC_ANSWER_OPEN || answer->state == RPC_ANSWER_CANCELED);
    if (answer->state == RPC_ANSWER_OPEN) {
        answer->state = RPC_ANSWER_SENT;
        send_reply(rpc, call, status, pieces, count);
    } else {
        answer->state = RPC_ANSWER_SENT;
    }
}
