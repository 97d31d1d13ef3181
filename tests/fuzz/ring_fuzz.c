/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes in the memory that clients share with a lane: submissions, indices, pin words, hints. A
 * real lane over a real store serves two sessions that write rubbish; its books must stay right,
 * and a third session that behaves must be served.
 *
 * Input: a stream of commands, one byte each and what they need; see command(). Nothing in it can
 * stop the lane; time is moved by commands too.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "memory/index.h"
#include "node/lane.h"
#include "node/pool.h"

#define SESSIONS 3u /* the last one behaves */
#define HONEST   (SESSIONS - 1)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

struct input {
    const uint8_t *data;
    size_t size;
};

/* Made once: populating memory takes longer than all the rest. */
static struct extent_set *fuzz_extents;
static struct extent_set fuzz_extents_fresh; /* how they were when nobody had any */

struct world {
    struct extent_set *extents;
    struct pools pools;
    struct pool *pool;
    struct session_node_page page;
    struct lane *lane;
    struct lane_front front;
    struct lane_seat seats[SESSIONS];
    _Atomic uint64_t quota[SESSIONS];
    bool open[SESSIONS];
    uint32_t tail[SESSIONS];
    uint64_t now_us;
};

/* ---- input ---- */

static uint8_t next_byte(struct input *input)
{
    if (input->size == 0)
        return 0;
    input->size--;
    return *input->data++;
}

static uint32_t next_u32(struct input *input)
{
    uint32_t value = next_byte(input);

    value |= (uint32_t)next_byte(input) << 8;
    value |= (uint32_t)next_byte(input) << 16;
    return value | (uint32_t)next_byte(input) << 24;
}

/* ---- the world ---- */

static void on_mail(void *context, const struct mailbox_message *message)
{
    struct world *world = context;

    NIGH_ASSERT(message->kind == LANE_EXPEL && message->number != HONEST);
    world->open[message->number] = false;
    lane_session_close(world->lane, message->number);
}

static void on_ready(void *context, uint64_t data, uint32_t events)
{
    (void)context;
    (void)data;
    (void)events;
}

static uint64_t on_tick(void *context, uint64_t now_us)
{
    (void)context;
    (void)now_us;
    return UINT64_MAX;
}

static struct session_lane *ring_of(struct world *world, uint32_t slot)
{
    return session_lane_of(world->seats[slot].memory, 0);
}

/* The same extents as before, free again; new ones if some were retired. */
static void take_extents(struct world *world)
{
    struct extent_options options = {
        .memory_bytes = 16 << 20, .extent_bytes = 2 << 20, .lanes = 1, .huge = EXTENT_HUGE_NEVER};
    char why[512];

    if (fuzz_extents != NULL && fuzz_extents->lane[0].used != fuzz_extents_fresh.lane[0].used) {
        extent_set_destroy(fuzz_extents);
        fuzz_extents = NULL;
    }
    if (fuzz_extents == NULL) {
        NIGH_ASSERT(extent_set_create(&options, &fuzz_extents, why, sizeof(why)) == NIGH_OK);
        memcpy(&fuzz_extents_fresh, fuzz_extents, sizeof(fuzz_extents_fresh));
    }
    memcpy(fuzz_extents, &fuzz_extents_fresh, sizeof(fuzz_extents_fresh));
    world->extents = fuzz_extents;
}

static void begin(struct world *world)
{
    struct pool_rules rules = {.name = "fuzz", .owner_uid = 7, .mode = 0600};
    struct lane_config config = {.lanes = 1, .max_sessions = SESSIONS, .page = &world->page};

    take_extents(world);
    pools_init(&world->pools, 1, 256);
    NIGH_ASSERT(pools_add(&world->pools, &rules, &world->pool) == NIGH_OK);
    world->front =
        (struct lane_front){.context = world, .ready = on_ready, .mail = on_mail, .tick = on_tick};
    config.front = &world->front;
    config.store = (struct store_config){.extents = world->extents,
                                         .incarnation = 1,
                                         .max_blocks = 4096,
                                         .spill_bytes = UINT64_MAX,
                                         .max_lane_pins = 64};
    NIGH_ASSERT(lane_create(&config, &world->lane) == NIGH_OK);
    NIGH_ASSERT(store_pool_add(lane_store(world->lane), &world->pool->indexes[0].config) ==
                NIGH_OK);
    for (uint32_t i = 0; i < SESSIONS; i++) {
        struct lane_seat *seat = &world->seats[i];

        *seat = (struct lane_seat){.slot = i,
                                   .session_id = i + 1,
                                   .uid = 7 + i % 2,
                                   .may_write = true,
                                   .quota_used = &world->quota[i],
                                   .memory = calloc(1, session_memory_bytes(1)),
                                   .socket_fd = -1};
        NIGH_ASSERT(seat->memory != NULL && lane_session_open(world->lane, seat) == NIGH_OK);
        world->open[i] = true;
    }
}

static void end(struct world *world)
{
    struct store *store = lane_store(world->lane);

    NIGH_ASSERT(store_is_valid(store));
    for (uint32_t i = 0; i < SESSIONS; i++)
        lane_session_close(world->lane, i);
    (void)store_tick(store, world->now_us + 1000000);
    NIGH_ASSERT(store_is_valid(store));
    lane_destroy(world->lane);
    for (uint32_t i = 0; i < SESSIONS; i++)
        free(world->seats[i].memory);
    pools_fini(&world->pools);
}

/* ---- commands ---- */

/* A submission made of input: small numbers are likely, everything is possible. */
static void make_sqe(struct input *input, struct session_sqe *sqe)
{
    uint8_t shape = next_byte(input);

    memset(sqe, 0, sizeof(*sqe));
    if ((shape & 0x80) != 0) {
        uint8_t *bytes = (uint8_t *)sqe;

        for (size_t i = 0; i < sizeof(*sqe); i++)
            bytes[i] = next_byte(input);
        return;
    }
    sqe->op = next_byte(input) % (SESSION_OPS + 1);
    sqe->flags = next_byte(input);
    sqe->cookie = next_byte(input);
    sqe->id[0] = next_byte(input) % 16;
    sqe->name_size = next_byte(input) % 32;
    sqe->meta_size = (shape & 1) != 0 ? next_u32(input) : next_byte(input);
    sqe->data_size = (shape & 2) != 0 ? next_u32(input) : next_byte(input) * UINT64_C(64);
    sqe->offset =
        (shape & 4) != 0 ? (uint64_t)next_u32(input) << 4 : next_byte(input) * UINT64_C(64);
    sqe->argument = (shape & 8) != 0 ? next_u32(input) : next_byte(input);
    sqe->ref = (shape & 16) != 0 ? next_u32(input) : next_byte(input) % 32;
}

static void submit(struct world *world, uint32_t slot, const struct session_sqe *sqe)
{
    struct session_lane *ring = ring_of(world, slot);

    ring->sq[world->tail[slot] % LIMIT_RING_ENTRIES] = *sqe;
    shared_store_release(&ring->sq_tail.value, ++world->tail[slot]);
    shared_store_release(session_ready(ring, slot), 1);
}

/* A store of any word anywhere in a session's memory, but for the page that nobody reads. */
static void scribble(struct world *world, uint32_t slot, struct input *input)
{
    uint64_t words = session_memory_bytes(1) / sizeof(uint32_t);
    uint32_t place = next_u32(input) % (uint32_t)words;
    uint32_t *word = (uint32_t *)world->seats[slot].memory + place;

    *word = next_u32(input);
}

/* Pin words that name entries, as a reader of another process would leave them, or would not. */
static void pin(struct world *world, uint32_t slot, struct input *input)
{
    struct pin_chunk *chunks = session_chunks_of(world->seats[slot].memory, 1);
    uint32_t chunk = next_byte(input) % LIMIT_PIN_CHUNKS;
    uint32_t word = next_byte(input) % LIMIT_PINS_A_CHUNK;
    uint32_t entry = next_byte(input);

    shared_store_release(&session_front_of(world->seats[slot].memory)->chunks_used,
                         next_byte(input));
    shared_store_relaxed(&chunks[chunk].generation[word], next_byte(input));
    shared_store_release(&chunks[chunk].entry[word], entry == 0 ? 0 : pin_ref(0, entry));
}

static void command(struct world *world, struct input *input)
{
    uint8_t what = next_byte(input);
    uint32_t slot = (what >> 4) % HONEST;
    struct session_sqe sqe;

    switch (what & 15) {
    case 0: scribble(world, slot, input); break;
    case 1: pin(world, slot, input); break;
    case 2: world->now_us += next_byte(input) * UINT64_C(1000); break;
    case 3: /* reads its completions */
        shared_store_release(&ring_of(world, slot)->cq_head.value,
                             shared_load_relaxed(&ring_of(world, slot)->cq_tail.value));
        break;
    case 4:
        if (!world->open[slot]) {
            memset(world->seats[slot].memory, 0, session_memory_bytes(1));
            world->tail[slot] = 0;
            world->open[slot] = lane_session_open(world->lane, &world->seats[slot]) == NIGH_OK;
        } else {
            lane_session_close(world->lane, slot);
            world->open[slot] = false;
        }
        break;
    case 5:
    case 6: (void)lane_turn(world->lane, ++world->now_us); break;
    default:
        make_sqe(input, &sqe);
        submit(world, slot, &sqe);
        if ((what & 8) != 0)
            (void)lane_turn(world->lane, ++world->now_us);
    }
}

/* Whatever the others did: a NOP is answered at once, and rightly. */
static void ask_honestly(struct world *world)
{
    struct session_lane *ring = ring_of(world, HONEST);
    struct session_sqe sqe = {.op = SESSION_OP_NOP, .cookie = 4711};
    const struct session_cqe *cqe = &ring->cq[world->tail[HONEST] % LIMIT_RING_ENTRIES];

    submit(world, HONEST, &sqe);
    (void)lane_turn(world->lane, ++world->now_us);
    NIGH_ASSERT(shared_load_relaxed(&ring->cq_tail.value) == world->tail[HONEST]);
    NIGH_ASSERT(cqe->cookie == 4711 && cqe->status == NIGH_OK);
    shared_store_release(&ring->cq_head.value, world->tail[HONEST]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct input input = {data, size_bytes};
    struct world *world = calloc(1, sizeof(*world));

    NIGH_ASSERT(world != NULL);
    world->now_us = 1;
    begin(world);
    while (input.size > 0)
        command(world, &input);
    (void)lane_turn(world->lane, ++world->now_us);
    ask_honestly(world);
    end(world);
    free(world);
    return 0;
}
