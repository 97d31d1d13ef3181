/* SPDX-License-Identifier: Apache-2.0 */
/* nigh forget: a node that joined and is gone for good is struck off the cluster. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "base/json.h"

#define FORGET_US   UINT64_C(60000000) /* without --timeout */
#define FORGET_LOOK UINT64_C(20000000) /* ns between looks */

/* By its address, where it is that of a node; else as everywhere. */
static int find(struct cli *cli, const char *text, uint32_t *rank)
{
    nigh_status status = strchr(text, ':') != NULL ? cli_look_at_nodes(cli) : NIGH_OK;

    if (status != NIGH_OK) {
        return cli_failed(cli, status, "cannot ask for the nodes");
    }
    if (strchr(text, ':') == NULL) {
        return cli_find_node(cli, "forget", text, strlen(text), rank);
    }
    if (!cli_rank_of_address(text, rank)) {
        cli_error(cli, "no node has the address %s (nigh nodes)", text);
        return CLI_NOT_FOUND;
    }
    return CLI_OK;
}

/* NIGH_PENDING: the time is up. */
static nigh_status wait_for_it(struct cli *cli, uint32_t rank)
{
    const struct timespec pause = {.tv_nsec = FORGET_LOOK};
    uint64_t now_us = clock_now_us(&clock_monotonic);
    uint64_t end_us = clock_deadline_us(now_us, cli->timeout_given ? cli->timeout_us : FORGET_US);
    nigh_status status = nigh_forget(cli->client, rank);

    /* Who died just now is in the view for some seconds; and the node asks for ten at a time. */
    while ((status == NIGH_PENDING || status == NIGH_TIMEOUT) && now_us < end_us) {
        (void)nanosleep(&pause, NULL);
        status = nigh_forget(cli->client, rank);
        now_us = clock_now_us(&clock_monotonic);
    }
    return status;
}

/* How it went away, which is asked before it is struck off: nobody knows it after that. */
enum departure {
    DEPARTURE_UNKNOWN, /* struck off already */
    DEPARTURE_DIED,
    DEPARTURE_LEFT /* it stopped, and said so */
};

static enum departure departure_of(struct cli *cli, uint32_t rank)
{
    const nigh_node_info *node = cli_look_at_nodes(cli) == NIGH_OK ? cli_node(rank) : NULL;

    if (node == NULL) {
        return DEPARTURE_UNKNOWN;
    }
    return node->life == NIGH_NODE_HAS_LEFT ? DEPARTURE_LEFT : DEPARTURE_DIED;
}

/* A stop in order hands nothing over unless `nigh leave` did before, which nobody else knows. */
static const char *departure_text(enum departure departure)
{
    switch (departure) {
    case DEPARTURE_LEFT:
        return ". It had left: nothing is lost of what it handed over before (nigh leave)";
    case DEPARTURE_DIED: return ", and what only that node held is lost";
    case DEPARTURE_UNKNOWN: break;
    }
    return "";
}

static void print(const struct cli *cli, uint32_t rank, enum departure departure)
{
    struct json json = {0};

    if (!cli->json) {
        printf("rank %u is struck off: it is nobody's any more%s\n", rank,
               departure_text(departure));
        return;
    }
    json_object_open(&json, NULL);
    json_u64(&json, "rank", rank);
    json_bool(&json, "forgotten", true);
    if (departure != DEPARTURE_UNKNOWN) {
        json_bool(&json, "left", departure == DEPARTURE_LEFT);
    }
    json_object_close(&json);
}

int cli_forget(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS, {0}};
    int option, exit_code = CLI_OK;
    enum departure departure;
    nigh_status status;
    uint32_t rank = 0;

    while ((option = cli_next_option(cli, argc, argv, ":" CLI_COMMON_SHORT, options)) != -1) {
        if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    if (argc != optind + 1) {
        return cli_usage(cli, "forget takes a node: its rank, its name or its address");
    }
    exit_code = cli_open(cli, NIGH_OPEN_READ_ONLY);
    if (exit_code == CLI_OK) {
        exit_code = find(cli, argv[optind], &rank);
    }
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    departure = departure_of(cli, rank);
    status = wait_for_it(cli, rank);
    if (status == NIGH_PENDING) {
        cli_error(cli, "rank %u: not decided in time; it is asked for as long as this is given",
                  rank);
        return CLI_TIMEOUT;
    }
    /* Nodes that strike nobody off say that first, and know all that there are. */
    if (status == NIGH_UNSUPPORTED && cli_look_at_nodes(cli) == NIGH_OK && cli_node(rank) == NULL) {
        cli_error(cli, "no node has the rank %u (nigh nodes)", rank);
        return CLI_NOT_FOUND;
    }
    if (status != NIGH_OK) {
        return cli_failed(cli, status, "cannot strike that node off");
    }
    print(cli, rank, departure);
    return CLI_OK;
}
