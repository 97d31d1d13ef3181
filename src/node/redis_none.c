/* SPDX-License-Identifier: Apache-2.0 */
/* redis.h, where hiredis was not there when this was built. */
#include <string.h>

#include "node/redis.h"

bool redis_is_built(void)
{
    return false;
}

nigh_status redis_create(const struct redis_config *config, struct redis **redis)
{
    (void)config;
    (void)redis;
    return NIGH_UNSUPPORTED;
}

nigh_status redis_start(struct redis *redis)
{
    (void)redis;
    return NIGH_UNSUPPORTED;
}

void redis_stop(struct redis *redis)
{
    (void)redis;
}

void redis_destroy(struct redis *redis)
{
    (void)redis;
}

struct outside redis_outside(struct redis *redis)
{
    (void)redis;
    return (struct outside){.context = NULL};
}

bool redis_is_up(struct redis *redis, char *why, size_t why_bytes)
{
    (void)redis;
    if (why_bytes > 0)
        why[0] = '\0';
    return false;
}

uint64_t redis_losses(const struct redis *redis)
{
    (void)redis;
    return 0;
}
