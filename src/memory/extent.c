/* SPDX-License-Identifier: Apache-2.0 */
/* See extent.h. What a lane does with its extents; sets are made in extent_make.c. */
#define LOG_MODULE "extent"
#include "memory/extent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
                 "node=%d errno=%d do=\"allow mbind in the filter of system calls, and that node "
                 "in cpuset.mems; else it is slower, no more\"",
                 node, errno);
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
            start += longest - n; /* who is before may grow */
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

uint32_t extent_unused(const struct extent_set *set, uint32_t lane)
{
    uint32_t first = extent_lane_first(set, lane);

    for (uint32_t i = first; i < first + LIMIT_EXTENTS / set->lanes; i++) {
        if (extent_is_unused(set, i))
            return i;
    }
    return LIMIT_EXTENTS;
}

/* ---- memory that moves ---- */

/* Gives an extent's pages back to the machine. What clients still have mapped reads as zeroes. */
static nigh_status extent_punch(struct extent_set *set, uint32_t extent)
{
    nigh_status status = memfd_unmap_at(extent_address(set, extent), set->extent_bytes);

    return status == NIGH_OK ? memfd_punch(set->extents[extent].fd, set->extent_bytes) : status;
}

/* Maps what is in an extent's memfd. */
static nigh_status extent_map(struct extent_set *set, uint32_t extent)
{
    return memfd_map_at(extent_address(set, extent), set->extents[extent].fd, set->extent_bytes,
                        MEMFD_WRITABLE | MEMFD_PREFAULT);
}

/* Pages for one that was punched. */
static nigh_status extent_refill(struct extent_set *set, uint32_t extent)
{
    nigh_status status = extent_fill(set, extent, set->extents[extent].fd);

    return status == NIGH_OK ? extent_map(set, extent) : status;
}

static nigh_status extent_announce(struct extent_set *set, uint32_t extent)
{
    const struct extent_watch *watch = set->lane[set->extents[extent].lane].watch;

    return watch == NULL ? NIGH_OK : watch->made(watch->context, extent);
}

/* How memory comes to a number. */
enum extent_arrival {
    EXTENT_ARRIVES_AS_IT_IS, /* the memfd of what moves, with its pages */
    EXTENT_ARRIVES_ANEW,     /* a fresh memfd */
    EXTENT_ARRIVES_AGAIN     /* the dormant memfd, with fresh pages */
};

static enum extent_arrival extent_arrival_of(const struct extent_set *set, uint32_t from,
                                             uint32_t to)
{
    if (set->extents[to].absence == EXTENT_DORMANT)
        return EXTENT_ARRIVES_AGAIN;
    /* Who never had an owner is mapped by nobody. */
    return extent_is_free(set, from) ? EXTENT_ARRIVES_AS_IT_IS : EXTENT_ARRIVES_ANEW;
}

/* The memory goes from where it was, and no further than the machine. */
static nigh_status extent_leave(struct extent_set *set, uint32_t from, enum extent_arrival arrival)
{
    return arrival == EXTENT_ARRIVES_AS_IT_IS
               ? memfd_unmap_at(extent_address(set, from), set->extent_bytes)
               : extent_punch(set, from);
}

/* And comes; nothing is there when it does not. */
static nigh_status extent_arrive(struct extent_set *set, uint32_t from, uint32_t to,
                                 enum extent_arrival arrival)
{
    struct extent *at = &set->extents[from], *there = &set->extents[to];
    nigh_status status = NIGH_OK;

    if (arrival == EXTENT_ARRIVES_ANEW) {
        status = extent_make(set, to, at->huge);
    } else if (arrival == EXTENT_ARRIVES_AGAIN) {
        status = extent_refill(set, to);
    } else {
        there->fd = at->fd;
        there->read_fd = at->read_fd;
        there->huge = at->huge;
        status = extent_map(set, to);
    }
    if (status == NIGH_OK)
        status = extent_announce(set, to);
    there->present = status == NIGH_OK;
    if (status == NIGH_OK)
        return NIGH_OK;
    /* Address space that cannot be taken out again stays mapped, and is mapped over. */
    (void)memfd_unmap_at(extent_address(set, to), set->extent_bytes);
    if (arrival == EXTENT_ARRIVES_AGAIN) {
        (void)memfd_punch(there->fd, set->extent_bytes);
    } else if (arrival == EXTENT_ARRIVES_ANEW) {
        fd_close(&there->fd);
        fd_close(&there->read_fd);
    }
    if (arrival != EXTENT_ARRIVES_AGAIN)
        there->fd = there->read_fd = -1;
    return status;
}

/* Undoes extent_leave, when nothing came of it; marks the extent lost when that fails too. */
static void extent_restore(struct extent_set *set, uint32_t extent, uint64_t owner)
{
    struct extent *at = &set->extents[extent];

    at->lost = memfd_populate(at->fd, set->extent_bytes) != NIGH_OK ||
               extent_map(set, extent) != NIGH_OK || extent_announce(set, extent) != NIGH_OK;
    if (at->lost)
        LOG_ERROR("an extent is lost until a restart: the machine's memory is used up",
                  "extent=%u errno=%d do=\"give the machine more memory, or nighd less, and start "
                  "the node again\"",
                  extent, errno);
    atomic_store_explicit(&at->owner, owner, memory_order_release);
}

/* Says that memory has come, and whose it is. */
static void extent_arrived(struct extent_set *set, uint32_t to)
{
    struct extent *there = &set->extents[to];
    struct extent_lane *counts = &set->lane[there->lane];
    bool again = there->absence == EXTENT_DORMANT;
    uint64_t owner = again ? there->dormant_owner : EXTENT_NO_OWNER;

    counts->used = max_u32(counts->used, to - extent_lane_first(set, there->lane) + 1);
    counts->dormant -= again;
    extent_tell(set, to, owner);
    atomic_store_explicit(&there->owner, owner, memory_order_release);
}

/* Says that memory has gone. */
static void extent_left(struct extent_set *set, uint32_t from, uint64_t owner,
                        enum extent_arrival arrival)
{
    struct extent *at = &set->extents[from];
    int fd = at->fd, read_fd = at->read_fd;

    at->present = false;
    at->absence = owner == EXTENT_NO_OWNER ? EXTENT_UNUSED : EXTENT_DORMANT;
    at->dormant_owner = owner;
    set->lane[at->lane].dormant += owner != EXTENT_NO_OWNER;
    extent_tell(set, from, owner);
    if (owner != EXTENT_NO_OWNER)
        return;
    at->fd = at->read_fd = -1;
    if (arrival != EXTENT_ARRIVES_AS_IT_IS) {
        fd_close(&fd);
        fd_close(&read_fd);
    }
}

nigh_status extent_move(struct extent_set *set, uint32_t from, uint32_t to)
{
    struct extent *at = &set->extents[from];
    const struct extent_watch *watch = set->lane[at->lane].watch;
    uint64_t owner = atomic_load_explicit(&at->owner, memory_order_relaxed);
    enum extent_arrival arrival = extent_arrival_of(set, from, to);
    nigh_status status;

    NIGH_ASSERT(at->present && !at->lost && !set->extents[to].present &&
                (extent_is_unused(set, to) || set->extents[to].absence == EXTENT_DORMANT));
    /* First nobody may get at it any more; only then its pages go. */
    atomic_store_explicit(&at->owner, EXTENT_NO_OWNER, memory_order_seq_cst);
    if (watch != NULL)
        watch->goes(watch->context, from);
    status = extent_leave(set, from, arrival);
    if (status == NIGH_OK)
        status = extent_arrive(set, from, to, arrival);
    if (status != NIGH_OK) {
        LOG_WARN("memory cannot be moved",
                 "extent=%u to=%u errno=%d do=\"free memory on the machine, or in the node's "
                 "control group\"",
                 from, to, errno);
        extent_restore(set, from, owner);
        extent_recount(set, at->lane);
        return status;
    }
    /* Under two numbers a node that dies right here would have more memory than it may, and one
     * memfd would be two owners' at the next start; under none it is memory that is left behind. */
    extent_left(set, from, owner, arrival);
    extent_arrived(set, to);
    extent_recount(set, at->lane);
    return NIGH_OK;
}

void extent_forget(struct extent_set *set, uint32_t lane, uint32_t pool)
{
    uint32_t first = extent_lane_first(set, lane);

    for (uint32_t i = first; i < first + set->lane[lane].used && set->lane[lane].dormant > 0; i++) {
        struct extent *at = &set->extents[i];

        if (at->present || at->absence != EXTENT_DORMANT ||
            extent_owner_pool(at->dormant_owner) != pool)
            continue;
        at->absence = EXTENT_UNUSED;
        extent_tell(set, i, EXTENT_NO_OWNER);
        fd_close(&at->fd);
        fd_close(&at->read_fd);
        set->lane[lane].dormant--;
    }
}

/* ---- memory that a former node left ---- */

struct extent_file {
    dev_t device;
    ino_t inode;
};

static bool extent_file_of(int fd, struct extent_file *file)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return false;
    *file = (struct extent_file){.device = st.st_dev, .inode = st.st_ino};
    return true;
}

nigh_status extent_empty_absent(const int *fds, size_t n, const int *present, size_t present_n)
{
    struct extent_file *files = calloc(present_n + 1, sizeof(*files)), file;
    nigh_status status = files != NULL ? NIGH_OK : NIGH_NO_RESOURCES;
    uint64_t bytes;

    for (size_t i = 0; i < present_n && status == NIGH_OK; i++)
        status = extent_file_of(present[i], &files[i]) ? NIGH_OK : NIGH_PROTOCOL;
    for (size_t i = 0; i < n && status == NIGH_OK; i++) {
        bool is_present = false;

        if (memfd_size(fds[i], &bytes) != NIGH_OK || !extent_file_of(fds[i], &file))
            continue;
        for (size_t k = 0; k < present_n && !is_present; k++)
            is_present = files[k].device == file.device && files[k].inode == file.inode;
        if (!is_present)
            status = memfd_punch(fds[i], bytes);
    }
    free(files);
    return status;
}
