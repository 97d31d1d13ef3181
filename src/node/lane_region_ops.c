/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads, writes and atomics of regions: each comes in parts, one a chunk, as its mapping posts them
 * (region/mapping.h). A part of a chunk that is here is carried out by the lane itself, at once;
 * any other by READs and WRITEs of the link to its node, straight from that node's memory, some at
 * a time. A part whose link is not up waits for it, as long as the node is a member.
 *
 * What few bytes a client gives, or gets, lie in a place of leased memory: they pass through
 * buffers of this lane, which are registered once. Many lie in memory for calls, which is
 * registered itself.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/order.h"
#include "node/lane_regions.h"

static struct region_io *io_of(struct regions_op *op)
{
    return container_of(op, struct region_io, op);
}

/* ---- taken, given back ---------------------------------------------------- */

static void chain(struct list_node **first, struct list_node *node)
{
    node->prev = NULL;
    node->next = *first;
    *first = node;
}

static struct list_node *unchain(struct list_node **first)
{
    struct list_node *node = *first;

    if (node != NULL) {
        *first = node->next;
        node->next = NULL;
    }
    return node;
}

struct region_io *lane_region_io_take(struct lane_regions *at)
{
    struct list_node *node = at->io_count < LIMIT_REGION_IOS ? unchain(&at->free_ios) : NULL;
    struct region_io *io = node != NULL ? container_of(node, struct region_io, link) : NULL;

    if (io == NULL && at->io_count < LIMIT_REGION_IOS)
        io = malloc(sizeof(*io));
    if (io == NULL)
        return NULL;
    memset(io, 0, sizeof(*io));
    io->at = at;
    list_push_back(&at->ios, &io->link);
    at->io_count++;
    return io;
}

static struct region_part *take_part(struct lane_regions *at)
{
    struct list_node *node = unchain(&at->free_parts);
    struct region_part *part =
        node != NULL ? container_of(node, struct region_part, link) : malloc(sizeof(*part));

    if (part != NULL)
        memset(part, 0, sizeof(*part));
    return part;
}

/* NULL: all are in use, or there is no memory for any. */
static uint8_t *take_staging(struct lane_regions *at)
{
    const size_t bytes = (size_t)LIMIT_REGION_STAGING * LIMIT_CALL_BYTES;
    uint8_t *buffer;

    if (at->staging == NULL) {
        void *memory =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (memory == MAP_FAILED)
            return NULL;
        (void)madvise(memory, bytes, MADV_DONTFORK);
        if (fabric_memory_register(at->lane->config.fabric, memory, bytes, FABRIC_HOST,
                                   FABRIC_LOCAL_WRITE, &at->staging_at) != NIGH_OK) {
            (void)munmap(memory, bytes);
            return NULL;
        }
        at->staging = memory;
        for (uint32_t n = 0; n < LIMIT_REGION_STAGING; n++) {
            buffer = at->staging + (size_t)n * LIMIT_CALL_BYTES;
            memcpy(buffer, &at->free_staging, sizeof(at->free_staging));
            at->free_staging = buffer;
        }
    }
    buffer = at->free_staging;
    if (buffer != NULL)
        memcpy(&at->free_staging, buffer, sizeof(at->free_staging));
    return buffer;
}

static void give_staging(struct lane_regions *at, uint8_t *buffer)
{
    if (buffer == NULL)
        return;
    memcpy(buffer, &at->free_staging, sizeof(at->free_staging));
    at->free_staging = buffer;
}

void lane_region_use_put(struct lane_regions *at, struct region_use *use)
{
    bool lets_go =
        use->is_closed || (use->guard != NULL && use->guard->is_lost && use->guard->is_asked);

    if (lets_go && use->ios == 0 && !list_is_linked(&use->link))
        list_push_back(&at->closing, &use->link);
}

/* ---- how it ends ---------------------------------------------------------- */

void lane_region_io_say(struct lane_regions *at, struct region_io *io, nigh_status status,
                        uint64_t bytes)
{
    bool opens = io->what == SESSION_REGION_OPEN || io->what == SESSION_REGION_LOCK;
    bool maps = io->what == SESSION_REGION_MAP;
    struct session_cqe cqe = {.cookie = io->cookie,
                              .status = status,
                              .offset = io->place,
                              .data_size = bytes,
                              .generation = opens ? io->number : io->old,
                              .pin = SESSION_NO_PIN};

    if (status == NIGH_OK)
        cqe.flags = opens ? SESSION_CQE_OPENED : maps ? SESSION_CQE_MAPPED : 0;
    if (io->is_told)
        return;
    io->is_told = true;
    timers_cancel(&at->timers, &io->wait.timer);
    if (io->piece != NULL)
        return; /* its copy hears when it has ended */
    if (!lane_is_session(at->lane, io->slot, io->begun))
        return;
    ORDER_SAID();
    at->has_said = true;
    lane_on_complete(at->lane, io->slot, &cqe);
}

static void give_io(struct lane_regions *at, struct region_io *io)
{
    timers_cancel(&at->timers, &io->wait.timer);
    if (io->has_memory)
        lane_give_bulk(at->lane, &io->memory);
    give_staging(at, io->staging);
    if (io->piece == NULL)
        lane_region_buffer_give(at, io->buffer);
    list_remove(&io->link);
    at->io_count--;
    chain(&at->free_ios, &io->link);
}

void lane_region_io_drop(struct lane_regions *at, struct region_io *io, nigh_status status)
{
    lane_region_io_say(at, io, status, 0);
    give_io(at, io);
}

void lane_region_io_finish(struct lane_regions *at, struct region_io *io, bool is_open)
{
    bool opens = io->what == SESSION_REGION_OPEN || io->what == SESSION_REGION_LOCK;

    if (opens && !is_open)
        io->use->is_closed = true;
    io->use->ios--;
    lane_region_use_put(at, io->use);
    give_io(at, io);
}

void lane_region_ended(void *context, struct regions_op *op, nigh_status status)
{
    struct lane_regions *at = context;
    struct region_io *io = io_of(op);
    bool has_bytes =
        io->what == SESSION_REGION_STAT || (io->what == SESSION_REGION_READ && !io->has_memory);

    if (io->what == SESSION_REGION_LOCK && status == NIGH_OK && !io->is_told) {
        lane_region_guard_begin(at, io);
        return;
    }
    if (io->what == SESSION_REGION_BARRIER && status == NIGH_OK && !io->is_told) {
        lane_region_arrive(at, io);
        return;
    }
    if (io->what == SESSION_REGION_MAP && (status != NIGH_OK || io->is_told))
        (void)lane_region_unmap(at, io->slot, io->old); /* nobody hears of it */
    if (io->piece != NULL)
        lane_region_copy_went_on(at, io, status);
    lane_region_io_say(at, io, status, status == NIGH_OK && has_bytes ? io->place_bytes : 0);
    lane_region_io_finish(at, io, status == NIGH_OK && io->what != SESSION_REGION_LOCK);
}

/* A part has ended: that is told from outside of the machines. */
static void end_part(struct lane_regions *at, struct region_part *part, nigh_status status)
{
    uint64_t bytes = status == NIGH_OK ? part->post.piece.length_bytes : 0;
    struct region_guard *guard = part->io->use->guard;

    at->counts.parts_refused += status == NIGH_STALE;
    at->counts.bytes_read += part->io->what == SESSION_REGION_READ ? bytes : 0;
    at->counts.bytes_written +=
        part->io->what == SESSION_REGION_WRITE || part->io->what == SESSION_REGION_FILL ? bytes : 0;
    part->status = status;
    if (status == NIGH_PEER_LOST && guard != NULL && part->io->what != SESSION_REGION_READ)
        guard->is_dirty = true; /* its link's end is not the end of what went over it */
    list_push_back(&at->ended, &part->link);
}

/* ---- bytes ---------------------------------------------------------------- */

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

/* ---- here ----------------------------------------------------------------- */

static bool has_atomics_here(const struct lane_regions *at)
{
    const struct fabric *fabric = at->lane->config.fabric;

    return fabric == NULL || (fabric->caps.ops & FABRIC_CAN_ATOMICS_HERE) != 0;
}

static nigh_status act_on_word(const struct lane_regions *at, struct region_io *io, uint8_t *bytes)
{
    uint64_t *word = (uint64_t *)(void *)bytes;

    if (!has_atomics_here(at))
        return NIGH_UNSUPPORTED;
    if (io->what == SESSION_REGION_ADD) {
        io->old = __atomic_fetch_add(word, io->operand, __ATOMIC_SEQ_CST);
    } else {
        io->old = io->compare;
        (void)__atomic_compare_exchange_n(word, &io->old, io->operand, false, __ATOMIC_SEQ_CST,
                                          __ATOMIC_SEQ_CST);
    }
    return NIGH_OK;
}

/* One aligned word moves whole, beside peers that the fabric lets at it. */
static void move(uint8_t *to, const uint8_t *from, uint64_t count, bool writes)
{
    uint64_t *word = (uint64_t *)(void *)(writes ? to : (uint8_t *)(uintptr_t)from);
    uint64_t value;

    if (count != sizeof(value) || (uintptr_t)word % sizeof(value) != 0) {
        memcpy(to, from, count);
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

/* What is looked at is looked at in each step: the chunk may have been closed since the last. */
static nigh_status carry_out(struct lane_regions *at, struct region_part *part)
{
    struct region_io *io = part->io;
    uint8_t *chunk = lane_region_bytes(io->op.region, &part->post);
    uint64_t from = part->begun_bytes;
    uint64_t count = min_u64(part->post.piece.length_bytes - from, LIMIT_REGION_POST);
    uint8_t *bytes;

    if (chunk == NULL)
        return NIGH_STALE;
    if (io->what == SESSION_REGION_MAP)
        return map_part(at, part);
    part->begun_bytes += count;
    if (io->what == SESSION_REGION_ADD || io->what == SESSION_REGION_SWAP)
        return act_on_word(at, io, chunk);
    if (io->what == SESSION_REGION_FILL) {
        memset(chunk + from, (uint8_t)io->operand, count);
        return NIGH_OK;
    }
    bytes = bytes_of(at, part);
    if (bytes == NULL)
        return io->is_told ? NIGH_CANCELED : NIGH_INVALID;
    if (io->what == SESSION_REGION_WRITE)
        move(chunk + from, bytes + from, count, true);
    else
        move(bytes + from, chunk + from, count, false);
    return NIGH_OK;
}

/* As much as a turn may take. */
static void carry_on(struct lane_regions *at, struct region_part *part)
{
    nigh_status status = part->status != NIGH_OK ? part->status : carry_out(at, part);

    if (status != NIGH_OK || part->begun_bytes == part->post.piece.length_bytes)
        end_part(at, part, status);
    else
        list_push_back(&at->copying, &part->link);
}

bool lane_region_ops_turn(struct lane_regions *at)
{
    struct list now;
    struct list_node *node;

    if (list_empty(&at->copying))
        return false;
    list_init(&now);
    list_append_all(&now, &at->copying);
    while ((node = list_pop_front(&now)) != NULL)
        carry_on(at, container_of(node, struct region_part, link));
    return true;
}

/* ---- elsewhere ------------------------------------------------------------ */

static bool is_over(const struct region_part *part)
{
    return part->under_way == 0 &&
           (part->status != NIGH_OK || part->begun_bytes == part->post.piece.length_bytes);
}

/* What was read through a buffer comes to its place. */
static nigh_status take_read(struct lane_regions *at, const struct region_part *part)
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

static void begin_part(struct lane_regions *at, struct region_part *part);

/* A read that broke off with its link changed nothing: it begins anew, or waits for that. False: it
 * is not one, or nobody wants it any more. */
static bool begins_anew(struct lane_regions *at, struct region_part *part)
{
    if (part->status != NIGH_PEER_LOST || part->io->what != SESSION_REGION_READ ||
        part->io->is_told || part->io->op.op.is_ending ||
        !lane_regions_is_member(at, part->post.place.node))
        return false;
    part->status = NIGH_OK;
    part->begun_bytes = 0;
    list_push_back(&at->waiting, &part->link);
    lane_regions_again(at);
    return true;
}

static void finish_part(struct lane_regions *at, struct region_part *part)
{
    if (list_is_linked(&part->link))
        list_remove(&part->link);
    if (!begins_anew(at, part))
        end_part(at, part, part->status == NIGH_OK ? take_read(at, part) : part->status);
}

/* What was refused was so for a handle that is none any more, whatever else its link's end did. */
static void went_on(struct lane_regions *at, struct region_part *part, nigh_status status)
{
    part->under_way--;
    if (status == NIGH_DENIED && (part->status == NIGH_OK || part->status == NIGH_PEER_LOST))
        part->status = NIGH_STALE;
    else if (part->status == NIGH_OK)
        part->status = status;
    if (is_over(part))
        finish_part(at, part);
    else if (part->status == NIGH_OK && !list_is_linked(&part->link))
        begin_part(at, part);
}

static void on_done(void *context, nigh_status status, uint64_t now_us)
{
    struct region_part *part = context;
    struct lane_regions *at = part->io->at;

    (void)now_us;
    went_on(at, part, status);
    lane_regions_tell(at);
}

static void on_word_done(void *context, nigh_status status, uint64_t old, uint64_t now_us)
{
    struct region_part *part = context;

    part->io->old = old;
    on_done(part, status, now_us);
}

static nigh_status post_word(struct link *link, struct region_part *part,
                             struct fabric_remote remote)
{
    const struct region_io *io = part->io;

    return io->what == SESSION_REGION_ADD
               ? link_fetch_add(link, remote, io->operand, on_word_done, part)
               : link_compare_swap(link, remote, io->compare, io->operand, on_word_done, part);
}

/* All that is filled comes from one buffer, again and again. */
static nigh_status slice_of_fill(struct lane_regions *at, struct region_io *io,
                                 struct fabric_slice *slice)
{
    if (io->is_told)
        return NIGH_CANCELED;
    if (io->buffer == NULL) {
        io->buffer = lane_region_buffer_take(at);
        if (io->buffer == NULL)
            return NIGH_BUSY;
        memset(io->buffer, (uint8_t)io->operand,
               min_u64(LIMIT_REGION_COPY_BYTES, io->op.op.length_bytes));
    }
    slice->bytes = min_u64(slice->bytes, LIMIT_REGION_COPY_BYTES);
    slice->address = io->buffer;
    slice->memory = at->buffers_at;
    return NIGH_OK;
}

/* Where a part's next bytes are, from the lane's side. NIGH_BUSY: all buffers are in use. */
static nigh_status slice_of(struct lane_regions *at, struct region_part *part,
                            struct fabric_slice *slice)
{
    struct region_io *io = part->io;
    uint64_t from = begin_of(part) + part->begun_bytes;

    slice->bytes = min_u64(LIMIT_REGION_POST, part->post.piece.length_bytes - part->begun_bytes);
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
        slice->memory = at->buffers_at;
        return NIGH_OK;
    }
    if (io->staging == NULL) {
        io->staging = take_staging(at);
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

/* While it waited its chunk may have been closed, or its node have begun anew. */
static bool is_stale(const struct region_part *part)
{
    const struct region_descriptor *known = region_known(part->io->op.region);
    uint32_t chunk = part->post.piece.chunk;

    return part->begun_bytes == 0 &&
           (chunk >= known->chunk_count || known->chunks[chunk].node != part->post.place.node ||
            !region_window_equal(known->chunks[chunk].handle, part->post.place.handle));
}

/* Begins some of a part. NIGH_BUSY: not now. */
static nigh_status post_some(struct lane_regions *at, struct region_part *part)
{
    struct link *link = lane_regions_link(at, part->post.place.node);
    struct fabric_remote remote = {.address = part->post.place.handle.address +
                                              part->post.piece.offset_bytes + part->begun_bytes,
                                   .key = part->post.place.handle.key};
    struct fabric_slice slice = {.bytes = part->post.piece.length_bytes};
    nigh_status status = NIGH_OK;

    if (is_stale(part))
        return NIGH_STALE;
    if (link == NULL || link_is_failing(link)) {
        if (!lane_regions_is_member(at, part->post.place.node))
            return NIGH_PEER_LOST;
        return part->begun_bytes == 0 ? NIGH_BUSY : NIGH_PEER_LOST;
    }
    if (part->io->what == SESSION_REGION_ADD || part->io->what == SESSION_REGION_SWAP) {
        status = post_word(link, part, remote);
    } else {
        status = slice_of(at, part, &slice);
        if (status == NIGH_OK)
            status = part->io->what == SESSION_REGION_READ
                         ? link_read(link, &slice, 1, remote, on_done, part)
                         : link_write(link, &slice, 1, remote, on_done, part);
    }
    if (status == NIGH_OK) {
        part->under_way++;
        part->begun_bytes += slice.bytes;
    }
    return status;
}

static void begin_part(struct lane_regions *at, struct region_part *part)
{
    while (part->status == NIGH_OK && part->begun_bytes < part->post.piece.length_bytes &&
           part->under_way < LIMIT_REGION_POSTS) {
        nigh_status status = post_some(at, part);

        if (status == NIGH_BUSY) {
            list_push_back(&at->waiting, &part->link);
            lane_regions_again(at);
            return;
        }
        part->status = status;
    }
    if (is_over(part))
        finish_part(at, part);
}

/* A chunk that is to be mapped is at another node, by what is known: the home is asked once. */
static nigh_status is_away(struct region_io *io)
{
    bool was_away = io->was_away;

    io->was_away = true;
    return was_away ? NIGH_ELSEWHERE : NIGH_STALE;
}

/* ---- what the mapping says ------------------------------------------------ */

void lane_region_post(void *context, struct regions_op *op, const struct region_post *post)
{
    struct lane_regions *at = context;
    struct region_io *io = io_of(op);
    struct region_part *part = take_part(at);
    const struct lane_config *config = &at->lane->config;
    bool is_here = config->fabric == NULL || post->place.node == config->exchange.members->self;

    if (part == NULL) {
        region_chunks_add(&io->failed_chunks, post->piece.chunk);
        if (!list_is_linked(&io->failed))
            list_push_back(&at->failed, &io->failed);
        return;
    }
    part->io = io;
    part->post = *post;
    at->counts.parts_here += is_here;
    at->counts.parts_there += !is_here;
    if (is_here)
        carry_on(at, part);
    else if (io->what == SESSION_REGION_MAP)
        end_part(at, part, is_away(io));
    else
        begin_part(at, part);
}

/* Parts that there was no memory for. The last that is told of may end the operation. */
static void tell_failed(struct region_io *io)
{
    struct region_chunks chunks = io->failed_chunks;

    memset(&io->failed_chunks, 0, sizeof(io->failed_chunks));
    for (uint32_t n = 0; n < LIMIT_REGION_CHUNKS; n++) {
        if (region_chunks_has(&chunks, n))
            regions_posted(&io->op, n, REGION_NO_WINDOW, NIGH_NO_RESOURCES);
    }
}

void lane_region_ops_tell(struct lane_regions *at)
{
    struct list_node *node;

    while ((node = list_pop_front(&at->ended)) != NULL) {
        struct region_part *part = container_of(node, struct region_part, link);
        struct region_part was = *part;

        chain(&at->free_parts, &part->link);
        regions_posted(&was.io->op, was.post.piece.chunk, was.post.place.handle, was.status);
    }
    while ((node = list_pop_front(&at->failed)) != NULL)
        tell_failed(container_of(node, struct region_io, failed));
    while ((node = list_pop_front(&at->changed)) != NULL)
        region_has_changed(container_of(node, struct region_use, changed)->region);
    while ((node = list_pop_front(&at->closing)) != NULL) {
        struct region_use *use = container_of(node, struct region_use, link);

        if (use->guard != NULL)
            lane_region_guard_let_go(at, use->guard);
        if (!use->is_closed)
            continue;
        lane_region_leave(use);
        if (use->guard != NULL)
            lane_region_guard_free(at, use->guard);
        regions_close(use->region);
        free(use);
    }
}

bool lane_region_ops_are_over(const struct lane_regions *at)
{
    return list_empty(&at->ended) && list_empty(&at->failed) && list_empty(&at->changed) &&
           list_empty(&at->closing);
}

void lane_region_ops_retry(struct lane_regions *at)
{
    struct list again;
    struct list_node *node;

    list_init(&again);
    list_append_all(&again, &at->waiting);
    while ((node = list_pop_front(&again)) != NULL)
        begin_part(at, container_of(node, struct region_part, link));
}

/* ---- begun, given up ------------------------------------------------------ */

void lane_region_io_begin(struct lane_regions *at, struct region_io *io, uint64_t deadline_us)
{
    io->use->ios++;
    at->counts.operations++;
    if (deadline_us != UINT64_MAX)
        NIGH_ASSERT(timers_add(&at->timers, &io->wait.timer, deadline_us) == NIGH_OK);
    regions_begin(io->use->region, &io->op);
    lane_regions_tell(at);
}

/* Parts that wait, of one operation, or, where that is NULL, of all at a node. */
static void end_waiting(struct lane_regions *at, struct list *list, const struct region_io *io,
                        uint32_t node, nigh_status status)
{
    LIST_FOREACH_SAFE(at_node, list)
    {
        struct region_part *part = container_of(at_node, struct region_part, link);

        if (io != NULL ? part->io != io : part->post.place.node != node)
            continue;
        part->status = status;
        if (part->under_way == 0) {
            list_remove(&part->link);
            end_part(at, part, status);
        }
    }
}

void lane_region_ops_dead(struct lane_regions *at, uint32_t rank)
{
    end_waiting(at, &at->waiting, NULL, rank, NIGH_PEER_LOST);
}

void lane_region_io_end(struct lane_regions *at, struct region_io *io, nigh_status status)
{
    lane_region_io_say(at, io, status, 0);
    if (lane_region_guard_end(at, io) || lane_region_withdraw(at, io))
        return;
    end_waiting(at, &at->waiting, io, 0, status);
    end_waiting(at, &at->copying, io, 0, status);
    regions_end_op(&io->op, status);
}

void lane_region_ops_fini(struct lane_regions *at)
{
    struct list_node *node;

    while (!list_empty(&at->ios)) {
        struct region_io *io = container_of(list_first(&at->ios), struct region_io, link);

        lane_region_io_end(at, io, NIGH_CANCELED); /* no link is up: nothing is under way */
        lane_regions_tell(at);
    }
    while ((node = unchain(&at->free_ios)) != NULL)
        free(container_of(node, struct region_io, link));
    while ((node = unchain(&at->free_parts)) != NULL)
        free(container_of(node, struct region_part, link));
    if (at->staging != NULL) {
        fabric_memory_deregister(at->lane->config.fabric, at->staging_at);
        (void)munmap(at->staging, (size_t)LIMIT_REGION_STAGING * LIMIT_CALL_BYTES);
    }
    at->staging = NULL;
}
