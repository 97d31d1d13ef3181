/* SPDX-License-Identifier: Apache-2.0 */
/* See engine.h: blocks whose home this node is, and its terms. */
#include "space/engine_internal.h"

#include <string.h>

/* ---- works ---------------------------------------------------------------- */

/* What a work is of a block of which nobody has said anything in a new term. */
static void init_silent(struct space_work *work)
{
    memset(work, 0, sizeof(*work));
    work->asker = work->owner = work->leaver = SPACE_NOBODY;
}

static bool may_be_silent(const struct space_entry *entry)
{
    return entry->state == SPACE_HOME_REBUILDING || entry->state == SPACE_HOME_BARE;
}

/* What the block has besides, in its own place or in `scratch`. */
static struct space_work *work_of(struct space_engine *engine, uint64_t number,
                                  struct space_work *scratch)
{
    uint32_t work = engine->work_of[number];

    if (work != 0) {
        return &engine->works[work - 1];
    }
    if (may_be_silent(&engine->entries[number])) {
        init_silent(scratch);
    } else {
        memset(scratch, 0, sizeof(*scratch));
    }
    return scratch;
}

static bool is_needless(const struct space_entry *entry, const struct space_work *work)
{
    struct space_work silent;

    if (may_be_silent(entry)) {
        init_silent(&silent);
        return memcmp(work, &silent, sizeof(silent)) == 0;
    }
    return space_work_is_idle(entry, work);
}

/* There is one for each block. */
static void keep_work(struct space_engine *engine, uint64_t number, const struct space_work *work)
{
    uint32_t *at = &engine->work_of[number];
    bool is_needless_now = is_needless(&engine->entries[number], work);

    if (*at != 0 && is_needless_now) {
        engine->works_free[engine->works_left++] = *at;
        *at = 0;
    } else if (*at == 0 && !is_needless_now) {
        *at =
            engine->works_left > 0 ? engine->works_free[--engine->works_left] : ++engine->works_new;
        engine->works[*at - 1] = *work;
    }
}

/* ---- atomics that nodes asked for ----------------------------------------- */

static uint32_t *atomics_of(struct space_engine *engine, uint64_t block)
{
    uint64_t hash = space_hash(block, engine->config.home.shift);

    return &engine->atomic_heads[(hash >> 32) % LIMIT_SPACE_PLACES];
}

static uint32_t *find_atomic(struct space_engine *engine, uint64_t block, uint8_t seat)
{
    uint32_t *at = atomics_of(engine, block);

    while (*at != 0 && (engine_block(engine, engine->atomics[*at - 1].address) != block ||
                        engine->atomics[*at - 1].seat != seat)) {
        at = &engine->atomics[*at - 1].next;
    }
    return at;
}

/* false: it has one of that block, or there are too many. */
static bool keep_atomic(struct space_engine *engine, uint8_t seat, const struct space_wire *wire)
{
    static const uint8_t kinds[] = {[SPACE_RECORD_ADD] = SPACE_OP_ADD,
                                    [SPACE_RECORD_EXCHANGE] = SPACE_OP_EXCHANGE,
                                    [SPACE_RECORD_SWAP] = SPACE_OP_SWAP};
    uint32_t *at = find_atomic(engine, engine_block(engine, wire->address), seat);
    uint32_t n = engine->atomics_free;

    if (*at != 0 || (n == 0 && engine->atomics_new == LIMIT_SPACE_PLACES)) {
        return false;
    }
    if (n != 0) {
        engine->atomics_free = engine->atomics[n - 1].next;
    } else {
        n = ++engine->atomics_new;
    }
    engine->atomics[n - 1] =
        (struct engine_atomic){.address = wire->address,
                               .operands = {wire->operands[0], wire->operands[1]},
                               .seat = seat,
                               .kind = kinds[wire->atomic]};
    *at = n;
    return true;
}

static void drop_atomic(struct space_engine *engine, uint64_t block, uint8_t seat)
{
    uint32_t *at = find_atomic(engine, block, seat), n = *at;

    if (n != 0) {
        *at = engine->atomics[n - 1].next;
        engine->atomics[n - 1].next = engine->atomics_free;
        engine->atomics_free = n;
    }
}

static void clear_atomics(struct space_engine *engine)
{
    memset(engine->atomic_heads, 0, LIMIT_SPACE_PLACES * sizeof(uint32_t));
    engine->atomics_free = engine->atomics_new = 0;
}

static _Atomic uint64_t *word_of(struct space_engine *engine, uint64_t number)
{
    return &engine->config.home.words[number];
}

static _Atomic uint64_t *bytes_of(struct space_engine *engine, uint64_t number)
{
    return space_bytes_of(&engine->config.home, number);
}

/* ---- what a step says is done --------------------------------------------- */

/* In a new term, too, the bytes of what is REBUILDING are the last, and nobody else may write yet.
 */
static bool is_shown(const struct space_engine *engine, uint64_t number)
{
    const struct space_entry *entry = &engine->entries[number];

    return engine->has_begun &&
           (space_entry_is_readable(entry) || entry->state == SPACE_HOME_REBUILDING) &&
           entry->holds != SPACE_HELD_ALONE &&
           !(engine_has_log(engine) && engine_is_fresh(engine, &engine->log.blocks[number]));
}

static struct engine_bytes bytes_at(struct space_engine *engine, uint64_t number)
{
    return (struct engine_bytes){engine_address(engine, number), SPACE_NO_FRAME,
                                 word_of(engine, number), bytes_of(engine, number)};
}

void engine_do_atomics(struct space_engine *engine, uint64_t number, struct space_out *out)
{
    struct engine_bytes at = bytes_at(engine, number);

    for (uint32_t n = 0; n < out->count; n++) {
        const struct space_message *message = &out->sends[n];
        uint32_t found = message->event == SPACE_CACHE_ATOMIC_DONE
                             ? *find_atomic(engine, at.block, message->seat)
                             : 0;

        if (found != 0) {
            struct engine_atomic *atomic = &engine->atomics[found - 1];

            /* One that cannot be logged is told to nobody. */
            (void)engine_do_atomic(engine, atomic->kind, atomic->operands,
                                   (uint32_t)(atomic->address & engine->config.home.mask), &at,
                                   &atomic->result);
        }
    }
}

static void say(struct space_engine *engine, uint64_t number, const struct space_message *message)
{
    struct space_send send = {.seat = message->seat};
    uint64_t block = engine_address(engine, number), result = 0;

    if (message->event == SPACE_CACHE_REFUSE || message->event == SPACE_CACHE_ATOMIC_DONE) {
        uint32_t n = *find_atomic(engine, block, message->seat);

        result = n != 0 ? engine->atomics[n - 1].result : 0;
        drop_atomic(engine, block, message->seat);
    }
    if (!space_set_has(engine->told, message->seat)) {
        engine->stats.dropped++;
        return;
    }
    space_wire_of(message, SPACE_WIRE_TO_CACHE, block, &send.wire);
    send.wire.operands[0] = message->event == SPACE_CACHE_ATOMIC_DONE ? result
                            : space_wire_has_place(&send.wire)        ? engine->before[number]
                                                                      : 0;
    if (space_cache_event_has_bytes(message->event)) {
        const struct space_view *cache = &engine->frames.view;

        send.count = 1u << engine->config.home.shift;
        send.from = SPACE_MEMORY_HOME;
        send.from_offset = (uint64_t)((const uint8_t *)bytes_of(engine, number) -
                                      (const uint8_t *)engine->config.home_memory);
        send.to = SPACE_MEMORY_CACHE;
        send.to_offset = (uint64_t)((const uint8_t *)space_bytes_of(cache, message->frame) -
                                    (const uint8_t *)engine->config.cache_memory);
    }
    engine_say(engine, &send, engine_has_log(engine) ? engine->log.blocks[number].last : 0);
}

static enum space_result step(struct space_engine *engine, uint64_t number,
                              const struct space_message *message, struct space_out *out)
{
    struct space_entry *entry = &engine->entries[number];
    struct space_work scratch, *work = work_of(engine, number, &scratch);
    struct engine_home_step taken;
    uint8_t before = entry->state;
    enum space_result result;
    bool is_wanted;

    taken.entry_before = *entry;
    taken.entry = entry;
    taken.work = work;
    taken.message = message;
    /* Much, and a log alone looks at it: without one nothing is stored there. */
    if (engine_has_log(engine)) {
        taken.work_before = *work;
    }
    result = space_home_step(&engine->term.home, entry, work, message, out);
    if (result == SPACE_REFUSED || result == SPACE_STALE) {
        return result;
    }
    engine_log_home(engine, number, &taken, out);
    is_wanted = entry->holds != 0 && work->queued > 0;
    keep_work(engine, number, work);
    engine->stats.lost += (entry->state == SPACE_HOME_LOST) - (before == SPACE_HOME_LOST);
    if (engine_show(word_of(engine, number), !engine->is_paused && is_shown(engine, number))) {
        space_view_fence();
    }
    for (uint32_t n = 0; n < out->count; n++) {
        say(engine, number, &out->sends[n]);
    }
    if (is_wanted) {
        (void)engine_want(engine, engine_address(engine, number));
    }
    if (engine->asked_used > 0) {
        engine_note_asked(engine, number);
    }
    return result;
}

/* What waits here has its turn, and then who waits elsewhere. */
static void carry_wakes(struct space_engine *engine, uint64_t number, struct space_out *out)
{
    struct space_message yield = engine_here(engine, SPACE_HOME_YIELD);

    while (out->wakes) {
        engine_try_again(engine, engine_address(engine, number));
        if (step(engine, number, &yield, out) == SPACE_REFUSED) {
            return;
        }
    }
}

enum space_result engine_home_here(struct space_engine *engine, uint64_t number, uint8_t event)
{
    struct space_message message = engine_here(engine, event);
    struct space_out out;
    enum space_result result = step(engine, number, &message, &out);

    carry_wakes(engine, number, &out);
    return result;
}

/* ---- clients -------------------------------------------------------------- */

static uint8_t event_of(uint8_t kind)
{
    switch (kind) {
    case SPACE_OP_READ: return SPACE_HOME_READ;
    case SPACE_OP_LOCK_READ: return SPACE_HOME_LOCK_READ;
    case SPACE_OP_LOCK_WRITE: return SPACE_HOME_LOCK_WRITE;
    case SPACE_OP_UNLOCK: return SPACE_HOME_UNLOCK;
    case OP_FREE_BLOCK: return SPACE_HOME_FREE;
    default: return SPACE_HOME_WRITE;
    }
}

/* A try-lock of what somebody holds, and not only for itself, or that others wait for: those who
 * only keep it were asked for it as these began to wait. */
static bool is_busy(struct space_engine *engine, uint64_t number, const struct space_op *op)
{
    const struct space_entry *entry = &engine->entries[number];
    struct space_work scratch, *work = work_of(engine, number, &scratch);
    bool is_held =
        op->kind == SPACE_OP_LOCK_READ ? entry->holds >= SPACE_HELD_ALONE - 1 : entry->holds != 0;

    if (work->queued > 0 && !work->is_turn && entry->state <= SPACE_HOME_FREED) {
        return true;
    }
    return is_held && !engine_want(engine, engine_block(engine, op->address));
}

bool engine_home_is_wanted(struct space_engine *engine, uint64_t number)
{
    uint32_t work = engine->work_of[number];

    return work != 0 && engine->works[work - 1].queued > 0;
}

static enum engine_tried end_now(struct space_op *op, nigh_status status)
{
    op->status = status;
    return TRIED_ENDED;
}

static enum engine_tried perform(struct space_engine *engine, uint64_t number, struct space_op *op)
{
    struct engine_bytes at = bytes_at(engine, number);

    return engine_perform(engine, op, &at);
}

enum engine_tried engine_try_home(struct space_engine *engine, struct space_op *op)
{
    uint64_t number = engine_number(engine, op->address);
    const struct space_entry *entry = &engine->entries[number];
    enum space_result result;

    if (!engine->has_begun) {
        return op->kind == SPACE_OP_UNLOCK ? end_now(op, NIGH_LOCK_LOST) : TRIED_STARVES;
    }
    if (!engine_is_current(engine, op->address)) {
        return end_now(op, op->kind == SPACE_OP_UNLOCK ? NIGH_LOCK_LOST : NIGH_NODE_LOST);
    }
    if (op->holds != SPACE_HOLDS_NOTHING && op->kind != SPACE_OP_UNLOCK) {
        /* It would wait behind who waits for it to let go. */
        return entry->holds != 0 &&
                       (op->holds == SPACE_HOLDS_ALONE) == (entry->holds == SPACE_HELD_ALONE)
                   ? perform(engine, number, op)
                   : end_now(op, NIGH_LOCK_LOST);
    }
    if (op->is_try && is_busy(engine, number, op)) {
        return end_now(op, NIGH_BUSY);
    }
    result = engine_home_here(engine, number, event_of(op->kind));
    switch (result) {
    case SPACE_DONE: return perform(engine, number, op);
    case SPACE_WAITS: return TRIED_WAITS;
    case SPACE_GONE: return end_now(op, engine_gone_status(entry->state));
    default: return end_now(op, NIGH_LOCK_LOST);
    }
}

/* By the table a WRITE of what is UNSHARED is done where nobody holds it; and nobody waits, whose
 * turn would be next. */
bool engine_owns_home(struct space_engine *engine, uint64_t address, struct space_owned *owned)
{
    uint64_t number = engine_number(engine, address);
    const struct space_entry *entry = &engine->entries[number];

    if (!engine->has_begun || !engine_is_current(engine, address) ||
        entry->state != SPACE_HOME_UNSHARED || entry->holds != 0 || engine->work_of[number] != 0) {
        return false;
    }
    owned->word = word_of(engine, number);
    owned->bytes = bytes_of(engine, number);
    return true;
}

/* ---- messages ------------------------------------------------------------- */

static bool is_claim(uint8_t event)
{
    return event == SPACE_HOME_CLAIM_SHARED || event == SPACE_HOME_CLAIM_DIRTY ||
           event == SPACE_HOME_CLAIM_LEFT;
}

/* They gave it up in another life of this home than whoever has it now: it is lost to them. */
static void forget_leavers(struct space_engine *engine, uint64_t number)
{
    struct space_work scratch, *work = work_of(engine, number, &scratch);
    struct space_message release = {.event = SPACE_CACHE_RELEASE,
                                    .whom = SPACE_NOBODY,
                                    .term = engine->term.home.term,
                                    .epoch.term = engine->term.home.term};
    struct space_wire wire;

    space_wire_of(&release, SPACE_WIRE_TO_CACHE, engine_address(engine, number), &wire);
    for (uint64_t left = work->left; left != 0; left &= left - 1) {
        engine_say_alone(engine, space_set_first(left), &wire, 0);
    }
    work->left = 0;
    work->leaver = SPACE_NOBODY;
    work->left_to = 0;
    work->left_by = (struct space_epoch){0};
    keep_work(engine, number, work);
    engine_log_free(engine, number);
    engine->entries[number].state = SPACE_HOME_LOST;
    engine->stats.lost++;
}

/* A home that does not know what it had learns of a block that somebody has it. */
static void remember_nothing(struct space_engine *engine, uint8_t seat,
                             const struct space_wire *wire)
{
    uint64_t number = engine_number(engine, wire->address);
    struct space_entry *entry = &engine->entries[number];

    if (!engine_remembers(engine) && entry->state == SPACE_HOME_BARE && entry->seats == 0 &&
        wire->event != SPACE_HOME_CLAIM_LEFT && !engine_is_current(engine, wire->address)) {
        forget_leavers(engine, number);
    }
    if (!engine_remembers(engine) && entry->state == SPACE_HOME_LOST) {
        entry->state = SPACE_HOME_BARE;
        engine->lives[number] = engine_life(engine, wire->address);
        engine->stats.lost--;
        engine_log_claim(engine, number, seat, wire->epoch);
    }
    if (!engine_remembers(engine) && entry->seats == 0 && space_wire_has_place(wire)) {
        engine->before[number] = (uint32_t)wire->operands[0];
    }
}

/* Who asks for what is of a life before, and is nobody's any more, hears so. */
static bool is_of_now(struct space_engine *engine, uint8_t seat, const struct space_wire *wire)
{
    struct space_message lost = {.event = SPACE_CACHE_REFUSE,
                                 .whom = SPACE_NOBODY,
                                 .why = SPACE_HOME_LOST,
                                 .term = engine->term.home.term};
    struct space_wire answer;

    if (engine_is_current(engine, wire->address)) {
        return true;
    }
    if (wire->event == SPACE_HOME_CLAIM_LEFT) {
        /* Of a node that was away with its log while this home began without one. */
        lost.event = SPACE_CACHE_RELEASE;
        lost.why = 0;
        lost.epoch.term = engine->term.home.term;
    }
    if (wire->event == SPACE_HOME_ASK_READ || wire->event == SPACE_HOME_ASK_WRITE ||
        wire->event == SPACE_HOME_ASK_ATOMIC || wire->event == SPACE_HOME_CLAIM_LEFT) {
        space_wire_of(&lost, SPACE_WIRE_TO_CACHE, engine_block(engine, wire->address), &answer);
        engine_say_alone(engine, seat, &answer, 0);
    } else {
        engine_refuse(engine, seat);
    }
    return false;
}

/* Claims come before a home opens; answers to what it says as it does so, as soon as it does. */
static bool may_come(const struct space_engine *engine, uint8_t seat, uint8_t event)
{
    if (is_claim(event)) {
        return !engine->term.is_open && engine->seats[seat].known != 0;
    }
    return engine->term.is_open ||
           (engine->is_opening && (event == SPACE_HOME_ACK || event == SPACE_HOME_BYTES ||
                                   event == SPACE_HOME_WRITE_BACK));
}

void engine_home_message(struct space_engine *engine, uint8_t seat, const struct space_wire *wire)
{
    uint64_t block = engine_block(engine, wire->address), number;
    bool is_atomic = wire->event == SPACE_HOME_ASK_ATOMIC;
    struct space_message message;
    struct space_out out;
    enum space_result result;

    if (!engine_is_address(engine, wire->address) || !engine_is_ours(engine, block) ||
        (!is_atomic && wire->address != block) ||
        wire->frame >= space_frames_count(&engine->frames) ||
        (space_wire_has_place(wire) && !engine_is_place(engine, block, wire->operands[0]))) {
        engine_refuse(engine, seat);
        return;
    }
    number = engine_number(engine, block);
    if (!space_set_has(engine->told, seat) || wire->term < engine->term.home.term) {
        engine->stats.stale++; /* of a term that is over, as a new one is to come */
        return;
    }
    space_wire_read(wire, seat, &message);
    if (!may_come(engine, seat, wire->event)) {
        engine_refuse(engine, seat);
        return;
    }
    if (is_claim(wire->event)) {
        remember_nothing(engine, seat, wire);
    }
    if (!is_of_now(engine, seat, wire)) {
        return;
    }
    if (is_atomic && !keep_atomic(engine, seat, wire)) {
        engine_refuse(engine, seat);
        return;
    }
    result = step(engine, number, &message, &out);
    if (result == SPACE_REFUSED) {
        if (is_atomic) {
            drop_atomic(engine, block, seat);
        }
        engine_refuse(engine, seat);
        return;
    }
    carry_wakes(engine, number, &out);
}

/* ---- terms ---------------------------------------------------------------- */

static uint32_t next_number(const struct space_engine *engine)
{
    uint32_t most = engine->term.home.term;

    for (uint8_t seat = 0; seat < SPACE_SEATS; seat++) {
        if (engine->seats[seat].known > most) {
            most = engine->seats[seat].known;
        }
    }
    return most + 1;
}

/* Nothing was open in this life: what was claimed will be claimed again. */
static void forget_claims(struct space_engine *engine)
{
    uint64_t count = engine->config.home.count;

    memset(engine->work_of, 0, count * sizeof(uint32_t));
    engine->works_left = engine->works_new = 0;
    for (uint64_t n = 0; n < count; n++) {
        engine->entries[n] = (struct space_entry){.state = SPACE_HOME_LOST};
        engine->lives[n] = engine->life;
        engine->before[n] = 0;
    }
    engine->stats.lost = count;
}

void engine_tell_term(struct space_engine *engine, uint8_t seat)
{
    struct space_wire term = {.kind = SPACE_WIRE_TERM,
                              .event = SPACE_TERM_TERM,
                              .term = engine->term.home.term,
                              .operands = {engine->term.home.members}};

    if (engine_remembers(engine) && !space_set_has(engine->opened_members, seat)) {
        term.why = SPACE_WIRE_ANEW;
    }
    engine->told |= space_bit(seat);
    engine_say_alone(engine, seat, &term, engine_log_last(engine));
}

void engine_begin_term(struct space_engine *engine)
{
    struct space_home *home = &engine->term.home;
    uint64_t members = engine->members, gone = home->members & ~members;
    uint64_t count = engine->config.home.count;

    for (uint64_t left = gone & engine->up; left != 0; left &= left - 1) {
        engine_cut(engine, space_set_first(left), NIGH_PEER_LOST);
    }
    if ((gone & engine->up) != 0 || !engine_log_has_room(engine) || !engine_is_log_known(engine)) {
        return; /* until nothing of theirs lands any more */
    }
    engine->needs_term = engine->is_opening = false;
    engine->stats.terms++;
    space_term_begin(&engine->term, next_number(engine), members, engine_remembers(engine));
    home->before = engine->opened;
    home->is_durable = engine_has_log(engine);
    if (!home->is_durable) {
        home->anew |= members & ~engine->opened_members & ~space_bit(home->self);
    }
    engine_log_term(engine);
    clear_atomics(engine);
    engine_forget_asked(engine);
    engine_forget_tries(engine, home->self);
    if (!engine_remembers(engine)) {
        forget_claims(engine);
    } else {
        for (uint64_t n = 0; n < count; n++) {
            (void)engine_home_here(engine, n, SPACE_HOME_REBUILD);
        }
    }
    engine->told = 0;
    for (uint64_t left = members & engine->met & ~space_bit(home->self); left != 0;
         left &= left - 1) {
        engine_tell_term(engine, space_set_first(left));
    }
    engine_try_open(engine);
}

/* All members are linked with each other: what one is told to give another gets there. */
static bool are_linked(const struct space_engine *engine)
{
    uint64_t members = engine->term.home.members & ~space_bit(engine->config.self);

    for (uint64_t left = members; left != 0; left &= left - 1) {
        uint8_t seat = space_set_first(left);
        uint64_t others = members & ~space_bit(seat);

        if (!space_set_has(engine->met, seat) || (engine->seats[seat].links & others) != others) {
            return false;
        }
    }
    return true;
}

/* ---- what one malloc gave, at a home that began anew ---------------------- */

static bool is_claimed(const struct space_engine *engine, uint64_t number)
{
    return engine->entries[number].seats != 0;
}

/* Somebody says that it is of another malloc than that one, whose first block is `first`. */
static bool is_apart(const struct space_engine *engine, uint64_t number, uint64_t other,
                     uint64_t first)
{
    return is_claimed(engine, number) && (engine->lives[number] != engine->lives[other] ||
                                          number - engine->before[number] != first);
}

/* The first block of what that one, which is claimed, was given with, of which no later one is: as
 * far as nobody says that what lies between is of another malloc. */
static uint64_t first_with(const struct space_engine *engine, uint64_t last)
{
    uint64_t wanted = last - engine->before[last], first = last;

    while (first > wanted && !is_apart(engine, first - 1, last, wanted)) {
        first--;
    }
    return first;
}

/*
 * What one malloc gave is one again, from its first block to the last that somebody has: what of it
 * nobody has stays lost until all of it is freed. Before any of it is used again.
 */
static void keep_together(struct space_engine *engine)
{
    for (uint64_t end = engine->config.home.count; end > 0;) {
        uint64_t first = end - 1;

        if (is_claimed(engine, first)) {
            first = first_with(engine, end - 1);
            space_allocator_join(&engine->allocator, first, end - first);
        }
        for (uint64_t n = first; n < end; n++) {
            engine->before[n] = (uint32_t)(n - first);
        }
        end = first;
    }
}

/* 1: it was given alone, or nobody knows with what. */
static uint64_t given_with(const struct space_engine *engine, uint64_t number)
{
    return space_allocator_length(&engine->allocator, number - engine->before[number]);
}

/* Its address is of the life that theirs is of. What was given up by an address of another is
 * nobody's. */
static void keep_with(struct space_engine *engine, uint64_t number)
{
    uint64_t first = number - engine->before[number];
    uint32_t life = engine->lives[first + given_with(engine, number) - 1];

    if (!is_claimed(engine, number) && engine->lives[number] != life) {
        if (engine->entries[number].state == SPACE_HOME_BARE) {
            forget_leavers(engine, number);
        }
        engine->lives[number] = life;
    }
    engine_log_place(engine, number, number - first, given_with(engine, number));
}

/*
 * What nobody has said anything of may be given to whoever wants it: by addresses of this life, of
 * which nobody has any. Where lives have no numbers, only if nobody knows of one before this.
 */
static void begin_anew(struct space_engine *engine, uint64_t number)
{
    struct space_entry *entry = &engine->entries[number];
    bool is_reserved = number == 0 && engine->config.self == 0;

    if (entry->state != SPACE_HOME_LOST || given_with(engine, number) != 1 ||
        !(is_reserved || engine->life != 0 || !engine->was_known)) {
        return;
    }
    engine->lives[number] = engine->life; /* what was lost there was not freed */
    engine_log_free(engine, number);
    entry->state = SPACE_HOME_FREED;
    engine->stats.lost--;
    space_allocator_leave(&engine->allocator, number);
    if (!is_reserved) {
        space_allocator_give(&engine->allocator, number);
    }
}

/* The own seat behind all others. */
static void log_seat(struct space_engine *engine, uint64_t n, bool is_member)
{
    uint8_t seat = (uint8_t)((engine->config.self + 1 + n) % SPACE_SEATS);

    if (space_set_has(engine->term.home.members, seat) == is_member) {
        engine_log_member(engine, seat);
    }
}

/* REBUILT of a block says RELEASE to all other seats at most, and asks one for the bytes. */
static bool has_room_to_open(const struct space_engine *engine)
{
    return engine_log_has_room(engine) && engine->asking_count < engine->config.opening &&
           engine_has_letters(engine);
}

/* Who shares it, or has again what it gave up, was asked for the bytes, and tells them at once. Who
 * has it alone, and is asked as somebody here waits to read it, may hold it for long. */
static bool is_asked(const struct space_engine *engine, uint64_t number)
{
    return engine->entries[number].state == SPACE_HOME_DEMOTING &&
           engine->works[engine->work_of[number] - 1].asker == SPACE_NOBODY;
}

/* What is held until it is open is not waited for. */
static void note_asking(struct space_engine *engine, uint64_t number)
{
    if (is_asked(engine, number) && !engine_holds_answers(engine)) {
        engine->asking[engine->asking_count++] = (uint32_t)number;
    }
}

/* Of what was asked for the bytes are here, or it was freed. */
static void forget_asked(struct space_engine *engine)
{
    uint32_t left = 0;

    for (uint32_t n = 0; n < engine->asking_count; n++) {
        if (is_asked(engine, engine->asking[n])) {
            engine->asking[left++] = engine->asking[n];
        }
    }
    engine->asking_count = left;
}

/* Who is a member for the first time since it was started anew. */
static void note_lives(struct space_engine *engine)
{
    const struct space_home *home = &engine->term.home;

    for (uint64_t left = home->anew & home->members; left != 0; left &= left - 1) {
        engine->since[space_set_first(left)] = home->term;
    }
}

static void open_block(struct space_engine *engine, uint64_t number)
{
    bool is_anew = !engine->has_begun && !engine->is_recovered;

    if (is_anew && (given_with(engine, number) > 1 || is_claimed(engine, number))) {
        keep_with(engine, number);
    }
    (void)engine_home_here(engine, number, SPACE_HOME_REBUILT);
    note_asking(engine, number);
    if (is_anew) {
        begin_anew(engine, number);
    }
}

/*
 * As far as there is room, and some at a time: bytes that are asked for wait for room at those who
 * send them, and others want their turn. True: to the end. What the log says of seats holds of all
 * blocks: so who is no member comes first, as from the first block on it may have less than it
 * knows of; and who is one last, as it was opened to its end with that one.
 */
static bool open_blocks(struct space_engine *engine)
{
    uint64_t blocks_end = SPACE_SEATS + engine->config.home.count, end = blocks_end + SPACE_SEATS;
    uint64_t most = engine->open_at + LIMIT_SPACE_OPEN_BLOCKS;

    forget_asked(engine);
    for (; engine->open_at < min_u64(end, most) && has_room_to_open(engine); engine->open_at++) {
        uint64_t at = engine->open_at;

        if (at < SPACE_SEATS) {
            log_seat(engine, at, false);
        } else if (at >= blocks_end) {
            log_seat(engine, at - blocks_end, true);
        } else {
            open_block(engine, at - SPACE_SEATS);
        }
    }
    if (engine->open_at == most) {
        engine_wake(engine);
    }
    return engine->open_at == end;
}

static void finish_open(struct space_engine *engine)
{
    uint64_t members = engine->term.home.members & ~space_bit(engine->config.self);
    struct space_wire opened = {
        .kind = SPACE_WIRE_TERM, .event = SPACE_TERM_OPENED, .term = engine->term.home.term};

    bool is_first = !engine->has_begun;

    engine->is_opening = false;
    engine->has_begun = true;
    space_term_open(&engine->term);
    if (is_first && !engine->is_paused) {
        engine_show_home(engine);
    }
    for (; members != 0; members &= members - 1) {
        engine_say_alone(engine, space_set_first(members), &opened, engine_log_last(engine));
    }
    engine_ask_again(engine);
    engine->is_hungry = true;
    engine_wake(engine);
}

void engine_try_open(struct space_engine *engine)
{
    /* One that a log tells of was begun in another life: that has no members here. */
    if (engine->needs_term || !space_term_is_heard(&engine->term) ||
        engine->term.home.members == 0 || !are_linked(engine)) {
        return;
    }
    if (!engine->is_opening) {
        if (!engine_remembers(engine)) {
            keep_together(engine);
        }
        engine->is_opening = true;
        engine->open_at = engine->asking_count = 0;
        engine->opened = engine->term.home.term;
        engine->opened_members = engine->term.home.members;
        note_lives(engine);
    }
    if (open_blocks(engine)) {
        finish_open(engine);
    }
}

void engine_claimed(struct space_engine *engine, uint8_t seat, uint32_t number)
{
    enum space_result result;

    if (!space_set_has(engine->told, seat)) {
        engine->stats.stale++;
        return;
    }
    result = space_term_claimed(&engine->term, seat, number);
    if (result == SPACE_REFUSED) {
        engine_refuse(engine, seat);
    } else if (result == SPACE_DONE) {
        engine->seats[seat].known = number;
        engine_try_open(engine);
    }
}

void engine_show_number(struct space_engine *engine, uint64_t number)
{
    (void)engine_show(word_of(engine, number), !engine->is_paused && is_shown(engine, number));
}

/* What may be read here is. */
void engine_show_home(struct space_engine *engine)
{
    for (uint64_t n = 0; n < engine->config.home.count; n++) {
        engine_show_number(engine, n);
    }
}
