/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes a node survive its process: storing its descriptors with a keeper while it lives, and
 * taking over, at start, what a former node left (docs/operations.md, "Restart").
 *
 * Adopted are: the state file, which says how the memory is cut; every extent; the node page; the
 * indexes of the pools, from which each lane rebuilds its books; the memory of every session whose
 * process still lives; and the listening socket, in which clients may be waiting already.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/table.h"
#include "memory/memfd.h"
#include "node/node_internal.h"

#define LOG_MODULE "node"
#include "base/log.h"

/* ---- a node that will survive ---- */

#define NODE_EXTENT_NAME "extent-"

static void node_extent_name(uint32_t number, char name[KEEPER_NAME_BYTES])
{
    snprintf(name, KEEPER_NAME_BYTES, NODE_EXTENT_NAME "%u", number);
}

/* Whether the keeper has the descriptor of an extent. */
static bool node_extent_is_kept(const struct state_extent *record)
{
    return atomic_load_explicit(&record->present, memory_order_relaxed) != 0 ||
           atomic_load_explicit(&record->absence, memory_order_relaxed) == EXTENT_DORMANT;
}

/* Called by a lane before an extent changes. What is not kept is spent for the next node: clients
 * may have it mapped, and it is not there. */
static void node_extent_changed(void *context, uint32_t number, uint64_t owner)
{
    struct nigh_node *node = context;
    struct state_extent *record = &node->state->extents[number];
    const struct extent *extent = &node->extents->extents[number];
    bool is_kept = node_extent_is_kept(record);
    uint32_t absence = extent->present ? EXTENT_SPENT : extent->absence;
    char name[KEEPER_NAME_BYTES];

    node_extent_name(number, name);
    if (extent->present && !is_kept)
        is_kept = keeper_replace(node->keeper, name, extent->fd) == NIGH_OK;
    if (absence == EXTENT_DORMANT && !is_kept)
        absence = EXTENT_SPENT;
    atomic_store_explicit(&record->owner, owner, memory_order_release);
    if (extent->present && is_kept) {
        atomic_store_explicit(&record->present, 1, memory_order_release);
        return;
    }
    atomic_store_explicit(&record->absence, absence, memory_order_release);
    atomic_store_explicit(&record->present, 0, memory_order_release);
    if (is_kept && absence != EXTENT_DORMANT)
        (void)keeper_remove(node->keeper, name);
}

/* From now on the state follows the extents. */
static void node_watch_extents(struct nigh_node *node)
{
    node->extents->changed_context = node;
    node->extents->changed = node_extent_changed;
}

static nigh_status node_store_extents(struct nigh_node *node)
{
    for (uint32_t i = 0; i < node->extents->count; i++) {
        struct state_extent *record = &node->state->extents[i];
        char name[KEEPER_NAME_BYTES];
        nigh_status status;

        if (!node->extents->extents[i].present)
            continue;
        node_extent_name(i, name);
        status = keeper_replace(node->keeper, name, node->extents->extents[i].fd);
        if (status != NIGH_OK)
            return status;
        atomic_store_explicit(&record->owner, EXTENT_NO_OWNER, memory_order_relaxed);
        atomic_store_explicit(&record->present, 1, memory_order_release);
    }
    return NIGH_OK;
}

nigh_status node_state_begin(struct nigh_node *node)
{
    const struct node_settings *settings = &node->settings;
    nigh_status status;

    if (!keeper_is_there(node->keeper))
        return NIGH_OK;
    status = state_create(&node->state_fd, &node->state);
    if (status != NIGH_OK)
        return status;
    node->state->shape = (struct state_shape){
        .memory_bytes = settings->memory_bytes,
        .extent_bytes = node->extents->extent_bytes,
        .max_objects = settings->max_objects,
        .lanes = settings->lanes,
        .entries_a_lane = node->entries_a_lane,
        .max_sessions = settings->max_sessions,
    };
    node->state->incarnation = node->incarnation;
    shared_store_relaxed(&node->state->next_session_id, 1);
    status = node_store_extents(node);
    if (status == NIGH_OK)
        status = keeper_replace(node->keeper, "page", node->page_fd);
    if (status == NIGH_OK)
        status = keeper_replace(node->keeper, "state", node->state_fd);
    if (status != NIGH_OK)
        return status;
    node_watch_extents(node);
    state_publish(node->state);
    return NIGH_OK;
}

/* ---- a node that goes on ---- */

/* Takes the state of a former node, if there is one; the memory is then cut as it was. */
nigh_status node_adopt_state(struct nigh_node *node, char *why, size_t why_bytes)
{
    struct node_settings *settings = &node->settings;
    const struct state_shape *shape;
    nigh_status status;

    node->state_fd = keeper_take(node->keeper, "state");
    if (node->state_fd == -1)
        return NIGH_OK;
    node->adopting = true;
    if (node->state_fd == KEEPER_TWICE) {
        snprintf(why, why_bytes, "the keeper has two states of a node");
        return NIGH_PROTOCOL;
    }
    status = state_adopt(node->state_fd, &node->state, why, why_bytes);
    if (status != NIGH_OK)
        return status;
    shape = &node->state->shape;
    if (shape->lanes != settings->lanes || shape->max_objects != settings->max_objects ||
        shape->max_sessions != settings->max_sessions ||
        shape->memory_bytes != settings->memory_bytes)
        LOG_WARN("the former node's memory is kept: other sizes take effect after a full stop",
                 "memory=%llu objects=%llu lanes=%u sessions=%u do=\"to have the sizes that are "
                 "asked for, stop the node and then start it (no restart): it begins empty\"",
                 (unsigned long long)shape->memory_bytes, (unsigned long long)shape->max_objects,
                 shape->lanes, shape->max_sessions);
    node->entries_a_lane = shape->entries_a_lane;
    settings->lanes = shape->lanes;
    settings->memory_bytes = shape->memory_bytes;
    settings->extent_bytes = shape->extent_bytes;
    settings->max_objects = shape->max_objects;
    settings->max_sessions = shape->max_sessions;
    if (node->incarnation < node->state->incarnation)
        node->incarnation = node->state->incarnation; /* the life before: ours is above it */
    return NIGH_OK;
}

/* What extent_set_adopt wants, for each extent that is there. */
struct node_extents_found {
    size_t count;
    uint32_t numbers[LIMIT_EXTENTS];
    int fds[LIMIT_EXTENTS];
    uint64_t owners[LIMIT_EXTENTS];
    uint32_t lanes[LIMIT_EXTENTS];
};

/* Whether a (pool, uid) of the former node is one of this node: what is of a pool that was lost
 * must not become another pool's. */
static bool node_owner_is_known(const struct nigh_node *node, uint64_t owner)
{
    struct pool_rules rules;
    uint32_t pool = extent_owner_pool(owner);

    return owner == EXTENT_NO_OWNER ||
           (pool < LIMIT_POOLS && state_get_pool(node->state, pool, &rules));
}

static nigh_status node_find_extents(struct nigh_node *node, struct node_extents_found *found,
                                     char *why, size_t why_bytes)
{
    uint32_t a_lane = LIMIT_EXTENTS / node->settings.lanes;

    found->count = 0;
    for (uint32_t i = 0; i < LIMIT_EXTENTS; i++) {
        struct state_extent *record = &node->state->extents[i];
        uint64_t owner = atomic_load_explicit(&record->owner, memory_order_acquire);
        char name[KEEPER_NAME_BYTES];
        int fd;

        if (atomic_load_explicit(&record->present, memory_order_acquire) == 0)
            continue;
        node_extent_name(i, name);
        fd = keeper_take(node->keeper, name);
        if (fd < 0) {
            snprintf(why, why_bytes, "extent %u of the former node was %s", i,
                     fd == KEEPER_TWICE ? "kept twice" : "not kept");
            return NIGH_PROTOCOL;
        }
        if (!node_owner_is_known(node, owner)) {
            LOG_WARN("memory of a lost pool is given up",
                     "extent=%u do=\"put again what was in that pool\"", i);
            atomic_store_explicit(&record->absence, EXTENT_SPENT, memory_order_release);
            atomic_store_explicit(&record->present, 0, memory_order_release);
            (void)keeper_remove(node->keeper, name);
            fd_close(&fd);
            continue;
        }
        found->numbers[found->count] = i;
        found->fds[found->count] = fd;
        found->owners[found->count] = owner;
        found->lanes[found->count] = i / a_lane;
        found->count++;
    }
    return NIGH_OK;
}

/* What the former node knew of a number without memory. What cannot be had of it is spent. */
static void node_adopt_absent(struct nigh_node *node, uint32_t number)
{
    struct state_extent *record = &node->state->extents[number];
    uint64_t owner = atomic_load_explicit(&record->owner, memory_order_acquire);
    uint32_t absence = atomic_load_explicit(&record->absence, memory_order_acquire);
    char name[KEEPER_NAME_BYTES];
    int fd = -1;

    if (absence == EXTENT_UNKNOWN)
        return;
    if (absence == EXTENT_DORMANT) {
        node_extent_name(number, name);
        fd = keeper_take(node->keeper, name);
    }
    if ((absence == EXTENT_DORMANT) == (fd >= 0) && node_owner_is_known(node, owner) &&
        extent_set_adopt_absent(node->extents, number, (enum extent_absence)absence, owner, fd) ==
            NIGH_OK)
        return;
    (void)extent_set_adopt_absent(node->extents, number, EXTENT_SPENT, EXTENT_NO_OWNER, -1);
    atomic_store_explicit(&record->absence, EXTENT_SPENT, memory_order_release);
    if (fd >= 0)
        (void)keeper_remove(node->keeper, name);
    fd_close(&fd);
}

/* What is kept of numbers without memory, dormant or nobody's, gives its pages back before those
 * that have memory get theirs: together they may be more than the machine has. */
static void node_empty_absent(const struct nigh_node *node, const struct node_extents_found *found)
{
    const struct keeper *keeper = node->keeper;
    int *fds = calloc(keeper->count + 1, sizeof(*fds));
    nigh_status status = NIGH_NO_RESOURCES;
    size_t n = 0;

    for (size_t i = 0; i < keeper->count && fds != NULL; i++) {
        const struct keeper_item *item = &keeper->items[i];

        if (item->fd >= 0 && strncmp(item->name, NODE_EXTENT_NAME, strlen(NODE_EXTENT_NAME)) == 0)
            fds[n++] = item->fd;
    }
    if (fds != NULL)
        status = extent_empty_absent(fds, n, found->fds, found->count);
    if (status != NIGH_OK)
        LOG_WARN("what a former node kept of memory that moved is not emptied",
                 "status=\"%s\" do=\"free memory on the machine; stop the node and then start it "
                 "(no restart) to have that memory back\"",
                 nigh_status_string(status));
    free(fds);
}

nigh_status node_adopt_memory(struct nigh_node *node, char *why, size_t why_bytes)
{
    struct node_extents_found *found = malloc(sizeof(*found));
    nigh_status status;

    if (found == NULL)
        return NIGH_NO_RESOURCES;
    status = node_find_extents(node, found, why, why_bytes);
    if (status == NIGH_OK) {
        node_empty_absent(node, found);
        status = extent_set_adopt(node->settings.extent_bytes, node->settings.lanes, found->numbers,
                                  found->fds, found->owners, found->lanes, found->count,
                                  &node->extents, why, why_bytes);
    }
    if (status == NIGH_OK) {
        for (uint32_t i = 0; i < LIMIT_EXTENTS; i++) {
            if (!node->extents->extents[i].present)
                node_adopt_absent(node, i);
        }
        node_watch_extents(node);
    } else {
        for (size_t i = 0; i < found->count; i++)
            fd_close(&found->fds[i]);
    }
    free(found);
    return status;
}

nigh_status node_adopt_page(struct nigh_node *node, char *why, size_t why_bytes)
{
    uint64_t bytes = 0;
    void *memory;
    nigh_status status;

    node->page_fd = keeper_take(node->keeper, "page");
    status = node->page_fd < 0 ? NIGH_PROTOCOL : memfd_size(node->page_fd, &bytes);
    if (status == NIGH_OK && bytes < sizeof(*node->page))
        status = NIGH_PROTOCOL;
    if (status == NIGH_OK)
        status = memfd_reopen_read_only(node->page_fd, &node->page_read_fd);
    if (status == NIGH_OK)
        status =
            memfd_map(node->page_fd, sizeof(*node->page), MEMFD_WRITABLE | MEMFD_PREFAULT, &memory);
    if (status != NIGH_OK) {
        snprintf(why, why_bytes, "the former node's page was not kept");
        return status;
    }
    node->page = memory;
    for (uint32_t i = 0; i < LIMIT_LANES; i++)
        shared_store_relaxed(&node->page->lane[i].asleep, 0);
    shared_store_relaxed(&node->page->stopping, 0);
    shared_store_release(&node->page->incarnation, node->incarnation);
    return NIGH_OK;
}

/* ---- pools ---- */

static nigh_status node_adopt_pool(struct nigh_node *node, const struct pool_rules *rules)
{
    uint32_t number = node->pools.count;
    int fds[LIMIT_LANES];
    struct pool *pool;
    nigh_status status = NIGH_OK;

    for (uint32_t i = 0; i < node->settings.lanes; i++) {
        char name[KEEPER_NAME_BYTES];

        snprintf(name, sizeof(name), "index-%u-%u", number, i);
        fds[i] = keeper_take(node->keeper, name);
        if (fds[i] < 0)
            status = NIGH_PROTOCOL;
    }
    if (status == NIGH_OK)
        status = pools_adopt(&node->pools, rules, fds, &pool);
    for (uint32_t i = 0; i < node->settings.lanes && status != NIGH_OK; i++)
        fd_close(&fds[i]);
    return status;
}

nigh_status node_adopt_pools(struct nigh_node *node, char *why, size_t why_bytes)
{
    for (uint32_t i = 0; i < LIMIT_POOLS; i++) {
        struct pool_rules rules;
        nigh_status status;

        /* Pools are made in the order of their numbers: behind a gap there is nothing. */
        if (!state_get_pool(node->state, i, &rules))
            break;
        status = node_adopt_pool(node, &rules);
        if (status != NIGH_OK) {
            snprintf(why, why_bytes,
                     status == NIGH_VERSION
                         ? "the index of pool %s has a format that this nighd does not know; start "
                           "the nighd that made it, or stop the service to begin empty"
                         : "the index of pool %s cannot be taken over",
                     rules.name);
            return status;
        }
    }
    return NIGH_OK;
}

/* ---- sessions ---- */

/* The pidfd of a session's process if it still is that process; -1: it is not. Asked for before the
 * start time is compared, so that what it names cannot change any more. */
static int node_find_process(const struct state_session *record)
{
    int pidfd = (int)syscall(SYS_pidfd_open, record->pid, 0);

    if (pidfd >= 0 &&
        (node_process_start_time(record->pid) != record->start_time || node_pidfd_is_dead(pidfd)))
        fd_close(&pidfd);
    return pidfd;
}

static void node_fill_kept(struct nigh_node *node, struct node_session *session,
                           const struct state_session *record)
{
    struct lane_seat *seat = &session->seat;

    session->pool = node->pools.pools[record->pool];
    session->rights = record->rights;
    session->seat.version = (uint16_t)record->version;
    session->start_time = record->start_time;
    memcpy(session->token, record->token, sizeof(session->token));
    seat->pool = record->pool;
    seat->uid = record->uid;
    seat->pid = record->pid;
    seat->may_write = (record->rights & POOL_WRITE) != 0;
    seat->quota_bytes = record->quota_bytes;
    seat->quota_max_bytes = node->settings.session_quota_bytes;
    memcpy(seat->name, record->name, sizeof(seat->name) - 1);
    sessions_tell_quotas(&node->sessions, session);
}

/* A process that is not seen from here (pid 0) may be alive: its pins count until it comes back and
 * leaves, or the node stops. Wrong bytes would be worse than memory that stays in use. */
static bool node_adopt_session(struct nigh_node *node, uint32_t slot,
                               const struct state_session *record)
{
    struct node_session *session;
    char name[KEEPER_NAME_BYTES];
    int pidfd = -1, fd;

    snprintf(name, sizeof(name), "session-%llu", (unsigned long long)record->session_id);
    fd = keeper_take(node->keeper, name);
    if (fd < 0 || record->pool >= node->pools.count || slot >= node->sessions.capacity)
        goto drop;
    if (record->pid > 0) {
        pidfd = node_find_process(record);
        if (pidfd < 0)
            goto drop;
    }
    if (sessions_keep(&node->sessions, slot, record->session_id, fd, &session) != NIGH_OK)
        goto drop;
    node_fill_kept(node, session, record);
    session->seat.socket_fd = -1;
    session->pidfd = pidfd;
    return true;

drop:
    fd_close(&pidfd);
    fd_close(&fd);
    state_drop_session(node->state, slot);
    (void)keeper_remove(node->keeper, name);
    return false;
}

void node_adopt_sessions(struct nigh_node *node)
{
    uint32_t kept = 0, dropped = 0;

    node->sessions.next_id = shared_load_relaxed(&node->state->next_session_id);
    for (uint32_t i = 0; i < LIMIT_SESSIONS; i++) {
        const struct state_session *record = &node->state->sessions[i];

        if (atomic_load_explicit(&record->valid, memory_order_acquire) != 1)
            continue;
        if (node_adopt_session(node, i, record))
            kept++;
        else
            dropped++;
        if (node->sessions.next_id <= record->session_id)
            node->sessions.next_id = record->session_id + 1;
    }
    LOG_INFO("sessions of the former node", "kept=%u dropped=%u", kept, dropped);
}

/* Pools first: a session has one. Sessions before the first turn: what they hold then stays. */
nigh_status node_give_adopted(struct nigh_node *node, char *why, size_t why_bytes)
{
    for (uint32_t s = 0; s < node->sessions.capacity; s++) {
        struct node_session *session = &node->sessions.slots[s];

        for (uint32_t i = 0; i < node->lane_count && session->state == NODE_SESSION_KEPT; i++) {
            nigh_status status = lane_session_keep(node->lanes[i], &session->seat);

            if (status != NIGH_OK) {
                snprintf(why, why_bytes, "lane %u cannot take over a session: %s", i,
                         nigh_status_string(status));
                return status;
            }
        }
    }
    /* In all lanes before any of them runs: a session's quota is one over its lanes. */
    for (uint32_t i = 0; i < node->lane_count; i++)
        store_adopt_finish(lane_store(node->lanes[i]));
    return NIGH_OK;
}

/* ---- spilled objects ---- */

static uint64_t node_file_key(uint32_t pool, uint32_t lane, uint64_t generation)
{
    return hash_u64(generation ^ ((uint64_t)pool << 58) ^ ((uint64_t)lane << 52));
}

static bool node_file_is_wanted(void *context, uint32_t pool, uint32_t lane, uint32_t incarnation,
                                uint64_t generation)
{
    const uint64_t *value = table_find(context, node_file_key(pool, lane, generation));

    return value != NULL && *value == incarnation;
}

/* Calls visit for every spilled entry of the adopted indexes; returns how many there are. */
static uint64_t node_visit_spilled(struct nigh_node *node, struct table *table)
{
    uint64_t count = 0;

    for (uint32_t p = 0; p < node->pools.count; p++) {
        for (uint32_t lane = 0; lane < node->settings.lanes; lane++) {
            const struct index *index = &node->pools.pools[p]->indexes[lane].config.index;

            for (uint32_t i = 0; i < index->entry_count; i++) {
                const struct index_entry *entry = &index->entries[i];
                uint64_t word = shared_load_relaxed(&entry->word);

                if (index_word_state(word) != INDEX_SPILLED)
                    continue;
                count++;
                if (table != NULL)
                    (void)table_insert(table, node_file_key(p, lane, index_word_generation(word)),
                                       entry->incarnation);
            }
        }
    }
    return count;
}

void node_clean_spill(struct nigh_node *node)
{
    struct table table = {0};
    uint64_t spilled = node_visit_spilled(node, NULL);
    size_t removed;

    if (table_init(&table, spilled + 1, 0) != NIGH_OK) {
        LOG_WARN("spill files of a former node are left: no memory to tell which are wanted",
                 "do=\"free memory on the machine: the next start, or a clean stop, removes what "
                 "is not wanted\"");
        return;
    }
    (void)node_visit_spilled(node, &table);
    removed = disk_clean(node->settings.spill_dir, node_file_is_wanted, &table);
    table_fini(&table);
    if (removed > 0)
        LOG_INFO("spill files of a former node removed", "files=%zu wanted=%llu", removed,
                 (unsigned long long)spilled);
}

/* ---- the rest ---- */

/* What came back and is nobody's is not to come back again. `all`: nor what was taken. */
void node_forget_kept(struct nigh_node *node, bool all)
{
    for (size_t i = 0; i < node->keeper->count; i++) {
        struct keeper_item *item = &node->keeper->items[i];

        if (item->name[0] == '\0' || (item->fd < 0 && !all))
            continue;
        (void)keeper_remove(node->keeper, item->name);
        item->name[0] = '\0';
        fd_close(&item->fd);
    }
}

void node_adopted(struct nigh_node *node)
{
    node->state->format = STATE_FORMAT;
    node->state->incarnation = node->incarnation;
    node->state->restarts++;
    node->restarts = node->state->restarts;
    node_forget_kept(node, false);
    LOG_INFO("went on with the memory of a former node", "restarts=%llu pools=%u",
             (unsigned long long)node->restarts, node->pools.count);
}
