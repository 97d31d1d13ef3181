/* SPDX-License-Identifier: Apache-2.0 */
/* See session_shares.h. */
#include "node/session_shares.h"

#include <string.h>

#include "base/check.h"

/* Of what is kept for what is left behind: whose user has less there is given its own. */
#define LEFT_PART 8u

void session_shares_init(struct session_shares *shares, uint32_t sessions)
{
    NIGH_ASSERT(sessions > 0 && sessions <= LIMIT_SESSIONS);
    memset(shares, 0, sizeof(*shares));
    shares->sessions = sessions;
    for (uint32_t slot = 0; slot < LIMIT_SESSIONS; slot++)
        shares->slots[slot].user = SESSION_SHARES_NOBODY;
}

void session_shares_table(struct session_shares *shares, uint32_t table, uint32_t places,
                          uint32_t own)
{
    struct session_shares_table *of = &shares->tables[table];

    NIGH_ASSERT(table < SESSION_SHARES_TABLES && places > 0);
    of->places = places;
    of->own = min_u32(own, places / shares->sessions / 2);
    of->kept = of->own * shares->sessions;
    of->common = places - of->own * shares->sessions - of->kept;
}

/* ---- users ---------------------------------------------------------------- */

/* NOBODY: there are as many as there may be. */
static uint32_t find_user(const struct session_shares *shares, uint32_t uid)
{
    uint32_t free = SESSION_SHARES_NOBODY;

    for (uint32_t n = SESSION_SHARES_USERS; n-- > 0;) {
        if (shares->users[n].uses == 0)
            free = n;
        else if (shares->users[n].uid == uid)
            return n;
    }
    return free;
}

static uint32_t need_user(struct session_shares *shares, uint32_t slot, uint32_t uid)
{
    uint32_t user = shares->slots[slot].user;

    if (user != SESSION_SHARES_NOBODY)
        return user;
    user = find_user(shares, uid);
    if (user == SESSION_SHARES_NOBODY)
        return user;
    shares->users[user].uid = uid;
    shares->users[user].uses++;
    shares->slots[slot].user = user;
    return user;
}

/* ---- places --------------------------------------------------------------- */

/* Of the common ones: where more is left behind than was kept for that, it is of these. */
static uint32_t free_of(const struct session_shares_table *of)
{
    uint32_t over = of->left_used > of->kept ? of->left_used - of->kept : 0;
    uint32_t used = of->common_used + over;

    return used < of->common ? of->common - used : 0;
}

static bool may_have_own(const struct session_shares_table *of, uint32_t slot, uint32_t user)
{
    return of->slot_own[slot] < of->own &&
           of->user_left[user] < max_u32(of->own, of->kept / LEFT_PART);
}

static bool may_have_common(const struct session_shares_table *of, uint32_t slot, uint32_t user)
{
    uint32_t used = of->slot_used[slot] - of->slot_own[slot], user_used = of->user_used[user];
    uint32_t left = free_of(of);

    return user_used < left && used < left - user_used;
}

static bool take(struct session_shares_table *of, uint32_t slot, uint32_t user)
{
    if (of->used == of->places)
        return false;
    if (may_have_own(of, slot, user)) {
        of->slot_own[slot]++;
    } else if (may_have_common(of, slot, user)) {
        of->common_used++;
        of->user_used[user]++;
    } else {
        return false;
    }
    of->slot_used[slot]++;
    of->used++;
    return true;
}

bool session_shares_take(struct session_shares *shares, uint32_t table, uint32_t slot, uint32_t uid,
                         struct session_place *place)
{
    uint32_t user;

    NIGH_ASSERT(slot < shares->sessions);
    user = need_user(shares, slot, uid);
    if (user == SESSION_SHARES_NOBODY || !take(&shares->tables[table], slot, user))
        return false;
    shares->users[user].uses++;
    *place = (struct session_place){
        .is_taken = true, .slot = slot, .life = shares->slots[slot].life, .user = user};
    return true;
}

/* Of a session that is there. What is common goes back first. */
static void give_here(struct session_shares_table *of, uint32_t slot, uint32_t user)
{
    if (of->slot_used[slot] > of->slot_own[slot]) {
        of->common_used--;
        of->user_used[user]--;
    } else {
        of->slot_own[slot]--;
    }
    of->slot_used[slot]--;
}

static void give_left(struct session_shares_table *of, uint32_t user)
{
    if (of->user_left[user] > 0) {
        of->left_used--;
        of->user_left[user]--;
    } else {
        of->common_used--;
        of->user_used[user]--;
    }
}

void session_shares_give(struct session_shares *shares, uint32_t table, struct session_place *place)
{
    struct session_shares_table *of = &shares->tables[table];

    if (!place->is_taken)
        return;
    if (place->life == shares->slots[place->slot].life)
        give_here(of, place->slot, place->user);
    else
        give_left(of, place->user);
    of->used--;
    shares->users[place->user].uses--;
    place->is_taken = false;
}

void session_shares_leave(struct session_shares *shares, uint32_t slot)
{
    struct session_shares_slot *of = &shares->slots[slot];

    if (of->user == SESSION_SHARES_NOBODY)
        return;
    for (uint32_t n = 0; n < SESSION_SHARES_TABLES; n++) {
        struct session_shares_table *table = &shares->tables[n];

        table->left_used += table->slot_own[slot];
        table->user_left[of->user] += table->slot_own[slot];
        table->slot_used[slot] = table->slot_own[slot] = 0;
    }
    shares->users[of->user].uses--;
    of->user = SESSION_SHARES_NOBODY;
    of->life++;
}

/* ---- are they whole? ------------------------------------------------------ */

static bool is_valid(const struct session_shares *shares, const struct session_shares_table *of)
{
    uint64_t own = 0, common = 0, left = 0;

    for (uint32_t n = 0; n < LIMIT_SESSIONS; n++) {
        if (of->slot_own[n] > min_u32(of->slot_used[n], of->own))
            return false;
        own += of->slot_own[n];
    }
    for (uint32_t n = 0; n < SESSION_SHARES_USERS; n++) {
        if (of->user_used[n] + of->user_left[n] > 0 && shares->users[n].uses == 0)
            return false;
        common += of->user_used[n];
        left += of->user_left[n];
    }
    return common == of->common_used && left == of->left_used && own + common + left == of->used &&
           of->common_used <= of->common && of->used <= of->places;
}

bool session_shares_are_valid(const struct session_shares *shares)
{
    for (uint32_t n = 0; n < SESSION_SHARES_TABLES; n++) {
        if (!is_valid(shares, &shares->tables[n]))
            return false;
    }
    return true;
}
