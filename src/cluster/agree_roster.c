/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See agree_internal.h. What members are called: who wants a name asks the leader, again and again,
 * until its roster says that it has it, or that another does. And how who does not vote hears who
 * there is: with each ASK it says which roster it has, and is told where the leader's is another.
 */
#include <string.h>

#include "cluster/agree_internal.h"

#define LOG_MODULE "views"
#include "base/log.h"

/* ---- names ---------------------------------------------------------------- */

/* Whether this node should ask for its name. A name that another has is the other's. */
static bool wants_name(const struct agree *agree)
{
    const char *name = agree->config.name;

    return strcmp(agree_roster(agree)->names[agree->config.self], name) != 0 &&
           agreed_rank_of(agree_roster(agree), name) == LIMIT_NODES;
}

void agree_ask_name(struct agree *agree, uint32_t rank)
{
    struct agree_head head = {.kind = AGREE_NAME};
    uint8_t bytes[sizeof(head) + AGREED_NAME_BYTES];

    if (!wants_name(agree)) {
        return;
    }
    memcpy(bytes, &head, sizeof(head));
    memcpy(bytes + sizeof(head), agree->config.name, AGREED_NAME_BYTES);
    agree->config.send(agree->config.context, rank, bytes, sizeof(bytes));
}

void agree_hear_name(struct agree *agree, uint32_t rank, const char name[AGREED_NAME_BYTES])
{
    struct agree_member *member = &agree->members[rank];

    if (name[0] != '\0' && !agreed_is_name(name)) {
        agree->malformed++;
    } else if (agree->leads && agree_is_member(agree, rank)) {
        member->wants_name = true;
        memset(member->name, 0, sizeof(member->name));
        memcpy(member->name, name, strnlen(name, sizeof(member->name)));
    }
}

/* The leader's own wish is as others' are. */
static void wish(struct agree *agree)
{
    if (wants_name(agree)) {
        agree_hear_name(agree, agree->config.self, agree->config.name);
    }
}

bool agree_name(struct agree *agree)
{
    wish(agree);
    for (uint32_t rank = 0; !agree->apply_pending && rank < agree_ranks(agree); rank++) {
        struct agree_member *member = &agree->members[rank];
        struct agreed_command command = {.kind = AGREED_NAME, .epoch = rank};

        if (!member->wants_name || !agree_is_member(agree, rank)) {
            continue;
        }
        member->wants_name = false; /* it asks again */
        memcpy(command.address, member->name, sizeof(member->name));
        if (strcmp(agree->roster.names[rank], member->name) != 0 &&
            agreed_rank_of(&agree->roster, member->name) == LIMIT_NODES) {
            return agree_raft_propose(agree, &command);
        }
    }
    return false;
}

/* ---- who there is --------------------------------------------------------- */

void agree_tell_roster(struct agree *agree, uint32_t rank)
{
    struct agree_head head = {.kind = AGREE_ROSTER};
    uint8_t bytes[sizeof(head) + AGREED_ROSTER_BYTES];

    memcpy(bytes, &head, sizeof(head));
    agreed_roster_write(&agree->roster, bytes + sizeof(head));
    agree->config.send(agree->config.context, rank, bytes,
                       (uint32_t)(sizeof(head) + agreed_roster_bytes(&agree->roster)));
}

void agree_hear_roster(struct agree *agree, uint32_t from, const uint8_t *bytes, size_t count)
{
    struct agreed_roster roster;

    if (!agree_may_lead(agree, from) ||
        !agreed_roster_read(bytes, count, agree->config.listed,
                            agree->config.count - agree->config.listed, &roster) ||
        (roster.changes > agree_roster(agree)->changes &&
         !agree_continues(agree_roster(agree), &roster))) {
        agree->malformed++;
    } else if (roster.changes > agree_roster(agree)->changes) {
        agree->told_roster = roster;
    }
}
