/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of regions' chunks: made, zeroed and there, and given back, by a thread of the lane's,
 * some of a piece at a time: gigabytes take seconds, and no lane waits for them. The thread begins
 * with the first piece. It knows nothing of what is in it. Pieces that clients may map are files,
 * each of its own: what is given back is punched out of it, whoever keeps it mapped. Others are
 * what somebody has already, and keeps: a memory file of a client's, or memory of this process.
 */
#ifndef NODE_REGION_MEMORIES_H
#define NODE_REGION_MEMORIES_H

#include <stdbool.h>
#include <stdint.h>

#include "nigh/status.h"

struct region_memories;

/* A piece. From the end of its making on it stays as it is until it is unmade. */
struct region_memory {
    uint8_t *address;
    uint64_t bytes;
    int fd;             /* of a file that clients may map; else -1 */
    nigh_status status; /* of its making */
    void *tag;          /* whoever asked for it, and */
    uint32_t number;    /* what for: the caller's */
};

/* At most so many bytes in all. `wake` is called when an end can be taken, by the thread.
 * NIGH_NO_RESOURCES. */
nigh_status region_memories_create(uint64_t most_bytes, void (*wake)(void *context), void *context,
                                   struct region_memories **memories);

/* Nobody is woken any more; what there is goes with it. NULL is allowed. */
void region_memories_destroy(struct region_memories *memories);

/* What is asked for. */
struct region_memory_wish {
    uint64_t bytes; /* a multiple of a page */
    bool is_file;
    const uint8_t *from; /* so many bytes, that stay until the end, are copied; NULL: zeros */
    void *tag;
    uint32_t number;
};

/* NIGH_OK: its end follows. NIGH_OUT_OF_MEMORY: so many bytes are not left; NIGH_LIMIT: there are
 * LIMIT_REGION_FILES; NIGH_NO_RESOURCES. */
nigh_status region_memories_make(struct region_memories *memories,
                                 const struct region_memory_wish *wish);

/* What somebody has: a memory file that was looked at (memfd_check_given), which is the piece's if
 * it comes to be; or, where `fd` is -1, memory of this process, which is there until it is unmade.
 */
struct region_gift {
    uint64_t bytes;
    int fd;
    uint8_t *address;
};

/* A piece of it, of which nothing is there yet: it is begun, or unmade. As of a wish. */
nigh_status region_memories_offer(struct region_memories *memories, const struct region_gift *gift,
                                  struct region_memory **memory);

/* One that was offered: its end follows, as of a wish. NIGH_INVALID: it is not mapped, or not to
 * be written. NIGH_OUT_OF_MEMORY, too, where it is all there, and the system has less left than a
 * step of it (LIMIT_BULK_STEP). */
void region_memories_begin(struct region_memories *memories, struct region_memory *memory,
                           void *tag, uint32_t number);

/* A piece whose making has ended, well or not (`status`: then nothing is there, and it is to be
 * unmade all the same); NULL: none has. The lane's. */
struct region_memory *region_memories_take(struct region_memories *memories);

/* It is not used any more. */
void region_memories_unmake(struct region_memories *memories, struct region_memory *memory);

/* Of all pieces that are not gone. Any thread. */
uint64_t region_memories_bytes(struct region_memories *memories);

/* Whether something of it is on its way out, whose bytes count until it is gone. */
bool region_memories_is_going(struct region_memories *memories);

#endif
