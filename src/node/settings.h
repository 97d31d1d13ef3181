/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node is started with: options as a program gives them, checked, with every default filled
 * in. Looks at nothing but its arguments and the number of cores.
 */
#ifndef NODE_SETTINGS_H
#define NODE_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "cluster/auth.h"
#include "cluster/link.h"
#include "cluster/members.h"
#include "cluster/redis_words.h"
#include "nigh/node.h"
#include "node/pool.h"

#define SETTINGS_SPIN_DEFAULT       UINT32_MAX /* spin_us: the default, which depends on cores */
#define SETTINGS_SPIN_DEFAULT_US    50u
#define SETTINGS_SOCKET_MODE        0666u
#define SETTINGS_PATH_BYTES         4096u
#define SETTINGS_DEAD_MS            5000u
#define SETTINGS_CALL_MEMORY_PART   4u /* of the memory for objects, unless said */
#define SETTINGS_REGION_MEMORY_PART 2u

#define SETTINGS_DEVICES      4  /* RDMA devices that one node may use */
#define SETTINGS_DEVICE_BYTES 16 /* "255.255.255.255" */

struct node_settings {
    char socket_path[LIMIT_SOCKET_PATH_BYTES + 1]; /* "": no socket */
    uint64_t memory_bytes;
    uint64_t extent_bytes; /* 0: as the memory layer chooses */
    uint64_t max_objects;
    uint32_t lanes;
    uint32_t spin_us;
    uint32_t max_sessions;
    uint32_t max_pins;
    uint64_t session_quota_bytes;
    uint64_t call_memory_bytes;
    uint64_t region_memory_bytes;
    uint64_t space_memory_bytes;                   /* 0: it serves no spaces */
    char space_log_dir[SETTINGS_PATH_BYTES];       /* "": it keeps no logs of them */
    uint32_t region_qos;                           /* NIGH_REGION_QOS_* */
    uint64_t session_rate_bytes, session_rate_ops; /* of regions, a second; 0: no limit */
    char spill_dir[SETTINGS_PATH_BYTES];           /* "": evict */
    uint64_t spill_bytes;
    char
        state_dir[SETTINGS_PATH_BYTES]; /* "": this node votes on no views, and remembers nothing */
    uint32_t huge_pages;
    uint32_t socket_mode;
    bool clustered; /* there are other nodes */
    struct members members;
    char joins_as[MEMBERS_ADDRESS_BYTES]; /* our address, which is none of the members': they say
                                             which rank we have (node_join.c). "": we are one of
                                             them */
    char name[AGREED_NAME_BYTES];         /* "": none */
    char listen_address[MEMBERS_ADDRESS_BYTES]; /* "": as members says */
    uint8_t cluster_key[AUTH_KEY_BYTES];
    uint32_t dead_ms;
    uint32_t transfer_path; /* enum exchange_path */
    enum link_way calls_way;
    uint32_t fabric; /* NIGH_FABRIC_* */
    char fabric_addresses[SETTINGS_DEVICES][SETTINGS_DEVICE_BYTES];
    uint32_t fabric_address_count; /* 0: the device of the address that peers know */
    uint32_t fabric_tos, fabric_ack_timeout, fabric_retries; /* 0: not said */
    uint32_t fabric_queue_pairs;                             /* for READs, of a link; 0: 1 */
    uint32_t fanout;                                         /* of large objects; 0: the default */
    uint32_t shared_receives;                                /* of a lane; 0: by members */
    bool has_directory;                                      /* outside of the nodes: there */
    struct redis_address directory;
    void (*on_struck)(
        void); /* the node was struck off its cluster; from a lane; NULL: nobody asks */
    uint32_t pool_count;
    struct pool_rules pools[LIMIT_CONFIG_POOLS];
};

/* Cores that this process may run on; at least 1. */
uint32_t settings_cores(void);

/*
 * Checks options and fills in what they leave open, for a machine that grants `cores` cores.
 * NIGH_INVALID: `why` says in one sentence which option is wrong and what would be right. Any
 * thread.
 */
nigh_status settings_resolve(const nigh_node_options *options, uint32_t cores,
                             struct node_settings *settings, char *why, size_t why_bytes);

/* Endpoints for regions that it wants of each link. */
uint32_t settings_region_endpoints(const struct node_settings *settings);

/* Whether it serves spaces: it has memory for them, and a seat; and its cluster agrees on views. */
bool settings_serve_spaces(const struct node_settings *settings);

/* Entries of one lane's index of one pool. */
uint32_t settings_entries_a_lane(const struct node_settings *settings);

#endif
