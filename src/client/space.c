/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces: handles of them. Each question is one submission to lane 0, whose bytes lie in a place,
 * as those of regions do; the space's memory at this node is asked for over the socket, and mapped
 * once for all handles of it.
 */
#include "client/space.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "client/error.h"
#include "client/places.h"
#include "client/ring.h"
#include "client/socket.h"
#include "memory/memfd.h"

#define SPACE_DRAIN_LOOK_MS 1
#define SPACE_GONE_LOOK_MS  1

_Static_assert(NIGH_SPACE_NAME_BYTES == LIMIT_SPACE_NAME_BYTES &&
                   NIGH_SPACE_READ == SESSION_SPACE_READ &&
                   NIGH_SPACE_WRITE == SESSION_SPACE_WRITE &&
                   (uint32_t)NIGH_SPACE_DURABLE_NONE == SESSION_SPACE_DURABLE_NONE &&
                   (uint32_t)NIGH_SPACE_DURABLE_ASYNC == SESSION_SPACE_DURABLE_ASYNC &&
                   (uint32_t)NIGH_SPACE_DURABLE_SYNC == SESSION_SPACE_DURABLE_SYNC,
               "they are public");
_Static_assert(LIMIT_SPACE_BLOCKS == (UINT64_C(1) << 30) - 1 &&
                   LIMIT_SPACE_BLOCKS * LIMIT_SPACE_BLOCK_BYTES <= LIMIT_SPACE_HOME_BYTES,
               "check_sizes says so");

/* ---- the steps ------------------------------------------------------------ */

static uint32_t connection_of(const nigh_client *client)
{
    return atomic_load_explicit(&client->connections, memory_order_relaxed);
}

/* All but the bytes. */
static void space_say(const struct client_op *op, struct session_sqe *sqe)
{
    struct session_space_id id = {.number = op->u.space.number, .argument = op->u.space.argument};

    sqe->op = SESSION_OP_SPACE;
    sqe->name_size = (uint16_t)op->u.space.what;
    memcpy(sqe->id, &id, LIMIT_ID_BYTES);
    sqe->argument = op_remaining_us(op);
}

static void space_fill(struct client_op *op, struct session_sqe *sqe)
{
    place_write(op, place_take(op, sqe));
    space_say(op, sqe);
}

static bool space_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    return place_build(op, sqe, space_fill);
}

/* What has no bytes. A number is of one connection; what ends something is said even when it is
 * overdue. */
static bool bare_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    if (op->u.space.number != 0 && op->u.space.connection != connection_of(op->client)) {
        op_fail(op, NIGH_CLOSED);
        return false;
    }
    space_say(op, sqe);
    sqe->offset = UINT64_MAX; /* it has no place: none is given back for it */
    return true;
}

static bool space_done(struct client_op *op, size_t step, uint8_t opcode,
                       const struct session_cqe *cqe)
{
    if (opcode == SESSION_OP_CALL_LEASE) {
        return place_goes_on(op, step, cqe, space_fill);
    }
    if (cqe->status != NIGH_OK) {
        op_fail(op, (nigh_status)cqe->status);
        return false;
    }
    /* It is of the connection that gave it: the op may have been what came back to the node. */
    op->u.space.connection = connection_of(op->client);
    op->u.space.number = cqe->generation;
    if (op->u.space.answer == NULL) {
        return false;
    }
    if (cqe->data_size != op->u.space.answer_bytes) {
        op_fail(op, NIGH_PROTOCOL);
        return false;
    }
    memcpy(op->u.space.answer, place_bytes(op), op->u.space.answer_bytes);
    return false;
}

/* ---- how it ended --------------------------------------------------------- */

static const char *own_sentence(uint32_t what, nigh_status status)
{
    switch (status) {
    case NIGH_EXISTS: return "there is a space of this name already";
    case NIGH_NOT_FOUND: return "there is no space of this name";
    case NIGH_DENIED:
        return what == SESSION_SPACE_DELETE
                   ? "a space is deleted by its owner, or root"
                   : "the rights for that were not given to the client's user";
    case NIGH_OUT_OF_MEMORY:
        return "a node that would take part has not so much left of its --space-memory, or of its "
               "machine's memory";
    case NIGH_LIMIT:
        return what == SESSION_SPACE_WINDOW
                   ? "as many threads of clients of this node use spaces as may"
                   : "there are as many spaces as there may be, or this client has as many open as "
                     "it may, of which some were deleted: close those";
    case NIGH_UNSUPPORTED:
        return "the node serves no spaces: it was started without --space-memory, or is of a "
               "cluster without --state, or older than they are";
    case NIGH_DISK:
        return "a node that would take part cannot write its log (nighd --log-dir): its disk is "
               "full, or fails";
    case NIGH_CORRUPT:
        return "this node's log of the space is damaged, or an old one, and it takes no part: see "
               "nighd's log, which says what to do, and the space's directory below --log-dir";
    case NIGH_VERSION:
        return "this node's log of the space, below --log-dir, is of another version of nighd, and "
               "it takes no part: see nighd's log, and start the version that wrote it";
    case NIGH_INVALID: return "the node is older than this libnigh, and does not know the question";
    case NIGH_PEER_LOST: return "a node that serves spaces cannot be reached (nigh nodes)";
    case NIGH_BUSY:
        if (what == SESSION_SPACE_DELETE) {
            return "it is being created, or deleted already, or the members of the cluster have "
                   "just changed: look whether it is there, and try again";
        }
        return "the members of the cluster have just changed: look whether it has happened, and "
               "try again";
    default: return NULL;
    }
}

static nigh_status space_explain(const struct client_op *op, nigh_status status)
{
    const char *own = own_sentence(op->u.space.what, status);

    if (place_explain(op, status)) {
        return status;
    }
    return own != NULL ? error_set(op->client, status, "%s", own) : op_note(op, status);
}

static const struct op_kind space_kind = {
    .lane = place_lane,
    .build = space_build,
    .done = space_done,
    .has_room = place_has_room,
    .tell = space_explain,
    .waits = true,
};

/* CLOSE, WINDOW and WINDOW_END. */
static const struct op_kind bare_kind = {
    .lane = place_lane,
    .build = bare_build,
    .done = space_done,
    .tell = space_explain,
    .waits = true,
};

void space_init(struct client_op *op, nigh_client *client, enum session_space_what what,
                uint64_t timeout_us)
{
    bool is_bare = what == SESSION_SPACE_CLOSE || what == SESSION_SPACE_WINDOW ||
                   what == SESSION_SPACE_WINDOW_END;

    op_init(op, client, is_bare ? &bare_kind : &space_kind, 1, op_deadline_us(timeout_us));
    op->u.place.lane = 0;
    op->u.place.count = 0;
    op->u.place.bytes = NULL;
    memset(&op->u.space, 0, sizeof(op->u.space));
    op->u.space.what = what;
}

nigh_status space_run(struct client_op *op)
{
    nigh_status status = op_run(op);

    return status == NIGH_OK ? status : space_explain(op, status);
}

void spaces_undo(nigh_client *client, uint32_t lane, const struct session_cqe *cqe)
{
    struct session_space_id id = {.number = cqe->generation};
    struct session_sqe sqe = {.op = SESSION_OP_SPACE, .offset = UINT64_MAX};

    if ((cqe->flags & SESSION_CQE_OPENED) != 0) {
        sqe.name_size = SESSION_SPACE_CLOSE;
    } else if ((cqe->flags & SESSION_CQE_MAPPED) != 0) {
        sqe.name_size = SESSION_SPACE_WINDOW_END;
    } else {
        return;
    }
    memcpy(sqe.id, &id, LIMIT_ID_BYTES);
    ring_submit(client, lane, NULL, 0, false, &sqe);
}

/* ---- what is looked at here ----------------------------------------------- */

uint32_t space_name_bytes(const char *name)
{
    size_t length = name == NULL ? 0 : strnlen(name, LIMIT_SPACE_NAME_BYTES + 1);

    return length > LIMIT_SPACE_NAME_BYTES ? 0 : (uint32_t)length;
}

static nigh_status check_asks(nigh_client *client, bool may, const char *call)
{
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    if (!may) {
        return error_set(client, NIGH_DENIED,
                         "%s: this client was opened read-only, and what is asked lies in memory "
                         "that it writes",
                         call);
    }
    return NIGH_OK;
}

nigh_status space_check_looks(nigh_client *client, const char *call)
{
    return check_asks(client, calls_may_look(client), call);
}

nigh_status space_check_name(nigh_client *client, const char *name, const void *out, bool looks,
                             const char *call)
{
    nigh_status status =
        check_asks(client, looks ? calls_may_look(client) : client->may_write, call);

    if (status != NIGH_OK) {
        return status;
    }
    if (space_name_bytes(name) == 0) {
        return error_set(client, NIGH_INVALID, "%s: a space has a name of 1 to %d bytes%s", call,
                         LIMIT_SPACE_NAME_BYTES, name == NULL ? ", not NULL" : "");
    }
    return out == NULL
               ? error_set(client, NIGH_INVALID, "%s: there is no place for the answer", call)
               : NIGH_OK;
}

nigh_status space_check_slow(const nigh_space *space, const char *call)
{
    nigh_client *client = space->client;
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    if (space->connection != connection_of(client)) {
        return error_set(client, NIGH_CLOSED,
                         "%s: the handle went with a connection to the node: open the space anew",
                         call);
    }
    /* Its memory may be kept, and the session: not what it had of the space. */
    if (!client_life_is_same(client) ||
        atomic_load_explicit(&client->state, memory_order_acquire) != CLIENT_ATTACHED) {
        return error_set(client, NIGH_NODE_LOST,
                         "%s: the node died or stopped, and with it what it had of the space",
                         call);
    }
    return NIGH_OK;
}

/* ---- memory --------------------------------------------------------------- */

/* One of a space's files, which this client reads. NIGH_NOT_FOUND: the node has let go of it since
 * it said the number, be it before it gave the file or behind. Locked. */
static nigh_status map_file(nigh_client *client, uint64_t number, enum space_view_kind kind,
                            void **memory, uint64_t *bytes, struct space_view *view)
{
    int fd = -1;
    nigh_status status = socket_ask_space(client, number, &fd);

    if (status == NIGH_OK) {
        status = memfd_size(fd, bytes);
    }
    if (status == NIGH_OK) {
        status = memfd_map(fd, *bytes, 0, memory);
    }
    fd_close(&fd);
    return status == NIGH_OK ? space_view_open(*memory, *bytes, kind, view) : status;
}

static void unmap(struct space_memory *memory)
{
    if (memory->cache != NULL) {
        memfd_unmap(memory->cache, memory->cache_bytes);
    }
    if (memory->home != NULL) {
        memfd_unmap(memory->home, memory->home_bytes);
    }
    free(memory);
}

/* Locked. */
static nigh_status map_both(nigh_client *client, const struct session_space_opened *opened,
                            struct space_memory *memory)
{
    struct space_mapped *mapped = &memory->mapped;
    nigh_status status = map_file(client, opened->cache_file, SPACE_VIEW_CACHE, &memory->cache,
                                  &memory->cache_bytes, &mapped->cache);

    if (status == NIGH_OK && opened->home_file != 0) {
        status = map_file(client, opened->home_file, SPACE_VIEW_HOME, &memory->home,
                          &memory->home_bytes, &mapped->home);
    }
    if (status == NIGH_OK && (mapped->cache.mask + 1 != opened->stat.block_bytes ||
                              (memory->home != NULL && mapped->home.mask != mapped->cache.mask))) {
        status = NIGH_PROTOCOL;
    }
    /* Another thread may have found the next node meanwhile, whose numbers are of other files. */
    return status == NIGH_OK && memory->connection != connection_of(client) ? NIGH_CLOSED : status;
}

/* What there is of it already, or new. Locked. */
static nigh_status find_memory(const struct client_op *op,
                               const struct session_space_opened *opened, struct space_memory **out)
{
    nigh_client *client = op->client;
    struct space_memory *memory;
    nigh_status status;

    LIST_FOREACH(node, &client->space_memories)
    {
        memory = container_of(node, struct space_memory, place);
        if (memory->connection == op->u.space.connection &&
            memory->mapped.number == op->u.space.number) {
            memory->handles++;
            *out = memory;
            return NIGH_OK;
        }
    }
    memory = calloc(1, sizeof(*memory));
    if (memory == NULL) {
        return NIGH_NO_RESOURCES;
    }
    memory->handles = 1;
    memory->connection = op->u.space.connection;
    memory->mapped.number = (uint32_t)op->u.space.number;
    status = map_both(client, opened, memory);
    if (status != NIGH_OK) {
        unmap(memory);
        return status;
    }
    list_push_back(&client->space_memories, &memory->place);
    *out = memory;
    return NIGH_OK;
}

/* The last handle's end: NULL, or what is to be unmapped. Locked. */
static struct space_memory *let_go_memory(struct space_memory *memory)
{
    if (--memory->handles > 0) {
        return NULL;
    }
    list_remove(&memory->place);
    return memory;
}

/* ---- open, close ---------------------------------------------------------- */

/* The node counts how often it was opened. */
static void tell_closed(nigh_client *client, uint64_t number, uint32_t connection)
{
    struct client_op op;

    space_init(&op, client, SESSION_SPACE_CLOSE, LIMIT_NODE_GRACE_US);
    op.u.space.number = number;
    op.u.space.connection = connection;
    (void)op_run(&op);
}

static nigh_status take_opened(const struct client_op *op,
                               const struct session_space_opened *opened, uint32_t access,
                               nigh_space **out)
{
    nigh_client *client = op->client;
    nigh_space *space = calloc(1, sizeof(*space));
    nigh_status status = space == NULL ? NIGH_NO_RESOURCES : NIGH_OK;

    if (op->u.space.number == 0 || op->u.space.number > UINT32_MAX) {
        status = NIGH_PROTOCOL;
    }
    client_lock(client);
    if (status == NIGH_OK) {
        status = windows_create(client);
    }
    if (status == NIGH_OK) {
        status = find_memory(op, opened, &space->memory);
    }
    if (status == NIGH_OK) {
        space->client = client;
        space->connection = op->u.space.connection;
        space->access = access;
        space->is_durable = opened->stat.durability != NIGH_SPACE_DURABLE_NONE;
        space->mapped = space->memory->mapped;
        list_push_back(&client->spaces, &space->place);
        *out = space;
    }
    client_unlock(client);
    if (status != NIGH_OK) {
        free(space);
        tell_closed(client, op->u.space.number, op->u.space.connection);
    }
    return status;
}

/* Of that birth, or of any (0). Where its memory has gone since the node's answer it is being
 * deleted, or made anew: the node knows which, and is asked again. */
static nigh_status open_named(nigh_client *client, const char *name, uint64_t birth,
                              uint32_t access, uint64_t timeout_us, nigh_space **out)
{
    for (;;) {
        struct session_space_opened opened;
        struct client_op op;
        nigh_status status;

        space_init(&op, client, SESSION_SPACE_OPEN, timeout_us);
        op.u.place.bytes = name;
        op.u.place.count = space_name_bytes(name);
        op.u.space.number = birth;
        op.u.space.argument = access;
        op.u.space.answer = &opened;
        op.u.space.answer_bytes = sizeof(opened);
        status = space_run(&op);
        if (status != NIGH_OK) {
            return status;
        }
        status = take_opened(&op, &opened, access, out);
        if (status != NIGH_NOT_FOUND) {
            return status == NIGH_OK ? status : error_note(client, status);
        }
        timeout_us = op_remaining_us(&op);
        if (timeout_us == 0) {
            return error_note(client, NIGH_TIMEOUT);
        }
        (void)poll(NULL, 0, SPACE_GONE_LOOK_MS);
    }
}

/* What may be durable: whose node serves no spaces at all has no other answer to anything. */
static nigh_status explain_unsupported(nigh_client *client, const char *name)
{
    nigh_space_info info = {.struct_size = sizeof(info)};

    if (nigh_space_stat(client, name, LIMIT_NODE_GRACE_US, &info) == NIGH_UNSUPPORTED) {
        return NIGH_UNSUPPORTED;
    }
    return error_set(client, NIGH_UNSUPPORTED,
                     "a node that would take part keeps no logs of durable spaces: it was started "
                     "without --log-dir");
}

nigh_status nigh_space_open(nigh_client *client, const char *name, uint32_t access,
                            uint64_t timeout_us, nigh_space **space)
{
    nigh_status status = space_check_name(client, name, space, false, "nigh_space_open");

    if (status != NIGH_OK) {
        return status;
    }
    if (access == 0 || (access & ~NIGH_SPACE_ALL) != 0) {
        return error_set(client, NIGH_INVALID, "nigh_space_open: there are no such rights");
    }
    status = open_named(client, name, 0, access, timeout_us, space);
    return status == NIGH_UNSUPPORTED ? explain_unsupported(client, name) : status;
}

/* Bytes of own writes are of the number: what is carried out behind its end fails. */
static void drain(nigh_space *space)
{
    nigh_client *client = space->client;
    uint64_t until_us = clock_deadline_us(clock_now_us(&clock_monotonic), LIMIT_NODE_GRACE_US);
    bool is_pending = true;

    while (is_pending && space_is_good(space)) {
        client_lock(client);
        is_pending = windows_are_pending(client);
        client_unlock(client);
        if (is_pending && clock_now_us(&clock_monotonic) >= until_us) {
            return;
        }
        if (is_pending) {
            (void)poll(NULL, 0, SPACE_DRAIN_LOOK_MS);
        }
    }
}

void nigh_space_close(nigh_space *space)
{
    nigh_client *client;
    struct space_memory *last;

    if (space == NULL || client_look(space->client) == NIGH_FORKED) {
        return;
    }
    client = space->client;
    drain(space);
    client_lock(client);
    list_remove(&space->place);
    last = let_go_memory(space->memory);
    client_unlock(client);
    if (last != NULL) {
        unmap(last);
    }
    if (client_check(client) == NIGH_OK) {
        tell_closed(client, space->mapped.number, space->connection);
    }
    free(space);
}

void spaces_end(nigh_client *client)
{
    bool is_child = atomic_load_explicit(&client->guard->word, memory_order_relaxed) == GUARD_CHILD;
    struct list_node *node;

    while ((node = list_pop_front(&client->spaces)) != NULL) {
        free(container_of(node, nigh_space, place));
    }
    while ((node = list_pop_front(&client->space_memories)) != NULL) {
        struct space_memory *memory = container_of(node, struct space_memory, place);

        /* A child has none of it, and something else perhaps where it was. */
        if (is_child) {
            free(memory);
        } else {
            unmap(memory);
        }
    }
    windows_end(client, is_child);
}

uint32_t nigh_space_block_size(const nigh_space *space)
{
    return space == NULL ? 0 : (uint32_t)space->mapped.cache.mask + 1;
}

/* ---- create, delete ------------------------------------------------------- */

/* What a newer program asks for is not passed over. */
static nigh_status check_spec(nigh_client *client, const nigh_space_spec *spec)
{
    const char *call = "nigh_space_create";
    const uint8_t *bytes = (const uint8_t *)spec;

    if (!client_knows_size(spec->struct_size, sizeof(*spec), sizeof(*spec))) {
        return error_set(client, NIGH_INVALID, "%s: set struct_size to sizeof(nigh_space_spec)",
                         call);
    }
    for (size_t n = sizeof(*spec); n < spec->struct_size; n++) {
        if (bytes[n] != 0) {
            return error_set(client, NIGH_INVALID,
                             "%s: the program asks for something that this libnigh does not know: "
                             "install a newer libnigh",
                             call);
        }
    }
    if (((spec->group_access | spec->other_access) & ~NIGH_SPACE_ALL) != 0) {
        return error_set(client, NIGH_INVALID, "%s: there are no such rights", call);
    }
    if (spec->group_access == NIGH_SPACE_WRITE || spec->other_access == NIGH_SPACE_WRITE) {
        return error_set(client, NIGH_INVALID, "%s: who may write may read, too", call);
    }
    if (spec->flags != 0 || spec->durability > NIGH_SPACE_DURABLE_SYNC) {
        return error_set(client, NIGH_INVALID, "%s: there are no such flags, or durability", call);
    }
    return NIGH_OK;
}

static nigh_status check_sizes(nigh_client *client, const nigh_space_spec *spec)
{
    const char *call = "nigh_space_create";
    uint64_t block_bytes = spec->block_size != 0 ? spec->block_size : LIMIT_SPACE_BLOCK_DEFAULT;

    if (block_bytes < LIMIT_SPACE_BLOCK_MIN || block_bytes > LIMIT_SPACE_BLOCK_BYTES ||
        !is_pow2(block_bytes)) {
        return error_set(client, NIGH_INVALID,
                         "%s: a block has a power of two of bytes, from %d to %d, not %u", call,
                         LIMIT_SPACE_BLOCK_MIN, LIMIT_SPACE_BLOCK_BYTES, spec->block_size);
    }
    if (spec->home_size % block_bytes != 0 || spec->home_size < 2 * block_bytes ||
        spec->home_size / block_bytes > LIMIT_SPACE_BLOCKS) {
        /* Fewer than 2^30 blocks: so many GiB as a block has bytes. */
        return error_set(client, NIGH_INVALID,
                         "%s: home_size is whole blocks of %llu bytes, two at least, and less than "
                         "%llu GiB in all%s; not %llu",
                         call, (unsigned long long)block_bytes, (unsigned long long)block_bytes,
                         block_bytes < LIMIT_SPACE_BLOCK_BYTES
                             ? " (of larger blocks, --block or block_size, it may be more)"
                             : "",
                         (unsigned long long)spec->home_size);
    }
    if (spec->cache_size > LIMIT_SPACE_SETS * SPACE_WAYS * block_bytes) {
        return error_set(client, NIGH_INVALID,
                         "%s: a cache has %llu blocks at most: %llu bytes are too many", call,
                         (unsigned long long)LIMIT_SPACE_SETS * SPACE_WAYS,
                         (unsigned long long)spec->cache_size);
    }
    return NIGH_OK;
}

/* By then there may be another of its name, which is somebody else's: an older node does not say
 * which one it has made. */
static nigh_status open_made(const struct client_op *made, const char *name, nigh_space **space)
{
    nigh_status status = open_named(made->client, name, made->u.space.number, NIGH_SPACE_ALL,
                                    op_remaining_us(made), space);

    return status == NIGH_NOT_FOUND
               ? error_set(made->client, status, "the space was created, and deleted meanwhile")
               : status;
}

nigh_status nigh_space_create(nigh_client *client, const nigh_space_spec *spec, uint64_t timeout_us,
                              nigh_space **space)
{
    uint8_t question[sizeof(struct session_space_make) + LIMIT_SPACE_NAME_BYTES];
    struct session_space_make make;
    struct client_op op;
    nigh_status status = space_check_name(client, spec == NULL ? NULL : spec->name, space, false,
                                          "nigh_space_create");

    if (status == NIGH_OK) {
        status = check_spec(client, spec);
    }
    if (status == NIGH_OK) {
        status = check_sizes(client, spec);
    }
    if (status != NIGH_OK) {
        return status;
    }
    make = (struct session_space_make){.home_bytes = spec->home_size,
                                       .cache_bytes = spec->cache_size,
                                       .block_bytes = spec->block_size,
                                       .durability = (uint32_t)spec->durability,
                                       .group_rights = spec->group_access,
                                       .other_rights = spec->other_access};
    memcpy(question, &make, sizeof(make));
    memcpy(question + sizeof(make), spec->name, space_name_bytes(spec->name));
    space_init(&op, client, SESSION_SPACE_CREATE, timeout_us);
    op.u.place.bytes = question;
    op.u.place.count = (uint32_t)sizeof(make) + space_name_bytes(spec->name);
    status = space_run(&op);
    if (status == NIGH_UNSUPPORTED && spec->durability != NIGH_SPACE_DURABLE_NONE) {
        return explain_unsupported(client, spec->name);
    }
    return status == NIGH_OK ? open_made(&op, spec->name, space) : status;
}

nigh_status nigh_space_delete(nigh_client *client, const char *name, uint64_t timeout_us)
{
    nigh_status status = space_check_name(client, name, name, false, "nigh_space_delete");
    struct client_op op;

    if (status != NIGH_OK) {
        return status;
    }
    space_init(&op, client, SESSION_SPACE_DELETE, timeout_us);
    op.u.place.bytes = name;
    op.u.place.count = space_name_bytes(name);
    return space_run(&op);
}
