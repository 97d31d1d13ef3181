/* SPDX-License-Identifier: Apache-2.0 */
/* See turns.h. */
#include "region/turns.h"

void turns_init(struct turns *turns, uint64_t quantum)
{
    NIGH_ASSERT(quantum > 0);
    list_init(&turns->seats);
    turns->quantum = quantum;
    turns->count = 0;
}

static void to_the_back(struct turns *turns, struct turns_seat *seat)
{
    list_remove(&seat->link);
    list_push_back(&turns->seats, &seat->link);
}

void turns_add(struct turns *turns, struct turns_seat *seat, struct turns_entry *entry,
               uint64_t cost)
{
    NIGH_ASSERT(entry->seat == NULL && cost > 0);
    if (!list_is_linked(&seat->waiting.head))
        list_init(&seat->waiting);
    list_push_back(&seat->waiting, &entry->link);
    entry->seat = seat;
    entry->cost = cost;
    if (list_is_linked(&seat->link))
        return;
    list_push_back(&turns->seats, &seat->link);
    seat->credit = turns->quantum; /* of the turn that comes to it */
    turns->count++;
}

struct turns_entry *turns_first(struct turns *turns)
{
    while (!list_empty(&turns->seats)) {
        struct turns_seat *seat = container_of(list_first(&turns->seats), struct turns_seat, link);
        struct turns_entry *entry =
            container_of(list_first(&seat->waiting), struct turns_entry, link);

        if (seat->credit >= entry->cost)
            return entry;
        seat->credit += turns->quantum;
        to_the_back(turns, seat);
    }
    return NULL;
}

/* Who wants nothing keeps nothing: else it could save up, and then have all for a while. */
static void leave_if_empty(struct turns *turns, struct turns_seat *seat)
{
    if (!list_empty(&seat->waiting))
        return;
    list_remove(&seat->link);
    seat->credit = 0;
    turns->count--;
}

void turns_took(struct turns *turns, struct turns_entry *entry, uint64_t cost)
{
    struct turns_seat *seat = entry->seat;

    NIGH_ASSERT(seat != NULL && seat->credit >= entry->cost);
    seat->credit -= entry->cost;
    entry->cost = cost;
    if (cost == 0)
        turns_remove(turns, entry);
}

void turns_pass(struct turns *turns, struct turns_entry *entry)
{
    to_the_back(turns, entry->seat);
}

void turns_remove(struct turns *turns, struct turns_entry *entry)
{
    struct turns_seat *seat = entry->seat;

    NIGH_ASSERT(seat != NULL);
    list_remove(&entry->link);
    entry->seat = NULL;
    leave_if_empty(turns, seat);
}

bool turns_are_valid(const struct turns *turns)
{
    uint32_t count = 0;

    LIST_FOREACH(node, &turns->seats)
    {
        const struct turns_seat *seat = container_of(node, struct turns_seat, link);

        if (list_empty(&seat->waiting))
            return false;
        LIST_FOREACH(at, &seat->waiting)
        {
            const struct turns_entry *entry = container_of(at, struct turns_entry, link);

            if (entry->seat != seat || entry->cost == 0)
                return false;
        }
        count++;
    }
    return count == turns->count;
}
