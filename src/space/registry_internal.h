/* SPDX-License-Identifier: Apache-2.0 */
/* What registry.c (spaces, asks) and registry_letters.c (what is said and heard) share. */
#ifndef SPACE_REGISTRY_INTERNAL_H
#define SPACE_REGISTRY_INTERNAL_H

#include "base/check.h"
#include "space/message.h"
#include "space/registry.h"

enum space_known_state {
    KNOWN_FREE = 0,
    KNOWN_MAKING,   /* its memory is */
    KNOWN_HERE,     /* this node has it */
    KNOWN_WITHOUT,  /* this node has no memory for it */
    KNOWN_GOING,    /* it is deleted; others may yet write to its memory */
    KNOWN_FORGOTTEN /* until the shell is done with it */
};

/* Sets of seats are of those with a link. */
struct space_known {
    enum space_known_state state;
    struct space_info info;
    nigh_status why; /* WITHOUT */
    bool is_unmade;  /* it was deleted before its memory was made */
    struct space_site own;
    uint64_t told; /* what it is, of those who were told, or told it */
    uint64_t said; /* who was told whether this node has it, */
    uint64_t has;  /* who said that it has it, */
    uint64_t without;
    uint64_t unknown; /* of those: who does not know it */
    uint64_t ready;   /* its maker's: who said READY */
    uint64_t waits;   /* GOING: who has not said GONE, */
    uint64_t gone;    /* and who was told */
    uint8_t maker;    /* who waits for READY; SPACE_NOBODY: nobody does, or it was said */
    bool is_asked;    /* it is being made, or deleted, for: */
    uint8_t asker;    /* SPACE_NOBODY: who is gone */
    uint32_t number;
    struct space_site memories[SPACE_SEATS]; /* of `has` */
};

struct space_tombstone {
    uint64_t birth;   /* 0: none */
    uint64_t to_tell; /* who takes it for alive */
};

struct space_ask {
    bool is_used, is_said;
    bool deletes;
    uint8_t home;
    uint32_t number;
    struct space_info info; /* of a DELETE its birth alone */
};

struct space_answer_to {
    uint32_t number;
    int32_t status;
};

struct space_refusal {
    uint64_t birth;
    int32_t status;
};

/* What is yet to be told to a node, besides what spaces and tombstones say; and what it says. */
struct registry_peer {
    uint32_t answers, refusals;
    struct space_answer_to answer[LIMIT_SPACE_MAKES];
    struct space_refusal refusal[LIMIT_SPACES];
    bool was_refused;         /* something that it told of, */
    bool is_to_tell;          /* and may be known by now */
    struct space_letter name; /* that is next */
    bool has_name;
    struct space_letter half; /* heard, without its name */
    bool has_half;
    uint32_t asks; /* of it, not answered */
};

/* What space_registry_said is about. */
struct registry_next {
    uint8_t kind; /* 0: nothing */
    uint8_t seat;
    bool is_refusal, is_of_tombstone, is_ask;
    uint32_t place; /* of a space, a tombstone, or an ask */
};

struct space_registry {
    uint8_t self;
    bool has_lease;
    struct space_registry_shell shell;
    uint64_t linked;
    uint64_t to_say;
    uint32_t tombstones_ever;
    struct registry_next next;
    struct space_known known[LIMIT_SPACES];
    struct space_tombstone tombstones[LIMIT_SPACE_TOMBSTONES];
    struct space_ask asks[LIMIT_SPACE_MAKES];
    struct registry_peer peers[SPACE_SEATS];
};

static inline bool known_is_alive(const struct space_known *known)
{
    return known->state == KNOWN_MAKING || known->state == KNOWN_HERE ||
           known->state == KNOWN_WITHOUT;
}

static inline uint32_t registry_place(const struct space_registry *registry,
                                      const struct space_known *known)
{
    return (uint32_t)(known - registry->known);
}

/* By its birth, whatever its state; NULL. */
struct space_known *registry_known(struct space_registry *registry, uint64_t birth);
struct space_tombstone *registry_tombstone(struct space_registry *registry, uint64_t birth);
struct space_tombstone *registry_bury(struct space_registry *registry, uint64_t birth);

/* One that is new here. NULL: there is no place. */
struct space_known *registry_add(struct space_registry *registry, const struct space_info *info);
/* It is deleted; `but`: who has said so. */
void registry_delete(struct space_registry *registry, struct space_known *known, uint64_t but);
/* Something was heard, or said, of a space: it may go on. */
void registry_go_on(struct space_registry *registry, struct space_known *known);
/* Whether all of whom this node knows have told it whether they have it. */
bool registry_is_told(const struct space_registry *registry, const struct space_known *known);
/* Whoever asked for what is being made, or deleted, is told. */
void registry_answer(struct space_registry *registry, struct space_known *known,
                     nigh_status status);
void registry_answer_to(struct space_registry *registry, uint8_t seat, uint32_t number,
                        nigh_status status);
/* An ask of that seat is carried out here. Another status than NIGH_OK: it is answered by that. */
nigh_status registry_begin_make(struct space_registry *registry, const struct space_info *info,
                                uint8_t seat, uint32_t number);
nigh_status registry_begin_delete(struct space_registry *registry, uint64_t birth, uint8_t seat,
                                  uint32_t number);
void registry_end_ask(struct space_registry *registry, struct space_ask *ask, nigh_status status);

#endif
