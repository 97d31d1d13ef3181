/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of one lane that all its sessions use, so shared that none, and no user with many, can
 * take what others need.
 *
 * Of each table a session has a few places of its own, which nobody else gets. The rest is common,
 * and had alike (Choudhury, Hahne: ToN '98): a user has one more as long as it has fewer than are
 * free, and of a user's sessions each as long as it has fewer than that leaves the user. So of n
 * users that want all they can get each has an (n+1)-th, one alone half; and whoever comes finds
 * some.
 *
 * A place may outlive its session: it counts for its user until it is given back, and for none of
 * who has the slot by then. A session's own ones that are left behind lie in a part that nobody is
 * given, as large as all that are anybody's own; whose user has an eighth of that part there has
 * what is common alone before some are given back, else whoever comes again and again would have
 * all. So
 * one user, of whose sessions there are three quarters of all, fills that part at most, and takes
 * neither what is common nor what is others' own; where several do, what is common is the less for
 * it.
 *
 * Books only: who keeps a table takes before it uses a place, and gives when that is free. Pure;
 * one owner.
 */
#ifndef NODE_SESSION_SHARES_H
#define NODE_SESSION_SHARES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

#define SESSION_SHARES_TABLES 8u
#define SESSION_SHARES_NOBODY UINT32_MAX

/* Of sessions that are there, and of places that others left behind. */
#define SESSION_SHARES_USERS (2u * LIMIT_SESSIONS)

/* Whose a place is; of zeros: nobody's. */
struct session_place {
    bool is_taken;
    uint32_t slot, life; /* of it: who has it later is another session */
    uint32_t user;
};

struct session_shares {
    uint32_t sessions; /* that there may be */
    struct session_shares_slot {
        uint32_t user; /* NOBODY: it has taken nothing yet */
        uint32_t life;
    } slots[LIMIT_SESSIONS];
    struct session_shares_user {
        uint32_t uid;
        uint32_t uses; /* its sessions, and its places; 0: it is free */
    } users[SESSION_SHARES_USERS];
    struct session_shares_table {
        uint32_t places; /* 0: there is no such table */
        uint32_t own;    /* that are one session's own */
        uint32_t kept;   /* for those that were one's own, and are left behind */
        uint32_t common; /* the others */
        uint32_t common_used, left_used;
        uint32_t used; /* of all */
        uint32_t slot_used[LIMIT_SESSIONS];
        uint32_t slot_own[LIMIT_SESSIONS];        /* of these */
        uint32_t user_used[SESSION_SHARES_USERS]; /* of the common ones */
        uint32_t user_left[SESSION_SHARES_USERS]; /* that were its sessions' own */
    } tables[SESSION_SHARES_TABLES];
};

/* For slots 0 to `sessions` - 1. */
void session_shares_init(struct session_shares *shares, uint32_t sessions);

/* A table of `places`, of which `own` are each session's: as far as all these, and as many that are
 * kept for what is left behind, are not more than there are. */
void session_shares_table(struct session_shares *shares, uint32_t table, uint32_t places,
                          uint32_t own);

/* One place for a session of this user. False: it has its share, or nothing is left but what is
 * others' own. */
bool session_shares_take(struct session_shares *shares, uint32_t table, uint32_t slot, uint32_t uid,
                         struct session_place *place);

/* What is nobody's is allowed. */
void session_shares_give(struct session_shares *shares, uint32_t table,
                         struct session_place *place);

/* The session is over: who has the slot next is another. */
void session_shares_leave(struct session_shares *shares, uint32_t slot);

/* For tests: the books agree with themselves. */
bool session_shares_are_valid(const struct session_shares *shares);

#endif
