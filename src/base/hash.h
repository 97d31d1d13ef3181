/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes for tables in memory: of a 20-byte id, and of a 64-bit key.
 *
 * Not cryptographic and not seeded: every process that maps an index computes the same value, and
 * whoever chooses ids can make them collide. What that costs stays in the chooser's own pool
 * (probes are bounded by LIMIT_PROBES). The value of hash_id20 is part of the format of an index:
 * changing it, or a constant below, is a new format version.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdint.h>
#include <string.h>

/*
 * Odd 64-bit constants whose bytes each have four bits set: the default secret of wyhash (Wang Yi,
 * public domain, final version 4), chosen there so that products of neighbouring inputs differ
 * widely.
 */
#define HASH_K0 UINT64_C(0xa0761d6478bd642f)
#define HASH_K1 UINT64_C(0xe7037ed1a0b428db)
#define HASH_K2 UINT64_C(0x8ebc6af09c88c6e3)
#define HASH_K3 UINT64_C(0x589965cc75374cc3)

/* The 128-bit product folded to 64 bits: each input bit reaches about half of the output. */
static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Little-endian loads, so that an index means the same on every machine. */
static inline uint64_t hash_load64(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static inline uint32_t hash_load32(const uint8_t *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap32(word);
#endif
    return word;
}

/*
 * The hash of an id: three multiplications, two of them side by side. All 64 bits are usable, in
 * any part (shard from the top, slot and tag from below). Good for counters, ASCII and digests
 * alike.
 */
static inline uint64_t hash_id20(const uint8_t id[20])
{
    uint64_t head = hash_mix(hash_load64(id) ^ HASH_K0, hash_load64(id + 8) ^ HASH_K1);
    uint64_t tail = hash_mix(hash_load32(id + 16) ^ HASH_K2, HASH_K3);
    return hash_mix(head ^ HASH_K1, tail ^ HASH_K2);
}

/*
 * The hash of a 64-bit key: a bijection, so different keys never share all 64 bits. This is the
 * finaliser of SplitMix64 (D. Stafford's variant 13 of MurmurHash3's).
 */
static inline uint64_t hash_u64(uint64_t key)
{
    key = (key ^ (key >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    key = (key ^ (key >> 27)) * UINT64_C(0x94d049bb133111eb);
    return key ^ (key >> 31);
}

#endif
