/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See agree_begin.h: what may begin, and the words by which that is found out. A node that kept
 * nothing asks for leases as every node does, and says so; a leader takes it out of those that take
 * part in Raft, and tells it when it may again: as one that never did.
 */
#include "cluster/agree_begin.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cluster/agree_internal.h"

#define LOG_MODULE "views"
#include "base/log.h"

_Static_assert(BEGIN_VOTERS == AGREE_VOTERS, "all that vote at first have a token");

/* ---- what may begin ------------------------------------------------------- */

void begin_init(struct begin *begin, uint32_t self, uint32_t listed, uint32_t voters, bool joins,
                bool was_let_in, uint64_t token)
{
    *begin = (struct begin){.self = self,
                            .listed = listed,
                            .voters = voters,
                            .joins = joins,
                            .was_let_in = was_let_in,
                            .opened_us = BEGIN_CLOSED};
    if (self < voters) {
        begin->tokens[self] = token;
    }
}

void begin_open(struct begin *begin, uint64_t now_us)
{
    begin->opened_us = now_us;
}

uint64_t begin_wait_until_us(const struct begin *begin)
{
    return clock_deadline_us(begin->opened_us, BEGIN_WAIT_US);
}

static bool are_same(const uint64_t one[BEGIN_VOTERS], const uint64_t other[BEGIN_VOTERS])
{
    return memcmp(one, other, BEGIN_VOTERS * sizeof(*one)) == 0;
}

/* Who joined was given its rank by a cluster, whatever it says. */
bool begin_hear(struct begin *begin, uint32_t rank, const struct begin_word *word)
{
    bool votes = rank < begin->voters;

    if (rank == begin->self || (votes && word->tokens[rank] == 0)) {
        return false;
    }
    agreed_put(&begin->heard, rank, true);
    if (votes && !word->is_bare && word->tokens[begin->self] == begin->tokens[begin->self]) {
        begin->is_counted = true;
        memcpy(begin->tokens, word->tokens, sizeof(begin->tokens));
        return true;
    }
    agreed_put(&begin->know, rank, !word->is_bare || rank >= begin->listed);
    if (votes && word->is_bare && !begin->is_counted) {
        begin->tokens[rank] = word->tokens[rank];
        memcpy(begin->said[rank], word->tokens, sizeof(begin->said[rank]));
    }
    return true;
}

/* All that vote at first know the same tokens: whoever of them has begun did so with these. */
static bool all_agree(const struct begin *begin)
{
    for (uint32_t rank = 0; rank < begin->voters; rank++) {
        if (begin->tokens[rank] == 0 ||
            (rank != begin->self && !are_same(begin->said[rank], begin->tokens))) {
            return false;
        }
    }
    return true;
}

/* Somebody told it who it is, and was none of the list, or one that began with it. */
static bool all_are_heard(const struct begin *begin)
{
    for (uint32_t rank = 0; rank < begin->listed; rank++) {
        if (rank != begin->self && !agreed_has(&begin->heard, rank)) {
            return false;
        }
    }
    return begin->listed > 1;
}

bool begin_is_late(const struct begin *begin)
{
    return !begin->is_counted && agreed_size(&begin->know) > 0;
}

bool begin_may(const struct begin *begin, uint64_t now_us)
{
    if (begin->was_let_in) {
        return false;
    }
    if (begin->is_counted) {
        return true;
    }
    return begin->self < begin->voters && !begin_is_late(begin) &&
           now_us >= begin_wait_until_us(begin) && all_agree(begin) &&
           (!begin->joins || all_are_heard(begin));
}

/* ---- words ---------------------------------------------------------------- */

static bool knows_cluster(const struct agree *agree)
{
    return !agree->is_bare || agree->log.was_let_in || agree->known.epoch > 0;
}

static void tell(struct agree *agree, uint32_t rank, uint8_t asks)
{
    bool knows = knows_cluster(agree);
    struct agree_head head = {.kind = AGREE_KNOWN,
                              .flags = (uint8_t)(asks | (knows ? 0 : AGREE_FLAG_BARE))};
    uint8_t bytes[sizeof(head) + sizeof(agree->log.tokens)];

    memcpy(bytes, &head, sizeof(head));
    memcpy(bytes + sizeof(head), knows ? agree->log.tokens : agree->begin.tokens,
           sizeof(agree->log.tokens));
    agree->config.send(agree->config.context, rank, bytes, sizeof(bytes));
}

static void tell_all(struct agree *agree, uint32_t below, uint8_t asks)
{
    for (uint32_t rank = 0; rank < below; rank++) {
        if (rank != agree->config.self) {
            tell(agree, rank, asks);
        }
    }
}

void agree_hear_known(struct agree *agree, uint32_t rank, const struct agree_head *head,
                      const uint8_t bytes[AGREE_KNOWN_BYTES])
{
    bool asks = (head->flags & AGREE_FLAG_ASKS) != 0, was_late = begin_is_late(&agree->begin);
    struct begin_word word = {.is_bare = (head->flags & AGREE_FLAG_BARE) != 0};

    memcpy(word.tokens, bytes, sizeof(word.tokens));
    if ((asks && rank >= agree->begin.voters) ||
        (agree_awaits_begin(agree) && !begin_hear(&agree->begin, rank, &word))) {
        agree->malformed++;
        return;
    }
    if (asks) {
        tell(agree, rank, 0);
    }
    if (agree_awaits_begin(agree) && !was_late && begin_is_late(&agree->begin)) {
        LOG_WARN("this node kept nothing of the views, and another knows of a cluster: it votes "
                 "again when those that vote have let it in anew",
                 "by=%u do=\"have most of those that vote up (nigh nodes): they let it in by "
                 "themselves\"",
                 rank);
    }
}

/* Those that know of a cluster may all be of ranks that this node has not heard of, and one of them
 * knows who leads. */
uint32_t agree_who_knows(struct agree *agree)
{
    uint32_t rank;

    do {
        rank = agree->next++ % agree->config.count;
    } while (!agreed_has(&agree->begin.know, rank));
    return rank;
}

/* ---- steps ---------------------------------------------------------------- */

/* As one that keeps nothing more. */
static void take_part(struct agree *agree, bool is_new)
{
    int error;

    agree->is_bare = false;
    agree->lost_us = agree->now_us;
    error = agree_raft_start(agree, is_new);
    if (error != 0) {
        agree->failed = true;
        LOG_ERROR("this node votes on views no more: the voting cannot begin",
                  "error=%d do=\"see to the disk of --state, and start the node again\"", error);
    }
}

/* A member that does not vote keeps no log: by this it knows in its next life what it is. */
static void keep_that_it_was_let_in(struct agree *agree)
{
    if (!agree->log.was_let_in) {
        agree->log.was_let_in = true;
        (void)agree_raft_keep(agree);
    }
}

void agree_freed(struct agree *agree)
{
    if (agree_awaits_begin(agree)) {
        keep_that_it_was_let_in(agree);
        LOG_INFO("this node, which kept nothing of the views, is let in anew", "epoch=%llu",
                 (unsigned long long)agree->known.epoch);
    }
    if (agree->is_bare) {
        take_part(agree, false);
        agree->renew_us = agree->now_us; /* who leads waits for that */
    }
}

static void begin_now(struct agree *agree)
{
    memcpy(agree->log.tokens, agree->begin.tokens, sizeof(agree->log.tokens));
    LOG_INFO("the list begins", "voters=%u", agree->begin.voters);
    take_part(agree, true);
    if (!agree->failed) {
        tell_all(agree, agree->begin.voters, 0);
    }
}

static void log_who_is_awaited(struct agree *agree)
{
    for (uint32_t rank = 0; rank < agree->begin.voters; rank++) {
        if (!agree->said_waits && !agree->begin.was_let_in && rank != agree->config.self &&
            !agreed_has(&agree->begin.heard, rank)) {
            agree->said_waits = true;
            LOG_INFO("this node kept nothing of the views: it begins when all of the list that "
                     "vote at first are there, and kept nothing either",
                     "waits_for=%u", rank);
        }
    }
}

uint64_t agree_begin_tick(struct agree *agree)
{
    uint64_t wait_us = begin_wait_until_us(&agree->begin);

    if (!agree_awaits_begin(agree)) {
        return UINT64_MAX;
    }
    if (agree->begin.is_counted || agree->known.epoch == 0) {
        if (begin_may(&agree->begin, agree->now_us)) {
            begin_now(agree);
            return agree->now_us;
        }
    }
    if (agree->now_us >= wait_us) {
        log_who_is_awaited(agree);
    }
    if (agree->now_us >= agree->known_us) {
        agree->known_us = agree->now_us + BEGIN_ASK_US;
        tell_all(agree, agree->config.count, AGREE_FLAG_ASKS);
    }
    return agree->now_us < wait_us ? min_u64(wait_us, agree->known_us) : agree->known_us;
}

/* ---- life ----------------------------------------------------------------- */

/* Its token outlives it before anybody hears of it. */
static nigh_status name_directory(struct agree *agree, char why[AGREE_WHY_BYTES])
{
    nigh_status status;

    if (agree->log.tokens[agree->config.self] != 0) {
        return NIGH_OK;
    }
    agree->log.tokens[agree->config.self] = random_u64(&agree->random) | 1;
    status = agree_store(agree);
    if (status != NIGH_OK) {
        snprintf(why, AGREE_WHY_BYTES, "the voting cannot begin: nothing can be kept");
    }
    return status;
}

nigh_status agree_begin(struct agree *agree, char why[AGREE_WHY_BYTES])
{
    const struct agree_config *config = &agree->config;
    uint32_t voters = agree_voters(config->listed);
    nigh_status status = NIGH_OK;
    int error;

    agree->is_bare = agree->log.count == 0 && agree->log.snapshot_index == 0;
    if (agree->is_bare && config->self < voters) {
        status = name_directory(agree, why);
    }
    begin_init(&agree->begin, config->self, config->listed, voters, config->joins,
               agree->log.was_let_in, config->self < voters ? agree->log.tokens[config->self] : 0);
    if (agree->is_bare) {
        return status;
    }
    error = agree_raft_start(agree, false);
    if (error != 0) {
        snprintf(why, AGREE_WHY_BYTES, "the voting cannot begin: %s", raft_strerror(error));
        status = error == RAFT_NOMEM ? NIGH_NO_RESOURCES : NIGH_DISK;
    }
    return status;
}
