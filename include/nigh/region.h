/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: named memory of the cluster that is read and written where it lies, by whoever has the
 * rights, from any node. A region is cut into chunks of one size, each of which lies on one node
 * and may be moved to another while it is in use. (LITE's LMRs; docs/regions.md.)
 *
 * Bytes: a read finds what was written before it began by whoever was told that it was, or later
 * bytes. Writes and reads that are under way at the same time on overlapping bytes may be seen
 * torn, within words, too. Over TCP, and where there is one node, an aligned word of 8 bytes that
 * is read alone is not. What a write that failed has done is not known: all, a part, or nothing,
 * now or in a moment. With NIGH_DENIED, NIGH_NOT_FOUND or NIGH_INVALID one of at most 8 KiB within
 * a chunk has done nothing.
 *
 * A chunk is in its node's memory alone: it is lost with the node (NIGH_PEER_LOST), the others
 * stay; with its last chunk a region is gone (NIGH_NOT_FOUND), and its name free. A node that stood
 * still, or was cut off, for longer than nighd's --dead-ms (5 s) has lost its chunks for good,
 * though it comes back.
 *
 * Handles are of one client, and go with its connection to its node. After a restart of the node
 * all that is done with the client ends with NIGH_NODE_LOST: it is closed, and another one opened.
 * Where somebody kept the node's memory (nighd --hold, a descriptor store: nigh/client.h) the
 * client goes on, and what is done with the handles ends with NIGH_CLOSED: the regions are opened
 * anew. The node's chunks are lost either way.
 *
 * Nodes of a cluster have regions where they agree on who is there (nighd --state); a node that is
 * alone has them, too. All of it may be called by several threads at once. Timeouts are in
 * microseconds; NIGH_FOREVER. All that asks a node takes some time: with a timeout of 0 it does
 * nothing, and ends with NIGH_TIMEOUT. So there is no try: who is not to wait for a lock says a
 * short timeout, not 0.
 */
#ifndef NIGH_REGION_H
#define NIGH_REGION_H

#include "nigh/rpc.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NIGH_REGION_NAME_BYTES 64u  /* most of a name; any bytes but 0, at least one */
#define NIGH_REGION_CHUNKS     128u /* most of one region */

/* What a user may do with a region (root may all), and what a handle is opened for. */
#define NIGH_REGION_READ   1u
#define NIGH_REGION_WRITE  2u
#define NIGH_REGION_MASTER 4u /* grant, revoke, resize, move, free */
#define NIGH_REGION_ALL    7u

/* Beside these, to open one: what is done with the handle has low priority, and is limited where it
 * stands in the way of others'. As all has of a client of NIGH_OPEN_LOW_PRIORITY. A node that is
 * older than this says NIGH_INVALID. */
#define NIGH_REGION_LOW 8u
/* Of a region, from its creation on. */
#define NIGH_REGION_MAPPABLE 65536u /* nigh_region_map */
/* Of one that is there: its memory is what somebody donated. */
#define NIGH_REGION_DONATED 131072u

struct nigh_region;
typedef struct nigh_region nigh_region;

/* ---- create, open --------------------------------------------------------- */

/* Where new chunks go. */
typedef enum nigh_region_where {
    NIGH_REGION_LOCAL = 0,  /* the client's own node */
    NIGH_REGION_ON = 1,     /* the node `rank` */
    NIGH_REGION_SPREAD = 2, /* all nodes that are up, in turn, from the client's own on */
    NIGH_REGION_NEAR = 3    /* of nigh_region_create: where the bytes of another region lie */
} nigh_region_where;

/* A region to be. Zero-fill, then set; struct_size lets the struct grow. */
typedef struct nigh_region_spec {
    size_t struct_size;
    const char *name;
    uint64_t size;       /* bytes */
    uint64_t chunk_size; /* a multiple of 4096, fixed from then on, and with it how far the region
                            grows: to 128 of them. 0: `size`, or for SPREAD its share of each node,
                            but 16 MiB at most, or as much as it takes for 128 to be enough; whole
                            pages. Who means to resize it says more than that */
    nigh_region_where where;
    uint32_t rank;
    uint32_t group_access; /* NIGH_REGION_*: what the group of the owner may, who may all */
    uint32_t other_access; /* what all others may */
    uint32_t flags;        /* NIGH_REGION_MAPPABLE: each chunk takes a file of its node, of which it
                              has 1024 */
    const char *near;      /* NEAR: the name of the other one, to which the client's user has any
                              right: each chunk goes to the node that has that one's bytes of the same
                              offset now, again from its begin on where it is shorter; to the client's
                              own node, where they are lost. Without a chunk_size the other's is
                              taken, or doubled until 128 chunks are enough */
} nigh_region_spec;

/*
 * Creates a region, its bytes zero, owned by the client's uid, and opens it for all. NIGH_EXISTS;
 * NIGH_INVALID: a name or size that cannot be, or a rank beyond those that the cluster has (nighd
 * --ranks: where it is not said, twice as many as its list names, and at least 8); NIGH_LIMIT: more
 * than NIGH_REGION_CHUNKS, or regions of a node; NIGH_OUT_OF_MEMORY: a node has not so much left of
 * its --region-memory; NIGH_PEER_LOST: a node that was to have some is not there, or nobody has
 * that rank now; NIGH_NO_QUORUM, at once: the node is cut off from most, or has just begun, and was
 * not taken in yet; NIGH_BUSY: the members have just changed, and the region may be there or not;
 * NIGH_TIMEOUT: likewise; NIGH_DENIED: the client was opened read-only;
 * NIGH_NOT_FOUND: another has freed it already, or NEAR: there is no such region; NIGH_UNSUPPORTED:
 * an older node, or one of a cluster that keeps no state.
 */
NIGH_API nigh_status nigh_region_create(nigh_client *client, const nigh_region_spec *spec,
                                        uint64_t timeout_us, nigh_region **region);

/*
 * Creates a region of memory that a process has already, without a copy: of a memfd, which the
 * client's node maps, too. What is in it is the region's; what this process, or any other that has
 * the memfd, stores there others read, from any node, and the other way round, with the order of
 * the processor's loads and stores, and none of the calls' (nigh_region_map). The descriptor stays
 * the caller's, and may be closed.
 *
 * Of the spec name, size, group_access and other_access are looked at, and all else is 0: it is one
 * chunk at the client's own node, and stays there. The memfd is open to read and write, has just
 * `size` bytes, a multiple of 4096, at most a TiB, of ordinary pages, is sealed against shrinking
 * and growing (F_SEAL_SHRINK, F_SEAL_GROW), and not against writing. All of its pages are there
 * afterwards, and count for the node's --region-memory.
 *
 * The region is one like any other: it outlives this process, is read and written by rights, and is
 * over when a master frees it, or its node ends; the bytes stay with who has the memfd. Only who
 * has that writes whatever the rights are: a revoke, a lock and a frozen chunk hold back what goes
 * through nodes, and nobody else. It is neither moved nor resized (NIGH_INVALID), and not mapped by
 * nigh_region_map (NIGH_UNSUPPORTED). Who has the memfd may punch pages out of it: they are zero.
 *
 * The memfd is handed to the node first, which waits for a second for a node that does not answer,
 * and no longer, whatever timeout_us is. After that, or where no time is left then, it ends with
 * NIGH_TIMEOUT, and the node keeps nothing.
 *
 * NIGH_INVALID: such is not the memfd (nigh_client_error says what it lacks); NIGH_OUT_OF_MEMORY;
 * NIGH_LIMIT: 1024 chunks of the node are memory files; NIGH_OVERLOADED: four others of the client
 * are under way, or the node has too much to do; NIGH_BUSY: as there, or it has become a region and
 * could not be opened: see whether it is there (nigh_region_open); NIGH_CLOSED: the connection to
 * the node ended meanwhile; NIGH_UNSUPPORTED: an older node; else as nigh_region_create.
 */
NIGH_API nigh_status nigh_region_donate(nigh_client *client, const nigh_region_spec *spec, int fd,
                                        uint64_t timeout_us, nigh_region **region);

/*
 * The same of any memory of this process, for a client of an embedded node in it (nigh_node_client;
 * else NIGH_UNSUPPORTED): `size` bytes, of any number, from an address on that is a multiple of 8,
 * mapped to be read and written (NIGH_INVALID). It is in use until it is known that the region is
 * over: nigh_region_free has returned NIGH_OK, or something that was done with a handle of it
 * NIGH_NOT_FOUND; or nigh_node_stop has returned. Until then it stays mapped. So it is where this
 * call did not return NIGH_OK, but for NIGH_INVALID, NIGH_EXISTS, NIGH_UNSUPPORTED, NIGH_DENIED and
 * NIGH_OVERLOADED: it may have become a region. A child of fork may not use it.
 */
NIGH_API nigh_status nigh_region_donate_memory(nigh_client *client, const nigh_region_spec *spec,
                                               void *memory, uint64_t timeout_us,
                                               nigh_region **region);

/* Opens one that is there. NIGH_NOT_FOUND; NIGH_DENIED: the client's uid has not all of these
 * rights; NIGH_NO_QUORUM, NIGH_TIMEOUT, NIGH_LIMIT, as above. */
NIGH_API nigh_status nigh_region_open(nigh_client *client, const char *name, uint32_t access,
                                      uint64_t timeout_us, nigh_region **region);

/* Nothing of the handle is under way, and nothing that it has mapped is in use: it is unmapped.
 * The handle is not to be used any more, in any call, as what was given to free().
 * NULL is allowed. nigh_client_close closes those that are open, which are then not to be used, or
 * closed, either. */
NIGH_API void nigh_region_close(nigh_region *region);

/* What events of regions name a handle by (NIGH_SUBSCRIBE_REGIONS): of those that a client has open
 * over one connection no other has it. Any thread. */
NIGH_API uint64_t nigh_region_number(const nigh_region *region);

/* ---- bytes ---------------------------------------------------------------- */

/*
 * Reads or writes size bytes from an offset on. Of 0 bytes that is NIGH_OK at once, wherever they
 * would begin, and whatever the handle is for. NIGH_INVALID: not all of it is in the region;
 * NIGH_DENIED: the handle was not opened for that, or the right was revoked; NIGH_NOT_FOUND: the
 * region was freed, also where another has its name; NIGH_PEER_LOST: the node of a chunk died, and
 * the chunk with it, or the connection to it broke; NIGH_NO_QUORUM, NIGH_TIMEOUT; NIGH_OVERLOADED:
 * the client, or all of its user at this node, has as much under way as it may (8 operations each
 * client has always: docs/qos.md); NIGH_CLOSED: the handle went with a connection.
 */
NIGH_API nigh_status nigh_region_read(nigh_region *region, uint64_t offset, void *bytes,
                                      size_t size, uint64_t timeout_us);
NIGH_API nigh_status nigh_region_write(nigh_region *region, uint64_t offset, const void *bytes,
                                       size_t size, uint64_t timeout_us);

/* The same without waiting, as nigh_call_start: `bytes` is in use until the end of the op. */
NIGH_API nigh_status nigh_region_read_start(nigh_region *region, uint64_t offset, void *bytes,
                                            size_t size, uint64_t timeout_us, nigh_op *op);
NIGH_API nigh_status nigh_region_write_start(nigh_region *region, uint64_t offset,
                                             const void *bytes, size_t size, uint64_t timeout_us,
                                             nigh_op *op);

#define NIGH_REGION_PARTS 64u /* most of one vectored read or write */

/* A part of one: so many bytes from an offset of the region on, and where in memory. */
typedef struct nigh_region_part {
    uint64_t offset;
    void *bytes; /* of a write they are only read */
    size_t size; /* 0: it is passed over */
} nigh_region_part;

/*
 * Reads or writes several parts of a region as one operation, in no order: scattered in the region,
 * gathered in memory, or both. `parts`, and what they point to, is in use until the end, and of a
 * read no two are of the same memory. It ends once, with the status of the part that failed first
 * (NIGH_INVALID: also more than NIGH_REGION_PARTS); then each part is whole, in part, or not there,
 * as of nigh_region_read and nigh_region_write on its own: parts are not judged beforehand.
 */
NIGH_API nigh_status nigh_region_readv(nigh_region *region, const nigh_region_part *parts,
                                       size_t count, uint64_t timeout_us);
NIGH_API nigh_status nigh_region_writev(nigh_region *region, const nigh_region_part *parts,
                                        size_t count, uint64_t timeout_us);
NIGH_API nigh_status nigh_region_readv_start(nigh_region *region, const nigh_region_part *parts,
                                             size_t count, uint64_t timeout_us, nigh_op *op);
NIGH_API nigh_status nigh_region_writev_start(nigh_region *region, const nigh_region_part *parts,
                                              size_t count, uint64_t timeout_us, nigh_op *op);

/*
 * Makes `size` bytes from an offset on this byte. None of them passes through the caller: its node
 * writes them, to other nodes straight into their memory. Fails as nigh_region_write does; where
 * the range is not all in the region as it begins, or the right to write is not there, nothing is
 * done. Of 0 bytes it is done at once.
 */
NIGH_API nigh_status nigh_region_memset(nigh_region *region, uint64_t offset, uint8_t byte,
                                        uint64_t size, uint64_t timeout_us);
NIGH_API nigh_status nigh_region_memset_start(nigh_region *region, uint64_t offset, uint8_t byte,
                                              uint64_t size, uint64_t timeout_us, nigh_op *op);

/*
 * Copies `size` bytes of one region into another, or within one, wherever the chunks of either are.
 * Within one region the ranges may overlap: what comes out is what was there before (so it is
 * memcpy and memmove). Both handles are of one client, `from` with the right to read, `to` to
 * write. No byte passes through the caller: its node reads and writes them, 64 KiB at a time and
 * some of these at once. Between two other nodes they travel once, as the source's is asked to
 * bring them; where it does not, or the ranges overlap, twice, by the caller's node.
 *
 * NIGH_INVALID: also handles of two clients. A range that is not all there as it begins, or a right
 * that is not, is found before anything is written; whatever else fails, any of the bytes may have
 * been copied, and where the ranges overlap the source is not what it was. What others write to the
 * source meanwhile is copied or not, each piece for itself.
 */
NIGH_API nigh_status nigh_region_copy(nigh_region *to, uint64_t to_offset, nigh_region *from,
                                      uint64_t from_offset, uint64_t size, uint64_t timeout_us);
NIGH_API nigh_status nigh_region_copy_start(nigh_region *to, uint64_t to_offset, nigh_region *from,
                                            uint64_t from_offset, uint64_t size,
                                            uint64_t timeout_us, nigh_op *op);

/* The same into and from memory of a handle (nigh_bulk_alloc), without a copy on the way: for much.
 * part->access is not looked at: the handle has to be for NIGH_BULK_WRITE to read a region into it,
 * and for NIGH_BULK_READ to write it to one. After NIGH_TIMEOUT it may be in use still:
 * nigh_bulk_wait. NIGH_CLOSED: also that the memory is gone. */
NIGH_API nigh_status nigh_region_read_into(nigh_region *region, uint64_t offset,
                                           const nigh_bulk_part *part, uint64_t timeout_us);
NIGH_API nigh_status nigh_region_write_from(nigh_region *region, uint64_t offset,
                                            const nigh_bulk_part *part, uint64_t timeout_us);

/* The same without waiting, as nigh_call_start. The part itself is the caller's again at once, the
 * memory at the end of the op; after NIGH_TIMEOUT or NIGH_CANCELED it may be in use still:
 * nigh_bulk_wait. */
NIGH_API nigh_status nigh_region_read_into_start(nigh_region *region, uint64_t offset,
                                                 const nigh_bulk_part *part, uint64_t timeout_us,
                                                 nigh_op *op);
NIGH_API nigh_status nigh_region_write_from_start(nigh_region *region, uint64_t offset,
                                                  const nigh_bulk_part *part, uint64_t timeout_us,
                                                  nigh_op *op);

/*
 * Adds to a word of 8 bytes (it wraps), or makes it `swap` if it is `compare`; *old (may be NULL):
 * what it was before. The offset is a multiple of 8; rights to read and to write. Atomic with each
 * other, at whichever nodes; a word that is changed by them is read by them, too (add 0): with
 * plain reads and writes of it there is no order, nor, but over TCP or where there is one node,
 * with what processors do to it. NIGH_UNSUPPORTED: the network has none (iWARP).
 */
NIGH_API nigh_status nigh_region_fetch_add(nigh_region *region, uint64_t offset, uint64_t added,
                                           uint64_t timeout_us, uint64_t *old);
NIGH_API nigh_status nigh_region_compare_swap(nigh_region *region, uint64_t offset,
                                              uint64_t compare, uint64_t swap, uint64_t timeout_us,
                                              uint64_t *old);

/* The same without waiting, as nigh_call_start: *old is written by the end of the op, where that is
 * NIGH_OK. One that was cancelled may have happened, now or in a moment. */
NIGH_API nigh_status nigh_region_fetch_add_start(nigh_region *region, uint64_t offset,
                                                 uint64_t added, uint64_t timeout_us, uint64_t *old,
                                                 nigh_op *op);
NIGH_API nigh_status nigh_region_compare_swap_start(nigh_region *region, uint64_t offset,
                                                    uint64_t compare, uint64_t swap,
                                                    uint64_t timeout_us, uint64_t *old,
                                                    nigh_op *op);

/* ---- mapped into the process ---------------------------------------------- */

/*
 * Maps a range of a region that was created with NIGH_REGION_MAPPABLE, all of whose chunks lie at
 * the client's own node: *address is where the range begins; `size` 0: to the region's end. It is
 * for NIGH_REGION_READ, or for that and NIGH_REGION_WRITE together: then the handle has both. What
 * is written there is what others read by nigh_region_read, from any node, and the other way round,
 * with the order of the processor's loads and stores, and none of the calls': who needs one has
 * a word that both look at. Chunks are mapped whole; what lies around the range is not to be used:
 * what is written behind the region's end is there when the region grows.
 *
 * As long as anybody at its node has a chunk mapped it does not move (NIGH_BUSY). Nothing holds
 * back what is written there: no lock, and no frozen chunk.
 *
 * When somebody to whom memory of a chunk was ever given loses the right to it, the chunk goes on
 * in other memory, with the same bytes. What was mapped until then, by whomever, stays as it was:
 * it sees nothing of what is written afterwards, and what is written there nobody else sees. So it
 * is, too, when the region is freed, or the chunk cut off, moved or lost. The client is told: until
 * it has unmapped that, what it reads, writes or maps with the handle ends NIGH_STALE. A child of
 * fork has nothing of it.
 *
 * NIGH_ELSEWHERE: a chunk lies at another node; NIGH_UNSUPPORTED: the region is not mappable;
 * NIGH_INVALID: not all of it is in the region, or the handle is of a lock; NIGH_DENIED;
 * NIGH_NOT_FOUND; NIGH_STALE: also that it was changed meanwhile; NIGH_LIMIT: 1024 chunks are
 * mapped by the client, or it, or all of its user, has its share of the 5120 of a node; NIGH_BUSY:
 * the node has sent it much that it has not read: try again; and as nigh_region_read.
 */
NIGH_API nigh_status nigh_region_map(nigh_region *region, uint64_t offset, uint64_t size,
                                     uint32_t access, uint64_t timeout_us, void **address);

/* Unmaps what nigh_region_map has mapped there, of this handle; nobody uses it any more.
 * NIGH_INVALID: nothing was; NIGH_STALE: it was not the region's any more; NIGH_CLOSED: the handle
 * went with a connection. In both cases it is unmapped all the same. */
NIGH_API nigh_status nigh_region_unmap(nigh_region *region, void *address);

/* ---- locks, barriers ---------------------------------------------------------------- */

typedef enum nigh_region_mode {
    NIGH_REGION_SHARED = 1,   /* beside others that have it so: to read; takes the right to read */
    NIGH_REGION_EXCLUSIVE = 2 /* alone; takes the right to write */
} nigh_region_mode;

/*
 * Waits for a lock of the region, of any number, and opens a handle that is good as long as it is
 * held: what is to be done under the lock is done with that handle. Whoever waits longest is next,
 * of each node in turn, and readers do not pass a writer that waits.
 *
 * A lock that others wait for is handed on when its holder lets go, its process ends or its node
 * dies; and its holder loses it `term_us` after somebody began to wait (0: not for that), though it
 * stand still, and though that one has given up meanwhile: what was asked for once is not taken
 * back. Then all that is done with the handle ends NIGH_LOCK_LOST, and what was written with it has
 * landed, or never will: nobody who was only paused writes after the next has the lock. The region
 * is open for as long as one of its handles is.
 *
 * NIGH_TIMEOUT: with a timeout of 0 always, though nobody have it: a lock asks its home;
 * NIGH_DENIED: the handle was not opened for what the mode takes; NIGH_NOT_FOUND: the
 * region was freed; NIGH_LIMIT: 65536 locks of the region are in use; NIGH_OVERLOADED,
 * NIGH_NO_QUORUM, NIGH_CLOSED as of nigh_region_read. A client waits for 104 at once, for
 * 12 where its node has no memory to lend it for more: who asks for more begins to wait when one
 * of these has ended. docs/locks.md.
 */
NIGH_API nigh_status nigh_region_lock(nigh_region *region, uint64_t number, nigh_region_mode mode,
                                      uint64_t term_us, uint64_t timeout_us, nigh_region **held);

/* Lets go, and closes the handle, whatever is returned but NIGH_INVALID (it is none that
 * nigh_region_lock gave, and stays open): nothing of it is under way. NIGH_LOCK_LOST: its term was
 * over before, as others had asked for it, its node was taken for dead, or the region was freed;
 * NIGH_CLOSED: it went with a connection; NIGH_TIMEOUT: the node says nothing for seconds, and lets
 * go when it goes on, or does not know for a second whether others take it for dead, and lets go;
 * if all that time 248 submissions of the client were under way at it, it is told so as soon as
 * something else is done with the client. */
NIGH_API nigh_status nigh_region_unlock(nigh_region *held);

/*
 * The same without waiting; a client's first lock as nigh_call_start. *held is written by the end
 * of the op of the lock, where that is NIGH_OK, also after a nigh_cancel: it was granted first.
 * Where it ended otherwise nothing is held; what a node grants that had said nothing for a second
 * of that goes back by itself, as soon as something else is done with the client: of many locks
 * that are cancelled while it says nothing, for a second in all. A lock that is held is the
 * session's, however it was asked for, and let go with it.
 *
 * The handle of an unlock is gone at once, whatever is returned but NIGH_INVALID (there is no op,
 * or it is none of a lock), and the op ends as nigh_region_unlock does. NIGH_CANCELED is as
 * NIGH_TIMEOUT is: the lock is let go all the same.
 */
NIGH_API nigh_status nigh_region_lock_start(nigh_region *region, uint64_t number,
                                            nigh_region_mode mode, uint64_t term_us,
                                            uint64_t timeout_us, nigh_region **held, nigh_op *op);
NIGH_API nigh_status nigh_region_unlock_start(nigh_region *held, nigh_op *op);

/*
 * Waits until `parties` have arrived at a barrier of the region, of any number, this handle among
 * them: then all go on, and it is there for the next time. What they wrote before they arrived (and
 * were told that it was), all see afterwards. A handle takes part in one barrier at a time, from
 * its first arrival until it is closed or arrives at another; each handle is a party. It takes the
 * right to read.
 *
 * NIGH_PEER_LOST: a party's process or node died, or its client was closed with its handle open, or
 * a node that counts for others died (which may have been none of the parties'): all who wait hear
 * it, and all who arrive, until they have all closed their handles, or gone on to a barrier of
 * another number. NIGH_TIMEOUT: it has not arrived, unless the others have just gone on; it may
 * arrive again. NIGH_BUSY: the handle waits there already. NIGH_INVALID: parties of 0, or there are
 * more, or they do not agree on how many. NIGH_LIMIT: 256 barriers of the region are in use. Else
 * as nigh_region_read. At most 192 handles of one client wait at once. docs/locks.md.
 */
NIGH_API nigh_status nigh_region_barrier(nigh_region *region, uint64_t number, uint32_t parties,
                                         uint64_t timeout_us);

/* The same without waiting: so one thread has several handles wait. NIGH_CANCELED is as
 * NIGH_TIMEOUT is: it has not arrived, unless the others have just gone on. */
NIGH_API nigh_status nigh_region_barrier_start(nigh_region *region, uint64_t number,
                                               uint32_t parties, uint64_t timeout_us, nigh_op *op);

/* ---- changes, by a master ------------------------------------------------- */

/* Whose rights. */
typedef enum nigh_region_whose {
    NIGH_REGION_USER = 0,
    NIGH_REGION_GROUP = 1, /* of the owner */
    NIGH_REGION_OTHERS = 2
} nigh_region_whose;

/*
 * Gives rights, and takes some; in this order where both say one. When it has returned NIGH_OK what
 * was taken is over, also for handles that are open, and what they began does not land afterwards,
 * however long a node stood still. A handle stays open, though nothing is left of its rights: data,
 * locks and changes are refused (NIGH_DENIED), and it tells still what the region is like
 * (nigh_region_stat; and events, that its size changed, or that it was freed). `user`: a uid, for
 * NIGH_REGION_USER. NIGH_DENIED: no master; NIGH_INVALID: no such rights, the owner's, or `user` is
 * -1, which nobody is; NIGH_LIMIT: 16 users have rights of their own.
 *
 * This and what follows: NIGH_NOT_FOUND: it was freed; NIGH_OVERLOADED: 8 changes of it wait;
 * NIGH_NO_QUORUM, NIGH_BUSY, NIGH_TIMEOUT, NIGH_PEER_LOST: it may have happened.
 */
NIGH_API nigh_status nigh_region_grant(nigh_region *region, nigh_region_whose whose, uint32_t user,
                                       uint32_t give, uint32_t take, uint64_t timeout_us);

/* Makes it longer, by zeros, or shorter. New chunks go where it is said. NIGH_LIMIT: more than
 * NIGH_REGION_CHUNKS of its chunks, whose size its creation has set for good. */
NIGH_API nigh_status nigh_region_resize(nigh_region *region, uint64_t size, nigh_region_where where,
                                        uint32_t rank, uint64_t timeout_us);

/* Moves a chunk to another node; reads and writes of it wait for as long as the copy takes, and go
 * on there. NIGH_INVALID, NIGH_PEER_LOST: of the rank, as of nigh_region_create; NIGH_EXISTS: the
 * chunk is there already; NIGH_OUT_OF_MEMORY: that node has no room; NIGH_BUSY: also that a client
 * has it mapped. */
NIGH_API nigh_status nigh_region_move(nigh_region *region, uint32_t chunk, uint32_t rank,
                                      uint64_t timeout_us);

/* The region is over, for all who have it open; its name is free. The handle is to be closed. */
NIGH_API nigh_status nigh_region_free(nigh_region *region, uint64_t timeout_us);

/* ---- what it is like ------------------------------------------------------ */

#define NIGH_REGION_LOST UINT32_MAX /* a chunk's rank: it is lost */

#define NIGH_REGION_USERS 16u /* most with rights of their own */

typedef struct nigh_region_user {
    uint32_t uid;
    uint32_t access; /* NIGH_REGION_* */
} nigh_region_user;

/* Set struct_size: so much of it is filled, what this libnigh does not know with 0. */
typedef struct nigh_region_info {
    size_t struct_size;
    uint64_t size;
    uint64_t chunk_size;
    uint32_t chunk_count;
    uint32_t uid, gid; /* the owner */
    uint32_t group_access, other_access;
    uint32_t user_count;
    nigh_region_user users[NIGH_REGION_USERS];
    uint32_t ranks[NIGH_REGION_CHUNKS]; /* where each chunk is, or NIGH_REGION_LOST */
    uint32_t flags;                     /* NIGH_REGION_MAPPABLE, NIGH_REGION_DONATED */
} nigh_region_info;

/* As the client's node knows it now: it hears of changes when it uses what they changed, at the
 * latest. */
NIGH_API nigh_status nigh_region_stat(nigh_region *region, uint64_t timeout_us,
                                      nigh_region_info *info);

/* A region of a list. */
typedef struct nigh_region_entry {
    char name[NIGH_REGION_NAME_BYTES + 1];
    uint32_t access; /* NIGH_REGION_*: what the client's user may */
    uint32_t home;   /* the rank of the node that keeps what is known of it, now */
    nigh_region_info info;
} nigh_region_entry;

/*
 * The regions of the cluster to which the client's user has any right (the node's own user is told
 * of all, with `access` as it is), in the order of their names' bytes: the first ones behind the
 * name `after` (NULL: from the first on), as many as `capacity` and one answer have room for, and
 * at least one where there is any; *count says how many that are, *more is 1 where there are others
 * behind the last one. Each has info.struct_size bytes of info, which the caller has set in the
 * first to sizeof(nigh_region_info), as it knows that. What is created, freed or changed while
 * somebody asks for one part after the other is seen or not; what is there all the time is seen
 * once.
 *
 * NIGH_PEER_LOST: the entries, *count and *more are written, and the list is in part: of members
 * that are dead, or have not told in time, those regions lack whose home they are (until other
 * members are that). NIGH_TIMEOUT: nobody has told; NIGH_NO_QUORUM; NIGH_OVERLOADED: too many lists
 * are under way; NIGH_DENIED: the client was opened read-only, and the node is an older one;
 * NIGH_INVALID; NIGH_UNSUPPORTED: an older node, or one of a cluster that keeps no state.
 */
NIGH_API nigh_status nigh_region_list(nigh_client *client, const char *after,
                                      nigh_region_entry *entries, size_t capacity,
                                      uint64_t timeout_us, size_t *count, uint32_t *more);

#ifdef __cplusplus
}
#endif

#endif
