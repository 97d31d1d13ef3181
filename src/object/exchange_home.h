/* SPDX-License-Identifier: Apache-2.0 */
/* What a home is asked by its peers, and asks of holders (exchange_home.c). For the exchange alone.
 */
#ifndef OBJECT_EXCHANGE_HOME_H
#define OBJECT_EXCHANGE_HOME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "object/exchange_hear.h"
#include "object/exchange_wire.h"

struct exchange;
struct exchange_link;
struct rpc_request;

/* A DELETE of a peer that waits for holders. */
struct asked_delete {
    struct list_node place;     /* of its link; free list */
    struct exchange_link *link; /* NULL: gone; its answer goes nowhere */
    uint64_t call;
    uint32_t rank;
    struct unheard unheard;
};

/* A DROP under way, or one for this node itself that waits for its turn. */
struct drop {
    struct list_node place; /* local_drops; free list */
    struct exchange *exchange;
    uint32_t rank;
    struct directory_key key;
    struct birth birth;
};

void home_on_locate(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us);
void home_on_unwait(struct exchange_link *link, const struct rpc_request *request);
void home_on_delete(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us);
void home_link_down(struct exchange_link *link);
nigh_status home_init(struct exchange *exchange);
void home_fini(struct exchange *exchange);
/* Drops of this node's own that its directory asked for. */
bool home_turn(struct exchange *exchange, uint64_t now_us);

struct directory_answer wire_to_answer(const struct wire_located *located);
struct wire_located wire_from_answer(const struct directory_answer *answer);

#endif
