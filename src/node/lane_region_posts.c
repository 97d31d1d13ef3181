/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of operations of regions, as they are posted (docs/qos.md): each goes in pieces to the node
 * of its chunk, by READs, WRITEs and atomics of the link, straight from and to that node's memory;
 * what is here the lane moves itself, but for words that only the device may change
 * (links_fetch_add). So much is under way to a node at a time; beyond that, sessions have turns.
 *
 * What may go as it comes does not wait, and costs no more than to see that: nobody else does, and
 * there is room. A part whose link is not up waits for it, as long as the node is a member.
 */
#include <stdlib.h>
#include <string.h>

#include "node/lane_regions.h"

/* What became of a piece that was to go. */
enum step {
    STEP_WENT,
    STEP_ENDED,  /* nothing more of its part goes */
    STEP_LATER,  /* there is no buffer for it: others go on */
    STEP_NOT_NOW /* nothing goes to this node */
};

static struct region_part *part_of(struct turns_entry *entry)
{
    return container_of(entry, struct region_part, turn);
}

static struct region_peer *here_of(const struct lane_regions *at)
{
    return &at->peers[at->ranks];
}

static bool is_here(const struct lane_regions *at, const struct region_peer *peer)
{
    return peer == here_of(at);
}

static struct turns_seat *seat_of(const struct lane_regions *at, const struct region_peer *peer,
                                  uint32_t slot, enum qos_class class)
{
    size_t number = (size_t)slot * (at->ranks + 1) + (size_t)(peer - at->peers);

    return &at->seats[number * QOS_CLASSES + class];
}

/* What this node moves itself has one, whatever the policy. */
static struct qos_window *window_of(struct lane_regions *at, struct region_peer *peer,
                                    enum qos_class class)
{
    return &peer->windows[is_here(at, peer) ? QOS_HIGH : qos_window_of(at->qos.policy, class)];
}

static struct qos_window *part_window(struct lane_regions *at, const struct region_part *part)
{
    return window_of(at, part->peer, part->class);
}

uint64_t lane_region_next_bytes(const struct region_part *part)
{
    return min_u64(part->piece_bytes, part->post.piece.length_bytes - part->begun_bytes);
}

static uint64_t charge_of(const struct region_part *part)
{
    return qos_charge(lane_region_next_bytes(part));
}

static bool has_more(const struct region_part *part)
{
    return part->status == NIGH_OK && part->begun_bytes < part->post.piece.length_bytes;
}

/* ---- taken, ended --------------------------------------------------------- */

static struct region_part *take_free_part(struct lane_regions *at)
{
    struct list_node *node = region_unchain(&at->free_parts);

    return node != NULL ? container_of(node, struct region_part, link)
                        : malloc(sizeof(struct region_part));
}

/* One that was refused behind its first pieces, of this chunk; NULL: none was. */
static struct region_part *take_landed_part(struct region_io *io, uint32_t chunk)
{
    LIST_FOREACH(node, &io->landed)
    {
        struct region_part *part = container_of(node, struct region_part, link);

        if (part->post.piece.chunk == chunk) {
            list_remove(&part->link);
            return part;
        }
    }
    return NULL;
}

/* What of a chunk has landed is there, and others may have written over it since: of a part that
 * is posted again only the rest goes. Its piece of the chunk stays what it was. */
static struct region_part *take_part(struct lane_regions *at, struct region_io *io,
                                     const struct region_post *post)
{
    struct region_part *part = take_landed_part(io, post->piece.chunk);
    uint64_t landed_bytes = part != NULL ? part->landed_bytes : 0;

    if (part == NULL)
        part = take_free_part(at);
    if (part == NULL)
        return NULL;
    NIGH_ASSERT(landed_bytes < post->piece.length_bytes);
    memset(part, 0, sizeof(*part));
    part->io = io;
    part->post = *post;
    part->begun_bytes = part->landed_bytes = landed_bytes;
    return part;
}

void lane_region_part_put(struct lane_regions *at, struct region_part *part)
{
    if (part->status == NIGH_STALE && part->landed_bytes > 0)
        list_push_back(&part->io->landed, &part->link);
    else
        region_chain(&at->free_parts, &part->link);
}

void lane_region_parts_forget(struct lane_regions *at, struct region_io *io)
{
    struct list_node *node;

    while ((node = list_pop_front(&io->landed)) != NULL)
        region_chain(&at->free_parts, node);
}

/* A part has ended: that is told from outside of the machines. */
static void end_part(struct lane_regions *at, struct region_part *part, nigh_status status)
{
    uint64_t bytes = status == NIGH_OK ? part->post.piece.length_bytes : 0;

    at->counts.parts_refused += status == NIGH_STALE;
    at->counts.bytes_read += part->io->what == SESSION_REGION_READ || part->io->pushes ? bytes : 0;
    at->counts.bytes_written +=
        part->io->what == SESSION_REGION_WRITE || part->io->what == SESSION_REGION_FILL ? bytes : 0;
    part->status = status;
    list_push_back(&at->ended, &part->link);
}

/* ---- waiting -------------------------------------------------------------- */

static void wait_for_turn(struct lane_regions *at, struct region_part *part)
{
    struct region_peer *peer = part->peer;

    at->counts.parts_waited += part->begun_bytes == 0;
    turns_add(&peer->turns[part->class], seat_of(at, peer, part->io->slot, part->class),
              &part->turn, charge_of(part));
    if (!list_is_linked(&peer->link))
        list_push_back(&at->peers_waiting, &peer->link);
    if (!is_here(at, peer))
        lane_regions_again(at);
}

static void wait_no_more(struct region_part *part)
{
    struct region_peer *peer = part->peer;

    if (!turns_has(&part->turn))
        return;
    turns_remove(&peer->turns[part->class], &part->turn);
    if (turns_are_empty(&peer->turns[QOS_HIGH]) && turns_are_empty(&peer->turns[QOS_LOW]))
        list_remove(&peer->link);
}

/* ---- ended ---------------------------------------------------------------- */

static bool is_over(const struct region_part *part)
{
    return part->under_way == 0 && !has_more(part);
}

/* A read that broke off with its link changed nothing: what of it did not come begins anew, or
 * waits for that. False: it is not one, or nobody wants it any more. */
static bool begins_anew(struct lane_regions *at, struct region_part *part)
{
    if (part->status != NIGH_PEER_LOST || part->io->what != SESSION_REGION_READ ||
        part->io->is_told || part->io->op.op.is_ending ||
        !lane_regions_is_member(at, part->post.place.node))
        return false;
    part->status = NIGH_OK;
    part->begun_bytes = part->landed_bytes;
    wait_for_turn(at, part);
    return true;
}

static void finish_part(struct lane_regions *at, struct region_part *part)
{
    wait_no_more(part);
    if (is_here(at, part->peer))
        end_part(at, part, part->status);
    else if (!begins_anew(at, part))
        end_part(at, part,
                 part->status == NIGH_OK ? lane_region_take_read(at, part) : part->status);
}

/* Ends come in any order: each gives back a whole piece, and the last what is left. */
static void give_window(struct lane_regions *at, struct region_part *part)
{
    uint64_t charge = part->under_way == 1
                          ? part->charged_bytes
                          : min_u64(part->charged_bytes, qos_charge(part->piece_bytes));

    part->charged_bytes -= charge;
    qos_ended(&at->qos, part_window(at, part), part->class, charge, at->lane->now_us);
    at->posts_due = true;
}

/* The end of a link is not the end of what went over it: that may land yet, whatever its part has
 * been told meanwhile. */
static void note_doubt(const struct region_part *part)
{
    struct region_guard *guard = part->io->use->guard;

    if (guard != NULL && part->io->what != SESSION_REGION_READ)
        guard->is_dirty = true;
}

/* What was refused was so for a handle that is none any more, whatever else its link's end did:
 * pieces land in their order, and none behind one that did not. */
static void went_on(struct lane_regions *at, struct region_part *part, nigh_status status)
{
    give_window(at, part);
    part->under_way--;
    if (status == NIGH_OK)
        part->landed_bytes +=
            min_u64(part->piece_bytes, part->post.piece.length_bytes - part->landed_bytes);
    if (status == NIGH_PEER_LOST)
        note_doubt(part);
    if (status == NIGH_DENIED && (part->status == NIGH_OK || part->status == NIGH_PEER_LOST))
        part->status = NIGH_STALE;
    else if (part->status == NIGH_OK)
        part->status = status;
    if (part->status != NIGH_OK)
        wait_no_more(part);
    if (is_over(part))
        finish_part(at, part);
}

static void on_done(void *context, nigh_status status, uint64_t now_us)
{
    struct region_part *part = context;
    struct lane_regions *at = part->io->at;

    (void)now_us;
    if (status == NIGH_OK && part->class == QOS_HIGH &&
        part->post.piece.length_bytes <= LIMIT_CALL_BYTES)
        qos_answered(&at->qos, part_window(at, part), at->lane->now_us - part->begun_us,
                     at->lane->now_us);
    went_on(at, part, lane_region_end_of_post(status));
    lane_regions_tell(at);
}

void lane_region_part_pushed(struct lane_regions *at, struct region_part *part,
                             uint64_t landed_bytes, nigh_status status)
{
    part->landed_bytes += landed_bytes;
    part->io->pushed_bytes += landed_bytes;
    went_on(at, part, status);
}

static void on_word_done(void *context, nigh_status status, uint64_t old, uint64_t now_us)
{
    struct region_part *part = context;

    part->io->old = old;
    on_done(part, status, now_us);
}

/* ---- a piece -------------------------------------------------------------- */

static nigh_status post_word(struct link *link, enum link_endpoint over, struct region_part *part,
                             struct fabric_remote remote)
{
    const struct region_io *io = part->io;

    return io->what == SESSION_REGION_ADD
               ? link_fetch_add(link, over, remote, io->operand, on_word_done, part)
               : link_compare_swap(link, over, remote, io->compare, io->operand, on_word_done,
                                   part);
}

/* What of this node's own is to be done as peers do it; all other pieces go elsewhere. A handle
 * that is closed here is not presented: it would cost what else is under way. */
static bool is_own_word(const struct lane_regions *at, const struct region_part *part)
{
    return part->post.place.node == lane_regions_self(at->lane);
}

static nigh_status post_own_word(struct lane_regions *at, struct region_part *part,
                                 struct fabric_remote remote)
{
    const struct region_io *io = part->io;
    struct links *links = at->is_ending ? NULL : exchange_lane_links(at->lane->exchange);

    if (links == NULL)
        return NIGH_PEER_LOST;
    if (lane_region_opened(io->op.region, &part->post) == NULL)
        return NIGH_STALE;
    return io->what == SESSION_REGION_ADD
               ? links_fetch_add(links, remote, io->operand, on_word_done, part, at->lane->now_us)
               : links_compare_swap(links, remote, io->compare, io->operand, on_word_done, part,
                                    at->lane->now_us);
}

/* While it waited its chunk may have been closed, or its node have begun anew. */
static bool is_stale(const struct region_part *part)
{
    return !region_is_at(part->io->op.region, part->post.piece.chunk, &part->post.place);
}

/* Of a piece that has no link, or no endpoint of one, now. One that waits for another incarnation
 * of its node than the link is to holds up nobody who goes to that. */
static nigh_status wait_for_link(const struct lane_regions *at, const struct region_part *part)
{
    const struct region_place *place = &part->post.place;
    bool is_of_another =
        lane_regions_link(at, place->node) != NULL && lane_regions_link_to(at, place) == NULL;

    if (part->under_way > 0 || !lane_regions_is_member(at, place->node))
        return NIGH_PEER_LOST;
    return is_of_another ? NIGH_OVERLOADED : NIGH_BUSY;
}

/* Begins the next piece. NIGH_BUSY: nothing goes to its node now; NIGH_OVERLOADED: nothing of its
 * session, or to that incarnation of the node. */
static nigh_status post_piece(struct lane_regions *at, struct region_part *part)
{
    struct link *link = lane_regions_link_to(at, &part->post.place);
    struct fabric_remote remote = {.address = part->post.place.handle.address +
                                              part->post.piece.offset_bytes + part->begun_bytes,
                                   .key = part->post.place.handle.key};
    bool is_apart = part->class == QOS_LOW && at->qos.policy == QOS_SEPARATE;
    enum link_endpoint over = link == NULL ? LINK_REGIONS : link_regions(link, is_apart);
    struct fabric_slice slice;
    nigh_status status;

    if (is_own_word(at, part))
        return post_own_word(at, part, remote);
    if (link == NULL || !link_carries(link, over))
        return wait_for_link(at, part);
    if (lane_region_is_word(part->io))
        return post_word(link, over, part, remote);
    status = lane_region_slice(at, part, &slice);
    if (status != NIGH_OK)
        return status == NIGH_BUSY ? NIGH_OVERLOADED : status;
    return part->io->what == SESSION_REGION_READ
               ? link_region_read(link, over, &slice, 1, remote, on_done, part)
               : link_write(link, over, &slice, 1, remote, on_done, part);
}

/* What another node was asked for takes its turn, and a piece of the rate of its priority, but none
 * of the window: it would be taken from what goes to the one for as long as the other stands still.
 * What is asked of one is few (lane_region_puts). */
static void take_window(struct lane_regions *at, struct region_part *part, uint64_t charge)
{
    struct qos_window *window = part_window(at, part);

    qos_posted(&at->qos, window, part->class, charge, at->lane->now_us);
    if (part->io->pushes)
        window->under_way_bytes -= charge;
    else
        part->charged_bytes += charge;
}

/* One that is stale gives way to a change of its region, which waits for it; what of it is under
 * way is waited for. */
static enum step step_there(struct lane_regions *at, struct region_part *part)
{
    uint64_t bytes = lane_region_next_bytes(part);
    nigh_status status = NIGH_STALE;

    if (is_stale(part)) {
        if (part->under_way > 0)
            return STEP_LATER;
    } else {
        status = part->io->pushes ? lane_region_push(at, part) : post_piece(at, part);
    }
    if (status == NIGH_BUSY)
        return STEP_NOT_NOW;
    if (status == NIGH_OVERLOADED)
        return STEP_LATER;
    if (status != NIGH_OK) {
        part->status = status;
        return STEP_ENDED;
    }
    take_window(at, part, qos_charge(bytes));
    part->begun_us = at->lane->now_us;
    part->under_way++;
    part->begun_bytes += bytes;
    return STEP_WENT;
}

static enum step step_here(struct lane_regions *at, struct region_part *part)
{
    uint64_t charge = charge_of(part);
    nigh_status status = lane_region_carry_out(at, part);

    if (status != NIGH_OK) {
        part->status = status;
        return STEP_ENDED;
    }
    part->landed_bytes = part->begun_bytes;
    qos_posted(NULL, part_window(at, part), part->class, charge, at->lane->now_us);
    return STEP_WENT;
}

static enum step step(struct lane_regions *at, struct region_part *part)
{
    return is_here(at, part->peer) ? step_here(at, part) : step_there(at, part);
}

/* ---- who is next ---------------------------------------------------------- */

/* The piece of whose turn it is. False: nothing more goes now. */
static bool go_on(struct lane_regions *at, struct region_peer *peer, enum qos_class class,
                  uint32_t *passed)
{
    struct turns *turns = &peer->turns[class];
    struct turns_entry *entry = turns_first(turns);
    struct region_part *part = part_of(entry);

    if (!qos_has_room(window_of(at, peer, class), entry->cost))
        return false;
    switch (step(at, part)) {
    case STEP_WENT:
        *passed = 0;
        if (has_more(part)) {
            turns_took(turns, entry, charge_of(part));
            return true;
        }
        break;
    case STEP_LATER:
        turns_pass(turns, entry);
        (*passed)++;
        return true;
    case STEP_NOT_NOW: return false;
    case STEP_ENDED: break;
    }
    turns_took(turns, entry, entry->cost);
    wait_no_more(part);
    if (is_over(part))
        finish_part(at, part);
    return true;
}

/* Each priority for itself. */
static void go_apart(struct lane_regions *at, struct region_peer *peer)
{
    for (uint32_t class = 0; class < QOS_CLASSES; class ++) {
        uint32_t passed = 0;

        while (passed < peer->turns[class].count && go_on(at, peer, class, &passed)) {
        }
    }
}

static void go(struct lane_regions *at, struct region_peer *peer)
{
    struct qos *qos = is_here(at, peer) ? NULL : &at->qos;
    uint32_t passed[QOS_CLASSES] = {0};
    enum qos_class class;

    if (qos != NULL && qos->policy == QOS_SEPARATE) {
        go_apart(at, peer);
        return;
    }
    do {
        class =
            qos_next(qos, &peer->windows[QOS_HIGH], passed[QOS_HIGH] < peer->turns[QOS_HIGH].count,
                     passed[QOS_LOW] < peer->turns[QOS_LOW].count, at->lane->now_us);
    } while (class != QOS_CLASSES && go_on(at, peer, class, &passed[class]));
}

/* What goes to a node that got buffers is behind the others the next time: so those that come back
 * go round. */
void lane_region_posts_go(struct lane_regions *at)
{
    struct list now, staged;
    struct list_node *node;

    at->posts_due = false;
    list_init(&now);
    list_init(&staged);
    list_append_all(&now, &at->peers_waiting);
    while ((node = list_first(&now)) != NULL) {
        struct region_peer *peer = container_of(node, struct region_peer, link);
        uint32_t before = peer->staged;

        if (!is_here(at, peer))
            go(at, peer);
        if (list_first(&now) != node)
            continue; /* nothing waits for it any more, or anew */
        list_remove(node);
        list_push_back(peer->staged == before ? &at->peers_waiting : &staged, node);
    }
    list_append_all(&at->peers_waiting, &staged);
}

bool lane_region_posts_turn(struct lane_regions *at)
{
    struct region_peer *here = here_of(at);

    here->windows[QOS_HIGH].under_way_bytes = 0;
    if (!list_is_linked(&here->link))
        return false;
    go(at, here);
    return true;
}

/* ---- what the mapping says ------------------------------------------------ */

/* Nobody waits whom it would pass, and there is room. */
static bool may_go(struct lane_regions *at, const struct region_part *part)
{
    const struct region_peer *peer = part->peer;

    if (!qos_has_room(part_window(at, part), charge_of(part)))
        return false;
    if (at->qos.policy == QOS_SEPARATE && !is_here(at, peer))
        return turns_are_empty(&peer->turns[part->class]);
    if (!turns_are_empty(&peer->turns[QOS_HIGH]))
        return false;
    return part->class == QOS_HIGH ||
           (turns_are_empty(&peer->turns[QOS_LOW]) &&
            (is_here(at, peer) || qos_may_low(&at->qos, at->lane->now_us)));
}

static void begin_part(struct lane_regions *at, struct region_part *part)
{
    while (has_more(part)) {
        enum step did = may_go(at, part) ? step(at, part) : STEP_LATER;

        if (did == STEP_LATER || did == STEP_NOT_NOW) {
            wait_for_turn(at, part);
            return;
        }
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

void lane_region_post(void *context, struct regions_op *op, const struct region_post *post)
{
    struct lane_regions *at = context;
    struct region_io *io = container_of(op, struct region_io, op);
    struct region_part *part = take_part(at, io, post);
    const struct lane_config *config = &at->lane->config;
    bool here = config->fabric == NULL || post->place.node == config->exchange.members->self;
    bool moves = here && (!lane_region_is_word(io) || lane_region_has_atomics(at));

    if (part == NULL) {
        region_chunks_add(&io->failed_chunks, post->piece.chunk);
        if (!list_is_linked(&io->failed))
            list_push_back(&at->failed, &io->failed);
        return;
    }
    NIGH_ASSERT(here || post->place.node < at->ranks);
    part->peer = moves ? here_of(at) : &at->peers[post->place.node];
    part->class = io->use->is_low && at->qos.policy != QOS_NONE ? QOS_LOW : QOS_HIGH;
    part->piece_bytes = io->what == SESSION_REGION_FILL ? LIMIT_REGION_COPY_BYTES : LIMIT_QOS_PIECE;
    at->counts.parts_here += here;
    at->counts.parts_there += !here;
    if (!here && io->what == SESSION_REGION_MAP)
        end_part(at, part, is_away(io));
    else if (io->pushes && (here || post->piece.length_bytes != io->op.op.length_bytes))
        end_part(at, part, NIGH_ELSEWHERE); /* it moved here meanwhile */
    else
        begin_part(at, part);
}

/* ---- tried again, given up ------------------------------------------------ */

/* Visits what waits for a node. The visitor may end it. */
static void each_waiting(struct lane_regions *at, struct region_peer *peer,
                         void (*visit)(struct lane_regions *at, struct region_part *part))
{
    for (uint32_t class = 0; class < QOS_CLASSES; class ++) {
        LIST_FOREACH_SAFE(seat_node, &peer->turns[class].seats)
        {
            struct turns_seat *seat = container_of(seat_node, struct turns_seat, link);

            LIST_FOREACH_SAFE(node, &seat->waiting)
            {
                visit(at, part_of(container_of(node, struct turns_entry, link)));
            }
        }
    }
}

static void end_waiting(struct lane_regions *at, struct region_part *part, nigh_status status)
{
    part->status = status;
    wait_no_more(part);
    if (part->under_way == 0)
        end_part(at, part, status);
}

static void end_if_stale(struct lane_regions *at, struct region_part *part)
{
    if (part->under_way == 0 && is_stale(part))
        end_waiting(at, part, NIGH_STALE);
}

static void end_lost(struct lane_regions *at, struct region_part *part)
{
    end_waiting(at, part, NIGH_PEER_LOST);
}

/* What waits, however far behind, gives way to changes of its region. */
void lane_region_posts_retry(struct lane_regions *at)
{
    LIST_FOREACH_SAFE(node, &at->peers_waiting)
    {
        struct region_peer *peer = container_of(node, struct region_peer, link);

        if (is_here(at, peer))
            continue;
        each_waiting(at, peer, end_if_stale);
        go(at, peer);
        if (list_is_linked(&peer->link))
            lane_regions_again(at);
    }
}

void lane_region_posts_dead(struct lane_regions *at, uint32_t rank)
{
    if (rank < at->ranks)
        each_waiting(at, &at->peers[rank], end_lost);
}

void lane_region_posts_end(struct lane_regions *at, const struct region_io *io, nigh_status status)
{
    LIST_FOREACH_SAFE(peer_node, &at->peers_waiting)
    {
        const struct region_peer *peer = container_of(peer_node, struct region_peer, link);

        for (uint32_t class = 0; class < QOS_CLASSES; class ++) {
            struct turns_seat *seat = seat_of(at, peer, io->slot, class);

            if (!list_is_linked(&seat->link))
                continue;
            LIST_FOREACH_SAFE(node, &seat->waiting)
            {
                struct region_part *part = part_of(container_of(node, struct turns_entry, link));

                if (part->io == io)
                    end_waiting(at, part, status);
            }
        }
    }
}

/* ---- create, destroy ------------------------------------------------------ */

nigh_status lane_region_posts_init(struct lane_regions *at)
{
    const struct lane_config *config = &at->lane->config;
    size_t seats;

    at->ranks = lane_regions_ranks(at->lane);
    seats = (size_t)config->max_sessions * (at->ranks + 1) * QOS_CLASSES;
    at->peers = calloc(at->ranks + 1, sizeof(*at->peers));
    at->seats = calloc(seats, sizeof(*at->seats)); /* touched as they are used */
    at->staged = calloc(config->max_sessions, sizeof(*at->staged));
    at->asked_pushes = calloc((size_t)config->max_sessions * at->ranks, sizeof(*at->asked_pushes));
    if (at->peers == NULL || at->seats == NULL || at->staged == NULL || at->asked_pushes == NULL)
        return NIGH_NO_RESOURCES;
    list_init(&at->peers_waiting);
    qos_init(&at->qos, config->region_qos, at->lane->now_us);
    for (uint32_t n = 0; n <= at->ranks; n++) {
        for (uint32_t class = 0; class < QOS_CLASSES; class ++) {
            qos_window_init(&at->peers[n].windows[class],
                            n < at->ranks ? LIMIT_QOS_WINDOW : LIMIT_QOS_HERE);
            turns_init(&at->peers[n].turns[class], LIMIT_QOS_QUANTUM);
        }
    }
    return NIGH_OK;
}

void lane_region_posts_fini(struct lane_regions *at)
{
    struct list_node *node;

    while ((node = region_unchain(&at->free_parts)) != NULL)
        free(container_of(node, struct region_part, link));
    free(at->peers);
    free(at->seats);
    free(at->staged);
    free(at->asked_pushes);
}
