/* SPDX-License-Identifier: Apache-2.0 */
/* The log: its line, its levels, its budget, and that threads may log while the sink changes. */
#define LOG_MODULE "test"
#include "base/log.h"

#include "base/check.h"
#include "base/log_stderr.h"
#include "support/support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* What the sink got: the last line, and how many there were. */
struct capture {
    char line[LOG_LINE_BYTES];
    size_t length;
    enum log_level level;
    _Atomic unsigned count;
};

static void capture_line(void *context, enum log_level level, const char *line, size_t length)
{
    struct capture *capture = context;
    memcpy(capture->line, line, length + 1);
    capture->length = length;
    capture->level = level;
    capture->count++;
    errno = EDOM; /* a sink that leaves errno changed */
}

static struct capture capture;
static const struct log_sink capturing = {capture_line, &capture};

static int start_capture(void **state)
{
    (void)state;
    memset(&capture, 0, sizeof(capture));
    log_set_level(LOG_LEVEL_INFO);
    log_set_sink(&capturing);
    return 0;
}

static int stop_capture(void **state)
{
    (void)state;
    log_set_sink(NULL);
    return 0;
}

static void nothing_is_logged_without_a_sink(void **state)
{
    (void)state;
    log_set_sink(NULL);
    assert_false(log_is_enabled(LOG_LEVEL_ERROR));
    LOG_ERROR("lost");
    assert_int_equal(capture.count, 0);
}

static void line_is_logfmt(void **state)
{
    (void)state;
    LOG_WARN("session expelled", "session=%u reason=\"%s\"", 3u, "pins too much");
    assert_string_equal(
        capture.line,
        "level=warn module=test msg=\"session expelled\" session=3 reason=\"pins too much\"");
    assert_int_equal(capture.length, strlen(capture.line));
    assert_int_equal(capture.level, LOG_LEVEL_WARN);
    LOG_ERROR("bare");
    assert_string_equal(capture.line, "level=error module=test msg=\"bare\"");
    assert_int_equal(capture.length, strlen(capture.line));
}

static void level_decides(void **state)
{
    (void)state;
    LOG_DEBUG("too fine");
    assert_int_equal(capture.count, 0);
    log_set_level(LOG_LEVEL_DEBUG);
    LOG_DEBUG("fine");
    assert_int_equal(capture.count, 1);
    log_set_level(LOG_LEVEL_ERROR);
    LOG_WARN("not now");
    LOG_ERROR("now");
    assert_int_equal(capture.count, 2);
}

static void levels_have_names(void **state)
{
    (void)state;
    enum log_level level = LOG_LEVEL_DEBUG;
    for (int i = LOG_LEVEL_ERROR; i <= LOG_LEVEL_DEBUG; i++) {
        assert_true(log_level_parse(log_level_name((enum log_level)i), &level));
        assert_int_equal(level, i);
    }
    assert_false(log_level_parse("loud", &level));
    assert_int_equal(level, LOG_LEVEL_DEBUG);
}

static void control_bytes_do_not_leave(void **state)
{
    (void)state;
    LOG_INFO("name", "name=\"%s\"", "a\nlevel=error\x1b[2J\x7f");
    assert_string_equal(capture.line,
                        "level=info module=test msg=\"name\" name=\"a?level=error?[2J?\"");
}

static void quotes_in_a_field_do_not_end_it(void **state)
{
    (void)state;
    LOG_INFO("refused", "why=\"%s\" n=1", LOG_QUOTE("no \"a\\b\" here"));
    assert_string_equal(
        capture.line, "level=info module=test msg=\"refused\" why=\"no \\\"a\\\\b\\\" here\" n=1");
}

static void long_line_is_cut_with_a_mark(void **state)
{
    (void)state;
    char text[2 * LOG_LINE_BYTES];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    LOG_INFO("long", "text=%s", text);
    assert_int_equal(capture.length, LOG_LINE_BYTES - 1);
    assert_int_equal(strlen(capture.line), LOG_LINE_BYTES - 1);
    assert_string_equal(capture.line + LOG_LINE_BYTES - 5, "x...");
}

/* What to do is at the end, and is read when a path is long, too. */
static void what_is_to_be_done_is_not_cut(void **state)
{
    static const char end[] = "...\" do=\"make room\"", open[] = "xx... do=\"make room\"";
    char text[8 * LOG_LINE_BYTES];

    (void)state;
    memset(text, 'x', sizeof(text));
    text[2 * LOG_LINE_BYTES] = '\0';
    LOG_WARN("long", "path=\"%s\" n=1 do=\"make room\"", text);
    assert_int_equal(capture.length, LOG_LINE_BYTES - 1);
    assert_int_equal(strlen(capture.line), LOG_LINE_BYTES - 1);
    assert_string_equal(capture.line + LOG_LINE_BYTES - sizeof(end), end);
    LOG_WARN("long", "path=%s do=\"make room\"", text); /* no field is open */
    assert_string_equal(capture.line + strlen(capture.line) - sizeof(open) + 1, open);
    LOG_WARN("long", "n=1 do=\"%s\"", text); /* it is too long itself */
    assert_string_equal(capture.line + LOG_LINE_BYTES - 5, "x...");
    text[2 * LOG_LINE_BYTES] = 'x';
    text[sizeof(text) - 1] = '\0';
    LOG_WARN("long", "path=\"%s\" do=\"make room\"", text); /* beyond all room */
    assert_string_equal(capture.line + LOG_LINE_BYTES - 5, "x...");
}

static void longest_whole_line_is_not_cut(void **state)
{
    (void)state;
    char text[LOG_LINE_BYTES];
    static const char before[] = "level=info module=test msg=\"fits\" ";
    memset(text, 'x', sizeof(text));
    text[LOG_LINE_BYTES - sizeof(before)] = '\0';
    LOG_INFO("fits", "%s", text);
    assert_int_equal(capture.length, LOG_LINE_BYTES - 1);
    assert_string_equal(capture.line + LOG_LINE_BYTES - 4, "xxx");
    text[LOG_LINE_BYTES - sizeof(before)] = 'x';
    text[LOG_LINE_BYTES - sizeof(before) + 1] = '\0';
    LOG_INFO("fits", "%s", text);
    assert_int_equal(capture.length, LOG_LINE_BYTES - 1);
    assert_string_equal(capture.line + LOG_LINE_BYTES - 4, "...");
}

static void errno_survives_and_is_told(void **state)
{
    (void)state;
    errno = ENOENT;
    LOG_INFO("failed", "error=\"%m\"");
    assert_int_equal(errno, ENOENT);
    assert_non_null(strstr(capture.line, "error=\"No such file or directory\""));
}

static void place_has_a_budget_a_second(void **state)
{
    (void)state;
    struct log_site site = {0};
    uint32_t dropped = 99;
    for (int i = 0; i < LOG_LINES_A_SECOND; i++) {
        assert_true(log_site_admit(&site, 500000 + (uint64_t)i, &dropped));
        assert_int_equal(dropped, 0);
    }
    dropped = 99;
    for (int i = 0; i < 7; i++)
        assert_false(log_site_admit(&site, 999999, &dropped));
    assert_int_equal(dropped, 99);
    assert_true(log_site_admit(&site, 1000000, &dropped));
    assert_int_equal(dropped, 7);
    assert_true(log_site_admit(&site, 1000001, &dropped));
    assert_int_equal(dropped, 0);
}

static void dropped_lines_are_told(void **state)
{
    (void)state;
    struct log_site site = {.dropped = 5};
    log_write(&site, LOG_LEVEL_INFO, "test", "again", " a=%d", 1);
    assert_string_equal(capture.line, "level=info module=test msg=\"again\" dropped=5 a=1");
}

/* Threads share one place; the test thread counts what got through and what was dropped. */
enum {
    THREADS = 4,
    CALLS = 5000
};

static void *admit_many(void *site)
{
    uintptr_t admitted = 0, dropped_sum = 0;
    for (int i = 0; i < CALLS; i++) {
        uint32_t dropped;
        if (log_site_admit(site, (uint64_t)i * 1000, &dropped)) {
            admitted++;
            dropped_sum += dropped;
        }
    }
    return (void *)(admitted << 32 | dropped_sum);
}

static void threads_lose_no_count(void **state)
{
    (void)state;
    struct log_site site = {0};
    pthread_t threads[THREADS];
    uint64_t admitted = 0, dropped = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, admit_many, &site), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        admitted += (uint64_t)(uintptr_t)result >> 32;
        dropped += (uint32_t)(uintptr_t)result;
    }
    assert_int_equal(admitted + dropped + atomic_load(&site.dropped), THREADS * CALLS);
    /* Clocks of different threads may be in different seconds: each change opens a new budget. */
    assert_true(admitted >= (uint64_t)LOG_LINES_A_SECOND * (CALLS / 1000));
}

static void count_line(void *context, enum log_level level, const char *line, size_t length)
{
    (void)level;
    if (strlen(line) == length && strncmp(line, "level=info", 10) == 0)
        atomic_fetch_add((_Atomic unsigned *)context, 1);
}

static _Atomic bool keep_logging;

static void *log_many(void *unused)
{
    (void)unused;
    while (atomic_load(&keep_logging)) {
        struct log_site site = {0};
        log_write(&site, LOG_LEVEL_INFO, "test", "busy", " ");
    }
    return NULL;
}

static void sink_changes_under_way(void **state)
{
    (void)state;
    static _Atomic unsigned counts[2];
    static const struct log_sink sinks[] = {{count_line, &counts[0]}, {count_line, &counts[1]}};
    pthread_t threads[2];
    log_set_sink(&sinks[1]); /* the capturing one is for a single thread */
    atomic_store(&keep_logging, true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, NULL), 0);
    bool both_heard = true;
    for (int i = 0; i < 20; i++) {
        unsigned before = atomic_load(&counts[i % 2]);
        log_set_sink(&sinks[i % 2]);
        both_heard &= SUPPORT_WAIT(atomic_load(&counts[i % 2]) > before, 10000);
    }
    atomic_store(&keep_logging, false);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_true(both_heard);
}

static void time_is_written_in_utc(void **state)
{
    (void)state;
    static const struct {
        uint64_t seconds;
        const char *text;
    } times[] = {
        {0, "1970-01-01T00:00:00.000000Z"},          {951782399, "2000-02-28T23:59:59.000000Z"},
        {951782400, "2000-02-29T00:00:00.000000Z"},  {951868800, "2000-03-01T00:00:00.000000Z"},
        {1798761599, "2026-12-31T23:59:59.000000Z"}, {4107542400, "2100-03-01T00:00:00.000000Z"},
    };
    char text[LOG_TIME_BYTES];
    for (size_t i = 0; i < ARRAY_LENGTH(times); i++) {
        assert_int_equal(log_format_time(times[i].seconds * 1000000000, text), 27);
        assert_string_equal(text, times[i].text);
    }
    log_format_time(UINT64_C(1000042999), text);
    assert_string_equal(text, "1970-01-01T00:00:01.000042Z");
}

static int log_to_stderr(void *pipe_end)
{
    dup2(*(int *)pipe_end, STDERR_FILENO);
    log_set_sink(log_stderr_open());
    LOG_INFO("hello", "a=1");
    return 0;
}

static void stderr_sink_writes_one_line(void **state)
{
    (void)state;
    int ends[2];
    char text[256] = "";
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(support_join(support_fork(log_to_stderr, &ends[1]), 20000), 0);
    close(ends[1]);
    ssize_t length = read(ends[0], text, sizeof(text) - 1);
    close(ends[0]);
    static const char line[] = "Z level=info module=test msg=\"hello\" a=1\n";
    assert_int_equal(length, 31 + sizeof(line) - 1);
    assert_memory_equal(text, "time=20", 7);
    assert_string_equal(text + 31, line);
}

/* Where nobody reads: a descriptor that takes not one byte more, and would wait. */
static void fill(int end)
{
    static const char rubbish[64];
    int flags = fcntl(end, F_GETFL);

    (void)fcntl(end, F_SETFL, flags | O_NONBLOCK);
    while (write(end, rubbish, sizeof(rubbish)) > 0 || write(end, rubbish, 1) > 0)
        ;
    (void)fcntl(end, F_SETFL, flags);
}

/* ends[0] is read, ends[1] is stderr. 0: as it must be. */
static int log_while_nobody_reads(void *context)
{
    int *ends = context;
    char text[512] = "";

    fill(ends[1]);
    dup2(ends[1], STDERR_FILENO);
    log_set_sink(log_stderr_open());
    for (int n = 0; n < 3; n++)
        LOG_INFO("unread", "n=%d", n);
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    while (read(ends[0], text, sizeof(text)) > 0)
        ;
    LOG_INFO("read", "a=1");
    LOG_INFO("again", "a=1");
    memset(text, 0, sizeof(text));
    (void)!read(ends[0], text, sizeof(text) - 1);
    return strstr(text, "lost=3 do=\"make room where the log goes, or read the pipe "
                        "faster\"\ntime=") != NULL &&
                   strstr(text, "msg=\"read\" a=1\n") != NULL && strstr(text, "unread") == NULL &&
                   strstr(strstr(text, "lost=") + 1, "lost=") == NULL
               ? 0
               : 1;
}

static void a_line_that_nobody_reads_is_lost_and_counted(void **state)
{
    (void)state;
    for (int n = 0; n < 2; n++) {
        int ends[2];

        assert_int_equal(n == 0 ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        assert_int_equal(support_join(support_fork(log_while_nobody_reads, ends), 20000), 0);
        close(ends[0]);
        close(ends[1]);
    }
}

enum {
    TORN_AT = 50 /* in the midst of a line */
};

static void let_files_grow(rlim_t bytes)
{
    struct rlimit limit;

    (void)getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    (void)setrlimit(RLIMIT_FSIZE, &limit);
}

/* A file that may not grow is as one on a full disk. 0: what was torn is lost, and ended. */
static int log_into_a_full_file(void *context)
{
    int fd = *(int *)context;
    char text[1024] = "";
    const char *at = text + TORN_AT;

    (void)signal(SIGXFSZ, SIG_IGN);
    dup2(fd, STDERR_FILENO);
    log_set_sink(log_stderr_open());
    let_files_grow(TORN_AT);
    LOG_INFO("torn", "a=1");
    LOG_INFO("refused", "a=1");
    let_files_grow(TORN_AT + 1);
    LOG_INFO("has room for the end of the torn one alone", "a=1");
    let_files_grow(RLIM_INFINITY);
    LOG_INFO("whole", "a=1");
    LOG_INFO("again", "a=1");
    (void)!pread(fd, text, sizeof(text) - 1, 0);
    return strncmp(at, "\ntime=", 6) == 0 && (at = strstr(at, " lost=3")) != NULL &&
                   (at = strstr(at, "\ntime=")) != NULL &&
                   (at = strstr(at, "msg=\"whole\" a=1\ntime=")) != NULL &&
                   strstr(at, "msg=\"again\" a=1\n") != NULL && strstr(text, "refused") == NULL &&
                   strstr(at, "lost=") == NULL
               ? 0
               : 1;
}

static void a_torn_line_is_lost_and_ends(void **state)
{
    int fd = memfd_create("log", MFD_CLOEXEC);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(support_join(support_fork(log_into_a_full_file, &fd), 20000), 0);
    close(fd);
}

static int log_to_a_terminal(void *context)
{
    int *ends = context;

    dup2(ends[1], STDERR_FILENO);
    log_set_sink(log_stderr_open());
    fill(ends[1]);
    for (int n = 0; n < 3; n++)
        LOG_INFO("unread", "n=%d", n);
    return 0;
}

/* A terminal that is stopped, or hangs. */
static void a_terminal_that_takes_nothing_stops_nobody(void **state)
{
    int ends[2] = {posix_openpt(O_RDWR | O_NOCTTY), -1};

    (void)state;
    assert_true(ends[0] >= 0 && grantpt(ends[0]) == 0 && unlockpt(ends[0]) == 0);
    ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY);
    assert_true(ends[1] >= 0);
    assert_int_equal(support_join(support_fork(log_to_a_terminal, ends), 20000), 0);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
#define LOG_TEST(function) cmocka_unit_test_setup_teardown(function, start_capture, stop_capture)
    const struct CMUnitTest tests[] = {
        LOG_TEST(nothing_is_logged_without_a_sink),
        LOG_TEST(line_is_logfmt),
        LOG_TEST(level_decides),
        LOG_TEST(levels_have_names),
        LOG_TEST(control_bytes_do_not_leave),
        LOG_TEST(quotes_in_a_field_do_not_end_it),
        LOG_TEST(long_line_is_cut_with_a_mark),
        LOG_TEST(what_is_to_be_done_is_not_cut),
        LOG_TEST(longest_whole_line_is_not_cut),
        LOG_TEST(errno_survives_and_is_told),
        LOG_TEST(place_has_a_budget_a_second),
        LOG_TEST(dropped_lines_are_told),
        LOG_TEST(threads_lose_no_count),
        LOG_TEST(sink_changes_under_way),
        LOG_TEST(time_is_written_in_utc),
        LOG_TEST(stderr_sink_writes_one_line),
        LOG_TEST(a_line_that_nobody_reads_is_lost_and_counted),
        LOG_TEST(a_torn_line_is_lost_and_ends),
        LOG_TEST(a_terminal_that_takes_nothing_stops_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
