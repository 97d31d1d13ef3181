/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of a session: numbers that nobody else has, and rights that follow the region's. */
#include "region/handles.h"

#include "region_fixture.h"
#include "support/support.h"

#define ROOM 4u

static struct region_handle places[ROOM];
static struct region_handles handles;
static struct region_fixture fixture;
static int region; /* anything with an address */

static struct region_descriptor *begin(void)
{
    struct region_descriptor *descriptor = region_fixture_make(&fixture, 2);

    memset(places, 0xee, sizeof(places));
    region_handles_init(&handles, places, ROOM, 7, 100); /* of the group, which may read */
    return descriptor;
}

static uint64_t open_one(uint32_t rights)
{
    uint64_t number = 0;

    assert_int_equal(
        region_handles_open(&handles, &region, region_fixture_at(&fixture), rights, &number),
        NIGH_OK);
    return number;
}

static nigh_status judge(uint64_t number, uint32_t rights)
{
    struct region_handle *handle = region_handles_find(&handles, number);

    assert_non_null(handle);
    return region_handles_judge(&handles, handle, region_fixture_at(&fixture), rights);
}

static void who_may_not_opens_nothing(void **state)
{
    struct region_descriptor *descriptor = begin();
    uint64_t number = 5;

    (void)state;
    assert_int_equal(region_handles_open(&handles, &region, descriptor, REGION_WRITE, &number),
                     NIGH_DENIED);
    assert_int_equal(
        region_handles_open(&handles, &region, descriptor, REGION_READ | REGION_WRITE, &number),
        NIGH_DENIED);
    assert_int_equal(region_handles_open(&handles, &region, descriptor, 0, &number), NIGH_INVALID);
    assert_int_equal(region_handles_open(&handles, &region, descriptor, 8, &number), NIGH_INVALID);
    assert_int_equal(number, 5);
}

static void a_number_is_of_one_opening(void **state)
{
    uint64_t first, second;

    (void)state;
    begin();
    first = open_one(REGION_READ);
    assert_null(region_handles_find(&handles, first + 1));
    assert_null(region_handles_find(&handles, 0));
    assert_null(region_handles_find(&handles, UINT64_MAX));
    assert_int_equal(region_handles_close(&handles, first), NIGH_OK);
    assert_null(region_handles_find(&handles, first));
    assert_int_equal(region_handles_close(&handles, first), NIGH_INVALID);
    second = open_one(REGION_READ);
    assert_int_equal((uint32_t)second, (uint32_t)first); /* the same place */
    assert_null(region_handles_find(&handles, first));
    assert_non_null(region_handles_find(&handles, second));
}

static void as_many_as_there_are_places(void **state)
{
    uint64_t numbers[ROOM], number;

    (void)state;
    begin();
    for (uint32_t n = 0; n < ROOM; n++) {
        numbers[n] = open_one(REGION_READ);
    }
    assert_int_equal(
        region_handles_open(&handles, &region, region_fixture_at(&fixture), REGION_READ, &number),
        NIGH_LIMIT);
    assert_int_equal(region_handles_close(&handles, numbers[2]), NIGH_OK);
    places[2].uses = UINT32_MAX - 1;
    number = open_one(REGION_READ);
    assert_int_equal(region_handles_close(&handles, number), NIGH_OK); /* never used again */
    assert_int_equal(
        region_handles_open(&handles, &region, region_fixture_at(&fixture), REGION_READ, &number),
        NIGH_LIMIT);
}

static void rights_follow_the_descriptor(void **state)
{
    struct region_descriptor *descriptor = begin();
    uint64_t number = open_one(REGION_READ);

    (void)state;
    assert_int_equal(judge(number, REGION_READ), NIGH_OK);
    assert_int_equal(judge(number, REGION_WRITE), NIGH_DENIED);
    descriptor->group_rights = 0;
    descriptor->version.counter++;
    assert_int_equal(judge(number, REGION_READ), NIGH_DENIED);
    assert_int_equal(region_descriptor_grant(descriptor, 7, REGION_ALL, 0), NIGH_OK);
    descriptor->version.counter++;
    assert_int_equal(judge(number, REGION_READ), NIGH_OK);
    assert_int_equal(judge(number, REGION_WRITE), NIGH_DENIED); /* not opened for it */
}

static void another_region_of_the_name_is_not_it(void **state)
{
    struct region_descriptor *descriptor = begin();
    uint64_t number = open_one(REGION_READ);

    (void)state;
    descriptor->version.counter += 2;
    descriptor->birth.counter += 2;
    assert_int_equal(judge(number, REGION_READ), NIGH_NOT_FOUND);
    descriptor = region_fixture_make(&fixture, 2);
    descriptor->flags = REGION_FREED;
    assert_int_equal(judge(number, REGION_READ), NIGH_NOT_FOUND);
    region_descriptor_clear(descriptor);
    assert_int_equal(judge(number, REGION_READ), NIGH_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_may_not_opens_nothing),
        cmocka_unit_test(a_number_is_of_one_opening),
        cmocka_unit_test(as_many_as_there_are_places),
        cmocka_unit_test(rights_follow_the_descriptor),
        cmocka_unit_test(another_region_of_the_name_is_not_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
