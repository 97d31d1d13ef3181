/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON as it goes, to standard output or a file: no tree, no memory. Names and strings are
 * escaped; bytes that are not UTF-8 come out as U+FFFD, so that the output always parses, and names
 * have their bytes beside it then. Numbers are integers or finite doubles.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_DEPTH_MAX 8

/* Zeroed, it writes to standard output, for people too. */
struct json {
    FILE *file;    /* NULL: standard output */
    bool is_dense; /* no lines, no blanks */
    int depth;
    bool first[JSON_DEPTH_MAX];
};

/* key is NULL inside an array and at the top. */
void json_object_open(struct json *json, const char *key);
void json_object_close(struct json *json);
void json_array_open(struct json *json, const char *key);
void json_array_close(struct json *json);
void json_string(struct json *json, const char *key, const char *value);
/* "name"; and of one that is not UTF-8 "name_hex" as well, its bytes in hexadecimal digits. */
void json_name(struct json *json, const char *name);
void json_u64(struct json *json, const char *key, uint64_t value);
void json_i64(struct json *json, const char *key, int64_t value);
void json_double(struct json *json, const char *key, double value);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);

/* Bytes of the UTF-8 sequence that a text begins with; 0: it is none. */
size_t json_utf8_length(const char *text);

#endif
