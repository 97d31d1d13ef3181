/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that come, map a region of a nighd, write and read it both ways, and go: by unmapping,
 * by closing, by leaving all to their end, or killed at any moment, by a seed, while the region is
 * freed, made anew, cut and grown. What each wrote by one way it reads by the other; and when all
 * have gone nothing is mapped, and no memory is kept, by the node's own figures.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nigh/region.h"
#include "support/node_fixture.h"

#define WAIT_US   UINT64_C(60000000)
#define CHUNK     (UINT64_C(64) << 10)
#define MOST      4u /* chunks */
#define PROCESSES 6u
#define BOTH      (NIGH_REGION_READ | NIGH_REGION_WRITE)
#define NAME      "shared"

static struct node_fixture node;
static nigh_client *client;
static nigh_region *region;

static nigh_client *open_client(void)
{
    nigh_client_options options = {.struct_size = sizeof options, .socket_path = node.socket};
    nigh_client *opened = NULL;

    return nigh_client_open(&options, &opened) == NIGH_OK ? opened : NULL;
}

/* ---- a process ------------------------------------------------------------ */

struct life {
    uint64_t seed;
    uint32_t number;
};

/* The region was freed or cut meanwhile, or is just not there. */
static bool may_be(nigh_status status)
{
    return status == NIGH_OK || status == NIGH_STALE || status == NIGH_NOT_FOUND ||
           status == NIGH_INVALID || status == NIGH_BUSY;
}

/* A word of its own, by one way and the other. 0: all was as it is to be. */
static int use(nigh_region *own, uint8_t *at, const struct life *life, uint64_t *random)
{
    uint64_t offset = 8 * (life->number + PROCESSES * (support_random(random) % 512));
    uint64_t word = support_random(random), read = 0;
    nigh_status status;

    if (support_random(random) >> 20 & 1) {
        memcpy(at + offset, &word, sizeof word);
        status = nigh_region_read(own, offset, &read, sizeof read, WAIT_US);
    } else {
        status = nigh_region_write(own, offset, &word, sizeof word, WAIT_US);
        memcpy(&read, at + offset, sizeof read);
    }
    if (status == NIGH_OK && read != word)
        return 10;
    return may_be(status) ? 0 : 11;
}

/* One region, opened, mapped, used, and let go in some way. */
static int one_turn(nigh_client *own, const struct life *life, uint64_t *random)
{
    nigh_region *opened = NULL;
    void *at = NULL;
    nigh_status status = nigh_region_open(own, NAME, NIGH_REGION_ALL, WAIT_US, &opened);
    int code = 0;

    if (status != NIGH_OK)
        return may_be(status) ? 0 : 20;
    status = nigh_region_map(opened, 0, support_random(random) >> 20 & 1 ? CHUNK : 0, BOTH, WAIT_US,
                             &at);
    if (!may_be(status))
        return 21;
    for (uint32_t n = 0; status == NIGH_OK && n < 20 && code == 0; n++)
        code = use(opened, at, life, random);
    if (code == 0 && at != NULL && support_random(random) >> 20 & 1) {
        status = nigh_region_unmap(opened, at);
        if (status != NIGH_OK && status != NIGH_STALE)
            return 22;
    }
    if ((support_random(random) >> 20 & 3) != 0)
        nigh_region_close(opened);
    return code;
}

static int live(void *arg)
{
    const struct life *life = arg;
    uint64_t random = life->seed | 1;
    uint32_t turns = (uint32_t)(support_random(&random) >> 20) % 40;
    nigh_client *own = open_client();
    int code = own == NULL ? 30 : 0;

    for (uint32_t n = 0; n < turns && code == 0; n++)
        code = one_turn(own, life, &random);
    if (code == 0 && support_random(&random) >> 20 & 1)
        nigh_client_close(own);
    return code;
}

/* ---- all of them ---------------------------------------------------------- */

static nigh_node_stats stats(void)
{
    nigh_node_stats now = {.struct_size = sizeof now};

    assert_int_equal(nigh_stats(client, &now), NIGH_OK);
    return now;
}

static void make_region(void)
{
    nigh_region_spec spec = {.struct_size = sizeof spec,
                             .name = NAME,
                             .size = MOST * CHUNK,
                             .chunk_size = CHUNK,
                             .flags = NIGH_REGION_MAPPABLE};
    nigh_status status;

    /* Memory that processes keep may be all that there is, until they go. */
    assert_true(SUPPORT_WAIT((status = nigh_region_create(client, &spec, WAIT_US, &region)) !=
                                 NIGH_OUT_OF_MEMORY,
                             60000));
    assert_int_equal(status, NIGH_OK);
}

static void change_region(uint64_t random)
{
    if (random % 3 == 0) {
        assert_int_equal(nigh_region_free(region, WAIT_US), NIGH_OK);
        nigh_region_close(region);
        make_region();
    } else {
        nigh_status status = nigh_region_resize(region, (2 + random % (MOST - 1)) * CHUNK,
                                                NIGH_REGION_LOCAL, 0, WAIT_US);

        assert_true(status == NIGH_OK || status == NIGH_OUT_OF_MEMORY || status == NIGH_BUSY);
    }
}

static void end(pid_t child, bool kills)
{
    int code;

    if (kills)
        (void)kill(child, SIGKILL);
    code = support_join(child, 120000);
    if (code != 0 && !(kills && code == -SIGKILL))
        fail_msg("a process ended with %d", code);
}

static void mappers_come_and_go_and_leave_nothing(void **state)
{
    const char *const flags[] = {"--region-memory", "8M", NULL};
    uint64_t random = support_seed() | 1;
    uint64_t end_us, most_maps = 0, most_kept = 0, steps = 0, kills = 0;
    struct life lives[PROCESSES];
    pid_t children[PROCESSES] = {0};

    (void)state;
    node_fixture_start(&node, "64M", flags);
    client = open_client();
    assert_non_null(client);
    make_region();
    end_us = support_now_us() + support_budget_ms(3000) * 1000;
    for (; support_now_us() < end_us || steps < 60; steps++) {
        uint32_t n = (uint32_t)(support_random(&random) >> 20) % PROCESSES;
        bool is_killed = support_random(&random) >> 20 & 1;
        nigh_node_stats now;

        if (children[n] != 0)
            end(children[n], is_killed);
        kills += children[n] != 0 && is_killed;
        lives[n] = (struct life){.seed = support_random(&random), .number = n};
        children[n] = support_fork(live, &lives[n]);
        if (support_random(&random) >> 20 & 1)
            change_region(support_random(&random) >> 20);
        now = stats();
        most_maps = now.region_maps > most_maps ? now.region_maps : most_maps;
        most_kept = now.region_kept_bytes > most_kept ? now.region_kept_bytes : most_kept;
    }
    for (uint32_t n = 0; n < PROCESSES; n++) {
        if (children[n] != 0)
            end(children[n], true);
    }
    assert_true(SUPPORT_WAIT(stats().region_maps == 0, 60000));
    assert_int_equal(stats().region_kept_bytes, 0);
    assert_int_equal(nigh_region_free(region, WAIT_US), NIGH_OK);
    nigh_region_close(region);
    assert_true(SUPPORT_WAIT(stats().region_memory_bytes == 0, 60000));
    print_message("# %llu steps, %llu kills, at most %llu maps and %llu bytes kept\n",
                  (unsigned long long)steps, (unsigned long long)kills,
                  (unsigned long long)most_maps, (unsigned long long)most_kept);
    nigh_client_close(client);
    node_fixture_stop(&node);
}

/* ---- others --------------------------------------------------------------- */

/* A child has nothing of what its parent has mapped, and takes nothing of it away. */
static int child_of_a_mapper(void *at)
{
    if (nigh_region_unmap(region, at) != NIGH_FORKED)
        return 1;
    nigh_client_close(client);
    return 0;
}

static void a_child_leaves_its_parents_maps(void **state)
{
    void *at = NULL;
    uint64_t word = 77, read = 0;

    (void)state;
    node_fixture_start(&node, "64M", NULL);
    client = open_client();
    assert_non_null(client);
    make_region();
    assert_int_equal(nigh_region_map(region, 0, 0, BOTH, WAIT_US, &at), NIGH_OK);
    assert_int_equal(support_join(support_fork(child_of_a_mapper, at), 60000), 0);
    memcpy(at, &word, sizeof word);
    assert_int_equal(nigh_region_read(region, 0, &read, sizeof read, WAIT_US), NIGH_OK);
    assert_int_equal(read, 77);
    assert_int_equal(nigh_region_unmap(region, at), NIGH_OK);
    nigh_client_close(client);
    node_fixture_stop(&node);
}

/* Each mappable chunk takes a descriptor of its node: of these it keeps some for others. */
static void files_of_a_node_have_a_bound(void **state)
{
    enum {
        MANY = 1024 / NIGH_REGION_CHUNKS
    };
    const char *const flags[] = {"--region-memory", "16M", NULL};
    nigh_region *many[MANY + 1] = {NULL}, *plain = NULL;
    char name[8];
    nigh_region_spec spec = {.struct_size = sizeof spec,
                             .name = name,
                             .size = UINT64_C(4096) * NIGH_REGION_CHUNKS,
                             .chunk_size = 4096,
                             .flags = NIGH_REGION_MAPPABLE};
    nigh_status status;

    (void)state;
    node_fixture_start(&node, "64M", flags);
    client = open_client();
    assert_non_null(client);
    for (uint32_t n = 0; n <= MANY; n++) {
        (void)snprintf(name, sizeof name, "r%u", n);
        status = nigh_region_create(client, &spec, WAIT_US, &many[n]);
        assert_int_equal(status, n < MANY ? NIGH_OK : NIGH_LIMIT);
    }
    spec.flags = 0;
    assert_int_equal(nigh_region_create(client, &spec, WAIT_US, &plain), NIGH_OK);
    assert_int_equal(nigh_region_free(plain, WAIT_US), NIGH_OK);
    assert_int_equal(nigh_region_free(many[0], WAIT_US), NIGH_OK);
    spec.flags = NIGH_REGION_MAPPABLE;
    assert_true(SUPPORT_WAIT(/* the others go in a moment */
                             (status = nigh_region_create(client, &spec, WAIT_US, &many[MANY])) !=
                                 NIGH_LIMIT,
                             60000));
    assert_int_equal(status, NIGH_OK);
    nigh_client_close(client);
    node_fixture_stop(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mappers_come_and_go_and_leave_nothing),
        cmocka_unit_test(a_child_leaves_its_parents_maps),
        cmocka_unit_test(files_of_a_node_have_a_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
