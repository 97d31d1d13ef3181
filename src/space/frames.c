/* SPDX-License-Identifier: Apache-2.0 */
/* See frames.h. */
#include "space/frames.h"

#include <stdlib.h>

#define AGE_READ   0u
#define AGE_NEW    2u /* will be read again, but not soon */
#define AGE_VICTIM 3u

nigh_status space_frames_init(struct space_frames *frames, const struct space_view *view)
{
    *frames = (struct space_frames){.view = *view};
    frames->ages = malloc(space_frames_count(frames));
    if (frames->ages == NULL) {
        return NIGH_OUT_OF_MEMORY;
    }
    memset(frames->ages, AGE_VICTIM, space_frames_count(frames));
    return NIGH_OK;
}

void space_frames_fini(struct space_frames *frames)
{
    free(frames->ages);
    frames->ages = NULL;
}

static struct space_head *head_of(const struct space_frames *frames, uint32_t frame)
{
    return &frames->view.sets[frame / SPACE_WAYS].heads[frame % SPACE_WAYS];
}

uint32_t space_frames_find(const struct space_frames *frames, uint64_t address)
{
    const struct space_view *view = &frames->view;
    uint64_t hash = space_hash(address, view->shift);
    uint64_t number = space_set_of(view, hash), tag = space_tag_of(view, address);
    struct space_set *set = &view->sets[number];

    for (uint32_t ways = space_ways_like(set, space_print_of(hash)); ways != 0; ways &= ways - 1) {
        uint32_t way = space_way_of(ways);

        if (shared_load_relaxed(&set->heads[way].tag) == tag) {
            return (uint32_t)number * SPACE_WAYS + way;
        }
    }
    return SPACE_NO_FRAME;
}

/* Says whose a frame is: the print only leads readers to the tag. */
static void mark(struct space_frames *frames, uint32_t frame, uint64_t tag, uint64_t print)
{
    struct space_set *set = &frames->view.sets[frame / SPACE_WAYS];
    uint32_t way = frame % SPACE_WAYS, shift = way % 8 * 8;
    uint64_t prints = shared_load_relaxed(&set->prints[way / 8]);

    NIGH_ASSERT(!space_word_is_shown(&set->heads[way].word));
    shared_store_relaxed(&set->heads[way].tag, tag);
    shared_store_relaxed(&set->prints[way / 8],
                         (prints & ~(UINT64_C(0xff) << shift)) | print << shift);
}

uint32_t space_frames_take(struct space_frames *frames, uint64_t address)
{
    uint64_t hash = space_hash(address, frames->view.shift);
    uint32_t first = (uint32_t)space_set_of(&frames->view, hash) * SPACE_WAYS;

    for (uint32_t frame = first; frame < first + SPACE_WAYS; frame++) {
        if (shared_load_relaxed(&head_of(frames, frame)->tag) == 0) {
            mark(frames, frame, space_tag_of(&frames->view, address), space_print_of(hash));
            frames->ages[frame] = AGE_NEW;
            frames->used++;
            return frame;
        }
    }
    return SPACE_NO_FRAME;
}

void space_frames_give(struct space_frames *frames, uint32_t frame)
{
    NIGH_ASSERT(shared_load_relaxed(&head_of(frames, frame)->tag) != 0);
    mark(frames, frame, 0, 0);
    frames->ages[frame] = AGE_VICTIM;
    frames->used--;
}

uint32_t space_frames_victim(struct space_frames *frames, uint64_t address, space_frames_may *may,
                             void *context)
{
    uint64_t hash = space_hash(address, frames->view.shift);
    uint32_t first = (uint32_t)space_set_of(&frames->view, hash) * SPACE_WAYS;
    uint32_t victim = SPACE_NO_FRAME;
    uint8_t older;

    for (uint32_t frame = first; frame < first + SPACE_WAYS; frame++) {
        if ((victim == SPACE_NO_FRAME || frames->ages[frame] > frames->ages[victim]) &&
            shared_load_relaxed(&head_of(frames, frame)->tag) != 0 && may(context, frame)) {
            victim = frame;
        }
    }
    if (victim == SPACE_NO_FRAME) {
        return SPACE_NO_FRAME;
    }
    /* All grow older together until it is old enough. */
    older = (uint8_t)(AGE_VICTIM - frames->ages[victim]);
    for (uint32_t frame = first; frame < first + SPACE_WAYS; frame++) {
        frames->ages[frame] = (uint8_t)min_u32(frames->ages[frame] + older, AGE_VICTIM);
    }
    return victim;
}

uint64_t space_frames_block(const struct space_frames *frames, uint32_t frame)
{
    return shared_load_relaxed(&head_of(frames, frame)->tag) & ~UINT64_C(1);
}

bool space_frames_is_valid(const struct space_frames *frames)
{
    uint64_t used = 0;

    for (uint32_t frame = 0; frame < space_frames_count(frames); frame++) {
        struct space_head *head = head_of(frames, frame);

        if (frames->ages[frame] > AGE_VICTIM) {
            return false;
        }
        if (shared_load_relaxed(&head->tag) == 0) {
            if (space_word_is_shown(&head->word)) {
                return false;
            }
            continue;
        }
        used++;
        if (space_frames_find(frames, space_frames_block(frames, frame)) != frame) {
            return false;
        }
    }
    return used == frames->used;
}
