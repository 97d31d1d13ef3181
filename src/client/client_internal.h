/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client and its lanes, which the files of libnigh share; what each does for the others is in a
 * header of its own.
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

struct client_op;
struct client_pairs;
struct client_pins;

#define CLIENT_TEXT_BYTES 512 /* of a sentence that explains a failure */

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

/* Where calls and replies of a lane lie while they are under way: places of LIMIT_CALL_BYTES, the
 * last one used first. The session's own are numbered before those in leased memory. */
struct client_calls {
    uint8_t *own;        /* in the session's memory; NULL: an older node, which leases all */
    uint32_t own_count;  /* 0 or LIMIT_OWN_PLACES */
    uint64_t offset;     /* of the lease */
    uint32_t count;      /* of both; 0: there is none yet */
    bool asked;          /* a lease is on its way */
    uint64_t refused_us; /* when one was last refused to who has places of its own */
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
    uint64_t silent_us; /* since when cancelled ops wait for its answer, and it gave none; 0: not */
    struct client_lease leases[LIMIT_PUT_LEASES];
    uint32_t lease_current;
    uint64_t lease_want;       /* bytes the next one should have */
    bool lease_asked;          /* one is on its way */
    uint64_t lease_refused_us; /* when one was last refused */
    uint64_t lease_granted_us; /* and granted */
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
struct client_windows;

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
    _Atomic uint32_t lock_wanted;   /* threads that found it taken */
    uint64_t touched_lanes;         /* submitted to since the last flush */
    struct list feed;               /* ops with steps that found no room */
    struct list services;           /* that it serves */
    struct list bulks;              /* handles of memory that its calls may bring */
    struct list regions;            /* that it has open, */
    struct list closing;            /* and those whose end the node is told when there is room */
    struct list spaces;             /* handles that it has open, */
    struct list space_memories;     /* what is mapped of them, */
    struct client_windows *windows; /* and what its threads have; NULL until one is open */
    int socket_fd;
    int poll_fd;          /* nigh_client_fd: an epoll of the socket, the bell and the timer */
    int bell_fd;          /* eventfd: readable when an armed application has to look */
    int room_fd;          /* timerfd: likewise, at the first deadline of `feed`: */
    uint64_t room_due_us; /* UINT64_MAX: it is not set */
    int lead_fd;          /* eventfd: wakes the thread that sleeps on the socket */
    _Atomic bool leading; /* a thread sleeps on the socket for all; written locked */
    bool armed;
    bool poked; /* the socket said so, since a look at it began */
    bool subscribed;
    uint32_t hears;             /* NIGH_SUBSCRIBE_*, that a new connection asks for, too */
    _Atomic bool events_missed; /* a restart of the node swallowed some; written locked */
    uint32_t subscribe_flags;
    uint32_t event_lane; /* where the next look for events begins */
    uint64_t socket_seen_us;
    uint64_t ends;      /* ops that ended, ever */
    uint64_t cuts;      /* how often leased memory was had or used, ever; */
    uint64_t rest_cuts; /* that many when a thread that slept looked last, */
    uint64_t rest_us;   /* and when it is idle if there were no more */
    struct client_pair_refused pair_refused[LIMIT_PAIR_REFUSED];
    bool has_pairs;       /* the node makes them */
    bool takes_donations; /* the node takes memory, */
    bool drops_donations; /* and lets go of it when it is told to */
    bool fetches;         /* its windows take SPACE_RECORD_FETCH */
    uint32_t holds;       /* client_hold under way */
    int32_t lose_later;   /* what was found out meanwhile */
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
    uint32_t late_grants;     /* that are to come for nobody */
    uint32_t donation_serial; /* of the last one, */
    bool donation_awaited;    /* and whether its answer is for somebody */
    uint32_t drop_count;      /* donated, and nobody asks for them: the node is to hear */
    uint64_t drops[LIMIT_SESSION_DONATIONS];
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
/* The same where the client is not what it was before: a look during which nobody heard the bell
 * has found the node's end, of which the socket says no more. Locked. */
void client_tell_change(nigh_client *client, uint32_t before);

/* Ends every pending op with `status`. Locked. With NIGH_NODE_LOST the session may be resumed. */
void client_lose(nigh_client *client, nigh_status status);

/*
 * While ops are stepped through, the client's end is put off: a step may ask the socket for an
 * extent and find it gone, and must not find its own op ended under its hands. Locked.
 */
void client_hold(nigh_client *client);
void client_let_go(nigh_client *client);

#endif
