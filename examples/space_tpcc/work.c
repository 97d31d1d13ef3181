/* SPDX-License-Identifier: Apache-2.0 */
/* See work.h. */
#include "work.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

enum {
    NEW_ORDER_PERCENT = 51, /* 45 to 43 (5.2.3) */
    PAUSE_NS = 50000,       /* before a try, at most, doubled with each: */
    DOUBLED_MOST = 7,
    DEATH_NS = 10000000
};

void work_again(struct terminal *terminal, uint32_t tries)
{
    uint64_t most = (uint64_t)PAUSE_NS << (tries < DOUBLED_MOST ? tries : DOUBLED_MOST);

    terminal->report->aborted++;
    nanosleep(&(struct timespec){.tv_nsec = (long)chance_between(&terminal->chance, 0, most)},
              NULL);
}

uint32_t work_elsewhere(struct terminal *terminal)
{
    uint32_t other;

    if (terminal->database->warehouses == 1) {
        return terminal->warehouse;
    }
    other = (uint32_t)chance_between(&terminal->chance, 1, terminal->database->warehouses - 1);
    return other < terminal->warehouse ? other : other + 1;
}

uint32_t work_customer(struct terminal *terminal)
{
    const struct database *database = terminal->database;

    return (uint32_t)chance_nurand(&terminal->chance, database->customer_a, database->customer_run,
                                   1, database->customers);
}

static void count(struct work_report *report, bool is_order, enum outcome outcome)
{
    if (outcome == OUTCOME_ROLLED_BACK) {
        report->rolled_back++;
    } else if (is_order) {
        report->new_orders++;
    } else {
        report->payments++;
    }
}

/* Wherever it is then. */
static void die_soon(struct chance *chance)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec when = {.it_value.tv_nsec = (long)chance_between(chance, 1, DEATH_NS)};
    timer_t timer;

    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        timer_settime(timer, 0, &when, NULL) != 0) {
        fail("a timer", strerror(errno));
    }
}

void work(struct terminal *terminal, uint64_t transactions, enum death death)
{
    struct store *store = terminal->store;
    struct work_report *report = terminal->report;

    report->begin_s = now_s();
    for (uint64_t i = 0; i < transactions; i++) {
        bool is_order = chance_percent(&terminal->chance, NEW_ORDER_PERCENT);
        enum outcome outcome;

        if (death == DEATH_ANY && i == transactions / 2) {
            die_soon(&terminal->chance);
        } else if (death != DEATH_NONE && i == transactions / 2) {
            space_store_dies(store, death);
        }
        outcome = is_order ? new_order(terminal) : payment(terminal);
        /* Only now whoever asked for it would be told. */
        store->finish(store);
        count(report, is_order, outcome);
        report->end_s = now_s();
    }
    if (death == DEATH_ANY) { /* it was faster */
        pause();
    }
}
