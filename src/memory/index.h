/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object index of one pool in one lane: a table in shared memory that its lane alone writes and
 * every client of the pool maps read-only, and the reader's look-up, which pins what it finds.
 *
 * Layout of the memory: header (one page), slots, entries, cold entries, names. A slot is 0 or (tag
 * << 32 | entry + 1); slots are probed linearly and removed by shifting back, under a version.
 * Entries never move. What the lane does is in object/index_writer.h; why this is safe, on x86 and
 * ARM, is in docs/pins.md.
 */
#ifndef MEMORY_INDEX_H
#define MEMORY_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "memory/pin.h"
#include "memory/shared.h"
#include "nigh/status.h"

#define INDEX_MAGIC        UINT64_C(0x5845444e4948474e) /* "NGHINDEX", little endian */
#define INDEX_FORMAT       2u
#define INDEX_HEADER_BYTES 4096u

/* The state of an entry: the low 8 bits of its word; the 56 bits above are its generation. */
enum index_state {
    INDEX_FREE = 0,
    INDEX_LEASE = 1,    /* a slab leased to a session; not an object */
    INDEX_CREATED = 2,  /* an object not yet sealed */
    INDEX_SEALED = 3,   /* readable in place */
    INDEX_MARKED = 4,   /* a victim: the lane is about to look whether anyone pins it */
    INDEX_SPILLED = 5,  /* on disk only */
    INDEX_DELETING = 6, /* out of the slots; its memory waits for the last pin */
    INDEX_STATES = 7
};

#define INDEX_GENERATION_MAX ((UINT64_C(1) << 56) - 1)

/* Bits of index_entry.flags. */
#define INDEX_FLAG_KEPT     1u /* nigh_pin: neither evicted nor spilled */
#define INDEX_FLAG_CHECKSUM 2u /* data_crc is valid */
#define INDEX_FLAG_CLAIMED  4u /* a CREATED entry that stands in the slots (exclusive create) */
#define INDEX_FLAG_NODE_OWNED \
    8u /* the bytes lie in memory that no client may write (strict pool, read back) */
#define INDEX_FLAG_COPY \
    16u /* pulled from another node, where its birth was; gone after a restart */
#define INDEX_FLAG_ASKED \
    32u /* a claimed one that its id's home has yet to grant; gone after a restart */
#define INDEX_FLAG_HELD \
    64u /* one of several replicas, and must not leave memory: neither evicted nor spilled */
/* Of an object with replicas: how many there are to be, less one; else 0. */
#define INDEX_REPLICAS_SHIFT 7u
#define INDEX_REPLICAS_MASK  (7u << INDEX_REPLICAS_SHIFT)

#define INDEX_FLAG_GIVEN \
    1024u /* of a COPY: handed over by a node that left, and counts as what was born here */

#define INDEX_STAYS (INDEX_FLAG_KEPT | INDEX_FLAG_HELD)

/* One object: one cache line. `word` is the only field that changes while the entry may be pinned,
 * save flags and data_crc. */
struct index_entry {
    _Atomic uint64_t word; /* generation << 8 | state */
    uint8_t id[LIMIT_ID_BYTES];
    uint32_t incarnation; /* with the generation: the birth */
    uint64_t offset;      /* of the data in the arena */
    uint64_t data_size;
    uint32_t meta_size;
    uint16_t name_size;
    _Atomic uint16_t flags;
    _Atomic uint32_t data_crc; /* CRC32C of the data, when INDEX_FLAG_CHECKSUM */
    uint32_t check; /* index_entry_check: of all above but word's state, flags and data_crc */
};

_Static_assert(sizeof(struct index_entry) == 64, "an entry is one cache line");
_Static_assert(offsetof(struct index_entry, offset) == 32, "entry layout is shared");
_Static_assert(offsetof(struct index_entry, check) == 60, "entry layout is shared");

/* What is rarely read of an object. */
struct index_cold {
    uint64_t created_ns; /* wall clock */
    uint32_t build_us;   /* create to seal, saturated */
    uint32_t session;    /* that created it, or holds the lease */
};

_Static_assert(sizeof(struct index_cold) == 16, "cold entry layout is shared");

/* The birth of what was pulled from another node (INDEX_FLAG_COPY). */
struct index_birth {
    uint64_t counter;
    uint32_t incarnation;
    uint32_t rank;
};

_Static_assert(sizeof(struct index_birth) == 16, "birth layout is shared");

/*
 * The name of an object that went to disk, for listings: kept as long as no other takes its place.
 * Nothing says whether it is whole but the name itself: its hash must be the object's id.
 */
#define INDEX_NAME_WORDS 32u
#define INDEX_NAME_WAYS  4u /* places that a name may have */

struct index_name {
    _Atomic uint64_t words[INDEX_NAME_WORDS]; /* a byte that says how long, then the name */
};

_Static_assert(sizeof(struct index_name) == LIMIT_NAME_BYTES + 1, "the longest name fits");

struct index_header {
    uint64_t magic;
    uint32_t format;
    uint32_t pool;
    uint32_t lane;
    uint32_t lanes;
    uint32_t slot_count;  /* a power of two */
    uint32_t entry_count; /* at most LIMIT_INDEX_ENTRIES */
    uint64_t slots_offset;
    uint64_t entries_offset;
    uint64_t cold_offset;
    uint64_t size_bytes; /* of all above: names lie behind it, page-aligned as it is */
    uint32_t name_count; /* 0 (none kept), or a power of two from INDEX_NAME_WAYS on */
    uint32_t reserved0;
    uint64_t births_offset;
    uint8_t reserved3[48];
    _Atomic uint64_t version; /* odd while slots shift; even otherwise */
    uint8_t reserved1[56];
    _Atomic uint64_t
        next_generation; /* grows with every entry taken; generations are never used twice */
    _Atomic uint32_t entries_used; /* high-water mark: entries above it were never used */
    uint32_t reserved2;
};

_Static_assert(offsetof(struct index_header, version) == 128, "header layout is shared");
_Static_assert(sizeof(struct index_header) <= INDEX_HEADER_BYTES, "header fits its page");

/* A mapped index, by whoever maps it; plain pointers into the mapping. */
struct index {
    struct index_header *header;
    _Atomic uint64_t *slots;
    struct index_entry *entries;
    struct index_cold *cold;
    struct index_birth *births;
    struct index_name *names; /* name_count of them */
    uint32_t name_count;
    uint32_t slot_mask;
    uint32_t entry_count;
    uint32_t lane;
};

static inline uint64_t index_word(uint64_t generation, enum index_state state)
{
    return (generation << 8) | (uint64_t)state;
}

static inline enum index_state index_word_state(uint64_t word)
{
    return (enum index_state)(word & 0xff);
}

static inline uint64_t index_word_generation(uint64_t word)
{
    return word >> 8;
}

/* From the hash of an id (hash_id20): the shard's lane, the first slot, the tag. */
static inline uint32_t index_hash_shard(uint64_t hash)
{
    return (uint32_t)(hash >> 58);
}

static inline uint32_t index_hash_lane(uint64_t hash, uint32_t lanes)
{
    return index_hash_shard(hash) & (lanes - 1);
}

static inline uint32_t index_hash_slot(uint64_t hash, uint32_t slot_mask)
{
    return (uint32_t)(hash >> 24) & slot_mask;
}

static inline uint32_t index_hash_tag(uint64_t hash)
{
    return (uint32_t)hash;
}

/* What a look-up without IPC came to. */
enum index_answer {
    INDEX_HIT,  /* pinned: the entry's fields and bytes stay as they are until the pin is cleared */
    INDEX_MISS, /* no sealed object of this id, at some moment during the call */
    INDEX_ASK /* only the lane can tell: an object in passage, a long probe, a table that shifts */
};

/* Bytes of an object in memory: data, then metadata on 8 bytes, then the name, up to a granule. 0
 * on overflow. */
static inline uint64_t index_object_bytes(uint64_t data_size, uint32_t meta_size,
                                          uint32_t name_size)
{
    uint64_t bytes;

    if (data_size > LIMIT_OBJECT_BYTES) {
        return 0;
    }
    bytes = ((data_size + 7) & ~UINT64_C(7)) + meta_size + name_size;
    bytes = (bytes + LIMIT_GRANULE_BYTES - 1) & ~(uint64_t)(LIMIT_GRANULE_BYTES - 1);
    return bytes == 0 ? LIMIT_GRANULE_BYTES : bytes;
}

/* Where the metadata begins, from the start of the data. */
static inline uint64_t index_meta_offset(uint64_t data_size)
{
    return (data_size + 7) & ~UINT64_C(7);
}

/* Slots for so many entries: a power of two that they fill to three quarters at most. */
uint32_t index_slot_count(uint32_t entry_count);

/*
 * Memory that an index of entry_count entries needs, in whole pages: 91 to 105 bytes an entry, 94
 * at ten million. 0 when there is no such index (none, or above LIMIT_INDEX_ENTRIES).
 */
uint64_t index_size_bytes(uint32_t entry_count);

/*
 * Makes an empty index in zeroed memory of index_size_bytes(entry_count), at a page, and fills
 * *index. The node, before anyone maps it.
 */
void index_format(void *memory, uint32_t pool, uint32_t lane, uint32_t lanes, uint32_t entry_count,
                  struct index *index);

/*
 * Attaches to an index in memory of size_bytes, at a page, that may be mapped read-only: checks the
 * header and fills *index, whose pointers lie in the mapping. NIGH_VERSION: a format that this
 * program does not know; NIGH_INVALID: sizes or offsets that cannot be. Any thread.
 */
nigh_status index_attach(const void *memory, uint64_t size_bytes, struct index *index);

/* Where the name of an id of this hash may lie: INDEX_NAME_WAYS names from here on. Only where
 * name_count is not 0. */
static inline struct index_name *index_names_of(const struct index *index, uint64_t hash)
{
    return &index->names[(hash >> 20) & (index->name_count - 1) & ~(INDEX_NAME_WAYS - 1)];
}

/*
 * Copies the `way`-th name that may be the one of an id of this hash to name[], terminated, if it
 * is `size` bytes long (1 to LIMIT_NAME_BYTES). False: it is not. It may be another's, or torn:
 * only who finds the id in its hash has found the name.
 */
bool index_name_copy(const struct index *index, uint64_t hash, uint32_t way, uint32_t size,
                     char name[LIMIT_NAME_BYTES + 1]);

/* Whether an entry is an id's. Means something only while the entry is pinned, or the caller's. */
static inline bool index_entry_is(const struct index_entry *entry, const uint8_t id[LIMIT_ID_BYTES])
{
    const void *mine = entry->id;
    uint64_t head, middle;
    uint32_t tail;

    __builtin_memcpy(&head, id, sizeof(head));
    __builtin_memcpy(&middle, id + 8, sizeof(middle));
    __builtin_memcpy(&tail, id + 16, sizeof(tail));
    return shared_load_plain((const uint64_t *)mine) == head &&
           shared_load_plain((const uint64_t *)mine + 1) == middle &&
           shared_load_plain((const uint32_t *)mine + 4) == tail;
}

/* Copies an entry's id out, in pieces that are each whole. */
static inline void index_entry_id(const struct index_entry *entry, uint8_t id[LIMIT_ID_BYTES])
{
    const void *from = entry->id;
    uint64_t head = shared_load_plain((const uint64_t *)from);
    uint64_t middle = shared_load_plain((const uint64_t *)from + 1);
    uint32_t tail = shared_load_plain((const uint32_t *)from + 4);

    __builtin_memcpy(id, &head, sizeof(head));
    __builtin_memcpy(id + 8, &middle, sizeof(middle));
    __builtin_memcpy(id + 16, &tail, sizeof(tail));
}

/* What can be read of an entry without pinning it. The offset cannot: the bytes may move. */
struct index_glance {
    uint64_t word;
    uint8_t id[LIMIT_ID_BYTES];
    uint32_t incarnation;
    uint64_t data_size;
    uint32_t meta_size;
    uint16_t name_size;
    uint16_t flags;
    uint32_t data_crc;
};

/*
 * Copies what belongs together out of an entry, whatever its state. False: it is free, or it
 * changed meanwhile. No store. Any thread; number < index->entry_count.
 */
static inline bool index_glance_at(const struct index *index, uint32_t number,
                                   struct index_glance *glance)
{
    const struct index_entry *entry = &index->entries[number];
    struct index_glance copy;

    copy.word = shared_load_acquire(&entry->word);
    if (index_word_state(copy.word) == INDEX_FREE) {
        return false;
    }
    index_entry_id(entry, copy.id);
    copy.incarnation = shared_load_plain(&entry->incarnation);
    copy.data_size = shared_load_plain(&entry->data_size);
    copy.meta_size = shared_load_plain(&entry->meta_size);
    copy.name_size = shared_load_plain(&entry->name_size);
    /* The CRC may be added meanwhile: its flag comes last, so it is read first. */
    copy.flags = shared_load_acquire(&entry->flags);
    copy.data_crc = shared_load_relaxed(&entry->data_crc);
    shared_fence_acquire();
    if (shared_load_relaxed(&entry->word) != copy.word) {
        return false;
    }
    *glance = copy;
    return true;
}

/*
 * Tries one entry whose tag matched: pins it in chunk->entry[slot] (which is 0 and the caller's),
 * and looks again. INDEX_HIT leaves the pin set; INDEX_MISS says that this is another id's entry;
 * both other answers leave the word 0.
 */
static inline enum index_answer index_try_entry(const struct index *index, uint32_t number,
                                                const uint8_t id[LIMIT_ID_BYTES],
                                                struct pin_chunk *chunk, uint32_t slot)
{
    struct index_entry *entry = &index->entries[number];

    for (int attempt = 0; attempt < LIMIT_PIN_RETRIES; attempt++) {
        uint64_t word = shared_load_acquire(&entry->word);

        if (index_word_state(word) != INDEX_SEALED) {
            return INDEX_ASK;
        }
        pin_publish(chunk, slot, pin_ref(index->lane, number), index_word_generation(word));
        if (shared_load_acquire(&entry->word) == word) {
            /* Pinned while sealed: the fields are still from here on, so the id is compared only
             * now. */
            if (index_entry_is(entry, id)) {
                return INDEX_HIT;
            }
            pin_clear(&chunk->entry[slot]);
            return INDEX_MISS;
        }
        pin_clear(&chunk->entry[slot]);
    }
    return INDEX_ASK;
}

/*
 * Looks an id up and pins it. `hash` is hash_id20(id), `slot` a pin word of the caller's chunk that
 * is 0. On INDEX_HIT *number is the entry, and the pin stays until pin_clear. No system call, no
 * store outside the chunk. Any thread, its own chunk.
 */
static inline enum index_answer index_acquire(const struct index *index,
                                              const uint8_t id[LIMIT_ID_BYTES], uint64_t hash,
                                              struct pin_chunk *chunk, uint32_t slot,
                                              uint32_t *number)
{
    uint64_t version = shared_load_acquire(&index->header->version);
    uint32_t place = index_hash_slot(hash, index->slot_mask);
    uint32_t tag = index_hash_tag(hash);

    for (uint32_t probe = 0; probe < LIMIT_PROBES; probe++) {
        uint64_t value = shared_load_acquire(&index->slots[(place + probe) & index->slot_mask]);

        if (value == 0) {
            /* A miss counts only if nothing shifted under the probe; else the id may have slipped
             * behind it. */
            shared_fence_acquire();
            if ((version & 1) != 0 || shared_load_relaxed(&index->header->version) != version) {
                return INDEX_ASK;
            }
            return INDEX_MISS;
        }
        if ((uint32_t)(value >> 32) == tag) {
            uint32_t candidate = (uint32_t)value - 1;
            enum index_answer answer;

            if (candidate >= index->entry_count) {
                return INDEX_ASK;
            }
            answer = index_try_entry(index, candidate, id, chunk, slot);
            if (answer != INDEX_MISS) {
                *number = candidate;
                return answer;
            }
        }
    }
    return INDEX_ASK;
}

#endif
