/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replicas as the exchange has them (docs/replicas.md): what of them is held here and who is told
 * (exchange_replicas.c), what is made here for others (exchange_make.c), and of which keys this
 * node keeps account (exchange_keeper.c, around cluster/replicas.h). For the exchange alone.
 */
#ifndef OBJECT_EXCHANGE_REPLICAS_H
#define OBJECT_EXCHANGE_REPLICAS_H

#include "cluster/replicas.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_wire.h"

#define REPLICAS_BATCH      64u              /* records of one call */
#define REPLICAS_OWN_SERIAL 1u               /* told_link of what this node's own keeper was told */
#define REPLICAS_BUCKETS    8192u            /* a power of two */
#define REPLICAS_SWEEP      1024u            /* records that one turn passes */
#define REPLICAS_AGAIN_US   UINT64_C(200000) /* before a keeper that does not agree is told again */
#define REPLICAS_REFRESH_US UINT64_C(60000000) /* those that know are told again */
#define REPLICAS_POLL_US    UINT64_C(100000)   /* a client waits: the keeper is asked again */
#define LEAVE_AGAIN_US      UINT64_C(1000000)  /* what is not safe is told again */
#define LEAVE_WALK          64u                /* objects that one turn looks at */
#define REPLICAS_TRIES      3u                 /* pulls of one replica before it is given up */
#define REPLICAS_QUIET_US   UINT64_C(3000000)  /* nobody asks any more how far it is: given up */

enum held_state {
    HELD_IDLE = 0, /* told, or nobody can be told now */
    HELD_QUEUED,   /* to be told, in a link's list or this node's own */
    HELD_TELLING   /* in a call */
};

/* What is known here of an object that this node, which leaves, holds (docs/leaving.md). */
enum leave_state {
    LEAVE_NONE = 0, /* it does not leave, or has not looked at it */
    LEAVE_WAITS,
    LEAVE_SAFE,
    LEAVE_STUCK,
    LEAVE_STATES
};

/* A replica that is held here, or was and whose keeper is to hear of its end. */
struct held {
    struct list_node bucket; /* free list */
    struct list_node place;
    struct list waits; /* struct replica_wait */
    enum held_state state;
    bool used;
    bool gone;
    bool changed; /* TELLING: and is to be told once more */
    bool is_copy;
    bool is_given;
    uint8_t leave;       /* enum leave_state; as it counts in struct leave */
    uint8_t leave_why;   /* STUCK: enum exchange_leave_why */
    bool leave_is_alone; /* no node that stays is known to hold it */
    uint32_t pool;
    struct directory_key key;
    uint64_t hash, key_hash;
    struct directory_object object;
    uint32_t wanted;
    uint32_t count;     /* that the keeper knows of */
    uint32_t told_rank; /* the keeper that knows, */
    uint64_t told_link; /* and over which link; 0: none does */
    uint64_t told_us;   /* when */
};

/* A client's operation that waits for replicas. */
struct replica_wait {
    struct list_node place;
    struct timer timer;
    struct held *held;
    uint64_t deadline_us;
    exchange_copies_done *done;
    void *context;
    uint64_t token;
};

/* What a link is told. */
struct held_teller {
    uint64_t serial; /* of the link: none is like it */
    struct list queue;
    struct held *telling[REPLICAS_BATCH];
    uint32_t count;
    bool listed; /* a sweep has passed all since it is up */
    bool said;   /* and that that was all is said */
};

/* A replica that is being made here. */
struct making {
    bool used;
    uint32_t pool;
    uint32_t asker;
    struct directory_key key;
    struct directory_object object;
    uint64_t hash;
    uint64_t bytes;
    uint32_t wanted;
    uint32_t tries;
    uint64_t asked_us;
};

/* This node leaves. */
struct leave {
    bool leaves;
    bool walks; /* not all was looked at */
    uint32_t pool, cursor;
    uint64_t again_us;                  /* what is not safe is told again */
    struct exchange_leaving counts;     /* of the records */
    struct exchange_leave_count beyond; /* that there is no record for */
};

struct replication {
    struct exchange *exchange;
    struct replicas *keeper;
    struct held *held;
    uint32_t held_max, held_used;
    struct list free_held;
    struct list *buckets;
    struct list own; /* that this node's own keeper is to be told */
    uint32_t sweep_at;
    bool sweep_again;
    uint64_t sweep_us; /* the next by itself; UINT64_MAX: none */
    uint64_t last_serial;
    struct timers timers;
    struct timer **timer_storage;
    uint32_t waits;
    uint64_t walk_pools; /* in which replicas of a former node are looked for */
    uint32_t walk_cursor;
    struct making *making;
    uint32_t making_count;
    uint64_t making_bytes, copy_bytes;
    uint64_t given_bytes; /* of what is being made to be given */
    struct leave leave;
    uint64_t making_seen; /* pulls that had ended at the last look */
    uint64_t making_us;   /* when it is looked at next */
    struct share making_shares;
    uint64_t made, surplus;
};

/* ---- exchange_replicas.c -------------------------------------------------- */

/* Who keeps account of a key, as this node sees who lives. */
uint32_t replication_keeper(const struct exchange *exchange, uint64_t key_hash);
/* A replica is here, by the store's word: the keeper is told. NULL: no room for it. */
struct held *replication_hold(struct exchange *exchange, const struct store_sight *sight);
struct held *replication_find(const struct replication *replication,
                              const struct directory_key *key);
/* It is none any more, and nobody need hear of it. */
void replication_forget(struct replication *replication, struct held *held);
/* The keeper has said how many there are. */
void replication_counted(struct replication *replication, struct held *held,
                         const struct replica_count *count);

/* It is told, or told again, as soon as its keeper can be reached. */
void replication_tell(struct replication *replication, struct held *held);
/* All records are looked at, whether their keepers know. */
void replication_sweep(struct replication *replication);

/* ---- exchange_leave.c ----------------------------------------------------- */

/* Its keeper says how many hold it that stay. */
void leave_count(struct replication *replication, struct held *held,
                 const struct replica_count *count);
/* Its keeper does not know, or has no room. */
void leave_untold(struct replication *replication, struct held *held, nigh_status status);
/* It is none any more, or another: it counts no more. */
void leave_forget(struct replication *replication, struct held *held);
/* What was said to be safe was said by another keeper, or before somebody died. */
void leave_doubt(struct replication *replication, struct held *held);
void leave_member_dead(struct exchange *exchange);
/* Something is here: it is handed over, if this node leaves and nobody else has it for good. */
void leave_sealed(struct exchange *exchange, const struct store_sight *sight);
bool leave_is_valid(const struct replication *replication);
bool leave_turn(struct exchange *exchange, uint64_t now_us);
uint64_t leave_due_us(const struct replication *replication);

/* ---- exchange_make.c ------------------------------------------------------ */

nigh_status make_init(struct replication *replication);
/* A keeper asks for a copy here: what it is answered. */
nigh_status make_asked(struct exchange *exchange, uint32_t from, const struct wire_replicate *asked,
                       uint64_t now_us);
void make_on_request(struct exchange_link *link, const struct rpc_request *request,
                     uint64_t now_us);
bool make_turn(struct exchange *exchange, uint64_t now_us);
uint64_t make_due_us(const struct replication *replication);

/* ---- exchange_keeper.c ---------------------------------------------------- */

nigh_status keeper_init(struct replication *replication);
/* What a holder says, this node or a peer. */
struct wire_replica_state keeper_told(struct exchange *exchange, uint32_t from,
                                      const struct wire_replica *said, uint64_t now_us);

#endif
