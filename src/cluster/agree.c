/* SPDX-License-Identifier: Apache-2.0 */
/* See agree.h. */
#include "cluster/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cluster/agree_internal.h"

#define LOG_MODULE "views"
#include "base/log.h"

/* libraft looks at its clock so often at least. Not all voters at once: those that find in the same
 * moment that nobody leads would share the votes, again and again. */
#define TICK_US (UINT64_C(1000) * AGREE_HEARTBEAT_MS)

uint32_t agree_voters(uint32_t listed)
{
    return listed >= 5 ? 5 : listed >= 3 ? 3 : 1;
}

void agree_run_later(struct agree *agree)
{
    struct list_node *node;

    while ((node = list_pop_front(&agree->later)) != NULL) {
        struct agree_later *later = container_of(node, struct agree_later, place);

        later->run(agree, later);
        free(later);
    }
}

/* ---- saying --------------------------------------------------------------- */

static void say(struct agree *agree, uint32_t rank, const struct agree_head *head,
                const struct agreed *agreed)
{
    uint8_t bytes[sizeof(*head) + sizeof(*agreed)];
    uint32_t count = sizeof(*head);

    memcpy(bytes, head, sizeof(*head));
    if (agreed != NULL) {
        memcpy(bytes + count, agreed, sizeof(*agreed));
        count += sizeof(*agreed);
    }
    agree->config.send(agree->config.context, rank, bytes, count);
}

/* nonce 0: news alone, no lease. What it says of the time comes back with the next ASK. How many
 * seats are taken tells who does not vote which ranks are somebody's. */
static void grant(struct agree *agree, uint32_t rank, uint64_t nonce)
{
    struct agree_head head = {
        .kind = AGREE_GRANT,
        .numbers = {nonce, agree->now_us, agree->own_token, agree->roster.count}};

    agree->granted += nonce != 0 ? 1 : 0;
    say(agree, rank, &head, &agree->applied);
}

static bool may_grant(const struct agree *agree)
{
    return agree->now_us < agree_leads_until_us(agree);
}

void agree_answer_first(struct agree *agree)
{
    for (uint32_t rank = 0; rank < agree->config.count; rank++) {
        struct agree_member *member = &agree->members[rank];

        if (member->nonce != 0 && member->waits_from <= agree->reached) {
            grant(agree, rank, may_grant(agree) ? member->nonce : 0);
            member->nonce = 0;
        }
    }
}

void agree_learn(struct agree *agree, const struct agreed *agreed)
{
    if (!agreed_is_older(&agree->known, agreed)) {
        return;
    }
    agree->known = *agreed;
    for (uint32_t rank = 0; agree->leads && agree->ready && rank < agree->config.count; rank++) {
        if (rank != agree->config.self && agree_is_member(agree, rank)) {
            grant(agree, rank, 0);
        }
    }
}

/* ---- asking --------------------------------------------------------------- */

uint32_t agree_whom(struct agree *agree)
{
    uint32_t voters = agree_voters(agree->config.listed);
    raft_id id = 0;
    const char *address;

    if (agree_votes(agree)) {
        raft_leader(&agree->raft, &id, &address);
        return id == 0 || id == agree_id(agree->config.self) ? AGREE_NOBODY : (uint32_t)id - 1;
    }
    if (agree->leader != AGREE_NOBODY) {
        return agree->leader;
    }
    agree->next = (agree->next + 1) % voters;
    if (agree->next == agree->config.self) {
        agree->next = (agree->next + 1) % voters;
    }
    return agree->next == agree->config.self ? AGREE_NOBODY : agree->next;
}

static void ask(struct agree *agree, uint32_t rank)
{
    struct agree_head head = {.kind = AGREE_ASK,
                              .flags = agree->lease_us == 0 ? AGREE_FLAG_FIRST : 0,
                              .changes = (uint32_t)agree->roster.changes};

    agree->nonce = random_u64(&agree->random) | 1;
    agree->asked_us = agree->now_us;
    head.numbers[0] = agree->nonce;
    head.numbers[1] = agree->adopted;
    head.numbers[2] = agree->stamp;
    head.numbers[3] = agree->token;
    say(agree, rank, &head, NULL);
}

/* Renews the lease, or asks for the first; returns when to look again. */
static uint64_t renew(struct agree *agree)
{
    uint32_t rank;

    if (agree->leads) {
        return UINT64_MAX;
    }
    if (agree->now_us < agree->renew_us) {
        return agree->renew_us;
    }
    if (agree->nonce != 0) {
        agree->leader = AGREE_NOBODY; /* it did not answer */
    }
    rank = agree_whom(agree);
    if (rank != AGREE_NOBODY) {
        ask(agree, rank);
        agree_ask_name(agree, rank);
    }
    agree->renew_us =
        agree->now_us +
        (rank == AGREE_NOBODY ? AGREE_RENEW_US / 4 : AGREE_RENEW_US / (agree_votes(agree) ? 2 : 1));
    return agree->renew_us;
}

/* ---- hearing -------------------------------------------------------------- */

static void hear_ask(struct agree *agree, uint32_t rank, const struct agree_head *head)
{
    struct agree_member *member = &agree->members[rank];
    raft_id id = 0;
    const char *address;

    if (!agree->leads) {
        struct agree_head hint = {.kind = AGREE_HINT, .numbers = {head->numbers[0], AGREE_NOBODY}};

        if (agree_votes(agree)) {
            raft_leader(&agree->raft, &id, &address);
            hint.numbers[1] = id == 0 ? AGREE_NOBODY : id - 1;
        }
        agree->hinted++;
        say(agree, rank, &hint, NULL);
        return;
    }
    if (!agree_is_member(agree, rank)) {
        return; /* nobody gave it its rank, as far as is decided, or it is struck off */
    }
    agree_lead_heard(agree, rank, head);
    if ((head->flags & AGREE_FLAG_FIRST) != 0) {
        member->nonce = head->numbers[0];
        member->waits_from = agree->barriers + 1;
        agree->barrier_wanted = true;
    } else if (agree->ready) {
        grant(agree, rank, may_grant(agree) ? head->numbers[0] : 0);
    }
    if (agree->ready && head->changes != (uint32_t)agree->roster.changes) {
        agree_tell_roster(agree, rank);
    }
}

static void hear_grant(struct agree *agree, uint32_t rank, const struct agree_head *head,
                       const struct agreed *agreed)
{
    if (rank >= agree_voters(agree->config.listed) ||
        !agreed_is_valid(agreed, agree->config.count)) {
        agree->malformed++;
        return;
    }
    if (agree->token != head->numbers[2]) {
        agree->renew_us = agree->now_us; /* a new leader: it waits to hear from us */
    }
    agree->stamp = head->numbers[1];
    agree->token = head->numbers[2];
    agree->seats_told = max_u64(
        agree->seats_told, min_u64(head->numbers[3], agree->config.count - agree->config.listed));
    if (agree->nonce != 0 && head->numbers[0] == agree->nonce) {
        agree->nonce = 0;
        agree->leader = rank;
        /* Who is behind what is known leads no more, and does not know it yet. */
        if (!agreed_is_older(agreed, &agree->known)) {
            agree->lease_us = max_u64(agree->lease_us, agree->asked_us + AGREE_LEASE_US);
        }
    }
    agree_learn(agree, agreed);
}

static void hear_hint(struct agree *agree, const struct agree_head *head)
{
    if (agree->nonce == 0 || head->numbers[0] != agree->nonce || agree_votes(agree)) {
        return;
    }
    agree->nonce = 0;
    agree->leader = AGREE_NOBODY;
    if (head->numbers[1] < agree_voters(agree->config.listed) &&
        head->numbers[1] != agree->config.self && agree->asked_us != agree->now_us) {
        agree->leader = (uint32_t)head->numbers[1];
        ask(agree, agree->leader);
    }
}

static void hear(struct agree *agree, uint32_t rank, const uint8_t *bytes, size_t count)
{
    struct agree_head head;
    struct agreed agreed;

    memcpy(&head, bytes, sizeof(head));
    if (head.kind < AGREE_ASK) {
        agree_raft_hear(agree, rank, bytes, count);
    } else if (head.kind == AGREE_ASK && count == sizeof(head) && head.numbers[0] != 0) {
        hear_ask(agree, rank, &head);
    } else if (head.kind == AGREE_HINT && count == sizeof(head)) {
        hear_hint(agree, &head);
    } else if (head.kind == AGREE_GRANT && count == sizeof(head) + sizeof(agreed)) {
        memcpy(&agreed, bytes + sizeof(head), sizeof(agreed));
        hear_grant(agree, rank, &head, &agreed);
    } else if (head.kind == AGREE_JOIN && count == sizeof(head) + AGREED_ADDRESS_BYTES &&
               head.numbers[0] != 0) {
        agree_hear_join(agree, rank, &head, (const char *)bytes + sizeof(head));
    } else if (head.kind == AGREE_SEATED) {
        agree_hear_seated(agree, rank, &head, bytes + sizeof(head), count - sizeof(head));
    } else if (head.kind == AGREE_NAME && count == sizeof(head) + AGREED_NAME_BYTES) {
        agree_hear_name(agree, rank, (const char *)bytes + sizeof(head));
    } else if (head.kind == AGREE_ROSTER) {
        agree_hear_roster(agree, rank, bytes + sizeof(head), count - sizeof(head));
    } else if (head.kind == AGREE_FORGET && count == sizeof(head) && head.numbers[0] != 0) {
        agree_hear_forget(agree, rank, &head);
    } else if (head.kind == AGREE_FORGOT && count == sizeof(head)) {
        agree_hear_forgot(agree, rank, &head);
    } else {
        agree->malformed++;
    }
}

/* ---- steps ---------------------------------------------------------------- */

/* Of members a new leader knows nothing, but whose death it heard of just now: the leader before it
 * may have said goodbye, and who is back since asks before long. */
static void forget_members(struct agree *agree)
{
    for (uint32_t rank = 0; rank < agree->config.count; rank++) {
        uint64_t dead_us = agree->members[rank].dead_us;

        if (dead_us != 0 && agree->now_us - dead_us >= AGREE_GRACE_US) {
            dead_us = 0;
        }
        agree->members[rank] = (struct agree_member){.dead_us = dead_us};
    }
}

/* Whether we lead may have changed. */
static void note_leader(struct agree *agree)
{
    bool leads = agree_votes(agree) && raft_state(&agree->raft) == RAFT_LEADER;

    if (leads == agree->leads) {
        return;
    }
    agree->leads = leads;
    agree->ready = false;
    agree->epoch = 0;
    forget_members(agree);
    memset(agree->joiners, 0, sizeof(agree->joiners));
    memset(agree->forgetters, 0, sizeof(agree->forgetters));
    if (leads) {
        agree->elections++;
        agree->leads_us = agree->now_us;
        agree->own_token = random_u64(&agree->random) | 1;
        agree->leader = agree->config.self;
        agree->barrier_wanted = true;
        LOG_INFO("leads the views", "term=%llu epoch=%llu",
                 (unsigned long long)agree->raft.current_term,
                 (unsigned long long)agree->known.epoch);
    } else {
        agree->leader = AGREE_NOBODY;
        agree->renew_us = agree->now_us;
        LOG_INFO("leads the views no more", "epoch=%llu", (unsigned long long)agree->known.epoch);
    }
}

/* libraft gives up for good when it lacks memory, or what it is told cannot be. */
static void note_end(struct agree *agree)
{
    if (agree_votes(agree) && raft_state(&agree->raft) == RAFT_UNAVAILABLE) {
        agree->failed = true;
        LOG_ERROR("this node votes no more on views until it is started again: libraft has given "
                  "up",
                  "term=%llu", (unsigned long long)agree->raft.current_term);
    }
}

/* What follows from whatever happened; returns when to look again. */
static uint64_t follow(struct agree *agree)
{
    uint64_t due_us;

    agree_run_later(agree);
    note_end(agree);
    note_leader(agree);
    if (agree->leads && agree->barrier_wanted && !agree->barrier_pending) {
        agree->barrier_wanted = !agree_raft_barrier(agree);
        agree_run_later(agree);
    }
    if (agree->leads && agree->ready) {
        agree_learn(agree, &agree->applied); /* the first view has no command */
    }
    due_us = agree_lead(agree);
    agree_run_later(agree);
    note_leader(agree);
    return due_us;
}

void agree_hear(struct agree *agree, uint32_t rank, const void *bytes, size_t count,
                uint64_t now_us)
{
    agree->now_us = now_us;
    if (rank >= agree->config.count || rank == agree->config.self ||
        count < sizeof(struct agree_head) || count > AGREE_MESSAGE_BYTES) {
        agree->malformed++;
        return;
    }
    hear(agree, rank, bytes, count);
    (void)follow(agree);
}

void agree_adopted(struct agree *agree, uint64_t epoch, uint64_t now_us)
{
    agree->now_us = now_us;
    if (epoch > agree->adopted) {
        agree->adopted = epoch;
        agree->renew_us = now_us; /* those that wait for it hear of it at once */
    }
    (void)follow(agree);
}

void agree_dead(struct agree *agree, uint32_t rank, uint64_t now_us)
{
    agree->now_us = now_us;
    if (rank < agree->config.count && rank != agree->config.self) {
        agree->members[rank].dead_us = now_us;
        (void)follow(agree);
    }
}

uint64_t agree_tick(struct agree *agree, uint64_t now_us)
{
    uint64_t due_us;

    agree->now_us = now_us;
    if (agree_votes(agree) && now_us >= agree->tick_us) {
        agree->tick_us = now_us + TICK_US / 2 + random_below(&agree->random, TICK_US / 2);
        agree->tick(&agree->io);
    }
    due_us = min_u64(agree_join_tick(agree), agree_forget_tick(agree));
    due_us = min_u64(due_us, follow(agree));
    due_us = min_u64(due_us, renew(agree));
    if (agree_votes(agree)) {
        due_us = min_u64(due_us, agree->tick_us);
    }
    if (agree->lease_us > now_us) {
        due_us = min_u64(due_us, agree->lease_us);
    }
    return due_us;
}

/* ---- life ----------------------------------------------------------------- */

nigh_status agree_create(const struct agree_config *config, const void *stored, size_t stored_bytes,
                         uint64_t now_us, struct agree **agree, char why[AGREE_WHY_BYTES])
{
    struct agree *made = calloc(1, sizeof(*made));
    nigh_status status = NIGH_OK;
    int error;

    if (made == NULL) {
        snprintf(why, AGREE_WHY_BYTES, "no memory for the views");
        return NIGH_NO_RESOURCES;
    }
    made->config = *config;
    /* Sooner a silence takes nobody out: who has a lease may be asking all the same. */
    made->config.dead_us = max_u64(config->dead_us, AGREE_LEASE_US);
    made->now_us = made->start_us = now_us;
    made->leader = AGREE_NOBODY;
    made->votes = config->self < agree_voters(config->listed);
    made->log.first = 1;
    random_init(&made->random, config->seed);
    list_init(&made->later);
    agreed_init(&made->applied, config->listed);
    for (uint32_t rank = 0; rank < AGREE_VOTERS; rank++) {
        snprintf(made->names[rank], sizeof(made->names[rank]), "%u", rank);
    }
    if (!made->votes && stored_bytes > 0) {
        snprintf(why, AGREE_WHY_BYTES,
                 "these are a voter's, and rank %u of this list is none; give it another directory",
                 config->self);
        status = NIGH_VERSION;
    } else if (stored_bytes > 0) {
        status = agree_load(made, stored, stored_bytes, why);
    }
    if (made->votes && status == NIGH_OK) {
        error = agree_raft_start(made, stored_bytes == 0);
        if (error != 0) {
            snprintf(why, AGREE_WHY_BYTES, "the voting cannot begin: %s", raft_strerror(error));
            status = error == RAFT_NOMEM ? NIGH_NO_RESOURCES : NIGH_DISK;
        }
    }
    if (status != NIGH_OK) {
        agree_destroy(made);
        return status;
    }
    (void)follow(made);
    *agree = made;
    return NIGH_OK;
}

void agree_destroy(struct agree *agree)
{
    if (agree == NULL) {
        return;
    }
    agree_raft_stop(agree);
    agree_run_later(agree);
    free(agree);
}

void agree_look(const struct agree *agree, uint64_t now_us, struct agree_look *look)
{
    uint64_t lease_us = agree->leads ? agree_leads_until_us(agree) : agree->lease_us;

    *look = (struct agree_look){
        .agreed = agree->known,
        .seats = (uint32_t)max_u64(agree->roster.count, agree->seats_told),
        .has_lease = now_us < lease_us,
        .lease_us = lease_us,
        .leader = agree->leads ? agree->config.self : agree->leader,
        .votes = agree->votes,
        .failed = agree->failed,
        .term = agree->log.term,
        .elections = agree->elections,
        .proposed = agree->proposed,
        .granted = agree->granted,
        .hinted = agree->hinted,
        .malformed = agree->malformed,
    };
}

const struct agreed_roster *agree_roster(const struct agree *agree)
{
    return &agree->roster;
}
