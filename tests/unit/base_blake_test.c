/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of names against the numbers that another BLAKE2b-160 (Python's hashlib) gives. */
#include "base/blake.h"
#include "base/bytes.h"
#include "support/support.h"

static void assert_id(const void *bytes, size_t size_bytes, const char *expected)
{
    uint8_t id[20];
    char text[BYTES_ID_TEXT];
    blake_id20(bytes, size_bytes, id);
    bytes_format_id(id, text);
    assert_string_equal(text, expected);
}

static void ids_are_blake2b_of_20_bytes(void **state)
{
    (void)state;
    uint8_t many[1280];
    for (size_t i = 0; i < sizeof(many); i++)
        many[i] = (uint8_t)i;
    assert_id("", 0, "3345524abf6bbe1809449224b5972c41790b6cf2");
    assert_id(NULL, 0, "3345524abf6bbe1809449224b5972c41790b6cf2");
    assert_id("abc", 3, "384264f676f39536840523f284921cdc68b6846b");
    assert_id("models/llama/weights", 20, "33266bccde07df0d9b2e7b3e6012a380990e68ce");
    assert_id(many, sizeof(many), "72956584b960c10c1dfa20fd6ea8c72cddb4cca3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_blake2b_of_20_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
