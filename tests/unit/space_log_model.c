/* SPDX-License-Identifier: Apache-2.0 */
/* See space_log_model.h. */
#include "space_log_model.h"

#include <string.h>

#include "base/check.h"
#include "support/support.h"

const struct space_log_geometry model_geometry = {
    .rank = MODEL_RANK, .block_bytes = MODEL_BYTES, .blocks = MODEL_BLOCKS, .frames = MODEL_FRAMES};

uint64_t model_home_address(uint32_t block)
{
    return (uint64_t)MODEL_RANK << SPACE_LOG_RANK_SHIFT | (uint64_t)block * MODEL_BYTES;
}

uint64_t model_other_address(uint32_t other)
{
    return UINT64_C(9) << SPACE_LOG_RANK_SHIFT | (uint64_t)other * 3 * MODEL_BYTES;
}

/* ---- records -------------------------------------------------------------- */

static void give_bytes(struct model_record *record, struct random *random, bool is_whole)
{
    struct space_log_record *head = &record->record;

    head->offset = is_whole ? 0 : (uint32_t)random_below(random, MODEL_BYTES);
    head->length =
        is_whole ? MODEL_BYTES : 1 + (uint32_t)random_below(random, MODEL_BYTES - head->offset);
    random_fill(random, record->bytes, head->length);
}

static void choose_home(const struct model *model, struct random *random,
                        struct model_record *record)
{
    static const uint8_t kinds[] = {SPACE_LOG_WRITE, SPACE_LOG_WRITE, SPACE_LOG_BACK,
                                    SPACE_LOG_OWNED, SPACE_LOG_LOST,  SPACE_LOG_FREE};
    uint32_t block = (uint32_t)random_below(random, MODEL_BLOCKS);
    struct space_log_record *head = &record->record;

    head->address = model_home_address(block);
    if (model->blocks[block].state == SPACE_LOG_IS_FREE) {
        head->kind = SPACE_LOG_ALLOC;
        head->blocks = 1;
        while (block + head->blocks < MODEL_BLOCKS && head->blocks < 4 &&
               model->blocks[block + head->blocks].state == SPACE_LOG_IS_FREE) {
            head->blocks++;
        }
        return;
    }
    head->kind = kinds[random_below(random, sizeof(kinds))];
    if (head->kind == SPACE_LOG_WRITE && model->blocks[block].state != SPACE_LOG_IS_HERE) {
        head->kind = SPACE_LOG_BACK;
    }
    head->blocks = head->kind == SPACE_LOG_FREE ? 1 : 0;
    if (head->kind == SPACE_LOG_OWNED) {
        head->seat = (uint8_t)random_below(random, SPACE_SEATS);
        head->is_ours = model->blocks[block].state == SPACE_LOG_IS_HERE;
        head->epoch = (struct space_epoch){model->term, (uint32_t)random_below(random, 1000)};
    }
    if (space_log_kind_has_bytes(head->kind)) {
        give_bytes(record, random, head->kind == SPACE_LOG_BACK);
    }
}

/* Where it is; else a frame that is free; else none. */
static uint32_t find_frame(const struct model *model, uint32_t other)
{
    uint32_t free_frame = MODEL_FRAMES;

    for (uint32_t n = 0; n < MODEL_FRAMES; n++) {
        if (model->frames[n].is_here && model->frames[n].other == other) {
            return n;
        }
        free_frame = model->frames[n].is_here ? free_frame : n;
    }
    return free_frame;
}

static void choose_copy(const struct model *model, struct random *random,
                        struct model_record *record)
{
    static const uint8_t kinds[] = {SPACE_LOG_CHANGE, SPACE_LOG_CHANGE, SPACE_LOG_RENEWED,
                                    SPACE_LOG_HANDED, SPACE_LOG_COPY,   SPACE_LOG_LEFT};
    uint32_t other = (uint32_t)random_below(random, MODEL_OTHERS);
    uint32_t frame = find_frame(model, other);
    const struct model_copy *copy;
    struct space_log_record *head = &record->record;

    if (frame == MODEL_FRAMES) {
        frame = (uint32_t)random_below(random, MODEL_FRAMES);
        other = model->frames[frame].other;
    }
    copy = &model->frames[frame];
    head->kind = copy->is_here ? kinds[random_below(random, sizeof(kinds))] : SPACE_LOG_COPY;
    if (head->kind == SPACE_LOG_CHANGE && copy->handed_to != SPACE_NOBODY) {
        head->kind = SPACE_LOG_RENEWED;
    }
    head->address = model_other_address(other);
    head->epoch = (struct space_epoch){model->epochs[other], 0};
    if (head->kind == SPACE_LOG_RENEWED || head->kind == SPACE_LOG_COPY) {
        head->epoch.term++;
    }
    if (head->kind == SPACE_LOG_HANDED) {
        head->seat = (uint8_t)random_below(random, SPACE_SEATS);
    }
    if (space_log_kind_has_bytes(head->kind)) {
        give_bytes(record, random, head->kind == SPACE_LOG_COPY);
    }
}

void model_choose(const struct model *model, struct random *random, struct model_record *record)
{
    memset(record, 0, sizeof(*record));
    switch (random_below(random, 16)) {
    case 0:
        record->record.kind = SPACE_LOG_TERM;
        record->record.epoch.term = model->term + 1;
        break;
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
    case 6: choose_copy(model, random, record); break;
    default: choose_home(model, random, record); break;
    }
    record->record.bytes = record->record.length > 0 ? record->bytes : NULL;
}

/* ---- what they mean ------------------------------------------------------- */

static uint32_t block_of(uint64_t address)
{
    return (uint32_t)((address & ((UINT64_C(1) << SPACE_LOG_RANK_SHIFT) - 1)) / MODEL_BYTES);
}

static void apply_home(struct model *model, const struct model_record *record)
{
    const struct space_log_record *head = &record->record;
    uint32_t first = block_of(head->address);
    struct space_log_block *block = &model->blocks[first];

    switch (head->kind) {
    case SPACE_LOG_ALLOC:
    case SPACE_LOG_FREE:
        for (uint32_t n = first; n < first + head->blocks; n++) {
            memset(&model->blocks[n], 0, sizeof(model->blocks[n]));
            if (head->kind == SPACE_LOG_ALLOC) {
                model->blocks[n].state = SPACE_LOG_IS_HERE;
                memset(model->home[n], 0, MODEL_BYTES);
            }
        }
        break;
    case SPACE_LOG_BACK:
        memset(block, 0, sizeof(*block));
        block->state = SPACE_LOG_IS_HERE;
        memcpy(model->home[first], record->bytes, MODEL_BYTES);
        break;
    case SPACE_LOG_WRITE:
        memcpy(model->home[first] + head->offset, record->bytes, head->length);
        break;
    case SPACE_LOG_OWNED:
        *block = (struct space_log_block){.state = SPACE_LOG_IS_OWNED,
                                          .owner = head->seat,
                                          .is_ours = head->is_ours,
                                          .epoch = head->epoch};
        break;
    default: *block = (struct space_log_block){.state = SPACE_LOG_IS_LOST}; break;
    }
}

static void apply_copy(struct model *model, const struct model_record *record)
{
    const struct space_log_record *head = &record->record;
    uint32_t other = block_of(head->address) / 3;
    struct model_copy *copy = &model->frames[find_frame(model, other)];

    if (head->kind == SPACE_LOG_LEFT) {
        copy->is_here = false;
        return;
    }
    model->epochs[other] = head->epoch.term;
    switch (head->kind) {
    case SPACE_LOG_COPY:
        copy->is_here = true;
        copy->other = (uint8_t)other;
        copy->handed_to = SPACE_NOBODY;
        memcpy(copy->bytes, record->bytes, MODEL_BYTES);
        break;
    case SPACE_LOG_CHANGE: memcpy(copy->bytes + head->offset, record->bytes, head->length); break;
    case SPACE_LOG_RENEWED: copy->handed_to = SPACE_NOBODY; break;
    default: copy->handed_to = head->seat; break;
    }
    copy->epoch = head->epoch;
}

void model_apply(struct model *model, const struct model_record *record)
{
    uint8_t kind = record->record.kind;

    if (kind == SPACE_LOG_TERM) {
        model->term = record->record.epoch.term;
    } else if (kind >= SPACE_LOG_COPY) {
        apply_copy(model, record);
    } else {
        apply_home(model, record);
    }
}

/* ---- images --------------------------------------------------------------- */

static void put_block(const struct model *model, uint32_t block, bool is_second,
                      struct model_record *record)
{
    const struct space_log_block *from = &model->blocks[block];
    struct space_log_record *head = &record->record;

    head->address = model_home_address(block);
    if (!is_second && (from->state == SPACE_LOG_IS_HERE ||
                       (from->state == SPACE_LOG_IS_OWNED && from->is_ours))) {
        head->kind = SPACE_LOG_BACK;
        head->length = MODEL_BYTES;
        memcpy(record->bytes, model->home[block], MODEL_BYTES);
    } else if (is_second && from->state == SPACE_LOG_IS_OWNED) {
        head->kind = SPACE_LOG_OWNED;
        head->seat = from->owner;
        head->is_ours = from->is_ours;
        head->epoch = from->epoch;
    } else if (is_second && from->state == SPACE_LOG_IS_LOST) {
        head->kind = SPACE_LOG_LOST;
    }
}

static void put_copy(const struct model *model, uint32_t frame, bool is_second,
                     struct model_record *record)
{
    const struct model_copy *from = &model->frames[frame];
    struct space_log_record *head = &record->record;

    if (!from->is_here || (is_second && from->handed_to == SPACE_NOBODY)) {
        return;
    }
    head->kind = is_second ? SPACE_LOG_HANDED : SPACE_LOG_COPY;
    head->seat = is_second ? from->handed_to : 0;
    head->address = model_other_address(from->other);
    head->epoch = from->epoch;
    if (!is_second) {
        head->length = MODEL_BYTES;
        memcpy(record->bytes, from->bytes, MODEL_BYTES);
    }
}

/* What changes between two records of a block is in the log, too. */
bool model_next_of_image(const struct model *model, uint32_t *at, struct model_record *record)
{
    uint32_t place = (*at)++;

    memset(record, 0, sizeof(*record));
    if (place == 0) {
        record->record.kind = SPACE_LOG_TERM;
        record->record.epoch.term = model->term;
    } else if (--place < 2 * MODEL_BLOCKS) {
        put_block(model, place / 2, place % 2 != 0, record);
    } else if ((place -= 2 * MODEL_BLOCKS) < 2 * MODEL_FRAMES) {
        put_copy(model, place / 2, place % 2 != 0, record);
    } else {
        return false;
    }
    record->record.bytes = record->record.length > 0 ? record->bytes : NULL;
    return true;
}

/* ---- compared ------------------------------------------------------------- */

static bool is_block_equal(const struct model *model, const struct space_log_state *state,
                           uint32_t n)
{
    const struct space_log_block *a = &model->blocks[n], *b = &state->blocks[n];
    bool has_bytes =
        a->state == SPACE_LOG_IS_HERE || (a->state == SPACE_LOG_IS_OWNED && a->is_ours);

    return a->state == b->state && a->owner == b->owner && a->is_ours == b->is_ours &&
           space_epoch_equal(a->epoch, b->epoch) &&
           (!has_bytes ||
            memcmp(model->home[n], state->home + (size_t)n * MODEL_BYTES, MODEL_BYTES) == 0);
}

static bool is_copy_equal(const struct model *model, struct space_log_state *state, uint32_t n)
{
    uint32_t frame = find_frame(model, n);
    bool is_here = frame < MODEL_FRAMES && model->frames[frame].is_here;
    const uint8_t *bytes;
    const struct space_log_copy *found = space_log_find_copy(state, model_other_address(n), &bytes);

    if (!is_here || found == NULL) {
        return !is_here && found == NULL;
    }
    return space_epoch_equal(model->frames[frame].epoch, found->epoch) &&
           model->frames[frame].handed_to == found->handed_to &&
           memcmp(model->frames[frame].bytes, bytes, MODEL_BYTES) == 0;
}

bool model_equals(const struct model *model, struct space_log_state *state)
{
    for (uint32_t n = 0; n < MODEL_BLOCKS; n++) {
        if (!is_block_equal(model, state, n)) {
            print_message("# block %u is %u, and not %u\n", n, state->blocks[n].state,
                          model->blocks[n].state);
            return false;
        }
    }
    for (uint32_t n = 0; n < MODEL_OTHERS; n++) {
        if (!is_copy_equal(model, state, n)) {
            print_message("# the copy of block %u of another home differs\n", n);
            return false;
        }
    }
    if (model->term != state->term) {
        print_message("# the term is %u, and not %u\n", state->term, model->term);
    }
    return model->term == state->term;
}
