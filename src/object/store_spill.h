/* SPDX-License-Identifier: Apache-2.0 */
/* Objects go to disk, and come back (store_spill.c). For the store alone. */
#ifndef OBJECT_STORE_SPILL_H
#define OBJECT_STORE_SPILL_H

#include <stdbool.h>
#include <stdint.h>

#include "nigh/status.h"

struct store;
struct store_call;
struct store_pool;
struct store_waiter;

/* Whether writes may start: the disk is not resting after a failure. */
bool store_spill_may_start(const struct store *store);
/* Starts to write a sealed object out; false: not now. */
bool store_spill_start(struct store *store, struct store_pool *pool, uint32_t entry);
/* Starts to read a spilled one back, if nobody did: NIGH_PENDING with the call set to wait, or why
 * not. */
nigh_status store_unspill_start(struct store_call *call, uint32_t entry);
/* Reads a spilled one, which nobody does yet, into a block; false: not now. */
bool store_unspill_into(struct store *store, struct store_pool *pool, uint32_t entry,
                        uint32_t block);
/* Takes what is written out of memory. */
void store_spill_settle(struct store *store);
/* The file of an entry is not needed any more. again: the object lives, and may be written once
 * more. */
void store_spill_forget(struct store *store, struct store_pool *pool, uint32_t entry, bool again);
/* A piece of a long CHECKSUM. */
void store_checksum_more(struct store *store, struct store_waiter *waiter);

#endif
