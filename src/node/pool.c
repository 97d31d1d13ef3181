/* SPDX-License-Identifier: Apache-2.0 */
/* See pool.h. */
#include "node/pool.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/blake.h"
#include "base/bytes.h"
#include "base/fd.h"
#include "memory/index.h"
#include "memory/memfd.h"

#define LOG_MODULE "pool"
#include "base/log.h"

/* ---- rights --------------------------------------------------------------- */

static bool pool_peer_in_group(const struct pool_peer *peer, uint32_t gid)
{
    if (peer->gid == gid)
        return true;
    for (size_t i = 0; i < peer->group_count; i++) {
        if (peer->groups[i] == gid)
            return true;
    }
    return false;
}

uint32_t pool_rights(const struct pool_rules *rules, const struct pool_peer *peer)
{
    uint32_t bits;

    if (peer->uid == 0)
        return POOL_READ | POOL_WRITE;
    if (peer->uid == rules->owner_uid)
        bits = rules->mode >> 6;
    else if (pool_peer_in_group(peer, rules->group_gid))
        bits = rules->mode >> 3;
    else
        bits = rules->mode;
    if ((bits & 4) == 0)
        return 0;
    return (bits & 2) != 0 ? POOL_READ | POOL_WRITE : POOL_READ;
}

bool pool_name_is_valid(const char *name)
{
    size_t length = strlen(name);

    if (length == 0 || length > LIMIT_POOL_NAME_BYTES || name[0] == '.')
        return false;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '_' || c == '.'))
            return false;
    }
    return true;
}

void pool_own_name(uint32_t uid, char name[LIMIT_POOL_NAME_BYTES + 1])
{
    snprintf(name, LIMIT_POOL_NAME_BYTES + 1, POOL_OWN_PREFIX "%u", uid);
}

/* "uid-7" declared for anyone but uid 7 would be a trap: that uid's clients attach to it unasked.
 */
static bool pool_name_fits_owner(const char *name, uint32_t owner_uid)
{
    char own[LIMIT_POOL_NAME_BYTES + 1];

    if (strncmp(name, POOL_OWN_PREFIX, strlen(POOL_OWN_PREFIX)) != 0)
        return true;
    pool_own_name(owner_uid, own);
    return strcmp(name, own) == 0;
}

nigh_status pool_rules_from_options(const nigh_pool_options *options, struct pool_rules *rules,
                                    char *why, size_t why_bytes)
{
    if (options->name == NULL || !pool_name_is_valid(options->name)) {
        snprintf(why, why_bytes, "a pool's name must be 1 to %u letters, digits, '-', '_' and '.'",
                 LIMIT_POOL_NAME_BYTES);
        return NIGH_INVALID;
    }
    if (!pool_name_fits_owner(options->name, options->owner_uid)) {
        snprintf(why, why_bytes,
                 "pool %s: names that begin with \"" POOL_OWN_PREFIX
                 "\" are for the pool of that uid; choose another name",
                 options->name);
        return NIGH_INVALID;
    }
    if (options->mode > 0777) {
        snprintf(why, why_bytes, "pool %s: the mode %o is above 0777", options->name,
                 options->mode);
        return NIGH_INVALID;
    }
    for (uint32_t shift = 0; shift <= 6; shift += 3) {
        if ((options->mode >> shift & 6) == 2) {
            snprintf(why, why_bytes,
                     "pool %s: the mode %04o grants writing without reading; add the 4",
                     options->name, options->mode);
            return NIGH_INVALID;
        }
    }
    memset(rules, 0, sizeof(*rules));
    memcpy(rules->name, options->name, strlen(options->name));
    rules->owner_uid = options->owner_uid;
    rules->group_gid = options->group_gid;
    rules->mode = options->mode;
    rules->strict = options->strict != 0;
    rules->quota_bytes = options->quota_bytes;
    return NIGH_OK;
}

/* ---- the table ------------------------------------------------------------ */

void pools_init(struct pools *pools, uint32_t lanes, uint32_t entries_a_lane)
{
    memset(pools, 0, sizeof(*pools));
    pools->lanes = lanes;
    pools->entries_a_lane = entries_a_lane;
}

static void pool_index_close(struct pool_index *index)
{
    if (index->memory != NULL)
        memfd_unmap(index->memory, index->bytes);
    index->memory = NULL;
    fd_close(&index->read_fd);
    fd_close(&index->fd);
}

static void pool_destroy(struct pool *pool, uint32_t lanes)
{
    for (uint32_t i = 0; i < lanes; i++)
        pool_index_close(&pool->indexes[i]);
    free(pool->indexes);
    free(pool);
}

void pools_fini(struct pools *pools)
{
    for (uint32_t i = 0; i < pools->count; i++)
        pool_destroy(pools->pools[i], pools->lanes);
    pools->count = 0;
}

struct pool *pools_find(struct pools *pools, const char *name)
{
    for (uint32_t i = 0; i < pools->count; i++) {
        if (strcmp(pools->pools[i]->rules.name, name) == 0)
            return pools->pools[i];
    }
    return NULL;
}

uint64_t pools_index_bytes(const struct pools *pools)
{
    return pools->lanes * index_size_bytes(pools->entries_a_lane);
}

static nigh_status pool_index_open(const struct pools *pools, const struct pool *pool,
                                   uint32_t lane, struct pool_index *index)
{
    nigh_status status;

    index->bytes = index_size_bytes(pools->entries_a_lane);
    status = memfd_create_sealed("nigh-index", index->bytes, 0, &index->fd);
    if (status != NIGH_OK)
        return status;
    status = memfd_reopen_read_only(index->fd, &index->read_fd);
    if (status == NIGH_OK)
        status =
            memfd_map(index->fd, index->bytes, MEMFD_WRITABLE | MEMFD_PREFAULT, &index->memory);
    if (status != NIGH_OK) {
        pool_index_close(index);
        return status;
    }
    index_format(index->memory, pool->number, lane, pools->lanes, pools->entries_a_lane,
                 &index->config.index);
    return NIGH_OK;
}

/* What the cluster calls a pool: pools of the same name and rules share objects, others do not. */
static uint64_t pool_cluster_name(const struct pool_rules *rules)
{
    struct {
        char name[LIMIT_POOL_NAME_BYTES + 1];
        uint32_t owner_uid;
        uint32_t group_gid;
        uint32_t mode;
        uint32_t strict;
    } rule = {.owner_uid = rules->owner_uid,
              .group_gid = rules->group_gid,
              .mode = rules->mode,
              .strict = rules->strict ? 1 : 0};
    uint8_t digest[20];
    uint64_t name;

    memcpy(rule.name, rules->name, strlen(rules->name));
    blake_id20(&rule, sizeof(rule), digest);
    memcpy(&name, digest, sizeof(name));
    return name;
}

/* What the store of one lane is told of the pool. */
static void pool_index_configure(const struct pools *pools, const struct pool *pool,
                                 struct pool_index *index)
{
    index->config.pool = pool->number;
    index->config.owner_uid = pool->rules.owner_uid;
    index->config.strict = pool->rules.strict;
    index->config.cluster_pool = pool_cluster_name(&pool->rules);
    index->config.quota_bytes = pool_quota_share(&pool->rules, pools->lanes);
}

/* A pool without indexes, which is not in the table yet. */
static struct pool *pool_create(const struct pools *pools, const struct pool_rules *rules)
{
    struct pool *pool = calloc(1, sizeof(*pool));

    if (pool == NULL)
        return NULL;
    pool->indexes = calloc(pools->lanes, sizeof(*pool->indexes));
    if (pool->indexes == NULL) {
        free(pool);
        return NULL;
    }
    pool->number = pools->count;
    pool->rules = *rules;
    for (uint32_t i = 0; i < pools->lanes; i++)
        pool->indexes[i].fd = pool->indexes[i].read_fd = -1;
    return pool;
}

nigh_status pools_add(struct pools *pools, const struct pool_rules *rules, struct pool **out)
{
    struct pool *pool;
    nigh_status status = NIGH_OK;

    if (pools->count == LIMIT_POOLS)
        return NIGH_LIMIT;
    pool = pool_create(pools, rules);
    if (pool == NULL)
        return NIGH_NO_RESOURCES;
    for (uint32_t i = 0; i < pools->lanes && status == NIGH_OK; i++) {
        status = pool_index_open(pools, pool, i, &pool->indexes[i]);
        pool_index_configure(pools, pool, &pool->indexes[i]);
    }
    if (status != NIGH_OK) {
        pool_destroy(pool, pools->lanes);
        return status;
    }
    pools->pools[pools->count++] = pool;
    LOG_INFO("pool made", "pool=\"%s\" owner=%u mode=%04o strict=%d", LOG_QUOTE(rules->name),
             rules->owner_uid, rules->mode, rules->strict);
    *out = pool;
    return NIGH_OK;
}

/* ---- pools of a former node ---- */

/* Maps an index that is there; whose it is must be what its place says. */
static nigh_status pool_index_adopt(const struct pools *pools, const struct pool *pool,
                                    uint32_t lane, int fd, struct pool_index *index)
{
    struct index *attached = &index->config.index;
    nigh_status status = memfd_size(fd, &index->bytes);

    if (status == NIGH_OK)
        status = memfd_reopen_read_only(fd, &index->read_fd);
    if (status == NIGH_OK)
        status = memfd_map(fd, index->bytes, MEMFD_WRITABLE | MEMFD_PREFAULT, &index->memory);
    if (status == NIGH_OK)
        status = index_attach(index->memory, index->bytes, attached);
    if (status == NIGH_OK &&
        (attached->header->pool != pool->number || attached->header->lane != lane ||
         attached->header->lanes != pools->lanes || attached->entry_count != pools->entries_a_lane))
        status = NIGH_PROTOCOL;
    return status;
}

nigh_status pools_adopt(struct pools *pools, const struct pool_rules *rules, const int *fds,
                        struct pool **out)
{
    struct pool *pool = pool_create(pools, rules);
    nigh_status status = NIGH_OK;

    if (pool == NULL)
        return NIGH_NO_RESOURCES;
    for (uint32_t i = 0; i < pools->lanes && status == NIGH_OK; i++) {
        status = pool_index_adopt(pools, pool, i, fds[i], &pool->indexes[i]);
        pool_index_configure(pools, pool, &pool->indexes[i]);
    }
    if (status != NIGH_OK) {
        pool_destroy(pool, pools->lanes);
        return status;
    }
    for (uint32_t i = 0; i < pools->lanes; i++)
        pool->indexes[i].fd = fds[i];
    pool->adopted = true;
    pools->pools[pools->count++] = pool;
    *out = pool;
    return NIGH_OK;
}

void pools_set_rules(struct pools *pools, struct pool *pool, const struct pool_rules *rules)
{
    pool->rules = *rules;
    for (uint32_t i = 0; i < pools->lanes; i++)
        pool_index_configure(pools, pool, &pool->indexes[i]);
}
