/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts: memory, a copy, one seal. Small objects are cut from a lease, so that the seal is the only
 * round trip; larger ones ask for memory first. What two-step writers do is in write.c, puts of
 * many objects are in put_many.c.
 */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/client_internal.h"
#include "client/error.h"
#include "client/extents.h"
#include "client/lease.h"
#include "client/op.h"
#include "client/put.h"

#define PUT_FLAGS (NIGH_CREATE_EXCLUSIVE | NIGH_CREATE_NO_EVICT | NIGH_CREATE_REPLICAS(15u))

#define PUT_PREWAKE_LAST_BYTES (UINT64_C(512) << 10) /* how much is left when the lane is woken */

uint64_t put_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static nigh_status put_check_name(nigh_client *client, const nigh_id *id, const char *name,
                                  struct put_wish *wish)
{
    nigh_id named;

    if (nigh_id_from_name(name, &named) != NIGH_OK) {
        return error_set(client, NIGH_INVALID, "a name has 1 to %d bytes", LIMIT_NAME_BYTES);
    }
    if (memcmp(&named, id, sizeof(named)) != 0) {
        return error_set(client, NIGH_INVALID,
                         "the id is not that of the name: make it with nigh_id_from_name");
    }
    wish->name = name;
    wish->name_size = (uint16_t)strlen(name);
    return NIGH_OK;
}

nigh_status put_read_wish(nigh_client *client, const nigh_id *id, uint64_t data_size,
                          const nigh_create_options *options, struct put_wish *wish)
{
    static const nigh_create_options none;

    if (id == NULL) {
        return error_set(client, NIGH_INVALID, "the id is NULL");
    }
    if (!client->may_write) {
        return error_set(
            client, NIGH_DENIED,
            "this client may not write: it was opened read-only, or pool %s forbids it",
            client->pool);
    }
    options = options != NULL ? options : &none;
    wish->id = *id;
    wish->data_size = data_size;
    wish->meta = options->meta;
    wish->meta_size = options->meta_size;
    wish->flags = (uint8_t)options->flags;
    wish->replicas = (uint8_t)(options->flags >> NIGH_CREATE_REPLICAS_SHIFT & 15);
    wish->replicas = wish->replicas < 2 ? 0 : wish->replicas;
    wish->timeout_us = options->timeout_us;
    wish->name = NULL;
    wish->name_size = 0;
    wish->lane = client_lane_of(client, id);
    if ((options->flags & ~PUT_FLAGS) != 0 || wish->replicas > LIMIT_REPLICAS) {
        return error_set(client, NIGH_INVALID,
                         "unknown bits 0x%x in the flags, or more than %d replicas",
                         options->flags & ~PUT_FLAGS, LIMIT_REPLICAS);
    }
    if (options->meta_size > LIMIT_META_BYTES || (options->meta_size != 0 && !options->meta)) {
        return error_set(client, NIGH_INVALID, "metadata of %u bytes: at most %d, and not at NULL",
                         options->meta_size, LIMIT_META_BYTES);
    }
    if (options->name != NULL && put_check_name(client, id, options->name, wish) != NIGH_OK) {
        return NIGH_INVALID;
    }
    wish->bytes = index_object_bytes(data_size, wish->meta_size, wish->name_size);
    if (wish->bytes == 0) {
        return error_set(client, NIGH_INVALID, "an object has at most %llu bytes",
                         (unsigned long long)LIMIT_OBJECT_BYTES);
    }
    return NIGH_OK;
}

nigh_status put_check(nigh_client *client, const nigh_id *id, uint64_t data_size,
                      const nigh_create_options *options, struct put_wish *wish)
{
    nigh_status status = client_check(client);

    return status == NIGH_OK ? put_read_wish(client, id, data_size, options, wish) : status;
}

/* What a wish says of the object itself. */
static void fill_object(const struct put_wish *wish, struct session_sqe *sqe)
{
    if ((wish->flags & NIGH_CREATE_NO_EVICT) != 0) {
        sqe->flags |= SESSION_FLAG_NO_EVICT;
    }
    memcpy(sqe->id, wish->id.bytes, sizeof(sqe->id));
    sqe->data_size = wish->data_size;
    sqe->meta_size = wish->meta_size;
    sqe->name_size = wish->name_size;
}

void put_fill_create(const struct put_wish *wish, uint64_t timeout_us, struct session_sqe *sqe)
{
    memset(sqe, 0, sizeof(*sqe));
    sqe->op = SESSION_OP_CREATE;
    if ((wish->flags & NIGH_CREATE_EXCLUSIVE) != 0) {
        sqe->flags |= SESSION_FLAG_EXCLUSIVE;
    }
    fill_object(wish, sqe);
    sqe->argument = timeout_us;
}

void put_fill_seal(nigh_client *client, const struct put_wish *wish, uint64_t offset, uint64_t ref,
                   bool leased, uint64_t build_ns, struct session_sqe *sqe)
{
    memset(sqe, 0, sizeof(*sqe));
    sqe->op = SESSION_OP_SEAL;
    if (leased) {
        sqe->flags |= SESSION_FLAG_LEASED;
    }
    fill_object(wish, sqe);
    sqe->offset = offset;
    sqe->argument = wish->timeout_us;
    sqe->ref = leased ? build_ns : ref;
    lease_renew(client, wish->lane, wish->bytes, sqe);
}

void put_copy_tail(const struct put_wish *wish, uint8_t *data)
{
    uint8_t *meta = data + index_meta_offset(wish->data_size);

    if (wish->meta_size != 0) {
        memcpy(meta, wish->meta, wish->meta_size);
    }
    if (wish->name_size != 0) {
        memcpy(meta + wish->meta_size, wish->name, wish->name_size);
    }
}

/* ---- memory --------------------------------------------------------------- */

/* Memory from a lease, if there is one or (may_ask) the lane grants one at once. Not locked. */
bool put_cut(nigh_client *client, const struct put_wish *wish, bool may_ask, uint64_t *offset)
{
    bool no_evict = (wish->flags & NIGH_CREATE_NO_EVICT) != 0;
    bool found = false;

    if ((wish->flags & NIGH_CREATE_EXCLUSIVE) != 0) {
        return false;
    }
    client_lock(client);
    if (lease_is_for(client, wish->lane, wish->bytes)) {
        struct session_sqe sqe = {0};
        struct client_op op;

        found = lease_cut(client, wish->lane, wish->bytes, offset);
        if (!found && may_ask && lease_ask(client, wish->lane, no_evict, &sqe)) {
            client_unlock(client);
            op_init_one(&op, client, wish->lane, &sqe, NULL);
            (void)op_run(&op);
            client_lock(client);
            found = lease_cut(client, wish->lane, wish->bytes, offset);
        }
    }
    client_unlock(client);
    return found;
}

/* Memory from the lane, waiting for it as long as the wish allows. */
static nigh_status put_create(nigh_client *client, const struct put_wish *wish, uint64_t *offset,
                              uint64_t *ref)
{
    struct session_sqe sqe;
    struct session_cqe cqe;
    struct client_op op;
    nigh_status status;

    client_lock(client);
    lease_make_way(client, wish->lane, wish->bytes);
    client_unlock(client);
    put_fill_create(wish, wish->timeout_us, &sqe);
    op_init_wait(&op, client, wish->lane, &sqe, &cqe, wish->timeout_us);
    status = op_run(&op);
    if (status == NIGH_OK) {
        *offset = cqe.offset;
        *ref = cqe.ref;
    }
    return error_note_memory(client, status, wish->lane, wish->bytes);
}

nigh_status put_find_memory(nigh_client *client, const struct put_wish *wish, uint64_t *offset,
                            uint64_t *ref, bool *leased)
{
    nigh_status status = NIGH_OK;
    struct session_sqe sqe = {.op = SESSION_OP_ABORT};

    *ref = 0;
    *leased = put_cut(client, wish, true, offset);
    if (!*leased) {
        status = put_create(client, wish, offset, ref);
    }
    if (status != NIGH_OK || extents_writable(client, *offset, wish->bytes)) {
        return status;
    }
    client_lock(client);
    status = extents_map_locked(client, *offset, wish->bytes, true);
    if (status != NIGH_OK && *leased) {
        lease_gave_up(client, wish->lane, *offset, wish->bytes);
    }
    client_unlock(client);
    if (status != NIGH_OK && !*leased) {
        struct client_op op;

        sqe.ref = *ref;
        op_init_one(&op, client, wish->lane, &sqe, NULL);
        (void)op_run(&op);
    }
    return status == NIGH_OK
               ? status
               : error_set(client, status, "the node's memory cannot be mapped for writing: %s",
                           nigh_status_string(status));
}

/* ---- one object ----------------------------------------------------------- */

/* A lane that may have fallen asleep over a long copy is woken shortly before the end, so that it
 * is awake when the seal arrives. */
void put_copy(nigh_client *client, uint32_t lane, uint8_t *to, const void *from,
              uint64_t size_bytes)
{
    const uint64_t one = 1;
    uint64_t head = 0;

    if (size_bytes > PUT_LARGE_BYTES) {
        head = size_bytes - min_u64(size_bytes / 2, PUT_PREWAKE_LAST_BYTES);
        memcpy(to, from, head);
        if (shared_load_relaxed(&client->node_page->lane[lane].asleep) != 0) {
            (void)!write(client->lane[lane].doorbell, &one, sizeof(one));
        }
    }
    if (size_bytes != 0) {
        memcpy(to + head, (const uint8_t *)from + head, size_bytes - head);
    }
}

static nigh_status put_seal(nigh_client *client, const struct put_wish *wish, uint64_t offset,
                            uint64_t ref, bool leased, uint64_t build_ns)
{
    struct session_sqe sqe;
    struct client_op op;
    nigh_status status;

    client_lock(client);
    put_fill_seal(client, wish, offset, ref, leased, build_ns, &sqe);
    op_init_one(&op, client, wish->lane, &sqe, NULL);
    op.kind = &seal_kind;
    seal_replicates(&op, wish);
    (void)op_begin(&op);
    client_unlock(client);
    (void)wait_for(client, &op, UINT64_MAX);
    status = (nigh_status)atomic_load_explicit(&op.status, memory_order_acquire);
    return seal_told(&op, status);
}

nigh_status nigh_put(nigh_client *client, const nigh_id *id, const void *data, uint64_t data_size,
                     const nigh_create_options *options)
{
    struct put_wish wish;
    nigh_status status = put_check(client, id, data_size, options, &wish);
    uint64_t offset, ref, begun_ns;
    uint8_t *to;
    bool leased;

    if (status != NIGH_OK) {
        return status;
    }
    if (data == NULL && data_size != 0) {
        return error_set(client, NIGH_INVALID, "nigh_put: data is NULL");
    }
    begun_ns = put_now_ns();
    status = put_find_memory(client, &wish, &offset, &ref, &leased);
    if (status != NIGH_OK) {
        return status;
    }
    to = client->write_arena + offset;
    put_copy(client, wish.lane, to, data, data_size);
    put_copy_tail(&wish, to);
    return put_seal(client, &wish, offset, ref, leased, put_now_ns() - begun_ns);
}
