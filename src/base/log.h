/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log sink: one line an event, in logfmt, to a function that the program chooses. Silent until
 * then: a library never prints.
 *
 * A file that logs says who it is before it includes this header: #define LOG_MODULE "session".
 * Each place that logs has its own budget of lines a second; what goes beyond is counted and told
 * on the place's next line. Logging takes no lock, allocates nothing and keeps errno; any thread
 * may log.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_LINE_BYTES     1024 /* the longest line; a longer one is cut, with "..." there */
#define LOG_LINES_A_SECOND 10   /* lines one place may log in a second */

#define LOG_TIME_BYTES 48 /* room for a time as log_format_time writes it */

enum log_level {
    LOG_LEVEL_ERROR, /* something failed that was asked for */
    LOG_LEVEL_WARN,  /* something is wrong, and was dealt with */
    LOG_LEVEL_INFO,  /* what an operator wants to know of a healthy node */
    LOG_LEVEL_DEBUG,
};

/*
 * Takes one line, terminated, without newline, of `length` bytes. May be called by several threads
 * at once; does not log.
 */
typedef void log_write_function(void *context, enum log_level level, const char *line,
                                size_t length);

struct log_sink {
    log_write_function *write;
    void *context;
};

/*
 * From now on lines go to *sink (NULL: nowhere), which must live until the program ends, or until
 * nothing logs any more: a line under way may still go to the sink before. Any thread.
 */
void log_set_sink(const struct log_sink *sink);

/* Lines above this level are dropped unformatted. LOG_LEVEL_INFO at first. Any thread. */
void log_set_level(enum log_level level);

/* "error", "warn", "info", "debug". */
const char *log_level_name(enum log_level level);

/* The level of that name; false, *level untouched, when there is none. */
bool log_level_parse(const char *name, enum log_level *level);

/* "2026-11-20T20:02:11.000042Z" of nanoseconds since 1970; returns the length. */
size_t log_format_time(uint64_t wall_ns, char out[LOG_TIME_BYTES]);

/* The budget of one place. Zeroed: a full one. */
struct log_site {
    _Atomic uint64_t window;  /* second << 32 | lines asked for in that second */
    _Atomic uint32_t dropped; /* since the last line that was let through */
};

/*
 * Whether this place may log a line in this second; *dropped is then how many were not let through
 * since the last. Lock-free; part of log_write, here for its test.
 */
bool log_site_admit(struct log_site *site, uint64_t now_us, uint32_t *dropped);

/* Whether a line of this level would go anywhere. */
bool log_is_enabled(enum log_level level);

/* Formats and hands over one line; the macros below call it. `fields` begins with a space. */
__attribute__((format(printf, 5, 6))) void log_write(struct log_site *site, enum log_level level,
                                                     const char *module, const char *message,
                                                     const char *fields, ...);

/* Writes `text` as it stands between the quotes of a field (bytes_printable); returns `out`. */
const char *log_quote(const char *text, char out[LOG_LINE_BYTES]);

/* A text that may have quotes in it, for \"%s\" in the fields of the macros below. */
#define LOG_QUOTE(text) log_quote((text), (char[LOG_LINE_BYTES]){0})

/*
 * LOG_INFO("pool made", "pool=%u name=\"%s\"", number, LOG_QUOTE(name)). The message is a constant
 * without quotes, the fields are key=value pairs of one format string, or absent. Control bytes
 * come out as '?'; what is not a word of the program's own is quoted so, or went through
 * bytes_printable before.
 *
 * An error and a warning have a last field, do=\"...\", for whoever reads it: what to change, or,
 * where nobody can change anything, "nothing: " and what the node has done by itself
 * (tools/check-log).
 */
#define LOG_ERROR(message, ...) LOG_AT(LOG_LEVEL_ERROR, message, " " __VA_ARGS__)
#define LOG_WARN(message, ...)  LOG_AT(LOG_LEVEL_WARN, message, " " __VA_ARGS__)
#define LOG_INFO(message, ...)  LOG_AT(LOG_LEVEL_INFO, message, " " __VA_ARGS__)
#define LOG_DEBUG(message, ...) LOG_AT(LOG_LEVEL_DEBUG, message, " " __VA_ARGS__)

#define LOG_AT(level, message, ...)                                              \
    do {                                                                         \
        static struct log_site log_site_;                                        \
        if (log_is_enabled(level))                                               \
            log_write(&log_site_, (level), LOG_MODULE, "" message, __VA_ARGS__); \
    } while (0)

#endif
