/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON writer: see json.h. */
#include "base/json.h"

#include <inttypes.h>

#include "base/check.h"

size_t json_utf8_length(const char *bytes)
{
    const unsigned char *text = (const unsigned char *)bytes;
    size_t length = text[0] < 0x80                      ? 1
                    : text[0] >= 0xc2 && text[0] < 0xe0 ? 2
                    : text[0] >= 0xe0 && text[0] < 0xf0 ? 3
                    : text[0] >= 0xf0 && text[0] < 0xf5 ? 4
                                                        : 0;

    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((text[0] == 0xe0 && length == 3 && text[1] < 0xa0) ||
        (text[0] == 0xed && length == 3 && text[1] > 0x9f) ||
        (text[0] == 0xf0 && length == 4 && text[1] < 0x90) ||
        (text[0] == 0xf4 && length == 4 && text[1] > 0x8f)) {
        return 0;
    }
    return length;
}

static FILE *file_of(const struct json *json)
{
    return json->file != NULL ? json->file : stdout;
}

static void put_text(FILE *file, const char *value)
{
    const unsigned char *text = (const unsigned char *)value;

    putc('"', file);
    while (*text != 0) {
        size_t length = json_utf8_length((const char *)text);

        if (*text == '"' || *text == '\\') {
            fprintf(file, "\\%c", *text);
        } else if (*text < 0x20 || *text == 0x7f) {
            fprintf(file, "\\u%04x", *text);
        } else if (length == 0) {
            fputs("\\ufffd", file);
        } else {
            fwrite(text, 1, length, file);
        }
        text += length == 0 ? 1 : length;
    }
    putc('"', file);
}

static void begin_line(const struct json *json)
{
    if (json->is_dense) {
        return;
    }
    putc('\n', file_of(json));
    for (int i = 0; i < json->depth; i++) {
        fputs("  ", file_of(json));
    }
}

/* Comma, line and key before a value. */
static void begin_value(struct json *json, const char *key)
{
    FILE *file = file_of(json);

    if (json->depth > 0) {
        if (!json->first[json->depth - 1]) {
            putc(',', file);
        }
        json->first[json->depth - 1] = false;
        begin_line(json);
    }
    if (key != NULL) {
        put_text(file, key);
        fputs(json->is_dense ? ":" : ": ", file);
    }
}

static void open_level(struct json *json, const char *key, char bracket)
{
    NIGH_ASSERT(json->depth < JSON_DEPTH_MAX);
    begin_value(json, key);
    putc(bracket, file_of(json));
    json->first[json->depth++] = true;
}

static void close_level(struct json *json, char bracket)
{
    NIGH_ASSERT(json->depth > 0);
    json->depth--;
    if (!json->first[json->depth]) {
        begin_line(json);
    }
    putc(bracket, file_of(json));
    if (json->depth == 0) {
        putc('\n', file_of(json));
    }
}

void json_object_open(struct json *json, const char *key)
{
    open_level(json, key, '{');
}

void json_object_close(struct json *json)
{
    close_level(json, '}');
}

void json_array_open(struct json *json, const char *key)
{
    open_level(json, key, '[');
}

void json_array_close(struct json *json)
{
    close_level(json, ']');
}

void json_string(struct json *json, const char *key, const char *value)
{
    begin_value(json, key);
    put_text(file_of(json), value);
}

static bool is_utf8(const char *text)
{
    size_t length = 1;

    for (; *text != 0 && length > 0; text += length) {
        length = json_utf8_length(text);
    }
    return length > 0;
}

void json_name(struct json *json, const char *name)
{
    json_string(json, "name", name);
    if (is_utf8(name)) {
        return;
    }
    begin_value(json, "name_hex");
    putc('"', file_of(json));
    for (const unsigned char *at = (const unsigned char *)name; *at != 0; at++) {
        fprintf(file_of(json), "%02x", *at);
    }
    putc('"', file_of(json));
}

void json_u64(struct json *json, const char *key, uint64_t value)
{
    begin_value(json, key);
    fprintf(file_of(json), "%" PRIu64, value);
}

void json_i64(struct json *json, const char *key, int64_t value)
{
    begin_value(json, key);
    fprintf(file_of(json), "%" PRId64, value);
}

void json_double(struct json *json, const char *key, double value)
{
    begin_value(json, key);
    fprintf(file_of(json), "%.6g", value);
}

void json_bool(struct json *json, const char *key, bool value)
{
    begin_value(json, key);
    fputs(value ? "true" : "false", file_of(json));
}

void json_null(struct json *json, const char *key)
{
    begin_value(json, key);
    fputs("null", file_of(json));
}
