/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of extents share: extent_make.c makes sets, extent.c gives and moves.
 * Internal to them. */
#ifndef MEMORY_EXTENT_INTERNAL_H
#define MEMORY_EXTENT_INTERNAL_H

#include "memory/extent.h"

/* Where an extent's bytes are mapped. */
static inline void *extent_address(const struct extent_set *set, uint32_t extent)
{
    return set->arena + ((uint64_t)extent << set->extent_shift);
}

/* A set of which no number has ever had memory; its lanes are known. */
void extent_set_begin(struct extent_set *set);

/*
 * Makes, populates and maps one extent that is absent; it is present then, and nobody's. Counts
 * nothing. Status and errno as memfd_create_sealed. Any thread, for different extents.
 */
nigh_status extent_make(struct extent_set *set, uint32_t extent, bool huge);

/* Counts a lane's extents anew: its free ones and their longest run. */
void extent_recount(struct extent_set *set, uint32_t lane);

#endif
