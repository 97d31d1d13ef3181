/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lane's side of an index: entries, words and slots. Rebuilding is in index_rebuild.c.
 *
 * Three rules carry it. A word is stored with release after the fields that it vouches for. Fields
 * change only while the word says that nobody may look (FREE, CREATED, SPILLED). A slot names an
 * entry only while the entry's word speaks for itself, so a reader never believes a slot alone.
 */
#include "object/index_writer.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"

nigh_status index_writer_init(struct index_writer *writer, const struct index *index)
{
    /* Reserved, not touched: pages of it come into being as entries are given back. */
    uint32_t *free_numbers = calloc(index->entry_count, sizeof(*free_numbers));

    if (free_numbers == NULL) {
        return NIGH_NO_RESOURCES;
    }
    *writer = (struct index_writer){
        .index = *index,
        .free_numbers = free_numbers,
        .next_generation = shared_load_relaxed(&index->header->next_generation),
        .version = shared_load_relaxed(&index->header->version),
    };
    return NIGH_OK;
}

void index_writer_fini(struct index_writer *writer)
{
    free(writer->free_numbers);
    *writer = (struct index_writer){0};
}

/*
 * Stores entries_used before the entry can be filled, so that a restart, which looks no further
 * than entries_used, misses none.
 */
nigh_status index_take(struct index_writer *writer, uint32_t *number)
{
    if (writer->free_count > 0) {
        *number = writer->free_numbers[--writer->free_count];
    } else if (writer->entries_used < writer->index.entry_count) {
        *number = writer->entries_used++;
        shared_store_release(&writer->index.header->entries_used, writer->entries_used);
    } else {
        return NIGH_LIMIT;
    }
    writer->taken++;
    return NIGH_OK;
}

void index_give_back(struct index_writer *writer, uint32_t number)
{
    NIGH_ASSERT(index_word_state(index_word_at(writer, number)) == INDEX_FREE);
    NIGH_ASSERT(writer->taken > 0 && writer->free_count < writer->index.entry_count);
    writer->taken--;
    writer->free_numbers[writer->free_count++] = number;
}

uint32_t index_entry_check(const struct index_entry *entry, uint64_t generation, bool with_offset)
{
    const uint64_t *id = (const uint64_t *)(const void *)entry->id;
    uint32_t id_tail = shared_load_plain((const uint32_t *)(const void *)entry->id + 4);
    uint64_t tail = (uint64_t)shared_load_plain(&entry->incarnation) << 32 | id_tail;
    uint64_t small =
        (uint64_t)shared_load_plain(&entry->meta_size) << 16 | shared_load_plain(&entry->name_size);
    uint64_t offset = with_offset ? shared_load_plain(&entry->offset) : UINT64_MAX;
    uint64_t mixed = hash_mix(shared_load_plain(id) ^ HASH_K0, shared_load_plain(id + 1) ^ HASH_K1);

    /* Products side by side, then one avalanche: some 3 ns. It guards against torn and stray
     * stores, not against malice: clients cannot write an index. */
    mixed ^= hash_mix(tail ^ HASH_K2, generation ^ HASH_K3);
    mixed += hash_mix(offset ^ HASH_K1, shared_load_plain(&entry->data_size) ^ HASH_K2);
    return (uint32_t)(hash_u64(mixed + small * HASH_K3) >> 32);
}

bool index_entry_is_whole(const struct index_entry *entry, uint64_t word)
{
    uint64_t generation = index_word_generation(word);
    uint32_t check = shared_load_plain(&entry->check);
    uint32_t state = (uint32_t)(word & 0xff);

    if (state == INDEX_FREE || state >= INDEX_STATES || generation == 0) {
        return false;
    }
    if (shared_load_plain(&entry->meta_size) > LIMIT_META_BYTES ||
        shared_load_plain(&entry->name_size) > LIMIT_NAME_BYTES ||
        shared_load_plain(&entry->data_size) > LIMIT_OBJECT_BYTES) {
        return false;
    }
    return check == index_entry_check(entry, generation, true) ||
           (state == INDEX_SPILLED && check == index_entry_check(entry, generation, false));
}

/* Stores the fields that do not belong to the word's protocol: the id, word by word. */
static void index_store_id(struct index_entry *entry, const uint8_t *id)
{
    uint64_t words[2] = {0, 0};
    uint32_t tail = 0;
    void *to = entry->id;

    if (id != NULL) {
        __builtin_memcpy(words, id, sizeof(words));
        __builtin_memcpy(&tail, id + sizeof(words), sizeof(tail));
    }
    shared_store_plain((uint64_t *)to, words[0]);
    shared_store_plain((uint64_t *)to + 1, words[1]);
    shared_store_plain((uint32_t *)to + 4, tail);
}

/*
 * Stores, in order: next_generation, so that no restart can give this generation again; a fence,
 * so that whoever reads a new field without a pin (index_glance_at) finds the FREE word, or a later
 * one, when it looks again; the fields and their check, in any order; the word, with release:
 * whoever reads it reads these fields. A death before the word leaves a free entry.
 */
uint64_t index_entry_fill(struct index_writer *writer, uint32_t number,
                          const struct index_fill *fill, enum index_state state)
{
    struct index_entry *entry = &writer->index.entries[number];
    struct index_cold *cold = &writer->index.cold[number];
    uint64_t generation = writer->next_generation++;

    NIGH_ASSERT(index_word_state(index_word_at(writer, number)) == INDEX_FREE);
    NIGH_ASSERT(state == INDEX_LEASE || state == INDEX_CREATED || state == INDEX_SEALED);
    NIGH_ASSERT(generation > 0 && generation <= INDEX_GENERATION_MAX);
    shared_store_relaxed(&writer->index.header->next_generation, writer->next_generation);
    shared_fence_release();
    index_store_id(entry, fill->id);
    shared_store_plain(&entry->incarnation, fill->incarnation);
    shared_store_plain(&entry->offset, fill->offset);
    shared_store_plain(&entry->data_size, fill->data_size);
    shared_store_plain(&entry->meta_size, fill->meta_size);
    shared_store_plain(&entry->name_size, fill->name_size);
    shared_store_relaxed(&entry->flags, fill->flags);
    shared_store_relaxed(&entry->data_crc, fill->data_crc);
    shared_store_plain(&entry->check, index_entry_check(entry, generation, true));
    shared_store_plain(&cold->created_ns, fill->created_ns);
    shared_store_plain(&cold->build_us, fill->build_us);
    shared_store_plain(&cold->session, fill->session);
    shared_store_release(&entry->word, index_word(generation, state));
    return generation;
}

/*
 * Stores the offset, then the check. A death between them leaves an unsealed entry that fails its
 * check and is dropped.
 */
void index_entry_move(struct index_writer *writer, uint32_t number, uint64_t offset)
{
    struct index_entry *entry = &writer->index.entries[number];
    uint64_t word = index_word_at(writer, number);

    NIGH_ASSERT(index_word_state(word) == INDEX_CREATED);
    shared_store_plain(&entry->offset, offset);
    shared_fence_release();
    shared_store_plain(&entry->check, index_entry_check(entry, index_word_generation(word), true));
}

/* One store: readers see the old bits or the new ones. */
void index_set_flags(struct index_writer *writer, uint32_t number, uint16_t set, uint16_t clear)
{
    struct index_entry *entry = &writer->index.entries[number];
    uint16_t flags = shared_load_relaxed(&entry->flags);

    shared_store_release(&entry->flags, (uint16_t)((flags & ~clear) | set));
}

/* Stores the CRC, then, with release, the flag that says it is there. It never changes after. */
void index_set_crc(struct index_writer *writer, uint32_t number, uint32_t data_crc)
{
    shared_store_relaxed(&writer->index.entries[number].data_crc, data_crc);
    index_set_flags(writer, number, INDEX_FLAG_CHECKSUM, 0);
}

/* Stores one state into the word, with release, if it is in one of the states of `from`. */
static void index_turn(struct index_writer *writer, uint32_t number, uint32_t from,
                       enum index_state to)
{
    uint64_t word = index_word_at(writer, number);

    NIGH_ASSERT((from & (1u << index_word_state(word))) != 0);
    shared_store_release(&writer->index.entries[number].word,
                         index_word(index_word_generation(word), to));
}

/* Stores what nobody looks at before the seal, then the word: with it the object exists. */
void index_seal(struct index_writer *writer, uint32_t number, uint32_t build_us)
{
    shared_store_plain(&writer->index.cold[number].build_us, build_us);
    index_turn(writer, number, 1u << INDEX_CREATED, INDEX_SEALED);
}

/*
 * One store. It forbids pins that are not published yet; those that are, the scan finds, after a
 * fence. A death leaves MARKED, which a restart reads as SEALED.
 */
void index_mark(struct index_writer *writer, uint32_t number)
{
    index_turn(writer, number, 1u << INDEX_SEALED, INDEX_MARKED);
}

/*
 * One store of the very word that was there before the mark, with release: a reader that comes only
 * now takes the fields from this store.
 */
void index_unmark(struct index_writer *writer, uint32_t number)
{
    index_turn(writer, number, 1u << INDEX_MARKED, INDEX_SEALED);
}

/*
 * One store. It keeps the generation, which is spent: no reader's re-check can succeed on it again.
 * The fields stay until the entry is filled anew.
 */
void index_release(struct index_writer *writer, uint32_t number)
{
    index_turn(writer, number, (1u << INDEX_STATES) - 1 - (1u << INDEX_FREE), INDEX_FREE);
    index_give_back(writer, number);
}

/* One store; a restart finds it out of the slots, with its memory, until the last pin goes. */
void index_to_deleting(struct index_writer *writer, uint32_t number)
{
    index_turn(writer, number, 1u << INDEX_CREATED | 1u << INDEX_SEALED | 1u << INDEX_MARKED,
               INDEX_DELETING);
}

/* As a seal. No reader has ever seen the entry SEALED under its generation. */
void index_from_deleting(struct index_writer *writer, uint32_t number, uint32_t build_us)
{
    shared_store_plain(&writer->index.cold[number].build_us, build_us);
    index_turn(writer, number, 1u << INDEX_DELETING, INDEX_SEALED);
}

/* One store. The offset stays, without meaning, under the check that it always had. */
void index_to_spilled(struct index_writer *writer, uint32_t number)
{
    index_turn(writer, number, 1u << INDEX_MARKED, INDEX_SPILLED);
}

/*
 * Stores, in order: the check without the offset, the offset, the check with it, the word. While
 * the word says SPILLED both checks are right, so at each of these points a death leaves a spilled
 * object that is whole. The word is the one from before the spill; a reader that read it then and
 * pins only now is right all the same, because the offset is read after the re-check.
 */
void index_from_spilled(struct index_writer *writer, uint32_t number, uint64_t offset)
{
    struct index_entry *entry = &writer->index.entries[number];
    uint64_t generation = index_word_generation(index_word_at(writer, number));

    NIGH_ASSERT(index_word_state(index_word_at(writer, number)) == INDEX_SPILLED);
    shared_store_plain(&entry->check, index_entry_check(entry, generation, false));
    shared_fence_release();
    shared_store_plain(&entry->offset, offset);
    shared_fence_release();
    shared_store_plain(&entry->check, index_entry_check(entry, generation, true));
    index_turn(writer, number, 1u << INDEX_SPILLED, INDEX_SEALED);
}

static bool index_name_is(const struct index_name *name, const uint64_t words[INDEX_NAME_WORDS])
{
    uint32_t same = 0;

    while (same < INDEX_NAME_WORDS && shared_load_relaxed(&name->words[same]) == words[same]) {
        same++;
    }
    return same == INDEX_NAME_WORDS;
}

void index_keep_name(struct index_writer *writer, uint64_t hash, const void *name, uint32_t size)
{
    uint64_t words[INDEX_NAME_WORDS] = {0};
    uint8_t *bytes = (uint8_t *)words;
    struct index_name *names;
    uint32_t way = 0;

    NIGH_ASSERT(size > 0 && size <= LIMIT_NAME_BYTES);
    if (writer->index.name_count == 0) {
        return;
    }
    names = index_names_of(&writer->index, hash);
    bytes[0] = (uint8_t)size;
    memcpy(bytes + 1, name, size);
    /* A free place, or the one that has it already; else one or another. */
    while (way < INDEX_NAME_WAYS && shared_load_relaxed(&names[way].words[0]) != 0 &&
           !index_name_is(&names[way], words)) {
        way++;
    }
    if (way == INDEX_NAME_WAYS) {
        way = (uint32_t)(hash >> 12) % INDEX_NAME_WAYS;
    }
    for (uint32_t i = 0; i < INDEX_NAME_WORDS; i++) {
        shared_store_relaxed(&names[way].words[i], words[i]);
    }
}

static uint64_t index_slot_value(uint64_t hash, uint32_t number)
{
    return (uint64_t)index_hash_tag(hash) << 32 | (number + 1);
}

/* The hash of the entry that a slot names. */
static uint64_t index_slot_hash(const struct index_writer *writer, uint64_t value)
{
    uint8_t id[LIMIT_ID_BYTES];

    index_entry_id(&writer->index.entries[(uint32_t)value - 1], id);
    return hash_id20(id);
}

/*
 * One store, with release, into the first empty slot from the id's place on. Slots before it are
 * full and stay so until a removal shifts, so every probe from the place on comes by.
 */
void index_insert(struct index_writer *writer, uint64_t hash, uint32_t number)
{
    const struct index *index = &writer->index;
    uint32_t place = index_hash_slot(hash, index->slot_mask);

    NIGH_ASSERT(writer->slots_used < index->entry_count);
    while (shared_load_relaxed(&index->slots[place]) != 0) {
        place = (place + 1) & index->slot_mask;
    }
    shared_store_release(&index->slots[place], index_slot_value(hash, number));
    writer->slots_used++;
}

/* The version becomes odd: from here to index_shift_end a probe that comes to an empty slot has
 * seen nothing. The stores to slots are with release, so whoever reads one of them finds it odd. */
static void index_shift_begin(struct index_writer *writer)
{
    shared_store_relaxed(&writer->index.header->version, ++writer->version);
}

/* The version becomes even again, with release: after the stores to slots. */
static void index_shift_end(struct index_writer *writer)
{
    shared_store_release(&writer->index.header->version, ++writer->version);
}

/*
 * Closes the hole at `place`: each entry behind it that may stand there moves up, and its old slot
 * is the next hole (Knuth, The Art of Computer Programming, vol. 3, 6.4, algorithm R). Stores the
 * new slot before the old one is overwritten, so at every moment a key is in some slot: a death
 * leaves one twice, never one missing. Without a move it is one store, and needs no version: no
 * other key's probe goes past this slot.
 */
static void index_close_hole(struct index_writer *writer, uint32_t hole)
{
    const struct index *index = &writer->index;
    uint32_t mask = index->slot_mask;
    bool shifting = false;

    for (uint32_t place = (hole + 1) & mask;; place = (place + 1) & mask) {
        uint64_t value = shared_load_relaxed(&index->slots[place]);
        uint32_t home;

        if (value == 0) {
            break;
        }
        home = index_hash_slot(index_slot_hash(writer, value), mask);
        if (((place - home) & mask) < ((place - hole) & mask)) {
            continue;
        }
        if (!shifting) {
            index_shift_begin(writer);
            shifting = true;
        }
        shared_store_release(&index->slots[hole], value);
        hole = place;
    }
    shared_store_release(&index->slots[hole], 0);
    if (shifting) {
        index_shift_end(writer);
    }
}

void index_remove(struct index_writer *writer, uint64_t hash, uint32_t number)
{
    const struct index *index = &writer->index;
    uint64_t wanted = index_slot_value(hash, number);
    uint32_t place = index_hash_slot(hash, index->slot_mask);

    for (;;) {
        uint64_t value = shared_load_relaxed(&index->slots[place]);

        NIGH_ASSERT(value != 0);
        if (value == wanted) {
            break;
        }
        place = (place + 1) & index->slot_mask;
    }
    index_close_hole(writer, place);
    writer->slots_used--;
}

bool index_find(const struct index_writer *writer, const uint8_t id[LIMIT_ID_BYTES], uint64_t hash,
                uint32_t *number)
{
    const struct index *index = &writer->index;
    uint32_t place = index_hash_slot(hash, index->slot_mask);
    uint32_t tag = index_hash_tag(hash);

    for (;;) {
        uint64_t value = shared_load_relaxed(&index->slots[place]);

        if (value == 0) {
            return false;
        }
        if ((uint32_t)(value >> 32) == tag &&
            index_entry_is(&index->entries[(uint32_t)value - 1], id)) {
            *number = (uint32_t)value - 1;
            return true;
        }
        place = (place + 1) & index->slot_mask;
    }
}
