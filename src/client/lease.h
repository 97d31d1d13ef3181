/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: memory that small objects are cut from (lease.c). For libnigh alone. */
#ifndef CLIENT_LEASE_H
#define CLIENT_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nigh/nigh.h"

struct session_sqe;

/* Cuts `bytes` off a lease of the lane: *offset. False: none has room. Locked. */
bool lease_cut(nigh_client *client, uint32_t lane, uint64_t bytes, uint64_t *offset);
/* What was cut off was submitted to be sealed; that has ended, well or not; it was given up.
 * Locked.
 */
void lease_sealing(nigh_client *client, uint32_t lane, uint64_t offset);
void lease_sealed(nigh_client *client, uint32_t lane, uint64_t offset, bool well);
void lease_gave_up(nigh_client *client, uint32_t lane, uint64_t offset, uint64_t bytes);
/* A completion brought a lease. Locked. */
void lease_granted(nigh_client *client, uint32_t lane, uint64_t offset, uint64_t bytes);
/* Something large is about to be asked for, and a lease may split the room for it: gives back those
 * that nobody writes to. Locked. */
void lease_make_way(nigh_client *client, uint32_t lane, uint64_t bytes);
/* The client is idle: gives all back that nobody uses. Whether there is anything. Locked. */
void lease_rest(nigh_client *client);
bool lease_may_rest(const nigh_client *client);
/* Whether an object of `bytes` should come from a lease. Locked. */
bool lease_is_for(const nigh_client *client, uint32_t lane, uint64_t bytes);
/* Lets a SEAL ask for the next lease when that is due. Locked. */
void lease_renew(nigh_client *client, uint32_t lane, uint64_t bytes, struct session_sqe *sqe);
/* Fills a LEASE submission; false: it was refused a moment ago, or is on its way. Locked. */
bool lease_ask(nigh_client *client, uint32_t lane, bool no_evict, struct session_sqe *sqe);
/* A LEASE, or a SEAL that asked for one, has ended. Locked. */
void lease_answered(nigh_client *client, uint32_t lane, bool granted);
/* No lease at all / none on its way: the first at open, the other when the rings begin anew. */
void lease_reset(nigh_client *client);
void lease_forget_asked(nigh_client *client);
/* The node is another: in what it found of the leases there may be holes of objects that are gone.
 */
void lease_came_back(nigh_client *client);

#endif
