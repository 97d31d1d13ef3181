/* SPDX-License-Identifier: Apache-2.0 */
/* See holder.h. */
#include "region/holder.h"

#include <string.h>

#include "base/check.h"

static bool is_kept(const struct region_holder *holder)
{
    return !region_descriptor_is_none(holder->config.kept);
}

void region_holder_init(struct region_holder *holder, const struct region_holder_config *config)
{
    NIGH_ASSERT(config->room <= LIMIT_REGION_CHUNKS);
    memset(holder, 0, sizeof(*holder));
    holder->config = *config;
    memset(config->slots, 0, config->room * sizeof(config->slots[0]));
    region_descriptor_clear(config->kept);
}

/* ---- a chunk -------------------------------------------------------------- */

/* How much of a chunk there is to copy; of one behind the region's end nothing. */
static uint64_t used_of(const struct region_geometry *geometry, uint32_t chunk)
{
    return chunk < region_geometry_chunks(geometry) ? region_geometry_chunk_bytes(geometry, chunk)
                                                    : 0;
}

static void act(struct region_holder *holder, uint32_t chunk, enum region_holder_action action,
                enum region_slot_state state)
{
    struct region_slot *slot = &holder->config.slots[chunk];
    struct region_holder_act todo = {.action = action,
                                     .chunk = chunk,
                                     .bytes = holder->geometry.chunk_bytes,
                                     .is_mappable = holder->is_mappable,
                                     .donation = holder->donation,
                                     .kept = holder->config.kept,
                                     .handle = slot->handle,
                                     .source = holder->source};

    if (action == REGION_ACT_MAKE) {
        slot->least_bytes = UINT64_MAX;
    } else if (action == REGION_ACT_COPY) {
        todo.bytes = slot->used_bytes = used_of(&holder->geometry, chunk);
    } else if (action == REGION_ACT_OPEN) {
        uint64_t bytes = region_geometry_chunk_bytes(&holder->config.kept->geometry, chunk);

        todo.wipe_from = min_u64(slot->least_bytes, bytes);
        todo.wipe_to = max_u64(slot->used_bytes, bytes);
        slot->used_bytes = slot->least_bytes = bytes;
    }
    slot->state = (uint8_t)state;
    holder->config.shell.act(holder->config.shell.context, &todo);
}

/* The next step towards its goal, if it stands still. */
static void push(struct region_holder *holder, uint32_t chunk)
{
    const struct region_slot *slot = &holder->config.slots[chunk];
    uint32_t goal = slot->goal;

    switch ((enum region_slot_state)slot->state) {
    case REGION_SLOT_NONE:
        if (goal != REGION_GOAL_NONE) {
            act(holder, chunk, REGION_ACT_MAKE, REGION_SLOT_MAKING);
        }
        break;
    case REGION_SLOT_FROZEN:
        if (goal == REGION_GOAL_NONE) {
            act(holder, chunk, REGION_ACT_CUT, REGION_SLOT_CUTTING);
        } else if (goal == REGION_GOAL_LENT) {
            act(holder, chunk, REGION_ACT_LEND, REGION_SLOT_LENDING);
        } else if (goal == REGION_GOAL_COPIED && !slot->full) {
            act(holder, chunk, REGION_ACT_COPY, REGION_SLOT_COPYING);
        } else if (goal == REGION_GOAL_OPEN && slot->full) {
            act(holder, chunk, REGION_ACT_OPEN, REGION_SLOT_OPENING);
        }
        break;
    case REGION_SLOT_LENT:
        if (goal != REGION_GOAL_LENT) {
            act(holder, chunk, REGION_ACT_CLOSE, REGION_SLOT_CLOSING);
        }
        break;
    case REGION_SLOT_OPENING: /* which may wait without end for what it needs */
    case REGION_SLOT_OPEN:
        if (goal != REGION_GOAL_OPEN) {
            act(holder, chunk, REGION_ACT_CLOSE, REGION_SLOT_CLOSING);
        }
        break;
    case REGION_SLOT_MAKING:
    case REGION_SLOT_COPYING:
    case REGION_SLOT_LENDING:
    case REGION_SLOT_CLOSING:
    case REGION_SLOT_CUTTING: break;
    }
}

/* Whether a chunk is where it is to be, or as near as it comes. */
static bool is_there(const struct region_slot *slot)
{
    switch ((enum region_slot_goal)slot->goal) {
    case REGION_GOAL_NONE: /* nothing comes any more: to give the memory back may take long */
        return slot->state == REGION_SLOT_NONE || slot->state == REGION_SLOT_CUTTING;
    case REGION_GOAL_LENT: return slot->state == REGION_SLOT_LENT;
    case REGION_GOAL_OPEN:
        return slot->state == REGION_SLOT_OPEN ||
               (slot->state == REGION_SLOT_FROZEN && !slot->full);
    case REGION_GOAL_COPIED: return slot->state == REGION_SLOT_FROZEN && slot->full;
    case REGION_GOAL_FROZEN: break;
    }
    return slot->state == REGION_SLOT_FROZEN;
}

/* Whether its memory is, and will be, the chunk's. */
static bool is_held(const struct region_slot *slot)
{
    return slot->full && slot->goal != REGION_GOAL_NONE && slot->state != REGION_SLOT_MAKING &&
           slot->state != REGION_SLOT_CUTTING && slot->state != REGION_SLOT_NONE;
}

/* ---- answers -------------------------------------------------------------- */

static void say(struct region_holder *holder, struct region_message *message)
{
    struct region_window handles[LIMIT_REGION_CHUNKS] = {0};

    for (uint32_t n = 0; n < holder->config.room; n++) {
        const struct region_slot *slot = &holder->config.slots[n];

        if (is_held(slot)) {
            region_chunks_add(&message->chunks, n);
            handles[n] = slot->state == REGION_SLOT_OPEN || slot->state == REGION_SLOT_LENT
                             ? slot->handle
                             : REGION_NO_WINDOW;
        }
    }
    message->handles = handles;
    message->handle_count = holder->config.room;
    holder->config.shell.send(holder->config.shell.context, message);
}

/* What is on its way back is nobody's already, unless it is to be made anew. */
static bool is_anything_here(const struct region_holder *holder)
{
    for (uint32_t n = 0; n < holder->config.room; n++) {
        const struct region_slot *slot = &holder->config.slots[n];

        if (slot->state != REGION_SLOT_NONE &&
            (slot->state != REGION_SLOT_CUTTING || slot->goal != REGION_GOAL_NONE)) {
            return true;
        }
    }
    return false;
}

static void say_held(struct region_holder *holder, uint32_t home)
{
    struct region_message message = {.kind = REGION_HELD,
                                     .peer = home,
                                     .descriptor = is_kept(holder) ? holder->config.kept : NULL};

    if (holder->is_unsettled && (is_kept(holder) || is_anything_here(holder))) {
        say(holder, &message);
    }
}

/* Of what nothing is left here there is nothing to keep: whoever thaws knows that all others do. */
static void forget_if_over(struct region_holder *holder)
{
    bool has_thawed = holder->request.kind == REGION_THAW || holder->request.kind == REGION_SETTLE;

    if (has_thawed && !holder->request.is_open && !is_anything_here(holder)) {
        region_descriptor_clear(holder->config.kept);
    }
}

/* Answers what was asked, when all of it is so. */
static void finish(struct region_holder *holder)
{
    struct region_message message = {.kind = REGION_DONE,
                                     .of = holder->request.kind,
                                     .peer = holder->request.peer,
                                     .change = holder->request.change,
                                     .status = holder->request.status};

    for (uint32_t n = 0; n < holder->config.room; n++) {
        if (!is_there(&holder->config.slots[n])) {
            return;
        }
    }
    if (!holder->request.is_open) {
        return;
    }
    holder->request.is_open = false;
    forget_if_over(holder);
    say(holder, &message);
}

static void push_all(struct region_holder *holder)
{
    for (uint32_t n = 0; n < holder->config.room; n++) {
        push(holder, n);
    }
    finish(holder);
}

/* ---- what a home says ----------------------------------------------------- */

static void set_goal(struct region_holder *holder, const struct region_chunks *chunks,
                     enum region_slot_goal goal)
{
    for (uint32_t n = 0; n < holder->config.room; n++) {
        struct region_slot *slot = &holder->config.slots[n];

        if (region_chunks_has(chunks, n) && slot->state != REGION_SLOT_NONE) {
            slot->goal = (uint8_t)goal;
        }
    }
}

/* Whether memory was made for a change, or is to be. */
static bool is_made(const struct region_slot *slot, const struct region_version *change)
{
    return slot->state != REGION_SLOT_NONE && slot->goal != REGION_GOAL_NONE &&
           region_version_equal(&slot->made_in, change);
}

/* Memory may be made: none is here, or what was is on its way back, which is waited for. */
static bool may_make(const struct region_slot *slot)
{
    return slot->state == REGION_SLOT_NONE ||
           (slot->state == REGION_SLOT_CUTTING && slot->goal == REGION_GOAL_NONE);
}

/* Chunks of a region keep their size: memory that is here was made for that. */
static bool is_of_size(const struct region_holder *holder, const struct region_geometry *geometry)
{
    for (uint32_t n = 0; n < holder->config.room; n++) {
        uint8_t state = holder->config.slots[n].state;

        if (state != REGION_SLOT_NONE && state != REGION_SLOT_CUTTING) {
            return geometry->chunk_bytes == holder->geometry.chunk_bytes;
        }
    }
    return true;
}

static nigh_status prepare(struct region_holder *holder, const struct region_message *message)
{
    nigh_status status = holder->config.has_lease ? NIGH_OK : NIGH_NO_QUORUM;

    if (!is_of_size(holder, &message->geometry)) {
        return NIGH_BUSY;
    }
    for (uint32_t n = 0; n < holder->config.room; n++) {
        const struct region_slot *slot = &holder->config.slots[n];

        if (region_chunks_has(&message->chunks, n) && !may_make(slot) &&
            !is_made(slot, &message->change)) {
            status = NIGH_BUSY;
        }
    }
    if (status == NIGH_OK) {
        holder->geometry = message->geometry;
        holder->is_mappable = message->is_mappable;
        holder->donation = message->donation;
    }
    for (uint32_t n = 0; n < holder->config.room && status == NIGH_OK; n++) {
        struct region_slot *slot = &holder->config.slots[n];

        if (region_chunks_has(&message->chunks, n) && may_make(slot)) {
            *slot = (struct region_slot){.state = slot->state,
                                         .goal = REGION_GOAL_FROZEN,
                                         .full = !message->is_move,
                                         .made_in = message->change};
        }
    }
    return status;
}

static nigh_status copy(struct region_holder *holder, const struct region_message *message)
{
    for (uint32_t n = 0; n < holder->config.room; n++) {
        if (region_chunks_has(&message->chunks, n) &&
            !is_made(&holder->config.slots[n], &message->change)) {
            return NIGH_BUSY;
        }
    }
    holder->source = message->source;
    set_goal(holder, &message->chunks, REGION_GOAL_COPIED);
    return NIGH_OK;
}

/* Of a region that grew within a chunk: its new end may be written to from here on, under the
 * handle that there is. Where there is none it may have been cut short before that. */
static void note_used(struct region_holder *holder)
{
    const struct region_descriptor *kept = holder->config.kept;

    for (uint32_t n = 0; n < kept->chunk_count; n++) {
        struct region_slot *slot = &holder->config.slots[n];
        uint64_t bytes = region_geometry_chunk_bytes(&kept->geometry, n);
        bool is_open = slot->state == REGION_SLOT_OPENING || slot->state == REGION_SLOT_OPEN;

        if (slot->state != REGION_SLOT_NONE && slot->full) {
            slot->used_bytes = max_u64(slot->used_bytes, bytes);
            slot->least_bytes = is_open ? bytes : min_u64(slot->least_bytes, bytes);
        }
    }
}

/* What was to be opened, and is not this node's any more, is not. */
static void open_no_others(struct region_holder *holder)
{
    for (uint32_t n = 0; n < holder->config.room; n++) {
        struct region_slot *slot = &holder->config.slots[n];

        if (slot->goal == REGION_GOAL_OPEN &&
            !region_descriptor_is_at(holder->config.kept, n, holder->config.self)) {
            slot->goal = REGION_GOAL_FROZEN;
        }
    }
}

static nigh_status keep(struct region_holder *holder, const struct region_descriptor *descriptor)
{
    NIGH_ASSERT(descriptor->chunk_count <= holder->config.room);
    if (!is_of_size(holder, &descriptor->geometry)) {
        return NIGH_PROTOCOL;
    }
    if (region_version_compare(&descriptor->version, &holder->config.kept->version) > 0) {
        region_descriptor_copy(holder->config.kept, descriptor);
        open_no_others(holder);
        note_used(holder);
    }
    return NIGH_OK;
}

/* What the descriptor says is here is opened, all else is cut. */
static void go_by_kept(struct region_holder *holder)
{
    for (uint32_t n = 0; n < holder->config.room; n++) {
        struct region_slot *slot = &holder->config.slots[n];

        if (!is_kept(holder) ||
            !region_descriptor_is_at(holder->config.kept, n, holder->config.self)) {
            slot->goal = REGION_GOAL_NONE;
        } else if (slot->state != REGION_SLOT_NONE) {
            slot->goal = holder->config.has_lease ? REGION_GOAL_OPEN : REGION_GOAL_FROZEN;
        }
    }
}

static bool is_of_home(const struct region_version *a, const struct region_version *b)
{
    return a->epoch == b->epoch && a->incarnation == b->incarnation;
}

/* Whether a message is of a round before the one that was heard last. */
static bool is_late(const struct region_holder *holder, const struct region_message *message)
{
    int order = region_version_compare(&message->change, &holder->request.change);

    return order < 0 || (order == 0 && message->kind < holder->request.kind);
}

static bool is_again(const struct region_holder *holder, const struct region_message *message)
{
    return region_version_equal(&message->change, &holder->request.change) &&
           message->kind == holder->request.kind;
}

static nigh_status thaw(struct region_holder *holder, const struct region_message *message)
{
    if (is_kept(holder) && !region_version_equal(&holder->config.kept->version, &message->base)) {
        return NIGH_STALE;
    }
    go_by_kept(holder);
    return NIGH_OK;
}

static nigh_status settle(struct region_holder *holder, const struct region_message *message)
{
    nigh_status status = NIGH_OK;

    if (message->descriptor != NULL) {
        status = keep(holder, message->descriptor);
    } else {
        region_descriptor_clear(holder->config.kept);
    }
    if (status == NIGH_OK) {
        holder->is_unsettled = false;
        go_by_kept(holder);
    }
    return status;
}

/* A round that was not heard yet, or failed when it was: what could not be then may be by now. */
static nigh_status carry_out(struct region_holder *holder, const struct region_message *message)
{
    switch (message->kind) {
    case REGION_PREPARE: return prepare(holder, message);
    case REGION_FREEZE:
        set_goal(holder, &message->chunks,
                 message->is_move ? REGION_GOAL_LENT : REGION_GOAL_FROZEN);
        break;
    case REGION_COPY: return copy(holder, message);
    case REGION_COMMIT: return keep(holder, message->descriptor);
    case REGION_THAW: return thaw(holder, message);
    case REGION_SETTLE: return settle(holder, message);
    default: break;
    }
    return NIGH_OK;
}

void region_holder_take(struct region_holder *holder, const struct region_message *message)
{
    bool is_new = !is_again(holder, message) || holder->request.status != NIGH_OK;

    if (message->kind > REGION_SETTLE || !is_of_home(&message->change, &holder->config.home) ||
        is_late(holder, message)) {
        return;
    }
    holder->request.is_open = true;
    holder->request.kind = message->kind;
    holder->request.peer = message->peer;
    holder->request.change = message->change;
    if (is_new) {
        holder->request.status = carry_out(holder, message);
    }
    push_all(holder);
}

/* ---- what happens here ---------------------------------------------------- */

void region_holder_did(struct region_holder *holder, uint32_t chunk, nigh_status status,
                       struct region_window handle)
{
    struct region_slot *slot = &holder->config.slots[chunk];
    uint8_t before = slot->state;

    NIGH_ASSERT(chunk < holder->config.room);
    switch ((enum region_slot_state)before) {
    case REGION_SLOT_MAKING:
    case REGION_SLOT_COPYING:
    case REGION_SLOT_CLOSING: slot->state = REGION_SLOT_FROZEN; break;
    case REGION_SLOT_LENDING: slot->state = REGION_SLOT_LENT; break;
    case REGION_SLOT_OPENING: slot->state = REGION_SLOT_OPEN; break;
    case REGION_SLOT_CUTTING: slot->state = REGION_SLOT_NONE; break;
    default: NIGH_ASSERT(!"an act of this chunk is under way"); break;
    }
    slot->handle = status == NIGH_OK ? handle : REGION_NO_WINDOW;
    if (before == REGION_SLOT_COPYING && status == NIGH_OK) {
        slot->full = true;
    } else if (before == REGION_SLOT_CUTTING) {
        *slot = slot->goal == REGION_GOAL_NONE ? (struct region_slot){0}
                                               : (struct region_slot){.goal = slot->goal,
                                                                      .full = slot->full,
                                                                      .made_in = slot->made_in};
    } else if (status != NIGH_OK) { /* goes no further */
        bool was_made = before != REGION_SLOT_MAKING;

        slot->state = was_made ? REGION_SLOT_FROZEN : REGION_SLOT_NONE;
        slot->goal =
            was_made && slot->goal != REGION_GOAL_NONE ? REGION_GOAL_FROZEN : REGION_GOAL_NONE;
        NIGH_ASSERT(before != REGION_SLOT_OPENING);
        holder->request.status = status;
    }
    push(holder, chunk);
    finish(holder);
    forget_if_over(holder);
}

void region_holder_home(struct region_holder *holder, uint32_t peer,
                        const struct region_version *home)
{
    struct region_version now = *home, before = holder->config.home;

    now.counter = before.counter = 0;
    if (region_version_compare(&now, &before) < 0) {
        return;
    }
    if (region_version_compare(&now, &before) > 0) {
        holder->request.is_open = false; /* who asked is not the home any more */
        holder->is_unsettled = true;
    }
    holder->config.home = *home;
    say_held(holder, peer);
}

void region_holder_lease(struct region_holder *holder, bool has_lease, uint32_t home)
{
    bool had_lease = holder->config.has_lease;

    holder->config.has_lease = has_lease;
    if (has_lease && !had_lease) {
        holder->is_unsettled = true;
        say_held(holder, home);
        return;
    }
    for (uint32_t n = 0; n < holder->config.room && !has_lease; n++) {
        struct region_slot *slot = &holder->config.slots[n];

        if (slot->goal == REGION_GOAL_OPEN) {
            slot->goal = REGION_GOAL_FROZEN;
        }
    }
    push_all(holder);
}

void region_holder_drop(struct region_holder *holder)
{
    holder->request.is_open = false;
    region_descriptor_clear(holder->config.kept);
    go_by_kept(holder);
    push_all(holder);
}

bool region_holder_is_empty(const struct region_holder *holder)
{
    for (uint32_t n = 0; n < holder->config.room; n++) {
        if (holder->config.slots[n].state != REGION_SLOT_NONE) {
            return false;
        }
    }
    return !is_kept(holder);
}

bool region_holder_is_valid(const struct region_holder *holder)
{
    for (uint32_t n = 0; n < holder->config.room; n++) {
        const struct region_slot *slot = &holder->config.slots[n];
        bool has_handle = slot->state == REGION_SLOT_OPEN || slot->state == REGION_SLOT_LENT ||
                          slot->state == REGION_SLOT_CLOSING;

        if ((!has_handle && !region_window_is_none(slot->handle)) ||
            (slot->state == REGION_SLOT_OPEN && !slot->full) ||
            (slot->state == REGION_SLOT_NONE && slot->goal != REGION_GOAL_NONE)) {
            return false;
        }
    }
    return !is_kept(holder) || region_descriptor_is_valid(holder->config.kept);
}
