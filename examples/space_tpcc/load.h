/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the tables as TPC-C has them to begin with (clause 4.3.3). */
#ifndef LOAD_H
#define LOAD_H

#include "database.h"

enum {
    AMOUNT_OF_FIRST = 1000 /* cents of each customer's first payment, which he owes again */
};

/* Of a district's first orders those from here on are not delivered. */
static inline uint32_t first_undelivered(const struct database *database)
{
    return database->customers * 7 / 10 + 1;
}

void load_items(const struct database *database, struct store *store, struct chance *chance);
void load_warehouse(const struct database *database, struct store *store, uint32_t warehouse,
                    struct chance *chance);

#endif
