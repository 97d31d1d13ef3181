/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See engine.h: try-locks that wait for other nodes, and whether a client there holds their block.
 * Nothing here changes who has what: a try ends, or it waits on.
 *
 * Who tries asks the home, over the way that its ask for the block went; the home looks at its own
 * clients, and asks those that what is under way waits for, one after the other, over the way that
 * what it wants of them went. So who answers has heard what is wanted of it, and what it says is so
 * at some time behind the question, and that behind the try: a lock that was let go before the try
 * began is no cause that it ends.
 */
#include "space/engine_internal.h"

/* ---- who tries ------------------------------------------------------------ */

static struct engine_try *try_of(struct space_engine *engine, uint64_t block)
{
    uint64_t hash = space_hash(block, engine->config.home.shift);

    return &engine->tries[(hash >> 32) % LIMIT_SPACE_TRIES];
}

static void take_question(struct space_engine *engine, uint8_t seat, uint64_t block,
                          uint64_t number);

static bool is_asking(struct space_engine *engine, uint64_t block)
{
    return engine_is_ours(engine, block) ? engine->term.is_open && !engine->needs_term
                                         : engine_cache_is_asking(engine, block);
}

/* It counts for those who wait by now, and for nobody who comes later. */
static void ask(struct space_engine *engine, struct engine_try *try, struct space_spot *place)
{
    uint64_t slot = (uint64_t)(try - engine->tries), block = place->address;
    struct space_wire wire = {.kind = SPACE_WIRE_IS_HELD, .address = block};

    try->block = block;
    try->number = ++engine->tries_count * LIMIT_SPACE_TRIES + slot;
    LIST_FOREACH(node, &place->ops)
    {
        struct space_op *op = container_of(node, struct space_op, node);

        if (op->is_try && op->state == OP_WAITS && op->asked <= ENGINE_ASKS_LATER) {
            op->asked = try->number;
        }
    }
    if (engine_is_ours(engine, block)) {
        take_question(engine, engine->config.self, block, try->number);
        return;
    }
    wire.term = engine->seats[space_address_seat(block)].member.cache.term;
    wire.operands[1] = try->number;
    engine_say_alone(engine, (uint8_t)space_address_seat(block), &wire, 0);
}

void engine_ask_if_held(struct space_engine *engine, struct space_op *op)
{
    struct engine_try *try = try_of(engine, op->address);
    struct space_spot *place = op->place;

    op->asked = ENGINE_ASKS_LATER;
    if (!is_asking(engine, place->address)) {
        return; /* it is tried again before it waits for another node */
    }
    if (try->number == 0) {
        ask(engine, try, place);
    } else if (!list_is_linked(&place->tries)) {
        list_push_back(&try->waits, &place->tries);
    }
}

/* NULL: nobody waits there with a question. */
static struct space_op *forget_question(struct space_spot *place)
{
    struct space_op *last = NULL;

    LIST_FOREACH(node, &place->ops)
    {
        struct space_op *op = container_of(node, struct space_op, node);

        if (op->is_try && op->state == OP_WAITS && op->asked != 0) {
            op->asked = ENGINE_ASKS_LATER;
            last = op;
        }
    }
    return last;
}

void engine_ask_again(struct space_engine *engine)
{
    for (uint32_t n = 0; n < engine->places_new; n++) {
        struct space_spot *place = &engine->places[n];
        bool is_ours = place->address != 0 && engine_is_ours(engine, place->address);
        struct space_op *op = is_ours ? forget_question(place) : NULL;

        if (op != NULL) {
            engine_ask_if_held(engine, op);
        }
    }
}

void engine_leave_tries(struct space_spot *place)
{
    if (list_is_linked(&place->tries)) {
        list_remove(&place->tries);
    }
}

static bool has_question(const struct space_spot *place)
{
    LIST_FOREACH(node, &place->ops)
    {
        if (container_of(node, struct space_op, node)->asked == ENGINE_ASKS_LATER) {
            return true;
        }
    }
    return false;
}

static void ask_next(struct space_engine *engine, struct engine_try *try)
{
    struct list_node *node;

    while (try->number == 0 && (node = list_pop_front(&try->waits)) != NULL) {
        struct space_spot *place = container_of(node, struct space_spot, tries);

        if (has_question(place) && is_asking(engine, place->address)) {
            ask(engine, try, place);
        }
    }
}

static void take_answer(struct space_engine *engine, uint64_t number, bool is_held)
{
    struct engine_try *try = &engine->tries[number % LIMIT_SPACE_TRIES];

    if (try->number != number) {
        engine->stats.stale++;
        return;
    }
    try->number = 0;
    if (is_held) {
        engine_end_tries(engine, try->block, number);
    }
    ask_next(engine, try);
}

void engine_forget_tries(struct space_engine *engine, uint8_t home)
{
    for (uint32_t n = 0; n < LIMIT_SPACE_TRIES; n++) {
        struct engine_try *try = &engine->tries[n];

        if (try->number != 0 && space_address_seat(try->block) == home) {
            try->number = 0;
            ask_next(engine, try);
        }
    }
}

/* ---- the home ------------------------------------------------------------- */

static uint32_t *bucket_of(struct space_engine *engine, uint64_t block)
{
    uint64_t hash = space_hash(block, engine->config.home.shift);

    return &engine->asked_heads[(hash >> 32) % ENGINE_ASKED_BUCKETS];
}

static void set_due(struct space_engine *engine, struct engine_asked *asked)
{
    if (!list_is_linked(&asked->due)) {
        list_push_back(&engine->asked_due, &asked->due);
    }
}

void engine_note_asked(struct space_engine *engine, uint64_t number)
{
    uint64_t block = engine_address(engine, number);
    struct engine_asked *asked;

    for (uint32_t n = *bucket_of(engine, block); n != 0; n = asked->next) {
        asked = &engine->asked[n - 1];
        if (asked->block == block) {
            set_due(engine, asked);
        }
    }
}

static struct engine_asked *asked_of(struct space_engine *engine, uint8_t seat, uint64_t number)
{
    return &engine->asked[seat * LIMIT_SPACE_TRIES + number % LIMIT_SPACE_TRIES];
}

static void take_question(struct space_engine *engine, uint8_t seat, uint64_t block,
                          uint64_t number)
{
    struct engine_asked *asked = asked_of(engine, seat, number);
    uint32_t *head = bucket_of(engine, block);

    NIGH_ASSERT(!asked->is_used);
    *asked = (struct engine_asked){.block = block,
                                   .number = number,
                                   .seat = seat,
                                   .at = SPACE_NOBODY,
                                   .next = *head,
                                   .is_used = true};
    *head = (uint32_t)(asked - engine->asked) + 1;
    engine->asked_used++;
    set_due(engine, asked);
}

static void drop_question(struct space_engine *engine, struct engine_asked *asked)
{
    uint32_t n = (uint32_t)(asked - engine->asked) + 1, *at = bucket_of(engine, asked->block);

    while (*at != n) {
        at = &engine->asked[*at - 1].next;
    }
    *at = asked->next;
    if (list_is_linked(&asked->due)) {
        list_remove(&asked->due);
    }
    asked->is_used = false;
    engine->asked_used--;
}

static void say_of_home(struct space_engine *engine, uint8_t seat, struct space_wire *wire)
{
    wire->term = engine->term.home.term;
    if (space_set_has(engine->told, seat)) {
        engine_say_alone(engine, seat, wire, 0);
    }
}

static void answer(struct space_engine *engine, struct engine_asked *asked, bool is_held)
{
    struct space_wire wire = {.kind = SPACE_WIRE_HELD,
                              .event = is_held,
                              .address = asked->block,
                              .operands = {0, asked->number}};

    drop_question(engine, asked);
    if (asked->seat == engine->config.self) {
        take_answer(engine, asked->number, is_held);
    } else {
        say_of_home(engine, asked->seat, &wire);
    }
}

/* One more that may hold it. Who says that it does not will not hold it before it has answered
 * what is under way, so that one is enough: whoever has it then is asked as that is wanted of him.
 */
static void pass_on(struct space_engine *engine, struct engine_asked *asked, uint64_t awaited)
{
    uint64_t left = awaited & ~asked->looked & engine->told;
    struct space_wire wire = {.kind = SPACE_WIRE_IS_HELD, .address = asked->block};

    if (asked->at != SPACE_NOBODY || left == 0) {
        return;
    }
    asked->at = space_set_first(left);
    asked->looked |= space_bit(asked->at);
    asked->sent = ++engine->asked_count * ENGINE_ASKED + (uint64_t)(asked - engine->asked);
    wire.operands[1] = asked->sent;
    say_of_home(engine, asked->at, &wire);
}

static void look_at(struct space_engine *engine, struct engine_asked *asked)
{
    uint64_t number = engine_number(engine, asked->block), round;
    const struct space_entry *entry = &engine->entries[number];
    uint32_t n = engine_is_current(engine, asked->block) ? engine->work_of[number] : 0;
    const struct space_work *work = n != 0 ? &engine->works[n - 1] : NULL;

    if (work == NULL || !space_home_waits(entry, work, asked->seat)) {
        answer(engine, asked, false);
        return;
    }
    if (entry->holds != 0) {
        if (!engine_want(engine, asked->block)) {
            answer(engine, asked, true);
        }
        return;
    }
    round = (uint64_t)entry->state << 32 | entry->count;
    if (asked->round != round) {
        asked->round = round;
        asked->looked = 0;
        asked->at = SPACE_NOBODY;
    }
    pass_on(engine, asked, space_home_awaited(entry, work));
}

/* Were something let go yet that is told to be, nobody might hold it. */
void engine_look_at_asked(struct space_engine *engine)
{
    struct list_node *node;

    while (engine->log.unlocks_count == 0 && (node = list_pop_front(&engine->asked_due)) != NULL) {
        look_at(engine, container_of(node, struct engine_asked, due));
    }
}

/* What a holder has answered. */
static void take_holders(struct space_engine *engine, uint8_t seat, const struct space_wire *wire)
{
    struct engine_asked *asked = &engine->asked[wire->operands[1] % ENGINE_ASKED];

    if (!asked->is_used || asked->at != seat || asked->sent != wire->operands[1] ||
        asked->block != wire->address) {
        engine->stats.stale++;
        return;
    }
    asked->at = SPACE_NOBODY;
    if (wire->event != 0) {
        answer(engine, asked, true);
    } else {
        set_due(engine, asked);
    }
}

void engine_forget_asked(struct space_engine *engine)
{
    for (uint32_t n = 0; engine->asked_used > 0 && n < ENGINE_ASKED; n++) {
        if (engine->asked[n].is_used) {
            drop_question(engine, &engine->asked[n]);
        }
    }
}

void engine_forget_asked_of(struct space_engine *engine, uint8_t seat)
{
    for (uint32_t n = 0; engine->asked_used > 0 && n < LIMIT_SPACE_TRIES; n++) {
        struct engine_asked *asked = asked_of(engine, seat, n);

        if (asked->is_used) {
            drop_question(engine, asked);
        }
    }
}

/* ---- messages ------------------------------------------------------------- */

/* false: it is of a term that is over, or nobody says it. */
static bool is_of_term(struct space_engine *engine, uint8_t seat, uint32_t said, uint32_t term,
                       bool is_open)
{
    if (said < term) {
        engine->stats.stale++; /* as a new one is to come */
        return false;
    }
    if (said > term || !is_open) {
        engine_refuse(engine, seat);
        return false;
    }
    return true;
}

static void hear_at_home(struct space_engine *engine, uint8_t seat, const struct space_wire *wire)
{
    if (!space_set_has(engine->told, seat)) {
        engine->stats.stale++;
        return;
    }
    if (!is_of_term(engine, seat, wire->term, engine->term.home.term, engine->term.is_open)) {
        return;
    }
    if (wire->kind == SPACE_WIRE_HELD) {
        take_holders(engine, seat, wire);
    } else if (asked_of(engine, seat, wire->operands[1])->is_used) {
        engine_refuse(engine, seat);
    } else {
        take_question(engine, seat, wire->address, wire->operands[1]);
    }
}

static void hear_from_home(struct space_engine *engine, uint8_t home, const struct space_wire *wire)
{
    const struct engine_seat *seat = &engine->seats[home];
    struct space_wire held = {.kind = SPACE_WIRE_HELD,
                              .term = wire->term,
                              .address = wire->address,
                              .operands = {0, wire->operands[1]}};

    if (!is_of_term(engine, home, wire->term, seat->member.cache.term,
                    seat->member.cache.is_open)) {
        return;
    }
    if (wire->kind == SPACE_WIRE_HELD) {
        take_answer(engine, wire->operands[1], wire->event != 0);
    } else if (space_set_has(seat->whole, home)) {
        held.event = engine_cache_is_held(engine, wire->address);
        engine_say_alone(engine, home, &held, 0);
    }
}

void engine_try_message(struct space_engine *engine, uint8_t seat, const struct space_wire *wire)
{
    if (!engine_is_address(engine, wire->address) ||
        engine_block(engine, wire->address) != wire->address) {
        engine_refuse(engine, seat);
    } else if (engine_is_ours(engine, wire->address)) {
        hear_at_home(engine, seat, wire);
    } else if (space_address_seat(wire->address) == seat) {
        hear_from_home(engine, seat, wire);
    } else {
        engine_refuse(engine, seat);
    }
}

/* ---- valid ---------------------------------------------------------------- */

bool engine_tries_are_valid(const struct space_engine *engine)
{
    uint32_t used = 0, found = 0;

    for (uint32_t n = 0; n < ENGINE_ASKED_BUCKETS; n++) {
        for (uint32_t at = engine->asked_heads[n]; at != 0; at = engine->asked[at - 1].next) {
            found += engine->asked[at - 1].is_used;
        }
    }
    for (uint32_t n = 0; engine->asked_used > 0 && n < ENGINE_ASKED; n++) {
        used += engine->asked[n].is_used;
    }
    for (uint32_t n = 0; n < LIMIT_SPACE_TRIES; n++) {
        const struct engine_try *try = &engine->tries[n];

        if (try->number == 0 && !list_empty(&try->waits)) {
            return false;
        }
    }
    return used == engine->asked_used && found == used;
}
