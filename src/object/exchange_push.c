/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows: where a holder writes the messages of a push, and what each side knows of them.
 *
 * The puller's are places in staging memory of the link, registered for it alone: its peer can
 * write there and nowhere else, and what is copied out is summed where it went. A window is granted
 * to one pull, for one message. It may be granted again when that message was copied, or when the
 * holder has said that it writes no more of the pull (its last message, an answer that is none);
 * else only with the end of the link, after its endpoints: a WRITE may be late. Its immediate names
 * the window and the grant, so that what is said of another is a breach.
 *
 * The holder's are a ring a serve, in the order in which they were granted.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_push.h"
#include "object/exchange_serve.h"
#include "object/exchange_wire.h"

#define PUSH_ALIGN       64u
#define PUSH_NUMBER_BITS 12u /* of an immediate: the window; the rest is its grant's serial */

_Static_assert(LIMIT_FABRIC_DEPTH <= 1u << PUSH_NUMBER_BITS, "every receive may have a window");

/* ---- the puller's --------------------------------------------------------- */

static uint8_t *window_bytes(const struct push_staging *staging, uint32_t number)
{
    return staging->bytes + (size_t)number * staging->stride;
}

static uint32_t imm_of(uint32_t number, uint32_t serial)
{
    return serial << PUSH_NUMBER_BITS | number;
}

nigh_status push_init(struct exchange_link *link)
{
    const struct exchange_config *config = &link->exchange->config;
    uint32_t stride = (config->window_bytes + PUSH_ALIGN - 1) & ~(PUSH_ALIGN - 1);
    uint64_t bytes = (uint64_t)stride * config->bulk_receives;
    struct push_staging *staging;
    nigh_status status;

    if ((config->fabric->caps.ops & FABRIC_CAN_WRITE_IMM) == 0) {
        return NIGH_UNSUPPORTED;
    }
    staging = calloc(1, sizeof(*staging) + config->bulk_receives * sizeof(struct push_window));
    if (staging == NULL) {
        return NIGH_NO_RESOURCES;
    }
    staging->stride = stride;
    staging->bytes = aligned_alloc(PUSH_ALIGN, bytes);
    if (staging->bytes == NULL) {
        free(staging);
        return NIGH_NO_RESOURCES;
    }
    status = fabric_memory_register(config->fabric, staging->bytes, bytes, FABRIC_HOST,
                                    FABRIC_LOCAL_WRITE | FABRIC_REMOTE_WRITE, &staging->memory);
    if (status != NIGH_OK) {
        free(staging->bytes);
        free(staging);
        return status;
    }
    link->staging = staging;
    return NIGH_OK;
}

void push_fini(struct exchange_link *link)
{
    if (link->staging == NULL) {
        return;
    }
    fabric_memory_deregister(link->exchange->config.fabric, link->staging->memory);
    free(link->staging->bytes);
    free(link->staging);
    link->staging = NULL;
}

bool push_is_chosen(const struct exchange_link *link)
{
    return link->staging != NULL && !link->push_refused;
}

uint32_t push_room(const struct exchange *exchange)
{
    return exchange->config.window_bytes - (uint32_t)sizeof(struct wire_chunk);
}

uint32_t push_free(const struct exchange_link *link)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < link->exchange->config.bulk_receives; n++) {
        count += link->staging->windows[n].state == PUSH_FREE ? 1 : 0;
    }
    return count;
}

void push_grant(struct exchange_link *link, uint64_t tag, uint32_t count,
                struct wire_window *windows)
{
    const struct exchange_config *config = &link->exchange->config;
    struct push_staging *staging = link->staging;

    for (uint32_t found = 0, looks = 0; found < count; looks++) {
        uint32_t number = staging->next;
        struct push_window *window = &staging->windows[number];
        struct fabric_remote remote;

        NIGH_ASSERT(looks < config->bulk_receives); /* so many are free */
        staging->next = (number + 1) % config->bulk_receives;
        if (window->state != PUSH_FREE) {
            continue;
        }
        window->state = PUSH_GRANTED;
        window->serial++;
        window->tag = tag;
        remote =
            fabric_memory_remote(config->fabric, staging->memory, window_bytes(staging, number));
        windows[found++] = (struct wire_window){.address = remote.address,
                                                .bytes = config->window_bytes,
                                                .key = remote.key,
                                                .imm = imm_of(number, window->serial)};
    }
}

void push_taken(struct push_window *window)
{
    window->state = PUSH_FREE;
}

void push_take_back(struct exchange_link *link, const struct wire_window *windows, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) {
        uint32_t number = windows[n].imm & ((1u << PUSH_NUMBER_BITS) - 1);

        push_taken(&link->staging->windows[number]);
    }
}

void push_release(struct exchange_link *link, uint64_t tag)
{
    for (uint32_t n = 0; link->staging != NULL && n < link->exchange->config.bulk_receives; n++) {
        if (link->staging->windows[n].tag == tag) {
            push_taken(&link->staging->windows[n]);
        }
    }
}

uint32_t push_count(const struct exchange_link *link, uint64_t tag)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < link->exchange->config.bulk_receives; n++) {
        const struct push_window *window = &link->staging->windows[n];

        count += window->state != PUSH_FREE && window->tag == tag ? 1 : 0;
    }
    return count;
}

bool push_arrived(struct exchange_link *link, uint32_t imm, uint32_t count,
                  struct bulk_message *message)
{
    const struct exchange_config *config = &link->exchange->config;
    uint32_t number = imm & ((1u << PUSH_NUMBER_BITS) - 1);
    struct push_window *window;

    if (link->staging == NULL || number >= config->bulk_receives || count > config->window_bytes) {
        return false;
    }
    window = &link->staging->windows[number];
    if (window->state != PUSH_GRANTED || imm != imm_of(number, window->serial)) {
        return false;
    }
    window->state = PUSH_FILLED;
    *message = (struct bulk_message){
        .bytes = window_bytes(link->staging, number), .count = count, .window = window};
    return true;
}

/* ---- the holder's --------------------------------------------------------- */

bool push_accept(struct serve *serve, const struct wire_window *windows, uint32_t count)
{
    uint32_t size = serve->exchange->config.bulk_receives;

    if (serve->windows == NULL) {
        serve->windows = calloc(size, sizeof(*serve->windows));
    }
    if (serve->windows == NULL || count > size - serve->credits) {
        return false;
    }
    for (uint32_t n = 0; n < count; n++) {
        if (windows[n].bytes <= sizeof(struct wire_chunk)) {
            return false;
        }
        serve->windows[(serve->window + serve->credits + n) % size] = windows[n];
    }
    return true;
}

const struct wire_window *push_next(const struct serve *serve)
{
    NIGH_ASSERT(serve->credits > 0);
    return &serve->windows[serve->window];
}
