/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The locks of a region at its home: which nodes have each, and which wait, in turn
 * (docs/locks.md). A node that has what another waits for is told, once.
 *
 * It does not know clients, nor when a node is dead, nor whether what a dead one has written can
 * land yet: it grants when it is told that it may. No I/O, no clock; one lane.
 */
#ifndef REGION_LOCK_HOME_H
#define REGION_LOCK_HOME_H

#include "base/list.h"
#include "base/table.h"
#include "region/message.h"

struct region_lock_home {
    struct table locks;
    struct list all;
    uint32_t count;
    bool may_grant;
    struct region_version birth; /* of the region, while it may */
    bool is_unsafe; /* what was written under a lock may land yet: taken away by the caller */
    void *context;
    /* Does not call the machine. */
    void (*send)(void *context, const struct region_message *message);
};

/* NIGH_NO_RESOURCES. */
nigh_status region_lock_home_init(struct region_lock_home *home, uint64_t seed, void *context,
                                  void (*send)(void *context,
                                               const struct region_message *message));
void region_lock_home_fini(struct region_lock_home *home);

/* A CLAIM. NIGH_NO_RESOURCES: it is to be said again. */
nigh_status region_lock_home_take(struct region_lock_home *home,
                                  const struct region_message *message);

/* The link to a node is back: what it has that others wait for, it is told once more. */
void region_lock_home_link(struct region_lock_home *home, uint32_t rank);

/* A node has no lock any more, and wants none. `is_dead`: nobody knows what it was about to write
 * under those that it had. */
void region_lock_home_forget(struct region_lock_home *home, uint32_t rank, bool is_dead);

/* Whether locks may be given, to who knows the region by this birth; others hear that it is not
 * there. */
void region_lock_home_open(struct region_lock_home *home, const struct region_version *birth);
void region_lock_home_shut(struct region_lock_home *home);

/* There is no such region: all who claim hear that. */
void region_lock_home_end(struct region_lock_home *home, nigh_status status);

static inline bool region_lock_home_is_empty(const struct region_lock_home *home)
{
    return home->count == 0;
}

bool region_lock_home_is_valid(const struct region_lock_home *home);

#endif
