/* SPDX-License-Identifier: Apache-2.0 */
/* See lock_home.h. */
#include "region/lock_home.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"

/* What one node has of a lock, or waits for. */
struct lock_claim {
    struct list_node link; /* in the lock's holders or waiters */
    uint32_t rank;
    uint64_t serial;
    enum region_lock_mode mode;
    bool is_recalled; /* it was told that others wait */
    struct region_version birth;
};

struct home_lock {
    struct list_node link;
    uint64_t number;
    struct list holders, waiters;
};

/* ---- what is said --------------------------------------------------------- */

static void say(struct region_lock_home *home, const struct region_message *claimed,
                enum region_message_kind kind, enum region_lock_mode mode, nigh_status status)
{
    struct region_message message = {
        .kind = kind,
        .peer = claimed->peer,
        .status = status,
        .base = claimed->base,
        .lock = {.number = claimed->lock.number, .serial = claimed->lock.serial, .mode = mode},
    };

    home->send(home->context, &message);
}

static void say_to(struct region_lock_home *home, const struct home_lock *lock,
                   const struct lock_claim *claim, enum region_message_kind kind,
                   nigh_status status)
{
    struct region_message claimed = {.peer = claim->rank, .base = claim->birth};

    claimed.lock.number = lock->number;
    claimed.lock.serial = claim->serial;
    say(home, &claimed, kind, status == NIGH_OK ? claim->mode : REGION_LOCK_NONE, status);
}

/* ---- locks ---------------------------------------------------------------- */

static struct home_lock *get_lock(struct region_lock_home *home, uint64_t number,
                                  nigh_status *status)
{
    struct home_lock *lock = table_find_pointer(&home->locks, number);

    if (lock != NULL) {
        return lock;
    }
    lock = calloc(1, sizeof(*lock));
    *status = lock == NULL ? NIGH_NO_RESOURCES : region_lock_table_add(&home->locks, number, lock);
    if (*status != NIGH_OK) {
        free(lock);
        return NULL;
    }
    lock->number = number;
    list_init(&lock->holders);
    list_init(&lock->waiters);
    list_push_back(&home->all, &lock->link);
    home->count++;
    return lock;
}

static void put_lock(struct region_lock_home *home, struct home_lock *lock)
{
    if (list_empty(&lock->holders) && list_empty(&lock->waiters)) {
        list_remove(&lock->link);
        (void)table_remove(&home->locks, lock->number, NULL);
        home->count--;
        free(lock);
    }
}

static struct lock_claim *find_in(const struct list *list, uint32_t rank)
{
    LIST_FOREACH(at, list)
    {
        struct lock_claim *claim = container_of(at, struct lock_claim, link);

        if (claim->rank == rank) {
            return claim;
        }
    }
    return NULL;
}

static bool suits_holders(const struct home_lock *lock, enum region_lock_mode mode)
{
    struct list_node *first = list_first(&lock->holders);

    return first == NULL ||
           region_lock_suits(container_of(first, struct lock_claim, link)->mode, mode);
}

/* ---- in turn -------------------------------------------------------------- */

static void recall(struct region_lock_home *home, struct home_lock *lock)
{
    LIST_FOREACH(at, &lock->holders)
    {
        struct lock_claim *claim = container_of(at, struct lock_claim, link);

        if (!claim->is_recalled) {
            claim->is_recalled = true;
            say_to(home, lock, claim, REGION_RECALL, NIGH_OK);
        }
    }
}

/* Who waits longest is next; holders that stand in its way are told. */
static void go_on(struct region_lock_home *home, struct home_lock *lock)
{
    while (home->may_grant && !list_empty(&lock->waiters)) {
        struct lock_claim *claim =
            container_of(list_first(&lock->waiters), struct lock_claim, link);

        if (!suits_holders(lock, claim->mode)) {
            recall(home, lock);
            return;
        }
        list_remove(&claim->link);
        list_push_back(&lock->holders, &claim->link);
        claim->is_recalled = false;
        say_to(home, lock, claim, REGION_GRANT, NIGH_OK);
    }
}

/* ---- claims --------------------------------------------------------------- */

/* Beside others: it was told to another home, and nobody has given it since. */
static void note_held(struct region_lock_home *home, struct home_lock *lock,
                      struct lock_claim *claim)
{
    if (list_is_linked(&claim->link)) {
        list_remove(&claim->link);
    }
    if (!suits_holders(lock, claim->mode)) {
        say_to(home, lock, claim, REGION_GRANT, NIGH_LOCK_LOST);
        free(claim);
        return;
    }
    claim->is_recalled = false;
    list_push_back(&lock->holders, &claim->link);
}

/* A place in the queue stays; who had it, and wants it again, comes last. */
static void note_wanted(struct home_lock *lock, struct lock_claim *claim, bool waited)
{
    if (!waited) {
        if (list_is_linked(&claim->link)) {
            list_remove(&claim->link);
        }
        list_push_back(&lock->waiters, &claim->link);
    }
}

static void take_nothing(struct region_lock_home *home, struct home_lock *lock,
                         struct lock_claim *claim, const struct region_message *message)
{
    if (claim != NULL) {
        list_remove(&claim->link);
        free(claim);
    }
    say(home, message, REGION_GRANT, REGION_LOCK_NONE, NIGH_OK);
    if (lock != NULL) {
        go_on(home, lock);
        put_lock(home, lock);
    }
}

static nigh_status take_claim(struct region_lock_home *home, struct home_lock *lock,
                              struct lock_claim *claim, bool waited,
                              const struct region_message *message)
{
    if (claim == NULL) {
        claim = calloc(1, sizeof(*claim));
    }
    if (claim == NULL) {
        put_lock(home, lock);
        return NIGH_NO_RESOURCES;
    }
    claim->rank = message->peer;
    claim->serial = message->lock.serial;
    claim->mode = message->lock.mode;
    claim->birth = message->base;
    if (message->lock.is_held) {
        note_held(home, lock, claim);
    } else {
        note_wanted(lock, claim, waited);
    }
    go_on(home, lock);
    put_lock(home, lock);
    return NIGH_OK;
}

nigh_status region_lock_home_take(struct region_lock_home *home,
                                  const struct region_message *message)
{
    bool is_nothing = message->lock.mode == REGION_LOCK_NONE, waited = false;
    struct home_lock *lock = table_find_pointer(&home->locks, message->lock.number);
    struct lock_claim *claim = NULL;
    nigh_status status = NIGH_OK;

    if (message->lock.is_dirty) {
        home->is_unsafe = true;
        home->may_grant = false;
    }
    if (lock != NULL) {
        claim = find_in(&lock->waiters, message->peer);
        waited = claim != NULL;
    }
    if (lock != NULL && claim == NULL) {
        claim = find_in(&lock->holders, message->peer);
    }
    if (is_nothing) {
        if (claim != NULL && !region_version_equal(&claim->birth, &message->base)) {
            claim = NULL; /* that is of another region of the name */
        }
        take_nothing(home, lock, claim, message);
        return NIGH_OK;
    }
    if (home->may_grant && !region_version_equal(&home->birth, &message->base)) {
        status = NIGH_NOT_FOUND;
    } else if (lock == NULL) {
        lock = get_lock(home, message->lock.number, &status);
    }
    if (status == NIGH_NOT_FOUND || status == NIGH_LIMIT) {
        say(home, message, REGION_GRANT, REGION_LOCK_NONE, status);
        return NIGH_OK;
    }
    return status == NIGH_OK ? take_claim(home, lock, claim, waited, message) : status;
}

/* Ends the claims of one node in a list, or of all of another birth, or of all. True: some were. */
static bool end_claims(struct region_lock_home *home, struct home_lock *lock, struct list *list,
                       bool (*is_over)(const struct lock_claim *claim, const void *what),
                       const void *what, nigh_status status)
{
    bool any = false;

    LIST_FOREACH_SAFE(at, list)
    {
        struct lock_claim *claim = container_of(at, struct lock_claim, link);

        if (!is_over(claim, what)) {
            continue;
        }
        list_remove(&claim->link);
        if (status != NIGH_OK) {
            say_to(home, lock, claim, REGION_GRANT, status);
        }
        free(claim);
        any = true;
    }
    return any;
}

static bool is_of_rank(const struct lock_claim *claim, const void *rank)
{
    return claim->rank == *(const uint32_t *)rank;
}

static bool is_of_another(const struct lock_claim *claim, const void *birth)
{
    return !region_version_equal(&claim->birth, birth);
}

static bool is_any(const struct lock_claim *claim, const void *what)
{
    (void)claim;
    (void)what;
    return true;
}

void region_lock_home_forget(struct region_lock_home *home, uint32_t rank, bool is_dead)
{
    LIST_FOREACH_SAFE(at, &home->all)
    {
        struct home_lock *lock = container_of(at, struct home_lock, link);

        if (end_claims(home, lock, &lock->holders, is_of_rank, &rank, NIGH_OK) && is_dead) {
            home->is_unsafe = true;
            home->may_grant = false;
        }
        (void)end_claims(home, lock, &lock->waiters, is_of_rank, &rank, NIGH_OK);
        go_on(home, lock);
        put_lock(home, lock);
    }
}

void region_lock_home_link(struct region_lock_home *home, uint32_t rank)
{
    LIST_FOREACH(at, &home->all)
    {
        struct home_lock *lock = container_of(at, struct home_lock, link);
        struct lock_claim *claim = find_in(&lock->holders, rank);

        if (claim != NULL && claim->is_recalled) {
            say_to(home, lock, claim, REGION_RECALL, NIGH_OK);
        }
    }
}

void region_lock_home_open(struct region_lock_home *home, const struct region_version *birth)
{
    if (home->may_grant && region_version_equal(&home->birth, birth)) {
        return;
    }
    home->may_grant = true;
    home->birth = *birth;
    LIST_FOREACH_SAFE(at, &home->all)
    {
        struct home_lock *lock = container_of(at, struct home_lock, link);

        (void)end_claims(home, lock, &lock->holders, is_of_another, birth, NIGH_NOT_FOUND);
        (void)end_claims(home, lock, &lock->waiters, is_of_another, birth, NIGH_NOT_FOUND);
        go_on(home, lock);
        put_lock(home, lock);
    }
}

void region_lock_home_shut(struct region_lock_home *home)
{
    home->may_grant = false;
}

void region_lock_home_end(struct region_lock_home *home, nigh_status status)
{
    LIST_FOREACH_SAFE(at, &home->all)
    {
        struct home_lock *lock = container_of(at, struct home_lock, link);

        (void)end_claims(home, lock, &lock->holders, is_any, NULL, status);
        (void)end_claims(home, lock, &lock->waiters, is_any, NULL, status);
        put_lock(home, lock);
    }
}

/* ---- made, checked -------------------------------------------------------- */

nigh_status region_lock_home_init(struct region_lock_home *home, uint64_t seed, void *context,
                                  void (*send)(void *context, const struct region_message *message))
{
    *home = (struct region_lock_home){.context = context, .send = send};
    list_init(&home->all);
    return region_lock_table_init(&home->locks, seed);
}

void region_lock_home_fini(struct region_lock_home *home)
{
    region_lock_home_end(home, NIGH_OK);
    table_fini(&home->locks);
}

static bool is_valid(const struct home_lock *lock)
{
    uint32_t exclusive = 0, count = 0;

    LIST_FOREACH(at, &lock->holders)
    {
        const struct lock_claim *claim = container_of(at, struct lock_claim, link);

        count++;
        exclusive += claim->mode == REGION_LOCK_EXCLUSIVE;
        if (find_in(&lock->waiters, claim->rank) != NULL) {
            return false;
        }
    }
    return (exclusive == 0 || count == 1) && (count > 0 || !list_empty(&lock->waiters));
}

bool region_lock_home_is_valid(const struct region_lock_home *home)
{
    uint32_t count = 0;

    LIST_FOREACH(at, &home->all)
    {
        count++;
        if (!is_valid(container_of(at, struct home_lock, link))) {
            return false;
        }
    }
    return count == home->count && table_is_valid(&home->locks);
}
