/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every interleaving of a small cluster around one region: two homes, the second of which takes
 * over when the first dies; two holders; and a mapper with a client that writes and reads. All but
 * the network and the memory is the production code.
 *
 * Messages of a link stay in order; a link that breaks loses them. Memory is made, copied, and
 * handles are withdrawn, at any later time; a piece that was posted lands at any later time, if
 * its handle is one then.
 *
 * True, everywhere: nothing lands in memory that a chunk had before an acknowledged move, or in a
 * region after an acknowledged free; nothing lands of who was revoked; of a chunk one memory at
 * most can be written; a read sees every write that had ended; all ends once; who is rebuilt from
 * holders knows all that was acknowledged. When nothing is under way: all has ended, holders have
 * what the home says and nothing else.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "region/holder.h"
#include "region/home.h"
#include "region/mapping.h"
#include "support/support.h"

#define HOMES    2u
#define HOLDERS  2u
#define CHUNKS   2u
#define FIRST    HOMES             /* rank of the first holder */
#define MAPPER   (HOMES + HOLDERS) /* its rank */
#define MAPPERS  1u
#define NODES    (MAPPER + MAPPERS)
#define QUEUE    6u
#define ASKS     3u
#define CHUNK    UINT64_C(4096)
#define USER     7u
#define TOLD     100 /* a message of the shells': a member has told all */
#define DEPTH    160u
#define INTERNED 65536u

struct budget {
    uint8_t writes, reads, fails, breaks, home_deaths, deaths, leases;
};

struct letter {
    struct region_message message;
    uint64_t handles[CHUNKS];
};

struct queue {
    uint32_t count;
    struct letter letters[QUEUE];
};

union descriptor {
    struct region_descriptor descriptor;
    uint8_t bytes[sizeof(struct region_descriptor) + CHUNKS * sizeof(struct region_chunk)];
};

/* A chunk's memory at a holder. */
struct memory {
    bool exists, is_over; /* over: a change that took it from the chunk was acknowledged */
    bool is_writable, was_open;
    uint8_t value;
    uint64_t handle; /* that the network knows; 0: none */
};

struct pending {
    bool is_pending;
    struct region_holder_act act;
};

struct flight {
    bool is_posted;
    uint32_t node;
    uint64_t handle;
};

struct client {
    struct region_op op;
    bool is_busy, is_write;
    uint8_t value;         /* that is written */
    uint8_t least[CHUNKS]; /* that a read may see */
    uint8_t begun[CHUNKS]; /* the same, when this one began */
    uint8_t last;          /* that was ever written */
    struct flight flights[CHUNKS];
};

enum ask_state {
    ASK_NOT_YET,
    ASK_ASKED,
    ASK_ANSWERED
};

static struct {
    struct budget left;
    struct region_home homes[HOMES];
    union descriptor home_now[HOMES], home_next[HOMES];
    struct region_holder holders[HOLDERS];
    struct region_slot slots[HOLDERS][CHUNKS];
    union descriptor kept[HOLDERS];
    struct region_mapping mapping;
    union descriptor mapped[MAPPERS];
    struct client client;
    struct queue queues[NODES][NODES]; /* from, to */
    struct memory memories[HOLDERS][CHUNKS];
    struct pending pending[HOLDERS][CHUNKS];
    uint64_t last_handle;
    bool is_dead[NODES];
    bool knows_dead[HOMES][HOLDERS];
    uint32_t home;           /* that is */
    uint32_t home_of[NODES]; /* that a node goes by */
    struct region_ask asks[ASKS];
    enum ask_state ask_states[ASKS];
    uint32_t asked;
    struct region_version acked; /* the last change that the first home acknowledged */
    bool is_revoked;
    bool is_checked; /* what was rebuilt */
    bool overflow;   /* a queue was full: not explored further */
} now;

static const struct region_ask *world_asks;
static uint32_t world_ask_count, world_chunks;

/* ---- what was reached ------------------------------------------------------ */

static uint64_t *seen;
static uint64_t seen_mask, seen_count, transitions, quiet_states, landed, refused;
static char trace[DEPTH][64];
static uint32_t depth, deepest;

static void claim(bool holds, const char *what)
{
    if (!holds) {
        for (uint32_t n = 0; n < depth; n++) {
            print_message("# %2u %s\n", n, trace[n]);
        }
        fail_msg("%s", what);
    }
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return hash_mix(hash ^ value ^ HASH_K0, HASH_K1 + hash);
}

static uint64_t mix_version(uint64_t hash, const struct region_version *version)
{
    return mix(hash, version->epoch << 32 | version->counter);
}

static uint64_t mix_descriptor(uint64_t hash, const struct region_descriptor *descriptor)
{
    hash = mix_version(mix_version(hash, &descriptor->version), &descriptor->birth);
    hash = mix(hash, descriptor->flags | (uint64_t)descriptor->other_rights << 8 |
                         descriptor->geometry.size_bytes << 16);
    for (uint32_t n = 0; n < descriptor->chunk_count; n++) {
        hash = mix(mix(hash, descriptor->chunks[n].node), descriptor->chunks[n].handle);
    }
    return hash;
}

static uint64_t mix_message(uint64_t hash, const struct letter *letter)
{
    const struct region_message *message = &letter->message;

    hash =
        mix(hash, (uint64_t)message->kind | (uint64_t)message->of << 8 |
                      (uint64_t)(uint32_t)message->status << 16 | message->chunks.words[0] << 56);
    hash = mix_version(mix_version(hash, &message->change), &message->base);
    hash = mix(hash, (uintptr_t)message->descriptor); /* interned */
    hash = mix(hash, message->source.handle);
    return mix(mix(hash, letter->handles[0]), letter->handles[1]);
}

static uint64_t mix_set(uint64_t hash, const struct region_set *set)
{
    return mix(hash, set->words[0]);
}

static uint64_t mix_home(uint64_t hash, const struct region_home *home)
{
    const struct region_change *change = &home->change;

    hash = mix(hash, (uint64_t)home->state | (uint64_t)change->round << 8 |
                         (uint64_t)home->ask_count << 16 | (uint64_t)home->must_settle << 24 |
                         (uint64_t)home->has_losses << 25 | (uint64_t)change->is_aborted << 26 |
                         (uint64_t)(uint32_t)change->status << 32);
    hash = mix_set(mix_set(mix_set(hash, &home->mappers), &home->wants), &home->held);
    hash = mix_set(mix_set(hash, &home->config.alive), &home->config.untold);
    hash = mix_set(mix_set(hash, &change->nodes), &change->waits);
    hash = mix(hash, change->made.words[0] | change->frozen.words[0] << 8);
    hash = mix(hash, change->source.handle);
    hash = mix_version(hash, &home->config.version);
    hash = mix_descriptor(hash, home->config.now);
    return change->round == REGION_ROUND_NONE ? hash : mix_descriptor(hash, home->config.next);
}

static uint64_t mix_holder(uint64_t hash, uint32_t k)
{
    const struct region_holder *holder = &now.holders[k];

    hash = mix_descriptor(hash, holder->config.kept);
    hash =
        mix(hash, (uint64_t)holder->config.has_lease | (uint64_t)holder->is_unsettled << 1 |
                      (uint64_t)holder->request.is_open << 2 | (uint64_t)holder->request.kind << 8 |
                      (uint64_t)(uint32_t)holder->request.status << 32);
    hash = mix_version(hash, &holder->request.change);
    hash = mix_version(hash, &holder->config.home);
    for (uint32_t n = 0; n < CHUNKS; n++) {
        const struct region_slot *slot = &now.slots[k][n];
        const struct memory *memory = &now.memories[k][n];

        hash = mix(hash, (uint64_t)slot->state | (uint64_t)slot->goal << 8 |
                             (uint64_t)slot->full << 16 | (uint64_t)memory->exists << 17 |
                             (uint64_t)memory->is_over << 18 | (uint64_t)memory->is_writable << 19 |
                             (uint64_t)memory->value << 20 |
                             (uint64_t)now.pending[k][n].is_pending << 28 |
                             (uint64_t)memory->was_open << 29);
        hash = mix(mix(hash, slot->handle), memory->handle);
        if (now.pending[k][n].is_pending) {
            hash = mix(hash, now.pending[k][n].act.source.handle);
        }
    }
    return hash;
}

static uint64_t mix_client(uint64_t hash)
{
    const struct client *client = &now.client;
    const struct region_mapping *mapping = &now.mapping;

    hash = mix_descriptor(hash, mapping->config.now);
    hash = mix(hash, mapping->home | (uint64_t)mapping->is_gone << 32 |
                         (uint64_t)mapping->is_stale << 33 | (uint64_t)mapping->is_asked << 34 |
                         (uint64_t)client->is_busy << 35 | (uint64_t)client->is_write << 36 |
                         (uint64_t)client->last << 40 | (uint64_t)client->value << 48);
    if (client->is_busy) {
        hash = mix(hash, client->op.todo.words[0] | client->op.posted.words[0] << 8 |
                             (uint64_t)client->op.is_ending << 16 |
                             (uint64_t)client->op.is_cut << 17 | (uint64_t)client->op.tries << 24 |
                             (uint64_t)(uint32_t)client->op.status << 32);
    }
    for (uint32_t n = 0; n < CHUNKS; n++) {
        hash = mix(hash, client->least[n] | (uint64_t)client->begun[n] << 8 |
                             (uint64_t)client->flights[n].is_posted << 16);
        if (client->flights[n].is_posted) {
            hash = mix(mix(hash, client->flights[n].handle), client->flights[n].node);
        }
    }
    return hash;
}

static uint64_t state_hash(void)
{
    uint64_t hash = 1, left;

    memcpy(&left, &now.left, sizeof(now.left));
    hash = mix(hash, left);
    for (uint32_t h = 0; h < HOMES; h++) {
        hash = mix_home(hash, &now.homes[h]);
    }
    for (uint32_t k = 0; k < HOLDERS; k++) {
        hash = mix_holder(hash, k);
    }
    hash = mix_client(hash);
    for (uint32_t from = 0; from < NODES; from++) {
        for (uint32_t to = 0; to < NODES; to++) {
            const struct queue *queue = &now.queues[from][to];

            hash = mix(hash, queue->count);
            for (uint32_t n = 0; n < queue->count; n++) {
                hash = mix_message(hash, &queue->letters[n]);
            }
        }
        hash = mix(hash, now.home_of[from] | (uint64_t)now.is_dead[from] << 8);
    }
    for (uint32_t n = 0; n < ASKS; n++) {
        hash = mix(hash, now.ask_states[n]);
    }
    hash =
        mix(hash, now.asked | (uint64_t)now.is_revoked << 8 | (uint64_t)now.is_checked << 9 |
                      (uint64_t)now.home << 10 | (uint64_t)now.knows_dead[0][0] << 12 |
                      (uint64_t)now.knows_dead[0][1] << 13 | (uint64_t)now.knows_dead[1][0] << 14 |
                      (uint64_t)now.knows_dead[1][1] << 15);
    return mix_version(mix(hash, now.last_handle), &now.acked) | 1;
}

_Static_assert(sizeof(struct budget) <= sizeof(uint64_t), "it is hashed as a word");

/* False: it was reached before. */
static bool reach(uint64_t hash)
{
    uint64_t at = hash_u64(hash) & seen_mask;

    while (seen[at] != 0) {
        if (seen[at] == hash) {
            return false;
        }
        at = (at + 1) & seen_mask;
    }
    seen[at] = hash;
    seen_count++;
    return true;
}

/* Equal descriptors are one, that stays: what is on its way refers to it. */
static const struct region_descriptor *intern(const struct region_descriptor *descriptor)
{
    static union descriptor *interned[INTERNED];
    uint32_t at = (uint32_t)mix_descriptor(3, descriptor) % INTERNED;

    assert_true(descriptor->chunk_count <= CHUNKS);
    for (uint32_t n = 0; n < INTERNED; n++, at = (at + 1) % INTERNED) {
        if (interned[at] == NULL) {
            interned[at] = calloc(1, sizeof(*interned[at]));
            assert_non_null(interned[at]);
            region_descriptor_copy(&interned[at]->descriptor, descriptor);
            return &interned[at]->descriptor;
        }
        if (memcmp(interned[at], descriptor, region_descriptor_bytes(descriptor->chunk_count)) ==
            0) {
            return &interned[at]->descriptor;
        }
    }
    fail_msg("too many descriptors");
    return NULL;
}

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

    claim(message->peer < NODES, "to nobody");
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
        letter->message.descriptor = intern(message->descriptor);
    }
}

static void on_send(void *context, const struct region_message *message)
{
    send(id_of(context), message);
}

static void say_told(uint32_t k)
{
    struct region_message message = {.kind = (enum region_message_kind)TOLD,
                                     .peer = now.home_of[FIRST + k]};

    send(FIRST + k, &message);
}

static void on_act(void *context, const struct region_holder_act *act)
{
    struct pending *pending = &now.pending[id_of(context) - FIRST][act->chunk];

    claim(!pending->is_pending, "two acts of a chunk at once");
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

    claim(at < ASKS && now.ask_states[at] == ASK_ASKED, "an ask is answered twice");
    now.ask_states[at] = ASK_ANSWERED;
    if (status != NIGH_OK) {
        return;
    }
    if (id_of(context) == 0) {
        now.acked = home->config.version;
    }
    note_over(ask);
    if (ask->kind == REGION_ASK_GRANT) {
        now.is_revoked = ask->rights == 0;
    }
}

static void on_post(void *context, struct region_op *op, const struct region_post *post)
{
    struct flight *flight = &now.client.flights[post->piece.chunk];

    (void)context;
    (void)op;
    claim(!flight->is_posted, "a piece is posted twice");
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
    claim(client->is_busy, "an operation ends twice");
    client->is_busy = false;
    for (uint32_t n = 0; n < CHUNKS; n++) {
        claim(!client->flights[n].is_posted, "it ended before its pieces");
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
    struct region_home_config config = {
        .self = h,
        .version = {.epoch = 1 + h, .incarnation = 1},
        .room = CHUNKS,
        .now = &now.home_now[h].descriptor,
        .next = &now.home_next[h].descriptor,
        .shell = {.context = context_of(h), .send = on_send, .answered = on_answered}};

    for (uint32_t rank = h; rank < NODES; rank++) {
        region_set_add(&config.alive, rank);
    }
    for (uint32_t k = 0; k < HOLDERS && h > 0; k++) {
        region_set_add(&config.untold, FIRST + k);
    }
    region_home_init(&now.homes[h], &config);
}

static bool deliver(uint32_t from, uint32_t to)
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
    } else if ((uint32_t)letter.message.kind == TOLD) {
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

        claim(from < HOLDERS && from != k, "it copies from nobody");
        if (source->handle == 0 || source->handle != act->source.handle) {
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

static bool finish_act(uint32_t k, uint32_t chunk, bool fails)
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
    region_holder_did(&now.holders[k], chunk, status, now.memories[k][chunk].handle);
    return true;
}

/* What nobody could tell from what comes later is done at once. */
static void finish_quick_acts(void)
{
    for (uint32_t n = 0; n < HOLDERS * CHUNKS; n++) {
        uint32_t k = n / CHUNKS, chunk = n % CHUNKS;

        while (now.pending[k][chunk].is_pending &&
               (now.pending[k][chunk].act.action == REGION_ACT_LEND ||
                now.pending[k][chunk].act.action == REGION_ACT_OPEN ||
                now.pending[k][chunk].act.action == REGION_ACT_CUT)) {
            finish_act(k, chunk, false);
        }
    }
}

static void check_landing(uint32_t chunk, const struct memory *memory)
{
    struct client *client = &now.client;

    landed++;
    claim(!memory->is_over, "it lands where the chunk is no longer");
    claim(!now.is_revoked, "it lands though it was revoked");
    claim(memory->exists, "it lands in memory that is not the region's");
    if (!client->is_write) {
        claim(memory->value >= client->begun[chunk], "a write that had ended is not read");
        claim(memory->value <= client->last, "what is read was not written");
        client->least[chunk] = memory->value;
    }
}

static bool land(uint32_t chunk)
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
    } else if (memory->handle != flight.handle || (now.client.is_write && !memory->is_writable)) {
        status = NIGH_STALE;
        refused++;
    } else {
        check_landing(chunk, memory);
        memory->value = now.client.is_write ? now.client.value : memory->value;
    }
    region_mapping_posted(&now.mapping, &now.client.op, chunk, flight.handle, status);
    return true;
}

static bool begin_op(bool is_write)
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

static bool ask_next(void)
{
    uint32_t at = now.asked;

    if (at == world_ask_count) {
        return false;
    }
    now.asked++;
    now.asks[at] = world_asks[at];
    now.ask_states[at] = ASK_ASKED;
    region_home_ask(&now.homes[now.home], &now.asks[at]);
    return true;
}

static void cut_links(uint32_t a, uint32_t b)
{
    memset(&now.queues[a][b], 0, sizeof(now.queues[a][b]));
    memset(&now.queues[b][a], 0, sizeof(now.queues[b][a]));
}

/* Who asked it hears of its end. */
static bool home_dies(void)
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

static bool holder_dies(uint32_t k)
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

static bool learn_death(uint32_t h, uint32_t k)
{
    if (!now.is_dead[FIRST + k] || now.knows_dead[h][k] || h != now.home) {
        return false;
    }
    now.knows_dead[h][k] = true;
    region_home_dead(&now.homes[h], FIRST + k);
    return true;
}

/* A node hears who the home is. */
static bool learn_home(uint32_t node)
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

/* It breaks, and is back. */
static bool break_link(uint32_t node)
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
        region_home_link(&now.homes[home], node);
    }
    return true;
}

static bool change_lease(uint32_t k)
{
    bool has_lease = now.holders[k].config.has_lease;

    if (now.is_dead[FIRST + k] || (has_lease && !spend(&now.left.leases))) {
        return false;
    }
    region_holder_lease(&now.holders[k], !has_lease, now.home_of[FIRST + k]);
    return true;
}

/* ---- what is claimed ------------------------------------------------------- */

/* Whether there is a region for sure: nobody has died who had it, and nobody asked to free it. */
static bool is_region_there(void)
{
    for (uint32_t n = 0; n < now.asked; n++) {
        if (now.asks[n].kind == REGION_ASK_FREE) {
            return false;
        }
    }
    return !now.is_dead[FIRST] && !now.is_dead[FIRST + 1];
}

static void check_rebuilt(void)
{
    const struct region_home *home = &now.homes[1];
    bool is_known;

    if (now.home != 1 || now.is_checked || home->state == REGION_HOME_REBUILDING) {
        return;
    }
    now.is_checked = true;
    is_known = is_region_there();
    /* Memory that was only prepared, or what is left of a change that nobody heard of, is no
     * holder's. */
    for (uint32_t n = 0; n < HOLDERS * CHUNKS; n++) {
        is_known = is_known || now.memories[n / CHUNKS][n % CHUNKS].was_open;
    }
    claim((!is_known && region_version_is_none(&home->rebuilt_from)) ||
              region_version_compare(&home->rebuilt_from, &now.acked) >= 0,
          "what was acknowledged is forgotten");
}

static void check_always(void)
{
    check_rebuilt();
    claim(now.is_dead[0] || region_home_is_valid(&now.homes[0]), "the first home is not valid");
    claim(now.home == 0 || region_home_is_valid(&now.homes[1]), "the second home is not valid");
    claim(region_mapping_is_valid(&now.mapping), "the mapping is not valid");
    for (uint32_t n = 0; n < CHUNKS; n++) {
        uint32_t writable = 0;

        for (uint32_t k = 0; k < HOLDERS; k++) {
            const struct memory *memory = &now.memories[k][n];

            writable += memory->handle != 0 && memory->is_writable;
            claim(now.pending[k][n].is_pending || now.holders[k].config.has_lease ||
                      memory->handle == 0 || !memory->is_writable,
                  "it is open without a lease");
        }
        claim(writable <= 1, "two copies of a chunk can be written");
    }
    for (uint32_t k = 0; k < HOLDERS; k++) {
        claim(now.is_dead[FIRST + k] || region_holder_is_valid(&now.holders[k]),
              "a holder is not valid");
    }
}

static bool is_quiet(void)
{
    for (uint32_t from = 0; from < NODES; from++) {
        for (uint32_t to = 0; to < NODES; to++) {
            if (now.queues[from][to].count > 0) {
                return false;
            }
        }
        if (from >= FIRST && !now.is_dead[from] && now.home_of[from] != now.home) {
            return false;
        }
    }
    for (uint32_t k = 0; k < HOLDERS; k++) {
        if ((now.is_dead[FIRST + k] && !now.knows_dead[now.home][k]) ||
            !now.holders[k].config.has_lease) {
            return false;
        }
        for (uint32_t n = 0; n < CHUNKS; n++) {
            if (now.pending[k][n].is_pending || now.client.flights[n].is_posted) {
                return false;
            }
        }
    }
    return true;
}

static void check_chunk(const struct region_descriptor *descriptor, uint32_t k, uint32_t chunk)
{
    const struct memory *memory = &now.memories[k][chunk];
    bool is_here = region_descriptor_is_at(descriptor, chunk, FIRST + k);

    claim(memory->exists == is_here, "there is memory that is nowhere, or none that is somewhere");
    claim(!is_here || (memory->handle != 0 && memory->is_writable), "a chunk stays frozen");
    claim(!is_here || descriptor->chunks[chunk].handle == memory->handle,
          "the home knows another handle");
}

static void check_quiet(void)
{
    const struct region_home *home = &now.homes[now.home];
    const struct region_descriptor *descriptor = home->config.now;

    quiet_states++;
    claim(home->state != REGION_HOME_REBUILDING, "the home does not come up");
    claim(home->change.round == REGION_ROUND_NONE && home->ask_count == 0, "a change is stuck");
    for (uint32_t n = 0; n < now.asked; n++) {
        claim(now.ask_states[n] == ASK_ANSWERED, "an ask does not end");
    }
    claim(!now.client.is_busy, "an operation does not end");
    for (uint32_t k = 0; k < HOLDERS; k++) {
        const struct region_descriptor *kept = now.holders[k].config.kept;

        for (uint32_t n = 0; n < CHUNKS; n++) {
            check_chunk(descriptor, k, n);
        }
        claim(now.is_dead[FIRST + k] ||
                  (region_descriptor_names(descriptor, FIRST + k)
                       ? region_version_equal(&kept->version, &descriptor->version)
                       : region_descriptor_is_none(kept)),
              "a holder keeps another descriptor");
    }
}

/* ---- exploring ------------------------------------------------------------- */

enum action {
    DELIVER = 0, /* from, to */
    ACT = NODES * NODES,
    FAIL = ACT + HOLDERS * CHUNKS,
    LAND = FAIL + HOLDERS * CHUNKS,
    WRITE = LAND + CHUNKS,
    READ,
    ASK,
    HOME_DIES,
    HOLDER_DIES,
    LEARN_DEATH = HOLDER_DIES + HOLDERS,
    LEARN_HOME = LEARN_DEATH + HOMES * HOLDERS,
    BREAK = LEARN_HOME + NODES - FIRST,
    LEASE = BREAK + NODES - FIRST,
    ACTIONS = LEASE + HOLDERS
};

/* Carries it out; false: it cannot happen now. */
static bool act(uint32_t action)
{
    if (action < ACT) {
        return deliver(action / NODES, action % NODES);
    }
    if (action < FAIL) {
        return finish_act((action - ACT) / CHUNKS, (action - ACT) % CHUNKS, false);
    }
    if (action < LAND) {
        return finish_act((action - FAIL) / CHUNKS, (action - FAIL) % CHUNKS, true);
    }
    if (action < WRITE) {
        return land(action - LAND);
    }
    switch (action) {
    case WRITE:
    case READ: return begin_op(action == WRITE);
    case ASK: return ask_next();
    case HOME_DIES: return home_dies();
    default: break;
    }
    if (action < LEARN_DEATH) {
        return holder_dies(action - HOLDER_DIES);
    }
    if (action < LEARN_HOME) {
        return learn_death((action - LEARN_DEATH) / HOLDERS, (action - LEARN_DEATH) % HOLDERS);
    }
    if (action < BREAK) {
        return learn_home(FIRST + action - LEARN_HOME);
    }
    if (action < LEASE) {
        return break_link(FIRST + action - BREAK);
    }
    return change_lease(action - LEASE);
}

static void describe(uint32_t action)
{
    static const char *const kinds[] = {"prepare", "freeze", "copy", "commit", "thaw",  "settle",
                                        "done",    "held",   "map",  "mapped", "unmap", "changed"};
    static const struct {
        uint32_t from;
        const char *name;
    } names[] = {{LEASE, "lease"},
                 {BREAK, "break"},
                 {LEARN_HOME, "learns the home"},
                 {LEARN_DEATH, "home learns a death"},
                 {HOLDER_DIES, "holder dies"},
                 {HOME_DIES, "home dies"},
                 {ASK, "ask"},
                 {READ, "read"},
                 {WRITE, "write"},
                 {LAND, "lands"},
                 {FAIL, "fails"},
                 {ACT, "act done"}};

    if (action < ACT) {
        const struct queue *queue = &now.queues[action / NODES][action % NODES];
        uint32_t kind = queue->count > 0 ? (uint32_t)queue->letters[0].message.kind : 0;

        snprintf(trace[depth], sizeof(trace[0]), "%u to %u: %s", action / NODES, action % NODES,
                 kind == TOLD ? "told" : kinds[kind]);
        return;
    }
    for (uint32_t n = 0; n < ARRAY_LENGTH(names); n++) {
        if (action >= names[n].from) {
            snprintf(trace[depth], sizeof(trace[0]), "%s %u", names[n].name,
                     action - names[n].from);
            return;
        }
    }
}

static void *saved[DEPTH + 1];

static void explore(uint64_t states)
{
    deepest = depth > deepest ? depth : deepest;
    if (saved[depth] == NULL) {
        saved[depth] = malloc(sizeof(now));
        assert_non_null(saved[depth]);
    }
    memcpy(saved[depth], &now, sizeof(now));
    for (uint32_t action = 0; action < ACTIONS && seen_count < states && depth < DEPTH; action++) {
        describe(action);
        if (!act(action)) {
            continue; /* nothing was changed */
        }
        depth++;
        transitions++;
        finish_quick_acts();
        if (!now.overflow) {
            check_always();
            if (is_quiet()) {
                check_quiet();
            }
            if (reach(state_hash())) {
                explore(states);
            }
        }
        depth--;
        memcpy(&now, saved[depth], sizeof(now));
    }
}

/* ---- worlds ---------------------------------------------------------------- */

static const uint32_t both_holders[] = {FIRST, FIRST + 1};

static const struct region_ask create = {.kind = REGION_ASK_CREATE,
                                         .uid = 1,
                                         .geometry = {.chunk_bytes = CHUNK},
                                         .name = "it",
                                         .name_bytes = 2,
                                         .other_rights = REGION_READ | REGION_WRITE,
                                         .nodes = both_holders};

static void init_world(const struct budget *left)
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
                                                                  .ended = on_ended}});
}

/* What is on its way comes, in some order. */
static void run_until_quiet(void)
{
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (uint32_t action = 0; action < FAIL && !goes_on; action++) {
            goes_on = act(action);
            finish_quick_acts();
        }
    }
    check_always();
    claim(is_quiet(), "it does not come to an end");
}

/* Returns whether all of it was explored within so many states. */
static bool world(const char *name, const struct budget *left, uint32_t chunks,
                  const struct region_ask *asks, uint32_t count, uint64_t states)
{
    struct region_ask made = create;
    uint64_t from_us = support_now_us();
    bool whole;

    init_world(left);
    world_chunks = chunks;
    made.geometry.size_bytes = chunks * CHUNK;
    made.node_count = chunks;
    depth = deepest = 0;
    now.asks[0] = made;
    now.ask_states[0] = ASK_ASKED;
    region_home_ask(&now.homes[0], &now.asks[0]);
    run_until_quiet();
    claim(now.ask_states[0] == ASK_ANSWERED, "it was not created");
    now.ask_states[0] = ASK_NOT_YET;
    memset(&now.asks[0], 0, sizeof(now.asks[0]));
    region_mapping_home(&now.mapping, 0);
    run_until_quiet();
    world_asks = asks;
    world_ask_count = count;
    seen_mask = round_up_pow2_u64(states * 2) - 1;
    seen = calloc(seen_mask + 1, sizeof(*seen));
    assert_non_null(seen);
    seen_count = transitions = quiet_states = landed = refused = 0;
    explore(states);
    whole = seen_count < states;
    print_message("# %s: %llu states, %llu steps, %llu quiet, %llu landed, %llu refused, depth %u, "
                  "%s, %llu ms\n",
                  name, (unsigned long long)seen_count, (unsigned long long)transitions,
                  (unsigned long long)quiet_states, (unsigned long long)landed,
                  (unsigned long long)refused, deepest, whole ? "all" : "budget spent",
                  (unsigned long long)((support_now_us() - from_us) / 1000));
    free(seen);
    assert_true(quiet_states > 0);
    return whole;
}

static const struct region_ask move_first = {
    .kind = REGION_ASK_MOVE, .uid = 1, .chunk = 0, .node = FIRST + 1};
static const struct region_ask move_back = {
    .kind = REGION_ASK_MOVE, .uid = 1, .chunk = 0, .node = FIRST};
static const struct region_ask revoke = {
    .kind = REGION_ASK_GRANT, .uid = 1, .whose = REGION_OF_OTHERS};
static const struct region_ask grant = {.kind = REGION_ASK_GRANT,
                                        .uid = 1,
                                        .whose = REGION_OF_OTHERS,
                                        .rights = REGION_READ | REGION_WRITE};
static const struct region_ask set_free = {.kind = REGION_ASK_FREE, .uid = 1};

static void a_move_under_a_writer(void **state)
{
    const struct region_ask asks[] = {move_first, move_back};
    struct budget left = {.writes = 2, .reads = 1};

    (void)state;
    assert_true(world("moves, writes and reads", &left, 1, asks, 2, 1000000));
}

static void a_move_that_fails(void **state)
{
    struct budget left = {.writes = 1, .reads = 1, .fails = 1, .breaks = 1};

    (void)state;
    assert_true(world("a move that fails", &left, 1, &move_first, 1, 1000000));
}

static void a_move_and_a_death_of_its_home(void **state)
{
    struct budget left = {.writes = 1, .reads = 1, .home_deaths = 1};

    (void)state;
    assert_true(world("a move, and the home dies", &left, 1, &move_first, 1, 1000000));
}

static void a_move_and_deaths(void **state)
{
    struct budget left = {.writes = 1, .reads = 1, .home_deaths = 1, .deaths = 1};

    (void)state;
    assert_true(world("a move, the home dies, and a holder", &left, 1, &move_first, 1, 1000000));
}

static void a_revoke_under_a_writer(void **state)
{
    const struct region_ask asks[] = {revoke, grant};
    struct budget left = {.writes = 2, .breaks = 1};

    (void)state;
    assert_true(world("a revoke and a grant", &left, 2, asks, 2, 1000000));
}

static void a_revoke_and_deaths(void **state)
{
    struct budget left = {.writes = 1, .home_deaths = 1, .deaths = 1};

    (void)state;
    assert_true(world("a revoke and deaths", &left, 2, &revoke, 1, 1000000));
}

static void a_free_under_a_writer(void **state)
{
    struct budget left = {.writes = 2, .breaks = 1};

    (void)state;
    assert_true(world("a free", &left, 2, &set_free, 1, 1000000));
}

static void a_free_and_a_death_of_its_home(void **state)
{
    struct budget left = {.writes = 1, .home_deaths = 1};

    (void)state;
    assert_true(world("a free, and the home dies", &left, 2, &set_free, 1, 1000000));
}

static void sizes(void **state)
{
    static const uint32_t where[] = {FIRST};
    const struct region_ask asks[] = {
        {.kind = REGION_ASK_RESIZE, .uid = 1, .geometry = {.size_bytes = CHUNK}},
        {.kind = REGION_ASK_RESIZE,
         .uid = 1,
         .geometry = {.size_bytes = 2 * CHUNK},
         .nodes = where,
         .node_count = 1}};
    struct budget left = {.writes = 1, .fails = 1, .home_deaths = 1};

    (void)state;
    assert_true(world("a shrink and a grow", &left, 2, asks, 2, 1000000));
}

static void leases_that_are_lost(void **state)
{
    struct budget left = {.writes = 1, .reads = 1, .leases = 1, .breaks = 1};

    (void)state;
    assert_true(world("a move, and a lease is lost", &left, 1, &move_first, 1, 1000000));
}

static void a_name_that_is_used_again(void **state)
{
    struct region_ask asks[] = {set_free, create};
    struct budget left = {.writes = 2, .home_deaths = 1};

    (void)state;
    asks[1].geometry.size_bytes = CHUNK;
    asks[1].node_count = 1;
    assert_true(world("a free and a create", &left, 1, asks, 2, 1000000));
}

/* Not all of it: as far as so many states go. */
static void all_of_it(void **state)
{
    const struct region_ask asks[] = {move_first, revoke, set_free};
    struct budget left = {.writes = 2,
                          .reads = 1,
                          .fails = 1,
                          .breaks = 1,
                          .home_deaths = 1,
                          .deaths = 1,
                          .leases = 1};

    (void)state;
    world("all of it", &left, 2, asks, 3, 300000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_move_under_a_writer),
        cmocka_unit_test(a_move_that_fails),
        cmocka_unit_test(a_move_and_a_death_of_its_home),
        cmocka_unit_test(a_move_and_deaths),
        cmocka_unit_test(a_revoke_under_a_writer),
        cmocka_unit_test(a_revoke_and_deaths),
        cmocka_unit_test(a_free_under_a_writer),
        cmocka_unit_test(a_free_and_a_death_of_its_home),
        cmocka_unit_test(sizes),
        cmocka_unit_test(leases_that_are_lost),
        cmocka_unit_test(a_name_that_is_used_again),
        cmocka_unit_test(all_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
