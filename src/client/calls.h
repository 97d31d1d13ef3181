/* SPDX-License-Identifier: Apache-2.0 */
/* What calls.c (calls, answers) and serve.c (services) share. For no one else. */
#ifndef CLIENT_CALLS_H
#define CLIENT_CALLS_H

#include "client/client_internal.h"

/* What a service's name is called by. NIGH_INVALID: it is none. */
nigh_status calls_hash(const char *name, uint64_t *hash);

/* Answers a request through the rings; waits until the lane has taken it. */
nigh_status calls_reply_later(nigh_client *client, uint32_t lane, uint64_t id, nigh_status answer,
                              const void *bytes, uint32_t count);

#endif
