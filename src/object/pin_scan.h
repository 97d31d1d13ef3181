/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lane's scan: which of these entries does anyone pin, and how many times?
 *
 * The lane's half of the hand-shake whose other half is pin_publish: it takes objects from readers
 * first (MARKED, or DELETING), then calls pin_scan_run, which fences and reads every pin word that
 * may be in use. What it does not find there nobody holds or can come to hold. Words come from
 * memory that clients write: any value is harmless, and at worst keeps an entry of the writer's own
 * pool from being freed while that session lasts. The lane's thread only.
 */
#ifndef OBJECT_PIN_SCAN_H
#define OBJECT_PIN_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/pin.h"
#include "nigh/status.h"
#include "object/index_writer.h"

/* Where the pins of one session are. The first three point into the session's memory. */
struct pin_table {
    struct pin_chunk *chunks;          /* LIMIT_PIN_CHUNKS */
    _Atomic uint32_t *chunks_used;     /* the client's word: clamped */
    const _Atomic uint64_t *lane_pins; /* LIMIT_LANE_PINS words */
    uint32_t lane_pins_used;           /* the lane's own high-water mark of them */
};

/* Bits of the filter for each place: at most one in 32 is set, so the branch on it is foreseen. */
#define PIN_SCAN_BITS 16u

/* The entries a scan asks about. Made once, used again and again. */
struct pin_scan {
    uint64_t *filter;  /* a bit for each ref asked about, by its hash: most pins end here */
    uint64_t *refs;    /* open addressing: 0, or pin_ref of an entry asked about */
    uint32_t *holders; /* beside each: pins found on it */
    uint32_t room;     /* places there are: a power of two */
    uint32_t capacity; /* entries that may be asked about at once */
    uint32_t mask;     /* places in use - 1; the filter has PIN_SCAN_BITS times as many bits */
    uint32_t lane;
    uint32_t count;
};

/* Room to ask about `capacity` entries (1 .. LIMIT_INDEX_ENTRIES) at once. NIGH_NO_RESOURCES. */
nigh_status pin_scan_init(struct pin_scan *scan, uint32_t capacity);
void pin_scan_fini(struct pin_scan *scan);

/* Begins anew, to ask about at most `count` (<= capacity) entries of a lane. */
void pin_scan_begin(struct pin_scan *scan, uint32_t lane, uint32_t count);

/* Asks about an entry; twice is once. */
void pin_scan_add(struct pin_scan *scan, uint32_t entry);

/*
 * Fences, then reads all pins of these sessions (those of the pool that the entries are in).
 * Entries that nobody was found to hold stay unheld if new pins on them fail their re-check, that
 * is, if their words stopped being SEALED before the call.
 */
void pin_scan_run(struct pin_scan *scan, const struct pin_table *tables, uint32_t table_count);

/* Pins found on an entry that was asked about. */
uint32_t pin_scan_holders(const struct pin_scan *scan, uint32_t entry);

/*
 * The whole hand-shake for victims: marks these SEALED entries (at most capacity, all different),
 * scans once, and unmarks those that are pinned. Returns how many are free of pins: they come first
 * in numbers[], in their order, and stay MARKED; the pinned ones follow.
 */
uint32_t pin_scan_victims(struct pin_scan *scan, struct index_writer *writer,
                          const struct pin_table *tables, uint32_t table_count, uint32_t *numbers,
                          uint32_t count);

/* Called for each pin of a session on entries of one lane; the same entry may come several times.
 */
typedef void pin_visitor(void *context, uint32_t entry);

/* Visits the pins of a session on entries below entry_count of `lane`: who holds what. No fence:
 * a pin that comes or goes meanwhile may be seen or not. */
void pin_table_visit(const struct pin_table *table, uint32_t lane, uint32_t entry_count,
                     pin_visitor *visitor, void *context);

/*
 * Takes the hints that a chunk got since *seen (its hint_count then; 0 at first): visits those on
 * entries below entry_count of `lane`, oldest first, at most LIMIT_HINTS_A_CHUNK of them; older
 * ones are lost. Returns how many it visited.
 */
uint32_t pin_take_hints(struct pin_chunk *chunk, uint32_t *seen, uint32_t lane,
                        uint32_t entry_count, pin_visitor *visitor, void *context);

#endif
