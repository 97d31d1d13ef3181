/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The locks of a region as one node has them, for all of its clients: it claims a lock of the
 * region's home for the first who waits, and keeps it when nobody here uses it any more, until the
 * home says that others wait (docs/locks.md).
 *
 * Within a node who waits longest is next. What a claim says is all that there is to say, so it can
 * be said again at any time: to another home, or over a new link. No I/O, no clock; one lane.
 */
#ifndef REGION_LOCK_NODE_H
#define REGION_LOCK_NODE_H

#include "base/list.h"
#include "base/table.h"
#include "region/message.h"

struct region_lock;

/* One who waits for a lock, or holds it; it is the machine's from acquire until release, or until
 * shell.locked says anything but NIGH_OK. */
struct region_hold {
    struct list_node link;
    struct region_lock *lock; /* NULL: it is not the machine's */
    enum region_lock_mode mode;
    bool is_held;
    bool is_wanted; /* as shell.wanted said */
    bool is_dirty;  /* set it before release: what was written under it may land yet */
};

struct region_lock_shell {
    void *context;
    /* None calls the machine. */
    void (*send)(void *context, const struct region_message *message);
    /* It holds the lock; or else: it neither waits nor holds any more, and why. */
    void (*locked)(void *context, struct region_hold *hold, nigh_status status);
    /* Others wait for what it holds; said once. */
    void (*wanted)(void *context, struct region_hold *hold);
};

struct region_lock_node {
    struct table locks;
    struct list unused; /* locks that are kept, the longest first */
    uint32_t unused_count;
    uint32_t count;
    uint64_t serial;
    uint32_t home; /* REGION_NOBODY: not known */
    bool has_lease;
    struct region_version birth; /* of the region */
    struct region_lock_shell shell;
};

/* NIGH_NO_RESOURCES. `seed`: random, as clients choose numbers. */
nigh_status region_lock_node_init(struct region_lock_node *node, uint64_t seed, bool has_lease,
                                  const struct region_lock_shell *shell);
/* Nobody waits, nobody holds. */
void region_lock_node_fini(struct region_lock_node *node);

/* Waits for a lock of the region of this birth; shell.locked follows, perhaps within. NIGH_LIMIT:
 * too many locks are in use here; NIGH_NO_RESOURCES; NIGH_BUSY: those of a region that was here
 * before are not over yet. */
nigh_status region_lock_acquire(struct region_lock_node *node, const struct region_version *birth,
                                uint64_t number, enum region_lock_mode mode,
                                struct region_hold *hold);

/* Neither waits nor holds any more. */
void region_lock_release(struct region_lock_node *node, struct region_hold *hold);

/* GRANT or RECALL, of the home. */
void region_lock_node_take(struct region_lock_node *node, const struct region_message *message);

/* Who is the home from here on, or that the link to it is back. */
void region_lock_node_home(struct region_lock_node *node, uint32_t home);

/* Without a lease nobody is given a lock: others may have been told that this node is dead. */
void region_lock_node_lease(struct region_lock_node *node, bool has_lease);

/* All is over: the region was freed, or this node was dead to the others. */
void region_lock_node_lose(struct region_lock_node *node, nigh_status status);

/* Nothing is to be said any more, but that this node uses the region no longer. */
bool region_lock_node_is_idle(const struct region_lock_node *node);

bool region_lock_node_is_valid(const struct region_lock_node *node);

#endif
