/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is next, of those that want the same thing: sessions, each with what it wants in the order in
 * which it asked. Deficit round robin (Shreedhar, Varghese: SIGCOMM '95): a session's turn gives it
 * so many bytes to spend; what it did not spend it keeps for its next turn, as long as it wants
 * something. So of n sessions that want without end each gets an n-th of the bytes, however large
 * its pieces are, and who wants little waits for one turn of each other.
 *
 * Intrusive, nothing is allocated; deciding costs a step or two, however many wait. Pure.
 */
#ifndef REGION_TURNS_H
#define REGION_TURNS_H

#include "base/list.h"

/* Lies in what is wanted. A zeroed entry waits for nothing. */
struct turns_entry {
    struct list_node link;
    struct turns_seat *seat; /* NULL: it does not wait */
    uint64_t cost;           /* of its next piece, in bytes */
};

/* Of one session. A zeroed seat wants nothing. */
struct turns_seat {
    struct list_node link; /* in turns.seats, as long as something waits */
    struct list waiting;
    uint64_t credit;
};

struct turns {
    struct list seats;
    uint64_t quantum; /* bytes of a turn */
    uint32_t count;   /* seats that want something */
};

void turns_init(struct turns *turns, uint64_t quantum);

/* Behind what the seat wants already. `cost` is not 0. */
void turns_add(struct turns *turns, struct turns_seat *seat, struct turns_entry *entry,
               uint64_t cost);

/* What is next; NULL: nothing waits. It stays until turns_took, turns_pass or turns_remove. */
struct turns_entry *turns_first(struct turns *turns);

/* The entry of turns_first had its piece. `cost` is that of its next, which it waits for in front
 * of what its seat wants beside; 0: that was all, and it waits no longer. */
void turns_took(struct turns *turns, struct turns_entry *entry, uint64_t cost);

/* The entry of turns_first cannot have its piece now: others are next. Its seat loses nothing. */
void turns_pass(struct turns *turns, struct turns_entry *entry);

/* It waits no longer, wherever it is. */
void turns_remove(struct turns *turns, struct turns_entry *entry);

static inline bool turns_are_empty(const struct turns *turns)
{
    return turns->count == 0;
}

static inline bool turns_has(const struct turns_entry *entry)
{
    return entry->seat != NULL;
}

/* Checks all of it; for tests and NIGH_ASSERT_SLOW. */
bool turns_are_valid(const struct turns *turns);

#endif
