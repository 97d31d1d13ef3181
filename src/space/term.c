/* SPDX-License-Identifier: Apache-2.0 */
/* See term.h. */
#include "space/term.h"

#include "base/check.h"

void space_term_begin(struct space_term *term, uint32_t number, uint64_t members, bool remembers)
{
    NIGH_ASSERT(number > term->home.term && space_set_has(members, term->home.self));
    term->home.before = term->home.term;
    term->home.term = number;
    term->home.members = members;
    term->home.remembers = remembers;
    term->waits = members & ~space_bit(term->home.self);
    term->is_open = false;
}

enum space_result space_term_claimed(struct space_term *term, uint8_t seat, uint32_t number)
{
    if (number < term->home.term) {
        return SPACE_STALE;
    }
    if (number > term->home.term || !space_set_has(term->waits, seat)) {
        return SPACE_REFUSED;
    }
    term->waits &= ~space_bit(seat);
    return SPACE_DONE;
}

void space_term_open(struct space_term *term)
{
    NIGH_ASSERT(space_term_is_heard(term));
    term->is_open = true;
    /* Who is no member of it knows as little as before when it comes. */
    term->home.anew &= ~term->home.members;
}

enum space_result space_member_adopt(struct space_member *member, uint8_t seat, uint32_t number)
{
    struct space_cache *cache = &member->cache;

    if (seat != cache->home || number <= cache->term) {
        return SPACE_REFUSED;
    }
    cache->term = number;
    cache->is_open = false;
    member->has_claimed = false;
    return SPACE_DONE;
}

void space_member_claimed(struct space_member *member)
{
    NIGH_ASSERT(space_member_may_claim(member));
    member->has_claimed = true;
}

enum space_result space_member_opened(struct space_member *member, uint8_t seat, uint32_t number)
{
    struct space_cache *cache = &member->cache;

    if (seat != cache->home) {
        return SPACE_REFUSED;
    }
    if (number < cache->term) {
        return SPACE_STALE;
    }
    if (number > cache->term || cache->is_open || !member->has_claimed) {
        return SPACE_REFUSED;
    }
    cache->is_open = true;
    return SPACE_DONE;
}
