/* SPDX-License-Identifier: Apache-2.0 */
/* See support.h. Processes, folders, seeds; nothing that knows nigh. */
#include "support/support.h"

#include <errno.h>
#include <fnmatch.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char support_dir_path[64];
static pid_t support_dir_owner;

/* $NIGH_TEST chooses before main(): a program's own main() need not know of it. */
__attribute__((constructor)) static void choose_tests(void)
{
    cmocka_set_test_filter(getenv("NIGH_TEST"));
}

bool support_has_chosen(const struct CMUnitTest *tests, size_t count)
{
    const char *wanted = getenv("NIGH_TEST");

    for (size_t n = 0; n < count; n++) {
        if (wanted == NULL || fnmatch(wanted, tests[n].name, 0) == 0)
            return true;
    }
    fprintf(stderr, "not ok: no test matches NIGH_TEST: %s\n", wanted != NULL ? wanted : "");
    return false;
}

int support_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    return ntohs(address.sin_port);
}

uint64_t support_now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

unsigned support_patience(void)
{
    const char *times = getenv("NIGH_TEST_PATIENCE");
    unsigned long number = times == NULL ? 1 : strtoul(times, NULL, 10);

    return number == 0 ? 1 : (unsigned)number;
}

void support_breathe(void)
{
    const struct timespec moment = {.tv_nsec = 200 * 1000};

    nanosleep(&moment, NULL);
}

pid_t support_fork(int (*body)(void *arg), void *arg)
{
    pid_t parent = getpid();
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child < 0)
        fail_msg("fork: %s", strerror(errno));
    if (child > 0)
        return child;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before the line above */
        _exit(255);
    int result = body(arg);
    fflush(NULL);
    _exit(result & 255);
}

int support_join(pid_t child, uint64_t timeout_ms)
{
    uint64_t end_us = support_now_us() + timeout_ms * 1000u;
    int status = 0;
    pid_t got;

    while ((got = waitpid(child, &status, WNOHANG)) == 0 && support_now_us() < end_us)
        support_breathe();
    if (got == 0) {
        kill(child, SIGKILL);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            continue;
        return SUPPORT_TIMED_OUT;
    }
    if (got < 0)
        fail_msg("waitpid: %s", strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int support_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* A forked child inherits the exit handler, not the folder. */
static void support_remove_dir(void)
{
    if (support_dir_owner == getpid())
        nftw(support_dir_path, support_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *support_dir(void)
{
    if (support_dir_owner == getpid())
        return support_dir_path;
    strcpy(support_dir_path, "/tmp/nigh-test-XXXXXX");
    if (mkdtemp(support_dir_path) == NULL)
        fail_msg("mkdtemp: %s", strerror(errno));
    support_dir_owner = getpid();
    atexit(support_remove_dir);
    return support_dir_path;
}

void support_path(char *path, size_t size_bytes, const char *name)
{
    int n = snprintf(path, size_bytes, "%s/%s", support_dir(), name);

    if (n < 0 || (size_t)n >= size_bytes)
        fail_msg("path too long: %s", name);
}

void support_put_file(const char *root, const char *path, const char *text)
{
    char full[PATH_MAX];
    FILE *file;

    assert_true(snprintf(full, sizeof(full), "%s%s", root, path) < (int)sizeof(full));
    for (char *at = full + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void)mkdir(full, 0700);
        *at = '/';
    }
    file = fopen(full, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

uint64_t support_seed(void)
{
    const char *text = getenv("NIGH_SEED");
    uint64_t seed = 0;

    if (text == NULL || *text == '\0')
        text = getenv("NIGH_RUN_SEED");
    if (text != NULL && *text != '\0')
        seed = strtoull(text, NULL, 0);
    else if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        fail_msg("getrandom: %s", strerror(errno));
    if (seed == 0)
        seed = 1;
    printf("# seed %" PRIu64 "\n", seed);
    fflush(stdout);
    return seed;
}

uint64_t support_budget_ms(uint64_t default_ms)
{
    const char *text = getenv("NIGH_BUDGET_SECONDS");

    if (text == NULL || *text == '\0')
        return default_ms;
    return strtoull(text, NULL, 10) * 1000u;
}

uint64_t support_random(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1dull;
}
