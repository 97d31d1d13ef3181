/* SPDX-License-Identifier: Apache-2.0 */
/* What lies beside the entries of a session's rings (session.h): records that answers have in the
 * reply area, and what stands in an id, or in front of a request. */
#ifndef MEMORY_SESSION_RECORD_H
#define MEMORY_SESSION_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

/* LEAVE: what a lane says; pairs are objects and bytes. */
#define SESSION_LEAVE_WHYS 6u

struct session_leaving {
    uint32_t leaves;
    uint32_t looks;
    uint64_t waiting[2];
    uint64_t safe[2];
    uint64_t stuck[2];
    uint64_t alone[2];
    uint64_t why[SESSION_LEAVE_WHYS]; /* by NIGH_LEAVE_* of nigh_leave_why */
    uint64_t unsealed;
};

_Static_assert(sizeof(struct session_leaving) == 128, "an answer is shared");

/* What the id of a RECEIVE is made of. */
struct session_receive_id {
    uint64_t hash;    /* of the service's name */
    uint64_t request; /* with SESSION_FLAG_ANSWER: whose answer it is, and its status */
    int32_t status;
    uint32_t unsaid; /* not sent */
};

_Static_assert(offsetof(struct session_receive_id, unsaid) == LIMIT_ID_BYTES, "it fits an id");

/* Memory that a call brings: of its session's, which the node knows by number. */
struct session_bulk {
    uint64_t number;
    uint64_t offset;
    uint64_t bytes;
    uint32_t access; /* SESSION_MEMORY_* */
    uint32_t reserved;
};

#define SESSION_MEMORY_READ  1u
#define SESSION_MEMORY_WRITE 2u

/* What a request says of it, in front of its bytes. */
struct session_bulk_info {
    uint64_t bytes;
    uint32_t access;
    uint32_t reserved;
};

_Static_assert(sizeof(struct session_bulk) == 32 && sizeof(struct session_bulk_info) == 16,
               "they lie beside requests");

/* One record of WHO and HOLDERS. */
struct session_holder {
    uint64_t session;
    int32_t pid;
    uint32_t uid;
    uint64_t views;
    uint64_t size_bytes;
    char name[LIMIT_CLIENT_NAME_BYTES + 1];
};

_Static_assert(sizeof(struct session_holder) == 64, "a holder record is shared");

/* One record of NODES. */
struct session_node {
    uint32_t rank;
    uint8_t state;   /* nigh_node_state */
    uint8_t life;    /* nigh_node_life; above it nigh_node_view; SESSION_NODE_LEAVES. Came later, of
                        state; the last of them later still: an older client knows no view then */
    int16_t refused; /* nigh_status. Came later: an older node says 0 here */
    uint32_t incarnation;
    uint32_t is_self;
    char address[79];
    uint8_t votes; /* 1: on views. Came later: of older nodes it is the end of the address, 0 */
};

#define SESSION_NODE_LIFE   0x0fu /* bits of `life` that are the life */
#define SESSION_NODE_VIEW   4     /* bits of `life` below the view */
#define SESSION_NODE_LEAVES 0x80u /* of `life`: it leaves */

_Static_assert(sizeof(struct session_node) == 96, "a node's record is shared");
_Static_assert(sizeof(struct session_node) * LIMIT_NODES <= LIMIT_REPLY_BYTES,
               "the reply area holds all nodes");

/* One record of NODES with SESSION_FLAG_NAMES. */
struct session_name {
    uint32_t rank;
    int32_t refused; /* nigh_status: NIGH_EXISTS: the name that it wants is another's; no name */
    char name[32];
};

_Static_assert(sizeof(struct session_name) == 40, "a node's name is shared");

/* One record of LINKS. */
struct session_link {
    uint32_t rank;
    uint32_t rail;
    uint64_t crossover_bytes; /* as nigh_link_info has it */
    uint32_t measured;
    uint32_t to_measure;
};

_Static_assert(sizeof(struct session_link) == 24, "a link's record is shared");

#define SESSION_ALL_RANKS UINT64_MAX
/* Of the same link as the record of that number: they stand behind the last of those where the
 * answer's meta_size is the size of one. An older node's is 0. */
struct session_link_calls {
    uint32_t way; /* as nigh_link_info has it */
    uint32_t sent_us;
    uint32_t written_us;
    uint32_t zero;
};

_Static_assert(sizeof(struct session_link_calls) == 16, "a link's record is shared");

#define SESSION_LINKS    \
    (LIMIT_REPLY_BYTES / \
     (uint32_t)(sizeof(struct session_link) + sizeof(struct session_link_calls))) /* most told */

/* Behind the hash in the id of a CALL of any server: the nodes that are asked first, best first. A
 * rank is a byte. An older node does not look. */
struct session_near {
    uint64_t hash; /* of the service's name */
    uint8_t count;
    uint8_t ranks[11];
    uint32_t unsaid; /* not sent */
};

#define SESSION_NEAR 11u

/* In front of the request of a COLLECT. */
struct session_collect {
    uint64_t version;                 /* of the group that `ranks` are of; 0: the present one */
    uint64_t ranks[LIMIT_NODES / 64]; /* a bit each */
    uint8_t all;                      /* 1: of the group; `ranks` are none */
    uint8_t fan;
    uint8_t reduce; /* NIGH_REDUCE_* */
    uint8_t reserved[5];
};

/* And what is answered, in front of the value: as the nodes tell each other. */
struct session_collected {
    uint32_t answered, failed, unknown, unasked;
    uint32_t value_bytes;
    uint32_t errors;
    struct {
        uint32_t rank;
        int32_t status;
        uint32_t count;
        uint32_t taken;
    } first[LIMIT_COLLECT_ERRORS];
};

_Static_assert(sizeof(struct session_collect) == 48 && sizeof(struct session_collected) == 152,
               "they lie beside requests");

_Static_assert(offsetof(struct session_near, unsaid) == LIMIT_ID_BYTES, "it fits an id");

#endif
