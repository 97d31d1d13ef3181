/* SPDX-License-Identifier: Apache-2.0 */
/* See space_plain.h. */
#include "space_plain.h"

#include "harness.h"

void space_plain_create(struct space_plain *plain, uint32_t blocks)
{
    plain->blocks = bench_memory_create(blocks * sizeof *plain->blocks);
    plain->slots = bench_memory_create(SPACE_PLAIN_SLOTS * sizeof *plain->slots);
}

void space_plain_fill(struct space_plain *plain, uint32_t number, uint64_t address, uint64_t value)
{
    uint64_t at = space_plain_slot_of(address);

    for (uint32_t k = 0; k < SPACE_PLAIN_BYTES / 8; k++) {
        plain->blocks[number].words[k] = value;
    }
    while (plain->slots[at].key != 0) {
        at = (at + 1) % SPACE_PLAIN_SLOTS;
    }
    plain->slots[at].index = number;
    plain->slots[at].key = address >> SPACE_PLAIN_SHIFT;
}
