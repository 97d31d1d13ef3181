/* SPDX-License-Identifier: Apache-2.0 */
/* See load.h. */
#include "load.h"

#include <stdlib.h>
#include <string.h>

#include "common.h"

/* What is filled with what. */
struct load {
    const struct database *database;
    struct store *store;
    struct chance *chance;
    uint32_t warehouse;
};

static uint32_t any(const struct load *load, uint32_t low, uint32_t high)
{
    return (uint32_t)chance_between(load->chance, low, high);
}

static void fill_address(const struct load *load, struct address *address)
{
    chance_letters(load->chance, address->street_1, 10, 20);
    chance_letters(load->chance, address->street_2, 10, 20);
    chance_letters(load->chance, address->city, 10, 20);
    chance_letters(load->chance, address->state, 2, 2);
    chance_digits(load->chance, address->zip, 4);
    memcpy(address->zip + 4, "11111", 5);
}

void load_items(const struct database *database, struct store *store, struct chance *chance)
{
    for (uint32_t id = 1; id <= database->items; id++) {
        struct item item = {.id = id,
                            .image = (uint32_t)chance_between(chance, 1, 10000),
                            .price = (int64_t)chance_between(chance, 100, 10000)};

        chance_letters(chance, item.name, 14, 24);
        chance_data(chance, item.data);
        store->write(store, item_row(database, id), &item, sizeof item);
    }
}

static void load_stock(const struct load *load)
{
    for (uint32_t item = 1; item <= load->database->items; item++) {
        struct stock stock = {
            .item = item, .warehouse = load->warehouse, .quantity = (int32_t)any(load, 10, 100)};

        for (int district = 0; district < DISTRICTS; district++) {
            chance_letters(load->chance, stock.district[district], 24, 24);
        }
        chance_data(load->chance, stock.data);
        load->store->write(load->store, stock_row(load->database, load->warehouse, item), &stock,
                           sizeof stock);
    }
}

/* ---- customers ------------------------------------------------------------ */

/* What the index of last names is made of. */
struct named {
    uint32_t name, customer;
    char first[16];
};

static int by_name(const void *left, const void *right)
{
    const struct named *a = left, *b = right;

    if (a->name != b->name) {
        return a->name < b->name ? -1 : 1;
    }
    return memcmp(a->first, b->first, sizeof a->first);
}

static void load_index(const struct load *load, uint32_t district, struct named *named)
{
    uint32_t count = load->database->customers, at = 0;
    uint32_t *index = memory_of((NAMES + 1 + (uint64_t)count) * sizeof *index);

    qsort(named, count, sizeof *named, by_name);
    for (uint32_t name = 0; name <= NAMES; name++) {
        while (at < count && named[at].name < name) {
            at++;
        }
        index[name] = at;
    }
    for (uint32_t i = 0; i < count; i++) {
        index[NAMES + 1 + i] = named[i].customer;
    }
    load->store->write(load->store, names_index(load->database, load->warehouse, district), index,
                       (NAMES + 1 + (uint64_t)count) * sizeof *index);
    free(index);
}

static void load_customer(const struct load *load, uint32_t district, uint32_t id,
                          struct named *named)
{
    uint64_t row = customer_row(load->database, load->warehouse, district, id);
    struct customer customer = {.id = id,
                                .district = district,
                                .warehouse = load->warehouse,
                                .balance = -AMOUNT_OF_FIRST,
                                .ytd_payment = AMOUNT_OF_FIRST,
                                .payments = 1,
                                .discount = any(load, 0, 5000),
                                .credit_limit = 5000000,
                                .since = today_us(),
                                .middle = "OE"};
    struct customer_data data;
    uint64_t name = id <= NAMES
                        ? id - 1
                        : chance_nurand(load->chance, 255, load->database->name_load, 0, NAMES - 1);

    last_name(name, customer.last);
    chance_letters(load->chance, customer.first, 8, 16);
    chance_digits(load->chance, customer.phone, 16);
    memcpy(customer.credit, chance_percent(load->chance, 10) ? "BC" : "GC", 2);
    fill_address(load, &customer.address);
    chance_letters(load->chance, data.text, 300, sizeof data.text);
    load->store->write(load->store, row, &customer, sizeof customer);
    load->store->write(load->store, row + ROW_BYTES, &data, sizeof data);
    *named = (struct named){(uint32_t)name, id, {0}};
    memcpy(named->first, customer.first, sizeof named->first);
}

static void load_history(const struct load *load, uint32_t district, uint32_t id)
{
    struct history history = {.customer = id,
                              .customer_district = district,
                              .customer_warehouse = load->warehouse,
                              .district = district,
                              .warehouse = load->warehouse,
                              .date = today_us(),
                              .amount = AMOUNT_OF_FIRST};

    chance_letters(load->chance, history.data, 12, 24);
    load->store->write(load->store, history_row(load->database, load->warehouse, district, id),
                       &history, sizeof history);
}

static void load_customers(const struct load *load, uint32_t district)
{
    uint32_t count = load->database->customers;
    struct named *named = memory_of(count * sizeof *named);

    for (uint32_t id = 1; id <= count; id++) {
        load_customer(load, district, id, &named[id - 1]);
        load_history(load, district, id);
    }
    load_index(load, district, named);
    free(named);
}

/* ---- orders --------------------------------------------------------------- */

static void load_lines(const struct load *load, const struct order *order)
{
    struct order_line lines[LINES_MAX] = {0};

    for (uint32_t i = 0; i < order->lines; i++) {
        bool is_delivered = order->carrier != 0;

        lines[i] = (struct order_line){
            .order = order->id,
            .district = order->district,
            .warehouse = order->warehouse,
            .number = i + 1,
            .item = any(load, 1, load->database->items),
            .supplier = order->warehouse,
            .delivered = is_delivered ? order->entered : 0,
            .amount = is_delivered ? 0 : any(load, 1, 999999),
            .quantity = 5,
        };
        chance_letters(load->chance, lines[i].district_text, 24, 24);
    }
    load->store->write(load->store,
                       line_rows(load->database, order->warehouse, order->district, order->id),
                       lines, sizeof lines);
}

static void load_order(const struct load *load, uint32_t district, uint32_t id, uint32_t customer)
{
    const struct database *database = load->database;
    bool is_delivered = id < first_undelivered(database);
    struct order order = {.id = id,
                          .district = district,
                          .warehouse = load->warehouse,
                          .customer = customer,
                          .carrier = is_delivered ? any(load, 1, 10) : 0,
                          .lines = any(load, 5, LINES_MAX),
                          .is_all_local = 1,
                          .entered = today_us()};
    struct new_order new_order = {.order = id, .district = district, .warehouse = load->warehouse};

    load->store->write(load->store, order_row(database, load->warehouse, district, id), &order,
                       sizeof order);
    if (!is_delivered) {
        load->store->write(load->store, new_order_row(database, load->warehouse, district, id),
                           &new_order, sizeof new_order);
    }
    load_lines(load, &order);
}

static void load_orders(const struct load *load, uint32_t district)
{
    uint32_t count = load->database->customers;
    uint32_t *customers = memory_of(count * sizeof *customers);

    chance_shuffle(load->chance, customers, count);
    for (uint32_t id = 1; id <= count; id++) {
        load_order(load, district, id, customers[id - 1]);
    }
    free(customers);
}

/* ---- a warehouse ---------------------------------------------------------- */

static void load_district(const struct load *load, uint32_t id)
{
    uint32_t customers = load->database->customers;
    struct district district = {.id = id,
                                .warehouse = load->warehouse,
                                .tax = any(load, 0, 2000),
                                .ytd = (int64_t)customers * AMOUNT_OF_FIRST,
                                .next_order = customers + 1,
                                .history = customers};

    chance_letters(load->chance, district.name, 6, 10);
    fill_address(load, &district.address);
    load->store->write(load->store, district_row(load->database, load->warehouse, id), &district,
                       sizeof district);
    load_customers(load, id);
    load_orders(load, id);
}

void load_warehouse(const struct database *database, struct store *store, uint32_t number,
                    struct chance *chance)
{
    struct load load = {database, store, chance, number};
    struct warehouse warehouse = {.id = number,
                                  .tax = any(&load, 0, 2000),
                                  .ytd =
                                      (int64_t)DISTRICTS * database->customers * AMOUNT_OF_FIRST};

    chance_letters(chance, warehouse.name, 6, 10);
    fill_address(&load, &warehouse.address);
    store->write(store, places_of(database, number)->warehouse, &warehouse, sizeof warehouse);
    load_stock(&load);
    for (uint32_t district = 1; district <= DISTRICTS; district++) {
        load_district(&load, district);
    }
}
