/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service that pulls: its requests wait here until it receives them, and its receives until a
 * request comes, each in the order in which they came (docs/calls.md).
 *
 * Pure, as calls.h is, under which it lies: requests have calls.h's ids, and are answered there.
 * What it promises:
 *  - each receive ends exactly once, by `deliver`: with a request, at its deadline, cancelled, or
 *    with NIGH_CLOSED when its service ends;
 *  - a request is received at most once, and one whose caller has gone, or whose deadline has
 *    passed, not at all;
 *  - both tables have bounds: a request beyond them is refused with NIGH_OVERLOADED, a receive
 *    ends with NIGH_BUSY.
 */
#ifndef RPC_PULLS_H
#define RPC_PULLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"
#include "rpc/calls.h"

struct pulls;

/* A receive. The shell's own words, but for the deadline. */
struct pulls_receive {
    uint64_t deadline_us; /* UINT64_MAX: none */
    uint64_t offset;
    uint32_t cookie; /* for pulls_cancel */
};

struct pulls_shell {
    void *context;
    /* Whether anybody waits for the answer to this request still. */
    bool (*wanted)(void *context, uint64_t id);
    /* Answers a request that is not received: NIGH_OVERLOADED, NIGH_TIMEOUT. */
    void (*refuse)(void *context, uint64_t id, nigh_status status);
    /* A receive has ended; `request` with NIGH_OK alone, its bytes good until the return. False:
     * there was no place for the request, and the receive has ended without it. May not call back.
     */
    bool (*deliver)(void *context, const struct pulls_receive *receive, nigh_status status,
                    const struct calls_request *request);
};

/* NIGH_NO_RESOURCES. */
nigh_status pulls_create(const struct pulls_shell *shell, struct pulls **pull);

/* Its receives end with NIGH_CLOSED; what was not received is not heard of again. NULL is allowed.
 */
void pulls_destroy(struct pulls *pull);

/* A request has come. */
void pulls_request(struct pulls *pull, const struct calls_request *request, uint64_t now_us);

/* A receive: it ends before the return when there is a request, when its deadline has passed, or
 * when too many wait. */
void pulls_receive(struct pulls *pull, const struct pulls_receive *receive, uint64_t now_us);

/* Ends a receive with NIGH_CANCELED, before the return; false: there is none. */
bool pulls_cancel(struct pulls *pull, uint32_t cookie);

/* Ends what is overdue; true: something was. */
bool pulls_tick(struct pulls *pull, uint64_t now_us);
uint64_t pulls_due_us(const struct pulls *pull);

uint32_t pulls_queued(const struct pulls *pull);
uint32_t pulls_receives(const struct pulls *pull);

#endif
