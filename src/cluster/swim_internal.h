/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the membership protocol share. swim.c has its life, its steps and numbers;
 * swim_probe.c the probing; swim_members.c what is known of members; swim_news.c what is passed on.
 * For no one else.
 */
#ifndef CLUSTER_SWIM_INTERNAL_H
#define CLUSTER_SWIM_INTERNAL_H

#include "base/check.h"
#include "base/random.h"
#include "cluster/swim.h"

#define SWIM_NOBODY UINT32_MAX

/* Parameters; docs/membership.md names the source of each. */
#define SWIM_INDIRECT       3  /* k: members asked to probe for us */
#define SWIM_LAMBDA         3  /* times log2 N: how often something is passed on */
#define SWIM_SUSPICION_MULT 4  /* alpha: times log10 N periods, the shortest suspicion */
#define SWIM_SUSPICION_MAX  6  /* beta: times the shortest, one that nobody confirms */
#define SWIM_CONFIRMATIONS  3  /* K: after which it is the shortest */
#define SWIM_HEALTH_MAX     7  /* S - 1 */
#define SWIM_KNOCK_PERIODS  10 /* between pings of a member that is dead, by one member */

struct swim_member {
    uint64_t incarnation;
    uint64_t since_us; /* SUSPECT: begun */
    uint16_t accusers[1 + SWIM_CONFIRMATIONS];
    uint16_t teller;     /* who found it dead */
    uint8_t accusations; /* SUSPECT: of different members, known here */
    uint8_t state;
    uint8_t sent; /* times that this was passed on */
    bool reached;
    bool is_news;
    bool asked; /* SUSPECT: probed by us since then, or before, which is why */
};

/* The probe of a period. */
struct swim_probe {
    uint32_t target; /* SWIM_NOBODY: none under way */
    uint64_t sequence;
    uint64_t asked_us; /* others are asked at */
    uint64_t end_us;
    uint32_t expected; /* answers of others */
    uint32_t nacks;
    bool asked;
    bool judges_us; /* its target counted as alive when it began */
};

/* A probe for somebody else. */
struct swim_relay {
    uint32_t asker, target;
    uint64_t asked; /* their sequence */
    uint64_t sequence;
    uint64_t end_us;
};

struct swim {
    struct swim_config config;
    struct random random;
    struct swim_counters counters;
    uint64_t due_us; /* as the last step said */
    uint64_t period_end_us;
    uint64_t sequence;
    uint64_t periods;
    uint32_t health;
    uint32_t live; /* alive or suspected, ourselves included */
    uint32_t dead;
    uint32_t position; /* in order */
    uint32_t suspect_count, news_count, relay_count;
    uint64_t suspicion_min_us;
    uint32_t transmissions;
    bool left;
    struct swim_probe probe;
    struct swim_relay relays[LIMIT_SWIM_RELAYS];
    uint16_t *order;    /* in which members are probed */
    uint16_t *suspects; /* ranks */
    uint16_t *news;     /* ranks of whom there is something to pass on */
    struct swim_member members[];
};

/* ---- swim_members.c ---- */

/* Something was said of a member; what is new of it is kept, told and passed on. */
void swim_hear(struct swim *swim, const struct swim_update *update, uint64_t now_us,
               struct swim_actions *actions);
/* We ourselves found it silent. */
void swim_accuse(struct swim *swim, uint32_t rank, uint64_t now_us, struct swim_actions *actions);
/* Suspicions that are over: deaths. */
void swim_judge(struct swim *swim, uint64_t now_us, struct swim_actions *actions);
/* When the next one is over, not before now. */
uint64_t swim_judge_us(const struct swim *swim, uint64_t now_us);
/* A step towards slowness, or away from it. */
void swim_feel(struct swim *swim, int32_t by);

/* ---- swim_probe.c ---- */

/* What is due of probes, ours and for others. */
void swim_tick_probe(struct swim *swim, uint64_t now_us, struct swim_actions *actions);
/* When something of them is due next. */
uint64_t swim_probe_us(const struct swim *swim);
void swim_answer(struct swim *swim, const struct swim_message *message, uint64_t now_us,
                 struct swim_actions *actions);
/* Says goodbye to some. */
void swim_tell_leave(struct swim *swim, struct swim_actions *actions);

/* ---- swim_news.c ---- */

/* There is something new of this member. */
void swim_note(struct swim *swim, uint32_t rank);
/* A datagram to a member, with as much news as it has room for. False: no room among the actions.
 */
bool swim_send(struct swim *swim, enum swim_kind kind, uint32_t to, uint32_t target,
               uint64_t sequence, struct swim_actions *actions);

#endif
