/* SPDX-License-Identifier: Apache-2.0 */
/* Links are measured (exchange_probe.c). For the exchange alone. */
#ifndef OBJECT_EXCHANGE_PROBE_H
#define OBJECT_EXCHANGE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "nigh/status.h"
#include "object/exchange_wire.h"

struct exchange;
struct exchange_link;
struct fabric_memory;
struct rpc_request;

#define EXCHANGE_PROBE_NUMBER UINT32_MAX /* low half of the tags of probes: no pull's */

/* The probe that is under way, of all links (exchange_probe.c). */
struct prober {
    uint8_t *memory;  /* that peers are sent and read; NULL: this node measures nothing */
    uint8_t *landing; /* where their bytes come to */
    struct fabric_memory *lent, *landing_memory;
    struct exchange_link *link; /* NULL: none is under way */
    uint32_t generation;
    enum wire_way way;
    uint64_t bytes;
    uint64_t received;
    uint32_t credits; /* messages that may still come */
    uint32_t crc;
    bool is_answered;
    uint64_t asked_us;
    uint64_t pulls;    /* ever, when it began */
    uint32_t wanting;  /* links that are not measured yet */
    uint32_t sending;  /* links whose peers are owed messages */
    uint64_t send_us;  /* when these are tried again */
    uint64_t again_us; /* when there is one that may be begun */
};

nigh_status probe_init(struct exchange *exchange);
void probe_fini(struct exchange *exchange);
void probe_link_up(struct exchange_link *link);
void probe_link_down(struct exchange_link *link);
bool probe_turn(struct exchange *exchange, uint64_t now_us);
uint64_t probe_due_us(const struct exchange *exchange);
/* A peer measures. */
void probe_on_request(struct exchange_link *link, const struct rpc_request *request,
                      uint64_t now_us);
/* A message with a tag of probes. False: it is none that was asked for. */
bool probe_on_message(struct exchange_link *link, const struct wire_chunk *chunk,
                      const uint8_t *bytes, uint64_t now_us);

#endif
