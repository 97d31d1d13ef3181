/* SPDX-License-Identifier: Apache-2.0 */
/* nigh pin and unpin: keep objects in memory beyond the life of any process. */
#include "cli/each.h"

static int pin_one(struct cli *cli, const char *name, const nigh_id *id, struct json *json)
{
    nigh_status status = nigh_pin(cli->client, id);
    int exit_code = status == NIGH_OK ? CLI_OK : cli_failed_object(cli, status, name);

    cli_each_report(cli, json, name, status, exit_code);
    return exit_code;
}

static int unpin_one(struct cli *cli, const char *name, const nigh_id *id, struct json *json)
{
    nigh_status status = nigh_unpin(cli->client, id);
    int exit_code = status == NIGH_OK ? CLI_OK : cli_failed_object(cli, status, name);

    cli_each_report(cli, json, name, status, exit_code);
    return exit_code;
}

int cli_pin(struct cli *cli, int argc, char **argv)
{
    return cli_each_plain(cli, argc, argv, 0, pin_one);
}

int cli_unpin(struct cli *cli, int argc, char **argv)
{
    return cli_each_plain(cli, argc, argv, 0, unpin_one);
}
