/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory files without files: takes the place of src/memory/memfd.c in these tests, where nobody
 * else maps the memory. An extent's memory belongs to its place in the arena and stays there, from
 * one world to the next: making memory, and making it anew, took most of a run's time. Who touches
 * an extent that is not there faults, as with the real ones.
 */
#include "memory/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/bytes.h"
#include "base/check.h"

static bool allow(void *address, uint64_t bytes, int access)
{
    return mprotect(address, bytes, access) == 0;
}

/* ---- descriptors: of nothing, to be counted and closed -------------------- */

nigh_status memfd_create_sealed(const char *name, uint64_t bytes, unsigned flags, int *fd)
{
    (void)name;
    NIGH_ASSERT(bytes > 0 && (flags & MEMFD_HUGE) == 0);
    *fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    return *fd >= 0 ? NIGH_OK : NIGH_NO_RESOURCES;
}

nigh_status memfd_reopen_read_only(int fd, int *read_fd)
{
    *read_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return *read_fd >= 0 ? NIGH_OK : NIGH_NO_RESOURCES;
}

nigh_status memfd_populate(int fd, uint64_t bytes)
{
    (void)fd;
    (void)bytes;
    return NIGH_OK;
}

nigh_status memfd_punch(int fd, uint64_t bytes)
{
    (void)fd;
    (void)bytes;
    return NIGH_OK;
}

/* Nobody hands memory over here. */
nigh_status memfd_size(int fd, uint64_t *size_bytes)
{
    (void)fd;
    (void)size_bytes;
    return NIGH_PROTOCOL;
}

/* ---- memory --------------------------------------------------------------- */

nigh_status memfd_map_at(void *address, int fd, uint64_t bytes, unsigned flags)
{
    NIGH_ASSERT(fd >= 0 && (flags & MEMFD_WRITABLE) != 0);
    return allow(address, bytes, PROT_READ | PROT_WRITE) ? NIGH_OK : NIGH_NO_RESOURCES;
}

nigh_status memfd_unmap_at(void *address, uint64_t bytes)
{
    return allow(address, bytes, PROT_NONE) ? NIGH_OK : NIGH_NO_RESOURCES;
}

nigh_status memfd_map(int fd, uint64_t bytes, unsigned flags, void **memory)
{
    (void)fd;
    (void)bytes;
    (void)flags;
    (void)memory;
    return NIGH_DENIED;
}

void memfd_unmap(void *memory, uint64_t bytes)
{
    NIGH_ASSERT(munmap(memory, bytes) == 0);
}

nigh_status memfd_reserve(uint64_t bytes, void **memory)
{
    void *mapped = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    *memory = mapped;
    return mapped != MAP_FAILED ? NIGH_OK : NIGH_NO_RESOURCES;
}
