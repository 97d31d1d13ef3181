/* SPDX-License-Identifier: Apache-2.0 */
/* nigh space ls and stat: which spaces there are, how large, who may what, and who takes part. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "cli/space.h"

enum {
    PAGE_ENTRIES = 64,
    RIGHTS_TEXT = 3, /* "rw" */
    NODES_TEXT = 3 * 64 + 1
};

static const char *format_rights(uint32_t access, char text[RIGHTS_TEXT])
{
    text[0] = (access & NIGH_SPACE_READ) != 0 ? 'r' : '-';
    text[1] = (access & NIGH_SPACE_WRITE) != 0 ? 'w' : '-';
    text[2] = '\0';
    return text;
}

/* The nodes that take part, by rank: "0", "0,2". */
static const char *format_nodes(uint64_t ranks, char text[NODES_TEXT])
{
    size_t length = 0;

    text[0] = '\0';
    for (uint32_t rank = 0; rank < 64; rank++) {
        if ((ranks >> rank & 1) != 0) {
            length += (size_t)snprintf(text + length, NODES_TEXT - length,
                                       length > 0 ? ",%u" : "%u", rank);
        }
    }
    return length > 0 ? text : "-";
}

static const char *durability_name(nigh_space_durability durability)
{
    switch (durability) {
    case NIGH_SPACE_DURABLE_ASYNC: return "async";
    case NIGH_SPACE_DURABLE_SYNC: return "sync";
    default: return "none";
    }
}

/* Of a hundred reads; there are some. */
static double hit_rate(const nigh_space_counts *counts)
{
    return 100 * (double)counts->hits / (double)counts->reads;
}

static void print_counts_json(struct json *json, const nigh_space_counts *counts)
{
    json_object_open(json, "here");
    json_u64(json, "reads", counts->reads);
    json_u64(json, "hits", counts->hits);
    json_u64(json, "misses", counts->reads - counts->hits);
    if (counts->reads > 0) {
        json_double(json, "hit_percent", hit_rate(counts));
    }
    json_u64(json, "locks", counts->locks);
    json_u64(json, "locks_kept", counts->kept);
    json_u64(json, "writes", counts->writes);
    json_u64(json, "atomics", counts->atomics);
    json_u64(json, "asks", counts->asks);
    json_u64(json, "invalidations", counts->invalidations);
    json_u64(json, "evictions", counts->evictions);
    json_u64(json, "messages", counts->messages);
    json_u64(json, "block_bytes", counts->block_bytes);
    json_object_close(json);
}

/* counts NULL: nothing is said of them. */
static void print_json(struct json *json, const nigh_space_info *info,
                       const nigh_space_counts *counts)
{
    char rights[RIGHTS_TEXT];

    json_object_open(json, NULL);
    json_name(json, info->name);
    json_string(json, "access", format_rights(info->access, rights));
    json_u64(json, "home_size", info->home_size);
    json_u64(json, "cache_size", info->cache_size);
    json_u64(json, "used_size", info->used_size);
    json_u64(json, "block_size", info->block_size);
    json_u64(json, "uid", info->uid);
    json_u64(json, "gid", info->gid);
    json_string(json, "group_access", format_rights(info->group_access, rights));
    json_string(json, "other_access", format_rights(info->other_access, rights));
    json_string(json, "durability", durability_name(info->durability));
    json_array_open(json, "nodes");
    for (uint32_t rank = 0; rank < 64; rank++) {
        if ((info->ranks >> rank & 1) != 0) {
            json_u64(json, NULL, rank);
        }
    }
    json_array_close(json);
    if (counts != NULL) {
        print_counts_json(json, counts);
    }
    json_object_close(json);
}

/* ---- ls ------------------------------------------------------------------- */

static void print_line(const nigh_space_info *info)
{
    char label[4 * NIGH_SPACE_NAME_BYTES + 1], home[BYTES_SIZE_TEXT], cache[BYTES_SIZE_TEXT];
    char own[RIGHTS_TEXT], group[RIGHTS_TEXT], others[RIGHTS_TEXT], nodes[NODES_TEXT];

    bytes_printable(info->name, strlen(info->name), label, sizeof label);
    bytes_format_size(info->home_size, home);
    bytes_format_size(info->cache_size, cache);
    printf("%10s %10s %5u %8u  %s   %s     %s   %-7s  %s\n", home, cache, info->block_size,
           info->uid, format_rights(info->access, own), format_rights(info->group_access, group),
           format_rights(info->other_access, others), format_nodes(info->ranks, nodes), label);
}

/* Page after page; *listed: how many. */
static nigh_status list(struct cli *cli, const struct space_job *job, struct json *json,
                        uint64_t *listed)
{
    nigh_space_info infos[PAGE_ENTRIES];
    char after[sizeof infos[0].name] = "";
    size_t count;
    uint32_t more;

    do {
        nigh_status status;

        infos[0].struct_size = sizeof infos[0];
        status = nigh_space_list(cli->client, after, infos, PAGE_ENTRIES,
                                 cli_space_timeout_us(cli, job), &count, &more);
        if (status != NIGH_OK) {
            return status;
        }
        for (size_t n = 0; n < count; n++) {
            if (strncmp(infos[n].name, job->name, strlen(job->name)) != 0) {
                continue;
            }
            if ((*listed)++ == 0 && !cli->json) {
                printf("%10s %10s %5s %8s  %s  %s %s %-7s  %s\n", "HOME", "CACHE", "BLOCK", "OWNER",
                       "YOU", "GROUP", "OTHERS", "NODES", "NAME");
            }
            if (cli->json) {
                print_json(json, &infos[n], NULL);
            } else {
                print_line(&infos[n]);
            }
        }
        if (count > 0) {
            memcpy(after, infos[count - 1].name, sizeof after);
        }
    } while (count > 0 && more != 0);
    return NIGH_OK;
}

int cli_space_ls(struct cli *cli, const struct space_job *job)
{
    uint64_t listed = 0;
    struct json json = {0};
    int exit_code = cli_open(cli, 0);
    nigh_status status;

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    if (cli->json) {
        json_array_open(&json, NULL);
    }
    status = list(cli, job, &json, &listed);
    if (status != NIGH_OK) {
        exit_code = cli_failed(cli, status, "cannot list spaces");
    } else if (listed == 0 && !cli->json && isatty(STDOUT_FILENO) == 1) {
        printf("no space%s\n", job->name[0] != '\0' ? " of such a name" : "");
    }
    if (cli->json) {
        if (exit_code != CLI_OK) {
            cli_error_object(cli, &json, exit_code);
        }
        json_array_close(&json);
    }
    return exit_code;
}

/* ---- stat ----------------------------------------------------------------- */

static void print_text(const nigh_space_info *info)
{
    char label[4 * NIGH_SPACE_NAME_BYTES + 1], home[BYTES_SIZE_TEXT], cache[BYTES_SIZE_TEXT];
    char used[BYTES_SIZE_TEXT], group[RIGHTS_TEXT], others[RIGHTS_TEXT], nodes[NODES_TEXT];

    bytes_printable(info->name, strlen(info->name), label, sizeof label);
    bytes_format_size(info->home_size, home);
    bytes_format_size(info->used_size, used);
    bytes_format_size(info->cache_size, cache);
    printf("%s\n  home      %s at each node, of which %s are allocated here\n"
           "  cache     %s at each node\n  block     %u bytes\n  owner     uid %u, gid %u\n"
           "  rights    owner rw, group %s, others %s\n  nodes     %s\n  durable   %s\n",
           label, home, used, cache, info->block_size, info->uid, info->gid,
           format_rights(info->group_access, group), format_rights(info->other_access, others),
           format_nodes(info->ranks, nodes), durability_name(info->durability));
}

static void print_counts_text(const nigh_space_counts *counts)
{
    char bytes[BYTES_SIZE_TEXT], percent[16] = "";

    bytes_format_size(counts->block_bytes, bytes);
    if (counts->reads > 0) {
        (void)snprintf(percent, sizeof percent, " (%.2f %%)", hit_rate(counts));
    }
    printf("  here      %llu reads, of which %llu hits%s, %llu misses\n"
           "            %llu locks, of which %llu were kept; %llu writes, %llu atomics\n"
           "            %llu blocks asked of other nodes; %llu copies taken away, %llu evicted\n"
           "            %llu messages to other nodes, %s of blocks\n",
           (unsigned long long)counts->reads, (unsigned long long)counts->hits, percent,
           (unsigned long long)(counts->reads - counts->hits), (unsigned long long)counts->locks,
           (unsigned long long)counts->kept, (unsigned long long)counts->writes,
           (unsigned long long)counts->atomics, (unsigned long long)counts->asks,
           (unsigned long long)counts->invalidations, (unsigned long long)counts->evictions,
           (unsigned long long)counts->messages, bytes);
}

int cli_space_stat(struct cli *cli, const struct space_job *job)
{
    nigh_space_info info = {.struct_size = sizeof info};
    nigh_space_counts counts = {.struct_size = sizeof counts};
    struct json json = {0};
    int exit_code = cli_open(cli, 0);
    nigh_status status;

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = nigh_space_stat(cli->client, job->name, cli_space_timeout_us(cli, job), &info);
    if (status != NIGH_OK) {
        return cli_space_failed(cli, job, status);
    }
    status = nigh_space_count(cli->client, job->name, cli_space_timeout_us(cli, job), &counts);
    /* An older node does not know the question. */
    if (status != NIGH_OK && status != NIGH_INVALID && status != NIGH_UNSUPPORTED) {
        return cli_space_failed(cli, job, status);
    }
    if (cli->json) {
        print_json(&json, &info, status == NIGH_OK ? &counts : NULL);
        return CLI_OK;
    }
    print_text(&info);
    if (status == NIGH_OK) {
        print_counts_text(&counts);
    }
    return CLI_OK;
}
