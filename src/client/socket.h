/* SPDX-License-Identifier: Apache-2.0 */
/* What is said over the socket once there is a session (socket.c). For libnigh alone. */
#ifndef CLIENT_SOCKET_H
#define CLIENT_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/nigh.h"

/* Tells the node that the session is over for good. Locked. */
void socket_say_bye(int socket_fd);

/* Takes in what the node sent (pokes, bye, end of file), without waiting. Locked. */
void socket_take_in(nigh_client *client);

/* The same, but not more often than once a millisecond: for threads that only poll. Locked. */
void socket_take_in_now_and_then(nigh_client *client);

/* A question for several extents at once, and how it ended. */
struct extents_ask {
    uint32_t first;
    uint32_t count; /* 1 .. LIMIT_ASK_BATCH, of which at most `most` are mapped */
    uint32_t most;
    bool writable;
    uint32_t mapped;                       /* by this ask */
    nigh_status statuses[LIMIT_ASK_BATCH]; /* of each */
};

/* Asks, and maps what comes: this process never has more than one of the descriptors. Locked. */
nigh_status socket_ask_extents(nigh_client *client, struct extents_ask *ask);

/* Asks for memory that the node made for this client's calls: *fd, the caller's. Locked. */
nigh_status socket_ask_bulk(nigh_client *client, uint64_t number, int *fd);

/* Likewise for the memory of a map (SESSION_REGION_MAP). Locked. */
nigh_status socket_ask_map(nigh_client *client, uint64_t number, int *fd);

/* Likewise for a file of a space, or a window's. Locked. */
nigh_status socket_ask_space(nigh_client *client, uint64_t number, int *fd);

/* The number by which a region is made of what was donated, over this connection. */
struct donated {
    uint64_t number;
    uint32_t connection;
    bool is_answered; /* the status is the node's */
};

/* Hands a memory file to the node (SESSION_DONATE), the descriptor stays the caller's. It is asked
 * for, or dropped. NIGH_UNSUPPORTED: an older node. Locked. */
nigh_status socket_donate(nigh_client *client, int fd, uint64_t bytes, struct donated *donated);

/* Nobody asks for it (any more); it may be gone already. Does not wait. Locked. */
void socket_donate_drop(nigh_client *client, const struct donated *donated);

#endif
