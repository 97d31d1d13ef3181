/* SPDX-License-Identifier: Apache-2.0 */
/* How a session begins (attach.c), and comes back at another node (resume.c). For libnigh alone. */
#ifndef CLIENT_ATTACH_H
#define CLIENT_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "memory/session.h"
#include "nigh/nigh.h"

/* ---- attach.c ------------------------------------------------------------- */

/* What came with a welcome; descriptors are -1 when absent. */
struct attach_answer {
    struct session_welcome welcome;
    int fds[SESSION_WELCOME_FDS(LIMIT_LANES)];
    size_t fd_count;
};

/*
 * Connects to `path`. NIGH_UNREACHABLE, NIGH_DENIED, NIGH_TIMEOUT, NIGH_NO_RESOURCES; `text`
 * (CLIENT_TEXT_BYTES) says why.
 */
nigh_status attach_connect(const char *path, uint64_t timeout_us, int *socket_fd, char *text);

/* Says hello. What stands in the way of that is told by attach_await. */
void attach_hello(int socket_fd, const struct session_hello *hello);

/* Takes the welcome; a refusal is the node's status and sentence. NIGH_TIMEOUT: not yet, and it may
 * be called again. */
nigh_status attach_await(int socket_fd, uint64_t timeout_us, struct attach_answer *answer,
                         char *text);
void attach_answer_fini(struct attach_answer *answer);

/* Checks and maps what a first welcome brought. On failure the caller destroys the client. */
nigh_status attach_map(nigh_client *client, struct attach_answer *answer, char *text);

/* What the node takes that came later than sessions did: it may be another after a restart. */
void attach_hear_offers(nigh_client *client, const struct session_welcome *welcome);

/* Fills the hello of this client. */
void attach_fill_hello(const nigh_client *client, struct session_hello *hello);

/* ---- resume.c ------------------------------------------------------------- */

/* Whether resume_ensure would have anything to do. Locked. */
bool resume_is_needed(const nigh_client *client);

/* NIGH_OK when the node can be asked; one that died is found again first, within timeout_us.
 * NIGH_NODE_LOST, what ended the client. Locked. */
nigh_status resume_ensure(nigh_client *client, uint64_t timeout_us);

/* Looks for the node without waiting: later looks go on with what this one began. Locked, of a
 * CLIENT_LOST. */
void resume_probe(nigh_client *client);

/* Says to whom comes next that a CLIENT_LOST does not come back, without waiting. Locked. */
void resume_leave(nigh_client *client);

#endif
