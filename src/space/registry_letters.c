/* SPDX-License-Identifier: Apache-2.0 */
/* See registry.h. What is said to a node, as it follows from what is known; and what is heard. */
#include <string.h>

#include "space/registry_internal.h"

/* ---- what there is to say ------------------------------------------------- */

static void put_space(struct space_letter *letter, const struct space_info *info)
{
    letter->kind = SPACE_LETTER_SPACE;
    letter->birth = info->birth;
    letter->space.home_bytes = info->home_bytes;
    letter->space.cache_bytes = info->cache_bytes;
    letter->space.block_bytes = info->block_bytes;
    letter->space.durability = info->durability;
    letter->space.uid = info->uid;
    letter->space.gid = info->gid;
    letter->space.mode = info->mode;
}

static bool next_answer(struct space_registry *registry, const struct registry_peer *peer,
                        struct space_letter *letter)
{
    if (peer->answers > 0) {
        letter->kind = SPACE_LETTER_ANSWER;
        letter->number = peer->answer[0].number;
        letter->answer.status = peer->answer[0].status;
    } else if (peer->refusals > 0) {
        letter->kind = SPACE_LETTER_HAVE;
        letter->flags = SPACE_LETTER_UNKNOWN;
        letter->birth = peer->refusal[0].birth;
        letter->have.status = peer->refusal[0].status;
        registry->next.is_refusal = true;
    } else if (peer->is_to_tell) {
        letter->kind = SPACE_LETTER_AGAIN;
    }
    return letter->kind != 0;
}

static bool next_of_known(const struct space_registry *registry, const struct space_known *known,
                          uint8_t seat, struct space_letter *letter)
{
    uint64_t bit = space_bit(seat);

    letter->birth = known->info.birth;
    if (known->state == KNOWN_GOING && (known->gone & bit) == 0) {
        letter->kind = SPACE_LETTER_GONE;
        letter->flags = (known->waits & bit) != 0 ? SPACE_LETTER_WAITS : 0;
    } else if (known_is_alive(known) && (known->told & bit) == 0) {
        put_space(letter, &known->info);
        letter->flags = known->is_asked ? SPACE_LETTER_MADE : 0;
    } else if (known_is_alive(known) && known->state != KNOWN_MAKING && (known->said & bit) == 0) {
        letter->kind = SPACE_LETTER_HAVE;
        letter->have.status = known->state == KNOWN_HERE ? NIGH_OK : known->why;
        letter->have.memory = known->own;
    } else if (known_is_alive(known) && known->state != KNOWN_MAKING && known->maker == seat &&
               registry_is_told(registry, known)) {
        letter->kind = SPACE_LETTER_READY;
    }
    return letter->kind != 0;
}

static bool next_of_knowns(struct space_registry *registry, uint8_t seat,
                           struct space_letter *letter)
{
    for (uint32_t n = 0; n < LIMIT_SPACES; n++) {
        if (registry->known[n].state != KNOWN_FREE &&
            next_of_known(registry, &registry->known[n], seat, letter)) {
            registry->next.place = n;
            return true;
        }
    }
    return false;
}

static bool next_of_tombstones(struct space_registry *registry, uint8_t seat,
                               struct space_letter *letter)
{
    for (uint32_t n = 0; n < LIMIT_SPACE_TOMBSTONES; n++) {
        if ((registry->tombstones[n].to_tell & space_bit(seat)) != 0) {
            letter->kind = SPACE_LETTER_GONE;
            letter->birth = registry->tombstones[n].birth;
            registry->next.is_of_tombstone = true;
            registry->next.place = n;
            return true;
        }
    }
    return false;
}

static bool next_ask(struct space_registry *registry, uint8_t seat, struct space_letter *letter)
{
    for (uint32_t n = 0; n < LIMIT_SPACE_MAKES; n++) {
        const struct space_ask *ask = &registry->asks[n];

        if (!ask->is_used || ask->is_said || ask->home != seat) {
            continue;
        }
        if (ask->deletes) {
            letter->kind = SPACE_LETTER_DELETE;
            letter->birth = ask->info.birth;
        } else {
            put_space(letter, &ask->info);
            letter->flags = SPACE_LETTER_ASKS;
        }
        letter->number = ask->number;
        registry->next.is_ask = true;
        registry->next.place = n;
        return true;
    }
    return false;
}

bool space_registry_next(struct space_registry *registry, uint8_t seat, struct space_letter *letter)
{
    struct registry_peer *peer = &registry->peers[seat];

    memset(letter, 0, sizeof(*letter));
    registry->next = (struct registry_next){.seat = seat};
    if (!space_set_has(registry->linked, seat)) {
        return false;
    }
    if (peer->has_name) {
        *letter = peer->name;
    } else if (!next_answer(registry, peer, letter)) {
        memset(letter, 0, sizeof(*letter));
        if (!next_of_tombstones(registry, seat, letter) &&
            !next_of_knowns(registry, seat, letter)) {
            memset(letter, 0, sizeof(*letter));
            (void)next_ask(registry, seat, letter);
        }
    }
    registry->next.kind = letter->kind;
    if (letter->kind == 0) {
        registry->to_say &= ~space_bit(seat);
    }
    return letter->kind != 0;
}

/* ---- what was said -------------------------------------------------------- */

/* Its name is next. */
static void said_info(struct registry_peer *peer, const struct space_info *info)
{
    memset(&peer->name, 0, sizeof(peer->name));
    peer->name.kind = SPACE_LETTER_NAME;
    peer->name.birth = info->birth;
    peer->name.name_bytes = (uint8_t)info->name_bytes;
    memcpy(peer->name.name, info->name, info->name_bytes);
    peer->has_name = true;
}

static void join(struct space_registry *registry, struct space_known *known, uint8_t seat)
{
    uint32_t place = registry_place(registry, known);

    if (space_registry_has_joined(registry, place, seat)) {
        registry->shell.joined(registry->shell.context, place, seat, &known->memories[seat]);
    }
}

static void said_have(struct space_registry *registry, struct registry_peer *peer)
{
    struct space_known *known = &registry->known[registry->next.place];

    if (registry->next.is_refusal) {
        peer->refusals--;
        memmove(peer->refusal, peer->refusal + 1, peer->refusals * sizeof(peer->refusal[0]));
        return;
    }
    known->said |= space_bit(registry->next.seat);
    join(registry, known, registry->next.seat);
}

static void said_gone(struct space_registry *registry)
{
    uint64_t bit = space_bit(registry->next.seat);

    if (registry->next.is_of_tombstone) {
        registry->tombstones[registry->next.place].to_tell &= ~bit;
    } else {
        registry->known[registry->next.place].gone |= bit;
        registry_go_on(registry, &registry->known[registry->next.place]);
    }
}

static void said_space(struct space_registry *registry, struct registry_peer *peer)
{
    const struct registry_next *next = &registry->next;

    if (next->is_ask) {
        registry->asks[next->place].is_said = true;
        said_info(peer, &registry->asks[next->place].info);
    } else {
        registry->known[next->place].told |= space_bit(next->seat);
        said_info(peer, &registry->known[next->place].info);
    }
}

static void said_answer(struct registry_peer *peer)
{
    peer->answers--;
    peer->asks--;
    memmove(peer->answer, peer->answer + 1, peer->answers * sizeof(peer->answer[0]));
}

void space_registry_said(struct space_registry *registry, uint8_t seat)
{
    struct registry_peer *peer = &registry->peers[seat];
    struct registry_next *next = &registry->next;

    NIGH_ASSERT(next->seat == seat && next->kind >= SPACE_LETTERS);
    switch ((enum space_letter_kind)next->kind) {
    case SPACE_LETTER_SPACE: said_space(registry, peer); break;
    case SPACE_LETTER_NAME: peer->has_name = false; break;
    case SPACE_LETTER_HAVE: said_have(registry, peer); break;
    case SPACE_LETTER_READY: registry->known[next->place].maker = SPACE_NOBODY; break;
    case SPACE_LETTER_GONE: said_gone(registry); break;
    case SPACE_LETTER_DELETE: registry->asks[next->place].is_said = true; break;
    case SPACE_LETTER_ANSWER: said_answer(peer); break;
    case SPACE_LETTER_AGAIN: peer->is_to_tell = false; break;
    case SPACE_LETTERS_END: break;
    }
    next->kind = 0;
}

/* ---- what is heard -------------------------------------------------------- */

static bool is_zero(const void *bytes, size_t count)
{
    const uint8_t *at = bytes;

    while (count > 0 && *at == 0) {
        at++;
        count--;
    }
    return count == 0;
}

static bool is_status(int32_t status)
{
    return status >= NIGH_STATUS_LOWEST && status <= 0;
}

static bool is_whole(const struct space_letter *letter)
{
    uint8_t may = 0;

    switch ((enum space_letter_kind)letter->kind) {
    case SPACE_LETTER_SPACE: may = SPACE_LETTER_ASKS | SPACE_LETTER_MADE; break;
    case SPACE_LETTER_GONE: may = SPACE_LETTER_WAITS; break;
    case SPACE_LETTER_HAVE: may = SPACE_LETTER_UNKNOWN; break;
    default: break;
    }
    return letter->zero == 0 && (letter->flags & ~may) == 0 &&
           (letter->birth != 0 || letter->kind == SPACE_LETTER_ANSWER ||
            letter->kind == SPACE_LETTER_AGAIN) &&
           (letter->name_bytes == 0 || letter->kind == SPACE_LETTER_NAME);
}

/* What two letters say. False: it cannot be. */
static bool read_info(const struct space_letter *half, const struct space_letter *letter,
                      struct space_info *info)
{
    uint32_t bytes = letter->name_bytes;

    memset(info, 0, sizeof(*info));
    if (half->birth != letter->birth || bytes == 0 || bytes > LIMIT_SPACE_NAME_BYTES ||
        !is_zero(letter->name + bytes, sizeof(letter->name) - bytes) ||
        !is_zero(half->space.zero, sizeof(half->space.zero))) {
        return false;
    }
    info->birth = half->birth;
    info->home_bytes = half->space.home_bytes;
    info->cache_bytes = half->space.cache_bytes;
    info->block_bytes = half->space.block_bytes;
    info->durability = half->space.durability;
    info->uid = half->space.uid;
    info->gid = half->space.gid;
    info->mode = half->space.mode;
    info->name_bytes = bytes;
    memcpy(info->name, letter->name, bytes);
    info->id = space_name_id(info->name, bytes);
    return space_info_is_valid(info);
}

/* It has one of more asks under way than may be. */
static nigh_status count_ask(struct registry_peer *peer)
{
    if (peer->asks == LIMIT_SPACE_MAKES) {
        return NIGH_PROTOCOL;
    }
    peer->asks++;
    return NIGH_OK;
}

static nigh_status hear_ask(struct space_registry *registry, uint8_t seat,
                            const struct space_info *info, uint32_t number)
{
    nigh_status status = count_ask(&registry->peers[seat]);

    if (status != NIGH_OK) {
        return status;
    }
    status = registry_begin_make(registry, info, seat, number);
    if (status != NIGH_OK) {
        registry_answer_to(registry, seat, number, status);
    }
    return NIGH_OK;
}

static nigh_status refuse(struct space_registry *registry, uint8_t seat, uint64_t birth,
                          nigh_status status)
{
    struct registry_peer *peer = &registry->peers[seat];

    if (peer->refusals == LIMIT_SPACES) {
        return NIGH_PROTOCOL;
    }
    peer->was_refused = true;
    peer->refusal[peer->refusals++] = (struct space_refusal){birth, status};
    registry->to_say |= space_bit(seat);
    return NIGH_OK;
}

/* Who takes one for alive, or waits, hears by its tombstone that it is gone, unless it is told that
 * once over this link anyway. */
static void tell_gone(struct space_registry *registry, const struct space_known *known,
                      uint64_t birth, uint8_t seat)
{
    uint64_t bit = space_bit(seat);

    if (known == NULL || (known->state == KNOWN_FORGOTTEN && (known->gone & bit) == 0)) {
        registry_bury(registry, birth)->to_tell |= bit;
        registry->to_say |= bit;
    }
}

/* A node tells of one that is not known here. */
static nigh_status hear_new(struct space_registry *registry, uint8_t seat,
                            const struct space_info *info)
{
    struct space_known *known;

    if (registry_tombstone(registry, info->birth) != NULL) {
        tell_gone(registry, NULL, info->birth, seat);
        return NIGH_OK;
    }
    if (space_registry_find(registry, info->id) < LIMIT_SPACES) {
        return refuse(registry, seat, info->birth, NIGH_EXISTS);
    }
    known = registry_add(registry, info);
    if (known == NULL) {
        return refuse(registry, seat, info->birth, NIGH_LIMIT);
    }
    registry->shell.make(registry->shell.context, registry_place(registry, known), &known->info);
    return NIGH_OK;
}

static bool is_same(const struct space_info *one, const struct space_info *other)
{
    return one->home_bytes == other->home_bytes && one->cache_bytes == other->cache_bytes &&
           one->block_bytes == other->block_bytes && one->durability == other->durability &&
           one->uid == other->uid && one->gid == other->gid && one->mode == other->mode &&
           one->id == other->id;
}

/* Nothing that was said of it, and by that node, counts. */
static void know_again(struct space_known *known, uint8_t seat)
{
    uint64_t others = ~space_bit(seat);

    known->told &= others;
    known->said &= others;
    known->without &= others;
    known->unknown &= others;
}

static void hear_again(struct space_registry *registry, uint8_t seat)
{
    for (uint32_t n = 0; n < LIMIT_SPACES; n++) {
        struct space_known *known = &registry->known[n];

        if (known_is_alive(known) && space_set_has(known->unknown, seat)) {
            know_again(known, seat);
        }
    }
    registry->to_say |= space_bit(seat);
}

static nigh_status hear_space(struct space_registry *registry, uint8_t seat,
                              const struct space_info *info, uint8_t flags)
{
    struct space_known *known = registry_known(registry, info->birth);
    nigh_status status = NIGH_OK;

    if (known == NULL) {
        status = hear_new(registry, seat, info);
        known = registry_known(registry, info->birth);
    }
    if (status != NIGH_OK || known == NULL) {
        return status;
    }
    if (!known_is_alive(known)) {
        tell_gone(registry, known, info->birth, seat);
        return NIGH_OK;
    }
    if (!is_same(&known->info, info)) {
        return NIGH_PROTOCOL;
    }
    if (space_set_has(known->unknown, seat)) { /* it knows it now, by another */
        know_again(known, seat);
    }
    if (!known->is_asked) { /* its maker tells all that it is: they are to say READY */
        known->told |= space_bit(seat);
    }
    known->maker = (flags & SPACE_LETTER_MADE) != 0 ? seat : known->maker;
    registry_go_on(registry, known);
    return NIGH_OK;
}

static nigh_status hear_name(struct space_registry *registry, uint8_t seat,
                             const struct space_letter *letter)
{
    struct registry_peer *peer = &registry->peers[seat];
    struct space_info info;

    if (!peer->has_half || !read_info(&peer->half, letter, &info)) {
        return NIGH_PROTOCOL;
    }
    peer->has_half = false;
    return (peer->half.flags & SPACE_LETTER_ASKS) != 0
               ? hear_ask(registry, seat, &info, peer->half.number)
               : hear_space(registry, seat, &info, peer->half.flags);
}

static nigh_status hear_have(struct space_registry *registry, uint8_t seat,
                             const struct space_letter *letter)
{
    struct space_known *known = registry_known(registry, letter->birth);
    uint64_t bit = space_bit(seat);

    if (!is_status(letter->have.status)) {
        return NIGH_PROTOCOL;
    }
    if (known == NULL || !known_is_alive(known)) {
        return NIGH_OK; /* it hears that it is gone, or that its name is another's */
    }
    if ((known->has & bit) != 0) { /* said again, as a refusal of before came between */
        return letter->have.status == NIGH_OK &&
                       memcmp(&known->memories[seat], &letter->have.memory,
                              sizeof(letter->have.memory)) == 0
                   ? NIGH_OK
                   : NIGH_PROTOCOL;
    }
    known->without &= ~bit;
    known->unknown &= ~bit;
    if (letter->have.status == NIGH_OK) {
        known->has |= bit;
        known->memories[seat] = letter->have.memory;
        join(registry, known, seat);
    } else {
        known->without |= bit;
        known->unknown |= (letter->flags & SPACE_LETTER_UNKNOWN) != 0 ? bit : 0;
        if (known->is_asked) {
            registry_answer(registry, known, letter->have.status);
            registry_delete(registry, known, 0);
            return NIGH_OK;
        }
    }
    registry_go_on(registry, known);
    return NIGH_OK;
}

static void hear_gone(struct space_registry *registry, uint8_t seat,
                      const struct space_letter *letter)
{
    struct space_known *known = registry_known(registry, letter->birth);

    if (known != NULL && known_is_alive(known)) {
        registry_answer(registry, known, NIGH_NOT_FOUND);
        registry_delete(registry, known, space_bit(seat));
        return;
    }
    if (known != NULL) {
        known->waits &= ~space_bit(seat);
        registry_go_on(registry, known);
    } else {
        (void)registry_bury(registry, letter->birth); /* others may yet tell of it */
    }
    if ((letter->flags & SPACE_LETTER_WAITS) != 0) {
        tell_gone(registry, known, letter->birth, seat);
    }
}

static nigh_status hear_delete(struct space_registry *registry, uint8_t seat,
                               const struct space_letter *letter)
{
    nigh_status status = count_ask(&registry->peers[seat]);

    if (status != NIGH_OK) {
        return status;
    }
    status = registry_begin_delete(registry, letter->birth, seat, letter->number);
    if (status != NIGH_OK) {
        registry_answer_to(registry, seat, letter->number, status);
    }
    return NIGH_OK;
}

static nigh_status hear_answer(struct space_registry *registry, uint8_t seat,
                               const struct space_letter *letter)
{
    for (uint32_t n = 0; n < LIMIT_SPACE_MAKES && is_status(letter->answer.status); n++) {
        struct space_ask *ask = &registry->asks[n];

        if (ask->is_used && ask->is_said && ask->home == seat && ask->number == letter->number) {
            registry_end_ask(registry, ask, letter->answer.status);
            return NIGH_OK;
        }
    }
    return NIGH_PROTOCOL;
}

static void hear_ready(struct space_registry *registry, uint8_t seat,
                       const struct space_letter *letter)
{
    struct space_known *known = registry_known(registry, letter->birth);

    if (known != NULL && known_is_alive(known)) {
        known->ready |= space_bit(seat);
        registry_go_on(registry, known);
    }
}

nigh_status space_registry_hear(struct space_registry *registry, uint8_t seat,
                                const struct space_letter *letter)
{
    struct registry_peer *peer = &registry->peers[seat];

    if (!space_set_has(registry->linked, seat) || !is_whole(letter) ||
        (peer->has_half && letter->kind != SPACE_LETTER_NAME)) {
        return NIGH_PROTOCOL;
    }
    switch ((enum space_letter_kind)letter->kind) {
    case SPACE_LETTER_SPACE:
        peer->half = *letter;
        peer->has_half = true;
        return NIGH_OK;
    case SPACE_LETTER_NAME: return hear_name(registry, seat, letter);
    case SPACE_LETTER_HAVE: return hear_have(registry, seat, letter);
    case SPACE_LETTER_READY: hear_ready(registry, seat, letter); return NIGH_OK;
    case SPACE_LETTER_GONE: hear_gone(registry, seat, letter); return NIGH_OK;
    case SPACE_LETTER_DELETE: return hear_delete(registry, seat, letter);
    case SPACE_LETTER_ANSWER: return hear_answer(registry, seat, letter);
    case SPACE_LETTER_AGAIN: hear_again(registry, seat); return NIGH_OK;
    case SPACE_LETTERS_END: break;
    }
    return NIGH_PROTOCOL;
}
