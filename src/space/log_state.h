/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node's log says of a space, after its records were applied one by one: its own home
 * memory, who has which block of it, and what this node has, or had last, of others' blocks.
 *
 * An image is taken while all goes on, so that it may know more than the record from which the log
 * is applied on: until the record that it names as its last one a change may be of what the image
 * does not have, and is passed over; behind that nothing is. No I/O; memory is taken at init alone.
 */
#ifndef SPACE_LOG_STATE_H
#define SPACE_LOG_STATE_H

#include "base/table.h"
#include "space/log_format.h"

/* An address of a space: which node's home memory, and where in it (docs/spaces.md). */
#define SPACE_LOG_RANK_SHIFT 48

struct space_log_geometry {
    uint16_t rank;        /* this node's */
    uint32_t block_bytes; /* a power of two from 64 to LIMIT_SPACE_BLOCK_BYTES */
    uint32_t blocks;      /* of its home memory; may be none */
    uint32_t frames;      /* for blocks of others */
};

enum space_log_block_state {
    SPACE_LOG_IS_FREE, /* not in use */
    SPACE_LOG_IS_HERE, /* its last bytes are here */
    SPACE_LOG_IS_OWNED,
    SPACE_LOG_IS_LOST,
};

/* A block of the own home memory. */
struct space_log_block {
    uint8_t state;            /* enum space_log_block_state */
    uint8_t owner;            /* IS_OWNED: who was given it last, as far as is known, */
    bool is_ours;             /* of the bytes that are here, */
    struct space_epoch epoch; /* and by which right */
    uint32_t life;            /* which of the home its address is of */
    uint32_t run;             /* it is the first of so many that one malloc gave; 0: it is not */
};

/* What this node had of another's block. */
struct space_log_copy {
    uint64_t address;
    struct space_epoch epoch;
    uint8_t handed_to; /* it gave it to that seat; SPACE_NOBODY */
};

struct space_log_state {
    struct space_log_geometry geometry;
    uint8_t *home; /* the caller's: blocks * block_bytes */
    struct space_log_block *blocks;
    uint32_t term; /* the last that the home began; 0: none */
    /* That the home knows, and its own, which who begins a log sets; 0: none. */
    uint64_t lives[SPACE_SEATS];
    uint32_t since[SPACE_SEATS]; /* the first term that was open with that life */
    uint64_t members;            /* seats of the last term that it opened */
    /* Twice the frames: an image knows of each frame what lay there at one moment, and the log
     * behind it what lay there at any. */
    struct table index; /* address to place */
    struct space_log_copy *copies;
    uint8_t *copies_bytes;
    uint32_t *free_places;
    uint32_t free_count;
};

/* Bits of an address of the home: where in its memory; above them are its lives. */
uint32_t space_log_place_bits(const struct space_log_geometry *geometry);

/* All blocks are free, and nothing is here of others' blocks. NIGH_INVALID: no such geometry;
 * NIGH_NO_RESOURCES. `home` is the caller's, and outlives it; `seed`: random, as clients choose
 * addresses. */
nigh_status space_log_state_init(struct space_log_state *state,
                                 const struct space_log_geometry *geometry, uint8_t *home,
                                 uint64_t seed);
void space_log_state_fini(struct space_log_state *state);

/*
 * The next record. `is_past`: the image may know of it already. NIGH_CORRUPT: nobody who keeps to
 * docs/spaces.md writes it, and the state is of no use any more. IMAGE and IMAGE_END are not for
 * here.
 */
nigh_status space_log_apply(struct space_log_state *state, const struct space_log_record *record,
                            bool is_past);

/* What a record says of a block of the home, but for the bytes; ALLOC and FREE: of each block, as
 * if it were alone. */
void space_log_note(struct space_log_block *block, const struct space_log_record *record,
                    uint32_t life);

/* What it has of another's block, and the bytes; NULL: nothing. */
const struct space_log_copy *space_log_find_copy(struct space_log_state *state, uint64_t address,
                                                 const uint8_t **bytes);

/* All of them, in no order: *cursor is 0 at first; NULL behind the last. */
const struct space_log_copy *space_log_next_copy(const struct space_log_state *state,
                                                 size_t *cursor, const uint8_t **bytes);

#endif
