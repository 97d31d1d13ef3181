/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a member is asked when regions are listed, and what it answers, as bytes: little-endian,
 * without gaps, read strictly, one way to write each. An answer is a part, in the order of names,
 * of the regions whose home it is and that somebody may see.
 *
 * Names are in the order of their bytes; one that another begins with comes before that. Handles of
 * chunks are not told. Pure; any thread.
 */
#ifndef REGION_LIST_WIRE_H
#define REGION_LIST_WIRE_H

#include "region/descriptor.h"

#define REGION_LIST_ASK_BYTES (16u + LIMIT_REGION_NAME_BYTES)

/* Of one answer. */
#define REGION_LIST_BYTES LIMIT_CALL_BYTES

struct region_list_ask {
    uint64_t epoch; /* of the view that the asker goes by */
    uint32_t uid, gid;
    uint8_t after_bytes; /* 0: from the first one on */
    char after[LIMIT_REGION_NAME_BYTES];
};

/* Below, equal to or above 0, as the first is before, equal to or behind the other. */
int region_name_compare(const char *a, uint32_t a_bytes, const char *b, uint32_t b_bytes);

/* How many bytes, at most REGION_LIST_ASK_BYTES. */
size_t region_list_ask_encode(const struct region_list_ask *ask, uint8_t *out);
/* NIGH_PROTOCOL: it is none. */
nigh_status region_list_ask_decode(const uint8_t *bytes, size_t size_bytes,
                                   struct region_list_ask *ask);

/* ---- answers, written ----------------------------------------------------- */

struct region_list_writer {
    uint8_t *bytes; /* REGION_LIST_BYTES */
    uint32_t used, count;
};

void region_list_begin(struct region_list_writer *to, uint8_t *bytes);

/* A region, behind those before, of which who asks has these rights, not none. False: it has no
 * room, and the answer is as it was. */
bool region_list_put(struct region_list_writer *to, const struct region_descriptor *descriptor,
                     uint32_t rights);

/* All up to this name, which need not be told of, was looked at, and there may be more; NULL: there
 * is none. How many bytes the answer has. */
uint32_t region_list_end(struct region_list_writer *to, const char *through,
                         uint32_t through_bytes);

/* ---- answers, read -------------------------------------------------------- */

/* What is told of a region. */
struct region_listed {
    struct region_geometry geometry;
    uint32_t uid, gid;
    uint32_t rights; /* of who asks */
    uint32_t group_rights, other_rights;
    uint32_t chunk_count, grant_count;
    uint32_t name_bytes;
    bool is_mappable, is_donated;
    char name[LIMIT_REGION_NAME_BYTES];
    struct region_grant grants[LIMIT_REGION_GRANTS];
    uint32_t nodes[LIMIT_REGION_CHUNKS]; /* REGION_NOBODY: it is lost */
};

struct region_list_reader {
    const uint8_t *bytes;
    uint32_t size_bytes, at, left; /* entries */
    bool has_more;
    uint32_t through_bytes; /* has_more: up to where it tells of all */
    const char *through;
    uint32_t last_bytes; /* the name before */
    const char *last;
};

/* An answer to who asked for names behind `after`. NIGH_PROTOCOL: it is none. */
nigh_status region_list_open(struct region_list_reader *from, const uint8_t *bytes,
                             uint32_t size_bytes, const char *after, uint32_t after_bytes);

/* The next one. NIGH_NOT_FOUND: there is none; NIGH_PROTOCOL: it is nonsense, and so is the rest.
 */
nigh_status region_list_next(struct region_list_reader *from, struct region_listed *listed);

#endif
