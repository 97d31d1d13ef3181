/* SPDX-License-Identifier: Apache-2.0 */
/* nigh cluster: a local cluster for trying things (cluster.h): start, stop, ls. What fails half way
 * leaves nothing. */
#include "cli/cluster.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"

#define START_US UINT64_C(60000000) /* without --timeout */
#define STOP_US  UINT64_C(10000000) /* each node */
#define UNDO_US  UINT64_C(2000000)  /* each, of a start that failed: nothing is in it yet */
#define ASK_US   UINT64_C(1000000)  /* a node that is looked at */
#define OPEN_US  UINT64_C(5000000)  /* one that is started, before it is looked whether it lives */
#define LOOK_NS  20000000

enum own_option {
    OPTION_DIR = 'd',
    OPTION_NIGHD = 'n'
};

/* What was asked for. */
struct job {
    const char *action;
    const char *dir, *nighd;
    uint32_t count;
    char **words; /* for nighd, until NULL */
};

/* What a node here is told by this program, or would not end with it. */
static const char *const not_taken[] = {"socket",   "join",   "member", "cluster-key",
                                        "state",    "listen", "hold",   "check",
                                        "ready-fd", "config", "help",   "version"};

static volatile sig_atomic_t interrupted;

static void note_signal(int number)
{
    interrupted = number;
}

static const int endings[] = {SIGINT, SIGTERM, SIGHUP};

/* Who interrupts a start has it undone, and who presses that key twice ends that, too: 'nigh
 * cluster stop' removes what is left then. timeout(1), and a terminal that closes, say the same
 * twice to who means it once. */
static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = note_signal};

    for (size_t i = 0; i < ARRAY_LENGTH(endings); i++) {
        action.sa_flags = endings[i] == SIGINT ? (int)SA_RESETHAND : 0;
        sigaction(endings[i], &action, NULL);
    }
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, a child's number is free as soon as it ends */
    (void)signal(SIGPIPE, SIG_IGN); /* what nobody reads is an error of the write */
}

/* ---- what is said --------------------------------------------------------- */

/* For a shell, whatever it is made of. */
static void print_quoted(const char *text)
{
    putchar('\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
        } else {
            putchar(*text);
        }
    }
    putchar('\'');
}

static const char *life_name(const struct cluster *cluster, uint32_t rank, bool answers)
{
    switch (cluster->nodes[rank].life) {
    case CLUSTER_NEVER: return "not started";
    case CLUSTER_DIED: return "died";
    case CLUSTER_LIVES: break;
    }
    return answers ? "up" : "does not answer";
}

static void print_json(const struct cluster *cluster, const bool *answers)
{
    struct json json = {0};
    char path[CLUSTER_PATH_BYTES], address[32];

    json_object_open(&json, NULL);
    json_string(&json, "dir", cluster->dir);
    json_array_open(&json, "nodes");
    for (uint32_t rank = 0; rank < cluster->count; rank++) {
        const struct cluster_node *node = &cluster->nodes[rank];

        json_object_open(&json, NULL);
        json_u64(&json, "rank", rank);
        json_string(&json, "state", life_name(cluster, rank, answers[rank]));
        json_i64(&json, "pid", node->pid);
        (void)snprintf(address, sizeof address, "127.0.0.1:%u", node->port);
        json_string(&json, "address", address);
        cluster_path(cluster, rank, ".sock", path);
        json_string(&json, "socket", path);
        cluster_path(cluster, rank, ".log", path);
        json_string(&json, "log", path);
        json_object_close(&json);
    }
    json_array_close(&json);
    json_object_close(&json);
}

/* Words for a shell: eval "$(nigh cluster start)". */
static void print_started(const struct cluster *cluster)
{
    const char *them = cluster->count == 1 ? "it" : "them";
    char sockets[CLUSTER_NODES * CLUSTER_PATH_BYTES] = "", path[CLUSTER_PATH_BYTES];
    size_t length = 0;

    for (uint32_t rank = 0; rank < cluster->count; rank++) {
        cluster_path(cluster, rank, ".sock", path);
        length += (size_t)snprintf(sockets + length, sizeof sockets - length, "%s%s",
                                   rank > 0 ? " " : "", path);
    }
    cluster_path(cluster, 0, ".sock", path);
    fputs("export NIGH_SOCKET=", stdout);
    print_quoted(path);
    fputs("\nexport NIGH_SOCKETS=", stdout);
    print_quoted(sockets);
    printf("\n# %u node%s; nigh cluster ls%s shows %s, nigh cluster stop%s ends %s\n",
           cluster->count, cluster->count == 1 ? " runs" : "s run, and have agreed on who is there",
           cluster->words, them, cluster->words, them);
}

static void print_table(const struct cluster *cluster, const bool *answers)
{
    printf("%4s  %-15s %8s  %-15s  %s\n", "RANK", "STATE", "PID", "ADDRESS", "SOCKET");
    for (uint32_t rank = 0; rank < cluster->count; rank++) {
        const struct cluster_node *node = &cluster->nodes[rank];
        char path[CLUSTER_PATH_BYTES], shown[4 * CLUSTER_PATH_BYTES], address[32];

        cluster_path(cluster, rank, ".sock", path);
        bytes_printable(path, strlen(path), shown, sizeof shown);
        (void)snprintf(address, sizeof address, "127.0.0.1:%u", node->port);
        printf("%4u  %-15s %8d  %-15s  %s\n", rank, life_name(cluster, rank, answers[rank]),
               node->pid, address, shown);
    }
}

/* ---- start ---------------------------------------------------------------- */

/* Ports of the loopback that nobody has, kept from others until nodes have them: `fds` are bound to
 * them, and do not listen. */
static bool take_ports(struct cluster *cluster, int fds[CLUSTER_NODES])
{
    for (uint32_t rank = 0; rank < cluster->count; rank++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t bytes = sizeof address;
        int on = 1;

        fds[rank] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fds[rank] < 0 || setsockopt(fds[rank], SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
            bind(fds[rank], (const struct sockaddr *)&address, bytes) != 0 ||
            getsockname(fds[rank], (struct sockaddr *)&address, &bytes) != 0) {
            return false;
        }
        cluster->nodes[rank].port = ntohs(address.sin_port);
    }
    return true;
}

/* Says why a node is gone. */
static int told_of_end(struct cluster *cluster, uint32_t rank)
{
    char why[CLUSTER_WHY_BYTES];

    cluster_last_words(cluster, rank, why);
    cli_error(cluster->cli, "node %u of %u did not start: %s", rank, cluster->count, why);
    return CLI_FAILED;
}

static int told_of_time(struct cluster *cluster, const char *what)
{
    if (interrupted != 0) {
        cli_warning(cluster->cli, "interrupted: undoing the start");
        return CLI_FAILED;
    }
    cli_error(cluster->cli,
              "%s: the machine is busy, or short of memory: try again, with "
              "--timeout 5m for longer",
              what);
    return CLI_TIMEOUT;
}

static bool is_over(uint64_t until_us)
{
    return interrupted != 0 || clock_now_us(&clock_monotonic) >= until_us;
}

/* Until each has said that it serves; a node that ends says nothing, and is at its end. */
static int await_ready(struct cluster *cluster, uint64_t until_us)
{
    for (uint32_t rank = 0; rank < cluster->count; rank++) {
        struct cluster_node *node = &cluster->nodes[rank];
        struct pollfd look = {.fd = node->ready_fd, .events = POLLIN};
        char word[8];

        while (poll(&look, 1, (int)(LOOK_NS / 1000000)) <= 0) {
            if (is_over(until_us)) {
                return told_of_time(cluster, "the nodes have not taken their memory in time");
            }
        }
        if (read(node->ready_fd, word, sizeof word) <= 0) {
            return told_of_end(cluster, rank);
        }
        fd_close(&node->ready_fd);
    }
    return CLI_OK;
}

/* Whether this one sees all, up and in the view, and is itself not cut off. Others may have joined
 * them meanwhile. */
static bool has_agreed(const struct cluster *cluster, nigh_client *client)
{
    nigh_node_info nodes[CLUSTER_NODES] = {{.struct_size = sizeof nodes[0]}};
    nigh_node_stats stats = {.struct_size = sizeof stats};
    size_t count = 0, agreed = 0;

    if (nigh_nodes(client, nodes, CLUSTER_NODES, &count) != NIGH_OK ||
        nigh_stats(client, &stats) != NIGH_OK) {
        return false;
    }
    for (size_t i = 0; i < count && i < CLUSTER_NODES; i++) {
        agreed += nodes[i].rank < cluster->count && nodes[i].state == NIGH_NODE_IS_UP &&
                          nodes[i].view == NIGH_NODE_IN_VIEW
                      ? 1
                      : 0;
    }
    return agreed == cluster->count && stats.view_quorum > 0 && stats.view_unkept == 0 &&
           stats.view_members >= cluster->count && stats.view_active_epoch == stats.view_epoch;
}

static nigh_client *ask(const struct cluster *cluster, uint32_t rank, uint64_t timeout_us)
{
    char path[CLUSTER_PATH_BYTES];
    nigh_client_options options = {.struct_size = sizeof options,
                                   .socket_path = path,
                                   .name = "nigh cluster",
                                   .timeout_us = timeout_us,
                                   .flags = NIGH_OPEN_READ_ONLY};
    nigh_client *client;

    cluster_path(cluster, rank, ".sock", path);
    return nigh_client_open(&options, &client) == NIGH_OK ? client : NULL;
}

/* In a process of its own: a question to a node that stands still has no end. It ends with 0 when
 * the node sees all, and with the process that began it. */
static _Noreturn void ask_until_agreed(const struct cluster *cluster, uint32_t rank, pid_t parent)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    nigh_client *client = NULL;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < ARRAY_LENGTH(endings); i++) {
        (void)signal(endings[i], SIG_DFL);
    }
    while (getppid() == parent) {
        client = client == NULL ? ask(cluster, rank, OPEN_US) : client;
        if (client != NULL && has_agreed(cluster, client)) {
            nigh_client_close(client); /* else the node counts one that died */
            _exit(0);
        }
        (void)nanosleep(&pause, NULL);
    }
    _exit(1);
}

/* Whether all live, and there is time left. */
static int look_at_all(struct cluster *cluster, uint64_t until_us)
{
    cluster_look(cluster);
    for (uint32_t n = 0; n < cluster->count; n++) {
        if (cluster->nodes[n].life != CLUSTER_LIVES) {
            return told_of_end(cluster, n);
        }
    }
    return is_over(until_us) ? told_of_time(cluster, "the nodes have not agreed in time") : CLI_OK;
}

static int await_agreement_of(struct cluster *cluster, uint32_t rank, uint64_t until_us)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    pid_t parent = getpid(), asking = fork(), ended;
    int exit_code = CLI_OK, said = 0;

    if (asking == 0) {
        ask_until_agreed(cluster, rank, parent);
    }
    if (asking < 0) {
        cli_error(cluster->cli, "node %u cannot be asked: %s", rank, strerror(errno));
        return CLI_FAILED;
    }
    while ((ended = waitpid(asking, &said, WNOHANG)) == 0 && exit_code == CLI_OK) {
        exit_code = look_at_all(cluster, until_us);
        (void)nanosleep(&pause, NULL);
    }
    if (ended == 0) {
        (void)kill(asking, SIGKILL);
        (void)waitpid(asking, NULL, 0);
    } else if (exit_code == CLI_OK && interrupted == 0 && (ended < 0 || said != 0)) {
        cli_error(cluster->cli, "node %u cannot be asked: who asked was ended", rank);
        exit_code = CLI_FAILED;
    }
    return exit_code;
}

/* Until all have agreed on who is there: then all that a cluster has can be tried. */
static int await_agreement(struct cluster *cluster, uint64_t until_us)
{
    int exit_code = CLI_OK;

    for (uint32_t rank = 0; exit_code == CLI_OK && rank < cluster->count; rank++) {
        exit_code = await_agreement_of(cluster, rank, until_us);
    }
    /* Who interrupted it in the last moment has it undone, too. */
    return exit_code == CLI_OK && interrupted != 0 ? told_of_time(cluster, "") : exit_code;
}

static int start_nodes(struct cluster *cluster, const struct job *job, const char *program)
{
    uint64_t until_us =
        clock_deadline_us(clock_now_us(&clock_monotonic),
                          cluster->cli->timeout_given ? cluster->cli->timeout_us : START_US);
    int ports[CLUSTER_NODES], exit_code;

    memset(ports, -1, sizeof ports);
    if (!take_ports(cluster, ports)) {
        cli_error(cluster->cli, "no port of 127.0.0.1 is to be had: %s (is lo up?)",
                  strerror(errno));
        exit_code = CLI_FAILED;
    } else {
        exit_code = cluster_write(cluster);
    }
    for (uint32_t rank = 0; exit_code == CLI_OK && rank < cluster->count; rank++) {
        if (!cluster_spawn(cluster, rank, program, job->words)) {
            cli_error(cluster->cli, "node %u cannot be started: %s%s", rank, strerror(errno),
                      cluster_full(cluster));
            exit_code = CLI_FAILED;
        }
    }
    exit_code = exit_code == CLI_OK ? await_ready(cluster, until_us) : exit_code;
    for (uint32_t rank = 0; rank < CLUSTER_NODES; rank++) {
        fd_close(&ports[rank]);
    }
    return exit_code == CLI_OK ? await_agreement(cluster, until_us) : exit_code;
}

/* There is a cluster: whether it is in the way, and what is to be done. What is left of one whose
 * nodes have all ended is not. */
static int look_at_former(struct cluster *cluster)
{
    const char *them = cluster->count == 1 ? "it" : "them";
    uint32_t lives = 0, dead = 0;
    char why[CLUSTER_WHY_BYTES];

    cluster_look(cluster);
    for (uint32_t rank = 0; rank < cluster->count; rank++) {
        lives += cluster->nodes[rank].life == CLUSTER_LIVES ? 1 : 0;
        dead = cluster->nodes[rank].life != CLUSTER_LIVES ? rank : dead;
    }
    if (lives == 0) {
        cli_warning(cluster->cli,
                    "what an earlier cluster left in %s is removed: its nodes have "
                    "ended",
                    cluster->dir);
        return CLI_OK;
    }
    if (lives == cluster->count) {
        cli_error(cluster->cli,
                  "%u node%s in %s already: nigh cluster ls%s shows %s, nigh cluster stop%s ends "
                  "%s, and --dir names another place",
                  lives, lives == 1 ? " runs" : "s run", cluster->dir, cluster->words, them,
                  cluster->words, them);
    } else {
        cluster_last_words(cluster, dead, why);
        cli_error(cluster->cli,
                  "a cluster is in %s, and its node %u died (%s): nigh cluster stop%s ends the "
                  "others, then start it again",
                  cluster->dir, dead, why, cluster->words);
    }
    return CLI_EXISTS;
}

/* Ends what lives, and removes all; what does not end keeps its files, by which it can be found. */
static int end_all(struct cluster *cluster, uint64_t timeout_us, uint32_t *killed)
{
    uint32_t first = 0, left = cluster_end(cluster, timeout_us, killed, &first);

    if (left == 0) {
        return cluster_clear(cluster) ? CLI_OK : CLI_FAILED;
    }
    cli_error(cluster->cli,
              "%u node%s not ended though killed, as node %u (process %d): see what it waits for "
              "(ps -o stat,wchan), then nigh cluster stop%s again; the files in %s are left",
              left, left == 1 ? " has" : "s have", first, cluster->nodes[first].pid, cluster->words,
              cluster->dir);
    return CLI_FAILED;
}

/* The folder is this start's alone, and nothing is in it that another cluster left. */
static int open_for_start(struct cluster *cluster)
{
    int exit_code = cluster_open(cluster, CLUSTER_STARTS);

    if (exit_code == CLI_OK && cluster->is_there) {
        exit_code = look_at_former(cluster);
        if (exit_code == CLI_OK && !cluster_empty(cluster)) { /* the folder stays, and locked */
            exit_code = CLI_FAILED;
        }
    }
    return exit_code;
}

/* Where nobody is told of the nodes, nobody knows that they run. */
static int print_result(const struct cluster *cluster)
{
    static const bool answers[CLUSTER_NODES] = {true, true, true, true, true, true, true, true};

    if (cluster->cli->json) {
        print_json(cluster, answers);
    } else {
        print_started(cluster);
    }
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return CLI_OK;
    }
    cli_error(cluster->cli, "where the nodes are cannot be written: %s: the start is undone",
              strerror(errno));
    return CLI_FAILED;
}

static int start(struct cluster *cluster, const struct job *job)
{
    char program[4096];
    uint32_t killed;
    int exit_code, ended;

    if (!cluster_program(job->nighd, program, sizeof program)) {
        cli_error(cluster->cli,
                  job->nighd != NULL ? "--nighd %s is no program that may be run"
                                     : "there is no nighd beside this program, nor in $PATH%s: "
                                       "install it, or say where it is with --nighd",
                  job->nighd != NULL ? job->nighd : "");
        return CLI_FAILED;
    }
    exit_code = cluster_check_name(cluster);
    exit_code = exit_code == CLI_OK ? open_for_start(cluster) : exit_code;
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    catch_signals();
    cluster->count = job->count;
    exit_code = start_nodes(cluster, job, program);
    exit_code = exit_code == CLI_OK ? print_result(cluster) : exit_code;
    if (exit_code == CLI_OK) {
        return CLI_OK;
    }
    ended = end_all(cluster, UNDO_US, &killed);
    if (interrupted != 0 && ended == CLI_OK) { /* not before: a second signal ends that */
        cli_error(cluster->cli, "interrupted: the start is undone");
    }
    return killed > 0 || ended != CLI_OK ? CLI_FAILED : exit_code;
}

/* ---- stop, ls ------------------------------------------------------------- */

/* Of a node that lives, whether it is known which process it is: else nothing of it is removed. */
static int look_whether_seen(const struct cluster *cluster, uint32_t rank)
{
    const struct cluster_node *node = &cluster->nodes[rank];
    char path[CLUSTER_PATH_BYTES];

    if (node->life != CLUSTER_LIVES || node->pid != 0) {
        return CLI_OK;
    }
    if (node->is_nameless) {
        cluster_path(cluster, rank, ".sock", path);
        cli_error(cluster->cli,
                  "node %u lives, but node%u.pid, which says as which process, was removed: end it "
                  "by hand ('pgrep -f %s' finds it), then nigh cluster stop%s again; the files in "
                  "%s are left",
                  rank, rank, path, cluster->words, cluster->dir);
        return CLI_FAILED;
    }
    cli_error(cluster->cli,
              "node %u lives, but not where this program can see it: stop it "
              "in the container, or as the user, that started it",
              rank);
    return CLI_DENIED;
}

static int stop(struct cluster *cluster)
{
    uint32_t killed;
    int exit_code = cluster_open(cluster, CLUSTER_ENDS);

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    cluster_look(cluster);
    for (uint32_t rank = 0; exit_code == CLI_OK && rank < cluster->count; rank++) {
        exit_code = look_whether_seen(cluster, rank);
    }
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    exit_code =
        end_all(cluster, cluster->cli->timeout_given ? cluster->cli->timeout_us : STOP_US, &killed);
    if (exit_code == CLI_OK && killed > 0) {
        cli_warning(cluster->cli,
                    "%u node%s did not end in time, and %s killed: what others might "
                    "have taken over is gone",
                    killed, killed == 1 ? "" : "s", killed == 1 ? "was" : "were");
    }
    return exit_code;
}

static int ls(struct cluster *cluster)
{
    bool answers[CLUSTER_NODES] = {false}, all;
    int exit_code = cluster_open(cluster, CLUSTER_LOOKS);

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    cluster_look(cluster);
    all = cluster->count > 0; /* 0: a start was killed before it had a list */
    for (uint32_t rank = 0; rank < cluster->count; rank++) {
        nigh_client *client =
            cluster->nodes[rank].life == CLUSTER_LIVES ? ask(cluster, rank, ASK_US) : NULL;

        answers[rank] = client != NULL;
        all = all && answers[rank];
        nigh_client_close(client);
    }
    if (cluster->cli->json) {
        print_json(cluster, answers);
    } else {
        print_table(cluster, answers);
    }
    return all ? CLI_OK : CLI_FAILED;
}

/* ---- what is asked for ---------------------------------------------------- */

/* "--http=7707", "-x": whether it is one that a node here cannot have. The beginning of one, which
 * nighd refuses, is told the same; none that it has is the beginning of one of these. */
static bool is_refused(const char *word)
{
    size_t length;

    if (strncmp(word, "--", 2) != 0) {
        return false;
    }
    word += 2;
    length = strcspn(word, "=");
    for (size_t i = 0; length > 0 && i < ARRAY_LENGTH(not_taken); i++) {
        if (strncmp(word, not_taken[i], length) == 0) {
            return true;
        }
    }
    return false;
}

static int take_count(const struct cli *cli, const char *text, uint32_t *count)
{
    if (text[0] < '1' || text[0] > '0' + CLUSTER_NODES || text[1] != '\0') {
        return cli_usage(cli, "'%s' is not how many nodes: 1 to %d", text, CLUSTER_NODES);
    }
    *count = (uint32_t)(text[0] - '0');
    return CLI_OK;
}

static int take_words(const struct cli *cli, int argc, char **argv, struct job *job)
{
    bool is_start;

    if (argc == 0) {
        return cli_usage(cli, "cluster takes what is to be done: start, stop or ls");
    }
    job->action = argv[0];
    is_start = strcmp(job->action, "start") == 0;
    if (!is_start && strcmp(job->action, "stop") != 0 && strcmp(job->action, "ls") != 0) {
        return cli_usage(cli, "cluster takes start, stop or ls, not '%s'", job->action);
    }
    if (argc > (is_start ? 2 : 1)) {
        return cli_usage(cli,
                         is_start ? "start takes how many nodes, and behind -- options of "
                                    "nighd, not '%s'"
                                  : "it takes no further word, not '%s'",
                         argv[argc - 1]);
    }
    for (char **word = job->words; *word != NULL; word++) {
        if (!is_start) {
            return cli_usage(cli, "only start takes options of nighd behind --");
        }
        if (is_refused(*word)) {
            return cli_wrong(cli,
                             "%s: a node of 'nigh cluster' is told that by it, or cannot have "
                             "it: start nighd by hand",
                             *word);
        }
    }
    return argc == 2 ? take_count(cli, argv[1], &job->count) : CLI_OK;
}

int cli_cluster(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {{"dir", required_argument, NULL, OPTION_DIR},
                                            {"nighd", required_argument, NULL, OPTION_NIGHD},
                                            CLI_COMMON_OPTIONS,
                                            {0}};
    static char *none[] = {NULL};
    struct job job = {.count = CLUSTER_NODES_DEFAULT, .words = none};
    struct cluster cluster = {.cli = cli, .dir_fd = -1};
    int option, exit_code = CLI_OK, own = 0;

    for (uint32_t rank = 0; rank < CLUSTER_NODES; rank++) {
        cluster.nodes[rank] = (struct cluster_node){.pidfd = -1, .ready_fd = -1};
    }
    /* What is behind "--" is not for getopt, which would put it among the words. */
    while (own < argc && strcmp(argv[own], "--") != 0) {
        own++;
    }
    job.words = own < argc ? argv + own + 1 : none;
    while ((option = cli_next_option(cli, own, argv, ":d:" CLI_COMMON_SHORT, options)) != -1) {
        switch (option) {
        case OPTION_DIR: job.dir = optarg; break;
        case OPTION_NIGHD: job.nighd = optarg; break;
        default:
            if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
                return exit_code;
            }
        }
    }
    exit_code = take_words(cli, own - optind, argv + optind, &job);
    exit_code = exit_code == CLI_OK ? cluster_place(&cluster, job.dir) : exit_code;
    if (exit_code == CLI_OK) {
        exit_code = strcmp(job.action, "start") == 0  ? start(&cluster, &job)
                    : strcmp(job.action, "stop") == 0 ? stop(&cluster)
                                                      : ls(&cluster);
    }
    cluster_close(&cluster);
    return exit_code;
}
