/* SPDX-License-Identifier: Apache-2.0 */
/* nigh space: coherent memory of the cluster. Here is what was asked for, and what makes and
 * removes one; space_list.c and space_io.c do the rest. */
#include "cli/space.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "cli/action.h"
#include "cli/each.h"
#include "cli/space_help.h"

#define SPACE_US UINT64_C(30000000) /* without --timeout, each step */

/* ---- what the actions share ----------------------------------------------- */

uint64_t cli_space_timeout_us(const struct cli *cli, const struct space_job *job)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);

    if (!cli->timeout_given) {
        return SPACE_US;
    }
    return job->deadline_us > now_us ? job->deadline_us - now_us : 0;
}

int cli_space_failed(struct cli *cli, const struct space_job *job, nigh_status status)
{
    if (status == NIGH_TIMEOUT) {
        cli_error(cli, "%s: the time was up", job->name);
        return cli_exit_code(status);
    }
    if (status == NIGH_NO_QUORUM) {
        cli_error(cli,
                  "%s: this node has just begun, or is cut off from most voters (nigh nodes, nigh "
                  "doctor)",
                  job->name);
        return cli_exit_code(status);
    }
    if (status == NIGH_VERSION) { /* of a log: the node has answered */
        (void)cli_failed(cli, status, job->name);
        return CLI_FAILED;
    }
    return cli_failed(cli, status, job->name);
}

int cli_space_open(struct cli *cli, const struct space_job *job, uint32_t access,
                   nigh_space **space)
{
    int exit_code = cli_open(cli, 0);
    nigh_status status;

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = nigh_space_open(cli->client, job->name, access, cli_space_timeout_us(cli, job), space);
    return status == NIGH_OK ? CLI_OK : cli_space_failed(cli, job, status);
}

int cli_space_parse_size(const struct cli *cli, const char *what, const char *text, uint64_t *size)
{
    if (bytes_parse_size(text, size) != NIGH_OK || *size == 0) {
        return cli_usage(cli, "%s '%s' is not a size such as 4096 or 16M (K, M, G, T, P)", what,
                         text);
    }
    return CLI_OK;
}

int cli_space_parse_address(const struct cli *cli, const char *text, nigh_space_address *address)
{
    unsigned long long value;
    bool is_hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    char *end;

    errno = 0;
    value = strtoull(text, &end, is_hex ? 16 : 10);
    /* The first is a digit: strtoull passes over blanks, and takes signs. */
    if (errno != 0 || text[0] < '0' || text[0] > '9' || *end != '\0' || value == 0) {
        return cli_usage(cli, "'%s' is not an address such as 0x1000000000200", text);
    }
    *address = value;
    return CLI_OK;
}

static int parse_rights(const struct cli *cli, const char *what, const char *text, uint32_t *access)
{
    uint32_t all = 0;

    for (const char *letter = text; *letter != '\0'; letter++) {
        all |= *letter == 'r'   ? NIGH_SPACE_READ
               : *letter == 'w' ? NIGH_SPACE_WRITE
                                : NIGH_SPACE_ALL + 1;
    }
    if (all == 0 || all > NIGH_SPACE_ALL) {
        return cli_usage(cli, "%s takes rights: of r (read), w (write); not '%s'", what, text);
    }
    if (all == NIGH_SPACE_WRITE) {
        return cli_usage(cli, "%s takes r or rw, as who may write may read, too; not '%s'", what,
                         text);
    }
    *access = all;
    return CLI_OK;
}

/* ---- create, rm ----------------------------------------------------------- */

int cli_space_create(struct cli *cli, const struct space_job *job)
{
    nigh_space_spec spec = {.struct_size = sizeof spec,
                            .name = job->name,
                            .cache_size = job->cache_size,
                            .block_size = (uint32_t)job->block_size,
                            .group_access = job->group_access,
                            .other_access = job->other_access,
                            .durability = job->durability};
    int exit_code = cli_space_parse_size(cli, "SIZE", job->words[0], &spec.home_size);
    struct json json = {0};
    nigh_space *space;
    nigh_status status;

    if (exit_code == CLI_OK) {
        exit_code = cli_open(cli, 0);
    }
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = nigh_space_create(cli->client, &spec, cli_space_timeout_us(cli, job), &space);
    if (status != NIGH_OK) {
        return cli_space_failed(cli, job, status);
    }
    nigh_space_close(space);
    if (cli->json) {
        json_object_open(&json, NULL);
        json_name(&json, job->name);
        json_u64(&json, "home_size", spec.home_size);
        json_object_close(&json);
    }
    return CLI_OK;
}

static int remove_one(struct cli *cli, const void *context, const char *name, struct json *json)
{
    const struct space_job *job = context;
    struct space_job one = *job;
    nigh_status status = nigh_space_delete(cli->client, name, cli_space_timeout_us(cli, job));
    int exit_code;

    one.name = name;
    exit_code = status == NIGH_OK ? CLI_OK : cli_space_failed(cli, &one, status);
    cli_each_report(cli, json, name, status, exit_code);
    return exit_code;
}

int cli_space_rm(struct cli *cli, const struct space_job *job)
{
    return cli_act_on_each(cli, job, job->name, job->words, remove_one);
}

/* ---- the verb ------------------------------------------------------------- */

struct action {
    struct cli_action is;
    int (*run)(struct cli *cli, const struct space_job *job);
};

static const struct action actions[] = {
    {{"create", "NAME SIZE", SPACE_HELP_CREATE, "a NAME and a SIZE", 2, 2,
      SPACE_CACHE | SPACE_BLOCK | SPACE_GROUP | SPACE_OTHERS | SPACE_DURABILITY},
     cli_space_create},
    {{"ls", "[PREFIX]", SPACE_HELP_LS, "at most one PREFIX", 0, 1, 0}, cli_space_ls},
    {{"stat", "NAME", SPACE_HELP_STAT, "a NAME", 1, 1, 0}, cli_space_stat},
    {{"alloc", "NAME SIZE", SPACE_HELP_ALLOC, "a NAME and a SIZE", 2, 2, SPACE_ON | SPACE_ALIGN},
     cli_space_alloc},
    {{"free", "NAME ADDRESS", SPACE_HELP_FREE, "a NAME and an ADDRESS", 2, 2, 0}, cli_space_free},
    {{"read", "NAME ADDRESS SIZE", SPACE_HELP_READ, "a NAME, an ADDRESS and a SIZE", 3, 3, 0},
     cli_space_read},
    {{"write", "NAME ADDRESS", SPACE_HELP_WRITE, "a NAME and an ADDRESS", 2, 2, 0},
     cli_space_write},
    {{"rm", "NAME...", SPACE_HELP_RM, "at least one NAME", 1, INT_MAX, 0}, cli_space_rm},
};

static const struct option options[] = {{"cache", required_argument, NULL, SPACE_CACHE},
                                        {"block", required_argument, NULL, SPACE_BLOCK},
                                        {"group", required_argument, NULL, SPACE_GROUP},
                                        {"others", required_argument, NULL, SPACE_OTHERS},
                                        {"on", required_argument, NULL, SPACE_ON},
                                        {"align", required_argument, NULL, SPACE_ALIGN},
                                        {"durability", required_argument, NULL, SPACE_DURABILITY},
                                        CLI_COMMON_OPTIONS,
                                        {0}};

static int take_block(const struct cli *cli, struct space_job *job)
{
    int exit_code = cli_space_parse_size(cli, "--block", optarg, &job->block_size);

    if (exit_code == CLI_OK &&
        (job->block_size < 64 || job->block_size > 4096 || !is_pow2(job->block_size))) {
        return cli_usage(cli, "--block takes a power of two from 64 to 4096, not '%s'", optarg);
    }
    return exit_code;
}

static int take_alignment(const struct cli *cli, struct space_job *job)
{
    int exit_code = cli_space_parse_size(cli, "--align", optarg, &job->alignment);

    if (exit_code == CLI_OK &&
        (!is_pow2(job->alignment) || job->alignment > NIGH_SPACE_ALIGN_MOST)) {
        return cli_usage(cli, "--align takes a power of two up to 1G, not '%s'", optarg);
    }
    return exit_code;
}

static int take_durability(const struct cli *cli, struct space_job *job)
{
    static const char *const names[] = {[NIGH_SPACE_DURABLE_NONE] = "none",
                                        [NIGH_SPACE_DURABLE_ASYNC] = "async",
                                        [NIGH_SPACE_DURABLE_SYNC] = "sync"};

    for (uint32_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        if (strcmp(optarg, names[n]) == 0) {
            job->durability = (nigh_space_durability)n;
            return CLI_OK;
        }
    }
    return cli_usage(cli, "--durability takes none, async or sync, not '%s'", optarg);
}

static int take_own(const struct cli *cli, uint32_t option, void *context)
{
    struct space_job *job = context;

    switch (option) {
    case SPACE_CACHE: return cli_space_parse_size(cli, "--cache", optarg, &job->cache_size);
    case SPACE_BLOCK: return take_block(cli, job);
    case SPACE_ALIGN: return take_alignment(cli, job);
    case SPACE_GROUP: return parse_rights(cli, "--group", optarg, &job->group_access);
    case SPACE_DURABILITY: return take_durability(cli, job);
    case SPACE_OTHERS: return parse_rights(cli, "--others", optarg, &job->other_access);
    default: job->node = optarg; return CLI_OK;
    }
}

int cli_space(struct cli *cli, int argc, char **argv)
{
    static const struct cli_actions verb = {
        .verb = "space",
        .takes = "create, ls, stat, alloc, free, read, write or rm, and a NAME",
        .first = &actions[0].is,
        .count = sizeof actions / sizeof actions[0],
        .stride = sizeof actions[0],
        .name_bytes = NIGH_SPACE_NAME_BYTES,
        .own = 2 * SPACE_ALIGN - 1,
        .options = options,
        .take = take_own,
    };
    struct space_job job = {0};
    struct cli_asked asked;
    int exit_code = cli_take_action(cli, &verb, argc, argv, &job, &asked);

    if (exit_code != CLI_OK || asked.action == NULL) {
        return exit_code;
    }
    job.name = asked.name;
    job.words = asked.words;
    job.deadline_us = clock_deadline_us(clock_now_us(&clock_monotonic), cli->timeout_us);
    return container_of(asked.action, const struct action, is)->run(cli, &job);
}
