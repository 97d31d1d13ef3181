/* SPDX-License-Identifier: Apache-2.0 */
/* What the channels of tests of calls have on their way: a copy of what was sent, on the heap. */
#ifndef CALLS_FRAMES_H
#define CALLS_FRAMES_H

#include <stdlib.h>
#include <string.h>

#include "rpc/calls.h"
#include "rpc/rpc.h"

struct frame {
    uint32_t bytes;
    uint8_t data[sizeof(struct rpc_header) + CALLS_PAYLOAD];
};

static inline struct frame *frame_of(const struct rpc_header *header,
                                     const struct rpc_piece *pieces, uint32_t count)
{
    struct frame *frame = calloc(1, sizeof *frame);

    memcpy(frame->data, header, sizeof *header);
    frame->bytes = sizeof *header;
    for (uint32_t n = 0; n < count; n++) {
        if (pieces[n].bytes > 0) {
            memcpy(frame->data + frame->bytes, pieces[n].data, pieces[n].bytes);
        }
        frame->bytes += pieces[n].bytes;
    }
    return frame;
}

#endif
