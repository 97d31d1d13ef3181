/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations: what each entry point of libnigh makes in its caller's memory, a step a submission,
 * and how one is begun, fed, waited for and ended (op.c, wait.c). For libnigh alone; "locked" is
 * client->lock.
 */
#ifndef CLIENT_OP_H
#define CLIENT_OP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "memory/session.h"
#include "nigh/nigh.h"

struct nigh_client;
struct put_wish;

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
    /* It is given up, and its queue still says whether it found no room. May be NULL. */
    void (*given_up)(struct client_op *op);
    /* It ends, from wherever it was. May be NULL. */
    void (*ended)(struct client_op *op);
    /* Leaves the sentence of a failure with the calling thread. May be NULL. */
    nigh_status (*tell)(const struct client_op *op, nigh_status status);
    bool notes;   /* a step leaves the sentence of its failure with the thread that takes it in */
    bool waits;   /* may wait in the lane for something else than its turn */
    bool yields;  /* of what waits: leaves some room to what does not yield */
    bool answers; /* what it waits for may be its own just now: its lane's answer ends it, cancelled
                     or not. One step, of SESSION_OP_REGION */
};

#define OP_MAGIC UINT32_C(0x4e4f5031)

#define OP_ASYNC    1u   /* of a _start call: ends are told by the client's descriptor */
#define OP_ENDING   2u   /* being collected by client_lose */
#define OP_TIMELESS 4u   /* the step itself says how long it waits */
#define OP_DOOMED   8u   /* given up: ends with the last copy that is under way */
#define OP_PAIRED   16u  /* a call that is under way through a pair */
#define OP_UNPLACED 32u  /* an older node has no memory left for places, and this ended of it */
#define OP_ROUGH    64u  /* a call whose deadline is what the server is told, for a moment */
#define OP_UNBEGUN  128u /* it ended as it was to begin: who began it was told why */

_Static_assert((OP_ASYNC ^ OP_ENDING ^ OP_TIMELESS ^ OP_DOOMED ^ OP_PAIRED ^ OP_UNPLACED ^
                OP_ROUGH ^ OP_UNBEGUN) == (OP_ASYNC + OP_ENDING + OP_TIMELESS + OP_DOOMED +
                                           OP_PAIRED + OP_UNPLACED + OP_ROUGH + OP_UNBEGUN),
               "each has a bit of its own");

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
    uint64_t deadline_us;   /* of the steps; UINT64_MAX: none */
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
            struct { /* what lies in a place of the memory for calls (places.h) */
                const void *bytes;
                uint64_t offset; /* of the place that was taken last */
                uint32_t count;
                uint32_t lane;
            } place;
            union {
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
                    uint32_t rank;
                    uint32_t flags;       /* NIGH_CALL_* */
                    uint32_t incarnation; /* of the node that has the request, or the service */
                    int32_t answer;       /* a status */
                    uint64_t wanted;      /* of a reply that was too long */
                } call;
                struct {                 /* of a region */
                    nigh_region *region; /* NULL: a name */
                    void *answer;        /* where what comes goes; NULL: nothing comes */
                    uint64_t at;         /* id.offset */
                    union {
                        uint64_t total;      /* bytes of a read or write, LIMIT_CALL_BYTES a step */
                        nigh_region *opened; /* by an OPEN or a LOCK; NULL once it is open */
                    };
                    uint64_t ref;
                    union {
                        uint64_t *out;        /* generation; may be NULL */
                        uint64_t step;        /* of a read or write: that is submitted now */
                        nigh_region **handle; /* of what was opened */
                    };
                    uint32_t what; /* SESSION_REGION_* */
                    uint32_t flags;
                    union {
                        const nigh_region_part *parts; /* of a vector of `ref`; NULL: it is none */
                        uint8_t question[24];          /* of a fill, a copy, a swap or a lock */
                        struct {
                            uint64_t number, offset, bytes;
                        } memory;                   /* of a move by the node */
                        const uint32_t *connection; /* CREATE: over which alone; NULL: any */
                    };
                } region;
                struct {                 /* of a space */
                    void *answer;        /* where what comes goes; NULL: nothing comes, */
                    uint64_t argument;   /* id.argument */
                    uint64_t number;     /* id.number; out: generation, */
                    uint32_t connection; /* which is of this one */
                    uint32_t answer_bytes;
                    uint32_t what; /* SESSION_SPACE_* */
                } space;
            };
        };
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

/* Notes how an op ended, where its kind has no sentence for it: what one of its own steps, or its
 * beginning, said is kept; what another call that failed alike left is not. */
nigh_status op_note(const struct client_op *op, nigh_status status);

/* Ends an op with what it has, and `status` for what is missing; its copies under way first.
 * Locked. */
void op_end_all(struct client_op *op, nigh_status status);

/* One that is initialised does not begin: so it has ended. Any thread, locked or not. */
void op_refuse(struct client_op *op, nigh_status status);

/* The end of an op. Locked. */
void op_end(struct client_op *op, nigh_status status);

/* One of its steps has ended, with op_fail before that or well. Locked. */
void op_step_ended(struct client_op *op);

/* Submits what has room. Locked. */
void op_feed(struct client_op *op);

/* The application is about to sleep on the descriptor, and looks at what there is before: it is
 * woken at the first deadline of what has found no room. Locked. */
void op_arm(nigh_client *client);

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

/* For kinds of their own: a step submits u.one.sqe, to lane u.one.lane; that it has ended is all
 * there is to know of it. */
uint32_t op_one_lane(struct client_op *op, size_t step);
bool op_one_build(struct client_op *op, size_t step, struct session_sqe *sqe);
bool op_any_done(struct client_op *op, size_t step, uint8_t opcode, const struct session_cqe *cqe);

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

/* ---- wait.c --------------------------------------------------------------- */

/*
 * Waits until *op has ended (NULL: until there are events), at most until deadline_us. NIGH_OK,
 * NIGH_TIMEOUT; for events also the status that ended the client. Not locked.
 */
nigh_status wait_for(nigh_client *client, struct client_op *op, uint64_t deadline_us);

#endif
