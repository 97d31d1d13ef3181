/* SPDX-License-Identifier: Apache-2.0 */
/* Where a node listens, for clients and for other nodes; and that its process's children do not. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "node/incarnation.h"
#include "node/listen.h"
#include "node/node_internal.h"

/* Nodes of this process that listen, or spill, for its children to let go of. */
static _Atomic(struct nigh_node *) node_listening[LIMIT_NODES_A_PROCESS];
static pthread_once_t node_fork_once = PTHREAD_ONCE_INIT;

/*
 * In a child of an embedding program: its copies of the socket and of the locks would outlive the
 * node; clients would wait in a socket that nobody serves, and no new node could take its place,
 * its votes, or what it spilled.
 */
static void node_in_child(void)
{
    for (uint32_t i = 0; i < LIMIT_NODES_A_PROCESS; i++) {
        struct nigh_node *node = atomic_load(&node_listening[i]);

        if (node != NULL) {
            fd_close(&node->front.listen_fd);
            fd_close(&node->listen_fd);
            lock_file_in_child(&node->lock);
            lock_file_in_child(&node->spill_lock);
            views_file_in_child(&node->state_file);
            space_log_folder_in_child(&node->space_logs);
            if (node->peers != NULL)
                peers_in_child(node->peers);
        }
    }
}

static void node_register_fork(void)
{
    (void)pthread_atfork(NULL, NULL, node_in_child);
}

/* False: so many nodes listen, or spill, in this process already. */
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

void node_is_not_listening(struct nigh_node *node)
{
    for (uint32_t i = 0; i < LIMIT_NODES_A_PROCESS; i++) {
        struct nigh_node *expected = node;

        (void)atomic_compare_exchange_strong(&node_listening[i], &expected, NULL);
    }
}

/* Before the memory, which takes its time: another node on the socket is known at once. */
nigh_status node_claim(struct nigh_node *node, char *why, size_t why_bytes)
{
    int kept_fd;
    nigh_status status;

    if (node->settings.socket_path[0] == '\0' && !node->settings.clustered &&
        node->settings.spill_dir[0] == '\0')
        return NIGH_OK;
    if (!node_is_listening(node)) {
        snprintf(why, why_bytes,
                 "this process has %u nodes that listen or spill, the most there may be",
                 LIMIT_NODES_A_PROCESS);
        return NIGH_LIMIT;
    }
    if (node->settings.socket_path[0] == '\0')
        return NIGH_OK;
    kept_fd = keeper_take(node->keeper, "listen");
    status = listen_claim(node->settings.socket_path, kept_fd, &node->listen_fd, &node->lock, why,
                          why_bytes);
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

nigh_status node_open_front(struct nigh_node *node, char *why, size_t why_bytes)
{
    nigh_status status = node_listen(node, why, why_bytes);

    if (status != NIGH_OK)
        return status;
    node->front.services = node->services;
    node->front.bulks = node->bulks;
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

static void node_kick_for_views(void *context, uint32_t lane)
{
    struct nigh_node *node = context;

    lane_kick(node->lanes[lane]);
}

/* What is kept does not fit what the node is told to be: which of the two is right its owner knows.
 */
static void add_remedy(nigh_status status, char *why, size_t why_bytes)
{
    size_t length = strnlen(why, why_bytes - 1);

    if (status == NIGH_VERSION)
        snprintf(why + length, why_bytes - length,
                 "; start this node with the version, the list, the ranks and the address that it "
                 "had (--join, --ranks, --member), or give it another directory (--state)");
    else if (status == NIGH_CORRUPT)
        snprintf(why + length, why_bytes - length,
                 "; give it another directory (--state), and it hears from the others what was "
                 "decided");
}

static nigh_status node_make_views(struct nigh_node *node, char *why, size_t why_bytes)
{
    const struct node_settings *settings = &node->settings;
    struct views_config config = {
        .members = &node->settings.members,
        .dead_us = (uint64_t)settings->dead_ms * 1000,
        .joins = settings->joins_as[0] != '\0',
        .name = settings->name,
        .lanes = settings->lanes,
        .kick = node_kick_for_views,
        .context = node,
    };
    nigh_status status =
        settings->state_dir[0] == '\0'
            ? NIGH_OK
            : views_create(&config, &node->state_file, &node->views, why, why_bytes);

    add_remedy(status, why, why_bytes);
    return status;
}

static void node_on_struck(void *context)
{
    struct nigh_node *node = context;

    atomic_store_explicit(&node->is_struck, true, memory_order_release);
    if (node->settings.on_struck != NULL)
        node->settings.on_struck();
}

/* Before the memory: an address that is taken, or a wrong one, is known at once. */
nigh_status node_listen_to_peers(struct nigh_node *node, char *why, size_t why_bytes)
{
    const struct node_settings *settings = &node->settings;
    struct peers_config config = {
        .members = &node->settings.members,
        .dead_us = (uint64_t)settings->dead_ms * 1000,
        .struck = node_on_struck,
        .context = node,
    };
    nigh_status status;

    if (!settings->clustered)
        return NIGH_OK;
    status = node_make_views(node, why, why_bytes);
    if (status != NIGH_OK)
        return status;
    config.views = node->views;
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

nigh_status node_open_peers(struct nigh_node *node, char *why, size_t why_bytes)
{
    struct auth_offer offer = {.lanes = node->lane_count,
                               .bulk_endpoints = node->settings.fabric_queue_pairs,
                               .region_endpoints = settings_region_endpoints(&node->settings),
                               .space_endpoints =
                                   node->views != NULL && settings_serve_spaces(&node->settings)};
    nigh_status status;

    if (node->peers == NULL)
        return NIGH_OK;
    if (node->settings.has_directory)
        offer.directory = redis_digest(&node->settings.directory, node->settings.cluster_key);
    for (uint32_t i = 0; i < node->lane_count; i++) {
        node_fabric_offer(node, i, offer.addresses[i]);
    }
    memcpy(offer.member, node->settings.members.addresses[node->settings.members.self],
           sizeof(offer.member));
    node->front.peers = node->peers;
    node_outwait_incarnation(node);
    status = peers_open(node->peers, node->lanes, node->lane_count, node->incarnation, &offer);
    if (status != NIGH_OK)
        snprintf(why, why_bytes, "cannot listen for other nodes: %s", nigh_status_string(status));
    return status;
}

nigh_status node_start_views(struct nigh_node *node, char *why, size_t why_bytes)
{
    nigh_status status = node->views != NULL ? views_start(node->views) : NIGH_OK;

    if (status == NIGH_DISK)
        snprintf(why, why_bytes,
                 "what this node says in votes cannot be kept in %.200s (--state); the log says "
                 "why",
                 node->settings.state_dir);
    else if (status != NIGH_OK)
        snprintf(why, why_bytes, "cannot start a thread for views; raise the limit of threads");
    return status;
}
