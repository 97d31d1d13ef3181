/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives that endpoints of a simulated fabric share. Which of them a message takes is the seed's
 * choice: nobody may count on an order.
 */
#include "fabric/sim/sim_internal.h"

#include <stdlib.h>

nigh_status sim_stock_create(struct fabric *base, uint32_t depth, struct fabric_stock **out)
{
    struct sim_fabric *fabric = sim_fabric_of(base);
    struct fabric_stock *stock;

    if (depth == 0 || depth > LIMIT_FABRIC_STOCK)
        return NIGH_INVALID;
    if (fabric->stock_count == LIMIT_FABRIC_STOCKS)
        return NIGH_LIMIT;
    stock = calloc(1, sizeof(*stock));
    if (stock == NULL)
        return NIGH_NO_RESOURCES;
    stock->fabric = fabric;
    stock->depth = depth;
    list_init(&stock->receives);
    list_push_back(&fabric->stocks, &stock->node);
    fabric->stock_count++;
    *out = stock;
    return NIGH_OK;
}

static void sim_stock_let_go(struct sim_receive *receive)
{
    list_remove(&receive->ending.node);
    if (receive->slice.memory != NULL)
        receive->slice.memory->uses--;
    sim_receive_free(receive->stock->fabric->sim, receive);
}

void sim_stock_destroy(struct fabric_stock *stock)
{
    struct list_node *node;

    NIGH_ASSERT(stock->users == 0 && stock->posted == stock->taken);
    while ((node = list_first(&stock->receives)) != NULL)
        sim_stock_let_go(container_of(node, struct sim_receive, ending.node));
    list_remove(&stock->node);
    stock->fabric->stock_count--;
    free(stock);
}

nigh_status sim_stock_post(struct fabric_stock *stock, const struct fabric_receive *from,
                           const struct fabric_receive **bad)
{
    nigh_status status = NIGH_OK;

    for (; from != NULL; from = from->next) {
        struct sim_receive *receive;

        if (stock->taken == stock->depth)
            status =
                sim_slice_is_valid(stock->fabric, &from->slice, true) ? NIGH_BUSY : NIGH_INVALID;
        else
            status = sim_receive_make(stock->fabric, from, &receive);
        if (status != NIGH_OK) {
            if (bad != NULL)
                *bad = from;
            return status;
        }
        receive->stock = stock;
        stock->taken++;
        stock->posted++;
        list_push_back(&stock->receives, &receive->ending.node);
    }
    return NIGH_OK;
}

void sim_stock_join(struct fabric_endpoint *end)
{
    if (end->options.stock == NULL)
        return;
    end->options.stock->users++;
    end->options.receives = 0;
}

void sim_stock_leave(struct fabric_endpoint *end)
{
    if (end->options.stock != NULL)
        end->options.stock->users--;
}

struct sim_receive *sim_stock_next(struct fabric_endpoint *end)
{
    struct fabric_stock *stock = end->options.stock;
    struct sim_receive *receive;
    struct list_node *node;

    if (stock->posted == 0)
        return NULL;
    node = random_below(&stock->fabric->sim->random, 2) == 0 ? list_first(&stock->receives)
                                                             : list_last(&stock->receives);
    receive = container_of(node, struct sim_receive, ending.node);
    receive->ending.end = end;
    stock->posted--;
    return receive;
}

void sim_stock_put_back(struct sim_receive *receive)
{
    receive->ending =
        (struct sim_ending){.tag = receive->ending.tag, .op = FABRIC_RECV, .released = 1};
    if (receive->slice.memory != NULL)
        receive->slice.memory->uses++;
    receive->stock->posted++;
    list_push_back(&receive->stock->receives, &receive->ending.node);
}
