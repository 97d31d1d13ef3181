/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A descriptor as bytes, little-endian, without gaps: a head of REGION_HEAD_BYTES, the name, the
 * grants, the chunks. There is one way to write each: what does not come out again as it went in is
 * not read.
 */
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "region/descriptor.h"

#define FORMAT 2u

/* Of the head. */
enum {
    AT_FORMAT = 0,
    AT_FLAGS = 1,
    AT_GROUP = 2,
    AT_OTHER = 3,
    AT_NAME = 4,   /* its length */
    AT_GRANTS = 5, /* their number */
    AT_CHUNKS = 6, /* their number, 16 bits */
    AT_VERSION = 8,
    AT_BIRTH = 32,
    AT_SIZE = 56,
    AT_CHUNK = 64, /* a chunk's size */
    AT_UID = 72,
    AT_GID = 76,
    AT_ZERO = 80, /* 8 bytes for what a later format has there */
};

/* Of a chunk. */
enum {
    AT_NODE = 0,
    AT_INCARNATION = 4,
    AT_ADDRESS = 8,
    AT_KEY = 16,
};

_Static_assert(AT_ZERO + 8 == REGION_HEAD_BYTES, "the head has no gaps");
_Static_assert(AT_KEY + 4 == REGION_CHUNK_BYTES, "nor has a chunk");
_Static_assert(LIMIT_REGION_GRANTS <= UINT8_MAX && LIMIT_REGION_CHUNKS <= UINT16_MAX,
               "the numbers fit");

static void put_version(uint8_t *out, const struct region_version *version)
{
    bytes_put_u64(out, version->epoch);
    bytes_put_u64(out + 8, version->incarnation);
    bytes_put_u64(out + 16, version->counter);
}

static struct region_version get_version(const uint8_t *bytes)
{
    return (struct region_version){.epoch = bytes_get_u64(bytes),
                                   .incarnation = bytes_get_u64(bytes + 8),
                                   .counter = bytes_get_u64(bytes + 16)};
}

size_t region_descriptor_encode(const struct region_descriptor *descriptor, uint8_t *out)
{
    uint8_t *at = out + REGION_HEAD_BYTES;

    NIGH_ASSERT(region_descriptor_is_valid(descriptor));
    memset(out, 0, REGION_HEAD_BYTES);
    out[AT_FORMAT] = FORMAT;
    out[AT_FLAGS] = descriptor->flags;
    out[AT_GROUP] = descriptor->group_rights;
    out[AT_OTHER] = descriptor->other_rights;
    out[AT_NAME] = descriptor->name_bytes;
    out[AT_GRANTS] = (uint8_t)descriptor->grant_count;
    bytes_put_u16(out + AT_CHUNKS, (uint16_t)descriptor->chunk_count);
    put_version(out + AT_VERSION, &descriptor->version);
    put_version(out + AT_BIRTH, &descriptor->birth);
    bytes_put_u64(out + AT_SIZE, descriptor->geometry.size_bytes);
    bytes_put_u64(out + AT_CHUNK, descriptor->geometry.chunk_bytes);
    bytes_put_u32(out + AT_UID, descriptor->uid);
    bytes_put_u32(out + AT_GID, descriptor->gid);
    memcpy(at, descriptor->name, descriptor->name_bytes);
    at += descriptor->name_bytes;
    for (uint32_t n = 0; n < descriptor->grant_count; n++, at += REGION_GRANT_BYTES) {
        bytes_put_u32(at, descriptor->grants[n].uid);
        bytes_put_u32(at + 4, descriptor->grants[n].rights);
    }
    for (uint32_t n = 0; n < descriptor->chunk_count; n++, at += REGION_CHUNK_BYTES) {
        bytes_put_u32(at + AT_NODE, descriptor->chunks[n].node);
        bytes_put_u32(at + AT_INCARNATION, descriptor->chunks[n].incarnation);
        bytes_put_u64(at + AT_ADDRESS, descriptor->chunks[n].handle.address);
        bytes_put_u32(at + AT_KEY, descriptor->chunks[n].handle.key);
    }
    return (size_t)(at - out);
}

static void get_head(const uint8_t *bytes, struct region_descriptor *descriptor)
{
    memset(descriptor, 0, sizeof(*descriptor));
    descriptor->version = get_version(bytes + AT_VERSION);
    descriptor->birth = get_version(bytes + AT_BIRTH);
    descriptor->geometry.size_bytes = bytes_get_u64(bytes + AT_SIZE);
    descriptor->geometry.chunk_bytes = bytes_get_u64(bytes + AT_CHUNK);
    descriptor->uid = bytes_get_u32(bytes + AT_UID);
    descriptor->gid = bytes_get_u32(bytes + AT_GID);
    descriptor->flags = bytes[AT_FLAGS];
    descriptor->group_rights = bytes[AT_GROUP];
    descriptor->other_rights = bytes[AT_OTHER];
    descriptor->name_bytes = bytes[AT_NAME];
    descriptor->grant_count = bytes[AT_GRANTS];
    descriptor->chunk_count = bytes_get_u16(bytes + AT_CHUNKS);
}

/* What is behind the head, whose numbers were looked at. */
static void get_rest(const uint8_t *at, struct region_descriptor *descriptor)
{
    memcpy(descriptor->name, at, descriptor->name_bytes);
    at += descriptor->name_bytes;
    for (uint32_t n = 0; n < descriptor->grant_count; n++, at += REGION_GRANT_BYTES) {
        descriptor->grants[n] =
            (struct region_grant){.uid = bytes_get_u32(at), .rights = bytes_get_u32(at + 4)};
    }
    for (uint32_t n = 0; n < descriptor->chunk_count; n++, at += REGION_CHUNK_BYTES) {
        memset(&descriptor->chunks[n], 0, sizeof(descriptor->chunks[n]));
        descriptor->chunks[n].node = bytes_get_u32(at + AT_NODE);
        descriptor->chunks[n].incarnation = bytes_get_u32(at + AT_INCARNATION);
        descriptor->chunks[n].handle = (struct region_window){
            .address = bytes_get_u64(at + AT_ADDRESS), .key = bytes_get_u32(at + AT_KEY)};
    }
}

/* NIGH_OK: the head is one, and so long are its descriptor's bytes. */
static nigh_status check_head(const uint8_t *bytes, size_t size_bytes, uint32_t room)
{
    uint32_t chunks;

    if (size_bytes < REGION_HEAD_BYTES || bytes[AT_FORMAT] != FORMAT ||
        bytes_get_u64(bytes + AT_ZERO) != 0) {
        return NIGH_PROTOCOL;
    }
    chunks = bytes_get_u16(bytes + AT_CHUNKS);
    if (bytes[AT_NAME] > LIMIT_REGION_NAME_BYTES || bytes[AT_GRANTS] > LIMIT_REGION_GRANTS ||
        chunks > LIMIT_REGION_CHUNKS ||
        size_bytes != REGION_HEAD_BYTES + bytes[AT_NAME] + bytes[AT_GRANTS] * REGION_GRANT_BYTES +
                          chunks * REGION_CHUNK_BYTES) {
        return NIGH_PROTOCOL;
    }
    return chunks > room ? NIGH_LIMIT : NIGH_OK;
}

nigh_status region_descriptor_decode(const uint8_t *bytes, size_t size_bytes, uint32_t room,
                                     struct region_descriptor *descriptor)
{
    nigh_status status = check_head(bytes, size_bytes, room);

    if (status != NIGH_OK) {
        region_descriptor_clear(descriptor);
        return status;
    }
    get_head(bytes, descriptor);
    get_rest(bytes + REGION_HEAD_BYTES, descriptor);
    if (!region_descriptor_is_valid(descriptor)) {
        region_descriptor_clear(descriptor);
        return NIGH_PROTOCOL;
    }
    return NIGH_OK;
}
