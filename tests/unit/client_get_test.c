/* SPDX-License-Identifier: Apache-2.0 */
/* Gets and releases: without the lane, through it, many ids, many threads, misuse. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "client_fixture.h"

static void test_get_finds_without_asking(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_view view;
    uint32_t asked;

    (void)state;
    start(&f, &(struct fake_options){.lanes = 2});
    seal(&f, 1, "one");
    asked = atomic_load(&f.fake.submissions);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
        assert_int_equal(view.data_size, 3);
        assert_memory_equal(view.data, "one", 3);
        assert_null(view.meta);
        assert_int_equal(fake_node_pins(&f.fake), 1);
        assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
        assert_int_equal(fake_node_pins(&f.fake), 0);
        assert_null(view.data);
    }
    assert_int_equal(atomic_load(&f.fake.submissions), asked);
    stop(&f);
}

/* One object in each extent. */
static void seal_in_each_extent(struct fixture *fixture)
{
    for (uint32_t i = 0; i < FAKE_EXTENTS; i++) {
        fake_node_lock(&fixture->fake);
        fixture->fake.bump = i * FAKE_EXTENT_BYTES;
        fake_node_unlock(&fixture->fake);
        seal(fixture, i, "object");
    }
}

static uint32_t asked_to_get(struct fixture *fixture, uint32_t number)
{
    uint32_t before = atomic_load(&fixture->fake.extents_asked);
    nigh_id id = id_of(number);
    nigh_view view;

    assert_int_equal(nigh_get(fixture->client, &id, 1, 0, &view), NIGH_OK);
    assert_memory_equal(view.data, "object", 6);
    assert_int_equal(nigh_release(fixture->client, &view), NIGH_OK);
    return atomic_load(&fixture->fake.extents_asked) - before;
}

static void test_who_reads_more_has_more_asked_for(void **state)
{
    /* 0; 1, 2; 3 to 6; 7 and seven that there are not. Then what is mapped is asked for no more. */
    static const uint32_t asked[FAKE_EXTENTS] = {1, 2, 0, 4, 0, 0, 0, 8};
    struct fixture f;

    (void)state;
    start(&f, &(struct fake_options){0});
    seal_in_each_extent(&f);
    for (uint32_t i = 0; i < 2 * FAKE_EXTENTS; i++) {
        assert_int_equal(asked_to_get(&f, i % FAKE_EXTENTS), i < FAKE_EXTENTS ? asked[i] : 0);
    }
    stop(&f);
}

static void test_who_is_refused_some_asks_for_fewer(void **state)
{
    /* 0; 7 and one that there is not; 5 alone; 1, 2; 3, 4, and not 5, which is there. */
    static const uint32_t numbers[] = {0, 7, 5, 1, 3};
    static const uint32_t asked[] = {1, 2, 1, 2, 2};
    struct fixture f;

    (void)state;
    start(&f, &(struct fake_options){0});
    seal_in_each_extent(&f);
    for (uint32_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        assert_int_equal(asked_to_get(&f, numbers[i]), asked[i]);
    }
    stop(&f);
}

static void test_miss_does_not_wait(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_view view;
    uint32_t asked;

    (void)state;
    start(&f, &(struct fake_options){0});
    asked = atomic_load(&f.fake.submissions);
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_TIMEOUT);
    assert_int_equal(view.status, NIGH_TIMEOUT);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    assert_int_equal(atomic_load(&f.fake.submissions), asked);
    stop(&f);
}

static void test_many_ids_some_twice_some_missing(void **state)
{
    struct fixture f;
    nigh_id ids[5] = {id_of(1), id_of(2), id_of(1), id_of(99), id_of(3)};
    nigh_view views[5];
    uint64_t begun_us;

    (void)state;
    start(&f, &(struct fake_options){.lanes = 4});
    seal(&f, 1, "one");
    seal(&f, 2, "two");
    seal(&f, 3, "three");
    begun_us = support_now_us();
    assert_int_equal(nigh_get(f.client, ids, 5, 20000, views), NIGH_TIMEOUT);
    assert_true(support_now_us() - begun_us >= 20000);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(views[i].status, i == 3 ? NIGH_TIMEOUT : NIGH_OK);
    }
    assert_ptr_equal(views[0].data, views[2].data);
    assert_int_equal(fake_node_pins(&f.fake), 4);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(nigh_release(f.client, &views[i]), NIGH_OK);
    }
    assert_int_equal(fake_node_pins(&f.fake), 0);
    stop(&f);
}

struct later {
    struct fixture *fixture;
    pthread_t thread;
};

/* Seals once the get waits in the lane. */
static void *seal_when_held(void *context)
{
    struct later *later = context;
    struct fake_node *fake = &later->fixture->fake;
    bool held = false;

    while (!held) {
        fake_node_lock(fake);
        held = fake->held_count > 0;
        fake_node_unlock(fake);
        support_breathe();
    }
    seal(later->fixture, 5, "late");
    return NULL;
}

static void test_get_waits_for_a_seal(void **state)
{
    static const uint32_t spins[] = {0, 200};
    nigh_id id = id_of(5);
    nigh_view view;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        struct later later = {.fixture = &f};

        start(&f, &(struct fake_options){.spin_us = spins[i]});
        assert_int_equal(pthread_create(&later.thread, NULL, seal_when_held, &later), 0);
        assert_int_equal(nigh_get(f.client, &id, 1, 10000000, &view), NIGH_OK);
        assert_memory_equal(view.data, "late", 4);
        assert_int_equal(pthread_join(later.thread, NULL), 0);
        assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
        assert_int_equal(fake_node_pins(&f.fake), 0);
        stop(&f);
    }
}

/* A lane that never answers: the call ends, tells the lane, and undoes what comes late. */
static enum fake_action swallow_gets(void *context, struct fake_node *fake, uint32_t lane,
                                     const struct session_sqe *sqe, struct session_cqe *cqe)
{
    struct session_sqe *kept = context;

    (void)fake;
    (void)lane;
    (void)cqe;
    if (sqe->op != SESSION_OP_GET) {
        return FAKE_SERVE;
    }
    *kept = *sqe;
    return FAKE_KEEP;
}

static void test_silent_lane_is_given_up(void **state)
{
    struct fixture f;
    struct session_sqe kept = {0};
    nigh_id id = id_of(1);
    nigh_view view;
    struct session_cqe late;
    nigh_node_stats stats = {.struct_size = sizeof(stats)};

    (void)state;
    start(&f, &(struct fake_options){.hook = swallow_gets, .context = &kept});
    assert_int_equal(nigh_get(f.client, &id, 1, 1000, &view), NIGH_TIMEOUT);
    assert_int_equal(view.status, NIGH_TIMEOUT);
    assert_true(SUPPORT_WAIT(atomic_load(&f.fake.cancels) == 1, 20000));
    /* The answer after all, with a pin. */
    fake_node_lock(&f.fake);
    late = (struct session_cqe){.cookie = kept.cookie, .pin = 3};
    shared_store_relaxed(&session_lane_of(f.fake.memory, 0)->pin_entry[3], pin_ref(0, 0));
    fake_node_complete(&f.fake, 0, &late);
    fake_node_unlock(&f.fake);
    assert_int_equal(nigh_stats(f.client, &stats), NIGH_OK);
    assert_int_equal(fake_node_pins(&f.fake), 0);
    stop(&f);
}

/* A program of a later version knows more numbers, and finds 0 there; an older one has fewer
 * written; one that has not said what it knows, none. */
static void test_stats_are_as_long_as_the_caller_knows(void **state)
{
    struct {
        nigh_node_stats stats;
        uint64_t more;
    } later;
    const size_t wrong[] = {0, 8, UINT64_C(0x5555555555555555)};
    const size_t older = offsetof(nigh_node_stats, objects);
    struct fixture f;

    (void)state;
    start(&f, &(struct fake_options){.hook = NULL});
    memset(&later, 0x55, sizeof(later));
    later.stats.struct_size = sizeof(later);
    assert_int_equal(nigh_stats(f.client, &later.stats), NIGH_OK);
    assert_int_equal(later.stats.struct_size, sizeof(later));
    assert_true(later.stats.memory_bytes > 0);
    assert_int_equal(later.stats.uptime_us, 5);
    assert_int_equal(later.more, 0);
    memset(&later, 0x55, sizeof(later));
    later.stats.struct_size = older;
    assert_int_equal(nigh_stats(f.client, &later.stats), NIGH_OK);
    assert_int_equal(later.stats.struct_size, older);
    assert_true(later.stats.used_bytes > 0 && later.stats.used_bytes < UINT32_MAX);
    assert_int_equal(later.stats.objects, UINT64_C(0x5555555555555555));
    for (size_t n = 0; n < sizeof(wrong) / sizeof(wrong[0]); n++) {
        char why[128];

        memset(&later, 0x55, sizeof(later));
        later.stats.struct_size = wrong[n];
        assert_int_equal(nigh_stats(f.client, &later.stats), NIGH_INVALID);
        (void)nigh_client_error(f.client, why, sizeof(why));
        assert_non_null(strstr(why, "set it to sizeof(nigh_node_stats)"));
        assert_int_equal(later.stats.memory_bytes, UINT64_C(0x5555555555555555));
    }
    stop(&f);
}

/* What gets that came to the lane said, and what it says to those with flags. The node's thread
 * counts while the test's looks. */
struct flags_seen {
    _Atomic uint32_t plain, passing, others;
    _Atomic nigh_status answer;
};

static enum fake_action see_flags(void *context, struct fake_node *fake, uint32_t lane,
                                  const struct session_sqe *sqe, struct session_cqe *cqe)
{
    struct flags_seen *seen = context;

    (void)fake;
    (void)lane;
    if (sqe->op != SESSION_OP_GET) {
        return FAKE_SERVE;
    }
    seen->plain += sqe->flags == 0;
    seen->passing += sqe->flags == SESSION_FLAG_NO_COPY;
    seen->others += sqe->flags != 0 && sqe->flags != SESSION_FLAG_NO_COPY;
    cqe->status = sqe->flags == 0 ? NIGH_PEER_LOST : seen->answer;
    return FAKE_ANSWER;
}

static void test_flags_go_to_the_lane(void **state)
{
    struct flags_seen seen = {.answer = NIGH_PEER_LOST};
    nigh_id ids[3] = {id_of(1), id_of(2), id_of(3)};
    nigh_view views[3];
    struct fixture f;
    nigh_op op;

    (void)state;
    start(&f, &(struct fake_options){.hook = see_flags, .context = &seen});
    seal(&f, 2, "two");
    assert_int_equal(nigh_get_with(f.client, ids, 3, 1000, NIGH_GET_NO_COPY, views),
                     NIGH_PEER_LOST);
    assert_int_equal(seen.passing, 2); /* what is here is found without asking */
    assert_int_equal(views[1].status, NIGH_OK);
    assert_int_equal(nigh_release(f.client, &views[1]), NIGH_OK);
    assert_int_equal(nigh_get_with_start(f.client, ids, 1, 1000, NIGH_GET_NO_COPY, views, &op),
                     NIGH_OK);
    assert_int_equal(nigh_wait(f.client, &op, NIGH_FOREVER), NIGH_PEER_LOST);
    assert_int_equal(seen.passing, 3);
    assert_int_equal(seen.plain, 0);
    assert_int_equal(nigh_get(f.client, ids, 1, 1000, views), NIGH_PEER_LOST);
    assert_int_equal(nigh_get_with(f.client, ids, 1, 1000, 0, views), NIGH_PEER_LOST);
    assert_int_equal(seen.plain, 2);
    /* Flags that there are not go nowhere; a node that is older says so. */
    assert_int_equal(nigh_get_with(f.client, ids, 1, 1000, 2, views), NIGH_INVALID);
    assert_int_equal(nigh_get_with_start(f.client, ids, 1, 1000, 2, views, &op), NIGH_INVALID);
    seen.answer = NIGH_INVALID;
    assert_int_equal(nigh_get_with(f.client, ids, 3, 1000, NIGH_GET_NO_COPY, views),
                     NIGH_UNSUPPORTED);
    assert_int_equal(views[0].status, NIGH_UNSUPPORTED);
    assert_int_equal(views[1].status, NIGH_OK);
    assert_int_equal(nigh_release(f.client, &views[1]), NIGH_OK);
    assert_int_equal(seen.others, 0);
    stop(&f);
}

/* A lane looks at the clock now and then: what it ends by an older time has some left. */
static enum fake_action end_early(void *context, struct fake_node *fake, uint32_t lane,
                                  const struct session_sqe *sqe, struct session_cqe *cqe)
{
    _Atomic uint32_t *left = context;

    (void)fake;
    (void)lane;
    if (sqe->op != SESSION_OP_GET || *left == 0) {
        return FAKE_SERVE;
    }
    (*left)--;
    cqe->status = NIGH_TIMEOUT;
    return FAKE_ANSWER;
}

static void test_gets_have_all_their_time(void **state)
{
    _Atomic uint32_t early = 3;
    nigh_id id = id_of(1);
    nigh_view view;
    struct fixture f;
    uint64_t before_us;

    (void)state;
    start(&f, &(struct fake_options){.hook = end_early, .context = &early});
    before_us = support_now_us();
    assert_int_equal(nigh_get(f.client, &id, 1, 20000, &view), NIGH_TIMEOUT);
    assert_true(support_now_us() - before_us >= 20000);
    assert_int_equal(early, 0);
    stop(&f);
}

/* More views than a thread has pin words: the lane pins the rest. */
static void test_pin_words_run_out(void **state)
{
    enum {
        MOST = LIMIT_THREAD_CHUNKS * LIMIT_PINS_A_CHUNK,
        MORE = 100
    };
    struct fixture f;
    nigh_view *views = calloc(MOST + MORE, sizeof(*views));
    nigh_id id = id_of(1);
    uint32_t asked;

    (void)state;
    start(&f, &(struct fake_options){0});
    seal(&f, 1, "one");
    asked = atomic_load(&f.fake.submissions);
    for (int i = 0; i < MOST + MORE; i++) {
        assert_int_equal(nigh_get(f.client, &id, 1, 0, &views[i]), NIGH_OK);
        assert_memory_equal(views[i].data, "one", 3);
    }
    assert_int_equal(fake_node_pins(&f.fake), MOST + MORE);
    assert_int_equal(atomic_load(&f.fake.submissions), asked + MORE);
    for (int i = 0; i < MOST + MORE; i++) {
        assert_int_equal(nigh_release(f.client, &views[i]), NIGH_OK);
    }
    assert_int_equal(fake_node_pins(&f.fake), 0);
    free(views);
    stop(&f);
}

/* ---- threads ----------------------------------------------------------------------------------
 */

struct reader {
    pthread_t thread;
    struct fixture *fixture;
    uint64_t seed;
    int rounds;
    int failures;
};

static void *read_at_random(void *context)
{
    struct reader *reader = context;

    for (int i = 0; i < reader->rounds; i++) {
        uint32_t number = (uint32_t)(support_random(&reader->seed) % 64);
        nigh_id id = id_of(number);
        char text[16];
        nigh_view view;

        (void)snprintf(text, sizeof(text), "object-%02u", number);
        if (nigh_get(reader->fixture->client, &id, 1, NIGH_FOREVER, &view) != NIGH_OK ||
            view.data_size != strlen(text) || memcmp(view.data, text, strlen(text)) != 0 ||
            nigh_release(reader->fixture->client, &view) != NIGH_OK) {
            reader->failures++;
        }
    }
    return NULL;
}

static void test_threads_read_at_once(void **state)
{
    enum {
        THREADS = 4
    };
    struct reader readers[THREADS];
    struct fixture f;
    uint64_t seed = support_seed();

    (void)state;
    start(&f, &(struct fake_options){.lanes = 2});
    for (int i = 0; i < THREADS; i++) {
        readers[i] =
            (struct reader){.fixture = &f, .seed = seed + (uint64_t)i * 77 + 1, .rounds = 3000};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_at_random, &readers[i]), 0);
    }
    /* They begin before there is anything. */
    for (uint32_t i = 0; i < 64; i++) {
        char text[16];

        (void)snprintf(text, sizeof(text), "object-%02u", i);
        seal(&f, i, text);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
        assert_int_equal(readers[i].failures, 0);
    }
    assert_int_equal(fake_node_pins(&f.fake), 0);
    stop(&f);
}

/* Threads that end give their chunks back: far more of them than there are chunks. */
static void test_chunks_come_back(void **state)
{
    struct reader reader = {.rounds = 1};
    struct fixture f;

    (void)state;
    start(&f, &(struct fake_options){0});
    for (uint32_t i = 0; i < 64; i++) {
        char text[16];

        (void)snprintf(text, sizeof(text), "object-%02u", i);
        seal(&f, i, text);
    }
    reader.fixture = &f;
    reader.seed = 5;
    for (int i = 0; i < 3 * LIMIT_PIN_CHUNKS; i++) {
        assert_int_equal(pthread_create(&reader.thread, NULL, read_at_random, &reader), 0);
        assert_int_equal(pthread_join(reader.thread, NULL), 0);
    }
    assert_int_equal(reader.failures, 0);
    assert_true(shared_load_relaxed(&session_front_of(f.fake.memory)->chunks_used) <= 2);
    stop(&f);
}

struct handover {
    struct fixture *fixture;
    nigh_view view;
};

static void *get_one(void *context)
{
    struct handover *handover = context;
    nigh_id id = id_of(1);

    if (nigh_get(handover->fixture->client, &id, 1, 0, &handover->view) != NIGH_OK) {
        handover->view.status = NIGH_BUSY;
    }
    return NULL;
}

/* A view outlives the thread that got it; another releases it; its word is not used before. */
static void test_view_outlives_its_thread(void **state)
{
    struct fixture f;
    struct handover first = {.fixture = &f}, second = {.fixture = &f};
    pthread_t thread;

    (void)state;
    start(&f, &(struct fake_options){0});
    seal(&f, 1, "one");
    assert_int_equal(pthread_create(&thread, NULL, get_one, &first), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, get_one, &second), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(first.view.status, NIGH_OK);
    assert_int_equal(second.view.status, NIGH_OK);
    assert_int_equal(fake_node_pins(&f.fake), 2);
    assert_int_equal(nigh_release(f.client, &first.view), NIGH_OK);
    assert_int_equal(fake_node_pins(&f.fake), 1);
    assert_memory_equal(second.view.data, "one", 3);
    assert_int_equal(nigh_release(f.client, &second.view), NIGH_OK);
    stop(&f);
}

/* A thread that uses several clients has chunks of each. */
static void test_two_clients_in_one_thread(void **state)
{
    struct fixture a, b;
    nigh_id id = id_of(1);
    nigh_view views[2];

    (void)state;
    start(&a, &(struct fake_options){0});
    start(&b, &(struct fake_options){0});
    seal(&a, 1, "aaa");
    seal(&b, 1, "bbb");
    for (int i = 0; i < 50; i++) {
        assert_int_equal(nigh_get(a.client, &id, 1, 0, &views[0]), NIGH_OK);
        assert_int_equal(nigh_get(b.client, &id, 1, 0, &views[1]), NIGH_OK);
        assert_memory_equal(views[0].data, "aaa", 3);
        assert_memory_equal(views[1].data, "bbb", 3);
        assert_int_equal(nigh_release(b.client, &views[0]), NIGH_INVALID);
        assert_int_equal(nigh_release(a.client, &views[0]), NIGH_OK);
        assert_int_equal(nigh_release(b.client, &views[1]), NIGH_OK);
    }
    assert_int_equal(fake_node_pins(&a.fake), 0);
    assert_int_equal(fake_node_pins(&b.fake), 0);
    stop(&a);
    assert_int_equal(nigh_get(b.client, &id, 1, 0, &views[1]), NIGH_OK);
    stop(&b);
}

/* ---- misuse -----------------------------------------------------------------------------------
 */

static void test_misuse_is_a_status(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_view view, copy, zero = {0}, wild = {.opaque = {0x1234, 1}};

    (void)state;
    start(&f, &(struct fake_options){0});
    seal(&f, 1, "one");
    assert_int_equal(nigh_get(NULL, &id, 1, 0, &view), NIGH_INVALID);
    assert_int_equal(nigh_get(f.client, NULL, 1, 0, &view), NIGH_INVALID);
    assert_int_equal(nigh_get(f.client, &id, 1, 0, NULL), NIGH_INVALID);
    assert_int_equal(nigh_get(f.client, NULL, 0, 0, NULL), NIGH_OK);
    assert_int_equal(nigh_release(f.client, NULL), NIGH_INVALID);
    assert_int_equal(nigh_release(f.client, &zero), NIGH_OK);
    assert_int_equal(nigh_release(f.client, &wild), NIGH_INVALID);
    wild.opaque[0] = (uint64_t)(uintptr_t)&view.opaque[0];
    assert_int_equal(nigh_release(f.client, &wild), NIGH_INVALID);
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
    copy = view;
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK); /* zeroed */
    assert_int_equal(nigh_release(f.client, &copy), NIGH_INVALID);
    stop(&f);
}

/* Sizes and places in the index that cannot be: a status, no view. */
static void test_rubbish_in_the_index(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    struct index_entry *entry;
    nigh_view view;
    uint32_t number;

    (void)state;
    start(&f, &(struct fake_options){0});
    seal(&f, 1, "one");
    assert_true(index_find(&f.fake.lane[0].writer, id.bytes, hash_id20(id.bytes), &number));
    entry = &f.fake.lane[0].writer.index.entries[number];
    entry->data_size = UINT64_MAX;
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_PROTOCOL);
    assert_null(view.data);
    entry->data_size = 3;
    entry->offset = LIMIT_EXTENTS * FAKE_EXTENT_BYTES - 1;
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_PROTOCOL);
    entry->offset = FAKE_EXTENTS * FAKE_EXTENT_BYTES;
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_DENIED);
    assert_int_equal(fake_node_pins(&f.fake), 0);
    stop(&f);
}

/* A process that may open no more for a moment: that get fails, and the session goes on. */
static void test_no_descriptor_left_is_no_end(void **state)
{
    struct fixture f;
    struct rlimit before, small;
    nigh_id id = id_of(1);
    nigh_view view;
    nigh_status status;

    (void)state;
    start(&f, &(struct fake_options){0});
    seal(&f, 1, "one");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    small = before;
    small.rlim_cur = 1; /* what is open stays open */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    status = nigh_get(f.client, &id, 1, 0, &view);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, NIGH_NO_RESOURCES);
    assert_int_equal(fake_node_pins(&f.fake), 0);
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
    assert_memory_equal(view.data, "one", 3);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    stop(&f);
}

/* A node that stood still answers what was given up: that is not the answer to the next question.
 */
static void test_late_grants_are_nobodys(void **state)
{
    struct fixture f;
    struct session_extent request;
    struct session_grant late = {.header = {.magic = SESSION_MAGIC, .kind = SESSION_GRANT},
                                 .status = NIGH_DENIED};
    nigh_id id = id_of(1);
    nigh_view view;
    size_t size_bytes, fd_count;

    (void)state;
    start(&f, &(struct fake_options){0});
    seal(&f, 1, "one");
    fake_node_lock(&f.fake);
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_TIMEOUT);
    assert_int_equal(fd_recv_message(f.fake.socket_fd, &request, sizeof(request), &size_bytes, NULL,
                                     0, &fd_count),
                     NIGH_OK);
    late.extent = request.extent;
    assert_int_equal(fd_send_message(f.fake.socket_fd, &late, sizeof(late), NULL, 0), NIGH_OK);
    fake_node_unlock(&f.fake);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
        assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    }
    stop(&f);
}

/* A node that stands still, but for less than the get has time, is asked again: when the client is
 * opened, for what is found here, and for what the lane has found. */
static void test_memory_that_comes_late_is_waited_for(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_view view;

    (void)state;
    start(&f, &(struct fake_options){.late_grants = 3});
    seal(&f, 1, "one");
    assert_int_equal(nigh_get(f.client, &id, 1, 60000000, &view), NIGH_OK);
    assert_memory_equal(view.data, "one", 3);
    assert_int_equal(atomic_load(&f.fake.extents_asked), 4);
    assert_int_equal(fake_node_pins(&f.fake), 1);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    assert_int_equal(fake_node_pins(&f.fake), 0);
    stop(&f);
}

/* Not even mprotect makes a view writable. */
static void test_views_are_read_only(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    nigh_view view;
    uintptr_t page;

    (void)state;
    start(&f, &(struct fake_options){0});
    assert_int_equal(nigh_put(f.client, &id, "mine", 4, NULL), NIGH_OK);
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
    page = (uintptr_t)view.data & ~(uintptr_t)4095;
    assert_int_equal(mprotect((void *)page, 4096, PROT_READ | PROT_WRITE), -1);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get_finds_without_asking),
        cmocka_unit_test(test_stats_are_as_long_as_the_caller_knows),
        cmocka_unit_test(test_who_reads_more_has_more_asked_for),
        cmocka_unit_test(test_who_is_refused_some_asks_for_fewer),
        cmocka_unit_test(test_miss_does_not_wait),
        cmocka_unit_test(test_many_ids_some_twice_some_missing),
        cmocka_unit_test(test_get_waits_for_a_seal),
        cmocka_unit_test(test_silent_lane_is_given_up),
        cmocka_unit_test(test_flags_go_to_the_lane),
        cmocka_unit_test(test_gets_have_all_their_time),
        cmocka_unit_test(test_pin_words_run_out),
        cmocka_unit_test(test_threads_read_at_once),
        cmocka_unit_test(test_chunks_come_back),
        cmocka_unit_test(test_view_outlives_its_thread),
        cmocka_unit_test(test_two_clients_in_one_thread),
        cmocka_unit_test(test_misuse_is_a_status),
        cmocka_unit_test(test_views_are_read_only),
        cmocka_unit_test(test_rubbish_in_the_index),
        cmocka_unit_test(test_no_descriptor_left_is_no_end),
        cmocka_unit_test(test_late_grants_are_nobodys),
        cmocka_unit_test(test_memory_that_comes_late_is_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
