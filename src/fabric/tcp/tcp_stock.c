/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives that endpoints share. A message takes the first when it begins, and puts it into its own
 * endpoint's ring: from there on it is like any other. What comes back when the endpoint goes is
 * the next to be taken.
 */
#include "fabric/tcp/tcp_internal.h"

#include <stdlib.h>

nigh_status tcp_stock_create(struct fabric *fabric, uint32_t depth, struct fabric_stock **out)
{
    struct tcp *tcp = tcp_of(fabric);
    struct fabric_stock *stock;

    if (depth == 0 || depth > LIMIT_FABRIC_STOCK)
        return NIGH_INVALID;
    if (tcp->stock_count == LIMIT_FABRIC_STOCKS)
        return NIGH_LIMIT;
    stock = calloc(1, sizeof(*stock));
    if (stock == NULL)
        return NIGH_NO_RESOURCES;
    stock->receives = calloc(round_up_pow2_u64(depth), sizeof(*stock->receives));
    if (stock->receives == NULL) {
        free(stock);
        return NIGH_NO_RESOURCES;
    }
    stock->tcp = tcp;
    stock->depth = depth;
    stock->mask = (uint32_t)round_up_pow2_u64(depth) - 1;
    list_push_back(&tcp->stocks, &stock->node);
    tcp->stock_count++;
    *out = stock;
    return NIGH_OK;
}

void tcp_stock_destroy(struct fabric_stock *stock)
{
    NIGH_ASSERT(stock->users == 0 && stock->taken == stock->tail - stock->head);
    list_remove(&stock->node);
    stock->tcp->stock_count--;
    free(stock->receives);
    free(stock);
}

nigh_status tcp_stock_post(struct fabric_stock *stock, const struct fabric_receive *receive,
                           const struct fabric_receive **bad)
{
    nigh_status status = NIGH_OK;

    for (; receive != NULL; receive = receive->next) {
        if (!tcp_memory_covers(stock->tcp, &receive->slice, FABRIC_LOCAL_WRITE))
            status = NIGH_INVALID;
        else if (stock->taken == stock->depth)
            status = NIGH_BUSY;
        if (status != NIGH_OK) {
            if (bad != NULL)
                *bad = receive;
            break;
        }
        stock->taken++;
        stock->receives[stock->tail++ & stock->mask] = (struct tcp_receive){
            .tag = receive->tag, .address = receive->slice.address, .room = receive->slice.bytes};
    }
    return status;
}

void tcp_stock_join(struct fabric_endpoint *endpoint, struct fabric_stock *stock)
{
    endpoint->stock = stock;
    stock->users++;
}

void tcp_stock_leave(struct fabric_endpoint *endpoint)
{
    struct fabric_stock *stock = endpoint->stock;

    for (; endpoint->receive_head != endpoint->receive_tail; endpoint->receive_head++)
        stock->receives[--stock->head & stock->mask] =
            endpoint->receives[endpoint->receive_head & endpoint->receive_mask];
    endpoint->stock = NULL;
    stock->users--;
}

void tcp_stock_take(struct fabric_endpoint *endpoint)
{
    struct fabric_stock *stock = endpoint->stock;

    if (stock->head != stock->tail)
        endpoint->receives[endpoint->receive_tail++ & endpoint->receive_mask] =
            stock->receives[stock->head++ & stock->mask];
}
