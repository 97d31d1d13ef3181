/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extents: the memory of a node, cut into memfds that are mapped side by side in one arena.
 *
 * All of it is reserved and populated at start, after a look at what the machine and the cgroup
 * grant, so that no later touch can fault for want of memory: a node that cannot have its memory
 * refuses to start. An extent that was given to a (pool, writer uid) stays with it: a writer may
 * keep its mapping for ever. What can leave it is its memory (extent_move): its pages are punched
 * out and as many are made under another number. There are many more numbers than extents with
 * memory, and a number without is one of these (enum extent_absence):
 *
 *  - unused: no process can have it mapped; anybody's memory may come there;
 *  - dormant: it was a (pool, uid)'s, and sessions of the pool may have it mapped still. Its memfd
 * is kept, without pages, and memory that comes there is its owner's again: who mapped it finds the
 *    same memfd. So memory that goes to and fro between owners uses up no numbers. It is unused
 * again when the pool has no session left (extent_forget);
 *  - spent: a former node had it, and did not say that it is one of the others.
 *
 * Every lane has its own range of numbers (extent_lane_first), so that lanes share nothing here and
 * memory of one lane can lie side by side.
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

/* Why a number has no memory. The values are in the state of a node (node/state.h). */
enum extent_absence {
    EXTENT_UNKNOWN = 0, /* never used, where nothing behind it was; else spent */
    EXTENT_DORMANT = 1,
    EXTENT_UNUSED = 2,
    EXTENT_SPENT = 3
};

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
 * loads of it that both gave the owner they look for. Descriptors are set before the first owner,
 * stay while the number is dormant, and close when its pool has no session left on whose behalf
 * anybody could look.
 */
struct extent {
    int fd;
    int read_fd;
    bool present;           /* has memory behind it */
    bool huge;              /* of huge pages */
    bool lost;              /* its pages could not be had again: not used until a restart */
    uint8_t absence;        /* enum extent_absence, of one that is not present */
    uint32_t lane;          /* whose it is to give */
    uint64_t dormant_owner; /* DORMANT: whose it was, and will be */
    _Atomic uint64_t owner; /* written by its lane */
};

struct extent_options {
    uint64_t memory_bytes; /* rounded up to whole extents for every lane */
    uint64_t
        extent_bytes; /* 0: about memory / LIMIT_EXTENTS_AIM, a power of two within the limits */
    uint64_t besides_bytes; /* what the caller will allocate on top (indexes, sessions): must be
                               available too, but is not made here */
    uint64_t file_bytes;    /* of the largest file among that */
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
    uint32_t dormant;                 /* numbers that are */
    uint32_t longest_run;             /* of them, the longest with adjacent numbers */
    const struct extent_watch *watch; /* NULL, or set by the lane's owner; outlives its use */
    int numa_node;                    /* where fresh memory comes from; NUMA_NONE: from anywhere */
};

/*
 * Called by a lane before an extent changes, so that what outlives the node can be told first: a
 * new owner (of a present extent), fresh memory (present, EXTENT_NO_OWNER or who comes back), or
 * one whose memory went (not present any more; `absence` says why. Unless it is dormant, with the
 * owner it waits for, its descriptor closes after the call).
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

/* How much memory a set would have: what is asked for, rounded up to whole extents for every lane,
 * which is what its node says that it has. Statuses and `why` of extent_set_create, for the options
 * alone. */
nigh_status extent_set_plan(const struct extent_options *options, uint64_t *memory_bytes, char *why,
                            size_t why_bytes);

/* Whether extent_set_create would be granted it, as things are now: its statuses and `why`. Makes
 * nothing. */
nigh_status extent_set_may_be(const struct extent_options *options, char *why, size_t why_bytes);

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
 * descriptor that is not an extent of that size; otherwise as extent_set_create. Of the other
 * numbers those below the highest of a lane are spent, and those above it unused, until
 * extent_set_adopt_absent says more.
 */
nigh_status extent_set_adopt(uint64_t extent_bytes, uint32_t lanes, const uint32_t *numbers,
                             const int *fds, const uint64_t *owners, const uint32_t *lanes_of,
                             size_t n, struct extent_set **set, char *why, size_t why_bytes);

/*
 * To be called before extent_set_adopt populates `present`: takes the pages out of what a former
 * node kept besides, of numbers without memory. It may have been killed while memory moved, and
 * clients may have written to what they have mapped still: pages beyond what the node may have.
 * One that is a present extent's under another name, too, is left alone. Start-up thread.
 */
nigh_status extent_empty_absent(const int *fds, size_t n, const int *present, size_t present_n);

/*
 * What the former node said of a number without memory: it is dormant, with the owner and the
 * descriptor (taken over, on success only), or it is not. NIGH_INVALID: it has memory, or cannot be
 * what is said; NIGH_PROTOCOL: the descriptor is not an extent's. Before lanes start.
 */
nigh_status extent_set_adopt_absent(struct extent_set *set, uint32_t number,
                                    enum extent_absence absence, uint64_t owner, int fd);

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
 * from an end of the longest run, so that what is left of it stays whole: from its start, or from
 * its end when somebody is before, who may want to grow. NIGH_OUT_OF_MEMORY when the lane has no
 * such run. Called by that lane only. Time: linear in the numbers that the lane used.
 */
nigh_status extent_take(struct extent_set *set, uint32_t lane, uint64_t owner, uint32_t n,
                        uint32_t *first);

/* Takes exactly [first, first + n), which are free extents of the lane. Its lane only. */
void extent_take_at(struct extent_set *set, uint32_t lane, uint64_t owner, uint32_t first,
                    uint32_t n);

/* Extents of `lane` that nobody owns. Its lane only. */
uint32_t extent_free_count(const struct extent_set *set, uint32_t lane);

/*
 * Moves the memory of an extent, in which no block is in use, to a number of the same lane that has
 * none and is unused or dormant. `from` is dormant then, or unused if nobody owned it; `to` is
 * free, or its owner's who comes back. What was in the bytes is gone, and nobody who had `from`
 * mapped sees what comes: but for what nobody owned, which goes as it is, in no time, where `to` is
 * unused. Else it takes as long as the kernel needs to clear an extent. Its lane only.
 * NIGH_OUT_OF_MEMORY, NIGH_NO_RESOURCES: no memory could be had there, or the lane's watch did not
 * take it; both are as they were, or `from`, if its pages are gone or the watch does not take it
 * back, is `lost`.
 */
nigh_status extent_move(struct extent_set *set, uint32_t from, uint32_t to);

/* The lane's lowest unused number, LIMIT_EXTENTS when there is none. Its lane only. */
uint32_t extent_unused(const struct extent_set *set, uint32_t lane);

/* Dormant numbers of a pool that has no session in this lane, and so in no process, are unused from
 * here on. Its lane only. */
void extent_forget(struct extent_set *set, uint32_t lane, uint32_t pool);

/* Whether memory may come to a number: to be anybody's, or to be `owner`'s again. */
static inline bool extent_is_unused(const struct extent_set *set, uint32_t extent)
{
    return !set->extents[extent].present && set->extents[extent].absence == EXTENT_UNUSED;
}

static inline bool extent_is_dormant(const struct extent_set *set, uint32_t extent, uint64_t owner)
{
    const struct extent *at = &set->extents[extent];

    return !at->present && at->absence == EXTENT_DORMANT && at->dormant_owner == owner;
}

/* Whether nobody owns a present extent of this number, which can be had. Its lane only. */
static inline bool extent_is_free(const struct extent_set *set, uint32_t extent)
{
    const struct extent *at = &set->extents[extent];

    return at->present && !at->lost &&
           atomic_load_explicit(&at->owner, memory_order_relaxed) == EXTENT_NO_OWNER;
}

/* Bytes of the arena at an offset, for the node's own use. */
static inline void *extent_bytes_at(const struct extent_set *set, uint64_t offset)
{
    return set->arena + offset;
}

#endif
