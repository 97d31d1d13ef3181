/* SPDX-License-Identifier: Apache-2.0 */
/* See placement.h. */
#include "node/placement.h"

#include "base/check.h"

#define BOUND_SHARE 2u /* lanes take a node's processors / this, at most */

static uint32_t cpus_of(const struct placement_facts *facts, int node, cpu_set_t *cpus)
{
    CPU_ZERO(cpus);
    if (!numa_has(facts->numa, node))
        return 0;
    CPU_AND(cpus, &facts->numa->cpus[node], &facts->allowed);
    return (uint32_t)CPU_COUNT(cpus);
}

/* Places of the devices that lanes are spread over; how many. */
static uint32_t find_near(const struct placement_facts *facts, uint32_t near[SETTINGS_DEVICES])
{
    uint32_t count = 0;
    cpu_set_t cpus;

    for (uint32_t i = 0; i < facts->device_count; i++) {
        if (facts->devices[i] == NUMA_NONE || cpus_of(facts, facts->devices[i], &cpus) > 0)
            near[count++] = i;
    }
    for (uint32_t i = 0; count == 0 && i < facts->device_count; i++)
        near[i] = i;
    return count > 0 ? count : facts->device_count;
}

/* Behind its own a lane has the others, the nearest first; of those that are as near, first those
 * that come behind its own in the list. */
static void order_rest(const struct placement_facts *facts, struct placement *lane, bool has_places)
{
    uint32_t count = facts->device_count;
    uint32_t own = lane->devices[0];

    for (uint32_t i = 1; i < count; i++) {
        uint32_t device = (own + i) % count, at = i;
        uint32_t distance = numa_distance(facts->numa, lane->numa_node, facts->devices[device]);

        while (has_places && at > 1 &&
               distance < numa_distance(facts->numa, lane->numa_node,
                                        facts->devices[lane->devices[at - 1]])) {
            lane->devices[at] = lane->devices[at - 1];
            at--;
        }
        lane->devices[at] = device;
    }
}

static void bind_threads(const struct placement_facts *facts, struct placement *lanes)
{
    uint32_t lanes_at[NUMA_NODES] = {0};

    for (uint32_t i = 0; i < facts->lanes; i++) {
        if (lanes[i].numa_node != NUMA_NONE)
            lanes_at[lanes[i].numa_node]++;
    }
    for (uint32_t i = 0; i < facts->lanes; i++) {
        uint32_t count = cpus_of(facts, lanes[i].numa_node, &lanes[i].cpus);

        lanes[i].is_bound = count > 0 && lanes_at[lanes[i].numa_node] * BOUND_SHARE <= count;
    }
}

void placement_make(const struct placement_facts *facts, struct placement *lanes)
{
    bool has_places = numa_count(facts->numa) > 1;
    uint32_t near[SETTINGS_DEVICES] = {0};
    uint32_t near_count = has_places ? find_near(facts, near) : 0;

    NIGH_ASSERT(facts->device_count <= SETTINGS_DEVICES);
    for (uint32_t i = 0; i < facts->lanes; i++) {
        struct placement *lane = &lanes[i];
        uint32_t count = facts->device_count;

        *lane = (struct placement){.numa_node = NUMA_NONE};
        if (count == 0)
            continue;
        lane->devices[0] = has_places ? near[i % near_count] : i % count;
        if (has_places && numa_has(facts->numa, facts->devices[lane->devices[0]]))
            lane->numa_node = facts->devices[lane->devices[0]];
        order_rest(facts, lane, has_places && lane->numa_node != NUMA_NONE);
    }
    if (has_places)
        bind_threads(facts, lanes);
}
