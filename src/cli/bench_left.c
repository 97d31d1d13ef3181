/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of what a run of `nigh bench region` or `nigh bench space` makes, and what runs have left
 * that were killed. A name says whose it is: which machine (as it was booted), which namespaces of
 * pids and of times, which process of these, and when that began. So a later run there, of the same
 * user, can tell that nobody frees it any more; of another machine's processes it can tell nothing,
 * and leaves theirs.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/bench.h"
#include "nigh/space.h"

enum {
    REGION_DIGITS = 16, /* of the machine; names of spaces have less room */
    SPACE_DIGITS = 8,
    PREFIX_BYTES = sizeof BENCH_REGION_PREFIX - 1 + REGION_DIGITS + 1, /* with its dash */
    SPACE_PREFIX_BYTES = sizeof BENCH_REGION_PREFIX - 1 + SPACE_DIGITS + 1,
    PAGE_ENTRIES = 128
};

_Static_assert(PREFIX_BYTES + 10 + 1 + 20 < BENCH_REGION_NAME &&
                   BENCH_REGION_NAME - 1 <= NIGH_REGION_NAME_BYTES,
               "a pid and a time fit, and all of it is a region's name");
_Static_assert(SPACE_PREFIX_BYTES + 7 + 1 + 19 < BENCH_SPACE_NAME &&
                   BENCH_SPACE_NAME - 1 <= NIGH_SPACE_NAME_BYTES,
               "the largest pid and a time fit, and all of it is a space's name");

/* The first line of a file. */
static bool read_line(const char *path, char *line, int line_bytes)
{
    FILE *file = fopen(path, "re");
    bool is_read = file != NULL && fgets(line, line_bytes, file) != NULL;

    if (file != NULL) {
        fclose(file);
    }
    return is_read;
}

/* When it began, in clock ticks since the machine did; false: it cannot be told, or /proc/WHICH is
 * another process's, as where it is of another namespace of pids. */
static bool read_start(const char *which, long pid, uint64_t *start)
{
    char path[32], line[1024];
    const char *at;

    (void)snprintf(path, sizeof path, "/proc/%s/stat", which);
    at = read_line(path, line, sizeof line) && strtol(line, NULL, 10) == pid ? strrchr(line, ')')
                                                                             : NULL;
    /* "pid (name) state ppid ...": it is the twentieth behind the name, which may be anything. */
    return at != NULL && sscanf(at + 1,
                                " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                                "%*s %*s %*s %" SCNu64,
                                start) == 1;
}

/* What names of this machine's processes begin with. */
static bool tell_prefix(char prefix[PREFIX_BYTES + 1], int digits)
{
    char boot[64], text[192], machine_id[REGION_DIGITS + 1];
    struct stat space, times = {.st_ino = 0};
    struct utsname machine;
    nigh_id id;

    if (!read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot) ||
        stat("/proc/self/ns/pid", &space) != 0 || uname(&machine) != 0) {
        return false;
    }
    (void)stat("/proc/self/ns/time", &times); /* when a process began is told as of there */
    (void)snprintf(text, sizeof text, "%s %ju %ju %s", boot, (uintmax_t)space.st_ino,
                   (uintmax_t)times.st_ino, machine.nodename);
    if (nigh_id_from_name(text, &id) != NIGH_OK) {
        return false;
    }
    for (int n = 0; n < REGION_DIGITS / 2; n++) {
        (void)snprintf(machine_id + 2 * n, 3, "%02x", id.bytes[n]);
    }
    (void)snprintf(prefix, PREFIX_BYTES + 1, BENCH_REGION_PREFIX "%.*s-", digits, machine_id);
    return true;
}

static nigh_status make_name(char *name, size_t room, int digits)
{
    char prefix[PREFIX_BYTES + 1];
    nigh_status status;
    uint64_t start;
    nigh_id id;

    if (tell_prefix(prefix, digits) && read_start("self", getpid(), &start)) {
        (void)snprintf(name, room, "%s%ld-%" PRIu64, prefix, (long)getpid(), start);
        return NIGH_OK;
    }
    status = nigh_id_random(&id); /* without /proc: nobody's, for a later run */
    if (status == NIGH_OK) {
        (void)snprintf(name, room, BENCH_REGION_PREFIX "%02x%02x%02x%02x%02x%02x", id.bytes[0],
                       id.bytes[1], id.bytes[2], id.bytes[3], id.bytes[4], id.bytes[5]);
    }
    return status;
}

nigh_status bench_region_name(char name[BENCH_REGION_NAME])
{
    return make_name(name, BENCH_REGION_NAME, REGION_DIGITS);
}

nigh_status bench_space_name(char name[BENCH_SPACE_NAME])
{
    return make_name(name, BENCH_SPACE_NAME, SPACE_DIGITS);
}

/* Whether the process that is meant has ended: what cannot be told is no. */
static bool has_ended(const char *process)
{
    uint64_t start = 0, began = 0;
    long pid = 0;
    char end, which[24];

    if (sscanf(process, "%10ld-%20" SCNu64 "%c", &pid, &start, &end) != 2 || pid <= 0) {
        return false;
    }
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH) {
        return true;
    }
    (void)snprintf(which, sizeof which, "%ld", pid);
    return read_start(which, pid, &began) && began != start;
}

static uint64_t left_us(uint64_t deadline_us)
{
    return clock_left_us(clock_now_us(&clock_monotonic), deadline_us);
}

static void remove_one(nigh_client *client, const char *name, uint64_t deadline_us)
{
    nigh_region *region;

    if (nigh_region_open(client, name, NIGH_REGION_MASTER, left_us(deadline_us), &region) ==
        NIGH_OK) {
        (void)nigh_region_free(region, left_us(deadline_us));
        nigh_region_close(region);
    }
}

/* Those of one page that nobody frees any more; false: what is behind it is nothing of this. */
static bool remove_of_page(nigh_client *client, const nigh_region_entry *entries, size_t count,
                           const char *prefix, uint64_t deadline_us)
{
    for (size_t n = 0; n < count; n++) {
        const nigh_region_entry *entry = &entries[n];

        if (strncmp(entry->name, prefix, PREFIX_BYTES) != 0 || left_us(deadline_us) == 0) {
            return false;
        }
        if (entry->info.uid == geteuid() && has_ended(entry->name + PREFIX_BYTES)) {
            remove_one(client, entry->name, deadline_us);
        }
    }
    return true;
}

void bench_remove_left(nigh_client *client, uint64_t timeout_us)
{
    static nigh_region_entry entries[PAGE_ENTRIES]; /* too large for the stack */
    uint64_t deadline_us = clock_deadline_us(clock_now_us(&clock_monotonic), timeout_us);
    char prefix[PREFIX_BYTES + 1], after[NIGH_REGION_NAME_BYTES + 1];
    nigh_status status;
    uint32_t more = 1;
    size_t count;

    if (!tell_prefix(prefix, REGION_DIGITS)) {
        return;
    }
    memcpy(after, prefix, sizeof prefix);
    while (more != 0 && left_us(deadline_us) > 0) {
        entries[0].info.struct_size = sizeof entries[0].info;
        status = nigh_region_list(client, after, entries, PAGE_ENTRIES, left_us(deadline_us),
                                  &count, &more);
        /* Also of a list in part: the rest is another run's. */
        if ((status != NIGH_OK && status != NIGH_PEER_LOST) || count == 0 ||
            !remove_of_page(client, entries, count, prefix, deadline_us)) {
            return;
        }
        memcpy(after, entries[count - 1].name, sizeof after);
    }
}

/* There are few of them: one page has all. */
void bench_remove_left_spaces(nigh_client *client, uint64_t timeout_us)
{
    nigh_space_info infos[PAGE_ENTRIES] = {{.struct_size = sizeof infos[0]}};
    uint64_t deadline_us = clock_deadline_us(clock_now_us(&clock_monotonic), timeout_us);
    char prefix[PREFIX_BYTES + 1];
    uint32_t more;
    size_t count;

    if (!tell_prefix(prefix, SPACE_DIGITS) ||
        nigh_space_list(client, prefix, infos, PAGE_ENTRIES, left_us(deadline_us), &count, &more) !=
            NIGH_OK) {
        return;
    }
    for (size_t n = 0; n < count && strncmp(infos[n].name, prefix, SPACE_PREFIX_BYTES) == 0; n++) {
        if (infos[n].uid == geteuid() && has_ended(infos[n].name + SPACE_PREFIX_BYTES)) {
            (void)nigh_space_delete(client, infos[n].name, left_us(deadline_us));
        }
    }
}
