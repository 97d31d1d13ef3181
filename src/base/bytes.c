/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing and formatting by hand: what libc offers takes signs, spaces, locales and wrapped
 * numbers. */
#include "base/bytes.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdio.h>

void bytes_hex(const void *bytes, size_t size_bytes, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *in = bytes;
    for (size_t i = 0; i < size_bytes; i++) {
        out[2 * i] = digits[in[i] >> 4];
        out[2 * i + 1] = digits[in[i] & 15];
    }
    out[2 * size_bytes] = '\0';
}

void bytes_format_id(const uint8_t id[20], char out[BYTES_ID_TEXT])
{
    bytes_hex(id, 20, out);
}

/* The value of a hexadecimal digit, or -1. */
static int bytes_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

nigh_status bytes_parse_id(const char *text, uint8_t out[20])
{
    uint8_t id[20];
    for (size_t i = 0; i < sizeof(id); i++) {
        int high = bytes_hex_digit(text[2 * i]);
        /* A terminator is no digit: what lies behind it is not looked at. */
        int low = high < 0 ? -1 : bytes_hex_digit(text[2 * i + 1]);
        if (low < 0)
            return NIGH_INVALID;
        id[i] = (uint8_t)(high << 4 | low);
    }
    if (text[2 * sizeof(id)] != '\0')
        return NIGH_INVALID;
    memcpy(out, id, sizeof(id));
    return NIGH_OK;
}

/* Reads decimal digits, at least one; returns what follows them, or NULL. */
static const char *bytes_parse_digits(const char *text, uint64_t *value)
{
    if (*text < '0' || *text > '9')
        return NULL;
    uint64_t number = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (!checked_mul_u64(number, 10, &number) ||
            !checked_add_u64(number, (uint64_t)(*text - '0'), &number))
            return NULL;
    }
    *value = number;
    return text;
}

nigh_status bytes_parse_size(const char *text, uint64_t *size_bytes)
{
    static const char prefixes[] = "kmgtp";
    uint64_t number;
    const char *suffix = bytes_parse_digits(text, &number);
    if (suffix == NULL)
        return NIGH_INVALID;
    uint64_t unit = 1;
    if (*suffix != '\0' && strcmp(suffix, "B") != 0) {
        const char *prefix = strchr(prefixes, *suffix | 0x20);
        if (prefix == NULL || (suffix[1] != '\0' && strcmp(suffix + 1, "iB") != 0))
            return NIGH_INVALID;
        unit = UINT64_C(1) << (10 * (prefix - prefixes + 1));
    }
    return checked_mul_u64(number, unit, size_bytes) ? NIGH_OK : NIGH_INVALID;
}

void bytes_format_size(uint64_t size_bytes, char out[BYTES_SIZE_TEXT])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned power = 0;
    while (power + 1 < ARRAY_LENGTH(units) && size_bytes >> (10 * (power + 1)) > 0)
        power++;
    uint64_t whole = size_bytes >> (10 * power);
    if (power == 0) {
        snprintf(out, BYTES_SIZE_TEXT, "%u %s", (unsigned)whole, units[0]);
        return;
    }
    /* The ten bits below the whole part decide the decimal. */
    uint64_t rest = (size_bytes >> (10 * (power - 1))) & 1023;
    snprintf(out, BYTES_SIZE_TEXT, "%u.%u %s", (unsigned)whole, (unsigned)(rest * 10 / 1024),
             units[power]);
}

bool bytes_format_sizes(uint64_t one_bytes, uint64_t other_bytes, char one[BYTES_SIZE_TEXT],
                        char other[BYTES_SIZE_TEXT])
{
    bytes_format_size(one_bytes, one);
    bytes_format_size(other_bytes, other);
    if (one_bytes == other_bytes || strcmp(one, other) != 0)
        return false;
    snprintf(one, BYTES_SIZE_TEXT, "%" PRIu64 " B", one_bytes);
    snprintf(other, BYTES_SIZE_TEXT, "%" PRIu64 " B", other_bytes);
    return true;
}

nigh_status bytes_parse_duration(const char *text, uint64_t *duration_us)
{
    static const struct {
        const char *name;
        uint64_t us;
    } units[] = {
        {"us", 1}, {"ms", 1000}, {"s", 1000000}, {"m", 60000000}, {"h", UINT64_C(3600000000)},
    };
    uint64_t number;
    const char *unit = bytes_parse_digits(text, &number);
    if (unit == NULL)
        return NIGH_INVALID;
    if (*unit == '\0' && number == 0) {
        *duration_us = 0;
        return NIGH_OK;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(units); i++) {
        if (strcmp(unit, units[i].name) == 0)
            return checked_mul_u64(number, units[i].us, duration_us) ? NIGH_OK : NIGH_INVALID;
    }
    return NIGH_INVALID;
}

nigh_status bytes_copy_text(char *out, size_t out_bytes, const char *text)
{
    size_t length = strnlen(text, out_bytes);
    if (length == out_bytes)
        return NIGH_LIMIT;
    memcpy(out, text, length + 1);
    return NIGH_OK;
}

/*
 * Decodes one character of well-formed UTF-8 (Unicode 15, table 3-7); returns its length, or 0 when
 * the bytes are none: cut off, overlong, a surrogate, or beyond U+10FFFF.
 */
static size_t bytes_decode_utf8(const uint8_t *in, size_t size_bytes, uint32_t *code_point)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = in[0] < 0x80 ? 1 : in[0] < 0xc0 ? 0 : in[0] < 0xe0 ? 2 : in[0] < 0xf0 ? 3 : 4;
    if (length == 0 || length > size_bytes || in[0] > 0xf4)
        return 0;
    uint32_t code = length == 1 ? in[0] : in[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((in[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (in[i] & 0x3f);
    }
    if (code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    *code_point = code;
    return length;
}

/* Whether a character shows what it is: no control, nothing invisible, nothing that turns the text.
 */
static bool bytes_is_visible(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } hidden[] = {
        {0x00, 0x1f},        /* C0 controls */
        {0x7f, 0x9f},        /* delete, C1 controls */
        {0xa0, 0xa0},        /* a space that is none */
        {0xad, 0xad},        /* soft hyphen */
        {0x61c, 0x61c},      /* Arabic letter mark */
        {0x115f, 0x1160},    /* Hangul fillers */
        {0x180b, 0x180f},    /* Mongolian variation selectors and vowel separator */
        {0x2000, 0x200f},    /* spaces of other widths, zero width, direction marks */
        {0x2028, 0x202f},    /* line and paragraph separators, embeddings and overrides, space */
        {0x205f, 0x206f},    /* invisible operators, isolates */
        {0x3000, 0x3000},    /* ideographic space */
        {0x3164, 0x3164},    /* Hangul filler */
        {0xe000, 0xf8ff},    /* private use */
        {0xfdd0, 0xfdef},    /* no characters */
        {0xfe00, 0xfe0f},    /* variation selectors */
        {0xfeff, 0xfeff},    /* byte order mark */
        {0xffa0, 0xffa0},    /* halfwidth Hangul filler */
        {0xfff0, 0xffff},    /* annotations, replacement, no characters */
        {0xe0000, 0x10ffff}, /* tags, variation selectors, private use */
    };
    for (size_t i = 0; i < ARRAY_LENGTH(hidden); i++) {
        if (code >= hidden[i].first && code <= hidden[i].last)
            return false;
    }
    return true;
}

static size_t bytes_show(const void *bytes, size_t size_bytes, bool quotes, char *out,
                         size_t out_bytes)
{
    static const char digits[] = "0123456789abcdef";
    NIGH_ASSERT(out_bytes > 0);
    const uint8_t *in = bytes;
    size_t written = 0;
    while (size_bytes > 0) {
        uint32_t code;
        size_t taken = bytes_decode_utf8(in, size_bytes, &code);
        char unit[4];
        size_t unit_bytes;
        if (taken > 0 && quotes && (code == '"' || code == '\\')) {
            unit[0] = '\\';
            unit[1] = (char)code;
            unit_bytes = 2;
        } else if (taken > 0 && bytes_is_visible(code)) {
            memcpy(unit, in, taken);
            unit_bytes = taken;
        } else {
            /* One byte at a time, so that the next character is found again. */
            taken = 1;
            memcpy(unit, (char[]){'\\', 'x', digits[in[0] >> 4], digits[in[0] & 15]}, 4);
            unit_bytes = 4;
        }
        if (unit_bytes >= out_bytes - written)
            break;
        memcpy(out + written, unit, unit_bytes);
        written += unit_bytes;
        in += taken;
        size_bytes -= taken;
    }
    out[written] = '\0';
    return written;
}

size_t bytes_printable(const void *bytes, size_t size_bytes, char *out, size_t out_bytes)
{
    return bytes_show(bytes, size_bytes, true, out, out_bytes);
}

size_t bytes_printable_sentence(const void *bytes, size_t size_bytes, char *out, size_t out_bytes)
{
    return bytes_show(bytes, size_bytes, false, out, out_bytes);
}
