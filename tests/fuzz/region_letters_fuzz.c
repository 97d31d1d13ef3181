/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node whose peers have the key and say anything of a region: a home, a holder and a mapping of
 * one name, that are sent letters, asked for changes, and told of leases, deaths and links. What
 * must hold: no assertion; each machine is valid after each step; what a machine sends can be read;
 * memory is touched within what was made of it, by one act at a time; each operation ends once.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "region/holder.h"
#include "region/home.h"
#include "region/mapping.h"
#include "region_say.h"

#define ROOM LIMIT_REGION_CHUNKS
#define SELF 1u
#define ASKS 4u
#define OPS  4u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

struct memory {
    uint64_t bytes; /* 0: none */
    bool is_busy;   /* an act is under way: */
    enum region_holder_action action;
};

struct operation {
    struct region_op op;
    bool runs;
    struct region_window handles[ROOM]; /* of what is posted */
};

static struct {
    struct region_say say;
    struct region_holder holder;
    struct region_home home;
    struct region_mapping mapping;
    struct region_slot slots[ROOM];
    struct memory memory[ROOM];
    struct region_say_room kept, now, next, mapped;
    struct region_ask asks[ASKS];
    bool asked[ASKS];
    uint32_t nodes[ROOM];
    struct operation operations[OPS];
    uint64_t last_handle;
} fuzz;

static uint32_t below(uint32_t bound)
{
    return fuzz_byte(&fuzz.say.input) % bound;
}

/* ---- what the machines do ------------------------------------------------- */

static void send_it(void *context, const struct region_message *message)
{
    static struct region_letter letter;
    static uint8_t bytes[REGION_LETTER_BYTES];
    size_t size_bytes = region_letter_encode(message, "n", 1, bytes);

    (void)context;
    NIGH_ASSERT(size_bytes <= sizeof(bytes));
    NIGH_ASSERT(region_letter_decode(bytes, size_bytes, &letter) == NIGH_OK);
    NIGH_ASSERT(region_letter_room(&letter) <= ROOM);
}

static void act(void *context, const struct region_holder_act *todo)
{
    struct memory *memory = &fuzz.memory[todo->chunk];

    (void)context;
    NIGH_ASSERT(!memory->is_busy ||
                (memory->action == REGION_ACT_OPEN && todo->action == REGION_ACT_CLOSE));
    NIGH_ASSERT((todo->action == REGION_ACT_MAKE) == (memory->bytes == 0));
    memory->is_busy = true;
    memory->action = todo->action;
    switch (todo->action) {
    case REGION_ACT_MAKE:
        NIGH_ASSERT(todo->bytes > 0);
        memory->bytes = todo->bytes;
        break;
    case REGION_ACT_COPY: NIGH_ASSERT(todo->bytes <= memory->bytes); break;
    case REGION_ACT_OPEN:
        NIGH_ASSERT(todo->wipe_from <= todo->wipe_to && todo->wipe_to <= memory->bytes);
        break;
    case REGION_ACT_LEND:
    case REGION_ACT_CLOSE:
    case REGION_ACT_CUT: break;
    }
}

static void end_act(uint32_t chunk, bool fails)
{
    struct memory *memory = &fuzz.memory[chunk];
    bool has_handle = memory->action == REGION_ACT_LEND || memory->action == REGION_ACT_OPEN;
    bool may_fail = memory->action == REGION_ACT_MAKE || memory->action == REGION_ACT_COPY ||
                    memory->action == REGION_ACT_LEND;
    nigh_status status = fails && may_fail ? NIGH_OUT_OF_MEMORY : NIGH_OK;

    if (!memory->is_busy) {
        return;
    }
    memory->is_busy = false;
    if (memory->action == REGION_ACT_CUT ||
        (memory->action == REGION_ACT_MAKE && status != NIGH_OK)) {
        memory->bytes = 0;
    }
    region_holder_did(&fuzz.holder, chunk, status,
                      (struct region_window){.address = has_handle ? ++fuzz.last_handle : 0});
}

static void answered(void *context, struct region_ask *ask, nigh_status status)
{
    bool *asked = &fuzz.asked[ask - fuzz.asks];

    (void)context;
    (void)status;
    NIGH_ASSERT(*asked);
    *asked = false;
}

static uint32_t incarnation(void *context, uint32_t rank)
{
    (void)context;
    return 6 + rank % 3;
}

static bool has_ended(void *context, uint32_t node, uint32_t life)
{
    (void)context;
    NIGH_ASSERT(node < LIMIT_NODES && life != 0);
    return life < 7;
}

static void post(void *context, struct region_op *op, const struct region_post *todo)
{
    struct operation *operation = container_of(op, struct operation, op);

    (void)context;
    NIGH_ASSERT(operation->runs && !region_window_is_none(todo->place.handle));
    NIGH_ASSERT(todo->piece.chunk < ROOM && todo->piece.length_bytes > 0);
    NIGH_ASSERT(todo->piece.length_bytes <= op->length_bytes);
    operation->handles[todo->piece.chunk] = todo->place.handle;
}

static nigh_status judge(void *context, struct region_op *op,
                         const struct region_descriptor *descriptor)
{
    (void)context;
    (void)op;
    return region_descriptor_rights(descriptor, 1, 1) != 0 ? NIGH_OK : NIGH_DENIED;
}

static void ended(void *context, struct region_op *op, nigh_status status)
{
    struct operation *operation = container_of(op, struct operation, op);

    (void)context;
    (void)status;
    NIGH_ASSERT(operation->runs);
    operation->runs = false;
}

/* ---- letters -------------------------------------------------------------- */

static void take_letter(const struct region_letter *letter, uint32_t peer)
{
    struct region_message message = letter->message;

    message.peer = peer;
    if (message.kind <= REGION_SETTLE) {
        region_holder_take(&fuzz.holder, &message);
    } else if (message.kind == REGION_MAPPED || message.kind >= REGION_CHANGED) {
        region_mapping_take(&fuzz.mapping, &message);
    } else {
        region_home_take(&fuzz.home, &message);
    }
}

/* What the home waits for. */
static enum region_message_kind awaited(void)
{
    switch (fuzz.home.change.round) {
    case REGION_ROUND_PREPARE: return REGION_PREPARE;
    case REGION_ROUND_HOLD: return REGION_HOLD;
    case REGION_ROUND_FREEZE: return REGION_FREEZE;
    case REGION_ROUND_COPY: return REGION_COPY;
    case REGION_ROUND_COMMIT: return REGION_COMMIT;
    case REGION_ROUND_THAW: return REGION_THAW;
    default: return REGION_SETTLE;
    }
}

static void say_something(void)
{
    static struct region_letter letter;
    static uint8_t bytes[REGION_LETTER_BYTES];
    bool is_awaited = below(2) == 0;
    uint32_t peer = below(4);
    size_t size_bytes =
        region_say(&fuzz.say, "n", is_awaited ? &fuzz.home.change.version : NULL, awaited(), bytes);

    if (region_letter_decode(bytes, size_bytes, &letter) == NIGH_OK) {
        take_letter(&letter, peer);
    }
}

/* ---- what else happens ---------------------------------------------------- */

static void ask(void)
{
    uint32_t n = below(ASKS);
    struct region_ask *one = &fuzz.asks[n];

    if (fuzz.asked[n]) {
        if (below(4) == 0) {
            region_home_cancel(&fuzz.home, one, NIGH_TIMEOUT);
        }
        return;
    }
    *one = (struct region_ask){.kind = below(REGION_ASKS),
                               .uid = below(3),
                               .gid = 1,
                               .birth = fuzz.home.config.now->birth,
                               .geometry = region_say_geometry(&fuzz.say),
                               .name = "n",
                               .name_bytes = 1,
                               .other_rights = REGION_ALL,
                               .nodes = fuzz.nodes,
                               .node_count = below(8),
                               .whose = below(3),
                               .user = below(3),
                               .give = below(8),
                               .take = below(8),
                               .chunk = below(8),
                               .node = below(4)};
    for (uint32_t chunk = 0; chunk < 8; chunk++) {
        fuzz.nodes[chunk] = below(4);
    }
    fuzz.asked[n] = true;
    region_home_ask(&fuzz.home, one);
}

static void operate(void)
{
    struct operation *operation = &fuzz.operations[below(OPS)];
    uint32_t chunk = below(8);
    static const nigh_status ends[] = {NIGH_OK, NIGH_STALE, NIGH_PEER_LOST, NIGH_STALE};

    if (!operation->runs) {
        operation->runs = true;
        operation->op = (struct region_op){.offset_bytes = below(200) * UINT64_C(100),
                                           .length_bytes = 1 + below(200) * UINT64_C(100)};
        region_mapping_begin(&fuzz.mapping, &operation->op);
    } else if (region_chunks_has(&operation->op.posted, chunk)) {
        region_mapping_posted(&fuzz.mapping, &operation->op, chunk, operation->handles[chunk],
                              ends[below(4)]);
    } else if (below(8) == 0) {
        region_mapping_cancel(&fuzz.mapping, &operation->op, NIGH_TIMEOUT);
    }
}

static void tell(void)
{
    struct region_version home = {.epoch = 3, .incarnation = 7 + below(2), .counter = 1};
    uint32_t rank = below(4);

    switch (below(9)) {
    case 0: region_holder_lease(&fuzz.holder, below(2) == 0, rank); break;
    case 1: region_home_lease(&fuzz.home, below(2) == 0); break;
    case 2: region_mapping_lease(&fuzz.mapping, below(2) == 0); break;
    case 3: region_home_dead(&fuzz.home, rank); break;
    case 4: region_home_alive(&fuzz.home, rank); break;
    case 5: region_home_told(&fuzz.home, rank); break;
    case 6: region_home_link(&fuzz.home, rank); break;
    case 7: region_home_held(&fuzz.home); break;
    default:
        region_holder_home(&fuzz.holder, rank, &home);
        region_mapping_home(&fuzz.mapping, rank);
        break;
    }
}

/* ---- a run ---------------------------------------------------------------- */

static void begin(void)
{
    struct region_holder_config holder = {.self = SELF,
                                          .room = ROOM,
                                          .slots = fuzz.slots,
                                          .kept = region_say_at(&fuzz.kept),
                                          .home = {.epoch = 3, .incarnation = 7},
                                          .has_lease = true,
                                          .shell = {.act = act, .send = send_it}};
    struct region_home_config home = {
        .self = SELF,
        .version = {.epoch = 3, .incarnation = 7},
        .room = ROOM,
        .has_lease = true,
        .now = region_say_at(&fuzz.now),
        .next = region_say_at(&fuzz.next),
        .shell = {.send = send_it, .answered = answered, .incarnation = incarnation}};
    struct region_mapping_config mapping = {
        .room = ROOM,
        .now = region_say_at(&fuzz.mapped),
        .has_lease = true,
        .shell = {
            .send = send_it, .post = post, .judge = judge, .ended = ended, .has_ended = has_ended}};

    home.alive.words[0] = 0xf;
    home.untold.words[0] = below(4) == 0 ? 6 : 0;
    region_holder_init(&fuzz.holder, &holder);
    region_home_init(&fuzz.home, &home);
    region_mapping_init(&fuzz.mapping, &mapping);
    region_mapping_home(&fuzz.mapping, 2);
}

/* Nothing more is asked for, and what is posted comes back: then all has ended. */
static void end(void)
{
    region_home_end(&fuzz.home, NIGH_CLOSED);
    for (uint32_t n = 0; n < ASKS; n++) {
        NIGH_ASSERT(!fuzz.asked[n]);
    }
    for (uint32_t n = 0; n < OPS; n++) {
        struct operation *operation = &fuzz.operations[n];

        if (operation->runs) {
            region_mapping_cancel(&fuzz.mapping, &operation->op, NIGH_TIMEOUT);
        }
        for (uint32_t chunk = 0; chunk < ROOM && operation->runs; chunk++) {
            if (region_chunks_has(&operation->op.posted, chunk)) {
                region_mapping_posted(&fuzz.mapping, &operation->op, chunk,
                                      operation->handles[chunk], NIGH_OK);
            }
        }
        NIGH_ASSERT(!operation->runs);
    }
    region_mapping_end(&fuzz.mapping);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    memset(&fuzz, 0, sizeof(fuzz));
    fuzz.say.input = (struct fuzz_input){.bytes = data, .left = size_bytes};
    begin();
    while (fuzz.say.input.left > 0) {
        switch (below(8)) {
        case 0: ask(); break;
        case 1: operate(); break;
        case 2: tell(); break;
        case 3:
        case 4: end_act(below(8), below(8) == 0); break;
        default: say_something(); break;
        }
        NIGH_ASSERT(region_holder_is_valid(&fuzz.holder) && region_home_is_valid(&fuzz.home) &&
                    region_mapping_is_valid(&fuzz.mapping));
    }
    end();
    return 0;
}
