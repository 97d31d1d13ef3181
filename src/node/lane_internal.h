/* SPDX-License-Identifier: Apache-2.0 */
/* What lane.c (turns, mail), lane_ring.c (rings) and lane_thread.c (sleeping, driving) share. For
 * no one else. */
#ifndef NODE_LANE_INTERNAL_H
#define NODE_LANE_INTERNAL_H

#include "node/disk.h"
#include "node/lane.h"
#include "node/life.h"
#include "rpc/calls.h"
#include "rpc/collect_edges.h"

/* The lane's end of one session. Indices are the lane's own; the client may write the shared ones.
 */
struct lane_session {
    const struct lane_seat *seat; /* NULL: not open here */
    struct session_front *front;
    struct session_lane *shared;
    uint8_t *places; /* of its own; NULL: it has none */
    uint32_t place;  /* in the dense arrays of the sweep */
    uint32_t sq_head;
    uint32_t cq_tail;
    uint32_t in_flight; /* taken, not completed */
    uint32_t begun;     /* how often its rings began at zero */
    uint32_t event_tail;
    uint32_t events_lost;   /* ever, modulo 2^32 */
    uint64_t events_unsaid; /* lost since the last OVERFLOW event */
    bool swept;             /* its rings are served; false: kept over a restart */
    bool dirty;             /* in lane.dirty: something was published since the last flush */
    bool expelled;          /* nothing of it is read any more */
    bool reported;          /* the front door knows that */
    char why[LANE_WHY_BYTES];
};

/* States of the owner word: a lock that only the lane's own thread waits for. */
enum lane_owner {
    LANE_FREE = 0,
    LANE_DRIVEN = 1,
    LANE_DRIVEN_WANTED = 2 /* and the lane's thread sleeps until it is free */
};

struct lane {
    struct lane_config config;
    struct store *store;
    struct exchange *exchange; /* NULL: there are no other nodes */
    struct calls *calls;
    struct collect_edges collect;
    struct lane_regions *regions;            /* lane 0: lane_regions.h */
    struct lane_spaces *spaces;              /* lane_spaces.h; NULL: it serves none */
    struct lane_pull *pulls[LIMIT_SERVICES]; /* services that sessions receive for */
    uint32_t pull_count;
    struct disk *disk;             /* NULL: this node does not spill */
    uint64_t taken;                /* submissions, ever */
    _Atomic bool disk_rang;        /* an end can be taken */
    struct lane_session *sessions; /* by slot */

    /* The sweep: open sessions, densely. */
    uint32_t open_count;
    _Atomic uint32_t *ready[LIMIT_SESSIONS];
    uint32_t slots[LIMIT_SESSIONS];

    uint32_t dirty_count;
    uint32_t dirty[LIMIT_SESSIONS];
    uint32_t expelled_count; /* expelled, not yet reported */
    uint32_t lossy_count;    /* with events_unsaid */
    uint64_t lossy_check_us; /* when to look for room for their OVERFLOW events */

    uint64_t now_us; /* of the turn under way */
    /* A turn found nothing, and nobody has called in since: until then the lane might sleep, so a
     * turn of it only looks at what would wake it. 0: not so. */
    uint64_t quiet_until_us;
    uint64_t store_due_us;
    uint64_t front_due_us;

    int epoll_fd;
    int kick_fd;
    pthread_t thread;
    bool started;
    _Atomic bool stop;
    _Atomic uint32_t owner;          /* enum lane_owner */
    _Atomic uint64_t sleep_until_us; /* what the sleeping thread waits for at most */
    _Atomic uint64_t guest_us;       /* when a guest that stays last drove; 0: none does */
    bool fabric_watched;             /* its descriptor ends the thread's sleep */
    _Atomic uint32_t resting;        /* guests that sleep on that descriptor themselves */
    _Atomic uint64_t rest_due_us;    /* the lane's deadline when the last of them went to sleep */

    uint64_t views_version; /* that it has adopted */
    uint64_t views_active;  /* the epoch that the exchange was told is active */
    uint64_t lease_us; /* the exchange was told that it has quorum until then; 0: it has none */

    struct lane_counters counters;
};

/* How long a guest's turn keeps the lane's thread from what other nodes send. */
#define LANE_GUEST_US UINT64_C(250)
/* The thread's looks whether the guest is still there cost the guest 22 us each, measured where
 * both have one processor: they become rarer while it stays, up to this. */
#define LANE_DOZE_US UINT64_C(1000)
/* So old the time may be that a guest knows: its turns share looks at the clock. */
#define LANE_GUEST_LATE_US UINT64_C(100)
/* How often a guest says that it waits for the lane. */
#define LANE_ASK_US UINT64_C(50)
/* How long the thread goes on looking for a guest that rests: it may be back soon. */
#define LANE_REST_US UINT64_C(2000)

/* How often a session whose event ring was full is looked at for room. */
#define LANE_LOSSY_CHECK_US UINT64_C(100000)

/* Whether the fabric's descriptor ends the thread's sleep. */
void lane_watch_fabric(struct lane *lane, bool watched);

/* Serves one session's submission ring; true if it took something. */
bool lane_serve(struct lane *lane, uint32_t slot);

/* Carries out a submission that is not the store's; false: it is. */
bool lane_answer(struct lane *lane, uint32_t slot, const struct session_sqe *sqe);

/* lane_calls.c: what clients call, and what calls this node's services. */
nigh_status lane_open_calls(struct lane *lane, struct exchange_calls *users);
void lane_call(struct lane *lane, uint32_t slot, const struct session_sqe *sqe);
void lane_reply(struct lane *lane, uint32_t slot, const struct session_sqe *sqe);
/* A CANCEL that is a call's; false: it is not. */
bool lane_cancel_call(struct lane *lane, uint32_t slot, const struct session_sqe *sqe);
bool lane_turn_calls(struct lane *lane);

/* lane_views.c: what is agreed, and what lane 0 carries for that. */
bool lane_turn_views(struct lane *lane);
void lane_hear_views(struct lane *lane, uint32_t rank, const struct rpc_request *request);

/* lane_collect.c: calls of many nodes, which sessions begin. */
nigh_status lane_open_collects(struct lane *lane);
void lane_collect(struct lane *lane, uint32_t slot, const struct session_sqe *sqe);
/* A CANCEL that is of one; false: it is not. */
bool lane_cancel_collect(struct lane *lane, uint32_t slot, uint32_t cookie);
/* The group is another from now on. */
void lane_collect_group(struct lane *lane, const struct agreed *agreed);

/* lane_bulks.c: memory that calls bring. */
struct bulks_shell lane_bulks_shell(struct lane *lane);
/* A loan of what a call names, whose descriptors lie at `offset`. */
nigh_status lane_open_loan(struct lane *lane, uint32_t slot, uint64_t offset, uint32_t count,
                           struct bulks_loan **loan);
void lane_bulk(struct lane *lane, uint32_t slot, const struct session_sqe *sqe);
/* Drops what goes; true: there was something to do. */
bool lane_turn_bulks(struct lane *lane);
/* BULK_MAKE and BULK_WAIT. */
void lane_bulk_make(struct lane *lane, uint32_t slot, const struct session_sqe *sqe);
void lane_bulk_wait(struct lane *lane, uint32_t slot, const struct session_sqe *sqe);
/* A CANCEL of the latter; false: it is not. */
bool lane_cancel_bulk_wait(struct lane *lane, uint32_t slot, uint32_t cookie);

/* A piece of a session's memory, registered with this lane's fabric, for what it says; in use until
 * lane_give_bulk. */
nigh_status lane_take_bulk(struct lane *lane, uint32_t slot, const struct session_bulk *wanted,
                           struct bulks_memory *memory);
void lane_give_bulk(struct lane *lane, const struct bulks_memory *memory);

/* lane_regions.c: regions, of lane 0. Elsewhere these do nothing. */
nigh_status lane_open_regions(struct lane *lane);
/* Before the links go, and when they have gone. */
void lane_end_regions(struct lane *lane);
void lane_close_regions(struct lane *lane);
bool lane_turn_regions(struct lane *lane);
uint64_t lane_regions_due_us(const struct lane *lane);
void lane_regions_view(struct lane *lane, const struct agreed *agreed);
void lane_regions_lease(struct lane *lane, bool has_lease);
void lane_regions_dead(struct lane *lane, uint32_t rank);
void lane_regions_link_up(struct lane *lane, struct link *link);
void lane_regions_link_down(struct lane *lane, struct link *link);
/* False: it is not of regions. */
bool lane_regions_hear(struct lane *lane, struct link *link, const struct rpc_request *request);
void lane_regions_count(const struct lane *lane, nigh_node_stats *stats);
/* lane_region_sessions.c */
void lane_region(struct lane *lane, uint32_t slot, const struct session_sqe *sqe);
/* A CANCEL of an operation or a change; false: it is not. */
bool lane_cancel_region(struct lane *lane, uint32_t slot, uint32_t cookie);
void lane_regions_forget(struct lane *lane, uint32_t slot, bool for_good);

/* lane_spaces.c: spaces, of a lane 0 that serves any. Elsewhere these do nothing. */
bool lane_serves_spaces(const struct lane *lane);
/* What its links' endpoints for spaces bring. */
void lane_hear_spaces(struct lane *lane, struct exchange_spaces *spaces);
nigh_status lane_open_spaces(struct lane *lane);
/* Before the links go, and when they have gone. */
void lane_end_spaces(struct lane *lane);
void lane_close_spaces(struct lane *lane);
bool lane_turn_spaces(struct lane *lane);
uint64_t lane_spaces_due_us(const struct lane *lane);
/* Whether a client's window has something that was not taken yet. */
bool lane_spaces_have_work(const struct lane *lane);
void lane_spaces_view(struct lane *lane, const struct agreed *agreed);
/* 0: it has none. */
void lane_spaces_lease(struct lane *lane, uint64_t lease_us);
void lane_spaces_link_up(struct lane *lane, struct link *link);
void lane_spaces_link_down(struct lane *lane, struct link *link);
void lane_spaces_count(const struct lane *lane, nigh_node_stats *stats);
/* lane_space_sessions.c */
void lane_space(struct lane *lane, uint32_t slot, const struct session_sqe *sqe);

/* lane_show.c: what is shown to who looks after the node. */
void lane_show(struct lane *lane, uint32_t slot, const struct session_sqe *sqe);
/* A CANCEL of what a session waits for; false: it is not. */
bool lane_cancel_space(struct lane *lane, uint32_t slot, uint32_t cookie);
void lane_spaces_forget(struct lane *lane, uint32_t slot, bool for_good);

/* Whether a session is the one that something was begun for. */
bool lane_is_session(const struct lane *lane, uint32_t slot, uint32_t begun);

/* Bytes of a session that it names: of its own places, or of a lease that it has not sealed; NULL:
 * it has none there. What is read there may change meanwhile. */
uint8_t *lane_placed(struct lane *lane, uint32_t slot, uint64_t offset, uint64_t bytes);

/* lane_pulls.c: services that sessions serve, and what they receive. */
void lane_service(struct lane *lane, uint32_t slot, const struct session_sqe *sqe);
void lane_receive(struct lane *lane, uint32_t slot, const struct session_sqe *sqe);
bool lane_cancel_receive(struct lane *lane, uint32_t slot, uint32_t cookie);
/* A session ends: so do its services. */
void lane_end_services(struct lane *lane, uint32_t slot);
/* With its lane, after all sessions. */
void lane_destroy_pulls(struct lane *lane);
bool lane_tick_pulls(struct lane *lane);
uint64_t lane_pulls_due_us(const struct lane *lane);
/* Adds them to what calls_set_services is told. */
uint32_t lane_list_pulls(const struct lane *lane, struct calls_service *all, uint32_t count);
/* Tells the calls which services there are. */
void lane_tell_services(struct lane *lane);
/* An answer that a session gives. */
nigh_status lane_answer_request(struct lane *lane, uint32_t slot, uint64_t id, int64_t said,
                                uint64_t offset, uint64_t count);

/* Wakes and pokes the clients to whom something was published. */
void lane_flush(struct lane *lane);

/* Tells the front door of sessions that were expelled. Not from inside a store call. */
void lane_report_expelled(struct lane *lane);

/* Delivers OVERFLOW events where there is room again. */
void lane_say_lost(struct lane *lane);

/* Marks a session as one whose client must be looked after at the next flush. */
void lane_mark_dirty(struct lane *lane, uint32_t slot);

/* Ends a session's service; the front door hears of it after the turn. `why` is copied. */
void lane_expel(struct lane *lane, uint32_t slot, const char *why);

/* Zeroes both sides' indices of a session that begins anew. */
void lane_ring_zero(struct lane_session *session, uint32_t slot);

/* The calls of the store's shell. */
void lane_on_complete(void *context, uint32_t session, const struct session_cqe *cqe);
/* The end of a submission that brings nothing but its status. */
void lane_complete(struct lane *lane, uint32_t slot, uint32_t cookie, nigh_status status);
/* A client of before there was NIGH_OVERLOADED takes a node that says it for a broken one. */
int32_t lane_status_for(const struct lane_session *session, int32_t status);
void lane_on_event(void *context, uint32_t session, const struct session_event *event);
void lane_on_expel(void *context, uint32_t session, const char *why);

/* When the lane must be driven next at the latest. */
uint64_t lane_due_us(const struct lane *lane);

static inline void lane_count(_Atomic uint64_t *counter, uint64_t n)
{
    /* One writer: no need for an atomic addition. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

#endif
