/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sessions ask of spaces: submissions of lane 0's rings, what they have open, and the windows
 * of their threads. What threads say of blocks does not come this way (space/windows.h).
 *
 * A number that a session has for a space is looked up with each record; it names a birth, so what
 * is deleted is nobody's, however soon there is another of its name.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/random.h"
#include "memory/memfd.h"
#include "node/lane_spaces.h"

/* Of numbers: which place they are of, below how often that was used. */
#define PLACE_BITS 8u

_Static_assert(LIMIT_SPACES < 1u << PLACE_BITS && LIMIT_SESSION_WINDOWS < 1u << PLACE_BITS,
               "a number has room for a place");

/* Who was asked has no lease: it is asked again. */
#define LOOK_AGAIN_US UINT64_C(20000)

/* Files' numbers: one of those, and of what it is. */
enum file_of {
    FILE_CACHE = 1,
    FILE_HOME,
    FILE_WINDOW
};

/* What a submission asks, copied out of it. */
struct asked_for {
    struct lane *lane;
    struct lane_spaces *at;
    uint32_t slot;
    const struct session_sqe *sqe;
    struct session_space_id id;
    uint64_t deadline_us;
};

static void complete(const struct asked_for *want, nigh_status status)
{
    lane_complete(want->lane, want->slot, want->sqe->cookie, status);
}

static uint32_t number_of(uint32_t place, uint32_t uses)
{
    return uses << PLACE_BITS | (place + 1);
}

static uint64_t file_number(uint32_t number, enum file_of of)
{
    return (uint64_t)number << 2 | (uint64_t)of;
}

/* ---- what a session has --------------------------------------------------- */

static struct lane_space_session *need_session(struct lane_spaces *at, uint32_t slot)
{
    if (at->sessions[slot] == NULL)
        at->sessions[slot] = calloc(1, sizeof(*at->sessions[slot]));
    return at->sessions[slot];
}

static struct space_opened *find_opened(const struct lane_spaces *at, uint32_t slot,
                                        uint64_t number)
{
    struct lane_space_session *session = at->sessions[slot];
    uint32_t place = (uint32_t)(number & ((1u << PLACE_BITS) - 1)) - 1;

    return session != NULL && number != 0 && place < LIMIT_SPACES &&
                   session->opened[place].number == number
               ? &session->opened[place]
               : NULL;
}

static struct space_window_here *find_window(const struct lane_spaces *at, uint32_t slot,
                                             uint64_t number)
{
    struct lane_space_session *session = at->sessions[slot];
    uint32_t place = (uint32_t)(number & ((1u << PLACE_BITS) - 1)) - 1;

    return session != NULL && number != 0 && place < LIMIT_SESSION_WINDOWS &&
                   session->windows[place].number == number
               ? &session->windows[place]
               : NULL;
}

/* NULL: it was deleted, or is not here now. */
static struct space_here *here_of(const struct lane_spaces *at, const struct space_opened *opened)
{
    struct space_here *here = at->places[opened->place];

    return here != NULL && here->birth == opened->birth && here->engine != NULL && !here->is_deleted
               ? here
               : NULL;
}

static nigh_status why_not_here(const struct lane_spaces *at, uint64_t birth)
{
    uint32_t place = space_registry_find_birth(at->registry, birth);
    nigh_status status =
        place < LIMIT_SPACES ? space_registry_status(at->registry, place) : NIGH_NOT_FOUND;

    /* Its log failed since; or else it is made anew here, or was, without what was told of it. */
    return status == NIGH_NOT_FOUND || status == NIGH_DISK || status == NIGH_CORRUPT
               ? status
               : NIGH_NO_QUORUM;
}

struct space_engine *lane_space_find(void *context, uint32_t slot, uint32_t number, bool *may_write,
                                     nigh_status *why)
{
    const struct lane_spaces *at = context;
    const struct space_opened *opened = find_opened(at, slot, number);
    const struct space_here *here = opened == NULL ? NULL : here_of(at, opened);

    if (here != NULL) {
        *may_write = (opened->rights & SESSION_SPACE_WRITE) != 0;
        return here->engine;
    }
    *why = opened == NULL ? NIGH_CLOSED : why_not_here(at, opened->birth);
    return NULL;
}

void lane_space_broken(void *context, uint32_t slot)
{
    struct lane_spaces *at = context;

    lane_expel(at->lane, slot, "a window of one of its threads holds what cannot be");
}

static void let_go(struct lane_spaces *at, uint32_t slot, const struct space_opened *opened)
{
    const struct space_here *here = here_of(at, opened);

    if (here != NULL)
        space_windows_let_go(at->windows, slot, here->engine, NIGH_CLOSED, at->lane->now_us);
    at->is_awake = true;
}

static void end_window(struct lane_spaces *at, struct lane_space_session *session,
                       struct space_window_here *window)
{
    lane_space_count_window(at, session, window);
    space_windows_remove(at->windows, window->window, at->lane->now_us);
    free(window->seen);
    memfd_unmap(window->memory, sizeof(struct space_window));
    fd_close(&window->fd);
    window->number = 0;
    at->window_count--;
    at->is_awake = true;
}

/* ---- what somebody may ---------------------------------------------------- */

/* As space_info.mode has it. */
static uint32_t mode_of(uint32_t group_rights, uint32_t other_rights)
{
    return other_rights << 2 | group_rights;
}

#define RIGHTS (SESSION_SPACE_READ | SESSION_SPACE_WRITE)

static bool is_owner(const struct lane_seat *seat, const struct space_info *info)
{
    return seat->uid == 0 || seat->uid == info->uid;
}

static uint32_t rights_of(const struct lane_seat *seat, const struct space_info *info)
{
    uint32_t rights = info->mode >> 2;

    if (seat->gid == info->gid)
        rights |= info->mode;
    if (is_owner(seat, info))
        rights = RIGHTS;
    return rights & (seat->may_write ? RIGHTS : SESSION_SPACE_READ);
}

/* Whether somebody may know that there is one, and what is counted of it. The node's own user may,
 * who tells others what each may know (docs/page.md); what he may do with it is another question.
 */
static bool may_see(const struct lane_spaces *at, const struct lane_seat *seat,
                    const struct space_info *info)
{
    return rights_of(seat, info) != 0 || seat->uid == at->lane->config.own_uid;
}

/* ---- what is told of one -------------------------------------------------- */

static void fill_stat(const struct lane_spaces *at, uint32_t place, const struct lane_seat *seat,
                      struct session_space_stat *stat)
{
    const struct space_info *info = space_registry_info(at->registry, place);
    const struct space_here *here = at->places[place];
    struct space_engine_stats stats = {0};

    if (here != NULL && here->engine != NULL)
        space_engine_stats(here->engine, &stats);
    *stat = (struct session_space_stat){
        .id = info->id,
        .birth = info->birth,
        .home_bytes = info->home_bytes,
        .cache_bytes = info->cache_bytes,
        .used_bytes = stats.home_used * info->block_bytes,
        .seats = space_registry_seats(at->registry, place),
        .block_bytes = info->block_bytes,
        .durability = info->durability,
        .uid = info->uid,
        .gid = info->gid,
        .group_rights = info->mode & RIGHTS,
        .other_rights = info->mode >> 2 & RIGHTS,
        .rights = rights_of(seat, info),
        .seat = at->self,
    };
    memcpy(stat->name, info->name, info->name_bytes);
}

/* ---- what waits ----------------------------------------------------------- */

static void tell(struct lane_spaces *at, struct space_asked *asked, nigh_status status)
{
    struct session_cqe cqe = {
        .cookie = asked->cookie, .status = status, .offset = asked->place, .pin = SESSION_NO_PIN};

    if (status == NIGH_OK && asked->what == SESSION_SPACE_CREATE)
        cqe.generation = asked->info.birth;
    if (!asked->is_told && lane_is_session(at->lane, asked->slot, asked->begun))
        lane_on_complete(at->lane, asked->slot, &cqe);
    asked->is_told = true;
    if (!asked->is_begun)
        asked->what = 0;
}

void lane_space_answered(void *context, uint32_t number, nigh_status status)
{
    struct lane_spaces *at = context;
    struct space_asked *asked = &at->asked[number];

    asked->is_begun = false;
    at->is_awake = true;
    if (status == NIGH_NO_QUORUM && !asked->is_told) {
        asked->again_us = at->lane->now_us + LOOK_AGAIN_US; /* one that has just begun */
        return;
    }
    tell(at, asked, status);
}

/* Of one that the registry knows: it is opened, and its session told. */
static nigh_status take_opened(struct lane_spaces *at, const struct space_asked *asked,
                               uint32_t place, struct space_opened **out)
{
    const struct space_info *info = space_registry_info(at->registry, place);
    struct lane_space_session *session = need_session(at, asked->slot);
    struct space_opened *opened = NULL;

    if (session == NULL)
        return NIGH_NO_RESOURCES;
    for (uint32_t n = 0; n < LIMIT_SPACES; n++) {
        if (session->opened[n].number != 0 && session->opened[n].birth == info->birth) {
            *out = &session->opened[n];
            return NIGH_OK;
        }
        if (session->opened[n].number == 0 && opened == NULL)
            opened = &session->opened[n];
    }
    if (opened == NULL)
        return NIGH_LIMIT; /* some were deleted since */
    lane_space_count_opened(at, session, opened);
    opened->uses = (opened->uses + 1) & (UINT32_MAX >> PLACE_BITS);
    opened->number = number_of((uint32_t)(opened - session->opened), opened->uses);
    opened->place = place;
    opened->birth = info->birth;
    opened->count = opened->rights = 0;
    *out = opened;
    return NIGH_OK;
}

static void tell_opened(struct lane_spaces *at, const struct space_asked *asked, uint32_t place)
{
    const struct lane_seat *seat = at->lane->sessions[asked->slot].seat;
    const struct space_info *info = space_registry_info(at->registry, place);
    uint8_t *to =
        lane_placed(at->lane, asked->slot, asked->place, sizeof(struct session_space_opened));
    struct session_cqe cqe = {.cookie = asked->cookie,
                              .offset = asked->place,
                              .data_size = sizeof(struct session_space_opened),
                              .flags = SESSION_CQE_OPENED,
                              .pin = SESSION_NO_PIN};
    struct session_space_opened said;
    struct space_opened *opened;

    if (to == NULL)
        cqe.status = NIGH_INVALID;
    else if ((asked->argument & ~(uint64_t)rights_of(seat, info)) != 0)
        cqe.status = NIGH_DENIED;
    else
        cqe.status = take_opened(at, asked, place, &opened);
    if (cqe.status != NIGH_OK) {
        cqe.flags = 0;
        cqe.data_size = 0;
    } else {
        opened->count++;
        opened->rights |= (uint32_t)asked->argument;
        cqe.generation = opened->number;
        memset(&said, 0, sizeof(said));
        fill_stat(at, place, seat, &said.stat);
        said.cache_file = file_number(opened->number, FILE_CACHE);
        said.home_file = file_number(opened->number, FILE_HOME);
        memcpy(to, &said, sizeof(said));
    }
    lane_on_complete(at->lane, asked->slot, &cqe);
}

/* Of a birth that was asked for there is no other. */
static uint32_t find_asked(const struct lane_spaces *at, const struct space_info *info)
{
    uint32_t place = space_registry_find(at->registry, info->id);

    return place < LIMIT_SPACES && info->birth != 0 &&
                   space_registry_info(at->registry, place)->birth != info->birth
               ? LIMIT_SPACES
               : place;
}

/* False: it waits on. */
static bool go_on_open(struct lane_spaces *at, struct space_asked *asked)
{
    uint32_t place = find_asked(at, &asked->info);
    nigh_status status =
        place < LIMIT_SPACES ? space_registry_status(at->registry, place) : NIGH_NOT_FOUND;

    if (at->is_out || status == NIGH_PENDING ||
        (status == NIGH_NOT_FOUND && !lane_spaces_know_all(at)))
        return false;
    if (status != NIGH_OK) {
        tell(at, asked, status);
        return true;
    }
    if (lane_is_session(at->lane, asked->slot, asked->begun))
        tell_opened(at, asked, place);
    asked->what = 0;
    return true;
}

/* Whether who makes a space can open it then: of what it has open some may be deleted since. */
static bool can_open_one(const struct lane_spaces *at, uint32_t slot)
{
    const struct lane_space_session *session = at->sessions[slot];
    uint32_t count = 0;

    for (uint32_t n = 0; session != NULL && n < LIMIT_SPACES; n++)
        count += session->opened[n].number != 0;
    return count < LIMIT_SPACES;
}

static nigh_status begin_make(struct lane_spaces *at, const struct space_asked *asked)
{
    if (space_registry_find(at->registry, asked->info.id) == LIMIT_SPACES &&
        !can_open_one(at, asked->slot))
        return NIGH_LIMIT;
    return space_registry_make(at->registry, &asked->info, (uint32_t)(asked - at->asked));
}

static bool go_on_change(struct lane_spaces *at, struct space_asked *asked)
{
    uint32_t number = (uint32_t)(asked - at->asked);
    nigh_status status;

    if (!lane_spaces_know_all(at) || at->lane->now_us < asked->again_us)
        return false;
    asked->is_begun = true;
    status = asked->what == SESSION_SPACE_CREATE
                 ? begin_make(at, asked)
                 : space_registry_delete(at->registry, asked->info.birth, number);
    if (status != NIGH_OK)
        lane_space_answered(at, number, status);
    at->is_awake = true;
    return true;
}

static bool go_on(struct lane_spaces *at, struct space_asked *asked)
{
    if (asked->is_begun)
        return false;
    return asked->what == SESSION_SPACE_OPEN ? go_on_open(at, asked) : go_on_change(at, asked);
}

/* Without all members known a deadline says who was not there. */
static nigh_status overdue(const struct lane_spaces *at, const struct space_asked *asked)
{
    if (asked->is_begun || (lane_spaces_know_all(at) && asked->again_us == 0))
        return NIGH_TIMEOUT;
    return at->lease_us != 0 && asked->again_us == 0 ? NIGH_PEER_LOST : NIGH_NO_QUORUM;
}

bool lane_spaces_asked_turn(struct lane_spaces *at)
{
    bool any = false;

    for (uint32_t n = 0; n < SPACE_ASKED; n++) {
        struct space_asked *asked = &at->asked[n];

        if (asked->what == 0)
            continue;
        any = go_on(at, asked) || any;
        if (asked->what != 0 && !asked->is_told && at->lane->now_us >= asked->deadline_us) {
            tell(at, asked, overdue(at, asked));
            any = true;
        }
    }
    return any;
}

uint64_t lane_spaces_asked_due_us(const struct lane_spaces *at)
{
    uint64_t due_us = UINT64_MAX;

    for (uint32_t n = 0; n < SPACE_ASKED; n++) {
        const struct space_asked *asked = &at->asked[n];

        if (asked->what == 0 || asked->is_told)
            continue;
        due_us = min_u64(due_us, asked->deadline_us);
        if (!asked->is_begun && asked->again_us > at->lane->now_us)
            due_us = min_u64(due_us, asked->again_us);
    }
    return due_us;
}

/* NULL: as many wait as may. Makes and deletions take half of the places. */
static struct space_asked *take_asked(const struct asked_for *want)
{
    struct lane_spaces *at = want->at;
    bool opens = want->sqe->name_size == SESSION_SPACE_OPEN;

    for (uint32_t n = 0; n < LIMIT_SPACE_MAKES; n++) {
        struct space_asked *asked = &at->asked[opens ? LIMIT_SPACE_MAKES + n : n];

        if (asked->what != 0)
            continue;
        memset(asked, 0, sizeof(*asked));
        asked->what = want->sqe->name_size;
        asked->slot = want->slot;
        asked->begun = want->lane->sessions[want->slot].begun;
        asked->cookie = want->sqe->cookie;
        asked->deadline_us = want->deadline_us;
        asked->argument = want->id.argument;
        asked->place = want->sqe->offset;
        return asked;
    }
    return NULL;
}

/* ---- questions ------------------------------------------------------------ */

/* A name, copied out of what the client may change. */
static bool take_name(const uint8_t *bytes, uint64_t count, struct space_info *info)
{
    if (count == 0 || count > LIMIT_SPACE_NAME_BYTES)
        return false;
    memcpy(info->name, bytes, count);
    info->name_bytes = (uint32_t)count;
    info->id = space_name_id(info->name, info->name_bytes);
    return memchr(info->name, 0, count) == NULL;
}

static nigh_status take_make(const struct asked_for *want, const uint8_t *bytes,
                             struct space_info *info)
{
    const struct lane_seat *seat = want->lane->sessions[want->slot].seat;
    struct session_space_make make;
    uint64_t count = want->sqe->data_size;

    if (count <= sizeof(make))
        return NIGH_INVALID;
    memcpy(&make, bytes, sizeof(make));
    if (!take_name(bytes + sizeof(make), count - sizeof(make), info) ||
        ((make.group_rights | make.other_rights) & ~RIGHTS) != 0 ||
        make.durability > SESSION_SPACE_DURABLE_SYNC)
        return NIGH_INVALID;
    if (make.durability != SESSION_SPACE_DURABLE_NONE && want->at->logs == NULL)
        return NIGH_UNSUPPORTED; /* no --log-dir */
    info->durability = make.durability;
    info->block_bytes = make.block_bytes != 0 ? make.block_bytes : LIMIT_SPACE_BLOCK_DEFAULT;
    info->home_bytes = make.home_bytes;
    info->cache_bytes = make.cache_bytes != 0 ? make.cache_bytes : make.home_bytes;
    info->uid = seat->uid;
    info->gid = seat->gid;
    info->mode = mode_of(make.group_rights, make.other_rights);
    if (random_system_seed(&info->birth) != NIGH_OK)
        return NIGH_NO_RESOURCES;
    info->birth |= info->birth == 0;
    return space_info_is_valid(info) ? NIGH_OK : NIGH_INVALID;
}

/* Of one that is known here: whose it is. */
static nigh_status take_deletion(const struct asked_for *want, struct space_info *info)
{
    const struct lane_seat *seat = want->lane->sessions[want->slot].seat;
    uint32_t place = space_registry_find(want->at->registry, info->id);
    const struct space_info *known;

    if (place == LIMIT_SPACES)
        return NIGH_NOT_FOUND;
    known = space_registry_info(want->at->registry, place);
    info->birth = known->birth;
    return is_owner(seat, known) ? NIGH_OK : NIGH_DENIED;
}

static void answer_change(const struct asked_for *want, const uint8_t *bytes)
{
    const struct lane_seat *seat = want->lane->sessions[want->slot].seat;
    struct space_info info = {0};
    struct space_asked *asked;
    nigh_status status;

    if (!seat->may_write)
        status = NIGH_DENIED;
    else if (want->sqe->name_size == SESSION_SPACE_CREATE)
        status = take_make(want, bytes, &info);
    else if (!take_name(bytes, want->sqe->data_size, &info))
        status = NIGH_INVALID;
    else
        status = take_deletion(want, &info);
    asked = status == NIGH_OK ? take_asked(want) : NULL;
    if (asked == NULL) {
        complete(want, status == NIGH_OK ? NIGH_OVERLOADED : status);
        return;
    }
    asked->info = info;
    (void)go_on(want->at, asked);
}

static void answer_open(const struct asked_for *want, const uint8_t *bytes)
{
    struct space_info info = {0};
    struct space_asked *asked;

    if (!take_name(bytes, want->sqe->data_size, &info) || want->id.argument == 0 ||
        (want->id.argument & ~(uint64_t)RIGHTS) != 0) {
        complete(want, NIGH_INVALID);
        return;
    }
    asked = take_asked(want);
    if (asked == NULL) {
        complete(want, NIGH_OVERLOADED);
        return;
    }
    asked->info = info;
    asked->info.birth = want->id.number;
    (void)go_on(want->at, asked);
}

void lane_space_close_all(struct lane_spaces *at, uint64_t birth)
{
    for (uint32_t slot = 0; slot < at->lane->config.max_sessions; slot++) {
        struct lane_space_session *session = at->sessions[slot];

        for (uint32_t n = 0; session != NULL && n < LIMIT_SPACES; n++) {
            if (session->opened[n].birth == birth && session->opened[n].number != 0) {
                lane_space_count_opened(at, session, &session->opened[n]);
                session->opened[n].number = 0;
            }
        }
    }
}

static void answer_close(const struct asked_for *want)
{
    struct space_opened *opened = find_opened(want->at, want->slot, want->id.number);

    if (opened == NULL) {
        complete(want, NIGH_INVALID);
        return;
    }
    if (--opened->count == 0) {
        let_go(want->at, want->slot, opened);
        lane_space_count_opened(want->at, want->at->sessions[want->slot], opened);
        opened->number = 0;
    }
    complete(want, NIGH_OK);
}

/* `to` has room for it. */
static void answer_with(const struct asked_for *want, uint8_t *to, const void *said, uint64_t bytes)
{
    struct session_cqe cqe = {.cookie = want->sqe->cookie,
                              .offset = want->sqe->offset,
                              .data_size = bytes,
                              .pin = SESSION_NO_PIN};

    memcpy(to, said, bytes);
    lane_on_complete(want->lane, want->slot, &cqe);
}

/* STAT and COUNT. */
static void answer_stat(const struct asked_for *want, uint8_t *bytes)
{
    const struct lane_seat *seat = want->lane->sessions[want->slot].seat;
    bool is_count = want->sqe->name_size == SESSION_SPACE_COUNT;
    struct space_info info = {0};
    struct session_space_counts counts;
    struct session_space_stat stat;
    uint32_t place;

    if (!take_name(bytes, want->sqe->data_size, &info)) {
        complete(want, NIGH_INVALID);
        return;
    }
    place = space_registry_find(want->at->registry, info.id);
    if (place == LIMIT_SPACES) {
        complete(want, NIGH_NOT_FOUND);
        return;
    }
    if (!may_see(want->at, seat, space_registry_info(want->at->registry, place))) {
        complete(want, NIGH_DENIED);
        return;
    }
    fill_stat(want->at, place, seat, &stat);
    if (is_count)
        lane_space_counts(want->at, place, &counts);
    answer_with(want, bytes, is_count ? (const void *)&counts : &stat,
                is_count ? sizeof(counts) : sizeof(stat));
}

/* ---- lists ---------------------------------------------------------------- */

static int compare(const char *one, uint32_t one_bytes, const char *other, uint32_t other_bytes)
{
    int first = memcmp(one, other, min_u32(one_bytes, other_bytes));

    return first != 0 ? first : (one_bytes > other_bytes) - (one_bytes < other_bytes);
}

/* Which is the first behind a name, of those that somebody may see; LIMIT_SPACES: none. */
static uint32_t next_behind(const struct lane_spaces *at, const struct lane_seat *seat,
                            const char *name, uint32_t name_bytes)
{
    const struct space_info *best = NULL;
    uint32_t found = LIMIT_SPACES;

    for (uint32_t place = 0; place < LIMIT_SPACES; place++) {
        const struct space_info *info = space_registry_info(at->registry, place);

        if (info == NULL || !may_see(at, seat, info) ||
            compare(info->name, info->name_bytes, name, name_bytes) <= 0)
            continue;
        if (best == NULL ||
            compare(info->name, info->name_bytes, best->name, best->name_bytes) < 0) {
            best = info;
            found = place;
        }
    }
    return found;
}

static void answer_list(const struct asked_for *want, uint8_t *bytes)
{
    const struct lane_seat *seat = want->lane->sessions[want->slot].seat;
    struct session_space_page page;
    char name[LIMIT_SPACE_NAME_BYTES];
    uint32_t name_bytes = (uint32_t)want->sqe->data_size, place;

    if (want->sqe->data_size > sizeof(name)) {
        complete(want, NIGH_INVALID);
        return;
    }
    memcpy(name, bytes, name_bytes);
    memset(&page, 0, sizeof(page));
    place = next_behind(want->at, seat, name, name_bytes);
    while (place < LIMIT_SPACES && page.count < SESSION_SPACE_PAGE) {
        const struct space_info *info = space_registry_info(want->at->registry, place);

        fill_stat(want->at, place, seat, &page.spaces[page.count++]);
        place = next_behind(want->at, seat, info->name, info->name_bytes);
    }
    page.more = place < LIMIT_SPACES;
    answer_with(want, bytes, &page, sizeof(page));
}

/* ---- windows -------------------------------------------------------------- */

static nigh_status make_window(struct lane_spaces *at, uint32_t slot,
                               struct space_window_here *window)
{
    nigh_status status =
        memfd_create_sealed("nigh-window", sizeof(struct space_window), MEMFD_DATA, &window->fd);

    if (status != NIGH_OK)
        return status;
    window->seen = calloc(LIMIT_SPACES, sizeof(*window->seen));
    window->memory = NULL;
    status = window->seen == NULL ? NIGH_NO_RESOURCES
                                  : memfd_map(window->fd, sizeof(struct space_window),
                                              MEMFD_WRITABLE | MEMFD_PREFAULT, &window->memory);
    if (status == NIGH_OK)
        status = space_windows_add(at->windows, slot, window->memory, &window->window);
    if (status == NIGH_OK)
        return NIGH_OK;
    if (window->memory != NULL)
        memfd_unmap(window->memory, sizeof(struct space_window));
    free(window->seen);
    fd_close(&window->fd);
    return status;
}

static void answer_window(const struct asked_for *want)
{
    struct lane_space_session *session = need_session(want->at, want->slot);
    struct session_cqe cqe = {
        .cookie = want->sqe->cookie, .flags = SESSION_CQE_MAPPED, .pin = SESSION_NO_PIN};
    uint32_t place = 0;
    nigh_status status = NIGH_NO_RESOURCES;

    while (session != NULL && place < LIMIT_SESSION_WINDOWS && session->windows[place].number != 0)
        place++;
    if (session != NULL)
        status = place == LIMIT_SESSION_WINDOWS
                     ? NIGH_LIMIT
                     : make_window(want->at, want->slot, &session->windows[place]);
    if (status != NIGH_OK) {
        complete(want, status);
        return;
    }
    session->windows[place].uses = (session->windows[place].uses + 1) & (UINT32_MAX >> PLACE_BITS);
    session->windows[place].number = number_of(place, session->windows[place].uses);
    want->at->window_count++;
    cqe.generation = file_number(session->windows[place].number, FILE_WINDOW);
    lane_on_complete(want->lane, want->slot, &cqe);
}

static void answer_window_end(const struct asked_for *want)
{
    struct space_window_here *window = (want->id.number & 3) == FILE_WINDOW
                                           ? find_window(want->at, want->slot, want->id.number >> 2)
                                           : NULL;

    if (window != NULL)
        end_window(want->at, want->at->sessions[want->slot], window);
    complete(want, window == NULL ? NIGH_INVALID : NIGH_OK);
}

nigh_status lane_space_file_open(const struct lane *lane, uint32_t slot, uint64_t number, int *fd)
{
    const struct lane_spaces *at = lane->spaces;
    enum file_of of = (enum file_of)(number & 3);
    const struct space_opened *opened;
    const struct space_window_here *window;
    const struct space_here *here;

    if (at == NULL)
        return NIGH_NOT_FOUND;
    if (of == FILE_WINDOW) {
        window = find_window(at, slot, number >> 2);
        if (window == NULL)
            return NIGH_NOT_FOUND;
        *fd = fcntl(window->fd, F_DUPFD_CLOEXEC, 0);
        return *fd < 0 ? NIGH_NO_RESOURCES : NIGH_OK;
    }
    opened = find_opened(at, slot, number >> 2);
    here = opened == NULL ? NULL : here_of(at, opened);
    if (here == NULL || of == 0)
        return NIGH_NOT_FOUND;
    return memfd_reopen_read_only(
        here->pieces[of == FILE_HOME ? SPACE_MEMORY_HOME : SPACE_MEMORY_CACHE].memory->fd, fd);
}

/* ---- submissions ---------------------------------------------------------- */

/* Bytes of a place that a question is in, and its answer comes to. */
static uint64_t place_bytes(const struct session_sqe *sqe)
{
    uint64_t most = sqe->data_size;

    switch ((enum session_space_what)sqe->name_size) {
    case SESSION_SPACE_OPEN: return max_u64(most, sizeof(struct session_space_opened));
    case SESSION_SPACE_STAT: return max_u64(most, sizeof(struct session_space_stat));
    case SESSION_SPACE_COUNT: return max_u64(most, sizeof(struct session_space_counts));
    case SESSION_SPACE_LIST: return max_u64(most, sizeof(struct session_space_page));
    case SESSION_SPACE_CREATE:
    case SESSION_SPACE_DELETE: return max_u64(most, 1);
    default: return 0;
    }
}

static void answer(const struct asked_for *want, uint8_t *bytes)
{
    switch ((enum session_space_what)want->sqe->name_size) {
    case SESSION_SPACE_CREATE:
    case SESSION_SPACE_DELETE: answer_change(want, bytes); break;
    case SESSION_SPACE_OPEN: answer_open(want, bytes); break;
    case SESSION_SPACE_CLOSE: answer_close(want); break;
    case SESSION_SPACE_STAT:
    case SESSION_SPACE_COUNT: answer_stat(want, bytes); break;
    case SESSION_SPACE_LIST: answer_list(want, bytes); break;
    case SESSION_SPACE_WINDOW: answer_window(want); break;
    case SESSION_SPACE_WINDOW_END: answer_window_end(want); break;
    case SESSION_SPACE_WHATS: break;
    }
}

void lane_space(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    struct asked_for want = {.lane = lane,
                             .at = lane->spaces,
                             .slot = slot,
                             .sqe = sqe,
                             .deadline_us = clock_deadline_us(lane->now_us, sqe->argument)};
    uint64_t most = place_bytes(sqe);
    uint8_t *bytes = NULL;

    memcpy(&want.id, sqe->id, LIMIT_ID_BYTES);
    if (sqe->flags != 0 || sqe->meta_size != 0 || sqe->name_size == 0 ||
        sqe->name_size >= SESSION_SPACE_WHATS || sqe->data_size > LIMIT_CALL_BYTES) {
        complete(&want, NIGH_INVALID);
        return;
    }
    if (want.at == NULL) {
        complete(&want, NIGH_UNSUPPORTED);
        return;
    }
    if (most > 0) {
        bytes = lane_placed(lane, slot, sqe->offset, most);
        if (bytes == NULL) {
            complete(&want, NIGH_INVALID);
            return;
        }
    }
    answer(&want, bytes);
}

bool lane_cancel_space(struct lane *lane, uint32_t slot, uint32_t cookie)
{
    struct lane_spaces *at = lane->spaces;

    for (uint32_t n = 0; at != NULL && n < SPACE_ASKED; n++) {
        struct space_asked *asked = &at->asked[n];

        if (asked->what != 0 && !asked->is_told && asked->slot == slot && asked->cookie == cookie &&
            asked->begun == lane->sessions[slot].begun) {
            tell(at, asked, NIGH_CANCELED);
            return true;
        }
    }
    return false;
}

void lane_spaces_forget(struct lane *lane, uint32_t slot, bool for_good)
{
    struct lane_spaces *at = lane->spaces;
    struct lane_space_session *session = at == NULL ? NULL : at->sessions[slot];

    for (uint32_t n = 0; at != NULL && n < SPACE_ASKED; n++) {
        if (at->asked[n].what != 0 && at->asked[n].slot == slot) {
            at->asked[n].is_told = true;
            if (!at->asked[n].is_begun)
                at->asked[n].what = 0;
        }
    }
    if (session == NULL)
        return;
    for (uint32_t n = 0; n < LIMIT_SESSION_WINDOWS; n++) {
        if (session->windows[n].number != 0)
            end_window(at, session, &session->windows[n]);
    }
    for (uint32_t n = 0; n < LIMIT_SPACES; n++)
        session->opened[n].number = 0;
    if (for_good) {
        free(session);
        at->sessions[slot] = NULL;
    }
}
