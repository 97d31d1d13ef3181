/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for libibverbs and librdmacm: two devices in this process, "fake0" and "fake1", whose
 * work goes on in small steps whenever they are called, with the faults that a test asks for.
 *
 * It is strict where real ones are: slots of a send queue come back only with completions that were
 * polled, a completion queue that runs over is an event of the device, identifiers with events that
 * are not acknowledged must not be destroyed, what is inline needs no registration and everything
 * else does. Any thread may call it.
 */
#ifndef TESTS_FABRIC_FAKE_VERBS_H
#define TESTS_FABRIC_FAKE_VERBS_H

#include "fabric/verbs/verbs_library.h"

#define FAKE_VERBS_ADDRESS       "10.255.0.1" /* of fake0 */
#define FAKE_VERBS_OTHER_ADDRESS "10.255.0.2" /* of fake1 */
#define FAKE_VERBS_VECTORS       4            /* of each */

const struct verbs_library *fake_verbs_library(void);

/* No faults, counts at 0. Nothing may be left of before. */
void fake_verbs_start(void);

/* What was made and not destroyed, in words; "" when nothing is left. Static storage. */
const char *fake_verbs_left(void);

/* ---- faults, until fake_verbs_start ---- */

/* READs and atomics act much later than their turn, when the posts behind them do already. */
void fake_verbs_late_reads(bool on);
/* Nothing gets through any more, no message and no word of rdma_cm. */
void fake_verbs_cut(bool on);
/* What is flushed comes back in the reverse order. */
void fake_verbs_odd_flush(bool on);
/* What is flushed never comes back. */
void fake_verbs_lose_flush(bool on);
/* The work request after so many others is refused, once: with this errno. */
void fake_verbs_refuse_post(uint32_t after, int error);
/* Calls of the set-up. */
enum fake_verbs_call {
    FAKE_VERBS_CREATE_CQ = 0,
    FAKE_VERBS_CREATE_QP,
    FAKE_VERBS_MODIFY_QP,
    FAKE_VERBS_POST_RECV,
    FAKE_VERBS_CREATE_ID,
    FAKE_VERBS_RESOLVE_ADDR,
    FAKE_VERBS_RESOLVE_ROUTE,
    FAKE_VERBS_INIT_QP_ATTR,
    FAKE_VERBS_CONNECT,
    FAKE_VERBS_ESTABLISH,
    FAKE_VERBS_ACCEPT,
    FAKE_VERBS_CALLS
};
/* The call after so many others of its kind is refused, once: with this errno. */
void fake_verbs_refuse_call(enum fake_verbs_call call, uint32_t after, int error);
/* Whether that has come. */
bool fake_verbs_has_refused(enum fake_verbs_call call);
/* The next work request whose turn comes ends so, once, and does nothing. */
void fake_verbs_end_post(enum ibv_wc_status status);
/* No memory can be registered, no queue pair be made. */
void fake_verbs_refuse_memory(bool on);
void fake_verbs_refuse_queues(bool on);
/* A registration in use is not given up until there is no queue pair. */
void fake_verbs_keep_memory(bool on);
/* The system has taken all devices away, and ended what programs had of them: whoever ends
 * something himself is told EIO. */
void fake_verbs_take(bool on);
/* All routes lead through this device, whatever address is asked from. */
void fake_verbs_lead(uint32_t device);
/* Events of this kind never arrive. */
void fake_verbs_lose_event(enum rdma_cm_event_type type, bool on);
/* The port is in this state; the device has no GID. */
void fake_verbs_port(enum ibv_port_state state);
/* The port sends packets of so many bytes; it could of 4096. */
void fake_verbs_mtu(enum ibv_mtu mtu);
void fake_verbs_no_gid(bool on);
/* Its GID is of the link only: its interface has no address of its own. */
void fake_verbs_link_local(bool on);
/* Who asks for the answer to a dial hears of it once a message has arrived (the order that
 * rdma_cm allows): the acceptor's ESTABLISHED is held back. */
void fake_verbs_late_established(bool on);

/* The devices are iWARP ones, to who opens them from now on: no immediate data, no atomics, one
 * slice for a READ, which lands only in memory that is open to remote writes; their kernel brings
 * queue pairs up by itself, and says ESTABLISHED to who dials. */
void fake_verbs_iwarp(bool on);

/* A device serves so many READs and atomics of a connection at once, and asks for as many, to who
 * opens it from now on. */
void fake_verbs_reads(uint32_t device, uint32_t count);

/* The device has no shared receive queues, to who opens it from now on. */
void fake_verbs_no_srq(bool on);
/* The device says that its atomics are atomic with those of processors, to who opens it from now on
 * (which here they are not). */
void fake_verbs_glob(bool on);
/* Queue pairs do not say that they take no more of one. */
void fake_verbs_no_last_word(bool on);
/* The next completion runs its completion queue over, once. */
void fake_verbs_overrun(bool on);

/* rdma_cm does not know any option of identifiers. */
void fake_verbs_no_options(bool on);

/* ---- deeds ---- */

/* The device says so to every context that is open. */
void fake_verbs_async(enum ibv_event_type type);
/* rdma_cm says so to the identifiers of one side: those that dial or dialled, and those that came
 * with a request. The system's own state does not change by it. */
enum fake_verbs_side {
    FAKE_VERBS_DIALLER = 0,
    FAKE_VERBS_ACCEPTOR,
};
void fake_verbs_say(enum fake_verbs_side side, enum rdma_cm_event_type type, int status);
/* The queue pairs of one side fail, and their device says so in this way. */
void fake_verbs_fail_queues(enum fake_verbs_side side, enum ibv_event_type type);
/* A device is taken away: it is in no list any more, and rdma_cm says so to its identifiers. */
void fake_verbs_remove(uint32_t device);
/* It is there (again): fake1 is not at first. */
void fake_verbs_plug(uint32_t device);
/* What programs still have of a device: contexts and identifiers. Who removes one waits for 0. */
uint32_t fake_verbs_held(uint32_t device);

/* ---- counts ---- */

struct fake_verbs_counts {
    uint64_t doorbells; /* calls of post_send */
    uint64_t requests;  /* work requests in them */
    uint64_t signalled; /* of these */
    uint64_t registrations;
    uint64_t overruns;   /* of completion queues, that no test asked for */
    uint64_t most_reads; /* of one queue pair that acted at once */
    uint64_t longest;    /* bytes of a work request */
    uint64_t solicited, fenced, inlined;
    uint64_t notifications; /* completion queues armed */
    uint64_t options_refused;
    uint64_t limits;        /* that shared receive queues were given */
    uint64_t lost_receives; /* of those, which a queue pair had taken when it was destroyed */
};

struct fake_verbs_counts fake_verbs_counts(void);

/* What the last of each kind was given; 0: nothing. */
struct fake_verbs_given {
    uint8_t route_tos, route_ack_timeout; /* the identifier whose route was looked up */
    uint8_t listen_tos;
    uint8_t connect_retries;
    uint8_t dialler_timeout, dialler_retries;   /* the queue pair of who dials, at RTS */
    uint8_t acceptor_timeout, acceptor_retries; /* ... of who accepts */
    uint8_t answer_serves, answer_asks;         /* READs at once, that who accepts said */
};

struct fake_verbs_given fake_verbs_given(void);

/* What there is of one context, the first that was opened being number 0. */
struct fake_verbs_sum {
    uint32_t queue_pairs, completion_queues, registrations;
    uint64_t vectors;            /* a bit for each that completion queues are on */
    uint64_t sends, receives;    /* that the queue pairs have room for */
    uint64_t posted_receives;    /* that wait */
    uint32_t shared_queues;      /* of receives that queue pairs share */
    uint64_t shared_receives;    /* that these have room for */
    uint64_t posted_shared;      /* that wait there */
    uint64_t completion_entries; /* that the completion queues have room for */
    uint64_t registered_bytes;
};

struct fake_verbs_sum fake_verbs_sum(uint32_t context);

#endif
