/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of a space alone: peers that say anything, as the fuzz target space-wire has them. */
#include "support/support.h"

#include "base/check.h"
#include "base/random.h"
#include "memory/space_window.h"
#include "space/home.h"
#include "space/wire.h"

#define INPUT_BYTES 3000u
#define INPUTS      300u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void peers_say_anything(void **state)
{
    static uint8_t input[INPUT_BYTES];
    uint64_t seed = support_seed(), end_us = support_now_us() + support_budget_ms(0) * 1000;

    (void)state;
    for (uint64_t n = 0; n < INPUTS || support_now_us() < end_us; n++) {
        struct random random;

        random_init(&random, seed + n);
        random_fill(&random, input, sizeof(input));
        assert_int_equal(LLVMFuzzerTestOneInput(input, sizeof(input)), 0);
    }
}

static void what_is_no_message_is_known_by_its_parts(void **state)
{
    struct space_wire wire = {.kind = SPACE_WIRE_HELLO, .operands = {1, 0}};

    (void)state;
    assert_int_equal(space_wire_check(&wire), NIGH_OK);
    wire.term = SPACE_WIRE_TERMS; /* a home could have no term above it for ever */
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    wire = (struct space_wire){.kind = SPACE_WIRE_HELLO};
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    for (uint32_t kind = SPACE_WIRE_KINDS; kind < 256; kind++) {
        wire = (struct space_wire){.kind = (uint8_t)kind, .operands = {1, 0}};
        assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    }
    wire = (struct space_wire){.kind = SPACE_WIRE_TO_HOME, .event = SPACE_HOME_ASK_ATOMIC};
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    wire.atomic = SPACE_RECORD_SWAP;
    assert_int_equal(space_wire_check(&wire), NIGH_OK);
    wire.address = 4;
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    wire = (struct space_wire){.kind = SPACE_WIRE_TO_HOME, .event = SPACE_HOME_FREE};
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    wire = (struct space_wire){.kind = SPACE_WIRE_ANSWER, .event = SPACE_WIRE_FREE};
    wire.operands[0] = 1; /* no status */
    assert_int_equal(space_wire_check(&wire), NIGH_PROTOCOL);
    wire.operands[0] = (uint64_t)(int64_t)NIGH_INVALID;
    assert_int_equal(space_wire_check(&wire), NIGH_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_say_anything),
        cmocka_unit_test(what_is_no_message_is_known_by_its_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
