/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the verbs provider share: the fabric, its endpoints, and who calls whom.
 *
 * An endpoint's outstanding posts and receives stay in its two rings until their completions were
 * polled. A post becomes one work request or several (pieces), which lie in the ring of slots while
 * the device has them; what a completion of the device says is written into the rings, and
 * fabric_poll takes from there. docs/verbs.md has the rules, numbered V1, V2, ...
 */
#ifndef FABRIC_VERBS_VERBS_INTERNAL_H
#define FABRIC_VERBS_VERBS_INTERNAL_H

#include "base/list.h"
#include "fabric/address.h"
#include "fabric/verbs/verbs.h"
#include "fabric/verbs/verbs_library.h"

#define VERBS_BATCH        16u /* work requests under one doorbell, at most */
#define VERBS_POLL_BATCH   32u /* completions taken from the device at once */
#define VERBS_POLL_ROUNDS  4u  /* times that in one poll */
#define VERBS_SIGNAL_EVERY 32u /* work requests of which one is signalled at least */
#define VERBS_RESERVED     2u  /* slots for a probe of the peer and for the last one of all */
#define VERBS_PIECES       16u /* of one post, at most */
#define VERBS_CQS          64u
#define VERBS_CQ_ENTRIES   16384u
#define VERBS_CM_EVENTS    64u /* in one poll */
#define VERBS_CQ_EVENTS    64u /* acknowledged at once */
#define VERBS_ASK_EVERY    64u /* polls, while nobody is being connected */
#define VERBS_LINGERING    64u /* identifiers of ended connections that are kept at once */
#define VERBS_BACKLOG      128
#define VERBS_QP_BUCKETS   1024u /* of a table by the numbers of queue pairs */
#define VERBS_STOCK_LOW    8u    /* a stock is low when it has less than this part of its depth */
#define VERBS_NO_RECEIVE   UINT32_MAX
#define VERBS_RESOLVE_MS   2000
#define VERBS_DIAL_US      UINT64_C(10000000)
#define VERBS_DRAIN_US     UINT64_C(200000)  /* for the device to give back what was posted */
#define VERBS_LINGER_US    UINT64_C(1000000) /* for the peer to hear of the end */
#define VERBS_RETURN_US    UINT64_C(1000000) /* between two looks for a device, after a loss */
#define VERBS_LAST_US      UINT64_C(20000)   /* for a queue pair to let go of its stock */
#define VERBS_TAKEN_MS     200               /* for the last word of a device that was taken away */
#define VERBS_CM_DATA      (FABRIC_PRIVATE_BYTES + 1u)

/* What a refusal by our caller carries, so that it is told from a refusal by the system. */
#define VERBS_REJECTED_DATA 0x4eu

struct fabric_memory {
    struct verbs *verbs;
    uint8_t *address;
    uint64_t bytes;
    uint32_t rights;
    struct ibv_mr *mr; /* NULL: there is no device */
    struct list_node node;
};

/* ---- endpoints ------------------------------------------------------------ */

enum verbs_state {
    VERBS_RESOLVING = 0, /* of the address, then of the route */
    VERBS_CONNECTING,    /* asked, the answer awaited */
    VERBS_REQUESTED,     /* to be accepted or rejected */
    VERBS_ACCEPTED,      /* by the caller; told to the peer in the next poll (V4) */
    VERBS_ACCEPTING,     /* told; the peer's answer awaited */
    VERBS_JOINED,        /* both agreed; ESTABLISHED was not taken yet */
    VERBS_OPEN,
    VERBS_FAILING, /* the queue pair is in its error state; what was posted is awaited (V9) */
    VERBS_FAILED,  /* there is no queue pair any more */
};

struct verbs_work {
    uint64_t tag;
    uint64_t address;
    uint64_t bytes; /* of the slices */
    uint64_t operand, compare;
    uint32_t key;
    uint32_t imm;
    uint8_t op;
    uint8_t flags;
    uint8_t slice_count;
    nigh_status status; /* of one that failed */
    struct ibv_sge slices[LIMIT_FABRIC_SLICES];
};

enum verbs_slot_kind {
    VERBS_SLOT_WORK = 0,
    VERBS_SLOT_PROBE, /* asks whether the peer is there */
    VERBS_SLOT_LAST,  /* nothing comes back behind it */
};

/* A work request that the device has. */
struct verbs_slot {
    uint64_t done_before; /* bytes of its post in earlier pieces */
    uint32_t work;
    uint8_t kind;
    bool is_final; /* the last piece of its post */
    bool is_signalled;
    bool is_read;
    bool has_failed;
    nigh_status status;
};

struct verbs_receive {
    uint64_t tag;
    struct ibv_sge slice;
    uint64_t bytes; /* received */
    uint32_t imm;
    nigh_status status;
    bool has_imm, has_ended;
};

enum verbs_shared_state {
    VERBS_SHARED_FREE = 0,
    VERBS_SHARED_WAITS, /* for the device to take it */
    VERBS_SHARED_HELD,  /* the device has it */
    VERBS_SHARED_CAME,  /* completed on an endpoint, not polled yet */
};

/* A receive of a stock. */
struct verbs_shared {
    struct verbs_receive receive;
    struct fabric_memory *memory;
    uint32_t next; /* of those in the same state, but HELD; of the same endpoint */
    uint8_t state;
};

/* Shared ones in order, by their numbers. */
struct verbs_shared_list {
    uint32_t first, last;
};

/* Receives that endpoints share. */
struct fabric_stock {
    struct list_node node; /* in verbs->stocks */
    struct verbs *verbs;
    uint32_t number;     /* in verbs->stock_table */
    struct ibv_srq *srq; /* NULL: there is no device */
    struct verbs_shared *receives;
    struct verbs_shared_list free, waiting;
    uint32_t depth, taken, held; /* places; in use until polled; with the device */
    uint32_t users;              /* endpoints */
    uint64_t cqs;                /* a bit for each that has room for all of it */
    bool is_watched;             /* the device says when it is low */
};

struct verbs_cq {
    struct ibv_cq *cq;
    uint32_t entries, used; /* what the queue pairs of it may complete at once */
    uint32_t returning;     /* of queue pairs that are gone, whose last may still lie in it */
    uint32_t unacknowledged;
};

/* An identifier of rdma_cm, which may outlive its endpoint for a while (V11). */
struct verbs_id {
    struct rdma_cm_id *id;
    struct fabric_endpoint *endpoint; /* NULL: lingers */
    struct list_node lingering;
    uint64_t deadline_us;
};

struct fabric_endpoint {
    struct verbs *verbs;
    void *context;
    struct verbs_id *id;
    struct ibv_qp *qp;
    struct ibv_qp *answers; /* of one that leads back to us: the other end; else NULL */
    struct verbs_cq *cq;
    uint32_t cq_share;
    uint32_t number; /* in verbs->table */
    enum verbs_state state;
    bool is_dialled;
    bool is_loop;      /* leads back to us: fabric_loop */
    bool is_known;     /* the caller has seen it */
    bool has_parted;   /* the peer was told of the end */
    bool has_receives; /* the queue pair takes them */
    bool has_last;     /* the last slot was posted */
    bool is_quiet;     /* nothing was heard since the last look */
    bool is_started;   /* the queue pair took messages */
    bool has_let_go;   /* it takes nothing more of its stock */
    bool is_probed;
    enum fabric_event_kind event;
    nigh_status status; /* of DISCONNECTED */

    struct list_node every; /* in verbs->every, always */
    struct list_node working, completing, eventful, timed, accepting, failing;
    uint64_t deadline_us, patience_us;

    /* ours: outstanding posts are [head, tail); before `ended` they succeeded; those from `next`
     * on have not started, of that one next_done bytes have */
    struct verbs_work *works;
    uint8_t *inline_bytes; /* inline_most for each place */
    uint32_t inline_most;
    uint32_t work_mask, work_depth, head, ended, next, tail;
    uint64_t next_done;
    struct verbs_slot *slots; /* the device has [slot_head, slot_tail) */
    uint32_t slot_mask, slot_depth, slot_head, slot_tail;
    uint32_t unsignalled; /* slots in a row */
    uint32_t reads, reads_most;
    bool is_drained;  /* the last slot came back */
    bool has_refused; /* the post `next` is nonsense that only its target may refuse */

    /* the peer's: [head, filled) completed; from `posted` on the queue pair has not got them */
    struct verbs_receive *receives;
    uint32_t receive_mask, receive_depth, receive_head, receive_filled, receive_posted,
        receive_tail;

    struct fabric_stock *stock;         /* or they are of this, */
    struct verbs_shared_list came;      /* those that completed, in order */
    uint32_t qp_number;                 /* of which completions of the stock are */
    struct fabric_endpoint *next_by_qp; /* in verbs->by_qp */

    uint8_t asked_reads, asked_depth; /* the peer wants us to serve, and lets us have */
    uint32_t private_bytes;           /* the peer's; ours while it dials or accepts */
    uint8_t private_data[FABRIC_PRIVATE_BYTES];
};

/* ---- the fabric ----------------------------------------------------------- */

struct verbs_device {
    struct ibv_context *context;
    struct ibv_device_attr attr;
    struct ibv_port_attr port;
    uint8_t port_number;
    bool is_iwarp;
    char name[VERBS_NAME_BYTES];
};

/* What stands for an endpoint in the device's completions: its number, and how often that was used.
 */
struct verbs_entry {
    struct fabric_endpoint *endpoint;
    uint32_t generation;
    uint32_t next_free;
};

struct verbs {
    struct fabric fabric;
    const struct verbs_library *library;
    struct verbs_device device;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct rdma_event_channel *cm_channel;
    struct rdma_cm_id *listener;
    int epoll_fd;
    char address[FABRIC_ADDRESS_BYTES];
    struct address listens;                            /* bytes 0: nowhere, or anywhere */
    struct address local;                              /* bytes 0: any */
    char wanted[64];                                   /* the device that was named; "": none was */
    char hosts[VERBS_ADDRESSES][FABRIC_ADDRESS_BYTES]; /* of devices, the best first */
    uint32_t host_count, host;                         /* host: whose device we have */
    uint64_t piece_bytes;
    uint32_t read_slices; /* of a READ's work request: it is cut where it has more */
    uint32_t vector;      /* wanted; the device may have fewer */
    uint64_t keepalive_us;
    uint8_t tos, ack_timeout; /* 0: not asked for */
    uint8_t retries;
    bool has_told_tos, has_told_ack; /* that the system does not take them */
    uint64_t due_us, keepalive_due_us, linger_due_us;
    uint32_t until_ask;
    bool is_gone;       /* the device is lost; V14 */
    bool is_held;       /* ... and not let go yet */
    bool has_told_lack; /* that there is no other */
    uint64_t return_us; /* when a device is looked for */
    uint64_t look_us;   /* and not before this */
    struct verbs_cq cqs[VERBS_CQS];
    uint32_t cq_count;
    struct verbs_entry *table; /* LIMIT_FABRIC_ENDPOINTS */
    uint32_t fresh, free;
    uint32_t endpoint_count, half_open, connecting, open_count, lingering_count, memory_count;
    struct list every, working, completing, eventful, timed, accepting, failing, lingering;
    struct list memories;
    struct list stocks;
    struct fabric_stock *stock_table[LIMIT_FABRIC_STOCKS];
    struct fabric_endpoint *by_qp[VERBS_QP_BUCKETS]; /* of stocks */
};

static inline struct verbs *verbs_of(struct fabric *fabric)
{
    return container_of(fabric, struct verbs, fabric);
}

static inline bool verbs_op_is_read(uint32_t op)
{
    return op == FABRIC_READ || op == FABRIC_FETCH_ADD || op == FABRIC_COMPARE_SWAP;
}

static inline void verbs_unlink(struct list_node *node)
{
    if (list_is_linked(node))
        list_remove(node);
}

/* ---- verbs.c ---- */

enum verbs_source {
    VERBS_SOURCE_COMPLETIONS = 0,
    VERBS_SOURCE_CM,
    VERBS_SOURCE_DEVICE,
};

/* One of the descriptors that the fabric's own stands for. */
bool verbs_watch(struct verbs *verbs, int fd, enum verbs_source source);

/* ---- verbs_device.c: which device, and what is wrong with the others ---- */

/* The one that was named, or of `host` ("": of none), or the first. */
nigh_status verbs_device_open(struct verbs *verbs, const char *host, char why[VERBS_WHY_BYTES]);
/* The device's queues and descriptors that are the fabric's own. */
nigh_status verbs_device_use(struct verbs *verbs);
/* Undoes both, as far as they were done. */
void verbs_device_close(struct verbs *verbs);

/* ---- verbs_loss.c: the device is gone, and another is found ---- */

/* Everything ends; what we have of the device is let go in the next poll. */
void verbs_loss_begin(struct verbs *verbs, bool is_removed);
/* The same: the system takes the device of that identifier away, and waits for us. */
void verbs_loss_removed(struct verbs *verbs, const struct rdma_cm_id *id);
/* What refused to end something (EIO): whether that is because the system has taken the device away
 * without waiting for us, and ends all itself. It has when the device says DEVICE_FATAL, which is
 * waited for: memory is not given back before. */
bool verbs_loss_is_taken(struct verbs *verbs);
void verbs_loss_let_go(struct verbs *verbs);
void verbs_loss_look(struct verbs *verbs, uint64_t now_us);

/* ---- verbs_memory.c ---- */

nigh_status verbs_memory_register(struct fabric *fabric, void *address, uint64_t bytes,
                                  enum fabric_kind kind, uint32_t rights,
                                  struct fabric_memory **memory);
struct fabric_remote verbs_memory_remote(const struct fabric_memory *memory, const void *address);
void verbs_memory_deregister(struct fabric *fabric, struct fabric_memory *memory);
/* With the device that we have now. False: it does not take it. */
bool verbs_memory_enter(struct verbs *verbs, struct fabric_memory *memory);
/* The device knows it no more. */
void verbs_memory_leave(struct verbs *verbs, struct fabric_memory *memory);
bool verbs_memory_covers(const struct verbs *verbs, const struct fabric_slice *slice,
                         uint32_t right);

/* ---- verbs_queue.c: queue pairs and what they share ---- */

/* A queue pair for the endpoint's depths, and room for it in a completion queue. */
nigh_status verbs_queue_make(struct fabric_endpoint *endpoint);
/* A second queue pair, and both are connected with each other, without rdma_cm. */
nigh_status verbs_queue_loop(struct fabric_endpoint *endpoint, const struct ibv_ah_attr *way);
/* It takes receives from here on. */
bool verbs_queue_init(struct fabric_endpoint *endpoint);
/* It takes messages, and posts. */
bool verbs_queue_start(struct fabric_endpoint *endpoint);
/* The same, where the kernel has seen to it. */
void verbs_queue_started(struct fabric_endpoint *endpoint);
/* It takes nothing, and gives back what it has. */
void verbs_queue_stop(struct fabric_endpoint *endpoint);
/* When this returns nothing of the endpoint touches memory. */
void verbs_queue_destroy(struct fabric_endpoint *endpoint);

/* ---- verbs_connect.c ---- */

nigh_status verbs_listen(struct fabric *fabric, const char *address);
/* As before, on the device that we have now, at the same port. */
nigh_status verbs_listen_again(struct verbs *verbs);
nigh_status verbs_connect(struct fabric *fabric, const char *address,
                          const struct fabric_endpoint_options *options, const void *private_data,
                          uint32_t private_bytes, struct fabric_endpoint **endpoint);
nigh_status verbs_accept(struct fabric_endpoint *endpoint,
                         const struct fabric_endpoint_options *options, const void *private_data,
                         uint32_t private_bytes);
void verbs_reject(struct fabric_endpoint *endpoint);
/* What was asked for of the packets of an identifier: of a dial before its address is looked up, of
 * one that listens before it does. A system that lacks an option is left as it is (V15). */
void verbs_connect_mark(struct verbs *verbs, struct rdma_cm_id *id);
/* Tells the peers of those that were accepted. */
void verbs_accept_all(struct verbs *verbs);
/* Its time is up. */
void verbs_connect_expire(struct fabric_endpoint *endpoint);

/* ---- verbs_loop.c: endpoints that lead back to us ---- */

nigh_status verbs_loop(struct fabric *fabric, const struct fabric_endpoint_options *options,
                       struct fabric_endpoint **endpoint);

/* ---- verbs_event.c: what rdma_cm and the device say ---- */

/* Whether there was an event. */
bool verbs_event_cm(struct verbs *verbs);
bool verbs_event_device(struct verbs *verbs);

/* ---- verbs_endpoint.c ---- */

struct fabric_endpoint *verbs_endpoint_make(struct verbs *verbs, enum verbs_state state);
nigh_status verbs_endpoint_size(struct fabric_endpoint *endpoint,
                                const struct fabric_endpoint_options *options);
void verbs_endpoint_unsize(struct fabric_endpoint *endpoint);
void verbs_endpoint_destroy(struct fabric_endpoint *endpoint);
void verbs_endpoint_disconnect(struct fabric_endpoint *endpoint);
/* Ends it, tells the caller, and the peer. It is there on return, FAILING or FAILED, unless nobody
 * had seen it. */
void verbs_endpoint_fail(struct fabric_endpoint *endpoint, nigh_status status);
/* Those that are FAILING and have nothing more to wait for are FAILED. */
void verbs_endpoint_finish_all(struct verbs *verbs);
void verbs_endpoint_finish(struct fabric_endpoint *endpoint);
void verbs_endpoint_set_state(struct fabric_endpoint *endpoint, enum verbs_state state);
/* Both agreed. */
void verbs_endpoint_join(struct fabric_endpoint *endpoint);
void verbs_endpoint_tell(struct fabric_endpoint *endpoint, enum fabric_event_kind event);
void verbs_endpoint_work(struct fabric_endpoint *endpoint); /* is looked at in the next poll */
void verbs_endpoint_set_patience(struct fabric_endpoint *endpoint, uint64_t patience_us);

/* An identifier without an endpoint: the peer may still have to hear of the end. */
void verbs_id_linger(struct verbs *verbs, struct verbs_id *id);
void verbs_id_destroy(struct verbs *verbs, struct verbs_id *id);
void verbs_id_destroy_late(struct verbs *verbs, uint64_t now_us);

/* ---- verbs_post.c ---- */

nigh_status verbs_post(struct fabric_endpoint *endpoint, const struct fabric_work *work,
                       const struct fabric_work **bad);
nigh_status verbs_post_receive(struct fabric_endpoint *endpoint,
                               const struct fabric_receive *receive,
                               const struct fabric_receive **bad);

/* ---- verbs_send.c: from the rings to the device ---- */

/* Hands over what there is room for. May fail the endpoint. */
void verbs_send(struct fabric_endpoint *endpoint);
void verbs_send_receives(struct fabric_endpoint *endpoint);
/* A work request of nothing: a probe, or the last. Whether the device took it. */
bool verbs_send_empty(struct fabric_endpoint *endpoint, enum verbs_slot_kind kind);

/* ---- verbs_stock.c: receives that endpoints share ---- */

nigh_status verbs_stock_create(struct fabric *fabric, uint32_t depth, struct fabric_stock **stock);
void verbs_stock_destroy(struct fabric_stock *stock);
nigh_status verbs_stock_post(struct fabric_stock *stock, const struct fabric_receive *receive,
                             const struct fabric_receive **bad);
/* With the device that we have now: false: it does not take it; and without. */
bool verbs_stock_enter(struct fabric_stock *stock);
void verbs_stock_leave(struct fabric_stock *stock);
/* The endpoint's queue pair was made, and takes its receives there. */
void verbs_stock_join(struct fabric_endpoint *endpoint);
/* It goes: whatever it took has come on it when this returns (V16). */
void verbs_stock_settle(struct fabric_endpoint *endpoint);
/* It has gone: what may still lie in its completion queue is nobody's. */
void verbs_stock_forget(struct fabric_endpoint *endpoint);
/* What came on the endpoint and was not polled is posted again. */
void verbs_stock_give_back(struct fabric_endpoint *endpoint);
/* By the queue pair; NULL: it is of none. */
struct fabric_endpoint *verbs_stock_endpoint(const struct verbs *verbs, uint32_t qp_number);
/* A completion of the device; NULL: it says things twice. */
struct verbs_shared *verbs_stock_came(struct verbs *verbs, uint32_t number, uint32_t position,
                                      struct fabric_endpoint *endpoint);
/* The first that came on the endpoint; its place is free from the next post on. */
struct verbs_receive *verbs_stock_take(struct fabric_endpoint *endpoint);
void verbs_stock_is_low(struct verbs *verbs, const struct ibv_srq *srq);

/* ---- verbs_complete.c: from the device to the rings, and to the caller ---- */

/* What the device knows an endpoint's receive or slot by. */
uint64_t verbs_complete_id(const struct fabric_endpoint *endpoint, bool is_receive,
                           uint32_t position);
uint64_t verbs_complete_shared_id(const struct fabric_stock *stock, uint32_t position);
/* Takes from the device, bounded. Whether there was anything. */
bool verbs_complete_reap(struct verbs *verbs);
/* Until a completion queue was seen empty once. */
void verbs_complete_drain(struct verbs *verbs, struct verbs_cq *cq);
void verbs_complete_mark(struct fabric_endpoint *endpoint);
uint32_t verbs_complete_take(struct verbs *verbs, struct fabric_completion *completions,
                             uint32_t count);

#endif
