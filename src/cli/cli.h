/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the verbs of `nigh` share: the table's shape, common options, exit codes, messages. One file
 * a verb. A verb returns an exit code; it prints results to standard output and everything else to
 * standard error.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "nigh/nigh.h"

/* Exit codes: documented in nigh(1); scripts depend on them. */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_NOT_FOUND = 3,
    CLI_UNREACHABLE = 4,
    CLI_DENIED = 5,
    CLI_FULL = 6, /* out of memory, quota or disk */
    CLI_TIMEOUT = 7,
    CLI_CORRUPT = 8,
    CLI_EXISTS = 9,
    CLI_ANSWERED = 10 /* a service that was called answered with another status than NIGH_OK */
};

/* Options that every verb takes. */
struct cli {
    const char *verb; /* "" before it is known */
    const char *socket_path;
    const char *pool;
    bool json;
    uint64_t timeout_us;
    bool timeout_given;
    nigh_client *client; /* open after cli_open; main closes it */
};

struct cli_verb {
    const char *name;
    const char *arguments; /* "NAME FILE|-" */
    const char *summary;   /* one line */
    const char *options;   /* help lines for the verb's own options, or "" */
    int (*run)(struct cli *cli, int argc, char **argv);
};

extern const struct cli_verb cli_verbs[];

/* The common long options; a verb with its own appends them. Values of common ones are above 255.
 */
#define CLI_COMMON_OPTIONS                                                            \
    {"socket", required_argument, NULL, 's'}, {"pool", required_argument, NULL, 'p'}, \
        {"json", no_argument, NULL, 'j'}, {"timeout", required_argument, NULL, 't'},  \
    {                                                                                 \
        "help", no_argument, NULL, 'h'                                                \
    }

#define CLI_COMMON_SHORT "s:p:jt:h"

/*
 * getopt_long, except that what is wrong is said in one line, and that names are taken in full
 * alone. short_options begin with a colon; a wrong option is '?', which cli_common_option turns
 * into CLI_USAGE.
 */
int cli_next_option(const struct cli *cli, int argc, char **argv, const char *short_options,
                    const struct option *options);

/*
 * Takes one option that is common to all verbs (the verb's own switch hands it what it does not
 * know). Returns CLI_OK, or -1 when the verb is to return *exit_code (help was printed, or the
 * option is wrong).
 */
int cli_common_option(struct cli *cli, int option, int *exit_code);

/* How long to wait for a node that does not answer at all: who has less time gives it up sooner. */
uint64_t cli_open_timeout_us(const struct cli *cli);

/* Opens cli->client (flags: NIGH_OPEN_*), or says why not and returns an exit code. */
int cli_open(struct cli *cli, uint32_t flags);

/* Whose process listens on the socket. False: nobody does. *pid 0: it is not known, as its number
 * is another's here (of a container), or as it takes no connection now (stopped, and many wait). */
bool cli_find_process(const struct cli *cli, pid_t *pid, uid_t *uid);

/* The verb that `word` was meant to be, or NULL. */
const char *cli_nearest_verb(const char *word);

/* One line "nigh VERB: ..." on standard error, whatever the names in it are made of. */
void cli_error(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same where nothing fails: with --json it is not why something later does. */
void cli_warning(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct json;

/* Adds what was said, as "error", and "exit_code" to an open object; what went well gets neither.
 */
void cli_error_fields(struct json *json, int exit_code);

/*
 * An object of what was said and no other object has: {"verb", "error", "exit_code"}. Whoever reads
 * --json finds why it failed on standard output: main prints one where a verb fails, and a verb
 * that fails in the middle of an array adds one to that. Nothing without --json, or on success.
 */
void cli_error_object(const struct cli *cli, struct json *json, int exit_code);

int cli_exit_code(nigh_status status);

/* Says that `what` failed with `status` (with the client's detail where it has one) and returns the
 * exit code for it. */
int cli_failed(struct cli *cli, nigh_status status, const char *what);

/* The same for what failed with the object `name`: one that is not there is said so. */
int cli_failed_object(struct cli *cli, nigh_status status, const char *name);

/* There is none of this name, and other nodes were asked, too. */
int cli_no_object_anywhere(struct cli *cli, const char *name);

/* What --help says of a verb, or of an action of one ("region create"), with the options that all
 * take. */
void cli_print_help(const char *verb, const char *arguments, const char *summary,
                    const char *options);

/* Usage error: says it and points to --help, in one line; returns CLI_USAGE. */
int cli_usage(const struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What was asked for is well said, but there is no such thing, of which --help knows nothing;
 * returns CLI_USAGE. */
int cli_wrong(const struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * The id of a NAME argument: a name, or "id:" and 40 hexadecimal digits. *is_name: whether the name
 * is to be kept with the object. Returns CLI_OK or says what is wrong and returns CLI_USAGE.
 */
int cli_parse_name(const struct cli *cli, const char *text, nigh_id *id, bool *is_name);

/* How an object is called in output: its name made printable, else "id:<40 digits>". */
#define CLI_LABEL_BYTES 1100
void cli_label(const nigh_object_info *info, char label[CLI_LABEL_BYTES]);

/* "sealed", "created", ... */
const char *cli_state_name(nigh_object_state state);

/* A table of who holds memory; `what`: the title of how many views each has. */
void cli_print_holders(const nigh_holder *holders, size_t count, const char *what);

/* ---- the cluster, of an open client (nodes.c) ---- */

/* Asks for the nodes, once a run. */
nigh_status cli_look_at_nodes(struct cli *cli);
/* There are no other nodes, or the node is too old to tell. */
bool cli_is_alone(struct cli *cli);
/* After cli_look_at_nodes. NULL: there is no such rank. */
const nigh_node_info *cli_node(uint32_t rank);
/* All of them. */
const nigh_node_info *cli_nodes_seen(size_t *count);
size_t cli_count_nodes(nigh_node_state state);

/* Which rank is meant by these bytes: one, or a node's name. CLI_OK, or it says what is wrong, of
 * that option. */
int cli_find_node(struct cli *cli, const char *option, const char *text, size_t length,
                  uint32_t *rank);

/* The same of a node that there is, as far as the one that is asked can tell. */
int cli_find_member(struct cli *cli, const char *option, const char *text, uint32_t *rank);

/* After cli_look_at_nodes: whose address that is; false: nobody's. */
bool cli_rank_of_address(const char *address, uint32_t *rank);

/*
 * Asks again, and names those that are not up: "node 0 (127.0.0.1:7470) is dead, node 2 (...) is
 * lost". How many there are; 0, and "", where all are up or it cannot be asked.
 */
#define CLI_ABSENT_BYTES 1200 /* for eight of the longest addresses */
size_t cli_absent_nodes(struct cli *cli, char text[CLI_ABSENT_BYTES]);
/* Why nothing can be said of other nodes: the directory's server is not reached; else `otherwise`.
 */
const char *cli_unreached(struct cli *cli, const char *otherwise);
/* Whether what was not found may lie on one that is not up; `text` then names them and says so. */
bool cli_may_be_away(struct cli *cli, char text[CLI_ABSENT_BYTES]);

/* A node that is not up and whose last handshake was refused; NULL: there is none. */
const nigh_node_info *cli_refused_node(void);
/* Why, as the end of a sentence; "": it was not. */
const char *cli_refusal_text(nigh_status refused);
/* "away", "up", "lost", "dead". */
const char *cli_node_state_name(nigh_node_state state);

/* ---- progress on a terminal ---- */
struct cli_progress {
    const char *what;
    uint64_t total_bytes;
    uint64_t started_us, shown_us;
    bool on; /* standard error is a terminal and --json was not given */
};

void cli_progress_start(struct cli_progress *progress, const struct cli *cli, const char *what,
                        uint64_t total_bytes);
void cli_progress_show(struct cli_progress *progress, uint64_t done_bytes);
void cli_progress_end(struct cli_progress *progress);

/* The verbs. */
int cli_put(struct cli *cli, int argc, char **argv);
int cli_get(struct cli *cli, int argc, char **argv);
int cli_ls(struct cli *cli, int argc, char **argv);
int cli_stat(struct cli *cli, int argc, char **argv);
int cli_rm(struct cli *cli, int argc, char **argv);
int cli_pin(struct cli *cli, int argc, char **argv);
int cli_unpin(struct cli *cli, int argc, char **argv);
int cli_who(struct cli *cli, int argc, char **argv);
int cli_locate(struct cli *cli, int argc, char **argv);
int cli_nodes(struct cli *cli, int argc, char **argv);
int cli_leave(struct cli *cli, int argc, char **argv);
int cli_forget(struct cli *cli, int argc, char **argv);
int cli_call(struct cli *cli, int argc, char **argv);
int cli_region(struct cli *cli, int argc, char **argv);
int cli_space(struct cli *cli, int argc, char **argv);
int cli_top(struct cli *cli, int argc, char **argv);
int cli_doctor(struct cli *cli, int argc, char **argv);
int cli_support(struct cli *cli, int argc, char **argv);
int cli_cluster(struct cli *cli, int argc, char **argv);
int cli_bench(struct cli *cli, int argc, char **argv);
int cli_help(struct cli *cli, int argc, char **argv);

#endif
