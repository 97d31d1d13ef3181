/* SPDX-License-Identifier: Apache-2.0 */
/* Exclusive creates, which a home grants (store_claim.c). For the store alone. */
#ifndef OBJECT_STORE_CLAIM_H
#define OBJECT_STORE_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/session.h"
#include "nigh/status.h"
#include "object/store_wait.h"

struct store;
struct store_call;
struct store_pool;

bool store_is_claim(const struct store_pool *pool, uint32_t entry);
/* Before an exclusive create takes anything: whether its claim has room. */
nigh_status store_may_claim(const struct store_call *call);
/* Asks for a claim; before a seal, whether it stands. NIGH_OK, or the call is set to wait. */
nigh_status store_claim(struct store_call *call, uint32_t entry);
nigh_status store_confirm_claim(struct store_call *call, uint32_t entry);
/* A created object as its client is told of it. */
void store_created_reply(const struct store_pool *pool, uint32_t entry, struct session_cqe *cqe);
/* Ends what waits for a home without one's grant, and its object. */
void store_end_claim(struct store *store, struct store_waiter *waiter, nigh_status status);
/* Part of a turn: asks again. */
void store_ask_again(struct store *store);

#endif
