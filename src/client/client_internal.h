/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of libnigh share: the client and its lanes, the operation in the caller's memory,
 * and the words of each file to the others.
 *
 * One mutex, client->lock, guards everything that is not marked as read without it; functions whose
 * comment says "locked" want it held. Nothing here is ever touched by a forked child: each entry
 * point asks client_check first (docs/client.md).
 */
#ifndef CLIENT_CLIENT_INTERNAL_H
#define CLIENT_CLIENT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/list.h"
#include "memory/index.h"
#include "memory/session.h"
#include "nigh/nigh.h"

#define CLIENT_TEXT_BYTES 512 /* of a sentence that explains a failure */

/* ---- operations ----------------------------------------------------------- */

struct client_op;
struct put_wish;

/* Answers of op_kind.lane beside a lane's number. */
#define OP_SKIP UINT32_MAX /* this step needs no submission */

/* What an operation is made of. One step is one submission; all are called with the lock held. */
struct op_kind {
    uint32_t (*lane)(struct client_op *op, size_t step);
    /* Fills *sqe (zeroed). False: the step has ended without being submitted. True with an opcode
     * of 0: it holds a place already, and is submitted later (copies.c). */
    bool (*build)(struct client_op *op, size_t step, struct session_sqe *sqe);
    /* A step's completion. True: the step goes on under a submission of its own (op_go_on). */
    bool (*done)(struct client_op *op, size_t step, uint8_t opcode, const struct session_cqe *cqe);
    /* What a step that waits for its copy is made of. NULL: none does. */
    nigh_status (*source)(struct client_op *op, size_t step, const void **data,
                          struct put_wish *wish);
    /* All outputs of steps that have not ended get this status. May be NULL. */
    void (*settle)(struct client_op *op, nigh_status status);
    /* The last word before the end. True: the steps begin anew. May be NULL. */
    bool (*finish)(struct client_op *op);
    /* Whether there is more that a step needs than room in the ring. NULL: nothing. */
    bool (*has_room)(struct client_op *op);
    /* It ends, from wherever it was. May be NULL. */
    void (*ended)(struct client_op *op);
    /* Leaves the sentence of a failure with the calling thread. May be NULL. */
    nigh_status (*tell)(const struct client_op *op, nigh_status status);
    bool waits;  /* may wait in the lane for something else than its turn */
    bool yields; /* of what waits: leaves some room to what does not yield */
};

#define OP_MAGIC UINT32_C(0x4e4f5031)

#define OP_ASYNC    1u  /* of a _start call: ends are told by the client's descriptor */
#define OP_ENDING   2u  /* being collected by client_lose */
#define OP_TIMELESS 4u  /* the step itself says how long it waits */
#define OP_DOOMED   8u  /* given up: ends with the last copy that is under way */
#define OP_PAIRED   16u /* a call that is under way through a pair */
#define OP_ROUGH    32u /* a call whose deadline is what the server is told, for a moment */

/* The library's view of a nigh_op. */
struct client_op {
    uint32_t magic;
    _Atomic int32_t
        status; /* read without the lock; after it is stored the memory is the caller's */
    struct nigh_client *client;
    const struct op_kind *kind;
    struct list_node queue; /* in client->feed, while some step has found no room */
    size_t count;           /* steps */
    size_t next;            /* first step not begun */
    size_t ended;           /* steps that ended */
    uint64_t deadline_us;   /* of waiting steps; UINT64_MAX: none */
    int32_t result;         /* the first failure, or NIGH_OK */
    uint32_t flags;         /* OP_* */
    uint32_t copies;        /* of its bytes, wanted or under way */
    bool index_full;        /* a step failed with NIGH_LIMIT for that */
    union {
        struct { /* one submission, known from the start */
            struct session_sqe sqe;
            uint32_t lane;
            uint32_t extra;
            void *out;
            void *copy; /* heap, freed at the end */
            void *more;
        } one;
        struct { /* one submission to each lane */
            uint64_t argument;
            void *out;
            void (*take)(struct nigh_client *client, uint32_t lane, const struct session_cqe *cqe,
                         void *out);
            uint32_t opcode;
            uint32_t flags; /* SESSION_FLAG_* */
        } all;
        struct {
            const nigh_id *ids;
            nigh_view *views;
            uint32_t flags; /* NIGH_GET_* */
        } get;
        struct {
            const nigh_id *ids;
            nigh_status *statuses;
        } ids;
        struct {
            nigh_put_item *items;
        } put;
        struct {
            nigh_call_spec *spec;   /* NULL: an answer, a call of many, or: */
            nigh_service *receives; /* NULL: an answer alone, or a call of many */
            union {
                nigh_request *into;        /* of what receives */
                nigh_multicast_spec *many; /* of a call of many */
            };
            void *buffer;
            bool answers;  /* and receives */
            bool apart;    /* out: did neither, for want of a place for both */
            bool untaken;  /* out: no service can have carried it out */
            bool answered; /* out: its end is what the service said */
            uint64_t hash;
            union {
                uint64_t id;         /* of what is answered */
                uint64_t timeout_us; /* of a call that is OP_ROUGH */
            };
            const void *bytes;
            uint32_t count;
            uint32_t rank;
            uint32_t lane;
            uint32_t flags;       /* NIGH_CALL_* */
            uint32_t incarnation; /* of the node that has the request, or the service */
            int32_t answer;       /* a status */
            uint64_t wanted;      /* of a reply that was too long */
            uint64_t offset;      /* of its place */
        } call;
        struct {
            uint64_t size_bytes;
            uint64_t *freed_bytes;
            uint64_t freed;
            uint64_t freed_before;
            uint64_t barren;  /* lanes that freed less than asked in an earlier pass */
            uint64_t barrens; /* with those of this pass */
            uint32_t pass;
        } evict;
    } u;
};

_Static_assert(sizeof(struct client_op) <= sizeof(nigh_op), "an op fits the caller's memory");
_Static_assert(_Alignof(struct client_op) <= _Alignof(nigh_op), "an op is aligned");

/* ---- the client ----------------------------------------------------------- */

/* Where bytes go that are copied outside the lock. */
struct copy_target {
    uint64_t offset;
    uint64_t bytes;
    uint32_t ref; /* of a created object, unless leased */
    bool leased;
};

/* How far a place is whose submission waits for a copy. */
#define COPY_NONE      0u
#define COPY_WANTED    1u
#define COPY_UNDER_WAY 2u

/* A place of the pending table: what a cookie stands for. */
struct client_pending {
    struct client_op *op; /* NULL: nobody waits (any more) */
    size_t step;
    uint32_t sequence; /* of the cookie: a late or forged completion does not match */
    uint16_t next_free;
    uint8_t opcode;
    bool used;
    bool waits;
    bool cancel_wanted; /* given up; the lane has not been told yet */
    bool asks_lease;    /* a LEASE, or a SEAL that renews one */
    bool leased;        /* a SEAL of leased bytes, at: */
    nigh_service *kept; /* a RECEIVE for its next receive */
    uint8_t copy;       /* COPY_*; unless COPY_NONE nothing was submitted yet */
    bool created;       /* a SEAL or ABORT of a created object, or one that is owed: ref */
    bool owed;          /* an ABORT that the next node is told */
    uint32_t ref;
    uint64_t offset;
    struct copy_target target; /* of the copy */
};

/* A slab of a lane from which small objects are cut. */
struct client_lease {
    uint64_t offset;
    uint64_t bytes;   /* 0: no lease */
    uint64_t used;    /* cut off so far */
    uint32_t writers; /* cut off and neither sealed nor given up */
    uint32_t sealing; /* their SEAL is under way */
    uint32_t holes;   /* given up, or refused: they go back with the rest */
    bool retired;     /* nothing more is cut; closed with its last writer */
};

/* Leased memory of a lane in which calls and replies lie while they are under way: places of
 * LIMIT_CALL_BYTES, the last one used first. */
struct client_calls {
    uint64_t offset;
    uint32_t count; /* 0: there is none yet */
    bool asked;     /* it is on its way */
    uint32_t free_count;
    uint8_t free[LIMIT_CALL_PLACES];
};

_Static_assert(LIMIT_CALL_PLACES <= 256, "a place's number is a byte");

/* What the client keeps of one lane. */
struct client_lane {
    struct session_lane *shared;
    _Atomic uint32_t *ready;
    int doorbell;
    uint32_t sq_tail;
    _Atomic uint32_t cq_head;    /* written locked, read by spinning threads */
    _Atomic uint32_t event_head; /* likewise */
    uint16_t free_head;          /* of pending */
    uint32_t in_flight;          /* places of pending in use */
    uint32_t waiting_in_flight;
    uint32_t cancels_wanted;
    struct client_lease leases[LIMIT_PUT_LEASES];
    uint32_t lease_current;
    uint64_t lease_want;       /* bytes the next one should have */
    bool lease_asked;          /* one is on its way */
    uint64_t lease_refused_us; /* when one was last refused */
    struct client_calls calls;
    ino_t index_inode;
    /* For each lane pin, the views that it stands for: what a resume finds set without one was the
     * answer to nobody. Counted up locked before, and down after, the view is anyone's; more than
     * one while a release is under way. */
    _Atomic uint16_t views[LIMIT_LANE_PINS];
    struct client_pending pending[LIMIT_RING_ENTRIES];
};

enum client_state {
    CLIENT_ATTACHED,
    CLIENT_LOST, /* the node is gone; the session may be resumed */
    CLIENT_DEAD  /* nothing will come back */
};

/* Words of the guard page, which fork hands to a child as zeroes. */
#define GUARD_CHILD 0u
#define GUARD_ALIVE 1u
#define GUARD_DEAD  2u

struct client_guard {
    _Atomic uint32_t word;
};

struct client_pins;
struct client_pairs;

/* A service that there is no pair for, as the node said last. */
struct client_pair_refused {
    uint64_t hash;
    uint64_t until_us;
};

struct nigh_client {
    /* Read by every call, written at open only. */
    struct client_guard *guard;
    struct session_front *front;
    uint64_t serial; /* tells clients of a process apart, for ever */
    uint8_t *read_arena;
    uint8_t *write_arena; /* NULL: may not write */
    uint64_t arena_bytes;
    uint64_t extent_bytes;
    uint32_t extent_shift;
    uint32_t lanes;
    uint32_t spin_us;
    struct pin_chunk *chunks;
    struct client_pins *pins;
    struct session_node_page *node_page; /* CLIENT_PAGE_GAP before: */
    void *memory;                        /* the session's; its front is `front` */
    uint64_t memory_bytes;
    uint64_t shared_bytes; /* reserved for both, from node_page on */
    struct index indexes[LIMIT_LANES];
    uint64_t index_bytes[LIMIT_LANES];
    struct client_lane *lane;
    bool may_write;
    const struct session_driver *driver;
    struct session_driver driver_copy;

    /* Which extents are mapped where: set locked, read by anyone (acquire). */
    /* How many extents are mapped in a row from each one on: an object of many asks one word. */
    _Atomic uint16_t read_mapped[LIMIT_EXTENTS];
    _Atomic uint16_t write_mapped[LIMIT_EXTENTS];
    uint32_t read_ahead; /* extents to ask for at the next that is read; locked */

    _Atomic int32_t why;                  /* of CLIENT_DEAD */
    _Atomic uint64_t busy_lanes;          /* lanes with places of pending in use; written locked */
    _Atomic uint32_t state;               /* enum client_state; written locked */
    _Atomic uint32_t copies_wanted;       /* places with COPY_WANTED; written locked */
    _Atomic uint32_t pair_news;           /* session_front's, as it was seen last; written locked */
    _Atomic(struct client_pairs *) pairs; /* NULL until there is one; written locked */

    pthread_mutex_t lock;
    _Atomic uint32_t lock_wanted; /* threads that found it taken */
    uint64_t touched_lanes;       /* submitted to since the last flush */
    struct list feed;             /* ops with steps that found no room */
    struct list services;         /* that it serves */
    struct list bulks;            /* handles of memory that its calls may bring */
    int socket_fd;
    int poll_fd;          /* nigh_client_fd: an epoll of the socket and the bell */
    int bell_fd;          /* eventfd: readable when an armed application has to look */
    int lead_fd;          /* eventfd: wakes the thread that sleeps on the socket */
    _Atomic bool leading; /* a thread sleeps on the socket for all; written locked */
    bool armed;
    bool subscribed;
    bool hears_conflicts;
    bool events_missed; /* a restart of the node swallowed some */
    uint32_t subscribe_flags;
    uint32_t event_lane; /* where the next look for events begins */
    uint64_t socket_seen_us;
    uint64_t ends; /* ops that ended, ever */
    struct client_pair_refused pair_refused[LIMIT_PAIR_REFUSED];
    bool has_pairs;     /* the node makes them */
    uint32_t holds;     /* client_hold under way */
    int32_t lose_later; /* what was found out meanwhile */
    uint8_t token[16];
    uint64_t session;
    uint32_t slot;
    ino_t memory_inode;
    _Atomic uint32_t node_incarnation;             /* written under the lock, before the state */
    char socket_path[LIMIT_SOCKET_PATH_BYTES + 1]; /* "": cannot be resumed */
    char pool[LIMIT_POOL_NAME_BYTES + 1];
    char name[LIMIT_CLIENT_NAME_BYTES + 1];
    uint64_t open_timeout_us;
    uint32_t hello_flags;
    uint32_t late_grants;             /* that are to come for nobody */
    _Atomic uint32_t connections;     /* how often the session was resumed; written locked */
    int resume_fd;                    /* -1, or where a HELLO that resumes waits for its answer */
    _Atomic uint64_t probed_us;       /* when life_probe last looked */
    _Atomic uint64_t quota_bytes;     /* what was asked for last; 0: what the node gives */
    char bye[192];                    /* the sentence of the node's last message */
    char end_text[CLIENT_TEXT_BYTES]; /* why the client ended; written before the guard says so */

    pthread_mutex_t reply_lock; /* the reply areas have one reader at a time; taken before lock */
};

/* ---- client.c, life.c ------------------------------------------------------ */

/* Between the node page and the session's memory: whole pages on any machine, and the pointer to
 * one finds the other. */
#define CLIENT_PAGE_GAP 65536

/* The answer of client_check when something is the matter, which it notes for nigh_client_error. */
nigh_status client_check_slow(nigh_client *client);

/* The same question without any consequence: NIGH_OK also while the node is away and its memory is
 * kept. */
nigh_status client_look(const nigh_client *client);

/* What the node gives as the reason of a session's end; NIGH_PROTOCOL: it can be none. */
nigh_status client_end_status(int32_t said);

/* Whether the page is as the node that the client is attached to left it: the word that the kernel
 * writes when it ends, and the number that another writes that takes the page over. */
static inline bool client_life_is_same(const nigh_client *client)
{
    const char *bytes = (const char *)client->front - CLIENT_PAGE_GAP;
    const struct session_node_page *page = (const struct session_node_page *)(const void *)bytes;

    return (shared_load_relaxed(&page->life) & SESSION_LIFE_ENDED) == 0 &&
           shared_load_relaxed(&page->incarnation) ==
               atomic_load_explicit(&client->node_incarnation, memory_order_relaxed);
}

/* First in every entry point: NIGH_OK unless this is a forked child or the client's end has come.
 * Not locked. */
static inline nigh_status client_check(nigh_client *client)
{
    if (unlikely(client == NULL)) {
        return NIGH_INVALID;
    }
    if (likely(atomic_load_explicit(&client->guard->word, memory_order_relaxed) == GUARD_ALIVE) &&
        likely(shared_load_relaxed(&client->front->ended) == 0) &&
        likely(client_life_is_same(client))) {
        return NIGH_OK;
    }
    return client_check_slow(client);
}

/* Whether the node that the client is attached to lives, as far as the node page says. */
bool life_goes_on(const nigh_client *client);

/* Whether a node may come that knows this session. */
bool life_may_return(const nigh_client *client);

/* The node is dead: takes in what it had done, and loses it. Locked, without a hold. */
void life_lost(nigh_client *client);

/* The same, if the node page says that it is. Locked, without a hold. */
void life_find_out(nigh_client *client);

/* Writes why the client ends, unless that is known. Locked, before it ends. */
void life_say_end(nigh_client *client, nigh_status status);

/* The lane that an id belongs to. */
static inline uint32_t client_lane_of(const nigh_client *client, const nigh_id *id)
{
    return index_hash_lane(hash_id20(id->bytes), client->lanes);
}

#define CLIENT_GROWS_TIMES 4 /* a struct is not expected to grow by more */

/* Whether the caller has said how large its struct is, which the library writes and which grows:
 * what merely lay there is mostly no such number. */
static inline bool client_knows_size(size_t size, size_t least, size_t own)
{
    return size >= least && size <= CLIENT_GROWS_TIMES * own;
}

/* Writes as much of such a struct as the caller knows, and 0 where it knows more. */
static inline void client_copy_out(void *to, size_t size, const void *from, size_t own)
{
    memset(to, 0, size);
    memcpy(to, from, min_size(size, own));
}

void client_lock(nigh_client *client);
void client_unlock(nigh_client *client);

/* Whether another thread waits for the lock. */
static inline bool client_lock_is_wanted(const nigh_client *client)
{
    return atomic_load_explicit(&client->lock_wanted, memory_order_relaxed) != 0;
}

/* Between two looks at what another processor is to write. */
static inline void client_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Makes the descriptor readable, once, if the application has armed it. Locked. */
void client_ring_bell(nigh_client *client);

/* Ends every pending op with `status`. Locked. With NIGH_NODE_LOST the session may be resumed. */
void client_lose(nigh_client *client, nigh_status status);

/*
 * While ops are stepped through, the client's end is put off: a step may ask the socket for an
 * extent and find it gone, and must not find its own op ended under its hands. Locked.
 */
void client_hold(nigh_client *client);
void client_let_go(nigh_client *client);

/* ---- error.c -------------------------------------------------------------- */

/* The sentence for nigh_open_error. */
__attribute__((format(printf, 1, 2))) void error_set_open(const char *format, ...);

/* Remembers a failure of the calling thread for nigh_client_error; returns `status`. */
__attribute__((format(printf, 3, 4))) nigh_status error_set(nigh_client *client, nigh_status status,
                                                            const char *format, ...);

/* The same from below the call that will return the status: its error_note leaves the sentence. */
__attribute__((format(printf, 3, 4))) nigh_status
error_explain(nigh_client *client, nigh_status status, const char *format, ...);

/* Remembers an ordinary failure (the table's sentence will do); returns `status`. */
nigh_status error_note(nigh_client *client, nigh_status status);

/* The same of what ends with a status that one of its steps may have noted, and better. */
nigh_status error_note_end(nigh_client *client, nigh_status status);

/* That the failure which is noted next is the full index's, if it is NIGH_LIMIT. */
void error_note_index_full(nigh_client *client);

/* The same of a call that wanted `bytes` of a lane's memory. */
nigh_status error_note_memory(nigh_client *client, nigh_status status, uint32_t lane,
                              uint64_t bytes);

/* ---- attach.c ------------------------------------------------------------- */

/* What came with a welcome; descriptors are -1 when absent. */
struct attach_answer {
    struct session_welcome welcome;
    int fds[SESSION_WELCOME_FDS(LIMIT_LANES)];
    size_t fd_count;
};

/*
 * Connects to `path`. NIGH_UNREACHABLE, NIGH_DENIED, NIGH_TIMEOUT, NIGH_NO_RESOURCES; `text`
 * (CLIENT_TEXT_BYTES) says why.
 */
nigh_status attach_connect(const char *path, uint64_t timeout_us, int *socket_fd, char *text);

/* Says hello. What stands in the way of that is told by attach_await. */
void attach_hello(int socket_fd, const struct session_hello *hello);

/* Takes the welcome; a refusal is the node's status and sentence. NIGH_TIMEOUT: not yet, and it may
 * be called again. */
nigh_status attach_await(int socket_fd, uint64_t timeout_us, struct attach_answer *answer,
                         char *text);
void attach_answer_fini(struct attach_answer *answer);

/* Checks and maps what a first welcome brought. On failure the caller destroys the client. */
nigh_status attach_map(nigh_client *client, struct attach_answer *answer, char *text);

/* Fills the hello of this client. */
void attach_fill_hello(const nigh_client *client, struct session_hello *hello);

/* ---- resume.c ------------------------------------------------------------- */

/* Whether resume_ensure would have anything to do. Locked. */
bool resume_is_needed(const nigh_client *client);

/* NIGH_OK when the node can be asked; one that died is found again first, within timeout_us.
 * NIGH_NODE_LOST, what ended the client. Locked. */
nigh_status resume_ensure(nigh_client *client, uint64_t timeout_us);

/* Looks for the node without waiting: later looks go on with what this one began. Locked, of a
 * CLIENT_LOST. */
void resume_probe(nigh_client *client);

/* Says to whom comes next that a CLIENT_LOST does not come back, without waiting. Locked. */
void resume_leave(nigh_client *client);

/* ---- socket.c ------------------------------------------------------------- */

/* Tells the node that the session is over for good. Locked. */
void socket_say_bye(int socket_fd);

/* Takes in what the node sent (pokes, bye, end of file), without waiting. Locked. */
void socket_take_in(nigh_client *client);

/* The same, but not more often than once a millisecond: for threads that only poll. Locked. */
void socket_take_in_now_and_then(nigh_client *client);

/* A question for several extents at once, and how it ended. */
struct extents_ask {
    uint32_t first;
    uint32_t count; /* 1 .. LIMIT_ASK_BATCH, of which at most `most` are mapped */
    uint32_t most;
    bool writable;
    uint32_t mapped;                       /* by this ask */
    nigh_status statuses[LIMIT_ASK_BATCH]; /* of each */
};

/* Asks, and maps what comes: this process never has more than one of the descriptors. Locked. */
nigh_status socket_ask_extents(nigh_client *client, struct extents_ask *ask);

/* Asks for memory that the node made for this client's calls: *fd, the caller's. Locked. */
nigh_status socket_ask_bulk(nigh_client *client, uint64_t number, int *fd);

/* ---- extents.c ------------------------------------------------------------ */

/* Maps an extent that was granted, and takes its descriptor over. Locked. */
nigh_status extents_place(nigh_client *client, uint32_t number, bool writable, int fd);

/* Makes [offset, offset + bytes) of the read or write window usable. Not locked / locked. */
nigh_status extents_map(nigh_client *client, uint64_t offset, uint64_t bytes, bool writable);
nigh_status extents_map_locked(nigh_client *client, uint64_t offset, uint64_t bytes, bool writable);

/* Maps, and touches, up to `bytes` of extents that this uid may write already. */
void extents_prefault(nigh_client *client, uint64_t bytes);
void extents_unmap(nigh_client *client);

/* Whether all of [offset, offset + bytes) is mapped; bytes is not 0. */
static inline bool extents_are_mapped(const nigh_client *client, const _Atomic uint16_t *mapped,
                                      uint64_t offset, uint64_t bytes)
{
    uint64_t first = offset >> client->extent_shift;
    uint64_t last = (offset + (bytes - 1)) >> client->extent_shift;

    return likely(offset < client->arena_bytes && bytes - 1 < client->arena_bytes) &&
           likely(last - first < atomic_load_explicit(&mapped[first], memory_order_acquire));
}

static inline bool extents_readable(const nigh_client *client, uint64_t offset, uint64_t bytes)
{
    return extents_are_mapped(client, client->read_mapped, offset, bytes);
}

static inline bool extents_writable(const nigh_client *client, uint64_t offset, uint64_t bytes)
{
    return extents_are_mapped(client, client->write_mapped, offset, bytes);
}

/* ---- ring.c --------------------------------------------------------------- */

/* All locked. */
/* Whether there is a place, and `most` others at most would wait: UINT32_MAX for what does not
 * wait. */
bool ring_has_room(const nigh_client *client, uint32_t lane, uint32_t most);
void ring_submit(nigh_client *client, uint32_t lane, struct client_op *op, size_t step, bool waits,
                 struct session_sqe *sqe);
/* The same in two: holds a place (its number) for a submission that is sent later, or dropped. */
uint16_t ring_hold(nigh_client *client, uint32_t lane, struct client_op *op, size_t step);
void ring_send(nigh_client *client, uint32_t lane, uint16_t number, struct session_sqe *sqe);
void ring_drop(nigh_client *client, uint32_t lane, uint16_t number);
/* The node is gone, and a created object will not be sealed: the next one hears of it (ring_pay).
 * There is a place. */
void ring_owe(nigh_client *client, uint32_t lane, uint32_t ref);
void ring_pay(nigh_client *client);
/* Tells the lanes submitted to. */
void ring_flush(nigh_client *client);

/* Rings those of the lanes that sleep. Any thread. */
void ring_bells(nigh_client *client, uint64_t lanes);
/* Takes in completions, feeds what found no room; *self's own end is not told to itself. */
void ring_take_in(nigh_client *client, const struct client_op *self);
/* Takes in what a node that is gone had completed before. From client_let_go only. */
void ring_take_last(nigh_client *client);
/* Gives up what *op has in the lanes; its memory is not looked at again. */
void ring_forget(nigh_client *client, struct client_op *op);
/* Undoes a result that nobody waits for. */
void ring_undo(nigh_client *client, uint32_t lane, uint8_t opcode, const struct session_cqe *cqe);
/* Wakes threads that sleep, because an op of theirs may have ended. */
void ring_tell(nigh_client *client);
/* Forgets everything submitted: the session's rings begin anew. */
void ring_reset(nigh_client *client);
void ring_init_lane(struct client_lane *lane);

/* Not locked: whether a lane has completions, or an event ring events, that nobody took. */
bool ring_has_completions(const nigh_client *client);
bool ring_has_events(const nigh_client *client);

/* ---- wait.c --------------------------------------------------------------- */

/*
 * Waits until *op has ended (NULL: until there are events), at most until deadline_us. NIGH_OK,
 * NIGH_TIMEOUT; for events also the status that ended the client. Not locked.
 */
nigh_status wait_for(nigh_client *client, struct client_op *op, uint64_t deadline_us);

/* ---- op.c ----------------------------------------------------------------- */

void op_init(struct client_op *op, nigh_client *client, const struct op_kind *kind, size_t count,
             uint64_t deadline_us);

/* Begins the steps; an error ends the op at once. Locked. */
nigh_status op_begin(struct client_op *op);

/* op_begin under the lock, as the end of every _start call. */
nigh_status op_start(struct client_op *op);

/* Runs an op to its end in the calling thread; deadline as NIGH_FOREVER unless it waits. */
nigh_status op_run(struct client_op *op);
/* The rest of that, of an op that has begun. */
nigh_status op_await(struct client_op *op);

/* Ends an op with what it has, and `status` for what is missing; its copies under way first.
 * Locked. */
void op_end_all(struct client_op *op, nigh_status status);

/* The end of an op. Locked. */
void op_end(struct client_op *op, nigh_status status);

/* One of its steps has ended, with op_fail before that or well. Locked. */
void op_step_ended(struct client_op *op);

/* Submits what has room. Locked. */
void op_feed(struct client_op *op);

/* A step's completion. Locked. */
void op_step_done(struct client_op *op, size_t step, uint8_t opcode, const struct session_cqe *cqe);

/* Submits the next submission of a step from within op_kind.done. Locked. */
void op_go_on(struct client_op *op, size_t step, uint32_t lane, bool waits,
              struct session_sqe *sqe);

/* Remembers a step's failure. */
static inline void op_fail(struct client_op *op, nigh_status status)
{
    if (op->result == NIGH_OK) {
        op->result = status;
    }
}

/* Microseconds a lane may let this op wait from now on. */
uint64_t op_remaining_us(const struct client_op *op);

/* One submission, whose completion is copied to *cqe (may be NULL) when it is NIGH_OK. */
void op_init_one(struct client_op *op, nigh_client *client, uint32_t lane,
                 const struct session_sqe *sqe, struct session_cqe *cqe);

/* The same of a submission that waits in the lane, at most timeout_us. */
void op_init_wait(struct client_op *op, nigh_client *client, uint32_t lane,
                  const struct session_sqe *sqe, struct session_cqe *cqe, uint64_t timeout_us);

/* NIGH_OK when the node can be asked for this op; one that died is found again first, for as long
 * as the op has patience. Locked. */
nigh_status op_ensure(const struct client_op *op);

/* The deadline of a timeout that begins now. */
uint64_t op_deadline_us(uint64_t timeout_us);

/* One submission of an id, to its lane. */
void op_init_id(struct client_op *op, nigh_client *client, enum session_op opcode,
                const nigh_id *id, struct session_cqe *cqe);

/* One submission to each lane; `take` (may be NULL) sees each completion that is NIGH_OK. */
void op_init_all(struct client_op *op, nigh_client *client, enum session_op opcode,
                 uint64_t argument,
                 void (*take)(nigh_client *, uint32_t, const struct session_cqe *, void *),
                 void *out);

/* ---- lease.c -------------------------------------------------------------- */

/* Cuts `bytes` off a lease of the lane: *offset. False: none has room. Locked. */
bool lease_cut(nigh_client *client, uint32_t lane, uint64_t bytes, uint64_t *offset);
/* What was cut off was submitted to be sealed; that has ended, well or not; it was given up.
 * Locked.
 */
void lease_sealing(nigh_client *client, uint32_t lane, uint64_t offset);
void lease_sealed(nigh_client *client, uint32_t lane, uint64_t offset, bool well);
void lease_gave_up(nigh_client *client, uint32_t lane, uint64_t offset, uint64_t bytes);
/* A completion brought a lease. Locked. */
void lease_granted(nigh_client *client, uint32_t lane, uint64_t offset, uint64_t bytes);
/* Something large is about to be asked for, and a lease may split the room for it: gives back those
 * that nobody writes to. Locked. */
void lease_make_way(nigh_client *client, uint32_t lane, uint64_t bytes);
/* Whether an object of `bytes` should come from a lease. Locked. */
bool lease_is_for(const nigh_client *client, uint32_t lane, uint64_t bytes);
/* Lets a SEAL ask for the next lease when that is due. Locked. */
void lease_renew(nigh_client *client, uint32_t lane, uint64_t bytes, struct session_sqe *sqe);
/* Fills a LEASE submission; false: it was refused a moment ago, or is on its way. Locked. */
bool lease_ask(nigh_client *client, uint32_t lane, bool no_evict, struct session_sqe *sqe);
/* A LEASE, or a SEAL that asked for one, has ended. Locked. */
void lease_answered(nigh_client *client, uint32_t lane, bool granted);
/* No lease at all / none on its way: the first at open, the other when the rings begin anew. */
void lease_reset(nigh_client *client);
void lease_forget_asked(nigh_client *client);
/* The node is another: in what it found of the leases there may be holes of objects that are gone.
 */
void lease_came_back(nigh_client *client);

/* ---- put.c ---------------------------------------------------------------- */

/* Copies above this may put the lane to sleep, and are not made under the lock. */
#define PUT_LARGE_BYTES (UINT64_C(256) << 10)

/* What a create wants, checked. */
struct put_wish {
    nigh_id id;
    uint64_t data_size;
    uint64_t bytes; /* in memory */
    const void *meta;
    const char *name;
    uint32_t meta_size;
    uint16_t name_size;
    uint8_t flags;    /* NIGH_CREATE_*, but: */
    uint8_t replicas; /* nodes that are to hold it; 0: nobody says */
    uint32_t lane;
    uint64_t timeout_us;
};

/* Checks and reads what the caller wants: NIGH_INVALID, NIGH_DENIED, from the arguments alone. */
nigh_status put_read_wish(nigh_client *client, const nigh_id *id, uint64_t data_size,
                          const nigh_create_options *options, struct put_wish *wish);
/* The same, after client_check. */
nigh_status put_check(nigh_client *client, const nigh_id *id, uint64_t data_size,
                      const nigh_create_options *options, struct put_wish *wish);
void put_fill_create(const struct put_wish *wish, uint64_t timeout_us, struct session_sqe *sqe);
/* A SEAL of what a wish describes; `ref` of a created object, build_ns since a leased one was.
 * Locked, because it may ask for the next lease. */
void put_fill_seal(nigh_client *client, const struct put_wish *wish, uint64_t offset, uint64_t ref,
                   bool leased, uint64_t build_ns, struct session_sqe *sqe);
/* Copies the data. Not locked. */
void put_copy(nigh_client *client, uint32_t lane, uint8_t *to, const void *from,
              uint64_t size_bytes);
/* Copies metadata and name behind the data. */
void put_copy_tail(const struct put_wish *wish, uint8_t *data);
/* Memory of a wish: *offset, and leased or *ref. Waits; not locked. */
bool put_cut(nigh_client *client, const struct put_wish *wish, bool may_ask, uint64_t *offset);
nigh_status put_find_memory(nigh_client *client, const struct put_wish *wish, uint64_t *offset,
                            uint64_t *ref, bool *leased);
uint64_t put_now_ns(void);
/* One SEAL, as put_fill_seal made it. */
extern const struct op_kind seal_kind; /* u.one.extra: replicas, waited for to the op's deadline */

/* ---- replicate.c ---------------------------------------------------------- */

/* What follows a seal where several nodes are to hold the object. */
void replicate_fill(const nigh_id *id, uint32_t copies, uint64_t timeout_us,
                    struct session_sqe *sqe);
/* How long a put waits for that which waits so long for memory. */
uint64_t replicate_timeout_us(uint64_t timeout_us);
/* What a put ends with whose replicas ended so: a timeout of these is not one of the put. */
static inline nigh_status replicate_of_put(nigh_status status)
{
    return status == NIGH_TIMEOUT ? NIGH_TOO_FEW : status;
}

/* Leaves the sentence of what it ended with. */
nigh_status replicate_tell(nigh_client *client, nigh_status status, uint32_t copies, uint64_t made);
/* A seal after which so many nodes are to hold the object. */
void seal_replicates(struct client_op *op, const struct put_wish *wish);
/* The end of an op of seal_kind. */
nigh_status seal_told(const struct client_op *op, nigh_status status);

/* ---- calls.c -------------------------------------------------------------- */

/* The answer to a CALL_LEASE. Locked. */
void calls_leased(nigh_client *client, uint32_t lane, const struct session_cqe *cqe);
/* A submission with bytes at this place has ended. Locked. */
void calls_give_place(nigh_client *client, uint32_t lane, uint64_t offset);
/* Nothing is under way any more, in a lane; for services that receive. Locked. */
void calls_reset(nigh_client *client, uint32_t lane);
void calls_reset_services(nigh_client *client);

/* A RECEIVE that was kept has ended; *was: its place, which is free again. Locked. */
void calls_kept_ended(nigh_client *client, uint32_t lane, uint16_t number,
                      const struct client_pending *was, const struct session_cqe *cqe);

/* ---- pairs.c, pair_calls.c ------------------------------------------------ */

/* All locked, unless they say otherwise. */

/* A pair, or why there is none, and its descriptors, which are taken over. */
void pairs_told(nigh_client *client, const struct session_pair *told, int fds[2]);
/* Takes in what came through pairs, and what the node has to say of them. */
void pairs_take_in(nigh_client *client);
/* A call is given up. */
void pairs_forget(struct client_op *op);
/* The session is over: each call that is under way, for who ends it; then the pairs. */
struct client_op *pairs_take_op(nigh_client *client);
void pairs_lose(nigh_client *client);
/* The client is closed; `child`: in a child. */
void pairs_free(nigh_client *client, bool child);

/* Whether there is something to take in; a deadline to look after; any pair at all. Not locked. */
bool pairs_are_ready(const nigh_client *client);
bool pairs_are_due(const nigh_client *client, uint64_t now_us);
bool pairs_any(const nigh_client *client);
void pairs_end_overdue(nigh_client *client, uint64_t now_us);

/* The descriptor that is readable when another side rings; -1: none rings. Not locked. */
int pairs_bell(const nigh_client *client);
/* A thread is about to sleep on it, and looks once more behind a full fence; the application is,
 * which deadlines are to wake, too. */
void pairs_sleep(nigh_client *client);
void pairs_arm(nigh_client *client);
/* What rang is quiet again, and is taken in. `sleeps`: the application may sleep on. */
void pairs_take_bells(nigh_client *client, bool sleeps);

/* ---- serve.c -------------------------------------------------------------- */

/* The client has ended: so do its handles of memory, once nobody touches it. Not locked. */
void bulk_end(nigh_client *client);

/* The client ends: so do its services. Not locked. */
void serve_end(nigh_client *client);

/* ---- copies.c ------------------------------------------------------------- */

/* A step of *op waits until its bytes are copied to *target; then it is sealed. The lane has room
 * for one submission. Locked. */
void copies_want(struct client_op *op, size_t step, uint32_t lane,
                 const struct copy_target *target);
/* The op of this place is given up: a copy that has not begun is not made. Locked. */
void copies_forget(nigh_client *client, uint32_t lane, uint16_t number);
/* Makes the copies that are wanted. Not locked. */
void copies_make(nigh_client *client);

static inline bool copies_are_wanted(const nigh_client *client)
{
    return atomic_load_explicit(&client->copies_wanted, memory_order_relaxed) != 0;
}

/* ---- get.c ---------------------------------------------------------------- */

/* Finds and pins without the lane; NULL when there is no hit. *word: to clear when done. */
const struct index_entry *get_peek(nigh_client *client, const nigh_id *id,
                                   enum index_answer *answer, _Atomic uint64_t **word,
                                   uint32_t *number);

/* ---- manage.c ------------------------------------------------------------- */

/* The session's quota, as far as is known; 0: none. It shows what a lease should not be cut for,
 * and what to tell: the node judges by its own words. */
uint64_t quota_of_session(const nigh_client *client);

/* Whether an object is larger than a quota: its node says so before anything is written. */
bool quota_is_below(const nigh_client *client, uint64_t bytes);

/* Writes why `bytes` (0: not known how many) are above a quota, and whose it is; "": not known. */
void quota_tell(const nigh_client *client, uint64_t bytes, char *text, size_t size_bytes);

/* ---- look.c ---- */

/* nigh_holders, and the largest object that `lane` could make room for; 0: an older node. */
nigh_status look_holders_and_most(nigh_client *client, uint32_t lane, nigh_holder *holders,
                                  size_t n, size_t *count, uint64_t *most_bytes);

#endif
