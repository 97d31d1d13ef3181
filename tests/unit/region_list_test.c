/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of regions as bytes (region/list_wire.h): what is written is read, nothing else is, and
 * whatever comes is read to an end, within its bytes.
 */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "region/list_wire.h"

static const struct region_version born = {.epoch = 1, .incarnation = 1, .counter = 1};

static struct region_descriptor *describe(const char *name, uint32_t chunks, uint32_t grants)
{
    struct region_descriptor *made = calloc(1, region_descriptor_bytes(LIMIT_REGION_CHUNKS));

    assert_non_null(made);
    made->version = made->birth = born;
    made->geometry =
        (struct region_geometry){.size_bytes = chunks * UINT64_C(4096) - 1, .chunk_bytes = 4096};
    made->uid = 7;
    made->gid = 8;
    made->group_rights = REGION_READ;
    made->flags = chunks == 1                     ? REGION_DONATED
                  : chunks == LIMIT_REGION_CHUNKS ? REGION_MAPPABLE
                                                  : 0;
    made->name_bytes = (uint8_t)strlen(name);
    memcpy(made->name, name, made->name_bytes);
    made->grant_count = grants;
    for (uint32_t n = 0; n < grants; n++) {
        made->grants[n] = (struct region_grant){.uid = 100 + n, .rights = 1 + n % REGION_ALL};
    }
    made->chunk_count = chunks;
    for (uint32_t n = 0; n < chunks; n++) {
        made->chunks[n] = (struct region_chunk){.node = n % LIMIT_NODES, .incarnation = 1};
        if (n % 5 == 3) {
            region_chunk_lose(&made->chunks[n]);
        }
    }
    assert_true(region_descriptor_is_valid(made));
    return made;
}

/* Of a few regions, one as large as can be. */
static uint32_t write_some(uint8_t *bytes, const char *through)
{
    static const struct {
        const char *name;
        uint32_t chunks, grants;
    } of[] = {{"a", 1, 0},
              {"ab", LIMIT_REGION_CHUNKS, LIMIT_REGION_GRANTS},
              {"b", 2, 1},
              {"\xff\xff", 3, 0}};
    struct region_list_writer to;

    region_list_begin(&to, bytes);
    for (size_t n = 0; n < sizeof of / sizeof of[0]; n++) {
        struct region_descriptor *descriptor = describe(of[n].name, of[n].chunks, of[n].grants);

        assert_true(region_list_put(&to, descriptor, REGION_WRITE));
        free(descriptor);
    }
    return region_list_end(&to, through, through == NULL ? 0 : (uint32_t)strlen(through));
}

/* Reads to the end: how many, and how that was. */
static nigh_status read_all(const uint8_t *bytes, uint32_t count, uint32_t *regions)
{
    struct region_list_reader from;
    struct region_listed listed;
    nigh_status status = region_list_open(&from, bytes, count, "", 0);

    *regions = 0;
    while (status == NIGH_OK && (status = region_list_next(&from, &listed)) == NIGH_OK) {
        assert_in_range(listed.name_bytes, 1, LIMIT_REGION_NAME_BYTES);
        assert_in_range(listed.chunk_count, 1, LIMIT_REGION_CHUNKS);
        assert_in_range(listed.rights, 1, REGION_ALL);
        (*regions)++;
        assert_true(*regions <= 64);
    }
    return status;
}

static void what_is_written_is_read(void **state)
{
    uint8_t bytes[REGION_LIST_BYTES];
    uint32_t count = write_some(bytes, "\xff\xff");
    struct region_list_reader from;
    struct region_listed listed;

    (void)state;
    assert_int_equal(region_list_open(&from, bytes, count, "", 0), NIGH_OK);
    assert_true(from.has_more);
    assert_int_equal(from.through_bytes, 2);
    assert_int_equal(region_list_next(&from, &listed), NIGH_OK);
    assert_true(listed.is_donated && !listed.is_mappable);
    assert_int_equal(region_list_next(&from, &listed), NIGH_OK);
    assert_true(listed.is_mappable && !listed.is_donated);
    assert_int_equal(listed.name_bytes, 2);
    assert_memory_equal(listed.name, "ab", 2);
    assert_int_equal(listed.geometry.size_bytes, LIMIT_REGION_CHUNKS * 4096 - 1);
    assert_int_equal(listed.uid, 7);
    assert_int_equal(listed.gid, 8);
    assert_int_equal(listed.rights, REGION_WRITE);
    assert_int_equal(listed.group_rights, REGION_READ);
    assert_int_equal(listed.grant_count, LIMIT_REGION_GRANTS);
    assert_int_equal(listed.grants[15].uid, 115);
    assert_int_equal(listed.grants[15].rights, 2);
    assert_int_equal(listed.chunk_count, LIMIT_REGION_CHUNKS);
    assert_int_equal(listed.nodes[3], REGION_NOBODY);
    assert_int_equal(listed.nodes[127], 127);
    assert_int_equal(region_list_next(&from, &listed), NIGH_OK);
    assert_int_equal(region_list_next(&from, &listed), NIGH_OK);
    assert_int_equal(region_list_next(&from, &listed), NIGH_NOT_FOUND);
}

static void an_answer_is_bounded(void **state)
{
    uint8_t bytes[REGION_LIST_BYTES + 64];
    struct region_list_writer to;
    uint32_t count = 0, regions, size;
    char name[LIMIT_REGION_NAME_BYTES + 1];
    bool has_room = true;

    (void)state;
    memset(bytes, 0xee, sizeof(bytes));
    region_list_begin(&to, bytes);
    while (has_room) {
        struct region_descriptor *descriptor;

        memset(name, 'x', LIMIT_REGION_NAME_BYTES);
        (void)snprintf(name, sizeof(name), "%06u", count);
        name[6] = 'x';
        name[LIMIT_REGION_NAME_BYTES] = '\0';
        descriptor = describe(name, 9, 3);
        has_room = region_list_put(&to, descriptor, REGION_READ);
        count += has_room ? 1 : 0;
        free(descriptor);
    }
    size = region_list_end(&to, name, LIMIT_REGION_NAME_BYTES);
    assert_true(size <= REGION_LIST_BYTES && size > REGION_LIST_BYTES - 256);
    for (uint32_t n = REGION_LIST_BYTES; n < sizeof(bytes); n++) {
        assert_int_equal(bytes[n], 0xee);
    }
    assert_int_equal(read_all(bytes, size, &regions), NIGH_NOT_FOUND);
    assert_int_equal(regions, count);
}

/* Each part of an answer alone, in memory of its own size; and each with a byte that is another. */
static void whatever_comes_is_read_to_an_end(void **state)
{
    uint8_t whole[REGION_LIST_BYTES];
    uint32_t count = write_some(whole, "\xff\xff"), regions;

    (void)state;
    assert_int_equal(read_all(whole, count, &regions), NIGH_NOT_FOUND);
    for (uint32_t size = 0; size < count; size++) {
        uint8_t *part = malloc(size > 0 ? size : 1);

        assert_non_null(part);
        memcpy(part, whole, size);
        assert_int_equal(read_all(part, size, &regions), NIGH_PROTOCOL);
        free(part);
    }
    for (uint32_t at = 0; at < count; at++) {
        uint8_t *other = malloc(count);

        assert_non_null(other);
        for (uint32_t bit = 0; bit < 8; bit++) {
            memcpy(other, whole, count);
            other[at] ^= (uint8_t)(1u << bit);
            (void)read_all(other, count, &regions);
        }
        free(other);
    }
}

static void what_is_no_answer_is_not_read(void **state)
{
    uint8_t bytes[REGION_LIST_BYTES];
    struct region_list_reader from;
    struct region_list_writer to;
    struct region_descriptor *a = describe("a", 1, 0), *b = describe("b", 1, 0);
    uint32_t count, regions;

    (void)state;
    region_list_begin(&to, bytes); /* not in order */
    assert_true(region_list_put(&to, b, REGION_READ) && region_list_put(&to, a, REGION_READ));
    count = region_list_end(&to, NULL, 0);
    assert_int_equal(read_all(bytes, count, &regions), NIGH_PROTOCOL);
    region_list_begin(&to, bytes); /* twice */
    assert_true(region_list_put(&to, a, REGION_READ) && region_list_put(&to, a, REGION_READ));
    count = region_list_end(&to, NULL, 0);
    assert_int_equal(read_all(bytes, count, &regions), NIGH_PROTOCOL);
    region_list_begin(&to, bytes); /* behind what it tells all up to */
    assert_true(region_list_put(&to, b, REGION_READ));
    count = region_list_end(&to, "a", 1);
    assert_int_equal(read_all(bytes, count, &regions), NIGH_PROTOCOL);
    region_list_begin(&to, bytes); /* not behind what was asked for; or it would go on for ever */
    assert_true(region_list_put(&to, b, REGION_READ));
    count = region_list_end(&to, "c", 1);
    assert_int_equal(region_list_open(&from, bytes, count, "c", 1), NIGH_PROTOCOL);
    assert_int_equal(region_list_open(&from, bytes, count, "b", 1), NIGH_OK);
    assert_int_equal(region_list_next(&from, &(struct region_listed){0}), NIGH_PROTOCOL);
    free(a);
    free(b);
}

static void asks_are_read_strictly(void **state)
{
    struct region_list_ask ask = {.epoch = 3, .uid = 4, .gid = 5, .after_bytes = 2, .after = "xy"};
    uint8_t bytes[REGION_LIST_ASK_BYTES + 1] = {0};
    struct region_list_ask read;
    size_t count = region_list_ask_encode(&ask, bytes);

    (void)state;
    assert_int_equal(count, 18);
    assert_int_equal(region_list_ask_decode(bytes, count, &read), NIGH_OK);
    assert_int_equal(read.epoch, 3);
    assert_int_equal(read.uid, 4);
    assert_int_equal(read.gid, 5);
    assert_int_equal(read.after_bytes, 2);
    assert_memory_equal(read.after, ask.after, sizeof(ask.after));
    assert_int_equal(region_list_ask_decode(bytes, 16, &read), NIGH_OK);
    assert_int_equal(read.after_bytes, 0);
    assert_int_equal(region_list_ask_decode(bytes, 15, &read), NIGH_PROTOCOL);
    assert_int_equal(region_list_ask_decode(bytes, 19, &read), NIGH_PROTOCOL); /* a zero */
    memset(bytes, 'n', sizeof(bytes));
    assert_int_equal(region_list_ask_decode(bytes, REGION_LIST_ASK_BYTES, &read), NIGH_OK);
    assert_int_equal(region_list_ask_decode(bytes, sizeof(bytes), &read), NIGH_PROTOCOL);
}

static void names_are_in_the_order_of_bytes(void **state)
{
    (void)state;
    assert_true(region_name_compare("a", 1, "b", 1) < 0);
    assert_true(region_name_compare("a", 1, "ab", 2) < 0);
    assert_true(region_name_compare("b", 1, "ab", 2) > 0);
    assert_true(region_name_compare("", 0, "\x01", 1) < 0);
    assert_true(region_name_compare("\xff", 1, "a", 1) > 0);
    assert_int_equal(region_name_compare("ab", 2, "ab", 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(an_answer_is_bounded),
        cmocka_unit_test(whatever_comes_is_read_to_an_end),
        cmocka_unit_test(what_is_no_answer_is_not_read),
        cmocka_unit_test(asks_are_read_strictly),
        cmocka_unit_test(names_are_in_the_order_of_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
