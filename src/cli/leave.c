/* SPDX-License-Identifier: Apache-2.0 */
/* nigh leave: this node hands over what only it holds, so that it can be stopped without loss. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "base/json.h"

#define LEAVE_US    UINT64_C(60000000) /* without --timeout */
#define LEAVE_LOOK  UINT64_C(50000000) /* ns between looks */
#define LEAVE_STILL UINT64_C(3000000)  /* so long nothing changed: what is stuck stays so */
#define LEAVE_TELL  UINT64_C(1000000)  /* between lines to a terminal */

static const char *const why_names[NIGH_LEAVE_WHYS] = {
    [NIGH_LEAVE_NOBODY] = "nobody", [NIGH_LEAVE_NO_ROOM] = "no room",
    [NIGH_LEAVE_QUOTA] = "quota",   [NIGH_LEAVE_NO_POOL] = "no pool",
    [NIGH_LEAVE_LIMIT] = "limit",   [NIGH_LEAVE_FAILED] = "failed",
};

static const char *const why_texts[NIGH_LEAVE_WHYS] = {
    [NIGH_LEAVE_NOBODY] = "no other node is up that stays and has none",
    [NIGH_LEAVE_NO_ROOM] = "no other node has room",
    [NIGH_LEAVE_QUOTA] = "the pool's quota is used up there",
    [NIGH_LEAVE_NO_POOL] = "no other node that is up has the pool",
    [NIGH_LEAVE_LIMIT] = "more than nodes keep account of",
    [NIGH_LEAVE_FAILED] = "not read here, or not copied there",
};

/* ---- printed -------------------------------------------------------------- */

static void print_count(struct json *json, const char *key, nigh_leave_count count)
{
    json_object_open(json, key);
    json_u64(json, "objects", count.objects);
    json_u64(json, "bytes", count.bytes);
    json_object_close(json);
}

static void print_json(const nigh_leave_info *info, int exit_code)
{
    struct json json = {0};

    json_object_open(&json, NULL);
    json_bool(&json, "leaving", info->leaving != 0);
    json_bool(&json, "looking", info->looking != 0);
    print_count(&json, "waiting", info->waiting);
    print_count(&json, "safe", info->safe);
    print_count(&json, "stuck", info->stuck);
    print_count(&json, "alone", info->alone);
    json_object_open(&json, "why");
    for (int n = 0; n < NIGH_LEAVE_WHYS; n++) {
        json_u64(&json, why_names[n], info->why[n]);
    }
    json_object_close(&json);
    json_u64(&json, "unsealed", info->unsealed);
    cli_error_fields(&json, exit_code);
    json_object_close(&json);
}

static void print_text(const nigh_leave_info *info)
{
    char safe[BYTES_SIZE_TEXT], left[BYTES_SIZE_TEXT];

    if (info->leaving == 0) {
        puts("the node does not leave");
        return;
    }
    bytes_format_size(info->safe.bytes, safe);
    bytes_format_size(info->waiting.bytes + info->stuck.bytes, left);
    printf("safe without this node: %" PRIu64 " objects, %s\nnot yet: %" PRIu64 " objects, %s\n",
           info->safe.objects, safe, info->waiting.objects + info->stuck.objects, left);
    for (int n = 0; n < NIGH_LEAVE_WHYS; n++) {
        if (info->why[n] > 0) {
            printf("  %" PRIu64 ": %s\n", info->why[n], why_texts[n]);
        }
    }
    if (info->unsealed > 0) {
        printf("created and not sealed: %" PRIu64 "\n", info->unsealed);
    }
}

/* ---- waiting -------------------------------------------------------------- */

static bool is_same(const nigh_leave_info *a, const nigh_leave_info *b)
{
    return a->waiting.objects == b->waiting.objects && a->safe.objects == b->safe.objects &&
           a->stuck.objects == b->stuck.objects && a->unsealed == b->unsealed;
}

/* Whether there is nothing more to wait for: all is safe, or what is not stays so. */
static bool is_over(const nigh_leave_info *info, uint64_t still_us)
{
    if (info->looking != 0 || info->waiting.objects > 0 || info->unsealed > 0) {
        return false;
    }
    return info->stuck.objects == 0 || still_us >= LEAVE_STILL;
}

static void tell(const struct cli *cli, const nigh_leave_info *info, uint64_t now_us)
{
    static uint64_t told_us;

    if (!cli->json && isatty(STDERR_FILENO) && now_us - told_us >= LEAVE_TELL) {
        told_us = now_us;
        fprintf(stderr, "safe %" PRIu64 ", waiting %" PRIu64 ", stuck %" PRIu64 "\n",
                info->safe.objects, info->waiting.objects, info->stuck.objects);
    }
}

static nigh_status wait_for_it(struct cli *cli, nigh_leave_info *info)
{
    const struct timespec pause = {.tv_nsec = LEAVE_LOOK};
    uint64_t now_us = clock_now_us(&clock_monotonic), changed_us = now_us;
    uint64_t end_us = clock_deadline_us(now_us, cli->timeout_given ? cli->timeout_us : LEAVE_US);
    nigh_leave_info before = *info;
    nigh_status status = NIGH_OK;

    while (status == NIGH_OK && !is_over(info, now_us - changed_us)) {
        if (now_us >= end_us) {
            return NIGH_TIMEOUT;
        }
        (void)nanosleep(&pause, NULL);
        status = nigh_leave(cli->client, NIGH_LEAVE_LOOK, info);
        now_us = clock_now_us(&clock_monotonic);
        if (!is_same(&before, info)) {
            changed_us = now_us;
            before = *info;
        }
        tell(cli, info, now_us);
    }
    return status;
}

/* ---- the verb ------------------------------------------------------------- */

static int tell_end(struct cli *cli, const nigh_leave_info *info, nigh_status status)
{
    uint64_t left = info->waiting.objects + info->stuck.objects;

    if (info->leaving == 0) {
        cli_error(cli, "the node does not leave any more: somebody gave nigh leave --undo");
        return CLI_FAILED;
    }
    if (status == NIGH_OK && left == 0) {
        return CLI_OK;
    }
    if (left == 0) {
        cli_error(cli, "%" PRIu64 " objects were created and are not sealed", info->unsealed);
        return CLI_TIMEOUT;
    }
    if (status == NIGH_OK && info->alone.objects == 0) {
        cli_error(cli,
                  "nothing is lost with this node, but %" PRIu64 " objects have fewer copies "
                  "without it than were asked for",
                  left);
    } else {
        cli_error(cli,
                  "%" PRIu64 " objects are not handed over, %" PRIu64 " of them no other node has",
                  left, info->alone.objects);
    }
    return status == NIGH_TIMEOUT ? CLI_TIMEOUT : CLI_FAILED;
}

static int leave(struct cli *cli, nigh_leave_how how)
{
    nigh_leave_info info;
    nigh_status status = nigh_leave(cli->client, how, &info);
    int exit_code = CLI_OK;

    if (status != NIGH_OK) {
        return cli_failed(cli, status, how == NIGH_LEAVE_LOOK ? "cannot look" : "cannot leave");
    }
    if (how == NIGH_LEAVE_BEGIN) {
        status = wait_for_it(cli, &info);
        if (status != NIGH_OK && status != NIGH_TIMEOUT) {
            return cli_failed(cli, status, "cannot see how it goes on");
        }
        exit_code = tell_end(cli, &info, status);
    }
    if (cli->json) {
        print_json(&info, exit_code);
    } else {
        print_text(&info);
    }
    return exit_code;
}

int cli_leave(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {{"undo", no_argument, NULL, 'u'},
                                            {"look", no_argument, NULL, 'l'},
                                            CLI_COMMON_OPTIONS,
                                            {0}};
    nigh_leave_how how = NIGH_LEAVE_BEGIN;
    int option, exit_code = CLI_OK;

    while ((option = cli_next_option(cli, argc, argv, ":ul" CLI_COMMON_SHORT, options)) != -1) {
        if (option == 'u' || option == 'l') {
            nigh_leave_how said = option == 'u' ? NIGH_LEAVE_UNDO : NIGH_LEAVE_LOOK;

            if (how != NIGH_LEAVE_BEGIN && how != said) {
                return cli_usage(cli, "leave takes --look or --undo, not both");
            }
            how = said;
        } else if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    if (argc > optind) {
        return cli_usage(cli, "leave takes no argument");
    }
    exit_code = cli_open(cli, NIGH_OPEN_READ_ONLY);
    return exit_code != CLI_OK ? exit_code : leave(cli, how);
}
