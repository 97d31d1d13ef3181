/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A space's memory at this node, its engine, and what that sends: messages and bytes over links.
 *
 * Memory is made by a thread, as that of regions is, and goes when no other node writes there any
 * more (the registry knows), and nothing that was sent from it is under way: ends come in order, so
 * that is when the letter that said that it is gone has ended.
 */
#include <stdlib.h>

#include "base/random.h"
#include "node/lane_spaces.h"

#define LOG_MODULE "spaces"
#include "base/log.h"

/* So often a node that goes on takes part anew before addresses may be those of a later start. */
#define LIVES_OF_A_NODE 8u

/* Room in a link that is left to letters. */
#define ROOM_FOR_LETTERS 8u

/* ---- what an engine sends ------------------------------------------------- */

static void on_sent(void *context, nigh_status status, uint64_t now_us)
{
    struct space_sent *sent = context;
    struct space_here *here = sent->here;

    (void)status;
    here->under_way--;
    if (here->engine != NULL)
        space_engine_sent(here->engine, sent->cookie, now_us);
    here->at->is_awake = true;
}

static void on_gone(void *context, nigh_status status, uint64_t now_us)
{
    struct space_here *here = context;

    (void)status;
    (void)now_us;
    here->under_way--;
}

void lane_space_says_gone(struct lane_spaces *at, uint64_t birth, link_done **done, void **context)
{
    struct space_here *here = lane_space_by_birth(at, birth);

    if (here != NULL) {
        here->under_way++;
        *done = on_gone;
        *context = here;
    }
}

static uint64_t site_address(const struct space_site *site, enum space_memory which)
{
    return which == SPACE_MEMORY_HOME ? site->home_address : site->cache_address;
}

static bool on_send(void *context, const struct space_send *send)
{
    struct space_here *here = context;
    struct lane_spaces *at = here->at;
    struct link *link = at->links[send->seat];
    const struct space_site *site = &here->sites[send->seat];
    const struct space_piece *from = &here->pieces[send->from];
    struct fabric_slice slice = {.bytes = send->count, .memory = from->at};
    struct link_message message = {.bytes = (const uint8_t *)&send->wire,
                                   .count = sizeof(send->wire)};

    if (at->is_ending)
        return true; /* nothing of it goes any more, and the engine is told */
    /* Of a link that is to be broken it stays the engine's, and ends with that. */
    if (link == NULL || (at->cuts >> send->seat & 1) != 0 ||
        link_space_room(link) <= ROOM_FOR_LETTERS)
        return false;
    if (send->count > 0) {
        slice.address = from->memory->address + send->from_offset;
        message.slices = &slice;
        message.slice_count = 1;
        message.remote = (struct fabric_remote){
            .address = site_address(site, send->to) + send->to_offset,
            .key = send->to == SPACE_MEMORY_HOME ? site->home_key : site->cache_key};
    }
    if (link_space_send(link, &message, send->wants_end ? on_sent : NULL,
                        &here->sent[send->cookie]) != NIGH_OK)
        return false;
    here->under_way += send->wants_end;
    at->has_said = true;
    return true;
}

static void on_cut(void *context, uint8_t seat, nigh_status why)
{
    struct space_here *here = context;

    lane_spaces_cut(here->at, seat, why);
}

static void on_wake(void *context)
{
    struct space_here *here = context;

    here->at->is_awake = true;
}

static bool on_wanted(void *context, uint64_t block)
{
    struct space_here *here = context;

    return space_windows_wanted(here->at->windows, here->engine, block);
}

/* ---- its memory ----------------------------------------------------------- */

struct space_here *lane_space_by_birth(const struct lane_spaces *at, uint64_t birth)
{
    LIST_FOREACH(node, &at->here)
    {
        struct space_here *here = container_of(node, struct space_here, link);

        if (here->birth == birth && !here->is_replaced)
            return here;
    }
    return NULL;
}

static uint64_t sets_of(const struct space_info *info)
{
    uint64_t frames = (info->cache_bytes + info->block_bytes - 1) / info->block_bytes;

    return min_u64((frames + SPACE_WAYS - 1) / SPACE_WAYS, LIMIT_SPACE_SETS);
}

static void want(struct space_here *here, enum space_memory which, uint64_t bytes)
{
    here->pieces[which].wanted = bytes;
    here->pieces[which].is_making = bytes != 0;
    if (bytes == 0)
        here->status = NIGH_INVALID;
}

/* Memory of what is gone counts until the thread has unmade it. */
static bool is_some_going(const struct lane_spaces *at)
{
    LIST_FOREACH(node, &at->here)
    {
        const struct space_here *here = container_of(node, struct space_here, link);

        if (here->is_deleted || here->is_forgotten)
            return true;
    }
    return region_memories_is_going(at->memories);
}

/* False: there is nothing to ask for, or not yet. */
static bool ask_for(struct space_here *here, enum space_memory which)
{
    struct space_piece *piece = &here->pieces[which];
    struct region_memory_wish wish = {
        .bytes = piece->wanted, .is_file = true, .tag = here, .number = (uint32_t)which};
    nigh_status status = here->is_deleted ? NIGH_NOT_FOUND : here->status;

    if (piece->wanted == 0)
        return false;
    if (status == NIGH_OK)
        status = region_memories_make(here->at->memories, &wish);
    if (status == NIGH_OUT_OF_MEMORY && here->status == NIGH_OK && is_some_going(here->at))
        return false;
    piece->wanted = 0;
    piece->is_making = status == NIGH_OK;
    if (status != NIGH_OK)
        here->status = status;
    return true;
}

void lane_space_make(void *context, uint32_t place, const struct space_info *info)
{
    struct lane_spaces *at = context;
    struct space_here *here = calloc(1, sizeof(*here));

    NIGH_ASSERT(at->places[place] == NULL);
    at->is_awake = true;
    if (here == NULL)
        return; /* the turn says so */
    here->at = at;
    here->place = place;
    here->birth = info->birth;
    for (uint32_t n = 0; n < LIMIT_SPACE_SEATS; n++)
        here->sent[n] = (struct space_sent){here, n};
    at->places[place] = here;
    list_push_back(&at->here, &here->link);
    if (info->durability != SPACE_DURABLE_NONE && at->logs == NULL) {
        here->status = NIGH_UNSUPPORTED; /* no --log-dir */
        return;
    }
    want(here, SPACE_MEMORY_CACHE, space_view_cache_bytes(sets_of(info), info->block_bytes));
    want(here, SPACE_MEMORY_HOME,
         space_view_home_bytes(info->home_bytes / info->block_bytes, info->block_bytes));
}

static nigh_status open_to_peers(struct space_here *here, enum space_memory which)
{
    struct fabric *fabric = here->at->lane->config.fabric;
    struct space_piece *piece = &here->pieces[which];

    if (fabric == NULL)
        return NIGH_OK;
    return fabric_memory_register(fabric, piece->memory->address, piece->memory->bytes, FABRIC_HOST,
                                  FABRIC_LOCAL_WRITE | FABRIC_REMOTE_WRITE, &piece->at);
}

/* Addresses of this home's memory now, and of no life of it before: of this process, or an earlier
 * one. */
static uint64_t home_first(const struct lane_spaces *at, const struct space_info *info)
{
    uint64_t incarnation = at->lane->config.store.incarnation;
    uint64_t life = incarnation * LIVES_OF_A_NODE + at->remakes % LIVES_OF_A_NODE;
    uint64_t first = space_address_of_life(at->self, life, info->home_bytes);

    return first != space_address_first(at->self)
               ? first
               : space_address_of_life(at->self, 1, info->home_bytes);
}

static void make_views(struct space_here *here, const struct space_info *info)
{
    space_view_make_cache(here->pieces[SPACE_MEMORY_CACHE].memory->address, sets_of(info),
                          info->block_bytes, &here->views[SPACE_MEMORY_CACHE]);
    space_view_make_home(here->pieces[SPACE_MEMORY_HOME].memory->address,
                         info->home_bytes / info->block_bytes, info->block_bytes,
                         home_first(here->at, info), &here->views[SPACE_MEMORY_HOME]);
}

static nigh_status make_engine(struct space_here *here, const struct space_info *info)
{
    struct lane_spaces *at = here->at;
    struct space_engine_config config = {
        .space = info->id,
        .birth = info->birth,
        .self = at->self,
        .home_memory = here->pieces[SPACE_MEMORY_HOME].memory->address,
        .cache_memory = here->pieces[SPACE_MEMORY_CACHE].memory->address,
        .shell =
            {.context = here, .send = on_send, .cut = on_cut, .wake = on_wake, .wanted = on_wanted},
    };
    nigh_status status = random_system_seed(&config.life);

    if (status != NIGH_OK)
        return status;
    config.life |= 1;
    lane_space_use_log(here, info, &config);
    config.home = here->views[SPACE_MEMORY_HOME];
    config.cache = here->views[SPACE_MEMORY_CACHE];
    status = space_engine_create(&config, &here->engine);
    if (here->log != NULL)
        space_log_here_forget(here->log);
    if (status == NIGH_OK)
        space_engine_pause(here->engine, !lane_spaces_serve(at), at->lane->now_us);
    return status;
}

static struct space_site site_of(const struct space_here *here)
{
    const struct fabric *fabric = here->at->lane->config.fabric;
    struct space_site site = {0};

    if (fabric != NULL) {
        const struct space_piece *cache = &here->pieces[SPACE_MEMORY_CACHE];
        const struct space_piece *home = &here->pieces[SPACE_MEMORY_HOME];
        struct fabric_remote to = fabric_memory_remote(fabric, cache->at, cache->memory->address);

        site.cache_address = to.address;
        site.cache_key = to.key;
        to = fabric_memory_remote(fabric, home->at, home->memory->address);
        site.home_address = to.address;
        site.home_key = to.key;
    }
    return site;
}

/* What it had is there first. True: that is waited for. */
static bool wants_log(struct space_here *here, const struct space_info *info)
{
    if (info->durability == SPACE_DURABLE_NONE || here->log != NULL || here->status != NIGH_OK)
        return false;
    here->status = lane_space_open_log(here, info);
    return here->status == NIGH_OK;
}

static void say_none(const struct space_here *here, const struct space_info *info)
{
    if (space_registry_is_new(here->at->registry, here->place))
        LOG_WARN("a space is not made, as this node cannot take part in it",
                 "space=\"%s\" status=%s do=\"if status is NIGH_OUT_OF_MEMORY, give this node more "
                 "--space-memory, or make the space smaller; if NIGH_UNSUPPORTED, give a "
                 "--log-dir; else see the lines before this one; then create the space again\"",
                 LOG_QUOTE(info->name), nigh_status_name(here->status));
    else
        LOG_WARN("this node takes no part in a space",
                 "space=\"%s\" status=%s do=\"if status is NIGH_OUT_OF_MEMORY, give more "
                 "--space-memory; if NIGH_UNSUPPORTED, a --log-dir; else see the lines before this "
                 "one; then start the node again\"",
                 LOG_QUOTE(info->name), nigh_status_name(here->status));
}

/* Both pieces have come, or will not. */
static void made(struct space_here *here)
{
    struct lane_spaces *at = here->at;
    const struct space_info *info = space_registry_info(at->registry, here->place);
    struct space_site site = {0};

    if (info != NULL && here->status == NIGH_OK && here->log == NULL)
        make_views(here, info);
    if (info != NULL && wants_log(here, info))
        return;
    if (info != NULL && here->status == NIGH_OK)
        here->status = open_to_peers(here, SPACE_MEMORY_CACHE);
    if (info != NULL && here->status == NIGH_OK)
        here->status = open_to_peers(here, SPACE_MEMORY_HOME);
    if (info != NULL && here->status == NIGH_OK)
        here->status = make_engine(here, info);
    if (info != NULL && here->status == NIGH_OK) {
        site = site_of(here);
    } else if (info != NULL) {
        say_none(here, info);
        lane_space_replace(at, here); /* nobody writes to its memory: that may go */
    }
    space_registry_made(at->registry, here->place, here->status, &site);
}

static bool is_made(const struct space_here *here)
{
    return !lane_space_is_log_busy(here) && !here->pieces[SPACE_MEMORY_CACHE].is_making &&
           !here->pieces[SPACE_MEMORY_HOME].is_making;
}

static void take(struct region_memory *memory)
{
    struct space_here *here = memory->tag;
    struct space_piece *piece = &here->pieces[memory->number];

    piece->memory = memory;
    piece->is_making = false;
    if (memory->status != NIGH_OK)
        here->status = memory->status;
}

/* ---- who takes part ------------------------------------------------------- */

void lane_space_joined(void *context, uint32_t place, uint8_t seat, const struct space_site *site)
{
    struct lane_spaces *at = context;
    struct space_here *here = at->places[place];

    here->sites[seat] = *site;
    here->joined |= space_bit(seat);
    here->left &= ~space_bit(seat);
    here->partners |= space_bit(seat);
    lane_spaces_go_on(at);
    space_engine_up(here->engine, seat, at->lane->now_us);
    at->is_awake = true;
}

void lane_space_left(void *context, uint32_t place, uint8_t seat)
{
    struct lane_spaces *at = context;
    struct space_here *here = at->places[place];

    here->joined &= ~space_bit(seat);
    lane_space_note_left(at, here, seat);
    if (here->engine != NULL)
        space_engine_down(here->engine, seat, at->lane->now_us);
    at->is_awake = true;
}

/* ---- its end -------------------------------------------------------------- */

static void end_engine(struct space_here *here, nigh_status status)
{
    if (here->engine == NULL)
        return;
    space_windows_let_go(here->at->windows, UINT32_MAX, here->engine, status,
                         here->at->lane->now_us);
    space_engine_end(here->engine, status);
}

void lane_space_deleted(void *context, uint32_t place, const struct space_info *info)
{
    struct lane_spaces *at = context;
    struct space_here *here = at->places[place];

    /* Who left it, or has not begun to take part, may have a log of it all the same. */
    if (info->durability != SPACE_DURABLE_NONE && at->logs != NULL &&
        (here == NULL || here->log == NULL))
        space_logs_remove(at->logs, info->birth);
    if (here == NULL)
        return;
    here->is_deleted = true;
    end_engine(here, NIGH_NOT_FOUND);
    here->joined = 0;
}

void lane_space_forgotten(void *context, uint32_t place)
{
    struct lane_spaces *at = context;

    if (at->places[place] != NULL)
        at->places[place]->is_forgotten = true;
    else
        at->empty |= UINT64_C(1) << place;
    at->is_awake = true;
}

void lane_space_replace(struct lane_spaces *at, struct space_here *here)
{
    end_engine(here, here->failed != NIGH_OK ? here->failed : NIGH_NO_QUORUM);
    here->is_replaced = here->is_forgotten = true;
    here->joined = 0;
    at->places[here->place] = NULL;
    at->is_awake = true;
}

static void unmake(struct space_here *here)
{
    struct lane_spaces *at = here->at;

    space_engine_destroy(here->engine);
    for (uint32_t n = 0; n < 2; n++) {
        struct space_piece *piece = &here->pieces[n];

        if (piece->at != NULL)
            fabric_memory_deregister(at->lane->config.fabric, piece->at);
        if (piece->memory != NULL)
            region_memories_unmake(at->memories, piece->memory);
    }
    list_remove(&here->link);
    if (!here->is_replaced)
        at->places[here->place] = NULL;
    free(here);
}

/* What the registry has forgotten, and nothing is under way of. */
static bool end_some(struct lane_spaces *at)
{
    bool any = at->empty != 0;

    for (; at->empty != 0; at->empty &= at->empty - 1)
        space_registry_free(at->registry, (uint32_t)__builtin_ctzll(at->empty));
    LIST_FOREACH_SAFE(node, &at->here)
    {
        struct space_here *here = container_of(node, struct space_here, link);
        uint32_t place = here->place;
        bool is_replaced = here->is_replaced;

        if (!here->is_forgotten || here->under_way > 0 || !is_made(here))
            continue;
        space_engine_destroy(here->engine);
        here->engine = NULL;
        if (!lane_space_end_log(here))
            continue;
        unmake(here);
        if (!is_replaced)
            space_registry_free(at->registry, place);
        any = true;
    }
    return any;
}

bool lane_spaces_memory_turn(struct lane_spaces *at)
{
    struct region_memory *memory;
    bool any = lane_spaces_log_turn(at);

    while ((memory = region_memories_take(at->memories)) != NULL) {
        take(memory);
        any = true;
    }
    for (uint32_t place = 0; place < LIMIT_SPACES; place++) {
        struct space_here *here = at->places[place];

        if (!space_registry_is_making(at->registry, place))
            continue;
        if (here != NULL) {
            any = ask_for(here, SPACE_MEMORY_CACHE) || any;
            any = ask_for(here, SPACE_MEMORY_HOME) || any;
        }
        if (here == NULL) {
            space_registry_made(at->registry, place, NIGH_NO_RESOURCES, NULL);
            any = true;
        } else if (is_made(here)) {
            made(here);
            any = true;
        }
    }
    return end_some(at) || any;
}

void lane_spaces_memory_fini(struct lane_spaces *at)
{
    while (!list_empty(&at->here)) {
        struct space_here *here = container_of(list_first(&at->here), struct space_here, link);

        end_engine(here, NIGH_CLOSED);
        lane_space_stop_log(here);
        space_engine_destroy(here->engine);
        here->engine = NULL;
        if (here->log != NULL) {
            (void)lane_space_end_log(here);
            space_logs_wait(at->logs, here->log);
            free(here->log);
            here->log = NULL;
        }
        unmake(here);
    }
}
