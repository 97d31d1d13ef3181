/* SPDX-License-Identifier: Apache-2.0 */
/* nigh call: calls a service by name, at any node that has it, a certain one, or the one that holds
 * most of some objects; prints its reply. Calls of many nodes are call_many.c's. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/call.h"
#include "cli/cli.h"
#include "base/json.h"

enum {
    CALL_TIMEOUT_US = 5000000,
    CALL_NEAR = 256 /* objects that one call names */
};

/* A call and its bytes. */
struct call {
    nigh_call_spec spec;
    bool is_many;
    uint32_t ranks[LIMIT_NODES]; /* is_many: of these; none: of all */
    uint32_t rank_count;
    const char *node;    /* --node, and */
    const char *members; /* --ranks, as they were given; NULL: they were not */
    nigh_id near[CALL_NEAR];
    char request[NIGH_CALL_BYTES + 1];
    char reply[NIGH_CALL_BYTES];
};

/* Standard input, one byte more than a request may have, so that what is too long is seen. */
static int read_request(struct cli *cli, struct call *call)
{
    size_t count = 0;

    while (count < sizeof call->request) {
        ssize_t n = read(STDIN_FILENO, call->request + count, sizeof call->request - count);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            cli_error(cli, "cannot read standard input: %s", strerror(errno));
            return CLI_FAILED;
        }
        if (n == 0) {
            break;
        }
        count += (size_t)n;
    }
    call->spec.request = call->request;
    call->spec.request_bytes = count;
    return CLI_OK;
}

static int take_request(struct cli *cli, struct call *call, const char *text)
{
    int exit_code = CLI_OK;

    if (text != NULL) {
        call->spec.request = text;
        call->spec.request_bytes = strlen(text);
    } else {
        exit_code = read_request(cli, call);
    }
    if (exit_code == CLI_OK && call->spec.request_bytes > NIGH_CALL_BYTES) {
        return cli_usage(cli, "a request has %d bytes at most", NIGH_CALL_BYTES);
    }
    return exit_code;
}

/* "0,2,db" */
static int find_ranks(struct cli *cli, struct call *call)
{
    const char *text = call->members;
    int exit_code = CLI_OK;

    while (text != NULL && exit_code == CLI_OK) {
        const char *comma = strchr(text, ',');
        size_t length = comma != NULL ? (size_t)(comma - text) : strlen(text);

        if (call->rank_count == LIMIT_NODES) {
            return cli_usage(cli, "--ranks takes %d nodes at most", LIMIT_NODES);
        }
        exit_code = cli_find_node(cli, "--ranks", text, length, &call->ranks[call->rank_count++]);
        text = comma != NULL ? comma + 1 : NULL;
    }
    return exit_code;
}

/* Names are the cluster's, so nodes are looked for once the node is asked. */
static int find_nodes(struct cli *cli, struct call *call)
{
    return call->node != NULL
               ? cli_find_node(cli, "--node", call->node, strlen(call->node), &call->spec.rank)
               : find_ranks(cli, call);
}

static int print_reply(struct cli *cli, const struct call *call)
{
    char text[NIGH_CALL_BYTES + 1];
    struct json json = {0};
    bool is_one_way = (call->spec.flags & NIGH_CALL_ONE_WAY) != 0;
    bool is_text = memchr(call->reply, 0, call->spec.reply_bytes) == NULL;

    if (!cli->json) {
        (void)fwrite(call->reply, 1, call->spec.reply_bytes, stdout);
        return CLI_OK;
    }
    memcpy(text, call->reply, call->spec.reply_bytes);
    text[call->spec.reply_bytes] = '\0';
    json_object_open(&json, NULL);
    json_string(&json, "service", call->spec.service);
    json_u64(&json, "node", call->spec.served_by);
    if (is_one_way) {
        json_object_close(&json);
        return CLI_OK;
    }
    json_u64(&json, "reply_bytes", call->spec.reply_bytes);
    if (is_text) {
        json_string(&json, "reply", text);
    }
    json_object_close(&json);
    return CLI_OK;
}

static int carry_out(struct cli *cli, struct call *call)
{
    uint64_t timeout_us = cli->timeout_given ? cli->timeout_us : CALL_TIMEOUT_US;
    nigh_multicast_spec many = {.struct_size = sizeof many,
                                .service = call->spec.service,
                                .ranks = call->rank_count > 0 ? call->ranks : NULL,
                                .rank_count = call->rank_count,
                                .request = call->spec.request,
                                .request_bytes = call->spec.request_bytes};
    nigh_status status;
    int exit_code;

    if (call->is_many) {
        return cli_call_many(cli, &many, timeout_us);
    }
    status = nigh_call(cli->client, &call->spec, timeout_us);
    if (status == NIGH_OK) {
        return print_reply(cli, call);
    }
    exit_code = cli_failed(cli, status, call->spec.service);
    return call->spec.answered != 0 ? CLI_ANSWERED : exit_code;
}

static int take_near(struct cli *cli, struct call *call, const char *name)
{
    bool is_name;

    if (call->spec.near_count == CALL_NEAR) {
        return cli_usage(cli, "--near is given %d times at most", CALL_NEAR);
    }
    call->spec.rank = NIGH_NEAREST;
    call->spec.near_ids = call->near;
    return cli_parse_name(cli, name, &call->near[call->spec.near_count++], &is_name);
}

/* An option of this verb's own: CLI_OK, or an exit code. */
static int take_own(struct cli *cli, int option, struct call *call)
{
    switch (option) {
    case 'n': call->node = optarg; return CLI_OK;
    case 'N': return take_near(cli, call, optarg);
    case 'r':
        call->is_many = true;
        call->members = optarg;
        return CLI_OK;
    case 'a': call->is_many = true; return CLI_OK;
    case 'o': call->spec.flags |= NIGH_CALL_ONE_WAY; return CLI_OK;
    case 'u': call->spec.flags |= NIGH_CALL_URGENT; return CLI_OK;
    default: call->spec.flags |= NIGH_CALL_IDEMPOTENT; return CLI_OK;
    }
}

static int take_options(struct cli *cli, int argc, char **argv, struct call *call)
{
    static const struct option options[] = {{"node", required_argument, NULL, 'n'},
                                            {"near", required_argument, NULL, 'N'},
                                            {"all", no_argument, NULL, 'a'},
                                            {"ranks", required_argument, NULL, 'r'},
                                            {"idempotent", no_argument, NULL, 'i'},
                                            {"one-way", no_argument, NULL, 'o'},
                                            {"urgent", no_argument, NULL, 'u'},
                                            CLI_COMMON_OPTIONS,
                                            {0}};
    int option, exit_code = CLI_OK;

    while ((option = cli_next_option(cli, argc, argv, ":n:N:ar:iou" CLI_COMMON_SHORT, options)) !=
           -1) {
        bool is_own = option != '?' && strchr("nNariou", option) != NULL;

        if (is_own && (exit_code = take_own(cli, option, call)) != CLI_OK) {
            return exit_code;
        }
        if (!is_own && cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code == CLI_OK ? -1 : exit_code;
        }
    }
    if (call->is_many &&
        (call->node != NULL || call->spec.rank != NIGH_ANY_RANK || call->spec.flags != 0)) {
        return cli_usage(
            cli, "takes --all or --ranks without --node, --near, --idempotent, --one-way and "
                 "--urgent");
    }
    if (call->spec.near_count > 0 && call->node != NULL) {
        return cli_usage(cli, "takes --node or --near, not both");
    }
    if (argc - optind < 1 || argc - optind > 2) {
        return cli_usage(cli, "takes the name of a SERVICE, and perhaps a REQUEST");
    }
    if (argv[optind][0] == '\0' || strlen(argv[optind]) > LIMIT_NAME_BYTES) {
        return cli_usage(cli, "the name of a service has 1 to %d bytes", LIMIT_NAME_BYTES);
    }
    call->spec.service = argv[optind];
    return CLI_OK;
}

int cli_call(struct cli *cli, int argc, char **argv)
{
    static struct call call;
    int exit_code;

    call.spec = (nigh_call_spec){.struct_size = sizeof call.spec,
                                 .rank = NIGH_ANY_RANK,
                                 .reply = call.reply,
                                 .reply_room = sizeof call.reply};
    exit_code = take_options(cli, argc, argv, &call);
    if (exit_code != CLI_OK) {
        return exit_code < 0 ? CLI_OK : exit_code;
    }
    exit_code = take_request(cli, &call, argc - optind == 2 ? argv[optind + 1] : NULL);
    if (exit_code == CLI_OK) {
        exit_code = cli_open(cli, 0);
    }
    if (exit_code == CLI_OK) {
        exit_code = find_nodes(cli, &call);
    }
    return exit_code == CLI_OK ? carry_out(cli, &call) : exit_code;
}
