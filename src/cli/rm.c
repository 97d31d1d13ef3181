/* SPDX-License-Identifier: Apache-2.0 */
/* nigh rm: deletes objects; one in use goes at its last release, and rm says so. */
#include "cli/each.h"

static int delete_one(struct cli *cli, const char *name, const nigh_id *id, struct json *json)
{
    nigh_status status = NIGH_OK;
    nigh_status all = nigh_delete(cli->client, id, 1, &status);

    cli_each_report(cli, json, name, all == NIGH_OK ? status : all);
    if (all == NIGH_LIMIT) {
        cli_error(cli, "%s: not deleted, neither here nor on other nodes: too many deletes at once",
                  name);
        return CLI_FULL;
    }
    if (all == NIGH_PEER_LOST || all == NIGH_TIMEOUT) {
        cli_error(cli,
                  "%s: deleted on this node, but not every other node that may have it said so in "
                  "time (nigh nodes shows which are not up)",
                  name);
        return all == NIGH_TIMEOUT ? CLI_TIMEOUT : CLI_FAILED;
    }
    if (all != NIGH_OK) {
        return cli_failed_object(cli, all, name);
    }
    if (status == NIGH_IN_USE) {
        cli_error(cli, "%s: in use; its memory is freed at the last release (nigh who shows whose)",
                  name);
    }
    return CLI_OK;
}

int cli_rm(struct cli *cli, int argc, char **argv)
{
    return cli_each_plain(cli, argc, argv, 0, delete_one);
}
