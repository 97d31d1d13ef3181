/* SPDX-License-Identifier: Apache-2.0 */
/* Whose process has the other end of a connection over the loopback. */
#ifndef DAEMON_HTTP_PEER_H
#define DAEMON_HTTP_PEER_H

#include <stdbool.h>
#include <stdint.h>

/* Asks the kernel, who has made the socket at the other end. False: it does not say, or nobody has
 * it any more. Waits for nobody. */
bool http_peer_uid(int fd, uint32_t *uid);

#endif
