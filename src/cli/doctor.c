/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nigh doctor: what of this machine keeps nigh from working, or from working well; each finding
 * with its remedy. Reads, changes nothing. Exit code 1 when something keeps a node from working
 * here, 4 when nothing does and none answers.
 */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/bytes.h"
#include "cli/cli.h"
#include "base/json.h"
#include "cli/rdma.h"
#include "memory/admission.h"

/* With less than this share of it left for puts, the room on disk is called full. */
#define SPILL_FULL_SHARE 8

#define NODE_DESCRIPTORS_WANTED 4096u
#define HUGE_PAGE_BYTES         (UINT64_C(2) << 20)

enum severity {
    GOOD,
    NOTE,
    BAD
};

struct report {
    struct cli *cli;
    struct json json;
    int bad;
};

static const char *const severity_names[] = {"ok", "note", "bad"};

/* One finding: what was looked at, what was found, and the remedy ("" when there is nothing to do).
 */
static void find(struct report *report, enum severity severity, const char *subject,
                 const char *remedy, const char *format, ...) __attribute__((format(printf, 5, 6)));

static void find(struct report *report, enum severity severity, const char *subject,
                 const char *remedy, const char *format, ...)
{
    char text[512 + CLI_ABSENT_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    report->bad += severity == BAD ? 1 : 0;
    if (report->cli->json) {
        json_object_open(&report->json, NULL);
        json_string(&report->json, "subject", subject);
        json_string(&report->json, "severity", severity_names[severity]);
        json_string(&report->json, "finding", text);
        json_string(&report->json, "remedy", remedy);
        json_object_close(&report->json);
        return;
    }
    printf("%-5s %-12s %s\n", severity_names[severity], subject, text);
    if (remedy[0] != 0) {
        printf("%-18s -> %s\n", "", remedy);
    }
}

/* What was refused for want of memory since the node's start, and what keeps memory now. */
static void look_at_refusals(struct report *report, const nigh_node_stats *stats)
{
    char pinned[BYTES_SIZE_TEXT], unsealed[BYTES_SIZE_TEXT];

    if (stats->out_of_memory == 0) {
        return;
    }
    bytes_format_size(stats->pinned_bytes, pinned);
    bytes_format_size(stats->unsealed_bytes, unsealed);
    find(
        report, NOTE, "full",
        "nigh who shows who holds memory, nigh unpin lets go; nighd --memory and --spill give room",
        "requests for memory refused since the node's start: %llu (of puts, creates, or gets of "
        "what is not in memory), since what lay there was held by processes, pinned or unsealed, "
        "or they wanted more than there is, or the room on disk was full; now %s are pinned, %s "
        "unsealed",
        (unsigned long long)stats->out_of_memory, pinned, unsealed);
}

/* How full the room for files is, and the indexes. */
static void look_at_room(struct report *report, const nigh_node_stats *stats)
{
    char used[BYTES_SIZE_TEXT], of[BYTES_SIZE_TEXT], left[BYTES_SIZE_TEXT];

    if (stats->spill_bytes > 0) {
        bool full = stats->spilled_bytes > 0 &&
                    stats->spill_free_bytes < stats->spill_bytes / SPILL_FULL_SHARE;

        bytes_format_size(stats->spilled_bytes, used);
        bytes_format_size(stats->spill_bytes, of);
        bytes_format_size(stats->spill_free_bytes, left);
        find(report, full ? NOTE : GOOD, "spill",
             full ? "nighd --spill-max, or a larger disk; nigh rm what is not needed" : "",
             "%s of %s on disk, %s left for puts; the rest is kept for reading back", used, of,
             left);
    }
    if (stats->index_full > 0) {
        find(report, NOTE, "index", "nighd --max-objects; nigh rm what is not needed",
             "requests refused because an index was full: %llu; %llu of %llu entries are used, "
             "objects on disk included",
             (unsigned long long)stats->index_full, (unsigned long long)stats->index_used,
             (unsigned long long)stats->index_entries);
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

    if (nigh_client_open(&options, &report->cli->client) != NIGH_OK) {
        report->cli->client = NULL;
        find(report, NOTE, "node", "start one: nighd --memory 1G, or name its socket with --socket",
             "%s", nigh_open_error());
        return;
    }
    if (nigh_stats(report->cli->client, &stats) != NIGH_OK) {
        find(report, BAD, "node", "look at its log; stop and start it",
             "it accepts clients but does not answer");
        return;
    }
    bytes_format_size(stats.memory_bytes, memory);
    bytes_format_size(stats.used_bytes, used);
    find(report, GOOD, "node", "", "answers; %s of %s used, %llu objects, %llu sessions", used,
         memory, (unsigned long long)stats.objects, (unsigned long long)stats.sessions);
    look_at_room(report, &stats);
    look_at_refusals(report, &stats);
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
        find(report, GOOD, "cluster", "",
             "the node is alone (nighd --join makes it one of several)");
        return;
    }
    up = cli_count_nodes(NIGH_NODE_IS_UP);
    nodes = up + cli_count_nodes(NIGH_NODE_IS_AWAY) + cli_count_nodes(NIGH_NODE_IS_LOST) +
            cli_count_nodes(NIGH_NODE_IS_DEAD);
    refused = cli_refused_node();
    (void)nigh_stats(report->cli->client, &stats); /* 0 where it does not answer any more */
    if (refused != NULL) {
        find(report, BAD, "cluster",
             "start all nodes with the same key, list, --fabric and version, each with its own "
             "--member; nigh nodes shows which",
             "%zu of %zu nodes are up, this one counted; %llu handshakes were refused, the last "
             "with node %u: %s",
             up, nodes, (unsigned long long)stats.handshakes_refused, refused->rank,
             cli_refusal_text(refused->refused));
        return;
    }
    (void)cli_absent_nodes(report->cli, absent);
    /* One that was never seen may be about to start for the first time. */
    find(report,
         up == nodes                                        ? GOOD
         : up + cli_count_nodes(NIGH_NODE_IS_AWAY) == nodes ? NOTE
                                                            : BAD,
         "cluster",
         up < nodes ? "start what is not up, or see whether its port is reached from here; nigh "
                      "nodes shows whether it came"
                    : "",
         "%zu of %zu nodes are up, this one counted; %llu handshakes refused%s%s", up, nodes,
         (unsigned long long)stats.handshakes_refused, absent[0] != '\0' ? "; " : "", absent);
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

        find(report, up ? GOOD : BAD, "directory",
             up ? "" : "start the server that nighd --directory names; the node's log says why not",
             "the server that says where objects are is %s; it was lost %llu times",
             up ? "reached" : "not reached: what is not on this machine is not found",
             (unsigned long long)stats.directory_losses);
    }
    if (stats.view_unkept > 0) {
        find(report, BAD, "state",
             "see to the disk of nighd --state (the node's log says what was wrong), and start the "
             "node again",
             "the node could not keep what it says in votes, and votes no more");
    }
    if (stats.view_epoch > 0) {
        bool has_lease = stats.view_quorum > 0;

        find(report, has_lease ? GOOD : BAD, "views",
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

    rdma_look("", geteuid() == 0 ? UINT64_MAX : facts->locked_limit_bytes, &found);
    find(report, found.is_missing && found.has_device ? NOTE : GOOD, "fabric", found.remedy, "%s%s",
         now, found.text);
    if (rdma_look_where("", stats.memory_far_bytes, &found)) {
        find(report, found.is_missing ? NOTE : GOOD, "numa", found.remedy, "%s", found.text);
    }
    if (rdma_look_lost("", &found)) {
        find(report, NOTE, "packets", found.remedy, "%s", found.text);
    }
    if (rdma_look_mtu("", &found)) {
        find(report, NOTE, "mtu", found.remedy, "%s", found.text);
    }
}

static void look_at_memory(struct report *report, const struct admission_facts *facts)
{
    char available[BYTES_SIZE_TEXT], total[BYTES_SIZE_TEXT];

    bytes_format_size(facts->memory_available_bytes, available);
    bytes_format_size(facts->memory_total_bytes, total);
    if (facts->memory_available_bytes < LIMIT_MEMORY_BYTES_MIN) {
        find(report, BAD, "memory", "free memory: nighd reserves all of its memory at start",
             "only %s of %s is available", available, total);
    } else {
        find(report, GOOD, "memory", "",
             "%s of %s is available; nighd --memory may ask for less than that", available, total);
    }
    if (facts->commit_left_bytes != ADMISSION_NO_LIMIT) {
        char left[BYTES_SIZE_TEXT];

        bytes_format_size(facts->commit_left_bytes, left);
        find(report, NOTE, "overcommit",
             "sysctl vm.overcommit_memory=0, or raise vm.overcommit_ratio",
             "vm.overcommit_memory is 2: %s may still be committed, and reserved address space "
             "counts",
             left);
    }
}

static bool in_container(void)
{
    return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0 ||
           getenv("KUBERNETES_SERVICE_HOST") != NULL;
}

static void look_at_cgroup(struct report *report, const struct admission_facts *facts)
{
    const struct admission_cgroup *cgroup = &facts->cgroup;
    char limit[BYTES_SIZE_TEXT], available[BYTES_SIZE_TEXT];

    if (in_container()) {
        find(report, NOTE, "container",
             "share the socket's directory with the other containers; --ipc and /dev/shm sizes do "
             "not matter to nigh",
             "this looks like a container");
    }
    if (cgroup->version == 0) {
        find(report, GOOD, "cgroup", "", "no memory controller limits this process");
        return;
    }
    if (cgroup->limit_bytes == ADMISSION_NO_LIMIT) {
        find(report, GOOD, "cgroup", "", "version %u, no memory limit", cgroup->version);
        return;
    }
    bytes_format_size(cgroup->limit_bytes, limit);
    bytes_format_size(cgroup->available_bytes, available);
    find(report, cgroup->available_bytes < LIMIT_MEMORY_BYTES_MIN ? BAD : NOTE, "cgroup",
         cgroup->version == 2
             ? "raise memory.max (a container: its memory limit) above nighd --memory"
             : "raise memory.limit_in_bytes (a container: its memory limit) above nighd --memory",
         "version %u limits memory to %s, %s left (%s); objects count for who touches them first: "
         "the node",
         cgroup->version, limit, available, cgroup->folder);
}

static void look_at_huge_pages(struct report *report, const struct admission_facts *facts)
{
    uint64_t free_bytes = admission_huge_free_bytes(facts);
    char text[BYTES_SIZE_TEXT];

    bytes_format_size(free_bytes, text);
    if (free_bytes == 0) {
        find(report, NOTE, "huge pages",
             "sysctl vm.nr_hugepages=N with N = memory / 2 MiB, before nighd starts (--huge auto "
             "takes them)",
             "none free: plain 4 KiB pages are used, which costs TLB misses in large objects");
        return;
    }
    find(report, GOOD, "huge pages", "", "%s free in pages of 2 MiB (%llu pages)", text,
         (unsigned long long)(free_bytes / HUGE_PAGE_BYTES));
}

static void look_at_limits(struct report *report, const struct admission_facts *facts)
{
    struct rlimit files;
    char text[BYTES_SIZE_TEXT];

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < NODE_DESCRIPTORS_WANTED) {
        find(report, NOTE, "descriptors", "ulimit -Hn 65536, or LimitNOFILE=65536 in the unit",
             "the hard limit is %llu; nighd needs two an extent and four a session",
             (unsigned long long)files.rlim_max);
    } else {
        find(report, GOOD, "descriptors", "", "the hard limit is %llu",
             (unsigned long long)files.rlim_max);
    }
    bytes_format_size(facts->locked_limit_bytes, text);
    if (facts->locked_limit_bytes != ADMISSION_NO_LIMIT &&
        facts->locked_limit_bytes < (UINT64_C(64) << 20)) {
        find(report, NOTE, "memlock", "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit",
             "%s may be locked: enough on one machine; registering memory with a network card "
             "needs all of it",
             text);
    } else {
        find(report, GOOD, "memlock", "", "%s",
             facts->locked_limit_bytes == ADMISSION_NO_LIMIT ? "unlimited" : text);
    }
    if (facts->address_limit_bytes != ADMISSION_NO_LIMIT) {
        bytes_format_size(facts->address_limit_bytes, text);
        find(report, NOTE, "addresses", "ulimit -v unlimited",
             "RLIMIT_AS is %s; clients and nodes reserve address space far above the memory they "
             "use",
             text);
    }
}

static void look_at_shm(struct report *report, const struct admission_facts *facts)
{
    char total[BYTES_SIZE_TEXT];

    bytes_format_size(facts->shm_total_bytes, total);
    find(report, GOOD, "/dev/shm", "", "%s%s: nigh's memory files do not count against it",
         facts->shm_total_bytes == 0 ? "absent" : "has ", facts->shm_total_bytes == 0 ? "" : total);
}

static void look_at_cores(struct report *report)
{
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;

    if (cores < 2) {
        find(report, NOTE, "cores",
             "give nigh a second core, or run nighd --spin-us 0 (the default on one core)",
             "this process may use one core: a waiting client and a lane take turns on it");
    } else {
        find(report, GOOD, "cores", "", "%d; one lane for two cores by default", cores);
    }
}

static void look_at_swap(struct report *report)
{
    char line[256];
    FILE *file = fopen("/proc/swaps", "re");
    int lines = 0;

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        lines++;
    }
    if (file != NULL) {
        fclose(file);
    }
    if (lines > 1) {
        find(report, NOTE, "swap", "swapoff -a, or a cgroup with memory.swap.max=0 for nighd",
             "swap is on: cold objects may be swapped out, and a get of one then waits for the "
             "disk");
    } else {
        find(report, GOOD, "swap", "", "off");
    }
}

int cli_doctor(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS, {0}};
    static struct admission_facts facts;
    struct report report = {.cli = cli};
    int option, exit_code = CLI_OK;

    while ((option = cli_next_option(cli, argc, argv, ":" CLI_COMMON_SHORT, options)) != -1) {
        if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    if (argc > optind) {
        return cli_usage(cli, "doctor takes no argument");
    }
    if (admission_read("", &facts) != NIGH_OK) {
        cli_error(cli, "cannot read /proc: is it mounted?");
        return CLI_FAILED;
    }
    if (cli->json) {
        json_array_open(&report.json, NULL);
    }
    look_at_node(&report);
    look_at_cluster(&report);
    look_at_homes(&report);
    look_at_fabric(&report, &facts);
    look_at_memory(&report, &facts);
    look_at_cgroup(&report, &facts);
    look_at_huge_pages(&report, &facts);
    look_at_limits(&report, &facts);
    look_at_shm(&report, &facts);
    look_at_cores(&report);
    look_at_swap(&report);
    if (cli->json) {
        json_array_close(&report.json);
    }
    if (report.bad > 0) {
        return CLI_FAILED;
    }
    return cli->client == NULL ? CLI_UNREACHABLE : CLI_OK;
}
