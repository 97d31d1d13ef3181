/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any datagrams to a member, between ticks: raw bytes, and messages of somebody who has the key and
 * says anything with it. What must hold: no assertion, what is refused changes nothing, the member
 * stays valid, what it sends can be read, and nothing is ever taken back: what is known of a member
 * only grows.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/swim_wire.h"
#include "fuzz_input.h"

#define COUNT 6
#define SELF  2
#define STEPS 512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static const uint8_t key[AUTH_KEY_BYTES] = {3};

static struct {
    struct swim *swim;
    struct swim_wire wire;
    struct fuzz_input input;
    uint64_t now_us;
    uint64_t last; /* sequence of what it sent last */
} fuzz;

/* What it says must be fit for whom it is to. */
static void check_sends(const struct swim_actions *actions)
{
    for (uint32_t n = 0; n < actions->sends; n++) {
        struct swim_wire other;
        struct swim_message read;
        uint8_t bytes[SWIM_WIRE_BYTES];
        size_t size_bytes = swim_wire_encode(&fuzz.wire, &actions->send[n], bytes);

        swim_wire_init(&other, 1, actions->send[n].to, COUNT, key);
        NIGH_ASSERT(swim_wire_decode(&other, bytes, size_bytes, &read) == NIGH_OK);
        fuzz.last = read.sequence;
    }
}

static void step(const struct swim_event *event)
{
    static struct swim_actions actions;
    uint64_t before[COUNT];
    enum swim_state states[COUNT];

    for (uint32_t rank = 0; rank < COUNT; rank++) {
        before[rank] = swim_incarnation_of(fuzz.swim, rank);
        states[rank] = swim_state_of(fuzz.swim, rank);
    }
    swim_step(fuzz.swim, event, fuzz.now_us, &actions);
    NIGH_ASSERT(swim_is_valid(fuzz.swim));
    for (uint32_t rank = 0; rank < COUNT; rank++) {
        uint64_t after = swim_incarnation_of(fuzz.swim, rank);

        NIGH_ASSERT(after > before[rank] ||
                    (after == before[rank] && swim_state_of(fuzz.swim, rank) >= states[rank]));
    }
    check_sends(&actions);
}

static void feed(const uint8_t *bytes, size_t size_bytes)
{
    uint8_t *copy = malloc(size_bytes + 1); /* its own memory, so that reading behind it is seen */
    struct swim_message message;

    NIGH_ASSERT(copy != NULL);
    memcpy(copy, bytes, size_bytes);
    if (swim_wire_decode(&fuzz.wire, copy, size_bytes, &message) == NIGH_OK) {
        NIGH_ASSERT(message.from != SELF && message.from < COUNT && message.to == SELF);
        NIGH_ASSERT(message.target < COUNT && message.count <= LIMIT_SWIM_UPDATES);
        step(&(struct swim_event){.kind = SWIM_RECEIVE, .message = &message});
    }
    free(copy);
}

static void feed_raw(void)
{
    size_t size_bytes = fuzz_byte(&fuzz.input);
    uint8_t bytes[256];

    fuzz_fill(&fuzz.input, bytes, size_bytes);
    feed(bytes, size_bytes);
}

static uint64_t incarnation_near(uint8_t choice)
{
    return choice >= 250 ? UINT64_MAX - (choice - 250)
                         : SWIM_INCARNATION(1 + choice % 3, choice / 3 % 4);
}

static void feed_message(void)
{
    uint8_t kind = fuzz_byte(&fuzz.input);
    struct swim_message message = {
        .kind = (enum swim_kind)(kind % SWIM_KINDS),
        .from = fuzz_byte(&fuzz.input) % COUNT,
        .to = kind >= 250 ? 0 : SELF,
        .target = fuzz_byte(&fuzz.input) % (kind >= 240 ? 9 : COUNT),
        .incarnation = incarnation_near(fuzz_byte(&fuzz.input)),
        .sequence = fuzz.last - fuzz_byte(&fuzz.input) % 4,
        .count = fuzz_byte(&fuzz.input) % 5,
    };
    uint8_t bytes[SWIM_WIRE_BYTES];

    for (uint32_t n = 0; n < message.count; n++) {
        message.updates[n] = (struct swim_update){
            .incarnation = incarnation_near(fuzz_byte(&fuzz.input)),
            .rank = fuzz_byte(&fuzz.input) % COUNT,
            .from = fuzz_byte(&fuzz.input) % COUNT,
            .state = (enum swim_state)(fuzz_byte(&fuzz.input) % (kind >= 230 ? 6 : SWIM_STATES)),
        };
    }
    feed(bytes, swim_wire_encode(&fuzz.wire, &message, bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct swim_config config = {.self = SELF,
                                 .count = COUNT,
                                 .incarnation = 1,
                                 .period_us = 1000000,
                                 .timeout_us = 300000,
                                 .seed = 1};

    fuzz.input = (struct fuzz_input){.bytes = data, .left = size_bytes};
    fuzz.now_us = 1;
    fuzz.last = 0;
    swim_wire_init(&fuzz.wire, 1, SELF, COUNT, key);
    fuzz.swim = swim_create(&config, fuzz.now_us);
    NIGH_ASSERT(fuzz.swim != NULL);
    for (uint32_t n = 0; n < STEPS && fuzz.input.left > 0; n++) {
        uint8_t what = fuzz_byte(&fuzz.input);

        if (what < 60) {
            feed_raw();
        } else if (what < 200) {
            feed_message();
        } else if (what < 255) {
            fuzz.now_us += (uint64_t)(what - 199) * 40000;
            step(&(struct swim_event){.kind = SWIM_TICK});
        } else if (fuzz_byte(&fuzz.input) == 255) {
            step(&(struct swim_event){.kind = SWIM_LEAVE});
        }
    }
    swim_destroy(fuzz.swim);
    return 0;
}
