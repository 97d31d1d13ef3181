/* SPDX-License-Identifier: Apache-2.0 */
/* See regions.h. The machines of one name: made when there is a use for them, given room as letters
 * need it, and taken away when they are idle. */
#include <stdlib.h>
#include <string.h>

#include "region/regions_internal.h"

const struct regions_shell *regions_shell_of(const struct region *region)
{
    return &region->regions->config.shell;
}

uint32_t regions_home_of(const struct region *region)
{
    return regions_shell_of(region)->home(regions_shell_of(region)->context, region->hash);
}

void regions_send(void *context, const struct region_message *message)
{
    regions_say(context, message);
}

bool regions_grow(void **memory, size_t old_bytes, size_t new_bytes)
{
    uint8_t *more = realloc(*memory, new_bytes > 0 ? new_bytes : 1);

    if (more == NULL) {
        return false;
    }
    if (new_bytes > old_bytes) {
        memset(more + old_bytes, 0, new_bytes - old_bytes);
    }
    *memory = more;
    return true;
}

bool regions_grow_descriptor(struct region_descriptor **descriptor, uint32_t from, uint32_t to)
{
    void *memory = *descriptor;
    size_t had_bytes = memory == NULL ? 0 : region_descriptor_bytes(from);

    if (!regions_grow(&memory, had_bytes, region_descriptor_bytes(to))) {
        return false;
    }
    *descriptor = memory;
    return true;
}

/* What a mapper that is none any more is told: its home shall not wait for it. */
static void unmap(struct region *region, const struct region_message *message)
{
    struct region_message said = {
        .kind = REGION_UNMAP, .peer = message->peer, .change = message->change};

    regions_say(region, &said);
}

static nigh_status take_claim(struct region *region, const struct region_message *message)
{
    nigh_status status = NIGH_OK;

    if (!regions_is_alive(region->regions, message->peer)) {
        return NIGH_OK;
    }
    status = regions_need_lock_home(region);
    return status == NIGH_OK ? region_lock_home_take(region->lock_home, message) : status;
}

/* Who uses the region no longer has no locks of it, and has seen to it that nothing lands. */
static void forget_locks(struct region *region, const struct region_message *message)
{
    if (message->kind == REGION_UNMAP && region->lock_home != NULL) {
        region_lock_home_forget(region->lock_home, message->peer, false);
    }
}

static nigh_status take_as_home(struct region *region, const struct region_message *message,
                                uint32_t room)
{
    nigh_status status;

    if (regions_home_of(region) != region->regions->config.self ||
        (region->home == NULL && message->kind != REGION_MAP && message->kind != REGION_HELD &&
         message->kind != REGION_CLAIM)) {
        return NIGH_OK;
    }
    status = regions_need_home(region, room);
    if (status == NIGH_OK && message->kind == REGION_CLAIM) {
        return take_claim(region, message);
    }
    if (status == NIGH_OK) {
        region_home_take(region->home, message);
        forget_locks(region, message);
    }
    return status;
}

static nigh_status take_lock(struct region *region, const struct region_message *message)
{
    nigh_status status = NIGH_OK;

    if (region->mapping == NULL) {
        unmap(region, message);
        return NIGH_OK;
    }
    status = regions_need_locks(region);
    if (status == NIGH_OK) {
        region_lock_node_take(region->locks, message);
    }
    return status;
}

nigh_status regions_take(struct region *region, const struct region_message *message, uint32_t room)
{
    nigh_status status = NIGH_OK;

    switch (message->kind) {
    case REGION_PREPARE:
    case REGION_FREEZE:
    case REGION_COPY:
    case REGION_COMMIT:
    case REGION_THAW:
    case REGION_SETTLE:
        /* One that has nothing is to answer, too: it may have, and the answer was lost. */
        status = regions_need_holder(region, room, message->peer);
        if (status == NIGH_OK) {
            region_holder_take(region->holder, message);
        }
        break;
    case REGION_DONE:
    case REGION_HELD:
    case REGION_MAP:
    case REGION_UNMAP:
    case REGION_CLAIM: status = take_as_home(region, message, room); break;
    case REGION_GRANT:
    case REGION_RECALL: status = take_lock(region, message); break;
    case REGION_ARRIVED:
    case REGION_PASSED:
    case REGION_KNOWN:
    case REGION_NOTED:
        status = regions_need_barriers(region);
        if (status == NIGH_OK) {
            status = region_barriers_take(region->barriers, message);
        }
        break;
    case REGION_KINDS: break;
    case REGION_MAPPED:
    case REGION_CHANGED:
    case REGION_HOLD:
        if (region->mapping == NULL) {
            unmap(region, message);
            break;
        }
        status = regions_need_mapping(region, room);
        if (status == NIGH_OK) {
            region_mapping_take(region->mapping, message);
        }
        break;
    }
    return status;
}

void regions_say_again(struct region *region, uint32_t rank)
{
    const struct regions *regions = region->regions;
    struct region_version home = {.epoch = regions->epoch,
                                  .incarnation = regions->peers[rank].incarnation};

    if (region->home != NULL) {
        region_home_link(region->home, rank);
    }
    if (region->lock_home != NULL) {
        region_lock_home_link(region->lock_home, rank);
    }
    if (region->barriers != NULL) {
        region_barriers_link(region->barriers, rank);
    }
    if (regions_home_of(region) != rank) {
        return;
    }
    if (region->holder != NULL) {
        region_holder_home(region->holder, rank, &home);
    }
    if (region->mapping != NULL) {
        region_mapping_home(region->mapping, rank);
    }
    if (region->locks != NULL) {
        region_lock_node_home(region->locks, rank);
    }
}

static void note_holding(struct region *region)
{
    bool holds = region->home != NULL && region_home_is_holding(region->home);

    if (holds && !list_is_linked(&region->holding)) {
        region->holds_long = false;
        list_push_back(&region->regions->holding, &region->holding);
    } else if (!holds && list_is_linked(&region->holding)) {
        list_remove(&region->holding);
    }
}

void regions_tidy(struct region *region)
{
    regions_tidy_locks(region);
    regions_tidy_barriers(region);
    note_holding(region);
    if (region->home != NULL && region_home_is_idle(region->home)) {
        regions_free_home(region);
    }
    if (region->holder != NULL && !region->holder->request.is_open &&
        region_holder_is_empty(region->holder)) {
        regions_free_holder(region);
    }
    if (region->mapping != NULL && region->opens == 0 &&
        (region->locks == NULL || region_lock_node_is_idle(region->locks))) {
        region_mapping_end(region->mapping);
        regions_free_mapping(region);
    }
    regions_put(region);
}

void regions_free_machines(struct region *region)
{
    regions_free_barriers(region);
    regions_end_home(region, NIGH_CANCELED);
    if (region->holder != NULL) {
        regions_free_holder(region);
    }
    if (region->mapping != NULL) {
        regions_free_mapping(region);
    }
}

bool region_is_valid(const struct region *region)
{
    return (region->home == NULL || region_home_is_valid(region->home)) &&
           (region->holder == NULL || region_holder_is_valid(region->holder)) &&
           (region->mapping == NULL || ((region->opens > 0 || region->locks != NULL) &&
                                        region_mapping_is_valid(region->mapping))) &&
           (region->barriers == NULL || region_barriers_are_valid(region->barriers)) &&
           (region->lock_home == NULL ||
            (region->home != NULL && region_lock_home_is_valid(region->lock_home))) &&
           (region->locks == NULL ||
            (region->mapping != NULL && region_lock_node_is_valid(region->locks)));
}
