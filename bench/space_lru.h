/* SPDX-License-Identifier: Apache-2.0 */
/* Exact LRU: of all blocks those that were used last, which hears of every use. */
#ifndef BENCH_SPACE_LRU_H
#define BENCH_SPACE_LRU_H

#include <stdbool.h>
#include <stdint.h>

struct lru {
    uint32_t *next, *last; /* by block; that behind the blocks is the list's ends */
    bool *is_in;
    uint32_t blocks, used, room;
};

void lru_begin(struct lru *lru, uint32_t blocks, uint32_t room);
void lru_end(struct lru *lru);

/* Whether the block was there; it is from here on. */
bool lru_use(struct lru *lru, uint32_t block);

#endif
