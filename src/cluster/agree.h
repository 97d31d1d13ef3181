/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node's part in deciding views: Raft by libraft among the voters, and the leases by which every
 * member knows that it is no minority (docs/views.md).
 *
 * No I/O, no clock, no thread of its own: messages, time and what is stored come in and go out by
 * the functions and callbacks below, so that the simulator runs the same code. Nothing that a peer
 * sends changes more than what that peer, having the cluster's key, may say. One thread at a time.
 */
#ifndef CLUSTER_AGREE_H
#define CLUSTER_AGREE_H

#include <stddef.h>

#include "cluster/agreed.h"

#define AGREE_ELECTION_MS   1000u
#define AGREE_HEARTBEAT_MS  250u
#define AGREE_RENEW_US      UINT64_C(500000) /* half as long for voters */
#define AGREE_LEASE_US      UINT64_C(2000000)
#define AGREE_LEADS_US      UINT64_C(1500000)
#define AGREE_GRACE_US      (AGREE_LEADS_US + AGREE_LEASE_US + UINT64_C(500000))
#define AGREE_SETTLE_US     UINT64_C(1000000)
#define AGREE_REPLACE_DEADS UINT64_C(8) /* times dead_us: then a silent voter is replaced */
#define AGREE_SNAPSHOT      32u         /* entries of the log before it is cut */
#define AGREE_TRAILING      8u          /* that stay then, for voters that are a little behind */
#define AGREE_ENTRIES       256u        /* of the log, at most */
#define AGREE_JOIN_US       UINT64_C(10000000)
#define AGREE_JOINS         8u  /* that a member asks for at once */
#define AGREE_JOINERS       32u /* that a leader is asked for at once */
#define AGREE_FORGET_US     UINT64_C(10000000)
#define AGREE_FORGETS       4u     /* seats that a member asks to have struck off at once */
#define AGREE_FORGETTERS    8u     /* that a leader is asked for at once */
#define AGREE_MESSAGE_BYTES 32768u /* of a message, at most */
#define AGREE_NOBODY        UINT32_MAX
#define AGREE_WHY_BYTES     192

struct agree;

struct agree_config {
    uint32_t self;
    uint32_t listed;  /* members that the list names */
    uint32_t count;   /* of ranks: theirs, and those of seats for who joins */
    uint64_t cluster; /* of the list of members: what is stored is of one list */
    uint64_t dead_us; /* who has not asked for so long, and a lease's time, is taken out */
    bool joins;       /* it has its rank by the word of another member */
    char name[AGREED_NAME_BYTES]; /* that this node wants to be called; "": nothing */
    uint64_t seed;
    void *context; /* of these: */
    /* Sends, or loses: at most AGREE_MESSAGE_BYTES, to another member. Not from inside agree. */
    void (*send)(void *context, uint32_t rank, const void *bytes, uint32_t count);
    /* Keeps bytes, in place of those that were kept before: NIGH_OK when they outlive the machine.
     * Of voters alone. */
    nigh_status (*store)(void *context, const void *bytes, size_t count);
    /* How an agree_join ended: NIGH_OK, the rank of its seat, and who has the others;
     * NIGH_NO_RESOURCES: no seat is left; NIGH_NO_QUORUM: nobody decided for AGREE_JOIN_US. */
    void (*seated)(void *context, const char *address, nigh_status status, uint32_t rank,
                   const struct agreed_roster *roster);
    /* How an agree_forget ended: NIGH_OK: the seat is struck off, now or before; NIGH_NOT_FOUND:
     * nobody has the rank; NIGH_BUSY: its node lives; NIGH_UNSUPPORTED: the
     * list names it; NIGH_TIMEOUT: it was not decided for AGREE_FORGET_US, as its node was in the
     * view still, or nobody decides. */
    void (*forgot)(void *context, uint32_t rank, nigh_status status);
};

/* Of so many members of the list, how many vote at first: the first ones. */
uint32_t agree_voters(uint32_t listed);

/* Begins. `stored`: what was kept last; 0 bytes: nothing was. On failure `why` is a sentence:
 * NIGH_CORRUPT (of what was kept), NIGH_VERSION (it is another's), NIGH_NO_RESOURCES, NIGH_IO
 * (nothing can be kept). */
nigh_status agree_create(const struct agree_config *config, const void *stored, size_t stored_bytes,
                         uint64_t now_us, struct agree **agree, char why[AGREE_WHY_BYTES]);
void agree_destroy(struct agree *agree);

/* Others can reach this node from now on: who kept nothing waits from then for those that know. */
void agree_opened(struct agree *agree, uint64_t now_us);

/* A member, who proved to be that, says something. Anything may be in it. */
void agree_hear(struct agree *agree, uint32_t rank, const void *bytes, size_t count,
                uint64_t now_us);

/* Every lane of this node has adopted an epoch. */
void agree_adopted(struct agree *agree, uint64_t epoch, uint64_t now_us);

/* A member is dead, or said goodbye: taken out without waiting, unless it asks. */
void agree_dead(struct agree *agree, uint32_t rank, uint64_t now_us);

/* Somebody at this address wants to join: `seated` tells, once, how that ended. NIGH_OK: it is
 * asked for, now or already; NIGH_NO_RESOURCES: AGREE_JOINS are under way; NIGH_INVALID: too long.
 */
nigh_status agree_join(struct agree *agree, const char *address, uint64_t now_us);

/* This node leaves, or does not any more: another is to vote in its place, if one can. */
void agree_leave(struct agree *agree, bool leaves, uint64_t now_us);

/* The seat of this rank is to be struck off for ever, its node being gone: `forgot` tells, once,
 * how that ended. NIGH_OK: it is asked for, now or already; NIGH_NO_RESOURCES: AGREE_FORGETS are
 * under way. */
nigh_status agree_forget(struct agree *agree, uint32_t rank, uint64_t now_us);

/* Time passes; returns when it must be called next. */
uint64_t agree_tick(struct agree *agree, uint64_t now_us);

/* What is known here. */
struct agree_look {
    struct agreed agreed; /* epoch 0: nothing yet */
    uint32_t seats;       /* that were given; with a lease: all that were when it was granted */
    bool has_lease;       /* may ask and serve, until lease_us */
    uint64_t lease_us;
    uint32_t leader; /* AGREE_NOBODY: not known */
    bool votes;
    bool bare; /* it kept nothing, and takes no part in votes until it is known what that means */
    struct agreed_set voters; /* as far as known here */
    bool failed; /* its part in the voting is over until a restart: nothing could be kept */
    uint64_t term;
    uint64_t elections;                 /* that this node has won */
    uint64_t proposed, granted, hinted; /* counts */
    uint64_t malformed;                 /* messages that were none */
};

void agree_look(const struct agree *agree, uint64_t now_us, struct agree_look *look);

/* Who there is, as far as known here, until anything else is called: a voter's log says it, and who
 * does not vote is told by who leads. */
const struct agreed_roster *agree_roster(const struct agree *agree);

#endif
