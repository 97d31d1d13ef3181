/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between regions, or within one, for a session: in pieces, some at a time, each of which is
 * read into a buffer of this lane and written from there. Reads and writes are operations like a
 * session's own (lane_region_ops.c): they are judged by its handles, and go where chunks are by
 * then.
 *
 * Pieces are in the order in which nothing is overwritten that is still to be read (backward where
 * the bytes go up within their region), and the n-th is written when all up to the n-th have been
 * read. So reads may be ahead of writes, and either may end in any order.
 *
 * Nothing is written before it is known that all of it may be: a copy of several pieces reads the
 * last byte of either side first.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/order.h"
#include "node/lane_regions.h"

#define BUFFERS_BYTES ((size_t)LIMIT_REGION_BUFFERS * LIMIT_REGION_COPY_BYTES)

/* ---- buffers -------------------------------------------------------------- */

static bool make_buffers(struct lane_regions *at)
{
    struct fabric *fabric = at->lane->config.fabric;
    void *memory =
        mmap(NULL, BUFFERS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return false;
    (void)madvise(memory, BUFFERS_BYTES, MADV_DONTFORK);
    if (fabric != NULL && fabric_memory_register(fabric, memory, BUFFERS_BYTES, FABRIC_HOST,
                                                 FABRIC_LOCAL_WRITE, &at->buffers_at) != NIGH_OK) {
        (void)munmap(memory, BUFFERS_BYTES);
        return false;
    }
    at->buffers = memory;
    for (uint32_t n = 0; n < LIMIT_REGION_BUFFERS; n++)
        lane_region_buffer_give(at, at->buffers + (size_t)n * LIMIT_REGION_COPY_BYTES);
    return true;
}

uint8_t *lane_region_buffer_take(struct lane_regions *at)
{
    uint8_t *buffer;

    if (at->buffers == NULL && !make_buffers(at))
        return NULL;
    buffer = at->free_buffers;
    if (buffer != NULL)
        memcpy(&at->free_buffers, buffer, sizeof(at->free_buffers));
    return buffer;
}

void lane_region_buffer_give(struct lane_regions *at, uint8_t *buffer)
{
    if (buffer == NULL)
        return;
    memcpy(buffer, &at->free_buffers, sizeof(at->free_buffers));
    at->free_buffers = buffer;
}

/* ---- how it ends ---------------------------------------------------------- */

static void say(struct lane_regions *at, struct region_copy *copy, nigh_status status)
{
    struct session_cqe cqe = {.cookie = copy->cookie, .status = status, .pin = SESSION_NO_PIN};

    if (copy->is_told)
        return;
    copy->is_told = true;
    timers_cancel(&at->timers, &copy->wait.timer);
    if (!lane_is_session(at->lane, copy->slot, copy->begun))
        return;
    ORDER_SAID();
    at->has_said = true;
    lane_on_complete(at->lane, copy->slot, &cqe);
}

static void free_copy(struct lane_regions *at, struct region_copy *copy)
{
    for (uint32_t n = 0; n < LIMIT_REGION_COPY_POSTS; n++)
        lane_region_buffer_give(at, copy->piece[n].buffer);
    timers_cancel(&at->timers, &copy->wait.timer);
    if (list_is_linked(&copy->due))
        list_remove(&copy->due);
    list_remove(&copy->link);
    at->copy_count--;
    free(copy);
}

static void make_due(struct lane_regions *at, struct region_copy *copy)
{
    if (list_is_linked(&copy->due))
        list_remove(&copy->due);
    list_push_back(&at->copies_due, &copy->due);
}

void lane_region_copy_went_on(struct lane_regions *at, struct region_io *io, nigh_status status)
{
    struct region_copy_piece *piece = io->piece;
    struct region_copy *copy = piece->copy;

    piece->io = NULL;
    copy->under_way--;
    if (copy->status == NIGH_OK)
        copy->status = status;
    piece->is_read = io->what == SESSION_REGION_READ && !copy->is_checking && status == NIGH_OK;
    if (!piece->is_read) {
        lane_region_buffer_give(at, piece->buffer);
        piece->buffer = NULL;
    }
    make_due(at, copy);
}

/* ---- pieces --------------------------------------------------------------- */

/* False: too many operations are under way, and it is tried again. */
static bool begin_io(struct lane_regions *at, struct region_copy_piece *piece,
                     const struct region_copy_side *side, enum session_region_what what,
                     uint32_t rights)
{
    struct region_copy *copy = piece->copy;
    struct region_handles *handles = lane_region_handles(at, copy->slot);
    struct region_handle *handle =
        handles == NULL ? NULL : region_handles_find(handles, side->number);
    struct region_io *io;

    if (handle == NULL) {
        copy->status = NIGH_CANCELED; /* it was closed */
        return false;
    }
    io = lane_region_io_take(at);
    if (io == NULL)
        return false;
    io->use = handle->region;
    io->slot = copy->slot;
    io->begun = copy->begun;
    io->what = what;
    io->number = side->number;
    io->rights = rights;
    io->piece = piece;
    io->buffer = piece->buffer;
    io->op.op.offset_bytes = side->offset + piece->from;
    io->op.op.length_bytes = piece->bytes;
    piece->io = io;
    copy->under_way++;
    lane_region_io_begin(at, io, UINT64_MAX);
    return true;
}

/* Others that have no buffer at all come first. */
static bool take_buffer(struct lane_regions *at, struct region_copy_piece *piece)
{
    if (list_empty(&at->copies_short) || piece->copy->under_way == 0)
        piece->buffer = lane_region_buffer_take(at);
    return piece->buffer != NULL;
}

static bool read_next(struct lane_regions *at, struct region_copy *copy)
{
    struct region_copy_piece *piece = &copy->piece[copy->reads % LIMIT_REGION_COPY_POSTS];
    uint64_t n = copy->is_backward ? copy->pieces - 1 - copy->reads : copy->reads;

    if (copy->reads == copy->pieces || piece->buffer != NULL || !take_buffer(at, piece))
        return false;
    piece->from = n * LIMIT_REGION_COPY_BYTES;
    piece->bytes = min_u64(LIMIT_REGION_COPY_BYTES, copy->bytes - piece->from);
    if (!begin_io(at, piece, &copy->from, SESSION_REGION_READ, REGION_READ)) {
        lane_region_buffer_give(at, piece->buffer);
        piece->buffer = NULL;
        return false;
    }
    copy->reads++;
    return true;
}

static bool write_next(struct lane_regions *at, struct region_copy *copy)
{
    struct region_copy_piece *piece = &copy->piece[copy->writes % LIMIT_REGION_COPY_POSTS];

    if (!piece->is_read)
        return false;
    piece->is_read = false;
    if (!begin_io(at, piece, &copy->to, SESSION_REGION_WRITE, REGION_WRITE)) {
        piece->is_read = true;
        return false;
    }
    copy->writes++;
    return true;
}

/* Whether all of it is there, and may be had: its last byte is read on both sides. */
static void check_sides(struct lane_regions *at, struct region_copy *copy)
{
    const struct region_copy_side *sides[] = {&copy->from, &copy->to};
    const uint32_t rights[] = {REGION_READ, REGION_WRITE};

    while (copy->status == NIGH_OK && copy->checks < 2) {
        uint32_t n = copy->checks;
        struct region_copy_piece *piece = &copy->piece[n];

        if (piece->buffer == NULL && !take_buffer(at, piece))
            return;
        piece->from = copy->bytes - 1;
        piece->bytes = 1;
        if (!begin_io(at, piece, sides[n], SESSION_REGION_READ, rights[n]))
            return;
        copy->checks++;
    }
    if (copy->checks == 2 && copy->under_way == 0)
        copy->is_checking = false;
}

/* ---- how it goes on ------------------------------------------------------- */

/* It is gone, perhaps, at the return. */
static void go_on(struct lane_regions *at, struct region_copy *copy)
{
    if (copy->is_checking)
        check_sides(at, copy);
    while (!copy->is_checking && copy->status == NIGH_OK && write_next(at, copy))
        ;
    while (!copy->is_checking && copy->status == NIGH_OK && read_next(at, copy))
        ;
    if (copy->under_way > 0)
        return; /* it is due when something of it has ended */
    if (copy->status != NIGH_OK || copy->writes == copy->pieces) {
        say(at, copy, copy->status);
        free_copy(at, copy);
    } else if (!list_is_linked(&copy->due)) {
        list_push_back(&at->copies_short, &copy->due);
        lane_regions_again(at);
    }
}

static bool all_go_on(struct lane_regions *at, struct list *list)
{
    struct list now;
    struct list_node *node;

    if (list_empty(list))
        return false;
    list_init(&now);
    list_append_all(&now, list);
    while ((node = list_pop_front(&now)) != NULL)
        go_on(at, container_of(node, struct region_copy, due));
    return true;
}

bool lane_region_copies_turn(struct lane_regions *at)
{
    return all_go_on(at, &at->copies_due);
}

void lane_region_copies_retry(struct lane_regions *at)
{
    (void)all_go_on(at, &at->copies_short);
}

/* ---- begun, given up ------------------------------------------------------ */

nigh_status lane_region_copy_begin(struct lane_regions *at, const struct region_copy *asked,
                                   uint64_t deadline_us)
{
    struct region_copy *copy = at->copy_count < LIMIT_REGION_COPIES ? malloc(sizeof(*copy)) : NULL;

    if (copy == NULL)
        return NIGH_OVERLOADED;
    *copy = *asked;
    copy->at = at;
    copy->wait.kind = REGION_WAIT_COPY;
    copy->pieces = (copy->bytes - 1) / LIMIT_REGION_COPY_BYTES + 1;
    copy->is_checking = copy->pieces > 1; /* one is written whole, or refused */
    for (uint32_t n = 0; n < LIMIT_REGION_COPY_POSTS; n++)
        copy->piece[n].copy = copy;
    list_push_back(&at->copies, &copy->link);
    at->copy_count++;
    if (deadline_us != UINT64_MAX)
        NIGH_ASSERT(timers_add(&at->timers, &copy->wait.timer, deadline_us) == NIGH_OK);
    go_on(at, copy);
    return NIGH_OK;
}

void lane_region_copy_end(struct lane_regions *at, struct region_copy *copy, nigh_status status)
{
    say(at, copy, status);
    if (copy->status == NIGH_OK)
        copy->status = status;
    for (uint32_t n = 0; n < LIMIT_REGION_COPY_POSTS; n++) {
        if (copy->piece[n].io != NULL)
            lane_region_io_end(at, copy->piece[n].io, status);
    }
    make_due(at, copy); /* it goes from outside */
}

void lane_region_copies_forget(struct lane_regions *at, uint32_t slot)
{
    LIST_FOREACH_SAFE(node, &at->copies)
    {
        struct region_copy *copy = container_of(node, struct region_copy, link);

        if (copy->slot == slot && !copy->is_told) {
            copy->is_told = true;
            timers_cancel(&at->timers, &copy->wait.timer);
            lane_region_copy_end(at, copy, NIGH_CANCELED);
        }
    }
}

bool lane_region_copies_cancel(struct lane_regions *at, uint32_t slot, uint32_t cookie)
{
    LIST_FOREACH(node, &at->copies)
    {
        struct region_copy *copy = container_of(node, struct region_copy, link);

        if (copy->slot != slot || copy->is_told || copy->cookie != cookie ||
            copy->begun != at->lane->sessions[slot].begun)
            continue;
        lane_region_copy_end(at, copy, NIGH_CANCELED);
        lane_regions_tell(at);
        return true;
    }
    return false;
}

void lane_region_copies_fini(struct lane_regions *at)
{
    while (!list_empty(&at->copies))
        free_copy(at, container_of(list_first(&at->copies), struct region_copy, link));
    if (at->buffers == NULL)
        return;
    if (at->buffers_at != NULL)
        fabric_memory_deregister(at->lane->config.fabric, at->buffers_at);
    (void)munmap(at->buffers, BUFFERS_BYTES);
    at->buffers = NULL;
}
