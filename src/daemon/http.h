/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node tells over HTTP on the loopback: numbers (/metrics) and the page (docs/page.md). A
 * thread of its own, which is a client of the node: whoever asks here costs the lanes a few
 * questions.
 *
 * Who connects is a stranger: at most HTTP_CONNECTIONS at once, each with HTTP_PATIENCE_MS to ask
 * and to take the answer.
 */
#ifndef DAEMON_HTTP_H
#define DAEMON_HTTP_H

#include <stddef.h>

#include "nigh/status.h"

#define HTTP_CONNECTIONS 16
#define HTTP_PATIENCE_MS 5000

struct http;

/* Listens at address:port, of the loopback. NIGH_INVALID: it is not, or not this machine's;
 * NIGH_BUSY: the port is taken; NIGH_DENIED: not for this user; NIGH_NO_RESOURCES. `why`: a
 * sentence.
 */
nigh_status http_listen(const char *address, struct http **http, char *why, size_t why_bytes);

/* Begins to answer for the node at a socket. NIGH_NO_RESOURCES. */
nigh_status http_start(struct http *http, const char *socket_path);

/* Ends all connections, and the node's session. NULL is allowed. */
void http_stop(struct http *http);

#endif
