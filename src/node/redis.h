/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory on a Redis server: one thread that talks with it for all lanes, so that no lane
 * ever waits for it. What is said and when is decided in cluster/redis_words.h and
 * cluster/redis_session.h; this is hiredis, a thread, and queues.
 */
#ifndef NODE_REDIS_H
#define NODE_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/outside.h"
#include "cluster/redis_words.h"

struct redis;

struct redis_config {
    struct redis_address address;
    char name[REDIS_NAME_BYTES]; /* of the cluster */
    uint32_t rank, incarnation, lanes;
    void *context;
    void (*kick)(void *context, uint32_t lane); /* there is news for a lane; any thread */
};

/* Whether this build can talk to Redis. */
bool redis_is_built(void);

/* NIGH_UNSUPPORTED: this build has no Redis. */
nigh_status redis_create(const struct redis_config *config, struct redis **redis);

/* Starts the thread: `kick` is called from here on. */
nigh_status redis_start(struct redis *redis);

/* Ends the thread: nothing is kicked afterwards. NULL: nothing. */
void redis_stop(struct redis *redis);
void redis_destroy(struct redis *redis);

/* For the exchanges of its lanes. */
struct outside redis_outside(struct redis *redis);

/* Whether it is reached; and if not, why, as far as it is known. Any thread. */
bool redis_is_up(struct redis *redis, char *why, size_t why_bytes);
/* How often it was not reached any more. Any thread. */
uint64_t redis_losses(const struct redis *redis);

#endif
