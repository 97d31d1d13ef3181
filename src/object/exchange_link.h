/* SPDX-License-Identifier: Apache-2.0 */
/* A link of the exchange that is up, and what its files keep of it. For the exchange alone. */
#ifndef OBJECT_EXCHANGE_LINK_H
#define OBJECT_EXCHANGE_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "object/crossover.h"
#include "object/exchange_announce.h"
#include "object/exchange_figures.h"
#include "object/exchange_wire.h"

struct bulk_message;
struct exchange;
struct held_teller;
struct link;
struct push_staging;

/* A transfer that is not wanted, and whose holder was not told yet. */
struct declined {
    uint64_t serve;
    enum wire_method method;
};

/* What a peer asked to be sent, to measure with. */
struct probed {
    uint64_t tag;
    uint32_t bytes;
    uint32_t part; /* of each message */
    uint32_t sent;
};

/* A link that is up. */
struct exchange_link {
    struct exchange *exchange;
    struct link *link;
    uint32_t rank;
    uint64_t shards;    /* that it serves */
    uint64_t epoch;     /* that its peer goes by */
    bool owes_view;     /* its peer has yet to be told ours */
    bool in_view;       /* both go by the same, and may: homes are asked over it */
    bool is_introduced; /* it was, since it came up */
    bool is_met;        /* the directory knows that its peer is up */
    bool was_early;     /* its peer announced what it was too early for, in this walk of its */
    struct announcer announcer;
    struct list pulls;         /* that talk over it */
    struct list serves;        /* for its peer */
    struct list asked;         /* deletes of its peer that wait */
    struct list crowded;       /* erases for which there was no place among its calls */
    uint32_t erases;           /* its peer is asked for */
    uint32_t granted;          /* receives for bulk messages that pulls were given */
    uint32_t adrift;           /* of them, those of pulls that went on without them, */
    uint32_t adrift_windows;   /* and of such pulls that were pushed */
    struct bulk_message *held; /* config.bulk_receives, in order: came before the answer that says
                                  what they are a part of */
    uint32_t held_count;
    struct declined declined[EXCHANGE_DECLINES];
    uint32_t declined_count;
    struct push_staging *staging; /* NULL: nothing is pushed here */
    bool push_refused;            /* the peer cannot */
    uint64_t hear_call;           /* the peer waits for news that are under way; 0: it does not */
    uint64_t hear_mark;           /* until so many are told */
    struct list_node place;
    /* Of pulls that begin with a PULL, and of those that begin with a LOCATE. */
    struct crossover crossovers[2];
    uint32_t probe;          /* the next of them, */
    uint32_t probes;         /* of so many: these are over when they are equal */
    uint64_t probe_again_us; /* not before this */
    uint64_t probe_owed_tag; /* of a probe that was given up: */
    uint32_t probe_owed;     /* messages that may still come */
    bool probe_reads;        /* a READ that is not over, of this probe or of one given up */
    uint64_t probe_pause_us; /* and how long after that */
    struct probed probed;
    struct held_teller *replicas; /* exchange_replicas.h */
};

#endif
