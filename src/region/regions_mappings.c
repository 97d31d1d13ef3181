/* SPDX-License-Identifier: Apache-2.0 */
/* See regions.h. A name as clients of this node use it. */
#include <stdlib.h>

#include "region/regions_internal.h"

static struct regions_op *op_of(struct region_op *op)
{
    return container_of(op, struct regions_op, op);
}

static void post(void *context, struct region_op *op, const struct region_post *todo)
{
    const struct region *region = context;

    regions_shell_of(region)->post(regions_shell_of(region)->context, op_of(op), todo);
}

static nigh_status judge(void *context, struct region_op *op,
                         const struct region_descriptor *descriptor)
{
    const struct region *region = context;

    return regions_shell_of(region)->judge(regions_shell_of(region)->context, op_of(op),
                                           descriptor);
}

static void ended(void *context, struct region_op *op, nigh_status status)
{
    const struct region *region = context;

    regions_shell_of(region)->ended(regions_shell_of(region)->context, op_of(op), status);
}

/* The numbers of a node's incarnations grow, but where its clock went back. One that was not met
 * yet, and is below one that has ended, counts as ended until it is met: the home is asked then. */
static bool has_ended(void *context, uint32_t node, uint32_t incarnation)
{
    const struct region *region = context;
    const struct regions_peer *peer = &region->regions->peers[node];

    if (incarnation == peer->incarnation) {
        return peer->is_dead;
    }
    return incarnation < peer->incarnation || incarnation <= peer->ended;
}

static void told(void *context)
{
    struct region *region = context;

    if (regions_shell_of(region)->told != NULL) {
        regions_shell_of(region)->told(regions_shell_of(region)->context, region);
    }
}

nigh_status regions_need_mapping(struct region *region, uint32_t room)
{
    struct region_mapping *mapping = region->mapping;
    struct region_mapping_config config = {.room = room,
                                           .has_lease = region->regions->has_lease,
                                           .shell = {.context = region,
                                                     .send = regions_send,
                                                     .post = post,
                                                     .judge = judge,
                                                     .ended = ended,
                                                     .has_ended = has_ended,
                                                     .told = told}};
    uint32_t home = regions_home_of(region);

    if (mapping != NULL) {
        if (room <= mapping->config.room) {
            return NIGH_OK;
        }
        if (!regions_grow_descriptor(&mapping->config.now, mapping->config.room, room)) {
            return NIGH_NO_RESOURCES;
        }
        mapping->config.room = room;
        return NIGH_OK;
    }
    mapping = calloc(1, sizeof(*mapping));
    if (mapping == NULL || !regions_grow_descriptor(&config.now, 0, room)) {
        free(mapping);
        return NIGH_NO_RESOURCES;
    }
    region->mapping = mapping;
    region->regions->counts.mappings++;
    region_mapping_init(mapping, &config);
    if (regions_is_near(region->regions, home)) {
        region_mapping_home(mapping, home);
    }
    return NIGH_OK;
}

void regions_free_mapping(struct region *region)
{
    regions_free_locks(region);
    free(region->mapping->config.now);
    free(region->mapping);
    region->mapping = NULL;
    region->regions->counts.mappings--;
}

nigh_status regions_open(struct regions *regions, const char *name, uint32_t name_bytes,
                         struct region **region)
{
    nigh_status status;

    *region = regions_get(regions, name, name_bytes, &status);
    if (*region == NULL) {
        return status;
    }
    status = regions_need_mapping(*region, 0);
    if (status != NIGH_OK) {
        regions_tidy(*region);
        return status;
    }
    (*region)->opens++;
    return NIGH_OK;
}

void regions_close(struct region *region)
{
    NIGH_ASSERT(region->opens > 0);
    region->opens--;
    regions_tidy(region);
}

/* Who comes after a region that is gone uses the one that there is now. */
static void renew(struct region *region)
{
    struct region_mapping *mapping = region->mapping;
    uint32_t home = regions_home_of(region);

    if (mapping->is_gone && mapping->op_count == 0) {
        struct region_mapping_config config = mapping->config;

        region_mapping_init(mapping, &config);
        if (regions_is_near(region->regions, home)) {
            region_mapping_home(mapping, home);
        }
    }
}

void regions_begin(struct region *region, struct regions_op *op)
{
    NIGH_ASSERT(region->opens > 0);
    renew(region);
    op->region = region;
    region_mapping_begin(region->mapping, &op->op);
}

void regions_posted(struct regions_op *op, uint32_t chunk, struct region_window handle,
                    nigh_status status)
{
    region_mapping_posted(op->region->mapping, &op->op, chunk, handle, status);
}

void regions_end_op(struct regions_op *op, nigh_status status)
{
    region_mapping_cancel(op->region->mapping, &op->op, status);
}

void region_has_changed(struct region *region)
{
    if (region->mapping != NULL && !region->mapping->is_gone) {
        region_mapping_home(region->mapping, region->mapping->home);
    }
}

const struct region_descriptor *region_known(const struct region *region)
{
    return region->mapping->config.now;
}

bool region_place(const struct region *region, uint32_t chunk, struct region_place *place)
{
    const struct region_mapping *mapping = region->mapping;
    const struct region_descriptor *now = mapping->config.now;

    if (mapping->is_gone || !region_mapping_has(mapping, chunk))
        return false;
    *place = (struct region_place){.node = now->chunks[chunk].node,
                                   .incarnation = now->chunks[chunk].incarnation,
                                   .handle = now->chunks[chunk].handle};
    return true;
}

bool region_is_at(const struct region *region, uint32_t chunk, const struct region_place *place)
{
    const struct region_descriptor *now = region->mapping->config.now;

    return region_mapping_has(region->mapping, chunk) && now->chunks[chunk].node == place->node &&
           now->chunks[chunk].incarnation == place->incarnation &&
           region_window_equal(now->chunks[chunk].handle, place->handle);
}

struct region *regions_look(struct regions *regions, const char *name, uint32_t name_bytes)
{
    return regions_find(regions, name, name_bytes);
}

bool region_is_freed(const struct region *region)
{
    return region->mapping->is_freed;
}

struct region_hearers *region_hearers(struct region *region)
{
    return &region->hearers;
}
