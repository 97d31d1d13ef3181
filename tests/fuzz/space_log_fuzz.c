/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a space's log: the image and both files. The first byte says which checksums are
 * made right, so that what lies behind them is reached. What is recovered is within its bounds, and
 * a log can begin from it, from which the same is recovered.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "fuzz_input.h"
#include "space/log_files.h"

#define FILE_BYTES LIMIT_SPACE_LOG_BYTES_MIN
#define BLOCKS     16u
#define BYTES      64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static uint8_t files[SPACE_LOG_FILES][FILE_BYTES];
static size_t sizes[SPACE_LOG_FILES];

static nigh_status fuzz_size(void *context, enum space_log_file file, uint64_t size)
{
    (void)context;
    NIGH_ASSERT(size <= FILE_BYTES);
    if (size > sizes[file]) {
        memset(files[file] + sizes[file], 0, size - sizes[file]);
    }
    sizes[file] = size;
    return NIGH_OK;
}

static nigh_status fuzz_read(void *context, enum space_log_file file, uint64_t offset, void *bytes,
                             size_t size, size_t *got)
{
    (void)context;
    if (sizes[file] == 0) {
        return NIGH_NOT_FOUND;
    }
    *got = offset >= sizes[file] ? 0 : min_u64(size, sizes[file] - offset);
    memcpy(bytes, files[file] + offset, *got);
    return NIGH_OK;
}

static nigh_status fuzz_write(void *context, enum space_log_file file, uint64_t offset,
                              const void *bytes, size_t size)
{
    (void)context;
    NIGH_ASSERT(offset + size <= FILE_BYTES);
    memcpy(files[file] + offset, bytes, size);
    sizes[file] = max_u64(sizes[file], offset + size);
    return NIGH_OK;
}

static nigh_status fuzz_sync(void *context, enum space_log_file file)
{
    (void)context;
    (void)file;
    return NIGH_OK;
}

static nigh_status fuzz_rename(void *context)
{
    (void)context;
    memcpy(files[SPACE_LOG_IMAGE_NOW], files[SPACE_LOG_IMAGE_NEW], FILE_BYTES);
    sizes[SPACE_LOG_IMAGE_NOW] = sizes[SPACE_LOG_IMAGE_NEW];
    sizes[SPACE_LOG_IMAGE_NEW] = 0;
    return NIGH_OK;
}

static nigh_status fuzz_sync_directory(void *context)
{
    (void)context;
    return NIGH_OK;
}

/* Makes each batch's checksum right. */
static void mend(uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at + SPACE_LOG_SECTOR <= size; at += SPACE_LOG_SECTOR) {
        uint32_t whole = space_log_batch_bytes(bytes + at);

        if (whole != 0 && at + whole <= size) {
            uint32_t used = bytes_get_u32(bytes + at + 12);

            bytes_put_u32(bytes + at + 4, crc32c(0, bytes + at + 8, used - 8));
        }
    }
}

static nigh_status recover(const struct space_log_files *table, struct space_log_state *state,
                           uint8_t *home, struct space_log_found *found)
{
    const struct space_log_geometry geometry = {
        .rank = 1, .block_bytes = BYTES, .blocks = BLOCKS, .frames = 4};

    memset(home, 0, BLOCKS * BYTES);
    NIGH_ASSERT(space_log_state_init(state, &geometry, home, 1) == NIGH_OK);
    return space_log_recover(table, 7, state, found);
}

static void claim_equal(const struct space_log_state *a, struct space_log_state *b)
{
    const struct space_log_copy *copy;
    const uint8_t *bytes, *others;
    size_t cursor = 0;

    NIGH_ASSERT(a->term == b->term && a->index.count == b->index.count);
    NIGH_ASSERT(memcmp(a->blocks, b->blocks, BLOCKS * sizeof(*a->blocks)) == 0);
    while ((copy = space_log_next_copy(a, &cursor, &bytes)) != NULL) {
        const struct space_log_copy *other = space_log_find_copy(b, copy->address, &others);

        NIGH_ASSERT(other != NULL && memcmp(bytes, others, BYTES) == 0);
        NIGH_ASSERT(space_epoch_equal(copy->epoch, other->epoch));
        NIGH_ASSERT(copy->handed_to == other->handed_to);
    }
}

static void begin_from(const struct space_log_files *table, struct space_log_state *state,
                       const struct space_log_found *found)
{
    const struct space_log_name name = {.identity = 7, .life = found->generation + 1};
    static uint8_t home[BLOCKS * BYTES];
    struct space_log log;
    struct space_log_state again;
    struct space_log_found found_again;

    if (space_log_start(&log, table, &name, FILE_BYTES, state, found) != NIGH_OK) {
        return;
    }
    space_log_fini(&log);
    NIGH_ASSERT(recover(table, &again, home, &found_again) == NIGH_OK);
    NIGH_ASSERT(found_again.next == found->next && !found_again.is_new);
    claim_equal(state, &again);
    space_log_state_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static uint8_t home[BLOCKS * BYTES];
    const struct space_log_files table = {
        NULL, fuzz_size, fuzz_read, fuzz_write, fuzz_sync, fuzz_rename, fuzz_sync_directory,
    };
    struct fuzz_input input = {data, size_bytes};
    uint8_t how = fuzz_byte(&input);
    struct space_log_state state;
    struct space_log_found found;

    memset(sizes, 0, sizeof(sizes));
    for (uint32_t n = 0; n < SPACE_LOG_FILES; n++) {
        uint32_t file = n == 0 ? SPACE_LOG_IMAGE_NOW : n - 1;

        if (file != SPACE_LOG_IMAGE_NEW) {
            size_t room = fuzz_byte(&input) % 4 * SPACE_LOG_SECTOR;

            sizes[file] = min_u64(room, input.left);
            memset(files[file], 0, FILE_BYTES);
            memcpy(files[file], input.bytes, sizes[file]);
            input.bytes += sizes[file];
            input.left -= sizes[file];
            if ((how >> n & 1) != 0) {
                mend(files[file], sizes[file]);
            }
        }
    }
    if (recover(&table, &state, home, &found) == NIGH_OK) {
        begin_from(&table, &state, &found);
    }
    space_log_state_fini(&state);
    return 0;
}
