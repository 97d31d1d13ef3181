/* SPDX-License-Identifier: Apache-2.0 */
/* See transaction.h. */
#include "transaction.h"

#include "common.h"

void transaction_begin(struct transaction *transaction, struct store *store)
{
    transaction->store = store;
    transaction->count = 0;
}

struct row *transaction_add(struct transaction *transaction, uint64_t address, uint32_t bytes,
                            bool alone)
{
    struct row *row = transaction->rows;

    while (row < transaction->rows + transaction->count && row->address != address) {
        row++;
    }
    if (row == transaction->rows + ROWS_MAX) {
        fail("a transaction", "has too many rows");
    }
    if (row == transaction->rows + transaction->count) {
        transaction->count++;
        row->address = address;
        row->bytes = bytes;
        row->alone = false;
        row->changed = row->tail_bytes = 0;
        row->tail = NULL;
    }
    row->alone |= alone;
    return row;
}

static void let_go(struct transaction *transaction, struct row **rows, uint32_t count)
{
    while (count > 0) {
        transaction->store->unlock(transaction->store, rows[--count]->address);
    }
}

/* All rows, by their addresses. */
static void sort(struct transaction *transaction, struct row **rows)
{
    for (uint32_t i = 0; i < transaction->count; i++) {
        struct row *row = &transaction->rows[i];
        uint32_t at = i;

        while (at > 0 && rows[at - 1]->address > row->address) {
            rows[at] = rows[at - 1];
            at--;
        }
        rows[at] = row;
    }
}

bool transaction_lock(struct transaction *transaction)
{
    struct store *store = transaction->store;
    struct row *rows[ROWS_MAX];

    sort(transaction, rows);
    for (uint32_t i = 0; i < transaction->count; i++) {
        if (!store->lock(store, rows[i]->address, rows[i]->alone, rows[i]->copy, rows[i]->bytes)) {
            let_go(transaction, rows, i);
            return false;
        }
    }
    return true;
}

void transaction_roll_back(struct transaction *transaction)
{
    struct row *rows[ROWS_MAX];

    sort(transaction, rows);
    let_go(transaction, rows, transaction->count);
}

void transaction_commit(struct transaction *transaction)
{
    struct change changes[ROWS_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < transaction->count; i++) {
        const struct row *row = &transaction->rows[i];

        if (row->changed > 0) {
            changes[count++] =
                (struct change){row->address, row->copy, row->changed, row->tail, row->tail_bytes};
        }
    }
    transaction->store->commit(transaction->store, changes, count);
    transaction_roll_back(transaction); /* of which nothing is left to be undone */
}
