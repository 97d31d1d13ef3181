/* SPDX-License-Identifier: Apache-2.0 */
/* Common options, messages, names and progress of the verbs: see cli.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "base/json.h"

#define OPEN_TIMEOUT_MIN_US UINT64_C(1000000) /* a busy node may take so long to say hello */
#define OPEN_TIMEOUT_MAX_US UINT64_C(5000000)

enum {
    PROGRESS_EVERY_US = 200000,
    PROGRESS_AFTER_US = 300000,
    ERROR_BYTES = 2048
};

static const struct cli_verb *find_verb(const char *name)
{
    const struct cli_verb *verb = cli_verbs;

    while (verb->name != NULL && strcmp(verb->name, name) != 0) {
        verb++;
    }
    return verb;
}

void cli_print_help(const char *verb, const char *arguments, const char *summary,
                    const char *options)
{
    printf("usage: nigh %s [OPTION...] %s\n\n%s%s", verb, arguments, summary,
           summary[0] != '\0' ? "\n\n" : "");
    fputs(options, stdout);
    fputs("  -s, --socket PATH    where the node listens (default: $NIGH_SOCKET, "
          "else " NIGH_DEFAULT_SOCKET ")\n"
          "  -p, --pool POOL      the pool (default: your own)\n"
          "  -j, --json           JSON on standard output\n"
          "  -t, --timeout TIME   how long to wait, e.g. 250ms, 3s\n"
          "  -h, --help           this text\n",
          stdout);
}

static void print_help(const struct cli *cli)
{
    const struct cli_verb *verb = find_verb(cli->verb);

    cli_print_help(verb->name, verb->arguments, verb->summary, verb->options);
}

/* Whether a long option was given in full: getopt_long takes the beginning of its name for it, and
 * who looks for --json before there is a verb does not. */
static bool is_whole(char **argv, const char *name)
{
    const char *word = argv[optarg == argv[optind - 1] ? optind - 2 : optind - 1] + 2;

    return strlen(name) == strcspn(word, "=");
}

int cli_next_option(const struct cli *cli, int argc, char **argv, const char *short_options,
                    const struct option *options)
{
    int option, place = -1; /* of a long option in the table */

    opterr = 0;
    option = getopt_long(argc, argv, short_options, options, &place);
    if (option == '?' || option == ':') {
        const char *where = cli->verb[0] == '\0' ? " before the verb" : "";
        const char *last = argv[optind - 1];
        const char letter[] = {'-', (char)optopt, '\0'};

        /* optopt is 0 for a long option that does not exist. */
        if (optopt > 0 && strncmp(last, "--", 2) != 0) {
            last = letter;
        }
        (void)(option == ':' ? cli_usage(cli, "a value is missing after %s", last)
                             : cli_usage(cli, "there is no option %s%s", last, where));
        return '?';
    }
    if (option != -1 && place >= 0 && !is_whole(argv, options[place].name)) {
        (void)cli_usage(cli, "write --%s in full", options[place].name);
        return '?';
    }
    return option;
}

int cli_common_option(struct cli *cli, int option, int *exit_code)
{
    switch (option) {
    case 's': cli->socket_path = optarg; return CLI_OK;
    case 'p':
        if (optarg[0] == '\0') {
            *exit_code = cli_usage(cli, "--pool '' names no pool; without --pool it is your own");
            return -1;
        }
        cli->pool = optarg;
        return CLI_OK;
    case 'j': cli->json = true; return CLI_OK;
    case 't':
        if (bytes_parse_duration(optarg, &cli->timeout_us) != NIGH_OK) {
            *exit_code = cli_usage(cli, "--timeout '%s' is not a time such as 250ms or 3s", optarg);
            return -1;
        }
        cli->timeout_given = true;
        return CLI_OK;
    case 'h':
        print_help(cli);
        *exit_code = CLI_OK;
        return -1;
    default:
        /* cli_next_option has said what is wrong. */
        *exit_code = CLI_USAGE;
        return -1;
    }
}

/* The first sentence that standard output does not have yet; "": none. */
static char untold[ERROR_BYTES];

/* Names come from anywhere: what would move a cursor, or end the line, is written out. */
static void print_line(const struct cli *cli, bool usage, const char *text)
{
    const char *space = cli->verb[0] == '\0' ? "" : " ";
    char shown[ERROR_BYTES];

    bytes_printable_sentence(text, strlen(text), shown, sizeof shown);
    fprintf(stderr, "nigh%s%s: %s", space, cli->verb, shown);
    if (usage) {
        fprintf(stderr, "; try 'nigh%s%s --help'", space, cli->verb);
    }
    fputc('\n', stderr);
}

static void print_error(const struct cli *cli, bool usage, const char *format, va_list arguments)
{
    char text[ERROR_BYTES];

    vsnprintf(text, sizeof text, format, arguments);
    if (untold[0] == '\0') {
        snprintf(untold, sizeof untold, "%s", text);
    }
    print_line(cli, usage, text);
}

void cli_warning(const struct cli *cli, const char *format, ...)
{
    char text[ERROR_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    print_line(cli, false, text);
}

void cli_error(const struct cli *cli, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_error(cli, false, format, arguments);
    va_end(arguments);
}

int cli_usage(const struct cli *cli, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_error(cli, true, format, arguments);
    va_end(arguments);
    return CLI_USAGE;
}

int cli_wrong(const struct cli *cli, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_error(cli, false, format, arguments);
    va_end(arguments);
    return CLI_USAGE;
}

void cli_error_fields(struct json *json, int exit_code)
{
    if (exit_code != CLI_OK) {
        json_string(json, "error", untold);
        json_i64(json, "exit_code", exit_code);
    }
    untold[0] = '\0';
}

void cli_error_object(const struct cli *cli, struct json *json, int exit_code)
{
    if (!cli->json || exit_code == CLI_OK || untold[0] == '\0') {
        return;
    }
    json_object_open(json, NULL);
    json_string(json, "verb", cli->verb);
    cli_error_fields(json, exit_code);
    json_object_close(json);
}

int cli_exit_code(nigh_status status)
{
    switch (status) {
    case NIGH_OK: return CLI_OK;
    case NIGH_INVALID: return CLI_USAGE;
    case NIGH_NOT_FOUND: return CLI_NOT_FOUND;
    case NIGH_UNREACHABLE:
    case NIGH_NODE_LOST:
    case NIGH_VERSION: return CLI_UNREACHABLE;
    case NIGH_DENIED: return CLI_DENIED;
    case NIGH_OUT_OF_MEMORY:
    case NIGH_QUOTA:
    case NIGH_LIMIT:
    case NIGH_OVERLOADED:
    case NIGH_DISK: return CLI_FULL;
    case NIGH_TIMEOUT: return CLI_TIMEOUT;
    case NIGH_CORRUPT: return CLI_CORRUPT;
    case NIGH_EXISTS: return CLI_EXISTS;
    default: return CLI_FAILED;
    }
}

int cli_failed(struct cli *cli, nigh_status status, const char *what)
{
    char detail[512] = "";

    if (cli->client != NULL) {
        nigh_client_error(cli->client, detail, sizeof detail);
    }
    cli_error(cli, "%s: %s", what, detail[0] != 0 ? detail : nigh_status_string(status));
    return cli_exit_code(status);
}

static int no_such_object(struct cli *cli, const char *name, const char *where)
{
    bool named = cli->pool != NULL && cli->pool[0] != '\0';

    cli_error(cli, "%s: no such object in %s%s%s", name, named ? "pool " : "your pool",
              named ? cli->pool : "", cli_is_alone(cli) ? "" : where);
    return CLI_NOT_FOUND;
}

const char *cli_unreached(struct cli *cli, const char *otherwise)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    return nigh_stats(cli->client, &stats) == NIGH_OK &&
                   stats.directory_servers_up < stats.directory_servers
               ? "the directory is not reached: nigh doctor"
               : otherwise;
}

int cli_failed_object(struct cli *cli, nigh_status status, const char *name)
{
    if (status == NIGH_PEER_LOST && cli_unreached(cli, NULL) != NULL) {
        cli_error(cli, "%s: %s", name, cli_unreached(cli, ""));
        return cli_exit_code(status);
    }
    if (status == NIGH_NOT_FOUND) {
        return no_such_object(cli, name, " on this node (nigh who tells whether another has it)");
    }
    return cli_failed(cli, status, name);
}

int cli_no_object_anywhere(struct cli *cli, const char *name)
{
    return no_such_object(cli, name, ", on this node or another");
}

uint64_t cli_open_timeout_us(const struct cli *cli)
{
    if (!cli->timeout_given || cli->timeout_us > OPEN_TIMEOUT_MAX_US) {
        return OPEN_TIMEOUT_MAX_US;
    }
    return cli->timeout_us > OPEN_TIMEOUT_MIN_US ? cli->timeout_us : OPEN_TIMEOUT_MIN_US;
}

int cli_open(struct cli *cli, uint32_t flags)
{
    nigh_client_options options = {.struct_size = sizeof options,
                                   .socket_path = cli->socket_path,
                                   .pool = cli->pool,
                                   .name = "nigh",
                                   .timeout_us = cli_open_timeout_us(cli),
                                   .flags = flags};
    nigh_status status = nigh_client_open(&options, &cli->client);

    if (status != NIGH_OK) {
        cli->client = NULL;
        cli_error(cli, "%s", nigh_open_error());
    }
    return cli_exit_code(status);
}

int cli_parse_name(const struct cli *cli, const char *text, nigh_id *id, bool *is_name)
{
    *is_name = strncmp(text, "id:", 3) != 0;
    if (!*is_name) {
        if (bytes_parse_id(text + 3, id->bytes) != NIGH_OK) {
            return cli_usage(cli, "'%s' is not id: and 40 hexadecimal digits", text);
        }
        return CLI_OK;
    }
    if (nigh_id_from_name(text, id) != NIGH_OK) {
        return cli_usage(cli, "a name has 1 to 255 bytes");
    }
    return CLI_OK;
}

void cli_label(const nigh_object_info *info, char label[CLI_LABEL_BYTES])
{
    if (info->name[0] != 0) {
        bytes_printable(info->name, strlen(info->name), label, CLI_LABEL_BYTES);
        return;
    }
    memcpy(label, "id:", 3);
    bytes_format_id(info->id.bytes, label + 3);
}

const char *cli_state_name(nigh_object_state state)
{
    switch (state) {
    case NIGH_OBJECT_CREATED: return "created";
    case NIGH_OBJECT_SEALED: return "sealed";
    case NIGH_OBJECT_SPILLED: return "spilled";
    case NIGH_OBJECT_DELETING: return "deleting";
    }
    return "unknown";
}

void cli_print_holders(const nigh_holder *holders, size_t count, const char *what)
{
    printf("%8s %8s %8s %10s  %s\n", "PID", "UID", what, "BYTES", "NAME");
    for (size_t i = 0; i < count; i++) {
        char size[BYTES_SIZE_TEXT], name[4 * sizeof holders[i].name];

        bytes_format_size(holders[i].size_bytes, size);
        bytes_printable(holders[i].name, strnlen(holders[i].name, sizeof holders[i].name), name,
                        sizeof name);
        printf("%8d %8u %8llu %10s  %s\n", holders[i].pid, holders[i].uid,
               (unsigned long long)holders[i].views, size, name);
    }
}

void cli_progress_start(struct cli_progress *progress, const struct cli *cli, const char *what,
                        uint64_t total_bytes)
{
    *progress = (struct cli_progress){
        .what = what, .total_bytes = total_bytes, .on = !cli->json && isatty(STDERR_FILENO) == 1};
    progress->started_us = progress->shown_us = clock_now_us(&clock_monotonic);
}

void cli_progress_show(struct cli_progress *progress, uint64_t done_bytes)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);
    char done[BYTES_SIZE_TEXT], total[BYTES_SIZE_TEXT];

    if (!progress->on || now_us - progress->started_us < PROGRESS_AFTER_US ||
        now_us - progress->shown_us < PROGRESS_EVERY_US) {
        return;
    }
    progress->shown_us = now_us;
    bytes_format_size(done_bytes, done);
    bytes_format_size(progress->total_bytes, total);
    if (progress->total_bytes > 0) {
        fprintf(stderr, "\r%s %s of %s (%d %%)\033[K", progress->what, done, total,
                (int)((double)done_bytes * 100 / (double)progress->total_bytes));
    } else {
        fprintf(stderr, "\r%s %s\033[K", progress->what, done);
    }
}

void cli_progress_end(struct cli_progress *progress)
{
    if (progress->on && progress->shown_us != progress->started_us) {
        fputs("\r\033[K", stderr);
    }
}
