/* SPDX-License-Identifier: Apache-2.0 */
/* What a lane shows of itself to who looks after the node (SESSION_OP_SHOW): records that lie in
 * the reply area. docs/page.md says what they are for. */
#ifndef MEMORY_SESSION_SHOW_H
#define MEMORY_SESSION_SHOW_H

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

/* What is asked for. */
enum session_show_what {
    SESSION_SHOW_POOLS = 0,     /* session_show_pool, of each pool */
    SESSION_SHOW_HOTTEST = 1,   /* session_show_object; lease_offset: the uses seen, of all */
    SESSION_SHOW_TRANSFERS = 2, /* session_show_transfer; lease_offset: those under way that were
                                   not told */
    SESSION_SHOW_CURVES = 3,    /* session_show_curve, of SESSION_SHOW_LINKS links at most */
    SESSION_SHOW_CALLS = 4,     /* session_show_times, by SESSION_TIMES_* */
    SESSION_SHOW_WHATS = 5
};

/* A pool in this lane. What its lane 0 says of the last four is of the node. */
struct session_show_pool {
    uint32_t pool; /* its number */
    uint32_t entries, entries_used;
    uint32_t reserved;
    uint64_t bytes; /* in objects in memory, those included that are not sealed */
    uint64_t leased_bytes;
    uint64_t pinned_bytes;
    uint64_t objects, unsealed, spilled, deleting;
    uint64_t quota_bytes; /* of the lane; 0: none */
    uint32_t uid, gid;
    uint32_t mode;
    char name[LIMIT_POOL_NAME_BYTES + 1];
};

_Static_assert(offsetof(struct session_show_pool, uid) == 80, "a pool's record is shared");

/* Who holds an object. */
struct session_show_holder {
    int32_t pid;
    uint32_t uid;
    uint64_t views;
    char name[LIMIT_CLIENT_NAME_BYTES + 1];
};

#define SESSION_SHOW_OBJECTS 16u
#define SESSION_SHOW_HOLDERS 4u /* that are told of one */

struct session_show_object {
    uint32_t pool;
    uint32_t state; /* nigh_object_state */
    uint8_t id[LIMIT_ID_BYTES];
    uint32_t copy;
    uint64_t data_size;
    uint64_t uses;
    uint32_t holder_count;
    uint32_t reserved;
    struct session_show_holder holders[SESSION_SHOW_HOLDERS];
    char name[LIMIT_NAME_BYTES + 1];
};

/* How bytes travel. */
enum session_show_way {
    SESSION_WAY_NONE = 0, /* not known yet */
    SESSION_WAY_INLINE = 1,
    SESSION_WAY_SENT = 2,
    SESSION_WAY_READ = 3,
    SESSION_WAY_PUSHED = 4
};

#define SESSION_TRANSFER_NOW    1u /* it is under way */
#define SESSION_TRANSFER_SERVES 2u /* to the other node, not from there */

#define SESSION_SHOW_TRANSFERS_NOW  32u
#define SESSION_SHOW_TRANSFERS_PAST 16u
#define SESSION_SHOW_NAME           48u

struct session_show_transfer {
    uint32_t pool;
    uint32_t rank; /* of the other node; UINT32_MAX: none is asked now */
    uint8_t id[LIMIT_ID_BYTES];
    uint8_t way;
    uint8_t flags;
    uint8_t state; /* of the exchange's, for the log alone */
    uint8_t reserved;
    uint64_t bytes; /* 0: not known yet */
    uint64_t done_bytes;
    uint64_t took_us;             /* since it was asked for; 0: that is not known */
    uint64_t ago_us;              /* it ended so long ago */
    char name[SESSION_SHOW_NAME]; /* one that is longer ends with an ellipsis; "": none, or not
                                     known yet */
};

#define SESSION_SHOW_LINKS   8u
#define SESSION_SHOW_CLASSES 14u

/* What a class of sizes took: index 0 sent, 1 read. Few enough seen: count 0. */
struct session_show_point {
    uint32_t kib[2];
    uint32_t took_us[2];
    uint32_t count[2];
};

struct session_show_curve {
    uint32_t rank, rail;
    uint64_t crossover_bytes; /* as session_link has it */
    struct session_show_point points[SESSION_SHOW_CLASSES];
};

/* Whose times: of calls to services of this node, to those of others, and of what services here
 * took. */
#define SESSION_TIMES_HERE   0u
#define SESSION_TIMES_THERE  1u
#define SESSION_TIMES_SERVED 2u
#define SESSION_TIMES        3u

#define SESSION_TIMES_BUCKETS 26u /* the n-th: up to 1 << n microseconds; the last: all others */

struct session_show_times {
    uint64_t buckets[SESSION_TIMES_BUCKETS];
    uint64_t sum_us;
};

#define SESSION_SHOW_FITS(type, count)                                 \
    _Static_assert(sizeof(struct type) * (count) <= LIMIT_REPLY_BYTES, \
                   "the reply area holds as many as are told")

SESSION_SHOW_FITS(session_show_pool, LIMIT_POOLS);
SESSION_SHOW_FITS(session_show_object, SESSION_SHOW_OBJECTS);
SESSION_SHOW_FITS(session_show_transfer, SESSION_SHOW_TRANSFERS_NOW + SESSION_SHOW_TRANSFERS_PAST);
SESSION_SHOW_FITS(session_show_curve, SESSION_SHOW_LINKS);
SESSION_SHOW_FITS(session_show_times, SESSION_TIMES);

#endif
