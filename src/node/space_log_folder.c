/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See space_logs.h. In the directory of each space is a file `space`, which says which it is, so
 * that a cluster of which all nodes were stopped knows its spaces again.
 */
#include "node/space_log_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_MODULE "space-log"
#include "base/crc32c.h"
#include "base/fd.h"
#include "base/log.h"

#define FILE_LOCK    "lock.spaces"
#define FILE_SPACE   "space"
#define FILE_NEW     "space.new"
#define FILE_REFUSED "refused"
#define FILE_DELETED "deleted" /* in the directory of all */
#define FORMAT       1u
#define NAME_BYTES   20

/* Little-endian, as all machines are that nigh runs on. */
struct space_file {
    char magic[8];
    uint32_t format, crc; /* of all of it, with 0 here */
    uint64_t birth, home_bytes, cache_bytes;
    uint32_t block_bytes, durability, uid, gid, mode, name_bytes;
    char name[48];
    uint64_t zero[4];
};

_Static_assert(sizeof(struct space_file) == 144, "a space's file is on disk");

static const char magic[8] = {'n', 'i', 'g', 'h', 's', 'p', 'a', 'c'};

/* ---- the directory -------------------------------------------------------- */

void space_log_folder_init(struct space_log_folder *folder)
{
    folder->fd = -1;
    lock_file_init(&folder->lock);
}

static nigh_status refuse(const char *directory, int error, const char *what, char *why,
                          size_t why_bytes)
{
    snprintf(why, why_bytes,
             "the directory %.200s for the logs of spaces %s (%s): give it to this user, or name "
             "another with --log-dir",
             directory, what, strerror(error));
    return error == EACCES || error == EPERM ? NIGH_DENIED : NIGH_DISK;
}

static int make_folder(int at, const char *name)
{
    int fd;

    if (mkdirat(at, name, 0700) != 0 && errno != EEXIST) {
        return -1;
    }
    fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        int parent = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        (void)(parent < 0 || fsync(parent));
        fd_close(&parent);
    }
    return fd;
}

nigh_status space_log_folder_open(struct space_log_folder *folder, const char *directory,
                                  uint32_t rank, char *why, size_t why_bytes)
{
    char name[NAME_BYTES];
    int all = make_folder(AT_FDCWD, directory);

    if (all < 0) {
        return refuse(directory, errno, "cannot be opened", why, why_bytes);
    }
    (void)snprintf(name, sizeof(name), "rank-%u", rank);
    folder->fd = make_folder(all, name);
    fd_close(&all);
    if (folder->fd < 0) {
        return refuse(directory, errno, "cannot be written", why, why_bytes);
    }
    if (!lock_file_open(&folder->lock, folder->fd, FILE_LOCK)) {
        return refuse(directory, errno, "cannot be written", why, why_bytes);
    }
    if (fd_lock(folder->lock.fd)) {
        return NIGH_OK;
    }
    if (errno != EWOULDBLOCK) {
        return refuse(directory, errno, "cannot be locked", why, why_bytes);
    }
    snprintf(why, why_bytes,
             "another node of rank %u uses the directory %.200s for the logs of spaces: name "
             "another with --log-dir",
             rank, directory);
    return NIGH_BUSY;
}

void space_log_folder_close(struct space_log_folder *folder)
{
    lock_file_close(&folder->lock);
    fd_close(&folder->fd);
}

void space_log_folder_in_child(struct space_log_folder *folder)
{
    lock_file_in_child(&folder->lock);
    space_log_folder_close(folder);
}

/* ---- which space a directory is of ----------------------------------------- */

static void fill(const struct space_info *info, struct space_file *file)
{
    memset(file, 0, sizeof(*file));
    memcpy(file->magic, magic, sizeof(magic));
    file->format = FORMAT;
    file->birth = info->birth;
    file->home_bytes = info->home_bytes;
    file->cache_bytes = info->cache_bytes;
    file->block_bytes = info->block_bytes;
    file->durability = info->durability;
    file->uid = info->uid;
    file->gid = info->gid;
    file->mode = info->mode;
    file->name_bytes = info->name_bytes;
    memcpy(file->name, info->name, info->name_bytes);
    file->crc = crc32c(0, file, sizeof(*file));
}

static nigh_status check(struct space_file *file, struct space_info *info)
{
    uint32_t crc = file->crc;

    if (memcmp(file->magic, magic, sizeof(magic)) != 0) {
        return NIGH_CORRUPT;
    }
    if (file->format != FORMAT) {
        return NIGH_VERSION;
    }
    file->crc = 0;
    if (crc32c(0, file, sizeof(*file)) != crc || file->name_bytes > LIMIT_SPACE_NAME_BYTES) {
        return NIGH_CORRUPT;
    }
    memset(info, 0, sizeof(*info));
    info->birth = file->birth;
    info->home_bytes = file->home_bytes;
    info->cache_bytes = file->cache_bytes;
    info->block_bytes = file->block_bytes;
    info->durability = file->durability;
    info->uid = file->uid;
    info->gid = file->gid;
    info->mode = file->mode;
    info->name_bytes = file->name_bytes;
    memcpy(info->name, file->name, file->name_bytes);
    info->id = space_name_id(info->name, info->name_bytes);
    return space_info_is_valid(info) ? NIGH_OK : NIGH_CORRUPT;
}

/* NIGH_NOT_FOUND: it says nothing yet. */
static nigh_status read_space(int fd, struct space_info *info)
{
    int file_fd = openat(fd, FILE_SPACE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct space_file file;
    size_t got = 0;
    nigh_status status;

    if (file_fd < 0) {
        return errno == ENOENT ? NIGH_NOT_FOUND : NIGH_DISK;
    }
    status = fd_pread_full(file_fd, &file, sizeof(file), 0, &got);
    fd_close(&file_fd);
    if (status != NIGH_OK) {
        return NIGH_DISK;
    }
    return got == sizeof(file) ? check(&file, info) : NIGH_CORRUPT;
}

static nigh_status write_space(int fd, const struct space_info *info)
{
    int file_fd = openat(fd, FILE_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct space_file file;
    bool is_written;

    if (file_fd < 0) {
        return NIGH_DISK;
    }
    fill(info, &file);
    is_written = fd_pwrite_full(file_fd, &file, sizeof(file), 0) == NIGH_OK && fsync(file_fd) == 0;
    fd_close(&file_fd);
    return is_written && renameat(fd, FILE_NEW, fd, FILE_SPACE) == 0 && fsync(fd) == 0 ? NIGH_OK
                                                                                       : NIGH_DISK;
}

nigh_status space_log_folder_refuse(int space_fd)
{
    int file_fd = openat(space_fd, FILE_REFUSED, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool is_there = file_fd >= 0 && fsync(file_fd) == 0 && fsync(space_fd) == 0;

    fd_close(&file_fd);
    return is_there ? NIGH_OK : NIGH_DISK;
}

static bool is_refused(int space_fd)
{
    int file_fd = openat(space_fd, FILE_REFUSED, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is_there = file_fd >= 0 || errno != ENOENT;

    fd_close(&file_fd);
    return is_there;
}

static void say_unusable(const char *name, const struct space_info *info, nigh_status status)
{
    if (status == NIGH_DISK) {
        LOG_ERROR("the directory of a space's log cannot be read, or written",
                  "name=%s space=\"%s\" do=\"see to --log-dir (full, read-only, not the node's)\"",
                  name, LOG_QUOTE(info->name));
    } else {
        LOG_ERROR("a directory is not of the log of its space",
                  "name=%s space=\"%s\" status=%s do=\"if status is NIGH_VERSION, start the nighd "
                  "that wrote it; else move it away, and start the node again\"",
                  name, LOG_QUOTE(info->name), nigh_status_name(status));
    }
}

nigh_status space_log_folder_make(int fd, const struct space_info *info, int *space_fd)
{
    char name[NAME_BYTES];
    struct space_info said;
    nigh_status status;

    (void)snprintf(name, sizeof(name), SPACE_LOG_FOLDER_NAME, (unsigned long long)info->birth);
    *space_fd = make_folder(fd, name);
    if (*space_fd < 0) {
        LOG_ERROR("no directory for a space's log",
                  "name=%s errno=%d do=\"see to --log-dir (full, read-only, not the node's)\"",
                  name, errno);
        return NIGH_DISK;
    }
    status = read_space(*space_fd, &said);
    if (status == NIGH_NOT_FOUND) {
        status = write_space(*space_fd, info);
    } else if (status == NIGH_OK && (said.birth != info->birth || said.id != info->id)) {
        status = NIGH_CORRUPT;
    }
    if (status != NIGH_OK) {
        say_unusable(name, info, status);
        fd_close(space_fd);
    } else if (is_refused(*space_fd)) {
        LOG_ERROR("the log of a space is an old one, and is not begun from",
                  "name=%s space=\"%s\" do=\"put the last one in its place, or remove the "
                  "directory, which gives up what this node had of it\"",
                  name, LOG_QUOTE(info->name));
        fd_close(space_fd);
        status = NIGH_CORRUPT;
    }
    return status;
}

bool space_log_folder_has(int fd, uint64_t birth)
{
    char name[NAME_BYTES];

    (void)snprintf(name, sizeof(name), SPACE_LOG_FOLDER_NAME, (unsigned long long)birth);
    return faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void space_log_folder_remove(int fd, uint64_t birth)
{
    /* What says that it is a space's goes first: the rest is a log of none then. */
    static const char *const files[] = {FILE_SPACE,  FILE_NEW, FILE_REFUSED, "image",
                                        "image.new", "log.0",  "log.1"};
    char name[NAME_BYTES];
    int space_fd;

    (void)snprintf(name, sizeof(name), SPACE_LOG_FOLDER_NAME, (unsigned long long)birth);
    space_fd = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (space_fd < 0) {
        return;
    }
    for (uint32_t n = 0; n < sizeof(files) / sizeof(files[0]); n++) {
        (void)unlinkat(space_fd, files[n], 0);
        (void)(n != 0 || fsync(space_fd));
    }
    fd_close(&space_fd);
    if (unlinkat(fd, name, AT_REMOVEDIR) != 0) {
        LOG_WARN("of a deleted space's log something is left",
                 "name=%s errno=%d do=\"remove that directory below --log-dir\"", name, errno);
    }
}

/* ---- which are deleted ----------------------------------------------------- */

/* By turns: each takes the place of the oldest. */
struct deleted_file {
    char magic[8];
    uint32_t format, crc; /* of all of it, with 0 here */
    uint64_t ever;        /* how many were put in */
    uint64_t births[LIMIT_SPACE_TOMBSTONES];
};

_Static_assert(sizeof(struct deleted_file) == 2072, "the deleted spaces' file is on disk");

static const char deleted_magic[8] = {'n', 'i', 'g', 'h', 'g', 'o', 'n', 'e'};

/* One that is not there, or cannot be used, has none in it. */
static void read_deleted(int fd, struct deleted_file *file)
{
    int file_fd = openat(fd, FILE_DELETED, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is_there = file_fd >= 0 || errno != ENOENT, is_whole;
    size_t got = 0;
    uint32_t crc;

    is_whole = file_fd >= 0 && fd_pread_full(file_fd, file, sizeof(*file), 0, &got) == NIGH_OK &&
               got == sizeof(*file) && memcmp(file->magic, deleted_magic, sizeof(file->magic)) == 0;
    fd_close(&file_fd);
    if (is_whole) {
        crc = file->crc;
        file->crc = 0;
        is_whole = file->format == FORMAT && crc32c(0, file, sizeof(*file)) == crc;
    }
    if (is_whole) {
        return;
    }
    if (is_there) {
        LOG_WARN(
            "which spaces were deleted cannot be read: of one that was while other nodes were not "
            "there those may tell again",
            "file=" FILE_DELETED
            " do=\"delete such a space again if it comes back; see to the disk of --log-dir\"");
    }
    memset(file, 0, sizeof(*file));
    memcpy(file->magic, deleted_magic, sizeof(file->magic));
    file->format = FORMAT;
}

static bool write_deleted(int fd, struct deleted_file *file)
{
    int file_fd = openat(fd, FILE_DELETED ".new",
                         O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool is_written;

    if (file_fd < 0) {
        return false;
    }
    file->crc = crc32c(0, file, sizeof(*file));
    is_written = fd_pwrite_full(file_fd, file, sizeof(*file), 0) == NIGH_OK && fsync(file_fd) == 0;
    fd_close(&file_fd);
    return is_written && renameat(fd, FILE_DELETED ".new", fd, FILE_DELETED) == 0 && fsync(fd) == 0;
}

uint32_t space_log_folder_deleted(int fd, uint64_t births[LIMIT_SPACE_TOMBSTONES])
{
    struct deleted_file file;
    uint32_t count = 0;

    read_deleted(fd, &file);
    for (uint32_t n = 0; n < LIMIT_SPACE_TOMBSTONES; n++) {
        uint64_t birth = file.births[(file.ever + n) % LIMIT_SPACE_TOMBSTONES];

        if (birth != 0) {
            births[count++] = birth;
        }
    }
    return count;
}

void space_log_folder_bury(int fd, uint64_t birth)
{
    struct deleted_file file;

    read_deleted(fd, &file);
    for (uint32_t n = 0; n < LIMIT_SPACE_TOMBSTONES; n++) {
        if (file.births[n] == birth) {
            return;
        }
    }
    file.births[file.ever++ % LIMIT_SPACE_TOMBSTONES] = birth;
    if (!write_deleted(fd, &file)) {
        LOG_WARN("that a space is deleted cannot be kept: a node that was not there may tell of it "
                 "again when all others were started anew",
                 "birth=%016llx errno=%d do=\"see to the disk of --log-dir (full, read-only, "
                 "failing); delete the space again if it comes back\"",
                 (unsigned long long)birth, errno);
    }
}

/* ---- all of them ---------------------------------------------------------- */

/* The n-th directory that is called as one of a space. */
static bool find_folder(int fd, uint32_t n, char name[NAME_BYTES])
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = copy < 0 ? NULL : fdopendir(copy);
    bool is_found = false;
    struct dirent *entry;

    while (folder != NULL && !is_found && (entry = readdir(folder)) != NULL) {
        if (strlen(entry->d_name) == 16 && strspn(entry->d_name, "0123456789abcdef") == 16 &&
            n-- == 0) {
            memcpy(name, entry->d_name, 17);
            is_found = true;
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    } else {
        fd_close(&copy);
    }
    return is_found;
}

bool space_log_folder_next(int fd, uint32_t *cursor, struct space_info *info)
{
    char name[NAME_BYTES];

    while (find_folder(fd, (*cursor)++, name)) {
        int space_fd = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        nigh_status status = space_fd < 0 ? NIGH_DISK : read_space(space_fd, info);

        fd_close(&space_fd);
        if (status == NIGH_OK && info->birth == strtoull(name, NULL, 16)) {
            return true;
        }
        LOG_WARN(
            "in the directory of spaces' logs is one that is none of a space: it is passed over",
            "name=%s status=%s do=\"move it away from --log-dir; if it is a space's, see to the "
            "disk before\"",
            name, nigh_status_name(status));
    }
    return false;
}
