/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node has of a region's chunks, as a machine: it does what the region's home says, keeps
 * the descriptor that was committed last, and tells the next home of it (docs/regions.md).
 *
 * That no operation lands where it is not to rests on this machine alone: it withdraws a chunk's
 * handle, and says that it is frozen only when nothing under that handle can come any more.
 *
 * It makes no memory and registers none: `shell.act` is told to, and region_holder_did says that it
 * was done. Pure; one lane; memory is the caller's.
 */
#ifndef REGION_HOLDER_H
#define REGION_HOLDER_H

#include "region/message.h"

enum region_holder_action {
    REGION_ACT_MAKE,  /* memory of `bytes`, zeroed, and all that OPEN needs; may fail */
    REGION_ACT_COPY,  /* its first `bytes` from `source`; may fail */
    REGION_ACT_LEND,  /* a new handle, to read only; may fail */
    REGION_ACT_OPEN,  /* zero [wipe_from, wipe_to), then a new handle, to read and write */
    REGION_ACT_CLOSE, /* the handle is none any more, and nothing under it touches memory; an OPEN
                         that has not ended goes no further, and nobody is told of its end */
    REGION_ACT_CUT    /* the memory is not the region's any more */
};

/* One chunk; where it is and where it is to be. */
enum region_slot_state {
    REGION_SLOT_NONE,
    REGION_SLOT_MAKING,
    REGION_SLOT_FROZEN,
    REGION_SLOT_COPYING,
    REGION_SLOT_LENDING,
    REGION_SLOT_LENT,
    REGION_SLOT_OPENING,
    REGION_SLOT_OPEN,
    REGION_SLOT_CLOSING,
    REGION_SLOT_CUTTING
};

enum region_slot_goal {
    REGION_GOAL_NONE,
    REGION_GOAL_FROZEN,
    REGION_GOAL_LENT,
    REGION_GOAL_COPIED,
    REGION_GOAL_OPEN
};

struct region_slot {
    uint8_t state, goal;
    bool full;                     /* its bytes are the chunk's */
    struct region_version made_in; /* the change that its memory was, or is to be, made for */
    struct region_window handle;   /* lent, open, closing */
    uint64_t used_bytes;           /* behind these it is zero */
    uint64_t least_bytes; /* its least end since it was open: behind them nothing is valid */
};

struct region_holder_act {
    enum region_holder_action action;
    uint32_t chunk;
    uint64_t bytes, wipe_from, wipe_to;
    bool is_mappable;  /* MAKE */
    uint64_t donation; /* MAKE: its memory is what was donated here under this number; 0: none */
    const struct region_descriptor *kept; /* OPEN: by which it is; as long as the call */
    struct region_window handle;          /* CLOSE: which */
    struct region_place source;
};

struct region_holder_shell {
    void *context;
    /* Neither calls the machine. */
    void (*act)(void *context, const struct region_holder_act *act);
    void (*send)(void *context, const struct region_message *message);
};

struct region_holder_config {
    uint32_t self;
    uint32_t room; /* chunks that there is room for, in both: as many as any message names */
    struct region_slot *slots;
    struct region_descriptor *kept;
    struct region_version home; /* epoch and incarnation of who is the home; counter: any */
    bool has_lease;
    struct region_holder_shell shell;
};

struct region_holder {
    struct region_holder_config config;
    struct {
        bool is_open; /* it was not answered yet */
        enum region_message_kind kind;
        uint32_t peer;
        struct region_version change;
        nigh_status status;
    } request;
    struct region_geometry geometry; /* of what was prepared last, */
    bool is_mappable;                /* and whether clients may map that, */
    uint64_t donation;               /* or who donated it */
    struct region_place source;
    bool is_unsettled; /* HELD is to be said, or was, and SETTLE has not come */
};

void region_holder_init(struct region_holder *holder, const struct region_holder_config *config);

/* From a home. What is of another than the one this node goes by is not looked at, nor what is of
 * an earlier round than the last; the last is answered again, once it was. All that is new is
 * answered: NIGH_BUSY: memory that a chunk had here before is not given back yet, or is for chunks
 * of another size; NIGH_STALE: another descriptor is kept than the home thinks; NIGH_NO_QUORUM: no
 * memory is given without a lease; NIGH_PROTOCOL: chunks of another size than the memory here is
 * for. */
void region_holder_take(struct region_holder *holder, const struct region_message *message);

/* An act has ended. `status` other than NIGH_OK: of MAKE, COPY, LEND; `handle`: of LEND, OPEN. */
void region_holder_did(struct region_holder *holder, uint32_t chunk, nigh_status status,
                       struct region_window handle);

/* Who is the home from here on, and its version: says HELD, if there is anything. Or the link to it
 * is back: says it again, unless it was settled. An earlier one is not gone back to. */
void region_holder_home(struct region_holder *holder, uint32_t peer,
                        const struct region_version *home);

/* Without a lease all is frozen; with one again, HELD is said to the home. */
void region_holder_lease(struct region_holder *holder, bool has_lease, uint32_t home);

/* This node was dead to the others: all goes. */
void region_holder_drop(struct region_holder *holder);

/* Nothing is here, nor kept: the machine need not be. */
bool region_holder_is_empty(const struct region_holder *holder);

bool region_holder_is_valid(const struct region_holder *holder);

#endif
