/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node that joins is told by the member that it asked, once both have proved themselves
 * (auth.h): which rank it has, and who the others are (docs/views.md).
 *
 * Pure; any thread.
 */
#ifndef CLUSTER_WELCOME_H
#define CLUSTER_WELCOME_H

#include "cluster/auth.h"
#include "cluster/members.h"

#define WELCOME_HEAD_BYTES 32u
#define WELCOME_BYTES_MAX \
    (WELCOME_HEAD_BYTES + LIMIT_NODES * MEMBERS_ADDRESS_BYTES + AUTH_PROOF_BYTES)

/* NIGH_OK: these members, `rank` being the joiner's, and of its seats those that were given. Else a
 * status alone: NIGH_NO_RESOURCES (no seat is left), NIGH_NO_QUORUM, NIGH_UNSUPPORTED (no views are
 * agreed on), NIGH_INVALID (its address is none), NIGH_EXISTS (it is the teller's). Writes at most
 * WELCOME_BYTES_MAX; returns how many. */
uint32_t welcome_write(const struct auth *auth, nigh_status status, uint32_t rank,
                       const struct members *members, const struct agreed_roster *roster,
                       uint8_t *out);

/* How many bytes there will be, once the head is there; 0: it is none. */
uint32_t welcome_bytes(const uint8_t head[WELCOME_HEAD_BYTES]);

/* Reads all of it. NIGH_OK: *said is what the member said, and with NIGH_OK of that *members are
 * filled in. NIGH_PROTOCOL: it is not authentic, or cannot be. */
nigh_status welcome_read(const struct auth *auth, const uint8_t *bytes, uint32_t count,
                         nigh_status *said, struct members *members);

#endif
