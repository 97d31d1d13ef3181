/* SPDX-License-Identifier: Apache-2.0 */
/* See descriptors.h. */
#include "node/descriptors.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/check.h"

#define LOG_MODULE "node"
#include "base/log.h"

#define DESCRIPTORS_BASE      64u /* sockets, locks, standard ones, what libraries open */
#define DESCRIPTORS_A_LANE    8u  /* epoll, bell, timer, fabric, disk */
#define DESCRIPTORS_A_SESSION 3u  /* and one for each lane */
#define DESCRIPTORS_A_RAIL    2u  /* control and calls; and those for READs */

void descriptors_count(const struct node_settings *settings, struct descriptors *count)
{
    uint64_t lanes = settings->lanes;
    uint64_t others = settings->clustered ? settings->members.count - 1 : 0;
    uint64_t reads = max_u32(settings->fabric_queue_pairs, 1);

    *count = (struct descriptors){
        .own = 2 * LIMIT_EXTENTS_AIM + 2 * lanes * (settings->pool_count + 1) +
               DESCRIPTORS_A_LANE * lanes + DESCRIPTORS_BASE,
        .members = others * (1 + LIMIT_REGION_ENDPOINTS + (DESCRIPTORS_A_RAIL + reads) * lanes),
        .wishes = others * (LIMIT_BULK_ENDPOINTS - reads) * lanes,
        .sessions = settings->max_sessions * (DESCRIPTORS_A_SESSION + lanes) + LIMIT_PAIRS +
                    LIMIT_BULKS + LIMIT_REGION_FILES +
                    2 * lanes * (LIMIT_POOLS - settings->pool_count) +
                    2 * (LIMIT_EXTENTS - LIMIT_EXTENTS_AIM),
        .strangers = LIMIT_FRONT_HALF_OPEN +
                     (others > 0 ? LIMIT_PEER_HANDSHAKES + lanes * LIMIT_FABRIC_HALF_OPEN : 0),
    };
}

nigh_status descriptors_provide(const struct node_settings *settings, bool may_raise, char *why,
                                size_t why_bytes)
{
    struct descriptors count;
    struct rlimit limit;
    uint64_t needed, wanted;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return NIGH_OK;
    }
    /* The soft limit is for programs that use select(2); we do not. */
    if (may_raise && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
            LOG_WARN(
                "cannot raise RLIMIT_NOFILE",
                "errno=%d do=\"raise its hard limit: LimitNOFILE= in the unit, or ulimit -Hn\"",
                errno);
        }
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    descriptors_count(settings, &count);
    needed = count.own + count.members;
    wanted = needed + count.wishes + count.sessions + count.strangers;
    if (settings->clustered && limit.rlim_cur < needed) {
        snprintf(
            why, why_bytes,
            "a node of %u lanes needs %llu file descriptors among %u members, and RLIMIT_NOFILE "
            "grants %llu; raise its %s limit (LimitNOFILE=, ulimit -n), or ask for fewer lanes",
            settings->lanes, (unsigned long long)needed, settings->members.count,
            (unsigned long long)limit.rlim_cur, may_raise ? "hard" : "soft");
        return NIGH_NO_RESOURCES;
    }
    if (limit.rlim_cur < wanted) {
        LOG_WARN("file descriptors may run out",
                 "limit=%llu wanted=%llu sessions=%u members=%u do=\"raise RLIMIT_NOFILE to what "
                 "is wanted (LimitNOFILE= in the unit, ulimit -Hn), or lower --max-sessions\"",
                 (unsigned long long)limit.rlim_cur, (unsigned long long)wanted,
                 settings->max_sessions, settings->clustered ? settings->members.count : 1);
    }
    return NIGH_OK;
}
