/* SPDX-License-Identifier: Apache-2.0 */
/* See space_world.h. */
#include "space_world.h"

#include <stdio.h>
#include <string.h>

#include "support/support.h"

struct world now;
struct rules rules;
uint32_t world_cache_rows[SPACE_CACHE_STATES][SPACE_CACHE_EVENTS];
uint32_t world_home_rows[SPACE_HOME_STATES][SPACE_HOME_EVENTS];
uint32_t world_deepest;

static const uint8_t cache_wishes[] = {SPACE_CACHE_READ, SPACE_CACHE_WRITE, SPACE_CACHE_ATOMIC,
                                       SPACE_CACHE_LOCK_READ, SPACE_CACHE_LOCK_WRITE};
static const uint8_t home_wishes[] = {SPACE_HOME_READ, SPACE_HOME_WRITE, SPACE_HOME_LOCK_READ,
                                      SPACE_HOME_LOCK_WRITE, SPACE_HOME_FREE};

static bool with(uint16_t what)
{
    return (rules.with & what) == what;
}

static bool is_dead(uint32_t node)
{
    return (now.dead >> node & 1) != 0;
}

static struct space_line *line_of(uint32_t node, uint32_t block)
{
    return &now.lines[node - 1][block];
}

/* ---- bytes ---------------------------------------------------------------- */

static bool is_source(uint32_t node, uint8_t frame, const struct note *note, uint32_t from)
{
    return from == node && note->bytes == BYTES_UNDER_WAY && note->from_frame == frame;
}

static bool is_target(uint32_t node, uint8_t frame, const struct note *note, uint32_t to)
{
    return to == node && note->bytes == BYTES_UNDER_WAY && note->frame == frame;
}

/* Nobody's WRITE reads or writes a frame that is somebody else's from here on. `to_read`: it may
 * be read from. */
static void claim_unlent(uint32_t node, uint8_t frame, bool is_changed, const char *what)
{
    for (uint32_t from = 0; from < NODES; from++) {
        for (uint32_t to = 0; to < NODES; to++) {
            const struct channel *channel = &now.channels[from][to];

            for (uint32_t n = 0; n < channel->count; n++) {
                const struct note *note = &channel->notes[n];

                world_claim(!is_source(node, frame, note, from), what);
                world_claim(is_changed || node == HOME || !is_target(node, frame, note, to), what);
            }
        }
    }
}

static void forget_notes(uint32_t block)
{
    for (uint32_t from = 0; from < NODES; from++) {
        for (uint32_t to = 0; to < NODES; to++) {
            for (uint32_t n = 0; n < now.channels[from][to].count; n++) {
                struct note *note = &now.channels[from][to].notes[n];

                note->is_last = note->block == block && !note->is_term ? 0 : note->is_last;
            }
        }
    }
}

/* Of a write: before it is applied. */
static void log_write(uint32_t node, uint32_t block)
{
    now.home_logs[block].is_last = 0;
    for (uint32_t c = 0; c < CACHES; c++) {
        now.copy_logs[c][block].is_last = 0;
    }
    if (node == HOME) {
        now.home_logs[block].is_last = rules.logs;
    } else if (rules.logs) {
        const struct space_line *line = line_of(node, block);
        const struct copy_log *log = &now.copy_logs[node - 1][block];

        world_claim(log->is_logged == 0 || log->handed_to == 0,
                    "a log has a change of what it has as given to another");
        now.copy_logs[node - 1][block] = (struct copy_log){.is_here = 1,
                                                           .is_logged = 1,
                                                           .is_last = 1,
                                                           .term = (uint8_t)line->epoch.term,
                                                           .count = (uint8_t)line->epoch.count};
    }
}

/* Somebody writes: all other bytes are old now. */
static void write_bytes(uint32_t node, uint32_t block)
{
    log_write(node, block);
    claim_unlent(node, node == HOME ? (uint8_t)block : (uint8_t)line_of(node, block)->frame, true,
                 "bytes change while a WRITE reads them");
    now.home_last[block] = 0;
    forget_notes(block);
    for (uint32_t c = 0; c < CACHES; c++) {
        for (uint32_t f = 0; f < BLOCKS; f++) {
            if (now.frames[c][f].used == block + 1) {
                now.frames[c][f].is_last = 0;
            }
        }
    }
    if (node == HOME) {
        now.home_last[block] = 1;
    } else {
        now.frames[node - 1][line_of(node, block)->frame].is_last = 1;
    }
}

static bool reads_last(uint32_t node, uint32_t block)
{
    return node == HOME ? now.home_last[block] != 0
                        : now.frames[node - 1][line_of(node, block)->frame].is_last != 0;
}

/* Where a WRITE goes that has not landed: nothing is read there, and nobody else's bytes lie. */
static void check_landing(uint32_t to, const struct note *note)
{
    if (to == HOME) {
        world_claim(space_entry_is_bare(&now.entries[note->block]),
                    "a WRITE may land on the home's own bytes");
        return;
    }
    world_claim(now.frames[to - 1][note->frame].used == note->block + 1,
                "a WRITE may land in another block's frame");
    world_claim(!space_line_is_readable(line_of(to, note->block)),
                "a WRITE may land in a frame that is read");
}

static void land(uint32_t from, uint32_t to, struct note *note)
{
    uint8_t last = note->from_frame == NO_FRAME ? note->is_last
                   : from == HOME               ? now.home_last[note->from_frame]
                                                : now.frames[from - 1][note->from_frame].is_last;

    check_landing(to, note);
    if (to == HOME) {
        now.home_last[note->block] = last;
    } else {
        now.frames[to - 1][note->frame].is_last = last;
    }
    note->bytes = BYTES_LANDED;
    note->from_frame = note->is_last = 0;
    if (from != HOME && !is_dead(from)) {
        now.members[from - 1].writes--;
    }
}

static bool is_any_down(void)
{
    return now.down[0] != now.down[1];
}

static bool is_down(uint32_t a, uint32_t b)
{
    return is_any_down() && (a == now.down[0] || a == now.down[1]) &&
           (b == now.down[0] || b == now.down[1]);
}

/* ---- channels ------------------------------------------------------------- */

static void push(uint32_t from, uint32_t to, const struct note *note)
{
    struct channel *channel = &now.channels[from][to];

    if (is_dead(to) || is_down(from, to) || note->term < now.since[to]) {
        return;
    }
    world_claim(channel->count < DEPTH, "a channel is full");
    channel->notes[channel->count++] = *note;
    if (channel->count > world_deepest) {
        world_deepest = channel->count;
    }
    if (note->bytes == BYTES_UNDER_WAY && from != HOME) {
        now.members[from - 1].writes++;
    }
}

static void drop(uint32_t from, uint32_t to, uint32_t count)
{
    struct channel *channel = &now.channels[from][to];

    for (uint32_t n = 0; n < count; n++) {
        if (channel->notes[n].bytes == BYTES_UNDER_WAY && from != HOME && !is_dead(from)) {
            now.members[from - 1].writes--;
        }
    }
    channel->count = (uint8_t)(channel->count - count);
    memmove(channel->notes, channel->notes + count, channel->count * sizeof(struct note));
    memset(channel->notes + channel->count, 0, count * sizeof(struct note));
}

/* Its endpoint is destroyed: nothing of it lands any more. */
static void destroy(uint32_t from, uint32_t to)
{
    drop(from, to, now.channels[from][to].count);
}

static void send_term(uint32_t from, uint32_t to, uint8_t event, uint32_t term)
{
    struct note note = {.is_term = 1, .event = event, .term = (uint8_t)term};

    push(from, to, &note);
}

static void send_block(uint32_t from, uint32_t block, const struct space_message *message)
{
    bool has_bytes = message->seat == HOME ? space_home_event_has_bytes(message->event)
                                           : space_cache_event_has_bytes(message->event);
    struct note note = {
        .event = message->event,
        .whom = message->whom == SPACE_NOBODY ? 0 : (uint8_t)(message->whom + 1),
        .why = message->why,
        .block = (uint8_t)block,
        .term = (uint8_t)message->term,
        .epoch_term = (uint8_t)message->epoch.term,
        .count = (uint8_t)message->epoch.count,
        .frame = (uint8_t)message->frame,
    };

    world_claim(message->epoch.count < 250, "an epoch too many for this world");
    if (has_bytes) {
        note.bytes = BYTES_UNDER_WAY;
        note.from_frame = from == HOME ? (uint8_t)block : (uint8_t)line_of(from, block)->frame;
        note.frame = message->seat == HOME ? (uint8_t)block : note.frame;
    }
    push(from, message->seat, &note);
}

static struct space_message message_of(const struct note *note, uint32_t from)
{
    return (struct space_message){
        .event = note->event,
        .seat = (uint8_t)from,
        .whom = note->whom == 0 ? SPACE_NOBODY : (uint8_t)(note->whom - 1),
        .why = note->why,
        .term = note->term,
        .epoch = {.term = note->epoch_term, .count = note->count},
        .frame = note->frame,
    };
}

/* ---- steps ---------------------------------------------------------------- */

static void carry_cache(uint32_t node, uint32_t block, uint8_t before, const struct space_out *out);
static void carry_home(uint32_t block, const struct space_out *out);

/* The first frame that is free; a block's own where there is one for each. NO_FRAME: none. */
static uint8_t free_frame(uint32_t node, uint32_t block)
{
    uint8_t frame = rules.frames == 1 ? 0 : (uint8_t)block;

    return now.frames[node - 1][frame].used == 0 ? frame : NO_FRAME;
}

static void log_line(uint32_t node, uint32_t block, const struct space_line *before,
                     const struct space_message *message)
{
    struct copy_log *log = &now.copy_logs[node - 1][block];
    const struct frame *frame = &now.frames[node - 1][rules.frames == 1 ? 0 : block];
    struct space_log_needs needs;

    space_log_of_line(&now.members[node - 1].cache, before, line_of(node, block), message,
                      log->is_logged != 0, &needs);
    for (uint32_t n = 0; n < needs.count; n++) {
        const struct space_log_record *record = &needs.records[n];

        if (record->kind == SPACE_LOG_LEFT) {
            log->is_logged = 0;
            log->is_here = log->is_here && !rules.forgets;
            continue;
        }
        if (record->kind == SPACE_LOG_COPY) {
            *log = (struct copy_log){.is_here = 1, .is_logged = 1, .is_last = frame->is_last};
        }
        log->handed_to = record->kind == SPACE_LOG_HANDED ? (uint8_t)(record->seat + 1) : 0;
        log->term = (uint8_t)record->epoch.term;
        log->count = (uint8_t)record->epoch.count;
    }
    if (log->is_logged == 0 && !log->is_here) {
        *log = (struct copy_log){0};
    }
}

static void log_home(uint32_t block, const struct space_entry *before,
                     const struct space_work *work_before, const struct space_message *message)
{
    struct home_log *log = &now.home_logs[block];
    struct space_log_needs needs;

    space_log_of_home(&now.term.home, before, work_before, &now.entries[block], &now.works[block],
                      message, &needs);
    for (uint32_t n = 0; n < needs.count; n++) {
        const struct space_log_record *record = &needs.records[n];

        switch (record->kind) {
        case SPACE_LOG_FREE: *log = (struct home_log){.state = SPACE_LOG_IS_FREE}; break;
        case SPACE_LOG_LOST: *log = (struct home_log){.state = SPACE_LOG_IS_LOST}; break;
        case SPACE_LOG_ALLOC: *log = (struct home_log){.state = SPACE_LOG_IS_HERE}; break;
        case SPACE_LOG_BACK:
            *log = (struct home_log){.state = SPACE_LOG_IS_HERE, .is_last = now.home_last[block]};
            break;
        default:
            *log = (struct home_log){.state = SPACE_LOG_IS_OWNED,
                                     .is_last = log->is_last,
                                     .owner = record->seat,
                                     .is_ours = record->is_ours,
                                     .term = (uint8_t)record->epoch.term,
                                     .count = (uint8_t)record->epoch.count};
            break;
        }
    }
}

static enum space_result step_cache(uint32_t node, uint32_t block,
                                    const struct space_message *message)
{
    struct space_line *line = line_of(node, block), old;
    uint8_t before = line->state;
    struct space_out out;
    enum space_result result;

    if (before == SPACE_CACHE_INVALID) {
        line->frame = rules.frames == 1 ? 0 : block;
    }
    old = *line;
    result = space_cache_step(&now.members[node - 1].cache, line, message, &out);
    world_claim(result != SPACE_REFUSED, "a cache refuses what nobody may say");
    if (result != SPACE_STALE) {
        world_cache_rows[before][message->event] |= 1u << line->state;
        if (rules.logs) {
            log_line(node, block, &old, message);
        }
    }
    if (!space_line_has_frame(line)) {
        line->frame = 0;
    }
    carry_cache(node, block, before, &out);
    return result;
}

static enum space_result step_home(uint32_t block, const struct space_message *message)
{
    struct space_entry old = now.entries[block];
    struct space_work old_work = now.works[block];
    uint8_t before = old.state;
    struct space_out out;
    enum space_result result =
        space_home_step(&now.term.home, &now.entries[block], &now.works[block], message, &out);

    world_claim(result != SPACE_REFUSED, "a home refuses what nobody may say");
    if (result != SPACE_STALE) {
        world_home_rows[before][message->event] |= 1u << now.entries[block].state;
        if (rules.logs) {
            log_home(block, &old, &old_work, message);
        }
    }
    carry_home(block, &out);
    return result;
}

static struct space_message here(uint32_t node, uint8_t event)
{
    return (struct space_message){.event = event, .seat = (uint8_t)node, .whom = SPACE_NOBODY};
}

/* ---- clients -------------------------------------------------------------- */

static bool is_held(uint32_t block, uint32_t but)
{
    for (uint32_t n = 0; n < NODES; n++) {
        if (n != but && (now.clients[n][block].readers > 0 || now.clients[n][block].is_alone)) {
            return true;
        }
    }
    return false;
}

static bool is_held_alone(uint32_t block)
{
    for (uint32_t n = 0; n < NODES; n++) {
        if (now.clients[n][block].is_alone) {
            return true;
        }
    }
    return false;
}

static void client_reads(uint32_t node, uint32_t block)
{
    world_claim(!is_held_alone(block), "a read beside who holds the block alone");
    world_claim(reads_last(node, block), "a read does not see the last write");
}

static void client_may_write(uint32_t node, uint32_t block)
{
    bool may = node == HOME ? space_entry_is_writable(&now.entries[block])
                            : space_line_is_writable(line_of(node, block));

    world_claim(may, "a write without the right to");
    world_claim(reads_last(node, block), "a write loses the last one");
}

static void client_writes(uint32_t node, uint32_t block)
{
    client_may_write(node, block);
    write_bytes(node, block);
}

static void client_locks(uint32_t node, uint32_t block, bool is_alone)
{
    struct clients *clients = &now.clients[node][block];

    world_claim(!is_held_alone(block), "two hold a block, and one of them alone");
    if (is_alone) {
        world_claim(!is_held(block, NODES), "who holds a block alone is not alone");
        clients->is_alone = 1;
        client_may_write(node, block);
        if (!with(WITH_IDLE_LOCKS)) {
            write_bytes(node, block);
        }
    } else {
        client_reads(node, block);
        clients->readers++;
    }
}

static void cache_client(uint32_t node, uint32_t block, uint8_t wish)
{
    switch (wish) {
    case SPACE_CACHE_READ: client_reads(node, block); break;
    case SPACE_CACHE_LOCK_READ: client_locks(node, block, false); break;
    case SPACE_CACHE_LOCK_WRITE: client_locks(node, block, true); break;
    default:
        world_claim(!is_held(block, NODES), "a write beside who holds the block");
        client_writes(node, block);
        break;
    }
}

static void home_client(uint32_t block, uint8_t wish)
{
    switch (wish) {
    case SPACE_HOME_READ: client_reads(HOME, block); break;
    case SPACE_HOME_LOCK_READ: client_locks(HOME, block, false); break;
    case SPACE_HOME_LOCK_WRITE: client_locks(HOME, block, true); break;
    case SPACE_HOME_FREE:
        world_claim(!is_held(block, NODES), "a block is freed that somebody holds");
        break;
    default:
        world_claim(!is_held(block, NODES), "a write beside who holds the block");
        client_writes(HOME, block);
        break;
    }
}

static void wish(uint32_t node, uint32_t block, uint8_t what)
{
    struct space_message message = here(node, what);
    struct clients *clients = &now.clients[node][block];
    enum space_result result =
        node == HOME ? step_home(block, &message) : step_cache(node, block, &message);

    if (result == SPACE_WAITS) {
        clients->wishes[clients->wishes[0] != 0] = (uint8_t)(what + 1);
    } else if (result == SPACE_DONE && node == HOME) {
        home_client(block, what);
    } else if (result == SPACE_DONE) {
        cache_client(node, block, what);
    } else {
        world_claim(now.entries[block].state == SPACE_HOME_LOST ||
                        now.entries[block].state == SPACE_HOME_AWAY ||
                        now.entries[block].state == SPACE_HOME_FREED ||
                        (node != HOME && line_of(node, block)->is_away),
                    "a block that is there is gone");
    }
}

static void try_again(uint32_t node, uint32_t block)
{
    struct clients *clients = &now.clients[node][block];
    uint8_t waiting[CLIENTS];

    memcpy(waiting, clients->wishes, sizeof(waiting));
    memset(clients->wishes, 0, sizeof(clients->wishes));
    for (uint32_t n = 0; n < CLIENTS; n++) {
        if (waiting[n] != 0) {
            wish(node, block, (uint8_t)(waiting[n] - 1));
        }
    }
}

/* An atomic that was asked for at the home has ended: the one that came first. */
static void end_atomic(uint32_t node, uint32_t block)
{
    struct clients *clients = &now.clients[node][block];

    clients->is_done = 0;
    if (clients->wishes[0] == SPACE_CACHE_ATOMIC + 1) {
        clients->wishes[0] = clients->wishes[1];
        clients->wishes[1] = 0;
    } else if (clients->wishes[1] == SPACE_CACHE_ATOMIC + 1) {
        clients->wishes[1] = 0;
    }
}

static void unlock(uint32_t node, uint32_t block)
{
    struct clients *clients = &now.clients[node][block];
    struct space_message message =
        here(node, node == HOME ? (uint8_t)SPACE_HOME_UNLOCK : (uint8_t)SPACE_CACHE_UNLOCK);

    if (clients->is_alone) {
        clients->is_alone = 0;
    } else {
        clients->readers--;
    }
    (void)(node == HOME ? step_home(block, &message) : step_cache(node, block, &message));
}

/* ---- what a step says is done --------------------------------------------- */

static void carry_cache(uint32_t node, uint32_t block, uint8_t before, const struct space_out *out)
{
    struct space_line *line = line_of(node, block);
    struct space_line old = {.state = before};
    struct frame *frame = &now.frames[node - 1][rules.frames == 1 ? 0 : block];

    for (uint32_t n = 0; n < out->count; n++) {
        send_block(node, block, &out->sends[n]);
    }
    if (!space_line_has_frame(&old) && space_line_has_frame(line)) {
        world_claim(frame->used == 0, "a frame is given twice");
        *frame = (struct frame){.used = (uint8_t)(block + 1)};
    } else if (space_line_has_frame(&old) && !space_line_has_frame(line)) {
        claim_unlent(node, rules.frames == 1 ? 0 : (uint8_t)block, false,
                     "a frame is free while a WRITE may touch it");
        *frame = (struct frame){0};
    }
    if (out->in_doubt) {
        end_atomic(node, block);
    }
    if (out->refused) {
        memset(now.clients[node][block].wishes, 0, CLIENTS);
    }
    if (out->wakes) {
        try_again(node, block);
    }
}

static void carry_home(uint32_t block, const struct space_out *out)
{
    struct space_message yield = here(HOME, SPACE_HOME_YIELD);

    for (uint32_t n = 0; n < out->count; n++) {
        const struct space_message *message = &out->sends[n];

        if (message->event == SPACE_CACHE_ATOMIC_DONE) {
            world_claim(!now.clients[message->seat][block].is_done, "an atomic is done twice");
            now.clients[message->seat][block].is_done = !is_dead(message->seat);
            world_claim(!is_held(block, NODES), "an atomic beside who holds the block");
            world_claim(reads_last(HOME, block), "an atomic loses the last write");
            write_bytes(HOME, block);
        }
        send_block(HOME, block, message);
    }
    if (out->wakes) {
        try_again(HOME, block);
        (void)step_home(block, &yield);
    }
}

/* ---- terms ---------------------------------------------------------------- */

static uint64_t members(void)
{
    uint64_t all = (UINT64_C(2) << rules.caches) - 1;

    return all & ~(uint64_t)now.dead;
}

/* Whether somebody who lives has, to be read, what was written last. */
static bool is_somewhere(uint32_t block)
{
    for (uint32_t n = 1; n <= rules.caches; n++) {
        if (!is_dead(n) && space_line_is_readable(line_of(n, block)) && reads_last(n, block)) {
            return true;
        }
    }
    return false;
}

/* Who is a member for the first time since it was started without its log, as who carries it out
 * has it (src/space/engine_home.c). */
static void note_lives(void)
{
    const struct space_home *home = &now.term.home;

    for (uint64_t left = home->anew & home->members; left != 0; left &= left - 1) {
        now.opened[space_set_first(left)] = home->term;
    }
}

static void open_block(uint32_t block)
{
    struct space_message message = here(HOME, SPACE_HOME_REBUILT);
    uint8_t before = now.entries[block].state, state;

    (void)step_home(block, &message);
    state = now.entries[block].state;
    world_claim(state != SPACE_HOME_LOST || !is_somewhere(block), "what is there is lost");
    world_claim(before == SPACE_HOME_LOST || state != SPACE_HOME_LOST || !rules.logs ||
                    now.is_lossy,
                "what logs have is lost");
    world_claim(state != SPACE_HOME_LOST || rules.crashes > 0 || rules.home_crashes > 0,
                "what nobody died of is lost");
}

/* Block by block: what it asked for of one may be here, or who was asked gone, before the next. */
static void open_more(void)
{
    if (--now.opening > 0) {
        open_block(rules.blocks - now.opening);
        return;
    }
    space_term_open(&now.term);
    for (uint32_t n = 1; n <= rules.caches; n++) {
        if (!is_dead(n)) {
            send_term(HOME, n, SPACE_TERM_OPENED, now.term.home.term);
        }
    }
}

static void open_term(void)
{
    world_claim(rules.blocks == 1, "blocks, of which one is open, are not alike");
    note_lives();
    now.opening = rules.blocks + 1;
}

static void hear_claimed(uint32_t from, uint8_t term)
{
    enum space_result result = space_term_claimed(&now.term, (uint8_t)from, term);

    world_claim(result != SPACE_REFUSED, "that a member has claimed is refused");
    if (result == SPACE_DONE && space_term_is_heard(&now.term)) {
        open_term();
    }
}

static void begin_term(bool remembers)
{
    space_term_begin(&now.term, now.term.home.term + 1, members(), remembers);
    now.unseen = now.opening = 0;
    now.down[0] = now.down[1] = 0;
    for (uint32_t b = 0; b < rules.blocks; b++) {
        struct space_message message = here(HOME, SPACE_HOME_REBUILD);

        (void)step_home(b, &message);
    }
    for (uint32_t n = 1; n <= rules.caches; n++) {
        if (!is_dead(n)) {
            send_term(HOME, n, SPACE_TERM_TERM, now.term.home.term);
        }
    }
    if (space_term_is_heard(&now.term)) {
        open_term();
    }
}

/* Bytes that are under way from where nothing is any more. */
static void lose_sources(uint32_t node)
{
    for (uint32_t to = 0; to < NODES; to++) {
        for (uint32_t n = 0; n < now.channels[node][to].count; n++) {
            struct note *note = &now.channels[node][to].notes[n];

            if (note->bytes == BYTES_UNDER_WAY && note->from_frame != NO_FRAME) {
                note->is_last = node == HOME ? now.home_last[note->from_frame]
                                             : now.frames[node - 1][note->from_frame].is_last;
                note->from_frame = NO_FRAME;
            }
        }
    }
}

static void crash(uint32_t node)
{
    lose_sources(node);
    for (uint32_t from = 0; from < NODES; from++) {
        destroy(from, node);
    }
    now.dead |= (uint8_t)(1u << node);
    now.unseen |= (uint8_t)(1u << node);
    now.crashes--;
    memset(now.lines[node - 1], 0, sizeof(now.lines[0]));
    memset(now.frames[node - 1], 0, sizeof(now.frames[0]));
    memset(now.clients[node], 0, sizeof(now.clients[0]));
    memset(&now.members[node - 1], 0, sizeof(now.members[0]));
    now.since[node] = 0;
}

/* What the home's log says of a block, as it is before a term begins. */
static void recover_block(uint32_t block)
{
    const struct home_log *log = &now.home_logs[block];
    struct space_work *work = &now.works[block];
    static const uint8_t states[] = {
        [SPACE_LOG_IS_FREE] = SPACE_HOME_FREED,
        [SPACE_LOG_IS_HERE] = SPACE_HOME_UNSHARED,
        [SPACE_LOG_IS_OWNED] = SPACE_HOME_BARE,
        [SPACE_LOG_IS_LOST] = SPACE_HOME_LOST,
    };

    now.home_last[block] = log->is_last;
    now.entries[block].state = states[log->state];
    if (log->state == SPACE_LOG_IS_OWNED) {
        work->owner = log->owner;
        work->is_ours = log->is_ours != 0;
        work->owned = (struct space_epoch){log->term, log->count};
    } else {
        memset(work, 0, sizeof(*work));
    }
}

/* It is there again at once, and has nothing, or what its log has. */
static void crash_home(void)
{
    lose_sources(HOME);
    for (uint32_t from = 1; from < NODES; from++) {
        destroy(from, HOME);
    }
    now.home_crashes--;
    memset(now.home_last, 0, sizeof(now.home_last));
    memset(now.clients[HOME], 0, sizeof(now.clients[HOME]));
    memset(now.works, 0, sizeof(now.works));
    for (uint32_t b = 0; b < rules.blocks; b++) {
        now.entries[b] = (struct space_entry){.state = SPACE_HOME_BARE};
        now.works[b].asker = now.works[b].owner = now.works[b].leaver = SPACE_NOBODY;
        if (rules.logs) {
            recover_block(b);
        }
    }
    now.is_reset = 1;
    begin_term(rules.logs);
}

/* What it had is as what it had given up: whether another has it nobody knows here. */
static void recover_line(uint32_t node, uint32_t block)
{
    const struct copy_log *log = &now.copy_logs[node - 1][block];
    uint8_t frame = rules.frames == 1 ? 0 : (uint8_t)block;

    if (!log->is_here) {
        return;
    }
    *line_of(node, block) = (struct space_line){
        .state = log->handed_to != 0 ? SPACE_CACHE_HANDED : SPACE_CACHE_WRITING_BACK,
        .handed_to = log->handed_to != 0 ? (uint8_t)(log->handed_to - 1) : 0,
        .epoch = {log->term, log->count},
        .frame = frame,
    };
    now.frames[node - 1][frame] =
        (struct frame){.used = (uint8_t)(block + 1), .is_last = log->is_last};
    now.copy_logs[node - 1][block].is_logged = 1;
}

/* A node that crashed is there again, on its log or without. */
static void restart(uint32_t node, bool has_log)
{
    for (uint32_t n = 0; n < NODES; n++) {
        destroy(n, node);
        destroy(node, n);
    }
    now.dead &= (uint8_t) ~(1u << node);
    now.restarts--;
    now.members[node - 1].cache = (struct space_cache){.self = (uint8_t)node, .home = HOME};
    if (!has_log) {
        memset(now.copy_logs[node - 1], 0, sizeof(now.copy_logs[0]));
        now.term.home.anew |= space_bit((uint8_t)node);
        now.is_lossy = 1;
    }
    for (uint32_t b = 0; b < rules.blocks; b++) {
        recover_line(node, b);
    }
    for (uint32_t n = 1; n < NODES; n++) {
        if (is_dead(n)) {
            destroy(n, HOME);
        }
    }
    now.is_reset = 0;
    now.since[node] = (uint8_t)(now.term.home.term + 1);
    begin_term(true);
}

static void break_link(uint8_t a, uint8_t b)
{
    destroy(a, b);
    destroy(b, a);
    now.down[0] = a;
    now.down[1] = b;
    now.breaks--;
}

static void view(void)
{
    for (uint32_t n = 1; n < NODES; n++) {
        if (is_dead(n)) {
            destroy(n, HOME);
        }
    }
    now.is_reset = 0;
    begin_term(true);
}

static void adopt(uint32_t node, uint8_t term)
{
    enum space_result result = space_member_adopt(&now.members[node - 1], HOME, term);

    world_claim(result == SPACE_DONE, "a term is refused");
    for (uint32_t n = 1; n < NODES; n++) {
        if (is_dead(n)) {
            destroy(n, node);
        }
    }
    for (uint32_t b = 0; b < rules.blocks; b++) {
        struct space_message message = here(node, SPACE_CACHE_ADOPT);

        (void)step_cache(node, b, &message);
    }
}

static void opened(uint32_t node, uint8_t term)
{
    enum space_result result = space_member_opened(&now.members[node - 1], HOME, term);

    if (result == SPACE_STALE) {
        return;
    }
    world_claim(result == SPACE_DONE, "that a term is open is refused");
    for (uint32_t b = 0; b < rules.blocks; b++) {
        struct space_message message = here(node, SPACE_CACHE_OPEN);

        (void)step_cache(node, b, &message);
    }
}

/* ---- events --------------------------------------------------------------- */

static void deliver(uint32_t from, uint32_t to)
{
    struct note note = now.channels[from][to].notes[0];
    struct space_message message;

    if (note.bytes == BYTES_UNDER_WAY) {
        land(from, to, &now.channels[from][to].notes[0]);
    }
    drop(from, to, 1);
    message = message_of(&note, from);
    if (note.is_term && note.event == SPACE_TERM_TERM) {
        adopt(to, note.term);
    } else if (note.is_term && note.event == SPACE_TERM_OPENED) {
        opened(to, note.term);
    } else if (note.is_term) {
        hear_claimed(from, note.term);
    } else if (to == HOME) {
        (void)step_home(note.block, &message);
    } else {
        if (note.event == SPACE_CACHE_ATOMIC_DONE && note.term == now.members[to - 1].cache.term) {
            world_claim(now.clients[to][note.block].is_done, "an atomic ends that was not done");
            end_atomic(to, note.block);
        }
        (void)step_cache(to, note.block, &message);
    }
}

static void land_first(uint32_t from, uint32_t to)
{
    struct channel *channel = &now.channels[from][to];

    for (uint32_t n = 0; n < channel->count; n++) {
        if (channel->notes[n].bytes == BYTES_UNDER_WAY) {
            land(from, to, &channel->notes[n]);
            return;
        }
    }
}

static uint32_t find_term(uint32_t to)
{
    const struct channel *channel = &now.channels[HOME][to];

    for (uint32_t n = 0; n < channel->count; n++) {
        if (channel->notes[n].is_term && channel->notes[n].event == SPACE_TERM_TERM &&
            now.is_reset) {
            return n;
        }
    }
    return 0;
}

void world_do(const struct event *event)
{
    struct space_message message;

    switch ((enum event_kind)event->kind) {
    case EVENT_WISH: wish(event->a, event->b, event->c); break;
    case EVENT_UNLOCK: unlock(event->a, event->b); break;
    case EVENT_EVICT:
        message = here(event->a, SPACE_CACHE_EVICT);
        (void)step_cache(event->a, event->b, &message);
        break;
    case EVENT_EVICT_AT_ONCE:
        message = here(event->a, SPACE_CACHE_EVICT_AT_ONCE);
        (void)step_cache(event->a, event->b, &message);
        break;
    case EVENT_ALLOC:
        message = here(HOME, SPACE_HOME_ALLOC);
        (void)step_home(event->b, &message);
        write_bytes(HOME, event->b);
        break;
    case EVENT_CRASH: crash(event->a); break;
    case EVENT_CRASH_HOME: crash_home(); break;
    case EVENT_BREAK: break_link(event->a, event->b); break;
    case EVENT_RESTART: restart(event->a, event->c != 0); break;
    case EVENT_DELIVER: deliver(event->a, event->b); break;
    case EVENT_LAND: land_first(event->a, event->b); break;
    case EVENT_VIEW: view(); break;
    case EVENT_OPEN: open_more(); break;
    case EVENT_RESET: drop(HOME, event->b, find_term(event->b)); break;
    case EVENT_CLAIMED:
        space_member_claimed(&now.members[event->a - 1]);
        send_term(event->a, HOME, SPACE_TERM_CLAIMED, now.members[event->a - 1].cache.term);
        break;
    default: break;
    }
}

void world_begin(void)
{
    memset(&now, 0, sizeof(now));
    now.term.home =
        (struct space_home){.term = 1, .self = HOME, .members = members(), .remembers = true};
    now.term.is_open = true;
    now.term.home.is_durable = rules.logs;
    now.term.home.since = now.opened;
    now.restarts = rules.restarts;
    now.crashes = rules.crashes;
    now.home_crashes = rules.home_crashes;
    now.breaks = rules.breaks;
    for (uint32_t n = 1; n <= rules.caches; n++) {
        now.members[n - 1].cache =
            (struct space_cache){.term = 1, .self = (uint8_t)n, .home = HOME, .is_open = true};
    }
    for (uint32_t b = 0; b < rules.blocks; b++) {
        now.home_last[b] = 1;
        now.home_logs[b] = (struct home_log){.state = SPACE_LOG_IS_HERE, .is_last = rules.logs};
    }
}

/* ---- what can happen ------------------------------------------------------ */

static void add(struct event *events, uint32_t *count, uint8_t kind, uint32_t a, uint32_t b,
                uint32_t c)
{
    world_claim(*count < EVENTS_MAX, "too many events");
    events[(*count)++] = (struct event){kind, (uint8_t)a, (uint8_t)b, (uint8_t)c};
}

static bool may_wish(uint32_t node, uint8_t what)
{
    if (node == HOME) {
        return what == SPACE_HOME_FREE ? with(WITH_FREES)
               : what == SPACE_HOME_READ || what == SPACE_HOME_WRITE
                   ? with(WITH_HOME)
                   : with(WITH_HOME | WITH_HOME_LOCKS);
    }
    return what == SPACE_CACHE_READ     ? with(WITH_READS)
           : what == SPACE_CACHE_WRITE  ? with(WITH_WRITES)
           : what == SPACE_CACHE_ATOMIC ? with(WITH_ATOMICS)
                                        : with(WITH_LOCKS);
}

static bool needs_frame(uint32_t node, uint32_t block, uint8_t what)
{
    uint8_t state = line_of(node, block)->state;

    if (state == SPACE_CACHE_FRAMELESS && rules.frames < rules.blocks) {
        return true; /* who waits for it does not see who takes its frame */
    }
    return state == SPACE_CACHE_INVALID && what != SPACE_CACHE_ATOMIC &&
           free_frame(node, block) == NO_FRAME;
}

static void list_clients(struct event *events, uint32_t *count, uint32_t node, uint32_t block)
{
    const struct clients *clients = &now.clients[node][block];
    uint32_t wishes = node == HOME ? sizeof(home_wishes) : sizeof(cache_wishes);

    for (uint32_t n = 0; n < wishes && clients->wishes[rules.clients - 1] == 0; n++) {
        uint8_t what = node == HOME ? home_wishes[n] : cache_wishes[n];

        if (may_wish(node, what) && (node == HOME || !needs_frame(node, block, what)) &&
            clients->readers < 2) {
            add(events, count, EVENT_WISH, node, block, what);
        }
    }
}

/* As who carries it out has it (src/space/engine_cache.c): nothing of that home's is being read
 * from this node's frames, and no log has the copy. */
static bool may_evict_at_once(uint32_t node, uint32_t block)
{
    return line_of(node, block)->state == SPACE_CACHE_SHARED && now.members[node - 1].writes == 0 &&
           now.copy_logs[node - 1][block].is_logged == 0;
}

static void list_issued(struct event *events, uint32_t *count)
{
    for (uint32_t b = 0; b < rules.blocks; b++) {
        for (uint32_t n = 0; n <= rules.caches; n++) {
            if (is_dead(n)) {
                continue;
            }
            list_clients(events, count, n, b);
            if (n != HOME && with(WITH_EVICTIONS) && space_line_has_frame(line_of(n, b))) {
                add(events, count, EVENT_EVICT, n, b, 0);
            }
            if (n != HOME && with(WITH_EVICTIONS) && may_evict_at_once(n, b)) {
                add(events, count, EVENT_EVICT_AT_ONCE, n, b, 0);
            }
        }
        if (with(WITH_FREES) && now.entries[b].state == SPACE_HOME_FREED && now.term.is_open &&
            now.clients[HOME][b].wishes[0] == 0) {
            add(events, count, EVENT_ALLOC, HOME, b, 0);
        }
    }
    for (uint32_t n = 1; n <= rules.caches && now.crashes > 0; n++) {
        if (!is_dead(n)) {
            add(events, count, EVENT_CRASH, n, 0, 0);
        }
    }
    for (uint32_t n = 1; n <= rules.caches && now.restarts > 0; n++) {
        if (is_dead(n) && (now.unseen >> n & 1) == 0) {
            add(events, count, EVENT_RESTART, n, 0, 0);
            if (rules.logs) {
                add(events, count, EVENT_RESTART, n, 0, 1);
            }
        }
    }
    for (uint32_t n = 0; n <= rules.caches && now.breaks > 0 && !is_any_down(); n++) {
        for (uint32_t to = n + 1; to <= rules.caches; to++) {
            if (!is_dead(n) && !is_dead(to)) {
                add(events, count, EVENT_BREAK, n, to, 0);
            }
        }
    }
    if (now.home_crashes > 0) {
        add(events, count, EVENT_CRASH_HOME, HOME, 0, 0);
    }
}

static void list_channel(struct event *events, uint32_t *count, uint32_t from, uint32_t to)
{
    const struct channel *channel = &now.channels[from][to];

    if (channel->count == 0) {
        return;
    }
    add(events, count, EVENT_DELIVER, from, to, 0);
    for (uint32_t n = 0; n < channel->count && with(WITH_LANDINGS); n++) {
        if (channel->notes[n].bytes == BYTES_UNDER_WAY) {
            add(events, count, EVENT_LAND, from, to, 0);
            return;
        }
    }
}

uint32_t world_list(struct event *events, uint32_t *progress)
{
    uint32_t count = 0;

    list_issued(events, &count);
    *progress = count;
    for (uint32_t n = 0; n <= rules.caches; n++) {
        for (uint32_t to = 0; to <= rules.caches; to++) {
            list_channel(events, &count, n, to);
        }
        for (uint32_t b = 0; b < rules.blocks; b++) {
            if (now.clients[n][b].readers > 0 || now.clients[n][b].is_alone) {
                add(events, &count, EVENT_UNLOCK, n, b, 0);
            }
        }
        if (n != HOME && !is_dead(n) && space_member_may_claim(&now.members[n - 1])) {
            add(events, &count, EVENT_CLAIMED, n, 0, 0);
        }
        if (n != HOME && find_term(n) != 0) {
            add(events, &count, EVENT_RESET, HOME, n, 0);
        }
    }
    if (now.unseen != 0 || is_any_down()) {
        add(events, &count, EVENT_VIEW, HOME, 0, 0);
    }
    if (now.opening > 0) {
        add(events, &count, EVENT_OPEN, HOME, 0, 0);
    }
    return count;
}

/* ---- what holds ----------------------------------------------------------- */

static void check_copies(uint32_t block)
{
    const struct space_entry *entry = &now.entries[block];
    uint32_t writers = space_entry_is_writable(entry), readers = space_entry_is_readable(entry);

    world_claim(readers == 0 || now.home_last[block], "the home reads what is not the last");
    for (uint32_t n = 1; n <= rules.caches; n++) {
        const struct space_line *line = line_of(n, block);

        if (is_dead(n)) {
            continue;
        }
        writers += space_line_is_writable(line);
        readers += space_line_is_readable(line);
        world_claim(!space_line_is_readable(line) || reads_last(n, block),
                    "a node reads what is not the last");
        world_claim(space_line_is_valid(line), "a line is not valid");
        world_claim(line->holds == (now.clients[n][block].is_alone ? SPACE_HELD_ALONE
                                                                   : now.clients[n][block].readers),
                    "a node holds what nobody there holds");
    }
    world_claim(writers == 0 || readers == 1, "one writes, and another reads or writes");
    world_claim(entry->state != SPACE_HOME_FREED || readers == 0, "a freed block is read");
}

static void check_landings(void)
{
    for (uint32_t from = 0; from <= rules.caches; from++) {
        for (uint32_t to = 0; to <= rules.caches; to++) {
            const struct channel *channel = &now.channels[from][to];

            for (uint32_t n = 0; n < channel->count; n++) {
                if (channel->notes[n].bytes == BYTES_UNDER_WAY) {
                    check_landing(to, &channel->notes[n]);
                }
            }
        }
    }
}

void world_check(void)
{
    check_landings();
    for (uint32_t b = 0; b < rules.blocks; b++) {
        check_copies(b);
        world_claim(space_entry_is_valid(&now.term.home, &now.entries[b], &now.works[b]),
                    "an entry is not valid");
    }
}

bool world_is_quiet(void)
{
    if (!now.term.is_open || now.unseen != 0 || is_any_down()) {
        return false;
    }
    for (uint32_t n = 0; n <= rules.caches; n++) {
        for (uint32_t to = 0; to <= rules.caches; to++) {
            if (now.channels[n][to].count > 0) {
                return false;
            }
        }
        for (uint32_t b = 0; b < rules.blocks; b++) {
            const struct clients *clients = &now.clients[n][b];
            const struct space_line *line = n == HOME ? NULL : line_of(n, b);

            if (clients->wishes[0] != 0 || clients->readers > 0 || clients->is_alone) {
                return false;
            }
            if (line != NULL && now.entries[b].state != SPACE_HOME_AWAY &&
                line->state != SPACE_CACHE_INVALID && line->state != SPACE_CACHE_SHARED &&
                line->state != SPACE_CACHE_DIRTY) {
                return false;
            }
            if (n == HOME && now.entries[b].state != SPACE_HOME_AWAY &&
                !space_work_is_idle(&now.entries[b], &now.works[b])) {
                return false;
            }
        }
    }
    return true;
}

/* ---- words ---------------------------------------------------------------- */

static void name_node(uint32_t node, char *out, size_t bytes)
{
    if (node == HOME) {
        snprintf(out, bytes, "the home");
    } else {
        snprintf(out, bytes, "node %u", node);
    }
}

static void print_note(const struct note *note, uint32_t from, uint32_t to, const char *what)
{
    static const char *const terms[] = {"TERM", "CLAIMED", "OPENED"};
    char sender[16], receiver[16], of[64] = "";

    name_node(from, sender, sizeof(sender));
    name_node(to, receiver, sizeof(receiver));
    if (!note->is_term) {
        snprintf(of, sizeof(of), " of block %u, epoch %u.%u", note->block, note->epoch_term,
                 note->count);
    }
    print_message("#   %s %s %s from %s%s%s\n", receiver, what,
                  note->is_term ? terms[note->event]
                  : to == HOME  ? space_home_event_name(note->event)
                                : space_cache_event_name(note->event),
                  sender, of, note->bytes == BYTES_LANDED ? ", landed before" : "");
}

static void print_state(void)
{
    for (uint32_t b = 0; b < rules.blocks; b++) {
        print_message("#       block %u: home %s%s", b, space_home_state_name(now.entries[b].state),
                      now.home_last[b] ? "*" : "");
        for (uint32_t n = 1; n <= rules.caches; n++) {
            const struct space_line *line = line_of(n, b);

            print_message(", %u %s%s%s", n,
                          is_dead(n) ? "dead" : space_cache_state_name(line->state),
                          space_line_has_frame(line) && reads_last(n, b) ? "*" : "",
                          line->owed != 0 ? " (owes)" : "");
        }
        print_message("\n");
    }
}

void world_print(const struct event *event)
{
    char node[16];

    name_node(event->a, node, sizeof(node));
    switch ((enum event_kind)event->kind) {
    case EVENT_WISH:
        print_message("#   a client of %s: %s block %u\n", node,
                      event->a == HOME ? space_home_event_name(event->c)
                                       : space_cache_event_name(event->c),
                      event->b);
        break;
    case EVENT_UNLOCK:
        print_message("#   a client of %s: UNLOCK block %u\n", node, event->b);
        break;
    case EVENT_EVICT: print_message("#   %s: EVICT block %u\n", node, event->b); break;
    case EVENT_EVICT_AT_ONCE:
        print_message("#   %s: EVICT_AT_ONCE block %u\n", node, event->b);
        break;
    case EVENT_ALLOC: print_message("#   the home: ALLOC block %u\n", event->b); break;
    case EVENT_CRASH: print_message("#   %s crashes\n", node); break;
    case EVENT_CRASH_HOME: print_message("#   the home crashes, and is there again\n"); break;
    case EVENT_BREAK:
        print_message("#   the link of %s and node %u breaks\n", node, event->b);
        break;
    case EVENT_RESTART:
        print_message("#   %s is there again, %s its log\n", node, event->c ? "on" : "without");
        break;
    case EVENT_DELIVER:
        print_note(&now.channels[event->a][event->b].notes[0], event->a, event->b, "takes");
        break;
    case EVENT_LAND:
        for (uint32_t n = 0; n < now.channels[event->a][event->b].count; n++) {
            if (now.channels[event->a][event->b].notes[n].bytes == BYTES_UNDER_WAY) {
                print_note(&now.channels[event->a][event->b].notes[n], event->a, event->b,
                           "is written the bytes of");
                break;
            }
        }
        break;
    case EVENT_VIEW: print_message("#   the home learns of it, and begins a term\n"); break;
    case EVENT_OPEN:
        print_message(now.opening > 1 ? "#   the home opens one more block\n"
                                      : "#   the home has opened all\n");
        break;
    case EVENT_RESET: print_message("#   node %u hears the old home no more\n", event->b); break;
    case EVENT_CLAIMED: print_message("#   %s has claimed all\n", node); break;
    default: break;
    }
    world_do(event);
    print_state();
}
