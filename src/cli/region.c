/* SPDX-License-Identifier: Apache-2.0 */
/* nigh region: named memory of the cluster. Here is what was asked for; region_change.c,
 * region_list.c, region_stat.c and region_io.c do it. */
#include "cli/region.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
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

static const struct action {
    const char *name;
    const char *arguments, *help; /* as --help has them */
    const char *words;            /* that it takes */
    int least, most;              /* of them */
    uint32_t options;             /* REGION_* */
    int (*run)(struct cli *cli, const struct region_job *job);
} actions[] = {
    {"create", "NAME SIZE", REGION_HELP_CREATE, "a NAME and a SIZE", 2, 2,
     REGION_CHUNK | REGION_ON | REGION_SPREAD | REGION_NEAR | REGION_GROUP | REGION_OTHERS |
         REGION_MAPPABLE,
     cli_region_create},
    {"ls", "[PREFIX]", REGION_HELP_LS, "at most one PREFIX", 0, 1, 0, cli_region_ls},
    {"stat", "NAME", REGION_HELP_STAT, "a NAME", 1, 1, 0, cli_region_stat},
    {"read", "NAME", REGION_HELP_READ, "a NAME", 1, 1, REGION_OFFSET | REGION_SIZE,
     cli_region_read},
    {"write", "NAME", REGION_HELP_WRITE, "a NAME", 1, 1, REGION_OFFSET, cli_region_write},
    {"move", "NAME CHUNK NODE", REGION_HELP_MOVE, "a NAME, the number of a CHUNK and a NODE", 3, 3,
     0, cli_region_move},
    {"chmod", "NAME CHANGE", REGION_HELP_CHMOD,
     "a NAME and a change of rights, such as u:1000+rw or o-r", 2, 2, 0, cli_region_chmod},
    {"resize", "NAME SIZE", REGION_HELP_RESIZE, "a NAME and a SIZE", 2, 2,
     REGION_ON | REGION_SPREAD, cli_region_resize},
    {"rm", "NAME...", REGION_HELP_RM, "at least one NAME", 1, INT_MAX, 0, cli_region_rm},
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

/* One of REGION_*: a bit, as no letter of the common ones is. */
static bool is_own(int option)
{
    return option > 0 && option <= REGION_MAPPABLE && (option & (option - 1)) == 0;
}

static const struct action *find_action(const char *name)
{
    for (size_t n = 0; n < sizeof actions / sizeof actions[0]; n++) {
        if (strcmp(actions[n].name, name) == 0) {
            return &actions[n];
        }
    }
    return NULL;
}

static int take_chunk(const struct cli *cli, struct region_job *job)
{
    int exit_code = cli_region_parse_size(cli, "--chunk", optarg, &job->chunk_size);

    if (exit_code == CLI_OK && (job->chunk_size == 0 || job->chunk_size % CHUNK_UNIT != 0)) {
        return cli_usage(cli, "--chunk takes a multiple of %d bytes, not '%s'", CHUNK_UNIT, optarg);
    }
    return exit_code;
}

/* An option of this verb's own: CLI_OK, or an exit code. */
static int take_own(const struct cli *cli, uint32_t option, struct region_job *job)
{
    job->given |= option;
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

/* The first, and those behind it. */
static int check_names(const struct cli *cli, int count, const struct region_job *job)
{
    for (int n = 0; n < count; n++) {
        size_t bytes = strlen(n == 0 ? job->name : job->words[n - 1]);

        if (bytes == 0 || bytes > NIGH_REGION_NAME_BYTES) {
            return cli_usage(cli, "the name of a region has 1 to %u bytes", NIGH_REGION_NAME_BYTES);
        }
    }
    return CLI_OK;
}

/* Whether the words and options are those of the action. */
static int check(const struct cli *cli, const struct action *action, int words,
                 const struct region_job *job)
{
    uint32_t places = job->given & (REGION_ON | REGION_SPREAD | REGION_NEAR);

    for (const struct option *option = options; option->name != NULL; option++) {
        uint32_t given = job->given & (uint32_t)option->val;

        if (is_own(option->val) && (given & ~action->options) != 0) {
            return cli_usage(cli, "%s takes no --%s", action->name, option->name);
        }
    }
    if (places != 0 && (places & (places - 1)) != 0) {
        return cli_usage(cli, "takes --on, --spread or --near, not both");
    }
    if (words < action->least || words > action->most) {
        return cli_usage(cli, "%s takes %s", action->name, action->words);
    }
    return check_names(cli, action->most == INT_MAX ? words : action->least > 0 ? 1 : 0, job);
}

/* Of the action that is named, wherever --help stands; 'h' is no option of its own. */
static bool is_helped(int option, int argc, char **argv)
{
    const struct action *action = NULL;
    char verb[24];

    for (int n = 1; option == 'h' && action == NULL && n < argc; n++) {
        action = find_action(argv[n]);
    }
    if (action == NULL) {
        return false;
    }
    (void)snprintf(verb, sizeof verb, "region %s", action->name);
    cli_print_help(verb, action->arguments, "", action->help);
    return true;
}

int cli_region(struct cli *cli, int argc, char **argv)
{
    struct region_job job = {0};
    const struct action *action;
    int option, exit_code = CLI_OK;

    while ((option = cli_next_option(cli, argc, argv, ":" CLI_COMMON_SHORT, options)) != -1) {
        if (is_helped(option, argc, argv)) {
            return CLI_OK;
        }
        if (is_own(option) && (exit_code = take_own(cli, (uint32_t)option, &job)) != CLI_OK) {
            return exit_code;
        }
        if (!is_own(option) && cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    action = argc > optind ? find_action(argv[optind]) : NULL;
    if (action == NULL) {
        return cli_usage(
            cli,
            "takes ls, or create, stat, read, write, move, chmod, resize or rm and a NAME%s%s%s",
            argc > optind ? "; not '" : "", argc > optind ? argv[optind] : "",
            argc > optind ? "'" : "");
    }
    job.name = argc > optind + 1 ? argv[optind + 1] : "";
    job.words = argv + min_size((size_t)optind + 2, (size_t)argc);
    job.deadline_us = clock_deadline_us(clock_now_us(&clock_monotonic), cli->timeout_us);
    job.begun_us = cli->timeout_given ? job.deadline_us
                                      : clock_deadline_us(clock_now_us(&clock_monotonic), BEGUN_US);
    exit_code = check(cli, action, argc - optind - 1, &job);
    return exit_code == CLI_OK ? action->run(cli, &job) : exit_code;
}
