/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator against a bit map of what is in use, and each of its edges by itself. */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "memory/heap.h"
#include "memory_heap_fixture.h"

static void test_alloc_rounds_and_reuses(void **state)
{
    struct fixture f;
    uint32_t a, b, c;
    uint64_t offset;

    (void)state;
    fixture_open(&f, 16 * MIB, 1, 0, BLOCKS);
    assert_int_equal(heap_free_bytes(f.heaps, f.heap), 0);
    assert_int_equal(heaps_unowned_bytes(f.heaps), 16 * MIB);
    a = alloc_ok(&f, f.heap, 0);
    assert_int_equal(heap_block_bytes(f.heaps, a), 64);
    assert_int_equal(heap_free_bytes(f.heaps, f.heap), EXTENT - 64);
    assert_int_equal(heaps_unowned_bytes(f.heaps), 14 * MIB);
    b = alloc_ok(&f, f.heap, 100001);
    assert_int_equal(heap_block_bytes(f.heaps, b), 100032);
    assert_int_equal(heap_block_offset(f.heaps, b), heap_block_offset(f.heaps, a) + 64);
    assert_int_equal(heap_block_next(f.heaps, a), b);
    c = alloc_ok(&f, f.heap, 64);
    assert_false(heap_block_is_free(f.heaps, b));

    /* What was freed last is used first, though it is not the first of its class by size. */
    offset = heap_block_offset(f.heaps, b);
    free_ok(&f, b);
    b = alloc_ok(&f, f.heap, 100001);
    assert_int_equal(heap_block_offset(f.heaps, b), offset);

    heap_block_set_tag(f.heaps, c, 77);
    assert_int_equal(heap_block_tag(f.heaps, c), 77);
    free_ok(&f, c);
    c = alloc_ok(&f, f.heap, 64);
    assert_int_equal(heap_block_tag(f.heaps, c), 0);

    free_ok(&f, b);
    free_ok(&f, a);
    free_ok(&f, c);
    assert_int_equal(heap_free_bytes(f.heaps, f.heap), EXTENT);
    fixture_close(&f);
}

static void test_spans_adjacent_extents(void **state)
{
    struct fixture f;
    uint32_t small, big, block;

    (void)state;
    fixture_open(&f, 16 * MIB, 1, 0, BLOCKS);
    small = alloc_ok(&f, f.heap, MIB);
    /* Two more extents are enough with what is left of the first. */
    big = alloc_ok(&f, f.heap, 5 * MIB);
    assert_int_equal(heaps_unowned_bytes(f.heaps), 10 * MIB);
    assert_int_equal(heap_block_offset(f.heaps, big), heap_block_offset(f.heaps, small) + MIB);
    assert_int_equal(heap_free_bytes(f.heaps, f.heap), 0);
    free_ok(&f, big);
    big = alloc_ok(&f, f.heap, 4 * MIB);

    /* All that is left in one piece: the end of the third extent and five more. */
    assert_int_equal(heap_largest_bytes(f.heaps, f.heap), 11 * MIB);
    assert_int_equal(heap_alloc(f.heaps, f.heap, 11 * MIB + 1, &block), NIGH_OUT_OF_MEMORY);
    assert_int_equal(heaps_unowned_bytes(f.heaps), 10 * MIB);
    block = alloc_ok(&f, f.heap, 11 * MIB);
    assert_int_equal(heap_largest_bytes(f.heaps, f.heap), 0);
    assert_int_equal(heap_alloc(f.heaps, f.heap, 1, &small), NIGH_OUT_OF_MEMORY);
    free_ok(&f, big);
    free_ok(&f, block);
    assert_int_equal(heap_largest_bytes(f.heaps, f.heap), 15 * MIB);
    fixture_close(&f);
}

static void test_grows_on_both_sides(void **state)
{
    struct fixture f;
    uint32_t other, a, b, block;

    (void)state;
    fixture_open(&f, 16 * MIB, 1, 0, BLOCKS);
    assert_int_equal(heaps_open(f.heaps, OTHER, &other), NIGH_OK);
    a = alloc_ok(&f, f.heap, EXTENT); /* extent 0 */
    extent_take_at(f.set, 0, OTHER, 4, 1);
    assert_int_equal(heap_adopt_extent(f.heaps, other, 4), NIGH_OK);
    b = alloc_ok(&f, other, 64);
    assert_int_equal(heap_block_offset(f.heaps, b), 4 * EXTENT);
    assert_int_equal(heap_largest_bytes(f.heaps, f.heap), 3 * EXTENT);
    assert_int_equal(heap_largest_bytes(f.heaps, other), 4 * EXTENT - 64);
    /* The run before it, from its end, would join nothing: its first block is in use. */
    free_ok(&f, b);
    assert_int_equal(heap_largest_bytes(f.heaps, other), 7 * EXTENT); /* over its own, free one */
    block = alloc_ok(&f, other, 4 * EXTENT);                          /* upwards, if it may */
    assert_int_equal(heap_block_offset(f.heaps, block), 4 * EXTENT);
    assert_int_equal(heap_alloc(f.heaps, other, 3 * EXTENT + 1, &b), NIGH_OUT_OF_MEMORY);
    free_ok(&f, block);
    /* Now backwards: extents 1 to 3 in front of four free ones. */
    block = alloc_ok(&f, other, 7 * EXTENT);
    assert_int_equal(heap_block_offset(f.heaps, block), EXTENT);
    assert_int_equal(heaps_unowned_bytes(f.heaps), 0);
    free_ok(&f, block);
    free_ok(&f, a);
    fixture_close(&f);
}

static void test_fills_a_gap_between_own_extents(void **state)
{
    struct fixture f;
    uint32_t block, first;

    (void)state;
    fixture_open(&f, 16 * MIB, 1, 0, BLOCKS);
    extent_take_at(f.set, 0, OWNER, 0, 1);
    extent_take_at(f.set, 0, OWNER, 3, 1);
    assert_int_equal(extent_take(f.set, 0, OTHER, 4, &first), NIGH_OK);
    assert_int_equal(first, 4);
    assert_int_equal(heap_adopt_extent(f.heaps, f.heap, 0), NIGH_OK);
    assert_int_equal(heap_adopt_extent(f.heaps, f.heap, 3), NIGH_OK);
    assert_int_equal(heap_adopt_extent(f.heaps, f.heap, 3), NIGH_INVALID);
    assert_int_equal(heap_adopt_extent(f.heaps, f.heap, 4), NIGH_INVALID);
    assert_int_equal(heap_adopt_extent(f.heaps, f.heap, LIMIT_EXTENTS - 1), NIGH_INVALID);
    assert_true(heaps_are_valid(f.heaps));
    assert_int_equal(heap_largest_bytes(f.heaps, f.heap), 4 * EXTENT);
    block = alloc_ok(&f, f.heap, 4 * EXTENT);
    assert_int_equal(heap_block_offset(f.heaps, block), 0);
    free_ok(&f, block);
    fixture_close(&f);
}

static void test_carve(void **state)
{
    struct fixture f;
    uint32_t slab, cut, rest, tail;
    uint64_t base;

    (void)state;
    fixture_open(&f, 16 * MIB, 1, 0, BLOCKS);
    slab = alloc_ok(&f, f.heap, 64 * 1024);
    base = heap_block_offset(f.heaps, slab);
    heap_block_set_tag(f.heaps, slab, 9);

    /* From the front. */
    assert_int_equal(heap_carve(f.heaps, slab, base, 1024, &cut, &rest), NIGH_OK);
    assert_true(heaps_are_valid(f.heaps));
    assert_int_equal(cut, slab);
    assert_int_equal(heap_block_bytes(f.heaps, cut), 1024);
    assert_int_equal(heap_block_offset(f.heaps, rest), base + 1024);
    assert_int_equal(heap_block_bytes(f.heaps, rest), 63 * 1024);
    assert_int_equal(heap_block_tag(f.heaps, rest), 9);
    /* From the middle. */
    slab = rest;
    assert_int_equal(heap_carve(f.heaps, slab, base + 8192, 128, &cut, &rest), NIGH_OK);
    assert_true(heaps_are_valid(f.heaps));
    assert_int_equal(heap_block_bytes(f.heaps, slab), 7 * 1024);
    assert_int_equal(heap_block_offset(f.heaps, cut), base + 8192);
    assert_int_equal(heap_block_tag(f.heaps, cut), 9);
    assert_int_equal(heap_block_offset(f.heaps, rest), base + 8192 + 128);
    /* To the end. */
    assert_int_equal(heap_carve(f.heaps, rest, base + 65536 - 64, 64, &tail, &slab), NIGH_OK);
    assert_true(heaps_are_valid(f.heaps));
    assert_int_equal(slab, HEAP_NO_BLOCK);
    assert_int_equal(heap_block_next(f.heaps, rest), tail);
    /* All of it. */
    assert_int_equal(heap_carve(f.heaps, tail, base + 65536 - 64, 64, &cut, &slab), NIGH_OK);
    assert_int_equal(cut, tail);
    assert_int_equal(slab, HEAP_NO_BLOCK);
    assert_int_equal(heap_free_bytes(f.heaps, f.heap), EXTENT - 65536);
    fixture_close(&f);
}

static void test_block_numbers_run_out(void **state)
{
    struct fixture f;
    struct heaps *made;
    uint32_t blocks[8], n = 0, block, cut, rest;

    (void)state;
    fixture_open(&f, 16 * MIB, 1, 0, 4);
    assert_int_equal(heaps_create(&(struct heaps_config){f.set, 0, 0}, &made), NIGH_INVALID);
    assert_int_equal(heaps_create(&(struct heaps_config){f.set, 1, 4}, &made), NIGH_INVALID);
    while (heap_alloc(f.heaps, f.heap, 128, &block) == NIGH_OK) {
        blocks[n++] = block;
        assert_true(n < 4);
    }
    assert_int_equal(n, 3); /* and the free one behind them */
    assert_int_equal(heap_alloc(f.heaps, f.heap, 128, &block), NIGH_LIMIT);
    assert_int_equal(heap_alloc(f.heaps, f.heap, 2 * EXTENT, &block), NIGH_LIMIT);
    assert_int_equal(
        heap_carve(f.heaps, blocks[1], heap_block_offset(f.heaps, blocks[1]), 64, &cut, &rest),
        NIGH_LIMIT);
    assert_int_equal(heap_block_bytes(f.heaps, blocks[1]), 128);
    assert_int_equal(heap_claim(f.heaps, f.heap, MIB, 64, &block), NIGH_LIMIT);
    assert_true(heaps_are_valid(f.heaps));
    /* A wish that fits exactly needs no number. */
    block = alloc_ok(&f, f.heap, EXTENT - 3 * 128);
    free_ok(&f, blocks[2]);
    assert_int_equal(heap_alloc(f.heaps, f.heap, 64, &cut), NIGH_LIMIT);
    assert_int_equal(heap_alloc(f.heaps, f.heap, 128, &cut), NIGH_OK);
    fixture_close(&f);
}

static void test_heaps_are_bounded(void **state)
{
    struct fixture f;
    uint32_t heap, again;

    (void)state;
    fixture_open(&f, 16 * MIB, 2, 1, BLOCKS);
    for (uint32_t uid = 1; uid < LIMIT_HEAPS_A_LANE; uid++)
        assert_int_equal(heaps_open(f.heaps, extent_owner(3, uid), &heap), NIGH_OK);
    assert_int_equal(heaps_open(f.heaps, extent_owner(3, 0), &heap), NIGH_LIMIT);
    assert_int_equal(heaps_open(f.heaps, OWNER, &again), NIGH_OK);
    assert_int_equal(again, f.heap);
    /* The second lane's extents lie in its own half of the arena. */
    again = alloc_ok(&f, f.heap, 64);
    assert_int_equal(heap_block_offset(f.heaps, again), LIMIT_EXTENTS / 2 * EXTENT);
    assert_int_equal(heaps_unowned_bytes(f.heaps), 6 * MIB);
    fixture_close(&f);
}

static void test_claim(void **state)
{
    struct fixture f;
    uint32_t first, a, b, c, d;

    (void)state;
    fixture_open(&f, 16 * MIB, 1, 0, BLOCKS);
    assert_int_equal(extent_take(f.set, 0, OWNER, 3, &first), NIGH_OK);
    assert_int_equal(first, 0);
    /* In an order of its own: the middle one joins the others. */
    assert_int_equal(heap_adopt_extent(f.heaps, f.heap, 0), NIGH_OK);
    assert_int_equal(heap_adopt_extent(f.heaps, f.heap, 2), NIGH_OK);
    assert_int_equal(heap_adopt_extent(f.heaps, f.heap, 1), NIGH_OK);
    assert_true(heaps_are_valid(f.heaps));
    assert_int_equal(heap_largest_bytes(f.heaps, f.heap), 16 * MIB);

    assert_int_equal(heap_claim(f.heaps, f.heap, 5 * MIB, 1000, &a), NIGH_OK);
    assert_int_equal(heap_block_bytes(f.heaps, a), 1024);
    assert_true(heaps_are_valid(f.heaps));
    assert_int_equal(heap_claim(f.heaps, f.heap, 5 * MIB - 64, 64, &b), NIGH_OK);
    assert_int_equal(heap_claim(f.heaps, f.heap, MIB, 3 * MIB, &c), NIGH_OK); /* spans */
    assert_true(heaps_are_valid(f.heaps));
    assert_int_equal(heap_claim(f.heaps, f.heap, 6 * MIB - 64, 64, &d), NIGH_OK); /* the last */
    assert_true(heaps_are_valid(f.heaps));
    assert_int_equal(heap_block_next(f.heaps, d), HEAP_NO_BLOCK);

    assert_int_equal(heap_claim(f.heaps, f.heap, 5 * MIB, 64, &d), NIGH_EXISTS);
    assert_int_equal(heap_claim(f.heaps, f.heap, 5 * MIB + 960, 128, &d), NIGH_EXISTS);
    assert_int_equal(heap_claim(f.heaps, f.heap, 5 * MIB - 128, 128, &d), NIGH_EXISTS);
    assert_int_equal(heap_claim(f.heaps, f.heap, 0, MIB + 64, &d), NIGH_EXISTS);
    assert_int_equal(heap_claim(f.heaps, f.heap, 64, 0, &d), NIGH_INVALID);
    assert_int_equal(heap_claim(f.heaps, f.heap, 65, 64, &d), NIGH_INVALID);
    assert_int_equal(heap_claim(f.heaps, f.heap, 6 * MIB - 64, 128, &d), NIGH_INVALID);
    assert_int_equal(heap_claim(f.heaps, f.heap, 8 * MIB, 64, &d), NIGH_INVALID);
    assert_int_equal(heap_claim(f.heaps, f.heap, LIMIT_EXTENTS * EXTENT, 64, &d), NIGH_INVALID);
    assert_int_equal(heap_claim(f.heaps, f.heap, 0, UINT64_MAX, &d), NIGH_INVALID);
    assert_int_equal(heap_claim(f.heaps, f.heap, UINT64_MAX - 63, 64, &d), NIGH_INVALID);

    free_ok(&f, c);
    free_ok(&f, a);
    free_ok(&f, b);
    assert_int_equal(heap_claim(f.heaps, f.heap, 0, 6 * MIB - 64, &a), NIGH_OK);
    free_ok(&f, a);
    fixture_close(&f);
}

/* ---- a random life against a bit map ---- */

#define MODEL_MEMORY  (32 * MIB)
#define MODEL_LIVE    700
#define MODEL_STEPS   10000
#define MODEL_HEAPS   3
#define MODEL_GRANULE LIMIT_GRANULE_BYTES

struct model_block {
    uint32_t block;
    uint32_t heap;
    uint64_t offset, bytes, tag;
};

struct model {
    struct fixture f;
    uint64_t random;
    uint32_t heaps[MODEL_HEAPS];
    uint64_t used_bytes[MODEL_HEAPS];
    struct model_block live[MODEL_LIVE];
    uint32_t live_count;
    uint8_t *bits; /* a bit a granule of the arena: in use */
    uint32_t allocs, refused, claims, carves, reclaims, restarts;
};

static uint32_t model_below(struct model *model, uint32_t bound)
{
    return (uint32_t)((support_random(&model->random) >> 32) % bound);
}

static uint64_t model_owner(uint32_t which)
{
    return extent_owner(which, 1000 + which);
}

/* Turns a range over; fails the test when some of it was so already. */
static void model_set(struct model *model, uint64_t offset, uint64_t bytes, bool used)
{
    for (uint64_t g = offset / MODEL_GRANULE; g < (offset + bytes) / MODEL_GRANULE; g++) {
        assert_int_equal((model->bits[g / 8] >> (g % 8)) & 1, !used);
        model->bits[g / 8] ^= (uint8_t)(1u << (g % 8));
    }
}

static void model_add(struct model *model, uint32_t which, uint32_t block)
{
    struct heaps *heaps = model->f.heaps;
    struct model_block *at = &model->live[model->live_count++];

    *at = (struct model_block){.block = block,
                               .heap = which,
                               .offset = heap_block_offset(heaps, block),
                               .bytes = heap_block_bytes(heaps, block),
                               .tag = support_random(&model->random)};
    model_set(model, at->offset, at->bytes, true);
    model->used_bytes[which] += at->bytes;
    heap_block_set_tag(heaps, block, at->tag);
    for (uint64_t e = at->offset / EXTENT; e <= (at->offset + at->bytes - 1) / EXTENT; e++)
        assert_int_equal(atomic_load(&model->f.set->extents[e].owner), model_owner(which));
}

static void model_check_block(const struct model *model, const struct model_block *at)
{
    assert_int_equal(heap_block_offset(model->f.heaps, at->block), at->offset);
    assert_int_equal(heap_block_bytes(model->f.heaps, at->block), at->bytes);
    assert_int_equal(heap_block_tag(model->f.heaps, at->block), at->tag);
    assert_false(heap_block_is_free(model->f.heaps, at->block));
}

static void model_alloc(struct model *model)
{
    uint32_t which = model_below(model, MODEL_HEAPS), heap = model->heaps[which];
    uint32_t kind = model_below(model, 100), block;
    uint64_t largest = heap_largest_bytes(model->f.heaps, heap);
    uint64_t bytes = kind < 50   ? model_below(model, 2048)
                     : kind < 85 ? model_below(model, 64 << 10)
                     : kind < 97 ? model_below(model, 1 << 20)
                     : kind < 99 ? model_below(model, (uint32_t)(4 * EXTENT))
                                 : largest;
    nigh_status status;

    if (model->live_count == MODEL_LIVE)
        return;
    status = heap_alloc(model->f.heaps, heap, bytes, &block);
    if (status == NIGH_OK) {
        model->allocs++;
        model_add(model, which, block);
        assert_true(model->live[model->live_count - 1].bytes >= bytes);
        assert_true(model->live[model->live_count - 1].bytes < bytes + 2 * MODEL_GRANULE);
    } else {
        assert_int_equal(status, NIGH_OUT_OF_MEMORY);
        assert_true(bytes > largest || largest == 0);
        model->refused++;
    }
}

/* A place at random: had if all of it is in the heap's extents and nobody has any of it. */
static void model_claim(struct model *model)
{
    uint32_t which = model_below(model, MODEL_HEAPS), block;
    uint32_t extent = model_below(model, model->f.set->lane[0].used);
    uint64_t offset = extent * EXTENT + model_below(model, EXTENT / MODEL_GRANULE) * MODEL_GRANULE;
    uint64_t bytes = (1 + model_below(model, 1 << model_below(model, 16))) * MODEL_GRANULE;
    nigh_status expected = NIGH_OK, status;

    if (model->live_count == MODEL_LIVE)
        return;
    for (uint64_t g = offset / MODEL_GRANULE; g < (offset + bytes) / MODEL_GRANULE; g++) {
        if ((model->bits[g / 8] >> (g % 8)) & 1)
            expected = NIGH_EXISTS;
    }
    for (uint64_t e = offset / EXTENT; e <= (offset + bytes - 1) / EXTENT; e++) {
        if (atomic_load(&model->f.set->extents[e].owner) != model_owner(which))
            expected = NIGH_INVALID;
    }
    status = heap_claim(model->f.heaps, model->heaps[which], offset, bytes, &block);
    assert_int_equal(status, expected);
    if (status == NIGH_OK) {
        assert_int_equal(heap_block_offset(model->f.heaps, block), offset);
        model_add(model, which, block);
        model->claims++;
    }
}

static void model_free(struct model *model)
{
    uint32_t i;
    struct model_block at;

    if (model->live_count == 0)
        return;
    i = model_below(model, model->live_count);
    at = model->live[i];
    model->live[i] = model->live[--model->live_count];
    model_check_block(model, &at);
    model_set(model, at.offset, at.bytes, false);
    model->used_bytes[at.heap] -= at.bytes;
    heap_free(model->f.heaps, at.block);
}

/* Cuts a live block in up to three. */
static void model_carve(struct model *model)
{
    uint32_t i, cut, rest;
    uint32_t granules, before, n;
    struct model_block at;

    if (model->live_count == 0 || model->live_count + 2 > MODEL_LIVE)
        return;
    i = model_below(model, model->live_count);
    at = model->live[i];
    granules = (uint32_t)(at.bytes / MODEL_GRANULE);
    before = model_below(model, granules);
    n = 1 + model_below(model, granules - before);
    assert_int_equal(heap_carve(model->f.heaps, at.block, at.offset + before * MODEL_GRANULE,
                                (uint64_t)n * MODEL_GRANULE, &cut, &rest),
                     NIGH_OK);
    assert_int_equal(heap_block_tag(model->f.heaps, cut), at.tag);
    model->live[i] = model->live[--model->live_count];
    model_set(model, at.offset, at.bytes, false);
    model->used_bytes[at.heap] -= at.bytes;
    if (before > 0)
        model_add(model, at.heap, at.block);
    else
        assert_int_equal(cut, at.block);
    model_add(model, at.heap, cut);
    if (rest != HEAP_NO_BLOCK)
        model_add(model, at.heap, rest);
    else
        assert_int_equal(before + n, granules);
    model->carves++;
}

static void model_reclaim(struct model *model)
{
    uint64_t bytes = (1 + model_below(model, 48)) * (EXTENT / 16);
    uint32_t heap = model->heaps[model_below(model, MODEL_HEAPS)];

    if (heaps_reclaim(model->f.heaps, heap, bytes) == NIGH_OK) {
        assert_true(heap_largest_bytes(model->f.heaps, heap) >= bytes);
        model->reclaims++;
    }
}

/* Throws the books away and makes them again, as a restarted node does: extents by their owner,
 * blocks in any order. */
static void model_restart(struct model *model)
{
    struct fixture *f = &model->f;

    heaps_destroy(f->heaps);
    assert_int_equal(heaps_create(&(struct heaps_config){f->set, 0, BLOCKS}, &f->heaps), NIGH_OK);
    for (uint32_t i = 0; i < MODEL_HEAPS; i++)
        assert_int_equal(heaps_open(f->heaps, model_owner(i), &model->heaps[i]), NIGH_OK);
    for (uint32_t e = 0; e < f->set->count; e++) {
        uint64_t owner = atomic_load(&f->set->extents[e].owner);

        for (uint32_t i = 0; i < MODEL_HEAPS; i++) {
            if (f->set->extents[e].present && owner == model_owner(i))
                assert_int_equal(heap_adopt_extent(f->heaps, model->heaps[i], e), NIGH_OK);
        }
    }
    for (uint32_t i = 0; i < model->live_count; i++) {
        struct model_block *at = &model->live[i];
        uint32_t again;

        assert_int_equal(
            heap_claim(f->heaps, model->heaps[at->heap], at->offset, at->bytes, &at->block),
            NIGH_OK);
        assert_int_equal(
            heap_claim(f->heaps, model->heaps[at->heap], at->offset, at->bytes, &again),
            NIGH_EXISTS);
        heap_block_set_tag(f->heaps, at->block, at->tag);
    }
    model->restarts++;
}

static void model_step(struct model *model)
{
    uint32_t kind = model_below(model, 1000);

    if (kind < 400)
        model_alloc(model);
    else if (kind < 500)
        model_claim(model);
    else if (kind < 900)
        model_free(model);
    else if (kind < 990)
        model_carve(model);
    else if (kind < 995)
        model_restart(model);
    else
        model_reclaim(model);
    /* Long lives go up and down: now and then nearly everything ends. */
    if (model_below(model, 1500) == 0) {
        while (model->live_count > model_below(model, 16))
            model_free(model);
    }
}

static void model_check(const struct model *model)
{
    uint64_t owned = 0;

    assert_true(heaps_are_valid(model->f.heaps));
    for (uint32_t i = 0; i < MODEL_HEAPS; i++)
        owned += heap_free_bytes(model->f.heaps, model->heaps[i]) + model->used_bytes[i];
    assert_int_equal(owned + heaps_unowned_bytes(model->f.heaps), MODEL_MEMORY);
}

static void test_random_life(void **state)
{
    struct model *model = calloc(1, sizeof(*model));
    uint64_t seed = support_seed();
    uint64_t end_us = support_now_us() + support_budget_ms(3000) * 1000;
    uint64_t steps = 0;
    uint32_t lived;

    (void)state;
    assert_non_null(model);
    while (support_now_us() < end_us) {
        memset(model, 0, sizeof(*model));
        model->random = seed++;
        fixture_open(&model->f, MODEL_MEMORY, 1, 0, BLOCKS);
        model->bits = calloc(LIMIT_EXTENTS, EXTENT / MODEL_GRANULE / 8);
        assert_non_null(model->bits);
        for (uint32_t i = 0; i < MODEL_HEAPS; i++)
            assert_int_equal(heaps_open(model->f.heaps, model_owner(i), &model->heaps[i]), NIGH_OK);
        lived = 0;
        for (; lived < MODEL_STEPS && support_now_us() < end_us; lived++, steps++) {
            model_step(model);
            model_check(model);
        }
        while (model->live_count > 0)
            model_free(model);
        model_check(model);
        fixture_close(&model->f);
        free(model->bits);
        printf("# allocs %u refused %u claims %u carves %u reclaims %u restarts %u\n",
               model->allocs, model->refused, model->claims, model->carves, model->reclaims,
               model->restarts);
        if (lived == MODEL_STEPS) /* a whole life has met everything */
            assert_true(model->claims > 0 && model->carves > 0 && model->reclaims > 0 &&
                        model->restarts > 0 && model->refused > 0);
    }
    printf("# %llu steps\n", (unsigned long long)steps);
    free(model);
}

/* After a restart in which all is claimed and all is freed, each run of extents is one block. */
static void test_restart_leaves_nothing(void **state)
{
    struct fixture f;
    uint32_t blocks[500], n = 0, heap;
    uint64_t offsets[500], bytes[500], random = 42;

    (void)state;
    fixture_open(&f, 16 * MIB, 1, 0, BLOCKS);
    while (n < 500) {
        bytes[n] = 64 + support_random(&random) % 30000;
        if (heap_alloc(f.heaps, f.heap, bytes[n], &blocks[n]) != NIGH_OK)
            break;
        offsets[n] = heap_block_offset(f.heaps, blocks[n]);
        n++;
    }
    heaps_destroy(f.heaps);
    assert_int_equal(heaps_create(&(struct heaps_config){f.set, 0, BLOCKS}, &f.heaps), NIGH_OK);
    assert_int_equal(heaps_open(f.heaps, OWNER, &heap), NIGH_OK);
    for (uint32_t e = 8; e-- > 0;) {
        if (!extent_is_free(f.set, e))
            assert_int_equal(heap_adopt_extent(f.heaps, heap, e), NIGH_OK);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = (i * 367) % n; /* every one, out of order */

        if (n % 367 == 0)
            at = i;
        assert_int_equal(heap_claim(f.heaps, heap, offsets[at], bytes[at], &blocks[at]), NIGH_OK);
        assert_true(heaps_are_valid(f.heaps));
    }
    for (uint32_t i = 0; i < n; i++)
        free_ok(&f, blocks[i]);
    assert_int_equal(heap_free_bytes(f.heaps, heap) + heaps_unowned_bytes(f.heaps), 16 * MIB);
    assert_int_equal(heap_largest_bytes(f.heaps, heap), 16 * MIB);
    blocks[0] = alloc_ok(&f, heap, heap_free_bytes(f.heaps, heap));
    assert_int_equal(heap_block_offset(f.heaps, blocks[0]), 0);
    assert_int_equal(heap_block_next(f.heaps, blocks[0]), HEAP_NO_BLOCK);
    fixture_close(&f);
}

static jmp_buf *check_return;

static void check_leave(const char *file, int line, const char *expression)
{
    (void)file;
    (void)line;
    (void)expression;
    longjmp(*check_return, 1);
}

#define ASSERT_CHECK_FAILS(statement)                 \
    do {                                              \
        jmp_buf here_;                                \
        check_hook *before_;                          \
        check_return = &here_;                        \
        before_ = check_set_hook(check_leave);        \
        if (setjmp(here_) == 0) {                     \
            statement;                                \
            check_set_hook(before_);                  \
            fail_msg("no assertion: %s", #statement); \
        }                                             \
        check_set_hook(before_);                      \
    } while (0)

static void test_misuse_is_caught(void **state)
{
    struct fixture f;
    uint32_t block, cut, rest;

    (void)state;
    fixture_open(&f, 16 * MIB, 1, 0, BLOCKS);
    block = alloc_ok(&f, f.heap, 4096);
    ASSERT_CHECK_FAILS(heap_carve(f.heaps, block, 64, 4096, &cut, &rest));
    ASSERT_CHECK_FAILS(heap_carve(f.heaps, block, 1, 64, &cut, &rest));
    ASSERT_CHECK_FAILS(heap_carve(f.heaps, block, 4096, 64, &cut, &rest));
    free_ok(&f, block);
    ASSERT_CHECK_FAILS(heap_free(f.heaps, block)); /* twice */
    ASSERT_CHECK_FAILS(heap_free(f.heaps, BLOCKS + 1));
    ASSERT_CHECK_FAILS(heap_block_set_tag(f.heaps, block, 1));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc_rounds_and_reuses),
        cmocka_unit_test(test_spans_adjacent_extents),
        cmocka_unit_test(test_grows_on_both_sides),
        cmocka_unit_test(test_fills_a_gap_between_own_extents),
        cmocka_unit_test(test_carve),
        cmocka_unit_test(test_block_numbers_run_out),
        cmocka_unit_test(test_heaps_are_bounded),
        cmocka_unit_test(test_claim),
        cmocka_unit_test(test_restart_leaves_nothing),
        cmocka_unit_test(test_misuse_is_caught),
        cmocka_unit_test(test_random_life),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
