/* SPDX-License-Identifier: Apache-2.0 */
/* nigh region create, resize, move, chmod and rm. */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "cli/action.h"
#include "cli/each.h"
#include "cli/region.h"

/* Where new chunks go. */
static int find_place(struct cli *cli, const struct region_job *job, nigh_region_where *where,
                      uint32_t *rank)
{
    *where = (job->given & REGION_SPREAD) != 0 ? NIGH_REGION_SPREAD
             : (job->given & REGION_NEAR) != 0 ? NIGH_REGION_NEAR
                                               : NIGH_REGION_LOCAL;
    if (job->node == NULL) {
        return CLI_OK;
    }
    *where = NIGH_REGION_ON;
    return cli_find_member(cli, "--on", job->node, rank);
}

/* The size of a region: there is none without bytes. */
static int parse_region_size(const struct cli *cli, const char *text, uint64_t *size)
{
    int exit_code = cli_region_parse_size(cli, "SIZE", text, size);

    return exit_code == CLI_OK && *size == 0 ? cli_usage(cli, "a region has a byte at least")
                                             : exit_code;
}

static void report_size(const struct cli *cli, const struct region_job *job, uint64_t size)
{
    struct json json = {0};

    if (!cli->json) {
        return;
    }
    json_object_open(&json, NULL);
    json_name(&json, job->name);
    json_u64(&json, "size", size);
    json_object_close(&json);
}

static int check_chunks(const struct cli *cli, const nigh_region_spec *spec)
{
    if (spec->chunk_size == 0) {
        return CLI_OK;
    }
    if ((spec->size - 1) / spec->chunk_size >= NIGH_REGION_CHUNKS) {
        return cli_usage(cli, "a region has %u chunks at most: --chunk %llu is too small for it",
                         NIGH_REGION_CHUNKS, (unsigned long long)spec->chunk_size);
    }
    return CLI_OK;
}

int cli_region_create(struct cli *cli, const struct region_job *job)
{
    nigh_region_spec spec = {.struct_size = sizeof spec,
                             .name = job->name,
                             .chunk_size = job->chunk_size,
                             .group_access = job->group_access,
                             .flags = job->given & REGION_MAPPABLE ? NIGH_REGION_MAPPABLE : 0,
                             .other_access = job->other_access,
                             .near = job->near};
    int exit_code = parse_region_size(cli, job->words[0], &spec.size);
    nigh_region *region;
    nigh_status status;

    if (exit_code == CLI_OK) {
        exit_code = check_chunks(cli, &spec);
    }
    if (exit_code == CLI_OK) {
        exit_code = cli_open(cli, 0);
    }
    if (exit_code == CLI_OK) {
        exit_code = find_place(cli, job, &spec.where, &spec.rank);
    }
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    /* Looked for first: a node that has just begun is waited for before anything may happen. */
    status = cli_region_try_open(cli, job, NIGH_REGION_MASTER, &region);
    if (status == NIGH_OK) {
        nigh_region_close(region);
    } else if (status == NIGH_NO_QUORUM || status == NIGH_TIMEOUT) {
        return cli_region_not_open(cli, job, 0, status);
    }
    status = nigh_region_create(cli->client, &spec, cli_region_timeout_us(cli, job), &region);
    if (status == NIGH_NOT_FOUND && job->near != NULL) {
        cli_error(cli, "--near %s: no such region", job->near);
        return cli_exit_code(status);
    }
    if (status == NIGH_DENIED && job->near != NULL) {
        cli_error(cli, "--near %s: user %u has no rights to it", job->near, (unsigned)geteuid());
        return cli_exit_code(status);
    }
    if (status != NIGH_OK) {
        return cli_region_failed(cli, job, 0, status);
    }
    nigh_region_close(region);
    report_size(cli, job, spec.size);
    return CLI_OK;
}

/* Of a region whose memory is a process's; false: it is none, or nobody says so. */
static bool tell_donated(struct cli *cli, const struct region_job *job, nigh_region *region)
{
    nigh_region_info info = {.struct_size = sizeof info};

    if (nigh_region_stat(region, cli_region_timeout_us(cli, job), &info) != NIGH_OK ||
        (info.flags & NIGH_REGION_DONATED) == 0) {
        return false;
    }
    cli_error(cli, "%s: its memory was donated: it neither moves nor changes its size", job->name);
    return true;
}

/* Its chunks keep their size; false: nobody says so. */
static bool tell_too_many(struct cli *cli, const struct region_job *job, nigh_region *region,
                          uint64_t size)
{
    nigh_region_info info = {.struct_size = sizeof info};
    char chunk[BYTES_SIZE_TEXT], most[BYTES_SIZE_TEXT];

    if (nigh_region_stat(region, cli_region_timeout_us(cli, job), &info) != NIGH_OK ||
        info.chunk_size == 0 || (size - 1) / info.chunk_size < NIGH_REGION_CHUNKS) {
        return false;
    }
    bytes_format_size(info.chunk_size, chunk);
    bytes_format_size(info.chunk_size * NIGH_REGION_CHUNKS, most);
    cli_error(cli, "%s: its chunks have %s, and there are %u at most: it can have %s, and no more",
              job->name, chunk, NIGH_REGION_CHUNKS, most);
    return true;
}

int cli_region_resize(struct cli *cli, const struct region_job *job)
{
    uint64_t size = 0;
    nigh_region_where where;
    nigh_region *region;
    nigh_status status;
    uint32_t rank = 0;
    int exit_code = parse_region_size(cli, job->words[0], &size);

    if (exit_code == CLI_OK) {
        exit_code = cli_open(cli, 0);
    }
    if (exit_code == CLI_OK) {
        exit_code = find_place(cli, job, &where, &rank);
    }
    if (exit_code == CLI_OK) {
        exit_code = cli_region_open(cli, job, NIGH_REGION_MASTER, &region);
    }
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = nigh_region_resize(region, size, where, rank, cli_region_timeout_us(cli, job));
    if (status == NIGH_OK) {
        report_size(cli, job, size);
    } else if ((status == NIGH_INVALID && tell_donated(cli, job, region)) ||
               (status == NIGH_LIMIT && tell_too_many(cli, job, region, size))) {
        exit_code = cli_exit_code(status);
    } else {
        exit_code = cli_region_failed(cli, job, NIGH_REGION_MASTER, status);
    }
    nigh_region_close(region);
    return exit_code;
}

static int parse_chunk(const struct cli *cli, const char *text, uint32_t *chunk)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || number >= NIGH_REGION_CHUNKS) {
        return cli_usage(cli, "CHUNK '%s' is not a number from 0 to %u", text,
                         NIGH_REGION_CHUNKS - 1);
    }
    *chunk = (uint32_t)number;
    return CLI_OK;
}

/* A process keeps only a chunk that can be mapped. */
static int tell_busy(struct cli *cli, const struct region_job *job, const nigh_region_info *info)
{
    bool may_be_mapped = (info->flags & NIGH_REGION_MAPPABLE) != 0;

    cli_error(cli,
              "%s: %sthe members of the cluster have just changed, or another change was in "
              "the way: look whether it has happened (nigh region stat), and try again",
              job->name,
              may_be_mapped ? "a process has the chunk mapped, and keeps it there; or " : "");
    return cli_exit_code(NIGH_BUSY);
}

/* A chunk that there is not, or the node; or why it is not moved now. */
static int tell_not_moved(struct cli *cli, const struct region_job *job, nigh_region *region,
                          uint32_t chunk, nigh_status status)
{
    nigh_region_info info = {.struct_size = sizeof info};

    if ((status != NIGH_INVALID && status != NIGH_BUSY) ||
        nigh_region_stat(region, cli_region_timeout_us(cli, job), &info) != NIGH_OK) {
        return cli_region_failed(cli, job, NIGH_REGION_MASTER, status);
    }
    if (status == NIGH_BUSY) {
        return tell_busy(cli, job, &info);
    }
    if (chunk >= info.chunk_count) {
        return cli_wrong(cli, "%s has no chunk %u: its last one is %u", job->name, chunk,
                         info.chunk_count - 1);
    }
    if (tell_donated(cli, job, region)) {
        return cli_exit_code(status);
    }
    return cli_wrong(cli, "there is no node %s to move a chunk to (nigh nodes)", job->words[1]);
}

static void report_move(const struct cli *cli, const struct region_job *job, uint32_t chunk,
                        uint32_t rank)
{
    struct json json = {0};

    if (!cli->json) {
        return;
    }
    json_object_open(&json, NULL);
    json_name(&json, job->name);
    json_u64(&json, "chunk", chunk);
    json_u64(&json, "rank", rank);
    json_object_close(&json);
}

int cli_region_move(struct cli *cli, const struct region_job *job)
{
    const char *node = job->words[1];
    uint32_t chunk = 0, rank = 0;
    nigh_region *region;
    nigh_status status;
    int exit_code = parse_chunk(cli, job->words[0], &chunk);

    if (exit_code == CLI_OK) {
        exit_code = cli_open(cli, 0);
    }
    if (exit_code == CLI_OK) {
        exit_code = cli_find_member(cli, "NODE", node, &rank);
    }
    if (exit_code == CLI_OK) {
        exit_code = cli_region_open(cli, job, NIGH_REGION_MASTER, &region);
    }
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = nigh_region_move(region, chunk, rank, cli_region_timeout_us(cli, job));
    if (status != NIGH_OK && status != NIGH_EXISTS) { /* it is there already */
        exit_code = tell_not_moved(cli, job, region, chunk, status);
    } else {
        report_move(cli, job, chunk, rank);
    }
    nigh_region_close(region);
    return exit_code;
}

static int find_user(struct cli *cli, const char *text, size_t length, uint32_t *user)
{
    char name[256], *end;
    const struct passwd *entry;
    unsigned long long number;

    snprintf(name, sizeof name, "%.*s", (int)length, text);
    number = strtoull(name, &end, 10);
    if (name[0] >= '0' && name[0] <= '9' && *end == '\0' && number < UINT32_MAX) {
        *user = (uint32_t)number;
        return CLI_OK;
    }
    entry = name[0] != '\0' ? getpwnam(name) : NULL;
    if (entry == NULL) {
        return cli_wrong(cli, "there is no user '%s' on this machine", name);
    }
    *user = (uint32_t)entry->pw_uid;
    return CLI_OK;
}

/* A change of rights: "u:1000+rw", "o-r". */
struct rights {
    nigh_region_whose whose;
    uint32_t user;
    uint32_t give, take;
};

static int parse_change(struct cli *cli, const char *text, struct rights *change)
{
    /* The last of them: a user's name may have some. */
    size_t length = strlen(text);
    uint32_t *access;

    while (length > 0 && text[length - 1] != '+' && text[length - 1] != '-') {
        length--;
    }
    *change = (struct rights){.whose = text[0] == 'g' ? NIGH_REGION_GROUP : NIGH_REGION_OTHERS};
    if (length > 3 && strncmp(text, "u:", 2) == 0) {
        int exit_code = find_user(cli, text + 2, length - 3, &change->user);

        change->whose = NIGH_REGION_USER;
        if (exit_code != CLI_OK) {
            return exit_code;
        }
    } else if (length != 2 || (text[0] != 'g' && text[0] != 'o')) {
        return cli_usage(
            cli, "'%s' is not u:USER, g or o, then + or -, then rights; such as u:1000+rw", text);
    }
    access = text[length - 1] == '+' ? &change->give : &change->take;
    return cli_region_parse_rights(cli, "chmod", text + length, access);
}

int cli_region_chmod(struct cli *cli, const struct region_job *job)
{
    struct rights change;
    struct json json = {0};
    nigh_region *region;
    nigh_status status;
    int exit_code = parse_change(cli, job->words[0], &change);

    if (exit_code == CLI_OK) {
        exit_code = cli_region_open(cli, job, NIGH_REGION_MASTER, &region);
    }
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = nigh_region_grant(region, change.whose, change.user, change.give, change.take,
                               cli_region_timeout_us(cli, job));
    nigh_region_close(region);
    if (status == NIGH_INVALID && change.whose == NIGH_REGION_USER) {
        return cli_wrong(cli, "%s is user %u's own, who has all rights", job->name, change.user);
    }
    if (status == NIGH_LIMIT) {
        cli_error(cli, "%s: %u users have rights of their own, and more cannot", job->name,
                  NIGH_REGION_USERS);
        return CLI_FULL;
    }
    if (status != NIGH_OK) {
        return cli_region_failed(cli, job, NIGH_REGION_MASTER, status);
    }
    if (cli->json) {
        json_object_open(&json, NULL);
        json_name(&json, job->name);
        json_string(&json, "changed", job->words[0]);
        json_object_close(&json);
    }
    return CLI_OK;
}

static int remove_one(struct cli *cli, const void *context, const char *name, struct json *json)
{
    struct region_job job = *(const struct region_job *)context;
    nigh_region *region = NULL;
    int exit_code = CLI_OK;
    nigh_status status;

    job.name = name;
    status = cli_region_try_open(cli, &job, NIGH_REGION_MASTER, &region);
    if (status != NIGH_OK) {
        exit_code = cli_region_not_open(cli, &job, NIGH_REGION_MASTER, status);
    } else {
        status = nigh_region_free(region, cli_region_timeout_us(cli, &job));
        if (status != NIGH_OK) {
            exit_code = cli_region_failed(cli, &job, NIGH_REGION_MASTER, status);
        }
    }
    nigh_region_close(region);
    cli_each_report(cli, json, name, status, exit_code);
    return exit_code;
}

int cli_region_rm(struct cli *cli, const struct region_job *job)
{
    return cli_act_on_each(cli, job, job->name, job->words, remove_one);
}
