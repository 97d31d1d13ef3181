/* SPDX-License-Identifier: Apache-2.0 */
/* See space_lru.h: a list of blocks, the last one used first. */
#include "space_lru.h"

#include <stdlib.h>

#include "base/check.h"

static void lru_out(struct lru *lru, uint32_t block)
{
    lru->next[lru->last[block]] = lru->next[block];
    lru->last[lru->next[block]] = lru->last[block];
}

static void lru_in(struct lru *lru, uint32_t block)
{
    uint32_t ends = lru->blocks;

    lru->next[block] = lru->next[ends];
    lru->last[block] = ends;
    lru->last[lru->next[ends]] = block;
    lru->next[ends] = block;
}

bool lru_use(struct lru *lru, uint32_t block)
{
    bool hit = lru->is_in[block];

    if (hit) {
        lru_out(lru, block);
    } else if (lru->used == lru->room) {
        uint32_t victim = lru->last[lru->blocks];

        lru_out(lru, victim);
        lru->is_in[victim] = false;
    } else {
        lru->used++;
    }
    lru_in(lru, block);
    lru->is_in[block] = true;
    return hit;
}

void lru_begin(struct lru *lru, uint32_t blocks, uint32_t room)
{
    *lru = (struct lru){.blocks = blocks, .room = room};
    lru->next = malloc((blocks + 1) * sizeof *lru->next);
    lru->last = malloc((blocks + 1) * sizeof *lru->last);
    lru->is_in = calloc(blocks + 1, sizeof *lru->is_in);
    NIGH_ASSERT(lru->next != NULL && lru->last != NULL && lru->is_in != NULL);
    lru->next[blocks] = lru->last[blocks] = blocks;
}

void lru_end(struct lru *lru)
{
    free(lru->next);
    free(lru->last);
    free(lru->is_in);
}
