/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes of different nodes that a test links by hand, and what it leaves unanswered on such links.
 */
#ifndef SUPPORT_LINKS_SIDE_H
#define SUPPORT_LINKS_SIDE_H

#include <string.h>

#include "cluster/link.h"
#include "fabric/fabric.h"
#include "support/support.h"

/* One of them. The first member of a test's own, if it keeps more. */
struct support_side {
    struct fabric *fabric;
    struct links *links;
    struct link *link; /* NULL: not up */
    char address[FABRIC_ADDRESS_BYTES];
};

/* For struct links_shell, whose context is a side. */
static inline void support_side_up(void *context, struct link *link, uint64_t now_us)
{
    struct support_side *side = context;

    (void)now_us;
    side->link = link;
}

static inline void support_side_down(void *context, struct link *link, nigh_status reason,
                                     uint64_t now_us)
{
    struct support_side *side = context;

    (void)link;
    (void)reason;
    (void)now_us;
    side->link = NULL;
}

/* Where nobody asks; and where what is sent does not matter. */
static inline void support_no_request(void *context, struct link *link,
                                      const struct rpc_request *request, uint64_t now_us)
{
    (void)context;
    (void)link;
    (void)request;
    (void)now_us;
}

static inline void support_no_bulk(void *context, struct link *link, const uint8_t *bytes,
                                   uint32_t count, uint64_t now_us)
{
    (void)context;
    (void)link;
    (void)bytes;
    (void)count;
    (void)now_us;
}

static inline void support_side_listen(struct support_side *side, const char *address)
{
    assert_int_equal(fabric_listen(side->fabric, address), NIGH_OK);
    fabric_address(side->fabric, side->address);
}

/* Tells a side of another, whose node has a rank. */
static inline void support_side_meet(struct support_side *side, const struct support_side *other,
                                     uint32_t rank, bool dials)
{
    struct link_peer info = {
        .rank = rank, .incarnation = 1, .dials = dials, .lanes = 1, .bulk_endpoints = 1};

    memcpy(info.addresses[0], other->address, sizeof(other->address));
    assert_int_equal(links_peer_up(side->links, &info, support_now_us()), NIGH_OK);
}

static inline void support_side_close(struct support_side *side)
{
    links_destroy(side->links);
    fabric_destroy(side->fabric);
}

#endif
