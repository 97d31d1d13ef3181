/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member's up, announcing, announced or dead, or a view, changes what all entries say. With a
 * million keys that is too long for one turn, so it is noted as a change with a number, and applied
 * to an entry when that is looked at (is_fresh), and by a sweep that passes some entries a turn.
 * What is answered is therefore the same as if it had been applied at once.
 */
#include "cluster/directory_internal.h"

/* A holder is one only as far as it says so again, and so is who claims. */
static void doubt(struct directory *directory, struct entry *entry, uint32_t rank)
{
    if (set_has(directory, entry, SET_HOLDERS, rank)) {
        set_add(directory, entry, SET_UNCONFIRMED, rank);
    }
    if (is_claimed_by(entry, rank)) {
        entry->claim.doubted = true;
    }
}

static void apply_to_claim(struct directory *directory, struct entry *entry,
                           const struct change *change)
{
    bool over =
        change->kind == CHANGE_DEAD || (change->kind == CHANGE_ANNOUNCED && entry->claim.doubted);

    if (over && is_claimed_by(entry, change->rank)) {
        directory_end_claim(directory, entry);
        directory_drop_if_idle(directory, entry);
    }
}

/* What another node is the home of now is forgotten: members tell that, and ask it. */
static void leave(struct directory *directory, struct entry *entry)
{
    if (entry->tombstone) {
        directory_leave_tombstone(directory, entry);
        return;
    }
    if (is_claimed(entry)) {
        directory_end_claim(directory, entry);
    }
    directory_drop_entry(directory, entry);
}

static void apply(struct directory *directory, struct entry *entry, const struct change *change)
{
    const struct directory_shell *shell = &directory->config.shell;
    uint32_t rank = change->rank;

    if (change->kind == CHANGE_VIEW && change->epoch != 0 &&
        !shell->keeps(shell->context, change->epoch, &entry->key)) {
        leave(directory, entry);
        return;
    }
    if (is_claimed(entry)) {
        apply_to_claim(directory, entry, change);
        if (!entry->used) {
            return;
        }
    }
    switch (change->kind) {
    case CHANGE_ANNOUNCING: doubt(directory, entry, rank); return;
    case CHANGE_UP:
        doubt(directory, entry, rank);
        directory_remove_waiter(directory, entry,
                                rank); /* what it holds it announces, and is told then */
        directory_drop_if_idle(directory, entry);
        return;
    case CHANGE_ANNOUNCED:
        if (set_has(directory, entry, SET_UNCONFIRMED, rank)) {
            directory_let_go(directory, entry, rank, change->rebuilt);
            return;
        }
        break;
    case CHANGE_DEAD:
        directory_remove_waiter(directory, entry, rank);
        if (set_has(directory, entry, SET_HOLDERS, rank)) {
            directory_let_go(directory, entry, rank, change->rebuilt);
            return;
        }
        directory_drop_if_idle(directory, entry);
        break;
    case CHANGE_VIEW: break;
    }
    if (entry->used && entry->told) {
        directory_end_tombstone(directory, entry, change->rebuilt);
    }
}

void directory_freshen(struct directory *directory, struct entry *entry)
{
    while (entry->used && entry->seen != directory->next_change) {
        const struct change *change = &directory->changes[entry->seen % LIMIT_DIRECTORY_CHANGES];

        entry->seen++;
        if ((change->shards & shard_of(&entry->key)) != 0) {
            apply(directory, entry, change);
        }
    }
}

static bool is_everywhere(const struct directory *directory, const struct change *change)
{
    return directory->used == 0 || directory->lap > change->lap + 1 ||
           (directory->lap == change->lap + 1 && directory->cursor >= change->cursor);
}

/* Passes up to `count` entries. */
static void sweep(struct directory *directory, uint32_t count)
{
    if (directory->sweeping) {
        return; /* from inside its callbacks */
    }
    directory->sweeping = true;
    while (directory->first_change != directory->next_change) {
        if (is_everywhere(directory,
                          &directory->changes[directory->first_change % LIMIT_DIRECTORY_CHANGES])) {
            directory->first_change++;
            continue;
        }
        if (count-- == 0) {
            break;
        }
        if (directory->cursor < directory->used) {
            struct entry *entry = entry_at(directory, directory->cursor);

            if (entry->used) {
                (void)is_fresh(directory, entry);
            }
            directory->cursor++;
        }
        if (directory->cursor >= directory->used) {
            directory->cursor = 0;
            directory->lap++;
        }
    }
    directory->sweeping = false;
}

static void note_change(struct directory *directory, enum change_kind kind, uint32_t rank,
                        uint64_t shards, uint64_t epoch)
{
    /* Rare: members come and go faster than turns pass. From inside a sweep there is always room,
     * since callbacks do not note changes. */
    while (directory->next_change - directory->first_change == LIMIT_DIRECTORY_CHANGES) {
        NIGH_ASSERT(!directory->sweeping);
        sweep(directory, LIMIT_DIRECTORY_TURN);
    }
    directory->changes[directory->next_change % LIMIT_DIRECTORY_CHANGES] =
        (struct change){.kind = kind,
                        .rank = rank,
                        .shards = shards,
                        .rebuilt = directory->rebuilt,
                        .epoch = epoch,
                        .lap = directory->lap,
                        .cursor = directory->cursor};
    directory->next_change++;
    sweep(directory, LIMIT_DIRECTORY_TURN);
}

bool directory_is_sweeping(const struct directory *directory)
{
    return directory->first_change != directory->next_change;
}

bool directory_turn(struct directory *directory)
{
    if (!directory_is_sweeping(directory)) {
        return false;
    }
    sweep(directory, LIMIT_DIRECTORY_TURN);
    return directory_is_sweeping(directory);
}

/* ---- members -------------------------------------------------------------- */

void directory_find_complete(struct directory *directory)
{
    directory->complete = UINT64_MAX;
    directory->rebuilt = UINT64_MAX;
    for (uint32_t rank = 0; rank < directory->config.nodes; rank++) {
        if (!directory->dead[rank]) {
            directory->complete &= directory->announced[rank];
            directory->rebuilt &= directory->ever[rank];
        }
    }
}

bool directory_is_complete(const struct directory *directory, uint64_t shards)
{
    return (directory->complete & shards) == shards;
}

void directory_member_up(struct directory *directory, uint32_t rank, uint64_t shards)
{
    NIGH_ASSERT(rank < directory->config.nodes);
    directory->dead[rank] = false;
    directory->announced[rank] &= ~shards;
    directory_find_complete(directory);
    note_change(directory, CHANGE_UP, rank, shards, 0);
}

void directory_announcing(struct directory *directory, uint32_t rank, uint64_t shards)
{
    NIGH_ASSERT(rank < directory->config.nodes);
    note_change(directory, CHANGE_ANNOUNCING, rank, shards, 0);
}

void directory_announced(struct directory *directory, uint32_t rank, uint64_t shards)
{
    NIGH_ASSERT(rank < directory->config.nodes);
    directory->announced[rank] |= shards;
    directory->ever[rank] |= shards;
    directory_find_complete(directory);
    note_change(directory, CHANGE_ANNOUNCED, rank, shards, 0);
}

void directory_member_dead(struct directory *directory, uint32_t rank)
{
    NIGH_ASSERT(rank < directory->config.nodes);
    directory->dead[rank] = true;
    directory->announced[rank] = 0;
    directory->ever[rank] = 0;
    directory_find_complete(directory);
    note_change(directory, CHANGE_DEAD, rank, UINT64_MAX, 0);
}

void directory_view(struct directory *directory, uint64_t epoch)
{
    note_change(directory, CHANGE_VIEW, 0, UINT64_MAX, epoch);
}

bool directory_member_is_dead(const struct directory *directory, uint32_t rank)
{
    NIGH_ASSERT(rank < directory->config.nodes);
    return directory->dead[rank];
}
