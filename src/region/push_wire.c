/* SPDX-License-Identifier: Apache-2.0 */
/* See push_wire.h: a head, names. What does not come out again as it went in is not read. */
#include "region/push_wire.h"

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"

/* Of a spot. */
enum {
    AT_ADDRESS = 0,
    AT_OFFSET = 8,
    AT_KEY = 16,
    AT_CHUNK = 20,
    AT_NAME = 24, /* its length */
    AT_ZERO = 25  /* 7 bytes */
};

/* Of a PUSH. */
enum {
    AT_BYTES = 0,
    AT_NODE = 8,
    AT_INCARNATION = 12,
    AT_FROM = 16,
    AT_TO = 48
};

_Static_assert(AT_ZERO + 7 == REGION_SPOT_BYTES, "a spot has no gaps");
_Static_assert(AT_TO + REGION_SPOT_BYTES == REGION_PUSH_HEAD_BYTES, "the head has no gaps");
_Static_assert(LIMIT_REGION_NAME_BYTES <= UINT8_MAX, "lengths of names fit");

static void put_spot(const struct region_spot *spot, uint8_t *out)
{
    NIGH_ASSERT(spot->name_bytes > 0 && spot->name_bytes <= LIMIT_REGION_NAME_BYTES);
    memset(out, 0, REGION_SPOT_BYTES);
    bytes_put_u64(out + AT_ADDRESS, spot->handle.address);
    bytes_put_u64(out + AT_OFFSET, spot->offset_bytes);
    bytes_put_u32(out + AT_KEY, spot->handle.key);
    bytes_put_u32(out + AT_CHUNK, spot->chunk);
    out[AT_NAME] = spot->name_bytes;
}

/* Without its name. False: it is none. */
static bool get_spot(const uint8_t *bytes, struct region_spot *spot)
{
    static const uint8_t zero[REGION_SPOT_BYTES - AT_ZERO];

    *spot = (struct region_spot){.handle = {.address = bytes_get_u64(bytes + AT_ADDRESS),
                                            .key = bytes_get_u32(bytes + AT_KEY)},
                                 .offset_bytes = bytes_get_u64(bytes + AT_OFFSET),
                                 .chunk = bytes_get_u32(bytes + AT_CHUNK),
                                 .name_bytes = bytes[AT_NAME]};
    return memcmp(bytes + AT_ZERO, zero, sizeof(zero)) == 0 && spot->name_bytes > 0 &&
           spot->name_bytes <= LIMIT_REGION_NAME_BYTES && spot->chunk < LIMIT_REGION_CHUNKS &&
           spot->offset_bytes < LIMIT_REGION_CHUNK_BYTES && !region_window_is_none(spot->handle);
}

size_t region_push_encode(const struct region_push *push, uint8_t *out)
{
    NIGH_ASSERT(push->bytes > 0 && push->bytes <= LIMIT_REGION_COPY_BYTES);
    bytes_put_u64(out + AT_BYTES, push->bytes);
    bytes_put_u32(out + AT_NODE, push->node);
    bytes_put_u32(out + AT_INCARNATION, push->incarnation);
    put_spot(&push->from, out + AT_FROM);
    put_spot(&push->to, out + AT_TO);
    memcpy(out + REGION_PUSH_HEAD_BYTES, push->from.name, push->from.name_bytes);
    memcpy(out + REGION_PUSH_HEAD_BYTES + push->from.name_bytes, push->to.name,
           push->to.name_bytes);
    return REGION_PUSH_HEAD_BYTES + push->from.name_bytes + push->to.name_bytes;
}

nigh_status region_push_decode(const uint8_t *bytes, size_t size_bytes, struct region_push *push)
{
    if (size_bytes < REGION_PUSH_HEAD_BYTES)
        return NIGH_PROTOCOL;
    push->bytes = bytes_get_u64(bytes + AT_BYTES);
    push->node = bytes_get_u32(bytes + AT_NODE);
    push->incarnation = bytes_get_u32(bytes + AT_INCARNATION);
    if (!get_spot(bytes + AT_FROM, &push->from) || !get_spot(bytes + AT_TO, &push->to) ||
        push->bytes == 0 || push->bytes > LIMIT_REGION_COPY_BYTES ||
        size_bytes != REGION_PUSH_HEAD_BYTES + push->from.name_bytes + push->to.name_bytes)
        return NIGH_PROTOCOL;
    bytes += REGION_PUSH_HEAD_BYTES;
    memcpy(push->from.name, bytes, push->from.name_bytes);
    memcpy(push->to.name, bytes + push->from.name_bytes, push->to.name_bytes);
    return NIGH_OK;
}

size_t region_put_encode(const struct region_spot *to, uint8_t *out)
{
    put_spot(to, out);
    memcpy(out + REGION_SPOT_BYTES, to->name, to->name_bytes);
    return REGION_SPOT_BYTES + to->name_bytes;
}

nigh_status region_put_decode(const uint8_t *bytes, size_t size_bytes, struct region_spot *to,
                              size_t *head_bytes)
{
    size_t head;

    if (size_bytes < REGION_SPOT_BYTES || !get_spot(bytes, to))
        return NIGH_PROTOCOL;
    head = REGION_SPOT_BYTES + to->name_bytes;
    if (size_bytes <= head || size_bytes - head > REGION_PUT_BYTES)
        return NIGH_PROTOCOL;
    memcpy(to->name, bytes + REGION_SPOT_BYTES, to->name_bytes);
    *head_bytes = head;
    return NIGH_OK;
}

uint64_t region_put_cut(uint64_t to_offset_bytes, uint64_t left_bytes)
{
    uint64_t most = REGION_PUT_BYTES - to_offset_bytes % 8;

    return left_bytes < most ? left_bytes : most;
}
