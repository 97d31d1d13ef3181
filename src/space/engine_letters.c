/* SPDX-License-Identifier: Apache-2.0 */
/* See engine.h: what is said, and waits until the link has room for it. */
#include "space/engine_internal.h"

/* Bytes out of the cache, of a block of that home: CLAIMED waits for their ends. */
static bool is_counted(const struct space_send *send)
{
    return send->wants_end;
}

static void count_end(struct space_engine *engine, const struct space_send *send)
{
    if (is_counted(send)) {
        struct space_member *member = &engine->seats[send->cookie].member;

        NIGH_ASSERT(member->writes > 0);
        member->writes--;
    }
}

static bool send_now(struct space_engine *engine, const struct space_send *send)
{
    if (!engine->config.shell.send(engine->config.shell.context, send)) {
        return false;
    }
    engine->stats.messages++;
    engine->stats.bytes += send->count;
    return true;
}

static uint32_t take_letter(struct space_engine *engine)
{
    uint32_t n = engine->letters_free;

    if (n != 0) {
        engine->letters_free = engine->letters[n - 1].next;
    } else if (engine->letters_count < engine->config.letters) {
        n = ++engine->letters_count;
    }
    engine->letters_used += n != 0;
    return n;
}

static void free_letter(struct space_engine *engine, uint32_t n)
{
    engine->letters[n - 1].next = engine->letters_free;
    engine->letters_free = n;
    engine->letters_used--;
}

/* The seat that keeps most waiting takes nothing: without its link there is room. */
static uint8_t slowest(const struct space_engine *engine)
{
    uint8_t most = engine->config.self;

    for (uint8_t seat = 0; seat < SPACE_SEATS; seat++) {
        if (engine->seats[seat].letters > engine->seats[most].letters &&
            !engine->seats[seat].is_cut) {
            most = seat;
        }
    }
    return most;
}

static void keep(struct space_engine *engine, const struct space_send *send, uint64_t after)
{
    struct engine_seat *seat = &engine->seats[send->seat];
    uint32_t n = take_letter(engine);

    if (n == 0) {
        uint8_t slow = slowest(engine);

        engine_drop_letters(engine, slow);
        engine_cut(engine, slow, NIGH_BUSY);
        if (slow != send->seat) {
            n = take_letter(engine);
        }
    }
    if (n == 0 || seat->is_cut) {
        if (n != 0) {
            free_letter(engine, n);
        }
        engine_cut(engine, send->seat, NIGH_BUSY);
        engine->stats.dropped++;
        count_end(engine, send);
        return;
    }
    engine->letters[n - 1] = (struct engine_letter){.send = *send, .after = after};
    if (seat->last != 0) {
        engine->letters[seat->last - 1].next = n;
    } else {
        seat->first = n;
    }
    seat->last = n;
    seat->letters++;
}

void engine_say(struct space_engine *engine, struct space_send *send, uint64_t after)
{
    struct engine_seat *seat = &engine->seats[send->seat];

    send->wire.space = engine->config.space;
    send->wire.birth = engine->config.birth;
    if (!seat->is_up || seat->is_cut || engine->log.status != NIGH_OK) {
        engine->stats.dropped++;
        return;
    }
    if (is_counted(send)) {
        engine->seats[send->cookie].member.writes++;
    }
    if (seat->first != 0 || !engine_is_durable(engine, after) || !send_now(engine, send)) {
        keep(engine, send, after);
    }
}

void engine_say_alone(struct space_engine *engine, uint8_t seat, struct space_wire *wire,
                      uint64_t after)
{
    struct space_send send = {.wire = *wire, .seat = seat};

    engine_say(engine, &send, after);
}

bool engine_has_letters(const struct space_engine *engine)
{
    return engine->letters_used == 0 ||
           engine->letters_used + SPACE_SEATS <= engine->config.letters / 2;
}

void engine_say_waiting(struct space_engine *engine, uint8_t number)
{
    struct engine_seat *seat = &engine->seats[number];

    while (seat->first != 0 && seat->is_up && !seat->is_cut) {
        struct engine_letter *letter = &engine->letters[seat->first - 1];
        uint32_t n = seat->first;

        if (!engine_is_durable(engine, letter->after) || !send_now(engine, &letter->send)) {
            return;
        }
        seat->first = letter->next;
        seat->last = seat->first == 0 ? 0 : seat->last;
        seat->letters--;
        free_letter(engine, n);
    }
}

void engine_drop_letters(struct space_engine *engine, uint8_t number)
{
    struct engine_seat *seat = &engine->seats[number];

    while (seat->first != 0) {
        uint32_t n = seat->first;

        seat->first = engine->letters[n - 1].next;
        count_end(engine, &engine->letters[n - 1].send);
        engine->stats.dropped++;
        free_letter(engine, n);
    }
    seat->last = 0;
    seat->letters = 0;
}
