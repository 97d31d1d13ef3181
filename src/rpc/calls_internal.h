/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the calls of a lane share (calls.h). */
#ifndef RPC_CALLS_INTERNAL_H
#define RPC_CALLS_INTERNAL_H

#include "base/check.h"
#include "base/heap_timer.h"
#include "base/list.h"
#include "rpc/calls.h"

#define CALLS_NONE    UINT32_MAX
#define CALLS_BUCKETS 1024u

/* Who waits for the channel to a node: the urgent, and the others. */
#define CALLS_QUEUES 2u

/* Calls of one service to one node that wait or are under way. */
struct share {
    struct list_node bucket;             /* of its name, or among those that are free */
    struct list_node turn[CALLS_QUEUES]; /* among its node's, while some wait */
    struct list waiting[CALLS_QUEUES];
    uint64_t service;
    uint32_t rank;
    uint32_t sent;         /* under way, all on this: */
    struct rpc *channel;   /* which a name and a node decide */
    struct list_node busy; /* among its node's, while some are */
    uint64_t heard_us;     /* the last answer, or when the first was sent; 0: none was; later by */
    uint64_t idle_us;      /* as long as none was under way: since then, where none is */
};

struct calls_rank {
    struct list waiting[CALLS_QUEUES]; /* shares; whose turn is next first */
    struct list busy;                  /* shares */
    uint64_t last;                     /* the service that was called last */
    uint64_t shared_until_us;          /* several are called */
};

struct calls_shares {
    struct share *all; /* as many as calls */
    uint32_t used;     /* ever */
    struct list free;
    struct list *buckets; /* CALLS_BUCKETS */
    struct calls_rank *ranks;
};

enum pending_state {
    PENDING_FREE = 0,
    PENDING_WAITING, /* in a queue of its rank */
    PENDING_SENT,    /* `number` is the channel's */
    PENDING_SERVED,  /* `number` is the request's place */
    PENDING_RESTING, /* until it is tried again */
    PENDING_HELD     /* answered; until nobody touches the memory that it brought */
};

/* An answer that is held back. */
struct held {
    struct calls_end end;
    uint8_t bytes[];
};

struct pending {
    struct calls *calls;
    enum pending_state state;
    struct calls_call call;
    uint64_t begun_us;
    uint32_t rank;                    /* that it goes to, or went to last */
    uint32_t rounds;                  /* how often it has rested */
    bool taken;                       /* a service may have had it */
    uint64_t link_us;                 /* WAITING: until when for a link that is not there */
    uint32_t tried;                   /* of `those` */
    uint32_t those[LIMIT_CALL_TRIES]; /* CALLS_ANY: ranks that it went to since it rested */
    struct list_node place;           /* in `free`, or among its owner's */
    struct share *share;              /* WAITING, SENT */
    struct list_node queue;           /* WAITING: in its share's */
    struct timer timer;
    struct rpc *channel; /* SENT */
    uint64_t number;
    struct held *held; /* HELD */
};

/* How a call came back from where it was sent. */
enum calls_fate {
    CALLS_ANSWERED, /* by its service, or it ended here */
    CALLS_REFUSED,  /* no service has seen it */
    CALLS_LOST      /* its service may have carried it out */
};

struct owner {
    struct list calls;
    uint32_t count;
};

struct unanswered {
    struct rpc *channel; /* NULL: of this node, `local` */
    uint64_t call;
    uint32_t local; /* the pending's place */
    uint32_t generation;
    uint32_t next; /* of those that are free, or of its bucket */
    bool used;
    uint64_t came_us;
    void *tag;
    struct bulks_serve *bulks; /* NULL: it brought no memory */
};

/* One service of another node, as that said. */
struct calls_offer {
    struct list_node place; /* in the bucket of its hash */
    uint64_t hash;
    struct calls_peer *peer;
};

/* A channel, and what there is at its other end. */
struct calls_peer {
    struct calls *calls;
    struct list_node place; /* in calls->peers */
    struct rpc *channel;
    uint32_t rank;
    uint32_t offer_count;
    uint64_t told;     /* the version of our services that it knows, or is being told */
    bool is_telling;   /* the call that tells is under way */
    uint64_t again_us; /* not told before this */
    uint64_t turn;     /* when it was last chosen for a call of CALLS_ANY; 0: never */
    struct calls_offer offers[LIMIT_SERVICES];
};

struct calls {
    struct calls_config config;
    struct bulks *bulks;
    struct pending *pending;
    struct list free;
    struct owner *owners;
    uint32_t under_way_count;
    struct calls_shares shares;
    uint32_t *urgent_run; /* of each rank: urgent ones sent since another was */
    bool *lost;           /* of each rank: its link is not waited for */
    uint32_t waiting_count;
    uint64_t look_us; /* when some wait: whether they may go by now */
    struct timers timers;
    struct timer **timer_places;
    struct unanswered *requests;
    uint32_t free_request;
    uint32_t unanswered_count;
    uint32_t *buckets; /* of other nodes' requests: the first place of each */
    struct calls_service services[LIMIT_SERVICES];
    uint32_t service_count;
    uint8_t *copy; /* of a request of this node: its caller may write to the original */
    struct list peers;
    struct list *offers; /* CALLS_BUCKETS */
    uint64_t turn;       /* calls of CALLS_ANY that others were chosen for */
    uint64_t version;    /* of `services` */
    uint64_t tell_us;    /* when a peer is to be told; UINT64_MAX: all know */
    struct calls_counts counts;
};

/* ---- calls.c: what is under way ---- */

/* A pending call came back: it goes on elsewhere, or later, or ends. Its channel or request has let
 * go of it. */
void calls_came_back(struct calls *calls, struct pending *pending, enum calls_fate fate,
                     const struct calls_end *end, uint64_t now_us);
/* Its deadline. There are as many places as calls. */
void calls_arm(struct calls *calls, struct pending *pending, uint64_t at_us);

/* ---- calls_send.c: to other nodes ---- */

void calls_send(struct calls *calls, struct pending *pending, uint64_t now_us);
/* Ends one that waits for a link which is lost, or has not come in its time, wherever in its queue
 * it is. False: it waits on. */
bool calls_end_in_vain(struct pending *pending, uint64_t now_us);
/* As many as wait for a rank and its channels have places for. */
bool calls_send_waiting(struct calls *calls, uint32_t rank, uint64_t now_us);

/* ---- calls_share.c: what each service has of a link ---- */

bool calls_shares_init(struct calls *calls);
void calls_shares_fini(struct calls *calls);
/* From here on it waits for a place. Returns whether it is the first of its service. */
bool calls_wait(struct calls *calls, struct pending *pending, uint64_t now_us);
/* It does no more: it is on its way over its channel, or not. */
void calls_stop_waiting(struct calls *calls, struct pending *pending, bool is_sent,
                        uint64_t now_us);
/* Shares of which some wait. */
struct list *calls_shares_waiting(struct calls *calls, uint32_t rank, bool urgent);
/* Of the service whose turn it is, the first that waits; its turn is over then. Some wait. */
struct pending *calls_next_waiting(struct calls *calls, uint32_t rank, bool urgent,
                                   uint64_t now_us);
/* One that was on its way is no more: it was answered, or not. */
void calls_heard(struct calls *calls, struct pending *pending, bool is_answer, uint64_t now_us);
/* Whether one that waits may have a place now; whatever_is_kept: for the urgent. */
bool calls_may_go(const struct calls *calls, const struct pending *pending,
                  const struct rpc *channel, bool whatever_is_kept, uint64_t now_us);
bool calls_shares_are_valid(const struct calls *calls, uint32_t sent);

/* ---- calls_serve.c: requests ---- */

void calls_serve_here(struct calls *calls, struct pending *pending, uint64_t now_us);
/* The request of a call of this node: whatever is said to it is for nobody. */
void calls_drop_request(struct calls *calls, uint32_t place, uint64_t now_us);
const struct calls_service *calls_find_service(const struct calls *calls, uint64_t hash);

/* ---- calls_offers.c: who serves what ---- */

/* The next node for a call of CALLS_ANY; CALLS_NONE: there is none that it was not tried at. */
uint32_t calls_choose(struct calls *calls, const struct pending *pending);
/* Another node says what it serves. */
nigh_status calls_take_offers(struct calls *calls, const struct rpc *channel,
                              const struct rpc_request *request);
/* Peers that do not know what is served here are told. */
void calls_tell(struct calls *calls, uint64_t now_us);
void calls_drop_peer(struct calls_peer *peer);
/* Its channel has ended. */
void calls_forget_peer(struct calls *calls, const struct rpc *channel);

#endif
