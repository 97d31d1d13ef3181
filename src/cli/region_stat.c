/* SPDX-License-Identifier: Apache-2.0 */
/* nigh region stat: how large a region is, who may what, and where its chunks are. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/json.h"
#include "cli/region.h"

const char *cli_region_format_rights(uint32_t access, char text[REGION_RIGHTS_TEXT])
{
    text[0] = (access & NIGH_REGION_READ) != 0 ? 'r' : '-';
    text[1] = (access & NIGH_REGION_WRITE) != 0 ? 'w' : '-';
    text[2] = (access & NIGH_REGION_MASTER) != 0 ? 'm' : '-';
    text[3] = '\0';
    return text;
}

void cli_region_info_json(struct json *json, const nigh_region_info *info)
{
    char rights[REGION_RIGHTS_TEXT];

    json_u64(json, "size", info->size);
    json_u64(json, "chunk_size", info->chunk_size);
    json_u64(json, "uid", info->uid);
    json_u64(json, "gid", info->gid);
    json_string(json, "group_access", cli_region_format_rights(info->group_access, rights));
    json_string(json, "other_access", cli_region_format_rights(info->other_access, rights));
    json_bool(json, "mappable", (info->flags & NIGH_REGION_MAPPABLE) != 0);
    json_bool(json, "donated", (info->flags & NIGH_REGION_DONATED) != 0);
    json_array_open(json, "users");
    for (uint32_t n = 0; n < info->user_count; n++) {
        json_object_open(json, NULL);
        json_u64(json, "uid", info->users[n].uid);
        json_string(json, "access", cli_region_format_rights(info->users[n].access, rights));
        json_object_close(json);
    }
    json_array_close(json);
    json_array_open(json, "chunks");
    for (uint32_t n = 0; n < info->chunk_count; n++) {
        uint32_t rank = info->ranks[n];

        json_i64(json, NULL, rank == NIGH_REGION_LOST ? -1 : (int64_t)rank);
    }
    json_array_close(json);
}

static void print_json(const char *name, const nigh_region_info *info)
{
    struct json json = {0};

    json_object_open(&json, NULL);
    json_name(&json, name);
    cli_region_info_json(&json, info);
    json_object_close(&json);
}

/* A line for chunks that follow each other and are at one place. */
static void print_chunks(const nigh_region_info *info)
{
    for (uint32_t first = 0, end; first < info->chunk_count; first = end) {
        uint32_t rank = info->ranks[first];

        for (end = first + 1; end < info->chunk_count && info->ranks[end] == rank; end++) {
        }
        printf(end - first == 1 ? "  chunk     %u" : "  chunks    %u", first);
        if (end - first > 1) {
            printf(" to %u", end - 1);
        }
        if (rank == NIGH_REGION_LOST) {
            puts(": lost, with the node that had it");
        } else {
            printf(" on node %u\n", rank);
        }
    }
}

static void print_text(const char *name, const nigh_region_info *info)
{
    char label[4 * NIGH_REGION_NAME_BYTES + 1], chunk_size[BYTES_SIZE_TEXT];
    char group[REGION_RIGHTS_TEXT], others[REGION_RIGHTS_TEXT], own[REGION_RIGHTS_TEXT];

    bytes_printable(name, strlen(name), label, sizeof label);
    bytes_format_size(info->chunk_size, chunk_size);
    printf("%s\n  size      %llu byte%s, %u chunk%s of %s\n  owner     uid %u, gid %u\n"
           "  rights    owner rwm, group %s, others %s\n",
           label, (unsigned long long)info->size, info->size == 1 ? "" : "s", info->chunk_count,
           info->chunk_count == 1 ? "" : "s", chunk_size, info->uid, info->gid,
           cli_region_format_rights(info->group_access, group),
           cli_region_format_rights(info->other_access, others));
    for (uint32_t n = 0; n < info->user_count; n++) {
        printf("  user      uid %u %s\n", info->users[n].uid,
               cli_region_format_rights(info->users[n].access, own));
    }
    if ((info->flags & NIGH_REGION_MAPPABLE) != 0) {
        puts("  mappable  by clients of a chunk's node");
    }
    if ((info->flags & NIGH_REGION_DONATED) != 0) {
        puts("  donated   its memory is a process's");
    }
    print_chunks(info);
}

/* A handle is for some right, and whichever the user has is enough to look. */
static int open_to_look(struct cli *cli, const struct region_job *job, nigh_region **region)
{
    static const uint32_t rights[] = {NIGH_REGION_READ, NIGH_REGION_WRITE, NIGH_REGION_MASTER};
    nigh_status status = NIGH_DENIED;
    int exit_code = cli_open(cli, 0);

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    for (size_t n = 0; n < sizeof rights / sizeof rights[0] && status == NIGH_DENIED; n++) {
        status = cli_region_try_open(cli, job, rights[n], region);
    }
    return status == NIGH_OK ? CLI_OK : cli_region_failed(cli, job, NIGH_REGION_ALL, status);
}

int cli_region_stat(struct cli *cli, const struct region_job *job)
{
    nigh_region_info info = {.struct_size = sizeof info};
    nigh_region *region;
    nigh_status status;
    int exit_code = open_to_look(cli, job, &region);

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = nigh_region_stat(region, cli_region_timeout_us(cli, job), &info);
    nigh_region_close(region);
    if (status != NIGH_OK) {
        return cli_region_failed(cli, job, NIGH_REGION_ALL, status);
    }
    if (cli->json) {
        print_json(job->name, &info);
    } else {
        print_text(job->name, &info);
    }
    return CLI_OK;
}
