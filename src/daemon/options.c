/* SPDX-License-Identifier: Apache-2.0 */
/* See options.h. */
#include "daemon/options.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/fd.h"
#include "fabric/address.h"
#include "node/transfer_names.h"
#include "node/redis.h"

enum daemon_option_number {
    OPTION_SOCKET,
    OPTION_SOCKET_MODE,
    OPTION_MEMORY,
    OPTION_LANES,
    OPTION_SPIN_US,
    OPTION_MAX_OBJECTS,
    OPTION_EXTENT,
    OPTION_HUGE,
    OPTION_SPILL,
    OPTION_SPILL_MAX,
    OPTION_STATE,
    OPTION_SESSION_QUOTA,
    OPTION_CALL_MEMORY,
    OPTION_REGION_MEMORY,
    OPTION_SPACE_MEMORY,
    OPTION_LOG_DIR,
    OPTION_REGION_QOS,
    OPTION_SESSION_RATE,
    OPTION_SESSION_OPS,
    OPTION_MAX_SESSIONS,
    OPTION_MAX_PINS,
    OPTION_JOIN,
    OPTION_MEMBER,
    OPTION_RANKS,
    OPTION_NAME,
    OPTION_LISTEN,
    OPTION_CLUSTER_KEY,
    OPTION_DEAD_MS,
    OPTION_TRANSFER,
    OPTION_CALLS,
    OPTION_FANOUT,
    OPTION_FABRIC,
    OPTION_FABRIC_ADDRESSES,
    OPTION_FABRIC_TOS,
    OPTION_FABRIC_ACK_TIMEOUT,
    OPTION_FABRIC_RETRIES,
    OPTION_FABRIC_QUEUE_PAIRS,
    OPTION_SHARED_RECEIVES,
    OPTION_DIRECTORY,
    OPTION_DIRECTORY_PASSWORD,
    OPTION_HTTP,
    OPTION_LOG_LEVEL
};

_Static_assert(OPTION_LOG_LEVEL + 1 == DAEMON_OPTIONS_COUNT, "the table is whole");

const struct daemon_option daemon_option_table[DAEMON_OPTIONS_COUNT] = {
    [OPTION_SOCKET] = {"socket", "PATH",
                       "where clients connect ($NIGH_SOCKET, else " NIGH_DEFAULT_SOCKET ")"},
    [OPTION_SOCKET_MODE] = {"socket-mode", "MODE", "who may connect (0666: pools decide)"},
    [OPTION_MEMORY] = {"memory", "SIZE", "memory for objects, taken at start (needed)"},
    [OPTION_LANES] = {"lanes", "N", "threads that serve, a power of two (one for two cores)"},
    [OPTION_SPIN_US] = {"spin-us", "N", "how long a lane spins before it sleeps (50; 0: never)"},
    [OPTION_MAX_OBJECTS] = {"max-objects", "N",
                            "entries of each pool's index (memory / 4 KiB, 64 Ki to 1 Mi)"},
    [OPTION_EXTENT] = {"extent", "SIZE",
                       "the piece that memory is given out in, a power of two (memory / 128)"},
    [OPTION_HUGE] = {"huge", "auto|require|never", "huge pages (auto: where granted)"},
    [OPTION_SPILL] = {"spill", "DIR", "write objects there instead of evicting them"},
    [OPTION_SPILL_MAX] = {"spill-max", "SIZE", "most bytes in the spill directory (no bound)"},
    [OPTION_STATE] = {"state", "DIR",
                      "keep there what this node votes for: nodes with it agree on who is a home"},
    [OPTION_SESSION_QUOTA] = {"session-quota", "SIZE", "most bytes that one session may keep"},
    [OPTION_CALL_MEMORY] = {"call-memory", "SIZE",
                            "most memory that clients' calls bring, beside --memory (a quarter)"},
    [OPTION_REGION_MEMORY] = {"region-memory", "SIZE",
                              "most memory for regions that lie here, beside --memory (half)"},
    [OPTION_SPACE_MEMORY] = {"space-memory", "SIZE",
                             "most memory for spaces, beside --memory; 0 (default): serves none"},
    [OPTION_LOG_DIR] = {"log-dir", "DIR",
                        "keep there the logs of spaces that are durable (no such are served)"},
    [OPTION_REGION_QOS] =
        {"region-qos", "WAY",
         "priorities of regions: software (low ones are limited), separate, none"},
    [OPTION_SESSION_RATE] = {"session-rate", "SIZE",
                             "bytes a second of regions for one session; more wait (0: no limit)"},
    [OPTION_SESSION_OPS] = {"session-ops", "N",
                            "operations a second on regions, likewise (0: no limit)"},
    [OPTION_MAX_SESSIONS] = {"max-sessions", "N", "most sessions (1024)"},
    [OPTION_MAX_PINS] = {"max-pins", "N", "most objects that a lane holds for one session (8192)"},
    [OPTION_JOIN] = {"join", "LIST|@FILE",
                     "host:port,... of all nodes, the same at each; with --state one to join by"},
    [OPTION_MEMBER] = {"member", "ADDRESS|RANK", "which of them this node is"},
    [OPTION_RANKS] = {"ranks", "N",
                      "with --state: ranks in all, for nodes that join later (twice the list, 8)"},
    [OPTION_NAME] = {"name", "NAME", "with --state: what this node is called (nothing)"},
    [OPTION_LISTEN] = {"listen", "ADDRESS", "where other nodes connect (as the list says)"},
    [OPTION_CLUSTER_KEY] = {"cluster-key", "FILE",
                            "64 hexadecimal digits or 32 bytes, the same at all nodes"},
    [OPTION_DEAD_MS] = {"dead-ms", "N", "a lost node is taken for dead after so long (5000)"},
    [OPTION_TRANSFER] = {"transfer", "WAY",
                         "auto (by size), two-sided, one-sided, push; register: to benchmark"},
    [OPTION_CALLS] = {"calls", "WAY",
                      "over RDMA: auto (as is quicker), send, write (into rings of memory)"},
    [OPTION_FANOUT] = {"fanout", "N",
                       "nodes that it serves with one large object at once (2); more ask these"},
    [OPTION_FABRIC] = {"fabric", "tcp|verbs|auto",
                       "what joins nodes, the same at each: TCP, or RDMA (tcp)"},
    [OPTION_FABRIC_ADDRESSES] = {"fabric-addresses", "LIST",
                                 "ADDRESS,... of RDMA devices that lanes share (one)"},
    [OPTION_FABRIC_TOS] = {"fabric-tos", "N", "type of service of RDMA's packets (the system's)"},
    [OPTION_FABRIC_ACK_TIMEOUT] = {"fabric-ack-timeout", "N",
                                   "RDMA waits 4.096 us * 2^N for an answer (16 at most)"},
    [OPTION_FABRIC_RETRIES] = {"fabric-retries", "N", "and asks again so often (7)"},
    [OPTION_FABRIC_QUEUE_PAIRS] = {"fabric-queue-pairs", "N",
                                   "that objects are read over, of a lane to another, to 4 (1)"},
    [OPTION_SHARED_RECEIVES] = {"shared-receives", "N",
                                "room for messages that a lane's peers share (by members)"},
    [OPTION_DIRECTORY] = {"directory", "URL",
                          "redis://host:port[/db] or unix:///path, the same at all nodes (nodes)"},
    [OPTION_DIRECTORY_PASSWORD] = {"directory-password", "FILE",
                                   "the password for it, which others may not read"},
    [OPTION_HTTP] = {"http", "PORT", "show the node at http://127.0.0.1:PORT/, and /metrics (no)"},
    [OPTION_LOG_LEVEL] = {"log-level", "LEVEL", "error, warn, info or debug (info)"},
};

void daemon_options_init(struct daemon_options *options)
{
    const char *socket = getenv("NIGH_SOCKET");

    memset(options, 0, sizeof(*options));
    options->ready_fd = -1;
    options->spin_us = SETTINGS_SPIN_DEFAULT;
    options->log_level = LOG_LEVEL_INFO;
    if (socket == NULL || socket[0] == '\0' ||
        bytes_copy_text(options->socket, sizeof(options->socket), socket) != NIGH_OK)
        (void)bytes_copy_text(options->socket, sizeof(options->socket), NIGH_DEFAULT_SOCKET);
}

int daemon_option_find(const char *name)
{
    for (int i = 0; i < DAEMON_OPTIONS_COUNT; i++) {
        if (strcmp(daemon_option_table[i].name, name) == 0)
            return i;
    }
    return -1;
}

/* ---- values --------------------------------------------------------------- */

static nigh_status option_wrong(const char *text, const char *wanted, char *why, size_t why_bytes)
{
    char shown[64];

    bytes_printable(text, strnlen(text, 40), shown, sizeof(shown));
    snprintf(why, why_bytes, "\"%s\" is not %s", shown, wanted);
    return NIGH_INVALID;
}

static nigh_status option_size(const char *text, uint64_t *size, char *why, size_t why_bytes)
{
    if (bytes_parse_size(text, size) != NIGH_OK)
        return option_wrong(text, "a size; write e.g. 512M or 4G", why, why_bytes);
    return NIGH_OK;
}

static nigh_status option_number(const char *text, int base, uint32_t most, uint32_t *number,
                                 char *why, size_t why_bytes)
{
    unsigned long long value;
    char *end;

    errno = 0;
    value = strtoull(text, &end, base);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value > most) {
        char wanted[64];

        snprintf(wanted, sizeof(wanted),
                 base == 8 ? "an octal number up to %o" : "a number up to %u", most);
        return option_wrong(text, wanted, why, why_bytes);
    }
    *number = (uint32_t)value;
    return NIGH_OK;
}

/* What 0 would mean is not what whoever says it wants: in nigh_node_options it is the default. */
static nigh_status option_none(char *why, size_t why_bytes)
{
    snprintf(why, why_bytes,
             "0 is not taken; say how much, or leave the option away for its default");
    return NIGH_INVALID;
}

static nigh_status option_some_bytes(const char *text, uint64_t *size, char *why, size_t why_bytes)
{
    nigh_status status = option_size(text, size, why, why_bytes);

    return status == NIGH_OK && *size == 0 ? option_none(why, why_bytes) : status;
}

static nigh_status option_some(const char *text, int base, uint32_t most, uint32_t *number,
                               char *why, size_t why_bytes)
{
    nigh_status status = option_number(text, base, most, number, why, why_bytes);

    return status == NIGH_OK && *number == 0 ? option_none(why, why_bytes) : status;
}

/* Who says 0 here mostly wants no chunks, which is to be had. */
static nigh_status option_region_memory(const char *text, uint64_t *size, char *why,
                                        size_t why_bytes)
{
    nigh_status status = option_size(text, size, why, why_bytes);

    if (status != NIGH_OK || *size != 0)
        return status;
    snprintf(why, why_bytes,
             "0 is not taken; say how much (1: no chunk of a region lies here), or leave the "
             "option away for its default");
    return NIGH_INVALID;
}

static nigh_status option_path(const char *text, char path[SETTINGS_PATH_BYTES], char *why,
                               size_t why_bytes)
{
    if (text[0] == '\0')
        return option_wrong(text, "a path", why, why_bytes);
    if (bytes_copy_text(path, SETTINGS_PATH_BYTES, text) != NIGH_OK)
        return option_wrong(text, "a path that the system can take: it is too long", why,
                            why_bytes);
    return NIGH_OK;
}

static nigh_status option_address(const char *text, char address[MEMBERS_ADDRESS_BYTES], char *why,
                                  size_t why_bytes)
{
    if (text[0] == '\0' || bytes_copy_text(address, MEMBERS_ADDRESS_BYTES, text) != NIGH_OK)
        return option_wrong(text, "an address; write host:port or [ipv6]:port", why, why_bytes);
    return NIGH_OK;
}

static nigh_status option_name(const char *text, char name[AGREED_NAME_BYTES], char *why,
                               size_t why_bytes)
{
    if (!agreed_is_name(text) || bytes_copy_text(name, AGREED_NAME_BYTES, text) != NIGH_OK)
        return option_wrong(text,
                            "a node's name; write a letter, and behind it at most 30 letters, "
                            "digits, '-', '_' and '.'",
                            why, why_bytes);
    return NIGH_OK;
}

/* New lines separate addresses too, and more than one of them, or spaces, mean nothing. */
static void option_lines_to_list(char *list)
{
    size_t to = 0;

    for (size_t from = 0; list[from] != '\0'; from++) {
        char c = list[from] == '\n' ? ',' : list[from];

        if (strchr(" \t\r", c) == NULL && (list[from] != '\n' || (to > 0 && list[to - 1] != ',')))
            list[to++] = c;
    }
    list[to] = '\0';
    if (to > 0 && list[to - 1] == ',')
        list[to - 1] = '\0';
}

static nigh_status option_join_file(const char *path, char list[DAEMON_JOIN_BYTES], char *why,
                                    size_t why_bytes)
{
    FILE *file = fopen(path, "re");
    size_t bytes = file != NULL ? fread(list, 1, DAEMON_JOIN_BYTES, file) : 0;
    int error = file == NULL || ferror(file) ? errno : 0;
    char shown[256];

    if (file != NULL)
        fclose(file);
    bytes_printable(path, strnlen(path, 200), shown, sizeof(shown));
    list[bytes < DAEMON_JOIN_BYTES ? bytes : 0] = '\0';
    if (error != 0) {
        snprintf(why, why_bytes, "cannot read %s: %s", shown, strerror(error));
        return NIGH_INVALID;
    }
    if (bytes == DAEMON_JOIN_BYTES)
        return option_wrong(path, "a list of at most 256 addresses", why, why_bytes);
    option_lines_to_list(list);
    if (list[0] == '\0') {
        snprintf(why, why_bytes, "no address stands in %s; write one host:port a line", shown);
        return NIGH_INVALID;
    }
    return NIGH_OK;
}

/* A list, or the name of a file with one. */
static nigh_status option_join(const char *text, char list[DAEMON_JOIN_BYTES], char *why,
                               size_t why_bytes)
{
    if (text[0] == '@')
        return option_join_file(text + 1, list, why, why_bytes);
    if (text[0] == '\0' || bytes_copy_text(list, DAEMON_JOIN_BYTES, text) != NIGH_OK)
        return option_wrong(text, "a list of host:port", why, why_bytes);
    return NIGH_OK;
}

/* One of some words, by its place. */
static nigh_status option_word(const char *text, const char *const *words, uint32_t count,
                               const char *wanted, uint32_t *place, char *why, size_t why_bytes)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0) {
            *place = i;
            return NIGH_OK;
        }
    }
    return option_wrong(text, wanted, why, why_bytes);
}

static nigh_status option_huge(const char *text, uint32_t *huge, char *why, size_t why_bytes)
{
    static const char *const names[] = {"auto", "require", "never"};

    return option_word(text, names, ARRAY_LENGTH(names), "auto, require or never", huge, why,
                       why_bytes);
}

static nigh_status option_transfer(const char *text, uint32_t *path, char *why, size_t why_bytes)
{
    return option_word(text, transfer_names, TRANSFER_NAMES, TRANSFER_NAMES_TEXT, path, why,
                       why_bytes);
}

static nigh_status option_calls(const char *text, uint32_t *way, char *why, size_t why_bytes)
{
    static const char *const names[] = {"auto", "send", "write"};

    return option_word(text, names, ARRAY_LENGTH(names), "auto, send or write", way, why,
                       why_bytes);
}

static nigh_status option_fabric(const char *text, uint32_t *fabric, char *why, size_t why_bytes)
{
    static const char *const names[] = {"tcp", "verbs", "auto"};

    return option_word(text, names, ARRAY_LENGTH(names), "tcp, verbs or auto", fabric, why,
                       why_bytes);
}

static nigh_status option_region_qos(const char *text, uint32_t *policy, char *why,
                                     size_t why_bytes)
{
    static const char *const names[] = {"software", "none", "separate"};

    return option_word(text, names, ARRAY_LENGTH(names), "software, none or separate", policy, why,
                       why_bytes);
}

/* A port of the loopback, or a whole address of it. */
static nigh_status option_http(const char *text, char http[FABRIC_ADDRESS_BYTES], char *why,
                               size_t why_bytes)
{
    char ignored[OPTIONS_WHY_BYTES];
    struct address address;
    uint32_t port = 0;

    if (option_number(text, 10, 65535, &port, ignored, sizeof(ignored)) == NIGH_OK && port > 0) {
        (void)snprintf(http, FABRIC_ADDRESS_BYTES, "127.0.0.1:%u", port);
        return NIGH_OK;
    }
    if (address_parse(text, &address) != NIGH_OK || !address_is_loopback(&address) ||
        bytes_copy_text(http, FABRIC_ADDRESS_BYTES, text) != NIGH_OK)
        return option_wrong(text, "a port, or an address of the loopback with one", why, why_bytes);
    return NIGH_OK;
}

/* Where the directory is: "nodes" themselves, or a server. The text may hold a password: it is not
 * shown. */
static nigh_status option_directory(const char *text, struct daemon_options *o, char *why,
                                    size_t why_bytes)
{
    o->has_directory = false;
    if (strcmp(text, "nodes") == 0)
        return NIGH_OK;
    if (!redis_address_parse(text, &o->directory)) {
        snprintf(why, why_bytes,
                 "the directory is at no such place; write nodes, redis://host:port[/database] or "
                 "unix:///path/of/its/socket, and a password with blanks into the file of "
                 "--directory-password");
        return NIGH_INVALID;
    }
    if (!redis_is_built()) {
        snprintf(why, why_bytes, "this build has no Redis; build it with hiredis (libhiredis-dev)");
        return NIGH_INVALID;
    }
    o->has_directory = true;
    return NIGH_OK;
}

nigh_status daemon_option_set(struct daemon_options *o, int option, const char *text, char *why,
                              size_t n)
{
    uint64_t objects;
    nigh_status status;

    switch ((enum daemon_option_number)option) {
    case OPTION_SOCKET: return option_path(text, o->socket, why, n);
    case OPTION_SOCKET_MODE: return option_some(text, 8, 0777, &o->socket_mode, why, n);
    case OPTION_MEMORY: o->memory_given = true; return option_size(text, &o->memory_bytes, why, n);
    case OPTION_LANES: return option_some(text, 10, LIMIT_LANES, &o->lanes, why, n);
    case OPTION_SPIN_US: return option_number(text, 10, LIMIT_SPIN_US, &o->spin_us, why, n);
    case OPTION_EXTENT: return option_some_bytes(text, &o->extent_bytes, why, n);
    case OPTION_HUGE: return option_huge(text, &o->huge_pages, why, n);
    case OPTION_SPILL: return option_path(text, o->spill, why, n);
    case OPTION_STATE: return option_path(text, o->state, why, n);
    case OPTION_SPILL_MAX: return option_some_bytes(text, &o->spill_bytes, why, n);
    case OPTION_SESSION_QUOTA: return option_some_bytes(text, &o->session_quota_bytes, why, n);
    case OPTION_CALL_MEMORY: return option_some_bytes(text, &o->call_memory_bytes, why, n);
    case OPTION_REGION_MEMORY: return option_region_memory(text, &o->region_memory_bytes, why, n);
    case OPTION_SPACE_MEMORY: return option_size(text, &o->space_memory_bytes, why, n);
    case OPTION_LOG_DIR: return option_path(text, o->log_dir, why, n);
    case OPTION_REGION_QOS: return option_region_qos(text, &o->region_qos, why, n);
    case OPTION_SESSION_RATE: return option_size(text, &o->session_rate_bytes, why, n);
    case OPTION_SESSION_OPS:
        return option_number(text, 10, LIMIT_SESSION_OPS, &o->session_ops, why, n);
    case OPTION_MAX_SESSIONS:
        return option_some(text, 10, LIMIT_SESSIONS, &o->max_sessions, why, n);
    case OPTION_MAX_PINS: return option_some(text, 10, LIMIT_LANE_PINS, &o->max_pins, why, n);
    case OPTION_JOIN: return option_join(text, o->join, why, n);
    case OPTION_MEMBER: return option_address(text, o->member, why, n);
    case OPTION_RANKS: return option_some(text, 10, LIMIT_NODES, &o->ranks, why, n);
    case OPTION_NAME: return option_name(text, o->name, why, n);
    case OPTION_LISTEN: return option_address(text, o->listen_address, why, n);
    case OPTION_CLUSTER_KEY: return option_path(text, o->cluster_key_path, why, n);
    case OPTION_DEAD_MS: return option_number(text, 10, 3600000, &o->dead_ms, why, n);
    case OPTION_TRANSFER: return option_transfer(text, &o->transfer_path, why, n);
    case OPTION_CALLS: return option_calls(text, &o->calls_way, why, n);
    case OPTION_FANOUT: return option_number(text, 10, LIMIT_TREE_MOST, &o->fanout, why, n);
    case OPTION_FABRIC: return option_fabric(text, &o->fabric, why, n);
    case OPTION_FABRIC_ADDRESSES:
        return bytes_copy_text(o->fabric_addresses, sizeof(o->fabric_addresses), text) == NIGH_OK
                   ? NIGH_OK
                   : option_wrong(text, "a list of up to four IPv4 addresses", why, n);
    case OPTION_FABRIC_TOS:
        return option_number(text, 10, LIMIT_FABRIC_TOS, &o->fabric_tos, why, n);
    case OPTION_FABRIC_ACK_TIMEOUT:
        return option_number(text, 10, LIMIT_FABRIC_ACK_MAX, &o->fabric_ack_timeout, why, n);
    case OPTION_FABRIC_RETRIES:
        return option_number(text, 10, LIMIT_FABRIC_RETRIES, &o->fabric_retries, why, n);
    case OPTION_FABRIC_QUEUE_PAIRS:
        return option_number(text, 10, LIMIT_BULK_ENDPOINTS, &o->fabric_queue_pairs, why, n);
    case OPTION_SHARED_RECEIVES:
        return option_number(text, 10, LIMIT_FABRIC_STOCK, &o->shared_receives, why, n);
    case OPTION_DIRECTORY: return option_directory(text, o, why, n);
    case OPTION_DIRECTORY_PASSWORD: return option_path(text, o->directory_password_path, why, n);
    case OPTION_HTTP: return option_http(text, o->http, why, n);
    case OPTION_LOG_LEVEL:
        return log_level_parse(text, &o->log_level)
                   ? NIGH_OK
                   : option_wrong(text, "error, warn, info or debug", why, n);
    case OPTION_MAX_OBJECTS:
        status = option_some_bytes(text, &objects, why, n);
        if (status == NIGH_OK)
            o->max_objects = objects;
        return status;
    }
    return NIGH_INVALID;
}

/* ---- pools ---------------------------------------------------------------- */

static nigh_status pool_set_owner(struct daemon_pool *pool, const char *text, char *why, size_t n)
{
    const struct passwd *user;

    pool->has_owner = true;
    if (text[0] >= '0' && text[0] <= '9')
        return option_number(text, 10, UINT32_MAX - 1, &pool->owner_uid, why, n);
    user = getpwnam(text);
    if (user == NULL)
        return option_wrong(text, "a user of this machine", why, n);
    pool->owner_uid = user->pw_uid;
    if (!pool->has_group)
        pool->group_gid = user->pw_gid;
    return NIGH_OK;
}

static nigh_status pool_set_group(struct daemon_pool *pool, const char *text, char *why, size_t n)
{
    const struct group *group;

    pool->has_group = true;
    if (text[0] >= '0' && text[0] <= '9')
        return option_number(text, 10, UINT32_MAX - 1, &pool->group_gid, why, n);
    group = getgrnam(text);
    if (group == NULL)
        return option_wrong(text, "a group of this machine", why, n);
    pool->group_gid = group->gr_gid;
    return NIGH_OK;
}

nigh_status daemon_pool_set(struct daemon_pool *pool, const char *key, const char *text, char *why,
                            size_t n)
{
    char shown[64];

    if (strcmp(key, "owner") == 0)
        return pool_set_owner(pool, text, why, n);
    if (strcmp(key, "group") == 0)
        return pool_set_group(pool, text, why, n);
    if (strcmp(key, "mode") == 0)
        return option_number(text, 8, 0777, &pool->mode, why, n);
    if (strcmp(key, "quota") == 0)
        return option_size(text, &pool->quota_bytes, why, n);
    if (strcmp(key, "strict") == 0) {
        if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
            return option_wrong(text, "yes or no", why, n);
        pool->strict = text[0] == 'y';
        return NIGH_OK;
    }
    bytes_printable(key, strnlen(key, 40), shown, sizeof(shown));
    snprintf(why, n, "a pool has no \"%s\"; it has owner, group, mode, strict and quota", shown);
    return NIGH_NOT_FOUND;
}

/* The cluster's key, from a file that not everybody may read. */
static nigh_status options_read_key(struct daemon_options *o, char *why, size_t why_bytes)
{
    char reason[OPTIONS_WHY_BYTES];
    uint8_t text[256];
    struct stat stat;
    ssize_t bytes;
    int fd = open(o->cluster_key_path, O_RDONLY | O_CLOEXEC);
    nigh_status status;

    if (fd < 0 || fstat(fd, &stat) != 0) {
        snprintf(why, why_bytes, "cannot read the cluster key %.200s: %s", o->cluster_key_path,
                 strerror(errno));
        fd_close(&fd);
        return NIGH_INVALID;
    }
    if (S_ISREG(stat.st_mode) && (stat.st_mode & S_IROTH) != 0) {
        snprintf(why, why_bytes, "everybody may read the cluster key %.200s; chmod 600 it",
                 o->cluster_key_path);
        fd_close(&fd);
        return NIGH_INVALID;
    }
    bytes = read(fd, text, sizeof(text));
    fd_close(&fd);
    status =
        auth_key_parse(text, bytes > 0 ? (size_t)bytes : 0, o->cluster_key, reason, sizeof(reason));
    explicit_bzero(text, sizeof(text));
    if (status != NIGH_OK)
        snprintf(why, why_bytes, "%.200s: %.300s", o->cluster_key_path, reason);
    return status;
}

/* The first line of a file that not everybody may read. */
static nigh_status options_read_password(struct daemon_options *o, char *why, size_t why_bytes)
{
    char text[REDIS_PASSWORD_BYTES + 2] = "";
    struct stat stat;
    ssize_t bytes = -1;
    int fd = open(o->directory_password_path, O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) &&
        (stat.st_mode & S_IROTH) != 0) {
        snprintf(why, why_bytes, "everybody may read the directory's password %.200s; chmod 600 it",
                 o->directory_password_path);
        fd_close(&fd);
        return NIGH_INVALID;
    }
    if (fd >= 0)
        bytes = read(fd, text, sizeof(text) - 1);
    if (bytes < 0)
        snprintf(why, why_bytes, "cannot read the directory's password %.200s: %s",
                 o->directory_password_path, strerror(errno));
    fd_close(&fd);
    if (bytes < 0)
        return NIGH_INVALID;
    text[strcspn(text, "\r\n")] = '\0';
    if (text[0] == '\0' ||
        bytes_copy_text(o->directory.password, sizeof(o->directory.password), text) != NIGH_OK) {
        snprintf(why, why_bytes, "%.200s holds no password of at most %u characters",
                 o->directory_password_path, REDIS_PASSWORD_BYTES - 1);
        return NIGH_INVALID;
    }
    return NIGH_OK;
}

/* Where the directory is, with its password. */
static nigh_status options_set_directory(struct daemon_options *o, struct node_settings *settings,
                                         char *why, size_t why_bytes)
{
    nigh_status status = NIGH_OK;

    if (o->has_directory && !settings->clustered) {
        snprintf(why, why_bytes, "a node alone needs no directory; name the others with --join");
        return NIGH_INVALID;
    }
    if (o->has_directory && o->state[0] != '\0') {
        snprintf(why, why_bytes,
                 "with a directory at a server there are no homes to agree on; "
                 "leave --state or --directory away");
        return NIGH_INVALID;
    }
    if (o->directory_password_path[0] != '\0') {
        status = o->has_directory ? options_read_password(o, why, why_bytes) : NIGH_INVALID;
        if (!o->has_directory)
            snprintf(why, why_bytes, "a directory's password is given, and no --directory");
    }
    settings->has_directory = o->has_directory;
    settings->directory = o->directory;
    return status;
}

nigh_status daemon_options_resolve(struct daemon_options *o, uint32_t cores,
                                   struct node_settings *settings, char *why, size_t why_bytes)
{
    nigh_status status;
    nigh_pool_options pools[LIMIT_CONFIG_POOLS] = {0};
    nigh_node_options options = {
        .struct_size = sizeof(options),
        .socket_path = o->socket,
        .memory_bytes = o->memory_bytes,
        .extent_bytes = o->extent_bytes,
        .max_objects = o->max_objects,
        .lanes = o->lanes,
        .spin_us = o->spin_us,
        .max_sessions = o->max_sessions,
        .max_pins = o->max_pins,
        .session_quota_bytes = o->session_quota_bytes,
        .call_memory_bytes = o->call_memory_bytes,
        .region_memory_bytes = o->region_memory_bytes,
        .space_memory_bytes = o->space_memory_bytes,
        .space_log_dir = o->log_dir[0] != '\0' ? o->log_dir : NULL,
        .region_qos = o->region_qos,
        .session_rate_bytes = o->session_rate_bytes,
        .session_rate_ops = o->session_ops,
        .spill_dir = o->spill[0] != '\0' ? o->spill : NULL,
        .state_dir = o->state[0] != '\0' ? o->state : NULL,
        .spill_bytes = o->spill_bytes,
        .huge_pages = o->huge_pages,
        .socket_mode = o->socket_mode,
        .pools = pools,
        .pool_count = o->pool_count,
        .members = o->join[0] != '\0' ? o->join : NULL,
        .member = o->member[0] != '\0' ? o->member : NULL,
        .listen_address = o->listen_address[0] != '\0' ? o->listen_address : NULL,
        .cluster_key = o->cluster_key_path[0] != '\0' ? o->cluster_key : NULL,
        .dead_ms = o->dead_ms,
        .transfer_path = o->transfer_path,
        .calls_way = o->calls_way,
        .fanout = o->fanout,
        .ranks = o->ranks,
        .name = o->name[0] != '\0' ? o->name : NULL,
        .fabric = o->fabric,
        .fabric_addresses = o->fabric_addresses[0] != '\0' ? o->fabric_addresses : NULL,
        .fabric_tos = o->fabric_tos,
        .fabric_ack_timeout = o->fabric_ack_timeout,
        .fabric_retries = o->fabric_retries,
        .fabric_queue_pairs = o->fabric_queue_pairs,
        .shared_receives = o->shared_receives,
    };

    for (uint32_t i = 0; i < o->pool_count; i++) {
        const struct daemon_pool *pool = &o->pools[i];

        pools[i].name = pool->name;
        pools[i].owner_uid = pool->has_owner ? pool->owner_uid : geteuid();
        pools[i].group_gid = pool->has_owner || pool->has_group ? pool->group_gid : getegid();
        pools[i].mode = pool->mode;
        pools[i].strict = pool->strict;
        pools[i].quota_bytes = pool->quota_bytes;
    }
    if (o->memory_bytes == 0) {
        snprintf(why, why_bytes,
                 "%s; say how much, with a suffix K, M, G, T or P of powers of 1024, e.g. "
                 "--memory 1G",
                 o->memory_given ? "a memory size of 0 is none" : "no memory size is given");
        return NIGH_INVALID;
    }
    if (o->cluster_key_path[0] != '\0') {
        status = options_read_key(o, why, why_bytes);
        if (status != NIGH_OK)
            return status;
    }
    status = settings_resolve(&options, cores, settings, why, why_bytes);
    return status == NIGH_OK ? options_set_directory(o, settings, why, why_bytes) : status;
}
