/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See engine.h: what is logged, by log_rules.h for each step and by itself for what is written, and
 * what waits until that is durable (docs/spaces.md, durability). engine_letters.c holds back what
 * leaves; here are clients' ops, and what is not shown until then.
 */
#include <string.h>

#include "space/engine_internal.h"
#include "space/log_rules.h"

/* ---- room ----------------------------------------------------------------- */

bool engine_has_log(const struct space_engine *engine)
{
    return engine->log.log != NULL;
}

uint32_t engine_log_reserve(const struct space_engine *engine)
{
    return engine_log_step(engine->config.home.shift);
}

bool engine_log_has_room(const struct space_engine *engine)
{
    return !engine_has_log(engine) ||
           space_log_has_room(engine->log.log, engine_log_reserve(engine));
}

uint64_t engine_log_last(const struct space_engine *engine)
{
    return engine_has_log(engine) ? space_log_last(engine->log.log) : 0;
}

bool engine_is_durable(const struct space_engine *engine, uint64_t number)
{
    return !engine_has_log(engine) || number <= engine->log.log->durable;
}

void engine_log_fail(struct space_engine *engine, nigh_status status)
{
    if (engine->log.status == NIGH_OK) {
        engine->log.status = status;
        engine_wake(engine);
    }
}

nigh_status engine_log_told(const struct space_engine *engine)
{
    switch (engine->log.status) {
    case NIGH_OK:
    case NIGH_CORRUPT: return engine->log.status;
    default: return NIGH_DISK;
    }
}

/* Its number. Who could not be refused room found none: the log is of no use any more. */
static uint64_t append(struct space_engine *engine, const struct space_log_record *record)
{
    uint64_t number = 0;
    nigh_status status = engine->log.status;

    if (status == NIGH_OK) {
        status = space_log_append(engine->log.log, record, &number);
    }
    if (status != NIGH_OK) {
        engine_log_fail(engine, status == NIGH_BUSY ? NIGH_LIMIT : status);
    }
    return number;
}

/* ---- what was written, and is not durable --------------------------------- */

struct engine_mark *engine_mark_of(struct space_engine *engine, uint64_t block)
{
    uint32_t frame;

    if (!engine_has_log(engine)) {
        return NULL;
    }
    if (engine_is_ours(engine, block)) {
        return engine_is_current(engine, block) ? &engine->log.blocks[engine_number(engine, block)]
                                                : NULL;
    }
    frame = space_frames_find(&engine->frames, block);
    return frame == SPACE_NO_FRAME ? NULL : &engine->log.frames[frame];
}

bool engine_is_fresh(const struct space_engine *engine, const struct engine_mark *mark)
{
    return engine->log.is_sync && mark != NULL && mark->write > engine->log.log->durable;
}

/* Nobody reads it before it is durable: sync. */
static void hide_fresh(struct space_engine *engine, const struct engine_bytes *at, uint64_t number)
{
    struct engine_log *log = &engine->log;

    if (!log->is_sync || number == 0) {
        return;
    }
    NIGH_ASSERT(log->waits_count < LIMIT_SPACE_LOG_WAITS);
    log->waits[(log->waits_first + log->waits_count++) % LIMIT_SPACE_LOG_WAITS] =
        (struct engine_wait){number, at->block};
    if (engine_show(at->word, false)) {
        space_view_fence();
    }
}

/* ---- the home ------------------------------------------------------------- */

static void log_home(struct space_engine *engine, uint64_t number, struct space_log_record *record)
{
    struct engine_mark *mark = &engine->log.blocks[number];

    record->address = engine_address(engine, number);
    mark->last = append(engine, record);
    space_log_note(&engine->log.home[number], record, engine->lives[number]);
}

static void log_back(struct space_engine *engine, uint64_t number)
{
    uint64_t copy[LIMIT_SPACE_BLOCK_BYTES / 8];
    uint32_t length = 1u << engine->config.home.shift;
    struct space_log_record back = {
        .kind = SPACE_LOG_BACK, .length = length, .bytes = (const uint8_t *)copy};

    space_bytes_load(space_bytes_of(&engine->config.home, number), 0, copy, length);
    log_home(engine, number, &back);
}

void engine_log_home(struct space_engine *engine, uint64_t number,
                     const struct engine_home_step *step, struct space_out *out)
{
    struct space_log_needs needs;
    uint32_t n = 0;

    needs.count = 0;
    if (engine_has_log(engine) && step->message->event != SPACE_HOME_ALLOC) {
        space_log_of_home(&engine->term.home, &step->entry_before, &step->work_before, step->entry,
                          step->work, step->message, &needs);
    }
    /* What came is there before an atomic is done to it, and both before it is given to one. */
    for (; n < needs.count && needs.records[n].kind == SPACE_LOG_BACK; n++) {
        log_back(engine, number);
    }
    engine_do_atomics(engine, number, out);
    for (; n < needs.count; n++) {
        log_home(engine, number, &needs.records[n]);
    }
}

uint64_t engine_log_alloc(struct space_engine *engine, uint64_t first, uint32_t blocks,
                          uint64_t before)
{
    struct space_log_record alloc = {.kind = SPACE_LOG_ALLOC,
                                     .address = engine_address(engine, first),
                                     .offset = (uint32_t)before,
                                     .blocks = blocks};
    uint64_t number;

    if (!engine_has_log(engine)) {
        return 0;
    }
    number = append(engine, &alloc);
    for (uint64_t n = first; n < first + blocks; n++) {
        space_log_note(&engine->log.home[n], &alloc, engine->lives[n]);
        engine->log.blocks[n].last = number;
    }
    engine->log.home[first - before].run = (uint32_t)before + blocks;
    return number;
}

/* A home without a log of what it had learns of a block that somebody has it: from here on the log
 * knows it, too, and who that is. */
void engine_log_claim(struct space_engine *engine, uint64_t number, uint8_t seat,
                      struct space_epoch epoch)
{
    struct space_log_record owned = {.kind = SPACE_LOG_OWNED, .seat = seat, .epoch = epoch};

    if (!engine_has_log(engine)) {
        return;
    }
    if (engine->log.home[number].state == SPACE_LOG_IS_FREE) {
        (void)engine_log_alloc(engine, number, 1, 0);
    }
    log_home(engine, number, &owned);
}

/* Nobody has it after all. */
void engine_log_free(struct space_engine *engine, uint64_t number)
{
    struct space_log_record none = {.kind = SPACE_LOG_FREE, .blocks = 1};

    if (engine_has_log(engine) && engine->log.home[number].state != SPACE_LOG_IS_FREE) {
        log_home(engine, number, &none);
    }
}

/* Whether a block is logged as of a malloc of so many, of which so many are before it. */
static bool is_placed(const struct space_engine *engine, uint64_t number, uint64_t before,
                      uint64_t blocks)
{
    const struct space_log_block *known = &engine->log.home[number];

    if (known->state == SPACE_LOG_IS_FREE) {
        return false;
    }
    return before == 0 ? known->run != 0 && known->run <= blocks
                       : known->run == 0 && engine->log.home[number - before].run > before;
}

/*
 * What was claimed is known as given alone until the home opens, as others of its malloc may be
 * claimed behind it; or as a start claimed it that ended before it was open. In order of blocks:
 * the first one's run is to be of all.
 */
void engine_log_place(struct space_engine *engine, uint64_t number, uint64_t before,
                      uint64_t blocks)
{
    struct space_log_block known;
    struct space_log_record record = {.kind = SPACE_LOG_LOST};
    bool is_lost = engine->entries[number].state == SPACE_HOME_LOST, stays;

    if (!engine_has_log(engine)) {
        return;
    }
    known = engine->log.home[number];
    stays = is_placed(engine, number, before, blocks);
    if (stays && (!is_lost || known.state == SPACE_LOG_IS_LOST)) {
        return;
    }
    if (!stays) {
        engine_log_free(engine, number);
        (void)engine_log_alloc(engine, number, 1, before);
    }
    if (known.state == SPACE_LOG_IS_OWNED && !is_lost) {
        record = (struct space_log_record){.kind = SPACE_LOG_OWNED,
                                           .seat = known.owner,
                                           .is_ours = known.is_ours,
                                           .epoch = known.epoch};
    }
    log_home(engine, number, &record);
}

void engine_log_term(struct space_engine *engine)
{
    struct space_log_record term = {.kind = SPACE_LOG_TERM, .epoch.term = engine->term.home.term};

    if (engine_has_log(engine)) {
        (void)append(engine, &term);
    }
}

static uint64_t life_of(const struct space_engine *engine, uint8_t seat)
{
    return seat == engine->config.self ? engine->config.life : engine->seats[seat].life;
}

/* Of the term that opens. */
void engine_log_member(struct space_engine *engine, uint8_t seat)
{
    struct engine_log *log = &engine->log;
    bool is_one = space_set_has(engine->term.home.members, seat);
    struct space_log_record member = {.kind = SPACE_LOG_MEMBER,
                                      .seat = seat,
                                      .is_ours = is_one,
                                      .address = life_of(engine, seat),
                                      .epoch.term = engine->since[seat]};

    if (!is_one) {
        member.address = log->lives[seat];
        member.epoch.term = log->since[seat];
    }
    if (!engine_has_log(engine) || member.address == 0 ||
        (log->lives[seat] == member.address && log->since[seat] == member.epoch.term &&
         space_set_has(log->members, seat) == is_one)) {
        return;
    }
    log->lives[seat] = member.address;
    log->since[seat] = member.epoch.term;
    log->members = (log->members & ~space_bit(seat)) | (uint64_t)is_one << seat;
    (void)append(engine, &member);
}

/* ---- others' blocks ------------------------------------------------------- */

/* Of a block that had that frame before: nothing of it is needed. */
static void log_left(struct space_engine *engine, uint32_t frame)
{
    struct engine_copy *copy = &engine->log.copies[frame];
    struct space_log_record left = {.kind = SPACE_LOG_LEFT, .address = copy->copy.address};

    if (copy->copy.address != 0) {
        (void)append(engine, &left);
        *copy = (struct engine_copy){0};
    }
}

void engine_log_frame(struct space_engine *engine, uint32_t frame)
{
    if (engine_has_log(engine)) {
        log_left(engine, frame);
        engine->log.frames[frame] = (struct engine_mark){0};
    }
}

bool engine_is_logged(const struct space_engine *engine, uint32_t frame)
{
    const struct engine_copy *copy;

    if (!engine_has_log(engine) || frame == SPACE_NO_FRAME) {
        return false;
    }
    copy = &engine->log.copies[frame];
    return copy->copy.address != 0 && !copy->is_dead;
}

/* A copy of all of it takes the place of what the log has of the block, in whichever frame that
 * was. */
static void forget_others(struct space_engine *engine, uint64_t block, uint32_t frame)
{
    uint32_t first = frame - frame % SPACE_WAYS;

    for (uint32_t n = first; n < first + SPACE_WAYS; n++) {
        if (n != frame && engine->log.copies[n].copy.address == block) {
            engine->log.copies[n] = (struct engine_copy){0};
        }
    }
}

static uint64_t log_copy(struct space_engine *engine, uint64_t block, uint32_t frame,
                         struct space_epoch epoch, const uint64_t *bytes)
{
    struct space_log_record record = {.kind = SPACE_LOG_COPY,
                                      .address = block,
                                      .epoch = epoch,
                                      .length = 1u << engine->config.home.shift,
                                      .bytes = (const uint8_t *)bytes};

    forget_others(engine, block, frame);
    engine->log.copies[frame] =
        (struct engine_copy){.copy = {.address = block, .epoch = epoch, .handed_to = SPACE_NOBODY}};
    return append(engine, &record);
}

static void log_line(struct space_engine *engine, uint64_t block, uint32_t frame,
                     struct space_log_record *record)
{
    uint64_t bytes[LIMIT_SPACE_BLOCK_BYTES / 8];
    struct engine_copy *copy = &engine->log.copies[frame];

    record->address = block;
    switch (record->kind) {
    case SPACE_LOG_COPY:
        space_bytes_load(space_frames_bytes(&engine->frames, frame), 0, bytes,
                         1u << engine->config.home.shift);
        engine->log.frames[frame].last = log_copy(engine, block, frame, record->epoch, bytes);
        return;
    case SPACE_LOG_LEFT:
        /* It waits for nothing, and nothing for it. */
        if (engine_log_has_room(engine)) {
            log_left(engine, frame);
        } else {
            copy->is_dead = true;
        }
        return;
    default: break;
    }
    copy->copy.epoch = record->epoch;
    copy->copy.handed_to = record->kind == SPACE_LOG_HANDED ? record->seat : SPACE_NOBODY;
    engine->log.frames[frame].last = append(engine, record);
}

void engine_log_line(struct space_engine *engine, uint64_t block, uint32_t frame,
                     const struct space_cache *cache, const struct space_line *before,
                     const struct space_line *line, const struct space_message *message)
{
    struct space_log_needs needs;

    if (!engine_has_log(engine) || frame == SPACE_NO_FRAME) {
        return;
    }
    space_log_of_line(cache, before, line, message, engine_is_logged(engine, frame), &needs);
    for (uint32_t n = 0; n < needs.count; n++) {
        log_line(engine, block, frame, &needs.records[n]);
    }
}

/* Terms were open without this node: what the log has of the line is as given up, as at a start.
 * false: it has nothing, or what lies there may be another's bytes. */
bool engine_log_keeps(struct space_engine *engine, uint32_t frame, struct space_line *line)
{
    struct engine_copy *copy;

    if (!engine_is_logged(engine, frame)) {
        return false;
    }
    copy = &engine->log.copies[frame];
    if (line->state != SPACE_CACHE_SHARED && line->state != SPACE_CACHE_UPGRADING &&
        line->state != SPACE_CACHE_DIRTY && line->state != SPACE_CACHE_EVICTING &&
        line->state != SPACE_CACHE_WRITING_BACK && line->state != SPACE_CACHE_HANDED) {
        copy->is_dead = true;
        return false;
    }
    *line = engine_line_of_copy(&copy->copy, frame);
    return true;
}

struct space_line engine_line_of_copy(const struct space_log_copy *copy, uint32_t frame)
{
    bool is_handed = copy->handed_to != SPACE_NOBODY;

    return (struct space_line){
        .state = is_handed ? SPACE_CACHE_HANDED : SPACE_CACHE_WRITING_BACK,
        .handed_to = is_handed ? copy->handed_to : 0,
        .epoch = copy->epoch,
        .frame = frame,
    };
}

/* ---- writes --------------------------------------------------------------- */

static uint64_t log_write(struct space_engine *engine, const struct engine_bytes *at,
                          uint32_t offset, const void *from, uint32_t length)
{
    uint64_t bytes[LIMIT_SPACE_BLOCK_BYTES / 8];
    struct space_log_record record = {
        .address = at->block, .offset = offset, .length = length, .bytes = from};

    if (at->frame == SPACE_NO_FRAME) {
        record.kind = SPACE_LOG_WRITE;
        return append(engine, &record);
    }
    record.epoch = engine->lines[at->frame].epoch;
    if (engine_is_logged(engine, at->frame)) {
        record.kind = SPACE_LOG_CHANGE;
        engine->log.copies[at->frame].copy.epoch = record.epoch;
        return append(engine, &record);
    }
    space_bytes_load(at->bytes, 0, bytes, 1u << engine->config.home.shift);
    memcpy((uint8_t *)bytes + offset, from, length);
    return log_copy(engine, at->block, at->frame, record.epoch, bytes);
}

nigh_status engine_log_write(struct space_engine *engine, const struct engine_bytes *at,
                             uint32_t offset, const void *from, uint32_t length)
{
    struct engine_mark *mark;
    uint64_t number;

    if (!engine_has_log(engine)) {
        return NIGH_OK;
    }
    mark = at->frame == SPACE_NO_FRAME ? &engine->log.blocks[engine_number(engine, at->block)]
                                       : &engine->log.frames[at->frame];
    number = log_write(engine, at, offset, from, length);
    if (number != 0) {
        mark->last = mark->write = number;
        hide_fresh(engine, at, number);
    }
    /* Whatever became of the log, clients are told the same. */
    return engine_log_told(engine);
}

/* ---- images --------------------------------------------------------------- */

static bool put(struct space_engine *engine, const struct space_log_record *record)
{
    return space_log_put(engine->log.log, record) == NIGH_OK;
}

static bool put_member(struct space_engine *engine, uint8_t seat)
{
    const struct space_log_record member = {.kind = SPACE_LOG_MEMBER,
                                            .seat = seat,
                                            .is_ours = space_set_has(engine->log.members, seat),
                                            .address = engine->log.lives[seat],
                                            .epoch.term = engine->log.since[seat]};
    const struct space_log_record term = {.kind = SPACE_LOG_TERM,
                                          .epoch.term = engine->term.home.term};

    return (seat != 0 || put(engine, &term)) &&
           (engine->log.lives[seat] == 0 || put(engine, &member));
}

/* Free blocks side by side, which the log has of one life: one record, for as many as a turn has.
 */
static uint64_t put_freed(struct space_engine *engine, uint64_t number)
{
    const struct space_log_block *blocks = engine->log.home;
    uint64_t end = number + 1;
    uint64_t most = min_u64(number + LIMIT_SPACE_JOB_BLOCKS, engine->config.home.count);
    struct space_log_record freed = {.kind = SPACE_LOG_FREE,
                                     .address = engine_address(engine, number)};

    while (end < most && blocks[end].state == SPACE_LOG_IS_FREE &&
           blocks[end].life == blocks[number].life) {
        end++;
    }
    freed.blocks = (uint32_t)(end - number);
    return blocks[number].life == 0 || put(engine, &freed) ? end - number : 0;
}

/* As the log says it is; its bytes, if they may be the last. */
static bool put_block(struct space_engine *engine, uint64_t number)
{
    const struct space_log_block *block = &engine->log.home[number];
    uint64_t copy[LIMIT_SPACE_BLOCK_BYTES / 8];
    struct space_log_record record = {.address = engine_address(engine, number),
                                      .blocks = block->run};

    if (block->state == SPACE_LOG_IS_HERE || block->is_ours) {
        record.kind = SPACE_LOG_BACK;
        record.length = 1u << engine->config.home.shift;
        record.bytes = (const uint8_t *)copy;
        space_bytes_load(space_bytes_of(&engine->config.home, number), 0, copy, record.length);
        if (!put(engine, &record)) {
            return false;
        }
        record.length = 0;
        record.bytes = NULL;
    }
    if (block->state == SPACE_LOG_IS_HERE) {
        return true;
    }
    record.kind = block->state == SPACE_LOG_IS_LOST ? SPACE_LOG_LOST : SPACE_LOG_OWNED;
    record.seat = block->owner;
    record.is_ours = block->is_ours;
    record.epoch = block->epoch;
    return put(engine, &record);
}

static bool put_frame(struct space_engine *engine, uint32_t frame)
{
    const struct space_log_copy *copy = &engine->log.copies[frame].copy;
    uint64_t bytes[LIMIT_SPACE_BLOCK_BYTES / 8];
    struct space_log_record record = {.kind = SPACE_LOG_COPY,
                                      .address = copy->address,
                                      .epoch = copy->epoch,
                                      .length = 1u << engine->config.home.shift,
                                      .bytes = (const uint8_t *)bytes};

    if (!engine_is_logged(engine, frame)) {
        return true;
    }
    space_bytes_load(space_frames_bytes(&engine->frames, frame), 0, bytes, record.length);
    if (!put(engine, &record)) {
        return false;
    }
    record = (struct space_log_record){.kind = SPACE_LOG_HANDED,
                                       .seat = copy->handed_to,
                                       .address = copy->address,
                                       .epoch = copy->epoch};
    return copy->handed_to == SPACE_NOBODY || put(engine, &record);
}

/* Goes on with one; true: there is more to put at once. */
static bool fill_image(struct space_engine *engine)
{
    struct engine_log *log = &engine->log;
    uint64_t blocks = engine->config.home.count, frames = space_frames_count(&engine->frames);
    uint64_t count;

    for (uint64_t n = 0; n < LIMIT_SPACE_JOB_BLOCKS && space_log_fills(log->log); n += count) {
        uint64_t at = log->image_at;

        if (at < SPACE_SEATS) {
            count = put_member(engine, (uint8_t)at);
        } else if (at - SPACE_SEATS < blocks) {
            count = log->home[at - SPACE_SEATS].state == SPACE_LOG_IS_FREE
                        ? put_freed(engine, at - SPACE_SEATS)
                        : put_block(engine, at - SPACE_SEATS);
        } else if (at - SPACE_SEATS - blocks < frames) {
            count = put_frame(engine, (uint32_t)(at - SPACE_SEATS - blocks));
        } else {
            (void)space_log_end_image(log->log); /* or when its buffer is written */
            return false;
        }
        if (count == 0) {
            return false; /* its buffer is full, or the log has failed */
        }
        log->image_at += count;
    }
    return space_log_fills(log->log);
}

static bool make_image(struct space_engine *engine)
{
    struct engine_log *log = &engine->log;

    if (space_log_wants_image(log->log) && space_log_begin_image(log->log)) {
        log->image_at = 0;
    }
    return space_log_fills(log->log) && fill_image(engine);
}

/* ---- what is durable ------------------------------------------------------ */

static void tell_ends(struct space_engine *engine)
{
    struct engine_log *log = &engine->log;

    /* Who wrote hears so before anybody can see it. */
    for (uint32_t n = 0; n < log->waits_count; n++) {
        const struct engine_wait *wait =
            &log->waits[(log->waits_first + n) % LIMIT_SPACE_LOG_WAITS];

        if (wait->number > log->log->durable) {
            break;
        }
        engine_end_written(engine, wait->block);
    }
    while (log->waits_count > 0 && log->waits[log->waits_first].number <= log->log->durable) {
        uint64_t block = log->waits[log->waits_first].block;

        log->waits_first = (log->waits_first + 1) % LIMIT_SPACE_LOG_WAITS;
        log->waits_count--;
        engine_show_again(engine, block);
        engine_try_again(engine, block);
    }
}

static void take_job(struct space_engine *engine)
{
    struct engine_log *log = &engine->log;

    if (!log->has_job && log->status == NIGH_OK && space_log_take_job(log->log, &log->job)) {
        log->has_job = true;
        engine->config.shell.log(engine->config.shell.context, &log->job);
    }
}

void space_engine_logged(struct space_engine *engine, uint64_t now_us)
{
    struct engine_log *log = &engine->log;

    engine->now_us = now_us;
    NIGH_ASSERT(log->has_job);
    log->has_job = false;
    space_log_ended(log->log, &log->job);
    if (engine->has_ended) {
        return;
    }
    if (log->log->status != NIGH_OK) {
        engine_log_fail(engine, log->log->status);
        return;
    }
    tell_ends(engine);
    for (uint64_t left = engine->up; left != 0; left &= left - 1) {
        engine_say_waiting(engine, space_set_first(left));
    }
    engine->is_hungry = true;
    take_job(engine);
    engine_wake(engine);
}

/* The next generation begins with room, and with an image to be filled, though no job has ended. */
bool engine_log_turn(struct space_engine *engine)
{
    struct engine_log *log = &engine->log;
    bool had_room, more;

    if (!engine_has_log(engine) || log->status != NIGH_OK) {
        return false;
    }
    had_room = engine_log_has_room(engine);
    more = make_image(engine);
    take_job(engine);
    more |= !log->has_job && space_log_fills(log->log);
    if (!had_room && engine_log_has_room(engine)) {
        engine->is_hungry = more = true;
    }
    return more;
}

uint64_t space_engine_last(const struct space_engine *engine)
{
    return engine_log_last(engine);
}

nigh_status space_engine_durable(const struct space_engine *engine, uint64_t number)
{
    if (engine_is_durable(engine, number)) {
        return NIGH_OK;
    }
    if (engine->log.status != NIGH_OK) {
        return engine_log_told(engine);
    }
    return engine->has_ended ? NIGH_CLOSED : NIGH_BUSY;
}

/* ---- what came while there was no room ------------------------------------ */

static bool has_to_wait(const struct space_engine *engine)
{
    return !engine_log_has_room(engine) || engine_holds_answers(engine);
}

bool engine_must_hold(const struct space_engine *engine)
{
    return engine_has_log(engine) && (engine->log.held_count > 0 || has_to_wait(engine));
}

void engine_hold(struct space_engine *engine, uint8_t seat, const struct space_wire *wire)
{
    struct engine_log *log = &engine->log;

    if (log->held_count == LIMIT_SPACE_HELD) {
        engine_cut(engine, seat, NIGH_BUSY);
        return;
    }
    log->held[(log->held_first + log->held_count++) % LIMIT_SPACE_HELD] =
        (struct engine_held){.seat = seat, .wire = *wire};
}

/* Its link is down: nothing that it said counts. */
void engine_drop_held(struct space_engine *engine, uint8_t seat)
{
    struct engine_log *log = &engine->log;

    for (uint32_t n = 0; n < log->held_count; n++) {
        struct engine_held *held = &log->held[(log->held_first + n) % LIMIT_SPACE_HELD];

        if (held->seat == seat) {
            held->seat = SPACE_NOBODY;
        }
    }
}

void engine_take_held(struct space_engine *engine)
{
    struct engine_log *log = &engine->log;

    while (log->held_count > 0 && !has_to_wait(engine)) {
        struct engine_held held = log->held[log->held_first];

        log->held_first = (log->held_first + 1) % LIMIT_SPACE_HELD;
        log->held_count--;
        if (held.seat != SPACE_NOBODY && !engine->seats[held.seat].is_cut) {
            engine_dispatch(engine, held.seat, &held.wire);
        }
    }
}

/* ---- what is let go while there is no room -------------------------------- */

bool engine_defer_unlock(struct space_engine *engine, const struct space_op *op)
{
    struct engine_log *log = &engine->log;

    if (engine_log_has_room(engine)) {
        return false;
    }
    NIGH_ASSERT(log->unlocks_count < LIMIT_SPACE_PLACES); /* no more are held */
    log->unlocks[(log->unlocks_first + log->unlocks_count++) % LIMIT_SPACE_PLACES] =
        (struct engine_unlock){op->address, op->holds};
    return true;
}

void engine_unlock_deferred(struct space_engine *engine)
{
    struct engine_log *log = &engine->log;

    while (log->unlocks_count > 0 && engine_log_has_room(engine)) {
        struct engine_unlock unlock = log->unlocks[log->unlocks_first];
        struct space_op op = {.kind = SPACE_OP_UNLOCK,
                              .holds = unlock.holds,
                              .address = unlock.address,
                              .deadline_us = UINT64_MAX};
        bool has_ended;

        log->unlocks_first = (log->unlocks_first + 1) % LIMIT_SPACE_PLACES;
        log->unlocks_count--;
        has_ended = space_engine_begin(engine, &op, engine->now_us);
        NIGH_ASSERT(has_ended);
    }
}
