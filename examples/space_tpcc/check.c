/* SPDX-License-Identifier: Apache-2.0 */
/* See check.h. */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "load.h"

enum {
    LOOK_BEHIND = 8 /* the last order, for more that should not be there */
};

struct checked {
    const struct database *database;
    struct store *store;
    uint32_t warehouse, district; /* which is looked at; 0: the warehouse itself */
    struct check_sums sums;
};

static void expect(struct checked *checked, bool is_so, const char *condition)
{
    if (!is_so) {
        fprintf(stderr, "space_tpcc: warehouse %" PRIu32 ", district %" PRIu32 ": not so: %s\n",
                checked->warehouse, checked->district, condition);
        checked->sums.faults++;
    }
}

/* A row, as it is when it is nobody's. */
static void look_at(struct checked *checked, uint64_t address, void *row, uint32_t bytes)
{
    struct store *store = checked->store;
    uint64_t mark;

    store->read(store, address, row, bytes);
    memcpy(&mark, row, sizeof mark);
    if (mark != 0) {
        while (!store->lock(store, address, true, row, bytes)) {
        }
        store->unlock(store, address);
    }
}

/* ---- orders --------------------------------------------------------------- */

static void check_lines(struct checked *checked, const struct order *order)
{
    struct order_line lines[LINES_MAX];
    bool is_new = order->id > checked->database->customers, is_delivered = order->carrier != 0;
    uint32_t found = 0;

    checked->store->read(
        checked->store,
        line_rows(checked->database, checked->warehouse, checked->district, order->id), lines,
        sizeof lines);
    for (uint32_t i = 0; i < LINES_MAX && lines[i].order != 0; i++) {
        expect(checked,
               lines[i].order == order->id && lines[i].district == checked->district &&
                   lines[i].warehouse == checked->warehouse && lines[i].number == i + 1,
               "a line of an order is its own");
        expect(checked, (lines[i].delivered != 0) == is_delivered,
               "condition 7: a line is delivered if its order is");
        found++;
        if (is_new) {
            checked->sums.remote_lines += lines[i].supplier != checked->warehouse;
            checked->sums.quantity += lines[i].quantity;
        }
    }
    expect(checked, found == order->lines,
           "conditions 4 and 6: an order has as many lines as it says");
    checked->sums.lines += is_new ? found : 0;
}

/* What is in a district's tables of orders. */
struct found {
    uint32_t orders, last_order;
    uint32_t undelivered, first_undelivered, last_undelivered;
};

/* The slot of a number; of one that is not there yet it may hold what a dead one began. */
static void check_order(struct checked *checked, uint32_t id, uint32_t next, struct found *found)
{
    const struct database *database = checked->database;
    uint32_t warehouse = checked->warehouse, district = checked->district;
    struct new_order undelivered;
    struct order order;

    checked->store->read(checked->store, order_row(database, warehouse, district, id), &order,
                         sizeof order);
    checked->store->read(checked->store, new_order_row(database, warehouse, district, id),
                         &undelivered, sizeof undelivered);
    if (id == next) {
        return;
    }
    if (undelivered.order != 0) {
        found->first_undelivered = found->undelivered++ == 0 ? id : found->first_undelivered;
        found->last_undelivered = id;
    }
    if (order.id == 0) {
        return;
    }
    found->orders++;
    found->last_order = id;
    expect(checked,
           order.id == id && order.district == district && order.warehouse == warehouse &&
               (undelivered.order == 0 || undelivered.order == id),
           "an order is its own");
    expect(checked, (order.carrier == 0) == (undelivered.order != 0),
           "condition 5: an order has no carrier if it is in NEW-ORDER");
    check_lines(checked, &order);
}

static void check_orders(struct checked *checked, uint32_t next)
{
    uint32_t room = checked->database->room;
    struct found found = {0};

    for (uint32_t id = 1; id <= room && id < next + LOOK_BEHIND; id++) {
        check_order(checked, id, next, &found);
    }
    expect(checked, found.last_order == next - 1 && found.orders == next - 1,
           "condition 2: the next order's number is behind that of the last one");
    expect(checked, found.last_undelivered == next - 1,
           "condition 2: and of the last one in NEW-ORDER");
    expect(checked,
           found.last_undelivered - found.first_undelivered + 1 == found.undelivered &&
               found.first_undelivered == first_undelivered(checked->database),
           "condition 3: NEW-ORDER has all from the first to the last");
    checked->sums.orders += next - 1 - checked->database->customers;
}

/* ---- a district ----------------------------------------------------------- */

/* What was paid there. */
static int64_t check_history(struct checked *checked, uint32_t count)
{
    struct history history;
    int64_t paid = 0;

    for (uint32_t number = 1; number <= count; number++) {
        checked->store->read(
            checked->store,
            history_row(checked->database, checked->warehouse, checked->district, number), &history,
            sizeof history);
        expect(checked,
               history.district == checked->district && history.warehouse == checked->warehouse,
               "a row of HISTORY is its district's");
        paid += history.amount;
    }
    checked->sums.payments += count - checked->database->customers;
    return paid;
}

static void check_customers(struct checked *checked)
{
    struct customer customer;

    for (uint32_t id = 1; id <= checked->database->customers; id++) {
        look_at(checked, customer_row(checked->database, checked->warehouse, checked->district, id),
                &customer, sizeof customer);
        expect(checked,
               customer.id == id && customer.district == checked->district &&
                   customer.warehouse == checked->warehouse,
               "a customer is its own");
        expect(checked, customer.balance + customer.ytd_payment == 0,
               "condition 12: a customer's balance is what was delivered, less what was paid");
        checked->sums.customer_payments += customer.payments - 1;
        checked->sums.customer_paid += customer.ytd_payment;
    }
}

/* What was paid there. */
static int64_t check_district(struct checked *checked)
{
    struct district district;
    int64_t paid;

    look_at(checked, district_row(checked->database, checked->warehouse, checked->district),
            &district, sizeof district);
    expect(checked,
           district.id == checked->district && district.warehouse == checked->warehouse &&
               district.next_order <= checked->database->room + 1,
           "a district is its own");
    check_orders(checked, district.next_order);
    check_customers(checked);
    paid = check_history(checked, district.history);
    expect(checked, paid == district.ytd,
           "condition 9: a district has had what was paid in its history");
    checked->sums.paid += paid;
    return district.ytd;
}

/* ---- warehouses ----------------------------------------------------------- */

static void check_stock(struct checked *checked)
{
    struct stock stock;

    for (uint32_t item = 1; item <= checked->database->items; item++) {
        look_at(checked, stock_row(checked->database, checked->warehouse, item), &stock,
                sizeof stock);
        expect(checked,
               stock.item == item && stock.warehouse == checked->warehouse &&
                   stock.quantity >= 10 && stock.quantity <= 100,
               "stock is of its item, and filled up");
        checked->sums.stock_lines += stock.orders;
        checked->sums.stock_remote += stock.remote;
        checked->sums.stock_quantity += stock.ytd;
    }
}

struct check_sums check_warehouse(const struct database *database, struct store *store,
                                  uint32_t number)
{
    struct checked checked = {.database = database, .store = store, .warehouse = number};
    struct warehouse warehouse;
    int64_t ytd = 0;

    look_at(&checked, places_of(database, number)->warehouse, &warehouse, sizeof warehouse);
    for (checked.district = 1; checked.district <= DISTRICTS; checked.district++) {
        ytd += check_district(&checked);
    }
    checked.district = 0;
    expect(&checked, warehouse.id == number, "a warehouse is its own");
    expect(&checked, warehouse.ytd == ytd,
           "condition 1: a warehouse has had what its districts have");
    expect(&checked, warehouse.ytd == checked.sums.paid,
           "condition 8: a warehouse has had what was paid in its history");
    check_stock(&checked);
    return checked.sums;
}

void check_add(struct check_sums *all, const struct check_sums *one)
{
    all->faults += one->faults;
    all->orders += one->orders;
    all->payments += one->payments;
    all->lines += one->lines;
    all->remote_lines += one->remote_lines;
    all->quantity += one->quantity;
    all->stock_lines += one->stock_lines;
    all->stock_remote += one->stock_remote;
    all->stock_quantity += one->stock_quantity;
    all->customer_payments += one->customer_payments;
    all->paid += one->paid;
    all->customer_paid += one->customer_paid;
}

uint64_t check_all(const struct check_sums *all)
{
    struct checked checked = {.sums = *all};

    expect(&checked, all->stock_lines == all->lines && all->stock_remote == all->remote_lines,
           "stock counts each line of an order");
    expect(&checked, all->stock_quantity == (int64_t)all->quantity,
           "stock has given what was ordered");
    expect(&checked, all->customer_payments == all->payments && all->customer_paid == all->paid,
           "condition 10: customers have paid what is in the history");
    return checked.sums.faults;
}
