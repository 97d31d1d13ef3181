/* SPDX-License-Identifier: Apache-2.0 */
/* See lock_node.h. */
#include "region/lock_node.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"

/* A lock as this node has it. It says what it has, or wants, never both: who wants more than it has
 * gives that up first. */
struct region_lock {
    struct list_node unused; /* it is kept, though nobody uses it */
    uint64_t number;
    uint64_t serial;            /* of its last claim */
    enum region_lock_mode held; /* by this node */
    enum region_lock_mode said; /* what the last claim wants; NONE, too, where it is held */
    bool is_recalled;           /* others wait for what is held */
    bool is_dirty;              /* since what was held last was given up */
    bool is_given_up;           /* the home was told so, and has not answered yet */
    struct list holders, waiters;
};

/* ---- what is said --------------------------------------------------------- */

static void claim(struct region_lock_node *node, struct region_lock *lock)
{
    struct region_message message = {
        .kind = REGION_CLAIM,
        .peer = node->home,
        .base = node->birth,
        .lock = {.number = lock->number,
                 .mode = lock->held != REGION_LOCK_NONE ? lock->held : lock->said,
                 .is_held = lock->held != REGION_LOCK_NONE,
                 .is_dirty = lock->is_dirty},
    };

    lock->serial = ++node->serial;
    message.lock.serial = lock->serial;
    if (node->home != REGION_NOBODY) {
        node->shell.send(node->shell.context, &message);
    }
}

/* A home that takes this node to have what it does not know of. */
static void disclaim(struct region_lock_node *node, const struct region_message *said)
{
    struct region_message message = {
        .kind = REGION_CLAIM,
        .peer = node->home,
        .base = said->base,
        .lock = {.number = said->lock.number, .serial = ++node->serial}};

    node->shell.send(node->shell.context, &message);
}

/* ---- locks ---------------------------------------------------------------- */

static struct region_lock *find(struct region_lock_node *node, uint64_t number)
{
    return table_find_pointer(&node->locks, number);
}

static void set_unused(struct region_lock_node *node, struct region_lock *lock, bool is_unused)
{
    if (is_unused == list_is_linked(&lock->unused)) {
        return;
    }
    if (is_unused) {
        list_push_back(&node->unused, &lock->unused);
        node->unused_count++;
    } else {
        list_remove(&lock->unused);
        node->unused_count--;
    }
}

static struct region_lock *make(struct region_lock_node *node, uint64_t number, nigh_status *status)
{
    struct region_lock *lock = calloc(1, sizeof(*lock));

    *status = lock == NULL ? NIGH_NO_RESOURCES : region_lock_table_add(&node->locks, number, lock);
    if (*status != NIGH_OK) {
        free(lock);
        return NULL;
    }
    lock->number = number;
    list_init(&lock->holders);
    list_init(&lock->waiters);
    node->count++;
    return lock;
}

static void drop(struct region_lock_node *node, struct region_lock *lock)
{
    set_unused(node, lock, false);
    (void)table_remove(&node->locks, lock->number, NULL);
    node->count--;
    free(lock);
}

static enum region_lock_mode first_mode(const struct list *list)
{
    return list_empty(list) ? REGION_LOCK_NONE
                            : container_of(list_first(list), struct region_hold, link)->mode;
}

/* ---- who has it ----------------------------------------------------------- */

/* In the order in which they came, as long as the home has not said that others wait. */
static void admit(struct region_lock_node *node, struct region_lock *lock)
{
    while (node->has_lease && !lock->is_recalled && !list_empty(&lock->waiters)) {
        struct region_hold *hold =
            container_of(list_first(&lock->waiters), struct region_hold, link);

        if (hold->mode > lock->held || !region_lock_suits(first_mode(&lock->holders), hold->mode)) {
            return;
        }
        list_remove(&hold->link);
        list_push_back(&lock->holders, &hold->link);
        hold->is_held = true;
        node->shell.locked(node->shell.context, hold, NIGH_OK);
    }
}

/* Nobody uses it: it is given up if others wait, or if who waits here needs more. Then what it
 * wants is said, which holds back nothing until what was written under it has landed. */
static void give_up(struct region_lock_node *node, struct region_lock *lock)
{
    bool is_held = lock->held != REGION_LOCK_NONE;
    bool is_enough = first_mode(&lock->waiters) <= lock->held;

    if (is_held && list_empty(&lock->holders) && (lock->is_recalled || !is_enough)) {
        lock->held = REGION_LOCK_NONE;
        lock->is_recalled = false;
    } else if (is_held || lock->said == first_mode(&lock->waiters)) {
        return;
    }
    lock->said = first_mode(&lock->waiters);
    lock->is_given_up = lock->said == REGION_LOCK_NONE;
    claim(node, lock);
}

static void tell_holders(struct region_lock_node *node, struct region_lock *lock)
{
    if (!lock->is_recalled && list_empty(&lock->waiters)) {
        return;
    }
    LIST_FOREACH(at, &lock->holders)
    {
        struct region_hold *hold = container_of(at, struct region_hold, link);

        if (!hold->is_wanted) {
            hold->is_wanted = true;
            node->shell.wanted(node->shell.context, hold);
        }
    }
}

static void keep_few(struct region_lock_node *node)
{
    struct region_lock *lock;

    if (node->unused_count <= LIMIT_REGION_LOCKS_KEPT) {
        return;
    }
    lock = container_of(list_first(&node->unused), struct region_lock, unused);
    set_unused(node, lock, false);
    lock->is_recalled = true; /* as if others waited */
    give_up(node, lock);
}

static void go_on(struct region_lock_node *node, struct region_lock *lock)
{
    bool is_idle;

    admit(node, lock);
    give_up(node, lock);
    tell_holders(node, lock);
    is_idle = list_empty(&lock->holders) && list_empty(&lock->waiters);
    set_unused(node, lock, is_idle && lock->held != REGION_LOCK_NONE);
    if (is_idle && lock->held == REGION_LOCK_NONE && !lock->is_given_up) {
        drop(node, lock);
    }
    keep_few(node);
}

nigh_status region_lock_acquire(struct region_lock_node *node, const struct region_version *birth,
                                uint64_t number, enum region_lock_mode mode,
                                struct region_hold *hold)
{
    struct region_lock *lock = find(node, number);
    nigh_status status = NIGH_OK;

    NIGH_ASSERT(mode != REGION_LOCK_NONE && hold->lock == NULL);
    if (node->count == 0) {
        node->birth = *birth;
    } else if (!region_version_equal(&node->birth, birth)) {
        return NIGH_BUSY;
    }
    if (lock == NULL) {
        lock = make(node, number, &status);
    }
    if (lock == NULL) {
        return status;
    }
    set_unused(node, lock, false);
    *hold = (struct region_hold){.lock = lock, .mode = mode};
    list_push_back(&lock->waiters, &hold->link);
    go_on(node, lock);
    return NIGH_OK;
}

void region_lock_release(struct region_lock_node *node, struct region_hold *hold)
{
    struct region_lock *lock = hold->lock;

    if (hold->is_held && hold->is_dirty) {
        lock->is_dirty = lock->is_recalled = true; /* nobody here has it before that has landed */
    }
    list_remove(&hold->link);
    hold->lock = NULL;
    go_on(node, lock);
}

/* ---- the home ------------------------------------------------------------- */

static void end_list(struct region_lock_node *node, struct list *list, nigh_status status)
{
    struct list_node *at;

    while ((at = list_pop_front(list)) != NULL) {
        struct region_hold *hold = container_of(at, struct region_hold, link);

        hold->lock = NULL;
        node->shell.locked(node->shell.context, hold, status);
    }
}

static void lose(struct region_lock_node *node, struct region_lock *lock, nigh_status status)
{
    end_list(node, &lock->waiters, status);
    end_list(node, &lock->holders, status);
    drop(node, lock);
}

static void take_grant(struct region_lock_node *node, struct region_lock *lock,
                       const struct region_message *message)
{
    if (message->status != NIGH_OK) {
        lose(node, lock, message->status);
        return;
    }
    if (message->lock.mode == REGION_LOCK_NONE) {
        lock->is_given_up = lock->is_dirty = false; /* the home knows */
    } else if (lock->held == REGION_LOCK_NONE) {
        lock->held = message->lock.mode;
        lock->said = REGION_LOCK_NONE;
        lock->is_dirty = false;
    }
    go_on(node, lock);
}

void region_lock_node_take(struct region_lock_node *node, const struct region_message *message)
{
    struct region_lock *lock = find(node, message->lock.number);

    if (message->peer != node->home) {
        return;
    }
    if (lock == NULL || !region_version_equal(&message->base, &node->birth)) {
        if (message->kind == REGION_RECALL || message->lock.mode != REGION_LOCK_NONE) {
            disclaim(node, message);
        }
        return;
    }
    if (message->lock.serial != lock->serial) {
        return; /* an answer to what is not so any more; the last claim has one, too */
    }
    if (message->kind == REGION_GRANT) {
        take_grant(node, lock, message);
    } else if (lock->held != REGION_LOCK_NONE) {
        lock->is_recalled = true;
        go_on(node, lock);
    }
}

void region_lock_node_home(struct region_lock_node *node, uint32_t home)
{
    size_t cursor = 0;
    uint64_t key, value;

    node->home = home;
    while (table_next(&node->locks, &cursor, &key, &value)) {
        claim(node, (struct region_lock *)(uintptr_t)value);
    }
}

void region_lock_node_lease(struct region_lock_node *node, bool has_lease)
{
    size_t cursor = 0;
    uint64_t key, value;

    node->has_lease = has_lease;
    while (has_lease && table_next(&node->locks, &cursor, &key, &value)) {
        struct region_lock *lock = (struct region_lock *)(uintptr_t)value;

        admit(node, lock); /* which ends no lock */
        tell_holders(node, lock);
    }
}

void region_lock_node_lose(struct region_lock_node *node, nigh_status status)
{
    size_t cursor = 0;
    uint64_t key, value;

    while (table_next(&node->locks, &cursor, &key, &value)) {
        lose(node, (struct region_lock *)(uintptr_t)value, status);
        cursor = 0; /* it has been taken out */
    }
}

bool region_lock_node_is_idle(const struct region_lock_node *node)
{
    return node->count == node->unused_count;
}

/* ---- made, checked -------------------------------------------------------- */

nigh_status region_lock_node_init(struct region_lock_node *node, uint64_t seed, bool has_lease,
                                  const struct region_lock_shell *shell)
{
    *node =
        (struct region_lock_node){.home = REGION_NOBODY, .has_lease = has_lease, .shell = *shell};
    list_init(&node->unused);
    return region_lock_table_init(&node->locks, seed);
}

void region_lock_node_fini(struct region_lock_node *node)
{
    size_t cursor = 0;
    uint64_t key, value;

    NIGH_ASSERT(region_lock_node_is_idle(node));
    while (table_next(&node->locks, &cursor, &key, &value)) {
        free((struct region_lock *)(uintptr_t)value);
    }
    table_fini(&node->locks);
}

static bool is_valid(const struct region_lock *lock)
{
    bool is_idle = list_empty(&lock->holders) && list_empty(&lock->waiters);
    uint32_t exclusive = 0, count = 0;

    LIST_FOREACH(at, &lock->holders)
    {
        const struct region_hold *hold = container_of(at, struct region_hold, link);

        if (!hold->is_held || hold->mode > lock->held) {
            return false;
        }
        count++;
        exclusive += hold->mode == REGION_LOCK_EXCLUSIVE;
    }
    return (exclusive == 0 || count == 1) &&
           (lock->held == REGION_LOCK_NONE || lock->said == REGION_LOCK_NONE) &&
           list_is_linked(&lock->unused) == (is_idle && lock->held != REGION_LOCK_NONE) &&
           (!is_idle || lock->held != REGION_LOCK_NONE || lock->is_given_up);
}

bool region_lock_node_is_valid(const struct region_lock_node *node)
{
    size_t cursor = 0;
    uint64_t key, value;
    uint32_t count = 0;

    while (table_next(&node->locks, &cursor, &key, &value)) {
        count++;
        if (!is_valid((const struct region_lock *)(uintptr_t)value)) {
            return false;
        }
    }
    return count == node->count && node->unused_count <= LIMIT_REGION_LOCKS_KEPT &&
           table_is_valid(&node->locks);
}
