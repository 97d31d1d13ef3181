/* SPDX-License-Identifier: Apache-2.0 */
/* Regions as a node sees them: what is asked, what it takes of the client's ring and of its places,
 * and what is undone when nobody waits for the answer. */
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/attach.h"
#include "client/client_internal.h"
#include "client/region.h"
#include "client/ring.h"
#include "client_fixture.h"
#include "nigh/region.h"

#define KEPT_MAX 512
#define WAIT_US  20000000

/* What the node was asked, and what it does not answer. */
struct asked {
    struct fixture f;
    uint32_t places;             /* that it grants beside those for answers */
    _Atomic uint32_t keeps;      /* a bit of each SESSION_REGION_* */
    _Atomic int32_t status;      /* of what it answers, */
    _Atomic int32_t opening;     /* and to opens, if that is OK */
    _Atomic bool answers_stat;   /* whatever that is */
    _Atomic uint32_t stat_flags; /* 0: mappable */
    _Atomic bool is_stubborn;    /* does not answer REFRESH, GET and CANCEL */
    _Atomic bool grants_first;   /* what is cancelled, it has just opened */
    _Atomic uint32_t others;     /* of these */
    _Atomic uint32_t count[SESSION_REGION_WHATS];
    struct session_sqe last[SESSION_REGION_WHATS];
    /* Under the node's lock: */
    uint64_t number; /* of the last handle, or map */
    uint32_t kept[KEPT_MAX];
    uint32_t kept_count;
};

static uint32_t asked_for(struct asked *asked, enum session_region_what what)
{
    return atomic_load(&asked->count[what]);
}

static void answer_stat(struct asked *asked, struct fake_node *fake, const struct session_sqe *sqe,
                        struct session_cqe *cqe)
{
    uint32_t flags = atomic_load(&asked->stat_flags);
    struct session_region_stat said = {.size_bytes = 4096,
                                       .chunk_bytes = 4096,
                                       .chunk_count = 1,
                                       .flags = flags != 0 ? flags : SESSION_REGION_MAPPABLE};

    memcpy(fake->arena + sqe->offset, &said, sizeof(said));
    cqe->offset = sqe->offset;
    cqe->data_size = sizeof(said);
}

/* "a", of one byte, and "b", of two. */
static void answer_list(struct fake_node *fake, const struct session_sqe *sqe,
                        struct session_cqe *cqe)
{
    struct session_region_page page = {.count = 2};

    for (uint32_t n = 0; n < page.count; n++) {
        struct session_region_entry entry = {
            .bytes = sizeof(entry) + 8, .size_bytes = 1 + n, .name_bytes = 1};

        memcpy(page.entries + page.bytes, &entry, sizeof(entry));
        page.entries[page.bytes + sizeof(entry)] = (uint8_t)('a' + n);
        page.bytes += entry.bytes;
    }
    memcpy(fake->arena + sqe->offset, &page, sizeof(page));
    cqe->offset = sqe->offset;
    cqe->data_size = sizeof(page);
}

static void answer_region(struct asked *asked, struct fake_node *fake,
                          const struct session_sqe *sqe, struct session_cqe *cqe)
{
    switch (sqe->name_size) {
    case SESSION_REGION_OPEN:
    case SESSION_REGION_LOCK:
        cqe->generation = ++asked->number;
        cqe->flags = SESSION_CQE_OPENED;
        break;
    case SESSION_REGION_MAP:
        cqe->generation = ++asked->number;
        cqe->flags = SESSION_CQE_MAPPED;
        break;
    case SESSION_REGION_LIST: answer_list(fake, sqe, cqe); break;
    case SESSION_REGION_STAT: answer_stat(asked, fake, sqe, cqe); break;
    case SESSION_REGION_READ:
        cqe->offset = sqe->offset;
        cqe->data_size = sqe->ref;
        break;
    default: break;
    }
}

static enum fake_action serve(void *context, struct fake_node *fake, uint32_t lane,
                              const struct session_sqe *sqe, struct session_cqe *cqe)
{
    struct asked *asked = context;

    if (sqe->op == SESSION_OP_CALL_LEASE) {
        cqe->lease_offset = 0;
        cqe->lease_bytes = (LIMIT_REPLY_PLACES + asked->places) * LIMIT_CALL_BYTES;
        return FAKE_ANSWER;
    }
    if (sqe->op == SESSION_OP_REGION) {
        asked->last[sqe->name_size] = *sqe;
        atomic_fetch_add(&asked->count[sqe->name_size], 1);
        if ((atomic_load(&asked->keeps) >> sqe->name_size & 1) != 0) {
            asked->kept[asked->kept_count++ % KEPT_MAX] = sqe->cookie;
            return FAKE_KEEP;
        }
        cqe->status = atomic_load(&asked->status);
        if (sqe->name_size == SESSION_REGION_STAT && atomic_load(&asked->answers_stat)) {
            cqe->status = NIGH_OK;
        }
        if (cqe->status == NIGH_OK && sqe->name_size == SESSION_REGION_OPEN) {
            cqe->status = atomic_load(&asked->opening);
        }
        if (cqe->status == NIGH_OK) {
            answer_region(asked, fake, sqe, cqe);
        }
        return FAKE_ANSWER;
    }
    if (sqe->op == SESSION_OP_BULK_MAKE) {
        cqe->generation = 1;
        return FAKE_ANSWER;
    }
    if (sqe->op == SESSION_OP_CANCEL && atomic_load(&asked->grants_first)) {
        struct session_cqe granted = {.cookie = (uint32_t)sqe->argument,
                                      .generation = ++asked->number,
                                      .flags = SESSION_CQE_OPENED,
                                      .pin = SESSION_NO_PIN};

        fake_node_complete(fake, lane, &granted);
        return FAKE_SERVE;
    }
    if (sqe->op == SESSION_OP_REFRESH || sqe->op == SESSION_OP_GET ||
        sqe->op == SESSION_OP_CANCEL) {
        atomic_fetch_add(&asked->others, 1);
        return atomic_load(&asked->is_stubborn) ? FAKE_KEEP : FAKE_SERVE;
    }
    return FAKE_SERVE;
}

static void begin(struct asked *asked, uint32_t places)
{
    memset(asked, 0, sizeof(*asked));
    asked->places = places;
    start(&asked->f, &(struct fake_options){.hook = serve, .context = asked});
}

static nigh_region *open_one(struct asked *asked)
{
    nigh_region *region = NULL;

    assert_int_equal(
        nigh_region_open(asked->f.client, "one", NIGH_REGION_ALL, NIGH_FOREVER, &region), NIGH_OK);
    return region;
}

static void keep(struct asked *asked, enum session_region_what what)
{
    atomic_fetch_or(&asked->keeps, 1u << what);
}

/* Answers one of what was kept: the n-th. */
static void answer_kept(struct asked *asked, uint32_t n, struct session_cqe cqe)
{
    fake_node_lock(&asked->f.fake);
    cqe.cookie = asked->kept[n];
    cqe.pin = SESSION_NO_PIN;
    fake_node_complete(&asked->f.fake, 0, &cqe);
    fake_node_unlock(&asked->f.fake);
}

/* ---- handles -------------------------------------------------------------- */

/* The call that opens it is the one that finds the node again. */
static void a_handle_is_of_the_connection_that_opened_it(void **state)
{
    struct asked asked;
    nigh_region *region = NULL;
    uint64_t old;

    (void)state;
    begin(&asked, 4);
    nigh_region_close(open_one(&asked));
    fake_node_die(&asked.f.fake, true);
    assert_int_equal(nigh_region_open(asked.f.client, "one", NIGH_REGION_ALL, WAIT_US, &region),
                     NIGH_NODE_LOST);
    fake_node_return(&asked.f.fake);
    region = open_one(&asked);
    assert_int_equal(atomic_load(&asked.f.fake.resumes), 1);
    assert_int_equal(nigh_region_fetch_add(region, 0, 1, WAIT_US, &old), NIGH_OK);
    nigh_region_close(region);
    assert_int_equal(asked_for(&asked, SESSION_REGION_CLOSE), 2);
    stop(&asked.f);
}

/* Nobody waits any more for what opens it, and each place of the ring is in use. */
static void a_handle_that_came_too_late_is_closed_through_a_full_ring(void **state)
{
    enum {
        GETS = 8,
        IDS = LIMIT_RING_ENTRIES
    };
    struct asked asked;
    static nigh_id ids[IDS];
    nigh_view views[GETS];
    nigh_op gets[GETS], refresh;
    nigh_region *region = NULL;

    (void)state;
    begin(&asked, 4);
    nigh_region_close(open_one(&asked)); /* so there is memory for what is asked */
    keep(&asked, SESSION_REGION_OPEN);
    atomic_store(&asked.is_stubborn, true);
    for (uint32_t i = 0; i < IDS; i++) {
        ids[i] = id_of(i);
    }
    for (uint32_t i = 0; i < GETS; i++) {
        assert_int_equal(
            nigh_get_start(asked.f.client, &ids[i], 1, NIGH_FOREVER, &views[i], &gets[i]), NIGH_OK);
    }
    /* On a machine that stands still it may end before it was asked. */
    assert_true(SUPPORT_WAIT(
        nigh_region_open(asked.f.client, "one", NIGH_REGION_ALL, 100000, &region) == NIGH_TIMEOUT &&
            asked_for(&asked, SESSION_REGION_OPEN) == 2,
        60000));
    assert_int_equal(nigh_refresh_start(asked.f.client, ids, IDS, &refresh), NIGH_OK);
    for (uint32_t i = 0; i < GETS; i++) {
        assert_int_equal(nigh_cancel(asked.f.client, &gets[i]), NIGH_CANCELED);
    }
    /* All places but that of the open. */
    assert_true(SUPPORT_WAIT(
        (nigh_poll(asked.f.client), atomic_load(&asked.others) == LIMIT_RING_ENTRIES - 1), 20000));
    answer_kept(&asked, 0, (struct session_cqe){.generation = 7, .flags = SESSION_CQE_OPENED});
    assert_true(SUPPORT_WAIT(
        (nigh_poll(asked.f.client), asked_for(&asked, SESSION_REGION_CLOSE) == 2), 20000));
    assert_memory_equal(asked.last[SESSION_REGION_CLOSE].id, &(uint64_t){7}, sizeof(uint64_t));
    stop(&asked.f);
}

struct mapper {
    nigh_region *region;
    pthread_t thread;
    nigh_status status;
};

static void *map_one(void *context)
{
    struct mapper *mapper = context;
    void *address;

    mapper->status =
        nigh_region_map(mapper->region, 0, 0, NIGH_REGION_READ, NIGH_FOREVER, &address);
    return NULL;
}

/* The node that gave the map has gone, and the one that is asked for its memory begins its numbers
 * anew: what it has under this one is another's. Another thread has found it meanwhile. */
static void a_map_is_of_the_connection_that_gave_it(void **state)
{
    struct asked asked;
    struct mapper mapper;

    (void)state;
    begin(&asked, 4);
    mapper.region = open_one(&asked);
    keep(&asked, SESSION_REGION_MAP);
    assert_int_equal(pthread_create(&mapper.thread, NULL, map_one, &mapper), 0);
    assert_true(SUPPORT_WAIT(asked_for(&asked, SESSION_REGION_MAP) == 1, 20000));
    /* As a call of this thread would do it, which has the lock as long. */
    client_lock(asked.f.client);
    answer_kept(&asked, 0, (struct session_cqe){.generation = 7, .flags = SESSION_CQE_MAPPED});
    ring_take_in(asked.f.client, NULL);
    client_lose(asked.f.client, NIGH_NODE_LOST);
    fake_node_die(&asked.f.fake, false);
    assert_true(SUPPORT_WAIT(resume_ensure(asked.f.client, WAIT_US) == NIGH_OK, 20000));
    client_unlock(asked.f.client);
    assert_int_equal(pthread_join(mapper.thread, NULL), 0);
    assert_int_equal(mapper.status, NIGH_CLOSED);
    stop(&asked.f);
}

/* ---- memory that is donated ----------------------------------------------- */

#define GIFT 4096

static void begin_donor(struct asked *asked, uint16_t rights)
{
    memset(asked, 0, sizeof(*asked));
    asked->places = 4;
    start(&asked->f, &(struct fake_options){.hook = serve, .context = asked, .rights = rights});
}

static nigh_status donate_as(struct asked *asked, const nigh_region_spec *spec, uint64_t timeout_us)
{
    int fd = memfd_create("gift", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    nigh_region *region;
    nigh_status status;

    assert_int_equal(ftruncate(fd, GIFT), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    status = nigh_region_donate(asked->f.client, spec, fd, timeout_us, &region);
    assert_int_equal(close(fd), 0);
    return status;
}

static nigh_status donate(struct asked *asked, uint64_t timeout_us)
{
    nigh_region_spec spec = {.struct_size = sizeof spec, .name = "gift", .size = GIFT};

    return donate_as(asked, &spec, timeout_us);
}

/* So many, and the last is of this number. */
static bool were_dropped(struct asked *asked, uint32_t drops, uint64_t number)
{
    bool were = false;

    nigh_poll(asked->f.client);
    if (atomic_load(&asked->f.fake.drops) == drops) {
        fake_node_lock(&asked->f.fake);
        were = asked->f.fake.dropped.number == number;
        fake_node_unlock(&asked->f.fake);
    }
    return were;
}

/* However it came that nobody asks for what was offered: the node is told. */
static void what_is_donated_in_vain_is_dropped(void **state)
{
    struct asked asked;

    (void)state;
    begin_donor(&asked, SESSION_HAS_DONATIONS | SESSION_DROPS_DONATIONS);
    assert_int_equal(donate(&asked, 0), NIGH_TIMEOUT);
    assert_int_equal(asked_for(&asked, SESSION_REGION_CREATE), 0);
    assert_true(SUPPORT_WAIT(were_dropped(&asked, 1, 1), 20000));
    assert_int_equal(donate(&asked, WAIT_US), NIGH_OK);
    atomic_store(&asked.status, NIGH_OVERLOADED);
    assert_int_equal(donate(&asked, WAIT_US), NIGH_OVERLOADED);
    assert_true(SUPPORT_WAIT(were_dropped(&asked, 2, 3), 20000));
    atomic_store(&asked.status, NIGH_OK);
    stop(&asked.f);
}

/* The answer says what there is to drop. */
static void what_was_given_up_is_dropped_when_the_node_says_its_number(void **state)
{
    struct asked asked;

    (void)state;
    begin_donor(&asked, SESSION_HAS_DONATIONS | SESSION_DROPS_DONATIONS);
    fake_node_lock(&asked.f.fake);
    asked.f.fake.options.keeps_donations = true;
    fake_node_unlock(&asked.f.fake);
    assert_int_equal(donate(&asked, WAIT_US), NIGH_TIMEOUT);
    fake_node_lock(&asked.f.fake);
    asked.f.fake.options.keeps_donations = false;
    fake_node_donated(&asked.f.fake);
    fake_node_unlock(&asked.f.fake);
    assert_int_equal(donate(&asked, WAIT_US), NIGH_OK); /* hears of the other first */
    assert_true(were_dropped(&asked, 1, 1));
    stop(&asked.f);
}

/* Who hears that says that the memory is not in use frees it: so nobody hears it of a region that
 * is there. */
static void a_region_that_cannot_be_opened_is_not_denied(void **state)
{
    static const nigh_status not_in_use[] = {NIGH_INVALID, NIGH_EXISTS, NIGH_UNSUPPORTED,
                                             NIGH_DENIED, NIGH_OVERLOADED};
    struct asked asked;
    char said[256];

    (void)state;
    begin_donor(&asked, SESSION_HAS_DONATIONS | SESSION_DROPS_DONATIONS);
    for (size_t n = 0; n < sizeof(not_in_use) / sizeof(not_in_use[0]); n++) {
        atomic_store(&asked.opening, not_in_use[n]);
        assert_int_equal(donate(&asked, WAIT_US), NIGH_BUSY);
        nigh_client_error(asked.f.client, said, sizeof(said));
        assert_non_null(strstr(said, "was created"));
    }
    atomic_store(&asked.opening, NIGH_NO_QUORUM);
    assert_int_equal(donate(&asked, WAIT_US), NIGH_NO_QUORUM);
    atomic_store(&asked.opening, NIGH_OK);
    assert_int_equal(donate(&asked, WAIT_US), NIGH_OK);
    stop(&asked.f);
}

/* The node that took it has gone, and the one that is asked for a region begins its numbers anew:
 * what it has under this one is another's. */
static void what_is_donated_is_of_the_connection_that_took_it(void **state)
{
    struct asked asked;

    (void)state;
    begin_donor(&asked, SESSION_HAS_DONATIONS | SESSION_DROPS_DONATIONS);
    fake_node_lock(&asked.f.fake);
    asked.f.fake.options.begins_anew = true;
    fake_node_unlock(&asked.f.fake);
    assert_int_equal(donate(&asked, WAIT_US), NIGH_CLOSED);
    assert_int_equal(atomic_load(&asked.f.fake.resumes), 1);
    assert_int_equal(asked_for(&asked, SESSION_REGION_CREATE), 0);
    assert_int_equal(donate(&asked, WAIT_US), NIGH_OK);
    assert_int_equal(atomic_load(&asked.f.fake.drops), 0); /* it would be another's, too */
    stop(&asked.f);
}

/* By whomever it is refused. */
static void why_it_is_not_taken_is_said(void **state)
{
    static const struct {
        nigh_status status;
        const char *words;
    } cases[] = {
        {NIGH_LIMIT, "chunks that are files"},   {NIGH_NO_RESOURCES, "try again"},
        {NIGH_OUT_OF_MEMORY, "--region-memory"}, {NIGH_OVERLOADED, "4 others"},
        {NIGH_UNSUPPORTED, "nighd --state"},
    };
    struct asked asked;
    char said[256];

    (void)state;
    begin_donor(&asked, SESSION_HAS_DONATIONS | SESSION_DROPS_DONATIONS);
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        fake_node_lock(&asked.f.fake);
        asked.f.fake.options.donation_status = cases[n].status;
        fake_node_unlock(&asked.f.fake);
        assert_int_equal(donate(&asked, WAIT_US), cases[n].status);
        nigh_client_error(asked.f.client, said, sizeof(said));
        if (strstr(said, cases[n].words) == NULL) {
            fail_msg("%s: not of '%s'", said, cases[n].words);
        }
    }
    assert_int_equal(atomic_load(&asked.f.fake.drops), 0);
    stop(&asked.f);
}

/* It would expel who says what it does not know. */
static void an_older_node_is_told_of_no_drop(void **state)
{
    struct asked asked;

    (void)state;
    begin_donor(&asked, SESSION_HAS_DONATIONS);
    assert_int_equal(donate(&asked, 0), NIGH_TIMEOUT);
    assert_int_equal(donate(&asked, WAIT_US), NIGH_OK);
    assert_int_equal(atomic_load(&asked.f.fake.drops), 0);
    stop(&asked.f);
    begin_donor(&asked, 0);
    assert_int_equal(donate(&asked, WAIT_US), NIGH_UNSUPPORTED);
    assert_int_equal(atomic_load(&asked.f.fake.donations), 0);
    stop(&asked.f);
}

/* ---- sentences ------------------------------------------------------------ */

/* What is said is about what was asked. */
static void why_it_failed_is_said(void **state)
{
    static const struct {
        enum session_region_what what;
        nigh_status status;
        const char *words;
    } cases[] = {
        {SESSION_REGION_OPEN, NIGH_LIMIT, "handles"},
        {SESSION_REGION_MOVE, NIGH_EXISTS, "at that node already"},
        {SESSION_REGION_MOVE, NIGH_BUSY, "has the chunk mapped"},
        {SESSION_REGION_LOCK, NIGH_LIMIT, "locks"},
        {SESSION_REGION_BARRIER, NIGH_BUSY, "waits at this barrier already"},
        {SESSION_REGION_BARRIER, NIGH_PEER_LOST, "a party"},
        {SESSION_REGION_BARRIER, NIGH_INVALID, "more parties"},
        {SESSION_REGION_BARRIER, NIGH_LIMIT, "barriers"},
    };
    struct asked asked;
    nigh_region *region, *other;
    char said[256];

    (void)state;
    begin(&asked, 4);
    region = open_one(&asked);
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        nigh_status status = NIGH_OK;

        atomic_store(&asked.status, cases[n].status);
        if (cases[n].what == SESSION_REGION_OPEN) {
            status = nigh_region_open(asked.f.client, "two", NIGH_REGION_READ, WAIT_US, &other);
        } else if (cases[n].what == SESSION_REGION_MOVE) {
            status = nigh_region_move(region, 0, 0, WAIT_US);
        } else if (cases[n].what == SESSION_REGION_LOCK) {
            status = nigh_region_lock(region, 7, NIGH_REGION_SHARED, 0, WAIT_US, &other);
        } else {
            status = nigh_region_barrier(region, 7, 2, WAIT_US);
        }
        assert_int_equal(status, cases[n].status);
        nigh_client_error(asked.f.client, said, sizeof(said));
        if (strstr(said, cases[n].words) == NULL) {
            fail_msg("%s: not of '%s'", said, cases[n].words);
        }
    }
    atomic_store(&asked.status, NIGH_OK);
    stop(&asked.f);
}

static void says(struct asked *asked, nigh_status status, nigh_status expected, const char *words)
{
    char said[256];

    assert_int_equal(status, expected);
    nigh_client_error(asked->f.client, said, sizeof(said));
    if (strstr(said, words) == NULL || (strstr(words, "op") == NULL && strstr(said, "no op"))) {
        fail_msg("%s: not of '%s'", said, words);
    }
}

/* Nor is anything asked of the node. */
static void unlocks_locks_alone(void **state)
{
    struct asked asked;
    nigh_region *region, *held;
    nigh_op op;

    (void)state;
    begin(&asked, 4);
    region = open_one(&asked);
    says(&asked, nigh_region_unlock(region), NIGH_INVALID, "holds no lock, and stays open");
    says(&asked, nigh_region_unlock_start(region, &op), NIGH_INVALID, "holds no lock");
    says(&asked, nigh_region_unlock_start(region, NULL), NIGH_INVALID, "holds no lock");
    assert_int_equal(asked_for(&asked, SESSION_REGION_CLOSE), 0);
    assert_int_equal(nigh_region_lock(region, 7, NIGH_REGION_SHARED, 0, WAIT_US, &held), NIGH_OK);
    says(&asked, nigh_region_unlock_start(held, NULL), NIGH_INVALID, "no op");
    /* Of one that was handed on the handle is gone all the same. */
    atomic_store(&asked.status, NIGH_LOCK_LOST);
    assert_int_equal(nigh_region_unlock(held), NIGH_LOCK_LOST);
    assert_int_equal(asked_for(&asked, SESSION_REGION_CLOSE), 1);
    /* So is one that the node does not know: INVALID would say that it is there still. */
    for (uint32_t n = 0; n < 2; n++) {
        atomic_store(&asked.status, NIGH_OK);
        assert_int_equal(nigh_region_lock(region, 7, NIGH_REGION_SHARED, 0, WAIT_US, &held),
                         NIGH_OK);
        atomic_store(&asked.status, NIGH_INVALID);
        if (n == 0) {
            says(&asked, nigh_region_unlock(held), NIGH_CLOSED, "went with a connection");
        } else {
            assert_int_equal(nigh_region_unlock_start(held, &op), NIGH_OK);
            assert_int_equal(nigh_wait(asked.f.client, &op, NIGH_FOREVER), NIGH_CLOSED);
        }
    }
    atomic_store(&asked.status, NIGH_OK);
    nigh_region_close(region);
    assert_int_equal(asked_for(&asked, SESSION_REGION_CLOSE), 4);
    stop(&asked.f);
}

/* One reason, and the one that it is: without an answer of the node's, where it can be told. */
static void what_cannot_be_is_said(void **state)
{
    nigh_region_spec spec = {.struct_size = sizeof(spec), .name = "one", .size = 1};
    nigh_region_part parts[] = {{.bytes = &spec, .size = 1}, {.size = 1}};
    nigh_region_entry entries[2] = {{.info = {.struct_size = 8}}};
    struct asked asked;
    nigh_region *region, *other = NULL;
    nigh_client *client;
    uint64_t word = 0;
    uint32_t more;
    size_t count;

    (void)state;
    begin(&asked, 4);
    region = open_one(&asked);
    client = asked.f.client;
    /* No place for what is opened is no fault of the name. */
    says(&asked, nigh_region_open(client, "one", NIGH_REGION_READ, WAIT_US, NULL), NIGH_INVALID,
         "no place for the handle");
    says(&asked, nigh_region_open(client, "", NIGH_REGION_READ, WAIT_US, &other), NIGH_INVALID,
         "1 to 64 bytes");
    says(&asked, nigh_region_lock(region, 1, (nigh_region_mode)3, 0, WAIT_US, &other), NIGH_INVALID,
         "a mode is");
    says(&asked, nigh_region_lock(region, 1, NIGH_REGION_SHARED, 0, WAIT_US, NULL), NIGH_INVALID,
         "no place for the handle");
    says(&asked, nigh_region_barrier(region, 1, 0, WAIT_US), NIGH_INVALID, "of no parties");
    says(&asked, nigh_region_barrier_start(region, 1, 1, WAIT_US, NULL), NIGH_INVALID, "no op");
    says(&asked, nigh_region_read(region, 0, NULL, 1, WAIT_US), NIGH_INVALID, "no bytes");
    says(&asked, nigh_region_write(region, UINT64_MAX, &word, 8, WAIT_US), NIGH_INVALID,
         "beyond 2^64");
    says(&asked, nigh_region_read_start(region, 0, &word, 8, WAIT_US, NULL), NIGH_INVALID, "no op");
    says(&asked, nigh_region_readv(region, NULL, 1, WAIT_US), NIGH_INVALID, "no parts");
    says(&asked, nigh_region_readv(region, parts, NIGH_REGION_PARTS + 1, WAIT_US), NIGH_INVALID,
         "64 parts at most");
    says(&asked, nigh_region_writev(region, parts, 2, WAIT_US), NIGH_INVALID,
         "part 1 has no bytes");
    says(&asked, nigh_region_read_into(region, 0, NULL, WAIT_US), NIGH_INVALID, "no memory");
    says(&asked, nigh_region_fetch_add(region, 4, 1, WAIT_US, NULL), NIGH_INVALID,
         "a multiple of 8");
    says(&asked, nigh_region_memset(region, 1, 0, UINT64_MAX, WAIT_US), NIGH_INVALID,
         "beyond 2^64");
    says(&asked, nigh_region_copy_start(region, 0, region, 8, 8, WAIT_US, NULL), NIGH_INVALID,
         "no op");
    says(&asked, nigh_region_list(client, NULL, NULL, 1, WAIT_US, &count, &more), NIGH_INVALID,
         "no room for an entry");
    says(&asked, nigh_region_list(client, NULL, entries, 1, WAIT_US, NULL, &more), NIGH_INVALID,
         "their count");
    says(&asked, nigh_region_list(client, NULL, entries, 1, WAIT_US, &count, &more), NIGH_INVALID,
         "struct_size of the first entry is 8");
    entries[0].info.struct_size = sizeof(entries[0].info);
    says(&asked,
         nigh_region_list(client,
                          "0123456789012345678901234567890123456789012345678901234567890123456789",
                          entries, 1, WAIT_US, &count, &more),
         NIGH_INVALID, "longer than a region's name");
    spec.size = 0;
    says(&asked, nigh_region_create(client, &spec, WAIT_US, &other), NIGH_INVALID, "1 byte to");
    spec.size = 1 << 20;
    spec.chunk_size = 4097;
    says(&asked, nigh_region_create(client, &spec, WAIT_US, &other), NIGH_INVALID,
         "a multiple of 4096");
    spec.chunk_size = 4096;
    says(&asked, nigh_region_create(client, &spec, WAIT_US, &other), NIGH_LIMIT,
         "128 chunks at most");
    spec.chunk_size = 0;
    spec.other_access = 8;
    says(&asked, nigh_region_create(client, &spec, WAIT_US, &other), NIGH_INVALID,
         "no such rights");
    says(&asked, nigh_region_grant(region, NIGH_REGION_USER, UINT32_MAX, 1, 0, WAIT_US),
         NIGH_INVALID, "no user's uid");
    says(&asked, nigh_region_grant(region, NIGH_REGION_GROUP, 0, 8, 0, WAIT_US), NIGH_INVALID,
         "no such rights");
    says(&asked, nigh_region_grant(region, (nigh_region_whose)3, 0, 1, 0, WAIT_US), NIGH_INVALID,
         "whose");
    says(&asked, nigh_region_resize(region, 0, NIGH_REGION_LOCAL, 0, WAIT_US), NIGH_INVALID,
         "a byte at least");
    says(&asked, nigh_region_resize(region, 1, NIGH_REGION_NEAR, 0, WAIT_US), NIGH_INVALID,
         "nigh_region_create alone");
    assert_int_equal(asked_for(&asked, SESSION_REGION_CREATE), 0);
    assert_int_equal(asked_for(&asked, SESSION_REGION_GRANT), 0);
    assert_int_equal(asked_for(&asked, SESSION_REGION_RESIZE), 0);
    nigh_region_close(region);
    stop(&asked.f);
}

/* The node says that it cannot be; what it is that cannot, the region tells: one chunk of 4096
 * bytes. */
static void what_the_node_refuses_is_said(void **state)
{
    nigh_region_spec spec = {
        .struct_size = sizeof(spec), .name = "one", .size = 1, .where = NIGH_REGION_ON, .rank = 9};
    struct asked asked;
    nigh_region *region, *other = NULL;

    (void)state;
    begin(&asked, 4);
    region = open_one(&asked);
    atomic_store(&asked.status, NIGH_INVALID);
    /* What the region is cannot be looked at: none of what it may be is told as a fact. */
    says(&asked, nigh_region_move(region, 0, 9, WAIT_US), NIGH_INVALID, "or no node of rank 9");
    says(&asked, nigh_region_resize(region, 8192, NIGH_REGION_ON, 9, WAIT_US), NIGH_INVALID,
         "or there is no node of rank 9");
    says(&asked, nigh_region_resize(region, 8192, NIGH_REGION_LOCAL, 0, WAIT_US), NIGH_INVALID,
         "or the node is older");
    atomic_store(&asked.status, NIGH_LIMIT);
    says(&asked, nigh_region_resize(region, 128 * 4096, NIGH_REGION_LOCAL, 0, WAIT_US), NIGH_LIMIT,
         "or a node that was to hold some");
    atomic_store(&asked.status, NIGH_INVALID);
    atomic_store(&asked.answers_stat, true);
    says(&asked, nigh_region_create(asked.f.client, &spec, WAIT_US, &other), NIGH_INVALID,
         "no node of rank 9");
    says(&asked, nigh_region_grant(region, NIGH_REGION_USER, 7, 1, 0, WAIT_US), NIGH_INVALID,
         "user 7 owns the region");
    says(&asked, nigh_region_move(region, 3, 0, WAIT_US), NIGH_INVALID,
         "no chunk 3: the last one is 0");
    says(&asked, nigh_region_move(region, 0, 9, WAIT_US), NIGH_INVALID, "no node of rank 9");
    says(&asked, nigh_region_resize(region, 8192, NIGH_REGION_ON, 9, WAIT_US), NIGH_INVALID,
         "no node of rank 9");
    atomic_store(&asked.stat_flags, SESSION_REGION_DONATED);
    says(&asked, nigh_region_move(region, 0, 9, WAIT_US), NIGH_INVALID, "was donated");
    says(&asked, nigh_region_resize(region, 8192, NIGH_REGION_LOCAL, 0, WAIT_US), NIGH_INVALID,
         "was donated");
    atomic_store(&asked.status, NIGH_LIMIT);
    says(&asked, nigh_region_resize(region, 128 * 4096 + 1, NIGH_REGION_LOCAL, 0, WAIT_US),
         NIGH_LIMIT, "128 chunks at most");
    says(&asked, nigh_region_resize(region, 128 * 4096, NIGH_REGION_LOCAL, 0, WAIT_US), NIGH_LIMIT,
         "as many regions as it may");
    says(&asked, nigh_region_grant(region, NIGH_REGION_USER, 7, 1, 0, WAIT_US), NIGH_LIMIT,
         "as many users");
    atomic_store(&asked.status, NIGH_OK);
    nigh_region_close(region);
    stop(&asked.f);
}

/* ---- structs that grow ---------------------------------------------------- */

/* A program of before there were flags, one of today, and one of after something comes. */
static void lists_are_as_wide_as_the_caller_says(void **state)
{
    enum {
        OLDER = offsetof(nigh_region_info, flags),
        OWN = sizeof(nigh_region_info),
        NEWER = sizeof(nigh_region_info) + 32
    };
    static const size_t sizes[] = {OLDER, OWN, NEWER};
    static _Alignas(nigh_region_entry) uint8_t bytes[3 * (sizeof(nigh_region_entry) + 32)];
    const size_t head = offsetof(nigh_region_entry, info);
    nigh_region_entry *first = (nigh_region_entry *)(void *)bytes;
    struct asked asked;
    uint32_t more;
    size_t count;

    (void)state;
    begin(&asked, 4);
    for (size_t n = 0; n < sizeof(sizes) / sizeof(sizes[0]); n++) {
        const nigh_region_entry *second =
            (const nigh_region_entry *)(void *)(bytes + head + sizes[n]);

        memset(bytes, 0xee, sizeof(bytes));
        first->info.struct_size = sizes[n];
        assert_int_equal(nigh_region_list(asked.f.client, NULL, first, 2, WAIT_US, &count, &more),
                         NIGH_OK);
        assert_int_equal(count, 2);
        assert_string_equal(first->name, "a");
        assert_string_equal(second->name, "b");
        assert_int_equal(second->info.struct_size, sizes[n]);
        assert_int_equal(second->info.size, 2);
        assert_int_equal(bytes[2 * (head + sizes[n])], 0xee);
    }
    for (size_t wrong = 0; wrong < 4; wrong++) {
        first->info.struct_size = (const size_t[]){0, 8, OWN + 4, 100 * OWN}[wrong];
        assert_int_equal(nigh_region_list(asked.f.client, NULL, first, 1, WAIT_US, &count, &more),
                         NIGH_INVALID);
    }
    stop(&asked.f);
}

static void what_a_newer_program_knows_more_is_zero(void **state)
{
    struct {
        nigh_region_info info;
        uint64_t newer[2];
    } one;
    struct {
        nigh_region_entry entry;
        uint64_t newer[2];
    } listed;
    struct asked asked;
    nigh_region *region;
    uint32_t more;
    size_t count;

    (void)state;
    begin(&asked, 4);
    region = open_one(&asked);
    memset(&one, 0xee, sizeof(one));
    one.info.struct_size = sizeof(one);
    assert_int_equal(nigh_region_stat(region, WAIT_US, &one.info), NIGH_OK);
    assert_int_equal(one.info.size, 4096);
    assert_int_equal(one.newer[0] | one.newer[1], 0);
    one.info.struct_size = 100 * sizeof(one);
    assert_int_equal(nigh_region_stat(region, WAIT_US, &one.info), NIGH_INVALID);
    memset(&listed, 0xee, sizeof(listed));
    listed.entry.info.struct_size = sizeof(listed.entry.info) + sizeof(listed.newer);
    assert_int_equal(
        nigh_region_list(asked.f.client, NULL, &listed.entry, 1, WAIT_US, &count, &more), NIGH_OK);
    assert_int_equal(listed.newer[0] | listed.newer[1], 0);
    stop(&asked.f);
}

static void what_a_newer_program_asks_for_is_refused(void **state)
{
    struct {
        nigh_region_spec spec;
        uint64_t newer;
    } wish = {.spec = {.struct_size = sizeof(wish), .name = "one", .size = 1}};
    struct asked asked;
    nigh_region *region;

    (void)state;
    begin_donor(&asked, SESSION_HAS_DONATIONS);
    assert_int_equal(nigh_region_create(asked.f.client, &wish.spec, WAIT_US, &region), NIGH_OK);
    wish.newer = 1;
    assert_int_equal(nigh_region_create(asked.f.client, &wish.spec, WAIT_US, &region),
                     NIGH_INVALID);
    assert_int_equal(asked_for(&asked, SESSION_REGION_CREATE), 1);
    wish.spec.size = GIFT;
    assert_int_equal(donate_as(&asked, &wish.spec, WAIT_US), NIGH_INVALID);
    assert_int_equal(atomic_load(&asked.f.fake.donations), 0);
    wish.newer = 0;
    assert_int_equal(donate_as(&asked, &wish.spec, WAIT_US), NIGH_OK);
    wish.spec.struct_size = 100 * sizeof(wish);
    assert_int_equal(nigh_region_create(asked.f.client, &wish.spec, WAIT_US, &region),
                     NIGH_INVALID);
    stop(&asked.f);
}

/* By whichever call. */
static void no_bytes_are_moved_at_once(void **state)
{
    nigh_bulk_part none = {0};
    struct asked asked;
    nigh_region *region;
    void *memory;

    (void)state;
    begin(&asked, 4);
    region = open_one(&asked);
    assert_int_equal(nigh_bulk_alloc(asked.f.client, 4096, NIGH_BULK_READ | NIGH_BULK_WRITE,
                                     &memory, &none.bulk),
                     NIGH_OK);
    assert_int_equal(nigh_region_read(region, 0, NULL, 0, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_region_read_into(region, 0, &none, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_region_write(region, 0, NULL, 0, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_region_write_from(region, 0, &none, WAIT_US), NIGH_OK);
    assert_int_equal(
        asked_for(&asked, SESSION_REGION_READ) + asked_for(&asked, SESSION_REGION_WRITE), 0);
    stop(&asked.f);
}

/* ---- places --------------------------------------------------------------- */

/* Writes that the node does not end take all there are. */
static void take_places(struct asked *asked, nigh_region *region, nigh_op *ops)
{
    keep(asked, SESSION_REGION_WRITE);
    for (uint32_t n = 0; n < asked->places; n++) {
        assert_int_equal(nigh_region_write_start(region, 0, "x", 1, NIGH_FOREVER, &ops[n]),
                         NIGH_OK);
    }
    assert_true(SUPPORT_WAIT(asked_for(asked, SESSION_REGION_WRITE) == asked->places, 20000));
}

/* It is what others wait for. */
static void what_ends_a_handle_or_a_map_needs_no_place(void **state)
{
    struct asked asked;
    nigh_region *region, *held;
    void *address;
    nigh_op ops[2];

    (void)state;
    begin(&asked, 2);
    region = open_one(&asked);
    assert_int_equal(nigh_region_lock(region, 7, NIGH_REGION_EXCLUSIVE, 0, NIGH_FOREVER, &held),
                     NIGH_OK);
    assert_int_equal(nigh_region_map(region, 0, 0, NIGH_REGION_READ, NIGH_FOREVER, &address),
                     NIGH_OK);
    take_places(&asked, region, ops);
    assert_int_equal(nigh_region_unlock(held), NIGH_OK);
    assert_int_equal(asked_for(&asked, SESSION_REGION_CLOSE), 1);
    assert_int_equal(nigh_region_unmap(region, address), NIGH_OK);
    assert_int_equal(asked_for(&asked, SESSION_REGION_UNMAP), 1);
    stop(&asked.f);
}

/* Nor is anything that waits for others to arrive. */
static void a_barrier_needs_no_place(void **state)
{
    struct asked asked;
    nigh_region *region;
    nigh_op ops[2];

    (void)state;
    begin(&asked, 2);
    region = open_one(&asked);
    take_places(&asked, region, ops);
    assert_int_equal(nigh_region_barrier(region, 3, 200, WAIT_US), NIGH_OK);
    assert_int_equal(asked_for(&asked, SESSION_REGION_BARRIER), 1);
    assert_true(asked.last[SESSION_REGION_BARRIER].offset == UINT64_MAX);
    assert_int_equal(asked.last[SESSION_REGION_BARRIER].ref, 200);
    assert_int_equal(nigh_region_barrier(region, 3, 200, 0), NIGH_TIMEOUT);
    assert_int_equal(asked_for(&asked, SESSION_REGION_BARRIER), 1);
    stop(&asked.f);
}

/* A write of many steps takes what comes free in its turn only. */
static void much_and_little_take_turns(void **state)
{
    enum {
        STEPS = 64
    };
    static uint8_t bytes[STEPS * LIMIT_CALL_BYTES];
    struct asked asked;
    nigh_region *region;
    nigh_op much, little[2];
    uint8_t byte;

    (void)state;
    begin(&asked, 2);
    region = open_one(&asked);
    keep(&asked, SESSION_REGION_WRITE);
    assert_int_equal(nigh_region_write_start(region, 0, bytes, sizeof(bytes), NIGH_FOREVER, &much),
                     NIGH_OK);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(nigh_region_read_start(region, 0, &byte, 1, NIGH_FOREVER, &little[n]),
                         NIGH_OK);
    }
    /* One place comes free at a time, and is taken before the next does. */
    for (uint32_t n = 0; n < 4; n++) {
        assert_true(SUPPORT_WAIT(asked_for(&asked, SESSION_REGION_WRITE) == 2 + n, 20000));
        answer_kept(&asked, n, (struct session_cqe){.status = NIGH_OK});
        assert_true(SUPPORT_WAIT(
            (nigh_poll(asked.f.client), asked_for(&asked, SESSION_REGION_WRITE) == 3 + n), 20000));
    }
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(nigh_op_status(&little[n]), NIGH_OK);
    }
    assert_int_equal(nigh_op_status(&much), NIGH_PENDING);
    stop(&asked.f);
}

/* ---- without waiting ------------------------------------------------------ */

/* What was asked last for, as it lies in its place. */
static const void *question(struct asked *asked, enum session_region_what what)
{
    return asked->f.fake.arena + asked->last[what].offset;
}

static void clobber(void *bytes, size_t size)
{
    memset(bytes, 0xee, size);
}

/* Asked when there is room at last, by a caller who has none of it any more. */
static void what_is_asked_later_is_what_was_said(void **state)
{
    enum {
        PLACES = 8
    };
    struct session_region_lock locks = {
        .number = 7, .term_us = 9, .mode = SESSION_REGION_EXCLUSIVE};
    struct session_bulk moves = {
        .number = 1, .offset = 64, .bytes = 128, .access = SESSION_MEMORY_WRITE};
    struct asked asked;
    nigh_region *region, *held = NULL;
    nigh_op ops[PLACES], swap, move, lock;
    nigh_bulk_part part = {.offset = 64, .size = 128};
    uint64_t old = 1;
    void *memory;

    (void)state;
    begin(&asked, PLACES);
    region = open_one(&asked);
    assert_int_equal(nigh_bulk_alloc(asked.f.client, 4096, NIGH_BULK_WRITE, &memory, &part.bulk),
                     NIGH_OK);
    take_places(&asked, region, ops);
    keep(&asked, SESSION_REGION_SWAP);
    keep(&asked, SESSION_REGION_READ);
    keep(&asked, SESSION_REGION_LOCK);
    assert_int_equal(nigh_region_compare_swap_start(region, 8, 5, 6, NIGH_FOREVER, &old, &swap),
                     NIGH_OK);
    assert_int_equal(nigh_region_read_into_start(region, 16, &part, NIGH_FOREVER, &move), NIGH_OK);
    clobber(&part, sizeof(part));
    assert_int_equal(
        nigh_region_lock_start(region, 7, NIGH_REGION_EXCLUSIVE, 9, NIGH_FOREVER, &held, &lock),
        NIGH_OK);
    assert_int_equal(asked_for(&asked, SESSION_REGION_SWAP) +
                         asked_for(&asked, SESSION_REGION_READ) +
                         asked_for(&asked, SESSION_REGION_LOCK),
                     0);
    for (uint32_t n = 0; n < PLACES; n++) {
        answer_kept(&asked, n, (struct session_cqe){.status = NIGH_OK});
    }
    assert_true(SUPPORT_WAIT(
        (nigh_poll(asked.f.client), asked_for(&asked, SESSION_REGION_LOCK) == 1), 20000));
    assert_int_equal(asked.last[SESSION_REGION_SWAP].ref, 6);
    assert_int_equal(asked.last[SESSION_REGION_SWAP].data_size, sizeof(uint64_t));
    assert_memory_equal(question(&asked, SESSION_REGION_SWAP), &(uint64_t){5}, sizeof(uint64_t));
    assert_int_equal(asked.last[SESSION_REGION_READ].flags, SESSION_FLAG_INTO);
    assert_memory_equal(question(&asked, SESSION_REGION_READ), &moves, sizeof(moves));
    assert_memory_equal(question(&asked, SESSION_REGION_LOCK), &locks, sizeof(locks));
    answer_kept(&asked, PLACES, (struct session_cqe){.generation = 4});
    assert_int_equal(nigh_wait(asked.f.client, &swap, WAIT_US), NIGH_OK);
    assert_int_equal(old, 4);
    assert_null(held);
    stop(&asked.f);
}

/* The node has them all at once; each has its own end, and its own word. */
static void one_thread_has_several_under_way(void **state)
{
    enum {
        COUNT = 4
    };
    struct asked asked;
    nigh_region *region;
    nigh_bulk_part part = {.size = 4096};
    nigh_op moves[COUNT], words[COUNT];
    uint64_t olds[COUNT] = {0};
    void *memory;

    (void)state;
    begin(&asked, 2 * COUNT);
    region = open_one(&asked);
    assert_int_equal(nigh_bulk_alloc(asked.f.client, 4096, NIGH_BULK_READ, &memory, &part.bulk),
                     NIGH_OK);
    keep(&asked, SESSION_REGION_WRITE);
    keep(&asked, SESSION_REGION_ADD);
    for (uint32_t n = 0; n < COUNT; n++) {
        assert_int_equal(nigh_region_write_from_start(region, 0, &part, NIGH_FOREVER, &moves[n]),
                         NIGH_OK);
    }
    assert_true(SUPPORT_WAIT(asked_for(&asked, SESSION_REGION_WRITE) == COUNT, 20000));
    for (uint32_t n = 0; n < COUNT; n++) {
        assert_int_equal(
            nigh_region_fetch_add_start(region, 0, 1, NIGH_FOREVER, &olds[n], &words[n]), NIGH_OK);
    }
    assert_true(SUPPORT_WAIT(asked_for(&asked, SESSION_REGION_ADD) == COUNT, 20000));
    assert_int_equal(nigh_cancel(asked.f.client, &words[1]), NIGH_CANCELED);
    for (uint32_t n = COUNT; n-- > 0;) {
        answer_kept(&asked, COUNT + n,
                    (struct session_cqe){.generation = 40 + n,
                                         .status = n == 2 ? NIGH_PEER_LOST : NIGH_OK});
        answer_kept(&asked, n, (struct session_cqe){.status = NIGH_OK});
        assert_int_equal(nigh_wait(asked.f.client, &moves[n], WAIT_US), NIGH_OK);
    }
    assert_int_equal(nigh_op_status(&words[0]), NIGH_OK);
    assert_int_equal(nigh_op_status(&words[2]), NIGH_PEER_LOST);
    assert_int_equal(nigh_op_status(&words[3]), NIGH_OK);
    assert_memory_equal(olds, ((uint64_t[COUNT]){40, 0, 0, 43}), sizeof(olds));
    stop(&asked.f);
}

/* That go with the session. */
static uint32_t handles(nigh_client *client)
{
    uint32_t count = 0;

    client_lock(client);
    LIST_FOREACH(node, &client->regions)
    {
        count++;
    }
    client_unlock(client);
    return count;
}

static void a_lock_is_the_sessions_or_goes_back(void **state)
{
    struct asked asked;
    nigh_region *region, *held = NULL, *late = NULL;
    nigh_op op;

    (void)state;
    begin(&asked, 4);
    region = open_one(&asked);
    assert_int_equal(nigh_region_lock_start(region, 7, (nigh_region_mode)3, 0, WAIT_US, &held, &op),
                     NIGH_INVALID);
    assert_int_equal(nigh_region_lock_start(region, 7, NIGH_REGION_SHARED, 0, WAIT_US, NULL, &op),
                     NIGH_INVALID);
    assert_int_equal(nigh_region_lock_start(region, 7, NIGH_REGION_SHARED, 0, WAIT_US, &held, NULL),
                     NIGH_INVALID);
    assert_int_equal(nigh_region_lock_start(region, 7, NIGH_REGION_SHARED, 0, WAIT_US, &held, &op),
                     NIGH_OK);
    assert_int_equal(nigh_wait(asked.f.client, &op, WAIT_US), NIGH_OK);
    assert_non_null(held);
    assert_int_equal(handles(asked.f.client), 2);
    keep(&asked, SESSION_REGION_LOCK);
    assert_int_equal(nigh_region_lock_start(region, 8, NIGH_REGION_SHARED, 0, WAIT_US, &late, &op),
                     NIGH_OK);
    assert_true(SUPPORT_WAIT(asked_for(&asked, SESSION_REGION_LOCK) == 2, 20000));
    assert_int_equal(nigh_cancel(asked.f.client, &op), NIGH_CANCELED);
    answer_kept(&asked, 0, (struct session_cqe){.generation = 77, .flags = SESSION_CQE_OPENED});
    assert_true(SUPPORT_WAIT(
        (nigh_poll(asked.f.client), asked_for(&asked, SESSION_REGION_CLOSE) == 1), 20000));
    assert_memory_equal(asked.last[SESSION_REGION_CLOSE].id, &(uint64_t){77}, sizeof(uint64_t));
    assert_null(late);
    assert_int_equal(handles(asked.f.client), 2);
    stop(&asked.f); /* `held` goes with it */
}

#ifdef CLIENT_LACKS_MEMORY
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

static _Thread_local bool lacks_memory; /* the node's thread has some */

void *__wrap_calloc(size_t count, size_t size)
{
    return lacks_memory ? NULL : __real_calloc(count, size);
}

/* It has ended, as all that does not begin: whoever waits for it waits for nothing. */
static void a_lock_without_memory_has_ended(void **state)
{
    struct asked asked;
    nigh_region *region, *held = NULL;
    nigh_op op = {{0}};
    nigh_status status;

    (void)state;
    begin(&asked, 4);
    region = open_one(&asked);
    lacks_memory = true;
    status = nigh_region_lock_start(region, 7, NIGH_REGION_SHARED, 0, WAIT_US, &held, &op);
    lacks_memory = false;
    assert_int_equal(status, NIGH_NO_RESOURCES);
    assert_int_equal(nigh_op_status(&op), NIGH_NO_RESOURCES);
    assert_int_equal(nigh_wait(asked.f.client, &op, 0), NIGH_NO_RESOURCES);
    lacks_memory = true;
    status = nigh_region_lock(region, 7, NIGH_REGION_SHARED, 0, WAIT_US, &held);
    lacks_memory = false;
    assert_int_equal(status, NIGH_NO_RESOURCES);
    assert_null(held);
    assert_int_equal(asked_for(&asked, SESSION_REGION_LOCK), 0);
    assert_int_equal(handles(asked.f.client), 1);
    assert_int_equal(nigh_region_lock_start(region, 7, NIGH_REGION_SHARED, 0, WAIT_US, &held, &op),
                     NIGH_OK);
    assert_int_equal(nigh_wait(asked.f.client, &op, WAIT_US), NIGH_OK);
    assert_non_null(held);
    stop(&asked.f);
}
#endif

/* Its caller hears so: nobody else would come by to give it back. */
static void a_lock_that_is_cancelled_as_it_is_granted_is_held(void **state)
{
    struct asked asked;
    nigh_region *region, *held = NULL;
    nigh_op op;

    (void)state;
    begin(&asked, 4);
    region = open_one(&asked);
    keep(&asked, SESSION_REGION_LOCK);
    atomic_store(&asked.grants_first, true);
    assert_int_equal(
        nigh_region_lock_start(region, 7, NIGH_REGION_SHARED, 0, NIGH_FOREVER, &held, &op),
        NIGH_OK);
    assert_int_equal(nigh_cancel(asked.f.client, &op), NIGH_OK);
    assert_non_null(held);
    assert_int_equal(nigh_region_unlock(held), NIGH_OK);
    stop(&asked.f);
}

/* Nothing of it is left but the question. */
static void the_handle_of_an_unlock_is_gone_at_once(void **state)
{
    struct asked asked;
    nigh_region *region, *held[3];
    nigh_op ops[3];
    char said[256];

    (void)state;
    begin(&asked, 4);
    region = open_one(&asked);
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(
            nigh_region_lock(region, n, NIGH_REGION_EXCLUSIVE, 0, NIGH_FOREVER, &held[n]), NIGH_OK);
    }
    keep(&asked, SESSION_REGION_CLOSE);
    assert_int_equal(nigh_region_unlock_start(NULL, &ops[0]), NIGH_INVALID);
    assert_int_equal(nigh_region_unlock_start(held[0], NULL), NIGH_INVALID);
    assert_int_equal(handles(asked.f.client), 4);
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(nigh_region_unlock_start(held[n], &ops[n]), NIGH_OK);
    }
    assert_int_equal(handles(asked.f.client), 1);
    assert_true(SUPPORT_WAIT(asked_for(&asked, SESSION_REGION_CLOSE) == 3, 20000));
    answer_kept(&asked, 0, (struct session_cqe){.status = NIGH_OK});
    answer_kept(&asked, 1, (struct session_cqe){.status = NIGH_LOCK_LOST});
    assert_int_equal(nigh_wait(asked.f.client, &ops[0], WAIT_US), NIGH_OK);
    assert_int_equal(nigh_wait(asked.f.client, &ops[1], WAIT_US), NIGH_LOCK_LOST);
    nigh_client_error(asked.f.client, said, sizeof(said));
    assert_non_null(strstr(said, "its term was over"));
    assert_int_equal(nigh_op_status(&ops[2]), NIGH_PENDING);
    nigh_client_close(asked.f.client);
    assert_int_equal(nigh_op_status(&ops[2]), NIGH_CLOSED);
    asked.f.client = NULL;
    stop(&asked.f);
}

static bool has_room(nigh_client *client)
{
    bool has;

    client_lock(client);
    has = ring_has_room(client, 0, UINT32_MAX);
    client_unlock(client);
    return has;
}

/* As many barriers and writes as there may be are waited for: what lets a lock go is said when one
 * of these has ended, of a handle that is not there any more. */
static void an_unlock_is_said_when_there_is_room(void **state)
{
    enum {
        PLACES = LIMIT_RING_CREATES,
        COUNT = LIMIT_RING_WAITERS + LIMIT_RING_CREATES
    };
    static nigh_op ops[COUNT];
    struct asked asked;
    nigh_region *region, *held;
    uint64_t number;
    void *others;
    nigh_op op;

    (void)state;
    begin(&asked, PLACES);
    region = open_one(&asked);
    assert_int_equal(nigh_region_lock(region, 7, NIGH_REGION_EXCLUSIVE, 0, NIGH_FOREVER, &held),
                     NIGH_OK);
    number = asked.number;
    keep(&asked, SESSION_REGION_BARRIER);
    for (uint32_t n = PLACES; n < COUNT; n++) {
        assert_int_equal(nigh_region_barrier_start(region, n, 2, NIGH_FOREVER, &ops[n]), NIGH_OK);
    }
    take_places(&asked, region, ops);
    assert_true(
        SUPPORT_WAIT(asked_for(&asked, SESSION_REGION_BARRIER) == LIMIT_RING_WAITERS, 20000));
    assert_int_equal(nigh_region_unlock_start(held, &op), NIGH_OK);
    others = malloc(sizeof(struct nigh_region)); /* where it was, if it is nowhere */
    assert_non_null(others);
    clobber(others, sizeof(struct nigh_region));
    assert_int_equal(asked_for(&asked, SESSION_REGION_CLOSE), 0);
    answer_kept(&asked, 0, (struct session_cqe){.status = NIGH_OK});
    assert_int_equal(nigh_wait(asked.f.client, &op, WAIT_US), NIGH_OK);
    assert_int_equal(asked_for(&asked, SESSION_REGION_CLOSE), 1);
    assert_memory_equal(asked.last[SESSION_REGION_CLOSE].id, &number, sizeof(number));
    free(others);
    stop(&asked.f);
}

/* Who cancels it has no handle to say it again: it goes on, and is said as soon as there is any
 * room at all. */
static void an_unlock_that_is_cancelled_goes_on(void **state)
{
    enum {
        PLACES = LIMIT_RING_CREATES,
        COUNT = LIMIT_RING_WAITERS + LIMIT_RING_CREATES,
        IDS = LIMIT_RING_ENTRIES
    };
    static nigh_op ops[COUNT];
    static nigh_id ids[IDS];
    struct asked asked;
    nigh_region *region, *held[2];
    nigh_op unlocks[2], refresh;

    (void)state;
    begin(&asked, PLACES);
    region = open_one(&asked);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(
            nigh_region_lock(region, n, NIGH_REGION_EXCLUSIVE, 0, NIGH_FOREVER, &held[n]), NIGH_OK);
    }
    keep(&asked, SESSION_REGION_BARRIER);
    for (uint32_t n = PLACES; n < COUNT; n++) {
        assert_int_equal(nigh_region_barrier_start(region, n, 2, NIGH_FOREVER, &ops[n]), NIGH_OK);
    }
    take_places(&asked, region, ops);
    assert_true(
        SUPPORT_WAIT(asked_for(&asked, SESSION_REGION_BARRIER) == LIMIT_RING_WAITERS, 20000));
    assert_int_equal(nigh_region_unlock_start(held[0], &unlocks[0]), NIGH_OK);
    assert_int_equal(nigh_op_status(&unlocks[0]), NIGH_PENDING);
    assert_int_equal(nigh_cancel(asked.f.client, &unlocks[0]), NIGH_CANCELED);
    assert_true(SUPPORT_WAIT(asked_for(&asked, SESSION_REGION_CLOSE) == 1, 20000));
    assert_memory_equal(asked.last[SESSION_REGION_CLOSE].id, &(uint64_t){asked.number - 1},
                        sizeof(uint64_t));
    /* Nor is there room for what does not wait. */
    atomic_store(&asked.is_stubborn, true);
    for (uint32_t i = 0; i < IDS; i++) {
        ids[i] = id_of(i);
    }
    assert_int_equal(nigh_refresh_start(asked.f.client, ids, IDS, &refresh), NIGH_OK);
    assert_true(SUPPORT_WAIT((nigh_poll(asked.f.client), atomic_load(&asked.others) > 0) &&
                                 !has_room(asked.f.client),
                             20000));
    assert_int_equal(nigh_region_unlock_start(held[1], &unlocks[1]), NIGH_OK);
    assert_int_equal(nigh_cancel(asked.f.client, &unlocks[1]), NIGH_CANCELED);
    clobber(&unlocks[1], sizeof(unlocks[1]));
    assert_int_equal(asked_for(&asked, SESSION_REGION_CLOSE), 1);
    answer_kept(&asked, 0, (struct session_cqe){.status = NIGH_OK});
    assert_true(SUPPORT_WAIT(
        (nigh_poll(asked.f.client), asked_for(&asked, SESSION_REGION_CLOSE) == 2), 20000));
    assert_memory_equal(asked.last[SESSION_REGION_CLOSE].id, &asked.number, sizeof(uint64_t));
    stop(&asked.f);
}

/* Of locks at a node that stands still one is waited for: the others are given up at once. */
static void many_cancelled_locks_wait_as_long_as_one(void **state)
{
    enum {
        COUNT = 40
    };
    static nigh_region *held[COUNT];
    static nigh_op ops[COUNT];
    struct asked asked;
    nigh_region *region;
    uint64_t begun_us, took_us;

    (void)state;
    begin(&asked, 2 * COUNT);
    region = open_one(&asked);
    keep(&asked, SESSION_REGION_LOCK);
    atomic_store(&asked.is_stubborn, true);
    for (uint32_t n = 0; n < COUNT; n++) {
        assert_int_equal(nigh_region_lock_start(region, n, NIGH_REGION_SHARED, 0, NIGH_FOREVER,
                                                &held[n], &ops[n]),
                         NIGH_OK);
    }
    assert_true(SUPPORT_WAIT(
        (nigh_poll(asked.f.client), asked_for(&asked, SESSION_REGION_LOCK) == COUNT), 20000));
    begun_us = support_now_us();
    for (uint32_t n = 0; n < COUNT; n++) {
        assert_int_equal(nigh_cancel(asked.f.client, &ops[n]), NIGH_CANCELED);
    }
    took_us = support_now_us() - begun_us;
    assert_true(took_us >= LIMIT_NODE_GRACE_US);
    assert_true(took_us < COUNT / 2 * LIMIT_NODE_GRACE_US);
    stop(&asked.f);
}

/* It is said to the op, too, whatever that was before. */
static void an_unlock_that_cannot_begin_has_ended(void **state)
{
    struct asked asked;
    nigh_region *region, *held;
    nigh_op op;

    (void)state;
    begin(&asked, 4);
    region = open_one(&asked);
    assert_int_equal(nigh_region_lock(region, 7, NIGH_REGION_SHARED, 0, NIGH_FOREVER, &held),
                     NIGH_OK);
    assert_int_equal(nigh_region_fetch_add_start(region, 0, 1, WAIT_US, NULL, &op), NIGH_OK);
    assert_int_equal(nigh_wait(asked.f.client, &op, WAIT_US), NIGH_OK);
    client_lock(asked.f.client);
    client_lose(asked.f.client, NIGH_NODE_LOST);
    fake_node_die(&asked.f.fake, false);
    assert_true(SUPPORT_WAIT(resume_ensure(asked.f.client, WAIT_US) == NIGH_OK, 20000));
    client_unlock(asked.f.client);
    assert_int_equal(nigh_region_unlock_start(held, &op), NIGH_CLOSED);
    assert_int_equal(nigh_op_status(&op), NIGH_CLOSED);
    assert_int_equal(nigh_wait(asked.f.client, &op, WAIT_US), NIGH_CLOSED);
    stop(&asked.f);
}

struct waiter {
    nigh_region *region, *held;
    pthread_t thread;
    nigh_status status;
};

static void *wait_for_lock(void *context)
{
    struct waiter *waiter = context;

    waiter->status =
        nigh_region_lock(waiter->region, 7, NIGH_REGION_EXCLUSIVE, 0, NIGH_FOREVER, &waiter->held);
    return NULL;
}

/* Of ops that have found no room. */
static uint32_t fed(nigh_client *client)
{
    uint32_t count = 0;

    client_lock(client);
    LIST_FOREACH(node, &client->feed)
    {
        count++;
    }
    client_unlock(client);
    return count;
}

/* However many threads wait for a lock, the one that holds it writes, and lets go. */
static void waits_for_a_lock_leave_places(void **state)
{
    enum {
        MORE = 3,
        WAITERS = LIMIT_UNLOCKED_PLACES + 2 * MORE
    };
    static struct waiter waiters[WAITERS];
    struct asked asked;
    nigh_region *region, *held;

    (void)state;
    begin(&asked, LIMIT_UNLOCKED_PLACES + LIMIT_UNLOCKED_PLACES);
    region = open_one(&asked);
    assert_int_equal(nigh_region_lock(region, 7, NIGH_REGION_EXCLUSIVE, 0, NIGH_FOREVER, &held),
                     NIGH_OK);
    keep(&asked, SESSION_REGION_LOCK);
    for (uint32_t n = 0; n < WAITERS; n++) {
        waiters[n] = (struct waiter){.region = region};
        assert_int_equal(pthread_create(&waiters[n].thread, NULL, wait_for_lock, &waiters[n]), 0);
        assert_true(SUPPORT_WAIT(
            asked_for(&asked, SESSION_REGION_LOCK) - 1 + fed(asked.f.client) == n + 1, 20000));
    }
    assert_int_equal(asked_for(&asked, SESSION_REGION_LOCK), 1 + LIMIT_UNLOCKED_PLACES);
    assert_int_equal(nigh_region_write(held, 0, "x", 1, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_region_unlock(held), NIGH_OK);
    /* All get it, those too that were not asked for. */
    for (uint32_t n = 0; n < WAITERS; n++) {
        assert_true(SUPPORT_WAIT(asked_for(&asked, SESSION_REGION_LOCK) > 1 + n, 20000));
        answer_kept(&asked, n,
                    (struct session_cqe){.generation = 100 + n, .flags = SESSION_CQE_OPENED});
    }
    for (uint32_t n = 0; n < WAITERS; n++) {
        assert_int_equal(pthread_join(waiters[n].thread, NULL), 0);
        assert_int_equal(waiters[n].status, NIGH_OK);
    }
    stop(&asked.f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handle_is_of_the_connection_that_opened_it),
        cmocka_unit_test(a_handle_that_came_too_late_is_closed_through_a_full_ring),
        cmocka_unit_test(a_map_is_of_the_connection_that_gave_it),
        cmocka_unit_test(what_is_donated_in_vain_is_dropped),
        cmocka_unit_test(what_was_given_up_is_dropped_when_the_node_says_its_number),
        cmocka_unit_test(a_region_that_cannot_be_opened_is_not_denied),
        cmocka_unit_test(what_is_donated_is_of_the_connection_that_took_it),
        cmocka_unit_test(why_it_is_not_taken_is_said),
        cmocka_unit_test(an_older_node_is_told_of_no_drop),
        cmocka_unit_test(why_it_failed_is_said),
        cmocka_unit_test(unlocks_locks_alone),
        cmocka_unit_test(what_cannot_be_is_said),
        cmocka_unit_test(what_the_node_refuses_is_said),
        cmocka_unit_test(lists_are_as_wide_as_the_caller_says),
        cmocka_unit_test(what_a_newer_program_knows_more_is_zero),
        cmocka_unit_test(what_a_newer_program_asks_for_is_refused),
        cmocka_unit_test(no_bytes_are_moved_at_once),
        cmocka_unit_test(what_ends_a_handle_or_a_map_needs_no_place),
        cmocka_unit_test(a_barrier_needs_no_place),
        cmocka_unit_test(much_and_little_take_turns),
        cmocka_unit_test(what_is_asked_later_is_what_was_said),
        cmocka_unit_test(one_thread_has_several_under_way),
        cmocka_unit_test(a_lock_is_the_sessions_or_goes_back),
#ifdef CLIENT_LACKS_MEMORY
        cmocka_unit_test(a_lock_without_memory_has_ended),
#endif
        cmocka_unit_test(a_lock_that_is_cancelled_as_it_is_granted_is_held),
        cmocka_unit_test(the_handle_of_an_unlock_is_gone_at_once),
        cmocka_unit_test(an_unlock_is_said_when_there_is_room),
        cmocka_unit_test(an_unlock_that_is_cancelled_goes_on),
        cmocka_unit_test(many_cancelled_locks_wait_as_long_as_one),
        cmocka_unit_test(an_unlock_that_cannot_begin_has_ended),
        cmocka_unit_test(waits_for_a_lock_leave_places),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
