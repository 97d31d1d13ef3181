/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See agree_internal.h. Who takes part in Raft. libraft 0.15 has what is in effect, and what it
 * gets wrong about it is put right here, from the log, before it matters:
 *
 * - It keeps in a snapshot what is in effect, decided or not: agree_raft.c keeps what was decided.
 * - Started again it takes the last one of its log for decided: agree_conf_started.
 * - It takes back one that was not decided by the entry of the one before, which may have been cut
 *   off (that is a crash), or not be the one before: agree_conf_roll_back comes first.
 * - It goes on taking one for not decided that a snapshot has decided: agree_conf_refresh.
 */
#include <string.h>

#include "cluster/agree_internal.h"

#define CONF_FORMAT 1 /* of libraft's encoding */

uint32_t agree_conf_voters(const struct agree_conf *conf)
{
    uint32_t voters = 0;

    for (uint32_t n = 0; n < conf->count; n++) {
        voters += conf->servers[n].role == RAFT_VOTER ? 1 : 0;
    }
    return voters;
}

uint32_t agree_conf_role(const struct agree_conf *conf, uint32_t rank)
{
    for (uint32_t n = 0; n < conf->count; n++) {
        if (conf->servers[n].rank == rank) {
            return conf->servers[n].role;
        }
    }
    return AGREE_NO_ROLE;
}

void agree_conf_first(const struct agree *agree, struct agree_conf *conf)
{
    *conf = (struct agree_conf){.index = 1, .count = agree_voters(agree->config.listed)};
    for (uint32_t rank = 0; rank < conf->count; rank++) {
        conf->servers[rank] = (struct agree_server){.rank = (uint16_t)rank, .role = RAFT_VOTER};
    }
}

bool agree_conf_is_valid(const struct agree *agree, const struct agree_conf *conf)
{
    if (conf->count == 0 || conf->count > AGREE_SERVERS || conf->index == 0) {
        return false;
    }
    for (uint32_t n = 0; n < conf->count; n++) {
        const struct agree_server *server = &conf->servers[n];

        if (server->rank >= agree->config.count || server->role > RAFT_SPARE) {
            return false;
        }
        for (uint32_t before = 0; before < n; before++) {
            if (conf->servers[before].rank == server->rank) {
                return false;
            }
        }
    }
    return agree_conf_voters(conf) > 0 && agree_conf_voters(conf) <= AGREE_VOTERS;
}

/* Differs in one member: it is another's part alone, or it is one more, or less. */
bool agree_conf_is_step(const struct agree_conf *from, const struct agree_conf *to)
{
    uint32_t changes = 0;

    for (uint32_t n = 0; n < to->count; n++) {
        changes += agree_conf_role(from, to->servers[n].rank) != to->servers[n].role ? 1 : 0;
    }
    for (uint32_t n = 0; n < from->count; n++) {
        changes += agree_conf_role(to, from->servers[n].rank) == AGREE_NO_ROLE ? 1 : 0;
    }
    return changes == 1;
}

/* ---- libraft's forms ------------------------------------------------------ */

static bool take(const uint8_t **bytes, size_t *count, void *out, size_t wanted)
{
    if (*count < wanted) {
        return false;
    }
    memcpy(out, *bytes, wanted);
    *bytes += wanted;
    *count -= wanted;
    return true;
}

/* A server: its number, its address as text, which is its rank, and what it does. */
static bool take_server(const struct agree *agree, const uint8_t **bytes, size_t *count,
                        struct agree_server *server)
{
    uint64_t id;
    uint8_t role;
    size_t length;

    if (!take(bytes, count, &id, sizeof(id)) || id == 0 || id > agree->config.count) {
        return false;
    }
    length = strlen(agree->names[id - 1]) + 1;
    if (*count < length || memcmp(*bytes, agree->names[id - 1], length) != 0) {
        return false;
    }
    *bytes += length;
    *count -= length;
    if (!take(bytes, count, &role, sizeof(role))) {
        return false;
    }
    *server = (struct agree_server){.rank = (uint16_t)(id - 1), .role = role};
    return true;
}

bool agree_conf_decode(const struct agree *agree, const void *encoded, size_t count, uint64_t index,
                       struct agree_conf *conf)
{
    struct agree_conf read = {.index = index};
    const uint8_t *bytes = encoded;
    uint8_t format;
    uint64_t servers;

    if (!take(&bytes, &count, &format, sizeof(format)) || format != CONF_FORMAT ||
        !take(&bytes, &count, &servers, sizeof(servers)) || servers > AGREE_SERVERS) {
        return false;
    }
    for (; read.count < servers; read.count++) {
        if (!take_server(agree, &bytes, &count, &read.servers[read.count])) {
            return false;
        }
    }
    if (count >= sizeof(uint64_t) || !agree_conf_is_valid(agree, &read)) {
        return false; /* more than fills up its last word */
    }
    *conf = read;
    return true;
}

int agree_conf_make(const struct agree *agree, const struct agree_conf *conf,
                    struct raft_configuration *configuration)
{
    raft_configuration_init(configuration);
    for (uint32_t n = 0; n < conf->count; n++) {
        const struct agree_server *server = &conf->servers[n];
        int error = raft_configuration_add(configuration, agree_id(server->rank),
                                           agree->names[server->rank], server->role);

        if (error != 0) {
            raft_configuration_close(configuration);
            return error;
        }
    }
    return 0;
}

void agree_conf_of(const struct raft_configuration *configuration, uint64_t index,
                   struct agree_conf *conf)
{
    *conf = (struct agree_conf){.index = index};
    for (unsigned n = 0; n < configuration->n && n < AGREE_SERVERS; n++) {
        conf->servers[conf->count++] =
            (struct agree_server){.rank = (uint16_t)(configuration->servers[n].id - 1),
                                  .role = (uint16_t)configuration->servers[n].role};
    }
}

/* ---- what is in effect ---------------------------------------------------- */

void agree_conf_at(const struct agree *agree, uint64_t index, struct agree_conf *conf)
{
    const struct agree_log *log = &agree->log;
    uint64_t above = log->first + log->count; /* the first that is not in the log */

    for (above = min_u64(above, index + 1); above > log->first; above--) {
        const struct agree_entry *entry = &log->entries[above - 1 - log->first];

        if (entry->head.type == RAFT_CHANGE &&
            agree_conf_decode(agree, entry->data, entry->head.bytes, above - 1, conf)) {
            return;
        }
    }
    *conf = log->snapshot_conf;
}

void agree_conf_refresh(struct agree *agree)
{
    struct raft *raft = &agree->raft;

    if (!agree->running || raft_state(raft) == RAFT_UNAVAILABLE) {
        return;
    }
    if (raft->configuration_uncommitted_index <= raft->last_applied) {
        raft->configuration_uncommitted_index = 0;
    }
    agree_conf_of(&raft->configuration,
                  raft->configuration_uncommitted_index != 0 ? raft->configuration_uncommitted_index
                                                             : raft->configuration_index,
                  &agree->own);
}

void agree_conf_started(struct agree *agree)
{
    struct raft *raft = &agree->raft;
    struct agree_conf decided;

    if (raft->configuration_index > raft->last_applied) {
        agree_conf_at(agree, raft->last_applied, &decided);
        raft->configuration_uncommitted_index = raft->configuration_index;
        raft->configuration_index = decided.index;
    }
    agree_conf_refresh(agree);
}

/* Which entry of ours libraft cuts off, and all behind it, when it sees a message; 0: none. */
static uint64_t conflict_of(const struct agree *agree, const struct raft_append_entries *append)
{
    uint64_t before = append->prev_log_index;

    if (append->term < agree->raft.current_term ||
        (before != 0 && agree_term_at(&agree->log, before) != append->prev_log_term)) {
        return 0; /* it is refused */
    }
    for (uint32_t n = 0; n < append->n_entries; n++) {
        uint64_t own = agree_term_at(&agree->log, before + 1 + n);

        if (own != append->entries[n].term) {
            return own == 0 ? 0 : before + 1 + n;
        }
    }
    return 0;
}

bool agree_conf_roll_back(struct agree *agree, const struct raft_append_entries *append)
{
    struct raft *raft = &agree->raft;
    uint64_t conflict = conflict_of(agree, append);
    struct raft_configuration configuration;
    struct agree_conf before;

    if (conflict == 0 || raft->configuration_uncommitted_index < conflict) {
        return true;
    }
    agree_conf_at(agree, conflict - 1, &before);
    if (agree_conf_make(agree, &before, &configuration) != 0) {
        return false;
    }
    raft_configuration_close(&raft->configuration);
    raft->configuration = configuration;
    raft->configuration_uncommitted_index = before.index > raft->last_applied ? before.index : 0;
    agree_conf_refresh(agree);
    return true;
}

void agree_conf_decided(const struct agree *agree, struct agree_conf *conf)
{
    if (agree->raft.configuration_uncommitted_index == 0) {
        *conf = agree->own;
    } else {
        agree_conf_at(agree, agree->raft.last_applied, conf);
    }
}

/* What was decided is known by our log, or was told. */
bool agree_conf_counts(const struct agree *agree, uint32_t rank)
{
    struct agree_conf decided;

    if (agree_is_voter(agree_conf_known(agree), rank)) {
        return true;
    }
    if (!agree->running || agree->own.count == 0) {
        return false;
    }
    agree_conf_decided(agree, &decided);
    return agree_is_voter(decided.index >= agree->told.index ? &decided : &agree->told, rank);
}

const struct agree_conf *agree_conf_known(const struct agree *agree)
{
    if (agree->own.count == 0 && agree->told.count == 0) {
        return &agree->begun;
    }
    return agree->own.count > 0 && agree->own.index >= agree->told.index ? &agree->own
                                                                         : &agree->told;
}
