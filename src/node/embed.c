/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of an embedded node: the same session as over the listening socket, over a pair of
 * sockets, and with a driver, so that a thread that waits runs the lane's turn itself.
 *
 * A file of its own: nighd has no client in it and does not link this one.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/status.h"
#include "memory/session.h"
#include "node/node_internal.h"

nigh_status nigh_node_client(nigh_node *node, const nigh_client_options *options,
                             nigh_client **client)
{
    int pair[2];
    nigh_status status;

    if (node == NULL || client == NULL)
        return NIGH_INVALID;
    /* A child has the lanes' books, and none of the memory that a driver would work on. */
    if (node->pid != getpid())
        return NIGH_FORKED;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        return status_from_errno(errno);
    status = front_attach(node->door_fd, pair[0]);
    if (status != NIGH_OK) {
        fd_close(&pair[0]);
        fd_close(&pair[1]);
        return status;
    }
    return (nigh_status)session_attach(pair[1], options, &node->driver, client);
}
