/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listening socket of a node: one node a path, whatever crashed there before.
 *
 * "<path>.lock" is locked (flock) as long as the node lives; who holds the lock may replace a
 * socket that nobody answers on. The lock goes with the process, so a crash leaves nothing to clean
 * up.
 */
#ifndef NODE_LISTEN_H
#define NODE_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nigh/status.h"
#include "node/lock_file.h"

/*
 * Locks the path, and removes what a node that died left there. `kept_fd` is a listening socket of
 * a former node on this path, or -1; on success it is taken over, and *listen_fd is it where it is
 * good, else -1: then listen_open makes one. On failure `why` is a sentence with a remedy:
 * NIGH_BUSY: another node is there. NIGH_DENIED: no permission. NIGH_NOT_FOUND: no such directory.
 * NIGH_INVALID: there is something that is no socket. NIGH_NO_RESOURCES.
 */
nigh_status listen_claim(const char *path, int kept_fd, int *listen_fd, struct lock_file *lock,
                         char *why, size_t why_bytes);

/* Whether anything but a socket that nobody answers on is at the path: fails as listen_claim would,
 * and changes nothing. */
nigh_status listen_look(const char *path, char *why, size_t why_bytes);

/* Listens on a path that is claimed, with the mode given; fails as listen_claim does. */
nigh_status listen_open(const char *path, uint32_t mode, int *listen_fd, char *why,
                        size_t why_bytes);

/* Removes the socket, where one was made, and the lock file, then unlocks. The listening socket is
 * closed by who has it. */
void listen_remove(const char *path, bool made, struct lock_file *lock);

#endif
