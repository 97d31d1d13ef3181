/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens in the world of region_world.h, and what its shells do.
 */
#include <string.h>

#include "region_world.h"
#include "support/support.h"

#define USER 7u

struct world now;

const struct region_ask *world_asks;
uint32_t world_ask_count, world_chunks;
uint64_t world_landed, world_refused;

/* ---- shells ---------------------------------------------------------------- */

static uint32_t id_of(const void *context)
{
    return (uint32_t)(uintptr_t)context;
}

static void *context_of(uint32_t id)
{
    return (void *)(uintptr_t)id;
}

static void send(uint32_t from, const struct region_message *message)
{
    struct queue *queue = &now.queues[from][message->peer];
    struct letter *letter;

    world_claim(message->peer < NODES, "to nobody");
    if (now.is_dead[message->peer]) {
        return;
    }
    if (queue->count == QUEUE) {
        now.overflow = true;
        return;
    }
    letter = &queue->letters[queue->count++];
    memset(letter, 0, sizeof(*letter));
    letter->message = *message;
    letter->message.peer = from;
    for (uint32_t n = 0; n < CHUNKS && n < message->handle_count; n++) {
        letter->handles[n] = message->handles[n];
    }
    letter->message.handles = NULL;
    if (message->descriptor != NULL) {
        letter->message.descriptor = world_intern(message->descriptor);
    }
}

static void on_send(void *context, const struct region_message *message)
{
    send(id_of(context), message);
}

static void say_told(uint32_t k)
{
    struct region_message message = {.kind = (enum region_message_kind)WORLD_TOLD,
                                     .peer = now.home_of[FIRST + k]};

    send(FIRST + k, &message);
}

static void on_act(void *context, const struct region_holder_act *act)
{
    struct pending *pending = &now.pending[id_of(context) - FIRST][act->chunk];

    world_claim(!pending->is_pending ||
                    (pending->act.action == REGION_ACT_OPEN && act->action == REGION_ACT_CLOSE),
                "two acts of a chunk at once");
    pending->is_pending = true;
    pending->act = *act;
}

static void note_over(const struct region_ask *ask)
{
    for (uint32_t k = 0; k < HOLDERS; k++) {
        for (uint32_t n = 0; n < CHUNKS; n++) {
            bool is_over =
                ask->kind == REGION_ASK_FREE ||
                (ask->kind == REGION_ASK_MOVE && n == ask->chunk && FIRST + k != ask->node) ||
                (ask->kind == REGION_ASK_RESIZE && n * CHUNK >= ask->geometry.size_bytes);

            now.memories[k][n].is_over |= is_over && now.memories[k][n].exists;
        }
    }
}

static void on_answered(void *context, struct region_ask *ask, nigh_status status)
{
    const struct region_home *home = &now.homes[id_of(context)];
    uint32_t at = (uint32_t)(ask - now.asks);

    world_claim(at < ASKS && now.ask_states[at] == ASK_ASKED, "an ask is answered twice");
    now.ask_states[at] = ASK_ANSWERED;
    if (status != NIGH_OK) {
        return;
    }
    if (id_of(context) == 0) {
        now.acked = home->config.version;
    }
    note_over(ask);
    if (ask->kind == REGION_ASK_GRANT) {
        now.is_revoked = ask->give == 0;
    }
}

/* Nobody is started again. */
static uint32_t on_incarnation(void *context, uint32_t rank)
{
    (void)context;
    (void)rank;
    return 1;
}

static bool on_has_ended(void *context, uint32_t node, uint32_t incarnation)
{
    (void)context;
    (void)node;
    world_claim(incarnation == 1, "a chunk is of nobody");
    return false;
}

static void on_post(void *context, struct region_op *op, const struct region_post *post)
{
    struct flight *flight = &now.client.flights[post->piece.chunk];

    (void)context;
    (void)op;
    world_claim(!flight->is_posted, "a piece is posted twice");
    *flight =
        (struct flight){.is_posted = true, .node = post->place.node, .handle = post->place.handle};
}

static nigh_status on_judge(void *context, struct region_op *op,
                            const struct region_descriptor *descriptor)
{
    uint32_t rights = now.client.is_write ? REGION_WRITE : REGION_READ;

    (void)context;
    (void)op;
    return (region_descriptor_rights(descriptor, USER, 9) & rights) != 0 ? NIGH_OK : NIGH_DENIED;
}

static void on_ended(void *context, struct region_op *op, nigh_status status)
{
    struct client *client = &now.client;

    (void)context;
    (void)op;
    world_claim(client->is_busy, "an operation ends twice");
    client->is_busy = false;
    for (uint32_t n = 0; n < CHUNKS; n++) {
        world_claim(!client->flights[n].is_posted, "it ended before its pieces");
        if (client->is_write && status == NIGH_OK && n < world_chunks) {
            client->least[n] = client->value;
        }
    }
}

/* ---- what happens ---------------------------------------------------------- */

static bool spend(uint8_t *left)
{
    if (*left == 0) {
        return false;
    }
    --*left;
    return true;
}

/* One that is not, or not any more. */
static void clear_home(uint32_t h)
{
    memset(&now.homes[h], 0, sizeof(now.homes[h]));
    memset(&now.home_now[h], 0, sizeof(now.home_now[h]));
    list_init(&now.homes[h].asks);
    now.homes[h].config.now = &now.home_now[h].descriptor;
}

static void init_home(uint32_t h)
{
    struct region_home_config config = {.self = h,
                                        .version = {.epoch = 1 + h, .incarnation = 1},
                                        .room = CHUNKS,
                                        .has_lease = true,
                                        .now = &now.home_now[h].descriptor,
                                        .next = &now.home_next[h].descriptor,
                                        .shell = {.context = context_of(h),
                                                  .send = on_send,
                                                  .answered = on_answered,
                                                  .incarnation = on_incarnation}};

    for (uint32_t rank = h; rank < NODES; rank++) {
        region_set_add(&config.alive, rank);
    }
    for (uint32_t k = 0; k < HOLDERS && h > 0; k++) {
        region_set_add(&config.untold, FIRST + k);
    }
    region_home_init(&now.homes[h], &config);
}

bool world_deliver(uint32_t from, uint32_t to)
{
    struct queue *queue = &now.queues[from][to];
    struct letter letter;

    if (queue->count == 0) {
        return false;
    }
    letter = queue->letters[0];
    queue->count--;
    memmove(queue->letters, queue->letters + 1, queue->count * sizeof(letter));
    letter.message.handles = letter.handles;
    letter.message.handle_count = CHUNKS;
    if (to == MAPPER) {
        region_mapping_take(&now.mapping, &letter.message);
    } else if (to >= FIRST) {
        region_holder_take(&now.holders[to - FIRST], &letter.message);
    } else if ((uint32_t)letter.message.kind == WORLD_TOLD) {
        region_home_told(&now.homes[to], from);
    } else {
        region_home_take(&now.homes[to], &letter.message);
    }
    return true;
}

/* What an act does to memory. */
static nigh_status carry_out(uint32_t k, const struct region_holder_act *act)
{
    struct memory *memory = &now.memories[k][act->chunk];

    switch (act->action) {
    case REGION_ACT_MAKE: *memory = (struct memory){.exists = true}; break;
    case REGION_ACT_COPY: {
        uint32_t from = act->source.node - FIRST;
        const struct memory *source = &now.memories[from][act->chunk];

        world_claim(from < HOLDERS && from != k, "it copies from nobody");
        if (source->handle == 0 || source->handle != act->source.handle.address) {
            return NIGH_PEER_LOST;
        }
        memory->value = source->value;
        break;
    }
    case REGION_ACT_LEND:
    case REGION_ACT_OPEN:
        memory->handle = ++now.last_handle;
        memory->is_writable = act->action == REGION_ACT_OPEN;
        memory->was_open |= memory->is_writable;
        break;
    case REGION_ACT_CLOSE: memory->handle = 0; break;
    case REGION_ACT_CUT: /* who has a handle that is one yet has somebody else's memory */
        *memory = (struct memory){.handle = memory->handle, .is_writable = memory->is_writable};
        break;
    }
    return NIGH_OK;
}

bool world_finish_act(uint32_t k, uint32_t chunk, bool fails)
{
    struct pending *pending = &now.pending[k][chunk];
    struct region_holder_act act = pending->act;
    nigh_status status = NIGH_OUT_OF_MEMORY;

    if (!pending->is_pending ||
        (fails && ((act.action != REGION_ACT_MAKE && act.action != REGION_ACT_COPY) ||
                   !spend(&now.left.fails)))) {
        return false;
    }
    memset(pending, 0, sizeof(*pending));
    if (!fails) {
        status = carry_out(k, &act);
    }
    region_holder_did(&now.holders[k], chunk, status,
                      (struct region_window){.address = now.memories[k][chunk].handle});
    return true;
}

void world_finish_quick_acts(void)
{
    for (uint32_t n = 0; n < HOLDERS * CHUNKS; n++) {
        uint32_t k = n / CHUNKS, chunk = n % CHUNKS;

        while (now.pending[k][chunk].is_pending &&
               (now.pending[k][chunk].act.action == REGION_ACT_LEND ||
                (now.pending[k][chunk].act.action == REGION_ACT_OPEN && !now.left.opens_slowly))) {
            world_finish_act(k, chunk, false);
        }
    }
}

static void check_landing(uint32_t chunk, const struct memory *memory)
{
    struct client *client = &now.client;

    world_landed++;
    world_claim(!memory->is_over, "it lands where the chunk is no longer");
    world_claim(!now.is_revoked, "it lands though it was revoked");
    world_claim(memory->exists, "it lands in memory that is not the region's");
    if (!client->is_write) {
        world_claim(memory->value >= client->begun[chunk], "a write that had ended is not read");
        world_claim(memory->value <= client->last, "what is read was not written");
        client->least[chunk] = memory->value;
    }
}

bool world_land(uint32_t chunk)
{
    struct flight flight = now.client.flights[chunk];
    struct memory *memory;
    nigh_status status = NIGH_OK;

    if (!flight.is_posted) {
        return false;
    }
    memset(&now.client.flights[chunk], 0, sizeof(flight));
    memory = &now.memories[flight.node - FIRST][chunk];
    if (now.is_dead[flight.node]) {
        status = NIGH_PEER_LOST;
    } else if (memory->handle != flight.handle.address ||
               (now.client.is_write && !memory->is_writable)) {
        status = NIGH_STALE;
        world_refused++;
    } else {
        check_landing(chunk, memory);
        memory->value = now.client.is_write ? now.client.value : memory->value;
    }
    region_mapping_posted(&now.mapping, &now.client.op, chunk, flight.handle, status);
    return true;
}

bool world_begin_op(bool is_write)
{
    struct client *client = &now.client;

    if (client->is_busy || now.mapping.is_gone ||
        !spend(is_write ? &now.left.writes : &now.left.reads)) {
        return false;
    }
    memset(&client->op, 0, sizeof(client->op));
    client->op.length_bytes = world_chunks * CHUNK;
    client->is_busy = true;
    client->is_write = is_write;
    client->value = is_write ? ++client->last : 0;
    memcpy(client->begun, client->least, sizeof(client->begun));
    region_mapping_begin(&now.mapping, &client->op);
    return true;
}

/* The region that there is, or is to be, at the home that is. */
static struct region_version born(void)
{
    const struct region_home *home = &now.homes[now.home];

    if (!region_descriptor_is_none(home->config.now)) {
        return home->config.now->birth;
    }
    return home->change.round != REGION_ROUND_NONE
               ? home->config.next->birth
               : (struct region_version){.epoch = 1, .incarnation = 1, .counter = 1};
}

bool world_ask_next(void)
{
    uint32_t at = now.asked;

    if (at == world_ask_count) {
        return false;
    }
    now.asked++;
    now.asks[at] = world_asks[at];
    now.asks[at].birth = born();
    now.ask_states[at] = ASK_ASKED;
    region_home_ask(&now.homes[now.home], &now.asks[at]);
    return true;
}

static void cut_links(uint32_t a, uint32_t b)
{
    memset(&now.queues[a][b], 0, sizeof(now.queues[a][b]));
    memset(&now.queues[b][a], 0, sizeof(now.queues[b][a]));
}

bool world_home_dies(void)
{
    if (now.home > 0 || !spend(&now.left.home_deaths)) {
        return false;
    }
    for (uint32_t n = 0; n < NODES; n++) {
        cut_links(0, n);
    }
    for (uint32_t n = 0; n < ASKS; n++) {
        now.ask_states[n] = now.ask_states[n] == ASK_ASKED ? ASK_ANSWERED : now.ask_states[n];
    }
    clear_home(0);
    now.is_dead[0] = true;
    now.home = 1;
    init_home(1);
    return true;
}

bool world_holder_dies(uint32_t k)
{
    if (now.is_dead[FIRST + k] || !spend(&now.left.deaths)) {
        return false;
    }
    for (uint32_t n = 0; n < NODES; n++) {
        cut_links(FIRST + k, n);
    }
    now.is_dead[FIRST + k] = true;
    memset(now.memories[k], 0, sizeof(now.memories[k]));
    memset(now.pending[k], 0, sizeof(now.pending[k]));
    region_descriptor_clear(now.holders[k].config.kept);
    memset(now.slots[k], 0, sizeof(now.slots[k]));
    now.holders[k].request.is_open = false;
    return true;
}

bool world_learn_death(uint32_t h, uint32_t k)
{
    if (!now.is_dead[FIRST + k] || now.knows_dead[h][k] || h != now.home) {
        return false;
    }
    now.knows_dead[h][k] = true;
    region_home_dead(&now.homes[h], FIRST + k);
    return true;
}

bool world_learn_home(uint32_t node)
{
    if (now.is_dead[node] || now.home_of[node] == now.home) {
        return false;
    }
    now.home_of[node] = now.home;
    if (node == MAPPER) {
        region_mapping_home(&now.mapping, now.home);
    } else {
        struct region_version version = {.epoch = 1 + now.home, .incarnation = 1};

        region_holder_home(&now.holders[node - FIRST], now.home, &version);
        say_told(node - FIRST);
    }
    return true;
}

bool world_break_link(uint32_t node)
{
    uint32_t home = now.home;

    if (now.is_dead[node] || now.home_of[node] != home ||
        now.queues[home][node].count + now.queues[node][home].count == 0 ||
        !spend(&now.left.breaks)) {
        return false;
    }
    cut_links(home, node);
    if (node == MAPPER) {
        region_mapping_home(&now.mapping, home);
    } else {
        struct region_version version = {.epoch = 1 + home, .incarnation = 1};

        region_holder_home(&now.holders[node - FIRST], home, &version);
        say_told(node - FIRST);
    }
    region_home_link(&now.homes[home], node);
    return true;
}

bool world_change_lease(uint32_t k)
{
    bool has_lease = now.holders[k].config.has_lease;

    if (now.is_dead[FIRST + k] || (has_lease && !spend(&now.left.leases))) {
        return false;
    }
    region_holder_lease(&now.holders[k], !has_lease, now.home_of[FIRST + k]);
    return true;
}

bool world_hold_over(void)
{
    struct region_home *home = &now.homes[now.home];

    if (!region_home_is_holding(home)) {
        return false;
    }
    region_home_held(home);
    return true;
}

/* ---- making it ------------------------------------------------------------ */

void world_init(const struct budget *left)
{
    memset(&now, 0, sizeof(now));
    now.left = *left;
    clear_home(1);
    init_home(0);
    for (uint32_t k = 0; k < HOLDERS; k++) {
        struct region_holder_config config = {
            .self = FIRST + k,
            .room = CHUNKS,
            .slots = now.slots[k],
            .kept = &now.kept[k].descriptor,
            .home = {.epoch = 1, .incarnation = 1},
            .has_lease = true,
            .shell = {.context = context_of(FIRST + k), .act = on_act, .send = on_send}};

        region_holder_init(&now.holders[k], &config);
    }
    region_mapping_init(&now.mapping,
                        &(struct region_mapping_config){.room = CHUNKS,
                                                        .now = &now.mapped[0].descriptor,
                                                        .has_lease = true,
                                                        .shell = {.context = context_of(MAPPER),
                                                                  .send = on_send,
                                                                  .post = on_post,
                                                                  .judge = on_judge,
                                                                  .ended = on_ended,
                                                                  .has_ended = on_has_ended}});
}
