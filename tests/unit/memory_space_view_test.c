/* SPDX-License-Identifier: Apache-2.0 */
/* What a client reads of a space's memory: every place and size, and what is not there; and what
 * memory of another make is not taken for. */
#include <stdlib.h>
#include <string.h>

#include "memory/space_view.h"
#include "space/frames.h"
#include "support/support.h"

#define HOME (UINT64_C(5) << 48)

static void *memory;
static struct space_view view;

static void *zeroed(uint64_t bytes)
{
    void *there = aligned_alloc(4096, bytes);

    assert_non_null(there);
    return memset(there, 0, bytes);
}

static void make_home(uint32_t block_bytes, uint64_t blocks)
{
    memory = zeroed(space_view_home_bytes(blocks, block_bytes));
    space_view_make_home(memory, blocks, block_bytes, HOME, &view);
}

static uint8_t pattern(uint64_t block, uint32_t at)
{
    return (uint8_t)(block * 37 + at * 11 + at / 256);
}

static void fill(uint64_t block)
{
    uint32_t bytes = (uint32_t)view.mask + 1;
    uint8_t *from = malloc(bytes);

    assert_non_null(from);
    for (uint32_t n = 0; n < bytes; n++)
        from[n] = pattern(block, n);
    space_bytes_store(space_bytes_of(&view, block), 0, from, bytes);
    space_word_show(&view.words[block]);
    free(from);
}

static void check(uint64_t block, uint32_t offset, uint32_t length)
{
    uint8_t *out = malloc(length); /* of its own, so that its end is seen */

    assert_non_null(out);
    assert_int_equal(space_home_read(&view, HOME + (block << view.shift) + offset, out, length),
                     SPACE_READ);
    for (uint32_t n = 0; n < length; n++)
        if (out[n] != pattern(block, offset + n))
            fail_msg("byte %u of %u at %u", n, length, offset);
    free(out);
}

static void test_every_place_and_size_is_read(void **state)
{
    (void)state;
    for (uint32_t block_bytes = 64; block_bytes <= 4096; block_bytes *= 64) {
        make_home(block_bytes, 3);
        for (uint64_t block = 0; block < 3; block++)
            fill(block);
        for (uint32_t offset = 0; offset < block_bytes; offset += block_bytes == 64 ? 1 : 97)
            for (uint32_t length = 1; length <= block_bytes - offset; length++)
                check(1, offset, length);
        free(memory);
    }
}

static void test_every_place_and_size_is_written(void **state)
{
    uint8_t all[64], expected[64], from[64];

    (void)state;
    make_home(64, 1);
    fill(0);
    for (uint32_t n = 0; n < 64; n++)
        expected[n] = pattern(0, n);
    for (uint32_t offset = 0; offset < 64; offset++) {
        for (uint32_t length = 1; length <= 64 - offset; length++) {
            for (uint32_t n = 0; n < length; n++)
                expected[offset + n] = from[n] = (uint8_t)(offset + length + n);
            space_word_change(&view.words[0], view.bytes, offset, from, length);
            assert_int_equal(space_home_read(&view, HOME, all, 64), SPACE_READ);
            assert_memory_equal(all, expected, 64);
        }
    }
    free(memory);
}

static void test_what_is_not_there_is_asked_for(void **state)
{
    uint8_t out[64];

    (void)state;
    make_home(64, 2);
    fill(0);
    assert_int_equal(space_home_read(&view, HOME, out, 1), SPACE_READ);
    assert_int_equal(space_home_read(&view, HOME + 64, out, 1), SPACE_ASK); /* never shown */
    assert_int_equal(space_home_read(&view, HOME + 128, out, 1), SPACE_ASK);
    assert_int_equal(space_home_read(&view, HOME - 1, out, 1), SPACE_ASK);
    assert_int_equal(space_home_read(&view, 0, out, 1), SPACE_ASK);
    assert_int_equal(space_home_read(&view, UINT64_MAX, out, 1), SPACE_ASK);
    space_word_hide(&view.words[0]);
    assert_false(space_word_is_shown(&view.words[0]));
    assert_int_equal(space_home_read(&view, HOME, out, 1), SPACE_ASK);
    space_word_show(&view.words[0]);
    assert_int_equal(space_home_read(&view, HOME, out, 1), SPACE_READ);
    free(memory);
}

/* Each change has a number of its own: what spans one, or a time of being hidden, is seen. */
static void test_no_word_comes_back(void **state)
{
    uint64_t before, value = 1;

    (void)state;
    make_home(64, 1);
    fill(0);
    before = shared_load_relaxed(&view.words[0]);
    space_word_change(&view.words[0], view.bytes, 0, &value, 8);
    assert_true(shared_load_relaxed(&view.words[0]) > before);
    before = shared_load_relaxed(&view.words[0]);
    space_word_hide(&view.words[0]);
    assert_false(space_word_read(&view.words[0], before, view.bytes, 0, &value, 8));
    space_word_hide(&view.words[0]);
    space_word_show(&view.words[0]);
    assert_true(shared_load_relaxed(&view.words[0]) > before);
    assert_false(space_word_read(&view.words[0], before, view.bytes, 0, &value, 8));
    free(memory);
}

/* A frame goes to another block between a read's looks: the first try is none, nor is a second. */
static void test_a_frame_that_is_given_up_under_a_read(void **state)
{
    uint64_t bytes = space_view_cache_bytes(1, 64), mine = 1, others = 2, got, seen;
    uint64_t tag;
    struct space_frames frames;
    struct space_head *head;
    uint32_t frame;

    (void)state;
    memory = zeroed(bytes);
    space_view_make_cache(memory, 1, 64, &view);
    assert_int_equal(space_frames_init(&frames, &view), NIGH_OK);
    frame = space_frames_take(&frames, HOME);
    head = &view.sets[0].heads[frame];
    tag = space_tag_of(&view, HOME);
    space_bytes_store(space_frames_bytes(&frames, frame), 0, &mine, 8);
    space_word_show(&head->word);
    seen = shared_load_acquire(&head->word);
    space_word_hide(&head->word);
    assert_false(
        space_word_read(&head->word, seen, space_frames_bytes(&frames, frame), 0, &got, 8));
    space_frames_give(&frames, frame);
    assert_int_equal(space_frames_take(&frames, HOME + 64), frame);
    space_bytes_store(space_frames_bytes(&frames, frame), 0, &others, 8);
    assert_int_equal(space_cache_read(&view, space_hash(HOME + 64, 6), HOME + 64, &got, 8, &frame),
                     SPACE_ASK); /* its bytes are not all there yet */
    space_word_show(&head->word);
    assert_false(
        space_word_read(&head->word, seen, space_frames_bytes(&frames, frame), 0, &got, 8));
    assert_int_equal(space_word_read_again(&head->tag, tag, &head->word,
                                           space_frames_bytes(&frames, frame), 0, &got, 8),
                     SPACE_ASK);
    assert_int_equal(space_cache_read(&view, space_hash(HOME, 6), HOME, &got, 8, &frame),
                     SPACE_ASK);
    assert_int_equal(space_cache_read(&view, space_hash(HOME + 64, 6), HOME + 64, &got, 8, &frame),
                     SPACE_READ);
    assert_int_equal(got, 2);
    space_frames_fini(&frames);
    free(memory);
}

static void test_pieces_end_with_their_block(void **state)
{
    (void)state;
    make_home(512, 1);
    assert_int_equal(space_piece(&view, HOME, 1), 1);
    assert_int_equal(space_piece(&view, HOME, 512), 512);
    assert_int_equal(space_piece(&view, HOME, UINT64_C(1) << 40), 512);
    assert_int_equal(space_piece(&view, HOME + 511, 2), 1);
    assert_int_equal(space_piece(&view, HOME + 100, 412), 412);
    free(memory);
}

static void test_sizes_have_bounds(void **state)
{
    (void)state;
    assert_int_equal(space_view_cache_bytes(1, 32), 0);
    assert_int_equal(space_view_cache_bytes(1, 96), 0);
    assert_int_equal(space_view_cache_bytes(1, 8192), 0);
    assert_int_equal(space_view_cache_bytes(1, 0), 0);
    assert_int_equal(space_view_cache_bytes(0, 64), 0);
    assert_int_equal(space_view_cache_bytes(LIMIT_SPACE_SETS + 1, 64), 0);
    assert_int_equal(space_view_cache_bytes(UINT64_MAX, 64), 0);
    assert_int_equal(space_view_home_bytes(UINT64_MAX, 4096), 0);
    assert_int_equal(space_view_home_bytes(LIMIT_SPACE_HOME_BYTES / 64 + 1, 64), 0);
    assert_true(space_view_home_bytes(LIMIT_SPACE_HOME_BYTES / 64, 64) > LIMIT_SPACE_HOME_BYTES);
    assert_int_equal(space_view_cache_bytes(1, 64), 3 * 4096);
}

static void test_what_another_made_is_opened(void **state)
{
    struct space_view opened;
    uint64_t bytes = space_view_cache_bytes(20, 128), value = 7, got = 0;
    struct space_frames frames;
    uint32_t frame;

    (void)state;
    memory = zeroed(bytes);
    space_view_make_cache(memory, 20, 128, &view);
    assert_int_equal(space_frames_init(&frames, &view), NIGH_OK);
    frame = space_frames_take(&frames, HOME + 128);
    space_bytes_store(space_frames_bytes(&frames, frame), 120, &value, 8);
    space_word_show(space_frames_word(&frames, frame));
    assert_int_equal(space_view_open(memory, bytes, SPACE_VIEW_CACHE, &opened), NIGH_OK);
    assert_ptr_equal(opened.sets, view.sets);
    assert_ptr_equal(opened.bytes, view.bytes);
    assert_int_equal(opened.count, view.count);
    assert_int_equal(opened.mask, view.mask);
    assert_int_equal(opened.shift, view.shift);
    assert_null(opened.words);
    assert_int_equal(
        space_cache_read(&opened, space_hash(HOME + 248, 7), HOME + 248, &got, 8, &frame),
        SPACE_READ);
    assert_int_equal(got, 7);
    space_frames_fini(&frames);
    free(memory);
}

/* Any one bit of the header but in what is reserved, or says where the home begins. */
static void test_another_make_is_not_opened(void **state)
{
    uint64_t bytes = space_view_home_bytes(20, 128);
    struct space_view_header *header;
    struct space_view opened;

    (void)state;
    make_home(128, 20);
    header = memory;
    assert_int_equal(space_view_open(memory, bytes, SPACE_VIEW_HOME, &opened), NIGH_OK);
    assert_int_equal(space_view_open(memory, bytes - 1, SPACE_VIEW_HOME, &opened), NIGH_PROTOCOL);
    assert_int_equal(space_view_open(memory, 8, SPACE_VIEW_HOME, &opened), NIGH_PROTOCOL);
    assert_int_equal(space_view_open(memory, bytes, SPACE_VIEW_CACHE, &opened), NIGH_PROTOCOL);
    for (uint32_t bit = 0; bit < 8 * sizeof *header; bit++) {
        uint32_t byte = bit / 8;
        bool counts = byte < offsetof(struct space_view_header, reserved) ||
                      byte >= offsetof(struct space_view_header, heads_offset);

        ((uint8_t *)memory)[byte] ^= (uint8_t)(1u << bit % 8);
        if (counts && space_view_open(memory, bytes, SPACE_VIEW_HOME, &opened) == NIGH_OK)
            fail_msg("with bit %u", bit);
        if (byte >= offsetof(struct space_view_header, count) &&
            byte < offsetof(struct space_view_header, first) && bit % 64 > 12)
            assert_int_equal(space_view_open(memory, bytes, SPACE_VIEW_HOME, &opened),
                             NIGH_PROTOCOL);
        ((uint8_t *)memory)[byte] ^= (uint8_t)(1u << bit % 8);
    }
    header->first++;
    assert_int_equal(space_view_open(memory, bytes, SPACE_VIEW_HOME, &opened), NIGH_PROTOCOL);
    memset(header, 0, sizeof *header);
    assert_int_equal(space_view_open(memory, bytes, SPACE_VIEW_HOME, &opened), NIGH_NOT_FOUND);
    header->bytes_offset = 1;
    assert_int_equal(space_view_open(memory, bytes, SPACE_VIEW_HOME, &opened), NIGH_PROTOCOL);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_place_and_size_is_read),
        cmocka_unit_test(test_every_place_and_size_is_written),
        cmocka_unit_test(test_what_is_not_there_is_asked_for),
        cmocka_unit_test(test_no_word_comes_back),
        cmocka_unit_test(test_a_frame_that_is_given_up_under_a_read),
        cmocka_unit_test(test_pieces_end_with_their_block),
        cmocka_unit_test(test_sizes_have_bounds),
        cmocka_unit_test(test_what_another_made_is_opened),
        cmocka_unit_test(test_another_make_is_not_opened),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
