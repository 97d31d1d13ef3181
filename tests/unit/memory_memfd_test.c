/* SPDX-License-Identifier: Apache-2.0 */
/* Memory files: that they are there, stay as large as they are, and open to nobody else. */
#include "support/support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/memfd.h"

#define MIB (UINT64_C(1) << 20)

static int memfd_ok(uint64_t bytes, unsigned flags)
{
    int fd = -1;

    assert_int_equal(memfd_create_sealed("nigh-test", bytes, flags, &fd), NIGH_OK);
    return fd;
}

/* Pages of a mapping that are in memory, as the kernel counts them. */
static size_t pages_resident(void *memory, size_t bytes)
{
    size_t pages = bytes / 4096, resident = 0;
    unsigned char *map = calloc(pages, 1);

    assert_non_null(map);
    assert_int_equal(mincore(memory, bytes, map), 0);
    for (size_t i = 0; i < pages; i++)
        resident += map[i] & 1;
    free(map);
    return resident;
}

/* Pages of a mapping that this process's page tables have, from /proc/self/pagemap. */
static size_t pages_mapped(void *memory, size_t bytes)
{
    int fd = open("/proc/self/pagemap", O_RDONLY);
    size_t pages = bytes / 4096, mapped = 0;

    assert_true(fd >= 0);
    for (size_t i = 0; i < pages; i++) {
        uint64_t entry;

        assert_int_equal(pread(fd, &entry, 8, (off_t)(((uintptr_t)memory / 4096 + i) * 8)), 8);
        mapped += (entry >> 62) != 0; /* there, or on its way to another frame */
    }
    close(fd);
    return mapped;
}

static void test_every_page_is_there(void **state)
{
    struct stat st;
    void *memory;
    int fd = memfd_ok(5 * MIB + 1, 0);

    (void)state;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, 5 * MIB + 1);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_true((uint64_t)st.st_blocks * 512 >= 5 * MIB + 4096);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_int_equal(memfd_map(fd, 5 * MIB, MEMFD_WRITABLE | MEMFD_PREFAULT, &memory), NIGH_OK);
    assert_int_equal(pages_resident(memory, 5 * MIB), 5 * MIB / 4096);
    assert_int_equal(pages_mapped(memory, 5 * MIB), 5 * MIB / 4096);
    memfd_unmap(memory, 5 * MIB);
    assert_int_equal(memfd_map(fd, 5 * MIB, MEMFD_PREFAULT, &memory), NIGH_OK);
    assert_int_equal(pages_mapped(memory, 5 * MIB), 5 * MIB / 4096);
    memfd_unmap(memory, 5 * MIB);
    close(fd);

    fd = memfd_ok(MIB, MEMFD_BARE);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_blocks, 0);
    assert_int_equal(memfd_populate(fd, MIB), NIGH_OK);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal((uint64_t)st.st_blocks * 512, MIB);
    close(fd);
}

static void test_parts_are_made_and_given_back(void **state)
{
    struct stat st;
    uint8_t *bytes;
    void *memory;
    int fd = memfd_ok(4 * MIB, MEMFD_BARE);

    (void)state;
    assert_int_equal(memfd_map(fd, 4 * MIB, MEMFD_WRITABLE, &memory), NIGH_OK);
    bytes = memory;
    assert_int_equal(memfd_populate_at(fd, MIB, 2 * MIB), NIGH_OK);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal((uint64_t)st.st_blocks * 512, 2 * MIB);
    assert_int_equal(pages_mapped(memory, 4 * MIB), 0);
    assert_int_equal(memfd_prefault(bytes + 2 * MIB, MIB, true), NIGH_OK);
    assert_int_equal(pages_mapped(bytes + 2 * MIB, MIB), MIB / 4096);
    assert_int_equal(pages_mapped(bytes, MIB) + pages_mapped(bytes + 3 * MIB, MIB), 0);
    bytes[MIB] = bytes[3 * MIB - 1] = 7;
    assert_int_equal(memfd_punch_at(fd, 2 * MIB, MIB), NIGH_OK);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal((uint64_t)st.st_blocks * 512, MIB);
    assert_int_equal(bytes[MIB], 7);
    assert_int_equal(bytes[3 * MIB - 1], 0);
    memfd_unmap(memory, 4 * MIB);
    close(fd);
}

static void test_size_and_seals_stay(void **state)
{
    uint64_t bytes = 0;
    int fd = memfd_ok(MIB, 0), plain = memfd_create("plain", MFD_CLOEXEC);
    int pipes[2];

    (void)state;
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, 2 * MIB), -1);
    assert_int_equal(fallocate(fd, 0, 0, 2 * MIB), -1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
    assert_int_equal(memfd_size(fd, &bytes), NIGH_OK);
    assert_int_equal(bytes, MIB);

    /* What somebody else made does not pass for one. */
    assert_int_equal(memfd_size(plain, &bytes), NIGH_PROTOCOL);
    assert_int_equal(memfd_size(-1, &bytes), NIGH_PROTOCOL);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(memfd_size(pipes[0], &bytes), NIGH_PROTOCOL);
    close(pipes[0]);
    close(pipes[1]);
    close(plain);
    close(fd);
}

/* A status goes with it. */
static void lacks(int fd, uint64_t bytes, enum memfd_lack lack)
{
    assert_int_equal(memfd_look_at_given(fd, bytes), lack);
    assert_int_equal(memfd_check_given(fd, bytes),
                     lack == MEMFD_LACKS_NOTHING ? NIGH_OK : NIGH_INVALID);
}

/* Of somebody else: what could shrink, grow, or not be mapped to be written, is not taken. */
static void test_what_others_give_is_looked_at(void **state)
{
    const int good = F_SEAL_SHRINK | F_SEAL_GROW;
    static const struct {
        int seals;
        unsigned flags;
        enum memfd_lack lack;
    } cases[] = {
        {F_SEAL_SHRINK | F_SEAL_GROW, 0, MEMFD_LACKS_NOTHING},
        {F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, 0, MEMFD_LACKS_NOTHING},
        {F_SEAL_SHRINK, 0, MEMFD_LACKS_BOUNDS},
        {F_SEAL_GROW, 0, MEMFD_LACKS_BOUNDS},
        {F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, 0, MEMFD_LACKS_WRITING},
        {F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE, 0, MEMFD_LACKS_WRITING},
        {F_SEAL_SHRINK | F_SEAL_GROW, MFD_HUGETLB, MEMFD_LACKS_PAGES},
    };
    char path[32];
    int fd, again, pipes[2];

    (void)state;
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        enum memfd_lack other = cases[n].flags != 0 ? cases[n].lack : MEMFD_LACKS_SIZE;

        fd = memfd_create("given", MFD_CLOEXEC | MFD_ALLOW_SEALING | cases[n].flags);
        if (fd < 0 && cases[n].flags != 0)
            continue; /* a kernel without huge pages */
        assert_int_equal(ftruncate(fd, (off_t)(2 * MIB)), 0);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, cases[n].seals), 0);
        lacks(fd, 2 * MIB, cases[n].lack);
        lacks(fd, 2 * MIB - 1, other);
        lacks(fd, 2 * MIB + 4096, other);
        close(fd);
    }
    fd = memfd_create("given", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, (off_t)MIB), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, good), 0);
    assert_int_equal(memfd_present_bytes(fd), 0);
    assert_int_equal(fallocate(fd, 0, 0, 8192), 0);
    assert_int_equal(memfd_present_bytes(fd), 8192);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (int mode = O_RDONLY; mode <= O_RDWR; mode++) {
        again = open(path, mode | O_CLOEXEC);
        assert_true(again >= 0);
        lacks(again, MIB, mode == O_RDWR ? MEMFD_LACKS_NOTHING : MEMFD_LACKS_MODE);
        close(again);
    }
    close(fd);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    lacks(pipes[0], MIB, MEMFD_LACKS_SEALS);
    close(pipes[0]);
    close(pipes[1]);
    lacks(-1, MIB, MEMFD_LACKS_FILE);
}

static void test_read_only_twin(void **state)
{
    char *writable, *readable;
    void *none;
    int fd = memfd_ok(MIB, 0), read_fd;

    (void)state;
    assert_int_equal(memfd_reopen_read_only(fd, &read_fd), NIGH_OK);
    assert_int_equal(memfd_reopen_read_only(-1, &read_fd), NIGH_NO_RESOURCES);
    assert_int_equal(memfd_map(fd, MIB, MEMFD_WRITABLE, (void **)&writable), NIGH_OK);
    assert_int_equal(memfd_map(read_fd, MIB, 0, (void **)&readable), NIGH_OK);
    strcpy(writable + 5000, "seen");
    assert_string_equal(readable + 5000, "seen");

    assert_int_equal(memfd_map(read_fd, MIB, MEMFD_WRITABLE, &none), NIGH_DENIED);
    assert_int_equal(mprotect(readable, MIB, PROT_READ | PROT_WRITE), -1);
    assert_int_equal(errno, EACCES);
    assert_int_equal(fallocate(read_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, MIB), -1);
    assert_int_equal(write(read_fd, "x", 1), -1);
    memfd_unmap(writable, MIB);
    memfd_unmap(readable, MIB);
    close(read_fd);
    close(fd);
}

/* What a reader of another uid may not do with the descriptor it was given; 0: nothing. */
static int stranger(void *argument)
{
    int read_fd = *(int *)argument;
    char path[64];

    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 1;
    prctl(PR_SET_DUMPABLE, 1); /* else /proc/self is root's and would refuse for that */
    snprintf(path, sizeof(path), "/proc/self/fd/%d", read_fd);
    if (open(path, O_RDWR) >= 0 || errno != EACCES)
        return 2;
    if (fchmod(read_fd, 0666) == 0 || chmod(path, 0666) == 0)
        return 3;
    if (mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, read_fd, 0) != MAP_FAILED)
        return 4;
    if (truncate(path, 0) == 0 || ftruncate(read_fd, 0) == 0)
        return 5;
    return mmap(NULL, 4096, PROT_READ, MAP_SHARED, read_fd, 0) != MAP_FAILED ? 0 : 6;
}

static void test_strangers_only_read(void **state)
{
    int fd, read_fd;

    (void)state;
    if (geteuid() != 0) {
        SUPPORT_SKIP("needs root, to become somebody else");
    }
    fd = memfd_ok(MIB, 0);
    assert_int_equal(memfd_reopen_read_only(fd, &read_fd), NIGH_OK);
    assert_int_equal(support_join(support_fork(stranger, &read_fd), 20000), 0);
    close(read_fd);
    close(fd);
}

/* Whether an address is mapped in this process: 1, else 0. */
static int child_has(void *address)
{
    return msync(address, 4096, MS_ASYNC) == 0 ? 1 : 0;
}

static void test_children_do_not_inherit(void **state)
{
    void *memory, *plain, *arena;
    int fd = memfd_ok(MIB, 0);

    (void)state;
    assert_int_equal(memfd_map(fd, MIB, MEMFD_WRITABLE, &memory), NIGH_OK);
    plain = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(memfd_reserve(8 * MIB, &arena), NIGH_OK);
    assert_int_equal(support_join(support_fork(child_has, plain), 20000), 1);
    assert_int_equal(support_join(support_fork(child_has, memory), 20000), 0);
    assert_int_equal(support_join(support_fork(child_has, arena), 20000), 0);
    assert_int_equal(child_has(memory), 1);
    munmap(plain, 4096);
    memfd_unmap(memory, MIB);
    memfd_unmap(arena, 8 * MIB);
    close(fd);
}

static void test_maps_into_an_arena(void **state)
{
    uint8_t *arena;
    int fd = memfd_ok(2 * MIB, 0), read_fd;

    (void)state;
    assert_int_equal(memfd_reserve(8 * MIB, (void **)&arena), NIGH_OK);
    /* Aligned also where the kernel would not do so by itself. */
    for (size_t i = 1; i < 4; i++) {
        uint8_t *odd;

        assert_int_equal(memfd_reserve(8 * MIB + i * 4096, (void **)&odd), NIGH_OK);
        assert_int_equal((uintptr_t)odd % MEMFD_HUGE_BYTES, 0);
        assert_int_equal(child_has(odd + 8 * MIB + (i - 1) * 4096), 1);
        memfd_unmap(odd, 8 * MIB + i * 4096);
    }
    assert_int_equal((uintptr_t)arena % MEMFD_HUGE_BYTES, 0);
    assert_int_equal(memfd_map_at(arena + 4 * MIB, fd, 2 * MIB, MEMFD_WRITABLE | MEMFD_PREFAULT),
                     NIGH_OK);
    memset(arena + 4 * MIB, 7, 2 * MIB);
    assert_int_equal(child_has(arena + 2 * MIB), 1); /* reserved */
    assert_int_equal(memfd_unmap_at(arena + 4 * MIB, 2 * MIB), NIGH_OK);
    assert_int_equal(mprotect(arena + 4 * MIB, 4096, PROT_READ), 0); /* reserved, and empty */
    assert_int_equal(arena[4 * MIB], 0);
    assert_int_equal(memfd_map_at(arena + 4 * MIB, fd, 2 * MIB, 0), NIGH_OK);
    assert_int_equal(arena[4 * MIB + 99], 7);
    assert_int_equal(memfd_unmap_at(arena + 4 * MIB, 2 * MIB), NIGH_OK);
    assert_int_equal(memfd_reopen_read_only(fd, &read_fd), NIGH_OK);
    assert_int_equal(memfd_map_at(arena, read_fd, 2 * MIB, MEMFD_WRITABLE), NIGH_DENIED);
    close(read_fd);
    memfd_unmap(arena, 8 * MIB);
    close(fd);
}

static void test_refusals(void **state)
{
    struct rlimit before, none;
    void *memory = NULL;
    int fd = -7;

    (void)state;
    assert_int_equal(memfd_create_sealed("n", 0, 0, &fd), NIGH_INVALID);
    assert_int_equal(memfd_create_sealed("n", UINT64_MAX, 0, &fd), NIGH_INVALID);
    assert_int_equal(memfd_create_sealed("n", MIB, MEMFD_HUGE, &fd), NIGH_INVALID);
    assert_int_equal(memfd_reserve(0, &memory), NIGH_INVALID);
    assert_int_equal(memfd_reserve(UINT64_MAX, &memory), NIGH_INVALID);
    assert_int_equal(memfd_reserve(UINT64_C(1) << 60, &memory), NIGH_NO_RESOURCES);
    assert_int_equal(memfd_map(-1, MIB, 0, &memory), NIGH_NO_RESOURCES);

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(memfd_create_sealed("n", MIB, 0, &fd), NIGH_NO_RESOURCES);
    assert_int_equal(errno, EMFILE);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(fd, -7);
    assert_null(memory);
}

/* Far more huge pages than any machine of the tests has. */
static void test_huge_pages_that_are_not_there(void **state)
{
    int fd = -7;

    (void)state;
    assert_int_equal(memfd_create_sealed("n", UINT64_C(1) << 44, MEMFD_HUGE, &fd),
                     NIGH_OUT_OF_MEMORY);
    assert_int_equal(fd, -7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_page_is_there),
        cmocka_unit_test(test_parts_are_made_and_given_back),
        cmocka_unit_test(test_size_and_seals_stay),
        cmocka_unit_test(test_what_others_give_is_looked_at),
        cmocka_unit_test(test_read_only_twin),
        cmocka_unit_test(test_strangers_only_read),
        cmocka_unit_test(test_children_do_not_inherit),
        cmocka_unit_test(test_maps_into_an_arena),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_huge_pages_that_are_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
