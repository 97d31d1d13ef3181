/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that agree on views in virtual time, by seed: messages that are late, lost and out of
 * order, cuts (also of one direction), deaths that leave what was kept, pauses, lanes that adopt
 * late, others that join, or are struck off. After every event: one view an epoch, no key with two
 * homes that serve, no rank with two who joined, ever, no address with two, nobody who is struck
 * off in a view or with a lease, of as many changes one roster; one
 * leader a term, one decision about who votes an index, and each a step from the one before, of
 * which one at most is not decided; and who has begun it keeps that it is before anybody sees that.
 */
#ifndef SIM_VIEWS_WORLD_H
#define SIM_VIEWS_WORLD_H

#include "base/random.h"
#include "cluster/agree.h"
#include "rpc/calls.h"
#include "trace.h"

#define VIEWS_NODES    9u
#define VIEWS_MESSAGES 2048u
#define VIEWS_EPOCHS   4096u
#define VIEWS_KEYS     24u
#define VIEWS_STORED   (64u << 10)
#define VIEWS_JOINERS  VIEWS_NODES

struct views_node {
    struct agree *agree; /* NULL: it is dead */
    bool paused;
    uint64_t due_us;
    /* Its lanes: what they have adopted, and serve while the lease is of that epoch. */
    struct agreed adopted;
    uint64_t adopts_us; /* when they take what is known now; 0: they have */
    bool serves[VIEWS_KEYS];
    uint32_t joined;              /* ranks behind the list that had been given when it started */
    char name[AGREED_NAME_BYTES]; /* that it wants in its next life */
    uint64_t checked;             /* the changes of the roster that was looked at, and one */
    bool said_leads, said_lease;
    uint64_t raft_checked; /* what was looked at of its log */
    /* What outlives it. */
    uint8_t stored[VIEWS_STORED];
    size_t stored_bytes;
    bool disk_fails;
    uint64_t stores;
    bool joins;     /* it has its rank by the word of another member */
    uint64_t begun; /* the change of who votes that it has begun, as it kept it last */
};

#define VIEWS_CHANGES 1024u
#define VIEWS_TERMS   4096u
#define VIEWS_INDEXES 8192u

/* Somebody who is not of the list, at an address of its own. */
struct views_joiner {
    bool asks;     /* has asked some member */
    uint32_t rank; /* that it was told; AGREE_NOBODY: none yet */
    uint32_t refused, unanswered;
    uint32_t told; /* how often it was told that rank */
    bool started;
};

struct views_message {
    uint64_t at_us; /* 0: free */
    uint32_t from, to;
    uint32_t count;
    uint8_t bytes[CALLS_PAYLOAD];
};

struct views_world {
    uint32_t count; /* ranks */
    uint32_t
        listed; /* of those the list has: all, unless somebody says otherwise before the start */
    uint64_t now_us;
    struct random random;
    uint32_t loss_permille;
    uint8_t loses_kind; /* messages of this kind are lost, and counted; 0: none */
    uint64_t lost_of_kind;
    uint64_t delay_us; /* of a message at most */
    uint64_t dead_us;
    struct views_node nodes[VIEWS_NODES];
    struct views_joiner joiners[VIEWS_JOINERS];
    uint32_t seated[VIEWS_NODES]; /* which joiner has, or had, a rank, and one */
    struct agreed_set struck;
    uint64_t struck_changes;            /* of the roster that says so */
    uint32_t answers[VIEWS_NODES];      /* to who wanted a rank struck off */
    nigh_status forgotten[VIEWS_NODES]; /* the last of them */
    struct agreed_set told;             /* somebody was, that it is struck off */
    uint64_t strikes;
    bool cut[VIEWS_NODES][VIEWS_NODES]; /* from, to */
    struct views_message messages[VIEWS_MESSAGES];
    /* What was seen. */
    struct agreed_set views[VIEWS_EPOCHS]; /* by epoch */
    uint64_t epochs;                       /* the highest */
    uint64_t rosters[VIEWS_CHANGES];       /* what each hashes to, and one; by changes */
    uint32_t leaders[VIEWS_TERMS];         /* by term: who led, and one */
    uint32_t confs[VIEWS_INDEXES];         /* who votes, by index: what that hashes to */
    uint64_t decided;                      /* the highest index that anybody knows to be decided */
    uint64_t events, sent, lost;
    const char *broken; /* an invariant that does not hold */
    uint64_t said_active;
    struct trace *heard; /* for a test; NULL: for none */
};

void views_init(struct views_world *world, uint32_t count, uint64_t seed);
void views_fini(struct views_world *world);

void views_start(struct views_world *world, uint32_t rank);
/* It dies: what it kept stays. */
void views_kill(struct views_world *world, uint32_t rank);

/* Who is not of the list asks a member for a seat; it starts once it is told its rank. */
void views_join(struct views_world *world, uint32_t joiner, uint32_t via);
/* Asks a member to have a rank struck off. */
void views_forget(struct views_world *world, uint32_t rank, uint32_t via);
/* The list, and who was told a rank that is not struck off. */
struct agreed_set views_everybody(const struct views_world *world);

/* What happens, in the words of world_say (world.h). */
void views_say(const struct views_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Runs until a time; false: an invariant broke (world->broken). */
bool views_run(struct views_world *world, uint64_t until_us);

/* The home of a key in a view. */
uint32_t views_home(const struct agreed_set *set, uint32_t key);
/* Whether a node serves a key now; anything at all. */
bool views_serves(const struct views_world *world, uint32_t rank, uint32_t key);
bool views_has_lease(const struct views_world *world, uint32_t rank);
/* Whether all that run, and count, are in one active view with just these in it. */
bool views_settled(const struct views_world *world, const struct agreed_set *in);

/* Who votes, as far as the leader knows; empty: nobody leads. */
struct agreed_set views_voters(const struct views_world *world);

/* What happened last, and who knows what, for whoever looks at a failure. */
void views_print(const struct views_world *world);

#endif
