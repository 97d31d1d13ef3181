/* SPDX-License-Identifier: Apache-2.0 */
/* nigh nodes: the nodes of the cluster as this machine's node sees them. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "base/json.h"

static nigh_node_info nodes[LIMIT_NODES];
static size_t node_count;
static bool looked;

/* Asked once a run: who asks again wants the same picture. */
nigh_status cli_look_at_nodes(struct cli *cli)
{
    nigh_status status = NIGH_OK;

    if (!looked) {
        nodes[0].struct_size = sizeof nodes[0];
        status = nigh_nodes(cli->client, nodes, LIMIT_NODES, &node_count);
        looked = status == NIGH_OK;
    }
    return status;
}

/* Not up, and no connection with it was ever made: dead is only how it counts. */
static bool was_never_seen(const nigh_node_info *node)
{
    return node->is_self == 0 && node->state != NIGH_NODE_IS_UP && node->incarnation == 0;
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
            length += (size_t)snprintf(
                text + length, CLI_ABSENT_BYTES - length, "%snode %u (%s) %s%s",
                count > 1 ? ", " : "", nodes[i].rank, nodes[i].address,
                was_never_seen(&nodes[i]) ? "was not seen yet" : "is ",
                was_never_seen(&nodes[i]) ? "" : cli_node_state_name(nodes[i].state));
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

int cli_find_node(struct cli *cli, const char *option, const char *text, size_t length,
                  uint32_t *rank)
{
    char name[sizeof nodes[0].name], *end;
    unsigned long number;
    nigh_status status;

    if (length == 0 || length >= sizeof name) {
        return cli_usage(cli, "%s takes a rank or a name of a node (nigh nodes), not '%s'", option,
                         text);
    }
    memcpy(name, text, length);
    name[length] = '\0';
    number = strtoul(name, &end, 10);
    if (name[0] >= '0' && name[0] <= '9' && *end == '\0' && number < LIMIT_NODES) {
        *rank = (uint32_t)number;
        return CLI_OK;
    }
    if (!isalpha((unsigned char)name[0])) {
        return cli_usage(cli, "%s takes a rank or a name of a node (nigh nodes), not '%s'", option,
                         text);
    }
    status = nigh_rank_of_name(cli->client, name, rank);
    if (status == NIGH_NOT_FOUND) {
        cli_error(cli, "%s: no node is called %s (nigh nodes)", option, name);
        return cli_exit_code(status);
    }
    return status == NIGH_OK ? CLI_OK : cli_failed(cli, status, "cannot ask for the nodes");
}

int cli_find_member(struct cli *cli, const char *option, const char *text, uint32_t *rank)
{
    int exit_code = cli_find_node(cli, option, text, strlen(text), rank);

    if (exit_code == CLI_OK && cli_look_at_nodes(cli) == NIGH_OK && cli_node(*rank) == NULL) {
        return cli_wrong(cli, "%s: there is no node %s (nigh nodes)", option, text);
    }
    return exit_code;
}

bool cli_rank_of_address(const char *address, uint32_t *rank)
{
    for (size_t i = 0; i < node_count; i++) {
        if (strcmp(nodes[i].address, address) == 0) {
            *rank = nodes[i].rank;
            return true;
        }
    }
    return false;
}

const nigh_node_info *cli_nodes_seen(size_t *count)
{
    *count = node_count;
    return nodes;
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

/* In the list of nodes: whether one that is up stays matters to who looks where to put things. */
static const char *state_word(const nigh_node_info *node)
{
    return node->leaving != 0 ? "leaving" : cli_node_state_name(node->state);
}

static const char *life_name(nigh_node_life life)
{
    switch (life) {
    case NIGH_NODE_LIVES: return "alive";
    case NIGH_NODE_SUSPECTED: return "suspect";
    case NIGH_NODE_FOUND_DEAD: return "dead";
    case NIGH_NODE_HAS_LEFT: return "left";
    }
    return "alive";
}

static const char *view_name(nigh_node_view view)
{
    return view == NIGH_NODE_IN_VIEW ? "in" : view == NIGH_NODE_OUT_OF_VIEW ? "out" : "none";
}

const char *cli_refusal_text(nigh_status refused)
{
    switch (refused) {
    case NIGH_OK: return "";
    case NIGH_DENIED: return "it has another cluster key";
    case NIGH_INVALID:
        return "it has another list of nodes, or another's rank in it, or one has --state "
               "and the other not";
    case NIGH_NOT_FOUND: return "it has another --directory, or one has it and the other not";
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

/* ---- links ---------------------------------------------------------------- */

#define MEASURE_US UINT64_C(30000000) /* without --timeout: a busy link waits */
#define LOOK_NS    10000000           /* between looks whether it is over */

static nigh_link_info *links;
static size_t link_count;

/* What a node that knows of none says is that there are none. */
static nigh_status look_at_links(struct cli *cli)
{
    size_t room = link_count;
    nigh_status status = nigh_links(cli->client, links, room, &link_count);

    while (status == NIGH_OK && link_count > room) {
        nigh_link_info *more = realloc(links, link_count * sizeof *links);

        if (more == NULL) {
            return NIGH_NO_RESOURCES;
        }
        links = more;
        room = link_count;
        status = nigh_links(cli->client, links, room, &link_count);
    }
    if (status == NIGH_UNSUPPORTED) {
        link_count = 0;
        status = NIGH_OK;
    }
    return status;
}

static bool are_measured(void)
{
    for (size_t i = 0; i < link_count; i++) {
        if (links[i].measured < links[i].to_measure) {
            return false;
        }
    }
    return true;
}

static nigh_status measure(struct cli *cli)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    uint64_t end_us = clock_deadline_us(clock_now_us(&clock_monotonic),
                                        cli->timeout_given ? cli->timeout_us : MEASURE_US);
    nigh_status status = nigh_measure(cli->client, NIGH_ALL_RANKS);

    while (status == NIGH_OK) {
        status = look_at_links(cli);
        if (status != NIGH_OK || are_measured()) {
            break;
        }
        if (clock_now_us(&clock_monotonic) >= end_us) {
            return NIGH_TIMEOUT;
        }
        (void)nanosleep(&pause, NULL);
    }
    return status;
}

/* The largest of what is known of the links to a node; 0: of none. */
static uint64_t crossover_of(uint32_t rank)
{
    uint64_t most = 0;

    for (size_t i = 0; i < link_count; i++) {
        if (links[i].rank == rank && links[i].crossover_bytes > most) {
            most = links[i].crossover_bytes;
        }
    }
    return most;
}

static const char *crossover_text(uint32_t rank, char text[BYTES_SIZE_TEXT])
{
    uint64_t bytes = crossover_of(rank);

    if (bytes == 0 || bytes == NIGH_NO_CROSSOVER) {
        return bytes == 0 ? "-" : "none";
    }
    bytes_format_size(bytes, text);
    return text;
}

/* The first of the links to a node; all of them are measured apart, and seldom differ. NULL: none.
 */
static const nigh_link_info *first_link(uint32_t rank)
{
    for (size_t i = 0; i < link_count; i++) {
        if (links[i].rank == rank) {
            return &links[i];
        }
    }
    return NULL;
}

/* ---- printed -------------------------------------------------------------- */

static void print_crossover(struct json *json, uint32_t rank)
{
    uint64_t bytes = crossover_of(rank);

    json_string(json, "crossover",
                bytes == 0                   ? "unknown"
                : bytes == NIGH_NO_CROSSOVER ? "none"
                                             : "known");
    if (bytes != 0 && bytes != NIGH_NO_CROSSOVER) {
        json_u64(json, "crossover_bytes", bytes);
    }
}

static void print_calls(struct json *json, uint32_t rank)
{
    const nigh_link_info *link = first_link(rank);
    nigh_link_calls calls = link == NULL ? NIGH_LINK_CALLS_UNKNOWN : link->calls;

    json_string(json, "calls",
                calls == NIGH_LINK_CALLS_SENT      ? "sent"
                : calls == NIGH_LINK_CALLS_WRITTEN ? "written"
                                                   : "unknown");
    if (link != NULL && link->calls_sent_us != 0 && link->calls_written_us != 0) {
        json_u64(json, "calls_sent_us", link->calls_sent_us);
        json_u64(json, "calls_written_us", link->calls_written_us);
    }
}

static void print_json(void)
{
    struct json json = {0};

    json_array_open(&json, NULL);
    for (size_t i = 0; i < node_count; i++) {
        json_object_open(&json, NULL);
        json_u64(&json, "rank", nodes[i].rank);
        json_string(&json, "name", nodes[i].name);
        json_string(&json, "state", state_word(&nodes[i]));
        json_string(&json, "life", life_name(nodes[i].life));
        json_string(&json, "view", view_name(nodes[i].view));
        json_bool(&json, "votes", nodes[i].votes != 0);
        json_u64(&json, "incarnation", nodes[i].incarnation);
        json_bool(&json, "self", nodes[i].is_self != 0);
        json_string(&json, "address", nodes[i].address);
        json_bool(&json, "name_taken", nodes[i].name_refused != NIGH_OK);
        json_string(&json, "refused",
                    nodes[i].refused == NIGH_OK ? "" : nigh_status_name(nodes[i].refused));
        json_string(&json, "reason", cli_refusal_text(nodes[i].refused));
        print_crossover(&json, nodes[i].rank);
        print_calls(&json, nodes[i].rank);
        json_object_close(&json);
    }
    json_array_close(&json);
}

/* As wide as the longest; 0: nobody has one, and there is no column. */
static int width_of_names(void)
{
    size_t width = 0;

    for (size_t i = 0; i < node_count; i++) {
        size_t length = strlen(nodes[i].name);

        width = length > width ? length : width;
    }
    return (int)(width > 0 && width < strlen("NAME") ? strlen("NAME") : width);
}

static void print_name(const char *name, int width)
{
    if (width > 0) {
        printf("%-*s  ", width, name[0] == '\0' ? "-" : name);
    }
}

/* What the other nodes' datagrams say of it; NULL: nothing that its state does not. */
static const char *life_note(const nigh_node_info *node)
{
    switch (node->life) {
    case NIGH_NODE_SUSPECTED:
        /* Its connection may have told of its death before they do. */
        if (node->state == NIGH_NODE_IS_DEAD) {
            return NULL;
        }
        return "the other nodes hear nothing of it, and suspect that it is dead";
    case NIGH_NODE_FOUND_DEAD: return "the other nodes have heard nothing of it for too long";
    case NIGH_NODE_HAS_LEFT:
        /* Who was there before, at the same rank, may have left. */
        return node->state != NIGH_NODE_IS_UP ? "it was stopped, and said so" : NULL;
    default: return NULL;
    }
}

/* Behind the address; what has become of it before what follows from that. */
static void print_notes(const nigh_node_info *node)
{
    const nigh_link_info *link = first_link(node->rank);
    const char *life = life_note(node);

    if (link != NULL && link->calls == NIGH_LINK_CALLS_WRITTEN) {
        fputs("  calls are written", stdout);
    }
    if (node->name_refused != NIGH_OK) {
        fputs("  without a name: another has the one it wants", stdout);
    }
    if (node->votes != 0) {
        fputs("  votes", stdout);
    }
    if (was_never_seen(node) && node->refused == NIGH_OK) {
        fputs("  not seen yet", stdout);
    }
    if (life != NULL) {
        printf("  %s", life);
    }
    if (node->view == NIGH_NODE_OUT_OF_VIEW) {
        fputs(node->state == NIGH_NODE_IS_UP
                  ? "  out of the view (not taken in yet, or cut off from most voters)"
                  : "  out of the view (others keep account in its place)",
              stdout);
    }
    if (node->refused != NIGH_OK) {
        printf("  its last handshake failed: %s (nigh doctor has the remedy)",
               cli_refusal_text(node->refused));
    }
}

static void print_text(void)
{
    int width = width_of_names();

    printf("%4s  ", "RANK");
    print_name("NAME", width);
    printf("%-7s %12s  %9s  %s\n", "STATE", "INCARNATION", "CROSSOVER", "ADDRESS");
    for (size_t i = 0; i < node_count; i++) {
        const nigh_node_info *node = &nodes[i];
        char address[4 * sizeof node->address], incarnation[16] = "-", size[BYTES_SIZE_TEXT];

        bytes_printable(node->address, strlen(node->address), address, sizeof address);
        if (node->incarnation != 0) {
            snprintf(incarnation, sizeof incarnation, "%u", node->incarnation);
        }
        printf("%4u  ", node->rank);
        print_name(node->name, width);
        printf("%-7s %12s  %9s  %s%s", state_word(node), incarnation,
               crossover_text(node->rank, size), address,
               node->is_self == 0 ? ""
               : node_count > 1   ? "  (this node)"
               : address[0] == 0  ? "this node, which is alone"
                                  : "  (this node, which is alone)");
        print_notes(node);
        putchar('\n');
    }
}

int cli_nodes(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {
        {"measure", no_argument, NULL, 'm'}, CLI_COMMON_OPTIONS, {0}};
    int option, exit_code = CLI_OK;
    bool measures = false;
    nigh_status status;

    while ((option = cli_next_option(cli, argc, argv, ":m" CLI_COMMON_SHORT, options)) != -1) {
        if (option == 'm') {
            measures = true;
        } else if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    if (argc > optind) {
        return cli_usage(cli, "nodes takes no argument");
    }
    exit_code = cli_open(cli, measures ? 0 : NIGH_OPEN_READ_ONLY);
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = measures ? measure(cli) : NIGH_OK;
    if (status != NIGH_OK) {
        return cli_failed(cli, status, "cannot measure the links");
    }
    status = cli_look_at_nodes(cli);
    if (status == NIGH_OK) {
        status = look_at_links(cli);
    }
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
