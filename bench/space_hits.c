/* SPDX-License-Identifier: Apache-2.0 */
/* See space_hits.h. */
#include "space_hits.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/random.h"
#include "memory/space_window.h"
#include "space/frames.h"
#include "space_lru.h"

#define BLOCKS      20000u
#define BLOCK_BYTES 64u
#define THREADS     4u
#define READS       (BLOCKS * 20u)
#define HOMES       4u
#define NONE        UINT32_MAX
#define ALPHA       0.99 /* as YCSB has it */

/* ---- frames as a node has them --------------------------------------------- */

struct node {
    void *memory;
    struct space_frames frames;
    struct space_window *windows;
    struct space_producer producers[THREADS];
    struct space_consumer consumers[THREADS];
};

static void node_begin(struct node *node, uint64_t sets)
{
    struct space_view view;

    node->memory = aligned_alloc(4096, space_view_cache_bytes(sets, BLOCK_BYTES));
    node->windows = calloc(THREADS, sizeof *node->windows);
    NIGH_ASSERT(node->memory != NULL && node->windows != NULL);
    memset(node->memory, 0, space_view_cache_bytes(sets, BLOCK_BYTES));
    space_view_make_cache(node->memory, sets, BLOCK_BYTES, &view);
    NIGH_ASSERT(space_frames_init(&node->frames, &view) == NIGH_OK);
    for (uint32_t n = 0; n < THREADS; n++) {
        space_producer_init(&node->producers[n], &node->windows[n]);
        space_consumer_init(&node->consumers[n], &node->windows[n]);
    }
}

static void node_end(struct node *node)
{
    NIGH_ASSERT(space_frames_is_valid(&node->frames));
    space_frames_fini(&node->frames);
    free(node->memory);
    free(node->windows);
}

static bool any(void *context, uint32_t frame)
{
    (void)context;
    (void)frame;
    return true;
}

static void drain(struct node *node)
{
    uint64_t hints[LIMIT_SPACE_HINTS];

    for (uint32_t n = 0; n < THREADS; n++) {
        uint32_t count = space_consumer_hints(&node->consumers[n], hints);

        for (uint32_t k = 0; k < count; k++) {
            space_frames_touch(&node->frames, (uint32_t)hints[k]);
        }
    }
}

static bool node_read(struct node *node, uint32_t thread, uint64_t address)
{
    uint32_t frame = space_frames_find(&node->frames, address);

    if (frame != SPACE_NO_FRAME) {
        space_producer_hint(&node->producers[thread], 0, frame);
        return true;
    }
    frame = space_frames_take(&node->frames, address);
    if (frame == SPACE_NO_FRAME) {
        drain(node);
        frame = space_frames_victim(&node->frames, address, any, NULL);
        space_word_hide(space_frames_word(&node->frames, frame));
        space_frames_give(&node->frames, frame);
        frame = space_frames_take(&node->frames, address);
    }
    space_word_show(space_frames_word(&node->frames, frame));
    return false;
}

/* ---- traces ---------------------------------------------------------------- */

struct walk {
    const struct hits_trace *trace;
    struct random random;
    double *zipf;             /* cumulative */
    uint32_t blocks;          /* that are walked over, in a row */
    uint32_t at[THREADS];     /* the last block of each */
    uint32_t walked[THREADS]; /* how far its walk is */
};

static bool falls(struct walk *walk, uint32_t percent)
{
    return random_below(&walk->random, 100) < percent;
}

/* Ranks lie anywhere: a bijection of the blocks. */
static uint32_t by_zipf(struct walk *walk)
{
    double at = (double)(random_u64(&walk->random) >> 11) * 0x1p-53;
    uint32_t low = 0, high = BLOCKS - 1;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (walk->zipf[middle] < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (uint32_t)((uint64_t)low * 7919 % BLOCKS);
}

static uint32_t step(struct walk *walk, uint32_t thread)
{
    const struct hits_trace *trace = walk->trace;
    uint32_t *at = &walk->at[thread];

    switch (trace->kind) {
    case HITS_GAM:
        if (!falls(walk, trace->time) && !falls(walk, trace->space)) {
            *at = (uint32_t)random_below(&walk->random, BLOCKS);
        }
        break;
    case HITS_ZIPF: *at = by_zipf(walk); break;
    case HITS_SCAN: *at = falls(walk, 33) ? walk->walked[thread]++ % BLOCKS : by_zipf(walk); break;
    case HITS_LOOP:
    case HITS_SPAN: *at = walk->walked[0]++ % walk->blocks; break;
    }
    return *at;
}

static void make_zipf(struct walk *walk)
{
    double sum = 0;

    walk->zipf = malloc(BLOCKS * sizeof *walk->zipf);
    NIGH_ASSERT(walk->zipf != NULL);
    for (uint32_t n = 0; n < BLOCKS; n++) {
        sum += pow(n + 1.0, -ALPHA);
        walk->zipf[n] = sum;
    }
    for (uint32_t n = 0; n < BLOCKS; n++) {
        walk->zipf[n] /= sum;
    }
}

/* Blocks lie in rows at a few homes, as allocations do. */
static uint64_t address_of(uint32_t block)
{
    uint64_t home = block / (BLOCKS / HOMES) + 1, offset = block % (BLOCKS / HOMES) + 1;

    return home << 48 | offset * BLOCK_BYTES;
}

void hits_replay(const struct hits_trace *trace, struct hits_result *result)
{
    bool spans = trace->kind == HITS_SPAN;
    uint64_t sets = BLOCKS * (spans ? 50 : trace->cached) / 100 / SPACE_WAYS;
    uint32_t room = (uint32_t)sets * SPACE_WAYS, ours = 0, lru_hits = 0, counted = 0;
    struct walk walk = {.trace = trace, .blocks = spans ? room * trace->cached / 100 : BLOCKS};
    struct node *node = malloc(sizeof *node);
    struct lru lru;

    NIGH_ASSERT(node != NULL);
    random_init(&walk.random, 1);
    make_zipf(&walk);
    node_begin(node, sets);
    lru_begin(&lru, BLOCKS, room);
    for (uint32_t n = 0; n < READS; n++) {
        uint32_t thread = (uint32_t)random_below(&walk.random, THREADS);
        uint32_t block = step(&walk, thread);
        bool here = node_read(node, thread, address_of(block)), there = lru_use(&lru, block);

        if (n >= READS / 4) {
            counted++;
            ours += here;
            lru_hits += there;
        }
    }
    *result =
        (struct hits_result){.ours = (double)ours / counted, .lru = (double)lru_hits / counted};
    lru_end(&lru);
    node_end(node);
    free(walk.zipf);
    free(node);
}
