/* SPDX-License-Identifier: Apache-2.0 */
/* Large objects that many pull (exchange_tree.c). For the exchange alone. */
#ifndef OBJECT_EXCHANGE_TREE_H
#define OBJECT_EXCHANGE_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "nigh/status.h"

struct directory_key;
struct directory_object;
struct exchange;
struct exchange_link;
struct pull;
struct serve;
struct store_sight;
struct wire_pull;

/* Whether a whole object has as many pullers, besides who asks, as it may have at once. */
bool tree_is_full(struct exchange_link *asker, const struct directory_key *key,
                  const struct directory_object *object);
/* Sends who asks for it on, if so. */
bool tree_send_on(struct exchange_link *asker, uint64_t call, const struct wire_pull *wanted,
                  const struct store_sight *sight, const struct directory_object *object);
/* Whether others may be lent what a pull has so far. */
bool tree_is_lendable(const struct exchange *exchange, const struct pull *pull);
/* Serves what is being pulled here, as far as it has come. NIGH_OK: replied. */
nigh_status tree_serve(struct exchange_link *link, uint64_t call, const struct wire_pull *wanted,
                       uint64_t now_us);
/* More of a loan. NIGH_OK: replied, or will be. */
nigh_status tree_extend(struct exchange_link *link, uint64_t call, const struct wire_pull *wanted,
                        uint64_t now_us);
/* A DONE waits until the sums have agreed here. */
void tree_park_done(struct serve *serve, uint64_t now_us);
/* A serve ends: nothing of it waits any more. */
void tree_serve_ended(struct exchange *exchange, struct serve *serve);
/* A pull has come further; is whole, and right; or lets its memory go, and why. */
void tree_advanced(struct exchange *exchange, struct pull *pull);
void tree_whole(struct exchange *exchange, struct pull *pull);
void tree_cut(struct exchange *exchange, struct pull *pull, nigh_status why);
/* What came is not what was sealed: it begins again. */
void tree_spoil(struct exchange *exchange, struct pull *pull);
bool tree_turn(struct exchange *exchange, uint64_t now_us);
/* A holder sends the pull on to others. */
void tree_sent_on(struct exchange *exchange, struct pull *pull, const uint8_t *payload,
                  uint32_t bytes, uint64_t now_us);
/* None of those that it was sent to serves it: it goes back to who sent it. False: it was not. */
bool tree_back(struct exchange *exchange, struct pull *pull);
/* All that a partial loan covers has come: asks for more, or leaves. */
void tree_go_on(struct exchange *exchange, struct pull *pull, uint64_t now_us);
/* Its holder gives no more. */
void tree_seat_lost(struct exchange *exchange, struct pull *pull, nigh_status status,
                    uint64_t now_us);

#endif
