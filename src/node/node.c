/* SPDX-License-Identifier: Apache-2.0 */
/* See node.h and nigh/node.h. Puts the parts of a node together, in the order in which they need
 * each other, and takes them apart in the reverse. */
#include "node/node.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/random.h"
#include "memory/index.h"
#include "memory/memfd.h"
#include "node/descriptors.h"
#include "node/disk.h"
#include "node/incarnation.h"
#include "node/listen.h"
#include "node/node_internal.h"

#define LOG_MODULE "node"
#include "base/log.h"

/* Blocks of one lane's heaps: two for each object (itself and a gap beside it) and room for leases.
 */
#define NODE_BLOCKS_SPARE 65536u

/* Sessions whose memory must be available at start; that of more is asked for when they come. */
#define NODE_SESSIONS_FORESEEN 64u

/* Nodes of this process that listen, for its children to let go of. */
static _Atomic(struct nigh_node *) node_listening[LIMIT_NODES_A_PROCESS];
static pthread_once_t node_fork_once = PTHREAD_ONCE_INIT;

static _Thread_local char node_start_why[NODE_WHY_BYTES];

const char *nigh_node_start_error(void)
{
    return node_start_why;
}

/* ---- the parts ------------------------------------------------------------ */

static nigh_status node_make_page(struct nigh_node *node, char *why, size_t why_bytes)
{
    void *memory;
    nigh_status status;

    if (node->adopting)
        return node_adopt_page(node, why, why_bytes);
    status = memfd_create_sealed("nigh-node", sizeof(struct session_node_page), 0, &node->page_fd);
    if (status == NIGH_OK)
        status = memfd_reopen_read_only(node->page_fd, &node->page_read_fd);
    if (status == NIGH_OK)
        status = memfd_map(node->page_fd, sizeof(struct session_node_page),
                           MEMFD_WRITABLE | MEMFD_PREFAULT, &memory);
    if (status != NIGH_OK)
        return status;
    node->page = memory;
    node->page->magic = SESSION_MAGIC;
    node->page->lanes = node->settings.lanes;
    shared_store_relaxed(&node->page->incarnation, node->incarnation);
    return NIGH_OK;
}

/* What there is of it was made by now, here or by a former node. */
static void node_look_at_places(struct nigh_node *node)
{
    char far[BYTES_SIZE_TEXT];

    node->far_bytes = extent_set_far_bytes(node->extents);
    if (node->far_bytes == 0)
        return;
    bytes_format_size(node->far_bytes, far);
    LOG_WARN("memory lies on another NUMA node than its lane's RDMA device", "size=\"%s\"", far);
}

static nigh_status node_make_memory(struct nigh_node *node, char *why, size_t why_bytes)
{
    const struct node_settings *settings = &node->settings;
    int numa_nodes[LIMIT_LANES];
    nigh_status status;
    uint64_t sessions = min_u32(settings->max_sessions, NODE_SESSIONS_FORESEEN);
    struct extent_options options = {
        .memory_bytes = settings->memory_bytes,
        .extent_bytes = settings->extent_bytes,
        .besides_bytes = (settings->pool_count + 1) * pools_index_bytes(&node->pools) +
                         sessions * session_memory_bytes(settings->lanes),
        .lanes = settings->lanes,
        .huge = (enum extent_huge)settings->huge_pages,
        .numa_nodes = node->is_placed ? numa_nodes : NULL,
    };

    for (uint32_t i = 0; i < settings->lanes; i++)
        numa_nodes[i] = node->is_placed ? node->placements[i].numa_node : NUMA_NONE;
    if (!node->adopting)
        status = extent_set_create(&options, &node->extents, why, why_bytes);
    else
        status = node_adopt_memory(node, why, why_bytes);
    if (status != NIGH_OK || !node->is_placed)
        return status;
    extent_set_near(node->extents, numa_nodes);
    node_look_at_places(node);
    return NIGH_OK;
}

/* A pool that is declared: one of the former node's gets its rules, else it is made. */
static nigh_status node_make_pool(struct nigh_node *node, const struct pool_rules *rules,
                                  bool declared)
{
    struct pool *pool = pools_find(&node->pools, rules->name);

    if (pool == NULL)
        return pools_add(&node->pools, rules, &pool);
    if (declared)
        pools_set_rules(&node->pools, pool, rules);
    return NIGH_OK;
}

static nigh_status node_make_pools(struct nigh_node *node, char *why, size_t why_bytes)
{
    struct pool_rules own = {.owner_uid = geteuid(), .group_gid = getegid(), .mode = 0600};
    const char *name = own.name;
    nigh_status status = NIGH_OK;

    if (node->adopting)
        status = node_adopt_pools(node, why, why_bytes);
    if (status != NIGH_OK)
        return status;
    for (uint32_t i = 0; i < node->settings.pool_count && status == NIGH_OK; i++) {
        name = node->settings.pools[i].name;
        status = node_make_pool(node, &node->settings.pools[i], true);
    }
    if (status == NIGH_OK) {
        pool_own_name(own.owner_uid, own.name);
        name = own.name;
        status = node_make_pool(node, &own, false);
    }
    if (status != NIGH_OK) {
        char size[BYTES_SIZE_TEXT];

        bytes_format_size(pools_index_bytes(&node->pools), size);
        snprintf(why, why_bytes,
                 "cannot make the index of pool %s, %s: %s; ask for fewer --max-objects", name,
                 size, nigh_status_string(status));
    }
    return status;
}

static bool node_keeps_no_file(void *context, uint32_t pool, uint32_t lane, uint32_t incarnation,
                               uint64_t generation)
{
    (void)context;
    (void)pool;
    (void)lane;
    (void)incarnation;
    (void)generation;
    return false;
}

static nigh_status node_claim_spill(struct nigh_node *node, char *why, size_t why_bytes)
{
    if (node->settings.spill_dir[0] == '\0')
        return NIGH_OK;
    return disk_claim(node->settings.spill_dir, &node->spill_lock_fd, why, why_bytes);
}

/* Files that nobody will ask for; before the disk threads start. */
static void node_clear_spill(struct nigh_node *node)
{
    size_t removed;

    if (node->spill_lock_fd < 0)
        return;
    if (node->adopting) {
        node_clean_spill(node);
        return;
    }
    removed = disk_clean(node->settings.spill_dir, node_keeps_no_file, NULL);
    if (removed > 0)
        LOG_INFO("spill files of a former node removed", "files=%zu", removed);
}

static nigh_status node_make_mailboxes(struct nigh_node *node)
{
    size_t bytes = (node->settings.lanes - 1) * sizeof(struct mailbox);

    if (bytes == 0)
        return NIGH_OK;
    node->to_lanes = aligned_alloc(CACHE_LINE, bytes);
    node->from_lanes = aligned_alloc(CACHE_LINE, bytes);
    if (node->to_lanes == NULL || node->from_lanes == NULL)
        return NIGH_NO_RESOURCES;
    memset(node->to_lanes, 0, bytes);
    memset(node->from_lanes, 0, bytes);
    return NIGH_OK;
}

static void node_wake_zero(void *context)
{
    struct nigh_node *node = context;

    shared_fence(); /* the mail is there before the look at whether lane 0 sleeps */
    if (shared_load_relaxed(&node->page->lane[0].asleep) != 0)
        lane_kick(node->lanes[0]);
}

static void node_add_stats(void *context, nigh_node_stats *stats)
{
    struct nigh_node *node = context;

    stats->sessions += node->sessions.count;
    stats->expelled += node->front.expelled;
    stats->sessions_died += node->front.died;
    stats->uptime_us += clock_now_us(&clock_monotonic) - node->started_us;
    stats->restarts += node->restarts;
    stats->memory_far_bytes += node->far_bytes;
    if (node->peers != NULL) {
        const struct peers_counters *peers = peers_counters(node->peers);

        stats->handshakes_refused += peers->refused_key + peers->refused_version +
                                     peers->refused_members + peers->refused_protocol;
        stats->node_deaths += peers->deaths;
    }
}

static bool node_list(void *context, uint32_t n, struct session_node *node)
{
    const struct nigh_node *self = context;
    struct peers_view view = {.state = PEER_UP, .incarnation = self->incarnation, .address = ""};

    _Static_assert(
        (int)PEER_AWAY == (int)NIGH_NODE_IS_AWAY && (int)PEER_UP == (int)NIGH_NODE_IS_UP &&
            (int)PEER_LOST == (int)NIGH_NODE_IS_LOST && (int)PEER_DEAD == (int)NIGH_NODE_IS_DEAD,
        "states are told as they are");
    if (n >= (self->peers != NULL ? self->settings.members.count : 1))
        return false;
    if (self->peers != NULL)
        peers_look(self->peers, n, &view);
    *node = (struct session_node){
        .rank = n,
        .state = (uint16_t)view.state,
        .refused = (int16_t)view.refused,
        .incarnation = view.incarnation,
        .is_self = self->peers == NULL || n == self->settings.members.self,
    };
    snprintf(node->address, sizeof(node->address), "%s", view.address);
    return true;
}

/* ---- other nodes ---------------------------------------------------------- */

/* Before the memory: an address that is taken, or a wrong one, is known at once. */
static nigh_status node_listen_to_peers(struct nigh_node *node, char *why, size_t why_bytes)
{
    const struct node_settings *settings = &node->settings;
    struct peers_config config = {
        .members = &node->settings.members,
        .dead_us = (uint64_t)settings->dead_ms * 1000,
    };
    nigh_status status;

    if (!settings->clustered)
        return NIGH_OK;
    memcpy(config.key, settings->cluster_key, sizeof(config.key));
    memcpy(config.listen, settings->listen_address, sizeof(config.listen));
    status = peers_create(&config, &node->peers, why, why_bytes);
    return status == NIGH_OK ? node_fabric_make_all(node, why, why_bytes) : status;
}

/* The next life has another number, should nothing remember this one: see incarnation.h. */
static void node_outwait_incarnation(const struct nigh_node *node)
{
    uint64_t ns = incarnation_wait_ns(node->incarnation, clock_wall_ns());
    struct timespec left = {.tv_nsec = (long)ns};

    while (ns > 0 && nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

static nigh_status node_open_peers(struct nigh_node *node, char *why, size_t why_bytes)
{
    struct auth_offer offer = {.lanes = node->lane_count};
    nigh_status status;

    if (node->peers == NULL)
        return NIGH_OK;
    for (uint32_t i = 0; i < node->lane_count; i++) {
        node_fabric_offer(node, i, offer.addresses[i]);
    }
    node->front.peers = node->peers;
    node_outwait_incarnation(node);
    status = peers_open(node->peers, node->lanes, node->lane_count, node->incarnation, &offer);
    if (status != NIGH_OK)
        snprintf(why, why_bytes, "cannot listen for other nodes: %s", nigh_status_string(status));
    return status;
}

static struct lane_config node_lane_config(struct nigh_node *node, uint32_t number)
{
    const struct node_settings *settings = &node->settings;
    uint64_t blocks = 2 * (uint64_t)node->entries_a_lane + NODE_BLOCKS_SPARE;
    struct lane_config config = {
        .number = number,
        .lanes = settings->lanes,
        .max_sessions = settings->max_sessions,
        .spin_us = settings->spin_us,
        .page = node->page,
        .zero_wake = node_wake_zero,
        .zero_context = node,
        .node_stats = node_add_stats,
        .node_list = node_list,
        .node_context = node,
        .spill_dir = settings->spill_dir[0] != '\0' ? settings->spill_dir : NULL,
        .cpus = node->is_placed && node->placements[number].is_bound
                    ? &node->placements[number].cpus
                    : NULL,
        .store =
            {
                .extents = node->extents,
                .incarnation = node->incarnation,
                .max_blocks = (uint32_t)min_u64(blocks, UINT32_MAX / 2),
                .spill_bytes = settings->spill_bytes != 0 ? settings->spill_bytes / settings->lanes
                                                          : UINT64_MAX,
                .max_lane_pins = settings->max_pins,
            },
    };

    if (settings->clustered) {
        config.fabric = node->fabrics[number];
        config.exchange.members = &node->settings.members;
        config.exchange.path = (enum exchange_path)settings->transfer_path;
        /* A secret where the system has one, as it always does: with it, who chooses ids cannot
         * make them collide in the directory. */
        config.exchange.seed = (uint64_t)node->incarnation << 32 | number;
        (void)random_system_seed(&config.exchange.seed);
        config.store.rank = settings->members.self;
    }
    if (number == 0) {
        config.life = node->life;
        config.inboxes = node->from_lanes;
        config.front = &node->front.guest;
    } else {
        config.from_zero = &node->to_lanes[number - 1];
        config.to_zero = &node->from_lanes[number - 1];
    }
    return config;
}

static nigh_status node_make_lanes(struct nigh_node *node, char *why, size_t why_bytes)
{
    for (uint32_t i = 0; i < node->settings.lanes; i++) {
        struct lane_config config = node_lane_config(node, i);
        nigh_status status = lane_create(&config, &node->lanes[i]);

        if (status != NIGH_OK) {
            snprintf(why, why_bytes, "cannot make lane %u: %s; ask for less memory or fewer lanes",
                     i, nigh_status_string(status));
            return status;
        }
        node->fabrics[i] = NULL; /* the lane's now */
        node->lane_count = i + 1;
    }
    return NIGH_OK;
}

/* Pools made before the lanes run are given to them directly. */
static nigh_status node_give_pools(struct nigh_node *node, char *why, size_t why_bytes)
{
    for (uint32_t p = 0; p < node->pools.count; p++) {
        for (uint32_t i = 0; i < node->lane_count; i++) {
            struct pool *pool = node->pools.pools[p];
            const struct store_pool_config *config = &pool->indexes[i].config;
            nigh_status status = lane_pool_add(node->lanes[i], config, pool->adopted);

            if (status != NIGH_OK) {
                snprintf(why, why_bytes, "lane %u cannot serve pool %s: %s", i, pool->rules.name,
                         nigh_status_string(status));
                return status;
            }
        }
    }
    return NIGH_OK;
}

static void node_init_front(struct nigh_node *node)
{
    struct front_config config = {
        .lanes = node->settings.lanes,
        .spin_us = node->settings.spin_us,
        .incarnation = node->incarnation,
        .own_uid = geteuid(),
        .session_quota_bytes = node->settings.session_quota_bytes,
        .page_read_fd = node->page_read_fd,
        .extents = node->extents,
        .sessions = &node->sessions,
        .pools = &node->pools,
        .keeper = node->keeper,
        .state = node->state,
    };

    front_init(&node->front, &config);
}

/*
 * In a child of an embedding program: its copies of the socket and of the lock would outlive the
 * node; clients would wait in a socket that nobody serves, and no new node could take its place.
 */
static void node_in_child(void)
{
    for (uint32_t i = 0; i < LIMIT_NODES_A_PROCESS; i++) {
        struct nigh_node *node = atomic_load(&node_listening[i]);

        if (node != NULL) {
            fd_close(&node->front.listen_fd);
            fd_close(&node->listen_fd);
            fd_close(&node->lock_fd);
            if (node->peers != NULL)
                peers_in_child(node->peers);
        }
    }
}

static void node_register_fork(void)
{
    (void)pthread_atfork(NULL, NULL, node_in_child);
}

/* False: so many nodes listen in this process already. */
static bool node_is_listening(struct nigh_node *node)
{
    (void)pthread_once(&node_fork_once, node_register_fork);
    for (uint32_t i = 0; i < LIMIT_NODES_A_PROCESS; i++) {
        struct nigh_node *nobody = NULL;

        if (atomic_compare_exchange_strong(&node_listening[i], &nobody, node))
            return true;
    }
    return false;
}

static void node_is_not_listening(struct nigh_node *node)
{
    for (uint32_t i = 0; i < LIMIT_NODES_A_PROCESS; i++) {
        struct nigh_node *expected = node;

        (void)atomic_compare_exchange_strong(&node_listening[i], &expected, NULL);
    }
}

static bool node_drive(void *context, uint32_t lane, uint64_t now_us, bool stays)
{
    struct nigh_node *node = context;

    return lane < node->lane_count && lane_drive(node->lanes[lane], now_us, stays);
}

static int node_rest(void *context, uint32_t lane, uint64_t now_us)
{
    struct nigh_node *node = context;

    return lane < node->lane_count ? lane_rest(node->lanes[lane], now_us) : SESSION_REST_ELSEWHERE;
}

static uint64_t node_rise(void *context, uint32_t lane)
{
    struct nigh_node *node = context;

    return lane_rise(node->lanes[lane]);
}

/* Before the memory, which takes its time: another node on the socket is known at once. */
static nigh_status node_claim(struct nigh_node *node, char *why, size_t why_bytes)
{
    int kept_fd;
    nigh_status status;

    if (node->settings.socket_path[0] == '\0' && !node->settings.clustered)
        return NIGH_OK;
    if (!node_is_listening(node)) {
        snprintf(why, why_bytes, "this process has %u nodes that listen, the most there may be",
                 LIMIT_NODES_A_PROCESS);
        return NIGH_LIMIT;
    }
    if (node->settings.socket_path[0] == '\0')
        return NIGH_OK;
    kept_fd = keeper_take(node->keeper, "listen");
    status = listen_claim(node->settings.socket_path, kept_fd, &node->listen_fd, &node->lock_fd,
                          why, why_bytes);
    if (status != NIGH_OK)
        fd_close(&kept_fd);
    return status;
}

/* The socket is there once the node is: who waits for it need not wait on. */
static nigh_status node_listen(struct nigh_node *node, char *why, size_t why_bytes)
{
    if (node->settings.socket_path[0] == '\0' || node->listen_fd >= 0)
        return NIGH_OK;
    return listen_open(node->settings.socket_path, node->settings.socket_mode, &node->listen_fd,
                       why, why_bytes);
}

static nigh_status node_open_front(struct nigh_node *node, char *why, size_t why_bytes)
{
    nigh_status status = node_listen(node, why, why_bytes);

    if (status != NIGH_OK)
        return status;
    status = front_open(&node->front, node->lanes, node->listen_fd);
    if (status != NIGH_OK) {
        snprintf(why, why_bytes, "cannot open the front door: %s", nigh_status_string(status));
        return status;
    }
    node->listen_fd = -1; /* the front's now */
    status = front_open_door(&node->front, &node->door_fd);
    if (status != NIGH_OK)
        snprintf(why, why_bytes, "cannot open the node's own door: %s", nigh_status_string(status));
    return status;
}

static nigh_status node_start_lanes(struct nigh_node *node, char *why, size_t why_bytes)
{
    for (uint32_t i = 0; i < node->lane_count; i++) {
        nigh_status status;

        NIGH_ASSERT(!store_is_adopting(lane_store(node->lanes[i])));
        status = lane_start(node->lanes[i]);

        if (status != NIGH_OK) {
            snprintf(why, why_bytes,
                     "cannot start a thread for lane %u; raise the limit of threads", i);
            return status;
        }
    }
    return NIGH_OK;
}

/* From here on a death is not the end: what must survive is stored. */
static nigh_status node_begin_to_survive(struct nigh_node *node, char *why, size_t why_bytes)
{
    nigh_status status = NIGH_OK;

    if (!keeper_is_there(node->keeper))
        return NIGH_OK;
    if (!node->adopting) {
        /* What came back without a state: a former node died while it forgot it, or began. */
        node_forget_kept(node, true);
        status = node_state_begin(node);
    }
    if (status != NIGH_OK) {
        snprintf(why, why_bytes, "cannot store the memory with the service manager: %s",
                 nigh_status_string(status));
        return status;
    }
    node->front.config.state = node->state;
    for (uint32_t i = 0; i < node->pools.count; i++) {
        const struct pool *pool = node->pools.pools[i];

        if (pool->adopted)
            state_put_pool(node->state, i, &pool->rules);
        else
            front_remember_pool(&node->front, pool);
    }
    keeper_remove(node->keeper, "listen");
    if (node->front.listen_fd >= 0)
        (void)keeper_store(node->keeper, "listen", node->front.listen_fd);
    if (node->adopting)
        node_adopted(node);
    shared_store_release(&node->page->kept, 1);
    return NIGH_OK;
}

/* ---- start, stop ---------------------------------------------------------- */

/* Takes apart whatever of a node is there. What goes on is left as the next node wants to find it.
 */
static void node_destroy(struct nigh_node *node)
{
    if (node->page != NULL && !node->goes_on) {
        shared_store_release(&node->page->stopping, 1);
        shared_store_release(&node->page->kept, 0);
    }
    for (uint32_t i = 0; i < node->lane_count; i++)
        lane_stop(node->lanes[i]);
    if (node->page != NULL)
        life_end(node->page);
    if (node->lock_fd >= 0 && !node->goes_on)
        listen_remove(node->settings.socket_path,
                      node->listen_fd >= 0 || node->front.listen_fd >= 0, &node->lock_fd);
    fd_close(&node->lock_fd);
    fd_close(&node->listen_fd);
    fd_close(&node->front.listen_fd);
    if (node->lane_count > 0 && !node->goes_on)
        front_say_bye(&node->front, NIGH_NODE_LOST, "the node is stopping");
    if (node->peers != NULL)
        peers_close(node->peers);
    front_fini(&node->front);
    fd_close(&node->door_fd);
    for (uint32_t i = 0; i < node->lane_count; i++)
        lane_destroy(node->lanes[i]);
    for (uint32_t i = 0; i < LIMIT_LANES; i++)
        fabric_destroy(node->fabrics[i]);
    peers_destroy(node->peers);
    if (node->spill_lock_fd >= 0 && !node->goes_on)
        (void)disk_clean(node->settings.spill_dir, node_keeps_no_file, NULL);
    fd_close(&node->spill_lock_fd);
    free(node->to_lanes);
    free(node->from_lanes);
    sessions_fini(&node->sessions);
    pools_fini(&node->pools);
    life_destroy(node->life);
    if (node->page != NULL)
        memfd_unmap(node->page, sizeof(*node->page));
    fd_close(&node->page_read_fd);
    fd_close(&node->page_fd);
    extent_set_destroy(node->extents);
    node_is_not_listening(node);
    state_unmap(node->state);
    fd_close(&node->state_fd);
    free(node);
}

/* Memory, and what lies in it. */
static nigh_status node_make_shared(struct nigh_node *node, char *why, size_t why_bytes)
{
    nigh_status status = node_claim_spill(node, why, why_bytes);

    if (status == NIGH_OK)
        status = node_adopt_state(node, why, why_bytes);
    if (status == NIGH_OK)
        status = incarnation_begin(node->settings.spill_dir, node->incarnation, clock_wall_ns(),
                                   &node->incarnation, why, why_bytes);
    if (status == NIGH_OK)
        status =
            descriptors_provide(&node->settings, node->keeper != &node->no_keeper, why, why_bytes);
    if (status != NIGH_OK)
        return status;
    pools_init(&node->pools, node->settings.lanes, node->entries_a_lane);
    status = node_make_memory(node, why, why_bytes);
    if (status == NIGH_OK)
        status = node_make_page(node, why, why_bytes);
    if (status == NIGH_OK)
        status = life_create(node->page, &node->life);
    if (status == NIGH_OK)
        status = node_make_pools(node, why, why_bytes);
    if (status == NIGH_OK)
        status = sessions_init(&node->sessions, node->settings.max_sessions, node->settings.lanes);
    if (status == NIGH_OK && node->adopting)
        node_adopt_sessions(node);
    return status;
}

static nigh_status node_make(struct nigh_node *node, char *why, size_t why_bytes)
{
    nigh_status status;

    snprintf(why, why_bytes, "the operating system refused memory or descriptors");
    status = node_claim(node, why, why_bytes);
    if (status == NIGH_OK)
        status = node_listen_to_peers(node, why, why_bytes);
    if (status == NIGH_OK)
        status = node_make_shared(node, why, why_bytes);
    if (status == NIGH_OK)
        status = node_make_mailboxes(node);
    if (status != NIGH_OK)
        return status;
    node_clear_spill(node);
    node_init_front(node);
    status = node_make_lanes(node, why, why_bytes);
    if (status == NIGH_OK)
        status = node_give_pools(node, why, why_bytes);
    if (status == NIGH_OK && node->adopting)
        status = node_give_adopted(node, why, why_bytes);
    if (status != NIGH_OK)
        return status;
    node->adopted = node->adopting;
    status = node_open_front(node, why, why_bytes);
    if (status == NIGH_OK)
        status = node_begin_to_survive(node, why, why_bytes);
    if (status == NIGH_OK)
        status = node_open_peers(node, why, why_bytes);
    if (status == NIGH_OK)
        status = node_start_lanes(node, why, why_bytes);
    return status;
}

/* above: a number of a life before; 0: none is known. */
static struct nigh_node *node_create(const struct node_settings *settings, struct keeper *keeper,
                                     uint32_t above)
{
    struct nigh_node *node = calloc(1, sizeof(*node));

    if (node == NULL)
        return NULL;
    node->pid = getpid();
    node->settings = *settings;
    node->entries_a_lane = settings_entries_a_lane(settings);
    node->page_fd = node->page_read_fd = node->lock_fd = node->listen_fd = node->door_fd = -1;
    node->spill_lock_fd = node->state_fd = -1;
    node->front.listen_fd = node->front.attach_fd = node->front.spare_fd = -1;
    for (uint32_t i = 0; i < LIMIT_FRONT_HALF_OPEN; i++)
        node->front.halves[i].fd = -1;
    node->no_keeper.socket_fd = -1;
    node->keeper = keeper != NULL ? keeper : &node->no_keeper;
    node->started_us = clock_now_us(&clock_monotonic);
    node->incarnation = above;
    node->driver.context = node;
    node->driver.drive = node_drive;
    node->driver.rest = node_rest;
    node->driver.rise = node_rise;
    return node;
}

/* One attempt to start. *lost: there is memory of a former node that cannot be taken over. *above:
 * a number of a life before; out: of this one. */
static nigh_status node_try(const struct node_settings *settings, struct keeper *keeper,
                            uint32_t *above, nigh_node **out, bool *lost, char *why,
                            size_t why_bytes)
{
    struct nigh_node *node = node_create(settings, keeper, *above);
    nigh_status status;

    *lost = false;
    if (node == NULL) {
        snprintf(why, why_bytes, "no memory for the node's own books");
        return NIGH_NO_RESOURCES;
    }
    status = node_make(node, why, why_bytes);
    *above = node->incarnation;
    if (status == NIGH_OK) {
        *out = node;
        return NIGH_OK;
    }
    /* A format that we do not know is another program's: it is refused and left alone. */
    *lost = node->adopting && !node->adopted && status != NIGH_VERSION;
    if (*lost)
        node_forget_kept(node, true);
    node->goes_on = node->adopting && !*lost;
    node_destroy(node);
    return status;
}

nigh_status node_start(const struct node_settings *settings, struct keeper *keeper, nigh_node **out,
                       char *why, size_t why_bytes)
{
    nigh_node *node;
    uint32_t above = 0;
    bool lost;
    nigh_status status = node_try(settings, keeper, &above, &node, &lost, why, why_bytes);

    if (lost) {
        LOG_ERROR("the memory of the former node is lost: beginning empty", "why=\"%s\"", why);
        status = node_try(settings, keeper, &above, &node, &lost, why, why_bytes);
    }
    if (status != NIGH_OK)
        return status;
    why[0] = '\0';
    LOG_INFO("node started",
             "socket=%s memory=%llu extent=%llu lanes=%u spin_us=%u objects=%llu huge=%s",
             settings->socket_path[0] != '\0' ? settings->socket_path : "none",
             (unsigned long long)node->settings.memory_bytes,
             (unsigned long long)node->extents->extent_bytes, node->settings.lanes,
             settings->spin_us, (unsigned long long)node->settings.max_objects,
             node->extents->all_huge   ? "all"
             : node->extents->any_huge ? "some"
                                       : "none");
    *out = node;
    return NIGH_OK;
}

nigh_status nigh_node_start(const nigh_node_options *options, nigh_node **node)
{
    struct node_settings *settings;
    nigh_status status;

    if (options == NULL || node == NULL) {
        snprintf(node_start_why, sizeof(node_start_why), "options or node is NULL");
        return NIGH_INVALID;
    }
    settings = malloc(sizeof(*settings));
    if (settings == NULL) {
        snprintf(node_start_why, sizeof(node_start_why), "no memory for the node's own books");
        return NIGH_NO_RESOURCES;
    }
    status = settings_resolve(options, settings_cores(), settings, node_start_why,
                              sizeof(node_start_why));
    if (status == NIGH_OK)
        status = node_start(settings, NULL, node, node_start_why, sizeof(node_start_why));
    free(settings);
    return status;
}

void node_stop(nigh_node *node, bool goes_on)
{
    LOG_INFO("node stops", "goes_on=%d", goes_on);
    node->goes_on = goes_on;
    node_destroy(node);
}

void nigh_node_stop(nigh_node *node)
{
    /* A child has the node's books, and none of its threads and memory. */
    if (node != NULL && node->pid == getpid())
        node_stop(node, false);
}
