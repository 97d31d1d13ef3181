/* SPDX-License-Identifier: Apache-2.0 */
/* nigh put: a file is read straight into the object's memory, once the name is claimed on all
 * nodes; standard input and pipes, whose length is unknown, are gathered before that, up to the
 * node's memory size. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "base/json.h"

enum {
    READ_BYTES = 4 << 20,
    GATHER_BYTES = 1 << 20,
    POLL_MOST_MS = 60000,
    PUT_TIMEOUT_US = 10000000,
    PUT_PLACES = 4 /* nodes that are named */
};

struct source {
    int fd;
    uint64_t size_bytes;
    bool has_size;        /* else it is gathered: standard input, a pipe, a device */
    char *gathered;       /* NULL: none */
    uint64_t node_bytes;  /* the node's memory, and a lane's part of it, the most */
    uint64_t most_bytes;  /* of what is gathered */
    uint64_t deadline_us; /* for gathering; UINT64_MAX: none */
};

/* Reads exactly size_bytes, all that there is; else it returns why not. */
static const char *read_into(int fd, void *data, uint64_t size_bytes, struct cli_progress *progress)
{
    uint64_t done = 0;
    char more;

    while (done < size_bytes) {
        uint64_t left = size_bytes - done;
        ssize_t n = read(fd, (char *)data + done, left < READ_BYTES ? left : READ_BYTES);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n == 0 ? "became shorter while it was read" : strerror(errno);
        }
        done += (uint64_t)n;
        cli_progress_show(progress, done);
    }
    return read(fd, &more, 1) == 1 ? "became longer while it was read" : NULL;
}

/* Until the next look, at most POLL_MOST_MS. */
static int poll_ms(uint64_t left_us)
{
    if (left_us == 0) {
        return 0;
    }
    return left_us / 1000 < POLL_MOST_MS ? (int)(left_us / 1000) + 1 : POLL_MOST_MS;
}

/* Returns CLI_OK when a read would not wait, or says that there is nothing until the deadline. */
static int wait_for_bytes(struct cli *cli, const struct source *source, const char *name)
{
    struct pollfd ready = {.fd = source->fd, .events = POLLIN};
    uint64_t left_us;
    int count;

    do {
        uint64_t now_us = clock_now_us(&clock_monotonic);

        left_us = source->deadline_us > now_us ? source->deadline_us - now_us : 0;
        count = poll(&ready, 1, poll_ms(left_us));
    } while (left_us > 0 && (count == 0 || (count < 0 && errno == EINTR)));
    if (count > 0) {
        return CLI_OK;
    }
    if (count < 0) {
        cli_error(cli, "%s: %s", name, strerror(errno));
        return CLI_FAILED;
    }
    cli_error(cli, "%s: the time was up before %s", name,
              source->size_bytes == 0 ? "anything came from it" : "it ended");
    return CLI_TIMEOUT;
}

/* Room for more, at most one byte above what the node could take. */
static int gather_more_room(struct cli *cli, struct source *source, const char *name,
                            uint64_t *capacity)
{
    uint64_t wanted = *capacity * 2 + GATHER_BYTES;
    char *larger;

    wanted = wanted < source->most_bytes + 1 ? wanted : source->most_bytes + 1;
    larger = realloc(source->gathered, wanted);
    if (larger == NULL) {
        cli_error(cli, "no memory to gather %s", name);
        return CLI_FULL;
    }
    source->gathered = larger;
    *capacity = wanted;
    return CLI_OK;
}

/* What libnigh says of a file that is too large. */
static int too_large(struct cli *cli, const struct source *source)
{
    char most[BYTES_SIZE_TEXT], all[BYTES_SIZE_TEXT], part[96] = "";

    bytes_format_size(source->most_bytes, most);
    bytes_format_size(source->node_bytes, all);
    if (source->most_bytes < source->node_bytes) {
        snprintf(part, sizeof part, ", %s of it for any one object (it has %llu lanes)", most,
                 (unsigned long long)(source->node_bytes / source->most_bytes));
    }
    cli_error(cli,
              "cannot create the object: out of memory: more than %s were asked for, and the node "
              "has %s for objects in all%s",
              most, all, part);
    return CLI_FULL;
}

/* Reads to the end, or until it is more than any object may have. */
static int gather(struct cli *cli, struct source *source, const char *name)
{
    uint64_t capacity = 0;

    while (source->size_bytes <= source->most_bytes) {
        int exit_code = CLI_OK;
        ssize_t n;

        if (source->size_bytes == capacity) {
            exit_code = gather_more_room(cli, source, name, &capacity);
        }
        if (exit_code == CLI_OK) {
            exit_code = wait_for_bytes(cli, source, name);
        }
        if (exit_code != CLI_OK) {
            return exit_code;
        }
        n = read(source->fd, source->gathered + source->size_bytes, capacity - source->size_bytes);
        if (n == 0) {
            return CLI_OK;
        }
        if (n < 0 && errno != EINTR && errno != EAGAIN) {
            cli_error(cli, "%s: %s", name, strerror(errno));
            return CLI_FAILED;
        }
        source->size_bytes += n > 0 ? (uint64_t)n : 0;
    }
    return too_large(cli, source);
}

/* Gathers a source without a known size, of which the node says how long it may be. */
static int gather_for_node(struct cli *cli, struct source *source, const char *name)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};
    nigh_status status = nigh_stats(cli->client, &stats);

    if (status != NIGH_OK) {
        return cli_failed(cli, status, "cannot ask the node for its memory's size");
    }
    source->node_bytes = stats.memory_bytes;
    /* An older node does not count its lanes. */
    source->most_bytes = stats.memory_bytes / (stats.lanes != 0 ? stats.lanes : 1);
    return gather(cli, source, name);
}

static int open_source(struct cli *cli, const char *name, struct source *source)
{
    struct stat status;

    /* A pipe into which nobody writes yet is waited for where there is a deadline: not here. */
    source->fd = strcmp(name, "-") == 0 ? STDIN_FILENO
                                        : open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (source->fd < 0 || fstat(source->fd, &status) != 0) {
        cli_error(cli, "%s: %s", name, strerror(errno));
        return CLI_FAILED;
    }
    if (S_ISDIR(status.st_mode)) {
        cli_error(cli, "%s: is a directory", name);
        return CLI_FAILED;
    }
    source->has_size = S_ISREG(status.st_mode) && source->fd != STDIN_FILENO && status.st_size != 0;
    source->size_bytes = source->has_size ? (uint64_t)status.st_size : 0;
    return CLI_OK;
}

/* There is one of this name: here, or where. */
static int exists(struct cli *cli, const char *name, const nigh_id *id)
{
    uint32_t ranks[PUT_PLACES];
    size_t count = 0;
    bool here = true;

    if (nigh_contains(cli->client, id, &here) == NIGH_OK && !here && !cli_is_alone(cli) &&
        nigh_where(cli->client, id, ranks, PUT_PLACES, &count) == NIGH_OK) {
        if (count > 0) {
            cli_error(cli, "%s exists already on node %u; delete it first: nigh rm %s", name,
                      ranks[0], name);
        } else {
            cli_error(cli, "%s: an object of this name is being created, here or on another node",
                      name);
        }
        return CLI_EXISTS;
    }
    cli_error(cli, "%s: an object of this name exists already; delete it first: nigh rm %s", name,
              name);
    return CLI_EXISTS;
}

/* Why there is no object now. */
static int not_put(struct cli *cli, const char *name, const nigh_id *id,
                   const nigh_create_options *options, nigh_status status, const char *what)
{
    bool claims = (options->flags & NIGH_CREATE_EXCLUSIVE) != 0;

    if (status == NIGH_TOO_FEW) {
        char said[512];

        (void)nigh_client_error(cli->client, said, sizeof said);
        cli_error(cli, "%s: %s", name, said);
        return cli_exit_code(status);
    }
    if (status == NIGH_EXISTS) {
        return exists(cli, name, id);
    }
    if (status == NIGH_LEAVING) {
        cli_error(
            cli,
            "%s: this node leaves its cluster, and takes nothing new: put it at another (nigh "
            "nodes), or have this one stay: nigh leave --undo",
            name);
        return cli_exit_code(status);
    }
    if (claims && (status == NIGH_PEER_LOST || (status == NIGH_TIMEOUT && !cli_is_alone(cli)))) {
        char absent[CLI_ABSENT_BYTES];

        (void)cli_absent_nodes(cli, absent);
        cli_error(cli,
                  "%s: whether another node has it cannot be said now: the node that would know "
                  "does not answer (%s). nigh put --no-claim does not ask",
                  name, cli_unreached(cli, absent[0] != '\0' ? absent : "nigh nodes"));
        return cli_exit_code(status);
    }
    if (claims && status == NIGH_NO_QUORUM) {
        cli_error(cli,
                  "%s: whether another node has it cannot be said now: this node is cut off from "
                  "most voters (nigh nodes, nigh doctor). nigh put --no-claim does not ask",
                  name);
        return cli_exit_code(status);
    }
    return cli_failed(cli, status, what);
}

static bool parse_replicas(const char *text, uint32_t *replicas)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    *replicas = (uint32_t)value;
    return text[0] >= '1' && text[0] <= '9' && *end == '\0' && value <= NIGH_REPLICAS_MOST;
}

/* Creates, fills and seals; the object is aborted when the source fails. */
static int put_source(struct cli *cli, const char *name, const nigh_id *id,
                      nigh_create_options *options, struct source *source, const char *file)
{
    struct cli_progress progress;
    const char *wrong = NULL;
    nigh_writer writer;
    nigh_status status;

    options->data_size = source->size_bytes;
    status = nigh_create(cli->client, id, options, &writer);
    if (status != NIGH_OK) {
        return not_put(cli, name, id, options, status, "cannot create the object");
    }
    cli_progress_start(&progress, cli, "put", source->size_bytes);
    if (!source->has_size) {
        memcpy(writer.data, source->gathered, source->size_bytes);
    } else {
        wrong = read_into(source->fd, writer.data, source->size_bytes, &progress);
    }
    cli_progress_end(&progress);
    if (wrong != NULL) {
        cli_error(cli, "%s: %s", file, wrong);
        nigh_abort(cli->client, &writer);
        return CLI_FAILED;
    }
    status = nigh_seal(cli->client, &writer);
    return status == NIGH_OK ? CLI_OK
                             : not_put(cli, name, id, options, status, "cannot seal the object");
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
    json_name(&json, name);
    json_string(&json, "id", digits);
    json_u64(&json, "data_size", size_bytes);
    json_u64(&json, "took_us", took_us);
    json_object_close(&json);
}

static int put_file(struct cli *cli, const char *name, const char *file,
                    nigh_create_options *options)
{
    uint64_t start_us = clock_now_us(&clock_monotonic);
    struct source source = {.fd = -1, .deadline_us = UINT64_MAX};
    nigh_id id;
    bool is_name;
    int exit_code = cli_parse_name(cli, name, &id, &is_name);

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    options->name = is_name ? name : NULL;
    options->timeout_us = cli->timeout_given ? cli->timeout_us : PUT_TIMEOUT_US;
    if (cli->timeout_given) {
        source.deadline_us = clock_deadline_us(start_us, cli->timeout_us);
    }
    exit_code = open_source(cli, file, &source);
    if (exit_code == CLI_OK) {
        exit_code = cli_open(cli, 0);
    }
    if (exit_code == CLI_OK && !source.has_size) {
        exit_code = gather_for_node(cli, &source, file);
    }
    if (exit_code == CLI_OK) {
        exit_code = put_source(cli, name, &id, options, &source, file);
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
                                            {"no-claim", no_argument, NULL, 'C'},
                                            {"replicas", required_argument, NULL, 'r'},
                                            CLI_COMMON_OPTIONS,
                                            {0}};
    nigh_create_options create = {.flags = NIGH_CREATE_EXCLUSIVE};
    uint32_t replicas = 1;
    int option, exit_code = CLI_OK;

    while ((option = cli_next_option(cli, argc, argv, ":m:r:" CLI_COMMON_SHORT, options)) != -1) {
        if (option == 'm') {
            if (strlen(optarg) > 65536) {
                return cli_usage(cli, "metadata has at most 65536 bytes");
            }
            create.meta = optarg;
            create.meta_size = (uint32_t)strlen(optarg);
        } else if (option == 'E') {
            create.flags |= NIGH_CREATE_NO_EVICT;
        } else if (option == 'C') {
            create.flags &= ~NIGH_CREATE_EXCLUSIVE;
        } else if (option == 'r' && !parse_replicas(optarg, &replicas)) {
            return cli_usage(cli, "--replicas takes a number from 1 to %d, not '%s'",
                             NIGH_REPLICAS_MOST, optarg);
        } else if (option == 'r') {
            create.flags &= ~NIGH_CREATE_REPLICAS(15u);
            create.flags |= NIGH_CREATE_REPLICAS(replicas > 1 ? replicas : 0);
        } else if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    if (argc - optind != 2) {
        return cli_usage(cli, "put takes a NAME and a FILE (- is standard input)");
    }
    return put_file(cli, argv[optind], argv[optind + 1], &create);
}
