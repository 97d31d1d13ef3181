/* SPDX-License-Identifier: Apache-2.0 */
/* See log_files.h: the files of a directory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_MODULE "space-log"
#include "base/fd.h"
#include "base/log.h"
#include "space/log_files.h"

static const char *const names[SPACE_LOG_FILES] = {
    [SPACE_LOG_EVEN] = "log.0",
    [SPACE_LOG_ODD] = "log.1",
    [SPACE_LOG_IMAGE_NEW] = "image.new",
    [SPACE_LOG_IMAGE_NOW] = "image",
};

static nigh_status fail(enum space_log_file file, const char *what)
{
    LOG_ERROR("a file of a space's log fails",
              "file=%s at=%s errno=%d do=\"see to the disk of --log-dir\"", names[file], what,
              errno);
    return NIGH_DISK;
}

/* Its descriptor, in *fd. NIGH_NOT_FOUND: it is not there. */
static nigh_status have(struct space_log_directory *directory, enum space_log_file file, int flags,
                        int *fd)
{
    struct stat stat;

    if (directory->files[file] < 0) {
        directory->files[file] =
            openat(directory->fd, names[file], O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    }
    if (directory->files[file] < 0) {
        return errno == ENOENT && (flags & O_CREAT) == 0 ? NIGH_NOT_FOUND : fail(file, "open");
    }
    if (fstat(directory->files[file], &stat) != 0 || !S_ISREG(stat.st_mode)) {
        return fail(file, "stat");
    }
    *fd = directory->files[file];
    return NIGH_OK;
}

/* Room is taken here: that the disk is full is known before anything is lost by it. */
static nigh_status file_size(void *context, enum space_log_file file, uint64_t size_bytes)
{
    int fd, error = 0;
    nigh_status status = have(context, file, O_CREAT, &fd);

    if (status != NIGH_OK) {
        return status;
    }
    if (ftruncate(fd, (off_t)size_bytes) != 0) {
        return fail(file, "truncate");
    }
    if (size_bytes > 0) {
        do {
            error = posix_fallocate(fd, 0, (off_t)size_bytes);
        } while (error == EINTR);
    }
    if (error != 0) {
        errno = error;
        return fail(file, "allocate");
    }
    return NIGH_OK;
}

static nigh_status file_read(void *context, enum space_log_file file, uint64_t offset, void *bytes,
                             size_t size_bytes, size_t *read_bytes)
{
    int fd;
    nigh_status status = have(context, file, 0, &fd);

    if (status != NIGH_OK) {
        return status;
    }
    return fd_pread_full(fd, bytes, size_bytes, offset, read_bytes) == NIGH_OK ? NIGH_OK
                                                                               : fail(file, "read");
}

static nigh_status file_write(void *context, enum space_log_file file, uint64_t offset,
                              const void *bytes, size_t size_bytes)
{
    int fd;
    nigh_status status = have(context, file, 0, &fd);

    if (status != NIGH_OK) {
        return NIGH_DISK;
    }
    return fd_pwrite_full(fd, bytes, size_bytes, offset) == NIGH_OK ? NIGH_OK : fail(file, "write");
}

/* What has no name any more no start finds, however often it is written: somebody removed it. */
static nigh_status file_sync(void *context, enum space_log_file file)
{
    struct stat stat;
    int fd;
    nigh_status status = have(context, file, 0, &fd);

    if (status != NIGH_OK) {
        return NIGH_DISK;
    }
    if (fdatasync(fd) != 0 || fstat(fd, &stat) != 0) {
        return fail(file, "sync");
    }
    if (stat.st_nlink == 0) {
        errno = ENOENT;
        return fail(file, "look for its name");
    }
    return NIGH_OK;
}

static nigh_status image_rename(void *context)
{
    struct space_log_directory *directory = context;

    if (renameat(directory->fd, names[SPACE_LOG_IMAGE_NEW], directory->fd,
                 names[SPACE_LOG_IMAGE_NOW]) != 0) {
        return fail(SPACE_LOG_IMAGE_NEW, "rename");
    }
    fd_close(&directory->files[SPACE_LOG_IMAGE_NOW]);
    directory->files[SPACE_LOG_IMAGE_NOW] = directory->files[SPACE_LOG_IMAGE_NEW];
    directory->files[SPACE_LOG_IMAGE_NEW] = -1;
    return NIGH_OK;
}

static nigh_status directory_sync(void *context)
{
    struct space_log_directory *directory = context;

    return fsync(directory->fd) == 0 ? NIGH_OK : fail(SPACE_LOG_IMAGE_NOW, "sync the directory");
}

void space_log_directory_init(struct space_log_directory *directory, int fd)
{
    directory->fd = fd;
    for (uint32_t n = 0; n < SPACE_LOG_FILES; n++) {
        directory->files[n] = -1;
    }
}

void space_log_directory_fini(struct space_log_directory *directory)
{
    for (uint32_t n = 0; n < SPACE_LOG_FILES; n++) {
        fd_close(&directory->files[n]);
    }
}

struct space_log_files space_log_directory_files(struct space_log_directory *directory)
{
    return (struct space_log_files){
        .context = directory,
        .size = file_size,
        .read = file_read,
        .write = file_write,
        .sync = file_sync,
        .rename = image_rename,
        .sync_directory = directory_sync,
    };
}
