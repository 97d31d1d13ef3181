/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of regions' chunks that lie at this node: made by a thread (region_memories.h),
 * registered under a new key whenever a chunk is opened, and no longer before it is said to be
 * closed; copied from where it was when it moves here.
 *
 * A registration is what withdraws a chunk: from fabric_memory_deregister's return on nothing that
 * presents its key touches it. Here, without a fabric, it is the lane itself that looks at the
 * handle.
 */
#include <stdlib.h>
#include <string.h>

#include "node/lane_regions.h"

/* READs of a copy under way at once. */
#define COPY_WINDOW 4u

/* ---- what has ended ------------------------------------------------------- */

static struct region_here *here_of(const struct region *region)
{
    return region_data(region);
}

/* NULL: there is none. */
static struct region_chunk_here *chunk_of(const struct region *region, uint32_t number)
{
    const struct region_here *here = here_of(region);

    return here == NULL || number >= here->room ? NULL : here->chunks[number];
}

static void did(struct lane_regions *at, struct region_chunk_here *chunk, nigh_status status)
{
    chunk->did = status;
    chunk->did_handle = status == NIGH_OK ? chunk->handle : REGION_NO_WINDOW;
    list_push_back(&at->did, &chunk->link);
}

static void drop_if_empty(struct region_here *here)
{
    if (here->count > 0)
        return;
    region_set_data(here->region, NULL);
    list_remove(&here->link);
    free(here->chunks);
    free(here);
}

/* Chunks that have nothing here any more go when that was told. */
static void forget(struct lane_regions *at, struct region_chunk_here *chunk)
{
    struct region_here *here = here_of(chunk->region);

    here->chunks[chunk->number] = NULL;
    here->count--;
    at->here_count--;
    drop_if_empty(here);
    free(chunk);
}

void lane_region_chunks_tell(struct lane_regions *at)
{
    struct list_node *node;

    while ((node = list_pop_front(&at->did)) != NULL) {
        struct region_chunk_here *chunk = container_of(node, struct region_chunk_here, link);
        struct region *region = chunk->region;
        struct region_window handle = chunk->did_handle;
        nigh_status status = chunk->did;
        uint32_t number = chunk->number;

        if (chunk->memory == NULL)
            forget(at, chunk);
        regions_did(region, number, status, handle);
    }
    while (at->unmade_count > 0) {
        struct region_unmade unmade = at->unmade[--at->unmade_count];

        regions_did(unmade.region, unmade.chunk, unmade.status, REGION_NO_WINDOW);
    }
}

bool lane_region_chunks_are_over(const struct lane_regions *at)
{
    return list_empty(&at->did) && at->unmade_count == 0;
}

/* ---- made, cut ------------------------------------------------------------ */

/* NULL: there is no memory for that. */
static struct region_here *add_here(struct lane_regions *at, struct region *region)
{
    struct region_here *here = calloc(1, sizeof(*here));

    if (here != NULL) {
        here->region = region;
        region_set_data(region, here);
        list_push_back(&at->here, &here->link);
    }
    return here;
}

static bool need_room(struct region_here *here, uint32_t room)
{
    struct region_chunk_here **more;

    if (room <= here->room)
        return true;
    room = min_u32(max_u32(room, 2 * here->room), LIMIT_REGION_CHUNKS);
    more = realloc(here->chunks, room * sizeof(struct region_chunk_here *));
    if (more == NULL)
        return false;
    memset(more + here->room, 0, (room - here->room) * sizeof(struct region_chunk_here *));
    here->chunks = more;
    here->room = room;
    return true;
}

/* NULL: there is no memory for that. */
static struct region_chunk_here *add_chunk(struct lane_regions *at, struct region *region,
                                           uint32_t number)
{
    struct region_here *here = here_of(region);
    struct region_chunk_here *chunk = calloc(1, sizeof(*chunk));

    if (here == NULL && chunk != NULL)
        here = add_here(at, region);
    if (here == NULL || chunk == NULL || !need_room(here, number + 1)) {
        if (here != NULL)
            drop_if_empty(here);
        free(chunk);
        return NULL;
    }
    NIGH_ASSERT(here->chunks[number] == NULL);
    chunk->region = region;
    chunk->number = number;
    here->chunks[number] = chunk;
    here->count++;
    at->here_count++;
    return chunk;
}

/* Half of what can be registered is for what else a node has: links, objects, calls. */
static uint32_t most_chunks(const struct lane_regions *at)
{
    const struct fabric *fabric = at->lane->config.fabric;

    return fabric == NULL ? LIMIT_REGION_HERE
                          : min_u32(fabric->caps.memories / 2, LIMIT_REGION_HERE);
}

static nigh_status make_new(struct lane_regions *at, struct region_chunk_here *chunk,
                            const struct region_holder_act *act)
{
    struct region_memory_wish wish = {
        .bytes = act->bytes, .is_file = act->is_mappable, .tag = chunk, .number = act->chunk};

    return region_memories_make(at->memories, &wish);
}

/* Who donated it may be gone, with what it was. */
static nigh_status make_of_donation(struct lane_regions *at, struct region_chunk_here *chunk,
                                    const struct region_holder_act *act)
{
    struct region_memory *memory =
        lane_region_donation_take(at, chunk->region, act->donation, act->bytes);

    if (memory == NULL)
        return NIGH_CLOSED;
    region_memories_begin(at->memories, memory, chunk, act->chunk);
    return NIGH_OK;
}

static void make(struct lane_regions *at, struct region *region,
                 const struct region_holder_act *act)
{
    bool has_place = at->here_count < most_chunks(at);
    struct region_chunk_here *chunk = has_place ? add_chunk(at, region, act->chunk) : NULL;
    nigh_status status = has_place ? NIGH_NO_RESOURCES : NIGH_LIMIT;

    if (chunk != NULL) {
        status = act->donation != 0 ? make_of_donation(at, chunk, act) : make_new(at, chunk, act);
        if (status != NIGH_OK)
            did(at, chunk, status);
        return;
    }
    NIGH_ASSERT(at->unmade_count < REGION_UNMADES);
    at->unmade[at->unmade_count++] =
        (struct region_unmade){.region = region, .chunk = act->chunk, .status = status};
}

static void cut(struct lane_regions *at, struct region_chunk_here *chunk)
{
    lane_region_leave_memory(at, chunk);
    did(at, chunk, NIGH_OK);
}

static void open_chunk(struct lane_regions *at, struct region_chunk_here *chunk);

/* All that was in the old memory is in the new one. Without memory for it the chunk waits. */
static void take_renewed(struct lane_regions *at, struct region_chunk_here *chunk,
                         struct region_memory *memory)
{
    chunk->is_renewing = false;
    if (chunk->is_left) {
        chunk->is_left = false;
        region_memories_unmake(at->memories, memory);
        did(at, chunk, NIGH_OK);
        return;
    }
    if (memory->status == NIGH_OK) {
        lane_region_leave_memory(at, chunk);
        chunk->memory = memory;
        chunk->must_renew = false;
    } else {
        region_memories_unmake(at->memories, memory);
        chunk->renew_us = at->lane->now_us + LIMIT_REGION_RENEW_US;
    }
    open_chunk(at, chunk);
}

bool lane_region_chunks_turn(struct lane_regions *at)
{
    struct region_memory *memory;
    bool any = false;

    while ((memory = region_memories_take(at->memories)) != NULL) {
        struct region_chunk_here *chunk = memory->tag;
        nigh_status status = memory->status;

        any = true;
        if (chunk->is_renewing) {
            take_renewed(at, chunk, memory);
            continue;
        }
        if (status == NIGH_OK)
            chunk->memory = memory;
        else
            region_memories_unmake(at->memories, memory);
        did(at, chunk, status);
    }
    return any;
}

/* ---- opened, closed ------------------------------------------------------- */

static uint32_t rights_of(const struct fabric *fabric, bool writes)
{
    if (!writes)
        return FABRIC_REMOTE_READ;
    return FABRIC_REMOTE_READ | FABRIC_LOCAL_WRITE | FABRIC_REMOTE_WRITE |
           ((fabric->caps.ops & FABRIC_CAN_ATOMICS) != 0 ? FABRIC_REMOTE_ATOMIC : 0);
}

static nigh_status give_handle(struct lane_regions *at, struct region_chunk_here *chunk,
                               bool writes)
{
    struct fabric *fabric = at->lane->config.fabric;
    struct fabric_remote remote;
    nigh_status status;

    chunk->writes = writes;
    if (fabric == NULL) {
        at->windows += at->windows == UINT32_MAX ? 2 : 1; /* never 0 */
        chunk->handle = (struct region_window){
            .address = (uint64_t)(uintptr_t)chunk->memory->address, .key = at->windows};
        return NIGH_OK;
    }
    status = fabric_memory_register(fabric, chunk->memory->address, chunk->memory->bytes,
                                    FABRIC_HOST, rights_of(fabric, writes), &chunk->at);
    if (status != NIGH_OK)
        return status;
    remote = fabric_memory_remote(fabric, chunk->at, chunk->memory->address);
    chunk->handle = (struct region_window){.address = remote.address, .key = remote.key};
    return NIGH_OK;
}

static void copy_more(struct lane_regions *at, struct region_chunk_here *chunk);

/* Somebody who has its memory is to have it no more: it goes on in other memory. False: not now. */
static bool renew(struct lane_regions *at, struct region_chunk_here *chunk)
{
    struct region_memory_wish wish = {.bytes = chunk->memory->bytes,
                                      .is_file = true,
                                      .from = chunk->memory->address,
                                      .tag = chunk,
                                      .number = chunk->number};

    if (at->lane->now_us < chunk->renew_us)
        return false;
    chunk->is_renewing = region_memories_make(at->memories, &wish) == NIGH_OK;
    return chunk->is_renewing;
}

/* What cannot be registered now is tried again: what was open once is to be open again. */
static void open_chunk(struct lane_regions *at, struct region_chunk_here *chunk)
{
    if (chunk->must_renew) {
        if (renew(at, chunk))
            return;
        list_push_back(&at->opening, &chunk->link);
        lane_regions_again(at);
    } else if (give_handle(at, chunk, true) == NIGH_OK) {
        did(at, chunk, NIGH_OK);
    } else {
        list_push_back(&at->opening, &chunk->link);
        lane_regions_again(at);
    }
}

void lane_region_chunks_retry(struct lane_regions *at)
{
    struct list again;
    struct list_node *node;

    list_init(&again);
    list_append_all(&again, &at->opening);
    while ((node = list_pop_front(&again)) != NULL) {
        struct region_chunk_here *chunk = container_of(node, struct region_chunk_here, link);

        if (chunk->is_copied)
            copy_more(at, chunk);
        else
            open_chunk(at, chunk);
    }
}

static void withdraw(struct lane_regions *at, struct region_chunk_here *chunk)
{
    if (chunk->at != NULL)
        fabric_memory_deregister(at->lane->config.fabric, chunk->at);
    chunk->at = NULL;
    chunk->handle = REGION_NO_WINDOW;
}

/* Also one that is not open yet: it waits to be, or nobody has been told. */
static void close_chunk(struct lane_regions *at, struct region_chunk_here *chunk)
{
    withdraw(at, chunk);
    if (list_is_linked(&chunk->link))
        list_remove(&chunk->link);
    chunk->is_left = chunk->is_renewing;
    if (!chunk->is_left)
        did(at, chunk, NIGH_OK);
}

/* A home says how large chunks are, and which handle opens one: what is here is this node's word.
 */
struct region_chunk_here *lane_region_opened(const struct region *region,
                                             const struct region_post *post)
{
    struct region_chunk_here *chunk = chunk_of(region, post->piece.chunk);
    uint64_t bytes = chunk == NULL || chunk->memory == NULL ? 0 : chunk->memory->bytes;

    if (region_window_is_none(post->place.handle) || post->piece.offset_bytes > bytes ||
        post->piece.length_bytes > bytes - post->piece.offset_bytes ||
        !region_window_equal(chunk->handle, post->place.handle)) {
        return NULL;
    }
    return chunk;
}

uint8_t *lane_region_bytes(const struct region *region, const struct region_post *post)
{
    const struct region_chunk_here *chunk = lane_region_opened(region, post);

    return chunk == NULL ? NULL : chunk->memory->address + post->piece.offset_bytes;
}

/* ---- copied --------------------------------------------------------------- */

static void on_copied(void *context, nigh_status status, uint64_t now_us)
{
    struct region_chunk_here *chunk = context;
    struct lane_regions *at = chunk->memory->tag;

    (void)now_us;
    chunk->copies--;
    if (chunk->did == NIGH_OK)
        chunk->did = lane_region_end_of_post(status);
    copy_more(at, chunk);
    lane_regions_tell(at);
}

/* NIGH_BUSY: there is no place, or no endpoint now; the link is there, or goes soon. */
static nigh_status read_there(struct link *link, const struct fabric_slice *slice,
                              struct fabric_remote remote, struct region_chunk_here *chunk)
{
    if (link == NULL || link_is_failing(link))
        return NIGH_PEER_LOST;
    return link_carries(link, LINK_REGIONS)
               ? link_region_read(link, LINK_REGIONS, slice, 1, remote, on_copied, chunk)
               : NIGH_BUSY;
}

/* Without a link it fails, and the move with it: its asker may ask again. */
static void copy_more(struct lane_regions *at, struct region_chunk_here *chunk)
{
    while (chunk->did == NIGH_OK && chunk->copied_bytes < chunk->copy_bytes &&
           chunk->copies < COPY_WINDOW) {
        struct link *link = lane_regions_link_to(at, &chunk->source);
        struct fabric_slice slice = {
            .address = chunk->memory->address + chunk->copied_bytes,
            .bytes = min_u64(LIMIT_REGION_POST, chunk->copy_bytes - chunk->copied_bytes),
            .memory = chunk->at};
        struct fabric_remote remote = {.address =
                                           chunk->source.handle.address + chunk->copied_bytes,
                                       .key = chunk->source.handle.key};
        nigh_status status = read_there(link, &slice, remote, chunk);

        if (status == NIGH_BUSY) {
            if (chunk->copies == 0) { /* what it waits for comes without a word */
                list_push_back(&at->opening, &chunk->link);
                lane_regions_again(at);
            }
            return;
        }
        if (status == NIGH_OK) {
            chunk->copies++;
            chunk->copied_bytes += slice.bytes;
        }
        chunk->did = status;
    }
    if (chunk->copies == 0 && (chunk->did != NIGH_OK || chunk->copied_bytes == chunk->copy_bytes)) {
        nigh_status status = chunk->did;

        chunk->is_copied = false;
        withdraw(at, chunk);
        did(at, chunk, status);
    }
}

static void copy(struct lane_regions *at, struct region_chunk_here *chunk,
                 const struct region_holder_act *act)
{
    struct fabric *fabric = at->lane->config.fabric;
    nigh_status status = NIGH_PEER_LOST;

    if (fabric != NULL && act->source.node != at->lane->config.exchange.members->self)
        status = fabric_memory_register(fabric, chunk->memory->address, chunk->memory->bytes,
                                        FABRIC_HOST, FABRIC_LOCAL_WRITE, &chunk->at);
    if (status != NIGH_OK) {
        did(at, chunk, status);
        return;
    }
    chunk->memory->tag = at;
    chunk->is_copied = true;
    chunk->source = act->source;
    chunk->copy_bytes = min_u64(act->bytes, chunk->memory->bytes);
    chunk->copied_bytes = 0;
    chunk->did = NIGH_OK;
    copy_more(at, chunk);
}

static void wipe(struct region_chunk_here *chunk, uint64_t from, uint64_t to)
{
    if (to > from)
        memset(chunk->memory->address + from, 0, to - from);
}

/* ---- acts ----------------------------------------------------------------- */

void lane_region_act(void *context, struct region *region, const struct region_holder_act *act)
{
    struct lane_regions *at = context;
    struct region_chunk_here *chunk = chunk_of(region, act->chunk);

    if (act->action == REGION_ACT_MAKE) {
        make(at, region, act);
        return;
    }
    NIGH_ASSERT(chunk != NULL && chunk->memory != NULL);
    switch (act->action) {
    case REGION_ACT_MAKE: break;
    case REGION_ACT_COPY: copy(at, chunk, act); break;
    case REGION_ACT_LEND: /* who has it mapped would be left behind */
        did(at, chunk, lane_region_is_shared(chunk) ? NIGH_BUSY : give_handle(at, chunk, false));
        break;
    case REGION_ACT_OPEN:
        wipe(chunk, act->wipe_from, min_u64(act->wipe_to, chunk->memory->bytes));
        chunk->must_renew = lane_region_must_renew(chunk, act->kept);
        chunk->renew_us = 0;
        open_chunk(at, chunk);
        break;
    case REGION_ACT_CLOSE: close_chunk(at, chunk); break;
    case REGION_ACT_CUT: cut(at, chunk); break;
    }
}

void lane_region_chunks_fini(struct lane_regions *at)
{
    struct list_node *node;

    while ((node = list_pop_front(&at->here)) != NULL) {
        struct region_here *here = container_of(node, struct region_here, link);

        for (uint32_t n = 0; n < here->room; n++) {
            if (here->chunks[n] == NULL)
                continue;
            withdraw(at, here->chunks[n]);
            free(here->chunks[n]->share);
            free(here->chunks[n]);
        }
        free(here->chunks);
        free(here);
    }
}
