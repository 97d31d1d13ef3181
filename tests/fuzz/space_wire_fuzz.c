/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node of a space whose peers have the key and say anything: raw messages, and such as one that
 * keeps to the protocol might say, at the wrong time. Clients of the node want what clients want.
 * Whatever comes, what the engine keeps stays valid, and all that its clients want has one end.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz_input.h"
#include "space/engine_internal.h"

#define BLOCKS 8u
#define BYTES  64u
#define SEATS  3u /* 0 is this node */
#define OPS    12u
#define SETS   1u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static struct space_engine *engine;
static uint64_t now_us;
static uint8_t cut; /* seats that are to go down */
static uint32_t under_way[SPACE_SEATS];

static struct wish {
    struct space_op op;
    bool is_used;
} wishes[OPS];

static _Alignas(4096) uint8_t home_memory[3 * 4096], cache_memory[3 * 4096];

static bool is_full;

static bool fuzz_send(void *context, const struct space_send *send)
{
    (void)context;
    NIGH_ASSERT(send->seat != 0 && send->seat < SEATS && space_wire_check(&send->wire) == NIGH_OK);
    NIGH_ASSERT(send->count == 0 || (send->from_offset + send->count <=
                                         (send->from == SPACE_MEMORY_HOME ? sizeof(home_memory)
                                                                          : sizeof(cache_memory)) &&
                                     send->to_offset + send->count <= sizeof(cache_memory)));
    if (is_full) {
        return false;
    }
    if (send->wants_end) {
        under_way[send->cookie]++;
    }
    return true;
}

static void fuzz_cut(void *context, uint8_t seat, nigh_status why)
{
    (void)context;
    (void)why;
    cut |= (uint8_t)(1u << seat);
}

static void fuzz_bytes(struct space_op *op, void *bytes)
{
    if (op->kind == SPACE_OP_WRITE) {
        memset(bytes, 1, (op->length + 7u) & ~7u);
    }
}

static void fuzz_ended(struct space_op *op, uint64_t at_us)
{
    struct wish *wish = container_of(op, struct wish, op);

    (void)at_us;
    NIGH_ASSERT(wish->is_used && op->status <= NIGH_OK && op->status >= NIGH_STATUS_LOWEST);
    wish->is_used = false;
}

static void tell_ends(uint32_t cookie)
{
    for (; under_way[cookie] > 0; under_way[cookie]--) {
        space_engine_sent(engine, cookie, now_us);
    }
}

static void go_down(uint8_t seat)
{
    for (uint32_t cookie = 0; cookie < SEATS; cookie++) {
        tell_ends(cookie);
    }
    space_engine_down(engine, seat, now_us);
}

static void begin(void)
{
    struct space_engine_config config = {
        .space = 1,
        .birth = 1,
        .life = 9,
        .home_memory = home_memory,
        .cache_memory = cache_memory,
        .letters = 64,
        .asks = 4,
        .shell = {.send = fuzz_send, .cut = fuzz_cut},
    };
    nigh_status status;

    memset(home_memory, 0, sizeof(home_memory));
    memset(cache_memory, 0, sizeof(cache_memory));
    memset(wishes, 0, sizeof(wishes));
    memset(under_way, 0, sizeof(under_way));
    cut = 0;
    now_us = 1;
    is_full = false;
    space_view_make_home(home_memory, BLOCKS, BYTES, 0, &config.home);
    space_view_make_cache(cache_memory, SETS, BYTES, &config.cache);
    status = space_engine_create(&config, &engine);
    NIGH_ASSERT(status == NIGH_OK);
    space_engine_members(engine, 1, now_us);
    (void)space_engine_turn(engine, now_us);
}

static uint64_t some_address(struct fuzz_input *input)
{
    uint8_t what = fuzz_byte(input);

    return ((uint64_t)(what & 3) << SPACE_SEAT_SHIFT) + (what >> 2) % (BLOCKS + 1) * BYTES;
}

static void want(struct fuzz_input *input)
{
    struct wish *wish = &wishes[fuzz_byte(input) % OPS];

    if (wish->is_used) {
        return;
    }
    *wish = (struct wish){
        .op = {.kind = fuzz_byte(input) % (SPACE_OP_KINDS + 1),
               .holds = fuzz_byte(input) % 3,
               .is_try = fuzz_byte(input) % 4 == 0,
               .length = 8,
               .address = some_address(input),
               .operands = {1 + fuzz_byte(input), fuzz_byte(input)},
               .deadline_us = fuzz_byte(input) % 2 ? UINT64_MAX : now_us + 20 + fuzz_byte(input),
               .bytes = fuzz_bytes,
               .ended = fuzz_ended},
        .is_used = true};
    if (space_engine_begin(engine, &wish->op, now_us)) {
        wish->is_used = false;
    }
}

static void give_up(struct fuzz_input *input)
{
    struct wish *wish = &wishes[fuzz_byte(input) % OPS];

    if (wish->is_used) {
        space_engine_give_up(engine, &wish->op);
        wish->is_used = false;
    }
}

/* Numbers that may be of something, and others. */
static void say_of_try(struct fuzz_input *input, struct space_wire *wire, uint8_t what)
{
    uint8_t n = fuzz_byte(input);
    bool is_home;

    wire->address = some_address(input);
    is_home = wire->address >> SPACE_SEAT_SHIFT == 0;
    wire->event = wire->kind == SPACE_WIRE_HELD ? what % 2 : 0;
    wire->term = is_home
                     ? engine->term.home.term
                     : engine->seats[(wire->address >> SPACE_SEAT_SHIFT) % SEATS].member.cache.term;
    wire->term -= fuzz_byte(input) % 8 == 0;
    wire->operands[1] = 1 + n;
    if (wire->kind == SPACE_WIRE_HELD && what % 4 != 0) {
        wire->operands[1] = is_home ? engine->asked[what / 4 % SEATS * LIMIT_SPACE_TRIES + n].sent
                                    : engine->tries[n].number;
    }
}

/* What one that keeps to the protocol might say. */
static void say(struct fuzz_input *input, uint8_t seat)
{
    struct space_wire wire = {.space = 1, .birth = 1};
    uint8_t what;

    wire.kind = 1 + fuzz_byte(input) % (SPACE_WIRE_KINDS - 1);
    what = fuzz_byte(input);
    wire.event = what % 32;
    if (wire.kind == SPACE_WIRE_HELLO) {
        wire.event = 0;
        wire.why = what % 2;
        wire.term = (uint32_t)fuzz_byte(input);
        wire.operands[0] = 5 + fuzz_byte(input) % 2;
        wire.operands[1] = fuzz_byte(input);
    } else if (wire.kind == SPACE_WIRE_LINKS) {
        wire.event = 0;
        wire.operands[1] = fuzz_byte(input);
    } else if (wire.kind == SPACE_WIRE_TERM) {
        wire.event = what % 3;
        wire.term = what % 3 == 1 ? engine->term.home.term
                                  : engine->seats[seat].member.cache.term + (what >> 2) % 3;
        wire.operands[0] = what % 3 == 0 ? fuzz_byte(input) : 0;
        wire.why = what % 3 == 0 ? what >> 7 : 0;
    } else if (wire.kind == SPACE_WIRE_TO_HOME || wire.kind == SPACE_WIRE_TO_CACHE) {
        bool is_home = wire.kind == SPACE_WIRE_TO_HOME;

        wire.address = some_address(input);
        wire.whom = fuzz_byte(input) % 4;
        wire.whom = wire.whom == 3 ? SPACE_NOBODY : wire.whom;
        wire.term =
            is_home ? engine->term.home.term
                    : engine->seats[(wire.address >> SPACE_SEAT_SHIFT) % SEATS].member.cache.term;
        wire.term -= fuzz_byte(input) % 8 == 0;
        wire.epoch = (struct space_epoch){wire.term - fuzz_byte(input) % 2, fuzz_byte(input) % 4};
        wire.frame = fuzz_byte(input) % (SETS * SPACE_WAYS + 1);
        wire.why = fuzz_byte(input) % 8;
        if (is_home && wire.event == SPACE_HOME_ASK_ATOMIC) {
            wire.atomic = SPACE_RECORD_ADD + fuzz_byte(input) % 3;
            wire.operands[0] = 1;
        }
    } else if (wire.kind == SPACE_WIRE_IS_HELD || wire.kind == SPACE_WIRE_HELD) {
        say_of_try(input, &wire, what);
    } else {
        wire.event = wire.kind == SPACE_WIRE_ANSWER ? SPACE_WIRE_ALLOC + what % 2 : 0;
        wire.address = some_address(input);
        wire.operands[0] = wire.kind == SPACE_WIRE_ALLOC ? fuzz_byte(input) : 0;
        wire.why =
            wire.kind == SPACE_WIRE_ALLOC ? fuzz_byte(input) % (LIMIT_SPACE_ALIGN_BITS + 2) : 0;
        wire.operands[1] = fuzz_byte(input) % 4;
    }
    space_engine_message(engine, seat, &wire, sizeof(wire), now_us);
}

static void say_anything(struct fuzz_input *input, uint8_t seat)
{
    uint8_t bytes[sizeof(struct space_wire)];

    fuzz_fill(input, bytes, sizeof(bytes));
    space_engine_message(engine, seat, bytes,
                         fuzz_byte(input) % 8 == 0 ? fuzz_byte(input) % 64 : sizeof(bytes), now_us);
}

static void command(struct fuzz_input *input)
{
    uint8_t what = fuzz_byte(input), seat = 1 + (what >> 4) % (SEATS - 1);
    bool is_up = space_set_has(engine->up, seat);

    switch (what % 16) {
    case 0: space_engine_members(engine, 1 | (fuzz_byte(input) & 6), now_us); break;
    case 1:
        if (!is_up) {
            space_engine_up(engine, seat, now_us);
        } else {
            cut |= (uint8_t)(1u << seat);
        }
        break;
    case 2: want(input); break;
    case 3: want(input); break;
    case 4: give_up(input); break;
    case 5: tell_ends(fuzz_byte(input) % SEATS); break;
    case 6: say_anything(input, seat); break;
    case 7: is_full = !is_full; break;
    case 8: now_us += fuzz_byte(input); break;
    case 9: (void)space_engine_turn(engine, now_us); break;
    default: say(input, seat); break;
    }
    for (uint8_t other = 1; other < SEATS; other++) {
        if ((cut >> other & 1) != 0 && space_set_has(engine->up, other)) {
            go_down(other);
        }
    }
    cut = 0;
    NIGH_ASSERT(space_engine_is_valid(engine));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct fuzz_input input = {.bytes = data, .left = size_bytes};

    begin();
    while (input.left > 0) {
        command(&input);
    }
    space_engine_end(engine, NIGH_CLOSED);
    for (uint32_t n = 0; n < OPS; n++) {
        NIGH_ASSERT(!wishes[n].is_used);
    }
    space_engine_destroy(engine);
    return 0;
}
