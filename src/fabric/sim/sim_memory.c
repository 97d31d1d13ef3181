/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registrations of the simulated fabric. Peers name memory by addresses that are counted, not by
 * the ones it has: equal runs give equal ones, and who mixes them up is found out.
 */
#include "fabric/sim/sim_internal.h"

#include <stdlib.h>

#define KEY_SLOT_MASK ((uint32_t)LIMIT_FABRIC_MEMORIES - 1)
#define ALL_RIGHTS \
    (FABRIC_LOCAL_WRITE | FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE | FABRIC_REMOTE_ATOMIC)

_Static_assert((LIMIT_FABRIC_MEMORIES & (LIMIT_FABRIC_MEMORIES - 1)) == 0, "a mask takes the slot");

static nigh_status sim_memory_first(struct sim_fabric *fabric)
{
    if (fabric->memories != NULL)
        return NIGH_OK;
    /* Pages of slots that are never used are never touched. */
    fabric->memories = calloc(LIMIT_FABRIC_MEMORIES, sizeof(*fabric->memories));
    fabric->free_slots = calloc(LIMIT_FABRIC_MEMORIES, sizeof(*fabric->free_slots));
    if (fabric->memories == NULL || fabric->free_slots == NULL) {
        free(fabric->memories);
        free(fabric->free_slots);
        fabric->memories = NULL;
        fabric->free_slots = NULL;
        return NIGH_NO_RESOURCES;
    }
    return NIGH_OK;
}

/* A slot, one that was never used while there is one, and a generation that no other key of late
 * has. */
static uint32_t sim_memory_key(struct sim_fabric *fabric)
{
    uint32_t slot;

    if (fabric->memory_slots < LIMIT_FABRIC_MEMORIES) {
        slot = fabric->memory_slots++;
    } else {
        slot = fabric->free_slots[fabric->free_head];
        fabric->free_head = (fabric->free_head + 1) & KEY_SLOT_MASK;
    }
    fabric->generation++;
    if ((fabric->generation & (UINT32_MAX / LIMIT_FABRIC_MEMORIES)) == 0)
        fabric->generation++; /* no key is 0 */
    return fabric->generation * LIMIT_FABRIC_MEMORIES + slot;
}

nigh_status sim_memory_register(struct fabric *base, void *address, uint64_t bytes,
                                enum fabric_kind kind, uint32_t rights,
                                struct fabric_memory **memory)
{
    struct sim_fabric *fabric = sim_fabric_of(base);
    uint64_t end;

    if (kind != FABRIC_HOST)
        return NIGH_UNSUPPORTED;
    if (address == NULL || bytes == 0 || (rights & ~ALL_RIGHTS) != 0 ||
        !checked_add_u64((uint64_t)(uintptr_t)address, bytes, &end))
        return NIGH_INVALID;
    if (fabric->memory_count == LIMIT_FABRIC_MEMORIES)
        return NIGH_LIMIT;
    struct fabric_memory *made = calloc(1, sizeof(*made));

    if (made == NULL || sim_memory_first(fabric) != NIGH_OK) {
        free(made);
        return NIGH_NO_RESOURCES;
    }
    *made = (struct fabric_memory){.fabric = fabric,
                                   .address = address,
                                   .bytes = bytes,
                                   .key = sim_memory_key(fabric),
                                   .rights = rights};
    /* Aligned as the memory is, for atomics. */
    made->remote = fabric->next_address + ((uintptr_t)address & (sizeof(uint64_t) - 1));
    fabric->next_address += align_up_u64(bytes + SIM_ADDRESS_GAP, SIM_ADDRESS_GAP);
    fabric->memories[made->key & KEY_SLOT_MASK] = made;
    fabric->memory_count++;
    *memory = made;
    return NIGH_OK;
}

struct fabric_remote sim_memory_remote(const struct fabric_memory *memory, const void *address)
{
    NIGH_ASSERT((const char *)address >= memory->address &&
                (const char *)address <= memory->address + memory->bytes);
    return (struct fabric_remote){
        memory->remote + (uint64_t)((const char *)address - memory->address), memory->key};
}

void sim_memory_deregister(struct fabric *base, struct fabric_memory *memory)
{
    struct sim_fabric *fabric = sim_fabric_of(base);
    uint32_t slot = memory->key & KEY_SLOT_MASK;

    NIGH_ASSERT(memory->fabric == fabric && fabric->memories[slot] == memory);
    NIGH_ASSERT(memory->uses == 0); /* local posts that use it have ended */
    fabric->memories[slot] = NULL;
    fabric->free_slots[(fabric->free_head + fabric->memory_slots - fabric->memory_count) &
                       KEY_SLOT_MASK] = slot;
    fabric->memory_count--;
    free(memory);
}

void sim_memory_fini(struct sim_fabric *fabric)
{
    for (uint32_t i = 0; i < fabric->memory_slots && fabric->memory_count > 0; i++) {
        if (fabric->memories[i] != NULL)
            sim_memory_deregister(&fabric->fabric, fabric->memories[i]);
    }
    free(fabric->memories);
    free(fabric->free_slots);
    fabric->memories = NULL;
    fabric->free_slots = NULL;
    fabric->memory_slots = fabric->free_head = 0;
}

char *sim_memory_find(const struct sim_fabric *fabric, struct fabric_remote remote, uint64_t bytes,
                      uint32_t right)
{
    if (fabric->memories == NULL)
        return NULL;
    const struct fabric_memory *memory = fabric->memories[remote.key & KEY_SLOT_MASK];

    if (memory == NULL || memory->key != remote.key || (memory->rights & right) == 0)
        return NULL;
    if (remote.address < memory->remote)
        return NULL;
    uint64_t offset = remote.address - memory->remote;

    if (offset > memory->bytes || bytes > memory->bytes - offset)
        return NULL;
    return memory->address + offset;
}

bool sim_slice_is_valid(const struct sim_fabric *fabric, const struct fabric_slice *slice,
                        bool written)
{
    const struct fabric_memory *memory = slice->memory;

    if (memory == NULL)
        return slice->bytes == 0;
    if (memory->fabric != fabric || (written && (memory->rights & FABRIC_LOCAL_WRITE) == 0))
        return false;
    uintptr_t start = (uintptr_t)memory->address, address = (uintptr_t)slice->address;

    return address >= start && address - start <= memory->bytes &&
           slice->bytes <= memory->bytes - (address - start);
}
