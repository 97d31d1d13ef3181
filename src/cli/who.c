/* SPDX-License-Identifier: Apache-2.0 */
/* nigh who: which processes hold an object, or the pool's memory, and so why it cannot be evicted;
 * and which other nodes have the object too. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "cli/cli.h"
#include "base/json.h"

enum {
    HOLDERS_MAX = 1024,
    PLACES_MAX = 16 /* more than one answer names */
};

/* What the cluster says of an object. */
struct places {
    bool asked; /* there is a cluster */
    nigh_status status;
    uint32_t ranks[PLACES_MAX]; /* of other nodes */
    size_t count;
};

static nigh_holder holders[HOLDERS_MAX];

/* Why it cannot be evicted, in words. */
static const char *reason(const nigh_object_info *info, size_t count)
{
    if (info->state == NIGH_OBJECT_CREATED) {
        return "not sealed yet: its creator is still writing it";
    }
    if (count == 0 && (info->node_uses & NIGH_USE_WRITE) != 0) {
        return info->state == NIGH_OBJECT_DELETING
                   ? "deleted, and still being written to disk: its memory is freed after that"
                   : "nobody holds it, and it is being written to disk";
    }
    if (count == 0 && (info->node_uses & NIGH_USE_SEND) != 0) {
        return "nobody here holds it: it stays until another node, or a checksum, has read it";
    }
    if (info->state == NIGH_OBJECT_SPILLED) {
        return (info->node_uses & NIGH_USE_READ) != 0 ? "on disk, and being read back"
                                                      : "on disk: it takes no memory";
    }
    if (info->state == NIGH_OBJECT_DELETING && count == 0) {
        return "deleted: nobody holds it, and its memory is being freed";
    }
    if (info->pinned != 0 && info->state != NIGH_OBJECT_DELETING) {
        return "pinned with nigh pin: it stays until nigh unpin";
    }
    if (count == 0 && (info->node_uses & NIGH_USE_REPLICA) != 0 &&
        info->state != NIGH_OBJECT_DELETING) {
        return "one of several replicas: it stays until it is deleted";
    }
    return count > 0 ? "held by the processes above: it stays until they release it"
                     : "nobody holds it: it may be evicted";
}

static void print_holders_json(struct json *json, size_t shown)
{
    json_array_open(json, "holders");
    for (size_t i = 0; i < shown; i++) {
        json_object_open(json, NULL);
        json_i64(json, "pid", holders[i].pid);
        json_u64(json, "uid", holders[i].uid);
        json_string(json, "name", holders[i].name);
        json_u64(json, "session", holders[i].session);
        json_u64(json, "views", holders[i].views);
        json_u64(json, "size_bytes", holders[i].size_bytes);
        json_object_close(json);
    }
    json_array_close(json);
}

static void print_holders(size_t shown, size_t count, const char *what)
{
    cli_print_holders(holders, shown, what);
    if (shown < count) {
        printf("and %zu more\n", count - shown);
    }
}

static void look_for_places(struct cli *cli, const nigh_id *id, struct places *places)
{
    uint32_t ranks[PLACES_MAX];
    size_t count = 0;

    *places = (struct places){0};
    if (cli_is_alone(cli)) {
        return;
    }
    places->asked = true;
    places->status = nigh_where(cli->client, id, ranks, PLACES_MAX, &count);
    for (size_t i = 0; places->status == NIGH_OK && i < count && i < PLACES_MAX; i++) {
        const nigh_node_info *node = cli_node(ranks[i]);

        if (node != NULL && node->is_self == 0) {
            places->ranks[places->count++] = ranks[i];
        }
    }
}

static void print_places_json(struct json *json, const struct places *places)
{
    json_array_open(json, "nodes");
    for (size_t i = 0; i < places->count; i++) {
        json_object_open(json, NULL);
        json_u64(json, "rank", places->ranks[i]);
        json_string(json, "address", cli_node(places->ranks[i])->address);
        json_object_close(json);
    }
    json_array_close(json);
    if (places->asked && places->status != NIGH_OK) {
        json_string(json, "nodes_status", nigh_status_name(places->status));
    }
}

static void print_places(const char *label, const struct places *places)
{
    if (!places->asked) {
        return;
    }
    if (places->status != NIGH_OK) {
        printf("%s: which other nodes have it cannot be said now: %s\n", label,
               nigh_status_string(places->status));
        return;
    }
    for (size_t i = 0; i < places->count; i++) {
        char address[4 * sizeof cli_node(0)->address];
        const nigh_node_info *node = cli_node(places->ranks[i]);

        if (node == NULL) { /* look_for_places asked */
            continue;
        }
        bytes_printable(node->address, strlen(node->address), address, sizeof address);
        printf("%s: also on node %u (%s)%s%s\n", label, node->rank, address,
               node->state != NIGH_NODE_IS_UP ? ", which is " : "",
               node->state != NIGH_NODE_IS_UP ? cli_node_state_name(node->state) : "");
    }
}

/* No other node is known to have it, or nobody can say. */
static int who_nowhere(struct cli *cli, const char *name, nigh_status status)
{
    char absent[CLI_ABSENT_BYTES];
    bool may_be_away = cli_may_be_away(cli, absent);

    if (status != NIGH_OK) {
        cli_error(
            cli, "%s: not on this node, and whether another has it cannot be said now: %s%s%s",
            name, cli_unreached(cli, nigh_status_string(status)), may_be_away ? "; " : "", absent);
        return cli_exit_code(status);
    }
    if (may_be_away) {
        cli_error(cli, "%s: not on this node or another that is up; %s", name, absent);
        return CLI_FAILED;
    }
    return cli_no_object_anywhere(cli, name);
}

/* Nothing of it is here: what of the other nodes. */
static int who_elsewhere(struct cli *cli, const nigh_id *id, const char *name)
{
    char label[CLI_LABEL_BYTES];
    struct json json = {0};
    struct places places;

    look_for_places(cli, id, &places);
    if (places.status != NIGH_OK || places.count == 0) {
        return who_nowhere(cli, name, places.status);
    }
    if (cli->json) {
        json_object_open(&json, NULL);
        json_name(&json, name);
        json_string(&json, "state", "elsewhere");
        json_string(&json, "reason", "not on this node: nigh get brings a copy");
        print_holders_json(&json, 0);
        print_places_json(&json, &places);
        json_object_close(&json);
        return CLI_OK;
    }
    bytes_printable(name, strlen(name), label, sizeof label);
    printf("%s: not on this node: nigh get brings a copy\n", label);
    print_places(label, &places);
    return CLI_OK;
}

static int who_object(struct cli *cli, const char *name)
{
    nigh_object_info info;
    struct json json = {0};
    char label[CLI_LABEL_BYTES];
    struct places places;
    nigh_id id;
    bool is_name;
    size_t count = 0, shown;
    nigh_status status;
    int exit_code = cli_parse_name(cli, name, &id, &is_name);

    if (exit_code != CLI_OK || (exit_code = cli_open(cli, NIGH_OPEN_READ_ONLY)) != CLI_OK) {
        return exit_code;
    }
    status = nigh_stat(cli->client, &id, &info);
    if (status == NIGH_OK) {
        status = nigh_who(cli->client, &id, holders, HOLDERS_MAX, &count);
    }
    if (status == NIGH_NOT_FOUND) {
        return who_elsewhere(cli, &id, name);
    }
    if (status != NIGH_OK) {
        return cli_failed_object(cli, status, name);
    }
    shown = count < HOLDERS_MAX ? count : HOLDERS_MAX;
    look_for_places(cli, &id, &places);
    if (cli->json) {
        json_object_open(&json, NULL);
        json_name(&json, name);
        json_string(&json, "state", cli_state_name(info.state));
        json_string(&json, "reason", reason(&info, count));
        print_holders_json(&json, shown);
        print_places_json(&json, &places);
        json_object_close(&json);
    } else {
        if (count > 0) {
            print_holders(shown, count, "VIEWS");
        }
        cli_label(&info, label);
        printf("%s: %s\n", label, reason(&info, count));
        print_places(label, &places);
    }
    return CLI_OK;
}

static int who_pool(struct cli *cli)
{
    struct json json = {0};
    size_t count = 0, shown;
    nigh_node_stats stats = {.struct_size = sizeof stats};
    char pinned[BYTES_SIZE_TEXT];
    nigh_status status;
    int exit_code = cli_open(cli, NIGH_OPEN_READ_ONLY);

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    status = nigh_holders(cli->client, holders, HOLDERS_MAX, &count);
    if (status == NIGH_OK) {
        status = nigh_stats(cli->client, &stats);
    }
    if (status != NIGH_OK) {
        return cli_failed(cli, status, "cannot ask who holds memory");
    }
    shown = count < HOLDERS_MAX ? count : HOLDERS_MAX;
    if (cli->json) {
        json_object_open(&json, NULL);
        print_holders_json(&json, shown);
        json_u64(&json, "pinned_bytes", stats.pinned_bytes);
        json_object_close(&json);
        return CLI_OK;
    }
    if (count > 0) {
        print_holders(shown, count, "HOLDS");
        puts("HOLDS counts objects; BYTES are theirs, and what is leased to the process for its "
             "next small puts:\na few MiB, which an idle process gives back when memory is needed");
    } else {
        puts(stats.pinned_bytes > 0 ? "no process holds memory of this pool"
                                    : "nobody holds memory of this pool");
    }
    if (stats.pinned_bytes > 0) {
        bytes_format_size(stats.pinned_bytes, pinned);
        printf("%s of the node are pinned with nigh pin, or have replicas: they stay until nigh "
               "unpin, or nigh rm\n",
               pinned);
    }
    return CLI_OK;
}

int cli_who(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS, {0}};
    int option, exit_code = CLI_OK;

    while ((option = cli_next_option(cli, argc, argv, ":" CLI_COMMON_SHORT, options)) != -1) {
        if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    if (argc - optind > 1) {
        return cli_usage(cli, "who takes at most one NAME");
    }
    return argc > optind ? who_object(cli, argv[optind]) : who_pool(cli);
}
