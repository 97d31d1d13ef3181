/* SPDX-License-Identifier: Apache-2.0 */
/* Formatting of log lines on the caller's stack, and the budget of each place. */
#include "base/log.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Atomic(const struct log_sink *) log_current_sink;
static _Atomic int log_current_level = LOG_LEVEL_INFO;

static const char *const log_level_names[] = {
    [LOG_LEVEL_ERROR] = "error",
    [LOG_LEVEL_WARN] = "warn",
    [LOG_LEVEL_INFO] = "info",
    [LOG_LEVEL_DEBUG] = "debug",
};

void log_set_sink(const struct log_sink *sink)
{
    atomic_store(&log_current_sink, sink);
}

void log_set_level(enum log_level level)
{
    atomic_store(&log_current_level, (int)level);
}

const char *log_level_name(enum log_level level)
{
    NIGH_ASSERT((size_t)level < ARRAY_LENGTH(log_level_names));
    return log_level_names[level];
}

bool log_level_parse(const char *name, enum log_level *level)
{
    for (size_t i = 0; i < ARRAY_LENGTH(log_level_names); i++) {
        if (strcmp(name, log_level_names[i]) == 0) {
            *level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

bool log_is_enabled(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&log_current_level, memory_order_relaxed) &&
           atomic_load_explicit(&log_current_sink, memory_order_relaxed) != NULL;
}

bool log_site_admit(struct log_site *site, uint64_t now_us, uint32_t *dropped)
{
    /* Seconds from 1, so that a zeroed site is in no second yet. */
    uint64_t second = (now_us / 1000000 + 1) & UINT32_MAX;
    uint64_t window = atomic_load(&site->window);
    bool is_first = window >> 32 != second &&
                    atomic_compare_exchange_strong(&site->window, &window, second << 32 | 1);
    /*
     * Whoever lost the exchange counts in the winner's second. The count cannot reach the second's
     * bits: that would take 2^32 lines in one second.
     */
    if (!is_first && (uint32_t)atomic_fetch_add(&site->window, 1) >= LOG_LINES_A_SECOND) {
        atomic_fetch_add(&site->dropped, 1);
        return false;
    }
    *dropped = atomic_exchange(&site->dropped, 0);
    return true;
}

const char *log_quote(const char *text, char out[LOG_LINE_BYTES])
{
    (void)bytes_printable(text, strlen(text), out, LOG_LINE_BYTES);
    return out;
}

/* A line under construction, with room for texts that are too long for it: what does not fit even
 * there is cut, and remembered as cut. */
struct log_line {
    char text[4 * LOG_LINE_BYTES];
    size_t length;
    bool is_cut;
};

__attribute__((format(printf, 2, 0))) static void
log_line_append_list(struct log_line *line, const char *format, va_list arguments)
{
    size_t room = sizeof(line->text) - line->length;
    int wanted = vsnprintf(line->text + line->length, room, format, arguments);
    if (wanted < 0 || (size_t)wanted >= room) {
        line->is_cut = true;
        line->length += wanted < 0 ? 0 : room - 1;
        return;
    }
    line->length += (size_t)wanted;
}

__attribute__((format(printf, 2, 3))) static void log_line_append(struct log_line *line,
                                                                  const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_line_append_list(line, format, arguments);
    va_end(arguments);
}

/* The last field, where it says what to do and is no longer than half a line; else the text's end.
 */
static const char *log_line_last(const struct log_line *line)
{
    static const char wanted[] = " do=\"";
    const char *end = line->text + line->length, *last = end;

    for (const char *at = line->text; !line->is_cut && (at = strstr(at, wanted)) != NULL; at++)
        last = at;
    return end - last > LOG_LINE_BYTES / 2 ? end : last;
}

/* Cuts what is too long for a line, with "..." there: before what is to be done, where it says that
 * at its end; a field that is open then is closed. */
static void log_line_shorten(struct log_line *line)
{
    const char *last = log_line_last(line);
    size_t last_bytes = (size_t)(line->text + line->length - last), kept;
    const char *mark = last_bytes > 0 ? "...\"" : "...";
    bool is_open = false;

    kept = LOG_LINE_BYTES - 1 - last_bytes - strlen(mark);
    for (size_t i = 0; i < kept; i++) {
        if (line->text[i] == '\\')
            i++; /* and what it quotes */
        else
            is_open ^= line->text[i] == '"';
    }
    memcpy(line->text + kept, mark, strlen(mark));
    kept += is_open || last_bytes == 0 ? strlen(mark) : strlen(mark) - 1;
    memmove(line->text + kept, last, last_bytes);
    line->length = kept + last_bytes;
}

/* Makes one line of it: no control byte, no space at the end, "..." where it is cut. */
static void log_line_finish(struct log_line *line)
{
    for (size_t i = 0; i < line->length; i++) {
        unsigned char byte = (unsigned char)line->text[i];
        if (byte < 0x20 || byte == 0x7f)
            line->text[i] = '?';
    }
    if (line->is_cut || line->length >= LOG_LINE_BYTES) {
        log_line_shorten(line);
    } else if (line->length > 0 && line->text[line->length - 1] == ' ') {
        line->length--;
    }
    line->text[line->length] = '\0';
}

void log_write(struct log_site *site, enum log_level level, const char *module, const char *message,
               const char *fields, ...)
{
    const struct log_sink *sink = atomic_load_explicit(&log_current_sink, memory_order_acquire);
    uint32_t dropped;
    if (sink == NULL || !log_site_admit(site, clock_now_us(&clock_monotonic), &dropped))
        return;
    int saved = errno;
    struct log_line line;
    line.length = 0;
    line.is_cut = false;
    log_line_append(&line, "level=%s module=%s msg=\"%s\"", log_level_name(level), module, message);
    if (dropped > 0)
        log_line_append(&line, " dropped=%u", dropped);
    errno = saved; /* for %m in the fields */
    va_list arguments;
    va_start(arguments, fields);
    log_line_append_list(&line, fields, arguments);
    va_end(arguments);
    log_line_finish(&line);
    sink->write(sink->context, level, line.text, line.length);
    errno = saved;
}

/* The civil date of a day since 1970 (H. Hinnant, chrono-compatible low-level date algorithms). */
static void log_date(uint64_t days, unsigned *year, unsigned *month, unsigned *day)
{
    uint64_t shifted = days + 719468; /* days since 1 March of year 0 */
    uint64_t era = shifted / 146097;  /* 400 years each */
    unsigned of_era = (unsigned)(shifted % 146097);
    unsigned year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned from_march = (5 * of_year + 2) / 153;
    *day = of_year - (153 * from_march + 2) / 5 + 1;
    *month = from_march < 10 ? from_march + 3 : from_march - 9;
    *year = (unsigned)(era * 400) + year_of_era + (*month <= 2);
}

size_t log_format_time(uint64_t wall_ns, char out[LOG_TIME_BYTES])
{
    /* Not gmtime_r and strftime: both take glibc's time zone lock. */
    uint64_t seconds = wall_ns / 1000000000;
    unsigned year, month, day, of_day = (unsigned)(seconds % 86400);
    log_date(seconds / 86400, &year, &month, &day);
    int length = snprintf(out, LOG_TIME_BYTES, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ", year, month,
                          day, of_day / 3600, of_day / 60 % 60, of_day % 60,
                          (unsigned)(wall_ns % 1000000000 / 1000));
    return (size_t)length;
}
