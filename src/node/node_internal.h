/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a node, for the files that make it up. For no one else. */
#ifndef NODE_NODE_INTERNAL_H
#define NODE_NODE_INTERNAL_H

#include <sys/types.h>

#include "memory/extent.h"
#include "node/disk.h"
#include "node/front.h"
#include "node/keeper.h"
#include "node/lane.h"
#include "node/life.h"
#include "node/node.h"
#include "node/peers.h"
#include "node/placement.h"
#include "node/pool.h"
#include "node/redis.h"
#include "node/session.h"
#include "node/space_logs.h"
#include "node/state.h"
#include "node/views.h"

struct nigh_node {
    pid_t pid; /* of the process whose node it is */
    struct node_settings settings;
    uint32_t entries_a_lane; /* of each index */
    uint32_t incarnation;    /* until node_make_shared: of a life before, as far as it is known */
    uint64_t started_us;
    uint64_t restarts;

    struct keeper *keeper; /* never NULL; nobody may be there */
    struct keeper no_keeper;
    struct state *state; /* NULL: nothing of this node survives it */
    int state_fd;
    bool adopting;          /* there is a former node's state */
    bool adopted;           /* all of it was taken over */
    bool is_unheard;        /* it is no member, or could not listen for other nodes */
    bool goes_on;           /* a stop is not the end: another node takes over */
    _Atomic bool is_struck; /* off its cluster */

    struct extent_set *extents;
    struct pools pools;
    struct sessions sessions;

    struct lock_file spill_lock; /* closed: this node does not spill */
    struct views_file state_file;
    struct space_log_folder space_logs;
    int page_fd;
    int page_read_fd;
    struct session_node_page *page;
    struct life *life; /* of the page */

    struct lane *lanes[LIMIT_LANES];
    uint32_t lane_count;
    struct mailbox *to_lanes;   /* lanes - 1, from lane 0 */
    struct mailbox *from_lanes; /* lanes - 1, to lane 0 */

    struct views *views;                 /* NULL: nothing is agreed with other nodes */
    struct peers *peers;                 /* NULL: there are no other nodes */
    struct fabric *fabrics[LIMIT_LANES]; /* until the lanes have them */
    struct placement placements[LIMIT_LANES];
    bool is_placed;     /* ... and they say more than an order of devices */
    uint64_t far_bytes; /* of memory, from its lane's device: as it was at start */

    struct redis *redis; /* NULL: the nodes keep the directory */
    struct outside outside;
    struct services *services;
    struct bulk_memories *bulks;
    struct front front;
    struct lock_file lock; /* of the socket */
    int listen_fd;         /* until the front door has it */
    int door_fd;
    struct session_driver driver; /* for clients of this process */
};

/* node_memory.c: what lies in memory and on disk. */
nigh_status node_claim_spill(struct nigh_node *node, char *why, size_t why_bytes);
/* Whether it would get its memory, before anything is asked of others. Its pools are begun. */
nigh_status node_may_have_memory(const struct nigh_node *node, char *why, size_t why_bytes);
nigh_status node_make_memory(struct nigh_node *node, char *why, size_t why_bytes);
nigh_status node_make_page(struct nigh_node *node, char *why, size_t why_bytes);
nigh_status node_make_pools(struct nigh_node *node, char *why, size_t why_bytes);
/* Files that nobody will ask for; before the disk threads start. */
void node_clear_spill(struct nigh_node *node);
/* For disk_clean. */
bool node_keeps_no_file(void *context, uint32_t pool, uint32_t lane, uint32_t incarnation,
                        uint64_t generation);

/* node_lanes.c */
nigh_status node_make_mailboxes(struct nigh_node *node);
nigh_status node_make_lanes(struct nigh_node *node, char *why, size_t why_bytes);
nigh_status node_give_pools(struct nigh_node *node, char *why, size_t why_bytes);
nigh_status node_start_lanes(struct nigh_node *node, char *why, size_t why_bytes);
void node_init_driver(struct nigh_node *node);

/* node_listen.c: claimed before the memory, which takes its time; opened when it is there. */
nigh_status node_claim(struct nigh_node *node, char *why, size_t why_bytes);
nigh_status node_listen_to_peers(struct nigh_node *node, char *why, size_t why_bytes);
nigh_status node_open_front(struct nigh_node *node, char *why, size_t why_bytes);
nigh_status node_open_peers(struct nigh_node *node, char *why, size_t why_bytes);
/* Last: from here on it votes, and has what it said to keep. */
nigh_status node_start_views(struct nigh_node *node, char *why, size_t why_bytes);
void node_is_not_listening(struct nigh_node *node);

/* node_join.c: which member this node is. Claims the state directory first, so that of two nodes
 * that are given the same one alone asks. The list says it, or, of a node that it does not name,
 * one that it names is asked which rank it has, unless the directory remembers. Before anything
 * that looks at the members. */
nigh_status node_join(struct nigh_node *node, char *why, size_t why_bytes);

/* node_fabric.c: what joins this node with others, one a lane; and what peers are told of it. */
nigh_status node_fabric_make_all(struct nigh_node *node, char *why, size_t why_bytes);
void node_fabric_offer(const struct nigh_node *node, uint32_t lane, char offer[AUTH_ADDRESS_BYTES]);

/* node_adopt.c: storing what survives, and taking over what survived. In this order. */
nigh_status node_state_begin(struct nigh_node *node);
nigh_status node_adopt_state(struct nigh_node *node, char *why, size_t why_bytes);
nigh_status node_adopt_memory(struct nigh_node *node, char *why, size_t why_bytes);
nigh_status node_adopt_page(struct nigh_node *node, char *why, size_t why_bytes);
nigh_status node_adopt_pools(struct nigh_node *node, char *why, size_t why_bytes);
void node_adopt_sessions(struct nigh_node *node);
void node_clean_spill(struct nigh_node *node);
nigh_status node_give_adopted(struct nigh_node *node, char *why, size_t why_bytes);
void node_adopted(struct nigh_node *node);
void node_forget_kept(struct nigh_node *node, bool all);

#endif
