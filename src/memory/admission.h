/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission: what the machine, the control group and the limits of this process grant, and whether
 * a wish for memory is among it.
 *
 * A node has all of its memory from the start, so it asks here first: a wish that cannot be
 * fulfilled is refused with a sentence that says what lacks and how to mend it, before anything is
 * reserved, instead of an OOM kill or a SIGBUS later. The facts also serve `nigh doctor`.
 *
 * /dev/shm is only told, never decisive: memfds do not count against the size of that mount.
 */
#ifndef MEMORY_ADMISSION_H
#define MEMORY_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "memory/extent.h"
#include "nigh/status.h"

#define ADMISSION_NO_LIMIT   UINT64_MAX
#define ADMISSION_PATH_BYTES 4096
#define ADMISSION_HUGE_POOLS 8 /* sizes of huge pages that are told */

/* Room for the longest sentence; a longer one is cut. */
#define ADMISSION_SENTENCE_BYTES 512

/* What a node needs beside the memory that it asked for: its own tables, stacks and code. */
#define ADMISSION_SPARE_BYTES (UINT64_C(8) << 20)

/* Huge pages of one size. */
struct admission_huge_pool {
    uint64_t page_bytes;
    uint64_t total;
    uint64_t free;
    uint64_t reserved;   /* of the free ones: promised to somebody already */
    uint64_t overcommit; /* pages the kernel may make on top, if it finds memory in one piece */
};

/* The control group that grants least, of this process's own and those above it. */
struct admission_cgroup {
    uint32_t version;           /* 1, 2; 0: none accounts memory */
    uint64_t limit_bytes;       /* memory.max, memory.limit_in_bytes; or ADMISSION_NO_LIMIT */
    uint64_t high_bytes;        /* memory.high: above it the group is slowed down; version 2 */
    uint64_t used_bytes;        /* memory.current, memory.usage_in_bytes */
    uint64_t reclaimable_bytes; /* of these: file pages that the kernel drops when it must */
    uint64_t available_bytes;   /* what may still be allocated; or ADMISSION_NO_LIMIT */
    char folder[ADMISSION_PATH_BYTES]; /* where these numbers stand */
};

struct admission_facts {
    uint64_t memory_total_bytes;     /* MemTotal */
    uint64_t memory_available_bytes; /* MemAvailable */
    uint64_t commit_left_bytes;      /* CommitLimit - Committed_AS where vm.overcommit_memory is 2;
                                        else ADMISSION_NO_LIMIT */
    struct admission_huge_pool huge[ADMISSION_HUGE_POOLS]; /* by page size, ascending */
    uint32_t huge_count;
    struct admission_cgroup cgroup;
    uint64_t address_limit_bytes; /* RLIMIT_AS, or ADMISSION_NO_LIMIT */
    uint64_t address_used_bytes;  /* VmSize */
    uint64_t file_limit_bytes;    /* RLIMIT_FSIZE: a larger memfd would raise SIGXFSZ */
    uint64_t descriptor_limit;    /* RLIMIT_NOFILE, soft */
    uint64_t locked_limit_bytes;  /* RLIMIT_MEMLOCK: what RDMA registration counts against */
    uint64_t shm_total_bytes;     /* of /dev/shm; 0: there is none */
    uint64_t shm_available_bytes;
};

/* What is asked for. */
struct admission_wish {
    uint64_t memory_bytes;  /* in extents */
    uint64_t extent_bytes;  /* of one extent */
    uint64_t besides_bytes; /* what the node will allocate on top: indexes, sessions */
    uint64_t file_bytes;    /* of the largest file: an extent, an index, a session's */
    uint64_t address_bytes; /* address space to reserve */
    uint64_t descriptors;   /* files that will be open for it */
    enum extent_huge huge;
};

/*
 * Reads the facts of this process. `root` stands before every path: "" in production, a folder of
 * fixtures in tests. What is not there is left at "no limit" or 0. NIGH_NO_RESOURCES: no memory to
 * read with, or no MemAvailable (errno 0 then): /proc is not mounted. Any thread.
 */
nigh_status admission_read(const char *root, struct admission_facts *facts);

/* In the place of this process's limits those of another; what it uses stays. False: they cannot be
 * read, and nothing is changed. Any thread. */
bool admission_read_limits(const char *root, pid_t pid, struct admission_facts *facts);

/*
 * Whether the wish can be granted; *huge_bytes is then how much of memory_bytes huge pages (of 2
 * MiB) can hold, in whole extents. If not, `why` (terminated, why_bytes) is one sentence with a
 * remedy, and the status NIGH_OUT_OF_MEMORY (the machine, the control group, huge pages) or
 * NIGH_NO_RESOURCES (limits of the process). Pure; any thread.
 */
nigh_status admission_decide(const struct admission_facts *facts, const struct admission_wish *wish,
                             uint64_t *huge_bytes, char *why, size_t why_bytes);

/*
 * Whether a file of so many bytes, of pages that the machine has beside what is `owed` (files that
 * are begun and have not taken theirs yet), would not have it kill this process. As it is now:
 * NIGH_OUT_OF_MEMORY, NIGH_NO_RESOURCES. Reads files of the system: not for a lane. Any thread.
 */
nigh_status admission_ask(uint64_t bytes, uint64_t owed);

/* Free 2 MiB pages that nobody reserved, in bytes. */
uint64_t admission_huge_free_bytes(const struct admission_facts *facts);

#endif
