/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See calls.h. A call of another node is WAITING (its channel has no place) or SENT; one of this
 * node is SERVED; one that came back and is tried again later is RESTING; one that is answered
 * while the memory that it brought is touched still is HELD. All but what was sent have their
 * deadlines here: of those the channel keeps them.
 */
#include "rpc/calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "rpc/calls_internal.h"

/* ---- create, destroy ------------------------------------------------------ */

static bool make_tables(struct calls *calls)
{
    const struct calls_config *config = &calls->config;

    calls->pending = calloc(config->calls, sizeof(*calls->pending));
    calls->owners = calloc(config->owners, sizeof(*calls->owners));
    calls->urgent_run = calloc(config->nodes, sizeof(*calls->urgent_run));
    calls->lost = calloc(config->nodes, sizeof(*calls->lost));
    calls->offers = calloc(CALLS_BUCKETS, sizeof(*calls->offers));
    calls->timer_places = calloc(config->calls, sizeof(struct timer *));
    calls->requests = calloc(config->requests, sizeof(*calls->requests));
    calls->buckets = malloc(CALLS_BUCKETS * sizeof(*calls->buckets));
    calls->copy = malloc(LIMIT_CALL_BYTES);
    return calls_shares_init(calls) && calls->pending != NULL && calls->owners != NULL &&
           calls->urgent_run != NULL && calls->lost != NULL && calls->offers != NULL &&
           calls->timer_places != NULL && calls->requests != NULL && calls->buckets != NULL &&
           calls->copy != NULL;
}

static void on_over(void *context, void *tag, uint64_t now_us);

nigh_status calls_create(const struct calls_config *config, struct calls **out)
{
    struct bulks_shell bulks = config->shell.bulks;
    struct calls *calls;

    if (config->calls == 0 || config->calls > LIMIT_CALLS || config->requests == 0 ||
        config->requests > LIMIT_CALL_REQUESTS || config->nodes == 0 || config->owners == 0 ||
        config->rank >= config->nodes || config->number >= LIMIT_LANES) {
        return NIGH_INVALID;
    }
    calls = calloc(1, sizeof(*calls));
    if (calls == NULL) {
        return NIGH_NO_RESOURCES;
    }
    calls->config = *config;
    list_init(&calls->free);
    list_init(&calls->peers);
    bulks.over = on_over;
    if (!make_tables(calls) || bulks_create(&bulks, &calls->bulks) != NIGH_OK) {
        calls_destroy(calls);
        return NIGH_NO_RESOURCES;
    }
    calls->version = 1;
    calls->tell_us = UINT64_MAX;
    timers_init(&calls->timers, calls->timer_places, config->calls);
    for (uint32_t n = 0; n < CALLS_BUCKETS; n++) {
        list_init(&calls->offers[n]);
    }
    for (uint32_t n = 0; n < config->owners; n++) {
        list_init(&calls->owners[n].calls);
    }
    for (uint32_t n = 0; n < config->calls; n++) {
        calls->pending[n].calls = calls;
        list_push_back(&calls->free, &calls->pending[n].place);
    }
    for (uint32_t n = 0; n < config->requests; n++) {
        calls->requests[n].next = n + 1 < config->requests ? n + 1 : CALLS_NONE;
    }
    memset(calls->buckets, 0xff, CALLS_BUCKETS * sizeof(*calls->buckets)); /* CALLS_NONE */
    *out = calls;
    return NIGH_OK;
}

void calls_destroy(struct calls *calls)
{
    if (calls == NULL) {
        return;
    }
    while (!list_empty(&calls->peers)) {
        calls_drop_peer(container_of(list_first(&calls->peers), struct calls_peer, place));
    }
    for (uint32_t n = 0; calls->pending != NULL && n < calls->config.calls; n++) {
        free(calls->pending[n].held);
    }
    bulks_destroy(calls->bulks);
    free(calls->pending);
    free(calls->owners);
    calls_shares_fini(calls);
    free(calls->urgent_run);
    free(calls->lost);
    free(calls->offers);
    free(calls->timer_places);
    free(calls->requests);
    free(calls->buckets);
    free(calls->copy);
    free(calls);
}

/* ---- pending -------------------------------------------------------------- */

static struct pending *take_pending(struct calls *calls, const struct calls_call *call,
                                    uint64_t now_us)
{
    struct owner *owner = &calls->owners[call->caller.owner];
    struct pending *pending;

    if (list_empty(&calls->free) || owner->count == LIMIT_CALL_PLACES) {
        return NULL;
    }
    pending = container_of(list_first(&calls->free), struct pending, place);
    list_remove(&pending->place);
    list_push_back(&owner->calls, &pending->place);
    owner->count++;
    calls->under_way_count++;
    pending->call = *call;
    pending->begun_us = now_us;
    pending->rank = call->rank;
    pending->rounds = 0;
    pending->tried = 0;
    if (call->loan != NULL) {
        bulks_set_tag(call->loan, pending);
    }
    pending->taken = false;
    return pending;
}

/* From where it waits. */
static void leave_state(struct calls *calls, struct pending *pending)
{
    if (pending->state == PENDING_WAITING) {
        calls_stop_waiting(calls, pending, false, 0);
    }
    timers_cancel(&calls->timers, &pending->timer);
    pending->state = PENDING_FREE;
}

static void give_pending(struct calls *calls, struct pending *pending)
{
    leave_state(calls, pending);
    list_remove(&pending->place);
    list_push_back(&calls->free, &pending->place);
    calls->owners[pending->call.caller.owner].count--;
    calls->under_way_count--;
}

static void say_ended(struct calls *calls, const struct calls_caller *caller,
                      const struct calls_end *end)
{
    if (!end->answered) {
        calls->counts.timed_out += end->status == NIGH_TIMEOUT ? 1 : 0;
        calls->counts.busy += end->status == NIGH_OVERLOADED ? 1 : 0;
        calls->counts.lost += end->status == NIGH_PEER_LOST ? 1 : 0;
    }
    calls->config.shell.ended(calls->config.shell.context, caller, end);
}

/* Its place is free before anybody hears of it. What it lent may be lent on. */
static void end_pending(struct calls *calls, struct pending *pending, const struct calls_end *how,
                        uint64_t now_us)
{
    struct calls_caller caller = pending->call.caller;
    struct bulks_loan *loan = pending->call.loan;
    struct calls_end end = *how;

    end.rank = pending->rank;
    pending->call.loan = NULL;
    end.taken = pending->taken;
    if (end.answered && pending->call.collect == NULL) {
        calls_note_time(end.rank == calls->config.rank ? &calls->counts.here : &calls->counts.there,
                        now_us > pending->begun_us ? now_us - pending->begun_us : 0);
    }
    give_pending(calls, pending);
    if (loan != NULL) {
        bulks_close(loan, now_us);
    }
    say_ended(calls, &caller, &end);
}

static void fail_pending(struct calls *calls, struct pending *pending, nigh_status status,
                         uint64_t now_us)
{
    pending->taken = pending->taken || pending->state == PENDING_SERVED;
    end_pending(calls, pending, &(struct calls_end){.status = status}, now_us);
}

void calls_arm(struct calls *calls, struct pending *pending, uint64_t at_us)
{
    if (at_us != UINT64_MAX) {
        NIGH_ASSERT(timers_add(&calls->timers, &pending->timer, at_us) == NIGH_OK);
    }
}

/* ---- answers that are held back ------------------------------------------- */

/* Whether its caller is not to hear of this end yet: but that it gave up itself, it hears. */
static bool is_to_be_held(const struct pending *pending, const struct calls_end *end)
{
    return pending->call.loan != NULL && bulks_is_lent(pending->call.loan) &&
           end->status != NIGH_TIMEOUT && end->status != NIGH_CANCELED;
}

/* False: no memory for it. */
static bool hold(struct calls *calls, struct pending *pending, const struct calls_end *end)
{
    struct held *held = malloc(sizeof(*held) + end->count);

    if (held == NULL) {
        return false;
    }
    held->end = *end;
    held->end.bytes = held->bytes;
    if (end->count > 0) {
        memcpy(held->bytes, end->bytes, end->count);
    }
    pending->held = held;
    pending->state = PENDING_HELD;
    calls_arm(calls, pending, pending->call.deadline_us);
    return true;
}

static void let_go(struct calls *calls, struct pending *pending, uint64_t now_us)
{
    struct held *held = pending->held;

    pending->held = NULL;
    end_pending(calls, pending, &held->end, now_us);
    free(held);
}

static void on_over(void *context, void *tag, uint64_t now_us)
{
    struct pending *pending = tag;

    (void)context;
    if (pending->state == PENDING_HELD) {
        let_go(pending->calls, pending, now_us);
    }
}

/* ---- where it goes -------------------------------------------------------- */

/* To the node that it names, or to the next that serves it. False: there is none. */
static bool aim(struct calls *calls, struct pending *pending)
{
    uint32_t rank;

    if (pending->call.rank != CALLS_ANY) {
        return true;
    }
    rank = pending->tried < LIMIT_CALL_TRIES ? calls_choose(calls, pending) : CALLS_NONE;
    if (rank == CALLS_NONE) {
        return false;
    }
    pending->those[pending->tried++] = rank;
    pending->rank = rank;
    return true;
}

static void go(struct calls *calls, struct pending *pending, uint64_t now_us)
{
    if (pending->rank == calls->config.rank) {
        calls_serve_here(calls, pending, now_us);
    } else {
        calls_send(calls, pending, now_us);
    }
}

/* Twice as long each time, and each call by a different part of it: those that one death sends back
 * do not all come again at once. */
static void rest(struct calls *calls, struct pending *pending, uint64_t now_us)
{
    uint64_t us = LIMIT_CALL_REST_US << (pending->rounds < 8 ? pending->rounds : 8);
    uint64_t mixed = hash_u64((uint64_t)pending->call.caller.cookie << 32 | pending->rounds);
    uint64_t again_us = now_us + us / 2 + mixed % us;

    pending->rounds++;
    pending->tried = 0;
    pending->state = PENDING_RESTING;
    calls_arm(calls, pending,
              again_us < pending->call.deadline_us ? again_us : pending->call.deadline_us);
}

static void go_again(struct calls *calls, struct pending *pending, uint64_t now_us)
{
    calls->counts.retried += pending->call.idempotent ? 1 : 0;
    go(calls, pending, now_us);
}

static void wake(struct calls *calls, struct pending *pending, uint64_t now_us)
{
    leave_state(calls, pending);
    if (aim(calls, pending)) {
        go_again(calls, pending, now_us);
    } else {
        rest(calls, pending, now_us); /* who served it may again */
    }
}

/* Whether it may go on at all: nothing was done, or it may be done twice. */
static bool may_go_on(const struct pending *pending, enum calls_fate fate, nigh_status status)
{
    if (fate == CALLS_LOST) {
        return pending->call.idempotent;
    }
    return fate == CALLS_REFUSED &&
           (status == NIGH_NOT_FOUND || status == NIGH_PEER_LOST || status == NIGH_OVERLOADED);
}

void calls_came_back(struct calls *calls, struct pending *pending, enum calls_fate fate,
                     const struct calls_end *end, uint64_t now_us)
{
    pending->taken = pending->taken || fate != CALLS_REFUSED;
    if (fate == CALLS_REFUSED && pending->call.loan != NULL) {
        bulks_unlend(pending->call.loan, now_us); /* nobody there has it */
    }
    if (is_to_be_held(pending, end)) {
        leave_state(calls, pending);
        if (hold(calls, pending, end)) {
            return;
        }
        end_pending(calls, pending, end, now_us);
        return;
    }
    if (!may_go_on(pending, fate, end->status)) {
        end_pending(calls, pending, end, now_us);
        return;
    }
    if (now_us >= pending->call.deadline_us) {
        /* Each node more would have a tick more to find that out. */
        end_pending(calls, pending, &(struct calls_end){.status = NIGH_TIMEOUT}, now_us);
        return;
    }
    leave_state(calls, pending);
    if (pending->call.rank == CALLS_ANY && aim(calls, pending)) {
        go_again(calls, pending, now_us);
    } else if (pending->call.idempotent && (end->status != NIGH_NOT_FOUND || pending->rounds > 0)) {
        rest(calls, pending, now_us); /* what was there and is not may come again */
    } else {
        end_pending(calls, pending, end, now_us);
    }
}

/* ---- what is asked -------------------------------------------------------- */

void calls_begin(struct calls *calls, const struct calls_call *call, uint64_t now_us)
{
    struct calls_end end = {.status = NIGH_INVALID};
    struct pending *pending;

    NIGH_ASSERT(call->caller.owner < calls->config.owners);
    NIGH_ASSERT(call->loan == NULL || (!call->idempotent && !call->one_way));
    calls->counts.begun++;
    end.rank = call->rank;
    if ((call->rank < calls->config.nodes || call->rank == CALLS_ANY) &&
        call->caller.bytes <= LIMIT_CALL_BYTES) {
        pending = take_pending(calls, call, now_us);
        if (pending != NULL && aim(calls, pending)) {
            go(calls, pending, now_us);
            return;
        }
        if (pending != NULL) {
            fail_pending(calls, pending, NIGH_NOT_FOUND, now_us);
            return;
        }
        end.status = NIGH_OVERLOADED;
    }
    if (call->loan != NULL) {
        bulks_close(call->loan, now_us);
    }
    say_ended(calls, &call->caller, &end);
}

/* Ends it as cancelled; what its service says later is for nobody. */
static void leave(struct calls *calls, struct pending *pending, uint64_t now_us)
{
    if (pending->state == PENDING_HELD) {
        let_go(calls, pending, now_us);
        return;
    }
    if (pending->state == PENDING_SERVED && pending->number != CALLS_NONE) {
        calls_drop_request(calls, (uint32_t)pending->number, now_us);
    }
    if (pending->state == PENDING_SENT) {
        /* on_done gives its place back, and tells. */
        NIGH_ASSERT(rpc_cancel(pending->channel, pending->number, now_us));
        return;
    }
    fail_pending(calls, pending, NIGH_CANCELED, now_us);
}

bool calls_cancel(struct calls *calls, uint32_t owner, uint32_t cookie, uint64_t now_us)
{
    LIST_FOREACH(node, &calls->owners[owner].calls)
    {
        struct pending *pending = container_of(node, struct pending, place);

        if (pending->call.caller.cookie == cookie) {
            leave(calls, pending, now_us);
            return true;
        }
    }
    return false;
}

void calls_forget(struct calls *calls, uint32_t owner, uint64_t now_us)
{
    struct list *own = &calls->owners[owner].calls;

    while (!list_empty(own)) {
        leave(calls, container_of(list_first(own), struct pending, place), now_us);
    }
}

/* ---- time ----------------------------------------------------------------- */

/* Its time came before its deadline: it rested, or has waited long enough for a link. */
static void go_on(struct calls *calls, struct pending *pending, uint64_t now_us)
{
    if (pending->state == PENDING_RESTING) {
        wake(calls, pending, now_us);
        return;
    }
    calls_arm(calls, pending, pending->call.deadline_us);
    if (!calls_end_in_vain(pending, now_us)) {
        (void)calls_send_waiting(calls, pending->rank, now_us);
    }
}

bool calls_tick(struct calls *calls, uint64_t now_us)
{
    uint32_t ended = 0;
    bool any = bulks_tick(calls->bulks, now_us);

    /* A channel has places again when credits came, too, which nobody tells. */
    for (uint32_t rank = 0; rank < calls->config.nodes && calls->waiting_count > 0; rank++) {
        any = calls_send_waiting(calls, rank, now_us) || any;
    }
    calls->look_us = now_us + LIMIT_CALL_SILENT_US;
    if (now_us >= calls->tell_us) {
        calls_tell(calls, now_us);
    }
    while (ended < LIMIT_TURN_TIMERS) {
        struct timer *timer = timers_pop_expired(&calls->timers, now_us);
        struct pending *pending;

        if (timer == NULL) {
            break;
        }
        pending = container_of(timer, struct pending, timer);
        if (pending->state == PENDING_SERVED) {
            calls_drop_request(calls, (uint32_t)pending->number, now_us);
        }
        if (pending->state == PENDING_HELD) {
            let_go(calls, pending, now_us);
        } else if (now_us < pending->call.deadline_us) {
            go_on(calls, pending, now_us);
        } else {
            fail_pending(calls, pending, NIGH_TIMEOUT, now_us);
        }
        ended++;
    }
    return any || ended > 0;
}

uint64_t calls_due_us(const struct calls *calls)
{
    uint64_t due_us = timers_first_deadline(&calls->timers);
    uint64_t bulks_us = bulks_due_us(calls->bulks);

    due_us = bulks_us < due_us ? bulks_us : due_us;
    if (calls->waiting_count > 0 && calls->look_us < due_us) {
        due_us = calls->look_us;
    }
    return calls->tell_us < due_us ? calls->tell_us : due_us;
}

/* ---- numbers -------------------------------------------------------------- */

void calls_note_time(struct calls_times *times, uint64_t took_us)
{
    uint32_t n = 0;

    while (n + 1 < CALLS_TIMES && took_us > UINT64_C(1) << n) {
        n++;
    }
    times->buckets[n]++;
    times->sum_us += took_us;
}

const struct calls_counts *calls_counts(const struct calls *calls)
{
    return &calls->counts;
}

uint32_t calls_under_way(const struct calls *calls)
{
    return calls->under_way_count;
}

struct bulks *calls_bulks(const struct calls *calls)
{
    return calls->bulks;
}

uint32_t calls_unanswered(const struct calls *calls)
{
    return calls->unanswered_count;
}

bool calls_is_valid(const struct calls *calls)
{
    uint32_t used = 0, answers = 0, waiting = 0, owned = 0, sent = 0;

    for (uint32_t n = 0; n < calls->config.calls; n++) {
        const struct pending *pending = &calls->pending[n];
        bool is_served = pending->state == PENDING_SERVED;

        used += pending->state != PENDING_FREE;
        waiting += pending->state == PENDING_WAITING;
        sent += pending->state == PENDING_SENT;
        if ((pending->state == PENDING_WAITING) != list_is_linked(&pending->queue) ||
            (is_served && !calls->requests[pending->number].used)) {
            return false;
        }
    }
    for (uint32_t n = 0; n < calls->config.requests; n++) {
        answers += calls->requests[n].used;
    }
    for (uint32_t n = 0; n < calls->config.owners; n++) {
        owned += calls->owners[n].count;
    }
    return used == calls->under_way_count && owned == used && waiting == calls->waiting_count &&
           answers == calls->unanswered_count && calls_shares_are_valid(calls, sent) &&
           timers_is_valid(&calls->timers) && bulks_is_valid(calls->bulks);
}
