/* SPDX-License-Identifier: Apache-2.0 */
/* The exchange itself, which its files share; each noun of it has a header of its own. For no one
 * else; the contract is exchange.h, the promises are in docs/transfer.md. */
#ifndef OBJECT_EXCHANGE_INTERNAL_H
#define OBJECT_EXCHANGE_INTERNAL_H

#include "base/heap_timer.h"
#include "base/list.h"
#include "base/random.h"
#include "cluster/share.h"
#include "object/exchange.h"
#include "object/exchange_admission.h"
#include "object/exchange_announce.h"
#include "object/exchange_figures.h"
#include "object/exchange_hear.h"
#include "object/exchange_link.h"
#include "object/exchange_outside.h"
#include "object/exchange_probe.h"
#include "object/exchange_show.h"
#include "object/exchange_view.h"

struct asked_delete;
struct directory;
struct drop;
struct erase;
struct fabric_memory;
struct links;
struct pull;
struct pull_read;
struct replication;
struct serve;
union piece_run;

struct exchange_pool {
    bool used;
    uint64_t cluster_pool;
};

#define EXCHANGE_BUCKETS 16384u

struct exchange {
    struct exchange_config config;
    struct links *links;
    struct exchange_calls users;   /* with config.users */
    struct exchange_spaces spaces; /* with config.spaces */
    struct exchange_views views;
    struct directory *directory;
    struct outside_side outside;
    struct fabric_memory **memories; /* of the lane's extents, by their number in it; or NULL */
    struct extent_watch watch;
    uint8_t *arena;
    struct random random;
    struct exchange_pool pools[LIMIT_POOLS];
    struct list live;     /* links that are up */
    uint32_t granted;     /* receives that pulls were given, on all of them */
    bool is_short;        /* a pull was given less, since others have what is shared */
    struct announcer own; /* what this node's own directory is told */

    struct pull *pulls;
    uint32_t pulls_used;
    struct list free_pulls;
    struct list *buckets;
    struct list ready;
    struct admission admission;
    struct list resting[LIMIT_NODES]; /* pulls that are paused, or wait for their home; by home */
    struct list roused;               /* of those, whose home's link came up: ready soon */
    uint32_t short_pulls;             /* that found no memory, and try again */
    struct timers timers;
    struct timer **timer_storage;
    struct pull_read *reads;
    uint32_t reads_used;
    uint32_t free_read;
    union piece_run *free_runs; /* EXCHANGE_RUNS at most; more are allocated when they are needed */
    uint32_t free_run_count;
    uint32_t unwanted;   /* transfers that nobody waits for since the last turn */
    uint32_t declines;   /* struct declined, of all links */
    uint64_t decline_us; /* when they are tried again */
    uint64_t silent_us;  /* next look at transfers whose holder does nothing */

    struct serve *serves;
    uint32_t serves_used;
    struct list free_serves;
    struct share serve_shares;
    struct list serving;
    struct list lent[EXCHANGE_LENT]; /* by object */
    struct list parked;              /* serves that have something to wait for */
    uint64_t tree_us;                /* when these are looked at */
    uint64_t overdue_us;             /* next look at the loans' age */

    struct erase *erases;
    uint32_t erases_used;
    uint32_t erases_now;
    struct list free_erases;
    struct list erases_ready;
    struct timers erase_timers;
    struct timer **erase_storage;
    struct asked_delete *asked;
    uint32_t asked_used;
    struct list free_asked;
    struct share asked_shares;
    struct drop *drops;
    uint32_t drops_used;
    struct list free_drops;
    struct share drop_shares;
    struct list local_drops;
    struct hearing hearing;
    struct prober prober;
    uint64_t drop_us;      /* when what the directory owes is tried again */
    uint64_t drop_wait_us; /* and how long after that */

    uint64_t conflict_us;      /* when objects that were dropped are next in the log */
    uint32_t conflicts_unsaid; /* since they last were */
    uint64_t now_us;           /* of the call under way */
    uint32_t wheres;           /* questions of exchange_where.c under way */
    uint64_t inline_bytes;     /* largest object that fits a reply */
    struct replication *replication;
    struct exchange_stats counts;
    struct shown_past past[SESSION_SHOW_TRANSFERS_PAST]; /* a ring */
    uint32_t past_next;
};

/* The key of an id in a pool, its hash and home. */
void exchange_key(const struct exchange *exchange, uint32_t pool, const uint8_t *id,
                  struct directory_key *key, uint64_t *key_hash, uint32_t *home);
/* The pool of a key; false: this node has none such. */
bool exchange_pool_of(const struct exchange *exchange, const struct directory_key *key,
                      uint32_t *pool);
/* Whether a peer may speak to this node as the key's home, over this link: NIGH_OK; NIGH_BUSY: not
 * now, one of both goes by another view; NIGH_DENIED: no, and it is counted. */
nigh_status exchange_is_home(struct exchange_link *link, const struct directory_key *key);
/* The link to a rank that serves an id; NULL: none is up. */
struct exchange_link *exchange_link_to(struct exchange *exchange, uint32_t rank, uint64_t hash);
uint32_t exchange_self(const struct exchange *exchange);
uint32_t exchange_crc(uint32_t crc, const void *bytes, uint64_t count);
uint64_t exchange_tail_bytes(const struct directory_object *object);

#endif
