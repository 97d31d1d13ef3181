/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nighd: flags, configuration, signals, readiness. What a node is and does lies in node/.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/fd.h"
#include "base/log_stderr.h"
#include "daemon/config.h"
#include "daemon/holder.h"
#include "daemon/http.h"
#include "daemon/options.h"
#include "daemon/plan.h"
#include "node/node.h"

#define LOG_MODULE "nighd"
#include "base/log.h"

/* Exit codes: part of the interface (man nighd). */
enum daemon_exit {
    EXIT_GOOD = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_MEMORY = 3,
    EXIT_IN_USE = 4,
    EXIT_PERMISSION = 5,
    EXIT_STRUCK = 6
};

enum daemon_flag {
    FLAG_CONFIG = 256,
    FLAG_HOLD,
    FLAG_READY_FD,
    FLAG_CHECK,
    FLAG_VERSION,
    FLAG_HELP,
    FLAG_OPTIONS = 512 /* and the place in the option table */
};

static enum daemon_exit daemon_exit_of(nigh_status status)
{
    switch (status) {
    case NIGH_OK: return EXIT_GOOD;
    case NIGH_INVALID:
    case NIGH_NOT_FOUND: return EXIT_USAGE;
    case NIGH_OUT_OF_MEMORY: return EXIT_MEMORY;
    case NIGH_BUSY: return EXIT_IN_USE;
    case NIGH_DENIED: return EXIT_PERMISSION;
    default: return EXIT_FAILED;
    }
}

/* What somebody gave may stand in it: a terminal gets no control characters of theirs. */
static enum daemon_exit daemon_fail(nigh_status status, const char *why)
{
    char shown[4 * OPTIONS_WHY_BYTES];

    bytes_printable_sentence(why, strlen(why), shown, sizeof(shown));
    fprintf(stderr, "nighd: %s\n", shown);
    return daemon_exit_of(status);
}

static void daemon_print_help(void)
{
    printf(
        "usage: nighd --memory SIZE [option...]\n"
        "The node of this machine: memory that its processes share. Sizes are e.g. 512M, 4G.\n\n");
    for (int i = 0; i < DAEMON_OPTIONS_COUNT; i++) {
        const struct daemon_option *option = &daemon_option_table[i];
        int width = printf("  --%s %s", option->name, option->value);

        printf("%*s%s\n", width < 26 ? 26 - width : 1, "", option->text);
    }
    printf(
        "  --config FILE           read options from an ini file; flags win\n"
        "  --hold                  keep the memory over a crash, and start again\n"
        "  --ready-fd N            write \"ready\" and a newline to descriptor N once clients are "
        "served\n"
        "  --check                 check options and configuration, say what would be done, exit\n"
        "  --version, --help\n\n"
        "Exit codes: 0 stopped cleanly, 1 failure, 2 wrong option or configuration, 3 not enough "
        "memory,\n"
        "4 another node has the socket, the spill directory or the votes, or the port for other "
        "nodes,\nor that of --http, is taken, 5 no permission, 6 struck off the cluster (nigh "
        "forget).\n"
        "Manual: nighd(8).\n");
}

/* ---- flags ---------------------------------------------------------------- */

#define DAEMON_FLAGS 6

static const struct option daemon_flags[DAEMON_FLAGS] = {
    {"config", required_argument, NULL, FLAG_CONFIG},     {"hold", no_argument, NULL, FLAG_HOLD},
    {"ready-fd", required_argument, NULL, FLAG_READY_FD}, {"check", no_argument, NULL, FLAG_CHECK},
    {"version", no_argument, NULL, FLAG_VERSION},         {"help", no_argument, NULL, FLAG_HELP},
};

static void daemon_make_getopt(struct option table[DAEMON_FLAGS + DAEMON_OPTIONS_COUNT + 1])
{
    memset(table, 0, (DAEMON_FLAGS + DAEMON_OPTIONS_COUNT + 1) * sizeof(*table));
    memcpy(table, daemon_flags, sizeof(daemon_flags));
    for (int i = 0; i < DAEMON_OPTIONS_COUNT; i++) {
        table[DAEMON_FLAGS + i].name = daemon_option_table[i].name;
        table[DAEMON_FLAGS + i].has_arg = required_argument;
        table[DAEMON_FLAGS + i].val = FLAG_OPTIONS + i;
    }
}

static nigh_status daemon_set_ready_fd(struct daemon_options *options, const char *text, char *why,
                                       size_t why_bytes)
{
    const char *holder = getenv(KEEPER_HOLDER_VARIABLE);
    char *end;
    long fd = strtol(text, &end, 10);

    if (holder != NULL && strcmp(holder, "again") == 0)
        return NIGH_OK; /* said by the node before: the descriptor is another by now */
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || fd > INT32_MAX ||
        fcntl((int)fd, F_GETFD) < 0) {
        snprintf(why, why_bytes, "--ready-fd: \"%.40s\" is not an open descriptor", text);
        return NIGH_INVALID;
    }
    options->ready_fd = (int)fd;
    return fd_set_cloexec((int)fd);
}

/*
 * Whether a flag was given in full. getopt_long takes the beginning of a name for it, too; but who
 * reads a node's command line (nigh doctor, nigh support) knows whole names alone.
 */
static bool daemon_flag_is_whole(char **argv, const char *name, char *why, size_t why_bytes)
{
    const char *word = argv[optarg == argv[optind - 1] ? optind - 2 : optind - 1] + 2;
    size_t length = strcspn(word, "=");

    if (strlen(name) == length)
        return true;
    snprintf(why, why_bytes,
             "there is no option --%.*s: write --%s in full; nighd --help lists the options",
             (int)length, word, name);
    return false;
}

/*
 * One pass over the flags. The first (`first`) only looks for --help, --version and --config, so
 * that the file can be read before flags override it; NIGH_PENDING says that all is said already.
 */
static nigh_status daemon_read_flags(int argc, char **argv, bool first,
                                     struct daemon_options *options, char *why, size_t why_bytes)
{
    struct option table[DAEMON_FLAGS + DAEMON_OPTIONS_COUNT + 1];
    char reason[OPTIONS_WHY_BYTES];
    nigh_status status = NIGH_OK;
    int flag, place = 0;

    daemon_make_getopt(table);
    optind = 0;
    opterr = 0;
    while (status == NIGH_OK && (flag = getopt_long(argc, argv, ":", table, &place)) != -1) {
        if (flag == '?' || flag == ':') {
            snprintf(why, why_bytes, "%s %.60s; nighd --help lists the options",
                     flag == ':' ? "a value is missing after" : "there is no option",
                     argv[optind - 1]);
            return NIGH_INVALID;
        }
        if (!daemon_flag_is_whole(argv, table[place].name, why, why_bytes))
            return NIGH_INVALID;
        if (flag == FLAG_HELP && first) {
            daemon_print_help();
            return NIGH_PENDING;
        } else if (flag == FLAG_VERSION && first) {
            printf("nighd " NIGH_VERSION_STRING "\n");
            return NIGH_PENDING;
        } else if (flag == FLAG_CONFIG && first) {
            if (bytes_copy_text(options->config, sizeof(options->config), optarg) != NIGH_OK)
                status = NIGH_INVALID;
        } else if (flag == FLAG_HOLD) {
            options->hold = true;
        } else if (flag == FLAG_CHECK) {
            options->check = true;
        } else if (flag == FLAG_READY_FD && first) {
            status = daemon_set_ready_fd(options, optarg, why, why_bytes);
        } else if (flag >= FLAG_OPTIONS && !first) {
            status =
                daemon_option_set(options, flag - FLAG_OPTIONS, optarg, reason, sizeof(reason));
            if (status != NIGH_OK)
                snprintf(why, why_bytes, "--%s: %.400s",
                         daemon_option_table[flag - FLAG_OPTIONS].name, reason);
        }
    }
    if (status == NIGH_OK && optind < argc) {
        snprintf(why, why_bytes, "\"%.60s\" is not an option; nighd --help lists them",
                 argv[optind]);
        return NIGH_INVALID;
    }
    return status;
}

static nigh_status daemon_read_options(int argc, char **argv, struct daemon_options *options,
                                       char *why, size_t why_bytes)
{
    nigh_status status = daemon_read_flags(argc, argv, true, options, why, why_bytes);

    if (status == NIGH_OK && options->config[0] != '\0')
        status = config_read(options->config, options, why, why_bytes);
    if (status == NIGH_OK)
        status = daemon_read_flags(argc, argv, false, options, why, why_bytes);
    return status;
}

/* ---- running -------------------------------------------------------------- */

/* /run is empty after each boot: the folder of a socket there is made, if that is all that lacks.
 */
static void daemon_make_run_folder(const char *socket_path)
{
    char folder[LIMIT_SOCKET_PATH_BYTES + 1];
    const char *slash = strrchr(socket_path, '/');

    if (strncmp(socket_path, "/run/", 5) != 0 || slash == NULL || slash <= socket_path + 4)
        return;
    memcpy(folder, socket_path, (size_t)(slash - socket_path));
    folder[slash - socket_path] = '\0';
    if (mkdir(folder, 0755) == 0)
        LOG_INFO("socket's folder made", "path=\"%s\"", LOG_QUOTE(folder));
}

static void daemon_say_ready(int ready_fd)
{
    static const char word[] = "ready\n";

    if (ready_fd < 0)
        return;
    if (write(ready_fd, word, sizeof(word) - 1) < 0)
        LOG_WARN("cannot write to the ready descriptor: who started the node waits in vain",
                 "fd=%d errno=%d do=\"look at the socket instead; give --ready-fd a pipe whose "
                 "other end is read\"",
                 ready_fd, errno);
    close(ready_fd);
}

static void daemon_block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    sigprocmask(SIG_BLOCK, set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a log that may not grow loses lines, and not the node */
}

static void daemon_wait_for_stop(const sigset_t *set)
{
    for (;;) {
        siginfo_t info;
        int number = sigwaitinfo(set, &info);

        if (number == SIGHUP) {
            LOG_INFO("SIGHUP does nothing here: restart nighd to change its configuration");
        } else if (number > 0) {
            LOG_INFO("stopping", "signal=%d pid=%d", number, info.si_pid);
            return;
        }
    }
}

/* From a lane: who waits for a signal finds out. */
static void daemon_on_struck(void)
{
    (void)kill(getpid(), SIGTERM);
}

/* Nobody goes on with what it had: that is of a rank that is nobody's. */
static enum daemon_exit daemon_end(struct nigh_node *node, struct keeper *keeper)
{
    char why[NODE_WHY_BYTES];
    bool is_struck = node_is_struck(node, why, sizeof(why));

    /* A service manager may only be restarting us; it knows, and drops what it keeps if it is not.
     */
    node_stop(node, !is_struck && keeper_is_there(keeper) && !keeper->ends_with_node);
    keeper_close(keeper);
    if (!is_struck)
        return EXIT_GOOD;
    (void)daemon_fail(NIGH_NOT_FOUND, why);
    return EXIT_STRUCK;
}

static enum daemon_exit daemon_run(const struct daemon_options *options,
                                   const struct node_settings *settings)
{
    char why[NODE_WHY_BYTES];
    nigh_node *node = NULL;
    struct http *http = NULL;
    struct keeper keeper;
    nigh_status status;
    sigset_t set;

    daemon_block_signals(&set);
    if (options->http[0] != '\0') {
        status = http_listen(options->http, &http, why, sizeof(why));
        if (status != NIGH_OK)
            return daemon_fail(status, why);
    }
    daemon_make_run_folder(settings->socket_path);
    status = keeper_open(&keeper, why, sizeof(why));
    if (status == NIGH_OK)
        status = node_start(settings, &keeper, &node, why, sizeof(why));
    if (status != NIGH_OK) {
        keeper_close(&keeper);
        http_stop(http);
        return daemon_fail(status, why);
    }
    if (http != NULL && http_start(http, settings->socket_path) != NIGH_OK) {
        LOG_WARN("nothing is answered over HTTP: there is no thread for it",
                 "address=%s do=\"allow more threads (ulimit -u, TasksMax= of the unit) or free "
                 "memory, and start the node again\"",
                 options->http);
        http_stop(http); /* who connects is refused, and does not wait */
        http = NULL;
    }
    keeper_say_ready(&keeper);
    daemon_say_ready(options->ready_fd);
    daemon_wait_for_stop(&set);
    keeper_say_stopping(&keeper);
    http_stop(http); /* it is a client of the node */
    return daemon_end(node, &keeper);
}

int main(int argc, char **argv)
{
    static struct daemon_options options;
    static struct node_settings settings;
    char why[OPTIONS_WHY_BYTES] = "";
    nigh_status status;

    prctl(PR_SET_NAME, "nighd"); /* a holder starts /proc/self/exe, after which ps would call it */
    daemon_options_init(&options);
    status = daemon_read_options(argc, argv, &options, why, sizeof(why));
    if (status == NIGH_PENDING)
        return EXIT_GOOD;
    if (status == NIGH_OK)
        status = daemon_options_resolve(&options, settings_cores(), &settings, why, sizeof(why));
    if (status != NIGH_OK)
        return (int)daemon_fail(status, why);
    settings.on_struck = daemon_on_struck;
    if (options.check) {
        plan_print(&settings);
        status = plan_look_at_socket(&settings, why, sizeof(why));
        return status == NIGH_OK ? EXIT_GOOD : (int)daemon_fail(status, why);
    }
    log_set_sink(log_stderr_open());
    log_set_level(options.log_level);
    if (options.hold && getenv(KEEPER_HOLDER_VARIABLE) == NULL)
        return holder_run(argv, options.ready_fd);
    return (int)daemon_run(&options, &settings);
}
