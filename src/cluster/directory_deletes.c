/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tombstones: births that are deleted, until each holder has acknowledged or is dead; and the drops
 * that are yet to be said to holders.
 */
#include "cluster/directory_internal.h"

/* ---- drops that are yet to be said ---------------------------------------- */

/* A tombstone's holder is yet to be told. */
static void owe(struct directory *directory, struct entry *entry, uint32_t rank)
{
    uint32_t number = number_of(directory, entry) + 1;

    NIGH_ASSERT(entry->tombstone && set_has(directory, entry, SET_HOLDERS, rank));
    set_add(directory, entry, SET_WAITERS, rank);
    if (entry->owes) {
        return;
    }
    entry->owes = true;
    entry->grave.next_owed = 0;
    entry->grave.prev_owed = directory->last_owed;
    if (directory->last_owed != 0) {
        entry_at(directory, directory->last_owed - 1)->grave.next_owed = number;
    } else {
        directory->first_owed = number;
    }
    directory->last_owed = number;
    directory->owed++;
}

static void owe_nothing(struct directory *directory, struct entry *entry)
{
    uint32_t next = entry->grave.next_owed, prev = entry->grave.prev_owed;

    entry->owes = false;
    if (prev != 0) {
        entry_at(directory, prev - 1)->grave.next_owed = next;
    } else {
        directory->first_owed = next;
    }
    if (next != 0) {
        entry_at(directory, next - 1)->grave.prev_owed = prev;
    } else {
        directory->last_owed = prev;
    }
    directory->owed--;
}

void directory_remove_waiter(struct directory *directory, struct entry *entry, uint32_t rank)
{
    set_remove(directory, entry, SET_WAITERS, rank);
    if (entry->owes && set_empty(directory, entry, SET_WAITERS)) {
        owe_nothing(directory, entry);
    }
}

bool directory_tell_drop(struct directory *directory, uint32_t rank,
                         const struct directory_key *key, const struct birth *birth)
{
    struct entry *entry;

    if (directory->config.shell.drop(directory->config.shell.context, rank, key, birth)) {
        return true;
    }
    entry = directory_find(directory, key, birth);
    if (entry != NULL && set_has(directory, entry, SET_HOLDERS, rank)) {
        owe(directory, entry, rank);
    }
    return false;
}

/* ---- ends ----------------------------------------------------------------- */

void directory_end_tombstone(struct directory *directory, struct entry *entry, uint64_t rebuilt)
{
    uint64_t ticket = entry->ticket;
    nigh_status status = entry->in_use ? NIGH_IN_USE : NIGH_OK;
    bool told = entry->told;

    if (!set_empty(directory, entry, SET_HOLDERS)) {
        return;
    }
    entry->told = true;
    if (is_rebuilt(directory, rebuilt, &entry->key)) {
        directory_drop_entry(directory, entry);
    }
    if (!told) {
        directory->config.shell.deleted(directory->config.shell.context, ticket, status);
    }
}

void directory_leave_tombstone(struct directory *directory, struct entry *entry)
{
    uint64_t ticket = entry->ticket;
    bool told = entry->told;

    if (entry->owes) {
        owe_nothing(directory, entry);
    }
    directory_drop_entry(directory, entry);
    if (!told) {
        directory->config.shell.deleted(directory->config.shell.context, ticket, NIGH_BUSY);
    }
}

void directory_let_go(struct directory *directory, struct entry *entry, uint32_t rank,
                      uint64_t rebuilt)
{
    bool held = set_has(directory, entry, SET_HOLDERS, rank);

    set_remove(directory, entry, SET_HOLDERS, rank);
    set_remove(directory, entry, SET_UNCONFIRMED, rank);
    if (!entry->tombstone) {
        directory_drop_if_idle(directory, entry);
    } else if (held) {
        directory_remove_waiter(directory, entry, rank);
        directory_end_tombstone(directory, entry, rebuilt);
    }
}

/* ---- deletes -------------------------------------------------------------- */

/* The entry becomes a tombstone; who waits for the key (it may hold the birth itself) waits on, for
 * another birth. */
static nigh_status bury(struct directory *directory, struct entry *entry, uint64_t ticket)
{
    uint32_t nodes = directory->config.nodes;
    uint32_t waiter = next_rank(set_of(directory, entry, SET_WAITERS), 0, nodes);

    if (waiter < nodes) {
        struct entry *waiting = directory_add(directory, &entry->key, waiter);

        if (waiting == NULL) {
            return NIGH_LIMIT;
        }
        memcpy(set_of(directory, waiting, SET_WAITERS), set_of(directory, entry, SET_WAITERS),
               directory->words * sizeof(uint64_t));
        directory_recount(directory, waiting);
        memset(set_of(directory, entry, SET_WAITERS), 0, directory->words * sizeof(uint64_t));
    }
    entry->tombstone = true;
    entry->ticket = ticket;
    directory_recount(directory, entry);
    return NIGH_OK;
}

nigh_status directory_delete(struct directory *directory, uint32_t except,
                             const struct directory_key *key, uint64_t ticket, uint64_t now_us)
{
    struct entry *entry = directory_find(directory, key, NULL);
    uint32_t nodes = directory->config.nodes;
    struct directory_key kept = *key;
    struct birth birth;
    uint64_t holders[SET_WORDS];
    bool held_elsewhere;

    (void)now_us;
    if (is_untold(directory, UINT32_MAX, key)) {
        return NIGH_BUSY; /* a tombstone that waits for what is told would go with a next home */
    }
    if (entry == NULL || !is_known(directory, entry)) {
        return is_complete(directory, key) ? NIGH_NOT_FOUND : NIGH_BUSY;
    }
    memcpy(holders, set_of(directory, entry, SET_HOLDERS), directory->words * sizeof(uint64_t));
    if (except < nodes) {
        holders[except / 64] &= ~(UINT64_C(1) << except % 64);
    }
    held_elsewhere = next_rank(holders, 0, nodes) < nodes;
    if (held_elsewhere || !is_rebuilt(directory, directory->rebuilt, key)) {
        if (bury(directory, entry, ticket) != NIGH_OK) {
            return NIGH_LIMIT;
        }
    }
    if (except < nodes) {
        set_remove(directory, entry, SET_HOLDERS, except);
        set_remove(directory, entry, SET_UNCONFIRMED, except);
    }
    if (!held_elsewhere) {
        entry->told = entry->tombstone; /* by what is returned */
        directory_drop_if_idle(directory, entry);
        return NIGH_OK;
    }
    birth = entry->object.birth;
    for (uint32_t rank = next_rank(holders, 0, nodes); rank < nodes;
         rank = next_rank(holders, rank + 1, nodes)) {
        (void)directory_tell_drop(directory, rank, &kept, &birth);
    }
    return NIGH_PENDING;
}

bool directory_owes(const struct directory *directory)
{
    return directory->owed > 0;
}

/* Says all that one tombstone owes; what is not taken puts it at the end of the list again. */
static bool tell_one(struct directory *directory, struct entry *entry)
{
    uint64_t ranks[SET_WORDS];
    struct directory_key key = entry->key;
    struct birth birth = entry->grave.birth;
    uint32_t nodes = directory->config.nodes;
    size_t bytes = directory->words * sizeof(uint64_t);
    bool taken = false;

    memcpy(ranks, set_of(directory, entry, SET_WAITERS), bytes);
    memset(set_of(directory, entry, SET_WAITERS), 0, bytes);
    owe_nothing(directory, entry);
    for (uint32_t rank = next_rank(ranks, 0, nodes); rank < nodes;
         rank = next_rank(ranks, rank + 1, nodes)) {
        taken = directory_tell_drop(directory, rank, &key, &birth) || taken;
    }
    return taken;
}

bool directory_tell_owed(struct directory *directory, uint32_t count)
{
    bool taken = false;

    for (count = count < directory->owed ? count : directory->owed;
         count > 0 && directory->first_owed != 0; count--) {
        struct entry *entry = entry_at(directory, directory->first_owed - 1);

        if (is_fresh(directory, entry)) {
            taken = tell_one(directory, entry) || taken;
        }
    }
    return taken;
}

void directory_dropped(struct directory *directory, uint32_t from, const struct directory_key *key,
                       const struct birth *birth, nigh_status status)
{
    struct entry *entry = directory_find(directory, key, birth);

    NIGH_ASSERT(from < directory->config.nodes);
    if (entry != NULL && set_has(directory, entry, SET_HOLDERS, from)) {
        entry->in_use = entry->in_use || status == NIGH_IN_USE;
        directory_let_go(directory, entry, from, directory->rebuilt);
    }
}
