/* SPDX-License-Identifier: Apache-2.0 */
/* nigh get: writes an object's bytes from where they lie. A named output is complete or not there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/json.h"

enum {
    WRITE_BYTES = 4 << 20,
    OTHERS_WAIT_US = 5000000 /* for an object that another node may have, or is to announce */
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

/* Writes beside the output and renames, so that a failure leaves what was there. */
static int write_beside(struct cli *cli, const char *output, const void *data, uint64_t size_bytes)
{
    char *temporary;
    int fd, failure = 0;
    mode_t mask = umask(0);
    struct cli_progress progress;

    umask(mask);
    if (asprintf(&temporary, "%s.nigh-XXXXXX", output) < 0) {
        cli_error(cli, "no memory");
        return CLI_FAILED;
    }
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        failure = errno;
        goto free_name;
    }
    cli_progress_start(&progress, cli, "get", size_bytes);
    if (!write_out(fd, data, size_bytes, &progress) || fchmod(fd, 0666 & ~mask) != 0) {
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
    cli_progress_end(&progress);
free_name:
    free(temporary);
    if (failure != 0) {
        cli_error(cli, "%s: %s", output, strerror(failure));
    }
    return failure == 0 ? CLI_OK : CLI_FAILED;
}

/* A device or a pipe takes the bytes as they come. */
static int write_into(struct cli *cli, const char *output, const void *data, uint64_t size_bytes)
{
    struct cli_progress progress;
    int fd = open(output, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    bool written;

    if (fd < 0) {
        cli_error(cli, "%s: %s", output, strerror(errno));
        return CLI_FAILED;
    }
    cli_progress_start(&progress, cli, "get", size_bytes);
    written = write_out(fd, data, size_bytes, &progress);
    cli_progress_end(&progress);
    if (!written) {
        cli_error(cli, "%s: %s", output, strerror(errno));
    }
    close(fd);
    return written ? CLI_OK : CLI_FAILED;
}

/* A plain file (also through a link) is complete or untouched; nothing else is replaced. */
static int write_file(struct cli *cli, const char *output, const void *data, uint64_t size_bytes)
{
    struct stat status;
    char *target;
    int exit_code;

    if (stat(output, &status) != 0) {
        return write_beside(cli, output, data, size_bytes);
    }
    if (!S_ISREG(status.st_mode)) {
        return write_into(cli, output, data, size_bytes);
    }
    target = realpath(output, NULL);
    if (target == NULL) {
        cli_error(cli, "%s: %s", output, strerror(errno));
        return CLI_FAILED;
    }
    exit_code = write_beside(cli, target, data, size_bytes);
    free(target);
    return exit_code;
}

static int write_standard_output(struct cli *cli, const void *data, uint64_t size_bytes)
{
    struct cli_progress progress;
    bool written;

    cli_progress_start(&progress, cli, "get", size_bytes);
    written = write_out(STDOUT_FILENO, data, size_bytes, &progress);
    cli_progress_end(&progress);
    if (!written) {
        cli_error(cli, "standard output: %s", strerror(errno));
        return CLI_FAILED;
    }
    return CLI_OK;
}

static void report(const char *name, const char *output, const nigh_view *view)
{
    struct json json = {0};

    json_object_open(&json, NULL);
    json_string(&json, "name", name);
    json_string(&json, "output", output);
    json_u64(&json, "data_size", view->data_size);
    json_u64(&json, "meta_size", view->meta_size);
    json_object_close(&json);
}

/* Where the user does not say how long, another node gets its time. */
static nigh_status get_view(struct cli *cli, const nigh_id *id, uint32_t flags, nigh_view *view)
{
    nigh_status status = nigh_get_with(cli->client, id, 1, cli->timeout_us, flags, view);

    if (status == NIGH_TIMEOUT && !cli->timeout_given && !cli_is_alone(cli)) {
        status = nigh_get_with(cli->client, id, 1, OTHERS_WAIT_US, flags, view);
    }
    return status;
}

static int get_failed(struct cli *cli, nigh_status status, const char *name)
{
    if (status == NIGH_TIMEOUT && cli->timeout_us == 0) {
        if (!cli_is_alone(cli) && !cli->timeout_given) {
            cli_error(cli, "%s: no such object in 5 seconds, on this node or another (nigh nodes)",
                      name);
            return CLI_NOT_FOUND;
        }
        status = NIGH_NOT_FOUND;
    }
    return cli_failed_object(cli, status, name);
}

static int get_object(struct cli *cli, const char *name, const char *output, bool meta,
                      uint32_t flags)
{
    nigh_view view;
    nigh_id id;
    bool is_name;
    nigh_status status;
    int exit_code = cli_parse_name(cli, name, &id, &is_name);

    if (exit_code != CLI_OK || (exit_code = cli_open(cli, NIGH_OPEN_READ_ONLY)) != CLI_OK) {
        return exit_code;
    }
    status = get_view(cli, &id, flags, &view);
    if (status != NIGH_OK) {
        return get_failed(cli, status, name);
    }
    if (output == NULL) {
        exit_code = write_standard_output(cli, meta ? view.meta : view.data,
                                          meta ? view.meta_size : view.data_size);
    } else {
        exit_code = write_file(cli, output, meta ? view.meta : view.data,
                               meta ? view.meta_size : view.data_size);
    }
    if (exit_code == CLI_OK && cli->json) {
        report(name, output, &view);
    }
    nigh_release(cli->client, &view);
    return exit_code;
}

int cli_get(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"meta", no_argument, NULL, 'm'},
                                            {"no-copy", no_argument, NULL, 'n'},
                                            CLI_COMMON_OPTIONS,
                                            {0}};
    const char *output = NULL;
    uint32_t flags = 0;
    bool meta = false;
    int option, exit_code = CLI_OK;

    while ((option = cli_next_option(cli, argc, argv, ":o:mn" CLI_COMMON_SHORT, options)) != -1) {
        if (option == 'o') {
            output = optarg;
        } else if (option == 'm') {
            meta = true;
        } else if (option == 'n') {
            flags |= NIGH_GET_NO_COPY;
        } else if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    if (argc - optind != 1) {
        return cli_usage(cli, "get takes one NAME");
    }
    if (cli->json && output == NULL) {
        return cli_usage(cli, "--json needs --output FILE: standard output cannot carry both");
    }
    return get_object(cli, argv[optind], output, meta, flags);
}
