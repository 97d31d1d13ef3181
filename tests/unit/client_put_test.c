/* SPDX-License-Identifier: Apache-2.0 */
/* Puts, writers, leases, what is managed and looked at, events; misuse of all of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/hash.h"
#include "memory/index.h"
#include "client_fixture.h"

static void assert_object(struct fixture *f, const nigh_id *id, const void *data, size_t size)
{
    nigh_view view;

    assert_int_equal(nigh_get(f->client, id, 1, 0, &view), NIGH_OK);
    assert_int_equal(view.data_size, size);
    if (size != 0) {
        assert_memory_equal(view.data, data, size);
    }
    assert_int_equal(nigh_release(f->client, &view), NIGH_OK);
}

/* ---- puts -------------------------------------------------------------------------------------
 */

static void test_put_is_one_round_trip(void **state)
{
    struct fixture f;
    uint8_t data[1024];
    uint32_t asked;

    (void)state;
    start(&f, &(struct fake_options){0});
    memset(data, 0x42, sizeof(data));
    asked = atomic_load(&f.fake.submissions);
    for (uint32_t i = 0; i < 1000; i++) {
        nigh_id id = id_of(i);

        assert_int_equal(nigh_put(f.client, &id, data, sizeof(data), NULL), NIGH_OK);
    }
    /* One seal each, and now and then a lease that is given back. */
    assert_int_equal(atomic_load(&f.fake.seals), 1000);
    assert_in_range(atomic_load(&f.fake.submissions) - asked, 1000, 1000 + 20);
    for (uint32_t i = 0; i < 1000; i++) {
        nigh_id id = id_of(i);

        assert_object(&f, &id, data, sizeof(data));
    }
    stop(&f);
}

static void test_put_with_metadata_and_name(void **state)
{
    nigh_create_options options = {.meta = "metadata", .meta_size = 8, .name = "a name"};
    struct fixture f;
    nigh_object_info info;
    nigh_view view;
    nigh_id id;

    (void)state;
    start(&f, &(struct fake_options){.lanes = 2});
    assert_int_equal(nigh_id_from_name("a name", &id), NIGH_OK);
    assert_int_equal(nigh_put(f.client, &id, "12345", 5, &options), NIGH_OK);
    assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
    assert_int_equal(view.meta_size, 8);
    assert_memory_equal(view.meta, "metadata", 8);
    assert_memory_equal(view.data, "12345", 5);
    assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
    assert_int_equal(nigh_stat(f.client, &id, &info), NIGH_OK);
    assert_string_equal(info.name, "a name");
    assert_int_equal(info.state, NIGH_OBJECT_SEALED);
    assert_int_equal(info.data_size, 5);
    assert_int_equal(info.meta_size, 8);
    assert_int_equal(info.holders, 7); /* as the fake node says */
    id.bytes[0] ^= 1;
    assert_int_equal(nigh_put(f.client, &id, "12345", 5, &options), NIGH_INVALID);
    stop(&f);
}

static void test_sizes_from_nothing_to_large(void **state)
{
    static const size_t sizes[] = {0, 1, 7, 8, 63, 64, 65, 4096, 65536, 262144, 300000, 1500000};
    struct fixture f;
    uint8_t *data = malloc(1500000);

    (void)state;
    for (size_t i = 0; i < 1500000; i++) {
        data[i] = (uint8_t)(i * 31 + i / 255);
    }
    start(&f, &(struct fake_options){0});
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        nigh_id id = id_of((uint32_t)i);

        assert_int_equal(nigh_put(f.client, &id, data, sizes[i], NULL), NIGH_OK);
        assert_object(&f, &id, data, sizes[i]);
    }
    free(data);
    stop(&f);
}

static void test_second_put_is_told(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);

    (void)state;
    start(&f, &(struct fake_options){0});
    assert_int_equal(nigh_put(f.client, &id, "first", 5, NULL), NIGH_OK);
    assert_int_equal(nigh_put(f.client, &id, "second", 6, NULL), NIGH_EXISTS);
    assert_object(&f, &id, "first", 5);
    stop(&f);
}

/* Without leases everything is created first. */
static void test_puts_without_leases(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, &(struct fake_options){.lease_bytes = 1});
    for (uint32_t i = 0; i < 50; i++) {
        nigh_id id = id_of(i);

        assert_int_equal(nigh_put(f.client, &id, &i, sizeof(i), NULL), NIGH_OK);
        assert_object(&f, &id, &i, sizeof(i));
    }
    assert_int_equal(atomic_load(&f.fake.leases), 0);
    stop(&f);
}

#if defined(__has_feature)
#define HAS_FEATURE(feature) __has_feature(feature)
#else
#define HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || \
    HAS_FEATURE(thread_sanitizer) || HAS_FEATURE(address_sanitizer)
#define MOST_FAULTS 100000 /* the sanitizer's own memory is touched too */
#else
#define MOST_FAULTS 20 /* the stack, first uses of code; never one a page */
#endif

static void test_first_put_does_not_fault(void **state)
{
    struct fixture f;
    static uint8_t data[200000];
    struct rusage before, after;
    nigh_id id = id_of(1);

    (void)state;
    memset(data, 1, sizeof(data));
    start(&f, &(struct fake_options){0});
    assert_int_equal(getrusage(RUSAGE_THREAD, &before), 0);
    assert_int_equal(nigh_put(f.client, &id, data, sizeof(data), NULL), NIGH_OK);
    assert_int_equal(getrusage(RUSAGE_THREAD, &after), 0);
    /* The data has 49 pages. */
    assert_true(after.ru_minflt - before.ru_minflt < MOST_FAULTS);
    stop(&f);
}

static void test_put_many(void **state)
{
    enum {
        N = 700
    };
    struct fixture f;
    nigh_put_item *items = calloc(N, sizeof(*items));
    static const nigh_create_options exclusive = {.flags = NIGH_CREATE_EXCLUSIVE};
    static const nigh_create_options unknown = {.flags = 0x10000};
    uint32_t *values = calloc(N, sizeof(*values));
    nigh_op op;

    (void)state;
    start(&f, &(struct fake_options){.lanes = 2});
    for (uint32_t i = 0; i < N; i++) {
        values[i] = i;
        items[i].id = id_of(i);
        items[i].data = &values[i];
        items[i].data_size = sizeof(values[i]);
        items[i].options = i % 7 == 0 ? &exclusive : NULL;
    }
    items[5].id = items[4].id;
    items[6].options = &unknown;
    items[8].data = NULL;
    assert_int_equal(nigh_put_many(f.client, items, N), NIGH_INVALID);
    for (uint32_t i = 0; i < N; i++) {
        nigh_status expected = i == 6 || i == 8 ? NIGH_INVALID : NIGH_OK;

        if (i == 4 || i == 5) {
            continue; /* one of the two */
        }
        assert_int_equal(items[i].status, expected);
        if (expected == NIGH_OK) {
            assert_object(&f, &items[i].id, &i, sizeof(i));
        }
    }
    assert_true((items[4].status == NIGH_OK) != (items[5].status == NIGH_OK));
    assert_true((items[4].status == NIGH_EXISTS) != (items[5].status == NIGH_EXISTS));

    for (uint32_t i = 0; i < N; i++) {
        items[i] = (nigh_put_item){.id = id_of(N + i), .data = &values[i], .data_size = 4};
    }
    assert_int_equal(nigh_put_many_start(f.client, items, N, &op), NIGH_OK);
    assert_int_equal(nigh_wait(f.client, &op, 10000000), NIGH_OK);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(items[i].status, NIGH_OK);
        assert_object(&f, &items[i].id, &i, sizeof(i));
    }
    free(items);
    free(values);
    stop(&f);
}

/* What an item asks for is the same when the node has announced the session's end between the two
 * steps of its put. */
struct ending {
    struct session_sqe created, sealed;
};

static enum fake_action end_at_create(void *context, struct fake_node *fake, uint32_t lane,
                                      const struct session_sqe *sqe, struct session_cqe *cqe)
{
    struct ending *ending = context;

    (void)lane;
    (void)cqe;
    if (sqe->op == SESSION_OP_CREATE) {
        ending->created = *sqe;
        shared_store_release(&session_front_of(fake->memory)->ended, NIGH_EXPELLED);
    } else if (sqe->op == SESSION_OP_SEAL) {
        ending->sealed = *sqe;
    }
    return FAKE_SERVE;
}

static void test_put_many_while_the_end_is_announced(void **state)
{
    static uint8_t bytes[70000];
    struct ending ending = {.created = {0}};
    nigh_put_item item = {.id = id_of(7), .data = bytes, .data_size = sizeof(bytes)};
    nigh_create_options options = {.meta = "m", .meta_size = 1};
    struct fixture f;

    (void)state;
    memset(bytes, 0x33, sizeof(bytes));
    item.options = &options;
    start(&f, &(struct fake_options){.hook = end_at_create, .context = &ending, .lease_bytes = 1});
    assert_int_equal(nigh_put_many(f.client, &item, 1), NIGH_OK);
    assert_int_equal(item.status, NIGH_OK);
    fake_node_lock(&f.fake); /* its thread wrote what follows */
    fake_node_unlock(&f.fake);
    assert_int_equal(ending.created.data_size, sizeof(bytes));
    assert_memory_equal(ending.sealed.id, item.id.bytes, sizeof(item.id.bytes));
    assert_int_equal(ending.sealed.data_size, sizeof(bytes));
    assert_int_equal(ending.sealed.meta_size, 1);
    assert_int_equal(nigh_put_many(f.client, &item, 1), NIGH_EXPELLED);
    shared_store_release(&session_front_of(f.fake.memory)->ended, NIGH_OK);
    assert_object(&f, &item.id, bytes, sizeof(bytes));
    stop(&f);
}

/* The same between two items, of more than a ring holds: the rest is made ready when there is room.
 */
static void test_items_that_follow_the_announced_end(void **state)
{
    enum {
        N = 2 * LIMIT_RING_ENTRIES
    };
    struct ending ending = {.created = {0}};
    nigh_put_item *items = calloc(N, sizeof(*items));
    struct fixture f;

    (void)state;
    assert_non_null(items);
    for (uint32_t i = 0; i < N; i++) {
        items[i] = (nigh_put_item){.id = id_of(100 + i), .data = "x", .data_size = 1};
    }
    start(&f, &(struct fake_options){.hook = end_at_create, .context = &ending, .lease_bytes = 1});
    assert_int_equal(nigh_put_many(f.client, items, N), NIGH_OK);
    shared_store_release(&session_front_of(f.fake.memory)->ended, NIGH_OK);
    assert_object(&f, &items[N - 1].id, "x", 1);
    stop(&f);
    free(items);
}

/* ---- writers ----------------------------------------------------------------------------------
 */

static void test_writers_small_and_large(void **state)
{
    static const uint64_t sizes[] = {100, 1000000};
    struct fixture f;
    nigh_writer writer;
    bool found;

    (void)state;
    start(&f, &(struct fake_options){0});
    for (uint32_t i = 0; i < 2; i++) {
        nigh_create_options options = {.data_size = sizes[i], .meta = "m", .meta_size = 1};
        nigh_id id = id_of(10 + i), given_up = id_of(20 + i);
        nigh_view view;

        assert_int_equal(nigh_create(f.client, &id, &options, &writer), NIGH_OK);
        assert_int_equal(writer.data_size, sizes[i]);
        memset(writer.data, 0x5c, sizes[i]);
        assert_int_equal(nigh_contains(f.client, &id, &found), NIGH_OK);
        assert_false(found);
        assert_int_equal(nigh_seal(f.client, &writer), NIGH_OK);
        assert_null(writer.data);
        assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
        assert_int_equal(((const uint8_t *)view.data)[sizes[i] - 1], 0x5c);
        assert_memory_equal(view.meta, "m", 1);
        assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
        /* Once more, now that it is there. */
        assert_int_equal(nigh_create(f.client, &id, &options, &writer), NIGH_EXISTS);

        assert_int_equal(nigh_create(f.client, &given_up, &options, &writer), NIGH_OK);
        assert_int_equal(nigh_abort(f.client, &writer), NIGH_OK);
        assert_int_equal(nigh_contains(f.client, &given_up, &found), NIGH_OK);
        assert_false(found);
        assert_int_equal(nigh_abort(f.client, &writer), NIGH_INVALID);
        assert_int_equal(nigh_seal(f.client, &writer), NIGH_INVALID);
    }
    assert_int_equal(atomic_load(&f.fake.aborts), 1); /* the large one */
    stop(&f);
}

/* Misuse of writers: a status, whatever is in them. */
static void test_writer_misuse(void **state)
{
    nigh_create_options options = {.data_size = 10}, bad = {.data_size = 10, .flags = 0x80};
    nigh_create_options huge = {.data_size = UINT64_MAX};
    nigh_create_options meta = {.data_size = 1, .meta = "x", .meta_size = LIMIT_META_BYTES + 1};
    nigh_create_options no_meta = {.data_size = 1, .meta_size = 1};
    struct fixture a, b;
    nigh_writer writer, zero = {0}, copy;
    nigh_id id = id_of(1);

    (void)state;
    start(&a, &(struct fake_options){0});
    start(&b, &(struct fake_options){0});
    memset(&copy, 0xff, sizeof(copy));
    assert_int_equal(nigh_seal(a.client, &zero), NIGH_INVALID);
    assert_int_equal(nigh_abort(a.client, &zero), NIGH_INVALID);
    assert_int_equal(nigh_seal(a.client, &copy), NIGH_INVALID);
    assert_int_equal(nigh_seal(a.client, NULL), NIGH_INVALID);
    assert_int_equal(nigh_create(a.client, &id, NULL, &writer), NIGH_INVALID);
    assert_int_equal(nigh_create(a.client, NULL, &options, &writer), NIGH_INVALID);
    assert_int_equal(nigh_create(a.client, &id, &bad, &writer), NIGH_INVALID);
    assert_int_equal(nigh_create(a.client, &id, &huge, &writer), NIGH_INVALID);
    assert_int_equal(nigh_create(a.client, &id, &meta, &writer), NIGH_INVALID);
    assert_int_equal(nigh_create(a.client, &id, &no_meta, &writer), NIGH_INVALID);
    /* Another client's. */
    assert_int_equal(nigh_create(a.client, &id, &options, &writer), NIGH_OK);
    assert_int_equal(nigh_seal(b.client, &writer), NIGH_INVALID);
    copy = writer;
    assert_int_equal(nigh_seal(a.client, &writer), NIGH_OK);
    /* A copy of a used-up writer: refused by the node, with a status. */
    assert_int_not_equal(nigh_seal(a.client, &copy), NIGH_OK);
    stop(&a);
    stop(&b);
}

static void test_async_create_and_seal(void **state)
{
    static const uint64_t sizes[] = {100, 1000000};
    struct fixture f;

    (void)state;
    start(&f, &(struct fake_options){0});
    for (uint32_t i = 0; i < 2; i++) {
        char meta[4] = "meta", name[5] = "nam0";
        nigh_create_options options = {
            .data_size = sizes[i], .meta = meta, .meta_size = 4, .name = name};
        nigh_writer writer;
        nigh_view view;
        nigh_object_info info;
        nigh_op op;
        nigh_id id;

        name[3] = (char)('0' + i);
        assert_int_equal(nigh_id_from_name(name, &id), NIGH_OK);
        assert_int_equal(nigh_create_start(f.client, &id, &options, &writer, &op), NIGH_OK);
        /* The strings may go when the call has returned. */
        memset(meta, 0, sizeof(meta));
        name[0] = 'X';
        assert_int_equal(nigh_wait(f.client, &op, 20000000), NIGH_OK);
        memset(writer.data, 3, sizes[i]);
        assert_int_equal(nigh_seal_start(f.client, &writer, &op), NIGH_OK);
        assert_int_equal(nigh_wait(f.client, &op, 20000000), NIGH_OK);
        assert_int_equal(nigh_get(f.client, &id, 1, 0, &view), NIGH_OK);
        assert_memory_equal(view.meta, "meta", 4);
        assert_int_equal(nigh_release(f.client, &view), NIGH_OK);
        assert_int_equal(nigh_stat_start(f.client, &id, &info, &op), NIGH_OK);
        assert_int_equal(nigh_wait(f.client, &op, 20000000), NIGH_OK);
        assert_memory_equal(info.name, "nam", 3);
    }
    stop(&f);
}

/* A seal that the node holds back, as one that waits for its home, and what is said of it. */
struct held_seal {
    _Atomic uint32_t cookie, cancels;
};

static enum fake_action hold_seal(void *context, struct fake_node *fake, uint32_t lane,
                                  const struct session_sqe *sqe, struct session_cqe *cqe)
{
    struct held_seal *held = context;
    struct session_cqe ended = {.pin = SESSION_NO_PIN, .status = NIGH_CANCELED};

    (void)cqe;
    if (sqe->op == SESSION_OP_SEAL) {
        atomic_store(&held->cookie, sqe->cookie);
        return FAKE_KEEP;
    }
    if (sqe->op == SESSION_OP_CANCEL && sqe->argument == atomic_load(&held->cookie)) {
        ended.cookie = (uint32_t)sqe->argument;
        fake_node_complete(fake, lane, &ended);
        atomic_fetch_add(&held->cancels, 1);
    }
    return FAKE_SERVE;
}

static void test_a_cancelled_seal_is_told_to_the_node(void **state)
{
    nigh_create_options options = {.data_size = 100, .flags = NIGH_CREATE_EXCLUSIVE};
    struct held_seal held = {0};
    struct fixture f;
    nigh_writer writer;
    nigh_id id;
    nigh_op op;

    (void)state;
    start(&f, &(struct fake_options){.hook = hold_seal, .context = &held});
    assert_int_equal(nigh_id_from_name("one", &id), NIGH_OK);
    assert_int_equal(nigh_create(f.client, &id, &options, &writer), NIGH_OK);
    assert_int_equal(nigh_seal_start(f.client, &writer, &op), NIGH_OK);
    assert_true(SUPPORT_WAIT(atomic_load(&held.cookie) != 0, 20000));
    assert_int_equal(nigh_cancel(f.client, &op), NIGH_CANCELED);
    assert_true(SUPPORT_WAIT(atomic_load(&held.cancels) == 1, 20000));
    stop(&f);
}

/* Aborted pieces between sealed ones: the lease is changed before the lane's bound is reached, and
 * goes back. */
static void test_leases_do_not_fall_to_pieces(void **state)
{
    nigh_create_options options = {.data_size = 64};
    struct fixture f;
    nigh_writer sealed, given_up;

    (void)state;
    start(&f, &(struct fake_options){0});
    for (uint32_t i = 0; i < 300; i++) {
        nigh_id a = id_of(2 * i), b = id_of(2 * i + 1);

        assert_int_equal(nigh_create(f.client, &a, &options, &given_up), NIGH_OK);
        assert_int_equal(nigh_create(f.client, &b, &options, &sealed), NIGH_OK);
        assert_int_equal(nigh_abort(f.client, &given_up), NIGH_OK);
        assert_int_equal(nigh_seal(f.client, &sealed), NIGH_OK);
    }
    assert_in_range(atomic_load(&f.fake.lease_closes), 300 / LIMIT_LEASE_PIECES, 300);
    stop(&f);
}

static enum fake_action refuse_memory(void *context, struct fake_node *fake, uint32_t lane,
                                      const struct session_sqe *sqe, struct session_cqe *cqe)
{
    (void)context;
    (void)fake;
    (void)lane;
    cqe->status = NIGH_OUT_OF_MEMORY;
    return sqe->op == SESSION_OP_CREATE || sqe->op == SESSION_OP_LEASE ? FAKE_ANSWER : FAKE_SERVE;
}

static void test_out_of_memory_names_the_holders(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1);
    char text[512];
    size_t wanted;

    (void)state;
    start(&f, &(struct fake_options){.lanes = 2, .hook = refuse_memory});
    assert_int_equal(nigh_client_error(f.client, text, sizeof(text)), 0);
    assert_int_equal(nigh_put(f.client, &id, "x", 1, NULL), NIGH_OUT_OF_MEMORY);
    wanted = nigh_client_error(f.client, text, sizeof(text));
    assert_string_equal(text, "out of memory: 960.0 MiB of 1.0 GiB are used: 60.0 MiB pinned "
                              "(nigh ls shows which; nigh unpin), pid 4711 (trainer) 1.7 GiB in 6 "
                              "objects, pid 42 (loader) "
                              "60.0 MiB in 1 object, pid 42 (loader) 60.0 MiB in 1 object");
    assert_int_equal(wanted, strlen(text));
    /* Too little room: cut and terminated. */
    assert_int_equal(nigh_client_error(f.client, text, 10), wanted);
    assert_string_equal(text, "out of me");
    stop(&f);
}

static enum fake_action refuse_for_limit(void *context, struct fake_node *fake, uint32_t lane,
                                         const struct session_sqe *sqe, struct session_cqe *cqe)
{
    const atomic_uint *flags = context;

    (void)fake;
    (void)lane;
    cqe->status = NIGH_LIMIT;
    cqe->flags = (uint16_t)atomic_load(flags);
    return sqe->op == SESSION_OP_CREATE || sqe->op == SESSION_OP_LEASE ? FAKE_ANSWER : FAKE_SERVE;
}

/* The index was full once; of what is refused now only the node can say whether that is why. */
static void test_a_limit_is_the_index_only_where_it_is(void **state)
{
    atomic_uint flags = 0;
    nigh_create_options options = {.data_size = 1};
    nigh_put_item item = {.id = id_of(4), .data = "x", .data_size = 1};
    nigh_writer writer;
    struct fixture f;
    nigh_id id = id_of(1);
    char text[512];
    nigh_op op;

    (void)state;
    start(&f, &(struct fake_options){.lanes = 2, .hook = refuse_for_limit, .context = &flags});
    for (unsigned round = 0; round < 4; round++) {
        bool full = round % 2 == 1;
        const char *wanted = full ? "a fixed limit is reached: the index was full, and 1000 of 2000"
                                  : "a fixed limit is reached";

        atomic_store(&flags, full ? SESSION_CQE_INDEX_FULL : 0);
        assert_int_equal(nigh_put(f.client, &id, "x", 1, NULL), NIGH_LIMIT);
        nigh_client_error(f.client, text, sizeof(text));
        assert_memory_equal(text, wanted, strlen(wanted) + !full);
        assert_int_equal(nigh_create_start(f.client, &id, &options, &writer, &op), NIGH_OK);
        assert_int_equal(nigh_wait(f.client, &op, 5000000), NIGH_LIMIT);
        nigh_client_error(f.client, text, sizeof(text));
        assert_memory_equal(text, wanted, strlen(wanted) + !full);
        (void)nigh_put_many(f.client, &item, 1);
        assert_int_equal(item.status, NIGH_LIMIT);
        nigh_client_error(f.client, text, sizeof(text));
        assert_memory_equal(text, wanted, strlen(wanted) + !full);
    }
    stop(&f);
}

/* What another lane could give is no answer. */
static void test_out_of_memory_tells_what_the_ids_lane_has(void **state)
{
    static const char *const most[] = {"196.0 MiB", "98.0 MiB"};
    nigh_create_options options = {.data_size = UINT64_C(300) << 20};
    struct fixture f;
    char text[512], ending[128];
    bool seen[2] = {false};

    (void)state;
    start(&f, &(struct fake_options){.lanes = 2, .hook = refuse_memory});
    for (uint32_t n = 0; !seen[0] || !seen[1]; n++) {
        nigh_id id = id_of(n);
        nigh_writer writer;
        uint32_t lane = index_hash_lane(hash_id20(id.bytes), 2);
        size_t length;

        assert_int_equal(nigh_create(f.client, &id, &options, &writer), NIGH_OUT_OF_MEMORY);
        length = nigh_client_error(f.client, text, sizeof(text));
        snprintf(ending, sizeof(ending),
                 "; 300.0 MiB were asked for, and %s at most can be had in one piece", most[lane]);
        assert_true(length >= strlen(ending));
        assert_string_equal(text + length - strlen(ending), ending);
        seen[lane] = true;
    }
    stop(&f);
}

/* A lease that nobody writes to must not split the room that something large needs. */
static void test_leases_make_way_for_something_large(void **state)
{
    nigh_create_options small = {.data_size = 1000}, large = {.data_size = UINT64_C(300) << 20};
    struct fixture f;
    nigh_writer writer, other;
    nigh_id id = id_of(1);
    nigh_op op;
    nigh_node_stats stats = {.struct_size = sizeof(stats)};
    uint32_t before, seals;

    (void)state;
    start(&f, &(struct fake_options){.hook = NULL});
    before = atomic_load(&f.fake.lease_closes);
    assert_true(atomic_load(&f.fake.leases) > before);
    assert_int_equal(nigh_create(f.client, &id, &large, &writer), NIGH_OUT_OF_MEMORY);
    assert_int_equal(atomic_load(&f.fake.lease_closes), before + 1);
    /* One that is written to stays until that is done. */
    assert_int_equal(nigh_create(f.client, &id, &small, &writer), NIGH_OK);
    id = id_of(2);
    assert_int_equal(nigh_create_start(f.client, &id, &large, &other, &op), NIGH_OK);
    assert_int_equal(nigh_wait(f.client, &op, 20000000), NIGH_OUT_OF_MEMORY);
    assert_int_equal(atomic_load(&f.fake.lease_closes), before + 1);
    seals = atomic_load(&f.fake.seals);
    assert_int_equal(nigh_seal(f.client, &writer), NIGH_OK);
    assert_int_equal(atomic_load(&f.fake.seals), seals + 1);
    /* The close went before what comes now. */
    assert_int_equal(nigh_stats(f.client, &stats), NIGH_OK);
    assert_int_equal(atomic_load(&f.fake.lease_closes), before + 2);
    stop(&f);
}

/* More than the node has is nobody's fault: no holder is named. */
static void test_out_of_memory_tells_what_can_never_be(void **state)
{
    static uint8_t byte;
    struct fixture f;
    nigh_writer writer;
    nigh_id id = id_of(1);
    nigh_create_options options = {.data_size = UINT64_C(3) << 30};
    nigh_put_item item = {.id = id_of(2), .data = &byte, .data_size = UINT64_C(700) << 20};
    nigh_op op;
    char text[512];

    (void)state;
    start(&f, &(struct fake_options){.lanes = 2, .hook = refuse_memory});
    assert_int_equal(nigh_create(f.client, &id, &options, &writer), NIGH_OUT_OF_MEMORY);
    (void)nigh_client_error(f.client, text, sizeof(text));
    assert_string_equal(text,
                        "out of memory: 3.0 GiB were asked for, and the node has 1.0 GiB for "
                        "objects in all, 512.0 MiB of it for any one object (it has 2 lanes)");
    assert_int_equal(nigh_create_start(f.client, &id, &options, &writer, &op), NIGH_OK);
    assert_int_equal(nigh_wait(f.client, &op, 20000000), NIGH_OUT_OF_MEMORY);
    (void)nigh_client_error(f.client, text, sizeof(text));
    assert_non_null(strstr(text, "3.0 GiB were asked for"));
    assert_int_equal(nigh_put_many_start(f.client, &item, 1, &op), NIGH_OK);
    assert_int_equal(nigh_wait(f.client, &op, 20000000), NIGH_OUT_OF_MEMORY);
    (void)nigh_client_error(f.client, text, sizeof(text));
    assert_non_null(strstr(text, "700.0 MiB were asked for"));
    /* Too large by a few bytes is not said to be as large as what there is. */
    options.data_size = (UINT64_C(1) << 30) + 1;
    assert_int_equal(nigh_create(f.client, &id, &options, &writer), NIGH_OUT_OF_MEMORY);
    (void)nigh_client_error(f.client, text, sizeof(text));
    assert_non_null(strstr(
        text, "64 B more than 1.0 GiB were asked for, and the node has 1.0 GiB for objects"));
    options.data_size = (UINT64_C(512) << 20) + 1;
    assert_int_equal(nigh_create(f.client, &id, &options, &writer), NIGH_OUT_OF_MEMORY);
    (void)nigh_client_error(f.client, text, sizeof(text));
    assert_non_null(strstr(text, "64 B more than 512.0 MiB were asked for, and the node has 1.0 "
                                 "GiB for objects in all, 512.0 MiB of it"));
    /* What would fit is a matter of who holds what. */
    options.data_size = UINT64_C(400) << 20;
    assert_int_equal(nigh_create(f.client, &id, &options, &writer), NIGH_OUT_OF_MEMORY);
    (void)nigh_client_error(f.client, text, sizeof(text));
    assert_non_null(strstr(text, "nigh unpin), pid 4711 (trainer)"));
    stop(&f);
}

/* Evicting with lanes that have little: the first answers without freeing, as does the second after
 * 100 bytes. */
static enum fake_action evict_from_few(void *context, struct fake_node *fake, uint32_t lane,
                                       const struct session_sqe *sqe, struct session_cqe *cqe)
{
    (void)context;
    (void)fake;
    if (sqe->op != SESSION_OP_EVICT || lane > 1) {
        return FAKE_SERVE;
    }
    cqe->data_size = lane * UINT64_C(100);
    return FAKE_ANSWER;
}

static void test_evict_asks_lanes_that_have_more(void **state)
{
    struct fixture f;
    uint64_t freed = 0;

    (void)state;
    start(&f, &(struct fake_options){.lanes = 4, .hook = evict_from_few});
    assert_int_equal(nigh_evict(f.client, 100000, &freed), NIGH_OK);
    assert_in_range(freed, 100000, 100003);
    stop(&f);
    /* When nobody has more, that is all. */
    start(&f, &(struct fake_options){.lanes = 2, .hook = evict_from_few});
    assert_int_equal(nigh_evict(f.client, 100000, &freed), NIGH_OK);
    assert_int_equal(freed, 100);
    stop(&f);
}

/* ---- looking and managing ---------------------------------------------------------------------
 */

static void test_list_reports_each_once(void **state)
{
    enum {
        N = 500
    };
    struct fixture f;
    nigh_object_info infos[64];
    bool seen[N] = {false};
    uint64_t cursor = 0;
    size_t count, total = 0;

    (void)state;
    start(&f, &(struct fake_options){.lanes = 4});
    for (uint32_t i = 0; i < N; i++) {
        nigh_id id = id_of(i);

        assert_int_equal(nigh_put(f.client, &id, &i, sizeof(i), NULL), NIGH_OK);
    }
    for (;;) {
        assert_int_equal(nigh_list(f.client, &cursor, infos, 64, &count), NIGH_OK);
        if (count == 0) {
            break;
        }
        for (size_t i = 0; i < count; i++) {
            uint32_t number;

            memcpy(&number, infos[i].id.bytes, sizeof(number));
            assert_true(number < N);
            assert_false(seen[number]);
            seen[number] = true;
            assert_int_equal(infos[i].state, NIGH_OBJECT_SEALED);
            total++;
        }
    }
    assert_int_equal(total, N);
    cursor = UINT64_MAX;
    assert_int_equal(nigh_list(f.client, &cursor, infos, 64, &count), NIGH_OK);
    assert_int_equal(count, 0);
    assert_int_equal(nigh_list(f.client, NULL, infos, 64, &count), NIGH_INVALID);
    stop(&f);
}

static void test_manage_calls(void **state)
{
    struct fixture f;
    nigh_id id = id_of(1), absent = id_of(2);
    nigh_holder holders[2];
    nigh_node_stats stats = {.struct_size = sizeof(stats)};
    nigh_op op;
    uint64_t freed = 0;
    uint32_t crc;
    size_t count;

    (void)state;
    start(&f, &(struct fake_options){.lanes = 4});
    assert_int_equal(nigh_put(f.client, &id, "x", 1, NULL), NIGH_OK);
    assert_int_equal(nigh_pin(f.client, &id), NIGH_OK);
    assert_int_equal(nigh_unpin(f.client, &id), NIGH_OK);
    assert_int_equal(nigh_pin(f.client, &absent), NIGH_NOT_FOUND);
    assert_int_equal(nigh_checksum(f.client, &id, &crc), NIGH_OK);
    assert_int_equal(crc, 0x1234);
    assert_int_equal(nigh_refresh(f.client, &absent, 1), NIGH_OK);
    assert_int_equal(nigh_set_quota(f.client, 1 << 20), NIGH_OK);
    assert_int_equal(nigh_evict(f.client, 1001, &freed), NIGH_OK);
    assert_in_range(freed, 1001, 1004);
    assert_int_equal(nigh_evict_start(f.client, 8, &freed, &op), NIGH_OK);
    assert_int_equal(nigh_wait(f.client, &op, 20000000), NIGH_OK);
    assert_int_equal(freed, 8);
    assert_int_equal(nigh_who(f.client, &id, holders, 1, &count), NIGH_OK);
    assert_int_equal(count, 2);
    assert_int_equal(holders[0].pid, 4711);
    assert_string_equal(holders[0].name, "trainer");
    /* The one that every lane names, and one a lane. */
    assert_int_equal(nigh_holders(f.client, holders, 2, &count), NIGH_OK);
    assert_int_equal(count, 5);
    assert_int_equal(holders[0].views, 12);
    assert_int_equal(nigh_stats(f.client, &stats), NIGH_OK);
    assert_int_equal(stats.memory_bytes, UINT64_C(4) * (512 << 20));
    assert_int_equal(stats.uptime_us, 5);
    assert_int_equal(nigh_delete(f.client, &id, 1, NULL), NIGH_OK);
    assert_int_equal(nigh_delete(f.client, &id, 1, NULL), NIGH_NOT_FOUND);
    stop(&f);
}

/* ---- events -----------------------------------------------------------------------------------
 */

static void test_events(void **state)
{
    struct fixture f;
    struct session_event sent = {
        .id = {4}, .kind_meta = NIGH_EVENT_SEALED | 77 << 8, .data_size = 9};
    nigh_event event;

    (void)state;
    start(&f, &(struct fake_options){.lanes = 2});
    assert_int_equal(nigh_next_event(f.client, 0, &event), NIGH_NOT_FOUND);
    assert_int_equal(nigh_subscribe(f.client, 0x40), NIGH_INVALID);
    assert_int_equal(nigh_subscribe(f.client, NIGH_SUBSCRIBE_REPLAY), NIGH_OK);
    assert_int_equal(nigh_next_event(f.client, 1000, &event), NIGH_TIMEOUT);
    fake_node_lock(&f.fake);
    for (uint32_t i = 0; i < LIMIT_EVENT_ENTRIES; i++) {
        sent.data_size = i;
        fake_node_event(&f.fake, 1, &sent);
    }
    fake_node_unlock(&f.fake);
    for (uint32_t i = 0; i < LIMIT_EVENT_ENTRIES; i++) {
        assert_int_equal(nigh_next_event(f.client, 5000000, &event), NIGH_OK);
        assert_int_equal(event.kind, NIGH_EVENT_SEALED);
        assert_int_equal(event.meta_size, 77);
        assert_int_equal(event.data_size, i);
        assert_int_equal(event.id.bytes[0], 4);
    }
    assert_int_equal(nigh_next_event(f.client, 0, &event), NIGH_TIMEOUT);
    assert_int_equal(nigh_unsubscribe(f.client), NIGH_OK);
    assert_int_equal(nigh_next_event(f.client, 0, &event), NIGH_NOT_FOUND);
    stop(&f);
}

static void test_events_that_cannot_be(void **state)
{
    struct session_event sent = {.kind_meta = 99};
    struct fixture f;
    nigh_event event;

    (void)state;
    start(&f, &(struct fake_options){0});
    assert_int_equal(nigh_subscribe(f.client, 0), NIGH_OK);
    fake_node_lock(&f.fake);
    fake_node_event(&f.fake, 0, &sent);
    fake_node_unlock(&f.fake);
    assert_int_equal(nigh_next_event(f.client, 5000000, &event), NIGH_PROTOCOL);
    stop(&f);
}

static void test_ids(void **state)
{
    char name[LIMIT_NAME_BYTES + 2];
    nigh_id a, b;

    (void)state;
    assert_int_equal(nigh_id_from_name("x", &a), NIGH_OK);
    assert_int_equal(nigh_id_from_name("x", &b), NIGH_OK);
    assert_memory_equal(&a, &b, sizeof(a));
    assert_int_equal(nigh_id_from_name("", &a), NIGH_INVALID);
    assert_int_equal(nigh_id_from_name(NULL, &a), NIGH_INVALID);
    assert_int_equal(nigh_id_from_name("x", NULL), NIGH_INVALID);
    memset(name, 'n', sizeof(name));
    name[LIMIT_NAME_BYTES] = '\0';
    assert_int_equal(nigh_id_from_name(name, &a), NIGH_OK);
    name[LIMIT_NAME_BYTES] = 'n';
    name[LIMIT_NAME_BYTES + 1] = '\0';
    assert_int_equal(nigh_id_from_name(name, &a), NIGH_INVALID);
    assert_int_equal(nigh_id_random(&a), NIGH_OK);
    assert_int_equal(nigh_id_random(&b), NIGH_OK);
    assert_memory_not_equal(&a, &b, sizeof(a));
    assert_int_equal(nigh_id_random(NULL), NIGH_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_is_one_round_trip),
        cmocka_unit_test(test_put_with_metadata_and_name),
        cmocka_unit_test(test_sizes_from_nothing_to_large),
        cmocka_unit_test(test_second_put_is_told),
        cmocka_unit_test(test_puts_without_leases),
        cmocka_unit_test(test_first_put_does_not_fault),
        cmocka_unit_test(test_put_many),
        cmocka_unit_test(test_writers_small_and_large),
        cmocka_unit_test(test_writer_misuse),
        cmocka_unit_test(test_async_create_and_seal),
        cmocka_unit_test(test_a_cancelled_seal_is_told_to_the_node),
        cmocka_unit_test(test_leases_do_not_fall_to_pieces),
        cmocka_unit_test(test_put_many_while_the_end_is_announced),
        cmocka_unit_test(test_items_that_follow_the_announced_end),
        cmocka_unit_test(test_out_of_memory_names_the_holders),
        cmocka_unit_test(test_a_limit_is_the_index_only_where_it_is),
        cmocka_unit_test(test_out_of_memory_tells_what_the_ids_lane_has),
        cmocka_unit_test(test_leases_make_way_for_something_large),
        cmocka_unit_test(test_out_of_memory_tells_what_can_never_be),
        cmocka_unit_test(test_evict_asks_lanes_that_have_more),
        cmocka_unit_test(test_list_reports_each_once),
        cmocka_unit_test(test_manage_calls),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_events_that_cannot_be),
        cmocka_unit_test(test_ids),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
