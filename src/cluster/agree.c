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

#define ASK_EVERYBODY 8u /* turns, after which that is */

uint32_t agree_voters(uint32_t listed)
{
    return listed >= 5 ? 5 : listed >= 3 ? 3 : 1;
}

void agree_wake(struct agree *agree, uint64_t now_us)
{
    if (now_us - agree->now_us >= AGREE_STOOD_US) {
        agree->awake_us = now_us;
    }
    agree->now_us = now_us;
}

void agree_run_later(struct agree *agree)
{
    struct list_node *node;

    while ((node = list_pop_front(&agree->later)) != NULL) {
        struct agree_later *later = container_of(node, struct agree_later, place);

        later->run(agree, later);
        raft_free(later);
    }
}

/* ---- saying --------------------------------------------------------------- */

static void say(struct agree *agree, uint32_t rank, const struct agree_head *head,
                const struct agree_news *news)
{
    uint8_t bytes[sizeof(*head) + sizeof(*news)];
    uint32_t count = sizeof(*head);

    memcpy(bytes, head, sizeof(*head));
    if (news != NULL) {
        memcpy(bytes + count, news, sizeof(*news));
        count += sizeof(*news);
    }
    agree->config.send(agree->config.context, rank, bytes, count);
}

/* Whether one that kept nothing may: nobody counts on what it said in the life before. */
static bool may_take_part(const struct agree *agree, uint32_t rank)
{
    return agree->members[rank].is_bare && agree_conf_role(&agree->own, rank) == AGREE_NO_ROLE &&
           agree->raft.configuration_uncommitted_index == 0;
}

/* nonce 0: news alone, no lease. What it says of the time comes back with the next ASK. How many
 * seats are taken tells who does not vote which ranks are somebody's. */
static void grant(struct agree *agree, uint32_t rank, uint64_t nonce)
{
    struct agree_head head = {
        .kind = AGREE_GRANT,
        .numbers = {nonce, agree->now_us, agree->own_token, agree->roster.count}};
    struct agree_news news = {.agreed = agree->applied};

    if (nonce != 0 && may_take_part(agree, rank)) {
        head.flags = AGREE_FLAG_FREE;
    }
    agree_conf_decided(agree, &news.conf);
    if (nonce != 0) {
        agree->granted++;
        agree->members[rank].granted_us = agree->now_us;
    }
    say(agree, rank, &head, &news);
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

/* Whom this node follows, by Raft. */
static uint32_t raft_leads(const struct agree *agree)
{
    raft_id id = 0;
    const char *address;

    if (agree->running && !agree->failed) {
        raft_leader((struct raft *)&agree->raft, &id, &address);
    }
    return id == 0 ? AGREE_NOBODY : (uint32_t)id - 1;
}

/* How many, as far as known: ranks are given in turn, so all below this one are somebody's. */
static uint32_t members_known(const struct agree *agree)
{
    uint64_t seats = max_u64(agree_roster(agree)->count, agree->seats_told);

    return (uint32_t)min_u64(max_u64(agree->config.listed + seats, agree->config.self + 1),
                             agree->config.count);
}

/* Who votes, as far as known, and in between any member: all who voted then may be gone, and who
 * is a member says who leads. */
static uint32_t next_in_turn(struct agree *agree)
{
    const struct agree_conf *conf = agree_conf_known(agree);

    for (uint32_t tries = 0; tries < 4 * LIMIT_NODES; tries++) {
        uint32_t turn = agree->next++, rank = turn / 2 % members_known(agree);

        if (turn % 2 == 0) {
            const struct agree_server *server = &conf->servers[turn / 2 % conf->count];

            rank = server->role == RAFT_VOTER ? server->rank : agree->config.self;
        }
        if (rank != agree->config.self) {
            return rank;
        }
    }
    return AGREE_NOBODY;
}

/* A voter waits for an election to end; where that takes long it may be that it has no vote any
 * more, and nobody follows it. */
uint32_t agree_whom(struct agree *agree)
{
    if (agree_votes(agree)) {
        uint32_t rank = raft_leads(agree);

        if (rank != AGREE_NOBODY) {
            agree->lost_us = agree->now_us;
            return rank == agree->config.self ? AGREE_NOBODY : rank;
        }
        if (agree->leads || agree->now_us - agree->lost_us < AGREE_LEASE_US) {
            return AGREE_NOBODY;
        }
    }
    if (agree->leader != AGREE_NOBODY && agree->leader != agree->config.self) {
        return agree->leader;
    }
    return agree_awaits_begin(agree) && begin_is_late(&agree->begin) ? agree_who_knows(agree)
                                                                     : next_in_turn(agree);
}

bool agree_may_lead(const struct agree *agree, uint32_t rank)
{
    return agree_is_voter(agree_conf_known(agree), rank) || rank == agree->leader ||
           (agree->nonce != 0 && (rank == agree->asked || agree->asked == AGREE_NOBODY));
}

/* A voter says again what time it heard of only to whom it follows: by that the other takes it for
 * one that elects nobody else. Who kept nothing does not know whom it has elected. */
static void ask(struct agree *agree, uint32_t rank)
{
    bool follows = !agree->is_bare &&
                   (!agree_is_voter(&agree->own, agree->config.self) || raft_leads(agree) == rank);
    struct agree_head head = {.kind = AGREE_ASK,
                              .flags = (agree->lease_us == 0 ? AGREE_FLAG_FIRST : 0) |
                                       (agree->leaves ? AGREE_FLAG_LEAVES : 0) |
                                       (agree->is_bare ? AGREE_FLAG_BARE : 0) |
                                       (agree->failed ? AGREE_FLAG_MUTE : 0),
                              .changes = (uint32_t)agree_roster(agree)->changes};

    head.numbers[0] = agree->nonce;
    head.numbers[1] = agree->adopted;
    head.numbers[2] = follows ? agree->stamp : 0;
    head.numbers[3] = follows ? agree->token : 0;
    say(agree, rank, &head, NULL);
}

/* AGREE_NOBODY: it is everybody. */
static void begin_to_ask(struct agree *agree, uint32_t rank)
{
    agree->nonce = random_u64(&agree->random) | 1;
    agree->asked_us = agree->now_us;
    agree->asked = rank;
}

static void ask_one(struct agree *agree, uint32_t rank)
{
    begin_to_ask(agree, rank);
    ask(agree, rank);
}

/* Who was away for long may know nobody that is there. */
static void ask_everybody(struct agree *agree)
{
    begin_to_ask(agree, AGREE_NOBODY);
    for (uint32_t rank = 0; rank < agree->config.count; rank++) {
        if (rank != agree->config.self) {
            ask(agree, rank);
        }
    }
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
    if (rank != AGREE_NOBODY && rank != agree->leader && ++agree->turns % ASK_EVERYBODY == 0) {
        ask_everybody(agree);
    } else if (rank != AGREE_NOBODY) {
        ask_one(agree, rank);
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

    if (!agree->leads) {
        struct agree_head hint = {
            .kind = AGREE_HINT,
            .numbers = {head->numbers[0], agree_votes(agree) ? raft_leads(agree) : agree->leader}};

        agree->hinted++;
        say(agree, rank, &hint, NULL);
        return;
    }
    if (!agree_is_member(agree, rank)) {
        return; /* nobody gave it its rank, as far as is decided, or it is struck off */
    }
    if (agree_is_going(agree, rank)) {
        return; /* what is proposed is not taken back: it came too late, or asks again */
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

/* Numbers only grow here: none may come so near their end that nothing is after it. */
static bool is_sound(const struct agree *agree, const struct agree_news *news)
{
    return agreed_is_valid(&news->agreed, agree->config.count) &&
           agree_conf_is_valid(agree, &news->conf) &&
           agree_is_near(news->agreed.epoch, agree->known.epoch) &&
           agree_is_near(news->conf.index, agree_conf_known(agree)->index);
}

static void hear_grant(struct agree *agree, uint32_t rank, const struct agree_head *head,
                       const struct agree_news *news)
{
    const struct agreed *agreed = &news->agreed;

    if (!agree_may_lead(agree, rank) || !is_sound(agree, news)) {
        agree->malformed++;
        return;
    }
    if (news->conf.index > agree->told.index) {
        agree->told = news->conf;
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
        if ((head->flags & AGREE_FLAG_FREE) != 0) {
            agree_freed(agree);
        }
    }
    agree_learn(agree, agreed);
}

static void hear_hint(struct agree *agree, const struct agree_head *head)
{
    if (agree->nonce == 0 || head->numbers[0] != agree->nonce) {
        return;
    }
    agree->nonce = 0;
    agree->leader = AGREE_NOBODY;
    if (head->numbers[1] < agree->config.count && head->numbers[1] != agree->config.self &&
        agree->asked_us != agree->now_us) {
        agree->leader = (uint32_t)head->numbers[1];
        ask_one(agree, agree->leader);
    }
}

static void hear(struct agree *agree, uint32_t rank, const uint8_t *bytes, size_t count)
{
    struct agree_head head;
    struct agree_news news;

    memcpy(&head, bytes, sizeof(head));
    if (head.kind < AGREE_ASK) {
        agree_raft_hear(agree, rank, bytes, count);
    } else if (head.kind == AGREE_ASK && count == sizeof(head) && head.numbers[0] != 0) {
        hear_ask(agree, rank, &head);
    } else if (head.kind == AGREE_HINT && count == sizeof(head)) {
        hear_hint(agree, &head);
    } else if (head.kind == AGREE_GRANT && count == sizeof(head) + sizeof(news)) {
        memcpy(&news, bytes + sizeof(head), sizeof(news));
        hear_grant(agree, rank, &head, &news);
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
    } else if (head.kind == AGREE_KNOWN && count == sizeof(head) + AGREE_KNOWN_BYTES) {
        agree_hear_known(agree, rank, &head, bytes + sizeof(head));
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

static void set_leads(struct agree *agree, bool leads)
{
    if (leads == agree->leads) {
        return;
    }
    agree->leads = leads;
    agree->ready = false;
    agree->epoch = 0;
    agree->shown_index = 0;
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

/* Whether we lead may have changed. */
static void note_leader(struct agree *agree)
{
    set_leads(agree, agree->running && !agree->failed && raft_state(&agree->raft) == RAFT_LEADER);
}

/* libraft gives up for good when it lacks memory, or what it is told cannot be. */
static void note_end(struct agree *agree)
{
    if (agree->running && !agree->failed && raft_state(&agree->raft) == RAFT_UNAVAILABLE) {
        agree->failed = true;
        LOG_ERROR(
            "this node votes on views no more: libraft has given up",
            "term=%llu do=\"start the node again; if the machine lacked memory, free some first\"",
            (unsigned long long)agree->raft.current_term);
    }
}

/* What follows from whatever happened; returns when to look again. */
static uint64_t follow(struct agree *agree)
{
    uint64_t due_us;

    agree_run_later(agree);
    note_end(agree);
    (void)agree_raft_settle(agree);
    agree_conf_refresh(agree);
    if (agree_take_back(agree)) {
        agree_run_later(agree);
        set_leads(agree, false); /* if it does, in another term */
    }
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
    (void)agree_raft_settle(agree);
    agree_conf_refresh(agree);
    note_leader(agree);
    return due_us;
}

void agree_hear(struct agree *agree, uint32_t rank, const void *bytes, size_t count,
                uint64_t now_us)
{
    agree_wake(agree, now_us);
    if (rank >= agree->config.count || rank == agree->config.self ||
        count < sizeof(struct agree_head) || count > AGREE_MESSAGE_BYTES) {
        agree->malformed++;
        return;
    }
    hear(agree, rank, bytes, count);
    (void)follow(agree);
}

void agree_opened(struct agree *agree, uint64_t now_us)
{
    agree_wake(agree, now_us);
    begin_open(&agree->begin, now_us);
}

void agree_adopted(struct agree *agree, uint64_t epoch, uint64_t now_us)
{
    agree_wake(agree, now_us);
    if (epoch > agree->adopted) {
        agree->adopted = epoch;
        agree->renew_us = now_us; /* those that wait for it hear of it at once */
    }
    (void)follow(agree);
}

void agree_dead(struct agree *agree, uint32_t rank, uint64_t now_us)
{
    agree_wake(agree, now_us);
    if (rank < agree->config.count && rank != agree->config.self) {
        agree->members[rank].dead_us = now_us;
        (void)follow(agree);
    }
}

void agree_leave(struct agree *agree, bool leaves, uint64_t now_us)
{
    agree_wake(agree, now_us);
    if (agree->leaves != leaves) {
        agree->leaves = leaves;
        agree->renew_us = now_us; /* who leads hears of it at once */
        (void)follow(agree);
    }
}

/* Whether libraft needs the time. */
static bool ticks(const struct agree *agree)
{
    return agree_votes(agree) || agree->leads;
}

uint64_t agree_tick(struct agree *agree, uint64_t now_us)
{
    uint64_t due_us;

    agree_wake(agree, now_us);
    if (ticks(agree) && now_us >= agree->tick_us) {
        agree->tick_us = now_us + TICK_US / 2 + random_below(&agree->random, TICK_US / 2);
        agree_raft_tick(agree);
    }
    due_us = min_u64(agree_join_tick(agree), agree_forget_tick(agree));
    due_us = min_u64(due_us, agree_begin_tick(agree));
    due_us = min_u64(due_us, follow(agree));
    due_us = min_u64(due_us, renew(agree));
    if (ticks(agree)) {
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

    if (made == NULL) {
        snprintf(why, AGREE_WHY_BYTES, "no memory for the views");
        return NIGH_NO_RESOURCES;
    }
    made->config = *config;
    /* Sooner a silence takes nobody out: who has a lease may be asking all the same. */
    made->config.dead_us = max_u64(config->dead_us, AGREE_LEASE_US);
    made->now_us = made->awake_us = made->lost_us = now_us;
    made->leader = AGREE_NOBODY;
    made->log.first = 1;
    random_init(&made->random, config->seed);
    list_init(&made->later);
    agreed_init(&made->applied, config->listed);
    for (uint32_t rank = 0; rank < config->count; rank++) {
        snprintf(made->names[rank], sizeof(made->names[rank]), "%u", rank % LIMIT_NODES);
    }
    agree_conf_first(made, &made->begun);
    if (stored_bytes > 0) {
        status = agree_load(made, stored, stored_bytes, why);
    }
    if (status == NIGH_OK) {
        status = agree_begin(made, why);
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
        .seats = (uint32_t)max_u64(agree_roster(agree)->count, agree->seats_told),
        .has_lease = now_us < lease_us,
        .lease_us = lease_us,
        .leader = agree->leads ? agree->config.self : agree->leader,
        .votes = !agree->is_bare && agree_conf_counts(agree, agree->config.self),
        .bare = agree->is_bare,
        .failed = agree->failed,
        .term = agree->log.term,
        .elections = agree->elections,
        .proposed = agree->proposed,
        .granted = agree->granted,
        .hinted = agree->hinted,
        .malformed = agree->malformed,
    };
    for (uint32_t n = 0; n < agree_conf_known(agree)->count; n++) {
        const struct agree_server *server = &agree_conf_known(agree)->servers[n];

        agreed_put(&look->voters, server->rank, server->role == RAFT_VOTER);
    }
    agreed_put(&look->voters, agree->config.self, look->votes);
}

const struct agreed_roster *agree_roster(const struct agree *agree)
{
    return agree->told_roster.changes > agree->roster.changes ? &agree->told_roster
                                                              : &agree->roster;
}
