/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See agree_internal.h. Messages of Raft as bytes: a head whose four numbers are the fields of
 * libraft's structure, in its order, and behind it the entries of AppendEntries, or who takes part
 * and the state of InstallSnapshot. All numbers little-endian.
 */
#include <string.h>

#include "cluster/agree_internal.h"

_Static_assert(sizeof(struct agree_head) + sizeof(struct agree_conf) + AGREE_STATE_BYTES <=
                   AGREE_MESSAGE_BYTES,
               "a snapshot is one message");

/* Flags of the votes. */
#define FLAG_PRE_VOTE 1
#define FLAG_DISRUPT  2
#define FLAG_GRANTED  4
#define FLAG_UNKNOWN  8 /* whether it was a pre-vote */

size_t agree_state_write(const struct agreed *agreed, const struct agreed_roster *roster,
                         uint8_t *out)
{
    memcpy(out, agreed, sizeof(*agreed));
    agreed_roster_write(roster, out + sizeof(*agreed));
    return sizeof(*agreed) + agreed_roster_bytes(roster);
}

bool agree_state_read(const struct agree *agree, const uint8_t *bytes, size_t count,
                      struct agreed *agreed, struct agreed_roster *roster)
{
    if (count < sizeof(*agreed)) {
        return false;
    }
    memcpy(agreed, bytes, sizeof(*agreed));
    return agreed_is_valid(agreed, agree->config.count) &&
           agreed_roster_read(bytes + sizeof(*agreed), count - sizeof(*agreed),
                              agree->config.listed, agree->config.count - agree->config.listed,
                              roster) &&
           agree_fit(agree, agreed, roster);
}

bool agree_fit(const struct agree *agree, const struct agreed *agreed,
               const struct agreed_roster *roster)
{
    struct agreed_set struck = agreed_struck(roster, agree->config.listed);

    return !agreed_meets(&agreed->wary, &struck);
}

/* ---- out ------------------------------------------------------------------ */

static size_t put_entries(const struct raft_append_entries *append, struct agree_head *head,
                          uint8_t *out)
{
    size_t bytes = sizeof(*head);

    for (unsigned n = 0; n < append->n_entries; n++) {
        const struct raft_entry *entry = &append->entries[n];
        struct agree_entry_head said = {
            .term = entry->term, .type = entry->type, .bytes = (uint32_t)entry->buf.len};

        if (entry->buf.len > AGREE_DATA_BYTES ||
            bytes + sizeof(said) + entry->buf.len > AGREE_MESSAGE_BYTES) {
            break; /* the rest is asked for again */
        }
        memcpy(out + bytes, &said, sizeof(said));
        memcpy(out + bytes + sizeof(said), entry->buf.base, entry->buf.len);
        bytes += sizeof(said) + entry->buf.len;
        head->entries++;
    }
    return bytes;
}

static size_t put_snapshot(const struct raft_install_snapshot *install, uint8_t *out)
{
    struct agree_conf conf;
    size_t bytes = sizeof(struct agree_head);

    if (install->data.len > AGREE_STATE_BYTES) {
        return 0;
    }
    agree_conf_of(&install->conf, install->conf_index, &conf);
    memcpy(out + bytes, &conf, sizeof(conf));
    bytes += sizeof(conf);
    memcpy(out + bytes, install->data.base, install->data.len);
    return bytes + install->data.len;
}

static uint8_t vote_flags(const struct raft_request_vote_result *result)
{
    return (uint8_t)((result->vote_granted ? FLAG_GRANTED : 0) |
                     (result->pre_vote == raft_tribool_true ? FLAG_PRE_VOTE : 0) |
                     (result->pre_vote == raft_tribool_unknown ? FLAG_UNKNOWN : 0));
}

static void set(struct agree_head *head, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    head->numbers[0] = a;
    head->numbers[1] = b;
    head->numbers[2] = c;
    head->numbers[3] = d;
}

size_t agree_encode(const struct raft_message *message, uint8_t *out)
{
    struct agree_head head = {.kind = (uint8_t)message->type};
    size_t bytes = sizeof(head);

    switch (message->type) {
    case RAFT_IO_APPEND_ENTRIES: {
        const struct raft_append_entries *append = &message->append_entries;

        set(&head, append->term, append->prev_log_index, append->prev_log_term,
            append->leader_commit);
        bytes = put_entries(append, &head, out);
        break;
    }
    case RAFT_IO_APPEND_ENTRIES_RESULT: {
        const struct raft_append_entries_result *result = &message->append_entries_result;

        set(&head, result->term, result->rejected, result->last_log_index, 0);
        break;
    }
    case RAFT_IO_REQUEST_VOTE: {
        const struct raft_request_vote *vote = &message->request_vote;

        set(&head, vote->term, vote->candidate_id, vote->last_log_index, vote->last_log_term);
        head.flags = (uint8_t)((vote->pre_vote ? FLAG_PRE_VOTE : 0) |
                               (vote->disrupt_leader ? FLAG_DISRUPT : 0));
        break;
    }
    case RAFT_IO_REQUEST_VOTE_RESULT:
        set(&head, message->request_vote_result.term, 0, 0, 0);
        head.flags = vote_flags(&message->request_vote_result);
        break;
    case RAFT_IO_INSTALL_SNAPSHOT: {
        const struct raft_install_snapshot *install = &message->install_snapshot;

        set(&head, install->term, install->last_index, install->last_term, install->conf_index);
        bytes = put_snapshot(install, out);
        break;
    }
    case RAFT_IO_TIMEOUT_NOW: {
        const struct raft_timeout_now *now = &message->timeout_now;

        set(&head, now->term, now->last_log_index, now->last_log_term, 0);
        break;
    }
    default: return 0;
    }
    memcpy(out, &head, sizeof(head));
    return bytes;
}

/* ---- in ------------------------------------------------------------------- */

/* Passes one entry; false: there is none of a kind that a log has. */
static bool pass_entry(const uint8_t **bytes, size_t *count, struct agree_entry_head *head)
{
    if (*count < sizeof(*head)) {
        return false;
    }
    memcpy(head, *bytes, sizeof(*head));
    if (head->term == 0 || head->type < RAFT_COMMAND || head->type > RAFT_CHANGE ||
        head->bytes == 0 || head->bytes > AGREE_DATA_BYTES ||
        head->bytes > *count - sizeof(*head) ||
        (head->type == RAFT_COMMAND && head->bytes != sizeof(struct agreed_command))) {
        return false;
    }
    *bytes += sizeof(*head) + head->bytes;
    *count -= sizeof(*head) + head->bytes;
    return true;
}

static bool are_entries(const uint8_t *bytes, size_t count, uint32_t entries)
{
    for (uint32_t n = 0; n < entries; n++) {
        struct agree_entry_head head;

        if (!pass_entry(&bytes, &count, &head)) {
            return false;
        }
    }
    return count == 0 && entries <= AGREE_ENTRIES;
}

/* All their bytes in one piece, which libraft frees with the last of them. */
static nigh_status take_entries(const uint8_t *bytes, size_t count, uint32_t entries,
                                struct raft_append_entries *append)
{
    uint8_t *batch;

    append->n_entries = entries;
    append->entries = NULL;
    if (!are_entries(bytes, count, entries)) {
        return NIGH_PROTOCOL;
    }
    if (entries == 0) {
        return NIGH_OK;
    }
    append->entries = raft_calloc(entries, sizeof(*append->entries));
    batch = raft_malloc(count);
    if (append->entries == NULL || batch == NULL) {
        raft_free(append->entries);
        raft_free(batch);
        return NIGH_NO_RESOURCES;
    }
    memcpy(batch, bytes, count);
    bytes = batch;
    for (uint32_t n = 0; n < entries; n++) {
        struct raft_entry *entry = &append->entries[n];
        struct agree_entry_head head;

        memcpy(&head, bytes, sizeof(head));
        *entry =
            (struct raft_entry){.term = head.term,
                                .type = (unsigned short)head.type,
                                .buf = {.base = (void *)(bytes + sizeof(head)), .len = head.bytes},
                                .batch = batch};
        bytes += sizeof(head) + head.bytes;
    }
    return NIGH_OK;
}

static nigh_status take_snapshot(const struct agree *agree, const uint8_t *bytes, size_t count,
                                 const struct agree_head *head,
                                 struct raft_install_snapshot *install)
{
    struct agree_conf conf = {0};
    struct agreed agreed;
    struct agreed_roster roster;

    if (count < sizeof(conf)) {
        return NIGH_PROTOCOL;
    }
    memcpy(&conf, bytes, sizeof(conf));
    bytes += sizeof(conf);
    count -= sizeof(conf);
    *install = (struct raft_install_snapshot){.term = head->numbers[0],
                                              .last_index = head->numbers[1],
                                              .last_term = head->numbers[2],
                                              .conf_index = head->numbers[3]};
    if (!agree_state_read(agree, bytes, count, &agreed, &roster) || install->last_index == 0 ||
        install->last_term == 0 || install->conf_index != conf.index ||
        !agree_conf_is_valid(agree, &conf)) {
        return NIGH_PROTOCOL;
    }
    install->data.base = raft_malloc(count);
    if (install->data.base == NULL || agree_conf_make(agree, &conf, &install->conf) != 0) {
        raft_free(install->data.base);
        return NIGH_NO_RESOURCES;
    }
    install->data.len = count;
    memcpy(install->data.base, bytes, count);
    return NIGH_OK;
}

static void take_vote(const struct agree_head *head, struct raft_request_vote *vote)
{
    *vote = (struct raft_request_vote){.term = head->numbers[0],
                                       .candidate_id = head->numbers[1],
                                       .last_log_index = head->numbers[2],
                                       .last_log_term = head->numbers[3],
                                       .disrupt_leader = (head->flags & FLAG_DISRUPT) != 0,
                                       .pre_vote = (head->flags & FLAG_PRE_VOTE) != 0};
}

/* Those that have nothing behind their head. */
static nigh_status take_short(const struct agree_head *head, struct raft_message *message)
{
    const uint64_t *numbers = head->numbers;

    switch (head->kind) {
    case RAFT_IO_APPEND_ENTRIES_RESULT:
        message->append_entries_result = (struct raft_append_entries_result){
            .term = numbers[0], .rejected = numbers[1], .last_log_index = numbers[2]};
        return NIGH_OK;
    case RAFT_IO_REQUEST_VOTE:
        take_vote(head, &message->request_vote);
        return message->request_vote.candidate_id == message->server_id ? NIGH_OK : NIGH_PROTOCOL;
    case RAFT_IO_REQUEST_VOTE_RESULT:
        message->request_vote_result = (struct raft_request_vote_result){
            .term = numbers[0],
            .vote_granted = (head->flags & FLAG_GRANTED) != 0,
            .pre_vote = (head->flags & FLAG_UNKNOWN) != 0
                            ? raft_tribool_unknown
                            : TO_RAFT_TRIBOOL((head->flags & FLAG_PRE_VOTE) != 0)};
        return NIGH_OK;
    case RAFT_IO_TIMEOUT_NOW:
        message->timeout_now = (struct raft_timeout_now){
            .term = numbers[0], .last_log_index = numbers[1], .last_log_term = numbers[2]};
        return NIGH_OK;
    default: return NIGH_PROTOCOL;
    }
}

nigh_status agree_decode(struct agree *agree, const uint8_t *bytes, size_t count,
                         struct raft_message *message)
{
    struct agree_head head;

    memcpy(&head, bytes, sizeof(head));
    bytes += sizeof(head);
    count -= sizeof(head);
    message->type = head.kind;
    if (head.numbers[0] == 0) {
        return NIGH_PROTOCOL; /* no term */
    }
    if (head.kind == RAFT_IO_APPEND_ENTRIES) {
        message->append_entries = (struct raft_append_entries){.term = head.numbers[0],
                                                               .prev_log_index = head.numbers[1],
                                                               .prev_log_term = head.numbers[2],
                                                               .leader_commit = head.numbers[3]};
        return take_entries(bytes, count, head.entries, &message->append_entries);
    }
    if (head.kind == RAFT_IO_INSTALL_SNAPSHOT) {
        return take_snapshot(agree, bytes, count, &head, &message->install_snapshot);
    }
    return count == 0 ? take_short(&head, message) : NIGH_PROTOCOL;
}

void agree_discard(struct raft_message *message)
{
    if (message->type == RAFT_IO_APPEND_ENTRIES && message->append_entries.n_entries > 0) {
        raft_free(message->append_entries.entries[0].batch);
        raft_free(message->append_entries.entries);
    } else if (message->type == RAFT_IO_INSTALL_SNAPSHOT) {
        raft_configuration_close(&message->install_snapshot.conf);
        raft_free(message->install_snapshot.data.base);
    }
}
