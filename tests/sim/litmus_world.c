/* SPDX-License-Identifier: Apache-2.0 */
/* See litmus_world.h. */
#include "litmus_world.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define TRY_US       100u /* a lock that is tried */
#define SPACE_NUMBER 7u
#define HOME_BLOCKS  32u
#define ACTORS       (LITMUS_THREADS + 2 * LITMUS_NODES + LITMUS_NODES * LITMUS_NODES)
#define SETTER       LITMUS_THREADS    /* the client that sets up, looks and evicts */
#define MOST_EVENTS  UINT64_C(1000000) /* of one thing that is to end */

static struct litmus_world *now; /* for shells, which have only a node */

static bool claim(struct litmus_world *world, bool holds, const char *what)
{
    if (!holds && world->broken == NULL) {
        world->broken = what;
    }
    return holds;
}

static uint64_t below(struct litmus_world *world, uint64_t bound)
{
    return random_below(&world->random, bound);
}

/* ---- channels ------------------------------------------------------------- */

static struct litmus_item *item_of(struct litmus_channel *channel, uint32_t n)
{
    return &channel->items[(channel->first + n) % LITMUS_DEPTH];
}

static bool shell_send(void *context, const struct space_send *send)
{
    struct litmus_node *node = context;
    struct litmus_channel *channel = &now->channels[node - now->nodes][send->seat];

    if (channel->count == LITMUS_DEPTH) {
        return false;
    }
    *item_of(channel, channel->count++) = (struct litmus_item){.send = *send};
    return true;
}

static void shell_cut(void *context, uint8_t seat, nigh_status why)
{
    (void)context;
    (void)seat;
    (void)why;
    claim(now, false, "a link is cut");
}

static void shell_wake(void *context)
{
    struct litmus_node *node = context;

    node->is_awake = true;
}

static void land(struct litmus_world *world, uint32_t from, uint32_t to, struct litmus_item *item)
{
    const struct space_send *send = &item->send;
    const struct litmus_node *source = &world->nodes[from], *target = &world->nodes[to];
    const uint8_t *source_bytes = send->from == SPACE_MEMORY_HOME ? source->home : source->cache;
    uint8_t *target_bytes = send->to == SPACE_MEMORY_HOME ? target->home : target->cache;

    if (item->has_landed) {
        return;
    }
    item->has_landed = true;
    if (send->count > 0) {
        memcpy(target_bytes + send->to_offset, source_bytes + send->from_offset, send->count);
    }
    if (send->wants_end) {
        world->channels[from][to].ends[send->cookie]++;
        world->channels[from][to].arrived++;
    }
}

static void deliver(struct litmus_world *world, uint32_t from, uint32_t to)
{
    struct litmus_channel *channel = &world->channels[from][to];
    struct litmus_item *item = item_of(channel, 0);
    struct space_wire wire = item->send.wire;

    land(world, from, to, item);
    channel->first = (channel->first + 1) % LITMUS_DEPTH;
    channel->count--;
    world->nodes[to].is_awake = true;
    space_engine_message(world->nodes[to].engine, (uint8_t)from, &wire, sizeof(wire),
                         world->now_us);
}

static void tell_ends(struct litmus_world *world, uint32_t from, uint32_t to)
{
    struct litmus_channel *channel = &world->channels[from][to];

    for (uint32_t cookie = 0; cookie < SPACE_SEATS && channel->arrived > 0; cookie++) {
        while (channel->ends[cookie] > 0) {
            channel->ends[cookie]--;
            channel->arrived--;
            world->nodes[from].is_awake = true;
            space_engine_sent(world->nodes[from].engine, cookie, world->now_us);
        }
    }
}

static void channel_event(struct litmus_world *world, uint32_t from, uint32_t to)
{
    struct litmus_channel *channel = &world->channels[from][to];
    uint64_t what = below(world, 4);

    if (channel->arrived > 0 && (what == 0 || channel->count == 0)) {
        tell_ends(world, from, to);
    } else if (channel->count > 0 && what == 1) {
        land(world, from, to, item_of(channel, (uint32_t)below(world, channel->count)));
    } else if (channel->count > 0) {
        deliver(world, from, to);
    }
}

/* ---- nodes ---------------------------------------------------------------- */

static struct space_engine *shell_find(void *context, uint32_t session, uint32_t space,
                                       bool *may_write, nigh_status *why)
{
    struct litmus_node *node = context;

    (void)session;
    *may_write = true;
    *why = NIGH_CLOSED;
    return space == SPACE_NUMBER ? node->engine : NULL;
}

static void shell_broken(void *context, uint32_t session)
{
    (void)context;
    (void)session;
    claim(now, false, "a client is broken");
}

static void start_client(struct litmus_node *node, struct litmus_client *client)
{
    nigh_status status;

    client->memory = aligned_alloc(4096, sizeof(*client->memory));
    NIGH_ASSERT(client->memory != NULL);
    memset(client->memory, 0, sizeof(*client->memory));
    status = space_windows_add(node->windows, 1, client->memory, &client->window);
    NIGH_ASSERT(status == NIGH_OK);
    space_producer_init(&client->producer, client->memory);
    status = space_view_open(node->home, node->home_bytes, SPACE_VIEW_HOME, &client->mapped.home);
    NIGH_ASSERT(status == NIGH_OK);
    status =
        space_view_open(node->cache, node->cache_bytes, SPACE_VIEW_CACHE, &client->mapped.cache);
    NIGH_ASSERT(status == NIGH_OK);
    client->mapped.number = SPACE_NUMBER;
}

static void *zeroed(uint64_t bytes)
{
    void *memory = aligned_alloc(4096, bytes);

    NIGH_ASSERT(memory != NULL);
    return memset(memory, 0, bytes);
}

/* A cache of one set of fifteen frames. */
static void start_node(struct litmus_world *world, uint32_t number)
{
    struct litmus_node *node = &world->nodes[number];
    struct space_windows_shell shell = {
        .context = node, .find = shell_find, .broken = shell_broken};
    struct space_engine_config config = {
        .space = 77,
        .birth = 1,
        .life = random_u64(&world->random) | 1,
        .self = (uint8_t)number,
        .letters = 2048,
        .shell = {.context = node, .send = shell_send, .cut = shell_cut, .wake = shell_wake},
    };
    nigh_status status;

    node->home_bytes = space_view_home_bytes(HOME_BLOCKS, LITMUS_BYTES);
    node->cache_bytes = space_view_cache_bytes(1, LITMUS_BYTES);
    node->home = zeroed(node->home_bytes);
    node->cache = zeroed(node->cache_bytes);
    space_view_make_home(
        node->home, HOME_BLOCKS, LITMUS_BYTES,
        space_address_of_life((uint8_t)number, 1, (uint64_t)HOME_BLOCKS * LITMUS_BYTES),
        &config.home);
    space_view_make_cache(node->cache, 1, LITMUS_BYTES, &config.cache);
    config.home_memory = node->home;
    config.cache_memory = node->cache;
    status = space_engine_create(&config, &node->engine);
    NIGH_ASSERT(status == NIGH_OK);
    status = space_windows_create(LITMUS_CLIENTS, &shell, &node->windows);
    NIGH_ASSERT(status == NIGH_OK);
    for (uint32_t n = 0; n < LITMUS_CLIENTS; n++) {
        start_client(node, &node->clients[n]);
    }
}

static void stop_node(struct litmus_world *world, uint32_t number)
{
    struct litmus_node *node = &world->nodes[number];

    for (uint32_t n = 0; n < LITMUS_CLIENTS; n++) {
        space_windows_remove(node->windows, node->clients[n].window, world->now_us);
        free(node->clients[n].memory);
    }
    space_engine_end(node->engine, NIGH_CLOSED);
    space_engine_destroy(node->engine);
    space_windows_destroy(node->windows);
    free(node->home);
    free(node->cache);
}

static void node_event(struct litmus_world *world, uint32_t number)
{
    struct litmus_node *node = &world->nodes[number];

    node->is_awake = false;
    node->is_awake |= space_windows_turn(node->windows, world->now_us);
    node->is_awake |= space_engine_turn(node->engine, world->now_us);
    node->is_awake |= space_windows_turn(node->windows, world->now_us);
}

/* ---- the threads of a round ----------------------------------------------- */

static void ask(struct litmus_client *client, enum space_record_kind kind, uint64_t address,
                uint32_t length, uint64_t operand)
{
    uint64_t operands[2] = {operand, 0};
    bool has_room =
        space_producer_ask(&client->producer, kind, &client->mapped, address, length, operands,
                           kind == SPACE_RECORD_TRY_LOCK_WRITE ? TRY_US : UINT64_MAX);

    NIGH_ASSERT(has_room);
}

static void ask_swap(struct litmus_client *client, uint64_t address, uint64_t value)
{
    const uint64_t operands[2] = {0, value};
    bool has_room = space_producer_ask(&client->producer, SPACE_RECORD_SWAP, &client->mapped,
                                       address, 8, operands, UINT64_MAX);

    NIGH_ASSERT(has_room);
}

static void write_word(struct litmus_client *client, uint64_t address, uint64_t value)
{
    uint64_t ticket;
    bool has_room = space_producer_write(&client->producer, &client->mapped, address, &value,
                                         sizeof(value), &ticket);

    NIGH_ASSERT(has_room);
}

/* As nigh_space_store_fence, and nigh_space_unlock. */
static void say(struct litmus_client *client, enum space_record_kind kind, uint64_t address)
{
    if (kind != SPACE_RECORD_FENCE || !space_producer_is_empty(&client->producer)) {
        bool has_room = space_producer_say(&client->producer, kind, &client->mapped, address);

        NIGH_ASSERT(has_room);
    }
}

/* Whether the read was answered at once; else it is asked. */
static bool read_word(struct litmus_client *client, uint64_t address, uint64_t *value)
{
    if (space_producer_read(&client->producer, &client->mapped, address, value, sizeof(*value)) ==
        SPACE_READ) {
        return true;
    }
    ask(client, SPACE_RECORD_READ, address, sizeof(*value), 0);
    return false;
}

/* Whether a lock that was tried was had. */
static uint64_t tried(struct litmus_world *world, struct litmus_thread *thread)
{
    uint64_t value = 0;
    nigh_status status = space_producer_answer(&thread->client->producer, &value, NULL, 0);

    claim(world, status == NIGH_OK || status == NIGH_BUSY || status == NIGH_TIMEOUT,
          "a lock cannot be tried");
    thread->is_without = status != NIGH_OK;
    return status == NIGH_OK;
}

/* What an ask was answered with. */
static uint64_t answer_of(struct litmus_world *world, struct litmus_client *client, bool has_bytes)
{
    uint64_t value = 0, bytes = 0;
    nigh_status status = space_producer_answer(&client->producer, &value, &bytes,
                                               has_bytes ? (uint32_t)sizeof(bytes) : 0);

    claim(world, status == NIGH_OK, "what is asked fails");
    return has_bytes ? bytes : value;
}

static void see(struct litmus_world *world, uint32_t number, uint64_t value)
{
    struct litmus_thread *thread = &world->threads[number];

    claim(world, value < 16, "a word is what nobody wrote");
    world->outcome |= litmus_saw(&world->cell->program, number, thread->read++, value);
}

/* Begins the op that a thread is at; true: it is done by that. */
static bool begin_op(struct litmus_world *world, uint32_t number, const struct litmus_op *op)
{
    struct litmus_thread *thread = &world->threads[number];
    struct litmus_client *client = thread->client;
    uint64_t address = world->addresses[op->variable], value;

    switch (op->kind) {
    case LITMUS_PUT:
        say(client, SPACE_RECORD_FENCE, 0);
        write_word(client, address, op->value);
        return true;
    case LITMUS_WRITE: write_word(client, address, op->value); return true;
    case LITMUS_STORE_FENCE: say(client, SPACE_RECORD_FENCE, 0); return true;
    case LITMUS_UNLOCK:
        if (!thread->is_without) {
            say(client, SPACE_RECORD_UNLOCK, address);
        }
        return true;
    case LITMUS_FENCE: return space_producer_is_empty(&client->producer);
    case LITMUS_TELL: world->told = true; return true;
    case LITMUS_HEAR: see(world, number, world->told); return true;
    case LITMUS_READ:
    case LITMUS_GET:
        if (read_word(client, address, &value)) {
            see(world, number, value);
            return true;
        }
        break;
    case LITMUS_FLUSH: ask(client, SPACE_RECORD_FLUSH, 0, 0, 0); break;
    case LITMUS_ADD: ask(client, SPACE_RECORD_ADD, address, 8, op->value); break;
    case LITMUS_EXCHANGE: ask(client, SPACE_RECORD_EXCHANGE, address, 8, op->value); break;
    case LITMUS_SWAP_ZERO: ask_swap(client, address, op->value); break;
    case LITMUS_LOCK_READ: ask(client, SPACE_RECORD_LOCK_READ, address, 0, 0); break;
    case LITMUS_TRY_LOCK: ask(client, SPACE_RECORD_TRY_LOCK_WRITE, address, 0, 0); break;
    default: ask(client, SPACE_RECORD_LOCK_WRITE, address, 0, 0); break;
    }
    thread->is_asked = true;
    return false;
}

static bool has_ended(const struct litmus_world *world, uint32_t number)
{
    return world->threads[number].at == world->cell->program.counts[number];
}

static void thread_event(struct litmus_world *world, uint32_t number)
{
    struct litmus_thread *thread = &world->threads[number];
    const struct litmus_op *op = &world->cell->program.ops[number][thread->at];
    bool reads = op->kind == LITMUS_READ || op->kind == LITMUS_GET;

    if (has_ended(world, number)) {
        return;
    }
    if (!thread->is_asked) {
        thread->at += begin_op(world, number, op);
    } else if (space_producer_is_answered(&thread->client->producer)) {
        uint64_t value = op->kind == LITMUS_TRY_LOCK ? tried(world, thread)
                                                     : answer_of(world, thread->client, reads);

        thread->is_asked = false;
        thread->at++;
        if (litmus_is_read(op->kind)) {
            see(world, number, value);
        }
    }
}

/* ---- events --------------------------------------------------------------- */

/* Reads any of the blocks that are in the way: in a cache of fifteen frames others go for them. */
static void evict_event(struct litmus_world *world, uint32_t number)
{
    struct litmus_node *node = &world->nodes[number];
    struct litmus_client *client = &node->clients[SETTER];
    uint64_t value;

    if (node->is_asked) {
        if (space_producer_is_answered(&client->producer)) {
            node->is_asked = false;
            (void)answer_of(world, client, true);
        }
        return;
    }
    node->is_asked = !read_word(
        client, world->nodes[below(world, LITMUS_NODES)].fillers[below(world, LITMUS_FILLERS)],
        &value);
}

static bool may_act(const struct litmus_world *world, uint32_t actor)
{
    uint32_t channel = actor - LITMUS_THREADS - 2 * LITMUS_NODES;

    if (actor < LITMUS_THREADS) {
        return world->cell != NULL && actor < world->cell->program.threads &&
               !has_ended(world, actor);
    }
    if (actor < LITMUS_THREADS + LITMUS_NODES) {
        const struct litmus_node *node = &world->nodes[actor - LITMUS_THREADS];

        return node->is_awake || space_windows_has_work(node->windows);
    }
    if (actor < LITMUS_THREADS + 2 * LITMUS_NODES) {
        return world->evicts || world->nodes[actor - LITMUS_THREADS - LITMUS_NODES].is_asked;
    }
    return world->channels[channel / LITMUS_NODES][channel % LITMUS_NODES].count > 0 ||
           world->channels[channel / LITMUS_NODES][channel % LITMUS_NODES].arrived > 0;
}

static void act(struct litmus_world *world, uint32_t actor)
{
    uint32_t channel = actor - LITMUS_THREADS - 2 * LITMUS_NODES;

    if (actor < LITMUS_THREADS) {
        thread_event(world, actor);
    } else if (actor < LITMUS_THREADS + LITMUS_NODES) {
        node_event(world, actor - LITMUS_THREADS);
    } else if (actor < LITMUS_THREADS + 2 * LITMUS_NODES) {
        evict_event(world, actor - LITMUS_THREADS - LITMUS_NODES);
    } else {
        channel_event(world, channel / LITMUS_NODES, channel % LITMUS_NODES);
    }
}

/* One of those that have something to do, the quicker the likelier. */
static void one_event(struct litmus_world *world)
{
    uint64_t upto[ACTORS], all = 0, at;

    world->events++;
    world->now_us++;
    if (below(world, 8) == 0) {
        world->weights[below(world, ACTORS)] = 1u << below(world, 9);
    }
    for (uint32_t n = 0; n < ACTORS; n++) {
        all += may_act(world, n) ? world->weights[n] : 0;
        upto[n] = all;
    }
    if (!claim(world, all > 0, "nobody has anything to do")) {
        return;
    }
    at = below(world, all);
    for (uint32_t n = 0; n < ACTORS; n++) {
        if (at < upto[n]) {
            act(world, n);
            return;
        }
    }
}

/* Until the last client of a node has its answer. */
static uint64_t ask_now(struct litmus_world *world, uint32_t number, enum space_record_kind kind,
                        uint64_t address, uint32_t length, uint64_t operand)
{
    struct litmus_client *client = &world->nodes[number].clients[SETTER];
    uint64_t most = world->events + MOST_EVENTS;

    ask(client, kind, address, length, operand);
    while (!space_producer_is_answered(&client->producer) && world->broken == NULL) {
        one_event(world);
        claim(world, world->events < most, "an ask has no end");
    }
    return world->broken == NULL ? answer_of(world, client, kind == SPACE_RECORD_READ) : 0;
}

/* ---- a round -------------------------------------------------------------- */

static uint32_t node_of(const struct litmus_cell *cell, uint32_t home, uint32_t first, uint32_t n)
{
    switch (cell->place) {
    case LITMUS_APART: return (first + n) % LITMUS_NODES;
    case LITMUS_AT_HOME: return home;
    default: return (home + LITMUS_NODES - 1) % LITMUS_NODES;
    }
}

static void place(struct litmus_world *world, const struct litmus_cell *cell)
{
    uint32_t home = (uint32_t)below(world, LITMUS_NODES);
    uint32_t first = (uint32_t)below(world, LITMUS_NODES);

    for (uint32_t n = 0; n < LITMUS_VARIABLES; n++) {
        uint32_t at = cell->memory == LITMUS_HOMES ? (home + n) % LITMUS_NODES : home;

        world->addresses[n] = cell->memory == LITMUS_A_BLOCK ? world->nodes[at].blocks[0] + 8 * n
                                                             : world->nodes[at].blocks[n];
    }
    for (uint32_t n = 0; n < cell->program.threads; n++) {
        uint32_t node = node_of(cell, home, first, n);

        world->threads[n] =
            (struct litmus_thread){.node = node, .client = &world->nodes[node].clients[n]};
    }
}

/* Each is as quick as any other, or up to 256 times as slow. */
static void choose_weights(struct litmus_world *world)
{
    for (uint32_t n = 0; n < ACTORS; n++) {
        world->weights[n] = 1u << below(world, 9);
    }
}

/* A word is 0: one node, mostly one of a thread, has it alone, or some have copies. */
static void set_up_word(struct litmus_world *world, const struct litmus_cell *cell,
                        uint64_t address)
{
    const struct litmus_thread *thread = &world->threads[below(world, cell->program.threads)];
    uint32_t number = (uint32_t)(below(world, 4) > 0 ? thread->node : below(world, LITMUS_NODES));
    uint64_t readers = below(world, 2) == 0 ? 0 : below(world, 1u << LITMUS_NODES);

    write_word(&world->nodes[number].clients[SETTER], address, 0);
    (void)ask_now(world, number, SPACE_RECORD_FLUSH, 0, 0, 0);
    for (uint32_t n = 0; n < LITMUS_NODES; n++) {
        if ((readers >> n & 1) != 0) {
            claim(world, ask_now(world, n, SPACE_RECORD_READ, address, 8, 0) == 0,
                  "what was flushed is not there");
        }
    }
}

/* All that it said is carried out. */
static bool is_empty(struct litmus_world *world, struct space_producer *producer)
{
    claim(world, space_producer_look(producer), "a node says what cannot be");
    return producer->head == producer->tail;
}

static bool is_done(struct litmus_world *world)
{
    for (uint32_t n = 0; n < world->cell->program.threads; n++) {
        if (!has_ended(world, n) || !is_empty(world, &world->threads[n].client->producer)) {
            return false;
        }
    }
    for (uint32_t n = 0; n < LITMUS_NODES; n++) {
        if (world->nodes[n].is_asked) {
            world->evicts = false;
            return false;
        }
    }
    return true;
}

/* What the variables are at the end, by all nodes. */
static void look(struct litmus_world *world)
{
    for (uint32_t n = 0; n < LITMUS_VARIABLES; n++) {
        uint64_t value = ask_now(world, 0, SPACE_RECORD_READ, world->addresses[n], 8, 0);

        claim(world, value < 16, "a word is what nobody wrote");
        for (uint32_t node = 1; node < LITMUS_NODES; node++) {
            claim(world,
                  ask_now(world, node, SPACE_RECORD_READ, world->addresses[n], 8, 0) == value,
                  "two nodes read different words");
        }
        world->outcome |= litmus_ends(n, value);
    }
}

bool litmus_world_round(struct litmus_world *world, struct litmus_cell *cell, uint64_t *outcome)
{
    uint64_t most;

    now = world;
    world->cell = NULL;
    world->evicts = false;
    place(world, cell);
    choose_weights(world);
    for (uint32_t n = 0; n < LITMUS_VARIABLES; n++) {
        set_up_word(world, cell, world->addresses[n]);
    }
    world->cell = cell;
    world->evicts = cell->evicts;
    world->outcome = 0;
    world->told = false;
    choose_weights(world);
    for (most = world->events + MOST_EVENTS; world->broken == NULL && !is_done(world);) {
        one_event(world);
        claim(world, world->events < most, "a round has no end");
    }
    world->evicts = false;
    look(world);
    *outcome = world->outcome;
    return world->broken == NULL;
}

/* ---- a world -------------------------------------------------------------- */

static void give_memory(struct litmus_world *world)
{
    for (uint32_t number = 0; number < LITMUS_NODES; number++) {
        struct litmus_node *node = &world->nodes[number];

        for (uint32_t n = 0; n < LITMUS_VARIABLES; n++) {
            node->blocks[n] = ask_now(world, number, SPACE_RECORD_ALLOC, 0, 0, LITMUS_BYTES);
        }
        for (uint32_t n = 0; n < LITMUS_FILLERS; n++) {
            node->fillers[n] = ask_now(world, number, SPACE_RECORD_ALLOC, 0, 0, LITMUS_BYTES);
        }
    }
}

void litmus_world_init(struct litmus_world *world, uint64_t seed)
{
    memset(world, 0, sizeof(*world));
    now = world;
    world->now_us = 1000;
    random_init(&world->random, seed);
    choose_weights(world);
    for (uint32_t n = 0; n < LITMUS_NODES; n++) {
        start_node(world, n);
    }
    for (uint32_t n = 0; n < LITMUS_NODES; n++) {
        space_engine_members(world->nodes[n].engine, (1u << LITMUS_NODES) - 1, world->now_us);
    }
    for (uint32_t n = 0; n < LITMUS_NODES * LITMUS_NODES; n++) {
        if (n / LITMUS_NODES != n % LITMUS_NODES) {
            space_engine_up(world->nodes[n / LITMUS_NODES].engine, (uint8_t)(n % LITMUS_NODES),
                            world->now_us);
        }
    }
    give_memory(world);
}

void litmus_world_fini(struct litmus_world *world)
{
    now = world;
    for (uint32_t n = 0; n < LITMUS_NODES; n++) {
        stop_node(world, n);
    }
}

uint64_t litmus_world_evictions(const struct litmus_world *world)
{
    uint64_t evictions = 0;

    for (uint32_t n = 0; n < LITMUS_NODES; n++) {
        struct space_engine_stats stats;

        space_engine_stats(world->nodes[n].engine, &stats);
        evictions += stats.evictions;
    }
    return evictions;
}
