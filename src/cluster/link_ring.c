/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link's rings for frames of calls (rpc/rpc_ring.h): the memory that this side gives, what the
 * other gave, and which way frames take. A ring is told of with the connection, behind the token of
 * who dials and in the answer of who accepts, so both know before the first frame.
 *
 * The memory of a ring is the fabric's from the dial, or the acceptance, until the endpoint's
 * destruction has returned, as that of receives.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "cluster/link_internal.h"

#define LOG_MODULE "link"
#include "base/log.h"

#define OFFER_KEY   8u
#define OFFER_UNITS 12u
#define OFFER_ONLY  14u

#define PROBE_US UINT64_C(2000000) /* without an answer for so long a measurement is given up */

_Static_assert(sizeof(struct auth_token) + LINK_OFFER_BYTES <= FABRIC_PRIVATE_BYTES,
               "a token and a ring are private data");

/* ---- memory --------------------------------------------------------------- */

bool links_give_rings(const struct links *links)
{
    return links->way != LINK_SEND;
}

nigh_status link_ring_init(struct link *link)
{
    struct link_rings *rings = &link->rings;
    const struct links_config *config = &link->links->config;

    if (!links_give_rings(link->links)) {
        return NIGH_OK;
    }
    rings->memory = aligned_alloc(RPC_RING_UNIT, config->ring_bytes);
    if (rings->memory == NULL) {
        return NIGH_NO_RESOURCES;
    }
    return fabric_memory_register(config->fabric, rings->memory, config->ring_bytes, FABRIC_HOST,
                                  FABRIC_LOCAL_WRITE | FABRIC_REMOTE_WRITE, &rings->registration);
}

void link_ring_fini(struct link *link)
{
    fabric_memory_deregister(link->links->config.fabric, link->rings.registration);
    free(link->rings.memory);
}

/* ---- offers --------------------------------------------------------------- */

void link_ring_begin(struct link *link)
{
    struct link_rings *rings = &link->rings;
    const struct links *links = link->links;

    rings->writer = (struct rpc_ring_writer){0};
    rings->reader = (struct rpc_ring_reader){0};
    rings->is_only = false;
    rings->way = links->way == LINK_WRITE ? RPC_WAY_WRITTEN : RPC_WAY_SENT;
    rings->measures = false;
    rings->asks = false;
    rings->sent_us = rings->written_us = 0;
    if (links_give_rings(links)) {
        rings->reader.units = links->config.ring_bytes / RPC_RING_UNIT;
        rings->reader.frame_bytes = link_frame_bytes(&links->calls);
    }
}

uint32_t link_ring_offer(const struct link *link, uint8_t offer[LINK_OFFER_BYTES])
{
    const struct link_rings *rings = &link->rings;
    const struct links *links = link->links;
    struct fabric_remote remote;

    if (!links_give_rings(links)) {
        return 0;
    }
    remote = fabric_memory_remote(links->config.fabric, rings->registration, rings->memory);
    bytes_put_u64(offer, remote.address);
    bytes_put_u32(offer + OFFER_KEY, remote.key);
    bytes_put_u16(offer + OFFER_UNITS, (uint16_t)(links->config.ring_bytes / RPC_RING_UNIT));
    offer[OFFER_ONLY] = links->calls.buffers == 0;
    return LINK_OFFER_BYTES;
}

nigh_status link_ring_take_offer(struct link *link, const uint8_t *offer, uint32_t bytes)
{
    struct link_rings *rings = &link->rings;
    const struct links *links = link->links;
    bool can = (links->config.fabric->caps.ops & FABRIC_CAN_WRITE_IMM) != 0;
    uint32_t units;

    if (bytes == 0) {
        return NIGH_OK;
    }
    if (bytes != LINK_OFFER_BYTES || offer[OFFER_ONLY] > 1) {
        return NIGH_PROTOCOL;
    }
    units = bytes_get_u16(offer + OFFER_UNITS);
    if (!rpc_ring_is_enough(units, link_frame_bytes(&links->calls))) {
        return NIGH_PROTOCOL;
    }
    rings->is_only = offer[OFFER_ONLY] == 1;
    if (!can) {
        return rings->is_only ? NIGH_UNSUPPORTED : NIGH_OK;
    }
    rings->writer.units = units;
    rings->remote = (struct fabric_remote){.address = bytes_get_u64(offer),
                                           .key = bytes_get_u32(offer + OFFER_KEY)};
    return NIGH_OK;
}

/* ---- where a frame goes --------------------------------------------------- */

bool link_ring_aim_waiting(struct link *link, uint32_t bytes, struct fabric_work *work)
{
    struct link_rings *rings = &link->rings;
    uint32_t place;

    if (!rpc_ring_take(&rings->writer, bytes, &place)) {
        return false;
    }
    *work = (struct fabric_work){.op = FABRIC_WRITE_IMM,
                                 .remote = rings->remote,
                                 .imm = rpc_ring_imm(&rings->reader, place)};
    work->remote.address += (uint64_t)place * RPC_RING_UNIT;
    link->links->counters.calls_written++;
    return true;
}

bool link_ring_aim(struct link *link, uint32_t bytes, struct fabric_work *work)
{
    struct link_rings *rings = &link->rings;
    bool writes = rings->writer.units > 0 && (rings->is_only || rings->way == RPC_WAY_WRITTEN);

    if (writes && list_empty(&link->sides[LINK_CALLS].waiting) &&
        link_ring_aim_waiting(link, bytes, work)) {
        return true;
    }
    link->links->counters.ring_full += writes;
    if (rings->is_only) {
        return false;
    }
    link->links->counters.calls_sent++;
    return true;
}

/* ---- what came ------------------------------------------------------------ */

nigh_status link_ring_came(struct link *link, uint32_t imm, uint32_t bytes, const void **frame)
{
    struct link_rings *rings = &link->rings;
    struct links *links = link->links;
    uint32_t place;
    nigh_status status = rpc_ring_came(&rings->writer, &rings->reader, imm, bytes, &place);

    *frame = NULL;
    if (status == NIGH_OK && place != RPC_RING_NONE) {
        /* The peer may write to its ring at any time: what is looked at is a copy. */
        memcpy(links->frame, rings->memory + (size_t)place * RPC_RING_UNIT, bytes);
        *frame = links->frame;
    }
    return status;
}

void link_ring_settle(struct link_side *side)
{
    if (rpc_ring_must_tell(&side->link->rings.reader)) {
        link_post_receives(side);
        link_send_news(side);
    }
    link_send_waiting(side);
}

/* ---- which way is quicker ------------------------------------------------- */

static void on_measured(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                        uint64_t now_us)
{
    struct link *link = context;
    struct link_rings *rings = &link->rings;

    (void)payload;
    rings->asks = false;
    if (status != NIGH_OK || bytes != RPC_WAY_BYTES) {
        rings->measures = false; /* frames go on to be sent */
        return;
    }
    rpc_way_took(&rings->measured, now_us - rings->asked_us);
    if (rpc_way_wants(&rings->measured)) {
        link_measure(link, now_us);
        return;
    }
    rings->measures = false;
    rings->sent_us = rpc_way_us(&rings->measured, RPC_WAY_SENT);
    rings->written_us = rpc_way_us(&rings->measured, RPC_WAY_WRITTEN);
    rings->way = rpc_way_quicker(&rings->measured);
    LOG_DEBUG("measured calls", "rank=%u rail=%u sent_us=%llu written_us=%llu", link->rank,
              link->rail, (unsigned long long)rings->sent_us,
              (unsigned long long)rings->written_us);
}

/* Frames that this causes take the way, whatever others do. */
static enum rpc_way_kind go(struct link *link, enum rpc_way_kind way)
{
    enum rpc_way_kind before = link->rings.way;

    link->rings.way = way;
    return before;
}

void link_measure(struct link *link, uint64_t now_us)
{
    static const uint8_t nothing[RPC_WAY_BYTES];
    struct rpc_piece piece = {.data = nothing, .bytes = RPC_WAY_BYTES};
    struct link_rings *rings = &link->rings;
    enum rpc_way_kind before;

    if (!rings->measures || rings->asks || !link->up || link->failed) {
        return;
    }
    before = go(link, rpc_way_next(&rings->measured));
    rings->asked_us = now_us;
    rings->asks =
        rpc_call(link->sides[LINK_CALLS].rpc, LINK_METHOD_PROBE, &piece, 1,
                 clock_deadline_us(now_us, PROBE_US), now_us, on_measured, link, NULL) == NIGH_OK;
    go(link, before);
}

void link_measure_calls(struct link *link, uint64_t now_us)
{
    struct link_rings *rings = &link->rings;

    if (rings->measures) {
        return;
    }
    rpc_way_begin(&rings->measured);
    rings->measures = link->links->way == LINK_AUTO && rings->writer.units > 0 && !rings->is_only &&
                      link->links->calls.rpc.payload_bytes >= RPC_WAY_BYTES;
    link_measure(link, now_us);
}

void link_on_probe(struct link_side *side, const struct rpc_request *request)
{
    struct rpc_piece piece = {.data = request->payload, .bytes = request->bytes};
    enum rpc_way_kind before = go(side->link, side->link->rings.came);

    rpc_reply(side->rpc, request->call, NIGH_OK, &piece, 1);
    go(side->link, before);
}
