/* SPDX-License-Identifier: Apache-2.0 */
/* nigh get: finds the object, and has its bytes written from where they lie (output.c). */
#include "cli/cli.h"
#include "base/json.h"
#include "cli/output.h"

enum {
    OTHERS_WAIT_US = 5000000 /* for an object that another node may have, or is to announce */
};

static void report(const char *name, const char *output, const nigh_view *view)
{
    struct json json = {0};

    json_object_open(&json, NULL);
    json_name(&json, name);
    json_string(&json, "output", output);
    json_u64(&json, "data_size", view->data_size);
    json_u64(&json, "meta_size", view->meta_size);
    json_object_close(&json);
}

/* What this node says of an object that did not come in time. */
struct lateness {
    bool is_told;
    nigh_object_state state; /* 0: it is not here */
};

static void ask_why(struct cli *cli, const nigh_id *id, struct lateness *late)
{
    nigh_object_info info;
    nigh_status status = nigh_stat(cli->client, id, &info);

    late->is_told = status == NIGH_OK || status == NIGH_NOT_FOUND;
    late->state = status == NIGH_OK ? info.state : 0;
}

/* Where the user does not say how long, another node gets its time. */
static nigh_status get_view(struct cli *cli, const nigh_id *id, uint32_t flags, nigh_view *view,
                            struct lateness *late)
{
    nigh_status status = nigh_get_with(cli->client, id, 1, cli->timeout_us, flags, view);

    *late = (struct lateness){0};
    if (status == NIGH_TIMEOUT && !cli->timeout_given && !cli_is_alone(cli)) {
        status = nigh_get_with(cli->client, id, 1, OTHERS_WAIT_US, flags, view);
    }
    if (status == NIGH_TIMEOUT) {
        ask_why(cli, id, late);
        if (late->state == NIGH_OBJECT_SEALED) { /* it came just now */
            status = nigh_get_with(cli->client, id, 1, 0, flags, view);
        }
    }
    return status;
}

/* Nobody had it in the time that other nodes get. */
static int get_nowhere(struct cli *cli, const char *name)
{
    char absent[CLI_ABSENT_BYTES];

    if (cli_may_be_away(cli, absent)) {
        cli_error(cli, "%s: not found in 5 seconds on this node or another that is up; %s", name,
                  absent);
        return CLI_FAILED;
    }
    cli_error(cli, "%s: no such object in 5 seconds, on this node or another (nigh nodes)", name);
    return CLI_NOT_FOUND;
}

/* It did not come in the time that was given. */
static int get_in_vain(struct cli *cli, const char *name, const struct lateness *late)
{
    bool in_ms = cli->timeout_us % 1000 == 0, in_s = cli->timeout_us % 1000000 == 0;
    char absent[CLI_ABSENT_BYTES] = "";
    bool is_made = late->state == NIGH_OBJECT_CREATED;
    const char *why = absent;

    if (!is_made) {
        (void)cli_may_be_away(cli, absent);
        why = cli_unreached(cli, absent);
    }
    cli_error(cli, "%s: not %s within %llu %s%s%s", name, is_made ? "sealed" : "there",
              (unsigned long long)cli->timeout_us / (in_s    ? 1000000
                                                     : in_ms ? 1000
                                                             : 1),
              in_s    ? "s"
              : in_ms ? "ms"
                      : "us",
              why[0] != '\0' ? "; " : "", why);
    return CLI_TIMEOUT;
}

static int get_late(struct cli *cli, const char *name, const struct lateness *late)
{
    if (!late->is_told) {
        return cli_failed(cli, NIGH_TIMEOUT, name);
    }
    if (late->state == NIGH_OBJECT_SPILLED) {
        cli_error(cli,
                  "%s: is on disk and was not read back in time; ask again with %s--timeout, e.g. "
                  "--timeout 30s",
                  name, cli->timeout_given ? "a longer " : "");
        return CLI_TIMEOUT;
    }
    if (cli->timeout_us > 0) {
        return get_in_vain(cli, name, late);
    }
    if (late->state == NIGH_OBJECT_CREATED) {
        cli_error(cli, "%s: not sealed yet: its creator is still writing it", name);
        return CLI_NOT_FOUND;
    }
    if (!cli_is_alone(cli) && !cli->timeout_given) {
        return get_nowhere(cli, name);
    }
    return cli_failed_object(cli, NIGH_NOT_FOUND, name);
}

/* It waited for a directory that is not reached, until its time was up. */
static bool is_in_vain(struct cli *cli, nigh_status status)
{
    return status == NIGH_PEER_LOST && cli->timeout_us > 0 && cli_unreached(cli, NULL) != NULL;
}

static int get_object(struct cli *cli, const char *name, const char *output, bool meta,
                      uint32_t flags)
{
    struct lateness late;
    nigh_view view;
    nigh_id id;
    bool is_name;
    nigh_status status;
    int exit_code = cli_parse_name(cli, name, &id, &is_name);

    if (exit_code != CLI_OK || (exit_code = cli_open(cli, NIGH_OPEN_READ_ONLY)) != CLI_OK) {
        return exit_code;
    }
    status = get_view(cli, &id, flags, &view, &late);
    if (is_in_vain(cli, status)) {
        return get_in_vain(cli, name, &late);
    }
    if (status != NIGH_OK) {
        return status == NIGH_TIMEOUT ? get_late(cli, name, &late)
                                      : cli_failed_object(cli, status, name);
    }
    exit_code = cli_output_write(cli, output, meta ? view.meta : view.data,
                                 meta ? view.meta_size : view.data_size);
    if (exit_code == CLI_OK && cli->json) {
        report(name, output, &view);
    }
    nigh_release(cli->client, &view);
    return exit_code;
}

int cli_get(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"meta", no_argument, NULL, 'm'},
                                            {"no-copy", no_argument, NULL, 'n'},
                                            CLI_COMMON_OPTIONS,
                                            {0}};
    const char *output = NULL;
    uint32_t flags = 0;
    bool meta = false;
    int option, exit_code = CLI_OK;

    while ((option = cli_next_option(cli, argc, argv, ":o:mn" CLI_COMMON_SHORT, options)) != -1) {
        if (option == 'o') {
            output = optarg;
        } else if (option == 'm') {
            meta = true;
        } else if (option == 'n') {
            flags |= NIGH_GET_NO_COPY;
        } else if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    if (argc - optind != 1) {
        return cli_usage(cli, "get takes one NAME");
    }
    if (cli->json && cli_output_is_standard(output)) {
        return cli_usage(cli, "--json needs --output FILE: standard output cannot carry both");
    }
    return get_object(cli, argv[optind], output, meta, flags);
}
