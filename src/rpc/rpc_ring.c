/* SPDX-License-Identifier: Apache-2.0 */
/* See rpc_ring.h. Both sides compute where a frame lies in the same way; an immediate says it, so
 * that who lost count is found out at once. */
#include "rpc/rpc_ring.h"

#include "base/check.h"

static uint32_t units_of(uint32_t bytes)
{
    return bytes / RPC_RING_UNIT + (bytes % RPC_RING_UNIT != 0);
}

/* Units between the last frame and one of `wanted` units: those to the end, where it does not fit.
 */
static uint32_t skipped(uint32_t units, uint32_t at, uint32_t wanted)
{
    return wanted > units - at ? units - at : 0;
}

bool rpc_ring_is_enough(uint32_t units, uint32_t frame_bytes)
{
    return units <= RPC_RING_MOST && frame_bytes > 0 &&
           units_of(frame_bytes) <= units / RPC_RING_FRAMES;
}

bool rpc_ring_take(struct rpc_ring_writer *writer, uint32_t bytes, uint32_t *place)
{
    uint32_t wanted = units_of(bytes);
    uint32_t skip;

    NIGH_ASSERT(wanted > 0 && wanted <= writer->units / RPC_RING_FRAMES);
    skip = skipped(writer->units, writer->at, wanted);
    if (skip + wanted > writer->units - writer->used) {
        return false;
    }
    *place = skip > 0 ? 0 : writer->at;
    writer->used += skip + wanted;
    writer->at = (*place + wanted) % writer->units;
    return true;
}

uint32_t rpc_ring_imm(struct rpc_ring_reader *reader, uint32_t place)
{
    uint32_t owed = reader->owed;

    NIGH_ASSERT(place <= RPC_RING_NONE && owed <= RPC_RING_MOST);
    reader->owed = 0;
    return owed << 16 | place;
}

bool rpc_ring_must_tell(const struct rpc_ring_reader *reader)
{
    return reader->owed > reader->units / 2;
}

/* Of an immediate without a frame: a second one cannot be on its way, so one receive is enough. */
static bool is_news(const struct rpc_ring_writer *writer, uint32_t place, uint32_t freed)
{
    return place == RPC_RING_NONE && freed > writer->units / 2;
}

nigh_status rpc_ring_came(struct rpc_ring_writer *writer, struct rpc_ring_reader *reader,
                          uint32_t imm, uint64_t bytes, uint32_t *place)
{
    uint32_t at = imm & RPC_RING_NONE, freed = imm >> 16;
    uint32_t wanted, skip;

    if (freed > writer->used) {
        return NIGH_PROTOCOL;
    }
    if (bytes == 0) {
        if (!is_news(writer, at, freed)) {
            return NIGH_PROTOCOL;
        }
        writer->used -= freed;
        *place = RPC_RING_NONE;
        return NIGH_OK;
    }
    if (reader->units == 0 || bytes > reader->frame_bytes) {
        return NIGH_PROTOCOL;
    }
    wanted = units_of((uint32_t)bytes);
    skip = skipped(reader->units, reader->at, wanted);
    /* It may have less than that: what it was told may not be there yet. More it cannot have. */
    if (at != (skip > 0 ? 0 : reader->at) || skip + wanted > reader->units - reader->owed) {
        return NIGH_PROTOCOL;
    }
    writer->used -= freed;
    reader->owed += skip + wanted;
    reader->at = (at + wanted) % reader->units;
    *place = at;
    return NIGH_OK;
}

bool rpc_ring_is_valid(const struct rpc_ring_writer *writer, const struct rpc_ring_reader *reader)
{
    return writer->used <= writer->units && writer->units <= RPC_RING_MOST &&
           (writer->units == 0 || writer->at < writer->units) && reader->owed <= reader->units &&
           reader->units <= RPC_RING_MOST && (reader->units == 0 || reader->at < reader->units);
}
