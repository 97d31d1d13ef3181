/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams of the membership protocol as bytes: one layout, read whole or refused, and a keyed
 * digest over all of it (docs/membership.md, docs/protocol.md). Pure; any thread.
 */
#ifndef CLUSTER_SWIM_WIRE_H
#define CLUSTER_SWIM_WIRE_H

#include "cluster/auth.h"
#include "cluster/swim.h"

#define SWIM_WIRE_MAGIC   UINT32_C(0x5348474e) /* "NGHS" */
#define SWIM_WIRE_VERSION 1
#define SWIM_WIRE_MAC     16

/* All numbers little-endian. */
struct swim_wire_head {
    uint32_t magic;
    uint8_t version;
    uint8_t kind;
    uint8_t count; /* of updates */
    uint8_t reserved;
    uint64_t cluster; /* members.epoch */
    uint64_t incarnation;
    uint64_t sequence;
    uint16_t from;
    uint16_t to;
    uint16_t target;
    uint16_t reserved2;
};

struct swim_wire_update {
    uint64_t incarnation;
    uint16_t rank;
    uint16_t from;
    uint8_t state;
    uint8_t reserved[3];
};

_Static_assert(sizeof(struct swim_wire_head) == 40, "the head is on the wire");
_Static_assert(offsetof(struct swim_wire_head, cluster) == 8, "the head is on the wire");
_Static_assert(offsetof(struct swim_wire_head, from) == 32, "the head is on the wire");
_Static_assert(sizeof(struct swim_wire_update) == 16, "an update is on the wire");
_Static_assert(offsetof(struct swim_wire_update, state) == 12, "an update is on the wire");

/* The longest: in one frame of any network, with room to spare. */
#define SWIM_WIRE_BYTES                                                                     \
    (sizeof(struct swim_wire_head) + LIMIT_SWIM_UPDATES * sizeof(struct swim_wire_update) + \
     SWIM_WIRE_MAC)

/* Who speaks to whom about what: the same at all members. */
struct swim_wire {
    uint64_t cluster;
    uint32_t self;
    uint32_t count;              /* of members */
    uint8_t key[AUTH_KEY_BYTES]; /* of datagrams alone */
};

/* The key of datagrams is derived from the cluster's: what one is used for is never the other's. */
void swim_wire_init(struct swim_wire *wire, uint64_t cluster, uint32_t self, uint32_t count,
                    const uint8_t cluster_key[AUTH_KEY_BYTES]);

/* Returns the length; `out` has room for SWIM_WIRE_BYTES. */
size_t swim_wire_encode(const struct swim_wire *wire, const struct swim_message *message,
                        uint8_t *out);

/*
 * Reads one that came. NIGH_OK; NIGH_DENIED: its digest is not of our key; NIGH_VERSION: another
 * version, or another list of members; NIGH_PROTOCOL: anything else, also what is to somebody
 * else. *message is touched on success only.
 */
nigh_status swim_wire_decode(const struct swim_wire *wire, const uint8_t *bytes, size_t size_bytes,
                             struct swim_message *message);

#endif
