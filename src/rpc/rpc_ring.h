/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of a channel that are written to the peer instead of sent: each side may give the other a
 * ring of its memory, into which that one WRITEs frames, and says with immediate data where each
 * lies (LITE, SOSP'17, section 5.1). Here is only who may write where, and when: what a writer
 * counts, and what a reader checks.
 *
 * A ring is a number of units. A frame takes whole ones, one behind the other; one that does not
 * fit before the end of the ring begins at its start, and the units that it skips are taken with
 * it. The reader takes frames in the order in which they were written, copies each out as it comes
 * and owes its units from then on, whatever becomes of the frame. What it owes it tells with the
 * immediate of its next frame in the other direction, whatever ring that lies in; when it owes more
 * than half, with an immediate that has no frame, of which two are never on their way at once.
 *
 * So a writer that has no room waits for nothing but its peer's taking in: a frame needs less than
 * half of a ring of RPC_RING_FRAMES frames, whatever it skips, and where less than that is free the
 * reader owes, or will owe, more than half.
 *
 * Pure; owned by the lane's driver, as the channel.
 */
#ifndef RPC_RPC_RING_H
#define RPC_RPC_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "nigh/status.h"

#define RPC_RING_UNIT   64u
#define RPC_RING_FRAMES 4u         /* of the longest that there are: a ring has room for so many */
#define RPC_RING_MOST   UINT16_MAX /* units: places and what is owed have 16 bits each */
#define RPC_RING_NONE   UINT16_MAX /* the place of an immediate that has no frame */

/* The peer's ring, of who writes. */
struct rpc_ring_writer {
    uint32_t units; /* 0: there is no ring */
    uint32_t at;    /* behind the last frame */
    uint32_t used;  /* units that are taken, and that the peer has not said to be free */
};

/* The own ring, of who reads. */
struct rpc_ring_reader {
    uint32_t units; /* 0: there is no ring */
    uint32_t frame_bytes;
    uint32_t at;   /* where the next frame lies, if it fits there */
    uint32_t owed; /* units that are free, and that the peer was not told of */
};

/* Whether a ring of so many units has room enough for frames of so many bytes. */
bool rpc_ring_is_enough(uint32_t units, uint32_t frame_bytes);

/* The place, in units, of a frame of at most frame_bytes; false: there is no room now. */
bool rpc_ring_take(struct rpc_ring_writer *writer, uint32_t bytes, uint32_t *place);

/* The immediate of what lies at `place`, or RPC_RING_NONE; what the reader owes goes with it. */
uint32_t rpc_ring_imm(struct rpc_ring_reader *reader, uint32_t place);

/* Whether an immediate without a frame has to tell what is owed. */
bool rpc_ring_must_tell(const struct rpc_ring_reader *reader);

/*
 * An immediate came, with so many bytes that were written. NIGH_OK: *place is where the frame lies,
 * whose bytes are to be copied before anything is told to the peer; RPC_RING_NONE: there is none.
 * NIGH_PROTOCOL: the peer broke the rules, nothing was done.
 */
nigh_status rpc_ring_came(struct rpc_ring_writer *writer, struct rpc_ring_reader *reader,
                          uint32_t imm, uint64_t bytes, uint32_t *place);

bool rpc_ring_is_valid(const struct rpc_ring_writer *writer, const struct rpc_ring_reader *reader);

#endif
