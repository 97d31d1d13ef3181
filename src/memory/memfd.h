/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory files: memfds of fixed size that are wholly there from the start.
 *
 * Every piece of memory that processes share is one: extents, indexes, session memories, the node
 * page. A memfd made here has mode 0600 and the maker's uid, every page of it is allocated (so that
 * no later touch raises SIGBUS), and it is sealed against shrinking, growing and further seals.
 *
 * Knows nothing of what is in it, and asks nobody whether there is enough memory: admission.h does.
 * Nothing here logs: on failure errno says why. Any thread.
 */
#ifndef MEMORY_MEMFD_H
#define MEMORY_MEMFD_H

#include <stdbool.h>
#include <stdint.h>

#include "nigh/status.h"

#define MEMFD_HUGE_BYTES (UINT64_C(2) << 20) /* the one size of huge pages that nigh asks for */

/* Flags of memfd_create_sealed. */
#define MEMFD_HUGE 1u /* of 2 MiB pages from the huge page pool; bytes is a multiple of that */
#define MEMFD_BARE 2u /* leave the pages out: the caller calls memfd_populate */
#define MEMFD_DATA \
    4u /* nobody makes it executable, its owner neither, where the kernel can (6.3) */

/*
 * Makes a memfd of `bytes` (above 0, rounded up to whole pages by the kernel), close-on-exec; the
 * pages are zero. `name` shows in /proc/PID/maps as /memfd:NAME. The descriptor is the caller's.
 * NIGH_INVALID: bytes. NIGH_OUT_OF_MEMORY: no pages, or no huge pages. NIGH_NO_RESOURCES: no
 * descriptor, or a kernel without memfds.
 */
nigh_status memfd_create_sealed(const char *name, uint64_t bytes, unsigned flags, int *fd);

/* Allocates the pages of a memfd that are not there yet. Goes on after signals. NIGH_OUT_OF_MEMORY:
 * not all of them could be had. */
nigh_status memfd_populate(int fd, uint64_t bytes);

/* The same of [offset, offset + bytes) alone. */
nigh_status memfd_populate_at(int fd, uint64_t offset, uint64_t bytes);

/* Gives all pages of a memfd back to the machine: who has it mapped reads zeroes.
 * NIGH_NO_RESOURCES: the kernel refused. */
nigh_status memfd_punch(int fd, uint64_t bytes);

/* The same of [offset, offset + bytes) alone. */
nigh_status memfd_punch_at(int fd, uint64_t offset, uint64_t bytes);

/*
 * Opens the same memory read-only: who gets this descriptor can neither write nor map it writable,
 * nor reopen it writable from another uid. Needs /proc. NIGH_NO_RESOURCES: no descriptor, no /proc.
 */
nigh_status memfd_reopen_read_only(int fd, int *read_fd);

/*
 * The size of a memfd that somebody handed over. NIGH_PROTOCOL unless it is a regular file, sealed
 * against shrinking and growing (so that it cannot change under a mapping).
 */
nigh_status memfd_size(int fd, uint64_t *size_bytes);

/* What a descriptor lacks to be one that may be mapped to be written for ever. */
enum memfd_lack {
    MEMFD_LACKS_NOTHING = 0,
    MEMFD_LACKS_FILE,  /* it is not open */
    MEMFD_LACKS_SEALS, /* nothing that there is behind it has any: no memfd */
    MEMFD_LACKS_PAGES, /* ordinary ones: nothing else is sure to be there again where it was punched
                        */
    MEMFD_LACKS_MODE,  /* it is not open to read and write */
    MEMFD_LACKS_SIZE,  /* it has another than that */
    MEMFD_LACKS_BOUNDS, /* it is not sealed against shrinking and growing */
    MEMFD_LACKS_WRITING /* it is sealed against that */
};

/*
 * Looks at a descriptor of somebody who is not trusted, of which so many bytes are expected: the
 * first that it lacks. Whatever is behind it, this does not wait for it.
 */
enum memfd_lack memfd_look_at_given(int fd, uint64_t bytes);

/* NIGH_INVALID: it lacks something. */
nigh_status memfd_check_given(int fd, uint64_t bytes);

/* Bytes of a memfd whose pages are there. */
uint64_t memfd_present_bytes(int fd);

/* Flags of memfd_map and memfd_map_at. */
#define MEMFD_WRITABLE 1u /* map read-write; else read-only */
#define MEMFD_PREFAULT 2u /* fill the page tables now, so that no first touch faults */

/*
 * Maps all of a memfd, shared. The mapping is not inherited by fork and not dumped into cores.
 * Undone by memfd_unmap. NIGH_DENIED: writable, over a read-only descriptor. NIGH_NO_RESOURCES: no
 * address space, or the pages could not be had.
 */
nigh_status memfd_map(int fd, uint64_t bytes, unsigned flags, void **memory);

/* As memfd_map, over [address, address + bytes) of the caller's own reserved address space. On
 * failure that range is as it was, reserved. */
nigh_status memfd_map_at(void *address, int fd, uint64_t bytes, unsigned flags);

/* What MEMFD_PREFAULT does, of a part of what was mapped without it, whose pages are there. */
nigh_status memfd_prefault(void *memory, uint64_t bytes, bool writable);

/* Touches every page without changing it: other processes may be writing there. */
void memfd_touch(void *memory, uint64_t bytes, bool writable);

void memfd_unmap(void *memory, uint64_t bytes);

/*
 * Address space without memory: no access, never dumped, not inherited by fork. It begins at a
 * multiple of MEMFD_HUGE_BYTES, as memory of huge pages must. `bytes` is a multiple of a page.
 * Undone by memfd_unmap. NIGH_NO_RESOURCES: RLIMIT_AS or the machine.
 */
nigh_status memfd_reserve(uint64_t bytes, void **memory);

/* Turns [address, address + bytes) of mapped memory back into reserved address space. */
nigh_status memfd_unmap_at(void *address, uint64_t bytes);

#endif
