/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See engine.h: an engine that goes on from what its log had (docs/spaces.md, "A start"). As a home
 * it begins its next term with that; what it had of others' blocks it has as given up.
 */
#include "space/engine_internal.h"

/* ---- the home ------------------------------------------------------------- */

static void recover_owned(struct space_engine *engine, uint64_t number,
                          const struct space_log_block *block)
{
    uint32_t at = ++engine->works_new;

    engine->work_of[number] = at;
    engine->works[at - 1] = (struct space_work){
        .asker = SPACE_NOBODY,
        .owner = block->owner,
        .owned = block->epoch,
        .is_ours = block->is_ours,
        .leaver = SPACE_NOBODY,
    };
}

/* Never given, as far as the log has it. Of what was given, and freed, the last address is known.
 */
static bool is_new(const struct space_log_block *block)
{
    return block->state == SPACE_LOG_IS_FREE && block->life == 0;
}

static void recover_block(struct space_engine *engine, uint64_t number,
                          const struct space_log_block *block)
{
    static const uint8_t states[] = {
        [SPACE_LOG_IS_FREE] = SPACE_HOME_FREED,
        [SPACE_LOG_IS_HERE] = SPACE_HOME_UNSHARED,
        [SPACE_LOG_IS_OWNED] = SPACE_HOME_BARE,
        [SPACE_LOG_IS_LOST] = SPACE_HOME_LOST,
    };

    engine->entries[number].state = states[block->state];
    engine->lives[number] = is_new(block) ? engine->life : block->life;
    engine->stats.lost -= block->state != SPACE_LOG_IS_LOST;
    if (block->state == SPACE_LOG_IS_OWNED) {
        recover_owned(engine, number, block);
    }
}

/* What one malloc gave; or, from a block on that is of none, all that is of none. */
static uint64_t run_from(const struct space_engine *engine, const struct space_log_state *state,
                         uint64_t first)
{
    uint64_t left = engine->config.home.count - first, run = 1;
    uint64_t most = state->blocks[first].run == 0 ? left : min_u64(state->blocks[first].run, left);

    while (run < most && state->blocks[first + run].state != SPACE_LOG_IS_FREE &&
           state->blocks[first + run].run == 0) {
        run++;
    }
    return run;
}

/* What one malloc gave is freed as one. A free begins with its first block: what is of no malloc is
 * what one has left that did not come to its end. */
static void recover_runs(struct space_engine *engine, const struct space_log_state *state)
{
    uint64_t count = engine->config.home.count;

    for (uint64_t n = 0; n < count; n++) {
        const struct space_log_block *block = &state->blocks[n];
        uint64_t run;

        if (block->state == SPACE_LOG_IS_FREE) {
            space_allocator_leave(&engine->allocator, n);
            if (n != 0 || engine->config.self != 0) {
                space_allocator_give(&engine->allocator, n);
            }
            continue;
        }
        run = run_from(engine, state, n);
        space_allocator_join(&engine->allocator, n, run);
        for (uint64_t at = 0; at < run; at++) {
            engine->before[n + at] = (uint32_t)at;
        }
        if (block->run == 0) {
            engine->leftover_at = engine->leftover_end == 0 ? n : engine->leftover_at;
            engine->leftover_end = n + run;
        }
        n += run - 1;
    }
}

/* ---- others' blocks ------------------------------------------------------- */

static bool recover_copy(struct space_engine *engine, const struct space_log_copy *copy,
                         const uint8_t *bytes)
{
    uint64_t seat = space_address_seat(copy->address);
    uint32_t frame;

    if (!engine_is_address(engine, copy->address)) {
        return false;
    }
    frame = space_frames_take(&engine->frames, copy->address);
    if (frame == SPACE_NO_FRAME) {
        return false;
    }
    space_bytes_store(space_frames_bytes(&engine->frames, frame), 0, bytes,
                      1u << engine->config.home.shift);
    engine->lines[frame] = engine_line_of_copy(copy, frame);
    engine->log.copies[frame] = (struct engine_copy){.copy = *copy};
    /* Its home begins above all that it may have said of this. */
    engine->seats[seat].member.cache.term =
        max_u32(engine->seats[seat].member.cache.term, copy->epoch.term);
    return true;
}

/* ---- all ------------------------------------------------------------------ */

/* Its home was open once: before that there may be copies of an earlier life that the log knows
 * nothing of. */
static bool was_open(const struct space_log_state *state)
{
    return space_set_has(state->members, (uint8_t)state->geometry.rank);
}

static void recover_home(struct space_engine *engine, const struct space_log_state *state)
{
    engine->term.home.term = state->term;
    for (uint64_t n = 0; n < engine->config.home.count; n++) {
        engine->log.home[n] = state->blocks[n];
    }
    if (!was_open(state)) {
        return;
    }
    engine->is_recovered = true;
    engine->opened_members = state->members;
    for (uint64_t n = 0; n < engine->config.home.count; n++) {
        recover_block(engine, n, &state->blocks[n]);
    }
    recover_runs(engine, state);
}

/*
 * A term is durable before anybody is told of it. So who was a member when one was open that the
 * log has, and knows a later one than all of these, was told of it by this home when it had
 * another log: what this one has of blocks was written since, and was given to others. Once this
 * life has begun all of those are members of its own terms, and who says so lies.
 */
bool engine_is_log_old(const struct space_engine *engine, uint8_t seat, uint32_t known)
{
    return space_set_has(engine->log.members, seat) && known > engine->term.home.term;
}

bool engine_is_log_known(const struct space_engine *engine)
{
    uint64_t others = engine->log.members & ~space_bit(engine->config.self);

    /* Once one was begun here, it has. */
    return engine->term.home.members != 0 || (others & engine->members & ~engine->met) == 0;
}

nigh_status engine_recover(struct space_engine *engine, const struct space_log_state *state)
{
    const struct space_log_copy *copy;
    const uint8_t *bytes;
    size_t cursor = 0;

    if (state->home != (const uint8_t *)space_bytes_of(&engine->config.home, 0)) {
        return NIGH_INVALID;
    }
    if (state->lives[engine->config.self] != 0) {
        engine->config.life = state->lives[engine->config.self];
    }
    recover_home(engine, state);
    for (uint8_t seat = 0; seat < SPACE_SEATS; seat++) {
        engine->seats[seat].life = seat == engine->config.self ? 0 : state->lives[seat];
        engine->log.lives[seat] = state->lives[seat];
        engine->since[seat] = engine->log.since[seat] = state->since[seat];
    }
    engine->log.members = state->members;
    while ((copy = space_log_next_copy(state, &cursor, &bytes)) != NULL) {
        if (!recover_copy(engine, copy, bytes)) {
            return NIGH_INVALID;
        }
    }
    return NIGH_OK;
}
