/* SPDX-License-Identifier: Apache-2.0 */
/* What nigh doctor says of machines that are folders here, of what nighd is told there, and of
 * nodes whose counts and members are made up: each trouble, its severity and its remedy. */
#include "cli/doctor.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "support/doctor.h"

/* ---- the machine ---------------------------------------------------------- */

static struct admission_facts good_facts(void)
{
    return (struct admission_facts){
        .memory_total_bytes = UINT64_C(8) << 30,
        .memory_available_bytes = UINT64_C(4) << 30,
        .commit_left_bytes = ADMISSION_NO_LIMIT,
        .huge = {{.page_bytes = UINT64_C(2) << 20, .total = 8, .free = 8}},
        .huge_count = 1,
        .cgroup = {.limit_bytes = ADMISSION_NO_LIMIT,
                   .high_bytes = ADMISSION_NO_LIMIT,
                   .available_bytes = ADMISSION_NO_LIMIT},
        .address_limit_bytes = ADMISSION_NO_LIMIT,
        .file_limit_bytes = ADMISSION_NO_LIMIT,
        .locked_limit_bytes = ADMISSION_NO_LIMIT,
        .shm_total_bytes = UINT64_C(1) << 30,
    };
}

static void look_at_machine(const struct admission_facts *facts)
{
    struct doctor doctor = begun();

    doctor_look_at_machine(&doctor, facts, 0);
}

static void a_good_machine_has_no_trouble(void **state)
{
    struct admission_facts facts = good_facts();

    (void)state;
    put("/proc/self/limits", "Max open files            1024                 65536  files\n");
    put("/proc/sys/vm/max_map_count", "65530\n");
    put("/proc/swaps", "Filename Type Size Used Priority\n");
    look_at_machine(&facts);
    for (size_t i = 0; i < kept_count; i++) {
        assert_true(kept[i].severity == DOCTOR_GOOD || strcmp(kept[i].subject, "cores") == 0);
    }
    expect(DOCTOR_GOOD, "descriptors", "the hard limit of this process is 65536", NULL);
    expect(DOCTOR_GOOD, "huge pages", "16.0 MiB free", NULL);
    expect(DOCTOR_GOOD, "cgroup", "no memory controller", NULL);
}

static void memory_that_lacks_is_said(void **state)
{
    struct admission_facts facts = good_facts();

    (void)state;
    facts.memory_available_bytes = 1 << 20;
    facts.commit_left_bytes = UINT64_C(5) << 20;
    facts.huge_count = 0;
    facts.cgroup.version = 2;
    facts.cgroup.limit_bytes = UINT64_C(1) << 30;
    facts.cgroup.high_bytes = UINT64_C(256) << 20;
    facts.cgroup.available_bytes = UINT64_C(512) << 20;
    (void)snprintf(facts.cgroup.folder, sizeof(facts.cgroup.folder), "/sys/fs/cgroup/a");
    put("/.dockerenv", "");
    put("/proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n");
    look_at_machine(&facts);
    expect(DOCTOR_BAD, "memory", "only 1.0 MiB of 8.0 GiB", "free memory");
    expect(DOCTOR_NOTE, "overcommit", "5.0 MiB may still be committed", "vm.overcommit_memory=0");
    expect(DOCTOR_NOTE, "huge pages", "none free", "vm.nr_hugepages");
    expect(DOCTOR_NOTE, "cgroup", "version 2 limits memory to 1.0 GiB, 512.0 MiB left",
           "memory.max");
    expect(DOCTOR_NOTE, "memory.high", "above 256.0 MiB", "memory.high");
    expect(DOCTOR_NOTE, "container", "container", "socket's directory");
    expect(DOCTOR_NOTE, "swap", "swap is on", "swapoff");
    facts.cgroup.version = 1;
    facts.cgroup.available_bytes = 0;
    look_at_machine(&facts);
    expect(DOCTOR_BAD, "cgroup", "version 1 limits memory", "memory.limit_in_bytes");
    expect_none("memory.high");
}

static void limits_are_said(void **state)
{
    struct admission_facts facts = good_facts();

    (void)state;
    facts.locked_limit_bytes = UINT64_C(8) << 20;
    facts.address_limit_bytes = UINT64_C(4) << 30;
    facts.file_limit_bytes = UINT64_C(1) << 20;
    put("/proc/self/limits", "Max open files            1024                 1024  files\n");
    put("/proc/sys/vm/max_map_count", "1024\n");
    look_at_machine(&facts);
    expect(DOCTOR_NOTE, "memlock", "this process may lock 8.0 MiB", "LimitMEMLOCK");
    expect(DOCTOR_NOTE, "addresses", "RLIMIT_AS of this process is 4.0 GiB", "ulimit -v");
    expect(DOCTOR_NOTE, "file size", "files of this process may have up to 1.0 MiB", "ulimit -f");
    expect(DOCTOR_NOTE, "descriptors", "the hard limit of this process is 1024", "LimitNOFILE");
    expect(DOCTOR_NOTE, "mappings", "1024 mappings", "vm.max_map_count");
    put("/proc/self/limits", "Max open files            1024                 unlimited  files\n");
    look_at_machine(&facts);
    expect(DOCTOR_GOOD, "descriptors", "this process has no hard limit", NULL);
}

/* Of a node that runs they are its own, whatever shell the doctor is asked from. */
static void limits_of_a_node_are_its_own(void **state)
{
    struct admission_facts facts = good_facts();
    struct doctor doctor = begun();

    (void)state;
    facts.address_limit_bytes = UINT64_C(4) << 30;
    put("/proc/self/limits", "Max open files            65536                65536  files\n"
                             "Max file size             unlimited            unlimited  bytes\n");
    put("/proc/77/limits", "Max open files            1024                 1024  files\n"
                           "Max file size             8192000              unlimited  bytes\n"
                           "Max locked memory         1048576              1048576  bytes\n"
                           "Max address space         unlimited            unlimited  bytes\n");
    assert_false(admission_read_limits(root, 78, &facts));
    assert_int_equal(facts.address_limit_bytes, UINT64_C(4) << 30);
    assert_true(admission_read_limits(root, 77, &facts));
    doctor_look_at_machine(&doctor, &facts, 77);
    expect(DOCTOR_NOTE, "descriptors", "of the node (process 77) is 1024", "LimitNOFILE");
    expect(DOCTOR_NOTE, "memlock", "the node (process 77) may lock 1.0 MiB", "LimitMEMLOCK");
    expect(DOCTOR_NOTE, "file size", "files of the node (process 77) may have up to 7.8 MiB",
           "LimitFSIZE");
    expect_none("addresses");
}

static void shares_of_processors_are_said(void **state)
{
    struct admission_facts facts = good_facts();

    (void)state;
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    look_at_machine(&facts);
    expect_none("quota");
    put("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    look_at_machine(&facts);
    expect(DOCTOR_NOTE, "quota", "1.50 cores", "cpu.max");
    put("/sys/fs/cgroup/a/b/cpu.max", "25000 100000\n");
    look_at_machine(&facts);
    expect(DOCTOR_NOTE, "quota", "0.25 cores", "--spin-us 0");
    put("/proc/self/cgroup", "5:cpuacct,cpu:/c\n4:cpuset:/\n");
    put("/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
    look_at_machine(&facts);
    expect_none("quota");
    put("/proc/self/cgroup", "4:cpuset:/\n5:cpu,cpuacct:/c\n");
    put("/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "50000\n");
    look_at_machine(&facts);
    expect(DOCTOR_NOTE, "quota", "0.50 cores", "cpu.max");
    put("/proc/self/cgroup", "5:cpu,cpuacct:/c/d\n");
    put("/sys/fs/cgroup/cpu/c/d/cpu.cfs_quota_us", "-1\n");
    look_at_machine(&facts);
    expect(DOCTOR_NOTE, "quota", "0.50 cores", "cpu.max"); /* of the one above */
}

static void look_at_kernel(const char *release, uint32_t missing)
{
    struct doctor doctor = begun();

    put("/proc/sys/kernel/osrelease", release);
    doctor_look_at_kernel(&doctor, missing);
}

static void a_kernel_that_lacks_something_is_said(void **state)
{
    (void)state;
    look_at_kernel("6.1.0-18-amd64\n", 0);
    assert_int_equal(kept_count, 1);
    expect(DOCTOR_GOOD, "kernel", "Linux 6.1.0-18-amd64", NULL);
    look_at_kernel("4.13.9\n", 0);
    expect(DOCTOR_BAD, "kernel", "Linux 4.13.9", "4.14");
    look_at_kernel("3.20.0\n", 0);
    expect(DOCTOR_BAD, "kernel", "Linux 3.20.0", "4.14");
    look_at_kernel("4.14.0\n", DOCTOR_PIDFD_OPEN | DOCTOR_PIDFD_GETFD);
    expect(DOCTOR_GOOD, "kernel", "Linux 4.14.0", NULL);
    expect(DOCTOR_NOTE, "system calls", "pidfd_open (5.3) may not be called", "seccomp");
    expect(DOCTOR_NOTE, "system calls", "pidfd_getfd (5.6) may not be called", "seccomp");
    assert_int_equal(kept_count, 3);
    look_at_kernel("5.4.0\n", DOCTOR_CLOSE_RANGE | DOCTOR_EPOLL_PWAIT2);
    expect(DOCTOR_NOTE, "system calls", "close_range (5.9) may not be called", "seccomp");
    expect(DOCTOR_NOTE, "system calls", "epoll_pwait2 (5.11) may not be called", "seccomp");
}

static void a_virtual_machine_whose_clock_may_stand_still_is_said(void **state)
{
    (void)state;
    put("/proc/cpuinfo", "processor : 0\nflags : fpu vme sse hypervisor_like lahf_lm\n");
    look_at_kernel("5.10.0\n", 0);
    expect_none("ticks");
    put("/proc/cpuinfo", "processor : 0\nflags : fpu vme sse hypervisor lahf_lm\n");
    look_at_kernel("5.17.3\n", 0);
    expect(DOCTOR_NOTE, "ticks", "Linux 5.17 on a virtual machine", "5.18");
    look_at_kernel("4.19.0\n", 0);
    expect(DOCTOR_NOTE, "ticks", "Linux 4.19", "5.18");
    look_at_kernel("5.18.0\n", 0);
    expect_none("ticks");
    look_at_kernel("6.1.0\n", 0);
    expect_none("ticks");
}

/* ---- what nighd is told --------------------------------------------------- */

#define CONFIG "/etc/nigh/nighd.conf"

#define UNKNOWN ((uid_t)-1)

/* The findings of a configuration, for a node of this user. */
static void look_at_config(const char *text, uid_t uid, bool is_live)
{
    static struct setup setup;
    struct doctor doctor = begun();

    put(CONFIG, text);
    assert_true(setup_read_file(root, CONFIG, &setup));
    assert_false(setup.knows_uid); /* a file does not say whose the node is */
    setup.uid = uid;
    setup.knows_uid = uid != UNKNOWN;
    setup.is_live = is_live;
    doctor_look_at_setup(&doctor, &setup);
}

/* A folder, or a file, of the machine with this mode. */
static void set_mode(const char *path, mode_t mode)
{
    char full[2 * PATH_BYTES];

    (void)snprintf(full, sizeof(full), "%s%s", root, path);
    assert_int_equal(chmod(full, mode), 0);
}

/* The findings of a path that no line of a file can say. */
static void look_at_spill(const char *path, uid_t uid)
{
    static struct setup setup;
    struct doctor doctor = begun();

    setup = (struct setup){.source = "a test", .uid = uid, .knows_uid = true};
    (void)snprintf(setup.spill, sizeof(setup.spill), "%s", path);
    doctor_look_at_setup(&doctor, &setup);
}

static void directories_that_will_not_do_are_said(void **state)
{
    uid_t own = geteuid() == 0 ? 0 : geteuid(), other = 54321;

    (void)state;
    put("/proc/self/mountinfo", "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
                                "21 20 0:5 / /run rw,nosuid - tmpfs tmpfs rw\n"
                                "22 20 8:2 / /old ro,relatime - ext4 /dev/sdb rw\n"
                                "23 21 8:3 / /run/kept rw - ext4 /dev/sdc rw\n"
                                "24 20 0:6 / /a\\040b\\134 rw - tmpfs tmpfs rw\n"
                                "25 20 8:4 / /t\\011n\\012x ro - ext4 /dev/sdd rw\n");
    put("/var/lib/nigh/x", "");
    put("/run/nigh/x", "");
    put("/old/x", "");
    look_at_config("[node]\nstate = /var/lib/nigh/state\n", own, false);
    expect(DOCTOR_GOOD, "state dir", "/var/lib/nigh/state can be written", NULL);
    look_at_config("[node]\nstate = /var/lib/nigh\n", other, false);
    expect(DOCTOR_BAD, "state dir", "cannot be written to by user 54321", "chown");
    look_at_config("[node]\nstate = /var/lib/nigh\n", UNKNOWN, false);
    expect(DOCTOR_GOOD, "state dir", "not mounted read-only", NULL);
    set_mode("/var/lib/nigh", 0777);
    look_at_config("[node]\nstate = /var/lib/nigh\n", other, false);
    expect(DOCTOR_GOOD, "state dir", "can be written", NULL);
    look_at_config("[node]\nlog-dir = /run/nigh\nspill=/run/nigh/spill\t;a comment\n"
                   "state: /run/nigh/state\n",
                   own, false);
    expect(DOCTOR_NOTE, "log dir", "lies in memory (tmpfs)", "a disk");
    expect(DOCTOR_NOTE, "spill dir", "/run/nigh/spill (", "a disk");
    expect(DOCTOR_NOTE, "state dir", "votes is lost", "a disk");
    put("/run/kept/x", "");
    look_at_config("[node]\nstate = /run/kept/state\n", own, false);
    expect(DOCTOR_GOOD, "state dir", "can be written", NULL);
    put("/a b\\/x", ""); /* in the list of mounts such bytes are numbers */
    look_at_config("[node]\nspill = /a b\\/spill\n", own, false);
    expect(DOCTOR_NOTE, "spill dir", "lies in memory (tmpfs)", "a disk");
    put("/t\tn\nx/y", "");
    look_at_spill("/t\tn\nx", own);
    expect(DOCTOR_BAD, "spill dir", "mounted read-only", "remount");
    look_at_config("[node]\nspill = /old/spill\n", own, false);
    expect(DOCTOR_BAD, "spill dir", "mounted read-only", "remount");
    look_at_config("[node]\nspill = /old/x/y\n", own, false);
    expect(DOCTOR_BAD, "spill dir", "Not a directory", "move the file away");
    look_at_config("[node]\nspill = /no/such/place\n", own, false);
    expect(DOCTOR_BAD, "spill dir", "/no/such: No such file", "mkdir -p");
    look_at_config("[node]\nspill = /var/lib/nigh/x\n", own, false);
    expect(DOCTOR_BAD, "spill dir", "is no folder", "name a folder");
    /* Of another section, and commented out. */
    look_at_config("# spill = /no/such/place\n[pool a]\nspill = /no/such/place\n", own, false);
    assert_int_equal(kept_count, 0);
}

static void lines_that_are_none_are_said(void **state)
{
    static const struct {
        const char *text, *where;
    } cases[] = {{"[node]\nhttp = 7707\nspill\n", ":3: "},
                 {"# x\nspill = /no\n[node]\n", ":2: "},
                 {"[node\n", ":1: "},
                 {"[node]\n\n[nodes]\n", ":3: "},
                 {"[node]\n\tlanes = 2\n", ":2: "}};
    static struct setup setup;
    char line[256] = "[node]\nspill = ";
    uid_t own = geteuid();

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        look_at_config(cases[i].text, own, true);
        expect(DOCTOR_BAD, "config", cases[i].where, "nighd --check");
    }
    look_at_config("\n; [x\n[node]\nlanes: 2 ; x\n  # x\n\t;x\n \n[pool a]\nmode = 0600\n#", own,
                   true);
    assert_int_equal(kept_count, 0);
    look_at_config("\xef\xbb\xbf[node]\nspill = /no/such/place\n", own, true);
    expect(DOCTOR_BAD, "spill dir", "/no/such: No such file", "mkdir -p");
    assert_int_equal(kept_count, 1);
    /* As long as may be, and longer. */
    memset(line + strlen(line), '/', 189 - strlen("spill = "));
    put(CONFIG, line);
    assert_true(setup_read_file(root, CONFIG, &setup));
    assert_int_equal(setup.wrong_line, 0);
    strcat(line, "/");
    put(CONFIG, line);
    assert_true(setup_read_file(root, CONFIG, &setup));
    assert_int_equal(setup.wrong_line, 2);
}

static void secrets_that_others_may_read_are_said(void **state)
{
    static const char config[] = "[node]\ncluster-key = /etc/nigh/cluster.key\n"
                                 "directory-password = /etc/nigh/password\n";
    uid_t own = geteuid();

    (void)state;
    look_at_config(config, own, false);
    expect(DOCTOR_BAD, "cluster key", "No such file", "copy it");
    expect(DOCTOR_BAD, "password", "No such file", "copy it");
    put("/etc/nigh/cluster.key",
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n");
    put("/etc/nigh/password", "sesame\n");
    set_mode("/etc/nigh/cluster.key", 0600);
    set_mode("/etc/nigh/password", 0600);
    look_at_config(config, own, false);
    expect(DOCTOR_GOOD, "cluster key", "others may not read", NULL);
    expect(DOCTOR_GOOD, "password", "others may not read", NULL);
    look_at_config(config, 54321, false);
    expect(DOCTOR_BAD, "cluster key", "cannot be read by user 54321", "LoadCredential");
    look_at_config(config, UNKNOWN, false);
    expect(DOCTOR_GOOD, "cluster key", "others may not read", NULL);
    set_mode("/etc/nigh/cluster.key", 0644);
    set_mode("/etc/nigh/password", 0604);
    look_at_config(config, own, false);
    expect(DOCTOR_BAD, "cluster key", "everybody may read", "chmod 600");
    expect(DOCTOR_BAD, "password", "everybody may read", "chmod 600");
    put("/etc/nigh/cluster.key", "short\n");
    set_mode("/etc/nigh/cluster.key", 0600);
    look_at_config(config, own, false);
    expect(DOCTOR_BAD, "cluster key", "has 6 bytes, and no key", "/dev/urandom");
    for (size_t i = 0; i < kept_count; i++) {
        assert_null(strstr(kept[i].finding, "sesame"));
    }
}

/* What systemd lends a service is there while that runs. */
static void credentials_are_looked_for_while_the_node_runs(void **state)
{
    static const char config[] = "[node]\ncluster-key = /run/credentials/nighd.service/key\n";

    (void)state;
    look_at_config(config, UNKNOWN, false);
    assert_int_equal(kept_count, 0);
    look_at_config(config, 0, true);
    expect(DOCTOR_BAD, "cluster key", "No such file", NULL);
}

/* Who may not look says so, and does not take it for a trouble of the node's. */
static void what_may_not_be_looked_at_is_said(void **state)
{
    static struct setup setup = {.source = "a test", .state = "/a/b/c", .cluster_key = "/a/b/key"};
    uid_t before = geteuid();
    struct doctor doctor = begun();

    (void)state;
    put("/a/b/key", "x");
    set_mode("/a", 0);
    assert_true(before != 0 || seteuid(54321) == 0);
    doctor_look_at_setup(&doctor, &setup);
    assert_true(before != 0 || seteuid(before) == 0);
    set_mode("/a", 0700);
    expect(DOCTOR_NOTE, "state dir", "not for this user to look at", "as root");
    expect(DOCTOR_NOTE, "cluster key", "Permission denied", "as root");
}

static void ports_that_are_not_free_are_said(void **state)
{
    static const char config[] = "[node]\njoin = @/etc/nigh/nodes\nmember = 1\nhttp = 7707\n";

    (void)state;
    put("/etc/nigh/nodes", "10.0.0.1:7470\n10.0.0.2:7471\n");
    put("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
    put("/proc/net/tcp", "  sl  local_address rem_address   st\n"
                         "   0: 0100007F:1D2E 00000000:0000 0A 00000000:00000000\n");
    look_at_config(config, 0, false);
    expect(DOCTOR_GOOD, "port", "7471", NULL);
    expect(DOCTOR_GOOD, "http port", "7707", NULL);
    put("/proc/net/tcp", "  sl  local_address rem_address   st\n"
                         "   0: 0100007F:1D2F 0200007F:1234 01 00000000:00000000\n"
                         "   1: 0100007F:1E1B 00000000:0000 0A 00000000:00000000\n");
    put("/proc/net/tcp6", "  sl  local_address rem_address   st\n"
                          "   0: 00000000000000000000000000000000:1D2F "
                          "00000000000000000000000000000000:0000 0A 0:0\n");
    look_at_config(config, 0, false);
    expect(DOCTOR_BAD, "port", "port 7471 (" CONFIG ") is taken", "ss -ltnp");
    expect(DOCTOR_BAD, "http port", "port 7707 (" CONFIG ") is taken", "ss -ltnp");
    expect(DOCTOR_BAD, "http port", "port 7707", "--http");
    look_at_config(config, 0, true); /* they are its own */
    expect(DOCTOR_GOOD, "port", "7471", NULL);
    put("/proc/sys/net/ipv4/ip_local_port_range", "1024\t60999\n");
    look_at_config("[node]\nmember = 10.0.0.2:7475\n", 0, true);
    expect(DOCTOR_NOTE, "port", "port 7475", "ip_local_reserved_ports");
    put("/proc/sys/net/ipv4/ip_local_reserved_ports", "80,7470-7480\n");
    look_at_config("[node]\nmember = 10.0.0.2:7475\nlisten = *:7475\n", 0, true);
    expect(DOCTOR_GOOD, "port", "7475", NULL);
}

/* What listens at one address has no other one's port; what listens at all has. */
static void ports_are_those_of_their_address(void **state)
{
    static const struct {
        const char *table, *listens, *http;
        enum doctor_severity severity;
    } cases[] = {
        {"tcp", "0200007F:1E1B 00000000:0000", "7707", DOCTOR_GOOD},
        {"tcp", "0200007F:1E1B 00000000:0000", "127.0.0.2:7707", DOCTOR_BAD},
        {"tcp", "0200007F:1E1B 00000000:0000", "*:7707", DOCTOR_BAD},
        {"tcp", "0200007F:1E1B 00000000:0000", "[::]:7707", DOCTOR_BAD},
        {"tcp", "0200007F:1E1B 00000000:0000", "node1:7707", DOCTOR_BAD},
        {"tcp", "00000000:1E1B 00000000:0000", "7707", DOCTOR_BAD},
        {"tcp", "00000000:1E1B 00000000:0000", "[::1]:7707", DOCTOR_GOOD},
        {"tcp", "0100007F:1E1B 00000000:0000", "[::1]:7707", DOCTOR_GOOD},
        {"tcp6", "00000000000000000000000001000000:1E1B 00000000000000000000000000000000:0000",
         "7707", DOCTOR_GOOD},
        {"tcp6", "00000000000000000000000001000000:1E1B 00000000000000000000000000000000:0000",
         "[::1]:7707", DOCTOR_BAD},
        {"tcp6", "0000000000000000FFFF00000100007F:1E1B 00000000000000000000000000000000:0000",
         "7707", DOCTOR_BAD},
        {"tcp6", "00000000000000000000000000000000:1E1B 00000000000000000000000000000000:0000",
         "127.0.0.1:7707", DOCTOR_BAD},
    };
    char text[256], row[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        put("/proc/net/tcp", "  sl  local_address rem_address   st\n");
        put("/proc/net/tcp6", "  sl  local_address rem_address   st\n");
        (void)snprintf(text, sizeof(text), "/proc/net/%s", cases[i].table);
        (void)snprintf(row, sizeof(row), "  sl\n   0: %s 0A 0:0\n", cases[i].listens);
        put(text, row);
        (void)snprintf(text, sizeof(text), "[node]\nhttp = %s\n", cases[i].http);
        look_at_config(text, 0, false);
        expect(cases[i].severity, "http port", "7707", NULL);
    }
}

static void put_words(const char *words, size_t bytes)
{
    put_bytes("/proc/77/cmdline", words, bytes);
}

static void what_a_node_was_started_with_is_read(void **state)
{
    static const char words[] =
        "/usr/bin/nighd\0--config\0conf\0--state=kept\0--spill\0/b\0--memory";
    static const char flags[] = "nighd\0--hold\0--spill\0/a\0--check";
    static const char other[] = "/usr/bin/vi\0--state\0/a";
    static struct setup setup;

    (void)state;
    put("/proc/77/cwd/conf", "[node]\nspill = /a\ncluster-key = key\n");
    put_words(words, sizeof(words));
    assert_true(setup_read_process(root, 77, &setup));
    assert_true(setup.is_live);
    assert_string_equal(setup.spill, "/b"); /* the flag wins */
    assert_string_equal(setup.state, "/proc/77/cwd/kept");
    assert_string_equal(setup.cluster_key, "/proc/77/cwd/key");
    put_words(flags, sizeof(flags));
    assert_true(setup_read_process(root, 77, &setup));
    assert_string_equal(setup.spill, "/a"); /* --hold has no value */
    assert_int_equal(setup.text_count, 1);
    put_words(other, sizeof(other));
    assert_false(setup_read_process(root, 77, &setup));
    assert_string_equal(setup.called, "vi");
    assert_false(setup_read_process(root, 78, &setup));
    assert_string_equal(setup.called, "");
}

static void put_link(const char *path, const char *to)
{
    char full[2 * PATH_BYTES];

    (void)snprintf(full, sizeof(full), "%s%s", root, path);
    assert_int_equal(symlink(to, full), 0);
}

/* Of a node that sees other files its own are looked at, with its own mounts, and no ports. */
static void a_node_in_a_container_is_looked_at_there(void **state)
{
    static const char words[] = "nighd\0--config\0/conf\0--log-dir\0/logs\0--http\0"
                                "80";
    static struct setup setup;
    struct doctor doctor = begun();

    (void)state;
    put("/proc/self/ns/mnt", "");
    put("/proc/77/ns/mnt", "");
    put("/proc/self/ns/net", "");
    put("/proc/77/ns/net", "");
    put("/conf", "[node]\nstate = /here\n");
    put("/proc/77/root/conf", "[node]\nstate = /there\ncluster-key = key\n");
    put("/proc/77/root/there/x", "");
    put("/proc/77/root/logs/x", "");
    put("/proc/77/root/work/key", "x");
    put_link("/proc/77/cwd", "/work");
    put("/proc/self/mountinfo", "20 1 8:1 / / ro - ext4 /dev/sda1 ro\n");
    put("/proc/77/mountinfo", "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
                              "21 20 0:5 / /logs rw,nosuid - tmpfs tmpfs rw\n");
    put_words(words, sizeof(words));
    assert_true(setup_read_process(root, 77, &setup));
    assert_true(setup.is_elsewhere && setup.has_own_net);
    doctor_look_at_setup(&doctor, &setup);
    expect(DOCTOR_GOOD, "state dir", "/there", NULL);
    expect(DOCTOR_NOTE, "log dir", "/logs (process 77) lies in memory", NULL);
    expect(DOCTOR_BAD, "cluster key", "/proc/77/cwd/key", NULL);
    expect_none("http port");
}

/* A link there leads to what is there, and not to what is called so here. */
static void links_in_a_container_lead_to_its_files(void **state)
{
    static const char words[] = "nighd\0--cluster-key\0/run/key\0--state\0kept\0--join\0@/nodes\0"
                                "--member\0"
                                "0";
    static struct setup setup;
    struct doctor doctor = begun();

    (void)state;
    put("/proc/self/ns/mnt", "");
    put("/proc/77/ns/mnt", "");
    put("/proc/77/root/secret/key", "less than a key");
    set_mode("/proc/77/root/secret/key", 0600);
    put("/proc/77/root/run/x", "");
    put("/proc/77/root/data/state/x", "");
    put("/proc/77/root/work/x", "");
    put("/proc/77/root/lists/nodes", "10.0.0.1:7470\n");
    put_link("/proc/77/root/run/key", "/secret/key");
    put_link("/proc/77/root/work/kept", "/data/state");
    put_link("/proc/77/root/nodes", "../lists/nodes"); /* no further up than its root */
    put_link("/proc/77/cwd", "/work");
    put_words(words, sizeof(words));
    assert_true(setup_read_process(root, 77, &setup));
    doctor_look_at_setup(&doctor, &setup);
    expect(DOCTOR_BAD, "cluster key", "/run/key (process 77) has 15 bytes", "od -An");
    expect(DOCTOR_GOOD, "state dir", "/proc/77/cwd/kept", NULL);
    expect(DOCTOR_GOOD, "port", "7470", NULL);
}

/* ---- a node --------------------------------------------------------------- */

static void counts_of_troubles_are_said(void **state)
{
    static nigh_node_stats stats; /* all that it counts */
    struct doctor doctor = begun();

    (void)state;
    doctor_look_at_counts(&doctor, &stats);
    assert_int_equal(kept_count, 0);
    stats = (nigh_node_stats){.out_of_memory = 3,
                              .pinned_bytes = 1 << 20,
                              .index_full = 1,
                              .spill_bytes = 100,
                              .spilled_bytes = 99,
                              .spill_free_bytes = 1,
                              .spill_failures = 7,
                              .checksum_failures = 8,
                              .expelled = 9,
                              .announcements_refused = 10,
                              .claims_refused = 11,
                              .shares_refused = 12,
                              .call_memory_refused = 13,
                              .datagrams_refused = 14,
                              .suspicions_refuted = 15,
                              .replicas_missing = 2,
                              .replicas_wanted = 5,
                              .view_seats = 8};
    doctor_look_at_counts(&doctor, &stats);
    expect(DOCTOR_NOTE, "full", "start: 3 ", "nigh unpin");
    expect(DOCTOR_NOTE, "index", "an index was full: 1", "--max-objects");
    expect(DOCTOR_NOTE, "spill", "99 B of 100 B on disk", "--spill-max");
    expect(DOCTOR_NOTE, "spill files", "start: 7", "disk");
    expect(DOCTOR_NOTE, "checksums", "start: 8", "tested");
    expect(DOCTOR_NOTE, "expelled", "start: 9", "log");
    expect(DOCTOR_NOTE, "homes", "start: 10", "--max-objects");
    expect(DOCTOR_NOTE, "claims", "start: 11", "nighd --version");
    expect(DOCTOR_NOTE, "shares", "start: 12", "nigh top");
    expect(DOCTOR_NOTE, "call memory", "start: 13", "--call-memory");
    expect(DOCTOR_NOTE, "strangers", "start: 14", "control port");
    expect(DOCTOR_NOTE, "strangers", "start: 14", "the same --join, in the same order");
    expect(DOCTOR_NOTE, "slow", "start: 15", "--dead-ms");
    expect(DOCTOR_NOTE, "replicas", "2 of 5 replicas", "start the nodes");
    expect(DOCTOR_NOTE, "ranks", "8 were given", "--ranks 256");
    kept_count = 0;
    stats = (nigh_node_stats){.view_seats = 8, .view_seats_free = 1, .replicas_wanted = 5};
    doctor_look_at_counts(&doctor, &stats);
    assert_int_equal(kept_count, 0);
}

static void counts_of_other_nodes_and_devices_are_said(void **state)
{
    static nigh_node_stats stats;
    struct doctor doctor = begun();

    (void)state;
    stats = (nigh_node_stats){.pulls_failed = 21,
                              .loans_overdue = 22,
                              .space_blocks_lost = 23,
                              .device_stock_lows = 24}; /* which bursts do */
    doctor_look_at_counts(&doctor, &stats);
    expect(DOCTOR_NOTE, "pulls", "start: 21", "a larger quota");
    expect(DOCTOR_NOTE, "loans", "start: 22", "nigh doctor at who borrowed");
    expect(DOCTOR_NOTE, "blocks", "23 blocks of spaces", "write them anew");
    assert_int_equal(kept_count, 3);
}

/* Whoever filled the disk. */
static void a_disk_on_which_nothing_goes_is_said(void **state)
{
    static nigh_node_stats stats;
    struct doctor doctor = begun();

    (void)state;
    stats = (nigh_node_stats){.spill_bytes = 80 << 10};
    doctor_look_at_counts(&doctor, &stats);
    expect(DOCTOR_NOTE, "spill", "0 B of 80.0 KiB on disk, 0 B left for puts", "make room");
    kept_count = 0;
    stats.spill_bytes = 1; /* of a disk that has nothing left */
    doctor_look_at_counts(&doctor, &stats);
    expect(DOCTOR_NOTE, "spill", "0 B left for puts", "make room");
    kept_count = 0;
    stats = (nigh_node_stats){.spill_bytes = 80 << 10, .spill_free_bytes = 10 << 10};
    doctor_look_at_counts(&doctor, &stats);
    expect(DOCTOR_GOOD, "spill", "10.0 KiB left for puts", NULL);
}

/* Before anything is refused. */
static void what_is_nearly_used_up_is_said(void **state)
{
    static nigh_node_stats stats;
    struct doctor doctor = begun();

    (void)state;
    stats = (nigh_node_stats){.memory_bytes = 1000 << 20,
                              .pinned_bytes = 800 << 20,
                              .index_entries = 1000,
                              .index_used = 900,
                              .region_memory_bytes = 15 << 20,
                              .region_memory_limit_bytes = 16 << 20,
                              .space_memory_bytes = 15 << 20,
                              .space_memory_limit_bytes = 16 << 20};
    doctor_look_at_counts(&doctor, &stats);
    assert_int_equal(kept_count, 0);
    stats.pinned_bytes++;
    stats.index_used++;
    stats.region_memory_bytes++;
    stats.space_memory_bytes = stats.space_memory_limit_bytes;
    doctor_look_at_counts(&doctor, &stats);
    expect(DOCTOR_NOTE, "pinned", "800.0 MiB of 1000.0 MiB", "nigh unpin");
    expect(DOCTOR_NOTE, "index", "901 of 1000 entries", "--max-objects");
    expect(DOCTOR_NOTE, "regions", "15.0 MiB of 16.0 MiB", "--region-memory");
    expect(DOCTOR_NOTE, "spaces", "16.0 MiB of 16.0 MiB", "--space-memory");
    assert_int_equal(kept_count, 4);
}

/* One of a hundred, and no fewer. */
static void calls_that_end_badly_are_said(void **state)
{
    static nigh_node_stats stats;
    struct doctor doctor = begun();

    (void)state;
    stats = (nigh_node_stats){.calls_begun = 1000, .calls_busy = 10, .calls_timed_out = 10};
    doctor_look_at_counts(&doctor, &stats);
    assert_int_equal(kept_count, 0);
    stats = (nigh_node_stats){.calls_begun = 20, .calls_busy = 9, .calls_timed_out = 9};
    doctor_look_at_counts(&doctor, &stats);
    assert_int_equal(kept_count, 0); /* so few are none to speak of */
    stats.calls_begun = 1000;
    stats.calls_busy = 11;
    stats.calls_timed_out = 12;
    doctor_look_at_counts(&doctor, &stats);
    expect(DOCTOR_NOTE, "calls", "under way: 11; 1000 were begun", "more servers");
    expect(DOCTOR_NOTE, "slow calls", "start: 12; 1000 were begun", "nigh_service_seconds");
    assert_int_equal(kept_count, 2);
}

static void members_that_disagree_are_said(void **state)
{
    nigh_node_info nodes[3] = {
        {.rank = 0, .state = NIGH_NODE_IS_UP, .view = NIGH_NODE_IN_VIEW, .is_self = 1},
        {.rank = 1, .state = NIGH_NODE_IS_UP, .view = NIGH_NODE_IN_VIEW, .address = "10.0.0.2:1"},
        {.rank = 2, .state = NIGH_NODE_IS_UP, .view = NIGH_NODE_IN_VIEW, .address = "10.0.0.3:1"}};
    nigh_node_stats stats = {.uptime_us = UINT64_C(3600000000),
                             .nodes_reached = 2,
                             .view_epoch = 5,
                             .space_memory_limit_bytes = 1};
    struct doctor doctor = begun();

    (void)state;
    doctor_look_at_members(&doctor, nodes, 3, &stats, false);
    assert_int_equal(kept_count, 0);
    nodes[1].view = nodes[2].view = NIGH_NODE_OUT_OF_VIEW;
    nodes[2].life = NIGH_NODE_SUSPECTED;
    nodes[2].leaving = 1;
    nodes[0].name_refused = NIGH_EXISTS;
    stats.nodes_reached = 0;
    doctor_look_at_members(&doctor, nodes, 3, &stats, false);
    expect(DOCTOR_NOTE, "view", "node 1 (10.0.0.2:1), and others,", "nodes that vote");
    expect(DOCTOR_NOTE, "disagree", "node 2 (10.0.0.3:1) is up here", "UDP");
    expect(DOCTOR_NOTE, "leaving", "node 2", "--undo");
    expect(DOCTOR_NOTE, "name", "node 0", "--name");
    expect(DOCTOR_NOTE, "datagrams", "no other node", "UDP");
    kept_count = 0;
    stats.uptime_us = 1000000; /* they may be about to come */
    nodes[0].name_refused = NIGH_OK;
    nodes[1].state = nodes[2].state = NIGH_NODE_IS_DEAD; /* that is said otherwise */
    doctor_look_at_members(&doctor, nodes, 3, &stats, false);
    assert_int_equal(kept_count, 0);
}

static void nodes_that_agree_on_nothing_are_said(void **state)
{
    nigh_node_info nodes[2] = {{.rank = 0, .state = NIGH_NODE_IS_UP, .is_self = 1},
                               {.rank = 1, .state = NIGH_NODE_IS_UP}};
    nigh_node_stats stats = {.nodes_reached = 1};
    struct doctor doctor = begun();

    (void)state;
    doctor_look_at_members(&doctor, nodes, 1, &stats, false); /* it is alone */
    assert_int_equal(kept_count, 0);
    doctor_look_at_members(&doctor, nodes, 2, &stats, false);
    expect(DOCTOR_NOTE, "agreement", "no regions and no spaces", "--state DIR at all");
    assert_int_equal(kept_count, 1);
    kept_count = 0;
    doctor_look_at_members(&doctor, nodes, 2, &stats, true); /* they began just now */
    expect(DOCTOR_NOTE, "agreement", "have not agreed yet", "wait some seconds");
    assert_null(strstr(kept[0].remedy, "--state"));
    kept_count = 0;
    stats.directory_servers = 1; /* it stands for what they would agree on */
    doctor_look_at_members(&doctor, nodes, 2, &stats, false);
    assert_int_equal(kept_count, 0);
    stats = (nigh_node_stats){.nodes_reached = 1, .view_epoch = 1};
    doctor_look_at_members(&doctor, nodes, 2, &stats, false);
    expect(DOCTOR_GOOD, "spaces", "serves none", NULL);
    assert_int_equal(kept_count, 1);
}

static void nodes_with_more_lanes_are_said(void **state)
{
    nigh_link_info links[3] = {
        {.rank = 1, .rail = 0}, {.rank = 2, .rail = 1}, {.rank = 1, .rail = 1}};
    nigh_node_stats stats = {.lanes = 2};
    struct doctor doctor = begun();

    (void)state;
    doctor_look_at_links(&doctor, links, 3, &stats);
    doctor_look_at_links(&doctor, links, 0, &stats);
    assert_int_equal(kept_count, 0);
    links[1].rail = 3;
    doctor_look_at_links(&doctor, links, 3, &stats);
    expect(DOCTOR_NOTE, "lanes", "has 2 lanes, node 2 has more", "--lanes");
}

static void a_clock_that_went_back_is_said(void **state)
{
    struct doctor doctor = begun();

    (void)state;
    doctor_look_at_life(&doctor, 8000, 1700001000);
    doctor_look_at_life(&doctor, 8000 + 60 * 8, 1700001000); /* started again and again */
    doctor_look_at_life(&doctor, 8000, 1800000000);
    assert_int_equal(kept_count, 0);
    doctor_look_at_life(&doctor, 8000, 1700000900);
    expect(DOCTOR_NOTE, "clock", "100 s behind", "--state");
    doctor_look_at_life(&doctor, 8000, 5); /* one that nobody has set */
    expect(DOCTOR_NOTE, "clock", "1700000995 s behind", "chrony");
}

/* Each reason has what mends that one. */
static void refusals_have_remedies(void **state)
{
    static const struct {
        nigh_status refused;
        const char *remedy;
    } cases[] = {{NIGH_DENIED, "--cluster-key"},   {NIGH_INVALID, "--join"},
                 {NIGH_VERSION, "same release"},   {NIGH_UNSUPPORTED, "--fabric"},
                 {NIGH_NOT_FOUND, "--directory"},  {NIGH_EXISTS, "--member of its own"},
                 {NIGH_PROTOCOL, "same key, list"}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_non_null(strstr(doctor_refusal_remedy(cases[i].refused), cases[i].remedy));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_good_machine_has_no_trouble, begin),
        cmocka_unit_test_setup(memory_that_lacks_is_said, begin),
        cmocka_unit_test_setup(limits_are_said, begin),
        cmocka_unit_test_setup(limits_of_a_node_are_its_own, begin),
        cmocka_unit_test_setup(shares_of_processors_are_said, begin),
        cmocka_unit_test_setup(a_kernel_that_lacks_something_is_said, begin),
        cmocka_unit_test_setup(a_virtual_machine_whose_clock_may_stand_still_is_said, begin),
        cmocka_unit_test_setup(directories_that_will_not_do_are_said, begin),
        cmocka_unit_test_setup(lines_that_are_none_are_said, begin),
        cmocka_unit_test_setup(secrets_that_others_may_read_are_said, begin),
        cmocka_unit_test_setup(credentials_are_looked_for_while_the_node_runs, begin),
        cmocka_unit_test_setup(what_may_not_be_looked_at_is_said, begin),
        cmocka_unit_test_setup(ports_that_are_not_free_are_said, begin),
        cmocka_unit_test_setup(ports_are_those_of_their_address, begin),
        cmocka_unit_test_setup(what_a_node_was_started_with_is_read, begin),
        cmocka_unit_test_setup(a_node_in_a_container_is_looked_at_there, begin),
        cmocka_unit_test_setup(links_in_a_container_lead_to_its_files, begin),
        cmocka_unit_test_setup(counts_of_troubles_are_said, begin),
        cmocka_unit_test_setup(counts_of_other_nodes_and_devices_are_said, begin),
        cmocka_unit_test_setup(a_disk_on_which_nothing_goes_is_said, begin),
        cmocka_unit_test_setup(what_is_nearly_used_up_is_said, begin),
        cmocka_unit_test_setup(calls_that_end_badly_are_said, begin),
        cmocka_unit_test_setup(members_that_disagree_are_said, begin),
        cmocka_unit_test_setup(nodes_that_agree_on_nothing_are_said, begin),
        cmocka_unit_test_setup(nodes_with_more_lanes_are_said, begin),
        cmocka_unit_test_setup(a_clock_that_went_back_is_said, begin),
        cmocka_unit_test_setup(refusals_have_remedies, begin),
    };

    return cmocka_run_group_tests_name("cli-doctor", tests, NULL, NULL);
}
