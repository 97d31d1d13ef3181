/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a pull, whichever way they come (exchange_transfer.c). For the exchange alone. */
#ifndef OBJECT_EXCHANGE_TRANSFER_H
#define OBJECT_EXCHANGE_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "object/exchange_wire.h"

struct exchange;
struct exchange_link;
struct pull;

/* The size from which on an object is to be lent rather than sent over a link, this time;
 * `located`: by a home that is asked where it is. */
uint64_t exchange_crossover(const struct exchange *exchange, struct exchange_link *link,
                            bool located);
uint8_t *transfer_place(const struct exchange *exchange, const struct pull *pull, uint64_t offset);
/* Sums data among the bytes that have just come, in order. */
void transfer_sum(struct exchange *exchange, struct pull *pull, uint64_t offset, uint64_t bytes);
/* All bytes are there, nothing is under way, and the holder's sums are known. */
void transfer_finish(struct exchange *exchange, struct pull *pull);
/* Says that a transfer is over: no more messages of a stream are wanted (what was granted for it is
 * adrift), or a loan is. False: the channel is full. */
bool transfer_say_over(struct exchange_link *link, enum wire_method method, uint64_t serve,
                       uint64_t now_us);
/* What the channel has no room for is said in a while; or its link ends, and takes the pull on. */
void transfer_later(struct exchange *exchange, struct pull *pull);
/* Memory is there, a holder is chosen: asks it. False: cannot now. */
bool transfer_ask(struct exchange *exchange, struct pull *pull, uint64_t now_us);
/* The answer of a holder, to a PULL or to a LOCATE. */
void transfer_pulled(struct exchange *exchange, struct pull *pull, const uint8_t *payload,
                     uint32_t bytes, uint64_t now_us);
/* The timer of a transfer, which could not go on when it would have. */
void transfer_look_again(struct exchange *exchange, struct pull *pull, uint64_t now_us);
/* Tells holders of what is not wanted, for which their channels had no room. */
void transfer_say_declined(struct exchange *exchange, uint64_t now_us);
/* Gives a transfer up: at once, or when its READs have ended and the holder can be told. */
void transfer_stop(struct exchange *exchange, struct pull *pull);

/* Now, or in a while: the pull goes on without what a holder lends or sends it. */
void transfer_decline(struct exchange_link *link, enum wire_method method, uint64_t serve,
                      uint64_t now_us);
/* Asks for what there is of a partial loan by now. False: the channel is full. */
bool transfer_ask_more(struct exchange *exchange, struct pull *pull, uint64_t now_us);

#endif
