/* SPDX-License-Identifier: Apache-2.0 */
/* BLAKE2b-160 by libb2. */
#include "base/blake.h"

#include "base/check.h"

#include <blake2.h>

void blake_id20(const void *bytes, size_t size_bytes, uint8_t out[20])
{
    NIGH_ASSERT(bytes != NULL || size_bytes == 0);
    /* libb2 fails for wrong digest and key sizes, and for NULL where there are bytes: never here.
     */
    int result = blake2b(out, bytes, NULL, 20, size_bytes, 0);
    NIGH_ASSERT(result == 0);
}
