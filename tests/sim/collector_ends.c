/* SPDX-License-Identifier: Apache-2.0 */
/* See collector.h. How collectives end, and what is in their values. */
#include <stdio.h>
#include <string.h>

#include "collector.h"

/* ---- words ---------------------------------------------------------------- */

const char *collector_names(uint32_t set, char *to, size_t size)
{
    size_t length = 0;

    snprintf(to, size, "%s", set == 0 ? "no node" : (set & (set - 1)) == 0 ? "node" : "nodes");
    for (uint32_t n = 0; n < CALLER_NODES; n++) {
        length = strlen(to);
        if ((set >> n & 1) != 0) {
            snprintf(to + length, size - length, " %u", n);
        }
    }
    return to;
}

static void say_end(struct world *world, const struct collector_one *one, uint32_t serial)
{
    const struct collect_said *said = &one->said;

    world_say(world, "node %u: collective %u ends: %u answered, %u failed, %u unknown, %u unasked",
              one->node, serial, said->answered, said->failed, said->unknown, said->unasked);
    for (uint32_t n = 0; n < said->errors; n++) {
        const struct collect_error *error = &said->first[n];
        char others[32] = "";

        if (error->count > 1) {
            snprintf(others, sizeof(others), " and %u behind it", error->count - 1);
        }
        world_say(world, "node %u: collective %u missed node %u%s: %s%s", one->node, serial,
                  error->rank, others, nigh_status_name(error->status),
                  error->taken != 0 ? "" : "; nobody there has carried it out");
    }
}

/* ---- values --------------------------------------------------------------- */

/* The n-th word of what a node replies. The first is in a byte of its own: a sum of them tells who
 * is in it, and how often. */
static uint64_t word_of(uint32_t serial, uint32_t rank, uint32_t n)
{
    return n == 0 ? UINT64_C(1) << 8 * rank : (serial * 31 + rank * 17 + n * 5) % 1000;
}

uint32_t collector_fill_reply(uint8_t *to, const struct collector_one *one, uint32_t serial,
                              uint32_t rank)
{
    uint32_t bytes = one->reduce == COLLECT_CONCAT ? 1 + (serial * 13 + rank * 7) % 60 : one->room;

    for (uint32_t at = 0; one->reduce == COLLECT_CONCAT && at < bytes; at++) {
        to[at] = (uint8_t)(serial + rank * 5 + at);
    }
    for (uint32_t n = 0; one->reduce != COLLECT_CONCAT && n < bytes / 8; n++) {
        uint64_t word = word_of(serial, rank, n);
        double number = (double)word;

        memcpy(to + 8 * n, one->reduce <= COLLECT_MAX_U64 ? (void *)&word : (void *)&number, 8);
    }
    return bytes;
}

/* What so many words of a set of nodes come to, in small numbers that a double holds too. */
static uint64_t reduced(const struct collector_one *one, uint32_t serial, uint32_t set, uint32_t n)
{
    bool is_sum = one->reduce == COLLECT_SUM_U64 || one->reduce == COLLECT_SUM_F64;
    bool is_min = one->reduce == COLLECT_MIN_U64 || one->reduce == COLLECT_MIN_F64;
    uint64_t value = is_min ? UINT64_MAX : 0;

    for (uint32_t rank = 0; rank < CALLER_NODES; rank++) {
        uint64_t word = word_of(serial, rank, n);

        if ((set >> rank & 1) != 0) {
            value = is_sum ? value + word : is_min ? min_u64(value, word) : max_u64(value, word);
        }
    }
    return value;
}

static bool is_value_of(const struct collector_one *one, uint32_t serial, const uint8_t *value,
                        uint32_t set)
{
    for (uint32_t n = 0; n < one->room / 8; n++) {
        uint64_t word = reduced(one, serial, set, n), is;
        double number = (double)word;

        memcpy(&is, &number, 8);
        word = one->reduce <= COLLECT_MAX_U64 ? word : is;
        memcpy(&is, value + 8 * n, 8);
        if (is != word) {
            return false;
        }
    }
    return true;
}

/* Who is in a value; 0: it is of nobody. */
static uint32_t read_value(const struct collector_one *one, uint32_t serial, const uint8_t *value)
{
    for (uint32_t set = 1; set < 1u << CALLER_NODES; set++) {
        if ((set & ~one->ok) == 0 && (uint32_t)__builtin_popcount(set) == one->said.answered &&
            is_value_of(one, serial, value, set)) {
            return set;
        }
    }
    return 0;
}

static uint32_t read_entries(const struct collector_one *one, uint32_t serial, const uint8_t *value)
{
    uint32_t set = 0, at = 0;

    while (at + sizeof(struct collect_entry) <= one->said.value_bytes) {
        struct collect_entry entry;
        uint8_t reply[64];

        memcpy(&entry, value + at, sizeof(entry));
        at += (uint32_t)sizeof(entry);
        if (entry.rank >= CALLER_NODES || set >> entry.rank != 0 ||
            entry.bytes != collector_fill_reply(reply, one, serial, entry.rank) ||
            at + entry.bytes > one->said.value_bytes ||
            memcmp(reply, value + at, entry.bytes) != 0) {
            return 0;
        }
        set |= 1u << entry.rank;
        at += entry.bytes;
    }
    return at == one->said.value_bytes ? set : 0;
}

static void check_value(struct world *world, const struct collector_one *one, uint32_t serial,
                        const uint8_t *value)
{
    uint32_t answered = one->said.answered, in = 0;

    WORLD_CHECK(world, answered <= (uint32_t)__builtin_popcount(one->ok),
                "collective %u of node %u: %u answered, which %u did", serial, one->node, answered,
                __builtin_popcount(one->ok));
    if (one->reduce == COLLECT_NONE || answered == 0) {
        WORLD_CHECK(world, one->said.value_bytes == 0,
                    "collective %u of node %u: a value of nobody", serial, one->node);
        return;
    }
    if (one->reduce == COLLECT_CONCAT) {
        in = read_entries(one, serial, value);
    } else if (one->said.value_bytes == one->room) {
        in = read_value(one, serial, value);
    }
    WORLD_CHECK(world, (in & ~one->ok) == 0 && (uint32_t)__builtin_popcount(in) == answered,
                "collective %u of node %u: the value is not that of the %u that answered, of each "
                "once",
                serial, one->node, answered);
}

/* ---- ends ----------------------------------------------------------------- */

void collector_close(struct collector_world *many, struct collector_one *one)
{
    uint32_t last = many->open[--many->open_count];

    many->open[one->open] = last;
    many->one[last - 1].open = one->open;
    one->ended = true;
}

static bool may_miss(const struct world *world, const struct collector_one *one,
                     const struct collect_error *error)
{
    uint32_t bit = 1u << error->rank;
    uint64_t time_us = one->deadline_us - one->begun_us;

    switch (error->status) {
    case CALLER_NO: return error->taken != 0 && (one->no & bit) != 0;
    case NIGH_INVALID: return error->taken != 0 && (one->odd & bit) != 0;
    case NIGH_LIMIT: return error->taken != 0 && one->reduce == COLLECT_CONCAT;
    /* Three times, at most, a level kept so much for the way back. */
    case NIGH_TIMEOUT:
        return one->deadline_us != WORLD_NEVER && world->now_us + 1 >= one->begun_us + time_us / 8;
    case NIGH_STALE: return error->taken == 0 && world->views.some;
    case NIGH_OVERLOADED:
    case NIGH_NOT_FOUND: return error->taken == 0;
    case NIGH_PEER_LOST: return error->rank != one->node;
    case NIGH_CLOSED: return true;
    default: return false;
    }
}

static void check_errors(struct world *world, struct collector_one *one, uint32_t serial)
{
    const struct collect_said *said = &one->said;
    uint32_t taken = 0, untaken = 0;

    for (uint32_t n = 0; n < said->errors; n++) {
        const struct collect_error *error = &said->first[n];

        WORLD_CHECK(world,
                    error->rank < CALLER_NODES && (one->wanted >> error->rank & 1) != 0 &&
                        may_miss(world, one, error),
                    "collective %u of node %u missed node %u with %s", serial, one->node,
                    error->rank, nigh_status_name(error->status));
        taken += error->taken != 0 ? error->count : 0;
        untaken += error->taken == 0 ? error->count : 0;
        one->said_unasked |= error->taken == 0 ? 1u << error->rank : 0;
    }
    WORLD_CHECK(world, taken == said->failed + said->unknown && untaken == said->unasked,
                "collective %u of node %u: %u that may have carried it out and %u that have not "
                "were missed, and it tells of %u and %u",
                serial, one->node, said->failed + said->unknown, said->unasked, taken, untaken);
}

/* Nobody carries out what it is said to be unasked for, then or later. */
void collector_check_unasked(struct world *world, const struct collector_one *one, uint32_t serial)
{
    uint32_t most = (uint32_t)__builtin_popcount(one->wanted) - one->said.unasked;

    WORLD_CHECK(world,
                !one->ended || one->given_up ||
                    ((uint32_t)__builtin_popcount(one->carried_out) <= most &&
                     (one->carried_out & one->said_unasked) == 0),
                "collective %u of node %u was carried out where it was said to be unasked", serial,
                one->node);
}

static void count_end(struct world_totals *totals, const struct collect_said *said)
{
    totals->many_whole += said->errors == 0;
    totals->many_answered += said->answered;
    totals->many_failed += said->failed;
    totals->many_unknown += said->unknown;
    totals->many_unasked += said->unasked;
    for (uint32_t n = 0; n < said->errors; n++) {
        totals->many_passed_over +=
            said->first[n].status == NIGH_PEER_LOST && said->first[n].taken == 0;
        totals->many_stale += said->first[n].status == NIGH_STALE;
    }
}

void collector_ended(void *context, const struct calls_caller *caller,
                     const struct collect_end *end)
{
    struct world_lane *lane = context;
    struct world *world = lane->world;
    struct collector_world *many = world->many;
    uint32_t serial = caller->cookie;
    struct collector_one *one = &many->one[serial - 1];
    uint32_t sum;

    WORLD_CHECK(world,
                serial > 0 && serial <= many->count && one->node == lane->node &&
                    one->lane == lane->number && one->session == caller->owner &&
                    one->incarnation == caller->begun && !one->ended,
                "node %u: collective %u ends, which is not under way, or has ended", lane->node,
                serial);
    one->said = *end->said;
    collector_close(many, one);
    say_end(world, one, serial);
    WORLD_CHECK(world, world->now_us <= caller_latest_us(world, one->node, one->deadline_us),
                "collective %u of node %u ended %llu us after its deadline", serial, one->node,
                (unsigned long long)(world->now_us - one->deadline_us));
    sum = one->said.answered + one->said.failed + one->said.unknown + one->said.unasked;
    WORLD_CHECK(world, end->status == NIGH_OK && sum == (uint32_t)__builtin_popcount(one->wanted),
                "collective %u of node %u counts %u nodes of %d", serial, one->node, sum,
                __builtin_popcount(one->wanted));
    check_value(world, one, serial, end->value);
    check_errors(world, one, serial);
    collector_check_unasked(world, one, serial);
    count_end(world->totals, &one->said);
    world_fold(world, (uint64_t)serial << 32 | one->said.answered << 8 | one->said.unasked);
    world_fold(world, world->now_us);
}
