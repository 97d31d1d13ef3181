/* SPDX-License-Identifier: Apache-2.0 */
/* See ask_wire.h: a head, the name, the nodes. What does not come out again as it went in is not
 * read. */
#include "region/ask_wire.h"

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"

/* Of the head. */
enum {
    AT_KIND = 0,
    AT_WHOSE = 1,
    AT_NAME = 2, /* its length */
    AT_GROUP = 3,
    AT_OTHER = 4,
    AT_NODES = 5, /* their number */
    AT_GIVE = 6,
    AT_TAKE = 7,
    AT_UID = 8,
    AT_GID = 12,
    AT_USER = 16,
    AT_CHUNK = 20,
    AT_NODE = 24,
    AT_FLAGS = 28, /* of CREATE */
    AT_ZERO = 29,  /* 7 bytes */
    AT_BIRTH = 36,
    AT_DONATION = 36, /* of CREATE, which has no birth */
    AT_SIZE = 60,
    AT_CHUNK_BYTES = 68,
};

#define FLAG_MAPPABLE 1u
#define FLAG_DONATED  2u

_Static_assert(AT_CHUNK_BYTES + 8 == REGION_ASK_HEAD_BYTES, "the head has no gaps");
_Static_assert(LIMIT_REGION_CHUNKS <= UINT8_MAX && REGION_ALL <= UINT8_MAX, "the numbers fit");

static bool has_geometry(const struct region_ask *ask)
{
    return ask->kind == REGION_ASK_CREATE || ask->kind == REGION_ASK_RESIZE;
}

size_t region_ask_encode(const struct region_ask *ask, uint8_t *out)
{
    bool is_create = ask->kind == REGION_ASK_CREATE, is_grant = ask->kind == REGION_ASK_GRANT;
    uint32_t nodes = has_geometry(ask) ? ask->node_count : 0;
    uint8_t *at = out + REGION_ASK_HEAD_BYTES;

    NIGH_ASSERT(ask->name_bytes <= LIMIT_REGION_NAME_BYTES && nodes <= LIMIT_REGION_CHUNKS);
    memset(out, 0, REGION_ASK_HEAD_BYTES);
    out[AT_KIND] = (uint8_t)ask->kind;
    out[AT_NAME] = ask->name_bytes;
    out[AT_NODES] = (uint8_t)nodes;
    bytes_put_u32(out + AT_UID, ask->uid);
    bytes_put_u32(out + AT_GID, ask->gid);
    if (is_create) {
        out[AT_GROUP] = ask->group_rights;
        out[AT_OTHER] = ask->other_rights;
        out[AT_FLAGS] = (uint8_t)((ask->is_mappable ? FLAG_MAPPABLE : 0) |
                                  (ask->donation != 0 ? FLAG_DONATED : 0));
        bytes_put_u64(out + AT_DONATION, ask->donation);
    } else {
        bytes_put_u64(out + AT_BIRTH, ask->birth.epoch);
        bytes_put_u64(out + AT_BIRTH + 8, ask->birth.incarnation);
        bytes_put_u64(out + AT_BIRTH + 16, ask->birth.counter);
    }
    if (is_grant) {
        out[AT_WHOSE] = (uint8_t)ask->whose;
        out[AT_GIVE] = (uint8_t)ask->give;
        out[AT_TAKE] = (uint8_t)ask->take;
        bytes_put_u32(out + AT_USER, ask->whose == REGION_OF_USER ? ask->user : 0);
    }
    if (ask->kind == REGION_ASK_MOVE) {
        bytes_put_u32(out + AT_CHUNK, ask->chunk);
        bytes_put_u32(out + AT_NODE, ask->node);
    }
    if (has_geometry(ask)) {
        bytes_put_u64(out + AT_SIZE, ask->geometry.size_bytes);
        bytes_put_u64(out + AT_CHUNK_BYTES, is_create ? ask->geometry.chunk_bytes : 0);
    }
    memcpy(at, ask->name, ask->name_bytes);
    at += ask->name_bytes;
    for (uint32_t n = 0; n < nodes; n++, at += 4) {
        bytes_put_u32(at, ask->nodes[n]);
    }
    return (size_t)(at - out);
}

/* NIGH_OK: so long are its bytes, and what is pointed to has room. */
static nigh_status check_head(const uint8_t *bytes, size_t size_bytes)
{
    if (size_bytes < REGION_ASK_HEAD_BYTES || bytes[AT_KIND] >= REGION_ASKS ||
        bytes[AT_WHOSE] > REGION_OF_OTHERS || bytes[AT_NAME] == 0 ||
        bytes[AT_NAME] > LIMIT_REGION_NAME_BYTES || bytes[AT_NODES] > LIMIT_REGION_CHUNKS ||
        size_bytes != REGION_ASK_HEAD_BYTES + bytes[AT_NAME] + 4u * bytes[AT_NODES]) {
        return NIGH_PROTOCOL;
    }
    return NIGH_OK;
}

static void get(const uint8_t *bytes, struct region_asking *asking)
{
    struct region_ask *ask = &asking->ask;
    const uint8_t *at = bytes + REGION_ASK_HEAD_BYTES;

    memset(asking, 0, sizeof(*asking));
    ask->kind = bytes[AT_KIND];
    ask->whose = bytes[AT_WHOSE];
    ask->name = asking->name;
    ask->name_bytes = bytes[AT_NAME];
    ask->group_rights = bytes[AT_GROUP];
    ask->other_rights = bytes[AT_OTHER];
    ask->is_mappable = (bytes[AT_FLAGS] & FLAG_MAPPABLE) != 0;
    ask->nodes = asking->nodes;
    ask->node_count = bytes[AT_NODES];
    ask->give = bytes[AT_GIVE];
    ask->take = bytes[AT_TAKE];
    ask->uid = bytes_get_u32(bytes + AT_UID);
    ask->gid = bytes_get_u32(bytes + AT_GID);
    ask->user = bytes_get_u32(bytes + AT_USER);
    ask->chunk = bytes_get_u32(bytes + AT_CHUNK);
    ask->node = bytes_get_u32(bytes + AT_NODE);
    if (ask->kind == REGION_ASK_CREATE) {
        ask->donation = bytes_get_u64(bytes + AT_DONATION);
    } else {
        ask->birth = (struct region_version){.epoch = bytes_get_u64(bytes + AT_BIRTH),
                                             .incarnation = bytes_get_u64(bytes + AT_BIRTH + 8),
                                             .counter = bytes_get_u64(bytes + AT_BIRTH + 16)};
    }
    ask->geometry = (struct region_geometry){.size_bytes = bytes_get_u64(bytes + AT_SIZE),
                                             .chunk_bytes = bytes_get_u64(bytes + AT_CHUNK_BYTES)};
    memcpy(asking->name, at, ask->name_bytes);
    at += ask->name_bytes;
    for (uint32_t n = 0; n < ask->node_count; n++, at += 4) {
        asking->nodes[n] = bytes_get_u32(at);
    }
}

nigh_status region_ask_decode(const uint8_t *bytes, size_t size_bytes, struct region_asking *asking)
{
    uint8_t again[REGION_ASK_BYTES];

    if (check_head(bytes, size_bytes) != NIGH_OK) {
        return NIGH_PROTOCOL;
    }
    get(bytes, asking);
    return region_ask_encode(&asking->ask, again) == size_bytes &&
                   memcmp(again, bytes, size_bytes) == 0
               ? NIGH_OK
               : NIGH_PROTOCOL;
}
