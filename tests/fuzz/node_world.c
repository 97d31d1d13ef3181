/* SPDX-License-Identifier: Apache-2.0 */
/* See node_world.h. */
#include "node_world.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "memory/index.h"
#include "memory/session.h"
#include "memory/session_space.h"
#include "node/front_internal.h"
#include "node/lane_spaces.h"
#include "node/node_internal.h"

#ifndef SO_PEERPIDFD /* Linux 6.5 */
#define SO_PEERPIDFD 77
#endif

#define WORLD_POOLS        6u
#define WORLD_MEMORY_BYTES (UINT64_C(16) << 20)
#define WORLD_OBJECTS      256u
#define WORLD_SESSIONS     (WORLD_POOLS + 8)
#define WORLD_QUOTA_BYTES  (UINT64_C(6) << 20)
#define WORLD_SPACE_BYTES  (UINT64_C(4) << 20)
#define WORLD_BACKLOG      256

/* Turns in which everything that is not a queue of connections must come to rest: messages of all
 * sockets, mail, deadlines, graves. */
#define SETTLE_TURNS       4096u
#define SETTLE_TIME_US     1000u
#define CLOSED_US          UINT64_C(10000000) /* what a thread closes in its own time is, by then */
#define GUARD_BATCH        64u
#define GUARD_COOKIE       4711u
#define GUARD_ANSWER_US    100000u
#define EXTENTS_LEFT_LEAST (LIMIT_EXTENTS / WORLD_LANES / 4)

/* ---- who a peer is -------------------------------------------------------- */

/* What a client's socket is called, for the node's side to find who connected. */
struct world_name {
    uint32_t magic;
    uint32_t serial;
    struct world_peer peer;
};

#define NAME_MAGIC UINT32_C(0x6e616d65)
#define NAME_BYTES (offsetof(struct sockaddr_un, sun_path) + 1 + sizeof(struct world_name))

typedef int getsockopt_function(int fd, int level, int option, void *restrict value,
                                socklen_t *restrict value_bytes);

getsockopt_function __real_getsockopt, __wrap_getsockopt;

static bool world_find_peer(int fd, struct world_peer *peer)
{
    struct sockaddr_un address;
    socklen_t bytes = sizeof(address);
    struct world_name name;

    if (getpeername(fd, (struct sockaddr *)&address, &bytes) != 0 || bytes != NAME_BYTES)
        return false;
    memcpy(&name, address.sun_path + 1, sizeof(name));
    *peer = name.peer;
    return name.magic == NAME_MAGIC;
}

/* The kernel's answers about a peer, but for whom and whether it lives. */
int __wrap_getsockopt(int fd, int level, int option, void *restrict value,
                      socklen_t *restrict value_bytes)
{
    int result = __real_getsockopt(fd, level, option, value, value_bytes);
    struct world_peer peer;

    if (level != SOL_SOCKET || (option != SO_PEERCRED && option != SO_PEERPIDFD) ||
        !world_find_peer(fd, &peer))
        return result;
    if (option == SO_PEERCRED) {
        struct ucred credentials = {.pid = peer.pid, .uid = peer.uid, .gid = peer.uid};

        NIGH_ASSERT(result == 0);
        memcpy(value, &credentials, sizeof(credentials));
        return 0;
    }
    if (result == 0)
        fd_close(value);
    NIGH_ASSERT(peer.life_fd >= 0); /* the node does not ask for its own process */
    *(int *)value = fcntl(peer.life_fd, F_DUPFD_CLOEXEC, 0);
    return *(int *)value >= 0 ? 0 : -1;
}

/* ---- the node ------------------------------------------------------------- */

/* A client that behaves: one a pool. */
struct world_guard {
    int fd;
    uint32_t slot;
    void *memory;
    uint64_t memory_bytes;
    void *index_memory[WORLD_LANES];
    uint64_t index_bytes[WORLD_LANES];
    struct index index[WORLD_LANES];
    uint32_t tail[WORLD_LANES];
};

struct world {
    nigh_node *node;
    struct keeper keeper;
    int kept_fd; /* where the keeper would read */
    struct sockaddr_un address;
    socklen_t address_bytes;
    uint32_t serial;
    uint32_t connects; /* since the last settling */
    size_t descriptors;
    struct world_guard guards[WORLD_POOLS];
};

static uint64_t world_now_us;

static uint64_t world_clock(struct clock *clock)
{
    (void)clock;
    return world_now_us;
}

void world_pass(struct world *world, uint64_t time_us)
{
    (void)world;
    world_now_us += time_us;
}

/* The keeper reads, and keeps nothing: descriptors that nobody asks for are closed. */
static void world_read_kept(struct world *world)
{
    char bytes[256];

    while (recv(world->kept_fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
}

bool world_turn(struct world *world, uint32_t lane)
{
    bool worked;

    lane_poll(world->node->lanes[lane]);
    worked = lane_turn(world->node->lanes[lane], ++world_now_us);
    world_read_kept(world);
    return worked;
}

static bool world_turn_all(struct world *world)
{
    bool worked = false;

    for (uint32_t i = 0; i < WORLD_LANES; i++)
        worked |= world_turn(world, i);
    return worked;
}

static nigh_status world_start(struct world *world)
{
    const nigh_pool_options pools[] = {
        {.name = WORLD_POOL_OPEN, .owner_uid = WORLD_UID_A, .group_gid = WORLD_UID_A, .mode = 0666},
        {.name = WORLD_POOL_STRICT,
         .owner_uid = WORLD_UID_A,
         .group_gid = WORLD_UID_A,
         .mode = 0666,
         .strict = 1},
        {.name = WORLD_POOL_READ, .owner_uid = WORLD_UID_A, .group_gid = WORLD_UID_A, .mode = 0644},
    };
    nigh_node_options options = {.struct_size = sizeof(options),
                                 .memory_bytes = WORLD_MEMORY_BYTES,
                                 .extent_bytes = WORLD_EXTENT_BYTES,
                                 .max_objects = WORLD_OBJECTS,
                                 .lanes = WORLD_LANES,
                                 .max_sessions = WORLD_SESSIONS,
                                 .max_pins = 64,
                                 .session_quota_bytes = WORLD_QUOTA_BYTES,
                                 .huge_pages = EXTENT_HUGE_NEVER,
                                 .space_memory_bytes = WORLD_SPACE_BYTES,
                                 .pools = pools,
                                 .pool_count = ARRAY_LENGTH(pools)};
    struct node_settings *settings = calloc(1, sizeof(*settings));
    char why[NODE_WHY_BYTES];
    nigh_status status;

    NIGH_ASSERT(settings != NULL);
    status = settings_resolve(&options, 1, settings, why, sizeof(why));
    if (status == NIGH_OK)
        status = node_start(settings, &world->keeper, &world->node, why, sizeof(why));
    free(settings);
    return status;
}

static void world_start_keeper(struct world *world)
{
    int pair[2];

    /* Not datagrams: their queue would be ten long. */
    NIGH_ASSERT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    world->keeper.socket_fd = pair[0];
    world->kept_fd = pair[1];
}

/* The listening socket, under a name that leaves nothing in the file system. */
static void world_listen(struct world *world)
{
    struct front *front = &world->node->front;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    world->address.sun_family = AF_UNIX;
    NIGH_ASSERT(fd >= 0 && bind(fd, (const struct sockaddr *)&world->address,
                                sizeof(world->address.sun_family)) == 0);
    world->address_bytes = sizeof(world->address);
    NIGH_ASSERT(getsockname(fd, (struct sockaddr *)&world->address, &world->address_bytes) == 0);
    NIGH_ASSERT(listen(fd, WORLD_BACKLOG) == 0);
    NIGH_ASSERT(lane_watch(world->node->lanes[0], fd, EPOLLIN, front_data(FRONT_LISTEN, 0)) ==
                NIGH_OK);
    front->listen_fd = fd;
}

/* ---- connections ---------------------------------------------------------- */

static void world_bind(struct world *world, int fd, const struct world_peer *peer)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct world_name name;

    memset(&name, 0, sizeof(name));
    name.magic = NAME_MAGIC;
    name.serial = ++world->serial;
    name.peer = *peer;
    memcpy(address.sun_path + 1, &name, sizeof(name));
    NIGH_ASSERT(bind(fd, (const struct sockaddr *)&address, NAME_BYTES) == 0);
}

static int world_connect_door(struct world *world, const struct world_peer *peer)
{
    int pair[2];

    NIGH_ASSERT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    world_bind(world, pair[1], peer);
    if (front_attach(world->node->door_fd, pair[0]) != NIGH_OK) {
        fd_close(&pair[0]);
        fd_close(&pair[1]);
        return -1;
    }
    return pair[1];
}

int world_connect(struct world *world, const struct world_peer *peer, bool through_door)
{
    int fd;

    world->connects++;
    if (through_door)
        return world_connect_door(world, peer);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    NIGH_ASSERT(fd >= 0);
    world_bind(world, fd, peer);
    if (connect(fd, (const struct sockaddr *)&world->address, world->address_bytes) != 0) {
        NIGH_ASSERT(errno == EAGAIN);
        fd_close(&fd);
    }
    return fd;
}

bool world_may_grant(const struct world *world, uint32_t extent, const char *pool, uint32_t uid,
                     bool writable)
{
    const struct pool *owner_pool = pools_find(&world->node->pools, pool);
    uint64_t owner;

    if (owner_pool == NULL || extent >= LIMIT_EXTENTS)
        return false;
    owner = atomic_load(&world->node->extents->extents[extent].owner);
    if (owner == EXTENT_NO_OWNER)
        return true;
    return writable ? owner == extent_owner(owner_pool->number, uid)
                    : owner >> 32 == (uint64_t)owner_pool->number + 1;
}

bool world_may_read_space(const struct world *world, int fd, uint32_t uid)
{
    const struct lane_spaces *spaces = world->node->lanes[0]->spaces;
    struct stat like, its;

    NIGH_ASSERT(fstat(fd, &like) == 0);
    LIST_FOREACH(node, &spaces->here)
    {
        const struct space_here *here = container_of(node, struct space_here, link);

        for (uint32_t n = 0; n < ARRAY_LENGTH(here->pieces); n++) {
            const struct region_memory *memory = here->pieces[n].memory;
            const struct space_info *info;

            if (memory == NULL || fstat(memory->fd, &its) != 0 || its.st_ino != like.st_ino)
                continue;
            if (here->is_deleted || here->is_forgotten)
                return true;
            info = space_registry_info(spaces->registry, here->place);
            return uid == 0 || uid == info->uid || (info->mode >> 2 & SESSION_SPACE_READ) != 0 ||
                   (uid == info->gid && (info->mode & SESSION_SPACE_READ) != 0);
        }
    }
    return true;
}

/* ---- guards --------------------------------------------------------------- */

static void guard_map(struct world_guard *guard, const struct session_welcome *welcome,
                      const int *fds)
{
    guard->slot = welcome->slot;
    NIGH_ASSERT((welcome->rights & SESSION_HAS_PLACES) != 0);
    guard->memory_bytes = session_file_bytes(WORLD_LANES);
    guard->memory = mmap(NULL, guard->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    NIGH_ASSERT(guard->memory != MAP_FAILED);
    for (uint32_t i = 0; i < WORLD_LANES; i++) {
        off_t bytes = lseek(fds[2 + 2 * i], 0, SEEK_END);

        NIGH_ASSERT(bytes > 0);
        guard->index_bytes[i] = (uint64_t)bytes;
        guard->index_memory[i] =
            mmap(NULL, guard->index_bytes[i], PROT_READ, MAP_SHARED, fds[2 + 2 * i], 0);
        NIGH_ASSERT(guard->index_memory[i] != MAP_FAILED);
        NIGH_ASSERT(index_attach(guard->index_memory[i], guard->index_bytes[i], &guard->index[i]) ==
                    NIGH_OK);
    }
}

/* May do everything: root, in the node's own process. */
static void guard_open(struct world *world, struct world_guard *guard, const char *pool)
{
    const struct world_peer peer = {.uid = 0, .pid = getpid(), .life_fd = -1};
    struct session_hello hello = {.header = {.magic = SESSION_MAGIC, .kind = SESSION_HELLO},
                                  .version_min = SESSION_VERSION_MIN,
                                  .version_max = SESSION_VERSION_MAX};
    struct session_welcome welcome = {0};
    int fds[LIMIT_SESSION_FDS];
    size_t size = 0, fd_count = 0;

    snprintf(hello.pool, sizeof(hello.pool), "%s", pool);
    guard->fd = world_connect(world, &peer, false);
    NIGH_ASSERT(guard->fd >= 0);
    NIGH_ASSERT(fd_send_message(guard->fd, &hello, sizeof(hello), NULL, 0) == NIGH_OK);
    while (fd_recv_message(guard->fd, &welcome, sizeof(welcome), &size, fds, LIMIT_SESSION_FDS,
                           &fd_count) == NIGH_BUSY)
        world_turn_all(world);
    NIGH_ASSERT(size == sizeof(welcome) && welcome.status == NIGH_OK);
    NIGH_ASSERT(fd_count == SESSION_WELCOME_FDS(WORLD_LANES));
    guard_map(guard, &welcome, fds);
    for (size_t i = 0; i < fd_count; i++)
        fd_close(&fds[i]);
}

static void guard_close(struct world_guard *guard)
{
    fd_close(&guard->fd);
    munmap(guard->memory, guard->memory_bytes);
    for (uint32_t i = 0; i < WORLD_LANES; i++)
        munmap(guard->index_memory[i], guard->index_bytes[i]);
    memset(guard, 0, sizeof(*guard));
}

static void guard_submit(struct world_guard *guard, uint32_t lane, const struct session_sqe *sqe)
{
    struct session_lane *ring = session_lane_of(guard->memory, lane);

    ring->sq[guard->tail[lane] % LIMIT_RING_ENTRIES] = *sqe;
    shared_store_release(&ring->sq_tail.value, ++guard->tail[lane]);
    shared_store_release(session_ready(ring, guard->slot), 1);
}

/* Of one that somebody who is gone makes still, or has begun to delete. */
static bool is_under_way(nigh_status status)
{
    return status == NIGH_BUSY || status == NIGH_NOT_FOUND;
}

/* Every answer, each of which must be good, unless what is asked for may be under way. */
static void guard_wait_for(struct world *world, struct world_guard *guard, uint32_t lane,
                           bool may_be_under_way)
{
    struct session_lane *ring = session_lane_of(guard->memory, lane);
    uint32_t head = shared_load_relaxed(&ring->cq_head.value);
    uint64_t until_us = world_now_us + GUARD_ANSWER_US;

    while (shared_load_acquire(&ring->cq_tail.value) != guard->tail[lane]) {
        NIGH_ASSERT(world_now_us < until_us);
        (void)world_turn(world, lane);
    }
    for (; head != guard->tail[lane]; head++) {
        const struct session_cqe *cqe = &ring->cq[head % LIMIT_RING_ENTRIES];

        NIGH_ASSERT(cqe->cookie == GUARD_COOKIE);
        NIGH_ASSERT(cqe->status == NIGH_OK || (may_be_under_way && is_under_way(cqe->status)));
    }
    shared_store_release(&ring->cq_head.value, head);
}

static void guard_wait(struct world *world, struct world_guard *guard, uint32_t lane)
{
    guard_wait_for(world, guard, lane, false);
}

/* Deletes every object of the pool in a lane; nobody else is there to hold one. */
static void guard_sweep(struct world *world, struct world_guard *guard, uint32_t lane)
{
    const struct index *index = &guard->index[lane];
    uint32_t used = shared_load_acquire(&index->header->entries_used);
    struct session_sqe sqe = {.op = SESSION_OP_NOP, .cookie = GUARD_COOKIE};
    uint32_t asked = 0;

    guard_submit(guard, lane, &sqe);
    for (uint32_t i = 0; i < used; i++) {
        struct index_glance glance;

        if (!index_glance_at(index, i, &glance) || index_word_state(glance.word) != INDEX_SEALED)
            continue;
        memcpy(sqe.id, glance.id, sizeof(sqe.id));
        sqe.op = SESSION_OP_UNKEEP;
        guard_submit(guard, lane, &sqe);
        sqe.op = SESSION_OP_DELETE;
        guard_submit(guard, lane, &sqe);
        if (++asked % GUARD_BATCH == 0)
            guard_wait(world, guard, lane);
    }
    guard_wait(world, guard, lane);
}

/* What is asked lies at the first place, and so does what is answered. */
static void guard_ask_space(struct world_guard *guard, enum session_space_what what,
                            uint64_t question_bytes)
{
    struct session_sqe sqe = {.op = SESSION_OP_SPACE,
                              .name_size = (uint8_t)what,
                              .cookie = GUARD_COOKIE,
                              .offset = SESSION_OWN_PLACE,
                              .data_size = question_bytes,
                              .argument = GUARD_ANSWER_US};

    guard_submit(guard, 0, &sqe);
}

/* Deletes every space, as far as that can be. */
static void guard_sweep_spaces(struct world *world, struct world_guard *guard)
{
    uint8_t *place = session_places_of(guard->memory, WORLD_LANES, 0);
    struct session_space_page page;

    guard_ask_space(guard, SESSION_SPACE_LIST, 0);
    guard_wait(world, guard, 0);
    memcpy(&page, place, sizeof(page));
    for (uint32_t n = 0; n < page.count; n++) {
        size_t bytes = strlen(page.spaces[n].name);

        memcpy(place, page.spaces[n].name, bytes);
        guard_ask_space(guard, SESSION_SPACE_DELETE, bytes);
        guard_wait_for(world, guard, 0, true);
    }
}

/* ---- coming to rest ------------------------------------------------------- */

/* But for those of numbers that memory left: each keeps two while its pool has sessions, as all
 * pools of the world have. */
static size_t world_count_descriptors(const struct world *world)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t count = 0;

    NIGH_ASSERT(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    for (uint32_t lane = 0; lane < WORLD_LANES; lane++)
        count -= 2 * (size_t)world->node->extents->lane[lane].dormant;
    return count;
}

static bool world_is_waited_for(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};

    return poll(&ready, 1, 0) == 1;
}

/* Memory is made and unmade by a thread, in its own time. */
static void world_sweep_spaces(struct world *world)
{
    for (;;) {
        nigh_node_stats stats = {0};

        lane_spaces_count(world->node->lanes[0], &stats);
        if (stats.spaces == 0 && stats.space_memory_bytes == 0)
            break;
        guard_sweep_spaces(world, &world->guards[0]);
        (void)world_turn_all(world);
        (void)sched_yield();
    }
}

/* Whether the front door has seen everybody off. */
static bool world_is_alone(const struct world *world)
{
    const struct front *front = &world->node->front;

    if (world->node->sessions.count != WORLD_POOLS)
        return false;
    for (uint32_t i = 0; i < LIMIT_FRONT_HALF_OPEN; i++) {
        if (front->halves[i].fd >= 0)
            return false;
    }
    return !world_is_waited_for(front->listen_fd) && !world_is_waited_for(front->attach_fd);
}

static bool world_is_empty(const struct world *world)
{
    nigh_node_stats stats = {0};

    for (uint32_t i = 0; i < WORLD_LANES; i++)
        store_stats(lane_store(world->node->lanes[i]), &stats);
    lane_spaces_count(world->node->lanes[0], &stats);
    return stats.space_windows == 0 && stats.space_waiting == 0 && stats.used_bytes == 0 &&
           stats.leased_bytes == 0 && stats.unsealed_bytes == 0 && stats.waiting == 0 &&
           stats.objects == 0 && stats.objects_unsealed == 0 && stats.objects_deleting == 0;
}

static void world_turn_until(struct world *world, bool (*done)(const struct world *world),
                             uint32_t turns)
{
    while (!done(world)) {
        NIGH_ASSERT(turns > 0);
        turns--;
        world_pass(world, SETTLE_TIME_US);
        (void)world_turn_all(world);
    }
}

void world_settle(struct world *world, int *life_fds, size_t n)
{
    uint64_t until_us;

    /* The door takes one connection a turn, and another says what a connection's hello comes to. */
    world_turn_until(world, world_is_alone, SETTLE_TURNS + 2 * world->connects);
    world->connects = 0;
    for (size_t i = 0; i < n; i++)
        fd_close(&life_fds[i]);
    for (uint32_t i = 0; i < WORLD_POOLS; i++) {
        for (uint32_t lane = 0; lane < WORLD_LANES; lane++)
            guard_sweep(world, &world->guards[i], lane);
    }
    world_sweep_spaces(world);
    world_turn_until(world, world_is_empty, SETTLE_TURNS);
    /* A thread unmakes them, in its own time. */
    while (bulk_memories_bytes(world->node->bulks) != 0) {
        (void)world_turn_all(world);
        (void)sched_yield();
    }
    for (uint32_t lane = 0; lane < WORLD_LANES; lane++)
        NIGH_ASSERT(store_is_valid(lane_store(world->node->lanes[lane])));
    /* What nobody takes is closed by a thread, in its own time, too. */
    until_us = clock_now_us(&clock_monotonic) + CLOSED_US;
    while (world_count_descriptors(world) != world->descriptors) {
        NIGH_ASSERT(clock_now_us(&clock_monotonic) < until_us);
        (void)sched_yield();
    }
}

/* ---- once ----------------------------------------------------------------- */

static void world_open(struct world *world)
{
    char own[3][LIMIT_POOL_NAME_BYTES + 1];
    struct world_peer peer = {.pid = getpid(), .life_fd = -1};
    const uint32_t uids[3] = {geteuid(), WORLD_UID_A, WORLD_UID_B};
    const char *pools[WORLD_POOLS] = {
        WORLD_POOL_OPEN, WORLD_POOL_STRICT, WORLD_POOL_READ, own[0], own[1], own[2]};

    clock_monotonic.now_us = world_clock;
    world_start_keeper(world);
    NIGH_ASSERT(world_start(world) == NIGH_OK);
    for (uint32_t i = 0; i < WORLD_LANES; i++)
        lane_stop(world->node->lanes[i]); /* from here on they are turned by hand */
    world_listen(world);
    /* A user's own pool is made at the first hello, and stays. */
    for (uint32_t i = 0; i < 3; i++) {
        struct session_hello hello = {.header = {.magic = SESSION_MAGIC, .kind = SESSION_HELLO},
                                      .version_min = SESSION_VERSION_MIN,
                                      .version_max = SESSION_VERSION_MAX};
        int fd;

        peer.uid = uids[i];
        pool_own_name(uids[i], own[i]);
        fd = world_connect(world, &peer, false);
        NIGH_ASSERT(fd_send_message(fd, &hello, sizeof(hello), NULL, 0) == NIGH_OK);
        while (pools_find(&world->node->pools, own[i]) == NULL)
            world_turn_all(world);
        fd_close(&fd);
    }
    for (uint32_t i = 0; i < WORLD_POOLS; i++)
        guard_open(world, &world->guards[i], pools[i]);
    world_turn_until(world, world_is_alone, SETTLE_TURNS);
}

static void world_close(struct world *world)
{
    for (uint32_t i = 0; i < WORLD_POOLS; i++)
        guard_close(&world->guards[i]);
    nigh_node_stop(world->node);
    fd_close(&world->keeper.socket_fd);
    fd_close(&world->kept_fd);
    memset(world, 0, sizeof(*world));
}

/* Numbers of extents are never used twice: a node lives for some thousand changes of hands. */
static bool world_is_worn(const struct world *world)
{
    for (uint32_t i = 0; i < WORLD_LANES; i++) {
        if (world->node->extents->lane[i].used > LIMIT_EXTENTS / WORLD_LANES - EXTENTS_LEFT_LEAST)
            return true;
    }
    return false;
}

struct world *world_get(void)
{
    static struct world world;
    static uint64_t (*machine_clock)(struct clock * clock);

    if (machine_clock == NULL) {
        machine_clock = clock_monotonic.now_us;
        world_now_us = clock_now_us(&clock_monotonic);
    }
    if (world.node != NULL && world_is_worn(&world)) {
        clock_monotonic.now_us = machine_clock;
        world_close(&world);
    }
    if (world.node == NULL)
        world_open(&world);
    /* Each time: the fuzzer opens some of its own between inputs. */
    world.descriptors = world_count_descriptors(&world);
    return &world;
}
