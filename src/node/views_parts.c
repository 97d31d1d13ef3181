/* SPDX-License-Identifier: Apache-2.0 */
/* See views_parts.h. */
#include "node/views_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define VIEWS_PART 255u /* no message begins with it */

/* Before each. All numbers little-endian. */
struct part {
    uint8_t kind;
    uint8_t zero[3];
    uint32_t serial; /* of the message, among those of its sender */
    uint32_t total;  /* its bytes */
    uint32_t offset;
};

_Static_assert(sizeof(struct part) == 16, "it is on the wire");

uint32_t views_part_write(uint32_t serial, const uint8_t *bytes, uint32_t count, uint32_t *offset,
                          uint8_t frame[VIEWS_FRAME_BYTES])
{
    struct part part = {.kind = VIEWS_PART, .serial = serial, .total = count, .offset = *offset};
    uint32_t taken = min_u32(count - *offset, VIEWS_FRAME_BYTES - (uint32_t)sizeof(part));

    if (taken == 0) {
        return 0;
    }
    memcpy(frame, &part, sizeof(part));
    memcpy(frame + sizeof(part), bytes + *offset, taken);
    *offset += taken;
    return (uint32_t)sizeof(part) + taken;
}

bool views_is_part(const uint8_t *frame, uint32_t count)
{
    return count > sizeof(struct part) && frame[0] == VIEWS_PART;
}

bool views_part_take(struct views_whole **whole, const uint8_t *frame, uint32_t count)
{
    uint32_t more = count - (uint32_t)sizeof(struct part);
    struct views_whole *to = *whole;
    struct part part;

    memcpy(&part, frame, sizeof(part));
    if (part.total > AGREE_MESSAGE_BYTES || part.offset > part.total ||
        more > part.total - part.offset) {
        return false;
    }
    if (to == NULL && part.offset == 0) {
        to = *whole = malloc(sizeof(*to));
    }
    if (to == NULL) {
        return false;
    }
    if (part.offset == 0) {
        to->serial = part.serial;
        to->total = part.total;
        to->have = 0;
    }
    if (part.serial != to->serial || part.total != to->total || part.offset != to->have) {
        return false;
    }
    memcpy(to->bytes + to->have, frame + sizeof(part), more);
    to->have += more;
    return to->have == to->total;
}
