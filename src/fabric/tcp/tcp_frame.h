/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes over a connection of the tcp provider: preambles and frame headers, as bytes and as
 * checked structs. Pure: no I/O, no state. The page docs/protocol.md says what the fields mean and
 * when they are sent; whether a frame fits the state of its endpoint is decided elsewhere.
 */
#ifndef FABRIC_TCP_TCP_FRAME_H
#define FABRIC_TCP_TCP_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"

#define TCP_VERSION        1u
#define TCP_PREAMBLE_BYTES 64u
#define TCP_FRAME_BYTES    32u
#define TCP_OPERANDS_BYTES 16u /* most of what follows the header of an atomic */

/* ---- the preamble --------------------------------------------------------- */

enum tcp_preamble_kind {
    TCP_PREAMBLE_CONNECT = 1,
    TCP_PREAMBLE_ACCEPT,
    TCP_PREAMBLE_REJECT,
};

struct tcp_preamble {
    enum tcp_preamble_kind kind;
    uint32_t private_bytes;
    uint8_t private_data[FABRIC_PRIVATE_BYTES];
};

void tcp_preamble_write(const struct tcp_preamble *preamble, uint8_t bytes[TCP_PREAMBLE_BYTES]);

/* NIGH_PROTOCOL: another magic, nonsense; NIGH_VERSION: another version, *preamble untouched. */
nigh_status tcp_preamble_read(const uint8_t bytes[TCP_PREAMBLE_BYTES],
                              struct tcp_preamble *preamble);

/* ---- frames --------------------------------------------------------------- */

enum tcp_frame_kind {
    TCP_FRAME_SEND = 1,
    TCP_FRAME_READ,
    TCP_FRAME_WRITE,
    TCP_FRAME_WRITE_IMM,
    TCP_FRAME_FETCH_ADD,
    TCP_FRAME_COMPARE_SWAP,
    TCP_FRAME_RESPONSE, /* bytes of the oldest READ or atomic that is not answered */
    TCP_FRAME_ACK,      /* nothing but the count that every frame carries */
    TCP_FRAME_REFUSED,  /* the last frame: a request is refused */
    TCP_FRAME_KINDS
};

struct tcp_frame {
    enum tcp_frame_kind kind;
    nigh_status status; /* REFUSED: NIGH_DENIED, NIGH_LIMIT, NIGH_PROTOCOL or, where a WRITE has
                           written something, NIGH_PEER_LOST; else NIGH_OK */
    bool of_read;       /* REFUSED: the oldest READ or atomic; else the oldest SEND or WRITE */
    uint32_t ack;   /* SENDs, WRITEs and WRITE_IMMs of the receiver that the sender carried out */
    uint32_t bytes; /* READ: wanted; ACK, REFUSED: 0; else what follows */
    uint32_t key;
    uint32_t imm;
    uint64_t address;
};

void tcp_frame_write(const struct tcp_frame *frame, uint8_t bytes[TCP_FRAME_BYTES]);

/* NIGH_PROTOCOL: not a frame, *frame untouched. */
nigh_status tcp_frame_read(const uint8_t bytes[TCP_FRAME_BYTES], struct tcp_frame *frame);

/* How many bytes follow the header. */
static inline uint32_t tcp_frame_payload(const struct tcp_frame *frame)
{
    return frame->kind == TCP_FRAME_READ ? 0 : frame->bytes;
}

static inline bool tcp_frame_is_atomic(const struct tcp_frame *frame)
{
    return frame->kind == TCP_FRAME_FETCH_ADD || frame->kind == TCP_FRAME_COMPARE_SWAP;
}

#endif
