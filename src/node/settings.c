/* SPDX-License-Identifier: Apache-2.0 */
/* See settings.h. */
#include "node/settings.h"

#include <arpa/inet.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "cluster/address.h"
#include "memory/space_view.h"

#define SETTINGS_OBJECT_BYTES        4096u /* one object for so many bytes of memory, by default */
#define SETTINGS_OBJECTS_LEAST       (UINT64_C(64) << 10)
#define SETTINGS_ENTRIES_SPARE_SHARE 64
#define SETTINGS_ENTRIES_SPARE       1024
#define SETTINGS_OBJECTS_MOST        (UINT64_C(1) << 20)

uint32_t settings_cores(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    return CPU_COUNT(&set) > 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

uint32_t settings_region_endpoints(const struct node_settings *settings)
{
    return settings->region_qos == NIGH_REGION_QOS_SEPARATE ? 2 : 1;
}

bool settings_serve_spaces(const struct node_settings *settings)
{
    return settings->space_memory_bytes != 0 && settings->members.self < LIMIT_SPACE_SEATS &&
           (!settings->clustered || settings->state_dir[0] != '\0');
}

/* With room for leases, and for lanes that get more than their share of ids. */
uint32_t settings_entries_a_lane(const struct node_settings *settings)
{
    uint64_t share = (settings->max_objects + settings->lanes - 1) / settings->lanes;
    uint64_t spare = share / SETTINGS_ENTRIES_SPARE_SHARE + SETTINGS_ENTRIES_SPARE;

    return (uint32_t)min_u64(share + spare, LIMIT_INDEX_ENTRIES);
}

__attribute__((format(printf, 3, 4))) static nigh_status settings_fail(char *why, size_t why_bytes,
                                                                       const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, why_bytes, format, arguments);
    va_end(arguments);
    return NIGH_INVALID;
}

static nigh_status settings_check_memory(struct node_settings *s, char *why, size_t why_bytes)
{
    char given[BYTES_SIZE_TEXT], least[BYTES_SIZE_TEXT], most[BYTES_SIZE_TEXT];

    bytes_format_size(s->memory_bytes, given);
    bytes_format_size(LIMIT_MEMORY_BYTES_MIN, least);
    if (s->memory_bytes == 0)
        return settings_fail(why, why_bytes, "no memory size is given; say how much, e.g. 1G");
    if (s->memory_bytes < LIMIT_MEMORY_BYTES_MIN)
        return settings_fail(why, why_bytes, "a memory of %s is too small; the least is %s", given,
                             least);
    if (s->extent_bytes != 0 &&
        (!is_pow2(s->extent_bytes) || s->extent_bytes < LIMIT_EXTENT_BYTES_MIN ||
         s->extent_bytes > LIMIT_EXTENT_BYTES_MAX)) {
        bytes_format_size(LIMIT_EXTENT_BYTES_MAX, most);
        if (!bytes_format_sizes(s->extent_bytes, LIMIT_EXTENT_BYTES_MAX, given, most))
            (void)bytes_format_sizes(s->extent_bytes, LIMIT_EXTENT_BYTES_MIN, given, least);
        return settings_fail(why, why_bytes,
                             "an extent size of %s is not a power of two from %s to %s", given,
                             least, most);
    }
    if (s->huge_pages > 2)
        return settings_fail(why, why_bytes,
                             "huge pages are 0 (where granted), 1 (required) or 2 (never), not %u",
                             s->huge_pages);
    return NIGH_OK;
}

/* Of a space with the fewest blocks, and those the smallest: a node that has less takes part in
 * none. */
static nigh_status settings_check_space_memory(const struct node_settings *s, char *why,
                                               size_t why_bytes)
{
    uint64_t least_bytes = space_view_home_bytes(2, LIMIT_SPACE_BLOCK_MIN) +
                           space_view_cache_bytes(1, LIMIT_SPACE_BLOCK_MIN);
    char given[BYTES_SIZE_TEXT], least[BYTES_SIZE_TEXT];

    if (s->space_memory_bytes == 0 || s->space_memory_bytes >= least_bytes)
        return NIGH_OK;
    (void)bytes_format_sizes(s->space_memory_bytes, least_bytes, given, least);
    return settings_fail(why, why_bytes,
                         "a memory for spaces of %s is too small; the least that one takes is %s",
                         given, least);
}

static nigh_status settings_check_lanes(struct node_settings *s, uint32_t cores, char *why,
                                        size_t why_bytes)
{
    if (s->lanes == 0) {
        s->lanes = 1;
        while (s->lanes * 2 <= cores / 2 && s->lanes < LIMIT_LANES)
            s->lanes *= 2;
    }
    if (!is_pow2(s->lanes) || s->lanes > LIMIT_LANES)
        return settings_fail(why, why_bytes, "%u lanes: there may be 1, 2, 4 and so on up to %u",
                             s->lanes, LIMIT_LANES);
    if (s->spin_us == SETTINGS_SPIN_DEFAULT) {
        /* A lane that spins on a core its clients need would starve who it waits for. */
        s->spin_us = cores > 1 && s->lanes <= cores / 2 ? SETTINGS_SPIN_DEFAULT_US : 0;
    }
    if (s->spin_us > LIMIT_SPIN_US)
        return settings_fail(why, why_bytes, "spinning for %u us is too long; the most is %u",
                             s->spin_us, LIMIT_SPIN_US);
    return NIGH_OK;
}

static nigh_status settings_check_counts(struct node_settings *s, char *why, size_t why_bytes)
{
    uint64_t objects_most = (uint64_t)LIMIT_INDEX_ENTRIES * s->lanes;

    if (s->max_objects == 0)
        s->max_objects =
            min_u64(max_u64(s->memory_bytes / SETTINGS_OBJECT_BYTES, SETTINGS_OBJECTS_LEAST),
                    SETTINGS_OBJECTS_MOST);
    if (s->max_objects > objects_most)
        return settings_fail(
            why, why_bytes, "%llu objects are too many; the most with %u lanes is %llu",
            (unsigned long long)s->max_objects, s->lanes, (unsigned long long)objects_most);
    if (s->max_sessions == 0)
        s->max_sessions = LIMIT_SESSIONS;
    if (s->max_sessions > LIMIT_SESSIONS)
        return settings_fail(why, why_bytes, "%u sessions are too many; the most is %u",
                             s->max_sessions, LIMIT_SESSIONS);
    if (s->max_pins == 0)
        s->max_pins = LIMIT_LANE_PINS;
    if (s->max_pins > LIMIT_LANE_PINS)
        return settings_fail(why, why_bytes, "%u pins a session are too many; the most is %u",
                             s->max_pins, LIMIT_LANE_PINS);
    return NIGH_OK;
}

static nigh_status settings_check_paths(const nigh_node_options *o, struct node_settings *s,
                                        char *why, size_t why_bytes)
{
    if (o->socket_path != NULL) {
        if (o->socket_path[0] == '\0')
            return settings_fail(why, why_bytes, "the socket's path is empty");
        if (bytes_copy_text(s->socket_path, sizeof(s->socket_path), o->socket_path) != NIGH_OK)
            return settings_fail(why, why_bytes,
                                 "the socket's path has %zu bytes; the most is %u: choose a "
                                 "shorter one",
                                 strlen(o->socket_path), LIMIT_SOCKET_PATH_BYTES);
    }
    if (o->spill_dir != NULL &&
        (o->spill_dir[0] == '\0' ||
         bytes_copy_text(s->spill_dir, sizeof(s->spill_dir), o->spill_dir) != NIGH_OK))
        return settings_fail(why, why_bytes, "the spill directory's path is empty or too long");
    if (o->state_dir != NULL &&
        (o->state_dir[0] == '\0' ||
         bytes_copy_text(s->state_dir, sizeof(s->state_dir), o->state_dir) != NIGH_OK))
        return settings_fail(why, why_bytes,
                             "the state directory (--state) is empty or longer than %u bytes",
                             SETTINGS_PATH_BYTES - 1);
    if (o->space_log_dir != NULL &&
        (o->space_log_dir[0] == '\0' ||
         bytes_copy_text(s->space_log_dir, sizeof(s->space_log_dir), o->space_log_dir) != NIGH_OK))
        return settings_fail(why, why_bytes,
                             "the directory for the logs of spaces (--log-dir) is empty or longer "
                             "than %u bytes",
                             SETTINGS_PATH_BYTES - 1);
    if (s->space_log_dir[0] != '\0' && o->space_memory_bytes == 0)
        return settings_fail(why, why_bytes,
                             "a directory for the logs of spaces (--log-dir) needs memory for "
                             "spaces: give --space-memory, too");
    if (s->spill_bytes != 0 && s->spill_dir[0] == '\0')
        return settings_fail(why, why_bytes,
                             "a bound on spilled bytes needs a spill directory; name one");
    if (s->socket_mode == 0)
        s->socket_mode = SETTINGS_SOCKET_MODE;
    if (s->socket_mode > 0777)
        return settings_fail(why, why_bytes, "the socket's mode %o is above 0777", s->socket_mode);
    return NIGH_OK;
}

static nigh_status settings_take_pools(const nigh_node_options *o, struct node_settings *s,
                                       char *why, size_t why_bytes)
{
    if (o->pool_count > LIMIT_CONFIG_POOLS)
        return settings_fail(why, why_bytes, "%zu pools are too many; the most is %u",
                             o->pool_count, LIMIT_CONFIG_POOLS);
    if (o->pool_count > 0 && o->pools == NULL)
        return settings_fail(why, why_bytes, "no pools are given where pool_count says %zu",
                             o->pool_count);
    for (size_t i = 0; i < o->pool_count; i++) {
        nigh_status status = pool_rules_from_options(&o->pools[i], &s->pools[i], why, why_bytes);

        if (status != NIGH_OK)
            return status;
        for (size_t j = 0; j < i; j++) {
            if (strcmp(s->pools[i].name, s->pools[j].name) == 0)
                return settings_fail(why, why_bytes, "pool %s is declared twice", s->pools[i].name);
        }
    }
    s->pool_count = (uint32_t)o->pool_count;
    return NIGH_OK;
}

/* "10.0.0.1,10.0.1.1" */
static nigh_status settings_take_devices(const char *text, struct node_settings *s, char *why,
                                         size_t why_bytes)
{
    while (text != NULL) {
        size_t length = strcspn(text, ",");
        struct in_addr address;
        char *into;

        if (s->fabric_address_count == SETTINGS_DEVICES)
            return settings_fail(why, why_bytes, "at most %u addresses of RDMA devices are taken",
                                 SETTINGS_DEVICES);
        into = s->fabric_addresses[s->fabric_address_count++];
        snprintf(into, SETTINGS_DEVICE_BYTES, "%.*s", (int)length, text);
        if (length >= SETTINGS_DEVICE_BYTES || inet_pton(AF_INET, into, &address) != 1)
            return settings_fail(why, why_bytes,
                                 "\"%s\" is no IPv4 address of an RDMA device; give them as "
                                 "10.0.0.1,10.0.1.1",
                                 into);
        text = text[length] == ',' ? text + length + 1 : NULL;
    }
    return NIGH_OK;
}

/* As fabric/verbs/verbs.h has them; 0 is not said. */
static nigh_status settings_take_packets(const nigh_node_options *o, struct node_settings *s,
                                         char *why, size_t why_bytes)
{
    if (o->fabric_tos > LIMIT_FABRIC_TOS)
        return settings_fail(why, why_bytes,
                             "a type of service (--fabric-tos) of %u is above %u: it is a byte, "
                             "DSCP * 4 and ECN's two bits, e.g. 106",
                             o->fabric_tos, LIMIT_FABRIC_TOS);
    if (o->fabric_ack_timeout != 0 && (o->fabric_ack_timeout < LIMIT_FABRIC_ACK_MIN ||
                                       o->fabric_ack_timeout > LIMIT_FABRIC_ACK_MAX))
        return settings_fail(why, why_bytes,
                             "an acknowledgement's timeout (--fabric-ack-timeout) of %u is not "
                             "within %u to %u: N is 4.096 us * 2^N, 8 is 1 ms, 20 is 4.3 s",
                             o->fabric_ack_timeout, LIMIT_FABRIC_ACK_MIN, LIMIT_FABRIC_ACK_MAX);
    if (o->fabric_retries > LIMIT_FABRIC_RETRIES)
        return settings_fail(why, why_bytes,
                             "%u tries again (--fabric-retries) are too many; the most is %u",
                             o->fabric_retries, LIMIT_FABRIC_RETRIES);
    if (o->fabric_queue_pairs > LIMIT_BULK_ENDPOINTS)
        return settings_fail(why, why_bytes,
                             "%u queue pairs (--fabric-queue-pairs) for objects to each lane of "
                             "another node are too many; the most is %u",
                             o->fabric_queue_pairs, LIMIT_BULK_ENDPOINTS);
    s->fabric_queue_pairs = o->fabric_queue_pairs;
    s->fabric_tos = o->fabric_tos;
    s->fabric_ack_timeout = o->fabric_ack_timeout;
    s->fabric_retries = o->fabric_retries;
    return NIGH_OK;
}

static nigh_status settings_take_calls(const nigh_node_options *o, struct node_settings *s,
                                       char *why, size_t why_bytes)
{
    static const enum link_way ways[] = {[NIGH_CALLS_AUTO] = LINK_AUTO,
                                         [NIGH_CALLS_SEND] = LINK_SEND,
                                         [NIGH_CALLS_WRITE] = LINK_WRITE};

    if (o->calls_way > NIGH_CALLS_WRITE)
        return settings_fail(why, why_bytes,
                             "the way of calls is 0 (as is quicker), 1 (sent) or 2 (written), "
                             "not %u",
                             o->calls_way);
    s->calls_way = ways[o->calls_way];
    return NIGH_OK;
}

static nigh_status settings_take_shared(const nigh_node_options *o, struct node_settings *s,
                                        char *why, size_t why_bytes)
{
    if (o->shared_receives != 0 &&
        (o->shared_receives < LIMIT_SHARED_FEWEST || o->shared_receives > LIMIT_FABRIC_STOCK))
        return settings_fail(why, why_bytes,
                             "%u receives that connections share (--shared-receives) are not "
                             "within %u to %u; 0 is as there are members",
                             o->shared_receives, LIMIT_SHARED_FEWEST, LIMIT_FABRIC_STOCK);
    s->shared_receives = o->shared_receives;
    return NIGH_OK;
}

static nigh_status settings_take_fanout(const nigh_node_options *o, struct node_settings *s,
                                        char *why, size_t why_bytes)
{
    if (o->fanout > LIMIT_TREE_MOST)
        return settings_fail(why, why_bytes,
                             "%u nodes served with one object at once (--fanout) are too many: the "
                             "most is %u",
                             o->fanout, LIMIT_TREE_MOST);
    s->fanout = o->fanout;
    return NIGH_OK;
}

/* Names are agreed on, so that each is one node's. */
static nigh_status settings_take_name(const nigh_node_options *o, struct node_settings *s,
                                      char *why, size_t why_bytes)
{
    if (o->name == NULL)
        return NIGH_OK;
    if (!agreed_is_name(o->name))
        return settings_fail(why, why_bytes,
                             "a node's name (--name) is a letter, and behind it up to %u letters, "
                             "digits, '-', '_' and '.'",
                             AGREED_NAME_BYTES - 2);
    if (o->state_dir == NULL || o->member == NULL)
        return settings_fail(
            why, why_bytes,
            "names (--name) are agreed on: give --state, and what joins this node to others");
    memcpy(s->name, o->name, strlen(o->name) + 1);
    return NIGH_OK;
}

/* Which nodes there are, or which of them is asked who there is. */
static nigh_status settings_take_members(const nigh_node_options *o, struct node_settings *s,
                                         char *why, size_t why_bytes)
{
    const char *list = o->members != NULL ? o->members : o->member;
    bool joins;

    if (o->member == NULL)
        return settings_fail(why, why_bytes,
                             "members are given (--join), but not which of them this node is "
                             "(--member): its address as it stands there, or its rank; or, to join "
                             "them (--state), an address of its own");
    if (o->cluster_key == NULL)
        return settings_fail(
            why, why_bytes,
            "members are given (--join), but no cluster key (--cluster-key), and nodes without "
            "one are not let in: a file of 32 random bytes, the same at all nodes");
    if (o->ranks != 0 && s->state_dir[0] == '\0')
        return settings_fail(why, why_bytes,
                             "ranks for nodes that join (--ranks) are agreed on: give --state");
    if (address_is_any(o->member))
        return settings_fail(why, why_bytes,
                             "%s (--member) is every address of this machine, and none that other "
                             "nodes can reach: give the one that they reach it by, and --listen %s "
                             "to listen on all",
                             o->member, o->member);
    joins =
        s->state_dir[0] != '\0' && members_is_address(o->member) && !members_names(list, o->member);
    if (!joins)
        return members_parse(list, o->member, &s->members, why, why_bytes);
    if (o->ranks != 0)
        return settings_fail(why, why_bytes,
                             "%s is not among the members, so it joins them: how many ranks there "
                             "are (--ranks) is theirs to say",
                             o->member);
    if (!address_spell(o->member, s->joins_as))
        return settings_fail(why, why_bytes, "the address %s (--member) is too long", o->member);
    return members_parse(list, "0", &s->members, why, why_bytes);
}

static nigh_status settings_take_cluster(const nigh_node_options *o, struct node_settings *s,
                                         char *why, size_t why_bytes)
{
    nigh_status status;

    members_alone(&s->members);
    if (o->fabric > NIGH_FABRIC_AUTO)
        return settings_fail(why, why_bytes, "the fabric is 0 (TCP), 1 (verbs) or 2 (auto), not %u",
                             o->fabric);
    status = settings_take_devices(o->fabric_addresses, s, why, why_bytes);
    if (status == NIGH_OK)
        status = settings_take_packets(o, s, why, why_bytes);
    if (status == NIGH_OK)
        status = settings_take_shared(o, s, why, why_bytes);
    if (status == NIGH_OK)
        status = settings_take_fanout(o, s, why, why_bytes);
    if (status == NIGH_OK)
        status = settings_take_name(o, s, why, why_bytes);
    if (status != NIGH_OK)
        return status;
    if (o->transfer_path > NIGH_TRANSFER_REGISTER)
        return settings_fail(why, why_bytes,
                             "the transfer path is 0 (by size), 1 (two-sided), 2 (one-sided), "
                             "3 (push) or 4 (register), not %u",
                             o->transfer_path);
    status = settings_take_calls(o, s, why, why_bytes);
    if (status != NIGH_OK)
        return status;
    /* Who has an address and views, and knows of nobody, begins a cluster that others join. */
    if (o->members == NULL && (o->member == NULL || s->state_dir[0] == '\0')) {
        if (o->member != NULL || o->listen_address != NULL || o->cluster_key != NULL ||
            o->ranks != 0)
            return settings_fail(
                why, why_bytes,
                "an address (--member, --listen), a key (--cluster-key) or ranks (--ranks) for "
                "other nodes are given, but not which they are: give --join, or, to begin a "
                "cluster that others join, --member and --state");
        return NIGH_OK;
    }
    status = settings_take_members(o, s, why, why_bytes);
    if (status != NIGH_OK)
        return status;
    if (o->listen_address != NULL &&
        bytes_copy_text(s->listen_address, sizeof(s->listen_address), o->listen_address) != NIGH_OK)
        return settings_fail(why, why_bytes, "the address to listen on is too long");
    memcpy(s->cluster_key, o->cluster_key, sizeof(s->cluster_key));
    s->dead_ms = o->dead_ms != 0 ? o->dead_ms : SETTINGS_DEAD_MS;
    s->transfer_path = o->transfer_path;
    s->fabric = o->fabric;
    if (s->state_dir[0] != '\0' && s->joins_as[0] == '\0')
        status = members_agree(&s->members, o->ranks, why, why_bytes);
    s->clustered = s->members.count > 1 || s->joins_as[0] != '\0';
    if (!s->clustered)
        s->state_dir[0] = '\0'; /* one node that nobody can join needs no one */
    return status;
}

nigh_status settings_resolve(const nigh_node_options *given, uint32_t cores,
                             struct node_settings *out, char *why, size_t why_bytes)
{
    nigh_node_options options = {0};
    nigh_status status;

    if (given->struct_size < offsetof(nigh_node_options, extent_bytes) ||
        given->struct_size > 4 * sizeof(options))
        return settings_fail(why, why_bytes,
                             "struct_size is %zu; set it to sizeof(nigh_node_options)",
                             given->struct_size);
    memcpy(&options, given, min_size(given->struct_size, sizeof(options)));
    memset(out, 0, sizeof(*out));
    out->memory_bytes = options.memory_bytes;
    out->extent_bytes = options.extent_bytes;
    out->max_objects = options.max_objects;
    out->lanes = options.lanes;
    out->spin_us = options.spin_us;
    out->max_sessions = options.max_sessions;
    out->max_pins = options.max_pins;
    out->session_quota_bytes = options.session_quota_bytes;
    out->call_memory_bytes = options.call_memory_bytes != 0
                                 ? options.call_memory_bytes
                                 : options.memory_bytes / SETTINGS_CALL_MEMORY_PART;
    out->region_memory_bytes = options.region_memory_bytes != 0
                                   ? options.region_memory_bytes
                                   : options.memory_bytes / SETTINGS_REGION_MEMORY_PART;
    out->space_memory_bytes = options.space_memory_bytes;
    out->region_qos = options.region_qos;
    out->session_rate_bytes = options.session_rate_bytes;
    out->session_rate_ops = options.session_rate_ops;
    out->spill_bytes = options.spill_bytes;
    out->huge_pages = options.huge_pages;
    out->socket_mode = options.socket_mode;

    status = settings_check_memory(out, why, why_bytes);
    if (status == NIGH_OK)
        status = settings_check_space_memory(out, why, why_bytes);
    if (status == NIGH_OK && options.region_qos > NIGH_REGION_QOS_SEPARATE)
        status = settings_fail(why, why_bytes,
                               "priorities of regions are 0 (low ones are limited), 1 (none) or 2 "
                               "(they are apart), not %u",
                               options.region_qos);
    if (status == NIGH_OK)
        status = settings_check_lanes(out, cores, why, why_bytes);
    if (status == NIGH_OK)
        status = settings_check_counts(out, why, why_bytes);
    if (status == NIGH_OK)
        status = settings_check_paths(&options, out, why, why_bytes);
    if (status == NIGH_OK)
        status = settings_take_pools(&options, out, why, why_bytes);
    if (status == NIGH_OK)
        status = settings_take_cluster(&options, out, why, why_bytes);
    return status;
}
