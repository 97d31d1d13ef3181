/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects in two steps: create gives memory, the caller writes, seal publishes, abort gives up.
 *
 * What a writer is lies in the caller's nigh_writer, marked with the client's number: a zeroed,
 * used up, or foreign one is an invalid argument, never more.
 */
#include <stdlib.h>
#include <string.h>

#include "client/client_internal.h"
#include "client/error.h"
#include "client/extents.h"
#include "client/get.h"
#include "client/lease.h"
#include "client/op.h"
#include "client/put.h"
#include "client/ring.h"

#define WRITER_MAGIC    UINT64_C(0x4e574954)
#define WRITER_LEASED   1u
#define WRITER_NO_EVICT 2u

/* The library's view of nigh_writer.opaque. */
struct writer_words {
    uint64_t mark; /* WRITER_MAGIC, mixed with the client's number */
    uint64_t offset;
    uint32_t ref;
    uint32_t meta_size;
    uint16_t name_size;
    uint8_t flags; /* WRITER_* */
    uint8_t replicas;
    uint8_t reserved[4];
    uint64_t created_ns;
    uint64_t timeout_us;
};

_Static_assert(sizeof(struct writer_words) == sizeof(((nigh_writer *)0)->opaque),
               "a writer's words fit");

static uint64_t writer_mark(const nigh_client *client)
{
    return WRITER_MAGIC << 32 ^ client->serial;
}

static void writer_fill(const nigh_client *client, const struct put_wish *wish, uint64_t offset,
                        uint64_t ref, bool leased, nigh_writer *writer)
{
    struct writer_words words = {
        .mark = writer_mark(client),
        .offset = offset,
        .ref = (uint32_t)ref,
        .meta_size = wish->meta_size,
        .name_size = wish->name_size,
        .replicas = wish->replicas,
        .created_ns = put_now_ns(),
        .timeout_us = wish->timeout_us,
    };

    words.flags = (leased ? WRITER_LEASED : 0) |
                  ((wish->flags & NIGH_CREATE_NO_EVICT) != 0 ? WRITER_NO_EVICT : 0);
    writer->id = wish->id;
    writer->data = client->write_arena + offset;
    writer->data_size = wish->data_size;
    memcpy(writer->opaque, &words, sizeof(words));
}

/* Takes a writer apart and uses it up. */
static nigh_status writer_take(nigh_client *client, nigh_writer *writer, const char *call,
                               struct put_wish *wish, struct writer_words *words)
{
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return status;
    }
    if (writer != NULL) {
        memcpy(words, writer->opaque, sizeof(*words));
    }
    if (writer == NULL || words->mark != writer_mark(client)) {
        return error_set(client, NIGH_INVALID,
                         "%s: the writer was used up, or is not one that nigh_create gave for this "
                         "client",
                         call);
    }
    memset(wish, 0, sizeof(*wish));
    wish->id = writer->id;
    wish->data_size = writer->data_size;
    wish->meta_size = words->meta_size;
    wish->name_size = words->name_size;
    wish->flags = (words->flags & WRITER_NO_EVICT) != 0 ? NIGH_CREATE_NO_EVICT : 0;
    wish->replicas = words->replicas;
    wish->timeout_us = words->timeout_us;
    wish->lane = client_lane_of(client, &writer->id);
    wish->bytes = index_object_bytes(wish->data_size, wish->meta_size, wish->name_size);
    memset(writer, 0, sizeof(*writer));
    return NIGH_OK;
}

/* ---- create -----------------------------------------------------------------------------------
 */

/* Whether one of this id is sealed already, as far as can be told without asking. */
static bool create_is_late(nigh_client *client, const nigh_id *id)
{
    enum index_answer answer;
    _Atomic uint64_t *word;
    uint32_t number;

    if (get_peek(client, id, &answer, &word, &number) == NULL) {
        return false;
    }
    pin_clear(word);
    return true;
}

static nigh_status create_check(nigh_client *client, const nigh_id *id,
                                const nigh_create_options *options, nigh_writer *writer,
                                struct put_wish *wish)
{
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return status;
    }
    if (options == NULL || writer == NULL) {
        return error_set(client, NIGH_INVALID, "nigh_create: options or writer is NULL");
    }
    status = put_check(client, id, options->data_size, options, wish);
    if (status == NIGH_OK && create_is_late(client, id)) {
        status = error_note(client, NIGH_EXISTS);
    }
    return status;
}

nigh_status nigh_create(nigh_client *client, const nigh_id *id, const nigh_create_options *options,
                        nigh_writer *writer)
{
    struct put_wish wish;
    uint64_t offset, ref;
    bool leased;
    nigh_status status = create_check(client, id, options, writer, &wish);

    if (status == NIGH_OK) {
        status = put_find_memory(client, &wish, &offset, &ref, &leased);
    }
    if (status == NIGH_OK) {
        put_copy_tail(&wish, client->write_arena + offset);
        writer_fill(client, &wish, offset, ref, leased, writer);
    }
    return status;
}

static uint32_t create_lane(struct client_op *op, size_t step)
{
    (void)step;
    return op->u.one.lane;
}

static bool create_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    *sqe = op->u.one.sqe;
    return true;
}

/* What an asynchronous create keeps until its memory is there. */
struct create_copy {
    struct put_wish wish;
    uint8_t tail[]; /* metadata, then the name */
};

static bool create_done(struct client_op *op, size_t step, uint8_t opcode,
                        const struct session_cqe *cqe)
{
    struct create_copy *copy = op->u.one.copy;
    nigh_client *client = op->client;
    nigh_status status = (nigh_status)cqe->status;
    struct session_sqe abort = {.op = SESSION_OP_ABORT, .ref = cqe->ref};

    (void)step;
    (void)opcode;
    if (status == NIGH_OK) {
        status = extents_map_locked(client, cqe->offset, copy->wish.bytes, true);
        if (status != NIGH_OK) {
            ring_submit(client, op->u.one.lane, NULL, 0, false, &abort);
        }
    }
    if (status != NIGH_OK) {
        op_fail(op, error_note_memory(client, status, op->u.one.lane, copy->wish.bytes));
        return false;
    }
    put_copy_tail(&copy->wish, client->write_arena + cqe->offset);
    writer_fill(client, &copy->wish, cqe->offset, cqe->ref, false, op->u.one.out);
    return false;
}

static bool create_finish(struct client_op *op)
{
    free(op->u.one.copy);
    op->u.one.copy = NULL;
    return false;
}

static void create_settle(struct client_op *op, nigh_status status)
{
    (void)status;
    (void)create_finish(op);
}

static const struct op_kind create_kind = {
    .lane = create_lane,
    .build = create_build,
    .done = create_done,
    .settle = create_settle,
    .finish = create_finish,
    .notes = true,
    .waits = true,
};

/* The caller's strings and bytes may go when the call returns: they are copied. */
static struct create_copy *create_keep(const struct put_wish *wish)
{
    struct create_copy *copy = malloc(sizeof(*copy) + wish->meta_size + wish->name_size + 1);

    if (copy == NULL) {
        return NULL;
    }
    copy->wish = *wish;
    if (wish->meta_size != 0) {
        memcpy(copy->tail, wish->meta, wish->meta_size);
        copy->wish.meta = copy->tail;
    }
    if (wish->name_size != 0) {
        memcpy(copy->tail + wish->meta_size, wish->name, wish->name_size);
        copy->wish.name = (const char *)copy->tail + wish->meta_size;
    }
    return copy;
}

nigh_status nigh_create_start(nigh_client *client, const nigh_id *id,
                              const nigh_create_options *options, nigh_writer *writer,
                              nigh_op *given)
{
    struct client_op *op = (struct client_op *)given;
    struct put_wish wish;
    uint64_t offset;
    nigh_status status = create_check(client, id, options, writer, &wish);

    if (status != NIGH_OK || op == NULL) {
        return status != NIGH_OK ? status
                                 : error_set(client, NIGH_INVALID, "nigh_create_start: op is NULL");
    }
    op_init(op, client, &create_kind, 1, op_deadline_us(wish.timeout_us));
    op->u.one.copy = NULL;
    if (put_cut(client, &wish, false, &offset)) {
        status = extents_map(client, offset, wish.bytes, true);
        if (status == NIGH_OK) {
            put_copy_tail(&wish, client->write_arena + offset);
            writer_fill(client, &wish, offset, 0, true, writer);
        }
        client_lock(client);
        if (status != NIGH_OK) {
            lease_gave_up(client, wish.lane, offset, wish.bytes);
        }
        op->flags |= OP_ASYNC;
        op_end(op, status);
        client_unlock(client);
        return error_note(client, status);
    }
    op->u.one.copy = create_keep(&wish);
    if (op->u.one.copy == NULL) {
        return error_set(client, NIGH_NO_RESOURCES, "no memory for a copy of the metadata");
    }
    client_lock(client);
    lease_make_way(client, wish.lane, wish.bytes);
    client_unlock(client);
    put_fill_create(&wish, wish.timeout_us, &op->u.one.sqe);
    op->u.one.lane = wish.lane;
    op->u.one.out = writer;
    return error_note(client, op_start(op));
}

/* ---- seal and abort ---------------------------------------------------------------------------
 */

static uint32_t seal_lane(struct client_op *op, size_t step)
{
    (void)step;
    return op->u.one.lane;
}

static bool seal_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    *sqe = op->u.one.sqe;
    return true;
}

void seal_replicates(struct client_op *op, const struct put_wish *wish)
{
    op->u.one.extra = wish->replicas;
    op->u.one.more = NULL;
    if (wish->replicas > 0) {
        op->deadline_us = op_deadline_us(replicate_timeout_us(wish->timeout_us));
    }
}

/* The seal, and then its replicas: it is sealed whatever becomes of these, and no status of theirs
 * is one of a seal's. */
static bool seal_done(struct client_op *op, size_t step, uint8_t opcode,
                      const struct session_cqe *cqe)
{
    bool is_seal = opcode != SESSION_OP_REPLICATE;
    nigh_id id;
    struct session_sqe sqe;

    if (!is_seal) {
        op->u.one.more = (void *)(uintptr_t)cqe->data_size;
    }
    if (cqe->status != NIGH_OK) {
        nigh_status status = (nigh_status)cqe->status;

        op_fail(op, error_note(op->client, is_seal ? status : replicate_of_put(status)));
        return false;
    }
    if (!is_seal || op->u.one.extra == 0) {
        return false;
    }
    memcpy(id.bytes, op->u.one.sqe.id, sizeof(id.bytes));
    replicate_fill(&id, op->u.one.extra, op_remaining_us(op), &sqe);
    op_go_on(op, step, op->u.one.lane, true, &sqe);
    return true;
}

nigh_status seal_told(const struct client_op *op, nigh_status status)
{
    uint64_t made = (uintptr_t)op->u.one.more;

    return made > 0 ? replicate_tell(op->client, status, op->u.one.extra, made)
                    : error_note(op->client, status);
}

/* A SEAL that never found room in the ring: neither its bytes nor its lease are on their way. */
static void seal_settle(struct client_op *op, nigh_status status)
{
    const struct session_sqe *sqe = &op->u.one.sqe;

    (void)status;
    if (op->next > 0) {
        return;
    }
    if ((sqe->flags & SESSION_FLAG_RENEW) != 0) {
        lease_answered(op->client, op->u.one.lane, false);
    }
    if ((sqe->flags & SESSION_FLAG_LEASED) != 0) {
        lease_gave_up(op->client, op->u.one.lane, sqe->offset,
                      index_object_bytes(sqe->data_size, sqe->meta_size, sqe->name_size));
    }
}

const struct op_kind seal_kind = {
    .lane = seal_lane,
    .build = seal_build,
    .done = seal_done,
    .settle = seal_settle,
};

static nigh_status seal_begin(nigh_client *client, nigh_writer *writer, struct client_op *op,
                              uint32_t flags)
{
    struct writer_words words;
    struct put_wish wish;
    nigh_status status = writer_take(client, writer, "nigh_seal", &wish, &words);

    if (status != NIGH_OK) {
        return status;
    }
    op_init(op, client, &seal_kind, 1, UINT64_MAX);
    op->flags |= flags;
    op->u.one.lane = wish.lane;
    client_lock(client);
    put_fill_seal(client, &wish, words.offset, words.ref, (words.flags & WRITER_LEASED) != 0,
                  put_now_ns() - words.created_ns, &op->u.one.sqe);
    seal_replicates(op, &wish);
    status = op_begin(op);
    client_unlock(client);
    return status;
}

nigh_status nigh_seal(nigh_client *client, nigh_writer *writer)
{
    struct client_op op;
    nigh_status status = seal_begin(client, writer, &op, 0);

    if (status == NIGH_OK) {
        (void)wait_for(client, &op, UINT64_MAX);
        status = (nigh_status)atomic_load_explicit(&op.status, memory_order_acquire);
        return status == NIGH_INVALID ? status : seal_told(&op, status);
    }
    return status == NIGH_INVALID ? status : error_note(client, status);
}

nigh_status nigh_seal_start(nigh_client *client, nigh_writer *writer, nigh_op *given)
{
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return status;
    }
    if (given == NULL) {
        return error_set(client, NIGH_INVALID, "nigh_seal_start: op is NULL");
    }
    status = seal_begin(client, writer, (struct client_op *)given, OP_ASYNC);
    return status == NIGH_INVALID ? status : error_note(client, status);
}

nigh_status nigh_abort(nigh_client *client, nigh_writer *writer)
{
    struct session_sqe sqe = {.op = SESSION_OP_ABORT};
    struct writer_words words;
    struct put_wish wish = {0};
    struct client_op op;
    nigh_status status = writer_take(client, writer, "nigh_abort", &wish, &words);

    if (status != NIGH_OK) {
        return status;
    }
    if ((words.flags & WRITER_LEASED) != 0) {
        client_lock(client);
        lease_gave_up(client, wish.lane, words.offset, wish.bytes);
        client_unlock(client);
        return NIGH_OK;
    }
    sqe.ref = words.ref;
    op_init_one(&op, client, wish.lane, &sqe, NULL);
    return error_note(client, op_run(&op));
}
