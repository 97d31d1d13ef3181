/* SPDX-License-Identifier: Apache-2.0 */
/* What the node shows to who looks after it (memory/session_show.h), for nighd's page; no part of
 * libnigh's interface. */
#ifndef CLIENT_SHOW_H
#define CLIENT_SHOW_H

#include "memory/session_show.h"
#include "nigh/client.h"

/* A record of a lane's answer; it is good until the return. */
typedef void client_show_take(void *context, uint32_t lane, const void *record);

/* Asks all lanes, `rounds` times at most where an answer goes on; *sum (may be NULL): of what their
 * lease_offset say. NIGH_DENIED: the client is neither root's nor the node's own uid's;
 * NIGH_UNSUPPORTED: an older node; NIGH_BUSY: *sum and the records are there, and there is more. */
nigh_status client_show(nigh_client *client, enum session_show_what what, uint32_t rounds,
                        client_show_take *take, void *context, uint64_t *sum);

#endif
