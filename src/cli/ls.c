/* SPDX-License-Identifier: Apache-2.0 */
/* nigh ls: the objects of the pool, read from the index without asking the node. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "base/json.h"

enum {
    PAGE_INFOS = 64,
    ID_COLUMNS = 3 + BYTES_ID_TEXT - 1 /* "id:" and its digits */
};

static void print_age(uint64_t created_ns, char *text, size_t text_bytes)
{
    uint64_t now_ns = clock_wall_ns();
    uint64_t seconds = now_ns > created_ns ? (now_ns - created_ns) / 1000000000 : 0;

    if (seconds < 120) {
        snprintf(text, text_bytes, "%us", (unsigned)seconds);
    } else if (seconds < 7200) {
        snprintf(text, text_bytes, "%um", (unsigned)(seconds / 60));
    } else if (seconds < 172800) {
        snprintf(text, text_bytes, "%uh", (unsigned)(seconds / 3600));
    } else {
        snprintf(text, text_bytes, "%ud", (unsigned)(seconds / 86400));
    }
}

/* What was pulled from another node leaves first when memory is needed. */
static const char *state_of(const nigh_object_info *info)
{
    return info->copy != 0 && info->state == NIGH_OBJECT_SEALED ? "copy"
                                                                : cli_state_name(info->state);
}

static void print_line(const nigh_object_info *info, bool ids)
{
    char size[BYTES_SIZE_TEXT], digits[BYTES_ID_TEXT], age[16], label[CLI_LABEL_BYTES];

    bytes_format_size(info->data_size, size);
    bytes_format_id(info->id.bytes, digits);
    print_age(info->created_ns, age, sizeof age);
    cli_label(info, label);
    printf("%-8s %10s %5s  %-6s ", state_of(info), size, age, info->pinned != 0 ? "pinned" : "-");
    if (ids) { /* one row is one line: scripts read it */
        printf("id:%s%s", digits, info->name[0] != 0 ? "  " : "");
    }
    puts(ids && info->name[0] == 0 ? "" : label);
}

static void print_json(struct json *json, const nigh_object_info *info)
{
    char digits[BYTES_ID_TEXT];

    bytes_format_id(info->id.bytes, digits);
    json_object_open(json, NULL);
    json_name(json, info->name);
    json_string(json, "id", digits);
    json_string(json, "state", cli_state_name(info->state));
    json_u64(json, "data_size", info->data_size);
    json_u64(json, "meta_size", info->meta_size);
    json_bool(json, "pinned", info->pinned != 0);
    json_bool(json, "copy", info->copy != 0);
    json_u64(json, "created_ns", info->created_ns);
    json_object_close(json);
}

static void end_json(const struct cli *cli, struct json *json)
{
    if (cli->json) {
        json_array_close(json);
    }
}

static int list(struct cli *cli, const char *prefix, bool ids)
{
    nigh_object_info infos[PAGE_INFOS];
    uint64_t cursor = 0, objects = 0, bytes = 0;
    struct json json = {0};
    size_t count;

    if (cli->json) {
        json_array_open(&json, NULL);
    } else {
        printf("%-8s %10s %5s  %-6s ", "STATE", "SIZE", "AGE", "PINNED");
        if (ids) {
            printf("%-*s  ", ID_COLUMNS, "ID");
        }
        puts("NAME");
    }
    do {
        nigh_status status = nigh_list(cli->client, &cursor, infos, PAGE_INFOS, &count);

        if (status != NIGH_OK) {
            int exit_code = cli_failed(cli, status, "cannot list");

            cli_error_object(cli, &json, exit_code);
            end_json(cli, &json);
            return exit_code;
        }
        for (size_t i = 0; i < count; i++) {
            if (strncmp(infos[i].name, prefix, strlen(prefix)) != 0) {
                continue;
            }
            objects++;
            bytes += infos[i].data_size;
            if (cli->json) {
                print_json(&json, &infos[i]);
            } else {
                print_line(&infos[i], ids);
            }
        }
    } while (count > 0);
    end_json(cli, &json);
    if (!cli->json && isatty(STDOUT_FILENO) == 1) {
        char size[BYTES_SIZE_TEXT];

        bytes_format_size(bytes, size);
        printf("%llu object%s, %s\n", (unsigned long long)objects, objects == 1 ? "" : "s", size);
    }
    return CLI_OK;
}

int cli_ls(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {
        {"ids", no_argument, NULL, 'i'}, CLI_COMMON_OPTIONS, {0}};
    bool ids = false;
    int option, exit_code = CLI_OK;

    while ((option = cli_next_option(cli, argc, argv, ":i" CLI_COMMON_SHORT, options)) != -1) {
        if (option == 'i') {
            ids = true;
        } else if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    if (argc - optind > 1) {
        return cli_usage(cli, "ls takes at most one PREFIX");
    }
    exit_code = cli_open(cli, NIGH_OPEN_READ_ONLY);
    return exit_code != CLI_OK ? exit_code : list(cli, argc > optind ? argv[optind] : "", ids);
}
