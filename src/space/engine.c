/* SPDX-License-Identifier: Apache-2.0 */
/* See engine.h: making one, and what comes from the node. */
#include "space/engine_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- making one ----------------------------------------------------------- */

static bool is_log_valid(const struct space_engine_config *config)
{
    const struct space_log *log = config->log;

    if (log == NULL) {
        return config->recovered == NULL && !config->is_sync;
    }
    return log->file_bytes >= UINT64_C(4) * engine_log_step(config->home.shift) &&
           log->geometry.rank == config->self &&
           log->geometry.block_bytes == UINT64_C(1) << config->home.shift &&
           log->geometry.blocks == config->home.count &&
           log->geometry.frames == config->cache.count * SPACE_WAYS && config->shell.log != NULL &&
           config->shell.failed != NULL &&
           (config->home.first & ((UINT64_C(1) << SPACE_SEAT_SHIFT) - 1)) != 0;
}

static bool is_config_valid(const struct space_engine_config *config)
{
    const struct space_view *home = &config->home, *cache = &config->cache;

    return config->self < SPACE_SEATS && config->life != 0 && config->shell.send != NULL &&
           config->shell.cut != NULL && home->words != NULL && cache->sets != NULL &&
           home->mask == cache->mask && space_address_seat(home->first) == config->self &&
           (home->first & ((UINT64_C(1) << space_place_bits(home->span)) - 1)) == 0 &&
           home->count <= LIMIT_SPACE_BLOCKS && config->opening <= LIMIT_SPACE_OPENING &&
           is_log_valid(config) && home->span <= UINT64_C(1) << SPACE_SEAT_SHIFT;
}

static void free_all(struct space_engine *engine)
{
    space_allocator_fini(&engine->allocator);
    space_frames_fini(&engine->frames);
    free(engine->entries);
    free(engine->lives);
    free(engine->before);
    free(engine->work_of);
    free(engine->works);
    free(engine->works_free);
    free(engine->atomics);
    free(engine->atomic_heads);
    free(engine->steps);
    free(engine->lines);
    free(engine->places_in);
    free(engine->places);
    free(engine->place_heads);
    free(engine->timer_heap);
    free(engine->letters);
    free(engine->tries);
    free(engine->asked);
    free(engine->log.blocks);
    free(engine->log.frames);
    free(engine->log.home);
    free(engine->log.copies);
    free(engine->log.waits);
    free(engine->log.held);
    free(engine->log.unlocks);
    free(engine);
}

/* Tables of what may be: most of it is never touched. */
static bool take_memory(struct space_engine *engine)
{
    uint64_t blocks = engine->config.home.count;

    engine->entries = calloc(blocks, sizeof(*engine->entries));
    engine->lives = calloc(blocks, sizeof(*engine->lives));
    engine->before = calloc(blocks, sizeof(*engine->before));
    engine->work_of = calloc(blocks, sizeof(*engine->work_of));
    engine->works = calloc(blocks, sizeof(*engine->works));
    engine->works_free = calloc(blocks, sizeof(*engine->works_free));
    engine->atomics = calloc(LIMIT_SPACE_PLACES, sizeof(*engine->atomics));
    engine->atomic_heads = calloc(LIMIT_SPACE_PLACES, sizeof(*engine->atomic_heads));
    engine->steps = calloc(LIMIT_SPACE_STEPS, sizeof(*engine->steps));
    engine->lines = calloc(space_frames_count(&engine->frames), sizeof(*engine->lines));
    engine->places_in = calloc(space_frames_count(&engine->frames), sizeof(*engine->places_in));
    engine->places = calloc(LIMIT_SPACE_PLACES, sizeof(*engine->places));
    engine->place_heads = calloc(LIMIT_SPACE_PLACES, sizeof(*engine->place_heads));
    engine->timer_heap = calloc(LIMIT_SPACE_PLACES, sizeof(struct timer *));
    engine->letters = calloc(engine->config.letters, sizeof(*engine->letters));
    engine->tries = calloc(LIMIT_SPACE_TRIES, sizeof(*engine->tries));
    engine->asked = calloc(ENGINE_ASKED, sizeof(*engine->asked));
    return engine->entries != NULL && engine->lives != NULL && engine->before != NULL &&
           engine->work_of != NULL && engine->works != NULL && engine->works_free != NULL &&
           engine->atomics != NULL && engine->atomic_heads != NULL && engine->steps != NULL &&
           engine->lines != NULL && engine->places_in != NULL && engine->places != NULL &&
           engine->place_heads != NULL && engine->timer_heap != NULL && engine->letters != NULL &&
           engine->tries != NULL && engine->asked != NULL;
}

static bool take_log_memory(struct space_engine *engine)
{
    struct engine_log *log = &engine->log;
    uint64_t blocks = engine->config.home.count, frames = space_frames_count(&engine->frames);

    log->log = engine->config.log;
    log->is_sync = engine->config.is_sync;
    if (log->log == NULL) {
        return true;
    }
    log->blocks = calloc(blocks, sizeof(*log->blocks));
    log->home = calloc(blocks, sizeof(*log->home));
    log->frames = calloc(frames, sizeof(*log->frames));
    log->copies = calloc(frames, sizeof(*log->copies));
    log->waits = calloc(LIMIT_SPACE_LOG_WAITS, sizeof(*log->waits));
    log->held = calloc(LIMIT_SPACE_HELD, sizeof(*log->held));
    log->unlocks = calloc(LIMIT_SPACE_PLACES, sizeof(*log->unlocks));
    return log->blocks != NULL && log->home != NULL && log->frames != NULL && log->copies != NULL &&
           log->waits != NULL && log->held != NULL && log->unlocks != NULL;
}

static void init_tables(struct space_engine *engine)
{
    engine->term.home.self = engine->config.self;
    engine->term.home.since = engine->since;
    for (uint64_t n = 0; n < engine->config.home.count; n++) {
        engine->entries[n].state = SPACE_HOME_LOST;
        engine->lives[n] = engine->life;
    }
    engine->stats.lost = engine->config.home.count;
    for (uint8_t seat = 0; seat < SPACE_SEATS; seat++) {
        engine->seats[seat].member.cache =
            (struct space_cache){.self = engine->config.self, .home = seat};
    }
    list_init(&engine->starving);
    list_init(&engine->far);
    list_init(&engine->asked_due);
    for (uint32_t n = 0; n < LIMIT_SPACE_TRIES; n++) {
        list_init(&engine->tries[n].waits);
    }
    timers_init(&engine->timers, engine->timer_heap, LIMIT_SPACE_PLACES);
}

nigh_status space_engine_create(const struct space_engine_config *config, struct space_engine **out)
{
    struct space_engine *engine;
    nigh_status status;

    if (!is_config_valid(config)) {
        return NIGH_INVALID;
    }
    engine = calloc(1, sizeof(*engine));
    if (engine == NULL) {
        return NIGH_OUT_OF_MEMORY;
    }
    engine->config = *config;
    engine->config.asks = config->asks == 0 ? LIMIT_SPACE_ASKS : config->asks;
    engine->config.letters = config->letters == 0 ? LIMIT_SPACE_LETTERS : config->letters;
    engine->config.opening = config->opening == 0 ? LIMIT_SPACE_OPENING : config->opening;
    status = space_frames_init(&engine->frames, &config->cache);
    if (status == NIGH_OK) {
        status = space_allocator_init(&engine->allocator, config->home.count);
    }
    if (status != NIGH_OK || !take_memory(engine) || !take_log_memory(engine)) {
        free_all(engine);
        return NIGH_OUT_OF_MEMORY;
    }
    engine->place_bits = space_place_bits(config->home.span);
    engine->life = engine_life(engine, config->home.first);
    init_tables(engine);
    status = config->recovered == NULL ? NIGH_OK : engine_recover(engine, config->recovered);
    if (status != NIGH_OK) {
        free_all(engine);
        return status;
    }
    *out = engine;
    return NIGH_OK;
}

/* Nobody reads anything here any more. */
static void hide_all(struct space_engine *engine)
{
    for (uint64_t n = 0; n < engine->config.home.count; n++) {
        (void)engine_show(&engine->config.home.words[n], false);
    }
    for (uint32_t frame = 0; frame < space_frames_count(&engine->frames); frame++) {
        (void)engine_show(space_frames_word(&engine->frames, frame), false);
    }
    space_view_fence();
}

void space_engine_pause(struct space_engine *engine, bool is_paused, uint64_t now_us)
{
    engine->now_us = now_us;
    if (engine->has_ended || engine->is_paused == is_paused) {
        return;
    }
    engine->is_paused = is_paused;
    if (is_paused) {
        hide_all(engine);
    } else {
        engine_show_home(engine);
        engine_show_cache(engine);
        engine->is_hungry = true;
    }
    engine_wake(engine);
}

void space_engine_end(struct space_engine *engine, nigh_status status)
{
    engine->has_ended = true;
    engine_end_of_seats(engine, UINT64_MAX, status);
    engine_end_jobs(engine, status);
    hide_all(engine);
}

void space_engine_destroy(struct space_engine *engine)
{
    if (engine != NULL) {
        NIGH_ASSERT(!engine->log.has_job);
        free_all(engine);
    }
}

/* ---- peers ---------------------------------------------------------------- */

bool engine_is_address(const struct space_engine *engine, uint64_t address)
{
    uint64_t seat = space_address_seat(address);
    uint64_t offset = address & ((UINT64_C(1) << engine->place_bits) - 1);

    return seat < SPACE_SEATS && offset < engine->config.home.span &&
           (seat != 0 || offset > engine->config.home.mask) &&
           (address & ((UINT64_C(1) << SPACE_SEAT_SHIFT) - 1)) >> engine->place_bits <= UINT32_MAX;
}

void engine_wake(struct space_engine *engine)
{
    if (engine->config.shell.wake != NULL) {
        engine->config.shell.wake(engine->config.shell.context);
    }
}

bool engine_want(struct space_engine *engine, uint64_t block)
{
    const struct space_shell *shell = &engine->config.shell;

    return shell->wanted != NULL && shell->wanted(shell->context, block);
}

void engine_cut(struct space_engine *engine, uint8_t number, nigh_status why)
{
    struct engine_seat *seat = &engine->seats[number];

    if (seat->is_up && !seat->is_cut) {
        seat->is_cut = true;
        engine->config.shell.cut(engine->config.shell.context, number, why);
    }
}

void engine_refuse(struct space_engine *engine, uint8_t seat)
{
    engine->stats.refused++;
    engine_cut(engine, seat, NIGH_PROTOCOL);
}

/* ---- from the node -------------------------------------------------------- */

/* Nothing that they say can come any more: what was asked of their homes, or given up, takes no
 * place until they are there again, as they begin a term then. */
static void free_places(struct space_engine *engine, uint64_t seats)
{
    for (uint64_t left = seats & ~engine->up; left != 0; left &= left - 1) {
        engine_tell_places(engine, space_set_first(left), SPACE_CACHE_ADOPT);
    }
}

void space_engine_members(struct space_engine *engine, uint64_t seats, uint64_t now_us)
{
    uint64_t gone = engine->has_members ? engine->members & ~seats : ~seats;
    uint64_t self = space_bit(engine->config.self);

    engine->now_us = now_us;
    if (engine->has_ended || (engine->has_members && engine->members == seats)) {
        return;
    }
    engine->has_members = true;
    engine->members = seats;
    engine->is_hungry = true; /* who is gone leaves frames */
    engine_end_of_seats(engine, gone & ~self, NIGH_PEER_LOST);
    engine_want_of_seats(engine, gone);
    if ((seats & self) == 0) {
        space_engine_end(engine, NIGH_NO_QUORUM);
        return;
    }
    free_places(engine, gone);
    engine->needs_term = true;
    engine_wake(engine);
}

void space_engine_up(struct space_engine *engine, uint8_t seat, uint64_t now_us)
{
    engine->now_us = now_us;
    engine_seat_up(engine, seat);
    engine_wake(engine);
}

void space_engine_down(struct space_engine *engine, uint8_t seat, uint64_t now_us)
{
    engine->now_us = now_us;
    engine_seat_down(engine, seat);
    if (engine->has_members && !space_set_has(engine->members, seat)) {
        free_places(engine, space_bit(seat));
    }
    engine_wake(engine);
}

void engine_dispatch(struct space_engine *engine, uint8_t seat, const struct space_wire *wire)
{
    if (wire->kind <= SPACE_WIRE_TERM) {
        engine_seat_message(engine, seat, wire);
    } else if (!engine->seats[seat].is_met) {
        engine_refuse(engine, seat);
    } else if (wire->kind == SPACE_WIRE_TO_HOME) {
        engine_home_message(engine, seat, wire);
    } else if (wire->kind == SPACE_WIRE_TO_CACHE) {
        engine_cache_message(engine, seat, wire);
    } else if (wire->kind == SPACE_WIRE_ANSWER) {
        engine_job_answer(engine, seat, wire);
    } else if (wire->kind == SPACE_WIRE_IS_HELD || wire->kind == SPACE_WIRE_HELD) {
        engine_try_message(engine, seat, wire);
    } else {
        engine_job_message(engine, seat, wire);
    }
}

void space_engine_message(struct space_engine *engine, uint8_t seat, const void *bytes,
                          uint32_t count, uint64_t now_us)
{
    struct space_wire wire;

    engine->now_us = now_us;
    if (engine->has_ended || seat >= SPACE_SEATS || !engine->seats[seat].is_up ||
        engine->seats[seat].is_cut) {
        return;
    }
    if (count != sizeof(wire)) {
        engine_refuse(engine, seat);
        return;
    }
    memcpy(&wire, bytes, sizeof(wire));
    if (space_wire_check(&wire) != NIGH_OK) {
        engine_refuse(engine, seat);
        return;
    }
    if (wire.space != engine->config.space || wire.birth != engine->config.birth) {
        engine->stats.stale++;
        return;
    }
    if (engine_must_hold(engine)) {
        engine_hold(engine, seat, &wire);
    } else {
        engine_dispatch(engine, seat, &wire);
    }
    engine_wake(engine);
}

void space_engine_sent(struct space_engine *engine, uint32_t cookie, uint64_t now_us)
{
    engine->now_us = now_us;
    NIGH_ASSERT(cookie < SPACE_SEATS && engine->seats[cookie].member.writes > 0);
    if (--engine->seats[cookie].member.writes == 0) {
        /* Of a home that is gone: what they read may be dropped. */
        engine->is_hungry |= !space_set_has(engine->members, (uint8_t)cookie);
        engine_wake(engine);
    }
}

void space_engine_room(struct space_engine *engine, uint8_t seat, uint64_t now_us)
{
    engine->now_us = now_us;
    engine_say_waiting(engine, seat);
}

/* What its log says of blocks it may since have passed on: so it leaves the space. */
static bool is_log_good(struct space_engine *engine)
{
    if (engine->log.status == NIGH_OK) {
        return true;
    }
    for (uint64_t left = engine->up; left != 0; left &= left - 1) {
        engine_drop_letters(engine, space_set_first(left));
    }
    space_engine_end(engine, engine_log_told(engine));
    engine->config.shell.failed(engine->config.shell.context, engine->log.status);
    return false;
}

bool space_engine_turn(struct space_engine *engine, uint64_t now_us)
{
    bool more = false;

    engine->now_us = now_us;
    if (engine->has_ended || !is_log_good(engine)) {
        return false;
    }
    engine_take_held(engine);
    engine_unlock_deferred(engine);
    for (uint64_t left = engine->up; left != 0; left &= left - 1) {
        uint8_t seat = space_set_first(left);

        engine_say_waiting(engine, seat);
        more |= engine->seats[seat].member.cache.term != 0 && engine_adopt_more(engine, seat);
    }
    if (engine->needs_term && engine->has_members) {
        engine_begin_term(engine);
    }
    if (engine->is_opening) {
        engine_try_open(engine);
    }
    engine_expire(engine);
    more |= engine_jobs_turn(engine);
    engine_feed(engine);
    engine_look_at_asked(engine);
    more |= engine_log_turn(engine);
    return more || engine->is_hungry;
}

uint64_t space_engine_deadline(const struct space_engine *engine)
{
    return timers_first_deadline(&engine->timers);
}

void space_engine_hint(struct space_engine *engine, uint32_t frame)
{
    space_frames_touch(&engine->frames, frame);
}

/* ---- looked at ------------------------------------------------------------ */

void space_engine_stats(const struct space_engine *engine, struct space_engine_stats *stats)
{
    *stats = engine->stats;
    stats->frames = space_frames_count(&engine->frames);
    stats->frames_used = engine->frames.used;
    stats->home_blocks = engine->config.home.count;
    /* The first block of all is nobody's, as no address is 0. */
    stats->home_used =
        engine->allocator.used - (engine->config.self == 0 && engine->allocator.used != 0);
}

bool space_engine_may_fetch(const struct space_engine *engine)
{
    return engine->timers.count < engine->timers.capacity / 2;
}

bool space_engine_is_open(const struct space_engine *engine)
{
    return engine->term.is_open && !engine->needs_term;
}

uint32_t space_engine_block_bytes(const struct space_engine *engine)
{
    return 1u << engine->config.home.shift;
}

/* ---- valid ---------------------------------------------------------------- */

static bool is_block_fresh(const struct space_engine *engine, uint64_t number)
{
    return engine_has_log(engine) && engine_is_fresh(engine, &engine->log.blocks[number]);
}

static bool is_frame_fresh(const struct space_engine *engine, uint32_t frame)
{
    return engine_has_log(engine) && engine_is_fresh(engine, &engine->log.frames[frame]);
}

static bool are_blocks_valid(const struct space_engine *engine)
{
    struct space_work nothing;
    uint32_t works = 0;
    uint64_t lost = 0;

    memset(&nothing, 0, sizeof(nothing));
    for (uint64_t n = 0; n < engine->config.home.count; n++) {
        const struct space_entry *entry = &engine->entries[n];
        uint32_t work = engine->work_of[n];
        bool may_show = engine->has_begun &&
                        (space_entry_is_readable(entry) || entry->state == SPACE_HOME_REBUILDING);

        works += work != 0;
        lost += entry->state == SPACE_HOME_LOST;
        if (!space_entry_is_valid(&engine->term.home, entry,
                                  work != 0 ? &engine->works[work - 1] : &nothing) ||
            space_word_is_shown(&engine->config.home.words[n]) !=
                (may_show && entry->holds != SPACE_HELD_ALONE && !is_block_fresh(engine, n))) {
            return false;
        }
    }
    return works == engine->works_new - engine->works_left && lost == engine->stats.lost;
}

static bool are_lines_valid(const struct space_engine *engine)
{
    uint32_t asks[SPACE_SEATS] = {0};

    for (uint32_t frame = 0; frame < space_frames_count(&engine->frames); frame++) {
        const struct space_line *line = &engine->lines[frame];
        uint64_t block = space_frames_block(&engine->frames, frame);
        bool may_show = space_line_is_readable(line) && line->holds != SPACE_HELD_ALONE &&
                        !is_frame_fresh(engine, frame);

        if (!space_line_is_valid(line) || space_line_has_frame(line) != (block != 0) ||
            space_word_is_shown(space_frames_word(&engine->frames, frame)) != may_show) {
            return false;
        }
        asks[block == 0 ? engine->config.self : space_address_seat(block)] +=
            line->state == SPACE_CACHE_TO_SHARED || line->state == SPACE_CACHE_TO_DIRTY ||
            line->state == SPACE_CACHE_UPGRADING;
    }
    for (uint32_t n = 0; n < engine->places_new; n++) {
        const struct space_spot *place = &engine->places[n];

        if (place->address != 0) {
            asks[space_address_seat(place->address)] += place->line.state == SPACE_CACHE_AT_HOME ||
                                                        place->line.state == SPACE_CACHE_FRAMELESS;
        }
        if (place->address != 0 && (place->is_busy || (list_empty(&place->ops) &&
                                                       place->line.state == SPACE_CACHE_INVALID))) {
            return false;
        }
    }
    for (uint8_t seat = 0; seat < SPACE_SEATS; seat++) {
        if (engine->seats[seat].asks != asks[seat] || asks[seat] > engine->config.asks) {
            return false;
        }
    }
    return true;
}

/* Of what is given each block knows its place: once it is known what was. */
static bool are_places_valid(const struct space_engine *engine)
{
    uint64_t count = engine_remembers(engine) ? engine->config.home.count : 0;

    for (uint64_t first = 0; first < count; first++) {
        uint64_t length = space_allocator_length(&engine->allocator, first);

        for (uint64_t n = 0; n < length; n++) {
            if (engine->before[first + n] != n) {
                return false;
            }
        }
    }
    return true;
}

bool space_engine_is_valid(const struct space_engine *engine)
{
    return engine->has_ended ||
           (are_blocks_valid(engine) && are_places_valid(engine) && are_lines_valid(engine) &&
            space_frames_is_valid(&engine->frames) && timers_is_valid(&engine->timers) &&
            engine_tries_are_valid(engine) && engine_jobs_are_valid(engine) &&
            space_allocator_is_valid(&engine->allocator));
}
