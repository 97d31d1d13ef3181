/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of a session on its socket (session.h): who says which, and what comes with it. */
#ifndef MEMORY_SESSION_MESSAGE_H
#define MEMORY_SESSION_MESSAGE_H

#include <stdint.h>

#include "base/limits.h"

#define SESSION_MAGIC       UINT32_C(0x4847494e) /* "NIGH", little endian */
#define SESSION_VERSION_MIN 1u
#define SESSION_VERSION_MAX 2u
#define SESSION_VERSION_OVERLOADED \
    2u /* the first whose clients know NIGH_OVERLOADED; others are told NIGH_BUSY */

enum session_message_kind {
    SESSION_HELLO = 1,   /* client: open or resume a session */
    SESSION_WELCOME = 2, /* node: it is open (with descriptors), or refused (with a sentence) */
    SESSION_EXTENT = 3,  /* client: I need this extent */
    SESSION_GRANT = 4,   /* node: here it is (one descriptor), or a status */
    SESSION_POKE = 5,    /* node: look at your rings; carries nothing */
    SESSION_BYE =
        6,                 /* node: the session has ended; a session_welcome says why; end of file
                             follows.       Client: the header alone: it has ended; without, it may come back */
    SESSION_PAIR_ASK = 7,  /* client: I call this service; sent to a node that SESSION_HAS_PAIRS */
    SESSION_PAIR = 8,      /* node: a pair (two descriptors), to who calls and to who serves; or to
                              who asked, a status */
    SESSION_PAIR_DROP = 9, /* client: this pair has ended here, and nothing of it is mapped */
    SESSION_BULK_ASK = 10, /* client: I need this memory, which was made for my calls */
    SESSION_BULK = 11,     /* node: here it is (one descriptor), or a status */
    SESSION_MAP_ASK = 12,  /* client: I need the memory of this map (SESSION_REGION_MAP) */
    SESSION_MAP = 13,      /* node: here it is (one descriptor), or a status */
    SESSION_DONATE = 14, /* client: this memory (one descriptor) is to be a region's; sent to a node
                            that SESSION_HAS_DONATIONS */
    SESSION_DONATED = 15,     /* node: by this number (SESSION_REGION_DONATED), or a status */
    SESSION_DONATE_DROP = 16, /* client: nobody will ask for what has this number; sent to a node
                                 that SESSION_DROPS_DONATIONS */
    SESSION_SPACE_ASK = 17,  /* client: I need this file of a space, or a window's; by its number */
    SESSION_SPACE_FILE = 18, /* node: here it is (one descriptor; a window's is writable), or a
                                status */
};

struct session_message_header {
    uint32_t magic;
    uint16_t kind;
    uint16_t reserved;
};

#define SESSION_HELLO_READ_ONLY 1u
#define SESSION_HELLO_RESUME    2u
#define SESSION_HELLO_LOW       4u /* of regions. Came later: refused by a node without it */

struct session_hello {
    struct session_message_header header;
    uint16_t version_min;
    uint16_t version_max;
    uint32_t flags;
    uint64_t quota_bytes;                   /* 0: the node's default */
    uint64_t session;                       /* to resume */
    uint8_t token[16];                      /* to resume: what the welcome gave */
    char pool[LIMIT_POOL_NAME_BYTES + 1];   /* terminated; "" is the caller's own */
    char name[LIMIT_CLIENT_NAME_BYTES + 1]; /* terminated */
};

_Static_assert(sizeof(struct session_hello) == 112, "hello is on the wire");

/*
 * Descriptors that come with a welcome, in this order: the node page (read-only), the session's
 * memory (writable), then for each lane its index of the pool (read-only) and the session's
 * doorbell for it (an eventfd).
 */
#define SESSION_WELCOME_FDS(lanes) (2u + 2u * (lanes))

/* Bits of session_welcome.rights. */
#define SESSION_MAY_WRITE       1u
#define SESSION_HAS_PAIRS       2u /* the node makes pairs. Came later */
#define SESSION_HAS_DONATIONS   4u /* and takes memory that is donated. Came later still */
#define SESSION_DROPS_DONATIONS 8u /* and lets go of it again when it is told to. After that */
#define SESSION_HAS_PLACES \
    16u /* the session's memory ends with places of its own (session_file_bytes). Later still */
#define SESSION_FETCHES 32u /* its windows take SPACE_RECORD_FETCH. After that */

struct session_welcome {
    struct session_message_header header;
    int32_t status;
    uint16_t version;
    uint16_t rights;
    uint32_t lanes;
    uint32_t slot; /* of the session in the node: colours its ready words */
    uint64_t session;
    uint8_t token[16];
    uint64_t extent_bytes;
    uint64_t arena_bytes;   /* LIMIT_EXTENTS * extent_bytes: what a client reserves to map extents
                               side by side */
    uint64_t session_bytes; /* of the session's memory, without places */
    uint32_t spin_us;
    uint32_t incarnation;
    char pool[LIMIT_POOL_NAME_BYTES + 1];
    char sentence[192]; /* why it was refused, with a remedy */
};

_Static_assert(sizeof(struct session_welcome) <= LIMIT_SESSION_MESSAGE_BYTES,
               "a message is bounded");

struct session_extent {
    struct session_message_header header;
    uint32_t extent;
    uint32_t writable;
};

struct session_grant {
    struct session_message_header header;
    int32_t status;
    uint32_t extent;
};

/* BULK_ASK, where `status` is 0, and BULK: memory by number (SESSION_OP_BULK_MAKE); MAP_ASK and
 * MAP, SPACE_ASK and SPACE_FILE likewise. */
struct session_bulk_file {
    struct session_message_header header;
    int32_t status;
    uint32_t reserved;
    uint64_t number;
};

_Static_assert(sizeof(struct session_bulk_file) == 24, "it is on the wire");

/* DONATE, where `status` is 0: so many bytes of a memory file, which comes with it; DONATED: the
 * number by which a region is made of it, `serial` as it was said. DONATE_DROP: the number alone.
 */
struct session_donation {
    struct session_message_header header;
    int32_t status;
    uint32_t serial;
    uint64_t bytes;  /* DONATED, DONATE_DROP: 0 */
    uint64_t number; /* DONATE: 0 */
};

_Static_assert(sizeof(struct session_donation) == 32, "it is on the wire");

/* PAIR_ASK: the service, and the node that served it; PAIR_DROP: place and serial. */
struct session_pair_ask {
    struct session_message_header header;
    uint64_t hash;
    uint32_t rank;
    uint32_t place;
    uint32_t serial;
    uint32_t reserved;
};

_Static_assert(sizeof(struct session_pair_ask) == 32, "a question for a pair is on the wire");

#define SESSION_PAIR_SERVES 1u /* bit of session_pair.flags: the reader of the requests */

/* Its descriptors: the pair's memory (writable), and this side's end of the bell (a socket). */
struct session_pair {
    struct session_message_header header;
    int32_t status;
    uint32_t flags;
    uint64_t hash;
    uint32_t place;  /* in this session: of its word in session_front.pair_ended */
    uint32_t serial; /* never 0, nor used again by this node */
    uint32_t uid;    /* of the other process */
    uint32_t rank;   /* of this node */
};

_Static_assert(sizeof(struct session_pair) == 40, "a pair is on the wire");

#endif
