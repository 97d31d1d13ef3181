/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registrations and their keys.
 *
 * A slot is used again as late as possible, and then under its next generation: a key that was
 * given back hits nothing for a long time.
 */
#include "fabric/tcp/tcp_internal.h"

#include <stdlib.h>

#define GENERATION_MASK ((UINT32_C(1) << (32 - TCP_KEY_SLOT_BITS)) - 1)
#define SLOT_MASK       ((UINT32_C(1) << TCP_KEY_SLOT_BITS) - 1)
#define NO_SLOT         UINT32_MAX
#define ALL_RIGHTS \
    (FABRIC_LOCAL_WRITE | FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE | FABRIC_REMOTE_ATOMIC)

nigh_status tcp_memories_init(struct tcp *tcp)
{
    struct tcp_memories *memories = &tcp->memories;

    /* Pages of slots that are never used are never touched. */
    memories->slots = calloc(LIMIT_FABRIC_MEMORIES, sizeof(*memories->slots));
    memories->first_free = memories->last_free = NO_SLOT;
    return memories->slots == NULL ? NIGH_NO_RESOURCES : NIGH_OK;
}

void tcp_memories_fini(struct tcp *tcp)
{
    for (uint32_t i = 0; i < tcp->memories.fresh; i++)
        free(tcp->memories.slots[i].memory);
    free(tcp->memories.slots);
}

static uint32_t slot_take(struct tcp *tcp)
{
    struct tcp_memories *memories = &tcp->memories;
    uint32_t slot = memories->first_free;

    if (memories->fresh < LIMIT_FABRIC_MEMORIES) {
        slot = memories->fresh++;
        memories->slots[slot].generation = (uint32_t)random_u64(&tcp->random);
        return slot;
    }
    if (slot == NO_SLOT)
        return NO_SLOT;
    memories->first_free = memories->slots[slot].next_free;
    if (memories->first_free == NO_SLOT)
        memories->last_free = NO_SLOT;
    return slot;
}

static void slot_give(struct tcp_memories *memories, uint32_t slot)
{
    memories->slots[slot].memory = NULL;
    memories->slots[slot].next_free = NO_SLOT;
    if (memories->last_free == NO_SLOT)
        memories->first_free = slot;
    else
        memories->slots[memories->last_free].next_free = slot;
    memories->last_free = slot;
}

nigh_status tcp_memory_register(struct fabric *fabric, void *address, uint64_t bytes,
                                enum fabric_kind kind, uint32_t rights,
                                struct fabric_memory **memory)
{
    struct tcp *tcp = tcp_of(fabric);
    struct fabric_memory *made;
    struct tcp_slot *slot;
    uint32_t number;

    if (kind != FABRIC_HOST)
        return NIGH_UNSUPPORTED;
    if (address == NULL || bytes == 0 || bytes > UINTPTR_MAX - (uintptr_t)address ||
        (rights & ~ALL_RIGHTS) != 0)
        return NIGH_INVALID;
    made = malloc(sizeof(*made));
    if (made == NULL)
        return NIGH_NO_RESOURCES;
    number = slot_take(tcp);
    if (number == NO_SLOT) {
        free(made);
        return NIGH_LIMIT;
    }
    slot = &tcp->memories.slots[number];
    slot->generation = (slot->generation + 1) & GENERATION_MASK;
    if (slot->generation == 0)
        slot->generation = 1; /* no key is 0 */
    *made = (struct fabric_memory){.tcp = tcp,
                                   .address = address,
                                   .bytes = bytes,
                                   .rights = rights,
                                   .key = slot->generation << TCP_KEY_SLOT_BITS | number};
    slot->memory = made;
    *memory = made;
    return NIGH_OK;
}

struct fabric_remote tcp_memory_remote(const struct fabric_memory *memory, const void *address)
{
    return (struct fabric_remote){.address = (uintptr_t)address, .key = memory->key};
}

void tcp_memory_deregister(struct fabric *fabric, struct fabric_memory *memory)
{
    struct tcp *tcp = tcp_of(fabric);
    uint32_t number = memory->key & SLOT_MASK;

    NIGH_ASSERT(memory->tcp == tcp && tcp->memories.slots[number].memory == memory);
    slot_give(&tcp->memories, number);
    free(memory);
}

void *tcp_memory_reach(struct tcp *tcp, uint32_t key, uint64_t address, uint64_t bytes,
                       uint32_t right)
{
    uint32_t number = key & SLOT_MASK;
    const struct fabric_memory *memory;
    uint64_t offset;

    memory = number < tcp->memories.fresh ? tcp->memories.slots[number].memory : NULL;
    if (memory == NULL || memory->key != key || (memory->rights & right) == 0)
        return NULL;
    offset = address - (uintptr_t)memory->address; /* an address before it is a huge offset */
    if (offset > memory->bytes || bytes > memory->bytes - offset)
        return NULL;
    return memory->address + offset;
}

bool tcp_memory_covers(const struct tcp *tcp, const struct fabric_slice *slice, uint32_t right)
{
    const struct fabric_memory *memory = slice->memory;
    uint64_t offset;

    if (memory == NULL)
        return slice->bytes == 0;
    offset = (uintptr_t)slice->address - (uintptr_t)memory->address;
    return memory->tcp == tcp && (memory->rights & right) == right && offset <= memory->bytes &&
           slice->bytes <= memory->bytes - offset;
}
