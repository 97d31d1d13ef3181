/* SPDX-License-Identifier: Apache-2.0 */
/* See link.h. One link: its endpoints, buffers and calls. What is asked of its bulk endpoints is in
 * link_ops.c, how frames leave in link_frames.c, what is written instead of sent in link_ring.c,
 * what its endpoint for spaces carries in link_space.c. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "cluster/link_internal.h"

#define LOG_MODULE "link"
#include "base/log.h"

/* ---- buffers -------------------------------------------------------------- */

const struct link_channel *links_channel(const struct links *links, enum link_endpoint kind)
{
    switch (kind) {
    case LINK_CONTROL: return &links->control;
    case LINK_CALLS: return &links->calls;
    default: return NULL;
    }
}

bool link_has(const struct link *link, enum link_endpoint kind)
{
    const struct links *links = link->links;
    const struct link_peer *peer = &links->peers[link->rank].info;

    if (link_is_reader(kind)) {
        return kind - LINK_READS + 1u < peer->bulk_endpoints;
    }
    switch (kind) {
    case LINK_CALLS: return links->calls.receives > 0;
    case LINK_REGIONS: return links_carry_regions(links) && link->rail == 0;
    case LINK_REGIONS_LOW: return link_has(link, LINK_REGIONS) && peer->region_endpoints > 1;
    case LINK_SPACES:
        return links_carry_spaces(links) && link->rail == 0 && peer->space_endpoints > 0;
    default: return true;
    }
}

uint32_t link_frame_bytes(const struct link_channel *channel)
{
    return (uint32_t)sizeof(struct rpc_header) + channel->rpc.payload_bytes;
}

/* Where a buffer lies in the one block of a link: receives of control, of calls (unless all of
 * those are written), of bulk. */
static uint8_t *frame_receive(const struct link_side *side, uint32_t number)
{
    const struct links *links = side->link->links;
    size_t before =
        side->kind == LINK_CONTROL ? 0 : (size_t)links->control.buffers * links->control.stride;

    return side->link->memory + before + (size_t)number * links_channel(links, side->kind)->stride;
}

uint32_t links_own_bulk(const struct links *links)
{
    return links->bulk.count > 0 ? 0 : links->config.bulk_receives;
}

bool links_carry_regions(const struct links *links)
{
    return links->config.writes > 0 && links->config.lane == 0;
}

bool links_carry_spaces(const struct links *links)
{
    return links->config.serves_spaces && links->config.lane == 0;
}

uint32_t links_posts(const struct links *links, enum link_endpoint kind)
{
    const struct links_config *config = &links->config;

    if (kind == LINK_BULK) {
        return config->reads + config->bulk_receives;
    }
    return config->reads + (link_is_own(kind) ? config->writes : 0);
}

uint32_t links_own_receives(const struct links *links)
{
    return links->control.receives + links->calls.receives + links_own_bulk(links);
}

static uint8_t *bulk_receive(const struct link *link, uint32_t number)
{
    return frame_receive(&link->sides[LINK_CALLS], link->links->calls.buffers) +
           (size_t)number * link->links->bulk_stride;
}

uint8_t *link_op_head(const struct link *link, uint32_t op)
{
    return bulk_receive(link, links_own_bulk(link->links)) + (size_t)op * LINK_HEAD_BYTES;
}

static uint64_t block_bytes(const struct links *links)
{
    return (uint64_t)links->control.buffers * links->control.stride +
           (uint64_t)links->calls.buffers * links->calls.stride +
           (uint64_t)links_own_bulk(links) * links->bulk_stride +
           (uint64_t)links->max_ops * LINK_HEAD_BYTES;
}

uint64_t link_memory_bytes(const struct links *links)
{
    return block_bytes(links) + (links_give_rings(links) ? links->config.ring_bytes : 0);
}

/* The parts of the one array that each side keeps its receives' numbers in, and of the other. */
static void init_sides(struct link *link)
{
    const struct links *links = link->links;
    uint32_t calls_at = links->control.receives;

    for (uint32_t kind = 0; kind < LINK_ENDPOINTS; kind++) {
        list_init(&link->sides[kind].sends);
        list_init(&link->sides[kind].waiting);
        link_side_reset(&link->sides[kind]);
    }
    link->sides[LINK_CONTROL].over = link->over;
    link->sides[LINK_CALLS].over = link->over + calls_at;
    link->sides[LINK_BULK].over = link->over + calls_at + links->calls.receives;
    link->sides[LINK_CONTROL].early = link->early;
    link->sides[LINK_CALLS].early = link->early + calls_at;
}

nigh_status link_init(struct link *link, struct links *links, uint32_t rank, uint32_t rail)
{
    uint64_t bytes = block_bytes(links);
    nigh_status status = NIGH_NO_RESOURCES;

    memset(link, 0, sizeof(*link));
    link->links = links;
    link->rank = rank;
    link->rail = rail;
    for (uint32_t kind = 0; kind < LINK_ENDPOINTS; kind++) {
        link->sides[kind] = (struct link_side){.link = link, .kind = kind};
    }
    link->memory = aligned_alloc(64, bytes);
    link->ops = calloc(links->max_ops, sizeof(*link->ops));
    link->early = calloc(links->control.receives + links->calls.receives, sizeof(*link->early));
    link->over = calloc(links_own_receives(links), sizeof(*link->over));
    if (link->memory == NULL || link->ops == NULL || link->early == NULL || link->over == NULL) {
        goto free_memory;
    }
    init_sides(link);
    status = fabric_memory_register(links->config.fabric, link->memory, bytes, FABRIC_HOST,
                                    FABRIC_LOCAL_WRITE, &link->registration);
    if (status != NIGH_OK) {
        goto free_memory;
    }
    status = link_ring_init(link);
    if (status != NIGH_OK) {
        goto deregister;
    }
    return NIGH_OK;

deregister:
    link_ring_fini(link);
    fabric_memory_deregister(links->config.fabric, link->registration);
free_memory:
    free(link->memory);
    free(link->ops);
    free(link->early);
    free(link->over);
    memset(link, 0, sizeof(*link));
    return status;
}

void link_fini(struct link *link)
{
    if (link->links == NULL) {
        return;
    }
    link_space_fini(link);
    link_ring_fini(link);
    fabric_memory_deregister(link->links->config.fabric, link->registration);
    free(link->memory);
    free(link->ops);
    free(link->early);
    free(link->over);
    memset(link, 0, sizeof(*link));
}

/* ---- receives ------------------------------------------------------------- */

static uint32_t receives_of(const struct link_side *side)
{
    const struct links *links = side->link->links;

    if (link_is_reader(side->kind) || link_is_own(side->kind)) {
        return 0;
    }
    if (side->kind == LINK_SPACES) {
        return link_space_receives();
    }
    return side->kind == LINK_BULK ? links_own_bulk(links)
                                   : links_channel(links, side->kind)->receives;
}

static struct fabric_receive receive_of(const struct link_side *side, uint32_t number)
{
    const struct links *links = side->link->links;
    const struct link_channel *channel = links_channel(links, side->kind);

    if (side->kind == LINK_SPACES) {
        return link_space_receive(side, number);
    }
    if (channel != NULL && channel->buffers == 0) {
        /* For an immediate alone. */
        return (struct fabric_receive){
            .tag = number,
            .slice = {.address = side->link->memory, .memory = side->link->registration}};
    }
    return (struct fabric_receive){
        .tag = number,
        .slice = {.address = channel != NULL ? frame_receive(side, number)
                                             : bulk_receive(side->link, number),
                  .bytes = channel != NULL ? link_frame_bytes(channel) : links->config.bulk_bytes,
                  .memory = side->link->registration},
    };
}

static void forget_receives(struct link_side *side)
{
    side->over_count = 0;
    if (list_is_linked(&side->place)) {
        list_remove(&side->place);
    }
}

static bool is_shared(const struct link_side *side)
{
    return side->kind == LINK_BULK && side->link->links->bulk.count > 0;
}

void link_post_receives(struct link_side *side)
{
    struct fabric_receive chain[LINK_CHAIN];
    uint32_t left = side->link->failed ? 0 : side->over_count;
    const uint32_t *next = side->over;

    while (left > 0) {
        uint32_t count = min_u32(left, LINK_CHAIN);
        const struct fabric_receive *bad;
        nigh_status status;

        for (uint32_t n = 0; n < count; n++) {
            chain[n] = receive_of(side, next[n]);
            chain[n].next = n + 1 < count ? &chain[n + 1] : NULL;
        }
        status = fabric_post_receive(side->link->links->config.fabric, side->endpoint, chain, &bad);
        /* Closed: its end comes as an event. There is always room: as many as the depth. */
        NIGH_ASSERT(status == NIGH_OK || status == NIGH_CLOSED);
        next += count;
        left -= count;
    }
    forget_receives(side);
}

void link_receive_is_over(struct link_side *side, uint32_t number)
{
    NIGH_ASSERT(side->over_count < receives_of(side));
    side->over[side->over_count++] = number;
    if (!list_is_linked(&side->place)) {
        list_push_back(&side->link->links->returning, &side->place);
    }
}

void links_give_back(struct links *links)
{
    bulk_post(&links->bulk);
    while (!list_empty(&links->returning)) {
        link_post_receives(container_of(list_first(&links->returning), struct link_side, place));
    }
}

/* ---- the channel ---------------------------------------------------------- */

static void on_send(void *context, const struct rpc_header *header, const struct rpc_piece *pieces,
                    uint32_t count)
{
    struct link_side *side = context;
    struct link *link = side->link;
    struct fabric_slice slices[1 + RPC_PIECES];
    uint64_t bytes = sizeof(*header);

    if (side->endpoint == NULL || link->failed) {
        return;
    }
    NIGH_ASSERT(count <= RPC_PIECES);
    /* What it gives back to the peer, credits of the channel or of bulk messages, is there. */
    link_post_receives(side);
    if (side->kind == LINK_CONTROL) {
        link_post_receives(&link->sides[LINK_BULK]);
        bulk_post(&link->links->bulk);
    }
    slices[0] =
        (struct fabric_slice){.address = (void *)(uintptr_t)header, .bytes = sizeof(*header)};
    for (uint32_t n = 0; n < count; n++) {
        slices[1 + n] = (struct fabric_slice){.address = (void *)(uintptr_t)pieces[n].data,
                                              .bytes = pieces[n].bytes};
        bytes += pieces[n].bytes;
    }
    link_send_frame(side, slices, 1 + count, bytes);
}

static void on_request(void *context, const struct rpc_request *request, uint64_t now_us)
{
    struct link_side *side = context;
    const struct links_shell *shell = &side->link->links->config.shell;

    if (side->kind == LINK_CALLS && request->method == LINK_METHOD_PROBE && request->call != 0) {
        link_on_probe(side, request);
        return;
    }
    (side->kind == LINK_CALLS ? shell->called : shell->request)(shell->context, side->link, request,
                                                                now_us);
}

static void on_canceled(void *context, uint64_t call)
{
    const struct link_side *side = context;
    const struct links_shell *shell = &side->link->links->config.shell;

    if (side->kind == LINK_CALLS && shell->withdrawn != NULL) {
        shell->withdrawn(shell->context, side->link, call);
    }
}

static nigh_status make_channel(struct link_side *side)
{
    struct links *links = side->link->links;
    struct rpc_config config = links_channel(links, side->kind)->rpc;

    side->unsignalled = 0;
    side->early_count = 0;
    config.pool = side->kind == LINK_CONTROL ? links->waits : NULL;
    config.shell = (struct rpc_shell){
        .context = side, .send = on_send, .request = on_request, .canceled = on_canceled};
    return rpc_create(&config, &side->rpc);
}

/* ---- up and down ---------------------------------------------------------- */

static nigh_status begin(struct link *link)
{
    nigh_status status;

    if (link->sides[LINK_CONTROL].rpc != NULL) {
        return NIGH_OK;
    }
    link->free_op = LINK_NO_OP;
    link->ops_used = 0;
    link->failed = false;
    status = make_channel(&link->sides[LINK_CONTROL]);
    if (status == NIGH_OK && link->links->calls.receives > 0) {
        status = make_channel(&link->sides[LINK_CALLS]);
    }
    return status;
}

struct fabric_endpoint_options link_endpoint_options(struct link *link, enum link_endpoint kind)
{
    struct links *links = link->links;

    if (kind == LINK_SPACES) {
        return link_space_options(&link->sides[kind]);
    }
    if (link_is_reader(kind) || link_is_own(kind)) {
        return (struct fabric_endpoint_options){.sends = links_posts(links, kind),
                                                .context = &link->sides[kind],
                                                .inline_bytes = LINK_HEAD_BYTES};
    }
    if (kind != LINK_BULK) {
        return (struct fabric_endpoint_options){
            .sends = links_channel(links, kind)->depth,
            .receives = links_channel(links, kind)->receives,
            .context = &link->sides[kind],
        };
    }
    return (struct fabric_endpoint_options){
        .sends = links_posts(links, kind),
        .receives = links_own_bulk(links),
        .stock = links->bulk.stock,
        .context = &link->sides[kind],
        .inline_bytes = LINK_HEAD_BYTES,
    };
}

nigh_status link_take_endpoint(struct link *link, enum link_endpoint kind,
                               struct fabric_endpoint *endpoint)
{
    nigh_status status = begin(link);

    link->sides[kind].endpoint = endpoint;
    link->sides[kind].established = false;
    if (kind == LINK_CALLS) {
        link_ring_begin(link);
    } else if (kind == LINK_SPACES) {
        link_space_begin(link);
    }
    if (status != NIGH_OK) {
        link_fail(link, status);
        return status;
    }
    for (uint32_t n = 0; n < receives_of(&link->sides[kind]); n++) {
        link_receive_is_over(&link->sides[kind], n);
    }
    link_post_receives(&link->sides[kind]);
    return NIGH_OK;
}

static void take_early(struct link_side *side, uint64_t now_us);

static bool is_whole(const struct link *link)
{
    bool whole = true;

    for (uint32_t kind = 0; kind < LINK_ENDPOINTS; kind++) {
        whole = whole && (link->sides[kind].established || !link_has(link, kind));
    }
    return whole;
}

void link_established(struct link *link, enum link_endpoint kind, uint64_t now_us)
{
    link->sides[kind].established = true;
    link_side_established(&link->sides[kind], now_us);
    if (link->up || link->failed || !is_whole(link)) {
        return;
    }
    link->up = true;
    link->place = link->links->live_count;
    link->links->live[link->links->live_count++] = link;
    link->up_us = now_us;
    link->links->counters.ups++;
    LOG_DEBUG("up", "rank=%u rail=%u", link->rank, link->rail);
    link->links->config.shell.up(link->links->config.shell.context, link, now_us);
    take_early(&link->sides[LINK_CONTROL], now_us);
    take_early(&link->sides[LINK_CALLS], now_us);
    link_space_take_early(&link->sides[LINK_SPACES], now_us);
    link_measure_calls(link, now_us);
}

void link_fail(struct link *link, nigh_status reason)
{
    if (!link->failed) {
        link->failed = true;
        link->reason = reason != NIGH_OK ? reason : NIGH_PEER_LOST;
        link->links->any_failed = true;
    }
}

static void leave_live(struct link *link)
{
    struct links *links = link->links;
    struct link *last = links->live[--links->live_count];

    links->live[link->place] = last;
    last->place = link->place;
}

/* The endpoints are gone before anybody hears that anything is over. */
static void drop_sides(struct link *link)
{
    struct links *links = link->links;

    for (uint32_t kind = 0; kind < LINK_ENDPOINTS; kind++) {
        struct link_side *side = &link->sides[kind];

        forget_receives(side);
        fabric_endpoint_destroy(links->config.fabric, side->endpoint);
        side->endpoint = NULL;
        side->established = false;
        link_side_reset(side);
    }
    bulk_drop(&links->bulk, link);
    for (uint32_t kind = 0; kind < LINK_ENDPOINTS; kind++) {
        struct link_side *side = &link->sides[kind];

        while (!list_empty(&side->sends)) {
            link_give_send(side, container_of(list_first(&side->sends), struct send, link));
        }
        while (!list_empty(&side->waiting)) {
            link_give_send(side, container_of(list_first(&side->waiting), struct send, link));
        }
    }
}

bool link_is_idle(const struct link *link)
{
    for (uint32_t kind = 0; kind < LINK_ENDPOINTS; kind++) {
        if (link->sides[kind].endpoint != NULL) {
            return false;
        }
    }
    return true;
}

void link_down(struct link *link, nigh_status reason, uint64_t now_us)
{
    struct links *links = link->links;
    bool was_up = link->up;

    if (link->sides[LINK_CONTROL].rpc == NULL && link_is_idle(link)) {
        link->failed = false;
        return;
    }
    link->failed = true; /* whatever is called meanwhile sends nothing */
    link->up = false;
    if (was_up) {
        leave_live(link);
        if (now_us >= clock_deadline_us(link->up_us, LINK_STEADY_US)) {
            link->attempts = 0;
        }
    }
    link_forget_chain(link);
    drop_sides(link);
    for (uint32_t kind = 0; kind < LINK_ENDPOINTS; kind++) {
        if (link->sides[kind].rpc != NULL) {
            /* A key that was refused is not why calls, or messages of others, end. */
            rpc_end(link->sides[kind].rpc, reason == NIGH_DENIED ? NIGH_PEER_LOST : reason, now_us);
        }
    }
    link_end_ops(link, reason, now_us);
    link_space_end(link, reason, now_us);
    if (was_up) {
        links->counters.downs++;
        LOG_DEBUG("down", "rank=%u rail=%u reason=%d", link->rank, link->rail, (int)reason);
        links->config.shell.down(links->config.shell.context, link, reason, now_us);
    }
    for (uint32_t kind = 0; kind < LINK_ENDPOINTS; kind++) {
        rpc_destroy(link->sides[kind].rpc);
        link->sides[kind].rpc = NULL;
    }
    link->data = NULL;
    link->ops_used = 0;
    link->failed = false;
}

/* ---- completions ---------------------------------------------------------- */

static nigh_status read_frame(struct link_side *side, const struct link_early *came,
                              uint64_t now_us)
{
    const void *frame = NULL;
    nigh_status status = NIGH_OK;

    if (side->kind == LINK_CALLS) {
        side->link->rings.came = came->is_written ? RPC_WAY_WRITTEN : RPC_WAY_SENT;
    }
    if (came->is_written) {
        status = link_ring_came(side->link, came->imm, came->bytes, &frame);
    } else if (links_channel(side->link->links, side->kind)->buffers > 0) {
        frame = frame_receive(side, came->number);
    } else {
        status = NIGH_PROTOCOL; /* there is nothing that it could lie in */
    }
    return status != NIGH_OK || frame == NULL ? status
                                              : rpc_receive(side->rpc, frame, came->bytes, now_us);
}

static void take_frame(struct link_side *side, const struct link_early *came, uint64_t now_us)
{
    struct link *link = side->link;
    nigh_status status = read_frame(side, came, now_us);

    if (status == NIGH_VERSION) {
        LOG_WARN("the peer speaks for another list of members",
                 "rank=%u rail=%u do=\"nothing: the link is made anew; if it comes again, start "
                 "that node with the list that all have (--join)\"",
                 link->rank, link->rail);
        link->links->counters.other_epochs++;
        link_fail(link, NIGH_PEER_LOST);
        return;
    }
    if (status != NIGH_OK) {
        LOG_WARN("the peer broke the protocol",
                 "rank=%u rail=%u do=\"nothing: the link is made anew; if it comes again, run the "
                 "same nighd at all nodes\"",
                 link->rank, link->rail);
        link_fail(link, NIGH_PROTOCOL);
        return;
    }
    if (!link->failed) {
        link_receive_is_over(side, came->number);
    }
    if (!link->failed && came->is_written) {
        link_ring_settle(side);
    }
}

/* The dialler is up as soon as it knows of all endpoints; what it says then may be here before we
 * know that, and may send. No more than its receives. */
static void take_early(struct link_side *side, uint64_t now_us)
{
    for (uint32_t n = 0; n < side->early_count && !side->link->failed; n++) {
        take_frame(side, &side->early[n], now_us);
    }
    side->early_count = 0;
}

static void on_frame(struct link_side *side, const struct fabric_completion *completion,
                     uint64_t now_us)
{
    struct link_early came = {.number = (uint32_t)completion->tag,
                              .bytes = (uint32_t)min_u64(completion->bytes, UINT32_MAX),
                              .is_written = completion->has_imm,
                              .imm = completion->imm};

    if (side->link->up) {
        take_frame(side, &came, now_us);
        return;
    }
    NIGH_ASSERT(side->early_count < links_channel(side->link->links, side->kind)->receives);
    side->early[side->early_count++] = came;
}

static void on_bulk_receive(struct link *link, const struct fabric_completion *completion,
                            uint64_t now_us)
{
    uint32_t number = (uint32_t)completion->tag;

    if (!link->up) {
        link_fail(link, NIGH_PROTOCOL);
        return;
    }
    link->kept = false;
    link->links->config.shell.bulk(link->links->config.shell.context, link,
                                   bulk_receive(link, number), (uint32_t)completion->bytes, now_us);
    if (!link->failed && !link->kept) {
        link_receive_is_over(&link->sides[LINK_BULK], number);
    }
}

/* Nothing lies in the receive that it took: it must not be read as a message. */
static void on_pushed(struct link *link, enum link_endpoint kind,
                      const struct fabric_completion *completion, uint64_t now_us)
{
    const struct links_shell *shell = &link->links->config.shell;

    if (!link->up || kind != LINK_BULK || shell->pushed == NULL) {
        link_fail(link, NIGH_PROTOCOL);
        return;
    }
    if (is_shared(&link->sides[kind])) {
        bulk_over(&link->links->bulk, (uint32_t)completion->tag);
        link->links->told = LINK_NO_RECEIVE;
    } else {
        link_receive_is_over(&link->sides[kind], (uint32_t)completion->tag);
    }
    shell->pushed(shell->context, link, completion->imm, completion->bytes, now_us);
}

/* A message in a receive that all links share: it comes back, whatever becomes of its link. */
static void on_shared(struct link_side *side, const struct fabric_completion *completion,
                      uint64_t now_us)
{
    struct link *link = side->link;
    struct links *links = link->links;
    const uint8_t *bytes = bulk_take(&links->bulk, (uint32_t)completion->tag);

    links->told = (uint32_t)completion->tag;
    if (side->endpoint == completion->endpoint && !link->failed) {
        if (completion->status != NIGH_OK) {
            link_fail(link, completion->status);
        } else if (completion->has_imm) {
            on_pushed(link, side->kind, completion, now_us);
        } else if (!link->up) {
            link_fail(link, NIGH_PROTOCOL);
        } else {
            links->config.shell.bulk(links->config.shell.context, link, bytes,
                                     (uint32_t)completion->bytes, now_us);
        }
    }
    if (links->told != LINK_NO_RECEIVE) {
        bulk_over(&links->bulk, links->told);
    }
    links->told = LINK_NO_RECEIVE;
}

void link_keep(struct link *link)
{
    struct links *links = link->links;

    if (links->bulk.count > 0) {
        bulk_keep(&links->bulk, links->told, link);
        links->told = LINK_NO_RECEIVE;
        return;
    }
    link->kept = true;
}

void link_give_back(struct link *link, const uint8_t *bytes)
{
    uint64_t number;

    if (link->links->bulk.count > 0) {
        bulk_give_back(&link->links->bulk, bytes);
        return;
    }
    number = (uint64_t)(bytes - bulk_receive(link, 0)) / link->links->bulk_stride;

    NIGH_ASSERT(number < link->links->config.bulk_receives);
    if (!link->failed) {
        link_receive_is_over(&link->sides[LINK_BULK], (uint32_t)number);
    }
}

void link_complete(struct link_side *side, const struct fabric_completion *completion,
                   uint64_t now_us)
{
    struct link *link = side->link;

    if (completion->op == FABRIC_RECV && is_shared(side)) {
        on_shared(side, completion, now_us);
        return;
    }
    if (side->endpoint != completion->endpoint) {
        return; /* of an endpoint that went down in this turn */
    }
    if (side->kind == LINK_SPACES) {
        link_space_complete(side, completion, now_us);
        return;
    }
    if (completion->op != FABRIC_RECV && links_channel(link->links, side->kind) == NULL) {
        link_on_op(side, completion, now_us);
        return;
    }
    if (completion->status != NIGH_OK) {
        link_fail(link, completion->status);
        return;
    }
    if (completion->op != FABRIC_RECV) {
        if (completion->tag != LINK_INLINE_TAG) {
            link_give_send(side, (struct send *)(uintptr_t)completion->tag);
        }
        return;
    }
    if (link->failed) {
        return;
    }
    if (completion->has_imm && side->kind != LINK_CALLS) {
        on_pushed(link, side->kind, completion, now_us);
    } else if (side->kind == LINK_BULK) {
        on_bulk_receive(link, completion, now_us);
    } else {
        on_frame(side, completion, now_us);
    }
}

/* ---- what is asked of a link ---------------------------------------------- */

uint32_t link_rank(const struct link *link)
{
    return link->rank;
}

uint32_t link_rail(const struct link *link)
{
    return link->rail;
}

void *link_data(const struct link *link)
{
    return link->data;
}

void link_set_data(struct link *link, void *data)
{
    link->data = data;
}

struct rpc *link_rpc(struct link *link)
{
    return link->sides[LINK_CONTROL].rpc;
}

struct rpc *link_calls(struct link *link)
{
    return link->sides[LINK_CALLS].rpc;
}

struct link *link_of_calls(const struct rpc *channel)
{
    const struct link_side *side = rpc_context(channel);

    return side->link;
}

enum link_way link_calls_way(const struct link *link, uint64_t *sent_us, uint64_t *written_us)
{
    const struct link_rings *rings = &link->rings;
    bool writes = rings->writer.units > 0 && (rings->is_only || rings->way == RPC_WAY_WRITTEN);

    *sent_us = rings->sent_us;
    *written_us = rings->written_us;
    return writes ? LINK_WRITE : LINK_SEND;
}

bool link_is_failing(const struct link *link)
{
    return link->failed;
}

void link_break(struct link *link, nigh_status reason, uint64_t now_us)
{
    (void)now_us;
    link_fail(link, reason);
}
