/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nigh doctor: what of this machine, its node and the node's members keeps nigh from working, or
 * from working well; each finding with its remedy. doctor.h says who looks at what. Reads, dials
 * members that are not up, changes nothing. Exit code 1 when something keeps a node from working
 * here, 4 when nothing does and none answers.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/json.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "cli/doctor.h"
#include "cli/rdma.h"

#define CONFIG     "/etc/nigh/nighd.conf"
#define LINKS_SEEN (LIMIT_NODES * LIMIT_LANES)

struct report {
    struct cli *cli;
    struct doctor doctor;
    struct json json;
    const char *config; /* --config; NULL: not given */
    pid_t pid;          /* of the node that lives; 0: not known */
    pid_t limited;      /* whose limits are looked at: the node's; 0: this process's */
    uid_t uid;
    bool lives, knows_setup;
    bool has_own_net; /* the node has another network than this process */
    struct setup setup;
    int bad;
};

static const char *const severity_names[] = {"ok", "note", "bad"};

static void print(void *context, enum doctor_severity severity, const char *subject,
                  const char *finding, const char *remedy)
{
    struct report *report = context;
    static char shown[4 * DOCTOR_FINDING_BYTES];

    report->bad += severity == DOCTOR_BAD ? 1 : 0;
    if (report->cli->json) {
        json_object_open(&report->json, NULL);
        json_string(&report->json, "subject", subject);
        json_string(&report->json, "severity", severity_names[severity]);
        json_string(&report->json, "finding", finding);
        json_string(&report->json, "remedy", remedy);
        json_object_close(&report->json);
        return;
    }
    /* Paths, and what a node answers, are of whatever bytes. */
    (void)bytes_printable_sentence(finding, strlen(finding), shown, sizeof shown);
    printf("%-5s %-12s %s\n", severity_names[severity], subject, shown);
    if (remedy[0] != 0) {
        printf("%-18s -> %s\n", "", remedy);
    }
}

/* Why there is no client. A pool of this user that is not there yet is no fault of the node's. */
static void say_unopened(struct report *report, nigh_status status)
{
    const struct doctor *doctor = &report->doctor;

    switch (status) {
    case NIGH_VERSION:
        doctor_find(doctor, DOCTOR_BAD, "node",
                    "use the nigh of the node's release, or start the node anew with the nighd of "
                    "this one (nigh --version, nighd --version)",
                    "a node of another version: %s", nigh_open_error());
        break;
    case NIGH_DENIED:
        doctor_find(doctor, DOCTOR_BAD, "node",
                    "let this user connect: nighd --socket-mode, the folders above the socket, or "
                    "the mode of --pool",
                    "%s", nigh_open_error());
        break;
    case NIGH_TIMEOUT:
        doctor_find(doctor, DOCTOR_NOTE, "node",
                    "see whether it is stopped (kill -CONT), short of processors, or starting; its "
                    "log says what it does; else stop and start it",
                    "%s", nigh_open_error());
        break;
    case NIGH_LIMIT: /* nigh who would have to have a session, too */
        doctor_find(doctor, DOCTOR_NOTE, "node",
                    "the node's log says whose they are (session open ... pid=, without a session "
                    "closed): end some of these processes, or start the node with a larger "
                    "--max-sessions",
                    "%s", nigh_open_error());
        break;
    default:
        doctor_find(doctor, DOCTOR_NOTE, "node",
                    "start one: nighd --memory 1G, or name its socket with --socket", "%s",
                    nigh_open_error());
    }
}

static void look_at_node(struct report *report)
{
    nigh_client_options options = {.struct_size = sizeof options,
                                   .socket_path = report->cli->socket_path,
                                   .pool = report->cli->pool,
                                   .name = "nigh doctor",
                                   .timeout_us = cli_open_timeout_us(report->cli),
                                   .flags = NIGH_OPEN_READ_ONLY};
    nigh_node_stats stats = {.struct_size = sizeof stats};
    char memory[BYTES_SIZE_TEXT], used[BYTES_SIZE_TEXT];
    nigh_status status = nigh_client_open(&options, &report->cli->client);

    if (status != NIGH_OK) {
        report->cli->client = NULL;
        say_unopened(report, status);
        return;
    }
    if (nigh_stats(report->cli->client, &stats) != NIGH_OK) {
        doctor_find(&report->doctor, DOCTOR_BAD, "node", "look at its log; stop and start it",
                    "it accepts clients but does not answer");
        return;
    }
    bytes_format_size(stats.memory_bytes, memory);
    bytes_format_size(stats.used_bytes, used);
    doctor_find(&report->doctor, DOCTOR_GOOD, "node", "",
                "answers; %s of %s used, %llu objects, %llu sessions", used, memory,
                (unsigned long long)stats.objects, (unsigned long long)stats.sessions);
    doctor_look_at_counts(&report->doctor, &stats);
}

/* The cluster, as the node that answered sees it. */
static void look_at_cluster(struct report *report)
{
    const nigh_node_info *refused;
    nigh_node_stats stats = {.struct_size = sizeof stats};
    char absent[CLI_ABSENT_BYTES];
    size_t up, nodes;

    if (report->cli->client == NULL || cli_look_at_nodes(report->cli) != NIGH_OK) {
        return;
    }
    if (cli_is_alone(report->cli)) {
        doctor_find(&report->doctor, DOCTOR_GOOD, "cluster", "",
                    "the node is alone (nighd --join makes it one of several)");
        return;
    }
    up = cli_count_nodes(NIGH_NODE_IS_UP);
    nodes = up + cli_count_nodes(NIGH_NODE_IS_AWAY) + cli_count_nodes(NIGH_NODE_IS_LOST) +
            cli_count_nodes(NIGH_NODE_IS_DEAD);
    refused = cli_refused_node();
    (void)nigh_stats(report->cli->client, &stats); /* 0 where it does not answer any more */
    if (refused != NULL) {
        doctor_find(
            &report->doctor, DOCTOR_BAD, "cluster", doctor_refusal_remedy(refused->refused),
            "%zu of %zu nodes are up, this one counted; %llu handshakes were refused, the last "
            "with node %u: %s",
            up, nodes, (unsigned long long)stats.handshakes_refused, refused->rank,
            cli_refusal_text(refused->refused));
        return;
    }
    (void)cli_absent_nodes(report->cli, absent);
    /* One that was never seen may be about to start for the first time. */
    doctor_find(
        &report->doctor,
        up == nodes                                        ? DOCTOR_GOOD
        : up + cli_count_nodes(NIGH_NODE_IS_AWAY) == nodes ? DOCTOR_NOTE
                                                           : DOCTOR_BAD,
        "cluster",
        up < nodes ? "start what is not up, or see whether its port is reached from here; nigh "
                     "nodes shows whether it came"
                   : "",
        "%zu of %zu nodes are up, this one counted; %llu handshakes refused%s%s", up, nodes,
        (unsigned long long)stats.handshakes_refused, absent[0] != '\0' ? "; " : "", absent);
}

/* Links to other nodes: more of them than there is room for are left out. */
static void look_at_links(struct report *report, const nigh_node_stats *stats)
{
    static nigh_link_info links[LINKS_SEEN];
    size_t count = 0;

    if (nigh_links(report->cli->client, links, LINKS_SEEN, &count) == NIGH_OK) {
        doctor_look_at_links(&report->doctor, links, min_size(count, LINKS_SEEN), stats);
    }
}

/* Who sees it otherwise, or is otherwise. */
static void look_at_members(struct report *report)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};
    size_t count;
    const nigh_node_info *nodes = cli_nodes_seen(&count);

    if (report->cli->client == NULL || nigh_stats(report->cli->client, &stats) != NIGH_OK) {
        return;
    }
    doctor_look_at_members(&report->doctor, nodes, count, &stats,
                           report->knows_setup && report->setup.state[0] != '\0');
    if (cli_is_alone(report->cli)) {
        return;
    }
    if (!report->has_own_net) { /* else what is seen from here is not what the node sees */
        doctor_look_at_reach(&report->doctor, nodes, count);
    }
    look_at_links(report, &stats);
    for (size_t i = 0; i < count; i++) {
        if (nodes[i].is_self != 0) {
            doctor_look_at_life(&report->doctor, nodes[i].incarnation, (uint64_t)time(NULL));
        }
    }
}

/* Who knows where objects are, and whether this node may ask. */
static void look_at_homes(struct report *report)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    if (report->cli->client == NULL || nigh_stats(report->cli->client, &stats) != NIGH_OK) {
        return;
    }
    if (stats.directory_servers > 0) {
        bool up = stats.directory_servers_up == stats.directory_servers;

        doctor_find(
            &report->doctor, up ? DOCTOR_GOOD : DOCTOR_BAD, "directory",
            up ? "" : "start the server that nighd --directory names; the node's log says why not",
            "the server that says where objects are is %s; it was lost %llu times",
            up ? "reached" : "not reached: what is not on this machine is not found",
            (unsigned long long)stats.directory_losses);
    }
    if (stats.view_unkept > 0) {
        doctor_find(
            &report->doctor, DOCTOR_BAD, "state",
            "see to the disk of nighd --state (the node's log says what was wrong), and start the "
            "node again",
            "the node could not keep what it says in votes, and votes no more");
    }
    if (stats.view_epoch > 0) {
        bool has_lease = stats.view_quorum > 0;

        doctor_find(
            &report->doctor, has_lease ? DOCTOR_GOOD : DOCTOR_BAD, "views",
            has_lease ? ""
                      : "start the nodes that vote, the first ones of the list, and see whether "
                        "they are reached from here",
            "view %llu of %llu nodes%s", (unsigned long long)stats.view_epoch,
            (unsigned long long)stats.view_members,
            has_lease ? ""
                      : "; the node is cut off from most of those that vote, and serves what is "
                        "on this machine alone");
    }
}

/* What of the network is seen from here is this process's: members that are dialled, too. */
static void look_at_network(struct report *report, bool uses_rdma)
{
    if (report->cli->client != NULL && cli_is_alone(report->cli)) {
        return;
    }
    if (report->has_own_net) {
        doctor_find(&report->doctor, DOCTOR_NOTE, "network",
                    "nigh doctor there: nsenter --net --target PID, or in its container",
                    "the node (process %d) has a network of its own: settings of TCP, and whether "
                    "its members are reached, are not looked at from here",
                    report->pid);
    } else if (!uses_rdma) {
        doctor_look_at_tcp(&report->doctor);
    }
}

/* What bytes between nodes travel by: what the node says, and whether this machine has RDMA. */
static void look_at_fabric(struct report *report, const struct admission_facts *facts)
{
    struct rdma_finding found;
    nigh_node_stats stats = {.struct_size = sizeof stats};
    bool uses_rdma = report->cli->client != NULL &&
                     nigh_stats(report->cli->client, &stats) == NIGH_OK && stats.rdma_lanes > 0;
    const char *now = report->cli->client == NULL ? ""
                      : uses_rdma                 ? "the node uses verbs; "
                      : cli_is_alone(report->cli) ? "the node needs none; "
                                                  : "the node uses tcp; ";
    uid_t user = report->limited > 0 ? report->uid : geteuid();

    rdma_look("", user == 0 ? UINT64_MAX : facts->locked_limit_bytes, &found);
    doctor_find(&report->doctor, found.is_missing && found.has_device ? DOCTOR_NOTE : DOCTOR_GOOD,
                "fabric", found.remedy, "%s%s", now, found.text);
    look_at_network(report, uses_rdma);
    if (rdma_look_where("", stats.memory_far_bytes, &found)) {
        doctor_find(&report->doctor, found.is_missing ? DOCTOR_NOTE : DOCTOR_GOOD, "numa",
                    found.remedy, "%s", found.text);
    }
    if (rdma_look_lost("", &found)) {
        doctor_find(&report->doctor, DOCTOR_NOTE, "packets", found.remedy, "%s", found.text);
    }
    if (rdma_look_mtu("", &found)) {
        doctor_find(&report->doctor, DOCTOR_NOTE, "mtu", found.remedy, "%s", found.text);
    }
    if (rdma_look_gid("", &found)) {
        doctor_find(&report->doctor, DOCTOR_NOTE, "gid", found.remedy, "%s", found.text);
    }
}

bool cli_find_process(const struct cli *cli, pid_t *pid, uid_t *uid)
{
    const char *named = getenv("NIGH_SOCKET"), *path = cli->socket_path;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred its;
    socklen_t bytes = sizeof its;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool connected, found;

    if (path == NULL) { /* as libnigh has it: an empty variable is none */
        path = named == NULL || named[0] == '\0' ? NIGH_DEFAULT_SOCKET : named;
    }
    errno = 0;
    connected = fd >= 0 &&
                bytes_copy_text(address.sun_path, sizeof address.sun_path, path) == NIGH_OK &&
                connect(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    found = connected || errno == EAGAIN; /* as many wait as may */
    *pid = 0;
    if (connected && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &its, &bytes) == 0 && its.pid > 0) {
        *pid = its.pid;
        *uid = its.uid;
    }
    if (fd >= 0) {
        close(fd);
    }
    return found;
}

static void say_unknown_options(struct report *report)
{
    static const char remedy[] = "nigh doctor --config FILE, with a file that says the same as the "
                                 "node's options; in a container: nigh doctor there";

    if (report->pid == 0) {
        doctor_find(&report->doctor, DOCTOR_NOTE, "options", remedy,
                    "whose process the node is cannot be seen from here: what it was told is not "
                    "looked at");
    } else if (report->setup.called[0] == '\0') {
        doctor_find(&report->doctor, DOCTOR_NOTE, "options", remedy,
                    "the command line of the node's process (%d) cannot be read: what it was told "
                    "is not looked at",
                    report->pid);
    } else {
        doctor_find(&report->doctor, DOCTOR_NOTE, "options", remedy,
                    "the node's process (%d) is called %s and not nighd, as where a node is part "
                    "of a program: what it was told is not looked at",
                    report->pid, report->setup.called);
    }
}

/* What a node is told: the file that --config names; else what the one that lives was started with,
 * also where it lets nobody in; else the file of nighd.service. False: that is not known. */
static bool read_setup(struct report *report)
{
    struct setup *setup = &report->setup;

    if (report->config != NULL) {
        (void)setup_read_file("", report->config, setup);
        setup->is_live = report->lives;
        return true;
    }
    if (!report->lives) {
        return setup_read_file("", CONFIG, setup);
    }
    return report->pid > 0 && setup_read_process("", report->pid, setup);
}

/* Whose process the node is, what it may, and what it is told: the others go by it. */
static void find_setup(struct report *report, struct admission_facts *facts)
{
    report->lives = cli_find_process(report->cli, &report->pid, &report->uid);
    report->limited =
        report->pid > 0 && admission_read_limits("", report->pid, facts) ? report->pid : 0;
    report->knows_setup = read_setup(report);
    report->setup.knows_uid = report->pid > 0;
    report->setup.uid = report->uid;
    report->has_own_net = report->pid > 0 && setup_has_another("", report->pid, "net");
}

static void look_at_setup(struct report *report)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    if (report->knows_setup) {
        doctor_look_at_setup(&report->doctor, &report->setup);
        doctor_look_at_fit(&report->doctor, &report->setup);
    } else if (report->lives) {
        say_unknown_options(report);
    }
    if (report->cli->client != NULL && nigh_stats(report->cli->client, &stats) == NIGH_OK) {
        doctor_look_at_sessions(
            &report->doctor, report->knows_setup && report->config == NULL ? &report->setup : NULL,
            &stats);
    }
}

static void look_at_all(struct report *report, const struct admission_facts *facts)
{
    look_at_node(report);
    look_at_cluster(report);
    look_at_members(report);
    look_at_homes(report);
    look_at_fabric(report, facts);
    doctor_look_at_machine(&report->doctor, facts, report->limited);
    doctor_look_at_kernel(&report->doctor, doctor_missing_calls());
    doctor_look_at_install(&report->doctor);
}

int cli_doctor(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'}, CLI_COMMON_OPTIONS, {0}};
    static struct admission_facts facts;
    static struct report report; /* a setup is large */
    int option, exit_code = CLI_OK;
    const char *why;

    report.cli = cli;
    report.doctor = (struct doctor){.root = "", .take = print, .context = &report};
    while ((option = cli_next_option(cli, argc, argv, ":c:" CLI_COMMON_SHORT, options)) != -1) {
        if (option == 'c') {
            report.config = optarg;
        } else if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    if (argc > optind) {
        return cli_usage(cli, "doctor takes no argument");
    }
    why = report.config == NULL ? NULL : setup_unreadable(report.config);
    if (why != NULL) {
        cli_error(cli, "%s: %s", report.config, why);
        return CLI_FAILED;
    }
    if (admission_read("", &facts) != NIGH_OK) {
        cli_error(cli, "cannot read /proc: is it mounted?");
        return CLI_FAILED;
    }
    if (cli->json) {
        json_array_open(&report.json, NULL);
    }
    find_setup(&report, &facts);
    look_at_all(&report, &facts);
    look_at_setup(&report);
    if (cli->json) {
        json_array_close(&report.json);
    }
    if (report.bad > 0) {
        return CLI_FAILED;
    }
    return cli->client == NULL ? CLI_UNREACHABLE : CLI_OK;
}
