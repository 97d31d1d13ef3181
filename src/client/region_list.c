/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of regions: a page at a time, of which each entry is looked at before it is believed: the
 * node's memory is not the caller's. */
#include <stddef.h>
#include <string.h>

#include "client/error.h"
#include "client/places.h"
#include "client/region.h"

/* The least that a caller knows of one. */
#define LIST_INFO_FIRST offsetof(nigh_region_info, flags)

/* Behind an entry's head. */
static size_t tail_bytes(const struct session_region_entry *entry)
{
    return entry->user_count * sizeof(struct session_region_user) +
           entry->chunk_count * sizeof(uint16_t) + entry->name_bytes;
}

/* The head of the entry at a place of a page. */
static bool read_head(const struct session_region_page *page, uint32_t at,
                      struct session_region_entry *entry)
{
    if (page->bytes - at < sizeof(*entry)) {
        return false;
    }
    memcpy(entry, page->entries + at, sizeof(*entry));
    return entry->name_bytes > 0 && entry->name_bytes <= LIMIT_REGION_NAME_BYTES &&
           entry->user_count <= LIMIT_REGION_GRANTS && entry->chunk_count <= LIMIT_REGION_CHUNKS &&
           entry->bytes <= page->bytes - at && entry->bytes >= sizeof(*entry) &&
           entry->bytes - sizeof(*entry) >= tail_bytes(entry);
}

/* Where the n-th is, in an array of the caller's, whose info may be shorter or longer than ours. */
static nigh_region_entry *entry_at(nigh_region_entry *entries, size_t n)
{
    size_t each = offsetof(nigh_region_entry, info) + entries->info.struct_size;

    return (nigh_region_entry *)(void *)((uint8_t *)entries + n * each);
}

static void read_entry(const struct session_region_entry *from, const uint8_t *tail,
                       size_t struct_size, nigh_region_entry *to)
{
    nigh_region_info all = {
        .struct_size = struct_size,
        .size = from->size_bytes,
        .chunk_size = from->chunk_bytes,
        .chunk_count = from->chunk_count,
        .uid = from->uid,
        .gid = from->gid,
        .group_access = from->group_rights,
        .other_access = from->other_rights,
        .user_count = from->user_count,
        .flags = ((from->flags & SESSION_ENTRY_MAPPABLE) != 0 ? NIGH_REGION_MAPPABLE : 0) |
                 ((from->flags & SESSION_ENTRY_DONATED) != 0 ? NIGH_REGION_DONATED : 0),
    };

    for (uint32_t n = 0; n < from->user_count; n++, tail += sizeof(struct session_region_user)) {
        struct session_region_user user;

        memcpy(&user, tail, sizeof(user));
        all.users[n] = (nigh_region_user){.uid = user.uid, .access = user.rights};
    }
    for (uint32_t n = 0; n < from->chunk_count; n++, tail += sizeof(uint16_t)) {
        uint16_t rank;

        memcpy(&rank, tail, sizeof(rank));
        all.ranks[n] = rank == SESSION_REGION_LOST ? NIGH_REGION_LOST : rank;
    }
    to->access = from->rights;
    to->home = from->home;
    memset(to->name, 0, sizeof(to->name));
    memcpy(to->name, tail, from->name_bytes);
    client_copy_out(&to->info, struct_size, &all, sizeof(all));
}

/* NIGH_PROTOCOL: it is no page. */
static nigh_status read_page(const struct session_region_page *page, nigh_region_entry *entries,
                             size_t capacity, size_t *count, uint32_t *more)
{
    size_t struct_size = entries->info.struct_size, read = 0;
    struct session_region_entry entry;

    if (page->bytes > sizeof(page->entries)) {
        return NIGH_PROTOCOL;
    }
    for (uint32_t at = 0; read < page->count && read < capacity; at += entry.bytes, read++) {
        if (!read_head(page, at, &entry)) {
            return NIGH_PROTOCOL;
        }
        read_entry(&entry, page->entries + at + sizeof(entry), struct_size,
                   entry_at(entries, read));
    }
    *count = read;
    *more = read < page->count || page->more != 0 ? 1 : 0;
    return NIGH_OK;
}

static nigh_status check(nigh_client *client, const char *after, const nigh_region_entry *entries,
                         size_t capacity, const size_t *count, const uint32_t *more)
{
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    if (entries == NULL || capacity == 0 || count == NULL || more == NULL) {
        return error_set(client, NIGH_INVALID, "nigh_region_list: no room for %s",
                         entries == NULL || capacity == 0 ? "an entry"
                         : count == NULL                  ? "their count"
                                                          : "whether there are more");
    }
    if (entries->info.struct_size % _Alignof(nigh_region_info) != 0 ||
        !client_knows_size(entries->info.struct_size, LIST_INFO_FIRST, sizeof(entries->info))) {
        return error_set(client, NIGH_INVALID,
                         "nigh_region_list: info.struct_size of the first entry is %zu: set it to "
                         "sizeof(nigh_region_info)",
                         entries->info.struct_size);
    }
    if (after != NULL && strnlen(after, LIMIT_REGION_NAME_BYTES + 1) > LIMIT_REGION_NAME_BYTES) {
        return error_set(client, NIGH_INVALID,
                         "nigh_region_list: `after` is longer than a region's name, %d bytes",
                         LIMIT_REGION_NAME_BYTES);
    }
    if (!calls_may_look(client)) {
        return error_set(client, NIGH_DENIED,
                         "nigh_region_list: this client was opened read-only, and what is asked "
                         "lies in memory that it writes");
    }
    return NIGH_OK;
}

nigh_status nigh_region_list(nigh_client *client, const char *after, nigh_region_entry *entries,
                             size_t capacity, uint64_t timeout_us, size_t *count, uint32_t *more)
{
    nigh_status status = check(client, after, entries, capacity, count, more);
    struct session_region_page page;
    struct client_op op;

    if (status != NIGH_OK) {
        return status;
    }
    region_init(&op, client, NULL, SESSION_REGION_LIST, timeout_us);
    op.u.place.bytes = after;
    op.u.place.count = after == NULL ? 0 : (uint32_t)strlen(after);
    op.u.region.answer = &page;
    op.u.region.total = sizeof(page);
    status = region_run(&op);
    if (status == NIGH_INVALID) { /* there is nothing in it that a node which knows it refuses */
        return error_set(client, NIGH_UNSUPPORTED,
                         "nigh_region_list: the node is older than this libnigh");
    }
    if (status != NIGH_OK) {
        return status; /* it is said why */
    }
    status = read_page(&page, entries, capacity, count, more);
    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    return page.silent == 0
               ? NIGH_OK
               : error_set(client, NIGH_PEER_LOST,
                           "%u of the cluster's nodes did not tell of their regions (nigh nodes): "
                           "the list is in part",
                           page.silent);
}
