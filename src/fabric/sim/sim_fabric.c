/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane's fabric in simulation: the provider's table, listening, and what a poll gives. All that
 * happens happens in sim_advance; a poll only takes what has become known.
 */
#include "fabric/sim/sim_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct fabric_provider sim_provider;

nigh_status sim_fabric(struct sim *sim, uint32_t number, uint32_t lane, struct fabric **out)
{
    struct sim_node *node;

    if (lane >= LIMIT_LANES)
        return NIGH_LIMIT;
    nigh_status status = sim_make_node(sim, number, &node);

    if (status != NIGH_OK)
        return status;
    if (node->fabrics[lane] != NULL)
        return NIGH_EXISTS;
    struct sim_fabric *fabric = calloc(1, sizeof(*fabric));

    if (fabric == NULL)
        return NIGH_NO_RESOURCES;
    fabric->fabric.provider = &sim_provider;
    fabric->fabric.caps = (struct fabric_caps){
        .name = "sim",
        .ops = FABRIC_CAN_WRITE_IMM | FABRIC_CAN_ATOMICS | FABRIC_CAN_READ_PRIVATE |
               FABRIC_CAN_OFFLOAD | FABRIC_CAN_SHARE | FABRIC_CAN_ATOMICS_HERE | FABRIC_CAN_LOOP |
               (sim->options.torn_words != 0 ? 0 : FABRIC_CAN_WORDS),
        .inline_bytes = SIM_INLINE_BYTES,
        .slices = LIMIT_FABRIC_SLICES,
        .reads = LIMIT_FABRIC_READS,
        .message_bytes = LIMIT_FABRIC_MESSAGE,
        .memories = LIMIT_FABRIC_MEMORIES,
    };
    fabric->sim = sim;
    fabric->node = node;
    fabric->lane = lane;
    list_init(&fabric->ends);
    list_init(&fabric->completions);
    list_init(&fabric->notices);
    list_init(&fabric->stocks);
    fabric->generation = (uint32_t)random_u64(&sim->random);
    fabric->next_address = SIM_ADDRESS_FIRST * (1 + random_below(&sim->random, 1024));
    node->fabrics[lane] = fabric;
    sim->fabric_count++;
    *out = &fabric->fabric;
    return NIGH_OK;
}

static void sim_fabric_destroy(struct fabric *base)
{
    struct sim_fabric *fabric = sim_fabric_of(base);
    struct list_node *node;

    while ((node = list_first(&fabric->ends)) != NULL)
        sim_endpoint_destroy(container_of(node, struct fabric_endpoint, node));
    while ((node = list_first(&fabric->stocks)) != NULL)
        sim_stock_destroy(container_of(node, struct fabric_stock, node));
    NIGH_ASSERT(list_empty(&fabric->completions) && list_empty(&fabric->notices));
    sim_memory_fini(fabric);
    if (!fabric->crashed)
        fabric->node->fabrics[fabric->lane] = NULL;
    fabric->sim->fabric_count--;
    free(fabric);
}

void sim_fabric_crash(struct sim_fabric *fabric)
{
    fabric->crashed = true;
    fabric->listening = false;
    LIST_FOREACH(node, &fabric->ends)
    {
        sim_end_crash(container_of(node, struct fabric_endpoint, node));
    }
}

/* ---- listening ------------------------------------------------------------ */

/* Its own address; a star for the node, and 0 for the lane, leave it to the fabric. */
static nigh_status sim_listen(struct fabric *base, const char *address)
{
    struct sim_fabric *fabric = sim_fabric_of(base);
    char spelled[FABRIC_ADDRESS_BYTES];
    uint32_t number, lane;

    if (address[0] == '*') {
        (void)snprintf(spelled, sizeof(spelled), "%u%.40s", fabric->node->number, address + 1);
        address = spelled;
    }
    if (!sim_parse_address(address, &number, &lane) || number != fabric->node->number ||
        (lane != fabric->lane && lane != 0))
        return NIGH_INVALID;
    if (fabric->listening)
        return NIGH_BUSY;
    fabric->listening = !fabric->crashed;
    return NIGH_OK;
}

static void sim_address(const struct fabric *base, char address[FABRIC_ADDRESS_BYTES])
{
    const struct sim_fabric *fabric = container_of(base, const struct sim_fabric, fabric);

    address[0] = '\0';
    if (fabric->listening)
        (void)snprintf(address, FABRIC_ADDRESS_BYTES, "%u:%u", fabric->node->number, fabric->lane);
}

/* ---- what a poll gives ---------------------------------------------------- */

void sim_notify(struct fabric_endpoint *end, enum fabric_event_kind kind, nigh_status status)
{
    struct sim_notice *notice;

    if (end->is_hidden)
        return;
    notice = sim_pool_take(&end->fabric->sim->notices);
    notice->end = end;
    notice->kind = kind;
    notice->status = status;
    list_push_back(&end->fabric->notices, &notice->node);
}

void sim_complete(struct sim_ending *ending)
{
    list_push_back(&ending->end->fabric->completions, &ending->node);
}

static bool sim_is_mute(const struct sim_fabric *fabric)
{
    return fabric->crashed || fabric->node->paused;
}

static void sim_take(struct sim *sim, struct sim_ending *ending, struct fabric_completion *out)
{
    struct fabric_endpoint *end = ending->end;

    *out = (struct fabric_completion){.endpoint = end,
                                      .context = end->options.context,
                                      .tag = ending->tag,
                                      .op = (enum fabric_op)ending->op,
                                      .status = ending->status,
                                      .has_imm = ending->has_imm,
                                      .imm = ending->imm,
                                      .bytes = ending->bytes};
    sim_fold(sim, end->id << 16 ^ (uint64_t)ending->op << 8 ^ (uint8_t)ending->status);
    sim_fold(sim, ending->bytes << 32 | ending->imm);
    if (ending->op == FABRIC_RECV) {
        struct sim_receive *receive = container_of(ending, struct sim_receive, ending);

        *(receive->stock != NULL ? &receive->stock->taken : &end->receives_taken) -= 1;
        sim_receive_free(sim, receive);
    } else {
        struct sim_work *work = container_of(ending, struct sim_work, ending);

        end->posts_taken -= ending->released;
        work->owned = false;
        sim_work_release(work);
    }
}

static uint32_t sim_poll(struct fabric *base, struct fabric_completion *completions, uint32_t count,
                         uint64_t now_us)
{
    struct sim_fabric *fabric = sim_fabric_of(base);
    uint32_t taken = 0;

    (void)now_us; /* the world has a clock of its own */
    if (sim_is_mute(fabric))
        return 0;
    while (taken < count) {
        struct list_node *node = list_pop_front(&fabric->completions);

        if (node == NULL)
            break;
        sim_take(fabric->sim, container_of(node, struct sim_ending, node), &completions[taken]);
        taken++;
    }
    return taken;
}

static bool sim_next_event(struct fabric *base, struct fabric_event *event)
{
    struct sim_fabric *fabric = sim_fabric_of(base);
    struct list_node *node = sim_is_mute(fabric) ? NULL : list_pop_front(&fabric->notices);

    if (node == NULL)
        return false;
    struct sim_notice *notice = container_of(node, struct sim_notice, node);
    struct fabric_endpoint *end = notice->end;
    const struct sim_wire *wire = end->wire;
    uint32_t from = 1 - end->side;

    *event = (struct fabric_event){.kind = notice->kind,
                                   .endpoint = end,
                                   .context = end->options.context,
                                   .status = notice->status};
    if (notice->kind == FABRIC_REQUEST || (notice->kind == FABRIC_ESTABLISHED && from == 1)) {
        event->private_bytes = wire->private_bytes[from];
        memcpy(event->private_data, wire->private_data[from], FABRIC_PRIVATE_BYTES);
    }
    sim_fold(fabric->sim, end->id << 16 ^ (uint64_t)notice->kind << 8 ^ (uint8_t)notice->status);
    sim_pool_give(&fabric->sim->notices, notice);
    return true;
}

static int sim_fd(const struct fabric *base)
{
    (void)base;
    return -1;
}

static bool sim_arm(struct fabric *base)
{
    struct sim_fabric *fabric = sim_fabric_of(base);

    return sim_is_mute(fabric) ||
           (list_empty(&fabric->completions) && list_empty(&fabric->notices));
}

/* Everything that happens is the world's: poll when it has gone on. */
static uint64_t sim_due_us(const struct fabric *base)
{
    return sim_next_us(container_of(base, const struct sim_fabric, fabric)->sim);
}

static const struct fabric_provider sim_provider = {
    .destroy = sim_fabric_destroy,
    .listen = sim_listen,
    .address = sim_address,
    .memory_register = sim_memory_register,
    .memory_remote = sim_memory_remote,
    .memory_deregister = sim_memory_deregister,
    .connect = sim_connect,
    .accept = sim_accept,
    .reject = sim_reject,
    .loop = sim_loop,
    .post = sim_post,
    .post_receive = sim_post_receive,
    .stock_create = sim_stock_create,
    .stock_destroy = sim_stock_destroy,
    .stock_post = sim_stock_post,
    .disconnect = sim_disconnect,
    .endpoint_destroy = sim_endpoint_destroy,
    .poll = sim_poll,
    .next_event = sim_next_event,
    .fd = sim_fd,
    .arm = sim_arm,
    .due_us = sim_due_us,
};
