/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of regions.h share: regions.c (names, members), regions_peers.c (letters),
 * regions_machines.c (what is of a name), regions_homes.c, regions_holders.c, regions_mappings.c,
 * regions_order.c.
 * For no one else. */
#ifndef REGION_REGIONS_INTERNAL_H
#define REGION_REGIONS_INTERNAL_H

#include "base/check.h"
#include "base/table.h"
#include "region/barrier.h"
#include "region/letter.h"
#include "region/lock_home.h"
#include "region/lock_node.h"
#include "region/regions.h"

/* One of a name, each of its machines only while there is a use for it. */
struct region {
    struct regions *regions;
    struct region *same; /* another name of this hash */
    uint64_t hash;
    uint32_t place; /* in regions.all */
    uint32_t opens; /* who uses the mapping */
    void *data;
    struct region_hearers hearers;
    struct region_home *home;
    struct region *before, *behind; /* below it in regions.order */
    struct region_holder *holder;
    struct region_mapping *mapping;
    struct region_lock_node *locks;     /* beside the mapping, with the first lock */
    struct region_lock_home *lock_home; /* beside the home, with the first claim */
    struct region_barriers *barriers;   /* while somebody, here or below, takes part in one */
    uint64_t rounds;                    /* the latest of those that went, while the home is here */
    struct list_node holding;           /* of homes that wait for mappers to stand still */
    bool holds_long;                    /* since before regions_held was called last */
    uint8_t name_bytes;
    char name[LIMIT_REGION_NAME_BYTES];
};

/* A message that waits for room, or, to this node itself, for its turn. */
struct regions_letter {
    struct list_node link;
    enum regions_frame frame;
    bool is_again; /* a walk says it */
    uint32_t size_bytes;
    uint8_t bytes[];
};

struct regions_peer {
    struct list_node link; /* in regions.busy: there is something to say, or was */
    struct list letters;
    uint32_t count;
    uint32_t again;       /* of them a walk says */
    uint32_t cursor;      /* of the walk, in regions.all */
    bool is_up;           /* its link */
    bool walks;           /* all is said to it (again) */
    bool owes_view;       /* it was not told by which view this node goes */
    bool has_lost;        /* a letter since the walk began: it begins again */
    bool is_dead;         /* for this node, whatever the view says */
    bool has_told;        /* what it holds, in this epoch */
    uint32_t incarnation; /* 0: never seen */
    uint32_t ended;       /* the greatest of those that have; lower ones may live */
    uint64_t epoch;       /* by which it goes, as it said; 0: it has not */
};

struct regions {
    struct regions_config config;
    struct table names; /* by hash: the first of it */
    struct region **all;
    uint32_t count;
    struct list holding;
    struct region *order; /* of those that have a home here, by name */
    uint64_t epoch;
    struct region_set members; /* of the view */
    uint64_t counter;          /* of versions, above all that a home here has used */
    uint64_t asks;             /* of barriers, the last number; names come and go */
    bool has_lease;
    struct regions_peer *peers; /* by rank; of this node itself, too */
    struct list busy;
    bool says_again; /* a walk is at a name */
    bool is_short;   /* a letter to this node itself could not be taken in the last turn */
    uint8_t frame[REGION_LETTER_BYTES];
    struct regions_counts counts;
    struct region_letter letter; /* that is looked at; it has room at its end */
};

/* Letters that wait for a channel's room; of more all is told again. Those of a walk are beside
 * them: as it says all of a name at once, it would never be done with one that has more locks. */
#define REGIONS_LETTERS 256u
/* Names that a walk passes in a turn. */
#define REGIONS_A_TURN 256u

/* ---- names ---------------------------------------------------------------- */

struct region *regions_find(struct regions *regions, const char *name, uint32_t name_bytes);
/* NULL: NIGH_LIMIT, or NIGH_NO_RESOURCES, in *status. */
struct region *regions_get(struct regions *regions, const char *name, uint32_t name_bytes,
                           nigh_status *status);
/* Without a use for it, it goes. */
void regions_put(struct region *region);

/* ---- peers ---------------------------------------------------------------- */

/* A member of the view, and not dead. */
static inline bool regions_is_alive(const struct regions *regions, uint32_t rank)
{
    return region_set_has(&regions->members, rank) && !regions->peers[rank].is_dead;
}

/* Whether both sides go by the same view now. */
bool regions_is_near(const struct regions *regions, uint32_t rank);
/* Of a machine of the region. */
void regions_say(struct region *region, const struct region_message *message);
void regions_begin_walk(struct regions *regions, uint32_t rank);
void regions_forget_letters(struct regions *regions, uint32_t rank);
void regions_send_view(struct regions *regions, uint32_t rank);

/* ---- machines ------------------------------------------------------------- */

uint32_t regions_home_of(const struct region *region);
const struct regions_shell *regions_shell_of(const struct region *region);
/* region_*_shell.send, of a region. */
void regions_send(void *region, const struct region_message *message);

/* Memory of more bytes than before; what is new is zero. False: there is none. */
bool regions_grow(void **memory, size_t old_bytes, size_t new_bytes);
/* Room for chunks: for more than before, from none where it is NULL. */
bool regions_grow_descriptor(struct region_descriptor **descriptor, uint32_t from, uint32_t to);

/* That there is a machine, with room for so many chunks. NIGH_NO_RESOURCES. */
nigh_status regions_need_home(struct region *region, uint32_t room);
nigh_status regions_need_holder(struct region *region, uint32_t room, uint32_t home);
nigh_status regions_need_mapping(struct region *region, uint32_t room);
void regions_free_home(struct region *region);
void regions_free_holder(struct region *region);
void regions_free_mapping(struct region *region);

/* That locks can be had here; given here, by the home that is. NIGH_NO_RESOURCES. */
nigh_status regions_need_locks(struct region *region);
nigh_status regions_need_lock_home(struct region *region);
void regions_free_locks(struct region *region);
void regions_free_lock_home(struct region *region);
/* What has become of the home and of the mapping is told to the locks. */
void regions_tidy_locks(struct region *region);

/* That barriers can be; where this node is in their tree, in the view that is; what has become of
 * the home. */
nigh_status regions_need_barriers(struct region *region);
void regions_place_barriers(struct region *region);
void regions_tidy_barriers(struct region *region);
void regions_free_barriers(struct region *region);

/* Its home ends; asks have this status. */
void regions_end_home(struct region *region, nigh_status status);

/* In the order of names, while there is a home of it here. */
void regions_order_add(struct region *region);
void regions_order_remove(struct region *region);
/* The first one behind a name; NULL. */
struct region *regions_order_next(const struct regions *regions, const char *name,
                                  uint32_t name_bytes);
bool regions_order_is_valid(const struct regions *regions);

/* Hands a letter's message to the machine that it is for, of which there is one then. */
nigh_status regions_take(struct region *region, const struct region_message *message,
                         uint32_t room);
/* A member is there, or there again: what its machines are to hear is said again. */
void regions_say_again(struct region *region, uint32_t rank);
/* Machines that have nothing left to do go, and the name with the last. */
void regions_tidy(struct region *region);
void regions_free_machines(struct region *region);
bool region_is_valid(const struct region *region);

#endif
