/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the database is consistent when nobody works on it: TPC-C's conditions (clause 3.3.2) of
 * all that New-Order and Payment touch, and that stock has what orders took of it.
 */
#ifndef CHECK_H
#define CHECK_H

#include "database.h"

/* Of one warehouse's rows, or of several: what has to be the same, and how many there are. */
struct check_sums {
    uint64_t faults;                        /* that were found, and said */
    uint64_t orders, payments;              /* since the load */
    uint64_t lines, remote_lines, quantity; /* of these orders, */
    uint64_t stock_lines, stock_remote;     /* and what stock says of them */
    int64_t stock_quantity;
    uint64_t customer_payments;  /* since the load, of whatever warehouse */
    int64_t paid, customer_paid; /* cents, with what was paid at the load */
};

/* Of what a dead one left it writes what is to be written. */
struct check_sums check_warehouse(const struct database *database, struct store *store,
                                  uint32_t warehouse);

void check_add(struct check_sums *all, const struct check_sums *one);

/* What is only so of all warehouses together; how many faults there are in all. */
uint64_t check_all(const struct check_sums *all);

#endif
