/* SPDX-License-Identifier: Apache-2.0 */
/* See metrics.h. */
#include "daemon/metrics.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/json.h"

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

/* What names say is anybody's, and one byte that is no UTF-8 has Prometheus refuse all of an
 * answer: such a byte is told as \\xff, and a backslash as two, so that other names are other
 * labels. Both are quoted once more, as Prometheus has it. */
static void print_label(FILE *file, const char *text)
{
    while (*text != '\0') {
        size_t length = json_utf8_length(text);

        if (length == 0)
            fprintf(file, "\\\\x%02x", (unsigned char)*text);
        else if (*text == '\n')
            fputs("\\n", file);
        else if (*text == '\\')
            fputs("\\\\\\\\", file);
        else if (*text == '"')
            fputs("\\\"", file);
        else
            fwrite(text, 1, length, file);
        text += length == 0 ? 1 : length;
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

/* ---- pools ---------------------------------------------------------------- */

/* A number of a pool. */
typedef uint64_t pool_number(const struct session_show_pool *pool);

static uint64_t pool_bytes(const struct session_show_pool *pool)
{
    return pool->bytes;
}

static uint64_t pool_leased(const struct session_show_pool *pool)
{
    return pool->leased_bytes;
}

static uint64_t pool_pinned(const struct session_show_pool *pool)
{
    return pool->pinned_bytes;
}

static void print_pool(FILE *file, const char *series, const char *name, const char *state,
                       uint64_t value)
{
    fprintf(file, "nigh_%s{pool=\"", series);
    print_label(file, name);
    fputs("\"", file);
    if (state != NULL)
        fprintf(file, ",state=\"%s\"", state);
    fprintf(file, "} %" PRIu64 "\n", value);
}

static void print_pool_states(FILE *file, const struct session_show_pool *pool)
{
    print_pool(file, "pool_objects", pool->name, "sealed", pool->objects);
    print_pool(file, "pool_objects", pool->name, "unsealed", pool->unsealed);
    print_pool(file, "pool_objects", pool->name, "spilled", pool->spilled);
    print_pool(file, "pool_objects", pool->name, "deleting", pool->deleting);
}

void metrics_print_pools(FILE *file, const struct picture *picture, const struct asker *asker)
{
    static const struct {
        const char *name, *text;
        pool_number *number;
    } numbers[] = {
        {"pool_bytes", "in objects of the pool in memory, unsealed ones included", pool_bytes},
        {"pool_leased_bytes", "leased to clients of the pool and not yet sealed", pool_leased},
        {"pool_pinned_bytes", "of them, that nigh_pin or replicas keep", pool_pinned},
    };
    struct session_show_pool hidden;
    bool has_hidden = picture_hidden_pools(picture, asker, &hidden) > 0;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        print_head(file, numbers[i].name, "", numbers[i].text, true);
        for (uint32_t n = 0; n < LIMIT_POOLS; n++) {
            const struct session_show_pool *pool = &picture->pools[n];

            if (picture_sees_pool(picture, asker, n))
                print_pool(file, numbers[i].name, pool->name, NULL, numbers[i].number(pool));
        }
        if (has_hidden)
            print_pool(file, numbers[i].name, "", NULL, numbers[i].number(&hidden));
    }
    print_head(file, "pool_objects", "", "objects of the pool; no name: of pools of others", true);
    for (uint32_t n = 0; n < LIMIT_POOLS; n++) {
        if (picture_sees_pool(picture, asker, n))
            print_pool_states(file, &picture->pools[n]);
    }
    if (has_hidden)
        print_pool_states(file, &hidden);
}

/* ---- times ---------------------------------------------------------------- */

static void print_histogram(FILE *file, const char *name, const char *label,
                            const struct session_show_times *times)
{
    uint64_t count = 0;

    for (uint32_t n = 0; n < SESSION_TIMES_BUCKETS; n++) {
        count += times->buckets[n];
        fprintf(file, "nigh_%s_bucket{%s%sle=\"", name, label, label[0] != '\0' ? "," : "");
        if (n + 1 < SESSION_TIMES_BUCKETS)
            fprintf(file, "%u.%06u", (1u << n) / 1000000, (1u << n) % 1000000);
        else
            fputs("+Inf", file);
        fprintf(file, "\"} %" PRIu64 "\n", count);
    }
    fprintf(file, "nigh_%s_sum%s%s%s %" PRIu64 ".%06" PRIu64 "\n", name,
            label[0] != '\0' ? "{" : "", label, label[0] != '\0' ? "}" : "",
            times->sum_us / 1000000, times->sum_us % 1000000);
    fprintf(file, "nigh_%s_count%s%s%s %" PRIu64 "\n", name, label[0] != '\0' ? "{" : "", label,
            label[0] != '\0' ? "}" : "", count);
}

void metrics_print_times(FILE *file, const struct session_show_times times[SESSION_TIMES])
{
    fputs("# HELP nigh_call_seconds calls that a service answered, by whose it was\n"
          "# TYPE nigh_call_seconds histogram\n",
          file);
    print_histogram(file, "call_seconds", "to=\"here\"", &times[SESSION_TIMES_HERE]);
    print_histogram(file, "call_seconds", "to=\"there\"", &times[SESSION_TIMES_THERE]);
    fputs("# HELP nigh_service_seconds from a request to the answer of a service here\n"
          "# TYPE nigh_service_seconds histogram\n",
          file);
    print_histogram(file, "service_seconds", "", &times[SESSION_TIMES_SERVED]);
}

/* ---- spaces --------------------------------------------------------------- */

static void print_space(FILE *file, const char *name, const struct picture_space *space,
                        uint64_t value)
{
    fprintf(file, "nigh_%s{space=\"", name);
    print_label(file, space->info.name);
    fprintf(file, "\"} %" PRIu64 "\n", value);
}

void metrics_print_spaces(FILE *file, const struct picture *picture, const struct asker *asker)
{
    bool are_known = picture->space_status == NIGH_OK;

    print_head(file, "one_space_reads", "_total", "of a block each, by clients here, of a space",
               false);
    for (size_t n = 0; are_known && n < picture->space_count; n++) {
        const struct picture_space *space = &picture->spaces[n];

        if (space->is_counted && picture_sees_space(asker, &space->info))
            print_space(file, "one_space_reads_total", space, space->counts.reads);
    }
    print_head(file, "one_space_hits", "_total", "of them, those that found it where they read it",
               false);
    for (size_t n = 0; are_known && n < picture->space_count; n++) {
        const struct picture_space *space = &picture->spaces[n];

        if (space->is_counted && picture_sees_space(asker, &space->info))
            print_space(file, "one_space_hits_total", space, space->counts.hits);
    }
}
