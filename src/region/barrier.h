/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers of a region: parties wait until as many as they said have arrived. Arrivals are counted
 * up a tree of the members, whose root is the region's home, and what has passed is told down it
 * (docs/locks.md). A node of the tree need not use the region.
 *
 * A barrier is there as long as somebody takes part in it; one of whose parties died is broken for
 * those that are left. What goes up is all that there is to say, so it can be said again at any
 * time.
 *
 * Who is new is counted in a round that had not passed as it arrived: its node asks the home, up
 * the tree, by a number that never comes again, and nothing is looked at that is said to who asked
 * before. No I/O, no clock; one lane.
 */
#ifndef REGION_BARRIER_H
#define REGION_BARRIER_H

#include "base/list.h"
#include "region/message.h"

struct region_barrier;

/* One who takes part in a barrier: the machine's from its first arrival until it has left. */
struct region_party {
    struct list_node link;
    struct region_barrier *barrier; /* NULL: it takes part in none */
    uint64_t ask;     /* 0: an arrival of it was counted; else the ask by which the next one is */
    uint32_t parties; /* as it said as it arrived */
    bool waits;
};

struct region_barrier_shell {
    void *context;
    uint64_t *asks;   /* of this node, whatever regions come and go: the last number */
    uint64_t *rounds; /* of this region, while its home is here: the latest of barriers that went */
    /* None calls the machine. */
    void (*send)(void *context, const struct region_message *message);
    /* It waits no longer: NIGH_OK: all have arrived; NIGH_PEER_LOST: a party died; NIGH_INVALID:
     * they do not agree on how many they are, or are more; NIGH_NOT_FOUND: the region was freed. */
    void (*passed)(void *context, struct region_party *party, nigh_status status);
    /* Whether it is a member of this view, and not dead. */
    bool (*is_alive)(void *context, uint32_t rank);
};

struct region_barriers {
    struct list all;
    uint32_t count;
    uint32_t parent; /* REGION_NOBODY: none, or not known */
    uint32_t home;   /* the same; of the view */
    bool is_root;
    bool knows_all; /* the root: what was known of views before; whatever comes is new */
    bool may_pass;  /* the root: there is the region, of: */
    struct region_version birth;
    struct region_barrier_shell shell;
};

void region_barriers_init(struct region_barriers *barriers,
                          const struct region_barrier_shell *shell);

/* Who waits ends with this status, and nobody takes part any more. */
void region_barriers_end(struct region_barriers *barriers, nigh_status status);

/* Arrives, and takes part from then on; in one barrier at a time. shell.passed follows, perhaps
 * within. NIGH_BUSY: it waits already; NIGH_NOT_FOUND: the region was freed; NIGH_LIMIT: too many
 * barriers; NIGH_NO_RESOURCES. */
nigh_status region_barrier_arrive(struct region_barriers *barriers,
                                  const struct region_version *birth, uint64_t number,
                                  uint32_t parties, struct region_party *party);

/* Waits no longer, and has not arrived. If the others were just told that all had, they go on. */
void region_barrier_withdraw(struct region_barriers *barriers, struct region_party *party);

/* Takes no part any more. `is_dead`: nor does anybody whom it may have been waited for by. */
void region_barrier_leave(struct region_barriers *barriers, struct region_party *party,
                          bool is_dead);

/* ARRIVED of a child, PASSED of the parent; KNOWN at the home, or NOTED of it. */
nigh_status region_barriers_take(struct region_barriers *barriers,
                                 const struct region_message *message);

/* Where this node is in the tree of a view: all is said anew, as links come to go by it. */
void region_barriers_place(struct region_barriers *barriers, uint32_t parent, uint32_t home,
                           bool is_root);

/* The link to a member is up, or up again, and both go by this view. */
void region_barriers_link(struct region_barriers *barriers, uint32_t rank);
/* It is not: who is there next may be another, of the same rank. */
void region_barriers_unlink(struct region_barriers *barriers, uint32_t rank);
void region_barriers_dead(struct region_barriers *barriers, uint32_t rank);

/* Of the root: all who live in this view have told it what they know; what comes is new. */
void region_barriers_know(struct region_barriers *barriers);
/* Of the root that knows all: whether barriers may pass, of the region of this birth; others have
 * none. */
void region_barriers_open(struct region_barriers *barriers, const struct region_version *birth);
void region_barriers_shut(struct region_barriers *barriers);

static inline bool region_barriers_are_idle(const struct region_barriers *barriers)
{
    return barriers->count == 0;
}

bool region_barriers_are_valid(const struct region_barriers *barriers);

#endif
