/* SPDX-License-Identifier: Apache-2.0 */
/* See metrics.h. */
#include "daemon/metrics.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

/* What goes up and down, or is set; everything else only grows. */
static bool is_gauge(const char *name)
{
    static const char *const gauges[] = {
        "memory_bytes",
        "used_bytes",
        "leased_bytes",
        "unsealed_bytes",
        "objects",
        "objects_unsealed",
        "objects_spilled",
        "objects_deleting",
        "spilled_bytes",
        "sessions",
        "waiting",
        "index_entries",
        "index_bytes",
        "uptime_us",
        "loans",
        "links_up",
        "links_writing_calls",
        "directory_keys",
        "pinned_bytes",
        "rdma_lanes",
        "lanes",
        "memory_far_bytes",
        "spill_free_bytes",
        "spill_bytes",
        "index_used",
        "replicas_wanted",
        "replicas_missing",
        "replica_bytes",
        "view_epoch",
        "view_active_epoch",
        "view_members",
        "view_quorum",
        "nodes_reached",
        "directory_servers",
        "directory_servers_up",
        "calls_under_way",
        "requests_unanswered",
        "services",
        "collectives_under_way",
        "call_memory_bytes",
        "call_memory_limit_bytes",
        "pairs",
        "view_seats",
        "view_seats_free",
        "view_votes",
        "view_unkept",
        "region_chunks",
        "region_memory_bytes",
        "region_memory_limit_bytes",
        "region_homes",
        "regions_mapped",
        "region_low_limit_bytes",
        "region_maps",
        "region_kept_bytes",
        "spaces",
        "space_memory_bytes",
        "space_memory_limit_bytes",
        "space_windows",
        "space_waiting",
        "space_blocks_used",
        "space_frames_used",
        "space_blocks_lost",
    };

    for (size_t n = 0; n < sizeof(gauges) / sizeof(gauges[0]); n++) {
        if (strcmp(name, gauges[n]) == 0)
            return true;
    }
    return false;
}

static void print_head(FILE *file, const char *name, const char *suffix, const char *text,
                       bool gauge)
{
    fprintf(file, "# HELP nigh_%s%s %s\n# TYPE nigh_%s%s %s\n", name, suffix, text, name, suffix,
            gauge ? "gauge" : "counter");
}

static void print_stat(FILE *file, const char *name, const char *text, uint64_t value)
{
    bool gauge = is_gauge(name);
    size_t length = strlen(name);

    if (length > 3 && strcmp(name + length - 3, "_us") == 0) {
        char base[64];

        (void)snprintf(base, sizeof(base), "%.*s_seconds", (int)(length - 3), name);
        print_head(file, base, "", text, gauge);
        fprintf(file, "nigh_%s %" PRIu64 ".%06" PRIu64 "\n", base, value / 1000000,
                value % 1000000);
        return;
    }
    print_head(file, name, gauge ? "" : "_total", text, gauge);
    fprintf(file, "nigh_%s%s %" PRIu64 "\n", name, gauge ? "" : "_total", value);
}

void metrics_print_stats(FILE *file, const nigh_node_stats *stats)
{
#define PRINT(name, text) print_stat(file, #name, text, stats->name);
    NIGH_NODE_STATS_TABLE(PRINT)
#undef PRINT
}

/* Addresses come from a list that the cluster's owner wrote; they are quoted all the same. */
static void print_label(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        fputc(*text == '\n' ? ' ' : *text, file);
    }
}

static void print_member(FILE *file, const char *name, const nigh_node_info *node, uint64_t value)
{
    fprintf(file, "nigh_%s{rank=\"%u\",address=\"", name, node->rank);
    print_label(file, node->address);
    fprintf(file, "\"} %" PRIu64 "\n", value);
}

void metrics_print_nodes(FILE *file, const nigh_node_info *nodes, size_t count)
{
    print_head(file, "member_up", "", "1: this node is joined with that one, or is it", true);
    for (size_t n = 0; n < count; n++) {
        print_member(file, "member_up", &nodes[n],
                     nodes[n].is_self != 0 || nodes[n].state == NIGH_NODE_IS_UP ? 1 : 0);
    }
    print_head(file, "member_dead", "", "1: that node is taken for dead", true);
    for (size_t n = 0; n < count; n++)
        print_member(file, "member_dead", &nodes[n], nodes[n].state == NIGH_NODE_IS_DEAD ? 1 : 0);
    print_head(file, "member_leaving", "", "1: that node leaves: it hands over what only it has",
               true);
    for (size_t n = 0; n < count; n++)
        print_member(file, "member_leaving", &nodes[n], nodes[n].leaving);
    print_head(file, "member_in_view", "", "1: that node is in the view; none: there are no views",
               true);
    for (size_t n = 0; n < count; n++) {
        if (nodes[n].view != NIGH_NODE_NO_VIEW)
            print_member(file, "member_in_view", &nodes[n], nodes[n].view == NIGH_NODE_IN_VIEW);
    }
    print_head(file, "member_incarnation", "", "grows with every start of that node", true);
    for (size_t n = 0; n < count; n++)
        print_member(file, "member_incarnation", &nodes[n], nodes[n].incarnation);
}

void metrics_print_links(FILE *file, const nigh_link_info *links, size_t count)
{
    print_head(file, "link_crossover_bytes", "",
               "objects of so many bytes and more are read from that node's memory", true);
    for (size_t n = 0; n < count; n++) {
        if (links[n].crossover_bytes == 0)
            continue; /* not known yet */
        fprintf(file, "nigh_link_crossover_bytes{rank=\"%u\",rail=\"%u\"} ", links[n].rank,
                links[n].rail);
        if (links[n].crossover_bytes == NIGH_NO_CROSSOVER) {
            fputs("+Inf\n", file);
        } else {
            fprintf(file, "%" PRIu64 "\n", links[n].crossover_bytes);
        }
    }
    print_head(file, "link_calls_written", "", "1: calls are written there, 0: sent", true);
    for (size_t n = 0; n < count; n++) {
        if (links[n].calls != NIGH_LINK_CALLS_UNKNOWN)
            fprintf(file, "nigh_link_calls_written{rank=\"%u\",rail=\"%u\"} %d\n", links[n].rank,
                    links[n].rail, links[n].calls == NIGH_LINK_CALLS_WRITTEN);
    }
}
