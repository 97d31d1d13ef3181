/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a restart does with an index that a former node left, and the check of all invariants.
 *
 * The entries are believed, each as far as its own check goes; slots, free list and counters are
 * made anew from them. It may itself die at any store and be started again.
 */
#include "object/index_writer.h"

#include "base/check.h"
#include "base/hash.h"

/* Whether an entry in this state has a place in the slots. */
static bool index_stands_in_slots(const struct index_entry *entry, enum index_state state)
{
    return state == INDEX_SEALED || state == INDEX_MARKED || state == INDEX_SPILLED ||
           (state == INDEX_CREATED &&
            (shared_load_relaxed(&entry->flags) & INDEX_FLAG_CLAIMED) != 0);
}

/* Whether readers see a copy there that is no more than that: it is somewhere else, too. */
static bool index_is_sealed_copy(const struct index_entry *entry, enum index_state state)
{
    return (state == INDEX_SEALED || state == INDEX_MARKED) &&
           (shared_load_relaxed(&entry->flags) & (INDEX_FLAG_COPY | INDEX_FLAG_GIVEN)) ==
               INDEX_FLAG_COPY;
}

static uint64_t index_hash_of(const struct index_entry *entry, uint8_t id[LIMIT_ID_BYTES])
{
    index_entry_id(entry, id);
    return hash_id20(id);
}

/* An entry that is not kept: FREE under generation 0, which no reader ever pinned. */
static void index_drop(struct index_writer *writer, uint32_t number)
{
    shared_store_release(&writer->index.entries[number].word, index_word(0, INDEX_FREE));
    writer->free_numbers[writer->free_count++] = number;
}

static void index_rebuild_entry(struct index_writer *writer, uint32_t number, index_keep *keep,
                                void *context, struct index_rebuilt *rebuilt)
{
    struct index_entry *entry = &writer->index.entries[number];
    uint64_t word = index_word_at(writer, number);
    uint64_t generation = index_word_generation(word);
    enum index_state state = index_word_state(word);
    uint8_t id[LIMIT_ID_BYTES];
    uint64_t hash = 0;
    uint32_t other;
    bool in_slots;

    if (generation >= writer->next_generation && generation < INDEX_GENERATION_MAX) {
        writer->next_generation = generation + 1;
    }
    if (state == INDEX_FREE) {
        writer->free_numbers[writer->free_count++] = number;
        return;
    }
    if (!index_entry_is_whole(entry, word)) {
        rebuilt->bad++;
        index_drop(writer, number);
        return;
    }
    in_slots = index_stands_in_slots(entry, state);
    if (in_slots) {
        hash = index_hash_of(entry, id);
        if (index_is_sealed_copy(entry, state)) {
            rebuilt->copies++;
            in_slots = false;
            state = INDEX_DELETING;
        } else if (index_find(writer, id, hash, &other)) {
            /* Readers may be inside either: the second only becomes invisible. */
            rebuilt->doubles++;
            in_slots = false;
            state = INDEX_DELETING;
        } else if (state == INDEX_MARKED) {
            state = INDEX_SEALED;
        }
        if (index_word(generation, state) != word) {
            shared_store_release(&entry->word, index_word(generation, state));
        }
    }
    if (!keep(context, number, state)) {
        rebuilt->refused++;
        index_drop(writer, number);
        return;
    }
    rebuilt->kept++;
    writer->taken++;
    if (in_slots) {
        index_insert(writer, hash, number);
    }
}

/*
 * Stores, in order: an odd version, so that a reader who finds an empty slot asks the lane; empty
 * slots; then, for each entry, its word if it changes and its slot if it has one; the high-water
 * mark and the next generation; the even version. Readers who hold a pin see no store to what they
 * hold, save MARKED -> SEALED.
 */
void index_rebuild(struct index_writer *writer, index_keep *keep, void *context,
                   struct index_rebuilt *rebuilt)
{
    struct index *index = &writer->index;
    uint32_t used = shared_load_relaxed(&index->header->entries_used);

    *rebuilt = (struct index_rebuilt){0};
    writer->entries_used = min_u32(used, index->entry_count);
    writer->free_count = 0;
    writer->taken = 0;
    writer->slots_used = 0;
    writer->next_generation = shared_load_relaxed(&index->header->next_generation);
    writer->version = shared_load_relaxed(&index->header->version) | 1;
    if (writer->next_generation == 0 || writer->next_generation > INDEX_GENERATION_MAX) {
        writer->next_generation = 1;
    }
    shared_store_relaxed(&index->header->version, writer->version);
    shared_fence_release();
    for (uint64_t place = 0; place <= index->slot_mask; place++) {
        shared_store_relaxed(&index->slots[place], 0);
    }
    /* From the top, so that the free list gives low numbers first. */
    for (uint32_t number = writer->entries_used; number-- > 0;) {
        index_rebuild_entry(writer, number, keep, context, rebuilt);
    }
    shared_store_relaxed(&index->header->entries_used, writer->entries_used);
    shared_store_relaxed(&index->header->next_generation, writer->next_generation);
    shared_store_release(&index->header->version, ++writer->version);
}

/* Whether the slot at `place` names an entry that belongs there and can be reached. */
static bool index_slot_is_valid(const struct index_writer *writer, uint32_t place, uint64_t value)
{
    const struct index *index = &writer->index;
    uint32_t number = (uint32_t)value - 1;
    uint8_t id[LIMIT_ID_BYTES];
    uint64_t hash;
    uint32_t found;

    if (number >= writer->entries_used) {
        return false;
    }
    hash = index_hash_of(&index->entries[number], id);
    for (uint32_t p = index_hash_slot(hash, index->slot_mask); p != place;
         p = (p + 1) & index->slot_mask) {
        if (shared_load_relaxed(&index->slots[p]) == 0) {
            return false;
        }
    }
    return index_hash_tag(hash) == (uint32_t)(value >> 32) &&
           index_find(writer, id, hash, &found) && found == number &&
           index_stands_in_slots(&index->entries[number],
                                 index_word_state(index_word_at(writer, number)));
}

bool index_is_valid(const struct index_writer *writer)
{
    const struct index *index = &writer->index;
    uint32_t slots = 0, in_slots = 0, used = 0;

    for (uint64_t place = 0; place <= index->slot_mask; place++) {
        uint64_t value = shared_load_relaxed(&index->slots[place]);

        if (value == 0) {
            continue;
        }
        slots++;
        if (!index_slot_is_valid(writer, (uint32_t)place, value)) {
            return false;
        }
    }
    for (uint32_t number = 0; number < index->entry_count; number++) {
        uint64_t word = index_word_at(writer, number);

        if (index_word_state(word) == INDEX_FREE) {
            continue;
        }
        if (number >= writer->entries_used ||
            !index_entry_is_whole(&index->entries[number], word)) {
            return false;
        }
        used++;
        in_slots += index_stands_in_slots(&index->entries[number], index_word_state(word));
    }
    for (uint32_t i = 0; i < writer->free_count; i++) {
        if (index_word_state(index_word_at(writer, writer->free_numbers[i])) != INDEX_FREE) {
            return false;
        }
    }
    return slots == in_slots && slots == writer->slots_used && used <= writer->taken &&
           writer->taken + writer->free_count == writer->entries_used &&
           (writer->version & 1) == 0 &&
           writer->version == shared_load_relaxed(&index->header->version) &&
           writer->entries_used == shared_load_relaxed(&index->header->entries_used) &&
           writer->next_generation == shared_load_relaxed(&index->header->next_generation);
}
