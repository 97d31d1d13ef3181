/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of agree.h share: agree.c has its life, leases and messages; agree_lead.c what a
 * leader proposes; agree_join.c how seats are given, agree_forget.c how they are struck off;
 * agree_roster.c names, and how who does not vote hears who there is; agree_raft.c libraft's seams
 * (storage, sending, time); agree_wire.c messages of Raft as bytes; agree_guard.c which of them
 * libraft may see; agree_store.c the log as bytes. For no one else.
 */
#ifndef CLUSTER_AGREE_INTERNAL_H
#define CLUSTER_AGREE_INTERNAL_H

#include <raft.h>

#include "base/list.h"
#include "base/random.h"
#include "cluster/agree.h"

#define AGREE_VOTERS     5u
#define AGREE_DATA_BYTES 256u /* of an entry of the log */

/* Kinds of messages: those of libraft (RAFT_IO_*), and ours. */
enum agree_kind {
    AGREE_ASK = 32,
    AGREE_GRANT,
    AGREE_HINT,
    AGREE_JOIN,   /* numbers: a nonce; behind it an address */
    AGREE_SEATED, /* numbers: its nonce, a rank, 0 or 1: none is left; behind it the roster */
    AGREE_NAME,   /* behind it what the sender wants to be called */
    AGREE_ROSTER, /* behind it the roster: to who said in an ASK that it has another */
    AGREE_FORGET, /* numbers: a nonce, the rank of a seat */
    AGREE_FORGOT  /* numbers: its nonce, a status without its sign */
};

/* The head of every message; what the numbers mean is in agree_wire.c and agree.c. */
struct agree_head {
    uint8_t kind;
    uint8_t flags;
    uint16_t entries;
    uint32_t changes; /* of an ASK: of the roster that its sender has, what fits */
    uint64_t numbers[4];
};

#define AGREE_FLAG_FIRST 1 /* of an ASK: this life has no lease yet */

_Static_assert(sizeof(struct agree_head) == 40, "the head is on the wire");

/* An entry of the log, in a message and as it is stored; its bytes follow. */
struct agree_entry_head {
    uint64_t term;
    uint32_t type;
    uint32_t bytes;
};

_Static_assert(sizeof(struct agree_entry_head) == 16, "it is on the wire and on disk");

struct agree_entry {
    struct agree_entry_head head;
    uint8_t data[AGREE_DATA_BYTES];
};

/* What outlives the process. */
struct agree_log {
    uint64_t term;
    uint64_t vote;
    uint64_t first;          /* index of entries[0] */
    uint64_t snapshot_index; /* 0: there is none */
    uint64_t snapshot_term;
    uint64_t snapshot_conf; /* index of its configuration */
    struct agreed snapshot;
    struct agreed_roster snapshot_roster;
    uint32_t count;
    struct agree_entry entries[AGREE_ENTRIES];
};

/* What libraft is told later: from inside the call that it made it must not be. */
struct agree_later {
    struct list_node place;
    void (*run)(struct agree *agree, struct agree_later *later);
    void *request;
    struct raft_snapshot *snapshot;
};

/* What a leader knows of a member. */
struct agree_member {
    uint64_t heard_us;   /* 0: not yet */
    uint64_t since_us;   /* asks without a gap since */
    uint64_t dead_us;    /* was said to be dead; 0: was not, or has asked since */
    uint64_t adopted;    /* all its lanes */
    uint64_t contact_us; /* of the latest word of ours that it has heard, by our clock; 0: none */
    uint64_t nonce;      /* of a first ASK that waits for an answer; 0: none */
    uint64_t waits_from; /* number of the barrier that it waits for */
    bool wants_name;     /* this one: */
    char name[AGREED_NAME_BYTES];
};

/* Somebody who asked us for a seat, and for whom we ask the leader. */
struct agree_join {
    uint64_t nonce; /* 0: free */
    uint64_t due_us, until_us;
    char address[AGREED_ADDRESS_BYTES];
};

/* Who asks the leader: a member, for one that joins. */
struct agree_joiner {
    uint64_t nonce; /* 0: free */
    uint32_t rank;
    char address[AGREED_ADDRESS_BYTES];
};

/* A seat that is to be struck off, for which we ask the leader. */
struct agree_forget {
    uint64_t nonce; /* 0: free */
    uint64_t due_us, until_us;
    uint32_t rank;
};

/* The same at the leader: who asks, and when it did last. */
struct agree_forgetter {
    uint64_t nonce; /* 0: free */
    uint64_t rank;
    uint64_t asked_us;
    uint32_t from;
};

struct agree {
    struct agree_config config;
    uint64_t now_us;
    uint64_t start_us;
    struct random random;
    /* Raft */
    bool votes;
    bool failed;
    bool running;
    struct raft raft;
    struct raft_io io;
    struct raft_fsm fsm;
    raft_io_tick_cb tick;
    raft_io_recv_cb recv;
    uint64_t tick_us;
    struct agree_log log;
    struct list later;
    char names[AGREE_VOTERS][4];
    /* Of what is agreed */
    struct agreed applied;       /* by this voter's log */
    struct agreed_roster roster; /* as well */
    struct agreed known;         /* the latest of all that was heard */
    uint64_t seats_told;         /* that are taken, by what a leader said */
    uint64_t adopted;
    /* Our lease */
    uint64_t lease_us;
    uint64_t nonce;        /* of the ASK under way */
    uint64_t stamp, token; /* of the latest GRANT: said again in an ASK */
    uint64_t asked_us;
    uint64_t renew_us; /* when to ask next */
    uint32_t leader;   /* as far as known */
    uint32_t next;     /* voter to ask when none is known */
    /* A leader's */
    bool leads;
    bool ready; /* has applied all that was decided before its term */
    uint64_t leads_us;
    uint64_t own_token;         /* of the time that it leads: what members say again is of that */
    uint64_t epoch_us;          /* when it saw the present epoch first */
    uint64_t epoch;             /* which that is */
    uint64_t barriers, reached; /* begun, ended well */
    bool barrier_pending, apply_pending;
    bool barrier_wanted;
    struct raft_barrier barrier;
    struct raft_apply apply;
    uint64_t elections, proposed, granted, hinted, malformed;
    struct agree_member members[LIMIT_NODES];
    struct agree_joiner joiners[AGREE_JOINERS];
    struct agree_forgetter forgetters[AGREE_FORGETTERS];
    /* Those that join by us, and what we ask to have struck off */
    struct agree_join joins[AGREE_JOINS];
    struct agree_forget forgets[AGREE_FORGETS];
};

/* ---- agree.c ---- */

/* Runs what libraft is to be told, until nothing is left. */
void agree_run_later(struct agree *agree);

/* Hears of what is agreed. */
void agree_learn(struct agree *agree, const struct agreed *agreed);

/* Answers who waited for a barrier. */
void agree_answer_first(struct agree *agree);

/* Whom to ask: who leads as far as we know, else a voter, by turns. AGREE_NOBODY: we lead, or it is
 * not known. */
uint32_t agree_whom(struct agree *agree);

/* Ranks that are or were somebody's: the list's, and of those who joined. As voters know it. */
static inline uint32_t agree_ranks(const struct agree *agree)
{
    return agree->config.listed + (uint32_t)agree->roster.count;
}

/* Whether a rank is somebody's. */
static inline bool agree_is_member(const struct agree *agree, uint32_t rank)
{
    return rank < agree_ranks(agree) &&
           !agreed_is_struck(&agree->roster, agree->config.listed, rank);
}

/* Whether a rank is one of those that vote. */
static inline bool agree_may_vote(const struct agree *agree, uint32_t rank)
{
    return rank < agree_voters(agree->config.listed);
}

/* ---- agree_join.c ---- */

void agree_hear_join(struct agree *agree, uint32_t rank, const struct agree_head *head,
                     const char address[AGREED_ADDRESS_BYTES]);
void agree_hear_seated(struct agree *agree, uint32_t from, const struct agree_head *head,
                       const uint8_t *bytes, size_t count);
/* Asks again; returns when to look again. */
uint64_t agree_join_tick(struct agree *agree);
/* A leader's: answers those who have a seat, and proposes one for who has none; true: it did. */
bool agree_seat(struct agree *agree);

/* ---- agree_forget.c ---- */

void agree_hear_forget(struct agree *agree, uint32_t rank, const struct agree_head *head);
void agree_hear_forgot(struct agree *agree, uint32_t from, const struct agree_head *head);
/* Asks again; returns when to look again. */
uint64_t agree_forget_tick(struct agree *agree);
/* A leader's: answers those whose seat is struck off, or cannot be, and proposes one; true: it did.
 * *due_us: when to look again. */
bool agree_strike(struct agree *agree, uint64_t *due_us);
/* It was decided. */
void agree_struck(struct agree *agree, uint32_t rank);

/* ---- agree_roster.c ---- */

/* Asks for the name that this node wants, where it is not called that: of who leads. */
void agree_ask_name(struct agree *agree, uint32_t rank);
void agree_hear_name(struct agree *agree, uint32_t rank, const char name[AGREED_NAME_BYTES]);
/* A leader's: proposes a name that somebody wants, and nobody has; true: it did. */
bool agree_name(struct agree *agree);
/* Tells a member who there is. */
void agree_tell_roster(struct agree *agree, uint32_t rank);
void agree_hear_roster(struct agree *agree, uint32_t from, const uint8_t *bytes, size_t count);

/* ---- agree_lead.c ---- */

/* Proposes what there is to propose; returns when it must be looked at again. */
uint64_t agree_lead(struct agree *agree);

/* A member asked. */
void agree_lead_heard(struct agree *agree, uint32_t rank, const struct agree_head *head);

/* Until when a majority of the voters followed us, as far as that was heard, and is taken to; 0:
 * not now. Who stood still finds out by this that others may lead. */
uint64_t agree_leads_until_us(const struct agree *agree);

/* ---- agree_raft.c ---- */

int agree_raft_start(struct agree *agree, bool bootstrap);
void agree_raft_stop(struct agree *agree);
/* Carries a message of a voter to libraft. */
void agree_raft_hear(struct agree *agree, uint32_t rank, const uint8_t *bytes, size_t count);
/* True when it is under way. */
bool agree_raft_propose(struct agree *agree, const struct agreed_command *command);
bool agree_raft_barrier(struct agree *agree);

static inline bool agree_votes(const struct agree *agree)
{
    return agree->running && !agree->failed;
}

static inline raft_id agree_id(uint32_t rank)
{
    return (raft_id)rank + 1;
}

/* ---- agree_wire.c ---- */

/* Bytes of the message, at most AGREE_MESSAGE_BYTES; 0: it is none that we send. An AppendEntries
 * that is too long loses its last entries. */
size_t agree_encode(const struct raft_message *message, uint8_t *out);

/* Reads one; its memory is libraft's to free. NIGH_PROTOCOL, NIGH_NO_RESOURCES. */
nigh_status agree_decode(struct agree *agree, const uint8_t *bytes, size_t count,
                         struct raft_message *message);

/* What is agreed as bytes: at most AGREE_STATE_BYTES. */
#define AGREE_STATE_BYTES (sizeof(struct agreed) + AGREED_ROSTER_BYTES)
size_t agree_state_write(const struct agreed *agreed, const struct agreed_roster *roster,
                         uint8_t *out);
/* False: it cannot be. */
bool agree_state_read(const struct agree *agree, const uint8_t *bytes, size_t count,
                      struct agreed *agreed, struct agreed_roster *roster);
/* Whether nobody who is struck off may serve. */
bool agree_fit(const struct agree *agree, const struct agreed *agreed,
               const struct agreed_roster *roster);

/* The first and only configuration: the voters. 0, or an error of libraft. */
int agree_configuration(const struct agree *agree, struct raft_configuration *configuration);

/* How many bytes of an encoded configuration mean something. */
size_t agree_configuration_bytes(const struct raft_configuration *configuration);

/* Frees what was read and libraft is not given. */
void agree_discard(struct raft_message *message);

/* ---- agree_guard.c ---- */

/* Whether libraft can be shown a message: no voter that knows what we know would be harmed by it.
 */
bool agree_is_sound(struct agree *agree, const struct raft_message *message);

/* ---- agree_store.c ---- */

/* Keeps the log; NIGH_OK when it outlives the machine. */
nigh_status agree_store(struct agree *agree);

/* Reads what was kept. */
nigh_status agree_load(struct agree *agree, const void *stored, size_t bytes,
                       char why[AGREE_WHY_BYTES]);

#endif
