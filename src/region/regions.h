/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The regions of one lane: the machines of all names that this node is a home, a holder or a mapper
 * of, and what goes between them and those of other members' same lanes (docs/regions.md).
 *
 * It makes machines where a letter or a client asks for them, gives them room, and takes them away
 * when they are idle. It says again what a link that broke has lost, and tells a new view's homes
 * what is here. Of memory, operations and connections it knows nothing: struct regions_shell does.
 * No I/O, no clock; one lane.
 */
#ifndef REGION_REGIONS_H
#define REGION_REGIONS_H

#include "base/limits.h"
#include "region/barrier.h"
#include "region/holder.h"
#include "region/home.h"
#include "region/list_wire.h"
#include "region/lock_node.h"
#include "region/mapping.h"

struct regions;
struct region; /* of one name */

/* What members say to each other, each as one message of the link, in order. */
enum regions_frame {
    REGIONS_VIEW,   /* the sender goes by the view of this epoch */
    REGIONS_LETTER, /* letter.h */
    REGIONS_TOLD    /* all that the sender holds of the receiver's has been told, in this epoch */
};

/* A read, write or atomic. It is the region's until it has ended. */
struct regions_op {
    struct region_op op; /* the range is the caller's to set, all else zero */
    struct region *region;
};

/* One who waits for a lock, or holds it: the region's until regions_unlock, or until shell.locked
 * says anything but NIGH_OK. */
struct regions_hold {
    struct region_hold hold;
    struct region *region;
};

/* One who takes part in a barrier: the region's from regions_arrive until regions_leave. */
struct regions_party {
    struct region_party party;
    struct region *region;
};

/* None of these calls anything below. */
struct regions_shell {
    void *context;
    /* Who is the home of a name, by the view that this node goes by. */
    uint32_t (*home)(void *context, uint64_t hash);
    /* False: its channel has no room; the same comes again in a later turn. */
    bool (*send)(void *context, uint32_t rank, enum regions_frame frame, const uint8_t *bytes,
                 uint32_t count);
    /* regions_did follows. What the act points to is good until the return. */
    void (*act)(void *context, struct region *region, const struct region_holder_act *act);
    /* regions_posted follows. */
    void (*post)(void *context, struct regions_op *op, const struct region_post *post);
    /* As region_mapping_shell.judge. */
    nigh_status (*judge)(void *context, struct regions_op *op,
                         const struct region_descriptor *descriptor);
    void (*ended)(void *context, struct regions_op *op, nigh_status status);
    void (*answered)(void *context, struct region_ask *ask, nigh_status status);
    /* As region_lock_shell's. */
    void (*locked)(void *context, struct regions_hold *hold, nigh_status status);
    void (*wanted)(void *context, struct regions_hold *hold);
    /* As region_barrier_shell.passed. */
    void (*passed)(void *context, struct regions_party *party, nigh_status status);
    /* The home has told of a region that is open here: region_known, or region_is_freed. NULL:
     * nobody minds. */
    void (*told)(void *context, struct region *region);
};

/* The shell's: who has a region open, and whether they are to be told of it. */
struct region_hearers {
    struct list all;
    struct list_node due;
    uint32_t count, left; /* of them are yet to be told */
};

struct regions_config {
    uint32_t self;
    uint32_t incarnation; /* not 0 */
    uint32_t nodes;       /* members' ranks are below */
    uint32_t names;       /* that this lane has machines of at once, at most */
    uint64_t seed;        /* random */
    struct regions_shell shell;
};

/* NIGH_INVALID: bounds; NIGH_NO_RESOURCES. Without a lease, in epoch 0: it begins nothing. */
nigh_status regions_create(const struct regions_config *config, struct regions **regions);

/* Asks end NIGH_CANCELED. No operation is under way; memory of chunks is the shell's. */
void regions_destroy(struct regions *regions);

/* ---- members -------------------------------------------------------------- */

/* This node goes by another view, in which these members are and live: every home begins anew, and
 * asks end NIGH_BUSY. A cluster that agrees on none has one, of all, for ever. */
void regions_view(struct regions *regions, uint64_t epoch, const struct region_set *members);

/* Whether this node may act for the cluster. */
void regions_lease(struct regions *regions, bool has_lease);

/* A member of this incarnation, not 0, is there, before its link is; another than before, whose
 * number is lower where a clock went back: that one is dead. */
void regions_alive(struct regions *regions, uint32_t rank, uint32_t incarnation);
/* The incarnation that was there last has ended, with all that it had. */
void regions_dead(struct regions *regions, uint32_t rank);

/* This node was dead to the others: all that is here goes. */
void regions_drop(struct regions *regions);

/* A link to a member is up, and nothing of before comes over it any more; or it is down. */
void regions_link(struct regions *regions, uint32_t rank, bool is_up);

/* What a member says. NIGH_PROTOCOL: it is nonsense; NIGH_NO_RESOURCES: it cannot be taken. Either
 * way the link has to end: when it is up again all is said again. */
nigh_status regions_receive(struct regions *regions, uint32_t rank, enum regions_frame frame,
                            const uint8_t *bytes, uint32_t count);

/* A bounded part of what is to be said and told. True: there is more to do. */
bool regions_turn(struct regions *regions);

/* Whether something that this node says to itself waits for memory, or for a place for a name, of
 * which nobody tells: regions_turn is to be called again soon. */
bool regions_are_short(const struct regions *regions);

/* ---- changes -------------------------------------------------------------- */

/* Of a name, the same at every node: by it its home is chosen, and its lane. */
uint64_t regions_hash(const char *name, uint32_t name_bytes);

/* Whether some home waits for mappers to stand still: regions_held is to be called soon. */
bool regions_are_holding(const struct regions *regions);

/* As region_home_ask, at the home; NIGH_STALE: that is another node; NIGH_LIMIT: too many names;
 * NIGH_NO_RESOURCES. */
void regions_ask(struct regions *regions, const char *name, uint32_t name_bytes,
                 struct region_ask *ask);
void regions_cancel(struct regions *regions, const char *name, uint32_t name_bytes,
                    struct region_ask *ask, nigh_status status);

/* Homes that have waited for mappers to stand still since the last of these calls, at least, wait
 * no longer. Called now and then. */
void regions_held(struct regions *regions);

/* ---- lists ---------------------------------------------------------------- */

/* The view that this node goes by; 0: none yet. */
uint64_t regions_epoch(const struct regions *regions);

/* Whether what homes here know is all there is by the view of this epoch. NIGH_STALE: this node
 * goes by another; NIGH_NO_QUORUM: it has no lease; NIGH_BUSY: members have not told yet what they
 * hold. */
nigh_status regions_may_list(const struct regions *regions, uint64_t epoch);

/* A part of the regions whose home this is, and to which who asks has any right; to
 * REGION_LIST_BYTES, how many bytes. */
uint32_t regions_list(const struct regions *regions, const struct region_list_ask *ask,
                      uint8_t *bytes);

/* ---- chunks --------------------------------------------------------------- */

/* As region_holder_did. */
void regions_did(struct region *region, uint32_t chunk, nigh_status status,
                 struct region_window handle);

/* ---- operations ----------------------------------------------------------- */

/* A region as clients of this node use it, whether there is one or not; the same for all who open
 * the name. NIGH_LIMIT, NIGH_NO_RESOURCES. */
nigh_status regions_open(struct regions *regions, const char *name, uint32_t name_bytes,
                         struct region **region);

/* No operation of who opened it is under way. */
void regions_close(struct region *region);

/* As region_mapping_begin, _posted and _cancel. */
void regions_begin(struct region *region, struct regions_op *op);
void regions_posted(struct regions_op *op, uint32_t chunk, struct region_window handle,
                    nigh_status status);
void regions_end_op(struct regions_op *op, nigh_status status);

/* As region_lock_acquire, of the region of this birth; it is open meanwhile. */
nigh_status regions_lock(struct region *region, const struct region_version *birth, uint64_t number,
                         enum region_lock_mode mode, struct regions_hold *hold);
/* `is_dirty`: what was written under it may land yet. */
void regions_unlock(struct regions_hold *hold, bool is_dirty);

/* As region_barrier_arrive, _withdraw and _leave; the region is open meanwhile. */
nigh_status regions_arrive(struct region *region, const struct region_version *birth,
                           uint64_t number, uint32_t parties, struct regions_party *party);
void regions_withdraw(struct regions_party *party);
void regions_leave(struct regions_party *party, bool is_dead);

/* A change of it has ended, as its asker was told: what is known here is of before that. */
void region_has_changed(struct region *region);

/* What is known of it; none: nothing yet. */
const struct region_descriptor *region_known(const struct region *region);
const char *region_name(const struct region *region, uint32_t *name_bytes);
/* Where a chunk is, by what is known, and what opens it. False: not known, or not to be gone by. */
bool region_place(const struct region *region, uint32_t chunk, struct region_place *place);
/* Whether what is known is so still: else what waits, and was to go there, is refused (NIGH_STALE).
 */
bool region_is_at(const struct region *region, uint32_t chunk, const struct region_place *place);
/* A name that has a machine here, for region_data; NULL: it has none. */
struct region *regions_look(struct regions *regions, const char *name, uint32_t name_bytes);
/* It was freed, or another has its name. */
bool region_is_freed(const struct region *region);
struct region_hearers *region_hearers(struct region *region);
/* A place for the shell's memory of its chunks. */
void *region_data(const struct region *region);
void region_set_data(struct region *region, void *data);

struct regions_counts {
    uint64_t names, homes, holders, mappings;
    uint64_t letters, again; /* said; of which links had lost, or had no room */
    uint64_t other_views;    /* that came of another view, and were not looked at */
};

const struct regions_counts *regions_counts(const struct regions *regions);

bool regions_are_valid(const struct regions *regions);

#endif
