/* SPDX-License-Identifier: Apache-2.0 */
/* See agree_internal.h. The log as bytes: written whole for each change, which is a few KiB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "cluster/agree_internal.h"

#define STORE_MAGIC   UINT64_C(0x5357454956484749) /* "IGHVIEWS" */
#define STORE_VERSION 7u

struct store_head {
    uint64_t magic;
    uint32_t version;
    uint32_t crc; /* of all behind it */
    uint64_t cluster;
    uint32_t rank;
    uint32_t entries;
    uint64_t term;
    uint64_t vote;
    uint64_t begun;
    uint64_t first;
    uint64_t snapshot_index;
    uint64_t snapshot_term;
    struct agree_conf snapshot_conf;
    uint64_t tokens[AGREE_VOTERS];
    uint64_t was_let_in; /* 1: it was */
    uint64_t roster;     /* bytes of the snapshot's: behind it; the entries behind those */
    struct agreed snapshot;
};

_Static_assert(sizeof(struct store_head) == 256, "it is on disk");
_Static_assert(offsetof(struct store_head, cluster) == 16, "it is on disk");

static uint32_t crc_of(const uint8_t *bytes, size_t count)
{
    size_t from = offsetof(struct store_head, cluster);

    return crc32c(0, bytes + from, count - from);
}

static size_t put_entry(const struct agree_entry *entry, uint8_t *out)
{
    memcpy(out, &entry->head, sizeof(entry->head));
    memcpy(out + sizeof(entry->head), entry->data, entry->head.bytes);
    return sizeof(entry->head) + entry->head.bytes;
}

nigh_status agree_store(struct agree *agree)
{
    const struct agree_log *log = &agree->log;
    struct store_head head = {
        .magic = STORE_MAGIC,
        .version = STORE_VERSION,
        .cluster = agree->config.cluster,
        .rank = agree->config.self,
        .entries = log->count,
        .term = log->term,
        .vote = log->vote,
        .begun = log->begun,
        .first = log->first,
        .snapshot_index = log->snapshot_index,
        .snapshot_term = log->snapshot_term,
        .snapshot_conf = log->snapshot_conf,
        .was_let_in = log->was_let_in ? 1 : 0,
        .roster = agreed_roster_bytes(&log->snapshot_roster),
        .snapshot = log->snapshot,
    };
    uint8_t *bytes =
        malloc(sizeof(head) + AGREED_ROSTER_BYTES + log->count * sizeof(struct agree_entry));
    size_t count = sizeof(head);
    nigh_status status;

    if (bytes == NULL) {
        return NIGH_NO_RESOURCES;
    }
    memcpy(head.tokens, log->tokens, sizeof(head.tokens));
    agreed_roster_write(&log->snapshot_roster, bytes + count);
    count += head.roster;
    for (uint32_t n = 0; n < log->count; n++) {
        count += put_entry(&log->entries[n], bytes + count);
    }
    memcpy(bytes, &head, sizeof(head));
    head.crc = crc_of(bytes, count);
    memcpy(bytes, &head, sizeof(head));
    status = agree->config.store(agree->config.context, bytes, count);
    free(bytes);
    return status;
}

/* False: there is no such entry in the bytes. */
static bool take_entry(const struct agree *agree, const uint8_t **bytes, size_t *count,
                       struct agree_entry *entry)
{
    struct agree_conf conf;

    if (*count < sizeof(entry->head)) {
        return false;
    }
    memcpy(&entry->head, *bytes, sizeof(entry->head));
    if (entry->head.bytes > AGREE_DATA_BYTES || *count - sizeof(entry->head) < entry->head.bytes ||
        entry->head.type < RAFT_COMMAND || entry->head.type > RAFT_CHANGE ||
        entry->head.term == 0) {
        return false;
    }
    memcpy(entry->data, *bytes + sizeof(entry->head), entry->head.bytes);
    if (entry->head.type == RAFT_CHANGE &&
        !agree_conf_decode(agree, entry->data, entry->head.bytes, 1, &conf)) {
        return false;
    }
    *bytes += sizeof(entry->head) + entry->head.bytes;
    *count -= sizeof(entry->head) + entry->head.bytes;
    return true;
}

static nigh_status refuse(nigh_status status, char why[AGREE_WHY_BYTES], const char *what)
{
    snprintf(why, AGREE_WHY_BYTES, "what was kept of the views %s", what);
    return status;
}

/* What a whole head says of itself. */
static nigh_status check(const struct agree *agree, const struct store_head *head,
                         const uint8_t *bytes, size_t count, char why[AGREE_WHY_BYTES])
{
    if (head->magic != STORE_MAGIC || head->crc != crc_of(bytes, count)) {
        return refuse(NIGH_CORRUPT, why, "is damaged; this voter must not vote without it");
    }
    if (head->version != STORE_VERSION) {
        return refuse(NIGH_VERSION, why, "was written by another version of nigh");
    }
    if (head->cluster != agree->config.cluster) {
        return refuse(NIGH_VERSION, why, "is of another list of members");
    }
    if (head->rank != agree->config.self) {
        return refuse(NIGH_VERSION, why, "is of another member: each has a directory of its own");
    }
    if (head->entries > AGREE_ENTRIES || head->first == 0 || head->was_let_in > 1 ||
        (head->snapshot_index > 0 && (!agreed_is_valid(&head->snapshot, agree->config.count) ||
                                      !agree_conf_is_valid(agree, &head->snapshot_conf) ||
                                      head->snapshot_conf.index > head->snapshot_index))) {
        return refuse(NIGH_CORRUPT, why, "says what cannot be");
    }
    return NIGH_OK;
}

/* Whether what this node has begun is a change of who votes, of the term that is. */
static bool is_begun(const struct agree_log *log)
{
    const struct agree_entry_head *head;

    if (log->begun == 0) {
        return true;
    }
    if (log->begun <= log->first || log->begun - log->first >= log->count) {
        return false;
    }
    head = &log->entries[log->begun - log->first].head;
    return head->type == RAFT_CHANGE && head->term == log->term;
}

nigh_status agree_load(struct agree *agree, const void *stored, size_t bytes,
                       char why[AGREE_WHY_BYTES])
{
    struct agree_log *log = &agree->log;
    const uint8_t *at = stored;
    struct store_head head;
    nigh_status status;

    if (bytes < sizeof(head)) {
        return refuse(NIGH_CORRUPT, why, "is cut short; this voter must not vote without it");
    }
    memcpy(&head, stored, sizeof(head));
    status = check(agree, &head, stored, bytes, why);
    if (status != NIGH_OK) {
        return status;
    }
    at += sizeof(head);
    bytes -= sizeof(head);
    if (head.roster > bytes ||
        !agreed_roster_read(at, head.roster, agree->config.listed,
                            agree->config.count - agree->config.listed, &log->snapshot_roster)) {
        return refuse(NIGH_CORRUPT, why, "has seats or names that cannot be");
    }
    if (head.snapshot_index > 0 && !agree_fit(agree, &head.snapshot, &log->snapshot_roster)) {
        return refuse(NIGH_CORRUPT, why, "has somebody in the view who is struck off");
    }
    at += head.roster;
    bytes -= head.roster;
    for (uint32_t n = 0; n < head.entries; n++) {
        if (!take_entry(agree, &at, &bytes, &log->entries[n])) {
            return refuse(NIGH_CORRUPT, why, "has an entry that cannot be");
        }
    }
    log->term = head.term;
    log->vote = head.vote;
    log->begun = head.begun;
    log->first = head.first;
    log->count = head.entries;
    log->snapshot_index = head.snapshot_index;
    log->snapshot_term = head.snapshot_term;
    log->snapshot_conf = head.snapshot_conf;
    log->snapshot = head.snapshot;
    log->was_let_in = head.was_let_in != 0;
    memcpy(log->tokens, head.tokens, sizeof(log->tokens));
    return is_begun(log) ? NIGH_OK : refuse(NIGH_CORRUPT, why, "has begun what cannot be");
}
