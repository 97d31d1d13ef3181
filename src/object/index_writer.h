/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lane's side of an index (memory/index.h): taking and filling entries, the transitions of an
 * entry's word, the slots, and rebuilding all of it after a restart.
 *
 * Readers in other processes look on at every store, and the node may be killed between any two of
 * them: each function says which words it stores, in which order, and why. What decides whether a
 * transition is right (is anyone pinning it, is it kept) is the caller's; so is the memory that
 * objects lie in. Everything here is called by the lane's thread only.
 */
#ifndef OBJECT_INDEX_WRITER_H
#define OBJECT_INDEX_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/index.h"
#include "nigh/status.h"

/*
 * The lane's private part: what a restart makes anew. The counters here are the truth while the
 * lane lives; the header has copies for readers and for a restart.
 */
struct index_writer {
    struct index index;
    uint32_t *free_numbers; /* a stack of entries that were given back */
    uint32_t free_count;
    uint32_t entries_used; /* entries from here on were never used */
    uint32_t taken;        /* entries that are neither free nor unused */
    uint32_t slots_used;
    uint64_t next_generation;
    uint64_t version;
};

/* What an entry is filled with. */
struct index_fill {
    const uint8_t *id; /* LIMIT_ID_BYTES; NULL: zeroes (a lease) */
    uint32_t incarnation;
    uint32_t meta_size;
    uint64_t offset;
    uint64_t data_size;
    uint16_t name_size;
    uint16_t flags;    /* INDEX_FLAG_* */
    uint32_t data_crc; /* when flags say so */
    uint32_t session;
    uint32_t build_us;
    uint64_t created_ns;
};

/*
 * Starts to write an index that is mapped writable: empty after index_format, or left by a former
 * node, and then to be rebuilt before anything else. The mapping stays the caller's.
 * NIGH_NO_RESOURCES.
 */
nigh_status index_writer_init(struct index_writer *writer, const struct index *index);
void index_writer_fini(struct index_writer *writer);

/*
 * Takes an entry out of the free ones; its word stays FREE until it is filled. Entries given back
 * are used first, then those never used, in order, so that memory is touched only as far as needed.
 * NIGH_LIMIT: all are in use.
 */
nigh_status index_take(struct index_writer *writer, uint32_t *number);

/* Gives back an entry that was taken and never filled. Stores nothing. */
void index_give_back(struct index_writer *writer, uint32_t number);

/*
 * Fills a taken entry and makes it `state` (LEASE, CREATED or SEALED); returns its generation,
 * never used before.
 */
uint64_t index_entry_fill(struct index_writer *writer, uint32_t number,
                          const struct index_fill *fill, enum index_state state);

/* CREATED only: another place for the bytes (a strict pool copies at seal). */
void index_entry_move(struct index_writer *writer, uint32_t number, uint64_t offset);

/* Sets and clears bits of the flags, at any time. */
void index_set_flags(struct index_writer *writer, uint32_t number, uint16_t set, uint16_t clear);

/* Keeps the CRC32C of the data, at any time. */
void index_set_crc(struct index_writer *writer, uint32_t number, uint32_t data_crc);

/* CREATED -> SEALED. `build_us`: how long it was being made. */
void index_seal(struct index_writer *writer, uint32_t number, uint32_t build_us);

/* SEALED -> MARKED. Says nothing about pins until pin_scan_run, which fences. */
void index_mark(struct index_writer *writer, uint32_t number);

/* MARKED -> SEALED. */
void index_unmark(struct index_writer *writer, uint32_t number);

/*
 * Any state -> FREE, and the entry may be taken again. The caller knows that no pin is left on it
 * (or that there never could be), that it is out of the slots, and frees the memory afterwards.
 */
void index_release(struct index_writer *writer, uint32_t number);

/* SEALED or MARKED -> DELETING. Readers that pinned it before keep what they have. CREATED, of
 * bytes that are all there -> DELETING: what nobody is to find, but some are given. */
void index_to_deleting(struct index_writer *writer, uint32_t number);

/* DELETING, of what never was in the slots -> SEALED. `build_us`: how long it was being made. */
void index_from_deleting(struct index_writer *writer, uint32_t number, uint32_t build_us);

/* MARKED, and found unpinned -> SPILLED. It stays in the slots; the caller frees the memory. */
void index_to_spilled(struct index_writer *writer, uint32_t number);

/* SPILLED -> SEALED with its old generation, the bytes being at `offset` again. */
void index_from_spilled(struct index_writer *writer, uint32_t number, uint64_t offset);

/*
 * Keeps the name of an object that leaves memory, for listings, in the place of another where there
 * is none free. `size` is 1 to LIMIT_NAME_BYTES; the bytes may be anything, and may change
 * meanwhile.
 */
void index_keep_name(struct index_writer *writer, uint64_t hash, const void *name, uint32_t size);

/* Puts an entry into the slots. `hash` is hash_id20 of its id, which is not there yet. */
void index_insert(struct index_writer *writer, uint64_t hash, uint32_t number);

/* Takes an entry out of the slots, in which it is. */
void index_remove(struct index_writer *writer, uint64_t hash, uint32_t number);

/* The entry of an id that stands in the slots, whatever its state. `hash` is hash_id20(id). */
bool index_find(const struct index_writer *writer, const uint8_t id[LIMIT_ID_BYTES], uint64_t hash,
                uint32_t *number);

/* An id of this hash will be looked for soon: fetches the slots where it may stand. */
static inline void index_expect(const struct index_writer *writer, uint64_t hash)
{
    __builtin_prefetch(
        (const void *)&writer->index.slots[index_hash_slot(hash, writer->index.slot_mask)], 1);
}

/* The lane's own word of an entry. */
static inline uint64_t index_word_at(const struct index_writer *writer, uint32_t number)
{
    return shared_load_relaxed(&writer->index.entries[number].word);
}

/*
 * The check of an entry: 32 bits over id, incarnation, generation, sizes and, with_offset, the
 * offset.
 */
uint32_t index_entry_check(const struct index_entry *entry, uint64_t generation, bool with_offset);

/*
 * Whether an entry whose word is `word` is whole: a known state that is not FREE, sizes that can
 * be, and the right check. While SPILLED the offset means nothing, and both checks are right.
 */
bool index_entry_is_whole(const struct index_entry *entry, uint64_t word);

/*
 * Says, for one whole entry that a former node left, whether it is kept: the callee claims its
 * memory, its file or its session. False: the entry becomes FREE. Called in order of numbers. The
 * callee reads, and calls nothing else of this module.
 */
typedef bool index_keep(void *context, uint32_t number, enum index_state state);

/* What a rebuild found. */
struct index_rebuilt {
    uint32_t kept;    /* of them all */
    uint32_t refused; /* by index_keep */
    uint32_t bad;     /* not whole: dropped */
    uint32_t doubles; /* of an id that was there already: made DELETING first */
    uint32_t copies;  /* sealed copies, whose birth is forgotten: made DELETING first */
};

/*
 * Rebuilds everything from the entries alone, after a death at any store; readers may look on. Each
 * entry that is whole is offered to `keep`; MARKED ones come back as SEALED, sealed copies
 * (INDEX_FLAG_COPY) as DELETING. Kept entries that are SEALED, SPILLED or claimed (CREATED with
 * INDEX_FLAG_CLAIMED) stand in the slots afterwards.
 */
void index_rebuild(struct index_writer *writer, index_keep *keep, void *context,
                   struct index_rebuilt *rebuilt);

/* Checks counters, slots and chains against the entries: for tests and slow assertions. */
bool index_is_valid(const struct index_writer *writer);

#endif
