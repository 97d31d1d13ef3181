/* SPDX-License-Identifier: Apache-2.0 */
/* See node.h and nigh/node.h. Puts the parts of a node together, in the order in which they need
 * each other, and takes them apart in the reverse. */
#include "node/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "memory/memfd.h"
#include "node/descriptors.h"
#include "node/disk.h"
#include "node/incarnation.h"
#include "node/listen.h"
#include "node/node_internal.h"

#define LOG_MODULE "node"
#include "base/log.h"

static _Thread_local char node_start_why[NODE_WHY_BYTES];

const char *nigh_node_start_error(void)
{
    return node_start_why;
}

/* ---- the parts ------------------------------------------------------------ */

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
        .rank = node->settings.members.count > 0 ? node->settings.members.self : 0,
    };

    front_init(&node->front, &config);
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
    if (node->front.listen_fd >= 0)
        (void)keeper_replace(node->keeper, "listen", node->front.listen_fd);
    else
        (void)keeper_remove(node->keeper, "listen");
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
    views_stop(node->views); /* it kicks lanes */
    redis_stop(node->redis);
    bulk_memories_stop(node->bulks); /* likewise */
    for (uint32_t i = 0; i < node->lane_count; i++)
        lane_stop(node->lanes[i]);
    if (node->page != NULL)
        life_end(node->page);
    if (node->lock.fd >= 0 && !node->goes_on)
        listen_remove(node->settings.socket_path,
                      node->listen_fd >= 0 || node->front.listen_fd >= 0, &node->lock);
    lock_file_close(&node->lock);
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
    redis_destroy(node->redis);
    services_destroy(node->services);
    bulk_memories_destroy(node->bulks);
    for (uint32_t i = 0; i < LIMIT_LANES; i++)
        fabric_destroy(node->fabrics[i]);
    peers_destroy(node->peers);
    views_destroy(node->views);
    views_file_close(&node->state_file);
    space_log_folder_close(&node->space_logs);
    if (node->spill_lock.fd >= 0 && !node->goes_on)
        (void)disk_clean(node->settings.spill_dir, node_keeps_no_file, NULL);
    lock_file_close(&node->spill_lock);
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
    const char *remembers =
        node->settings.state_dir[0] != '\0' ? node->settings.state_dir : node->settings.spill_dir;
    nigh_status status = incarnation_begin(remembers, node->incarnation, clock_wall_ns(),
                                           &node->incarnation, why, why_bytes);

    if (status == NIGH_OK)
        status =
            descriptors_provide(&node->settings, node->keeper != &node->no_keeper, why, why_bytes);
    if (status != NIGH_OK)
        return status;
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

static void node_tell_of_spaces(const struct node_settings *settings)
{
    if (settings->space_memory_bytes == 0 || settings_serve_spaces(settings))
        return;
    LOG_WARN("this node serves no spaces: --space-memory is for nothing",
             "rank=%u why=\"%s\" do=\"leave --space-memory away, or give all nodes --state; of a "
             "rank above 63 there are no spaces\"",
             settings->members.self,
             settings->members.self >= LIMIT_SPACE_SEATS
                 ? "there are 64 ranks that may"
                 : "nodes of a cluster serve them with --state");
}

/* Of its rank, which it knows by now. */
static nigh_status node_claim_space_logs(struct nigh_node *node, char *why, size_t why_bytes)
{
    const struct node_settings *settings = &node->settings;

    node_tell_of_spaces(settings);
    if (settings->space_log_dir[0] == '\0' || !settings_serve_spaces(settings))
        return NIGH_OK;
    return space_log_folder_open(&node->space_logs, settings->space_log_dir,
                                 settings->clustered ? settings->members.self : 0, why, why_bytes);
}

static nigh_status node_make(struct nigh_node *node, char *why, size_t why_bytes)
{
    nigh_status status;

    snprintf(why, why_bytes, "the operating system refused memory or descriptors");
    status = node_claim(node, why, why_bytes);
    if (status == NIGH_OK)
        status = node_claim_spill(node, why, why_bytes);
    if (status == NIGH_OK)
        status = node_adopt_state(node, why, why_bytes);
    /* After that: how many lanes there are is the former node's to say; and what it had stays where
     * this one is no member, or cannot listen. */
    if (status == NIGH_OK) {
        pools_init(&node->pools, node->settings.lanes, node->entries_a_lane);
        status = node_join(node, why, why_bytes);
        if (status == NIGH_OK)
            status = node_claim_space_logs(node, why, why_bytes);
        if (status == NIGH_OK)
            status = node_listen_to_peers(node, why, why_bytes);
        node->is_unheard = status != NIGH_OK;
    }
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
    return status == NIGH_OK ? node_start_views(node, why, why_bytes) : status;
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
    node->page_fd = node->page_read_fd = node->listen_fd = node->door_fd = -1;
    node->state_fd = -1;
    lock_file_init(&node->lock);
    lock_file_init(&node->spill_lock);
    views_file_init(&node->state_file);
    space_log_folder_init(&node->space_logs);
    node->front.listen_fd = node->front.attach_fd = node->front.spare_fd = -1;
    for (uint32_t i = 0; i < LIMIT_FRONT_HALF_OPEN; i++)
        node->front.halves[i].fd = -1;
    node->no_keeper.socket_fd = -1;
    node->keeper = keeper != NULL ? keeper : &node->no_keeper;
    node->started_us = clock_now_us(&clock_monotonic);
    node->incarnation = above;
    node_init_driver(node);
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
    /* A format that we do not know is another program's: it is refused and left alone. And an
     * address that is taken says nothing against the memory. */
    *lost = node->adopting && !node->adopted && !node->is_unheard && status != NIGH_VERSION;
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
        LOG_ERROR("the memory of the former node is lost: beginning empty",
                  "why=\"%s\" do=\"put again what was in it; if something was not kept, raise "
                  "FileDescriptorStoreMax= and LimitNOFILE= of the unit\"",
                  LOG_QUOTE(why));
        status = node_try(settings, keeper, &above, &node, &lost, why, why_bytes);
    }
    if (status != NIGH_OK)
        return status;
    why[0] = '\0';
    LOG_INFO("node started",
             "socket=\"%s\" memory=%llu extent=%llu lanes=%u spin_us=%u objects=%llu huge=%s",
             LOG_QUOTE(settings->socket_path[0] != '\0' ? settings->socket_path : "none"),
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

bool node_is_struck(const nigh_node *node, char *why, size_t why_bytes)
{
    if (!atomic_load_explicit(&node->is_struck, memory_order_acquire))
        return false;
    snprintf(
        why, why_bytes,
        "this node was struck off its cluster (nigh forget), and its rank, %u, is nobody's any "
        "more: to have this machine join anew, with a new rank, remove what it kept in %.200s "
        "(--state) and start it again",
        node->settings.members.self, node->settings.state_dir);
    return true;
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
