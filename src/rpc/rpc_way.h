/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which way the frames of a channel take where there are two, sent or written (rpc_ring.h): whoever
 * has both asks its peer for nothing a few times, each way in turn, and takes the one that was
 * answered sooner. Two calls of different ways follow each other, and which is first changes, so
 * that neither way has the better moments; the first of each count for nothing, since memory is
 * made for them; and of the rest the middle one counts, since a processor may be away meanwhile.
 * What is written pays for its ring, so it must be quicker by a sixteenth at least.
 *
 * Pure: time is an argument. The calls are the user's.
 */
#ifndef RPC_RPC_WAY_H
#define RPC_RPC_WAY_H

#include <stdbool.h>
#include <stdint.h>

#define RPC_WAY_CALLS 9u   /* each way that count; odd */
#define RPC_WAY_BYTES 512u /* of a question, and of its answer: most frames are no larger */

enum rpc_way_kind {
    RPC_WAY_SENT = 0,
    RPC_WAY_WRITTEN = 1,
    RPC_WAYS
};

struct rpc_way {
    uint32_t done; /* calls, of both ways */
    uint64_t us[RPC_WAYS][RPC_WAY_CALLS];
};

void rpc_way_begin(struct rpc_way *way);

/* Of the next call, while more are wanted. */
bool rpc_way_wants(const struct rpc_way *way);
enum rpc_way_kind rpc_way_next(const struct rpc_way *way);

/* That one was answered after so long. */
void rpc_way_took(struct rpc_way *way, uint64_t us);

/* When no more are wanted: the middle one, and which is the quicker way. */
uint64_t rpc_way_us(const struct rpc_way *way, enum rpc_way_kind kind);
enum rpc_way_kind rpc_way_quicker(const struct rpc_way *way);

#endif
