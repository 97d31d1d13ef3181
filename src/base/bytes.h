/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes and text: ids in hexadecimal, sizes and durations as people write them, little-endian
 * numbers, bounded copies, and names made fit for a terminal.
 *
 * No locale, no allocation, no errno; any thread.
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include "nigh/status.h"

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define BYTES_ID_TEXT   41 /* an id in hexadecimal, terminated */
#define BYTES_SIZE_TEXT 24 /* what bytes_format_size writes at most, terminated */

/* 2 * size_bytes lower-case digits and a terminator; `out` has room for them. */
void bytes_hex(const void *bytes, size_t size_bytes, char *out);

/* An id as 40 hexadecimal digits, and back: exactly 40, either case, else NIGH_INVALID. */
void bytes_format_id(const uint8_t id[20], char out[BYTES_ID_TEXT]);
nigh_status bytes_parse_id(const char *text, uint8_t out[20]);

/*
 * A size: decimal digits and, without a space, nothing or B (bytes), or K, M, G, T, P of either
 * case alone or followed by iB, all powers of 1024. "MB", which some read as 10^6, is refused.
 * NIGH_INVALID: anything else, no digits, or more than 64 bits.
 */
nigh_status bytes_parse_size(const char *text, uint64_t *size_bytes);

/*
 * A size for people: "512 B", "1.5 GiB"; one decimal, rounded down so that nothing looks larger
 * than it is. For lists and logs: it does not come back through bytes_parse_size.
 */
void bytes_format_size(uint64_t size_bytes, char out[BYTES_SIZE_TEXT]);

/*
 * Two sizes of which a sentence says that one is too much for the other: as bytes_format_size has
 * them, or, where that would make different ones read the same, in bytes ("1073741825 B"). Returns
 * whether it is in bytes.
 */
bool bytes_format_sizes(uint64_t one_bytes, uint64_t other_bytes, char one[BYTES_SIZE_TEXT],
                        char other[BYTES_SIZE_TEXT]);

/*
 * A duration: decimal digits and us, ms, s, m or h; "0" needs no unit. NIGH_INVALID: anything else,
 * or more microseconds than 64 bits hold.
 */
nigh_status bytes_parse_duration(const char *text, uint64_t *duration_us);

/* Copies the text with its terminator, or gives NIGH_LIMIT and leaves `out` alone when it does not
 * fit. */
nigh_status bytes_copy_text(char *out, size_t out_bytes, const char *text);

/*
 * Makes bytes from outside fit for a terminal, a quoted log field or a list: printable UTF-8 stays;
 * a quote and a backslash get a backslash before them; every other byte (controls, what is not
 * UTF-8, and the invisible or direction-changing characters that make one name look like another)
 * becomes \xNN. Stops before what no longer fits; 4 * size_bytes + 1 always suffices. Returns the
 * length written, without the terminator. out_bytes > 0.
 */
size_t bytes_printable(const void *bytes, size_t size_bytes, char *out, size_t out_bytes);

/* The same for a whole sentence, that stands in no quotes: its quotes and backslashes stay. */
size_t bytes_printable_sentence(const void *bytes, size_t size_bytes, char *out, size_t out_bytes);

/* Little-endian numbers at any alignment. */
static inline void bytes_put_u16(uint8_t *out, uint16_t value)
{
    out[0] = (uint8_t)value;
    out[1] = (uint8_t)(value >> 8);
}

static inline void bytes_put_u32(uint8_t *out, uint32_t value)
{
    bytes_put_u16(out, (uint16_t)value);
    bytes_put_u16(out + 2, (uint16_t)(value >> 16));
}

static inline void bytes_put_u64(uint8_t *out, uint64_t value)
{
    bytes_put_u32(out, (uint32_t)value);
    bytes_put_u32(out + 4, (uint32_t)(value >> 32));
}

static inline uint16_t bytes_get_u16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static inline uint32_t bytes_get_u32(const uint8_t *bytes)
{
    return bytes_get_u16(bytes) | (uint32_t)bytes_get_u16(bytes + 2) << 16;
}

static inline uint64_t bytes_get_u64(const uint8_t *bytes)
{
    return bytes_get_u32(bytes) | (uint64_t)bytes_get_u32(bytes + 4) << 32;
}

#endif
