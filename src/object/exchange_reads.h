/* SPDX-License-Identifier: Apache-2.0 */
/* What is lent to a pull, and read (exchange_reads.c). For the exchange alone. */
#ifndef OBJECT_EXCHANGE_READS_H
#define OBJECT_EXCHANGE_READS_H

#include <stdbool.h>
#include <stdint.h>

#include "nigh/status.h"

struct exchange;
struct exchange_link;
struct pull;
struct wire_pulled;

/* Copies the pieces of an answer. NIGH_PROTOCOL: they are not what they should be;
 * NIGH_NO_RESOURCES. */
nigh_status reads_take_pieces(struct pull *pull, const struct wire_pulled *pulled,
                              const uint8_t *pieces, uint32_t bytes);
/* The pieces are there, and right. */
void reads_begin(struct exchange *exchange, struct pull *pull, struct exchange_link *link,
                 const struct wire_pulled *pulled, uint64_t now_us);
/* More READs of a pull, as far as its window goes. */
void reads_go_on(struct exchange *exchange, struct pull *pull, uint64_t now_us);
/* A pull that was given up, or whose loan covers no more of it, and whose READs are over. */
void reads_drained(struct exchange *exchange, struct pull *pull, uint64_t now_us);
/* Where its loan lay is not needed any more. */
void reads_give_run(struct exchange *exchange, struct pull *pull);
void reads_free_runs(struct exchange *exchange);

#endif
