/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See regions.h. The names whose home this node is, in order: a treap, whose shape comes of the
 * names' hashes and of the lane's own seed, so that whoever chooses names does not choose it. A
 * list of all of them takes no memory, and no walk over those before.
 */
#include "base/hash.h"
#include "region/list_wire.h"
#include "region/regions_internal.h"

static uint64_t weight_of(const struct region *region)
{
    return hash_u64(region->hash ^ region->regions->config.seed);
}

static int compare(const struct region *region, const char *name, uint32_t name_bytes)
{
    return region_name_compare(region->name, region->name_bytes, name, name_bytes);
}

/* Of two that weigh as much, the one that was there first is above. */
void regions_order_add(struct region *region)
{
    struct region **at = &region->regions->order, *cut, **low, **high;
    uint64_t weight = weight_of(region);

    while (*at != NULL && weight_of(*at) >= weight) {
        at = compare(*at, region->name, region->name_bytes) < 0 ? &(*at)->behind : &(*at)->before;
    }
    cut = *at;
    *at = region;
    low = &region->before;
    high = &region->behind;
    while (cut != NULL) {
        if (compare(cut, region->name, region->name_bytes) < 0) {
            *low = cut;
            low = &cut->behind;
            cut = *low;
        } else {
            *high = cut;
            high = &cut->before;
            cut = *high;
        }
    }
    *low = *high = NULL;
}

void regions_order_remove(struct region *region)
{
    struct region **at = &region->regions->order;
    struct region *low = region->before, *high = region->behind;

    while (*at != region) {
        at = compare(*at, region->name, region->name_bytes) < 0 ? &(*at)->behind : &(*at)->before;
    }
    while (low != NULL && high != NULL) {
        if (weight_of(low) >= weight_of(high)) {
            *at = low;
            at = &low->behind;
            low = *at;
        } else {
            *at = high;
            at = &high->before;
            high = *at;
        }
    }
    *at = low != NULL ? low : high;
    region->before = region->behind = NULL;
}

struct region *regions_order_next(const struct regions *regions, const char *name,
                                  uint32_t name_bytes)
{
    struct region *at = regions->order, *next = NULL;

    while (at != NULL) {
        if (compare(at, name, name_bytes) > 0) {
            next = at;
            at = at->before;
        } else {
            at = at->behind;
        }
    }
    return next;
}

/* ---- told ----------------------------------------------------------------- */

nigh_status regions_may_list(const struct regions *regions, uint64_t epoch)
{
    if (epoch != regions->epoch) {
        return NIGH_STALE;
    }
    if (!regions->has_lease) {
        return NIGH_NO_QUORUM;
    }
    for (uint32_t rank = 0; rank < regions->config.nodes; rank++) {
        if (regions_is_alive(regions, rank) && !regions->peers[rank].has_told) {
            return NIGH_BUSY;
        }
    }
    return NIGH_OK;
}

uint64_t regions_epoch(const struct regions *regions)
{
    return regions->epoch;
}

/* What a home knows of its region; NULL: there is none. */
static const struct region_descriptor *told_of(const struct region *region)
{
    const struct region_descriptor *now = region->home->config.now;

    return region->home->state != REGION_HOME_OPEN || region_descriptor_is_none(now) ||
                   region_descriptor_is_freed(now)
               ? NULL
               : now;
}

uint32_t regions_list(const struct regions *regions, const struct region_list_ask *ask,
                      uint8_t *bytes)
{
    const char *through = ask->after;
    uint32_t through_bytes = ask->after_bytes;
    struct region_list_writer to;

    region_list_begin(&to, bytes);
    for (uint32_t looks = 0; looks < LIMIT_REGION_LIST_LOOKS; looks++) {
        const struct region *region = regions_order_next(regions, through, through_bytes);
        const struct region_descriptor *now = region == NULL ? NULL : told_of(region);
        uint32_t rights = now == NULL ? 0 : region_descriptor_rights(now, ask->uid, ask->gid);

        if (region == NULL) {
            return region_list_end(&to, NULL, 0);
        }
        if (rights != 0 && !region_list_put(&to, now, rights)) {
            break;
        }
        through = region->name;
        through_bytes = region->name_bytes;
    }
    return region_list_end(&to, through, through_bytes);
}

static bool are_in_order(const struct region *region)
{
    return (region->before == NULL ||
            (compare(region->before, region->name, region->name_bytes) < 0 &&
             weight_of(region->before) <= weight_of(region))) &&
           (region->behind == NULL ||
            (compare(region->behind, region->name, region->name_bytes) > 0 &&
             weight_of(region->behind) <= weight_of(region)));
}

/* Each that is in it is found by its name; how many these are. */
bool regions_order_is_valid(const struct regions *regions)
{
    const struct region *region = regions_order_next(regions, "", 0);
    uint64_t count = 0;

    for (; region != NULL; count++) {
        if (region->home == NULL || !are_in_order(region) || count > regions->counts.homes) {
            return false;
        }
        region = regions_order_next(regions, region->name, region->name_bytes);
    }
    return count == regions->counts.homes;
}
