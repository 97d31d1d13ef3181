/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session asks of spaces (SESSION_OP_SPACE of session.h), and what it is answered. Questions
 * and answers lie in places of leased memory, as those of regions do; what threads say of blocks
 * goes through their windows (space_window.h) instead.
 */
#ifndef MEMORY_SESSION_SPACE_H
#define MEMORY_SESSION_SPACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

/* What is asked of spaces: -> what the answer is. */
enum session_space_what {
    SESSION_SPACE_CREATE = 1, /* a session_space_make, and the name. It is not opened by that ->
                                 generation: its birth; 0 of an older node */
    SESSION_SPACE_OPEN,       /* the name; id.argument: the rights; id.number: a birth, of no other
                                 (0: of any; an older node does not look) -> a session_space_opened;
                                 generation: its number in this session, from 1 to UINT32_MAX. What the
                                 session has open already has the same number, and all rights that
                                 were asked for; it is closed as often as it was opened */
    SESSION_SPACE_CLOSE,  /* id.number: of a space. The last one: its memory is not used any more,
                             what windows say of that number later is NIGH_CLOSED, and what the
                             session's windows hold of it is let go */
    SESSION_SPACE_DELETE, /* the name */
    SESSION_SPACE_STAT,   /* the name -> a session_space_stat, for who has any right to it */
    SESSION_SPACE_LIST, /* the name behind which, of no length: all; of those that the asker has any
                           right to -> a session_space_page */
    SESSION_SPACE_WINDOW,     /* makes a window, zeroed -> generation: the number of its file */
    SESSION_SPACE_WINDOW_END, /* id.number: of a window's file. What is in it is carried out, or
                                 fails; what it holds is let go */
    SESSION_SPACE_COUNT,      /* the name -> a session_space_counts, for who has any right to it */
    SESSION_SPACE_WHATS
};

struct session_space_id {
    uint64_t number;
    uint64_t argument;
    uint32_t zero;
    uint32_t unsaid; /* not sent */
};

_Static_assert(offsetof(struct session_space_id, unsaid) == LIMIT_ID_BYTES, "it fits an id");

/* Rights, of a user and of who opens. */
#define SESSION_SPACE_READ  1u
#define SESSION_SPACE_WRITE 2u

#define SESSION_SPACE_DURABLE_NONE  0u
#define SESSION_SPACE_DURABLE_ASYNC 1u
#define SESSION_SPACE_DURABLE_SYNC  2u

struct session_space_make {
    uint64_t home_bytes;  /* of blocks at each node */
    uint64_t cache_bytes; /* of others' blocks at each node, about; 0: as much */
    uint32_t block_bytes; /* a power of two; 0: LIMIT_SPACE_BLOCK_DEFAULT */
    uint32_t durability;
    uint32_t group_rights, other_rights;
};

struct session_space_stat {
    uint64_t id;
    uint64_t birth;
    uint64_t home_bytes, cache_bytes; /* at each node */
    uint64_t used_bytes;              /* of the home here, in what ALLOC has given */
    uint64_t seats;                   /* a bit for each that takes part */
    uint32_t block_bytes;
    uint32_t durability;
    uint32_t uid, gid;
    uint32_t group_rights, other_rights;
    uint32_t rights; /* of who asks */
    uint32_t seat;   /* of the node that is asked */
    char name[LIMIT_SPACE_NAME_BYTES + 1];
};

/* Of a space at this node, ever, as far back as it knows. */
struct session_space_counts {
    /* As threads of its clients say, which may say anything: reads, of a block each, and those of
     * what lay where it was read; locks of a block each, and those that the thread had kept. */
    uint64_t reads, hits, locks, kept;
    uint64_t writes, atomics; /* carried out here */
    uint64_t asks;            /* of other nodes for a block of theirs: all misses of its cache */
    uint64_t invalidations;   /* copies that were taken away from here, */
    uint64_t evictions;       /* and those that gave way to others */
    uint64_t messages, block_bytes; /* to other nodes */
};

/* Files are asked for by SESSION_SPACE_ASK, as often as one likes while the space is open: both
 * are views (space_view.h), to be read alone. */
struct session_space_opened {
    struct session_space_stat stat;
    uint64_t cache_file, home_file; /* numbers; home_file 0: there are no blocks at this node */
};

/* What LIST is answered with, whole: spaces in the order of their names' bytes. */
#define SESSION_SPACE_PAGE ((LIMIT_CALL_BYTES - 8) / (uint32_t)sizeof(struct session_space_stat))

struct session_space_page {
    uint32_t count;
    uint32_t more; /* 1: there are others behind the last one */
    struct session_space_stat spaces[SESSION_SPACE_PAGE];
};

_Static_assert(sizeof(struct session_space_make) == 32 &&
                   sizeof(struct session_space_stat) == 80 + LIMIT_SPACE_NAME_BYTES + 1 &&
                   sizeof(struct session_space_stat) == 128 &&
                   sizeof(struct session_space_opened) == 144 &&
                   sizeof(struct session_space_counts) == 88 &&
                   sizeof(struct session_space_page) <= LIMIT_CALL_BYTES,
               "they lie in places");

#endif
