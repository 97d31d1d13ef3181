/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a home share: home.c takes what comes, home_asks.c makes changes of asks,
 * home_rounds.c carries them out. */
#ifndef REGION_HOME_INTERNAL_H
#define REGION_HOME_INTERNAL_H

#include <string.h>

#include "base/check.h"
#include "region/home.h"

static inline bool home_is_changing(const struct region_home *home)
{
    return home->change.round != REGION_ROUND_NONE;
}

static inline bool home_is_alive(const struct region_home *home, uint32_t rank)
{
    return region_set_has(&home->config.alive, rank);
}

/* Whether a change may still be given up. */
static inline bool home_may_abort(const struct region_home *home)
{
    return home->change.round < REGION_ROUND_COMMIT;
}

void home_send(struct region_home *home, struct region_message *message);
void home_answer(struct region_home *home, struct region_ask *ask, nigh_status status);

/* ---- home_asks.c: `next` is what the region is to be -------------------- */

/* Begins a change: next is a copy of now, of a new version. */
void home_begin_change(struct region_home *home, struct region_ask *ask);
/* What an ask is to change. Other than NIGH_OK: nothing is begun. */
nigh_status home_plan(struct region_home *home, struct region_ask *ask);
/* What is committed, and waits for chunks to be opened or given back, gives way to a FREE: that
 * needs neither, and one that opens may wait for memory without end. True: the FREE is begun. */
bool home_give_way(struct region_home *home);
/* Whether what is under way gives way to it. */
bool home_passes(const struct region_home *home, const struct region_ask *ask);
/* Chunks whose holders are dead, or do not have them. */
bool home_plan_losses(struct region_home *home);
/* All chunks get new handles. */
void home_plan_fence(struct region_home *home);
/* All holders are to go by what was committed, under a new version. */
void home_plan_settle(struct region_home *home);

/* ---- home_rounds.c -------------------------------------------------------- */

/* Begins what waits, and ends what need not be waited for, until something is waited for. */
void home_go_on(struct region_home *home);
/* What the round wants of a member. */
void home_send_round(struct region_home *home, uint32_t rank);
/* A holder has answered. */
void home_done(struct region_home *home, const struct region_message *message);

#endif
