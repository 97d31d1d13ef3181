/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools: memory with an owner, a group and a mode, and an index in each lane.
 *
 * A pool is declared at start, or it is somebody's own ("uid-1000", mode 0600), made at that uid's
 * first hello. Pools are never removed while the node runs. Rights are decided here and nowhere
 * else.
 *
 * Thread: lane 0's driver; what lanes are given (pool_lane_config) does not change afterwards.
 */
#ifndef NODE_POOL_H
#define NODE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/node.h"
#include "object/store.h"

/* Bits of rights. */
#define POOL_READ  1u
#define POOL_WRITE 2u

#define POOL_OWN_PREFIX "uid-" /* names of pools that belong to a uid from the start */

/* Who asks: as the kernel says, not as the client does. */
struct pool_peer {
    uint32_t uid;
    uint32_t gid;
    const uint32_t *groups;
    size_t group_count;
};

struct pool_rules {
    char name[LIMIT_POOL_NAME_BYTES + 1];
    uint32_t owner_uid;
    uint32_t group_gid;
    uint32_t mode; /* 0777; execute bits mean nothing */
    bool strict;
    uint64_t quota_bytes; /* 0: none */
};

/* Read-only descriptor, writable descriptor and mapping of one lane's index. */
struct pool_index {
    int fd;
    int read_fd;
    uint64_t bytes;
    void *memory;
    struct store_pool_config config;
};

struct pool {
    uint32_t number;
    struct pool_rules rules;
    struct pool_index *indexes; /* one a lane */
    uint64_t failed_lanes;      /* a bit for each lane that could not serve it when it was told */
    bool adopted;               /* of a former node: its lanes rebuild it */
};

struct pools {
    uint32_t lanes;
    uint32_t entries_a_lane;
    uint32_t count;
    struct pool *pools[LIMIT_POOLS];
};

/*
 * What `peer` may do: the owner's bits, else the group's, else the others', as for files. Root may
 * everything. Writing without reading is nothing.
 */
uint32_t pool_rights(const struct pool_rules *rules, const struct pool_peer *peer);

/* Whether a name may be a pool's: 1 to 31 letters, digits, '-', '_' and '.', not beginning with a
 * dot. Any thread. */
bool pool_name_is_valid(const char *name);

/* "uid-<uid>". Any thread. */
void pool_own_name(uint32_t uid, char name[LIMIT_POOL_NAME_BYTES + 1]);

/*
 * Checks options and fills rules. On failure (NIGH_INVALID) `why` says what is wrong. Any thread.
 */
nigh_status pool_rules_from_options(const nigh_pool_options *options, struct pool_rules *rules,
                                    char *why, size_t why_bytes);

/* What one lane may have in memory of a pool; 0: no bound. */
static inline uint64_t pool_quota_share(const struct pool_rules *rules, uint32_t lanes)
{
    return rules->quota_bytes / lanes + (rules->quota_bytes % lanes != 0);
}

void pools_init(struct pools *pools, uint32_t lanes, uint32_t entries_a_lane);

/* Unmaps and closes. No lane may be running. */
void pools_fini(struct pools *pools);

/* NULL: there is none of this name. */
struct pool *pools_find(struct pools *pools, const char *name);

/*
 * Makes a pool with empty indexes, all of their memory there. The lanes must then be told.
 * NIGH_LIMIT: LIMIT_POOLS are there. NIGH_OUT_OF_MEMORY, NIGH_NO_RESOURCES.
 */
nigh_status pools_add(struct pools *pools, const struct pool_rules *rules, struct pool **pool);

/*
 * The same over indexes that a former node left: fds[] are their writable descriptors, one a lane,
 * taken over on success. Its number is the next one, as it was. NIGH_PROTOCOL, NIGH_VERSION: one is
 * not such an index.
 */
nigh_status pools_adopt(struct pools *pools, const struct pool_rules *rules, const int *fds,
                        struct pool **pool);

/* Changes what a pool allows, before lanes know it. */
void pools_set_rules(struct pools *pools, struct pool *pool, const struct pool_rules *rules);

/* Bytes of the indexes of one pool. */
uint64_t pools_index_bytes(const struct pools *pools);

#endif
