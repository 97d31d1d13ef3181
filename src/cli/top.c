/* SPDX-License-Identifier: Apache-2.0 */
/* nigh top: the node's numbers and who holds memory, again and again until interrupted. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "base/json.h"

enum {
    HOLDERS_SHOWN = 12
};

static void print_json(const nigh_node_stats *stats)
{
    struct json json = {0};

    json_object_open(&json, NULL);
#define PRINT_FIELD(name, text) json_u64(&json, #name, stats->name);
    NIGH_NODE_STATS_TABLE(PRINT_FIELD)
#undef PRINT_FIELD
    json_object_close(&json);
}

static double rate(uint64_t now, uint64_t before, uint64_t elapsed_us)
{
    return elapsed_us == 0 || now < before ? 0 : (double)(now - before) * 1e6 / (double)elapsed_us;
}

static void print_memory(const nigh_node_stats *now)
{
    char memory[BYTES_SIZE_TEXT], used[BYTES_SIZE_TEXT], leased[BYTES_SIZE_TEXT],
        unsealed[BYTES_SIZE_TEXT];
    char disk[BYTES_SIZE_TEXT], bound[BYTES_SIZE_TEXT], left[BYTES_SIZE_TEXT];

    bytes_format_size(now->memory_bytes, memory);
    bytes_format_size(now->used_bytes, used);
    bytes_format_size(now->leased_bytes, leased);
    bytes_format_size(now->unsealed_bytes, unsealed);
    bytes_format_size(now->spilled_bytes, disk);
    printf("memory    %s of %s used (%.0f %%), %s leased, %s unsealed, %s on disk\n", used, memory,
           now->memory_bytes == 0 ? 0.0 : (double)now->used_bytes * 100 / (double)now->memory_bytes,
           leased, unsealed, disk);
    printf("objects   %llu sealed, %llu unsealed, %llu spilled, %llu deleting\n",
           (unsigned long long)now->objects, (unsigned long long)now->objects_unsealed,
           (unsigned long long)now->objects_spilled, (unsigned long long)now->objects_deleting);
    if (now->spill_bytes > 0) {
        bytes_format_size(now->spill_bytes, bound);
        bytes_format_size(now->spill_free_bytes, left);
        printf("spill     %s of %s used, %s left for puts\n", disk, bound, left);
    }
    printf("index     %llu of %llu entries used\n", (unsigned long long)now->index_used,
           (unsigned long long)now->index_entries);
    printf("sessions  %llu attached, %llu died, %llu expelled, %llu operations wait\n",
           (unsigned long long)now->sessions, (unsigned long long)now->sessions_died,
           (unsigned long long)now->expelled, (unsigned long long)now->waiting);
}

static void print_text(const nigh_node_stats *now, const nigh_node_stats *before,
                       uint64_t elapsed_us)
{
    char evicted[BYTES_SIZE_TEXT];

    print_memory(now);
    printf("a second  %.0f seals, %.0f reads reported, %.0f gets asked of the node, %.0f deletes, "
           "%.0f "
           "evictions, %.0f spills, %.0f reads back\n",
           rate(now->seals, before->seals, elapsed_us), rate(now->hints, before->hints, elapsed_us),
           rate(now->gets_asked, before->gets_asked, elapsed_us),
           rate(now->deletes, before->deletes, elapsed_us),
           rate(now->evictions, before->evictions, elapsed_us),
           rate(now->spills, before->spills, elapsed_us),
           rate(now->unspills, before->unspills, elapsed_us));
    bytes_format_size(now->evicted_bytes, evicted);
    printf(
        "in all    %llu seals, %llu deletes, %llu evictions (%s), %llu spills, %llu reads back\n",
        (unsigned long long)now->seals, (unsigned long long)now->deletes,
        (unsigned long long)now->evictions, evicted, (unsigned long long)now->spills,
        (unsigned long long)now->unspills);
    printf("trouble   %llu requests for memory refused, %llu for want of an index entry, %llu disk "
           "failures, %llu events lost, %llu leases refused\n",
           (unsigned long long)now->out_of_memory, (unsigned long long)now->index_full,
           (unsigned long long)now->spill_failures, (unsigned long long)now->events_lost,
           (unsigned long long)now->leases_refused);
}

/* Of a node that nobody calls, or whose objects have no replicas, lines of zeros tell nothing. */
static bool has_calls(const nigh_node_stats *now)
{
    return (now->calls_begun | now->calls_under_way | now->calls_taken | now->requests_unanswered |
            now->services | now->calls_timed_out | now->calls_busy | now->calls_lost |
            now->calls_retried | now->pairs) != 0;
}

static bool has_collectives(const nigh_node_stats *now)
{
    return (now->collectives_begun | now->collectives_under_way | now->collective_answers |
            now->collective_failures | now->collectives_stale | now->collectives_refused) != 0;
}

static bool has_call_memory(const nigh_node_stats *now)
{
    return (now->bulk_moves | now->bulk_moves_failed | now->call_memory_bytes |
            now->call_memory_refused) != 0;
}

static bool has_replicas(const nigh_node_stats *now)
{
    return (now->replicas_wanted | now->replicas_missing | now->replicas_repaired |
            now->replicas_made | now->replica_failures) != 0;
}

static bool has_spaces(const nigh_node_stats *now)
{
    return (now->spaces | now->space_client_reads | now->space_writes) != 0;
}

static void print_calls(const nigh_node_stats *now, const nigh_node_stats *before,
                        uint64_t elapsed_us)
{
    printf("calls     %llu begun (%.0f a second), %llu under way; %llu requests taken (%.0f a "
           "second), %llu unanswered; %llu services\n"
           "          %llu timed out, %llu refused as too many, %llu lost with a node, %llu made "
           "again; %llu pairs without the node\n",
           (unsigned long long)now->calls_begun,
           rate(now->calls_begun, before->calls_begun, elapsed_us),
           (unsigned long long)now->calls_under_way, (unsigned long long)now->calls_taken,
           rate(now->calls_taken, before->calls_taken, elapsed_us),
           (unsigned long long)now->requests_unanswered, (unsigned long long)now->services,
           (unsigned long long)now->calls_timed_out, (unsigned long long)now->calls_busy,
           (unsigned long long)now->calls_lost, (unsigned long long)now->calls_retried,
           (unsigned long long)now->pairs);
}

static void print_collectives(const nigh_node_stats *now)
{
    printf(
        "to many   %llu calls begun, %llu under way, %llu nodes answered, %llu did not; "
        "refused: %llu of another view, %llu else\n",
        (unsigned long long)now->collectives_begun, (unsigned long long)now->collectives_under_way,
        (unsigned long long)now->collective_answers, (unsigned long long)now->collective_failures,
        (unsigned long long)now->collectives_stale, (unsigned long long)now->collectives_refused);
}

/* The memory that calls bring. */
static void print_call_memory(const nigh_node_stats *now)
{
    char pulled[BYTES_SIZE_TEXT], pushed[BYTES_SIZE_TEXT], made[BYTES_SIZE_TEXT],
        most[BYTES_SIZE_TEXT];

    bytes_format_size(now->bulk_pulled_bytes, pulled);
    bytes_format_size(now->bulk_pushed_bytes, pushed);
    bytes_format_size(now->call_memory_bytes, made);
    bytes_format_size(now->call_memory_limit_bytes, most);
    printf("bulks     %llu moves of memory that calls bring (%s pulled, %s pushed), %llu failed; "
           "%s of %s made, %llu refused\n",
           (unsigned long long)now->bulk_moves, pulled, pushed,
           (unsigned long long)now->bulk_moves_failed, made, most,
           (unsigned long long)now->call_memory_refused);
}

static void print_cluster(const nigh_node_stats *now, const nigh_node_stats *before,
                          uint64_t elapsed_us)
{
    char messages[BYTES_SIZE_TEXT], reads[BYTES_SIZE_TEXT], pushes[BYTES_SIZE_TEXT],
        served[BYTES_SIZE_TEXT];

    bytes_format_size(now->pulled_bytes_two_sided, messages);
    bytes_format_size(now->pulled_bytes_one_sided, reads);
    bytes_format_size(now->pulled_bytes_pushed, pushes);
    bytes_format_size(now->served_bytes, served);
    printf(
        "cluster   %llu links up, %llu objects pulled (%.0f a second; %s in messages, %s read in "
        "place, %s pushed), %s served, %llu lent now; knows who has %llu objects\n",
        (unsigned long long)now->links_up, (unsigned long long)now->pulls,
        rate(now->pulls, before->pulls, elapsed_us), messages, reads, pushes, served,
        (unsigned long long)now->loans, (unsigned long long)now->directory_keys);
    printf("          %llu pulls failed, %llu wrong checksums, %llu loans overdue, %llu conflicts, "
           "%llu handshakes refused\n"
           "          refused: %llu beyond a node's share, %llu claims, %llu announcements\n",
           (unsigned long long)now->pulls_failed, (unsigned long long)now->checksum_failures,
           (unsigned long long)now->loans_overdue, (unsigned long long)now->conflicts,
           (unsigned long long)now->handshakes_refused, (unsigned long long)now->shares_refused,
           (unsigned long long)now->claims_refused, (unsigned long long)now->announcements_refused);
}

/* What the nodes know of each other, and what they keep for each other. */
static void print_members(const nigh_node_stats *now)
{
    char made[BYTES_SIZE_TEXT];

    printf("members   %llu others answer datagrams; %llu suspicions, %llu declared dead, %llu "
           "suspicions of this node refuted, %llu datagrams refused\n",
           (unsigned long long)now->nodes_reached, (unsigned long long)now->nodes_suspected,
           (unsigned long long)now->nodes_found_dead, (unsigned long long)now->suspicions_refuted,
           (unsigned long long)now->datagrams_refused);
    if (now->view_epoch > 0) {
        printf("views     epoch %llu with %llu nodes, %llu is active; %s; led %llu times, %s vote; "
               "%llu seats given, %llu free\n",
               (unsigned long long)now->view_epoch, (unsigned long long)now->view_members,
               (unsigned long long)now->view_active_epoch,
               now->view_quorum != 0 ? "quorum" : "no quorum: cut off from most voters",
               (unsigned long long)now->view_elections, now->view_votes != 0 ? "has a" : "has no",
               (unsigned long long)now->view_seats, (unsigned long long)now->view_seats_free);
    }
    if (has_replicas(now)) {
        bytes_format_size(now->replica_bytes, made);
        printf("replicas  %llu of objects whose count this node keeps, %llu missing, %llu objects "
               "repaired; %llu made here (%s), %llu times in vain\n",
               (unsigned long long)now->replicas_wanted, (unsigned long long)now->replicas_missing,
               (unsigned long long)now->replicas_repaired, (unsigned long long)now->replicas_made,
               made, (unsigned long long)now->replica_failures);
    }
    if (now->directory_servers > 0) {
        printf("directory %llu of %llu servers reached, %llu times lost\n",
               (unsigned long long)now->directory_servers_up,
               (unsigned long long)now->directory_servers,
               (unsigned long long)now->directory_losses);
    }
}

static void print_spaces(const nigh_node_stats *now, const nigh_node_stats *before,
                         uint64_t elapsed_us)
{
    char memory[BYTES_SIZE_TEXT], moved[BYTES_SIZE_TEXT];
    uint64_t reads = now->space_client_reads;

    bytes_format_size(now->space_memory_bytes, memory);
    bytes_format_size(now->space_message_bytes, moved);
    printf("spaces    %llu (%s), %llu threads; %llu reads (%.0f a second), %.2f %% hits; %llu "
           "writes, %llu atomics, %llu locks, %llu more that were kept\n"
           "          %llu blocks asked of other nodes, %llu copies taken away, %llu evicted; %llu "
           "messages, %s of blocks\n",
           (unsigned long long)now->spaces, memory, (unsigned long long)now->space_windows,
           (unsigned long long)reads, rate(reads, before->space_client_reads, elapsed_us),
           reads == 0 ? 0.0 : 100 * (double)now->space_hits / (double)reads,
           (unsigned long long)now->space_writes, (unsigned long long)now->space_atomics,
           (unsigned long long)now->space_locks, (unsigned long long)now->space_locks_kept,
           (unsigned long long)now->space_asks, (unsigned long long)now->space_invalidations,
           (unsigned long long)now->space_evictions, (unsigned long long)now->space_messages,
           moved);
}

static void print_holders(struct cli *cli)
{
    nigh_holder holders[HOLDERS_SHOWN];
    size_t count = 0;

    if (nigh_holders(cli->client, holders, HOLDERS_SHOWN, &count) != NIGH_OK || count == 0) {
        return;
    }
    puts("");
    cli_print_holders(holders, min_size(count, HOLDERS_SHOWN), "HOLDS");
}

static void print_picture(struct cli *cli, const nigh_node_stats *now,
                          const nigh_node_stats *before, uint64_t elapsed_us)
{
    print_text(now, before, elapsed_us);
    if (has_calls(now)) {
        print_calls(now, before, elapsed_us);
    }
    if (has_collectives(now)) {
        print_collectives(now);
    }
    if (has_call_memory(now)) {
        print_call_memory(now);
    }
    if (has_spaces(now)) {
        print_spaces(now, before, elapsed_us);
    }
    if (!cli_is_alone(cli)) {
        print_cluster(now, before, elapsed_us);
        print_members(now);
    }
    print_holders(cli);
}

static int watch(struct cli *cli, bool once, uint64_t delay_us)
{
    nigh_node_stats before = {.struct_size = sizeof before}, now = {.struct_size = sizeof now};
    uint64_t before_us = 0;
    bool screen = !once && !cli->json && isatty(STDOUT_FILENO) == 1;

    for (;;) {
        nigh_status status = nigh_stats(cli->client, &now);
        uint64_t now_us = clock_now_us(&clock_monotonic);

        if (status != NIGH_OK) {
            return cli_failed(cli, status, "cannot ask the node");
        }
        if (cli->json) {
            print_json(&now);
        } else {
            if (screen) {
                fputs("\033[H\033[2J", stdout);
            }
            print_picture(cli, &now, before_us == 0 ? &now : &before, now_us - before_us);
        }
        if (once || fflush(stdout) != 0) {
            return CLI_OK;
        }
        before = now;
        before_us = now_us;
        poll(NULL, 0, (int)(delay_us / 1000));
    }
}

int cli_top(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {{"once", no_argument, NULL, '1'},
                                            {"delay", required_argument, NULL, 'd'},
                                            CLI_COMMON_OPTIONS,
                                            {0}};
    uint64_t delay_us = 1000000;
    bool once = false;
    int option, exit_code = CLI_OK;

    while ((option = cli_next_option(cli, argc, argv, ":1d:" CLI_COMMON_SHORT, options)) != -1) {
        if (option == '1') {
            once = true;
        } else if (option == 'd') {
            if (bytes_parse_duration(optarg, &delay_us) != NIGH_OK || delay_us < 10000 ||
                delay_us > 3600000000) {
                return cli_usage(cli, "--delay '%s' is not a time from 10ms to 1h", optarg);
            }
        } else if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            return exit_code;
        }
    }
    if (argc > optind) {
        return cli_usage(cli, "top takes no argument");
    }
    exit_code = cli_open(cli, NIGH_OPEN_READ_ONLY);
    return exit_code != CLI_OK ? exit_code : watch(cli, once, delay_us);
}
