/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transaction on rows by strict two-phase locking: all its rows are known and locked before it
 * begins, in the order of their addresses, so that no two ever wait for each other; and are let go
 * when what it changed is written. Where a lock is not had it is aborted: it has changed nothing.
 */
#ifndef TRANSACTION_H
#define TRANSACTION_H

#include "store.h"

enum {
    ROWS_MAX = 3 + LINES_MAX /* of a New-Order: warehouse, district, customer; stock of each line */
};

struct row {
    uint64_t address;
    bool alone;
    uint32_t bytes;   /* of it that are read */
    uint32_t changed; /* of these, from its begin, that are to be written */
    const void *tail; /* and of its second block */
    uint32_t tail_bytes;
    _Alignas(8) unsigned char copy[ROW_BYTES];
};

struct transaction {
    struct store *store;
    uint32_t count;
    struct row rows[ROWS_MAX];
};

void transaction_begin(struct transaction *transaction, struct store *store);

/* A row that it is to have, once, though it be named twice; alone: to change it. */
struct row *transaction_add(struct transaction *transaction, uint64_t address, uint32_t bytes,
                            bool alone);

/* All of them are locked, and their copies there; or none are. */
bool transaction_lock(struct transaction *transaction);

/* What was changed is written, and all are let go; or nothing is, and they are. */
void transaction_commit(struct transaction *transaction);
void transaction_roll_back(struct transaction *transaction);

#endif
