/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: handles of them (what masters change: region_change.c). Each question is one submission
 * to lane 0, whose bytes lie in a place, as a call's do (places.c).
 */
#include "client/region.h"

#include <stdlib.h>
#include <string.h>

#include "client/bulk.h"
#include "client/error.h"
#include "client/places.h"
#include "client/ring.h"

_Static_assert(NIGH_REGION_NAME_BYTES == LIMIT_REGION_NAME_BYTES &&
                   NIGH_REGION_CHUNKS == LIMIT_REGION_CHUNKS &&
                   NIGH_REGION_USERS == LIMIT_REGION_GRANTS &&
                   (uint32_t)NIGH_REGION_LOCAL == SESSION_REGION_LOCAL &&
                   (uint32_t)NIGH_REGION_ON == SESSION_REGION_ON &&
                   (uint32_t)NIGH_REGION_SPREAD == SESSION_REGION_SPREAD &&
                   NIGH_REGION_MAPPABLE == SESSION_REGION_MAPPABLE &&
                   (uint32_t)NIGH_REGION_NEAR == SESSION_REGION_AT,
               "the bounds are public");

/* ---- the steps ------------------------------------------------------------ */

static bool is_there(const nigh_region *region)
{
    return region->connection ==
           atomic_load_explicit(&region->client->connections, memory_order_relaxed);
}

/* All but the bytes. */
static void region_say(const struct client_op *op, struct session_sqe *sqe)
{
    struct session_region_id id = {
        .number = op->u.region.region != NULL ? op->u.region.region->number : 0,
        .offset = op->u.region.at,
    };

    sqe->op = SESSION_OP_REGION;
    sqe->flags = (uint8_t)op->u.region.flags;
    sqe->name_size = (uint16_t)op->u.region.what;
    memcpy(sqe->id, &id, LIMIT_ID_BYTES);
    sqe->ref = op->u.region.ref;
    sqe->argument = op_remaining_us(op);
}

/* What the node moves by itself. */
static void write_memory(const struct client_op *op, uint8_t *to)
{
    struct session_bulk said = {.number = op->u.region.memory.number,
                                .offset = op->u.region.memory.offset,
                                .bytes = op->u.region.memory.bytes,
                                .access = op->u.region.what == SESSION_REGION_READ
                                              ? SESSION_MEMORY_WRITE
                                              : SESSION_MEMORY_READ};

    memcpy(to, &said, sizeof(said));
}

static void region_fill(struct client_op *op, struct session_sqe *sqe)
{
    uint32_t what = op->u.region.what;
    uint8_t *to = place_take(op, sqe);

    if (what == SESSION_REGION_READ || what == SESSION_REGION_WRITE) {
        write_memory(op, to);
    } else {
        place_write(op, to);
    }
    region_say(op, sqe);
}

/* Whether what it is of is there still: a handle, or what was donated, which the next node knows
 * by numbers of others. */
static bool has_its_connection(const struct client_op *op)
{
    const uint32_t *connection =
        op->u.region.what == SESSION_REGION_CREATE ? op->u.region.connection : NULL;

    if (op->u.region.region != NULL) {
        return is_there(op->u.region.region);
    }
    return connection == NULL ||
           *connection == atomic_load_explicit(&op->client->connections, memory_order_relaxed);
}

static bool region_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    if (!has_its_connection(op)) {
        op_fail(op, NIGH_CLOSED);
        return false;
    }
    return place_build(op, sqe, region_fill);
}

/* What has no bytes, and is not to wait for those that have: what ends a handle or a map is said
 * even when it is overdue. */
static bool bare_build(struct client_op *op, size_t step, struct session_sqe *sqe)
{
    (void)step;
    if (!is_there(op->u.region.region)) {
        op_fail(op, NIGH_CLOSED);
        return false;
    }
    if (op->u.region.what == SESSION_REGION_BARRIER && place_is_overdue(op)) {
        op_fail(op, NIGH_TIMEOUT);
        return false;
    }
    region_say(op, sqe);
    sqe->offset = UINT64_MAX; /* it has no place: none is given back for it */
    return true;
}

/* Who holds the lock goes on through the places that are left. */
static bool lock_has_room(struct client_op *op)
{
    uint32_t count = places_of(op)->count;
    uint32_t others = count > LIMIT_REPLY_PLACES ? (count - LIMIT_REPLY_PLACES) / 2 : 0;

    return place_may_be_had(op, LIMIT_REPLY_PLACES +
                                    (uint32_t)min_u64(others, LIMIT_UNLOCKED_PLACES)) ||
           place_is_overdue(op);
}

static bool opens_one(const struct client_op *op)
{
    return op->u.region.what == SESSION_REGION_OPEN || op->u.region.what == SESSION_REGION_LOCK;
}

/* It is of the connection that gave it: the op may have been what came back to the node. */
static void take_handle(struct client_op *op, uint64_t number)
{
    nigh_region *opened = op->u.region.opened;

    opened->number = number;
    opened->connection = atomic_load_explicit(&op->client->connections, memory_order_relaxed);
    list_push_back(&op->client->regions, &opened->place);
    *op->u.region.handle = opened;
    op->u.region.opened = NULL;
}

static bool region_done(struct client_op *op, size_t step, uint8_t opcode,
                        const struct session_cqe *cqe)
{
    if (opcode == SESSION_OP_CALL_LEASE) {
        return place_goes_on(op, step, cqe, region_fill);
    }
    if (cqe->status != NIGH_OK) {
        /* INVALID of an unlock says that the handle stays open; this one is gone here, too. */
        bool is_gone =
            op->u.region.what == SESSION_REGION_CLOSE && cqe->status == (int32_t)NIGH_INVALID;

        op_fail(op, is_gone ? NIGH_CLOSED : (nigh_status)cqe->status);
        return false;
    }
    if (opens_one(op)) {
        take_handle(op, cqe->generation);
    } else if (op->u.region.out != NULL) {
        *op->u.region.out = cqe->generation;
    }
    if (op->u.region.answer != NULL && cqe->data_size == op->u.region.total) {
        memcpy(op->u.region.answer, place_bytes(op), (size_t)cqe->data_size);
    } else if (op->u.region.answer != NULL) {
        op_fail(op, NIGH_PROTOCOL);
    }
    return false;
}

/* What it was to open is not open. */
static void region_ended(struct client_op *op)
{
    if (opens_one(op)) {
        free(op->u.region.opened);
    }
}

/* Of UNMAP it is its caller's still. */
static void end_ended(struct client_op *op)
{
    if (op->u.region.what == SESSION_REGION_CLOSE) {
        free(op->u.region.region);
    }
}

/* Nobody has the handle to say it again, and others may wait for its lock: it is said all the same
 * when there is room. */
static void end_given_up(struct client_op *op)
{
    nigh_region *region = op->u.region.region;

    if (op->u.region.what != SESSION_REGION_CLOSE || !list_is_linked(&op->queue)) {
        return; /* it is said */
    }
    op->u.region.region = NULL;
    list_push_back(&op->client->closing, &region->place);
    regions_close_more(op->client);
}

/* ---- how it ended --------------------------------------------------------- */

static nigh_status explain_change(const struct client_op *op, nigh_status status)
{
    switch (status) {
    case NIGH_EXISTS:
        return error_set(op->client, status, "there is a region of this name already");
    case NIGH_OUT_OF_MEMORY:
        return error_set(op->client, status,
                         "a node that was to hold some of the region has not so much left of its "
                         "--region-memory, or of its machine's memory; chunks are whole: smaller "
                         "ones may take less");
    case NIGH_LIMIT:
        return error_set(
            op->client, status,
            "a node that was to hold some of the region has as many regions as it may, "
            "or mappable chunks (%d)",
            LIMIT_REGION_FILES);
    case NIGH_BUSY:
        return error_set(op->client, status,
                         "the members of the cluster have just changed, or another change was in "
                         "the way, or a client has the chunk mapped: look whether it has happened, "
                         "and try again");
    case NIGH_PEER_LOST:
        return error_set(op->client, status,
                         "a node that the change needs is not there (nigh nodes)");
    default: return op_note(op, status);
    }
}

/* What a status means of this question alone; NULL: nothing else than of the others. */
static const char *own_sentence(uint32_t what, nigh_status status)
{
    switch (what) {
    case SESSION_REGION_OPEN:
        return status == NIGH_LIMIT ? "this client has as many handles open as it may, or its node "
                                      "as many regions"
                                    : NULL;
    case SESSION_REGION_GRANT:
        return status == NIGH_LIMIT ? "as many users have rights of their own as may, and one more "
                                      "cannot"
                                    : NULL;
    case SESSION_REGION_MOVE:
        return status == NIGH_EXISTS ? "the chunk lies at that node already" : NULL;
    case SESSION_REGION_LOCK:
        return status == NIGH_LIMIT ? "as many locks of the region are in use as there may be, or "
                                      "this client has as many handles open as it may"
                                    : NULL;
    case SESSION_REGION_BARRIER:
        switch (status) {
        case NIGH_BUSY: return "the handle waits at this barrier already";
        case NIGH_PEER_LOST:
            return "a party of the barrier died, or a node that counts for some: close the handles "
                   "of it, or go on to another number";
        case NIGH_INVALID:
            return "there are more parties at the barrier than that, or they do not agree on how "
                   "many they are";
        case NIGH_LIMIT: return "as many barriers of the region are in use as there may be";
        default: return NULL;
        }
    default: return NULL;
    }
}

nigh_status region_explain(const struct client_op *op, nigh_status status)
{
    const char *own = own_sentence(op->u.region.what, status);
    uint32_t what = op->u.region.what;
    bool moves_bytes = (what >= SESSION_REGION_READ && what <= SESSION_REGION_SWAP) ||
                       what == SESSION_REGION_FILL || what == SESSION_REGION_COPY;

    if (place_explain(op, status)) {
        return status;
    }
    if (own != NULL) {
        return error_set(op->client, status, "%s", own);
    }
    switch (status) {
    case NIGH_CLOSED:
        return error_set(op->client, status,
                         "the handle, or the memory, went with a connection to the node: open "
                         "it anew");
    case NIGH_NOT_FOUND:
        return error_set(op->client, status,
                         op->u.region.region == NULL ? "there is no region of this name"
                                                     : "the region was freed");
    case NIGH_DENIED:
        return error_set(op->client, status,
                         "the rights for that were not given, were revoked, or the handle was not "
                         "opened for it");
    case NIGH_STALE:
        return error_set(op->client, status,
                         "a range that is mapped of this handle is not the region's any more: "
                         "unmap it (nigh_region_unmap), and map it again");
    case NIGH_LOCK_LOST: return error_set(op->client, status, REGION_LOCK_LOST_TEXT);
    case NIGH_UNSUPPORTED:
        return error_set(
            op->client, status,
            what == SESSION_REGION_ADD || what == SESSION_REGION_SWAP
                ? "the network, or its device, has no such operations for this chunk"
                : "there are no regions: the node is older than this libnigh, or one of "
                  "a cluster whose nodes agree on nothing (nighd --state)");
    case NIGH_PEER_LOST:
        if (moves_bytes) {
            return error_set(op->client, status,
                             "the node of a chunk died, or the connection to it broke");
        }
        break;
    case NIGH_INVALID:
        return error_set(op->client, status,
                         moves_bytes                   ? "the range is not all in the region"
                         : op->u.region.region != NULL ? "the node knows no such handle"
                                                       : "the node is older than this libnigh, "
                                                         "and does not know the question");
    default: break;
    }
    return moves_bytes ? op_note(op, status) : explain_change(op, status);
}

static const struct op_kind region_kind = {
    .lane = place_lane,
    .build = region_build,
    .done = region_done,
    .has_room = place_has_room,
    .ended = region_ended,
    .tell = region_explain,
    .waits = true,
};

/* What waits for what other calls of the same client are to do leaves them a part of the ring. */
static const struct op_kind lock_kind = {
    .lane = place_lane,
    .build = region_build,
    .done = region_done,
    .has_room = lock_has_room,
    .ended = region_ended,
    .tell = region_explain,
    .waits = true,
    .yields = true,
    .answers = true, /* or others wait until this client comes by again, and gives it back */
};

static const struct op_kind barrier_kind = {
    .lane = place_lane,
    .build = bare_build,
    .done = region_done,
    .tell = region_explain,
    .waits = true,
    .yields = true,
};

/* CLOSE and UNMAP. */
static const struct op_kind end_kind = {
    .lane = place_lane,
    .build = bare_build,
    .done = region_done,
    .given_up = end_given_up,
    .ended = end_ended,
    .tell = region_explain,
    .waits = true,
};

static const struct op_kind *kind_of(enum session_region_what what)
{
    switch (what) {
    case SESSION_REGION_LOCK: return &lock_kind;
    case SESSION_REGION_BARRIER: return &barrier_kind;
    case SESSION_REGION_CLOSE:
    case SESSION_REGION_UNMAP: return &end_kind;
    default: return &region_kind;
    }
}

void region_init(struct client_op *op, nigh_client *client, nigh_region *region,
                 enum session_region_what what, uint64_t timeout_us)
{
    op_init(op, client, kind_of(what), 1, op_deadline_us(timeout_us));
    op->u.place.lane = 0;
    op->u.place.count = 0;
    op->u.place.bytes = NULL;
    memset(&op->u.region, 0, sizeof(op->u.region));
    op->u.region.region = region;
    op->u.region.what = what;
}

void region_ask(struct client_op *op, const void *question, uint32_t count)
{
    NIGH_ASSERT(count <= sizeof(op->u.region.question));
    memcpy(op->u.region.question, question, count);
    op->u.place.bytes = op->u.region.question;
    op->u.place.count = count;
}

nigh_status region_run(struct client_op *op)
{
    nigh_status status = op_run(op);

    return status == NIGH_OK ? status : region_explain(op, status);
}

nigh_status region_check(nigh_region *region, const char *call)
{
    nigh_client *client;
    nigh_status status;

    if (region == NULL) {
        return NIGH_INVALID;
    }
    client = region->client;
    status = client_check(client);
    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    if (!is_there(region)) {
        return error_set(client, NIGH_CLOSED,
                         "%s: the handle went with a connection to the node: open it anew", call);
    }
    return NIGH_OK;
}

nigh_status region_check_op(nigh_region *region, const nigh_op *op, const char *call)
{
    nigh_status status = region_check(region, call);

    return status == NIGH_OK && op == NULL
               ? error_set(region->client, NIGH_INVALID, "%s: no op (op is NULL)", call)
               : status;
}

/* ---- create, open --------------------------------------------------------- */

/* 0: it cannot be one. */
static size_t name_bytes(const char *name)
{
    size_t length = name == NULL ? 0 : strnlen(name, LIMIT_REGION_NAME_BYTES + 1);

    return length > LIMIT_REGION_NAME_BYTES ? 0 : length;
}

nigh_status region_check_open(nigh_client *client, const char *name, const void *out,
                              const char *call)
{
    nigh_status status = client_check(client);

    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    if (name_bytes(name) == 0) {
        return error_set(client, NIGH_INVALID, "%s: a region has a name of 1 to %d bytes%s", call,
                         LIMIT_REGION_NAME_BYTES, name == NULL ? ", not NULL" : "");
    }
    if (out == NULL) {
        return error_set(client, NIGH_INVALID, "%s: no place for the handle (region is NULL)",
                         call);
    }
    if (!client->may_write) {
        return error_set(client, NIGH_DENIED,
                         "%s: this client was opened read-only, and what is asked lies in memory "
                         "that it writes",
                         call);
    }
    return NIGH_OK;
}

nigh_status region_opens(struct client_op *op, nigh_region **handle)
{
    nigh_region *region = calloc(1, sizeof(*region));

    if (region == NULL) {
        op_refuse(op, NIGH_NO_RESOURCES);
        return error_note(op->client, NIGH_NO_RESOURCES);
    }
    region->client = op->client;
    region->holds_lock = op->u.region.what == SESSION_REGION_LOCK;
    list_init(&region->ranges);
    op->u.region.opened = region;
    op->u.region.handle = handle;
    return NIGH_OK;
}

nigh_status region_open_named(nigh_client *client, const char *name, uint32_t access,
                              uint64_t timeout_us, nigh_region **out)
{
    struct client_op op;
    nigh_status status;

    region_init(&op, client, NULL, SESSION_REGION_OPEN, timeout_us);
    op.u.place.bytes = name;
    op.u.place.count = (uint32_t)name_bytes(name);
    op.u.region.at = access;
    status = region_opens(&op, out);
    return status == NIGH_OK ? region_run(&op) : status;
}

nigh_status nigh_region_open(nigh_client *client, const char *name, uint32_t access,
                             uint64_t timeout_us, nigh_region **region)
{
    nigh_status status = region_check_open(client, name, region, "nigh_region_open");

    if (status != NIGH_OK) {
        return status;
    }
    if ((access & NIGH_REGION_ALL) == 0 || (access & ~(NIGH_REGION_ALL | NIGH_REGION_LOW)) != 0) {
        return error_set(client, NIGH_INVALID, "nigh_region_open: there are no such rights");
    }
    return region_open_named(client, name, access, timeout_us, region);
}

/* Of a spec of before there were any: none. */
static uint32_t flags_of(const nigh_region_spec *spec)
{
    return spec->struct_size < offsetof(nigh_region_spec, near) ? 0 : spec->flags;
}

/* A handle is for some right, and whichever the user has is enough to look. */
static nigh_status look_at(nigh_client *client, const char *name, const struct client_op *until,
                           nigh_region_info *info)
{
    static const uint32_t rights[] = {NIGH_REGION_READ, NIGH_REGION_WRITE, NIGH_REGION_MASTER};
    nigh_status status = region_check_open(client, name, info, "nigh_region_create: near");
    nigh_region *region = NULL;
    bool is_denied = true;

    for (size_t n = 0; n < sizeof(rights) / sizeof(rights[0]) && status == NIGH_OK && is_denied;
         n++) {
        nigh_status opened =
            region_open_named(client, name, rights[n], op_remaining_us(until), &region);

        is_denied = opened == NIGH_DENIED && n + 1 < sizeof(rights) / sizeof(rights[0]);
        status = is_denied ? NIGH_OK : opened;
    }
    if (status == NIGH_OK) {
        status = nigh_region_stat(region, op_remaining_us(until), info);
        nigh_region_close(region);
    }
    if (status == NIGH_OK && (info->chunk_size == 0 || info->chunk_count == 0)) {
        status = error_note(client, NIGH_PROTOCOL);
    }
    return status;
}

/* How large chunks are beside those of another region. */
static uint64_t chunk_near(const nigh_region_spec *spec, const nigh_region_info *other)
{
    uint64_t chunk_bytes = spec->chunk_size != 0 ? spec->chunk_size : other->chunk_size;

    while (spec->chunk_size == 0 && spec->size > 0 &&
           (spec->size - 1) / chunk_bytes >= LIMIT_REGION_CHUNKS && chunk_bytes <= UINT64_MAX / 2) {
        chunk_bytes *= 2;
    }
    return chunk_bytes;
}

/* Where each chunk is to be: with the other's bytes of its offset. How many ranks. */
static uint32_t place_near(const nigh_region_info *other, struct session_region_make *make,
                           uint16_t ranks[LIMIT_REGION_CHUNKS])
{
    uint64_t chunks = make->size_bytes == 0 ? 1 : (make->size_bytes - 1) / make->chunk_bytes + 1;
    uint32_t count = (uint32_t)(chunks < LIMIT_REGION_CHUNKS ? chunks : LIMIT_REGION_CHUNKS);

    for (uint32_t n = 0; n < count; n++) {
        uint32_t rank =
            other->ranks[n * make->chunk_bytes / other->chunk_size % other->chunk_count];

        ranks[n] = rank == NIGH_REGION_LOST ? SESSION_REGION_LOST : (uint16_t)rank;
    }
    make->rank = count;
    return count;
}

nigh_status region_check_where(nigh_client *client, nigh_region_where where, const char *call)
{
    if (where > NIGH_REGION_NEAR) {
        return error_set(client, NIGH_INVALID, "%s: no nigh_region_where: %u", call,
                         (unsigned)where);
    }
    return NIGH_OK;
}

nigh_status region_check_spec(nigh_client *client, const nigh_region_spec *spec, const char *call)
{
    const uint8_t *bytes = (const uint8_t *)spec;

    if (!client_knows_size(spec->struct_size, offsetof(nigh_region_spec, flags), sizeof(*spec)) ||
        (spec->where == NIGH_REGION_NEAR && spec->struct_size < sizeof(*spec))) {
        return error_set(client, NIGH_INVALID, "%s: set struct_size to sizeof(nigh_region_spec)",
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
    if ((flags_of(spec) & ~NIGH_REGION_MAPPABLE) != 0) {
        return error_set(client, NIGH_INVALID, "%s: there are no such flags", call);
    }
    return region_check_where(client, spec->where, call);
}

/* What can be told from here: only the node knows which ranks there are. */
static nigh_status check_made(nigh_client *client, const nigh_region_spec *spec)
{
    const char *call = "nigh_region_create";

    if (spec->size == 0 || spec->size > LIMIT_REGION_CHUNK_BYTES * LIMIT_REGION_CHUNKS) {
        return error_set(client, NIGH_INVALID, "%s: the size is 1 byte to %d TiB, not %llu bytes",
                         call, LIMIT_REGION_CHUNKS, (unsigned long long)spec->size);
    }
    if (spec->chunk_size % LIMIT_REGION_UNIT_BYTES != 0 ||
        spec->chunk_size > LIMIT_REGION_CHUNK_BYTES) {
        return error_set(client, NIGH_INVALID,
                         "%s: chunk_size is a multiple of %d and a TiB at most, or 0; not %llu",
                         call, LIMIT_REGION_UNIT_BYTES, (unsigned long long)spec->chunk_size);
    }
    if (spec->chunk_size != 0 && (spec->size - 1) / spec->chunk_size >= LIMIT_REGION_CHUNKS) {
        return error_set(client, NIGH_LIMIT,
                         "%s: a region has %d chunks at most: a chunk_size of %llu is too small "
                         "for its size",
                         call, LIMIT_REGION_CHUNKS, (unsigned long long)spec->chunk_size);
    }
    if (((spec->group_access | spec->other_access) & ~NIGH_REGION_ALL) != 0) {
        return error_set(client, NIGH_INVALID, "%s: there are no such rights", call);
    }
    return NIGH_OK;
}

/* Why a node does not take what was looked at here. */
static nigh_status tell_not_made(nigh_client *client, const nigh_region_spec *spec)
{
    if (spec->where == NIGH_REGION_ON) {
        return error_set(client, NIGH_INVALID,
                         "nigh_region_create: there is no node of rank %u (nigh nodes)",
                         spec->rank);
    }
    return error_set(client, NIGH_INVALID,
                     "nigh_region_create: the node is older than this libnigh, and makes no such "
                     "region");
}

nigh_status nigh_region_create(nigh_client *client, const nigh_region_spec *spec,
                               uint64_t timeout_us, nigh_region **region)
{
    uint8_t question[sizeof(struct session_region_make) + LIMIT_REGION_CHUNKS * sizeof(uint16_t) +
                     LIMIT_REGION_NAME_BYTES];
    uint16_t ranks[LIMIT_REGION_CHUNKS];
    nigh_region_info other = {.struct_size = sizeof(other)};
    uint32_t ranks_bytes = 0;
    uint64_t deadline_us = op_deadline_us(timeout_us);
    struct session_region_make make;
    struct client_op op;
    nigh_status status =
        region_check_open(client, spec == NULL ? NULL : spec->name, region, "nigh_region_create");

    if (status == NIGH_OK) {
        status = region_check_spec(client, spec, "nigh_region_create");
    }
    if (status == NIGH_OK) {
        status = check_made(client, spec);
    }
    if (status != NIGH_OK) {
        return status;
    }
    make = (struct session_region_make){.size_bytes = spec->size,
                                        .chunk_bytes = spec->chunk_size,
                                        .where = (uint32_t)spec->where | flags_of(spec),
                                        .rank = spec->rank,
                                        .group_rights = spec->group_access,
                                        .other_rights = spec->other_access};
    region_init(&op, client, NULL, SESSION_REGION_CREATE, timeout_us);
    if (spec->where == NIGH_REGION_NEAR) {
        status = look_at(client, spec->near, &op, &other);
        if (status != NIGH_OK) {
            return status;
        }
        make.chunk_bytes = chunk_near(spec, &other);
        ranks_bytes = place_near(&other, &make, ranks) * (uint32_t)sizeof(ranks[0]);
        memcpy(question + sizeof(make), ranks, ranks_bytes);
    }
    memcpy(question, &make, sizeof(make));
    memcpy(question + sizeof(make) + ranks_bytes, spec->name, name_bytes(spec->name));
    op.u.place.bytes = question;
    op.u.place.count = (uint32_t)(sizeof(make) + ranks_bytes + name_bytes(spec->name));
    status = region_run(&op);
    if (status != NIGH_OK) {
        return status == NIGH_INVALID ? tell_not_made(client, spec) : status;
    }
    op.deadline_us = deadline_us;
    return region_open_named(client, spec->name, NIGH_REGION_ALL, op_remaining_us(&op), region);
}

nigh_status region_put_init(struct client_op *op, nigh_region *region)
{
    nigh_client *client = region->client;
    nigh_status status = client_look(client);

    region_init(op, client, region, SESSION_REGION_CLOSE, LIMIT_NODE_GRACE_US);
    if (status == NIGH_FORKED) {
        op_refuse(op, status);
        return status;
    }
    status = client_check(client);
    if (status == NIGH_OK && !is_there(region)) {
        status = NIGH_CLOSED;
    }
    client_lock(client);
    list_remove(&region->place);
    client_unlock(client);
    region_unmap_all(region, false);
    if (status != NIGH_OK) {
        free(region);
        op->u.region.region = NULL;
        op_refuse(op, status);
    }
    return status;
}

nigh_status region_put(nigh_region *region)
{
    struct client_op op;
    nigh_status status = region_put_init(&op, region);

    return status == NIGH_OK ? op_run(&op) : status;
}

uint64_t nigh_region_number(const nigh_region *region)
{
    return region == NULL ? 0 : region->number;
}

void nigh_region_close(nigh_region *region)
{
    if (region != NULL) {
        (void)region_put(region);
    }
}

void regions_close_more(nigh_client *client)
{
    while (!list_empty(&client->closing) && ring_has_room(client, 0, UINT32_MAX)) {
        nigh_region *region = container_of(list_pop_front(&client->closing), nigh_region, place);

        /* With its connection it was closed. */
        if (is_there(region)) {
            ring_undo_region(client, 0, SESSION_REGION_CLOSE, region->number);
        }
        free(region);
    }
}

void regions_end(nigh_client *client)
{
    struct list_node *node;

    bool is_child = atomic_load_explicit(&client->guard->word, memory_order_relaxed) == GUARD_CHILD;

    while ((node = list_pop_front(&client->closing)) != NULL) {
        free(container_of(node, nigh_region, place));
    }
    while ((node = list_pop_front(&client->regions)) != NULL) {
        nigh_region *region = container_of(node, nigh_region, place);

        region_unmap_all(region, is_child);
        free(region);
    }
}

/* ---- stat ----------------------------------------------------------------- */

static void tell_stat(const struct session_region_stat *said, nigh_region_info *info)
{
    nigh_region_info all = {
        .struct_size = info->struct_size,
        .size = said->size_bytes,
        .chunk_size = said->chunk_bytes,
        .chunk_count = said->chunk_count,
        .uid = said->uid,
        .gid = said->gid,
        .group_access = said->group_rights,
        .other_access = said->other_rights,
        .user_count = said->user_count,
        .flags = said->flags,
    };

    for (uint32_t n = 0; n < said->user_count; n++) {
        all.users[n] =
            (nigh_region_user){.uid = said->users[n].uid, .access = said->users[n].rights};
    }
    memcpy(all.ranks, said->ranks, said->chunk_count * sizeof(all.ranks[0]));
    client_copy_out(info, info->struct_size, &all, sizeof(all));
}

nigh_status nigh_region_stat(nigh_region *region, uint64_t timeout_us, nigh_region_info *info)
{
    nigh_status status = region_check(region, "nigh_region_stat");
    struct session_region_stat said;
    struct client_op op;

    if (status != NIGH_OK) {
        return status;
    }
    if (info == NULL ||
        !client_knows_size(info->struct_size, sizeof(info->struct_size), sizeof(*info))) {
        return error_set(region->client, NIGH_INVALID,
                         "nigh_region_stat: set struct_size to sizeof(nigh_region_info)");
    }
    region_init(&op, region->client, region, SESSION_REGION_STAT, timeout_us);
    op.u.region.answer = &said;
    op.u.region.total = sizeof(said);
    status = region_run(&op);
    if (status != NIGH_OK) {
        return status;
    }
    if (said.chunk_count > LIMIT_REGION_CHUNKS || said.user_count > LIMIT_REGION_GRANTS) {
        return error_note(region->client, NIGH_PROTOCOL);
    }
    tell_stat(&said, info);
    return NIGH_OK;
}
