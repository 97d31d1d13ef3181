/* SPDX-License-Identifier: Apache-2.0 */
/* nigh stat: everything known of objects, their holders counted. */
#include <stdio.h>
#include <time.h>

#include "base/bytes.h"
#include "cli/each.h"

static bool with_checksum;

static const struct {
    uint32_t use;
    const char *name; /* JSON's */
    const char *text;
} uses[] = {{NIGH_USE_WRITE, "written", "being written to disk"},
            {NIGH_USE_READ, "read", "being read back from disk"},
            {NIGH_USE_SEND, "sent", "being read for another node or a checksum"},
            {NIGH_USE_REPLICA, "replica", "one of several replicas, which are not evicted"}};

enum {
    USES = sizeof(uses) / sizeof(uses[0])
};

static void print_text(const nigh_object_info *info, const uint32_t *checksum)
{
    char digits[BYTES_ID_TEXT], label[CLI_LABEL_BYTES], created[32];
    time_t seconds = (time_t)(info->created_ns / 1000000000);
    struct tm when;

    bytes_format_id(info->id.bytes, digits);
    cli_label(info, label);
    localtime_r(&seconds, &when);
    strftime(created, sizeof created, "%Y-%m-%d %H:%M:%S", &when);
    printf(
        "%s\n  id        %s\n  state     %s%s%s\n  size      %llu bytes, metadata %u\n  created   "
        "%s, built in %.3f ms\n"
        "  holders   %u\n  birth     incarnation %u, number %llu\n",
        label, digits, cli_state_name(info->state), info->pinned != 0 ? ", pinned" : "",
        info->copy != 0 ? ", a copy of another node's" : "", (unsigned long long)info->data_size,
        info->meta_size, created, (double)info->build_ns / 1e6, info->holders, info->incarnation,
        (unsigned long long)info->birth_counter);
    for (int i = 0; i < USES; i++) {
        if ((info->node_uses & uses[i].use) != 0) {
            printf("  node      %s\n", uses[i].text);
        }
    }
    if (checksum != NULL) {
        printf("  crc32c    %08x\n", *checksum);
    }
}

static void print_json(struct json *json, const nigh_object_info *info, const uint32_t *checksum)
{
    char digits[BYTES_ID_TEXT];

    bytes_format_id(info->id.bytes, digits);
    json_object_open(json, NULL);
    json_name(json, info->name);
    json_string(json, "id", digits);
    json_string(json, "state", cli_state_name(info->state));
    json_bool(json, "pinned", info->pinned != 0);
    json_bool(json, "copy", info->copy != 0);
    json_u64(json, "data_size", info->data_size);
    json_u64(json, "meta_size", info->meta_size);
    json_u64(json, "created_ns", info->created_ns);
    json_u64(json, "build_ns", info->build_ns);
    json_u64(json, "holders", info->holders);
    json_array_open(json, "node_uses");
    for (int i = 0; i < USES; i++) {
        if ((info->node_uses & uses[i].use) != 0) {
            json_string(json, NULL, uses[i].name);
        }
    }
    json_array_close(json);
    json_u64(json, "incarnation", info->incarnation);
    json_u64(json, "birth_counter", info->birth_counter);
    if (checksum != NULL) {
        json_u64(json, "crc32c", *checksum);
    }
    json_object_close(json);
}

static int stat_one(struct cli *cli, const char *name, const nigh_id *id, struct json *json)
{
    nigh_object_info info;
    uint32_t checksum = 0;
    int exit_code = CLI_OK;
    nigh_status status = nigh_stat(cli->client, id, &info);

    if (status == NIGH_OK && with_checksum) {
        status = nigh_checksum(cli->client, id, &checksum);
    }
    if (status != NIGH_OK) {
        exit_code = cli_failed_object(cli, status, name);
        cli_each_report(cli, json, name, status, exit_code);
    } else if (cli->json) {
        print_json(json, &info, with_checksum ? &checksum : NULL);
    } else {
        print_text(&info, with_checksum ? &checksum : NULL);
    }
    return exit_code;
}

int cli_stat(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {
        {"checksum", no_argument, NULL, 'c'}, CLI_COMMON_OPTIONS, {0}};
    int option, exit_code = CLI_OK;

    while ((option = cli_next_option(cli, argc, argv, ":c" CLI_COMMON_SHORT, options)) != -1) {
        if (option == 'c') {
            with_checksum = true;
        } else if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    return cli_each(cli, argc, argv, NIGH_OPEN_READ_ONLY, stat_one);
}
