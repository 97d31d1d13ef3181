/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See agree_internal.h. libraft takes its voters at their word: what cannot be it asserts, or ends
 * itself over. So what a voter says is held against what is known here before libraft sees it, and
 * so is what a leader says besides. What passes can still be a lie, but one that a voter could have
 * said.
 *
 * `raft` is read here, and not written: libraft has no calls for what is asked.
 */
#include <string.h>

#include "base/clock.h"
#include "cluster/agree_internal.h"

/* How far a term, or an index, may be ahead of ours: further than any voter that tells the truth
 * comes in a lifetime, and too little to bring the numbers near their end by steps. */
#define AGREE_AHEAD (UINT64_C(1) << 32)

bool agree_is_near(uint64_t number, uint64_t own)
{
    return number <= own || number - own <= AGREE_AHEAD;
}

uint64_t agree_term_at(const struct agree_log *log, uint64_t index)
{
    if (index != 0 && index == log->snapshot_index) {
        return log->snapshot_term;
    }
    return index < log->first || index - log->first >= log->count
               ? 0
               : log->entries[index - log->first].head.term;
}

/* Whether what was decided here has another term at an index. */
static bool contradicts(const struct agree *agree, uint64_t index, uint64_t term)
{
    uint64_t own = agree_term_at(&agree->log, index);

    return own != 0 && own != term && index <= agree->raft.commit_index;
}

/* Every log begins with the same; what is decided here is judged by its term; and of those that
 * follow each is one step from the one before, which *conf is, and then this one. */
static bool is_change_sound(const struct agree *agree, const struct raft_entry *entry,
                            uint64_t index, struct agree_conf *conf)
{
    struct agree_conf next;

    if (!agree_conf_decode(agree, entry->buf.base, entry->buf.len, index, &next)) {
        return false;
    }
    if (index == 1 && memcmp(&next, &agree->begun, sizeof(next)) != 0) {
        return false;
    }
    if (index > 1 && index > agree->raft.commit_index && !agree_conf_is_step(conf, &next)) {
        return false;
    }
    *conf = next;
    return true;
}

/* Terms in a log never fall, and none is above that of who tells it. */
static bool are_entries_sound(const struct agree *agree, const struct raft_append_entries *append)
{
    uint64_t term = append->prev_log_index == 0 ? 1 : append->prev_log_term;
    struct agree_conf conf;

    agree_conf_at(agree, append->prev_log_index, &conf);
    for (uint32_t n = 0; n < append->n_entries; n++) {
        const struct raft_entry *entry = &append->entries[n];
        uint64_t index = append->prev_log_index + 1 + n;

        if (entry->term < term || entry->term > append->term ||
            contradicts(agree, index, entry->term)) {
            return false;
        }
        if (entry->type == RAFT_CHANGE && !is_change_sound(agree, entry, index, &conf)) {
            return false;
        }
        term = entry->term;
    }
    return true;
}

/* What stands before is not what we have, and not decided here: libraft says so, and is then told
 * more. */
static bool is_refused(const struct agree_log *log, const struct raft_append_entries *append)
{
    uint64_t own = agree_term_at(log, append->prev_log_index);

    return append->prev_log_index != 0 && own != 0 && own != append->prev_log_term;
}

static bool is_append_sound(struct agree *agree, const struct raft_append_entries *append)
{
    const struct agree_log *log = &agree->log;

    if (raft_state(&agree->raft) == RAFT_LEADER && append->term == agree->raft.current_term) {
        return false; /* we lead in that term */
    }
    if (append->prev_log_index >= log->first + log->count) {
        return true; /* it is refused for what is missing */
    }
    if (contradicts(agree, append->prev_log_index, append->prev_log_term)) {
        return false;
    }
    if (append->n_entries == 0 || is_refused(log, append)) {
        return true;
    }
    /* What was cut off is in the snapshot: nobody sends it; and the rest has to fit. */
    return append->prev_log_index + 1 >= log->first &&
           append->prev_log_index + 1 + append->n_entries - log->first <= AGREE_ENTRIES &&
           are_entries_sound(agree, append);
}

/* A seat stays its taker's, or is struck off. */
bool agree_continues(const struct agreed_roster *roster, const struct agreed_roster *next)
{
    if (next->changes < roster->changes || next->count < roster->count ||
        !agree_is_near(next->changes, roster->changes)) {
        return false;
    }
    for (uint64_t n = 0; n < roster->count; n++) {
        if (next->addresses[n][0] != '\0' &&
            memcmp(next->addresses[n], roster->addresses[n], sizeof(next->addresses[n])) != 0) {
            return false;
        }
    }
    return true;
}

static bool is_install_sound(struct agree *agree, const struct raft_install_snapshot *install)
{
    struct agreed agreed;
    struct agreed_roster roster;

    if (raft_state(&agree->raft) == RAFT_LEADER && install->term == agree->raft.current_term) {
        return false;
    }
    if (!agree_state_read(agree, install->data.base, install->data.len, &agreed, &roster)) {
        return false;
    }
    /* What was applied is not taken back. */
    return install->last_term <= install->term && install->conf_index <= install->last_index &&
           agree_is_near(install->last_index, agree->log.first + agree->log.count) &&
           !contradicts(agree, install->last_index, install->last_term) &&
           (install->last_index <= agree->raft.commit_index ||
            (!agreed_is_older(&agreed, &agree->applied) &&
             agree_continues(&agree->roster, &roster)));
}

bool agree_is_sound(struct agree *agree, const struct raft_message *message)
{
    uint64_t own = agree->raft.current_term;

    switch (message->type) {
    case RAFT_IO_APPEND_ENTRIES:
        return agree_is_near(message->append_entries.term, own) &&
               is_append_sound(agree, &message->append_entries);
    case RAFT_IO_APPEND_ENTRIES_RESULT:
        return agree_is_near(message->append_entries_result.term, own);
    case RAFT_IO_REQUEST_VOTE:
        /* Nobody hands its leadership on. */
        return agree_is_near(message->request_vote.term, own) &&
               !message->request_vote.disrupt_leader;
    case RAFT_IO_REQUEST_VOTE_RESULT:
        /* A vote is given in the term that it was asked for. */
        return agree_is_near(message->request_vote_result.term, own) &&
               (!message->request_vote_result.vote_granted ||
                message->request_vote_result.term <= own + 1);
    case RAFT_IO_INSTALL_SNAPSHOT:
        return agree_is_near(message->install_snapshot.term, own) &&
               is_install_sound(agree, &message->install_snapshot);
    default: return false; /* RAFT_IO_TIMEOUT_NOW: as above */
    }
}
