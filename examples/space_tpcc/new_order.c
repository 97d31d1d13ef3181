/* SPDX-License-Identifier: Apache-2.0 */
/* New-Order (TPC-C, clause 2.4): the customer's warehouse and district are read, an order is added
 * to the district, and of each of its items as many are taken from stock. */
#include <string.h>

#include "common.h"
#include "transaction.h"
#include "work.h"

struct line_input {
    uint32_t item, supplier, quantity;
};

struct input {
    uint32_t district, customer, lines;
    struct line_input line[LINES_MAX];
};

/* The rows that it has. */
struct rows {
    struct row *warehouse, *district, *customer, *stock[LINES_MAX];
};

static struct input make_input(struct terminal *terminal)
{
    const struct database *database = terminal->database;
    struct chance *chance = &terminal->chance;
    struct input input = {.district = (uint32_t)chance_between(chance, 1, DISTRICTS),
                          .customer = work_customer(terminal),
                          .lines = (uint32_t)chance_between(chance, 5, LINES_MAX)};

    for (uint32_t i = 0; i < input.lines; i++) {
        input.line[i] = (struct line_input){
            .item = (uint32_t)chance_nurand(chance, database->item_a, database->item_run, 1,
                                            database->items),
            .supplier = chance_percent(chance, 1) ? work_elsewhere(terminal) : terminal->warehouse,
            .quantity = (uint32_t)chance_between(chance, 1, 10)};
    }
    if (chance_percent(chance, 1)) { /* the user mistook the last one: there is no such item */
        input.line[input.lines - 1].item = database->items + 1;
    }
    return input;
}

static struct rows name_rows(const struct terminal *terminal, const struct input *input,
                             struct transaction *transaction)
{
    const struct database *database = terminal->database;
    uint32_t warehouse = terminal->warehouse;
    struct rows rows = {
        transaction_add(transaction, places_of(database, warehouse)->warehouse,
                        sizeof(struct warehouse), false),
        transaction_add(transaction, district_row(database, warehouse, input->district),
                        sizeof(struct district), true),
        transaction_add(transaction,
                        customer_row(database, warehouse, input->district, input->customer),
                        sizeof(struct customer), false),
        {NULL}};

    for (uint32_t i = 0; i < input->lines; i++) {
        const struct line_input *line = &input->line[i];

        if (line->item <= database->items) {
            rows.stock[i] =
                transaction_add(transaction, stock_row(database, line->supplier, line->item),
                                sizeof(struct stock), true);
        }
    }
    return rows;
}

/* Takes them from stock, and says what the line costs. */
static struct order_line take(const struct terminal *terminal, const struct input *input,
                              uint32_t number, struct row *row, uint32_t order)
{
    const struct line_input *wanted = &input->line[number];
    struct stock *stock = (struct stock *)(void *)row->copy;
    struct order_line line = {.order = order,
                              .district = input->district,
                              .warehouse = terminal->warehouse,
                              .number = number + 1,
                              .item = wanted->item,
                              .supplier = wanted->supplier,
                              .quantity = wanted->quantity};
    struct item item;

    terminal->store->read(terminal->store, item_row(terminal->database, wanted->item), &item,
                          sizeof item);
    stock->quantity -= (int32_t)wanted->quantity;
    stock->quantity += stock->quantity < 10 ? 91 : 0;
    stock->ytd += wanted->quantity;
    stock->orders++;
    stock->remote += wanted->supplier != terminal->warehouse;
    row->changed = STOCK_HEAD;
    line.amount = item.price * wanted->quantity;
    memcpy(line.district_text, stock->district[input->district - 1], sizeof line.district_text);
    return line;
}

static bool is_all_local(const struct terminal *terminal, const struct input *input)
{
    for (uint32_t i = 0; i < input->lines; i++) {
        if (input->line[i].supplier != terminal->warehouse) {
            return false;
        }
    }
    return true;
}

/* Nobody looks for them before the district's next order is another. */
static void add_order(const struct terminal *terminal, const struct input *input, uint32_t id,
                      const struct order_line lines[LINES_MAX])
{
    const struct database *database = terminal->database;
    struct store *store = terminal->store;
    uint32_t warehouse = terminal->warehouse, district = input->district;
    struct order order = {.id = id,
                          .district = district,
                          .warehouse = warehouse,
                          .customer = input->customer,
                          .lines = input->lines,
                          .is_all_local = is_all_local(terminal, input),
                          .entered = today_us()};
    struct new_order undelivered = {.order = id, .district = district, .warehouse = warehouse};

    if (id > database->room) {
        fail("a district", "has no room for more orders");
    }
    store->write(store, order_row(database, warehouse, district, id), &order, sizeof order);
    store->write(store, new_order_row(database, warehouse, district, id), &undelivered,
                 sizeof undelivered);
    store->write(store, line_rows(database, warehouse, district, id), lines,
                 sizeof lines[0] * LINES_MAX);
}

/* With all locks; what the order costs, or -1: there is no such item. */
static int64_t carry_out(struct terminal *terminal, const struct input *input, struct rows *rows)
{
    struct district *district = (struct district *)(void *)rows->district->copy;
    const struct warehouse *warehouse = (struct warehouse *)(void *)rows->warehouse->copy;
    const struct customer *customer = (struct customer *)(void *)rows->customer->copy;
    struct order_line lines[LINES_MAX] = {0};
    int64_t total = 0;

    for (uint32_t i = 0; i < input->lines; i++) {
        if (rows->stock[i] == NULL) {
            return -1;
        }
        lines[i] = take(terminal, input, i, rows->stock[i], district->next_order);
        total += lines[i].amount;
    }
    add_order(terminal, input, district->next_order++, lines);
    rows->district->changed = DISTRICT_HEAD;
    return total * (10000 - customer->discount) / 10000 * (10000 + warehouse->tax + district->tax) /
           10000;
}

enum outcome new_order(struct terminal *terminal)
{
    struct input input = make_input(terminal);
    struct transaction transaction;
    struct rows rows;
    int64_t total;

    for (uint32_t tries = 0;; tries++) {
        transaction_begin(&transaction, terminal->store);
        rows = name_rows(terminal, &input, &transaction);
        if (transaction_lock(&transaction)) {
            break;
        }
        work_again(terminal, tries);
    }
    total = carry_out(terminal, &input, &rows);
    if (total < 0) {
        transaction_roll_back(&transaction);
        return OUTCOME_ROLLED_BACK;
    }
    transaction_commit(&transaction);
    terminal->report->total += total;
    return OUTCOME_COMMITTED;
}
