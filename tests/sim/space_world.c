/* SPDX-License-Identifier: Apache-2.0 */
/* See space_world.h. */
#include "space_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/space_record.h"
#include "support/support.h"

#define SPACE_NUMBER 7u
#define COUNTER      2u /* the word that is counted in */

static struct world *now; /* for shells, which have only a node */

static bool claim(struct world *world, bool holds, const char *what)
{
    if (!holds && world->broken == NULL) {
        world->broken = what;
    }
    return holds;
}

static uint64_t below(struct world *world, uint64_t bound)
{
    return random_below(&world->random, bound);
}

static bool one_in(struct world *world, uint64_t count)
{
    return below(world, count) == 0;
}

/* ---- boundaries ----------------------------------------------------------- */

const char *world_boundary_name(enum world_boundary what)
{
    static const char *const names[] = {
        [BOUNDARY_LOG_MADE] = "a log file is made",
        [BOUNDARY_LOG_WRITE] = "a log is written",
        [BOUNDARY_LOG_SYNC] = "a log is synced",
        [BOUNDARY_IMAGE_MADE] = "an image is made",
        [BOUNDARY_IMAGE_WRITE] = "an image is written",
        [BOUNDARY_IMAGE_SYNC] = "an image is synced",
        [BOUNDARY_RENAME] = "an image is named",
        [BOUNDARY_NAMES_SYNC] = "names are synced",
        [BOUNDARY_ASK_OUT] = "an ask leaves",
        [BOUNDARY_ASK_IN] = "an ask arrives",
        [BOUNDARY_GRANT_OUT] = "a grant leaves",
        [BOUNDARY_GRANT_IN] = "a grant arrives",
        [BOUNDARY_RECALL_OUT] = "a recall leaves",
        [BOUNDARY_RECALL_IN] = "a recall arrives",
        [BOUNDARY_GIVEN_UP_OUT] = "what is given up leaves",
        [BOUNDARY_GIVEN_UP_IN] = "what is given up arrives",
        [BOUNDARY_TERM_OUT] = "what is of a term leaves",
        [BOUNDARY_TERM_IN] = "what is of a term arrives",
        [BOUNDARY_OTHER_OUT] = "another message leaves",
        [BOUNDARY_OTHER_IN] = "another message arrives",
    };

    return names[what];
}

/* Whether the node is killed here. */
static bool ends_here(struct world *world, uint32_t node, enum world_boundary what, bool is_after)
{
    struct world_kill *kill = &world->kill;

    if (!world->rules.has_boundaries || node != world->rules.killed || kill->is_done) {
        return false;
    }
    kill->counts[what][is_after]++;
    if (++kill->passed != world->rules.killed_at) {
        return false;
    }
    kill->is_due = kill->is_done = true;
    kill->what = what;
    kill->is_after = is_after;
    return true;
}

/* It was killed a moment ago. */
static bool has_ended(const struct world *world, uint32_t node)
{
    return world->kill.is_due && node == world->rules.killed;
}

static enum world_boundary boundary_of_disk(enum disk_operation operation, enum space_log_file file)
{
    bool is_log = file == SPACE_LOG_EVEN || file == SPACE_LOG_ODD;

    switch (operation) {
    case DISK_SIZE: return is_log ? BOUNDARY_LOG_MADE : BOUNDARY_IMAGE_MADE;
    case DISK_WRITE: return is_log ? BOUNDARY_LOG_WRITE : BOUNDARY_IMAGE_WRITE;
    case DISK_SYNC: return is_log ? BOUNDARY_LOG_SYNC : BOUNDARY_IMAGE_SYNC;
    case DISK_RENAME: return BOUNDARY_RENAME;
    default: return BOUNDARY_NAMES_SYNC;
    }
}

static enum disk_end shell_disk(void *context, enum disk_operation operation,
                                enum space_log_file file)
{
    struct world_node *node = context;
    uint32_t number = (uint32_t)(node - now->nodes);
    enum world_boundary what = boundary_of_disk(operation, file);

    return ends_here(now, number, what, false)  ? DISK_ENDS_BEFORE
           : ends_here(now, number, what, true) ? DISK_ENDS_AFTER
                                                : DISK_GOES_ON;
}

static enum world_boundary boundary_of_home(uint8_t event)
{
    switch (event) {
    case SPACE_HOME_ASK_READ:
    case SPACE_HOME_ASK_WRITE:
    case SPACE_HOME_ASK_ATOMIC: return BOUNDARY_ASK_OUT;
    case SPACE_HOME_CLAIM_SHARED:
    case SPACE_HOME_CLAIM_DIRTY:
    case SPACE_HOME_CLAIM_LEFT: return BOUNDARY_TERM_OUT;
    default: return BOUNDARY_GIVEN_UP_OUT;
    }
}

static enum world_boundary boundary_of_cache(uint8_t event)
{
    switch (event) {
    case SPACE_CACHE_SHARE:
    case SPACE_CACHE_OWN:
    case SPACE_CACHE_UPGRADE:
    case SPACE_CACHE_ATOMIC_DONE: return BOUNDARY_GRANT_OUT;
    case SPACE_CACHE_RESTORE: return BOUNDARY_TERM_OUT;
    default: return BOUNDARY_RECALL_OUT;
    }
}

/* Of a message that leaves; the same one's that arrives is the next. */
static enum world_boundary boundary_of(const struct space_wire *wire)
{
    switch (wire->kind) {
    case SPACE_WIRE_TO_HOME: return boundary_of_home(wire->event);
    case SPACE_WIRE_TO_CACHE: return boundary_of_cache(wire->event);
    case SPACE_WIRE_TERM: return BOUNDARY_TERM_OUT;
    default: return BOUNDARY_OTHER_OUT;
    }
}

/* ---- histories ------------------------------------------------------------ */

#define NO_OP SIZE_MAX

static size_t record(struct world *world, struct linear_history *history, struct linear_op op)
{
    size_t number;

    if (!world->has_history) {
        return NO_OP;
    }
    number = linear_begin(history, op, world->event);
    NIGH_ASSERT(number != NO_OP);
    return number;
}

static void record_end(struct world *world, struct linear_history *history, size_t number,
                       uint64_t found)
{
    if (number != NO_OP) {
        linear_end(history, number, found, world->event);
    }
}

/* It has found nothing, or has nothing that anybody saw. */
static void record_none(struct linear_history *history, size_t number)
{
    if (number != NO_OP) {
        linear_cancel(history, number);
    }
}

static uint32_t number_of(const struct world *world, const struct world_client *client)
{
    size_t at = (size_t)((const char *)client - (const char *)world->nodes);
    size_t node = at / sizeof(world->nodes[0]);

    return (uint32_t)(node * WORLD_CLIENTS + (size_t)(client - world->nodes[node].clients));
}

/* No block that is given is one that was. */
static uint64_t name_of(const struct world *world, uint32_t block, uint64_t life, uint32_t word)
{
    NIGH_ASSERT(block < ARRAY_LENGTH(world->blocks) && word < WORLD_WORDS);
    return life << 16 | block << 8 | word;
}

static struct linear_op op_of(const struct world *world, const struct world_client *client,
                              uint32_t block, uint32_t word)
{
    uint32_t who = number_of(world, client);

    return (struct linear_op){.word = name_of(world, block, world->blocks[block].life, word),
                              .who = who};
}

static size_t record_word(struct world *world, const struct world_client *client, uint8_t kind,
                          uint64_t one, uint64_t other)
{
    struct linear_op op = op_of(world, client, client->block, client->word);

    op.kind = kind == SPACE_RECORD_READ       ? LINEAR_READ
              : kind == SPACE_RECORD_ADD      ? LINEAR_ADD
              : kind == SPACE_RECORD_EXCHANGE ? LINEAR_EXCHANGE
              : kind == SPACE_RECORD_SWAP     ? LINEAR_SWAP
                                              : LINEAR_WRITE;
    op.given = kind == SPACE_RECORD_SWAP ? other : one;
    op.compare = one;
    return record(world, &world->history, op);
}

static size_t record_lock(struct world *world, const struct world_client *client, uint32_t block,
                          uint64_t life, enum linear_kind kind)
{
    struct linear_op op = {.word = name_of(world, block, life, 0),
                           .kind = kind,
                           .given = number_of(world, client),
                           .who = number_of(world, client)};

    return record(world, &world->holders, op);
}

static bool is_lock(uint8_t kind)
{
    return kind >= SPACE_RECORD_LOCK_READ && kind <= SPACE_RECORD_TRY_LOCK_WRITE;
}

static bool is_lock_alone(uint8_t kind)
{
    return kind == SPACE_RECORD_LOCK_WRITE || kind == SPACE_RECORD_TRY_LOCK_WRITE;
}

static size_t record_asked(struct world *world, const struct world_client *client, uint64_t one,
                           uint64_t other)
{
    if (is_lock(client->kind)) {
        return record_lock(world, client, client->block, world->blocks[client->block].life,
                           is_lock_alone(client->kind) ? LINEAR_LOCK : LINEAR_SHARE);
    }
    return client->kind <= SPACE_RECORD_SWAP && client->kind >= SPACE_RECORD_READ
               ? record_word(world, client, client->kind, one, other)
               : NO_OP;
}

/* What became of it. What was not well may have been done nevertheless, or be done later; but who
 * did not read has read nothing, and a lock that nobody was told of nobody has. */
static void record_answer(struct world *world, struct world_client *client, nigh_status status,
                          uint64_t found)
{
    struct linear_history *history = is_lock(client->kind) ? &world->holders : &world->history;

    if (status == NIGH_OK) {
        record_end(world, history, client->op, found);
    } else if (is_lock(client->kind) || client->kind == SPACE_RECORD_READ) {
        record_none(history, client->op);
    }
    client->op = NO_OP;
}

static bool judge(struct world *world, const struct linear_history *history, linear_model model)
{
    struct linear_result result =
        linear_check(history->ops, history->count, model, 0, LINEAR_STEPS);

    for (size_t n = 0; n < history->count; n++) {
        world->judged += history->ops[n].kind != LINEAR_OUT;
    }
    if (result.verdict != LINEAR_YES) {
        linear_say(stdout, history->ops, history->count, &result);
    }
    return result.verdict == LINEAR_YES;
}

bool world_judge(struct world *world)
{
    return claim(world, judge(world, &world->history, linear_register),
                 "what words were is NOT linearizable") &&
           claim(world, judge(world, &world->holders, linear_lock),
                 "who held blocks is NOT linearizable");
}

/* ---- channels ------------------------------------------------------------- */

static struct world_channel *channel_of(struct world *world, uint32_t from, uint32_t to)
{
    return &world->channels[from][to];
}

static struct world_item *item_of(struct world_channel *channel, uint32_t n)
{
    return &channel->items[(channel->first + n) % WORLD_DEPTH];
}

static bool shell_send(void *context, const struct space_send *send)
{
    struct world_node *node = context;
    uint32_t from = (uint32_t)(node - now->nodes), to = send->seat;
    struct world_channel *channel = channel_of(now, from, to);
    enum world_boundary boundary = boundary_of(&send->wire);

    claim(now, channel->is_up, "a message to who is not linked");
    if (has_ended(now, from)) {
        return true;
    }
    if ((now->rules.busy && channel->count >= 3 && !one_in(now, 4)) ||
        channel->count == WORLD_DEPTH) {
        return false;
    }
    if (ends_here(now, from, boundary, false)) {
        return true;
    }
    now->messages++;
    if (send->wants_end) {
        channel->ends[send->cookie]++;
    }
    if (channel_of(now, to, from)->is_up || !channel->is_cut) { /* else it gets nowhere */
        *item_of(channel, channel->count++) = (struct world_item){.send = *send};
    }
    (void)ends_here(now, from, boundary, true);
    return true;
}

static void shell_cut(void *context, uint8_t seat, nigh_status why)
{
    struct world_node *node = context;
    uint32_t from = (uint32_t)(node - now->nodes);

    claim(now, why != NIGH_PROTOCOL, "a node says what nobody says");
    channel_of(now, from, seat)->is_cut = true;
    channel_of(now, seat, from)->is_cut = true;
}

static void land(struct world *world, uint32_t from, uint32_t to, struct world_item *item)
{
    const struct space_send *send = &item->send;
    const struct world_node *source = &world->nodes[from], *target = &world->nodes[to];
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
        channel_of(world, from, to)->arrived[send->cookie]++;
    }
}

static void deliver(struct world *world, uint32_t from, uint32_t to)
{
    struct world_channel *channel = channel_of(world, from, to);
    struct world_item *item = item_of(channel, 0);
    struct space_wire wire = item->send.wire;
    enum world_boundary boundary = (enum world_boundary)(boundary_of(&wire) + 1);

    land(world, from, to, item);
    if (ends_here(world, to, boundary, false)) {
        return;
    }
    channel->first = (channel->first + 1) % WORLD_DEPTH;
    channel->count--;
    space_engine_message(world->nodes[to].engine, (uint8_t)from, &wire, sizeof(wire),
                         world->now_us);
    (void)ends_here(world, to, boundary, true);
}

static void tell_ends(struct world *world, uint32_t from, uint32_t to, bool all)
{
    struct world_channel *channel = channel_of(world, from, to);

    for (uint32_t cookie = 0; cookie < SPACE_SEATS; cookie++) {
        uint32_t count = all ? channel->ends[cookie] : channel->arrived[cookie];

        for (uint32_t n = 0; n < count && world->nodes[from].is_alive; n++) {
            space_engine_sent(world->nodes[from].engine, cookie, world->now_us);
        }
        channel->ends[cookie] -= count;
        channel->arrived[cookie] -= all ? channel->arrived[cookie] : count;
    }
}

/* Nothing of it arrives any more; each side hears so in its own time. */
static void cut(struct world *world, uint32_t a, uint32_t b)
{
    for (uint32_t n = 0; n < 2; n++) {
        struct world_channel *channel = channel_of(world, n == 0 ? a : b, n == 0 ? b : a);

        while (channel->count > 0) {
            struct world_item *item = item_of(channel, 0);

            if (!item->has_landed && world->nodes[n == 0 ? a : b].is_alive && one_in(world, 2)) {
                land(world, n == 0 ? a : b, n == 0 ? b : a, item);
            }
            channel->first = (channel->first + 1) % WORLD_DEPTH;
            channel->count--;
        }
        channel->is_cut = true;
    }
}

static void go_down(struct world *world, uint32_t at, uint32_t peer)
{
    struct world_channel *channel = channel_of(world, at, peer);

    cut(world, at, peer);
    channel->is_up = false;
    tell_ends(world, at, peer, true);
    if (world->nodes[at].is_alive) {
        space_engine_down(world->nodes[at].engine, (uint8_t)peer, world->now_us);
    }
}

/* A link that is cut at both ends is dialled anew; its ends come up each in its own time. */
static void link_event(struct world *world, uint32_t at, uint32_t peer)
{
    struct world_channel *out = channel_of(world, at, peer), *in = channel_of(world, peer, at);

    if (out->is_up) {
        if (out->is_cut) {
            go_down(world, at, peer);
        }
        return;
    }
    if (!world->nodes[at].is_alive || !world->nodes[peer].is_alive) {
        return;
    }
    if (!in->is_up) {
        out->is_cut = in->is_cut = false; /* anew */
    } else if (in->is_cut) {
        return; /* the peer has yet to hear that the last one ended */
    }
    out->is_up = true;
    space_engine_up(world->nodes[at].engine, (uint8_t)peer, world->now_us);
}

/* ---- nodes ---------------------------------------------------------------- */

static struct space_engine *shell_find(void *context, uint32_t session, uint32_t space,
                                       bool *may_write, nigh_status *why)
{
    struct world_node *node = context;

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

static bool shell_wanted(void *context, uint64_t block)
{
    struct world_node *node = context;

    return space_windows_wanted(node->windows, node->engine, block);
}

static void start_client(struct world *world, struct world_node *node, struct world_client *client)
{
    nigh_status status;

    memset(client, 0, offsetof(struct world_client, writes));
    client->memory = aligned_alloc(4096, sizeof(*client->memory));
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
    client->op = client->unlock = NO_OP;
    client->state = CLIENT_IDLE;
    if (world->rules.users != NULL) {
        world->rules.users->started(world->rules.users->context, (uint32_t)(node - world->nodes),
                                    (uint32_t)(client - node->clients));
    }
}

/* What is on the way to its home is done there when it comes, though nobody waits for it any more.
 */
static void note_doubt(struct world *world, const struct world_client *client)
{
    struct world_block *block = &world->blocks[client->block];

    if (space_kind_is_atomic(client->kind) && block->address == client->address) {
        block->has_doubt = true;
    }
}

static void stop_client(struct world *world, struct world_node *node, struct world_client *client)
{
    if (client->state != CLIENT_GONE) {
        space_windows_remove(node->windows, client->window, world->now_us);
        free(client->memory);
        if (client->state == CLIENT_ASKS) {
            note_doubt(world, client);
        }
        client->state = CLIENT_GONE;
        if (client->holds) {
            (void)record_lock(world, client, client->held, client->held_life, LINEAR_UNLOCK);
        }
        client->holds = false;
        if (world->rules.users != NULL) {
            world->rules.users->stopped(world->rules.users->context,
                                        (uint32_t)(node - world->nodes),
                                        (uint32_t)(client - node->clients));
        }
    }
}

void world_end_client(struct world *world, uint32_t node, uint32_t client)
{
    stop_client(world, &world->nodes[node], &world->nodes[node].clients[client]);
}

bool world_claim(struct world *world, bool holds, const char *what)
{
    return claim(world, holds, what);
}

static uint64_t alive(const struct world *world)
{
    uint64_t seats = 0;

    for (uint32_t n = 0; n < world->rules.nodes; n++) {
        seats |= (uint64_t)world->nodes[n].is_alive << n;
    }
    return seats;
}

/* ---- logs ----------------------------------------------------------------- */

static void shell_log(void *context, struct space_log_job *job)
{
    struct world_node *node = context;

    claim(now, node->job == NULL, "two jobs of one log");
    node->job = job;
    node->is_job_late = has_ended(now, (uint32_t)(node - now->nodes));
}

static void shell_failed(void *context, nigh_status why)
{
    struct world_node *node = context;

    claim(now, why == NIGH_DISK, "a log fails, and its disk does not");
    node->has_failed = true;
}

static void run_job(struct world *world, struct world_node *node)
{
    struct space_log_files files = disk_files(&node->disk);

    space_log_run(&files, node->job);
    if (!node->disk.has_stopped) {
        node->job = NULL;
        space_engine_logged(node->engine, world->now_us);
    }
}

/* The power goes: of what was under way something is done, or nothing; or it went meanwhile. */
static void lose_job(struct world *world, struct world_node *node)
{
    struct space_log_files files = disk_files(&node->disk);
    struct space_log_job *job = node->job;

    if (job == NULL) {
        return;
    }
    node->job = NULL;
    if (node->is_job_late) {
        job->status = NIGH_DISK;
    } else if (!node->disk.has_stopped) {
        node->disk.stops_at = node->disk.operations + below(world, 4);
        if (one_in(world, 4)) {
            job->status = NIGH_DISK;
        } else {
            space_log_run(&files, job);
        }
    }
    space_engine_logged(node->engine, world->now_us);
}

static void init_disk(struct world *world, struct world_node *node)
{
    disk_init(&node->disk, random_u64(&world->random));
    if (world->rules.has_boundaries) {
        node->disk.asks = shell_disk;
        node->disk.context = node;
    }
}

/* What it had is there again; false: the disk stopped once more before it was. */
static bool open_log(struct world *world, uint32_t number, struct space_engine_config *config,
                     struct space_log_state *state)
{
    struct world_node *node = &world->nodes[number];
    struct space_log_files files = disk_files(&node->disk);
    struct space_log_geometry geometry = {.rank = (uint16_t)number,
                                          .block_bytes = WORLD_BYTES,
                                          .blocks = world->rules.home,
                                          .frames = SPACE_WAYS * world->rules.sets};
    struct space_log_name name = {.identity = number + 1, .life = random_u64(&world->random)};
    struct space_log_found found;
    nigh_status status;

    if (world->rules.lossy && !world->is_calm && one_in(world, 3)) {
        disk_fini(&node->disk);
        init_disk(world, node);
    }
    disk_start(&node->disk, !world->is_calm && one_in(world, 4) ? below(world, 16) : UINT64_MAX);
    status = space_log_state_init(state, &geometry, (uint8_t *)config->home.bytes,
                                  random_u64(&world->random));
    NIGH_ASSERT(status == NIGH_OK);
    status = space_log_recover(&files, name.identity, state, &found);
    claim(world, status == NIGH_OK, "a log cannot be read");
    if (status == NIGH_OK && found.is_new) {
        state->lives[number] = config->life;
    }
    status = status == NIGH_OK
                 ? space_log_start(&node->log, &files, &name, UINT64_C(64) << 10, state, &found)
                 : status;
    if (status != NIGH_OK) {
        world->relapses++;
        space_log_state_fini(state);
        return false;
    }
    world->backs += !found.is_new;
    node->disk.stops_at = UINT64_MAX;
    config->log = &node->log;
    config->is_sync = world->rules.sync;
    config->recovered = state;
    config->shell.log = shell_log;
    config->shell.failed = shell_failed;
    return true;
}

static void start_node(struct world *world, uint32_t number)
{
    struct world_node *node = &world->nodes[number];
    struct space_log_state state;
    struct space_windows_shell shell = {
        .context = node, .find = shell_find, .broken = shell_broken};
    struct space_engine_config config = {
        .space = 77,
        .birth = 1,
        .life = random_u64(&world->random) | 1,
        .self = (uint8_t)number,
        .asks = world->rules.asks,
        .letters = world->rules.letters == 0 ? 2048 : world->rules.letters,
        .opening = world->rules.opening,
        .shell = {.context = node, .send = shell_send, .cut = shell_cut, .wanted = shell_wanted},
    };
    nigh_status status;

    uint32_t blocks = world->rules.home, sets = world->rules.sets;

    node->home_bytes = space_view_home_bytes(blocks, WORLD_BYTES);
    node->cache_bytes = space_view_cache_bytes(sets, WORLD_BYTES);
    node->home = aligned_alloc(4096, node->home_bytes);
    node->cache = aligned_alloc(4096, node->cache_bytes);
    memset(node->home, 0, node->home_bytes);
    memset(node->cache, 0, node->cache_bytes);
    space_view_make_home(
        node->home, blocks, WORLD_BYTES,
        space_address_of_life((uint8_t)number, ++node->lives, (uint64_t)blocks * WORLD_BYTES),
        &config.home);
    space_view_make_cache(node->cache, sets, WORLD_BYTES, &config.cache);
    config.home_memory = node->home;
    config.cache_memory = node->cache;
    if (world->rules.logs && !open_log(world, number, &config, &state)) {
        free(node->home);
        free(node->cache);
        return;
    }
    status = space_engine_create(&config, &node->engine);
    NIGH_ASSERT(status == NIGH_OK);
    if (world->rules.logs) {
        space_log_state_fini(&state);
    }
    node->has_failed = false;
    status = space_windows_create(WORLD_CLIENTS, &shell, &node->windows);
    NIGH_ASSERT(status == NIGH_OK);
    node->is_alive = true;
    node->members = 0;
    for (uint32_t n = 0; n < world->rules.clients; n++) {
        start_client(world, node, &node->clients[n]);
    }
}

static void add_stats(struct world *world, const struct world_node *node)
{
    struct space_engine_stats stats;

    space_engine_stats(node->engine, &stats);
    world->evictions += stats.evictions;
    world->terms += stats.terms;
    world->refused += stats.refused;
    world->dropped += stats.dropped;
}

static void stop_node(struct world *world, uint32_t number)
{
    struct world_node *node = &world->nodes[number];

    for (uint32_t n = 0; n < world->rules.clients; n++) {
        stop_client(world, node, &node->clients[n]);
    }
    add_stats(world, node);
    space_engine_end(node->engine, NIGH_CLOSED);
    lose_job(world, node);
    space_engine_destroy(node->engine);
    if (world->rules.logs) {
        world->commits += node->log.commits;
        world->images += node->log.images;
        space_log_fini(&node->log);
        node->disk.fails_at = UINT64_MAX;
    }
    space_windows_destroy(node->windows);
    node->is_alive = false;
    for (uint32_t n = 0; n < world->rules.nodes; n++) {
        if (n != number) {
            cut(world, number, n);
            channel_of(world, number, n)->is_up = false;
            memset(channel_of(world, number, n)->ends, 0, sizeof(uint32_t[SPACE_SEATS]));
            memset(channel_of(world, number, n)->arrived, 0, sizeof(uint32_t[SPACE_SEATS]));
        }
    }
    free(node->home);
    free(node->cache);
}

static void tell_members(struct world *world, uint32_t number)
{
    struct world_node *node = &world->nodes[number];

    node->members = alive(world);
    space_engine_members(node->engine, node->members, world->now_us);
}

void world_init(struct world *world, const struct world_rules *rules, uint64_t seed)
{
    memset(world, 0, offsetof(struct world, words));
    now = world;
    for (uint32_t n = 0; n < WORLD_BLOCKS; n++) {
        world->blocks[n].words = world->words[n];
    }
    for (uint32_t n = 0; n < WORLD_NODES * WORLD_NODES; n++) {
        uint32_t from = n / WORLD_NODES, to = n % WORLD_NODES;

        world->channels[from][to].items = world->items[from][to];
    }
    world->rules = *rules;
    world->rules.home = rules->home == 0 ? WORLD_HOME : rules->home;
    world->rules.sets = rules->sets == 0 ? 1 : rules->sets;
    world->rules.slow = rules->slow == 0 ? 3 + (uint32_t)(seed % 4) * 20 : rules->slow;
    world->has_history =
        rules->users == NULL && (!rules->logs || (rules->sync && !rules->lossy && !rules->fails));
    NIGH_ASSERT(rules->users != NULL || (world->rules.home == WORLD_HOME &&
                                         world->rules.sets * SPACE_WAYS == WORLD_FRAMES));
    world->touched = space_bit((uint8_t)rules->nodes) - 1;
    world->seed = seed;
    world->now_us = 1000;
    random_init(&world->random, seed);
    world->is_calm = true; /* disks, too, until all are there */
    for (uint32_t n = 0; n < rules->nodes; n++) {
        init_disk(world, &world->nodes[n]);
        start_node(world, n);
    }
    for (uint32_t n = 0; n < rules->nodes; n++) {
        if (world->nodes[n].is_alive) {
            tell_members(world, n);
        }
    }
    world->is_calm = false;
}

void world_fini(struct world *world)
{
    for (uint32_t n = 0; n < world->rules.nodes; n++) {
        if (world->nodes[n].is_alive) {
            stop_node(world, n);
        }
        disk_fini(&world->nodes[n].disk);
    }
    linear_free(&world->history);
    linear_free(&world->holders);
}

/* ---- what logs keep ------------------------------------------------------- */

static void push_past(struct world_word *word, uint64_t value)
{
    if (word->pasts == WORLD_PASTS) {
        memmove(word->past, word->past + WORLD_PASTS / 2, WORLD_PASTS / 2 * sizeof(uint64_t));
        word->pasts -= WORLD_PASTS / 2;
        word->firm -= min_u32(word->firm, WORLD_PASTS / 2);
    }
    word->past[word->pasts++] = value;
}

/* What a counter was between two looks, of which the second saw what is at `n`. */
static void note_between(struct world_word *word, uint32_t n, uint64_t value)
{
    memmove(word->past + n + 1, word->past + n, (word->pasts - n) * sizeof(uint64_t));
    word->past[n] = value;
    word->pasts++;
}

/* Whatever happens it is this, or what came behind it. */
static void make_firm(struct world_word *word, uint64_t value, bool is_counter)
{
    for (uint32_t n = word->pasts; n-- > word->firm + 1;) {
        if (is_counter && word->past[n] > value && word->past[n - 1] < value) {
            if (word->pasts == WORLD_PASTS) {
                return;
            }
            note_between(word, n, value);
        }
        if (word->past[n] == value) {
            word->firm = n;
            return;
        }
    }
}

static void note_gone(struct world_word *word, uint64_t value, uint64_t event)
{
    uint32_t n = 0;

    while (n < min_u32(word->gones, WORLD_PASTS) && word->gone[n].value != value) {
        n++;
    }
    if (n == min_u32(word->gones, WORLD_PASTS)) {
        n = word->gones++ % WORLD_PASTS;
    }
    word->gone[n].value = value;
    word->gone[n].until = event;
}

/* A crash made it what it was before, and it may have been changed before anybody looked: then it
 * was whatever it was and need not have stayed. */
static void note_gap(struct world *world, struct world_word *word)
{
    word->crashes = world->crashes;
    for (uint32_t n = word->firm; n < word->pasts; n++) {
        note_gone(word, word->past[n], world->event);
    }
}

/* It is again what it was before: what no log has is gone. A counter may be what it was between two
 * events. */
static bool goes_back(struct world *world, struct world_word *word, uint64_t value, bool is_counter)
{
    uint32_t n = word->pasts;

    while (n > 0 && word->past[n - 1] != value && !(is_counter && word->past[n - 1] < value)) {
        n--;
    }
    if (!world->rules.logs || n == 0 || (is_counter && value > word->value)) {
        return false;
    }
    claim(world, world->crashes > 0, "a word is again what it was before");
    claim(world, n > word->firm, "what was to stay is gone");
    word->pasts = n;
    if (word->past[n - 1] != value) {
        push_past(word, value);
    }
    return true;
}

/* What a write that is done is for. */
static void note_done(struct world *world, struct world_client *client,
                      const struct world_write *write)
{
    struct world_block *block = &world->blocks[write->block];
    size_t node =
        (size_t)((const char *)client - (const char *)world->nodes) / sizeof(world->nodes[0]);

    /* Where the log failed it has ended, and need not be done. */
    if (block->address != write->address || world->nodes[node].engine->log.status != NIGH_OK) {
        return;
    }
    if (world->rules.sync) {
        make_firm(&block->words[write->word], write->value, false);
    } else if (world->rules.logs && client->unflushed < ARRAY_LENGTH(client->flush)) {
        client->flush[client->unflushed++] = *write;
    }
}

static void note_flush(struct world *world, struct world_client *client)
{
    for (uint32_t n = 0; n < client->unflushed; n++) {
        struct world_block *block = &world->blocks[client->flush[n].block];

        if (block->address == client->flush[n].address) {
            make_firm(&block->words[client->flush[n].word], client->flush[n].value, false);
        }
    }
    client->unflushed = 0;
}

/* ---- what is there -------------------------------------------------------- */

static const uint8_t *readable(const struct world_node *node, uint64_t address, bool *is_writable)
{
    struct space_engine *engine = node->engine;
    uint32_t frame;

    if (!node->is_alive || engine->has_ended) {
        return NULL;
    }
    if (engine_is_ours(engine, address)) {
        uint64_t number = engine_number(engine, address);
        const struct space_entry *entry = &engine->entries[number];

        if (!engine_is_current(engine, address) || !engine->has_begun) {
            return NULL;
        }
        *is_writable = space_entry_is_writable(entry);
        return space_entry_is_readable(entry) || entry->state == SPACE_HOME_REBUILDING
                   ? (const uint8_t *)space_bytes_of(&engine->config.home, number)
                   : NULL;
    }
    frame = space_frames_find(&engine->frames, address);
    if (frame == SPACE_NO_FRAME || !space_line_is_readable(&engine->lines[frame])) {
        return NULL;
    }
    *is_writable = space_line_is_writable(&engine->lines[frame]);
    return (const uint8_t *)space_frames_bytes(&engine->frames, frame);
}

static bool is_wanted(struct world_word *word, uint64_t value, bool has_come)
{
    for (uint32_t n = 0; n < word->asked; n++) {
        if (word->wants[n] == value) {
            if (has_come) {
                word->wants[n] = word->wants[--word->asked];
            }
            return true;
        }
    }
    return false;
}

/* All that its thread wrote before, to that block or before a fence, is there. */
static bool is_in_order(struct world_client *client, const struct world_write *write)
{
    for (const struct world_write *other = client->writes; other < write; other++) {
        if ((other->fence < write->fence || other->address == write->address) &&
            !space_producer_is_done(&client->producer, other->ticket)) {
            return false;
        }
    }
    return true;
}

static bool are_in_order(struct world *world, uint32_t block, uint32_t word, uint64_t value)
{
    for (uint32_t n = 0; n < world->rules.nodes * world->rules.clients; n++) {
        struct world_client *client =
            &world->nodes[n / world->rules.clients].clients[n % world->rules.clients];

        for (uint32_t w = 0; client->state != CLIENT_GONE && w < client->pending; w++) {
            const struct world_write *write = &client->writes[w];

            if (write->word == word && write->value == value &&
                write->address == world->blocks[block].address && !is_in_order(client, write)) {
                return false;
            }
        }
    }
    return true;
}

static void change(struct world *world, uint32_t block, uint32_t number, uint64_t value)
{
    struct world_word *word = &world->blocks[block].words[number];

    if (number == COUNTER) {
        claim(world, value > word->value && value - word->value <= word->asked,
              "a counter is what nobody made it");
        word->asked -= (uint32_t)min_u64(value - word->value, word->asked);
    } else if (claim(world, is_wanted(word, value, true),
                     "a word is what nobody wants it to be now")) {
        claim(world, are_in_order(world, block, number, value),
              "a write passes one that is before it");
    }
    push_past(word, value);
}

static void look_at_word(struct world *world, uint32_t block, uint32_t number, uint64_t value,
                         uint64_t readers)
{
    struct world_word *word = &world->blocks[block].words[number];

    if (world->rules.logs && word->crashes != world->crashes) {
        note_gap(world, word);
        if (number == COUNTER) { /* which may be what it was because somebody counted anew */
            word->origin = (uint32_t)__builtin_ctzll(readers);
        }
    }
    if (value != word->value) {
        uint64_t before = word->value;

        if (!goes_back(world, word, value, number == COUNTER)) {
            change(world, block, number, value);
        }
        word->old[word->olds++ % 64].value = before;
        word->old[(word->olds - 1) % 64].until = world->event;
        word->value = value;
        word->changed = world->event;
        word->origin = (uint32_t)__builtin_ctzll(readers);
    }
    if ((readers & ~(UINT64_C(1) << word->origin)) != 0 && word->pasts > 0) {
        word->firm = word->pasts - 1; /* it has left the node that wrote it */
    }
}

/* That it was given is not known any more. */
static void look_at_given(struct world *world, struct world_block *block)
{
    const struct world_node *home = &world->nodes[space_address_seat(block->address)];

    if (!world->rules.logs || world->rules.lossy || block->is_freed || !home->is_alive ||
        home->engine->has_ended || !space_engine_is_open(home->engine)) {
        return;
    }
    if (!engine_is_current(home->engine, block->address) ||
        home->engine->entries[engine_number(home->engine, block->address)].state ==
            SPACE_HOME_FREED) {
        claim(world, !block->is_firm, "a block that was given is not");
        block->is_used = false;
    } else {
        claim(world,
              home->engine->entries[engine_number(home->engine, block->address)].state !=
                  SPACE_HOME_LOST,
              "what logs have is lost");
    }
}

static void look_at_block(struct world *world, uint32_t number)
{
    struct world_block *block = &world->blocks[number];
    const uint8_t *first = NULL;
    uint32_t readers = 0, writers = 0;
    uint64_t who = 0;

    for (uint32_t n = 0; n < world->rules.nodes; n++) {
        bool is_writable = false;
        const uint8_t *bytes = readable(&world->nodes[n], block->address, &is_writable);

        if (bytes == NULL) {
            continue;
        }
        readers++;
        who |= UINT64_C(1) << n;
        writers += is_writable;
        if (first == NULL) {
            first = bytes;
        } else {
            claim(world, memcmp(first, bytes, WORLD_BYTES) == 0, "two that read read different");
        }
    }
    claim(world, writers == 0 || readers == 1, "one writes, and others read");
    if (first == NULL || block->is_freed) {
        return;
    }
    for (uint32_t n = 0; n < WORLD_WORDS; n++) {
        uint64_t value;

        memcpy(&value, first + 8 * n, 8);
        look_at_word(world, number, n, value, who);
    }
    block->is_firm |= (who & ~(UINT64_C(1) << space_address_seat(block->address))) != 0;
}

static void forget_done(struct world_client *client)
{
    uint32_t left = 0, failures = client->memory->failure.count;

    (void)space_producer_look(&client->producer);
    for (uint32_t n = 0; n < client->pending; n++) {
        if (!space_producer_is_done(&client->producer, client->writes[n].ticket)) {
            client->writes[left++] = client->writes[n];
            continue;
        }
        note_done(now, client, &client->writes[n]);
        if (failures == client->failures) { /* else it may be this one that failed */
            record_end(now, &now->history, client->writes[n].op, 0);
        }
    }
    if (space_producer_is_empty(&client->producer)) {
        if (failures == client->failures) {
            record_end(now, &now->holders, client->unlock, 1);
        }
        client->unlock = NO_OP;
    }
    client->pending = left;
    client->failures = failures;
}

/* Of a node whose log failed nobody knows what is done of what it says has ended. */
static void forget_all_done(struct world *world, const struct world_node *node)
{
    for (uint32_t n = 0; n < world->rules.clients; n++) {
        struct world_client *client = &world->nodes[node - world->nodes].clients[n];

        if (node->engine->log.status == NIGH_OK && client->state != CLIENT_GONE) {
            forget_done(client);
        }
    }
}

static bool is_try(uint8_t kind)
{
    return kind == SPACE_RECORD_TRY_LOCK_READ || kind == SPACE_RECORD_TRY_LOCK_WRITE;
}

/* Whether a client of that node holds it, or waits for it there and does not try, or did until the
 * home serves again; or it is away. */
static bool is_held_at(struct space_engine *engine, uint64_t address)
{
    const struct space_spot *place = engine_find_place(engine, address);
    uint32_t frame = space_frames_find(&engine->frames, address);

    if (place != NULL) {
        LIST_FOREACH(node, &place->ops)
        {
            if (!container_of(node, struct space_op, node)->is_try) {
                return true;
            }
        }
    }
    if (engine_is_ours(engine, address)) {
        const struct space_entry *entry = &engine->entries[engine_number(engine, address)];

        return entry->holds != 0 || entry->state == SPACE_HOME_AWAY;
    }
    return frame != SPACE_NO_FRAME &&
           (engine->lines[frame].holds != 0 || engine->lines[frame].wants_write ||
            engine->lines[frame].is_away);
}

/* A try is not refused for what nobody held while it went on. */
static void look_at_try(struct world *world, uint32_t number, struct world_client *client)
{
    if (client->state != CLIENT_ASKS || !is_try(client->kind) || client->was_held) {
        return;
    }
    for (uint32_t n = 0; n < world->rules.nodes; n++) {
        client->was_held |=
            world->nodes[n].is_alive && is_held_at(world->nodes[n].engine, client->address);
    }
    for (uint32_t c = 0; c < world->rules.clients; c++) {
        const struct world_client *other = &world->nodes[number].clients[c];

        client->was_held |=
            other != client && other->state == CLIENT_ASKS && other->address == client->address;
    }
}

static void look_at_tries(struct world *world)
{
    for (uint32_t n = 0; n < world->rules.nodes; n++) {
        for (uint32_t c = 0; world->nodes[n].is_alive && c < world->rules.clients; c++) {
            look_at_try(world, n, &world->nodes[n].clients[c]);
        }
    }
}

/* ---- what has changed ----------------------------------------------------- */

static void note_change(struct world *world, uint64_t address)
{
    for (uint32_t n = 0; n < WORLD_BLOCKS; n++) {
        world->stale |= (uint64_t)(world->blocks[n].address == address) << n;
    }
}

static void compare(struct world *world, struct world_seen *seen, uint64_t address, uint8_t state,
                    const void *bytes)
{
    if (seen->address == address && seen->state == state &&
        (bytes == NULL || memcmp(seen->bytes, bytes, WORLD_BYTES) == 0)) {
        return;
    }
    note_change(world, seen->address);
    note_change(world, address);
    seen->address = address;
    seen->state = state;
    if (bytes != NULL) {
        memcpy(seen->bytes, bytes, WORLD_BYTES);
    }
}

static void compare_frames(struct world *world, struct world_node *node)
{
    const struct space_engine *engine = node->engine;

    for (uint32_t frame = 0; frame < WORLD_FRAMES; frame++) {
        if (space_line_is_readable(&engine->lines[frame])) {
            compare(world, &node->frames[frame], space_frames_block(&engine->frames, frame),
                    engine->lines[frame].state, space_frames_bytes(&engine->frames, frame));
        } else if (node->frames[frame].state != 0) {
            compare(world, &node->frames[frame], 0, 0, NULL);
        }
    }
}

static void compare_home(struct world *world, struct world_node *node)
{
    const struct space_engine *engine = node->engine;

    for (uint32_t n = 0; n < world->rules.home; n++) {
        const struct space_entry *entry = &engine->entries[n];
        bool is_readable = space_entry_is_readable(entry) || entry->state == SPACE_HOME_REBUILDING;

        compare(world, &node->blocks[n], engine_address(engine, n), entry->state,
                is_readable ? space_bytes_of(&engine->config.home, n) : NULL);
    }
}

/* What clients of the node, or others by what it says, could see of it is not as it was. */
static void look_for_changes(struct world *world, struct world_node *node)
{
    const struct space_engine *engine = node->engine;
    bool is_there = node->is_alive && !engine->has_ended;
    uint8_t seen =
        is_there ? (uint8_t)(1 + 2 * engine->has_begun + 4 * space_engine_is_open(engine)) : 0;

    if (node->seen != seen) {
        node->seen = seen;
        world->stale = UINT64_MAX;
    }
    if (is_there && world->rules.users == NULL) {
        compare_frames(world, node);
        compare_home(world, node);
    }
}

static void look_at_stale(struct world *world)
{
    for (; world->stale != 0; world->stale &= world->stale - 1) {
        uint32_t n = (uint32_t)__builtin_ctzll(world->stale);

        if (n < WORLD_BLOCKS && world->blocks[n].is_used) {
            look_at_given(world, &world->blocks[n]);
        }
        if (n < WORLD_BLOCKS && world->blocks[n].is_used) {
            look_at_block(world, n);
        }
    }
}

/* All, whether it has changed or not; nothing has that no event is known to have touched. */
static void look_at_all(struct world *world)
{
    for (uint32_t n = 0; n < world->rules.nodes; n++) {
        look_for_changes(world, &world->nodes[n]);
    }
    claim(world, world->stale == 0, "something changes that no event has touched");
    world->stale = UINT64_MAX;
    look_at_stale(world);
    for (uint32_t n = 0; n < world->rules.nodes; n++) {
        if (world->nodes[n].is_alive) {
            claim(world, space_engine_is_valid(world->nodes[n].engine), "an engine is not valid");
        }
    }
}

static void look(struct world *world)
{
    look_at_tries(world);
    for (uint64_t left = world->touched; left != 0; left &= left - 1) {
        look_for_changes(world, &world->nodes[space_set_first(left)]);
    }
    look_at_stale(world);
    for (uint64_t left = world->touched; left != 0; left &= left - 1) {
        const struct world_node *node = &world->nodes[space_set_first(left)];

        if (node->is_alive && (world->rules.sync || world->has_history)) {
            forget_all_done(world, node);
        }
    }
    if (world->event % 64 == 0) {
        look_at_all(world);
    }
}

/* ---- clients -------------------------------------------------------------- */

static uint64_t address_of(const struct world_client *client, const struct world *world)
{
    return world->blocks[client->block].address + 8 * client->word;
}

static void want(struct world_word *word, uint64_t value)
{
    NIGH_ASSERT(word->asked < WORLD_ASKED);
    word->wants[word->asked++] = value;
}

/* The newest of its own writes that are not done; 0: none. */
static uint64_t own_value(const struct world *world, struct world_client *client, uint32_t block,
                          uint32_t word)
{
    uint64_t value = 0;

    for (uint32_t n = 0; n < client->pending; n++) {
        const struct world_write *write = &client->writes[n];

        if (write->block == block && write->word == word &&
            write->address == world->blocks[block].address &&
            !space_producer_is_done(&client->producer, write->ticket)) {
            value = write->value;
        }
    }
    return value;
}

/* It was that at some time since. What came and went in one event, or is on its way to another
 * node, is not seen by who looks behind that: then it is one that somebody wanted. */
static bool was(struct world_word *word, uint64_t value, uint64_t since, bool is_counter)
{
    uint64_t least = word->value;

    if (word->value == value || word->olds > 64) {
        return true;
    }
    for (uint32_t n = 0; n < 64 && n < word->olds; n++) {
        if (word->old[n].until >= since) {
            least = min_u64(least, word->old[n].value);
            if (word->old[n].value == value) {
                return true;
            }
        }
    }
    for (uint32_t n = 0; n < min_u32(word->gones, WORLD_PASTS); n++) {
        if (word->gone[n].until >= since) {
            least = min_u64(least, word->gone[n].value);
            if (word->gone[n].value == value) {
                return true;
            }
        }
    }
    return is_counter ? value >= least && value <= word->value + word->asked
                      : is_wanted(word, value, false);
}

/* Who holds a block waits for no other: two that do could wait for each other for ever. */
static bool choose_block(struct world *world, struct world_client *client)
{
    uint32_t first = (uint32_t)below(world, WORLD_BLOCKS);

    if (client->holds) {
        client->block = client->held;
        return true;
    }
    for (uint32_t n = 0; n < WORLD_BLOCKS; n++) {
        client->block = (first + n) % WORLD_BLOCKS;
        if (world->blocks[client->block].is_used && !world->blocks[client->block].is_freed) {
            return true;
        }
    }
    return false;
}

static void ask(struct world *world, struct world_client *client, uint8_t kind, uint64_t address,
                uint32_t length, uint64_t one, uint64_t other)
{
    uint64_t operands[2] = {one, other};
    uint64_t timeout_us =
        world->rules.timeouts && one_in(world, 4) ? below(world, 200) : UINT64_MAX;

    client->kind = kind;
    client->address = world->blocks[client->block].address;
    client->life = world->blocks[client->block].life;
    client->since = world->event;
    client->is_timed = timeout_us != UINT64_MAX;
    client->was_held = false;
    if (space_producer_ask(&client->producer, (enum space_record_kind)kind, &client->mapped,
                           address, length, operands, timeout_us)) {
        client->state = CLIENT_ASKS;
        client->op = record_asked(world, client, one, other);
    }
}

static void read_word(struct world *world, struct world_client *client)
{
    uint64_t value, own;

    client->word = (uint32_t)below(world, WORLD_WORDS);
    own = own_value(world, client, client->block, client->word);
    if (space_producer_read(&client->producer, &client->mapped, address_of(client, world), &value,
                            8) == SPACE_READ) {
        world->hits++;
        if (own == 0) {
            size_t op = record_word(world, client, SPACE_RECORD_READ, 0, 0);

            record_end(world, &world->history, op, value);
        }
        if (world->rules.sync && own == 0) {
            make_firm(&world->blocks[client->block].words[client->word], value, false);
        }
        claim(world,
              world->blocks[client->block].is_freed ||
                  value ==
                      (own != 0 ? own : world->blocks[client->block].words[client->word].value),
              "a read here is not of the last write");
        return;
    }
    ask(world, client, SPACE_RECORD_READ, address_of(client, world), 8, 0, 0);
}

static void write_word(struct world *world, struct world_client *client)
{
    struct world_write write = {.value = ++world->values,
                                .address = world->blocks[client->block].address,
                                .fence = client->fences};
    struct world_word *word;

    forget_done(client);
    write.block = client->block;
    write.word = client->word = (uint32_t)below(world, COUNTER);
    word = &world->blocks[client->block].words[client->word];
    if ((client->holds && client->held == client->block && !client->is_alone) ||
        word->asked > WORLD_ASKED / 2 || client->pending == ARRAY_LENGTH(client->writes)) {
        return;
    }
    if (space_producer_write(&client->producer, &client->mapped, address_of(client, world),
                             &write.value, 8, &write.ticket)) {
        want(word, write.value);
        write.op = record_word(world, client, SPACE_RECORD_WRITE, write.value, 0);
        client->writes[client->pending++] = write;
        world->writes++;
    }
}

static void do_atomic(struct world *world, struct world_client *client)
{
    struct world_block *block = &world->blocks[client->block];

    if ((client->holds && client->held == client->block && !client->is_alone)) {
        return;
    }
    client->word = (uint32_t)below(world, WORLD_WORDS);
    client->value = ++world->values;
    if (block->words[client->word].asked > WORLD_ASKED / 2) {
        return;
    }
    if (client->word == COUNTER) {
        ask(world, client, SPACE_RECORD_ADD, address_of(client, world), 8, 1, 0);
    } else if (one_in(world, 2)) {
        ask(world, client, SPACE_RECORD_EXCHANGE, address_of(client, world), 8, client->value, 0);
    } else {
        ask(world, client, SPACE_RECORD_SWAP, address_of(client, world), 8,
            block->words[client->word].value, client->value);
    }
    if (client->state == CLIENT_ASKS) {
        want(&block->words[client->word], client->value);
    }
}

static void note_lock(struct world *world, struct world_client *client)
{
    client->is_alone = is_lock_alone(client->kind);
    for (uint32_t n = 0; n < world->rules.nodes; n++) {
        for (uint32_t c = 0; c < world->rules.clients; c++) {
            struct world_client *other = &world->nodes[n].clients[c];

            if (other != client && other->state != CLIENT_GONE && other->holds &&
                other->held == client->block &&
                other->held_life == world->blocks[client->block].life) {
                claim(world, !client->is_alone && !other->is_alone, "two hold what one has alone");
            }
        }
    }
    client->holds = true;
    client->held = client->block;
    world->locks++;
}

/* As space_words.c has it, but for the clock: here nothing stands still. */
static bool take_kept(struct world *world, struct world_client *client)
{
    bool is_alone = is_lock_alone(client->kind);
    uint32_t kept = space_producer_find_kept(&client->producer, &client->mapped,
                                             world->blocks[client->block].address, is_alone);

    if (kept == SPACE_NO_KEPT || !space_producer_is_empty(&client->producer) ||
        !space_producer_take_kept(&client->producer, kept)) {
        return false;
    }
    forget_done(client);
    client->kept = kept;
    record_end(world, &world->holders,
               record_lock(world, client, client->block, world->blocks[client->block].life,
                           is_alone ? LINEAR_LOCK : LINEAR_SHARE),
               1);
    note_lock(world, client);
    world->kept++;
    return true;
}

static void give_back(struct world *world, struct world_client *client)
{
    if (client->kept != SPACE_NO_KEPT && !world->is_calm &&
        space_producer_keep(&client->producer, client->kept)) {
        record_end(world, &world->holders,
                   record_lock(world, client, client->held, client->held_life, LINEAR_UNLOCK), 1);
        client->holds = false;
        return;
    }
    client->kept = SPACE_NO_KEPT;
    if (space_producer_say(&client->producer, SPACE_RECORD_UNLOCK, &client->mapped,
                           world->blocks[client->held].address)) {
        client->unlock = record_lock(world, client, client->held, client->held_life, LINEAR_UNLOCK);
        client->holds = false;
    }
}

static void do_lock(struct world *world, struct world_client *client)
{
    static const uint8_t kinds[] = {SPACE_RECORD_LOCK_READ, SPACE_RECORD_LOCK_WRITE,
                                    SPACE_RECORD_TRY_LOCK_READ, SPACE_RECORD_TRY_LOCK_WRITE};

    if (client->holds) {
        give_back(world, client);
        return;
    }
    /* Often what it had last, which it may have kept. */
    if (one_in(world, 2) && world->blocks[client->held].is_used &&
        !world->blocks[client->held].is_freed) {
        client->block = client->held;
    }
    client->word = 0;
    client->held_life = world->blocks[client->block].life;
    client->kind = kinds[below(world, 4)];
    if (!take_kept(world, client)) {
        ask(world, client, client->kind, address_of(client, world), 0, 0, 0);
    }
}

static void do_alloc(struct world *world, struct world_client *client)
{
    uint32_t near = (uint32_t)below(world, world->rules.nodes);

    for (client->block = 0; client->block < WORLD_BLOCKS; client->block++) {
        if (!world->blocks[client->block].is_used) {
            uint64_t address = space_address_first((uint8_t)near) + WORLD_BYTES;

            client->bytes = 1 + (uint32_t)below(world, WORLD_BYTES);
            if (world->rules.rows && one_in(world, 4)) {
                client->bytes += 2 * WORLD_BYTES;
            }
            ask(world, client, SPACE_RECORD_ALLOC, one_in(world, 3) ? 0 : address, 0, client->bytes,
                0);
            return;
        }
    }
}

/* Somebody has yet to write it, or to hear of it: what it does then would be of a block that it
 * does not have. */
static bool is_in_use(struct world *world, uint32_t block)
{
    for (uint32_t n = 0; n < world->rules.nodes; n++) {
        for (uint32_t c = 0; c < world->rules.clients; c++) {
            struct world_client *client = &world->nodes[n].clients[c];

            if (client->state == CLIENT_GONE) {
                continue;
            }
            forget_done(client);
            for (uint32_t w = 0; w < client->pending; w++) {
                if (client->writes[w].block == block) {
                    return true;
                }
            }
            if ((client->state == CLIENT_ASKS && client->block == block) ||
                (client->holds && client->held == block)) {
                return true;
            }
        }
    }
    return false;
}

static void do_free(struct world *world, struct world_client *client)
{
    if (world->blocks[client->block].has_doubt || is_in_use(world, client->block)) {
        return;
    }
    ask(world, client, SPACE_RECORD_FREE, world->blocks[client->block].first, 0, 0, 0);
    if (client->state == CLIENT_ASKS) {
        world->blocks[client->block].is_freed = true;
    }
}

static uint32_t used(const struct world *world)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < WORLD_BLOCKS; n++) {
        count += world->blocks[n].is_used;
    }
    return count;
}

static void want_something(struct world *world, struct world_client *client)
{
    uint64_t what = below(world, 100);

    if (!choose_block(world, client) || (what < 25 && !client->holds && used(world) < WORLD_MANY) ||
        (what < 2 && !client->holds)) {
        do_alloc(world, client);
    } else if (what < 40) {
        read_word(world, client);
    } else if (what < 65) {
        write_word(world, client);
    } else if (what < 78) {
        do_atomic(world, client);
    } else if (what < 88 && world->rules.locks) {
        do_lock(world, client);
    } else if (what < 92) {
        client->fences +=
            space_producer_say(&client->producer, SPACE_RECORD_FENCE, &client->mapped, 0);
    } else if (what < 96) {
        ask(world, client, SPACE_RECORD_FLUSH, 0, 0, 0, 0);
    } else if (world->rules.frees) {
        do_free(world, client);
    }
}

/* Of what was given one block is used: any. */
static void note_alloc(struct world *world, const struct world_node *node,
                       struct world_client *client, uint64_t first)
{
    struct world_block *block = &world->blocks[client->block];
    uint64_t count = (client->bytes + WORLD_BYTES - 1) / WORLD_BYTES;
    uint64_t address = first + (count > 1 ? below(world, count) : 0) * WORLD_BYTES;

    for (uint32_t n = 0; n < WORLD_BLOCKS; n++) {
        struct world_block *other = &world->blocks[n];

        if (other->is_used && other->address - first < count * WORLD_BYTES) {
            claim(world, other->is_freed, "a block is given twice");
            other->is_used = false; /* who freed it never heard that it was done */
        }
    }
    for (uint32_t n = 0; n < WORLD_BLOCKS && block->is_used; n++) {
        block = &world->blocks[n];
    }
    if (block->is_used) {
        return; /* others were quicker: nobody uses it */
    }
    for (uint32_t n = 0; n < WORLD_WORDS; n++) {
        memset(&block->words[n], 0, offsetof(struct world_word, old));
        push_past(&block->words[n], 0);
    }
    block->is_used = true;
    block->is_freed = block->has_doubt = false;
    block->is_firm = world->rules.sync || &world->nodes[space_address_seat(address)] != node;
    block->address = address;
    block->first = first;
    block->life++;
    world->stale |= UINT64_C(1) << (block - world->blocks);
}

static void note_read(struct world *world, struct world_client *client, uint64_t value)
{
    struct world_block *block = &world->blocks[client->block];

    world->reads++;
    claim(world,
          block->is_freed ||
              was(&block->words[client->word], value, client->since, client->word == COUNTER),
          "a read is of no write that was the last while it went on");
    if (world->rules.sync) {
        make_firm(&block->words[client->word], value, false);
    }
}

/* All that it wrote to the block that it asked for. */
static bool has_written(struct world_client *client)
{
    for (uint32_t n = 0; n < client->pending; n++) {
        if (client->writes[n].address == client->address &&
            !space_producer_is_done(&client->producer, client->writes[n].ticket)) {
            return false;
        }
    }
    return true;
}

static void note_answer(struct world *world, struct world_node *node, struct world_client *client)
{
    uint64_t value = 0, bytes = 0;
    nigh_status status = space_producer_answer(&client->producer, &value, &bytes,
                                               client->kind == SPACE_RECORD_READ ? 8 : 0);
    struct world_block *block = &world->blocks[client->block];

    client->state = CLIENT_IDLE;
    record_answer(world, client, status,
                  is_lock(client->kind)               ? 1
                  : client->kind == SPACE_RECORD_READ ? bytes
                                                      : value);
    claim(world,
          status != NIGH_BUSY || !is_try(client->kind) || client->is_timed || client->was_held,
          "a try is refused that nobody stands before");
    world->busy += status == NIGH_BUSY && is_try(client->kind) && !client->is_timed;
    claim(world, status != NIGH_OK || client->kind > SPACE_RECORD_SWAP || has_written(client),
          "what a thread asks passes what it wrote before");
    if (client->kind != SPACE_RECORD_ALLOC && client->kind != SPACE_RECORD_FLUSH &&
        block->life != client->life) {
        return; /* another has its place here since, at the same address where a free was quick */
    }
    world->answers++;
    world->statuses[-status]++;
    claim(world,
          status != NIGH_NOT_FOUND || block->is_freed || !block->is_used || !block->is_firm ||
              world->rules.lossy,
          "what was given is said to be free");
    if (status != NIGH_OK) {
        note_doubt(world, client);
        if (client->kind == SPACE_RECORD_FREE || status == NIGH_NODE_LOST ||
            (status == NIGH_NOT_FOUND && !block->is_freed)) {
            block->is_used = false; /* it may be, or not: nobody uses it any more */
        }
        return;
    }
    switch (client->kind) {
    case SPACE_RECORD_READ: note_read(world, client, bytes); break;
    case SPACE_RECORD_ADD:
    case SPACE_RECORD_EXCHANGE:
    case SPACE_RECORD_SWAP:
        world->atomics++;
        claim(world,
              block->is_freed ||
                  was(&block->words[client->word], value, client->since, client->word == COUNTER),
              "an atomic found what was not there");
        if (world->rules.sync) {
            bool counts = client->kind == SPACE_RECORD_ADD;

            make_firm(&block->words[client->word], counts ? value + 1 : client->value, counts);
        }
        break;
    case SPACE_RECORD_FLUSH:
        claim(world, space_producer_is_empty(&client->producer), "a flush ends before its writes");
        forget_done(client);
        note_flush(world, client);
        break;
    case SPACE_RECORD_ALLOC: note_alloc(world, node, client, value); break;
    case SPACE_RECORD_FREE: block->is_used = false; break;
    default:
        client->kept = space_producer_note_lock(&client->producer, &client->mapped, client->address,
                                                is_lock_alone(client->kind), value);
        note_lock(world, client);
        break;
    }
}

static void user_event(struct world *world, uint32_t number, uint32_t client)
{
    struct world_node *node = &world->nodes[number];

    if (node->clients[client].state == CLIENT_GONE) {
        start_client(world, node, &node->clients[client]);
    } else if (!world->is_calm && world->rules.kills && one_in(world, 1000)) {
        stop_client(world, node, &node->clients[client]);
        world->kills++;
    } else {
        world->rules.users->event(world->rules.users->context, number, client);
    }
}

static void client_event(struct world *world, struct world_node *node, struct world_client *client)
{
    if (client->state == CLIENT_GONE) {
        if (!world->is_calm) {
            start_client(world, node, client);
        }
        return;
    }
    if (client->state == CLIENT_ASKS) {
        if (space_producer_is_answered(&client->producer)) {
            note_answer(world, node, client);
        }
        return;
    }
    if (world->is_calm) {
        if (client->holds) {
            do_lock(world, client);
        }
        return;
    }
    if (world->rules.kills && one_in(world, 200)) {
        stop_client(world, node, client);
        return;
    }
    want_something(world, client);
}

/* ---- events --------------------------------------------------------------- */

static uint64_t all_of(const struct world *world)
{
    return space_bit((uint8_t)world->rules.nodes) - 1;
}

void world_kill(struct world *world, uint32_t node)
{
    world->touched = all_of(world);
    world->stale = UINT64_MAX;
    if (world->nodes[node].is_alive) {
        stop_node(world, node);
        world->crashes++;
    }
}

/* Whose boundary was passed; and it is there again when others may have heard, or have not. */
static void kill_if_due(struct world *world)
{
    struct world_kill *kill = &world->kill;
    uint32_t node = world->rules.killed;

    if (kill->is_due) {
        world_kill(world, node);
        kill->is_due = false;
        kill->back_at = world->event + (one_in(world, 2) ? 1 : below(world, 400));
    } else if (kill->back_at != 0 && world->event >= kill->back_at) {
        world->touched = all_of(world);
        if (!world->nodes[node].is_alive) {
            start_node(world, node);
        }
        kill->back_at = world->nodes[node].is_alive ? 0 : kill->back_at;
    }
}

static void crash_all(struct world *world)
{
    for (uint32_t n = 0; n < world->rules.nodes; n++) {
        world_kill(world, n);
    }
    world->blackouts++;
}

static void crash_or_start(struct world *world)
{
    uint32_t number = (uint32_t)below(world, world->rules.nodes);
    uint64_t left = alive(world);

    if (world->rules.blackouts && one_in(world, 16)) {
        crash_all(world);
        return;
    }
    for (uint32_t n = 0; world->rules.restarts && world->nodes[number].is_alive && n < 3; n++) {
        number = (uint32_t)below(world, world->rules.nodes);
    }

    if (!world->nodes[number].is_alive) {
        start_node(world, number);
        /* Or later: others may say something before it knows. */
        if (world->nodes[number].is_alive && one_in(world, 2)) {
            tell_members(world, number);
        }
    } else if ((left & (left - 1)) != 0) {
        world_kill(world, number);
    }
}

static void fault(struct world *world)
{
    uint32_t a = (uint32_t)below(world, world->rules.nodes);
    uint32_t b = (uint32_t)below(world, world->rules.nodes);

    if (world->rules.breaks && a != b && one_in(world, 2)) {
        cut(world, a, b);
        world->breaks++;
    } else if (world->rules.fails && one_in(world, 8)) {
        world->nodes[a].disk.fails_at = world->nodes[a].disk.operations + below(world, 4);
        world->fails++;
    } else if (world->rules.crashes && one_in(world, world->rules.logs ? 2 : 3)) {
        crash_or_start(world);
    }
}

static void node_event(struct world *world, uint32_t number)
{
    struct world_node *node = &world->nodes[number];

    if (!node->is_alive) {
        return;
    }
    if (node->has_failed) {
        world_kill(world, number); /* it leaves */
        return;
    }
    if (node->job != NULL && one_in(world, world->is_calm ? 2 : world->rules.slow)) {
        run_job(world, node);
    }
    if (node->members != alive(world) && one_in(world, 8)) {
        tell_members(world, number);
    }
    (void)space_windows_turn(node->windows, world->now_us);
    (void)space_engine_turn(node->engine, world->now_us);
    (void)space_windows_turn(node->windows, world->now_us);
}

static void pair_event(struct world *world, uint32_t a, uint32_t b)
{
    struct world_channel *channel = channel_of(world, a, b);
    uint64_t what = below(world, 8);

    if (what == 0 || channel->is_cut) {
        link_event(world, a, b);
    } else if (what == 1 && channel->count > 0) {
        land(world, a, b, item_of(channel, (uint32_t)below(world, channel->count)));
    } else if (what == 2 && channel->is_up) {
        tell_ends(world, a, b, false);
        space_engine_room(world->nodes[a].engine, (uint8_t)b, world->now_us);
    } else if (channel->count > 0 && channel_of(world, b, a)->is_up) {
        deliver(world, a, b);
    }
}

/* Events. With logs so few that starts meet starts, or so many that caches are full by then. */
static uint64_t between_faults(const struct world *world)
{
    uint64_t events = 200 + world->seed / 5 % 5 * 300;

    if (!world->rules.logs) {
        return events;
    }
    return world->seed % 3 == 0 ? 8 * events : events / 3;
}

static void one_event(struct world *world)
{
    uint32_t a = (uint32_t)below(world, world->rules.nodes);
    uint32_t b = (uint32_t)below(world, world->rules.nodes);
    uint64_t what = below(world, 16);

    world->event++;
    world->now_us += below(world, 3);
    world->touched |= space_bit((uint8_t)a) | space_bit((uint8_t)b);
    if (!world->is_calm && one_in(world, between_faults(world))) {
        world->touched = all_of(world);
        fault(world);
    } else if (what < 4 && world->nodes[a].is_alive && world->rules.users != NULL) {
        user_event(world, a, (uint32_t)below(world, world->rules.clients));
    } else if (what < 4 && world->nodes[a].is_alive) {
        client_event(world, &world->nodes[a],
                     &world->nodes[a].clients[below(world, world->rules.clients)]);
    } else if (what < 8 || a == b) {
        node_event(world, a);
    } else {
        pair_event(world, a, b);
    }
    kill_if_due(world);
    look(world);
    world->touched = 0;
}

bool world_run(struct world *world, uint64_t events)
{
    for (uint64_t n = 0; n < events && world->broken == NULL; n++) {
        one_event(world);
    }
    return world->broken == NULL;
}

static bool is_quiet(struct world *world)
{
    if (world->rules.users != NULL && !world->rules.users->is_quiet(world->rules.users->context)) {
        return false;
    }
    for (uint32_t n = 0; n < world->rules.nodes; n++) {
        struct world_node *node = &world->nodes[n];
        struct space_engine_stats stats;

        if (!node->is_alive || node->has_failed) {
            return false;
        }
        space_engine_stats(node->engine, &stats);
        if (!space_engine_is_open(node->engine) || stats.waiting > 0 ||
            node->engine->jobs_used > 0) {
            return false;
        }
        for (uint32_t c = 0; c < world->rules.clients; c++) {
            struct world_client *client = &node->clients[c];

            if (client->state == CLIENT_ASKS || client->holds ||
                (client->state != CLIENT_GONE && !space_producer_is_empty(&client->producer))) {
                return false;
            }
        }
        for (uint32_t to = 0; to < world->rules.nodes; to++) {
            if (to != n && (channel_of(world, n, to)->count > 0 ||
                            !channel_of(world, n, to)->is_up || channel_of(world, n, to)->is_cut)) {
                return false;
            }
        }
    }
    return true;
}

/* What one free began to free is free, whoever was killed meanwhile: all that is in use is of what
 * one malloc gave. */
static bool is_freed_whole(const struct space_engine *home)
{
    const struct space_log_block *blocks = home->log.home;

    for (uint64_t n = 0; n < home->config.home.count; n++) {
        uint64_t end = n + blocks[n].run;

        if (blocks[n].state == SPACE_LOG_IS_FREE) {
            continue;
        }
        if (end == n || end > home->config.home.count) {
            return false;
        }
        while (n + 1 < end && blocks[n + 1].state != SPACE_LOG_IS_FREE && blocks[n + 1].run == 0) {
            n++;
        }
        if (n + 1 != end) {
            return false;
        }
    }
    return true;
}

/* Whoever was lost meanwhile, with a log or without: what one malloc gave one free frees. */
static bool is_as_given(const struct world *world, const struct world_block *block)
{
    const struct space_engine *home = world->nodes[space_address_seat(block->address)].engine;
    uint64_t number = engine_number(home, block->address);

    return !block->is_used || block->is_freed || !engine_is_current(home, block->address) ||
           home->entries[number].state == SPACE_HOME_FREED ||
           home->before[number] == (block->address - block->first) / WORLD_BYTES;
}

/* All nodes are, on their logs: nothing is away, and what was given is somebody's to read. */
static bool is_all_there(struct world *world)
{
    for (uint32_t n = 0; n < WORLD_BLOCKS; n++) {
        claim(world, is_as_given(world, &world->blocks[n]), "a block is of another malloc");
    }
    for (uint32_t n = 0; n < WORLD_BLOCKS && world->rules.logs; n++) {
        const struct world_block *block = &world->blocks[n];
        const struct space_engine *home = world->nodes[space_address_seat(block->address)].engine;

        if (block->is_used && !block->is_freed && engine_is_current(home, block->address)) {
            claim(world,
                  home->entries[engine_number(home, block->address)].state != SPACE_HOME_AWAY,
                  "a block is away, and all nodes are there");
        }
    }
    for (uint32_t n = 0; n < world->rules.nodes && world->rules.logs; n++) {
        claim(world, is_freed_whole(world->nodes[n].engine), "a part of what was given is free");
    }
    return world->broken == NULL;
}

bool world_calm(struct world *world)
{
    world->is_calm = true;
    world->rules.busy = false;
    for (uint32_t n = 0; n < world->rules.nodes; n++) {
        if (!world->nodes[n].is_alive) {
            start_node(world, n);
        }
        world->nodes[n].disk.fails_at = UINT64_MAX;
    }
    for (uint32_t n = 0; n < 4000 && world->broken == NULL; n++) {
        for (uint32_t node = 0; node < world->rules.nodes; node++) {
            if (!world->nodes[node].is_alive) {
                start_node(world, node);
            }
            tell_members(world, node);
        }
        world->touched = all_of(world);
        if (is_quiet(world)) {
            look(world);
            look_at_all(world);
            return is_all_there(world);
        }
        if (!world_run(world, 100)) {
            return false;
        }
    }
    return claim(world, false, "something is under way for ever");
}

static void print_client(const struct world *world, uint32_t n, uint32_t c)
{
    const struct world_client *client = &world->nodes[n].clients[c];

    if (client->state != CLIENT_GONE) {
        print_message("#     client %u.%u: %s kind %u of block %u (%llx) word %u%s, %llu of %llu "
                      "bytes done\n",
                      n, c, client->state == CLIENT_ASKS ? "asks" : "idle", client->kind,
                      client->block, (unsigned long long)world->blocks[client->block].address,
                      client->word, client->holds ? ", holds" : "",
                      (unsigned long long)client->memory->head.value,
                      (unsigned long long)client->memory->tail.value);
    }
}

static void print_block(const struct world *world, uint64_t address)
{
    for (uint32_t n = 0; n < world->rules.nodes; n++) {
        struct space_engine *engine = world->nodes[n].engine;
        uint32_t frame;

        if (!world->nodes[n].is_alive) {
            continue;
        }
        if (engine_is_ours(engine, address)) {
            const struct space_entry *entry = &engine->entries[engine_number(engine, address)];

            print_message("#       home %u: %s, of %llx, held %u\n", n,
                          space_home_state_name(entry->state), (unsigned long long)entry->seats,
                          entry->holds);
            continue;
        }
        frame = space_frames_find(&engine->frames, address);
        if (frame != SPACE_NO_FRAME) {
            const struct space_line *line = &engine->lines[frame];

            print_message("#       node %u: %s, held %u, owes %u\n", n,
                          space_cache_state_name(line->state), line->holds, line->owed);
        }
    }
}

void world_print(const struct world *world)
{
    for (uint32_t n = 0; n < world->rules.nodes; n++) {
        const struct space_engine *engine = world->nodes[n].engine;

        if (!world->nodes[n].is_alive) {
            continue;
        }
        print_message(
            "#   node %u: term %u %s (members %llx, waits for %llx), met %llx, %llu wait, "
            "%llu frames\n",
            n, engine->term.home.term, engine->term.is_open ? "open" : "not open",
            (unsigned long long)engine->term.home.members, (unsigned long long)engine->term.waits,
            (unsigned long long)engine->met, (unsigned long long)engine->stats.waiting,
            (unsigned long long)engine->frames.used);
        if (world->rules.logs) {
            const struct space_log *log = &world->nodes[n].log;

            print_message("#     log: %llu of %llu durable, at %llu of %llu, %s, image %u, %s; %u "
                          "wait, %u held\n",
                          (unsigned long long)log->durable, (unsigned long long)log->next - 1,
                          (unsigned long long)log->offset, (unsigned long long)log->file_bytes,
                          log->has_job ? "a job" : "no job", log->image.state,
                          nigh_status_name(engine->log.status), engine->log.waits_count,
                          engine->log.held_count);
        }
        for (uint32_t home = 0; home < world->rules.nodes; home++) {
            const struct engine_seat *seat = &engine->seats[home];

            if (home != n) {
                print_message("#     seat %u: links %llx; term %u %s%s%s, %u writes, %u asks, %u "
                              "letters; %u on the way\n",
                              home, (unsigned long long)seat->links, seat->member.cache.term,
                              seat->member.cache.is_open ? "open" : "not open",
                              seat->is_adopting ? ", adopting" : "",
                              seat->has_term ? ", to be adopted" : "", seat->member.writes,
                              seat->asks, seat->letters, world->channels[n][home].count);
            }
        }
        for (uint32_t c = 0; c < world->rules.clients; c++) {
            print_client(world, n, c);
        }
    }
    for (uint32_t b = 0; b < WORLD_BLOCKS; b++) {
        if (world->blocks[b].is_used) {
            print_message("#     block %u at %llx%s\n", b,
                          (unsigned long long)world->blocks[b].address,
                          world->blocks[b].is_freed ? ", freed" : "");
            print_block(world, world->blocks[b].address);
        }
    }
}
