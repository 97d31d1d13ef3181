/* SPDX-License-Identifier: Apache-2.0 */
/* See swim.h. Life, steps, and the numbers that follow from the number of members. */
#include "cluster/swim.h"

#include <stdlib.h>

#include "cluster/swim_internal.h"

/* ---- numbers -------------------------------------------------------------- */

/* The binary logarithm in 1/65536, rounded down; n > 0. By squaring, so that it is the same on
 * every machine. */
static uint32_t log2_q16(uint32_t n)
{
    uint32_t whole = 31u - (uint32_t)__builtin_clz(n);
    uint64_t x = ((uint64_t)n << 32) >> whole; /* 1 .. 2, times 2^32 */
    uint32_t result = whole;

    for (uint32_t bit = 0; bit < 16; bit++) {
        x = (uint64_t)(((__uint128_t)x * x) >> 32);
        result <<= 1;
        if (x >= UINT64_C(1) << 33) {
            result |= 1;
            x >>= 1;
        }
    }
    return result;
}

/* The decimal one, in thousandths, and not below 1. */
static uint32_t log10_permille(uint32_t n)
{
    return max_u32(1000, (uint32_t)((uint64_t)log2_q16(n) * 30103 / 100 / 65536));
}

uint32_t swim_transmissions(uint32_t count)
{
    return (SWIM_LAMBDA * log2_q16(count + 1) + 65535) / 65536;
}

/* Natural logarithms in thousandths; that of a million is what is risked. */
#define LN_PERMILLE(n) ((uint32_t)((uint64_t)log2_q16(n) * 693147 / 1000 / 65536))
#define RISK           1000000u

/* Until three more have suspected whom a Poisson process of rate 1 a period probes, save once in a
 * million: exp(-t)(1 + t + t^2/2) < 10^-6. */
#define CONFIRM_PERIODS 21u

static uint32_t periods_of(uint64_t permille)
{
    return (uint32_t)((permille + 999) / 1000);
}

uint32_t swim_bound_periods(uint32_t count, uint32_t loss_permille)
{
    uint32_t heard = 1000 - loss_permille;
    uint32_t risk = LN_PERMILLE(RISK);
    /* The first probe of it by somebody, to its end. */
    uint32_t detect = periods_of(risk) + 1;
    /* From one member to all: two datagrams a period and member, of which some are lost. */
    uint32_t spread = periods_of((2 * (uint64_t)LN_PERMILLE(count) + risk) * 1000 / (2 * heard));
    uint32_t shortest = periods_of((uint64_t)SWIM_SUSPICION_MULT * log10_permille(count));
    uint32_t suspicion =
        min_u32(SWIM_SUSPICION_MAX * shortest, max_u32(shortest, CONFIRM_PERIODS + 1 + spread));

    return detect + suspicion + spread;
}

/* ---- create, destroy ------------------------------------------------------ */

static void begin(struct swim *swim, uint64_t now_us)
{
    const struct swim_config *config = &swim->config;
    uint32_t others = 0;

    random_init(&swim->random, config->seed);
    /* An answer to a life before, or to another node's question, fits none of ours. */
    swim->sequence = random_u64(&swim->random);
    swim->due_us = now_us;
    swim->period_end_us = now_us + random_below(&swim->random, config->period_us);
    swim->live = config->listed == 0 ? config->count : config->listed;
    swim->probe.target = SWIM_NOBODY;
    swim->suspicion_min_us =
        max_u64(config->suspicion_us,
                config->period_us * SWIM_SUSPICION_MULT * log10_permille(config->count) / 1000);
    swim->transmissions = swim_transmissions(config->count);
    for (uint32_t rank = 0; rank < config->count; rank++) {
        if (rank != config->self) {
            swim->order[others++] = (uint16_t)rank;
        }
        if (rank >= swim->live && rank != config->self) {
            swim->members[rank].state = SWIM_LEFT;
        }
    }
    swim->live += config->self >= swim->live ? 1 : 0;
    swim->position = others;
    swim->members[config->self].incarnation = SWIM_INCARNATION(config->incarnation, 0);
    swim_note(swim, config->self);
}

struct swim *swim_create(const struct swim_config *config, uint64_t now_us)
{
    size_t members_bytes = config->count * sizeof(struct swim_member);
    size_t list_bytes = config->count * sizeof(uint16_t);
    struct swim *swim;

    NIGH_ASSERT(config->count > 0 && config->count <= LIMIT_SWIM_MEMBERS);
    NIGH_ASSERT(config->self < config->count && config->incarnation != 0);
    NIGH_ASSERT(config->timeout_us > 0 && config->timeout_us < config->period_us / 2);
    swim = calloc(1, sizeof(*swim) + members_bytes + 3 * list_bytes);
    if (swim == NULL) {
        return NULL;
    }
    swim->config = *config;
    swim->order = (uint16_t *)(void *)((char *)swim + sizeof(*swim) + members_bytes);
    swim->suspects = swim->order + config->count;
    swim->news = swim->suspects + config->count;
    begin(swim, now_us);
    return swim;
}

void swim_destroy(struct swim *swim)
{
    free(swim);
}

/* ---- steps ---------------------------------------------------------------- */

/* This node stood still: what should have been heard meanwhile was not, and says nothing of others.
 * The time does not count in what runs (CaRT's "glitch"), and Lifeguard's multiplier knows. */
static void notice_lateness(struct swim *swim, uint64_t now_us)
{
    uint64_t late_us = now_us > swim->due_us ? now_us - swim->due_us : 0;
    uint64_t period_us = swim->config.period_us;

    if (late_us < SWIM_STILL_US(period_us)) {
        return;
    }
    swim->counters.late++;
    swim_feel(swim, (int32_t)min_u64(1 + late_us / period_us, SWIM_HEALTH_MAX));
    for (uint32_t n = 0; n < swim->suspect_count; n++) {
        uint64_t *since_us = &swim->members[swim->suspects[n]].since_us;

        *since_us = min_u64(*since_us + late_us, now_us);
    }
    swim->probe.asked_us += late_us;
    swim->probe.end_us += late_us;
    swim->period_end_us += late_us;
}

static void tick(struct swim *swim, uint64_t now_us, struct swim_actions *actions)
{
    notice_lateness(swim, now_us);
    swim_tick_probe(swim, now_us, actions);
    swim_judge(swim, now_us, actions);
    swim->due_us = max_u64(now_us, min_u64(swim_probe_us(swim), swim_judge_us(swim, now_us)));
}

static void receive(struct swim *swim, const struct swim_message *message, uint64_t now_us,
                    struct swim_actions *actions)
{
    struct swim_update sender = {
        .incarnation = message->incarnation,
        .rank = message->from,
        .from = message->from,
        .state = SWIM_ALIVE,
    };

    NIGH_ASSERT(message->to == swim->config.self && message->from != swim->config.self);
    swim_hear(swim, &sender, now_us, actions);
    for (uint32_t n = 0; n < message->count; n++) {
        swim_hear(swim, &message->updates[n], now_us, actions);
    }
    swim_answer(swim, message, now_us, actions);
    /* A suspicion may have begun, or got shorter, or a probe for another; never later than it was
     * due, by which lateness is known. */
    swim->due_us = min_u64(swim->due_us, swim_probe_us(swim));
    swim->due_us = min_u64(swim->due_us, swim_judge_us(swim, now_us));
}

static void leave(struct swim *swim, struct swim_actions *actions)
{
    struct swim_member *self = &swim->members[swim->config.self];

    self->state = SWIM_LEFT;
    swim->live--;
    swim->left = true;
    swim->due_us = UINT64_MAX;
    swim_note(swim, swim->config.self);
    swim_tell_leave(swim, actions);
}

void swim_step(struct swim *swim, const struct swim_event *event, uint64_t now_us,
               struct swim_actions *actions)
{
    actions->sends = 0;
    actions->changes = 0;
    actions->refuted = false;
    if (!swim->left) {
        switch (event->kind) {
        case SWIM_TICK: tick(swim, now_us, actions); break;
        case SWIM_RECEIVE: receive(swim, event->message, now_us, actions); break;
        case SWIM_LEAVE: leave(swim, actions); break;
        case SWIM_EVENTS: break;
        }
    }
    actions->due_us = swim->due_us;
    NIGH_ASSERT_SLOW(swim_is_valid(swim));
}

/* ---- looking -------------------------------------------------------------- */

enum swim_state swim_state_of(const struct swim *swim, uint32_t rank)
{
    return (enum swim_state)swim->members[rank].state;
}

uint64_t swim_incarnation_of(const struct swim *swim, uint32_t rank)
{
    return swim->members[rank].incarnation;
}

bool swim_is_reached(const struct swim *swim, uint32_t rank)
{
    return swim->members[rank].reached;
}

uint32_t swim_health(const struct swim *swim)
{
    return swim->health;
}

const struct swim_counters *swim_counters(const struct swim *swim)
{
    return &swim->counters;
}

#define SWIM_NAME(name, text) text,

const char *swim_state_name(enum swim_state state)
{
    static const char *const names[] = {SWIM_STATE_TABLE(SWIM_NAME)};

    return (uint32_t)state < SWIM_STATES ? names[state] : "unknown";
}

const char *swim_kind_name(enum swim_kind kind)
{
    static const char *const names[] = {SWIM_KIND_TABLE(SWIM_NAME)};

    return (uint32_t)kind < SWIM_KINDS ? names[kind] : "unknown";
}

bool swim_is_valid(const struct swim *swim)
{
    uint32_t live = 0, dead = 0, suspects = 0, news = 0;

    for (uint32_t rank = 0; rank < swim->config.count; rank++) {
        const struct swim_member *member = &swim->members[rank];

        live += member->state <= SWIM_SUSPECT;
        dead += member->state == SWIM_DEAD;
        suspects += member->state == SWIM_SUSPECT;
        news += member->is_news;
        if (member->state == SWIM_SUSPECT && member->accusations == 0) {
            return false;
        }
    }
    return live == swim->live && dead == swim->dead && suspects == swim->suspect_count &&
           news == swim->news_count && swim->health <= SWIM_HEALTH_MAX &&
           swim->relay_count <= LIMIT_SWIM_RELAYS &&
           swim->members[swim->config.self].state != SWIM_SUSPECT &&
           swim->members[swim->config.self].state != SWIM_DEAD;
}
