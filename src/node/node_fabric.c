/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What joins this node with others: TCP, or RDMA where the machine has it; a fabric for each lane,
 * all of one kind, chosen once and said in the log once.
 */
#include <linux/capability.h>
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bytes.h"
#include "fabric/tcp/tcp.h"
#include "fabric/verbs/verbs.h"
#include "nigh/node.h"
#include "node/node_internal.h"

#define LOG_MODULE "node"
#include "base/log.h"

#define ANY           "*"
#define DEVICES_BYTES (SETTINGS_DEVICES * SETTINGS_DEVICE_BYTES)
#define BESIDE_BYTES  (UINT64_C(64) << 20) /* that links register, beside the memory of objects */

/* Where the fabrics listen: the host that peers are told, on a port of the system's choice. */
static void host_of(const struct nigh_node *node, char host[FABRIC_ADDRESS_BYTES])
{
    const struct node_settings *settings = &node->settings;
    const char *text = settings->listen_address[0] != '\0'
                           ? settings->listen_address
                           : settings->members.addresses[settings->members.self];
    const char *colon = strrchr(text, ':');

    snprintf(host, FABRIC_ADDRESS_BYTES, "%.*s", colon == NULL ? 0 : (int)(colon - text), text);
}

/* Whether the limit of locked memory does not count for this process. */
static bool may_lock_all(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

    return syscall(SYS_capget, &header, data) == 0 &&
           (data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

/* A device pins what is registered with it: all the memory of the node. */
static bool may_lock(uint64_t memory_bytes, char why[VERBS_WHY_BYTES])
{
    char limit_text[BYTES_SIZE_TEXT], needed_text[BYTES_SIZE_TEXT];
    uint64_t needed = memory_bytes + BESIDE_BYTES;
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= needed || may_lock_all())
        return true;
    (void)bytes_format_sizes(limit.rlim_cur, needed, limit_text, needed_text);
    snprintf(why, VERBS_WHY_BYTES,
             "%s may be locked, and %s is needed: ulimit -l unlimited, or LimitMEMLOCK=infinity",
             limit_text, needed_text);
    return false;
}

/* Where a host name leads, as numbers, without brackets; may ask the resolver. False: nowhere. */
static bool look_up(const char *host, char numbers[FABRIC_ADDRESS_BYTES])
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    char bare[FABRIC_ADDRESS_BYTES];
    size_t length = strlen(host);
    bool is_bracketed = length > 2 && host[0] == '[' && host[length - 1] == ']';
    struct addrinfo *found;
    bool is_known;

    snprintf(bare, sizeof(bare), "%.*s", (int)(is_bracketed ? length - 2 : length),
             is_bracketed ? host + 1 : host);
    if (getaddrinfo(bare, NULL, &hints, &found) != 0)
        return false;
    is_known = getnameinfo(found->ai_addr, found->ai_addrlen, numbers, FABRIC_ADDRESS_BYTES, NULL,
                           0, NI_NUMERICHOST) == 0;
    freeaddrinfo(found);
    return is_known;
}

/* ---- where lanes belong --------------------------------------------------- */

/* Their NUMA nodes. */
static void place(struct nigh_node *node, const int *devices, uint32_t count)
{
    struct numa numa;
    struct placement_facts facts = {
        .numa = &numa, .lanes = node->settings.lanes, .device_count = count};

    numa_read("", &numa);
    CPU_ZERO(&facts.allowed);
    (void)sched_getaffinity(0, sizeof(facts.allowed), &facts.allowed);
    for (uint32_t i = 0; i < count; i++)
        facts.devices[i] = devices[i];
    for (uint32_t i = 0; i < LIMIT_LANES; i++)
        node->placements[i].numa_node = NUMA_NONE; /* a former node may have had more lanes */
    placement_make(&facts, node->placements);
    node->is_placed = numa_count(&numa) > 1;
}

/* Of several devices, before one is opened: librdmacm would keep each that it was asked of. */
static void place_at_addresses(struct nigh_node *node)
{
    const struct node_settings *settings = &node->settings;
    int devices[SETTINGS_DEVICES];

    for (uint32_t i = 0; i < settings->fabric_address_count; i++)
        devices[i] = numa_of_address("", settings->fabric_addresses[i]);
    place(node, devices, settings->fabric_address_count);
}

/* Once the fabrics are there. */
static void settle(struct nigh_node *node)
{
    int device;

    if (strcmp(node->fabrics[0]->caps.name, "verbs") != 0) {
        node->is_placed = false;
        return;
    }
    if (node->settings.fabric_address_count == 0) {
        device = numa_of_device("", verbs_device_name(node->fabrics[0]));
        place(node, &device, 1);
    }
    for (uint32_t i = 0; i < node->settings.lanes && node->is_placed; i++) {
        if (node->placements[i].numa_node != NUMA_NONE)
            LOG_INFO("a lane is near its RDMA device", "lane=%u device=%s numa_node=%d bound=%d", i,
                     verbs_device_name(node->fabrics[i]), node->placements[i].numa_node,
                     node->placements[i].is_bound);
    }
}

/* The devices of a lane, its own first: lanes begin at different ones. */
static void devices_of(const struct nigh_node *node, uint32_t lane, char list[DEVICES_BYTES])
{
    const struct node_settings *settings = &node->settings;
    size_t length = 0;

    list[0] = '\0';
    for (uint32_t i = 0; i < settings->fabric_address_count; i++)
        length += (size_t)snprintf(list + length, DEVICES_BYTES - length, "%s%s", i > 0 ? "," : "",
                                   settings->fabric_addresses[node->placements[lane].devices[i]]);
}

/* ---- made ----------------------------------------------------------------- */

/* The device is the one that the host's address belongs to; without one it is the first. */
static nigh_status make_verbs(const struct nigh_node *node, uint32_t lane, const char *host,
                              char why[VERBS_WHY_BYTES], struct fabric **fabric)
{
    char numbers[FABRIC_ADDRESS_BYTES], devices[DEVICES_BYTES];
    struct verbs_options options = {.address = numbers,
                                    .vector = lane,
                                    .tos = node->settings.fabric_tos,
                                    .ack_timeout = node->settings.fabric_ack_timeout,
                                    .retries = node->settings.fabric_retries};

    if (!may_lock(node->settings.memory_bytes, why))
        return NIGH_UNSUPPORTED;
    devices_of(node, lane, devices);
    if (devices[0] != '\0') {
        options.address = devices;
    } else if (host[0] == '\0' || strcmp(host, ANY) == 0) {
        options.address = NULL;
    } else if (!look_up(host, numbers)) {
        snprintf(why, VERBS_WHY_BYTES, "%s is no address, and no name of one", host);
        return NIGH_UNSUPPORTED;
    }
    return verbs_create(&options, why, fabric);
}

/* The first lane's fabric decides for all. */
static nigh_status make_first(struct nigh_node *node, const char *host, char *why, size_t why_bytes)
{
    char lack[VERBS_WHY_BYTES] = "as configured";
    bool wants_verbs = node->settings.fabric != NIGH_FABRIC_TCP;
    nigh_status status = NIGH_UNSUPPORTED;

    if (wants_verbs)
        status = make_verbs(node, 0, host, lack, &node->fabrics[0]);
    if (wants_verbs && status != NIGH_OK && node->settings.fabric == NIGH_FABRIC_VERBS) {
        snprintf(why, why_bytes, "no RDMA for other nodes: %s; start all nodes with --fabric tcp",
                 lack);
        return status;
    }
    if (status != NIGH_OK)
        status = tcp_create(NULL, &node->fabrics[0]);
    else
        snprintf(lack, sizeof(lack), "%s",
                 node->settings.fabric == NIGH_FABRIC_AUTO ? "there is a device" : "as configured");
    if (status == NIGH_OK)
        LOG_INFO("what joins the nodes", "fabric=%s why=\"%s\"", node->fabrics[0]->caps.name,
                 LOG_QUOTE(lack));
    return status;
}

static nigh_status make_like_first(struct nigh_node *node, uint32_t lane, const char *host,
                                   char *why, size_t why_bytes)
{
    char lack[VERBS_WHY_BYTES] = "";
    nigh_status status;

    if (strcmp(node->fabrics[0]->caps.name, "tcp") == 0)
        return tcp_create(NULL, &node->fabrics[lane]);
    status = make_verbs(node, lane, host, lack, &node->fabrics[lane]);
    if (status != NIGH_OK)
        snprintf(why, why_bytes, "no RDMA for lane %u: %s; start all nodes with --fabric tcp", lane,
                 lack);
    return status;
}

nigh_status node_fabric_make_all(struct nigh_node *node, char *why, size_t why_bytes)
{
    char host[FABRIC_ADDRESS_BYTES], address[FABRIC_ADDRESS_BYTES + 2];
    nigh_status status;

    host_of(node, host);
    snprintf(address, sizeof(address), "%s:0", host);
    why[0] = '\0';
    place_at_addresses(node);
    for (uint32_t i = 0; i < node->settings.lanes; i++) {
        status = i == 0 ? make_first(node, host, why, why_bytes)
                        : make_like_first(node, i, host, why, why_bytes);
        if (status == NIGH_OK)
            status = fabric_listen(node->fabrics[i], address);
        if (status != NIGH_OK) {
            if (why[0] == '\0')
                snprintf(why, why_bytes, "lane %u cannot listen for other nodes on %s: %s", i,
                         address, nigh_status_string(status));
            return status;
        }
    }
    settle(node);
    return NIGH_OK;
}

/* ":port" on tcp, "verbs:port": whoever has another fabric sees that it is another. With several
 * devices "verbs:address,address:port": the lane is at one of them. */
void node_fabric_offer(const struct nigh_node *node, uint32_t lane, char offer[AUTH_ADDRESS_BYTES])
{
    const struct fabric *fabric = lane_fabric(node->lanes[lane]);
    char address[FABRIC_ADDRESS_BYTES], devices[DEVICES_BYTES];
    const char *colon;
    bool is_tcp = strcmp(fabric->caps.name, "tcp") == 0;

    fabric_address(fabric, address);
    colon = strrchr(address, ':');
    NIGH_ASSERT(colon != NULL);
    devices_of(node, lane, devices);
    if (is_tcp || devices[0] == '\0')
        snprintf(offer, AUTH_ADDRESS_BYTES, "%s%s", is_tcp ? "" : fabric->caps.name, colon);
    else
        snprintf(offer, AUTH_ADDRESS_BYTES, "%s:%s%s", fabric->caps.name, devices, colon);
}
