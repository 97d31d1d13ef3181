/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link's endpoint for spaces, whose peer has the key and says anything there: messages that are
 * nearly right, that have no receive, writes with and without immediates, credits that were not
 * given, connections that break and are dialled anew at any moment. Meanwhile the node sends as
 * much as it likes.
 *
 * What must hold after each step: the invariants of links; what is told has the size that was said,
 * and is no more than the peer sent; each message of the node ends once, and those that end well
 * before the others.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "cluster/link_internal.h"
#include "fabric/sim/sim.h"
#include "fuzz_input.h"

#define STEPS    400u
#define OPS      4096u
#define RECEIVES 256u
#define WORD     sizeof(struct link_space_word)
#define HEAD     sizeof(struct link_space_head)
#define MAGIC    0x53u
#define MEMORY   4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

struct op {
    uint32_t ends;
    nigh_status status;
};

static struct {
    struct fuzz_input input;
    struct sim *sim;
    struct fabric *fabric, *peer;
    struct links *links;
    struct link *link; /* NULL: not up */
    struct link_peer info;
    struct fabric_memory *memory, *open, *peer_memory, *receives_memory;
    struct fabric_endpoint *endpoints[LINK_ENDPOINTS]; /* of the peer */
    uint32_t serial;
    uint64_t sent, told;
    uint32_t owed; /* receives that the node's messages took */
    bool answers;  /* from inside its callbacks */
    struct op ops[OPS];
    uint32_t op_count;
    uint8_t bytes[MEMORY], frames[MEMORY], there[MEMORY];
    uint8_t receives[RECEIVES][WORD];
} fuzz;

static bool dice(uint32_t sides)
{
    return fuzz_byte(&fuzz.input) % sides == 0;
}

/* ---- the node ---------------------------------------------------------------- */

static void on_done(void *context, nigh_status status, uint64_t now_us)
{
    struct op *op = context;

    (void)now_us;
    op->ends++;
    op->status = status;
}

static void say(void)
{
    uint8_t how = fuzz_byte(&fuzz.input), text[LIMIT_SPACE_MESSAGE] = {0};
    struct fabric_slice slices[LINK_SPACE_SLICES] = {
        {fuzz.bytes + how, fuzz_byte(&fuzz.input), fuzz.memory}, {fuzz.bytes, 7, fuzz.memory}};
    struct link_message message = {
        .bytes = text,
        .count = 1 + how % LIMIT_SPACE_MESSAGE,
        .slices = slices,
        .slice_count = how / 64 % 3,
        .remote = fabric_memory_remote(fuzz.peer, fuzz.peer_memory, fuzz.there)};
    struct op *op = fuzz.op_count == OPS || how % 2 == 0 ? NULL : &fuzz.ops[fuzz.op_count];
    link_done *done = op == NULL ? NULL : on_done;
    nigh_status status;

    if (fuzz.link == NULL) {
        return;
    }
    if (dice(64)) {
        message.remote.key ^= how;
    }
    status = link_space_send(fuzz.link, &message, done, op);
    NIGH_ASSERT(status == NIGH_OK || status == NIGH_BUSY || status == NIGH_PEER_LOST);
    fuzz.op_count += status == NIGH_OK && op != NULL;
}

static void hear(void)
{
    NIGH_ASSERT(++fuzz.told <= fuzz.sent);
    if (fuzz.answers) {
        say();
    }
    if (fuzz.link != NULL && dice(128)) {
        link_break(fuzz.link, NIGH_PROTOCOL, 0);
    }
}

static void on_spaced(void *context, struct link *link, const uint8_t *bytes, uint32_t count,
                      uint64_t now_us)
{
    uint8_t copy[LIMIT_SPACE_MESSAGE];

    (void)context;
    (void)now_us;
    NIGH_ASSERT(link == fuzz.link && count > 0 && count <= sizeof(copy));
    memcpy(copy, bytes, count);
    hear();
}

static void on_up(void *context, struct link *link, uint64_t now_us)
{
    (void)context;
    (void)now_us;
    fuzz.link = link;
}

static void on_down(void *context, struct link *link, nigh_status reason, uint64_t now_us)
{
    (void)context;
    (void)now_us;
    NIGH_ASSERT(link == fuzz.link && reason != NIGH_OK);
    fuzz.link = NULL;
    for (uint32_t n = 0; n < fuzz.op_count; n++) {
        NIGH_ASSERT(fuzz.ops[n].ends == 1);
    }
}

static void on_request(void *context, struct link *link, const struct rpc_request *request,
                       uint64_t now_us)
{
    (void)context;
    (void)link;
    (void)request;
    (void)now_us;
}

static void on_bulk(void *context, struct link *link, const uint8_t *bytes, uint32_t count,
                    uint64_t now_us)
{
    (void)context;
    (void)link;
    (void)bytes;
    (void)count;
    (void)now_us;
}

/* ---- the peer ---------------------------------------------------------------- */

static void drop(uint32_t kind)
{
    fabric_endpoint_destroy(fuzz.peer, fuzz.endpoints[kind]);
    fuzz.endpoints[kind] = NULL;
}

static void post_receive(uint32_t number)
{
    struct fabric_receive receive = {
        .tag = number,
        .slice = {.address = fuzz.receives[number], .bytes = WORD, .memory = fuzz.receives_memory}};

    if (fuzz.endpoints[LINK_SPACES] != NULL) {
        (void)fabric_post_receive(fuzz.peer, fuzz.endpoints[LINK_SPACES], &receive, NULL);
    }
}

static void dial(uint32_t kind)
{
    struct fabric_endpoint_options options = {.sends = 300, .receives = RECEIVES};
    struct auth_token token = {.kind = (uint8_t)kind,
                               .rank = 1,
                               .incarnation = 1,
                               .target_incarnation = 1,
                               .serial = ++fuzz.serial};

    auth_token_sign(&token, fuzz.info.session);
    drop(kind);
    if (fabric_connect(fuzz.peer, "0:0", &options, &token, (uint32_t)sizeof(token),
                       &fuzz.endpoints[kind]) != NIGH_OK) {
        fuzz.endpoints[kind] = NULL;
        return;
    }
    if (kind == LINK_SPACES) {
        fuzz.owed = 0;
        for (uint32_t n = 0; n < (dice(16) ? 3u : LIMIT_SPACE_RECEIVES + 1); n++) {
            post_receive(n);
        }
    }
}

static void dial_all(void)
{
    dial(LINK_CONTROL);
    dial(LINK_BULK);
    dial(LINK_SPACES);
}

static void peer_turn(void)
{
    struct fabric_completion completions[64];
    struct fabric_event event;
    uint32_t count = fabric_poll(fuzz.peer, completions, 64, sim_now_us(fuzz.sim));

    for (uint32_t n = 0; n < count; n++) {
        if (completions[n].op == FABRIC_RECV && completions[n].status == NIGH_OK &&
            completions[n].endpoint == fuzz.endpoints[LINK_SPACES]) {
            fuzz.owed++;
            post_receive((uint32_t)completions[n].tag);
        }
    }
    while (fabric_next_event(fuzz.peer, &event)) {
        for (uint32_t kind = 0; event.kind == FABRIC_DISCONNECTED && kind < LINK_ENDPOINTS;
             kind++) {
            if (fuzz.endpoints[kind] == event.endpoint) {
                drop(kind);
            }
        }
        if (event.kind == FABRIC_REQUEST) {
            fabric_reject(fuzz.peer, event.endpoint);
        }
    }
}

static void pass(uint64_t us)
{
    uint64_t end_us = sim_now_us(fuzz.sim) + us;

    for (uint32_t n = 0; n < 64; n++) {
        bool worked = links_turn(fuzz.links, sim_now_us(fuzz.sim));
        uint64_t at_us;

        NIGH_ASSERT(links_is_valid(fuzz.links));
        peer_turn();
        at_us = sim_next_us(fuzz.sim);
        if (!worked && at_us >= end_us) {
            break;
        }
        sim_advance(fuzz.sim, at_us < end_us ? at_us : end_us);
    }
    sim_advance(fuzz.sim, end_us);
}

/* What the peer says is right, but for a patch. */
static void peer_sends(void)
{
    struct link_space_word word = {.head = {.magic = MAGIC, .kind = 1}};
    uint8_t how = fuzz_byte(&fuzz.input);
    uint32_t body = 1 + how % LIMIT_SPACE_MESSAGE;
    struct fabric_slice slice = {.address = &word};
    struct fabric_work work = {
        .op = FABRIC_SEND, .flags = FABRIC_INLINE, .slices = &slice, .slice_count = 1};

    if (fuzz.endpoints[LINK_SPACES] == NULL) {
        return;
    }
    if (how / 64 == 2 && fuzz.owed > LIMIT_SPACE_RECEIVES / 2) {
        word.head.kind = 2;
        body = 0;
    } else {
        word.head.bytes = body;
    }
    word.head.credits = (uint16_t)fuzz.owed;
    slice.bytes = HEAD + body;
    if (dice(8)) {
        fuzz_patch(&fuzz.input, &word.head, sizeof(word.head));
        slice.bytes = dice(2) ? fuzz_byte(&fuzz.input) % (sizeof(word) + 1) : slice.bytes;
    }
    if (fabric_post(fuzz.peer, fuzz.endpoints[LINK_SPACES], &work, NULL) == NIGH_OK) {
        fuzz.sent++;
        fuzz.owed = 0;
    }
}

/* With an immediate it is no message: it ends the link. */
static void peer_writes(void)
{
    uint8_t how = fuzz_byte(&fuzz.input);
    struct fabric_slice slice = {.address = fuzz.there, .bytes = fuzz_byte(&fuzz.input)};
    struct fabric_work work = {.op = how % 4 != 0 ? FABRIC_WRITE : FABRIC_WRITE_IMM,
                               .flags = FABRIC_INLINE,
                               .slices = &slice,
                               .slice_count = slice.bytes > 0,
                               .imm = how,
                               .remote = fabric_memory_remote(fuzz.fabric, fuzz.open, fuzz.frames)};
    uint32_t kind = how / 4 % 16 == 0 ? LINK_BULK : LINK_SPACES;

    if (dice(32)) {
        work.remote.address += fuzz_number(&fuzz.input);
    }
    if (fuzz.endpoints[kind] != NULL) {
        (void)fabric_post(fuzz.peer, fuzz.endpoints[kind], &work, NULL);
    }
}

/* ---- one life ---------------------------------------------------------------- */

static void register_all(void)
{
    NIGH_ASSERT(fabric_memory_register(fuzz.fabric, fuzz.bytes, MEMORY, FABRIC_HOST, 0,
                                       &fuzz.memory) == NIGH_OK);
    NIGH_ASSERT(fabric_memory_register(fuzz.fabric, fuzz.frames, MEMORY, FABRIC_HOST,
                                       FABRIC_LOCAL_WRITE | FABRIC_REMOTE_WRITE,
                                       &fuzz.open) == NIGH_OK);
    NIGH_ASSERT(fabric_memory_register(fuzz.peer, fuzz.there, MEMORY, FABRIC_HOST,
                                       FABRIC_LOCAL_WRITE | FABRIC_REMOTE_WRITE,
                                       &fuzz.peer_memory) == NIGH_OK);
    NIGH_ASSERT(fabric_memory_register(fuzz.peer, fuzz.receives, sizeof(fuzz.receives), FABRIC_HOST,
                                       FABRIC_LOCAL_WRITE, &fuzz.receives_memory) == NIGH_OK);
}

static void begin(void)
{
    uint8_t how = fuzz_byte(&fuzz.input);
    struct sim_options options = {.seed = 1 + how / 2};
    struct links_config config = {
        .rank = 0,
        .incarnation = 1,
        .lanes = 1,
        .nodes = 2,
        .rpc = {.requests = 1, .calls = 1, .queue = 1, .payload_bytes = 8},
        .bulk_receives = 1,
        .bulk_bytes = 64,
        .reads = 1,
        .serves_spaces = true,
        .shell = {.up = on_up,
                  .down = on_down,
                  .request = on_request,
                  .bulk = on_bulk,
                  .spaced = on_spaced},
    };

    log_set_level(LOG_LEVEL_ERROR);
    fuzz.answers = how % 2 == 1;
    fuzz.info = (struct link_peer){
        .rank = 1, .incarnation = 1, .lanes = 1, .bulk_endpoints = 1, .space_endpoints = 1};
    NIGH_ASSERT(sim_create(&options, &fuzz.sim) == NIGH_OK);
    NIGH_ASSERT(sim_fabric(fuzz.sim, 0, 0, &fuzz.fabric) == NIGH_OK);
    NIGH_ASSERT(sim_fabric(fuzz.sim, 1, 0, &fuzz.peer) == NIGH_OK);
    NIGH_ASSERT(fabric_listen(fuzz.fabric, "0:0") == NIGH_OK);
    register_all();
    config.fabric = fuzz.fabric;
    NIGH_ASSERT(links_create(&config, &fuzz.links) == NIGH_OK);
    NIGH_ASSERT(links_peer_up(fuzz.links, &fuzz.info, 0) == NIGH_OK);
    dial_all();
    pass(1000);
}

static void step(void)
{
    uint8_t command = fuzz_byte(&fuzz.input);

    switch (command % 16) {
    case 0:
    case 1:
    case 2:
    case 3: peer_sends(); break;
    case 4:
    case 5: peer_writes(); break;
    case 6:
    case 7:
    case 8:
        for (uint32_t n = 0; n <= command / 16; n++) {
            say();
        }
        break;
    case 9:
        for (uint32_t n = 0; n < 40; n++) {
            peer_sends();
        }
        break;
    case 10: dial_all(); break;
    case 11: dial(command / 16 % 2 == 0 ? LINK_SPACES : LINK_CONTROL); break;
    case 12: drop(command / 16 % 2 == 0 ? LINK_SPACES : LINK_BULK); break;
    case 13:
        if (fuzz.link != NULL && command / 16 == 0) {
            link_break(fuzz.link, NIGH_TIMEOUT, 0);
        }
        break;
    default: pass(command); break;
    }
    NIGH_ASSERT(links_is_valid(fuzz.links));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    memset(&fuzz, 0, sizeof(fuzz));
    fuzz.input = (struct fuzz_input){.bytes = data, .left = size_bytes};
    begin();
    for (uint32_t n = 0; n < STEPS && fuzz.input.left > 0; n++) {
        step();
    }
    links_destroy(fuzz.links);
    for (uint32_t n = 0; n < fuzz.op_count; n++) {
        NIGH_ASSERT(fuzz.ops[n].ends == 1);
    }
    fabric_destroy(fuzz.peer);
    fabric_destroy(fuzz.fabric);
    sim_destroy(fuzz.sim);
    return 0;
}
