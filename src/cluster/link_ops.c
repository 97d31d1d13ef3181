/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See link.h. What is asked of a link's bulk endpoints and of those for regions: READs, WRITEs,
 * atomics, messages. Each has a number from the call until it ended, which is the tag of its post
 * and its place among link->ops; its memory is in use as long.
 *
 * What follows each other is posted in chains. Messages go over the first bulk endpoint, and what
 * is of regions over the one that is named, so they start in the order of the calls.
 */
#include <string.h>

#include "base/check.h"
#include "cluster/link_internal.h"

#define WORD_BYTES 8u

/* ---- numbers -------------------------------------------------------------- */

/* Whose counts an operation is in. Each has places of its own, so that nothing of one waits for
 * what goes over another. */
static struct link_side *counted(struct link *link, const struct link_op *op)
{
    return &link->sides[op->over];
}

static bool has_place(const struct link_side *side, enum link_op_kind kind)
{
    const struct links *links = side->link->links;

    if (side->op_count == links_posts(links, side->kind)) {
        return false;
    }
    switch (kind) {
    case LINK_OP_READ: return side->read_count < links->config.reads;
    case LINK_OP_WRITE:
    case LINK_OP_WORD: return side->write_count < links->config.writes;
    default: return true;
    }
}

/* 1, or UINT32_MAX: one less. */
static void count_op(struct link_side *side, enum link_op_kind kind, uint32_t change)
{
    side->op_count += change;
    side->read_count += kind == LINK_OP_READ ? change : 0;
    side->write_count += kind == LINK_OP_WRITE || kind == LINK_OP_WORD ? change : 0;
}

/* There are as many numbers as places. */
static bool take_op(struct link *link, const struct link_op *asked, uint32_t *number)
{
    if (!has_place(counted(link, asked), asked->kind)) {
        return false;
    }
    if (link->free_op != LINK_NO_OP) {
        *number = link->free_op;
        link->free_op = link->ops[*number].next;
    } else {
        NIGH_ASSERT(link->ops_used < link->links->max_ops);
        *number = link->ops_used++;
    }
    count_op(counted(link, asked), asked->kind, 1);
    link->ops[*number] = *asked;
    return true;
}

static void forget_op(struct link *link, uint32_t number)
{
    struct link_op *op = &link->ops[number];

    count_op(counted(link, op), op->kind, UINT32_MAX);
    op->kind = LINK_OP_NONE;
}

static void give_op(struct link *link, uint32_t number)
{
    forget_op(link, number);
    link->ops[number].next = link->free_op;
    link->free_op = number;
}

/* ---- ends ----------------------------------------------------------------- */

/* It is nobody's number any more; what an atomic found is in `old`. */
static void tell(const struct link_op *op, nigh_status status, uint64_t old, uint64_t now_us)
{
    if (op->kind == LINK_OP_WORD) {
        op->word_done(op->context, status, old, now_us);
    } else {
        op->done(op->context, status, now_us);
    }
}

/* That one was refused does not say that others were: they may have acted. */
static nigh_status status_of(const struct link_op *op, nigh_status reason)
{
    if (op->status != NIGH_OK) {
        return op->status;
    }
    return reason == NIGH_DENIED ? NIGH_PEER_LOST : reason;
}

void link_end_ops(struct link *link, nigh_status reason, uint64_t now_us)
{
    for (uint32_t n = 0; n < link->ops_used; n++) {
        struct link_op op = link->ops[n];

        if (op.kind == LINK_OP_NONE) {
            continue;
        }
        forget_op(link, n);
        tell(&op, status_of(&op, reason), 0, now_us);
    }
}

void link_end_side_ops(struct link_side *side, nigh_status reason, uint64_t now_us)
{
    struct link *link = side->link;

    for (uint32_t n = 0; n < link->ops_used; n++) {
        struct link_op op = link->ops[n];

        if (op.kind == LINK_OP_NONE || op.over != side->kind) {
            continue;
        }
        give_op(link, n);
        tell(&op, status_of(&op, reason), 0, now_us);
    }
}

void link_on_op(struct link_side *side, const struct fabric_completion *completion, uint64_t now_us)
{
    struct link *link = side->link;
    uint32_t number = (uint32_t)completion->tag;
    struct link_op op = link->ops[number];
    uint64_t old = 0;

    NIGH_ASSERT(op.kind != LINK_OP_NONE);
    if (completion->status != NIGH_OK) {
        /* Its memory is not free before the endpoint is gone: that ends it. */
        link->ops[number].status = completion->status;
        link_side_fail(side, completion->status);
        return;
    }
    if (op.kind == LINK_OP_WORD) {
        memcpy(&old, link_op_head(link, number), WORD_BYTES);
    }
    give_op(link, number);
    tell(&op, NIGH_OK, old, now_us);
}

/* ---- chains --------------------------------------------------------------- */

void link_forget_side_chain(const struct link_side *side)
{
    if (side->link->links->chain.side == side) {
        side->link->links->chain.count = 0;
    }
}

void link_forget_chain(const struct link *link)
{
    if (link->links->chain.count > 0 && link->links->chain.side->link == link) {
        link->links->chain.count = 0;
    }
    if (link->links->frames.side == &link->sides[LINK_CALLS]) {
        link->links->frames.count = 0;
    }
}

void links_flush(struct links *links)
{
    struct link_chain *chain = &links->chain;
    const struct fabric_work *bad;
    struct link_side *side = chain->side;
    const struct link *link;
    nigh_status status;

    if (chain->count == 0) {
        return;
    }
    link = side->link;
    for (uint32_t n = 0; n < chain->count; n++) {
        chain->works[n].next = n + 1 < chain->count ? &chain->works[n + 1] : NULL;
    }
    chain->count = 0;
    if (link->failed || side->failed) {
        return;
    }
    if (side->kind == LINK_SPACES) {
        link_post_receives(side); /* of which the peer is told */
    }
    status = fabric_post(links->config.fabric, side->endpoint, chain->works, &bad);
    if (status != NIGH_OK) {
        /* Some were taken, perhaps: they and the others end alike, when the endpoint is gone. */
        link_side_fail(side, status == NIGH_CLOSED ? NIGH_PEER_LOST : status);
    }
}

void link_chain_room(struct link_side *side, uint32_t count)
{
    const struct link_chain *chain = &side->link->links->chain;

    if (chain->side == side && chain->count + count > LINK_CHAIN) {
        links_flush(side->link->links);
    }
}

void link_add_to_chain(struct link_side *side, const struct fabric_work *work)
{
    struct link_chain *chain = &side->link->links->chain;
    struct fabric_work *added;

    NIGH_ASSERT(work->slice_count <= LIMIT_FABRIC_SLICES);
    if (link_is_own(side->kind)) {
        side->link->links->counters.region_posts[side->kind - LINK_REGIONS]++;
    }
    if (chain->side != side) {
        links_flush(side->link->links);
        chain->side = side;
    }
    added = &chain->works[chain->count];
    *added = *work;
    memcpy(chain->slices[chain->count], work->slices, work->slice_count * sizeof(*work->slices));
    added->slices = chain->slices[chain->count];
    if (++chain->count == LINK_CHAIN) {
        links_flush(side->link->links);
    }
}

/* Where the next READ goes: behind those that wait for it to go with them, else over the next of
 * the link's bulk endpoints. */
static struct link_side *next_reader(struct link *link)
{
    const struct link_chain *chain = &link->links->chain;

    if (chain->count > 0 && chain->side->link == link &&
        (chain->side->kind == LINK_BULK || link_is_reader(chain->side->kind))) {
        return chain->side;
    }
    do {
        link->reader = (link->reader + 1) % LIMIT_BULK_ENDPOINTS;
    } while (link->reader > 0 && !link_has(link, LINK_READS + link->reader - 1));
    return &link->sides[link->reader == 0 ? LINK_BULK : LINK_READS + link->reader - 1];
}

/* ---- READs ---------------------------------------------------------------- */

static nigh_status post_read(struct link *link, const struct link_op *op,
                             const struct fabric_slice *slices, uint32_t count,
                             struct fabric_remote remote)
{
    struct fabric_work work = {
        .op = FABRIC_READ,
        .flags = FABRIC_SIGNALLED,
        .slices = slices,
        .slice_count = count,
        .remote = remote,
    };
    uint32_t number;

    if (!link_carries(link, op->over)) {
        return NIGH_PEER_LOST;
    }
    if (!take_op(link, op, &number)) {
        return NIGH_BUSY;
    }
    work.tag = number;
    link_add_to_chain(link_is_own(op->over) ? &link->sides[op->over] : next_reader(link), &work);
    link->links->counters.reads++;
    for (uint32_t n = 0; n < count; n++) {
        link->links->counters.read_bytes += slices[n].bytes;
        link->links->counters.region_bytes += link_is_own(op->over) ? slices[n].bytes : 0;
    }
    return NIGH_OK;
}

nigh_status link_read(struct link *link, const struct fabric_slice *slices, uint32_t count,
                      struct fabric_remote remote, link_done *done, void *context)
{
    struct link_op op = {.kind = LINK_OP_READ, .over = LINK_BULK, .done = done, .context = context};

    return post_read(link, &op, slices, count, remote);
}

nigh_status link_region_read(struct link *link, enum link_endpoint over,
                             const struct fabric_slice *slices, uint32_t count,
                             struct fabric_remote remote, link_done *done, void *context)
{
    struct link_op op = {.kind = LINK_OP_READ, .over = over, .done = done, .context = context};

    return post_read(link, &op, slices, count, remote);
}

/* ---- messages, WRITEs ----------------------------------------------------- */

/* Bytes that leave, of which the first may be taken during the call: they stay with the number. */
static nigh_status post_bytes(struct link *link, const struct link_op *op, struct fabric_work *work,
                              const struct fabric_slice *slices, uint32_t count)
{
    struct fabric_slice copies[LIMIT_FABRIC_SLICES];
    uint32_t number;

    NIGH_ASSERT(count > 0 && count <= LIMIT_FABRIC_SLICES);
    if (!link_carries(link, op->over)) {
        return NIGH_PEER_LOST;
    }
    if (!take_op(link, op, &number)) {
        return NIGH_BUSY;
    }
    memcpy(copies, slices, count * sizeof(*slices));
    if (copies[0].memory == NULL) {
        NIGH_ASSERT(copies[0].bytes <= LINK_HEAD_BYTES);
        memcpy(link_op_head(link, number), copies[0].address, copies[0].bytes);
        link->links->config.fabric->counts.copied_bytes += copies[0].bytes;
        copies[0].address = link_op_head(link, number);
        copies[0].memory = link->registration;
    }
    work->slices = copies;
    work->slice_count = count;
    work->tag = number;
    link_add_to_chain(&link->sides[op->over], work);
    return NIGH_OK;
}

nigh_status link_send(struct link *link, const struct fabric_slice *slices, uint32_t count,
                      link_done *done, void *context)
{
    struct link_op op = {
        .kind = LINK_OP_MESSAGE, .over = LINK_BULK, .done = done, .context = context};
    struct fabric_work work = {.op = FABRIC_SEND, .flags = FABRIC_SIGNALLED | FABRIC_SOLICITED};
    nigh_status status = post_bytes(link, &op, &work, slices, count);

    link->links->counters.bulk_messages += status == NIGH_OK;
    return status;
}

nigh_status link_push(struct link *link, const struct fabric_slice *slices, uint32_t count,
                      struct fabric_remote remote, uint32_t imm, link_done *done, void *context)
{
    struct link_op op = {
        .kind = LINK_OP_MESSAGE, .over = LINK_BULK, .done = done, .context = context};
    struct fabric_work work = {.op = FABRIC_WRITE_IMM,
                               .flags = FABRIC_SIGNALLED | FABRIC_SOLICITED,
                               .remote = remote,
                               .imm = imm};
    nigh_status status = post_bytes(link, &op, &work, slices, count);

    link->links->counters.pushes += status == NIGH_OK;
    return status;
}

/* What the fabric would refuse, which would cost the endpoint. */
static nigh_status check_write(const struct link *link, const struct fabric_slice *slices,
                               uint32_t count, uint64_t *bytes)
{
    const struct links_config *config = &link->links->config;

    if (config->writes == 0) {
        return NIGH_UNSUPPORTED;
    }
    if (count == 0 || count > config->fabric->caps.slices) {
        return NIGH_INVALID;
    }
    *bytes = 0;
    for (uint32_t n = 0; n < count; n++) {
        uint64_t most = config->fabric->caps.message_bytes - *bytes;

        if (slices[n].memory == NULL && n > 0) {
            return NIGH_INVALID;
        }
        if (slices[n].bytes > (slices[n].memory == NULL ? LINK_HEAD_BYTES : most)) {
            return NIGH_INVALID;
        }
        *bytes += slices[n].bytes;
    }
    return NIGH_OK;
}

nigh_status link_write(struct link *link, enum link_endpoint over,
                       const struct fabric_slice *slices, uint32_t count,
                       struct fabric_remote remote, link_done *done, void *context)
{
    struct link_op op = {.kind = LINK_OP_WRITE, .over = over, .done = done, .context = context};
    struct fabric_work work = {.op = FABRIC_WRITE, .flags = FABRIC_SIGNALLED, .remote = remote};
    uint64_t bytes;
    nigh_status status = check_write(link, slices, count, &bytes);

    if (status != NIGH_OK) {
        return status;
    }
    /* A device need not come for so little. */
    if (bytes <= min_u32(LINK_HEAD_BYTES, link->links->config.fabric->caps.inline_bytes)) {
        work.flags |= FABRIC_INLINE;
    }
    status = post_bytes(link, &op, &work, slices, count);
    if (status == NIGH_OK) {
        link->links->counters.writes++;
        link->links->counters.write_bytes += bytes;
        link->links->counters.region_bytes += bytes;
    }
    return status;
}

/* ---- atomics -------------------------------------------------------------- */

/* What was there comes to where the heads of messages lie. */
static nigh_status post_word(struct link *link, const struct link_op *op, struct fabric_work *work)
{
    const struct links_config *config = &link->links->config;
    struct fabric_slice slice = {.bytes = WORD_BYTES, .memory = link->registration};
    uint32_t number;

    if (config->writes == 0 || (config->fabric->caps.ops & FABRIC_CAN_ATOMICS) == 0) {
        return NIGH_UNSUPPORTED;
    }
    if (work->remote.address % WORD_BYTES != 0) {
        return NIGH_INVALID;
    }
    if (!link_carries(link, op->over)) {
        return NIGH_PEER_LOST;
    }
    if (!take_op(link, op, &number)) {
        return NIGH_BUSY;
    }
    slice.address = link_op_head(link, number);
    work->flags = FABRIC_SIGNALLED;
    work->slices = &slice;
    work->slice_count = 1;
    work->tag = number;
    link_add_to_chain(&link->sides[op->over], work);
    link->links->counters.atomics++;
    return NIGH_OK;
}

nigh_status link_fetch_add(struct link *link, enum link_endpoint over, struct fabric_remote remote,
                           uint64_t added, link_word_done *done, void *context)
{
    struct link_op op = {.kind = LINK_OP_WORD, .over = over, .word_done = done, .context = context};
    struct fabric_work work = {.op = FABRIC_FETCH_ADD, .remote = remote, .operand = added};

    return post_word(link, &op, &work);
}

nigh_status link_compare_swap(struct link *link, enum link_endpoint over,
                              struct fabric_remote remote, uint64_t compare, uint64_t swap,
                              link_word_done *done, void *context)
{
    struct link_op op = {.kind = LINK_OP_WORD, .over = over, .word_done = done, .context = context};
    struct fabric_work work = {
        .op = FABRIC_COMPARE_SWAP, .remote = remote, .compare = compare, .operand = swap};

    return post_word(link, &op, &work);
}
