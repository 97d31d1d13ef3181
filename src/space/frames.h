/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames of a space's cache at one node: which is whose, and which one to give up next.
 *
 * A block may lie in the frames of one set. Where all of them are used, a victim is chosen by
 * re-reference intervals of two bits, as SRRIP-HP has it (Jaleel et al., ISCA 2010): what was read
 * since it came is kept before what was not, so what is read once does not drive out what is read
 * often. That it was read the clients' hints say, of which some are lost.
 *
 * The lane's: it alone changes what clients see of this (memory/space_view.h). Whether a frame may
 * be given up now, and that its bytes are nobody's any more, is the caller's to know.
 */
#ifndef SPACE_FRAMES_H
#define SPACE_FRAMES_H

#include "memory/space_view.h"
#include "nigh/status.h"

#define SPACE_NO_FRAME UINT32_MAX

struct space_frames {
    struct space_view view; /* the memory is the caller's */
    uint8_t *ages;          /* of each frame: 0 (read since it came) to 3 (a victim) */
    uint64_t used;
};

/* Of memory that space_view_make_cache has made. NIGH_OUT_OF_MEMORY. */
nigh_status space_frames_init(struct space_frames *frames, const struct space_view *view);
void space_frames_fini(struct space_frames *frames);

static inline uint64_t space_frames_count(const struct space_frames *frames)
{
    return frames->view.count * SPACE_WAYS;
}

/* Where that block is, or SPACE_NO_FRAME. */
uint32_t space_frames_find(const struct space_frames *frames, uint64_t address);

/* A free frame for a block that has none, which has it from here on; nobody can read it yet.
 * SPACE_NO_FRAME: all of its set are used. */
uint32_t space_frames_take(struct space_frames *frames, uint64_t address);

/* The frame is free: nobody can read it any more, and no WRITE can touch it. */
void space_frames_give(struct space_frames *frames, uint32_t frame);

/* Which frame of the block's set to give up first, of those that may be: `may` says so of one.
 * SPACE_NO_FRAME: of none. */
typedef bool space_frames_may(void *context, uint32_t frame);
uint32_t space_frames_victim(struct space_frames *frames, uint64_t address, space_frames_may *may,
                             void *context);

/* A frame was read, as a client says or the lane knows; of any number. */
static inline void space_frames_touch(struct space_frames *frames, uint32_t frame)
{
    if (frame < space_frames_count(frames)) {
        frames->ages[frame] = 0;
    }
}

/* The address of the block that has a frame; 0: none, as no space has a block there. */
uint64_t space_frames_block(const struct space_frames *frames, uint32_t frame);

static inline _Atomic uint64_t *space_frames_word(const struct space_frames *frames, uint32_t frame)
{
    return &frames->view.sets[frame / SPACE_WAYS].heads[frame % SPACE_WAYS].word;
}

static inline _Atomic uint64_t *space_frames_bytes(const struct space_frames *frames,
                                                   uint32_t frame)
{
    return space_bytes_of(&frames->view, frame);
}

/* Whether all that is kept twice says the same; walks everything. */
bool space_frames_is_valid(const struct space_frames *frames);

#endif
