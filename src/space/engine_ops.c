/* SPDX-License-Identifier: Apache-2.0 */
/* See engine.h: what clients want, until it ends. */
#include "space/engine_internal.h"

/* ---- places --------------------------------------------------------------- */

static uint32_t *head_of(struct space_engine *engine, uint64_t block)
{
    uint64_t hash = space_hash(block, engine->config.home.shift);

    return &engine->place_heads[(hash >> 32) % LIMIT_SPACE_PLACES];
}

struct space_spot *engine_find_place(struct space_engine *engine, uint64_t block)
{
    for (uint32_t n = *head_of(engine, block); n != 0; n = engine->places[n - 1].next) {
        if (engine->places[n - 1].address == block) {
            return &engine->places[n - 1];
        }
    }
    return NULL;
}

bool engine_has_place(const struct space_engine *engine)
{
    return engine->places_free != 0 || engine->places_new < LIMIT_SPACE_PLACES;
}

struct space_spot *engine_make_place(struct space_engine *engine, uint64_t block)
{
    struct space_spot *place = engine_find_place(engine, block);
    uint32_t n = engine->places_free;

    if (place != NULL || !engine_has_place(engine)) {
        return place;
    }
    if (n == 0) {
        n = ++engine->places_new;
    } else {
        engine->places_free = engine->places[n - 1].next;
    }
    place = &engine->places[n - 1];
    *place = (struct space_spot){.address = block, .next = *head_of(engine, block)};
    list_init(&place->ops);
    *head_of(engine, block) = n;
    return place;
}

void engine_release_place(struct space_engine *engine, struct space_spot *place)
{
    uint32_t *at, n = (uint32_t)(place - engine->places) + 1;

    if (place->is_busy || !list_empty(&place->ops) || place->line.state != SPACE_CACHE_INVALID) {
        return;
    }
    NIGH_ASSERT(place->asked == NULL);
    engine_leave_tries(place);
    if (!engine_has_place(engine)) {
        engine_wake(engine); /* a free may wait for one */
    }
    for (at = head_of(engine, place->address); *at != n; at = &engine->places[*at - 1].next) {
    }
    *at = place->next;
    place->next = engine->places_free;
    place->address = 0;
    engine->places_free = n;
}

/* ---- bytes ---------------------------------------------------------------- */

bool engine_show(_Atomic uint64_t *word, bool is_shown)
{
    if (is_shown == space_word_is_shown(word)) {
        return false;
    }
    if (is_shown) {
        space_word_show(word);
    } else {
        space_word_hide(word);
    }
    return !is_shown;
}

/* Log, then apply. */
static nigh_status change(struct space_engine *engine, const struct engine_bytes *at,
                          uint32_t offset, const void *from, uint32_t length)
{
    nigh_status status = engine_log_write(engine, at, offset, from, length);

    if (status != NIGH_OK) {
        return status;
    }
    if (space_word_is_shown(at->word)) {
        space_word_change(at->word, at->bytes, offset, from, length);
    } else {
        space_bytes_store(at->bytes, offset, from, length);
    }
    return NIGH_OK;
}

nigh_status engine_do_atomic(struct space_engine *engine, uint8_t kind, const uint64_t operands[2],
                             uint32_t offset, const struct engine_bytes *at, uint64_t *value)
{
    uint64_t before, after;

    space_bytes_load(at->bytes, offset, &before, sizeof(before));
    switch (kind) {
    case SPACE_OP_ADD: after = before + operands[0]; break;
    case SPACE_OP_EXCHANGE: after = operands[0]; break;
    default: after = before == operands[0] ? operands[1] : before; break;
    }
    *value = before;
    return after == before ? NIGH_OK : change(engine, at, offset, &after, sizeof(after));
}

static bool writes(uint8_t kind)
{
    return kind == SPACE_OP_WRITE || kind == SPACE_OP_ADD || kind == SPACE_OP_EXCHANGE ||
           kind == SPACE_OP_SWAP;
}

static nigh_status do_op(struct space_engine *engine, struct space_op *op,
                         const struct engine_bytes *at)
{
    uint32_t offset = (uint32_t)(op->address & engine->config.home.mask);
    uint64_t copy[LIMIT_SPACE_BLOCK_BYTES / 8];
    nigh_status status = NIGH_OK;

    switch (op->kind) {
    case SPACE_OP_READ:
        space_bytes_load(at->bytes, offset, copy, op->length);
        op->bytes(op, copy);
        engine->stats.reads++;
        break;
    case SPACE_OP_WRITE:
        op->bytes(op, copy);
        status = change(engine, at, offset, copy, op->length);
        engine->stats.writes += status == NIGH_OK;
        break;
    case SPACE_OP_ADD:
    case SPACE_OP_EXCHANGE:
    case SPACE_OP_SWAP:
        status = engine_do_atomic(engine, op->kind, op->operands, offset, at, &op->value);
        engine->stats.atomics += status == NIGH_OK;
        break;
    case SPACE_OP_LOCK_READ:
    case SPACE_OP_LOCK_WRITE:
        engine->stats.locks++;
        engine->log.holds++;
        break;
    default: break;
    }
    return status;
}

/* sync: who writes is told once that is durable, and has to have a place to wait until then; so is
 * who found what was written before, and not durable yet. */
enum engine_tried engine_perform(struct space_engine *engine, struct space_op *op,
                                 const struct engine_bytes *at)
{
    struct space_spot *place = NULL;
    struct engine_mark *mark;

    op->status = NIGH_BUSY;
    if (engine->log.is_sync && writes(op->kind)) {
        place = engine_make_place(engine, at->block);
        if (place == NULL) {
            return TRIED_ENDED;
        }
    }
    op->status = do_op(engine, op, at);
    mark = engine_mark_of(engine, at->block);
    if (place != NULL && op->status == NIGH_OK && engine_is_fresh(engine, mark)) {
        op->written = mark->write;
        return TRIED_WRITTEN;
    }
    if (place != NULL) {
        engine_release_place(engine, place);
    }
    return TRIED_ENDED;
}

/* ---- ends ----------------------------------------------------------------- */

static void move_all(struct list *from, struct list *to)
{
    list_init(to);
    while (!list_empty(from)) {
        struct list_node *node = list_first(from);

        list_remove(node);
        list_push_back(to, node);
    }
}

nigh_status engine_gone_status(uint8_t why)
{
    return why == SPACE_HOME_FREED  ? NIGH_NOT_FOUND
           : why == SPACE_HOME_LOST ? NIGH_NODE_LOST
                                    : NIGH_UNREACHABLE;
}

/* It is in nobody's hands but its caller's. */
static void take_out(struct space_engine *engine, struct space_op *op)
{
    struct space_spot *place = op->place;

    if (list_is_linked(&op->node)) {
        list_remove(&op->node);
        engine->stats.waiting--;
    }
    timers_cancel(&engine->timers, &op->timer);
    op->state = OP_IDLE;
    op->place = NULL;
    if (place != NULL) {
        if (place->asked == op) {
            place->asked = NULL; /* its answer is nobody's */
        }
        engine_release_place(engine, place);
    }
}

void engine_end_op(struct space_engine *engine, struct space_op *op, nigh_status status)
{
    take_out(engine, op);
    op->status = status;
    op->ended(op, engine->now_us);
}

void engine_end_all(struct space_engine *engine, uint64_t block, nigh_status status)
{
    struct space_spot *place = engine_find_place(engine, block);
    struct list all;

    if (place == NULL) {
        return;
    }
    place->is_busy = true;
    move_all(&place->ops, &all);
    while (!list_empty(&all)) {
        struct space_op *op = container_of(list_first(&all), struct space_op, node);

        list_remove(&op->node);
        list_push_back(&place->ops, &op->node);
        if (op->state != OP_WRITTEN || engine->has_ended) {
            engine_end_op(engine, op, status);
        }
    }
    place->is_busy = false;
    engine_release_place(engine, place);
}

void engine_end_tries(struct space_engine *engine, uint64_t block, uint64_t number)
{
    struct space_spot *place = engine_find_place(engine, block);
    struct list all;

    if (place == NULL) {
        return;
    }
    place->is_busy = true;
    move_all(&place->ops, &all);
    while (!list_empty(&all)) {
        struct space_op *op = container_of(list_first(&all), struct space_op, node);

        list_remove(&op->node);
        list_push_back(&place->ops, &op->node);
        if (op->state == OP_WAITS && op->is_try && op->asked == number) {
            engine_end_op(engine, op, NIGH_BUSY);
        }
    }
    place->is_busy = false;
    engine_release_place(engine, place);
}

void engine_end_written(struct space_engine *engine, uint64_t block)
{
    struct space_spot *place = engine_find_place(engine, block);
    struct list all;

    if (place == NULL) {
        return;
    }
    place->is_busy = true;
    move_all(&place->ops, &all);
    while (!list_empty(&all)) {
        struct space_op *op = container_of(list_first(&all), struct space_op, node);

        list_remove(&op->node);
        list_push_back(&place->ops, &op->node);
        if (op->state == OP_WRITTEN && engine_is_durable(engine, op->written)) {
            engine_end_op(engine, op, NIGH_OK);
        }
    }
    place->is_busy = false;
    engine_release_place(engine, place);
}

/* ---- waiting -------------------------------------------------------------- */

static enum engine_tried try_op(struct space_engine *engine, struct space_op *op)
{
    return engine_is_ours(engine, op->address) ? engine_try_home(engine, op)
                                               : engine_try_cache(engine, op);
}

/* By clients here. */
static bool is_held(struct space_engine *engine, uint64_t block)
{
    uint32_t frame;

    if (engine_is_ours(engine, block)) {
        return engine->entries[engine_number(engine, block)].holds != 0;
    }
    frame = space_frames_find(&engine->frames, block);
    return frame != SPACE_NO_FRAME && engine->lines[frame].holds != 0;
}

bool space_engine_is_wanted(struct space_engine *engine, uint64_t block)
{
    struct space_spot *place = engine_find_place(engine, block);

    if (place != NULL) {
        LIST_FOREACH(node, &place->ops)
        {
            if (container_of(node, struct space_op, node)->state != OP_WRITTEN) {
                return true;
            }
        }
    }
    return engine_is_ours(engine, block)
               ? engine_home_is_wanted(engine, engine_number(engine, block))
               : engine_cache_is_wanted(engine, block);
}

/* Where it waits from here on; ENDED: there is no room. */
enum engine_tried engine_wait(struct space_engine *engine, struct space_op *op,
                              enum engine_tried tried)
{
    struct list *list = &engine->starving;

    if (tried != TRIED_STARVES) {
        op->place = engine_make_place(engine, engine_block(engine, op->address));
        if (op->place == NULL) {
            op->status = NIGH_BUSY;
            return TRIED_ENDED;
        }
        list = &op->place->ops;
    }
    op->state = tried == TRIED_WAITS ? OP_WAITS : tried == TRIED_WRITTEN ? OP_WRITTEN : OP_STARVES;
    list_push_back(list, &op->node);
    engine->stats.waiting++;
    /* Who waits under its own lock, for what was written to be durable, wants nobody's. */
    if (tried == TRIED_WAITS && op->holds == SPACE_HOLDS_NOTHING &&
        is_held(engine, op->place->address)) {
        (void)engine_want(engine, op->place->address);
    }
    return tried;
}

static bool is_block_op(const struct space_op *op)
{
    return op->kind < SPACE_OP_ALLOC || op->kind == OP_FREE_BLOCK;
}

/* sync: what is not durable nobody reads; and who writes does not pass who waits to read. */
static bool must_settle(struct space_engine *engine, const struct space_op *op)
{
    uint64_t block = engine_block(engine, op->address);
    struct space_spot *place;

    if ((op->kind != SPACE_OP_READ && !writes(op->kind)) ||
        !engine_is_fresh(engine, engine_mark_of(engine, block))) {
        return false;
    }
    place = engine_find_place(engine, block);
    return op->kind == SPACE_OP_READ ||
           (place != NULL && !list_empty(&place->ops) &&
            container_of(place->ops.head.prev, struct space_op, node)->state != OP_WRITTEN);
}

/* A log may have no room for what all of them let go at once. */
static bool is_one_too_many(const struct space_engine *engine, const struct space_op *op)
{
    return (op->kind == SPACE_OP_LOCK_READ || op->kind == SPACE_OP_LOCK_WRITE) &&
           engine_has_log(engine) && engine->log.holds >= LIMIT_SPACE_PLACES;
}

/* When something is to be done of it, though nothing comes. Where a try is had, or is not, within
 * what an answer takes it asks nobody else. false: there is no room for that. */
static bool arm(struct space_engine *engine, struct space_op *op)
{
    uint64_t due_us = op->deadline_us;

    if (op->is_try && op->state == OP_WAITS && op->asked == 0) {
        due_us = min_u64(due_us, engine->now_us + LIMIT_SPACE_TRY_US);
    }
    if (timer_is_armed(&op->timer) && op->timer.deadline_us == due_us) {
        return true;
    }
    timers_cancel(&engine->timers, &op->timer);
    return due_us == UINT64_MAX || timers_add(&engine->timers, &op->timer, due_us) == NIGH_OK;
}

/* ENDED, or it waits where it has to. */
static enum engine_tried start(struct space_engine *engine, struct space_op *op)
{
    enum engine_tried tried;

    op->asked = 0;
    if (engine->is_paused && op->kind != SPACE_OP_UNLOCK) {
        return engine_wait(engine, op, TRIED_STARVES);
    }
    if (op->kind == SPACE_OP_UNLOCK && engine_defer_unlock(engine, op)) {
        op->status = NIGH_OK;
        return TRIED_ENDED;
    }
    if (op->kind == SPACE_OP_UNLOCK && engine->log.holds > 0) {
        engine->is_hungry |= engine->log.holds-- >= LIMIT_SPACE_PLACES;
    }
    if (is_one_too_many(engine, op)) {
        op->status = NIGH_LIMIT;
        return engine_want(engine, 0) ? engine_wait(engine, op, TRIED_STARVES) : TRIED_ENDED;
    }
    if (op->kind != SPACE_OP_UNLOCK &&
        (!engine_log_has_room(engine) || engine->log.unlocks_count > 0)) {
        return engine_wait(engine, op, TRIED_STARVES);
    }
    if (!is_block_op(op)) {
        return engine_begin_job(engine, op);
    }
    if (must_settle(engine, op)) {
        return engine_wait(engine, op, TRIED_WAITS);
    }
    tried = try_op(engine, op);
    return tried == TRIED_ENDED ? tried : engine_wait(engine, op, tried);
}

/* One that waited. */
static void try_one(struct space_engine *engine, struct space_op *op)
{
    struct space_spot *place = op->place;
    enum engine_tried tried;

    if (place != NULL && (place->asked == op || op->state == OP_WRITTEN)) {
        list_remove(&op->node);
        list_push_back(&place->ops, &op->node);
        return;
    }
    list_remove(&op->node);
    engine->stats.waiting--;
    op->place = NULL;
    tried = start(engine, op);
    if (tried == TRIED_ENDED) {
        engine_end_op(engine, op, op->status);
    } else if (!arm(engine, op)) {
        engine_end_op(engine, op, NIGH_BUSY); /* a try without an end: it would never ask */
    }
}

void engine_try_again(struct space_engine *engine, uint64_t block)
{
    struct space_spot *place = engine_find_place(engine, block);
    struct list again;

    if (place == NULL || place->is_busy) {
        return;
    }
    place->is_busy = true;
    move_all(&place->ops, &again);
    while (!list_empty(&again)) {
        try_one(engine, container_of(list_first(&again), struct space_op, node));
    }
    place->is_busy = false;
    engine_release_place(engine, place);
}

void engine_feed(struct space_engine *engine)
{
    struct list again;

    if (!engine->is_hungry) {
        return;
    }
    engine->is_hungry = false;
    if (engine->is_paused) {
        return;
    }
    move_all(&engine->starving, &again);
    while (!list_empty(&again)) {
        try_one(engine, container_of(list_first(&again), struct space_op, node));
    }
}

/* ---- time ----------------------------------------------------------------- */

static void time_out(struct space_engine *engine, struct space_op *op)
{
    if (engine->now_us < op->deadline_us) {
        bool is_armed;

        if (op->asked == 0) {
            engine_ask_if_held(engine, op);
        }
        is_armed = arm(engine, op);
        NIGH_ASSERT(is_armed); /* by the room that it had */
        return;
    }
    if (op->state == OP_JOB) {
        engine_leave_job(engine, op);
    }
    engine_end_op(engine, op, op->is_try ? NIGH_BUSY : NIGH_TIMEOUT);
}

void engine_expire(struct space_engine *engine)
{
    struct timer *timer;

    while ((timer = timers_pop_expired(&engine->timers, engine->now_us)) != NULL) {
        time_out(engine, container_of(timer, struct space_op, timer));
    }
}

/* ---- all of a home -------------------------------------------------------- */

uint8_t engine_seat_of(const struct space_engine *engine, const struct space_op *op)
{
    bool is_anywhere = op->kind == SPACE_OP_ALLOC && op->address == 0;

    return is_anywhere ? engine->config.self : (uint8_t)space_address_seat(op->address);
}

static void end_listed(struct space_engine *engine, struct list *list, uint64_t seats,
                       nigh_status status)
{
    struct list again;

    move_all(list, &again);
    while (!list_empty(&again)) {
        struct space_op *op = container_of(list_first(&again), struct space_op, node);

        list_remove(&op->node);
        list_push_back(list, &op->node);
        if ((space_bit(engine_seat_of(engine, op)) & seats) != 0) {
            engine_end_op(engine, op, status);
        }
    }
}

void engine_end_of_seats(struct space_engine *engine, uint64_t seats, nigh_status status)
{
    end_listed(engine, &engine->starving, seats, status);
    end_listed(engine, &engine->far, seats, status);
    for (uint32_t n = 0; n < engine->places_new; n++) {
        struct space_spot *place = &engine->places[n];

        if (place->address != 0 &&
            (space_bit((uint8_t)space_address_seat(place->address)) & seats) != 0) {
            engine_end_all(engine, place->address, status);
        }
    }
}

/* What was asked of that seat, or its answer, is lost. */
void engine_end_far(struct space_engine *engine, uint8_t seat)
{
    end_listed(engine, &engine->far, space_bit(seat), NIGH_PEER_LOST);
}

void engine_tell_places(struct space_engine *engine, uint8_t home, uint8_t event)
{
    for (uint32_t n = 0; n < engine->places_new; n++) {
        struct space_spot *place = &engine->places[n];

        if (place->address != 0 && space_address_seat(place->address) == home) {
            engine_step_place(engine, place, event);
        }
    }
}

/* ---- from clients --------------------------------------------------------- */

static bool is_valid(const struct space_engine *engine, const struct space_op *op)
{
    uint64_t offset = op->address & engine->config.home.mask;

    if (op->kind >= SPACE_OP_KINDS) {
        return false;
    }
    if (op->kind == SPACE_OP_ALLOC) {
        return op->operands[0] > 0 && space_address_seat(op->address) < SPACE_SEATS &&
               op->operands[1] <= UINT64_C(1) << LIMIT_SPACE_ALIGN_BITS &&
               (op->operands[1] & (op->operands[1] - 1)) == 0;
    }
    if (!engine_is_address(engine, op->address) ||
        op->length > engine->config.home.mask + 1 - offset) {
        return false;
    }
    switch (op->kind) {
    case SPACE_OP_READ: return op->length > 0;
    case SPACE_OP_WRITE: return op->length > 0 && op->holds != SPACE_HOLDS_TO_READ;
    case SPACE_OP_ADD:
    case SPACE_OP_EXCHANGE:
    case SPACE_OP_SWAP:
        return op->length == 8 && offset % 8 == 0 && op->holds != SPACE_HOLDS_TO_READ;
    case SPACE_OP_LOCK_READ:
    case SPACE_OP_LOCK_WRITE: return op->holds == SPACE_HOLDS_NOTHING;
    case SPACE_OP_UNLOCK: return op->holds != SPACE_HOLDS_NOTHING;
    default: return offset == 0;
    }
}

/* Whether it has no business here, and why. */
static nigh_status look_at(const struct space_engine *engine, const struct space_op *op)
{
    if (engine->has_ended) {
        return engine->log.status != NIGH_OK ? engine_log_told(engine) : NIGH_CLOSED;
    }
    if (!is_valid(engine, op)) {
        return NIGH_INVALID;
    }
    if (engine->has_members && !space_set_has(engine->members, engine->config.self)) {
        return NIGH_NO_QUORUM;
    }
    if (engine->has_members && op->kind != SPACE_OP_UNLOCK &&
        !space_set_has(engine->members, engine_seat_of(engine, op))) {
        return NIGH_PEER_LOST;
    }
    return NIGH_OK;
}

bool space_engine_begin(struct space_engine *engine, struct space_op *op, uint64_t now_us)
{
    enum engine_tried tried;

    engine->now_us = now_us;
    op->node = (struct list_node){0};
    op->timer = (struct timer){0};
    op->place = NULL;
    op->state = OP_IDLE;
    op->value = 0;
    op->status = look_at(engine, op);
    if (op->status != NIGH_OK) {
        return true;
    }
    if ((op->deadline_us != UINT64_MAX || op->is_try) &&
        engine->timers.count == engine->timers.capacity) {
        op->status = NIGH_BUSY; /* before anything of it was said */
        return true;
    }
    tried = start(engine, op);
    engine_wake(engine);
    if (tried != TRIED_ENDED && !arm(engine, op)) {
        space_engine_give_up(engine, op); /* a try that this woke has the last room */
        op->status = NIGH_BUSY;
        return true;
    }
    return tried == TRIED_ENDED;
}

/* Of a space with a log each write is a record there, and may have to wait. */
bool space_engine_owns(struct space_engine *engine, uint64_t address, struct space_owned *owned)
{
    uint64_t parts = space_bit(engine->config.self);

    if (engine_has_log(engine) || engine->has_ended || !engine->has_members ||
        !engine_is_address(engine, address)) {
        return false;
    }
    parts |= space_bit((uint8_t)space_address_seat(address));
    owned->block = engine_block(engine, address);
    return (engine->members & parts) == parts &&
           (engine_is_ours(engine, address) ? engine_owns_home(engine, address, owned)
                                            : engine_owns_cached(engine, owned)) &&
           space_word_is_shown(owned->word);
}

void space_engine_write(struct space_engine *engine, const struct space_owned *owned,
                        uint32_t offset, const void *bytes, uint32_t length)
{
    space_word_change(owned->word, owned->bytes, offset, bytes, length);
    engine->stats.writes++;
}

void space_engine_give_up(struct space_engine *engine, struct space_op *op)
{
    if (op->state == OP_JOB) {
        engine_leave_job(engine, op);
    }
    if (op->state != OP_IDLE) {
        take_out(engine, op);
    }
}
