/* SPDX-License-Identifier: Apache-2.0 */
/* Asks as bytes: each kind as it went in, and nothing that is not written so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "region/ask_wire.h"

static const uint32_t nodes[3] = {4, 0, LIMIT_NODES - 1};

static struct region_ask make(enum region_ask_kind kind)
{
    struct region_ask ask = {.kind = kind, .uid = 1000, .gid = 100, .name = "tab", .name_bytes = 3};

    if (kind == REGION_ASK_CREATE || kind == REGION_ASK_RESIZE) {
        ask.geometry = (struct region_geometry){
            .size_bytes = 12000, .chunk_bytes = kind == REGION_ASK_CREATE ? 4096 : 0};
        ask.nodes = nodes;
        ask.node_count = 3;
    }
    if (kind == REGION_ASK_CREATE) {
        ask.group_rights = REGION_READ;
        ask.other_rights = REGION_READ | REGION_WRITE;
        ask.is_mappable = true;
        ask.donation = UINT64_C(0x123456789a);
    } else {
        ask.birth = (struct region_version){.epoch = 3, .incarnation = 7, .counter = 5};
    }
    if (kind == REGION_ASK_GRANT) {
        ask.whose = REGION_OF_USER;
        ask.user = 1001;
        ask.give = REGION_WRITE;
        ask.take = REGION_MASTER;
    }
    if (kind == REGION_ASK_MOVE) {
        ask.chunk = 2;
        ask.node = 9;
    }
    return ask;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < REGION_ASKS; kind++) {
        struct region_ask ask = make((enum region_ask_kind)kind);
        uint8_t bytes[REGION_ASK_BYTES];
        struct region_asking read;
        size_t count = region_ask_encode(&ask, bytes);

        assert_int_equal(region_ask_decode(bytes, count, &read), NIGH_OK);
        assert_int_equal(read.ask.kind, kind);
        assert_int_equal(read.ask.uid, 1000);
        assert_int_equal(read.ask.gid, 100);
        assert_int_equal(read.ask.name_bytes, 3);
        assert_memory_equal(read.ask.name, "tab", 3);
        assert_int_equal(region_version_compare(&read.ask.birth, &ask.birth), 0);
        assert_int_equal(read.ask.geometry.size_bytes, ask.geometry.size_bytes);
        assert_int_equal(read.ask.geometry.chunk_bytes, ask.geometry.chunk_bytes);
        assert_int_equal(read.ask.node_count, ask.node_count);
        assert_memory_equal(read.ask.nodes, nodes, ask.node_count * sizeof(nodes[0]));
        assert_int_equal(read.ask.group_rights, ask.group_rights);
        assert_int_equal(read.ask.other_rights, ask.other_rights);
        assert_int_equal(read.ask.is_mappable, ask.is_mappable);
        assert_int_equal(read.ask.donation, ask.donation);
        assert_int_equal(read.ask.whose, ask.whose);
        assert_int_equal(read.ask.user, ask.user);
        assert_int_equal(read.ask.give, ask.give);
        assert_int_equal(read.ask.take, ask.take);
        assert_int_equal(read.ask.chunk, ask.chunk);
        assert_int_equal(read.ask.node, ask.node);
        for (size_t n = 0; n < count; n++) {
            assert_int_equal(region_ask_decode(bytes, n, &read), NIGH_PROTOCOL);
        }
    }
}

/* What does not belong to a kind is zero. */
static void nothing_else_is_read(void **state)
{
    static const uint8_t of_kind[REGION_ASKS][10] = {
        /* whose, group, other, give, take, user, chunk, birth or donation, of a birth, mappable */
        [REGION_ASK_CREATE] = {1, 0, 0, 1, 1, 1, 1, 0, 1, 0},
        [REGION_ASK_GRANT] = {1, 1, 1, 0, 0, 0, 1, 0, 0, 1},
        [REGION_ASK_RESIZE] = {1, 1, 1, 1, 1, 1, 1, 0, 0, 1},
        [REGION_ASK_MOVE] = {1, 1, 1, 1, 1, 1, 0, 0, 0, 1},
        [REGION_ASK_FREE] = {1, 1, 1, 1, 1, 1, 1, 0, 0, 1},
    };
    static const uint8_t at[10] = {1, 3, 4, 6, 7, 16, 20, 36, 44, 28};

    (void)state;
    for (uint32_t kind = 0; kind < REGION_ASKS; kind++) {
        struct region_ask ask = make((enum region_ask_kind)kind);
        uint8_t bytes[REGION_ASK_BYTES + 1];
        struct region_asking read;
        size_t count = region_ask_encode(&ask, bytes);

        for (uint32_t n = 0; n < 10; n++) {
            bytes[at[n]] ^= 1;
            assert_int_equal(region_ask_decode(bytes, count, &read),
                             of_kind[kind][n] != 0 ? NIGH_PROTOCOL : NIGH_OK);
            bytes[at[n]] ^= 1;
        }
        bytes[28] ^= 2; /* one is donated, or none: the number says the other */
        assert_int_equal(region_ask_decode(bytes, count, &read), NIGH_PROTOCOL);
        bytes[28] ^= 2;
        bytes[29] = 1; /* what a later format may have there */
        assert_int_equal(region_ask_decode(bytes, count, &read), NIGH_PROTOCOL);
        bytes[29] = 0;
        bytes[0] = REGION_ASKS;
        assert_int_equal(region_ask_decode(bytes, count, &read), NIGH_PROTOCOL);
        bytes[0] = (uint8_t)kind;
        bytes[count] = 0;
        assert_int_equal(region_ask_decode(bytes, count + 1, &read), NIGH_PROTOCOL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(nothing_else_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
