/* SPDX-License-Identifier: Apache-2.0 */
/* Objects are sealed, after a copy perhaps (store_seal.c). For the store alone. */
#ifndef OBJECT_STORE_SEAL_H
#define OBJECT_STORE_SEAL_H

#include <stdbool.h>
#include <stdint.h>

struct store;
struct store_call;
struct store_waiter;

/* Whether `ref` is an object that the call's session may seal or give up. */
bool store_is_unsealed(const struct store_call *call, uint64_t ref);
/* Gives up what a submission was to seal, if that is a created object: it ends without. */
void store_seal_failed(struct store_call *call);
/* A piece of a large copy; the end of one, whose block is still the waiter's. */
void store_copy_more(struct store *store, struct store_waiter *waiter);
void store_copy_stop(struct store *store, struct store_waiter *waiter);

#endif
