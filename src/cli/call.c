/* SPDX-License-Identifier: Apache-2.0 */
/* nigh call: calls a service by name, at any node that has it or a certain one; prints its reply.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/cli.h"
#include "cli/json.h"

enum {
    CALL_TIMEOUT_US = 5000000
};

/* A call and its bytes. */
struct call {
    nigh_call_spec spec;
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

static bool parse_rank(const char *text, uint32_t *rank)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    *rank = (uint32_t)value;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && value < LIMIT_NODES;
}

static int print_reply(struct cli *cli, const struct call *call)
{
    char text[NIGH_CALL_BYTES + 1];
    struct json json = {0};
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
    json_u64(&json, "reply_bytes", call->spec.reply_bytes);
    if (is_text) {
        json_string(&json, "reply", text);
    }
    json_object_close(&json);
    return CLI_OK;
}

static int carry_out(struct cli *cli, struct call *call)
{
    nigh_status status =
        nigh_call(cli->client, &call->spec, cli->timeout_given ? cli->timeout_us : CALL_TIMEOUT_US);

    return status == NIGH_OK ? print_reply(cli, call) : cli_failed(cli, status, call->spec.service);
}

static int take_options(struct cli *cli, int argc, char **argv, struct call *call)
{
    static const struct option options[] = {{"node", required_argument, NULL, 'n'},
                                            {"idempotent", no_argument, NULL, 'i'},
                                            CLI_COMMON_OPTIONS,
                                            {0}};
    int option, exit_code = CLI_OK;

    while ((option = cli_next_option(cli, argc, argv, ":n:i" CLI_COMMON_SHORT, options)) != -1) {
        if (option == 'n' && !parse_rank(optarg, &call->spec.rank)) {
            return cli_usage(cli, "--node takes a rank (nigh nodes), not '%s'", optarg);
        }
        call->spec.flags |= option == 'i' ? NIGH_CALL_IDEMPOTENT : 0;
        if (option != 'n' && option != 'i' &&
            cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code == CLI_OK ? -1 : exit_code;
        }
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
    return exit_code == CLI_OK ? carry_out(cli, &call) : exit_code;
}
