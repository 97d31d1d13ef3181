/* SPDX-License-Identifier: Apache-2.0 */
/* nigh region: named memory of the cluster. Here is what was asked for; region_change.c,
 * region_list.c, region_stat.c and region_io.c do it. */
#include "cli/region.h"

#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "cli/action.h"
#include "cli/region_help.h"

#define REGION_US UINT64_C(30000000) /* without --timeout, each operation */
#define BEGUN_US  UINT64_C(3000000)  /* without --timeout, for a node that has just begun */
#define LOOK_NS   50000000           /* between looks whether it goes on */
#define SAID_US   UINT64_C(1000000)  /* as long as one that does not may take to say so */

enum {
    CHUNK_UNIT = 4096 /* chunks are multiples of it */
};

/* ---- what the actions share ----------------------------------------------- */

uint64_t cli_region_timeout_us(const struct cli *cli, const struct region_job *job)
{
    if (!cli->timeout_given) {
        return REGION_US;
    }
    return clock_left_us(clock_now_us(&clock_monotonic), job->deadline_us);
}

static const char *lacks(uint32_t access)
{
    switch (access) {
    case NIGH_REGION_READ: return "may not read it";
    case NIGH_REGION_WRITE: return "may not write it";
    case NIGH_REGION_MASTER: return "is no master of it";
    default: return "has no rights to it";
    }
}

/* `unsure`: what is said where the region may have been changed all the same. */
static int failed(struct cli *cli, const struct region_job *job, uint32_t access,
                  const char *unsure, nigh_status status)
{
    switch (status) {
    case NIGH_NOT_FOUND: cli_error(cli, "%s: no such region", job->name); break;
    case NIGH_EXISTS: cli_error(cli, "%s: a region of this name exists already", job->name); break;
    case NIGH_DENIED:
        cli_error(cli, "%s: user %u %s", job->name, (unsigned)geteuid(), lacks(access));
        break;
    case NIGH_TIMEOUT: cli_error(cli, "%s: the time was up%s", job->name, unsure); break;
    case NIGH_NO_QUORUM:
        cli_error(cli,
                  "%s: this node has just begun, or is cut off from most voters (nigh nodes, nigh "
                  "doctor)%s",
                  job->name, unsure);
        break;
    default: return cli_failed(cli, status, job->name);
    }
    return cli_exit_code(status);
}

int cli_region_failed(struct cli *cli, const struct region_job *job, uint32_t access,
                      nigh_status status)
{
    bool is_change = access == NIGH_REGION_MASTER || access == 0;

    return failed(cli, job, access, is_change ? ": it may have happened all the same" : "", status);
}

bool cli_region_waits(const struct region_job *job, nigh_status *status, uint64_t *again_us)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    uint64_t now_us = clock_now_us(&clock_monotonic);

    /* What it was waited for is why, unless something took its time since. */
    if (*status == NIGH_TIMEOUT && *again_us != 0 && now_us - *again_us < SAID_US) {
        *status = NIGH_NO_QUORUM;
        return false;
    }
    if (*status != NIGH_NO_QUORUM || now_us >= job->begun_us) {
        return false;
    }
    (void)nanosleep(&pause, NULL);
    *again_us = clock_now_us(&clock_monotonic);
    return true;
}

nigh_status cli_region_try_open(struct cli *cli, const struct region_job *job, uint32_t access,
                                nigh_region **region)
{
    nigh_status status;
    uint64_t again_us = 0;

    do {
        status = nigh_region_open(cli->client, job->name, access, cli_region_timeout_us(cli, job),
                                  region);
    } while (cli_region_waits(job, &status, &again_us));
    return status;
}

int cli_region_not_open(struct cli *cli, const struct region_job *job, uint32_t access,
                        nigh_status status)
{
    return failed(cli, job, access, ": nothing was done", status);
}

int cli_region_open(struct cli *cli, const struct region_job *job, uint32_t access,
                    nigh_region **region)
{
    int exit_code = cli->client == NULL ? cli_open(cli, 0) : CLI_OK;
    nigh_status status;

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = cli_region_try_open(cli, job, access, region);
    return status == NIGH_OK ? CLI_OK : cli_region_not_open(cli, job, access, status);
}

int cli_region_parse_size(const struct cli *cli, const char *what, const char *text, uint64_t *size)
{
    if (bytes_parse_size(text, size) != NIGH_OK) {
        return cli_usage(cli, "%s '%s' is not a size such as 4096 or 16M (K, M, G, T, P)", what,
                         text);
    }
    return CLI_OK;
}

int cli_region_parse_rights(const struct cli *cli, const char *what, const char *text,
                            uint32_t *access)
{
    static const char letters[] = "rwm";
    uint32_t all = 0;

    for (const char *letter = text; *letter != '\0'; letter++) {
        const char *at = strchr(letters, *letter);

        all |= at != NULL ? UINT32_C(1) << (at - letters) : NIGH_REGION_ALL + 1;
    }
    if (all == 0 || all > NIGH_REGION_ALL) {
        return cli_usage(cli, "%s takes rights: of r (read), w (write), m (master); not '%s'", what,
                         text);
    }
    *access = all;
    return CLI_OK;
}

/* ---- the verb ------------------------------------------------------------- */

struct action {
    struct cli_action is;
    int (*run)(struct cli *cli, const struct region_job *job);
};

static const struct action actions[] = {
    {{"create", "NAME SIZE", REGION_HELP_CREATE, "a NAME and a SIZE", 2, 2,
      REGION_CHUNK | REGION_ON | REGION_SPREAD | REGION_NEAR | REGION_GROUP | REGION_OTHERS |
          REGION_MAPPABLE},
     cli_region_create},
    {{"ls", "[PREFIX]", REGION_HELP_LS, "at most one PREFIX", 0, 1, 0}, cli_region_ls},
    {{"stat", "NAME", REGION_HELP_STAT, "a NAME", 1, 1, 0}, cli_region_stat},
    {{"read", "NAME", REGION_HELP_READ, "a NAME", 1, 1, REGION_OFFSET | REGION_SIZE},
     cli_region_read},
    {{"write", "NAME", REGION_HELP_WRITE, "a NAME", 1, 1, REGION_OFFSET}, cli_region_write},
    {{"move", "NAME CHUNK NODE", REGION_HELP_MOVE, "a NAME, the number of a CHUNK and a NODE", 3, 3,
      0},
     cli_region_move},
    {{"chmod", "NAME CHANGE", REGION_HELP_CHMOD,
      "a NAME and a change of rights, such as u:1000+rw or o-r", 2, 2, 0},
     cli_region_chmod},
    {{"resize", "NAME SIZE", REGION_HELP_RESIZE, "a NAME and a SIZE", 2, 2,
      REGION_ON | REGION_SPREAD},
     cli_region_resize},
    {{"rm", "NAME...", REGION_HELP_RM, "at least one NAME", 1, INT_MAX, 0}, cli_region_rm},
};

static const struct option options[] = {{"chunk", required_argument, NULL, REGION_CHUNK},
                                        {"on", required_argument, NULL, REGION_ON},
                                        {"spread", no_argument, NULL, REGION_SPREAD},
                                        {"near", required_argument, NULL, REGION_NEAR},
                                        {"group", required_argument, NULL, REGION_GROUP},
                                        {"others", required_argument, NULL, REGION_OTHERS},
                                        {"offset", required_argument, NULL, REGION_OFFSET},
                                        {"size", required_argument, NULL, REGION_SIZE},
                                        {"mappable", no_argument, NULL, REGION_MAPPABLE},
                                        CLI_COMMON_OPTIONS,
                                        {0}};

static int take_chunk(const struct cli *cli, struct region_job *job)
{
    int exit_code = cli_region_parse_size(cli, "--chunk", optarg, &job->chunk_size);

    if (exit_code == CLI_OK && (job->chunk_size == 0 || job->chunk_size % CHUNK_UNIT != 0)) {
        return cli_usage(cli, "--chunk takes a multiple of %d bytes, not '%s'", CHUNK_UNIT, optarg);
    }
    return exit_code;
}

static int take_own(const struct cli *cli, uint32_t option, void *context)
{
    struct region_job *job = context;

    switch (option) {
    case REGION_CHUNK: return take_chunk(cli, job);
    case REGION_ON: job->node = optarg; return CLI_OK;
    case REGION_NEAR: job->near = optarg; return CLI_OK;
    case REGION_GROUP: return cli_region_parse_rights(cli, "--group", optarg, &job->group_access);
    case REGION_OTHERS: return cli_region_parse_rights(cli, "--others", optarg, &job->other_access);
    case REGION_OFFSET: return cli_region_parse_size(cli, "--offset", optarg, &job->offset);
    case REGION_SIZE: return cli_region_parse_size(cli, "--size", optarg, &job->size);
    default: return CLI_OK;
    }
}

int cli_region(struct cli *cli, int argc, char **argv)
{
    static const struct cli_actions verb = {
        .verb = "region",
        .takes = "ls, or create, stat, read, write, move, chmod, resize or rm and a NAME",
        .first = &actions[0].is,
        .count = sizeof actions / sizeof actions[0],
        .stride = sizeof actions[0],
        .name_bytes = NIGH_REGION_NAME_BYTES,
        .own = 2 * REGION_MAPPABLE - 1,
        .options = options,
        .take = take_own,
    };
    struct region_job job = {0};
    struct cli_asked asked;
    int exit_code = cli_take_action(cli, &verb, argc, argv, &job, &asked);
    uint32_t places = asked.given & (REGION_ON | REGION_SPREAD | REGION_NEAR);

    if (exit_code != CLI_OK || asked.action == NULL) {
        return exit_code;
    }
    if ((places & (places - 1)) != 0) {
        return cli_usage(cli, "takes --on, --spread or --near, not both");
    }
    job.given = asked.given;
    job.name = asked.name;
    job.words = asked.words;
    job.deadline_us = clock_deadline_us(clock_now_us(&clock_monotonic), cli->timeout_us);
    job.begun_us = cli->timeout_given ? job.deadline_us
                                      : clock_deadline_us(clock_now_us(&clock_monotonic), BEGUN_US);
    return container_of(asked.action, const struct action, is)->run(cli, &job);
}
