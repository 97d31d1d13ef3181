/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of TPC-C (revision 5.11, clause 1.3), as their rows lie in memory. Money is in cents,
 * taxes and discounts in parts of 10,000. Texts are filled up with zeros.
 *
 * What transactions change of a row is its head, and begins with its mark (store.h). One row of
 * those has a block, or two, which is locked for it. Rows that are only ever added lie side by
 * side, by their numbers: those of a district belong to who has the district's row locked.
 */
#ifndef ROWS_H
#define ROWS_H

#include <stddef.h>
#include <stdint.h>

enum {
    ROW_BYTES = 512, /* a block of the space */
    DISTRICTS = 10,  /* of a warehouse */
    LINES_MAX = 15,  /* of an order */
    NAMES = 1000     /* last names that there are */
};

struct address {
    char street_1[20], street_2[20], city[20], state[2], zip[9];
};

struct warehouse {
    uint64_t mark;
    int64_t ytd;
    uint32_t id, tax;
    char name[10];
    struct address address;
};

struct district {
    uint64_t mark;
    int64_t ytd;
    uint32_t next_order, history; /* the number of the next order; rows of its payments */
    uint32_t id, warehouse, tax;
    char name[10];
    struct address address;
};

struct customer {
    uint64_t mark;
    int64_t balance, ytd_payment;
    uint32_t payments, deliveries;
    uint32_t id, district, warehouse, discount;
    int64_t credit_limit, since;
    char first[16], middle[2], last[16], phone[16], credit[2];
    struct address address;
};

/* In the customer's second block. */
struct customer_data {
    char text[500];
};

struct stock {
    uint64_t mark;
    int64_t ytd;
    int32_t quantity;
    uint32_t orders, remote;
    uint32_t item, warehouse;
    char district[DISTRICTS][24], data[50];
};

struct item {
    uint32_t id, image;
    int64_t price;
    char name[24], data[50];
};

struct order {
    uint32_t id, district, warehouse, customer;
    uint32_t carrier; /* 0: none yet */
    uint32_t lines, is_all_local;
    int64_t entered;
    uint64_t unused[3];
};

struct new_order {
    uint32_t order, district, warehouse, unused;
};

struct order_line {
    uint32_t order, district, warehouse, number;
    uint32_t item, supplier;
    int64_t delivered; /* 0: not yet */
    int64_t amount;
    uint32_t quantity;
    char district_text[24];
};

struct history {
    uint32_t customer, customer_district, customer_warehouse, district, warehouse;
    int64_t date, amount;
    char data[24];
};

/* What a change writes, from the row's begin. */
#define WAREHOUSE_HEAD (uint32_t) offsetof(struct warehouse, id)
#define DISTRICT_HEAD  (uint32_t) offsetof(struct district, id)
#define CUSTOMER_HEAD  (uint32_t) offsetof(struct customer, id)
#define STOCK_HEAD     (uint32_t) offsetof(struct stock, item)

_Static_assert(sizeof(struct warehouse) <= ROW_BYTES && sizeof(struct district) <= ROW_BYTES &&
                   sizeof(struct customer) <= ROW_BYTES && sizeof(struct stock) <= ROW_BYTES &&
                   sizeof(struct customer_data) <= ROW_BYTES,
               "a row that is locked has a block");

#endif
