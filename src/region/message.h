/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What homes, holders and mappers of a region say to each other (docs/regions.md). All of one
 * region: who carries a message says of which. What a message points to is the sender's, and stays
 * as long as the call that it is given in.
 */
#ifndef REGION_MESSAGE_H
#define REGION_MESSAGE_H

#include "region/descriptor.h"
#include "region/lock.h"
#include "region/set.h"

enum region_message_kind {
    /* Home to holder, in the order of a change's rounds. */
    REGION_PREPARE, /* chunks: make memory */
    REGION_FREEZE,  /* chunks: withdraw their handles */
    REGION_COPY,    /* chunks (one): read it from `source` */
    REGION_COMMIT,  /* descriptor: keep it */
    REGION_THAW,    /* go by the descriptor of version `base`; none: by none */
    REGION_SETTLE,  /* descriptor: keep it and go by it; NULL: by none */
    /* Holder to home; of HOLD, mapper to home. */
    REGION_DONE, /* `of` was done, or not (status); chunks that are here, and their handles */
    REGION_HELD, /* chunks are here; the descriptor that is kept, or NULL */
    /* Between mapper and home. */
    REGION_MAP,
    REGION_MAPPED, /* descriptor; or status: NIGH_NOT_FOUND, NIGH_LIMIT */
    REGION_UNMAP,
    REGION_CHANGED,
    REGION_HOLD, /* to a mapper; chunks: post nothing of them until CHANGED; DONE: nothing is */
    /* Between a node and the home: of a lock of the region of birth `base`. */
    REGION_CLAIM,  /* what the node has of it, or wants; NONE: nothing, which is answered, too */
    REGION_GRANT,  /* it has it, in the mode that is said; or status, and it has it no more */
    REGION_RECALL, /* another waits for what it has */
    /* Of a barrier of the region of birth `base`, up and down the tree of members. */
    REGION_ARRIVED, /* what a node knows of it, and of those below it */
    REGION_PASSED,  /* all before `round` is over; or status: for all who wait; to who asked */
    /* Of the same, between a node and the home: what was known in views before. */
    REGION_KNOWN, /* and `ranks`: who took part then, or counted for others */
    REGION_NOTED, /* the home knows it; as PASSED */
    REGION_KINDS
};

/* A chunk's memory and a handle that opens it: nobody's but of this incarnation of the node. */
struct region_place {
    uint32_t node;
    uint32_t incarnation;
    struct region_window handle;
};

/* What a letter says of a barrier. */
struct region_barrier_word {
    uint64_t number;
    uint64_t round;          /* that is under way; 0: not known */
    uint64_t latest;         /* ARRIVED, KNOWN: the latest that is known of there */
    uint64_t ask;            /* ARRIVED: the last of who says it; PASSED: of whom it is to */
    uint32_t count, parties; /* ARRIVED: so many have in this round, of so many; 0: not agreed */
    bool is_part;            /* ARRIVED: somebody here or below takes part; KNOWN: here */
    bool is_answer;          /* PASSED: the home has heard the ask, and `round` is as of then */
    bool is_broken;          /* a party died */
};

struct region_message {
    enum region_message_kind kind, of;
    uint32_t peer; /* whom it is to, or from */
    nigh_status status;
    struct region_version change; /* PREPARE .. DONE: the version that the change makes */
    struct region_version base;
    struct region_chunks chunks;
    bool is_move;                    /* PREPARE: a copy is to come; FREEZE: lend it to who copies */
    bool is_mappable;                /* PREPARE: clients may map it */
    uint64_t donation;               /* PREPARE: what was donated there is its memory; 0: none */
    struct region_geometry geometry; /* PREPARE: how large chunks are */
    struct region_place source;
    struct region_lock_word lock;
    struct region_barrier_word barrier;
    struct region_set ranks;             /* KNOWN */
    const struct region_window *handles; /* by chunk */
    uint32_t handle_count;
    const struct region_descriptor *descriptor;
};

#endif
