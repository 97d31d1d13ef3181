/* SPDX-License-Identifier: Apache-2.0 */
/* See region_slabs.h. */
#include "node/region_slabs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"

#define SLAB_PLACES (LIMIT_REGION_SLAB_BYTES / LIMIT_REGION_UNIT_BYTES)
#define SLAB_WORDS  (SLAB_PLACES / 64)

struct region_slab {
    struct list_node link; /* in with_room, while a place is free */
    uint8_t *address;
    uint64_t piece_bytes;
    uint32_t places, used;
    uint64_t taken[SLAB_WORDS];
};

void region_slabs_init(struct region_slabs *slabs)
{
    long page_bytes = sysconf(_SC_PAGESIZE);

    *slabs = (struct region_slabs){.page_bytes = LIMIT_REGION_UNIT_BYTES};
    if (page_bytes > LIMIT_REGION_UNIT_BYTES)
        slabs->page_bytes = (uint64_t)page_bytes; /* pieces that shared one would not go singly */
    for (uint32_t n = 0; n < REGION_SLAB_SIZES; n++)
        list_init(&slabs->with_room[n]);
}

void region_slabs_fini(struct region_slabs *slabs)
{
    NIGH_ASSERT(slabs->count == 0);
}

static struct list *list_of(struct region_slabs *slabs, uint64_t piece_bytes)
{
    return &slabs->with_room[piece_bytes / LIMIT_REGION_UNIT_BYTES - 1];
}

static nigh_status make_slab(struct region_slabs *slabs, uint64_t piece_bytes,
                             struct region_slab **made)
{
    struct region_slab *slab = calloc(1, sizeof(*slab));
    void *address;

    if (slab == NULL)
        return NIGH_NO_RESOURCES;
    address = mmap(NULL, LIMIT_REGION_SLAB_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
        free(slab);
        return NIGH_OUT_OF_MEMORY;
    }
    /* A child that wrote there would have a copy, and so, by turns, would a device. */
    (void)madvise(address, LIMIT_REGION_SLAB_BYTES, MADV_DONTFORK);
    (void)madvise(address, LIMIT_REGION_SLAB_BYTES, MADV_DONTDUMP);
    /* A huge page would be there for places that nobody has. */
    (void)madvise(address, LIMIT_REGION_SLAB_BYTES, MADV_NOHUGEPAGE);
    slab->address = address;
    slab->piece_bytes = piece_bytes;
    slab->places = (uint32_t)(LIMIT_REGION_SLAB_BYTES / piece_bytes);
    slabs->count++;
    list_push_back(list_of(slabs, piece_bytes), &slab->link);
    *made = slab;
    return NIGH_OK;
}

static uint32_t free_place(const struct region_slab *slab)
{
    for (uint32_t n = 0; n < SLAB_WORDS; n++) {
        if (slab->taken[n] != UINT64_MAX)
            return n * 64 + (uint32_t)__builtin_ctzll(~slab->taken[n]);
    }
    return slab->places;
}

/* The place is free, and its pages are the system's, or zero. */
static void give_place(struct region_slabs *slabs, struct region_slab *slab, uint32_t place)
{
    if (slab->used == slab->places)
        list_push_front(list_of(slabs, slab->piece_bytes), &slab->link);
    slab->taken[place / 64] &= ~(UINT64_C(1) << place % 64);
    slab->used--;
    if (slab->used == 0) {
        list_remove(&slab->link);
        NIGH_ASSERT(munmap(slab->address, LIMIT_REGION_SLAB_BYTES) == 0);
        slabs->count--;
        free(slab);
    }
}

/* Whoever has it next finds nothing of it. Pages that are locked do not go: they are zeroed. */
static void wipe(const struct region_slab *slab, uint8_t *address)
{
    if (madvise(address, slab->piece_bytes, MADV_DONTNEED) != 0)
        memset(address, 0, slab->piece_bytes);
}

nigh_status region_slabs_take(struct region_slabs *slabs, uint64_t bytes,
                              struct region_slab_piece *piece)
{
    uint64_t piece_bytes = align_up_u64(bytes, slabs->page_bytes);
    struct list *with_room = list_of(slabs, piece_bytes);
    struct region_slab *slab;
    nigh_status status = NIGH_OK;
    uint32_t place;

    NIGH_ASSERT(bytes > 0 && bytes <= LIMIT_REGION_SLAB_PIECE);
    if (list_empty(with_room))
        status = make_slab(slabs, piece_bytes, &slab);
    else
        slab = container_of(list_first(with_room), struct region_slab, link);
    if (status != NIGH_OK)
        return status;
    place = free_place(slab);
    NIGH_ASSERT(place < slab->places);
    slab->taken[place / 64] |= UINT64_C(1) << place % 64;
    slab->used++;
    if (slab->used == slab->places)
        list_remove(&slab->link);
    *piece =
        (struct region_slab_piece){.address = slab->address + place * piece_bytes, .slab = slab};
    if (madvise(piece->address, piece_bytes, MADV_POPULATE_WRITE) != 0) {
        (void)madvise(piece->address, piece_bytes, MADV_DONTNEED);
        give_place(slabs, slab, place);
        return NIGH_OUT_OF_MEMORY;
    }
    return NIGH_OK;
}

void region_slabs_give(struct region_slabs *slabs, struct region_slab_piece piece)
{
    struct region_slab *slab = piece.slab;
    uint64_t offset = (uint64_t)(piece.address - slab->address);

    wipe(slab, piece.address);
    give_place(slabs, slab, (uint32_t)(offset / slab->piece_bytes));
}
