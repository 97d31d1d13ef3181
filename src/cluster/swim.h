/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who of the members lives: SWIM with suspicion, and Lifeguard's care for its own slowness
 * (docs/membership.md has the promises, the states, the parameters with their sources, the bound).
 *
 * Das, Gupta, Motivala, "SWIM: Scalable Weakly-consistent Infection-style Process Group Membership
 * Protocol" (DSN 2002); Dadgar, Phillips, Currey, "Lifeguard: Local Health Awareness for More
 * Accurate Failure Detection" (2017).
 *
 * Pure: events and the time come in, datagrams to send and what changed go out. Randomness is a
 * generator that is seeded once. Memory is taken in swim_create only. One owner thread. It decides
 * what counts as dead, and nothing of what follows from that; bytes are swim_wire.h's.
 *
 * All that is known of a member is a pair (incarnation, state). It only grows, in this order, the
 * incarnation first: so it does not matter how often, or in what order, something is heard.
 */
#ifndef CLUSTER_SWIM_H
#define CLUSTER_SWIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"

/* In the order in which one hides another of the same incarnation. */
#define SWIM_STATE_TABLE(X) \
    X(ALIVE, "alive")       \
    X(SUSPECT, "suspect")   \
    X(DEAD, "dead")         \
    X(LEFT, "left")

/* What datagrams are. PING asks for ACK; PING_REQ asks for a PING of a third, and for its ACK, or
 * for NACK: I am here, it did not answer me. */
#define SWIM_KIND_TABLE(X)  \
    X(PING, "ping")         \
    X(PING_REQ, "ping-req") \
    X(ACK, "ack")           \
    X(NACK, "nack")

#define SWIM_EVENT_TABLE(X) \
    X(TICK, "tick")         \
    X(RECEIVE, "receive")   \
    X(LEAVE, "leave")

#define SWIM_ENUM_STATE(name, text) SWIM_##name,
#define SWIM_ENUM_KIND(name, text)  SWIM_##name,
#define SWIM_ENUM_EVENT(name, text) SWIM_##name,

enum swim_state {
    SWIM_STATE_TABLE(SWIM_ENUM_STATE) SWIM_STATES
};
enum swim_kind {
    SWIM_KIND_TABLE(SWIM_ENUM_KIND) SWIM_KINDS
};
enum swim_event_kind {
    SWIM_EVENT_TABLE(SWIM_ENUM_EVENT) SWIM_EVENTS
};

/* A node's incarnation, and below it how often it refuted a suspicion. */
#define SWIM_INCARNATION(node, refuted) ((uint64_t)(node) << 32 | (refuted))
#define SWIM_NODE_INCARNATION(value)    ((uint32_t)((value) >> 32))

/* Of a period, how long the ack of a ping is waited for; and how late a step is that says that this
 * node stood still. docs/membership.md names their sources. */
#define SWIM_TIMEOUT_US(period_us) ((period_us)*3 / 10)
#define SWIM_STILL_US(period_us)   ((period_us) / 2)

#define SWIM_INCARNATION_LAST (UINT64_MAX - 1)

/* Something that is said of a member. */
struct swim_update {
    uint64_t incarnation;
    uint32_t rank;
    uint32_t from; /* who suspects it, or found it dead; itself when alive or left */
    enum swim_state state;
};

struct swim_message {
    enum swim_kind kind;
    uint32_t from, to;
    uint32_t target;      /* of PING_REQ, and of what answers it; else whom it is to, or from */
    uint64_t incarnation; /* of the sender */
    uint64_t sequence;    /* chosen by who asks, said again by who answers */
    uint32_t count;
    struct swim_update updates[LIMIT_SWIM_UPDATES];
};

struct swim_event {
    enum swim_event_kind kind;
    const struct swim_message *message; /* RECEIVE: authentic, and to us */
};

/* What the caller does, and what it may tell others. */
struct swim_actions {
    uint64_t due_us; /* TICK again then; UINT64_MAX: never */
    uint32_t sends;
    uint32_t changes;
    bool refuted; /* somebody had suspected us, or worse */
    struct swim_message send[LIMIT_SWIM_SENDS];
    struct swim_update changed[LIMIT_SWIM_CHANGES];
};

struct swim_config {
    uint32_t self;         /* rank */
    uint32_t count;        /* of members, 1 .. LIMIT_SWIM_MEMBERS */
    uint32_t listed;       /* those of lower ranks are there; the others have left until they are
                              heard of. 0: all are there */
    uint32_t incarnation;  /* of this node, not 0; grows at each start */
    uint64_t period_us;    /* between probes */
    uint64_t timeout_us;   /* for the ACK of a probe, below half of the period */
    uint64_t suspicion_us; /* the shortest suspicion, whatever the number of members says */
    uint64_t seed;
};

struct swim_counters {
    uint64_t probes, probes_failed, suspected, deaths, refuted, late;
};

struct swim;

/* NULL: no memory. The first TICK is due at now_us. */
struct swim *swim_create(const struct swim_config *config, uint64_t now_us);
void swim_destroy(struct swim *swim);

/* Outputs are written whole; what `actions` says must be done before the next step. */
void swim_step(struct swim *swim, const struct swim_event *event, uint64_t now_us,
               struct swim_actions *actions);

/* What is known of a member, or of ourselves. */
enum swim_state swim_state_of(const struct swim *swim, uint32_t rank);
uint64_t swim_incarnation_of(const struct swim *swim, uint32_t rank);
/* Whether a datagram has made the way there and back, for us or for somebody who said so: only then
 * is its silence held against it. */
bool swim_is_reached(const struct swim *swim, uint32_t rank);
/* 0: healthy; else by how much slower this node judges (Lifeguard's local health multiplier). */
uint32_t swim_health(const struct swim *swim);
const struct swim_counters *swim_counters(const struct swim *swim);

/* How long a suspicion of a member lasts that so many more have confirmed, by a healthy node. */
uint64_t swim_suspicion_us(const struct swim *swim, uint32_t confirmations);
/* How often something is passed on by one member: lambda log N. */
uint32_t swim_transmissions(uint32_t count);
/* A dead member of `count` is known to be dead by all within so many periods, at this rate of loss
 * in thousandths, save once in about a million deaths (docs/membership.md derives it). */
uint32_t swim_bound_periods(uint32_t count, uint32_t loss_permille);

const char *swim_state_name(enum swim_state state);
const char *swim_kind_name(enum swim_kind kind);
bool swim_is_valid(const struct swim *swim);

#endif
