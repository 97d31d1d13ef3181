/* SPDX-License-Identifier: Apache-2.0 */
/* What a home asks of all members before it says that there is no such object (exchange_hear.c).
 * For the exchange alone. */
#ifndef OBJECT_EXCHANGE_HEAR_H
#define OBJECT_EXCHANGE_HEAR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "cluster/directory.h"

struct exchange;
struct exchange_link;
struct rpc_request;
struct wire_delete;

/* A delete of what this home does not know, until everybody was heard. */
struct unheard {
    struct list_node place; /* a hearing's `now` or `next` */
    struct directory_key key;
    uint64_t ticket;
};

/* What a home asks of all members before it says that there is no such object. */
struct hearing {
    struct list now;  /* deletes that wait for the answers under way */
    struct list next; /* and those that came since these were asked for */
    uint32_t awaited;
    bool is_unsure;    /* somebody cannot say, or was not asked */
    uint64_t own_mark; /* this node's own news are told when so many are */
};

void hearing_init(struct hearing *hearing);
/* A delete at this home: as directory_delete, but NIGH_NOT_FOUND only once everybody was heard, by
 * erase_deleted; NIGH_BUSY if somebody could not be. `unheard` is the hearing's until then. */
nigh_status hear_delete(struct exchange *exchange, struct unheard *unheard,
                        const struct wire_delete *said, uint32_t asker, uint64_t ticket,
                        uint64_t now_us);
/* The delete is over before that; whether it waited. */
bool hear_forget(struct unheard *unheard);
bool hear_turn(struct exchange *exchange, uint64_t now_us);
uint64_t hear_due_us(const struct exchange *exchange);
/* A home asks. */
void hear_on_request(struct exchange_link *link, const struct rpc_request *request);
/* News were told: answers the home that waits for these. */
void hear_answer(struct exchange_link *link);

#endif
