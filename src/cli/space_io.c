/* SPDX-License-Identifier: Apache-2.0 */
/* nigh space alloc, free, read and write: memory of a space, its bytes to standard output, and
 * standard input into it. What is written is there for all when the command ends. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "cli/space.h"

enum {
    PIECE_BYTES = 1 << 20
};

#define FREE_US UINT64_C(1000000) /* at least, of memory that nobody was told of */

static char piece[PIECE_BYTES];

/* ---- alloc, free ---------------------------------------------------------- */

static nigh_status allocate(struct cli *cli, const struct space_job *job, nigh_space *space,
                            uint64_t size, uint32_t rank, nigh_space_address *address)
{
    nigh_space_address near = job->node != NULL ? NIGH_SPACE_ON(rank) : 0;
    uint64_t timeout_us = cli_space_timeout_us(cli, job);

    return job->alignment != 0
               ? nigh_space_alloc_aligned(space, size, job->alignment, near, timeout_us, address)
               : nigh_space_alloc(space, size, near, timeout_us, address);
}

static bool print_address(const struct cli *cli, const struct space_job *job, const char *address,
                          uint64_t size)
{
    struct json json = {0};

    if (!cli->json) {
        puts(address);
    } else {
        json_object_open(&json, NULL);
        json_name(&json, job->name);
        json_string(&json, "address", address);
        json_u64(&json, "size", size);
        json_object_close(&json);
    }
    return fflush(stdout) == 0 && !ferror(stdout);
}

/* Memory whose address nobody is told stays for ever: it is freed again. */
static int tell_address(struct cli *cli, const struct space_job *job, nigh_space *space,
                        nigh_space_address address, uint64_t size)
{
    char text[24];
    int error;

    (void)snprintf(text, sizeof text, "0x%llx", (unsigned long long)address);
    (void)signal(SIGPIPE, SIG_IGN); /* what nobody reads is an error of the write */
    if (print_address(cli, job, text, size)) {
        return CLI_OK;
    }
    error = errno;
    if (nigh_space_free(space, address, max_u64(cli_space_timeout_us(cli, job), FREE_US)) ==
        NIGH_OK) {
        cli_error(cli, "%s: standard output: %s: what was allocated is free again", job->name,
                  strerror(error));
    } else {
        cli_error(cli, "%s: standard output: %s: what was allocated at %s may stay so", job->name,
                  strerror(error), text);
    }
    return CLI_FAILED;
}

int cli_space_alloc(struct cli *cli, const struct space_job *job)
{
    nigh_space_address address = 0;
    nigh_space *space;
    nigh_status status;
    uint32_t rank = 0;
    uint64_t size;
    int exit_code = cli_space_parse_size(cli, "SIZE", job->words[0], &size);

    if (exit_code == CLI_OK) {
        exit_code = cli_space_open(cli, job, NIGH_SPACE_WRITE, &space);
    }
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    if (job->node != NULL) {
        exit_code = cli_find_member(cli, "--on", job->node, &rank);
    }
    if (exit_code == CLI_OK) {
        status = allocate(cli, job, space, size, rank, &address);
        exit_code = status == NIGH_OK ? CLI_OK : cli_space_failed(cli, job, status);
    }
    if (exit_code == CLI_OK) {
        exit_code = tell_address(cli, job, space, address, size);
    }
    nigh_space_close(space);
    return exit_code;
}

int cli_space_free(struct cli *cli, const struct space_job *job)
{
    nigh_space_address address;
    nigh_space *space;
    nigh_status status;
    int exit_code = cli_space_parse_address(cli, job->words[0], &address);

    if (exit_code == CLI_OK) {
        exit_code = cli_space_open(cli, job, NIGH_SPACE_WRITE, &space);
    }
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = nigh_space_free(space, address, cli_space_timeout_us(cli, job));
    exit_code = status == NIGH_OK ? CLI_OK : cli_space_failed(cli, job, status);
    nigh_space_close(space);
    /* The words are right, and nothing is locked here: it is not allocated. */
    return status == NIGH_INVALID ? CLI_NOT_FOUND : exit_code;
}

/* ---- read ----------------------------------------------------------------- */

static int check_range(const struct cli *cli, nigh_space_address address, uint64_t size)
{
    if (size > UINT64_MAX - address) {
        return cli_usage(cli, "there are no %llu bytes behind 0x%llx: it is too high an address",
                         (unsigned long long)size, (unsigned long long)address);
    }
    return CLI_OK;
}

static int read_pieces(struct cli *cli, const struct space_job *job, nigh_space *space,
                       nigh_space_address address, uint64_t size)
{
    for (uint64_t done = 0; done < size;) {
        size_t part = (size_t)min_u64(size - done, PIECE_BYTES);
        nigh_status status =
            nigh_space_read(space, address + done, piece, part, cli_space_timeout_us(cli, job));

        if (status != NIGH_OK) {
            return cli_space_failed(cli, job, status);
        }
        if (fwrite(piece, 1, part, stdout) != part) {
            cli_error(cli, "standard output: %s", strerror(errno));
            return CLI_FAILED;
        }
        done += part;
    }
    return CLI_OK;
}

int cli_space_read(struct cli *cli, const struct space_job *job)
{
    nigh_space_address address;
    nigh_space *space;
    uint64_t size;
    int exit_code = cli_space_parse_address(cli, job->words[0], &address);

    if (cli->json) {
        return cli_usage(cli, "read takes no --json: the bytes take standard output");
    }
    if (exit_code == CLI_OK) {
        exit_code = cli_space_parse_size(cli, "SIZE", job->words[1], &size);
    }
    if (exit_code == CLI_OK) {
        exit_code = check_range(cli, address, size);
    }
    if (exit_code == CLI_OK) {
        exit_code = cli_space_open(cli, job, NIGH_SPACE_READ, &space);
    }
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    exit_code = read_pieces(cli, job, space, address, size);
    nigh_space_close(space);
    return exit_code;
}

/* ---- write ---------------------------------------------------------------- */

static int write_input(struct cli *cli, const struct space_job *job, nigh_space *space,
                       nigh_space_address address, uint64_t *done)
{
    for (;;) {
        size_t count = fread(piece, 1, PIECE_BYTES, stdin);
        nigh_status status;

        if (ferror(stdin) != 0) {
            cli_error(cli, "cannot read standard input: %s", strerror(errno));
            return CLI_FAILED;
        }
        if (check_range(cli, address + *done, count) != CLI_OK) {
            return CLI_USAGE;
        }
        /* Each piece is flushed: what fails is heard of before there is more. */
        status =
            nigh_space_write(space, address + *done, piece, count, cli_space_timeout_us(cli, job));
        if (status == NIGH_OK) {
            status = nigh_space_flush(space, cli_space_timeout_us(cli, job), NULL);
        }
        if (status != NIGH_OK) {
            return cli_space_failed(cli, job, status);
        }
        *done += count;
        if (count < PIECE_BYTES) {
            return CLI_OK;
        }
    }
}

int cli_space_write(struct cli *cli, const struct space_job *job)
{
    nigh_space_address address;
    nigh_space *space;
    uint64_t done = 0;
    struct json json = {0};
    int exit_code = cli_space_parse_address(cli, job->words[0], &address);

    if (exit_code == CLI_OK) {
        exit_code = cli_space_open(cli, job, NIGH_SPACE_WRITE, &space);
    }
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    exit_code = write_input(cli, job, space, address, &done);
    nigh_space_close(space);
    if (exit_code == CLI_OK && cli->json) {
        json_object_open(&json, NULL);
        json_name(&json, job->name);
        json_u64(&json, "size", done);
        json_object_close(&json);
    }
    return exit_code;
}
