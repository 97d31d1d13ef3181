/* SPDX-License-Identifier: Apache-2.0 */
/* nigh region ls: the regions of the cluster that the user has rights to, by name. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "cli/region.h"

enum {
    PAGE_ENTRIES = 128,
    NODES_TEXT = 24
};

/* The nodes that have chunks, by rank: "0", "0,2", "0,1,2,3,..."; "-": all are lost. */
static const char *format_nodes(const nigh_region_info *info, char text[NODES_TEXT])
{
    bool has[UINT8_MAX + 1] = {false};
    size_t length = 0;

    for (uint32_t n = 0; n < info->chunk_count; n++) {
        if (info->ranks[n] <= UINT8_MAX) {
            has[info->ranks[n]] = true;
        }
    }
    for (uint32_t rank = 0; rank <= UINT8_MAX; rank++) {
        if (has[rank] && length > 16) {
            snprintf(text + length, NODES_TEXT - length, ",...");
            return text;
        }
        if (has[rank]) {
            length += (size_t)snprintf(text + length, NODES_TEXT - length,
                                       length > 0 ? ",%u" : "%u", rank);
        }
    }
    return length > 0 ? text : "-";
}

static bool has_losses(const nigh_region_info *info)
{
    for (uint32_t n = 0; n < info->chunk_count; n++) {
        if (info->ranks[n] == NIGH_REGION_LOST) {
            return true;
        }
    }
    return false;
}

/* Only where there is one for it. */
static void print_head(void)
{
    printf("%10s %6s %8s  %s  %s %s %-5s  %s\n", "SIZE", "CHUNKS", "OWNER", "YOU", "GROUP",
           "OTHERS", "NODES", "NAME");
}

static void print_line(const nigh_region_entry *entry)
{
    const nigh_region_info *info = &entry->info;
    char label[4 * NIGH_REGION_NAME_BYTES + 1], size[BYTES_SIZE_TEXT], nodes[NODES_TEXT];
    char own[REGION_RIGHTS_TEXT], group[REGION_RIGHTS_TEXT], others[REGION_RIGHTS_TEXT];

    bytes_printable(entry->name, strlen(entry->name), label, sizeof label);
    bytes_format_size(info->size, size);
    printf("%10s %6u %8u  %s  %s   %s    %-5s  %s%s\n", size, info->chunk_count, info->uid,
           cli_region_format_rights(entry->access, own),
           cli_region_format_rights(info->group_access, group),
           cli_region_format_rights(info->other_access, others), format_nodes(info, nodes), label,
           has_losses(info) ? "  (chunks lost)" : "");
}

static void print_json(struct json *json, const nigh_region_entry *entry)
{
    char rights[REGION_RIGHTS_TEXT];

    json_object_open(json, NULL);
    json_name(json, entry->name);
    json_string(json, "access", cli_region_format_rights(entry->access, rights));
    json_u64(json, "home", entry->home);
    cli_region_info_json(json, &entry->info);
    json_object_close(json);
}

/* A name, or none, behind which those begin that begin with a prefix. */
static void begin_at(const char *prefix, char after[NIGH_REGION_NAME_BYTES + 1])
{
    size_t length = strnlen(prefix, NIGH_REGION_NAME_BYTES);

    memset(after, 0, NIGH_REGION_NAME_BYTES + 1);
    memcpy(after, prefix, length);
    if (length == 0) {
        return;
    }
    /* The last one before it: its last byte one less, and then as many of the largest as fit. */
    if (--after[length - 1] != 0) {
        memset(after + length, UINT8_MAX, NIGH_REGION_NAME_BYTES - length);
    }
}

/* A page, as soon as the node serves any. */
static nigh_status ask(struct cli *cli, const struct region_job *job, const char *after,
                       nigh_region_entry entries[PAGE_ENTRIES], size_t *count, uint32_t *more)
{
    nigh_status status;
    uint64_t again_us = 0;

    do {
        entries[0].info.struct_size = sizeof entries[0].info;
        status = nigh_region_list(cli->client, after, entries, PAGE_ENTRIES,
                                  cli_region_timeout_us(cli, job), count, more);
    } while (cli_region_waits(job, &status, &again_us));
    return status;
}

/* Page after page; *is_partial: a node did not tell, and the others did; *listed: how many. */
static nigh_status list(struct cli *cli, const struct region_job *job, struct json *json,
                        bool *is_partial, uint64_t *listed)
{
    static nigh_region_entry entries[PAGE_ENTRIES]; /* a page is too large for the stack */
    char after[NIGH_REGION_NAME_BYTES + 1];
    size_t prefix_bytes = strlen(job->name);
    uint32_t more;
    size_t count;

    begin_at(job->name, after);
    do {
        nigh_status status = ask(cli, job, after, entries, &count, &more);

        *is_partial = *is_partial || status == NIGH_PEER_LOST;
        if (status != NIGH_OK && status != NIGH_PEER_LOST) {
            return status;
        }
        for (size_t n = 0; n < count; n++) {
            if (strncmp(entries[n].name, job->name, prefix_bytes) != 0) {
                return NIGH_OK; /* the others are behind it, too */
            }
            if (*listed == 0 && !cli->json) {
                print_head();
            }
            ++*listed;
            if (cli->json) {
                print_json(json, &entries[n]);
            } else {
                print_line(&entries[n]);
            }
        }
        if (count > 0) {
            memcpy(after, entries[count - 1].name, sizeof after);
        }
    } while (count > 0 && more != 0);
    return NIGH_OK;
}

/* What has no region has its line, too. */
static int tell(struct cli *cli, nigh_status status, bool is_partial)
{
    if (status == NIGH_TIMEOUT) {
        cli_error(cli, "the time was up: no node has told of its regions");
        return cli_exit_code(status);
    }
    if (status == NIGH_NO_QUORUM) {
        cli_error(cli,
                  "cannot list regions: this node has just begun, or is cut off from most voters "
                  "(nigh nodes, nigh doctor)");
        return cli_exit_code(status);
    }
    if (status != NIGH_OK) {
        return cli_failed(cli, status, "cannot list regions");
    }
    if (is_partial) {
        cli_error(cli, "the list is in part: a node did not tell of its regions (nigh nodes)");
        return cli_exit_code(NIGH_PEER_LOST);
    }
    return CLI_OK;
}

int cli_region_ls(struct cli *cli, const struct region_job *job)
{
    bool is_partial = false;
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
    status = list(cli, job, &json, &is_partial, &listed);
    exit_code = tell(cli, status, is_partial);
    if (exit_code == CLI_OK && listed == 0 && !cli->json && isatty(STDOUT_FILENO) == 1) {
        printf("no region%s that user %u has rights to\n",
               job->name[0] != '\0' ? " of such a name" : "", (unsigned)geteuid());
    }
    if (cli->json) {
        if (exit_code != CLI_OK) {
            cli_error_object(cli, &json, exit_code);
        }
        json_array_close(&json);
    }
    return exit_code;
}
