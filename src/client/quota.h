/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas, as far as the client knows them (manage.c). For libnigh alone. */
#ifndef CLIENT_QUOTA_H
#define CLIENT_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nigh/nigh.h"

/* The session's quota, as far as is known; 0: none. It shows what a lease should not be cut for,
 * and what to tell: the node judges by its own words. */
uint64_t quota_of_session(const nigh_client *client);

/* Whether an object is larger than a quota: its node says so before anything is written. */
bool quota_is_below(const nigh_client *client, uint64_t bytes);

/* Writes why `bytes` (0: not known how many) are above a quota, and whose it is; "": not known. */
void quota_tell(const nigh_client *client, uint64_t bytes, char *text, size_t size_bytes);

#endif
