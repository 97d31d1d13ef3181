/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links over the simulated fabric: nodes of one and of four lanes that call each other, read each
 * other's memory and send messages, while links break and nodes die. Each operation ends once, and
 * memory is not touched after its end. Who has no good token does not get in.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/link_internal.h"
#include "fabric/sim/sim.h"
#include "support/support.h"

#define NODES_MAX  3u
#define LANES_MAX  4u
#define OPS        64u /* of one lane */
#define READ_BYTES 3000u
#define DATA_BYTES 65536u
#define BULK       4u
#define BULK_BYTES 1024u
#define REQUESTS   4u
#define CALLS      6u
#define PAYLOAD    900u
#define EPOCH      77u
#define RING       4096u /* the least that there may be is 3840 */

enum method {
    ECHO = 1,
    LATER = 2, /* replied to when the next one comes, or never */
    ACK = 3    /* a bulk message arrived: its receive is posted again */
};

enum op_kind {
    OP_CALL,
    OP_READ,
    OP_SEND
};

struct lane;

struct op {
    struct lane *lane;
    bool busy;
    enum op_kind kind;
    uint32_t rank; /* whom it went to */
    uint32_t from; /* READ: offset there */
    uint8_t buffer[READ_BYTES];
    bool poisoned;
    uint32_t bytes; /* CALL */
};

/* What hangs at a link while it is up. */
struct mine {
    uint32_t sends;        /* receives that the peer has for us */
    uint64_t later;        /* a request that waits for its reply; 0: none */
    uint64_t called_later; /* the same, on the channel for calls */
};

struct lane {
    struct node *node;
    uint32_t number;
    struct fabric *fabric;
    struct links *links;
    struct fabric_memory *data_memory, *op_memory;
    struct mine mines[NODES_MAX * LANES_MAX];
    bool mine_used[NODES_MAX * LANES_MAX];
    uint8_t data[DATA_BYTES];
    struct op ops[OPS];
    uint64_t begun, ended, good; /* operations */
};

struct node {
    struct world *world;
    uint32_t rank, lanes, incarnation;
    uint64_t other_epoch; /* 0: the one of all */
    bool alive;
    struct lane *lane[LANES_MAX];
    bool sees[NODES_MAX]; /* said to be up */
};

struct world {
    struct sim *sim;
    uint32_t count;
    struct node nodes[NODES_MAX];
    bool wild;            /* callbacks call anything */
    uint64_t other_epoch; /* of rank 1 */
    nigh_status reason;   /* of the last link that went down */
    uint32_t depth;
    uint64_t ups, downs;
    const char *elsewhere; /* hosts that peers offer before the one they are at; NULL: none */
    uint32_t reads;        /* of a link at once; 0: 3 */
    bool shared;           /* the links of a lane share receives */
    bool calls;            /* links have an endpoint for calls */
    enum link_way ways[NODES_MAX]; /* how calls of each travel */
    uint32_t ring_bytes;           /* 0: RING */
    uint32_t bulk;                 /* bulk endpoints of a link */
    bool keeps;                    /* messages, for ever */
    uint32_t regions;              /* endpoints for regions of a link */
    const uint8_t *seen; /* where the last request lay that came on an endpoint for calls */
    bool silent;         /* nobody is told that a message came */
    /* What others do while the last of BULK messages to a lane that is watched is told of. */
    void (*meanwhile)(struct world *world);
};

/* ---- operations ----------------------------------------------------------- */

static uint8_t pattern(uint32_t rank, uint32_t lane, uint32_t at)
{
    return (uint8_t)(rank * 101 + lane * 37 + at * 7 + at / 251);
}

static struct op *take_op(struct lane *lane)
{
    for (uint32_t n = 0; n < OPS; n++) {
        struct op *op = &lane->ops[(lane->begun + n) % OPS];

        if (!op->busy) {
            if (op->poisoned) { /* nothing came after its end */
                for (uint32_t at = 0; at < READ_BYTES; at++) {
                    assert_int_equal(op->buffer[at], 0xee);
                }
            }
            memset(op->buffer, 0, sizeof(op->buffer));
            op->busy = true;
            op->lane = lane;
            lane->begun++;
            return op;
        }
    }
    return NULL;
}

static void refuse_op(struct op *op)
{
    op->busy = op->poisoned = false;
    op->lane->begun--;
}

static void act(struct lane *lane);

static void end_op(struct op *op, nigh_status status)
{
    assert_true(op->busy); /* once */
    op->busy = false;
    op->lane->ended++;
    op->lane->good += status == NIGH_OK;
    memset(op->buffer, 0xee, sizeof(op->buffer));
    op->poisoned = true;
    act(op->lane);
}

static void on_call_done(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                         uint64_t now_us)
{
    struct op *op = context;

    (void)now_us;
    assert_int_equal(op->kind, OP_CALL);
    if (status == NIGH_OK) {
        assert_int_equal(bytes, op->bytes);
        assert_memory_equal(payload, op->buffer, bytes);
    }
    end_op(op, status);
}

static void on_op_done(void *context, nigh_status status, uint64_t now_us)
{
    struct op *op = context;
    struct node *peer = &op->lane->node->world->nodes[op->rank];

    (void)now_us;
    for (uint32_t at = 0; op->kind == OP_READ && status == NIGH_OK && at < READ_BYTES; at++) {
        if (op->buffer[at] != pattern(op->rank, 0, op->from + at)) {
            fail_msg("byte %u of a read from %u is wrong", at, peer->rank);
        }
    }
    end_op(op, status);
}

static void do_call(struct lane *lane, struct link *link, uint64_t how)
{
    struct op *op = take_op(lane);
    struct rpc_piece piece;
    uint64_t now_us = sim_now_us(lane->node->world->sim);
    bool on_calls = lane->node->world->calls && how / 2048 % 2 == 0;

    if (op == NULL) {
        return;
    }
    op->kind = OP_CALL;
    op->bytes = (uint32_t)(how % 2 == 0 ? how % 64 : how % PAYLOAD);
    for (uint32_t n = 0; n < op->bytes; n++) {
        op->buffer[n] = (uint8_t)(how >> n % 50);
    }
    piece = (struct rpc_piece){.data = op->buffer, .bytes = op->bytes};
    if (rpc_call(on_calls ? link_calls(link) : link_rpc(link), how / 64 % 4 == 0 ? LATER : ECHO,
                 &piece, 1, how / 256 % 4 == 0 ? now_us + how / 1024 % 5000 : UINT64_MAX, now_us,
                 on_call_done, op, NULL) != NIGH_OK) {
        refuse_op(op);
    }
}

/* Of bulk, or for regions, where there are such. */
static nigh_status read_over(struct link *link, uint64_t way, const struct fabric_slice *slices,
                             struct fabric_remote remote, struct op *op)
{
    enum link_endpoint over = link_regions(link, way == 1);

    return way > 1 || op->lane->node->world->regions == 0 || link_rail(link) > 0
               ? link_read(link, slices, 2, remote, on_op_done, op)
               : link_region_read(link, over, slices, 2, remote, on_op_done, op);
}

static void do_read(struct lane *lane, struct link *link, uint64_t how)
{
    struct node *peer = &lane->node->world->nodes[link_rank(link)];
    struct op *op = take_op(lane);
    struct fabric_slice slices[2];
    struct fabric_remote remote;

    if (op == NULL) {
        return;
    }
    op->kind = OP_READ;
    op->rank = link_rank(link);
    op->from = (uint32_t)(how % (DATA_BYTES - READ_BYTES));
    slices[0] = (struct fabric_slice){op->buffer, 1000, lane->op_memory};
    slices[1] = (struct fabric_slice){op->buffer + 1000, READ_BYTES - 1000, lane->op_memory};
    /* The peer's lane of this rail; a dead one's key is nobody's: refused, and the link ends. */
    if (!peer->alive) {
        refuse_op(op);
        return;
    }
    struct lane *there = peer->lane[link_rail(link) & (peer->lanes - 1)];
    remote = fabric_memory_remote(there->fabric, there->data_memory, there->data + op->from);
    remote.key += how / DATA_BYTES % 64 == 0 ? 1000 : 0; /* a wrong one */
    if (read_over(link, how / DATA_BYTES / 64 % 4, slices, remote, op) != NIGH_OK) {
        refuse_op(op);
    }
}

/* Nobody may: it ends the endpoint. */
static void do_write(struct lane *lane, struct link *link, uint64_t how)
{
    struct op *op = take_op(lane);
    struct fabric_slice slice;
    struct fabric_remote remote = {.address = 4096, .key = (uint32_t)how};

    if (op == NULL) {
        return;
    }
    op->kind = OP_SEND;
    op->rank = link_rank(link);
    slice = (struct fabric_slice){op->buffer, 64, lane->op_memory};
    if (link_write(link, link_regions(link, how / 8 % 2 == 0), &slice, 1, remote, on_op_done, op) !=
        NIGH_OK) {
        refuse_op(op);
    }
}

static void end_endpoint(struct lane *lane, struct link *link, uint64_t how)
{
    struct fabric_endpoint *endpoint = link->sides[LINK_REGIONS + how % 2].endpoint;

    if (endpoint != NULL) {
        fabric_disconnect(lane->fabric, endpoint);
    }
}

static void do_send(struct lane *lane, struct link *link, uint64_t how)
{
    struct mine *mine = link_data(link);
    struct fabric_slice slices[2];
    struct op *op;
    uint8_t head[16];

    if (mine == NULL || mine->sends == 0 || (op = take_op(lane)) == NULL) {
        return;
    }
    op->kind = OP_SEND;
    op->rank = link_rank(link);
    memset(head, 0x42, sizeof(head));
    memset(op->buffer, 0x43, READ_BYTES);
    slices[0] = (struct fabric_slice){head, sizeof(head), NULL};
    slices[1] = (struct fabric_slice){op->buffer, how % (BULK_BYTES - 16), lane->op_memory};
    if (link_send(link, slices, 1 + (how % (BULK_BYTES - 16) > 0), on_op_done, op) != NIGH_OK) {
        refuse_op(op);
        return;
    }
    memset(head, 0, sizeof(head)); /* taken during the call */
    mine->sends--;
}

/* Something to some link. */
static void act_once(struct lane *lane)
{
    struct world *world = lane->node->world;
    uint64_t how = sim_random(world->sim, UINT64_MAX);
    struct link *link = links_find(lane->links, (uint32_t)(how % world->count), how ^ (how << 32));

    if (link == NULL) {
        return;
    }
    assert_true(link_rails(link) > link_rail(link));
    switch (how / 16 % 8) {
    case 0:
    case 1:
    case 2: do_call(lane, link, how / 128); break;
    case 3:
    case 4: do_read(lane, link, how / 128); break;
    case 5:
    case 6: do_send(lane, link, how / 128); break;
    default:
        if (how / 128 % 8 == 0) {
            link_break(link, how / 1024 % 2 == 0 ? NIGH_TIMEOUT : NIGH_OK, sim_now_us(world->sim));
        } else if (how / 128 % 8 == 1 && world->regions > 0) {
            do_write(lane, link, how / 1024);
        } else if (how / 128 % 8 == 2 && world->regions > 0) {
            end_endpoint(lane, link, how / 1024);
        }
        break;
    }
    assert_true(links_is_valid(lane->links));
}

/* From inside a callback. */
static void act(struct lane *lane)
{
    struct world *world = lane->node->world;

    if (world->wild && lane->links != NULL && world->depth < 3 && sim_random(world->sim, 4) == 0) {
        world->depth++;
        act_once(lane);
        world->depth--;
    }
}

/* ---- what a fabric is asked for -------------------------------------------- */

/* One fabric's posts are looked at, and chains refused, in passing. */
static struct {
    struct fabric *fabric; /* NULL: none's */
    const struct fabric_provider *real;
    struct fabric_provider provider;
    const struct fabric_endpoint *bulk; /* whose posts and receives count */
    uint32_t posts, longest, works;     /* calls, works of one, works */
    uint32_t returns, returned;         /* calls that post receives; receives */
    uint32_t heard;                     /* messages that on_bulk was told of */
    uint32_t refuse_from;               /* works that are taken; then none are */
    nigh_status refusal;                /* NIGH_OK: all are taken */
} watch;

static nigh_status watched_post(struct fabric_endpoint *endpoint, const struct fabric_work *work,
                                const struct fabric_work **bad)
{
    struct fabric_work taken[LINK_FRAMES];
    uint32_t count = 0;

    if (endpoint != watch.bulk) {
        /* A frame leaves, which may tell of receives: all are there. */
        assert_true(watch.returned >= watch.heard);
        return watch.real->post(endpoint, work, bad);
    }
    watch.posts++;
    for (; work != NULL; work = work->next) {
        if (watch.refusal != NIGH_OK && count == watch.refuse_from) {
            break;
        }
        assert_true(count < LINK_FRAMES);
        taken[count] = *work;
        taken[count].next = NULL;
        if (count > 0) {
            taken[count - 1].next = &taken[count];
        }
        count++;
    }
    watch.works += count;
    watch.longest = count > watch.longest ? count : watch.longest;
    if (count > 0) {
        assert_int_equal(watch.real->post(endpoint, taken, bad), NIGH_OK);
    }
    if (work != NULL) {
        *bad = work;
        return watch.refusal;
    }
    return NIGH_OK;
}

static void watch_returns(const struct fabric_receive *receive)
{
    watch.returns++;
    for (; receive != NULL; receive = receive->next) {
        watch.returned++;
    }
}

static nigh_status watched_stock(struct fabric_stock *stock, const struct fabric_receive *receive,
                                 const struct fabric_receive **bad)
{
    watch_returns(receive);
    return watch.real->stock_post(stock, receive, bad);
}

static nigh_status watched_receive(struct fabric_endpoint *endpoint,
                                   const struct fabric_receive *receive,
                                   const struct fabric_receive **bad)
{
    if (endpoint == watch.bulk) {
        watch_returns(receive);
    }
    return watch.real->post_receive(endpoint, receive, bad);
}

static void watch_begin(struct lane *lane, const struct link *link)
{
    memset(&watch, 0, sizeof(watch));
    watch.fabric = lane->fabric;
    watch.real = lane->fabric->provider;
    watch.provider = *watch.real;
    watch.provider.post = watched_post;
    watch.provider.post_receive = watched_receive;
    watch.provider.stock_post = watched_stock;
    watch.bulk = link->sides[LINK_BULK].endpoint;
    lane->fabric->provider = &watch.provider;
}

static void watch_end(void)
{
    watch.fabric->provider = watch.real;
    memset(&watch, 0, sizeof(watch));
}

/* ---- the shell ------------------------------------------------------------ */

static void on_up(void *context, struct link *link, uint64_t now_us)
{
    struct lane *lane = context;
    uint32_t n = 0;

    (void)now_us;
    assert_null(link_data(link));
    while (lane->mine_used[n]) {
        n++;
    }
    lane->mine_used[n] = true;
    lane->mines[n] = (struct mine){.sends = BULK};
    link_set_data(link, &lane->mines[n]);
    lane->node->world->ups++;
    act(lane);
}

static void on_down(void *context, struct link *link, nigh_status reason, uint64_t now_us)
{
    struct lane *lane = context;
    struct mine *mine = link_data(link);

    (void)now_us;
    assert_int_not_equal(reason, NIGH_OK);
    assert_non_null(mine);
    lane->mine_used[mine - lane->mines] = false;
    lane->node->world->downs++;
    lane->node->world->reason = reason;
    link_break(link, NIGH_BUSY, now_us); /* does nothing */
    act(lane);
}

static void on_request(void *context, struct link *link, const struct rpc_request *request,
                       uint64_t now_us)
{
    struct lane *lane = context;
    struct mine *mine = link_data(link);
    struct rpc_piece piece = {.data = request->payload, .bytes = request->bytes};

    (void)now_us;
    assert_non_null(mine);
    if (request->method == ACK) {
        mine->sends++;
        assert_true(mine->sends <= BULK);
    } else if (request->method == ECHO) {
        rpc_reply(link_rpc(link), request->call, NIGH_OK, &piece, 1);
    } else {
        if (mine->later != 0) {
            rpc_reply(link_rpc(link), mine->later, NIGH_NOT_FOUND, NULL, 0);
        }
        mine->later = request->call;
    }
    act(lane);
}

/* The same, on a channel of its own. */
static void on_called(void *context, struct link *link, const struct rpc_request *request,
                      uint64_t now_us)
{
    struct lane *lane = context;
    struct mine *mine = link_data(link);
    struct rpc_piece piece = {.data = request->payload, .bytes = request->bytes};

    (void)now_us;
    assert_non_null(mine);
    lane->node->world->seen = request->payload;
    if (request->method == ECHO) {
        rpc_reply(link_calls(link), request->call, NIGH_OK, &piece, 1);
    } else {
        if (mine->called_later != 0) {
            rpc_reply(link_calls(link), mine->called_later, NIGH_NOT_FOUND, NULL, 0);
        }
        mine->called_later = request->call;
    }
    act(lane);
}

static void on_bulk(void *context, struct link *link, const uint8_t *bytes, uint32_t count,
                    uint64_t now_us)
{
    struct lane *lane = context;

    assert_true(count >= 16 && count <= BULK_BYTES);
    for (uint32_t n = 0; n < count; n++) {
        assert_int_equal(bytes[n], n < 16 ? 0x42 : 0x43);
    }
    watch.heard += lane->fabric == watch.fabric ? 1 : 0;
    link_keep(link);
    if (lane->node->world->keeps) {
        return;
    }
    link_give_back(link, bytes); /* nothing is told of a receive that is not there */
    if (!lane->node->world->silent &&
        rpc_one_way(link_rpc(link), ACK, NULL, 0, now_us) != NIGH_OK) {
        link_break(link, NIGH_BUSY, now_us);
    }
    if (lane->node->world->meanwhile != NULL && watch.heard == BULK) {
        lane->node->world->meanwhile(lane->node->world);
    }
    act(lane);
}

static uint32_t calls_window = REQUESTS; /* requests of calls that may be on their way */

/* ---- nodes ---------------------------------------------------------------- */

static struct links_config config_of(struct lane *lane)
{
    struct node *node = lane->node;
    struct rpc_config calls = {.requests = calls_window,
                               .calls = CALLS,
                               .queue = 1,
                               .payload_bytes = PAYLOAD,
                               .epoch = EPOCH + node->other_epoch};

    return (struct links_config){
        .calls = node->world->calls ? calls : (struct rpc_config){0},
        .calls_way = node->world->ways[node->rank],
        .ring_bytes = node->world->ring_bytes == 0 ? RING : node->world->ring_bytes,
        .fabric = lane->fabric,
        .rank = node->rank,
        .incarnation = node->incarnation,
        .lane = lane->number,
        .lanes = node->lanes,
        .nodes = node->world->count,
        .writes = node->world->regions > 0 ? 8 : 0,
        .rpc = {.requests = REQUESTS,
                .calls = CALLS,
                .queue = 1,
                .payload_bytes = PAYLOAD,
                .epoch = EPOCH + node->other_epoch},
        .waits = 4,
        .bulk_receives = BULK,
        .shared_bulk = node->world->shared ? BULK * (NODES_MAX - 1) * LANES_MAX : 0,
        .bulk_bytes = BULK_BYTES,
        .reads = node->world->reads == 0 ? 3 : node->world->reads,
        .seed = node->rank * 10 + lane->number,
        .shell = {.context = lane,
                  .up = on_up,
                  .down = on_down,
                  .request = on_request,
                  .bulk = on_bulk,
                  .called = on_called},
    };
}

static void lane_open(struct node *node, uint32_t number)
{
    struct lane *lane = calloc(1, sizeof(*lane));
    struct links_config config;
    char address[FABRIC_ADDRESS_BYTES];

    lane->node = node;
    lane->number = number;
    node->lane[number] = lane;
    assert_int_equal(sim_fabric(node->world->sim, node->rank, number, &lane->fabric), NIGH_OK);
    snprintf(address, sizeof(address), "%u:%u", node->rank, number);
    assert_int_equal(fabric_listen(lane->fabric, address), NIGH_OK);
    for (uint32_t at = 0; at < DATA_BYTES; at++) {
        lane->data[at] = pattern(node->rank, 0, at);
    }
    assert_int_equal(fabric_memory_register(lane->fabric, lane->data, DATA_BYTES, FABRIC_HOST,
                                            FABRIC_REMOTE_READ, &lane->data_memory),
                     NIGH_OK);
    assert_int_equal(fabric_memory_register(lane->fabric, lane->ops, sizeof(lane->ops), FABRIC_HOST,
                                            FABRIC_LOCAL_WRITE, &lane->op_memory),
                     NIGH_OK);
    config = config_of(lane);
    assert_int_equal(links_create(&config, &lane->links), NIGH_OK);
}

static void node_open(struct node *node)
{
    node->incarnation++;
    node->alive = true;
    memset(node->sees, 0, sizeof(node->sees));
    for (uint32_t n = 0; n < node->lanes; n++) {
        lane_open(node, n);
    }
}

static void node_close(struct node *node)
{
    if (!node->alive) {
        return;
    }
    node->alive = false;
    for (uint32_t n = 0; n < node->lanes; n++) {
        struct lane *lane = node->lane[n];
        struct links *links = lane->links;

        lane->links = NULL; /* callbacks use it no more */
        links_destroy(links);
        assert_true(lane->begun == lane->ended);
        for (uint32_t i = 0; i < OPS; i++) {
            assert_false(lane->ops[i].busy);
        }
        fabric_destroy(lane->fabric);
        free(lane);
        node->lane[n] = NULL;
    }
}

static void session_key(const struct node *a, const struct node *b, uint8_t key[AUTH_KEY_BYTES])
{
    const struct node *low = a->rank < b->rank ? a : b, *high = a->rank < b->rank ? b : a;

    memset(key, 0, AUTH_KEY_BYTES);
    key[0] = (uint8_t)low->rank;
    key[1] = (uint8_t)high->rank;
    memcpy(key + 4, &low->incarnation, 4);
    memcpy(key + 8, &high->incarnation, 4);
}

/* The control connection of `node` says that `peer` is up. */
static void say_up(struct node *node, const struct node *peer)
{
    struct link_peer info = {.rank = peer->rank,
                             .incarnation = peer->incarnation,
                             .dials = node->rank > peer->rank,
                             .lanes = peer->lanes,
                             .bulk_endpoints = node->world->bulk,
                             .region_endpoints = node->world->regions};

    session_key(node, peer, info.session);
    for (uint32_t n = 0; n < peer->lanes; n++) {
        snprintf(info.addresses[n], FABRIC_ADDRESS_BYTES, "%s%u:%u",
                 node->world->elsewhere != NULL ? node->world->elsewhere : "", peer->rank, n);
    }
    for (uint32_t n = 0; n < node->lanes; n++) {
        assert_int_equal(links_peer_up(node->lane[n]->links, &info, sim_now_us(node->world->sim)),
                         NIGH_OK);
    }
    node->sees[peer->rank] = true;
}

static void say_down(struct node *node, uint32_t rank)
{
    for (uint32_t n = 0; n < node->lanes; n++) {
        links_peer_down(node->lane[n]->links, rank, NIGH_PEER_LOST, sim_now_us(node->world->sim));
    }
    node->sees[rank] = false;
}

static void say_dead(struct node *node, uint32_t rank)
{
    for (uint32_t n = 0; n < node->lanes; n++) {
        links_peer_dead(node->lane[n]->links, rank, sim_now_us(node->world->sim));
    }
    node->sees[rank] = false;
}

static void all_see_all(struct world *world)
{
    for (uint32_t a = 0; a < world->count; a++) {
        for (uint32_t b = 0; b < world->count; b++) {
            if (a != b && world->nodes[a].alive && world->nodes[b].alive &&
                !world->nodes[a].sees[b]) {
                say_up(&world->nodes[a], &world->nodes[b]);
            }
        }
    }
}

static void world_open(struct world *world, const struct sim_options *options, uint32_t count,
                       const uint32_t *lanes)
{
    struct world asked = *world;

    *world = (struct world){.other_epoch = world->other_epoch,
                            .elsewhere = world->elsewhere,
                            .reads = world->reads,
                            .shared = world->shared,
                            .calls = world->calls,
                            .bulk = world->bulk,
                            .regions = world->regions,
                            .ring_bytes = world->ring_bytes};
    memcpy(world->ways, asked.ways, sizeof(world->ways));
    assert_int_equal(sim_create(options, &world->sim), NIGH_OK);
    world->count = count;
    for (uint32_t rank = 0; rank < count; rank++) {
        world->nodes[rank] = (struct node){.world = world, .rank = rank, .lanes = lanes[rank]};
        world->nodes[rank].other_epoch = rank == 1 ? world->other_epoch : 0;
        node_open(&world->nodes[rank]);
    }
}

static void world_close(struct world *world)
{
    for (uint32_t rank = 0; rank < world->count; rank++) {
        node_close(&world->nodes[rank]);
    }
    sim_destroy(world->sim);
}

/* Turns of all until nothing is to do now. */
static void turns(struct world *world)
{
    bool worked = true;

    for (uint32_t n = 0; worked && n < 1000; n++) {
        worked = false;
        for (uint32_t rank = 0; rank < world->count; rank++) {
            struct node *node = &world->nodes[rank];

            for (uint32_t lane = 0; node->alive && lane < node->lanes; lane++) {
                worked = links_turn(node->lane[lane]->links, sim_now_us(world->sim)) || worked;
                assert_true(links_is_valid(node->lane[lane]->links));
            }
        }
    }
    assert_false(worked);
}

static uint64_t due_us(struct world *world)
{
    uint64_t due_us = sim_next_us(world->sim);

    for (uint32_t rank = 0; rank < world->count; rank++) {
        struct node *node = &world->nodes[rank];

        for (uint32_t lane = 0; node->alive && lane < node->lanes; lane++) {
            uint64_t own_us = links_due_us(node->lane[lane]->links);

            due_us = own_us < due_us ? own_us : due_us;
        }
    }
    return due_us;
}

/* Lets so much time pass, event by event. */
static void pass(struct world *world, uint64_t us)
{
    uint64_t end_us = sim_now_us(world->sim) + us;

    for (;;) {
        uint64_t next_us;

        turns(world);
        next_us = due_us(world);
        if (next_us <= sim_now_us(world->sim)) {
            next_us = sim_now_us(world->sim) + 1;
        }
        if (next_us > end_us) {
            sim_advance(world->sim, end_us);
            turns(world);
            return;
        }
        sim_advance(world->sim, next_us);
    }
}

/* Whether every pair has its link for every shard. */
static bool all_up(struct world *world)
{
    for (uint32_t a = 0; a < world->count; a++) {
        for (uint32_t b = 0; b < world->count; b++) {
            for (uint64_t shard = 0; a != b && shard < LIMIT_SHARDS; shard++) {
                struct node *node = &world->nodes[a];
                struct link *link =
                    links_find(node->lane[shard & (node->lanes - 1)]->links, b, shard << 58);

                if (link == NULL || link_rank(link) != b ||
                    link_peer_incarnation(link) != world->nodes[b].incarnation) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* ---- tests ---------------------------------------------------------------- */

static const uint32_t shapes[][NODES_MAX] = {{1, 1, 1}, {4, 4, 4}, {1, 4, 2}, {4, 1, 1}};

static void count_link(void *context, struct link *link)
{
    (void)link;
    ++*(uint32_t *)context;
}

static void rails_join_the_lanes_that_share_shards(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof(shapes) / sizeof(shapes[0]); n++) {
        struct sim_options options = {.seed = n};
        struct world *world = calloc(1, sizeof(*world));

        world_open(world, &options, NODES_MAX, shapes[n]);
        all_see_all(world);
        pass(world, 10000);
        assert_true(all_up(world));
        for (uint32_t a = 0; a < NODES_MAX; a++) {
            uint32_t count = 0, wanted = 0;

            for (uint32_t lane = 0; lane < shapes[n][a]; lane++) {
                links_each(world->nodes[a].lane[lane]->links, count_link, &count);
                assert_null(links_find(world->nodes[a].lane[lane]->links, a, 0)); /* itself */
            }
            for (uint32_t b = 0; b < NODES_MAX; b++) {
                wanted += a == b ? 0 : shapes[n][a] > shapes[n][b] ? shapes[n][a] : shapes[n][b];
            }
            assert_int_equal(count, wanted);
        }
        /* Said again, it changes nothing. */
        memset(world->nodes[0].sees, 0, sizeof(world->nodes[0].sees));
        all_see_all(world);
        assert_true(all_up(world));
        assert_int_equal(world->downs, 0);
        world_close(world);
        free(world);
    }
}

static void expect_regions_at_rail_0(void *context, struct link *link)
{
    const struct world *world = context;

    for (uint32_t n = 0; n < LIMIT_REGION_ENDPOINTS; n++) {
        bool has = link_rail(link) == 0 && n < world->regions;

        assert_int_equal(link->sides[LINK_REGIONS + n].endpoint != NULL, has);
        assert_int_equal(link_carries(link, LINK_REGIONS + n), has);
    }
}

/* All that is of regions goes over one rail to each peer. */
static void regions_have_endpoints_at_rail_0(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 3 * sizeof(shapes) / sizeof(shapes[0]); n++) {
        struct sim_options options = {.seed = n};
        struct world *world = calloc(1, sizeof(*world));
        const uint32_t *lanes = shapes[n / 3];

        world->regions = n % 3;
        world_open(world, &options, NODES_MAX, lanes);
        all_see_all(world);
        pass(world, 10000);
        assert_true(all_up(world));
        for (uint32_t a = 0; a < NODES_MAX; a++) {
            for (uint32_t lane = 0; lane < lanes[a]; lane++) {
                links_each(world->nodes[a].lane[lane]->links, expect_regions_at_rail_0, world);
            }
        }
        world_close(world);
        free(world);
    }
}

static uint64_t taken_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* What links take goes with a member that is dead, not with one that is lost; and comes again. */
static void links_go_with_the_dead(void **state)
{
    struct sim_options options = {.seed = 1};
    struct world *world = calloc(1, sizeof(*world));
    uint64_t before, up, each = 0;

    (void)state;
    world_open(world, &options, 2, (const uint32_t[]){1, 4});
    all_see_all(world);
    pass(world, 10000);
    say_down(&world->nodes[1], 0);
    say_dead(&world->nodes[0], 1);
    pass(world, 10000);
    before = taken_bytes();
    for (uint32_t life = 0; life < 3; life++) {
        all_see_all(world);
        pass(world, 10000);
        assert_true(all_up(world));
        each = 4 * links_link_bytes(world->nodes[0].lane[0]->links);
        say_down(&world->nodes[0], 1);
        say_down(&world->nodes[1], 0);
        pass(world, 10000);
        up = taken_bytes();
        say_dead(&world->nodes[0], 1);
        assert_true(links_is_valid(world->nodes[0].lane[0]->links));
        assert_int_equal(world->nodes[0].lane[0]->links->link_count, 0);
        assert_true(up == 0 || up - taken_bytes() >= each / 2); /* 0: it is not known */
        pass(world, 10000);
        assert_true(taken_bytes() < before + each / 2);
    }
    world_close(world);
    free(world);
}

/* Nothing may be registered with the fabric of a lane that has no memory. */
static nigh_status refuse_memory(struct fabric *fabric, void *address, uint64_t bytes,
                                 enum fabric_kind kind, uint32_t rights,
                                 struct fabric_memory **memory)
{
    (void)fabric;
    (void)address;
    (void)bytes;
    (void)kind;
    (void)rights;
    (void)memory;
    return NIGH_NO_RESOURCES;
}

/* Whoever dials. What is heard of the peer meanwhile counts. */
static void links_without_memory_are_made_later(void **state)
{
    struct sim_options options = {.seed = 1};

    (void)state;
    for (uint32_t poor = 0; poor < 2; poor++) {
        struct world *world = calloc(1, sizeof(*world));
        struct link_peer info = {.rank = 1 - poor, .incarnation = 1, .dials = poor == 1};
        struct links *links;
        const struct fabric_provider *rich;
        struct fabric_provider without;

        world_open(world, &options, 2, (const uint32_t[]){1, 1});
        links = world->nodes[poor].lane[0]->links;
        rich = links->config.fabric->provider;
        without = *rich;
        without.memory_register = refuse_memory;
        links->config.fabric->provider = &without;
        info.lanes = 1;
        info.bulk_endpoints = world->bulk;
        snprintf(info.addresses[0], FABRIC_ADDRESS_BYTES, "%u:0", 1 - poor);
        session_key(&world->nodes[0], &world->nodes[1], info.session);
        assert_int_equal(links_peer_up(links, &info, sim_now_us(world->sim)), NIGH_NO_RESOURCES);
        say_down(&world->nodes[poor], 1 - poor); /* it is owed nothing any more */
        pass(world, 3 * LINK_OWED_US);
        assert_int_equal(links_due_us(links), UINT64_MAX);
        assert_int_equal(links_peer_up(links, &info, sim_now_us(world->sim)), NIGH_NO_RESOURCES);
        say_up(&world->nodes[1 - poor], &world->nodes[poor]);
        pass(world, 3 * LINK_OWED_US);
        assert_int_equal(links->link_count, 0);
        links->config.fabric->provider = rich;
        world->nodes[poor].sees[1 - poor] = true;
        pass(world, 3 * LINK_OWED_US);
        assert_true(all_up(world));
        world_close(world);
        free(world);
    }
}

/* A random hour: operations, breaks, deaths. */
static void storm(uint64_t seed, const uint32_t *lanes, bool wild, bool deaths, bool shared,
                  bool calls, uint64_t *good)
{
    static const enum link_way ways[][NODES_MAX] = {
        {LINK_SEND, LINK_SEND, LINK_SEND},
        {LINK_WRITE, LINK_WRITE, LINK_WRITE},
        {LINK_AUTO, LINK_AUTO, LINK_AUTO},
        {LINK_WRITE, LINK_AUTO, LINK_SEND},
    };
    struct sim_options options = {.seed = seed,
                                  .late_read_ppm = 100000,
                                  .break_ppm = 300,
                                  .stall_ppm = 2000,
                                  .refuse_ppm = 20000,
                                  .late_landing_ppm = 500000};
    struct world *world = calloc(1, sizeof(*world));

    world->shared = shared;
    world->calls = calls;
    world->regions = seed % 4 == 0 ? 0 : 1 + (uint32_t)(seed % LIMIT_REGION_ENDPOINTS);
    world->bulk = (uint32_t)(seed % (LIMIT_BULK_ENDPOINTS + 1)); /* 0 is 1 */
    memcpy(world->ways, ways[seed / 2 % ARRAY_LENGTH(ways)], sizeof(world->ways));
    world_open(world, &options, NODES_MAX, lanes);
    all_see_all(world);
    pass(world, 5000);
    world->wild = wild;
    for (uint32_t step = 0; step < 3000; step++) {
        struct node *node = &world->nodes[sim_random(world->sim, NODES_MAX)];
        uint32_t other = (uint32_t)sim_random(world->sim, NODES_MAX);

        if (!node->alive) {
            if (sim_random(world->sim, 200) == 0) {
                node_open(node);
            }
        } else if (deaths && sim_random(world->sim, 1000) == 0) {
            sim_crash(world->sim, node->rank);
            node_close(node);
            /* Some know at once. */
        } else {
            act_once(node->lane[sim_random(world->sim, node->lanes)]);
        }
        if (node->alive && node->sees[other] &&
            (sim_random(world->sim, 2000) == 0 ||
             (!world->nodes[other].alive && sim_random(world->sim, 50) == 0))) {
            /* Both sides hear of a new session, sooner or later. */
            (sim_random(world->sim, 2) == 0 ? say_down : say_dead)(node, other);
            if (world->nodes[other].alive) {
                say_down(&world->nodes[other], node->rank);
            }
        }
        for (uint32_t a = 0; a < NODES_MAX; a++) {
            for (uint32_t b = 0; b < NODES_MAX; b++) {
                struct node *one = &world->nodes[a], *two = &world->nodes[b];

                if (a != b && one->alive && two->alive && !one->sees[b] &&
                    sim_random(world->sim, 100) == 0) {
                    say_up(one, two);
                }
            }
        }
        if (sim_random(world->sim, 3) == 0) {
            pass(world, sim_random(world->sim, 400));
        }
    }
    /* Quiet: all comes up again. */
    world->wild = false;
    for (uint32_t rank = 0; rank < NODES_MAX; rank++) {
        if (!world->nodes[rank].alive) {
            node_open(&world->nodes[rank]);
        }
    }
    for (uint32_t a = 0; a < NODES_MAX; a++) {
        for (uint32_t b = 0; b < NODES_MAX; b++) {
            if (a != b) {
                say_down(&world->nodes[a], b);
            }
        }
    }
    all_see_all(world);
    for (uint32_t n = 0; !all_up(world); n++) {
        assert_true(n < 3000);
        pass(world, 10000);
    }
    for (uint32_t rank = 0; rank < NODES_MAX; rank++) {
        for (uint32_t n = 0; n < lanes[rank]; n++) {
            *good += world->nodes[rank].lane[n]->good;
        }
    }
    world_close(world);
    free(world);
}

static void everything_ends_once(void **state)
{
    (void)state;
    uint64_t seed = support_seed(), good = 0, seeds = 0;
    uint64_t end_us = support_now_us() + support_budget_ms(6000) * 1000;

    while (support_now_us() < end_us) {
        for (size_t n = 0; n < sizeof(shapes) / sizeof(shapes[0]); n++) {
            storm(seed + seeds, shapes[n], seeds % 2 == 0, seeds % 4 < 2, seeds % 3 > 0,
                  (seeds + n) % 2 == 0, &good);
        }
        seeds++;
    }
    print_message("# %llu seeds of %zu shapes, %llu operations went well\n",
                  (unsigned long long)seeds, sizeof(shapes) / sizeof(shapes[0]),
                  (unsigned long long)good);
    assert_true(good > 100 * seeds);
}

/* The peer is said to be up and does not answer. */
static void dials_back_off(void **state)
{
    (void)state;
    struct sim_options options = {.seed = 3};
    struct world *world = calloc(1, sizeof(*world));
    const struct links_counters *counters;
    uint64_t dials, last_us = 0, longest_us = 0, shortest_us = UINT64_MAX, until_us;

    world_open(world, &options, 2, shapes[0]);
    all_see_all(world);
    pass(world, 10000);
    assert_true(all_up(world));
    counters = links_counters(world->nodes[1].lane[0]->links);
    assert_int_equal(counters->dials, 1);
    sim_crash(world->sim, 0);
    node_close(&world->nodes[0]);
    dials = counters->dials;
    until_us = sim_now_us(world->sim) + 20000000;
    while (sim_now_us(world->sim) < until_us) {
        uint64_t next_us = due_us(world);

        sim_advance(world->sim,
                    next_us > sim_now_us(world->sim) ? next_us : sim_now_us(world->sim) + 1);
        turns(world);
        if (counters->dials > dials) {
            uint64_t gap_us = sim_now_us(world->sim) - last_us;

            assert_int_equal(counters->dials, dials + 1);
            if (last_us > 0) {
                longest_us = gap_us > longest_us ? gap_us : longest_us;
                shortest_us = gap_us < shortest_us ? gap_us : shortest_us;
            }
            last_us = sim_now_us(world->sim);
            dials = counters->dials;
        }
    }
    print_message("# %llu dials in 20 s, from %llu to %llu us apart\n",
                  (unsigned long long)counters->dials, (unsigned long long)shortest_us,
                  (unsigned long long)longest_us);
    assert_in_range(counters->dials, 4, 60);
    assert_true(shortest_us >= LINK_BACKOFF_MIN_US / 2);
    assert_true(longest_us <= LINK_BACKOFF_MAX_US + LINK_UP_US);
    /* It comes back, under another incarnation. */
    node_open(&world->nodes[0]);
    say_down(&world->nodes[1], 0);
    all_see_all(world);
    pass(world, 20000);
    assert_true(all_up(world));
    world_close(world);
    free(world);
}

/* A peer that offers several hosts is at one of them: the others are tried and left. */
static void hosts_are_tried_in_turn(void **state)
{
    (void)state;
    static const char *const elsewhere[] = {"7,", "7,6,", "7,6,5,"};

    for (uint32_t n = 0; n < ARRAY_LENGTH(elsewhere); n++) {
        struct sim_options options = {.seed = 4 + n};
        struct world *world = calloc(1, sizeof(*world));
        uint64_t until_us;

        world->elsewhere = elsewhere[n];
        world_open(world, &options, 2, shapes[0]);
        all_see_all(world);
        until_us = sim_now_us(world->sim) + 2 * (n + 1) * LINK_UP_US;
        while (!all_up(world) && sim_now_us(world->sim) < until_us) {
            pass(world, 10000);
        }
        assert_true(all_up(world));
        assert_int_equal(links_counters(world->nodes[1].lane[0]->links)->dials, n + 2);
        world_close(world);
        free(world);
    }
}

static nigh_status knock(struct world *world, struct fabric *fabric, const void *token,
                         uint32_t bytes, const char *address)
{
    struct fabric_endpoint_options options = {.sends = 1, .receives = 1};
    struct fabric_endpoint *endpoint;
    nigh_status status = NIGH_PENDING;

    assert_int_equal(fabric_connect(fabric, address, &options, token, bytes, &endpoint), NIGH_OK);
    for (uint32_t n = 0; n < 100 && status == NIGH_PENDING; n++) {
        struct fabric_completion completion;
        struct fabric_event event;

        pass(world, 100);
        fabric_poll(fabric, &completion, 1, sim_now_us(world->sim));
        while (fabric_next_event(fabric, &event)) {
            status = event.kind == FABRIC_ESTABLISHED ? NIGH_OK : event.status;
        }
    }
    fabric_endpoint_destroy(fabric, endpoint);
    return status;
}

static void a_bad_token_does_not_get_in(void **state)
{
    (void)state;
    struct sim_options options = {.seed = 4};
    struct world *world = calloc(1, sizeof(*world));
    const struct links_counters *counters;
    struct fabric *stranger;
    struct auth_token good, bad;
    uint8_t session[AUTH_KEY_BYTES], other[AUTH_KEY_BYTES] = {9};
    uint64_t refused = 0;

    world->bulk = 2;
    world->regions = 1;
    world_open(world, &options, 2, shapes[1]);
    all_see_all(world);
    pass(world, 10000);
    assert_true(all_up(world));
    assert_int_equal(sim_fabric(world->sim, 9, 0, &stranger), NIGH_OK);
    session_key(&world->nodes[0], &world->nodes[1], session);
    /* Rank 1 dials rank 0; this is lane 2's rail, by its first dial. */
    good = (struct auth_token){.kind = LINK_CONTROL,
                               .rank = 1,
                               .rail = 2,
                               .incarnation = 1,
                               .target_incarnation = 1,
                               .serial = 1};
    counters = links_counters(world->nodes[0].lane[2]->links);

#define REFUSED(token, bytes)                                                       \
    do {                                                                            \
        assert_int_equal(knock(world, stranger, token, bytes, "0:2"), NIGH_DENIED); \
        assert_int_equal(counters->refused, ++refused);                             \
        assert_true(all_up(world));                                                 \
    } while (0)
#define REFUSED_WITH(field, value)      \
    do {                                \
        bad = good;                     \
        bad.serial = 1000;              \
        bad.field = value;              \
        auth_token_sign(&bad, session); \
        REFUSED(&bad, sizeof(bad));     \
    } while (0)

    auth_token_sign(&good, session);
    REFUSED(&good, sizeof(good));     /* replayed */
    REFUSED(&good, 0);                /* none */
    REFUSED(&good, sizeof(good) - 1); /* a part of one */
    REFUSED_WITH(serial, 0);
    REFUSED_WITH(version, 1); /* the session's is 0 here */
    REFUSED_WITH(kind, LINK_CALLS);
    REFUSED_WITH(kind, LINK_REGIONS);   /* rail 0 alone has that */
    REFUSED_WITH(kind, LINK_READS + 1); /* there are two bulk endpoints */
    REFUSED_WITH(kind, LINK_ENDPOINTS);
    REFUSED_WITH(kind, 255);
    REFUSED_WITH(rank, 0);
    REFUSED_WITH(rank, 2);
    REFUSED_WITH(rank, 255);
    REFUSED_WITH(rail, 1);
    REFUSED_WITH(rail, 6);
    REFUSED_WITH(rail, 65535);
    REFUSED_WITH(incarnation, 2);
    REFUSED_WITH(incarnation, 0);
    REFUSED_WITH(target_incarnation, 2);
    bad = good;
    bad.serial = 1000;
    auth_token_sign(&bad, other); /* another session's */
    REFUSED(&bad, sizeof(bad));
    memcpy(bad.proof, good.proof, sizeof(bad.proof));
    REFUSED(&bad, sizeof(bad));
    /* The one that dials is not dialled. */
    bad = good;
    bad.rank = 0;
    bad.serial = 1000;
    auth_token_sign(&bad, session);
    assert_int_equal(knock(world, stranger, &bad, sizeof(bad), "1:2"), NIGH_DENIED);
    assert_true(all_up(world));
    assert_int_equal(world->downs, 0);
    /* A fresh one of the session is what the peer itself would say: the link is taken anew. */
    bad = good;
    bad.serial = 1000;
    auth_token_sign(&bad, session);
    assert_int_equal(knock(world, stranger, &bad, sizeof(bad), "0:2"), NIGH_OK);
    assert_true(world->downs > 0);
    /* When the peer is down, nobody. */
    say_down(&world->nodes[0], 1);
    bad.serial = 2000;
    auth_token_sign(&bad, session);
    assert_int_equal(knock(world, stranger, &bad, sizeof(bad), "0:2"), NIGH_DENIED);
    fabric_destroy(stranger);
    world_close(world);
    free(world);
}

/* As rank 1 would dial rank 0, to the end. */
static struct fabric_endpoint *dial_as_peer(struct world *world, struct fabric *fabric,
                                            enum link_endpoint kind, uint32_t serial)
{
    struct fabric_endpoint_options options = {.sends = 64, .receives = 64};
    struct auth_token token = {.kind = (uint8_t)kind,
                               .rank = 1,
                               .incarnation = 1,
                               .target_incarnation = 1,
                               .serial = serial};
    struct fabric_endpoint *endpoint;
    struct fabric_event event;
    uint8_t session[AUTH_KEY_BYTES];

    session_key(&world->nodes[0], &world->nodes[1], session);
    auth_token_sign(&token, session);
    assert_int_equal(
        fabric_connect(fabric, "0:0", &options, &token, (uint32_t)sizeof(token), &endpoint),
        NIGH_OK);
    pass(world, 2000);
    assert_true(fabric_next_event(fabric, &event));
    assert_int_equal(event.kind, FABRIC_ESTABLISHED);
    return endpoint;
}

/* An endpoint for regions that ended while its link was coming up is waited for as long as the link
 * is, which begins anew with each that the peer dials. */
static void an_endpoint_of_a_link_that_is_not_up_has_as_long(void **state)
{
    (void)state;
    struct sim_options options = {.seed = 4};
    struct world *world = calloc(1, sizeof(*world));
    struct fabric *peer;
    const struct link_side *side;
    struct links *links;

    world->regions = 1;
    world_open(world, &options, 2, shapes[0]);
    links = world->nodes[0].lane[0]->links;
    say_up(&world->nodes[0], &world->nodes[1]); /* which does not dial itself */
    assert_int_equal(sim_fabric(world->sim, 9, 0, &peer), NIGH_OK);
    side = &links->peers[1].links[0].sides[LINK_REGIONS];
    (void)dial_as_peer(world, peer, LINK_CONTROL, 1);
    fabric_endpoint_destroy(peer, dial_as_peer(world, peer, LINK_REGIONS, 2));
    pass(world, LINK_UP_US - 100000);
    assert_null(side->endpoint);
    assert_int_equal(links_counters(links)->region_ends, 1);
    (void)dial_as_peer(world, peer, LINK_BULK, 3);
    pass(world, 1000000);
    assert_null(links_find(links, 1, 0));
    (void)dial_as_peer(world, peer, LINK_REGIONS, 4);
    assert_non_null(links_find(links, 1, 0));
    assert_int_equal(world->downs, 0);
    fabric_destroy(peer);
    world_close(world);
    free(world);
}

static void wrong_configurations_are_refused(void **state)
{
    (void)state;
    struct sim_options options = {.seed = 5};
    struct world *world = calloc(1, sizeof(*world));
    struct links_config config, good;
    struct links *links = NULL;
    struct link_peer peer = {.rank = 1, .lanes = 3};

    world_open(world, &options, 2, shapes[0]);
    good = config_of(world->nodes[0].lane[0]);
#define WRONG(field, value)                                            \
    do {                                                               \
        config = good;                                                 \
        config.field = value;                                          \
        assert_int_equal(links_create(&config, &links), NIGH_INVALID); \
    } while (0)
    WRONG(nodes, 0);
    WRONG(nodes, LIMIT_NODES + 1);
    WRONG(rank, 2);
    WRONG(lanes, 0);
    WRONG(lanes, 3);
    WRONG(lane, 1);
    WRONG(reads, 0);
    WRONG(bulk_receives, 0);
    WRONG(bulk_receives, LIMIT_FABRIC_DEPTH + 1);
    WRONG(bulk_bytes, 0);
    WRONG(rpc.calls, LIMIT_RPC_CALLS);
    assert_null(links);
    assert_int_equal(links_peer_up(world->nodes[0].lane[0]->links, &peer, 0), NIGH_INVALID);
    peer = (struct link_peer){.rank = 0, .lanes = 1};
    assert_int_equal(links_peer_up(world->nodes[0].lane[0]->links, &peer, 0), NIGH_INVALID);
    peer.rank = 2;
    assert_int_equal(links_peer_up(world->nodes[0].lane[0]->links, &peer, 0), NIGH_INVALID);
    links_peer_down(world->nodes[0].lane[0]->links, 99, NIGH_PEER_LOST, 0);
    world_close(world);
    free(world);
}

/* A peer that speaks for another list of members is lost, not a liar; and the link comes again. */
static void another_epoch_is_no_lie(void **state)
{
    (void)state;
    struct sim_options options = {.seed = 8};
    struct world *world = calloc(1, sizeof(*world));
    struct links *there;
    struct link *link;

    world->other_epoch = 1;
    world_open(world, &options, 2, shapes[0]);
    all_see_all(world);
    pass(world, 10000);
    there = world->nodes[1].lane[0]->links;
    link = links_find(world->nodes[0].lane[0]->links, 1, 0);
    assert_non_null(link);
    do_call(world->nodes[0].lane[0], link, 320);
    /* The one that notices it says so; the other sees its connections end. */
    for (uint32_t n = 0; n < 1000 && world->downs == 0; n++) {
        pass(world, 10);
    }
    assert_int_equal(world->reason, NIGH_PEER_LOST);
    assert_int_equal(links_counters(there)->other_epochs, 1);
    pass(world, 100000);
    assert_true(all_up(world));
    world_close(world);
    free(world);
}

/* READs beyond the bound are refused, and sends have room all the same. */
static void reads_have_a_bound(void **state)
{
    (void)state;
    struct sim_options options = {.seed = 6, .late_read_ppm = 1000000, .late_read_us = 100000};
    struct world *world = calloc(1, sizeof(*world));
    struct lane *lane;
    struct link *link;

    world_open(world, &options, 2, shapes[0]);
    all_see_all(world);
    pass(world, 10000);
    lane = world->nodes[0].lane[0];
    link = links_find(lane->links, 1, 0);
    assert_non_null(link);
    for (uint32_t n = 0; n < 10; n++) {
        do_read(lane, link, DATA_BYTES);
    }
    assert_int_equal(lane->begun, 3);
    for (uint32_t n = 0; n < 10; n++) {
        do_send(lane, link, 100);
    }
    assert_int_equal(lane->begun, 3 + BULK);
    pass(world, 500000);
    assert_int_equal(lane->good, 3 + BULK);
    world_close(world);
    free(world);
}

static bool pairs_call; /* pairs that are opened from now on have endpoints for calls */

static struct world *open_pair_of(uint64_t seed, uint32_t reads, bool shared, struct lane **lane,
                                  struct link **link)
{
    struct sim_options options = {.seed = seed};
    struct world *world = calloc(1, sizeof(*world));

    world->reads = reads;
    world->shared = shared;
    world->calls = pairs_call;
    world_open(world, &options, 2, shapes[0]);
    all_see_all(world);
    pass(world, 10000);
    *lane = world->nodes[0].lane[0];
    *link = links_find((*lane)->links, 1, 0);
    assert_non_null(*link);
    return world;
}

static struct world *open_pair(uint64_t seed, uint32_t reads, struct lane **lane,
                               struct link **link)
{
    return open_pair_of(seed, reads, false, lane, link);
}

/* READs and messages that follow each other are one call of the fabric: when somebody says so, at
 * the end of a turn, or when a chain is full. */
static void what_follows_is_posted_together(void **state)
{
    struct lane *lane;
    struct link *link;
    struct world *world = open_pair(9, 20, &lane, &link);

    (void)state;
    watch_begin(lane, link);
    for (uint32_t n = 0; n < 4; n++) {
        do_read(lane, link, DATA_BYTES);
        do_send(lane, link, 100);
    }
    assert_int_equal(watch.posts, 0);
    assert_int_equal(links_due_us(lane->links), 0);
    links_flush(lane->links);
    links_flush(lane->links);
    assert_int_equal(watch.posts, 1);
    assert_int_equal(watch.longest, 8);
    do_read(lane, link, DATA_BYTES);
    do_read(lane, link, DATA_BYTES);
    links_turn(lane->links, sim_now_us(world->sim));
    assert_int_equal(watch.posts, 2);
    assert_int_equal(watch.works, 10);
    pass(world, 500000);
    assert_int_equal(lane->good, 10);
    for (uint32_t n = 0; n < 20; n++) {
        do_read(lane, link, DATA_BYTES);
    }
    assert_int_equal(watch.posts, 3);
    assert_int_equal(watch.longest, LINK_CHAIN);
    pass(world, 500000);
    assert_int_equal(watch.posts, 4);
    assert_int_equal(watch.works, 30);
    assert_int_equal(lane->good, 30);
    assert_int_equal(world->downs, 0);
    watch_end();
    world_close(world);
    free(world);
}

/* Chains of READs take turns over a link's bulk endpoints; messages, and READs behind them in a
 * chain, go over the first. They end in any order, and when one endpoint is lost, all do. */
static void reads_take_turns_over_the_bulk_endpoints(void **state)
{
    struct sim_options options = {.seed = 12};
    struct world *world = calloc(1, sizeof(*world));
    struct lane *lane;
    struct link *link;

    (void)state;
    world->reads = 20;
    world->bulk = 3;
    world_open(world, &options, 2, shapes[0]);
    all_see_all(world);
    pass(world, 10000);
    lane = world->nodes[0].lane[0];
    link = links_find(lane->links, 1, 0);
    assert_non_null(link);
    assert_null(link->sides[LINK_READS + 2].endpoint);
    for (uint32_t n = 0; n < 6; n++) {
        const struct link_side *side = &link->sides[n % 3 == 2 ? LINK_BULK : LINK_READS + n % 3];

        watch_begin(lane, link);
        watch.bulk = side->endpoint;
        do_read(lane, link, DATA_BYTES);
        do_read(lane, link, DATA_BYTES);
        links_flush(lane->links);
        assert_int_equal(watch.works, 2);
        watch_end();
    }
    watch_begin(lane, link);
    do_send(lane, link, 100);
    do_read(lane, link, DATA_BYTES);
    links_flush(lane->links);
    assert_int_equal(watch.works, 2);
    watch_end();
    pass(world, 500000);
    assert_int_equal(lane->good, 14);
    do_read(lane, link, DATA_BYTES);
    do_read(lane, link, DATA_BYTES);
    fabric_disconnect(lane->fabric, link->sides[LINK_READS + 1].endpoint);
    pass(world, 500000);
    assert_int_equal(lane->ended, lane->begun);
    assert_int_equal(world->downs, 2);
    assert_true(all_up(world));
    world_close(world);
    free(world);
}

/* The fabric takes a chain up to somewhere: all of it ends, each post once, with the link. */
static void a_chain_that_is_refused_ends(void **state)
{
    (void)state;
    for (uint32_t taken = 0; taken < 6; taken++) {
        struct lane *lane;
        struct link *link;
        struct world *world = open_pair(10 + taken, 0, &lane, &link);

        watch_begin(lane, link);
        watch.refuse_from = taken;
        watch.refusal = taken % 2 == 0 ? NIGH_BUSY : NIGH_CLOSED;
        for (uint32_t n = 0; n < 3; n++) {
            do_read(lane, link, DATA_BYTES);
            do_send(lane, link, 100);
        }
        assert_int_equal(lane->begun, 6);
        if (taken % 3 == 0) {
            links_flush(lane->links); /* those that were taken may end well before the others do */
            sim_advance(world->sim, sim_now_us(world->sim) + 500000);
        }
        links_turn(lane->links, sim_now_us(world->sim));
        assert_int_equal(watch.works, taken);
        assert_int_equal(lane->ended, 6);
        assert_true(lane->good <= taken);
        assert_int_equal(world->downs, 1);
        assert_int_equal(world->reason, taken % 2 == 0 ? NIGH_BUSY : NIGH_PEER_LOST);
        watch_end();
        pass(world, 500000);
        assert_true(all_up(world));
        world_close(world);
        free(world);
    }
}

/* What was asked for, and is not posted when the link ends, goes nowhere: not to the next one. */
static void a_chain_ends_with_its_link(void **state)
{
    struct lane *lane;
    struct link *link;
    struct world *world = open_pair(17, 0, &lane, &link);

    (void)state;
    do_read(lane, link, DATA_BYTES);
    do_send(lane, link, 100);
    say_down(&world->nodes[0], 1);
    assert_int_equal(lane->ended, 2);
    assert_int_equal(lane->good, 0);
    say_down(&world->nodes[1], 0);
    all_see_all(world);
    pass(world, 500000);
    assert_true(all_up(world));
    assert_int_equal(lane->ended, 2);
    world_close(world);
    free(world);
}

static void say_called(struct link *link, uint32_t bytes)
{
    static const uint8_t nothing[PAYLOAD];
    struct rpc_piece piece = {.data = nothing, .bytes = bytes};

    assert_int_equal(rpc_one_way(link_calls(link), LATER, &piece, 1, 0), NIGH_OK);
}

/* Small frames of calls wait for the end of the turn, or for a large one, which follows them; and
 * they end with their link. */
static void calls_go_together_and_in_order(void **state)
{
    struct lane *lane;
    struct link *link;
    struct world *world;

    (void)state;
    pairs_call = true;
    calls_window = 2 * LINK_FRAMES;
    world = open_pair(19, 0, &lane, &link);
    pairs_call = false;
    calls_window = REQUESTS;
    watch_begin(lane, link);
    watch.bulk = link->sides[LINK_CALLS].endpoint;
    say_called(link, 8);
    assert_int_equal(watch.posts, 0);
    assert_int_equal(links_due_us(lane->links), 0);
    say_called(link, PAYLOAD);
    assert_int_equal(watch.posts, 2);
    assert_int_equal(watch.works, 2);
    pass(world, 500000);
    say_called(link, 8);
    say_called(link, 8);
    links_flush_calls(lane->links);
    assert_int_equal(watch.longest, 2);
    assert_int_equal(watch.works, 4);
    pass(world, 500000);
    /* A crowd leaves as one, unless it is greater than that. */
    for (uint32_t n = 0; n < LINK_FRAMES - 1; n++) {
        say_called(link, 8);
    }
    assert_int_equal(watch.works, 4);
    say_called(link, 8);
    assert_int_equal(watch.works, 4 + LINK_FRAMES);
    assert_int_equal(watch.longest, LINK_FRAMES);
    pass(world, 500000);
    say_called(link, 8);
    watch_end();
    say_down(&world->nodes[0], 1);
    say_down(&world->nodes[1], 0);
    assert_int_equal(lane->links->frames.count, 0);
    all_see_all(world);
    pass(world, 500000);
    assert_true(all_up(world));
    world_close(world);
    free(world);
}

/* ---- frames of calls that are written -------------------------------------- */

/* Two nodes with these ways. */
static struct world *open_ways(uint64_t seed, enum link_way one, enum link_way two,
                               struct link *links[2])
{
    struct sim_options options = {.seed = seed};
    struct world *world = calloc(1, sizeof(*world));

    world->calls = true;
    world->ways[0] = one;
    world->ways[1] = two;
    world_open(world, &options, 2, shapes[0]);
    all_see_all(world);
    pass(world, 100000);
    assert_true(all_up(world));
    for (uint32_t n = 0; n < 2; n++) {
        links[n] = links_find(world->nodes[n].lane[0]->links, 1 - n, 0);
        assert_non_null(links[n]);
    }
    return world;
}

static const struct links_counters *counters_of(const struct link *link)
{
    return links_counters(link->links);
}

static void count_in_order(void *context, nigh_status status, const uint8_t *payload,
                           uint32_t bytes, uint64_t now_us)
{
    uint32_t *next = context;
    uint32_t number;

    (void)now_us;
    assert_int_equal(status, NIGH_OK);
    assert_true(bytes >= sizeof(number));
    memcpy(&number, payload, sizeof(number));
    assert_int_equal(number, *next);
    (*next)++;
}

/* So many calls at once, each of its size; their answers come in order. */
static void call_in_order(struct world *world, struct link *link, uint32_t count, uint32_t bytes)
{
    uint8_t payload[PAYLOAD] = {0};
    struct rpc_piece piece = {.data = payload, .bytes = bytes};
    uint32_t answered = 0;

    for (uint32_t n = 0; n < count; n++) {
        memcpy(payload, &n, sizeof(n));
        assert_int_equal(rpc_call(link_calls(link), ECHO, &piece, 1, UINT64_MAX,
                                  sim_now_us(world->sim), count_in_order, &answered, NULL),
                         NIGH_OK);
    }
    links_flush_calls(link->links);
    pass(world, 200000);
    assert_int_equal(answered, count);
}

/* Who may write where is for the reader to say, and what it does not say for the writer. */
static void both_sides_say_how_calls_travel(void **state)
{
    static const struct {
        enum link_way ways[2];
        bool written[2]; /* what the one says, the other */
        bool measured;
    } cases[] = {
        {{LINK_SEND, LINK_SEND}, {false, false}, false},
        {{LINK_WRITE, LINK_WRITE}, {true, true}, false},
        {{LINK_SEND, LINK_WRITE}, {true, false}, false},
        {{LINK_SEND, LINK_AUTO}, {false, false}, false},
        {{LINK_WRITE, LINK_AUTO}, {true, true}, false},
        {{LINK_AUTO, LINK_AUTO}, {false, false}, true}, /* alike in time */
    };

    (void)state;
    for (size_t n = 0; n < ARRAY_LENGTH(cases); n++) {
        struct link *links[2];
        struct world *world = open_ways(30 + n, cases[n].ways[0], cases[n].ways[1], links);
        struct links_counters before[2];

        for (uint32_t side = 0; side < 2; side++) {
            uint64_t sent_us = 0, written_us = 0;

            assert_int_equal(link_calls_way(links[side], &sent_us, &written_us),
                             cases[n].written[side] ? LINK_WRITE : LINK_SEND);
            assert_int_equal(sent_us > 0, cases[n].measured);
            assert_int_equal(written_us > 0, cases[n].measured);
            before[side] = *counters_of(links[side]);
            assert_int_equal(before[side].calls_written + before[side].calls_sent,
                             cases[n].measured ? 4 * (1 + RPC_WAY_CALLS) : 0);
        }
        /* Asked for it measures again, where it does. */
        link_measure_calls(links[0], sim_now_us(world->sim));
        link_measure_calls(links[0], sim_now_us(world->sim));
        pass(world, 100000);
        for (uint32_t side = 0; side < 2; side++) {
            const struct links_counters *after = counters_of(links[side]);

            assert_int_equal(after->calls_written + after->calls_sent,
                             before[side].calls_written + before[side].calls_sent +
                                 (cases[n].measured ? 2 * (1 + RPC_WAY_CALLS) : 0));
            before[side] = *after;
        }
        call_in_order(world, links[0], 3, 700);
        call_in_order(world, links[1], 2, 8);
        for (uint32_t side = 0; side < 2; side++) {
            const struct links_counters *after = counters_of(links[side]);

            assert_int_equal(after->calls_written - before[side].calls_written,
                             cases[n].written[side] ? 5 : 0);
            assert_int_equal(after->calls_sent - before[side].calls_sent,
                             cases[n].written[side] ? 0 : 5);
        }
        assert_int_equal(world->downs, 0);
        world_close(world);
        free(world);
    }
}

/* A ring has room for four frames: the fifth waits for it, or is sent, where the peer takes that;
 * the ring is told of, and nothing comes out of order. */
static void a_full_ring_delays_or_is_passed_by(void **state)
{
    (void)state;
    for (uint32_t only = 0; only < 2; only++) {
        struct link *links[2];
        struct world *world =
            open_ways(40 + only, LINK_WRITE, only ? LINK_WRITE : LINK_AUTO, links);
        uint64_t full, sent;

        for (uint32_t n = 0; n < 20; n++) {
            call_in_order(world, links[0], REQUESTS, PAYLOAD);
        }
        assert_int_equal(counters_of(links[0])->ring_full, 0);
        for (uint32_t n = 0; n < 20; n++) {
            full = counters_of(links[0])->ring_full;
            sent = counters_of(links[0])->calls_sent;
            /* The answers to what comes meanwhile find these there. */
            for (uint32_t i = 0; i < REQUESTS; i++) {
                say_called(links[0], PAYLOAD);
            }
            call_in_order(world, links[1], REQUESTS, PAYLOAD);
            assert_true(counters_of(links[0])->ring_full > full);
            assert_int_equal(counters_of(links[0])->calls_sent > sent, !only);
            assert_true(list_empty(&links[0]->sides[LINK_CALLS].waiting));
        }
        assert_true(counters_of(links[1])->ring_news > 0);
        assert_int_equal(world->downs, 0);
        world_close(world);
        free(world);
    }
}

/* Frames that wait for room when their link ends are forgotten, and their buffers come back. */
static void what_waits_for_room_ends_with_its_link(void **state)
{
    struct link *links[2];
    struct world *world = open_ways(44, LINK_WRITE, LINK_WRITE, links);

    (void)state;
    links[0]->rings.writer.used = links[0]->rings.writer.units;
    say_called(links[0], PAYLOAD);
    say_called(links[0], 8);
    assert_int_equal(links[0]->sides[LINK_CALLS].send_count, 2);
    link_break(links[0], NIGH_TIMEOUT, sim_now_us(world->sim));
    pass(world, 500000);
    assert_int_equal(world->downs, 2);
    assert_true(all_up(world));
    assert_int_equal(links[0]->sides[LINK_CALLS].send_count, 0);
    assert_int_equal(links[0]->rings.writer.used, 0);
    call_in_order(world, links[0], REQUESTS, PAYLOAD);
    world_close(world);
    free(world);
}

/* Who comes when there is room, and others wait for it still, goes behind them. */
static void nobody_overtakes_who_waits_for_room(void **state)
{
    struct link *links[2];
    struct world *world = open_ways(47, LINK_WRITE, LINK_WRITE, links);
    struct rpc_ring_writer *writer = &links[0]->rings.writer;

    (void)state;
    writer->used = writer->units;
    say_called(links[0], PAYLOAD);
    writer->used = 0;
    say_called(links[0], 8);
    assert_int_equal(links[0]->sides[LINK_CALLS].send_count, 2);
    assert_int_equal(counters_of(links[0])->calls_written, 0);
    link_send_waiting(&links[0]->sides[LINK_CALLS]);
    assert_true(list_empty(&links[0]->sides[LINK_CALLS].waiting));
    assert_int_equal(writer->used, 15 + 1);
    call_in_order(world, links[0], 2, PAYLOAD);
    world_close(world);
    free(world);
}

/* What a handler is given is not where its peer may write. */
static void what_came_through_a_ring_is_a_copy(void **state)
{
    struct link *links[2];
    struct world *world = open_ways(46, LINK_WRITE, LINK_WRITE, links);
    const uint8_t *memory = links[1]->rings.memory;

    (void)state;
    assert_non_null(memory);
    call_in_order(world, links[0], 1, PAYLOAD);
    assert_non_null(world->seen);
    assert_true(world->seen < memory || world->seen >= memory + RING);
    world_close(world);
    free(world);
}

/* With rings alone there is one of them in place of a buffer for each receive. */
static void rings_are_what_calls_take(void **state)
{
    struct link *links[2];
    struct world *world = open_ways(45, LINK_SEND, LINK_WRITE, links);
    uint64_t sent = links_link_bytes(links[0]->links), written = links_link_bytes(links[1]->links);
    uint32_t receives = links[0]->links->calls.receives;

    (void)state;
    assert_int_equal(receives, REQUESTS + CALLS + 3);
    assert_int_equal(links[1]->links->calls.receives, receives);
    assert_int_equal(sent - written, receives * links[0]->links->calls.stride - RING);
    world_close(world);
    free(world);
}

/* ---- a peer that lies about rings ------------------------------------------ */

/* What a liar posts on its endpoint for calls, beside the links that it has. */
static void lie(struct link *liar, enum fabric_op op, uint64_t at, uint32_t bytes, uint32_t imm)
{
    static uint8_t nothing[64];
    struct fabric_slice slice = {.address = nothing, .bytes = bytes};
    struct fabric_work work = {.op = op,
                               .flags = FABRIC_INLINE | FABRIC_SIGNALLED,
                               .tag = LINK_INLINE_TAG,
                               .slices = &slice,
                               .slice_count = bytes > 0,
                               .remote = liar->rings.remote,
                               .imm = imm};

    work.remote.address += at;
    assert_int_equal(
        fabric_post(liar->links->config.fabric, liar->sides[LINK_CALLS].endpoint, &work, NULL),
        NIGH_OK);
}

static void liars_about_rings_lose_their_link(void **state)
{
    static const struct {
        enum link_way way; /* of who is lied to */
        enum fabric_op op;
        uint64_t at;
        uint32_t bytes, imm;
        nigh_status reason;
    } lies[] = {
        {LINK_WRITE, FABRIC_WRITE_IMM, 0, 32, 1, NIGH_PROTOCOL},        /* it is at 0 */
        {LINK_WRITE, FABRIC_WRITE_IMM, 0, 32, 0, NIGH_PROTOCOL},        /* no frame */
        {LINK_WRITE, FABRIC_WRITE_IMM, 0, 31, 0, NIGH_PROTOCOL},        /* not even a header */
        {LINK_WRITE, FABRIC_WRITE_IMM, 0, 32, 1u << 16, NIGH_PROTOCOL}, /* nothing was taken */
        {LINK_WRITE, FABRIC_WRITE_IMM, 0, 0, 0, NIGH_PROTOCOL},
        {LINK_WRITE, FABRIC_WRITE_IMM, 0, 0, RPC_RING_NONE, NIGH_PROTOCOL},
        {LINK_WRITE, FABRIC_WRITE_IMM, 0, 0, 40u << 16 | RPC_RING_NONE, NIGH_PROTOCOL},
        {LINK_WRITE, FABRIC_WRITE_IMM, RING, 32, 0, NIGH_PEER_LOST}, /* beyond its end: refused */
        {LINK_WRITE, FABRIC_WRITE_IMM, RING - 31, 32, 0, NIGH_PEER_LOST},
        {LINK_WRITE, FABRIC_SEND, 0, 0, 0, NIGH_PROTOCOL}, /* there is no buffer for it */
        {LINK_WRITE, FABRIC_SEND, 0, 1, 0, NIGH_LIMIT},
        {LINK_SEND, FABRIC_WRITE_IMM, 0, 0, 0, NIGH_PROTOCOL}, /* no ring */
        {LINK_SEND, FABRIC_WRITE_IMM, 0, 0, RPC_RING_NONE, NIGH_PROTOCOL},
        {LINK_AUTO, FABRIC_WRITE_IMM, 64, 32, 1, NIGH_PROTOCOL},
    };

    (void)state;
    for (size_t n = 0; n < ARRAY_LENGTH(lies); n++) {
        struct link *links[2];
        struct world *world = open_ways(50 + n, lies[n].way, LINK_SEND, links);
        struct lane *lane = world->nodes[0].lane[0];

        lie(links[1], lies[n].op, lies[n].at, lies[n].bytes, lies[n].imm);
        for (uint32_t turn = 0; turn < 1000 && counters_of(links[0])->downs == 0; turn++) {
            sim_advance(world->sim, sim_now_us(world->sim) + 10);
            links_turn(lane->links, sim_now_us(world->sim));
        }
        assert_int_equal(counters_of(links[0])->downs, 1);
        if (world->reason != lies[n].reason) {
            fail_msg("lie %zu ends with %d", n, (int)world->reason);
        }
        /* It comes again, and works. */
        pass(world, 500000);
        assert_true(all_up(world));
        call_in_order(world, links[0], 2, PAYLOAD);
        world_close(world);
        free(world);
    }
}

/* Immediates beyond what was allowed find no receive, or break the count of credits first. */
static void immediates_without_a_credit_end_the_link(void **state)
{
    struct link *links[2];
    struct world *world = open_ways(70, LINK_WRITE, LINK_WRITE, links);

    (void)state;
    for (uint32_t n = 0; n < REQUESTS + CALLS + 10; n++) {
        lie(links[1], FABRIC_WRITE_IMM, 0, 0, 31u << 16 | RPC_RING_NONE);
    }
    pass(world, 1000);
    assert_int_equal(counters_of(links[0])->downs, 1);
    pass(world, 500000);
    assert_true(all_up(world));
    world_close(world);
    free(world);
}

/* What stands behind a token, or in the answer to one, is checked as all that a peer says. */
static void offers_are_checked(void **state)
{
    struct link *links[2];
    struct world *world = open_ways(71, LINK_AUTO, LINK_AUTO, links);
    struct link *link = links[0];
    uint8_t good[LINK_OFFER_BYTES], offer[LINK_OFFER_BYTES];

    (void)state;
    assert_int_equal(link_ring_offer(link, good), LINK_OFFER_BYTES);
    assert_int_equal(link_ring_take_offer(link, good, LINK_OFFER_BYTES), NIGH_OK);
    assert_int_equal(link->rings.writer.units, RING / RPC_RING_UNIT);
    assert_int_equal(link_ring_take_offer(link, good, LINK_OFFER_BYTES - 1), NIGH_PROTOCOL);
    assert_int_equal(link_ring_take_offer(link, good, 1), NIGH_PROTOCOL);
    assert_int_equal(link_ring_take_offer(link, good, 0), NIGH_OK);
    memcpy(offer, good, sizeof(offer));
    offer[14] = 2;
    assert_int_equal(link_ring_take_offer(link, offer, LINK_OFFER_BYTES), NIGH_PROTOCOL);
    memcpy(offer, good, sizeof(offer));
    offer[12] = 59; /* units: a fourth is no frame */
    assert_int_equal(link_ring_take_offer(link, offer, LINK_OFFER_BYTES), NIGH_PROTOCOL);
    offer[12] = 60;
    assert_int_equal(link_ring_take_offer(link, offer, LINK_OFFER_BYTES), NIGH_OK);
    assert_int_equal(link->rings.writer.units, 60);
    /* Who cannot write is not held up by a ring, unless there is no other way. */
    link->links->config.fabric->caps.ops &= ~FABRIC_CAN_WRITE_IMM;
    link->rings.writer.units = 0;
    assert_int_equal(link_ring_take_offer(link, offer, LINK_OFFER_BYTES), NIGH_OK);
    assert_int_equal(link->rings.writer.units, 0);
    offer[14] = 1;
    assert_int_equal(link_ring_take_offer(link, offer, LINK_OFFER_BYTES), NIGH_UNSUPPORTED);
    world_close(world);
    free(world);
}

/* Receives of messages that came in one turn are posted by one call, and before any frame leaves,
 * which may tell the peer that they are free. */
static void receives_are_given_back_together(void **state)
{
    (void)state;
    for (uint32_t way = 0; way < 4; way++) {
        bool silent = way % 2 == 1;
        struct lane *lane, *there;
        struct link *link, *back;
        struct world *world = open_pair_of(18, 0, way / 2 == 1, &lane, &link);

        world->silent = silent;
        there = world->nodes[1].lane[0];
        back = links_find(there->links, 0, 0);
        assert_non_null(back);
        watch_begin(lane, link);
        for (uint32_t n = 0; n < BULK; n++) {
            do_send(there, back, 100);
        }
        links_turn(there->links, sim_now_us(world->sim));
        sim_advance(world->sim, sim_now_us(world->sim) + 500000);
        links_turn(lane->links, sim_now_us(world->sim));
        assert_int_equal(watch.heard, BULK);
        assert_int_equal(watch.returned, BULK);
        assert_int_equal(watch.returns, silent ? 1 : BULK);
        watch_end();
        world_close(world);
        free(world);
    }
}

static void send_all_again(struct world *world)
{
    struct lane *there = world->nodes[1].lane[0];
    struct link *back = links_find(there->links, 0, 0);
    struct mine *mine = link_data(back);

    sim_advance(world->sim, sim_now_us(world->sim) + 10000);
    links_turn(there->links, sim_now_us(world->sim));
    assert_int_equal(mine->sends, BULK); /* it has heard that all of them were taken */
    for (uint32_t n = 0; n < BULK; n++) {
        do_send(there, back, 100);
    }
    links_turn(there->links, sim_now_us(world->sim));
    sim_advance(world->sim, sim_now_us(world->sim) + 10000);
}

/* The peer hears that all is free while the last message is still looked at, and the turn goes on:
 * what it sends has receives. */
static void check_what_is_granted(uint64_t seed, bool shared)
{
    struct lane *lane, *there;
    struct link *link, *back;
    struct world *world = open_pair_of(seed, 0, shared, &lane, &link);

    there = world->nodes[1].lane[0];
    back = links_find(there->links, 0, 0);
    assert_non_null(back);
    world->meanwhile = send_all_again;
    watch_begin(lane, link);
    for (uint32_t n = 0; n < BULK; n++) {
        do_send(there, back, 100);
    }
    links_turn(there->links, sim_now_us(world->sim));
    sim_advance(world->sim, sim_now_us(world->sim) + 10000);
    links_turn(lane->links, sim_now_us(world->sim));
    pass(world, 100000);
    assert_int_equal(watch.heard, 2 * BULK);
    assert_int_equal(there->good, 2 * BULK);
    assert_int_equal(world->downs, 0);
    watch_end();
    world_close(world);
    free(world);
}

static void what_is_granted_is_there(void **state)
{
    (void)state;
    check_what_is_granted(20, false);
    check_what_is_granted(21, true);
}

/* What all links share: who keeps messages keeps them no longer than their link is up. */
static void receives_that_are_kept_come_back(void **state)
{
    enum {
        ROUNDS = 3 * (NODES_MAX - 1) * LANES_MAX
    };
    struct lane *lane, *there;
    struct link *link;
    struct world *world = open_pair_of(22, 0, true, &lane, &link);

    (void)state;
    there = world->nodes[1].lane[0];
    world->keeps = true;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        assert_true(all_up(world));
        for (uint32_t n = 0; n < BULK; n++) {
            do_send(there, links_find(there->links, 0, 0), 100);
        }
        pass(world, 10000);
        assert_int_equal(there->good, (round + 1) * BULK);
        say_down(&world->nodes[0], 1);
        say_down(&world->nodes[1], 0);
        all_see_all(world);
        pass(world, 500000);
    }
    world_close(world);
    free(world);
}

/* What a lane keeps for 255 others, and a turn with nothing to do. */
static void what_links_cost(void **state)
{
    (void)state;
    struct sim_options options = {.seed = 7};
    struct world *world = calloc(1, sizeof(*world));
    struct links_config config;
    struct links *links;
    struct fabric *fabric;
    uint64_t from_us;

    world_open(world, &options, 2, shapes[0]);
    assert_int_equal(sim_fabric(world->sim, 5, 0, &fabric), NIGH_OK);
    config = config_of(world->nodes[0].lane[0]);
    config.fabric = fabric;
    config.nodes = LIMIT_NODES;
    assert_int_equal(links_create(&config, &links), NIGH_OK);
    for (uint32_t rank = 1; rank < LIMIT_NODES; rank++) {
        struct link_peer peer = {.rank = rank, .incarnation = 1, .lanes = 1};

        assert_int_equal(links_peer_up(links, &peer, 0), NIGH_OK);
    }
    from_us = support_now_us();
    for (uint32_t n = 0; n < 10000; n++) {
        links_turn(links, n * 1000);
        links_due_us(links);
    }
    print_message("# an idle turn with %u peers that are waited for: %.0f ns\n", LIMIT_NODES - 1,
                  (double)(support_now_us() - from_us) * 1000.0 / 10000.0);
    links_destroy(links);
    fabric_destroy(fabric);
    world_close(world);
    free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rails_join_the_lanes_that_share_shards),
        cmocka_unit_test(regions_have_endpoints_at_rail_0),
        cmocka_unit_test(links_go_with_the_dead),
        cmocka_unit_test(links_without_memory_are_made_later),
        cmocka_unit_test(everything_ends_once),
        cmocka_unit_test(dials_back_off),
        cmocka_unit_test(hosts_are_tried_in_turn),
        cmocka_unit_test(a_bad_token_does_not_get_in),
        cmocka_unit_test(an_endpoint_of_a_link_that_is_not_up_has_as_long),
        cmocka_unit_test(wrong_configurations_are_refused),
        cmocka_unit_test(another_epoch_is_no_lie),
        cmocka_unit_test(reads_have_a_bound),
        cmocka_unit_test(what_follows_is_posted_together),
        cmocka_unit_test(reads_take_turns_over_the_bulk_endpoints),
        cmocka_unit_test(a_chain_that_is_refused_ends),
        cmocka_unit_test(a_chain_ends_with_its_link),
        cmocka_unit_test(calls_go_together_and_in_order),
        cmocka_unit_test(both_sides_say_how_calls_travel),
        cmocka_unit_test(a_full_ring_delays_or_is_passed_by),
        cmocka_unit_test(what_waits_for_room_ends_with_its_link),
        cmocka_unit_test(nobody_overtakes_who_waits_for_room),
        cmocka_unit_test(what_came_through_a_ring_is_a_copy),
        cmocka_unit_test(rings_are_what_calls_take),
        cmocka_unit_test(liars_about_rings_lose_their_link),
        cmocka_unit_test(immediates_without_a_credit_end_the_link),
        cmocka_unit_test(offers_are_checked),
        cmocka_unit_test(receives_are_given_back_together),
        cmocka_unit_test(what_is_granted_is_there),
        cmocka_unit_test(receives_that_are_kept_come_back),
        cmocka_unit_test(what_links_cost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
