/* SPDX-License-Identifier: Apache-2.0 */
/* See engine.h: blocks of other homes. */
#include "space/engine_internal.h"

/* A line, and where it is: in a frame, or at a place. */
struct line_at {
    uint64_t block;
    struct space_line *line;
    uint32_t frame; /* or SPACE_NO_FRAME */
};

static struct engine_seat *home_of(struct space_engine *engine, uint64_t address)
{
    return &engine->seats[space_address_seat(address)];
}

static struct line_at line_in(struct space_engine *engine, uint32_t frame)
{
    return (struct line_at){.block = space_frames_block(&engine->frames, frame),
                            .line = &engine->lines[frame],
                            .frame = frame};
}

static bool is_asking(uint8_t state)
{
    return state == SPACE_CACHE_TO_SHARED || state == SPACE_CACHE_TO_DIRTY ||
           state == SPACE_CACHE_UPGRADING || state == SPACE_CACHE_AT_HOME ||
           state == SPACE_CACHE_FRAMELESS;
}

static bool is_leaving(uint8_t state)
{
    return state == SPACE_CACHE_EVICTING || state == SPACE_CACHE_WRITING_BACK;
}

static bool is_ask(uint8_t event)
{
    return event == SPACE_HOME_ASK_READ || event == SPACE_HOME_ASK_WRITE ||
           event == SPACE_HOME_ASK_ATOMIC;
}

/* ---- what a step says is done --------------------------------------------- */

static uint64_t frame_offset(const struct space_engine *engine, uint32_t frame)
{
    return (uint64_t)((const uint8_t *)space_frames_bytes(&engine->frames, frame) -
                      (const uint8_t *)engine->config.cache_memory);
}

static bool says_place(const struct space_wire *wire, const struct line_at *at)
{
    return at->frame != SPACE_NO_FRAME && space_wire_has_place(wire);
}

static void say(struct space_engine *engine, const struct line_at *at,
                const struct space_message *message, const struct space_op *op)
{
    uint8_t home = (uint8_t)space_address_seat(at->block);
    bool is_to_home = message->seat == home;
    struct space_send send = {.seat = message->seat, .cookie = home};

    if (!space_set_has(engine->seats[home].whole, message->seat)) {
        /* A term that is to come finds what this was to say. */
        engine->stats.dropped++;
        return;
    }
    engine->stats.asks += is_to_home && is_ask(message->event);
    space_wire_of(message, is_to_home ? SPACE_WIRE_TO_HOME : SPACE_WIRE_TO_CACHE, at->block,
                  &send.wire);
    send.wire.operands[0] = says_place(&send.wire, at) ? engine->places_in[at->frame] : 0;
    if (is_to_home && message->event == SPACE_HOME_ASK_ATOMIC) {
        static const uint8_t kinds[] = {[SPACE_OP_ADD] = SPACE_RECORD_ADD,
                                        [SPACE_OP_EXCHANGE] = SPACE_RECORD_EXCHANGE,
                                        [SPACE_OP_SWAP] = SPACE_RECORD_SWAP};

        send.wire.address = op->address;
        send.wire.atomic = kinds[op->kind];
        send.wire.operands[0] = op->operands[0];
        send.wire.operands[1] = op->operands[1];
    }
    if (is_to_home ? space_home_event_has_bytes(message->event)
                   : space_cache_event_has_bytes(message->event)) {
        send.wants_end = true;
        send.count = 1u << engine->config.home.shift;
        send.from = SPACE_MEMORY_CACHE;
        send.from_offset = frame_offset(engine, at->frame);
        send.to = is_to_home ? SPACE_MEMORY_HOME : SPACE_MEMORY_CACHE;
        send.to_offset = is_to_home ? (uint64_t)((const uint8_t *)engine->config.home.bytes -
                                                 (const uint8_t *)engine->config.home_memory) +
                                          (at->block & ((UINT64_C(1) << engine->place_bits) - 1))
                                    : frame_offset(engine, message->frame);
    }
    engine_say(engine, &send,
               engine_has_log(engine) && at->frame != SPACE_NO_FRAME
                   ? engine->log.frames[at->frame].last
                   : 0);
}

/* Whether clients may read what is there, as it is. */
static bool is_shown(const struct space_engine *engine, const struct line_at *at)
{
    return space_line_is_readable(at->line) && at->line->holds != SPACE_HELD_ALONE &&
           !(engine_has_log(engine) && engine_is_fresh(engine, &engine->log.frames[at->frame]));
}

static void end_asked(struct space_engine *engine, uint64_t block, nigh_status status,
                      uint64_t value)
{
    struct space_spot *place = engine_find_place(engine, block);

    if (place != NULL && place->asked != NULL) {
        struct space_op *op = place->asked;

        op->value = value;
        engine->stats.atomics += status == NIGH_OK;
        engine_end_op(engine, op, status);
    }
}

/* Frames may be had, or asks may be made, that could not before. */
static void look_for_food(struct space_engine *engine, const struct line_at *at,
                          const struct space_line *before)
{
    const struct space_line *line = at->line;
    struct engine_seat *home = home_of(engine, at->block);

    home->asks = home->asks + is_asking(line->state) - is_asking(before->state);
    if (line->state != before->state || line->holds != before->holds) {
        engine->is_hungry = true;
    }
}

static void carry(struct space_engine *engine, struct line_at *at, const struct space_line *before,
                  const struct space_out *out, const struct space_op *op)
{
    uint64_t block = at->block;

    look_for_food(engine, at, before);
    if (at->line->owed != 0 && at->line->holds != 0) {
        (void)engine_want(engine, block);
    }
    if (at->frame != SPACE_NO_FRAME && engine_show(space_frames_word(&engine->frames, at->frame),
                                                   !engine->is_paused && is_shown(engine, at))) {
        space_view_fence();
    }
    for (uint32_t n = 0; n < out->count; n++) {
        say(engine, at, &out->sends[n], op);
    }
    if (at->frame != SPACE_NO_FRAME && !space_line_has_frame(at->line)) {
        *at->line = (struct space_line){0};
        space_frames_give(&engine->frames, at->frame);
    }
    if (out->in_doubt) {
        end_asked(engine, block, NIGH_PEER_LOST, 0);
    }
    if (out->refused) {
        engine_end_all(engine, block, engine_gone_status(out->why));
    }
    if (out->wakes) {
        engine_try_again(engine, block);
    }
}

static enum space_result step(struct space_engine *engine, struct line_at *at,
                              const struct space_message *message, const struct space_op *op)
{
    struct engine_seat *home = home_of(engine, at->block);
    struct space_line before = *at->line;
    struct space_out out;
    enum space_result result = space_cache_step(&home->member.cache, at->line, message, &out);

    if (result != SPACE_REFUSED && result != SPACE_STALE) {
        engine_log_line(engine, at->block, at->frame, &home->member.cache, &before, at->line,
                        message);
        carry(engine, at, &before, &out, op);
    }
    return result;
}

/* ---- frames --------------------------------------------------------------- */

static const struct engine_seat *home_in(const struct space_engine *engine, uint32_t frame)
{
    uint64_t block = space_frames_block(&engine->frames, frame);

    return &engine->seats[space_address_seat(block)];
}

/* Of a frame that a block has: its home is no member, and nothing it says can come any more. If it
 * comes back that is by another engine, in a term in which it asks what there is. */
static bool is_of_gone(const struct space_engine *engine, uint32_t frame)
{
    const struct engine_seat *home = home_in(engine, frame);

    return engine->has_members && !home->is_up && space_frames_block(&engine->frames, frame) != 0 &&
           !space_set_has(engine->members, (uint8_t)(home - engine->seats));
}

/*
 * What a home that is gone does without when it is there again. Without a log it knows nothing of
 * what was given up, and of what is shared it has the bytes only from who has them yet: as with any
 * copy that was given up before it went. On its log it takes its own bytes for the last where this
 * node, which it gave the block, claims nothing: so what this node's log has a copy of stays. What
 * is DIRTY may be all that there is; and where something was asked for, its bytes may come yet.
 */
static bool is_left_over(const struct space_engine *engine, uint32_t frame)
{
    const struct space_line *line = &engine->lines[frame];

    return (line->state == SPACE_CACHE_SHARED || line->state == SPACE_CACHE_HANDED ||
            is_leaving(line->state)) &&
           line->holds == 0 && !engine_is_logged(engine, frame) && is_of_gone(engine, frame);
}

/* Nobody is to be told; what others were given of it has to be there. */
static bool may_drop(void *context, uint32_t frame)
{
    const struct space_engine *engine = context;

    return is_left_over(engine, frame) && home_in(engine, frame)->member.writes == 0;
}

static bool may_leave(void *context, uint32_t frame)
{
    struct space_engine *engine = context;
    const struct space_line *line = &engine->lines[frame];
    const struct engine_seat *home = home_in(engine, frame);

    return ((line->state == SPACE_CACHE_SHARED || line->state == SPACE_CACHE_DIRTY) &&
            line->holds == 0 && home->member.cache.is_open && !home->is_adopting) ||
           may_drop(engine, frame);
}

/* The first frame of that block's set. */
static uint32_t set_of(const struct space_engine *engine, uint64_t block)
{
    const struct space_view *view = &engine->frames.view;

    return (uint32_t)space_set_of(view, space_hash(block, view->shift)) * SPACE_WAYS;
}

/* What is given up of a home that does not serve does not leave soon. */
static uint32_t count_leaving(const struct space_engine *engine, uint64_t block)
{
    uint32_t first = set_of(engine, block), count = 0;

    for (uint32_t frame = first; frame < first + SPACE_WAYS; frame++) {
        count +=
            is_leaving(engine->lines[frame].state) && home_in(engine, frame)->member.cache.is_open;
    }
    return count;
}

/* Frames of that block's set that others wait for in vain: held here, or kept for a home that is
 * gone, or for a node that may have later bytes. */
static uint32_t count_lasting(const struct space_engine *engine, uint64_t block)
{
    uint32_t first = set_of(engine, block), count = 0;

    for (uint32_t frame = first; frame < first + SPACE_WAYS; frame++) {
        const struct space_line *line = &engine->lines[frame];

        count += line->holds != 0 ||
                 ((line->is_away || is_of_gone(engine, frame)) && !is_left_over(engine, frame));
    }
    return count;
}

/* Whether no more blocks of that one's set may be held here. Were all held, others of it had no
 * frame: who holds them, and writes to such a one, has his unlocks behind what waits for them. */
static bool is_held_enough(const struct space_engine *engine, uint64_t block)
{
    return count_lasting(engine, block) >= SPACE_WAYS - LIMIT_SPACE_LEAVING;
}

/* What clients here only keep gives way to who wants a frame of that block's set, or a lock. true:
 * something of it is let go soon. */
static bool want_set(struct space_engine *engine, uint64_t block)
{
    uint32_t first = set_of(engine, block);
    bool any = false;

    for (uint32_t frame = first; frame < first + SPACE_WAYS; frame++) {
        if (engine->lines[frame].holds != 0) {
            any |= engine_want(engine, space_frames_block(&engine->frames, frame));
        }
    }
    return any;
}

bool engine_cache_is_wanted(struct space_engine *engine, uint64_t block)
{
    uint32_t frame = space_frames_find(&engine->frames, block);
    const struct space_line *line = &engine->lines[frame == SPACE_NO_FRAME ? 0 : frame];

    return frame == SPACE_NO_FRAME || line->owed != 0 || line->wants_write ||
           !space_set_has(engine->members, (uint8_t)space_address_seat(block));
}

bool engine_cache_is_asking(struct space_engine *engine, uint64_t block)
{
    uint32_t frame = space_frames_find(&engine->frames, block);
    const struct space_spot *place = engine_find_place(engine, block);
    const struct engine_seat *home = home_of(engine, block);

    if (!home->member.cache.is_open ||
        !space_set_has(home->whole, (uint8_t)space_address_seat(block))) {
        return false; /* a term is to come */
    }
    return frame != SPACE_NO_FRAME ? is_asking(engine->lines[frame].state)
                                   : place != NULL && is_asking(place->line.state);
}

/* Were something let go yet that is told to be, nobody might hold it. */
bool engine_cache_is_held(struct space_engine *engine, uint64_t block)
{
    uint32_t frame = space_frames_find(&engine->frames, block);

    return frame != SPACE_NO_FRAME && engine->lines[frame].holds != 0 &&
           engine->lines[frame].owed != 0 && engine->log.unlocks_count == 0 &&
           !engine_want(engine, block);
}

void engine_want_of_seats(struct space_engine *engine, uint64_t seats)
{
    for (uint32_t frame = 0; frame < space_frames_count(&engine->frames); frame++) {
        uint64_t block;

        if (engine->lines[frame].holds == 0) {
            continue;
        }
        block = space_frames_block(&engine->frames, frame);
        if (space_set_has(seats, (uint8_t)space_address_seat(block))) {
            (void)engine_want(engine, block);
        }
    }
}

static uint32_t take_frame(struct space_engine *engine, uint64_t block)
{
    uint32_t frame = space_frames_take(&engine->frames, block);

    if (frame != SPACE_NO_FRAME) {
        engine->lines[frame] = (struct space_line){.frame = frame};
        engine->places_in[frame] = 0;
        engine_log_frame(engine, frame);
    }
    return frame;
}

static void drop(struct space_engine *engine, uint32_t frame)
{
    (void)engine_show(space_frames_word(&engine->frames, frame), false);
    space_view_fence();
    engine->lines[frame] = (struct space_line){0};
    space_frames_give(&engine->frames, frame);
    engine->stats.evictions++;
}

/* What the home gave it has, too: where nothing reads the copy its frame is free before the home
 * has heard of it. The line waits at a place for that; such places are as bounded as asks. */
static bool evict_at_once(struct space_engine *engine, uint32_t frame)
{
    struct space_message evict = engine_here(engine, SPACE_CACHE_EVICT_AT_ONCE);
    struct line_at at = line_in(engine, frame);
    const struct engine_seat *home = home_of(engine, at.block);
    struct space_spot *place;

    if (!at.line->is_homes || home->member.writes != 0 || engine_is_logged(engine, frame) ||
        home->asks + 1 >= engine->config.asks) {
        return false;
    }
    place = engine_make_place(engine, at.block);
    if (place == NULL) {
        return false;
    }
    place->line = *at.line;
    drop(engine, frame);
    at.line = &place->line;
    at.frame = SPACE_NO_FRAME;
    (void)step(engine, &at, &evict, NULL);
    NIGH_ASSERT(place->line.state == SPACE_CACHE_FRAMELESS);
    return true;
}

/* A frame for a block that has none; SPACE_NO_FRAME: not now, and one may be on its way out. */
static uint32_t obtain(struct space_engine *engine, uint64_t block)
{
    struct space_message evict = engine_here(engine, SPACE_CACHE_EVICT);
    uint32_t frame = take_frame(engine, block), victim;

    if (frame != SPACE_NO_FRAME) {
        return frame;
    }
    (void)want_set(engine, block);
    victim = space_frames_victim(
        &engine->frames, block,
        count_leaving(engine, block) < LIMIT_SPACE_LEAVING ? may_leave : may_drop, engine);
    if (victim != SPACE_NO_FRAME && may_drop(engine, victim)) {
        drop(engine, victim);
        return take_frame(engine, block);
    }
    if (victim != SPACE_NO_FRAME && evict_at_once(engine, victim)) {
        return take_frame(engine, block);
    }
    if (victim != SPACE_NO_FRAME) {
        struct line_at at = line_in(engine, victim);

        engine->stats.evictions += step(engine, &at, &evict, NULL) == SPACE_DONE;
    }
    return SPACE_NO_FRAME;
}

/* ---- clients -------------------------------------------------------------- */

static uint8_t event_of(uint8_t kind)
{
    switch (kind) {
    case SPACE_OP_READ: return SPACE_CACHE_READ;
    case SPACE_OP_WRITE: return SPACE_CACHE_WRITE;
    case SPACE_OP_LOCK_READ: return SPACE_CACHE_LOCK_READ;
    case SPACE_OP_LOCK_WRITE: return SPACE_CACHE_LOCK_WRITE;
    case SPACE_OP_UNLOCK: return SPACE_CACHE_UNLOCK;
    default: return SPACE_CACHE_ATOMIC;
    }
}

static bool is_lock(const struct space_op *op)
{
    return op->kind == SPACE_OP_LOCK_READ || op->kind == SPACE_OP_LOCK_WRITE;
}

static bool is_read(const struct space_op *op)
{
    return op->kind == SPACE_OP_READ || op->kind == SPACE_OP_LOCK_READ;
}

/* A try-lock of what somebody here holds, and not only for itself, or that others wait for already:
 * those who only keep it were asked for it as these began to wait. */
static bool is_busy(struct space_engine *engine, const struct line_at *at,
                    const struct space_op *op)
{
    const struct space_line *line = at->line;
    bool is_read = op->kind == SPACE_OP_LOCK_READ;
    bool is_held = is_read ? line->holds >= SPACE_HELD_ALONE - 1 : line->holds != 0;

    if (!space_line_is_readable(line)) {
        return false;
    }
    if ((line->owed != 0 || line->wants_write) && (is_read || is_held)) {
        return true;
    }
    return is_held && !engine_want(engine, at->block);
}

static enum engine_tried perform(struct space_engine *engine, const struct line_at *at,
                                 struct space_op *op)
{
    struct engine_bytes bytes = {at->block, at->frame,
                                 space_frames_word(&engine->frames, at->frame),
                                 space_frames_bytes(&engine->frames, at->frame)};

    return engine_perform(engine, op, &bytes);
}

/* Who holds the block asks nobody. */
static enum engine_tried try_own(struct space_engine *engine, struct line_at *at,
                                 struct space_op *op)
{
    if (at->line->holds == 0 ||
        (op->holds == SPACE_HOLDS_ALONE) != (at->line->holds == SPACE_HELD_ALONE)) {
        op->status = NIGH_LOCK_LOST;
        return TRIED_ENDED;
    }
    return perform(engine, at, op);
}

static enum engine_tried try_line(struct space_engine *engine, struct line_at *at,
                                  struct space_op *op)
{
    struct space_message message = engine_here(engine, event_of(op->kind));
    enum space_result result;
    bool had;

    if (op->is_try && is_busy(engine, at, op)) {
        op->status = NIGH_BUSY;
        return TRIED_ENDED;
    }
    had = op->kind == SPACE_OP_UNLOCK && space_line_is_readable(at->line);
    result = step(engine, at, &message, op);
    engine->stats.invalidations += had && !space_line_is_readable(at->line); /* as it was owed */
    if (result == SPACE_WAITS) {
        return TRIED_WAITS;
    }
    op->status = result == SPACE_DONE   ? NIGH_OK
                 : result == SPACE_GONE ? NIGH_UNREACHABLE
                                        : NIGH_LOCK_LOST;
    return result == SPACE_DONE && op->kind != SPACE_OP_UNLOCK ? perform(engine, at, op)
                                                               : TRIED_ENDED;
}

/* Nothing is here; what is wanted waits at a place: also for the atomic that is under way there, or
 * for the home to hear that the block was given up. */
static enum engine_tried try_place(struct space_engine *engine, struct space_spot *place,
                                   struct space_op *op)
{
    struct line_at at = {place->address, &place->line, SPACE_NO_FRAME};
    uint8_t before = place->line.state;
    enum engine_tried tried = try_line(engine, &at, op);

    NIGH_ASSERT(tried == TRIED_WAITS);
    if (before != SPACE_CACHE_AT_HOME && place->line.state == SPACE_CACHE_AT_HOME) {
        place->asked = op;
    }
    return tried;
}

/* What nobody here has asked for yet. */
static enum engine_tried try_absent(struct space_engine *engine, struct space_spot *place,
                                    struct space_op *op)
{
    struct engine_seat *home = home_of(engine, place->address);
    struct line_at at = {.block = place->address};
    enum engine_tried tried;
    bool is_atomic = event_of(op->kind) == SPACE_CACHE_ATOMIC;

    if (place->line.state != SPACE_CACHE_INVALID || !home->member.cache.is_open) {
        return try_place(engine, place, op);
    }
    if (home->asks >= engine->config.asks) {
        return TRIED_STARVES;
    }
    if (is_atomic) {
        return try_place(engine, place, op);
    }
    if (is_lock(op) && is_held_enough(engine, place->address)) {
        op->status = NIGH_LIMIT;
        return want_set(engine, place->address) ? TRIED_STARVES : TRIED_ENDED;
    }
    at.frame = obtain(engine, place->address);
    if (at.frame == SPACE_NO_FRAME) {
        op->status = NIGH_LIMIT; /* who holds them may be who waits */
        return count_lasting(engine, place->address) == SPACE_WAYS &&
                       !want_set(engine, place->address)
                   ? TRIED_ENDED
                   : TRIED_STARVES;
    }
    at.line = &engine->lines[at.frame];
    place->line = (struct space_line){0};
    tried = try_line(engine, &at, op);
    NIGH_ASSERT(tried == TRIED_WAITS && space_line_has_frame(at.line));
    return tried;
}

static enum engine_tried try_here(struct space_engine *engine, uint32_t frame, struct space_op *op)
{
    struct line_at at = line_in(engine, frame);
    struct engine_seat *home = home_of(engine, at.block);

    if (op->holds != SPACE_HOLDS_NOTHING && op->kind != SPACE_OP_UNLOCK) {
        return try_own(engine, &at, op);
    }
    if (op->kind == SPACE_OP_UNLOCK) {
        engine_settle(engine, frame);
        if (!space_set_has(home->whole, (uint8_t)space_address_seat(at.block))) {
            /* It is not heard any more; a term is to come, in which nothing is owed. */
            at.line->owed = at.line->owed_whom = 0;
            at.line->owed_frame = 0;
        }
    } else if (is_lock(op) && at.line->holds == 0 && is_held_enough(engine, at.block)) {
        op->status = NIGH_LIMIT;
        return want_set(engine, at.block) ? TRIED_STARVES : TRIED_ENDED;
    } else if (at.line->state == SPACE_CACHE_SHARED && !is_read(op) &&
               home->asks >= engine->config.asks) {
        return TRIED_STARVES;
    }
    return try_line(engine, &at, op);
}

enum engine_tried engine_try_cache(struct space_engine *engine, struct space_op *op)
{
    uint64_t block = engine_block(engine, op->address);
    uint32_t frame = space_frames_find(&engine->frames, block);
    struct space_spot *place;
    enum engine_tried tried;

    if (frame != SPACE_NO_FRAME) {
        return try_here(engine, frame, op);
    }
    op->status = NIGH_LOCK_LOST;
    if (op->holds != SPACE_HOLDS_NOTHING) {
        return TRIED_ENDED;
    }
    op->status = NIGH_BUSY;
    place = engine_make_place(engine, block);
    if (place == NULL) {
        return TRIED_ENDED;
    }
    tried = try_absent(engine, place, op);
    if (tried != TRIED_WAITS) {
        engine_release_place(engine, place);
    }
    return tried;
}

/* By the table a WRITE of what is DIRTY is done, and changes nothing, where nobody holds it. */
bool engine_owns_cached(struct space_engine *engine, struct space_owned *owned)
{
    uint32_t frame = space_frames_find(&engine->frames, owned->block);

    if (frame == SPACE_NO_FRAME || engine->lines[frame].state != SPACE_CACHE_DIRTY ||
        engine->lines[frame].holds != 0) {
        return false;
    }
    owned->word = space_frames_word(&engine->frames, frame);
    owned->bytes = space_frames_bytes(&engine->frames, frame);
    return true;
}

/* ---- messages ------------------------------------------------------------- */

static bool is_frame(const struct space_engine *engine, uint32_t frame)
{
    return frame < space_frames_count(&engine->frames);
}

/* It may be what the line waits for: then what it says of the block's place is so. Of one that is
 * not taken that does not count, as another is to come. */
static bool is_given(const struct line_at *at, const struct space_wire *wire)
{
    uint8_t state = at->line->state;

    return says_place(wire, at) &&
           (wire->event == SPACE_CACHE_RESTORE
                ? is_leaving(state) || state == SPACE_CACHE_HANDED
                : state == SPACE_CACHE_TO_SHARED || state == SPACE_CACHE_TO_DIRTY);
}

void engine_cache_message(struct space_engine *engine, uint8_t seat, const struct space_wire *wire)
{
    uint64_t block = engine_block(engine, wire->address);
    uint32_t frame = space_frames_find(&engine->frames, block);
    struct space_line none = {0};
    struct line_at at = {block, &none, SPACE_NO_FRAME};
    struct space_spot *place = engine_find_place(engine, block);
    struct space_message message;
    enum space_result result;
    bool had;

    if (!engine_is_address(engine, block) || wire->address != block ||
        engine_is_ours(engine, block) || !is_frame(engine, wire->frame) ||
        (space_wire_has_place(wire) && !engine_is_place(engine, block, wire->operands[0]))) {
        engine_refuse(engine, seat);
        return;
    }
    if (frame != SPACE_NO_FRAME) {
        at = line_in(engine, frame);
    } else if (place != NULL) {
        at.line = &place->line;
    }
    space_wire_read(wire, seat, &message);
    if (message.event == SPACE_CACHE_ATOMIC_DONE && at.line->state == SPACE_CACHE_AT_HOME &&
        message.term == home_of(engine, block)->member.cache.term &&
        seat == space_address_seat(block)) {
        place->is_busy = true;
        end_asked(engine, block, NIGH_OK, wire->operands[0]);
        place->is_busy = false;
    }
    if (is_given(&at, wire)) {
        engine->places_in[frame] = (uint32_t)wire->operands[0];
    }
    had = space_line_is_readable(at.line);
    result = step(engine, &at, &message, NULL);
    engine->stats.stale += result == SPACE_STALE;
    engine->stats.invalidations += had && !space_line_is_readable(at.line);
    if (result == SPACE_REFUSED) {
        engine_refuse(engine, seat);
    }
    if (frame == SPACE_NO_FRAME && place != NULL) {
        place = engine_find_place(engine, block);
        if (place != NULL) {
            engine_release_place(engine, place);
        }
    }
}

/* ---- terms ---------------------------------------------------------------- */

/* What was claimed is of the term of now; what was given up is claimed as such once. */
static bool has_adopted(const struct space_cache *cache, const struct space_line *line)
{
    return line->state == SPACE_CACHE_INVALID ||
           ((line->state == SPACE_CACHE_SHARED || line->state == SPACE_CACHE_DIRTY) &&
            line->epoch.term == cache->term);
}

static void adopt_one(struct space_engine *engine, uint32_t frame)
{
    struct line_at at = line_in(engine, frame);
    struct space_message adopt = engine_here(engine, SPACE_CACHE_ADOPT);

    if (!has_adopted(&home_of(engine, at.block)->member.cache, at.line)) {
        (void)step(engine, &at, &adopt, NULL);
    }
}

void engine_settle(struct space_engine *engine, uint32_t frame)
{
    struct engine_seat *home = home_of(engine, space_frames_block(&engine->frames, frame));
    uint8_t state = engine->lines[frame].state;

    if (home->is_adopting && frame >= home->cursor &&
        (state == SPACE_CACHE_SHARED || state == SPACE_CACHE_DIRTY)) {
        adopt_one(engine, frame);
    }
}

static bool is_of_home(struct space_engine *engine, uint32_t frame, uint8_t home)
{
    uint64_t block = space_frames_block(&engine->frames, frame);

    return block != 0 && space_address_seat(block) == home;
}

/* Terms were open without this node: nothing of what it had counts but what its log has, which may
 * be the last; and WRITEs may come yet. */
static void forget(struct space_engine *engine, uint8_t home)
{
    for (uint32_t frame = 0; frame < space_frames_count(&engine->frames); frame++) {
        struct line_at at = line_in(engine, frame);

        if (is_of_home(engine, frame, home)) {
            struct space_line before = *at.line;

            if (before.holds != 0) {
                (void)engine_want(engine, at.block);
            }
            if (!engine_log_keeps(engine, frame, at.line)) {
                *at.line = (struct space_line){.state = SPACE_CACHE_LENT, .frame = frame};
            }
            at.line->wants_read = before.wants_read;
            at.line->wants_write = before.wants_write;
            look_for_food(engine, &at, &before);
            (void)engine_show(space_frames_word(&engine->frames, frame), false);
        }
    }
    space_view_fence();
}

void engine_adopt(struct space_engine *engine, uint8_t home)
{
    struct engine_seat *seat = &engine->seats[home];

    if (seat->is_anew) {
        forget(engine, home);
    }
    seat->is_adopting = true;
    seat->cursor = 0;
    engine_forget_tries(engine, home);
    engine_tell_places(engine, home, SPACE_CACHE_ADOPT);
}

/* Claims go as the link has room for them: there may be as many as there are frames. */
bool engine_adopt_more(struct space_engine *engine, uint8_t home)
{
    struct engine_seat *seat = &engine->seats[home];
    uint64_t frames = space_frames_count(&engine->frames);

    while (seat->is_adopting && seat->letters < engine->config.asks &&
           engine_log_has_room(engine)) {
        if (seat->cursor == frames) {
            seat->is_adopting = false;
            break;
        }
        if (is_of_home(engine, seat->cursor, home)) {
            adopt_one(engine, seat->cursor);
        }
        seat->cursor++;
    }
    if (!seat->is_adopting && space_member_may_claim(&seat->member) &&
        space_set_has(seat->whole, home)) {
        struct space_wire claimed = {
            .kind = SPACE_WIRE_TERM, .event = SPACE_TERM_CLAIMED, .term = seat->member.cache.term};

        space_member_claimed(&seat->member);
        engine_say_alone(engine, home, &claimed, 0);
    }
    return seat->is_adopting && seat->letters < engine->config.asks && engine_log_has_room(engine);
}

void engine_open_cache(struct space_engine *engine, uint8_t home)
{
    struct space_message open = engine_here(engine, SPACE_CACHE_OPEN);

    for (uint32_t frame = 0; frame < space_frames_count(&engine->frames); frame++) {
        if (is_of_home(engine, frame, home)) {
            struct line_at at = line_in(engine, frame);

            (void)step(engine, &at, &open, NULL);
        }
    }
    engine_tell_places(engine, home, SPACE_CACHE_OPEN);
    engine->is_hungry = true;
}

void engine_step_place(struct space_engine *engine, struct space_spot *place, uint8_t event)
{
    struct line_at at = {place->address, &place->line, SPACE_NO_FRAME};
    struct space_message message = engine_here(engine, event);

    if (space_frames_find(&engine->frames, place->address) == SPACE_NO_FRAME) {
        bool was_busy = place->is_busy;

        place->is_busy = true;
        (void)step(engine, &at, &message, NULL);
        place->is_busy = was_busy;
        if (event == SPACE_CACHE_OPEN) {
            engine_try_again(engine, at.block);
        } else {
            engine_release_place(engine, place);
        }
    }
}

static void show_frame(struct space_engine *engine, uint32_t frame)
{
    struct line_at at = line_in(engine, frame);

    (void)engine_show(space_frames_word(&engine->frames, frame),
                      !engine->is_paused && is_shown(engine, &at));
}

/* Copies that may be read here are. */
void engine_show_cache(struct space_engine *engine)
{
    for (uint32_t frame = 0; frame < space_frames_count(&engine->frames); frame++) {
        if (space_frames_block(&engine->frames, frame) != 0) {
            show_frame(engine, frame);
        }
    }
}

void engine_show_again(struct space_engine *engine, uint64_t block)
{
    uint32_t frame;

    if (engine_is_ours(engine, block)) {
        engine_show_number(engine, engine_number(engine, block));
        return;
    }
    frame = space_frames_find(&engine->frames, block);
    if (frame != SPACE_NO_FRAME) {
        show_frame(engine, frame);
    }
}
