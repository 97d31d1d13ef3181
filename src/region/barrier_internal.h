/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a barrier's machine share: barrier.c has parties, rounds and the tree,
 * barrier_views.c what is known from views before. */
#ifndef REGION_BARRIER_INTERNAL_H
#define REGION_BARRIER_INTERNAL_H

#include "base/check.h"
#include "base/limits.h"
#include "region/barrier.h"

/* What a node below says of itself and of those below it. */
struct barrier_child {
    struct list_node link;
    uint32_t rank;
    uint64_t round, latest; /* that it is in; that it has heard of */
    uint64_t ask;           /* its last */
    uint64_t via;           /* the ask here that brings the answer; 0: it has been answered */
    uint32_t count, parties;
    bool knows_broken;
};

struct region_barrier {
    struct list_node link;
    struct region_version birth; /* of the region */
    uint64_t number;
    uint64_t round; /* that has not passed yet; 0: not known, so nobody here is counted */

    uint32_t parties; /* as who waits here said; 0: nobody does, or they do not agree */
    uint32_t waiting; /* of the members: all who wait and are counted */
    struct list members, children;
    struct list newcomers;    /* who wait to be counted, in the order of their asks */
    uint64_t since;           /* the first ask of who takes part here, or below; 0: nobody does */
    uint64_t asked, answered; /* the last; as long as they differ it is under way */
    bool is_broken;
    uint32_t told; /* to whom it was said that somebody here takes part; REGION_NOBODY: to none */
    struct region_barrier_word said; /* to it, last */

    /* What is known of views before, or of a death, and is kept until the home knows it. */
    bool is_owed, is_noted;   /* noted: but for what is not known of `unseen` */
    bool is_taker;            /* the home was told that somebody here takes part */
    uint64_t heard;           /* the latest round, of whoever is none of the children any more */
    struct region_set before; /* who took part, or counted; if one of them is dead, it is broken */
    struct region_set unseen; /* of those: whether they live in this view is not known */
    struct region_set takers; /* the home: who take part since before this view */
    struct region_set owing;  /* the home: who is to hear that it knows what they told */
};

static inline bool barrier_has_parties(const struct region_barrier *barrier)
{
    return !list_empty(&barrier->members) || !list_empty(&barrier->newcomers);
}

/* Somebody takes part, here or below. */
static inline bool barrier_is_in_tree(const struct region_barrier *barrier)
{
    return barrier_has_parties(barrier) || !list_empty(&barrier->children);
}

/* Whatever is still said of a barrier of this number that went is of rounds before this. */
static inline uint64_t barrier_first_round(const struct region_barriers *barriers)
{
    return *barriers->shell.rounds + 1;
}

/* ---- barrier.c ------------------------------------------------------------ */

void barrier_send(struct region_barriers *barriers, const struct region_version *birth,
                  enum region_message_kind kind, uint32_t rank, nigh_status status,
                  const struct region_barrier_word *word);
/* To a child: the round, if it has heard of one. */
void barrier_say_passed(struct region_barriers *barriers, const struct region_barrier *barrier,
                        struct barrier_child *child, nigh_status status);
/* To the parent: what is known here and below, if that was not said last. */
void barrier_report(struct region_barriers *barriers, struct region_barrier *barrier);
/* The latest round that somebody here or below knows of. */
uint64_t barrier_latest_round(const struct region_barrier *barrier);

/* NULL: there is none. */
struct region_barrier *barrier_find(struct region_barriers *barriers, uint64_t number);
/* That there is one. NIGH_NOT_FOUND: its region is none any more; NIGH_LIMIT; NIGH_NO_RESOURCES. */
nigh_status barrier_get(struct region_barriers *barriers, const struct region_version *birth,
                        uint64_t number, struct region_barrier **out);
/* NULL: it says nothing of it. */
struct barrier_child *barrier_find_child(const struct region_barrier *barrier, uint32_t rank);
void barrier_drop_child(struct barrier_child *child);

/* Nobody takes part here, or below: who is above hears it. True: it is gone. */
bool barrier_drop_if_over(struct region_barriers *barriers, struct region_barrier *barrier);
/* All of a barrier goes, here, and the barrier with it; who takes part takes part no more. */
void barrier_end(struct region_barriers *barriers, struct region_barrier *barrier,
                 nigh_status status);

/* Those below are told of the round. */
void barrier_tell_children(struct region_barriers *barriers, struct region_barrier *barrier,
                           nigh_status status);
/* Which round this is, which was not known here: nobody here is counted yet. */
void barrier_adopt(struct region_barriers *barriers, struct region_barrier *barrier,
                   uint64_t round);
/* All before this round is over: who waits was counted, as nothing passes without those who take
 * part. */
void barrier_pass(struct region_barriers *barriers, struct region_barrier *barrier, uint64_t round,
                  nigh_status status);
/* What follows from what has changed; the barrier may be gone. */
void barrier_go_on(struct region_barriers *barriers, struct region_barrier *barrier);

/* ---- barrier_views.c ------------------------------------------------------ */

/* Says what is known to the home of this view, which is to note it. */
void barrier_tell_home(struct region_barriers *barriers, struct region_barrier *barrier);
/* The home is told that nobody here takes part any more. */
void barrier_take_no_part(struct region_barriers *barriers, struct region_barrier *barrier);
/* A party here died, or somebody who counted: nobody else may know it. */
void barrier_learn_broken(struct region_barriers *barriers, struct region_barrier *barrier);
/* The home: that the region is none any more. */
void barrier_say_gone(struct region_barriers *barriers, struct region_barrier *barrier);
void barrier_forget_before(struct region_barrier *barrier);
nigh_status barrier_take_known(struct region_barriers *barriers,
                               const struct region_message *message);
void barrier_take_noted(struct region_barriers *barriers, const struct region_message *message);

#endif
