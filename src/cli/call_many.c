/* SPDX-License-Identifier: Apache-2.0 */
/* nigh call --all and --ranks: a line for each node that answered, and one for each error. */
#include <stdio.h>
#include <string.h>

#include "cli/call.h"
#include "base/json.h"

/* Calls back for each reply, by rank. */
static void each_reply(const nigh_multicast_spec *spec,
                       void (*take)(void *context, uint32_t rank, const char *bytes, size_t size),
                       void *context)
{
    const char *value = spec->value;
    nigh_multicast_reply reply;

    for (size_t at = 0; at + sizeof reply <= spec->value_bytes; at += reply.bytes) {
        memcpy(&reply, value + at, sizeof reply);
        at += sizeof reply;
        if (reply.bytes > spec->value_bytes - at) {
            return;
        }
        take(context, reply.rank, value + at, reply.bytes);
    }
}

static void print_reply(void *context, uint32_t rank, const char *bytes, size_t size)
{
    (void)context;
    (void)printf("%u: ", rank);
    (void)fwrite(bytes, 1, size, stdout);
    (void)putchar('\n');
}

static void json_reply(void *context, uint32_t rank, const char *bytes, size_t size)
{
    char text[NIGH_MULTICAST_BYTES + 1];
    struct json *json = context;

    json_object_open(json, NULL);
    json_u64(json, "node", rank);
    json_u64(json, "reply_bytes", size);
    if (size <= NIGH_MULTICAST_BYTES && memchr(bytes, 0, size) == NULL) {
        memcpy(text, bytes, size);
        text[size] = '\0';
        json_string(json, "reply", text);
    }
    json_object_close(json);
}

static void json_errors(struct json *json, const nigh_multicast_spec *spec)
{
    json_array_open(json, "errors");
    for (uint32_t n = 0; n < spec->error_count; n++) {
        const nigh_multicast_error *error = &spec->errors[n];

        json_object_open(json, NULL);
        json_u64(json, "node", error->rank);
        json_string(json, "status", nigh_status_name((nigh_status)error->status));
        json_u64(json, "count", error->count);
        json_bool(json, "had", error->is_had != 0);
        json_object_close(json);
    }
    json_array_close(json);
}

static void print_json(const nigh_multicast_spec *spec)
{
    struct json json = {0};

    json_object_open(&json, NULL);
    json_string(&json, "service", spec->service);
    json_u64(&json, "version", spec->version);
    json_u64(&json, "answered", spec->answered);
    json_u64(&json, "failed", spec->failed);
    json_u64(&json, "unknown", spec->unknown);
    json_u64(&json, "unasked", spec->unasked);
    json_array_open(&json, "replies");
    each_reply(spec, json_reply, &json);
    json_array_close(&json);
    json_errors(&json, spec);
    json_object_close(&json);
}

/*
 * Whether an error is what a service answered. Of what services had, and nobody knows what became
 * of, there is none; and of replies that do not fit, NIGH_LIMIT is nigh's.
 */
static bool is_answer(const nigh_multicast_spec *spec, const nigh_multicast_error *error)
{
    return error->is_had != 0 && spec->unknown == 0 && error->status != NIGH_LIMIT;
}

/* That nobody had it because the node has no such service is said as of a service. */
static const char *what_went_wrong(const nigh_multicast_error *error)
{
    return error->status == NIGH_NOT_FOUND && error->is_had == 0
               ? "no service of this name"
               : nigh_status_string((nigh_status)error->status);
}

/* Of replies that their services gave, and that are larger together than what there is for them:
 * how large this one was nobody told. */
static void print_no_room(struct cli *cli, const nigh_multicast_error *error)
{
    char others[32] = "";

    if (error->count > 1) {
        (void)snprintf(others, sizeof others, ", and %u more", error->count - 1);
    }
    cli_error(cli,
              "node %u%s: answered, and its reply was larger than the room left: all replies "
              "together have %d bytes, with 8 more for each",
              error->rank, others, NIGH_MULTICAST_BYTES);
}

static void print_errors(struct cli *cli, const nigh_multicast_spec *spec)
{
    for (uint32_t n = 0; n < spec->error_count; n++) {
        const nigh_multicast_error *error = &spec->errors[n];
        const char *had =
            error->is_had != 0 ? "may have been carried out" : "was not carried out there";
        const char *what = what_went_wrong(error);

        if (is_answer(spec, error)) {
            cli_error(cli, "node %u: the service answered: %s", error->rank,
                      nigh_status_name((nigh_status)error->status));
        } else if (error->is_had != 0 && error->status == NIGH_LIMIT) {
            print_no_room(cli, error);
        } else if (error->count > 1) {
            cli_error(cli, "node %u, and %u behind it: %s; %s", error->rank, error->count - 1, what,
                      had);
        } else {
            cli_error(cli, "node %u: %s; %s", error->rank, what, had);
        }
    }
}

int cli_call_many(struct cli *cli, nigh_multicast_spec *spec, uint64_t timeout_us)
{
    static char value[NIGH_MULTICAST_BYTES];
    nigh_status status;

    if (spec->request_bytes > NIGH_MULTICAST_BYTES) {
        return cli_usage(cli, "a request to many nodes has %d bytes at most", NIGH_MULTICAST_BYTES);
    }
    spec->reduce = NIGH_REDUCE_CONCAT;
    spec->value = value;
    spec->value_room = sizeof value;
    status = nigh_multicast(cli->client, spec, timeout_us);
    if (status != NIGH_OK && spec->error_count == 0) {
        return cli_failed(cli, status, spec->service);
    }
    if (cli->json) {
        print_json(spec);
    } else {
        each_reply(spec, print_reply, NULL);
        print_errors(cli, spec);
    }
    return status != NIGH_OK && is_answer(spec, &spec->errors[0]) ? CLI_ANSWERED
                                                                  : cli_exit_code(status);
}
