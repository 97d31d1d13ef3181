/* SPDX-License-Identifier: Apache-2.0 */
/* See regions.h. The names, and what is told of members, views and leases. */
#include <stdlib.h>
#include <string.h>

#include "base/blake.h"
#include "base/hash.h"
#include "region/regions_internal.h"

/* ---- create, destroy ------------------------------------------------------ */

/* Room for names, with the first: who has no regions has none for them. */
static nigh_status need_names(struct regions *regions)
{
    struct region **all = NULL;
    nigh_status status = NIGH_OK;

    if (regions->all != NULL) {
        return NIGH_OK;
    }
    all = calloc(regions->config.names, sizeof(struct region *));
    status = all == NULL ? NIGH_NO_RESOURCES
                         : table_init(&regions->names, regions->config.names, regions->config.seed);
    if (status != NIGH_OK) {
        free(all);
        return status;
    }
    regions->all = all;
    return NIGH_OK;
}

static nigh_status make(struct regions *regions, const struct regions_config *config)
{
    regions->peers = calloc(config->nodes, sizeof(*regions->peers));
    if (regions->peers == NULL) {
        return NIGH_NO_RESOURCES;
    }
    regions->config = *config;
    list_init(&regions->holding);
    list_init(&regions->busy);
    for (uint32_t rank = 0; rank < config->nodes; rank++) {
        list_init(&regions->peers[rank].letters);
    }
    regions->peers[config->self].incarnation = config->incarnation;
    return NIGH_OK;
}

nigh_status regions_create(const struct regions_config *config, struct regions **made)
{
    struct regions *regions;
    nigh_status status;

    *made = NULL;
    if (config->nodes == 0 || config->nodes > LIMIT_NODES || config->self >= config->nodes ||
        config->names == 0 || config->names > LIMIT_REGION_NAMES || config->incarnation == 0) {
        return NIGH_INVALID;
    }
    regions = calloc(1, sizeof(*regions));
    status = regions == NULL ? NIGH_NO_RESOURCES : make(regions, config);
    if (status != NIGH_OK) {
        regions_destroy(regions);
        return status;
    }
    *made = regions;
    return NIGH_OK;
}

static void free_region(struct region *region)
{
    regions_free_machines(region);
    free(region);
}

void regions_destroy(struct regions *regions)
{
    if (regions == NULL) {
        return;
    }
    for (uint32_t n = 0; n < regions->count; n++) {
        free_region(regions->all[n]);
    }
    for (uint32_t rank = 0; regions->peers != NULL && rank < regions->config.nodes; rank++) {
        regions_forget_letters(regions, rank);
    }
    if (regions->all != NULL) {
        table_fini(&regions->names);
    }
    free(regions->all);
    free(regions->peers);
    free(regions);
}

/* ---- names ---------------------------------------------------------------- */

uint64_t regions_hash(const char *name, uint32_t name_bytes)
{
    uint8_t id[20];

    blake_id20(name, name_bytes, id);
    return hash_id20(id);
}

static bool is_named(const struct region *region, const char *name, uint32_t name_bytes)
{
    return region->name_bytes == name_bytes && memcmp(region->name, name, name_bytes) == 0;
}

struct region *regions_find(struct regions *regions, const char *name, uint32_t name_bytes)
{
    struct region *region =
        regions->all == NULL ? NULL
                             : table_find_pointer(&regions->names, regions_hash(name, name_bytes));

    while (region != NULL && !is_named(region, name, name_bytes)) {
        region = region->same;
    }
    return region;
}

struct region *regions_get(struct regions *regions, const char *name, uint32_t name_bytes,
                           nigh_status *status)
{
    struct region *region = regions_find(regions, name, name_bytes);
    uint64_t *first;

    NIGH_ASSERT(name_bytes > 0 && name_bytes <= LIMIT_REGION_NAME_BYTES);
    if (region != NULL) {
        return region;
    }
    *status = need_names(regions);
    if (*status != NIGH_OK) {
        return NULL;
    }
    region = regions->count == regions->config.names ? NULL : calloc(1, sizeof(*region));
    if (region == NULL) {
        *status = regions->count == regions->config.names ? NIGH_LIMIT : NIGH_NO_RESOURCES;
        return NULL;
    }
    region->regions = regions;
    list_init(&region->hearers.all);
    region->hash = regions_hash(name, name_bytes);
    region->name_bytes = (uint8_t)name_bytes;
    memcpy(region->name, name, name_bytes);
    first = table_find(&regions->names, region->hash);
    if (first == NULL) {
        NIGH_ASSERT(table_insert_pointer(&regions->names, region->hash, region) == NIGH_OK);
    } else {
        region->same = (struct region *)(uintptr_t)*first;
        *first = (uint64_t)(uintptr_t)region;
    }
    region->place = regions->count;
    regions->all[regions->count++] = region;
    regions->counts.names = regions->count;
    return region;
}

static void take_out_of_names(struct regions *regions, struct region *region)
{
    uint64_t *first = table_find(&regions->names, region->hash);
    struct region *at = (struct region *)(uintptr_t)*first;

    if (at != region) {
        while (at->same != region) {
            at = at->same;
        }
        at->same = region->same;
    } else if (region->same != NULL) {
        *first = (uint64_t)(uintptr_t)region->same;
    } else {
        (void)table_remove(&regions->names, region->hash, NULL);
    }
}

/* The last one comes to its place: who has passed that, and not the last one, is told of it now. */
void regions_put(struct region *region)
{
    struct regions *regions = region->regions;
    uint32_t place = region->place;

    if (region->home != NULL || region->holder != NULL || region->mapping != NULL ||
        region->barriers != NULL) {
        return;
    }
    take_out_of_names(regions, region);
    regions->all[place] = regions->all[--regions->count];
    regions->all[place]->place = place;
    regions->counts.names = regions->count;
    LIST_FOREACH(node, &regions->busy)
    {
        struct regions_peer *peer = container_of(node, struct regions_peer, link);

        if (peer->cursor > regions->count) {
            peer->cursor = regions->count;
        } else if (peer->walks && peer->cursor > place) {
            regions_say_again(regions->all[place], (uint32_t)(peer - regions->peers));
        }
    }
    free(region);
}

const char *region_name(const struct region *region, uint32_t *name_bytes)
{
    *name_bytes = region->name_bytes;
    return region->name;
}

void *region_data(const struct region *region)
{
    return region->data;
}

void region_set_data(struct region *region, void *data)
{
    region->data = data;
}

/* ---- members -------------------------------------------------------------- */

/* From the last to the first, as the one that is visited may go. */
#define REGIONS_FOREACH(region, regions)                                                     \
    for (uint32_t at_ = (regions)->count; at_ > 0; at_ = min_u32(at_ - 1, (regions)->count)) \
        for (struct region *region = (regions)->all[at_ - 1]; (region) != NULL; (region) = NULL)

/* Of a barrier that it takes part in nobody waits for it any more. */
static void break_barriers(struct regions *regions, uint32_t rank)
{
    REGIONS_FOREACH(region, regions)
    {
        if (region->barriers != NULL) {
            region_barriers_dead(region->barriers, rank);
        }
    }
}

void regions_view(struct regions *regions, uint64_t epoch, const struct region_set *members)
{
    if (epoch <= regions->epoch) {
        return;
    }
    regions->epoch = epoch;
    REGION_SET_FOREACH(rank, &regions->members)
    {
        if (!region_set_has(members, rank)) {
            break_barriers(regions, rank);
        }
    }
    regions->members = *members;
    for (uint32_t rank = 0; rank < regions->config.nodes; rank++) {
        regions->peers[rank].has_told = regions->peers[rank].walks = false;
    }
    regions->peers[regions->config.self].is_up = true;
    regions->peers[regions->config.self].epoch = epoch;
    REGIONS_FOREACH(region, regions)
    {
        regions_end_home(region, NIGH_BUSY);
        regions_place_barriers(region);
        regions_tidy(region);
    }
    for (uint32_t rank = 0; rank < regions->config.nodes; rank++) {
        if (rank == regions->config.self) {
            regions_forget_letters(regions, rank); /* of the view before */
        } else if (regions->peers[rank].is_up) {
            regions_send_view(regions, rank);
        }
        regions_begin_walk(regions, rank);
    }
}

void regions_lease(struct regions *regions, bool has_lease)
{
    if (regions->has_lease == has_lease) {
        return;
    }
    regions->has_lease = has_lease;
    REGIONS_FOREACH(region, regions)
    {
        if (region->home != NULL) {
            region_home_lease(region->home, has_lease);
        }
        if (region->holder != NULL) {
            region_holder_lease(region->holder, has_lease, regions_home_of(region));
        }
        if (region->mapping != NULL) {
            region_mapping_lease(region->mapping, has_lease);
        }
        if (region->locks != NULL) {
            region_lock_node_lease(region->locks, has_lease);
        }
        regions_tidy(region);
    }
}

void regions_dead(struct regions *regions, uint32_t rank)
{
    struct regions_peer *peer = &regions->peers[rank];

    NIGH_ASSERT(rank != regions->config.self);
    regions_link(regions, rank, false);
    peer->is_dead = true;
    peer->ended = max_u32(peer->ended, peer->incarnation);
    peer->has_told = false;
    break_barriers(regions, rank);
    REGIONS_FOREACH(region, regions)
    {
        if (region->home != NULL) {
            if (region->lock_home != NULL) {
                region_lock_home_forget(region->lock_home, rank, true);
            }
            region_home_dead(region->home, rank);
        }
        if (region->mapping != NULL) {
            region_mapping_dead(region->mapping, rank);
        }
        regions_tidy(region);
    }
}

void regions_alive(struct regions *regions, uint32_t rank, uint32_t incarnation)
{
    struct regions_peer *peer = &regions->peers[rank];

    NIGH_ASSERT(rank != regions->config.self && incarnation != 0);
    if (!peer->is_dead && peer->incarnation != 0 && peer->incarnation != incarnation) {
        regions_dead(regions, rank);
    }
    peer->incarnation = incarnation;
    if (!peer->is_dead || !region_set_has(&regions->members, rank)) {
        peer->is_dead = false;
        return;
    }
    peer->is_dead = false;
    REGIONS_FOREACH(region, regions)
    {
        if (region->home != NULL) {
            region_home_alive(region->home, rank);
        }
    }
}

void regions_drop(struct regions *regions)
{
    REGIONS_FOREACH(region, regions)
    {
        if (region->holder != NULL) {
            region_holder_drop(region->holder);
        }
        if (region->locks != NULL) {
            region_lock_node_lose(region->locks, NIGH_LOCK_LOST);
        }
        if (region->barriers != NULL) {
            region_barriers_end(region->barriers, NIGH_PEER_LOST);
        }
        regions_tidy(region);
    }
}

void regions_link(struct regions *regions, uint32_t rank, bool is_up)
{
    struct regions_peer *peer = &regions->peers[rank];

    NIGH_ASSERT(rank != regions->config.self && (!is_up || peer->incarnation != 0));
    for (uint32_t n = 0; n < regions->count; n++) {
        if (regions->all[n]->barriers != NULL) {
            region_barriers_unlink(regions->all[n]->barriers, rank);
        }
    }
    regions_forget_letters(regions, rank);
    peer->is_up = is_up;
    peer->epoch = 0;
    peer->walks = peer->has_lost = peer->owes_view = false;
    if (is_up && regions->epoch != 0) {
        regions_send_view(regions, rank);
    }
}

/* ---- changes -------------------------------------------------------------- */

void regions_ask(struct regions *regions, const char *name, uint32_t name_bytes,
                 struct region_ask *ask)
{
    const struct regions_shell *shell = &regions->config.shell;
    nigh_status status = NIGH_STALE;
    struct region *region = NULL;

    if (shell->home(shell->context, regions_hash(name, name_bytes)) == regions->config.self) {
        region = regions_get(regions, name, name_bytes, &status);
    }
    if (region != NULL) {
        status = regions_need_home(region, 0);
    }
    if (region != NULL && status == NIGH_OK) {
        region_home_ask(region->home, ask);
    } else {
        shell->answered(shell->context, ask, status);
    }
    if (region != NULL) {
        regions_tidy(region);
    }
}

void regions_cancel(struct regions *regions, const char *name, uint32_t name_bytes,
                    struct region_ask *ask, nigh_status status)
{
    struct region *region = regions_find(regions, name, name_bytes);

    NIGH_ASSERT(region != NULL && region->home != NULL);
    region_home_cancel(region->home, ask, status);
    regions_tidy(region);
}

void regions_held(struct regions *regions)
{
    LIST_FOREACH_SAFE(node, &regions->holding)
    {
        struct region *region = container_of(node, struct region, holding);

        if (region->holds_long) {
            region_home_held(region->home);
            regions_tidy(region);
        } else {
            region->holds_long = true;
        }
    }
}

bool regions_are_holding(const struct regions *regions)
{
    return !list_empty(&regions->holding);
}

const struct regions_counts *regions_counts(const struct regions *regions)
{
    return &regions->counts;
}

bool regions_are_valid(const struct regions *regions)
{
    for (uint32_t n = 0; n < regions->count; n++) {
        if (regions->all[n]->place != n || !region_is_valid(regions->all[n])) {
            return false;
        }
    }
    for (uint32_t rank = 0; rank < regions->config.nodes; rank++) {
        const struct regions_peer *peer = &regions->peers[rank];
        uint32_t count = 0, again = 0;

        LIST_FOREACH(node, &peer->letters)
        {
            count++;
            again += container_of(node, struct regions_letter, link)->is_again ? 1 : 0;
        }
        if (count != peer->count || again != peer->again || count - again > REGIONS_LETTERS) {
            return false;
        }
    }
    return (regions->all == NULL || table_is_valid(&regions->names)) &&
           regions_order_is_valid(regions);
}
