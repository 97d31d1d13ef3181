/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to know of spaces: one by its name, or a page of them at a time. */
#include <string.h>

#include "client/error.h"
#include "client/space.h"

static void tell(const struct session_space_stat *said, size_t struct_size, nigh_space_info *info)
{
    nigh_space_info all = {
        .struct_size = struct_size,
        .id = said->id,
        .birth = said->birth,
        .home_size = said->home_bytes,
        .cache_size = said->cache_bytes,
        .used_size = said->used_bytes,
        .ranks = said->seats,
        .rank = said->seat,
        .block_size = said->block_bytes,
        .uid = said->uid,
        .gid = said->gid,
        .group_access = said->group_rights,
        .other_access = said->other_rights,
        .access = said->rights,
        .durability = (nigh_space_durability)said->durability,
    };

    _Static_assert(sizeof(all.name) == sizeof(said->name), "a name has one length");
    memcpy(all.name, said->name, sizeof(all.name));
    all.name[sizeof(all.name) - 1] = '\0';
    client_copy_out(info, struct_size, &all, sizeof(all));
}

static nigh_status check_info(nigh_client *client, const nigh_space_info *info, const char *call)
{
    if (info->struct_size % _Alignof(nigh_space_info) != 0 ||
        !client_knows_size(info->struct_size, sizeof(*info), sizeof(*info))) {
        return error_set(client, NIGH_INVALID, "%s: set struct_size to sizeof(nigh_space_info)",
                         call);
    }
    return NIGH_OK;
}

nigh_status nigh_space_stat(nigh_client *client, const char *name, uint64_t timeout_us,
                            nigh_space_info *info)
{
    nigh_status status = space_check_name(client, name, info, true, "nigh_space_stat");
    struct session_space_stat said;
    struct client_op op;

    if (status == NIGH_OK) {
        status = check_info(client, info, "nigh_space_stat");
    }
    if (status != NIGH_OK) {
        return status;
    }
    space_init(&op, client, SESSION_SPACE_STAT, timeout_us);
    op.u.place.bytes = name;
    op.u.place.count = space_name_bytes(name);
    op.u.space.answer = &said;
    op.u.space.answer_bytes = sizeof(said);
    status = space_run(&op);
    if (status == NIGH_OK) {
        tell(&said, info->struct_size, info);
    }
    return status;
}

static nigh_status check_counts(nigh_client *client, const nigh_space_counts *counts)
{
    return client_knows_size(counts->struct_size, sizeof(*counts), sizeof(*counts))
               ? NIGH_OK
               : error_set(client, NIGH_INVALID,
                           "nigh_space_count: set struct_size to sizeof(nigh_space_counts)");
}

nigh_status nigh_space_count(nigh_client *client, const char *name, uint64_t timeout_us,
                             nigh_space_counts *counts)
{
    nigh_status status = space_check_name(client, name, counts, true, "nigh_space_count");
    struct session_space_counts said;
    nigh_space_counts all;
    struct client_op op;

    if (status == NIGH_OK) {
        status = check_counts(client, counts);
    }
    if (status != NIGH_OK) {
        return status;
    }
    space_init(&op, client, SESSION_SPACE_COUNT, timeout_us);
    op.u.place.bytes = name;
    op.u.place.count = space_name_bytes(name);
    op.u.space.answer = &said;
    op.u.space.answer_bytes = sizeof(said);
    status = space_run(&op);
    if (status == NIGH_OK) {
        all = (nigh_space_counts){.struct_size = counts->struct_size,
                                  .reads = said.reads,
                                  .hits = said.hits,
                                  .locks = said.locks,
                                  .kept = said.kept,
                                  .writes = said.writes,
                                  .atomics = said.atomics,
                                  .asks = said.asks,
                                  .invalidations = said.invalidations,
                                  .evictions = said.evictions,
                                  .messages = said.messages,
                                  .block_bytes = said.block_bytes};
        client_copy_out(counts, counts->struct_size, &all, sizeof(all));
    }
    return status;
}

/* Where the n-th is, in an array of the caller's, whose infos may be longer than ours. */
static nigh_space_info *info_at(nigh_space_info *infos, size_t struct_size, size_t n)
{
    return (nigh_space_info *)(void *)((uint8_t *)infos + n * struct_size);
}

static nigh_status check_list(nigh_client *client, const char *after, const nigh_space_info *infos,
                              size_t capacity, const size_t *count, const uint32_t *more)
{
    nigh_status status = space_check_looks(client, "nigh_space_list");

    if (status != NIGH_OK) {
        return status;
    }
    if (infos == NULL || capacity == 0 || count == NULL || more == NULL) {
        return error_set(client, NIGH_INVALID, "nigh_space_list: no room for %s",
                         infos == NULL || capacity == 0 ? "a space"
                         : count == NULL                ? "their count"
                                                        : "whether there are more");
    }
    if (after != NULL && strnlen(after, LIMIT_SPACE_NAME_BYTES + 1) > LIMIT_SPACE_NAME_BYTES) {
        return error_set(client, NIGH_INVALID,
                         "nigh_space_list: `after` is longer than a space's name, %d bytes",
                         LIMIT_SPACE_NAME_BYTES);
    }
    return check_info(client, infos, "nigh_space_list");
}

nigh_status nigh_space_list(nigh_client *client, const char *after, nigh_space_info *infos,
                            size_t capacity, uint64_t timeout_us, size_t *count, uint32_t *more)
{
    nigh_status status = check_list(client, after, infos, capacity, count, more);
    struct session_space_page page;
    struct client_op op;
    size_t struct_size, told;

    if (status != NIGH_OK) {
        return status;
    }
    struct_size = infos->struct_size;
    space_init(&op, client, SESSION_SPACE_LIST, timeout_us);
    op.u.place.bytes = after;
    op.u.place.count = after == NULL ? 0 : (uint32_t)strlen(after);
    op.u.space.answer = &page;
    op.u.space.answer_bytes = sizeof(page);
    status = space_run(&op);
    if (status != NIGH_OK) {
        return status;
    }
    if (page.count > SESSION_SPACE_PAGE) {
        return error_note(client, NIGH_PROTOCOL);
    }
    told = min_size(page.count, capacity);
    for (size_t n = 0; n < told; n++) {
        tell(&page.spaces[n], struct_size, info_at(infos, struct_size, n));
    }
    *count = told;
    *more = told < page.count || page.more != 0 ? 1 : 0;
    return NIGH_OK;
}
