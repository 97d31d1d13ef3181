/* SPDX-License-Identifier: Apache-2.0 */
/* See world.h. Nodes: their memory, their lanes, and how their lives begin and end. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "memory/extent_internal.h"
#include "memory/memfd.h"

#define PAGE         4096u
#define SPARE_SETS   24u
#define EXTENT_BYTES LIMIT_EXTENT_BYTES_MIN
#define KEPT_EXTENTS 2u /* of a lane, besides its own: memory of those that came later goes */

/* ---- memory, kept between worlds ------------------------------------------ */

/* Making memory takes longer than most runs. */
struct spare_set {
    struct extent_set *set;
    uint32_t lanes, extents;
};

static struct spare_set spare_sets[SPARE_SETS];

static struct extent_set *make_set(uint32_t lanes, uint32_t extents)
{
    struct extent_set *set = aligned_alloc(_Alignof(struct extent_set), sizeof(*set));
    void *arena;

    NIGH_ASSERT(set != NULL);
    NIGH_ASSERT(memfd_reserve(LIMIT_EXTENTS * EXTENT_BYTES, &arena) == NIGH_OK);
    memset(set, 0, sizeof(*set));
    set->arena = arena;
    set->extent_bytes = EXTENT_BYTES;
    set->extent_shift = (uint32_t)__builtin_ctzll(EXTENT_BYTES);
    set->lanes = lanes;
    extent_set_begin(set);
    for (uint32_t n = 0; n < lanes * extents; n++) {
        uint32_t lane = n % lanes, number = extent_lane_first(set, lane) + n / lanes;

        NIGH_ASSERT(extent_make(set, number, false) == NIGH_OK);
        set->memory_bytes += EXTENT_BYTES;
    }
    for (uint32_t lane = 0; lane < lanes; lane++) {
        set->lane[lane].used = extents;
        extent_recount(set, lane);
    }
    return set;
}

static struct extent_set *take_set(uint32_t lanes, uint32_t extents)
{
    for (uint32_t n = 0; n < SPARE_SETS; n++) {
        struct spare_set *spare = &spare_sets[n];
        struct extent_set *set = spare->set;

        if (set != NULL && spare->lanes == lanes && spare->extents == extents) {
            spare->set = NULL;
            return set;
        }
    }
    return make_set(lanes, extents);
}

/* Memory that went elsewhere comes back: the set is as it was made. */
static void mend_lane(struct extent_set *set, uint32_t lane, uint32_t extents)
{
    uint32_t first = extent_lane_first(set, lane), from = first + extents;

    for (uint32_t number = first; number < first + set->lane[lane].used; number++) {
        atomic_store(&set->extents[number].owner, EXTENT_NO_OWNER);
    }
    for (uint32_t pool = 0; pool < LIMIT_POOLS; pool++) {
        extent_forget(set, lane, pool);
    }
    for (uint32_t number = first; number < first + extents; number++) {
        if (set->extents[number].present) {
            continue;
        }
        while (!set->extents[from].present) {
            from++;
        }
        NIGH_ASSERT(from < first + set->lane[lane].used);
        NIGH_ASSERT(extent_move(set, from, number) == NIGH_OK);
        if (from >= first + extents + KEPT_EXTENTS) {
            madvise(extent_address(set, from), set->extent_bytes, MADV_DONTNEED);
        }
    }
    set->lane[lane].used = extents;
    extent_recount(set, lane);
}

static void give_set(struct extent_set *set, uint32_t extents)
{
    static uint32_t next;
    uint32_t place = 0;

    for (uint32_t lane = 0; lane < set->lanes; lane++) {
        mend_lane(set, lane, extents);
    }
    while (place < SPARE_SETS && spare_sets[place].set != NULL) {
        place++;
    }
    if (place == SPARE_SETS) {
        place = next++ % SPARE_SETS;
        extent_set_destroy(spare_sets[place].set);
    }
    spare_sets[place] = (struct spare_set){set, set->lanes, extents};
}

static bool guarded_now;

void node_guard(struct world *world, uint32_t rank, bool guarded)
{
    const struct extent_set *set = world->nodes[rank].set;
    int access = guarded ? PROT_READ : PROT_READ | PROT_WRITE;

    for (uint32_t n = 0; n < LIMIT_EXTENTS; n++) {
        if (set->extents[n].present) {
            NIGH_ASSERT(mprotect(extent_address(set, n), set->extent_bytes, access) == 0);
        }
    }
    guarded_now = guarded;
}

bool node_is_guarded(void)
{
    return guarded_now;
}

void node_forget_memory(void)
{
    for (uint32_t n = 0; n < SPARE_SETS; n++) {
        extent_set_destroy(spare_sets[n].set);
        spare_sets[n].set = NULL;
    }
}

/* ---- lanes ---------------------------------------------------------------- */

static void on_complete(void *context, uint32_t session, const struct session_cqe *cqe)
{
    struct world_lane *lane = context;
    struct world *world = lane->world;
    struct world_op *op = &world->ops[cqe->cookie % WORLD_OPS];

    if (world->nodes[lane->node].ending) {
        return; /* nobody takes it any more */
    }
    WORLD_CHECK(world,
                cqe->cookie < WORLD_OPS && op->kind != 0 && op->node == lane->node &&
                    op->session == session && op->lane == lane->number && !op->ended,
                "node %u completed something that is not under way, or twice", lane->node);
    NIGH_ASSERT(world->ended_count < ARRAY_LENGTH(world->ended));
    op->ended = true;
    op->cqe = *cqe;
    if (cqe->status == NIGH_NO_QUORUM && world->views.some) {
        op->cqe.status = NIGH_TIMEOUT; /* why it was late */
        world->totals->cut_off++;
    }
    world->ended[world->ended_count++] = cqe->cookie;
}

static void on_event(void *context, uint32_t session, const struct session_event *event)
{
    struct world_lane *lane = context;
    struct world_node *node = &lane->world->nodes[lane->node];

    if ((event->kind_meta & 0xff) == NIGH_EVENT_CONFLICT && !node->ending) {
        client_lost(lane->world, lane->node,
                    bytes_key(lane->world, node->sessions[session].pool, event->id));
    }
}

static void on_expel(void *context, uint32_t session, const char *why)
{
    struct world_lane *lane = context;

    world_fail(lane->world, "node %u expelled session %u: %s", lane->node, session, why);
}

static uint64_t on_wall(void *context)
{
    struct world_lane *lane = context;

    return lane->world->now_us * 1000;
}

static bool on_disk(void *context, const struct store_disk_job *job)
{
    struct world_lane *lane = context;

    return disk_submit(lane->disk, job);
}

static void on_disk_forget(void *context, uint32_t pool, uint64_t generation, uint32_t incarnation,
                           bool again)
{
    struct world_lane *lane = context;

    (void)again; /* this disk does everything in its order */
    disk_forget(lane->disk, pool, generation, incarnation);
}

/* A pool of the last life, or an empty one. */
static void start_pool(struct world *world, struct world_node *node, struct world_lane *lane,
                       uint32_t which)
{
    uint64_t bytes = index_size_bytes(world->entries);
    uint32_t number = node->pool_number[which];
    struct store_pool_config pool = {
        .pool = number,
        .owner_uid = WORLD_UID + which,
        .strict = world->kind.strict[which],
        .quota_bytes = (world->kind.pool_quota[which] + node->lanes - 1) / node->lanes,
    };

    if (number == WORLD_NO_POOL) {
        return;
    }
    if (node->kept) {
        NIGH_ASSERT(index_attach(lane->index_memory[number], bytes, &pool.index) == NIGH_OK);
        NIGH_ASSERT(store_pool_adopt(lane->store, &pool) == NIGH_OK);
        return;
    }
    lane->index_memory[number] = aligned_alloc(PAGE, bytes);
    NIGH_ASSERT(lane->index_memory[number] != NULL);
    memset(lane->index_memory[number], 0, bytes);
    index_format(lane->index_memory[number], number, lane->number, node->lanes, world->entries,
                 &pool.index);
    NIGH_ASSERT(store_pool_add(lane->store, &pool) == NIGH_OK);
}

static void start_store(struct world *world, struct world_node *node, struct world_lane *lane)
{
    struct store_config config = {
        .extents = node->set,
        .lane = lane->number,
        .lanes = node->lanes,
        .rank = lane->node,
        .incarnation = node->incarnation,
        .max_blocks = 8 * world->entries + 1024,
        .spill_bytes = world->kind.spills ? world->kind.spill_bytes : UINT64_MAX,
        .max_lane_pins = LIMIT_LANE_PINS,
        .wall_ns = on_wall,
        .shell = {.context = lane, .complete = on_complete, .event = on_event, .expel = on_expel},
    };

    if (world->kind.spills) {
        config.shell.disk = on_disk;
        config.shell.disk_forget = on_disk_forget;
        if (lane->disk == NULL) {
            lane->disk = disk_create(lane);
        }
        disk_clean(lane->disk, !node->kept);
    }
    NIGH_ASSERT(store_create(&config, &lane->store) == NIGH_OK);
    for (uint32_t n = 0; n < world->kind.pools; n++) {
        start_pool(world, node, lane, n);
    }
}

/* What the cluster calls a pool: of its name and rules. */
static uint64_t cluster_pool(uint32_t which)
{
    return UINT64_C(0x706f6f6c) + which;
}

static void start_lane(struct world *world, struct world_node *node, struct world_lane *lane)
{
    char address[FABRIC_ADDRESS_BYTES];
    struct exchange_config config = world->exchange;
    struct exchange_calls users;

    start_store(world, node, lane);
    NIGH_ASSERT(sim_fabric(world->sim, lane->node, lane->number, &lane->fabric) == NIGH_OK);
    snprintf(address, sizeof(address), "%u:%u", lane->node, lane->number);
    NIGH_ASSERT(fabric_listen(lane->fabric, address) == NIGH_OK);
    config.members = &node->members;
    config.fabric = lane->fabric;
    config.store = lane->store;
    config.extents = node->set;
    config.lane = lane->number;
    config.lanes = node->lanes;
    config.incarnation = node->incarnation;
    config.seed = world->options.seed ^ ((uint64_t)lane->node << 32 | lane->number);
    if (world->calls != NULL) {
        caller_lane_starts(lane, &users, &config);
        config.users = &users;
    }
    NIGH_ASSERT(exchange_create(&config, &lane->exchange) == NIGH_OK);
    for (uint32_t n = 0; n < world->kind.pools; n++) {
        if (node->pool_number[n] != WORLD_NO_POOL) {
            NIGH_ASSERT(exchange_pool_add(lane->exchange, node->pool_number[n], cluster_pool(n)) ==
                        NIGH_OK);
        }
    }
}

static void count_lane(struct world *world, struct world_node *node, struct world_lane *lane)
{
    struct world_totals *totals = world->totals;
    struct exchange_stats stats;
    nigh_node_stats store = {0};

    exchange_stats(lane->exchange, &stats);
    store_stats(lane->store, &store);
    totals->pulls_done += stats.pulls_done;
    totals->pulls_reused += stats.pulls_reused;
    totals->pulls_retried += stats.pulls_retried;
    totals->inlines += stats.served_inline;
    totals->streams += stats.served_streams;
    totals->loans += stats.served_loans;
    totals->partial += stats.served_partial;
    totals->sent_on += stats.sent_on;
    totals->pushes += stats.served_pushes;
    totals->frames_sent += stats.calls_sent;
    totals->frames_written += stats.calls_written;
    totals->rings_full += stats.rings_full;
    totals->overdue += stats.loans_overdue;
    totals->conflicts += stats.conflicts;
    totals->news_lost += stats.news_lost;
    totals->evictions += store.evictions;
    node->evictions += store.evictions;
    WORLD_CHECK(world, stats.crc_failures == 0 || world->is_spoiling,
                "node %u took bytes with a wrong checksum: a loan's memory was used again",
                lane->node);
}

/* ---- lives begin ---------------------------------------------------------- */

void node_start(struct world *world, uint32_t rank)
{
    struct world_node *node = &world->nodes[rank];

    NIGH_ASSERT(!node->alive);
    node->incarnation++;
    node->alive = true;
    node->paused = false;
    node->slow_us = 0;
    node->turn_us = 0;
    if (!node->kept) {
        node->set = take_set(node->lanes, world->extents);
    }
    for (uint32_t n = 0; n < node->lanes; n++) {
        struct world_lane *lane = &node->lane[n];

        lane->world = world;
        lane->node = rank;
        lane->number = n;
        start_lane(world, node, lane);
    }
    view_node_starts(world, rank);
    /* Those who are still there first: what they hold stays theirs. */
    for (uint32_t n = 0; n < WORLD_SESSIONS; n++) {
        if (node->kept && node->sessions[n].memory != NULL) {
            client_resume(world, rank, n);
        }
    }
    for (uint32_t n = 0; n < node->lanes && node->kept; n++) {
        store_adopt_finish(node->lane[n].store); /* as a node does: before any lane serves */
    }
    for (uint32_t n = 0; n < WORLD_SESSIONS; n++) {
        if (node->sessions[n].memory == NULL) {
            client_attach(world, rank, n);
        }
    }
    control_start(world, rank);
    detect_node_starts(world, rank);
    caller_node_starts(world, rank);
    if (node->kept) {
        client_seal_again(world, rank);
    }
    node->due_us = world->now_us;
    world->totals->warm += node->kept ? 1 : 0;
    world_say(world, "node %u starts, incarnation %u, %u lanes%s", rank, node->incarnation,
              node->lanes, node->kept ? ", with the memory of its last life" : "");
    node->kept = false;
}

/* ---- lives end ------------------------------------------------------------ */

static void drop_memory(struct world *world, struct world_node *node)
{
    for (uint32_t n = 0; n < node->lanes; n++) {
        for (uint32_t i = 0; i < WORLD_POOLS; i++) {
            free(node->lane[n].index_memory[i]);
            node->lane[n].index_memory[i] = NULL;
        }
    }
    give_set(node->set, world->extents);
    node->set = NULL;
}

static void end_lane(struct world *world, struct world_node *node, struct world_lane *lane)
{
    count_lane(world, node, lane);
    exchange_destroy(lane->exchange);
    caller_lane_ends(lane);
    fabric_destroy(lane->fabric);
    store_destroy(lane->store);
    lane->exchange = NULL;
    lane->fabric = NULL;
    lane->store = NULL;
}

/* A process that was killed does none of what exchange_destroy does to the indexes. */
static void end_lane_at_once(struct world *world, struct world_node *node, struct world_lane *lane)
{
    uint64_t bytes = index_size_bytes(world->entries);
    void *copies[WORLD_POOLS] = {NULL};

    for (uint32_t i = 0; i < WORLD_POOLS; i++) {
        if (lane->index_memory[i] != NULL) {
            copies[i] = malloc(bytes);
            NIGH_ASSERT(copies[i] != NULL);
            memcpy(copies[i], lane->index_memory[i], bytes);
        }
    }
    end_lane(world, node, lane);
    for (uint32_t i = 0; i < WORLD_POOLS; i++) {
        if (copies[i] != NULL) {
            memcpy(lane->index_memory[i], copies[i], bytes);
            free(copies[i]);
        }
    }
}

static void end_node(struct world *world, uint32_t rank, bool kept, bool in_order)
{
    struct world_node *node = &world->nodes[rank];

    client_settle(world);
    detect_node_ends(world, rank, in_order);
    agreeing_node_ends(world, rank, in_order);
    caller_node_ends(world, rank);
    node->ending = true;
    for (uint32_t n = 0; n < node->lanes; n++) {
        if (node->lane[n].disk != NULL) {
            disk_drop_queue(node->lane[n].disk);
        }
    }
    for (uint32_t n = 0; n < WORLD_SESSIONS; n++) {
        if (kept) {
            client_wait(world, rank, n);
        } else {
            client_detach(world, rank, n);
        }
    }
    for (uint32_t n = 0; n < node->lanes; n++) {
        if (kept && !in_order) {
            end_lane_at_once(world, node, &node->lane[n]);
        } else {
            end_lane(world, node, &node->lane[n]);
        }
    }
    for (uint32_t n = 0; kept && n < WORLD_SESSIONS; n++) {
        if (kind_dice(world, 25)) {
            client_forget(world, rank, n);
        }
    }
    node->kept = kept;
    node->alive = node->ending = false;
    if (!kept) {
        drop_memory(world, node);
    }
}

static void life_ends(struct world *world, uint32_t rank, enum world_moment own,
                      enum world_moment others)
{
    world_moment(world, rank, own);
    for (uint32_t n = 0; n < world->node_count; n++) {
        if (n != rank && world->nodes[n].alive) {
            world_moment(world, n, others);
        }
    }
}

void node_crash(struct world *world, uint32_t rank, bool kept)
{
    world_say(world, "node %u crashes%s", rank, kept ? "; its memory stays" : "");
    life_ends(world, rank, MOMENT_CRASH, MOMENT_PEER_CRASH);
    sim_crash(world->sim, rank);
    control_crash(world, rank);
    end_node(world, rank, kept, false);
    world->was_forgetful = true;
    world->was_lossy = world->was_lossy || !kept;
    world->copies_went = true;
}

void node_stop(struct world *world, uint32_t rank, bool kept)
{
    world_say(world, "node %u says goodbye%s", rank, kept ? "; its memory stays" : "");
    life_ends(world, rank, MOMENT_STOP, MOMENT_PEER_STOP);
    control_goodbye(world, rank);
    end_node(world, rank, kept, true);
    world->was_forgetful = true;
    world->was_lossy = world->was_lossy || !kept;
    world->copies_went = true;
}

void node_fini(struct world *world, uint32_t rank)
{
    struct world_node *node = &world->nodes[rank];

    if (node->alive) {
        end_node(world, rank, false, true);
    } else if (node->kept) {
        for (uint32_t n = 0; n < WORLD_SESSIONS; n++) {
            client_forget(world, rank, n);
        }
        drop_memory(world, node);
    }
    for (uint32_t n = 0; n < node->lanes; n++) {
        disk_destroy(node->lane[n].disk);
    }
    free(node->sides);
}
