/* SPDX-License-Identifier: Apache-2.0 */
/* See tcp_frame.h; the layouts are those of docs/protocol.md. Numbers are little-endian. */
#include "fabric/tcp/tcp_frame.h"

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"

#define PREAMBLE_MAGIC     UINT32_C(0x4847494e) /* "NIGH" */
#define PREAMBLE_VERSION   4
#define PREAMBLE_KIND      6
#define PREAMBLE_LENGTH    7
#define PREAMBLE_PRIVATE   8
#define FRAME_MAGIC        0x676eu /* "ng" */
#define FRAME_KIND         2
#define FRAME_STATUS       3
#define FRAME_ACK          4
#define FRAME_BYTES        8
#define FRAME_KEY          12
#define FRAME_ADDRESS      16
#define FRAME_IMM          24
#define FRAME_ZERO         28
#define FRAME_OF_READ      0x80u /* in the status byte */
#define FETCH_ADD_BYTES    8u
#define COMPARE_SWAP_BYTES 16u

_Static_assert(PREAMBLE_PRIVATE + FABRIC_PRIVATE_BYTES <= TCP_PREAMBLE_BYTES, "on the wire");
_Static_assert(LIMIT_FABRIC_MESSAGE <= UINT32_MAX, "lengths have 32 bits on the wire");

/* ---- the preamble ---- */

void tcp_preamble_write(const struct tcp_preamble *preamble, uint8_t bytes[TCP_PREAMBLE_BYTES])
{
    NIGH_ASSERT(preamble->private_bytes <= FABRIC_PRIVATE_BYTES);
    memset(bytes, 0, TCP_PREAMBLE_BYTES);
    bytes_put_u32(bytes, PREAMBLE_MAGIC);
    bytes_put_u16(bytes + PREAMBLE_VERSION, TCP_VERSION);
    bytes[PREAMBLE_KIND] = (uint8_t)preamble->kind;
    bytes[PREAMBLE_LENGTH] = (uint8_t)preamble->private_bytes;
    memcpy(bytes + PREAMBLE_PRIVATE, preamble->private_data, preamble->private_bytes);
}

nigh_status tcp_preamble_read(const uint8_t bytes[TCP_PREAMBLE_BYTES],
                              struct tcp_preamble *preamble)
{
    struct tcp_preamble out = {.kind = bytes[PREAMBLE_KIND],
                               .private_bytes = bytes[PREAMBLE_LENGTH]};

    if (bytes_get_u32(bytes) != PREAMBLE_MAGIC)
        return NIGH_PROTOCOL;
    if (bytes_get_u16(bytes + PREAMBLE_VERSION) != TCP_VERSION)
        return NIGH_VERSION;
    if (bytes[PREAMBLE_KIND] < TCP_PREAMBLE_CONNECT || bytes[PREAMBLE_KIND] > TCP_PREAMBLE_REJECT ||
        out.private_bytes > FABRIC_PRIVATE_BYTES)
        return NIGH_PROTOCOL;
    memcpy(out.private_data, bytes + PREAMBLE_PRIVATE, out.private_bytes);
    *preamble = out;
    return NIGH_OK;
}

/* ---- frames ---- */

/* A refusal's status as a byte, and back. */
static uint8_t status_to_wire(nigh_status status)
{
    switch (status) {
    case NIGH_DENIED: return 1;
    case NIGH_LIMIT: return 2;
    case NIGH_PROTOCOL: return 3;
    case NIGH_PEER_LOST: return 4;
    default: return 0;
    }
}

static bool status_from_wire(uint8_t byte, nigh_status *status)
{
    static const nigh_status statuses[] = {NIGH_OK, NIGH_DENIED, NIGH_LIMIT, NIGH_PROTOCOL,
                                           NIGH_PEER_LOST};

    if (byte >= ARRAY_LENGTH(statuses))
        return false;
    *status = statuses[byte];
    return true;
}

void tcp_frame_write(const struct tcp_frame *frame, uint8_t bytes[TCP_FRAME_BYTES])
{
    uint8_t status = status_to_wire(frame->status);

    bytes_put_u16(bytes, FRAME_MAGIC);
    bytes[FRAME_KIND] = (uint8_t)frame->kind;
    bytes[FRAME_STATUS] = (uint8_t)(status | (frame->of_read ? FRAME_OF_READ : 0));
    bytes_put_u32(bytes + FRAME_ACK, frame->ack);
    bytes_put_u32(bytes + FRAME_BYTES, frame->bytes);
    bytes_put_u32(bytes + FRAME_KEY, frame->key);
    bytes_put_u64(bytes + FRAME_ADDRESS, frame->address);
    bytes_put_u32(bytes + FRAME_IMM, frame->imm);
    bytes_put_u32(bytes + FRAME_ZERO, 0);
}

static bool length_is_valid(const struct tcp_frame *frame)
{
    switch (frame->kind) {
    case TCP_FRAME_FETCH_ADD: return frame->bytes == FETCH_ADD_BYTES;
    case TCP_FRAME_COMPARE_SWAP: return frame->bytes == COMPARE_SWAP_BYTES;
    case TCP_FRAME_ACK:
    case TCP_FRAME_REFUSED: return frame->bytes == 0;
    default: return frame->bytes <= LIMIT_FABRIC_MESSAGE;
    }
}

nigh_status tcp_frame_read(const uint8_t bytes[TCP_FRAME_BYTES], struct tcp_frame *frame)
{
    struct tcp_frame out = {
        .of_read = (bytes[FRAME_STATUS] & FRAME_OF_READ) != 0,
        .ack = bytes_get_u32(bytes + FRAME_ACK),
        .bytes = bytes_get_u32(bytes + FRAME_BYTES),
        .key = bytes_get_u32(bytes + FRAME_KEY),
        .imm = bytes_get_u32(bytes + FRAME_IMM),
        .address = bytes_get_u64(bytes + FRAME_ADDRESS),
    };

    if (bytes_get_u16(bytes) != FRAME_MAGIC || bytes_get_u32(bytes + FRAME_ZERO) != 0)
        return NIGH_PROTOCOL;
    if (bytes[FRAME_KIND] < TCP_FRAME_SEND || bytes[FRAME_KIND] >= TCP_FRAME_KINDS)
        return NIGH_PROTOCOL;
    out.kind = bytes[FRAME_KIND];
    if (!status_from_wire((uint8_t)(bytes[FRAME_STATUS] & ~FRAME_OF_READ), &out.status))
        return NIGH_PROTOCOL;
    if ((out.kind == TCP_FRAME_REFUSED) != (out.status != NIGH_OK))
        return NIGH_PROTOCOL;
    if ((out.of_read && out.kind != TCP_FRAME_REFUSED) || !length_is_valid(&out))
        return NIGH_PROTOCOL;
    *frame = out;
    return NIGH_OK;
}
