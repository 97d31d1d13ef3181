/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This rank's node, embedded, and a client of it: it has objects for every other rank, and gets
 * theirs for it. Every pair of ranks has objects of its own, so that nobody gets from somebody's
 * copy. Originals are pinned, so that an eviction takes the copies alone.
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cluster.h"
#include "nigh/node.h"

#define SPARE_BYTES    (UINT64_C(64) << 20)
#define MIB_MASK       ((UINT64_C(1) << 20) - 1)
#define EVICT_ROUNDS   64
#define START_ATTEMPTS 5
#define JOIN_PAUSE_NS  2000000
#define JOIN_S         30
#define DELETE_BATCH   64

struct puller {
    nigh_node *node;
    nigh_client *client;
    uint64_t memory_bytes, timeout_us;
    uint32_t transfer;
    nigh_node_stats looked; /* what the node had counted, at the last look */
    uint64_t gets;          /* since then */
};

/* ---- start ---------------------------------------------------------------- */

uint64_t puller_memory_bytes(const struct workload *workloads, uint32_t count)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t others = (uint64_t)ranks.count - 1;
        uint64_t held = others * workloads[i].objects * workloads[i].bytes;
        uint64_t bytes = 2 * held / 4 * 5 + 2 * workloads[i].bytes; /* originals and copies */

        most = bytes > most ? bytes : most;
    }
    return (most + SPARE_BYTES + MIB_MASK) & ~MIB_MASK;
}

/* Without a name: the loopback when all ranks are on one machine, else the first other one. */
static bool is_wanted(const struct ifaddrs *one, const char *name)
{
    bool loops = (one->ifa_flags & IFF_LOOPBACK) != 0;

    if (one->ifa_addr == NULL || one->ifa_addr->sa_family != AF_INET ||
        (one->ifa_flags & IFF_UP) == 0) {
        return false;
    }
    return name != NULL ? strcmp(one->ifa_name, name) == 0 : loops == (ranks.machines == 1);
}

static bool find_address(const char *name, struct sockaddr_in *address)
{
    struct ifaddrs *all = NULL;
    bool found = false;

    if (getifaddrs(&all) != 0) {
        return false;
    }
    for (struct ifaddrs *one = all; one != NULL && !found; one = one->ifa_next) {
        if (is_wanted(one, name)) {
            memcpy(address, one->ifa_addr, sizeof *address);
            found = true;
        }
    }
    freeifaddrs(all);
    return found;
}

/* Of several, as "eth0,eth1", the rank's own: they are taken in turn. NULL: none was named. */
static const char *interface_of_rank(const char *list, char name[CLUSTER_TEXT_BYTES])
{
    const char *at = list;
    int count = 1;

    if (list == NULL) {
        return NULL;
    }
    for (const char *comma = strchr(list, ','); comma != NULL; comma = strchr(comma + 1, ',')) {
        count++;
    }
    for (int i = 0; i < ranks.rank % count; i++) {
        at = strchr(at, ',') + 1;
    }
    snprintf(name, CLUSTER_TEXT_BYTES, "%.*s", (int)strcspn(at, ","), at);
    return name;
}

/* An address with a port that nobody has while the returned descriptor is open; -1: said why. */
static int reserve(const char *interface, char text[CLUSTER_TEXT_BYTES])
{
    struct sockaddr_in address = {0};
    socklen_t bytes = sizeof address;
    char host[INET_ADDRSTRLEN];
    int fd;

    if (!find_address(interface, &address)) {
        fprintf(stderr, "bench-cluster: rank %d on %s: %s%s has no IPv4 address that is up\n",
                ranks.rank, ranks.host, interface != NULL ? "interface " : "no interface",
                interface != NULL ? interface : " of the right kind");
        return -1;
    }
    address.sin_port = 0;
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        ranks_fail("no free port");
    }
    inet_ntop(AF_INET, &address.sin_addr, host, sizeof host);
    snprintf(text, CLUSTER_TEXT_BYTES, "%s:%d", host, ntohs(address.sin_port));
    return fd;
}

static char *join(char (*addresses)[CLUSTER_TEXT_BYTES])
{
    size_t bytes = (size_t)ranks.count * CLUSTER_TEXT_BYTES, at = 0;
    char *list = malloc(bytes);

    if (list == NULL) {
        ranks_fail("no memory");
    }
    for (int i = 0; i < ranks.count; i++) {
        at += (size_t)snprintf(list + at, bytes - at, "%s%s", i == 0 ? "" : ",", addresses[i]);
    }
    return list;
}

/* Every rank's failure ends all of them, in order: none waits for one that does not come. */
static void agree_or_end(struct puller *puller, bool yes, const char *what)
{
    if (!ranks_agree(yes, what)) {
        nigh_client_close(puller->client);
        nigh_node_stop(puller->node);
        free(puller);
        ranks_end();
        exit(1);
    }
}

static nigh_status start_node(struct puller *puller, const struct flags *flags, const char *members,
                              const uint8_t *key)
{
    char member[16];
    nigh_node_options options = {
        .struct_size = sizeof options,
        .memory_bytes = puller->memory_bytes,
        .lanes = flags->lanes,
        .spin_us = flags->spin_us,
        .members = members,
        .member = member,
        .cluster_key = key,
        .transfer_path = flags->transfer,
        .fabric = flags->fabric,
    };

    snprintf(member, sizeof member, "%d", ranks.rank);
    return nigh_node_start(&options, &puller->node);
}

/* One attempt of all ranks at ports that were free a moment ago. Only a port that somebody took
 * meanwhile is worth another. */
static bool attempt(struct puller *puller, const struct flags *flags, const uint8_t *key, bool last)
{
    char(*addresses)[CLUSTER_TEXT_BYTES] = calloc((size_t)ranks.count, sizeof *addresses);
    char address[CLUSTER_TEXT_BYTES] = "", name[CLUSTER_TEXT_BYTES], *members;
    int fd = reserve(interface_of_rank(flags->interface, name), address);
    nigh_status status;

    if (addresses == NULL) {
        ranks_fail("no memory");
    }
    agree_or_end(puller, fd >= 0, "addresses");
    ranks_gather_text(address, addresses);
    members = join(addresses);
    close(fd);
    status = start_node(puller, flags, members, key);
    if (status != NIGH_OK && (status != NIGH_BUSY || last)) {
        fprintf(stderr, "bench-cluster: rank %d on %s: its node does not start: %s\n", ranks.rank,
                ranks.host, nigh_node_start_error());
    }
    agree_or_end(puller, status == NIGH_OK || (status == NIGH_BUSY && !last), "nodes that start");
    free(members);
    free(addresses);
    if (ranks_agree(status == NIGH_OK, "nodes that start")) {
        return true;
    }
    nigh_node_stop(puller->node);
    puller->node = NULL;
    return false;
}

/* The first node that is not up; NULL: all are. */
static const nigh_node_info *missing(struct puller *puller, nigh_node_info *nodes)
{
    size_t count = 0;

    nodes[0].struct_size = sizeof nodes[0];
    bench_check(nigh_nodes(puller->client, nodes, (size_t)ranks.count, &count), "nodes");
    for (size_t i = 0; i < count; i++) {
        if (nodes[i].is_self == 0 && nodes[i].state != NIGH_NODE_IS_UP) {
            return &nodes[i];
        }
    }
    return NULL;
}

static void meet_others(struct puller *puller)
{
    nigh_node_info *nodes = calloc((size_t)ranks.count, sizeof *nodes);
    uint64_t deadline = bench_now_ns() + JOIN_S * UINT64_C(1000000000);
    struct timespec pause = {.tv_nsec = JOIN_PAUSE_NS};
    const nigh_node_info *away;

    if (nodes == NULL) {
        ranks_fail("no memory");
    }
    while ((away = missing(puller, nodes)) != NULL && bench_now_ns() < deadline) {
        nanosleep(&pause, NULL);
    }
    if (away != NULL) {
        fprintf(stderr, "bench-cluster: rank %d on %s: did not reach rank %u at %s within %d s\n",
                ranks.rank, ranks.host, away->rank, away->address, JOIN_S);
    }
    agree_or_end(puller, away == NULL, "nodes that find each other");
    free(nodes);
}

struct puller *puller_start(const struct flags *flags, uint64_t memory_bytes)
{
    struct puller *puller = calloc(1, sizeof *puller);
    nigh_client_options client = {
        .struct_size = sizeof client, .name = "bench", .spin_us = flags->spin_us};
    uint8_t key[CLUSTER_KEY_BYTES] = {0};

    if (puller == NULL) {
        ranks_fail("no memory");
    }
    puller->memory_bytes = memory_bytes;
    puller->transfer = flags->transfer;
    puller->timeout_us = flags->timeout_s * UINT64_C(1000000);
    if (ranks.rank == 0 && getrandom(key, sizeof key, 0) != (ssize_t)sizeof key) {
        ranks_fail("the system gives no random bytes for a cluster key");
    }
    ranks_share(key, sizeof key);
    for (int i = 1; !attempt(puller, flags, key, i == START_ATTEMPTS); i++) {
    }
    bench_check(nigh_node_client(puller->node, &client, &puller->client), "client of a node");
    meet_others(puller);
    return puller;
}

void puller_stop(struct puller *puller)
{
    ranks_meet("nodes that stop");
    nigh_client_close(puller->client);
    nigh_node_stop(puller->node);
    free(puller);
}

/* ---- objects -------------------------------------------------------------- */

static uint64_t number_of(int holder, int getter, uint32_t object)
{
    return (uint64_t)holder << 40 | (uint64_t)getter << 16 | object;
}

/* Word `at` of an object. */
static uint64_t word_of(uint64_t number, uint64_t at)
{
    return (number + 1) * UINT64_C(0x9e3779b97f4a7c15) + at * UINT64_C(0xbf58476d1ce4e5b9);
}

static void fill(uint8_t *bytes, uint64_t size, uint64_t number)
{
    for (uint64_t at = 0; at * 8 < size; at++) {
        uint64_t word = word_of(number, at);

        memcpy(bytes + at * 8, &word, size - at * 8 < 8 ? size - at * 8 : 8);
    }
}

static bool is_right(const uint8_t *bytes, uint64_t size, uint64_t number, uint64_t at)
{
    uint64_t word = word_of(number, at);

    return memcmp(bytes + at * 8, &word, size - at * 8 < 8 ? size - at * 8 : 8) == 0;
}

/* The first and the last word, or all. */
static void check(struct puller *puller, const struct workload *workload, const nigh_view *view,
                  uint64_t number, bool whole)
{
    const uint8_t *bytes = view->data;
    uint64_t size = workload->bytes, last = (size - 1) / 8;
    bool right = view->data_size == size;

    for (uint64_t at = 0; right && at <= last; at = at == 0 && !whole && last > 0 ? last : at + 1) {
        right = is_right(bytes, size, number, at);
    }
    if (!right) {
        ranks_fail("a get of %s brought something else than was put", workload->label);
    }
    puller->gets++;
}

static void expect(struct puller *puller, nigh_status status, const char *what,
                   const struct workload *workload)
{
    char why[256] = "";

    if (status != NIGH_OK) {
        nigh_client_error(puller->client, why, sizeof why);
        ranks_fail("%s of %s: %s %s", what, workload->label, nigh_status_name(status), why);
    }
}

void puller_fill(struct puller *puller, const struct workload *workload)
{
    for (int getter = 0; getter < ranks.count; getter++) {
        for (uint32_t i = 0; getter != ranks.rank && i < workload->objects; i++) {
            nigh_create_options options = {.data_size = workload->bytes,
                                           .timeout_us = puller->timeout_us};
            uint64_t number = number_of(ranks.rank, getter, i);
            nigh_id id = bench_id(number);
            nigh_writer writer;

            expect(puller, nigh_create(puller->client, &id, &options, &writer), "create", workload);
            fill(writer.data, workload->bytes, number);
            expect(puller, nigh_seal(puller->client, &writer), "seal", workload);
            expect(puller, nigh_pin(puller->client, &id), "pin", workload);
        }
    }
    ranks_meet("objects that are put");
}

void puller_drop(struct puller *puller, const struct workload *workload)
{
    nigh_id ids[DELETE_BATCH];

    ranks_meet("the end of a size");
    for (int getter = 0; getter < ranks.count; getter++) {
        uint32_t count = 0;

        for (uint32_t i = 0; getter != ranks.rank && i < workload->objects; i++) {
            ids[count] = bench_id(number_of(ranks.rank, getter, i));
            expect(puller, nigh_unpin(puller->client, &ids[count++]), "unpin", workload);
            if (count == DELETE_BATCH || i + 1 == workload->objects) {
                expect(puller, nigh_delete(puller->client, ids, count, NULL), "delete", workload);
                count = 0;
            }
        }
    }
    ranks_meet("objects that are deleted");
}

void puller_forget(struct puller *puller)
{
    uint64_t freed = 1;

    for (int i = 0; freed > 0 && i < EVICT_ROUNDS; i++) {
        bench_check(nigh_evict(puller->client, puller->memory_bytes, &freed), "evict");
    }
    if (freed > 0) {
        ranks_fail("copies do not leave");
    }
}

void puller_expect_pulls(struct puller *puller, const struct workload *workload)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    bench_check(nigh_stats(puller->client, &stats), "stats");
    if (stats.pulls - puller->looked.pulls != puller->gets) {
        ranks_fail("of %llu gets %llu came from another node", (unsigned long long)puller->gets,
                   (unsigned long long)(stats.pulls - puller->looked.pulls));
    }
    bench_check_transfer(&puller->looked, &stats, puller->transfer, workload->bytes);
    puller->looked = stats;
    puller->gets = 0;
}

/* ---- gets ----------------------------------------------------------------- */

void puller_ping(struct puller *puller, const struct workload *workload, int holder, uint32_t count,
                 bool whole, struct samples *samples)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t number = number_of(holder, ranks.rank, i), start;
        nigh_id id = bench_id(number);
        nigh_status status;
        nigh_view view;

        start = bench_now_ns();
        status = nigh_get(puller->client, &id, 1, puller->timeout_us, &view);
        samples_add(samples, (double)(bench_now_ns() - start));
        expect(puller, status, "get", workload);
        check(puller, workload, &view, number, whole);
        nigh_release(puller->client, &view);
    }
}

/* A get under way. */
struct slot {
    nigh_op op;
    nigh_id id;
    nigh_view view;
    uint64_t number;
};

static void end(struct puller *puller, const struct workload *workload, struct slot *slot,
                bool whole)
{
    nigh_status status = nigh_wait(puller->client, &slot->op, puller->timeout_us);

    expect(puller, status, "get", workload);
    check(puller, workload, &slot->view, slot->number, whole);
    nigh_release(puller->client, &slot->view);
}

/* From each holder in turn, so that all are busy at once. */
void puller_pull(struct puller *puller, const struct workload *workload, const int *holders,
                 int holder_count, bool whole, struct samples *samples)
{
    static struct slot slots[CLUSTER_MAX_WINDOW];
    uint32_t count = workload->objects * (uint32_t)holder_count, window = workload->window;
    uint64_t start = bench_now_ns();

    for (uint32_t i = 0; i < count + window; i++) {
        struct slot *slot = &slots[i % window];

        if (i >= window && i - window < count) {
            end(puller, workload, slot, whole);
        }
        if (i < count) {
            slot->number = number_of(holders[i % (uint32_t)holder_count], ranks.rank,
                                     i / (uint32_t)holder_count);
            slot->id = bench_id(slot->number);
            expect(puller,
                   nigh_get_start(puller->client, &slot->id, 1, puller->timeout_us, &slot->view,
                                  &slot->op),
                   "get", workload);
        }
    }
    if (count > 0) {
        samples_add(samples, (double)(bench_now_ns() - start) / count);
    }
}
