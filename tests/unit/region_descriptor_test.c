/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: versions, rights, what is valid, and their bytes, of which each means one thing. */
#include "region/descriptor.h"

#include "region_fixture.h"
#include "support/support.h"

static void later_versions_are_greater(void **state)
{
    const struct region_version versions[] = {
        {0, 0, 0}, {1, 1, 1}, {1, 1, 2}, {1, 2, 1}, {2, 1, 1}, {2, 1, UINT64_MAX}, {3, 0, 1},
    };

    (void)state;
    for (uint32_t a = 0; a < 7; a++) {
        for (uint32_t b = 0; b < 7; b++) {
            int order = region_version_compare(&versions[a], &versions[b]);

            assert_int_equal((order > 0) - (order < 0), (a > b) - (a < b));
        }
    }
}

static void rights_are_the_owners_a_users_the_groups_or_all_others(void **state)
{
    struct region_fixture fixture;
    struct region_descriptor *descriptor = region_fixture_make(&fixture, 2);

    (void)state;
    assert_int_equal(region_descriptor_rights(descriptor, REGION_FIXTURE_OWNER, 9), REGION_ALL);
    assert_int_equal(region_descriptor_rights(descriptor, 7, 100), REGION_READ);
    assert_int_equal(region_descriptor_rights(descriptor, 7, 9), 0);
    assert_int_equal(region_descriptor_rights(descriptor, REGION_ROOT, 9), REGION_ALL);
    assert_int_equal(region_descriptor_grant(descriptor, 7, REGION_WRITE, 0), NIGH_OK);
    assert_int_equal(region_descriptor_rights(descriptor, 7, 100), REGION_READ | REGION_WRITE);
    assert_int_equal(region_descriptor_rights(descriptor, 7, 9), REGION_WRITE);
    /* Another master's change stays. */
    assert_int_equal(region_descriptor_grant(descriptor, 7, REGION_MASTER, 0), NIGH_OK);
    assert_int_equal(region_descriptor_grant(descriptor, 7, 0, REGION_WRITE), NIGH_OK);
    assert_int_equal(region_descriptor_rights(descriptor, 7, 9), REGION_MASTER);
    assert_int_equal(region_descriptor_grant(descriptor, 7, 0, REGION_ALL), NIGH_OK);
    assert_int_equal(region_descriptor_rights(descriptor, 7, 100), REGION_READ); /* its group's */
    assert_int_equal(descriptor->grant_count, 0);
    assert_int_equal(region_descriptor_grant(descriptor, REGION_FIXTURE_OWNER, 0, REGION_READ),
                     NIGH_INVALID);
    assert_int_equal(region_descriptor_grant(descriptor, REGION_NO_USER, REGION_READ, 0),
                     NIGH_INVALID);
    assert_int_equal(region_descriptor_grant(descriptor, REGION_NO_USER - 1, REGION_READ, 0),
                     NIGH_OK);
    assert_int_equal(region_descriptor_grant(descriptor, REGION_NO_USER - 1, 0, REGION_READ),
                     NIGH_OK);
    assert_int_equal(region_descriptor_grant(descriptor, 8, 8, 0), NIGH_INVALID);
    assert_int_equal(region_descriptor_grant(descriptor, 8, 0, 8), NIGH_INVALID);
}

static void as_many_users_as_there_is_room_for(void **state)
{
    struct region_fixture fixture;
    struct region_descriptor *descriptor = region_fixture_make(&fixture, 1);

    (void)state;
    for (uint32_t n = LIMIT_REGION_GRANTS; n > 0; n--) {
        assert_int_equal(region_descriptor_grant(descriptor, n * 2, REGION_READ, 0), NIGH_OK);
        assert_true(region_descriptor_is_valid(descriptor)); /* in order, however they came */
    }
    assert_int_equal(region_descriptor_grant(descriptor, 5, REGION_READ, 0), NIGH_LIMIT);
    assert_int_equal(region_descriptor_grant(descriptor, 6, REGION_WRITE, REGION_READ), NIGH_OK);
    for (uint32_t n = 1; n <= LIMIT_REGION_GRANTS; n++) {
        assert_int_equal(region_descriptor_rights(descriptor, n * 2, 0),
                         n == 3 ? REGION_WRITE : REGION_READ);
    }
    /* Who has nothing left makes room for another. */
    assert_int_equal(region_descriptor_grant(descriptor, 2, 0, REGION_READ), NIGH_OK);
    assert_int_equal(region_descriptor_grant(descriptor, 5, REGION_READ, 0), NIGH_OK);
    assert_true(region_descriptor_is_valid(descriptor));
}

static void what_is_written_is_read(void **state)
{
    struct region_fixture fixture, other;
    struct region_descriptor *descriptor = region_fixture_make(&fixture, 5);
    uint8_t bytes[REGION_WIRE_BYTES], again[REGION_WIRE_BYTES];
    size_t size_bytes;

    (void)state;
    assert_int_equal(region_descriptor_grant(descriptor, 3, REGION_WRITE, 0), NIGH_OK);
    descriptor->chunks[1].incarnation = UINT32_MAX;
    region_chunk_lose(&descriptor->chunks[2]);
    size_bytes = region_descriptor_encode(descriptor, bytes);
    assert_int_equal(size_bytes, 88 + 3 + 8 + 5 * 20);
    memset(&other, 0xee, sizeof(other));
    assert_int_equal(region_descriptor_decode(bytes, size_bytes, 5, region_fixture_at(&other)),
                     NIGH_OK);
    assert_int_equal(region_descriptor_encode(region_fixture_at(&other), again), size_bytes);
    assert_memory_equal(bytes, again, size_bytes);
    assert_int_equal(region_fixture_at(&other)->chunks[0].incarnation, 7);
    assert_int_equal(region_fixture_at(&other)->chunks[1].incarnation, UINT32_MAX);
    assert_int_equal(region_fixture_at(&other)->chunks[2].node, REGION_NOBODY);
    assert_int_equal(region_fixture_at(&other)->chunks[4].handle.address, 54);
    assert_int_equal(region_descriptor_decode(bytes, size_bytes, 4, region_fixture_at(&other)),
                     NIGH_LIMIT);
    assert_true(region_descriptor_is_none(region_fixture_at(&other)));
}

/* Any byte that is changed is refused, or is another descriptor that is valid. */
static void nothing_else_is_read(void **state)
{
    struct region_fixture fixture, other;
    struct region_descriptor *descriptor = region_fixture_make(&fixture, 3);
    uint8_t bytes[REGION_WIRE_BYTES + 1] = {0}, again[REGION_WIRE_BYTES];
    size_t size_bytes;

    (void)state;
    assert_int_equal(region_descriptor_grant(descriptor, 3, REGION_WRITE, 0), NIGH_OK);
    assert_int_equal(region_descriptor_grant(descriptor, 4, REGION_WRITE, 0), NIGH_OK);
    size_bytes = region_descriptor_encode(descriptor, bytes);
    for (size_t n = 0; n <= size_bytes + 1; n++) {
        assert_int_equal(region_descriptor_decode(bytes, n, 8, region_fixture_at(&other)),
                         n == size_bytes ? NIGH_OK : NIGH_PROTOCOL);
    }
    for (size_t bit = 0; bit < size_bytes * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (region_descriptor_decode(bytes, size_bytes, 8, region_fixture_at(&other)) == NIGH_OK) {
            assert_true(region_descriptor_is_valid(region_fixture_at(&other)));
            assert_int_equal(region_descriptor_encode(region_fixture_at(&other), again),
                             size_bytes);
            assert_memory_equal(bytes, again, size_bytes);
        }
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void what_cannot_be_is_not_valid(void **state)
{
    struct region_fixture fixture;
    struct region_descriptor *descriptor;

    (void)state;
#define INVALID(change)                                       \
    do {                                                      \
        descriptor = region_fixture_make(&fixture, 2);        \
        assert_true(region_descriptor_is_valid(descriptor));  \
        change;                                               \
        assert_false(region_descriptor_is_valid(descriptor)); \
    } while (0)
    INVALID(descriptor->version.counter = 0);
    INVALID(descriptor->birth.counter = 3);
    INVALID(descriptor->chunk_count = 1);
    INVALID(descriptor->flags = REGION_FREED); /* it has chunks */
    INVALID(descriptor->flags = 4);
    INVALID(descriptor->other_rights = 8);
    INVALID(descriptor->name_bytes = 0);
    INVALID(descriptor->name_bytes = 2);
    INVALID(descriptor->name_bytes = 4);
    INVALID(descriptor->chunks[1].node = LIMIT_NODES);
    INVALID((descriptor->chunks[1].node = REGION_NOBODY, /* it has a handle, */
             descriptor->chunks[1].incarnation = 0));
    INVALID((descriptor->chunks[1].node = REGION_NOBODY, /* or a life */
             descriptor->chunks[1].handle = REGION_NO_WINDOW));
    INVALID(descriptor->chunks[1].incarnation = 0);
    INVALID((descriptor->grant_count = 1, descriptor->grants[0].uid = REGION_FIXTURE_OWNER,
             descriptor->grants[0].rights = 1));
    INVALID((descriptor->grant_count = 1, descriptor->grants[0].uid = 5)); /* of nothing */
    INVALID((descriptor->grant_count = 2, descriptor->grants[0].uid = 5,
             descriptor->grants[0].rights = descriptor->grants[1].rights = 1,
             descriptor->grants[1].uid = 5));
    INVALID(descriptor->geometry.size_bytes = 8192 * 2 + 1);
#undef INVALID
    descriptor = region_fixture_make(&fixture, 2);
    descriptor->flags = REGION_FREED;
    descriptor->chunk_count = 0;
    assert_true(region_descriptor_is_valid(descriptor));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_versions_are_greater),
        cmocka_unit_test(rights_are_the_owners_a_users_the_groups_or_all_others),
        cmocka_unit_test(as_many_users_as_there_is_room_for),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(nothing_else_is_read),
        cmocka_unit_test(what_cannot_be_is_not_valid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
