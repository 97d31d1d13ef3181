/* SPDX-License-Identifier: Apache-2.0 */
/* The lane's memory as the fabric knows it (exchange_memory.c). For the exchange alone. */
#ifndef OBJECT_EXCHANGE_MEMORY_H
#define OBJECT_EXCHANGE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "nigh/status.h"

struct exchange;
struct fabric_memory;
struct fabric_slice;
struct wire_piece;

nigh_status memory_init(struct exchange *exchange);
void memory_fini(struct exchange *exchange);
/* The registration that an offset of the arena lies in, and how much of it is left there. */
struct fabric_memory *memory_at(const struct exchange *exchange, uint64_t offset, uint64_t *left);
/* Bytes of the arena as slices, cut where extents end; how many they are. */
uint32_t memory_slices(const struct exchange *exchange, uint64_t offset, uint64_t bytes,
                       struct fabric_slice *slices, uint32_t most);
/* The same as peers name them; what does not fit into `most` is left out. */
uint32_t memory_pieces(const struct exchange *exchange, uint64_t offset, uint64_t bytes,
                       struct wire_piece *pieces, uint32_t most);

/* A registration for one loan, and the piece that it is to peers. */
nigh_status memory_lend(const struct exchange *exchange, uint64_t offset, uint64_t bytes,
                        struct fabric_memory **memory, struct wire_piece *piece);

#endif
