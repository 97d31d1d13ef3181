/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who the nodes of a cluster are, and which of them is the home of a key.
 *
 * The list is static and the same at every node, in the same order: a node's rank is its place in
 * it. Homes are chosen by rendezvous hashing over the ranks and do not move. Nothing here looks at
 * who is alive.
 *
 * Pure; any thread. A struct members does not change after members_parse.
 */
#ifndef CLUSTER_MEMBERS_H
#define CLUSTER_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"

#define MEMBERS_ADDRESS_BYTES 80 /* "[ipv6]:port" and its terminator */

struct members {
    uint32_t count;                                     /* 1 .. LIMIT_NODES */
    uint32_t self;                                      /* our rank */
    char addresses[LIMIT_NODES][MEMBERS_ADDRESS_BYTES]; /* of control connections, by rank */
    uint64_t seeds[LIMIT_NODES];                        /* what each rank is hashed with */
    uint64_t epoch; /* of the list: equal at nodes with equal lists, and only there */
};

/*
 * Reads "host:port,host:port,..." (white space around commas allowed), numeric addresses or names
 * (kept as text). `self` is which of them we are, as text equal to one of them, or its rank as a
 * number. On failure (NIGH_INVALID) `why` says in one sentence what is wrong and what would be
 * right: an address twice, too many, not an address, ourselves not among them.
 */
nigh_status members_parse(const char *list, const char *self, struct members *members, char *why,
                          size_t why_bytes);

/* Only this node: rank 0 of one. */
void members_alone(struct members *members);

/* The rank of the home of a key. The hash must be the same at every node. */
uint32_t members_home(const struct members *members, uint64_t key_hash);

#endif
