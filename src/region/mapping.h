/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A region as a node knows it whose clients use it: the descriptor that its home told last, and the
 * operations under way, each cut into a piece a chunk (docs/regions.md). A piece whose handle was
 * refused did not happen, or not all of it; it goes where the chunk is by then, once the home has
 * told. What of it has happened does not happen again: that is the shell's matter, which moves it.
 *
 * Nobody relies on it: what is stale is refused at the holder. It moves no bytes: shell.post does,
 * and region_mapping_posted says how that ended. Pure; one lane; memory is the caller's.
 */
#ifndef REGION_MAPPING_H
#define REGION_MAPPING_H

#include "base/list.h"
#include "region/message.h"

/* A read, write or atomic operation of a range. It is the mapping's until it has ended. */
struct region_op {
    struct list_node link;
    uint64_t offset_bytes, length_bytes; /* the range; of no length: it only looks */
    struct region_chunks todo, posted;   /* the mapping's, as all below */
    bool is_cut;                         /* into pieces */
    bool is_ending;                      /* nothing more of it is posted */
    uint32_t fresh_from;                 /* answers of the home: by then one is of since it began */
    uint32_t tries;                      /* answers of the home by which some were refused */
    uint32_t refused_at;                 /* the last of these, by its number */
    nigh_status status;
};

/* A piece, and the handle that it presents. */
struct region_post {
    struct region_piece piece;
    struct region_place place;
};

struct region_mapping_shell {
    void *context;
    /* None calls the machine. */
    void (*send)(void *context, const struct region_message *message);
    void (*post)(void *context, struct region_op *op, const struct region_post *post);
    /* Whether who began an operation may have it, by the descriptor that is known: before each
     * piece. */
    nigh_status (*judge)(void *context, struct region_op *op,
                         const struct region_descriptor *descriptor);
    void (*ended)(void *context, struct region_op *op, nigh_status status);
    /* Whether this incarnation of a node has ended, as far as is known here. */
    bool (*has_ended)(void *context, uint32_t node, uint32_t incarnation);
    /* The home has told of the region. NULL: nobody minds. */
    void (*told)(void *context);
};

struct region_mapping_config {
    uint32_t room; /* chunks that there is room for: as many as any message names */
    struct region_descriptor *now;
    bool has_lease;
    struct region_mapping_shell shell;
};

struct region_mapping {
    struct region_mapping_config config;
    struct list ops;
    uint32_t op_count;
    uint32_t answers; /* of the home, so far */
    uint32_t home;    /* REGION_NOBODY: not known */
    bool is_gone;     /* nothing more is asked of the home: */
    bool is_freed;    /* so it says, or another region has its name; else it could not tell */
    bool is_stale;    /* the home is to be asked, or was */
    bool is_asked;
    struct {
        bool is_open; /* the home waits for an answer */
        struct region_version change;
        struct region_chunks chunks;
        uint32_t left; /* pieces of them that are posted */
    } hold;
};

void region_mapping_init(struct region_mapping *mapping,
                         const struct region_mapping_config *config);

/*
 * Begins an operation. One of no length posts nothing: it is judged, once, by a descriptor that is
 * not stale, as far as is known here. shell.ended follows, perhaps within: NIGH_OK; NIGH_INVALID:
 * it is not all in the region; NIGH_NOT_FOUND: there is none, or not that one any more; what
 * shell.judge says; NIGH_PEER_LOST: a chunk is lost; NIGH_NO_QUORUM: where it is would have to be
 * asked, without a lease; NIGH_BUSY: handles were refused again and again; NIGH_OVERLOADED. Other
 * than NIGH_OK: pieces of it may have happened.
 */
void region_mapping_begin(struct region_mapping *mapping, struct region_op *op);

/* A posted piece of a chunk has ended; `handle`: that it presented. NIGH_STALE: it was refused, and
 * did not happen, or some of it, which shell.post leaves out when it is posted again. */
void region_mapping_posted(struct region_mapping *mapping, struct region_op *op, uint32_t chunk,
                           struct region_window handle, nigh_status status);

/* Nothing more of it is posted; it ends with this status, once nothing is that was. */
void region_mapping_cancel(struct region_mapping *mapping, struct region_op *op,
                           nigh_status status);

/* From the home. */
void region_mapping_take(struct region_mapping *mapping, const struct region_message *message);

/* Who is the home from here on; or the link to it is back, and what was on its way is lost.
 * REGION_NOBODY: it is not known. */
void region_mapping_home(struct region_mapping *mapping, uint32_t home);

/* Whether a chunk is where it is known to be, open, and with it the node's incarnation that made
 * it. Else nothing of it is posted: by a handle of an incarnation that has ended, of which the next
 * one may have given one like it, nobody is to reach what is there by then. It waits until the home
 * says that the chunk is lost, or elsewhere. */
bool region_mapping_has(const struct region_mapping *mapping, uint32_t chunk);

/* A node's incarnation has ended: the home is asked what has become of what was there. */
void region_mapping_dead(struct region_mapping *mapping, uint32_t node);

void region_mapping_lease(struct region_mapping *mapping, bool has_lease);

/* Nobody here uses it any more: the home is told. Nothing is under way. */
void region_mapping_end(struct region_mapping *mapping);

bool region_mapping_is_valid(const struct region_mapping *mapping);

#endif
