/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees: what a node that is asked for a large object decides, and how long one that pulls it
 * climbs about (docs/transfer.md#trees). No I/O, no clock: exchange_tree.c does what is decided.
 *
 * A holder serves some pullers at once and sends others on to these, who serve what they have so
 * far. It is a tree because nobody who pulls serves one that has as much as itself: on every way
 * down there is less.
 */
#ifndef OBJECT_TREE_H
#define OBJECT_TREE_H

#include <stdbool.h>
#include <stdint.h>

/* A node that is asked, as it is now. */
struct tree_holder {
    bool is_whole; /* it has all, and knows that it is right */
    bool is_fed;   /* it pulls, and a holder serves it */
    uint64_t has;  /* bytes from the start on; of one that pulls */
    uint32_t children;
    uint32_t fanout; /* children that it serves at once; not 0 */
};

enum tree_answer {
    TREE_SERVE = 1, /* here */
    TREE_SEND_ON,   /* ask my children */
    TREE_NOT_YET,   /* ask again: I have nothing that you have not */
    TREE_NOT_HERE   /* ask another */
};

/* `from`: what who asks has; alone: it wants to be sent nowhere, and served by nobody who pulls. */
enum tree_answer tree_judge(const struct tree_holder *holder, uint64_t from, bool alone);

/* A child that others may be sent to. */
struct tree_seat {
    uint32_t rank;
    uint32_t sent; /* to it, so far */
};

/* Puts those to whom the fewest were sent first. */
void tree_order(struct tree_seat *seats, uint32_t count);

/* One that pulls: what it has tried. Zero at first. */
struct tree_climb {
    uint32_t hops; /* since bytes came last */
    uint32_t vain; /* ways down that brought none */
    bool alone;    /* it asks only who has all from now on */
    uint64_t since_us;
};

/* Bytes came. */
void tree_fed(struct tree_climb *climb, uint64_t now_us);
/* A holder sends it on. False: that has been often enough. */
bool tree_sent(struct tree_climb *climb, uint64_t now_us);
/* None of those that it was sent to serves it. */
void tree_in_vain(struct tree_climb *climb);
/* It has waited for one long enough. */
bool tree_is_tired(const struct tree_climb *climb, uint64_t now_us);

#endif
