/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between regions, or within one, for a session: in pieces, some at a time. Where both sides
 * of one are at other nodes, that of its source is asked to write it (lane_region_pushes.c): its
 * bytes do not come here. Any other is read into a buffer of this lane and written from there, and
 * so is what could not be pushed, or the rest of it. Reads and writes, pushes among them, are
 * operations like a session's own (lane_region_ops.c): they are judged by its handles, and go where
 * chunks are by then.
 *
 * Where the two ranges overlap all pieces come here, in the order in which nothing is overwritten
 * that is still to be read (backward where the bytes go up), and the n-th is written when all up to
 * the n-th have been read. So reads may be ahead of writes, and either may end in any order.
 *
 * Nothing is written before it is known that all of it may be: a copy of several pieces reads the
 * last byte of either side first.
 */
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "node/lane_regions.h"

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
        lane_region_buffer_give(at, &copy->piece[n]);
    timers_cancel(&at->timers, &copy->wait.timer);
    if (turns_has(&copy->turn))
        turns_remove(&at->copy_turns, &copy->turn);
    if (list_is_linked(&copy->due))
        list_remove(&copy->due);
    list_remove(&copy->link);
    session_shares_give(&at->shares, REGION_TABLE_COPIES, &copy->counts);
    free(copy);
}

static void make_due(struct lane_regions *at, struct region_copy *copy)
{
    if (list_is_linked(&copy->due))
        list_remove(&copy->due);
    list_push_back(&at->copies_due, &copy->due);
}

/* What of it has landed is not written again: others may have written there since. */
static void comes_here(struct region_copy_piece *piece, uint64_t landed_bytes)
{
    piece->from += landed_bytes;
    piece->bytes -= landed_bytes;
    piece->is_wanted = true;
    piece->copy->elsewhere++;
}

void lane_region_copy_went_on(struct lane_regions *at, struct region_io *io, nigh_status status)
{
    struct region_copy_piece *piece = io->piece;
    struct region_copy *copy = piece->copy;

    piece->io = NULL;
    copy->under_way--;
    if (io->pushes && status == NIGH_ELSEWHERE) {
        comes_here(piece, io->pushed_bytes);
        make_due(at, copy);
        return;
    }
    if (io->pushes && status == NIGH_OK)
        copy->elsewhere = 0;
    if (copy->status == NIGH_OK)
        copy->status = status;
    piece->is_read = io->what == SESSION_REGION_READ && !copy->is_checking && status == NIGH_OK;
    if (!piece->is_read)
        lane_region_buffer_give(at, piece);
    make_due(at, copy);
}

/* ---- pieces --------------------------------------------------------------- */

/* What a handle of the copy's session is of; NULL: it was closed. */
static struct region_use *use_of(const struct lane_regions *at, const struct region_copy *copy,
                                 const struct region_copy_side *side)
{
    struct region_handles *handles = lane_region_handles(at, copy->slot);
    struct region_handle *handle =
        handles == NULL ? NULL : region_handles_find(handles, side->number);

    return handle == NULL ? NULL : handle->region;
}

/* False: too many operations are under way, and it is tried again. What is pushed reads its source
 * as it is written, so it is under way of that handle, too. */
static bool begin_io(struct lane_regions *at, struct region_copy_piece *piece,
                     const struct region_copy_side *side, enum session_region_what what,
                     uint32_t rights)
{
    struct region_copy *copy = piece->copy;
    bool pushes = what == SESSION_REGION_WRITE && piece->buffer == NULL;
    struct region_use *use = use_of(at, copy, side);
    struct region_use *from_use = pushes ? use_of(at, copy, &copy->from) : NULL;
    struct region_io *io;

    if (use == NULL || (pushes && from_use == NULL)) {
        copy->status = NIGH_CANCELED; /* it was closed */
        return false;
    }
    io = lane_region_io_take(at, copy->slot);
    if (io == NULL)
        return false;
    io->use = use;
    io->from_use = from_use;
    io->what = what;
    io->number = side->number;
    io->rights = rights;
    io->piece = piece;
    io->buffer = piece->buffer;
    io->pushes = pushes;
    io->op.op.offset_bytes = side->offset + piece->from;
    io->op.op.length_bytes = piece->bytes;
    piece->io = io;
    copy->under_way++;
    lane_region_io_begin(at, io, UINT64_MAX);
    return true;
}

static bool write_piece(struct lane_regions *at, struct region_copy_piece *piece)
{
    struct region_copy *copy = piece->copy;

    if (!piece->is_read)
        return false;
    piece->is_read = false;
    if (!begin_io(at, piece, &copy->to, SESSION_REGION_WRITE, REGION_WRITE)) {
        piece->is_read = true;
        return false;
    }
    return true;
}

/* Those that are loose were begun already, or are written when they have been read. */
static bool write_next(struct lane_regions *at, struct region_copy *copy)
{
    struct region_copy_piece *piece = &copy->piece[copy->writes % LIMIT_REGION_COPY_POSTS];

    if (copy->writes == copy->reads || (!piece->is_loose && !write_piece(at, piece)))
        return false;
    copy->writes++;
    return true;
}

static void write_loose(struct lane_regions *at, struct region_copy *copy)
{
    for (uint32_t n = 0; n < LIMIT_REGION_COPY_POSTS && copy->status == NIGH_OK; n++) {
        if (copy->piece[n].is_loose)
            (void)write_piece(at, &copy->piece[n]);
    }
}

/* Whether all of it is there, and may be had: its last byte is read on both sides. */
static bool check_next(struct lane_regions *at, struct region_copy_piece *piece)
{
    struct region_copy *copy = piece->copy;
    bool is_from = copy->checks == 0;

    piece->from = copy->bytes - 1;
    piece->bytes = 1;
    if (!begin_io(at, piece, is_from ? &copy->from : &copy->to, SESSION_REGION_READ,
                  is_from ? REGION_READ : REGION_WRITE))
        return false;
    copy->checks++;
    return true;
}

/* ---- which piece is next --------------------------------------------------- */

/* What is to be begun next, if its place is free; NULL. */
static struct region_copy_piece *next_piece(struct region_copy *copy)
{
    struct region_copy_piece *piece = &copy->piece[copy->reads % LIMIT_REGION_COPY_POSTS];

    return copy->begun_bytes == copy->bytes || piece->io != NULL || piece->buffer != NULL ||
                   piece->is_wanted
               ? NULL
               : piece;
}

static void cut_piece(struct region_copy *copy, struct region_copy_piece *piece, uint64_t most)
{
    uint64_t left = copy->bytes - copy->begun_bytes;

    piece->bytes = min_u64(min_u64(LIMIT_REGION_COPY_BYTES, most), left);
    piece->from = copy->is_backward ? left - piece->bytes : copy->begun_bytes;
    piece->is_loose = false;
}

/* It has ended, perhaps: of so many bytes. */
static void piece_began(struct region_copy *copy, uint64_t bytes)
{
    copy->reads++;
    copy->begun_bytes += bytes;
}

/* What of a copy goes from one chunk to one, both at other nodes. 0: what is next comes here. Who
 * could not push again and again is not asked any more. *has_place: the node of its source may be
 * asked now. */
static uint64_t may_push(struct lane_regions *at, struct region_copy *copy, bool *has_place)
{
    const struct region_use *use = use_of(at, copy, &copy->to);
    const struct region_geometry *geometry;
    struct region_source source;
    struct region_place place;
    uint64_t begin = copy->to.offset + copy->begun_bytes, most;

    if (at->lane->config.fabric == NULL || copy->is_within ||
        copy->elsewhere >= LIMIT_REGION_COPY_POSTS || use == NULL ||
        !lane_region_push_source(at, copy->slot, &copy->from, copy->begun_bytes, &source))
        return 0;
    geometry = &region_known(use->region)->geometry;
    if (!region_geometry_has(geometry, begin, 1) ||
        !region_place(use->region, (uint32_t)(begin / geometry->chunk_bytes), &place) ||
        place.node == lane_regions_self(at->lane))
        return 0;
    most = min_u64(source.left_bytes, geometry->chunk_bytes - begin % geometry->chunk_bytes);
    *has_place = lane_region_may_push(at, copy->slot, source.place.node);
    return copy->is_whole && most < copy->bytes ? 0 : most;
}

/* False: nothing can be pushed now. Where it has no place it waits for what is under way of it, and
 * for nobody else's: else a piece comes here. */
static bool push_next(struct lane_regions *at, struct region_copy *copy)
{
    struct region_copy_piece *piece = copy->status == NIGH_OK ? next_piece(copy) : NULL;
    bool has_place = false;
    uint64_t most = piece == NULL ? 0 : may_push(at, copy, &has_place);
    uint64_t bytes;

    copy->is_next_pushed = most > 0 && (has_place || copy->under_way > 0);
    if (most == 0 || !has_place)
        return false;
    cut_piece(copy, piece, most);
    bytes = piece->bytes;
    piece->is_loose = true;
    if (!begin_io(at, piece, &copy->to, SESSION_REGION_WRITE, REGION_WRITE))
        return false;
    piece_began(copy, bytes);
    return true;
}

/* Up to where the next may be pushed: where chunks end. */
static uint64_t until_chunks_end(const struct lane_regions *at, const struct region_copy *copy)
{
    const struct region_copy_side *sides[] = {&copy->from, &copy->to};
    uint64_t most = LIMIT_REGION_COPY_BYTES;

    for (uint32_t n = 0; n < 2 && !copy->is_within && !copy->is_whole; n++) {
        const struct region_use *use = use_of(at, copy, sides[n]);
        uint64_t chunk_bytes = use == NULL ? 0 : region_known(use->region)->geometry.chunk_bytes;

        if (chunk_bytes > 0)
            most =
                min_u64(most, chunk_bytes - (sides[n]->offset + copy->begun_bytes) % chunk_bytes);
    }
    return most;
}

static bool read_piece(struct lane_regions *at, struct region_copy_piece *piece)
{
    struct region_copy *copy = piece->copy;
    bool is_wanted = piece->is_wanted, has_place;

    if (!is_wanted)
        cut_piece(copy, piece, until_chunks_end(at, copy));
    if (!begin_io(at, piece, &copy->from, SESSION_REGION_READ, REGION_READ))
        return false;
    piece->is_wanted = false;
    if (!is_wanted) {
        piece_began(copy, piece->bytes);
        copy->is_next_pushed = may_push(at, copy, &has_place) > 0;
    }
    if (copy->is_next_pushed)
        make_due(at, copy);
    return true;
}

/* ---- whose turn it is ----------------------------------------------------- */

static struct region_copy_piece *wanted_piece(struct region_copy *copy)
{
    for (uint32_t n = 0; n < LIMIT_REGION_COPY_POSTS; n++) {
        if (copy->piece[n].is_wanted)
            return &copy->piece[n];
    }
    return NULL;
}

/* What is to be read next, if a buffer alone is wanting; NULL. */
static struct region_copy_piece *piece_to_read(struct region_copy *copy)
{
    struct region_copy_piece *piece;

    if (copy->status != NIGH_OK)
        return NULL;
    if (copy->is_checking) {
        piece = &copy->piece[copy->checks % LIMIT_REGION_COPY_POSTS];
        return copy->checks == 2 || piece->buffer != NULL ? NULL : piece;
    }
    piece = wanted_piece(copy);
    return piece != NULL || copy->is_next_pushed ? piece : next_piece(copy);
}

static void want_buffer(struct lane_regions *at, struct region_copy *copy)
{
    bool wants = piece_to_read(copy) != NULL;

    if (wants && !turns_has(&copy->turn))
        turns_add(&at->copy_turns, &at->copiers[copy->slot], &copy->turn, 1);
    else if (!wants && turns_has(&copy->turn))
        turns_remove(&at->copy_turns, &copy->turn);
}

/* False: it gets no buffer, or nothing can be begun. */
static bool begin_piece(struct lane_regions *at, struct region_copy_piece *piece)
{
    if (!lane_region_buffer_take(at, piece))
        return false;
    if (piece->copy->is_checking ? check_next(at, piece) : read_piece(at, piece))
        return true;
    lane_region_buffer_give(at, piece);
    return false;
}

/* By turns of sessions, as far as each may have more. What was given up meanwhile is due. */
static void hand_out(struct lane_regions *at)
{
    struct turns *turns = &at->copy_turns;
    uint32_t passed = 0;

    while (passed < turns->count) {
        struct turns_entry *entry = turns_first(turns);
        struct region_copy *copy = container_of(entry, struct region_copy, turn);
        struct region_copy_piece *piece = piece_to_read(copy);

        if (piece == NULL) {
            turns_remove(turns, entry);
        } else if (begin_piece(at, piece)) {
            turns_took(turns, entry, piece_to_read(copy) != NULL ? 1 : 0);
            passed = 0;
        } else if (copy->status != NIGH_OK) {
            turns_remove(turns, entry);
            make_due(at, copy);
        } else {
            turns_pass(turns, entry);
            passed++;
            lane_regions_again(at);
        }
    }
}

/* ---- how it goes on ------------------------------------------------------- */

/* It waits for more than a buffer. */
static bool is_stuck(const struct region_copy *copy)
{
    if (!turns_has(&copy->turn))
        return true;
    for (uint32_t n = 0; n < LIMIT_REGION_COPY_POSTS; n++) {
        if (copy->piece[n].is_read)
            return true;
    }
    return false;
}

static bool is_over(const struct region_copy *copy)
{
    if (copy->status != NIGH_OK)
        return true;
    for (uint32_t n = 0; n < LIMIT_REGION_COPY_POSTS; n++) {
        if (copy->piece[n].is_wanted || copy->piece[n].is_read)
            return false;
    }
    return copy->begun_bytes == copy->bytes && copy->writes == copy->reads;
}

static void begin_more(struct lane_regions *at, struct region_copy *copy)
{
    write_loose(at, copy);
    while (copy->status == NIGH_OK && write_next(at, copy))
        ;
    while (push_next(at, copy))
        ;
}

/* It is gone, perhaps, at the return. */
static void go_on(struct lane_regions *at, struct region_copy *copy)
{
    if (copy->checks == 2 && copy->under_way == 0)
        copy->is_checking = false;
    if (!copy->is_checking)
        begin_more(at, copy);
    want_buffer(at, copy);
    if (copy->under_way > 0)
        return; /* it is due when something of it has ended */
    if (is_over(copy)) {
        say(at, copy, copy->status);
        free_copy(at, copy);
    } else if (!list_is_linked(&copy->due) && is_stuck(copy)) {
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
    hand_out(at);
    return true;
}

bool lane_region_copies_turn(struct lane_regions *at)
{
    return all_go_on(at, &at->copies_due);
}

void lane_region_copies_retry(struct lane_regions *at)
{
    if (!all_go_on(at, &at->copies_short))
        hand_out(at);
}

/* ---- begun, given up ------------------------------------------------------ */

nigh_status lane_region_copy_begin(struct lane_regions *at, const struct region_copy *asked,
                                   uint64_t deadline_us)
{
    struct session_place counts;
    struct region_copy *copy;

    if (!lane_region_share(at, REGION_TABLE_COPIES, asked->slot, &counts))
        return NIGH_OVERLOADED;
    copy = malloc(sizeof(*copy));
    if (copy == NULL) {
        session_shares_give(&at->shares, REGION_TABLE_COPIES, &counts);
        return NIGH_OVERLOADED;
    }
    *copy = *asked;
    copy->counts = counts;
    copy->at = at;
    copy->wait.kind = REGION_WAIT_COPY;
    copy->is_whole = copy->bytes <= LIMIT_REGION_COPY_BYTES; /* it is written whole, or refused */
    copy->is_checking = !copy->is_whole;
    for (uint32_t n = 0; n < LIMIT_REGION_COPY_POSTS; n++)
        copy->piece[n].copy = copy;
    list_push_back(&at->copies, &copy->link);
    if (deadline_us != UINT64_MAX)
        NIGH_ASSERT(timers_add(&at->timers, &copy->wait.timer, deadline_us) == NIGH_OK);
    go_on(at, copy);
    hand_out(at);
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
}
