/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine grants, read from folders that look like machines. */
#include "support/support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "memory/admission.h"
#include "memory/admission_parse.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

/* ---- the parsers ---- */

#define TEXT(literal) (literal), strlen(literal)

static void test_numbers(void **state)
{
    const struct {
        const char *text;
        bool good;
        uint64_t value;
    } cases[] = {
        {"0\n", true, 0},
        {"4096", true, 4096},
        {" 12 \n", true, 12},
        {"max\n", true, ADMISSION_NO_LIMIT},
        {"9223372036854771712\n", true, ADMISSION_NO_LIMIT}, /* version 1, pages of 4 KiB */
        {"9223372036854710272\n", true, ADMISSION_NO_LIMIT}, /* of 64 KiB */
        {"18446744073709551615\n", true, ADMISSION_NO_LIMIT},
        {"4611686018427387903", true, (UINT64_C(1) << 62) - 1},
        {"18446744073709551616", false, 0},
        {"99999999999999999999999", false, 0},
        {"", false, 0},
        {"\n", false, 0},
        {"-1", false, 0},
        {"12k", false, 0},
        {"1 2", false, 0},
        {"maximum", false, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t value = 77;

        if (admission_parse_number(TEXT(cases[i].text), &value) != cases[i].good)
            fail_msg("\"%s\"", cases[i].text);
        assert_int_equal(value, cases[i].good ? cases[i].value : 77);
    }
    /* The text ends where it is said to, not at a terminator. */
    uint64_t value;
    assert_true(admission_parse_number("123", 2, &value));
    assert_int_equal(value, 12);
}

static void test_fields(void **state)
{
    static const char meminfo[] = "MemTotal:       24684084 kB\nMemFree:  1 kB\n"
                                  "MemAvailable:   24344932 kB\nHugePages_Free:       17\n"
                                  "Odd:  5 MB\nEmpty:\nHuge: 18446744073709551615 kB\nLast: 3";
    uint64_t value = 77;

    (void)state;
    assert_true(admission_parse_field(TEXT(meminfo), "MemAvailable:", &value));
    assert_int_equal(value, UINT64_C(24344932) * 1024);
    assert_true(admission_parse_field(TEXT(meminfo), "HugePages_Free:", &value));
    assert_int_equal(value, 17);
    assert_true(admission_parse_field(TEXT(meminfo), "Last:", &value));
    assert_int_equal(value, 3);
    assert_false(admission_parse_field(TEXT(meminfo), "Mem", &value));
    assert_false(admission_parse_field(TEXT(meminfo), "Odd:", &value));
    assert_false(admission_parse_field(TEXT(meminfo), "Empty:", &value));
    assert_false(admission_parse_field(TEXT(meminfo), "Huge:", &value));
    assert_false(admission_parse_field(TEXT(meminfo), "Absent:", &value));
    assert_false(admission_parse_field("", 0, "MemTotal:", &value));
    assert_int_equal(value, 3);
}

static void test_rlimits(void **state)
{
    static const char limits[] =
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max file size             unlimited            unlimited            bytes     \n"
        "Max open files            1024                 524288               files     \n"
        "Max address space         4294967296           unlimited            bytes     \n"
        "Max strange               -5                   7                    \n";
    uint64_t value = 77;

    (void)state;
    assert_true(admission_parse_rlimit(TEXT(limits), "Max open files", &value));
    assert_int_equal(value, 1024);
    assert_true(admission_parse_rlimit(TEXT(limits), "Max address space", &value));
    assert_int_equal(value, 4 * GIB);
    assert_true(admission_parse_rlimit(TEXT(limits), "Max file size", &value));
    assert_int_equal(value, ADMISSION_NO_LIMIT);
    assert_false(admission_parse_rlimit(TEXT(limits), "Max open", &value));
    assert_false(admission_parse_rlimit(TEXT(limits), "Max strange", &value));
    assert_false(admission_parse_rlimit(TEXT("Max open files"), "Max open files", &value));
}

static void test_cgroup_lines(void **state)
{
    char path[64];
    uint32_t version = 9;

    (void)state;
    /* Only version 2. */
    assert_true(admission_parse_cgroup(TEXT("0::/user.slice/a b\n"), &version, path, 64));
    assert_int_equal(version, 2);
    assert_string_equal(path, "/user.slice/a b");
    /* Both: memory is where its controller is. */
    assert_true(admission_parse_cgroup(TEXT("0::/init\n9:name=systemd:/\n4:cpu,memory:/x:y\n"),
                                       &version, path, 64));
    assert_int_equal(version, 1);
    assert_string_equal(path, "/x:y");
    assert_true(admission_parse_cgroup(TEXT("4:memorymore:/x\n0::/\n"), &version, path, 64));
    assert_int_equal(version, 2);
    assert_string_equal(path, "/");
    version = 9;
    assert_false(admission_parse_cgroup(TEXT("3:cpu:/\n"), &version, path, 64));
    assert_false(admission_parse_cgroup(TEXT("0::relative\n0:\n\n:\n::\n"), &version, path, 64));
    assert_false(admission_parse_cgroup(TEXT("0::/12345678\n"), &version, path, 9));
    assert_false(admission_parse_cgroup("", 0, &version, path, 64));
    assert_int_equal(version, 9);
}

static void test_mount_lines(void **state)
{
    static const char v1[] =
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu rw shared:1 master:2 - cgroup cgroup rw,cpu\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";
    static const char docker[] =
        "35 31 0:32 /docker/abc /sys/fs/cgroup/mem\\040ory ro - cgroup cgroup rw,memory\n";
    static const char v2[] = "29 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
    char mount[64], folder[64];

    (void)state;
    assert_true(admission_parse_mount(TEXT(v1), 1, "/a/b", mount, folder, 64));
    assert_string_equal(mount, "/sys/fs/cgroup/memory");
    assert_string_equal(folder, "/sys/fs/cgroup/memory/a/b");
    assert_true(admission_parse_mount(TEXT(v2), 2, "/", mount, folder, 64));
    assert_string_equal(folder, "/sys/fs/cgroup");
    assert_true(admission_parse_mount(TEXT(v2), 2, "/../outside", mount, folder, 64));
    assert_string_equal(folder, "/sys/fs/cgroup");
    /* A container that sees its own group as the root of the mount. */
    assert_true(admission_parse_mount(TEXT(docker), 1, "/docker/abc/x", mount, folder, 64));
    assert_string_equal(mount, "/sys/fs/cgroup/mem ory");
    assert_string_equal(folder, "/sys/fs/cgroup/mem ory/x");
    assert_true(admission_parse_mount(TEXT(docker), 1, "/docker/abcd", mount, folder, 64));
    assert_string_equal(folder, "/sys/fs/cgroup/mem ory");

    assert_false(admission_parse_mount(TEXT(v1), 2, "/", mount, folder, 64));
    assert_false(admission_parse_mount(TEXT(v2), 1, "/", mount, folder, 64));
    assert_false(admission_parse_mount(TEXT(v2), 2, "/", mount, folder, 14));
    assert_false(admission_parse_mount(TEXT("1 2 3 / /x -\n1 2\n\n1 2 3 / /x\n1 2 3 / /x - "), 2,
                                       "/", mount, folder, 64));
}

static void test_huge_names(void **state)
{
    uint64_t bytes = 77;

    (void)state;
    assert_true(admission_parse_huge_name("hugepages-2048kB", &bytes));
    assert_int_equal(bytes, 2 * MIB);
    assert_true(admission_parse_huge_name("hugepages-1048576kB", &bytes));
    assert_int_equal(bytes, GIB);
    assert_false(admission_parse_huge_name("hugepages-kB", &bytes));
    assert_false(admission_parse_huge_name("hugepages-", &bytes));
    assert_false(admission_parse_huge_name("hugepages-20M", &bytes));
    assert_false(admission_parse_huge_name("..", &bytes));
    assert_int_equal(bytes, GIB);
}

/* ---- folders that look like machines ---- */

static unsigned machine_count;

/* A new, empty one; its root in `root`. */
static void machine(char root[128])
{
    char name[32];

    snprintf(name, sizeof(name), "machine-%u", machine_count++);
    support_path(root, 128, name);
    assert_int_equal(mkdir(root, 0700), 0);
}

/* Writes a file, and the folders above it. */
static void machine_file(const char *root, const char *path, const char *text)
{
    char all[512];
    FILE *file;

    snprintf(all, sizeof(all), "%s%s", root, path);
    for (char *slash = strchr(all + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(all, 0700) != 0)
            assert_int_equal(errno, EEXIST);
        *slash = '/';
    }
    file = fopen(all, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void machine_with_memory(char root[128])
{
    machine(root);
    machine_file(root, "/proc/meminfo",
                 "MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\n"
                 "CommitLimit:     4194304 kB\nCommitted_AS:    1048576 kB\n");
}

static struct admission_facts facts;

static void test_bare_machine(void **state)
{
    char root[128];

    (void)state;
    memset(&facts, 0x55, sizeof(facts));
    machine(root);
    assert_int_equal(admission_read(root, &facts), NIGH_NO_RESOURCES);
    machine_file(root, "/proc/meminfo", "MemTotal: 5 kB\n"); /* a kernel of long ago */
    assert_int_equal(admission_read(root, &facts), NIGH_NO_RESOURCES);
    assert_int_equal(facts.huge_count, 0x55555555); /* untouched */

    machine_with_memory(root);
    assert_int_equal(admission_read(root, &facts), NIGH_OK);
    assert_int_equal(facts.memory_total_bytes, 16 * GIB);
    assert_int_equal(facts.memory_available_bytes, 8 * GIB);
    assert_int_equal(facts.commit_left_bytes, ADMISSION_NO_LIMIT);
    assert_int_equal(facts.cgroup.version, 0);
    assert_int_equal(facts.cgroup.available_bytes, ADMISSION_NO_LIMIT);
    assert_int_equal(facts.address_limit_bytes, ADMISSION_NO_LIMIT);
    assert_int_equal(facts.descriptor_limit, ADMISSION_NO_LIMIT);
    assert_int_equal(facts.huge_count, 0);
    assert_int_equal(facts.shm_total_bytes, 0);

    machine_file(root, "/proc/sys/vm/overcommit_memory", "1\n");
    assert_int_equal(admission_read(root, &facts), NIGH_OK);
    assert_int_equal(facts.commit_left_bytes, ADMISSION_NO_LIMIT);
    machine_file(root, "/proc/sys/vm/overcommit_memory", "2\n");
    assert_int_equal(admission_read(root, &facts), NIGH_OK);
    assert_int_equal(facts.commit_left_bytes, 3 * GIB);
}

static void test_whole_machine(void **state)
{
    char root[128], path[160];

    (void)state;
    machine_with_memory(root);
    machine_file(root, "/proc/self/limits",
                 "Max file size             unlimited  unlimited bytes\n"
                 "Max open files            1024       4096      files\n"
                 "Max locked memory         65536      65536     bytes\n"
                 "Max address space         1073741824 unlimited bytes\n");
    machine_file(root, "/proc/self/status", "Name:\tx\nVmSize:\t    2048 kB\n");
    snprintf(path, sizeof(path), "%s/dev", root);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/dev/shm", root);
    assert_int_equal(mkdir(path, 0700), 0);
    machine_file(root, "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "4\n");
    machine_file(root, "/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "3\n");
    machine_file(root, "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "100\n");
    machine_file(root, "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "60\n");
    machine_file(root, "/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "10\n");
    machine_file(root, "/sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages", "2\n");
    machine_file(root, "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages", "7\n");
    machine_file(root, "/sys/kernel/mm/hugepages/hugepages-64kB/free_hugepages", "1\n");
    assert_int_equal(admission_read(root, &facts), NIGH_OK);
    assert_int_equal(facts.file_limit_bytes, ADMISSION_NO_LIMIT);
    assert_int_equal(facts.descriptor_limit, 1024);
    assert_int_equal(facts.locked_limit_bytes, 65536);
    assert_int_equal(facts.address_limit_bytes, GIB);
    assert_int_equal(facts.address_used_bytes, 2 * MIB);
    assert_true(facts.shm_total_bytes > 0);
    assert_int_equal(facts.huge_count, 2); /* by size, and only those that say how many */
    assert_int_equal(facts.huge[0].page_bytes, 2 * MIB);
    assert_int_equal(facts.huge[0].total, 100);
    assert_int_equal(facts.huge[0].reserved, 10);
    assert_int_equal(facts.huge[0].overcommit, 5);
    assert_int_equal(facts.huge[1].page_bytes, GIB);
    assert_int_equal(facts.huge[1].free, 3);
    assert_int_equal(admission_huge_free_bytes(&facts), 50 * 2 * MIB);
}

#define V2_MOUNT "29 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"

static void test_version_2(void **state)
{
    char root[128];

    (void)state;
    machine_with_memory(root);
    machine_file(root, "/proc/self/cgroup", "0::/a/b/c\n");
    machine_file(root, "/proc/self/mountinfo", V2_MOUNT);
    /* The innermost has no limit, the one above it the least room, the next has more. */
    machine_file(root, "/sys/fs/cgroup/a/b/c/memory.max", "max\n");
    machine_file(root, "/sys/fs/cgroup/a/b/c/memory.current", "1000000\n");
    machine_file(root, "/sys/fs/cgroup/a/b/memory.max", "1073741824\n");
    machine_file(root, "/sys/fs/cgroup/a/b/memory.high", "536870912\n");
    machine_file(root, "/sys/fs/cgroup/a/b/memory.current", "402653184\n");
    machine_file(root, "/sys/fs/cgroup/a/b/memory.stat",
                 "anon 1\ninactive_file 134217728\nactive_file 9\n");
    machine_file(root, "/sys/fs/cgroup/a/memory.max", "2147483648\n");
    machine_file(root, "/sys/fs/cgroup/a/memory.current", "1073741824\n");
    assert_int_equal(admission_read(root, &facts), NIGH_OK);
    assert_int_equal(facts.cgroup.version, 2);
    assert_string_equal(facts.cgroup.folder, "/sys/fs/cgroup/a/b");
    assert_int_equal(facts.cgroup.limit_bytes, GIB);
    assert_int_equal(facts.cgroup.high_bytes, 512 * MIB);
    assert_int_equal(facts.cgroup.used_bytes, 384 * MIB);
    assert_int_equal(facts.cgroup.reclaimable_bytes, 128 * MIB);
    assert_int_equal(facts.cgroup.available_bytes, 256 * MIB);

    /* Above its limit: nothing, and no wrap. */
    machine_file(root, "/sys/fs/cgroup/a/memory.current", "3000000000\n");
    assert_int_equal(admission_read(root, &facts), NIGH_OK);
    assert_string_equal(facts.cgroup.folder, "/sys/fs/cgroup/a");
    assert_int_equal(facts.cgroup.available_bytes, 0);
    assert_int_equal(facts.cgroup.high_bytes, ADMISSION_NO_LIMIT);
}

static void test_version_2_without_limits(void **state)
{
    char root[128];

    (void)state;
    machine_with_memory(root);
    machine_file(root, "/proc/self/cgroup", "0::/a\n");
    machine_file(root, "/proc/self/mountinfo", V2_MOUNT);
    assert_int_equal(admission_read(root, &facts), NIGH_OK);
    assert_int_equal(facts.cgroup.version, 0); /* memory is not accounted */
    machine_file(root, "/sys/fs/cgroup/a/memory.max", "max\n");
    machine_file(root, "/sys/fs/cgroup/a/memory.current", "5000\n");
    assert_int_equal(admission_read(root, &facts), NIGH_OK);
    assert_int_equal(facts.cgroup.version, 2);
    assert_int_equal(facts.cgroup.available_bytes, ADMISSION_NO_LIMIT);
    assert_int_equal(facts.cgroup.used_bytes, 5000);
}

static void test_version_1(void **state)
{
    char root[128];

    (void)state;
    machine_with_memory(root);
    machine_file(root, "/proc/self/cgroup", "4:memory:/box/inner\n0::/\n");
    machine_file(root, "/proc/self/mountinfo",
                 "35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n" V2_MOUNT);
    machine_file(root, "/cg/memory/memory.limit_in_bytes", "9223372036854771712\n");
    machine_file(root, "/cg/memory/memory.usage_in_bytes", "12345678\n");
    machine_file(root, "/cg/memory/box/memory.limit_in_bytes", "268435456\n");
    machine_file(root, "/cg/memory/box/memory.usage_in_bytes", "209715200\n");
    machine_file(root, "/cg/memory/box/memory.stat",
                 "inactive_file 1\ntotal_inactive_file 104857600\n");
    machine_file(root, "/cg/memory/box/inner/memory.limit_in_bytes", "9223372036854771712\n");
    machine_file(root, "/cg/memory/box/inner/memory.usage_in_bytes", "209715200\n");
    assert_int_equal(admission_read(root, &facts), NIGH_OK);
    assert_int_equal(facts.cgroup.version, 1);
    assert_string_equal(facts.cgroup.folder, "/cg/memory/box");
    assert_int_equal(facts.cgroup.limit_bytes, 256 * MIB);
    assert_int_equal(facts.cgroup.available_bytes, 156 * MIB);

    machine_file(root, "/cg/memory/box/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(admission_read(root, &facts), NIGH_OK);
    assert_int_equal(facts.cgroup.limit_bytes, ADMISSION_NO_LIMIT);
    assert_int_equal(facts.cgroup.available_bytes, ADMISSION_NO_LIMIT);
}

static void test_this_machine(void **state)
{
    (void)state;
    assert_int_equal(admission_read("", &facts), NIGH_OK);
    assert_true(facts.memory_available_bytes > 0);
    assert_true(facts.memory_available_bytes <= facts.memory_total_bytes);
    assert_true(facts.address_used_bytes > 0);
    assert_true(facts.descriptor_limit > 0);
}

/* ---- the decision ---- */

static char why[ADMISSION_SENTENCE_BYTES];

static struct admission_facts plenty(void)
{
    return (struct admission_facts){
        .memory_total_bytes = 16 * GIB,
        .memory_available_bytes = 8 * GIB,
        .commit_left_bytes = ADMISSION_NO_LIMIT,
        .huge = {{.page_bytes = 2 * MIB, .total = 1024, .free = 512}},
        .huge_count = 1,
        .cgroup = {.limit_bytes = ADMISSION_NO_LIMIT,
                   .high_bytes = ADMISSION_NO_LIMIT,
                   .available_bytes = ADMISSION_NO_LIMIT},
        .address_limit_bytes = ADMISSION_NO_LIMIT,
        .file_limit_bytes = ADMISSION_NO_LIMIT,
        .descriptor_limit = 1024,
        .locked_limit_bytes = ADMISSION_NO_LIMIT,
    };
}

static const struct admission_wish wish_4g = {.memory_bytes = 4 * GIB,
                                              .extent_bytes = 32 * MIB,
                                              .file_bytes = 32 * MIB,
                                              .address_bytes = 128 * GIB,
                                              .descriptors = 320,
                                              .huge = EXTENT_HUGE_NEVER};

static void refuses(const struct admission_facts *some, const struct admission_wish *wish,
                    nigh_status status, const char *sentence)
{
    uint64_t huge = 77;

    why[0] = '\0';
    assert_int_equal(admission_decide(some, wish, &huge, why, sizeof(why)), status);
    if (strstr(why, sentence) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", sentence, why);
    assert_non_null(strstr(why, ": ")); /* what, and behind it what to do */
    assert_true(strlen(why) < sizeof(why) - 1);
    assert_int_equal(huge, 77);
}

static void grants(const struct admission_facts *some, const struct admission_wish *wish,
                   uint64_t huge_bytes)
{
    uint64_t huge = 77;

    if (admission_decide(some, wish, &huge, why, sizeof(why)) != NIGH_OK)
        fail_msg("%s", why);
    assert_int_equal(huge, huge_bytes);
}

static void test_decides_memory(void **state)
{
    struct admission_facts some = plenty();
    struct admission_wish wish = wish_4g;
    /* What 4 GiB cost: the tables that map them and some room besides. */
    uint64_t cost = 4 * GIB + 8 * MIB + ADMISSION_SPARE_BYTES;

    (void)state;
    grants(&some, &wish, 0);
    some.memory_available_bytes = cost;
    grants(&some, &wish, 0);
    some.memory_available_bytes--;
    refuses(&some, &wish, NIGH_OUT_OF_MEMORY, "of the machine's 16.0 GiB only 4311744511 B");
    refuses(&some, &wish, NIGH_OUT_OF_MEMORY, "4311744512 B of memory are needed (4.0 GiB for");

    some = plenty();
    wish.besides_bytes = 5 * GIB;
    refuses(&some, &wish, NIGH_OUT_OF_MEMORY, "9.0 GiB of memory are needed");
    wish.besides_bytes = UINT64_MAX;
    refuses(&some, &wish, NIGH_OUT_OF_MEMORY, "ask for less memory");
    wish = wish_4g;
    wish.memory_bytes = UINT64_MAX;
    refuses(&some, &wish, NIGH_OUT_OF_MEMORY, "ask for less memory");

    wish = wish_4g;
    some.cgroup = (struct admission_cgroup){.version = 2,
                                            .limit_bytes = 5 * GIB,
                                            .high_bytes = ADMISSION_NO_LIMIT,
                                            .used_bytes = 2 * GIB,
                                            .available_bytes = cost,
                                            .folder = "/sys/fs/cgroup/box"};
    grants(&some, &wish, 0);
    some.cgroup.available_bytes = 3 * GIB;
    refuses(&some, &wish, NIGH_OUT_OF_MEMORY,
            "the control group /sys/fs/cgroup/box grants 3.0 GiB more (2.0 GiB of 5.0 GiB are in "
            "use): raise its memory.max");
    some.cgroup.high_bytes = 4 * GIB;
    refuses(&some, &wish, NIGH_OUT_OF_MEMORY, "raise its memory.high");
    some.cgroup.version = 1;
    refuses(&some, &wish, NIGH_OUT_OF_MEMORY, "raise its memory.limit_in_bytes");

    some = plenty();
    some.commit_left_bytes = GIB;
    refuses(&some, &wish, NIGH_OUT_OF_MEMORY, "raise vm.overcommit_ratio");
}

static void test_decides_limits(void **state)
{
    struct admission_facts some = plenty();
    struct admission_wish wish = wish_4g;

    (void)state;
    some.address_limit_bytes = 128 * GIB;
    grants(&some, &wish, 0);
    some.address_used_bytes = 1;
    refuses(&some, &wish, NIGH_NO_RESOURCES, "LimitAS=infinity");
    some = plenty();
    some.address_limit_bytes = GIB;
    some.address_used_bytes = UINT64_MAX;
    refuses(&some, &wish, NIGH_NO_RESOURCES, "limited to 1.0 GiB");
    some = plenty();
    some.file_limit_bytes = 16 * MIB;
    refuses(&some, &wish, NIGH_NO_RESOURCES, "files of 16.0 MiB at most");
    some.file_limit_bytes = 64 * MIB;
    wish.file_bytes = 65 * MIB; /* of an index */
    refuses(&some, &wish, NIGH_NO_RESOURCES, "files of up to 65.0 MiB");
    wish.file_bytes = 64 * MIB;
    grants(&some, &wish, 0);
    some = plenty();
    some.descriptor_limit = 319;
    refuses(&some, &wish, NIGH_NO_RESOURCES, "320 descriptors are needed");
    some.descriptor_limit = 320;
    grants(&some, &wish, 0);
}

static void test_decides_huge(void **state)
{
    struct admission_facts some = plenty();
    struct admission_wish wish = wish_4g;

    (void)state;
    wish.huge = EXTENT_HUGE_WHERE_GRANTED;
    grants(&some, &wish, GIB);
    some.huge[0].reserved = 8; /* not a whole extent less than 16 MiB */
    grants(&some, &wish, GIB - 32 * MIB);
    /* What huge pages hold, plain memory need not. */
    some = plenty();
    some.memory_available_bytes = 3 * GIB + 100 * MIB;
    grants(&some, &wish, GIB);
    some.memory_available_bytes = 3 * GIB;
    refuses(&some, &wish, NIGH_OUT_OF_MEMORY, "ask for less memory");

    wish.huge = EXTENT_HUGE_REQUIRED;
    some = plenty();
    refuses(&some, &wish, NIGH_OUT_OF_MEMORY, "at least 1536 more");
    some.huge[0].free = 2048;
    grants(&some, &wish, 4 * GIB);
    some.huge[0].free = UINT64_MAX;
    some.huge[0].reserved = 0;
    grants(&some, &wish, 4 * GIB);
    some.memory_available_bytes = 4 * MIB; /* not even for the node's own tables */
    refuses(&some, &wish, NIGH_OUT_OF_MEMORY, "ask for less memory");
    some.huge_count = 0;
    refuses(&some, &wish, NIGH_OUT_OF_MEMORY, "4.0 GiB of huge pages are required, but 0 B");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_rlimits),        cmocka_unit_test(test_cgroup_lines),
        cmocka_unit_test(test_mount_lines),    cmocka_unit_test(test_huge_names),
        cmocka_unit_test(test_bare_machine),   cmocka_unit_test(test_whole_machine),
        cmocka_unit_test(test_version_2),      cmocka_unit_test(test_version_2_without_limits),
        cmocka_unit_test(test_version_1),      cmocka_unit_test(test_this_machine),
        cmocka_unit_test(test_decides_memory), cmocka_unit_test(test_decides_limits),
        cmocka_unit_test(test_decides_huge),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
