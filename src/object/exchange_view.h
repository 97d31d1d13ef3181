/* SPDX-License-Identifier: Apache-2.0 */
/* Which view the exchange goes by (exchange_view.c). For the exchange alone. */
#ifndef OBJECT_EXCHANGE_VIEW_H
#define OBJECT_EXCHANGE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "cluster/agreed.h"

struct directory_key;
struct exchange;
struct exchange_link;
struct rpc_request;

/* Views that differ from the one for which everybody was heard, with it. */
#define EXCHANGE_VIEWS 8u

/* Which view an exchange goes by (exchange_view.c). */
struct exchange_views {
    uint64_t epoch;
    struct agreed_set in;
    bool is_active;
    bool is_settled; /* everybody was heard in it */
    bool quorum;
    /* The last view whose keys are all heard of, and those since: what a node was the home of in
     * each of them it never stopped to be. 0: it has to hear of everything. */
    struct agreed_set since[EXCHANGE_VIEWS];
    uint32_t count;
    uint64_t own_shards;
    uint64_t told;                   /* shards that all who count have announced in this view */
    uint64_t announced[LIMIT_NODES]; /* ... that each has */
    /* By epoch, for what the directory has yet to forget. */
    struct {
        uint64_t epoch;
        struct agreed_set in;
    } past[EXCHANGE_VIEWS];
};

void views_init(struct exchange *exchange);
/* A link is up: its peer is told our view before anything else. */
void views_link_up(struct exchange_link *link);
/* Its peer tells its own. */
void views_on_request(struct exchange_link *link, const struct rpc_request *request);
/* Says what is owed; true if it did something. */
bool views_turn(struct exchange *exchange);
/* The home of a key in the present view. */
uint32_t views_home(const struct exchange *exchange, uint64_t key_hash);
/* Whether this node became the home of a key since everybody was heard, and may not admit anything
 * of it yet, as the view is not active. */
bool views_is_early(const struct exchange *exchange, const struct directory_key *key);
/* A member (or this node) has announced these shards to the end. */
void views_announced(struct exchange *exchange, uint32_t rank, uint64_t shards);
/* Something that a peer announced was refused: it comes again, with all that it has. */
void views_refused_early(struct exchange_link *link);
/* The directory hears that its peer is up, once. */
void views_meet(struct exchange_link *link);
/* Who counts has changed. */
void views_find_told(struct exchange *exchange);
/* For the directory. */
bool views_untold(void *context, uint32_t from, const struct directory_key *key);
bool views_keeps(void *context, uint64_t epoch, const struct directory_key *key);

#endif
