/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See space_tpcc.h: what has to be there. All rows follow from which transactions are in the tables
 * of orders and of history, whatever their order was: so these are looked up first, each once and
 * as its worker wanted it; then all rows are compared with what they make of the tables as they
 * were loaded.
 */
#include "space_tpcc.h"

#include <string.h>

#define FIRST_QUANTITY 50

void tpcc_expect_nothing(struct tpcc *tpcc)
{
    for (uint32_t w = 0; w < WORLD_NODES; w++) {
        for (uint32_t d = 0; d < TPCC_DISTRICTS; d++) {
            int64_t *district = tpcc->expected[w][TPCC_DISTRICT + d].values;

            district[TPCC_NEXT_ORDER] = district[TPCC_NEXT_PAYMENT] = 1;
            tpcc->orders_from[w][d] = tpcc->payments_from[w][d] = 1;
        }
        for (uint32_t n = 0; n < TPCC_ITEMS; n++) {
            tpcc->expected[w][TPCC_STOCK + n].values[TPCC_QUANTITY] = FIRST_QUANTITY;
        }
    }
}

/* ---- what a transaction does ---------------------------------------------- */

static void expect_order(struct tpcc *tpcc, const struct tpcc_transaction *done)
{
    tpcc->expected[done->warehouse][TPCC_DISTRICT + done->district].values[TPCC_NEXT_ORDER]++;
    for (uint32_t n = 0; n < done->lines; n++) {
        const struct tpcc_wanted *line = &done->wanted[n];
        int64_t *stock = tpcc->expected[line->supplier][TPCC_STOCK + line->item].values;

        stock[TPCC_YTD] += line->quantity;
        stock[TPCC_ORDERED]++;
        stock[TPCC_REMOTE] += line->supplier != done->warehouse;
        /* 10 to 100: by 91 more, whenever it would be less. */
        stock[TPCC_QUANTITY] = (stock[TPCC_QUANTITY] - 10 + 91 - line->quantity) % 91 + 10;
    }
}

static void expect_payment(struct tpcc *tpcc, const struct tpcc_transaction *done)
{
    struct tpcc_row *warehouse = tpcc->expected[done->warehouse];
    int64_t *district = warehouse[TPCC_DISTRICT + done->district].values;
    uint32_t number = done->customer_district * TPCC_CUSTOMERS + done->customer;
    int64_t *customer = tpcc->expected[done->customer_warehouse][TPCC_CUSTOMER + number].values;

    warehouse[TPCC_WAREHOUSE].values[TPCC_YTD] += done->amount;
    district[TPCC_YTD] += done->amount;
    district[TPCC_NEXT_PAYMENT]++;
    customer[TPCC_YTD] += done->amount;
    customer[TPCC_BALANCE] -= done->amount;
    customer[TPCC_PAYMENTS]++;
}

/* ---- what is there -------------------------------------------------------- */

static const uint8_t *place_in(const struct tpcc *tpcc, uint32_t warehouse, uint32_t table,
                               uint64_t place, size_t bytes)
{
    return &tpcc->found[warehouse][table][0] + place * bytes;
}

static uint64_t place_of(uint32_t district, int64_t number)
{
    return (uint64_t)district * TPCC_ROOM + (uint64_t)(number - 1) % TPCC_ROOM;
}

/* The transaction of a row that was added; it is there for the first time, if that is new. */
static struct tpcc_transaction *find(struct tpcc *tpcc, uint64_t number, bool is_payment,
                                     uint32_t warehouse, uint32_t district, bool is_new)
{
    struct tpcc_transaction *found = &tpcc->transactions[number % TPCC_TRANSACTIONS];

    world_claim(tpcc->world,
                number > 0 && number < tpcc->next && found->is_payment == is_payment &&
                    found->warehouse == warehouse && found->district == district,
                "what was added is of no transaction");
    world_claim(tpcc->world, found->state != TPCC_ABSENT, "what was not done is there");
    world_claim(tpcc->world, found->state != TPCC_RUNS, "nobody knows what became of it");
    world_claim(tpcc->world, found->is_there != is_new,
                is_new ? "a transaction is there twice" : "what was there is another's");
    found->is_there = true;
    return found;
}

static void look_at_order(struct tpcc *tpcc, uint32_t warehouse, uint32_t district, int64_t id,
                          bool is_new)
{
    uint64_t place = place_of(district, id);
    struct tpcc_line lines[TPCC_LINES];
    struct tpcc_order order;
    struct tpcc_transaction *found;

    memcpy(&order, place_in(tpcc, warehouse, TPCC_ORDERS, place, sizeof(order)), sizeof(order));
    memcpy(lines, place_in(tpcc, warehouse, TPCC_ORDER_LINES, place, sizeof(lines)), sizeof(lines));
    found = find(tpcc, order.transaction, false, warehouse, district, is_new);
    world_claim(tpcc->world,
                order.id == id && order.customer == found->customer && order.lines == found->lines,
                "an order is not as it was made");
    for (uint32_t n = 0; n < TPCC_LINES; n++) {
        struct tpcc_line line = {0};

        if (n < found->lines) {
            line = (struct tpcc_line){.order = (uint32_t)id,
                                      .number = (uint16_t)(n + 1),
                                      .item = (uint16_t)found->wanted[n].item,
                                      .supplier = (uint16_t)found->wanted[n].supplier,
                                      .quantity = (uint16_t)found->wanted[n].quantity};
        }
        world_claim(tpcc->world, memcmp(&line, &lines[n], sizeof(line)) == 0,
                    "conditions 4 and 6: an order has the lines that it says");
    }
    if (is_new) {
        expect_order(tpcc, found);
    }
}

static void look_at_payment(struct tpcc *tpcc, uint32_t warehouse, uint32_t district, int64_t id,
                            bool is_new)
{
    struct tpcc_history history;
    struct tpcc_transaction *found;

    memcpy(&history,
           place_in(tpcc, warehouse, TPCC_HISTORY, place_of(district, id), sizeof(history)),
           sizeof(history));
    found = find(tpcc, history.transaction, true, warehouse, district, is_new);
    world_claim(tpcc->world,
                history.id == id && history.warehouse == found->customer_warehouse &&
                    history.district == found->customer_district &&
                    history.customer == found->customer && history.amount == found->amount,
                "a payment is not as it was made");
    if (is_new) {
        expect_payment(tpcc, found);
    }
}

static struct tpcc_row row_at(const struct tpcc *tpcc, uint32_t warehouse, uint32_t block)
{
    struct tpcc_row row;

    memcpy(&row, tpcc->found[warehouse][block], sizeof(row));
    return row;
}

/* In the place before that of the next one a transaction that was killed may have written; but not
 * where that is of one that no check found yet. */
static int64_t first_in(int64_t from, int64_t next)
{
    int64_t first = next - (int64_t)TPCC_ROOM + 1;

    first = from < first ? from : first;
    return first < 1 ? 1 : first;
}

/* What was added, up to what the district says. */
static void look_at_district(struct tpcc *tpcc, uint32_t warehouse, uint32_t district)
{
    struct tpcc_row row = row_at(tpcc, warehouse, TPCC_DISTRICT + district);
    int64_t *orders_from = &tpcc->orders_from[warehouse][district];
    int64_t *payments_from = &tpcc->payments_from[warehouse][district];
    int64_t order = row.values[TPCC_NEXT_ORDER], payment = row.values[TPCC_NEXT_PAYMENT];

    if (!world_claim(tpcc->world,
                     order >= *orders_from && order - *orders_from <= (int64_t)TPCC_ROOM &&
                         payment >= *payments_from &&
                         payment - *payments_from <= (int64_t)TPCC_ROOM,
                     "what was committed is not there: a district goes back")) {
        return;
    }
    for (int64_t id = first_in(*orders_from, order); id < order; id++) {
        look_at_order(tpcc, warehouse, district, id, id >= *orders_from);
    }
    for (int64_t id = first_in(*payments_from, payment); id < payment; id++) {
        look_at_payment(tpcc, warehouse, district, id, id >= *payments_from);
    }
    *orders_from = order;
    *payments_from = payment;
}

/* ---- conditions ----------------------------------------------------------- */

/* What TPC-C says of the rows alone. */
static void look_at_warehouse(struct tpcc *tpcc, uint32_t warehouse)
{
    int64_t ytd = 0;

    for (uint32_t n = 0; n < TPCC_DISTRICTS; n++) {
        ytd += row_at(tpcc, warehouse, TPCC_DISTRICT + n).values[TPCC_YTD];
    }
    world_claim(tpcc->world, row_at(tpcc, warehouse, TPCC_WAREHOUSE).values[TPCC_YTD] == ytd,
                "half of a transaction: condition 1: a warehouse has had what its districts have");
    for (uint32_t n = 0; n < TPCC_DISTRICTS * TPCC_CUSTOMERS; n++) {
        struct tpcc_row customer = row_at(tpcc, warehouse, TPCC_CUSTOMER + n);

        world_claim(tpcc->world, customer.values[TPCC_BALANCE] + customer.values[TPCC_YTD] == 0,
                    "half of a transaction: condition 12: a customer owes what was not paid");
    }
}

static void look_at_rows(struct tpcc *tpcc, uint32_t warehouse)
{
    for (uint32_t n = 0; n < TPCC_ORDERS; n++) {
        struct tpcc_row row = row_at(tpcc, warehouse, n);

        world_claim(tpcc->world, row.mark == 0, "a row has a mark, and nobody has it");
        world_claim(tpcc->world,
                    memcmp(row.values, tpcc->expected[warehouse][n].values, sizeof(row.values)) ==
                        0,
                    "half of a transaction: a row is not what its transactions make of it");
    }
}

void tpcc_look(struct tpcc *tpcc)
{
    uint32_t nodes = tpcc->world->rules.nodes;

    for (uint32_t w = 0; w < nodes; w++) {
        for (uint32_t d = 0; d < TPCC_DISTRICTS; d++) {
            look_at_district(tpcc, w, d);
        }
    }
    for (uint64_t n = 1; n < tpcc->next; n++) {
        world_claim(tpcc->world,
                    tpcc->transactions[n].state != TPCC_COMMITTED || tpcc->transactions[n].is_there,
                    "what was committed is not there");
    }
    for (uint32_t w = 0; w < nodes; w++) {
        look_at_warehouse(tpcc, w);
        look_at_rows(tpcc, w);
    }
}
