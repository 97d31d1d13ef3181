/* SPDX-License-Identifier: Apache-2.0 */
/* See log_files.h: what is durable is found, and what was and is not any more. */
#include <stdlib.h>
#include <string.h>

#define LOG_MODULE "space-log"
#include "base/check.h"
#include "base/log.h"
#include "space/log_files.h"

struct reading {
    const struct space_log_files *files;
    struct space_log_state *state;
    uint8_t *bytes;             /* LIMIT_SPACE_LOG_BATCH */
    struct space_log_name name; /* of the image */
    uint64_t next;              /* the number of the next record of the log */
    uint64_t to;                /* the image may know of what is up to this */
    uint64_t records;
};

/* ---- batches -------------------------------------------------------------- */

/* The batch there. NIGH_NOT_FOUND: none. NIGH_CORRUPT: there is no such file. */
static nigh_status read_batch(struct reading *reading, enum space_log_file file, uint64_t offset,
                              struct space_log_batch *batch)
{
    const struct space_log_files *files = reading->files;
    uint32_t whole;
    size_t got;
    nigh_status status =
        files->read(files->context, file, offset, reading->bytes, SPACE_LOG_SECTOR, &got);

    if (status != NIGH_OK) {
        return status == NIGH_NOT_FOUND ? NIGH_CORRUPT : status;
    }
    whole = got < SPACE_LOG_HEAD_BYTES ? 0 : space_log_batch_bytes(reading->bytes);
    if (whole == 0) {
        return NIGH_NOT_FOUND;
    }
    if (whole > SPACE_LOG_SECTOR) {
        status = files->read(files->context, file, offset, reading->bytes, whole, &got);
    }
    return status == NIGH_OK ? space_log_open_batch(reading->bytes, got, batch) : status;
}

/* ---- the image ------------------------------------------------------------ */

/* Whether there is a frame for each copy that lay in one. Sets of so many times as many are parts
 * of those there were; of any other number one may have more copies than frames. */
static bool has_frames_for(const struct space_log_geometry *geometry, uint32_t frames)
{
    return frames == 0 || (geometry->frames >= frames && geometry->frames % frames == 0);
}

static nigh_status begin_image(struct reading *reading, const struct space_log_record *record)
{
    const struct space_log_geometry *geometry = &reading->state->geometry;

    if (record->kind != SPACE_LOG_IMAGE) {
        return NIGH_CORRUPT;
    }
    /* No damage: all of it is there yet. */
    if (record->offset != geometry->block_bytes || record->blocks != geometry->blocks ||
        !has_frames_for(geometry, record->epoch.count)) {
        LOG_ERROR("a space's log is of another geometry",
                  "block_bytes=%u blocks=%u frames=%u had_block_bytes=%u had_blocks=%u "
                  "had_frames=%u do=\"give this node the block size and home that it had, and as "
                  "large a cache, or whole times as large\"",
                  geometry->block_bytes, geometry->blocks, geometry->frames, record->offset,
                  record->blocks, record->epoch.count);
        return NIGH_INVALID;
    }
    reading->next = record->address;
    return NIGH_OK;
}

/* One batch of it. *is_whole: its end is here. */
static nigh_status apply_image(struct reading *reading, const struct space_log_batch *batch,
                               bool *is_whole)
{
    struct space_log_record record;
    uint32_t at = 0, count = 0;

    for (; space_log_next_record(batch, &at, &record); count++) {
        nigh_status status = NIGH_OK;

        if (*is_whole) {
            return NIGH_CORRUPT;
        }
        if (batch->first + count == 0) {
            status = begin_image(reading, &record);
        } else if (record.kind == SPACE_LOG_IMAGE_END) {
            reading->to = record.address;
            *is_whole = true;
        } else {
            status = space_log_apply(reading->state, &record, true);
        }
        if (status != NIGH_OK) {
            return status;
        }
    }
    return at == batch->size_bytes && count == batch->records ? NIGH_OK : NIGH_CORRUPT;
}

static nigh_status read_image(struct reading *reading)
{
    struct space_log_batch batch;
    uint64_t offset = 0, first = 0;
    bool is_whole = false;

    while (!is_whole) {
        nigh_status status = read_batch(reading, SPACE_LOG_IMAGE_NOW, offset, &batch);

        if (status != NIGH_OK) {
            return status == NIGH_NOT_FOUND ? NIGH_CORRUPT : status;
        }
        if (offset == 0) {
            reading->name.life = batch.name.life;
            reading->name.generation = batch.name.generation;
        }
        if (!space_log_name_equal(&batch.name, &reading->name) || batch.first != first) {
            return NIGH_CORRUPT;
        }
        status = apply_image(reading, &batch, &is_whole);
        if (status != NIGH_OK) {
            return status;
        }
        offset += batch.whole;
        first += batch.records;
    }
    reading->records = first;
    return NIGH_OK;
}

/* ---- the log behind it ---------------------------------------------------- */

static nigh_status apply_batch(struct reading *reading, const struct space_log_batch *batch)
{
    struct space_log_record record;
    uint32_t at = 0, count = 0;

    for (; space_log_next_record(batch, &at, &record); count++) {
        nigh_status status = space_log_apply(reading->state, &record, reading->next <= reading->to);

        if (status != NIGH_OK) {
            return status;
        }
        reading->next++;
    }
    reading->records += count;
    return at == batch->size_bytes && count == batch->records ? NIGH_OK : NIGH_CORRUPT;
}

static enum space_log_file file_of(uint64_t generation)
{
    return generation % 2 == 0 ? SPACE_LOG_EVEN : SPACE_LOG_ODD;
}

/* All of a generation that follows on what was read; *offset: where it ends. */
static nigh_status read_log(struct reading *reading, const struct space_log_name *name,
                            uint64_t *offset)
{
    struct space_log_batch batch;

    for (*offset = 0;; *offset += batch.whole) {
        nigh_status status = read_batch(reading, file_of(name->generation), *offset, &batch);

        if (status == NIGH_NOT_FOUND) {
            return NIGH_OK;
        }
        if (status != NIGH_OK) {
            return status;
        }
        if (!space_log_name_equal(&batch.name, name) || batch.first != reading->next) {
            return NIGH_OK;
        }
        status = apply_batch(reading, &batch);
        if (status != NIGH_OK) {
            return status;
        }
    }
}

/*
 * A batch is written when the one before is durable: so none of this life may be there behind what
 * was read. One that is shows that what lies before it was durable, and is not any more.
 */
static nigh_status claim_end(struct reading *reading, const struct space_log_name *name,
                             uint64_t offset)
{
    struct space_log_batch batch;
    uint8_t head[SPACE_LOG_HEAD_BYTES];
    size_t got;

    for (;; offset += SPACE_LOG_SECTOR) {
        nigh_status status = reading->files->read(
            reading->files->context, file_of(name->generation), offset, head, sizeof(head), &got);

        if (status != NIGH_OK || got < sizeof(head)) {
            return status;
        }
        if (space_log_batch_bytes(head) == 0) {
            continue;
        }
        status = read_batch(reading, file_of(name->generation), offset, &batch);
        if (status == NIGH_OK && space_log_name_equal(&batch.name, name)) {
            return NIGH_CORRUPT;
        }
        if (status != NIGH_OK && status != NIGH_NOT_FOUND) {
            return status;
        }
    }
}

/* ---- all ------------------------------------------------------------------ */

/* There is no image: then there may be no log of this space either. */
static nigh_status claim_nothing(struct reading *reading)
{
    for (uint8_t file = SPACE_LOG_EVEN; file <= SPACE_LOG_ODD; file++) {
        struct space_log_batch batch;
        nigh_status status = read_batch(reading, (enum space_log_file)file, 0, &batch);

        if (status == NIGH_OK) {
            return NIGH_CORRUPT;
        }
        if (status != NIGH_NOT_FOUND && status != NIGH_CORRUPT) {
            return status;
        }
    }
    return NIGH_OK;
}

static nigh_status read_all(struct reading *reading, struct space_log_found *found)
{
    struct space_log_name now = reading->name, then;
    uint64_t end_now = 0, end_then = 0;
    nigh_status status = read_image(reading);

    if (status != NIGH_OK) {
        return status;
    }
    now = reading->name;
    now.is_image = false;
    then = now;
    then.generation++;
    status = read_log(reading, &now, &end_now);
    if (status == NIGH_OK) {
        status = read_log(reading, &then, &end_then);
    }
    if (status == NIGH_OK && reading->next <= reading->to) {
        status = NIGH_CORRUPT;
    }
    if (status == NIGH_OK) {
        status = claim_end(reading, &now, end_now);
    }
    if (status == NIGH_OK) {
        status = claim_end(reading, &then, end_then);
    }
    found->is_new = false;
    found->generation = then.generation;
    found->next = reading->next;
    found->records = reading->records;
    return status;
}

nigh_status space_log_recover(const struct space_log_files *files, uint64_t identity,
                              struct space_log_state *state, struct space_log_found *found)
{
    struct reading reading = {.files = files,
                              .state = state,
                              .bytes = malloc(LIMIT_SPACE_LOG_BATCH),
                              .name = {.identity = identity, .is_image = true}};
    struct space_log_found read = {.is_new = true, .next = 1};
    uint8_t byte;
    size_t got;
    nigh_status status;

    if (reading.bytes == NULL) {
        return NIGH_NO_RESOURCES;
    }
    status = files->read(files->context, SPACE_LOG_IMAGE_NOW, 0, &byte, 1, &got);
    if (status == NIGH_NOT_FOUND) {
        status = claim_nothing(&reading);
    } else if (status == NIGH_OK) {
        status = read_all(&reading, &read);
    }
    free(reading.bytes);
    if (status != NIGH_OK) {
        LOG_ERROR(
            "a space's log cannot be read: what it had is not there",
            "status=%s records=%llu do=\"see to the disk of --log-dir, and start the node again\"",
            nigh_status_name(status), (unsigned long long)reading.records);
        return status;
    }
    *found = read;
    return NIGH_OK;
}
