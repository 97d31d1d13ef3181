/* SPDX-License-Identifier: Apache-2.0 */
/* The world of the pin scenarios: see pins_world.h. */
#include "pins_world.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "explorer.h"

struct world world;

static _Alignas(4096) uint8_t world_memory[5 * INDEX_HEADER_BYTES];

/* An id that begins with the object's letter and whose first slot is slot 6 of 8: chains wrap. */
static void world_make_id(enum world_object object)
{
    uint8_t *id = world.id[object];

    memset(id, 0, LIMIT_ID_BYTES);
    id[0] = (uint8_t)('K' + object);
    do {
        id[1]++;
        world.hash[object] = hash_id20(id);
    } while (index_hash_slot(world.hash[object], 7) != 6);
}

static void world_name(void)
{
    for (uint32_t n = 0; n < WORLD_ENTRIES; n++) {
        struct index_entry *entry = &world.index.entries[n];

        explorer_name(&entry->word, "entry%u.word", n);
        explorer_name(entry->id, "entry%u.id[0]", n);
        explorer_name(entry->id + 8, "entry%u.id[8]", n);
        explorer_name(entry->id + 16, "entry%u.id[16]", n);
        explorer_name(&entry->offset, "entry%u.offset", n);
        explorer_name(&entry->data_size, "entry%u.data_size", n);
        explorer_name(&entry->incarnation, "entry%u.incarnation", n);
        explorer_name(&entry->meta_size, "entry%u.meta_size", n);
        explorer_name(&entry->name_size, "entry%u.name_size", n);
        explorer_name(&entry->flags, "entry%u.flags", n);
        explorer_name(&entry->data_crc, "entry%u.data_crc", n);
        explorer_name(&entry->check, "entry%u.check", n);
    }
    for (uint32_t s = 0; s < 8; s++) {
        explorer_name(&world.index.slots[s], "slot%u", s);
    }
    for (uint32_t b = 0; b < WORLD_BLOCKS; b++) {
        explorer_name(&world.blocks[b], "block%u", b);
    }
    for (uint32_t s = 0; s < WORLD_SESSIONS; s++) {
        explorer_name(&world.sessions[s].chunks[0].entry[0], "session%u.pin0", s);
        explorer_name(&world.sessions[s].chunks[0].entry[1], "session%u.pin1", s);
        explorer_name(&world.sessions[s].chunks_used, "session%u.chunks_used", s);
        explorer_name(&world.sessions[s].lane_pins[0], "session%u.lane_pin", s);
    }
    explorer_name(&world.index.header->version, "version");
}

void world_make(void)
{
    index_writer_fini(&world.writer);
    pin_scan_fini(&world.scan);
    memset(&world, 0, sizeof(world));
    memset(world_memory, 0, sizeof(world_memory));
    NIGH_ASSERT(index_size_bytes(WORLD_ENTRIES) <= sizeof(world_memory));
    index_format(world_memory, 0, 0, 1, WORLD_ENTRIES, &world.index);
    NIGH_ASSERT(index_writer_init(&world.writer, &world.index) == NIGH_OK);
    NIGH_ASSERT(pin_scan_init(&world.scan, 2) == NIGH_OK);
    for (uint32_t s = 0; s < WORLD_SESSIONS; s++) {
        struct world_session *session = &world.sessions[s];

        world.tables[s] = (struct pin_table){.chunks = session->chunks,
                                             .chunks_used = &session->chunks_used,
                                             .lane_pins = session->lane_pins,
                                             .lane_pins_used = 1};
        pin_open_chunk(&session->chunks_used, 0);
    }
    for (uint32_t b = 0; b < WORLD_BLOCKS; b++) {
        world.blocks[b] = WORLD_POISON;
    }
    for (uint32_t object = 0; object < WORLD_OBJECTS; object++) {
        world_make_id(object);
    }
    explorer_private(&world.writer, sizeof(world.writer));
    explorer_private(&world.scan, sizeof(world.scan));
    explorer_private(world.number, sizeof(world.number));
    explorer_private(world.answer, sizeof(world.answer));
    explorer_private(world.writer.free_numbers, WORLD_ENTRIES * sizeof(uint32_t));
    explorer_private(world.scan.filter, world.scan.room * (PIN_SCAN_BITS / 8));
    explorer_private(world.scan.refs, world.scan.room * sizeof(uint64_t));
    explorer_private(world.scan.holders, world.scan.room * sizeof(uint32_t));
    world_name();
}

uint64_t world_value(enum world_object object, uint64_t generation)
{
    return (uint64_t)('K' + object) << 32 | generation;
}

void world_put(enum world_object object, uint32_t block)
{
    struct index_fill fill = {
        .id = world.id[object], .offset = block * 64, .data_size = 100 + object};
    uint32_t number;

    NIGH_ASSERT(index_take(&world.writer, &number) == NIGH_OK);
    /* The bytes come from a client, before the seal; here from the lane. */
    shared_store_plain(&world.blocks[block], world_value(object, world.writer.next_generation));
    if (object == WORLD_K) {
        index_entry_fill(&world.writer, number, &fill, INDEX_CREATED);
        index_seal(&world.writer, number, 0);
    } else {
        index_entry_fill(&world.writer, number, &fill, INDEX_SEALED);
    }
    index_insert(&world.writer, world.hash[object], number);
    world.number[object] = number;
}

/* The memory of an entry goes to someone else. */
static void world_poison(uint32_t number)
{
    uint64_t offset = shared_load_plain(&world.index.entries[number].offset);

    shared_store_plain(&world.blocks[offset / 64], WORLD_POISON);
}

bool world_evict(enum world_object object)
{
    uint32_t number = world.number[object];

    if (pin_scan_victims(&world.scan, &world.writer, world.tables, WORLD_SESSIONS, &number, 1) ==
        0) {
        return false;
    }
    index_remove(&world.writer, world.hash[object], number);
    index_release(&world.writer, number);
    world_poison(number);
    return true;
}

bool world_delete(enum world_object object, uint32_t looks)
{
    uint32_t number = world.number[object];

    index_remove(&world.writer, world.hash[object], number);
    index_to_deleting(&world.writer, number);
    for (uint32_t i = 0; i < looks; i++) {
        pin_scan_begin(&world.scan, 0, 1);
        pin_scan_add(&world.scan, number);
        pin_scan_run(&world.scan, world.tables, WORLD_SESSIONS);
        if (pin_scan_holders(&world.scan, number) == 0) {
            index_release(&world.writer, number);
            world_poison(number);
            return true;
        }
    }
    return false;
}

void world_use(enum world_object object, uint32_t number, uint64_t generation)
{
    const struct index_entry *entry = &world.index.entries[number];
    uint64_t size = shared_load_plain(&entry->data_size);
    uint64_t offset = shared_load_plain(&entry->offset);

    if (size != 100 + object || !index_entry_is(entry, world.id[object])) {
        explorer_fail("a hit on another object's entry");
    }
    if (offset / 64 >= WORLD_BLOCKS) {
        explorer_fail("a hit on an entry without bytes");
    }
    explorer_use(&world.blocks[offset / 64], world_value(object, generation), "an object's bytes");
    explorer_pause();
}

enum index_answer world_get(uint32_t session, uint32_t slot, enum world_object object)
{
    struct pin_chunk *chunk = &world.sessions[session].chunks[0];
    uint32_t number;
    enum index_answer answer =
        index_acquire(&world.index, world.id[object], world.hash[object], chunk, slot, &number);

    if (answer == INDEX_HIT) {
        world_use(object, number, shared_load_relaxed(&chunk->generation[slot]));
        pin_clear(&chunk->entry[slot]);
    }
    return answer;
}
