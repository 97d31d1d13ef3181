/* SPDX-License-Identifier: Apache-2.0 */
/* See mapping.h. */
#include "region/mapping.h"

#include <string.h>

#include "base/check.h"

static bool is_known(const struct region_mapping *mapping)
{
    return !region_descriptor_is_none(mapping->config.now);
}

void region_mapping_init(struct region_mapping *mapping, const struct region_mapping_config *config)
{
    NIGH_ASSERT(config->room <= LIMIT_REGION_CHUNKS);
    memset(mapping, 0, sizeof(*mapping));
    mapping->config = *config;
    mapping->home = REGION_NOBODY;
    mapping->is_stale = true;
    list_init(&mapping->ops);
    region_descriptor_clear(config->now);
}

static void say(struct region_mapping *mapping, enum region_message_kind kind)
{
    struct region_message message = {
        .kind = kind, .peer = mapping->home, .change = mapping->config.now->version};

    if (kind == REGION_DONE) {
        message.of = REGION_HOLD;
        message.change = mapping->hold.change;
    }

    mapping->config.shell.send(mapping->config.shell.context, &message);
}

/* ---- operations ----------------------------------------------------------- */

/* Nothing more of it is posted. Its first status stays. */
static void stop(struct region_op *op, nigh_status status)
{
    if (!op->is_ending) {
        op->is_ending = true;
        op->status = status;
        memset(&op->todo, 0, sizeof(op->todo));
    }
}

static bool end_if_over(struct region_mapping *mapping, struct region_op *op)
{
    if ((!op->is_ending && !op->is_cut) || !region_chunks_is_empty(&op->todo) ||
        !region_chunks_is_empty(&op->posted)) {
        return false;
    }
    list_remove(&op->link);
    mapping->op_count--;
    mapping->config.shell.ended(mapping->config.shell.context, op, op->status);
    return true;
}

static struct region_piece piece_of(const struct region_mapping *mapping,
                                    const struct region_op *op, uint32_t chunk)
{
    return region_geometry_piece(&mapping->config.now->geometry, op->offset_bytes, op->length_bytes,
                                 chunk);
}

static void cut(const struct region_mapping *mapping, struct region_op *op)
{
    const struct region_geometry *geometry = &mapping->config.now->geometry;
    uint64_t last = (op->offset_bytes + op->length_bytes - 1) / geometry->chunk_bytes;

    for (uint64_t n = op->offset_bytes / geometry->chunk_bytes; n <= last; n++) {
        region_chunks_add(&op->todo, (uint32_t)n);
    }
    op->is_cut = true;
}

static bool has_ended(const struct region_mapping *mapping, const struct region_chunk *chunk)
{
    const struct region_mapping_shell *shell = &mapping->config.shell;

    return shell->has_ended(shell->context, chunk->node, chunk->incarnation);
}

bool region_mapping_has(const struct region_mapping *mapping, uint32_t chunk)
{
    const struct region_descriptor *now = mapping->config.now;

    return chunk < now->chunk_count && !region_window_is_none(now->chunks[chunk].handle) &&
           !has_ended(mapping, &now->chunks[chunk]);
}

static void post_piece(struct region_mapping *mapping, struct region_op *op, uint32_t chunk)
{
    const struct region_chunk *where = &mapping->config.now->chunks[chunk];
    struct region_post post = {
        .piece = piece_of(mapping, op, chunk),
        .place = {.node = where->node, .incarnation = where->incarnation, .handle = where->handle}};

    if (where->node == REGION_NOBODY) {
        stop(op, NIGH_PEER_LOST);
    } else if (region_mapping_has(mapping, chunk)) {
        region_chunks_remove(&op->todo, chunk);
        region_chunks_add(&op->posted, chunk);
        mapping->config.shell.post(mapping->config.shell.context, op, &post);
    }
}

/* Whether the home has answered to a question of since an operation began. */
static bool is_fresh(const struct region_mapping *mapping, const struct region_op *op)
{
    return (int32_t)(mapping->answers - op->fresh_from) >= 0;
}

/* A change that somebody was told of before an operation began may not have come here yet: what is
 * refused by what is known is looked at again when the home has answered to a question of since
 * then. False: it has. */
static bool doubt(struct region_mapping *mapping, const struct region_op *op)
{
    if (is_fresh(mapping, op)) {
        return false;
    }
    mapping->is_stale = true;
    return true;
}

static nigh_status judge(struct region_mapping *mapping, struct region_op *op)
{
    const struct region_mapping_shell *shell = &mapping->config.shell;
    nigh_status status = shell->judge(shell->context, op, mapping->config.now);

    return status == NIGH_DENIED && doubt(mapping, op) ? NIGH_PENDING : status;
}

static void look(struct region_mapping *mapping, struct region_op *op)
{
    nigh_status status = mapping->is_stale ? NIGH_PENDING : judge(mapping, op);

    if (status != NIGH_PENDING) {
        stop(op, status);
    }
}

/* All that can be posted, by the descriptor that is known. A chunk without a handle waits. */
static void post(struct region_mapping *mapping, struct region_op *op)
{
    nigh_status status;

    if (op->is_ending || !is_known(mapping)) {
        return;
    }
    if (op->length_bytes == 0) {
        look(mapping, op);
        return;
    }
    if (!region_geometry_has(&mapping->config.now->geometry, op->offset_bytes, op->length_bytes)) {
        if (!doubt(mapping, op)) {
            stop(op, NIGH_INVALID);
        }
        return;
    }
    if (!op->is_cut) {
        cut(mapping, op);
    }
    if (region_chunks_is_empty(&op->todo)) {
        return; /* most are posted, and all are passed by each change */
    }
    for (uint32_t n = 0; n < mapping->config.now->chunk_count; n++) {
        if (!region_chunks_has(&op->todo, n)) {
            continue;
        }
        status = judge(mapping, op);
        if (status == NIGH_PENDING) {
            return;
        }
        if (status != NIGH_OK) {
            stop(op, status);
        } else {
            post_piece(mapping, op, n);
        }
    }
}

static void post_all(struct region_mapping *mapping)
{
    LIST_FOREACH_SAFE(node, &mapping->ops)
    {
        struct region_op *op = container_of(node, struct region_op, link);

        post(mapping, op);
        end_if_over(mapping, op);
    }
}

static void stop_all(struct region_mapping *mapping, nigh_status status)
{
    LIST_FOREACH_SAFE(node, &mapping->ops)
    {
        struct region_op *op = container_of(node, struct region_op, link);

        if (!op->is_cut || !region_chunks_is_empty(&op->todo)) {
            stop(op, status);
            end_if_over(mapping, op);
        }
    }
}

/* What is stale is asked for: under a lease only, as who has none may be cut off with a home that
 * is none any more. */
static void ask(struct region_mapping *mapping)
{
    if (!mapping->is_stale || mapping->is_asked || mapping->is_gone) {
        return;
    }
    if (!mapping->config.has_lease) {
        stop_all(mapping, NIGH_NO_QUORUM);
    } else if (mapping->home != REGION_NOBODY) {
        mapping->is_asked = true;
        say(mapping, REGION_MAP);
    }
}

void region_mapping_begin(struct region_mapping *mapping, struct region_op *op)
{
    const struct region_mapping_shell *shell = &mapping->config.shell;

    if (mapping->is_gone || mapping->op_count == LIMIT_REGION_OPS) {
        shell->ended(shell->context, op, mapping->is_gone ? NIGH_NOT_FOUND : NIGH_OVERLOADED);
        return;
    }
    memset(&op->todo, 0, sizeof(op->todo));
    memset(&op->posted, 0, sizeof(op->posted));
    op->is_cut = op->is_ending = false;
    op->fresh_from = mapping->answers + (mapping->is_asked ? 2 : 1);
    op->tries = 0;
    op->status = NIGH_OK;
    list_push_back(&mapping->ops, &op->link);
    mapping->op_count++;
    post(mapping, op);
    if (!end_if_over(mapping, op)) {
        ask(mapping);
    }
}

/* The handle is none any more. Another that is known by now is tried at once. */
static void take_refusal(struct region_mapping *mapping, struct region_op *op, uint32_t chunk,
                         struct region_window handle)
{
    struct region_descriptor *now = mapping->config.now;

    if (!op->is_ending) {
        region_chunks_add(&op->todo, chunk);
    }
    /* One revoke refuses all pieces of what was posted by one answer. */
    if (op->tries == 0 || op->refused_at != mapping->answers) {
        op->refused_at = mapping->answers;
        op->tries++;
    }
    if (op->tries == LIMIT_REGION_TRIES) {
        stop(op, NIGH_BUSY);
    }
    if (chunk < now->chunk_count && region_window_equal(now->chunks[chunk].handle, handle)) {
        now->chunks[chunk].handle = REGION_NO_WINDOW;
        mapping->is_stale = true;
    }
}

/* What is refused costs more than this node: so the home waits for a while. */
static void answer_hold(struct region_mapping *mapping)
{
    if (mapping->hold.is_open && mapping->hold.left == 0) {
        mapping->hold.is_open = false;
        say(mapping, REGION_DONE);
    }
}

void region_mapping_posted(struct region_mapping *mapping, struct region_op *op, uint32_t chunk,
                           struct region_window handle, nigh_status status)
{
    NIGH_ASSERT(region_chunks_has(&op->posted, chunk));
    region_chunks_remove(&op->posted, chunk);
    if (mapping->hold.is_open && region_chunks_has(&mapping->hold.chunks, chunk)) {
        mapping->hold.left--;
    }
    if (status == NIGH_STALE) {
        take_refusal(mapping, op, chunk, handle);
    } else if (status != NIGH_OK) {
        stop(op, status);
    } else {
        op->tries = 0; /* it goes on, whatever moves meanwhile */
    }
    if (mapping->is_gone && !region_chunks_is_empty(&op->todo)) {
        stop(op, NIGH_NOT_FOUND);
    }
    post(mapping, op);
    end_if_over(mapping, op);
    answer_hold(mapping);
    ask(mapping);
}

void region_mapping_cancel(struct region_mapping *mapping, struct region_op *op, nigh_status status)
{
    stop(op, status);
    end_if_over(mapping, op);
}

/* ---- what the home says --------------------------------------------------- */

static void say_told(const struct region_mapping *mapping)
{
    if (mapping->config.shell.told != NULL) {
        mapping->config.shell.told(mapping->config.shell.context);
    }
}

/* There is no such region, says an answer. One that was created before an operation began may be of
 * after the answer: who began since the question waits for the next. Nothing is posted yet. */
static void take_none(struct region_mapping *mapping)
{
    mapping->is_gone = true;
    LIST_FOREACH_SAFE(node, &mapping->ops)
    {
        struct region_op *op = container_of(node, struct region_op, link);

        if (is_fresh(mapping, op)) {
            stop(op, NIGH_NOT_FOUND);
            end_if_over(mapping, op);
        } else {
            mapping->is_gone = false;
            mapping->is_stale = true;
        }
    }
    mapping->is_freed = mapping->is_gone;
    if (mapping->is_freed) {
        say_told(mapping);
    }
}

/* The region that was mapped, however it was changed; its chunks keep their size. */
static bool is_the_same(const struct region_descriptor *now, const struct region_descriptor *later)
{
    return region_version_equal(&later->birth, &now->birth) &&
           later->geometry.chunk_bytes == now->geometry.chunk_bytes;
}

static void take_mapped(struct region_mapping *mapping, const struct region_message *message)
{
    struct region_descriptor *now = mapping->config.now;

    /* It may be the answer to an earlier mapping of the name here: the one to this comes behind it,
     * and says the same, or later. */
    mapping->is_asked = mapping->is_stale = mapping->hold.is_open = false;
    mapping->answers++;
    if (message->status == NIGH_NOT_FOUND && !is_known(mapping)) {
        take_none(mapping);
        return;
    }
    if (message->status != NIGH_OK ||
        (is_known(mapping) && !is_the_same(now, message->descriptor))) {
        mapping->is_gone = true;
        mapping->is_freed = message->status == NIGH_OK || message->status == NIGH_NOT_FOUND;
        if (mapping->is_freed) {
            say_told(mapping);
        }
        stop_all(mapping, message->status != NIGH_OK ? message->status : NIGH_NOT_FOUND);
        return;
    }
    NIGH_ASSERT(message->descriptor->chunk_count <= mapping->config.room);
    region_descriptor_copy(now, message->descriptor);
    say_told(mapping);
    post_all(mapping);
}

/* Chunks of which nothing is posted until the home says where they are by then; it is told when
 * nothing is that was. */
static void take_hold(struct region_mapping *mapping, const struct region_message *message)
{
    struct region_descriptor *now = mapping->config.now;

    mapping->hold.is_open = true;
    mapping->hold.change = message->change;
    mapping->hold.chunks = message->chunks;
    mapping->hold.left = 0;
    for (uint32_t n = 0; n < now->chunk_count; n++) {
        if (region_chunks_has(&message->chunks, n)) {
            now->chunks[n].handle = REGION_NO_WINDOW;
        }
    }
    LIST_FOREACH(node, &mapping->ops)
    {
        const struct region_op *op = container_of(node, struct region_op, link);

        for (uint32_t n = 0; n < REGION_CHUNK_WORDS; n++) {
            mapping->hold.left +=
                (uint32_t)__builtin_popcountll(op->posted.words[n] & message->chunks.words[n]);
        }
    }
    answer_hold(mapping);
}

void region_mapping_take(struct region_mapping *mapping, const struct region_message *message)
{
    if (message->peer == mapping->home && message->kind == REGION_HOLD) {
        take_hold(mapping, message);
        return;
    }
    if (message->peer != mapping->home || mapping->is_gone) {
        return;
    }
    if (message->kind == REGION_MAPPED) {
        take_mapped(mapping, message);
    } else if (message->kind == REGION_CHANGED) {
        mapping->is_stale = true; /* an answer that was asked for comes behind it */
    }
    ask(mapping);
}

void region_mapping_home(struct region_mapping *mapping, uint32_t home)
{
    mapping->home = home;
    mapping->is_asked = mapping->hold.is_open = false;
    mapping->is_stale = true;
    ask(mapping);
}

void region_mapping_dead(struct region_mapping *mapping, uint32_t node)
{
    const struct region_descriptor *now = mapping->config.now;

    for (uint32_t n = 0; n < now->chunk_count; n++) {
        if (now->chunks[n].node == node && has_ended(mapping, &now->chunks[n])) {
            mapping->is_stale = true;
        }
    }
    ask(mapping);
}

void region_mapping_lease(struct region_mapping *mapping, bool has_lease)
{
    mapping->config.has_lease = has_lease;
    ask(mapping);
}

void region_mapping_end(struct region_mapping *mapping)
{
    NIGH_ASSERT(list_empty(&mapping->ops));
    if (mapping->home != REGION_NOBODY && !mapping->is_gone) {
        say(mapping, REGION_UNMAP);
    }
    mapping->is_gone = true;
}

bool region_mapping_is_valid(const struct region_mapping *mapping)
{
    uint32_t count = 0;

    LIST_FOREACH(node, &mapping->ops)
    {
        const struct region_op *op = container_of(node, struct region_op, link);

        count++;
        if (op->is_ending && region_chunks_is_empty(&op->posted)) {
            return false; /* it has ended */
        }
    }
    return count == mapping->op_count && count <= LIMIT_REGION_OPS &&
           (!is_known(mapping) || region_descriptor_is_valid(mapping->config.now));
}
