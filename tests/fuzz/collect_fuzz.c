/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node that takes part in calls of many, whose parents and children may say anything: the bytes
 * say what comes, how its calls end, and who gives up. Each of its collectives stays valid, and is
 * answered once at most.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fuzz_input.h"
#include "rpc/collect.h"

#define NODES   40u
#define SELF    7u
#define VERSION UINT64_C(3)
#define ASKS    2048u
#define PARENTS 8u

static struct fuzz_input input;
static struct collects *collects;
static struct collect_ask asks[ASKS];
static bool asked[ASKS];
static uint64_t calls, answered[PARENTS * 256];
static uint8_t bytes[CALLS_PAYLOAD + 16];
static uint64_t now_us;

static void on_ask(void *context, const struct collect_ask *ask, uint64_t at_us)
{
    (void)context;
    (void)at_us;
    NIGH_ASSERT(ask->rank < NODES && (ask->wire == NULL) == (ask->rank == SELF));
    NIGH_ASSERT(ask->wire == NULL ||
                (ranks_has(&ask->wire->ranks, ask->rank) && !ranks_has(&ask->wire->ranks, SELF)));
    for (uint32_t n = 0; n < ASKS; n++) {
        if (!asked[n]) {
            asked[n] = true;
            asks[n] = *ask;
            return;
        }
    }
    NIGH_ASSERT(!"there are more than the bounds allow");
}

static void end_ask(uint32_t n, const struct calls_end *end)
{
    asked[n] = false;
    collect_ended(collects, asks[n].place, asks[n].number, asks[n].generation, end);
}

static void on_forget(void *context, uint32_t place, uint64_t at_us)
{
    struct calls_end end = {.status = NIGH_CANCELED, .taken = true};

    (void)context;
    (void)at_us;
    for (uint32_t n = 0; n < ASKS; n++) {
        if (asked[n] && asks[n].place == place) {
            end_ask(n, &end);
        }
    }
}

static void on_answer(void *context, const struct collect_from *from, const struct collect_end *end)
{
    (void)context;
    NIGH_ASSERT(end->said->value_bytes <= LIMIT_COLLECT_BYTES);
    NIGH_ASSERT(answered[from->call % (PARENTS * 256)] != from->call);
    answered[from->call % (PARENTS * 256)] = from->call;
}

static void take_ranks(struct ranks *ranks)
{
    fuzz_fill(&input, ranks, sizeof(*ranks));
    if (fuzz_byte(&input) % 8 != 0) {
        ranks->words[0] = (ranks->words[0] & ((UINT64_C(1) << NODES) - 1)) | UINT64_C(1) << SELF;
        ranks->words[0] &= ~UINT64_C(3); /* who asks, and who began it */
        memset(&ranks->words[1], 0, sizeof(*ranks) - sizeof(ranks->words[0]));
    }
}

static struct rpc *parent(uint8_t n)
{
    return (struct rpc *)(uintptr_t)(n % PARENTS + 1);
}

static void come(void)
{
    struct collect_from from = {.channel = parent(fuzz_byte(&input)), .call = ++calls, .rank = 1};
    struct calls_wire called = {.service = 1, .bulks = fuzz_byte(&input) % 32 == 0};
    struct collect_wire wire = {.version = VERSION,
                                .origin = fuzz_byte(&input) % 32 == 0 ? 9 : 0,
                                .value_room = (uint32_t)fuzz_number(&input),
                                .reduce = fuzz_byte(&input) % 9,
                                .fan = fuzz_byte(&input) % 20,
                                .depth = fuzz_byte(&input) % 20};
    uint32_t count = (uint32_t)(fuzz_number(&input) % (sizeof(bytes) + 1));
    struct rpc_request came = {
        .call = calls, .payload = bytes, .bytes = count, .deadline_us = fuzz_number(&input)};

    take_ranks(&wire.ranks);
    if (fuzz_byte(&input) % 4 != 0) {
        wire.value_room = wire.value_room % 64 * 8;
    }
    fuzz_fill(&input, bytes, 8);
    memcpy(bytes, &called, sizeof(called));
    memcpy(bytes + sizeof(called), &wire, sizeof(wire));
    (void)collect_take(collects, &from, &came, now_us);
}

static void begin(void)
{
    struct collect_from from = {.call = ++calls, .caller = {.owner = fuzz_byte(&input) % 4}};
    struct collect_task task = {.all = fuzz_byte(&input) % 2 == 0,
                                .fan = fuzz_byte(&input) % 20,
                                .reduce = fuzz_byte(&input) % 9,
                                .value_room = (uint32_t)fuzz_number(&input),
                                .deadline_us = fuzz_number(&input),
                                .request = bytes,
                                .request_bytes = fuzz_byte(&input)};

    from.caller.cookie = (uint32_t)calls;
    take_ranks(&task.ranks);
    (void)collect_begin(collects, &from, &task, now_us);
}

/* A child's answer, or a service's: its counts are mostly such as may be believed. */
static uint32_t make_said(const struct collect_ask *ask)
{
    uint32_t size = ask->wire != NULL ? ranks_count(&ask->wire->ranks) : 0;
    struct collect_said said = {.answered = size};
    uint32_t count = (uint32_t)(fuzz_number(&input) % (LIMIT_CALL_BYTES + 1));

    fuzz_fill(&input, bytes + sizeof(said), 64);
    if (fuzz_byte(&input) % 2 == 0) {
        fuzz_fill(&input, &said, sizeof(said));
    } else if (count >= sizeof(said)) {
        said.value_bytes = count - (uint32_t)sizeof(said);
        if (fuzz_byte(&input) % 2 == 0 && size > 0) {
            said.answered--;
            said.failed = 1;
            said.errors = 1;
            said.first[0] = (struct collect_error){
                .rank = ask->rank, .status = -(int32_t)(fuzz_byte(&input) % 32), .count = 1};
        }
    }
    memcpy(bytes, &said, sizeof(said));
    return count;
}

static void end_some(void)
{
    uint32_t n = fuzz_byte(&input);
    struct calls_end end = {.taken = fuzz_byte(&input) % 2 == 0, .bytes = bytes};

    if (!asked[n]) {
        return;
    }
    end.status = fuzz_byte(&input) % 3 == 0 ? -(nigh_status)(fuzz_byte(&input) % 30) : NIGH_OK;
    end.count = end.status == NIGH_OK ? make_said(&asks[n]) : 0;
    end_ask(n, &end);
}

static void give_up(void)
{
    switch (fuzz_byte(&input) % 4) {
    case 0: collects_forget(collects, fuzz_byte(&input) % 4, now_us); break;
    case 1:
        (void)collect_cancel(collects, fuzz_byte(&input) % 4, (uint32_t)calls - 1, now_us);
        break;
    case 2: collect_withdrawn(collects, parent(fuzz_byte(&input)), calls, now_us); break;
    default: collects_channel_down(collects, parent(fuzz_byte(&input)), now_us); break;
    }
}

static void step(void)
{
    struct ranks all = ranks_all(NODES);

    switch (fuzz_byte(&input) % 12) {
    case 0:
    case 1:
    case 2: come(); break;
    case 3: begin(); break;
    case 4: give_up(); break;
    case 5: now_us += fuzz_byte(&input) * 1000u; break;
    case 6: collects_group(collects, VERSION + (fuzz_byte(&input) % 8 == 0), &all); break;
    default: end_some(); break;
    }
    (void)collects_turn(collects, now_us);
    NIGH_ASSERT(collects_is_valid(collects));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct collects_config config = {
        .rank = SELF,
        .nodes = NODES,
        .shell = {.ask = on_ask, .forget = on_forget, .answer = on_answer}};
    struct ranks all = ranks_all(NODES);

    input = (struct fuzz_input){.bytes = data, .left = size};
    memset(asked, 0, sizeof(asked));
    memset(answered, 0, sizeof(answered));
    calls = 0;
    now_us = 1000;
    if (collects_create(&config, &collects) != NIGH_OK) {
        return 0;
    }
    collects_group(collects, VERSION, &all);
    while (input.left > 0) {
        step();
    }
    for (uint8_t n = 0; n < PARENTS; n++) {
        collects_channel_down(collects, parent(n), now_us);
    }
    for (uint32_t owner = 0; owner < 4; owner++) {
        collects_forget(collects, owner, now_us);
    }
    NIGH_ASSERT(collects_under_way(collects) == 0);
    collects_destroy(collects);
    return 0;
}
