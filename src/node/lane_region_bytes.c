/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of operations of regions: where they are on this side, and what the lane moves itself,
 * as a chunk is here.
 *
 * What few bytes a client gives, or gets, lie in a place of leased memory: they pass through
 * buffers of this lane, which are registered once. Many lie in memory for calls, which is
 * registered itself.
 */
#include <string.h>
#include <sys/mman.h>

#include "node/lane_regions.h"

#define STAGING_BYTES ((size_t)LIMIT_REGION_STAGING * LIMIT_CALL_BYTES)

/* ---- buffers -------------------------------------------------------------- */

static void give_buffer(struct lane_regions *at, uint8_t *buffer)
{
    memcpy(buffer, &at->free_staging, sizeof(at->free_staging));
    at->free_staging = buffer;
    at->free_staging_count++;
}

static bool make_staging(struct lane_regions *at)
{
    void *memory =
        mmap(NULL, STAGING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return false;
    (void)madvise(memory, STAGING_BYTES, MADV_DONTFORK);
    if (fabric_memory_register(at->lane->config.fabric, memory, STAGING_BYTES, FABRIC_HOST,
                               FABRIC_LOCAL_WRITE, &at->staging_at) != NIGH_OK) {
        (void)munmap(memory, STAGING_BYTES);
        return false;
    }
    at->staging = memory;
    for (uint32_t n = 0; n < LIMIT_REGION_STAGING; n++)
        give_buffer(at, at->staging + (size_t)n * LIMIT_CALL_BYTES);
    return true;
}

/* One has another as long as it has fewer than are free, as of copies (lane_region_buffers.c): each
 * session, for the sake of the others, and what goes to each node, as buffers come back from one
 * that stands still only when it goes on. */
static bool may_stage(const struct lane_regions *at, const struct region_io *io,
                      const struct region_peer *peer)
{
    uint32_t left = at->free_staging_count;

    return (io->is_left || at->staged[io->slot] < min_u32(left, LIMIT_REGION_STAGED)) &&
           peer->staged < left;
}

/* NULL: its session, or its node, has its share, or there is no memory for any. */
static uint8_t *take_staging(struct lane_regions *at, struct region_io *io,
                             struct region_peer *peer)
{
    uint8_t *buffer;

    if ((at->staging == NULL && !make_staging(at)) || !may_stage(at, io, peer))
        return NULL;
    buffer = at->free_staging;
    memcpy(&at->free_staging, buffer, sizeof(at->free_staging));
    at->free_staging_count--;
    at->staged[io->slot] += io->is_left ? 0 : 1;
    peer->staged++;
    io->staged_for = peer;
    return buffer;
}

void lane_region_staging_give(struct lane_regions *at, struct region_io *io)
{
    if (io->staging == NULL)
        return;
    give_buffer(at, io->staging);
    io->staging = NULL;
    at->staged[io->slot] -= io->is_left ? 0 : 1;
    io->staged_for->staged--;
    at->posts_due = true;
}

void lane_region_staging_leave(struct lane_regions *at, uint32_t slot)
{
    LIST_FOREACH(node, &at->ios[slot])
    container_of(node, struct region_io, link)->is_left = true;
    at->staged[slot] = 0;
}

void lane_region_bytes_fini(struct lane_regions *at)
{
    if (at->staging != NULL) {
        fabric_memory_deregister(at->lane->config.fabric, at->staging_at);
        (void)munmap(at->staging, STAGING_BYTES);
    }
    at->staging = at->free_staging = NULL;
    at->free_staging_count = 0;
}

/* ---- where they are ------------------------------------------------------- */

/* Where of an operation's bytes a part's begin. */
static uint64_t begin_of(const struct region_part *part)
{
    uint64_t chunk_bytes = region_known(part->io->op.region)->geometry.chunk_bytes;

    return part->post.piece.chunk * chunk_bytes + part->post.piece.offset_bytes -
           part->io->op.op.offset_bytes;
}

/* In the client's place: its session may have taken that back. */
static uint8_t *placed_bytes(struct lane_regions *at, const struct region_io *io, uint64_t from,
                             uint64_t bytes)
{
    if (!lane_is_session(at->lane, io->slot, io->begun) || io->is_told)
        return NULL;
    return store_leased_bytes(at->lane->store, io->slot, io->place + from, bytes);
}

static uint8_t *bytes_of(struct lane_regions *at, const struct region_part *part)
{
    const struct region_io *io = part->io;

    if (io->has_memory) {
        const struct bulk_memory *piece = io->memory.tag;

        return piece->memory.address + io->memory.offset + begin_of(part);
    }
    if (io->piece != NULL)
        return io->is_told ? NULL : io->buffer + begin_of(part);
    return placed_bytes(at, io, begin_of(part), part->post.piece.length_bytes);
}

nigh_status lane_region_take_read(struct lane_regions *at, const struct region_part *part)
{
    uint64_t bytes = part->post.piece.length_bytes;
    uint8_t *to;

    if (part->io->what != SESSION_REGION_READ || part->io->staging == NULL)
        return NIGH_OK;
    to = placed_bytes(at, part->io, begin_of(part), bytes);
    if (to == NULL)
        return part->io->is_told ? NIGH_CANCELED : NIGH_INVALID;
    memcpy(to, part->io->staging + begin_of(part), bytes);
    return NIGH_OK;
}

/* All that is filled with a byte comes from one buffer, again and again. */
static nigh_status slice_of_fill(struct lane_regions *at, const struct region_io *io,
                                 struct fabric_slice *slice)
{
    const struct region_fill *fill =
        io->is_told ? NULL : lane_region_fill(at, (uint8_t)io->operand);

    if (fill == NULL)
        return io->is_told ? NIGH_CANCELED : NIGH_BUSY;
    slice->address = fill->bytes;
    slice->memory = fill->at;
    return NIGH_OK;
}

nigh_status lane_region_slice(struct lane_regions *at, struct region_part *part,
                              struct fabric_slice *slice)
{
    struct region_io *io = part->io;
    uint64_t from = begin_of(part) + part->begun_bytes;

    slice->bytes = lane_region_next_bytes(part);
    if (io->has_memory) {
        const struct bulk_memory *piece = io->memory.tag;

        slice->address = piece->memory.address + io->memory.offset + from;
        slice->memory = piece->at[at->lane->config.number];
        return NIGH_OK;
    }
    if (io->what == SESSION_REGION_FILL)
        return slice_of_fill(at, io, slice);
    if (io->piece != NULL) {
        slice->address = io->buffer + from;
        slice->memory = io->piece->slab->at;
        return NIGH_OK;
    }
    if (io->staging == NULL) {
        io->staging = take_staging(at, io, part->peer);
        if (io->staging == NULL)
            return NIGH_BUSY;
        if (io->what == SESSION_REGION_WRITE) {
            const uint8_t *bytes = placed_bytes(at, io, 0, io->place_bytes);

            if (bytes == NULL)
                return io->is_told ? NIGH_CANCELED : NIGH_INVALID;
            memcpy(io->staging, bytes, io->place_bytes);
        }
    }
    slice->address = io->staging + from;
    slice->memory = at->staging_at;
    return NIGH_OK;
}

/* ---- what the lane moves -------------------------------------------------- */

bool lane_region_has_atomics(const struct lane_regions *at)
{
    const struct fabric *fabric = at->lane->config.fabric;

    return fabric == NULL || (fabric->caps.ops & FABRIC_CAN_ATOMICS_HERE) != 0;
}

/* By the processor: never where peers' atomics are the device's alone. */
static nigh_status act_on_word(struct region_io *io, uint8_t *bytes)
{
    uint64_t *word = (uint64_t *)(void *)bytes;

    if (io->what == SESSION_REGION_ADD) {
        io->old = __atomic_fetch_add(word, io->operand, __ATOMIC_SEQ_CST);
    } else {
        io->old = io->compare;
        (void)__atomic_compare_exchange_n(word, &io->old, io->operand, false, __ATOMIC_SEQ_CST,
                                          __ATOMIC_SEQ_CST);
    }
    return NIGH_OK;
}

void lane_region_move(uint8_t *to, const uint8_t *from, uint64_t count, bool writes)
{
    uint64_t *word = (uint64_t *)(void *)(writes ? to : (uint8_t *)(uintptr_t)from);
    uint64_t value;

    if (count != sizeof(value) || (uintptr_t)word % sizeof(value) != 0) {
        memmove(to, from, count); /* a member may ask for any two ranges */
    } else if (writes) {
        memcpy(&value, from, sizeof(value));
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    } else {
        value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
        memcpy(to, &value, sizeof(value));
    }
}

static nigh_status map_part(struct lane_regions *at, struct region_part *part)
{
    struct region_io *io = part->io;

    part->begun_bytes = part->post.piece.length_bytes;
    if (part->begun_bytes != io->op.op.length_bytes)
        return NIGH_INVALID; /* of more than one chunk */
    return lane_region_map(at, io, lane_region_opened(io->op.region, &part->post));
}

nigh_status lane_region_carry_out(struct lane_regions *at, struct region_part *part)
{
    struct region_io *io = part->io;
    uint8_t *chunk = lane_region_bytes(io->op.region, &part->post);
    uint64_t from = part->begun_bytes;
    uint64_t count = lane_region_next_bytes(part);
    uint8_t *bytes;

    if (chunk == NULL)
        return NIGH_STALE;
    if (io->what == SESSION_REGION_MAP)
        return map_part(at, part);
    part->begun_bytes += count;
    if (lane_region_is_word(io))
        return act_on_word(io, chunk);
    if (io->what == SESSION_REGION_FILL) {
        memset(chunk + from, (uint8_t)io->operand, count);
        return NIGH_OK;
    }
    bytes = bytes_of(at, part);
    if (bytes == NULL)
        return io->is_told ? NIGH_CANCELED : NIGH_INVALID;
    if (io->what == SESSION_REGION_WRITE)
        lane_region_move(chunk + from, bytes + from, count, true);
    else
        lane_region_move(bytes + from, chunk + from, count, false);
    return NIGH_OK;
}
