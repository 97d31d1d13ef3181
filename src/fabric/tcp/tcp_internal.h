/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the tcp provider share: the fabric, its endpoints, and who calls whom.
 *
 * An endpoint's outstanding posts and receives stay in its two rings until their completions were
 * polled: the rings are the completion queue, and their depths bound everything. An endpoint is in
 * a list for each thing that it waits to have done; whatever ends it takes it out of all of them.
 */
#ifndef FABRIC_TCP_TCP_INTERNAL_H
#define FABRIC_TCP_TCP_INTERNAL_H

#include <sys/uio.h>

#include "base/list.h"
#include "base/random.h"
#include "fabric/address.h"
#include "fabric/tcp/tcp.h"
#include "fabric/tcp/tcp_frame.h"

#define TCP_STAGING_BYTES 131072u /* of one recv: headers, small payloads, and WRITEs */
#define TCP_STAGING_FEW   32768u /* of it, where no WRITE comes: large payloads go to their place */
#define TCP_WORD_BYTES    8u     /* moved at once, where it is aligned */
#define TCP_TAIL_BYTES    4096u  /* received behind the rest of a large payload */
#define TCP_COPY_BYTES    512u   /* payloads up to this are copied next to their headers, */
#define TCP_COPY_FIRST    2048u  /* and up to this that of a batch's first frame */
#define TCP_CHUNK_BYTES   (UINT32_C(1) << 20) /* payload of one RESPONSE */
#define TCP_BATCH_FRAMES  64u
#define TCP_BATCH_VECTORS 128u
#define TCP_BATCH_BYTES   (TCP_BATCH_FRAMES * (TCP_FRAME_BYTES + TCP_COPY_BYTES) + TCP_COPY_FIRST)
#define TCP_HOT           4u    /* endpoints that are read from without asking epoll */
#define TCP_HOT_IDLE      1024u /* fruitless reads after which one is hot no more */
#define TCP_EPOLL_EVERY   64u   /* polls, while any endpoint is hot */
#define TCP_EPOLL_STEP    8u    /* a poll after a sleep counts for so many */
#define TCP_DROWSY_POLLS  3u    /* the second to so many polls after arming do not look */
#define TCP_HUSH_POLLS                                                        \
    256u /* polls without a sleep after which epoll looks at hot ones no more \
          */
#define TCP_EPOLL_EVENTS  64u
#define TCP_POLL_TURNS    4u  /* turns' worth of bytes that one poll moves at most */
#define TCP_ACK_POLLS     2u  /* polls that acknowledgements wait for a frame to travel with */
#define TCP_ACK_FEW       4u  /* fewer of them wait longer: an answer or another request follows */
#define TCP_ACK_FEW_POLLS 64u /* namely so many polls */
#define TCP_ACK_COUNT     64u /* carried out since the last, it waits no longer */
#define TCP_QUICK_BYTES   8192u /* answers from so many on are acknowledged by the system at once */
#define TCP_LINGER_US     UINT64_C(1000000) /* for a refused peer to take note */
#define TCP_LISTEN_REST_US                                                \
    UINT64_C(100000) /* after the system had no descriptor to accept with \
                      */

/* ---- memory --------------------------------------------------------------- */

struct fabric_memory {
    struct tcp *tcp;
    uint8_t *address;
    uint64_t bytes;
    uint32_t rights;
    uint32_t key;
};

/* A key is the number of a slot and how often that slot was used, from a random start. */
#define TCP_KEY_SLOT_BITS 18u
_Static_assert(TCP_FRAME_BYTES + TCP_OPERANDS_BYTES <= TCP_PREAMBLE_BYTES, "the head has room");
_Static_assert(LIMIT_FABRIC_MEMORIES <= 1u << TCP_KEY_SLOT_BITS, "slots fit into keys");

struct tcp_slot {
    struct fabric_memory *memory;
    uint32_t generation;
    uint32_t next_free;
};

struct tcp_memories {
    struct tcp_slot *slots; /* LIMIT_FABRIC_MEMORIES */
    uint32_t fresh;         /* slots from here on were never used */
    uint32_t first_free, last_free;
};

/* ---- endpoints ------------------------------------------------------------ */

enum tcp_state {
    TCP_DIALLING = 0, /* connect(2) is under way */
    TCP_GREETED,      /* our preamble is sent, the answer awaited */
    TCP_INCOMING,     /* the dialler's preamble is awaited; nobody knows the endpoint */
    TCP_REQUESTED,    /* to be accepted or rejected */
    TCP_JOINED,       /* both agreed; ESTABLISHED was not taken yet */
    TCP_OPEN,
    TCP_REFUSING, /* the peer is told which request of his ends the endpoint; nothing else */
    TCP_FAILED,   /* the descriptor is closed */
};

struct tcp_work {
    uint64_t tag;
    uint64_t address;
    uint64_t bytes; /* of the slices */
    uint32_t key;
    uint32_t imm;
    uint32_t number; /* SEND, WRITE, WRITE_IMM: counted from 1; acknowledged by count */
    uint8_t op;
    uint8_t flags;
    uint8_t slice_count;
    bool answered; /* READ, atomics */
    uint8_t operands[TCP_OPERANDS_BYTES];
    struct iovec slices[LIMIT_FABRIC_SLICES];
};

struct tcp_receive {
    uint64_t tag;
    uint8_t *address;
    uint64_t room;
    uint64_t bytes; /* received */
    uint32_t imm;
    nigh_status status;
    bool has_imm;
};

/* Receives that endpoints share: those that are posted, the first posted first. One that a message
 * began to fill is in the ring of the message's endpoint until it was polled. */
struct fabric_stock {
    struct list_node node; /* in tcp->stocks */
    struct tcp *tcp;
    struct tcp_receive *receives; /* [head, tail) */
    uint32_t mask, head, tail;
    uint32_t depth, taken; /* places in use, until polled */
    uint32_t users;        /* endpoints */
};

/* A READ or atomic of the peer that waits to be answered. */
struct tcp_response {
    uint64_t address;
    uint64_t left;
    uint32_t key;
    bool is_value; /* of an atomic, or of a word that was read */
    uint8_t value[TCP_WORD_BYTES];
};

enum tcp_source {
    TCP_SOURCE_NONE = 0,
    TCP_SOURCE_WORK,
    TCP_SOURCE_RESPONSE,
    TCP_SOURCE_ACK,
    TCP_SOURCE_REFUSED,
};

/* The frame that is sent in part. */
struct tcp_outgoing {
    enum tcp_source source;
    uint32_t work;
    uint64_t sent; /* of the header and the payload */
    uint64_t length;
    uint8_t header[TCP_FRAME_BYTES];
};

/* The frame that is received in part. */
struct tcp_incoming {
    uint32_t have; /* of the header and an atomic's operands, or of the preamble */
    uint8_t head[TCP_PREAMBLE_BYTES];
    struct tcp_frame frame;
    uint64_t done, left; /* of the payload */
    uint32_t held;       /* of a WRITE: bytes, the last that came, that begin a word */
    uint8_t word[TCP_WORD_BYTES];
};

struct fabric_endpoint {
    struct tcp *tcp;
    void *context;
    int fd;
    enum tcp_state state;
    uint32_t epoll_events;
    bool is_hushed; /* epoll does not know it */
    bool is_dialled;
    bool is_known; /* the caller has seen it */
    enum fabric_event_kind event;
    nigh_status status; /* of DISCONNECTED */
    nigh_status flush;  /* of what was outstanding then */

    struct list_node every; /* in tcp->every, always */
    struct list_node working, completing, eventful, acking, timed;
    uint64_t deadline_us, patience_us;

    /* ours: outstanding posts are [head, tail), those from `next` on have not started */
    struct tcp_work *works;
    uint8_t *inline_bytes; /* inline_most for each place */
    uint32_t inline_most;
    uint32_t work_mask, work_depth, head, next, tail;
    uint32_t numbered, sent, acked; /* SENDs, WRITEs, WRITE_IMMs: posted, sent whole, carried out */
    uint32_t reads[LIMIT_FABRIC_READS]; /* that act, oldest first, a ring */
    uint32_t read_first, read_count;
    uint64_t read_done; /* bytes of the oldest that have arrived */
    uint32_t refused;   /* the post that the peer refused, if refusal is set */
    nigh_status refusal;
    struct tcp_outgoing out;
    bool is_blocked; /* the socket takes nothing */
    bool responses_next;
    int send_errno;

    /* the peer's */
    struct fabric_stock *stock;   /* where receives come from as they are needed; or NULL */
    struct tcp_receive *receives; /* [receive_head, receive_filled) completed, then posted */
    uint32_t receive_mask, receive_depth, receive_head, receive_filled, receive_tail;
    uint32_t carried, told; /* requests of the peer carried out, and what it was told of them */
    uint64_t ack_poll;      /* they are sent by themselves then, */
    bool acks_now;          /* or in the poll that carried them out */
    struct tcp_response responses[LIMIT_FABRIC_READS];
    uint32_t response_first, response_count;
    struct tcp_incoming in;
    nigh_status refuse_status; /* REFUSING: what is told */
    bool refuse_of_read;
    bool refuse_told;

    bool is_hot;
    uint32_t idle;                /* fruitless reads in a row, while hot */
    struct tcp_preamble preamble; /* ours while DIALLING, then the peer's */
};

/* ---- the fabric ----------------------------------------------------------- */

/* A frame, or the rest of the one that was sent in part. */
struct tcp_piece {
    enum tcp_source source;
    uint32_t work;
    uint64_t already, length; /* of header and payload: sent before, and all */
    const uint8_t *header;
};

/* What one sendmsg takes. Built from the endpoint's state, which changes when it was sent. */
struct tcp_batch {
    struct tcp_piece pieces[TCP_BATCH_FRAMES];
    struct iovec vectors[TCP_BATCH_VECTORS];
    uint32_t count, vector_count;
    uint64_t bytes, room;
    uint32_t staged;
    uint32_t ack;
    uint32_t next, reads;   /* as the endpoint's next and read_count will be */
    uint32_t responses;     /* that are sent whole then */
    uint64_t response_done; /* bytes of the one after them */
    bool is_cut;            /* the last piece is in it only in part */
    uint8_t staging[TCP_BATCH_BYTES];
};

struct tcp {
    struct fabric fabric;
    int epoll_fd;
    int listen_fd;
    char address[FABRIC_ADDRESS_BYTES];
    uint32_t keepalive_ms, turn_bytes;
    uint32_t endpoint_count, half_open;
    uint64_t polls;
    uint64_t armed_poll; /* the last before which somebody slept, or wanted to */
    uint32_t until_epoll;
    uint64_t due_us; /* when the timed endpoints must be looked at; 0: at once */
    uint64_t listen_due_us;
    struct list every, working, completing, eventful, acking, timed;
    struct list stocks;
    uint32_t stock_count;
    struct fabric_endpoint *hot[TCP_HOT];
    uint32_t hot_count;
    bool is_crowded; /* more endpoints are active than may be hot */
    struct tcp_memories memories;
    struct random random;
    struct tcp_batch batch;
    uint8_t staging[TCP_STAGING_BYTES];
};

static inline struct tcp *tcp_of(struct fabric *fabric)
{
    return container_of(fabric, struct tcp, fabric);
}

static inline bool tcp_op_is_read(uint32_t op)
{
    return op == FABRIC_READ || op == FABRIC_FETCH_ADD || op == FABRIC_COMPARE_SWAP;
}

/* ---- tcp_memory.c ---- */

nigh_status tcp_memories_init(struct tcp *tcp);
void tcp_memories_fini(struct tcp *tcp);
nigh_status tcp_memory_register(struct fabric *fabric, void *address, uint64_t bytes,
                                enum fabric_kind kind, uint32_t rights,
                                struct fabric_memory **memory);
struct fabric_remote tcp_memory_remote(const struct fabric_memory *memory, const void *address);
void tcp_memory_deregister(struct fabric *fabric, struct fabric_memory *memory);
/* What a peer names by key and address, if it may do that to all of it; NULL otherwise. */
void *tcp_memory_reach(struct tcp *tcp, uint32_t key, uint64_t address, uint64_t bytes,
                       uint32_t right);
/* Whether a slice of a post lies in its registration, which has `right` (0: none is needed). */
bool tcp_memory_covers(const struct tcp *tcp, const struct fabric_slice *slice, uint32_t right);

/* ---- tcp_listen.c ---- */

nigh_status tcp_listen(struct fabric *fabric, const char *address);
void tcp_listen_accept(struct tcp *tcp, uint64_t now_us);
/* Listens again after a rest. */
void tcp_listen_resume(struct tcp *tcp);

/* ---- tcp_connect.c ---- */

nigh_status tcp_connect(struct fabric *fabric, const char *address,
                        const struct fabric_endpoint_options *options, const void *private_data,
                        uint32_t private_bytes, struct fabric_endpoint **endpoint);
nigh_status tcp_accept(struct fabric_endpoint *endpoint,
                       const struct fabric_endpoint_options *options, const void *private_data,
                       uint32_t private_bytes);
void tcp_reject(struct fabric_endpoint *endpoint);
/* Goes on with an endpoint that is not open yet, after events of epoll. May free it. */
void tcp_connect_progress(struct fabric_endpoint *endpoint, uint32_t events);
/* Its time is up. May free it. */
void tcp_connect_expire(struct fabric_endpoint *endpoint);

/* ---- tcp_endpoint.c ---- */

/* An endpoint for a socket, which becomes its own; NULL: no memory (the socket stays). */
struct fabric_endpoint *tcp_endpoint_make(struct tcp *tcp, int fd, enum tcp_state state);
/* Its rings. NIGH_INVALID (depths), NIGH_NO_RESOURCES. */
nigh_status tcp_endpoint_size(struct fabric_endpoint *endpoint,
                              const struct fabric_endpoint_options *options);
void tcp_endpoint_destroy(struct fabric_endpoint *endpoint);
void tcp_endpoint_disconnect(struct fabric_endpoint *endpoint);
/* Ends it: closes the descriptor, tells the caller. One that nobody has seen is freed: then it is
 * gone on return. */
void tcp_endpoint_fail(struct fabric_endpoint *endpoint, nigh_status status);
/* Which of the peer's requests ends the endpoint, and why; the peer is told. */
void tcp_endpoint_refuse(struct fabric_endpoint *endpoint, nigh_status status, bool of_read);
void tcp_endpoint_tell(struct fabric_endpoint *endpoint, enum fabric_event_kind event);
void tcp_endpoint_watch(struct fabric_endpoint *endpoint, uint32_t events);
void tcp_endpoint_work(struct fabric_endpoint *endpoint); /* is looked at in the next poll */
/* Takes one that is read without being asked for out of epoll's set; and puts it back, if it is not
 * there. False: the system does not let it. */
void tcp_endpoint_hush(struct fabric_endpoint *endpoint);
bool tcp_endpoint_unhush(struct fabric_endpoint *endpoint);
void tcp_endpoint_heat(struct fabric_endpoint *endpoint);
void tcp_endpoint_cool(struct fabric_endpoint *endpoint);
/* The system acknowledges at once what was received. */
void tcp_endpoint_quicken(const struct fabric_endpoint *endpoint);
void tcp_endpoint_set_patience(struct fabric_endpoint *endpoint, uint64_t patience_us);
void tcp_endpoint_end_patience(struct fabric_endpoint *endpoint);
nigh_status tcp_status_of_errno(int error);

/* ---- tcp_complete.c ---- */

/* Puts the endpoint where fabric_poll finds it, if it has something to complete. */
void tcp_complete_mark(struct fabric_endpoint *endpoint);
uint32_t tcp_complete_take(struct tcp *tcp, struct fabric_completion *completions, uint32_t count);

/* ---- tcp_post.c ---- */

nigh_status tcp_post(struct fabric_endpoint *endpoint, const struct fabric_work *work,
                     const struct fabric_work **bad);
nigh_status tcp_post_receive(struct fabric_endpoint *endpoint, const struct fabric_receive *receive,
                             const struct fabric_receive **bad);

/* ---- tcp_stock.c: receives that endpoints share ---- */

nigh_status tcp_stock_create(struct fabric *fabric, uint32_t depth, struct fabric_stock **stock);
void tcp_stock_destroy(struct fabric_stock *stock);
nigh_status tcp_stock_post(struct fabric_stock *stock, const struct fabric_receive *receive,
                           const struct fabric_receive **bad);
/* The endpoint takes its receives there. */
void tcp_stock_join(struct fabric_endpoint *endpoint, struct fabric_stock *stock);
/* It is gone: what it has taken and nobody polled is posted again. */
void tcp_stock_leave(struct fabric_endpoint *endpoint);
/* A receive for the message that has come, if there is one. */
void tcp_stock_take(struct fabric_endpoint *endpoint);

/* ---- tcp_send.c ---- */

/* Sends what may be sent, up to a turn; acknowledges, with `ack`, even if nothing else is there.
 * Whether there is more that the socket might take. Never fails the endpoint: an error of the
 * socket is found by the next receive, behind what the peer had still to say. */
bool tcp_send(struct fabric_endpoint *endpoint, bool ack, uint64_t *moved);

/* ---- tcp_receive.c ---- */

/* Receives up to a turn. Whether there may be more. May fail the endpoint. */
bool tcp_receive(struct fabric_endpoint *endpoint, uint64_t *moved);

/* ---- tcp_act.c: what the peer's frames do ---- */

/* The header is there (endpoint->in). False: the endpoint goes no further. */
bool tcp_act_begin(struct fabric_endpoint *endpoint);
/* The payload is there too. */
bool tcp_act_end(struct fabric_endpoint *endpoint);
/* Where the rest of the payload goes, at most `bytes` of it; -1: there is no such place any more.
 */
int tcp_act_place(struct fabric_endpoint *endpoint, uint64_t bytes,
                  struct iovec vectors[LIMIT_FABRIC_SLICES]);

/* ---- tcp_words.c: words that move whole ---- */

/* The next bytes of a WRITE. False: their place is not there any more. */
bool tcp_words_take(struct fabric_endpoint *endpoint, const uint8_t *bytes, uint64_t count);
/* Loads a word; false: it is not one that is aligned, and nothing else. */
bool tcp_words_load(const void *place, uint64_t bytes, uint64_t *word);

#endif
