/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who the nodes of a cluster are, and which of them is the home of a key.
 *
 * The list is static and the same at every node, in the same order: a node's rank is its place in
 * it. Where views are agreed on there are ranks behind the list, too, for nodes that join later
 * (docs/views.md): a seat has an address once somebody has it. Homes are chosen by rendezvous
 * hashing over the ranks, all of the list or those that are in a view (agreed.h). Nothing here
 * looks at who is alive.
 *
 * Pure; any thread. A struct members does not change after it was made.
 */
#ifndef CLUSTER_MEMBERS_H
#define CLUSTER_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "cluster/agreed.h"
#include "nigh/status.h"

#define MEMBERS_ADDRESS_BYTES AGREED_ADDRESS_BYTES
#define MEMBERS_RANKS_LEAST   8u /* where views are agreed on, unless somebody says otherwise */

struct members {
    uint32_t count;  /* of ranks: 1 .. LIMIT_NODES */
    uint32_t listed; /* of those the list names; the rest are seats */
    uint32_t self;   /* our rank */
    char addresses[LIMIT_NODES]
                  [MEMBERS_ADDRESS_BYTES]; /* of control connections, by rank; "": none */
    uint64_t seeds[LIMIT_NODES];           /* what each rank is hashed with */
    uint64_t epoch; /* of the list: equal at nodes with equal lists, and only there */
};

/*
 * Reads "host:port,host:port,..." (white space around commas allowed), numeric addresses, kept in
 * their one spelling (address.h), or names, kept as they are. `self` is which of them we are: the
 * address of one of them, or its rank as a number. On failure (NIGH_INVALID) `why` says in one
 * sentence what is wrong and what would be right: an address twice, too many, not an address, or
 * none that can be reached, ourselves not among them.
 */
nigh_status members_parse(const char *list, const char *self, struct members *members, char *why,
                          size_t why_bytes);

/* Whether a list names an address as one of its members, in whatever spelling. */
bool members_names(const char *list, const char *address);

/* These members agree on views, and there are so many ranks; 0: members_ranks. A
 * node of the same list that has it otherwise is of another cluster. NIGH_INVALID, with a sentence.
 */
nigh_status members_agree(struct members *members, uint32_t ranks, char *why, size_t why_bytes);

/* How many ranks there are by default: twice as many as the list names, MEMBERS_RANKS_LEAST at
 * least, and no more seats than can be agreed on. */
uint32_t members_ranks(uint32_t listed);

/* From parts that came from elsewhere: addresses of `present` ranks, the first `listed` of them of
 * the list, of `ranks` in all, of which we are one; behind the list "": of a seat that is struck
 * off. NIGH_INVALID: it cannot be. */
nigh_status members_make(const char (*addresses)[MEMBERS_ADDRESS_BYTES], uint32_t listed,
                         uint32_t present, uint32_t ranks, uint32_t self, struct members *members);

/* "host:port" or "[ipv6]:port", not too long. */
bool members_is_address(const char *text);

/* Only this node: rank 0 of one. */
void members_alone(struct members *members);

/* What a rank weighs for a key: its home is the heaviest. Of those that live the heaviest keeps
 * account of its replicas (cluster/replicas.h). */
uint64_t members_weight(const struct members *members, uint32_t rank, uint64_t key_hash);

/* The rank of the home of a key. The hash must be the same at every node. */
uint32_t members_home(const struct members *members, uint64_t key_hash);

/* The same among the ranks of a set that has some of them. A rank that leaves the set, or comes,
 * moves its own keys alone. */
uint32_t members_home_in(const struct members *members, const struct agreed_set *in,
                         uint64_t key_hash);

#endif
