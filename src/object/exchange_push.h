/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that holders write into windows (exchange_push.c). For the exchange alone. */
#ifndef OBJECT_EXCHANGE_PUSH_H
#define OBJECT_EXCHANGE_PUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "nigh/status.h"

struct exchange;
struct exchange_link;
struct fabric_memory;
struct serve;
struct wire_window;

enum push_state {
    PUSH_FREE = 0,
    PUSH_GRANTED, /* its holder may write there */
    PUSH_FILLED   /* it has said that it did; what came is not copied yet */
};

/* A place in a link's staging memory that a holder may write one message to (exchange_push.c). */
struct push_window {
    enum push_state state;
    uint32_t serial; /* of its grants: an immediate is of the last one, or of none */
    uint64_t tag;    /* of the pull that it was granted for */
};

/* Where the peer of a link may write: memory of its own, under a key of its own. */
struct push_staging {
    struct fabric_memory *memory;
    uint8_t *bytes;
    uint32_t stride;
    uint32_t next;                /* after the one that was granted last */
    struct push_window windows[]; /* config.bulk_receives */
};

/* A message as it came: in a receive, or in a window. */
struct bulk_message {
    const uint8_t *bytes; /* the peer may still write there, if there is a window */
    uint32_t count;
    struct push_window *window; /* NULL: it was sent */
};

/* Staging memory for a link that has come up. NIGH_UNSUPPORTED: the fabric has no immediate data.
 */
nigh_status push_init(struct exchange_link *link);
/* Its endpoints are destroyed: nothing lands there any more. */
void push_fini(struct exchange_link *link);
/* Whether what is pulled over the link is to be pushed. */
bool push_is_chosen(const struct exchange_link *link);
uint32_t push_free(const struct exchange_link *link);
/* Bytes of an object that a window takes. */
uint32_t push_room(const struct exchange *exchange);
/* Grants so many, which are free, for the pull of a tag; `windows` is how the peer names them. */
void push_grant(struct exchange_link *link, uint64_t tag, uint32_t count,
                struct wire_window *windows);
/* Nothing will be written there: the peer was not told of them, */
void push_take_back(struct exchange_link *link, const struct wire_window *windows, uint32_t count);
/* or says that it writes no more of that pull. */
void push_release(struct exchange_link *link, uint64_t tag);
/* How many of a pull the peer may still write to, or has written to. */
uint32_t push_count(const struct exchange_link *link, uint64_t tag);
/* The peer says that it has written `count` bytes. False: to no window that it was granted, or
 * said so before, or more than goes in. */
bool push_arrived(struct exchange_link *link, uint32_t imm, uint32_t count,
                  struct bulk_message *message);
/* What came there was taken: it may be granted again. */
void push_taken(struct push_window *window);

/* Windows that a puller grants to a serve. False: they are none, or no room for them. */
bool push_accept(struct serve *serve, const struct wire_window *windows, uint32_t count);
/* The one that the next message goes to. */
const struct wire_window *push_next(const struct serve *serve);

#endif
