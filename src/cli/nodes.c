/* SPDX-License-Identifier: Apache-2.0 */
/* nigh nodes: the nodes of the cluster as this machine's node sees them. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "cli/json.h"

static nigh_node_info nodes[LIMIT_NODES];
static size_t node_count;
static bool looked;

/* Asked once a run: who asks again wants the same picture. */
nigh_status cli_look_at_nodes(struct cli *cli)
{
    nigh_status status = NIGH_OK;

    if (!looked) {
        status = nigh_nodes(cli->client, nodes, LIMIT_NODES, &node_count);
        looked = status == NIGH_OK;
    }
    return status;
}

/* Nodes that a sentence names. */
#define ABSENT_NAMED 8

size_t cli_absent_nodes(struct cli *cli, char text[CLI_ABSENT_BYTES])
{
    size_t count = 0, length = 0;

    looked = false; /* whoever asks has waited since: some may have gone, or come */
    text[0] = '\0';
    if (cli_look_at_nodes(cli) != NIGH_OK) {
        return 0;
    }
    for (size_t i = 0; i < node_count; i++) {
        if (nodes[i].state != NIGH_NODE_IS_UP && ++count <= ABSENT_NAMED) {
            length += (size_t)snprintf(text + length, CLI_ABSENT_BYTES - length,
                                       "%snode %u (%s) is %s", count > 1 ? ", " : "", nodes[i].rank,
                                       nodes[i].address, cli_node_state_name(nodes[i].state));
        }
    }
    if (count > ABSENT_NAMED) {
        (void)snprintf(text + length, CLI_ABSENT_BYTES - length, ", and %zu more are not up",
                       count - ABSENT_NAMED);
    }
    return count;
}

bool cli_may_be_away(struct cli *cli, char text[CLI_ABSENT_BYTES])
{
    size_t count = cli_absent_nodes(cli, text), length = strlen(text);

    if (count > 0) {
        (void)snprintf(text + length, CLI_ABSENT_BYTES - length, "%s",
                       count == 1 ? ", and may have it" : "; any of them may have it");
    }
    return count > 0;
}

bool cli_is_alone(struct cli *cli)
{
    return cli_look_at_nodes(cli) != NIGH_OK || node_count <= 1;
}

const nigh_node_info *cli_node(uint32_t rank)
{
    for (size_t i = 0; i < node_count; i++) {
        if (nodes[i].rank == rank) {
            return &nodes[i];
        }
    }
    return NULL;
}

size_t cli_count_nodes(nigh_node_state state)
{
    size_t count = 0;

    for (size_t i = 0; i < node_count; i++) {
        count += nodes[i].state == state ? 1 : 0;
    }
    return count;
}

const char *cli_node_state_name(nigh_node_state state)
{
    switch (state) {
    case NIGH_NODE_IS_AWAY: return "away";
    case NIGH_NODE_IS_UP: return "up";
    case NIGH_NODE_IS_LOST: return "lost";
    case NIGH_NODE_IS_DEAD: return "dead";
    }
    return "unknown";
}

const char *cli_refusal_text(nigh_status refused)
{
    switch (refused) {
    case NIGH_OK: return "";
    case NIGH_DENIED: return "it has another cluster key";
    case NIGH_INVALID: return "it has another list of nodes, or another's rank in it";
    case NIGH_VERSION: return "it speaks no common version of the protocol";
    case NIGH_UNSUPPORTED: return "it has another --fabric";
    case NIGH_EXISTS: return "another process has its rank";
    default: return "it did not keep to the protocol";
    }
}

const nigh_node_info *cli_refused_node(void)
{
    for (size_t i = 0; i < node_count; i++) {
        if (nodes[i].state != NIGH_NODE_IS_UP && nodes[i].refused != NIGH_OK) {
            return &nodes[i];
        }
    }
    return NULL;
}

static void print_json(void)
{
    struct json json = {0};

    json_array_open(&json, NULL);
    for (size_t i = 0; i < node_count; i++) {
        json_object_open(&json, NULL);
        json_u64(&json, "rank", nodes[i].rank);
        json_string(&json, "state", cli_node_state_name(nodes[i].state));
        json_u64(&json, "incarnation", nodes[i].incarnation);
        json_bool(&json, "self", nodes[i].is_self != 0);
        json_string(&json, "address", nodes[i].address);
        json_string(&json, "refused",
                    nodes[i].refused == NIGH_OK ? "" : nigh_status_name(nodes[i].refused));
        json_string(&json, "reason", cli_refusal_text(nodes[i].refused));
        json_object_close(&json);
    }
    json_array_close(&json);
}

static void print_text(void)
{
    printf("%4s  %-5s %12s  %s\n", "RANK", "STATE", "INCARNATION", "ADDRESS");
    for (size_t i = 0; i < node_count; i++) {
        const nigh_node_info *node = &nodes[i];
        char address[4 * sizeof node->address], incarnation[16] = "-";

        bytes_printable(node->address, strlen(node->address), address, sizeof address);
        if (node->incarnation != 0) {
            snprintf(incarnation, sizeof incarnation, "%u", node->incarnation);
        }
        printf("%4u  %-5s %12s  %s%s", node->rank, cli_node_state_name(node->state), incarnation,
               address,
               node->is_self == 0 ? ""
               : node_count == 1  ? "this node, which is alone"
                                  : "  (this node)");
        if (node->refused != NIGH_OK) {
            printf("  its last handshake failed: %s", cli_refusal_text(node->refused));
        }
        putchar('\n');
    }
}

int cli_nodes(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS, {0}};
    int option, exit_code = CLI_OK;
    nigh_status status;

    while ((option = cli_next_option(cli, argc, argv, ":" CLI_COMMON_SHORT, options)) != -1) {
        if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    if (argc > optind) {
        return cli_usage(cli, "nodes takes no argument");
    }
    exit_code = cli_open(cli, NIGH_OPEN_READ_ONLY);
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = cli_look_at_nodes(cli);
    if (status != NIGH_OK) {
        return cli_failed(cli, status, "cannot ask for the nodes");
    }
    if (cli->json) {
        print_json();
    } else {
        print_text();
    }
    return CLI_OK;
}
