/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces: one address space of many nodes, cached coherently at each of them. Every block of it has
 * a home, the node in whose memory it lies; all nodes that take part keep copies of others' blocks,
 * and read and write them where they are. (GAM, PVLDB 11(11); docs/spaces.md.)
 *
 * What is ordered. A block's writes are in one order, that all see. Reads are synchronous, in the
 * order of the program. Writes are not: nigh_space_write returns when the bytes lie in the thread's
 * store buffer, whose own reads find them there at once; others see them later. Writes of one block
 * are seen in the order in which they were made; of several in any, unless a fence is between them
 * (partial store order): nigh_space_store_fence orders the writes before it before those behind it,
 * nigh_space_fence all, too: when it returns all that the thread has written is to be seen by all.
 * Atomics, locks, alloc and free go behind the thread's writes of the same block; locks and unlocks
 * behind all of its writes.
 *
 * Atomic is what lies in one aligned word of 8 bytes, and each read and each write of bytes within
 * one block; one of several blocks is cut at their borders, in no order.
 *
 * Threads. All of it may be called by several threads at once. What is written, fenced and held is
 * of the thread that does it, with each client; 64 threads of a client may use spaces at a time
 * (NIGH_LIMIT). A thread that ends leaves its writes to be carried out, and lets go of what it
 * holds.
 *
 * Failure. Unless it is durable a space lies in memory: with a node's death go the blocks of its
 * home, and what it alone had of others': these are lost, and what is done with them ends with
 * NIGH_PEER_LOST, never with older bytes. Where it is durable they are away until the node is there
 * again on its log: NIGH_PEER_LOST of blocks of its home, NIGH_BUSY of others. Handles go with the
 * client's connection to its node: what waits then ends with NIGH_NODE_LOST, and so does all that
 * is done with them until there is a node again that kept the session; then NIGH_CLOSED: the space
 * is opened anew. Writes that were not carried out are gone. So it is, with NIGH_CLOSED, where the
 * others took the node for dead, and it comes back.
 *
 * Timeouts are in microseconds; NIGH_FOREVER. With 0 what is here is read, and what there is room
 * for is written; all that has to wait ends with NIGH_TIMEOUT. While the node has no lease (it is
 * cut off from most others, or was not taken in yet) all that asks it waits, and so do reads of
 * what it has.
 *
 * What is not said at each call:
 *
 *   any call          NIGH_INVALID: NULL where something has to be, a struct_size that is not set;
 *                     NIGH_FORKED: a child of fork; NIGH_EXPELLED: the node ended the session;
 *                     NIGH_NODE_LOST; NIGH_CLOSED; NIGH_NO_RESOURCES
 *   by a name; lists  NIGH_DENIED: the client was opened read-only, and this does more than look;
 *                     NIGH_UNSUPPORTED: the node serves no spaces; NIGH_TIMEOUT
 *   by a handle       NIGH_DENIED: it was not opened for that; NIGH_LIMIT: too many threads;
 *                     NIGH_TIMEOUT
 *   by a handle, where the node is asked, and what a flush tells of writes and unlocks
 *                     NIGH_BUSY: too much waits there; NIGH_DISK: the node's log has failed, or,
 *                     NIGH_CORRUPT, is an old one, and the node leaves the space: what was asked
 *                     for by then may be done or not; NIGH_LOCK_LOST: the thread's lock of that
 *                     block is lost, as its home went on without this node
 */
#ifndef NIGH_SPACE_H
#define NIGH_SPACE_H

#include "nigh/client.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NIGH_SPACE_NAME_BYTES 47u /* most of a name; any bytes but 0, at least one */

/* What a user may do with a space (its owner and root may both), and what a handle is opened for.
 * To write is also to allocate and to free; who may write may read, too. */
#define NIGH_SPACE_READ  1u
#define NIGH_SPACE_WRITE 2u
#define NIGH_SPACE_ALL   3u

struct nigh_space;
typedef struct nigh_space nigh_space;

/* Of a byte, the same at every node: the rank of its home in the highest 16 bits. 0: of none. */
typedef uint64_t nigh_space_address;

/* Whatever lies at a rank, for nigh_space_alloc: near that. */
#define NIGH_SPACE_ON(rank) (((nigh_space_address)(rank) << 48) | 1u)

/* What an address may be asked to be a multiple of, at most (nigh_space_alloc_aligned). */
#define NIGH_SPACE_ALIGN_MOST (UINT64_C(1) << 30)

/* ---- create, open --------------------------------------------------------- */

/* What a node that was killed has of a space when it is there again (nighd --log-dir). */
typedef enum nigh_space_durability {
    NIGH_SPACE_DURABLE_NONE = 0,  /* nothing */
    NIGH_SPACE_DURABLE_ASYNC = 1, /* what others were shown, and what a flush was for */
    NIGH_SPACE_DURABLE_SYNC = 2   /* and all that a client was told is done */
} nigh_space_durability;

/* A space to be. Zero-fill, then set; struct_size lets the struct grow. */
typedef struct nigh_space_spec {
    size_t struct_size;
    const char *name;
    uint64_t home_size;    /* bytes of blocks at each node that takes part: whole blocks, at least
                              two, and fewer than 2^30 */
    uint64_t cache_size;   /* bytes of others' blocks that each keeps, about; 0: as many */
    uint32_t block_size;   /* a power of two from 64 to 4096; 0: 512 */
    uint32_t group_access; /* NIGH_SPACE_*: what the group of the owner may, */
    uint32_t other_access; /* and what all others */
    nigh_space_durability durability;
    uint32_t flags; /* 0 */
} nigh_space_spec;

/*
 * Creates a space, owned by the client's uid, and opens it for all. Every node of the cluster that
 * serves spaces (nighd --space-memory) takes part in it: has a home of that size, and a cache.
 * NIGH_EXISTS; NIGH_INVALID: a name or size that cannot be; NIGH_LIMIT: there are as many spaces as
 * there may be, or the client has as many open as it may, of which some were deleted: nothing is
 * created then, unless several of its threads create or open spaces at once; NIGH_OUT_OF_MEMORY: a
 * node has not so much left of its --space-memory;
 * NIGH_PEER_LOST: a node that serves spaces cannot be reached, or went meanwhile: then, and with
 * NIGH_BUSY and NIGH_TIMEOUT, it may have been created or not; NIGH_OVERLOADED: 16 are being
 * created or deleted at this node already; NIGH_NOT_FOUND: it was deleted meanwhile;
 * NIGH_NO_QUORUM: this node is cut off, or was not taken in yet; NIGH_UNSUPPORTED: the node is
 * older than this libnigh, or a node serves none, or has no log for one that is durable; NIGH_DISK:
 * it cannot be written.
 */
NIGH_API nigh_status nigh_space_create(nigh_client *client, const nigh_space_spec *spec,
                                       uint64_t timeout_us, nigh_space **space);

/* Opens one that is there. NIGH_NOT_FOUND; NIGH_DENIED: the client's uid has not all of these
 * rights; NIGH_TIMEOUT: it is not ready; NIGH_PEER_LOST, NIGH_NO_QUORUM: as above;
 * NIGH_OVERLOADED: 16 wait for that at this node already; NIGH_LIMIT: the client has as many open
 * as it may, of which some were deleted: it closes those. Where this node takes no part in it, why:
 * NIGH_OUT_OF_MEMORY, NIGH_UNSUPPORTED, NIGH_DISK as above; NIGH_CORRUPT, NIGH_VERSION: its log
 * cannot be used. */
NIGH_API nigh_status nigh_space_open(nigh_client *client, const char *name, uint32_t access,
                                     uint64_t timeout_us, nigh_space **space);

/*
 * Nothing is under way with the handle. What this client has written by it is carried out before,
 * for a second at most: who wants to know that it was flushes. With the last handle of a space
 * locks that the client holds there are let go. The handle is not to be used any more, as what was
 * given to free(). NULL is allowed. nigh_client_close closes those that are open, which are then
 * not to be used, or closed, either, and drops what was not carried out.
 */
NIGH_API void nigh_space_close(nigh_space *space);

/* The space is no more: what is done with it anywhere ends with NIGH_NOT_FOUND. For its owner, and
 * root (NIGH_DENIED). NIGH_NOT_FOUND; NIGH_BUSY: it is being created, or deleted; else as
 * nigh_space_create. */
NIGH_API nigh_status nigh_space_delete(nigh_client *client, const char *name, uint64_t timeout_us);

typedef struct nigh_space_info {
    size_t struct_size;
    char name[48];
    uint64_t id;         /* of the name */
    uint64_t birth;      /* of this space: another of its name has another */
    uint64_t home_size;  /* at each node */
    uint64_t cache_size; /* likewise */
    uint64_t used_size;  /* bytes of blocks that are allocated, of the client's node's home; all
                            of it while that opens for the first time since the node began */
    uint64_t ranks;      /* of the nodes that take part, a bit each */
    uint32_t rank;       /* of the client's own node */
    uint32_t block_size;
    uint32_t uid, gid;
    uint32_t group_access, other_access;
    uint32_t access; /* of the client's user */
    nigh_space_durability durability;
} nigh_space_info;

/* The caller sets info->struct_size. NIGH_NOT_FOUND; NIGH_DENIED: the client's user has no right to
 * it, and is not the node's own: that one is told of each, with `access` as it is. */
NIGH_API nigh_status nigh_space_stat(nigh_client *client, const char *name, uint64_t timeout_us,
                                     nigh_space_info *info);

/* Of a space at the client's node, ever: as long as the node runs, and takes part in it. */
typedef struct nigh_space_counts {
    size_t struct_size;
    /* Reads, of a block each, by all clients of the node, and those of what lay where it was read;
     * locks of a block each that they had, and those that a thread had kept. It is clients that
     * count these: each may say what it likes. */
    uint64_t reads, hits, locks, kept;
    uint64_t writes, atomics;       /* carried out for clients of the node */
    uint64_t asks;                  /* of other nodes, for a block of theirs */
    uint64_t invalidations;         /* copies that others' writes took away from here, */
    uint64_t evictions;             /* and those that gave way to other blocks */
    uint64_t messages, block_bytes; /* to other nodes */
} nigh_space_counts;

/* The caller sets counts->struct_size. As nigh_space_stat; NIGH_INVALID: the node is older than
 * this libnigh, too. */
NIGH_API nigh_status nigh_space_count(nigh_client *client, const char *name, uint64_t timeout_us,
                                      nigh_space_counts *counts);

/*
 * The spaces of which nigh_space_stat would tell the client's user, whose names are behind `after`
 * (NULL: all), in the order of the names' bytes, as many as there is room for, 63 at most. The
 * caller sets struct_size of the first; all are of that size. *more: 1: there are others behind the
 * last one.
 */
NIGH_API nigh_status nigh_space_list(nigh_client *client, const char *after, nigh_space_info *infos,
                                     size_t capacity, uint64_t timeout_us, size_t *count,
                                     uint32_t *more);

/* Of one that is open; asks nobody. */
NIGH_API uint32_t nigh_space_block_size(const nigh_space *space);

/* ---- memory --------------------------------------------------------------- */

/*
 * Allocates `size` bytes (not 0), all zero, at the begin of a block: whole blocks of one home,
 * that of the address `near`, which need not be allocated (NIGH_SPACE_ON), or of the client's own
 * node (near: 0). NIGH_OUT_OF_MEMORY: there is no such row of free blocks; NIGH_INVALID: no bytes,
 * or a rank above 63; NIGH_PEER_LOST: the node of `near` is not there, or takes no part, or went
 * meanwhile: then what it gave may stay allocated; NIGH_BUSY: the home has 256 mallocs and frees
 * under way, or, where it is another node, 16 of this one, or has only just begun, or too much
 * waits at this node; NIGH_TIMEOUT: what may have been allocated after that is freed again.
 */
NIGH_API nigh_status nigh_space_alloc(nigh_space *space, uint64_t size, nigh_space_address near,
                                      uint64_t timeout_us, nigh_space_address *address);

/*
 * The same, at an address that is a multiple of `alignment`, a power of two up to
 * NIGH_SPACE_ALIGN_MOST; one that is not more than a block asks for nothing, as a block is as it
 * is. What is left in front is free for others. NIGH_INVALID: another number; NIGH_OUT_OF_MEMORY:
 * no row of free blocks begins, or has enough, at such an address; NIGH_UNSUPPORTED: the client's
 * node is older than this libnigh.
 */
NIGH_API nigh_status nigh_space_alloc_aligned(nigh_space *space, uint64_t size, uint64_t alignment,
                                              nigh_space_address near, uint64_t timeout_us,
                                              nigh_space_address *address);

/* The same of count things of `size` bytes each. More than a number of bytes may be:
 * NIGH_OUT_OF_MEMORY. */
NIGH_API nigh_status nigh_space_calloc(nigh_space *space, uint64_t count, uint64_t size,
                                       nigh_space_address near, uint64_t timeout_us,
                                       nigh_space_address *address);

/*
 * Allocates `size` bytes near what is at *address, at a block's begin, of which the first old_size
 * are copied there, frees that, and says where it is now. *address 0: allocates; size 0: frees. It
 * flushes, and fails with what that says. What others write to it meanwhile may be lost. If it
 * fails *address is as it was, and what is there, too; what was allocated is freed, as far as that
 * can be. Once the bytes are copied and flushed it has not failed, whatever comes of the free that
 * may have been carried out (the time is up, the old home goes, the own node's log fails; of a
 * durable space, also that node): *address is the new one, what was there may be freed or not, and
 * the next call says what has become of the handle. Where the own node goes in that free, and the
 * space is not durable, it fails: *address is as it was, and may be freed.
 */
NIGH_API nigh_status nigh_space_realloc(nigh_space *space, uint64_t old_size, uint64_t size,
                                        uint64_t timeout_us, nigh_space_address *address);

/*
 * Frees what nigh_space_alloc gave, whole: of a home that was lost and is there again without a
 * log, all of it that other nodes kept, also where its first block is lost. From then on nobody
 * reads it: NIGH_NOT_FOUND. Who else has locked a block of it is waited for; a thread unlocks its
 * own before. NIGH_INVALID: it gave no such address, or it is free, or the thread has locked a
 * block of it: then nothing of it is freed; NIGH_NOT_FOUND: the space was deleted; NIGH_BUSY: as
 * nigh_space_alloc; NIGH_PEER_LOST: nothing of it is left, as all was lost with its home; or the
 * home is not there, or takes no part; or, as with NIGH_TIMEOUT, NIGH_NODE_LOST, NIGH_CLOSED,
 * NIGH_EXPELLED, NIGH_DISK, NIGH_CORRUPT: it may be freed or not, or be being freed: that goes on,
 * of a durable space also once a home that was killed is back, if by then its log had it that the
 * first block is free; else all of it is there as before. Address 0 is allowed.
 */
NIGH_API nigh_status nigh_space_free(nigh_space *space, nigh_space_address address,
                                     uint64_t timeout_us);

/* ---- bytes ---------------------------------------------------------------- */

/*
 * Reads bytes: each block of them as of one moment since the call. What the node has at hand is
 * read where it lies, and nobody is asked. NIGH_NOT_FOUND: nothing is allocated there, or the space
 * was deleted; NIGH_INVALID: nothing can be there; NIGH_PEER_LOST: it was lost with a node, or its
 * home cannot be reached; NIGH_BUSY: the only node that has it is away, and may come back with it,
 * or too much waits; NIGH_LIMIT: the node's cache has no place for it, which takes one of few
 * blocks and nodes that are gone; NIGH_TIMEOUT. If it fails `bytes` may be anything.
 */
NIGH_API nigh_status nigh_space_read(nigh_space *space, nigh_space_address address, void *bytes,
                                     uint64_t size, uint64_t timeout_us);

/*
 * Writes bytes: into the thread's store buffer of 32 KiB, or waits until there is room (the
 * timeout; then some of the bytes may be written, and others not). NIGH_INVALID: at address 0, or
 * behind all addresses. That a write has failed later is told by nigh_space_flush, as no other
 * call.
 */
NIGH_API nigh_status nigh_space_write(nigh_space *space, nigh_space_address address,
                                      const void *bytes, uint64_t size, uint64_t timeout_us);

/* Of one write; plain memory, to be copied, and kept as long as one likes. */
typedef struct nigh_space_ticket {
    uint64_t first, last; /* in the thread's store buffer, */
    uint64_t buffer;      /* which is this one */
} nigh_space_ticket;

/* The same, and what to ask about it by. */
NIGH_API nigh_status nigh_space_write_with(nigh_space *space, nigh_space_address address,
                                           const void *bytes, uint64_t size, uint64_t timeout_us,
                                           nigh_space_ticket *ticket);

/* Whether a write of the calling thread was carried out, so that all see it, or has failed:
 * NIGH_OK, or NIGH_PENDING. NIGH_INVALID: it is of another thread. */
NIGH_API nigh_status nigh_space_is_done(nigh_space *space, const nigh_space_ticket *ticket);

/* Waits until it is. */
NIGH_API nigh_status nigh_space_wait(nigh_space *space, const nigh_space_ticket *ticket,
                                     uint64_t timeout_us);

/* ---- order ---------------------------------------------------------------- */

/* What the thread writes from here on is seen by nobody before what it wrote until now; in all
 * spaces of the client. Waits for nothing but room. */
NIGH_API nigh_status nigh_space_store_fence(nigh_space *space, uint64_t timeout_us);

/* Waits until all that the thread has written is seen by all; in all spaces of the client. */
NIGH_API nigh_status nigh_space_fence(nigh_space *space, uint64_t timeout_us);

/*
 * The same, and says what failed: the status of the last of the thread's writes and unlocks that
 * did since the last flush, whose address is in *failed (which may be NULL): as of a read;
 * NIGH_INVALID also of a block that it had locked to read; NIGH_CLOSED: its handle was closed.
 * NIGH_DISK, NIGH_CORRUPT: it has not become durable, if it was carried out.
 */
NIGH_API nigh_status nigh_space_flush(nigh_space *space, uint64_t timeout_us,
                                      nigh_space_address *failed);

/* ---- words ---------------------------------------------------------------- */

/* A word of 8 bytes, aligned (NIGH_INVALID, as it is of a block that the thread has locked to
 * read), changed at once, by a handle to read and write; *old (which may be NULL): what was there.
 * NIGH_TIMEOUT, NIGH_NODE_LOST, NIGH_PEER_LOST, NIGH_CLOSED, NIGH_DISK, NIGH_CORRUPT: it may have
 * been changed or not; behind NIGH_TIMEOUT it may be yet, also in what is given next where that
 * word is freed; else as nigh_space_read. */
NIGH_API nigh_status nigh_space_fetch_add(nigh_space *space, nigh_space_address address,
                                          uint64_t add, uint64_t timeout_us, uint64_t *old);
NIGH_API nigh_status nigh_space_exchange(nigh_space *space, nigh_space_address address,
                                         uint64_t value, uint64_t timeout_us, uint64_t *old);
/* Only if it is `expected`: then *old is that. */
NIGH_API nigh_status nigh_space_compare_swap(nigh_space *space, nigh_space_address address,
                                             uint64_t expected, uint64_t value, uint64_t timeout_us,
                                             uint64_t *old);

/* Puts a word that others see behind all that the thread wrote before: a store fence, and a write,
 * each of which may wait for room for as long as the timeout. Gets one: who sees what was put sees
 * all that was written before it. */
NIGH_API nigh_status nigh_space_put(nigh_space *space, nigh_space_address address, uint64_t value,
                                    uint64_t timeout_us);
NIGH_API nigh_status nigh_space_get(nigh_space *space, nigh_space_address address,
                                    uint64_t timeout_us, uint64_t *value);

/* The same of a value of `size` bytes, anywhere in one block (NIGH_INVALID): who gets has all bytes
 * of one put, or of another, and never some of each. The timeout is of all of it. */
NIGH_API nigh_status nigh_space_put_bytes(nigh_space *space, nigh_space_address address,
                                          const void *bytes, uint64_t size, uint64_t timeout_us);
NIGH_API nigh_status nigh_space_get_bytes(nigh_space *space, nigh_space_address address,
                                          void *bytes, uint64_t size, uint64_t timeout_us);

/* ---- locks ---------------------------------------------------------------- */

/*
 * Locks all blocks in which bytes of a range lie (`length` of them, not 0), for the calling thread:
 * others wait that would write them, or, with a lock to write, read them, and so do others' locks,
 * at all nodes; a block is the least that is locked. Who holds a lock sees all that was written
 * before by those who held it. A handle to read is enough for a lock to read. Blocks are locked one
 * after the other, from the lowest address on, so that two who lock ranges do not wait for each
 * other; who holds one while it asks for another has to see to that itself. Of a call that fails
 * none is locked.
 * NIGH_INVALID: the thread holds one of the blocks already, or the range has no bytes; NIGH_LIMIT:
 * it would hold more than 64, or the node's clients hold 13 whose copies would be in one set of its
 * cache (of 15), which takes a cache of few blocks or very many locks, or 16384 of a space that is
 * durable; NIGH_TIMEOUT; else as nigh_space_read. A lock has no end of its own; it goes with its
 * client.
 *
 * A thread that locks a block again and again, which nobody else has wanted since it last unlocked
 * it, asks nobody: as long as it has nothing written that is not carried out.
 */
NIGH_API nigh_status nigh_space_lock_read(nigh_space *space, nigh_space_address address,
                                          uint64_t length, uint64_t timeout_us);
NIGH_API nigh_status nigh_space_lock_write(nigh_space *space, nigh_space_address address,
                                           uint64_t length, uint64_t timeout_us);

/*
 * The same; NIGH_BUSY: another has one of them, of whatever node: told as soon as that is known,
 * and at the latest when the time is up. Who has just unlocked one has it until that is carried
 * out: behind a fence it is. With a timeout of 0 nobody is asked: NIGH_TIMEOUT, but for what the
 * thread has kept.
 */
NIGH_API nigh_status nigh_space_try_lock_read(nigh_space *space, nigh_space_address address,
                                              uint64_t length, uint64_t timeout_us);
NIGH_API nigh_status nigh_space_try_lock_write(nigh_space *space, nigh_space_address address,
                                               uint64_t length, uint64_t timeout_us);

/* Lets go of those blocks of a range that the thread holds, behind all that it has written. Waits
 * for nothing but room; NIGH_TIMEOUT: it holds some yet. NIGH_INVALID: it holds none of them. */
NIGH_API nigh_status nigh_space_unlock(nigh_space *space, nigh_space_address address,
                                       uint64_t length, uint64_t timeout_us);

#ifdef __cplusplus
}
#endif
#endif
