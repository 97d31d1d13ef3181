/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terms of a home: each time that a member is gone, a link between two of them broke, or the home
 * was started anew, it begins one, in which nothing is under way: all members say what they have,
 * and then it serves (docs/spaces.md). Between a home and a member three things are said of it, in
 * order with all messages of blocks:
 *
 *   TERM     home to member: the term, before anything else of it
 *   CLAIMED  member to home: all claims of this term are before it, and nothing that this member
 *            wrote into others' memory in an earlier one is under way
 *   OPENED   home to member: all members have said so, and here is the first that you may ask again
 *
 * Pure; one lane.
 */
#ifndef SPACE_TERM_H
#define SPACE_TERM_H

#include "space/cache.h"
#include "space/home.h"

enum space_term_event {
    SPACE_TERM_TERM,
    SPACE_TERM_CLAIMED,
    SPACE_TERM_OPENED,
    SPACE_TERM_EVENTS
};

/* At the home. */
struct space_term {
    struct space_home home;
    uint64_t waits; /* members that have not said CLAIMED */
    bool is_open;
};

/* At another member, of one home. */
struct space_member {
    struct space_cache cache;
    uint32_t writes; /* its own, of blocks of this home, under way */
    bool has_claimed;
};

/*
 * A term begins; its number is above all before, of this home's seat in any life. Endpoints with
 * those who are no members any more are destroyed before. Then REBUILD is said to every block, and
 * TERM to all other members. `remembers`: every step of the term before was of this directory.
 */
void space_term_begin(struct space_term *term, uint32_t number, uint64_t members, bool remembers);

/* A member says CLAIMED. STALE: of an earlier term. REFUSED: it lies. */
enum space_result space_term_claimed(struct space_term *term, uint8_t seat, uint32_t number);

/* All have: REBUILT is to be said to every block, and then OPENED to all other members. */
static inline bool space_term_is_heard(const struct space_term *term)
{
    return !term->is_open && term->waits == 0;
}
void space_term_open(struct space_term *term);

/*
 * A home says TERM. DONE: endpoints with those who are no members any more are destroyed, then
 * ADOPT is said to each line of that home; claims go before CLAIMED. REFUSED: it is no later one.
 */
enum space_result space_member_adopt(struct space_member *member, uint8_t seat, uint32_t number);

/* Whether CLAIMED is to be said now: once, after which it was. */
static inline bool space_member_may_claim(const struct space_member *member)
{
    return !member->cache.is_open && !member->has_claimed && member->writes == 0;
}
void space_member_claimed(struct space_member *member);

/* A home says OPENED. DONE: OPEN is said to each of its lines. */
enum space_result space_member_opened(struct space_member *member, uint8_t seat, uint32_t number);

#endif
