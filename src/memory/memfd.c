/* SPDX-License-Identifier: Apache-2.0 */
/* See memfd.h. The one place that makes and maps memory which processes share. */
#include "memory/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/check.h"
#include "base/fd.h"

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* MFD_HUGE_2MB: log2 of the size in the top bits (linux/memfd.h, which libc does not include). */
#define MEMFD_HUGE_2MB (21u << 26)

/* One step of memfd_populate: a signal undoes at most so much of an fallocate. */
#define MEMFD_POPULATE_STEP (UINT64_C(64) << 20)

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 8u
#endif

#define MEMFD_BLOCK 512u /* of st_blocks (stat(2)) */

#define MEMFD_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* What lacks when memory is asked for: ENOSPC is no disk here. */
static nigh_status memfd_status(int error)
{
    if (error == ENOSPC || error == ENOMEM)
        return NIGH_OUT_OF_MEMORY;
    return error == EINVAL ? NIGH_INVALID : NIGH_NO_RESOURCES;
}

nigh_status memfd_populate_at(int fd, uint64_t offset, uint64_t bytes)
{
    uint64_t done = 0;
    unsigned interrupts = 0;

    while (done < bytes) {
        uint64_t step = min_u64(bytes - done, MEMFD_POPULATE_STEP);

        if (fallocate(fd, 0, (off_t)(offset + done), (off_t)step) == 0) {
            done += step;
            interrupts = 0;
        } else if (errno != EINTR || ++interrupts == FD_INTERRUPTS_MAX) {
            return errno == EINTR ? NIGH_NO_RESOURCES : memfd_status(errno);
        }
    }
    return NIGH_OK;
}

nigh_status memfd_populate(int fd, uint64_t bytes)
{
    return memfd_populate_at(fd, 0, bytes);
}

nigh_status memfd_punch_at(int fd, uint64_t offset, uint64_t bytes)
{
    int flags = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

    return fallocate(fd, flags, (off_t)offset, (off_t)bytes) == 0 ? NIGH_OK : NIGH_NO_RESOURCES;
}

nigh_status memfd_punch(int fd, uint64_t bytes)
{
    return memfd_punch_at(fd, 0, bytes);
}

/* A kernel that does not know the seal refuses it. */
static int memfd_make(const char *name, unsigned create, unsigned flags)
{
    int made = -1;

    if ((flags & MEMFD_DATA) != 0)
        made = memfd_create(name, create | MFD_NOEXEC_SEAL);
    if (made < 0 && ((flags & MEMFD_DATA) == 0 || errno == EINVAL))
        made = memfd_create(name, create);
    return made;
}

nigh_status memfd_create_sealed(const char *name, uint64_t bytes, unsigned flags, int *fd)
{
    unsigned create = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    nigh_status status = NIGH_OK;
    int made;

    if (bytes == 0 || bytes > INT64_MAX - MEMFD_HUGE_BYTES ||
        ((flags & MEMFD_HUGE) != 0 && bytes % MEMFD_HUGE_BYTES != 0)) {
        errno = EINVAL;
        return NIGH_INVALID;
    }
    if ((flags & MEMFD_HUGE) != 0)
        create |= MFD_HUGETLB | MEMFD_HUGE_2MB;
    made = memfd_make(name, create, flags);
    if (made < 0)
        return errno == ENOMEM ? NIGH_OUT_OF_MEMORY : NIGH_NO_RESOURCES;

    if (fchmod(made, 0600) != 0 || ftruncate(made, (off_t)bytes) != 0)
        status = memfd_status(errno);
    if (status == NIGH_OK && (flags & MEMFD_BARE) == 0)
        status = memfd_populate(made, bytes);
    if (status == NIGH_OK && fcntl(made, F_ADD_SEALS, MEMFD_SEALS) != 0)
        status = NIGH_NO_RESOURCES;
    if (status != NIGH_OK) {
        fd_close(&made);
        return status;
    }
    *fd = made;
    return NIGH_OK;
}

nigh_status memfd_reopen_read_only(int fd, int *read_fd)
{
    char path[32];
    int opened;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    opened = open(path, O_RDONLY | O_CLOEXEC);
    if (opened < 0)
        return NIGH_NO_RESOURCES;
    *read_fd = opened;
    return NIGH_OK;
}

nigh_status memfd_size(int fd, uint64_t *size_bytes)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW)) {
        if (seals >= 0)
            errno = EINVAL;
        return NIGH_PROTOCOL;
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < 0)
        return NIGH_PROTOCOL;
    *size_bytes = (uint64_t)st.st_size;
    return NIGH_OK;
}

/* Nothing but memory has seals: what follows is asked of that alone. */
enum memfd_lack memfd_look_at_given(int fd, uint64_t bytes)
{
    const int must = F_SEAL_SHRINK | F_SEAL_GROW, may_not = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
    int seals = fcntl(fd, F_GET_SEALS), mode;
    struct statfs system;
    struct stat st;

    if (seals < 0)
        return errno == EBADF ? MEMFD_LACKS_FILE : MEMFD_LACKS_SEALS;
    mode = fcntl(fd, F_GETFL);
    if (mode < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < 0 ||
        fstatfs(fd, &system) != 0)
        return MEMFD_LACKS_SEALS;
    if (system.f_type != TMPFS_MAGIC)
        return MEMFD_LACKS_PAGES;
    if ((mode & O_ACCMODE) != O_RDWR)
        return MEMFD_LACKS_MODE;
    if ((uint64_t)st.st_size != bytes)
        return MEMFD_LACKS_SIZE;
    if ((seals & must) != must)
        return MEMFD_LACKS_BOUNDS;
    return (seals & may_not) != 0 ? MEMFD_LACKS_WRITING : MEMFD_LACKS_NOTHING;
}

nigh_status memfd_check_given(int fd, uint64_t bytes)
{
    return memfd_look_at_given(fd, bytes) == MEMFD_LACKS_NOTHING ? NIGH_OK : NIGH_INVALID;
}

uint64_t memfd_present_bytes(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_blocks > 0 ? (uint64_t)st.st_blocks * MEMFD_BLOCK : 0;
}

void memfd_touch(void *memory, uint64_t bytes, bool writable)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint8_t *first = memory;

    for (uint64_t at = 0; at < bytes; at += page) {
        if (writable)
            __atomic_fetch_or(first + at, 0, __ATOMIC_RELAXED);
        else
            (void)__atomic_load_n(first + at, __ATOMIC_RELAXED);
    }
}

/*
 * Fills the page tables of a mapping whose pages are allocated. Kernels before 5.14 do not know the
 * advice. Reading comes first for writable ones too: the kernel then maps 16 pages at a time (as
 * writable as the mapping is), and writing finds them there, which takes half as long in all.
 */
nigh_status memfd_prefault(void *memory, uint64_t bytes, bool writable)
{
    int advice = MADV_POPULATE_READ;

    for (unsigned interrupts = 0; interrupts < FD_INTERRUPTS_MAX;) {
        if (madvise(memory, bytes, advice) == 0) {
            if (!writable || advice == MADV_POPULATE_WRITE)
                return NIGH_OK;
            advice = MADV_POPULATE_WRITE;
            continue;
        }
        if (errno == EINVAL) {
            memfd_touch(memory, bytes, writable);
            return NIGH_OK;
        }
        if (errno != EINTR && errno != EAGAIN)
            break;
        interrupts++;
    }
    return NIGH_NO_RESOURCES;
}

/* What every shared mapping gets: a child of fork must not have it, and a core file would be as
 * large as the node's memory. */
static bool memfd_advise(void *memory, uint64_t bytes)
{
    return madvise(memory, bytes, MADV_DONTFORK) == 0 && madvise(memory, bytes, MADV_DONTDUMP) == 0;
}

static nigh_status memfd_map_to(void *address, int fd, uint64_t bytes, unsigned flags,
                                void **memory)
{
    bool writable = (flags & MEMFD_WRITABLE) != 0;
    void *mapped = mmap(address, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                        address == NULL ? MAP_SHARED : MAP_SHARED | MAP_FIXED, fd, 0);

    if (mapped == MAP_FAILED)
        return errno == EACCES || errno == EPERM ? NIGH_DENIED : NIGH_NO_RESOURCES;
    *memory = mapped;
    if (!memfd_advise(mapped, bytes))
        return NIGH_NO_RESOURCES;
    if ((flags & MEMFD_PREFAULT) != 0)
        return memfd_prefault(mapped, bytes, writable);
    return NIGH_OK;
}

nigh_status memfd_map(int fd, uint64_t bytes, unsigned flags, void **memory)
{
    void *mapped = NULL;
    nigh_status status = memfd_map_to(NULL, fd, bytes, flags, &mapped);

    if (status == NIGH_OK)
        *memory = mapped;
    else if (mapped != NULL)
        memfd_unmap(mapped, bytes);
    return status;
}

nigh_status memfd_map_at(void *address, int fd, uint64_t bytes, unsigned flags)
{
    void *mapped = NULL;
    nigh_status status = memfd_map_to(address, fd, bytes, flags, &mapped);

    if (status != NIGH_OK && mapped != NULL) {
        int error = errno;
        memfd_unmap_at(address, bytes);
        errno = error;
    }
    return status;
}

void memfd_unmap(void *memory, uint64_t bytes)
{
    int error = errno;

    NIGH_ASSERT(munmap(memory, bytes) == 0);
    errno = error;
}

/* Memory without access costs nothing but the addresses. */
static void *memfd_no_access(void *address, uint64_t bytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *mapped =
        mmap(address, bytes, PROT_NONE, address == NULL ? flags : flags | MAP_FIXED, -1, 0);

    return mapped == MAP_FAILED ? NULL : mapped;
}

nigh_status memfd_reserve(uint64_t bytes, void **memory)
{
    uint64_t wider, before;
    uint8_t *mapped;

    if (bytes == 0 || !checked_add_u64(bytes, MEMFD_HUGE_BYTES, &wider)) {
        errno = EINVAL;
        return NIGH_INVALID;
    }
    mapped = memfd_no_access(NULL, wider);
    if (mapped == NULL)
        return NIGH_NO_RESOURCES;
    before = align_up_u64((uint64_t)(uintptr_t)mapped, MEMFD_HUGE_BYTES) - (uintptr_t)mapped;
    if (before > 0)
        memfd_unmap(mapped, before);
    memfd_unmap(mapped + before + bytes, MEMFD_HUGE_BYTES - before);
    mapped += before;
    if (!memfd_advise(mapped, bytes)) {
        memfd_unmap(mapped, bytes);
        return NIGH_NO_RESOURCES;
    }
    *memory = mapped;
    return NIGH_OK;
}

nigh_status memfd_unmap_at(void *address, uint64_t bytes)
{
    if (memfd_no_access(address, bytes) == NULL || !memfd_advise(address, bytes))
        return NIGH_NO_RESOURCES;
    return NIGH_OK;
}
