/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces (docs/spaces.md), as lane 0 serves them for its node: which there are, who takes part in
 * them, what goes over links, and their part of a turn.
 *
 * A node that is in no view is taken for dead by the others, who go on without what it had: it
 * serves nothing any more, and takes part anew, with nothing, when it is in one again. Without a
 * lease it cannot know, and serves nobody until it does. A node that is alone has one for ever.
 */
#include "node/lane_spaces.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "cluster/agree.h"

#define LOG_MODULE "spaces"
#include "base/log.h"

/* Letters to one node in a turn. */
#define LETTERS_A_TURN 64u
/* While something waits for what no message tells of, it is looked at again. */
#define LOOK_AGAIN_US UINT64_C(20000)

static bool is_alone(const struct lane *lane)
{
    return lane->config.fabric == NULL;
}

/* ---- who takes part ------------------------------------------------------- */

/* Who is in the view, or may yet serve as of an earlier one. */
static uint64_t members_of(const struct lane_spaces *at)
{
    return is_alone(at->lane) ? space_bit(at->self) : at->in | at->wary;
}

static bool is_in(const struct lane_spaces *at)
{
    return is_alone(at->lane) || (at->in >> at->self & 1) != 0;
}

bool lane_spaces_know_all(const struct lane_spaces *at)
{
    uint64_t self = space_bit(at->self);

    return at->lease_us != 0 && is_in(at) && (members_of(at) & ~(at->linked | self)) == 0;
}

void lane_space_note_left(const struct lane_spaces *at, struct space_here *here, uint8_t seat)
{
    if ((members_of(at) >> seat & 1) != 0)
        return;
    here->left |= space_bit(seat);
    here->left_us[seat] = clock_now_us(&clock_monotonic);
}

/* With a lease that was asked for since it knows of all views that they may be in. */
static void look_at_left(const struct lane_spaces *at, struct space_here *here)
{
    for (uint64_t set = here->left; set != 0; set &= set - 1) {
        uint8_t seat = (uint8_t)__builtin_ctzll(set);

        if (at->lease_us >= here->left_us[seat] + AGREE_LEASE_US)
            here->left &= ~space_bit(seat);
    }
}

/* Who has joined it may come back as long as it is a member; who serves spaces no more, or has no
 * room for it, does not. */
static void drop_partners(struct lane_spaces *at, struct space_here *here)
{
    uint64_t serving = 0;

    look_at_left(at, here);
    for (uint8_t seat = 0; seat < LIMIT_SPACE_SEATS; seat++)
        serving |= at->links[seat] != NULL ? space_bit(seat) : 0;
    here->partners &= here->joined | ((members_of(at) | here->left) & ~(at->linked & ~serving) &
                                      ~space_registry_without(at->registry, here->place));
}

static void tell_members(struct lane_spaces *at, struct space_here *here)
{
    uint64_t set;

    drop_partners(at, here);
    set = here->partners | space_bit(at->self);
    if (!here->has_members &&
        (!lane_spaces_know_all(at) || !space_registry_is_settled(at->registry, here->place)))
        return;
    if (here->has_members && set == here->members)
        return;
    here->has_members = true;
    here->members = set;
    space_engine_members(here->engine, set, at->lane->now_us);
    at->is_awake = true;
}

void lane_spaces_go_on(struct lane_spaces *at)
{
    for (uint32_t place = 0; place < LIMIT_SPACES && !at->is_out; place++) {
        struct space_here *here = at->places[place];

        if (here != NULL && here->engine != NULL && !here->is_deleted)
            tell_members(at, here);
    }
}

/* ---- links ---------------------------------------------------------------- */

void lane_spaces_cut(struct lane_spaces *at, uint8_t seat, nigh_status why)
{
    at->cuts |= space_bit(seat);
    at->cut_why[seat] = why;
    at->is_awake = true;
}

static bool cut_links(struct lane_spaces *at)
{
    bool any = at->cuts != 0;

    for (uint8_t seat = 0; any && seat < LIMIT_SPACE_SEATS; seat++) {
        struct link *link = at->links[seat];

        if ((at->cuts >> seat & 1) == 0)
            continue;
        at->cuts &= ~space_bit(seat);
        if (link == NULL)
            continue;
        LOG_WARN("what a member said of a space was not taken: its link is broken",
                 "rank=%u status=%s do=\"nothing: the link is made anew; if it comes again, run "
                 "the same nighd at all nodes\"",
                 seat, nigh_status_name(at->cut_why[seat]));
        link_break(link, at->cut_why[seat], at->lane->now_us);
    }
    return any;
}

/* Whether a link joins the lanes 0 of two nodes that may have seats. */
static struct lane_spaces *of_link(struct lane *lane, struct link *link)
{
    return link_rail(link) == 0 && link_rank(link) < LIMIT_SPACE_SEATS ? lane->spaces : NULL;
}

void lane_spaces_link_up(struct lane *lane, struct link *link)
{
    struct lane_spaces *at = of_link(lane, link);
    uint8_t seat = (uint8_t)link_rank(link);

    if (at == NULL)
        return;
    at->linked |= space_bit(seat);
    if (link_carries(link, LINK_SPACES)) {
        at->links[seat] = link;
        space_registry_link(at->registry, seat, true);
    }
    at->is_awake = true;
    lane_spaces_go_on(at);
}

void lane_spaces_link_down(struct lane *lane, struct link *link)
{
    struct lane_spaces *at = of_link(lane, link);
    uint8_t seat = (uint8_t)link_rank(link);

    if (at == NULL)
        return;
    at->linked &= ~space_bit(seat);
    at->cuts &= ~space_bit(seat);
    if (at->links[seat] != NULL) {
        at->links[seat] = NULL;
        space_registry_link(at->registry, seat, false);
    }
    at->is_awake = true;
}

/* Of a link of rail 0, as no other has an endpoint for spaces. */
static void on_spaced(void *context, struct link *link, const uint8_t *bytes, uint32_t count)
{
    struct lane *lane = context;
    struct lane_spaces *at = of_link(lane, link);
    uint8_t seat = (uint8_t)link_rank(link);
    struct space_here *here;
    const struct space_wire *wire = (const void *)bytes;

    if (at == NULL || !lane_spaces_has_link(at, seat))
        return;
    if (count != sizeof(*wire)) {
        lane_spaces_cut(at, seat, NIGH_PROTOCOL);
        return;
    }
    if (wire->kind >= SPACE_LETTERS) {
        if (space_registry_hear(at->registry, seat, (const void *)bytes) != NIGH_OK)
            lane_spaces_cut(at, seat, NIGH_PROTOCOL);
        at->is_awake = true;
        lane_spaces_go_on(at);
        return;
    }
    here = lane_space_by_birth(at, wire->birth);
    if (here != NULL && (here->joined >> seat & 1) != 0)
        space_engine_message(here->engine, seat, bytes, count, lane->now_us);
    at->is_awake = true;
}

/* ---- letters -------------------------------------------------------------- */

static bool say_one(struct lane_spaces *at, uint8_t seat)
{
    struct space_letter letter;
    struct link_message message = {.bytes = (const uint8_t *)&letter, .count = sizeof(letter)};
    link_done *done = NULL;
    void *context = NULL;

    if (link_space_room(at->links[seat]) == 0 || !space_registry_next(at->registry, seat, &letter))
        return false;
    if (letter.kind == SPACE_LETTER_GONE)
        lane_space_says_gone(at, letter.birth, &done, &context);
    if (link_space_send(at->links[seat], &message, done, context) != NIGH_OK) {
        if (done != NULL)
            ((struct space_here *)context)->under_way--;
        return false;
    }
    space_registry_said(at->registry, seat);
    at->has_said = true;
    return true;
}

/* Who stood still may have been left out of a view, and does not know: what it had is lost to the
 * others then, who have gone on without it. */
static bool may_be_out(const struct lane_spaces *at)
{
    bool has_had = false;

    LIST_FOREACH(node, &at->here)
    {
        const struct space_here *here = container_of(node, struct space_here, link);

        has_had = has_had || (here->has_members && !here->is_deleted && !here->is_replaced);
    }
    return has_had && !lane_spaces_serve(at);
}

/* Over a link that is new nobody meets an engine of before until it is known to be one to go on
 * with. */
static bool say_letters(struct lane_spaces *at)
{
    bool any = false;

    if (space_registry_to_say(at->registry) == 0 || may_be_out(at))
        return false;
    for (uint64_t left = space_registry_to_say(at->registry); left != 0; left &= left - 1) {
        uint8_t seat = (uint8_t)__builtin_ctzll(left);

        for (uint32_t n = 0; n < LETTERS_A_TURN && lane_spaces_has_link(at, seat); n++) {
            if (!say_one(at, seat))
                break;
            any = true;
        }
    }
    return any;
}

/* ---- views ---------------------------------------------------------------- */

/* Without a lease this node cannot know of a view that it is not in. */
static void pause(struct lane_spaces *at, bool is_paused)
{
    LIST_FOREACH(node, &at->here)
    {
        struct space_here *here = container_of(node, struct space_here, link);

        if (here->engine != NULL && !here->is_deleted)
            space_engine_pause(here->engine, is_paused, at->lane->now_us);
    }
}

/* What it has others take for lost: nobody is served any more, nor told what was done by it. */
static void leave_all(struct lane_spaces *at)
{
    LIST_FOREACH(node, &at->here)
    {
        struct space_here *here = container_of(node, struct space_here, link);

        if (here->has_members && !here->is_deleted && !here->is_replaced) {
            space_windows_let_go(at->windows, UINT32_MAX, here->engine, NIGH_CLOSED,
                                 at->lane->now_us);
            space_engine_members(here->engine, 0, at->lane->now_us);
            lane_space_close_all(at, here->birth);
            at->is_out = true;
        }
    }
    if (at->is_out)
        LOG_WARN("this node was in no view: what it had of spaces is lost",
                 "seat=%u do=\"nothing: it comes back with nothing of them; if it comes again, see "
                 "to the network and the processors of this node, or raise --dead-ms\"",
                 at->self);
}

/* False: they go, but are not all gone. */
static bool break_links(struct lane_spaces *at, nigh_status why)
{
    bool has_links = false;

    for (uint8_t seat = 0; seat < LIMIT_SPACE_SEATS; seat++) {
        if (at->links[seat] != NULL) {
            link_break(at->links[seat], why, at->lane->now_us);
            has_links = true;
        }
    }
    return !has_links;
}

/* With other memory: what others send there by what they knew ends with the links, which come up
 * anew. */
static bool come_back(struct lane_spaces *at)
{
    if (!break_links(at, NIGH_STALE))
        return false;
    at->remakes++;
    for (uint32_t place = 0; place < LIMIT_SPACES; place++) {
        struct space_here *here = at->places[place];

        if (here == NULL || here->is_deleted || !here->has_members)
            continue;
        lane_space_replace(at, here);
        space_registry_remake(at->registry, place);
    }
    at->is_out = false;
    return true;
}

/* Who could not write its log, or has an old one, takes no part any more; the others hear so over
 * links that come up anew, and who has it open here whenever it asks. What else was under way over
 * those links ends as by any that breaks: nothing of it was on that disk. */
static bool leave_failed(struct lane_spaces *at)
{
    if (!break_links(at, NIGH_PEER_LOST))
        return false;
    for (uint32_t place = 0; place < LIMIT_SPACES; place++) {
        struct space_here *here = at->places[place];

        if (here == NULL || here->is_deleted || here->failed == NIGH_OK)
            continue;
        lane_space_replace(at, here);
        space_registry_lose(at->registry, place, here->failed);
    }
    at->has_failed = false;
    return true;
}

bool lane_spaces_serve(const struct lane_spaces *at)
{
    return at->lease_us != 0 && is_in(at);
}

/* Clients read without asking until then. */
static void show_lease(const struct lane_spaces *at)
{
    shared_store_release(&at->lane->config.page->spaces_until_us,
                         lane_spaces_serve(at) ? at->lease_us : 0);
}

static void look_at_lease(struct lane_spaces *at)
{
    bool serves = lane_spaces_serve(at);

    show_lease(at);
    space_registry_lease(at->registry, serves);
    pause(at, !serves);
    at->is_awake = true;
    lane_spaces_go_on(at);
}

/* A view is active when all that are in it go by it, so this node knows those that were active, and
 * had it in. Others go on without somebody when he is not in the active one. */
static bool was_left_out(const struct lane_spaces *at, const struct agreed *agreed)
{
    return !is_in(at) || (agreed->active > at->epoch && agreed->epoch > at->epoch + 1);
}

void lane_spaces_view(struct lane *lane, const struct agreed *agreed)
{
    struct lane_spaces *at = lane->spaces;

    if (at == NULL || agreed->epoch == 0)
        return;
    at->in = agreed->in.words[0];
    at->wary = agreed->wary.words[0];
    if (at->epoch != 0 && !at->is_out && was_left_out(at, agreed))
        leave_all(at);
    at->epoch = agreed->epoch;
    look_at_lease(at);
}

void lane_spaces_lease(struct lane *lane, uint64_t lease_us)
{
    struct lane_spaces *at = lane->spaces;
    bool changes;

    if (at == NULL)
        return;
    changes = (lease_us != 0) != (at->lease_us != 0);
    at->lease_us = lease_us;
    if (changes)
        look_at_lease(at);
    else
        show_lease(at);
}

/* ---- turns ---------------------------------------------------------------- */

static bool turn_engines(struct lane_spaces *at)
{
    bool more = false;

    LIST_FOREACH(node, &at->here)
    {
        struct space_here *here = container_of(node, struct space_here, link);

        if (here->engine != NULL)
            more = space_engine_turn(here->engine, at->lane->now_us) || more;
    }
    return more;
}

bool lane_turn_spaces(struct lane *lane)
{
    struct lane_spaces *at = lane->spaces;
    bool any;

    if (at == NULL)
        return false;
    any = at->is_awake;
    at->is_awake = at->has_said = at->has_counted = false;
    any = lane_spaces_memory_turn(at) || any;
    any = turn_engines(at) || any;
    if (at->window_count > 0)
        any = space_windows_turn(at->windows, lane->now_us) || any;
    any = lane_spaces_asked_turn(at) || any;
    if (at->is_out && at->lease_us != 0 && is_in(at))
        any = come_back(at) || any;
    if (at->has_failed)
        any = leave_failed(at) || any;
    any = cut_links(at) || any;
    any = say_letters(at) || any;
    lane_spaces_go_on(at);
    if (at->has_said)
        exchange_flush(lane->exchange);
    return any || at->has_said || at->is_awake;
}

bool lane_spaces_have_work(const struct lane *lane)
{
    const struct lane_spaces *at = lane->spaces;

    return at != NULL && at->window_count > 0 && space_windows_has_work(at->windows);
}

uint64_t lane_spaces_due_us(const struct lane *lane)
{
    const struct lane_spaces *at = lane->spaces;
    uint64_t due_us;

    if (at == NULL)
        return UINT64_MAX;
    if (at->is_awake)
        return lane->now_us;
    due_us = lane_spaces_asked_due_us(at);
    if (at->window_count > 0)
        due_us = min_u64(due_us, space_windows_deadline(at->windows));
    LIST_FOREACH(node, &at->here)
    {
        const struct space_here *here = container_of(node, struct space_here, link);

        if (here->engine != NULL)
            due_us = min_u64(due_us, space_engine_deadline(here->engine));
        if (here->is_forgotten || here->failed != NIGH_OK || here->pieces[0].wanted != 0 ||
            here->pieces[1].wanted != 0 || (here->left != 0 && at->lease_us != 0))
            due_us = min_u64(due_us, lane->now_us + LOOK_AGAIN_US);
    }
    return due_us;
}

void lane_spaces_count(const struct lane *lane, nigh_node_stats *stats)
{
    struct lane_spaces *at = lane->spaces;

    if (at == NULL)
        return;
    lane_space_add_counts(at, stats);
    stats->spaces += space_registry_count(at->registry);
    stats->space_windows += at->window_count;
    stats->space_memory_bytes += region_memories_bytes(at->memories);
    stats->space_memory_limit_bytes += lane->config.space_memory_bytes;
    LIST_FOREACH(node, &at->here)
    {
        const struct space_here *here = container_of(node, struct space_here, link);
        struct space_engine_stats own;

        if (here->engine == NULL)
            continue;
        space_engine_stats(here->engine, &own);
        stats->space_reads += own.reads;
        stats->space_writes += own.writes;
        stats->space_atomics += own.atomics;
        stats->space_locks += own.locks;
        stats->space_messages += own.messages;
        stats->space_message_bytes += own.bytes;
        stats->space_terms += own.terms;
        stats->space_evictions += own.evictions;
        stats->space_asks += own.asks;
        stats->space_invalidations += own.invalidations;
        stats->space_waiting += own.waiting;
        stats->space_blocks_used += own.home_used;
        stats->space_frames_used += own.frames_used;
        stats->space_blocks_lost += own.lost;
    }
}

/* ---- create, destroy ------------------------------------------------------ */

/* By the memory's thread: a piece can be taken. */
static void on_memory(void *context)
{
    struct lane *lane = context;

    shared_fence(); /* said before the look at whether the lane sleeps */
    if (shared_load_relaxed(&lane->config.page->lane[lane->config.number].asleep) != 0)
        lane_kick(lane);
}

static uint8_t on_home(void *context, uint64_t id, uint64_t seats)
{
    const struct lane_spaces *at = context;
    struct agreed_set set = {.words = {seats}};

    return is_alone(at->lane)
               ? at->self
               : (uint8_t)members_home_in(at->lane->config.exchange.members, &set, id);
}

static nigh_status make_registry(struct lane_spaces *at)
{
    struct space_registry_shell shell = {.context = at,
                                         .make = lane_space_make,
                                         .joined = lane_space_joined,
                                         .left = lane_space_left,
                                         .deleted = lane_space_deleted,
                                         .forgotten = lane_space_forgotten,
                                         .answered = lane_space_answered,
                                         .home = on_home};

    return space_registry_create(at->self, &shell, &at->registry);
}

/* The lane may have stood still since it looked for a lease, for longer than that was: then it
 * finds out in its next turn. */
static bool is_current(void *context)
{
    struct lane_spaces *at = context;

    if (!lane_spaces_serve(at))
        return false;
    if (at->lease_us == UINT64_MAX || clock_now_us(&clock_monotonic) < at->lease_us)
        return true;
    at->is_awake = true;
    return false;
}

static nigh_status make_windows(struct lane_spaces *at)
{
    struct space_windows_shell shell = {.context = at,
                                        .find = lane_space_find,
                                        .broken = lane_space_broken,
                                        .is_current = is_current};
    nigh_status status = random_system_seed(&shell.seed);

    if (status != NIGH_OK)
        return status;
    return space_windows_create(at->lane->config.max_sessions * LIMIT_SESSION_WINDOWS, &shell,
                                &at->windows);
}

bool lane_serves_spaces(const struct lane *lane)
{
    return lane->config.number == 0 && lane->config.space_memory_bytes > 0 &&
           (is_alone(lane) || lane->config.views != NULL);
}

void lane_hear_spaces(struct lane *lane, struct exchange_spaces *spaces)
{
    *spaces = (struct exchange_spaces){.context = lane, .spaced = on_spaced};
}

nigh_status lane_open_spaces(struct lane *lane)
{
    struct lane_spaces *at;
    nigh_status status;

    if (!lane_serves_spaces(lane))
        return NIGH_OK;
    at = calloc(1, sizeof(*at));
    if (at == NULL)
        return NIGH_NO_RESOURCES;
    at->lane = lane;
    at->self = is_alone(lane) ? 0 : (uint8_t)lane->config.exchange.members->self;
    at->lease_us = is_alone(lane) ? UINT64_MAX : 0;
    list_init(&at->here);
    lane->spaces = at;
    at->sessions = calloc(lane->config.max_sessions, sizeof(*at->sessions));
    if (at->sessions == NULL)
        return NIGH_NO_RESOURCES;
    status = make_registry(at);
    if (status == NIGH_OK)
        status = make_windows(at);
    if (status == NIGH_OK)
        status =
            region_memories_create(lane->config.space_memory_bytes, on_memory, lane, &at->memories);
    if (status == NIGH_OK)
        status = lane_spaces_open_logs(at);
    if (status == NIGH_OK)
        look_at_lease(at);
    return status;
}

void lane_end_spaces(struct lane *lane)
{
    if (lane->spaces != NULL)
        lane->spaces->is_ending = true;
}

void lane_close_spaces(struct lane *lane)
{
    struct lane_spaces *at = lane->spaces;

    if (at == NULL)
        return;
    for (uint32_t slot = 0; at->windows != NULL && slot < lane->config.max_sessions; slot++)
        lane_spaces_forget(lane, slot, true);
    lane_spaces_memory_fini(at);
    lane_spaces_close_logs(at);
    if (at->windows != NULL)
        space_windows_destroy(at->windows);
    if (at->memories != NULL)
        region_memories_destroy(at->memories);
    space_registry_destroy(at->registry);
    free(at->sessions);
    free(at);
    lane->spaces = NULL;
}
