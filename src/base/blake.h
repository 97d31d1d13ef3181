/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The id of a name: BLAKE2b with a 20-byte digest (RFC 7693), unkeyed. Nothing else is hashed with
 * it; tables use base/hash.h and stored bytes base/crc32c.h.
 */
#ifndef BASE_BLAKE_H
#define BASE_BLAKE_H

#include <stddef.h>
#include <stdint.h>

/* Any bytes, also none (`bytes` may then be NULL). Cannot fail; any thread. */
void blake_id20(const void *bytes, size_t size_bytes, uint8_t out[20]);

#endif
