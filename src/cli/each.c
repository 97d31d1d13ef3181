/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs over names: see each.h. */
#include "cli/each.h"

#include <stddef.h>

#define EACH_UNTOLD ((nigh_status)1) /* no status */

/* Opens the client, and the array of what is told. */
static int each_begin(struct cli *cli, int argc, uint32_t open_flags, struct json *json)
{
    int exit_code;

    if (argc == optind) {
        return cli_usage(cli, "%s takes at least one NAME", cli->verb);
    }
    exit_code = cli_open(cli, open_flags);
    if (exit_code == CLI_OK && cli->json) {
        json_array_open(json, NULL);
    }
    return exit_code;
}

int cli_each(struct cli *cli, int argc, char **argv, uint32_t open_flags, cli_act act)
{
    struct json json = {0};
    int exit_code = each_begin(cli, argc, open_flags, &json), first_failure = CLI_OK;

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    for (int i = optind; i < argc; i++) {
        nigh_id id;
        bool is_name;

        exit_code = cli_parse_name(cli, argv[i], &id, &is_name);
        if (exit_code == CLI_OK) {
            exit_code = act(cli, argv[i], &id, &json);
        } else {
            cli_each_report(cli, &json, argv[i], NIGH_INVALID, exit_code);
        }
        first_failure = first_failure == CLI_OK ? exit_code : first_failure;
    }
    if (cli->json) {
        json_array_close(&json);
    }
    return first_failure;
}

/* CLI_OK, or *exit_code is to be returned. */
static int take_options(struct cli *cli, int argc, char **argv, int *exit_code)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS, {0}};
    int option;

    while ((option = cli_next_option(cli, argc, argv, ":" CLI_COMMON_SHORT, options)) != -1) {
        if (cli_common_option(cli, option, exit_code) != CLI_OK) {
            return CLI_FAILED;
        }
    }
    return CLI_OK;
}

int cli_each_plain(struct cli *cli, int argc, char **argv, uint32_t open_flags, cli_act act)
{
    int exit_code = CLI_OK;

    return take_options(cli, argc, argv, &exit_code) != CLI_OK
               ? exit_code
               : cli_each(cli, argc, argv, open_flags, act);
}

/* The names that are some go first in `names`; returns how many, and the first failure. */
static size_t parse_names(struct cli *cli, char **names, size_t n, nigh_id *ids, struct json *json,
                          int *first_failure)
{
    size_t good = 0;

    for (size_t i = 0; i < n; i++) {
        bool is_name;
        int exit_code = cli_parse_name(cli, names[i], &ids[good], &is_name);

        if (exit_code == CLI_OK) {
            names[good++] = names[i];
            continue;
        }
        cli_each_report(cli, json, names[i], NIGH_INVALID, exit_code);
        *first_failure = *first_failure == CLI_OK ? exit_code : *first_failure;
    }
    return good;
}

static int act_at_once(struct cli *cli, char **names, size_t n, cli_act_at_once act, cli_tell tell,
                       struct json *json)
{
    nigh_id ids[EACH_AT_ONCE];
    nigh_status statuses[EACH_AT_ONCE], all;
    int first_failure = CLI_OK;

    n = parse_names(cli, names, n, ids, json, &first_failure);
    for (size_t i = 0; i < n; i++) {
        statuses[i] = EACH_UNTOLD;
    }
    all = n > 0 ? act(cli, ids, n, statuses) : NIGH_OK;
    for (size_t i = 0; i < n; i++) {
        nigh_status status = statuses[i] == EACH_UNTOLD ? all : statuses[i];
        int exit_code = tell(cli, names[i], i, status);

        cli_each_report(cli, json, names[i], status, exit_code);
        first_failure = first_failure == CLI_OK ? exit_code : first_failure;
    }
    return first_failure;
}

int cli_each_at_once(struct cli *cli, int argc, char **argv, uint32_t open_flags,
                     cli_act_at_once act, cli_tell tell)
{
    struct json json = {0};
    int exit_code, first_failure = CLI_OK;

    if (take_options(cli, argc, argv, &first_failure) != CLI_OK) {
        return first_failure;
    }
    exit_code = each_begin(cli, argc, open_flags, &json);
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    for (int i = optind; i < argc; i += EACH_AT_ONCE) {
        size_t n = argc - i < EACH_AT_ONCE ? (size_t)(argc - i) : EACH_AT_ONCE;

        exit_code = act_at_once(cli, argv + i, n, act, tell, &json);
        first_failure = first_failure == CLI_OK ? exit_code : first_failure;
    }
    if (cli->json) {
        json_array_close(&json);
    }
    return first_failure;
}

void cli_each_report(struct cli *cli, struct json *json, const char *name, nigh_status status,
                     int exit_code)
{
    if (!cli->json) {
        return;
    }
    json_object_open(json, NULL);
    json_name(json, name);
    json_string(json, "status", nigh_status_name(status));
    cli_error_fields(json, exit_code);
    json_object_close(json);
}
