/* SPDX-License-Identifier: Apache-2.0 */
/* The output of `nigh get`: see output.h. */
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WRITE_BYTES = 4 << 20,
    LINKS_MOST = 40 /* as many as the kernel follows */
};

static bool write_out(int fd, const void *data, uint64_t size_bytes, struct cli_progress *progress)
{
    uint64_t done = 0;

    while (done < size_bytes) {
        uint64_t left = size_bytes - done;
        ssize_t n = write(fd, (const char *)data + done, left < WRITE_BYTES ? left : WRITE_BYTES);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return false;
        }
        done += (uint64_t)n;
        cli_progress_show(progress, done);
    }
    return true;
}

/* ---- what is there already: streams, devices, pipes ---- */

static int write_stream(struct cli *cli, int fd, const char *name, const void *data,
                        uint64_t size_bytes)
{
    struct cli_progress progress;
    bool written;

    cli_progress_start(&progress, cli, "get", size_bytes);
    written = write_out(fd, data, size_bytes, &progress);
    cli_progress_end(&progress);
    if (!written) {
        cli_error(cli, "%s: %s", name, strerror(errno));
        return CLI_FAILED;
    }
    return CLI_OK;
}

/* The open descriptor that a path stands for, as in a shell; -1: none. */
static int stream_of(const char *output)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};

    if (output == NULL || strcmp(output, "/dev/stdout") == 0) {
        return STDOUT_FILENO;
    }
    if (strcmp(output, "/dev/stderr") == 0) {
        return STDERR_FILENO;
    }
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        size_t length = strlen(folders[i]);
        char *end;
        long fd;

        if (strncmp(output, folders[i], length) == 0 && output[length] >= '0' &&
            output[length] <= '9') {
            fd = strtol(output + length, &end, 10);
            return *end == '\0' && fd <= INT_MAX ? (int)fd : -1;
        }
    }
    return -1;
}

bool cli_output_is_standard(const char *output)
{
    return stream_of(output) == STDOUT_FILENO;
}

/* A device or a pipe takes the bytes as they come. */
static int write_into(struct cli *cli, const char *output, const void *data, uint64_t size_bytes)
{
    int fd = open(output, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    int exit_code;

    if (fd < 0) {
        cli_error(cli, "%s: %s", output, strerror(errno));
        return CLI_FAILED;
    }
    exit_code = write_stream(cli, fd, output, data, size_bytes);
    close(fd);
    return exit_code;
}

/* ---- plain files ---- */

/* What a signal that ends the program removes first. */
static const char *volatile unfinished;

static void remove_unfinished(int number)
{
    if (unfinished != NULL) {
        unlink(unfinished);
    }
    raise(number); /* SA_RESETHAND: now it ends the program */
}

/* What is ignored, as under nohup, stays so. */
static void watch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction watch = {.sa_handler = remove_unfinished, .sa_flags = (int)SA_RESETHAND};
    struct sigaction before;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL) {
            sigaction(numbers[i], &watch, NULL);
        }
    }
}

/* No signal comes between the making of the file and the note of its name. */
static int make_unfinished(char *name)
{
    sigset_t all, before;
    int fd;

    watch_signals();
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0) {
        unfinished = name;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return fd;
}

/* The new file gets the mode of the one it replaces, and its owner where that is allowed. */
static bool take_mode(int fd, const struct stat *replaced)
{
    mode_t mask;

    if (replaced != NULL) {
        int ignored = fchown(fd, replaced->st_uid, replaced->st_gid);

        (void)ignored;
        return fchmod(fd, replaced->st_mode & 0777) == 0;
    }
    mask = umask(0);
    umask(mask);
    return fchmod(fd, 0666 & ~mask) == 0;
}

/* Writes beside the output and renames, so that a failure leaves what was there. replaced: what is
 * there; NULL: nothing. */
static int write_beside(struct cli *cli, const char *output, const struct stat *replaced,
                        const void *data, uint64_t size_bytes)
{
    struct cli_progress progress;
    char *temporary;
    int fd, failure = 0;

    if (asprintf(&temporary, "%s.nigh-XXXXXX", output) < 0) {
        cli_error(cli, "no memory");
        return CLI_FAILED;
    }
    fd = make_unfinished(temporary);
    if (fd < 0) {
        failure = errno;
        goto free_name;
    }
    cli_progress_start(&progress, cli, "get", size_bytes);
    if (!write_out(fd, data, size_bytes, &progress) || !take_mode(fd, replaced)) {
        failure = errno;
    }
    if (close(fd) != 0 && failure == 0) {
        failure = errno;
    }
    if (failure == 0 && rename(temporary, output) != 0) {
        failure = errno;
    }
    if (failure != 0) {
        unlink(temporary);
    }
    unfinished = NULL;
    cli_progress_end(&progress);
free_name:
    free(temporary);
    if (failure != 0) {
        cli_error(cli, "%s: %s", output, strerror(failure));
    }
    return failure == 0 ? CLI_OK : CLI_FAILED;
}

/* Where a path of which nothing is there leads: itself, or the missing end of links. Heap memory;
 * NULL: see errno. */
static char *follow_links(const char *output)
{
    char *path = strdup(output);

    for (int i = 0; path != NULL && i < LINKS_MOST; i++) {
        char target[PATH_MAX], *next;
        const char *slash = strrchr(path, '/');
        int folder_bytes = slash == NULL ? 0 : (int)(slash - path) + 1;
        ssize_t length = readlink(path, target, sizeof(target) - 1);

        if (length < 0) {
            return path; /* no link, or nothing at all: the making of it will tell */
        }
        target[length] = '\0';
        if (asprintf(&next, "%.*s%s", target[0] == '/' ? 0 : folder_bytes, path, target) < 0) {
            next = NULL;
        }
        free(path);
        path = next;
    }
    free(path);
    errno = path == NULL ? ENOMEM : ELOOP;
    return NULL;
}

/* A plain file is complete or untouched; nothing else is replaced. */
static int write_file(struct cli *cli, const char *output, const void *data, uint64_t size_bytes)
{
    struct stat status;
    bool is_there = stat(output, &status) == 0;
    int exit_code = CLI_FAILED;
    char *target;

    if (is_there && !S_ISREG(status.st_mode)) {
        return write_into(cli, output, data, size_bytes);
    }
    if (is_there && faccessat(AT_FDCWD, output, W_OK, AT_EACCESS) != 0) {
        cli_error(cli, "%s: %s", output, strerror(errno));
        return CLI_FAILED;
    }
    target = is_there ? realpath(output, NULL) : follow_links(output);
    if (target == NULL) {
        cli_error(cli, "%s: %s", output, strerror(errno));
        return CLI_FAILED;
    }
    exit_code = write_beside(cli, target, is_there ? &status : NULL, data, size_bytes);
    free(target);
    return exit_code;
}

int cli_output_write(struct cli *cli, const char *output, const void *data, uint64_t size_bytes)
{
    int fd = stream_of(output);

    if (fd >= 0) {
        int flags = fcntl(fd, F_GETFD);

        /* What was handed to this program; its own, such as the node's socket, are not for this. */
        if (flags < 0 || (flags & FD_CLOEXEC) != 0) {
            cli_error(cli, "%s: %s", output, strerror(EBADF));
            return CLI_FAILED;
        }
        return write_stream(cli, fd, fd == STDOUT_FILENO ? "standard output" : output, data,
                            size_bytes);
    }
    return write_file(cli, output, data, size_bytes);
}
