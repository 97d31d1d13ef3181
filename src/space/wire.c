/* SPDX-License-Identifier: Apache-2.0 */
/* See wire.h. */
#include "space/wire.h"

#include "memory/space_window.h"
#include "space/term.h"

void space_wire_of(const struct space_message *message, enum space_wire_kind kind, uint64_t address,
                   struct space_wire *wire)
{
    *wire = (struct space_wire){
        .kind = (uint8_t)kind,
        .event = message->event,
        .whom = message->whom,
        .why = message->why,
        .term = message->term,
        .address = address,
        .epoch = message->epoch,
        .frame = message->frame,
    };
}

void space_wire_read(const struct space_wire *wire, uint8_t seat, struct space_message *message)
{
    *message = (struct space_message){
        .event = wire->event,
        .seat = seat,
        .whom = wire->whom,
        .why = wire->why,
        .term = wire->term,
        .epoch = wire->epoch,
        .frame = wire->frame,
    };
}

static bool is_of_no_block(const struct space_wire *wire)
{
    return wire->whom == 0 && wire->epoch.term == 0 && wire->epoch.count == 0 && wire->frame == 0 &&
           wire->atomic == 0;
}

bool space_wire_has_place(const struct space_wire *wire)
{
    if (wire->kind == SPACE_WIRE_TO_HOME) {
        return wire->event == SPACE_HOME_CLAIM_SHARED || wire->event == SPACE_HOME_CLAIM_DIRTY;
    }
    return wire->kind == SPACE_WIRE_TO_CACHE &&
           (wire->event == SPACE_CACHE_SHARE || wire->event == SPACE_CACHE_OWN ||
            wire->event == SPACE_CACHE_RESTORE);
}

static bool is_block_valid(const struct space_wire *wire)
{
    bool is_asked = wire->kind == SPACE_WIRE_TO_HOME && wire->event == SPACE_HOME_ASK_ATOMIC;
    bool is_answer = wire->kind == SPACE_WIRE_TO_CACHE && wire->event == SPACE_CACHE_ATOMIC_DONE;
    bool is_atomic = wire->atomic == SPACE_RECORD_ADD || wire->atomic == SPACE_RECORD_EXCHANGE ||
                     wire->atomic == SPACE_RECORD_SWAP;

    if (wire->kind == SPACE_WIRE_TO_HOME
            ? wire->event >= SPACE_HOME_EVENTS || space_home_event_from(wire->event) == SPACE_HERE
            : wire->event >= SPACE_CACHE_EVENTS ||
                  space_cache_event_from(wire->event) == SPACE_HERE) {
        return false;
    }
    if (is_asked ? !is_atomic || wire->address % 8 != 0 : wire->atomic != 0) {
        return false;
    }
    if (space_wire_has_place(wire)) {
        return wire->operands[0] < LIMIT_SPACE_BLOCKS && wire->operands[1] == 0;
    }
    return is_asked || ((is_answer || wire->operands[0] == 0) && wire->operands[1] == 0);
}

nigh_status space_wire_check(const struct space_wire *wire)
{
    bool is_good;

    switch ((enum space_wire_kind)wire->kind) {
    case SPACE_WIRE_HELLO:
        is_good = is_of_no_block(wire) && wire->event == 0 && wire->why <= SPACE_WIRE_IS_ANSWER &&
                  wire->address == 0 && wire->operands[0] != 0 && wire->term < SPACE_WIRE_TERMS;
        break;
    case SPACE_WIRE_LINKS:
        is_good = is_of_no_block(wire) && wire->event == 0 && wire->why == 0 &&
                  wire->address == 0 && wire->term == 0 && wire->operands[0] == 0;
        break;
    case SPACE_WIRE_TERM:
        is_good = is_of_no_block(wire) && wire->event < SPACE_TERM_EVENTS && wire->address == 0 &&
                  wire->operands[1] == 0 && wire->term != 0 &&
                  (wire->event == SPACE_TERM_TERM ? wire->why <= SPACE_WIRE_ANEW
                                                  : wire->why == 0 && wire->operands[0] == 0);
        break;
    case SPACE_WIRE_TO_HOME:
    case SPACE_WIRE_TO_CACHE: is_good = is_block_valid(wire); break;
    case SPACE_WIRE_ALLOC:
    case SPACE_WIRE_FREE:
        is_good = is_of_no_block(wire) && wire->event == 0 && wire->term == 0 &&
                  wire->why <= (wire->kind == SPACE_WIRE_ALLOC ? LIMIT_SPACE_ALIGN_BITS : 0);
        break;
    case SPACE_WIRE_ANSWER:
        is_good = is_of_no_block(wire) && wire->why == 0 && wire->term == 0 &&
                  (wire->event == SPACE_WIRE_ALLOC || wire->event == SPACE_WIRE_FREE) &&
                  (int64_t)wire->operands[0] <= 0 &&
                  (int64_t)wire->operands[0] >= NIGH_STATUS_LOWEST;
        break;
    case SPACE_WIRE_IS_HELD:
    case SPACE_WIRE_HELD:
        is_good = is_of_no_block(wire) && wire->why == 0 && wire->term != 0 &&
                  wire->event <= (wire->kind == SPACE_WIRE_HELD) && wire->operands[0] == 0 &&
                  wire->operands[1] != 0;
        break;
    default: is_good = false; break;
    }
    return is_good ? NIGH_OK : NIGH_PROTOCOL;
}
