/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of an index, and attaching to one: is this memory an index of the format that this
 * program knows, and of the size that it says? Looks at the header only, writes nothing.
 */
#include "memory/index.h"

#include <string.h>

#include "base/check.h"

uint32_t index_slot_count(uint32_t entry_count)
{
    /* At most three quarters full: a look-up then visits 1.5 to 2.5 slots of a present key and
     * some 8 of an absent one, and chains as long as LIMIT_PROBES do not come up by chance. */
    return (uint32_t)round_up_pow2_u64((uint64_t)entry_count + entry_count / 3 + 1);
}

/* A name for one entry of 64, where that comes to a page: 4 bytes an entry. */
static uint32_t index_name_count(uint32_t entry_count)
{
    uint32_t count = entry_count / 64;

    if (count < INDEX_HEADER_BYTES / sizeof(struct index_name)) {
        return 0;
    }
    count = min_u32(count, LIMIT_INDEX_NAMES);
    return 1u << (31 - __builtin_clz(count));
}

/* The places of the parts, all on pages: they follow from the number of entries alone. */
static void index_lay_out(uint32_t entry_count, struct index_header *header)
{
    header->slot_count = index_slot_count(entry_count);
    header->entry_count = entry_count;
    header->slots_offset = INDEX_HEADER_BYTES;
    header->entries_offset = align_up_u64(
        header->slots_offset + header->slot_count * sizeof(uint64_t), INDEX_HEADER_BYTES);
    header->cold_offset =
        align_up_u64(header->entries_offset + (uint64_t)entry_count * sizeof(struct index_entry),
                     INDEX_HEADER_BYTES);
    header->births_offset =
        align_up_u64(header->cold_offset + (uint64_t)entry_count * sizeof(struct index_cold),
                     INDEX_HEADER_BYTES);
    header->size_bytes =
        align_up_u64(header->births_offset + (uint64_t)entry_count * sizeof(struct index_birth),
                     INDEX_HEADER_BYTES);
    header->name_count = index_name_count(entry_count);
}

static uint64_t index_names_bytes(uint32_t name_count)
{
    return (uint64_t)name_count * sizeof(struct index_name);
}

uint64_t index_size_bytes(uint32_t entry_count)
{
    struct index_header header;

    if (entry_count == 0 || entry_count > LIMIT_INDEX_ENTRIES) {
        return 0;
    }
    index_lay_out(entry_count, &header);
    return header.size_bytes + index_names_bytes(header.name_count);
}

/* Fills *index with the parts of a header that was checked, or made, here. */
static void index_point(void *memory, const struct index_header *header, struct index *index)
{
    uint8_t *bytes = memory;

    index->header = memory;
    index->slots = (_Atomic uint64_t *)(void *)(bytes + header->slots_offset);
    index->entries = (struct index_entry *)(void *)(bytes + header->entries_offset);
    index->cold = (struct index_cold *)(void *)(bytes + header->cold_offset);
    index->births = (struct index_birth *)(void *)(bytes + header->births_offset);
    index->names = (struct index_name *)(void *)(bytes + header->size_bytes);
    index->name_count = header->name_count;
    index->slot_mask = header->slot_count - 1;
    index->entry_count = header->entry_count;
    index->lane = header->lane;
}

void index_format(void *memory, uint32_t pool, uint32_t lane, uint32_t lanes, uint32_t entry_count,
                  struct index *index)
{
    struct index_header *header = memory;

    NIGH_ASSERT(entry_count > 0 && entry_count <= LIMIT_INDEX_ENTRIES);
    NIGH_ASSERT(is_pow2(lanes) && lanes <= LIMIT_LANES && lane < lanes && pool < LIMIT_POOLS);
    NIGH_ASSERT(header->magic == 0);
    index_lay_out(entry_count, header);
    header->pool = pool;
    header->lane = lane;
    header->lanes = lanes;
    header->format = INDEX_FORMAT;
    shared_store_relaxed(&header->next_generation, 1);
    /* The magic is last: what a death leaves before it is no index. */
    shared_fence_release();
    shared_store_plain(&header->magic, INDEX_MAGIC);
    index_point(memory, header, index);
}

nigh_status index_attach(const void *memory, uint64_t size_bytes, struct index *index)
{
    const struct index_header *header = memory;
    struct index_header wanted;

    if (size_bytes < INDEX_HEADER_BYTES) {
        return NIGH_INVALID;
    }
    if (header->magic != INDEX_MAGIC || header->format != INDEX_FORMAT) {
        return NIGH_VERSION;
    }
    if (header->entry_count == 0 || header->entry_count > LIMIT_INDEX_ENTRIES) {
        return NIGH_INVALID;
    }
    index_lay_out(header->entry_count, &wanted);
    wanted.lane = header->lane;
    if (header->name_count == 0) {
        wanted.name_count = 0; /* made before names were kept */
    }
    if (header->name_count != wanted.name_count || header->slot_count != wanted.slot_count ||
        header->slots_offset != wanted.slots_offset ||
        header->entries_offset != wanted.entries_offset ||
        header->cold_offset != wanted.cold_offset ||
        header->births_offset != wanted.births_offset || header->size_bytes != wanted.size_bytes ||
        wanted.size_bytes + index_names_bytes(wanted.name_count) > size_bytes ||
        header->pool >= LIMIT_POOLS || header->lanes == 0 || header->lanes > LIMIT_LANES ||
        !is_pow2(header->lanes) || header->lane >= header->lanes) {
        return NIGH_INVALID;
    }
    index_point((void *)(uintptr_t)memory, &wanted, index);
    return NIGH_OK;
}

bool index_name_copy(const struct index *index, uint64_t hash, uint32_t way, uint32_t size,
                     char name[LIMIT_NAME_BYTES + 1])
{
    uint64_t words[INDEX_NAME_WORDS];
    const uint8_t *bytes = (const uint8_t *)words;
    const struct index_name *at;

    if (index->name_count == 0 || way >= INDEX_NAME_WAYS || size == 0 || size > LIMIT_NAME_BYTES) {
        return false;
    }
    at = index_names_of(index, hash) + way;
    for (uint32_t i = 0; i < INDEX_NAME_WORDS; i++) {
        words[i] = shared_load_relaxed(&at->words[i]);
    }
    if (bytes[0] != size) {
        return false;
    }
    memcpy(name, bytes + 1, size);
    name[size] = '\0';
    return true;
}
