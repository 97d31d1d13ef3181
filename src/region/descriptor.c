/* SPDX-License-Identifier: Apache-2.0 */
/* See descriptor.h; its bytes are in descriptor_wire.c. */
#include "region/descriptor.h"

#include <string.h>

#include "base/check.h"

_Static_assert(LIMIT_REGION_CHUNKS % 64 == 0, "a set is whole words");

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

int region_version_compare(const struct region_version *a, const struct region_version *b)
{
    int order = compare_u64(a->epoch, b->epoch);

    if (order == 0) {
        order = compare_u64(a->incarnation, b->incarnation);
    }
    return order != 0 ? order : compare_u64(a->counter, b->counter);
}

void region_descriptor_copy(struct region_descriptor *to, const struct region_descriptor *from)
{
    if (to != from) {
        memcpy(to, from, region_descriptor_bytes(from->chunk_count));
    }
}

void region_descriptor_clear(struct region_descriptor *descriptor)
{
    memset(descriptor, 0, region_descriptor_bytes(0));
}

/* Where a user's grant is, or would be. */
static uint32_t find_grant(const struct region_descriptor *descriptor, uint32_t uid)
{
    uint32_t at = 0;

    while (at < descriptor->grant_count && descriptor->grants[at].uid < uid) {
        at++;
    }
    return at;
}

uint32_t region_descriptor_own_rights(const struct region_descriptor *descriptor, uint32_t uid)
{
    uint32_t at = find_grant(descriptor, uid);

    if (uid == descriptor->uid) {
        return REGION_ALL;
    }
    return at < descriptor->grant_count && descriptor->grants[at].uid == uid
               ? descriptor->grants[at].rights
               : 0;
}

uint32_t region_descriptor_rights(const struct region_descriptor *descriptor, uint32_t uid,
                                  uint32_t gid)
{
    if (uid == REGION_ROOT)
        return REGION_ALL;
    return region_descriptor_own_rights(descriptor, uid) |
           (gid == descriptor->gid ? descriptor->group_rights : descriptor->other_rights);
}

nigh_status region_descriptor_grant(struct region_descriptor *descriptor, uint32_t uid,
                                    uint32_t give, uint32_t take)
{
    uint32_t at = find_grant(descriptor, uid), behind = descriptor->grant_count - at;
    uint32_t before = region_descriptor_own_rights(descriptor, uid);
    uint32_t after = (before | give) & ~take;
    struct region_grant *grant = &descriptor->grants[at];

    if (uid == descriptor->uid || uid == REGION_NO_USER || ((give | take) & ~REGION_ALL) != 0) {
        return NIGH_INVALID;
    }
    if (before == 0 && after != 0) {
        if (descriptor->grant_count == LIMIT_REGION_GRANTS) {
            return NIGH_LIMIT;
        }
        memmove(grant + 1, grant, behind * sizeof(*grant));
        descriptor->grant_count++;
    }
    if (after != 0) {
        *grant = (struct region_grant){.uid = uid, .rights = after};
    } else if (before != 0) {
        memmove(grant, grant + 1, (behind - 1) * sizeof(*grant));
        descriptor->grant_count--;
    }
    return NIGH_OK;
}

bool region_descriptor_names(const struct region_descriptor *descriptor, uint32_t node)
{
    for (uint32_t n = 0; n < descriptor->chunk_count; n++) {
        if (descriptor->chunks[n].node == node) {
            return true;
        }
    }
    return false;
}

static bool is_name_valid(const struct region_descriptor *descriptor)
{
    if (descriptor->name_bytes == 0 || descriptor->name_bytes > LIMIT_REGION_NAME_BYTES) {
        return false;
    }
    for (uint32_t n = 0; n < LIMIT_REGION_NAME_BYTES; n++) {
        if ((descriptor->name[n] != 0) != (n < descriptor->name_bytes)) {
            return false;
        }
    }
    return true;
}

static bool are_rights_valid(const struct region_descriptor *descriptor)
{
    if (((descriptor->group_rights | descriptor->other_rights) & ~REGION_ALL) != 0 ||
        (descriptor->flags & ~REGION_FLAGS) != 0 ||
        (descriptor->flags & (REGION_MAPPABLE | REGION_DONATED)) ==
            (REGION_MAPPABLE | REGION_DONATED) ||
        descriptor->grant_count > LIMIT_REGION_GRANTS) {
        return false;
    }
    for (uint32_t n = 0; n < descriptor->grant_count; n++) {
        const struct region_grant *grant = &descriptor->grants[n];

        if (grant->rights == 0 || (grant->rights & ~REGION_ALL) != 0 ||
            grant->uid == descriptor->uid || (n > 0 && grant[-1].uid >= grant->uid)) {
            return false;
        }
    }
    return true;
}

static bool is_chunk_valid(const struct region_chunk *chunk)
{
    if (chunk->node == REGION_NOBODY) {
        return chunk->incarnation == 0 && region_window_is_none(chunk->handle);
    }
    return chunk->node < LIMIT_NODES && chunk->incarnation != 0;
}

void region_chunk_lose(struct region_chunk *chunk)
{
    *chunk = (struct region_chunk){.node = REGION_NOBODY};
}

bool region_descriptor_is_valid(const struct region_descriptor *descriptor)
{
    bool is_freed = region_descriptor_is_freed(descriptor);

    if (region_version_is_none(&descriptor->version) ||
        region_version_is_none(&descriptor->birth) ||
        region_version_compare(&descriptor->birth, &descriptor->version) > 0 ||
        region_geometry_check(&descriptor->geometry) != NIGH_OK || !is_name_valid(descriptor) ||
        ((descriptor->flags & REGION_DONATED) != 0 &&
         region_geometry_chunks(&descriptor->geometry) != 1) ||
        !are_rights_valid(descriptor) ||
        descriptor->chunk_count != (is_freed ? 0 : region_geometry_chunks(&descriptor->geometry))) {
        return false;
    }
    for (uint32_t n = 0; n < descriptor->chunk_count; n++) {
        if (!is_chunk_valid(&descriptor->chunks[n])) {
            return false;
        }
    }
    return true;
}
