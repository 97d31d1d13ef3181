/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See link.h. Atomics of words of this lane's own memory, over an endpoint that leads back to its
 * fabric: the device changes words here for peers, and is the only one that can do so beside them.
 *
 * The endpoint is made when it is first used. One that failed is destroyed at the end of the turn,
 * when what was under way over it ends; it is made anew at the next use, at once where it had
 * served, and with back-off where that was in vain.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/link_internal.h"

#define LOG_MODULE "link"
#include "base/log.h"

#define WORD_BYTES 8u

/* ---- made, ended ---------------------------------------------------------- */

/* Where what atomics found comes to, and who is told. */
static nigh_status make_places(struct links *links)
{
    struct link_loop *loop = &links->loop;
    uint32_t count = links->config.writes;
    nigh_status status;

    if (loop->registration != NULL) {
        return NIGH_OK;
    }
    loop->words = calloc(count, sizeof(*loop->words));
    loop->ops = calloc(count, sizeof(*loop->ops));
    status = loop->words == NULL || loop->ops == NULL
                 ? NIGH_NO_RESOURCES
                 : fabric_memory_register(links->config.fabric, loop->words, count * WORD_BYTES,
                                          FABRIC_HOST, FABRIC_LOCAL_WRITE, &loop->registration);
    if (status != NIGH_OK) {
        free(loop->words);
        free(loop->ops);
        loop->words = NULL;
        loop->ops = NULL;
    }
    return status;
}

/* What is in vain is not tried at each use. */
static void back_off(struct links *links, uint64_t now_us)
{
    links->loop.again_us = now_us + links_back_off_us(links, links->loop.attempts++);
}

static bool make_endpoint(struct links *links, uint64_t now_us)
{
    struct link_loop *loop = &links->loop;
    struct fabric_endpoint_options options = {.sends = links->config.writes,
                                              .inline_bytes = WORD_BYTES};

    if (loop->endpoint != NULL) {
        return !loop->failed;
    }
    if (now_us < loop->again_us) {
        return false;
    }
    if (make_places(links) != NIGH_OK ||
        fabric_loop(links->config.fabric, &options, &loop->endpoint) != NIGH_OK) {
        back_off(links, now_us);
        return false;
    }
    return true;
}

void link_loop_fail(struct links *links, nigh_status reason)
{
    struct link_loop *loop = &links->loop;

    if (!loop->failed) {
        loop->failed = true;
        loop->reason = reason != NIGH_OK ? reason : NIGH_PEER_LOST;
        links->any_failed = true;
    }
}

static void give_op(struct link_loop *loop, uint32_t number)
{
    loop->ops[number] = (struct link_loop_op){.next = loop->free_op};
    loop->free_op = number;
    loop->count--;
}

/* That one was refused does not say that others were: they may have acted. What whoever is told
 * begins meanwhile is of the next endpoint, in whichever place. */
static void end_ops(struct link_loop *loop, nigh_status reason, uint64_t now_us)
{
    nigh_status others = reason == NIGH_DENIED ? NIGH_PEER_LOST : reason;
    uint32_t used = loop->used;

    for (uint32_t n = 0; n < used; n++) {
        loop->ops[n].ends = loop->ops[n].done != NULL;
    }
    for (uint32_t n = 0; n < used; n++) {
        struct link_loop_op op = loop->ops[n];

        if (!op.ends) {
            continue;
        }
        give_op(loop, n);
        op.done(op.context, op.status != NIGH_OK ? op.status : others, 0, now_us);
    }
}

void link_loop_settle(struct links *links, uint64_t now_us)
{
    struct link_loop *loop = &links->loop;

    if (!loop->failed) {
        return;
    }
    fabric_endpoint_destroy(links->config.fabric, loop->endpoint);
    loop->endpoint = NULL;
    loop->failed = false;
    links->counters.region_ends++;
    LOG_DEBUG("the endpoint to the own memory ended", "reason=%d", (int)loop->reason);
    if (!loop->has_served) {
        back_off(links, now_us);
    }
    loop->has_served = false;
    end_ops(loop, loop->reason, now_us);
}

void link_loop_fini(struct links *links)
{
    struct link_loop *loop = &links->loop;

    loop->again_us = UINT64_MAX; /* whoever is told begins nothing more */
    fabric_endpoint_destroy(links->config.fabric, loop->endpoint);
    loop->endpoint = NULL;
    end_ops(loop, NIGH_CANCELED, 0);
    fabric_memory_deregister(links->config.fabric, loop->registration);
    free(loop->words);
    free(loop->ops);
}

bool link_loop_is_valid(const struct link_loop *loop)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < loop->used; n++) {
        count += loop->ops[n].done != NULL;
    }
    return count == loop->count && (count == 0 || loop->endpoint != NULL) &&
           (!loop->failed || loop->endpoint != NULL);
}

/* ---- atomics -------------------------------------------------------------- */

void link_loop_complete(struct links *links, const struct fabric_completion *completion,
                        uint64_t now_us)
{
    struct link_loop *loop = &links->loop;
    uint32_t number = (uint32_t)completion->tag;
    struct link_loop_op op = loop->ops[number];

    NIGH_ASSERT(op.done != NULL);
    if (completion->status != NIGH_OK) {
        /* Its place is not free before the endpoint is gone: that ends it. */
        loop->ops[number].status = completion->status;
        link_loop_fail(links, completion->status);
        return;
    }
    loop->has_served = true;
    loop->attempts = 0;
    give_op(loop, number);
    op.done(op.context, NIGH_OK, loop->words[number], now_us);
}

static uint32_t take_op(struct link_loop *loop, link_word_done *done, void *context)
{
    uint32_t number = loop->free_op;

    if (number != LINK_NO_OP) {
        loop->free_op = loop->ops[number].next;
    } else {
        number = loop->used++;
    }
    loop->ops[number] = (struct link_loop_op){.done = done, .context = context};
    loop->count++;
    return number;
}

static nigh_status post(struct links *links, struct fabric_work *work, link_word_done *done,
                        void *context, uint64_t now_us)
{
    const uint32_t needs = FABRIC_CAN_ATOMICS | FABRIC_CAN_LOOP;
    struct fabric *fabric = links->config.fabric;
    struct link_loop *loop = &links->loop;
    struct fabric_slice slice;
    nigh_status status;
    uint32_t number;

    if (links->config.writes == 0 || (fabric->caps.ops & needs) != needs) {
        return NIGH_UNSUPPORTED;
    }
    if (work->remote.address % WORD_BYTES != 0) {
        return NIGH_INVALID;
    }
    if (!make_endpoint(links, now_us) || loop->count == links->config.writes) {
        return NIGH_BUSY;
    }
    number = take_op(loop, done, context);
    slice = (struct fabric_slice){&loop->words[number], WORD_BYTES, loop->registration};
    work->flags = FABRIC_SIGNALLED;
    work->tag = number;
    work->slices = &slice;
    work->slice_count = 1;
    status = fabric_post(fabric, loop->endpoint, work, NULL);
    if (status != NIGH_OK) {
        give_op(loop, number);
        link_loop_fail(links, NIGH_PEER_LOST); /* it failed, and has not said so yet */
        return NIGH_BUSY;
    }
    links->counters.atomics++;
    return NIGH_OK;
}

nigh_status links_fetch_add(struct links *links, struct fabric_remote own, uint64_t added,
                            link_word_done *done, void *context, uint64_t now_us)
{
    struct fabric_work work = {.op = FABRIC_FETCH_ADD, .remote = own, .operand = added};

    return post(links, &work, done, context, now_us);
}

nigh_status links_compare_swap(struct links *links, struct fabric_remote own, uint64_t compare,
                               uint64_t swap, link_word_done *done, void *context, uint64_t now_us)
{
    struct fabric_work work = {
        .op = FABRIC_COMPARE_SWAP, .remote = own, .compare = compare, .operand = swap};

    return post(links, &work, done, context, now_us);
}
