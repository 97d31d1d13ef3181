/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C over ISA-L, whose function neither inverts the register nor takes more than INT_MAX bytes.
 */
#include "base/crc32c.h"

#include "base/check.h"

#include <isa-l/crc.h>

#define CRC32C_CHUNK ((size_t)1 << 30)

uint32_t crc32c(uint32_t crc, const void *bytes, size_t size_bytes)
{
    /* ISA-L does not change what it reads; its prototype only lacks the const. */
    unsigned char *at = (unsigned char *)bytes;
    uint32_t reg = ~crc;
    while (size_bytes > 0) {
        size_t part = min_size(size_bytes, CRC32C_CHUNK);
        reg = crc32_iscsi(at, (int)part, reg);
        at += part;
        size_bytes -= part;
    }
    return ~reg;
}
