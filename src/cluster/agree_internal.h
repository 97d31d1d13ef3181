/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of agree.h share: agree.c has its life, leases and messages; agree_begin.c what
 * one does that kept nothing; agree_lead.c what a leader proposes; agree_join.c how seats are
 * given, agree_forget.c how they are struck off; agree_roster.c names, and how who does not vote
 * hears who there is; agree_raft.c libraft's seams (storage, sending, time); agree_conf.c who takes
 * part in Raft; agree_voters.c whom a leader has vote; agree_wire.c messages of Raft as bytes;
 * agree_guard.c what of them can be; agree_store.c the log as bytes. For no one else.
 */
#ifndef CLUSTER_AGREE_INTERNAL_H
#define CLUSTER_AGREE_INTERNAL_H

#include <raft.h>

#include "base/list.h"
#include "base/random.h"
#include "cluster/agree.h"
#include "cluster/agree_begin.h"

/* Who leads looks at its clock in less: between, its disk or its machine kept it from hearing. */
#define AGREE_STOOD_US   UINT64_C(300000)
#define AGREE_STALE_US   (4 * AGREE_RENEW_US) /* who asks no more is asked for no more */
#define AGREE_VOTERS     5u
#define AGREE_SERVERS    7u   /* they, and those that are to vote next */
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
    AGREE_FORGOT, /* numbers: its nonce, a status without its sign */
    AGREE_KNOWN /* behind it the tokens of the first voters' directories, as its sender has them */
};

/* The head of every message; what the numbers mean is in agree_wire.c and agree.c. */
struct agree_head {
    uint8_t kind;
    uint8_t flags;
    uint16_t entries;
    uint32_t changes; /* of an ASK: of the roster that its sender has, what fits */
    uint64_t numbers[4];
};

#define AGREE_FLAG_FIRST  1  /* of an ASK: this life has no lease yet */
#define AGREE_FLAG_LEAVES 2  /* of an ASK: another is to vote in its place */
#define AGREE_FLAG_MUTE   4  /* of an ASK: what it would say as a voter cannot be kept */
#define AGREE_FLAG_BARE   8  /* of an ASK, a KNOWN: its sender kept nothing */
#define AGREE_FLAG_ASKS   16 /* of a KNOWN: it is to be answered by one */
#define AGREE_FLAG_FREE   32 /* of a GRANT: who kept nothing takes no part in Raft, and may again */

#define AGREE_KNOWN_BYTES (AGREE_VOTERS * sizeof(uint64_t)) /* behind the head of a KNOWN */

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

/* Who takes part in Raft, as of an entry of the log: who votes, and who is to. */
struct agree_server {
    uint16_t rank;
    uint16_t role; /* RAFT_VOTER, RAFT_STANDBY, RAFT_SPARE */
};

struct agree_conf {
    uint64_t index; /* 0: not known */
    uint32_t count;
    struct agree_server servers[AGREE_SERVERS];
};

_Static_assert(sizeof(struct agree_conf) == 40, "it is on the wire and on disk");

#define AGREE_NO_ROLE UINT32_MAX

/* What is behind the head of a GRANT. */
struct agree_news {
    struct agreed agreed;
    struct agree_conf conf; /* what was decided last */
};

_Static_assert(sizeof(struct agree_news) == 120, "it is on the wire");

/* What outlives the process. */
struct agree_log {
    uint64_t term;
    uint64_t vote;
    uint64_t begun; /* the change of who votes that this node has begun, leading in this term, and
                     * that is not known to be decided; 0: none */
    uint64_t first; /* index of entries[0] */
    uint64_t snapshot_index; /* 0: there is none */
    uint64_t snapshot_term;
    uint64_t tokens[AGREE_VOTERS]; /* with which it began; of a first voter always its own */
    bool was_let_in; /* it is of those with which a list begins, and came to one that had begun */
    struct agree_conf snapshot_conf;
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
    uint64_t granted_us; /* a lease, also to an ASK that does not count, or its rank; 0: not yet */
    uint64_t dead_us;    /* was said to be dead; 0: was not, or has asked since */
    uint64_t adopted;    /* all its lanes */
    uint64_t contact_us; /* of the latest word of ours that it has heard, by our clock; 0: none */
    uint64_t nonce;      /* of a first ASK that waits for an answer; 0: none */
    uint64_t waits_from; /* number of the barrier that it waits for */
    uint64_t acked_us;   /* when it answered an AppendEntries of ours last; 0: has not */
    uint64_t stored;     /* the last entry of which it said then that it has it */
    uint64_t added_us;   /* since when it gets the log, and does not vote; 0: does not */
    uint64_t spurned_us; /* until then it is not asked to vote: it did not take the log */
    bool leaves;         /* it said so */
    bool is_bare;        /* it kept nothing, and takes no part in Raft until it is told to */
    bool is_mute;        /* as well: what it would say as a voter it cannot keep */
    bool is_gone;        /* it comes without what it kept, or is to be struck off */
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
    uint64_t asked_us;
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
    uint64_t awake_us; /* when it stood still last, as one that leads: until then */
    struct random random;
    /* What is not known yet of one that kept nothing */
    bool is_bare;
    bool said_waits;
    struct begin begin;
    uint64_t known_us; /* when to ask next who knows of a cluster */
    /* Raft */
    bool failed;
    bool running;
    struct raft raft;
    struct raft_io io;
    struct raft_fsm fsm;
    raft_io_tick_cb tick;
    raft_io_recv_cb recv;
    uint64_t tick_us;
    struct agree_log log;
    uint64_t matched; /* entries of the log that who spoke last as a leader has, too */
    struct list later;
    char names[LIMIT_NODES][4];
    struct agree_conf begun; /* who votes at first */
    struct agree_conf own;   /* what is in effect by our log */
    struct agree_conf told;  /* what a leader said was decided last */
    /* Of what is agreed */
    struct agreed applied;            /* by this voter's log */
    struct agreed_roster roster;      /* as well */
    struct agreed_roster told_roster; /* by who leads */
    struct agreed known;              /* the latest of all that was heard */
    uint64_t seats_told;              /* that are taken, by what a leader said */
    uint64_t adopted;
    bool leaves; /* this node does */
    /* Our lease */
    uint64_t lease_us;
    uint64_t nonce;        /* of the ASK under way */
    uint64_t stamp, token; /* of the latest GRANT: said again in an ASK */
    uint64_t asked_us;
    uint32_t asked;    /* whom */
    uint64_t lost_us;  /* when a leader was known last, by Raft */
    uint64_t renew_us; /* when to ask next */
    uint32_t leader;   /* as far as known */
    uint32_t turns;    /* how often somebody was asked who was not known to lead */
    uint32_t next;     /* whose turn it is to be asked when none is known */
    /* A leader's */
    bool leads;
    bool ready; /* has applied all that was decided before its term */
    uint64_t leads_us;
    uint64_t own_token;         /* of the time that it leads: what members say again is of that */
    uint64_t epoch_us;          /* when it saw the present epoch first */
    uint64_t epoch;             /* which that is */
    uint64_t barriers, reached; /* begun, ended well */
    bool barrier_pending, apply_pending;
    uint32_t going; /* whom what is applied now strikes off; AGREE_NOBODY: nobody */
    bool barrier_wanted, change_pending;
    struct raft_barrier barrier;
    struct raft_apply apply;
    struct raft_change change;
    /* Those that are to decide a change have shown that they write: an entry of ours. */
    uint64_t shown_index; /* 0: none was written for that */
    uint64_t shown_us;    /* when it was */
    uint32_t shown_for;   /* who was to go then */
    uint64_t elections, proposed, granted, hinted, malformed;
    struct agree_member members[LIMIT_NODES];
    struct agree_joiner joiners[AGREE_JOINERS];
    struct agree_forgetter forgetters[AGREE_FORGETTERS];
    /* Those that join by us, and what we ask to have struck off */
    struct agree_join joins[AGREE_JOINS];
    struct agree_forget forgets[AGREE_FORGETS];
};

/* ---- agree.c ---- */

/* It is this time. What others said while this node stood still it may not have heard yet. */
void agree_wake(struct agree *agree, uint64_t now_us);

/* Runs what libraft is to be told, until nothing is left. */
void agree_run_later(struct agree *agree);

/* Hears of what is agreed. */
void agree_learn(struct agree *agree, const struct agreed *agreed);

/* Answers who waited for a barrier. */
void agree_answer_first(struct agree *agree);

/* Whom to ask: who leads as far as we know, else others by turns. AGREE_NOBODY: we lead, or it is
 * not known. */
uint32_t agree_whom(struct agree *agree);

/* Whether a member is heard as one that leads: it votes as far as known here, or was asked. */
bool agree_may_lead(const struct agree *agree, uint32_t rank);

/* Ranks that are or were somebody's: the list's, and of those who joined. As far as known here. */
static inline uint32_t agree_ranks(const struct agree *agree)
{
    return agree->config.listed + (uint32_t)agree_roster(agree)->count;
}

/* Whether a rank is somebody's. */
static inline bool agree_is_member(const struct agree *agree, uint32_t rank)
{
    return rank < agree_ranks(agree) &&
           !agreed_is_struck(agree_roster(agree), agree->config.listed, rank);
}

/* ---- agree_begin.c ---- */

/* Takes part in Raft with what was kept; where that is nothing, when it is known what that means.
 */
nigh_status agree_begin(struct agree *agree, char why[AGREE_WHY_BYTES]);
void agree_hear_known(struct agree *agree, uint32_t rank, const struct agree_head *head,
                      const uint8_t bytes[AGREE_KNOWN_BYTES]);
/* Of those that know of a cluster, of whom there are some, whose turn it is to be asked. */
uint32_t agree_who_knows(struct agree *agree);
/* Asks again, or begins; returns when to look again. */
uint64_t agree_begin_tick(struct agree *agree);
/* Who leads says that this node, which kept nothing, may take part in Raft. */
void agree_freed(struct agree *agree);

/* Whether this node is one of those with which a list begins, and has not. */
static inline bool agree_awaits_begin(const struct agree *agree)
{
    return agree->is_bare && agree->config.self < agree->begin.voters;
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

/* Whether this leader has proposed that a seat is struck off, and that is not decided yet. */
static inline bool agree_is_going(const struct agree *agree, uint32_t rank)
{
    return agree->apply_pending && agree->going == rank;
}

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

/* Whether a member asks for its leases: it lives. */
bool agree_asks(const struct agree *agree, uint32_t rank);
/* And has for a while. */
bool agree_has_settled(const struct agree *agree, uint32_t rank);

/* ---- agree_voters.c ---- */

/* A leader's: changes who votes, where that is to be; returns when to look again. */
uint64_t agree_change_voters(struct agree *agree);
/* Takes back a change that is under way, and that those who are to decide it do not answer for;
 * true: it did, and Raft has begun anew. */
bool agree_take_back(struct agree *agree);

/* ---- agree_raft.c ---- */

int agree_raft_start(struct agree *agree, bool bootstrap);
void agree_raft_stop(struct agree *agree);
/* Begins anew without the change that this node has begun (log.begun), and what is behind it. */
void agree_raft_drop(struct agree *agree);
/* A change that this node has begun is decided, if it is: that is kept before anybody hears of it.
 * False: it cannot be. */
bool agree_raft_settle(struct agree *agree);
/* Keeps the log, or ends our part in the voting: what was not kept must not be acted upon. 0, or an
 * error of libraft. */
int agree_raft_keep(struct agree *agree);
/* Gives libraft the time. */
void agree_raft_tick(struct agree *agree);
/* Carries a message of a voter to libraft. */
void agree_raft_hear(struct agree *agree, uint32_t rank, const uint8_t *bytes, size_t count);
/* True when it is under way. */
bool agree_raft_propose(struct agree *agree, const struct agreed_command *command);
bool agree_raft_barrier(struct agree *agree);

static inline raft_id agree_id(uint32_t rank)
{
    return (raft_id)rank + 1;
}

/* ---- agree_conf.c ---- */

uint32_t agree_conf_voters(const struct agree_conf *conf);
/* AGREE_NO_ROLE: it takes no part. */
uint32_t agree_conf_role(const struct agree_conf *conf, uint32_t rank);
/* With which every log begins: the first of the list vote. */
void agree_conf_first(const struct agree *agree, struct agree_conf *conf);
bool agree_conf_is_valid(const struct agree *agree, const struct agree_conf *conf);
/* Whether one follows the other in a log. */
bool agree_conf_is_step(const struct agree_conf *from, const struct agree_conf *to);

/* From libraft's bytes; false: they are none. */
bool agree_conf_decode(const struct agree *agree, const void *encoded, size_t count, uint64_t index,
                       struct agree_conf *conf);
/* As libraft has it; 0, or an error of libraft. */
int agree_conf_make(const struct agree *agree, const struct agree_conf *conf,
                    struct raft_configuration *configuration);
void agree_conf_of(const struct raft_configuration *configuration, uint64_t index,
                   struct agree_conf *conf);

/* As of an index of our log. */
void agree_conf_at(const struct agree *agree, uint64_t index, struct agree_conf *conf);
/* Looks at what libraft has in effect. */
void agree_conf_refresh(struct agree *agree);
/* libraft has begun with what was kept. */
void agree_conf_started(struct agree *agree);
/* libraft is to be shown a message: takes back what that will cut off. False: no memory. */
bool agree_conf_roll_back(struct agree *agree, const struct raft_append_entries *append);
/* What was decided last, by our log. */
void agree_conf_decided(const struct agree *agree, struct agree_conf *conf);
/* Whether a member's vote counts, as far as known: until it is decided that it does not. */
bool agree_conf_counts(const struct agree *agree, uint32_t rank);
/* The latest that is known here. */
const struct agree_conf *agree_conf_known(const struct agree *agree);

static inline bool agree_is_voter(const struct agree_conf *conf, uint32_t rank)
{
    return agree_conf_role(conf, rank) == RAFT_VOTER;
}

/* Whether this node votes. One that was away for long may not have heard yet that it does not any
 * more; once a leader has told it, it stands for no election, and asks as those do that do not. */
static inline bool agree_votes(const struct agree *agree)
{
    return agree->running && !agree->failed && agree_is_voter(&agree->own, agree->config.self) &&
           agree_is_voter(agree_conf_known(agree), agree->config.self);
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

/* Frees what was read and libraft is not given. */
void agree_discard(struct raft_message *message);

/* ---- agree_guard.c ---- */

/* Whether libraft can be shown a message: no voter that knows what we know would be harmed by it.
 */
bool agree_is_sound(struct agree *agree, const struct raft_message *message);

/* Whether a number that only grows can be where somebody says that it is, known what is known here.
 */
bool agree_is_near(uint64_t number, uint64_t own);

/* Whether a roster can be what became of one that is known. */
bool agree_continues(const struct agreed_roster *roster, const struct agreed_roster *next);

/* The term of an entry that is here; 0: it is not. */
uint64_t agree_term_at(const struct agree_log *log, uint64_t index);

/* ---- agree_store.c ---- */

/* Keeps the log; NIGH_OK when it outlives the machine. */
nigh_status agree_store(struct agree *agree);

/* Reads what was kept. */
nigh_status agree_load(struct agree *agree, const void *stored, size_t bytes,
                       char why[AGREE_WHY_BYTES]);

#endif
