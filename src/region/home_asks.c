/* SPDX-License-Identifier: Apache-2.0 */
/* What a change is to make of a region: who may ask for it, whether it can be, and the descriptor
 * that it leads to. */
#include "region/home_internal.h"

void home_begin_change(struct region_home *home, struct region_ask *ask)
{
    struct region_change *change = &home->change;

    NIGH_ASSERT(!home_is_changing(home));
    memset(change, 0, sizeof(*change));
    change->ask = ask;
    change->had_lease = home->config.has_lease;
    change->version = home->config.version;
    change->version.counter = ++home->config.version.counter;
    region_descriptor_copy(home->config.next, home->config.now);
    home->config.next->version = change->version;
}

static void add_nodes(const struct region_home *home, const struct region_descriptor *descriptor,
                      struct region_set *nodes)
{
    for (uint32_t n = 0; n < descriptor->chunk_count; n++) {
        if (home_is_alive(home, descriptor->chunks[n].node)) {
            region_set_add(nodes, descriptor->chunks[n].node);
        }
    }
}

/* The change is made up: its first round is next. */
static void set_going(struct region_home *home, enum region_round round)
{
    add_nodes(home, home->config.now, &home->change.nodes);
    add_nodes(home, home->config.next, &home->change.nodes);
    home->change.round = round;
}

/* Chunks from `from` on are made at these nodes, in turn. */
static nigh_status make_chunks(struct region_home *home, uint32_t from, uint32_t count,
                               const struct region_ask *ask)
{
    const struct region_home_shell *shell = &home->config.shell;
    struct region_descriptor *next;

    if (ask->node_count == 0 && count > from) {
        return NIGH_INVALID;
    }
    if (count > home->config.room &&
        (shell->make_room == NULL || !shell->make_room(shell->context, count))) {
        return NIGH_NO_RESOURCES;
    }
    next = home->config.next;
    for (uint32_t n = from; n < count; n++) {
        uint32_t node = ask->nodes[(n - from) % ask->node_count];

        if (!home_is_alive(home, node)) {
            return NIGH_PEER_LOST;
        }
        memset(&next->chunks[n], 0, sizeof(next->chunks[n]));
        next->chunks[n].node = node;
        region_chunks_add(&home->change.made, n);
    }
    next->chunk_count = count;
    return NIGH_OK;
}

static void freeze_from(struct region_home *home, uint32_t from)
{
    for (uint32_t n = from; n < home->config.now->chunk_count; n++) {
        region_chunks_add(&home->change.frozen, n);
    }
}

static nigh_status plan_create(struct region_home *home, const struct region_ask *ask)
{
    struct region_descriptor *next = home->config.next;
    struct region_version version = next->version;
    nigh_status status = region_geometry_check(&ask->geometry);

    if (status != NIGH_OK || ask->name_bytes == 0 || ask->name_bytes > LIMIT_REGION_NAME_BYTES ||
        memchr(ask->name, 0, ask->name_bytes) != NULL ||
        (ask->donation != 0 && (ask->is_mappable || region_geometry_chunks(&ask->geometry) != 1)) ||
        ((ask->group_rights | ask->other_rights) & ~REGION_ALL) != 0) {
        return status == NIGH_OK ? NIGH_INVALID : status;
    }
    region_descriptor_clear(next);
    next->version = next->birth = version;
    next->geometry = ask->geometry;
    next->uid = ask->uid;
    next->gid = ask->gid;
    next->flags = ask->is_mappable ? REGION_MAPPABLE : 0;
    next->flags |= ask->donation != 0 ? REGION_DONATED : 0;
    home->change.donation = ask->donation;
    next->group_rights = ask->group_rights;
    next->other_rights = ask->other_rights;
    next->name_bytes = ask->name_bytes;
    memcpy(next->name, ask->name, ask->name_bytes);
    return make_chunks(home, 0, region_geometry_chunks(&ask->geometry), ask);
}

/* What those that a grant is about have, of its own. */
static uint32_t rights_of(const struct region_descriptor *descriptor, const struct region_ask *ask)
{
    switch (ask->whose) {
    case REGION_OF_GROUP: return descriptor->group_rights;
    case REGION_OF_OTHERS: return descriptor->other_rights;
    case REGION_OF_USER: break;
    }
    return region_descriptor_own_rights(descriptor, ask->user);
}

static nigh_status plan_grant(struct region_home *home, const struct region_ask *ask)
{
    struct region_descriptor *next = home->config.next;
    uint32_t before = rights_of(next, ask), after = (before | ask->give) & ~ask->take;
    nigh_status status = NIGH_OK;

    if (((ask->give | ask->take) & ~REGION_ALL) != 0) {
        return NIGH_INVALID;
    }
    switch (ask->whose) {
    case REGION_OF_GROUP: next->group_rights = (uint8_t)after; break;
    case REGION_OF_OTHERS: next->other_rights = (uint8_t)after; break;
    case REGION_OF_USER:
        status = region_descriptor_grant(next, ask->user, ask->give, ask->take);
        break;
    }
    if ((before & ~after) != 0) {
        freeze_from(home, 0);
    }
    return status;
}

static nigh_status plan_resize(struct region_home *home, const struct region_ask *ask)
{
    struct region_descriptor *next = home->config.next;
    uint64_t before = next->geometry.size_bytes;
    uint32_t had = next->chunk_count, count;
    nigh_status status;

    if ((next->flags & REGION_DONATED) != 0) {
        return NIGH_INVALID; /* its memory is as large as it is */
    }
    next->geometry.size_bytes = ask->geometry.size_bytes;
    status = region_geometry_check(&next->geometry);
    if (status != NIGH_OK) {
        return status;
    }
    count = region_geometry_chunks(&next->geometry);
    if (count > had) {
        return make_chunks(home, had, count, ask);
    }
    next->chunk_count = count;
    if (next->geometry.size_bytes < before) { /* from the chunk on that its new end is in */
        freeze_from(home, (uint32_t)(next->geometry.size_bytes / next->geometry.chunk_bytes));
    }
    return NIGH_OK;
}

static nigh_status plan_move(struct region_home *home, const struct region_ask *ask)
{
    struct region_chunk *chunk;

    if (ask->chunk >= home->config.next->chunk_count ||
        (home->config.next->flags & REGION_DONATED) != 0) {
        return NIGH_INVALID;
    }
    chunk = &home->config.next->chunks[ask->chunk];
    if (!home_is_alive(home, ask->node) || !home_is_alive(home, chunk->node)) {
        return NIGH_PEER_LOST;
    }
    if (chunk->node == ask->node) {
        return NIGH_EXISTS; /* there */
    }
    *chunk = (struct region_chunk){.node = ask->node};
    home->change.is_move = true;
    home->change.chunk = ask->chunk;
    region_chunks_add(&home->change.made, ask->chunk);
    region_chunks_add(&home->change.frozen, ask->chunk);
    return NIGH_OK;
}

/* Whether who asks may have it of the region that is. */
static nigh_status may_plan(const struct region_home *home, const struct region_ask *ask)
{
    const struct region_descriptor *now = home->config.now;

    if (!home->config.has_lease) {
        return NIGH_NO_QUORUM;
    }
    if ((ask->kind == REGION_ASK_CREATE) != region_descriptor_is_none(now)) {
        return ask->kind == REGION_ASK_CREATE ? NIGH_EXISTS : NIGH_NOT_FOUND;
    }
    if (ask->kind != REGION_ASK_CREATE && !region_version_equal(&ask->birth, &now->birth)) {
        return NIGH_NOT_FOUND;
    }
    if (ask->kind != REGION_ASK_CREATE &&
        (region_descriptor_rights(now, ask->uid, ask->gid) & REGION_MASTER) == 0) {
        return NIGH_DENIED;
    }
    return NIGH_OK;
}

nigh_status home_plan(struct region_home *home, struct region_ask *ask)
{
    nigh_status status = may_plan(home, ask);

    if (status != NIGH_OK) {
        return status;
    }
    status = NIGH_INVALID;
    home_begin_change(home, ask);
    switch (ask->kind) {
    case REGION_ASK_CREATE: status = plan_create(home, ask); break;
    case REGION_ASK_GRANT: status = plan_grant(home, ask); break;
    case REGION_ASK_RESIZE: status = plan_resize(home, ask); break;
    case REGION_ASK_MOVE: status = plan_move(home, ask); break;
    case REGION_ASK_FREE:
        freeze_from(home, 0);
        home->config.next->flags |= REGION_FREED;
        home->config.next->chunk_count = 0;
        status = NIGH_OK;
        break;
    case REGION_ASKS: break;
    }
    if (status == NIGH_OK) {
        set_going(home, REGION_ROUND_PREPARE);
    }
    return status;
}

bool home_passes(const struct region_home *home, const struct region_ask *ask)
{
    return ask->kind == REGION_ASK_FREE && home->state != REGION_HOME_REBUILDING &&
           home_is_changing(home) && home->change.round >= REGION_ROUND_THAW &&
           !region_descriptor_is_freed(home->config.now) && may_plan(home, ask) == NIGH_OK;
}

/* The first of those that wait. NULL. */
static struct region_ask *find_free(const struct region_home *home)
{
    LIST_FOREACH(node, &home->asks)
    {
        struct region_ask *ask = container_of(node, struct region_ask, link);

        if (home_passes(home, ask)) {
            return ask;
        }
    }
    return NULL;
}

/* Who asked for what was under way is not told that it was done: old memory may be open yet. All
 * that it was told to, also what is no holder by now, hears of the FREE: else that would keep what
 * is gone, and a later home take it for the truth. */
bool home_give_way(struct region_home *home)
{
    struct region_change left = home->change;
    struct region_ask *ask = find_free(home);

    if (ask == NULL) {
        return false;
    }
    list_remove(&ask->link);
    home->ask_count--;
    memset(&home->change, 0, sizeof(home->change));
    home->wants_fence = home->wants_fence || left.is_fence;
    NIGH_ASSERT(home_plan(home, ask) == NIGH_OK);
    for (uint32_t n = 0; n < REGION_SET_WORDS; n++) {
        home->change.nodes.words[n] |= left.nodes.words[n];
    }
    if (left.ask != NULL) {
        home_answer(home, left.ask, left.is_aborted ? left.status : NIGH_BUSY);
    }
    return true;
}

/* Also where all have been started again since, and no view has come between: then nobody is left
 * that would tell a next home of it. */
bool home_plan_losses(struct region_home *home)
{
    struct region_descriptor *now = home->config.now;
    bool has_losses = home->has_losses && !region_descriptor_is_none(now), is_left = false;

    for (uint32_t n = 0; n < now->chunk_count; n++) {
        struct region_chunk *chunk = &now->chunks[n];

        if (chunk->node != REGION_NOBODY && !home_is_alive(home, chunk->node)) {
            region_chunk_lose(chunk);
            has_losses = true;
        }
        is_left = is_left || chunk->node != REGION_NOBODY;
    }
    home->has_losses = false;
    if (has_losses) {
        home_begin_change(home, NULL);
        if (!is_left) { /* with its last chunk a region is gone */
            home->config.next->flags |= REGION_FREED;
            home->config.next->chunk_count = 0;
        }
        set_going(home, REGION_ROUND_COMMIT);
    }
    return has_losses;
}

void home_plan_fence(struct region_home *home)
{
    home_begin_change(home, NULL);
    home->wants_fence = false;
    home->change.is_fence = true;
    freeze_from(home, 0);
    set_going(home, REGION_ROUND_PREPARE);
}

void home_plan_settle(struct region_home *home)
{
    struct region_change *change = &home->change;
    struct region_descriptor *now = home->config.now;
    bool is_none = region_descriptor_is_none(now);

    home_begin_change(home, NULL);
    change->nodes = home->held;
    if (!is_none) {
        now->version = change->version;
        for (uint32_t n = 0; n < now->chunk_count; n++) {
            now->chunks[n].handle = REGION_NO_WINDOW; /* its holder says it again */
        }
    }
    memset(&home->held, 0, sizeof(home->held));
    home->must_settle = false;
    set_going(home, REGION_ROUND_SETTLE);
}
