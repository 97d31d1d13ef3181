/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views: what a node has of a space, as its clients see it: they map it to be read, and read what
 * is there without asking anybody (docs/spaces.md, "Views").
 *
 * There are two kinds of memory. A *cache* has sets of frames: which block is in which frame, and
 * its bytes. *Home memory* has the blocks of one home, all of them, in order. Both have a word for
 * each block: whether its bytes may be read now, and a count of its changes. The lane alone writes
 * any of it, but bytes while they may not be read.
 *
 * A reader looks at the word, takes the bytes, and looks at the word again: what it has is what was
 * there at one moment between the two. It stores nothing, so it holds up nobody, wherever it stops.
 * Here are both sides' steps. Sizes and places are of whole blocks and inside one; no block is read
 * together with another.
 */
#ifndef MEMORY_SPACE_VIEW_H
#define MEMORY_SPACE_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/check.h"
#include "base/limits.h"
#include "memory/shared.h"
#include "nigh/status.h"

/* ---- layout --------------------------------------------------------------- */

#define SPACE_VIEW_VERSION 1u
#define SPACE_VIEW_PAGE    4096u

enum space_view_kind {
    SPACE_VIEW_CACHE = 1,
    SPACE_VIEW_HOME = 2
};

/* First page of either. Written before anybody maps it. */
struct space_view_header {
    uint64_t magic;
    uint32_t version;
    uint32_t kind;        /* enum space_view_kind */
    uint32_t block_bytes; /* a power of two */
    uint32_t reserved;
    uint64_t count;        /* sets; blocks */
    uint64_t first;        /* home memory: the address of its first block */
    uint64_t heads_offset; /* of sets; of words */
    uint64_t bytes_offset; /* of frames; of blocks */
};

_Static_assert(sizeof(struct space_view_header) == 56, "the header is shared");

/*
 * Fifteen frames and a byte for each make four cache lines: a look-up is one of them, by those
 * bytes, and then that of the frame.
 */
#define SPACE_WAYS 15u

/* A block's place in a cache. */
struct space_head {
    _Atomic uint64_t tag;  /* its address and 1; 0: of none */
    _Atomic uint64_t word; /* SPACE_READABLE, and a count above it */
};

struct space_set {
    _Atomic uint64_t prints[2]; /* of each way 8 bits of its block's hash; the last byte is 0 */
    struct space_head heads[SPACE_WAYS];
};

_Static_assert(sizeof(struct space_set) == 256, "a set is shared");

#define SPACE_READABLE UINT64_C(1)
#define SPACE_CHANGE   UINT64_C(2)

/* A process's own note of where all that is. Of a cache `sets`, of home memory `words`. */
struct space_view {
    struct space_set *sets;
    _Atomic uint64_t *words;
    _Atomic uint64_t *bytes;
    uint64_t count; /* sets; blocks */
    uint64_t first;
    uint64_t span;  /* home memory: bytes of all blocks */
    uint64_t mask;  /* a block has so many bytes and one, */
    uint32_t shift; /* which are 1 << shift */
};

/* Bytes of such memory, whole pages; 0: a bound does not hold. block_bytes: a power of two from
 * LIMIT_SPACE_BLOCK_MIN to LIMIT_SPACE_BLOCK_BYTES. */
uint64_t space_view_cache_bytes(uint64_t sets, uint32_t block_bytes);
uint64_t space_view_home_bytes(uint64_t blocks, uint32_t block_bytes);

/* Of zeroed memory of so many bytes, on a page. Nothing is readable. The lane's. */
void space_view_make_cache(void *memory, uint64_t sets, uint32_t block_bytes,
                           struct space_view *view);
void space_view_make_home(void *memory, uint64_t blocks, uint32_t block_bytes, uint64_t first,
                          struct space_view *view);

/* What somebody else made. NIGH_PROTOCOL: it is of another kind or version, or does not fit;
 * NIGH_NOT_FOUND: there is none: the memory was let go since. */
nigh_status space_view_open(void *memory, uint64_t memory_bytes, enum space_view_kind kind,
                            struct space_view *view);

/* ---- which block, where --------------------------------------------------- */

/* 2^64 over the golden ratio: what lies side by side falls evenly into sets, however many there
 * are, and so does what lies in even strides (Knuth, TAOCP 3, 6.4). */
#define SPACE_SPREAD UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t space_hash(uint64_t address, uint32_t shift)
{
    return (address >> shift) * SPACE_SPREAD;
}

static inline uint64_t space_set_of(const struct space_view *view, uint64_t hash)
{
    return ((hash >> 32) * view->count) >> 32;
}

/* Bits that say nothing of the set, where there are no more of these than there may be. */
static inline uint64_t space_print_of(uint64_t hash)
{
    return hash >> 32 & 0xff;
}

static inline uint64_t space_block_of(const struct space_view *view, uint64_t address)
{
    return address & ~view->mask;
}

static inline uint64_t space_tag_of(const struct space_view *view, uint64_t address)
{
    return space_block_of(view, address) | 1;
}

static inline uint32_t space_offset_of(const struct space_view *view, uint64_t address)
{
    return (uint32_t)(address & view->mask);
}

/* The bytes of the n-th frame; of the n-th block of home memory. */
static inline _Atomic uint64_t *space_bytes_of(const struct space_view *view, uint64_t n)
{
    return (_Atomic uint64_t *)(void *)((uint8_t *)view->bytes + (n << view->shift));
}

#define SPACE_EACH_BYTE UINT64_C(0x0101010101010101)

/* A bit for each byte of `prints` that is `print`, and perhaps for some behind the first. */
static inline uint32_t space_prints_like(uint64_t prints, uint64_t print)
{
    uint64_t differs = prints ^ print * SPACE_EACH_BYTE;
    uint64_t tops = (differs - SPACE_EACH_BYTE) & ~differs & SPACE_EACH_BYTE << 7;

    return (uint32_t)((tops >> 7) * UINT64_C(0x0102040810204080) >> 56);
}

/* The same of sixteen. */
static inline uint32_t space_prints_of_both(uint64_t low, uint64_t high, uint64_t print)
{
    return space_prints_like(low, print) | space_prints_like(high, print) << 8;
}

/*
 * The ways of a set that may have a block of that print, a bit for each; without a branch that
 * depends on where it is, which no processor could foresee. On x86 with its own instructions, as
 * this is a good part of a read hit.
 */
static inline uint32_t space_ways_like(struct space_set *set, uint64_t print)
{
    uint64_t low = shared_load_relaxed(&set->prints[0]);
    uint64_t high = shared_load_relaxed(&set->prints[1]);
#ifdef __SSE2__
    __m128i prints = _mm_set_epi64x((int64_t)high, (int64_t)low);
    __m128i same = _mm_cmpeq_epi8(prints, _mm_set1_epi64x((int64_t)(print * SPACE_EACH_BYTE)));
    uint32_t ways = (uint32_t)_mm_movemask_epi8(same);
#else
    uint32_t ways = space_prints_of_both(low, high, print);
#endif

    return ways & ((1u << SPACE_WAYS) - 1);
}

/* The first of them; there is one. */
static inline uint32_t space_way_of(uint32_t ways)
{
    return (uint32_t)__builtin_ctz(ways);
}

/* ---- bytes ---------------------------------------------------------------- */

/* Takes bytes out, a word at a time; a read that is thrown away may have any. */
void space_bytes_load_any(_Atomic uint64_t *words, uint32_t offset, void *out, uint32_t length);

static inline void space_bytes_load(_Atomic uint64_t *words, uint32_t offset, void *out,
                                    uint32_t length)
{
    if (likely(length == 8 && offset % 8 == 0)) {
        uint64_t value =
            shared_load_relaxed((_Atomic uint64_t *)(void *)((uint8_t *)words + offset));

        memcpy(out, &value, 8);
    } else {
        space_bytes_load_any(words, offset, out, length);
    }
}

/* Puts bytes in, a word at a time, of which nobody else changes any. */
void space_bytes_store_any(_Atomic uint64_t *words, uint32_t offset, const void *from,
                           uint32_t length);

static inline void space_bytes_store(_Atomic uint64_t *words, uint32_t offset, const void *from,
                                     uint32_t length)
{
    if (likely(length == 8 && offset % 8 == 0)) {
        uint64_t value;

        memcpy(&value, from, 8);
        shared_store_relaxed(words + offset / 8, value);
    } else {
        space_bytes_store_any(words, offset, from, length);
    }
}

/* ---- the lane's side ------------------------------------------------------ */

/*
 * From here on nobody ends a read of these bytes: they may be given up, or changed. Before a
 * message leaves that lets somebody else write, the block or these bytes, space_view_fence; once
 * for as many as one likes.
 */
static inline void space_word_hide(_Atomic uint64_t *word)
{
    shared_store_relaxed(word, shared_load_relaxed(word) & ~SPACE_READABLE);
    shared_fence_release();
}

/* What is in the bytes, and in the tag, may be read from here on. */
static inline void space_word_show(_Atomic uint64_t *word)
{
    shared_store_release(word, (shared_load_relaxed(word) | SPACE_READABLE) + SPACE_CHANGE);
}

static inline bool space_word_is_shown(_Atomic uint64_t *word)
{
    return (shared_load_relaxed(word) & SPACE_READABLE) != 0;
}

/* What was hidden is so for everyone before anything that is done behind this is seen by anyone, a
 * device too. */
static inline void space_view_fence(void)
{
    shared_fence();
}

/* Writes to a block that may be read, and that this node may write. It can be read again at once.
 */
static inline void space_word_change(_Atomic uint64_t *word, _Atomic uint64_t *bytes,
                                     uint32_t offset, const void *from, uint32_t length)
{
    space_word_hide(word);
    space_bytes_store(bytes, offset, from, length);
    space_word_show(word);
}

/* ---- a client's side ------------------------------------------------------ */

enum space_answer {
    SPACE_READ, /* here it is, as of one moment since the call */
    SPACE_ASK   /* it is not here, or changes all the time: the lane knows. `out` may be anything */
};

/* One try: takes the bytes, and says whether they are of the word that was seen. What was loaded
 * before the second look was there while the word was that; the fence keeps those before it. */
static inline bool space_word_read(_Atomic uint64_t *word, uint64_t seen, _Atomic uint64_t *bytes,
                                   uint32_t offset, void *out, uint32_t length)
{
    space_bytes_load(bytes, offset, out, length);
    shared_fence_acquire();
    return shared_load_relaxed(word) == seen;
}

/* More tries, where the first was in vain; `tag` is NULL of home memory. */
enum space_answer space_word_read_again(const _Atomic uint64_t *tag, uint64_t expected,
                                        _Atomic uint64_t *word, _Atomic uint64_t *bytes,
                                        uint32_t offset, void *out, uint32_t length);

/* A frame that may have the block. *is_it: it has; then the answer is one. That it has is how far
 * the address is from where its block begins. A frame of none would be taken for one of a block at
 * 0; no space has that, and a frame of none may not be read. */
static inline enum space_answer space_head_read(const struct space_view *view,
                                                struct space_head *head, uint64_t frame,
                                                uint64_t address, void *out, uint32_t length,
                                                bool *is_it)
{
    uint64_t seen = shared_load_acquire(&head->word);
    uint64_t offset = address + 1 - shared_load_relaxed(&head->tag);
    _Atomic uint64_t *bytes = space_bytes_of(view, frame);

    *is_it = offset <= view->mask;
    if (unlikely(!*is_it || (seen & SPACE_READABLE) == 0)) {
        return SPACE_ASK;
    }
    if (likely(space_word_read(&head->word, seen, bytes, (uint32_t)offset, out, length))) {
        return SPACE_READ;
    }
    return space_word_read_again(&head->tag, space_tag_of(view, address), &head->word, bytes,
                                 (uint32_t)offset, out, length);
}

/*
 * Reads `length` bytes, 1 or more, of one block from a cache. `hash` is space_hash. *frame, of a
 * READ: which it was, for a hint.
 */
static inline enum space_answer space_cache_read(const struct space_view *view, uint64_t hash,
                                                 uint64_t address, void *out, uint32_t length,
                                                 uint32_t *frame)
{
    uint64_t number = space_set_of(view, hash);
    struct space_set *set = &view->sets[number];

    for (uint32_t ways = space_ways_like(set, space_print_of(hash)); ways != 0; ways &= ways - 1) {
        uint32_t way = space_way_of(ways);
        bool is_it;
        enum space_answer answer;

        *frame = (uint32_t)number * SPACE_WAYS + way;
        answer = space_head_read(view, &set->heads[way], *frame, address, out, length, &is_it);
        if (likely(is_it)) {
            return answer;
        }
    }
    return SPACE_ASK;
}

/* The same from home memory. An address of another home, or behind its end, is ASK. */
static inline enum space_answer space_home_read(const struct space_view *view, uint64_t address,
                                                void *out, uint32_t length)
{
    uint64_t at = address - view->first, block = at >> view->shift, seen;
    uint32_t offset = space_offset_of(view, address);

    if (unlikely(at >= view->span)) {
        return SPACE_ASK;
    }
    seen = shared_load_acquire(&view->words[block]);
    if (unlikely((seen & SPACE_READABLE) == 0)) {
        return SPACE_ASK;
    }
    if (likely(space_word_read(&view->words[block], seen, space_bytes_of(view, block), offset, out,
                               length))) {
        return SPACE_READ;
    }
    return space_word_read_again(NULL, 0, &view->words[block], space_bytes_of(view, block), offset,
                                 out, length);
}

/* Bytes of `length` at an address that are of its first block. */
static inline uint32_t space_piece(const struct space_view *view, uint64_t address, uint64_t length)
{
    uint32_t rest = (uint32_t)view->mask + 1 - space_offset_of(view, address);

    return length < rest ? (uint32_t)length : rest;
}

#endif
