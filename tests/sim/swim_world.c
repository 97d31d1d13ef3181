/* SPDX-License-Identifier: Apache-2.0 */
/* See swim_world.h. */
#include "swim_world.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define TICK        UINT32_MAX
#define PERIOD_US   SECOND
#define DELAY_US    UINT64_C(100)  /* of a datagram, at least */
#define DELAY_MORE  UINT64_C(5000) /* and at most so much more */
#define NEVER_DYING UINT64_MAX

static const uint8_t cluster_key[AUTH_KEY_BYTES] = {7};

/* ---- events --------------------------------------------------------------- */

static bool is_before(const struct swim_world_event *a, const struct swim_world_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void *grown(void *memory, uint32_t *room, size_t each)
{
    *room = *room == 0 ? 1024 : *room * 2;
    memory = realloc(memory, *room * each);
    NIGH_ASSERT(memory != NULL);
    return memory;
}

static void push(struct swim_world *world, uint64_t at_us, uint32_t node, uint32_t message)
{
    struct swim_world_event event = {at_us, world->order++, node, message};
    uint32_t place = world->heap_count;

    if (place == world->heap_room) {
        world->heap = grown(world->heap, &world->heap_room, sizeof(*world->heap));
    }
    world->heap_count++;
    while (place > 0 && is_before(&event, &world->heap[(place - 1) / 2])) {
        world->heap[place] = world->heap[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    world->heap[place] = event;
}

static struct swim_world_event pop(struct swim_world *world)
{
    struct swim_world_event first = world->heap[0];
    struct swim_world_event last = world->heap[--world->heap_count];
    uint32_t place = 0;

    for (;;) {
        uint32_t child = 2 * place + 1;

        if (child >= world->heap_count) {
            break;
        }
        if (child + 1 < world->heap_count &&
            is_before(&world->heap[child + 1], &world->heap[child])) {
            child++;
        }
        if (!is_before(&world->heap[child], &last)) {
            break;
        }
        world->heap[place] = world->heap[child];
        place = child;
    }
    world->heap[place] = last;
    return first;
}

/* ---- datagrams ------------------------------------------------------------ */

static uint32_t take_message(struct swim_world *world)
{
    if (world->unused_count == 0) {
        uint32_t before = world->message_room;

        world->messages = grown(world->messages, &world->message_room, sizeof(*world->messages));
        world->unused = realloc(world->unused, world->message_room * sizeof(*world->unused));
        NIGH_ASSERT(world->unused != NULL);
        for (uint32_t n = world->message_room; n > before; n--) {
            world->unused[world->unused_count++] = n - 1;
        }
    }
    return world->unused[--world->unused_count];
}

static void copy_message(struct swim_message *to, const struct swim_message *from)
{
    memcpy(to, from,
           offsetof(struct swim_message, updates) + from->count * sizeof(from->updates[0]));
}

/* As bytes, and back. */
static void carry(const struct swim_world *world, struct swim_message *message)
{
    struct swim_wire from, to;
    uint8_t bytes[SWIM_WIRE_BYTES];
    size_t size_bytes;

    swim_wire_init(&from, 1, message->from, world->config.count, cluster_key);
    swim_wire_init(&to, 1, message->to, world->config.count, cluster_key);
    size_bytes = swim_wire_encode(&from, message, bytes);
    NIGH_ASSERT(swim_wire_decode(&to, bytes, size_bytes, message) == NIGH_OK);
}

static void send_one(struct swim_world *world, const struct swim_message *message)
{
    struct swim_node *from = &world->nodes[message->from], *to = &world->nodes[message->to];
    uint64_t at_us = world->now_us + DELAY_US + random_below(&world->random, DELAY_MORE);
    uint32_t number;

    from->sent++;
    if (world->config.trace != NULL) {
        fprintf(world->config.trace, "%llu %u %s %u about %u, %u updates\n",
                (unsigned long long)world->now_us, message->from, swim_kind_name(message->kind),
                message->to, message->target, message->count);
    }
    if (from->side != to->side ||
        random_below(&world->random, 1000) < world->config.loss_permille) {
        return;
    }
    if (to->slow_min_us > 0) {
        at_us += to->slow_min_us + random_below(&world->random, to->slow_more_us + 1);
    }
    number = take_message(world);
    copy_message(&world->messages[number], message);
    if (world->config.encodes) {
        carry(world, &world->messages[number]);
    }
    push(world, at_us, message->to, number);
}

/* ---- steps ---------------------------------------------------------------- */

static void note_change(struct swim_world *world, uint32_t rank, const struct swim_update *update)
{
    struct swim_node *about = &world->nodes[update->rank];

    if (world->config.trace != NULL) {
        fprintf(world->config.trace, "%llu %u holds %u for %s\n", (unsigned long long)world->now_us,
                rank, update->rank, swim_state_name(update->state));
    }
    if (update->state == SWIM_SUSPECT) {
        world->suspicions++;
        world->nodes[rank].suspected += update->from == rank ? 1 : 0;
        about->first_us =
            about->swim == NULL && about->first_us == 0 ? world->now_us : about->first_us;
    }
    if (update->state == SWIM_DEAD && about->swim != NULL) {
        world->false_deaths += about->paused_us == 0 && about->slow_min_us == 0 ? 1 : 0;
        world->nodes[rank].declared += update->from == rank ? 1 : 0;
    } else if (update->state == SWIM_DEAD) {
        about->known_by++;
        about->known_us = world->now_us;
    }
}

static void step(struct swim_world *world, uint32_t rank, const struct swim_event *event)
{
    static struct swim_actions actions;
    struct swim_node *node = &world->nodes[rank];

    world->steps++;
    swim_step(node->swim, event, world->now_us, &actions);
    world->refutations += actions.refuted ? 1 : 0;
    for (uint32_t n = 0; n < actions.changes; n++) {
        note_change(world, rank, &actions.changed[n]);
    }
    for (uint32_t n = 0; n < actions.sends; n++) {
        send_one(world, &actions.send[n]);
    }
    if (actions.due_us < node->tick_us) {
        node->tick_us = actions.due_us;
        push(world, node->tick_us, rank, TICK);
    }
}

static void tick(struct swim_world *world, uint32_t rank)
{
    struct swim_node *node = &world->nodes[rank];

    if (node->swim != NULL && node->tick_us <= world->now_us) {
        node->tick_us = NEVER_DYING;
        step(world, rank, &(struct swim_event){.kind = SWIM_TICK});
    }
}

static void receive(struct swim_world *world, uint32_t rank, uint32_t number)
{
    struct swim_message message;

    copy_message(&message, &world->messages[number]);
    world->unused[world->unused_count++] = number;
    if (world->nodes[rank].swim != NULL) {
        world->nodes[rank].received++;
        step(world, rank, &(struct swim_event){.kind = SWIM_RECEIVE, .message = &message});
    }
}

static void next(struct swim_world *world)
{
    struct swim_world_event event = pop(world);
    const struct swim_node *node = &world->nodes[event.node];

    world->now_us = event.at_us;
    if (node->swim != NULL && node->paused_us > event.at_us) {
        /* Afterwards: its timers first, as they would be found overdue, then what came. */
        push(world, node->paused_us + (event.message == TICK ? 0 : 1), event.node, event.message);
        return;
    }
    if (event.message == TICK) {
        tick(world, event.node);
    } else {
        receive(world, event.node, event.message);
    }
}

void swim_world_run(struct swim_world *world, uint64_t until_us)
{
    while (world->heap_count > 0 && world->heap[0].at_us <= until_us) {
        next(world);
    }
    world->now_us = until_us;
}

bool swim_world_run_until_known(struct swim_world *world, uint32_t rank, uint64_t until_us)
{
    while (world->heap_count > 0 && world->heap[0].at_us <= until_us) {
        if (world->nodes[rank].known_by >= swim_world_running(world)) {
            return true;
        }
        for (uint32_t n = 0; n < world->config.count && world->heap_count > 0; n++) {
            next(world);
        }
    }
    return false;
}

/* ---- nodes ---------------------------------------------------------------- */

void swim_world_start(struct swim_world *world, uint32_t rank)
{
    struct swim_node *node = &world->nodes[rank];
    struct swim_config config = {
        .self = rank,
        .count = world->config.count,
        .listed = world->config.listed,
        .incarnation = ++node->incarnation,
        .period_us = PERIOD_US,
        .timeout_us = SWIM_TIMEOUT_US(PERIOD_US),
        .seed = random_u64(&world->random),
    };

    NIGH_ASSERT(node->swim == NULL);
    node->swim = swim_create(&config, world->now_us);
    NIGH_ASSERT(node->swim != NULL);
    node->known_by = 0;
    node->first_us = 0;
    node->tick_us = world->now_us;
    push(world, world->now_us, rank, TICK);
}

void swim_world_start_all(struct swim_world *world)
{
    for (uint32_t rank = 0; rank < world->config.count; rank++) {
        swim_world_start(world, rank);
    }
}

void swim_world_kill(struct swim_world *world, uint32_t rank)
{
    swim_destroy(world->nodes[rank].swim);
    world->nodes[rank].swim = NULL;
}

void swim_world_leave(struct swim_world *world, uint32_t rank)
{
    step(world, rank, &(struct swim_event){.kind = SWIM_LEAVE});
    swim_world_kill(world, rank);
}

void swim_world_pause(struct swim_world *world, uint32_t rank, uint64_t for_us)
{
    world->nodes[rank].paused_us = world->now_us + for_us;
}

uint32_t swim_world_running(const struct swim_world *world)
{
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < world->config.count; rank++) {
        count += world->nodes[rank].swim != NULL;
    }
    return count;
}

uint32_t swim_world_seen(const struct swim_world *world, uint32_t rank, enum swim_state state)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < world->config.count; n++) {
        count += n != rank && world->nodes[n].swim != NULL &&
                 swim_state_of(world->nodes[n].swim, rank) == state;
    }
    return count;
}

void swim_world_init(struct swim_world *world, const struct swim_world_config *config)
{
    memset(world, 0, sizeof(*world));
    world->config = *config;
    random_init(&world->random, config->seed);
    world->nodes = calloc(config->count, sizeof(*world->nodes));
    NIGH_ASSERT(world->nodes != NULL);
}

void swim_world_fini(struct swim_world *world)
{
    for (uint32_t rank = 0; rank < world->config.count; rank++) {
        swim_destroy(world->nodes[rank].swim);
    }
    free(world->nodes);
    free(world->heap);
    free(world->messages);
    free(world->unused);
}
