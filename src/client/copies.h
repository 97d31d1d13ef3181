/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of what is put that are made outside the lock (copies.c). For libnigh alone. */
#ifndef CLIENT_COPIES_H
#define CLIENT_COPIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/client_internal.h"

struct client_op;

/* A step of *op waits until its bytes are copied to *target; then it is sealed. The lane has room
 * for one submission. Locked. */
void copies_want(struct client_op *op, size_t step, uint32_t lane,
                 const struct copy_target *target);
/* The op of this place is given up: a copy that has not begun is not made. Locked. */
void copies_forget(nigh_client *client, uint32_t lane, uint16_t number);
/* Makes the copies that are wanted. Not locked. */
void copies_make(nigh_client *client);

static inline bool copies_are_wanted(const nigh_client *client)
{
    return atomic_load_explicit(&client->copies_wanted, memory_order_relaxed) != 0;
}

#endif
