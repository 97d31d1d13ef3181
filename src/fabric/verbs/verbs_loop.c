/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints that lead back to the own fabric (V17): two queue pairs of the device, connected with
 * each other by ourselves. rdma_cm has no part in it: there is nobody to agree with, and a fabric
 * that does not listen has one, too.
 */
#include <netinet/in.h>
#include <string.h>

#include "fabric/verbs/verbs_internal.h"

#define GIDS_MOST  64 /* looked at */
#define HOP_LIMIT  64
#define GID_BYTES  16u
#define IPV4_BYTES 4u

/* How well a GID will do: the one of the address that the device was chosen by, one of any other,
 * one that every interface makes for itself. */
static int worth_of(const struct verbs *verbs, const union ibv_gid *gid)
{
    static const union ibv_gid none;
    const struct sockaddr_storage *local = &verbs->local.storage;
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)(const void *)local)->sin6_addr;
    const struct in_addr *in = &((const struct sockaddr_in *)(const void *)local)->sin_addr;

    if (memcmp(gid, &none, sizeof(none)) == 0)
        return 0;
    if (verbs->local.bytes > 0 &&
        (local->ss_family == AF_INET
             ? memcmp(gid->raw + GID_BYTES - IPV4_BYTES, in, IPV4_BYTES) == 0
             : memcmp(gid->raw, in6, GID_BYTES) == 0))
        return 3;
    return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80 ? 1 : 2;
}

/* The way from the port to itself. False: it has no GID, and needs one. */
static bool find_way(struct verbs *verbs, struct ibv_ah_attr *way)
{
    const struct ibv_port_attr *port = &verbs->device.port;
    int best = 0;
    bool needs_gid =
        port->link_layer == IBV_LINK_LAYER_ETHERNET || (port->flags & IBV_QPF_GRH_REQUIRED) != 0;

    *way = (struct ibv_ah_attr){.port_num = verbs->device.port_number,
                                .dlid = port->lid,
                                .is_global = needs_gid,
                                .grh = {.hop_limit = HOP_LIMIT, .traffic_class = verbs->tos}};
    for (int i = 0; i < port->gid_tbl_len && i < GIDS_MOST; i++) {
        union ibv_gid gid;
        int worth;

        if (verbs->library->query_gid(verbs->device.context, verbs->device.port_number, i, &gid) !=
            0)
            continue;
        worth = worth_of(verbs, &gid);
        if (worth <= best)
            continue;
        best = worth;
        way->grh.dgid = gid;
        way->grh.sgid_index = (uint8_t)i;
    }
    return best > 0 || !needs_gid;
}

/* Nobody was told of it: there is no event, and it is gone on return. */
static void undo(struct fabric_endpoint *endpoint)
{
    verbs_endpoint_set_state(endpoint, VERBS_FAILED);
    verbs_endpoint_destroy(endpoint);
}

nigh_status verbs_loop(struct fabric *fabric, const struct fabric_endpoint_options *options,
                       struct fabric_endpoint **endpoint)
{
    struct verbs *verbs = verbs_of(fabric);
    struct fabric_endpoint *made;
    struct ibv_ah_attr way;
    nigh_status status;

    if (verbs->is_gone || verbs->is_held)
        return NIGH_UNREACHABLE;
    if (verbs->endpoint_count == LIMIT_FABRIC_ENDPOINTS)
        return NIGH_LIMIT;
    made = verbs_endpoint_make(verbs, VERBS_RESOLVING);
    if (made == NULL)
        return NIGH_NO_RESOURCES;
    made->is_dialled = made->is_known = made->is_loop = true;
    status = verbs_endpoint_size(made, options);
    if (status == NIGH_OK)
        status = verbs_queue_make(made);
    if (status == NIGH_OK)
        status = find_way(verbs, &way) ? verbs_queue_loop(made, &way) : NIGH_UNREACHABLE;
    if (status != NIGH_OK) {
        undo(made);
        return status;
    }
    verbs_endpoint_set_state(made, VERBS_OPEN);
    *endpoint = made;
    return NIGH_OK;
}
