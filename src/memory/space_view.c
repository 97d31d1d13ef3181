/* SPDX-License-Identifier: Apache-2.0 */
/* See space_view.h. */
#include "memory/space_view.h"

#define VIEW_MAGIC UINT64_C(0x776569766867696e) /* "nighview" where ends are little */

/* Where things are, in bytes from the beginning. */
struct layout {
    uint64_t heads, bytes, end;
};

static bool lay_out(enum space_view_kind kind, uint64_t count, uint32_t block_bytes,
                    struct layout *layout)
{
    uint64_t head = kind == SPACE_VIEW_CACHE ? sizeof(struct space_set) : sizeof(uint64_t);
    uint64_t blocks = kind == SPACE_VIEW_CACHE ? count * SPACE_WAYS : count;

    if (block_bytes < LIMIT_SPACE_BLOCK_MIN || block_bytes > LIMIT_SPACE_BLOCK_BYTES ||
        !is_pow2(block_bytes) || count == 0 ||
        count >
            (kind == SPACE_VIEW_CACHE ? LIMIT_SPACE_SETS : LIMIT_SPACE_HOME_BYTES / block_bytes)) {
        return false;
    }
    layout->heads = SPACE_VIEW_PAGE;
    layout->bytes = align_up_u64(layout->heads + count * head, SPACE_VIEW_PAGE);
    layout->end = align_up_u64(layout->bytes + blocks * block_bytes, SPACE_VIEW_PAGE);
    return true;
}

uint64_t space_view_cache_bytes(uint64_t sets, uint32_t block_bytes)
{
    struct layout layout;

    return lay_out(SPACE_VIEW_CACHE, sets, block_bytes, &layout) ? layout.end : 0;
}

uint64_t space_view_home_bytes(uint64_t blocks, uint32_t block_bytes)
{
    struct layout layout;

    return lay_out(SPACE_VIEW_HOME, blocks, block_bytes, &layout) ? layout.end : 0;
}

static void fill(struct space_view *view, void *memory, const struct space_view_header *header)
{
    uint8_t *base = (uint8_t *)memory;
    void *heads = base + header->heads_offset;

    *view = (struct space_view){
        .bytes = (_Atomic uint64_t *)(void *)(base + header->bytes_offset),
        .count = header->count,
        .first = header->first,
        .mask = header->block_bytes - 1,
        .shift = (uint32_t)__builtin_ctz(header->block_bytes),
    };
    if (header->kind == SPACE_VIEW_CACHE) {
        view->sets = (struct space_set *)heads;
    } else {
        view->words = (_Atomic uint64_t *)heads;
        view->span = header->count * header->block_bytes;
    }
}

static void make(void *memory, enum space_view_kind kind, uint64_t count, uint32_t block_bytes,
                 uint64_t first, struct space_view *view)
{
    struct space_view_header *header = (struct space_view_header *)memory;
    struct layout layout;
    bool fits = lay_out(kind, count, block_bytes, &layout);

    NIGH_ASSERT(fits);
    *header = (struct space_view_header){
        .magic = VIEW_MAGIC,
        .version = SPACE_VIEW_VERSION,
        .kind = kind,
        .block_bytes = block_bytes,
        .count = count,
        .first = first,
        .heads_offset = layout.heads,
        .bytes_offset = layout.bytes,
    };
    fill(view, memory, header);
}

void space_view_make_cache(void *memory, uint64_t sets, uint32_t block_bytes,
                           struct space_view *view)
{
    make(memory, SPACE_VIEW_CACHE, sets, block_bytes, 0, view);
}

void space_view_make_home(void *memory, uint64_t blocks, uint32_t block_bytes, uint64_t first,
                          struct space_view *view)
{
    NIGH_ASSERT(first % block_bytes == 0);
    make(memory, SPACE_VIEW_HOME, blocks, block_bytes, first, view);
}

/* Looked at anew: it may go from under who copies it. */
static bool is_let_go(void *memory)
{
    _Atomic uint64_t *word = (_Atomic uint64_t *)memory;
    uint64_t any = 0;

    for (size_t n = 0; n < sizeof(struct space_view_header) / 8; n++) {
        any |= shared_load_relaxed(&word[n]);
    }
    return any == 0;
}

nigh_status space_view_open(void *memory, uint64_t memory_bytes, enum space_view_kind kind,
                            struct space_view *view)
{
    struct space_view_header header;
    struct layout layout;

    if (memory_bytes < sizeof(header)) {
        return NIGH_PROTOCOL;
    }
    memcpy(&header, memory, sizeof(header));
    if (header.magic != VIEW_MAGIC || header.version != SPACE_VIEW_VERSION ||
        header.kind != (uint32_t)kind ||
        !lay_out(kind, header.count, header.block_bytes, &layout) || layout.end > memory_bytes ||
        header.heads_offset != layout.heads || header.bytes_offset != layout.bytes ||
        header.first % header.block_bytes != 0) {
        return is_let_go(memory) ? NIGH_NOT_FOUND : NIGH_PROTOCOL;
    }
    fill(view, memory, &header);
    return NIGH_OK;
}

void space_bytes_load_any(_Atomic uint64_t *words, uint32_t offset, void *out, uint32_t length)
{
    _Atomic uint64_t *word = words + offset / 8;
    uint32_t skip = offset % 8;
    uint8_t *to = (uint8_t *)out;

    if (skip != 0) {
        uint32_t count = min_u32(8 - skip, length);
        uint64_t value = shared_load_relaxed(word++);

        memcpy(to, (const uint8_t *)&value + skip, count);
        to += count;
        length -= count;
    }
    for (; length >= 8; length -= 8, to += 8) {
        uint64_t value = shared_load_relaxed(word++);

        memcpy(to, &value, 8);
    }
    if (length > 0) {
        uint64_t value = shared_load_relaxed(word);

        memcpy(to, &value, length);
    }
}

/* Some bytes of one word. */
static void store_part(_Atomic uint64_t *word, uint32_t skip, const void *from, uint32_t count)
{
    uint64_t value = shared_load_relaxed(word);

    memcpy((uint8_t *)&value + skip, from, count);
    shared_store_relaxed(word, value);
}

void space_bytes_store_any(_Atomic uint64_t *words, uint32_t offset, const void *from,
                           uint32_t length)
{
    _Atomic uint64_t *word = words + offset / 8;
    uint32_t skip = offset % 8;
    const uint8_t *bytes = (const uint8_t *)from;

    if (skip != 0) {
        uint32_t count = min_u32(8 - skip, length);

        store_part(word++, skip, bytes, count);
        bytes += count;
        length -= count;
    }
    for (; length >= 8; length -= 8, bytes += 8) {
        uint64_t value;

        memcpy(&value, bytes, 8);
        shared_store_relaxed(word++, value);
    }
    if (length > 0) {
        store_part(word, 0, bytes, length);
    }
}

enum space_answer space_word_read_again(const _Atomic uint64_t *tag, uint64_t expected,
                                        _Atomic uint64_t *word, _Atomic uint64_t *bytes,
                                        uint32_t offset, void *out, uint32_t length)
{
    for (uint32_t tries = 1; tries < LIMIT_SPACE_READ_TRIES; tries++) {
        uint64_t seen = shared_load_acquire(word);

        if ((seen & SPACE_READABLE) == 0 || (tag != NULL && shared_load_relaxed(tag) != expected)) {
            return SPACE_ASK;
        }
        if (space_word_read(word, seen, bytes, offset, out, length)) {
            return SPACE_READ;
        }
    }
    return SPACE_ASK;
}
