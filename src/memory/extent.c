/* SPDX-License-Identifier: Apache-2.0 */
/* See extent.h. What a lane does with its extents; sets are made in extent_make.c. */
#define LOG_MODULE "extent"
#include "memory/extent.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/fd.h"
#include "base/log.h"
#include "memory/extent_internal.h"
#include "memory/memfd.h"

/* The pages of an extent that has none yet: near its lane, where it is known where that is. */
static nigh_status extent_fill(struct extent_set *set, uint32_t extent, int fd)
{
    int node = set->lane[set->extents[extent].lane].numa_node;

    if (node != NUMA_NONE && !numa_is_chosen() &&
        numa_prefer(fd, set->extent_bytes, node) != NIGH_OK &&
        !atomic_exchange(&set->told_refusal, true))
        LOG_WARN("memory cannot be asked of a NUMA node: it comes from anywhere",
                 "node=%d errno=%d", node, errno);
    return memfd_populate(fd, set->extent_bytes);
}

nigh_status extent_make(struct extent_set *set, uint32_t extent, bool huge)
{
    struct extent *at = &set->extents[extent];
    char name[32];
    int fd, read_fd;
    nigh_status status;

    NIGH_ASSERT(!at->present);
    snprintf(name, sizeof(name), "nigh-extent-%u", extent);
    status =
        memfd_create_sealed(name, set->extent_bytes, MEMFD_BARE | (huge ? MEMFD_HUGE : 0), &fd);
    if (status != NIGH_OK)
        return status;
    status = extent_fill(set, extent, fd);
    if (status == NIGH_OK)
        status = memfd_reopen_read_only(fd, &read_fd);
    if (status != NIGH_OK)
        goto close_fd;
    status = memfd_map_at(extent_address(set, extent), fd, set->extent_bytes,
                          MEMFD_WRITABLE | MEMFD_PREFAULT);
    if (status != NIGH_OK)
        goto close_read_fd;
    at->fd = fd;
    at->read_fd = read_fd;
    at->huge = huge;
    at->present = true;
    return NIGH_OK;

close_read_fd:
    fd_close(&read_fd);
close_fd:
    fd_close(&fd);
    return status;
}

static bool extent_is_far(const struct extent_set *set, uint32_t extent, int node)
{
    const uint64_t pages[] = {0, set->extent_bytes / 2, set->extent_bytes - 1};
    const uint8_t *bytes = extent_address(set, extent);
    bool is_far = false;

    for (uint32_t i = 0; i < ARRAY_LENGTH(pages); i++) {
        int lies = numa_of_page(bytes + pages[i]);

        is_far |= lies != NUMA_NONE && lies != node;
    }
    return is_far;
}

uint64_t extent_set_far_bytes(const struct extent_set *set)
{
    uint64_t far = 0;

    for (uint32_t i = 0; i < LIMIT_EXTENTS; i++) {
        const struct extent *at = &set->extents[i];
        int node = set->lane[at->lane].numa_node;

        if (at->present && node != NUMA_NONE && extent_is_far(set, i, node))
            far += set->extent_bytes;
    }
    return far;
}

void extent_recount(struct extent_set *set, uint32_t lane)
{
    struct extent_lane *counts = &set->lane[lane];
    uint32_t first = extent_lane_first(set, lane);
    uint32_t run = 0;

    counts->free = 0;
    counts->longest_run = 0;
    for (uint32_t i = first; i < first + counts->used; i++) {
        run = extent_is_free(set, i) ? run + 1 : 0;
        counts->free += run > 0;
        counts->longest_run = max_u32(counts->longest_run, run);
    }
}

static void extent_tell(struct extent_set *set, uint32_t extent, uint64_t owner)
{
    if (set->changed != NULL)
        set->changed(set->changed_context, extent, owner);
}

void extent_take_at(struct extent_set *set, uint32_t lane, uint64_t owner, uint32_t first,
                    uint32_t n)
{
    NIGH_ASSERT(owner != EXTENT_NO_OWNER);
    for (uint32_t i = first; i < first + n; i++) {
        NIGH_ASSERT(extent_is_free(set, i) && set->extents[i].lane == lane);
        extent_tell(set, i, owner);
        /* Release: who finds the owner finds the descriptors. */
        atomic_store_explicit(&set->extents[i].owner, owner, memory_order_release);
    }
    extent_recount(set, lane);
}

nigh_status extent_take(struct extent_set *set, uint32_t lane, uint64_t owner, uint32_t n,
                        uint32_t *first)
{
    uint32_t base = extent_lane_first(set, lane);
    uint32_t end = base + set->lane[lane].used;
    uint32_t longest = set->lane[lane].longest_run;
    uint32_t run = 0;

    NIGH_ASSERT(n > 0);
    if (longest < n)
        return NIGH_OUT_OF_MEMORY;
    for (uint32_t i = base; i < end; i++) {
        uint32_t start;

        run = extent_is_free(set, i) ? run + 1 : 0;
        if (run < longest)
            continue;
        start = i + 1 - run;
        if (start > base && set->extents[start - 1].present)
            start += (longest - n) / 2; /* who is before may grow */
        extent_take_at(set, lane, owner, start, n);
        *first = start;
        return NIGH_OK;
    }
    NIGH_ASSERT(!"the longest run is somewhere");
    return NIGH_OUT_OF_MEMORY;
}

uint32_t extent_free_count(const struct extent_set *set, uint32_t lane)
{
    return set->lane[lane].free;
}

/* Gives an extent's pages back to the machine. What clients still have mapped reads as zeroes. */
static nigh_status extent_punch(struct extent_set *set, uint32_t extent)
{
    nigh_status status = memfd_unmap_at(extent_address(set, extent), set->extent_bytes);

    return status == NIGH_OK ? memfd_punch(set->extents[extent].fd, set->extent_bytes) : status;
}

static nigh_status extent_announce(struct extent_set *set, uint32_t extent)
{
    const struct extent_watch *watch = set->lane[set->extents[extent].lane].watch;

    return watch == NULL ? NIGH_OK : watch->made(watch->context, extent);
}

/* Makes an extent that the lane's watch takes, or none. */
static nigh_status extent_make_watched(struct extent_set *set, uint32_t extent, bool huge)
{
    struct extent *at = &set->extents[extent];
    nigh_status status = extent_make(set, extent, huge);

    if (status != NIGH_OK)
        return status;
    status = extent_announce(set, extent);
    if (status == NIGH_OK)
        return NIGH_OK;
    /* Address space that cannot be taken out again stays mapped, and is mapped over. */
    (void)memfd_unmap_at(extent_address(set, extent), set->extent_bytes);
    at->present = false;
    fd_close(&at->fd);
    fd_close(&at->read_fd);
    return status;
}

/* Undoes extent_punch, when nothing came in the extent's place; marks it lost when that fails too.
 */
static void extent_restore(struct extent_set *set, uint32_t extent, uint64_t owner)
{
    struct extent *at = &set->extents[extent];

    at->lost = memfd_populate(at->fd, set->extent_bytes) != NIGH_OK ||
               memfd_map_at(extent_address(set, extent), at->fd, set->extent_bytes,
                            MEMFD_WRITABLE | MEMFD_PREFAULT) != NIGH_OK ||
               extent_announce(set, extent) != NIGH_OK;
    if (at->lost)
        LOG_ERROR("an extent is lost until a restart: the machine's memory is used up",
                  "extent=%u errno=%d", extent, errno);
    atomic_store_explicit(&at->owner, owner, memory_order_release);
}

nigh_status extent_retire(struct extent_set *set, uint32_t extent, uint32_t *number)
{
    struct extent *at = &set->extents[extent];
    struct extent_lane *counts = &set->lane[at->lane];
    const struct extent_watch *watch = counts->watch;
    uint64_t owner = atomic_load_explicit(&at->owner, memory_order_relaxed);
    uint32_t fresh = extent_lane_first(set, at->lane) + counts->used;
    nigh_status status;
    int fd = at->fd, read_fd = at->read_fd;

    NIGH_ASSERT(at->present && !at->lost && owner != EXTENT_NO_OWNER);
    if (counts->used == LIMIT_EXTENTS / set->lanes) {
        LOG_WARN("no extent numbers are left: memory stays with the uid that has it",
                 "lane=%u numbers=%u", at->lane, counts->used);
        return NIGH_LIMIT;
    }
    /* First nobody may get at it any more; only then its pages, and at last its descriptors, go. */
    atomic_store_explicit(&at->owner, EXTENT_NO_OWNER, memory_order_seq_cst);
    if (watch != NULL)
        watch->goes(watch->context, extent);
    status = extent_punch(set, extent);
    set->extents[fresh].lane = at->lane;
    if (status == NIGH_OK)
        status = extent_make_watched(set, fresh, at->huge);
    if (status != NIGH_OK) {
        LOG_WARN("no fresh memory in place of a retired extent", "extent=%u errno=%d", extent,
                 errno);
        extent_restore(set, extent, owner);
        return status;
    }
    counts->used++;
    extent_tell(set, fresh, EXTENT_NO_OWNER);
    at->present = false;
    extent_tell(set, extent, EXTENT_NO_OWNER);
    fd_close(&fd);
    fd_close(&read_fd);
    extent_recount(set, at->lane);
    *number = fresh;
    return NIGH_OK;
}
