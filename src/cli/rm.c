/* SPDX-License-Identifier: Apache-2.0 */
/* nigh rm: deletes objects; one in use goes at its last release, and rm says so. */
#include "cli/each.h"

/* Whether each was on this node before the delete: what is said of one depends on it. */
static bool was_here[EACH_AT_ONCE];

static nigh_status delete_all(struct cli *cli, const nigh_id *ids, size_t n, nigh_status *statuses)
{
    for (size_t i = 0; i < n; i++) {
        nigh_object_info info;

        was_here[i] = cli_is_alone(cli) || nigh_stat(cli->client, &ids[i], &info) == NIGH_OK;
    }
    return nigh_delete(cli->client, ids, n, statuses);
}

/* Why its memory is not free yet. */
static void tell_in_use(struct cli *cli, const char *name)
{
    nigh_object_info info;
    nigh_id id;
    bool is_name;
    nigh_status status = NIGH_NOT_FOUND;

    if (cli_parse_name(cli, name, &id, &is_name) == CLI_OK) {
        status = nigh_stat(cli->client, &id, &info);
    }
    if (status == NIGH_NOT_FOUND && !cli_is_alone(cli)) {
        cli_error(cli,
                  "%s: in use on another node; its memory there is freed at the last release (nigh "
                  "who on that node shows whose)",
                  name);
    } else if (status == NIGH_OK && info.state == NIGH_OBJECT_DELETING && info.holders == 0 &&
               (info.node_uses & NIGH_USE_WRITE) != 0) {
        cli_error(cli,
                  "%s: deleted, but it is being written to disk; its memory is freed after that",
                  name);
    } else if (status == NIGH_OK && info.state == NIGH_OBJECT_DELETING && info.holders == 0 &&
               (info.node_uses & NIGH_USE_SEND) != 0) {
        cli_error(cli,
                  "%s: deleted, but another node or a checksum is reading it; its memory is freed "
                  "after that",
                  name);
    } else {
        cli_error(cli, "%s: in use; its memory is freed at the last release (nigh who shows whose)",
                  name);
    }
}

/* Not every other node that may have it said so. */
static int tell_unsaid(struct cli *cli, const char *name, bool here, nigh_status status)
{
    char absent[CLI_ABSENT_BYTES];

    (void)cli_absent_nodes(cli, absent);
    cli_error(cli,
              "%s: %s on this node, but not every other node that may have it said so in time (%s)",
              name, here ? "deleted" : "not there",
              cli_unreached(cli, absent[0] != '\0' ? absent : "nigh nodes"));
    return status == NIGH_TIMEOUT ? CLI_TIMEOUT : CLI_FAILED;
}

/* Who is missing does not matter: whoever it were, this node could not know. */
static int tell_cut_off(struct cli *cli, const char *name, bool here)
{
    cli_error(
        cli,
        "%s: %s on this node, which is cut off from most voters: whether another has it is not "
        "known here (nigh nodes, nigh doctor)",
        name, here ? "deleted" : "not there");
    return cli_exit_code(NIGH_NO_QUORUM);
}

/* Nobody who is up has it. */
static int tell_nowhere(struct cli *cli, const char *name)
{
    char absent[CLI_ABSENT_BYTES];

    if (cli_may_be_away(cli, absent)) {
        cli_error(cli, "%s: not on this node or another that is up; %s", name, absent);
        return CLI_FAILED;
    }
    return cli_no_object_anywhere(cli, name);
}

static int tell(struct cli *cli, const char *name, size_t place, nigh_status status)
{
    switch (status) {
    case NIGH_LIMIT:
        cli_error(cli, "%s: not deleted, neither here nor on other nodes: too many deletes at once",
                  name);
        return CLI_FULL;
    case NIGH_NO_QUORUM: return tell_cut_off(cli, name, was_here[place]);
    case NIGH_PEER_LOST:
    case NIGH_TIMEOUT: return tell_unsaid(cli, name, was_here[place], status);
    case NIGH_NOT_SEALED:
        cli_error(cli, "%s: not sealed yet: its creator is still writing it", name);
        return CLI_FAILED;
    case NIGH_IN_USE: tell_in_use(cli, name); return CLI_OK;
    case NIGH_OK: return CLI_OK;
    case NIGH_NOT_FOUND: return tell_nowhere(cli, name);
    default: return cli_failed(cli, status, name);
    }
}

int cli_rm(struct cli *cli, int argc, char **argv)
{
    return cli_each_at_once(cli, argc, argv, 0, delete_all, tell);
}
