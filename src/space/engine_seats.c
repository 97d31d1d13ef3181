/* SPDX-License-Identifier: Apache-2.0 */
/* See engine.h: who is there, whom they are linked with, and the terms of their homes. */
#include "space/engine_internal.h"

/* ---- what is said --------------------------------------------------------- */

static void say_hello(struct space_engine *engine, uint8_t seat, uint8_t why)
{
    struct space_wire hello = {
        .kind = SPACE_WIRE_HELLO,
        .why = why,
        .term = engine->seats[seat].member.cache.term,
        .operands = {engine->config.life, engine->met},
    };

    engine_say_alone(engine, seat, &hello, 0);
}

void engine_say_links(struct space_engine *engine)
{
    struct space_wire links = {.kind = SPACE_WIRE_LINKS, .operands = {0, engine->met}};

    for (uint64_t left = engine->met; left != 0; left &= left - 1) {
        engine_say_alone(engine, space_set_first(left), &links, 0);
    }
}

/* ---- links ---------------------------------------------------------------- */

void engine_seat_up(struct space_engine *engine, uint8_t number)
{
    struct engine_seat *seat = &engine->seats[number];

    NIGH_ASSERT(!seat->is_up && number != engine->config.self);
    seat->is_up = true;
    seat->is_met = seat->is_cut = false;
    engine->up |= space_bit(number);
    say_hello(engine, number, 0);
}

void engine_seat_down(struct space_engine *engine, uint8_t number)
{
    struct engine_seat *seat = &engine->seats[number];
    bool was_met = seat->is_met;

    NIGH_ASSERT(seat->is_up);
    seat->is_up = seat->is_met = seat->is_cut = false;
    seat->has_term = seat->is_adopting = false;
    seat->links = 0;
    engine->up &= ~space_bit(number);
    engine->met &= ~space_bit(number);
    engine->told &= ~space_bit(number);
    engine_drop_letters(engine, number);
    engine_drop_held(engine, number);
    engine_end_far(engine, number);
    engine_forget_asker(engine, number);
    engine_forget_asked_of(engine, number);
    /* What its home may have said, or heard, is lost: it begins a term. */
    seat->member.cache.is_open = false;
    engine->is_hungry = true;
    for (uint8_t home = 0; home < SPACE_SEATS; home++) {
        engine->seats[home].whole &= ~space_bit(number);
        engine->seats[home].torn |= was_met ? space_bit(number) : 0;
    }
    engine_forget_tries(engine, number); /* nothing is asked of it from here on */
    if (space_set_has(engine->term.home.members, number)) {
        engine->needs_term = true;
    }
    if (was_met) {
        engine_say_links(engine);
    }
    for (uint8_t home = 0; home < SPACE_SEATS; home++) {
        engine_try_adopt(engine, home);
    }
}

/* ---- who is there --------------------------------------------------------- */

/*
 * Members that lost a link: what was said over it is lost. Where the term is not open yet nothing
 * was; but who lost it may hear that it is open when it has another link to that node, over which
 * nothing of this term is said any more.
 */
static void hear_links(struct space_engine *engine, uint8_t seat, uint64_t links)
{
    uint64_t others = engine->term.home.members & ~space_bit(engine->config.self);
    uint64_t lost = engine->seats[seat].links & ~links & others;

    engine->seats[seat].links = links;
    if (lost != 0 && space_set_has(engine->term.home.members, seat)) {
        engine->needs_term = true;
    }
    engine_try_open(engine);
}

/* It has the life that it had when a term was last open with it, and none has begun to open with
 * another since: so it has all that it had, whoever was met in its place. */
static bool is_as_logged(const struct space_engine *engine, uint8_t number)
{
    const struct engine_log *log = &engine->log;
    uint64_t life = engine->seats[number].life;

    return engine_has_log(engine) && life == log->lives[number] &&
           engine->since[number] == log->since[number];
}

static void meet(struct space_engine *engine, uint8_t number, const struct space_wire *wire)
{
    struct engine_seat *seat = &engine->seats[number];

    if (engine_is_log_old(engine, number, wire->term)) {
        if (engine->has_begun || space_set_has(engine->term.home.members, number)) {
            engine_refuse(engine, number); /* it was told of terms by this life alone */
        } else {
            engine_log_fail(engine, NIGH_CORRUPT);
        }
        return;
    }
    if (seat->life != wire->operands[0]) {
        /* What it had in a life before this one it does not know. */
        engine->term.home.anew |= space_bit(number);
        seat->life = wire->operands[0];
        if (is_as_logged(engine, number)) {
            engine->term.home.anew &= ~space_bit(number);
        }
    }
    seat->known = wire->term;
    engine->was_known |= wire->term != 0 && engine->opened == 0;
    seat->is_met = true;
    engine->met |= space_bit(number);
    if (space_set_has(engine->members, number)) {
        engine->needs_term = true;
    }
    seat->links = wire->operands[1];
}

static void hear_hello(struct space_engine *engine, uint8_t number, const struct space_wire *wire)
{
    struct engine_seat *seat = &engine->seats[number];
    bool is_new = !seat->is_met;

    if (!is_new && seat->life != wire->operands[0]) {
        engine_refuse(engine, number);
        return;
    }
    if (is_new) {
        meet(engine, number, wire);
        if (!seat->is_met) {
            return;
        }
    } else {
        hear_links(engine, number, wire->operands[1]);
    }
    if (wire->why != SPACE_WIRE_IS_ANSWER) {
        say_hello(engine, number, SPACE_WIRE_IS_ANSWER);
    }
    if (is_new) {
        engine_say_links(engine);
    }
}

/* ---- the terms of others' homes ------------------------------------------- */

/* Who was a member and is none: what it writes of that home's blocks must have its end first. */
void engine_try_adopt(struct space_engine *engine, uint8_t home)
{
    struct engine_seat *seat = &engine->seats[home];
    uint64_t gone = seat->members & ~seat->next_members & engine->up;

    if (!seat->has_term) {
        return;
    }
    for (uint64_t left = gone; left != 0; left &= left - 1) {
        engine_cut(engine, space_set_first(left), NIGH_PEER_LOST);
    }
    if (gone != 0) {
        return;
    }
    seat->has_term = false;
    if (space_member_adopt(&seat->member, home, seat->number) != SPACE_DONE) {
        engine_refuse(engine, home);
        return;
    }
    seat->members = seat->next_members;
    seat->whole = space_bit(home);
    engine_adopt(engine, home);
    (void)engine_adopt_more(engine, home);
    engine_wake(engine);
}

static void hear_term(struct space_engine *engine, uint8_t home, const struct space_wire *wire)
{
    struct engine_seat *seat = &engine->seats[home];
    uint64_t members = wire->operands[0];

    if (!space_set_has(members, engine->config.self) || !space_set_has(members, home) ||
        wire->term <= seat->member.cache.term || (seat->has_term && wire->term <= seat->number)) {
        engine_refuse(engine, home);
        return;
    }
    /* Of two that come before one is adopted who is gone by either is gone. */
    seat->is_anew = wire->why == SPACE_WIRE_ANEW || (seat->has_term && seat->is_anew);
    seat->next_members = members;
    seat->torn = 0;
    seat->number = wire->term;
    seat->has_term = true;
    engine_try_adopt(engine, home);
}

static void hear_opened(struct space_engine *engine, uint8_t home, uint32_t number)
{
    struct engine_seat *seat = &engine->seats[home];

    switch (space_member_opened(&seat->member, home, number)) {
    case SPACE_DONE:
        seat->whole = (engine->met & seat->members & ~seat->torn) | space_bit(home);
        engine_open_cache(engine, home);
        break;
    case SPACE_STALE: engine->stats.stale++; break;
    default: engine_refuse(engine, home); break;
    }
}

void engine_seat_message(struct space_engine *engine, uint8_t seat, const struct space_wire *wire)
{
    if (wire->kind == SPACE_WIRE_HELLO) {
        hear_hello(engine, seat, wire);
        return;
    }
    if (!engine->seats[seat].is_met) {
        engine_refuse(engine, seat);
        return;
    }
    if (wire->kind == SPACE_WIRE_LINKS) {
        hear_links(engine, seat, wire->operands[1]);
    } else if (wire->event == SPACE_TERM_TERM) {
        hear_term(engine, seat, wire);
    } else if (wire->event == SPACE_TERM_OPENED) {
        hear_opened(engine, seat, wire->term);
    } else {
        engine_claimed(engine, seat, wire->term);
    }
}
