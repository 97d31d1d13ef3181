/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fabric over TCP: non-blocking sockets and epoll, one connection an endpoint.
 *
 * One-sided operations are served by the remote lane's fabric_poll straight from registered memory;
 * a payload lands straight in its destination. The wire is in docs/protocol.md. Nothing that a peer
 * sends is trusted: keys, bounds and lengths are checked here, and a peer that breaks the rules
 * loses its endpoint and nothing else.
 */
#ifndef FABRIC_TCP_TCP_H
#define FABRIC_TCP_TCP_H

#include "fabric/fabric.h"

struct tcp_options {
    uint32_t
        keepalive_ms; /* silence after which a peer is probed; lost after about three; 0: 5000 */
    uint32_t
        turn_bytes; /* payload moved for one endpoint in one poll; 0: LIMIT_FABRIC_TURN_BYTES */
};

/* options may be NULL. NIGH_NO_RESOURCES. */
nigh_status tcp_create(const struct tcp_options *options, struct fabric **fabric);

#endif
