/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a peer really uses TCP: what the sockets of this process have carried. */
#ifndef BENCH_REGION_WIRE_H
#define BENCH_REGION_WIRE_H

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define REGION_WIRE_SOCKETS 1024 /* descriptors below are looked at */

/* Bytes that its TCP connections sent and received, both without headers. */
static inline double region_wire_bytes(void)
{
    double bytes = 0;

    for (int fd = 0; fd < REGION_WIRE_SOCKETS; fd++) {
        struct tcp_info info = {0};
        socklen_t length = sizeof info;

        if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0) {
            bytes += (double)info.tcpi_bytes_sent + (double)info.tcpi_bytes_received;
        }
    }
    return bytes;
}

#endif
