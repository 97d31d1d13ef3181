/* SPDX-License-Identifier: Apache-2.0 */
/* nigh rm: deletes objects; one in use goes at its last release, and rm says so. */
#include "cli/each.h"

static nigh_status delete_all(struct cli *cli, const nigh_id *ids, size_t n, nigh_status *statuses)
{
    return nigh_delete(cli->client, ids, n, statuses);
}

static int tell(struct cli *cli, const char *name, nigh_status status)
{
    if (status == NIGH_LIMIT) {
        cli_error(cli, "%s: not deleted, neither here nor on other nodes: too many deletes at once",
                  name);
        return CLI_FULL;
    }
    if (status == NIGH_PEER_LOST || status == NIGH_TIMEOUT) {
        cli_error(cli,
                  "%s: deleted on this node, but not every other node that may have it said so in "
                  "time (nigh nodes shows which are not up)",
                  name);
        return status == NIGH_TIMEOUT ? CLI_TIMEOUT : CLI_FAILED;
    }
    if (status == NIGH_IN_USE) {
        cli_error(cli, "%s: in use; its memory is freed at the last release (nigh who shows whose)",
                  name);
        return CLI_OK;
    }
    return status == NIGH_OK ? CLI_OK : cli_failed_object(cli, status, name);
}

int cli_rm(struct cli *cli, int argc, char **argv)
{
    return cli_each_at_once(cli, argc, argv, 0, delete_all, tell);
}
