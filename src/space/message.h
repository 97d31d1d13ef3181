/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the home of a block and the nodes that cache it say to each other, and what a step of
 * either side asks of who carries it out (docs/spaces.md). All of one block: who carries a message
 * says of which. No memory, no bytes: where a message has bytes, they go before it.
 */
#ifndef SPACE_MESSAGE_H
#define SPACE_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

/* A place among the nodes of a space; they are one word's bits in a home's directory. */
#define SPACE_SEATS  LIMIT_SPACE_SEATS
#define SPACE_NOBODY UINT8_MAX

/* Whom an event comes from. */
enum space_from {
    SPACE_HERE,     /* the own node: a client, or who carries steps out */
    SPACE_THE_HOME, /* the block's home */
    SPACE_A_NODE,   /* a node that caches it: at the home; else one that was told to, or the home */
};

/*
 * Of a right to a block: how often its home has begun anew, and how often the right to it was
 * given in that time to one alone, or to the first of several. Of two that are not equal the later
 * one is of a right that was given later.
 */
struct space_epoch {
    uint32_t term, count;
};

/*
 * `event` is the receiver's: of enum space_home_event where it is the block's home, else of enum
 * space_cache_event.
 */
struct space_message {
    uint8_t event;
    uint8_t seat;  /* in: who sent it; out: whom it is to */
    uint8_t whom;  /* of a forward: who asked; of CLAIM_LEFT: who was given it, or SPACE_NOBODY */
    uint8_t why;   /* of REFUSE: enum space_home_state: FREED, LOST or AWAY */
    uint32_t term; /* of the home, as the sender knows it */
    struct space_epoch epoch; /* of the right that it is about; of a grant: that it gives */
    uint32_t frame;           /* of who asked: where the bytes are to go */
};

/* A step's messages: a node that caches says this much, a home at most one thing to each seat,
 * and to each whose turn comes one more. */
#define SPACE_SENDS_MAX (2 * SPACE_SEATS)

/* What is to be done, in this order, before anything else happens to the block. */
struct space_out {
    bool in_doubt; /* the atomic that waited at the home may have been done, or not */
    bool refused;  /* all that waited ends: the block is `why` */
    uint8_t why;
    bool wakes; /* all that waits is tried again */
    uint32_t count;
    struct space_message sends[SPACE_SENDS_MAX];
};

static inline void space_out_init(struct space_out *out)
{
    out->in_doubt = out->refused = out->wakes = false;
    out->why = 0;
    out->count = 0;
}

enum space_result {
    SPACE_DONE,    /* a client has what it asked for; a message was taken */
    SPACE_WAITS,   /* a client has to wait; of EVICT: not now */
    SPACE_GONE,    /* a client asks for a block that is free, lost or away */
    SPACE_STALE,   /* of an earlier term: it was not looked at */
    SPACE_REFUSED, /* nobody who keeps to the protocol says this now; nothing has changed */
};

/* What a cell of a table does, for those who print it and those who look whether it was ever done.
 */
struct space_row {
    const char *name, *what;
    uint32_t becomes; /* bits of states */
};

static inline bool space_epoch_equal(struct space_epoch a, struct space_epoch b)
{
    return a.term == b.term && a.count == b.count;
}

static inline bool space_epoch_is_before(struct space_epoch a, struct space_epoch b)
{
    return a.term != b.term ? a.term < b.term : a.count < b.count;
}

static inline uint64_t space_bit(uint8_t seat)
{
    return UINT64_C(1) << seat;
}

static inline bool space_set_has(uint64_t set, uint8_t seat)
{
    return seat < SPACE_SEATS && (set & space_bit(seat)) != 0;
}

/* The lowest of a set that is not empty. */
static inline uint8_t space_set_first(uint64_t set)
{
    return (uint8_t)__builtin_ctzll(set);
}

#endif
