/* SPDX-License-Identifier: Apache-2.0 */
/* See pulls.h. Never do requests and receives wait at the same time. */
#include "rpc/pulls.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

struct pulls {
    struct pulls_shell shell;
    uint64_t due_us; /* not after the first deadline of a receive */
    struct pulls_receive receives[LIMIT_RECEIVES];
    uint32_t receive_count;
    /* In the order in which they came. `bytes` is each one's place of `room`, which goes with it
     * when those behind move up. */
    struct calls_request queue[LIMIT_SERVICE_QUEUE];
    uint32_t queue_count;
    uint8_t *room;
};

nigh_status pulls_create(const struct pulls_shell *shell, struct pulls **out)
{
    struct pulls *pull = calloc(1, sizeof(*pull));

    if (pull == NULL) {
        return NIGH_NO_RESOURCES;
    }
    /* Most of it is never touched, where receives are at hand. */
    pull->room = malloc((size_t)LIMIT_SERVICE_QUEUE * LIMIT_CALL_BYTES);
    if (pull->room == NULL) {
        free(pull);
        return NIGH_NO_RESOURCES;
    }
    for (uint32_t n = 0; n < LIMIT_SERVICE_QUEUE; n++) {
        pull->queue[n].bytes = pull->room + (size_t)n * LIMIT_CALL_BYTES;
    }
    pull->shell = *shell;
    pull->due_us = UINT64_MAX;
    *out = pull;
    return NIGH_OK;
}

/* ---- receives ------------------------------------------------------------- */

static bool end_receive(struct pulls *pull, uint32_t n, nigh_status status,
                        const struct calls_request *request)
{
    struct pulls_receive was = pull->receives[n];

    pull->receive_count--;
    memmove(&pull->receives[n], &pull->receives[n + 1], (pull->receive_count - n) * sizeof(was));
    return pull->shell.deliver(pull->shell.context, &was, status, request);
}

void pulls_destroy(struct pulls *pull)
{
    if (pull == NULL) {
        return;
    }
    while (pull->receive_count > 0) {
        (void)end_receive(pull, 0, NIGH_CLOSED, NULL);
    }
    free(pull->room);
    free(pull);
}

bool pulls_cancel(struct pulls *pull, uint32_t cookie)
{
    for (uint32_t n = 0; n < pull->receive_count; n++) {
        if (pull->receives[n].cookie == cookie) {
            (void)end_receive(pull, n, NIGH_CANCELED, NULL);
            return true;
        }
    }
    return false;
}

bool pulls_tick(struct pulls *pull, uint64_t now_us)
{
    bool any = false;
    uint32_t n = 0;

    if (pull->due_us > now_us) {
        return false;
    }
    pull->due_us = UINT64_MAX;
    while (n < pull->receive_count) {
        uint64_t deadline_us = pull->receives[n].deadline_us;

        if (deadline_us <= now_us) {
            (void)end_receive(pull, n, NIGH_TIMEOUT, NULL);
            any = true;
            continue;
        }
        pull->due_us = deadline_us < pull->due_us ? deadline_us : pull->due_us;
        n++;
    }
    return any;
}

uint64_t pulls_due_us(const struct pulls *pull)
{
    return pull->due_us;
}

/* ---- the queue ------------------------------------------------------------ */

static void leave_queue(struct pulls *pull, uint32_t n)
{
    const uint8_t *room = pull->queue[n].bytes;

    pull->queue_count--;
    memmove(&pull->queue[n], &pull->queue[n + 1], (pull->queue_count - n) * sizeof(pull->queue[n]));
    pull->queue[pull->queue_count].bytes = room;
}

/* Whether a request is to be received; what is overdue is answered. */
static bool is_worth(struct pulls *pull, const struct calls_request *request, uint64_t now_us)
{
    if (request->id != 0 && !pull->shell.wanted(pull->shell.context, request->id)) {
        return false;
    }
    if (request->deadline_us > now_us) {
        return true;
    }
    if (request->id != 0) {
        pull->shell.refuse(pull->shell.context, request->id, NIGH_TIMEOUT);
    }
    return false;
}

/* Room is made by those for which nobody waits any more. */
static bool make_room(struct pulls *pull, uint64_t now_us)
{
    uint32_t n = 0;

    while (pull->queue_count == LIMIT_SERVICE_QUEUE && n < pull->queue_count) {
        if (is_worth(pull, &pull->queue[n], now_us)) {
            n++;
        } else {
            leave_queue(pull, n);
        }
    }
    return pull->queue_count < LIMIT_SERVICE_QUEUE;
}

static void enqueue(struct pulls *pull, const struct calls_request *request)
{
    struct calls_request *place = &pull->queue[pull->queue_count++];
    uint8_t *room = (uint8_t *)(uintptr_t)place->bytes;

    NIGH_ASSERT(request->count <= LIMIT_CALL_BYTES);
    *place = *request;
    place->bytes = room;
    if (request->count > 0) {
        memcpy(room, request->bytes, request->count);
    }
}

/* ---- both ----------------------------------------------------------------- */

void pulls_request(struct pulls *pull, const struct calls_request *request, uint64_t now_us)
{
    while (pull->receive_count > 0) {
        if (end_receive(pull, 0, NIGH_OK, request)) {
            return;
        }
    }
    if (make_room(pull, now_us)) {
        enqueue(pull, request);
    } else if (request->id != 0) {
        pull->shell.refuse(pull->shell.context, request->id, NIGH_OVERLOADED);
    }
}

void pulls_receive(struct pulls *pull, const struct pulls_receive *receive, uint64_t now_us)
{
    const struct pulls_shell *shell = &pull->shell;

    while (pull->queue_count > 0) {
        bool is_good = is_worth(pull, &pull->queue[0], now_us);

        if (is_good && !shell->deliver(shell->context, receive, NIGH_OK, &pull->queue[0])) {
            return; /* the request waits for another */
        }
        leave_queue(pull, 0);
        if (is_good) {
            return;
        }
    }
    if (receive->deadline_us <= now_us) {
        (void)shell->deliver(shell->context, receive, NIGH_TIMEOUT, NULL);
    } else if (pull->receive_count == LIMIT_RECEIVES) {
        (void)shell->deliver(shell->context, receive, NIGH_BUSY, NULL);
    } else {
        pull->receives[pull->receive_count++] = *receive;
        pull->due_us = receive->deadline_us < pull->due_us ? receive->deadline_us : pull->due_us;
    }
}

uint32_t pulls_queued(const struct pulls *pull)
{
    return pull->queue_count;
}

uint32_t pulls_receives(const struct pulls *pull)
{
    return pull->receive_count;
}
