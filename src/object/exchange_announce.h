/* SPDX-License-Identifier: Apache-2.0 */
/* What is told to homes of what is here (exchange_announce.c). For the exchange alone. */
#ifndef OBJECT_EXCHANGE_ANNOUNCE_H
#define OBJECT_EXCHANGE_ANNOUNCE_H

#include <stdbool.h>
#include <stdint.h>

#include "nigh/status.h"

struct birth;
struct directory_object;
struct exchange;
struct exchange_link;
struct outside_news;
struct rpc_request;
struct store_sight;
struct wire_announce;

/* What is to be announced to one home: a queue, and a walk through all that is here. */
struct announcer {
    struct wire_announce *queue; /* a ring */
    uint32_t size;
    uint32_t head;
    uint32_t count;
    uint32_t under_way; /* the first of the queue, in a call */
    uint64_t told;      /* of all that were in the queue, those that left it */
    bool walking;
    bool walk_again; /* the queue overflowed: from the start, when this walk is over */
    bool repeat;     /* the first walk after the link came up, or after ANNOUNCING: ends with
                        ANNOUNCED */
    bool lost;       /* news of what is gone were: the next walk begins with ANNOUNCING */
    bool begins;     /* it has to say that before it looks at anything */
    uint32_t pool;
    uint32_t cursor;
    uint64_t retry_us; /* the channel had no room: not before this */
    /* The home had no room: it is told of all that was born here once more. */
    bool again;             /* by the walk under way, up to the first that is refused */
    uint64_t again_us;      /* when that begins; 0: nothing was refused since the last */
    uint64_t again_wait_us; /* how long was waited for the last; 0: that had no refusal */
};

nigh_status announcer_init(struct announcer *announcer, uint32_t size);
void announcer_fini(struct announcer *announcer);
/* Walks through all that is here; `repeat`: the link just came up. */
void announcer_walk(struct announcer *announcer, bool repeat);
/* There is a new view: copies that only an earlier home was to hear of go. */
void announce_homes_moved(struct exchange *exchange);
/* Sends, or carries out, what there is; true if it did something. */
bool announce_turn(struct exchange *exchange, uint64_t now_us);
uint64_t announce_due_us(const struct exchange *exchange);
/* Something is held, or no longer: to its home. */
void announce_object(struct exchange *exchange, uint32_t pool, const uint8_t *id, uint64_t hash,
                     const struct directory_object *object, uint32_t flags);
void announce_sealed(void *context, const struct store_sight *sight);
void announce_gone(void *context, uint32_t pool, const uint8_t *id, uint64_t hash,
                   const struct birth *birth);
nigh_status announce_claim(void *context, const struct store_sight *sight, bool tell);
/* Requests of peers. */
void announce_on_request(struct exchange_link *link, const struct rpc_request *request,
                         uint64_t now_us);

/* The same, of a directory outside. */
void announce_outside_begins(struct exchange *exchange);
void announce_outside_told(struct exchange *exchange, uint64_t now_us);
void announce_outside_ended(struct exchange *exchange, const struct outside_news *news);

#endif
