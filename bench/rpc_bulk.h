/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of 4 MiB pieces, for bench-rpc: by a plain TCP connection, and by calls that bring them.
 */
#ifndef BENCH_RPC_BULK_H
#define BENCH_RPC_BULK_H

#include <stdbool.h>
#include <stdint.h>

#include "nigh/rpc.h"

#define BULK_BYTES  (UINT64_C(4) << 20)
#define BULK_PIECES 32 /* of a round */

/* The sender's end: pieces one after the other, then the answer to the last of them. */
void bulk_raw_round(int fd);
/* The other: until the connection ends. */
void bulk_raw_serve(int fd);

/* Takes what calls of "sink" bring, in threads of its own, until the process ends. */
void bulk_serve(nigh_client *client);
/* What a client brings its pieces of. */
nigh_bulk *bulk_open(nigh_client *client);
/* Whether somebody takes them at a node. */
bool bulk_is_served(nigh_client *client, nigh_bulk *bulk, uint32_t rank);
/* Calls that bring a piece each, some under way at a time. */
void bulk_round(nigh_client *client, nigh_bulk *bulk, uint32_t rank);

#endif
