/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients: sessions that submit and hold pins like libnigh's, over memory in this process.
 *
 * Every put has a serial, and its bytes follow from it: so the bytes of a get tell of which put
 * they are, and all of them must be of that one.
 */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define PAGE     4096u
#define SLACK_US 20000u /* a get may end later than its deadline by this */

static void submit(struct world *world, struct world_op *op, const struct session_sqe *sqe);

/* ---- bytes ---------------------------------------------------------------- */

void client_id(uint32_t key, uint8_t id[LIMIT_ID_BYTES])
{
    uint64_t mixed = hash_u64(key + 1);

    memset(id, 0, LIMIT_ID_BYTES);
    memcpy(id, &mixed, sizeof(mixed));
    memcpy(id + 8, &key, sizeof(key));
}

/* The first word of an object is its serial; the others follow from it and from their place. */
static uint64_t word_at(uint32_t serial, uint64_t place)
{
    return place == 0 ? serial : (serial * HASH_K0) ^ (place * HASH_K1);
}

static void fill(uint8_t *to, uint32_t serial, uint64_t data_size, uint32_t meta_size)
{
    uint64_t words = data_size / 8;

    for (uint64_t n = 0; n < words; n++) {
        uint64_t word = word_at(serial, n);

        memcpy(to + n * 8, &word, sizeof(word));
    }
    for (uint64_t n = words * 8; n < data_size; n++) {
        to[n] = (uint8_t)(serial + n);
    }
    memset(to + index_meta_offset(data_size), (int)(serial & 0xff), meta_size);
}

static bool holds(const uint8_t *from, uint32_t serial, uint64_t data_size, uint32_t meta_size)
{
    uint64_t words = data_size / 8;
    uint64_t wrong = 0;

    for (uint64_t n = 0; n < words; n++) {
        uint64_t word;

        memcpy(&word, from + n * 8, sizeof(word));
        wrong |= word ^ word_at(serial, n);
    }
    for (uint64_t n = words * 8; n < data_size; n++) {
        wrong |= from[n] ^ (uint8_t)(serial + n);
    }
    for (uint32_t n = 0; n < meta_size; n++) {
        wrong |= from[index_meta_offset(data_size) + n] ^ (uint8_t)serial;
    }
    return wrong == 0;
}

uint32_t client_serial_at(struct world *world, uint32_t node, uint32_t key, uint64_t offset,
                          uint64_t data_size, uint32_t meta_size)
{
    const uint8_t *bytes = extent_bytes_at(world->nodes[node].set, offset);
    uint64_t serial;

    memcpy(&serial, bytes, sizeof(serial));
    WORLD_CHECK(world, serial > 0 && serial <= world->put_count,
                "node %u, key %u: bytes of no put at all", node, key);
    WORLD_CHECK(world,
                world->puts[serial].key == key && world->puts[serial].data_size == data_size &&
                    world->puts[serial].meta_size == meta_size,
                "node %u, key %u: bytes of another object (put %u)", node, key, (uint32_t)serial);
    WORLD_CHECK(world, holds(bytes, (uint32_t)serial, data_size, meta_size),
                "node %u, key %u: some bytes are not of put %u", node, key, (uint32_t)serial);
    world->totals->checked_bytes += data_size + meta_size;
    return (uint32_t)serial;
}

/* The birth that lies at `offset` belongs to the put: now, and wherever it is seen. */
static void check_birth(struct world *world, uint32_t node, uint32_t key, uint32_t serial,
                        uint64_t offset)
{
    struct world_put *put = &world->puts[serial];
    struct store_sight sight;
    uint8_t id[LIMIT_ID_BYTES];
    uint64_t hash;

    client_id(key, id);
    hash = hash_id20(id);
    if (!store_see(world_lane_of(world, node, hash)->store, WORLD_POOL, id, hash, &sight) ||
        sight.offset != offset) {
        return;
    }
    if (!put->birth_known) {
        put->birth = sight.birth;
        put->birth_known = true;
    }
    WORLD_CHECK(world, birth_equal(&put->birth, &sight.birth),
                "node %u, key %u: the bytes of put %u under another birth", node, key, serial);
}

/* ---- sessions ------------------------------------------------------------- */

void client_attach(struct world *world, uint32_t rank, uint32_t number)
{
    struct world_node *node = &world->nodes[rank];
    struct world_session *session = &node->sessions[number];
    uint64_t bytes = session_memory_bytes(node->lanes);

    memset(session, 0, sizeof(*session));
    session->memory = calloc(1, bytes);
    NIGH_ASSERT(session->memory != NULL);
    session->front = session_front_of(session->memory);
    session->chunks = session_chunks_of(session->memory, node->lanes);
    session->id = ++world->next_session;
    session->steps = world->calm ? 0 : world->steps_of_session;
    session->next_us =
        session->steps > 0 ? world->now_us + world_below(world, world->gap_us) : WORLD_NEVER;
    for (uint32_t n = 0; n < node->lanes; n++) {
        struct store_session_config config = {
            .session = number,
            .session_id = session->id,
            .pool = WORLD_POOL,
            .uid = WORLD_UID,
            .pid = (int32_t)(1000 + number),
            .name = "client",
            .may_write = true,
            .quota_used = &session->quota_used,
            .front = session->front,
            .lane = session->lane[n] = session_lane_of(session->memory, n),
            .chunks = session->chunks,
        };

        NIGH_ASSERT(store_session_open(node->lane[n].store, &config) == NIGH_OK);
    }
}

/* It dies: what it waits for has no end that it would see. */
void client_detach(struct world *world, uint32_t rank, uint32_t number, bool node_too)
{
    struct world_node *node = &world->nodes[rank];
    struct world_session *session = &node->sessions[number];

    client_settle(world);
    for (uint32_t n = 0; n < WORLD_OPS; n++) {
        struct world_op *op = &world->ops[n];

        if (op->kind != 0 && op->node == rank && op->session == number) {
            if (op->result != NULL) {
                *op->result = NIGH_PEER_LOST;
            }
            op->kind = 0;
        }
    }
    for (uint32_t n = 0; n < WORLD_PINS; n++) {
        struct world_pin *pin = &world->pins[n];

        pin->used = pin->used && !(pin->node == rank && pin->session == number);
    }
    for (uint32_t n = 0; n < node->lanes && !node_too; n++) {
        store_session_close(node->lane[n].store, number);
    }
    if (node_too) {
        /* The stores go next, and look at nothing of it. */
        for (uint32_t n = 0; n < node->lanes; n++) {
            store_session_close(node->lane[n].store, number);
        }
    }
    free(session->memory);
    memset(session, 0, sizeof(*session));
    session->next_us = WORLD_NEVER;
}

/* ---- operations ----------------------------------------------------------- */

static struct world_op *take_op(struct world *world, uint32_t node, uint32_t session,
                                enum world_op_kind kind, uint32_t key)
{
    for (uint32_t n = 0; n < WORLD_OPS; n++) {
        struct world_op *op = &world->ops[n];

        if (op->kind == 0) {
            uint8_t id[LIMIT_ID_BYTES];

            client_id(key, id);
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
    store_submit(world->nodes[op->node].lane[op->lane].store, op->session, &copy, world->now_us);
}

void client_put(struct world *world, uint32_t node, uint32_t session, uint32_t key,
                uint64_t data_size, uint32_t meta_size)
{
    struct session_sqe sqe = {
        .op = SESSION_OP_CREATE, .data_size = data_size, .meta_size = meta_size, .argument = 50000};
    struct world_op *op;

    if (world->put_count == world->max_puts ||
        (op = take_op(world, node, session, OP_CREATE, key)) == NULL) {
        return;
    }
    op->serial = ++world->put_count;
    world->puts[op->serial] = (struct world_put){
        .key = key, .node = node, .data_size = data_size, .meta_size = meta_size};
    world->totals->puts++;
    client_id(key, sqe.id);
    submit(world, op, &sqe);
}

struct world_op *client_get(struct world *world, uint32_t node, uint32_t session, uint32_t key,
                            uint64_t timeout_us, uint8_t flags)
{
    struct session_sqe sqe = {.op = SESSION_OP_GET, .flags = flags, .argument = timeout_us};
    struct world_op *op = take_op(world, node, session, OP_GET, key);

    if (op != NULL) {
        op->deadline_us = world->now_us + timeout_us;
        client_id(key, sqe.id);
        world->totals->gets++;
        world->totals->gets_passing += flags != 0;
        world_moment(world, node, MOMENT_WANT);
        submit(world, op, &sqe);
    }
    return op;
}

uint32_t client_serial_here(struct world *world, uint32_t node, uint32_t key)
{
    struct store_sight sight;
    uint8_t id[LIMIT_ID_BYTES];
    uint64_t hash;

    client_id(key, id);
    hash = hash_id20(id);
    if (!store_see(world_lane_of(world, node, hash)->store, WORLD_POOL, id, hash, &sight)) {
        return 0;
    }
    return client_serial_at(world, node, key, sight.offset, sight.data_size, sight.meta_size);
}

struct world_op *client_delete(struct world *world, uint32_t node, uint32_t session, uint32_t key)
{
    struct session_sqe sqe = {.op = SESSION_OP_DELETE};
    struct world_op *op = take_op(world, node, session, OP_DELETE, key);

    if (op != NULL) {
        client_id(key, sqe.id);
        op->serial = client_serial_here(world, node, key);
        world->totals->deletes++;
        world_moment(world, node, MOMENT_DELETE);
        submit(world, op, &sqe);
    }
    return op;
}

void client_evict(struct world *world, uint32_t node, uint32_t lane, uint64_t bytes)
{
    struct session_sqe sqe = {.op = SESSION_OP_EVICT, .argument = bytes};
    struct world_op *op = take_op(world, node, 0, OP_OTHER, 0);

    if (op != NULL) {
        op->lane = lane;
        submit(world, op, &sqe);
    }
}

static void cancel_some(struct world *world, uint32_t node, uint32_t session)
{
    for (uint32_t n = 0; n < WORLD_OPS; n++) {
        struct world_op *op = &world->ops[n];

        if (op->kind == OP_GET && !op->ended && op->node == node && op->session == session) {
            struct session_sqe sqe = {.op = SESSION_OP_CANCEL, .argument = n};
            struct world_op *cancel = take_op(world, node, session, OP_OTHER, op->key);

            if (cancel != NULL) {
                world->totals->cancels++;
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
    uint32_t key = (uint32_t)world_below(world, world->keys);
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
            (void)client_get(world, node, session, (key + n) % world->keys, timeout_us,
                             some_flags(world));
        }
    } else if (lot < 95) {
        (void)client_delete(world, node, session, key);
    } else {
        cancel_some(world, node, session);
    }
}

/* ---- ends ----------------------------------------------------------------- */

static void created(struct world *world, struct world_op *op)
{
    struct session_sqe sqe = {.op = SESSION_OP_SEAL, .ref = op->cqe.ref, .argument = 50000};
    const struct world_put *put = &world->puts[op->serial];

    if (op->cqe.status != NIGH_OK) {
        op->kind = 0;
        return;
    }
    fill(extent_bytes_at(world->nodes[op->node].set, op->cqe.offset), op->serial, put->data_size,
         put->meta_size);
    op->kind = OP_SEAL;
    op->ended = false;
    submit(world, op, &sqe);
}

static void sealed(struct world *world, struct world_op *op)
{
    world_say(world, "node %u: put %u of key %u, %llu bytes: %d", op->node, op->serial, op->key,
              (unsigned long long)world->puts[op->serial].data_size, op->cqe.status);
    world->puts[op->serial].sealed = op->cqe.status == NIGH_OK;
    op->kind = 0;
}

static void pin_noted(struct world *world, const struct world_op *op, uint32_t serial)
{
    for (uint32_t n = 0; n < WORLD_PINS; n++) {
        if (!world->pins[n].used) {
            world->pins[n] = (struct world_pin){
                .used = true,
                .node = op->node,
                .session = op->session,
                .lane = op->lane,
                .pin = op->cqe.pin,
                .serial = serial,
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

    WORLD_CHECK(world, world->now_us <= begun_us + SLACK_US,
                "node %u: a get of key %u ended %llu us after its deadline", op->node, op->key,
                (unsigned long long)(world->now_us - op->deadline_us));
}

static void got(struct world *world, struct world_op *op)
{
    const struct session_cqe *cqe = &op->cqe;
    uint32_t serial = 0;

    check_in_time(world, op);
    if (cqe->status == NIGH_OK) {
        serial =
            client_serial_at(world, op->node, op->key, cqe->offset, cqe->data_size, cqe->meta_size);
        check_birth(world, op->node, op->key, serial, cqe->offset);
        pin_noted(world, op, serial);
        world->totals->gets_ok++;
    } else if (cqe->status == NIGH_TIMEOUT) {
        world->totals->gets_timeout++;
    } else {
        WORLD_CHECK(world,
                    cqe->status == NIGH_CANCELED || cqe->status == NIGH_OUT_OF_MEMORY ||
                        cqe->status == NIGH_LIMIT,
                    "node %u: a get of key %u ended with status %d", op->node, op->key,
                    cqe->status);
        world->totals->gets_other++;
    }
    world_say(world, "node %u: get of key %u: %d, put %u", op->node, op->key, cqe->status, serial);
    if (op->found != NULL) {
        *op->found = serial;
    }
    op->kind = 0;
}

static void deleted(struct world *world, struct world_op *op)
{
    nigh_status status = (nigh_status)op->cqe.status;

    world_say(world, "node %u: delete of key %u (put %u here): %d", op->node, op->key, op->serial,
              status);
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

    for (uint32_t n = 0; n < WORLD_OPS; n++) {
        count += world->ops[n].kind != 0;
    }
    return count;
}

/* ---- pins ----------------------------------------------------------------- */

static void release(struct world *world, struct world_pin *pin)
{
    const struct world_put *put = &world->puts[pin->serial];
    struct world_node *node = &world->nodes[pin->node];

    WORLD_CHECK(
        world,
        holds(extent_bytes_at(node->set, pin->offset), pin->serial, put->data_size, put->meta_size),
        "node %u, key %u: bytes changed under a reader", pin->node, put->key);
    pin_clear(&node->sessions[pin->session].lane[pin->lane]->pin_entry[pin->pin]);
    pin->used = false;
    node->due_us = world->now_us;
}

void client_release_due(struct world *world)
{
    for (uint32_t n = 0; n < WORLD_PINS; n++) {
        if (world->pins[n].used && world->pins[n].until_us <= world->now_us) {
            release(world, &world->pins[n]);
        }
    }
}

void client_release_all(struct world *world)
{
    for (uint32_t n = 0; n < WORLD_PINS; n++) {
        if (world->pins[n].used) {
            release(world, &world->pins[n]);
        }
    }
}

uint64_t client_due_us(const struct world *world)
{
    uint64_t due_us = WORLD_NEVER;

    for (uint32_t n = 0; n < WORLD_PINS; n++) {
        due_us = world->pins[n].used ? min_u64(due_us, world->pins[n].until_us) : due_us;
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
