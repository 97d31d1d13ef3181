/* SPDX-License-Identifier: Apache-2.0 */
/* What is sent to a pull, or written into windows (exchange_messages.c). For the exchange alone. */
#ifndef OBJECT_EXCHANGE_MESSAGES_H
#define OBJECT_EXCHANGE_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "nigh/status.h"

struct exchange;
struct exchange_link;
struct pull;
struct wire_pulled;
struct wire_window;

/* How many messages a pull may be sent on top: as its bytes need, and as receives are free; where
 * it is pushed, to which windows. */
uint32_t messages_grant(struct exchange_link *link, struct pull *pull, struct wire_window *windows);
/* Grants messages for an object of which no more is known than its id, as far as receives are free:
 * the home that holds it may send them at once. Those that are pushed go to `windows`. */
void messages_offer(struct exchange_link *link, struct pull *pull, struct wire_window *windows);
/* The question with the offer was not asked. */
void messages_unoffer(struct exchange_link *link, struct pull *pull);
/* What a LOCATE or PULL granted, and its answer, which is none, has not used. */
void messages_unspent(struct pull *pull, nigh_status status, uint64_t now_us);
/* Receives for a probe: of the half that is not kept for pulls of what is known. False: so many are
 * not free. */
bool messages_take(struct exchange_link *link, uint32_t count);
/* Receives that were granted are free. */
void messages_drop(struct exchange_link *link, uint32_t count);
/* How many a link may ever have granted. */
uint32_t messages_most(const struct exchange *exchange);
/* Wants more messages of a stream. One that may send none looks again in a while: its channel is
 * full, or all receives are granted to others, who perhaps give them back unused. */
void messages_ask_more(struct exchange_link *link, struct pull *pull, uint64_t now_us);
/* Messages are under way; some, or all, are here already. */
void messages_begin(struct exchange *exchange, struct pull *pull, struct exchange_link *link,
                    const struct wire_pulled *pulled, uint64_t now_us);
void messages_on_bulk(struct exchange_link *link, const uint8_t *bytes, uint32_t count,
                      uint64_t now_us);
/* The peer wrote a message into a window, and names that. */
void messages_on_push(struct exchange_link *link, uint32_t imm, uint64_t count, uint64_t now_us);
/* Messages that waited for the answer to a LOCATE, which has come. */
void messages_take_held(struct exchange_link *link, uint64_t now_us);
/* What of a link's receives pulls left behind that went on: of those that are pushed, and others.
 */
uint32_t *messages_adrift(struct exchange_link *link, bool pushed);

#endif
