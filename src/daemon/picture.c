/* SPDX-License-Identifier: Apache-2.0 */
/* See picture.h. */
#include "daemon/picture.h"

#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "client/show.h"

#define REGIONS_US   UINT64_C(300000) /* that all nodes have to tell of theirs */
#define SPACES_US    UINT64_C(300000)
#define CURVE_ROUNDS (PICTURE_CURVES / SESSION_SHOW_LINKS)

/* ---- who may know --------------------------------------------------------- */

#define OTHERS_READ 04u

bool picture_sees_pool(const struct picture *picture, const struct asker *asker, uint32_t pool)
{
    const struct session_show_pool *at;

    if (pool >= LIMIT_POOLS || !picture->is_pool[pool])
        return false;
    at = &picture->pools[pool];
    if (at->name[0] == '\0')
        return false; /* lane 0 has not told of it yet: it is among the sums */
    return asker->sees_all || (asker->is_known && at->uid == asker->uid) ||
           (at->mode & OTHERS_READ) != 0;
}

bool picture_sees_region(const struct asker *asker, const nigh_region_info *info)
{
    if (asker->sees_all || info->other_access != 0)
        return true;
    if (!asker->is_known)
        return false;
    for (uint32_t n = 0; n < info->user_count && n < NIGH_REGION_USERS; n++) {
        if (info->users[n].uid == asker->uid && info->users[n].access != 0)
            return true;
    }
    return info->uid == asker->uid;
}

bool picture_sees_space(const struct asker *asker, const nigh_space_info *info)
{
    return asker->sees_all || info->other_access != 0 ||
           (asker->is_known && info->uid == asker->uid);
}

/* ---- pools ---------------------------------------------------------------- */

static void add_pool(struct session_show_pool *sum, const struct session_show_pool *more)
{
    sum->entries += more->entries;
    sum->entries_used += more->entries_used;
    sum->bytes += more->bytes;
    sum->leased_bytes += more->leased_bytes;
    sum->pinned_bytes += more->pinned_bytes;
    sum->objects += more->objects;
    sum->unsealed += more->unsealed;
    sum->spilled += more->spilled;
    sum->deleting += more->deleting;
    sum->quota_bytes += more->quota_bytes;
}

uint32_t picture_hidden_pools(const struct picture *picture, const struct asker *asker,
                              struct session_show_pool *sum)
{
    uint32_t count = 0;

    memset(sum, 0, sizeof(*sum));
    for (uint32_t n = 0; n < LIMIT_POOLS; n++) {
        if (picture->is_pool[n] && !picture_sees_pool(picture, asker, n)) {
            add_pool(sum, &picture->pools[n]);
            count++;
        }
    }
    return count;
}

/* Lane 0 says what a pool is called, and what its rules are. */
static void take_pool(void *context, uint32_t lane, const void *record)
{
    struct picture *picture = context;
    struct session_show_pool pool;

    memcpy(&pool, record, sizeof(pool));
    if (pool.pool >= LIMIT_POOLS)
        return;
    if (!picture->is_pool[pool.pool]) {
        /* One that another lane knows already, and lane 0 did not when it was asked, has neither
         * name nor rules: nobody sees it. */
        picture->is_pool[pool.pool] = true;
        picture->pools[pool.pool] = (struct session_show_pool){.pool = pool.pool, .uid = pool.uid};
    }
    add_pool(&picture->pools[pool.pool], &pool);
    if (lane == 0) {
        picture->pools[pool.pool].uid = pool.uid;
        picture->pools[pool.pool].gid = pool.gid;
        picture->pools[pool.pool].mode = pool.mode;
        memcpy(picture->pools[pool.pool].name, pool.name, sizeof(pool.name));
        picture->pools[pool.pool].name[sizeof(pool.name) - 1] = '\0';
    }
}

static void take_time(void *context, uint32_t lane, const void *record)
{
    struct picture *picture = context;
    struct session_show_times more, *sum;

    (void)lane;
    memcpy(&more, record, sizeof(more));
    sum = &picture->times[picture->times_taken++ % SESSION_TIMES];
    for (uint32_t n = 0; n < SESSION_TIMES_BUCKETS; n++)
        sum->buckets[n] += more.buckets[n];
    sum->sum_us += more.sum_us;
}

/* ---- what is used, and moves ---------------------------------------------- */

/* Keeps those used most, in order. */
static void take_object(void *context, uint32_t lane, const void *record)
{
    struct picture *picture = context;
    struct session_show_object object;
    uint32_t at;

    (void)lane;
    memcpy(&object, record, sizeof(object));
    object.name[sizeof(object.name) - 1] = '\0';
    if (picture->object_count == PICTURE_OBJECTS &&
        picture->objects[PICTURE_OBJECTS - 1].uses >= object.uses)
        return;
    picture->object_count += picture->object_count < PICTURE_OBJECTS ? 1 : 0;
    for (at = picture->object_count - 1; at > 0 && picture->objects[at - 1].uses < object.uses;
         at--)
        picture->objects[at] = picture->objects[at - 1];
    picture->objects[at] = object;
}

/* Keeps those that ended last, in order. */
static void take_past(struct picture *picture, const struct session_show_transfer *transfer)
{
    uint32_t at;

    if (picture->past_count == PICTURE_PAST &&
        picture->past[PICTURE_PAST - 1].ago_us <= transfer->ago_us)
        return;
    picture->past_count += picture->past_count < PICTURE_PAST ? 1 : 0;
    for (at = picture->past_count - 1; at > 0 && picture->past[at - 1].ago_us > transfer->ago_us;
         at--)
        picture->past[at] = picture->past[at - 1];
    picture->past[at] = *transfer;
}

static void take_transfer(void *context, uint32_t lane, const void *record)
{
    struct picture *picture = context;
    struct session_show_transfer transfer;

    (void)lane;
    memcpy(&transfer, record, sizeof(transfer));
    transfer.name[sizeof(transfer.name) - 1] = '\0';
    if ((transfer.flags & SESSION_TRANSFER_NOW) == 0)
        take_past(picture, &transfer);
    else if (picture->now_count < PICTURE_NOW)
        picture->now[picture->now_count++] = transfer;
    else
        picture->now_left++;
}

static void take_curve(void *context, uint32_t lane, const void *record)
{
    struct picture *picture = context;

    (void)lane;
    if (picture->curve_count < PICTURE_CURVES)
        memcpy(&picture->curves[picture->curve_count++], record, sizeof(picture->curves[0]));
    else
        picture->more_curves = true;
}

/* ---- regions and spaces --------------------------------------------------- */

/* What was told before stays until there is more to tell. */
static void ask_regions(struct picture *picture, nigh_client *client)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);
    size_t count = 0;
    uint32_t more = 0;

    if (picture->regions_us != 0 && now_us - picture->regions_us < PICTURE_REGION_US)
        return;
    picture->regions_us = now_us;
    picture->regions[0].info.struct_size = sizeof(picture->regions[0].info);
    picture->region_status = nigh_region_list(client, NULL, picture->regions, PICTURE_REGIONS,
                                              REGIONS_US, &count, &more);
    picture->region_count = count;
    picture->more_regions = more;
}

static void ask_spaces(struct picture *picture, nigh_client *client)
{
    nigh_space_info infos[PICTURE_SPACES];
    nigh_status status = NIGH_OK; /* a node that does not answer once is not asked for each */
    size_t count = 0;

    infos[0].struct_size = sizeof(infos[0]);
    picture->more_spaces = 0;
    picture->space_count = 0;
    picture->space_status = nigh_space_list(client, NULL, infos, PICTURE_SPACES, SPACES_US, &count,
                                            &picture->more_spaces);
    for (size_t n = 0; picture->space_status == NIGH_OK && n < count; n++) {
        struct picture_space *space = &picture->spaces[picture->space_count++];

        space->info = infos[n];
        space->counts.struct_size = sizeof(space->counts);
        if (status != NIGH_TIMEOUT)
            status = nigh_space_count(client, infos[n].name, SPACES_US, &space->counts);
        space->is_counted = status == NIGH_OK;
    }
}

/* ---- all ------------------------------------------------------------------ */

static size_t least(size_t count, size_t room)
{
    return count < room ? count : room;
}

nigh_status picture_ask_numbers(struct picture *picture, nigh_client *client)
{
    nigh_status status;
    size_t nodes = 0, links = 0;

    picture->asked_us = clock_now_us(&clock_monotonic);
    picture->stats = (nigh_node_stats){.struct_size = sizeof(picture->stats)};
    picture->nodes[0].struct_size = sizeof(picture->nodes[0]);
    memset(picture->is_pool, 0, sizeof(picture->is_pool));
    memset(picture->times, 0, sizeof(picture->times));
    status = nigh_stats(client, &picture->stats);
    if (status == NIGH_OK)
        status = nigh_nodes(client, picture->nodes, LIMIT_NODES, &nodes);
    if (status == NIGH_OK)
        status = nigh_links(client, picture->links, PICTURE_LINKS, &links);
    if (status == NIGH_OK)
        status = client_show(client, SESSION_SHOW_POOLS, 1, take_pool, picture, NULL);
    picture->times_taken = 0;
    if (status == NIGH_OK)
        status = client_show(client, SESSION_SHOW_CALLS, 1, take_time, picture, NULL);
    picture->node_count = least(nodes, LIMIT_NODES);
    picture->link_count = least(links, PICTURE_LINKS);
    if (status == NIGH_OK)
        ask_spaces(picture, client);
    return status;
}

nigh_status picture_ask_all(struct picture *picture, nigh_client *client)
{
    nigh_status status = picture_ask_numbers(picture, client);
    uint64_t left = 0;

    picture->object_count = picture->now_count = picture->past_count = picture->curve_count = 0;
    picture->now_left = 0;
    picture->more_curves = false;
    if (status == NIGH_OK)
        status =
            client_show(client, SESSION_SHOW_HOTTEST, 1, take_object, picture, &picture->uses_seen);
    if (status == NIGH_OK)
        status = client_show(client, SESSION_SHOW_TRANSFERS, 1, take_transfer, picture, &left);
    picture->now_left += left;
    if (status == NIGH_OK) {
        status = client_show(client, SESSION_SHOW_CURVES, CURVE_ROUNDS, take_curve, picture, NULL);
        picture->more_curves = picture->more_curves || status == NIGH_BUSY;
        status = status == NIGH_BUSY ? NIGH_OK : status;
    }
    if (status == NIGH_OK)
        ask_regions(picture, client);
    return status;
}
