/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of a lane, with memory, whose peer may say anything on a channel that is right: its
 * bytes say what comes, and what the caller and the service do. No memory is touched that was
 * released, and no byte beyond it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fuzz_input.h"
#include "rpc/calls.h"

#define SERVICE  UINT64_C(77)
#define BYTES    UINT64_C(5000)
#define MEMORIES 256u
#define READS    16u

static struct fuzz_input input;
static bool released[MEMORIES];
static uint32_t memories;
static struct bulks_read *reads[READS];
static uint32_t read_count;
static uint64_t requests[8];
static uint32_t request_count;
static uint64_t serial; /* of requests that came */
static struct rpc *channel;
static uint64_t sent[8];          /* calls, as the channel names them */
static uint32_t sent_count, used; /* credits that the peer has not given back */
static bool is_over;
static uint8_t bytes[CALLS_PAYLOAD];

static uint8_t *on_address(void *context, const struct bulks_memory *memory)
{
    static uint8_t all[BYTES];

    (void)context;
    NIGH_ASSERT(!*(bool *)memory->tag && memory->offset <= BYTES &&
                memory->bytes <= BYTES - memory->offset);
    return all + memory->offset;
}

static struct fabric_remote on_remote(void *context, const struct bulks_memory *memory)
{
    (void)context;
    NIGH_ASSERT(!*(bool *)memory->tag);
    return (struct fabric_remote){.address = memory->offset};
}

static nigh_status on_read(void *context, struct rpc *over, const struct bulks_memory *to,
                           struct fabric_remote from, struct bulks_read *read)
{
    (void)from;
    (void)over;
    (void)on_address(context, to);
    if (read_count == READS) {
        return NIGH_BUSY;
    }
    reads[read_count++] = read;
    return NIGH_OK;
}

static void on_release(void *context, const struct bulks_memory *memory)
{
    (void)context;
    NIGH_ASSERT(!*(bool *)memory->tag);
    *(bool *)memory->tag = true;
}

static void on_moved(void *context, const struct bulks_mover *mover, nigh_status status)
{
    (void)context;
    (void)mover;
    (void)status;
}

static void on_breaks(void *context, struct rpc *over)
{
    (void)context;
    (void)over;
    is_over = true;
}

static void on_send(void *context, const struct rpc_header *header, const struct rpc_piece *pieces,
                    uint32_t count)
{
    (void)context;
    (void)pieces;
    (void)count;
    if (header->kind == RPC_REQUEST) {
        sent[sent_count++ % 8] = header->call;
    }
    used += header->kind != RPC_REPLY && header->kind != RPC_CREDIT;
}

static void on_rpc_request(void *context, const struct rpc_request *request, uint64_t now_us)
{
    calls_take(*(struct calls **)context, channel, 1, request, now_us);
}

static void on_rpc_canceled(void *context, uint64_t call)
{
    calls_withdrawn(*(struct calls **)context, channel, call, 2000);
}

static struct rpc *on_channel(void *context, uint32_t rank, uint64_t hash)
{
    (void)context;
    (void)rank;
    (void)hash;
    return channel;
}

static const uint8_t *on_bytes(void *context, const struct calls_caller *caller)
{
    (void)context;
    (void)caller;
    return bytes;
}

static void on_ended(void *context, const struct calls_caller *caller, const struct calls_end *end)
{
    (void)context;
    (void)caller;
    (void)end;
}

static void on_request(void *context, void *tag, const struct calls_request *request)
{
    (void)context;
    (void)tag;
    NIGH_ASSERT(request->count >= request->bulks * sizeof(struct bulks_info) &&
                request->count <= LIMIT_CALL_BYTES);
    requests[request_count++ % 8] = request->id;
}

static struct bulks_memory take_memory(uint64_t count)
{
    released[memories] = false;
    return (struct bulks_memory){.tag = &released[memories++], .bytes = count};
}

static void call(struct calls *calls, uint64_t now_us)
{
    struct bulks_part part = {.access = 1 + fuzz_byte(&input) % 3};
    struct calls_call wanted = {.service = SERVICE,
                                .rank = fuzz_byte(&input) % 2,
                                .deadline_us = now_us + fuzz_byte(&input) * 1000,
                                .caller = {.cookie = memories, .bytes = 8}};

    part.memory = take_memory(BYTES);
    if (bulks_open(calls_bulks(calls), &part, 1, &wanted.loan) == NIGH_OK) {
        calls_begin(calls, &wanted, now_us);
    }
}

static void move(struct calls *calls, uint64_t now_us)
{
    struct bulks_serve *serve = calls_request_bulks(calls, requests[fuzz_byte(&input) % 8]);
    struct bulks_move wanted = {.push = fuzz_byte(&input) % 2 == 0,
                                .part = fuzz_byte(&input) % 4,
                                .offset = fuzz_number(&input),
                                .mover = {.cookie = memories}};

    if (serve == NULL) {
        return;
    }
    wanted.memory = take_memory(fuzz_number(&input) % (BYTES + 1));
    if (bulks_begin(serve, &wanted, now_us) != NIGH_OK) {
        memories--;
    }
}

/* A frame of the peer, right as far as the channel looks. */
static void receive(struct rpc_header header, uint64_t now_us)
{
    static uint8_t frame[sizeof(header) + CALLS_PAYLOAD];

    header.magic = RPC_MAGIC;
    header.credits = (uint16_t)used;
    header.left_ms = header.kind == RPC_REQUEST ? UINT32_MAX : 0;
    used = 0;
    memcpy(frame, &header, sizeof header);
    memcpy(frame + sizeof header, bytes, header.bytes);
    is_over =
        rpc_receive(channel, frame, (uint32_t)sizeof header + header.bytes, now_us) != NIGH_OK ||
        is_over;
}

/* A message: mostly of the right length, with the numbers that there are. */
static void hear(uint64_t now_us)
{
    static const uint32_t lengths[] = {8, 16, 48, 16 + 8 + 32 + 8, 16 + 8 + 64};
    struct rpc_header header = {.method = fuzz_byte(&input) % 7, .kind = RPC_ONE_WAY};
    uint64_t loan = (uint64_t)(fuzz_byte(&input) % 8) << 16 | (fuzz_byte(&input) % 4);

    memset(bytes, 0, sizeof bytes);
    if (fuzz_byte(&input) % 4 == 0) {
        header.kind = RPC_REQUEST;
        header.method = CALLS_METHOD;
        header.call = ++serial << 4 | (fuzz_byte(&input) & 15);
    }
    header.bytes = lengths[fuzz_byte(&input) % 5] + (fuzz_byte(&input) % 16 == 0 ? 3 : 0);
    for (uint32_t at = 0; at < header.bytes && at < 64; at += 8) {
        uint64_t number = fuzz_number(&input);

        memcpy(bytes + at, &number, sizeof number);
    }
    if (header.method == CALLS_METHOD) {
        struct calls_wire wire = {.service = SERVICE, .bulks = fuzz_byte(&input) % 10};

        memcpy(bytes, &wire, sizeof wire);
    } else if (fuzz_byte(&input) % 4 != 0) {
        memcpy(bytes, &loan, sizeof loan);
    }
    receive(header, now_us);
}

/* What it says to a call, or that it gives one up. */
static void answer(uint64_t now_us)
{
    struct calls_refusal said = {.status = -(int32_t)(fuzz_byte(&input) % 20),
                                 .taken = fuzz_byte(&input) % 2};
    struct rpc_header header = {.kind = RPC_REPLY,
                                .call = sent[fuzz_byte(&input) % 8],
                                .status = fuzz_byte(&input) % 2 == 0 ? NIGH_OK : NIGH_PENDING,
                                .bytes = sizeof said};

    memcpy(bytes, &said, sizeof said);
    if (fuzz_byte(&input) % 4 == 0) {
        header =
            (struct rpc_header){.kind = RPC_CANCEL, .call = serial << 4 | (fuzz_byte(&input) & 15)};
    }
    receive(header, now_us);
}

static void end_read(uint64_t now_us)
{
    uint32_t at = read_count > 0 ? fuzz_byte(&input) % read_count : 0;
    struct bulks_read *read = reads[at];

    if (read_count > 0) {
        reads[at] = reads[--read_count];
        bulks_read_done(read, NIGH_OK, now_us);
    }
}

static void step(struct calls *calls, uint64_t now_us)
{
    switch (fuzz_byte(&input) % 8) {
    case 0: call(calls, now_us); break;
    case 1: move(calls, now_us); break;
    case 2:
        (void)calls_reply(calls, requests[fuzz_byte(&input) % 8], NIGH_OK, bytes, 8, now_us);
        break;
    case 3: answer(now_us); break;
    case 4: end_read(now_us); break;
    default: hear(now_us); break;
    }
    (void)rpc_tick(channel, now_us);
    (void)calls_tick(calls, now_us);
    NIGH_ASSERT(calls_is_valid(calls));
}

static void finish(struct calls *calls, uint64_t now_us)
{
    uint32_t count = read_count;

    rpc_end(channel, NIGH_PEER_LOST, now_us);
    read_count = READS; /* no more of them */
    for (uint32_t n = 0; n < count; n++) {
        bulks_read_done(reads[n], NIGH_PEER_LOST, now_us);
    }
    calls_channel_down(calls, channel, 1, now_us);
    rpc_destroy(channel);
    channel = NULL;
    calls_destroy(calls);
    for (uint32_t n = 0; n < memories; n++) {
        NIGH_ASSERT(released[n]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct calls_config config = {.rank = 0,
                                  .nodes = 2,
                                  .owners = 1,
                                  .calls = 16,
                                  .requests = 16,
                                  .shell = {.channel = on_channel,
                                            .bytes = on_bytes,
                                            .ended = on_ended,
                                            .request = on_request,
                                            .bulks = {.address = on_address,
                                                      .remote = on_remote,
                                                      .read = on_read,
                                                      .release = on_release,
                                                      .moved = on_moved,
                                                      .breaks = on_breaks}}};
    struct calls_service service = {.hash = SERVICE, .tag = &service};
    struct calls *calls;
    struct rpc_config rpc = {.requests = 64,
                             .calls = 16,
                             .payload_bytes = CALLS_PAYLOAD,
                             .shell = {.context = &calls,
                                       .send = on_send,
                                       .request = on_rpc_request,
                                       .canceled = on_rpc_canceled}};
    uint64_t now_us = 1000;

    input = (struct fuzz_input){.bytes = data, .left = size};
    memories = read_count = request_count = 0;
    serial = 0;
    used = sent_count = 0;
    is_over = false;
    memset(sent, 0, sizeof sent);
    memset(requests, 0, sizeof requests);
    if (calls_create(&config, &calls) != NIGH_OK || rpc_create(&rpc, &channel) != NIGH_OK) {
        abort();
    }
    calls_set_services(calls, &service, 1, now_us);
    while (input.left > 0 && memories < MEMORIES && !is_over) {
        now_us += fuzz_byte(&input) * 100;
        step(calls, now_us);
    }
    finish(calls, now_us);
    return 0;
}
