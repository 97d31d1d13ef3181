/* SPDX-License-Identifier: Apache-2.0 */
/* See doctor.h: memory, limits, control groups, the kernel. Reads, changes nothing. */
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/limits.h"
#include "cli/doctor.h"

#define NODE_DESCRIPTORS_WANTED 4096u
#define NODE_MAPS_WANTED        32768u /* extents in a node's arena, and its clients', with room */
#define HUGE_PAGE_BYTES         (UINT64_C(2) << 20)
#define LOCKED_WANTED_BYTES     (UINT64_C(64) << 20)
#define PATH_BYTES              4400

enum {
    LINE_BYTES = 512,
    KERNEL_LEAST_MAJOR = 4,
    KERNEL_LEAST_MINOR = 14,
    KERNEL_TICKS_MINOR = 18 /* of 5: from then on another processor keeps time where one is late */
};

void doctor_find(const struct doctor *doctor, enum doctor_severity severity, const char *subject,
                 const char *remedy, const char *format, ...)
{
    char text[DOCTOR_FINDING_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    doctor->take(doctor->context, severity, subject, text, remedy);
}

/* The first line of a file that begins with `what` ("": the first). */
static bool read_line(const struct doctor *doctor, const char *path, const char *what,
                      char line[LINE_BYTES])
{
    char full[PATH_BYTES];
    FILE *file;
    bool found = false;

    (void)snprintf(full, sizeof full, "%s%s", doctor->root, path);
    file = fopen(full, "re");
    while (file != NULL && !found && fgets(line, LINE_BYTES, file) != NULL) {
        found = strncmp(line, what, strlen(what)) == 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

/* ---- memory --------------------------------------------------------------- */

static void look_at_memory(const struct doctor *doctor, const struct admission_facts *facts)
{
    char available[BYTES_SIZE_TEXT], total[BYTES_SIZE_TEXT];

    bytes_format_size(facts->memory_available_bytes, available);
    bytes_format_size(facts->memory_total_bytes, total);
    if (facts->memory_available_bytes < LIMIT_MEMORY_BYTES_MIN) {
        doctor_find(doctor, DOCTOR_BAD, "memory",
                    "free memory: nighd reserves all of its memory at start",
                    "only %s of %s is available", available, total);
    } else {
        doctor_find(doctor, DOCTOR_GOOD, "memory", "",
                    "%s of %s is available; nighd --memory may ask for less than that", available,
                    total);
    }
    if (facts->commit_left_bytes != ADMISSION_NO_LIMIT) {
        char left[BYTES_SIZE_TEXT];

        bytes_format_size(facts->commit_left_bytes, left);
        doctor_find(doctor, DOCTOR_NOTE, "overcommit",
                    "sysctl vm.overcommit_memory=0, or raise vm.overcommit_ratio",
                    "vm.overcommit_memory is 2: %s may still be committed, and reserved address "
                    "space counts",
                    left);
    }
}

static bool in_container(const struct doctor *doctor)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof path, "%s/.dockerenv", doctor->root);
    if (access(path, F_OK) == 0) {
        return true;
    }
    (void)snprintf(path, sizeof path, "%s/run/.containerenv", doctor->root);
    return access(path, F_OK) == 0 || getenv("KUBERNETES_SERVICE_HOST") != NULL;
}

static void look_at_cgroup(const struct doctor *doctor, const struct admission_facts *facts)
{
    const struct admission_cgroup *cgroup = &facts->cgroup;
    char limit[BYTES_SIZE_TEXT], available[BYTES_SIZE_TEXT];

    if (in_container(doctor)) {
        doctor_find(doctor, DOCTOR_NOTE, "container",
                    "share the socket's directory with the other containers; --ipc and /dev/shm "
                    "sizes do not matter to nigh",
                    "this looks like a container");
    }
    if (cgroup->version == 2 && cgroup->high_bytes < cgroup->limit_bytes) {
        bytes_format_size(cgroup->high_bytes, limit);
        doctor_find(doctor, DOCTOR_NOTE, "memory.high",
                    "raise memory.high (MemoryHigh= in the unit) above what nighd --check says "
                    "that it takes, or set it to max",
                    "above %s the kernel slows this group down (%s): a node that takes more at its "
                    "start may hang in it",
                    limit, cgroup->folder);
    }
    if (cgroup->version == 0) {
        doctor_find(doctor, DOCTOR_GOOD, "cgroup", "", "no memory controller limits this process");
        return;
    }
    if (cgroup->limit_bytes == ADMISSION_NO_LIMIT) {
        doctor_find(doctor, DOCTOR_GOOD, "cgroup", "", "version %u, no memory limit",
                    cgroup->version);
        return;
    }
    bytes_format_size(cgroup->limit_bytes, limit);
    bytes_format_size(cgroup->available_bytes, available);
    doctor_find(doctor, cgroup->available_bytes < LIMIT_MEMORY_BYTES_MIN ? DOCTOR_BAD : DOCTOR_NOTE,
                "cgroup",
                cgroup->version == 2
                    ? "raise memory.max (a container: its memory limit) above nighd --memory"
                    : "raise memory.limit_in_bytes (a container: its memory limit) above nighd "
                      "--memory",
                "version %u limits memory to %s, %s left (%s); objects count for who touches them "
                "first: the node",
                cgroup->version, limit, available, cgroup->folder);
}

static void look_at_huge_pages(const struct doctor *doctor, const struct admission_facts *facts)
{
    uint64_t free_bytes = admission_huge_free_bytes(facts);
    char text[BYTES_SIZE_TEXT];

    bytes_format_size(free_bytes, text);
    if (free_bytes == 0) {
        doctor_find(doctor, DOCTOR_NOTE, "huge pages",
                    "sysctl vm.nr_hugepages=N with N = memory / 2 MiB, before nighd starts (--huge "
                    "auto takes them)",
                    "none free: plain 4 KiB pages are used, which costs TLB misses in large "
                    "objects");
        return;
    }
    doctor_find(doctor, DOCTOR_GOOD, "huge pages", "", "%s free in pages of 2 MiB (%llu pages)",
                text, (unsigned long long)(free_bytes / HUGE_PAGE_BYTES));
}

static void look_at_shm(const struct doctor *doctor, const struct admission_facts *facts)
{
    char total[BYTES_SIZE_TEXT];

    bytes_format_size(facts->shm_total_bytes, total);
    doctor_find(
        doctor, DOCTOR_GOOD, "/dev/shm", "", "%s%s: nigh's memory files do not count against it",
        facts->shm_total_bytes == 0 ? "absent" : "has ", facts->shm_total_bytes == 0 ? "" : total);
}

static void look_at_swap(const struct doctor *doctor)
{
    char line[LINE_BYTES];

    if (read_line(doctor, "/proc/swaps", "/", line)) {
        doctor_find(doctor, DOCTOR_NOTE, "swap",
                    "swapoff -a, or a cgroup with memory.swap.max=0 for nighd",
                    "swap is on: cold objects may be swapped out, and a get of one then waits for "
                    "the disk");
    } else {
        doctor_find(doctor, DOCTOR_GOOD, "swap", "", "off");
    }
}

/* ---- limits --------------------------------------------------------------- */

/* Whose they are, for a sentence. */
#define WHOSE_BYTES 48

static void tell_whose(pid_t limited, char whose[WHOSE_BYTES])
{
    if (limited > 0) {
        (void)snprintf(whose, WHOSE_BYTES, "the node (process %d)", (int)limited);
    } else {
        (void)snprintf(whose, WHOSE_BYTES, "this process");
    }
}

/* The hard limit of descriptors, to which a node raises the soft one. */
static uint64_t read_descriptors(const struct doctor *doctor, pid_t limited)
{
    char path[48], line[LINE_BYTES];
    unsigned long long hard;

    if (limited > 0) {
        (void)snprintf(path, sizeof path, "/proc/%d/limits", (int)limited);
    } else {
        (void)snprintf(path, sizeof path, "/proc/self/limits");
    }
    return read_line(doctor, path, "Max open files", line) &&
                   sscanf(line, "Max open files %*s %llu", &hard) == 1
               ? hard
               : UINT64_MAX;
}

static void look_at_descriptors(const struct doctor *doctor, pid_t limited)
{
    uint64_t hard = read_descriptors(doctor, limited);
    char whose[WHOSE_BYTES];

    tell_whose(limited, whose);
    if (hard < NODE_DESCRIPTORS_WANTED) {
        doctor_find(doctor, DOCTOR_NOTE, "descriptors",
                    "ulimit -Hn 65536, or LimitNOFILE=65536 in the unit",
                    "the hard limit of %s is %llu; nighd needs two an extent and four a session",
                    whose, (unsigned long long)hard);
    } else if (hard == UINT64_MAX) {
        doctor_find(doctor, DOCTOR_GOOD, "descriptors", "", "%s has no hard limit", whose);
    } else {
        doctor_find(doctor, DOCTOR_GOOD, "descriptors", "", "the hard limit of %s is %llu", whose,
                    (unsigned long long)hard);
    }
}

static void look_at_limits(const struct doctor *doctor, const struct admission_facts *facts,
                           pid_t limited)
{
    char text[BYTES_SIZE_TEXT], whose[WHOSE_BYTES];

    tell_whose(limited, whose);
    bytes_format_size(facts->locked_limit_bytes, text);
    if (facts->locked_limit_bytes != ADMISSION_NO_LIMIT &&
        facts->locked_limit_bytes < LOCKED_WANTED_BYTES) {
        doctor_find(doctor, DOCTOR_NOTE, "memlock",
                    "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit",
                    "%s may lock %s: enough on one machine; registering memory with a network "
                    "card needs all of it",
                    whose, text);
    } else {
        doctor_find(doctor, DOCTOR_GOOD, "memlock", "", "%s may lock %s", whose,
                    facts->locked_limit_bytes == ADMISSION_NO_LIMIT ? "all memory" : text);
    }
    if (facts->address_limit_bytes != ADMISSION_NO_LIMIT) {
        bytes_format_size(facts->address_limit_bytes, text);
        doctor_find(doctor, DOCTOR_NOTE, "addresses", "ulimit -v unlimited",
                    "RLIMIT_AS of %s is %s; clients and nodes reserve address space far above the "
                    "memory they use",
                    whose, text);
    }
    if (facts->file_limit_bytes != ADMISSION_NO_LIMIT) {
        bytes_format_size(facts->file_limit_bytes, text);
        doctor_find(doctor, DOCTOR_NOTE, "file size",
                    "ulimit -f unlimited, or LimitFSIZE=infinity in the unit",
                    "files of %s may have up to %s: a node whose extents or indexes are larger "
                    "refuses to start, and spill and logs end there",
                    whose, text);
    }
}

static void look_at_maps(const struct doctor *doctor)
{
    char line[LINE_BYTES];
    unsigned long long most;

    if (read_line(doctor, "/proc/sys/vm/max_map_count", "", line) &&
        sscanf(line, "%llu", &most) == 1 && most < NODE_MAPS_WANTED) {
        doctor_find(doctor, DOCTOR_NOTE, "mappings", "sysctl vm.max_map_count=65530",
                    "a process may have %llu mappings; each extent is one, in the node and in its "
                    "clients",
                    most);
    }
}

/* ---- processors ----------------------------------------------------------- */

/* The folder of this process's group in a hierarchy: what stands behind "0::" or ":cpu,cpuacct:".
 */
static bool read_group(const struct doctor *doctor, bool is_second, char group[LINE_BYTES])
{
    char path[PATH_BYTES], line[LINE_BYTES];
    bool found = false;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", doctor->root);
    file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        char *kinds = strchr(line, ':'), *folder = kinds == NULL ? NULL : strchr(kinds + 1, ':');

        if (folder == NULL) {
            continue;
        }
        *folder = '\0';
        found = is_second ? kinds[1] == '\0'
                          : strcmp(kinds + 1, "cpu") == 0 || strncmp(kinds + 1, "cpu,", 4) == 0 ||
                                strstr(kinds + 1, ",cpu,") != NULL;
        if (found) {
            (void)snprintf(group, LINE_BYTES, "%.*s", (int)strcspn(folder + 1, "\n"), folder + 1);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

/* Of a folder of version 2, or 1: hundredths of a processor; 0: there is no quota. */
static unsigned long long read_quota_of(const struct doctor *doctor, bool is_second,
                                        const char *folder)
{
    char path[PATH_BYTES], line[LINE_BYTES];
    unsigned long long quota, period;

    (void)snprintf(path, sizeof path,
                   is_second ? "/sys/fs/cgroup%s/cpu.max" : "/sys/fs/cgroup/cpu%s/cpu.cfs_quota_us",
                   folder);
    if (!read_line(doctor, path, "", line) || line[0] == '-') {
        return 0;
    }
    if (is_second) {
        return sscanf(line, "%llu %llu", &quota, &period) == 2 && period > 0 ? quota * 100 / period
                                                                             : 0;
    }
    quota = strtoull(line, NULL, 10);
    (void)snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_period_us", folder);
    period = read_line(doctor, path, "", line) ? strtoull(line, NULL, 10) : 0;
    return period > 0 ? quota * 100 / period : 0;
}

/* What the group, or one above it, may have of the processors, in hundredths of one; 0: all. */
static unsigned long long read_quota(const struct doctor *doctor)
{
    unsigned long long least = 0;
    char group[LINE_BYTES];

    for (int version = 2; version >= 1 && least == 0; version--) {
        if (!read_group(doctor, version == 2, group)) {
            continue;
        }
        for (char *slash = group + strlen(group); slash != NULL; slash = strrchr(group, '/')) {
            unsigned long long quota;

            *slash = '\0';
            quota = read_quota_of(doctor, version == 2, group);
            least = quota > 0 && (least == 0 || quota < least) ? quota : least;
        }
    }
    return least;
}

static void look_at_cores(const struct doctor *doctor)
{
    unsigned long long quota = read_quota(doctor);
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;

    if (cores < 2) {
        doctor_find(doctor, DOCTOR_NOTE, "cores",
                    "give nigh a second core, or run nighd --spin-us 0 (the default on one core)",
                    "this process may use one core: a waiting client and a lane take turns on it");
    } else {
        doctor_find(doctor, DOCTOR_GOOD, "cores", "", "%d; one lane for two cores by default",
                    cores);
    }
    if (quota > 0) {
        doctor_find(doctor, DOCTOR_NOTE, "quota",
                    "no cpu.max (a container: no CPU limit; CPUQuota= in the unit) for nighd, or "
                    "nighd --spin-us 0 and a larger --dead-ms",
                    "the control group may use %llu.%02llu cores: what has used its share stands "
                    "still, and other nodes may take it for dead",
                    quota / 100, quota % 100);
    }
}

/* ---- the kernel ----------------------------------------------------------- */

static bool may_call(long result)
{
    return result >= 0 || (errno != ENOSYS && errno != EPERM);
}

uint32_t doctor_missing_calls(void)
{
    long pidfd = syscall(SYS_pidfd_open, getpid(), 0);
    uint32_t missing = may_call(pidfd) ? 0 : DOCTOR_PIDFD_OPEN;

    if (pidfd >= 0) {
        (void)close((int)pidfd);
    }
    /* Asked for what cannot be, they do nothing. */
    missing |= may_call(syscall(SYS_pidfd_getfd, -1, -1, 0)) ? 0 : DOCTOR_PIDFD_GETFD;
    missing |= may_call(syscall(SYS_close_range, ~0U, ~0U, 0)) ? 0 : DOCTOR_CLOSE_RANGE;
    missing |=
        may_call(syscall(SYS_epoll_pwait2, -1, NULL, 0, NULL, NULL, 0)) ? 0 : DOCTOR_EPOLL_PWAIT2;
    return missing;
}

/* What nodes lack without a call. */
static const struct {
    enum doctor_call call;
    const char *name, *lack;
} calls[] = {
    {DOCTOR_PIDFD_OPEN, "pidfd_open (5.3)", "the death of a client is seen by its socket alone"},
    {DOCTOR_PIDFD_GETFD, "pidfd_getfd (5.6)",
     "a client may keep others out for as long as a connection that it left takes to close"},
    {DOCTOR_CLOSE_RANGE, "close_range (5.9)",
     "a client may keep others out for as long as a connection that it left takes to close"},
    {DOCTOR_EPOLL_PWAIT2, "epoll_pwait2 (5.11)", "lanes sleep by whole milliseconds"},
};

/* Whether the processors say that a hypervisor runs them. */
static bool is_virtual(const struct doctor *doctor)
{
    char path[PATH_BYTES], word[64];
    bool found = false;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/proc/cpuinfo", doctor->root);
    file = fopen(path, "re");
    while (file != NULL && !found && fscanf(file, "%63s", word) == 1) {
        found = strcmp(word, "hypervisor") == 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

/* The kernel's own clock, by which reads of spaces go that ask nobody. */
static void look_at_ticks(const struct doctor *doctor, unsigned major, unsigned minor)
{
    if ((major < 5 || (major == 5 && minor < KERNEL_TICKS_MINOR)) && is_virtual(doctor)) {
        doctor_find(doctor, DOCTOR_NOTE, "ticks",
                    "a kernel of 5.18 or later, or a processor that the host leaves to the "
                    "machine that keeps time",
                    "Linux %u.%u on a virtual machine: where the host holds back the processor "
                    "that keeps time, what is read of spaces may be older than it should",
                    major, minor);
    }
}

void doctor_look_at_kernel(const struct doctor *doctor, uint32_t missing_calls)
{
    char line[LINE_BYTES] = "";
    unsigned major = 0, minor = 0;
    bool is_known = read_line(doctor, "/proc/sys/kernel/osrelease", "", line) &&
                    sscanf(line, "%u.%u", &major, &minor) == 2;

    line[strcspn(line, "\n")] = '\0';
    if (is_known && (major < KERNEL_LEAST_MAJOR ||
                     (major == KERNEL_LEAST_MAJOR && minor < KERNEL_LEAST_MINOR))) {
        doctor_find(doctor, DOCTOR_BAD, "kernel", "a kernel of 4.14 or later",
                    "Linux %.64s lacks what nodes need", line);
    } else {
        doctor_find(doctor, DOCTOR_GOOD, "kernel", "", "Linux %.64s", is_known ? line : "unknown");
    }
    if (is_known) {
        look_at_ticks(doctor, major, minor);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(calls); i++) {
        if ((missing_calls & calls[i].call) != 0) {
            doctor_find(doctor, DOCTOR_NOTE, "system calls",
                        "a kernel that has it, and in a container a filter of system calls "
                        "(seccomp) that lets it pass",
                        "%s may not be called here: %s", calls[i].name, calls[i].lack);
        }
    }
}

void doctor_look_at_machine(const struct doctor *doctor, const struct admission_facts *facts,
                            pid_t limited)
{
    look_at_memory(doctor, facts);
    look_at_cgroup(doctor, facts);
    look_at_huge_pages(doctor, facts);
    look_at_descriptors(doctor, limited);
    look_at_limits(doctor, facts, limited);
    look_at_maps(doctor);
    look_at_shm(doctor, facts);
    look_at_cores(doctor);
    look_at_swap(doctor);
}
