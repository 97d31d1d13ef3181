/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of copies whose bytes do not pass the node that asks for them (docs/regions.md): it asks
 * the node that has the source (PUSH), which says them to the node that they are for (PUT), or
 * copies them itself where that is the same. Each end looks at the handle of its own chunk, at the
 * moment in which it touches it; so nothing rests on who asks, and a handle that was withdrawn ends
 * the piece and no connection, as a key presented by a third would.
 *
 * What is refused before anything of it can have gone elsewhere says so (NIGH_ELSEWHERE), and goes
 * through the node that asks.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "node/lane_regions.h"

/* ---- asked for ------------------------------------------------------------ */

static void spot_of(const struct region *region, uint32_t chunk, uint64_t offset_bytes,
                    struct region_window handle, struct region_spot *spot)
{
    uint32_t name_bytes;
    const char *name = region_name(region, &name_bytes);

    *spot = (struct region_spot){.handle = handle,
                                 .offset_bytes = offset_bytes,
                                 .chunk = chunk,
                                 .name_bytes = (uint8_t)name_bytes};
    memcpy(spot->name, name, name_bytes);
}

bool lane_region_push_source(struct lane_regions *at, uint32_t slot,
                             const struct region_copy_side *from, uint64_t offset_bytes,
                             struct region_source *source)
{
    const struct region *region = lane_region_readable(at, slot, from->number);
    const struct region_geometry *geometry;
    uint64_t begin = from->offset + offset_bytes;

    if (region == NULL)
        return false;
    geometry = &region_known(region)->geometry;
    if (!region_geometry_has(geometry, begin, 1))
        return false;
    source->region = region;
    source->chunk = (uint32_t)(begin / geometry->chunk_bytes);
    source->offset_bytes = begin % geometry->chunk_bytes;
    source->left_bytes =
        min_u64(geometry->chunk_bytes - source->offset_bytes, geometry->size_bytes - begin);
    return region_place(region, source->chunk, &source->place) &&
           source->place.node != lane_regions_self(at->lane) && source->place.node < at->ranks;
}

static uint32_t *own_pushes(const struct lane_regions *at, uint32_t slot, uint32_t rank)
{
    return &at->asked_pushes[(size_t)slot * at->ranks + rank];
}

/* One has another as long as it has fewer than are free, as of buffers (lane_region_bytes.c). */
bool lane_region_may_push(const struct lane_regions *at, uint32_t slot, uint32_t rank)
{
    uint32_t most = lane_region_puts(at), all = at->peers[rank].pushes;

    return all < most && *own_pushes(at, slot, rank) < most - all;
}

void lane_region_pushes_leave(struct lane_regions *at, uint32_t slot)
{
    memset(own_pushes(at, slot, 0), 0, at->ranks * sizeof(*at->asked_pushes));
}

static void count_push(struct lane_regions *at, struct region_part *part, uint32_t rank)
{
    at->peers[rank].pushes++;
    (*own_pushes(at, part->io->slot, rank))++;
    part->asked_of = &at->peers[rank];
}

static void push_ended(struct lane_regions *at, struct region_part *part)
{
    uint32_t rank = (uint32_t)(part->asked_of - at->peers);

    part->asked_of->pushes--;
    if (!part->io->is_left)
        (*own_pushes(at, part->io->slot, rank))--;
}

/* What S says of it; a status that it need not say counts as the end of a link. */
static void on_pushed(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                      uint64_t now_us)
{
    struct region_part *part = context;
    struct lane_regions *at = part->io->at;
    uint64_t left = part->post.piece.length_bytes - part->landed_bytes;
    uint64_t landed = 0;

    (void)now_us;
    push_ended(at, part);
    if (bytes == REGION_PUSHED_BYTES)
        landed = bytes_get_u64(payload);
    if (status == NIGH_UNSUPPORTED)
        status = NIGH_ELSEWHERE; /* an older node */
    if (landed > left || (status == NIGH_OK && landed != left) ||
        (status != NIGH_OK && status != NIGH_STALE && status != NIGH_ELSEWHERE)) {
        status = NIGH_PEER_LOST;
        landed = 0;
    }
    if (landed == left)
        status = NIGH_OK;
    lane_region_part_pushed(at, part, landed, status);
    lane_regions_tell(at);
}

nigh_status lane_region_push(struct lane_regions *at, struct region_part *part)
{
    struct region_copy_piece *piece = part->io->piece;
    struct region_push push = {.bytes = lane_region_next_bytes(part),
                               .node = part->post.place.node,
                               .incarnation = part->post.place.incarnation};
    struct region_source source;
    uint8_t bytes[REGION_PUSH_BYTES];
    struct rpc_piece said = {.data = bytes};
    struct link *link;

    if (part->io->is_told)
        return NIGH_CANCELED;
    if (!lane_region_push_source(at, part->io->slot, &piece->copy->from,
                                 piece->from + part->begun_bytes, &source) ||
        source.left_bytes < push.bytes || lane_regions_link_to(at, &part->post.place) == NULL)
        return NIGH_ELSEWHERE;
    link = lane_regions_link_to(at, &source.place);
    if (link == NULL || link_is_failing(link) ||
        !lane_region_may_push(at, part->io->slot, source.place.node))
        return NIGH_ELSEWHERE;
    spot_of(source.region, source.chunk, source.offset_bytes, source.place.handle, &push.from);
    spot_of(part->io->op.region, part->post.piece.chunk,
            part->post.piece.offset_bytes + part->begun_bytes, part->post.place.handle, &push.to);
    said.bytes = (uint32_t)region_push_encode(&push, bytes);
    if (rpc_call(link_calls(link), CALLS_METHOD_REGION_PUSH, &said, 1, UINT64_MAX, at->lane->now_us,
                 on_pushed, part, NULL) != NIGH_OK)
        return NIGH_ELSEWHERE;
    count_push(at, part, source.place.node);
    at->has_said = true;
    return NIGH_OK;
}

/* ---- of a peer: PUSH ------------------------------------------------------ */

/* NULL: it is not here, or this handle does not open it, or not so. */
static uint8_t *bytes_at(struct lane_regions *at, const struct region_spot *spot,
                         uint64_t offset_bytes, uint64_t bytes, bool writes)
{
    const struct region *region = regions_look(at->regions, spot->name, spot->name_bytes);
    struct region_post post = {.piece = {.chunk = spot->chunk,
                                         .offset_bytes = spot->offset_bytes + offset_bytes,
                                         .length_bytes = bytes},
                               .place = {.handle = spot->handle}};
    const struct region_chunk_here *chunk =
        region == NULL ? NULL : lane_region_opened(region, &post);

    if (chunk == NULL || (writes && !chunk->writes))
        return NULL;
    return chunk->memory->address + post.piece.offset_bytes;
}

static void answer(struct lane_regions *at, struct link *link, uint64_t call, nigh_status status,
                   uint64_t landed)
{
    uint8_t bytes[REGION_PUSHED_BYTES];
    struct rpc_piece piece = {.data = bytes, .bytes = sizeof(bytes)};

    bytes_put_u64(bytes, landed);
    at->has_said = true;
    rpc_reply(link_calls(link), call, status, &piece, 1);
}

static void finish(struct lane_regions *at, struct region_pushing *pushing)
{
    nigh_status status = pushing->status;

    if (pushing->landed_bytes == pushing->push.bytes)
        status = NIGH_OK;
    if (pushing->from != NULL)
        answer(at, pushing->from, pushing->call, status, pushing->landed_bytes);
    share_give(&at->peers_pushing, pushing->rank);
    list_remove(&pushing->link);
    at->push_count--;
    free(pushing);
}

/* Of one channel they end in the order in which they went, and none lands behind one that was
 * refused: so what has landed is so much from the beginning on. Also of those that were under way
 * when the source was found to be gone: who asks is to write again what has not landed, and no
 * more. */
static void on_put(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                   uint64_t now_us)
{
    struct region_pushing *pushing = context;
    struct lane_regions *at = pushing->at;
    const struct region_push *push = &pushing->push;

    (void)payload;
    (void)bytes;
    (void)now_us;
    at->peers[push->node].puts--;
    pushing->under_way--;
    at->pushes_due = true;
    if (pushing->has_failed)
        return;
    if (status == NIGH_OK) {
        uint64_t count = region_put_cut(push->to.offset_bytes + pushing->landed_bytes,
                                        push->bytes - pushing->landed_bytes);

        pushing->landed_bytes += count;
        at->counts.bytes_pushed += count;
    } else {
        pushing->has_failed = true;
        pushing->status = status == NIGH_UNSUPPORTED ? NIGH_ELSEWHERE
                          : status == NIGH_STALE     ? NIGH_STALE
                                                     : NIGH_PEER_LOST;
    }
}

/* NIGH_BUSY: not now. */
static nigh_status put(struct lane_regions *at, struct region_pushing *pushing)
{
    const struct region_push *push = &pushing->push;
    struct link *link = lane_regions_link(at, push->node);
    struct region_spot to = push->to;
    uint64_t count = region_put_cut(push->to.offset_bytes + pushing->begun_bytes,
                                    push->bytes - pushing->begun_bytes);
    const uint8_t *from = bytes_at(at, &push->from, pushing->begun_bytes, count, false);
    uint8_t head[REGION_PUT_HEAD_BYTES], word[8];
    struct rpc_piece pieces[2] = {{.data = head}, {.data = from, .bytes = (uint32_t)count}};
    nigh_status status;

    if (from == NULL || link == NULL || link_is_failing(link) ||
        link_peer_incarnation(link) != push->incarnation)
        return NIGH_ELSEWHERE;
    if (at->peers[push->node].puts >= lane_region_puts(at))
        return NIGH_BUSY;
    if (count == sizeof(word)) {
        lane_region_move(word, from, count, false); /* it may be one that is written meanwhile */
        pieces[1].data = word;
    }
    to.offset_bytes += pushing->begun_bytes;
    pieces[0].bytes = (uint32_t)region_put_encode(&to, head);
    status = rpc_call(link_calls(link), CALLS_METHOD_REGION_PUT, pieces, 2, UINT64_MAX,
                      at->lane->now_us, on_put, pushing, NULL);
    if (status != NIGH_OK)
        return status == NIGH_BUSY ? NIGH_BUSY : NIGH_ELSEWHERE;
    at->peers[push->node].puts++;
    pushing->begun_bytes += count;
    pushing->under_way++;
    at->has_said = true;
    return NIGH_OK;
}

enum went {
    WENT,
    WENT_NOT,
    WENT_OUT
};

/* WENT_OUT: it is gone. */
static enum went go_on(struct lane_regions *at, struct region_pushing *pushing)
{
    uint64_t before = pushing->begun_bytes;

    while (pushing->status == NIGH_OK && pushing->from != NULL &&
           pushing->begun_bytes < pushing->push.bytes) {
        nigh_status status = put(at, pushing);

        if (status == NIGH_BUSY) {
            lane_regions_again(at);
            break;
        }
        if (status != NIGH_OK)
            pushing->status = status;
    }
    if (pushing->under_way == 0 && (pushing->status != NIGH_OK || pushing->from == NULL ||
                                    pushing->landed_bytes == pushing->push.bytes)) {
        finish(at, pushing);
        return WENT_OUT;
    }
    return pushing->begun_bytes != before ? WENT : WENT_NOT;
}

/* Those that had their turn are behind the others the next time. */
bool lane_region_pushes_turn(struct lane_regions *at)
{
    uint32_t left = at->push_count;
    struct list went;

    if (!at->pushes_due)
        return false;
    at->pushes_due = false;
    list_init(&went);
    for (struct list_node *node, *next = list_first(&at->pushes); left > 0; left--) {
        enum went did;

        node = next;
        next = left > 1 ? node->next : NULL;
        did = go_on(at, container_of(node, struct region_pushing, link));
        if (did == WENT) {
            list_remove(node);
            list_push_back(&went, node);
        }
    }
    list_append_all(&at->pushes, &went);
    return true;
}

void lane_region_pushes_retry(struct lane_regions *at)
{
    at->pushes_due = at->pushes_due || !list_empty(&at->pushes);
}

/* What is under way of them goes on; there is nobody to tell. */
void lane_region_pushes_link_down(struct lane_regions *at, const struct link *link)
{
    LIST_FOREACH(node, &at->pushes)
    {
        struct region_pushing *pushing = container_of(node, struct region_pushing, link);

        if (pushing->from == link) {
            pushing->from = NULL;
            at->pushes_due = true;
        }
    }
}

void lane_region_pushes_fini(struct lane_regions *at)
{
    while (!list_empty(&at->pushes)) { /* no channel is left that has a call of one */
        struct region_pushing *pushing =
            container_of(list_first(&at->pushes), struct region_pushing, link);

        pushing->from = NULL;
        finish(at, pushing);
    }
}

nigh_status lane_region_push_here(struct lane_regions *at, const struct region_push *push)
{
    const uint8_t *from = bytes_at(at, &push->from, 0, push->bytes, false);
    uint8_t *to = bytes_at(at, &push->to, 0, push->bytes, true);
    uint8_t word[8];

    if (from == NULL)
        return NIGH_ELSEWHERE;
    if (to == NULL)
        return NIGH_STALE;
    if (push->bytes == sizeof(word)) {
        lane_region_move(word, from, push->bytes, false);
        from = word;
    }
    lane_region_move(to, from, push->bytes, true);
    at->counts.bytes_pushed += push->bytes;
    return NIGH_OK;
}

void lane_region_hear_push(struct lane_regions *at, struct link *link,
                           const struct rpc_request *request)
{
    struct region_pushing *pushing;
    struct region_push push;
    nigh_status status = region_push_decode(request->payload, request->bytes, &push);

    if (status == NIGH_OK && push.node >= at->ranks)
        status = NIGH_PROTOCOL;
    if (status == NIGH_OK && push.node == lane_regions_self(at->lane)) {
        status = lane_region_push_here(at, &push);
        answer(at, link, request->call, status, status == NIGH_OK ? push.bytes : 0);
        return;
    }
    if (status == NIGH_OK && !share_take(&at->peers_pushing, link_rank(link)))
        status = NIGH_ELSEWHERE;
    if (status != NIGH_OK) {
        answer(at, link, request->call, status, 0);
        return;
    }
    pushing = malloc(sizeof(*pushing));
    if (pushing == NULL) {
        share_give(&at->peers_pushing, link_rank(link));
        answer(at, link, request->call, NIGH_ELSEWHERE, 0);
        return;
    }
    *pushing = (struct region_pushing){
        .at = at, .from = link, .call = request->call, .rank = link_rank(link), .push = push};
    list_push_back(&at->pushes, &pushing->link);
    at->push_count++;
    at->pushes_due = true;
}

/* ---- of a peer: PUT ------------------------------------------------------- */

nigh_status lane_region_put_here(struct lane_regions *at, const uint8_t *bytes, size_t size_bytes)
{
    struct region_spot spot;
    size_t head;
    nigh_status status = region_put_decode(bytes, size_bytes, &spot, &head);
    uint8_t *to;

    if (status != NIGH_OK)
        return status;
    to = bytes_at(at, &spot, 0, size_bytes - head, true);
    if (to == NULL)
        return NIGH_STALE;
    lane_region_move(to, bytes + head, size_bytes - head, true);
    return NIGH_OK;
}

void lane_region_hear_put(struct lane_regions *at, struct link *link,
                          const struct rpc_request *request)
{
    nigh_status status = lane_region_put_here(at, request->payload, request->bytes);

    at->has_said = true;
    rpc_reply(link_calls(link), request->call, status, NULL, 0);
}
