/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces that are durable, end to end: three nighds with logs, over TCP. A node that is killed
 * while its clients write, and started again, has what they were told is done (sync), or what was
 * flushed (async); meanwhile the others go on with all else. A cluster of which all nodes were
 * killed has it, too. What is deleted has no log any more, and what is not a log is left alone.
 */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nigh/space.h"
#include "support/node_fixture.h"

#define SECOND_US UINT64_C(1000000)
#define WAIT_US   (20 * SECOND_US * support_patience())
#define NODES     3u
#define MIB       (UINT64_C(1) << 20)
#define KILLS     4u
#define RUN_BYTES (MIB - 512u) /* all blocks of home 0, but for the one that is nobody's */

struct world {
    uint32_t count;
    struct node_fixture node[NODES];
    nigh_client *client[NODES];
    char members[128], key[108], state[NODES][108], logs[NODES][108], rank[NODES][12];
    uint32_t without; /* the node that keeps no logs; NODES: all do */
};

static nigh_client *attach(const struct world *world, uint32_t n)
{
    nigh_client_options options = {.struct_size = sizeof options,
                                   .socket_path = world->node[n].socket};
    nigh_client *client = NULL;

    assert_int_equal(nigh_client_open(&options, &client), NIGH_OK);
    return client;
}

static void start_node(struct world *world, uint32_t n, bool again)
{
    const char *flags[] = {"--lanes",
                           "1",
                           "--space-memory",
                           "16M",
                           "--join",
                           world->members,
                           "--member",
                           world->rank[n],
                           "--cluster-key",
                           world->key,
                           "--state",
                           world->state[n],
                           "--dead-ms",
                           node_fixture_dead_ms(),
                           "--fabric",
                           node_fixture_fabric(),
                           n == world->without ? NULL : "--log-dir",
                           world->logs[n],
                           NULL};

    if (again) {
        node_fixture_start_again(&world->node[n], "32M", flags);
    } else {
        node_fixture_start(&world->node[n], "32M", flags);
    }
}

/* All but its nodes. */
static void name_world(struct world *world, uint32_t without)
{
    memset(world, 0, sizeof *world);
    world->count = NODES;
    node_fixture_members(world->members, sizeof world->members, NODES);
    world->without = without;
    support_path(world->key, sizeof world->key, "key");
    support_put_file(support_dir(), "/key",
                     "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n");
    assert_int_equal(chmod(world->key, 0600), 0);
    for (uint32_t n = 0; n < NODES; n++) {
        char name[32];

        snprintf(name, sizeof name, "state-%d", support_port());
        support_path(world->state[n], sizeof world->state[n], name);
        snprintf(name, sizeof name, "logs-%d", support_port());
        support_path(world->logs[n], sizeof world->logs[n], name);
        snprintf(world->rank[n], sizeof world->rank[n], "%u", n);
    }
}

static void start_world(struct world *world)
{
    for (uint32_t n = 0; n < NODES; n++) {
        start_node(world, n, false);
    }
    for (uint32_t n = 0; n < NODES; n++) {
        world->client[n] = attach(world, n);
    }
}

static void begin_world(struct world *world, uint32_t without)
{
    name_world(world, without);
    start_world(world);
}

static void end_world(struct world *world)
{
    for (uint32_t n = 0; n < world->count; n++) {
        nigh_client_close(world->client[n]);
    }
    for (uint32_t n = 0; n < world->count; n++) {
        node_fixture_stop(&world->node[n]);
    }
}

/* What a test does is to go well; else its client says why it did not. */
static void claim(nigh_client *client, nigh_status status)
{
    if (status != NIGH_OK) {
        char why[256];

        nigh_client_error(client, why, sizeof why);
        fail_msg("%s: %s", nigh_status_name(status), why);
    }
}

static nigh_space *create(nigh_client *client, const char *name, nigh_space_durability durability)
{
    nigh_space_spec spec = {
        .struct_size = sizeof spec, .name = name, .home_size = MIB, .durability = durability};
    nigh_space *space = NULL;

    claim(client, nigh_space_create(client, &spec, WAIT_US, &space));
    return space;
}

static nigh_space *open_space(nigh_client *client, const char *name, uint32_t access)
{
    nigh_space *space = NULL;

    claim(client, nigh_space_open(client, name, access, WAIT_US, &space));
    return space;
}

static void open_all(struct world *world, const char *name, nigh_space_durability durability,
                     nigh_space *spaces[NODES])
{
    spaces[0] = create(world->client[0], name, durability);
    for (uint32_t n = 1; n < world->count; n++) {
        spaces[n] = open_space(world->client[n], name, NIGH_SPACE_ALL);
    }
}

static nigh_space_address alloc_at(const struct world *world, uint32_t n, nigh_space *space,
                                   uint64_t size, uint32_t rank)
{
    nigh_space_address address = 0;

    claim(world->client[n], nigh_space_alloc(space, size, NIGH_SPACE_ON(rank), WAIT_US, &address));
    assert_int_equal(address >> 48, rank);
    return address;
}

static void write_all(const struct world *world, uint32_t n, nigh_space *space,
                      nigh_space_address address, const void *bytes, uint64_t size)
{
    nigh_space_address failed = 0;

    claim(world->client[n], nigh_space_write(space, address, bytes, size, WAIT_US));
    claim(world->client[n], nigh_space_flush(space, WAIT_US, &failed));
}

static uint64_t get(const struct world *world, uint32_t n, nigh_space *space,
                    nigh_space_address address)
{
    uint64_t value = 0;

    claim(world->client[n], nigh_space_read(space, address, &value, sizeof value, WAIT_US));
    return value;
}

static void kill_node(struct world *world, uint32_t n)
{
    assert_int_equal(kill(world->node[n].pid, SIGKILL), 0);
    assert_int_equal(waitpid(world->node[n].pid, NULL, 0), world->node[n].pid);
}

static void open_again(struct world *world, uint32_t n, const char *name, nigh_space **space)
{
    *space = NULL;
    assert_true(SUPPORT_WAIT(
        nigh_space_open(world->client[n], name, NIGH_SPACE_ALL, WAIT_US, space) == NIGH_OK, 30000));
}

static void start_again(struct world *world, uint32_t n)
{
    nigh_client_close(world->client[n]);
    start_node(world, n, true);
    world->client[n] = attach(world, n);
}

/* What is there once all that is away is back. */
static uint64_t get_at_last(nigh_space *space, nigh_space_address address)
{
    uint64_t value = 0;
    nigh_status status = NIGH_OK;

    if (!SUPPORT_WAIT((status = nigh_space_read(space, address, &value, sizeof value, WAIT_US)) ==
                          NIGH_OK,
                      30000)) {
        fail_msg("%s", nigh_status_name(status));
    }
    return value;
}

/* ---- a node that is killed ------------------------------------------------ */

/* Words that the client of one node counts in, each of another home, until the node is dead. */
struct counter {
    nigh_space *space;
    nigh_space_address words[NODES];
    _Atomic uint64_t told[NODES];
    _Atomic uint64_t written; /* to words[n] + 8, with a ticket that was waited for */
};

static void *count(void *context)
{
    struct counter *counter = context;

    for (uint64_t n = 1;; n++) {
        uint64_t before, written = n;
        uint32_t which = (uint32_t)(n % NODES);

        if (nigh_space_fetch_add(counter->space, counter->words[which], 1, WAIT_US, &before) !=
            NIGH_OK) {
            return NULL;
        }
        atomic_store(&counter->told[which], before + 1);
        if (nigh_space_write(counter->space, counter->words[0] + 8, &written, sizeof written,
                             WAIT_US) != NIGH_OK ||
            nigh_space_flush(counter->space, WAIT_US, NULL) != NIGH_OK) {
            return NULL;
        }
        atomic_store(&counter->written, written);
    }
}

/* One that was under way may be done. */
static void check_counter(struct world *world, nigh_space *spaces[NODES],
                          const struct counter *counter)
{
    for (uint32_t n = 0; n < NODES; n++) {
        for (uint32_t word = 0; word < NODES; word++) {
            uint64_t value = get_at_last(spaces[n], counter->words[word]);
            uint64_t told = atomic_load(&counter->told[word]);

            if (value != told && value != told + 1) {
                fail_msg("word %u is %llu at node %u, and %llu was told", word,
                         (unsigned long long)value, n, (unsigned long long)told);
            }
        }
    }
    assert_true(get_at_last(spaces[1], counter->words[0] + 8) >= atomic_load(&counter->written));
    (void)world;
}

static void kill_and_look(struct world *world, nigh_space *spaces[NODES], struct counter *counter,
                          nigh_space_address other, uint64_t after_us)
{
    uint64_t told = atomic_load(&counter->told[2]), value = after_us;
    uint64_t end_us = support_now_us() + after_us;
    pthread_t thread;

    counter->space = spaces[2];
    for (uint32_t n = 0; n < NODES; n++) {
        atomic_store(&counter->told[n], get_at_last(spaces[0], counter->words[n]));
    }
    assert_int_equal(pthread_create(&thread, NULL, count, counter), 0);
    assert_true(SUPPORT_WAIT(atomic_load(&counter->told[2]) > told + 3 && support_now_us() > end_us,
                             30000));
    kill_node(world, 2);
    assert_int_equal(pthread_join(thread, NULL), 0);
    /* The others go on, with what is not that node's; what is its is said not to be there. */
    write_all(world, 0, spaces[0], other, &value, sizeof value);
    assert_int_equal(get(world, 1, spaces[1], other), value);
    value = 0;
    assert_int_equal(nigh_space_read(spaces[0], counter->words[2], &value, sizeof value, WAIT_US),
                     NIGH_PEER_LOST);
    start_again(world, 2);
    open_again(world, 2, "logs", &spaces[2]);
    check_counter(world, spaces, counter);
}

static void what_was_told_is_there_whenever_a_node_is_killed(void **state)
{
    struct world world;
    struct counter counter = {0};
    nigh_space *spaces[NODES];
    nigh_space_address other;
    uint64_t seed = support_seed();

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "logs", NIGH_SPACE_DURABLE_SYNC, spaces);
    for (uint32_t n = 0; n < NODES; n++) {
        counter.words[n] = alloc_at(&world, 0, spaces[0], 512, n);
    }
    other = alloc_at(&world, 0, spaces[0], 512, 1);
    for (uint32_t n = 0; n < KILLS; n++) {
        kill_and_look(&world, spaces, &counter, other, support_random(&seed) % 300000);
    }
    end_world(&world);
}

static void what_was_flushed_is_there_and_away_until_then(void **state)
{
    struct world world;
    nigh_space *spaces[NODES];
    nigh_space_address own, others;
    uint64_t value = 71;

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "logs", NIGH_SPACE_DURABLE_ASYNC, spaces);
    own = alloc_at(&world, 2, spaces[2], 512, 2);
    others = alloc_at(&world, 2, spaces[2], 512, 0);
    write_all(&world, 2, spaces[2], own, &value, sizeof value);
    value = 72;
    write_all(&world, 2, spaces[2], others, &value, sizeof value);
    kill_node(&world, 2);
    /* Its home is here, and its bytes are not. */
    assert_int_equal(nigh_space_read(spaces[1], others, &value, sizeof value, WAIT_US), NIGH_BUSY);
    start_again(&world, 2);
    open_again(&world, 2, "logs", &spaces[2]);
    assert_int_equal(get_at_last(spaces[1], others), 72);
    assert_int_equal(get_at_last(spaces[0], own), 71);
    end_world(&world);
}

/* A home is killed while all that it has is freed, of which another node has as much as it keeps:
 * all of it is free in the end, or none, and then it is freed once more. */
static void kill_as_it_frees(struct world *world, nigh_space *spaces[NODES], uint64_t after_us)
{
    static uint8_t bytes[RUN_BYTES];
    nigh_space_address address, again = 0;
    nigh_status status;
    uint64_t value;

    memset(bytes, 1, sizeof bytes);
    address = alloc_at(world, 1, spaces[1], RUN_BYTES, 0);
    write_all(world, 1, spaces[1], address, bytes, sizeof bytes);
    status = nigh_space_free(spaces[1], address, after_us);
    assert_true(status == NIGH_OK || status == NIGH_TIMEOUT);
    kill_node(world, 0);
    start_again(world, 0);
    open_again(world, 0, "logs", &spaces[0]);
    assert_true(SUPPORT_WAIT((status = nigh_space_free(spaces[1], address, WAIT_US)) == NIGH_OK ||
                                 status == NIGH_INVALID,
                             30000));
    assert_true(SUPPORT_WAIT(
        nigh_space_read(spaces[1], address + 512, &value, sizeof value, WAIT_US) == NIGH_NOT_FOUND,
        30000));
    assert_true(SUPPORT_WAIT(
        nigh_space_alloc(spaces[1], RUN_BYTES, NIGH_SPACE_ON(0), WAIT_US, &again) == NIGH_OK,
        30000));
    claim(world->client[1], nigh_space_free(spaces[1], again, WAIT_US));
}

static void a_free_goes_on_when_its_home_is_back(void **state)
{
    struct world world;
    nigh_space *spaces[NODES];
    uint64_t seed = support_seed();

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "logs", NIGH_SPACE_DURABLE_SYNC, spaces);
    for (uint32_t n = 0; n < KILLS; n++) {
        kill_as_it_frees(&world, spaces, 1 + support_random(&seed) % 40000);
    }
    end_world(&world);
}

/* ---- all of them ---------------------------------------------------------- */

static void kill_all_and_start(struct world *world)
{
    for (uint32_t n = 0; n < NODES; n++) {
        if (node_fixture_lives(&world->node[n])) {
            kill_node(world, n);
        }
        nigh_client_close(world->client[n]);
        world->client[n] = NULL;
    }
    for (uint32_t n = 0; n < NODES; n++) {
        start_again(world, n);
    }
}

static void a_cluster_that_was_killed_has_its_spaces(void **state)
{
    struct world world;
    nigh_space *spaces[NODES];
    nigh_space_address words[NODES];
    uint64_t value;

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "logs", NIGH_SPACE_DURABLE_SYNC, spaces);
    for (uint32_t n = 0; n < NODES; n++) {
        words[n] = alloc_at(&world, 0, spaces[0], 512, n);
        value = 100 + n;
        write_all(&world, (n + 1) % NODES, spaces[(n + 1) % NODES], words[n], &value, sizeof value);
    }
    kill_all_and_start(&world);
    for (uint32_t n = 0; n < NODES; n++) {
        open_again(&world, n, "logs", &spaces[n]);
    }
    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(get_at_last(spaces[n], words[n]), 100 + n);
    }
    end_world(&world);
}

/* ---- what has no log ------------------------------------------------------ */

static uint32_t logs_of(const struct world *world, uint32_t n)
{
    char path[128];
    uint32_t logs = 0;
    struct dirent *entry;
    DIR *folder;

    (void)snprintf(path, sizeof path, "%s/rank-%u", world->logs[n], n);
    folder = opendir(path);
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        logs += strlen(entry->d_name) == 16;
    }
    (void)closedir(folder);
    return logs;
}

static void what_is_deleted_has_no_log(void **state)
{
    struct world world;
    nigh_space *spaces[NODES];

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "logs", NIGH_SPACE_DURABLE_ASYNC, spaces);
    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(logs_of(&world, n), 1);
        nigh_space_close(spaces[n]);
    }
    claim(world.client[1], nigh_space_delete(world.client[1], "logs", WAIT_US));
    for (uint32_t n = 0; n < NODES; n++) {
        assert_true(SUPPORT_WAIT(logs_of(&world, n) == 0, 20000));
    }
    end_world(&world);
}

static void all_nodes_need_a_directory(void **state)
{
    struct world world;
    nigh_space *space = NULL;
    nigh_space_spec spec = {.struct_size = sizeof spec,
                            .name = "logs",
                            .home_size = MIB,
                            .durability = NIGH_SPACE_DURABLE_SYNC};
    char why[256];

    (void)state;
    begin_world(&world, 1);
    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(nigh_space_create(world.client[n], &spec, WAIT_US, &space),
                         NIGH_UNSUPPORTED);
        nigh_client_error(world.client[n], why, sizeof why);
        assert_non_null(strstr(why, "--log-dir"));
        assert_null(strstr(why, "--space-memory"));
    }
    spec.durability = NIGH_SPACE_DURABLE_NONE;
    claim(world.client[1], nigh_space_create(world.client[1], &spec, WAIT_US, &space));
    /* what was refused is answered first, and its log is taken away after that */
    assert_true(SUPPORT_WAIT(logs_of(&world, 0) == 0, 20000));
    end_world(&world);
}

/* ... and one that has none takes no part in those that are there, and says why. */
static void a_node_without_a_directory_says_so(void **state)
{
    struct world world;
    nigh_space *space = NULL;
    nigh_space_spec spec = {.struct_size = sizeof spec,
                            .name = "logs",
                            .home_size = MIB,
                            .durability = NIGH_SPACE_DURABLE_SYNC};
    nigh_status status = NIGH_OK;
    char why[256];

    (void)state;
    begin_world(&world, NODES);
    claim(world.client[0], nigh_space_create(world.client[0], &spec, WAIT_US, &space));
    kill_node(&world, 2);
    world.without = 2;
    start_again(&world, 2);
    assert_true(SUPPORT_WAIT((status = nigh_space_open(world.client[2], "logs", NIGH_SPACE_ALL,
                                                       WAIT_US, &space)) == NIGH_UNSUPPORTED,
                             30000));
    nigh_client_error(world.client[2], why, sizeof why);
    assert_non_null(strstr(why, "--log-dir"));
    assert_null(strstr(why, "--space-memory"));
    end_world(&world);
}

/* ---- what is deleted while a node is out ---------------------------------- */

/* Of the one space: the name of its directory. False: there is none, or there are several. */
static bool log_of(const struct world *world, uint32_t n, char name[17])
{
    char path[128];
    struct dirent *entry;
    DIR *folder;

    if (logs_of(world, n) != 1) {
        return false;
    }
    (void)snprintf(path, sizeof path, "%s/rank-%u", world->logs[n], n);
    folder = opendir(path);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (strlen(entry->d_name) == 16) {
            memcpy(name, entry->d_name, 17);
        }
    }
    (void)closedir(folder);
    return true;
}

static bool have_the_same_log(const struct world *world, uint32_t one, uint32_t other)
{
    char name[2][17] = {"", ""};

    return log_of(world, one, name[0]) && log_of(world, other, name[1]) &&
           strcmp(name[0], name[1]) == 0;
}

/* Who is asked may be who is gone, as long as that is not known. */
static void delete_without(const struct world *world, uint32_t n)
{
    nigh_status status = NIGH_OK;

    assert_true(SUPPORT_WAIT(
        (status = nigh_space_delete(world->client[n], "logs", WAIT_US)) != NIGH_PEER_LOST, 30000));
    assert_true(status == NIGH_OK || status == NIGH_NOT_FOUND);
}

static void create_without(struct world *world, uint32_t n, nigh_space **space)
{
    nigh_space_spec spec = {.struct_size = sizeof spec,
                            .name = "logs",
                            .home_size = MIB,
                            .durability = NIGH_SPACE_DURABLE_SYNC};

    assert_true(
        SUPPORT_WAIT(nigh_space_create(world->client[n], &spec, WAIT_US, space) == NIGH_OK, 30000));
}

/* A node that comes back with the log of a space that is deleted has it removed, and does not bring
 * the space back: whether another is called so now, and though nobody was there all the time. */
static void what_was_deleted_meanwhile_does_not_come_back(void **state)
{
    struct world world;
    nigh_space *spaces[NODES], *none = NULL;

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "logs", NIGH_SPACE_DURABLE_SYNC, spaces);
    kill_node(&world, 2);
    delete_without(&world, 1);
    create_without(&world, 0, &spaces[0]);
    assert_false(have_the_same_log(&world, 0, 2));
    start_again(&world, 2);
    assert_true(SUPPORT_WAIT(have_the_same_log(&world, 0, 2), 30000));
    open_again(&world, 2, "logs", &spaces[2]);
    kill_node(&world, 2);
    delete_without(&world, 0);
    assert_true(SUPPORT_WAIT(logs_of(&world, 0) == 0 && logs_of(&world, 1) == 0, 30000));
    assert_int_equal(logs_of(&world, 2), 1);
    kill_all_and_start(&world);
    assert_true(SUPPORT_WAIT(logs_of(&world, 2) == 0, 30000));
    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(nigh_space_open(world.client[n], "logs", NIGH_SPACE_ALL, WAIT_US, &none),
                         NIGH_NOT_FOUND);
        assert_int_equal(logs_of(&world, n), 0);
    }
    end_world(&world);
}

/* ---- disks that fail ------------------------------------------------------ */

#define DISK_BYTES "24m"
#define PIECE      4096u
#define PIECES     224u /* of a home of a MiB */
#define ROUNDS     64u

/* A disk of its own for one node's logs. False: nothing can be mounted here. */
static bool mount_disk(const char *directory)
{
    assert_int_equal(mkdir(directory, 0700), 0);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("nigh-test", directory, "tmpfs", 0, "size=" DISK_BYTES) != 0) {
        print_message("nothing can be mounted here: the full disk is left out\n");
        return false;
    }
    return true;
}

static void filler_path(const struct world *world, uint32_t n, char path[140])
{
    (void)snprintf(path, 140, "%s/filler", world->logs[n]);
}

static void fill_disk(const struct world *world, uint32_t n)
{
    static const char bytes[65536];
    char path[140];
    int fd;

    filler_path(world, n, path);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    for (size_t size = sizeof bytes; size >= 512; size /= 2) {
        while (write(fd, bytes, size) == (ssize_t)size) {
        }
    }
    close(fd);
}

static void empty_disk(const struct world *world, uint32_t n)
{
    char path[140];

    filler_path(world, n, path);
    assert_int_equal(unlink(path), 0);
}

/* Pieces of one home that its node writes again and again, until it cannot; what was told. */
struct pieces {
    nigh_space_address at;
    uint64_t told[PIECES];
};

static nigh_status write_piece(nigh_space *space, nigh_space_address at, uint64_t value)
{
    uint64_t words[PIECE / sizeof(uint64_t)];
    nigh_status status;

    for (uint32_t n = 0; n < PIECE / sizeof(uint64_t); n++) {
        words[n] = value;
    }
    status = nigh_space_write(space, at, words, PIECE, WAIT_US);
    return status == NIGH_OK ? nigh_space_flush(space, WAIT_US, NULL) : status;
}

static nigh_status write_until_it_fails(nigh_space *space, struct pieces *pieces)
{
    for (uint32_t n = 0; n < ROUNDS * PIECES; n++) {
        uint32_t piece = n % PIECES;
        nigh_status status =
            write_piece(space, pieces->at + piece * PIECE, pieces->told[piece] + 1);

        if (status != NIGH_OK) {
            return status;
        }
        pieces->told[piece]++;
    }
    return NIGH_OK;
}

/* One that was under way may be done. */
static void check_pieces(nigh_space *space, const struct pieces *pieces)
{
    for (uint32_t n = 0; n < PIECES; n++) {
        uint64_t value = get_at_last(space, pieces->at + n * PIECE);

        if (value != pieces->told[n] && value != pieces->told[n] + 1) {
            fail_msg("piece %u is %llu, and %llu was told", n, (unsigned long long)value,
                     (unsigned long long)pieces->told[n]);
        }
    }
}

static bool says(const struct world *world, uint32_t n, const char *words)
{
    char path[128], line[1024];
    bool is_said = false;
    FILE *log;

    (void)snprintf(path, sizeof path, "%s.log", world->node[n].socket);
    log = fopen(path, "r");
    assert_non_null(log);
    while (!is_said && fgets(line, sizeof line, log) != NULL) {
        is_said = strstr(line, words) != NULL;
    }
    (void)fclose(log);
    return is_said;
}

/* A disk has no room, or is none: nobody's space is made, and it is said why. */
static void claim_no_new_log(struct world *world)
{
    nigh_space_spec spec = {.struct_size = sizeof spec,
                            .name = "more",
                            .home_size = MIB,
                            .durability = NIGH_SPACE_DURABLE_SYNC};
    nigh_space *space = NULL;
    char why[256];

    for (uint32_t n = 0; n < NODES; n++) {
        nigh_status status = NIGH_OK;

        /* Of links that were broken some may not be there yet. */
        (void)SUPPORT_WAIT((status = nigh_space_create(world->client[n], &spec, WAIT_US, &space)) ==
                               NIGH_DISK,
                           30000);
        assert_int_equal(status, NIGH_DISK);
        nigh_client_error(world->client[n], why, sizeof why);
        assert_non_null(strstr(why, "--log-dir"));
    }
    /* It is gone: nobody is told to start that node for it, or that something of it is away. */
    assert_true(SUPPORT_WAIT(says(world, 2, "a space is not made"), 30000));
    assert_false(says(world, 2, "this node takes no part in a space"));
    assert_false(says(world, 2, "not of the log of its space"));
}

/* Node 2 has left the space: it goes on, and so do the others with all else. */
static void claim_left(struct world *world, nigh_space *spaces[NODES], nigh_space_address other,
                       nigh_space_address own)
{
    nigh_space *space = NULL;
    uint64_t value = 91;
    nigh_status status = NIGH_OK;
    char why[256];

    assert_true(SUPPORT_WAIT(says(world, 2, "the log of a space failed"), 30000));
    assert_true(node_fixture_lives(&world->node[2]));
    write_all(world, 0, spaces[0], other, &value, sizeof value);
    assert_int_equal(get(world, 1, spaces[1], other), 91);
    assert_true(SUPPORT_WAIT(
        nigh_space_read(spaces[0], own, &value, sizeof value, WAIT_US) == NIGH_PEER_LOST, 30000));
    assert_true(SUPPORT_WAIT((status = nigh_space_open(world->client[2], "logs", NIGH_SPACE_ALL,
                                                       WAIT_US, &space)) == NIGH_DISK,
                             30000));
    nigh_client_error(world->client[2], why, sizeof why);
    assert_non_null(strstr(why, "--log-dir"));
    assert_true(SUPPORT_WAIT(logs_of(world, 0) == 1, 30000));
    assert_true(SUPPORT_WAIT(logs_of(world, 1) == 1, 30000));
    /* What needs no log. */
    space = create(world->client[2], "without", NIGH_SPACE_DURABLE_NONE);
    other = alloc_at(world, 2, space, 512, 2);
    value = 92;
    write_all(world, 2, space, other, &value, sizeof value);
    assert_int_equal(get(world, 2, space, other), 92);
    nigh_space_close(space);
    claim(world->client[2], nigh_space_delete(world->client[2], "without", WAIT_US));
}

static void a_full_disk_costs_no_more_than_that_node(void **state)
{
    struct world world;
    struct pieces pieces = {0};
    nigh_space *spaces[NODES];
    nigh_space_address other;

    (void)state;
    name_world(&world, NODES);
    if (!mount_disk(world.logs[2])) {
        return;
    }
    start_world(&world);
    open_all(&world, "logs", NIGH_SPACE_DURABLE_SYNC, spaces);
    other = alloc_at(&world, 0, spaces[0], 512, 1);
    pieces.at = alloc_at(&world, 2, spaces[2], PIECES * PIECE, 2);
    fill_disk(&world, 2);
    /* Of the log there is room is taken: that goes on. */
    claim_no_new_log(&world);
    claim(world.client[2], write_piece(spaces[2], pieces.at, 0));
    assert_true(SUPPORT_WAIT(logs_of(&world, 2) == 1, 30000));
    /* An image has none. */
    assert_int_equal(write_until_it_fails(spaces[2], &pieces), NIGH_DISK);
    claim_left(&world, spaces, other, pieces.at);
    /* With room it has again what was told. */
    empty_disk(&world, 2);
    node_fixture_stop(&world.node[2]);
    start_again(&world, 2);
    open_again(&world, 2, "logs", &spaces[2]);
    check_pieces(spaces[2], &pieces);
    check_pieces(spaces[0], &pieces);
    end_world(&world);
    assert_int_equal(umount2(world.logs[2], MNT_DETACH), 0);
}

/* A node whose disk failed has left the space: with that its log goes, too. */
static void what_a_node_has_left_goes_with_the_space(void **state)
{
    struct world world;
    struct pieces pieces = {0};
    nigh_space *spaces[NODES];
    nigh_space_address other;
    char name[17], path[160];

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "logs", NIGH_SPACE_DURABLE_SYNC, spaces);
    other = alloc_at(&world, 0, spaces[0], 512, 1);
    pieces.at = alloc_at(&world, 2, spaces[2], PIECES * PIECE, 2);
    assert_true(log_of(&world, 2, name));
    (void)snprintf(path, sizeof path, "%s/rank-2/%s/image.new", world.logs[2], name);
    assert_int_equal(mkdir(path, 0700), 0); /* where a file is to be */
    assert_int_equal(write_until_it_fails(spaces[2], &pieces), NIGH_DISK);
    assert_int_equal(rmdir(path), 0);
    claim_left(&world, spaces, other, pieces.at);
    assert_int_equal(logs_of(&world, 2), 1);
    claim(world.client[1], nigh_space_delete(world.client[1], "logs", WAIT_US));
    for (uint32_t n = 0; n < NODES; n++) {
        assert_true(SUPPORT_WAIT(logs_of(&world, n) == 0, 30000));
    }
    end_world(&world);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* Nothing is durable there from then on, and nobody is told that something was. */
static void a_directory_that_is_removed_costs_no_more_than_that_node(void **state)
{
    struct world world;
    nigh_space *spaces[NODES];
    nigh_space_address other, own, others, before;
    uint64_t value = 95;
    nigh_status status = NIGH_OK;

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "logs", NIGH_SPACE_DURABLE_SYNC, spaces);
    other = alloc_at(&world, 0, spaces[0], 512, 1);
    own = alloc_at(&world, 2, spaces[2], PIECE, 2);
    others = alloc_at(&world, 2, spaces[2], PIECE, 0);
    claim(world.client[2], write_piece(spaces[2], own, 95));
    claim(world.client[2], write_piece(spaces[2], others, 96));
    assert_int_equal(nftw(world.logs[2], remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    assert_int_equal(write_piece(spaces[2], own, 97), NIGH_DISK);
    claim_left(&world, spaces, other, own);
    claim_no_new_log(&world);
    assert_int_equal(nigh_space_read(spaces[0], others, &value, sizeof value, WAIT_US), NIGH_BUSY);
    /* It is there again, without it: what it alone had is lost, and said to be. */
    node_fixture_stop(&world.node[2]);
    start_again(&world, 2);
    open_again(&world, 2, "logs", &spaces[2]);
    assert_true(SUPPORT_WAIT((status = nigh_space_read(spaces[0], others, &value, sizeof value,
                                                       WAIT_US)) == NIGH_PEER_LOST,
                             30000));
    before = own;
    own = alloc_at(&world, 2, spaces[2], 512, 2);
    assert_int_equal(nigh_space_read(spaces[0], before, &value, sizeof value, WAIT_US),
                     NIGH_PEER_LOST);
    value = 98;
    write_all(&world, 2, spaces[2], own, &value, sizeof value);
    assert_int_equal(get_at_last(spaces[1], own), 98);
    assert_int_equal(get_at_last(spaces[2], other), 91);
    end_world(&world);
}

#define MANY UINT64_C(48) /* more than a store buffer and a window have room for */

/* However much is written behind what could not be, and whatever is asked by the handle after the
 * node has left the space, it is the log that is said to have failed. */
static void all_by_the_handle_tells_of_the_log(void **state)
{
    static const uint8_t bytes[MANY * PIECE];
    struct world world;
    nigh_space *spaces[NODES], *none = NULL;
    nigh_space_address own, failed = 0;
    uint64_t value;

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "logs", NIGH_SPACE_DURABLE_SYNC, spaces);
    own = alloc_at(&world, 2, spaces[2], sizeof bytes, 2);
    assert_int_equal(nftw(world.logs[2], remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    claim(world.client[2], nigh_space_write(spaces[2], own, bytes, sizeof bytes, WAIT_US));
    assert_int_equal(nigh_space_flush(spaces[2], WAIT_US, &failed), NIGH_DISK);
    assert_true(SUPPORT_WAIT(
        nigh_space_open(world.client[2], "logs", NIGH_SPACE_ALL, WAIT_US, &none) == NIGH_DISK,
        30000));
    claim(world.client[2], nigh_space_flush(spaces[2], WAIT_US, NULL));
    assert_int_equal(nigh_space_read(spaces[2], own, &value, sizeof value, WAIT_US), NIGH_DISK);
    assert_int_equal(nigh_space_fetch_add(spaces[2], own, 1, WAIT_US, &value), NIGH_DISK);
    assert_int_equal(nigh_space_alloc(spaces[2], 8, 0, WAIT_US, &failed), NIGH_DISK);
    assert_int_equal(write_piece(spaces[2], own, 1), NIGH_DISK);
    nigh_space_close(spaces[2]);
    claim(world.client[1], nigh_space_delete(world.client[1], "logs", WAIT_US));
    end_world(&world);
}

/* A flush that begins after the node has left the space is for what was written before, too. */
static void what_has_not_become_durable_is_told_later(void **state)
{
    struct world world;
    nigh_space *spaces[NODES], *none = NULL;
    nigh_space_address own;
    uint64_t value = 7;

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "logs", NIGH_SPACE_DURABLE_ASYNC, spaces);
    own = alloc_at(&world, 2, spaces[2], PIECE, 2);
    claim(world.client[2], write_piece(spaces[2], own, 6));
    assert_int_equal(nftw(world.logs[2], remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    claim(world.client[2], nigh_space_write(spaces[2], own, &value, sizeof value, WAIT_US));
    assert_true(SUPPORT_WAIT(
        nigh_space_open(world.client[2], "logs", NIGH_SPACE_ALL, WAIT_US, &none) == NIGH_DISK,
        30000));
    assert_int_equal(nigh_space_flush(spaces[2], WAIT_US, NULL), NIGH_DISK);
    claim(world.client[2], nigh_space_flush(spaces[2], WAIT_US, NULL));
    end_world(&world);
}

/* ---- one that is not the last --------------------------------------------- */

static void move_logs(const struct world *world, uint32_t n, const char *from, const char *to)
{
    char before[140], after[140];

    (void)snprintf(before, sizeof before, "%s/rank-%u%s", world->logs[n], n, from);
    (void)snprintf(after, sizeof after, "%s/rank-%u%s", world->logs[n], n, to);
    assert_int_equal(rename(before, after), 0);
}

static bool is_refused(const struct world *world, uint32_t n)
{
    char path[400];
    bool is_marked = false;
    struct dirent *entry;
    DIR *folder;

    (void)snprintf(path, sizeof path, "%s/rank-%u", world->logs[n], n);
    folder = opendir(path);
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        if (strlen(entry->d_name) == 16) {
            (void)snprintf(path, sizeof path, "%s/rank-%u/%.16s/refused", world->logs[n], n,
                           entry->d_name);
            is_marked |= access(path, F_OK) == 0;
        }
    }
    (void)closedir(folder);
    return is_marked;
}

/* What a node had before it served the space without it is not believed when it is put back, by any
 * later start; and nothing is lost by that of what is the last. */
static void an_old_log_that_is_put_back_is_refused(void **state)
{
    struct world world;
    nigh_space *spaces[NODES], *none = NULL;
    nigh_space_address word;
    uint64_t value = 81;
    char why[256];

    (void)state;
    begin_world(&world, NODES);
    open_all(&world, "logs", NIGH_SPACE_DURABLE_SYNC, spaces);
    word = alloc_at(&world, 2, spaces[2], 512, 2);
    write_all(&world, 2, spaces[2], word, &value, sizeof value);
    kill_node(&world, 2);
    move_logs(&world, 2, "", ".old");
    start_again(&world, 2);
    open_again(&world, 2, "logs", &spaces[2]);
    word = alloc_at(&world, 2, spaces[2], 512, 2);
    value = 82;
    write_all(&world, 2, spaces[2], word, &value, sizeof value);
    kill_node(&world, 2);
    move_logs(&world, 2, "", ".new");
    move_logs(&world, 2, ".old", "");
    for (uint32_t n = 0; n < 2; n++) {
        start_again(&world, 2);
        assert_true(SUPPORT_WAIT(is_refused(&world, 2), 30000));
        assert_int_equal(nigh_space_open(world.client[2], "logs", NIGH_SPACE_ALL, WAIT_US, &none),
                         NIGH_CORRUPT);
        nigh_client_error(world.client[2], why, sizeof why);
        assert_non_null(strstr(why, "--log-dir"));
        kill_node(&world, 2);
    }
    move_logs(&world, 2, "", ".old");
    move_logs(&world, 2, ".new", "");
    start_again(&world, 2);
    open_again(&world, 2, "logs", &spaces[2]);
    assert_int_equal(get_at_last(spaces[0], word), 82);
    end_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_told_is_there_whenever_a_node_is_killed),
        cmocka_unit_test(what_was_flushed_is_there_and_away_until_then),
        cmocka_unit_test(a_free_goes_on_when_its_home_is_back),
        cmocka_unit_test(a_cluster_that_was_killed_has_its_spaces),
        cmocka_unit_test(what_is_deleted_has_no_log),
        cmocka_unit_test(all_nodes_need_a_directory),
        cmocka_unit_test(a_node_without_a_directory_says_so),
        cmocka_unit_test(what_was_deleted_meanwhile_does_not_come_back),
        cmocka_unit_test(a_full_disk_costs_no_more_than_that_node),
        cmocka_unit_test(what_a_node_has_left_goes_with_the_space),
        cmocka_unit_test(a_directory_that_is_removed_costs_no_more_than_that_node),
        cmocka_unit_test(all_by_the_handle_tells_of_the_log),
        cmocka_unit_test(what_has_not_become_durable_is_told_later),
        cmocka_unit_test(an_old_log_that_is_put_back_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
