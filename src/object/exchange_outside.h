/* SPDX-License-Identifier: Apache-2.0 */
/* What this lane has to do with a directory outside (exchange_outside.c). For the exchange alone.
 */
#ifndef OBJECT_EXCHANGE_OUTSIDE_H
#define OBJECT_EXCHANGE_OUTSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "cluster/outside.h"
#include "nigh/status.h"

struct exchange;
struct link_peer;

#define OUTSIDE_BATCH 64u /* news of what is here that are told at once */

/* What this lane has to do with it (exchange_outside.c). Every key's home is then this node. */
struct outside_side {
    struct outside with;
    bool used;
    uint32_t life;  /* that this lane knows; 0: it is not reached */
    uint32_t round; /* of its BEGINs */
    bool is_ending;
    bool owes; /* drops that it has to be asked for */
    bool is_sweeping;
    uint32_t answers; /* of a batch under way */
    nigh_status statuses[OUTSIDE_BATCH];
    uint32_t incarnations[LIMIT_NODES]; /* of the members, as far as they were heard of */
    uint32_t graves[LIMIT_NODES];       /* up to these they are dead, which is to be told; 0: no */
    uint32_t swept;                     /* the rank that is */
};

/* Whose an answer is. */
enum outside_use {
    OUTSIDE_FOR_NEWS = 1, /* token: the place in the batch */
    OUTSIDE_FOR_END,
    OUTSIDE_FOR_PULL,  /* its tag */
    OUTSIDE_FOR_WHERE, /* its address */
    OUTSIDE_FOR_ERASE, /* its ticket */
    OUTSIDE_FOR_SWEEP, /* the rank */
    OUTSIDE_FOR_OWED,
    OUTSIDE_FOR_NOBODY
};

void outside_init(struct exchange *exchange);
bool outside_turn(struct exchange *exchange);
uint64_t outside_due_us(const struct exchange *exchange);

/* False: it is not reached, or has enough to do. */
bool outside_ask(struct exchange *exchange, struct outside_ask *ask);

bool outside_is_up(const struct exchange *exchange);

void outside_peer_up(struct exchange *exchange, const struct link_peer *peer);
void outside_peer_dead(struct exchange *exchange, uint32_t rank);

/* exchange_where.c: it has answered. */
void where_told(struct exchange *exchange, const struct outside_news *news);

#endif
