/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A home that is asked to delete what it does not know hears everybody before it says so: news of a
 * put that has ended may be under way to it, which the delete has overtaken. It asks each member
 * once, for all such deletes; who has told everything that was news when the question came says so.
 * Deletes that come meanwhile wait for the next hearing.
 */
#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "object/exchange_announce.h"
#include "object/exchange_erase.h"
#include "object/exchange_figures.h"
#include "object/exchange_hear.h"
#include "object/exchange_home.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_view.h"
#include "object/exchange_wire.h"

void hearing_init(struct hearing *hearing)
{
    list_init(&hearing->now);
    list_init(&hearing->next);
}

/* ---- as a home ------------------------------------------------------------ */

static void on_heard(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                     uint64_t now_us)
{
    struct hearing *hearing = context;

    (void)payload;
    (void)bytes;
    (void)now_us;
    /* A link that ended took its news with it: whether it is back is looked at in the end. Who does
     * not know the question is taken at what it has said. */
    hearing->is_unsure = hearing->is_unsure || status == NIGH_BUSY || status == NIGH_TIMEOUT;
    hearing->awaited--;
}

/* Nothing is under way that a walk, and not the queue, has to tell. */
static bool is_told_in_order(const struct announcer *announcer)
{
    return !announcer->repeat && !announcer->walk_again &&
           (!announcer->walking || announcer->again);
}

static void begin(struct exchange *exchange, uint64_t now_us)
{
    struct hearing *hearing = &exchange->hearing;

    list_append_all(&hearing->now, &hearing->next);
    hearing->is_unsure = !is_told_in_order(&exchange->own);
    hearing->own_mark = exchange->own.told + exchange->own.count;
    LIST_FOREACH(up, &exchange->live)
    {
        struct exchange_link *link = container_of(up, struct exchange_link, place);
        nigh_status status = NIGH_BUSY;

        if (link->in_view) {
            status = rpc_call(link_rpc(link->link), WIRE_HEAR, NULL, 0,
                              clock_deadline_us(now_us, EXCHANGE_CALL_US), now_us, on_heard,
                              hearing, NULL);
        }

        hearing->is_unsure = hearing->is_unsure || status != NIGH_OK;
        hearing->awaited += status == NIGH_OK ? 1 : 0;
    }
}

/* Nobody who may hold a key, or have held it when its link ended, is away. Who is back has yet to
 * tell all that it holds, which the directory knows. */
static bool is_nobody_away(struct exchange *exchange, const struct directory_key *key)
{
    uint64_t hash = hash_id20(key->id);

    for (uint32_t rank = 0; rank < exchange->config.members->count; rank++) {
        if (rank != exchange_self(exchange) &&
            !directory_member_is_dead(exchange->directory, rank) &&
            exchange_link_to(exchange, rank, hash) == NULL) {
            return false;
        }
    }
    return true;
}

/* Who asked has given up by now, or its link ended: whatever is put since is not what it meant. */
static bool is_given_up(const struct exchange *exchange, uint64_t ticket)
{
    const struct asked_delete *asked;

    if ((ticket & EXCHANGE_TICKET_PEER) == 0) {
        return false; /* this node's own: its end takes it out of the hearing */
    }
    asked = &exchange->asked[ticket & ~EXCHANGE_TICKET_PEER];
    return !rpc_is_awaited(link_rpc(asked->link->link), asked->call);
}

/* Everybody was heard: what is not known now is nowhere. Who asked may have got a copy meanwhile,
 * and is told to drop it like the others. */
static void end(struct exchange *exchange, uint64_t now_us)
{
    struct hearing *hearing = &exchange->hearing;
    struct list_node *node;

    while ((node = list_pop_front(&hearing->now)) != NULL) {
        struct unheard *unheard = container_of(node, struct unheard, place);
        nigh_status status = NIGH_CANCELED;

        if (exchange->outside.used) {
            erase_heard(exchange, unheard->ticket,
                        hearing->is_unsure || !is_nobody_away(exchange, &unheard->key), now_us);
            continue;
        }
        if (!exchange->views.quorum ||
            views_home(exchange, directory_key_hash(&unheard->key)) != exchange_self(exchange)) {
            status = NIGH_BUSY; /* another home is to be asked */
        } else if (!is_given_up(exchange, unheard->ticket)) {
            status = directory_delete(exchange->directory, UINT32_MAX, &unheard->key,
                                      unheard->ticket, now_us);
        }
        if (status == NIGH_NOT_FOUND &&
            (hearing->is_unsure || !is_nobody_away(exchange, &unheard->key))) {
            status = NIGH_BUSY; /* it asks again */
        }
        if (status != NIGH_PENDING) {
            erase_deleted(exchange, unheard->ticket, status);
        }
    }
}

static bool is_over(const struct exchange *exchange)
{
    const struct hearing *hearing = &exchange->hearing;

    return hearing->awaited == 0 && exchange->own.told >= hearing->own_mark;
}

bool hear_turn(struct exchange *exchange, uint64_t now_us)
{
    struct hearing *hearing = &exchange->hearing;
    bool worked = false;

    if (!list_empty(&hearing->now) && is_over(exchange)) {
        end(exchange, now_us);
        worked = true;
    }
    if (list_empty(&hearing->now) && hearing->awaited == 0 && !list_empty(&hearing->next)) {
        begin(exchange, now_us);
        worked = true;
    }
    return worked;
}

uint64_t hear_due_us(const struct exchange *exchange)
{
    const struct hearing *hearing = &exchange->hearing;
    bool due = list_empty(&hearing->now) ? hearing->awaited == 0 && !list_empty(&hearing->next)
                                         : is_over(exchange);

    return due ? 0 : UINT64_MAX;
}

nigh_status hear_delete(struct exchange *exchange, struct unheard *unheard,
                        const struct wire_delete *said, uint32_t asker, uint64_t ticket,
                        uint64_t now_us)
{
    nigh_status status = directory_delete(exchange->directory, said->gone != 0 ? asker : UINT32_MAX,
                                          &said->key, ticket, now_us);

    if (status != NIGH_NOT_FOUND || said->had != 0) {
        return status;
    }
    *unheard = (struct unheard){.key = said->key, .ticket = ticket};
    list_push_back(&exchange->hearing.next, &unheard->place);
    return NIGH_PENDING;
}

bool hear_forget(struct unheard *unheard)
{
    bool waited = list_is_linked(&unheard->place);

    if (waited) {
        list_remove(&unheard->place);
    }
    return waited;
}

/* ---- as a member ---------------------------------------------------------- */

/* What tells those who ask over this link: a directory outside is told by the lane's own. */
static const struct announcer *teller_of(const struct exchange_link *link)
{
    return link->exchange->outside.used ? &link->exchange->own : &link->announcer;
}

void hear_answer(struct exchange_link *link)
{
    if (link->hear_call != 0 && teller_of(link)->told >= link->hear_mark) {
        rpc_reply(link_rpc(link->link), link->hear_call, NIGH_OK, NULL, 0);
        link->hear_call = 0;
    }
}

void hear_on_request(struct exchange_link *link, const struct rpc_request *request)
{
    const struct announcer *announcer = teller_of(link);

    if (request->call == 0) {
        return;
    }
    if (request->bytes != 0) {
        rpc_reply(link_rpc(link->link), request->call, NIGH_PROTOCOL, NULL, 0);
        return;
    }
    if (link->hear_call != 0) { /* the home gave that up: it asks one thing at a time */
        rpc_reply(link_rpc(link->link), link->hear_call, NIGH_BUSY, NULL, 0);
        link->hear_call = 0;
    }
    if (!link->in_view || !is_told_in_order(announcer)) {
        rpc_reply(link_rpc(link->link), request->call, NIGH_BUSY, NULL, 0);
        return;
    }
    link->hear_call = request->call;
    link->hear_mark = announcer->told + announcer->count;
    hear_answer(link);
}
