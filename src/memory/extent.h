/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extents: the memory of a node, cut into memfds that are mapped side by side in one arena.
 *
 * All of it is reserved and populated at start, after a look at what the machine and the cgroup
 * grant, so that no later touch can fault for want of memory: a node that cannot have its memory
 * refuses to start. An extent that was given to a (pool, writer uid) stays with it: a writer may
 * keep its mapping for ever. It can only be retired: its pages are punched out and a fresh memfd
 * under a number never used before takes its place. Every lane has its own range of numbers
 * (extent_lane_first), so that lanes share nothing here and fresh numbers of one lane are adjacent.
 *
 * Descriptors: `fd` is writable and for processes of the writer's uid; `read_fd` is opened
 * read-only and for readers. The memfds have mode 0600, the node's uid, and the seals F_SEAL_SHRINK
 * | F_SEAL_GROW | F_SEAL_SEAL.
 */
#ifndef MEMORY_EXTENT_H
#define MEMORY_EXTENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "memory/numa.h"
#include "nigh/status.h"

enum extent_huge {
    EXTENT_HUGE_WHERE_GRANTED = 0,
    EXTENT_HUGE_REQUIRED = 1,
    EXTENT_HUGE_NEVER = 2
};

/* Nobody's: free, or not present. */
#define EXTENT_NO_OWNER UINT64_C(0)
/* The uid of heaps that no client may write (strict pools, objects read back from disk). */
#define EXTENT_NODE_UID UINT32_MAX

/* Owner word of a (pool, writer uid). Never EXTENT_NO_OWNER. */
static inline uint64_t extent_owner(uint32_t pool, uint32_t writer_uid)
{
    return ((uint64_t)(pool + 1) << 32) | writer_uid;
}

/* The pool of an owner word that is not EXTENT_NO_OWNER. */
static inline uint32_t extent_owner_pool(uint64_t owner)
{
    return (uint32_t)(owner >> 32) - 1;
}

/*
 * One extent. What other threads may read: `owner` at any time, and the descriptors between two
 * loads of it that both gave the owner they look for. Descriptors are set before the first owner
 * and closed, not changed, after the last: who duplicates one and then finds the owner gone has
 * something else in hand and closes it.
 */
struct extent {
    int fd;
    int read_fd;
    bool present;  /* has memory behind it */
    bool huge;     /* of huge pages */
    bool lost;     /* its pages could not be had again: owned, and not used until a restart */
    uint32_t lane; /* whose it is to give */
    _Atomic uint64_t owner; /* written by its lane */
};

struct extent_options {
    uint64_t memory_bytes; /* rounded up to whole extents for every lane */
    uint64_t
        extent_bytes; /* 0: about memory / LIMIT_EXTENTS_AIM, a power of two within the limits */
    uint64_t besides_bytes; /* what the caller will allocate on top (indexes, sessions): must be
                               available too, but is not made here */
    uint32_t lanes;         /* a power of two */
    enum extent_huge huge;
    const int *numa_nodes; /* that each lane's memory comes from where there is room; NUMA_NONE:
                              from anywhere. NULL: all of it */
};

/*
 * Who must know of a lane's memory as it comes and goes: what has registered it with a device. Both
 * are called by the lane. `made`: the extent is mapped, and nobody's yet; unless it returns NIGH_OK
 * it is not taken into use. `goes`: its memory is about to; nobody uses it any more.
 */
struct extent_watch {
    void *context;
    nigh_status (*made)(void *context, uint32_t extent);
    void (*goes)(void *context, uint32_t extent);
};

/* What a lane knows of its extents. Its own line: lanes write these at the same time. */
struct extent_lane {
    _Alignas(64) uint32_t used;       /* numbers that were ever used, from extent_lane_first on */
    uint32_t free;                    /* extents that nobody owns */
    uint32_t longest_run;             /* of them, the longest with adjacent numbers */
    const struct extent_watch *watch; /* NULL, or set by the lane's owner; outlives its use */
    int numa_node;                    /* where fresh memory comes from; NUMA_NONE: from anywhere */
};

/*
 * Called by a lane before an extent changes, so that what outlives the node can be told first: a
 * new owner (of a present extent), fresh memory (present, EXTENT_NO_OWNER), or a retired extent
 * (not present any more; its descriptor closes after the call).
 */
typedef void extent_changed_function(void *context, uint32_t extent, uint64_t owner);

struct extent_set {
    uint8_t *arena; /* LIMIT_EXTENTS * extent_bytes of address space, aligned to huge pages; absent
                       extents are PROT_NONE */
    uint64_t extent_bytes;
    uint32_t extent_shift; /* log2 of extent_bytes */
    uint32_t lanes;
    uint32_t count; /* no number from here on is ever used; absent ones are among those below */
    uint64_t memory_bytes;            /* of all extents */
    bool any_huge, all_huge;          /* as it was at start */
    _Atomic bool told_refusal;        /* that the system does not take numa_node */
    extent_changed_function *changed; /* NULL, or set by the caller before lanes start */
    void *changed_context;
    struct extent_lane lane[LIMIT_LANES];
    struct extent extents[LIMIT_EXTENTS];
};

/* The range of numbers of one lane: LIMIT_EXTENTS / lanes from this one on. */
static inline uint32_t extent_lane_first(const struct extent_set *set, uint32_t lane)
{
    return lane * (LIMIT_EXTENTS / set->lanes);
}

/*
 * Reserves, creates, populates and maps. On failure nothing is left and `why` (terminated,
 * why_bytes) holds one sentence with a remedy: NIGH_INVALID (sizes), NIGH_OUT_OF_MEMORY (above what
 * MemAvailable, the cgroup or the free huge pages grant), NIGH_NO_RESOURCES (descriptors, address
 * space). Where huge pages are wanted and not (all) granted, a line is logged. Start-up thread
 * only; the extents are populated by a few threads that end before the return.
 */
nigh_status extent_set_create(const struct extent_options *options, struct extent_set **set,
                              char *why, size_t why_bytes);

/*
 * The same over memory that a former node left: fds[i] is the writable descriptor of extent
 * numbers[i], owners[i] its owner word, lanes_of[i] its lane, which has that number in its range.
 * The descriptors are taken over on success only. NIGH_INVALID: sizes or numbers; NIGH_PROTOCOL: a
 * descriptor that is not an extent of that size; otherwise as extent_set_create. Numbers above the
 * highest of a lane count as never used: a lane always has one that was used last.
 */
nigh_status extent_set_adopt(uint64_t extent_bytes, uint32_t lanes, const uint32_t *numbers,
                             const int *fds, const uint64_t *owners, const uint32_t *lanes_of,
                             size_t n, struct extent_set **set, char *why, size_t why_bytes);

/* Where memory that lanes get from now on comes from, as in extent_options; what there is stays.
 * Before lanes start. */
void extent_set_near(struct extent_set *set, const int *numa_nodes);

/* Bytes of extents that are not on their lane's NUMA node, as far as there is one: each is judged
 * by a page at its start, its middle and its end. Any thread; not while lanes run. */
uint64_t extent_set_far_bytes(const struct extent_set *set);

/* Unmaps, closes, frees. NULL is no set. Nobody uses the arena any more. */
void extent_set_destroy(struct extent_set *set);

/*
 * Gives `lane`'s caller `n` free extents with adjacent numbers; *first is the lowest. They come
 * from the middle of the longest run, so that what lies before can grow too, or from its start
 * when nobody is before. NIGH_OUT_OF_MEMORY when the lane has no such run. Called by that lane
 * only. Time: linear in the numbers that the lane used.
 */
nigh_status extent_take(struct extent_set *set, uint32_t lane, uint64_t owner, uint32_t n,
                        uint32_t *first);

/* Takes exactly [first, first + n), which are free extents of the lane. Its lane only. */
void extent_take_at(struct extent_set *set, uint32_t lane, uint64_t owner, uint32_t first,
                    uint32_t n);

/* Extents of `lane` that nobody owns. Its lane only. */
uint32_t extent_free_count(const struct extent_set *set, uint32_t lane);

/*
 * Takes an owned extent out of use for good (no block of it may be in use) and puts fresh memory,
 * free, under a number that was never used; *number is it. Its lane only; takes as long as the
 * kernel needs to clear an extent. NIGH_LIMIT: the lane's numbers are used up. NIGH_OUT_OF_MEMORY,
 * NIGH_NO_RESOURCES: no fresh memory could be had, or the lane's watch did not take it; the extent
 * is as it was, or, if its pages are gone or the watch does not take it back, marked `lost`.
 */
nigh_status extent_retire(struct extent_set *set, uint32_t extent, uint32_t *number);

/* Whether nobody owns a present extent of this number. Its lane only. */
static inline bool extent_is_free(const struct extent_set *set, uint32_t extent)
{
    const struct extent *at = &set->extents[extent];

    return at->present && atomic_load_explicit(&at->owner, memory_order_relaxed) == EXTENT_NO_OWNER;
}

/* Bytes of the arena at an offset, for the node's own use. */
static inline void *extent_bytes_at(const struct extent_set *set, uint64_t offset)
{
    return set->arena + offset;
}

#endif
