/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What there is to know of a region: its name, birth, version, size, rights, and where its chunks
 * are; and that as bytes, which are read strictly: there is one way to write each descriptor, and
 * nothing else is read.
 *
 * A descriptor is as long as it has room for chunks; its memory is its owner's. Pure; any thread.
 */
#ifndef REGION_DESCRIPTOR_H
#define REGION_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"
#include "region/geometry.h"

#define REGION_CHUNK_WORDS (LIMIT_REGION_CHUNKS / 64)
#define REGION_NOBODY      UINT32_MAX /* the node of a chunk that is lost */
#define REGION_ROOT        0u         /* the uid that may everything */
#define REGION_NO_USER     UINT32_MAX /* (uid_t)-1, which no user has */

/* Of the same region later ones are greater, whichever home made them. All zero: none. */
struct region_version {
    uint64_t epoch;       /* of the view in which the home began */
    uint64_t incarnation; /* of the home's node */
    uint64_t counter;     /* of that home's changes; not 0 in a version */
};

/* What somebody may. */
#define REGION_READ   1u
#define REGION_WRITE  2u
#define REGION_MASTER 4u /* change it */
#define REGION_ALL    7u

#define REGION_FREED    1u /* it is over; it has no chunks */
#define REGION_MAPPABLE 2u /* clients of a chunk's node may map it */
#define REGION_DONATED  4u /* its memory is its maker's: it has one chunk, which stays */
#define REGION_FLAGS    7u

struct region_grant {
    uint32_t uid;
    uint32_t rights;
};

/* A set of chunks. */
struct region_chunks {
    uint64_t words[REGION_CHUNK_WORDS];
};

/* The handle of a chunk, which an operation presents at its holder: where the chunk is, and the key
 * that opens it (fabric.h). All zero: none. */
struct region_window {
    uint64_t address;
    uint32_t key;
};

#define REGION_NO_WINDOW ((struct region_window){0})

/* Which life of its node made it says whose handle it is, and tells it from one that went with an
 * earlier life: nothing of a chunk outlives the process that has it. */
struct region_chunk {
    uint32_t node;               /* its holder, or REGION_NOBODY */
    uint32_t incarnation;        /* of the holder that made it; 0: it is lost, or not made yet */
    struct region_window handle; /* none: operations may use none */
};

struct region_descriptor {
    struct region_version version; /* none: there is no region */
    struct region_version birth;
    struct region_geometry geometry;
    uint32_t uid, gid; /* the owner, who may all */
    uint8_t group_rights, other_rights;
    uint8_t flags;
    uint8_t name_bytes;
    char name[LIMIT_REGION_NAME_BYTES]; /* zeros behind its end */
    uint32_t grant_count;
    struct region_grant grants[LIMIT_REGION_GRANTS]; /* ascending uids */
    uint32_t chunk_count;
    struct region_chunk chunks[];
};

/* ---- versions, handles, sets ---------------------------------------------- */

/* Below, equal to or above 0, as the first is less, equal or greater. */
int region_version_compare(const struct region_version *a, const struct region_version *b);

static inline bool region_version_equal(const struct region_version *a,
                                        const struct region_version *b)
{
    return region_version_compare(a, b) == 0;
}

static inline bool region_version_is_none(const struct region_version *version)
{
    return version->counter == 0;
}

static inline bool region_window_equal(struct region_window a, struct region_window b)
{
    return a.address == b.address && a.key == b.key;
}

static inline bool region_window_is_none(struct region_window handle)
{
    return handle.address == 0 && handle.key == 0;
}

static inline bool region_chunks_has(const struct region_chunks *chunks, uint32_t chunk)
{
    return (chunks->words[chunk / 64] >> chunk % 64 & 1) != 0;
}

static inline void region_chunks_add(struct region_chunks *chunks, uint32_t chunk)
{
    chunks->words[chunk / 64] |= UINT64_C(1) << chunk % 64;
}

static inline void region_chunks_remove(struct region_chunks *chunks, uint32_t chunk)
{
    chunks->words[chunk / 64] &= ~(UINT64_C(1) << chunk % 64);
}

static inline bool region_chunks_is_empty(const struct region_chunks *chunks)
{
    uint64_t any = 0;

    for (uint32_t n = 0; n < REGION_CHUNK_WORDS; n++) {
        any |= chunks->words[n];
    }
    return any == 0;
}

/* ---- a descriptor --------------------------------------------------------- */

/* Of memory for one with room for so many chunks. */
static inline size_t region_descriptor_bytes(uint32_t room)
{
    return sizeof(struct region_descriptor) + room * sizeof(struct region_chunk);
}

/* The other has room for as many chunks. */
void region_descriptor_copy(struct region_descriptor *to, const struct region_descriptor *from);

/* Makes it none: no region. */
void region_descriptor_clear(struct region_descriptor *descriptor);

static inline bool region_descriptor_is_none(const struct region_descriptor *descriptor)
{
    return region_version_is_none(&descriptor->version);
}

static inline bool region_descriptor_is_freed(const struct region_descriptor *descriptor)
{
    return (descriptor->flags & REGION_FREED) != 0;
}

/* What a user may, with one group: as itself, as one of the group, or of all others. Root may all:
 * whoever runs a node must be able to see, and free, what lies there. */
uint32_t region_descriptor_rights(const struct region_descriptor *descriptor, uint32_t uid,
                                  uint32_t gid);

/*
 * Gives a user rights of its own, and takes some of those; it may what its group, or all others,
 * may besides. Who has none left takes no room. NIGH_INVALID: the owner's, or of REGION_NO_USER, or
 * there are no such rights; NIGH_LIMIT: no room for one more user.
 */
nigh_status region_descriptor_grant(struct region_descriptor *descriptor, uint32_t uid,
                                    uint32_t give, uint32_t take);

/* The rights that a user has of its own; of the owner all. */
uint32_t region_descriptor_own_rights(const struct region_descriptor *descriptor, uint32_t uid);

/* Whether a chunk is at a node. */
static inline bool region_descriptor_is_at(const struct region_descriptor *descriptor,
                                           uint32_t chunk, uint32_t node)
{
    return chunk < descriptor->chunk_count && descriptor->chunks[chunk].node == node;
}

/* Nobody has it any more. */
void region_chunk_lose(struct region_chunk *chunk);

/* Whether a node has any. */
bool region_descriptor_names(const struct region_descriptor *descriptor, uint32_t node);

/*
 * What each that is one, and not none, is: names, rights and flags that there are, grants in order
 * and of something,
 * as many chunks as its geometry says (none, if it is freed), each lost, or of an incarnation of a
 * node that can be.
 */
bool region_descriptor_is_valid(const struct region_descriptor *descriptor);

/* ---- as bytes ------------------------------------------------------------- */

#define REGION_HEAD_BYTES  88u /* before the name */
#define REGION_GRANT_BYTES 8u
#define REGION_CHUNK_BYTES 20u
#define REGION_WIRE_BYTES                                                                     \
    (REGION_HEAD_BYTES + LIMIT_REGION_NAME_BYTES + LIMIT_REGION_GRANTS * REGION_GRANT_BYTES + \
     LIMIT_REGION_CHUNKS * REGION_CHUNK_BYTES)

_Static_assert(REGION_WIRE_BYTES <= LIMIT_CALL_BYTES, "a descriptor fits one call");

/* Of one that is valid: how many bytes were written, REGION_WIRE_BYTES at most. */
size_t region_descriptor_encode(const struct region_descriptor *descriptor, uint8_t *out);

/* What is read is valid. NIGH_PROTOCOL: it is not what encoding makes; NIGH_LIMIT: it
 * has more chunks than `room`. The descriptor is none then. */
nigh_status region_descriptor_decode(const uint8_t *bytes, size_t size_bytes, uint32_t room,
                                     struct region_descriptor *descriptor);

#endif
