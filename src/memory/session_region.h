/* SPDX-License-Identifier: Apache-2.0 */
/* What a session asks of regions (SESSION_OP_REGION of session.h), and what it is answered.
 * Questions and answers lie in places of leased memory, but for what fits a submission and a
 * completion. */
#ifndef MEMORY_SESSION_REGION_H
#define MEMORY_SESSION_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

/* What is asked of a region: -> what the answer is. */
enum session_region_what {
    SESSION_REGION_CREATE = 1, /* a session_region_make, its ranks, and the name */
    SESSION_REGION_OPEN,       /* the name; id.offset: the rights, and SESSION_REGION_LOW ->
                                  generation: its number */
    SESSION_REGION_CLOSE,
    SESSION_REGION_READ,  /* ref: bytes -> these. With SESSION_FLAG_INTO a session_bulk, that they
                             go to */
    SESSION_REGION_WRITE, /* the bytes; with SESSION_FLAG_INTO a session_bulk that they come from */
    SESSION_REGION_ADD,   /* ref: what is added -> generation: what was there */
    SESSION_REGION_SWAP,  /* ref: the new word; the question: the old one -> likewise */
    SESSION_REGION_GRANT, /* a session_region_grant */
    SESSION_REGION_RESIZE, /* a session_region_make */
    SESSION_REGION_MOVE,   /* id.offset: a chunk; ref: the rank that it goes to */
    SESSION_REGION_FREE,
    SESSION_REGION_STAT, /* -> a session_region_stat */
    SESSION_REGION_LOCK, /* a session_region_lock -> generation: the number of a handle that is good
                            as long as the lock is held. CLOSE of it lets go */
    SESSION_REGION_BARRIER, /* id.offset: its number; ref: how many are to arrive, to UINT32_MAX */
    SESSION_REGION_FILL,    /* ref: how many bytes; the question: the one byte that they become */
    SESSION_REGION_COPY,    /* ref: how many bytes; the question: a session_region_source */
    SESSION_REGION_MAP,     /* ref: how many bytes, of one chunk; with SESSION_FLAG_WRITES to write
                               them, too -> generation: the map's number, with which
                               SESSION_MAP_ASK gets the memory of the whole chunk */
    SESSION_REGION_UNMAP,   /* id.number: a map's. NIGH_STALE: it was of another memory than the
                               chunk's; it has ended all the same */
    SESSION_REGION_LIST,    /* the name behind which, of no length: all -> a session_region_page */
    SESSION_REGION_WHATS
};

struct session_region_id {
    uint64_t number; /* of the session's handle */
    uint64_t offset; /* in the region */
    uint32_t zero;
    uint32_t unsaid; /* not sent */
};

_Static_assert(offsetof(struct session_region_id, unsaid) == LIMIT_ID_BYTES, "it fits an id");

#define SESSION_REGION_LOW 8u /* beside the rights of OPEN: of low priority. Came later */

#define SESSION_REGION_LOCAL  0u /* where new chunks go */
#define SESSION_REGION_ON     1u
#define SESSION_REGION_SPREAD 2u
#define SESSION_REGION_AT \
    3u /* CREATE: `rank` says of how many chunks, in turn, a rank of 16 bits lies behind this */

/* A bit beside that: clients may map the chunks. Came later. */
#define SESSION_REGION_MAPPABLE 65536u
/* Others, of CREATE at the node itself: `chunk_bytes` is the number of what was donated
 * (SESSION_DONATED), of this size; or, of a session of the node's own process, an address there. It
 * is the region's one chunk. Came later, with SESSION_HAS_DONATIONS. */
#define SESSION_REGION_DONATED 131072u
#define SESSION_REGION_OWN     262144u

struct session_region_make {
    uint64_t size_bytes;
    uint64_t chunk_bytes;                /* 0: as the node has it. Of RESIZE 0 */
    uint32_t where, rank;                /* of CREATE with these bits, or without */
    uint32_t group_rights, other_rights; /* of RESIZE 0 */
};

struct session_region_grant {
    uint32_t whose; /* 0: of a user, 1: of the group, 2: of all others */
    uint32_t user, give, take;
};

#define SESSION_REGION_SHARED    1u /* beside others that have it so */
#define SESSION_REGION_EXCLUSIVE 2u

struct session_region_lock {
    uint64_t number;  /* of the region's locks */
    uint64_t term_us; /* so long it is held at least, when others wait; 0: until it is let go */
    uint32_t mode, zero;
};

struct session_region_source {
    uint64_t number; /* of a handle of the same session */
    uint64_t offset;
};

struct session_region_stat {
    uint64_t size_bytes, chunk_bytes;
    uint32_t chunk_count;
    uint32_t uid, gid;
    uint32_t group_rights, other_rights;
    uint32_t user_count;
    struct {
        uint32_t uid, rights;
    } users[LIMIT_REGION_GRANTS];
    uint32_t ranks[LIMIT_REGION_CHUNKS]; /* UINT32_MAX: it is lost */
    uint32_t flags;                      /* SESSION_REGION_MAPPABLE, SESSION_REGION_DONATED */
    uint32_t zero;
};

/* One of a page; behind it `user_count` of session_region_user, `chunk_count` ranks of 16 bits
 * (SESSION_REGION_LOST), and the name; then zeros, up to a multiple of 8 bytes. */
struct session_region_entry {
    uint32_t bytes; /* with all of that */
    uint32_t home;  /* the rank of the node that keeps what is known of it */
    uint64_t size_bytes, chunk_bytes;
    uint32_t uid, gid;
    uint8_t rights; /* of who asks */
    uint8_t group_rights, other_rights;
    uint8_t name_bytes;
    uint16_t chunk_count;
    uint8_t user_count;
    uint8_t flags; /* SESSION_ENTRY_* */
};

#define SESSION_ENTRY_MAPPABLE 1u
#define SESSION_ENTRY_DONATED  2u

#define SESSION_REGION_LOST UINT16_MAX /* of _AT: the node that is asked */

struct session_region_user {
    uint32_t uid, rights;
};

/* What LIST is answered with, whole: regions in the order of their names' bytes. */
struct session_region_page {
    uint32_t count;
    uint32_t bytes;  /* of the entries */
    uint32_t silent; /* members that were asked, and have not told all: it is in part */
    uint32_t more;   /* 1: there are others behind the last one */
    _Alignas(uint64_t) uint8_t entries[LIMIT_CALL_BYTES - 16];
};

_Static_assert(sizeof(struct session_region_make) == 32 &&
                   sizeof(struct session_region_grant) == 16 &&
                   sizeof(struct session_region_lock) == 24 &&
                   sizeof(struct session_region_stat) ==
                       48 + 8 * LIMIT_REGION_GRANTS + 4 * LIMIT_REGION_CHUNKS &&
                   sizeof(struct session_region_stat) <= LIMIT_CALL_BYTES &&
                   sizeof(struct session_region_entry) == 40 &&
                   sizeof(struct session_region_page) == LIMIT_CALL_BYTES,
               "they lie in places");

#endif
