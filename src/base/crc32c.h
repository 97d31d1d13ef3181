/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC32C (Castagnoli; RFC 3720, appendix B.4) of stored and transferred bytes, by ISA-L.
 *
 * It finds accidents, not attackers. A library of its own (crc_dep), so that only the node links
 * ISA-L.
 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/*
 * The checksum of what was summed before (`crc`, 0 for nothing) followed by these bytes:
 * crc32c(crc32c(0, a, n), b, m) is that of a and b in one. Any size; any thread.
 */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t size_bytes);

#endif
