/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that the page and the metrics tell of the node, asked of it at one moment; and whom each part
 * of it may be told to (docs/page.md). Tables of fixed sizes: what has no room is counted.
 */
#ifndef DAEMON_PICTURE_H
#define DAEMON_PICTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/session_show.h"
#include "nigh/object.h"
#include "nigh/region.h"
#include "nigh/space.h"

#define PICTURE_LINKS     1024u
#define PICTURE_CURVES    64u
#define PICTURE_OBJECTS   16u
#define PICTURE_NOW       64u
#define PICTURE_PAST      32u
#define PICTURE_REGIONS   32u
#define PICTURE_SPACES    32u
#define PICTURE_REGION_US UINT64_C(3000000) /* all nodes are asked for regions: not more often */

/* Who asks over HTTP. */
struct asker {
    bool is_known; /* the kernel says whose process it is */
    uint32_t uid;
    bool sees_all; /* root's, or the node's own */
};

struct picture_space {
    nigh_space_info info;
    nigh_space_counts counts;
    bool is_counted;
};

struct picture {
    nigh_node_stats stats;
    nigh_node_info nodes[LIMIT_NODES];
    size_t node_count;
    nigh_link_info links[PICTURE_LINKS];
    size_t link_count;

    /* By number; summed over the lanes. is_pool: there is one. */
    struct session_show_pool pools[LIMIT_POOLS];
    bool is_pool[LIMIT_POOLS];
    struct session_show_times times[SESSION_TIMES];
    uint32_t times_taken; /* records of them, each lane's in order */

    struct session_show_object objects[PICTURE_OBJECTS];
    uint32_t object_count;
    uint64_t uses_seen;
    struct session_show_transfer now[PICTURE_NOW], past[PICTURE_PAST];
    uint32_t now_count, past_count;
    uint64_t now_left; /* under way, and not in `now` */
    struct session_show_curve curves[PICTURE_CURVES];
    uint32_t curve_count;
    bool more_curves;

    nigh_region_entry regions[PICTURE_REGIONS];
    size_t region_count;
    uint32_t more_regions;
    nigh_status region_status; /* NIGH_OK; NIGH_PEER_LOST: in part; else there is no list */
    uint64_t regions_us;       /* when they were asked for; 0: never */
    struct picture_space spaces[PICTURE_SPACES];
    size_t space_count;
    uint32_t more_spaces;
    nigh_status space_status;
    uint64_t asked_us;
};

/* What the metrics need: numbers, members, links, pools, times, spaces. */
nigh_status picture_ask_numbers(struct picture *picture, nigh_client *client);

/* And the rest, for the page. */
nigh_status picture_ask_all(struct picture *picture, nigh_client *client);

/* Whether who asks may know names in a pool, and that there is one of this name. */
bool picture_sees_pool(const struct picture *picture, const struct asker *asker, uint32_t pool);
bool picture_sees_region(const struct asker *asker, const nigh_region_info *info);
bool picture_sees_space(const struct asker *asker, const nigh_space_info *info);

/* The sums of the pools that he may not see; how many they are. */
uint32_t picture_hidden_pools(const struct picture *picture, const struct asker *asker,
                              struct session_show_pool *sum);

#endif
