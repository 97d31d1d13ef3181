/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See doctor.h: whether the machine has what the node is told to use, as far as that can be seen
 * beforehand, and what of the node outlives it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/fd.h"
#include "base/limits.h"
#include "cli/doctor.h"

#define DISK_LEAST_BYTES  (UINT64_C(1) << 20)  /* with less nothing can be kept there */
#define STATE_BYTES       (UINT64_C(16) << 20) /* of a node that votes, and room */
#define LOGS_BYTES        (UINT64_C(64) << 20) /* of a few small spaces */
#define LOGS_OF_SPACES    2                    /* what logs take of the memory for spaces */
#define BLOCK_BYTES       512u                 /* that stat counts in */
#define FOLDERS_DEEP      3                    /* that nodes make in each other, and no deeper */
#define SESSIONS_FULL_8TH 7                    /* so many eighths of the sessions are nearly all */

/* ---- disks ---------------------------------------------------------------- */

/* What the disk has left that a folder lies on, or is to be made on; what it keeps for root is
 * root's. False: it does not say. */
static bool read_disk(const char *root, const struct setup *setup, const char *path,
                      struct doctor_disk *disk)
{
    bool is_root = setup->knows_uid && setup->uid == 0;
    int fd = setup_open(root, setup, path, O_PATH);
    char parent[SETUP_PATH_BYTES], *slash;
    struct statvfs st;
    bool found;

    if (fd < 0 && errno == ENOENT) {
        (void)snprintf(parent, sizeof parent, "%s", path);
        slash = strrchr(parent, '/');
        if (slash != NULL) {
            slash[slash == parent ? 1 : 0] = '\0';
            fd = setup_open(root, setup, parent, O_PATH);
        }
    }
    found = fd >= 0 && fstatvfs(fd, &st) == 0 && st.f_blocks > 0;
    if (found) {
        *disk = (struct doctor_disk){
            .free_bytes = (uint64_t)(is_root ? st.f_bfree : st.f_bavail) * st.f_frsize,
            .takes_no_file = st.f_files > 0 && (is_root ? st.f_ffree : st.f_favail) == 0};
    }
    fd_close(&fd);
    return found;
}

void doctor_look_at_disk(const struct doctor *doctor, const char *subject, const char *path,
                         const struct doctor_disk *disk, uint64_t wanted_bytes, const char *lost)
{
    char left[BYTES_SIZE_TEXT], wanted[BYTES_SIZE_TEXT];

    bytes_format_size(disk->free_bytes, left);
    bytes_format_size(wanted_bytes, wanted);
    if (disk->takes_no_file) {
        doctor_find(doctor, DOCTOR_BAD, subject,
                    "remove files on that disk (df -i), or name a folder on another",
                    "the disk of %s takes no more files: %s", path, lost);
    } else if (disk->free_bytes < DISK_LEAST_BYTES) {
        doctor_find(doctor, DOCTOR_BAD, subject,
                    "make room on that disk, or name a folder on another",
                    "the disk of %s is full: %s", path, lost);
    } else if (disk->free_bytes < wanted_bytes) {
        doctor_find(doctor, DOCTOR_NOTE, subject,
                    "make room on that disk, or name a folder on another",
                    "the disk of %s has %s left, and %s may be wanted: when it is full, %s", path,
                    left, wanted, lost);
    } else {
        doctor_find(doctor, DOCTOR_GOOD, subject, "", "the disk of %s has %s left", path, left);
    }
}

/* A size that an option says; 0: none. */
static uint64_t read_size(const struct setup *setup, const char *name)
{
    const char *value = setup_value(setup, name);
    uint64_t bytes = 0;

    return value != NULL && bytes_parse_size(value, &bytes) == NIGH_OK ? bytes : 0;
}

/* What the files of a folder take, and of those in it; the descriptor is taken. Links are not
 * followed. */
static uint64_t count_held(int fd, unsigned deep)
{
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    uint64_t bytes = 0;
    struct stat st;

    if (folder == NULL) {
        fd_close(&fd);
        return 0;
    }
    while ((entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        if (S_ISREG(st.st_mode)) {
            bytes += (uint64_t)st.st_blocks * BLOCK_BYTES;
        } else if (S_ISDIR(st.st_mode) && deep > 1) {
            bytes += count_held(openat(dirfd(folder), entry->d_name,
                                       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                                deep - 1);
        }
    }
    closedir(folder);
    return bytes;
}

uint64_t doctor_held_bytes(const char *root, const struct setup *setup, const char *path)
{
    return setup->is_live
               ? 0
               : count_held(setup_open(root, setup, path, O_RDONLY | O_DIRECTORY), FOLDERS_DEEP);
}

/* What of it is still to come. */
static uint64_t less_held(const struct doctor *doctor, const struct setup *setup, const char *path,
                          uint64_t wanted_bytes)
{
    uint64_t held_bytes = doctor_held_bytes(doctor->root, setup, path);

    return wanted_bytes > held_bytes ? wanted_bytes - held_bytes : 0;
}

/* Of a node that runs, what is there already takes its part: how much of the room for objects is
 * used it tells itself, and its logs lie in what was free before. A full disk is one all the same.
 */
static void look_at_disks(const struct doctor *doctor, const struct setup *setup)
{
    uint64_t space_bytes = setup->is_live ? 0 : read_size(setup, "space-memory");
    uint64_t spill_bytes = setup->is_live ? 0 : read_size(setup, "spill-max");
    uint64_t logs_bytes =
        space_bytes > UINT64_MAX / LOGS_OF_SPACES ? UINT64_MAX : LOGS_OF_SPACES * space_bytes;
    struct doctor_disk disk = {0};

    if (setup->state[0] != '\0' && read_disk(doctor->root, setup, setup->state, &disk)) {
        doctor_look_at_disk(doctor, "state disk", setup->state, &disk, STATE_BYTES,
                            "the node has no vote");
    }
    if (setup->log_dir[0] != '\0' && read_disk(doctor->root, setup, setup->log_dir, &disk)) {
        doctor_look_at_disk(
            doctor, "log disk", setup->log_dir, &disk,
            less_held(doctor, setup, setup->log_dir, max_u64(LOGS_BYTES, logs_bytes)),
            "spaces that are durable take no writes");
    }
    if (setup->spill[0] != '\0' && read_disk(doctor->root, setup, setup->spill, &disk)) {
        doctor_look_at_disk(doctor, "spill disk", setup->spill, &disk,
                            less_held(doctor, setup, setup->spill, spill_bytes),
                            "objects go to no file, and puts end with NIGH_OUT_OF_MEMORY");
    }
}

/* ---- lives ---------------------------------------------------------------- */

static void look_at_lives(const struct doctor *doctor, const struct setup *setup)
{
    bool joins = setup->join[0] != '\0';

    if (setup->keeper == SETUP_KEEPER_NONE) {
        doctor_find(doctor, DOCTOR_NOTE, "keeper",
                    "nighd --hold, or nighd.service (FileDescriptorStoreMax=)",
                    "nobody keeps the node's memory: when it dies, all that is in it is gone, and "
                    "its clients have to be opened anew");
    } else if (setup->keeper == SETUP_KEEPER_THERE) {
        doctor_find(doctor, DOCTOR_GOOD, "keeper", "",
                    "the node's memory is kept while another takes over");
    } else if (setup->keeper == SETUP_KEEPER_MAYBE) {
        doctor_find(doctor, DOCTOR_GOOD, "keeper", "",
                    "the node has a supervisor ($NOTIFY_SOCKET), which keeps its memory while "
                    "another takes over if it was told to, as nighd.service tells systemd "
                    "(FileDescriptorStoreMax=)");
    }
    if (joins && setup->state[0] == '\0' && setup->spill[0] == '\0' &&
        setup->keeper == SETUP_KEEPER_NONE) {
        doctor_find(doctor, DOCTOR_NOTE, "lives",
                    "nighd --state DIR (or --spill DIR), or a keeper: --hold, nighd.service",
                    "nothing remembers how often this node began (%s): when the clock went back "
                    "over a start, others let it in after --dead-ms only",
                    setup->source);
    }
    /* One that runs tells itself whether nodes agree. */
    if (joins && setup->state[0] == '\0' && !setup->is_live &&
        setup_value(setup, "directory") == NULL) {
        doctor_find(doctor, DOCTOR_NOTE, "agreement", "nighd --state DIR at all nodes",
                    "nodes without --state (%s) agree on nothing: there are no regions and no "
                    "spaces, and what a dead node knew of where objects are is not found",
                    setup->source);
    }
    if (setup->has_own_time) {
        doctor_find(doctor, DOCTOR_NOTE, "time",
                    "node and clients in one time namespace (unshare without --time)",
                    "the node (%s) is in another time namespace than this: deadlines of calls "
                    "between processes, and leases of what is read of spaces, end at wrong times",
                    setup->source);
    }
}

void doctor_look_at_fit(const struct doctor *doctor, const struct setup *setup)
{
    look_at_disks(doctor, setup);
    look_at_lives(doctor, setup);
}

/* ---- sessions ------------------------------------------------------------- */

void doctor_look_at_sessions(const struct doctor *doctor, const struct setup *setup,
                             const nigh_node_stats *stats)
{
    const char *value = setup == NULL ? NULL : setup_value(setup, "max-sessions");
    uint64_t most = value == NULL ? 0 : strtoull(value, NULL, 10);

    most = most == 0 ? LIMIT_SESSIONS : most;
    if (stats->sessions * 8 > most * SESSIONS_FULL_8TH) {
        doctor_find(doctor, DOCTOR_NOTE, "sessions",
                    "nigh who shows whose they are: close some, one client serves all threads of "
                    "a process; or a larger nighd --max-sessions",
                    "%llu of %llu sessions are used: beyond, nobody is let in",
                    (unsigned long long)stats->sessions, (unsigned long long)most);
    }
}
