/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about the other nodes of the cluster: which there are, and which of them hold an
 * object.
 */
#include <stdlib.h>
#include <string.h>

#include "client/client_internal.h"
#include "client/error.h"
#include "client/op.h"

/* ---- nigh_nodes ----------------------------------------------------------- */

#define NODES_FIRST offsetof(nigh_node_info, leaving) /* the least that a caller knows of one */

/* Where the answer goes. */
struct nodes_out {
    uint8_t *nodes; /* as the caller has them: */
    size_t each;    /* of so many bytes */
    size_t capacity;
    size_t count;
};

/* What those are called that are called something. */
struct names_out {
    struct session_name names[LIMIT_NODES];
    size_t count;
};

static uint32_t nodes_lane(struct client_op *op, size_t step)
{
    (void)step;
    return op->u.one.lane;
}

static bool nodes_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    *sqe = op->u.one.sqe;
    return true;
}

static nigh_node_state nodes_state(uint32_t state)
{
    switch (state) {
    case NIGH_NODE_IS_UP: return NIGH_NODE_IS_UP;
    case NIGH_NODE_IS_LOST: return NIGH_NODE_IS_LOST;
    case NIGH_NODE_IS_DEAD: return NIGH_NODE_IS_DEAD;
    default: return NIGH_NODE_IS_AWAY;
    }
}

static nigh_node_life nodes_life(uint32_t life)
{
    life &= SESSION_NODE_LIFE;
    return life <= NIGH_NODE_HAS_LEFT ? (nigh_node_life)life : NIGH_NODE_LIVES;
}

static nigh_node_view nodes_view(uint32_t life)
{
    uint32_t view = (life & ~SESSION_NODE_LEAVES) >> SESSION_NODE_VIEW;

    return view <= NIGH_NODE_OUT_OF_VIEW ? (nigh_node_view)view : NIGH_NODE_NO_VIEW;
}

static bool nodes_done(struct client_op *op, size_t step, uint8_t opcode,
                       const struct session_cqe *cqe)
{
    const struct session_lane *shared = op->client->lane[op->u.one.lane].shared;
    struct nodes_out *out = op->u.one.out;

    (void)step;
    (void)opcode;
    if (cqe->status != NIGH_OK) {
        op_fail(op, (nigh_status)cqe->status);
        return false;
    }
    out->count = (size_t)min_u64(cqe->data_size, LIMIT_NODES);
    for (size_t i = 0; i < out->count && i < out->capacity; i++) {
        struct session_node record;
        nigh_node_info node;

        memcpy(&record, shared->reply + i * sizeof(record), sizeof(record));
        node = (nigh_node_info){.struct_size = out->each,
                                .rank = record.rank,
                                .state = nodes_state(record.state),
                                .incarnation = record.incarnation,
                                .is_self = record.is_self,
                                .refused = (nigh_status)record.refused,
                                .life = nodes_life(record.life),
                                .view = nodes_view(record.life),
                                .votes = record.votes != 0 ? 1 : 0,
                                .leaving = (record.life & SESSION_NODE_LEAVES) != 0 ? 1 : 0};
        memcpy(node.address, record.address, sizeof(record.address)); /* its end is here */
        client_copy_out(out->nodes + i * out->each, out->each, &node, sizeof(node));
    }
    return false;
}

static const struct op_kind nodes_kind = {
    .lane = nodes_lane,
    .build = nodes_build,
    .done = nodes_done,
};

static bool names_done(struct client_op *op, size_t step, uint8_t opcode,
                       const struct session_cqe *cqe)
{
    const struct session_lane *shared = op->client->lane[op->u.one.lane].shared;
    struct names_out *out = op->u.one.out;

    (void)step;
    (void)opcode;
    if (cqe->status != NIGH_OK) {
        op_fail(op, (nigh_status)cqe->status);
        return false;
    }
    out->count = (size_t)min_u64(cqe->data_size, LIMIT_NODES);
    memcpy(out->names, shared->reply, out->count * sizeof(out->names[0]));
    for (size_t i = 0; i < out->count; i++) {
        out->names[i].name[sizeof(out->names[i].name) - 1] = '\0';
    }
    return false;
}

static const struct op_kind names_kind = {
    .lane = nodes_lane,
    .build = nodes_build,
    .done = names_done,
};

/* Asks lane 0 for one of the two. */
static nigh_status ask_nodes(nigh_client *client, uint8_t flags, const struct op_kind *kind,
                             void *out)
{
    struct session_sqe sqe = {.op = SESSION_OP_NODES, .flags = flags};
    struct client_op op;
    nigh_status status;

    op_init_one(&op, client, 0, &sqe, NULL);
    op.kind = kind;
    op.u.one.out = out;
    (void)pthread_mutex_lock(&client->reply_lock);
    status = op_run(&op);
    (void)pthread_mutex_unlock(&client->reply_lock);
    return status;
}

/* A node that does not know of names has none. */
static nigh_status add_names(nigh_client *client, struct nodes_out *out)
{
    struct names_out *names = malloc(sizeof(*names));
    nigh_status status;

    if (names == NULL) {
        return NIGH_NO_RESOURCES;
    }
    status = ask_nodes(client, SESSION_FLAG_NAMES, &names_kind, names);
    for (size_t n = 0; status == NIGH_OK && n < names->count; n++) {
        const struct session_name *name = &names->names[n];

        for (size_t i = 0; i < out->count && i < out->capacity; i++) {
            nigh_node_info *node = (nigh_node_info *)(void *)(out->nodes + i * out->each);

            if (node->rank == name->rank) {
                memcpy(node->name, name->name, sizeof(node->name));
                node->name_refused = name->refused == NIGH_EXISTS ? NIGH_EXISTS : NIGH_OK;
            }
        }
    }
    free(names);
    return status == NIGH_INVALID ? NIGH_OK : status;
}

nigh_status nigh_nodes(nigh_client *client, nigh_node_info *nodes, size_t capacity, size_t *count)
{
    struct nodes_out out = {.nodes = (uint8_t *)nodes, .capacity = capacity};
    nigh_status status = client_check(client);

    _Static_assert(sizeof(((nigh_node_info *)0)->address) ==
                       sizeof(((struct session_node *)0)->address) + 1,
                   "an address is copied whole, and its end is here");
    _Static_assert(sizeof(((nigh_node_info *)0)->name) == sizeof(((struct session_name *)0)->name),
                   "a name is copied whole");
    if (status != NIGH_OK) {
        return status;
    }
    if (count == NULL || (nodes == NULL && capacity != 0)) {
        return error_set(client, NIGH_INVALID, "nigh_nodes: no count, or no room for nodes");
    }
    out.each = capacity > 0 ? nodes->struct_size : 0;
    if (capacity > 0 && (out.each % _Alignof(nigh_node_info) != 0 ||
                         !client_knows_size(out.each, NODES_FIRST, sizeof(*nodes)))) {
        return error_set(client, NIGH_INVALID,
                         "nigh_nodes: nodes[0].struct_size is not set: set it to "
                         "sizeof(nigh_node_info)");
    }
    status = ask_nodes(client, 0, &nodes_kind, &out);
    if (status == NIGH_OK && capacity > 0) {
        status = add_names(client, &out);
    }
    if (status == NIGH_OK) {
        *count = out.count;
    }
    return error_note(client, status);
}

nigh_status nigh_rank_of_name(nigh_client *client, const char *name, uint32_t *rank)
{
    nigh_status status = client_check(client);
    struct names_out *names;

    if (status != NIGH_OK) {
        return status;
    }
    if (name == NULL || rank == NULL) {
        return error_set(client, NIGH_INVALID, "nigh_rank_of_name: no name, or no room for a rank");
    }
    names = malloc(sizeof(*names));
    if (names == NULL) {
        return error_note(client, NIGH_NO_RESOURCES);
    }
    status = ask_nodes(client, SESSION_FLAG_NAMES, &names_kind, names);
    status = status == NIGH_INVALID ? NIGH_UNSUPPORTED : status;
    if (status == NIGH_OK) {
        status = NIGH_NOT_FOUND;
        for (size_t n = 0; n < names->count; n++) {
            if (name[0] != '\0' && strcmp(names->names[n].name, name) == 0) {
                *rank = names->names[n].rank;
                status = NIGH_OK;
                break;
            }
        }
    }
    free(names);
    return error_note(client, status);
}

/* ---- nigh_links ----------------------------------------------------------- */

/* Where the lanes' answers go, one behind the other. */
struct links_out {
    nigh_link_info *links;
    size_t capacity;
    size_t count;
};

static void links_take_calls(const uint8_t *reply, uint64_t number, nigh_link_info *link)
{
    struct session_link_calls calls;

    memcpy(&calls, reply + number * sizeof(calls), sizeof(calls));
    link->calls =
        calls.way <= NIGH_LINK_CALLS_WRITTEN ? (nigh_link_calls)calls.way : NIGH_LINK_CALLS_UNKNOWN;
    link->calls_sent_us = calls.sent_us;
    link->calls_written_us = calls.written_us;
}

static bool links_done(struct client_op *op, size_t step, uint8_t opcode,
                       const struct session_cqe *cqe)
{
    const struct session_lane *shared = op->client->lane[op->u.one.lane].shared;
    struct links_out *out = op->u.one.out;
    uint64_t count = min_u64(cqe->data_size, SESSION_LINKS);

    (void)step;
    (void)opcode;
    if (cqe->status != NIGH_OK) {
        op_fail(op, (nigh_status)cqe->status);
        return false;
    }
    for (uint64_t i = 0; i < count; i++, out->count++) {
        struct session_link record;

        memcpy(&record, shared->reply + i * sizeof(record), sizeof(record));
        if (out->count < out->capacity) {
            out->links[out->count] = (nigh_link_info){.rank = record.rank,
                                                      .rail = record.rail,
                                                      .crossover_bytes = record.crossover_bytes,
                                                      .measured = record.measured,
                                                      .to_measure = record.to_measure};
            if (cqe->meta_size == sizeof(struct session_link_calls)) {
                links_take_calls(shared->reply + count * sizeof(record), i,
                                 &out->links[out->count]);
            }
        }
    }
    return false;
}

static const struct op_kind links_kind = {
    .lane = nodes_lane,
    .build = nodes_build,
    .done = links_done,
};

nigh_status nigh_links(nigh_client *client, nigh_link_info *links, size_t capacity, size_t *count)
{
    struct session_sqe sqe = {.op = SESSION_OP_LINKS};
    struct links_out out = {.links = links, .capacity = capacity};
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return status;
    }
    if (count == NULL || (links == NULL && capacity != 0)) {
        return error_set(client, NIGH_INVALID, "nigh_links: no count, or no room for links");
    }
    (void)pthread_mutex_lock(&client->reply_lock);
    for (uint32_t lane = 0; lane < client->lanes && status == NIGH_OK; lane++) {
        struct client_op op;

        op_init_one(&op, client, lane, &sqe, NULL);
        op.kind = &links_kind;
        op.u.one.out = &out;
        status = op_run(&op);
    }
    (void)pthread_mutex_unlock(&client->reply_lock);
    if (status == NIGH_OK) {
        *count = out.count;
    }
    return error_note(client, status);
}

nigh_status nigh_measure(nigh_client *client, uint32_t rank)
{
    struct session_sqe sqe = {.op = SESSION_OP_LINKS,
                              .flags = SESSION_FLAG_MEASURE,
                              .argument = rank == NIGH_ALL_RANKS ? SESSION_ALL_RANKS : rank};
    nigh_status status = client_check(client);

    for (uint32_t lane = 0; status == NIGH_OK && lane < client->lanes; lane++) {
        struct client_op op;

        op_init_one(&op, client, lane, &sqe, NULL);
        status = op_run(&op);
    }
    switch (status) {
    case NIGH_DENIED:
        return error_set(client, status, "nigh_measure: this client was opened read-only");
    case NIGH_UNSUPPORTED:
        return error_set(client, status,
                         "this node does not measure: it was told how objects travel (nighd "
                         "--transfer), or is an older one");
    default: return error_note(client, status);
    }
}

/* ---- nigh_where ----------------------------------------------------------- */

/* The ranks of an answer, lowest first; returns how many. */
static uint32_t where_ranks(const struct session_cqe *cqe, uint32_t ranks[SESSION_PLACES])
{
    uint32_t count = (uint32_t)min_u64(cqe->data_size, SESSION_PLACES);

    for (uint32_t n = 0; n < count; n++) {
        uint32_t rank = session_place(cqe, n), at = n;

        for (; at > 0 && ranks[at - 1] > rank; at--) {
            ranks[at] = ranks[at - 1];
        }
        ranks[at] = rank;
    }
    return count;
}

nigh_status nigh_where(nigh_client *client, const nigh_id *id, uint32_t *ranks, size_t capacity,
                       size_t *count)
{
    uint32_t all[SESSION_PLACES], found;
    struct session_cqe cqe;
    struct client_op op;
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return status;
    }
    if (id == NULL || count == NULL || (ranks == NULL && capacity != 0)) {
        return error_set(client, NIGH_INVALID, "nigh_where: no id, no count, or no room for ranks");
    }
    op_init_id(&op, client, SESSION_OP_WHERE, id, &cqe);
    status = op_run(&op);
    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    found = where_ranks(&cqe, all);
    for (uint32_t n = 0; n < found && n < capacity; n++) {
        ranks[n] = all[n];
    }
    *count = found;
    return NIGH_OK;
}
