/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node has of a small space, in plain arrays, and records that it may append next: what a
 * log is compared with (space_log_test.c). It knows nothing of how a log is kept.
 */
#ifndef TESTS_SPACE_LOG_MODEL_H
#define TESTS_SPACE_LOG_MODEL_H

#include "base/random.h"
#include "space/log_state.h"

#define MODEL_RANK   3u
#define MODEL_BYTES  64u /* of a block */
#define MODEL_BLOCKS 24u
#define MODEL_FRAMES 6u
#define MODEL_OTHERS 16u /* blocks of another home that may be had, six at once */

struct model_copy {
    bool is_here;
    uint8_t other;
    struct space_epoch epoch;
    uint8_t handed_to;
    uint8_t bytes[MODEL_BYTES];
};

struct model {
    struct space_log_block blocks[MODEL_BLOCKS];
    uint8_t home[MODEL_BLOCKS][MODEL_BYTES];
    struct model_copy frames[MODEL_FRAMES];
    uint32_t epochs[MODEL_OTHERS]; /* the last right to each: they only get later */
    uint32_t term;
};

/* A record and its bytes. */
struct model_record {
    struct space_log_record record;
    uint8_t bytes[MODEL_BYTES];
};

extern const struct space_log_geometry model_geometry;

uint64_t model_home_address(uint32_t block);
uint64_t model_other_address(uint32_t other);

/* One that fits to what is there. */
void model_choose(const struct model *model, struct random *random, struct model_record *record);
void model_apply(struct model *model, const struct model_record *record);

/* What is put to an image: at first *at is 0. False: all was. */
bool model_next_of_image(const struct model *model, uint32_t *at, struct model_record *record);

/* Says what differs, and whether nothing does. */
bool model_equals(const struct model *model, struct space_log_state *state);

#endif
