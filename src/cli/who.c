/* SPDX-License-Identifier: Apache-2.0 */
/* nigh who: which processes hold an object, or the pool's memory, and so why it cannot be evicted.
 */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "cli/cli.h"
#include "cli/json.h"

enum {
    HOLDERS_MAX = 1024
};

static nigh_holder holders[HOLDERS_MAX];

/* Why it cannot be evicted, in words. */
static const char *reason(const nigh_object_info *info, size_t count)
{
    if (info->state == NIGH_OBJECT_CREATED) {
        return "not sealed yet: its creator is still writing it";
    }
    if (info->state == NIGH_OBJECT_SPILLED) {
        return "on disk: it takes no memory";
    }
    if (info->pinned != 0) {
        return "pinned with nigh pin: it stays until nigh unpin";
    }
    return count > 0 ? "held by the processes above: it stays until they release it"
                     : "nobody holds it: it may be evicted";
}

static void print_holders_json(struct json *json, size_t shown)
{
    json_array_open(json, "holders");
    for (size_t i = 0; i < shown; i++) {
        json_object_open(json, NULL);
        json_i64(json, "pid", holders[i].pid);
        json_u64(json, "uid", holders[i].uid);
        json_string(json, "name", holders[i].name);
        json_u64(json, "session", holders[i].session);
        json_u64(json, "views", holders[i].views);
        json_u64(json, "size_bytes", holders[i].size_bytes);
        json_object_close(json);
    }
    json_array_close(json);
}

static void print_holders(size_t shown, size_t count, const char *what)
{
    printf("%8s %8s %8s %10s  %s\n", "PID", "UID", what, "BYTES", "NAME");
    for (size_t i = 0; i < shown; i++) {
        char size[BYTES_SIZE_TEXT], name[4 * sizeof holders[i].name];

        bytes_format_size(holders[i].size_bytes, size);
        bytes_printable(holders[i].name, strnlen(holders[i].name, sizeof holders[i].name), name,
                        sizeof name);
        printf("%8d %8u %8llu %10s  %s\n", holders[i].pid, holders[i].uid,
               (unsigned long long)holders[i].views, size, name);
    }
    if (shown < count) {
        printf("and %zu more\n", count - shown);
    }
}

static int who_object(struct cli *cli, const char *name)
{
    nigh_object_info info;
    struct json json = {0};
    char label[CLI_LABEL_BYTES];
    nigh_id id;
    bool is_name;
    size_t count = 0, shown;
    nigh_status status;
    int exit_code = cli_parse_name(cli, name, &id, &is_name);

    if (exit_code != CLI_OK || (exit_code = cli_open(cli, NIGH_OPEN_READ_ONLY)) != CLI_OK) {
        return exit_code;
    }
    status = nigh_stat(cli->client, &id, &info);
    if (status == NIGH_OK) {
        status = nigh_who(cli->client, &id, holders, HOLDERS_MAX, &count);
    }
    if (status != NIGH_OK) {
        return cli_failed_object(cli, status, name);
    }
    shown = count < HOLDERS_MAX ? count : HOLDERS_MAX;
    if (cli->json) {
        json_object_open(&json, NULL);
        json_string(&json, "name", name);
        json_string(&json, "state", cli_state_name(info.state));
        json_string(&json, "reason", reason(&info, count));
        print_holders_json(&json, shown);
        json_object_close(&json);
    } else {
        if (count > 0) {
            print_holders(shown, count, "VIEWS");
        }
        cli_label(&info, label);
        printf("%s: %s\n", label, reason(&info, count));
    }
    return CLI_OK;
}

static int who_pool(struct cli *cli)
{
    struct json json = {0};
    size_t count = 0, shown;
    nigh_status status;
    int exit_code = cli_open(cli, NIGH_OPEN_READ_ONLY);

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = nigh_holders(cli->client, holders, HOLDERS_MAX, &count);
    if (status != NIGH_OK) {
        return cli_failed(cli, status, "cannot ask who holds memory");
    }
    shown = count < HOLDERS_MAX ? count : HOLDERS_MAX;
    if (cli->json) {
        json_object_open(&json, NULL);
        print_holders_json(&json, shown);
        json_object_close(&json);
    } else if (count > 0) {
        print_holders(shown, count, "OBJECTS");
    } else {
        puts("nobody holds memory of this pool");
    }
    return CLI_OK;
}

int cli_who(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS, {0}};
    int option, exit_code = CLI_OK;

    while ((option = cli_next_option(cli, argc, argv, ":" CLI_COMMON_SHORT, options)) != -1) {
        if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    if (argc - optind > 1) {
        return cli_usage(cli, "who takes at most one NAME");
    }
    return argc > optind ? who_object(cli, argv[optind]) : who_pool(cli);
}
