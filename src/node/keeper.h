/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper of descriptors: who holds the node's memory while no node lives. That is systemd (its
 * descriptor store) or `nighd --hold`, which speaks the same protocol.
 *
 * Datagrams to $NOTIFY_SOCKET store and forget descriptors by name and say READY and STOPPING
 * (sd_notify(3), sd_pid_notify_with_fds(3)); what is stored comes back at the next start as
 * descriptors from 3 on ($LISTEN_PID, $LISTEN_FDS, $LISTEN_FDNAMES, sd_listen_fds(3)). Without
 * $NOTIFY_SOCKET every call does nothing, and nothing is kept.
 *
 * Sending may be done by any thread. It waits for a keeper that does not read KEEPER_WAIT_MS at
 * most, and then no more until it reads again.
 */
#ifndef NODE_KEEPER_H
#define NODE_KEEPER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nigh/status.h"

#define KEEPER_NAME_BYTES 32 /* the longest name nigh uses, terminated */
#define KEEPER_WAIT_MS    1000
#define KEEPER_TWICE      (-2) /* of keeper_take */

/* Set in the environment by `nighd --hold`, which ends with the node: a clean stop is then the end.
 * "first", or "again" for a node that takes over. */
#define KEEPER_HOLDER_VARIABLE "NIGH_HOLDER"

/* A descriptor that came back. */
struct keeper_item {
    char name[KEEPER_NAME_BYTES];
    int fd; /* -1: taken */
};

struct keeper {
    int socket_fd;         /* -1: nobody keeps anything */
    bool ends_with_node;   /* the keeper is a holder, which goes when the node stops cleanly */
    _Atomic bool is_tired; /* it did not read in time: it is not waited for */
    struct keeper_item *items;
    size_t count;
};

/*
 * Reads the environment of this process, takes over the descriptors that came back and removes the
 * variables, so that no child is confused. NIGH_INVALID: variables that cannot be. Start-up thread.
 */
nigh_status keeper_open(struct keeper *keeper, char *why, size_t why_bytes);

/* Closes the socket and what came back and was not taken; what is stored stays stored. */
void keeper_close(struct keeper *keeper);

/* Whether anybody keeps descriptors. */
static inline bool keeper_is_there(const struct keeper *keeper)
{
    return keeper->socket_fd >= 0;
}

/* Takes a descriptor that came back; -1: none of this name did. KEEPER_TWICE: more than one did,
 * and nobody knows which is meant: none is taken. Start-up thread. */
int keeper_take(struct keeper *keeper, const char *name);

/* Stores a descriptor, which stays the caller's, under a name. NIGH_NO_RESOURCES, NIGH_BUSY: it is
 * not stored. NIGH_OK without a keeper. */
nigh_status keeper_store(struct keeper *keeper, const char *name, int fd);

/* Forgets what is stored under a name. NIGH_NO_RESOURCES, NIGH_BUSY: it stays stored. NIGH_OK
 * without a keeper. */
nigh_status keeper_remove(struct keeper *keeper, const char *name);

/* Stores a descriptor under a name that may have been used, whose removal may have been lost: a
 * keeper has two of a name then, and hands both to the next node. As keeper_store. */
nigh_status keeper_replace(struct keeper *keeper, const char *name, int fd);

/* Tells that the node serves, or that it stops. */
void keeper_say_ready(struct keeper *keeper);
void keeper_say_stopping(struct keeper *keeper);

#endif
