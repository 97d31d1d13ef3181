/* SPDX-License-Identifier: Apache-2.0 */
/* See link.h. What is always true of the links of a lane, between two turns. */
#include "cluster/link_internal.h"

static bool is_side_valid(const struct link_side *side)
{
    uint32_t sends = 0;

    LIST_FOREACH(node, &side->sends)
    {
        sends++;
    }
    LIST_FOREACH(node, &side->waiting)
    {
        sends++;
    }
    return sends == side->send_count && (side->over_count > 0) == list_is_linked(&side->place) &&
           (side->over_count == 0 || side->endpoint != NULL);
}

/* It has all that a link has which is up. */
static bool is_link_whole(const struct link *link)
{
    const struct links *links = link->links;

    for (uint32_t kind = 0; kind < LINK_ENDPOINTS; kind++) {
        const struct link_side *side = &link->sides[kind];
        bool has = link_has(link, kind);

        if (((side->endpoint != NULL) != has && !(has && link_is_own(kind))) ||
            (side->rpc != NULL) != (has && links_channel(links, kind) != NULL)) {
            return false;
        }
    }
    return (links->peers[link->rank].up || link->failed) && link->place < links->live_count &&
           links->live[link->place] == link;
}

static bool are_counts_valid(const struct link_side *side)
{
    const struct link *link = side->link;
    uint32_t under_way = 0, reads = 0, writes = 0;

    for (uint32_t n = 0; n < link->ops_used; n++) {
        enum link_op_kind kind = link->ops[n].kind;

        if (kind != LINK_OP_NONE && link->ops[n].over == side->kind) {
            under_way++;
            reads += kind == LINK_OP_READ;
            writes += kind == LINK_OP_WRITE || kind == LINK_OP_WORD;
        }
    }
    return under_way == side->op_count && reads == side->read_count && writes == side->write_count;
}

static bool is_link_valid(const struct link *link)
{
    const struct link_rings *rings = &link->rings;
    uint32_t under_way = 0;

    for (uint32_t kind = 0; kind < LINK_ENDPOINTS; kind++) {
        const struct link_side *side = &link->sides[kind];

        if (!is_side_valid(side) || !are_counts_valid(side)) {
            return false;
        }
        under_way += side->op_count;
    }
    if ((link->up && !rpc_ring_is_valid(&rings->writer, &rings->reader)) ||
        !link_space_is_valid(link)) {
        return false;
    }
    return link->up ? is_link_whole(link) : under_way == 0 || link->failed;
}

bool links_is_valid(const struct links *links)
{
    uint32_t up = 0, count = 0, sends = 0;

    for (uint32_t rank = 0; rank < links->config.nodes; rank++) {
        const struct links_peer *peer = &links->peers[rank];

        for (uint32_t n = 0; n < peer->count; n++) {
            up += peer->links[n].up;
            for (uint32_t kind = 0; kind < LINK_ENDPOINTS; kind++) {
                sends += peer->links[n].sides[kind].send_count;
            }
            if (!is_link_valid(&peer->links[n])) {
                return false;
            }
        }
        count += peer->count;
        if (peer->owed && (peer->up || peer->count > 0)) {
            return false;
        }
    }
    if (!link_loop_is_valid(&links->loop) || links->chain.count >= LINK_CHAIN ||
        (links->chain.count > 0 &&
         (!links->chain.side->link->up || links->chain.side->endpoint == NULL))) {
        return false;
    }
    return bulk_is_valid(&links->bulk) && up == links->live_count && count == links->link_count &&
           sends == links->sends.used;
}
