/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any frames in any order to a channel with calls under way, while its user calls, cancels, answers
 * and lets time pass; and any immediates, of frames in a ring and without, while frames are written
 * to the other one. Most frames are nearly right, so that they come far. What must hold: no
 * assertion of the channel, every call ends once, what is refused does nothing, and what the
 * channel itself sends follows the rules.
 */
#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fuzz_input.h"
#include "rpc/rpc_internal.h"
#include "rpc/rpc_ring.h"

#define CALLS   5
#define PAYLOAD 40
#define EPOCH   3
#define STEPS   4096
#define FRAME   (uint32_t)(sizeof(struct rpc_header) + PAYLOAD)
#define UNITS   24u /* of each ring */

static struct {
    struct rpc *rpc;
    struct rpc_config config;
    struct fuzz_input input;
    uint64_t now_us;
    uint64_t numbers[CALLS]; /* by place: what rpc_call said */
    bool open[CALLS];
    uint64_t owes[CALLS]; /* by slot: requests that the handler has not answered */
    uint64_t used;        /* frames sent that need a credit */
    uint64_t granted;     /* credits that came in frames that were taken */
    struct rpc_ring_writer writer;
    struct rpc_ring_reader reader;
    bool ended;
} fuzz;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

static void fuzz_send(void *context, const struct rpc_header *header,
                      const struct rpc_piece *pieces, uint32_t count)
{
    uint8_t kind = header->kind;

    (void)context;
    NIGH_ASSERT(!fuzz.ended);
    NIGH_ASSERT(header->magic == RPC_MAGIC && header->reserved == 0);
    NIGH_ASSERT(kind >= RPC_REQUEST && kind <= RPC_CREDIT);
    NIGH_ASSERT(rpc_pieces_bytes(pieces, count) == le32toh(header->bytes));
    NIGH_ASSERT(le16toh(header->credits) <= fuzz.config.requests);
    if (kind == RPC_REQUEST || kind == RPC_ONE_WAY || kind == RPC_CANCEL) {
        fuzz.used++;
        NIGH_ASSERT(fuzz.used <= fuzz.config.requests + fuzz.granted);
    }
}

static void fuzz_call(void);

static void fuzz_done(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                      uint64_t now_us)
{
    uint32_t place = (uint32_t)(uintptr_t)context;
    uint32_t sum = 0;

    (void)now_us;
    (void)status;
    NIGH_ASSERT(fuzz.open[place]);
    NIGH_ASSERT(bytes <= PAYLOAD);
    fuzz.open[place] = false;
    for (uint32_t i = 0; i < bytes; i++) {
        sum += payload[i];
    }
    if (sum % 3 == 1 && !fuzz.ended) {
        fuzz_call();
    }
}

static void fuzz_answer(uint32_t place, nigh_status status)
{
    static const uint8_t payload[PAYLOAD];
    struct rpc_piece piece = {payload, (uint32_t)fuzz.now_us % (PAYLOAD + 1)};
    uint64_t call = fuzz.owes[place];

    fuzz.owes[place] = 0;
    if (call != 0) {
        rpc_reply(fuzz.rpc, call, status, &piece, 1);
    }
}

static void fuzz_request(void *context, const struct rpc_request *request, uint64_t now_us)
{
    uint32_t place = request->call & ((UINT64_C(1) << fuzz.rpc->slot_bits) - 1);

    (void)context;
    (void)now_us;
    NIGH_ASSERT(request->bytes <= PAYLOAD);
    if (request->call == 0) {
        return;
    }
    NIGH_ASSERT(place < CALLS);
    fuzz.owes[place] = request->call;
    if (request->method % 2 == 0) {
        fuzz_answer(place, NIGH_OK);
    }
}

static void fuzz_call(void)
{
    static const uint8_t payload[PAYLOAD] = {1};
    uint8_t how = fuzz_byte(&fuzz.input);
    struct rpc_piece piece = {payload, how % (PAYLOAD + 2)};
    struct rpc_piece pieces[] = {piece, {payload, PAYLOAD}};
    uint64_t deadline_us = how % 2 == 0 ? UINT64_MAX : fuzz.now_us + how;
    uint32_t place = 0;

    while (place < CALLS && fuzz.open[place]) {
        place++;
    }
    if (place == CALLS) {
        return;
    }
    fuzz.open[place] = true;
    if (rpc_call(fuzz.rpc, how, pieces, how % 16 == 0 ? 2 : 1, deadline_us, fuzz.now_us, fuzz_done,
                 (void *)(uintptr_t)place, &fuzz.numbers[place]) != NIGH_OK) {
        fuzz.open[place] = false;
    }
}

static void fuzz_end(void)
{
    fuzz.ended = true;
    rpc_end(fuzz.rpc, NIGH_PROTOCOL, fuzz.now_us);
}

/* A number that is likely to name something. */
static uint64_t fuzz_number_of(uint8_t kind, uint8_t choice)
{
    uint32_t place = choice % CALLS;
    uint64_t generation = choice / CALLS % 4;

    if (kind == RPC_REPLY) {
        return rpc_slot_call(fuzz.rpc, &fuzz.rpc->slots[place]) +
               (choice > 200 ? UINT64_C(1) << fuzz.rpc->slot_bits : 0);
    }
    if (kind == RPC_REQUEST) {
        generation += fuzz.rpc->answers[place].call >> fuzz.rpc->slot_bits;
        return generation << fuzz.rpc->slot_bits | place;
    }
    return kind == RPC_CANCEL ? fuzz.rpc->answers[place].call : 0;
}

static void feed(const uint8_t *frame, uint32_t size_bytes, uint16_t credits)
{
    /* Its own memory, so that reading past its end is seen. */
    uint8_t *copy = malloc(size_bytes + 1);
    size_t block_bytes = fuzz.rpc->block_bytes;
    uint8_t *before = malloc(block_bytes);
    uint8_t *end;
    nigh_status status;

    NIGH_ASSERT(copy != NULL && before != NULL);
    end = copy + 1; /* at no alignment */
    memcpy(end, frame, size_bytes);
    memcpy(before, fuzz.rpc, block_bytes);
    fuzz.granted += credits; /* what is taken is used at once */
    status = rpc_receive(fuzz.rpc, end, size_bytes, fuzz.now_us);
    if (status != NIGH_OK) {
        NIGH_ASSERT(status == NIGH_PROTOCOL || status == NIGH_VERSION);
        NIGH_ASSERT(memcmp(before, fuzz.rpc, block_bytes) == 0);
        fuzz.granted -= credits;
    }
    free(copy);
    free(before);
    /* Some go on after a frame was refused: that must do no harm either. */
    if (status != NIGH_OK && size_bytes % 2 == 0) {
        fuzz_end();
    }
}

static void fuzz_frame(void)
{
    uint8_t frame[sizeof(struct rpc_header) + PAYLOAD + 8] = {0};
    uint8_t kind = fuzz_byte(&fuzz.input) % 6;
    uint8_t choice = fuzz_byte(&fuzz.input);
    uint8_t more = fuzz_byte(&fuzz.input);
    uint32_t payload_bytes = kind == RPC_CANCEL || kind == RPC_CREDIT ? 0 : more % PAYLOAD;
    uint32_t size_bytes = (uint32_t)sizeof(struct rpc_header) + payload_bytes;
    struct rpc_header header = {
        .magic = RPC_MAGIC,
        .kind = kind,
        .method = kind == RPC_REQUEST || kind == RPC_ONE_WAY ? htole16(choice) : 0,
        .call = htole64(fuzz_number_of(kind, choice)),
        .status = kind == RPC_REPLY ? (int32_t)htole32((uint32_t) - (int32_t)(more % 27)) : 0,
        .bytes = htole32(payload_bytes),
        .credits = htole16(fuzz_byte(&fuzz.input) % 4),
        .left_ms = kind == RPC_REQUEST ? htole32(more == 0 ? UINT32_MAX : more) : 0,
        .epoch = htole32(EPOCH),
    };

    fuzz_fill(&fuzz.input, frame + sizeof(header), payload_bytes % 4);
    if (more >= 250) {
        fuzz_patch(&fuzz.input, &header, sizeof(header));
    }
    if (more >= 254) {
        size_bytes = fuzz_byte(&fuzz.input) % sizeof(frame);
    }
    memcpy(frame, &header, sizeof(header));
    feed(frame, size_bytes, le16toh(header.credits));
}

/* An immediate that is nearly right, or any. */
static void fuzz_immediate(void)
{
    struct rpc_ring_writer writer = fuzz.writer;
    struct rpc_ring_reader reader = fuzz.reader;
    uint64_t bytes = fuzz_byte(&fuzz.input) % (FRAME + 2);
    uint32_t place = bytes == 0 ? RPC_RING_NONE : fuzz.reader.at;
    uint32_t freed = fuzz_byte(&fuzz.input) % (UNITS + 1);
    uint32_t lies = UINT32_MAX;
    uint8_t how = fuzz_byte(&fuzz.input);

    place = how % 4 == 0 ? 0 : how % 16 == 1 ? (uint32_t)fuzz_number(&fuzz.input) : place;
    bytes = how >= 250 ? fuzz_number(&fuzz.input) : bytes;
    if (rpc_ring_came(&fuzz.writer, &fuzz.reader, freed << 16 | (place & UINT16_MAX), bytes,
                      &lies) != NIGH_OK) {
        NIGH_ASSERT(memcmp(&writer, &fuzz.writer, sizeof(writer)) == 0);
        NIGH_ASSERT(memcmp(&reader, &fuzz.reader, sizeof(reader)) == 0);
        return;
    }
    NIGH_ASSERT(fuzz.writer.used == writer.used - freed);
    NIGH_ASSERT(bytes == 0 ? lies == RPC_RING_NONE
                           : lies * RPC_RING_UNIT + bytes <= UNITS * RPC_RING_UNIT);
    if (rpc_ring_must_tell(&fuzz.reader)) {
        NIGH_ASSERT(rpc_ring_imm(&fuzz.reader, RPC_RING_NONE) >> 16 > UNITS / 2);
    }
}

static void fuzz_write(uint8_t how)
{
    uint32_t place, used = fuzz.writer.used;

    if (rpc_ring_take(&fuzz.writer, 1 + how % FRAME, &place)) {
        NIGH_ASSERT(fuzz.writer.used > used);
        NIGH_ASSERT(place * RPC_RING_UNIT + 1 + how % FRAME <= UNITS * RPC_RING_UNIT);
        NIGH_ASSERT((rpc_ring_imm(&fuzz.reader, place) & UINT16_MAX) == place);
    }
    NIGH_ASSERT(rpc_ring_is_valid(&fuzz.writer, &fuzz.reader));
}

static void fuzz_step(void)
{
    uint8_t what = fuzz_byte(&fuzz.input);

    switch (what % 14) {
    case 0: fuzz_call(); break;
    case 1: (void)rpc_one_way(fuzz.rpc, what, NULL, 0, fuzz.now_us); break;
    case 2: {
        uint32_t place = what / 14 % CALLS;
        bool was_open = fuzz.open[place];
        bool canceled = rpc_cancel(fuzz.rpc, fuzz.numbers[place], fuzz.now_us);
        NIGH_ASSERT(!was_open || canceled);
        break;
    }
    case 3: fuzz_answer(what / 14 % CALLS, NIGH_NOT_FOUND); break;
    case 4:
        fuzz.now_us += what;
        (void)rpc_tick(fuzz.rpc, fuzz.now_us);
        break;
    case 5: fuzz.now_us += what; break;
    case 12: fuzz_immediate(); break;
    case 13: fuzz_write(what); break;
    default: fuzz_frame(); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    memset(&fuzz, 0, sizeof(fuzz));
    fuzz.input = (struct fuzz_input){bytes, size_bytes};
    fuzz.now_us = 1000;
    fuzz.writer.units = fuzz.reader.units = UNITS;
    fuzz.reader.frame_bytes = FRAME;
    fuzz.config = (struct rpc_config){
        .requests = 1 + fuzz_byte(&fuzz.input) % 6,
        .calls = CALLS,
        .queue = fuzz_byte(&fuzz.input) % 4,
        .payload_bytes = PAYLOAD,
        .epoch = EPOCH,
        .shell = {NULL, fuzz_send, fuzz_request, NULL},
    };
    NIGH_ASSERT(rpc_create(&fuzz.config, &fuzz.rpc) == NIGH_OK);
    for (uint32_t step = 0; step < STEPS && fuzz.input.left > 0 && !fuzz.ended; step++) {
        uint32_t open = 0;

        fuzz_step();
        for (uint32_t i = 0; i < CALLS; i++) {
            open += fuzz.open[i];
        }
        NIGH_ASSERT(rpc_is_valid(fuzz.rpc));
        NIGH_ASSERT(rpc_pending(fuzz.rpc) == open);
    }
    fuzz_end();
    for (uint32_t i = 0; i < CALLS; i++) {
        NIGH_ASSERT(!fuzz.open[i]);
    }
    rpc_destroy(fuzz.rpc);
    return 0;
}
