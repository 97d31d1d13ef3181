/* SPDX-License-Identifier: Apache-2.0 */
/* See page.h. Names are what people gave: they come out as JSON strings, and the page shows them as
 * text. */
#include "daemon/page.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "nigh/nigh.h"

const struct page_file *page_find(const char *path)
{
    for (size_t n = 0; n < PAGE_FILES; n++) {
        if (strcmp(page_files[n].path, path) == 0)
            return &page_files[n];
    }
    return NULL;
}

/* ---- the node, and the others --------------------------------------------- */

static void print_node(struct json *json, const struct picture *picture, const struct asker *asker)
{
    json_object_open(json, "node");
    json_string(json, "version", NIGH_VERSION_STRING);
    for (size_t n = 0; n < picture->node_count; n++) {
        if (picture->nodes[n].is_self != 0)
            json_u64(json, "rank", picture->nodes[n].rank);
    }
    json_u64(json, "asked_us", picture->asked_us);
    json_bool(json, "sees_all", asker->sees_all);
    json_object_close(json);
}

static void print_stats(struct json *json, const nigh_node_stats *stats)
{
    json_object_open(json, "stats");
#define PRINT(name, text) json_u64(json, #name, stats->name);
    NIGH_NODE_STATS_TABLE(PRINT)
#undef PRINT
    json_object_close(json);
}

static const char *state_word(const nigh_node_info *node)
{
    if (node->leaving != 0)
        return "leaving";
    switch (node->state) {
    case NIGH_NODE_IS_UP: return "up";
    case NIGH_NODE_IS_LOST: return "lost";
    case NIGH_NODE_IS_DEAD: return "dead";
    default: return "away";
    }
}

static const char *life_word(nigh_node_life life)
{
    switch (life) {
    case NIGH_NODE_SUSPECTED: return "suspect";
    case NIGH_NODE_FOUND_DEAD: return "dead";
    case NIGH_NODE_HAS_LEFT: return "left";
    default: return "alive";
    }
}

static const char *view_word(nigh_node_view view)
{
    return view == NIGH_NODE_IN_VIEW ? "in" : view == NIGH_NODE_OUT_OF_VIEW ? "out" : "none";
}

static void print_nodes(struct json *json, const struct picture *picture)
{
    json_array_open(json, "nodes");
    for (size_t n = 0; n < picture->node_count; n++) {
        const nigh_node_info *node = &picture->nodes[n];

        json_object_open(json, NULL);
        json_u64(json, "rank", node->rank);
        json_name(json, node->name);
        json_string(json, "address", node->address);
        json_bool(json, "self", node->is_self != 0);
        json_string(json, "state", state_word(node));
        json_string(json, "life", life_word(node->life));
        json_string(json, "view", view_word(node->view));
        json_bool(json, "votes", node->votes != 0);
        json_u64(json, "incarnation", node->incarnation);
        json_string(json, "refused",
                    node->refused == NIGH_OK ? "" : nigh_status_name(node->refused));
        json_object_close(json);
    }
    json_array_close(json);
}

/* ---- memory --------------------------------------------------------------- */

static void print_sums(struct json *json, const struct session_show_pool *pool)
{
    json_u64(json, "bytes", pool->bytes);
    json_u64(json, "leased_bytes", pool->leased_bytes);
    json_u64(json, "pinned_bytes", pool->pinned_bytes);
    json_u64(json, "objects", pool->objects);
    json_u64(json, "objects_unsealed", pool->unsealed);
    json_u64(json, "objects_spilled", pool->spilled);
    json_u64(json, "objects_deleting", pool->deleting);
    json_u64(json, "index_entries", pool->entries);
    json_u64(json, "index_used", pool->entries_used);
}

static void print_pools(struct json *json, const struct picture *picture, const struct asker *asker)
{
    struct session_show_pool hidden;
    uint32_t hidden_count = picture_hidden_pools(picture, asker, &hidden);

    json_array_open(json, "pools");
    for (uint32_t n = 0; n < LIMIT_POOLS; n++) {
        const struct session_show_pool *pool = &picture->pools[n];

        if (!picture_sees_pool(picture, asker, n))
            continue;
        json_object_open(json, NULL);
        json_name(json, pool->name);
        json_u64(json, "uid", pool->uid);
        json_u64(json, "gid", pool->gid);
        json_u64(json, "mode", pool->mode);
        if (pool->quota_bytes != 0)
            json_u64(json, "quota_bytes", pool->quota_bytes);
        print_sums(json, pool);
        json_object_close(json);
    }
    json_array_close(json);
    if (hidden_count > 0) {
        json_object_open(json, "pools_hidden");
        json_u64(json, "count", hidden_count);
        print_sums(json, &hidden);
        json_object_close(json);
    }
}

/* ---- objects -------------------------------------------------------------- */

static void print_id(struct json *json, const uint8_t id[LIMIT_ID_BYTES])
{
    char text[2 * LIMIT_ID_BYTES + 1];

    for (uint32_t n = 0; n < LIMIT_ID_BYTES; n++)
        (void)snprintf(text + 2 * (size_t)n, 3, "%02x", id[n]);
    json_string(json, "id", text);
}

static const char *object_word(uint32_t state)
{
    return state == NIGH_OBJECT_SPILLED    ? "spilled"
           : state == NIGH_OBJECT_DELETING ? "deleting"
                                           : "sealed";
}

static void print_holders(struct json *json, const struct session_show_object *object)
{
    json_u64(json, "holder_count", object->holder_count);
    json_array_open(json, "holders");
    for (uint32_t n = 0; n < object->holder_count && n < SESSION_SHOW_HOLDERS; n++) {
        const struct session_show_holder *holder = &object->holders[n];
        char name[sizeof(holder->name) + 1];

        (void)snprintf(name, sizeof(name), "%.*s", (int)sizeof(holder->name), holder->name);
        json_object_open(json, NULL);
        json_i64(json, "pid", holder->pid);
        json_u64(json, "uid", holder->uid);
        json_name(json, name);
        json_u64(json, "views", holder->views);
        json_object_close(json);
    }
    json_array_close(json);
}

static void print_hottest(struct json *json, const struct picture *picture,
                          const struct asker *asker)
{
    uint32_t hidden = 0;

    json_array_open(json, "hottest");
    for (uint32_t n = 0; n < picture->object_count; n++) {
        const struct session_show_object *object = &picture->objects[n];

        if (!picture_sees_pool(picture, asker, object->pool)) {
            hidden++;
            continue;
        }
        json_object_open(json, NULL);
        json_string(json, "pool", picture->pools[object->pool].name);
        print_id(json, object->id);
        json_name(json, object->name);
        json_string(json, "state", object_word(object->state));
        json_u64(json, "data_size", object->data_size);
        json_bool(json, "copy", object->copy != 0);
        json_u64(json, "uses", object->uses);
        print_holders(json, object);
        json_object_close(json);
    }
    json_array_close(json);
    json_u64(json, "hottest_hidden", hidden);
    json_u64(json, "uses_seen", picture->uses_seen);
}

/* ---- transfers ------------------------------------------------------------ */

static const char *way_word(uint32_t way)
{
    switch (way) {
    case SESSION_WAY_INLINE: return "inline";
    case SESSION_WAY_SENT: return "sent";
    case SESSION_WAY_READ: return "read";
    case SESSION_WAY_PUSHED: return "pushed";
    default: return "";
    }
}

static void print_transfer(struct json *json, const struct picture *picture,
                           const struct session_show_transfer *at)
{
    bool is_now = (at->flags & SESSION_TRANSFER_NOW) != 0;

    json_object_open(json, NULL);
    json_string(json, "pool", picture->pools[at->pool].name);
    print_id(json, at->id);
    json_name(json, at->name);
    json_string(json, "direction", (at->flags & SESSION_TRANSFER_SERVES) != 0 ? "out" : "in");
    if (at->rank != UINT32_MAX)
        json_u64(json, "rank", at->rank);
    json_string(json, "way", way_word(at->way));
    if (at->bytes != 0)
        json_u64(json, "bytes", at->bytes);
    if (!is_now || (at->flags & SESSION_TRANSFER_SERVES) == 0 || at->way != SESSION_WAY_READ)
        json_u64(json, "done_bytes", at->done_bytes);
    if (at->took_us != 0) {
        json_u64(json, "took_us", at->took_us);
        json_u64(json, "bytes_per_second",
                 (uint64_t)((double)at->done_bytes * 1e6 / (double)at->took_us));
    }
    if (!is_now)
        json_u64(json, "ago_us", at->ago_us);
    json_object_close(json);
}

/* Those that who asks may know of; how many there are besides. */
static uint64_t print_some(struct json *json, const char *key, const struct picture *picture,
                           const struct asker *asker, const struct session_show_transfer *some,
                           uint32_t count)
{
    uint64_t hidden = 0;

    json_array_open(json, key);
    for (uint32_t n = 0; n < count; n++) {
        if (picture_sees_pool(picture, asker, some[n].pool))
            print_transfer(json, picture, &some[n]);
        else
            hidden++;
    }
    json_array_close(json);
    return hidden;
}

static void print_transfers(struct json *json, const struct picture *picture,
                            const struct asker *asker)
{
    json_object_open(json, "transfers");
    json_u64(json, "now_hidden",
             print_some(json, "now", picture, asker, picture->now, picture->now_count));
    json_u64(json, "now_left", picture->now_left);
    json_u64(json, "past_hidden",
             print_some(json, "past", picture, asker, picture->past, picture->past_count));
    json_object_close(json);
}

/* ---- links ---------------------------------------------------------------- */

static void print_points(struct json *json, const struct session_show_curve *curve, uint32_t path)
{
    json_array_open(json, path == 0 ? "sent" : "read");
    for (uint32_t n = 0; n < SESSION_SHOW_CLASSES; n++) {
        const struct session_show_point *point = &curve->points[n];

        if (point->count[path] == 0)
            continue;
        json_object_open(json, NULL);
        json_u64(json, "bytes", (uint64_t)point->kib[path] * 1024);
        json_u64(json, "took_us", point->took_us[path]);
        json_u64(json, "count", point->count[path]);
        json_object_close(json);
    }
    json_array_close(json);
}

static const char *calls_word(nigh_link_calls calls)
{
    return calls == NIGH_LINK_CALLS_SENT      ? "sent"
           : calls == NIGH_LINK_CALLS_WRITTEN ? "written"
                                              : "unknown";
}

static const nigh_link_info *find_link(const struct picture *picture,
                                       const struct session_show_curve *curve)
{
    for (size_t n = 0; n < picture->link_count; n++) {
        if (picture->links[n].rank == curve->rank && picture->links[n].rail == curve->rail)
            return &picture->links[n];
    }
    return NULL;
}

static void print_links(struct json *json, const struct picture *picture)
{
    json_array_open(json, "links");
    for (uint32_t n = 0; n < picture->curve_count; n++) {
        const struct session_show_curve *curve = &picture->curves[n];
        const nigh_link_info *link = find_link(picture, curve);

        json_object_open(json, NULL);
        json_u64(json, "rank", curve->rank);
        json_u64(json, "rail", curve->rail);
        json_string(json, "crossover",
                    curve->crossover_bytes == 0                   ? "unknown"
                    : curve->crossover_bytes == NIGH_NO_CROSSOVER ? "none"
                                                                  : "known");
        if (curve->crossover_bytes != 0 && curve->crossover_bytes != NIGH_NO_CROSSOVER)
            json_u64(json, "crossover_bytes", curve->crossover_bytes);
        if (link != NULL)
            json_string(json, "calls", calls_word(link->calls));
        print_points(json, curve, 0);
        print_points(json, curve, 1);
        json_object_close(json);
    }
    json_array_close(json);
    json_bool(json, "more_links", picture->more_curves);
}

/* ---- calls ---------------------------------------------------------------- */

static void print_times(struct json *json, const struct picture *picture)
{
    static const char *const names[SESSION_TIMES] = {"here", "there", "served"};

    json_object_open(json, "calls");
    for (uint32_t whose = 0; whose < SESSION_TIMES; whose++) {
        const struct session_show_times *times = &picture->times[whose];

        json_object_open(json, names[whose]);
        json_u64(json, "sum_us", times->sum_us);
        json_array_open(json, "buckets");
        for (uint32_t n = 0; n < SESSION_TIMES_BUCKETS; n++)
            json_u64(json, NULL, times->buckets[n]);
        json_array_close(json);
        json_object_close(json);
    }
    json_object_close(json);
}

/* ---- regions -------------------------------------------------------------- */

static void print_chunks(struct json *json, const nigh_region_info *info)
{
    json_array_open(json, "chunks");
    for (uint32_t n = 0; n < info->chunk_count && n < NIGH_REGION_CHUNKS; n++) {
        json_i64(json, NULL, info->ranks[n] == NIGH_REGION_LOST ? -1 : (int64_t)info->ranks[n]);
    }
    json_array_close(json);
}

static void print_regions(struct json *json, const struct picture *picture,
                          const struct asker *asker)
{
    nigh_status status = picture->region_status;
    uint64_t hidden = 0;

    if (status != NIGH_OK && status != NIGH_PEER_LOST) {
        json_null(json, "regions");
        json_string(json, "regions_why", nigh_status_string(status));
        return;
    }
    json_array_open(json, "regions");
    for (size_t n = 0; n < picture->region_count; n++) {
        const nigh_region_entry *entry = &picture->regions[n];

        if (!picture_sees_region(asker, &entry->info)) {
            hidden++;
            continue;
        }
        json_object_open(json, NULL);
        json_name(json, entry->name);
        json_u64(json, "home", entry->home);
        json_u64(json, "size", entry->info.size);
        json_u64(json, "chunk_size", entry->info.chunk_size);
        json_u64(json, "uid", entry->info.uid);
        json_bool(json, "mappable", (entry->info.flags & NIGH_REGION_MAPPABLE) != 0);
        json_bool(json, "donated", (entry->info.flags & NIGH_REGION_DONATED) != 0);
        print_chunks(json, &entry->info);
        json_object_close(json);
    }
    json_array_close(json);
    json_u64(json, "regions_hidden", hidden);
    json_bool(json, "regions_more", picture->more_regions != 0);
    json_bool(json, "regions_in_part", status == NIGH_PEER_LOST);
    json_u64(json, "regions_age_us",
             picture->asked_us > picture->regions_us ? picture->asked_us - picture->regions_us : 0);
}

/* ---- spaces --------------------------------------------------------------- */

static const char *durability_word(nigh_space_durability durability)
{
    switch (durability) {
    case NIGH_SPACE_DURABLE_ASYNC: return "async";
    case NIGH_SPACE_DURABLE_SYNC: return "sync";
    default: return "none";
    }
}

static void print_space_counts(struct json *json, const nigh_space_counts *counts)
{
    json_object_open(json, "here");
    json_u64(json, "reads", counts->reads);
    json_u64(json, "hits", counts->hits);
    json_u64(json, "locks", counts->locks);
    json_u64(json, "locks_kept", counts->kept);
    json_u64(json, "writes", counts->writes);
    json_u64(json, "atomics", counts->atomics);
    json_u64(json, "asks", counts->asks);
    json_u64(json, "invalidations", counts->invalidations);
    json_u64(json, "evictions", counts->evictions);
    json_u64(json, "messages", counts->messages);
    json_u64(json, "block_bytes", counts->block_bytes);
    json_object_close(json);
}

static void print_space(struct json *json, const struct picture_space *space)
{
    const nigh_space_info *info = &space->info;

    json_object_open(json, NULL);
    json_name(json, info->name);
    json_u64(json, "home_size", info->home_size);
    json_u64(json, "cache_size", info->cache_size);
    json_u64(json, "used_size", info->used_size);
    json_u64(json, "block_size", info->block_size);
    json_u64(json, "uid", info->uid);
    json_string(json, "durability", durability_word(info->durability));
    json_array_open(json, "nodes");
    for (uint32_t rank = 0; rank < 64; rank++) {
        if ((info->ranks >> rank & 1) != 0)
            json_u64(json, NULL, rank);
    }
    json_array_close(json);
    if (space->is_counted)
        print_space_counts(json, &space->counts);
    json_object_close(json);
}

static void print_spaces(struct json *json, const struct picture *picture,
                         const struct asker *asker)
{
    uint64_t hidden = 0;

    if (picture->space_status != NIGH_OK) {
        json_null(json, "spaces");
        json_string(json, "spaces_why",
                    picture->space_status == NIGH_UNSUPPORTED
                        ? "this node serves none (nighd --space-memory)"
                        : nigh_status_string(picture->space_status));
        return;
    }
    json_array_open(json, "spaces");
    for (size_t n = 0; n < picture->space_count; n++) {
        if (picture_sees_space(asker, &picture->spaces[n].info))
            print_space(json, &picture->spaces[n]);
        else
            hidden++;
    }
    json_array_close(json);
    json_u64(json, "spaces_hidden", hidden);
    json_bool(json, "spaces_more", picture->more_spaces != 0);
}

/* ---- all ------------------------------------------------------------------ */

void page_print(FILE *file, const struct picture *picture, const struct asker *asker)
{
    struct json json = {.file = file, .is_dense = true};

    json_object_open(&json, NULL);
    print_node(&json, picture, asker);
    print_stats(&json, &picture->stats);
    print_nodes(&json, picture);
    print_pools(&json, picture, asker);
    print_hottest(&json, picture, asker);
    print_transfers(&json, picture, asker);
    print_links(&json, picture);
    print_times(&json, picture);
    print_regions(&json, picture, asker);
    print_spaces(&json, picture, asker);
    json_object_close(&json);
}

void page_print_failure(FILE *file, nigh_status status)
{
    struct json json = {.file = file, .is_dense = true};

    json_object_open(&json, NULL);
    json_string(&json, "error", nigh_status_name(status));
    json_string(&json, "why", nigh_status_string(status));
    json_object_close(&json);
}
