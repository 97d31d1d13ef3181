/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages by which views are agreed on (cluster/agree.h) that are longer than what a channel for
 * calls carries: cut into parts, and put together again. Parts of one message come in order, or not
 * at all; a message that lacks one is not heard. Pure.
 */
#ifndef NODE_VIEWS_PARTS_H
#define NODE_VIEWS_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/agree.h"

#define VIEWS_FRAME_BYTES 8192u /* that are sent at once, at most */

/* A message of which parts have come. */
struct views_whole {
    uint32_t serial, total, have;
    uint8_t bytes[AGREE_MESSAGE_BYTES];
};

/* The part from *offset on, of the message of this serial; moves *offset behind it. Its bytes; 0:
 * there is none. */
uint32_t views_part_write(uint32_t serial, const uint8_t *bytes, uint32_t count, uint32_t *offset,
                          uint8_t frame[VIEWS_FRAME_BYTES]);

bool views_is_part(const uint8_t *frame, uint32_t count);

/* A part that a member sent. True: it is the last one, and **whole is the message; the caller's to
 * free. NULL: no part has come. */
bool views_part_take(struct views_whole **whole, const uint8_t *frame, uint32_t count);

#endif
