/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What hiredis is let make of what a server says. hiredis checks some of it with assert(): a reply
 * that nobody asked for, or a published message of another shape, would end the process; and it
 * makes as large an array as it is told of. Here each object of a reply is looked at before it is
 * made: what would do that ends the connection instead.
 */
#ifndef NODE_REDIS_GUARD_H
#define NODE_REDIS_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include <hiredis/async.h>

/* Of a reply; a published message has three. */
#define REDIS_ELEMENTS 16u

/* Of a reply that is not all there yet; the longest that the script gives is far shorter. */
#define REDIS_UNREAD_BYTES ((size_t)1 << 20)

/* Told once, with what the server said where that is an error. */
typedef void redis_refused(void *context, const char *what, const char *text, size_t count);

struct redis_guard {
    redisAsyncContext *of;
    redisReplyObjectFunctions made;      /* hiredis's own */
    redisReplyObjectFunctions functions; /* what it calls instead */
    size_t elements;                     /* of the reply under way */
    redis_refused *refused;
    void *context;
};

/* Of a context that is new; the guard stays where it is as long as that lives. */
void redis_guard_init(struct redis_guard *guard, redisAsyncContext *of, redis_refused *refused,
                      void *context);

/* After each read: no reply is longer than it may be. */
bool redis_guard_is_bounded(const struct redis_guard *guard);

#endif
