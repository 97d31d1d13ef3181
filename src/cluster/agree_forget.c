/* SPDX-License-Identifier: Apache-2.0 */
/* See agree_internal.h. Seats are struck off: a member asks the leader for it, again and again, and
 * the leader has it decided once nobody lives there. To ask twice is to hear the same. */
#include <string.h>

#include "base/clock.h"
#include "cluster/agree_internal.h"

#define LOG_MODULE "views"
#include "base/log.h"

/* ---- who asks ------------------------------------------------------------- */

nigh_status agree_forget(struct agree *agree, uint32_t rank, uint64_t now_us)
{
    struct agree_forget *place = NULL;

    agree_wake(agree, now_us);
    for (uint32_t n = 0; n < AGREE_FORGETS; n++) {
        struct agree_forget *forget = &agree->forgets[n];

        if (forget->nonce != 0 && forget->rank == rank) {
            return NIGH_OK;
        }
        place = forget->nonce == 0 ? forget : place;
    }
    if (place == NULL) {
        return NIGH_NO_RESOURCES;
    }
    *place = (struct agree_forget){.nonce = random_u64(&agree->random) | 1,
                                   .rank = rank,
                                   .due_us = now_us,
                                   .until_us = clock_deadline_us(now_us, AGREE_FORGET_US)};
    return NIGH_OK;
}

static void end(struct agree *agree, struct agree_forget *forget, nigh_status status)
{
    uint32_t rank = forget->rank;

    forget->nonce = 0;
    agree->config.forgot(agree->config.context, rank, status);
}

static void ask_for(struct agree *agree, const struct agree_forget *forget)
{
    struct agree_head head = {.kind = AGREE_FORGET, .numbers = {forget->nonce, forget->rank}};
    uint32_t rank;

    if (agree->leads) {
        agree_hear_forget(agree, agree->config.self, &head);
        return;
    }
    rank = agree_whom(agree);
    if (rank != AGREE_NOBODY) {
        agree->config.send(agree->config.context, rank, &head, sizeof(head));
    }
}

uint64_t agree_forget_tick(struct agree *agree)
{
    uint64_t due_us = UINT64_MAX;

    for (uint32_t n = 0; n < AGREE_FORGETS; n++) {
        struct agree_forget *forget = &agree->forgets[n];

        if (forget->nonce != 0 && agree->now_us >= forget->until_us) {
            end(agree, forget, NIGH_TIMEOUT);
        }
        if (forget->nonce == 0) {
            continue;
        }
        if (agree->now_us >= forget->due_us) {
            forget->due_us = agree->now_us + AGREE_RENEW_US;
            ask_for(agree, forget);
        }
        due_us = min_u64(due_us, min_u64(forget->due_us, forget->until_us));
    }
    return due_us;
}

static void answered(struct agree *agree, uint64_t nonce, nigh_status status)
{
    for (uint32_t n = 0; nonce != 0 && n < AGREE_FORGETS; n++) {
        if (agree->forgets[n].nonce == nonce) {
            end(agree, &agree->forgets[n], status);
        }
    }
}

void agree_hear_forgot(struct agree *agree, uint32_t from, const struct agree_head *head)
{
    nigh_status status = (nigh_status)(-(int64_t)min_u64(head->numbers[1], INT32_MAX));

    if (!agree_may_lead(agree, from) || (status != NIGH_OK && status != NIGH_NOT_FOUND &&
                                         status != NIGH_BUSY && status != NIGH_UNSUPPORTED)) {
        agree->malformed++;
        return;
    }
    answered(agree, head->numbers[0], status);
}

/* ---- the leader ----------------------------------------------------------- */

void agree_hear_forget(struct agree *agree, uint32_t rank, const struct agree_head *head)
{
    struct agree_forgetter *place = NULL;

    if (!agree->leads || (rank != agree->config.self && !agree_is_member(agree, rank))) {
        return; /* it asks again, and somebody else */
    }
    for (uint32_t n = 0; n < AGREE_FORGETTERS; n++) {
        struct agree_forgetter *forgetter = &agree->forgetters[n];

        if (forgetter->nonce == head->numbers[0] && forgetter->from == rank) {
            forgetter->asked_us = agree->now_us;
            return;
        }
        place = forgetter->nonce == 0 ? forgetter : place;
    }
    if (place != NULL) {
        *place = (struct agree_forgetter){.nonce = head->numbers[0],
                                          .from = rank,
                                          .rank = head->numbers[1],
                                          .asked_us = agree->now_us};
    }
}

static void answer(struct agree *agree, struct agree_forgetter *forgetter, nigh_status status)
{
    struct agree_head head = {.kind = AGREE_FORGOT,
                              .numbers = {forgetter->nonce, (uint64_t)(-(int64_t)status)}};
    uint32_t from = forgetter->from;

    forgetter->nonce = 0;
    if (from == agree->config.self) {
        answered(agree, head.numbers[0], status);
    } else {
        agree->config.send(agree->config.context, from, &head, sizeof(head));
    }
}

/* NIGH_PENDING: it has to be waited, until its leases are over, or the view is without it, or those
 * that vote are. */
static nigh_status judge(struct agree *agree, uint64_t rank)
{
    struct agree_member *member;

    if (rank < agree->config.listed) {
        return NIGH_UNSUPPORTED;
    }
    if (rank >= agree_ranks(agree)) {
        return NIGH_NOT_FOUND;
    }
    if (agreed_is_struck(&agree->roster, agree->config.listed, (uint32_t)rank)) {
        return NIGH_OK;
    }
    if (rank == agree->config.self) {
        return NIGH_BUSY;
    }
    member = &agree->members[rank];
    if (agree_asks(agree, (uint32_t)rank)) {
        return NIGH_BUSY;
    }
    if (agree_conf_role(&agree->own, (uint32_t)rank) != AGREE_NO_ROLE) {
        member->is_gone = true; /* it is taken out, if the rest decides without it */
    }
    return NIGH_PENDING;
}

/* Nobody has granted it a lease that lasts, neither we nor who led before, and no view has it. */
static bool may_go(const struct agree *agree, uint32_t rank)
{
    const struct agree_member *member = &agree->members[rank];

    return agree->now_us - max_u64(member->heard_us, member->granted_us) >= AGREE_LEASE_US &&
           agree->now_us - agree->leads_us >= AGREE_GRACE_US && !agree->apply_pending &&
           agree_conf_role(&agree->own, rank) == AGREE_NO_ROLE &&
           agree->raft.configuration_uncommitted_index == 0 &&
           !agreed_has(&agree->applied.in, rank) && !agreed_has(&agree->applied.wary, rank);
}

bool agree_strike(struct agree *agree, uint64_t *due_us)
{
    for (uint32_t n = 0; n < AGREE_FORGETTERS; n++) {
        struct agree_forgetter *forgetter = &agree->forgetters[n];
        struct agreed_command command = {.kind = AGREED_FORGET, .epoch = forgetter->rank};
        nigh_status status;

        if (forgetter->nonce == 0) {
            continue;
        }
        status = judge(agree, forgetter->rank);
        if (status != NIGH_PENDING) {
            answer(agree, forgetter, status);
        } else if (agree->now_us - forgetter->asked_us >= AGREE_STALE_US) {
            forgetter->nonce = 0;
        } else if (may_go(agree, (uint32_t)forgetter->rank)) {
            memcpy(command.address, agree->roster.addresses[forgetter->rank - agree->config.listed],
                   sizeof(command.address));
            return agree_raft_propose(agree, &command);
        } else {
            *due_us = min_u64(*due_us, agree->now_us + AGREE_RENEW_US / 10);
        }
    }
    return false;
}

void agree_struck(struct agree *agree, uint32_t rank)
{
    agree->members[rank] = (struct agree_member){0};
    LOG_INFO("a seat is struck off: its rank is nobody's for ever", "rank=%u", rank);
}
