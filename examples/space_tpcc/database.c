/* SPDX-License-Identifier: Apache-2.0 */
/* See database.h. */
#include "database.h"

/* NURand's A for fewer rows than the specification's: as large a part of them. */
static uint32_t scaled(uint64_t a, uint64_t rows, uint64_t all)
{
    uint64_t most = a;

    while (a > 1 && a * all > most * rows) {
        a >>= 1;
    }
    return (uint32_t)a;
}

/* 2.1.6.1: how far the run's constant for last names is from the load's. */
static uint32_t name_distance(struct chance *chance)
{
    uint32_t distance;

    do {
        distance = (uint32_t)chance_between(chance, 65, 119);
    } while (distance == 96 || distance == 112);
    return distance;
}

void database_init(struct database *database, uint32_t warehouses, uint32_t items,
                   uint32_t customers, uint64_t transactions, struct chance *chance)
{
    database->warehouses = warehouses;
    database->items = items;
    database->customers = customers;
    /* A tenth of them each, and as many again, as not all districts have alike. */
    database->room = customers + (uint32_t)(transactions / DISTRICTS * 2) + 100;
    database->names = customers < NAMES ? customers : NAMES;
    database->name_load = (uint32_t)chance_between(chance, 0, 255 - 119);
    database->name_run = database->name_load + name_distance(chance);
    database->customer_a = scaled(1023, customers, CUSTOMERS);
    database->item_a = scaled(8191, items, ITEMS);
    database->customer_run = (uint32_t)chance_between(chance, 0, database->customer_a);
    database->item_run = (uint32_t)chance_between(chance, 0, database->item_a);
}

/* ---- memory --------------------------------------------------------------- */

struct sizes {
    uint64_t warehouse, districts, customers, names, stock;
    uint64_t orders, new_orders, lines, history;
};

static struct sizes sizes_of(const struct database *database)
{
    uint64_t customers = (uint64_t)DISTRICTS * database->customers;
    uint64_t room = (uint64_t)DISTRICTS * database->room;

    return (struct sizes){
        .warehouse = ROW_BYTES,
        .districts = (uint64_t)DISTRICTS * ROW_BYTES,
        .customers = customers * 2 * ROW_BYTES,
        .names = (DISTRICTS * (uint64_t)(NAMES + 1) + customers) * sizeof(uint32_t),
        .stock = (uint64_t)database->items * ROW_BYTES,
        .orders = room * sizeof(struct order),
        .new_orders = room * sizeof(struct new_order),
        .lines = room * LINES_MAX * sizeof(struct order_line),
        .history = room * sizeof(struct history),
    };
}

uint64_t database_warehouse_bytes(const struct database *database)
{
    struct sizes sizes = sizes_of(database);

    /* Each begins a block. */
    return sizes.warehouse + sizes.districts + sizes.customers + sizes.names + sizes.stock +
           sizes.orders + sizes.new_orders + sizes.lines + sizes.history + 9 * ROW_BYTES;
}

uint64_t database_item_bytes(const struct database *database)
{
    return (uint64_t)database->items * sizeof(struct item) + ROW_BYTES;
}

void database_place_warehouse(struct database *database, struct store *store, uint32_t warehouse)
{
    struct sizes sizes = sizes_of(database);

    database->places[warehouse - 1] = (struct places){
        .warehouse = store->allocate(store, sizes.warehouse),
        .districts = store->allocate(store, sizes.districts),
        .customers = store->allocate(store, sizes.customers),
        .names = store->allocate(store, sizes.names),
        .stock = store->allocate(store, sizes.stock),
        .orders = store->allocate(store, sizes.orders),
        .new_orders = store->allocate(store, sizes.new_orders),
        .lines = store->allocate(store, sizes.lines),
        .history = store->allocate(store, sizes.history),
    };
}

void database_place_items(struct database *database, struct store *store)
{
    database->item_rows = store->allocate(store, database_item_bytes(database) - ROW_BYTES);
}

/* ---- customers by last name ----------------------------------------------- */

uint32_t database_customer_by_name(const struct database *database, struct store *store,
                                   uint32_t warehouse, uint32_t district, uint64_t name)
{
    uint64_t index = names_index(database, warehouse, district);
    uint32_t ends[2], customer, middle;

    store->read(store, index + name * sizeof ends[0], ends, sizeof ends);
    middle = ends[0] + (ends[1] - ends[0] + 1) / 2 - 1;
    store->read(store, index + (NAMES + 1 + (uint64_t)middle) * sizeof customer, &customer,
                sizeof customer);
    return customer;
}
