/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that clients donate, until it is a region's (docs/lite.md): a session offers a memory
 * file, or of this process any memory, and has a region created of it. From the making of its chunk
 * on it is memory of a region like any other. Until then it goes with the question, or with the
 * session's connection; and the home, which knows it by a number alone, finds nothing here.
 */
#include <string.h>
#include <unistd.h>

#include "memory/memfd.h"
#include "node/lane_regions.h"

static uint32_t slot_of(uint64_t number)
{
    return (uint32_t)number / LIMIT_SESSION_DONATIONS;
}

/* NULL: there is none of this number (any more). A home may say any. */
static struct region_donation *find(const struct lane_regions *at, uint64_t number)
{
    uint32_t slot = slot_of(number);
    struct region_donation *donation;

    if (slot >= at->lane->config.max_sessions || at->sessions[slot] == NULL)
        return NULL;
    donation = &at->sessions[slot]->donations[number % LIMIT_SESSION_DONATIONS];
    return donation->memory != NULL && donation->number == number ? donation : NULL;
}

/* NULL: all of the session's are in use, or it has no place here. */
static struct region_donation *take_place(struct lane_regions *at, uint32_t slot)
{
    struct lane_region_session *session =
        lane_region_need_handles(at, slot) == NULL ? NULL : at->sessions[slot];

    for (uint32_t n = 0; session != NULL && n < LIMIT_SESSION_DONATIONS; n++) {
        struct region_donation *donation = &session->donations[n];

        if (donation->memory != NULL)
            continue;
        at->donation_uses += at->donation_uses == UINT32_MAX ? 2 : 1; /* never 0 */
        donation->number = (uint64_t)at->donation_uses << 32 | (slot * LIMIT_SESSION_DONATIONS + n);
        return donation;
    }
    return NULL;
}

static nigh_status offer(struct lane_regions *at, uint32_t slot, const struct region_gift *gift,
                         struct region_donation **out)
{
    struct region_donation *donation = take_place(at, slot);
    nigh_status status = NIGH_OVERLOADED;

    if (donation != NULL)
        status = region_memories_offer(at->memories, gift, &donation->memory);
    if (status != NIGH_OK)
        return status;
    donation->asked = NULL;
    *out = donation;
    return NIGH_OK;
}

static void drop(struct lane_regions *at, struct region_donation *donation)
{
    region_memories_unmake(at->memories, donation->memory);
    donation->memory = NULL;
}

nigh_status lane_region_donate(struct lane *lane, uint32_t slot, int fd, uint64_t bytes,
                               uint64_t *number)
{
    struct lane_regions *at = lane->regions;
    struct region_gift gift = {.bytes = bytes, .fd = fd};
    struct region_donation *donation;
    nigh_status status = NIGH_OK;

    if (at == NULL || !lane_regions_are_served(lane))
        return NIGH_UNSUPPORTED;
    if (!lane->sessions[slot].seat->may_write)
        return NIGH_DENIED;
    if (bytes == 0 || bytes % LIMIT_REGION_UNIT_BYTES != 0 || bytes > LIMIT_REGION_CHUNK_BYTES)
        return NIGH_INVALID;
    status = memfd_check_given(fd, bytes);
    if (status == NIGH_OK)
        status = offer(at, slot, &gift, &donation);
    if (status == NIGH_OK)
        *number = donation->number;
    return status;
}

void lane_region_donation_drop(struct lane *lane, uint32_t slot, uint64_t number)
{
    struct region_donation *donation =
        lane->regions != NULL && slot_of(number) == slot ? find(lane->regions, number) : NULL;

    if (donation != NULL && donation->asked == NULL)
        drop(lane->regions, donation);
}

/* ---- a region is asked for ------------------------------------------------ */

nigh_status lane_region_donation_ask(struct lane_regions *at, uint32_t slot, uint64_t number,
                                     uint64_t bytes, struct region_asked *asked)
{
    struct region_donation *donation = slot_of(number) == slot ? find(at, number) : NULL;

    if (donation == NULL || donation->asked != NULL)
        return NIGH_CLOSED;
    donation->asked = asked;
    asked->asking.ask.donation = number;
    return donation->memory->bytes == bytes ? NIGH_OK : NIGH_INVALID;
}

/* The kernel said which process the session's is, and no other one has this number while this one
 * lives. */
nigh_status lane_region_donation_own(struct lane_regions *at, uint32_t slot, uint64_t address,
                                     uint64_t bytes, struct region_asked *asked)
{
    struct region_gift gift = {.bytes = bytes, .fd = -1, .address = (uint8_t *)(uintptr_t)address};
    struct region_donation *donation;
    nigh_status status;

    if (at->lane->sessions[slot].seat->pid != getpid())
        return NIGH_DENIED;
    if (address == 0 || address % sizeof(uint64_t) != 0 || bytes == 0 ||
        bytes > LIMIT_REGION_CHUNK_BYTES || address > UINT64_MAX - LIMIT_REGION_UNIT_BYTES - bytes)
        return NIGH_INVALID;
    status = offer(at, slot, &gift, &donation);
    if (status == NIGH_OK) {
        donation->asked = asked;
        asked->asking.ask.donation = donation->number;
    }
    return status;
}

void lane_region_donation_end(struct lane_regions *at, const struct region_asked *asked)
{
    struct region_donation *donation = find(at, asked->asking.ask.donation);

    if (donation != NULL && donation->asked == asked)
        drop(at, donation);
}

void lane_region_donations_forget(struct lane_regions *at, uint32_t slot)
{
    struct lane_region_session *session = at->sessions[slot];

    for (uint32_t n = 0; session != NULL && n < LIMIT_SESSION_DONATIONS; n++) {
        if (session->donations[n].memory != NULL)
            drop(at, &session->donations[n]);
    }
}

/* ---- it is a chunk's ------------------------------------------------------ */

/* Chunks are whole units; memory of this process ends where it ends. */
struct region_memory *lane_region_donation_take(struct lane_regions *at,
                                                const struct region *region, uint64_t number,
                                                uint64_t chunk_bytes)
{
    struct region_donation *donation = find(at, number);
    const struct region_asking *asking;
    struct region_memory *memory;
    uint32_t name_bytes;
    const char *name;

    if (donation == NULL || donation->asked == NULL)
        return NULL;
    asking = &donation->asked->asking;
    name = region_name(region, &name_bytes);
    if (asking->ask.name_bytes != name_bytes || memcmp(asking->name, name, name_bytes) != 0 ||
        align_up_u64(donation->memory->bytes, LIMIT_REGION_UNIT_BYTES) != chunk_bytes)
        return NULL;
    memory = donation->memory;
    donation->memory = NULL;
    return memory;
}
