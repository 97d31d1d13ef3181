/* SPDX-License-Identifier: Apache-2.0 */
/* See swim.h. Probing: whom, how, for whom, and what the outcome says (SWIM, sections 3.1, 4.3). */
#include "cluster/swim_internal.h"

/* ---- whom ----------------------------------------------------------------- */

static void shuffle(struct swim *swim)
{
    uint32_t count = swim->config.count - 1;

    for (uint32_t n = count; n > 1; n--) {
        uint32_t other = (uint32_t)random_below(&swim->random, n);
        uint16_t rank = swim->order[n - 1];

        swim->order[n - 1] = swim->order[other];
        swim->order[other] = rank;
    }
    swim->position = 0;
}

/* The next one that may live: each once a round, in an order that changes with each round. */
static uint32_t next_target(struct swim *swim)
{
    uint32_t others = swim->config.count - 1;

    for (uint32_t n = 0; n < others; n++) {
        uint32_t rank;

        if (swim->position == others) {
            shuffle(swim);
        }
        rank = swim->order[swim->position++];
        if (swim->members[rank].state <= SWIM_SUSPECT) {
            return rank;
        }
    }
    return SWIM_NOBODY;
}

/* The oldest suspicion that we only heard of. */
static uint32_t unasked_suspect(const struct swim *swim)
{
    uint32_t oldest = SWIM_NOBODY;

    for (uint32_t n = 0; n < swim->suspect_count; n++) {
        const struct swim_member *member = &swim->members[swim->suspects[n]];

        if (!member->asked &&
            (oldest == SWIM_NOBODY || member->since_us < swim->members[oldest].since_us)) {
            oldest = swim->suspects[n];
        }
    }
    return oldest;
}

/* Who is slow, or stood still, may have read of a suspicion when what refuted it had long been
 * passed on, and nobody says that again: it asks the suspect itself before it is anybody's turn. */
static uint32_t choose_target(struct swim *swim)
{
    uint32_t rank = swim->health > 0 ? unasked_suspect(swim) : SWIM_NOBODY;

    return rank == SWIM_NOBODY ? next_target(swim) : rank;
}

/* Somebody of that state who is not `but`, from a random place on; SWIM_NOBODY: there is none. */
static uint32_t somebody(struct swim *swim, enum swim_state state, uint32_t but)
{
    uint32_t count = swim->config.count;
    uint32_t first = (uint32_t)random_below(&swim->random, count);

    for (uint32_t n = 0; n < count; n++) {
        uint32_t rank = (first + n) % count;

        if (rank != swim->config.self && rank != but && swim->members[rank].state == state) {
            return rank;
        }
    }
    return SWIM_NOBODY;
}

/* ---- our probe ------------------------------------------------------------ */

/* We try once more, and others in our place: it may be the way that is at fault. Nobody is asked
 * twice. */
static void ask_others(struct swim *swim, struct swim_actions *actions)
{
    struct swim_probe *probe = &swim->probe;
    uint32_t asked[SWIM_INDIRECT];

    probe->asked = true;
    (void)swim_send(swim, SWIM_PING, probe->target, probe->target, probe->sequence, actions);
    for (uint32_t n = 0; n < SWIM_INDIRECT; n++) {
        uint32_t rank = somebody(swim, SWIM_ALIVE, probe->target);
        bool again = rank == SWIM_NOBODY;

        for (uint32_t m = 0; m < probe->expected && !again; m++) {
            again = asked[m] == rank;
        }
        if (!again &&
            swim_send(swim, SWIM_PING_REQ, rank, probe->target, probe->sequence, actions)) {
            asked[probe->expected++] = rank;
        }
    }
}

/* Nobody heard of it. That those who were asked did not even say so tells of ourselves (Lifeguard,
 * section IV-A). */
static void probe_failed(struct swim *swim, uint64_t now_us, struct swim_actions *actions)
{
    const struct swim_probe *probe = &swim->probe;
    uint32_t rank = probe->target;

    swim->probe.target = SWIM_NOBODY;
    if (!swim->members[rank].reached) {
        return; /* it never was heard: not started, or no way for datagrams */
    }
    swim->counters.probes_failed++;
    if (probe->judges_us) {
        swim_feel(swim, probe->expected > 0 ? (int32_t)(probe->expected - probe->nacks) : 1);
    }
    if (swim->members[rank].state <= SWIM_SUSPECT) {
        swim_accuse(swim, rank, now_us, actions);
    }
}

/* One that is dead is asked now and then: after a cut each side holds the other for dead. */
static void knock(struct swim *swim, struct swim_actions *actions)
{
    uint32_t rank = swim->dead > 0 && swim->periods % SWIM_KNOCK_PERIODS == 0
                        ? somebody(swim, SWIM_DEAD, SWIM_NOBODY)
                        : SWIM_NOBODY;

    if (rank != SWIM_NOBODY) {
        (void)swim_send(swim, SWIM_PING, rank, rank, swim->sequence++, actions);
    }
}

static void begin_probe(struct swim *swim, uint64_t now_us, struct swim_actions *actions)
{
    uint32_t slower = 1 + swim->health;
    uint32_t rank = choose_target(swim);

    swim->period_end_us = now_us + swim->config.period_us * slower;
    swim->periods++;
    knock(swim, actions);
    if (rank == SWIM_NOBODY) {
        return;
    }
    swim->counters.probes++;
    swim->members[rank].asked = true;
    swim->probe = (struct swim_probe){
        .target = rank,
        .sequence = swim->sequence++,
        .asked_us = now_us + swim->config.timeout_us * slower,
        .end_us = swim->period_end_us,
        .judges_us = swim->members[rank].state == SWIM_ALIVE,
    };
    (void)swim_send(swim, SWIM_PING, rank, rank, swim->probe.sequence, actions);
}

/* Whom we were asked to probe did not answer, and its asker hears that. */
static void tick_relays(struct swim *swim, uint64_t now_us, struct swim_actions *actions)
{
    for (uint32_t n = 0; n < swim->relay_count;) {
        const struct swim_relay *relay = &swim->relays[n];

        if (now_us < relay->end_us) {
            n++;
        } else if (swim_send(swim, SWIM_NACK, relay->asker, relay->target, relay->asked, actions)) {
            swim->relays[n] = swim->relays[--swim->relay_count];
        } else {
            return;
        }
    }
}

void swim_tick_probe(struct swim *swim, uint64_t now_us, struct swim_actions *actions)
{
    struct swim_probe *probe = &swim->probe;

    if (probe->target != SWIM_NOBODY && now_us >= probe->end_us) {
        probe_failed(swim, now_us, actions);
    }
    if (probe->target != SWIM_NOBODY && !probe->asked && now_us >= probe->asked_us) {
        ask_others(swim, actions);
    }
    if (now_us >= swim->period_end_us) {
        begin_probe(swim, now_us, actions);
    }
    tick_relays(swim, now_us, actions);
}

uint64_t swim_probe_us(const struct swim *swim)
{
    uint64_t due_us = swim->period_end_us;

    if (swim->probe.target != SWIM_NOBODY && !swim->probe.asked) {
        due_us = min_u64(due_us, swim->probe.asked_us);
    }
    for (uint32_t n = 0; n < swim->relay_count; n++) {
        due_us = min_u64(due_us, swim->relays[n].end_us);
    }
    return due_us;
}

/* ---- what comes ----------------------------------------------------------- */

static void on_ack(struct swim *swim, const struct swim_message *message,
                   struct swim_actions *actions)
{
    struct swim_probe *probe = &swim->probe;

    if (probe->target == message->target && probe->sequence == message->sequence) {
        if (probe->judges_us) {
            swim_feel(swim, -1);
        }
        swim->members[probe->target].reached |= swim->members[probe->target].incarnation != 0;
        probe->target = SWIM_NOBODY;
        return;
    }
    for (uint32_t n = 0; n < swim->relay_count; n++) {
        const struct swim_relay *relay = &swim->relays[n];

        if (relay->sequence == message->sequence && relay->target == message->from) {
            (void)swim_send(swim, SWIM_ACK, relay->asker, relay->target, relay->asked, actions);
            swim->relays[n] = swim->relays[--swim->relay_count];
            return;
        }
    }
}

/* With all places taken it is not answered, which the asker bears as it bears loss. */
static void on_ping_req(struct swim *swim, const struct swim_message *message, uint64_t now_us,
                        struct swim_actions *actions)
{
    if (swim->relay_count == LIMIT_SWIM_RELAYS || message->target == swim->config.self) {
        return;
    }
    swim->relays[swim->relay_count++] = (struct swim_relay){
        .asker = message->from,
        .target = message->target,
        .asked = message->sequence,
        .sequence = swim->sequence,
        .end_us = now_us + swim->config.timeout_us,
    };
    (void)swim_send(swim, SWIM_PING, message->target, message->target, swim->sequence++, actions);
}

void swim_answer(struct swim *swim, const struct swim_message *message, uint64_t now_us,
                 struct swim_actions *actions)
{
    switch (message->kind) {
    case SWIM_PING:
        (void)swim_send(swim, SWIM_ACK, message->from, swim->config.self, message->sequence,
                        actions);
        break;
    case SWIM_PING_REQ: on_ping_req(swim, message, now_us, actions); break;
    case SWIM_ACK: on_ack(swim, message, actions); break;
    case SWIM_NACK:
        if (swim->probe.target == message->target && swim->probe.sequence == message->sequence &&
            swim->probe.nacks < swim->probe.expected) {
            swim->probe.nacks++;
        }
        break;
    case SWIM_KINDS: break;
    }
}

void swim_tell_leave(struct swim *swim, struct swim_actions *actions)
{
    uint32_t told = SWIM_NOBODY;

    for (uint32_t n = 0; n < LIMIT_SWIM_SENDS; n++) {
        uint32_t rank = somebody(swim, SWIM_ALIVE, told);

        if (rank == SWIM_NOBODY) {
            return;
        }
        told = rank;
        (void)swim_send(swim, SWIM_PING, rank, rank, swim->sequence++, actions);
    }
}
