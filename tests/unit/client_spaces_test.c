/* SPDX-License-Identifier: Apache-2.0 */
/* Spaces as a client has them: what is asked of its node and what is not, what threads wait for,
 * and what is left when one of them, or the node, ends. The node is a fake that has them alone. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/attach.h"
#include "client/client_internal.h"
#include "client_fixture.h"
#include "nigh/space.h"
#include "support/fake_space.h"

#define WAIT_US     20000000
#define SOON_US     20000
#define A_SECOND_US 1000000
#define BLOCK       512u
#define HERE(n)     ((nigh_space_address)(n)*BLOCK)
#define THERE(n)    (NIGH_SPACE_ON(FAKE_OTHER) - 1 + HERE(n))

struct world {
    struct fixture f;
    struct fake_space fake;
    nigh_space *space;
};

static const nigh_space_spec one_spec = {
    .struct_size = sizeof(nigh_space_spec), .name = "one", .home_size = 64 * BLOCK};

static void begin_as(struct world *world, uint32_t rights)
{
    start(&world->f, &(struct fake_options){.rights = rights,
                                            .hook = fake_space_hook,
                                            .turn = fake_space_turn,
                                            .file = fake_space_file,
                                            .context = &world->fake});
    assert_int_equal(nigh_space_create(world->f.client, &one_spec, WAIT_US, &world->space),
                     NIGH_OK);
}

static void begin_with(struct world *world, uint32_t rights)
{
    fake_space_init(&world->fake);
    begin_as(world, rights);
}

static void begin(struct world *world)
{
    begin_with(world, 0);
}

static void begin_older(struct world *world)
{
    fake_space_init(&world->fake);
    atomic_store(&world->fake.says_no_birth, true);
    begin_as(world, 0);
}

static void finish(struct world *world)
{
    stop(&world->f);
    fake_space_fini(&world->fake);
}

/* What was said is looked at. */
static void look(struct world *world)
{
    fake_node_look(&world->f.fake);
}

/* A look that is under way comes to its end. */
static void stand(struct world *world)
{
    fake_node_lock(&world->f.fake);
    atomic_store(&world->fake.stands, true);
    fake_node_unlock(&world->f.fake);
}

static void go_on(struct world *world)
{
    atomic_store(&world->fake.stands, false);
    look(world);
}

static uint32_t said(struct world *world, enum space_record_kind kind)
{
    return fake_space_said(&world->fake, kind);
}

static uint32_t asked(struct world *world, enum session_space_what what)
{
    return fake_space_asked(&world->fake, what);
}

static struct fake_one *one(struct world *world)
{
    return &world->fake.spaces[0];
}

static void put(struct world *world, nigh_space_address address, uint64_t value)
{
    assert_int_equal(nigh_space_write(world->space, address, &value, 8, WAIT_US), NIGH_OK);
}

static uint64_t get(struct world *world, nigh_space_address address)
{
    uint64_t value = 0;

    assert_int_equal(nigh_space_read(world->space, address, &value, 8, WAIT_US), NIGH_OK);
    return value;
}

static void assert_sentence(struct world *world, const char *part)
{
    char text[512];

    assert_true(nigh_client_error(world->f.client, text, sizeof(text)) > 0);
    if (strstr(text, part) == NULL) {
        print_error("\"%s\" does not say \"%s\"\n", text, part);
        fail();
    }
}

/* ---- another thread ------------------------------------------------------- */

struct other {
    struct world *world;
    pthread_t thread;
    nigh_status (*what)(struct other *other);
    nigh_space_address address;
    uint64_t timeout_us;
    uint64_t value;
    nigh_space_ticket ticket;
    nigh_status status;
    _Atomic bool is_there, goes_on, has_ended;
};

static void *run_other(void *context)
{
    struct other *other = context;

    other->status = other->what(other);
    atomic_store(&other->has_ended, true);
    return NULL;
}

static void begin_other(struct world *world, struct other *other,
                        nigh_status (*what)(struct other *), nigh_space_address address)
{
    *other =
        (struct other){.world = world, .what = what, .address = address, .timeout_us = WAIT_US};
    assert_int_equal(pthread_create(&other->thread, NULL, run_other, other), 0);
}

static nigh_status end_other(struct other *other)
{
    assert_int_equal(pthread_join(other->thread, NULL), 0);
    return other->status;
}

static nigh_status do_other(struct world *world, nigh_status (*what)(struct other *),
                            nigh_space_address address)
{
    struct other other;

    begin_other(world, &other, what, address);
    return end_other(&other);
}

static nigh_status lock_write(struct other *other)
{
    return nigh_space_lock_write(other->world->space, other->address, 1, other->timeout_us);
}

static nigh_status lock_read(struct other *other)
{
    return nigh_space_lock_read(other->world->space, other->address, 1, other->timeout_us);
}

static nigh_status try_lock(struct other *other)
{
    return nigh_space_try_lock_write(other->world->space, other->address, 1, other->timeout_us);
}

static nigh_status unlock(struct other *other)
{
    return nigh_space_unlock(other->world->space, other->address, 1, other->timeout_us);
}

static nigh_status read_word(struct other *other)
{
    return nigh_space_read(other->world->space, other->address, &other->value, 8,
                           other->timeout_us);
}

static nigh_status write_word(struct other *other)
{
    return nigh_space_write(other->world->space, other->address, &other->address, 8,
                            other->timeout_us);
}

/* ---- handles -------------------------------------------------------------- */

static void what_cannot_be_is_not_asked(void **state)
{
    struct world world;
    nigh_space_spec spec = one_spec;
    nigh_space *space = NULL;
    uint32_t before;

    (void)state;
    begin(&world);
    before = asked(&world, SESSION_SPACE_CREATE);
    spec.name = "";
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &space), NIGH_INVALID);
    spec.name = "a name that has one byte more than it may have: x";
    assert_int_equal(strlen(spec.name), NIGH_SPACE_NAME_BYTES + 2);
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &space), NIGH_INVALID);
    spec.name = "two";
    spec.block_size = 96;
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &space), NIGH_INVALID);
    spec.block_size = 8192;
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &space), NIGH_INVALID);
    spec.block_size = 0;
    spec.home_size = BLOCK;
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &space), NIGH_INVALID);
    spec.home_size = 64 * BLOCK + 1;
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &space), NIGH_INVALID);
    spec.home_size = UINT64_C(1) << 39;
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &space), NIGH_INVALID);
    assert_sentence(&world, "whole blocks of 512 bytes, two at least, and less than 512 GiB");
    assert_sentence(&world, "larger blocks");
    spec.block_size = 4096;
    spec.home_size = UINT64_C(1) << 42;
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &space), NIGH_INVALID);
    assert_sentence(&world, "less than 4096 GiB in all; not");
    spec.block_size = 0;
    spec.home_size = 64 * BLOCK;
    spec.cache_size = UINT64_MAX;
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &space), NIGH_INVALID);
    spec.cache_size = 0;
    spec.other_access = 4;
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &space), NIGH_INVALID);
    spec.other_access = 0;
    spec.flags = 1;
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &space), NIGH_INVALID);
    spec.flags = 0;
    spec.durability = (nigh_space_durability)3;
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &space), NIGH_INVALID);
    spec.durability = NIGH_SPACE_DURABLE_NONE;
    spec.struct_size = 7;
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &space), NIGH_INVALID);
    spec.struct_size = sizeof(spec);
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, NULL), NIGH_INVALID);
    assert_int_equal(nigh_space_create(world.f.client, NULL, WAIT_US, &space), NIGH_INVALID);
    assert_int_equal(nigh_space_open(world.f.client, "one", 0, WAIT_US, &space), NIGH_INVALID);
    assert_int_equal(nigh_space_open(world.f.client, "one", 4, WAIT_US, &space), NIGH_INVALID);
    assert_null(space);
    assert_int_equal(asked(&world, SESSION_SPACE_CREATE), before);
    assert_int_equal(asked(&world, SESSION_SPACE_OPEN), 1);
    finish(&world);
}

static void one_is_created_looked_at_and_deleted(void **state)
{
    struct world world;
    nigh_space_spec spec = {.struct_size = sizeof(spec),
                            .name = "small",
                            .home_size = 4096,
                            .block_size = 64,
                            .other_access = NIGH_SPACE_READ};
    nigh_space_info infos[3] = {{.struct_size = sizeof(infos[0])}};
    nigh_space *small = NULL;
    uint32_t more = 7;
    size_t count = 0;

    (void)state;
    begin(&world);
    assert_int_equal(nigh_space_block_size(world.space), BLOCK);
    assert_int_equal(nigh_space_create(world.f.client, &one_spec, WAIT_US, &small), NIGH_EXISTS);
    assert_sentence(&world, "already");
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &small), NIGH_OK);
    assert_int_equal(nigh_space_block_size(small), 64);
    assert_int_equal(nigh_space_stat(world.f.client, "small", WAIT_US, infos), NIGH_OK);
    assert_string_equal(infos[0].name, "small");
    assert_int_equal(infos[0].home_size, 4096);
    assert_int_equal(infos[0].cache_size, 4096);
    assert_int_equal(infos[0].block_size, 64);
    assert_int_equal(infos[0].ranks, 3);
    assert_int_equal(infos[0].uid, 1000);
    assert_int_equal(infos[0].gid, 1001);
    assert_int_equal(infos[0].group_access, 0);
    assert_int_equal(infos[0].other_access, NIGH_SPACE_READ);
    assert_int_equal(infos[0].access, NIGH_SPACE_ALL);
    assert_int_equal(nigh_space_list(world.f.client, NULL, infos, 3, WAIT_US, &count, &more),
                     NIGH_OK);
    assert_int_equal(count, 2);
    assert_int_equal(more, 0);
    assert_string_equal(infos[1].name, "small");
    assert_int_equal(nigh_space_list(world.f.client, NULL, infos, 1, WAIT_US, &count, &more),
                     NIGH_OK);
    assert_int_equal(count, 1);
    assert_int_equal(more, 1);
    assert_int_equal(nigh_space_list(world.f.client, "one", infos, 3, WAIT_US, &count, &more),
                     NIGH_OK);
    assert_int_equal(count, 1);
    assert_string_equal(infos[0].name, "small");
    assert_int_equal(nigh_space_delete(world.f.client, "small", WAIT_US), NIGH_OK);
    assert_int_equal(nigh_space_delete(world.f.client, "small", WAIT_US), NIGH_NOT_FOUND);
    assert_int_equal(nigh_space_stat(world.f.client, "small", WAIT_US, infos), NIGH_NOT_FOUND);
    atomic_store(&world.fake.status, NIGH_BUSY);
    assert_int_equal(nigh_space_delete(world.f.client, "one", WAIT_US), NIGH_BUSY);
    assert_sentence(&world, "it is being created, or deleted");
    atomic_store(&world.fake.status, NIGH_OK);
    infos[0].struct_size = 8;
    assert_int_equal(nigh_space_stat(world.f.client, "one", WAIT_US, infos), NIGH_INVALID);
    nigh_space_close(small);
    finish(&world);
}

static void what_the_node_counts_is_told(void **state)
{
    struct world world;
    struct {
        nigh_space_counts counts;
        uint64_t behind;
    } told = {.counts = {.struct_size = sizeof(told.counts)}, .behind = 77};
    const nigh_space_counts all = {sizeof(told.counts), 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 11};

    (void)state;
    begin(&world);
    assert_int_equal(nigh_space_count(world.f.client, "one", WAIT_US, &told.counts), NIGH_OK);
    assert_memory_equal(&told.counts, &all, sizeof(all));
    told.counts = (nigh_space_counts){.struct_size = sizeof(told)};
    assert_int_equal(nigh_space_count(world.f.client, "one", WAIT_US, &told.counts), NIGH_OK);
    assert_int_equal(told.counts.block_bytes, 11);
    assert_int_equal(told.behind, 0);
    assert_int_equal(nigh_space_count(world.f.client, "two", WAIT_US, &told.counts),
                     NIGH_NOT_FOUND);
    assert_int_equal(nigh_space_count(world.f.client, "", WAIT_US, &told.counts), NIGH_INVALID);
    assert_int_equal(nigh_space_count(world.f.client, "one", WAIT_US, NULL), NIGH_INVALID);
    told.counts.struct_size = 4;
    assert_int_equal(nigh_space_count(world.f.client, "one", WAIT_US, &told.counts), NIGH_INVALID);
    assert_sentence(&world, "struct_size");
    told.counts.struct_size = sizeof(told.counts);
    atomic_store(&world.fake.counts_none, true);
    assert_int_equal(nigh_space_count(world.f.client, "one", WAIT_US, &told.counts), NIGH_INVALID);
    assert_sentence(&world, "older");
    finish(&world);
}

/* The node counts, and says one number: by it a thread knows its writes. */
static void handles_of_one_space_are_one(void **state)
{
    struct world world;
    nigh_space *again = NULL, *reads = NULL;
    uint64_t value = 7, seen = 0;

    (void)state;
    begin(&world);
    assert_int_equal(nigh_space_open(world.f.client, "one", NIGH_SPACE_ALL, WAIT_US, &again),
                     NIGH_OK);
    assert_int_equal(nigh_space_open(world.f.client, "one", NIGH_SPACE_READ, WAIT_US, &reads),
                     NIGH_OK);
    put(&world, HERE(1), 1);
    assert_int_equal(nigh_space_fence(again, WAIT_US), NIGH_OK);
    stand(&world);
    assert_int_equal(nigh_space_write(again, HERE(1), &value, 8, WAIT_US), NIGH_OK);
    assert_int_equal(get(&world, HERE(1)), 7);
    assert_int_equal(nigh_space_write(reads, HERE(1), &value, 8, WAIT_US), NIGH_DENIED);
    assert_int_equal(nigh_space_lock_write(reads, HERE(1), 1, WAIT_US), NIGH_DENIED);
    assert_int_equal(nigh_space_fetch_add(reads, HERE(1), 1, WAIT_US, &seen), NIGH_DENIED);
    assert_int_equal(nigh_space_alloc(reads, 1, 0, WAIT_US, &seen), NIGH_DENIED);
    go_on(&world);
    nigh_space_close(world.space);
    nigh_space_close(reads);
    assert_int_equal(asked(&world, SESSION_SPACE_CLOSE), 2);
    assert_int_equal(nigh_space_read(again, HERE(1), &seen, 8, WAIT_US), NIGH_OK);
    assert_int_equal(seen, 7);
    nigh_space_close(again);
    nigh_space_close(NULL);
    assert_int_equal(asked(&world, SESSION_SPACE_CLOSE), 3);
    assert_int_equal(asked(&world, SESSION_SPACE_WINDOW), 1);
    finish(&world);
}

/* Another has its name by then; an older node does not say which one it has made. */
static void what_was_made_is_opened_and_no_other(void **state)
{
    struct world world;
    nigh_space *space = NULL;
    nigh_space_spec spec = one_spec;

    (void)state;
    begin(&world);
    spec.name = "two";
    atomic_store(&world.fake.makes_anew, true);
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &space), NIGH_NOT_FOUND);
    assert_sentence(&world, "created, and deleted meanwhile");
    assert_null(space);
    assert_int_equal(nigh_space_open(world.f.client, "two", NIGH_SPACE_ALL, WAIT_US, &space),
                     NIGH_OK);
    nigh_space_close(space);
    finish(&world);
    begin_older(&world);
    nigh_space_close(world.space);
    finish(&world);
}

/* The call has given up, and the answer comes. */
static void what_opened_too_late_is_closed(void **state)
{
    struct world world;
    nigh_space *late = NULL;

    (void)state;
    begin(&world);
    atomic_store(&world.fake.keeps_whats, 1u << SESSION_SPACE_OPEN);
    assert_int_equal(nigh_space_open(world.f.client, "one", NIGH_SPACE_ALL, SOON_US, &late),
                     NIGH_TIMEOUT);
    assert_int_equal(asked(&world, SESSION_SPACE_OPEN), 2);
    fake_node_lock(&world.f.fake);
    one(&world)->opens++;
    fake_node_complete(&world.f.fake, 0,
                       &(struct session_cqe){.cookie = world.fake.kept_cookies[0],
                                             .generation = 1,
                                             .flags = SESSION_CQE_OPENED,
                                             .pin = SESSION_NO_PIN});
    fake_node_unlock(&world.f.fake);
    assert_true(
        SUPPORT_WAIT((nigh_poll(world.f.client), asked(&world, SESSION_SPACE_CLOSE) == 1), 20000));
    put(&world, HERE(1), 5);
    assert_int_equal(nigh_space_flush(world.space, WAIT_US, NULL), NIGH_OK);
    finish(&world);
}

static void what_has_no_file_is_closed_again(void **state)
{
    struct world world;
    nigh_space *space = NULL;
    nigh_space_spec spec = one_spec;
    uint64_t seen;

    (void)state;
    begin(&world);
    spec.name = "two";
    atomic_store(&world.fake.loses_files, true);
    assert_int_equal(nigh_space_create(world.f.client, &spec, A_SECOND_US, &space), NIGH_TIMEOUT);
    assert_null(space);
    assert_true(asked(&world, SESSION_SPACE_CLOSE) > 0);
    fake_node_lock(&world.f.fake);
    assert_int_equal(world.fake.spaces[1].opens, 0);
    fake_node_unlock(&world.f.fake);
    assert_int_equal(nigh_space_read(world.space, HERE(1), &seen, 8, WAIT_US), NIGH_NOT_FOUND);
    assert_int_equal(asked(&world, SESSION_SPACE_WINDOW_END), 1);
    atomic_store(&world.fake.loses_files, false);
    assert_int_equal(nigh_space_read(world.space, HERE(1), &seen, 8, WAIT_US), NIGH_OK);
    finish(&world);
}

/* Between the answer and the look at it: it is made anew, or deleted, as the node says when it is
 * asked again. */
static void what_is_let_go_as_it_opens_is_asked_for_again(void **state)
{
    struct world world;
    nigh_space *space = NULL;
    nigh_space_spec spec = one_spec;

    (void)state;
    begin(&world);
    spec.name = "two";
    atomic_store(&world.fake.hollow, 1);
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &space), NIGH_OK);
    assert_int_equal(asked(&world, SESSION_SPACE_OPEN), 3);
    assert_int_equal(asked(&world, SESSION_SPACE_CLOSE), 1);
    nigh_space_close(space);
    space = NULL;
    atomic_store(&world.fake.hollow, 1);
    atomic_store(&world.fake.deletes_hollow, true);
    assert_int_equal(nigh_space_open(world.f.client, "two", NIGH_SPACE_ALL, WAIT_US, &space),
                     NIGH_NOT_FOUND);
    assert_sentence(&world, "there is no space of this name");
    assert_null(space);
    assert_int_equal(asked(&world, SESSION_SPACE_OPEN), 5);
    assert_int_equal(asked(&world, SESSION_SPACE_CLOSE), 3);
    nigh_space_close(world.space);
    atomic_store(&world.fake.swaps_files, true);
    assert_int_equal(nigh_space_open(world.f.client, "one", NIGH_SPACE_ALL, WAIT_US, &space),
                     NIGH_PROTOCOL);
    assert_int_equal(asked(&world, SESSION_SPACE_OPEN), 6);
    assert_int_equal(asked(&world, SESSION_SPACE_CLOSE), 5);
    finish(&world);
}

static void a_limit_says_of_what(void **state)
{
    struct world world;
    nigh_space *space = NULL;

    (void)state;
    begin(&world);
    atomic_store(&world.fake.status, NIGH_LIMIT);
    assert_int_equal(nigh_space_create(world.f.client, &one_spec, WAIT_US, &space), NIGH_LIMIT);
    assert_sentence(&world, "this client has as many open as it may");
    assert_int_equal(nigh_space_open(world.f.client, "one", NIGH_SPACE_ALL, WAIT_US, &space),
                     NIGH_LIMIT);
    assert_sentence(&world, "this client has as many open as it may");
    atomic_store(&world.fake.status, NIGH_OK);
    finish(&world);
}

static nigh_status close_it(struct other *other)
{
    nigh_space_close(other->world->space);
    return NIGH_OK;
}

static void what_is_written_is_carried_out_before_the_end(void **state)
{
    struct world world;
    struct other other;
    uint64_t value = 0;

    (void)state;
    begin(&world);
    atomic_store(&world.fake.keeps, 1u << SPACE_RECORD_WRITE);
    assert_int_equal(do_other(&world, write_word, HERE(3)), NIGH_OK);
    assert_true(SUPPORT_WAIT(said(&world, SPACE_RECORD_WRITE) == 1, 20000));
    begin_other(&world, &other, close_it, 0);
    /* As long as it takes one that does not wait to be at its end. */
    (void)SUPPORT_WAIT(asked(&world, SESSION_SPACE_CLOSE) == 1, 50);
    atomic_store(&world.fake.keeps, 0);
    look(&world);
    assert_int_equal(end_other(&other), NIGH_OK);
    fake_node_lock(&world.f.fake);
    space_bytes_load(space_bytes_of(&one(&world)->home, 3), 0, &value, 8);
    assert_int_equal(one(&world)->opens, 0);
    fake_node_unlock(&world.f.fake);
    assert_int_equal(value, HERE(3));
    finish(&world);
}

/* ---- bytes ---------------------------------------------------------------- */

static void what_is_here_is_read_without_asking(void **state)
{
    struct world world;
    struct other other;
    uint64_t value = 0;
    uint32_t submissions;

    (void)state;
    begin(&world);
    fake_node_lock(&world.f.fake);
    value = 11;
    space_bytes_store(fake_space_block(one(&world), THERE(5)), 8, &value, 8);
    fake_space_show(one(&world), THERE(5));
    fake_node_unlock(&world.f.fake);
    put(&world, HERE(1), 3);
    assert_int_equal(nigh_space_fence(world.space, WAIT_US), NIGH_OK);
    assert_int_equal(do_other(&world, read_word, HERE(1)), NIGH_OK); /* it has a window */
    submissions = atomic_load(&world.f.fake.submissions);
    stand(&world);
    for (uint32_t n = 0; n < 1000; n++) {
        assert_int_equal(nigh_space_read(world.space, HERE(1), &value, 8, 0), NIGH_OK);
        assert_int_equal(value, 3);
        assert_int_equal(nigh_space_get(world.space, THERE(5) + 8, 0, &value), NIGH_OK);
        assert_int_equal(value, 11);
    }
    assert_int_equal(said(&world, SPACE_RECORD_READ), 0);
    assert_int_equal(atomic_load(&world.f.fake.submissions), submissions);
    /* Nor is the client's lock wanted. */
    client_lock(world.f.client);
    assert_int_equal(nigh_space_read(world.space, HERE(1), &value, 8, 0), NIGH_OK);
    client_unlock(world.f.client);
    /* What is not here is: with no time for that not at all. */
    assert_int_equal(nigh_space_read(world.space, THERE(6), &value, 8, 0), NIGH_TIMEOUT);
    go_on(&world);
    begin_other(&world, &other, read_word, THERE(6));
    assert_int_equal(end_other(&other), NIGH_OK);
    assert_int_equal(said(&world, SPACE_RECORD_READ), 1);
    finish(&world);
}

/* Others may have gone on without the node: it is asked, and when it says nothing nothing is read.
 */
static void what_a_node_has_without_a_lease_is_asked_for(void **state)
{
    struct world world;
    _Atomic uint64_t *until_us;
    uint64_t value = 0;

    (void)state;
    begin(&world);
    until_us = &world.f.fake.page->spaces_until_us;
    put(&world, HERE(1), 3);
    assert_int_equal(nigh_space_fence(world.space, WAIT_US), NIGH_OK);
    shared_store_relaxed(until_us, clock_now_us(&clock_monotonic) + 10 * WAIT_US);
    assert_int_equal(nigh_space_get(world.space, HERE(1), WAIT_US, &value), NIGH_OK);
    assert_int_equal(said(&world, SPACE_RECORD_READ), 0);
    shared_store_relaxed(until_us, clock_now_us(&clock_monotonic));
    assert_int_equal(nigh_space_get(world.space, HERE(1), WAIT_US, &value), NIGH_OK);
    assert_int_equal(value, 3);
    assert_int_equal(said(&world, SPACE_RECORD_READ), 1);
    shared_store_relaxed(until_us, 0);
    stand(&world);
    assert_int_equal(nigh_space_get(world.space, HERE(1), SOON_US, &value), NIGH_TIMEOUT);
    go_on(&world);
    finish(&world);
}

/* Of any place and length, over blocks here and there. */
static void bytes_of_several_blocks_are_cut(void **state)
{
    static uint8_t written[5 * BLOCK], seen[5 * BLOCK];
    struct world world;

    (void)state;
    begin(&world);
    for (uint32_t n = 0; n < sizeof(written); n++) {
        written[n] = (uint8_t)(n * 7 + n / 256);
    }
    for (uint32_t at = 0; at < 2; at++) {
        nigh_space_address begin_at = (at == 0 ? HERE(2) : THERE(2)) + 13;
        nigh_space_ticket ticket;

        assert_int_equal(nigh_space_write_with(world.space, begin_at, written, 4 * BLOCK + 100,
                                               WAIT_US, &ticket),
                         NIGH_OK);
        assert_int_equal(nigh_space_read(world.space, begin_at, seen, 4 * BLOCK + 100, WAIT_US),
                         NIGH_OK);
        assert_memory_equal(seen, written, 4 * BLOCK + 100);
        assert_int_equal(nigh_space_wait(world.space, &ticket, WAIT_US), NIGH_OK);
        memset(seen, 0, sizeof(seen));
        assert_int_equal(nigh_space_read(world.space, begin_at, seen, 4 * BLOCK + 100, WAIT_US),
                         NIGH_OK);
        assert_memory_equal(seen, written, 4 * BLOCK + 100);
    }
    assert_int_equal(said(&world, SPACE_RECORD_WRITE), 10);
    assert_int_equal(nigh_space_read(world.space, 0, seen, 1, WAIT_US), NIGH_INVALID);
    assert_int_equal(nigh_space_write(world.space, 0, seen, 1, WAIT_US), NIGH_INVALID);
    assert_int_equal(nigh_space_read(world.space, HERE(1), NULL, 1, WAIT_US), NIGH_INVALID);
    assert_int_equal(nigh_space_read(world.space, UINT64_MAX, seen, 2, WAIT_US), NIGH_INVALID);
    assert_int_equal(nigh_space_read(world.space, 0, NULL, 0, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_space_write(world.space, 0, NULL, 0, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_space_read(world.space, HERE(70), seen, 8, WAIT_US), NIGH_NOT_FOUND);
    assert_sentence(&world, "0x8c00");
    assert_int_equal(nigh_space_read(NULL, HERE(1), seen, 1, WAIT_US), NIGH_INVALID);
    finish(&world);
}

/* So many blocks ahead, and what is here not at all. */
static void what_a_long_read_comes_to_is_fetched(void **state)
{
    static uint8_t seen[60 * BLOCK];
    struct world world;
    const uint64_t half = 5;

    (void)state;
    for (uint32_t fetches = 0; fetches < 2; fetches++) {
        uint32_t first = fetches == 0 ? 0 : LIMIT_SPACE_FETCHES, all = fetches == 0 ? 0 : 60;

        begin_with(&world, fetches == 0 ? 0 : SESSION_FETCHES);
        stand(&world);
        assert_int_equal(nigh_space_read(world.space, THERE(2) + 13, seen, 59 * BLOCK, SOON_US),
                         NIGH_TIMEOUT);
        go_on(&world);
        assert_int_equal(get(&world, THERE(1)), 0);
        assert_int_equal(said(&world, SPACE_RECORD_FETCH), first);
        assert_int_equal(said(&world, SPACE_RECORD_READ), 2);
        fake_node_lock(&world.f.fake);
        space_bytes_store(fake_space_block(one(&world), THERE(7)), 8, &half, 8);
        fake_space_show(one(&world), THERE(7));
        fake_node_unlock(&world.f.fake);
        assert_int_equal(nigh_space_read(world.space, THERE(2) + 13, seen, 59 * BLOCK, WAIT_US),
                         NIGH_OK);
        assert_int_equal(seen[5 * BLOCK + 8 - 13], 5);
        assert_int_equal(said(&world, SPACE_RECORD_FETCH), first + (fetches == 0 ? 0 : all - 1));
        assert_int_equal(said(&world, SPACE_RECORD_READ), 2 + 59);
        finish(&world);
    }
}

static void a_thread_sees_its_writes_and_others_do_not(void **state)
{
    struct world world;
    struct other other;

    (void)state;
    begin(&world);
    put(&world, HERE(1), 1);
    assert_int_equal(nigh_space_fence(world.space, WAIT_US), NIGH_OK);
    stand(&world);
    put(&world, HERE(1), 2);
    assert_int_equal(get(&world, HERE(1)), 2);
    begin_other(&world, &other, read_word, HERE(1));
    assert_int_equal(end_other(&other), NIGH_OK);
    assert_int_equal(other.value, 1);
    go_on(&world);
    assert_int_equal(nigh_space_fence(world.space, WAIT_US), NIGH_OK);
    begin_other(&world, &other, read_word, HERE(1));
    assert_int_equal(end_other(&other), NIGH_OK);
    assert_int_equal(other.value, 2);
    finish(&world);
}

static nigh_status fill_buffer(struct other *other)
{
    uint8_t bytes[BLOCK] = {0};
    nigh_status status = NIGH_OK;

    for (uint32_t n = 0; n < 3 * LIMIT_SPACE_RING_BYTES / BLOCK && status == NIGH_OK; n++) {
        memset(bytes, (int)n, sizeof(bytes));
        status = nigh_space_write(other->world->space, other->address, bytes, sizeof(bytes),
                                  other->timeout_us);
        atomic_store(&other->is_there, n > LIMIT_SPACE_RING_BYTES / BLOCK / 2);
        other->value = n;
    }
    return status;
}

static void a_full_buffer_waits_for_room(void **state)
{
    struct world world;
    struct other other;
    uint8_t bytes[BLOCK] = {0}, seen[BLOCK];
    nigh_status status = NIGH_OK;
    uint32_t count = 0;

    (void)state;
    begin(&world);
    stand(&world);
    while (status == NIGH_OK) {
        status = nigh_space_write(world.space, HERE(2), bytes, sizeof(bytes), 0);
        count++;
    }
    assert_int_equal(status, NIGH_TIMEOUT);
    assert_true(count > LIMIT_SPACE_RING_BYTES / (BLOCK + 16) - 2);
    assert_int_equal(nigh_space_write(world.space, HERE(2), bytes, sizeof(bytes), SOON_US),
                     NIGH_TIMEOUT);
    begin_other(&world, &other, fill_buffer, HERE(1));
    assert_true(SUPPORT_WAIT(atomic_load(&other.is_there), 20000));
    go_on(&world);
    assert_int_equal(end_other(&other), NIGH_OK);
    assert_int_equal(nigh_space_write(world.space, HERE(2), bytes, sizeof(bytes), WAIT_US),
                     NIGH_OK);
    assert_int_equal(nigh_space_flush(world.space, WAIT_US, NULL), NIGH_OK);
    assert_true(SUPPORT_WAIT(nigh_space_read(world.space, HERE(1), seen, sizeof(seen), WAIT_US) ==
                                     NIGH_OK &&
                                 seen[0] == (uint8_t)other.value,
                             20000));
    finish(&world);
}

static void a_ticket_says_what_is_done(void **state)
{
    struct world world;
    nigh_space_ticket first, second, both, none;
    uint8_t bytes[2 * BLOCK] = {0};

    (void)state;
    begin(&world);
    atomic_store(&world.fake.keeps_block, HERE(1));
    assert_int_equal(nigh_space_write_with(world.space, HERE(1), bytes, 8, WAIT_US, &first),
                     NIGH_OK);
    assert_int_equal(nigh_space_write_with(world.space, HERE(4), bytes, 8, WAIT_US, &second),
                     NIGH_OK);
    assert_int_equal(nigh_space_write_with(world.space, HERE(2), bytes, 2 * BLOCK, WAIT_US, &both),
                     NIGH_OK);
    assert_int_equal(nigh_space_write_with(world.space, HERE(2), bytes, 0, WAIT_US, &none),
                     NIGH_OK);
    assert_int_equal(nigh_space_wait(world.space, &second, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_space_is_done(world.space, &second), NIGH_OK);
    assert_int_equal(nigh_space_is_done(world.space, &none), NIGH_OK);
    assert_int_equal(nigh_space_is_done(world.space, &first), NIGH_PENDING);
    assert_int_equal(nigh_space_is_done(world.space, &both), NIGH_PENDING);
    assert_int_equal(nigh_space_wait(world.space, &first, SOON_US), NIGH_TIMEOUT);
    atomic_store(&world.fake.keeps_block, 0);
    look(&world);
    assert_int_equal(nigh_space_wait(world.space, &first, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_space_wait(world.space, &both, WAIT_US), NIGH_OK);
    for (uint32_t n = 0; n < 3 * LIMIT_SPACE_RING_BYTES / BLOCK; n++) {
        put(&world, HERE(1), n);
    }
    assert_int_equal(nigh_space_is_done(world.space, &first), NIGH_OK);
    first.buffer++;
    assert_int_equal(nigh_space_is_done(world.space, &first), NIGH_INVALID);
    assert_int_equal(nigh_space_wait(world.space, NULL, WAIT_US), NIGH_INVALID);
    finish(&world);
}

/* ---- order ---------------------------------------------------------------- */

static void fences_are_said_and_waited_for(void **state)
{
    struct world world;
    uint64_t value;

    (void)state;
    begin(&world);
    assert_int_equal(nigh_space_store_fence(world.space, 0), NIGH_OK); /* there is nothing */
    assert_int_equal(nigh_space_fence(world.space, 0), NIGH_OK);
    assert_int_equal(said(&world, SPACE_RECORD_FENCE), 0);
    atomic_store(&world.fake.keeps_block, HERE(1));
    put(&world, HERE(1), 1);
    assert_int_equal(nigh_space_put(world.space, HERE(2), 2, WAIT_US), NIGH_OK);
    assert_true(SUPPORT_WAIT(said(&world, SPACE_RECORD_WRITE) == 2, 20000));
    assert_int_equal(said(&world, SPACE_RECORD_FENCE), 1);
    assert_int_equal(nigh_space_fence(world.space, SOON_US), NIGH_TIMEOUT);
    assert_int_equal(nigh_space_flush(world.space, SOON_US, NULL), NIGH_TIMEOUT);
    fake_node_lock(&world.f.fake);
    space_bytes_load(fake_space_block(one(&world), HERE(2)), 0, &value, 8);
    fake_node_unlock(&world.f.fake);
    assert_int_equal(value, 0); /* it is behind the fence */
    atomic_store(&world.fake.keeps_block, 0);
    look(&world);
    assert_int_equal(nigh_space_fence(world.space, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_space_get(world.space, HERE(2), 0, &value), NIGH_OK);
    assert_int_equal(value, 2);
    assert_int_equal(nigh_space_get(world.space, HERE(2) + 4, 0, &value), NIGH_INVALID);
    assert_int_equal(nigh_space_put(world.space, HERE(2) + 4, 0, 0), NIGH_INVALID);
    finish(&world);
}

static void a_flush_says_what_failed(void **state)
{
    struct world world;
    nigh_space_address failed = 0;

    (void)state;
    begin(&world);
    put(&world, HERE(1), 1);
    assert_int_equal(nigh_space_flush(world.space, WAIT_US, &failed), NIGH_OK);
    assert_int_equal(failed, 0);
    put(&world, HERE(100), 1);
    put(&world, HERE(1), 1);
    put(&world, HERE(101), 1);
    assert_int_equal(nigh_space_fence(world.space, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_space_flush(world.space, WAIT_US, &failed), NIGH_NOT_FOUND);
    assert_int_equal(failed, HERE(101));
    assert_sentence(&world, "2 of the thread's writes and unlocks failed, the last at 0xca00: "
                            "nothing is allocated there");
    assert_int_equal(nigh_space_flush(world.space, WAIT_US, NULL), NIGH_OK);
    finish(&world);
}

/* ---- words ---------------------------------------------------------------- */

static void words_are_changed_at_once(void **state)
{
    struct world world;
    uint64_t old = 9;

    (void)state;
    begin(&world);
    for (uint32_t n = 0; n < 2; n++) {
        nigh_space_address at = (n == 0 ? HERE(1) : THERE(1)) + 8;

        put(&world, at, 5);
        assert_int_equal(nigh_space_fetch_add(world.space, at, 2, WAIT_US, &old), NIGH_OK);
        assert_int_equal(old, 5);
        assert_int_equal(nigh_space_exchange(world.space, at, 20, WAIT_US, &old), NIGH_OK);
        assert_int_equal(old, 7);
        assert_int_equal(nigh_space_compare_swap(world.space, at, 19, 1, WAIT_US, &old), NIGH_OK);
        assert_int_equal(old, 20);
        assert_int_equal(nigh_space_compare_swap(world.space, at, 20, 1, WAIT_US, NULL), NIGH_OK);
        assert_int_equal(get(&world, at), 1);
        assert_int_equal(nigh_space_fetch_add(world.space, at + 4, 2, WAIT_US, &old), NIGH_INVALID);
    }
    assert_int_equal(nigh_space_exchange(world.space, 0, 2, WAIT_US, &old), NIGH_INVALID);
    assert_int_equal(nigh_space_exchange(world.space, HERE(1), 2, 0, &old), NIGH_TIMEOUT);
    atomic_store(&world.fake.fails_kinds, 1u << SPACE_RECORD_ADD);
    atomic_store(&world.fake.fails, NIGH_PEER_LOST);
    assert_int_equal(nigh_space_fetch_add(world.space, HERE(1), 2, WAIT_US, &old), NIGH_PEER_LOST);
    assert_sentence(&world, "lost with a node");
    atomic_store(&world.fake.fails, 3);
    assert_int_equal(nigh_space_fetch_add(world.space, HERE(1), 2, WAIT_US, &old), NIGH_PROTOCOL);
    finish(&world);
}

/* By its rank, not by an address that nobody wrote. */
static void memory_that_is_not_had_is_said_to_be_of_a_rank(void **state)
{
    struct world world;
    uint64_t value = 0;

    (void)state;
    begin(&world);
    atomic_store(&world.fake.fails_kinds, UINT32_MAX);
    atomic_store(&world.fake.fails, NIGH_PEER_LOST);
    assert_int_equal(nigh_space_alloc(world.space, 8, NIGH_SPACE_ON(9), WAIT_US, &value),
                     NIGH_PEER_LOST);
    assert_sentence(&world, "the node of rank 9 is not there");
    atomic_store(&world.fake.fails, NIGH_INVALID);
    assert_int_equal(nigh_space_alloc(world.space, 8, NIGH_SPACE_ON(64), WAIT_US, &value),
                     NIGH_INVALID);
    assert_sentence(&world, "a home of rank 64");
    atomic_store(&world.fake.fails, NIGH_NOT_FOUND);
    assert_int_equal(nigh_space_alloc(world.space, 8, NIGH_SPACE_ON(1), WAIT_US, &value),
                     NIGH_NOT_FOUND);
    assert_sentence(&world, "the space was deleted");
    finish(&world);
}

/* Of what was asked, not of what might have been. */
static void what_is_busy_is_said_so(void **state)
{
    struct world world;
    uint64_t value = 0;

    (void)state;
    begin(&world);
    atomic_store(&world.fake.fails_kinds, UINT32_MAX);
    atomic_store(&world.fake.fails, NIGH_BUSY);
    assert_int_equal(nigh_space_alloc(world.space, 8, 0, WAIT_US, &value), NIGH_BUSY);
    assert_sentence(&world, "a home takes 256 at a time, 16 of them from one other node");
    assert_int_equal(nigh_space_free(world.space, HERE(1), WAIT_US), NIGH_BUSY);
    assert_sentence(&world, "mallocs and frees");
    assert_int_equal(nigh_space_try_lock_read(world.space, HERE(1), 1, WAIT_US), NIGH_BUSY);
    assert_sentence(&world, "another holds the block at 0x200");
    assert_int_equal(nigh_space_fetch_add(world.space, THERE(1), 2, WAIT_US, &value), NIGH_BUSY);
    assert_sentence(&world, "had the block at 0x1000000000200 last is away");
    atomic_store(&world.fake.fails, NIGH_INVALID);
    assert_int_equal(nigh_space_free(world.space, HERE(1), WAIT_US), NIGH_INVALID);
    assert_sentence(&world, "this thread has locked a block of it");
    finish(&world);
}

/* What it says of a write that failed so. */
static void assert_lost(struct world *world, nigh_status status, const char *part)
{
    atomic_store(&world->fake.fails, status);
    put(world, HERE(1), 1);
    assert_int_equal(nigh_space_fence(world->space, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_space_flush(world->space, WAIT_US, NULL), status);
    assert_sentence(world, "failed, the last at 0x200: ");
    assert_sentence(world, part);
}

/* A flush says of a write what a call would say of the same, and none says less than is known. */
static void why_it_was_not_written_is_said(void **state)
{
    struct world world;

    (void)state;
    begin(&world);
    atomic_store(&world.fake.fails_kinds, 1u << SPACE_RECORD_WRITE);
    assert_lost(&world, NIGH_PEER_LOST, "what was there was lost with a node");
    assert_lost(&world, NIGH_INVALID, "this thread has locked it to read only");
    assert_lost(&world, NIGH_BUSY, "the node that had the block there last is away");
    assert_lost(&world, NIGH_LIMIT, "cache has no place for the block there");
    assert_lost(&world, NIGH_DISK, "--log-dir");
    assert_lost(&world, NIGH_CLOSED, "its handle was closed");
    assert_lost(&world, NIGH_LOCK_LOST, "the lock is lost");
    atomic_store(&world.fake.fails_kinds, 1u << SPACE_RECORD_FLUSH);
    atomic_store(&world.fake.fails, NIGH_DISK);
    assert_int_equal(nigh_space_flush(world.space, WAIT_US, NULL), NIGH_DISK);
    assert_sentence(&world, "--log-dir");
    finish(&world);
}

/* What was lost with a log, and what was refused since, is told by one flush. */
static void what_a_failed_log_lost_is_told_once(void **state)
{
    struct world world;
    nigh_space_address failed = 0;

    (void)state;
    begin(&world);
    put(&world, HERE(100), 1);
    atomic_store(&world.fake.fails_kinds, 1u << SPACE_RECORD_FLUSH);
    atomic_store(&world.fake.fails, NIGH_DISK);
    assert_int_equal(nigh_space_flush(world.space, WAIT_US, &failed), NIGH_DISK);
    assert_int_equal(failed, HERE(100));
    assert_sentence(&world, "1 of the thread's writes and unlocks failed, the last at 0xc800: this "
                            "node's log of the space failed");
    atomic_store(&world.fake.fails, NIGH_OK);
    assert_int_equal(nigh_space_flush(world.space, WAIT_US, NULL), NIGH_OK);
    finish(&world);
}

/* ... and what there is to do. */
static void why_it_was_not_done_is_said(void **state)
{
    struct world world;
    uint64_t value = 0;

    (void)state;
    begin(&world);
    atomic_store(&world.fake.fails_kinds, UINT32_MAX);
    atomic_store(&world.fake.fails, NIGH_INVALID);
    assert_int_equal(nigh_space_fetch_add(world.space, HERE(1), 1, WAIT_US, &value), NIGH_INVALID);
    assert_sentence(&world, "at 0x200 of the space, or this thread has locked it to read only");
    assert_int_equal(nigh_space_exchange(world.space, HERE(1), 1, WAIT_US, &value), NIGH_INVALID);
    assert_sentence(&world, "locked it to read only");
    assert_int_equal(nigh_space_compare_swap(world.space, HERE(1), 1, 2, WAIT_US, &value),
                     NIGH_INVALID);
    assert_sentence(&world, "locked it to read only");
    atomic_store(&world.fake.fails, NIGH_LIMIT);
    assert_int_equal(nigh_space_lock_read(world.space, THERE(1), 1, WAIT_US), NIGH_LIMIT);
    assert_sentence(&world, "that the one at 0x1000000000200 lies in");
    assert_sentence(&world, "unlock some, or create the space with a larger cache");
    assert_int_equal(nigh_space_read(world.space, THERE(1), &value, 8, WAIT_US), NIGH_LIMIT);
    assert_sentence(&world, "no place for the block at 0x1000000000200");
    atomic_store(&world.fake.fails, NIGH_DISK);
    assert_int_equal(nigh_space_fetch_add(world.space, HERE(1), 1, WAIT_US, &value), NIGH_DISK);
    assert_sentence(&world, "--log-dir");
    assert_int_equal(nigh_space_lock_write(world.space, HERE(1), 1, WAIT_US), NIGH_DISK);
    assert_sentence(&world, "--log-dir");
    assert_int_equal(nigh_space_alloc(world.space, 8, 0, WAIT_US, &value), NIGH_DISK);
    assert_sentence(&world, "--log-dir");
    assert_int_equal(nigh_space_free(world.space, HERE(1), WAIT_US), NIGH_DISK);
    assert_sentence(&world, "--log-dir");
    atomic_store(&world.fake.fails, NIGH_CLOSED);
    assert_int_equal(nigh_space_read(world.space, THERE(1), &value, 8, WAIT_US), NIGH_CLOSED);
    assert_sentence(&world, "open the space anew");
    assert_int_equal(nigh_space_alloc(world.space, 8, 0, WAIT_US, &value), NIGH_CLOSED);
    assert_sentence(&world, "open the space anew");
    finish(&world);
}

/* The node has no part in it, and the client knows no more than why: where more is said is said. */
static void what_cannot_be_opened_is_said_so(void **state)
{
    struct world world;
    nigh_space *space = NULL;

    (void)state;
    begin(&world);
    atomic_store(&world.fake.status, NIGH_CORRUPT);
    assert_int_equal(nigh_space_open(world.f.client, "one", NIGH_SPACE_ALL, WAIT_US, &space),
                     NIGH_CORRUPT);
    assert_sentence(&world, "nighd's log");
    assert_sentence(&world, "--log-dir");
    atomic_store(&world.fake.status, NIGH_VERSION);
    assert_int_equal(nigh_space_open(world.f.client, "one", NIGH_SPACE_ALL, WAIT_US, &space),
                     NIGH_VERSION);
    assert_sentence(&world, "of another version of nighd");
    assert_sentence(&world, "--log-dir");
    assert_null(space);
    atomic_store(&world.fake.status, NIGH_OK);
    finish(&world);
}

/* ---- memory --------------------------------------------------------------- */

static void memory_is_had_and_given_back(void **state)
{
    struct world world;
    nigh_space_address a = 0, b = 0, before;
    uint8_t bytes[BLOCK], seen[BLOCK];

    (void)state;
    begin(&world);
    assert_int_equal(nigh_space_alloc(world.space, 0, 0, WAIT_US, &a), NIGH_INVALID);
    assert_int_equal(nigh_space_alloc(world.space, 8, 0, WAIT_US, NULL), NIGH_INVALID);
    assert_int_equal(nigh_space_alloc(world.space, BLOCK + 1, 0, WAIT_US, &a), NIGH_OK);
    assert_int_equal(a, HERE(1));
    assert_int_equal(nigh_space_calloc(world.space, 2, 8, NIGH_SPACE_ON(FAKE_OTHER), WAIT_US, &b),
                     NIGH_OK);
    assert_int_equal(b, THERE(3));
    assert_int_equal(nigh_space_calloc(world.space, UINT64_MAX, 8, 0, WAIT_US, &b),
                     NIGH_OUT_OF_MEMORY);
    assert_int_equal(nigh_space_alloc(world.space, 1 << 20, 0, WAIT_US, &b), NIGH_OUT_OF_MEMORY);
    assert_int_equal(nigh_space_alloc(world.space, 1, NIGH_SPACE_ON(9), WAIT_US, &b),
                     NIGH_PEER_LOST);
    memset(bytes, 7, sizeof(bytes));
    assert_int_equal(nigh_space_write(world.space, a, bytes, sizeof(bytes), WAIT_US), NIGH_OK);
    before = a;
    assert_int_equal(nigh_space_realloc(world.space, sizeof(bytes), 2 * BLOCK, WAIT_US, &a),
                     NIGH_OK);
    assert_int_equal(a, HERE(4));
    assert_int_equal(nigh_space_read(world.space, a, seen, sizeof(seen), WAIT_US), NIGH_OK);
    assert_memory_equal(seen, bytes, sizeof(bytes));
    assert_int_equal(nigh_space_read(world.space, before, seen, 8, WAIT_US), NIGH_NOT_FOUND);
    /* What cannot be copied stays. */
    before = a;
    assert_int_equal(nigh_space_realloc(world.space, 1 << 20, 1 << 20, WAIT_US, &a),
                     NIGH_OUT_OF_MEMORY);
    assert_int_equal(a, before);
    assert_int_equal(nigh_space_realloc(world.space, BLOCK, 0, WAIT_US, &a), NIGH_OK);
    assert_int_equal(a, 0);
    assert_int_equal(nigh_space_realloc(world.space, 0, 8, WAIT_US, &a), NIGH_OK);
    assert_int_equal(a, HERE(6));
    assert_int_equal(nigh_space_free(world.space, a, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_space_free(world.space, a, WAIT_US), NIGH_NOT_FOUND);
    assert_int_equal(nigh_space_free(world.space, 0, WAIT_US), NIGH_OK);
    finish(&world);
}

/* What was copied is what there is where the old bytes may be freed; where they are not, those. */
static void what_was_moved_is_not_said_to_be_elsewhere(void **state)
{
    static const nigh_status moved[] = {NIGH_TIMEOUT, NIGH_PEER_LOST, NIGH_DISK, NIGH_CORRUPT};
    static const nigh_status stays[] = {NIGH_INVALID, NIGH_BUSY, NIGH_NOT_FOUND, NIGH_NODE_LOST,
                                        NIGH_CLOSED};
    struct world world;
    nigh_space_address a = 0, before;
    uint32_t frees;

    (void)state;
    begin(&world);
    assert_int_equal(nigh_space_alloc(world.space, 8, 0, WAIT_US, &a), NIGH_OK);
    put(&world, a, 77);
    atomic_store(&world.fake.fails_kinds, 1u << SPACE_RECORD_FREE);
    for (uint32_t n = 0; n < ARRAY_LENGTH(moved); n++) {
        atomic_store(&world.fake.fails, moved[n]);
        before = a;
        frees = said(&world, SPACE_RECORD_FREE);
        assert_int_equal(nigh_space_realloc(world.space, 8, BLOCK, WAIT_US, &a), NIGH_OK);
        assert_int_not_equal(a, before);
        assert_int_equal(get(&world, a), 77);
        assert_int_equal(said(&world, SPACE_RECORD_FREE), frees + 1);
    }
    for (uint32_t n = 0; n < ARRAY_LENGTH(stays); n++) {
        atomic_store(&world.fake.fails, stays[n]);
        before = a;
        frees = said(&world, SPACE_RECORD_FREE);
        assert_int_equal(nigh_space_realloc(world.space, 8, BLOCK, WAIT_US, &a), stays[n]);
        assert_int_equal(a, before);
        assert_int_equal(said(&world, SPACE_RECORD_FREE), frees + 2); /* that, and the new */
    }
    finish(&world);
}

static nigh_status grow(struct other *other)
{
    return nigh_space_realloc(other->world->space, 8, BLOCK, WAIT_US, &other->address);
}

static void see_where_it_is(nigh_space_durability durability)
{
    struct world world;
    struct other other;
    nigh_space_address a = 0;
    bool lasts = durability != NIGH_SPACE_DURABLE_NONE;
    nigh_space_spec spec = one_spec;

    begin(&world);
    nigh_space_close(world.space);
    spec.name = "another";
    spec.durability = durability;
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &world.space), NIGH_OK);
    assert_int_equal(nigh_space_alloc(world.space, 8, 0, WAIT_US, &a), NIGH_OK);
    atomic_store(&world.fake.keeps, 1u << SPACE_RECORD_FREE);
    begin_other(&world, &other, grow, a);
    assert_true(SUPPORT_WAIT(said(&world, SPACE_RECORD_FREE) == 1, 20000));
    fake_node_die(&world.f.fake, true);
    assert_int_equal(end_other(&other), lasts ? NIGH_OK : NIGH_NODE_LOST);
    assert_true((other.address == a) == !lasts);
    assert_int_equal(nigh_space_read(world.space, other.address, &a, 8, WAIT_US), NIGH_NODE_LOST);
    finish(&world);
}

/* ... also where the node goes with the free that it was asked for, if what was flushed outlives
 * it: else the old bytes may. */
static void what_was_moved_before_the_node_went_is_where_it_may_last(void **state)
{
    (void)state;
    see_where_it_is(NIGH_SPACE_DURABLE_NONE);
    see_where_it_is(NIGH_SPACE_DURABLE_ASYNC);
}

/* ---- locks ---------------------------------------------------------------- */

static void locks_keep_others_away(void **state)
{
    struct world world;
    struct other other;

    (void)state;
    begin(&world);
    assert_int_equal(nigh_space_lock_read(world.space, HERE(1) + 9, 1, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_space_lock_read(world.space, HERE(1), 1, WAIT_US), NIGH_INVALID);
    assert_sentence(&world, "holds the block already");
    assert_int_equal(nigh_space_lock_write(world.space, HERE(1), 1, WAIT_US), NIGH_INVALID);
    assert_int_equal(nigh_space_lock_write(world.space, 0, 1, WAIT_US), NIGH_INVALID);
    assert_int_equal(do_other(&world, lock_read, HERE(1)), NIGH_OK);
    assert_int_equal(do_other(&world, unlock, HERE(1)), NIGH_INVALID);
    assert_int_equal(do_other(&world, try_lock, HERE(1)), NIGH_BUSY);
    begin_other(&world, &other, lock_write, HERE(1));
    assert_true(SUPPORT_WAIT(said(&world, SPACE_RECORD_LOCK_WRITE) == 1, 20000));
    assert_false(atomic_load(&other.has_ended));
    assert_int_equal(nigh_space_unlock(world.space, HERE(1), 1, WAIT_US), NIGH_OK);
    assert_int_equal(end_other(&other), NIGH_OK);
    assert_int_equal(nigh_space_unlock(world.space, HERE(1), 1, WAIT_US), NIGH_INVALID);
    assert_int_equal(nigh_space_try_lock_write(world.space, THERE(1), 1, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_space_unlock(world.space, THERE(1), 1, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_space_flush(world.space, WAIT_US, NULL), NIGH_OK);
    finish(&world);
}

/* The first block's last byte is enough to lock it, as is the last one's first. */
static void a_range_is_locked_whole(void **state)
{
    struct world world;

    (void)state;
    begin(&world);
    assert_int_equal(nigh_space_lock_write(world.space, HERE(3) - 1, BLOCK + 2, WAIT_US), NIGH_OK);
    assert_int_equal(do_other(&world, try_lock, HERE(1)), NIGH_OK);
    for (uint32_t n = 2; n <= 4; n++) {
        assert_int_equal(do_other(&world, try_lock, HERE(n)), NIGH_BUSY);
    }
    assert_int_equal(nigh_space_lock_read(world.space, HERE(4), BLOCK + 1, WAIT_US), NIGH_INVALID);
    assert_sentence(&world, "one of the blocks");
    assert_int_equal(do_other(&world, try_lock, HERE(5)), NIGH_OK);
    assert_int_equal(nigh_space_unlock(world.space, HERE(3), BLOCK, WAIT_US), NIGH_OK);
    assert_int_equal(do_other(&world, try_lock, HERE(3)), NIGH_OK);
    assert_int_equal(do_other(&world, try_lock, HERE(2)), NIGH_BUSY);
    assert_int_equal(nigh_space_unlock(world.space, HERE(1), 4 * BLOCK, WAIT_US), NIGH_OK);
    assert_int_equal(do_other(&world, try_lock, HERE(2)), NIGH_OK);
    assert_int_equal(do_other(&world, try_lock, HERE(4)), NIGH_OK);
    assert_int_equal(nigh_space_unlock(world.space, HERE(1), 4 * BLOCK, WAIT_US), NIGH_INVALID);
    assert_sentence(&world, "any of the blocks");
    assert_int_equal(nigh_space_lock_read(world.space, HERE(1), 0, WAIT_US), NIGH_INVALID);
    assert_int_equal(nigh_space_lock_read(world.space, HERE(1), UINT64_MAX, WAIT_US), NIGH_INVALID);
    assert_int_equal(nigh_space_unlock(world.space, HERE(1), 0, WAIT_US), NIGH_INVALID);
    assert_int_equal(nigh_space_flush(world.space, WAIT_US, NULL), NIGH_OK);
    finish(&world);
}

static uint32_t holders(struct world *world)
{
    uint32_t count;

    fake_node_lock(&world->f.fake);
    count = world->fake.holder_count;
    fake_node_unlock(&world->f.fake);
    return count;
}

/* Two blocks are free, the third is not: how the call ends, if the two are free then, while the
 * thread goes on. */
static nigh_status lock_three(struct other *other)
{
    nigh_space *space = other->world->space;
    nigh_status status = other->address % 2 == 0
                             ? nigh_space_lock_write(space, other->address, 3 * BLOCK, SOON_US)
                             : nigh_space_try_lock_read(space, other->address, 3 * BLOCK, WAIT_US);

    if (nigh_space_unlock(space, other->address, 3 * BLOCK, WAIT_US) != NIGH_INVALID ||
        nigh_space_flush(space, WAIT_US, NULL) != NIGH_OK || holders(other->world) != 1) {
        return NIGH_PROTOCOL;
    }
    return status;
}

static void a_range_that_another_has_a_part_of_is_not_locked(void **state)
{
    struct world world;

    (void)state;
    begin(&world);
    assert_int_equal(nigh_space_lock_write(world.space, HERE(7), 1, WAIT_US), NIGH_OK);
    assert_int_equal(do_other(&world, lock_three, HERE(5) + 1), NIGH_BUSY);
    assert_int_equal(nigh_space_unlock(world.space, HERE(7), 1, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_space_lock_write(world.space, HERE(12), 1, WAIT_US), NIGH_OK);
    assert_int_equal(do_other(&world, lock_three, HERE(10)), NIGH_TIMEOUT);
    finish(&world);
}

static void a_lock_is_waited_for_no_longer_than_that(void **state)
{
    struct world world;
    struct other other;

    (void)state;
    begin(&world);
    assert_int_equal(nigh_space_lock_write(world.space, HERE(1), 1, WAIT_US), NIGH_OK);
    begin_other(&world, &other, lock_write, HERE(1));
    assert_int_equal(do_other(&world, try_lock, HERE(1)), NIGH_BUSY);
    assert_int_equal(nigh_space_unlock(world.space, HERE(1), 1, WAIT_US), NIGH_OK);
    assert_int_equal(end_other(&other), NIGH_OK); /* its end lets go */
    assert_int_equal(nigh_space_lock_write(world.space, HERE(1), 1, WAIT_US), NIGH_OK);
    other = (struct other){
        .world = &world, .what = lock_write, .address = HERE(1), .timeout_us = SOON_US};
    assert_int_equal(pthread_create(&other.thread, NULL, run_other, &other), 0);
    assert_int_equal(end_other(&other), NIGH_TIMEOUT);
    finish(&world);
}

/* A close lets go of what was held there: nothing of it counts when there are many. */
static void a_value_is_put_and_got_whole(void **state)
{
    struct world world;
    uint8_t bytes[BLOCK], got[BLOCK] = {0};

    (void)state;
    begin(&world);
    memset(bytes, 7, sizeof(bytes));
    assert_int_equal(nigh_space_put_bytes(world.space, HERE(1) + 3, bytes, BLOCK - 3, WAIT_US),
                     NIGH_OK);
    assert_int_equal(nigh_space_get_bytes(world.space, HERE(1) + 3, got, BLOCK - 3, WAIT_US),
                     NIGH_OK);
    assert_memory_equal(got, bytes, BLOCK - 3);
    assert_int_equal(nigh_space_fence(world.space, WAIT_US), NIGH_OK);
    assert_int_equal(said(&world, SPACE_RECORD_FENCE), 0); /* there was nothing before it */
    stand(&world);
    put(&world, HERE(2), 1);
    assert_int_equal(nigh_space_put_bytes(world.space, HERE(1) + 5, bytes, 13, 0), NIGH_OK);
    go_on(&world);
    assert_int_equal(nigh_space_fence(world.space, WAIT_US), NIGH_OK);
    assert_int_equal(said(&world, SPACE_RECORD_FENCE), 1);
    assert_int_equal(said(&world, SPACE_RECORD_WRITE), 3);
    assert_int_equal(nigh_space_put_bytes(world.space, HERE(1) + 4, bytes, BLOCK - 3, WAIT_US),
                     NIGH_INVALID);
    assert_sentence(&world, "one block of 512");
    assert_int_equal(nigh_space_get_bytes(world.space, HERE(1) + BLOCK - 1, got, 2, WAIT_US),
                     NIGH_INVALID);
    assert_int_equal(nigh_space_put_bytes(world.space, HERE(1), bytes, 0, WAIT_US), NIGH_INVALID);
    assert_int_equal(nigh_space_get_bytes(world.space, HERE(1), got, 0, WAIT_US), NIGH_INVALID);
    assert_int_equal(nigh_space_put_bytes(world.space, HERE(1), bytes, UINT64_MAX, WAIT_US),
                     NIGH_INVALID);
    assert_int_equal(nigh_space_put_bytes(world.space, 0, bytes, 8, WAIT_US), NIGH_INVALID);
    assert_int_equal(nigh_space_get_bytes(world.space, 0, got, 8, WAIT_US), NIGH_INVALID);
    assert_int_equal(nigh_space_put_bytes(world.space, HERE(1), NULL, 8, WAIT_US), NIGH_INVALID);
    assert_int_equal(nigh_space_get_bytes(world.space, HERE(1), NULL, 8, WAIT_US), NIGH_INVALID);
    assert_int_equal(nigh_space_put_bytes(NULL, HERE(1), bytes, 8, WAIT_US), NIGH_INVALID);
    assert_int_equal(nigh_space_get_bytes(NULL, HERE(1), got, 8, WAIT_US), NIGH_INVALID);
    assert_int_equal(said(&world, SPACE_RECORD_WRITE), 3);
    finish(&world);
}

static void memory_is_had_at_multiples(void **state)
{
    static const uint64_t wrong[] = {0, 3, 513, UINT64_MAX, 2 * NIGH_SPACE_ALIGN_MOST};
    struct world world;
    nigh_space_address a = 0;

    (void)state;
    begin(&world);
    for (uint32_t n = 0; n < sizeof(wrong) / sizeof(wrong[0]); n++) {
        assert_int_equal(nigh_space_alloc_aligned(world.space, 8, wrong[n], 0, WAIT_US, &a),
                         NIGH_INVALID);
        assert_sentence(&world, "power of two");
    }
    assert_int_equal(nigh_space_alloc_aligned(world.space, 0, 64, 0, WAIT_US, &a), NIGH_INVALID);
    assert_int_equal(nigh_space_alloc_aligned(world.space, 8, 64, 0, WAIT_US, NULL), NIGH_INVALID);
    assert_int_equal(nigh_space_alloc_aligned(NULL, 8, 64, 0, WAIT_US, &a), NIGH_INVALID);
    assert_int_equal(said(&world, SPACE_RECORD_ALLOC), 0);
    for (uint64_t align = 1; align <= 16 * BLOCK; align *= 2) {
        assert_int_equal(nigh_space_alloc_aligned(world.space, 1, align, 0, WAIT_US, &a), NIGH_OK);
        assert_true(a != 0 && a % align == 0);
    }
    assert_int_equal(
        nigh_space_alloc_aligned(world.space, 1, 4 * BLOCK, NIGH_SPACE_ON(FAKE_OTHER), WAIT_US, &a),
        NIGH_OK);
    assert_true(a >> 48 == FAKE_OTHER && a % (4 * BLOCK) == 0);
    assert_int_equal(nigh_space_alloc_aligned(world.space, 1, 1024 * BLOCK, 0, WAIT_US, &a),
                     NIGH_OUT_OF_MEMORY);
    assert_sentence(&world, "such an address");
    assert_int_equal(said(&world, SPACE_RECORD_FREE), 0);
    finish(&world);
}

/* What it gave is given back: who asked for it could not use it. */
static void an_older_node_gives_memory_anywhere(void **state)
{
    struct world world;
    nigh_space_address a = 77;

    (void)state;
    begin(&world);
    atomic_store(&world.fake.aligns_none, true);
    assert_int_equal(nigh_space_alloc(world.space, 1, 0, WAIT_US, &a), NIGH_OK);
    a = 77;
    assert_int_equal(nigh_space_alloc_aligned(world.space, 1, 32 * BLOCK, 0, WAIT_US, &a),
                     NIGH_UNSUPPORTED);
    assert_sentence(&world, "older");
    assert_int_equal(a, 77);
    assert_int_equal(said(&world, SPACE_RECORD_FREE), 1);
    finish(&world);
}

static void what_was_closed_is_not_held(void **state)
{
    nigh_space_spec spec = {
        .struct_size = sizeof(spec), .name = "small", .home_size = 64 * 64, .block_size = 64};
    struct world world;
    nigh_space *small;

    (void)state;
    begin(&world);
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &small), NIGH_OK);
    assert_int_equal(nigh_space_lock_write(world.space, HERE(1), 1, WAIT_US), NIGH_OK);
    for (uint32_t n = 1; n < LIMIT_SPACE_HOLDS; n++) {
        assert_int_equal(nigh_space_lock_write(small, n * 64, 1, WAIT_US), NIGH_OK);
    }
    nigh_space_close(small);
    for (uint32_t n = 2; n < LIMIT_SPACE_HOLDS; n++) {
        assert_int_equal(nigh_space_lock_write(world.space, HERE(n), 1, WAIT_US), NIGH_OK);
    }
    assert_int_equal(nigh_space_lock_write(world.space, HERE(1), 1, WAIT_US), NIGH_INVALID);
    for (uint32_t n = 1; n < LIMIT_SPACE_HOLDS; n++) {
        assert_int_equal(nigh_space_unlock(world.space, HERE(n), 1, WAIT_US), NIGH_OK);
    }
    assert_int_equal(nigh_space_flush(world.space, WAIT_US, NULL), NIGH_OK);
    finish(&world);
}

static nigh_status lock_once(nigh_space *space, nigh_space_address address)
{
    nigh_status status = nigh_space_lock_write(space, address, 1, WAIT_US);

    return status != NIGH_OK ? status : nigh_space_unlock(space, address, 1, WAIT_US);
}

/* What a thread has locked before, and gave back, it has again though the node looks at nothing. */
static void what_is_locked_again_asks_nobody(void **state)
{
    struct world world;
    struct other other;

    (void)state;
    begin(&world);
    assert_int_equal(lock_once(world.space, HERE(1)), NIGH_OK);
    assert_int_equal(nigh_space_fence(world.space, WAIT_US), NIGH_OK);
    assert_int_equal(said(&world, SPACE_RECORD_UNLOCK), 1); /* once is not again */
    assert_int_equal(lock_once(world.space, HERE(1)), NIGH_OK);
    stand(&world);
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(lock_once(world.space, HERE(1) + 8 * n), NIGH_OK);
        assert_int_equal(nigh_space_try_lock_write(world.space, HERE(1), 1, 0), NIGH_OK);
        assert_int_equal(nigh_space_lock_write(world.space, HERE(1), 1, WAIT_US), NIGH_INVALID);
        assert_int_equal(nigh_space_unlock(world.space, HERE(1), 1, WAIT_US), NIGH_OK);
        assert_int_equal(nigh_space_unlock(world.space, HERE(1), 1, WAIT_US), NIGH_INVALID);
    }
    assert_int_equal(nigh_space_lock_read(world.space, HERE(1), 1, SOON_US), NIGH_TIMEOUT);
    go_on(&world);
    assert_int_equal(nigh_space_fence(world.space, WAIT_US), NIGH_OK);
    assert_int_equal(said(&world, SPACE_RECORD_LOCK_WRITE), 2);
    assert_int_equal(lock_once(world.space, HERE(2)), NIGH_OK);
    assert_int_equal(lock_once(world.space, HERE(2)), NIGH_OK);
    assert_int_equal(nigh_space_lock_write(world.space, HERE(2), 1, WAIT_US), NIGH_OK);
    begin_other(&world, &other, lock_write, HERE(2));
    assert_true(SUPPORT_WAIT(said(&world, SPACE_RECORD_LOCK_WRITE) == 5, 20000));
    look(&world);
    assert_false(atomic_load(&other.has_ended));
    assert_int_equal(nigh_space_unlock(world.space, HERE(2), 1, WAIT_US), NIGH_OK); /* a record */
    assert_int_equal(end_other(&other), NIGH_OK);
    assert_int_equal(lock_once(world.space, HERE(2)), NIGH_OK);
    assert_int_equal(said(&world, SPACE_RECORD_LOCK_WRITE), 6);
    finish(&world);
}

/* hits, misses, kept, locks */
#define CHECK_COUNTS(world, ...)                                            \
    assert_memory_equal((void *)(world)->fake.windows[0].memory->counts[0], \
                        ((const uint64_t[SPACE_COUNTS]){__VA_ARGS__}), 8 * SPACE_COUNTS)

/* In its window, by the place of the space. */
static void a_thread_counts_what_it_reads_and_locks(void **state)
{
    struct world world;
    uint8_t bytes[3 * BLOCK];

    (void)state;
    begin(&world);
    (void)get(&world, HERE(1));
    CHECK_COUNTS(&world, 1, 0, 0, 0);
    (void)get(&world, THERE(5));
    CHECK_COUNTS(&world, 1, 1, 0, 0);
    assert_int_equal(nigh_space_read(world.space, HERE(1) + 8, bytes, 2 * BLOCK, WAIT_US), NIGH_OK);
    CHECK_COUNTS(&world, 4, 1, 0, 0);
    put(&world, HERE(1), 7); /* its own, not carried out */
    (void)get(&world, HERE(1));
    CHECK_COUNTS(&world, 5, 1, 0, 0);
    atomic_store(&world.f.fake.page->spaces_until_us, 1); /* no lease */
    (void)get(&world, HERE(1));
    CHECK_COUNTS(&world, 5, 2, 0, 0);
    atomic_store(&world.f.fake.page->spaces_until_us, UINT64_MAX);
    assert_int_equal(lock_once(world.space, HERE(1)), NIGH_OK);
    assert_int_equal(lock_once(world.space, HERE(1)), NIGH_OK);
    assert_int_equal(nigh_space_fence(world.space, WAIT_US), NIGH_OK);
    CHECK_COUNTS(&world, 5, 2, 0, 2);
    assert_int_equal(lock_once(world.space, HERE(1)), NIGH_OK);
    CHECK_COUNTS(&world, 5, 2, 1, 2);
    assert_int_equal(nigh_space_read(world.space, HERE(FAKE_SPACE_BLOCKS), bytes, 8, WAIT_US),
                     NIGH_NOT_FOUND);
    CHECK_COUNTS(&world, 5, 3, 1, 2);
    finish(&world);
}

static void what_was_kept_is_had_by_who_wants_it(void **state)
{
    struct world world;
    struct other other;

    (void)state;
    begin(&world);
    assert_int_equal(lock_once(world.space, HERE(1)), NIGH_OK);
    assert_int_equal(nigh_space_lock_write(world.space, HERE(1), 1, WAIT_US), NIGH_OK);
    atomic_store(&world.fake.keeps_block, HERE(2));
    put(&world, HERE(2), 5);
    assert_int_equal(nigh_space_unlock(world.space, HERE(1), 1, WAIT_US), NIGH_OK);
    assert_int_equal(said(&world, SPACE_RECORD_UNLOCK), 1);
    /* Behind what was written before it was given back. */
    begin_other(&world, &other, lock_write, HERE(1));
    assert_true(SUPPORT_WAIT(said(&world, SPACE_RECORD_LOCK_WRITE) == 3, 20000));
    look(&world);
    assert_false(atomic_load(&other.has_ended));
    atomic_store(&world.fake.keeps_block, 0);
    look(&world);
    assert_int_equal(end_other(&other), NIGH_OK);
    assert_int_equal(lock_once(world.space, HERE(1)), NIGH_OK);
    assert_int_equal(do_other(&world, try_lock, HERE(1)), NIGH_OK);
    finish(&world);
}

/* A node lets go of what is of a space that was deleted, and tells nobody: what is locked next has
 * the word of that lock, and who unlocks what it thinks to hold gives back nothing else. */
static void what_was_let_go_unheard_gives_back_nothing_else(void **state)
{
    nigh_space_spec spec = {
        .struct_size = sizeof(spec), .name = "small", .home_size = 64 * 64, .block_size = 64};
    nigh_space *small;
    struct world world;

    (void)state;
    begin(&world);
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &small), NIGH_OK);
    assert_int_equal(lock_once(small, 64), NIGH_OK);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(nigh_space_lock_write(small, 64, 1, WAIT_US), NIGH_OK);
        atomic_store(&world.fake.lets_go, 2);
        look(&world);
        assert_true(SUPPORT_WAIT(atomic_load(&world.fake.lets_go) == 0, 20000));
        /* For the first time, and again. */
        assert_int_equal(nigh_space_lock_write(world.space, HERE(1), 1, WAIT_US), NIGH_OK);
        assert_int_equal(nigh_space_unlock(small, 64, 1, WAIT_US), NIGH_OK);
        assert_int_equal(do_other(&world, try_lock, HERE(1)), NIGH_BUSY);
        assert_int_equal(nigh_space_flush(small, WAIT_US, NULL), NIGH_INVALID);
        assert_int_equal(nigh_space_unlock(world.space, HERE(1), 1, WAIT_US), NIGH_OK);
        assert_int_equal(nigh_space_flush(world.space, WAIT_US, NULL), NIGH_OK);
        assert_int_equal(do_other(&world, try_lock, HERE(1)), NIGH_OK);
    }
    nigh_space_close(small);
    finish(&world);
}

/* A lock comes behind all that was written, also one that was kept. */
static void a_kept_lock_is_behind_what_was_written(void **state)
{
    struct world world;

    (void)state;
    begin(&world);
    assert_int_equal(lock_once(world.space, HERE(1)), NIGH_OK);
    assert_int_equal(lock_once(world.space, HERE(1)), NIGH_OK);
    atomic_store(&world.fake.keeps_block, HERE(2));
    put(&world, HERE(2), 5);
    assert_int_equal(nigh_space_lock_write(world.space, HERE(1), 1, SOON_US), NIGH_TIMEOUT);
    atomic_store(&world.fake.keeps_block, 0);
    look(&world);
    assert_int_equal(lock_once(world.space, HERE(1)), NIGH_OK);
    finish(&world);
}

/* Others may have gone on without the node. */
static void without_a_lease_a_kept_lock_is_asked_for(void **state)
{
    struct world world;
    _Atomic uint64_t *until_us;
    uint32_t before;

    (void)state;
    begin(&world);
    until_us = &world.f.fake.page->spaces_until_us;
    assert_int_equal(lock_once(world.space, HERE(1)), NIGH_OK);
    assert_int_equal(lock_once(world.space, HERE(1)), NIGH_OK);
    shared_store_relaxed(until_us, clock_now_us(&clock_monotonic) + 10 * WAIT_US);
    before = said(&world, SPACE_RECORD_LOCK_WRITE);
    assert_int_equal(lock_once(world.space, HERE(1)), NIGH_OK);
    assert_int_equal(said(&world, SPACE_RECORD_LOCK_WRITE), before);
    shared_store_relaxed(until_us, clock_now_us(&clock_monotonic));
    assert_int_equal(lock_once(world.space, HERE(1)), NIGH_OK);
    assert_int_equal(said(&world, SPACE_RECORD_LOCK_WRITE), before + 1);
    shared_store_relaxed(until_us, 0);
    stand(&world);
    assert_int_equal(nigh_space_lock_write(world.space, HERE(1), 1, SOON_US), NIGH_TIMEOUT);
    go_on(&world);
    assert_int_equal(lock_once(world.space, HERE(1)), NIGH_OK); /* what came late is undone */
    assert_int_equal(do_other(&world, lock_write, HERE(1)), NIGH_OK);
    finish(&world);
}

static void a_node_may_let_none_be_kept(void **state)
{
    struct world world;

    (void)state;
    begin(&world);
    atomic_store(&world.fake.keeps_no_locks, true);
    for (uint32_t n = 0; n < 4; n++) {
        assert_int_equal(lock_once(world.space, HERE(1)), NIGH_OK);
    }
    assert_int_equal(nigh_space_fence(world.space, WAIT_US), NIGH_OK);
    assert_int_equal(said(&world, SPACE_RECORD_LOCK_WRITE), 4);
    assert_int_equal(said(&world, SPACE_RECORD_UNLOCK), 4);
    finish(&world);
}

static void a_thread_holds_so_many_blocks(void **state)
{
    nigh_space_spec spec = {
        .struct_size = sizeof(spec), .name = "small", .home_size = 64 * 64, .block_size = 64};
    struct world world;
    nigh_space *small;

    (void)state;
    begin(&world);
    assert_int_equal(nigh_space_create(world.f.client, &spec, WAIT_US, &small), NIGH_OK);
    for (uint32_t n = 1; n < LIMIT_SPACE_HOLDS; n++) {
        assert_int_equal(nigh_space_lock_write(small, n * 64, 1, WAIT_US), NIGH_OK);
    }
    assert_int_equal(nigh_space_lock_write(world.space, 64, 1, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_space_lock_write(world.space, HERE(1), 1, WAIT_US), NIGH_LIMIT);
    assert_int_equal(nigh_space_lock_write(world.space, HERE(1), UINT64_MAX - HERE(1), WAIT_US),
                     NIGH_LIMIT);
    assert_int_equal(nigh_space_unlock(small, 64, 1, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_space_lock_write(world.space, HERE(1), BLOCK + 1, WAIT_US), NIGH_LIMIT);
    assert_int_equal(nigh_space_lock_write(world.space, HERE(1), 1, WAIT_US), NIGH_OK);
    for (uint32_t n = 2; n < LIMIT_SPACE_HOLDS; n++) {
        assert_int_equal(nigh_space_unlock(small, n * 64, 1, WAIT_US), NIGH_OK);
    }
    assert_int_equal(nigh_space_flush(small, WAIT_US, NULL), NIGH_OK);
    fake_node_lock(&world.f.fake);
    assert_int_equal(world.fake.holder_count, 2);
    fake_node_unlock(&world.f.fake);
    finish(&world);
}

/* ---- threads -------------------------------------------------------------- */

static void what_a_thread_leaves_is_the_next_ones(void **state)
{
    struct world world;

    (void)state;
    begin(&world);
    put(&world, HERE(1), 1);
    for (uint32_t n = 0; n < 2 * LIMIT_SESSION_WINDOWS; n++) {
        assert_int_equal(do_other(&world, lock_write, HERE(2)), NIGH_OK);
    }
    assert_int_equal(asked(&world, SESSION_SPACE_WINDOW), 2);
    assert_int_equal(nigh_space_lock_write(world.space, HERE(2), 1, WAIT_US), NIGH_OK);
    assert_int_equal(do_other(&world, write_word, HERE(100)), NIGH_OK);
    assert_int_equal(do_other(&world, read_word, HERE(3)), NIGH_OK);
    finish(&world);
}

static nigh_status write_and_flush(struct other *other)
{
    nigh_status status = write_word(other);

    return status == NIGH_OK ? nigh_space_flush(other->world->space, other->timeout_us, NULL)
                             : status;
}

/* What the one before wrote is not its own: neither to be seen, nor to have failed. */
static void a_threads_writes_are_not_the_next_ones(void **state)
{
    struct world world;
    struct other other;

    (void)state;
    begin(&world);
    put(&world, HERE(1), 1);
    assert_int_equal(nigh_space_fence(world.space, WAIT_US), NIGH_OK);
    stand(&world);
    assert_int_equal(do_other(&world, write_word, HERE(100)), NIGH_OK);
    other = (struct other){
        .world = &world, .what = read_word, .address = HERE(1), .timeout_us = SOON_US};
    assert_int_equal(pthread_create(&other.thread, NULL, run_other, &other), 0);
    assert_int_equal(end_other(&other), NIGH_TIMEOUT); /* what there is is not carried out yet */
    begin_other(&world, &other, write_and_flush, HERE(3));
    go_on(&world);
    assert_int_equal(end_other(&other), NIGH_OK);
    assert_int_equal(asked(&world, SESSION_SPACE_WINDOW), 2);
    finish(&world);
}

static nigh_status stay(struct other *other)
{
    nigh_status status = read_word(other);

    atomic_store(&other->is_there, true);
    while (!atomic_load(&other->goes_on)) {
        support_breathe();
    }
    return status;
}

static void so_many_threads_at_a_time(void **state)
{
    static struct other others[LIMIT_SESSION_WINDOWS];
    struct world world;

    (void)state;
    begin(&world);
    for (uint32_t n = 0; n < LIMIT_SESSION_WINDOWS; n++) {
        begin_other(&world, &others[n], stay, HERE(1));
        assert_true(SUPPORT_WAIT(atomic_load(&others[n].is_there), 20000));
    }
    assert_int_equal(do_other(&world, read_word, HERE(1)), NIGH_LIMIT);
    atomic_store(&others[5].goes_on, true);
    assert_int_equal(end_other(&others[5]), NIGH_OK);
    assert_int_equal(do_other(&world, read_word, HERE(1)), NIGH_OK);
    for (uint32_t n = 0; n < LIMIT_SESSION_WINDOWS; n++) {
        atomic_store(&others[n].goes_on, true);
        if (n != 5) {
            assert_int_equal(end_other(&others[n]), NIGH_OK);
        }
    }
    assert_int_equal(asked(&world, SESSION_SPACE_WINDOW), LIMIT_SESSION_WINDOWS);
    finish(&world);
}

static nigh_status stay_with_lock(struct other *other)
{
    nigh_status status = lock_write(other);

    atomic_store(&other->is_there, true);
    while (!atomic_load(&other->goes_on)) {
        support_breathe();
    }
    return status;
}

/* A thread that ends when its client has ended, whose memory is gone. */
static void a_thread_may_outlive_its_client(void **state)
{
    struct world world;
    struct other other;

    (void)state;
    begin(&world);
    begin_other(&world, &other, stay_with_lock, HERE(1));
    assert_true(SUPPORT_WAIT(atomic_load(&other.is_there), 20000));
    nigh_space_close(world.space);
    finish(&world);
    atomic_store(&other.goes_on, true);
    assert_int_equal(end_other(&other), NIGH_OK);
    begin(&world);
    put(&world, HERE(1), 1);
    assert_int_equal(get(&world, HERE(1)), 1);
    finish(&world);
}

/* ---- fork ----------------------------------------------------------------- */

static int use_parents(void *context)
{
    struct world *world = context;
    uint64_t value = 0;
    nigh_space_address address;
    nigh_space_ticket ticket = {0};
    int wrong = 0;

    wrong += nigh_space_read(world->space, HERE(1), &value, 8, WAIT_US) != NIGH_FORKED;
    wrong += nigh_space_write(world->space, HERE(1), &value, 8, WAIT_US) != NIGH_FORKED;
    wrong += nigh_space_is_done(world->space, &ticket) != NIGH_FORKED;
    wrong += nigh_space_fence(world->space, WAIT_US) != NIGH_FORKED;
    wrong += nigh_space_store_fence(world->space, WAIT_US) != NIGH_FORKED;
    wrong += nigh_space_flush(world->space, WAIT_US, NULL) != NIGH_FORKED;
    wrong += nigh_space_fetch_add(world->space, HERE(1), 1, WAIT_US, &value) != NIGH_FORKED;
    wrong += nigh_space_lock_read(world->space, HERE(3), 1, WAIT_US) != NIGH_FORKED;
    wrong += nigh_space_unlock(world->space, HERE(2), 1, WAIT_US) != NIGH_FORKED;
    wrong += nigh_space_alloc(world->space, 8, 0, WAIT_US, &address) != NIGH_FORKED;
    wrong += nigh_space_delete(world->f.client, "one", WAIT_US) != NIGH_FORKED;
    nigh_space_close(world->space);
    nigh_client_close(world->f.client);
    return wrong;
}

static void exit_now(void *unused)
{
    (void)unused;
    _exit(0);
}

/* The child's only thread ends as one: what it had of its parent's is not touched. This key is the
 * last one, and so its destructor, which keeps exit handlers away. */
static int end_as_thread(void *context)
{
    pthread_key_t last;

    if (pthread_key_create(&last, exit_now) != 0 || pthread_setspecific(last, context) != 0) {
        return 1;
    }
    pthread_exit(NULL);
}

static void a_child_has_none_of_it(void **state)
{
    struct world world;

    (void)state;
    begin(&world);
    put(&world, HERE(1), 4);
    assert_int_equal(nigh_space_lock_write(world.space, HERE(2), 1, WAIT_US), NIGH_OK);
    assert_int_equal(support_join(support_fork(use_parents, &world), 20000), 0);
    assert_int_equal(support_join(support_fork(end_as_thread, &world), 20000), 0);
    assert_int_equal(get(&world, HERE(1)), 4);
    assert_int_equal(do_other(&world, try_lock, HERE(2)), NIGH_BUSY);
    assert_int_equal(said(&world, SPACE_RECORD_UNLOCK), 0);
    assert_int_equal(nigh_space_unlock(world.space, HERE(2), 1, WAIT_US), NIGH_OK);
    finish(&world);
}

#ifndef __SANITIZE_THREAD__ /* under it children of several threads begin none */
/* Its own client is one as its parent's was. */
static int have_own(void *context)
{
    struct world *world = context;
    nigh_client_options options = {.struct_size = sizeof(options),
                                   .socket_path = world->f.fake.path};
    struct other other = {
        .world = world, .what = lock_write, .address = HERE(1), .timeout_us = WAIT_US};
    int wrong = 0;

    nigh_client_close(world->f.client);
    if (nigh_client_open(&options, &world->f.client) != NIGH_OK ||
        nigh_space_open(world->f.client, "one", NIGH_SPACE_ALL, WAIT_US, &world->space) !=
            NIGH_OK ||
        pthread_create(&other.thread, NULL, run_other, &other) != 0) {
        return 1;
    }
    (void)pthread_join(other.thread, NULL);
    wrong += other.status != NIGH_OK;
    wrong += nigh_space_lock_write(world->space, HERE(1), 1, WAIT_US) != NIGH_OK;
    nigh_client_close(world->f.client);
    return wrong;
}

static void a_child_has_its_own(void **state)
{
    struct world world;

    (void)state;
    begin(&world);
    put(&world, HERE(1), 4);
    assert_int_equal(nigh_space_fence(world.space, WAIT_US), NIGH_OK);
    assert_int_equal(support_join(support_fork(have_own, &world), 30000), 0);
    finish(&world);
}
#endif

/* ---- the node's end ------------------------------------------------------- */

static nigh_status wait_in_fence(struct other *other)
{
    nigh_status status = write_word(other);

    return status == NIGH_OK ? nigh_space_fence(other->world->space, other->timeout_us) : status;
}

static nigh_status wait_for_all(struct other *other)
{
    nigh_status status = write_word(other);

    return status == NIGH_OK ? nigh_space_flush(other->world->space, other->timeout_us, NULL)
                             : status;
}

static void all_that_waits_ends_with_the_node(void **state)
{
    struct world world;
    struct other lock, fence, flush, room, reader;
    nigh_space *anew = NULL;
    uint64_t value;

    (void)state;
    begin(&world);
    put(&world, HERE(1), 1);
    assert_int_equal(nigh_space_lock_write(world.space, HERE(2), 1, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_space_fence(world.space, WAIT_US), NIGH_OK);
    atomic_store(&world.fake.keeps, 1u << SPACE_RECORD_WRITE | 1u << SPACE_RECORD_READ);
    begin_other(&world, &lock, lock_write, HERE(2));
    begin_other(&world, &fence, wait_in_fence, HERE(3));
    begin_other(&world, &flush, wait_for_all, HERE(3));
    begin_other(&world, &room, fill_buffer, HERE(3));
    begin_other(&world, &reader, read_word, THERE(3));
    assert_true(SUPPORT_WAIT(
        said(&world, SPACE_RECORD_LOCK_WRITE) == 2 && said(&world, SPACE_RECORD_FLUSH) == 1 &&
            said(&world, SPACE_RECORD_READ) == 1 && atomic_load(&room.is_there),
        20000));
    fake_node_die(&world.f.fake, true);
    assert_int_equal(end_other(&lock), NIGH_NODE_LOST);
    assert_int_equal(end_other(&fence), NIGH_NODE_LOST);
    assert_int_equal(end_other(&flush), NIGH_NODE_LOST);
    assert_int_equal(end_other(&room), NIGH_NODE_LOST);
    assert_int_equal(end_other(&reader), NIGH_NODE_LOST);
    /* What it had at hand may be old by now. */
    assert_int_equal(nigh_space_read(world.space, HERE(1), &value, 8, WAIT_US), NIGH_NODE_LOST);
    atomic_store(&world.fake.keeps, 0);
    fake_node_return(&world.f.fake);
    assert_int_equal(nigh_space_open(world.f.client, "one", NIGH_SPACE_ALL, WAIT_US, &anew),
                     NIGH_OK);
    assert_int_equal(nigh_space_read(world.space, HERE(1), &value, 8, WAIT_US), NIGH_CLOSED);
    assert_int_equal(nigh_space_write(world.space, HERE(1), &value, 8, WAIT_US), NIGH_CLOSED);
    assert_int_equal(nigh_space_unlock(world.space, HERE(2), 1, WAIT_US), NIGH_CLOSED);
    nigh_space_close(world.space);
    world.space = anew;
    put(&world, HERE(1), 6);
    assert_int_equal(nigh_space_flush(anew, WAIT_US, NULL), NIGH_OK);
    assert_int_equal(get(&world, HERE(1)), 6);
    assert_int_equal(nigh_space_unlock(anew, HERE(2), 1, WAIT_US), NIGH_INVALID);
    finish(&world);
}

/* The page says so, and the socket does not yet. */
static void a_node_that_is_dead_is_not_read_from(void **state)
{
    struct world world;
    uint64_t value;

    (void)state;
    begin(&world);
    put(&world, HERE(1), 1);
    assert_int_equal(nigh_space_fence(world.space, WAIT_US), NIGH_OK);
    shared_store_relaxed(&world.f.fake.page->life, SESSION_LIFE_ENDED);
    shared_store_relaxed(&world.f.fake.page->kept, 1);
    assert_int_equal(nigh_space_read(world.space, HERE(1), &value, 8, WAIT_US), NIGH_NODE_LOST);
    shared_store_relaxed(&world.f.fake.page->life, 0);
    finish(&world);
}

static void who_is_expelled_hears_it(void **state)
{
    struct world world;
    struct other other;
    uint64_t value;

    (void)state;
    begin(&world);
    assert_int_equal(nigh_space_lock_write(world.space, HERE(2), 1, WAIT_US), NIGH_OK);
    begin_other(&world, &other, lock_write, HERE(2));
    assert_true(SUPPORT_WAIT(said(&world, SPACE_RECORD_LOCK_WRITE) == 2, 20000));
    fake_node_say_bye(&world.f.fake, NIGH_EXPELLED, "no more");
    assert_int_equal(end_other(&other), NIGH_EXPELLED);
    assert_int_equal(nigh_space_read(world.space, HERE(2), &value, 8, WAIT_US), NIGH_EXPELLED);
    finish(&world);
}

/* A lane that stands still for longer than anybody waits answers all the same. */
static void what_came_too_late_is_undone(void **state)
{
    struct world world;
    nigh_space_address address = 0;
    uint32_t next;

    (void)state;
    begin(&world);
    put(&world, HERE(1), 1);
    assert_int_equal(nigh_space_fence(world.space, WAIT_US), NIGH_OK);
    stand(&world);
    assert_int_equal(nigh_space_lock_write(world.space, HERE(2), 1, SOON_US), NIGH_TIMEOUT);
    assert_int_equal(nigh_space_read(world.space, THERE(2), &address, 8, SOON_US), NIGH_TIMEOUT);
    go_on(&world);
    assert_int_equal(do_other(&world, read_word, HERE(1)), NIGH_OK);
    assert_int_equal(nigh_space_flush(world.space, WAIT_US, NULL), NIGH_OK);
    assert_int_equal(said(&world, SPACE_RECORD_UNLOCK), 1);
    assert_int_equal(do_other(&world, try_lock, HERE(2)), NIGH_OK);
    stand(&world);
    fake_node_lock(&world.f.fake);
    next = (uint32_t)one(&world)->next_block;
    fake_node_unlock(&world.f.fake);
    assert_int_equal(nigh_space_alloc(world.space, 8, 0, SOON_US, &address), NIGH_TIMEOUT);
    go_on(&world);
    assert_int_equal(nigh_space_flush(world.space, WAIT_US, NULL), NIGH_OK);
    assert_int_equal(said(&world, SPACE_RECORD_FREE), 1);
    fake_node_lock(&world.f.fake);
    assert_true(one(&world)->is_freed[next]);
    fake_node_unlock(&world.f.fake);
    finish(&world);
}

/* ---- an embedded node ----------------------------------------------------- */

static _Atomic uint32_t driven;

static bool drive(void *context, uint32_t lane, uint64_t now_us, bool stays)
{
    (void)now_us;
    (void)stays;
    assert_int_equal(lane, 0);
    atomic_fetch_add(&driven, 1);
    look(context);
    return true;
}

/* Nobody rings for the lane's thread, which has left it to a guest. */
static void who_waits_drives_the_lane(void **state)
{
    struct world world;
    uint64_t old = 0;

    (void)state;
    begin(&world);
    put(&world, HERE(1), 4);
    assert_int_equal(nigh_space_flush(world.space, WAIT_US, NULL), NIGH_OK);
    atomic_store(&driven, 0);
    shared_store_relaxed(&world.f.fake.page->lane[0].asleep, SESSION_ASLEEP_HAS_GUEST);
    world.f.client->driver_copy = (struct session_driver){.context = &world, .drive = drive};
    world.f.client->driver = &world.f.client->driver_copy;
    assert_int_equal(nigh_space_fetch_add(world.space, HERE(1), 1, WAIT_US, &old), NIGH_OK);
    assert_int_equal(old, 4);
    assert_true(atomic_load(&driven) > 0);
    world.f.client->driver = NULL;
    shared_store_relaxed(&world.f.fake.page->lane[0].asleep, SESSION_ASLEEP);
    finish(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_is_not_asked),
        cmocka_unit_test(one_is_created_looked_at_and_deleted),
        cmocka_unit_test(what_the_node_counts_is_told),
        cmocka_unit_test(handles_of_one_space_are_one),
        cmocka_unit_test(what_was_made_is_opened_and_no_other),
        cmocka_unit_test(what_opened_too_late_is_closed),
        cmocka_unit_test(what_has_no_file_is_closed_again),
        cmocka_unit_test(what_is_let_go_as_it_opens_is_asked_for_again),
        cmocka_unit_test(a_limit_says_of_what),
        cmocka_unit_test(what_is_written_is_carried_out_before_the_end),
        cmocka_unit_test(what_is_here_is_read_without_asking),
        cmocka_unit_test(what_a_node_has_without_a_lease_is_asked_for),
        cmocka_unit_test(bytes_of_several_blocks_are_cut),
        cmocka_unit_test(what_a_long_read_comes_to_is_fetched),
        cmocka_unit_test(a_thread_sees_its_writes_and_others_do_not),
        cmocka_unit_test(a_full_buffer_waits_for_room),
        cmocka_unit_test(a_ticket_says_what_is_done),
        cmocka_unit_test(fences_are_said_and_waited_for),
        cmocka_unit_test(a_flush_says_what_failed),
        cmocka_unit_test(words_are_changed_at_once),
        cmocka_unit_test(memory_that_is_not_had_is_said_to_be_of_a_rank),
        cmocka_unit_test(what_is_busy_is_said_so),
        cmocka_unit_test(why_it_was_not_written_is_said),
        cmocka_unit_test(what_a_failed_log_lost_is_told_once),
        cmocka_unit_test(why_it_was_not_done_is_said),
        cmocka_unit_test(what_cannot_be_opened_is_said_so),
        cmocka_unit_test(memory_is_had_and_given_back),
        cmocka_unit_test(what_was_moved_is_not_said_to_be_elsewhere),
        cmocka_unit_test(what_was_moved_before_the_node_went_is_where_it_may_last),
        cmocka_unit_test(locks_keep_others_away),
        cmocka_unit_test(a_range_is_locked_whole),
        cmocka_unit_test(a_range_that_another_has_a_part_of_is_not_locked),
        cmocka_unit_test(a_lock_is_waited_for_no_longer_than_that),
        cmocka_unit_test(what_is_locked_again_asks_nobody),
        cmocka_unit_test(a_thread_counts_what_it_reads_and_locks),
        cmocka_unit_test(what_was_kept_is_had_by_who_wants_it),
        cmocka_unit_test(what_was_let_go_unheard_gives_back_nothing_else),
        cmocka_unit_test(a_kept_lock_is_behind_what_was_written),
        cmocka_unit_test(without_a_lease_a_kept_lock_is_asked_for),
        cmocka_unit_test(a_node_may_let_none_be_kept),
        cmocka_unit_test(a_thread_holds_so_many_blocks),
        cmocka_unit_test(what_was_closed_is_not_held),
        cmocka_unit_test(a_value_is_put_and_got_whole),
        cmocka_unit_test(memory_is_had_at_multiples),
        cmocka_unit_test(an_older_node_gives_memory_anywhere),
        cmocka_unit_test(what_a_thread_leaves_is_the_next_ones),
        cmocka_unit_test(a_threads_writes_are_not_the_next_ones),
        cmocka_unit_test(so_many_threads_at_a_time),
        cmocka_unit_test(a_thread_may_outlive_its_client),
        cmocka_unit_test(a_child_has_none_of_it),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(a_child_has_its_own),
#endif
        cmocka_unit_test(all_that_waits_ends_with_the_node),
        cmocka_unit_test(a_node_that_is_dead_is_not_read_from),
        cmocka_unit_test(who_is_expelled_hears_it),
        cmocka_unit_test(what_came_too_late_is_undone),
        cmocka_unit_test(who_waits_drives_the_lane),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
