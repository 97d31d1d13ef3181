/* SPDX-License-Identifier: Apache-2.0 */
/* The head of an HTTP request: what is asked for, and no more than that. Pure. */
#ifndef DAEMON_HTTP_REQUEST_H
#define DAEMON_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_HEAD_BYTES 4096 /* of a request's head; a longer one is refused */
#define HTTP_PATH_BYTES 255

struct http_request {
    bool is_head; /* HEAD: the answer has no body; also of what is refused for its path or host */
    char path[HTTP_PATH_BYTES + 1];
};

/* Reads `count` bytes that have come. 0: the head has not ended yet; 200: *request is filled; else
 * the status to refuse it with: 400 no HTTP, 405 not GET nor HEAD, 414 the path is too long, 421
 * it is for another host than the loopback, 431 the head is too long, 505 a version that there is
 * not. */
int http_request_parse(const char *bytes, size_t count, struct http_request *request);

#endif
