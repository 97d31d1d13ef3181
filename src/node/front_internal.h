/* SPDX-License-Identifier: Apache-2.0 */
/* What front.c (connections) and front_session.c (sessions) share. For no one else. */
#ifndef NODE_FRONT_INTERNAL_H
#define NODE_FRONT_INTERNAL_H

#include "node/front.h"

/* What a descriptor in lane 0's epoll is: the upper half of its data. The lower half is a number. A
 * number may have been used again since the event: handlers look for themselves. */
enum front_source {
    FRONT_LISTEN = 1,
    FRONT_ATTACH = 2,
    FRONT_HALF = 3,    /* of front.halves */
    FRONT_SESSION = 4, /* a slot */
    FRONT_PIDFD = 5,   /* a slot */
    FRONT_PEER = 6     /* a control connection to another node (node/peers.h) */
};

static inline uint64_t front_data(enum front_source source, uint32_t number)
{
    return (uint64_t)source << 32 | number;
}

/* Sends a WELCOME or BYE that carries nothing but a status and a sentence; a full queue loses it.
 */
void front_say(int fd, uint16_t kind, nigh_status status, const char *sentence);

/* A half-open connection may have sent its hello. */
void front_half_ready(struct front *front, uint32_t number);

/* Tells every lane of a session that opens or resumes; it is welcomed when all have answered. */
void front_tell_lanes(struct front *front, struct node_session *session);

/* Ends a session. With a status other than NIGH_OK its client is told the sentence. */
void front_close_session(struct front *front, struct node_session *session, nigh_status status,
                         const char *sentence);

/* Whether more than so much that the node sent lies unread: it gets no more descriptors. */
bool front_has_unread(const struct node_session *session, int most_bytes);

/* ---- front_pairs.c -------------------------------------------------------- */

/* A session asks for a pair, or lets go of one. */
void front_pair_asked(struct front *front, struct node_session *session,
                      const struct session_pair_ask *ask);
void front_pair_dropped(struct front *front, const struct node_session *session,
                        const struct session_pair_ask *drop);

/* A session closes, or its connection has: those that it has pairs with are told. */
void front_pairs_end(struct front *front, const struct node_session *session);

/* The node ends. */
void front_pairs_fini(struct front *front);

/* Events of session sockets and pidfds; mail of lanes. */
void front_session_ready(struct front *front, uint32_t slot, uint32_t events);
void front_session_died(struct front *front, uint32_t slot);
void front_mail(void *context, const struct mailbox_message *message);

#endif
