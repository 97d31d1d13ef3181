/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The home of a region's name, as a machine: it owns the descriptor. All changes of the region go
 * through it one after the other, in rounds that its holders answer; mappers ask it where chunks
 * are; a new one learns from the holders what was committed (docs/regions.md).
 *
 * It does not know which node the home of a name is, nor when a member is dead: it is told. Pure;
 * one lane; memory is the caller's.
 */
#ifndef REGION_HOME_H
#define REGION_HOME_H

#include "base/list.h"
#include "region/message.h"

enum region_ask_kind {
    REGION_ASK_CREATE,
    REGION_ASK_GRANT,  /* or revoke, or both */
    REGION_ASK_RESIZE, /* grow or shrink */
    REGION_ASK_MOVE,
    REGION_ASK_FREE,
    REGION_ASKS
};

enum region_whose {
    REGION_OF_USER,
    REGION_OF_GROUP,
    REGION_OF_OTHERS
};

/* A change that somebody asks for. It and what it points to are the home's until it is answered. */
struct region_ask {
    struct list_node link;
    enum region_ask_kind kind;
    uint32_t uid, gid;               /* who asks; of CREATE: the owner */
    struct region_version birth;     /* all but CREATE: of the region that is meant */
    struct region_geometry geometry; /* CREATE; RESIZE: the size */
    const char *name;                /* CREATE */
    uint8_t name_bytes;
    uint8_t group_rights, other_rights; /* CREATE */
    bool is_mappable;                   /* CREATE */
    uint64_t donation;     /* CREATE: what was donated at its one node is its memory; 0: none */
    const uint32_t *nodes; /* CREATE, RESIZE: where new chunks go, in turn */
    uint32_t node_count;
    enum region_whose whose; /* GRANT */
    uint32_t user, give, take;
    uint32_t chunk, node; /* MOVE: to which node */
};

struct region_home_shell {
    void *context;
    /* Neither calls the machine. */
    void (*send)(void *context, const struct region_message *message);
    void (*answered)(void *context, struct region_ask *ask, nigh_status status);
    /* The incarnation of a member that has answered. */
    uint32_t (*incarnation)(void *context, uint32_t rank);
    /* Gives the home room for so many chunks, in both of its descriptors, which may move. False:
     * there is no memory. NULL: there is what there is. */
    bool (*make_room)(void *context, uint32_t chunks);
};

struct region_home_config {
    uint32_t self;
    struct region_version version; /* epoch, incarnation; counter: above all that this incarnation
                                      has used for the name */
    uint32_t room; /* chunks that there is room for, in both: as many as any message names */
    bool has_lease;
    struct region_descriptor *now, *next;
    struct region_set alive;  /* members that are not dead */
    struct region_set untold; /* of them, who has yet to tell what it holds */
    struct region_home_shell shell;
};

enum region_home_state {
    REGION_HOME_REBUILDING,
    REGION_HOME_EMPTY,
    REGION_HOME_OPEN
};

/* In this order; each is left out where it has nobody to ask. */
enum region_round {
    REGION_ROUND_NONE, /* no change is under way */
    REGION_ROUND_PREPARE,
    REGION_ROUND_HOLD, /* of mappers: for their sake alone, and not for long */
    REGION_ROUND_FREEZE,
    REGION_ROUND_COPY,
    REGION_ROUND_COMMIT,
    REGION_ROUND_THAW,
    REGION_ROUND_SETTLE, /* alone */
    REGION_ROUND_END
};

struct region_change {
    enum region_round round;
    struct region_ask *ask; /* NULL: the home's own, or its ask was answered before its end */
    struct region_version version;
    struct region_chunks made, frozen;
    struct region_set nodes; /* holders of the old descriptor and of the new one */
    struct region_set waits; /* for whom the round does */
    nigh_status status;
    bool is_move, is_aborted, is_fence;
    bool had_lease;             /* all the time until now */
    uint64_t donation;          /* of a create */
    uint32_t chunk;             /* of a move */
    struct region_place source; /* of a move, once it is lent */
};

struct region_home {
    struct region_home_config config;
    enum region_home_state state;
    struct region_change change;
    struct list asks;
    uint32_t ask_count;
    struct region_set mappers;
    struct region_set wants;            /* mappers that wait for a descriptor */
    struct region_set held;             /* said HELD, and are to be settled */
    bool wants_fence, is_fenced;        /* region_home_fence */
    bool must_settle;                   /* what was found out in rebuilding */
    bool has_losses;                    /* a chunk was found not to be where it was */
    struct region_version rebuilt_from; /* for those who look: the version that was settled on */
};

void region_home_init(struct region_home *home, const struct region_home_config *config);

/*
 * Asks for a change; shell.answered follows, perhaps within: NIGH_OK; NIGH_EXISTS; NIGH_NOT_FOUND:
 * there is none, or another has its name; NIGH_DENIED; NIGH_INVALID; NIGH_LIMIT; NIGH_OUT_OF_MEMORY
 * and what else a holder says; NIGH_PEER_LOST: a node that is needed is dead; NIGH_OVERLOADED: too
 * many wait; NIGH_NO_QUORUM: there is no lease, or was none meanwhile, and it may have happened.
 */
void region_home_ask(struct region_home *home, struct region_ask *ask);

/* An ask is not waited for any longer: it is answered with this status. What was begun goes on. */
void region_home_cancel(struct region_home *home, struct region_ask *ask, nigh_status status);

/* From a holder or a mapper. */
void region_home_take(struct region_home *home, const struct region_message *message);

/* A member has told all that it holds, of all regions whose home this is. */
void region_home_told(struct region_home *home, uint32_t rank);

void region_home_dead(struct region_home *home, uint32_t rank);
/* One that was dead is there with another incarnation, and has nothing. */
void region_home_alive(struct region_home *home, uint32_t rank);
/* Without a lease nothing that is asked for is begun, or acknowledged: NIGH_NO_QUORUM; and mappers
 * wait. */
void region_home_lease(struct region_home *home, bool has_lease);
/* The link to a member is back: what it was asked and has not answered it is asked again. */
void region_home_link(struct region_home *home, uint32_t rank);

/* Whether it waits for mappers to stand still before it freezes: the caller bounds that. */
static inline bool region_home_is_holding(const struct region_home *home)
{
    return home->change.round == REGION_ROUND_HOLD;
}
/* It has waited for long enough: who does not stand still is refused at the holders. */
void region_home_held(struct region_home *home);

/* All chunks are to have new handles, so that nothing lands any more that was posted before by who
 * is dead, or does not know what became of it: a change of its own. Then is_fenced. */
void region_home_fence(struct region_home *home);

/* Another node is the home now: all asks are answered with this status. Nothing follows. */
void region_home_end(struct region_home *home, nigh_status status);

/* No region, nothing under way, nobody waits: the machine need not be. */
bool region_home_is_idle(const struct region_home *home);

bool region_home_is_valid(const struct region_home *home);

#endif
