/* SPDX-License-Identifier: Apache-2.0 */
/* See log.h. */
#include "space/log.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* ---- buffers -------------------------------------------------------------- */

static void clear(struct space_log_buffer *buffer)
{
    buffer->used = SPACE_LOG_HEAD_BYTES;
    buffer->records = 0;
}

static bool make(struct space_log_buffer *buffer)
{
    buffer->bytes = malloc(LIMIT_SPACE_LOG_BATCH);
    clear(buffer);
    return buffer->bytes != NULL;
}

static bool has_room(const struct space_log_buffer *buffer, const struct space_log_record *record)
{
    return buffer->used + space_log_record_bytes(record) <= LIMIT_SPACE_LOG_BATCH;
}

static void put(struct space_log_buffer *buffer, const struct space_log_record *record,
                uint64_t number)
{
    if (buffer->records == 0) {
        buffer->first = number;
    }
    space_log_put_record(buffer->bytes + buffer->used, record);
    buffer->used += space_log_record_bytes(record);
    buffer->records++;
}

/* ---- made ----------------------------------------------------------------- */

nigh_status space_log_init(struct space_log *log, const struct space_log_name *name,
                           const struct space_log_geometry *geometry, uint64_t file_bytes,
                           uint64_t next)
{
    memset(log, 0, sizeof(*log));
    if (file_bytes < LIMIT_SPACE_LOG_BYTES_MIN || file_bytes > LIMIT_SPACE_LOG_BYTES_MAX ||
        file_bytes % SPACE_LOG_SECTOR != 0) {
        return NIGH_INVALID;
    }
    log->name = *name;
    log->name.is_image = false;
    log->geometry = *geometry;
    log->file_bytes = file_bytes;
    log->next = next;
    log->durable = next - 1;
    if (!make(&log->buffers[0]) || !make(&log->buffers[1]) || !make(&log->image.buffer)) {
        space_log_fini(log);
        return NIGH_NO_RESOURCES;
    }
    return NIGH_OK;
}

void space_log_fini(struct space_log *log)
{
    free(log->buffers[0].bytes);
    free(log->buffers[1].bytes);
    free(log->image.buffer.bytes);
    memset(log, 0, sizeof(*log));
}

/* ---- appending ------------------------------------------------------------ */

static uint64_t room_taken(uint32_t size_bytes)
{
    return align_up_u64(size_bytes, SPACE_LOG_SECTOR);
}

bool space_log_has_room(const struct space_log *log, uint32_t size_bytes)
{
    const struct space_log_buffer *buffer = &log->buffers[log->filling];
    /* The next batch is at the beginning of the other file. */
    uint64_t offset = log->image.state == SPACE_LOG_WILL_TURN ? 0 : log->offset;

    return log->status == NIGH_OK && buffer->used + size_bytes <= LIMIT_SPACE_LOG_BATCH &&
           offset + room_taken(buffer->used + size_bytes) <= log->file_bytes;
}

nigh_status space_log_append(struct space_log *log, const struct space_log_record *record,
                             uint64_t *number)
{
    if (log->status != NIGH_OK) {
        return log->status;
    }
    if (!space_log_has_room(log, space_log_record_bytes(record))) {
        return NIGH_BUSY;
    }
    *number = log->next;
    put(&log->buffers[log->filling], record, log->next++);
    return NIGH_OK;
}

/* ---- jobs ----------------------------------------------------------------- */

/* No batch is under way: so all records before those in the buffer are durable, and the new
 * generation begins with these. */
static void turn(struct space_log *log)
{
    const struct space_log_buffer *buffer = &log->buffers[log->filling];
    const struct space_log_record head = {
        .kind = SPACE_LOG_IMAGE,
        .address = buffer->records > 0 ? buffer->first : log->next,
        .offset = log->geometry.block_bytes,
        .blocks = log->geometry.blocks,
        .epoch.count = log->geometry.frames,
    };

    log->name.generation++;
    log->offset = 0;
    clear(&log->image.buffer);
    put(&log->image.buffer, &head, 0);
    log->image.next = 1;
    log->image.state = SPACE_LOG_FILLS;
}

static void take_commit(struct space_log *log, struct space_log_job *job)
{
    struct space_log_buffer *buffer = &log->buffers[log->filling];
    uint32_t whole = space_log_seal_batch(buffer->bytes, buffer->used, &log->name, buffer->first,
                                          buffer->records);

    *job = (struct space_log_job){
        .task = SPACE_LOG_COMMIT,
        .file = log->name.generation % 2 == 0 ? SPACE_LOG_EVEN : SPACE_LOG_ODD,
        .offset = log->offset,
        .bytes = buffer->bytes,
        .size_bytes = whole,
    };
    log->offset += whole;
    log->filling ^= 1;
    log->is_writing = true;
}

static void take_image(struct space_log *log, struct space_log_job *job)
{
    struct space_log_buffer *buffer = &log->image.buffer;

    *job = (struct space_log_job){
        .task = SPACE_LOG_IMAGE_WRITE,
        .file = SPACE_LOG_IMAGE_NEW,
        .offset = log->image.offset,
        .bytes = buffer->bytes,
        .size_bytes = space_log_seal_batch(buffer->bytes, buffer->used, &log->image.name,
                                           buffer->first, buffer->records),
    };
    log->image.offset += job->size_bytes;
    log->image.is_writing = true;
}

static bool is_image_ready(const struct space_log *log)
{
    return log->image.state == SPACE_LOG_IS_FULL ||
           (log->image.state == SPACE_LOG_FILLS &&
            log->image.buffer.used > LIMIT_SPACE_LOG_BATCH / 2);
}

/* Nobody is told of what it knows before that is durable by the log. */
static bool may_sync_image(const struct space_log *log)
{
    return log->image.state == SPACE_LOG_SYNCS && log->durable >= log->image.to;
}

bool space_log_take_job(struct space_log *log, struct space_log_job *job)
{
    bool has_records;

    if (log->has_job || log->status != NIGH_OK) {
        return false;
    }
    if (log->image.state == SPACE_LOG_WILL_TURN) {
        turn(log);
    }
    has_records = log->buffers[log->filling].records > 0;
    if (may_sync_image(log) && (log->was_commit || !has_records)) {
        *job = (struct space_log_job){.task = SPACE_LOG_IMAGE_SYNC, .file = SPACE_LOG_IMAGE_NEW};
    } else if (is_image_ready(log) && (log->was_commit || !has_records)) {
        take_image(log, job);
    } else if (has_records) {
        take_commit(log, job);
    } else {
        return false;
    }
    log->was_commit = job->task == SPACE_LOG_COMMIT;
    log->has_job = true;
    return true;
}

static void end_commit(struct space_log *log)
{
    struct space_log_buffer *buffer = &log->buffers[log->filling ^ 1];

    log->durable = buffer->first + buffer->records - 1;
    log->commits++;
    clear(buffer);
    log->is_writing = false;
}

static void end_image_write(struct space_log *log)
{
    clear(&log->image.buffer);
    log->image.is_writing = false;
    if (log->image.state == SPACE_LOG_IS_FULL) {
        log->image.state = SPACE_LOG_SYNCS;
    }
}

void space_log_ended(struct space_log *log, const struct space_log_job *job)
{
    NIGH_ASSERT(log->has_job);
    log->has_job = false;
    if (job->status != NIGH_OK) {
        log->status = job->status;
        return;
    }
    switch ((enum space_log_task)job->task) {
    case SPACE_LOG_COMMIT: end_commit(log); break;
    case SPACE_LOG_IMAGE_WRITE: end_image_write(log); break;
    case SPACE_LOG_IMAGE_SYNC:
        log->image.state = SPACE_LOG_NO_IMAGE;
        log->images++;
        break;
    }
}

/* ---- images --------------------------------------------------------------- */

bool space_log_wants_image(const struct space_log *log)
{
    return log->status == NIGH_OK && log->image.state == SPACE_LOG_NO_IMAGE &&
           log->offset > log->file_bytes / 2;
}

bool space_log_begin_image(struct space_log *log)
{
    if (log->status != NIGH_OK || log->image.state != SPACE_LOG_NO_IMAGE) {
        return false;
    }
    log->image.state = SPACE_LOG_WILL_TURN;
    log->image.name = log->name;
    log->image.name.generation = log->name.generation + 1;
    log->image.name.is_image = true;
    log->image.offset = 0;
    return true;
}

bool space_log_fills(const struct space_log *log)
{
    return log->status == NIGH_OK && log->image.state == SPACE_LOG_FILLS && !log->image.is_writing;
}

nigh_status space_log_put(struct space_log *log, const struct space_log_record *record)
{
    NIGH_ASSERT(log->image.state == SPACE_LOG_FILLS);
    if (log->status != NIGH_OK) {
        return log->status;
    }
    if (log->image.is_writing || !has_room(&log->image.buffer, record)) {
        return NIGH_BUSY;
    }
    put(&log->image.buffer, record, log->image.next++);
    return NIGH_OK;
}

nigh_status space_log_end_image(struct space_log *log)
{
    const struct space_log_record end = {.kind = SPACE_LOG_IMAGE_END,
                                         .address = space_log_last(log)};
    nigh_status status = space_log_put(log, &end);

    if (status != NIGH_OK) {
        return status;
    }
    log->image.to = space_log_last(log);
    log->image.state = SPACE_LOG_IS_FULL;
    return NIGH_OK;
}
