/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status codes of nigh: one table, from which the enum, the names and the sentences are made.
 *
 * Every call that can fail returns nigh_status: NIGH_OK (0) or a negative code. Outputs of a call
 * are written only when it returns NIGH_OK, unless its comment says otherwise.
 */
#ifndef NIGH_STATUS_H
#define NIGH_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* A call that the shared libraries export; everything else in them is hidden. */
#define NIGH_API __attribute__((visibility("default")))

/* X(symbol, value, sentence). Values are part of the ABI and of the session protocol: append only.
 */
#define NIGH_STATUS_TABLE(X)                                                                       \
    X(NIGH_OK, 0, "success")                                                                       \
    X(NIGH_INVALID, -1, "an argument is not valid")                                                \
    X(NIGH_NOT_FOUND, -2, "no such object, region, space, pool or node")                           \
    X(NIGH_EXISTS, -3,                                                                             \
      "an object of this id, a region, a space or a service of this name exists already")          \
    X(NIGH_NOT_SEALED, -4, "the object is not sealed yet")                                         \
    X(NIGH_IN_USE, -5, "the object is in use; the change takes effect at its last release")        \
    X(NIGH_OUT_OF_MEMORY, -6, "the node's memory is full and nothing in it may be evicted")        \
    X(NIGH_TIMEOUT, -7, "the deadline passed")                                                     \
    X(NIGH_CANCELED, -8, "the operation was cancelled")                                            \
    X(NIGH_DENIED, -9,                                                                             \
      "the pool's owner, group and mode, or the region's or space's rights, forbid this")          \
    X(NIGH_QUOTA, -10, "a quota of the session or the pool is used up")                            \
    X(NIGH_LIMIT, -11, "a fixed limit is reached")                                                 \
    X(NIGH_VERSION, -12, "the two sides speak no common version")                                  \
    X(NIGH_UNREACHABLE, -13, "no node answers on this socket")                                     \
    X(NIGH_NODE_LOST, -14, "the node died or stopped")                                             \
    X(NIGH_FORKED, -15, "a child process uses its parent's client")                                \
    X(NIGH_EXPELLED, -16, "the node expelled this session")                                        \
    X(NIGH_CORRUPT, -17, "stored bytes fail their checksum")                                       \
    X(NIGH_DISK, -18, "the spill directory is full or failed")                                     \
    X(NIGH_OVERFLOW, -19, "events were lost because the queue was full")                           \
    X(NIGH_PROTOCOL, -20, "the other side broke the session protocol")                             \
    X(NIGH_NO_RESOURCES, -21, "the operating system refused memory, descriptors or a system call") \
    X(NIGH_BUSY, -22, "something else holds the resource; try again")                              \
    X(NIGH_CLOSED, -23, "the client, or what was opened with it, is closed")                       \
    X(NIGH_PENDING, -24, "the operation has not ended yet")                                        \
    X(NIGH_UNSUPPORTED, -25, "this node or client does not offer the call")                        \
    X(NIGH_PEER_LOST, -26, "the other node died or cannot be reached")                             \
    X(NIGH_NO_QUORUM, -27, "this node is cut off from most voters: only what is here is served")   \
    X(NIGH_TOO_FEW, -28, "fewer nodes than were asked for hold a copy")                            \
    X(NIGH_STALE, -29, "the group of nodes changed, or what is mapped is not the region's now")    \
    X(NIGH_LEAVING, -30, "the node is about to leave its cluster, and takes nothing new")          \
    X(NIGH_OVERLOADED, -31, "too many calls wait already, here or at the service; try again")      \
    X(NIGH_LOCK_LOST, -32, "the lock is lost: nothing more is written under it")                   \
    X(NIGH_ELSEWHERE, -33, "what is asked for lies at another node")

typedef enum nigh_status {
#define NIGH_STATUS_ENUM(symbol, value, sentence) symbol = value,
    NIGH_STATUS_TABLE(NIGH_STATUS_ENUM)
#undef NIGH_STATUS_ENUM
} nigh_status;

/* The lowest code of the table: a received code outside [NIGH_STATUS_LOWEST, 0] is a broken peer.
 */
#define NIGH_STATUS_LOWEST (-33)

/* "NIGH_NOT_FOUND", or "NIGH_UNKNOWN" for a value outside the table. Static storage; any thread. */
NIGH_API const char *nigh_status_name(nigh_status status);

/* The sentence of the table, or "unknown status". Static storage; any thread. */
NIGH_API const char *nigh_status_string(nigh_status status);

#ifdef __cplusplus
}
#endif
#endif
