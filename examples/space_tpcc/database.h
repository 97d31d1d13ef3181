/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the rows of each table are. A warehouse's lie together, at one node; those of ITEM, which
 * nobody changes, at another, and in the caches of all. Numbers of rows begin with 1.
 *
 * An order is there when its number is below its district's next_order, a row of HISTORY when it is
 * not above the district's `history`: what lies behind that a transaction wrote that died.
 */
#ifndef DATABASE_H
#define DATABASE_H

#include "chance.h"
#include "store.h"

enum {
    WAREHOUSES_MAX = 256,
    ITEMS = 100000,  /* of the specification, */
    CUSTOMERS = 3000 /* of a district, likewise, and as many orders to begin with */
};

/* Where a warehouse's tables begin. */
struct places {
    uint64_t warehouse, districts, customers, names, stock;
    uint64_t orders, new_orders, lines, history;
};

struct database {
    uint32_t warehouses, items, customers;
    uint32_t room;                      /* orders of a district, and rows of its history */
    uint32_t name_load, name_run;       /* NURand's constants (2.1.6): of last names, */
    uint32_t customer_run, item_run;    /* customers and items; */
    uint32_t customer_a, item_a, names; /* and what it takes for fewer rows */
    uint64_t item_rows;
    struct places places[WAREHOUSES_MAX];
};

/* All but the places; transactions: that there is to be room for, of a warehouse. */
void database_init(struct database *database, uint32_t warehouses, uint32_t items,
                   uint32_t customers, uint64_t transactions, struct chance *chance);

/* What the rows of a warehouse, and of all items, take. */
uint64_t database_warehouse_bytes(const struct database *database);
uint64_t database_item_bytes(const struct database *database);

/* Takes memory for them. */
void database_place_warehouse(struct database *database, struct store *store, uint32_t warehouse);
void database_place_items(struct database *database, struct store *store);

/* ---- addresses ------------------------------------------------------------ */

static inline const struct places *places_of(const struct database *database, uint32_t warehouse)
{
    return &database->places[warehouse - 1];
}

static inline uint64_t district_row(const struct database *database, uint32_t warehouse,
                                    uint32_t district)
{
    return places_of(database, warehouse)->districts + (uint64_t)(district - 1) * ROW_BYTES;
}

static inline uint64_t customer_row(const struct database *database, uint32_t warehouse,
                                    uint32_t district, uint32_t customer)
{
    uint64_t number = (uint64_t)(district - 1) * database->customers + customer - 1;

    return places_of(database, warehouse)->customers + number * 2 * ROW_BYTES;
}

static inline uint64_t stock_row(const struct database *database, uint32_t warehouse, uint32_t item)
{
    return places_of(database, warehouse)->stock + (uint64_t)(item - 1) * ROW_BYTES;
}

static inline uint64_t item_row(const struct database *database, uint32_t item)
{
    return database->item_rows + (uint64_t)(item - 1) * sizeof(struct item);
}

/* The how manyth of the district's rows, in its tables that only grow. */
static inline uint64_t grown(const struct database *database, uint32_t district, uint32_t number)
{
    return (uint64_t)(district - 1) * database->room + number - 1;
}

static inline uint64_t order_row(const struct database *database, uint32_t warehouse,
                                 uint32_t district, uint32_t order)
{
    return places_of(database, warehouse)->orders +
           grown(database, district, order) * sizeof(struct order);
}

static inline uint64_t new_order_row(const struct database *database, uint32_t warehouse,
                                     uint32_t district, uint32_t order)
{
    return places_of(database, warehouse)->new_orders +
           grown(database, district, order) * sizeof(struct new_order);
}

/* The first of LINES_MAX. */
static inline uint64_t line_rows(const struct database *database, uint32_t warehouse,
                                 uint32_t district, uint32_t order)
{
    return places_of(database, warehouse)->lines +
           grown(database, district, order) * sizeof(struct order_line) * LINES_MAX;
}

static inline uint64_t history_row(const struct database *database, uint32_t warehouse,
                                   uint32_t district, uint32_t number)
{
    return places_of(database, warehouse)->history +
           grown(database, district, number) * sizeof(struct history);
}

/* ---- customers by last name ----------------------------------------------- */

/* Of a district: where each name's customers begin, in a list of their numbers by last and first
 * names; NAMES + 1 such, and the list. */
static inline uint64_t names_index(const struct database *database, uint32_t warehouse,
                                   uint32_t district)
{
    return places_of(database, warehouse)->names +
           (uint64_t)(district - 1) * (NAMES + 1 + database->customers) * sizeof(uint32_t);
}

/* The one in the middle of those of that name (2.5.2.2), of which there is one at least. */
uint32_t database_customer_by_name(const struct database *database, struct store *store,
                                   uint32_t warehouse, uint32_t district, uint64_t name);

#endif
