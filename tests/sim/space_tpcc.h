/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small TPC-C on a space whose nodes are killed: workers that run New-Order and Payment, and what
 * has to be there behind all kills (space_tpcc_check.c). For space_tpcc*.c only.
 *
 * What is locked is a row, of one block. A transaction locks all of its rows in the order of their
 * addresses, and its changes are made whole by a redo log of its worker, in the space:
 *
 *   1. each row that it changes gets a mark: whose log, and which transaction; what the rows are to
 *      be is written to the log; what is only added, to its place. FLUSH: all of that is durable
 *   2. the transaction's number is put to the log's head. FLUSH: the terminal is told "committed"
 *   3. each row is written, by one write that takes its mark away, and let go. FLUSH: the log may
 *      be used again
 *
 * A write that fails is known by the next FLUSH: then the worker ends, and begins again by what its
 * log says. Who locks a row that has a mark looks into that log, and writes the row or takes the
 * mark away: whoever made it is dead, or has yet to do so itself.
 */
#ifndef TESTS_SIM_SPACE_TPCC_H
#define TESTS_SIM_SPACE_TPCC_H

#include "space_world.h"

#define TPCC_DISTRICTS    2u  /* of a warehouse; each node is the home of one */
#define TPCC_CUSTOMERS    3u  /* of a district */
#define TPCC_ITEMS        8u  /* and stock of a warehouse */
#define TPCC_LINES        4u  /* of an order, at most */
#define TPCC_ROOM         16u /* orders of a district, and payments, from one check to the next */
#define TPCC_CHANGES      (1u + TPCC_LINES) /* rows of a transaction that are changed, at most */
#define TPCC_ROWS         (2u + TPCC_CHANGES)
#define TPCC_WORKERS      (WORLD_NODES * WORLD_CLIENTS)
#define TPCC_TRANSACTIONS 16384u

/* A warehouse's blocks, by their numbers. Those before the first order are rows that are locked. */
enum tpcc_block {
    TPCC_WAREHOUSE,
    TPCC_DISTRICT,
    TPCC_CUSTOMER = TPCC_DISTRICT + TPCC_DISTRICTS,
    TPCC_STOCK = TPCC_CUSTOMER + TPCC_DISTRICTS * TPCC_CUSTOMERS,
    TPCC_ORDERS = TPCC_STOCK + TPCC_ITEMS,
    TPCC_ORDER_LINES = TPCC_ORDERS + TPCC_DISTRICTS * TPCC_ROOM / 4,
    TPCC_HISTORY = TPCC_ORDER_LINES + TPCC_DISTRICTS * TPCC_ROOM,
    TPCC_TABLES = TPCC_HISTORY + TPCC_DISTRICTS * TPCC_ROOM / 2,
    /* Of workers: a head, and rows. */
    TPCC_LOGS = TPCC_TABLES,
    TPCC_BLOCKS = TPCC_LOGS + WORLD_CLIENTS * (1 + TPCC_CHANGES)
};

enum { /* values of a row */
    TPCC_YTD = 0,
    TPCC_NEXT_ORDER = 1, /* of a district: the number of the next one; */
    TPCC_NEXT_PAYMENT,
    TPCC_BALANCE = 1, /* of a customer, */
    TPCC_PAYMENTS,
    TPCC_QUANTITY = 1, /* of stock */
    TPCC_ORDERED,
    TPCC_REMOTE,
    TPCC_VALUES
};

struct tpcc_row {
    uint64_t mark;
    int64_t values[TPCC_VALUES];
};

struct tpcc_order {
    uint64_t transaction;
    uint32_t id;
    uint16_t customer, lines;
};

struct tpcc_line {
    uint32_t order;
    uint16_t number, item, supplier, quantity;
    uint32_t amount;
};

struct tpcc_history {
    uint64_t transaction;
    uint32_t id;
    uint16_t warehouse, district; /* of who paid */
    uint32_t customer, unused;
    int64_t amount;
};

_Static_assert(sizeof(struct tpcc_order) == WORLD_BYTES / 4 &&
                   sizeof(struct tpcc_line) * TPCC_LINES == WORLD_BYTES &&
                   sizeof(struct tpcc_history) == WORLD_BYTES / 2,
               "none lies in two blocks");

/* A worker's log: its head, and a block each of what rows are to be. */
struct tpcc_log_head {
    uint64_t transaction, count;
};

struct tpcc_log_row {
    uint64_t transaction, address;
    int64_t values[TPCC_VALUES];
};

enum tpcc_state {
    TPCC_RUNS,      /* or was killed, and nobody knows */
    TPCC_COMMITTED, /* its terminal was told */
    TPCC_ABSENT     /* it was not done, and will not be */
};

struct tpcc_transaction {
    uint8_t state; /* enum tpcc_state */
    bool is_payment, is_there;
    uint32_t worker;
    uint32_t warehouse, district;
    uint32_t customer_warehouse, customer_district, customer;
    uint32_t lines;
    struct tpcc_wanted {
        uint32_t item, supplier, quantity;
    } wanted[TPCC_LINES];
    int64_t amount; /* of a payment */
};

struct tpcc;
struct tpcc_worker;

typedef void tpcc_then(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status);

/* A record that is yet to be said. */
struct tpcc_say {
    uint8_t kind;
    uint32_t length;
    uint64_t address;
    uint8_t bytes[WORLD_BYTES];
};

struct tpcc_worker {
    bool is_running; /* as a client of a node */
    uint32_t node, client;
    uint32_t number; /* 1 and up: marks have it */
    uint64_t log;    /* where it is */
    /* What it says next, and asks behind that. */
    struct tpcc_say says[4 * TPCC_ROWS];
    uint32_t says_count, said;
    uint8_t ask; /* 0: nothing */
    uint64_t asked;
    tpcc_then *then;
    uint8_t bytes[WORLD_BYTES]; /* what came of a read */
    /* A row that it locks, and what it does when it has it. */
    uint64_t address;
    bool is_alone;
    struct tpcc_row row;
    uint64_t marked_by; /* the log of whose mark it is */
    uint32_t looked;    /* rows of that */
    tpcc_then *have;
    /* Its transaction: the last one that it began, and the last that was committed. */
    uint64_t current, committed;
    bool is_put;  /* the current one's number may be in the log's head */
    bool is_busy; /* from its first lock on until all is written */
    uint32_t count, at;
    struct tpcc_rows {
        uint64_t address;
        bool is_alone;
        struct tpcc_row row;
    } rows[TPCC_ROWS];
    uint32_t recovers;   /* rows of its own log: how many there are */
    uint32_t visits;     /* block that it looks at for a check */
    uint64_t rests_till; /* event */
};

struct tpcc {
    struct world *world;
    struct world_users users;
    struct random random;
    bool is_loading, is_checking;
    uint64_t base[WORLD_NODES]; /* of each warehouse's blocks; 0: not yet */
    struct tpcc_worker workers[TPCC_WORKERS];
    uint32_t workers_count;
    uint64_t next; /* transaction */
    struct tpcc_transaction transactions[TPCC_TRANSACTIONS];
    /* What has to be there: of all transactions that were found; and numbers of orders and payments
     * before which all was looked at. */
    struct tpcc_row expected[WORLD_NODES][TPCC_ORDERS];
    int64_t orders_from[WORLD_NODES][TPCC_DISTRICTS], payments_from[WORLD_NODES][TPCC_DISTRICTS];
    /* A check's: which block is next, how many were read, and what is there. */
    uint32_t next_block, blocks_read;
    uint8_t found[WORLD_NODES][TPCC_TABLES][WORLD_BYTES];
    /* What was seen. */
    uint64_t committed, rolled_back, aborted, killed, in_doubt, found_committed, redone, undone;
    uint64_t failed;
};

/* Workers of a world of `rules`; its tables are loaded. False: see world->broken. */
bool tpcc_init(struct tpcc *tpcc, struct world *world, struct world_rules *rules, uint64_t seed);

/* No transaction begins any more, all workers are there, and each knows what became of its last;
 * then all tables are read and looked at. */
bool tpcc_check(struct tpcc *tpcc);

/* A node that has a part in a transaction that is under way; false: none is. */
bool tpcc_is_busy(struct tpcc *tpcc, uint32_t *node);

/* ---- for space_tpcc_check.c ----------------------------------------------- */

void tpcc_expect_nothing(struct tpcc *tpcc);
void tpcc_look(struct tpcc *tpcc);

#endif
