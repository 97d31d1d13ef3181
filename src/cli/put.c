/* SPDX-License-Identifier: Apache-2.0 */
/* nigh put: a file is read straight into the object's memory; standard input, whose length is
 * unknown, is gathered first. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/json.h"

enum {
    READ_BYTES = 4 << 20,
    GATHER_BYTES = 1 << 20,
    PUT_TIMEOUT_US = 10000000
};

struct source {
    int fd;
    uint64_t size_bytes;
    char *gathered; /* standard input, or a file without a size; else NULL */
};

/* Reads exactly size_bytes; false on failure or a file that shrank (errno 0). */
static bool read_into(int fd, void *data, uint64_t size_bytes, struct cli_progress *progress)
{
    uint64_t done = 0;

    while (done < size_bytes) {
        uint64_t left = size_bytes - done;
        ssize_t n = read(fd, (char *)data + done, left < READ_BYTES ? left : READ_BYTES);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            errno = n == 0 ? 0 : errno;
            return false;
        }
        done += (uint64_t)n;
        cli_progress_show(progress, done);
    }
    return true;
}

static int gather(struct cli *cli, struct source *source, const char *name)
{
    uint64_t capacity = 0;

    for (;;) {
        ssize_t n;

        if (source->size_bytes == capacity) {
            char *larger = realloc(source->gathered, capacity = capacity * 2 + GATHER_BYTES);

            if (larger == NULL) {
                cli_error(cli, "no memory to gather %s", name);
                return CLI_FULL;
            }
            source->gathered = larger;
        }
        n = read(source->fd, source->gathered + source->size_bytes, capacity - source->size_bytes);
        if (n == 0) {
            return CLI_OK;
        }
        if (n < 0 && errno != EINTR) {
            cli_error(cli, "%s: %s", name, strerror(errno));
            return CLI_FAILED;
        }
        source->size_bytes += n > 0 ? (uint64_t)n : 0;
    }
}

static int open_source(struct cli *cli, const char *name, struct source *source)
{
    struct stat status;

    source->fd = strcmp(name, "-") == 0 ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    if (source->fd < 0 || fstat(source->fd, &status) != 0) {
        cli_error(cli, "%s: %s", name, strerror(errno));
        return CLI_FAILED;
    }
    if (S_ISDIR(status.st_mode)) {
        cli_error(cli, "%s: is a directory", name);
        return CLI_FAILED;
    }
    if (!S_ISREG(status.st_mode) || source->fd == STDIN_FILENO || status.st_size == 0) {
        return gather(cli, source, name);
    }
    source->size_bytes = (uint64_t)status.st_size;
    return CLI_OK;
}

/* Creates, fills and seals; the object is aborted when the source fails. */
static int put_source(struct cli *cli, const nigh_id *id, nigh_create_options *options,
                      struct source *source, const char *file)
{
    struct cli_progress progress;
    nigh_writer writer;
    nigh_status status;

    options->data_size = source->size_bytes;
    status = nigh_create(cli->client, id, options, &writer);
    if (status != NIGH_OK) {
        return cli_failed(cli, status, "cannot create the object");
    }
    cli_progress_start(&progress, cli, "put", source->size_bytes);
    if (source->gathered != NULL) {
        memcpy(writer.data, source->gathered, source->size_bytes);
    } else if (!read_into(source->fd, writer.data, source->size_bytes, &progress)) {
        cli_progress_end(&progress);
        cli_error(cli, "%s: %s", file,
                  errno == 0 ? "became shorter while it was read" : strerror(errno));
        nigh_abort(cli->client, &writer);
        return CLI_FAILED;
    }
    cli_progress_end(&progress);
    status = nigh_seal(cli->client, &writer);
    return status == NIGH_OK ? CLI_OK : cli_failed(cli, status, "cannot seal the object");
}

static void report(const struct cli *cli, const char *name, const nigh_id *id, uint64_t size_bytes,
                   uint64_t took_us)
{
    struct json json = {0};
    char digits[BYTES_ID_TEXT];

    if (!cli->json) {
        return;
    }
    bytes_format_id(id->bytes, digits);
    json_object_open(&json, NULL);
    json_string(&json, "name", name);
    json_string(&json, "id", digits);
    json_u64(&json, "data_size", size_bytes);
    json_u64(&json, "took_us", took_us);
    json_object_close(&json);
}

static int put_file(struct cli *cli, const char *name, const char *file,
                    nigh_create_options *options)
{
    uint64_t start_us = clock_now_us(&clock_monotonic);
    struct source source = {.fd = -1};
    nigh_id id;
    bool is_name;
    int exit_code = cli_parse_name(cli, name, &id, &is_name);

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    options->name = is_name ? name : NULL;
    options->timeout_us = cli->timeout_given ? cli->timeout_us : PUT_TIMEOUT_US;
    exit_code = open_source(cli, file, &source);
    if (exit_code == CLI_OK) {
        exit_code = cli_open(cli, 0);
    }
    if (exit_code == CLI_OK) {
        exit_code = put_source(cli, &id, options, &source, file);
    }
    if (exit_code == CLI_OK) {
        report(cli, name, &id, source.size_bytes, clock_now_us(&clock_monotonic) - start_us);
    }
    free(source.gathered);
    if (source.fd > STDIN_FILENO) {
        close(source.fd);
    }
    return exit_code;
}

int cli_put(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {{"meta", required_argument, NULL, 'm'},
                                            {"no-evict", no_argument, NULL, 'E'},
                                            CLI_COMMON_OPTIONS,
                                            {0}};
    nigh_create_options create = {0};
    int option, exit_code = CLI_OK;

    while ((option = cli_next_option(cli, argc, argv, ":m:" CLI_COMMON_SHORT, options)) != -1) {
        if (option == 'm') {
            if (strlen(optarg) > 65536) {
                return cli_usage(cli, "metadata has at most 65536 bytes");
            }
            create.meta = optarg;
            create.meta_size = (uint32_t)strlen(optarg);
        } else if (option == 'E') {
            create.flags |= NIGH_CREATE_NO_EVICT;
        } else if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    if (argc - optind != 2) {
        return cli_usage(cli, "put takes a NAME and a FILE (- is standard input)");
    }
    return put_file(cli, argv[optind], argv[optind + 1], &create);
}
