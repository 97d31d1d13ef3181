/* SPDX-License-Identifier: Apache-2.0 */
/* See swim.h. What is passed on with each datagram, and how often (SWIM, section 4.1). */
#include "cluster/swim_internal.h"

void swim_note(struct swim *swim, uint32_t rank)
{
    struct swim_member *member = &swim->members[rank];

    member->sent = 0;
    if (!member->is_news) {
        member->is_news = true;
        swim->news[swim->news_count++] = (uint16_t)rank;
    }
}

static void put(const struct swim *swim, uint32_t rank, struct swim_message *message)
{
    const struct swim_member *member = &swim->members[rank];
    struct swim_update *update = &message->updates[message->count++];

    *update = (struct swim_update){
        .incarnation = member->incarnation,
        .rank = rank,
        .from = rank,
        .state = (enum swim_state)member->state,
    };
    if (member->state == SWIM_SUSPECT) { /* each accuser in turn, so that all are heard of */
        update->from = member->accusers[member->sent % member->accusations];
    } else if (member->state == SWIM_DEAD) {
        update->from = member->teller;
    }
}

/* Moves the news that was passed on least often to this place of the list. */
static void choose(struct swim *swim, uint32_t place)
{
    uint32_t best = place;
    uint16_t rank;

    for (uint32_t n = place + 1; n < swim->news_count; n++) {
        if (swim->members[swim->news[n]].sent < swim->members[swim->news[best]].sent) {
            best = n;
        }
    }
    rank = swim->news[best];
    swim->news[best] = swim->news[place];
    swim->news[place] = rank;
}

/* What was passed on often enough is no news any more. */
static void forget(struct swim *swim)
{
    for (uint32_t n = 0; n < swim->news_count;) {
        struct swim_member *member = &swim->members[swim->news[n]];

        if (member->sent < swim->transmissions) {
            n++;
            continue;
        }
        member->is_news = false;
        swim->news[n] = swim->news[--swim->news_count];
    }
}

bool swim_send(struct swim *swim, enum swim_kind kind, uint32_t to, uint32_t target,
               uint64_t sequence, struct swim_actions *actions)
{
    struct swim_message *message = &actions->send[actions->sends];

    if (actions->sends == LIMIT_SWIM_SENDS) {
        return false;
    }
    actions->sends++;
    message->kind = kind;
    message->from = swim->config.self;
    message->to = to;
    message->target = target;
    message->incarnation = swim->members[swim->config.self].incarnation;
    message->sequence = sequence;
    message->count = 0;
    /* Whom others suspect hears of it first (Lifeguard's buddy system): it is the one that can
     * refute it. */
    if (swim->members[to].state != SWIM_ALIVE) {
        put(swim, to, message);
    }
    for (uint32_t n = 0; n < swim->news_count && message->count < LIMIT_SWIM_UPDATES; n++) {
        choose(swim, n);
        if (swim->news[n] != to || swim->members[to].state == SWIM_ALIVE) {
            put(swim, swim->news[n], message);
        }
        swim->members[swim->news[n]].sent++;
    }
    forget(swim);
    return true;
}
