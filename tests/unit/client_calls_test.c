/* SPDX-License-Identifier: Apache-2.0 */
/* Calls and receives as a node sees them: when they come, and receives that are given up while a
 * request is on the way. */
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "base/fd.h"
#include "base/limits.h"
#include "client/client_internal.h"
#include "client_pair.h"
#include "nigh/nigh.h"
#include "support/fake_node.h"
#include "support/support.h"

#define REQUEST 77u
/* Two places for receives; the others are kept for answers. */
#define PLACES (LIMIT_REPLY_PLACES + 2)

/* What the node was asked. */
struct asked {
    _Atomic uint32_t receives, replies, cancels, calls;
    _Atomic uint32_t places; /* that it grants; 0: PLACES */
    _Atomic uint32_t first;  /* cookie of a receive */
    _Atomic uint32_t wheres; /* questions where an object is, which are kept */
    _Atomic uint32_t where;  /* cookie of the last */
    _Atomic uint64_t answered;
    _Atomic int64_t status;
};

/* The memory for calls is the first that there is. A receive that is cancelled has ended before,
 * with a request. */
static enum fake_action serve(void *context, struct fake_node *fake, uint32_t lane,
                              const struct session_sqe *sqe, struct session_cqe *cqe)
{
    struct asked *asked = context;
    uint32_t places = atomic_load(&asked->places);
    struct session_cqe request = {.cookie = atomic_load(&asked->first), .pin = SESSION_NO_PIN};

    switch (sqe->op) {
    case SESSION_OP_CALL_LEASE:
        cqe->lease_offset = 0;
        cqe->lease_bytes = (places != 0 ? places : PLACES) * LIMIT_CALL_BYTES;
        return FAKE_ANSWER;
    case SESSION_OP_CALL: atomic_fetch_add(&asked->calls, 1); return FAKE_KEEP;
    case SESSION_OP_WHERE:
        atomic_store(&asked->where, sqe->cookie);
        atomic_fetch_add(&asked->wheres, 1);
        return FAKE_KEEP;
    case SESSION_OP_RECEIVE:
        if (atomic_fetch_add(&asked->receives, 1) == 0) {
            atomic_store(&asked->first, sqe->cookie);
        }
        return FAKE_KEEP;
    case SESSION_OP_CANCEL:
        session_set_received(&request, REQUEST, 0, 0, UINT64_MAX, 0);
        fake_node_complete(fake, lane, &request);
        atomic_fetch_add(&asked->cancels, 1);
        cqe->status = NIGH_NOT_FOUND;
        return FAKE_ANSWER;
    case SESSION_OP_REPLY:
        atomic_store(&asked->answered, sqe->argument);
        atomic_store(&asked->status, (int64_t)sqe->ref);
        atomic_fetch_add(&asked->replies, 1);
        return FAKE_ANSWER;
    default: return FAKE_SERVE;
    }
}

/* Its caller is told that it was not carried out. No place is given back that was not taken: not
 * the first one either, whose offset an answer without a place would have. */
static void what_comes_too_late_is_answered_busy(void **state)
{
    static char buffer[NIGH_CALL_BYTES];
    struct asked asked = {0};
    struct fake_node fake;
    nigh_client_options open = {.struct_size = sizeof open};
    nigh_service *service = NULL, *fence = NULL;
    nigh_request request;
    nigh_client *client;
    nigh_op receives[4];

    (void)state;
    fake_node_start(&fake, &(struct fake_options){.hook = serve, .context = &asked});
    open.socket_path = fake.path;
    assert_int_equal(nigh_client_open(&open, &client), NIGH_OK);
    assert_int_equal(nigh_service_register(client, "late", NULL, &service), NIGH_OK);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(nigh_receive_start(service, &request, buffer, NIGH_FOREVER, &receives[n]),
                         NIGH_OK);
    }
    assert_true(SUPPORT_WAIT(nigh_poll(client) == 0 && atomic_load(&asked.receives) == 2, 20000));
    assert_int_equal(nigh_cancel(client, &receives[0]), NIGH_CANCELED);
    assert_true(SUPPORT_WAIT(nigh_poll(client) == 0 && atomic_load(&asked.replies) == 1, 20000));
    assert_int_equal(atomic_load(&asked.answered), REQUEST);
    assert_int_equal(atomic_load(&asked.status), NIGH_BUSY);
    /* Answered behind the reply, whose end was taken in before. */
    assert_int_equal(nigh_service_register(client, "fence", NULL, &fence), NIGH_OK);
    for (uint32_t n = 2; n < 4; n++) {
        assert_int_equal(nigh_receive_start(service, &request, buffer, NIGH_FOREVER, &receives[n]),
                         NIGH_OK);
    }
    nigh_service_unregister(fence);
    assert_int_equal(atomic_load(&asked.receives), 3); /* the last one waits for a place */
    nigh_client_close(client);
    fake_node_stop(&fake);
}

/* Nobody polls, nor waits: a client's first, for which there is no memory yet, is on its way as any
 * other when it has been started. */
static void what_was_started_needs_no_poll(void **state)
{
    static char buffer[NIGH_CALL_BYTES];
    struct asked asked = {0};
    struct fake_node fake;
    nigh_client_options open = {.struct_size = sizeof open};
    nigh_call_spec spec = {.struct_size = sizeof spec, .service = "any", .rank = 0};
    nigh_service *service = NULL;
    nigh_request request;
    nigh_client *client;
    nigh_op op;

    (void)state;
    fake_node_start(&fake, &(struct fake_options){.hook = serve, .context = &asked});
    open.socket_path = fake.path;
    assert_int_equal(nigh_client_open(&open, &client), NIGH_OK);
    assert_int_equal(nigh_call_start(client, &spec, NIGH_FOREVER, &op), NIGH_OK);
    assert_true(SUPPORT_WAIT(atomic_load(&asked.calls) == 1, 5000));
    nigh_client_close(client);
    assert_int_equal(nigh_client_open(&open, &client), NIGH_OK);
    assert_int_equal(nigh_service_register(client, "early", NULL, &service), NIGH_OK);
    assert_int_equal(nigh_receive_start(service, &request, buffer, NIGH_FOREVER, &op), NIGH_OK);
    assert_true(SUPPORT_WAIT(atomic_load(&asked.receives) == 1, 5000));
    nigh_client_close(client);
    fake_node_stop(&fake);
}

/* A program that sleeps on the descriptor alone hears in time of a call that found no place, also
 * where it came to want one within a look: behind the answer where its object is. */
static void what_finds_no_place_in_a_look_ends_in_time(void **state)
{
    enum {
        MOST_MS = 20000
    };
    const nigh_id id = {{1}};
    struct asked asked = {0};
    struct session_cqe nowhere = {.status = NIGH_NOT_FOUND, .pin = SESSION_NO_PIN};
    struct fake_node fake;
    struct pollfd readable = {.events = POLLIN};
    nigh_client_options open = {.struct_size = sizeof open};
    nigh_call_spec spec = {.struct_size = sizeof spec, .service = "any"}, near = spec;
    nigh_client *client;
    nigh_op calls[PLACES - LIMIT_REPLY_PLACES], late;

    (void)state;
    near.rank = NIGH_NEAREST;
    near.near_ids = &id;
    near.near_count = 1;
    fake_node_start(&fake, &(struct fake_options){.hook = serve, .context = &asked});
    open.socket_path = fake.path;
    assert_int_equal(nigh_client_open(&open, &client), NIGH_OK);
    readable.fd = nigh_client_fd(client);
    for (uint32_t n = 0; n < PLACES - LIMIT_REPLY_PLACES; n++) {
        assert_int_equal(nigh_call_start(client, &spec, NIGH_FOREVER, &calls[n]), NIGH_OK);
    }
    assert_int_equal(nigh_call_start(client, &near, 500000, &late), NIGH_OK);
    assert_true(SUPPORT_WAIT(atomic_load(&asked.wheres) == 1, MOST_MS));
    fake_node_lock(&fake);
    nowhere.cookie = atomic_load(&asked.where);
    fake_node_complete(&fake, 0, &nowhere);
    fake_node_unlock(&fake);
    for (;;) {
        assert_int_equal(nigh_client_arm(client), NIGH_OK);
        (void)nigh_poll(client);
        if (nigh_op_status(&late) != NIGH_PENDING) {
            break;
        }
        assert_int_equal(poll(&readable, 1, MOST_MS), 1);
    }
    assert_int_equal(nigh_op_status(&late), NIGH_TIMEOUT);
    assert_int_equal(atomic_load(&asked.calls), PLACES - LIMIT_REPLY_PLACES);
    nigh_client_close(client);
    fake_node_stop(&fake);
}

/* A request that came to a receive which a pair has kept is the next one's, also while calls have
 * all places: it needs none. */
static void what_is_here_is_received_without_a_place(void **state)
{
    static char buffer[NIGH_CALL_BYTES];
    struct asked asked = {0};
    struct session_cqe came = {.pin = SESSION_NO_PIN};
    struct fake_node fake;
    nigh_client_options open = {.struct_size = sizeof open};
    nigh_call_spec spec = {.struct_size = sizeof spec, .service = "any"};
    nigh_service *service = NULL;
    nigh_request request;
    nigh_client *client;
    nigh_op receives[2], calls[PLACES - LIMIT_REPLY_PLACES];
    int fds[2];

    (void)state;
    fake_node_start(&fake, &(struct fake_options){.hook = serve, .context = &asked});
    open.socket_path = fake.path;
    assert_int_equal(nigh_client_open(&open, &client), NIGH_OK);
    assert_int_equal(nigh_service_register(client, "here", NULL, &service), NIGH_OK);
    give_pair(&fake, client, "here", SESSION_PAIR_SERVES, fds);
    assert_int_equal(nigh_receive_start(service, &request, buffer, 1000, &receives[0]), NIGH_OK);
    assert_int_equal(nigh_wait(client, &receives[0], NIGH_FOREVER), NIGH_TIMEOUT);
    assert_true(SUPPORT_WAIT(atomic_load(&asked.receives) == 1, 20000));
    session_set_received(&came, REQUEST, 0, 0, UINT64_MAX, 0);
    fake_node_lock(&fake);
    came.cookie = atomic_load(&asked.first);
    fake_node_complete(&fake, 0, &came);
    fake_node_unlock(&fake);
    assert_int_equal(nigh_poll(client), 0);
    for (uint32_t n = 0; n < PLACES - LIMIT_REPLY_PLACES; n++) {
        assert_int_equal(nigh_call_start(client, &spec, NIGH_FOREVER, &calls[n]), NIGH_OK);
    }
    assert_true(SUPPORT_WAIT(atomic_load(&asked.calls) == PLACES - LIMIT_REPLY_PLACES, 20000));
    assert_int_equal(nigh_receive_start(service, &request, buffer, NIGH_FOREVER, &receives[1]),
                     NIGH_OK);
    assert_int_equal(nigh_op_status(&receives[1]), NIGH_OK);
    assert_int_equal(request.opaque[0], REQUEST);
    assert_int_equal(atomic_load(&asked.receives), 1);
    nigh_client_close(client);
    fake_node_stop(&fake);
    fd_close(&fds[0]);
    fd_close(&fds[1]);
}

/* A grant with no place but those for answers is of no use: it goes back. */
static void too_little_memory_is_given_back(void **state)
{
    struct asked asked = {.places = LIMIT_REPLY_PLACES};
    struct fake_node fake;
    nigh_client_options open = {.struct_size = sizeof open};
    nigh_call_spec spec = {.struct_size = sizeof spec, .service = "any", .rank = 0};
    nigh_client *client;
    uint32_t before;

    (void)state;
    fake_node_start(&fake, &(struct fake_options){.hook = serve, .context = &asked});
    open.socket_path = fake.path;
    assert_int_equal(nigh_client_open(&open, &client), NIGH_OK);
    before = atomic_load(&fake.lease_closes);
    assert_int_equal(nigh_call(client, &spec, NIGH_FOREVER), NIGH_NO_RESOURCES);
    assert_true(SUPPORT_WAIT(atomic_load(&fake.lease_closes) == before + 1, 5000));
    nigh_client_close(client);
    fake_node_stop(&fake);
}

/* ---- places of its own ----------------------------------------------------- */

/* Calls that a client may have under way in its own places. */
#define OWN (LIMIT_OWN_PLACES - LIMIT_REPLY_PLACES)

struct own {
    _Atomic uint32_t leases, calls, closes;
    _Atomic uint64_t offset; /* of the last call */
    _Atomic uint32_t cookie; /* of the first */
    _Atomic bool grants;
    _Atomic bool is_empty; /* what it grants */
};

static enum fake_action serve_own(void *context, struct fake_node *fake, uint32_t lane,
                                  const struct session_sqe *sqe, struct session_cqe *cqe)
{
    struct own *own = context;

    switch (sqe->op) {
    case SESSION_OP_CALL_LEASE:
        atomic_fetch_add(&own->leases, 1);
        cqe->lease_bytes =
            atomic_load(&own->grants) && !atomic_load(&own->is_empty) ? sqe->argument : 0;
        cqe->status = atomic_load(&own->grants) ? NIGH_OK : NIGH_OUT_OF_MEMORY;
        return FAKE_ANSWER;
    case SESSION_OP_LEASE_CLOSE: atomic_fetch_add(&own->closes, 1); return FAKE_ANSWER;
    case SESSION_OP_CANCEL:
        fake_node_complete(fake, lane,
                           &(struct session_cqe){.cookie = (uint32_t)sqe->argument,
                                                 .status = NIGH_CANCELED,
                                                 .pin = SESSION_NO_PIN});
        return FAKE_ANSWER;
    case SESSION_OP_CALL:
        atomic_store(&own->offset, sqe->offset);
        if (atomic_fetch_add(&own->calls, 1) == 0) {
            atomic_store(&own->cookie, sqe->cookie);
        }
        return FAKE_KEEP;
    default: return FAKE_SERVE;
    }
}

static nigh_client *open_own(struct fake_node *fake, struct own *own)
{
    nigh_client_options open = {.struct_size = sizeof open};
    nigh_client *client;

    /* No lease for puts: what is closed is one for places. */
    fake_node_start(fake, &(struct fake_options){.hook = serve_own,
                                                 .context = own,
                                                 .rights = SESSION_HAS_PLACES,
                                                 .lease_bytes = 1});
    open.socket_path = fake->path;
    assert_int_equal(nigh_client_open(&open, &client), NIGH_OK);
    return client;
}

/* A call that no node took is not said to be of the node that another call was of. */
static void what_fails_alike_is_told_by_itself(void **state)
{
    struct own own = {0};
    struct fake_node fake;
    nigh_client *client = open_own(&fake, &own);
    nigh_call_spec spec = {.struct_size = sizeof spec, .service = "any", .rank = 3};
    char text[512];

    (void)state;
    assert_int_equal(nigh_call(client, &spec, 1000), NIGH_TIMEOUT);
    (void)nigh_client_error(client, text, sizeof(text));
    assert_non_null(strstr(text, "node 3"));
    spec.rank = NIGH_ANY_RANK;
    assert_int_equal(nigh_call(client, &spec, 1000), NIGH_TIMEOUT);
    (void)nigh_client_error(client, text, sizeof(text));
    assert_string_not_equal(text, "");
    assert_null(strstr(text, "node 3"));
    nigh_client_close(client);
    fake_node_stop(&fake);
}

/* A node with no memory to lend serves all the same; who has more under way than there are places
 * waits for one of them. */
static void who_has_places_needs_no_lease(void **state)
{
    static nigh_op ops[OWN + 1];
    static nigh_call_spec specs[OWN + 1];
    struct own own = {0};
    struct fake_node fake;
    nigh_client *client = open_own(&fake, &own);
    struct session_cqe end = {.pin = SESSION_NO_PIN};

    (void)state;
    for (uint32_t n = 0; n <= OWN; n++) {
        specs[n] = (nigh_call_spec){.struct_size = sizeof *specs, .service = "any"};
        if (n == OWN) {
            assert_true(SUPPORT_WAIT(atomic_load(&own.calls) == OWN, 20000));
            assert_int_equal(atomic_load(&own.leases), 0);
        }
        assert_int_equal(nigh_call_start(client, &specs[n], NIGH_FOREVER, &ops[n]), NIGH_OK);
    }
    assert_true(atomic_load(&own.offset) >= SESSION_OWN_PLACE);
    assert_true(SUPPORT_WAIT(nigh_poll(client) == 0 && atomic_load(&own.leases) == 1, 20000));
    assert_int_equal(atomic_load(&own.calls), OWN);
    end.cookie = atomic_load(&own.cookie);
    fake_node_lock(&fake);
    fake_node_complete(&fake, 0, &end);
    fake_node_unlock(&fake);
    assert_int_equal(nigh_wait(client, &ops[0], NIGH_FOREVER), NIGH_OK);
    assert_true(SUPPORT_WAIT((nigh_poll(client), atomic_load(&own.calls) == OWN + 1), 20000));
    assert_true(atomic_load(&own.offset) >= SESSION_OWN_PLACE);
    nigh_client_close(client);
    fake_node_stop(&fake);
}

/* A lease in which no place lies goes back, and is not asked for again at once, as after a refusal.
 */
static void a_lease_of_no_use_is_not_asked_for_again_at_once(void **state)
{
    static nigh_op ops[OWN + 1];
    static nigh_call_spec specs[OWN + 1];
    struct own own = {.grants = true, .is_empty = true};
    struct fake_node fake;
    nigh_client *client = open_own(&fake, &own);
    uint64_t begun_us = support_now_us(), took_us = 0;

    (void)state;
    for (uint32_t n = 0; n <= OWN; n++) {
        specs[n] = (nigh_call_spec){.struct_size = sizeof *specs, .service = "any"};
        assert_int_equal(nigh_call_start(client, &specs[n], NIGH_FOREVER, &ops[n]), NIGH_OK);
    }
    assert_true(SUPPORT_WAIT((nigh_poll(client), atomic_load(&own.closes) >= 1), 20000));
    while (took_us < LIMIT_PLACES_REST_US / 4) {
        (void)nigh_poll(client);
        took_us = support_now_us() - begun_us;
    }
    assert_true(atomic_load(&own.leases) <= 1 + took_us / LIMIT_PLACES_REST_US);
    nigh_client_close(client);
    fake_node_stop(&fake);
}

/* Where the node lends more, more are under way; and what it lent goes back when nobody uses it and
 * the client sleeps. */
static void a_lease_beside_own_places_goes_back(void **state)
{
    static nigh_op ops[LIMIT_OWN_PLACES + 1];
    static nigh_call_spec specs[LIMIT_OWN_PLACES + 1];
    struct own own = {.grants = true};
    struct fake_node fake;
    nigh_client *client = open_own(&fake, &own);
    nigh_event event;

    (void)state;
    assert_int_equal(nigh_subscribe(client, 0), NIGH_OK);
    for (uint32_t n = 0; n <= LIMIT_OWN_PLACES; n++) {
        specs[n] = (nigh_call_spec){.struct_size = sizeof *specs, .service = "any"};
        assert_int_equal(nigh_call_start(client, &specs[n], NIGH_FOREVER, &ops[n]), NIGH_OK);
    }
    assert_true(
        SUPPORT_WAIT((nigh_poll(client), atomic_load(&own.calls) == LIMIT_OWN_PLACES + 1), 20000));
    assert_int_equal(atomic_load(&own.leases), 1);
    assert_true(atomic_load(&own.offset) < SESSION_OWN_PLACE);
    assert_int_equal(nigh_next_event(client, 2 * LIMIT_LEASE_IDLE_US, &event), NIGH_TIMEOUT);
    assert_int_equal(atomic_load(&own.closes), 0); /* they are used */
    /* One that waits in a place of its own is no use of the lease. */
    for (uint32_t n = 1; n <= LIMIT_OWN_PLACES; n++) {
        assert_int_equal(nigh_cancel(client, &ops[n]), NIGH_CANCELED);
    }
    assert_true(SUPPORT_WAIT(
        (nigh_next_event(client, LIMIT_LEASE_IDLE_US, &event), atomic_load(&own.closes) == 1),
        20000));
    /* All of its own but that one's are free: the last of them is asked for first as more is. */
    atomic_store(&own.grants, false);
    for (uint32_t n = 1; n <= OWN; n++) {
        assert_int_equal(nigh_call_start(client, &specs[n], NIGH_FOREVER, &ops[n]), NIGH_OK);
        assert_true(n == OWN || atomic_load(&own.leases) == 1);
    }
    assert_true(SUPPORT_WAIT((nigh_poll(client), atomic_load(&own.leases) == 2), 20000));
    assert_int_equal(atomic_load(&own.calls), LIMIT_OWN_PLACES + 1 + OWN - 1);
    nigh_client_close(client);
    fake_node_stop(&fake);
}

struct sleeper {
    nigh_client *client;
    nigh_op *op;
    nigh_status status;
};

static void *sleep_in_a_call(void *context)
{
    struct sleeper *sleeper = context;

    sleeper->status = nigh_wait(sleeper->client, sleeper->op, NIGH_FOREVER);
    return NULL;
}

/* Nobody else of the client is in a call for long: who sleeps since before there was a lease looks
 * after it. */
static void who_sleeps_gives_back_what_another_leased_since(void **state)
{
    static nigh_op ops[LIMIT_OWN_PLACES + 1];
    static nigh_call_spec specs[LIMIT_OWN_PLACES + 1];
    struct own own = {.grants = true};
    struct fake_node fake;
    nigh_client *client = open_own(&fake, &own);
    struct sleeper sleeper = {.client = client, .op = &ops[0]};
    pthread_t thread;

    (void)state;
    for (uint32_t n = 0; n <= LIMIT_OWN_PLACES; n++) {
        specs[n] = (nigh_call_spec){.struct_size = sizeof *specs, .service = "any"};
        assert_int_equal(nigh_call_start(client, &specs[n], NIGH_FOREVER, &ops[n]), NIGH_OK);
        if (n == 0) {
            assert_int_equal(pthread_create(&thread, NULL, sleep_in_a_call, &sleeper), 0);
            /* Whoever leads has slept, and looked for leases. */
            assert_true(SUPPORT_WAIT(atomic_load(&client->leading), 20000));
        }
    }
    assert_true(
        SUPPORT_WAIT((nigh_poll(client), atomic_load(&own.calls) == LIMIT_OWN_PLACES + 1), 20000));
    for (uint32_t n = 1; n <= LIMIT_OWN_PLACES; n++) {
        assert_int_equal(nigh_cancel(client, &ops[n]), NIGH_CANCELED);
    }
    assert_true(SUPPORT_WAIT(atomic_load(&own.closes) == 1, 20000));
    assert_int_equal(nigh_cancel(client, &ops[0]), NIGH_CANCELED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sleeper.status, NIGH_CANCELED);
    nigh_client_close(client);
    fake_node_stop(&fake);
}

/* ---- memory that calls bring ---------------------------------------------- */

struct bulks {
    _Atomic uint32_t makes;
    _Atomic uint32_t waited; /* lanes that were asked */
    _Atomic int32_t end;     /* how an end is answered */
};

static enum fake_action serve_bulks(void *context, struct fake_node *fake, uint32_t lane,
                                    const struct session_sqe *sqe, struct session_cqe *cqe)
{
    struct bulks *bulks = context;

    (void)fake;
    if (sqe->op == SESSION_OP_BULK_MAKE) {
        cqe->generation = 1 + atomic_fetch_add(&bulks->makes, 1);
        return FAKE_ANSWER;
    }
    if (sqe->op == SESSION_OP_BULK_WAIT) {
        bool ends = (sqe->flags & SESSION_FLAG_END) != 0;

        atomic_fetch_or(&bulks->waited, ends ? 0 : 1u << lane);
        cqe->status = ends ? atomic_load(&bulks->end) : NIGH_OK;
        return FAKE_ANSWER;
    }
    return FAKE_SERVE;
}

static nigh_client *open_bulks(struct fake_node *fake, struct bulks *bulks, uint32_t lanes,
                               uint32_t lost)
{
    nigh_client_options open = {.struct_size = sizeof open};
    nigh_client *client;

    fake_node_start(fake,
                    &(struct fake_options){
                        .lanes = lanes, .hook = serve_bulks, .context = bulks, .bulks_lost = lost});
    open.socket_path = fake->path;
    assert_int_equal(nigh_client_open(&open, &client), NIGH_OK);
    return client;
}

/* The node does not know what it made: it is another connection by now. */
static void memory_that_went_amid_its_making_is_made_anew(void **state)
{
    (void)state;
    for (uint32_t lost = 0; lost < 3; lost++) {
        struct bulks bulks = {0};
        struct fake_node fake;
        nigh_client *client = open_bulks(&fake, &bulks, 1, lost);
        nigh_bulk *bulk = NULL;
        void *memory = NULL;

        assert_int_equal(nigh_bulk_alloc(client, 4096, NIGH_BULK_READ, &memory, &bulk),
                         lost < 2 ? NIGH_OK : NIGH_CLOSED);
        assert_int_equal(atomic_load(&bulks.makes), lost == 0 ? 1 : 2);
        assert_int_equal(nigh_bulk_close(bulk, 0), NIGH_OK);
        nigh_client_close(client);
        fake_node_stop(&fake);
    }
}

/* Any lane may have a call with it that was cancelled and not taken yet. */
static void a_wait_for_memory_asks_every_lane(void **state)
{
    struct bulks bulks = {0};
    struct fake_node fake;
    nigh_client *client = open_bulks(&fake, &bulks, 4, 0);
    nigh_bulk *bulk = NULL;
    void *memory = NULL;

    (void)state;
    assert_int_equal(nigh_bulk_alloc(client, 4096, NIGH_BULK_READ, &memory, &bulk), NIGH_OK);
    assert_int_equal(nigh_bulk_wait(bulk, NIGH_FOREVER), NIGH_OK);
    assert_int_equal(atomic_load(&bulks.waited), 15);
    assert_int_equal(nigh_bulk_close(bulk, 0), NIGH_OK);
    nigh_client_close(client);
    fake_node_stop(&fake);
}

/* Only what the node knows nothing of is closed whatever it says. */
static void memory_that_is_not_given_back_stays(void **state)
{
    static const nigh_status stays[] = {NIGH_TIMEOUT, NIGH_BUSY, NIGH_NO_RESOURCES, NIGH_INVALID};
    struct bulks bulks = {0};
    struct fake_node fake;
    nigh_client *client = open_bulks(&fake, &bulks, 1, 0);
    nigh_bulk *bulk = NULL;
    char *bytes;
    void *memory = NULL;

    (void)state;
    assert_int_equal(nigh_bulk_alloc(client, 4096, NIGH_BULK_READ, &memory, &bulk), NIGH_OK);
    bytes = memory;
    for (uint32_t n = 0; n < sizeof stays / sizeof *stays; n++) {
        atomic_store(&bulks.end, stays[n]);
        assert_int_equal(nigh_bulk_close(bulk, 0), stays[n]);
        bytes[n] = 1;
    }
    atomic_store(&bulks.end, NIGH_NOT_FOUND);
    assert_int_equal(nigh_bulk_close(bulk, 0), NIGH_OK);
    assert_int_equal(nigh_bulk_alloc(client, 4096, NIGH_BULK_READ, &memory, &bulk), NIGH_OK);
    fake_node_die(&fake, true);
    assert_int_equal(nigh_bulk_close(bulk, 0), NIGH_OK);
    nigh_client_close(client);
    fake_node_stop(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_too_late_is_answered_busy),
        cmocka_unit_test(what_was_started_needs_no_poll),
        cmocka_unit_test(what_finds_no_place_in_a_look_ends_in_time),
        cmocka_unit_test(what_is_here_is_received_without_a_place),
        cmocka_unit_test(too_little_memory_is_given_back),
        cmocka_unit_test(what_fails_alike_is_told_by_itself),
        cmocka_unit_test(who_has_places_needs_no_lease),
        cmocka_unit_test(a_lease_of_no_use_is_not_asked_for_again_at_once),
        cmocka_unit_test(a_lease_beside_own_places_goes_back),
        cmocka_unit_test(who_sleeps_gives_back_what_another_leased_since),
        cmocka_unit_test(memory_that_went_amid_its_making_is_made_anew),
        cmocka_unit_test(a_wait_for_memory_asks_every_lane),
        cmocka_unit_test(memory_that_is_not_given_back_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
