/* SPDX-License-Identifier: Apache-2.0 */
/* What of a node lies in memory and on disk: its page, its extents, its pools' indexes, its spill
 * folder. What a former node left of them is node_adopt.c's. */
#include <stdio.h>
#include <unistd.h>

#include "base/bytes.h"
#include "memory/index.h"
#include "memory/memfd.h"
#include "node/node_internal.h"

#define LOG_MODULE "node"
#include "base/log.h"

/* Sessions whose memory must be available at start; that of more is asked for when they come. */
#define NODE_SESSIONS_FORESEEN 64u

nigh_status node_make_page(struct nigh_node *node, char *why, size_t why_bytes)
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
    LOG_WARN("memory lies on another NUMA node than its lane's RDMA device",
             "size=\"%s\" do=\"free memory there before the node is started (nigh doctor)\"", far);
}

static struct extent_options node_memory_wanted(const struct nigh_node *node)
{
    const struct node_settings *settings = &node->settings;
    uint64_t sessions = min_u32(settings->max_sessions, NODE_SESSIONS_FORESEEN);

    return (struct extent_options){
        .memory_bytes = settings->memory_bytes,
        .extent_bytes = settings->extent_bytes,
        .besides_bytes = (settings->pool_count + 1) * pools_index_bytes(&node->pools) +
                         sessions * session_file_bytes(settings->lanes),
        .file_bytes = max_u64(index_size_bytes(node->pools.entries_a_lane),
                              session_file_bytes(settings->lanes)),
        .lanes = settings->lanes,
        .huge = (enum extent_huge)settings->huge_pages,
    };
}

nigh_status node_may_have_memory(const struct nigh_node *node, char *why, size_t why_bytes)
{
    struct extent_options options = node_memory_wanted(node);

    return node->adopting ? NIGH_OK : extent_set_may_be(&options, why, why_bytes);
}

nigh_status node_make_memory(struct nigh_node *node, char *why, size_t why_bytes)
{
    struct extent_options options = node_memory_wanted(node);
    int numa_nodes[LIMIT_LANES];
    nigh_status status;

    options.numa_nodes = node->is_placed ? numa_nodes : NULL;
    for (uint32_t i = 0; i < node->settings.lanes; i++)
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

nigh_status node_make_pools(struct nigh_node *node, char *why, size_t why_bytes)
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

bool node_keeps_no_file(void *context, uint32_t pool, uint32_t lane, uint32_t incarnation,
                        uint64_t generation)
{
    (void)context;
    (void)pool;
    (void)lane;
    (void)incarnation;
    (void)generation;
    return false;
}

nigh_status node_claim_spill(struct nigh_node *node, char *why, size_t why_bytes)
{
    if (node->settings.spill_dir[0] == '\0')
        return NIGH_OK;
    return disk_claim(node->settings.spill_dir, &node->spill_lock, why, why_bytes);
}

/* Files that nobody will ask for; before the disk threads start. */
void node_clear_spill(struct nigh_node *node)
{
    size_t removed;

    if (node->spill_lock.fd < 0)
        return;
    if (node->adopting) {
        node_clean_spill(node);
        return;
    }
    removed = disk_clean(node->settings.spill_dir, node_keeps_no_file, NULL);
    if (removed > 0)
        LOG_INFO("spill files of a former node removed", "files=%zu", removed);
}
