/* SPDX-License-Identifier: Apache-2.0 */
/* The client against nighd: several processes, full memory, events, a node that dies and returns.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nigh/nigh.h"
#include "support/node_fixture.h"
#include "support/support.h"

static nigh_client *open_client(const struct node_fixture *node)
{
    nigh_client_options options = {.struct_size = sizeof(options), .socket_path = node->socket};
    nigh_client *client = NULL;

    if (nigh_client_open(&options, &client) != NIGH_OK) {
        fprintf(stderr, "open: %s\n", nigh_open_error());
        return NULL;
    }
    return client;
}

static nigh_id id_of(uint32_t number)
{
    nigh_id id = {{0}};

    memcpy(id.bytes, &number, sizeof(number));
    return id;
}

/* Bytes that follow from the number, so that a wrong one shows. */
static void fill(uint8_t *data, size_t size, uint32_t number)
{
    for (size_t i = 0; i < size; i++) {
        data[i] = (uint8_t)(number * 131 + i * 7 + (i >> 8));
    }
}

static bool is_filled(const uint8_t *data, size_t size, uint32_t number)
{
    for (size_t i = 0; i < size; i++) {
        if (data[i] != (uint8_t)(number * 131 + i * 7 + (i >> 8))) {
            return false;
        }
    }
    return true;
}

struct child {
    const struct node_fixture *node;
    uint32_t first;
    uint32_t count;
    size_t size;
};

static int child_puts(void *context)
{
    const struct child *child = context;
    nigh_client *client = open_client(child->node);
    uint8_t *data = malloc(child->size + 1);

    if (client == NULL || data == NULL) {
        return 1;
    }
    for (uint32_t i = child->first; i < child->first + child->count; i++) {
        nigh_id id = id_of(i);

        fill(data, child->size, i);
        if (nigh_put(client, &id, data, child->size, NULL) != NIGH_OK) {
            return 2;
        }
    }
    nigh_client_close(client);
    return 0;
}

static int child_gets(void *context)
{
    const struct child *child = context;
    nigh_client *client = open_client(child->node);

    if (client == NULL) {
        return 1;
    }
    for (uint32_t i = child->first; i < child->first + child->count; i++) {
        nigh_id id = id_of(i);
        nigh_view view;

        if (nigh_get(client, &id, 1, 20000000, &view) != NIGH_OK || view.data_size != child->size ||
            !is_filled(view.data, child->size, i) || nigh_release(client, &view) != NIGH_OK) {
            return 2;
        }
    }
    nigh_client_close(client);
    return 0;
}

/* Consumers that begin first wait for producers; sizes on both sides of every path. */
static void test_processes_share(void **state)
{
    static const char *const lanes[] = {"1", "4"};
    static const size_t sizes[] = {0, 1, 1024, 70000, 1 << 20};

    (void)state;
    for (size_t l = 0; l < 2; l++) {
        const char *flags[] = {"--lanes", lanes[l], NULL};
        struct node_fixture node;

        node_fixture_start(&node, "128M", flags);
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            struct child child = {
                .node = &node, .first = (uint32_t)s * 1000, .count = 20, .size = sizes[s]};
            pid_t pids[3] = {support_fork(child_gets, &child), support_fork(child_gets, &child),
                             support_fork(child_puts, &child)};

            for (int i = 0; i < 3; i++) {
                assert_int_equal(support_join(pids[i], 30000), 0);
            }
        }
        node_fixture_stop(&node);
    }
}

/* Each object twice: the second put comes too late. */
static void put_twice(nigh_client *client, uint32_t first, uint32_t count, size_t size)
{
    uint8_t *data = calloc(1, size);

    for (uint32_t i = first; i < first + count; i++) {
        nigh_id id = id_of(i);

        assert_int_equal(nigh_put(client, &id, data, size, NULL), NIGH_OK);
        assert_int_equal(nigh_put(client, &id, data, size, NULL), NIGH_EXISTS);
    }
    free(data);
}

static uint64_t leased_bytes(nigh_client *client)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    assert_int_equal(nigh_stats(client, &stats), NIGH_OK);
    return stats.leased_bytes;
}

/* What a put that comes too late had cut off a lease is given back: neither do leases fall to
 * pieces, nor are those that were used up to the last byte held for ever. */
static void test_puts_of_what_is_there_already(void **state)
{
    struct node_fixture node;
    nigh_client *client;
    nigh_id id = id_of(9999);
    uint64_t before;

    (void)state;
    node_fixture_start(&node, "256M", NULL);
    client = open_client(&node);
    assert_non_null(client);
    put_twice(client, 0, 1000, 2048);
    nigh_client_close(client);
    node_fixture_stop(&node);

    node_fixture_start(&node, "32M", NULL); /* leases of 256 KiB */
    client = open_client(&node);
    assert_non_null(client);
    put_twice(client, 0, 50, 65536);
    before = leased_bytes(client);
    assert_int_equal(nigh_put(client, &id, "from a lease", 12, NULL), NIGH_OK);
    assert_int_not_equal(leased_bytes(client), before);
    nigh_client_close(client);
    node_fixture_stop(&node);
}

/* ---- clients that are idle ------------------------------------------------- */

enum {
    IDLE = 80,        /* clients that have used all, more than there is a quarter of memory for */
    IDLE_ASLEEP = 20, /* of them, that sleep in a call */
    IDLE_PUTS = 40,   /* of each, one after the other */
    IDLE_LEASE = 128 << 10 /* of a lease that it has not used */
};

struct idle {
    nigh_client *client;
    pthread_t thread;
    _Atomic bool *stop;
};

/* One that works: what it does with a region, and what it puts. */
static bool works(nigh_client *client, uint32_t number)
{
    static const uint8_t data[2048];
    nigh_region *region = NULL;
    char back[8] = "";
    bool well = nigh_region_open(client, "shared", NIGH_REGION_READ | NIGH_REGION_WRITE, 20000000,
                                 &region) == NIGH_OK;

    well = well && nigh_region_write(region, 0, "written", 8, 20000000) == NIGH_OK &&
           nigh_region_read(region, 0, back, 8, 20000000) == NIGH_OK &&
           strcmp(back, "written") == 0;
    nigh_region_close(region);
    for (uint32_t i = 0; well && i < IDLE_PUTS; i++) {
        nigh_id id = id_of(number * IDLE_PUTS + i);

        well = nigh_put(client, &id, data, sizeof data, NULL) == NIGH_OK;
    }
    return well;
}

static void *sleep_in_a_call(void *argument)
{
    struct idle *idle = argument;
    nigh_event event;

    while (!atomic_load(idle->stop)) {
        (void)nigh_next_event(idle->client, NIGH_FOREVER, &event);
    }
    return NULL;
}

/*
 * However many clients have used regions and have put, and do nothing any more, asleep in a call or
 * in none: another does all that they did. What those that sleep in a call have leased goes back.
 */
static void test_idle_clients_leave_their_part_to_others(void **state)
{
    static struct idle idle[IDLE];
    static _Atomic bool stop;
    static const char *const one_lane[] = {"--lanes", "1", NULL};
    nigh_region_spec spec = {.struct_size = sizeof spec, .name = "shared", .size = 4096};
    struct node_fixture node;
    nigh_region *region = NULL;
    nigh_client *late;
    nigh_id last = id_of(UINT32_MAX);
    uint64_t most;

    (void)state;
    node_fixture_start(&node, "64M", one_lane);
    late = open_client(&node);
    assert_int_equal(nigh_region_create(late, &spec, 20000000, &region), NIGH_OK);
    for (uint32_t n = 0; n < IDLE; n++) {
        idle[n].client = open_client(&node);
        idle[n].stop = &stop;
        assert_non_null(idle[n].client);
        assert_true(works(idle[n].client, n));
    }
    most = leased_bytes(late);
    for (uint32_t n = 0; n < IDLE_ASLEEP; n++) {
        assert_int_equal(nigh_subscribe(idle[n].client, 0), NIGH_OK);
        assert_int_equal(pthread_create(&idle[n].thread, NULL, sleep_in_a_call, &idle[n]), 0);
    }
    nigh_client_close(late);
    late = open_client(&node);
    assert_non_null(late);
    assert_true(works(late, IDLE));
    /* Of 256 KiB and more, of which less than half was put; some may have slept before. */
    assert_true(SUPPORT_WAIT(leased_bytes(late) + IDLE_ASLEEP / 2 * IDLE_LEASE <= most, 30000));
    atomic_store(&stop, true);
    assert_int_equal(nigh_put(late, &last, "", 0, NULL), NIGH_OK);
    for (uint32_t n = 0; n < IDLE; n++) {
        if (n < IDLE_ASLEEP) {
            assert_int_equal(pthread_join(idle[n].thread, NULL), 0);
        }
        assert_true(works(idle[n].client, IDLE + 1 + n)); /* nor is one itself the worse for it */
        nigh_client_close(idle[n].client);
    }
    nigh_client_close(late);
    node_fixture_stop(&node);
}

/* A full memory evicts what nobody holds; what is held keeps its bytes, and is named in the end. */
/* More ids than a thread has pins and the rings have places, and no time to wait: each is asked for
 * all the same, and those that are not there do not stand in the way of those that are. */
static void test_many_at_once_without_waiting(void **state)
{
    enum {
        MANY = 4000
    };
    static const char *const one_lane[] = {"--lanes", "1", NULL};
    struct node_fixture node;
    nigh_client *client;
    nigh_id *ids = calloc(MANY, sizeof *ids);
    nigh_view *views = calloc(MANY, sizeof *views);

    (void)state;
    node_fixture_start(&node, "32M", one_lane);
    client = open_client(&node);
    assert_non_null(client);
    for (uint32_t i = 0; i < MANY; i++) {
        ids[i] = id_of(i);
        if (i % 4 != 3) {
            assert_int_equal(nigh_put(client, &ids[i], &i, sizeof i, NULL), NIGH_OK);
        }
    }
    assert_int_equal(nigh_get(client, ids, MANY, 0, views), NIGH_TIMEOUT);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(views[i].status, i % 4 != 3 ? NIGH_OK : NIGH_TIMEOUT);
        if (views[i].status == NIGH_OK) {
            assert_memory_equal(views[i].data, &i, sizeof i);
        }
        assert_int_equal(nigh_release(client, &views[i]), NIGH_OK);
    }
    free(ids);
    free(views);
    nigh_client_close(client);
    node_fixture_stop(&node);
}

static void test_full_memory_and_held_views(void **state)
{
    enum {
        HELD = 20,
        SIZE = 1 << 20
    };
    static const char *const one_lane[] = {"--lanes", "1", NULL};
    struct node_fixture node;
    nigh_view views[HELD];
    nigh_create_options large = {.data_size = 14 << 20}, too_large = {.data_size = 40 << 20};
    nigh_client *client;
    nigh_writer writer;
    nigh_id id;
    uint8_t *data = malloc(SIZE);
    char text[512];

    (void)state;
    node_fixture_start(&node, "32M", one_lane);
    client = open_client(&node);
    assert_non_null(client);
    for (uint32_t i = 0; i < HELD; i++) {
        id = id_of(i);
        fill(data, SIZE, i);
        assert_int_equal(nigh_put(client, &id, data, SIZE, NULL), NIGH_OK);
        assert_int_equal(nigh_get(client, &id, 1, 0, &views[i]), NIGH_OK);
    }
    for (uint32_t i = HELD; i < HELD + 200; i++) {
        id = id_of(i);
        fill(data, 100000, i);
        assert_int_equal(nigh_put(client, &id, data, 100000, NULL), NIGH_OK);
    }
    for (uint32_t i = 0; i < HELD; i++) {
        assert_true(is_filled(views[i].data, SIZE, i));
    }
    id = id_of(999999);
    assert_int_equal(nigh_create(client, &id, &large, &writer), NIGH_OUT_OF_MEMORY);
    nigh_client_error(client, text, sizeof(text));
    assert_non_null(strstr(text, "out of memory: "));
    assert_non_null(strstr(text, "in 20 objects"));
    /* More than there is has nothing to do with who holds what. */
    assert_int_equal(nigh_create(client, &id, &too_large, &writer), NIGH_OUT_OF_MEMORY);
    nigh_client_error(client, text, sizeof(text));
    assert_non_null(strstr(text, "40.0 MiB were asked for"));
    assert_null(strstr(text, "in 20 objects"));
    for (uint32_t i = 0; i < HELD; i++) {
        assert_int_equal(nigh_release(client, &views[i]), NIGH_OK);
    }
    free(data);
    nigh_client_close(client);
    node_fixture_stop(&node);
}

/* Sessions that only hold leases are holders too, of no object. */
static uint64_t count_views(const nigh_holder *holders, size_t count)
{
    uint64_t views = 0;

    for (size_t i = 0; i < count; i++) {
        views += holders[i].views;
    }
    return views;
}

static void test_manage_and_look(void **state)
{
    struct node_fixture node;
    nigh_create_options options = {.name = "the name", .meta = "meta", .meta_size = 4};
    nigh_object_info info, infos[8];
    nigh_holder holders[4];
    nigh_node_stats stats = {.struct_size = sizeof stats};
    nigh_client *client, *other;
    nigh_status deleted;
    uint64_t cursor = 0, freed;
    uint32_t crc;
    nigh_view view;
    size_t count;
    nigh_id id;
    bool found;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    client = open_client(&node);
    other = open_client(&node);
    assert_non_null(client);
    assert_non_null(other);
    assert_int_equal(nigh_id_from_name("the name", &id), NIGH_OK);
    assert_int_equal(nigh_put(client, &id, "123456789", 9, &options), NIGH_OK);
    assert_int_equal(nigh_get(other, &id, 1, 0, &view), NIGH_OK);
    assert_memory_equal(view.meta, "meta", 4);
    assert_int_equal(nigh_stat(client, &id, &info), NIGH_OK);
    assert_string_equal(info.name, "the name");
    assert_int_equal(info.holders, 1);
    assert_int_equal(nigh_who(client, &id, holders, 4, &count), NIGH_OK);
    assert_int_equal(count, 1);
    assert_int_equal(holders[0].pid, getpid());
    assert_int_equal(nigh_holders(client, holders, 4, &count), NIGH_OK);
    assert_int_equal(count_views(holders, count), 1);
    assert_int_equal(nigh_checksum(client, &id, &crc), NIGH_OK);
    assert_int_equal(crc, 0xe3069283); /* CRC32C of "123456789" (RFC 3720, B.4) */
    assert_int_equal(nigh_pin(client, &id), NIGH_OK);
    assert_int_equal(nigh_list(client, &cursor, infos, 8, &count), NIGH_OK);
    assert_int_equal(count, 1);
    assert_int_equal(infos[0].pinned, 1);
    assert_string_equal(infos[0].name, "the name");
    assert_int_equal(nigh_unpin(client, &id), NIGH_OK);
    assert_int_equal(nigh_refresh(client, &id, 1), NIGH_OK);
    assert_int_equal(nigh_stats(client, &stats), NIGH_OK);
    assert_int_equal(stats.objects, 1);
    assert_int_equal(stats.sessions, 2);
    /* Deleted while in use: gone for new readers, its bytes at the last release. */
    assert_int_equal(nigh_delete(client, &id, 1, &deleted), NIGH_OK);
    assert_int_equal(deleted, NIGH_IN_USE);
    assert_int_equal(nigh_contains(client, &id, &found), NIGH_OK);
    assert_false(found);
    assert_memory_equal(view.data, "123456789", 9);
    assert_int_equal(nigh_release(other, &view), NIGH_OK);
    assert_true(
        SUPPORT_WAIT(nigh_stats(client, &stats) == NIGH_OK && stats.objects_deleting == 0, 20000));
    assert_int_equal(nigh_put(client, &id, "again", 5, NULL), NIGH_OK);
    assert_int_equal(nigh_evict(client, 1, &freed), NIGH_OK);
    assert_true(freed >= 1);
    nigh_client_close(client);
    nigh_client_close(other);
    node_fixture_stop(&node);
}

static void test_events_of_another_process(void **state)
{
    struct node_fixture node;
    struct child child = {.node = &node, .first = 100, .count = 50, .size = 10};
    nigh_client *client;
    nigh_event event;
    uint32_t seen = 0;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    client = open_client(&node);
    assert_non_null(client);
    child.count = 10;
    assert_int_equal(support_join(support_fork(child_puts, &child), 20000), 0);
    assert_int_equal(nigh_subscribe(client, NIGH_SUBSCRIBE_REPLAY), NIGH_OK);
    child.first = 200;
    child.count = 40;
    assert_int_equal(support_join(support_fork(child_puts, &child), 20000), 0);
    while (seen < 50 && nigh_next_event(client, 5000000, &event) == NIGH_OK) {
        assert_int_equal(event.kind, NIGH_EVENT_SEALED);
        assert_int_equal(event.data_size, 10);
        seen++;
    }
    assert_int_equal(seen, 50);
    assert_int_equal(nigh_next_event(client, 1000, &event), NIGH_TIMEOUT);
    nigh_client_close(client);
    node_fixture_stop(&node);
}

/* ---- threads of one client --------------------------------------------------------------------
 */

struct worker {
    pthread_t thread;
    nigh_client *client;
    uint32_t number;
    uint64_t seed;
    uint32_t failures;
};

/* Puts its own objects, gets everybody's, deletes some; right bytes or none. */
static void *work(void *context)
{
    struct worker *worker = context;
    uint8_t data[3000];

    for (uint32_t i = 0; i < 600; i++) {
        uint32_t own = worker->number * 10000 + i;
        uint32_t any = (uint32_t)(support_random(&worker->seed) % 4) * 10000 +
                       (uint32_t)(support_random(&worker->seed) % (i + 1));
        size_t size = 1 + own % sizeof(data);
        nigh_id id = id_of(own);
        nigh_view view;
        nigh_status status;

        fill(data, size, own);
        worker->failures += nigh_put(worker->client, &id, data, size, NULL) != NIGH_OK;
        id = id_of(any);
        status = nigh_get(worker->client, &id, 1, i % 16 == 0 ? 1000 : 0, &view);
        if (status == NIGH_OK) {
            worker->failures += view.data_size != 1 + any % sizeof(data) ||
                                !is_filled(view.data, view.data_size, any);
            worker->failures += nigh_release(worker->client, &view) != NIGH_OK;
        } else {
            worker->failures += status != NIGH_TIMEOUT;
        }
        if (i % 50 == 49) {
            id = id_of(worker->number * 10000 + i - 20);
            status = nigh_delete(worker->client, &id, 1, NULL);
            worker->failures += status != NIGH_OK && status != NIGH_NOT_FOUND;
        }
    }
    return NULL;
}

static void test_threads_of_one_client(void **state)
{
    const char *flags[] = {"--lanes", "2", NULL};
    struct worker workers[4];
    struct node_fixture node;
    nigh_client *client;
    nigh_node_stats stats = {.struct_size = sizeof stats};
    nigh_holder holders[4];
    size_t count = 0;
    uint64_t seed = support_seed();

    (void)state;
    node_fixture_start(&node, "32M", flags);
    client = open_client(&node);
    assert_non_null(client);
    for (uint32_t i = 0; i < 4; i++) {
        workers[i] = (struct worker){.client = client, .number = i, .seed = seed + i * 99 + 1};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].failures, 0);
    }
    assert_int_equal(nigh_holders(client, holders, 4, &count), NIGH_OK);
    assert_int_equal(count_views(holders, count), 0);
    assert_int_equal(nigh_stats(client, &stats), NIGH_OK);
    assert_int_equal(stats.waiting, 0);
    nigh_client_close(client);
    node_fixture_stop(&node);
}

static void test_put_many_and_async(void **state)
{
    enum {
        N = 3000
    };
    const char *flags[] = {"--lanes", "2", NULL};
    struct node_fixture node;
    nigh_put_item *items = calloc(N, sizeof(*items));
    nigh_id *ids = calloc(N, sizeof(*ids));
    nigh_view *views = calloc(N, sizeof(*views));
    uint8_t *data = malloc(N * 100);
    nigh_client *client, *other;
    nigh_op get, put;

    (void)state;
    node_fixture_start(&node, "64M", flags);
    client = open_client(&node);
    other = open_client(&node);
    assert_non_null(client);
    assert_non_null(other);
    for (uint32_t i = 0; i < N; i++) {
        ids[i] = id_of(i);
        fill(data + i * 100, 100, i);
        items[i] = (nigh_put_item){.id = ids[i], .data = data + i * 100, .data_size = 100};
    }
    /* The get begins first, more ids than rings and pin words hold. */
    assert_int_equal(nigh_get_start(other, ids, N, 20000000, views, &get), NIGH_OK);
    assert_int_equal(nigh_put_many_start(client, items, N, &put), NIGH_OK);
    assert_int_equal(nigh_wait(client, &put, 20000000), NIGH_OK);
    assert_int_equal(nigh_wait(other, &get, 20000000), NIGH_OK);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(items[i].status, NIGH_OK);
        assert_true(is_filled(views[i].data, 100, i));
        assert_int_equal(nigh_release(other, &views[i]), NIGH_OK);
    }
    free(items);
    free(ids);
    free(views);
    free(data);
    nigh_client_close(client);
    nigh_client_close(other);
    node_fixture_stop(&node);
}

/* The node is killed: pending ends, what is held stays, nothing more is got. */
static void *wait_for_ever(void *context)
{
    struct worker *worker = context;
    nigh_id id = id_of(4242);
    nigh_view view;

    worker->failures = (uint32_t)nigh_get(worker->client, &id, 1, NIGH_FOREVER, &view);
    return NULL;
}

static void test_node_is_killed(void **state)
{
    struct node_fixture node;
    struct worker worker = {0};
    nigh_node_stats stats = {.struct_size = sizeof stats};
    nigh_client *client;
    nigh_id id = id_of(1);
    nigh_view view, other;

    (void)state;
    node_fixture_start(&node, "32M", NULL);
    client = worker.client = open_client(&node);
    assert_non_null(client);
    assert_int_equal(nigh_put(client, &id, "still here", 10, NULL), NIGH_OK);
    assert_int_equal(nigh_get(client, &id, 1, 0, &view), NIGH_OK);
    assert_int_equal(pthread_create(&worker.thread, NULL, wait_for_ever, &worker), 0);
    assert_true(SUPPORT_WAIT(nigh_stats(client, &stats) == NIGH_OK && stats.waiting == 1, 20000));
    assert_int_equal(kill(node.pid, SIGKILL), 0);
    assert_int_equal(pthread_join(worker.thread, NULL), 0);
    assert_int_equal((nigh_status)worker.failures, NIGH_NODE_LOST);
    assert_int_equal(support_join(node.pid, 20000), -SIGKILL);
    assert_memory_equal(view.data, "still here", 10);
    assert_int_equal(nigh_get(client, &id, 1, 0, &other), NIGH_NODE_LOST);
    assert_memory_equal(view.data, "still here", 10);
    assert_int_equal(nigh_release(client, &view), NIGH_NODE_LOST);
    assert_int_equal(nigh_put(client, &(nigh_id){{9}}, "x", 1, NULL), NIGH_NODE_LOST);
    nigh_client_close(client);
}

struct restart_reader {
    pthread_t thread;
    nigh_client *client;
    _Atomic bool stop;
    _Atomic uint64_t rounds;
    uint32_t failures;
};

/* Gets without IPC, all the time: a dead node is not noticed. */
static void *read_over_restarts(void *context)
{
    struct restart_reader *reader = context;

    for (uint32_t i = 0; !atomic_load(&reader->stop); i++) {
        nigh_id id = id_of(i % 100);
        nigh_view view;

        if (nigh_get(reader->client, &id, 1, 0, &view) != NIGH_OK ||
            !is_filled(view.data, 5000, i % 100) ||
            nigh_release(reader->client, &view) != NIGH_OK) {
            reader->failures++;
        }
        atomic_fetch_add(&reader->rounds, 1);
    }
    return NULL;
}

/* The node is killed and comes back with its memory, again and again: held views stay, readers do
 * not notice, writers resume. */
static void test_node_comes_back(void **state)
{
    static const char *const flags[] = {"--hold", "--lanes", "2", NULL};
    struct node_fixture node;
    struct restart_reader reader = {0};
    nigh_create_options large = {.data_size = 3 << 20};
    nigh_client *client;
    nigh_writer writer;
    nigh_view view;
    nigh_id id;
    uint8_t data[5000];

    (void)state;
    node_fixture_start(&node, "64M", flags);
    client = reader.client = open_client(&node);
    assert_non_null(client);
    for (uint32_t i = 0; i < 100; i++) {
        id = id_of(i);
        fill(data, sizeof(data), i);
        assert_int_equal(nigh_put(client, &id, data, sizeof(data), NULL), NIGH_OK);
        /* Seen once: its extent is mapped, and needs no node any more. */
        assert_int_equal(nigh_get(client, &id, 1, 0, &view), NIGH_OK);
        assert_int_equal(nigh_release(client, &view), NIGH_OK);
    }
    id = id_of(7);
    assert_int_equal(nigh_get(client, &id, 1, 0, &view), NIGH_OK);
    id = id_of(500);
    assert_int_equal(nigh_create(client, &id, &large, &writer), NIGH_OK);
    memset(writer.data, 9, 3 << 20);
    assert_int_equal(pthread_create(&reader.thread, NULL, read_over_restarts, &reader), 0);
    for (uint32_t round = 0; round < 3; round++) {
        pid_t child = node_fixture_child(node.pid);
        uint64_t rounds = atomic_load(&reader.rounds);
        nigh_status status = NIGH_NODE_LOST;

        assert_true(child > 0);
        assert_int_equal(kill(child, SIGKILL), 0);
        id = id_of(1000 + round);
        fill(data, sizeof(data), 1000 + round);
        /* A put under way may have succeeded although its answer was lost. */
        assert_true(SUPPORT_WAIT(
            (status = nigh_put(client, &id, data, sizeof(data), NULL)) != NIGH_NODE_LOST, 20000));
        assert_true(status == NIGH_OK || status == NIGH_EXISTS);
        assert_true(SUPPORT_WAIT(atomic_load(&reader.rounds) > rounds, 20000));
    }
    atomic_store(&reader.stop, true);
    assert_int_equal(pthread_join(reader.thread, NULL), 0);
    assert_int_equal(reader.failures, 0);
    assert_true(is_filled(view.data, 5000, 7));
    assert_int_equal(nigh_release(client, &view), NIGH_OK);
    assert_int_equal(nigh_seal(client, &writer), NIGH_OK);
    for (uint32_t round = 0; round < 3; round++) {
        id = id_of(1000 + round);
        assert_int_equal(nigh_get(client, &id, 1, 1000000, &view), NIGH_OK);
        assert_true(is_filled(view.data, 5000, 1000 + round));
        assert_int_equal(nigh_release(client, &view), NIGH_OK);
    }
    nigh_client_close(client);
    node_fixture_stop(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes_share),
        cmocka_unit_test(test_puts_of_what_is_there_already),
        cmocka_unit_test(test_idle_clients_leave_their_part_to_others),
        cmocka_unit_test(test_many_at_once_without_waiting),
        cmocka_unit_test(test_full_memory_and_held_views),
        cmocka_unit_test(test_manage_and_look),
        cmocka_unit_test(test_events_of_another_process),
        cmocka_unit_test(test_threads_of_one_client),
        cmocka_unit_test(test_put_many_and_async),
        cmocka_unit_test(test_node_is_killed),
        cmocka_unit_test(test_node_comes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
