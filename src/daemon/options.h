/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nighd may be told: one table of options, set by flags (--memory 1G) or by keys of the
 * [node] section of a configuration file (memory = 1G). Flags win.
 *
 * Texts become values here, with a sentence for each that is wrong. Whether the values fit each
 * other is settings_resolve's (node/settings.h). Start-up thread only.
 */
#ifndef DAEMON_OPTIONS_H
#define DAEMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/log.h"
#include "fabric/fabric.h"
#include "nigh/node.h"
#include "node/settings.h"

#define OPTIONS_WHY_BYTES 512
#define DAEMON_JOIN_BYTES (LIMIT_NODES * MEMBERS_ADDRESS_BYTES)

struct daemon_pool {
    char name[LIMIT_POOL_NAME_BYTES + 1];
    uint32_t owner_uid;
    uint32_t group_gid;
    uint32_t mode;
    uint32_t strict;
    uint64_t quota_bytes;
    uint32_t line; /* of its section */
    bool has_owner;
    bool has_group;
};

struct daemon_options {
    char socket[SETTINGS_PATH_BYTES];
    char spill[SETTINGS_PATH_BYTES];   /* "": none */
    char state[SETTINGS_PATH_BYTES];   /* "": none */
    char log_dir[SETTINGS_PATH_BYTES]; /* "": none */
    uint64_t memory_bytes;
    bool memory_given;
    uint64_t extent_bytes;
    uint64_t max_objects;
    uint64_t spill_bytes;
    uint64_t session_quota_bytes;
    uint64_t call_memory_bytes;
    uint64_t region_memory_bytes;
    uint64_t space_memory_bytes; /* 0: serves none */
    uint32_t region_qos;         /* NIGH_REGION_QOS_* */
    uint64_t session_rate_bytes; /* 0: no limit */
    uint32_t session_ops;        /* likewise */
    uint32_t lanes;
    uint32_t spin_us;
    uint32_t max_sessions;
    uint32_t max_pins;
    uint32_t huge_pages;
    uint32_t socket_mode;
    char join[DAEMON_JOIN_BYTES];               /* "": alone */
    char member[MEMBERS_ADDRESS_BYTES];         /* "": not said */
    char listen_address[MEMBERS_ADDRESS_BYTES]; /* "": as join says */
    char cluster_key_path[SETTINGS_PATH_BYTES]; /* "": none */
    uint32_t dead_ms;
    uint32_t transfer_path;
    uint32_t calls_way;
    uint32_t fanout;
    uint32_t ranks;
    char name[AGREED_NAME_BYTES]; /* "": none */
    uint32_t fabric;
    char fabric_addresses[SETTINGS_DEVICES * SETTINGS_DEVICE_BYTES]; /* "": none */
    uint32_t fabric_tos;
    uint32_t fabric_ack_timeout;
    uint32_t fabric_retries;
    uint32_t fabric_queue_pairs;
    uint32_t shared_receives;
    bool has_directory; /* outside of the nodes */
    struct redis_address directory;
    char directory_password_path[SETTINGS_PATH_BYTES]; /* "": as the address says */
    char http[FABRIC_ADDRESS_BYTES];                   /* "": not at all */
    enum log_level log_level;
    uint32_t pool_count;
    struct daemon_pool pools[LIMIT_CONFIG_POOLS];
    /* Flags only. */
    char config[SETTINGS_PATH_BYTES]; /* "": none */
    int ready_fd;                     /* -1: none */
    bool hold;
    bool check;
    uint8_t cluster_key[AUTH_KEY_BYTES]; /* read from its file by daemon_options_resolve */
};

/* One option of the table. */
struct daemon_option {
    const char *name;  /* of the flag and of the key */
    const char *value; /* what stands for its value in --help */
    const char *text;  /* for --help */
};

#define DAEMON_OPTIONS_COUNT 42

extern const struct daemon_option daemon_option_table[DAEMON_OPTIONS_COUNT];

/* The defaults. $NIGH_SOCKET counts. */
void daemon_options_init(struct daemon_options *options);

/* The place of an option in the table, or -1. */
int daemon_option_find(const char *name);

/* Sets one option of the table from text. NIGH_INVALID: `why` says what is wrong and what would be
 * right. */
nigh_status daemon_option_set(struct daemon_options *options, int option, const char *text,
                              char *why, size_t why_bytes);

/* Sets one key of a pool: owner, group, mode, strict, quota. Errors as above; NIGH_NOT_FOUND: there
 * is no such key. */
nigh_status daemon_pool_set(struct daemon_pool *pool, const char *key, const char *text, char *why,
                            size_t why_bytes);

/*
 * Turns options into a node's settings, checked. NIGH_INVALID: `why` says what is wrong.
 */
nigh_status daemon_options_resolve(struct daemon_options *options, uint32_t cores,
                                   struct node_settings *settings, char *why, size_t why_bytes);

#endif
