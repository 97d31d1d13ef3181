/* SPDX-License-Identifier: Apache-2.0 */
/* Clients: sessions that submit and hold pins like libnigh's, over memory in this process. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "object/store_internal.h"
#include "object/store_memory.h"
#include "object/store_pool.h"
#include "object/store_remote.h"
#include "object/store_session.h"

#define SLACK_US 20000u /* a get may end later than its deadline by this */

static void submit(struct world *world, struct world_op *op, const struct session_sqe *sqe);

/* ---- sessions ------------------------------------------------------------- */

/* As a submission would, which the lives that find the memory of the last cannot have yet. */
static void listen_for_conflicts(struct store *store, uint32_t number)
{
    struct store_session *session = store->sessions[number];

    session->hears_conflicts = true;
    list_push_back(&session->pool->subscribers, &session->subscriber_place);
}

/* A session opens in the lanes of its node: for the first time, or again. */
static void open_session(struct world *world, uint32_t rank, uint32_t number)
{
    struct world_node *node = &world->nodes[rank];
    struct world_session *session = &node->sessions[number];

    atomic_store(&session->quota_used, 0);
    for (uint32_t n = 0; n < node->lanes; n++) {
        struct store_session_config config = {
            .session = number,
            .session_id = session->id,
            .pool = node->pool_number[session->pool],
            .uid = WORLD_UID + session->pool,
            .pid = (int32_t)(1000 + number),
            .name = "client",
            .may_write = session->may_write,
            .quota_bytes = world->kind.session_quota,
            .quota_used = &session->quota_used,
            .front = session->front,
            .lane = session->lane[n] = session_lane_of(session->memory, n),
            .chunks = session->chunks,
        };

        NIGH_ASSERT(store_session_open(node->lane[n].store, &config) == NIGH_OK);
        listen_for_conflicts(node->lane[n].store, number);
    }
}

void client_attach(struct world *world, uint32_t rank, uint32_t number)
{
    struct world_node *node = &world->nodes[rank];
    struct world_session *session = &node->sessions[number];
    uint64_t bytes = session_memory_bytes(node->lanes);
    bool is_last = number == WORLD_SESSIONS - 1;

    memset(session, 0, sizeof(*session));
    session->memory = calloc(1, bytes);
    NIGH_ASSERT(session->memory != NULL);
    session->front = session_front_of(session->memory);
    session->chunks = session_chunks_of(session->memory, node->lanes);
    session->id = ++world->next_session;
    session->pool = is_last && node->pool_number[1] != WORLD_NO_POOL ? 1 : 0;
    session->may_write = !(is_last && session->pool == 0 && world->kind.has_guest);
    session->steps = world->calm ? 0 : world->steps_of_session;
    session->next_us =
        session->steps > 0 ? world->now_us + world_below(world, world->gap_us) : WORLD_NEVER;
    open_session(world, rank, number);
}

/* What was claimed is not sealed: what others sealed beside the claim is dropped for nothing. */
static void give_up(struct world *world, const struct world_op *op)
{
    if (world->puts[op->serial].exclusive && world->keys_a_pool > 0) {
        world->given_up[op->key] = true;
    }
}

/* Whoever might have deleted something is not there to be told: it may come later. */
static void drop_op(struct world *world, struct world_op *op)
{
    if (op->result != NULL) {
        *op->result = NIGH_PEER_LOST;
    }
    if (op->kind == OP_DELETE && world->keys_a_pool > 0) {
        world->deleted_us[op->key] = WORLD_NEVER;
    }
    if (op->kind == OP_CREATE || op->kind == OP_SEAL) {
        give_up(world, op);
    }
    op->kind = 0;
}

static void drop_pins(struct world *world, uint32_t rank, uint32_t number)
{
    for (uint32_t n = 0; n < world->pins_used; n++) {
        struct world_pin *pin = &world->pins[n];

        pin->used = pin->used && !(pin->node == rank && pin->session == number);
    }
}

void client_forget(struct world *world, uint32_t rank, uint32_t number)
{
    struct world_session *session = &world->nodes[rank].sessions[number];

    for (uint32_t n = 0; n < world->ops_used; n++) {
        struct world_op *op = &world->ops[n];

        if (op->kind != 0 && op->node == rank && op->session == number) {
            drop_op(world, op);
        }
    }
    drop_pins(world, rank, number);
    free(session->memory);
    memset(session, 0, sizeof(*session));
    session->next_us = WORLD_NEVER;
}

/* It dies: what it waits for has no end that it would see. */
void client_detach(struct world *world, uint32_t rank, uint32_t number)
{
    struct world_node *node = &world->nodes[rank];

    client_settle(world);
    caller_forget(world, rank, number);
    for (uint32_t n = 0; n < node->lanes; n++) {
        node->lane[n].quiet_until_us = 0;
        store_session_close(node->lane[n].store, number);
    }
    client_forget(world, rank, number);
}

/* What it created it will seal; what waited it does not know the end of. */
void client_wait(struct world *world, uint32_t rank, uint32_t number)
{
    for (uint32_t n = 0; n < world->ops_used; n++) {
        struct world_op *op = &world->ops[n];

        if (op->kind == 0 || op->node != rank || op->session != number) {
            continue;
        }
        if (op->kind == OP_SEAL) {
            op->resumes = true;
            op->ended = false;
        } else {
            drop_op(world, op);
        }
    }
}

void client_resume(struct world *world, uint32_t rank, uint32_t number)
{
    open_session(world, rank, number);
}

static void submit_seal(struct world *world, struct world_op *op)
{
    struct session_sqe sqe = {.op = SESSION_OP_SEAL, .ref = op->ref, .argument = 50000};

    if (world->puts[op->serial].sealing_us == 0) {
        world->puts[op->serial].sealing_us = world->now_us;
    }
    op->submitted = true;
    submit(world, op, &sqe);
}

void client_seal(struct world *world, uint32_t number, uint32_t serial)
{
    struct world_op *op = &world->ops[number];

    if (op->kind != OP_SEAL || op->serial != serial || op->submitted ||
        !world->nodes[op->node].alive) {
        return; /* its client is dead, or goes on when its node does */
    }
    if (world->nodes[op->node].paused) {
        world_at(world, 1000, EVENT_SEAL, number, 0, serial);
        return;
    }
    submit_seal(world, op);
}

/* After all have resumed. */
void client_seal_again(struct world *world, uint32_t rank)
{
    for (uint32_t n = 0; n < world->ops_used; n++) {
        struct world_op *op = &world->ops[n];

        if (op->kind == OP_SEAL && op->resumes && op->node == rank && !op->ended) {
            world->totals->resumed++;
            submit_seal(world, op);
        }
    }
    for (uint32_t n = 0; n < world->pins_used; n++) {
        world->totals->readers_kept += world->pins[n].used && world->pins[n].node == rank;
    }
}

uint32_t client_for(const struct world *world, uint32_t rank, uint32_t key)
{
    const struct world_node *node = &world->nodes[rank];

    for (uint32_t n = 0; n < WORLD_SESSIONS; n++) {
        if (node->sessions[n].pool == world_pool_of(world, key) && node->sessions[n].may_write) {
            return n;
        }
    }
    return WORLD_SESSIONS;
}

/* ---- operations ----------------------------------------------------------- */

static struct world_op *take_op(struct world *world, uint32_t node, uint32_t session,
                                enum world_op_kind kind, uint32_t key)
{
    for (uint32_t n = 0; n < WORLD_OPS; n++) {
        struct world_op *op = &world->ops[n];

        if (op->kind == 0) {
            uint8_t id[LIMIT_ID_BYTES];

            bytes_id(world, key, id);
            world->ops_used = max_u32(world->ops_used, n + 1);
            *op = (struct world_op){
                .kind = kind,
                .node = node,
                .session = session,
                .lane = world_lane_of(world, node, hash_id20(id))->number,
                .key = key,
                .incarnation = world->nodes[node].incarnation,
                .begun_us = world->now_us,
                .deadline_us = WORLD_NEVER,
            };
            return op;
        }
    }
    return NULL;
}

static void submit(struct world *world, struct world_op *op, const struct session_sqe *sqe)
{
    struct session_sqe copy = *sqe;

    copy.cookie = (uint32_t)(op - world->ops);
    world->nodes[op->node].due_us = world->now_us;
    world->nodes[op->node].lane[op->lane].quiet_until_us = 0;
    store_submit(world->nodes[op->node].lane[op->lane].store, op->session, &copy, world->now_us);
}

void client_put(struct world *world, uint32_t node, uint32_t session, uint32_t key,
                uint64_t data_size, uint32_t meta_size)
{
    struct session_sqe sqe = {
        .op = SESSION_OP_CREATE,
        .name_size = (uint16_t)bytes_name_size(world, key),
        .data_size = data_size,
        .meta_size = meta_size,
        .argument = 50000,
    };
    /* Nothing is drawn for it. */
    bool exclusive = world->exclusive && hash_u64(world->put_count) % 2 == 0;
    struct world_op *op;

    if (world->put_count == world->max_puts ||
        (op = take_op(world, node, session, OP_CREATE, key)) == NULL) {
        return;
    }
    op->serial = ++world->put_count;
    world->puts[op->serial] = (struct world_put){.key = key,
                                                 .node = node,
                                                 .data_size = data_size,
                                                 .meta_size = meta_size,
                                                 .epoch = world->nodes[node].adopted.epoch,
                                                 .exclusive = exclusive};
    op->exclusive = exclusive;
    sqe.flags = exclusive ? SESSION_FLAG_EXCLUSIVE : 0;
    world->totals->claims += exclusive;
    world->totals->puts++;
    bytes_id(world, key, sqe.id);
    world_say(world, "node %u: client %u puts key %u, %llu bytes%s: put %u", node, session, key,
              (unsigned long long)data_size, exclusive ? ", as the only one" : "", op->serial);
    submit(world, op, &sqe);
}

struct world_op *client_get(struct world *world, uint32_t node, uint32_t session, uint32_t key,
                            uint64_t timeout_us, uint8_t flags)
{
    struct session_sqe sqe = {.op = SESSION_OP_GET, .flags = flags, .argument = timeout_us};
    struct world_op *op = take_op(world, node, session, OP_GET, key);

    if (op != NULL) {
        op->deadline_us = world->now_us + timeout_us;
        bytes_id(world, key, sqe.id);
        world->totals->gets++;
        world->totals->gets_passing += flags != 0;
        world_say(world, "node %u: client %u gets key %u, within %.3f ms%s", node, session, key,
                  (double)timeout_us / 1000, flags != 0 ? ", without a copy" : "");
        world_moment(world, node, MOMENT_WANT);
        submit(world, op, &sqe);
    }
    return op;
}

bool client_see(struct world *world, uint32_t node, uint32_t key, struct store_sight *sight)
{
    uint32_t number = world->nodes[node].pool_number[world_pool_of(world, key)];
    uint8_t id[LIMIT_ID_BYTES];
    uint64_t hash;

    if (number == WORLD_NO_POOL) {
        return false;
    }
    bytes_id(world, key, id);
    hash = hash_id20(id);
    return store_see(world_lane_of(world, node, hash)->store, number, id, hash, sight);
}

typedef uint32_t serial_function(struct world *world, uint32_t node, uint32_t key,
                                 const uint8_t *bytes, const struct bytes_shape *shape);

static uint32_t serial_of(struct world *world, uint32_t node, uint32_t key,
                          const struct store_sight *sight, serial_function *look)
{
    struct bytes_shape shape = {sight->data_size, sight->meta_size, sight->name_size};

    if (!sight->in_memory) {
        return disk_serial_of(world_lane_of(world, node, sight->hash)->disk, sight, key);
    }
    return look(world, node, key, extent_bytes_at(world->nodes[node].set, sight->offset), &shape);
}

static uint32_t serial_by(struct world *world, uint32_t node, uint32_t key, serial_function *look)
{
    struct store_sight sight;

    return client_see(world, node, key, &sight) ? serial_of(world, node, key, &sight, look) : 0;
}

uint32_t client_serial_here(struct world *world, uint32_t node, uint32_t key)
{
    return serial_by(world, node, key, bytes_serial);
}

uint32_t client_glance_here(struct world *world, uint32_t node, uint32_t key)
{
    return serial_by(world, node, key, bytes_glance);
}

/* The birth that lies at `offset` belongs to the put: now, and wherever it is seen. */
static void check_birth(struct world *world, uint32_t node, uint32_t key, uint32_t serial,
                        uint64_t offset)
{
    struct world_put *put = &world->puts[serial];
    struct store_sight sight;

    if (!client_see(world, node, key, &sight) || sight.offset != offset) {
        return;
    }
    if (!put->birth_known) {
        put->birth = sight.birth;
        put->birth_known = true;
    }
    WORLD_CHECK(world, birth_equal(&put->birth, &sight.birth),
                "node %u, key %u: the bytes of put %u under another birth", node, key, serial);
}

struct world_op *client_delete(struct world *world, uint32_t node, uint32_t session, uint32_t key)
{
    struct session_sqe sqe = {.op = SESSION_OP_DELETE};
    struct world_op *op = take_op(world, node, session, OP_DELETE, key);

    if (op != NULL) {
        bytes_id(world, key, sqe.id);
        op->serial = client_serial_here(world, node, key);
        world->totals->deletes++;
        world_say(world, "node %u: client %u deletes key %u", node, session, key);
        world_moment(world, node, MOMENT_DELETE);
        submit(world, op, &sqe);
    }
    return op;
}

void client_evict(struct world *world, uint32_t node, uint32_t lane, uint64_t bytes)
{
    struct session_sqe sqe = {.op = SESSION_OP_EVICT, .argument = bytes};
    for (uint32_t n = 0; n < world->kind.pools; n++) {
        struct world_op *op;

        if (n > 0 && world->nodes[node].pool_number[1] == WORLD_NO_POOL) {
            break;
        }
        op = take_op(world, node, n == 0 ? 0 : WORLD_SESSIONS - 1, OP_OTHER, 0);
        if (op != NULL) {
            op->lane = lane;
            submit(world, op, &sqe);
        }
    }
}

static void cancel_some(struct world *world, uint32_t node, uint32_t session)
{
    for (uint32_t n = 0; n < world->ops_used; n++) {
        struct world_op *op = &world->ops[n];

        if (op->kind == OP_GET && !op->ended && op->node == node && op->session == session) {
            struct session_sqe sqe = {.op = SESSION_OP_CANCEL, .argument = n};
            struct world_op *cancel = take_op(world, node, session, OP_OTHER, op->key);

            if (cancel != NULL) {
                world->totals->cancels++;
                world_say(world, "node %u: client %u cancels its get of key %u", node, session,
                          op->key);
                world_moment(world, node, MOMENT_CANCEL);
                submit(world, cancel, &sqe);
            }
            return;
        }
    }
}

static uint64_t some_timeout_us(struct world *world)
{
    static const uint64_t most[] = {1, 1000, 20000, 200000, 2000000};

    return world_below(world, most[world_below(world, world->storm ? 3 : ARRAY_LENGTH(most))]);
}

static uint64_t some_size(struct world *world)
{
    switch (world->sizes) {
    case SIZES_SAME: return world->size_max;
    case SIZES_EDGE: return EXCHANGE_CROSSOVER - 64 + world_below(world, 64);
    case SIZES_MIXED: break;
    }
    return 8 + world_below(world, world->size_max);
}

/* Whether it is to leave no copy. Where none is to, nothing is drawn. */
static uint8_t some_flags(struct world *world)
{
    bool passes = world->passing_percent != 0 && world_dice(world, world->passing_percent);

    return passes ? SESSION_FLAG_NO_COPY : 0;
}

void client_step(struct world *world, uint32_t node, uint32_t session)
{
    struct world_session *client = &world->nodes[node].sessions[session];
    uint32_t first = client->pool * world->keys_a_pool;
    uint32_t key = first + (uint32_t)world_below(world, world->keys_a_pool);
    uint64_t lot = world_below(world, 100);

    if (world->nodes[node].paused) { /* its ring fills; so does the node's time */
        client->next_us = world->now_us + 1000;
        return;
    }
    client->next_us = --client->steps == 0 || world->calm
                          ? WORLD_NEVER
                          : world->now_us + 1 + world_below(world, world->gap_us);
    if (lot < 25) {
        client_put(world, node, session, key, some_size(world),
                   world->sizes != SIZES_MIXED ? 0
                                               : (uint32_t)world_below(world, WORLD_META_BYTES));
    } else if (lot < 75) {
        uint64_t timeout_us = some_timeout_us(world);

        (void)client_get(world, node, session, key, timeout_us, some_flags(world));
    } else if (lot < 85) {
        uint64_t timeout_us = some_timeout_us(world);

        world->totals->gets_many++;
        for (uint32_t n = 0; n < 4; n++) {
            (void)client_get(world, node, session, first + (key + n) % world->keys_a_pool,
                             timeout_us, some_flags(world));
        }
    } else if (lot < 95) {
        (void)client_delete(world, node, session, key);
    } else {
        cancel_some(world, node, session);
    }
}

/* ---- ends ----------------------------------------------------------------- */

/* What a client that may only read is told, of what it wants to change. */
static bool is_refused(struct world *world, const struct world_op *op)
{
    const struct world_session *session = &world->nodes[op->node].sessions[op->session];
    bool denied = op->cqe.status == NIGH_DENIED;

    WORLD_CHECK(world, denied == !session->may_write, "node %u: session %u %s write", op->node,
                op->session, denied ? "may not" : "may");
    world->totals->denied += denied ? 1 : 0;
    return denied;
}

/* Who creates exclusively hears in time how it is, or that its home is not to be reached. */
static void check_claim(struct world *world, const struct world_op *op)
{
    uint64_t begun_us = max_u64(op->begun_us, world->nodes[op->node].awake_us);
    nigh_status status = (nigh_status)op->cqe.status;

    WORLD_CHECK(world, world->now_us <= begun_us + 50000 + LIMIT_CLAIM_US + SLACK_US,
                "node %u: an exclusive create of key %u took %llu us", op->node, op->key,
                (unsigned long long)(world->now_us - op->begun_us));
    world->totals->claims_ok += status == NIGH_OK;
    world->totals->claims_taken += status == NIGH_EXISTS;
    world->totals->claims_late += status == NIGH_PEER_LOST || status == NIGH_TIMEOUT;
}

/* A home that nobody answers for, of what is created exclusively. */
static bool is_away(const struct world *world, const struct world_op *op)
{
    return world->puts[op->serial].exclusive &&
           (op->cqe.status == NIGH_PEER_LOST || op->cqe.status == NIGH_TIMEOUT);
}

/* What was sealed here is dropped, since another node's was first. That was not to happen to what
 * was the only one, while nobody forgets and nobody is thought dead. */
/* What is just being dropped here: nobody else sees it, if it was to go when it was read back. */
static uint32_t serial_dropped(struct world *world, uint32_t node, uint32_t key)
{
    uint32_t number = world->nodes[node].pool_number[world_pool_of(world, key)], entry;
    uint8_t id[LIMIT_ID_BYTES];
    const struct store *store;
    struct store_pool *pool;
    struct store_sight sight;
    uint64_t hash;

    bytes_id(world, key, id);
    hash = hash_id20(id);
    store = world_lane_of(world, node, hash)->store;
    pool = store->pools[number];
    NIGH_ASSERT(index_find(&pool->writer, id, hash, &entry));
    sight = store_sight_of(store, pool, entry, hash);
    return serial_of(world, node, key, &sight, bytes_glance);
}

/* Whether what another node has of a key was deleted, and came back with who had been taken for
 * dead: a copy perhaps, that goes like any. */
static bool is_revived(struct world *world, uint32_t node, uint32_t key)
{
    bool revived = false;

    for (uint32_t n = 0; n < world->node_count; n++) {
        revived = revived || (n != node && world->nodes[n].alive &&
                              world->puts[client_glance_here(world, n, key)].doomed);
    }
    return revived;
}

/* A home of a later view may hear of a default put before it hears of the exclusive one
 * (known-gaps.md).
 */
static bool has_moved(const struct world *world, uint32_t serial)
{
    const struct world_put *put = &world->puts[serial];

    return world->agreeing != NULL && world->nodes[put->node].adopted.epoch > put->epoch;
}

void client_lost(struct world *world, uint32_t node, uint32_t key)
{
    uint32_t serial = serial_dropped(world, node, key);

    world_say(world, "node %u: put %u of key %u came second", node, serial, key);
    WORLD_CHECK(world, serial != 0, "node %u: nobody's put of key %u came second", node, key);
    world->puts[serial].second = true;
    world->puts[serial].to_revived = is_revived(world, node, key);
    if (world->puts[serial].exclusive) {
        WORLD_CHECK(world, world->was_forgetful || has_moved(world, serial),
                    "node %u: put %u of key %u was granted, and another's was first", node, serial,
                    key);
        world->totals->claims_lost++;
    }
}

static void created(struct world *world, struct world_op *op)
{
    nigh_status status = (nigh_status)op->cqe.status;

    if (op->exclusive) {
        check_claim(world, op);
    }
    if (is_refused(world, op) || status != NIGH_OK) {
        bool limited = world->kind.session_quota > 0 || world->kind.pool_quota[0] > 0 ||
                       world->kind.pool_quota[1] > 0;

        WORLD_CHECK(world,
                    status == NIGH_DENIED || status == NIGH_EXISTS || status == NIGH_LIMIT ||
                        status == NIGH_OUT_OF_MEMORY || (status == NIGH_QUOTA && limited) ||
                        is_away(world, op),
                    "node %u: a create of key %u ended with status %d", op->node, op->key, status);
        world->totals->quotas += status == NIGH_QUOTA ? 1 : 0;
        if (status != NIGH_EXISTS) {
            give_up(world, op); /* an answer may have been lost */
        }
        op->kind = 0;
        return;
    }
    bytes_fill(world, extent_bytes_at(world->nodes[op->node].set, op->cqe.offset), op->serial);
    op->kind = OP_SEAL;
    op->ended = false;
    op->offset = op->cqe.offset;
    op->ref = op->cqe.ref;
    if (!world->kind.plain && kind_dice(world, 30)) { /* it takes its time */
        world_at(world, 1 + kind_below(world, 4 * world->gap_us), EVENT_SEAL,
                 (uint32_t)(op - world->ops), 0, op->serial);
        return;
    }
    submit_seal(world, op);
}

/* Whether all of it is still memory that its writer may write to. */
static bool is_writers(const struct extent_set *set, uint64_t offset, uint64_t bytes,
                       uint64_t owner)
{
    uint64_t last = (offset + bytes - 1) >> set->extent_shift;

    for (uint64_t e = offset >> set->extent_shift; e <= last; e++) {
        const struct extent *extent = &set->extents[e];

        if (!extent->present || atomic_load(&extent->owner) != owner) {
            return false;
        }
    }
    return true;
}

/* In a strict pool the lane copied what was sealed: its writer can no longer change it. */
static void scribble(struct world *world, const struct world_op *op)
{
    const struct extent_set *set = world->nodes[op->node].set;
    uint32_t pool = world_pool_of(world, op->key);
    uint64_t bytes = world->puts[op->serial].data_size;
    uint64_t owner = extent_owner(world->nodes[op->node].pool_number[pool], WORLD_UID + pool);

    if (world->kind.strict[pool] && is_writers(set, op->offset, max_u64(bytes, 1), owner)) {
        memset(extent_bytes_at(set, op->offset), 0x5a, bytes);
        world->totals->strict++;
    }
}

static void sealed(struct world *world, struct world_op *op)
{
    struct world_put *put = &world->puts[op->serial];

    world_say(world, "node %u: put %u of key %u, %llu bytes: %s", op->node, op->serial, op->key,
              (unsigned long long)put->data_size, nigh_status_name((nigh_status)op->cqe.status));
    WORLD_CHECK(world,
                op->cqe.status == NIGH_OK || op->cqe.status == NIGH_EXISTS ||
                    op->cqe.status == NIGH_OUT_OF_MEMORY || op->cqe.status == NIGH_LIMIT ||
                    is_away(world, op),
                "node %u: a seal of key %u ended with status %d", op->node, op->key,
                op->cqe.status);
    put->sealed = op->cqe.status == NIGH_OK;
    if (put->sealed && !op->resumes) {
        scribble(world, op);
        world->totals->named += bytes_name_size(world, op->key) > 0 ? 1 : 0;
    }
    if (!put->sealed) {
        give_up(world, op);
    }
    op->kind = 0;
}

static void pin_noted(struct world *world, const struct world_op *op, uint32_t serial)
{
    for (uint32_t n = 0; n < WORLD_PINS; n++) {
        if (!world->pins[n].used) {
            world->pins_used = max_u32(world->pins_used, n + 1);
            world->pins[n] = (struct world_pin){
                .used = true,
                .node = op->node,
                .session = op->session,
                .lane = op->lane,
                .pin = op->cqe.pin,
                .serial = serial,
                .key = op->key,
                .offset = op->cqe.offset,
                .until_us = world->calm ? world->now_us
                                        : world->now_us + world_below(world, world->hold_us),
            };
            return;
        }
    }
    world_fail(world, "the harness holds too many pins");
}

/* Ended by its deadline, as far as its node could do anything. */
static void check_in_time(struct world *world, const struct world_op *op)
{
    uint64_t begun_us = max_u64(op->deadline_us, world->nodes[op->node].awake_us);

    if (world->kind.spills) { /* the object is there, it only has to be slower */
        begun_us = max_u64(begun_us, op->begun_us + LIMIT_UNSPILL_US);
    }

    WORLD_CHECK(world, world->now_us <= begun_us + SLACK_US,
                "node %u: a get of key %u ended %llu us after its deadline", op->node, op->key,
                (unsigned long long)(world->now_us - op->deadline_us));
}

/* Ends that only some worlds have. */
static bool is_excused(const struct world *world, const struct world_op *op)
{
    switch (op->cqe.status) {
    case NIGH_QUOTA: return world->kind.pool_quota[world_pool_of(world, op->key)] > 0;
    case NIGH_DISK: return world->kind.disk_fails_percent > 0;
    case NIGH_CORRUPT: return world->kind.disk_damages_percent > 0;
    default: return false;
    }
}

static void got(struct world *world, struct world_op *op)
{
    const struct session_cqe *cqe = &op->cqe;
    uint32_t serial = 0;

    check_in_time(world, op);
    if (cqe->status == NIGH_OK) {
        struct bytes_shape shape = {cqe->data_size, cqe->meta_size, cqe->name_size};

        serial = bytes_serial(world, op->node, op->key,
                              extent_bytes_at(world->nodes[op->node].set, cqe->offset), &shape);
        check_birth(world, op->node, op->key, serial, cqe->offset);
        pin_noted(world, op, serial);
        world->totals->gets_ok++;
    } else if (cqe->status == NIGH_TIMEOUT) {
        world->totals->gets_timeout++;
    } else {
        WORLD_CHECK(world,
                    cqe->status == NIGH_CANCELED || cqe->status == NIGH_OUT_OF_MEMORY ||
                        cqe->status == NIGH_LIMIT || is_excused(world, op),
                    "node %u: a get of key %u ended with status %d", op->node, op->key,
                    cqe->status);
        world->totals->gets_other++;
    }
    world_say(world, "node %u: get of key %u: %s, put %u", op->node, op->key,
              nigh_status_name((nigh_status)cqe->status), serial);
    if (op->found != NULL) {
        *op->found = serial;
    }
    op->kind = 0;
}

/* What of a key was sealed before this moment may be gone; after it as well, where nobody knows
 * whether the home is still at it. */
static void note_delete(struct world *world, const struct world_op *op)
{
    nigh_status status = (nigh_status)op->cqe.status;
    bool over = status == NIGH_OK || status == NIGH_IN_USE || status == NIGH_NOT_FOUND ||
                status == NIGH_NOT_SEALED;

    if (world->keys_a_pool > 0) {
        world->deleted_us[op->key] =
            over ? max_u64(world->deleted_us[op->key], world->now_us) : WORLD_NEVER;
    }
}

static void deleted(struct world *world, struct world_op *op)
{
    nigh_status status = (nigh_status)op->cqe.status;

    world_say(world, "node %u: delete of key %u (put %u here): %s", op->node, op->key, op->serial,
              nigh_status_name(status));
    if (is_refused(world, op)) {
        op->kind = 0;
        return;
    }
    note_delete(world, op);
    switch (status) {
    case NIGH_OK:
        world->totals->deletes_ok++;
        if (op->serial != 0) {
            world->puts[op->serial].doomed = true;
        }
        break;
    case NIGH_IN_USE: world->totals->deletes_in_use++; break;
    case NIGH_TIMEOUT: world->totals->deletes_late++; break;
    case NIGH_NOT_FOUND:
    case NIGH_NOT_SEALED:
    case NIGH_PEER_LOST:
    case NIGH_LIMIT:
    case NIGH_BUSY: world->totals->deletes_other++; break;
    default: world_fail(world, "node %u: a delete ended with status %d", op->node, status);
    }
    op->kind = 0;
}

void client_settle(struct world *world)
{
    for (uint32_t n = 0; n < world->ended_count; n++) {
        struct world_op *op = &world->ops[world->ended[n]];

        if (op->kind == 0) {
            continue;
        }
        world_fold(world,
                   (uint64_t)op->node << 40 | (uint64_t)op->kind << 32 | (uint32_t)op->cqe.status);
        world_fold(world, world->now_us);
        if (op->result != NULL) {
            *op->result = (nigh_status)op->cqe.status;
        }
        switch (op->kind) {
        case OP_CREATE: created(world, op); break;
        case OP_SEAL: sealed(world, op); break;
        case OP_GET: got(world, op); break;
        case OP_DELETE: deleted(world, op); break;
        case OP_OTHER: op->kind = 0; break;
        }
    }
    world->ended_count = 0;
}

uint32_t client_pending(const struct world *world)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < world->ops_used; n++) {
        count += world->ops[n].kind != 0;
    }
    return count;
}

/* ---- pins ----------------------------------------------------------------- */

static void release(struct world *world, struct world_pin *pin)
{
    struct world_node *node = &world->nodes[pin->node];

    WORLD_CHECK(world, bytes_hold(world, extent_bytes_at(node->set, pin->offset), pin->serial),
                "node %u, key %u: bytes changed under a reader", pin->node, pin->key);
    pin_clear(&node->sessions[pin->session].lane[pin->lane]->pin_entry[pin->pin]);
    pin->used = false;
    node->due_us = world->now_us;
}

void client_release_due(struct world *world)
{
    for (uint32_t n = 0; n < world->pins_used; n++) {
        if (world->pins[n].used && world->nodes[world->pins[n].node].alive &&
            world->pins[n].until_us <= world->now_us) {
            release(world, &world->pins[n]);
        }
    }
}

void client_release_all(struct world *world)
{
    for (uint32_t n = 0; n < world->pins_used; n++) {
        if (world->pins[n].used && world->nodes[world->pins[n].node].alive) {
            release(world, &world->pins[n]);
        }
    }
}

/* ---- quotas --------------------------------------------------------------- */

/* What is read back from disk is counted again, and was made already. */
static void check_quota(struct world *world, uint32_t rank, uint32_t number)
{
    const struct world_session *session = &world->nodes[rank].sessions[number];
    uint64_t used = atomic_load(&session->quota_used), quota = world->kind.session_quota;

    WORLD_CHECK(world, quota == 0 || world->kind.spills || used <= quota,
                "node %u: session %u has %llu bytes, of a quota of %llu", rank, number,
                (unsigned long long)used, (unsigned long long)quota);
}

static void check_pool(struct world *world, struct world_lane *lane, uint32_t which)
{
    struct world_node *node = &world->nodes[lane->node];
    uint64_t quota = (world->kind.pool_quota[which] + node->lanes - 1) / node->lanes;
    uint64_t bytes;

    if (node->pool_number[which] == WORLD_NO_POOL || quota == 0) {
        return;
    }
    bytes = lane->store->pools[node->pool_number[which]]->bytes;
    WORLD_CHECK(world, bytes <= quota, "node %u: pool %u has %llu bytes, of a quota of %llu",
                lane->node, which, (unsigned long long)bytes, (unsigned long long)quota);
}

void client_check_quotas(struct world *world)
{
    for (uint32_t n = 0; n < world->node_count; n++) {
        struct world_node *node = &world->nodes[n];

        for (uint32_t s = 0; node->alive && s < WORLD_SESSIONS; s++) {
            check_quota(world, n, s);
        }
        for (uint32_t i = 0; node->alive && i < node->lanes * world->kind.pools; i++) {
            check_pool(world, &node->lane[i % node->lanes], i / node->lanes);
        }
    }
}

uint64_t client_due_us(const struct world *world)
{
    uint64_t due_us = WORLD_NEVER;

    for (uint32_t n = 0; n < world->pins_used; n++) {
        if (world->pins[n].used && world->nodes[world->pins[n].node].alive) {
            due_us = min_u64(due_us, world->pins[n].until_us);
        }
    }
    for (uint32_t n = 0; n < world->node_count; n++) {
        for (uint32_t s = 0; s < WORLD_SESSIONS; s++) {
            if (world->nodes[n].alive) {
                due_us = min_u64(due_us, world->nodes[n].sessions[s].next_us);
            }
        }
    }
    return due_us;
}
