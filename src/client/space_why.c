/* SPDX-License-Identifier: Apache-2.0 */
/* Spaces: why what a thread asked, or wrote, was not done. The node says a status and no more: all
 * that it may mean of that is named, and what there is to do. */
#include "client/error.h"
#include "client/space.h"

#define RANK_SHIFT 48 /* of an address: NIGH_SPACE_ON */

#define LARGER "unlock some, or create the space with a larger cache (--cache, cache_size)"

/* Words before and behind the place that is meant; behind: NULL: they name none. Before: NULL: the
 * status has words enough. */
struct why {
    const char *before, *behind;
};

static bool is_atomic(enum space_record_kind kind)
{
    return kind == SPACE_RECORD_ADD || kind == SPACE_RECORD_EXCHANGE || kind == SPACE_RECORD_SWAP;
}

static bool is_lock(enum space_record_kind kind)
{
    return kind >= SPACE_RECORD_LOCK_READ && kind <= SPACE_RECORD_TRY_LOCK_WRITE;
}

static struct why why_invalid(enum space_record_kind kind)
{
    if (kind == SPACE_RECORD_FREE) {
        return (struct why){"nothing that was allocated begins ",
                            ", or this thread has locked a block of it"};
    }
    return (struct why){"there can be nothing ",
                        kind == SPACE_RECORD_WRITE || is_atomic(kind)
                            ? " of the space, or this thread has locked it to read only"
                            : " of the space"};
}

static struct why why_busy(enum space_record_kind kind)
{
    switch (kind) {
    case SPACE_RECORD_ALLOC:
    case SPACE_RECORD_FREE:
        return (struct why){"too many mallocs and frees are under way (a home takes 256 at a time, "
                            "16 of them from one other node), or that home has only just begun, or "
                            "too much else waits at this node",
                            NULL};
    case SPACE_RECORD_TRY_LOCK_READ:
    case SPACE_RECORD_TRY_LOCK_WRITE:
        return (struct why){"another holds the block ", ", or too much waits at this node"};
    default:
        return (struct why){"the node that had the block ",
                            " last is away, and may come back with it, or too much waits at this "
                            "node"};
    }
}

_Static_assert(LIMIT_SPACE_JOBS == 256 && LIMIT_SPACE_JOBS_EACH == 16, "why_busy says so");

static struct why why_limit(enum space_record_kind kind)
{
    if (is_lock(kind)) {
        return (struct why){"the clients of this node hold as many blocks as may be of the set of "
                            "its cache that the one ",
                            " lies in, or of a durable space: " LARGER};
    }
    return (struct why){"this node's cache has no place for the block ",
                        ": its clients have locked all that its set there has, or it is kept for "
                        "nodes that are gone: " LARGER};
}

/* What is written goes with its handle, too. */
static struct why why_closed(enum space_record_kind kind)
{
    return (struct why){kind == SPACE_RECORD_WRITE
                            ? "its handle was closed, or this node was left out by the others: "
                              "what was open is to be opened anew"
                            : "this node was left out by the others, and the handle went with "
                              "that: open the space anew",
                        NULL};
}

static struct why why(enum space_record_kind kind, nigh_status status)
{
    switch (status) {
    case NIGH_NOT_FOUND:
        return kind == SPACE_RECORD_ALLOC
                   ? (struct why){"the space was deleted", NULL}
                   : (struct why){"nothing is allocated ", ", or the space was deleted"};
    case NIGH_PEER_LOST:
        return (struct why){"what was ",
                            " was lost with a node, or its home cannot be reached, or takes no "
                            "part in the space"};
    case NIGH_INVALID: return why_invalid(kind);
    case NIGH_BUSY: return why_busy(kind);
    case NIGH_LIMIT: return why_limit(kind);
    case NIGH_CLOSED: return why_closed(kind);
    case NIGH_DISK:
        return (struct why){"this node's log of the space failed (nighd --log-dir), as its disk is "
                            "full, or fails: the node leaves the space until it is started again, "
                            "and what was asked for may be done or not",
                            NULL};
    case NIGH_CORRUPT:
        return (struct why){"this node's log of the space is an old one, and it takes no part: see "
                            "nighd's log, and the space's directory below --log-dir",
                            NULL};
    default: return (struct why){NULL, NULL};
    }
}

/* `near` may be an address that the caller never wrote (NIGH_SPACE_ON): its rank is what counts. */
static bool say_of_rank(nigh_client *client, uint64_t near, nigh_status status)
{
    uint32_t rank = (uint32_t)(near >> RANK_SHIFT);

    switch (status) {
    case NIGH_PEER_LOST:
        (void)error_set(client, status,
                        "the node of rank %u is not there, takes no part in the space, or went "
                        "meanwhile",
                        rank);
        return true;
    case NIGH_OUT_OF_MEMORY:
        (void)error_set(client, status,
                        "there are not so many free blocks in a row%s, or none at such an address",
                        near == 0 ? " at this node" : " at that node");
        return true;
    case NIGH_INVALID:
        (void)error_set(client, status, "no space has such memory, or a home of rank %u", rank);
        return true;
    default: return false;
    }
}

nigh_status space_say_refused(nigh_client *client, enum space_record_kind kind, uint64_t address,
                              nigh_status status)
{
    struct why words = why(kind, status);

    if (kind == SPACE_RECORD_ALLOC && say_of_rank(client, address, status)) {
        return status;
    }
    if (words.before == NULL) {
        return error_note(client, status);
    }
    return words.behind == NULL ? error_set(client, status, "%s", words.before)
                                : error_set(client, status, "%sat 0x%llx%s", words.before,
                                            (unsigned long long)address, words.behind);
}

nigh_status space_say_lost(nigh_client *client, uint32_t count, uint64_t address,
                           nigh_status status)
{
    struct why words = why(SPACE_RECORD_WRITE, status);

    return error_set(client, status,
                     "%u of the thread's writes and unlocks failed, the last at 0x%llx: %s%s%s",
                     count, (unsigned long long)address,
                     words.before != NULL ? words.before : nigh_status_string(status),
                     words.behind != NULL ? "there" : "", words.behind != NULL ? words.behind : "");
}
