/* SPDX-License-Identifier: Apache-2.0 */
/* What a node keeps beside its spaces' logs: which are deleted, in order, and nothing that is
 * damaged. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/space_log_folder.h"
#include "support/support.h"

#define FILE_BYTES 2072

static int fd;

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_last_that_were_deleted_are_kept_in_order, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_damaged_is_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_written_is_as_it_was, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
