/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What asks a node to bring bytes to another, and brings them (region/push_wire.h): what is written
 * is read, nothing else is, and no aligned word is parted.
 */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "region/push_wire.h"

static struct region_spot spot_of(const char *name, uint32_t chunk)
{
    struct region_spot spot = {.handle = {.address = UINT64_C(0x1122334455667788), .key = 99},
                               .offset_bytes = 12345,
                               .chunk = chunk,
                               .name_bytes = (uint8_t)strlen(name)};

    memcpy(spot.name, name, spot.name_bytes);
    return spot;
}

static struct region_push a_push(void)
{
    return (struct region_push){.from = spot_of("from here", 3),
                                .to = spot_of("there", LIMIT_REGION_CHUNKS - 1),
                                .bytes = LIMIT_REGION_COPY_BYTES,
                                .node = 2,
                                .incarnation = 7};
}

static void assert_spots_equal(const struct region_spot *a, const struct region_spot *b)
{
    assert_true(region_window_equal(a->handle, b->handle));
    assert_int_equal(a->offset_bytes, b->offset_bytes);
    assert_int_equal(a->chunk, b->chunk);
    assert_int_equal(a->name_bytes, b->name_bytes);
    assert_memory_equal(a->name, b->name, a->name_bytes);
}

/* In memory of its own, so that reading behind it is seen. */
static nigh_status decode(const uint8_t *bytes, size_t count, struct region_push *push)
{
    uint8_t *copy = malloc(count + 1);
    nigh_status status;

    assert_non_null(copy);
    memcpy(copy, bytes, count);
    status = region_push_decode(copy, count, push);
    free(copy);
    return status;
}

static void what_is_asked_is_read(void **state)
{
    struct region_push push = a_push(), got;
    uint8_t bytes[REGION_PUSH_BYTES];
    size_t count = region_push_encode(&push, bytes);

    (void)state;
    assert_int_equal(decode(bytes, count, &got), NIGH_OK);
    assert_spots_equal(&got.from, &push.from);
    assert_spots_equal(&got.to, &push.to);
    assert_int_equal(got.bytes, push.bytes);
    assert_int_equal(got.node, push.node);
    assert_int_equal(got.incarnation, push.incarnation);
    for (size_t less = 0; less < count; less++)
        assert_int_equal(decode(bytes, less, &got), NIGH_PROTOCOL);
    assert_int_equal(decode(bytes, count + 1, &got), NIGH_PROTOCOL);
}

static void what_nobody_asks_is_not_read(void **state)
{
    static const struct {
        uint32_t at;
        uint8_t value;
    } wrong[] = {
        {2, 2},                         /* more than a piece */
        {16 + 20, LIMIT_REGION_CHUNKS}, /* a chunk that none has */
        {16 + 24, 0},
        {16 + 24, LIMIT_REGION_NAME_BYTES + 1}, /* names */
        {16 + 25, 1},
        {48 + 31, 1},   /* what is zero */
        {48 + 8 + 7, 1} /* an offset behind any chunk */
    };
    struct region_push push = a_push(), got;
    uint8_t bytes[REGION_PUSH_BYTES];
    size_t count = region_push_encode(&push, bytes);

    (void)state;
    for (size_t n = 0; n < sizeof wrong / sizeof wrong[0]; n++) {
        uint8_t was = bytes[wrong[n].at];

        bytes[wrong[n].at] = wrong[n].value;
        assert_int_equal(decode(bytes, count, &got), NIGH_PROTOCOL);
        bytes[wrong[n].at] = was;
    }
    memset(bytes, 0, 8); /* no bytes */
    assert_int_equal(decode(bytes, count, &got), NIGH_PROTOCOL);
    push.from.handle = REGION_NO_WINDOW;
    count = region_push_encode(&push, bytes);
    assert_int_equal(decode(bytes, count, &got), NIGH_PROTOCOL);
}

static void what_is_brought_is_read(void **state)
{
    struct region_spot to = spot_of("there", 1), got;
    uint8_t *bytes = malloc(REGION_PUT_HEAD_BYTES + REGION_PUT_BYTES + 1);
    size_t head, written;

    (void)state;
    assert_non_null(bytes);
    written = region_put_encode(&to, bytes);
    assert_int_equal(region_put_decode(bytes, written + 5, &got, &head), NIGH_OK);
    assert_int_equal(head, written);
    assert_spots_equal(&got, &to);
    assert_int_equal(region_put_decode(bytes, written + REGION_PUT_BYTES, &got, &head), NIGH_OK);
    assert_int_equal(region_put_decode(bytes, written + REGION_PUT_BYTES + 1, &got, &head),
                     NIGH_PROTOCOL);
    for (size_t less = 0; less <= written; less++)
        assert_int_equal(region_put_decode(bytes, less, &got, &head), NIGH_PROTOCOL);
    free(bytes);
}

/* Each word of the destination is of one call, from whichever byte on it all begins. */
static void words_are_not_parted(void **state)
{
    (void)state;
    for (uint64_t offset = 0; offset < 16; offset++) {
        uint64_t at = 0;

        while (at < LIMIT_REGION_COPY_BYTES) {
            uint64_t left = LIMIT_REGION_COPY_BYTES - at;
            uint64_t count = region_put_cut(offset + at, left);

            assert_in_range(count, 1, REGION_PUT_BYTES);
            assert_true(count == left || (offset + at + count) % 8 == 0);
            at += count;
        }
        assert_int_equal(at, LIMIT_REGION_COPY_BYTES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_asked_is_read),
        cmocka_unit_test(what_nobody_asks_is_not_read),
        cmocka_unit_test(what_is_brought_is_read),
        cmocka_unit_test(words_are_not_parted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
