/* SPDX-License-Identifier: Apache-2.0 */
/* What the exchange keeps for who looks after the node (exchange_show.c). For the exchange alone.
 */
#ifndef OBJECT_EXCHANGE_SHOW_H
#define OBJECT_EXCHANGE_SHOW_H

#include <stdint.h>

#include "memory/session_show.h"

struct exchange;
struct pull;

/* A transfer that ended, and when. */
struct shown_past {
    struct session_show_transfer record;
    uint64_t ended_us;
};

/* All bytes of a pull are here, and right. Before its memory is the store's again. */
void show_note_pulled(struct exchange *exchange, const struct pull *pull);

#endif
