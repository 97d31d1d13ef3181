/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is counted of a collective, and what its replies are reduced to (collect.h). An answer of
 * another node is checked whole before anything of it counts.
 */
#include <string.h>

#include "rpc/collect_internal.h"

void collect_note_error(struct collect *collect, uint32_t rank, nigh_status status, uint32_t count,
                        bool taken)
{
    struct collect_said *said = &collect->said;

    if (said->errors < LIMIT_COLLECT_ERRORS) {
        said->first[said->errors++] =
            (struct collect_error){.rank = rank, .status = status, .count = count, .taken = taken};
    }
}

/* ---- vectors -------------------------------------------------------------- */

static uint64_t reduce_u64(uint8_t reduce, uint64_t one, uint64_t other)
{
    switch (reduce) {
    case COLLECT_SUM_U64: return one + other;
    case COLLECT_MIN_U64: return one < other ? one : other;
    default: return one > other ? one : other;
    }
}

static double reduce_f64(uint8_t reduce, double one, double other)
{
    switch (reduce) {
    case COLLECT_SUM_F64: return one + other;
    case COLLECT_MIN_F64: return one < other ? one : other;
    default: return one > other ? one : other;
    }
}

static void reduce_words(uint8_t reduce, uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes; at += 8) {
        if (reduce <= COLLECT_MAX_U64) {
            uint64_t one, other;

            memcpy(&one, to + at, 8);
            memcpy(&other, from + at, 8);
            one = reduce_u64(reduce, one, other);
            memcpy(to + at, &one, 8);
        } else {
            double one, other;

            memcpy(&one, to + at, 8);
            memcpy(&other, from + at, 8);
            one = reduce_f64(reduce, one, other);
            memcpy(to + at, &one, 8);
        }
    }
}

static void add_words(struct collect *collect, const uint8_t *bytes, uint32_t count)
{
    if (collect->said.value_bytes == 0) {
        memcpy(collect->value, bytes, count);
        collect->said.value_bytes = count;
    } else {
        reduce_words(collect->wire.reduce, collect->value, bytes, count);
    }
}

/* ---- by rank -------------------------------------------------------------- */

/* False: there is no room. */
static bool insert(struct collect *collect, const struct collect_entry *entry, const uint8_t *bytes)
{
    uint32_t whole = (uint32_t)sizeof(*entry) + entry->bytes, at = 0;
    uint32_t have = collect->said.value_bytes;

    if (whole > collect->wire.value_room - have) {
        return false;
    }
    while (at < have) {
        struct collect_entry next;

        memcpy(&next, collect->value + at, sizeof(next));
        if (next.rank > entry->rank) {
            break;
        }
        at += (uint32_t)sizeof(next) + next.bytes;
    }
    memmove(collect->value + at + whole, collect->value + at, have - at);
    memcpy(collect->value + at, entry, sizeof(*entry));
    if (entry->bytes > 0) {
        memcpy(collect->value + at + sizeof(*entry), bytes, entry->bytes);
    }
    collect->said.value_bytes += whole;
    return true;
}

/* How many have no room: they count as failed. */
static uint32_t add_entries(struct collect *collect, const uint8_t *bytes, uint32_t count)
{
    uint32_t lost = 0, first = 0;

    for (uint32_t at = 0; at < count;) {
        struct collect_entry entry;

        memcpy(&entry, bytes + at, sizeof(entry));
        at += (uint32_t)sizeof(entry);
        if (!insert(collect, &entry, bytes + at)) {
            first = lost == 0 ? entry.rank : first;
            lost++;
        }
        at += entry.bytes;
    }
    if (lost > 0) {
        collect_note_error(collect, first, NIGH_LIMIT, lost, true);
    }
    return lost;
}

/* ---- one reply ------------------------------------------------------------ */

static nigh_status add_one(struct collect *collect, uint32_t rank, const uint8_t *bytes,
                           uint32_t count)
{
    struct collect_entry entry = {.rank = rank, .bytes = count};

    if (collect->wire.reduce == COLLECT_NONE) {
        return NIGH_OK;
    }
    if (collect->wire.reduce == COLLECT_CONCAT) {
        return insert(collect, &entry, bytes) ? NIGH_OK : NIGH_LIMIT;
    }
    if (count != collect->wire.value_room) {
        return NIGH_INVALID;
    }
    add_words(collect, bytes, count);
    return NIGH_OK;
}

void collect_add_reply(struct collect *collect, uint32_t rank, const uint8_t *bytes, uint32_t count)
{
    nigh_status status = add_one(collect, rank, bytes, count);

    if (status == NIGH_OK) {
        collect->said.answered++;
        return;
    }
    collect->said.failed++;
    collect_note_error(collect, rank, status, 1, true);
}

/* ---- a child's answer ----------------------------------------------------- */

static bool are_entries(const struct collect_said *said, const struct ranks *run,
                        const uint8_t *value)
{
    uint32_t at = 0, entries = 0, before = 0;

    while (at < said->value_bytes) {
        struct collect_entry entry;

        if (said->value_bytes - at < sizeof(entry)) {
            return false;
        }
        memcpy(&entry, value + at, sizeof(entry));
        at += (uint32_t)sizeof(entry);
        if (entry.bytes > said->value_bytes - at || !ranks_has(run, entry.rank) ||
            (entries > 0 && entry.rank <= before)) {
            return false;
        }
        before = entry.rank;
        at += entry.bytes;
        entries++;
    }
    return entries == said->answered;
}

static bool is_value(const struct collect *collect, const struct collect_said *said,
                     const struct ranks *run, const uint8_t *value)
{
    switch (collect->wire.reduce) {
    case COLLECT_NONE: return said->value_bytes == 0;
    case COLLECT_CONCAT:
        return said->value_bytes <= collect->wire.value_room && are_entries(said, run, value);
    default: return said->value_bytes == (said->answered > 0 ? collect->wire.value_room : 0);
    }
}

static bool is_error(const struct collect_error *error, const struct ranks *run, uint32_t size)
{
    return ranks_has(run, error->rank) && error->status < NIGH_OK &&
           error->status >= NIGH_STATUS_LOWEST && error->status != NIGH_PENDING &&
           error->count > 0 && error->count <= size && error->taken <= 1;
}

/* Whether each rank of the run is counted once. */
static bool is_said(const struct collect_said *said, const struct ranks *run)
{
    uint32_t size = ranks_count(run);
    uint64_t sum = (uint64_t)said->answered + said->failed + said->unknown + said->unasked;

    if (sum != size || said->errors > LIMIT_COLLECT_ERRORS ||
        (said->errors == 0) != (said->answered == size)) {
        return false;
    }
    for (uint32_t n = 0; n < said->errors; n++) {
        if (!is_error(&said->first[n], run, size)) {
            return false;
        }
    }
    return true;
}

bool collect_add_said(struct collect *collect, const struct ranks *run, const uint8_t *bytes,
                      uint32_t count)
{
    struct collect_said said;
    const uint8_t *value;
    uint32_t lost = 0;

    if (count < sizeof(said)) {
        return false;
    }
    memcpy(&said, bytes, sizeof(said));
    value = bytes + sizeof(said);
    if (said.value_bytes != count - sizeof(said) || !is_said(&said, run) ||
        !is_value(collect, &said, run, value)) {
        return false;
    }
    for (uint32_t n = 0; n < said.errors; n++) {
        collect_note_error(collect, said.first[n].rank, (nigh_status)said.first[n].status,
                           said.first[n].count, said.first[n].taken != 0);
    }
    if (collect->wire.reduce == COLLECT_CONCAT) {
        lost = add_entries(collect, value, said.value_bytes);
    } else if (said.value_bytes > 0) {
        add_words(collect, value, said.value_bytes);
    }
    collect->said.answered += said.answered - lost;
    collect->said.failed += said.failed + lost;
    collect->said.unknown += said.unknown;
    collect->said.unasked += said.unasked;
    return true;
}
