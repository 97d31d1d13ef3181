/* SPDX-License-Identifier: Apache-2.0 */
/* nigh region read and write: a region's bytes to standard output, and standard input into a
 * region, a piece after the other: there is no moment at which all of them are as they come out. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli/region.h"

enum {
    PIECE_BYTES = 1 << 20
};

static char piece[PIECE_BYTES];

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* The region's size, which has to reach to the offset. */
static int ask_size(struct cli *cli, const struct region_job *job, nigh_region *region,
                    uint32_t access, uint64_t *size)
{
    nigh_region_info info = {.struct_size = sizeof info};
    nigh_status status = nigh_region_stat(region, cli_region_timeout_us(cli, job), &info);

    if (status != NIGH_OK) {
        return cli_region_failed(cli, job, access, status);
    }
    if (job->offset > info.size) {
        return cli_wrong(cli, "%s has %llu byte%s: --offset %llu is behind its end", job->name,
                         (unsigned long long)info.size, plural(info.size),
                         (unsigned long long)job->offset);
    }
    *size = info.size;
    return CLI_OK;
}

/* Which chunk is lost, the first of those that some bytes lie in. False: none is, or nobody says
 * so. */
static bool tell_lost(struct cli *cli, const struct region_job *job, nigh_region *region,
                      uint64_t offset, size_t size)
{
    nigh_region_info info = {.struct_size = sizeof info};

    if (nigh_region_stat(region, cli_region_timeout_us(cli, job), &info) != NIGH_OK ||
        info.chunk_size == 0) {
        return false;
    }
    for (uint64_t n = offset / info.chunk_size;
         n < info.chunk_count && n * info.chunk_size < offset + size; n++) {
        if (info.ranks[n] == NIGH_REGION_LOST) {
            cli_error(cli,
                      "%s: chunk %u, its bytes from %llu on, was lost with its node (nigh region "
                      "stat says which are)",
                      job->name, (unsigned)n, (unsigned long long)(n * info.chunk_size));
            return true;
        }
    }
    return false;
}

/* Bytes that were not read, or written. The exit code. */
static int bytes_failed(struct cli *cli, const struct region_job *job, nigh_region *region,
                        uint32_t access, uint64_t offset, size_t size, nigh_status status)
{
    if (status == NIGH_PEER_LOST && tell_lost(cli, job, region, offset, size)) {
        return cli_exit_code(status);
    }
    return cli_region_failed(cli, job, access, status);
}

/* ---- read ----------------------------------------------------------------- */

static int read_pieces(struct cli *cli, const struct region_job *job, nigh_region *region,
                       uint64_t size, struct cli_progress *progress)
{
    for (uint64_t done = 0; done < size;) {
        size_t part = size - done < PIECE_BYTES ? (size_t)(size - done) : PIECE_BYTES;
        nigh_status status = nigh_region_read(region, job->offset + done, piece, part,
                                              cli_region_timeout_us(cli, job));

        if (status != NIGH_OK) {
            return bytes_failed(cli, job, region, NIGH_REGION_READ, job->offset + done, part,
                                status);
        }
        if (fwrite(piece, 1, part, stdout) != part) {
            cli_error(cli, "standard output: %s", strerror(errno));
            return CLI_FAILED;
        }
        done += part;
        cli_progress_show(progress, done);
    }
    return CLI_OK;
}

static int read_region(struct cli *cli, const struct region_job *job, nigh_region *region)
{
    struct cli_progress progress;
    uint64_t size = 0;
    int exit_code = ask_size(cli, job, region, NIGH_REGION_READ, &size);

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    if ((job->given & REGION_SIZE) != 0 && job->size > size - job->offset) {
        return cli_wrong(cli, "%s has %llu byte%s from there on: --size %llu is more", job->name,
                         (unsigned long long)(size - job->offset), plural(size - job->offset),
                         (unsigned long long)job->size);
    }
    size = (job->given & REGION_SIZE) != 0 ? job->size : size - job->offset;
    cli_progress_start(&progress, cli, "read", size);
    exit_code = read_pieces(cli, job, region, size, &progress);
    cli_progress_end(&progress);
    return exit_code;
}

int cli_region_read(struct cli *cli, const struct region_job *job)
{
    nigh_region *region;
    int exit_code;

    if (cli->json) {
        return cli_usage(cli, "read takes no --json: the bytes take standard output");
    }
    exit_code = cli_region_open(cli, job, NIGH_REGION_READ, &region);
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    exit_code = read_region(cli, job, region);
    nigh_region_close(region);
    return exit_code;
}

/* ---- write ---------------------------------------------------------------- */

/* Bytes on their way into a region. */
struct input {
    uint64_t room; /* from the offset on */
    uint64_t done;
    bool is_over;
};

/* Until the next look: as long as --timeout leaves; without one for ever. */
static int poll_ms(const struct cli *cli, const struct region_job *job)
{
    uint64_t left_ms = (cli_region_timeout_us(cli, job) + 999) / 1000;

    if (!cli->timeout_given) {
        return -1;
    }
    return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

/* Some bytes of standard input, as soon as there are any. */
static int read_some(struct cli *cli, const struct region_job *job, struct input *input,
                     size_t *filled)
{
    struct pollfd ready = {.fd = STDIN_FILENO, .events = POLLIN};
    int count = poll(&ready, 1, poll_ms(cli, job));
    ssize_t n;

    if (count == 0) {
        cli_error(cli, "%s: the time was up before standard input ended; %llu byte%s written",
                  job->name, (unsigned long long)input->done, input->done == 1 ? " is" : "s are");
        return CLI_TIMEOUT;
    }
    n = count < 0 ? -1 : read(STDIN_FILENO, piece + *filled, PIECE_BYTES - *filled);
    if (n < 0 && errno != EINTR && errno != EAGAIN) {
        cli_error(cli, "cannot read standard input: %s", strerror(errno));
        return CLI_FAILED;
    }
    *filled += n > 0 ? (size_t)n : 0;
    input->is_over = n == 0;
    return CLI_OK;
}

/* A piece, or what is left. */
static int fill_piece(struct cli *cli, const struct region_job *job, struct input *input,
                      size_t *filled)
{
    int exit_code = CLI_OK;

    for (*filled = 0; exit_code == CLI_OK && !input->is_over && *filled < PIECE_BYTES;) {
        exit_code = read_some(cli, job, input, filled);
    }
    return exit_code;
}

static int write_pieces(struct cli *cli, const struct region_job *job, nigh_region *region,
                        struct input *input, struct cli_progress *progress)
{
    while (!input->is_over) {
        uint64_t room = input->room - input->done;
        nigh_status status = NIGH_OK;
        size_t filled, part;
        int exit_code = fill_piece(cli, job, input, &filled);

        if (exit_code != CLI_OK) {
            return exit_code;
        }
        part = filled < room ? filled : (size_t)room;
        if (part > 0) {
            status = nigh_region_write(region, job->offset + input->done, piece, part,
                                       cli_region_timeout_us(cli, job));
        }
        if (status != NIGH_OK) {
            return bytes_failed(cli, job, region, NIGH_REGION_WRITE, job->offset + input->done,
                                part, status);
        }
        input->done += part;
        if (part < filled) {
            cli_error(cli, "%s: standard input has more than the region: %llu byte%s written",
                      job->name, (unsigned long long)input->done,
                      input->done == 1 ? " is" : "s are");
            return CLI_FULL;
        }
        cli_progress_show(progress, input->done);
    }
    return CLI_OK;
}

/* How much a file has from here on: what is too much is seen before a byte is written. 0: it is no
 * file. */
static uint64_t file_bytes(void)
{
    struct stat status;
    off_t at = lseek(STDIN_FILENO, 0, SEEK_CUR);

    if (at < 0 || fstat(STDIN_FILENO, &status) != 0 || !S_ISREG(status.st_mode)) {
        return 0;
    }
    return status.st_size > at ? (uint64_t)(status.st_size - at) : 0;
}

static int write_region(struct cli *cli, const struct region_job *job, nigh_region *region,
                        struct input *input)
{
    struct cli_progress progress;
    uint64_t size = 0, file = file_bytes();
    int exit_code = ask_size(cli, job, region, NIGH_REGION_WRITE, &size);

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    input->room = size - job->offset;
    if (file > input->room) {
        cli_error(cli,
                  "%s: standard input has %llu byte%s, and the region %llu from there on; nothing "
                  "is written",
                  job->name, (unsigned long long)file, plural(file),
                  (unsigned long long)input->room);
        return CLI_FULL;
    }
    cli_progress_start(&progress, cli, "write", file);
    exit_code = write_pieces(cli, job, region, input, &progress);
    cli_progress_end(&progress);
    return exit_code;
}

int cli_region_write(struct cli *cli, const struct region_job *job)
{
    struct input input = {0};
    struct json json = {0};
    nigh_region *region;
    int exit_code = cli_region_open(cli, job, NIGH_REGION_WRITE, &region);

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    exit_code = write_region(cli, job, region, &input);
    nigh_region_close(region);
    if (exit_code == CLI_OK && cli->json) {
        json_object_open(&json, NULL);
        json_name(&json, job->name);
        json_u64(&json, "offset", job->offset);
        json_u64(&json, "size", input.done);
        json_object_close(&json);
    }
    return exit_code;
}
