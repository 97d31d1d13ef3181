/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See registry.h. What there is to say is not queued: it follows from what is known, and from who
 * was told what over the link there is now. When that goes, so does all of it.
 */
#include "space/registry.h"

#include <stdlib.h>
#include <string.h>

#include "base/blake.h"
#include "base/bytes.h"
#include "space/registry_internal.h"

uint64_t space_name_id(const char *name, uint32_t name_bytes)
{
    uint8_t id[20];

    blake_id20(name, name_bytes, id);
    return bytes_get_u64(id);
}

/* Of the two bits of somebody's rights: who may write maps the memory, and so reads it. */
static bool is_right(uint32_t rights)
{
    return (rights & 3) != 2;
}

bool space_info_is_valid(const struct space_info *info)
{
    uint32_t block = info->block_bytes;

    return info->birth != 0 && info->name_bytes > 0 && info->name_bytes <= LIMIT_SPACE_NAME_BYTES &&
           info->id == space_name_id(info->name, info->name_bytes) &&
           block >= LIMIT_SPACE_BLOCK_MIN && block <= LIMIT_SPACE_BLOCK_BYTES &&
           (block & (block - 1)) == 0 && info->home_bytes >= 2 * (uint64_t)block &&
           info->home_bytes <= LIMIT_SPACE_HOME_BYTES && info->cache_bytes > 0 &&
           info->cache_bytes <= LIMIT_SPACE_HOME_BYTES && info->home_bytes % block == 0 &&
           info->home_bytes / block <= LIMIT_SPACE_BLOCKS &&
           info->durability <= SPACE_DURABLE_SYNC && is_right(info->mode) &&
           is_right(info->mode >> 2);
}

/* ---- what is known -------------------------------------------------------- */

struct space_known *registry_known(struct space_registry *registry, uint64_t birth)
{
    for (uint32_t n = 0; n < LIMIT_SPACES; n++) {
        struct space_known *known = &registry->known[n];

        if (known->state != KNOWN_FREE && known->info.birth == birth) {
            return known;
        }
    }
    return NULL;
}

struct space_tombstone *registry_tombstone(struct space_registry *registry, uint64_t birth)
{
    for (uint32_t n = 0; n < LIMIT_SPACE_TOMBSTONES; n++) {
        if (registry->tombstones[n].birth == birth) {
            return &registry->tombstones[n];
        }
    }
    return NULL;
}

struct space_tombstone *registry_bury(struct space_registry *registry, uint64_t birth)
{
    struct space_tombstone *tombstone = registry_tombstone(registry, birth);

    if (tombstone == NULL) {
        tombstone = &registry->tombstones[registry->tombstones_ever++ % LIMIT_SPACE_TOMBSTONES];
        *tombstone = (struct space_tombstone){.birth = birth};
    }
    return tombstone;
}

const struct space_info *space_registry_info(const struct space_registry *registry, uint32_t place)
{
    const struct space_known *known = &registry->known[place];

    return place < LIMIT_SPACES && known_is_alive(known) ? &known->info : NULL;
}

uint32_t space_registry_find(const struct space_registry *registry, uint64_t id)
{
    uint32_t n = 0;

    while (n < LIMIT_SPACES &&
           !(known_is_alive(&registry->known[n]) && registry->known[n].info.id == id)) {
        n++;
    }
    return n;
}

uint32_t space_registry_find_birth(const struct space_registry *registry, uint64_t birth)
{
    uint32_t n = 0;

    while (n < LIMIT_SPACES &&
           !(known_is_alive(&registry->known[n]) && registry->known[n].info.birth == birth)) {
        n++;
    }
    return n;
}

nigh_status space_registry_status(const struct space_registry *registry, uint32_t place)
{
    const struct space_known *known = &registry->known[place];

    switch (known->state) {
    case KNOWN_HERE: return known->is_asked ? NIGH_PENDING : NIGH_OK;
    case KNOWN_WITHOUT: return known->why;
    case KNOWN_MAKING: return NIGH_PENDING;
    case KNOWN_FREE:
    case KNOWN_GOING:
    case KNOWN_FORGOTTEN: break;
    }
    return NIGH_NOT_FOUND;
}

/* Each has told the other that it has it. */
static uint64_t joined(const struct space_known *known)
{
    return known->state == KNOWN_HERE ? known->said & known->has : 0;
}

uint64_t space_registry_seats(const struct space_registry *registry, uint32_t place)
{
    const struct space_known *known = &registry->known[place];

    return known->state == KNOWN_HERE ? joined(known) | space_bit(registry->self) : 0;
}

uint64_t space_registry_without(const struct space_registry *registry, uint32_t place)
{
    return registry->known[place].without;
}

bool space_registry_is_settled(const struct space_registry *registry, uint32_t place)
{
    return registry_is_told(registry, &registry->known[place]);
}

bool space_registry_has_joined(const struct space_registry *registry, uint32_t place, uint8_t seat)
{
    return space_set_has(joined(&registry->known[place]), seat);
}

uint32_t space_registry_count(const struct space_registry *registry)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < LIMIT_SPACES; n++) {
        count += known_is_alive(&registry->known[n]);
    }
    return count;
}

uint64_t space_registry_to_say(const struct space_registry *registry)
{
    return registry->to_say;
}

/* ---- spaces --------------------------------------------------------------- */

struct space_known *registry_add(struct space_registry *registry, const struct space_info *info)
{
    struct space_known *known = registry->known;

    while (known < registry->known + LIMIT_SPACES && known->state != KNOWN_FREE) {
        known++;
    }
    if (known == registry->known + LIMIT_SPACES) {
        return NULL;
    }
    memset(known, 0, sizeof(*known));
    known->info = *info;
    known->state = KNOWN_MAKING;
    known->maker = known->asker = SPACE_NOBODY;
    registry->to_say |= registry->linked;
    return known;
}

bool registry_is_told(const struct space_registry *registry, const struct space_known *known)
{
    return (registry->linked & ~(known->has | known->without)) == 0;
}

/* A name, or a place, is free: what was refused for the lack of it may be known now. */
static void tell_again(struct space_registry *registry)
{
    for (uint32_t n = 0; n < SPACE_SEATS; n++) {
        struct registry_peer *peer = &registry->peers[n];

        peer->is_to_tell |= peer->was_refused;
        peer->was_refused = false;
    }
    registry->to_say |= registry->linked;
}

static void forget(struct space_registry *registry, struct space_known *known)
{
    if (known->state != KNOWN_GOING || known->waits != 0 || known->is_unmade ||
        (registry->linked & ~known->gone) != 0) {
        return;
    }
    known->state = KNOWN_FORGOTTEN;
    registry_answer(registry, known, NIGH_OK);
    registry->shell.forgotten(registry->shell.context, registry_place(registry, known));
}

void registry_delete(struct space_registry *registry, struct space_known *known, uint64_t but)
{
    known->is_unmade = known->state == KNOWN_MAKING;
    known->state = KNOWN_GOING;
    known->waits = registry->linked & ~but;
    known->gone = 0;
    registry->to_say |= registry->linked;
    (void)registry_bury(registry, known->info.birth);
    tell_again(registry);
    registry->shell.deleted(registry->shell.context, registry_place(registry, known), &known->info);
    forget(registry, known);
}

/* Its making came to nothing, as one has no memory for it: nobody is to have it. */
static void unmake(struct space_registry *registry, struct space_known *known, nigh_status why)
{
    registry_answer(registry, known, why);
    registry_delete(registry, known, 0);
}

static bool is_made_here(const struct space_known *known)
{
    return known->is_asked && known_is_alive(known);
}

void registry_go_on(struct space_registry *registry, struct space_known *known)
{
    registry->to_say |= registry->linked;
    if (known->state == KNOWN_GOING) {
        forget(registry, known);
    } else if (!is_made_here(known)) {
        return;
    } else if (known->state == KNOWN_WITHOUT) {
        unmake(registry, known, known->why);
    } else if (known->state == KNOWN_HERE && registry_is_told(registry, known) &&
               (registry->linked & ~(known->ready | known->without)) == 0) {
        registry_answer(registry, known, NIGH_OK);
    }
}

void space_registry_made(struct space_registry *registry, uint32_t place, nigh_status status,
                         const struct space_site *memory)
{
    struct space_known *known = &registry->known[place];

    if (known->state == KNOWN_GOING) {
        known->is_unmade = false;
        forget(registry, known);
        return;
    }
    NIGH_ASSERT(known->state == KNOWN_MAKING);
    known->state = status == NIGH_OK ? KNOWN_HERE : KNOWN_WITHOUT;
    known->why = status;
    if (status == NIGH_OK) {
        known->own = *memory;
    }
    registry_go_on(registry, known);
}

bool space_registry_is_making(const struct space_registry *registry, uint32_t place)
{
    const struct space_known *known = &registry->known[place];

    return known->state == KNOWN_MAKING || (known->state == KNOWN_GOING && known->is_unmade);
}

bool space_registry_is_new(const struct space_registry *registry, uint32_t place)
{
    const struct space_known *known = &registry->known[place];

    return known->state == KNOWN_MAKING && (known->is_asked || known->maker != SPACE_NOBODY);
}

nigh_status space_registry_restore(struct space_registry *registry, const struct space_info *info)
{
    struct space_known *known;

    NIGH_ASSERT(registry->linked == 0);
    if (space_registry_find(registry, info->id) < LIMIT_SPACES ||
        registry_known(registry, info->birth) != NULL) {
        return NIGH_EXISTS;
    }
    known = registry_add(registry, info);
    if (known == NULL) {
        return NIGH_LIMIT;
    }
    registry->shell.make(registry->shell.context, registry_place(registry, known), &known->info);
    return NIGH_OK;
}

void space_registry_bury(struct space_registry *registry, uint64_t birth)
{
    NIGH_ASSERT(registry->linked == 0 && birth != 0);
    (void)registry_bury(registry, birth);
}

void space_registry_lose(struct space_registry *registry, uint32_t place, nigh_status why)
{
    struct space_known *known = &registry->known[place];

    NIGH_ASSERT(registry->linked == 0 && known->state == KNOWN_HERE);
    known->state = KNOWN_WITHOUT;
    known->why = why;
    registry_go_on(registry, known);
}

void space_registry_remake(struct space_registry *registry, uint32_t place)
{
    struct space_known *known = &registry->known[place];

    NIGH_ASSERT(registry->linked == 0 && known_is_alive(known) && known->state != KNOWN_MAKING);
    known->state = KNOWN_MAKING;
    registry->shell.make(registry->shell.context, place, &known->info);
}

void space_registry_free(struct space_registry *registry, uint32_t place)
{
    NIGH_ASSERT(registry->known[place].state == KNOWN_FORGOTTEN);
    registry->known[place].state = KNOWN_FREE;
    tell_again(registry);
}

/* ---- asks ----------------------------------------------------------------- */

void registry_end_ask(struct space_registry *registry, struct space_ask *ask, nigh_status status)
{
    ask->is_used = false;
    registry->shell.answered(registry->shell.context, ask->number, status);
}

void registry_answer_to(struct space_registry *registry, uint8_t seat, uint32_t number,
                        nigh_status status)
{
    struct registry_peer *peer = &registry->peers[seat];

    if (seat == registry->self) {
        for (uint32_t n = 0; n < LIMIT_SPACE_MAKES; n++) {
            if (registry->asks[n].is_used && registry->asks[n].number == number) {
                registry_end_ask(registry, &registry->asks[n], status);
                return;
            }
        }
    } else if (seat != SPACE_NOBODY) {
        NIGH_ASSERT(peer->answers < LIMIT_SPACE_MAKES); /* it has no more under way */
        peer->answer[peer->answers++] = (struct space_answer_to){number, status};
        registry->to_say |= space_bit(seat);
    }
}

void registry_answer(struct space_registry *registry, struct space_known *known, nigh_status status)
{
    if (known->is_asked) {
        known->is_asked = false;
        registry_answer_to(registry, known->asker, known->number, status);
    }
}

nigh_status registry_begin_make(struct space_registry *registry, const struct space_info *info,
                                uint8_t seat, uint32_t number)
{
    struct space_known *known;

    if (!registry->has_lease) {
        return NIGH_NO_QUORUM;
    }
    if (space_registry_find(registry, info->id) < LIMIT_SPACES ||
        registry_known(registry, info->birth) != NULL ||
        registry_tombstone(registry, info->birth) != NULL) {
        return NIGH_EXISTS;
    }
    known = registry_add(registry, info);
    if (known == NULL) {
        return NIGH_LIMIT;
    }
    known->is_asked = true;
    known->asker = seat;
    known->number = number;
    registry->shell.make(registry->shell.context, registry_place(registry, known), &known->info);
    return NIGH_OK;
}

nigh_status registry_begin_delete(struct space_registry *registry, uint64_t birth, uint8_t seat,
                                  uint32_t number)
{
    struct space_known *known = registry_known(registry, birth);

    if (!registry->has_lease) {
        return NIGH_NO_QUORUM;
    }
    if (known == NULL || !known_is_alive(known)) {
        return NIGH_NOT_FOUND;
    }
    if (known->is_asked) {
        return NIGH_BUSY;
    }
    known->is_asked = true;
    known->asker = seat;
    known->number = number;
    registry_delete(registry, known, 0);
    return NIGH_OK;
}

/* NULL: as many are under way as may be. */
static struct space_ask *take_ask(struct space_registry *registry, uint64_t id, uint32_t number)
{
    const struct space_registry_shell *shell = &registry->shell;

    for (uint32_t n = 0; n < LIMIT_SPACE_MAKES; n++) {
        struct space_ask *ask = &registry->asks[n];

        if (!ask->is_used) {
            memset(ask, 0, sizeof(*ask));
            ask->is_used = true;
            ask->number = number;
            ask->home =
                shell->home(shell->context, id, registry->linked | space_bit(registry->self));
            registry->to_say |= space_bit(ask->home) & registry->linked;
            return ask;
        }
    }
    return NULL;
}

/* Here, if this node is who is asked. */
static nigh_status begin(struct space_registry *registry, struct space_ask *ask)
{
    nigh_status status = NIGH_OK;

    if (ask->home != registry->self) {
        return NIGH_OK;
    }
    ask->is_said = true;
    status = ask->deletes
                 ? registry_begin_delete(registry, ask->info.birth, registry->self, ask->number)
                 : registry_begin_make(registry, &ask->info, registry->self, ask->number);
    if (status != NIGH_OK) {
        ask->is_used = false;
    }
    return status;
}

nigh_status space_registry_make(struct space_registry *registry, const struct space_info *info,
                                uint32_t number)
{
    struct space_ask *ask;

    if (!space_info_is_valid(info)) {
        return NIGH_INVALID;
    }
    ask = take_ask(registry, info->id, number);
    if (ask == NULL) {
        return NIGH_OVERLOADED;
    }
    ask->info = *info;
    return begin(registry, ask);
}

nigh_status space_registry_delete(struct space_registry *registry, uint64_t birth, uint32_t number)
{
    uint32_t place = space_registry_find_birth(registry, birth);
    struct space_ask *ask;

    if (place == LIMIT_SPACES) {
        return NIGH_NOT_FOUND;
    }
    ask = take_ask(registry, registry->known[place].info.id, number);
    if (ask == NULL) {
        return NIGH_OVERLOADED;
    }
    ask->deletes = true;
    ask->info.birth = birth;
    return begin(registry, ask);
}

/* ---- links ---------------------------------------------------------------- */

static void link_up(struct space_registry *registry, uint8_t seat)
{
    memset(&registry->peers[seat], 0, sizeof(registry->peers[seat]));
    registry->linked |= space_bit(seat);
    registry->to_say |= space_bit(seat);
}

/* What was said to it, and by it, is of a link that is none any more. */
static void leave(struct space_registry *registry, struct space_known *known, uint8_t seat)
{
    uint64_t others = ~space_bit(seat);
    bool had_joined = space_set_has(joined(known), seat);

    known->told &= others;
    known->said &= others;
    known->has &= others;
    known->without &= others;
    known->unknown &= others;
    known->ready &= others;
    known->waits &= others;
    known->gone &= others;
    known->asker = known->asker == seat ? SPACE_NOBODY : known->asker;
    known->maker = known->maker == seat ? SPACE_NOBODY : known->maker;
    if (had_joined) {
        registry->shell.left(registry->shell.context, registry_place(registry, known), seat);
    }
    registry_go_on(registry, known);
}

static void link_down(struct space_registry *registry, uint8_t seat)
{
    registry->linked &= ~space_bit(seat);
    registry->to_say &= ~space_bit(seat);
    for (uint32_t n = 0; n < LIMIT_SPACE_TOMBSTONES; n++) {
        registry->tombstones[n].to_tell &= ~space_bit(seat);
    }
    for (uint32_t n = 0; n < LIMIT_SPACES; n++) {
        if (registry->known[n].state != KNOWN_FREE) {
            leave(registry, &registry->known[n], seat);
        }
    }
    for (uint32_t n = 0; n < LIMIT_SPACE_MAKES; n++) {
        if (registry->asks[n].is_used && registry->asks[n].home == seat) {
            registry_end_ask(registry, &registry->asks[n], NIGH_PEER_LOST);
        }
    }
}

void space_registry_link(struct space_registry *registry, uint8_t seat, bool is_up)
{
    NIGH_ASSERT(seat < SPACE_SEATS && seat != registry->self);
    if (is_up && !space_set_has(registry->linked, seat)) {
        link_up(registry, seat);
    } else if (!is_up && space_set_has(registry->linked, seat)) {
        link_down(registry, seat);
    }
}

void space_registry_lease(struct space_registry *registry, bool has_lease)
{
    registry->has_lease = has_lease;
}

/* ---- create, destroy ------------------------------------------------------ */

nigh_status space_registry_create(uint8_t self, const struct space_registry_shell *shell,
                                  struct space_registry **registry)
{
    struct space_registry *made = calloc(1, sizeof(*made));

    NIGH_ASSERT(self < SPACE_SEATS);
    if (made == NULL) {
        return NIGH_NO_RESOURCES;
    }
    made->self = self;
    made->shell = *shell;
    *registry = made;
    return NIGH_OK;
}

void space_registry_destroy(struct space_registry *registry)
{
    free(registry);
}

static bool known_is_valid(const struct space_registry *registry, const struct space_known *known)
{
    uint64_t all = known->told | known->said | known->has | known->without | known->ready |
                   known->waits | known->gone;

    return (all & ~registry->linked) == 0 && (known->has & known->without) == 0 &&
           (known->state != KNOWN_GOING || known->waits != 0 || known->is_unmade ||
            (registry->linked & ~known->gone) != 0) &&
           (!known_is_alive(known) || space_info_is_valid(&known->info));
}

bool space_registry_is_valid(const struct space_registry *registry)
{
    for (uint32_t n = 0; n < LIMIT_SPACES; n++) {
        const struct space_known *known = &registry->known[n];

        if (known->state != KNOWN_FREE && !known_is_valid(registry, known)) {
            return false;
        }
        for (uint32_t other = 0; known_is_alive(known) && other < n; other++) {
            if (known_is_alive(&registry->known[other]) &&
                registry->known[other].info.id == known->info.id) {
                return false;
            }
        }
    }
    return (registry->to_say & ~registry->linked) == 0;
}
