/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan over pin words. Its cost is the loads: one for an idle session, and one a word, in whole
 * cache lines, for chunks that were ever used. Comparing is a look into a table that lies in the
 * first-level cache.
 */
#include "object/pin_scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

nigh_status pin_scan_init(struct pin_scan *scan, uint32_t capacity)
{
    uint32_t room = (uint32_t)round_up_pow2_u64(max_u32(capacity, 4) * UINT64_C(2));

    NIGH_ASSERT(capacity > 0 && capacity <= LIMIT_INDEX_ENTRIES);
    *scan = (struct pin_scan){.room = room, .capacity = capacity};
    scan->filter = calloc(room, PIN_SCAN_BITS / 8);
    scan->refs = calloc(room, sizeof(*scan->refs));
    scan->holders = calloc(room, sizeof(*scan->holders));
    if (scan->filter == NULL || scan->refs == NULL || scan->holders == NULL) {
        pin_scan_fini(scan);
        return NIGH_NO_RESOURCES;
    }
    return NIGH_OK;
}

void pin_scan_fini(struct pin_scan *scan)
{
    free(scan->filter);
    free(scan->refs);
    free(scan->holders);
    *scan = (struct pin_scan){0};
}

void pin_scan_begin(struct pin_scan *scan, uint32_t lane, uint32_t count)
{
    uint32_t places = (uint32_t)round_up_pow2_u64(max_u32(count, 4) * UINT64_C(2));

    NIGH_ASSERT(count <= scan->capacity && places <= scan->room);
    memset(scan->filter, 0, places * (PIN_SCAN_BITS / 8));
    memset(scan->refs, 0, places * sizeof(*scan->refs));
    memset(scan->holders, 0, places * sizeof(*scan->holders));
    scan->mask = places - 1;
    scan->lane = lane;
    scan->count = 0;
}

/* Multiplied by 2^64 over the golden ratio (Knuth, vol. 3, 6.4): the upper half is well mixed. */
static inline uint32_t pin_scan_hash(uint64_t ref)
{
    return (uint32_t)((ref * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

/* The place of a ref, or the empty one where it would go. At most half of the places are full. */
static uint32_t pin_scan_place(const struct pin_scan *scan, uint64_t ref)
{
    uint32_t place = pin_scan_hash(ref) & scan->mask;

    while (scan->refs[place] != ref && scan->refs[place] != 0) {
        place = (place + 1) & scan->mask;
    }
    return place;
}

void pin_scan_add(struct pin_scan *scan, uint32_t entry)
{
    uint64_t ref = pin_ref(scan->lane, entry);
    uint32_t place = pin_scan_place(scan, ref);

    if (scan->refs[place] == 0) {
        uint32_t bit = pin_scan_hash(ref) & (scan->mask * PIN_SCAN_BITS + PIN_SCAN_BITS - 1);

        scan->filter[bit / 64] |= UINT64_C(1) << (bit % 64);
        NIGH_ASSERT(scan->count <= scan->mask / 2);
        scan->refs[place] = ref;
        scan->count++;
    }
}

uint32_t pin_scan_holders(const struct pin_scan *scan, uint32_t entry)
{
    uint64_t ref = pin_ref(scan->lane, entry);
    uint32_t place = pin_scan_place(scan, ref);

    NIGH_ASSERT(scan->refs[place] == ref);
    return scan->holders[place];
}

/* One pin that passed the filter: mostly one that is asked about. */
static void pin_scan_count(struct pin_scan *scan, uint64_t ref)
{
    uint32_t place = pin_scan_place(scan, ref);

    if (ref != 0 && scan->refs[place] == ref) {
        scan->holders[place]++;
    }
}

/*
 * Counts the refs among `count` pin words. The loads are relaxed and do not depend on each other,
 * so that their misses overlap; pin_scan_run orders them all at once. Words that are 0 go the way
 * of all others: a branch of their own would be a guess where some are set.
 */
static void pin_scan_words(struct pin_scan *scan, const _Atomic uint64_t *words, uint32_t count)
{
    const uint64_t *filter = scan->filter;
    uint32_t mask = scan->mask * PIN_SCAN_BITS + PIN_SCAN_BITS - 1;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t ref = shared_load_relaxed(&words[i]);
        uint32_t bit = pin_scan_hash(ref) & mask;

        if (unlikely((filter[bit / 64] >> (bit % 64) & 1) != 0)) {
            pin_scan_count(scan, ref);
        }
    }
}

/*
 * The first fence comes after the stores that took the entries from readers, and before every load
 * here: a reader's pin is either found, or that reader's re-check finds the new word. The last
 * fence orders the loads before all that the lane does with memory that nobody holds: what readers
 * read before they cleared their pins, they have read.
 */
void pin_scan_run(struct pin_scan *scan, const struct pin_table *tables, uint32_t table_count)
{
    shared_fence();
    for (uint32_t i = 0; i < table_count; i++) {
        const struct pin_table *table = &tables[i];
        uint32_t chunks = shared_load_relaxed(table->chunks_used);

        chunks = min_u32(chunks, LIMIT_PIN_CHUNKS);
        for (uint32_t c = 0; c < chunks; c++) {
            pin_scan_words(scan, table->chunks[c].entry, LIMIT_PINS_A_CHUNK);
        }
        NIGH_ASSERT(table->lane_pins_used <= LIMIT_LANE_PINS);
        pin_scan_words(scan, table->lane_pins, table->lane_pins_used);
    }
    shared_fence_acquire();
}

uint32_t pin_scan_victims(struct pin_scan *scan, struct index_writer *writer,
                          const struct pin_table *tables, uint32_t table_count, uint32_t *numbers,
                          uint32_t count)
{
    uint32_t free_of_pins = 0;

    pin_scan_begin(scan, writer->index.lane, count);
    for (uint32_t i = 0; i < count; i++) {
        index_mark(writer, numbers[i]);
        pin_scan_add(scan, numbers[i]);
    }
    pin_scan_run(scan, tables, table_count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = numbers[i];

        if (pin_scan_holders(scan, number) == 0) {
            numbers[i] = numbers[free_of_pins];
            numbers[free_of_pins++] = number;
        } else {
            index_unmark(writer, number);
        }
    }
    return free_of_pins;
}

static void pin_visit_words(const _Atomic uint64_t *words, uint32_t count, uint32_t lane,
                            uint32_t entry_count, pin_visitor *visitor, void *context)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t ref = shared_load_relaxed(&words[i]);

        if (ref != 0 && pin_ref_lane(ref) == lane && pin_ref_entry(ref) < entry_count) {
            visitor(context, pin_ref_entry(ref));
        }
    }
}

void pin_table_visit(const struct pin_table *table, uint32_t lane, uint32_t entry_count,
                     pin_visitor *visitor, void *context)
{
    uint32_t chunks = min_u32(shared_load_relaxed(table->chunks_used), LIMIT_PIN_CHUNKS);

    for (uint32_t c = 0; c < chunks; c++) {
        pin_visit_words(table->chunks[c].entry, LIMIT_PINS_A_CHUNK, lane, entry_count, visitor,
                        context);
    }
    pin_visit_words(table->lane_pins, table->lane_pins_used, lane, entry_count, visitor, context);
}

uint32_t pin_take_hints(struct pin_chunk *chunk, uint32_t *seen, uint32_t lane,
                        uint32_t entry_count, pin_visitor *visitor, void *context)
{
    uint32_t count = shared_load_relaxed(&chunk->hint_count);
    uint32_t first = count - *seen > LIMIT_HINTS_A_CHUNK ? count - LIMIT_HINTS_A_CHUNK : *seen;
    uint32_t visited = 0;

    /* The client may overwrite hints meanwhile, or write nonsense: a wrong hint is a wrong guess
     * about what is used, no more. */
    for (uint32_t i = first; i != count; i++) {
        uint32_t hint = shared_load_relaxed(&chunk->hint[i % LIMIT_HINTS_A_CHUNK]);
        uint32_t entry = hint & (LIMIT_INDEX_ENTRIES - 1);

        if (hint >> 26 == lane && entry < entry_count) {
            visitor(context, entry);
            visited++;
        }
    }
    *seen = count;
    return visited;
}
