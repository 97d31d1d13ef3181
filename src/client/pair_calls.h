/* SPDX-License-Identifier: Apache-2.0 */
/* What pairs.c and pair_calls.c share. For no one else; all locked. */
#ifndef CLIENT_PAIR_CALLS_H
#define CLIENT_PAIR_CALLS_H

#include "client/op.h"
#include "client/pairs.h"

/* The pair through which a service is called; NULL: there is none. */
struct client_pair *pair_find(struct client_pairs *pairs, uint64_t hash);

/* Ends a pair and the calls that are under way there, and says so to the node; `is_lost`: whose
 * session has ended. */
void pair_end(nigh_client *client, struct client_pair *pair, bool is_lost);

/* The same of one whose other side wrote what cannot be. */
void pair_broken(nigh_client *client, struct client_pair *pair);

/* Takes in what was answered. False: the pair has ended of it. */
bool pair_take_replies(nigh_client *client, struct client_pair *pair);

/* A call that no answer will come for. */
void pair_lost_call(struct client_op *op);

/* A call that was told roughly how long it has gets the deadline that it was called with. */
void pair_own_deadline(struct client_op *op);

/* When who sleeps on the client's descriptor is woken for a deadline. */
void pairs_set_timer(const struct client_pairs *pairs);

/* Gives requests to receives that wait. */
void pair_feed_receives(nigh_service *service);

#endif
