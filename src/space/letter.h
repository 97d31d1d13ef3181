/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nodes tell each other of which spaces there are (registry.h): letters, over the channel that
 * messages of blocks take, and in order with them. A letter's first byte is one that no message of
 * a block begins with. Little-endian, as all that this channel has.
 */
#ifndef SPACE_LETTER_H
#define SPACE_LETTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

#define SPACE_LETTERS UINT8_C(0x80) /* the first kind; what is below is of blocks */

enum space_letter_kind {
    SPACE_LETTER_SPACE = SPACE_LETTERS, /* what a space is; its name is the next letter */
    SPACE_LETTER_NAME,                  /* of the space that the last letter was of */
    SPACE_LETTER_HAVE,                  /* its memory is at the sender, there; or is not, and why */
    SPACE_LETTER_READY,  /* to its maker: all of whom the sender knows have told it so */
    SPACE_LETTER_GONE,   /* it is deleted, and the sender says nothing of its blocks any more */
    SPACE_LETTER_DELETE, /* asks for that */
    SPACE_LETTER_ANSWER, /* how an ask ended */
    SPACE_LETTER_AGAIN,  /* to whom the sender said that it does not know one: it may now */
    SPACE_LETTERS_END
};

/* Of SPACE: it is an ask for that, by its number; the sender makes it now, and waits for READY. */
#define SPACE_LETTER_ASKS 1u
#define SPACE_LETTER_MADE 2u
/* Of GONE: the sender waits for the receiver's. */
#define SPACE_LETTER_WAITS 4u
/* Of HAVE, not NIGH_OK: the sender does not know it: it has another of that name, or no place. */
#define SPACE_LETTER_UNKNOWN 8u

/* Where a node's memory of a space is, and the keys that open it to the others. */
struct space_site {
    uint64_t cache_address, home_address;
    uint32_t cache_key, home_key;
};

struct space_letter {
    uint8_t kind;
    uint8_t flags;
    uint8_t name_bytes; /* NAME */
    uint8_t zero;
    uint32_t number; /* of an ask, and of its answer */
    uint64_t birth;  /* of the space; ANSWER, AGAIN: 0 */
    union {
        struct {
            uint64_t home_bytes, cache_bytes;
            uint32_t block_bytes, durability, uid, gid, mode, zero[3];
        } space;
        char name[48];
        struct {
            struct space_site memory;
            int32_t status;
            uint32_t zero[5];
        } have;
        struct {
            int32_t status;
            uint32_t zero[11];
        } answer;
    };
};

_Static_assert(sizeof(struct space_letter) == LIMIT_SPACE_MESSAGE, "a letter is on the wire");
_Static_assert(LIMIT_SPACE_NAME_BYTES < 48, "a name fits one");

#endif
