/* SPDX-License-Identifier: Apache-2.0 */
/* Text in and out: what is accepted, what is refused, and that refused input leaves outputs alone.
 */
#include "base/bytes.h"
#include "base/check.h"
#include "base/random.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static void id_survives_text(void **state)
{
    (void)state;
    static const char expected[] = "000102030405060708090a0b0c0d0e0f1011fefF";
    uint8_t id[20], back[20];
    char text[BYTES_ID_TEXT];
    for (int i = 0; i < 18; i++)
        id[i] = (uint8_t)i;
    id[18] = 0xfe;
    id[19] = 0xff;
    bytes_format_id(id, text);
    assert_string_equal(text, "000102030405060708090a0b0c0d0e0f1011feff");
    assert_int_equal(bytes_parse_id(expected, back), NIGH_OK);
    assert_memory_equal(id, back, 20);
}

static void what_is_no_id_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "0",
        "000102030405060708090a0b0c0d0e0f1011fef",
        "000102030405060708090a0b0c0d0e0f1011feff0",
        "000102030405060708090a0b0c0d0e0f1011fefg",
        "000102030405060708090a0b0c0d0e0f1011fe f",
        "0x0102030405060708090a0b0c0d0e0f1011feff",
        "+00102030405060708090a0b0c0d0e0f1011feff",
    };
    uint8_t id[20], before[20];
    memset(id, 7, 20);
    memset(before, 7, 20);
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        /* On the heap-sized copy, a look behind the terminator is seen by the sanitizer. */
        char *copy = strdup(wrong[i]);
        assert_int_equal(bytes_parse_id(copy, id), NIGH_INVALID);
        assert_memory_equal(id, before, 20);
        free(copy);
    }
}

static void sizes_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t size_bytes;
    } sizes[] = {
        {"0", 0},
        {"1", 1},
        {"00012B", 12},
        {"64k", UINT64_C(64) << 10},
        {"64K", UINT64_C(64) << 10},
        {"64KiB", UINT64_C(64) << 10},
        {"512MiB", UINT64_C(512) << 20},
        {"4G", UINT64_C(4) << 30},
        {"4giB", UINT64_C(4) << 30},
        {"3T", UINT64_C(3) << 40},
        {"2P", UINT64_C(2) << 50},
        {"18446744073709551615", UINT64_MAX},
        {"16383P", UINT64_C(16383) << 50},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        uint64_t size_bytes = 9;
        assert_int_equal(bytes_parse_size(sizes[i].text, &size_bytes), NIGH_OK);
        assert_true(size_bytes == sizes[i].size_bytes);
    }
}

static void what_is_no_size_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",       " 1",  "1 ",  "-1",    "+1",    "1.5G",
        "G",      "MiB", "4 G", "4GB",   "4Gb",   "4Gi",
        "4bB",    "4BB", "4E",  "0x10",  "4GiBs", "18446744073709551616",
        "16384P", "1@",  "1\n", "4\x0b", "4GIB",  "99999999999999999999999999",
    };
    uint64_t size_bytes = 9;
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        if (bytes_parse_size(wrong[i], &size_bytes) != NIGH_INVALID)
            print_message("# accepted: %s\n", wrong[i]);
        assert_int_equal(bytes_parse_size(wrong[i], &size_bytes), NIGH_INVALID);
        assert_true(size_bytes == 9);
    }
}

static void sizes_are_shown(void **state)
{
    (void)state;
    static const struct {
        uint64_t size_bytes;
        const char *text;
    } sizes[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1.0 KiB"},
        {1536, "1.5 KiB"},
        {(1 << 20) - 1, "1023.9 KiB"},
        {1 << 20, "1.0 MiB"},
        {UINT64_C(3) << 29, "1.5 GiB"},
        {UINT64_C(5) << 40, "5.0 TiB"},
        {UINT64_C(1023) << 50, "1023.0 PiB"},
        {UINT64_MAX, "15.9 EiB"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        char text[BYTES_SIZE_TEXT];
        bytes_format_size(sizes[i].size_bytes, text);
        assert_string_equal(text, sizes[i].text);
    }
}

static void sizes_that_differ_do_not_read_the_same(void **state)
{
    (void)state;
    static const struct {
        uint64_t one_bytes, other_bytes;
        const char *one, *other;
        bool exact;
    } pairs[] = {
        {1 << 30, 1 << 30, "1.0 GiB", "1.0 GiB", false},
        {(1 << 30) + 1, 1 << 30, "1073741825 B", "1073741824 B", true},
        {1 << 30, (1 << 30) - 1, "1.0 GiB", "1023.9 MiB", false},
        {1024, 1025, "1024 B", "1025 B", true},
        {5, 6, "5 B", "6 B", false},
        {UINT64_MAX, UINT64_MAX - 1, "18446744073709551615 B", "18446744073709551614 B", true},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(pairs); i++) {
        char one[BYTES_SIZE_TEXT], other[BYTES_SIZE_TEXT];
        assert_int_equal(bytes_format_sizes(pairs[i].one_bytes, pairs[i].other_bytes, one, other),
                         pairs[i].exact);
        assert_string_equal(one, pairs[i].one);
        assert_string_equal(other, pairs[i].other);
    }
}

static void durations_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t duration_us;
    } durations[] = {
        {"0", 0},
        {"000", 0},
        {"0s", 0},
        {"50us", 50},
        {"250ms", 250000},
        {"3s", 3000000},
        {"2m", 120000000},
        {"1h", UINT64_C(3600000000)},
        {"18446744073709551615us", UINT64_MAX},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(durations); i++) {
        uint64_t duration_us = 9;
        assert_int_equal(bytes_parse_duration(durations[i].text, &duration_us), NIGH_OK);
        assert_true(duration_us == durations[i].duration_us);
    }
}

static void what_is_no_duration_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "3",
        "s",
        "3 s",
        "3S",
        "3sec",
        "-3s",
        "3.5s",
        "3s ",
        "18446744073709551616us",
        "18446744073709552s",
    };
    uint64_t duration_us = 9;
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        assert_int_equal(bytes_parse_duration(wrong[i], &duration_us), NIGH_INVALID);
        assert_true(duration_us == 9);
    }
}

static void text_is_copied_whole_or_not(void **state)
{
    (void)state;
    char out[6] = "old";
    assert_int_equal(bytes_copy_text(out, sizeof(out), "123456"), NIGH_LIMIT);
    assert_string_equal(out, "old");
    assert_int_equal(bytes_copy_text(out, sizeof(out), "12345"), NIGH_OK);
    assert_string_equal(out, "12345");
    assert_int_equal(bytes_copy_text(out, sizeof(out), ""), NIGH_OK);
    assert_string_equal(out, "");
    assert_int_equal(bytes_copy_text(out, 0, ""), NIGH_LIMIT);
}

static void assert_printable(const char *bytes, size_t size_bytes, const char *expected)
{
    char out[200];
    assert_int_equal(bytes_printable(bytes, size_bytes, out, sizeof(out)), strlen(expected));
    assert_string_equal(out, expected);
}

#define ASSERT_PRINTABLE(literal, expected) assert_printable(literal, sizeof(literal) - 1, expected)

static void visible_text_stays(void **state)
{
    (void)state;
    ASSERT_PRINTABLE("", "");
    ASSERT_PRINTABLE("models/v1 ~weights.bin", "models/v1 ~weights.bin");
    ASSERT_PRINTABLE("Größe 模型 Ελλ 🚀", "Größe 模型 Ελλ 🚀");
}

static void what_could_harm_a_terminal_is_escaped(void **state)
{
    (void)state;
    ASSERT_PRINTABLE("a\x1b[2Jb\n\t\x7f", "a\\x1b[2Jb\\x0a\\x09\\x7f");
    ASSERT_PRINTABLE("nul\0byte", "nul\\x00byte");
    ASSERT_PRINTABLE("say \"x\" \\x1b", "say \\\"x\\\" \\\\x1b");
    ASSERT_PRINTABLE("\xc2\x9b", "\\xc2\\x9b"); /* C1: CSI */
    ASSERT_PRINTABLE("a\xe2\x80\xae"
                     "b",
                     "a\\xe2\\x80\\xaeb"); /* override to right-to-left */
    ASSERT_PRINTABLE("a\xe2\x81\xa6"
                     "b",
                     "a\\xe2\\x81\\xa6"
                     "b"); /* isolate */
    ASSERT_PRINTABLE("a\xe2\x80\x8b"
                     "b",
                     "a\\xe2\\x80\\x8b"
                     "b");                                        /* zero width */
    ASSERT_PRINTABLE("\xef\xbb\xbf", "\\xef\\xbb\\xbf");          /* byte order mark */
    ASSERT_PRINTABLE("\xf3\xa0\x81\x81", "\\xf3\\xa0\\x81\\x81"); /* tag */
}

static void what_is_not_utf8_is_escaped(void **state)
{
    (void)state;
    ASSERT_PRINTABLE("\x80"
                     "a",
                     "\\x80"
                     "a");                                        /* continuation alone */
    ASSERT_PRINTABLE("\xc3", "\\xc3");                            /* cut off */
    ASSERT_PRINTABLE("\xe6\xa8", "\\xe6\\xa8");                   /* cut off */
    ASSERT_PRINTABLE("\xc3(", "\\xc3(");                          /* not continued */
    ASSERT_PRINTABLE("\xc0\xaf", "\\xc0\\xaf");                   /* overlong */
    ASSERT_PRINTABLE("\xe0\x80\xaf", "\\xe0\\x80\\xaf");          /* overlong */
    ASSERT_PRINTABLE("\xf0\x80\x80\xaf", "\\xf0\\x80\\x80\\xaf"); /* overlong */
    ASSERT_PRINTABLE("\xed\xa0\x80", "\\xed\\xa0\\x80");          /* surrogate */
    ASSERT_PRINTABLE("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* beyond U+10FFFF */
    ASSERT_PRINTABLE("\xf8\x88\x80\x80\x80", "\\xf8\\x88\\x80\\x80\\x80");
}

static void a_sentence_keeps_its_quotes(void **state)
{
    (void)state;
    static const char text[] = "no \"pool\" a\\b\n\x1b[31m";
    char out[4 * sizeof(text)];
    size_t length = bytes_printable_sentence(text, sizeof(text) - 1, out, sizeof(out));
    assert_string_equal(out, "no \"pool\" a\\b\\x0a\\x1b[31m");
    assert_int_equal(length, strlen(out));
}

static void printable_text_stops_at_a_whole_character(void **state)
{
    (void)state;
    static const char text[] = "aö\n\"";
    static const char *const expected[] = {
        "", "a", "a", "aö", "aö", "aö", "aö", "aö\\x0a", "aö\\x0a", "aö\\x0a\\\"",
    };
    for (size_t room = 1; room <= ARRAY_LENGTH(expected); room++) {
        char out[16];
        memset(out, '#', sizeof(out));
        size_t length = bytes_printable(text, sizeof(text) - 1, out, room);
        assert_string_equal(out, expected[room - 1]);
        assert_int_equal(length, strlen(out));
        assert_int_equal(out[room], '#');
    }
}

/* Any bytes: the output is one terminated line that fits, and shows nothing of the escaped ranges.
 */
static void any_bytes_become_one_line(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, support_seed());
    for (int round = 0; round < 20000; round++) {
        uint8_t in[24];
        char out[4 * sizeof(in) + 1];
        size_t size = random_below(&random, sizeof(in) + 1);
        random_fill(&random, in, size);
        size_t length = bytes_printable(in, size, out, sizeof(out));
        assert_int_equal(length, strlen(out));
        assert_true(length >= size);
        for (size_t i = 0; i < length; i++)
            assert_true((uint8_t)out[i] >= 0x20 && out[i] != 0x7f);
    }
}

static void numbers_are_little_endian(void **state)
{
    (void)state;
    uint8_t bytes[17] = {0};
    bytes_put_u16(bytes + 1, 0xfedc);
    bytes_put_u32(bytes + 3, 0xba987654);
    bytes_put_u64(bytes + 7, UINT64_C(0xf123456789abcdef));
    static const uint8_t expected[17] = {0,    0xdc, 0xfe, 0x54, 0x76, 0x98, 0xba, 0xef, 0xcd,
                                         0xab, 0x89, 0x67, 0x45, 0x23, 0xf1, 0,    0};
    assert_memory_equal(bytes, expected, sizeof(bytes));
    assert_int_equal(bytes_get_u16(bytes + 1), 0xfedc);
    assert_int_equal(bytes_get_u32(bytes + 3), 0xba987654);
    assert_true(bytes_get_u64(bytes + 7) == UINT64_C(0xf123456789abcdef));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(id_survives_text),
        cmocka_unit_test(what_is_no_id_is_refused),
        cmocka_unit_test(sizes_are_read),
        cmocka_unit_test(what_is_no_size_is_refused),
        cmocka_unit_test(sizes_are_shown),
        cmocka_unit_test(sizes_that_differ_do_not_read_the_same),
        cmocka_unit_test(durations_are_read),
        cmocka_unit_test(what_is_no_duration_is_refused),
        cmocka_unit_test(text_is_copied_whole_or_not),
        cmocka_unit_test(visible_text_stays),
        cmocka_unit_test(what_could_harm_a_terminal_is_escaped),
        cmocka_unit_test(what_is_not_utf8_is_escaped),
        cmocka_unit_test(a_sentence_keeps_its_quotes),
        cmocka_unit_test(printable_text_stops_at_a_whole_character),
        cmocka_unit_test(any_bytes_become_one_line),
        cmocka_unit_test(numbers_are_little_endian),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
