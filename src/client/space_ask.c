/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for the lane that carries out what a thread's window says: it spins a little, then sleeps
 * on the window's word. A node that dies wakes nobody there: who sleeps looks now and then. Of an
 * embedded node the lane is driven by who waits, instead.
 */
#include "client/space.h"

#include <unistd.h>

#include "base/clock.h"
#include "client/error.h"
#include "client/socket.h"

#define TURNS_A_LOOK  64 /* turns of the spin between looks at the clock */
#define TURNS_A_CLOCK 8  /* the same where a turn drives the lane */
#define WINDOWS_LANE  0  /* that carries out what all windows say */

/* ---- waiting -------------------------------------------------------------- */

/* A guest that drives an embedded node's lane looks itself, as ring_bells has it. */
void window_ring(nigh_client *client, const struct client_window *window)
{
    const _Atomic uint32_t *asleep = &client->node_page->lane[WINDOWS_LANE].asleep;
    const uint64_t one = 1;

    if (!space_producer_must_ring(asleep) ||
        (client->driver != NULL && shared_load_relaxed(asleep) == SESSION_ASLEEP_HAS_GUEST)) {
        return;
    }
    /* Who comes back to a node closes the doorbell under the lock. */
    client_lock(client);
    if (window->connection == atomic_load_explicit(&client->connections, memory_order_relaxed)) {
        (void)!write(client->lane[WINDOWS_LANE].doorbell, &one, sizeof(one));
    }
    client_unlock(client);
}

static void sleep_once(struct client_window *window, window_until *until, uint64_t number,
                       uint64_t limit_us)
{
    uint32_t news = space_producer_begin_sleep(&window->producer);

    if (!until(window, number)) {
        (void)space_producer_sleep(&window->producer, news, min_u64(limit_us, LIMIT_SPACE_LOOK_US));
    }
    space_producer_end_sleep(&window->producer);
}

/* The node's death, and its last words, are in the socket. */
static void look_at_socket(nigh_client *client)
{
    client_lock(client);
    socket_take_in_now_and_then(client);
    client_unlock(client);
}

/* Does the work of an embedded node's lane. `stays`: it comes again at once; else the lane's thread
 * is to have it, also where another guest is at it now, which may have looked already. */
static void drive(nigh_client *client, const struct client_window *window, uint64_t now_us,
                  bool stays)
{
    const struct session_driver *driver = client->driver;

    if (driver != NULL && !driver->drive(driver->context, WINDOWS_LANE, now_us, stays) && !stays) {
        window_ring(client, window);
    }
}

/* A turn of the spin. False: the clock is to be looked at. */
static bool spin(nigh_client *client, const struct client_window *window, uint32_t turn,
                 uint64_t now_us)
{
    if (turn % (client->driver != NULL ? TURNS_A_CLOCK : TURNS_A_LOOK) == 0) {
        return false;
    }
    if (client->driver != NULL) {
        drive(client, window, now_us, true);
    } else {
        client_relax();
    }
    return true;
}

nigh_status window_wait(nigh_space *space, struct client_window *window, window_until *until,
                        uint64_t number, uint64_t deadline_us)
{
    nigh_client *client = space->client;
    uint64_t spin_end_us = 0;
    uint64_t now_us = 0;

    if (client->driver == NULL) {
        window_ring(client, window);
    }
    for (uint32_t turn = 0; !until(window, number); turn++) {
        if (now_us < spin_end_us && spin(client, window, turn, now_us)) {
            continue;
        }
        if (!space_is_good(space)) {
            nigh_status status = space_check_slow(space, "a space");

            if (status != NIGH_OK) {
                return status;
            }
        }
        now_us = clock_now_us(&clock_monotonic);
        if (now_us >= deadline_us) {
            return error_note(client, NIGH_TIMEOUT);
        }
        if (spin_end_us == 0) {
            spin_end_us = now_us + client->spin_us;
        }
        drive(client, window, now_us, now_us < spin_end_us);
        if (now_us >= spin_end_us) {
            sleep_once(window, until, number, deadline_us - now_us);
            look_at_socket(client);
        }
    }
    return NIGH_OK;
}

static bool has_moved(const struct client_window *window, uint64_t number)
{
    return shared_load_acquire(&window->producer.window->head.value) != number;
}

nigh_status window_wait_room(nigh_space *space, struct client_window *window, uint64_t deadline_us)
{
    nigh_status status = window_wait(space, window, has_moved, window->producer.head, deadline_us);

    if (status != NIGH_OK) {
        return status;
    }
    return space_producer_look(&window->producer) ? NIGH_OK
                                                  : error_note(space->client, NIGH_PROTOCOL);
}

static bool is_at(const struct client_window *window, uint64_t number)
{
    return shared_load_acquire(&window->producer.window->head.value) == number;
}

nigh_status window_wait_empty(nigh_space *space, struct client_window *window, uint64_t deadline_us)
{
    return space_producer_is_empty(&window->producer)
               ? NIGH_OK
               : window_wait(space, window, is_at, window->producer.tail, deadline_us);
}

/* ---- saying, asking ------------------------------------------------------- */

nigh_status window_say(nigh_space *space, struct client_window *window, enum space_record_kind kind,
                       uint64_t address, uint64_t deadline_us)
{
    while (!space_producer_say(&window->producer, kind, &space->mapped, address)) {
        nigh_status status = window_wait_room(space, window, deadline_us);

        if (status != NIGH_OK) {
            return status;
        }
    }
    window_ring(space->client, window);
    return NIGH_OK;
}

static bool is_answered(const struct client_window *window, uint64_t number)
{
    (void)number;
    return space_producer_is_answered(&window->producer);
}

static uint64_t left_us(uint64_t deadline_us)
{
    uint64_t now_us;

    if (deadline_us == UINT64_MAX) {
        return UINT64_MAX;
    }
    now_us = clock_now_us(&clock_monotonic);
    return deadline_us > now_us ? deadline_us - now_us : 0;
}

static nigh_status put_question(nigh_space *space, struct client_window *window,
                                const struct space_question *question, uint64_t deadline_us)
{
    for (;;) {
        uint64_t timeout_us = left_us(deadline_us);
        nigh_status status;

        if (timeout_us == 0) {
            return error_note(space->client, NIGH_TIMEOUT);
        }
        if (space_producer_ask(&window->producer, question->kind, &space->mapped, question->address,
                               question->length, question->operands, timeout_us)) {
            break;
        }
        status = window_wait_room(space, window, deadline_us);
        if (status != NIGH_OK) {
            return status;
        }
    }
    window->asks = true;
    window->asked = question->kind;
    window->asked_of =
        (struct space_hold){.block = space_block_of(&space->mapped.cache, question->address),
                            .space = space->mapped.number};
    return NIGH_OK;
}

/* What the lane may say. */
static nigh_status known(nigh_status status)
{
    return status <= NIGH_OK && status >= NIGH_STATUS_LOWEST && status != NIGH_PENDING
               ? status
               : NIGH_PROTOCOL;
}

static nigh_status take_answer(struct client_window *window, uint64_t *value, void *bytes,
                               uint32_t length)
{
    uint64_t said;
    nigh_status status = known(space_producer_answer(&window->producer, &said, bytes, length));

    window->asks = false;
    if (status == NIGH_OK && value != NULL) {
        *value = said;
    }
    return status;
}

nigh_status window_ask(nigh_space *space, struct client_window *window,
                       const struct space_question *question, uint64_t deadline_us, uint64_t *value,
                       void *bytes)
{
    nigh_status status = window_settle(space, window, deadline_us);

    if (status == NIGH_OK) {
        status = put_question(space, window, question, deadline_us);
    }
    if (status == NIGH_OK) {
        /* The lane ends it in time; only one that does not answer at all is given up here. */
        status = window_wait(space, window, is_answered, 0,
                             clock_deadline_us(deadline_us, LIMIT_NODE_GRACE_US));
    }
    if (status != NIGH_OK) {
        return status;
    }
    status = take_answer(window, value, bytes, bytes != NULL ? question->length : 0);
    return likely(status == NIGH_OK)
               ? status
               : space_say_refused(space->client, question->kind, question->address, status);
}

/* A lock that came too late is let go, and memory freed. */
static nigh_status undo(nigh_space *space, struct client_window *window, uint64_t value,
                        uint64_t deadline_us)
{
    struct space_hold of = window->asked_of;
    nigh_space named = {.client = space->client, .connection = space->connection};
    struct space_question freed = {.kind = SPACE_RECORD_FREE, .address = value};

    named.mapped.number = of.space;
    switch (window->asked) {
    case SPACE_RECORD_LOCK_READ:
    case SPACE_RECORD_LOCK_WRITE:
    case SPACE_RECORD_TRY_LOCK_READ:
    case SPACE_RECORD_TRY_LOCK_WRITE:
        return window_say(&named, window, SPACE_RECORD_UNLOCK, of.block, deadline_us);
    case SPACE_RECORD_ALLOC: return put_question(&named, window, &freed, deadline_us);
    default: return NIGH_OK;
    }
}

nigh_status window_settle(nigh_space *space, struct client_window *window, uint64_t deadline_us)
{
    while (unlikely(window->asks)) {
        uint64_t value = 0;
        nigh_status status = window_wait(space, window, is_answered, 0, deadline_us);

        if (status != NIGH_OK) {
            return status;
        }
        /* Where there is no room it is undone by who comes next. */
        if (take_answer(window, &value, NULL, 0) == NIGH_OK) {
            status = undo(space, window, value, deadline_us);
            window->asks = window->asks || status != NIGH_OK;
        }
        if (status != NIGH_OK) {
            return status;
        }
    }
    return NIGH_OK;
}

/* ---- how a call begins ---------------------------------------------------- */

nigh_status space_begin_slow(nigh_space *space, uint32_t access, uint64_t timeout_us,
                             const char *call, struct client_window **window)
{
    nigh_status status;

    if (space == NULL) {
        return NIGH_INVALID;
    }
    status = space_check_slow(space, call);
    if (status != NIGH_OK) {
        return status;
    }
    if ((space->access & access) != access) {
        return error_set(space->client, NIGH_DENIED, "%s: the handle was not opened for that",
                         call);
    }
    return windows_find(space, op_deadline_us(timeout_us), window);
}

nigh_status space_check_range(nigh_space *space, uint64_t address, const void *bytes, uint64_t size,
                              const char *call)
{
    if (bytes == NULL) {
        return error_set(space->client, NIGH_INVALID, "%s: there are no bytes (NULL)", call);
    }
    if (address == 0 || size > UINT64_MAX - address) {
        return error_set(space->client, NIGH_INVALID, "%s: %s", call,
                         address == 0 ? "nothing is at address 0" : "there are not so many bytes");
    }
    return NIGH_OK;
}
