/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two ways of a link cost is measured when it has come up, before there are objects to
 * learn from: bytes of some sizes are asked of the peer, sent and read by turns, out of memory that
 * is nobody's. One at a time of all links of a lane; between any two of them whatever else there is
 * to do goes first, and what something else was under way beside is not counted.
 *
 * What is lent never changes, and is lent as long as the lane lives: a READ may come as late as it
 * likes. Where bytes land is in use until its READ has ended, or its link.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "object/crossover.h"
#include "object/exchange_announce.h"
#include "object/exchange_figures.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_messages.h"
#include "object/exchange_probe.h"
#include "object/exchange_wire.h"

#define SIZES       3u                    /* 16, 64 and 256 KiB */
#define GROWS       4u                    /* each so many times the one before */
#define FIRST_BYTES (UINT64_C(16) << 10)  /* the smallest, unless configured */
#define MOST_BYTES  (UINT64_C(256) << 10) /* that are lent */
#define PAGE        UINT64_C(4096)
#define PAUSE_US    UINT64_C(10000) /* before it is looked whether a link is free; doubled */
#define PAUSE_MAX   UINT64_C(1000000)

/* ---- what is measured ------------------------------------------------------ */

static uint64_t size_of(const struct exchange *exchange, uint32_t number)
{
    uint64_t bytes = exchange->config.probe_bytes;

    for (uint32_t n = 0; n < number; n++) {
        bytes *= GROWS;
    }
    return bytes;
}

static uint32_t messages_of(const struct exchange *exchange, uint64_t bytes)
{
    uint64_t room = exchange->config.bulk_bytes - sizeof(struct wire_chunk);

    return (uint32_t)((bytes + room - 1) / room);
}

/* Sizes that can be sent at once, out of the half of the receives that probes may take. */
static uint32_t sizes_of(const struct exchange *exchange)
{
    uint32_t count = 0;

    while (count < SIZES && size_of(exchange, count) <= MOST_BYTES &&
           messages_of(exchange, size_of(exchange, count)) <=
               min_u32(EXCHANGE_STREAM, messages_most(exchange) / 2)) {
        count++;
    }
    return count;
}

static bool is_wanting(const struct exchange_link *link)
{
    return link->probe < link->probes;
}

/* No more of this link: it was measured, or will not be. */
static void leave(struct exchange_link *link)
{
    struct prober *prober = &link->exchange->prober;

    if (is_wanting(link)) {
        prober->wanting--;
        link->probes = link->probe;
    }
}

void probe_link_up(struct exchange_link *link)
{
    struct exchange *exchange = link->exchange;

    if (exchange->prober.memory == NULL) {
        return;
    }
    link->probes = CROSSOVER_PATHS * CROSSOVER_ENOUGH * sizes_of(exchange);
    exchange->prober.wanting += is_wanting(link) ? 1 : 0;
    exchange->prober.again_us = 0;
}

nigh_status exchange_measure(struct exchange *exchange, uint64_t rank)
{
    if (exchange->prober.memory == NULL) {
        return NIGH_UNSUPPORTED;
    }
    LIST_FOREACH(node, &exchange->live)
    {
        struct exchange_link *link = container_of(node, struct exchange_link, place);

        /* One that is being measured is so already: whoever asks again and again measures once. */
        if ((rank != UINT64_MAX && link->rank != rank) || is_wanting(link)) {
            continue;
        }
        crossover_forget(&link->crossovers[false]);
        crossover_forget(&link->crossovers[true]);
        link->probe = 0;
        link->probe_again_us = 0;
        link->probe_pause_us = 0;
        probe_link_up(link);
        link_measure_calls(link->link, exchange->now_us);
    }
    return NIGH_OK;
}

uint32_t exchange_links(const struct exchange *exchange, struct exchange_link_cost *costs,
                        uint32_t capacity)
{
    uint32_t count = 0;

    LIST_FOREACH(node, &exchange->live)
    {
        const struct exchange_link *link = container_of(node, struct exchange_link, place);
        const struct crossover *crossover = &link->crossovers[false];

        if (count == capacity) {
            break;
        }
        costs[count] = (struct exchange_link_cost){
            .rank = link->rank,
            .rail = link_rail(link->link),
            .crossover_bytes = crossover_is_known(crossover) ? crossover_bytes(crossover) : 0,
            .measured = link->probe,
            .to_measure = link->probes,
        };
        costs[count].calls_way =
            link_calls_way(link->link, &costs[count].calls_sent_us, &costs[count].calls_written_us);
        count++;
    }
    return count;
}

void probe_link_down(struct exchange_link *link)
{
    struct prober *prober = &link->exchange->prober;

    leave(link);
    if (prober->link == link) {
        prober->link = NULL; /* its receives, and READs, ended with it */
    }
    if (link->probed.sent < link->probed.bytes) {
        prober->sending--;
    }
}

/* ---- as a puller ----------------------------------------------------------- */

static uint64_t tag_of(const struct prober *prober)
{
    return (uint64_t)prober->generation << 32 | EXCHANGE_PROBE_NUMBER;
}

/* Not now: later, and each time more so. */
static void rest(struct exchange_link *link, uint64_t now_us)
{
    link->probe_pause_us = min_u64(max_u64(2 * link->probe_pause_us, PAUSE_US), PAUSE_MAX);
    link->probe_again_us = clock_deadline_us(now_us, link->probe_pause_us);
}

/* The probe is over; `counts`: as it was meant to be. */
static void end(struct exchange *exchange, bool counts)
{
    struct prober *prober = &exchange->prober;
    struct exchange_link *link = prober->link;

    messages_drop(link, prober->credits);
    prober->credits = 0;
    prober->link = NULL;
    prober->again_us = 0;
    if (!counts) {
        rest(link, exchange->now_us);
        return;
    }
    link->probe_pause_us = 0;
    exchange->counts.probes++;
    prober->wanting -= ++link->probe == link->probes ? 1 : 0;
}

/* All bytes are here, and were summed, as those of a pull would be. */
static void finish(struct exchange *exchange, uint64_t now_us)
{
    struct prober *prober = &exchange->prober;
    struct exchange_link *link = prober->link;
    bool alone = exchange->counts.pulls == prober->pulls && list_empty(&link->serves);

    for (uint32_t n = 0; n < ARRAY_LENGTH(link->crossovers) && alone; n++) {
        crossover_note(&link->crossovers[n],
                       prober->way == WIRE_LOAN ? CROSSOVER_ONE_SIDED : CROSSOVER_TWO_SIDED,
                       prober->bytes, now_us - prober->asked_us);
    }
    end(exchange, alone);
}

static void sum(struct prober *prober, uint64_t offset, uint64_t bytes)
{
    prober->crc = exchange_crc(prober->crc, prober->landing + offset, bytes);
}

static void on_read(void *context, nigh_status status, uint64_t now_us)
{
    struct exchange_link *link = context;
    struct exchange *exchange = link->exchange;
    struct prober *prober = &exchange->prober;

    exchange->now_us = now_us;
    link->probe_reads = false;
    if (prober->link != link || status != NIGH_OK || link_is_failing(link->link)) {
        return; /* it was given up, or probe_link_down follows */
    }
    sum(prober, 0, prober->bytes);
    finish(exchange, now_us);
}

static void read(struct exchange *exchange, const struct wire_probed *probed)
{
    struct prober *prober = &exchange->prober;
    struct fabric_slice slice = {
        .address = prober->landing, .bytes = prober->bytes, .memory = prober->landing_memory};
    struct fabric_remote remote = {.address = probed->address, .key = probed->key};

    if (link_read(prober->link->link, &slice, 1, remote, on_read, prober->link) != NIGH_OK) {
        end(exchange, false);
        return;
    }
    prober->link->probe_reads = true;
}

/* A peer that stands still is not asked again: what it was granted may yet come, and stays granted
 * until it does. */
static void give_up(struct exchange *exchange)
{
    struct prober *prober = &exchange->prober;

    prober->link->probe_owed = prober->credits;
    prober->link->probe_owed_tag = tag_of(prober);
    prober->credits = 0;
    leave(prober->link);
    end(exchange, false);
}

/* The peer does not do it: not now, or not at all. */
static void refused(struct exchange *exchange, nigh_status status)
{
    if (status == NIGH_TIMEOUT) {
        give_up(exchange);
        return;
    }
    if (status != NIGH_BUSY) {
        leave(exchange->prober.link);
    }
    end(exchange, false);
}

static void on_probed(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                      uint64_t now_us)
{
    struct exchange *exchange = context;
    struct prober *prober = &exchange->prober;
    struct wire_probed probed;

    exchange->now_us = now_us;
    if (prober->link == NULL || link_is_failing(prober->link->link)) {
        return;
    }
    if (status != NIGH_OK) {
        refused(exchange, status);
        return;
    }
    if (bytes != sizeof(probed)) {
        link_break(prober->link->link, NIGH_PROTOCOL, now_us);
        return;
    }
    memcpy(&probed, payload, sizeof(probed));
    prober->is_answered = true;
    if (prober->way == WIRE_LOAN) {
        read(exchange, &probed);
    } else if (prober->received == prober->bytes) {
        finish(exchange, now_us);
    }
}

bool probe_on_message(struct exchange_link *link, const struct wire_chunk *chunk,
                      const uint8_t *bytes, uint64_t now_us)
{
    struct exchange *exchange = link->exchange;
    struct prober *prober = &exchange->prober;

    if (link->probe_owed > 0 && chunk->tag == link->probe_owed_tag) {
        link->probe_owed--;
        messages_drop(link, 1);
        return true;
    }
    if (prober->link != link || chunk->tag != tag_of(prober) || prober->credits == 0 ||
        chunk->offset != prober->received || chunk->bytes == 0 ||
        chunk->bytes > prober->bytes - prober->received) {
        return false;
    }
    prober->credits--;
    messages_drop(link, 1);
    memcpy(prober->landing + chunk->offset, bytes, chunk->bytes);
    sum(prober, chunk->offset, chunk->bytes);
    prober->received += chunk->bytes;
    if (prober->received == prober->bytes && prober->is_answered) {
        finish(exchange, now_us);
    }
    return true;
}

/* Both ways of each size by turns, so that what changes meanwhile changes both. */
static bool begin(struct exchange_link *link, uint64_t now_us)
{
    struct exchange *exchange = link->exchange;
    struct prober *prober = &exchange->prober;
    uint32_t number = link->probe / CROSSOVER_PATHS % sizes_of(exchange);
    struct wire_probe said = {
        .bytes = (uint32_t)size_of(exchange, number),
        .way = link->probe % CROSSOVER_PATHS == 0 ? WIRE_STREAM : WIRE_LOAN,
    };
    struct rpc_piece piece = {.data = &said, .bytes = sizeof(said)};

    said.credits = said.way == WIRE_STREAM ? messages_of(exchange, said.bytes) : 0;
    if (!messages_take(link, said.credits)) {
        return false;
    }
    prober->generation++;
    said.tag = tag_of(prober);
    if (rpc_call(link_rpc(link->link), WIRE_PROBE, &piece, 1, now_us + EXCHANGE_CALL_US, now_us,
                 on_probed, exchange, NULL) != NIGH_OK) {
        messages_drop(link, said.credits);
        return false;
    }
    prober->link = link;
    prober->way = (enum wire_way)said.way;
    prober->bytes = said.bytes;
    prober->credits = said.credits;
    prober->received = 0;
    prober->crc = 0;
    prober->is_answered = false;
    prober->asked_us = now_us;
    prober->pulls = exchange->counts.pulls;
    return true;
}

/* All is told that came with the link, and nobody wants anything of it. */
static bool is_free(const struct exchange_link *link)
{
    const struct exchange *exchange = link->exchange;
    const struct announcer *announcer = &link->announcer;

    return link->probe_owed == 0 && !link->probe_reads && announcer->count == 0 &&
           !announcer->walking && !announcer->repeat && list_empty(&link->pulls) &&
           list_empty(&link->serves) && list_empty(&exchange->ready) &&
           exchange->counts.pull_bytes_now == 0 && !link_is_failing(link->link);
}

static bool begin_next(struct exchange *exchange, uint64_t now_us)
{
    struct prober *prober = &exchange->prober;
    uint64_t again_us = UINT64_MAX;

    LIST_FOREACH(node, &exchange->live)
    {
        struct exchange_link *link = container_of(node, struct exchange_link, place);

        if (!is_wanting(link)) {
            continue;
        }
        if (now_us >= link->probe_again_us) {
            if (is_free(link) && begin(link, now_us)) {
                return true;
            }
            rest(link, now_us);
        }
        again_us = min_u64(again_us, link->probe_again_us);
    }
    prober->again_us = again_us;
    return false;
}

/* ---- as a holder ------------------------------------------------------------ */

/* Bytes of each message: as many messages as were granted, at most. */
static uint32_t part_of(const struct wire_probe *said)
{
    return said->bytes / said->credits + (said->bytes % said->credits != 0 ? 1 : 0);
}

static nigh_status check(const struct exchange_link *link, const struct rpc_request *request,
                         struct wire_probe *said)
{
    const struct exchange *exchange = link->exchange;

    if (exchange->prober.memory == NULL) {
        return NIGH_UNSUPPORTED;
    }
    if (request->bytes != sizeof(*said)) {
        return NIGH_PROTOCOL;
    }
    memcpy(said, request->payload, sizeof(*said));
    if (said->bytes == 0 || said->bytes > MOST_BYTES) {
        return NIGH_LIMIT;
    }
    if (is_wanting(link) && exchange_self(exchange) < link->rank) {
        return NIGH_BUSY; /* both at once would measure each other: the lower rank goes first */
    }
    if (said->way == WIRE_LOAN) {
        return said->credits == 0 ? NIGH_OK : NIGH_PROTOCOL;
    }
    if (said->way != WIRE_STREAM || said->credits == 0 || said->credits > EXCHANGE_STREAM ||
        part_of(said) > exchange->config.bulk_bytes - sizeof(struct wire_chunk)) {
        return NIGH_PROTOCOL;
    }
    return link->probed.sent < link->probed.bytes ? NIGH_BUSY : NIGH_OK;
}

static void on_sent(void *context, nigh_status status, uint64_t now_us)
{
    /* It never changes, and is needed by the next one, too. */
    (void)context;
    (void)status;
    (void)now_us;
}

static bool send(struct exchange_link *link, uint64_t now_us)
{
    struct prober *prober = &link->exchange->prober;
    struct probed *probed = &link->probed;
    bool worked = false;

    while (probed->sent < probed->bytes) {
        uint32_t bytes = min_u32(probed->part, probed->bytes - probed->sent);
        struct wire_chunk head = {.tag = probed->tag, .offset = probed->sent, .bytes = bytes};
        struct fabric_slice slices[] = {
            {.address = &head, .bytes = sizeof(head)},
            {.address = prober->memory + probed->sent, .bytes = bytes, .memory = prober->lent},
        };

        if (link_send(link->link, slices, ARRAY_LENGTH(slices), on_sent, NULL) != NIGH_OK) {
            prober->send_us = clock_deadline_us(now_us, EXCHANGE_PAUSE_US);
            return worked;
        }
        probed->sent += bytes;
        worked = true;
    }
    prober->sending--;
    return worked;
}

void probe_on_request(struct exchange_link *link, const struct rpc_request *request,
                      uint64_t now_us)
{
    struct prober *prober = &link->exchange->prober;
    struct wire_probe said;
    struct wire_probed probed = {0};
    struct rpc_piece piece = {.data = &probed, .bytes = sizeof(probed)};
    struct fabric_remote remote;
    nigh_status status;

    if (request->call == 0) {
        return;
    }
    status = check(link, request, &said);
    if (status != NIGH_OK) {
        rpc_reply(link_rpc(link->link), request->call, status, NULL, 0);
        return;
    }
    if (said.way == WIRE_LOAN) {
        remote = fabric_memory_remote(link->exchange->config.fabric, prober->lent, prober->memory);
        probed.address = remote.address;
        probed.key = remote.key;
    }
    rpc_reply(link_rpc(link->link), request->call, NIGH_OK, &piece, 1);
    if (said.way == WIRE_STREAM) {
        link->probed =
            (struct probed){.tag = said.tag, .bytes = said.bytes, .part = part_of(&said)};
        prober->sending++;
        (void)send(link, now_us);
    }
}

/* ---- turns ------------------------------------------------------------------ */

bool probe_turn(struct exchange *exchange, uint64_t now_us)
{
    struct prober *prober = &exchange->prober;
    bool worked = false;

    if (prober->sending > 0 && now_us >= prober->send_us) {
        LIST_FOREACH(node, &exchange->live)
        {
            struct exchange_link *link = container_of(node, struct exchange_link, place);

            if (link->probed.sent < link->probed.bytes) {
                worked = send(link, now_us) || worked;
            }
        }
    }
    if (prober->link == NULL) {
        return (prober->wanting > 0 && now_us >= prober->again_us &&
                begin_next(exchange, now_us)) ||
               worked;
    }
    /* A call ends by itself; what was to come then does not. */
    if (prober->is_answered && now_us >= prober->asked_us + 2 * EXCHANGE_CALL_US &&
        !link_is_failing(prober->link->link)) {
        give_up(exchange);
        return true;
    }
    return worked;
}

uint64_t probe_due_us(const struct exchange *exchange)
{
    const struct prober *prober = &exchange->prober;

    uint64_t due_us = prober->sending > 0 ? prober->send_us : UINT64_MAX;

    if (prober->link == NULL) {
        return prober->wanting > 0 ? min_u64(due_us, prober->again_us) : due_us;
    }
    return prober->is_answered && !link_is_failing(prober->link->link)
               ? min_u64(due_us, prober->asked_us + 2 * EXCHANGE_CALL_US)
               : due_us;
}

/* ---- memory ----------------------------------------------------------------- */

nigh_status probe_init(struct exchange *exchange)
{
    struct prober *prober = &exchange->prober;
    struct fabric *fabric = exchange->config.fabric;
    nigh_status status;

    if (exchange->config.probe_bytes == 0) {
        exchange->config.probe_bytes = FIRST_BYTES;
    }
    if (exchange->config.path != EXCHANGE_AUTO || exchange->config.members->count == 1) {
        return NIGH_OK;
    }
    prober->memory = aligned_alloc(PAGE, 2 * MOST_BYTES);
    if (prober->memory == NULL) {
        return NIGH_NO_RESOURCES;
    }
    memset(prober->memory, 0x5a, 2 * MOST_BYTES); /* zeros may be one page of the system's */
    prober->landing = prober->memory + MOST_BYTES;
    status = fabric_memory_register(fabric, prober->memory, MOST_BYTES, FABRIC_HOST,
                                    FABRIC_REMOTE_READ, &prober->lent);
    if (status != NIGH_OK) {
        prober->lent = NULL;
        return status;
    }
    status = fabric_memory_register(fabric, prober->landing, MOST_BYTES, FABRIC_HOST,
                                    FABRIC_LOCAL_WRITE, &prober->landing_memory);
    if (status != NIGH_OK) {
        prober->landing_memory = NULL;
    }
    return status;
}

void probe_fini(struct exchange *exchange)
{
    struct prober *prober = &exchange->prober;

    fabric_memory_deregister(exchange->config.fabric, prober->landing_memory);
    fabric_memory_deregister(exchange->config.fabric, prober->lent);
    free(prober->memory);
}
