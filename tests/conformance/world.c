/* SPDX-License-Identifier: Apache-2.0 */
/* See world.h. What all providers have in common; asserts on the test's own thread. */
#include "conformance/world.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define AREA_ALIGNMENT 4096u
#define AREA_MARGIN    4096u
#define MARGIN_BYTE    0x5au
#define BOUND_US       UINT64_C(15000000)
#define BOUND_AGAIN_US UINT64_C(500000) /* once something was waited for in vain */
#define BOUND_POLLS    UINT64_C(20000000)
#define PASS_US        50000u
#define IDLE_POLLS     8u /* in which nothing happened, nor will: time stands still */

#define POLL_MOST 64u

/* A provider that fails one test so will fail more: those need not take as long. */
static bool waited_in_vain;

/* ---- set-up and teardown ---- */

uint32_t world_add(struct world *world, uint32_t node, uint32_t lane)
{
    uint32_t number = world->fabric_count;
    char address[FABRIC_ADDRESS_BYTES];

    assert_true(number < WORLD_FABRICS);
    assert_int_equal(world_provider.fabric(world, node, lane, &world->fabrics[number]), NIGH_OK);
    world->fabric_count++;
    world_provider.listen_address(node, lane, address);
    assert_int_equal(fabric_listen(world->fabrics[number], address), NIGH_OK);
    fabric_address(world->fabrics[number], world->addresses[number]);
    return number;
}

bool world_acts_by_itself(const struct world *world)
{
    return !world_provider.ends && (world->fabrics[ALICE]->caps.ops & FABRIC_CAN_OFFLOAD) != 0;
}

void world_nowhere(struct world *world, char address[FABRIC_ADDRESS_BYTES])
{
    uint32_t fabric = world_add(world, 90, 0);

    memcpy(address, world->addresses[fabric], FABRIC_ADDRESS_BYTES);
    world_drop(world, fabric);
}

void world_drop(struct world *world, uint32_t fabric)
{
    for (uint32_t i = 0; i < world->end_count; i++) {
        if (world->ends[i]->fabric == fabric)
            world->ends[i]->endpoint = NULL;
    }
    for (uint32_t i = 0; i < world->area_count; i++) {
        if (world->areas[i]->fabric == fabric)
            world->areas[i]->memory = NULL;
    }
    fabric_destroy(world->fabrics[fabric]);
    world->fabrics[fabric] = NULL;
}

int world_setup(void **state)
{
    const uint32_t *variant = *state;
    struct world *world = calloc(1, sizeof(*world));

    assert_non_null(world);
    world->variant = *variant;
    world->poll_count = POLL_MOST;
    world->turn_bytes = LIMIT_FABRIC_TURN_BYTES;
    world_provider.open(world);
    *state = world;
    assert_int_equal(world_add(world, 1, 0), ALICE);
    assert_int_equal(world_add(world, 2, 0), BOB);
    return 0;
}

static bool area_margins_are_whole(const struct world_area *area)
{
    for (uint64_t i = 0; i < AREA_MARGIN; i++) {
        if (area->bytes[area->size + i] != MARGIN_BYTE || area->block[i] != MARGIN_BYTE)
            return false;
    }
    return true;
}

int world_teardown(void **state)
{
    struct world *world = *state;
    bool whole = true;

    for (uint32_t i = 0; i < world->fabric_count; i++)
        world_drop(world, i);
    world_provider.close(world);
    if (world->strays > 0) {
        print_message("# %u completions or events that are nobody's\n", world->strays);
        whole = false;
    }
    for (uint32_t i = 0; i < world->area_count; i++) {
        if (!area_margins_are_whole(world->areas[i])) {
            print_message("# bytes beside a registration were written\n");
            whole = false;
        }
        free(world->areas[i]->block);
        free(world->areas[i]);
    }
    for (uint32_t i = 0; i < world->end_count; i++) {
        free(world->ends[i]->log);
        free(world->ends[i]);
    }
    free(world);
    return whole ? 0 : -1;
}

/* ---- progress ---- */

struct world_bound world_bound_start(void)
{
    uint64_t most_us = (waited_in_vain ? BOUND_AGAIN_US : BOUND_US) * support_patience();

    return (struct world_bound){.polls_left = BOUND_POLLS, .end_us = support_now_us() + most_us};
}

static void world_note_completion(struct world *world, const struct fabric_completion *completion)
{
    struct world_end *end = completion->context;

    world->seen++;
    if (end == NULL || end->endpoint == NULL || end->endpoint != completion->endpoint ||
        end->logged == WORLD_LOG) {
        world->strays++;
        return;
    }
    end->log[end->logged++] = *completion;
}

static void world_note_request(struct world *world, uint32_t fabric,
                               const struct fabric_event *event)
{
    struct world_request *request = &world->requests[world->request_count];

    if (world->request_count == WORLD_REQUESTS) {
        world->strays++;
        return;
    }
    world->request_count++;
    request->fabric = fabric;
    request->endpoint = event->endpoint;
    request->private_bytes = event->private_bytes;
    memcpy(request->private_data, event->private_data, FABRIC_PRIVATE_BYTES);
}

/* An event of an endpoint that was not accepted: it has no context. */
static void world_note_lost_request(struct world *world, const struct fabric_event *event)
{
    for (uint32_t i = 0; i < world->request_count; i++) {
        struct world_request *request = &world->requests[i];

        if (request->endpoint == event->endpoint && !request->taken &&
            event->kind == FABRIC_DISCONNECTED && !request->disconnected) {
            request->disconnected = true;
            request->status = event->status;
            return;
        }
    }
    world->strays++;
}

static void world_note_event(struct world *world, uint32_t fabric, const struct fabric_event *event)
{
    struct world_end *end = event->context;

    world->seen++;
    if (event->kind == FABRIC_REQUEST) {
        world_note_request(world, fabric, event);
    } else if (end == NULL) {
        world_note_lost_request(world, event);
    } else if (end->endpoint == NULL || end->endpoint != event->endpoint) {
        world->strays++;
    } else if (event->kind == FABRIC_ESTABLISHED) {
        end->established++;
        end->private_bytes = event->private_bytes;
        memcpy(end->private_data, event->private_data, FABRIC_PRIVATE_BYTES);
    } else {
        end->disconnected++;
        end->status = event->status;
    }
}

void world_poll(struct world *world, uint32_t fabric)
{
    struct fabric_completion completions[POLL_MOST];
    struct fabric_event event;
    uint32_t count = fabric_poll(world->fabrics[fabric], completions, world->poll_count,
                                 world_provider.now_us(world));

    NIGH_ASSERT(count <= world->poll_count);
    for (uint32_t i = 0; i < count; i++)
        world_note_completion(world, &completions[i]);
    while (fabric_next_event(world->fabrics[fabric], &event))
        world_note_event(world, fabric, &event);
}

static void world_poll_all(struct world *world)
{
    world->polls++;
    for (uint32_t i = 0; i < world->fabric_count; i++) {
        if (world->fabrics[i] != NULL && !world->asleep[i])
            world_poll(world, i);
    }
}

bool world_step(struct world *world, struct world_bound *bound)
{
    uint64_t seen = world->seen;

    if (bound->polls_left == 0 || support_now_us() > bound->end_us) {
        waited_in_vain = true;
        return false;
    }
    bound->polls_left--;
    if (world_provider.go_on(world))
        bound->idle = 0;
    world_poll_all(world);
    bound->idle = world->seen == seen ? bound->idle + 1 : 0;
    return !world_provider.ends || bound->idle < IDLE_POLLS;
}

void world_steps(struct world *world, uint32_t steps)
{
    struct world_bound bound = world_bound_start();

    for (uint32_t i = 0; i < steps && world_step(world, &bound); i++)
        ;
}

void world_pass(struct world *world, uint64_t duration_us)
{
    uint64_t until_us = world_provider.now_us(world) + duration_us;

    while (world_provider.now_us(world) < until_us) {
        uint64_t now_us = world_provider.now_us(world);

        world_provider.go_to(world, min_u64(until_us, now_us + PASS_US));
        world_poll_all(world);
    }
}

/* ---- memory ---- */

struct world_area *world_area(struct world *world, uint32_t fabric, uint64_t size, uint32_t rights)
{
    struct world_area *area = calloc(1, sizeof(*area));
    uint64_t whole = align_up_u64(size, AREA_ALIGNMENT) + 2 * (uint64_t)AREA_MARGIN;

    assert_non_null(area);
    assert_true(world->area_count < WORLD_AREAS);
    world->areas[world->area_count++] = area;
    area->world = world;
    area->fabric = fabric;
    area->size = size;
    area->block = aligned_alloc(AREA_ALIGNMENT, whole);
    assert_non_null(area->block);
    area->bytes = area->block + AREA_MARGIN;
    memset(area->block, MARGIN_BYTE, whole);
    memset(area->bytes, 0, size);
    assert_int_equal(fabric_memory_register(world->fabrics[fabric], area->bytes, size, FABRIC_HOST,
                                            rights, &area->memory),
                     NIGH_OK);
    return area;
}

static uint64_t area_word(uint64_t index, uint64_t seed)
{
    uint64_t word =
        (index + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (seed + 1) * UINT64_C(0xbf58476d1ce4e5b9);

    word ^= word >> 29;
    return word * UINT64_C(0x94d049bb133111eb);
}

void area_fill(struct world_area *area, uint64_t offset, uint64_t bytes, uint64_t seed)
{
    for (uint64_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t word = area_word(i / sizeof(word), seed);

        memcpy(area->bytes + offset + i, &word, min_u64(sizeof(word), bytes - i));
    }
}

bool area_holds(const struct world_area *area, uint64_t offset, uint64_t bytes, uint64_t seed)
{
    for (uint64_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t word = area_word(i / sizeof(word), seed);

        if (memcmp(area->bytes + offset + i, &word, min_u64(sizeof(word), bytes - i)) != 0)
            return false;
    }
    return true;
}

bool area_is(const struct world_area *area, uint64_t offset, uint64_t bytes, uint8_t value)
{
    for (uint64_t i = 0; i < bytes; i++) {
        if (area->bytes[offset + i] != value)
            return false;
    }
    return true;
}

void area_deregister(struct world_area *area)
{
    fabric_memory_deregister(area->world->fabrics[area->fabric], area->memory);
    area->memory = NULL;
}

struct fabric_slice area_slice(const struct world_area *area, uint64_t offset, uint64_t bytes)
{
    return (struct fabric_slice){area->bytes + offset, bytes, area->memory};
}

struct fabric_remote area_remote(const struct world_area *area, uint64_t offset)
{
    return fabric_memory_remote(area->world->fabrics[area->fabric], area->memory,
                                area->bytes + offset);
}

uint64_t area_u64(const struct world_area *area, uint64_t offset)
{
    uint64_t value;

    memcpy(&value, area->bytes + offset, sizeof(value));
    return value;
}

/* ---- ends ---- */

struct world_end *world_end(struct world *world, uint32_t fabric)
{
    struct world_end *end = calloc(1, sizeof(*end));

    assert_non_null(end);
    assert_true(world->end_count < WORLD_ENDS);
    world->ends[world->end_count++] = end;
    end->log = calloc(WORLD_LOG, sizeof(*end->log));
    assert_non_null(end->log);
    end->world = world;
    end->fabric = fabric;
    return end;
}

struct fabric_endpoint_options end_options(struct world_end *end, uint32_t sends, uint32_t receives)
{
    return (struct fabric_endpoint_options){.sends = sends, .receives = receives, .context = end};
}

#define DEPTH 128u

static struct world_end *world_dial_deep(struct world *world, uint32_t from, const char *address,
                                         uint32_t depth, const void *private_data,
                                         uint32_t private_bytes)
{
    struct world_end *end = world_end(world, from);
    struct fabric_endpoint_options options = end_options(end, depth, depth);

    assert_int_equal(fabric_connect(world->fabrics[from], address, &options, private_data,
                                    private_bytes, &end->endpoint),
                     NIGH_OK);
    return end;
}

struct world_end *world_dial(struct world *world, uint32_t from, const char *address,
                             const void *private_data, uint32_t private_bytes)
{
    return world_dial_deep(world, from, address, DEPTH, private_data, private_bytes);
}

static struct world_request *world_find_request(struct world *world, uint32_t fabric)
{
    for (uint32_t i = 0; i < world->request_count; i++) {
        if (world->requests[i].fabric == fabric && !world->requests[i].taken)
            return &world->requests[i];
    }
    return NULL;
}

struct world_request *world_next_request(struct world *world, uint32_t fabric)
{
    assert_comes(world, world_find_request(world, fabric) != NULL);
    return world_find_request(world, fabric);
}

static struct world_end *world_accept_deep(struct world *world, struct world_request *request,
                                           uint32_t depth, const void *private_data,
                                           uint32_t private_bytes)
{
    struct world_end *end = world_end(world, request->fabric);
    struct fabric_endpoint_options options = end_options(end, depth, depth);

    request->taken = true;
    end->endpoint = request->endpoint;
    assert_int_equal(fabric_accept(world->fabrics[request->fabric], request->endpoint, &options,
                                   private_data, private_bytes),
                     NIGH_OK);
    return end;
}

struct world_end *world_accept(struct world *world, struct world_request *request,
                               const void *private_data, uint32_t private_bytes)
{
    return world_accept_deep(world, request, DEPTH, private_data, private_bytes);
}

void world_join_deep(struct world *world, uint32_t from, uint32_t to, uint32_t depth,
                     struct world_end **at_from, struct world_end **at_to)
{
    *at_from = world_dial_deep(world, from, world->addresses[to], depth, NULL, 0);
    *at_to = world_accept_deep(world, world_next_request(world, to), depth, NULL, 0);
    assert_comes(world, (*at_from)->established == 1 && (*at_to)->established == 1);
}

void world_join(struct world *world, uint32_t from, uint32_t to, struct world_end **at_from,
                struct world_end **at_to)
{
    world_join_deep(world, from, to, DEPTH, at_from, at_to);
}

void end_disconnect(struct world_end *end)
{
    fabric_disconnect(end->world->fabrics[end->fabric], end->endpoint);
}

void end_destroy(struct world_end *end)
{
    fabric_endpoint_destroy(end->world->fabrics[end->fabric], end->endpoint);
    end->endpoint = NULL;
}

nigh_status end_post(struct world_end *end, const struct fabric_work *work)
{
    return fabric_post(end->world->fabrics[end->fabric], end->endpoint, work, NULL);
}

nigh_status end_post_atomic(struct world_end *end, enum fabric_op op, uint64_t tag,
                            const struct world_area *here, uint64_t offset,
                            struct fabric_remote remote, uint64_t operand, uint64_t compare)
{
    struct fabric_slice slice = area_slice(here, offset, sizeof(uint64_t));
    const struct fabric_work work = {.op = op,
                                     .flags = FABRIC_SIGNALLED,
                                     .tag = tag,
                                     .slices = &slice,
                                     .slice_count = 1,
                                     .remote = remote,
                                     .operand = operand,
                                     .compare = compare};

    return end_post(end, &work);
}

nigh_status end_post_receive(struct world_end *end, uint64_t tag, struct fabric_slice slice)
{
    const struct fabric_receive receive = {.tag = tag, .slice = slice};

    return fabric_post_receive(end->world->fabrics[end->fabric], end->endpoint, &receive, NULL);
}

void end_receive(struct world_end *end, uint64_t tag, const struct world_area *area,
                 uint64_t offset, uint64_t bytes)
{
    assert_int_equal(end_post_receive(end, tag, area_slice(area, offset, bytes)), NIGH_OK);
}

static void end_post_one(struct world_end *end, enum fabric_op op, uint64_t tag,
                         struct fabric_slice slice, struct fabric_remote remote)
{
    const struct fabric_work work = {.op = op,
                                     .flags = FABRIC_SIGNALLED,
                                     .tag = tag,
                                     .slices = &slice,
                                     .slice_count = 1,
                                     .remote = remote};

    assert_int_equal(end_post(end, &work), NIGH_OK);
}

void end_send(struct world_end *end, uint64_t tag, const struct world_area *area, uint64_t offset,
              uint64_t bytes)
{
    end_post_one(end, FABRIC_SEND, tag, area_slice(area, offset, bytes),
                 (struct fabric_remote){0, 0});
}

void end_read(struct world_end *end, uint64_t tag, const struct world_area *area, uint64_t offset,
              struct fabric_remote remote, uint64_t bytes)
{
    end_post_one(end, FABRIC_READ, tag, area_slice(area, offset, bytes), remote);
}

void end_write(struct world_end *end, uint64_t tag, const struct world_area *area, uint64_t offset,
               struct fabric_remote remote, uint64_t bytes)
{
    end_post_one(end, FABRIC_WRITE, tag, area_slice(area, offset, bytes), remote);
}

/* ---- what completed ---- */

static const struct fabric_completion *end_search(const struct world_end *end, uint64_t tag,
                                                  bool receives, uint32_t *count)
{
    const struct fabric_completion *first = NULL;

    *count = 0;
    for (uint32_t i = 0; i < end->logged; i++) {
        const struct fabric_completion *completion = &end->log[i];

        if (completion->tag == tag && (completion->op == FABRIC_RECV) == receives) {
            first = first != NULL ? first : completion;
            (*count)++;
        }
    }
    return first;
}

uint32_t end_count(const struct world_end *end, uint64_t tag)
{
    uint32_t count;

    (void)end_search(end, tag, false, &count);
    return count;
}

uint32_t end_count_receives(const struct world_end *end, uint64_t tag)
{
    uint32_t count;

    (void)end_search(end, tag, true, &count);
    return count;
}

const struct fabric_completion *end_find(const struct world_end *end, uint64_t tag)
{
    uint32_t count;

    return end_search(end, tag, false, &count);
}

const struct fabric_completion *end_find_receive(const struct world_end *end, uint64_t tag)
{
    uint32_t count;

    return end_search(end, tag, true, &count);
}

nigh_status end_wait(struct world_end *end, uint64_t tag)
{
    assert_comes(end->world, end_find(end, tag) != NULL);
    assert_int_equal(end_count(end, tag), 1);
    return end_find(end, tag)->status;
}

nigh_status end_wait_receive(struct world_end *end, uint64_t tag)
{
    assert_comes(end->world, end_find_receive(end, tag) != NULL);
    assert_int_equal(end_count_receives(end, tag), 1);
    return end_find_receive(end, tag)->status;
}

void end_wait_refused(struct world_end *end, struct world_end *peer, uint64_t tag,
                      nigh_status status)
{
    assert_int_equal(end_wait(end, tag), status);
    assert_comes(end->world, end->disconnected > 0 && peer->disconnected > 0);
    assert_int_equal(end->disconnected, 1);
    assert_int_equal(peer->disconnected, 1);
}

/* ---- what the provider lacks ---- */

static uint32_t bit_of(enum fabric_op op)
{
    switch (op) {
    case FABRIC_WRITE_IMM: return FABRIC_CAN_WRITE_IMM;
    case FABRIC_FETCH_ADD:
    case FABRIC_COMPARE_SWAP: return FABRIC_CAN_ATOMICS;
    default: return 0;
    }
}

/* F67 F21: in the middle of a chain; what stands before it goes, what stands behind it does not. */
static void expect_refused(struct world *world, enum fabric_op op)
{
    struct world_area *here = world_area(world, ALICE, 64, ALL_RIGHTS);
    struct world_area *there = world_area(world, BOB, 64, ALL_RIGHTS);
    struct fabric_slice slice = area_slice(here, 0, 8);
    struct fabric_work chain[3];
    const struct fabric_work *bad = NULL;
    struct world_end *alice, *bob;

    world_join(world, ALICE, BOB, &alice, &bob);
    for (uint32_t i = 0; i < ARRAY_LENGTH(chain); i++) {
        chain[i] = (struct fabric_work){.op = i == 1 ? op : FABRIC_WRITE,
                                        .next = i < 2 ? &chain[i + 1] : NULL,
                                        .flags = FABRIC_SIGNALLED,
                                        .tag = i,
                                        .slices = &slice,
                                        .slice_count = 1,
                                        .remote = area_remote(there, 8 * (uint64_t)i)};
        end_receive(bob, i, there, 32, 8);
    }
    memset(here->bytes, 0x77, 8);
    assert_int_equal(fabric_post(world->fabrics[ALICE], alice->endpoint, chain, &bad),
                     NIGH_UNSUPPORTED);
    assert_ptr_equal(bad, &chain[1]);
    assert_int_equal(end_wait(alice, 0), NIGH_OK);
    world_steps(world, 50);
    assert_true(area_is(there, 0, 8, 0x77) && area_is(there, 8, 56, 0));
    assert_int_equal(alice->logged + bob->logged, 1);
    assert_int_equal(alice->disconnected + bob->disconnected, 0);
    end_destroy(alice);
    end_destroy(bob);
}

bool world_can(struct world *world, uint32_t op)
{
    if ((world->fabrics[ALICE]->caps.ops & op) != 0)
        return true;
    print_message("# the provider does not\n");
    for (uint32_t i = 0; i < FABRIC_OPS; i++) {
        if ((bit_of((enum fabric_op)i) & op) != 0)
            expect_refused(world, (enum fabric_op)i);
    }
    return false;
}
