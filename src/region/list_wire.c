/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See list_wire.h. An ask: epoch, uid, gid, and the name behind which. An answer: a head (how many
 * regions, whether there is more, and the name up to which it tells of all), then of each region a
 * head, its grants, its chunks' nodes and its name.
 */
#include "region/list_wire.h"

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"

#define HEAD_BYTES  4u
#define ENTRY_BYTES 32u /* before the grants */
#define NODE_BYTES  2u
#define NODE_LOST   UINT16_MAX

/* Of the head. */
enum {
    AT_COUNT = 0,
    AT_MORE = 2,
    AT_THROUGH = 3, /* its length; it stands behind all regions */
};

/* Of a region. */
enum {
    AT_NAME = 0, /* its length */
    AT_GROUP = 1,
    AT_OTHER = 2,
    AT_RIGHTS = 3,
    AT_GRANTS = 4, /* their number */
    AT_FLAGS = 5,
    AT_ZERO = 6, /* 2 bytes */
    AT_SIZE = 8,
    AT_CHUNK_BYTES = 16,
    AT_UID = 24,
    AT_GID = 28,
};

#define FLAG_MAPPABLE 1u
#define FLAG_DONATED  2u
#define FLAGS         3u

_Static_assert(AT_GID + 4 == ENTRY_BYTES, "the head has no gaps");
_Static_assert(LIMIT_NODES <= NODE_LOST && REGION_LIST_BYTES <= UINT16_MAX, "the numbers fit");
_Static_assert(HEAD_BYTES + LIMIT_REGION_NAME_BYTES + ENTRY_BYTES +
                       LIMIT_REGION_GRANTS * REGION_GRANT_BYTES + LIMIT_REGION_CHUNKS * NODE_BYTES +
                       LIMIT_REGION_NAME_BYTES <=
                   REGION_LIST_BYTES,
               "each region has room in an answer");

int region_name_compare(const char *a, uint32_t a_bytes, const char *b, uint32_t b_bytes)
{
    int order = memcmp(a, b, min_u32(a_bytes, b_bytes));

    return order != 0 ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

/* ---- asks ----------------------------------------------------------------- */

size_t region_list_ask_encode(const struct region_list_ask *ask, uint8_t *out)
{
    bytes_put_u64(out, ask->epoch);
    bytes_put_u32(out + 8, ask->uid);
    bytes_put_u32(out + 12, ask->gid);
    memcpy(out + 16, ask->after, ask->after_bytes);
    return 16u + ask->after_bytes;
}

nigh_status region_list_ask_decode(const uint8_t *bytes, size_t size_bytes,
                                   struct region_list_ask *ask)
{
    if (size_bytes < 16 || size_bytes > REGION_LIST_ASK_BYTES ||
        memchr(bytes + 16, 0, size_bytes - 16) != NULL) {
        return NIGH_PROTOCOL;
    }
    *ask = (struct region_list_ask){.epoch = bytes_get_u64(bytes),
                                    .uid = bytes_get_u32(bytes + 8),
                                    .gid = bytes_get_u32(bytes + 12),
                                    .after_bytes = (uint8_t)(size_bytes - 16)};
    memcpy(ask->after, bytes + 16, ask->after_bytes);
    return NIGH_OK;
}

/* ---- written -------------------------------------------------------------- */

void region_list_begin(struct region_list_writer *to, uint8_t *bytes)
{
    *to = (struct region_list_writer){.bytes = bytes, .used = HEAD_BYTES};
}

static uint32_t entry_bytes(uint32_t name_bytes, uint32_t grants, uint32_t chunks)
{
    return ENTRY_BYTES + grants * REGION_GRANT_BYTES + chunks * NODE_BYTES + name_bytes;
}

static void put_lists(uint8_t *at, const struct region_descriptor *descriptor)
{
    for (uint32_t n = 0; n < descriptor->grant_count; n++, at += REGION_GRANT_BYTES) {
        bytes_put_u32(at, descriptor->grants[n].uid);
        bytes_put_u32(at + 4, descriptor->grants[n].rights);
    }
    for (uint32_t n = 0; n < descriptor->chunk_count; n++, at += NODE_BYTES) {
        uint32_t node = descriptor->chunks[n].node;

        bytes_put_u16(at, node == REGION_NOBODY ? NODE_LOST : (uint16_t)node);
    }
    memcpy(at, descriptor->name, descriptor->name_bytes);
}

bool region_list_put(struct region_list_writer *to, const struct region_descriptor *descriptor,
                     uint32_t rights)
{
    uint32_t bytes =
        entry_bytes(descriptor->name_bytes, descriptor->grant_count, descriptor->chunk_count);
    uint8_t *at = to->bytes + to->used;

    /* The name that ends the answer has room, too. */
    if (bytes > REGION_LIST_BYTES - LIMIT_REGION_NAME_BYTES - to->used) {
        return false;
    }
    memset(at, 0, ENTRY_BYTES);
    at[AT_NAME] = descriptor->name_bytes;
    at[AT_GROUP] = descriptor->group_rights;
    at[AT_OTHER] = descriptor->other_rights;
    at[AT_RIGHTS] = (uint8_t)rights;
    at[AT_GRANTS] = (uint8_t)descriptor->grant_count;
    at[AT_FLAGS] = ((descriptor->flags & REGION_MAPPABLE) != 0 ? FLAG_MAPPABLE : 0) |
                   ((descriptor->flags & REGION_DONATED) != 0 ? FLAG_DONATED : 0);
    bytes_put_u64(at + AT_SIZE, descriptor->geometry.size_bytes);
    bytes_put_u64(at + AT_CHUNK_BYTES, descriptor->geometry.chunk_bytes);
    bytes_put_u32(at + AT_UID, descriptor->uid);
    bytes_put_u32(at + AT_GID, descriptor->gid);
    put_lists(at + ENTRY_BYTES, descriptor);
    to->used += bytes;
    to->count++;
    return true;
}

uint32_t region_list_end(struct region_list_writer *to, const char *through, uint32_t through_bytes)
{
    NIGH_ASSERT(through_bytes <= LIMIT_REGION_NAME_BYTES);
    bytes_put_u16(to->bytes + AT_COUNT, (uint16_t)to->count);
    to->bytes[AT_MORE] = through != NULL;
    to->bytes[AT_THROUGH] = (uint8_t)through_bytes;
    if (through != NULL) {
        memcpy(to->bytes + to->used, through, through_bytes);
        to->used += through_bytes;
    }
    return to->used;
}

/* ---- read ----------------------------------------------------------------- */

nigh_status region_list_open(struct region_list_reader *from, const uint8_t *bytes,
                             uint32_t size_bytes, const char *after, uint32_t after_bytes)
{
    uint32_t through_bytes;

    if (size_bytes < HEAD_BYTES || size_bytes > REGION_LIST_BYTES || bytes[AT_MORE] > 1 ||
        (bytes[AT_MORE] != 0) != (bytes[AT_THROUGH] != 0)) {
        return NIGH_PROTOCOL;
    }
    through_bytes = bytes[AT_THROUGH];
    if (through_bytes > LIMIT_REGION_NAME_BYTES || through_bytes > size_bytes - HEAD_BYTES) {
        return NIGH_PROTOCOL;
    }
    *from = (struct region_list_reader){.bytes = bytes,
                                        .size_bytes = size_bytes - through_bytes,
                                        .at = HEAD_BYTES,
                                        .left = bytes_get_u16(bytes + AT_COUNT),
                                        .has_more = through_bytes != 0,
                                        .through_bytes = through_bytes,
                                        .last_bytes = after_bytes,
                                        .last = after};
    from->through = (const char *)bytes + from->size_bytes;
    if (from->has_more &&
        (memchr(from->through, 0, through_bytes) != NULL ||
         region_name_compare(from->through, through_bytes, after, after_bytes) <= 0)) {
        return NIGH_PROTOCOL;
    }
    return NIGH_OK;
}

/* The head of one, as far as it goes by itself. */
static nigh_status get_head(const uint8_t *at, struct region_listed *listed)
{
    static const uint8_t zeros[2];

    *listed = (struct region_listed){
        .geometry = {.size_bytes = bytes_get_u64(at + AT_SIZE),
                     .chunk_bytes = bytes_get_u64(at + AT_CHUNK_BYTES)},
        .uid = bytes_get_u32(at + AT_UID),
        .gid = bytes_get_u32(at + AT_GID),
        .rights = at[AT_RIGHTS],
        .group_rights = at[AT_GROUP],
        .other_rights = at[AT_OTHER],
        .grant_count = at[AT_GRANTS],
        .is_mappable = (at[AT_FLAGS] & FLAG_MAPPABLE) != 0,
        .is_donated = (at[AT_FLAGS] & FLAG_DONATED) != 0,
        .name_bytes = at[AT_NAME],
    };
    if (memcmp(at + AT_ZERO, zeros, sizeof(zeros)) != 0 || (at[AT_FLAGS] & ~FLAGS) != 0 ||
        listed->name_bytes == 0 || listed->name_bytes > LIMIT_REGION_NAME_BYTES ||
        listed->grant_count > LIMIT_REGION_GRANTS || listed->rights == 0 ||
        ((listed->rights | listed->group_rights | listed->other_rights) & ~REGION_ALL) != 0 ||
        region_geometry_check(&listed->geometry) != NIGH_OK) {
        return NIGH_PROTOCOL;
    }
    listed->chunk_count = region_geometry_chunks(&listed->geometry);
    return NIGH_OK;
}

static nigh_status get_grants(const uint8_t *at, struct region_listed *listed)
{
    for (uint32_t n = 0; n < listed->grant_count; n++, at += REGION_GRANT_BYTES) {
        struct region_grant *grant = &listed->grants[n];

        *grant = (struct region_grant){.uid = bytes_get_u32(at), .rights = bytes_get_u32(at + 4)};
        if (grant->rights == 0 || (grant->rights & ~REGION_ALL) != 0 || grant->uid == listed->uid ||
            (n > 0 && grant->uid <= grant[-1].uid)) {
            return NIGH_PROTOCOL;
        }
    }
    return NIGH_OK;
}

static nigh_status get_nodes(const uint8_t *at, struct region_listed *listed)
{
    for (uint32_t n = 0; n < listed->chunk_count; n++, at += NODE_BYTES) {
        uint32_t node = bytes_get_u16(at);

        if (node >= LIMIT_NODES && node != NODE_LOST) {
            return NIGH_PROTOCOL;
        }
        listed->nodes[n] = node == NODE_LOST ? REGION_NOBODY : node;
    }
    return NIGH_OK;
}

nigh_status region_list_next(struct region_list_reader *from, struct region_listed *listed)
{
    const uint8_t *at = from->bytes + from->at;
    uint32_t left_bytes = from->size_bytes - from->at, bytes;
    const char *name;

    if (from->left == 0) {
        return left_bytes == 0 ? NIGH_NOT_FOUND : NIGH_PROTOCOL;
    }
    if (left_bytes < ENTRY_BYTES || get_head(at, listed) != NIGH_OK) {
        return NIGH_PROTOCOL;
    }
    bytes = entry_bytes(listed->name_bytes, listed->grant_count, listed->chunk_count);
    if (left_bytes < bytes) {
        return NIGH_PROTOCOL;
    }
    name = (const char *)at + bytes - listed->name_bytes;
    if (get_grants(at + ENTRY_BYTES, listed) != NIGH_OK ||
        get_nodes(at + ENTRY_BYTES + listed->grant_count * REGION_GRANT_BYTES, listed) != NIGH_OK ||
        memchr(name, 0, listed->name_bytes) != NULL ||
        region_name_compare(name, listed->name_bytes, from->last, from->last_bytes) <= 0 ||
        (from->has_more &&
         region_name_compare(name, listed->name_bytes, from->through, from->through_bytes) > 0)) {
        return NIGH_PROTOCOL;
    }
    memcpy(listed->name, name, listed->name_bytes);
    from->last = name;
    from->last_bytes = listed->name_bytes;
    from->at += bytes;
    from->left--;
    return NIGH_OK;
}
