/* SPDX-License-Identifier: Apache-2.0 */
/* See log_files.h: jobs, and how a log begins. */
#include "space/log_files.h"

#include <string.h>

#define LOG_MODULE "space-log"
#include "base/check.h"
#include "base/log.h"

/* ---- jobs ----------------------------------------------------------------- */

static nigh_status write_and_sync(const struct space_log_files *files, struct space_log_job *job)
{
    nigh_status status = files->write(files->context, (enum space_log_file)job->file, job->offset,
                                      job->bytes, job->size_bytes);

    return status == NIGH_OK ? files->sync(files->context, (enum space_log_file)job->file) : status;
}

static nigh_status write_image(const struct space_log_files *files, struct space_log_job *job)
{
    nigh_status status = NIGH_OK;

    if (job->offset == 0) {
        status = files->size(files->context, SPACE_LOG_IMAGE_NEW, 0);
    }
    if (status == NIGH_OK) {
        status = files->write(files->context, SPACE_LOG_IMAGE_NEW, job->offset, job->bytes,
                              job->size_bytes);
    }
    return status;
}

/* Its bytes are durable before its name is: else the name may be of what is not there. */
static nigh_status sync_image(const struct space_log_files *files)
{
    nigh_status status = files->sync(files->context, SPACE_LOG_IMAGE_NEW);

    if (status == NIGH_OK) {
        status = files->rename(files->context);
    }
    if (status == NIGH_OK) {
        status = files->sync_directory(files->context);
    }
    return status;
}

void space_log_run(const struct space_log_files *files, struct space_log_job *job)
{
    switch ((enum space_log_task)job->task) {
    case SPACE_LOG_COMMIT: job->status = write_and_sync(files, job); break;
    case SPACE_LOG_IMAGE_WRITE: job->status = write_image(files, job); break;
    case SPACE_LOG_IMAGE_SYNC: job->status = sync_image(files); break;
    }
    if (job->status != NIGH_OK) {
        LOG_ERROR(
            "a space's log cannot be written: nothing is durable here any more",
            "task=%u status=%s do=\"make room on the disk of --log-dir, and see the next lines\"",
            job->task, nigh_status_name(job->status));
    }
}

/* ---- beginning ------------------------------------------------------------ */

/* Runs jobs until there is none. */
static nigh_status run_all(struct space_log *log, const struct space_log_files *files)
{
    struct space_log_job job;

    while (space_log_take_job(log, &job)) {
        space_log_run(files, &job);
        space_log_ended(log, &job);
    }
    return log->status;
}

static nigh_status put(struct space_log *log, const struct space_log_files *files,
                       const struct space_log_record *record)
{
    nigh_status status = space_log_put(log, record);

    if (status == NIGH_BUSY) {
        status = run_all(log, files);
        status = status == NIGH_OK ? space_log_put(log, record) : status;
    }
    return status;
}

/* Free blocks side by side, whose last addresses are of one life, from that one on. */
static uint32_t count_freed(const struct space_log_state *state, uint32_t number)
{
    const struct space_log_block *blocks = state->blocks;
    uint32_t end = number + 1;

    while (end < state->geometry.blocks && blocks[end].state == SPACE_LOG_IS_FREE &&
           blocks[end].life == blocks[number].life) {
        end++;
    }
    return end - number;
}

static nigh_status put_block(struct space_log *log, const struct space_log_files *files,
                             const struct space_log_state *state, uint32_t number)
{
    const struct space_log_block *block = &state->blocks[number];
    uint32_t block_bytes = state->geometry.block_bytes;
    struct space_log_record record = {
        .address = (uint64_t)state->geometry.rank << SPACE_LOG_RANK_SHIFT |
                   (uint64_t)block->life << space_log_place_bits(&state->geometry) |
                   (uint64_t)number * block_bytes,
        .blocks = block->run,
    };
    nigh_status status = NIGH_OK;

    if (block->state == SPACE_LOG_IS_FREE) {
        record.kind = SPACE_LOG_FREE;
        record.blocks = count_freed(state, number);
        return block->life == 0 ? NIGH_OK : put(log, files, &record);
    }
    if (block->state == SPACE_LOG_IS_HERE ||
        (block->state == SPACE_LOG_IS_OWNED && block->is_ours)) {
        record.kind = SPACE_LOG_BACK;
        record.length = block_bytes;
        record.bytes = state->home + (size_t)number * block_bytes;
        status = put(log, files, &record);
        record.length = 0;
        record.bytes = NULL;
    }
    if (status == NIGH_OK && block->state == SPACE_LOG_IS_OWNED) {
        record.kind = SPACE_LOG_OWNED;
        record.seat = block->owner;
        record.is_ours = block->is_ours;
        record.epoch = block->epoch;
        status = put(log, files, &record);
    } else if (status == NIGH_OK && block->state == SPACE_LOG_IS_LOST) {
        record.kind = SPACE_LOG_LOST;
        status = put(log, files, &record);
    }
    return status;
}

static nigh_status put_copy(struct space_log *log, const struct space_log_files *files,
                            const struct space_log_state *state, const struct space_log_copy *copy,
                            const uint8_t *bytes)
{
    struct space_log_record record = {.kind = SPACE_LOG_COPY,
                                      .address = copy->address,
                                      .epoch = copy->epoch,
                                      .length = state->geometry.block_bytes,
                                      .bytes = bytes};
    nigh_status status = put(log, files, &record);

    if (status == NIGH_OK && copy->handed_to != SPACE_NOBODY) {
        record = (struct space_log_record){.kind = SPACE_LOG_HANDED,
                                           .seat = copy->handed_to,
                                           .address = copy->address,
                                           .epoch = copy->epoch};
        status = put(log, files, &record);
    }
    return status;
}

static nigh_status put_member(struct space_log *log, const struct space_log_files *files,
                              const struct space_log_state *state, uint8_t seat)
{
    const struct space_log_record member = {.kind = SPACE_LOG_MEMBER,
                                            .seat = seat,
                                            .is_ours = space_set_has(state->members, seat),
                                            .address = state->lives[seat],
                                            .epoch.term = state->since[seat]};

    return state->lives[seat] == 0 ? NIGH_OK : put(log, files, &member);
}

static nigh_status put_state(struct space_log *log, const struct space_log_files *files,
                             const struct space_log_state *state)
{
    const struct space_log_record term = {.kind = SPACE_LOG_TERM, .epoch = {state->term, 0}};
    const struct space_log_copy *copy;
    const uint8_t *bytes;
    size_t cursor = 0;
    uint32_t n = 0;
    nigh_status status = put(log, files, &term);

    for (uint8_t seat = 0; seat < SPACE_SEATS && status == NIGH_OK; seat++) {
        status = put_member(log, files, state, seat);
    }
    while (n < state->geometry.blocks && status == NIGH_OK) {
        status = put_block(log, files, state, n);
        n += state->blocks[n].state == SPACE_LOG_IS_FREE ? count_freed(state, n) : 1;
    }
    while (status == NIGH_OK && (copy = space_log_next_copy(state, &cursor, &bytes)) != NULL) {
        status = put_copy(log, files, state, copy, bytes);
    }
    return status;
}

static nigh_status make_image(struct space_log *log, const struct space_log_files *files,
                              const struct space_log_state *state)
{
    nigh_status status;

    space_log_begin_image(log);
    status = run_all(log, files);
    if (status == NIGH_OK) {
        status = put_state(log, files, state);
    }
    if (status == NIGH_OK) {
        status = space_log_end_image(log);
    }
    if (status == NIGH_BUSY) {
        status = run_all(log, files);
        status = status == NIGH_OK ? space_log_end_image(log) : status;
    }
    return status == NIGH_OK ? run_all(log, files) : status;
}

static nigh_status size_logs(const struct space_log_files *files, uint64_t file_bytes)
{
    for (uint8_t file = SPACE_LOG_EVEN; file <= SPACE_LOG_ODD; file++) {
        nigh_status status = files->size(files->context, (enum space_log_file)file, file_bytes);

        if (status == NIGH_OK) {
            status = files->sync(files->context, (enum space_log_file)file);
        }
        if (status != NIGH_OK) {
            return status;
        }
    }
    return files->sync_directory(files->context);
}

nigh_status space_log_start(struct space_log *log, const struct space_log_files *files,
                            const struct space_log_name *name, uint64_t file_bytes,
                            const struct space_log_state *state,
                            const struct space_log_found *found)
{
    struct space_log_name first = *name;
    nigh_status status;

    /* The image is of the next one: nothing of what there is is written over before it is whole. */
    first.generation = found->generation;
    status = space_log_init(log, &first, &state->geometry, file_bytes, found->next);
    if (status != NIGH_OK) {
        return status;
    }
    /* Where there is an image there are logs, of whatever size: who finds none knows that one is
     * gone. */
    status = found->is_new ? size_logs(files, file_bytes) : NIGH_OK;
    if (status == NIGH_OK) {
        status = make_image(log, files, state);
    }
    if (status == NIGH_OK && !found->is_new) {
        status = size_logs(files, file_bytes);
    }
    if (status != NIGH_OK) {
        space_log_fini(log);
    }
    return status;
}
