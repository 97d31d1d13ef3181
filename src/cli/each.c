/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs over names: see each.h. */
#include "cli/each.h"

#include <stddef.h>

int cli_each(struct cli *cli, int argc, char **argv, uint32_t open_flags, cli_act act)
{
    struct json json = {0};
    int exit_code, first_failure = CLI_OK;

    if (argc == optind) {
        return cli_usage(cli, "%s takes at least one NAME", cli->verb);
    }
    exit_code = cli_open(cli, open_flags);
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    if (cli->json) {
        json_array_open(&json, NULL);
    }
    for (int i = optind; i < argc; i++) {
        nigh_id id;
        bool is_name;

        exit_code = cli_parse_name(cli, argv[i], &id, &is_name);
        if (exit_code == CLI_OK) {
            exit_code = act(cli, argv[i], &id, &json);
        }
        first_failure = first_failure == CLI_OK ? exit_code : first_failure;
    }
    if (cli->json) {
        json_array_close(&json);
    }
    return first_failure;
}

int cli_each_plain(struct cli *cli, int argc, char **argv, uint32_t open_flags, cli_act act)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS, {0}};
    int option, exit_code = CLI_OK;

    while ((option = cli_next_option(cli, argc, argv, ":" CLI_COMMON_SHORT, options)) != -1) {
        if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    return cli_each(cli, argc, argv, open_flags, act);
}

void cli_each_report(struct cli *cli, struct json *json, const char *name, nigh_status status)
{
    if (!cli->json) {
        return;
    }
    json_object_open(json, NULL);
    json_string(json, "name", name);
    json_string(json, "status", nigh_status_name(status));
    json_object_close(json);
}
