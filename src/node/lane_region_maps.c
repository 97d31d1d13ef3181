/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of chunks that clients of this node have mapped: which client has which, and what becomes
 * of it when its chunk leaves it.
 *
 * A client keeps what it was given for as long as it likes, whatever it says, and so may whom it
 * passed it on to. So a chunk that is closed to somebody to whom its memory was ever given goes on
 * in another memory (lane_region_chunks.c); and memory that is over is punched out of its file.
 * What a client says, and its end, is only believed for what it costs nobody else: how long memory
 * that is no chunk's any more is kept for it, and whether the chunk may move.
 */
#include <fcntl.h>
#include <stdlib.h>

#include "base/order.h"
#include "memory/memfd.h"
#include "node/lane_regions.h"

/* ---- who has what --------------------------------------------------------- */

/* Places are taken as they are used. NULL: all are, or there is no memory for them. */
static struct region_map *take_map(struct lane_regions *at)
{
    struct region_map *map;

    if (at->maps == NULL)
        at->maps = calloc(LIMIT_REGION_MAPS, sizeof(*at->maps));
    if (at->maps == NULL)
        return NULL;
    if (!list_empty(&at->free_maps)) {
        map = container_of(list_pop_front(&at->free_maps), struct region_map, link);
    } else {
        map = &at->maps[at->maps_used++]; /* as many as there are shares of */
    }
    map->uses++;
    at->map_count++;
    return map;
}

static uint64_t number_of(const struct lane_regions *at, const struct region_map *map)
{
    return (uint64_t)map->uses << 32 | (uint64_t)(map - at->maps);
}

/* NULL: it is none of the session's. */
static struct region_map *find_map(const struct lane_regions *at, uint32_t slot, uint64_t number)
{
    uint32_t place = (uint32_t)number;
    struct region_map *map = place < at->maps_used ? &at->maps[place] : NULL;

    return map != NULL && map->share != NULL && map->uses == number >> 32 && map->slot == slot &&
                   map->begun == at->lane->sessions[slot].begun
               ? map
               : NULL;
}

static void end_kept(struct lane_regions *at, struct region_share *share)
{
    at->kept_bytes -= share->memory->bytes;
    region_memories_unmake(at->memories, share->memory);
    free(share);
}

static void end_map(struct lane_regions *at, struct region_map *map)
{
    struct region_share *share = map->share;
    bool is_kept = share->chunk == NULL;

    list_remove(&map->link);
    map->use->maps--;
    map->use->stale_maps -= is_kept;
    at->sessions[map->slot]->maps--;
    at->map_count--;
    map->share = NULL;
    session_shares_give(&at->shares, REGION_TABLE_MAPS, &map->counts);
    list_push_back(&at->free_maps, &map->link);
    if (is_kept && list_empty(&share->maps))
        end_kept(at, share);
}

nigh_status lane_region_unmap(struct lane_regions *at, uint32_t slot, uint64_t number)
{
    struct region_map *map = find_map(at, slot, number);
    bool is_stale = map != NULL && map->share->chunk == NULL;

    if (map == NULL)
        return NIGH_INVALID;
    end_map(at, map);
    return is_stale ? NIGH_STALE : NIGH_OK;
}

void lane_region_maps_close(struct lane_regions *at, const struct region_use *use)
{
    for (uint32_t n = 0; n < at->maps_used && use->maps > 0; n++) {
        if (at->maps[n].share != NULL && at->maps[n].use == use)
            end_map(at, &at->maps[n]);
    }
}

/* ---- mapped --------------------------------------------------------------- */

/* It is not known any more who has it, when many do. */
static void remember(struct region_share *share, uint32_t uid, uint32_t gid, uint32_t rights)
{
    for (uint32_t n = 0; n < share->taker_count; n++) {
        if (share->takers[n].uid == uid && share->takers[n].gid == gid) {
            share->takers[n].rights |= rights;
            return;
        }
    }
    if (share->taker_count == LIMIT_REGION_TAKERS)
        share->is_anybodys = true;
    else
        share->takers[share->taker_count++] = (struct region_taker){uid, gid, rights};
}

/* NULL: there is no memory for that. */
static struct region_share *need_share(struct region_chunk_here *chunk)
{
    if (chunk->share == NULL) {
        chunk->share = calloc(1, sizeof(*chunk->share));
        if (chunk->share == NULL)
            return NULL;
        chunk->share->memory = chunk->memory;
        chunk->share->chunk = chunk;
        list_init(&chunk->share->maps);
    }
    return chunk->share;
}

nigh_status lane_region_map(struct lane_regions *at, struct region_io *io,
                            struct region_chunk_here *chunk)
{
    struct lane_region_session *session = at->sessions[io->slot];
    struct session_place counts = {.is_taken = false};
    struct region_share *share;
    struct region_map *map;

    if (chunk->memory->fd < 0)
        return NIGH_UNSUPPORTED; /* its home says otherwise now than as it was made */
    if (io->is_told || session == NULL)
        return NIGH_CANCELED; /* nobody would hear of its number */
    share = need_share(chunk);
    if (share == NULL)
        return NIGH_NO_RESOURCES;
    if (session->maps >= LIMIT_SESSION_MAPS ||
        !lane_region_share(at, REGION_TABLE_MAPS, io->slot, &counts))
        return NIGH_LIMIT;
    map = take_map(at);
    if (map == NULL) {
        session_shares_give(&at->shares, REGION_TABLE_MAPS, &counts);
        return NIGH_LIMIT;
    }
    map->counts = counts;
    remember(share, session->handles.uid, session->handles.gid, io->rights);
    map->share = share;
    map->use = io->use;
    map->slot = io->slot;
    map->begun = io->begun;
    map->writes = (io->rights & REGION_WRITE) != 0;
    list_push_back(&share->maps, &map->link);
    io->use->maps++;
    session->maps++;
    io->old = number_of(at, map);
    return NIGH_OK;
}

/* Who may not write has a descriptor that nothing can be written through, also from another uid. */
nigh_status lane_region_map_open(const struct lane *lane, uint32_t slot, uint64_t number, int *fd)
{
    const struct lane_regions *at = lane->regions;
    const struct region_map *map = at == NULL ? NULL : find_map(at, slot, number);
    int copy;

    if (map == NULL)
        return NIGH_NOT_FOUND;
    if (map->share->chunk == NULL)
        return NIGH_STALE;
    if (!map->writes)
        return memfd_reopen_read_only(map->share->memory->fd, fd);
    copy = fcntl(map->share->memory->fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return NIGH_NO_RESOURCES;
    *fd = copy;
    return NIGH_OK;
}

/* ---- the chunk's memory --------------------------------------------------- */

bool lane_region_is_shared(const struct region_chunk_here *chunk)
{
    return chunk->share != NULL && !list_empty(&chunk->share->maps);
}

bool lane_region_must_renew(const struct region_chunk_here *chunk,
                            const struct region_descriptor *kept)
{
    const struct region_share *share = chunk->share;

    for (uint32_t n = 0; share != NULL && n < share->taker_count; n++) {
        const struct region_taker *taker = &share->takers[n];

        if ((taker->rights & ~region_descriptor_rights(kept, taker->uid, taker->gid)) != 0)
            return true;
    }
    return share != NULL && share->is_anybodys;
}

void lane_region_leave_memory(struct lane_regions *at, struct region_chunk_here *chunk)
{
    struct region_share *share = chunk->share;
    struct region_memory *memory = chunk->memory;
    bool is_kept = lane_region_is_shared(chunk);

    chunk->share = NULL;
    chunk->memory = NULL;
    if (!is_kept) {
        free(share);
        region_memories_unmake(at->memories, memory);
        return;
    }
    share->chunk = NULL;
    at->kept_bytes += memory->bytes;
    LIST_FOREACH(node, &share->maps)
    {
        container_of(node, struct region_map, link)->use->stale_maps++;
    }
}
