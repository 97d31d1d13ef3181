/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal: New-Orders (TPC-C, clause 2.4) and Payments (2.5) of its own warehouse, one behind
 * the other, in the ratio in which the specification has them, without pauses. What was aborted is
 * done again, from the begin and with the same input.
 */
#ifndef WORK_H
#define WORK_H

#include "database.h"

/* What came of it; may lie in memory that processes share. */
struct work_report {
    double begin_s, end_s;
    uint64_t new_orders, payments, rolled_back; /* by the user, in one of a hundred New-Orders */
    uint64_t aborted;                           /* for a lock that another had */
    int64_t total;                              /* cents of all orders */
};

enum outcome {
    OUTCOME_COMMITTED,
    OUTCOME_ROLLED_BACK,
    OUTCOME_ABORTED
};

struct terminal {
    const struct database *database;
    struct store *store;
    struct chance chance;
    uint32_t warehouse;
    struct work_report *report;
};

/* death: where it dies in the first change of rows behind the half of them. */
void work(struct terminal *terminal, uint64_t transactions, enum death death);

/* Each with an input of its own. */
enum outcome new_order(struct terminal *terminal);
enum outcome payment(struct terminal *terminal);

/* For one that was aborted: before its try of that number. */
void work_again(struct terminal *terminal, uint32_t tries);

/* Another warehouse than the terminal's, or that if there is no other. */
uint32_t work_elsewhere(struct terminal *terminal);
uint32_t work_customer(struct terminal *terminal);

#endif
