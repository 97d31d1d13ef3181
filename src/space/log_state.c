/* SPDX-License-Identifier: Apache-2.0 */
/* See log_state.h. */
#include "space/log_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define BLOCK_BYTES_MIN 64u

/* ---- memory --------------------------------------------------------------- */

static bool is_geometry(const struct space_log_geometry *geometry)
{
    return is_pow2(geometry->block_bytes) && geometry->block_bytes >= BLOCK_BYTES_MIN &&
           geometry->block_bytes <= LIMIT_SPACE_BLOCK_BYTES && geometry->frames <= UINT32_MAX / 2 &&
           (uint64_t)geometry->blocks * geometry->block_bytes <= UINT64_C(1)
                                                                     << SPACE_LOG_RANK_SHIFT;
}

static nigh_status init_copies(struct space_log_state *state, uint64_t seed)
{
    uint32_t places = 2 * state->geometry.frames;
    nigh_status status = table_init(&state->index, places, seed);

    if (status != NIGH_OK) {
        return status;
    }
    state->copies = calloc(places, sizeof(*state->copies));
    state->copies_bytes = calloc(places, state->geometry.block_bytes);
    state->free_places = calloc(places, sizeof(*state->free_places));
    if (state->copies == NULL || state->copies_bytes == NULL || state->free_places == NULL) {
        return NIGH_NO_RESOURCES;
    }
    for (uint32_t n = 0; n < places; n++) {
        state->free_places[n] = n;
    }
    state->free_count = places;
    return NIGH_OK;
}

nigh_status space_log_state_init(struct space_log_state *state,
                                 const struct space_log_geometry *geometry, uint8_t *home,
                                 uint64_t seed)
{
    nigh_status status = NIGH_OK;

    memset(state, 0, sizeof(*state));
    if (!is_geometry(geometry)) {
        return NIGH_INVALID;
    }
    state->geometry = *geometry;
    state->home = home;
    if (geometry->blocks > 0) {
        state->blocks = calloc(geometry->blocks, sizeof(*state->blocks));
        status = state->blocks == NULL ? NIGH_NO_RESOURCES : NIGH_OK;
    }
    if (status == NIGH_OK && geometry->frames > 0) {
        status = init_copies(state, seed);
    }
    if (status != NIGH_OK) {
        space_log_state_fini(state);
    }
    return status;
}

void space_log_state_fini(struct space_log_state *state)
{
    table_fini(&state->index);
    free(state->blocks);
    free(state->copies);
    free(state->copies_bytes);
    free(state->free_places);
    memset(state, 0, sizeof(*state));
}

/* ---- the own home memory -------------------------------------------------- */

uint32_t space_log_place_bits(const struct space_log_geometry *geometry)
{
    uint64_t span = (uint64_t)geometry->blocks * geometry->block_bytes;

    return span <= 1 ? 0 : 64u - (uint32_t)__builtin_clzll(span - 1);
}

/* The block's number, and the life that its address is of; false: it is none of the home's. */
static bool find_block(const struct space_log_state *state, uint64_t address, uint32_t *block,
                       uint32_t *life)
{
    uint32_t bits = space_log_place_bits(&state->geometry);
    uint64_t rest = address & ((UINT64_C(1) << SPACE_LOG_RANK_SHIFT) - 1);
    uint64_t offset = rest & ((UINT64_C(1) << bits) - 1);
    uint64_t number = offset / state->geometry.block_bytes;

    if (address >> SPACE_LOG_RANK_SHIFT != state->geometry.rank ||
        offset % state->geometry.block_bytes != 0 || number >= state->geometry.blocks ||
        rest >> bits > UINT32_MAX) {
        return false;
    }
    *block = (uint32_t)number;
    *life = (uint32_t)(rest >> bits);
    return true;
}

void space_log_note(struct space_log_block *block, const struct space_log_record *record,
                    uint32_t life)
{
    static const uint8_t states[SPACE_LOG_KINDS] = {
        [SPACE_LOG_ALLOC] = SPACE_LOG_IS_HERE, [SPACE_LOG_FREE] = SPACE_LOG_IS_FREE,
        [SPACE_LOG_BACK] = SPACE_LOG_IS_HERE,  [SPACE_LOG_OWNED] = SPACE_LOG_IS_OWNED,
        [SPACE_LOG_LOST] = SPACE_LOG_IS_LOST,
    };
    uint32_t run = record->blocks != 0 ? record->blocks : block->run;

    block->life = life;
    if (record->kind == SPACE_LOG_WRITE) {
        return;
    }
    *block = (struct space_log_block){.life = life, .state = states[record->kind]};
    if (record->kind != SPACE_LOG_ALLOC && record->kind != SPACE_LOG_FREE) {
        block->run = run;
    }
    if (record->kind == SPACE_LOG_OWNED) {
        block->owner = record->seat;
        block->is_ours = record->is_ours;
        block->epoch = record->epoch;
    }
}

static uint8_t *home_bytes(const struct space_log_state *state, uint32_t block)
{
    return state->home + (size_t)block * state->geometry.block_bytes;
}

static nigh_status apply_range(struct space_log_state *state, const struct space_log_record *record,
                               uint32_t first, uint32_t life, bool is_past)
{
    bool is_alloc = record->kind == SPACE_LOG_ALLOC;

    if (record->blocks == 0 || record->blocks > state->geometry.blocks - first ||
        record->offset > (is_alloc ? first : 0)) {
        return NIGH_CORRUPT;
    }
    for (uint32_t n = first; n < first + record->blocks; n++) {
        struct space_log_block *block = &state->blocks[n];

        if (!is_past && (block->state == SPACE_LOG_IS_FREE) != is_alloc) {
            return NIGH_CORRUPT;
        }
        space_log_note(block, record, life);
        if (is_alloc) {
            memset(home_bytes(state, n), 0, state->geometry.block_bytes);
        }
    }
    if (is_alloc) {
        state->blocks[first - record->offset].run = record->offset + record->blocks;
    }
    return NIGH_OK;
}

/* Whether a record's bytes are of one block: all of it, or some. */
static bool is_inside(const struct space_log_state *state, const struct space_log_record *record,
                      bool is_whole)
{
    uint32_t block_bytes = state->geometry.block_bytes;

    return is_whole
               ? record->offset == 0 && record->length == block_bytes
               : record->offset < block_bytes && record->length <= block_bytes - record->offset;
}

static nigh_status apply_home(struct space_log_state *state, const struct space_log_record *record,
                              bool is_past)
{
    struct space_log_block *block;
    uint32_t number, life;

    if (!find_block(state, record->address, &number, &life)) {
        return NIGH_CORRUPT;
    }
    if (record->kind == SPACE_LOG_ALLOC || record->kind == SPACE_LOG_FREE) {
        return apply_range(state, record, number, life, is_past);
    }
    block = &state->blocks[number];
    if (record->blocks > state->geometry.blocks - number ||
        (!is_past && (block->state == SPACE_LOG_IS_FREE ||
                      (record->kind == SPACE_LOG_WRITE && block->state != SPACE_LOG_IS_HERE)))) {
        return NIGH_CORRUPT;
    }
    if (record->kind == SPACE_LOG_WRITE || record->kind == SPACE_LOG_BACK) {
        if (!is_inside(state, record, record->kind == SPACE_LOG_BACK)) {
            return NIGH_CORRUPT;
        }
        memcpy(home_bytes(state, number) + record->offset, record->bytes, record->length);
    } else if (record->kind == SPACE_LOG_OWNED && record->seat >= SPACE_SEATS) {
        return NIGH_CORRUPT;
    }
    space_log_note(block, record, life);
    return NIGH_OK;
}

/* ---- others' blocks ------------------------------------------------------- */

static uint8_t *copy_bytes(const struct space_log_state *state, uint64_t place)
{
    return state->copies_bytes + (size_t)place * state->geometry.block_bytes;
}

/* Its place, a new one where there is none. */
static nigh_status have_copy(struct space_log_state *state, uint64_t address, uint64_t *place)
{
    uint64_t *found;

    if (state->geometry.frames == 0) {
        return NIGH_CORRUPT;
    }
    found = table_find(&state->index, address);
    if (found != NULL) {
        *place = *found;
        return NIGH_OK;
    }
    if (state->free_count == 0) {
        return NIGH_CORRUPT;
    }
    *place = state->free_places[state->free_count - 1];
    if (table_insert(&state->index, address, *place) != NIGH_OK) {
        return NIGH_NO_RESOURCES;
    }
    state->free_count--;
    return NIGH_OK;
}

static nigh_status apply_whole(struct space_log_state *state, const struct space_log_record *record)
{
    uint64_t place;
    nigh_status status;

    if (!is_inside(state, record, true)) {
        return NIGH_CORRUPT;
    }
    status = have_copy(state, record->address, &place);
    if (status != NIGH_OK) {
        return status;
    }
    state->copies[place] = (struct space_log_copy){
        .address = record->address, .epoch = record->epoch, .handed_to = SPACE_NOBODY};
    memcpy(copy_bytes(state, place), record->bytes, record->length);
    return NIGH_OK;
}

static nigh_status apply_change(struct space_log_state *state,
                                const struct space_log_record *record, uint64_t place, bool is_past)
{
    struct space_log_copy *copy = &state->copies[place];

    if (!is_past && space_epoch_is_before(record->epoch, copy->epoch)) {
        return NIGH_CORRUPT;
    }
    switch (record->kind) {
    case SPACE_LOG_CHANGE:
        if (!is_inside(state, record, false) || (!is_past && copy->handed_to != SPACE_NOBODY)) {
            return NIGH_CORRUPT;
        }
        memcpy(copy_bytes(state, place) + record->offset, record->bytes, record->length);
        break;
    case SPACE_LOG_RENEWED: copy->handed_to = SPACE_NOBODY; break;
    default: /* HANDED */
        if (record->seat >= SPACE_SEATS) {
            return NIGH_CORRUPT;
        }
        copy->handed_to = record->seat;
        break;
    }
    copy->epoch = record->epoch;
    return NIGH_OK;
}

static nigh_status apply_copy(struct space_log_state *state, const struct space_log_record *record,
                              bool is_past)
{
    uint64_t place, *found;

    if (record->address >> SPACE_LOG_RANK_SHIFT == state->geometry.rank ||
        record->address % state->geometry.block_bytes != 0) {
        return NIGH_CORRUPT;
    }
    if (record->kind == SPACE_LOG_COPY) {
        return apply_whole(state, record);
    }
    found = state->geometry.frames == 0 ? NULL : table_find(&state->index, record->address);
    if (found == NULL) {
        /* That it is not needed any more may be said behind an image that was made without it. */
        return is_past || record->kind == SPACE_LOG_LEFT ? NIGH_OK : NIGH_CORRUPT;
    }
    if (record->kind != SPACE_LOG_LEFT) {
        return apply_change(state, record, *found, is_past);
    }
    place = *found;
    table_remove(&state->index, record->address, NULL);
    state->free_places[state->free_count++] = (uint32_t)place;
    return NIGH_OK;
}

/* ---- all ------------------------------------------------------------------ */

static nigh_status apply_member(struct space_log_state *state,
                                const struct space_log_record *record)
{
    if (record->seat >= SPACE_SEATS) {
        return NIGH_CORRUPT;
    }
    state->lives[record->seat] = record->address;
    state->since[record->seat] = record->epoch.term;
    state->members &= ~space_bit(record->seat);
    state->members |= (uint64_t)record->is_ours << record->seat;
    return NIGH_OK;
}

nigh_status space_log_apply(struct space_log_state *state, const struct space_log_record *record,
                            bool is_past)
{
    switch ((enum space_log_kind)record->kind) {
    case SPACE_LOG_TERM:
        /* Behind the last one no home can begin another. */
        if ((!is_past && record->epoch.term <= state->term) || record->epoch.term == UINT32_MAX) {
            return NIGH_CORRUPT;
        }
        state->term = max_u32(state->term, record->epoch.term);
        return NIGH_OK;
    case SPACE_LOG_ALLOC:
    case SPACE_LOG_FREE:
    case SPACE_LOG_WRITE:
    case SPACE_LOG_BACK:
    case SPACE_LOG_OWNED:
    case SPACE_LOG_LOST: return apply_home(state, record, is_past);
    case SPACE_LOG_COPY:
    case SPACE_LOG_CHANGE:
    case SPACE_LOG_RENEWED:
    case SPACE_LOG_HANDED:
    case SPACE_LOG_LEFT: return apply_copy(state, record, is_past);
    case SPACE_LOG_MEMBER: return apply_member(state, record);
    default: return NIGH_CORRUPT;
    }
}

const struct space_log_copy *space_log_find_copy(struct space_log_state *state, uint64_t address,
                                                 const uint8_t **bytes)
{
    uint64_t *place = state->geometry.frames == 0 ? NULL : table_find(&state->index, address);

    if (place == NULL) {
        return NULL;
    }
    *bytes = copy_bytes(state, *place);
    return &state->copies[*place];
}

const struct space_log_copy *space_log_next_copy(const struct space_log_state *state,
                                                 size_t *cursor, const uint8_t **bytes)
{
    uint64_t address, place;

    if (state->geometry.frames == 0 || !table_next(&state->index, cursor, &address, &place)) {
        return NULL;
    }
    *bytes = copy_bytes(state, place);
    return &state->copies[place];
}
