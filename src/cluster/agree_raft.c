/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See agree_internal.h. libraft's seams: its storage is the log in memory, kept as a whole before
 * any call about it succeeds; its messages and its time are the caller's. libraft may not be called
 * back from inside its own calls, so all ends of requests are told after them (agree_run_later).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cluster/agree_internal.h"

#define LOG_MODULE "views"
#include "base/log.h"

static struct agree *agree_of(struct raft_io *io)
{
    return io->impl;
}

/* What the end of a request is told with: made before anything is done for it, so that what is done
 * is told. NULL: no memory. agree_run_later frees it. */
static struct agree_later *make_later(void)
{
    return raft_calloc(1, sizeof(struct agree_later));
}

static void later(struct agree *agree, struct agree_later *end,
                  void (*run)(struct agree *, struct agree_later *), void *request)
{
    end->run = run;
    end->request = request;
    list_push_back(&agree->later, &end->place);
}

int agree_raft_keep(struct agree *agree)
{
    nigh_status status = agree->failed ? NIGH_NO_RESOURCES : agree_store(agree);

    if (status == NIGH_OK) {
        return 0;
    }
    if (!agree->failed) {
        LOG_ERROR("the log of views cannot be written: this node votes no more",
                  "status=%d do=\"make room on the disk of --state, and start the node again\"",
                  (int)status);
    }
    agree->failed = true;
    return RAFT_IOERR;
}

/* ---- storage -------------------------------------------------------------- */

static int io_init(struct raft_io *io, raft_id id, const char *address)
{
    (void)io;
    (void)id;
    (void)address;
    return 0;
}

static void io_close(struct raft_io *io, raft_io_close_cb cb)
{
    if (cb != NULL) {
        cb(io);
    }
}

static int snapshot_of(struct agree *agree, struct raft_snapshot **made)
{
    const struct agree_log *log = &agree->log;
    struct raft_snapshot *snapshot = raft_calloc(1, sizeof(*snapshot));
    int error = RAFT_NOMEM;

    if (snapshot == NULL) {
        return RAFT_NOMEM;
    }
    snapshot->index = log->snapshot_index;
    snapshot->term = log->snapshot_term;
    snapshot->configuration_index = log->snapshot_conf.index;
    snapshot->bufs = raft_malloc(sizeof(*snapshot->bufs));
    if (snapshot->bufs == NULL) {
        goto free_snapshot;
    }
    snapshot->n_bufs = 1;
    snapshot->bufs[0].base = raft_malloc(AGREE_STATE_BYTES);
    if (snapshot->bufs[0].base == NULL) {
        goto free_bufs;
    }
    snapshot->bufs[0].len =
        agree_state_write(&log->snapshot, &log->snapshot_roster, snapshot->bufs[0].base);
    error = agree_conf_make(agree, &log->snapshot_conf, &snapshot->configuration);
    if (error != 0) {
        goto free_base;
    }
    *made = snapshot;
    return 0;

free_base:
    raft_free(snapshot->bufs[0].base);
free_bufs:
    raft_free(snapshot->bufs);
free_snapshot:
    raft_free(snapshot);
    return error;
}

/* The entries of the log as libraft has them, in one piece of memory. */
static int entries_of(const struct agree_log *log, struct raft_entry **entries)
{
    struct raft_entry *made = raft_calloc(log->count, sizeof(*made));
    uint8_t *batch = raft_malloc((size_t)log->count * AGREE_DATA_BYTES);

    if (made == NULL || batch == NULL) {
        raft_free(made);
        raft_free(batch);
        return RAFT_NOMEM;
    }
    for (uint32_t n = 0; n < log->count; n++) {
        const struct agree_entry *entry = &log->entries[n];

        memcpy(batch + (size_t)n * AGREE_DATA_BYTES, entry->data, entry->head.bytes);
        made[n] = (struct raft_entry){
            .term = entry->head.term,
            .type = (unsigned short)entry->head.type,
            .buf = {.base = batch + (size_t)n * AGREE_DATA_BYTES, .len = entry->head.bytes},
            .batch = batch};
    }
    *entries = made;
    return 0;
}

static int io_load(struct raft_io *io, raft_term *term, raft_id *voted_for,
                   struct raft_snapshot **snapshot, raft_index *start_index,
                   struct raft_entry *entries[], size_t *n_entries)
{
    struct agree *agree = agree_of(io);
    const struct agree_log *log = &agree->log;

    *term = log->term;
    *voted_for = log->vote;
    *snapshot = NULL;
    *start_index = log->first;
    *entries = NULL;
    *n_entries = log->count;
    if (log->snapshot_index > 0 && snapshot_of(agree, snapshot) != 0) {
        return RAFT_NOMEM;
    }
    return log->count == 0 ? 0 : entries_of(log, entries);
}

static int io_start(struct raft_io *io, unsigned msecs, raft_io_tick_cb tick, raft_io_recv_cb recv)
{
    struct agree *agree = agree_of(io);

    (void)msecs;
    agree->tick = tick;
    agree->recv = recv;
    agree->tick_us = agree->now_us + 1000u * AGREE_HEARTBEAT_MS;
    return 0;
}

/* The first entry of every log is the same: who votes at first. */
static int io_bootstrap(struct raft_io *io, const struct raft_configuration *configuration)
{
    struct agree *agree = agree_of(io);
    struct agree_log *log = &agree->log;
    struct raft_buffer encoded;
    int error = raft_configuration_encode(configuration, &encoded);

    if (error != 0) {
        return error;
    }
    NIGH_ASSERT(encoded.len <= AGREE_DATA_BYTES && log->count == 0);
    log->term = max_u64(log->term, 1);
    log->first = 1;
    log->count = 1;
    log->entries[0].head =
        (struct agree_entry_head){.term = 1, .type = RAFT_CHANGE, .bytes = (uint32_t)encoded.len};
    memcpy(log->entries[0].data, encoded.base, encoded.len);
    raft_free(encoded.base);
    return agree_raft_keep(agree);
}

static int io_recover(struct raft_io *io, const struct raft_configuration *configuration)
{
    (void)io;
    (void)configuration;
    return RAFT_INVALID; /* who votes is decided */
}

static int io_set_term(struct raft_io *io, raft_term term)
{
    struct agree *agree = agree_of(io);

    agree->log.term = term;
    agree->log.vote = 0;
    agree->log.begun = 0; /* another may lead now, and be told that it is here */
    return agree_raft_keep(agree);
}

static int io_set_vote(struct raft_io *io, raft_id id)
{
    struct agree *agree = agree_of(io);

    agree->log.vote = id;
    return agree_raft_keep(agree);
}

static void tell_appended(struct agree *agree, struct agree_later *end)
{
    struct raft_io_append *request = end->request;

    (void)agree;
    request->cb(request, 0);
}

static int fits(const struct agree_log *log, const struct raft_entry entries[], unsigned n)
{
    if (log->count + n > AGREE_ENTRIES) {
        return RAFT_NOSPACE;
    }
    for (unsigned i = 0; i < n; i++) {
        if (entries[i].buf.len > AGREE_DATA_BYTES) {
            return RAFT_TOOBIG;
        }
    }
    return 0;
}

static int io_append(struct raft_io *io, struct raft_io_append *request,
                     const struct raft_entry entries[], unsigned n, raft_io_append_cb cb)
{
    struct agree *agree = agree_of(io);
    struct agree_log *log = &agree->log;
    struct agree_later *end;
    int error = fits(log, entries, n);

    if (error != 0) {
        return error;
    }
    end = make_later();
    if (end == NULL) {
        return RAFT_NOMEM;
    }
    for (unsigned i = 0; i < n; i++) {
        struct agree_entry *entry = &log->entries[log->count + i];

        entry->head = (struct agree_entry_head){.term = entries[i].term,
                                                .type = entries[i].type,
                                                .bytes = (uint32_t)entries[i].buf.len};
        memcpy(entry->data, entries[i].buf.base, entries[i].buf.len);
        if (entries[i].type == RAFT_CHANGE && raft_state(&agree->raft) == RAFT_LEADER) {
            log->begun = log->first + log->count + i;
        }
    }
    log->count += n;
    error = agree_raft_keep(agree);
    if (error != 0) {
        raft_free(end);
        return error;
    }
    request->cb = cb;
    later(agree, end, tell_appended, request);
    return 0;
}

static int io_truncate(struct raft_io *io, raft_index index)
{
    struct agree *agree = agree_of(io);
    struct agree_log *log = &agree->log;

    NIGH_ASSERT(index >= log->first && index <= log->first + log->count);
    log->count = (uint32_t)(index - log->first);
    log->begun = log->begun >= index ? 0 : log->begun;
    return agree_raft_keep(agree);
}

bool agree_raft_settle(struct agree *agree)
{
    if (agree->log.begun == 0 || agree->raft.commit_index < agree->log.begun) {
        return true;
    }
    agree->log.begun = 0;
    return agree_raft_keep(agree) == 0;
}

/* Lets the first entries go. */
static void cut(struct agree_log *log, uint32_t count)
{
    memmove(log->entries, log->entries + count, (log->count - count) * sizeof(log->entries[0]));
    log->first += count;
    log->count -= count;
}

static void tell_kept(struct agree *agree, struct agree_later *end)
{
    struct raft_io_snapshot_put *request = end->request;

    (void)agree;
    request->cb(request, 0);
}

/* trailing 0: it came from the leader, and stands in place of all that was here. */
static int io_snapshot_put(struct raft_io *io, unsigned trailing,
                           struct raft_io_snapshot_put *request,
                           const struct raft_snapshot *snapshot, raft_io_snapshot_put_cb cb)
{
    struct agree *agree = agree_of(io);
    struct agree_log *log = &agree->log;
    struct agree_later *end = make_later();
    struct agree_conf decided;
    int error;

    if (end == NULL) {
        return RAFT_NOMEM;
    }
    /* libraft says what is in effect, decided or not. */
    agree_conf_at(agree, snapshot->index, &decided);
    if (snapshot->n_bufs != 1 ||
        !agree_state_read(agree, snapshot->bufs[0].base, snapshot->bufs[0].len, &log->snapshot,
                          &log->snapshot_roster)) {
        raft_free(end);
        return RAFT_INVALID;
    }
    log->snapshot_index = snapshot->index;
    log->snapshot_term = snapshot->term;
    /* What it has is decided: a start must find both, or neither. */
    log->begun = log->begun <= snapshot->index ? 0 : log->begun;
    if (trailing == 0) {
        agree_conf_of(&snapshot->configuration, snapshot->configuration_index, &log->snapshot_conf);
        log->count = 0;
        log->first = snapshot->index + 1;
    } else {
        log->snapshot_conf = decided;
    }
    if (trailing != 0 && snapshot->index >= log->first + trailing) {
        cut(log, (uint32_t)min_u64(snapshot->index + 1 - trailing - log->first, log->count));
    }
    error = agree_raft_keep(agree);
    if (error != 0) {
        raft_free(end);
        return error;
    }
    request->cb = cb;
    later(agree, end, tell_kept, request);
    return 0;
}

static void tell_snapshot(struct agree *agree, struct agree_later *end)
{
    struct raft_io_snapshot_get *request = end->request;

    (void)agree;
    request->cb(request, end->snapshot, 0);
}

static int io_snapshot_get(struct raft_io *io, struct raft_io_snapshot_get *request,
                           raft_io_snapshot_get_cb cb)
{
    struct agree_later *end = make_later();
    int error = end == NULL ? RAFT_NOMEM : snapshot_of(agree_of(io), &end->snapshot);

    if (error != 0) {
        raft_free(end);
        return error;
    }
    request->cb = cb;
    later(agree_of(io), end, tell_snapshot, request);
    return 0;
}

/* ---- messages, time ------------------------------------------------------- */

static void tell_sent(struct agree *agree, struct agree_later *end)
{
    struct raft_io_send *request = end->request;

    (void)agree;
    request->cb(request, 0);
}

/* libraft refuses a pre-vote with the term that it was asked for, and so never says that its own is
 * higher. Who has the longest log, and the lowest term, would be refused by all, and refuse all,
 * for ever. */
static void say_own_term(const struct agree *agree, struct raft_message *message)
{
    struct raft_request_vote_result *result = &message->request_vote_result;

    if (message->type == RAFT_IO_REQUEST_VOTE_RESULT && result->pre_vote == raft_tribool_true &&
        !result->vote_granted) {
        result->term = max_u64(result->term, agree->log.term);
    }
}

/* libraft says how many entries it has, to a leader that it does not refuse: of an earlier leader
 * there may be some among them that this one does not have, and it would count us for its own. */
static void say_what_matched(const struct agree *agree, struct raft_message *message)
{
    struct raft_append_entries_result *result = &message->append_entries_result;

    if (message->type == RAFT_IO_APPEND_ENTRIES_RESULT && result->rejected == 0) {
        result->last_log_index = min_u64(result->last_log_index, agree->matched);
    }
}

static int io_send(struct raft_io *io, struct raft_io_send *request,
                   const struct raft_message *message, raft_io_send_cb cb)
{
    struct agree *agree = agree_of(io);
    struct agree_later *end = make_later();
    struct raft_message said = *message;
    uint8_t bytes[AGREE_MESSAGE_BYTES];
    size_t count;

    if (end == NULL) {
        return RAFT_NOMEM;
    }
    (void)agree_raft_settle(agree); /* or it has failed, and says nothing */
    say_own_term(agree, &said);
    say_what_matched(agree, &said);
    count = agree_encode(&said, bytes);
    request->cb = cb;
    if (count > 0 && !agree->failed && message->server_id >= 1 &&
        message->server_id <= agree->config.count) {
        agree->config.send(agree->config.context, (uint32_t)message->server_id - 1, bytes,
                           (uint32_t)count);
    }
    later(agree, end, tell_sent, request);
    return 0;
}

static raft_time io_time(struct raft_io *io)
{
    return agree_of(io)->now_us / 1000;
}

static int io_random(struct raft_io *io, int min, int max)
{
    return min + (int)random_below(&agree_of(io)->random, (uint64_t)(max - min) + 1);
}

static void tell_worked(struct agree *agree, struct agree_later *end)
{
    struct raft_io_async_work *request = end->request;

    (void)agree;
    request->cb(request, request->work(request));
}

static int io_async_work(struct raft_io *io, struct raft_io_async_work *request,
                         raft_io_async_work_cb cb)
{
    struct agree_later *end = make_later();

    if (end == NULL) {
        return RAFT_NOMEM;
    }
    request->cb = cb;
    later(agree_of(io), end, tell_worked, request);
    return 0;
}

/* ---- what commands do ----------------------------------------------------- */

/* A view with somebody in it who is struck off is none: it was proposed before that was known. */
static void apply_view(struct agree *agree, const struct agreed_command *command)
{
    struct agreed_set struck = agreed_struck(&agree->roster, agree->config.listed);

    if (command->kind != AGREED_SET || !agreed_meets(&command->in, &struck)) {
        (void)agreed_apply(&agree->applied, agree->config.count, command);
        agree_learn(agree, &agree->applied);
    }
}

static void apply_forget(struct agree *agree, const struct agreed_command *command)
{
    if (agreed_forget(&agree->roster, &agree->applied, agree->config.listed, command) == NIGH_OK) {
        agree_struck(agree, (uint32_t)command->epoch);
    }
}

static int fsm_apply(struct raft_fsm *fsm, const struct raft_buffer *buf, void **result)
{
    struct agree *agree = fsm->data;
    struct agreed_command command;

    *result = NULL;
    if (!agree_raft_settle(agree)) {
        return RAFT_IOERR;
    }
    if (buf->len == sizeof(command)) {
        memcpy(&command, buf->base, sizeof(command));
        if (command.kind == AGREED_SEAT) {
            (void)agreed_seat(&agree->roster, agree->config.count - agree->config.listed, &command);
        } else if (command.kind == AGREED_NAME) {
            (void)agreed_name(&agree->roster, agree->config.listed, &command);
        } else if (command.kind == AGREED_FORGET) {
            apply_forget(agree, &command);
        } else {
            apply_view(agree, &command);
        }
    }
    return 0;
}

static int fsm_snapshot(struct raft_fsm *fsm, struct raft_buffer *bufs[], unsigned *n_bufs)
{
    struct agree *agree = fsm->data;

    *bufs = raft_malloc(sizeof(**bufs));
    if (*bufs == NULL) {
        return RAFT_NOMEM;
    }
    (*bufs)[0].base = raft_malloc(AGREE_STATE_BYTES);
    if ((*bufs)[0].base == NULL) {
        raft_free(*bufs);
        return RAFT_NOMEM;
    }
    (*bufs)[0].len = agree_state_write(&agree->applied, &agree->roster, (*bufs)[0].base);
    *n_bufs = 1;
    return 0;
}

static int fsm_restore(struct raft_fsm *fsm, struct raft_buffer *buf)
{
    struct agree *agree = fsm->data;
    struct agreed agreed;
    struct agreed_roster roster;

    if (!agree_state_read(agree, buf->base, buf->len, &agreed, &roster)) {
        return RAFT_MALFORMED;
    }
    agree->applied = agreed;
    agree->roster = roster;
    agree_learn(agree, &agreed);
    raft_free(buf->base);
    return 0;
}

/* ---- life ----------------------------------------------------------------- */

static void set_up(struct agree *agree)
{
    agree->io = (struct raft_io){
        .version = 2,
        .impl = agree,
        .init = io_init,
        .close = io_close,
        .load = io_load,
        .start = io_start,
        .bootstrap = io_bootstrap,
        .recover = io_recover,
        .set_term = io_set_term,
        .set_vote = io_set_vote,
        .send = io_send,
        .append = io_append,
        .truncate = io_truncate,
        .snapshot_put = io_snapshot_put,
        .snapshot_get = io_snapshot_get,
        .time = io_time,
        .random = io_random,
        .async_work = io_async_work,
    };
    agree->fsm = (struct raft_fsm){.version = 1,
                                   .data = agree,
                                   .apply = fsm_apply,
                                   .snapshot = fsm_snapshot,
                                   .restore = fsm_restore};
}

static int bootstrap(struct agree *agree)
{
    struct raft_configuration configuration;
    int error = agree_conf_make(agree, &agree->begun, &configuration);

    if (error != 0) {
        return error;
    }
    error = raft_bootstrap(&agree->raft, &configuration);
    raft_configuration_close(&configuration);
    return error;
}

static bool votes_alone(const struct agree *agree, const struct agree_conf *conf)
{
    return agree_conf_voters(conf) == 1 && agree_is_voter(conf, agree->config.self);
}

/* libraft has who votes alone lead in the term that is, in which another may have led that took
 * itself out: so there would be two. It leads in one of its own. */
static int begin_term(struct agree *agree)
{
    agree->log.term++;
    agree->log.vote = agree_id(agree->config.self);
    agree->log.begun = 0;
    return agree_raft_keep(agree);
}

/* What this node has begun, and what is behind it, only it has counted, and nobody was told. */
static void drop_begun(struct agree_log *log)
{
    if (log->begun != 0) {
        LOG_INFO("who votes is as it was: the change was not decided", "index=%llu",
                 (unsigned long long)log->begun);
        log->count = (uint32_t)(log->begun - log->first);
        log->begun = 0;
    }
}

int agree_raft_start(struct agree *agree, bool is_new)
{
    struct agree_conf conf;
    int error;

    drop_begun(&agree->log);
    agree_conf_at(agree, UINT64_MAX - 1, &conf);
    if (votes_alone(agree, &conf) && begin_term(agree) != 0) {
        return RAFT_IOERR;
    }
    set_up(agree);
    error = raft_init(&agree->raft, &agree->io, &agree->fsm, agree_id(agree->config.self),
                      agree->names[agree->config.self]);
    if (error != 0) {
        return error;
    }
    raft_set_election_timeout(&agree->raft, AGREE_ELECTION_MS);
    raft_set_heartbeat_timeout(&agree->raft, AGREE_HEARTBEAT_MS);
    raft_set_snapshot_threshold(&agree->raft, AGREE_SNAPSHOT);
    raft_set_snapshot_trailing(&agree->raft, AGREE_TRAILING);
    /* One that is lost is sent again after so long; it is small. */
    raft_set_install_snapshot_timeout(&agree->raft, AGREE_ELECTION_MS);
    raft_set_pre_vote(&agree->raft, true);
    if (is_new) {
        error = bootstrap(agree);
    }
    if (error == 0) {
        error = raft_start(&agree->raft);
    }
    if (error != 0) {
        raft_close(&agree->raft, NULL);
        return error;
    }
    agree->running = true;
    agree_conf_started(agree);
    return 0;
}

/* libraft applies all behind the snapshot again: to what was then. Who there is stays known. */
static void begin_to_apply(struct agree *agree)
{
    if (agree->roster.changes > agree->told_roster.changes) {
        agree->told_roster = agree->roster;
    }
    if (agree->log.snapshot_index == 0) {
        agreed_init(&agree->applied, agree->config.listed);
        memset(&agree->roster, 0, sizeof(agree->roster));
    }
}

void agree_raft_drop(struct agree *agree)
{
    agree_raft_stop(agree);
    agree_run_later(agree);
    drop_begun(&agree->log);
    begin_to_apply(agree);
    if (agree_raft_keep(agree) == 0 && agree_raft_start(agree, false) != 0) {
        agree->failed = true;
    }
}

void agree_raft_tick(struct agree *agree)
{
    struct raft *raft = &agree->raft;

    if (raft_state(raft) == RAFT_FOLLOWER && votes_alone(agree, &agree->own) &&
        io_time(&agree->io) - raft->election_timer_start >=
            raft->follower_state.randomized_election_timeout) {
        if (begin_term(agree) != 0) {
            return;
        }
        raft->current_term = agree->log.term;
        raft->voted_for = agree->log.vote;
    }
    agree->tick(&agree->io);
}

void agree_raft_stop(struct agree *agree)
{
    if (agree->running) {
        agree->running = false;
        raft_close(&agree->raft, NULL);
    }
}

/* What a leader hears of how far others are. */
static void note_ack(struct agree *agree, uint32_t rank,
                     const struct raft_append_entries_result *result)
{
    struct agree_member *member = &agree->members[rank];

    if (!agree->leads || result->term != agree->raft.current_term) {
        return;
    }
    member->acked_us = agree->now_us;
    if (result->rejected == 0) {
        member->stored = result->last_log_index;
    }
}

/* What is ours and the leader's ends with what it says now, if it is not refused. libraft takes for
 * decided what it has itself, as far as the leader says: so that must not be further. */
static void note_matched(struct agree *agree, struct raft_message *message)
{
    if (message->type == RAFT_IO_APPEND_ENTRIES) {
        struct raft_append_entries *append = &message->append_entries;

        agree->matched = append->prev_log_index + append->n_entries;
        append->leader_commit = min_u64(append->leader_commit, agree->matched);
    } else if (message->type == RAFT_IO_INSTALL_SNAPSHOT) {
        agree->matched = message->install_snapshot.last_index;
    }
}

/* Any member may come to vote, or to lead, before we hear of it: so all are listened to. */
void agree_raft_hear(struct agree *agree, uint32_t rank, const uint8_t *bytes, size_t count)
{
    struct raft_message message = {0};
    nigh_status status;

    if (!agree->running || agree->failed ||
        agreed_is_struck(agree_roster(agree), agree->config.listed, rank)) {
        return;
    }
    message.server_id = agree_id(rank);
    message.server_address = agree->names[rank];
    status = agree_decode(agree, bytes, count, &message);
    if (status != NIGH_OK) {
        agree->malformed += status == NIGH_PROTOCOL ? 1 : 0;
        return; /* lost, if for want of memory */
    }
    if (!agree_is_sound(agree, &message)) {
        agree_discard(&message);
        agree->malformed++;
        return;
    }
    if (message.type == RAFT_IO_APPEND_ENTRIES &&
        !agree_conf_roll_back(agree, &message.append_entries)) {
        agree_discard(&message);
        return;
    }
    if (message.type == RAFT_IO_APPEND_ENTRIES_RESULT) {
        note_ack(agree, rank, &message.append_entries_result);
    }
    note_matched(agree, &message);
    agree->recv(&agree->io, &message);
}

static void on_applied(struct raft_apply *request, int status, void *result)
{
    struct agree *agree = request->data;

    (void)status;
    (void)result;
    agree->apply_pending = false;
}

bool agree_raft_propose(struct agree *agree, const struct agreed_command *command)
{
    struct raft_buffer buf = {.base = raft_malloc(sizeof(*command)), .len = sizeof(*command)};

    if (buf.base == NULL) {
        return false;
    }
    memcpy(buf.base, command, sizeof(*command));
    agree->apply.data = agree;
    agree->apply_pending = true;
    agree->going = command->kind == AGREED_FORGET ? (uint32_t)command->epoch : AGREE_NOBODY;
    if (raft_apply(&agree->raft, &agree->apply, &buf, 1, on_applied) != 0) {
        agree->apply_pending = false;
        raft_free(buf.base);
        return false;
    }
    agree->proposed++;
    return true;
}

static void on_barrier(struct raft_barrier *request, int status)
{
    struct agree *agree = request->data;

    agree->barrier_pending = false;
    if (status == 0 && agree_raft_settle(agree)) {
        agree->ready = true;
        agree->reached = agree->barriers;
        agree_answer_first(agree);
    }
}

bool agree_raft_barrier(struct agree *agree)
{
    agree->barrier.data = agree;
    agree->barrier_pending = true;
    agree->barriers++;
    if (raft_barrier(&agree->raft, &agree->barrier, on_barrier) != 0) {
        agree->barrier_pending = false;
        return false;
    }
    return true;
}
