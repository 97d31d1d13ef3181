/* SPDX-License-Identifier: Apache-2.0 */
/* nigh locate: which nodes hold the bytes of some objects, the one that holds most first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cli/cli.h"
#include "base/json.h"

enum {
    LOCATE_PLACES = 256 /* as many as a cluster has nodes */
};

/* What was found. */
struct located {
    nigh_location places[LOCATE_PLACES];
    size_t count;
    size_t missing;
    size_t asked;
};

static const char *address_of(uint32_t rank)
{
    const nigh_node_info *node = cli_node(rank);

    return node == NULL ? "" : node->address;
}

static void print_json(const struct located *located)
{
    struct json json = {0};

    json_object_open(&json, NULL);
    json_u64(&json, "asked", located->asked);
    json_u64(&json, "missing", located->missing);
    json_array_open(&json, "nodes");
    for (size_t n = 0; n < located->count && n < LOCATE_PLACES; n++) {
        const nigh_location *place = &located->places[n];

        json_object_open(&json, NULL);
        json_u64(&json, "rank", place->rank);
        json_string(&json, "address", address_of(place->rank));
        json_bool(&json, "is_self", place->is_self != 0);
        json_u64(&json, "objects", place->objects);
        json_u64(&json, "size_bytes", place->size_bytes);
        json_object_close(&json);
    }
    json_array_close(&json);
    json_object_close(&json);
}

static void print_table(const struct located *located)
{
    printf("%6s %8s %10s  %s\n", "NODE", "OBJECTS", "BYTES", "ADDRESS");
    for (size_t n = 0; n < located->count && n < LOCATE_PLACES; n++) {
        const nigh_location *place = &located->places[n];
        char size[BYTES_SIZE_TEXT], address[4 * sizeof((nigh_node_info *)0)->address];

        bytes_format_size(place->size_bytes, size);
        bytes_printable(address_of(place->rank), strlen(address_of(place->rank)), address,
                        sizeof address);
        printf("%6u %8llu %10s  %s%s\n", place->rank, (unsigned long long)place->objects, size,
               address, place->is_self != 0 ? " (this node)" : "");
    }
}

/* Who is not up may have what no other node has; where all are up there is no such object. */
static int tell_none(struct cli *cli, const struct located *located, const char *name)
{
    char absent[CLI_ABSENT_BYTES];

    if (cli_may_be_away(cli, absent)) {
        cli_error(cli, "none of these objects is on a node that is up; %s", absent);
    } else if (located->asked == 1) {
        return cli_no_object_anywhere(cli, name);
    } else {
        cli_error(cli, "none of these %zu objects is there%s", located->asked,
                  cli_is_alone(cli) ? "" : ", on this node or another");
    }
    return CLI_NOT_FOUND;
}

/* Some were found, and are listed by now. */
static void tell_missing(struct cli *cli, const struct located *located)
{
    char absent[CLI_ABSENT_BYTES];
    bool is_away = cli_may_be_away(cli, absent);

    cli_error(cli, "%zu of the %zu objects %s on no node%s%s", located->missing, located->asked,
              located->missing == 1 ? "is" : "are", is_away ? " that is up; " : "", absent);
}

static int locate_ids(struct cli *cli, const nigh_id *ids, size_t count, const char *name)
{
    static struct located located;
    nigh_status status;

    located.asked = count;
    located.missing = count;
    (void)cli_look_at_nodes(cli);
    status = nigh_locate(cli->client, ids, count, located.places, LOCATE_PLACES, &located.count,
                         &located.missing);
    if (status != NIGH_OK && status != NIGH_BUSY && status != NIGH_PEER_LOST &&
        status != NIGH_TIMEOUT) {
        return cli_failed(cli, status, "cannot say where they are");
    }
    if (status != NIGH_OK) {
        cli_error(cli, "of %zu objects it cannot be said now, or not of all, where they are: %s",
                  located.missing, cli_unreached(cli, nigh_status_string(status)));
        return cli_exit_code(status);
    }
    if (located.missing == located.asked) {
        return tell_none(cli, &located, name);
    }
    if (cli->json) {
        print_json(&located);
        return CLI_OK;
    }
    print_table(&located);
    (void)fflush(stdout);
    if (located.missing > 0) {
        tell_missing(cli, &located);
    }
    return CLI_OK;
}

int cli_locate(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS, {0}};
    int option, exit_code = CLI_OK;
    nigh_id *ids;

    while ((option = cli_next_option(cli, argc, argv, ":" CLI_COMMON_SHORT, options)) != -1) {
        if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    if (argc == optind) {
        return cli_usage(cli, "locate takes at least one NAME");
    }
    ids = calloc((size_t)(argc - optind), sizeof(*ids));
    if (ids == NULL) {
        cli_error(cli, "no memory for the names");
        return CLI_FULL;
    }
    for (int n = optind; n < argc && exit_code == CLI_OK; n++) {
        bool is_name;

        exit_code = cli_parse_name(cli, argv[n], &ids[n - optind], &is_name);
    }
    if (exit_code == CLI_OK) {
        exit_code = cli_open(cli, NIGH_OPEN_READ_ONLY);
    }
    if (exit_code == CLI_OK) {
        exit_code = locate_ids(cli, ids, (size_t)(argc - optind), argv[optind]);
    }
    free(ids);
    return exit_code;
}
