/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in a world besides one pool in memory: more pools, strict ones, names, quotas, spill,
 * lives that find the memory of the last. Drawn from a generator of its own.
 */
#include "world.h"

#include <stdio.h>
#include <string.h>

#include "base/blake.h"
#include "base/hash.h"

#define PLAIN_PERCENT 35u

uint64_t kind_below(struct world *world, uint64_t bound)
{
    return random_below(&world->more, bound);
}

bool kind_dice(struct world *world, uint32_t percent)
{
    return random_below(&world->more, 100) < percent;
}

static void choose_spill(struct world *world)
{
    struct world_kind *kind = &world->kind;

    kind->spills = true;
    kind->spill_bytes = kind_dice(world, 80) ? UINT64_MAX : 100000 + kind_below(world, 4000000);
    kind->disk_us = UINT64_C(1) << (4 + kind_below(world, 12));
    kind->disk_depth = 1 + (uint32_t)kind_below(world, 16);
    kind->disk_fails_percent = kind_dice(world, 30) ? 1 + (uint32_t)kind_below(world, 30) : 0;
    kind->disk_damages_percent = kind_dice(world, 15) ? 1 + (uint32_t)kind_below(world, 20) : 0;
    /* Memory must be short for it. */
    world->fault_weight[FAULT_EVICT] += 3;
    if (!world->storm && kind_dice(world, 60)) {
        world->size_max = 100000 + kind_below(world, 600000);
    }
}

static void choose_quotas(struct world *world)
{
    struct world_kind *kind = &world->kind;

    if (kind_dice(world, 60)) {
        kind->session_quota = 4 * world->size_max + kind_below(world, 6 * world->size_max);
    }
    for (uint32_t n = 0; n < kind->pools; n++) {
        if (kind_dice(world, 50)) {
            kind->pool_quota[n] = 8 * world->size_max + kind_below(world, 8 * world->size_max);
        }
    }
}

void kind_choose(struct world *world)
{
    struct world_kind *kind = &world->kind;

    random_init(&world->more, world->options.seed ^ HASH_K3);
    kind->pools = 1;
    if (world->options.nodes != 0 || kind_dice(world, PLAIN_PERCENT)) {
        kind->plain = true;
        return;
    }
    world->totals->kinds++;
    kind->pools = kind_dice(world, 40) ? WORLD_POOLS : 1;
    kind->named = kind_dice(world, 50);
    kind->has_guest = kind_dice(world, 10);
    for (uint32_t n = 0; n < kind->pools; n++) {
        kind->strict[n] = kind_dice(world, 30);
    }
    if (kind_dice(world, 45)) {
        choose_spill(world);
    }
    if (kind_dice(world, 35)) {
        choose_quotas(world);
    }
    kind->warm_percent = (uint32_t)kind_below(world, 3) * 50;
    world->fault_weight[FAULT_STOP] = (uint32_t)kind_below(world, 4);
    world->extents += kind->pools > 1 ? 1 : 0;
}

/* Nodes may call a pool by different numbers, and one may have only the first. */
static void choose_numbers(struct world *world)
{
    for (uint32_t n = 0; n < world->node_count; n++) {
        uint32_t *number = world->nodes[n].pool_number;
        bool turned = world->kind.pools == 2 && kind_dice(world, 50);

        number[0] = turned ? 1 : 0;
        number[1] = world->kind.pools < 2 ? WORLD_NO_POOL : turned ? 0 : 1;
        if (number[1] == 1 && n > 0 && kind_dice(world, 15)) {
            number[1] = WORLD_NO_POOL;
        }
    }
}

void kind_make_keys(struct world *world)
{
    struct world_kind *kind = &world->kind;

    choose_numbers(world);
    world->keys_a_pool = world->keys;
    for (uint32_t key = 0; key < world->keys; key++) {
        uint64_t mixed = hash_u64(key + 1);

        memcpy(world->ids[key], &mixed, sizeof(mixed));
        memcpy(world->ids[key] + 8, &key, sizeof(key));
        if (kind->named && key % 2 == 1) {
            int most = (int)(9 + kind_below(world, LIMIT_NAME_BYTES - 9));

            snprintf(world->names[key], sizeof(world->names[key]), "%*u", most, key);
            blake_id20(world->names[key], strlen(world->names[key]), world->ids[key]);
        }
    }
    world->keys *= kind->pools;
}
