/* SPDX-License-Identifier: Apache-2.0 */
/* What a node keeps beside its spaces' logs: which are deleted, in order, and nothing that is
 * damaged; and what a start makes of all that lies there. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/lane_spaces.h"
#include "node/space_log_folder.h"
#include "support/support.h"

#define FILE_BYTES 2072
#define SPACES     12u
#define ROUNDS     2u

static int fd;
static struct session_node_page page;

static int set_up(void **state)
{
    char path[256];

    (void)state;
    support_path(path, sizeof(path), "rank-0");
    (void)mkdir(path, 0700);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlinkat(fd, "deleted", 0);
    (void)unlinkat(fd, "deleted.new", AT_REMOVEDIR);
    return close(fd);
}

static void claim(uint64_t first, uint32_t count)
{
    uint64_t births[LIMIT_SPACE_TOMBSTONES];

    assert_int_equal(space_log_folder_deleted(fd, births), count);
    for (uint32_t n = 0; n < count; n++) {
        assert_int_equal(births[n], first + n);
    }
}

static void the_last_that_were_deleted_are_kept_in_order(void **state)
{
    (void)state;
    claim(0, 0);
    for (uint64_t birth = 1; birth <= LIMIT_SPACE_TOMBSTONES + 44u; birth++) {
        space_log_folder_bury(fd, birth);
        if (birth <= LIMIT_SPACE_TOMBSTONES) {
            claim(1, (uint32_t)birth);
        }
    }
    claim(45, LIMIT_SPACE_TOMBSTONES);
    space_log_folder_bury(fd, 45); /* that is known */
    claim(45, LIMIT_SPACE_TOMBSTONES);
}

static void what_is_damaged_is_none(void **state)
{
    (void)state;
    for (off_t at = 0; at < FILE_BYTES; at += 37) {
        uint8_t byte;
        int file_fd;

        space_log_folder_bury(fd, 7);
        claim(7, 1);
        file_fd = openat(fd, "deleted", O_RDWR | O_CLOEXEC);
        assert_true(file_fd >= 0);
        assert_int_equal(pread(file_fd, &byte, 1, at), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(file_fd, &byte, 1, at), 1);
        claim(0, 0);
        assert_int_equal(ftruncate(file_fd, at), 0);
        claim(0, 0);
        close(file_fd);
    }
}

/* What was kept before is there yet, and no name is followed out of the directory. */
static void what_cannot_be_written_is_as_it_was(void **state)
{
    (void)state;
    space_log_folder_bury(fd, 7);
    assert_int_equal(mkdirat(fd, "deleted.new", 0700), 0);
    space_log_folder_bury(fd, 8);
    claim(7, 1);
    assert_int_equal(unlinkat(fd, "deleted", 0), 0);
    assert_int_equal(symlinkat("/dev/zero", fd, "deleted"), 0);
    claim(0, 0);
}

/* ---- a start -------------------------------------------------------------- */

/* The lane of a node that is alone: how many spaces it knows. It is stopped when all is done that
 * it has asked for. */
static uint64_t start(void)
{
    const struct space_log_folder folder = {.fd = fd};
    const struct lane_config config = {.lanes = 1,
                                       .max_sessions = 1,
                                       .page = &page,
                                       .space_memory_bytes = UINT64_C(1) << 20,
                                       .space_logs = &folder,
                                       .store = {.incarnation = 1}};
    nigh_node_stats stats = {0};
    struct lane *lane;

    memset(&page, 0, sizeof(page));
    assert_int_equal(lane_create(&config, &lane), NIGH_OK);
    lane_spaces_count(lane, &stats);
    lane_destroy(lane);
    return stats.spaces;
}

static void make_directory(uint64_t birth)
{
    struct space_info info = {.birth = birth,
                              .home_bytes = 8192,
                              .cache_bytes = 8192,
                              .block_bytes = 512,
                              .durability = SPACE_DURABLE_SYNC};
    int space_fd;

    info.name_bytes = (uint32_t)snprintf(info.name, sizeof(info.name), "s%u", (unsigned)birth);
    info.id = space_name_id(info.name, info.name_bytes);
    assert_int_equal(space_log_folder_make(fd, &info, &space_fd), NIGH_OK);
    close(space_fd);
}

/* What is on its way out moves the others up in the listing: each of them is found all the same. */
static void what_is_removed_hides_no_other(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct space_info info;
        uint32_t cursor = 0;

        for (uint64_t birth = 1; birth <= SPACES; birth++) {
            make_directory(birth);
        }
        for (uint32_t n = 0; n < 3; n++) {
            assert_true(space_log_folder_next(fd, &cursor, &info));
            space_log_folder_bury(fd, info.birth);
        }
        assert_int_equal(start(), SPACES - 3);
        assert_int_equal(start(), SPACES - 3);
        for (uint64_t birth = 1; birth <= SPACES; birth++) {
            space_log_folder_remove(fd, birth);
        }
        assert_int_equal(unlinkat(fd, "deleted", 0), 0);
    }
}

/* A node that is killed as it removes a log has left some of it, which says no more what it is. */
static void what_is_left_of_what_was_deleted_goes(void **state)
{
    int space_fd, file_fd;

    (void)state;
    make_directory(7);
    space_fd = openat(fd, "0000000000000007", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(space_fd >= 0);
    file_fd = openat(space_fd, "log.0", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(file_fd >= 0);
    close(file_fd);
    assert_int_equal(unlinkat(space_fd, "space", 0), 0);
    close(space_fd);
    assert_int_equal(start(), 0);
    assert_true(space_log_folder_has(fd, 7)); /* nobody knows that it was deleted */
    space_log_folder_bury(fd, 7);
    assert_int_equal(start(), 0);
    assert_false(space_log_folder_has(fd, 7));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_last_that_were_deleted_are_kept_in_order, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_damaged_is_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_written_is_as_it_was, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_removed_hides_no_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_left_of_what_was_deleted_goes, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
