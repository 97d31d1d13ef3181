/* SPDX-License-Identifier: Apache-2.0 */
/* See agree_internal.h. Who joins: a member asks the leader for a seat, again and again, and the
 * leader has it decided whose the next one is. To ask twice is to hear the same. */
#include <string.h>

#include "base/clock.h"
#include "cluster/agree_internal.h"

#define LOG_MODULE "views"
#include "base/log.h"

static uint32_t most_seats(const struct agree *agree)
{
    return agree->config.count - agree->config.listed;
}

/* ---- who asks ------------------------------------------------------------- */

nigh_status agree_join(struct agree *agree, const char *address, uint64_t now_us)
{
    struct agree_join *free_join = NULL;

    agree_wake(agree, now_us);
    for (uint32_t n = 0; n < AGREE_JOINS; n++) {
        struct agree_join *join = &agree->joins[n];

        if (join->nonce != 0 && strcmp(join->address, address) == 0) {
            return NIGH_OK;
        }
        free_join = join->nonce == 0 ? join : free_join;
    }
    if (free_join == NULL || strlen(address) >= sizeof(free_join->address)) {
        return free_join == NULL ? NIGH_NO_RESOURCES : NIGH_INVALID;
    }
    *free_join = (struct agree_join){.nonce = random_u64(&agree->random) | 1,
                                     .due_us = now_us,
                                     .until_us = clock_deadline_us(now_us, AGREE_JOIN_US)};
    memcpy(free_join->address, address, strlen(address));
    return NIGH_OK;
}

static void end(struct agree *agree, struct agree_join *join, nigh_status status, uint32_t rank,
                const struct agreed_roster *roster)
{
    struct agree_join ended = *join;

    join->nonce = 0;
    agree->config.seated(agree->config.context, ended.address, status, rank, roster);
}

static void ask_for(struct agree *agree, const struct agree_join *join)
{
    struct agree_head head = {.kind = AGREE_JOIN, .numbers = {join->nonce}};
    uint8_t bytes[sizeof(head) + AGREED_ADDRESS_BYTES];
    uint32_t rank;

    if (agree->leads) {
        agree_hear_join(agree, agree->config.self, &head, join->address);
        return;
    }
    rank = agree_whom(agree);
    if (rank != AGREE_NOBODY) {
        memcpy(bytes, &head, sizeof(head));
        memcpy(bytes + sizeof(head), join->address, AGREED_ADDRESS_BYTES);
        agree->config.send(agree->config.context, rank, bytes, sizeof(bytes));
    }
}

uint64_t agree_join_tick(struct agree *agree)
{
    uint64_t due_us = UINT64_MAX;

    for (uint32_t n = 0; n < AGREE_JOINS; n++) {
        struct agree_join *join = &agree->joins[n];

        if (join->nonce != 0 && agree->now_us >= join->until_us) {
            end(agree, join, NIGH_NO_QUORUM, AGREE_NOBODY, &agree->roster);
        }
        if (join->nonce == 0) {
            continue;
        }
        if (agree->now_us >= join->due_us) {
            join->due_us = agree->now_us + AGREE_RENEW_US;
            ask_for(agree, join);
        }
        due_us = min_u64(due_us, min_u64(join->due_us, join->until_us));
    }
    return due_us;
}

static void answered(struct agree *agree, uint64_t nonce, nigh_status status, uint64_t rank,
                     const struct agreed_roster *roster)
{
    for (uint32_t n = 0; nonce != 0 && n < AGREE_JOINS; n++) {
        if (agree->joins[n].nonce == nonce) {
            end(agree, &agree->joins[n], status, (uint32_t)rank, roster);
        }
    }
}

void agree_hear_seated(struct agree *agree, uint32_t from, const struct agree_head *head,
                       const uint8_t *bytes, size_t count)
{
    bool is_seated = head->numbers[2] == 0;
    struct agreed_roster roster;

    if (!agree_may_lead(agree, from) ||
        !agreed_roster_read(bytes, count, agree->config.listed, most_seats(agree), &roster) ||
        !agree_is_near(roster.changes, agree_roster(agree)->changes) ||
        (is_seated &&
         (head->numbers[1] < agree->config.listed ||
          head->numbers[1] >= agree->config.listed + roster.count ||
          agreed_is_struck(&roster, agree->config.listed, (uint32_t)head->numbers[1])))) {
        agree->malformed++;
        return;
    }
    answered(agree, head->numbers[0], is_seated ? NIGH_OK : NIGH_NO_RESOURCES, head->numbers[1],
             &roster);
}

/* ---- the leader ----------------------------------------------------------- */

void agree_hear_join(struct agree *agree, uint32_t rank, const struct agree_head *head,
                     const char address[AGREED_ADDRESS_BYTES])
{
    struct agree_joiner *place = NULL;

    if (!agree->leads) {
        return; /* it asks again, and somebody else */
    }
    for (uint32_t n = 0; n < AGREE_JOINERS; n++) {
        struct agree_joiner *joiner = &agree->joiners[n];

        if (joiner->nonce == head->numbers[0] && joiner->rank == rank) {
            joiner->asked_us = agree->now_us;
            return;
        }
        place = joiner->nonce == 0 ? joiner : place;
    }
    if (place != NULL) {
        *place = (struct agree_joiner){
            .nonce = head->numbers[0], .rank = rank, .asked_us = agree->now_us};
        memcpy(place->address, address, AGREED_ADDRESS_BYTES);
    }
}

static void answer(struct agree *agree, struct agree_joiner *joiner, bool is_seated, uint32_t seat)
{
    struct agree_head head = {
        .kind = AGREE_SEATED,
        .numbers = {joiner->nonce, agree->config.listed + seat, is_seated ? 0 : 1}};
    uint8_t bytes[sizeof(head) + AGREED_ROSTER_BYTES];
    uint64_t nonce = joiner->nonce;

    joiner->nonce = 0;
    if (joiner->rank == agree->config.self) {
        answered(agree, nonce, is_seated ? NIGH_OK : NIGH_NO_RESOURCES, head.numbers[1],
                 &agree->roster);
        return;
    }
    memcpy(bytes, &head, sizeof(head));
    agreed_roster_write(&agree->roster, bytes + sizeof(head));
    agree->config.send(agree->config.context, joiner->rank, bytes,
                       (uint32_t)(sizeof(head) + agreed_roster_bytes(&agree->roster)));
}

/* Who asks for a seat that is its own comes without what it kept, so without what it said as a
 * voter: it gets its rank once it takes no part in Raft any more. While the one that has the seat
 * asks for its leases the address is another's by mistake, or was that one's a moment ago. */
static bool has_no_part(struct agree *agree, uint32_t rank)
{
    bool has_none = agree_conf_role(&agree->own, rank) == AGREE_NO_ROLE &&
                    agree->raft.configuration_uncommitted_index == 0;

    agree->members[rank].is_gone = !has_none && !agree_asks(agree, rank);
    return has_none;
}

bool agree_seat(struct agree *agree)
{
    for (uint32_t n = 0; n < AGREE_JOINERS; n++) {
        struct agree_joiner *joiner = &agree->joiners[n];
        struct agreed_command command = {.kind = AGREED_SEAT, .epoch = agree->roster.count};
        uint32_t seat;

        if (joiner->nonce != 0 && agree->now_us - joiner->asked_us >= AGREE_STALE_US) {
            joiner->nonce = 0;
        }
        if (joiner->nonce == 0) {
            continue;
        }
        joiner->address[AGREED_ADDRESS_BYTES - 1] = '\0';
        seat = agreed_seat_of(&agree->roster, joiner->address);
        memcpy(command.address, joiner->address, sizeof(command.address));
        if (seat != AGREED_SEATS) {
            uint32_t rank = agree->config.listed + seat;

            if (!agree_is_going(agree, rank) && has_no_part(agree, rank)) {
                answer(agree, joiner, true, seat); /* else it waits, and may get another */
                agree->members[rank].granted_us = agree->now_us; /* it has time to ask */
            }
        } else if (agree->roster.count >= most_seats(agree)) {
            answer(agree, joiner, false, 0);
        } else if (!agreed_is_address(command.address)) {
            joiner->nonce = 0;
            agree->malformed++;
        } else if (!agree->apply_pending) {
            return agree_raft_propose(agree, &command);
        }
    }
    return false;
}
