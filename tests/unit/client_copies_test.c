/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large items of an asynchronous put are copied outside the client's lock: while one is, other
 * calls go on, and an op that is given up ends only with the copy.
 *
 * The copy is made to stand still: the last page of what it reads cannot be read, and the handler
 * of the fault lets go when the test says so.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nigh/nigh.h"
#include "support/fake_node.h"
#include "support/support.h"

#define BYTES    (UINT64_C(300) << 10) /* above what is copied under the lock */
#define PAGE     4096u
#define GRACE_MS 10000

struct fixture {
    struct fake_node fake;
    nigh_client *client;
    nigh_put_item items[2];
    size_t count;
    nigh_op op;
};

/* The source of a copy that stands still. */
static struct {
    uint8_t *bytes;
    _Atomic bool reached; /* by the copy */
    _Atomic bool go_on;
    _Atomic bool late; /* nobody let it go on */
} source;

static void stand_still(int number, siginfo_t *info, void *context)
{
    uint8_t *last = source.bytes + BYTES - PAGE;

    (void)context;
    if ((uint8_t *)info->si_addr < last || (uint8_t *)info->si_addr >= last + PAGE) {
        (void)signal(number, SIG_DFL);
        return;
    }
    atomic_store(&source.reached, true);
    if (!SUPPORT_WAIT(atomic_load(&source.go_on), GRACE_MS)) {
        atomic_store(&source.late, true);
    }
    (void)mprotect(last, PAGE, PROT_READ | PROT_WRITE);
}

static void start(struct fixture *f, const struct fake_options *options)
{
    struct sigaction action = {.sa_sigaction = stand_still, .sa_flags = SA_SIGINFO};
    nigh_client_options open = {.struct_size = sizeof(open)};

    source.bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(source.bytes, MAP_FAILED);
    for (size_t i = 0; i < BYTES; i++) {
        source.bytes[i] = (uint8_t)(i * 31 + i / 255);
    }
    assert_int_equal(mprotect(source.bytes + BYTES - PAGE, PAGE, PROT_NONE), 0);
    atomic_store(&source.reached, false);
    atomic_store(&source.go_on, false);
    atomic_store(&source.late, false);
    assert_int_equal(sigaction(SIGSEGV, &action, NULL), 0);

    memset(f->items, 0, sizeof(f->items));
    f->count = 1;
    f->items[0].id.bytes[0] = 1;
    f->items[0].data = source.bytes;
    f->items[0].data_size = BYTES;
    fake_node_start(&f->fake, options);
    open.socket_path = f->fake.path;
    assert_int_equal(nigh_client_open(&open, &f->client), NIGH_OK);
}

static void stop(struct fixture *f)
{
    assert_false(atomic_load(&source.late));
    nigh_client_close(f->client);
    fake_node_stop(&f->fake);
    assert_int_equal(signal(SIGSEGV, SIG_DFL) == SIG_ERR, 0);
    assert_int_equal(munmap(source.bytes, BYTES), 0);
}

/* The thread that copies. */
static void *put(void *context)
{
    struct fixture *f = context;

    if (nigh_put_many_start(f->client, f->items, f->count, &f->op) == NIGH_OK) {
        (void)nigh_wait(f->client, &f->op, NIGH_FOREVER);
    }
    return NULL;
}

static pthread_t begin(struct fixture *f)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, put, f), 0);
    assert_true(SUPPORT_WAIT(atomic_load(&source.reached), GRACE_MS));
    return thread;
}

static void end(pthread_t thread)
{
    atomic_store(&source.go_on, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void assert_copied(struct fixture *f)
{
    nigh_view view;

    assert_int_equal(f->items[0].status, NIGH_OK);
    assert_int_equal(nigh_get(f->client, &f->items[0].id, 1, 0, &view), NIGH_OK);
    assert_int_equal(view.data_size, BYTES);
    assert_memory_equal(view.data, source.bytes, BYTES);
    assert_int_equal(nigh_release(f->client, &view), NIGH_OK);
}

/* Memory that was asked for, and memory cut from a lease. */
static const struct fake_options kinds[] = {{.lease_bytes = 1}, {.lease_bytes = 1 << 20}};

static void test_others_go_on_while_one_copies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        nigh_id other = {{2}};
        struct fixture f;
        pthread_t thread;

        start(&f, &kinds[i]);
        thread = begin(&f);
        assert_int_equal(nigh_put(f.client, &other, "other", 5, NULL), NIGH_OK);
        assert_int_equal(nigh_pin(f.client, &other), NIGH_OK);
        assert_int_equal(nigh_poll(f.client), 0);
        assert_int_equal(nigh_op_status(&f.op), NIGH_PENDING);
        end(thread);
        assert_int_equal(nigh_op_status(&f.op), NIGH_OK);
        assert_copied(&f);
        stop(&f);
    }
}

static const nigh_create_options exclusive = {.flags = NIGH_CREATE_EXCLUSIVE};

struct canceller {
    struct fixture *fixture;
    nigh_status status;
};

static void *cancel(void *context)
{
    struct canceller *canceller = context;

    canceller->status = nigh_cancel(canceller->fixture->client, &canceller->fixture->op);
    return NULL;
}

/* The second item waits for memory: its cancelling says that the op was given up. */
static enum fake_action keep_second(void *context, struct fake_node *fake, uint32_t lane,
                                    const struct session_sqe *sqe, struct session_cqe *cqe)
{
    (void)context;
    (void)fake;
    (void)lane;
    (void)cqe;
    return sqe->op == SESSION_OP_CREATE && sqe->id[0] == 2 ? FAKE_KEEP : FAKE_SERVE;
}

/* Until the copy is done it reads the caller's memory: the op has not ended. */
static void test_cancelled_while_it_copies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct fixture f;
        struct canceller canceller = {.fixture = &f};
        struct fake_options options = kinds[i];
        pthread_t thread, other;
        bool found = true;

        options.hook = keep_second;
        start(&f, &options);
        f.items[1] = (nigh_put_item){.id = {{2}}, .options = &exclusive};
        f.count = 2;
        thread = begin(&f);
        assert_int_equal(pthread_create(&other, NULL, cancel, &canceller), 0);
        assert_true(SUPPORT_WAIT(atomic_load(&f.fake.cancels) == 1, GRACE_MS));
        assert_int_equal(nigh_op_status(&f.op), NIGH_PENDING);
        end(thread);
        assert_int_equal(pthread_join(other, NULL), 0);
        assert_int_equal(canceller.status, NIGH_CANCELED);
        assert_int_equal(f.items[0].status, NIGH_CANCELED);
        assert_int_equal(nigh_contains(f.client, &f.items[0].id, &found), NIGH_OK);
        assert_false(found);
        if (kinds[i].lease_bytes == 1) {
            assert_true(SUPPORT_WAIT(atomic_load(&f.fake.aborts) == 1, GRACE_MS));
        }
        assert_int_equal(atomic_load(&f.fake.seals), 0);
        assert_int_equal(nigh_put(f.client, &f.items[0].id, source.bytes, BYTES, NULL), NIGH_OK);
        f.items[0].status = NIGH_OK;
        assert_copied(&f);
        stop(&f);
    }
}

static void test_node_dies_while_one_copies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        nigh_id other = {{2}};
        struct fixture f;
        pthread_t thread;

        start(&f, &kinds[i]);
        thread = begin(&f);
        fake_node_die(&f.fake, true);
        assert_int_equal(nigh_pin(f.client, &other), NIGH_NODE_LOST);
        assert_int_equal(nigh_op_status(&f.op), NIGH_PENDING);
        /* The session comes back before the copy is done; the put has ended with the first. */
        fake_node_return(&f.fake);
        assert_int_equal(nigh_put(f.client, &other, "other", 5, NULL), NIGH_OK);
        assert_int_equal(nigh_op_status(&f.op), NIGH_PENDING);
        end(thread);
        assert_int_equal(nigh_op_status(&f.op), NIGH_NODE_LOST);
        assert_int_equal(f.items[0].status, NIGH_NODE_LOST);
        if (kinds[i].lease_bytes == 1) {
            assert_true(SUPPORT_WAIT(atomic_load(&f.fake.aborts) == 1, GRACE_MS));
        }
        assert_int_equal(nigh_put(f.client, &f.items[0].id, source.bytes, BYTES, NULL), NIGH_OK);
        f.items[0].status = NIGH_OK;
        assert_copied(&f);
        stop(&f);
    }
}

/* The copy ends while there is no node: the next one hears that nothing will be sealed. */
static void test_node_is_away_when_a_copy_ends(void **state)
{
    struct fixture f;
    pthread_t thread;

    (void)state;
    start(&f, &kinds[0]);
    thread = begin(&f);
    fake_node_die(&f.fake, true);
    assert_int_equal(nigh_pin(f.client, &f.items[0].id), NIGH_NODE_LOST);
    end(thread);
    assert_int_equal(f.items[0].status, NIGH_NODE_LOST);
    fake_node_return(&f.fake);
    assert_int_equal(nigh_put(f.client, &f.items[0].id, source.bytes, BYTES, NULL), NIGH_OK);
    assert_int_equal(atomic_load(&f.fake.aborts), 1);
    stop(&f);
}

/* Nobody waits: who polls makes the copies, and one that was not begun is not made. */
static void test_copies_of_who_polls(void **state)
{
    struct fixture f;
    nigh_id second = {{2}};
    uint32_t asked;

    (void)state;
    start(&f, &kinds[0]);
    atomic_store(&source.go_on, true);
    assert_int_equal(nigh_put_many_start(f.client, f.items, f.count, &f.op), NIGH_OK);
    assert_true(
        SUPPORT_WAIT((nigh_poll(f.client), nigh_op_status(&f.op) != NIGH_PENDING), GRACE_MS));
    assert_int_equal(nigh_op_status(&f.op), NIGH_OK);
    assert_copied(&f);

    f.items[0].id = second;
    f.items[0].data = NULL; /* would be seen */
    assert_int_equal(nigh_put_many_start(f.client, f.items, f.count, &f.op), NIGH_OK);
    assert_int_equal(nigh_wait(f.client, &f.op, 0), NIGH_INVALID);
    f.items[0].data = source.bytes;
    asked = atomic_load(&f.fake.submissions);
    assert_int_equal(nigh_put_many_start(f.client, f.items, f.count, &f.op), NIGH_OK);
    assert_true(SUPPORT_WAIT(atomic_load(&f.fake.submissions) > asked, GRACE_MS));
    fake_node_lock(&f.fake); /* and it has answered */
    fake_node_unlock(&f.fake);
    assert_int_equal(nigh_cancel(f.client, &f.op), NIGH_CANCELED);
    assert_true(SUPPORT_WAIT(atomic_load(&f.fake.aborts) == 1, GRACE_MS));
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others_go_on_while_one_copies),
        cmocka_unit_test(test_cancelled_while_it_copies),
        cmocka_unit_test(test_node_dies_while_one_copies),
        cmocka_unit_test(test_node_is_away_when_a_copy_ends),
        cmocka_unit_test(test_copies_of_who_polls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
