/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node's own memory file: what a node that starts again must know besides what the indexes say:
 * how the memory is cut, whose each extent is, which pools and sessions there are.
 *
 * Nobody but the node maps it. A node may be killed between any two stores to it: a record counts
 * only while its `valid` word says so, which is set last and cleared first. Owners of extents are
 * written before the extent changes hands. Written by: extents, their lane; everything else, lane
 * 0's driver or the start-up thread.
 */
#ifndef NODE_STATE_H
#define NODE_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"
#include "node/pool.h"

#define STATE_MAGIC  UINT64_C(0x4554415453474e) /* "NGSTATE" */
#define STATE_FORMAT 2u

/* Without `absence`: what a former node of this format left is understood, and then of the newer.
 */
#define STATE_FORMAT_OLD 1u

/* Fixed for the life of the memory. */
struct state_shape {
    uint64_t memory_bytes;
    uint64_t extent_bytes;
    uint64_t max_objects;
    uint32_t lanes;
    uint32_t entries_a_lane;
    uint32_t max_sessions;
    uint32_t reserved;
};

/* While `present` is 0: `absence` (enum extent_absence; format 1 left it 0), and of one that is
 * dormant the owner, and that its descriptor is kept. */
struct state_extent {
    _Atomic uint64_t owner;
    _Atomic uint32_t present;
    _Atomic uint32_t absence;
};

struct state_pool {
    _Atomic uint32_t valid;
    uint32_t owner_uid;
    uint32_t group_gid;
    uint32_t mode;
    uint32_t strict;
    uint32_t reserved;
    uint64_t quota_bytes;
    char name[LIMIT_POOL_NAME_BYTES + 1];
};

struct state_session {
    _Atomic uint32_t valid;
    uint32_t pool;
    uint32_t uid;
    int32_t pid;
    uint64_t session_id;
    uint64_t start_time; /* of the process */
    uint64_t quota_bytes;
    uint32_t rights;
    uint32_t version;
    uint8_t token[16];
    char name[LIMIT_CLIENT_NAME_BYTES + 1];
};

struct state {
    _Atomic uint64_t magic; /* last, when the rest is there */
    uint32_t format;
    uint32_t incarnation;
    uint64_t restarts;
    _Atomic uint64_t next_session_id;
    struct state_shape shape;
    uint8_t reserved[16];
    struct state_pool pools[LIMIT_POOLS];
    struct state_session sessions[LIMIT_SESSIONS]; /* by slot */
    struct state_extent extents[LIMIT_EXTENTS];
};

_Static_assert(sizeof(struct state_shape) == 40, "the state outlives the program");
_Static_assert(sizeof(struct state_extent) == 16, "the state outlives the program");
_Static_assert(sizeof(struct state_pool) == 64, "the state outlives the program");
_Static_assert(sizeof(struct state_session) == 96, "the state outlives the program");
_Static_assert(offsetof(struct state, pools) == 88, "the state outlives the program");
_Static_assert(offsetof(struct state, extents) ==
                   88 + 64 * LIMIT_POOLS + sizeof(struct state_session) * LIMIT_SESSIONS,
               "the state outlives the program");

/* Makes the memory file; state->magic is still 0: state_publish makes it count. */
nigh_status state_create(int *fd, struct state **state);
void state_publish(struct state *state);

/*
 * Maps what a former node left, whose format stays what it was until all of it has been taken over:
 * an older program could still go on with it. NIGH_VERSION: a format that this program does not
 * know, which it leaves untouched. NIGH_PROTOCOL: it is no state, or its numbers cannot be. On
 * failure `why` says so.
 */
nigh_status state_adopt(int fd, struct state **state, char *why, size_t why_bytes);

void state_unmap(struct state *state);

/* Whether the numbers of a shape can be. */
bool state_shape_is_sane(const struct state_shape *shape);

void state_put_pool(struct state *state, uint32_t number, const struct pool_rules *rules);

/* The rules of a pool; false: there is none of this number, or it is not sane. */
bool state_get_pool(const struct state *state, uint32_t number, struct pool_rules *rules);

/* Writes a session's record, or removes it. */
void state_put_session(struct state *state, uint32_t slot, const struct state_session *session);
void state_drop_session(struct state *state, uint32_t slot);

#endif
