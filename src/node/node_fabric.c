/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What joins this node with others: TCP, or RDMA where the machine has it; a fabric for each lane,
 * all of one kind, chosen once and said in the log once.
 */
#include <stdio.h>
#include <string.h>

#include "fabric/tcp/tcp.h"
#include "fabric/verbs/verbs.h"
#include "nigh/node.h"
#include "node/node_internal.h"

#define LOG_MODULE "node"
#include "base/log.h"

#define ANY "*"

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

/* The device is the one that the host's address belongs to; without one it is the first. */
static nigh_status make_verbs(const char *host, char why[VERBS_WHY_BYTES], struct fabric **fabric)
{
    struct verbs_options options = {.address = host};
    char bare[FABRIC_ADDRESS_BYTES];
    size_t length = strlen(host);

    if (length > 2 && host[0] == '[' && host[length - 1] == ']') {
        snprintf(bare, sizeof(bare), "%.*s", (int)length - 2, host + 1);
        options.address = bare;
    }
    if (length == 0 || strcmp(host, ANY) == 0)
        options.address = NULL;
    return verbs_create(&options, why, fabric);
}

/* The first lane's fabric decides for all. */
static nigh_status make_first(struct nigh_node *node, const char *host, char *why, size_t why_bytes)
{
    char lack[VERBS_WHY_BYTES] = "as configured";
    bool wants_verbs = node->settings.fabric != NIGH_FABRIC_TCP;
    nigh_status status = NIGH_UNSUPPORTED;

    if (wants_verbs)
        status = make_verbs(host, lack, &node->fabrics[0]);
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
        LOG_INFO("what joins the nodes", "fabric=%s why=\"%s\"", node->fabrics[0]->caps.name, lack);
    return status;
}

static nigh_status make_like_first(struct nigh_node *node, uint32_t lane, const char *host)
{
    char lack[VERBS_WHY_BYTES];

    if (strcmp(node->fabrics[0]->caps.name, "tcp") == 0)
        return tcp_create(NULL, &node->fabrics[lane]);
    return make_verbs(host, lack, &node->fabrics[lane]);
}

nigh_status node_fabric_make_all(struct nigh_node *node, char *why, size_t why_bytes)
{
    char host[FABRIC_ADDRESS_BYTES], address[FABRIC_ADDRESS_BYTES + 2];
    nigh_status status;

    host_of(node, host);
    snprintf(address, sizeof(address), "%s:0", host);
    why[0] = '\0';
    for (uint32_t i = 0; i < node->settings.lanes; i++) {
        status = i == 0 ? make_first(node, host, why, why_bytes) : make_like_first(node, i, host);
        if (status == NIGH_OK)
            status = fabric_listen(node->fabrics[i], address);
        if (status != NIGH_OK) {
            if (why[0] == '\0')
                snprintf(why, why_bytes, "lane %u cannot listen for other nodes on %s: %s", i,
                         address, nigh_status_string(status));
            return status;
        }
    }
    return NIGH_OK;
}

/* ":port" on tcp, "verbs:port": whoever has another fabric sees that it is another. */
void node_fabric_offer(const struct fabric *fabric, char offer[AUTH_ADDRESS_BYTES])
{
    char address[FABRIC_ADDRESS_BYTES];
    const char *colon;
    bool is_tcp = strcmp(fabric->caps.name, "tcp") == 0;

    fabric_address(fabric, address);
    colon = strrchr(address, ':');
    NIGH_ASSERT(colon != NULL);
    snprintf(offer, AUTH_ADDRESS_BYTES, "%s%s", is_tcp ? "" : fabric->caps.name, colon);
}
