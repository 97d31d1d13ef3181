/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who kept nothing takes no part in votes before it is known what that means: that its list begins,
 * or that it lost what it had, and a cluster lives (docs/views.md).
 *
 * Each of those of a list that vote at first gives its directory a token, once, and keeps it there.
 * They begin when all of them have said that they kept nothing, and know the same tokens; one that
 * comes later, with the token that another began with, may begin as well, since nobody with that
 * directory has ever said anything. Whoever knows of a cluster says so, and then nobody begins; nor
 * does who was let into one once, whoever else is there.
 *
 * Pure: messages and time come in by the functions below. One thread at a time.
 */
#ifndef CLUSTER_AGREE_BEGIN_H
#define CLUSTER_AGREE_BEGIN_H

#include "cluster/agreed.h"

#define BEGIN_VOTERS  5u                /* of a list, at first */
#define BEGIN_WAIT_US UINT64_C(2000000) /* twice as long as members wait before they dial again */
#define BEGIN_CLOSED  UINT64_MAX
#define BEGIN_ASK_US  UINT64_C(250000)

/* What a member says of its directory. */
struct begin_word {
    bool is_bare;                  /* it kept nothing, and knows of no cluster */
    uint64_t tokens[BEGIN_VOTERS]; /* as it knows them, or as it began with them; 0: it does not */
};

/* What one of those that vote at first, and kept nothing, knows of the others. */
struct begin {
    uint32_t self;
    uint32_t listed;    /* members that the list names */
    uint32_t voters;    /* of them, that vote at first */
    bool joins;         /* it has its rank by the word of another member: so it is not alone */
    bool was_let_in;    /* in a life before, with this directory: so there is a cluster */
    bool is_counted;    /* another began with our token */
    uint64_t opened_us; /* since when others can reach it; BEGIN_CLOSED: they cannot yet */
    uint64_t tokens[BEGIN_VOTERS];
    uint64_t said[BEGIN_VOTERS][BEGIN_VOTERS]; /* which tokens each knew last, and kept nothing */
    struct agreed_set heard;                   /* of the list, who said anything */
    struct agreed_set know;                    /* who knows of a cluster */
};

/* was_let_in, joins: as above. */
void begin_init(struct begin *begin, uint32_t self, uint32_t listed, uint32_t voters, bool joins,
                bool was_let_in, uint64_t token);

/* Others can reach it from now on. */
void begin_open(struct begin *begin, uint64_t now_us);

/* A member said this of its directory. False: it cannot be. */
bool begin_hear(struct begin *begin, uint32_t rank, const struct begin_word *word);

/* When all that know of a cluster have had the time to say so. */
uint64_t begin_wait_until_us(const struct begin *begin);

/* Whether it may begin, with the tokens that it has now. */
bool begin_may(const struct begin *begin, uint64_t now_us);

/* Whether somebody knows of a cluster that this one is not of. */
bool begin_is_late(const struct begin *begin);

#endif
