/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sessions ask of regions: submissions of lane 0's rings, their handles, and what they may.
 *
 * A handle is a number of its session, and is looked up in each submission; whether it may do what
 * it is for is judged when an operation begins, and before each of its parts.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/order.h"
#include "nigh/region.h"
#include "node/lane_regions.h"

_Static_assert(NIGH_REGION_READ == REGION_READ && NIGH_REGION_WRITE == REGION_WRITE &&
                   NIGH_REGION_MASTER == REGION_MASTER && NIGH_REGION_LOST == REGION_NOBODY &&
                   SESSION_REGION_SHARED == (uint32_t)REGION_LOCK_SHARED &&
                   SESSION_REGION_EXCLUSIVE == (uint32_t)REGION_LOCK_EXCLUSIVE &&
                   NIGH_REGION_LOW == SESSION_REGION_LOW &&
                   (REGION_ALL & SESSION_REGION_LOW) == 0 &&
                   SESSION_REGION_MAPPABLE == NIGH_REGION_MAPPABLE &&
                   SESSION_REGION_DONATED == NIGH_REGION_DONATED,
               "what is public is what it is called here");

/* What a submission asks, copied out of it. */
struct asked_for {
    struct lane *lane;
    struct lane_regions *at;
    uint32_t slot;
    const struct session_sqe *sqe;
    struct session_region_id id;
    uint64_t deadline_us;
};

static void complete(const struct asked_for *want, nigh_status status)
{
    lane_complete(want->lane, want->slot, want->sqe->cookie, status);
}

/* ---- handles -------------------------------------------------------------- */

struct region_handles *lane_region_handles(const struct lane_regions *at, uint32_t slot)
{
    return at->sessions[slot] == NULL ? NULL : &at->sessions[slot]->handles;
}

#define PLACES_BYTES (LIMIT_REGION_HANDLES * sizeof(struct region_handle))

/* Pages of places come as these are used, and all go with the session: of the C library's memory
 * calloc clears what others had, all of it, and keeps it when it is freed. NULL: there is none. */
static struct region_handle *make_places(void)
{
    void *made = mmap(NULL, PLACES_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return made == MAP_FAILED ? NULL : made;
}

static void unmake_places(struct region_handle *places)
{
    if (places != NULL)
        (void)munmap(places, PLACES_BYTES);
}

struct region_handles *lane_region_need_handles(struct lane_regions *at, uint32_t slot)
{
    const struct lane_seat *seat = at->lane->sessions[slot].seat;
    struct lane_region_session *session = at->sessions[slot];
    struct region_handle *places;

    if (session != NULL) {
        session->handles.gid = seat->gid; /* of who came back */
        return &session->handles;
    }
    session = calloc(1, sizeof(*session));
    places = make_places();
    if (session == NULL || places == NULL) {
        free(session);
        unmake_places(places);
        return NULL;
    }
    lane_region_limits_session(at, session);
    region_handles_init(&session->handles, places, LIMIT_REGION_HANDLES, seat->uid, seat->gid);
    at->sessions[slot] = session;
    return &session->handles;
}

static struct region_handle *find_handle(const struct asked_for *want)
{
    struct region_handles *handles = lane_region_handles(want->at, want->slot);

    return handles == NULL ? NULL : region_handles_find(handles, want->id.number);
}

/* Operations of it end; it goes with the last. */
static void close_use(struct lane_regions *at, struct region_use *use)
{
    use->is_closed = true;
    lane_region_use_end(at, use, NIGH_CANCELED);
    lane_region_maps_close(at, use);
    lane_region_use_put(at, use);
}

static void answer_close(const struct asked_for *want)
{
    struct lane_regions *at = want->at;
    struct region_handle *handle = find_handle(want);
    struct region_use *use = handle == NULL ? NULL : handle->region;
    struct region_guard *guard = use == NULL ? NULL : use->guard;
    bool is_lost = guard != NULL && guard->is_lost;
    bool waits;

    if (use == NULL) {
        complete(want, NIGH_INVALID);
        return;
    }
    (void)region_handles_close(lane_region_handles(at, want->slot), want->id.number);
    waits = guard != NULL && lane_region_guard_leave(at, guard, want->sqe->cookie);
    close_use(at, use);
    if (!waits)
        complete(want, is_lost ? NIGH_LOCK_LOST : NIGH_OK);
}

/* The session's connection has ended, or all of it has. Numbers are not given again to one that
 * comes back. */
void lane_regions_forget(struct lane *lane, uint32_t slot, bool for_good)
{
    struct lane_regions *at = lane->regions;
    struct region_handles *handles = at == NULL ? NULL : lane_region_handles(at, slot);

    if (at == NULL)
        return;
    lane_region_asks_forget(at, slot);
    lane_region_copies_forget(at, slot);
    lane_region_lists_forget(at, slot);
    lane_region_donations_forget(at, slot);
    lane_region_guards_forget(at, slot);
    LIST_FOREACH_SAFE(node, &at->ios[slot])
    {
        struct region_io *io = container_of(node, struct region_io, link);

        if (!io->is_told) {
            io->is_told = true;
            lane_region_io_end(at, io, NIGH_CANCELED);
        }
    }
    for (uint32_t n = 0; handles != NULL && n < handles->used; n++) {
        struct region_use *use = handles->places[n].region;

        if (use == NULL)
            continue;
        (void)region_handles_close(handles, (uint64_t)handles->places[n].uses << 32 | n);
        use->is_abandoned = true;
        close_use(at, use);
    }
    lane_regions_tell(at);
    session_shares_leave(&at->shares, slot);
    lane_region_staging_leave(at, slot);
    lane_region_pushes_leave(at, slot);
    if (for_good && handles != NULL) {
        unmake_places(handles->places);
        free(at->sessions[slot]);
        at->sessions[slot] = NULL;
    }
}

/* ---- what an operation may ------------------------------------------------ */

static nigh_status open_handle(struct lane_regions *at, struct region_io *io,
                               const struct region_descriptor *descriptor)
{
    struct region_handles *handles = lane_region_handles(at, io->slot);
    nigh_status status;

    if (region_descriptor_is_none(descriptor) || region_descriptor_is_freed(descriptor))
        return NIGH_NOT_FOUND;
    status = region_handles_open(handles, io->use, descriptor, io->rights, &io->number);
    if (status == NIGH_OK)
        lane_region_hear(io->use, descriptor, io->number, io->rights);
    return status;
}

static nigh_status tell_stat(struct lane_regions *at, struct region_io *io,
                             const struct region_descriptor *descriptor)
{
    struct session_region_stat said = {
        .size_bytes = descriptor->geometry.size_bytes,
        .chunk_bytes = descriptor->geometry.chunk_bytes,
        .chunk_count = descriptor->chunk_count,
        .uid = descriptor->uid,
        .gid = descriptor->gid,
        .group_rights = descriptor->group_rights,
        .other_rights = descriptor->other_rights,
        .user_count = descriptor->grant_count,
        .flags = ((descriptor->flags & REGION_MAPPABLE) != 0 ? SESSION_REGION_MAPPABLE : 0) |
                 ((descriptor->flags & REGION_DONATED) != 0 ? SESSION_REGION_DONATED : 0),
    };
    uint8_t *to = lane_placed(at->lane, io->slot, io->place, sizeof(said));

    if (to == NULL)
        return NIGH_INVALID;
    for (uint32_t n = 0; n < descriptor->grant_count; n++) {
        said.users[n].uid = descriptor->grants[n].uid;
        said.users[n].rights = descriptor->grants[n].rights;
    }
    for (uint32_t n = 0; n < descriptor->chunk_count; n++)
        said.ranks[n] = descriptor->chunks[n].node;
    memcpy(to, &said, sizeof(said));
    io->place_bytes = sizeof(said);
    return NIGH_OK;
}

/* Whoever has a map of memory that is not the region's any more is told so. What is done under a
 * lock is over with it, and a map would not be. */
static nigh_status judge_maps(const struct region_io *io, const struct region_use *use,
                              const struct region_descriptor *descriptor)
{
    if (io->what == SESSION_REGION_MAP && use->guard != NULL)
        return NIGH_INVALID;
    if (io->what == SESSION_REGION_MAP && (descriptor->flags & REGION_MAPPABLE) == 0)
        return NIGH_UNSUPPORTED;
    return use->stale_maps > 0 && io->op.op.length_bytes > 0 ? NIGH_STALE : NIGH_OK;
}

nigh_status lane_region_judge(void *context, struct regions_op *op,
                              const struct region_descriptor *descriptor)
{
    struct lane_regions *at = context;
    struct region_io *io = container_of(op, struct region_io, op);
    struct region_handles *handles = lane_region_handles(at, io->slot);
    struct region_handle *handle;
    const struct region_use *use;
    nigh_status status;

    if (io->is_told || handles == NULL)
        return NIGH_CANCELED;
    if (io->what == SESSION_REGION_OPEN)
        return open_handle(at, io, descriptor);
    handle = region_handles_find(handles, io->number);
    if (handle == NULL)
        return NIGH_CANCELED;
    use = handle->region;
    status = region_handles_judge(handles, handle, descriptor, io->rights);
    if (status == NIGH_OK && use->guard != NULL && use->guard->is_lost)
        status = use->guard->status == NIGH_NOT_FOUND ? NIGH_NOT_FOUND : NIGH_LOCK_LOST;
    if (status == NIGH_OK)
        status = judge_maps(io, use, descriptor);
    return status == NIGH_OK && io->what == SESSION_REGION_STAT ? tell_stat(at, io, descriptor)
                                                                : status;
}

const struct region *lane_region_readable(const struct lane_regions *at, uint32_t slot,
                                          uint64_t number)
{
    struct region_handles *handles = lane_region_handles(at, slot);
    struct region_handle *handle = handles == NULL ? NULL : region_handles_find(handles, number);
    const struct region_use *use = handle == NULL ? NULL : handle->region;

    if (use == NULL || use->stale_maps > 0 || (use->guard != NULL && use->guard->is_lost) ||
        region_handles_judge(handles, handle, region_known(use->region), REGION_READ) != NIGH_OK)
        return NULL;
    return use->region;
}

/* ---- operations ----------------------------------------------------------- */

static struct region_io *make_io(const struct asked_for *want, struct region_use *use)
{
    struct region_io *io = lane_region_io_take(want->at, want->slot);

    if (io == NULL)
        return NULL;
    io->use = use;
    io->cookie = want->sqe->cookie;
    io->what = want->sqe->name_size;
    io->number = want->id.number;
    io->place = want->sqe->offset;
    return io;
}

static void answer_open(const struct asked_for *want, const uint8_t *bytes)
{
    struct lane_regions *at = want->at;
    uint64_t count = want->sqe->data_size;
    char name[LIMIT_REGION_NAME_BYTES]; /* the client may change its own */
    const uint64_t rights = want->id.offset & ~(uint64_t)SESSION_REGION_LOW;
    struct region_use *use = NULL;
    struct region_io *io = NULL;
    nigh_status status = NIGH_NO_RESOURCES;

    if (count > 0 && count <= sizeof(name))
        memcpy(name, bytes, count);
    if (count == 0 || count > sizeof(name) || memchr(name, 0, count) != NULL || rights == 0 ||
        (rights & ~(uint64_t)REGION_ALL) != 0) {
        complete(want, NIGH_INVALID);
        return;
    }
    if (lane_region_need_handles(at, want->slot) != NULL)
        use = calloc(1, sizeof(*use));
    if (use != NULL)
        status = regions_open(at->regions, name, (uint32_t)count, &use->region);
    if (status != NIGH_OK) {
        free(use);
        complete(want, status);
        return;
    }
    use->slot = want->slot;
    use->is_low = rights != want->id.offset || at->lane->sessions[want->slot].seat->is_low;
    io = make_io(want, use);
    if (io == NULL) {
        use->is_closed = true;
        lane_region_use_put(at, use);
        complete(want, NIGH_OVERLOADED);
        return;
    }
    io->rights = (uint32_t)rights;
    lane_region_io_begin(at, io, want->deadline_us);
}

static void answer_lock(const struct asked_for *want, const uint8_t *bytes)
{
    struct lane_regions *at = want->at;
    const struct region_handle *handle = find_handle(want);
    struct session_region_lock said;
    struct region_use *use = NULL;
    struct region_io *io;
    nigh_status status = NIGH_INVALID;

    if (handle != NULL && want->sqe->data_size == sizeof(said)) {
        memcpy(&said, bytes, sizeof(said));
        use = lane_region_guard_create(at, want->slot, handle, &said, &status);
    }
    if (use == NULL) {
        complete(want, status);
        return;
    }
    io = make_io(want, use);
    if (io == NULL) {
        use->is_closed = true;
        lane_region_use_put(at, use);
        complete(want, NIGH_OVERLOADED);
        return;
    }
    io->rights = said.mode == SESSION_REGION_SHARED ? REGION_READ : REGION_WRITE;
    lane_region_io_begin(at, io, want->deadline_us);
}

/* Where the bytes of a read or write are. */
static nigh_status take_bytes(const struct asked_for *want, struct region_io *io,
                              const uint8_t *bytes, bool writes)
{
    const struct session_sqe *sqe = want->sqe;
    struct session_bulk bulk;
    nigh_status status;

    if ((sqe->flags & SESSION_FLAG_INTO) == 0) {
        io->place_bytes = (uint32_t)(writes ? sqe->data_size : sqe->ref);
        io->op.op.length_bytes = io->place_bytes;
        return io->place_bytes == 0 ? NIGH_INVALID : NIGH_OK;
    }
    if (sqe->data_size != sizeof(bulk))
        return NIGH_INVALID;
    memcpy(&bulk, bytes, sizeof(bulk));
    if (bulk.bytes == 0 || bulk.access != (writes ? SESSION_MEMORY_READ : SESSION_MEMORY_WRITE))
        return NIGH_INVALID;
    status = lane_take_bulk(want->at->lane, want->slot, &bulk, &io->memory);
    io->has_memory = status == NIGH_OK;
    io->op.op.length_bytes = bulk.bytes;
    return status;
}

static nigh_status take_word(const struct asked_for *want, struct region_io *io,
                             const uint8_t *bytes)
{
    const struct session_sqe *sqe = want->sqe;
    bool swaps = sqe->name_size == SESSION_REGION_SWAP;

    if (want->id.offset % sizeof(uint64_t) != 0 ||
        sqe->data_size != (swaps ? sizeof(io->compare) : 0))
        return NIGH_INVALID;
    if (swaps)
        memcpy(&io->compare, bytes, sizeof(io->compare));
    io->operand = sqe->ref;
    io->op.op.length_bytes = sizeof(uint64_t);
    return NIGH_OK;
}

static nigh_status take_barrier(const struct asked_for *want, struct region_io *io)
{
    const struct session_sqe *sqe = want->sqe;

    io->rights = REGION_READ;
    io->op.op.offset_bytes = 0;
    io->operand = want->id.offset;
    io->compare = sqe->ref;
    return sqe->ref == 0 || sqe->ref > UINT32_MAX || sqe->data_size != 0 ? NIGH_INVALID : NIGH_OK;
}

static nigh_status take_fill(const struct asked_for *want, struct region_io *io,
                             const uint8_t *bytes)
{
    if (want->sqe->data_size != 1 || want->sqe->ref == 0)
        return NIGH_INVALID;
    io->rights = REGION_WRITE;
    io->operand = bytes[0];
    io->op.op.length_bytes = want->sqe->ref;
    return NIGH_OK;
}

static nigh_status take_map(const struct asked_for *want, struct region_io *io)
{
    bool writes = (want->sqe->flags & SESSION_FLAG_WRITES) != 0;

    io->rights = REGION_READ | (writes ? REGION_WRITE : 0);
    io->op.op.length_bytes = want->sqe->ref;
    return want->sqe->ref == 0 || want->sqe->data_size != 0 ? NIGH_INVALID : NIGH_OK;
}

static nigh_status fill_io(const struct asked_for *want, struct region_io *io, const uint8_t *bytes)
{
    io->op.op.offset_bytes = want->id.offset;
    switch (io->what) {
    case SESSION_REGION_READ: io->rights = REGION_READ; return take_bytes(want, io, bytes, false);
    case SESSION_REGION_WRITE: io->rights = REGION_WRITE; return take_bytes(want, io, bytes, true);
    case SESSION_REGION_ADD:
    case SESSION_REGION_SWAP:
        io->rights = REGION_READ | REGION_WRITE;
        return take_word(want, io, bytes);
    case SESSION_REGION_BARRIER: return take_barrier(want, io);
    case SESSION_REGION_FILL: return take_fill(want, io, bytes);
    case SESSION_REGION_MAP: return take_map(want, io);
    default: return NIGH_OK; /* STAT: it looks */
    }
}

static void answer_io(const struct asked_for *want, const uint8_t *bytes)
{
    struct region_handle *handle = find_handle(want);
    struct region_io *io = handle == NULL ? NULL : make_io(want, handle->region);
    nigh_status status;

    if (io == NULL) {
        complete(want, handle == NULL ? NIGH_INVALID : NIGH_OVERLOADED);
        return;
    }
    status = fill_io(want, io, bytes);
    if (status != NIGH_OK) {
        lane_region_io_drop(want->at, io, status);
        return;
    }
    lane_region_io_begin(want->at, io, want->deadline_us);
}

/* A page of what there is: of no handle. The node's own user is told of all, as root is, since he
 * tells others what each may know (docs/page.md); what he may do with one is another question. */
static void answer_list(const struct asked_for *want, const uint8_t *bytes)
{
    const struct lane_seat *seat = want->lane->sessions[want->slot].seat;
    struct region_list_ask ask = {
        .uid = seat->uid == want->lane->config.own_uid ? REGION_ROOT : seat->uid, .gid = seat->gid};
    uint64_t count = want->sqe->data_size;
    nigh_status status = NIGH_INVALID;

    if (count <= sizeof(ask.after) && want->id.number == 0 && want->id.offset == 0) {
        memcpy(ask.after, bytes, count);
        ask.after_bytes = (uint8_t)count;
        if (memchr(ask.after, 0, count) == NULL)
            status = lane_region_list_begin(want->at, want->slot, want->sqe->cookie,
                                            want->sqe->offset, &ask, want->deadline_us);
    }
    if (status != NIGH_OK)
        complete(want, status);
}

/* Between two handles, or within what one is of. */
static void answer_copy(const struct asked_for *want, const uint8_t *bytes)
{
    const struct session_sqe *sqe = want->sqe;
    struct region_handles *handles = lane_region_handles(want->at, want->slot);
    const struct region_handle *to = find_handle(want), *from = NULL;
    struct region_copy copy = {.to = {.number = want->id.number, .offset = want->id.offset},
                               .bytes = sqe->ref,
                               .slot = want->slot,
                               .begun = want->lane->sessions[want->slot].begun,
                               .cookie = sqe->cookie};
    struct session_region_source said;
    nigh_status status = NIGH_INVALID;

    if (to != NULL && sqe->data_size == sizeof(said)) {
        memcpy(&said, bytes, sizeof(said));
        copy.from = (struct region_copy_side){.number = said.number, .offset = said.offset};
        from = region_handles_find(handles, said.number);
    }
    if (from != NULL && copy.bytes != 0 && copy.bytes <= UINT64_MAX - copy.to.offset &&
        copy.bytes <= UINT64_MAX - copy.from.offset) {
        const struct region_use *to_use = to->region, *from_use = from->region;

        copy.is_within = to_use->region == from_use->region &&
                         copy.to.offset < copy.from.offset + copy.bytes &&
                         copy.from.offset < copy.to.offset + copy.bytes;
        copy.is_backward = copy.is_within && copy.to.offset > copy.from.offset;
        status = lane_region_copy_begin(want->at, &copy, want->deadline_us);
    }
    if (status != NIGH_OK)
        complete(want, status);
}

/* ---- changes -------------------------------------------------------------- */

/* Where new chunks go, in turn. NIGH_INVALID: there is no such place. */
static nigh_status place_chunks(const struct lane_regions *at, uint32_t where, uint32_t rank,
                                struct region_asking *asking)
{
    const struct lane *lane = at->lane;
    uint32_t self = lane_regions_self(lane);
    uint32_t ranks = lane_regions_ranks(lane);

    asking->ask.nodes = asking->nodes;
    asking->ask.node_count = 1;
    asking->nodes[0] = where == SESSION_REGION_ON ? rank : self;
    if (where > SESSION_REGION_SPREAD || asking->nodes[0] >= ranks)
        return NIGH_INVALID; /* SESSION_REGION_AT is of CREATE alone */
    for (uint32_t n = 1; where == SESSION_REGION_SPREAD && n < ranks; n++) {
        uint32_t next = (self + n) % ranks;

        if (lane_regions_link(at, next) != NULL && lane_regions_is_member(at, next) &&
            asking->ask.node_count < LIMIT_REGION_CHUNKS)
            asking->nodes[asking->ask.node_count++] = next;
    }
    return NIGH_OK;
}

/* A size of chunks that nobody chose: not so large that moving one stops all others for long. */
static uint64_t choose_chunk_bytes(uint64_t size_bytes, uint32_t nodes)
{
    uint64_t least = size_bytes / LIMIT_REGION_CHUNKS + (size_bytes % LIMIT_REGION_CHUNKS != 0);
    uint64_t share = size_bytes / nodes + (size_bytes % nodes != 0);

    return align_up_u64(max_u64(least, min_u64(share, LIMIT_REGION_CHUNK_DEFAULT)),
                        LIMIT_REGION_UNIT_BYTES);
}

/* Each chunk where it is said. */
static nigh_status take_ranks(const struct lane_regions *at, const uint8_t *bytes, uint32_t count,
                              struct region_asking *asking)
{
    const struct lane *lane = at->lane;
    uint32_t self = lane_regions_self(lane);

    if (count == 0 || count > LIMIT_REGION_CHUNKS)
        return NIGH_INVALID;
    asking->ask.nodes = asking->nodes;
    asking->ask.node_count = count;
    for (uint32_t n = 0; n < count; n++) {
        uint16_t rank;

        memcpy(&rank, bytes + n * sizeof(rank), sizeof(rank));
        asking->nodes[n] = rank == SESSION_REGION_LOST ? self : rank;
        if (asking->nodes[n] >= lane_regions_ranks(lane))
            return NIGH_INVALID;
    }
    return NIGH_OK;
}

#define DONATES (SESSION_REGION_DONATED | SESSION_REGION_OWN)

/* The memory of the region's one chunk is there: `chunk_bytes` says which. What a question names
 * goes with it, also where the question is wrong. */
static nigh_status take_donation(const struct asked_for *want, struct session_region_make *make,
                                 struct region_asking *asking)
{
    struct region_asked *asked = container_of(asking, struct region_asked, asking);
    uint32_t how = make->where & DONATES;
    uint64_t which = make->chunk_bytes;
    nigh_status status = NIGH_INVALID;

    if (how == 0)
        return NIGH_OK;
    if (how == SESSION_REGION_OWN)
        status = lane_region_donation_own(want->at, want->slot, which, make->size_bytes, asked);
    else if (how == SESSION_REGION_DONATED)
        status = lane_region_donation_ask(want->at, want->slot, which, make->size_bytes, asked);
    if (status != NIGH_OK)
        return status;
    make->where &= ~DONATES;
    make->chunk_bytes = align_up_u64(make->size_bytes, LIMIT_REGION_UNIT_BYTES);
    return make->where == SESSION_REGION_LOCAL && make->rank == 0 ? NIGH_OK : NIGH_INVALID;
}

static nigh_status fill_create(const struct asked_for *want, const uint8_t *bytes,
                               struct region_asking *asking)
{
    struct region_ask *ask = &asking->ask;
    struct session_region_make make;
    uint64_t count = want->sqe->data_size;
    uint32_t ranks_bytes = 0;
    nigh_status status;

    if (count <= sizeof(make))
        return NIGH_INVALID;
    memcpy(&make, bytes, sizeof(make));
    status = take_donation(want, &make, asking);
    if (status != NIGH_OK)
        return status;
    ask->is_mappable = (make.where & SESSION_REGION_MAPPABLE) != 0;
    make.where &= ~SESSION_REGION_MAPPABLE;
    if (make.where == SESSION_REGION_AT && make.rank <= LIMIT_REGION_CHUNKS)
        ranks_bytes = make.rank * (uint32_t)sizeof(uint16_t);
    if (count <= sizeof(make) + ranks_bytes ||
        count > sizeof(make) + ranks_bytes + LIMIT_REGION_NAME_BYTES)
        return NIGH_INVALID;
    ask->name_bytes = (uint8_t)(count - sizeof(make) - ranks_bytes);
    memcpy(asking->name, bytes + sizeof(make) + ranks_bytes, ask->name_bytes);
    if (memchr(asking->name, 0, ask->name_bytes) != NULL || make.size_bytes == 0 ||
        make.size_bytes > LIMIT_REGION_CHUNK_BYTES * LIMIT_REGION_CHUNKS ||
        ((make.group_rights | make.other_rights) & ~REGION_ALL) != 0)
        return NIGH_INVALID;
    status = make.where == SESSION_REGION_AT
                 ? take_ranks(want->at, bytes + sizeof(make), make.rank, asking)
                 : place_chunks(want->at, make.where, make.rank, asking);
    if (status != NIGH_OK)
        return status;
    ask->geometry.size_bytes = make.size_bytes;
    ask->geometry.chunk_bytes = make.chunk_bytes != 0
                                    ? make.chunk_bytes
                                    : choose_chunk_bytes(make.size_bytes, ask->node_count);
    ask->group_rights = (uint8_t)make.group_rights;
    ask->other_rights = (uint8_t)make.other_rights;
    return region_geometry_check(&ask->geometry);
}

static nigh_status fill_grant(const struct asked_for *want, const uint8_t *bytes,
                              struct region_ask *ask)
{
    struct session_region_grant grant;

    if (want->sqe->data_size != sizeof(grant))
        return NIGH_INVALID;
    memcpy(&grant, bytes, sizeof(grant));
    if (grant.whose > REGION_OF_OTHERS || ((grant.give | grant.take) & ~REGION_ALL) != 0)
        return NIGH_INVALID;
    ask->whose = grant.whose;
    ask->user = grant.user;
    ask->give = grant.give;
    ask->take = grant.take;
    return NIGH_OK;
}

static nigh_status fill_resize(const struct asked_for *want, const uint8_t *bytes,
                               struct region_asking *asking)
{
    struct session_region_make make;

    if (want->sqe->data_size != sizeof(make))
        return NIGH_INVALID;
    memcpy(&make, bytes, sizeof(make));
    if (make.chunk_bytes != 0 || make.group_rights != 0 || make.other_rights != 0)
        return NIGH_INVALID;
    asking->ask.geometry.size_bytes = make.size_bytes;
    return place_chunks(want->at, make.where, make.rank, asking);
}

static nigh_status fill_change(const struct asked_for *want, const uint8_t *bytes,
                               struct region_asking *asking)
{
    struct region_ask *ask = &asking->ask;

    switch ((enum session_region_what)want->sqe->name_size) {
    case SESSION_REGION_GRANT: ask->kind = REGION_ASK_GRANT; return fill_grant(want, bytes, ask);
    case SESSION_REGION_RESIZE:
        ask->kind = REGION_ASK_RESIZE;
        return fill_resize(want, bytes, asking);
    case SESSION_REGION_MOVE:
        ask->kind = REGION_ASK_MOVE;
        ask->chunk = (uint32_t)min_u64(want->id.offset, UINT32_MAX);
        ask->node = (uint32_t)min_u64(want->sqe->ref, UINT32_MAX);
        return ask->node < lane_regions_ranks(want->lane) ? NIGH_OK : NIGH_INVALID;
    case SESSION_REGION_FREE: ask->kind = REGION_ASK_FREE; return NIGH_OK;
    default: ask->kind = REGION_ASK_CREATE; return fill_create(want, bytes, asking);
    }
}

/* Of what is open: the name, and which region of that name. */
static nigh_status fill_region(const struct asked_for *want, struct region_asked *asked)
{
    struct region_handle *handle = find_handle(want);
    struct region_ask *ask = &asked->asking.ask;
    uint32_t name_bytes;
    const char *name;

    if (want->sqe->name_size == SESSION_REGION_CREATE)
        return NIGH_OK;
    if (handle == NULL)
        return NIGH_INVALID;
    if ((handle->asked & REGION_MASTER) == 0)
        return NIGH_DENIED;
    asked->use = handle->region;
    name = region_name(asked->use->region, &name_bytes);
    memcpy(asked->asking.name, name, name_bytes);
    ask->name_bytes = (uint8_t)name_bytes;
    ask->birth = handle->birth;
    return NIGH_OK;
}

static void answer_change(const struct asked_for *want, const uint8_t *bytes)
{
    struct lane_regions *at = want->at;
    const struct lane_session *session = &at->lane->sessions[want->slot];
    struct region_asked *asked = lane_region_asked_take(at, want->slot, NULL);
    nigh_status status = asked == NULL ? NIGH_OVERLOADED : fill_region(want, asked);

    if (status == NIGH_OK)
        status = fill_change(want, bytes, &asked->asking);
    if (status != NIGH_OK) {
        if (asked != NULL)
            lane_region_asked_drop(at, asked);
        complete(want, status);
        return;
    }
    asked->asking.ask.name = asked->asking.name;
    asked->asking.ask.uid = session->seat->uid;
    asked->asking.ask.gid = session->seat->gid;
    asked->begun = session->begun;
    asked->cookie = want->sqe->cookie;
    asked->deadline_us = want->deadline_us;
    lane_region_ask_begin(at, asked);
}

/* ---- submissions ---------------------------------------------------------- */

static bool is_sound(const struct asked_for *want)
{
    const struct session_sqe *sqe = want->sqe;
    bool moves = sqe->name_size == SESSION_REGION_READ || sqe->name_size == SESSION_REGION_WRITE;
    uint32_t known = moves                                  ? SESSION_FLAG_INTO
                     : sqe->name_size == SESSION_REGION_MAP ? SESSION_FLAG_WRITES
                                                            : 0;
    bool is_read = sqe->name_size == SESSION_REGION_READ && sqe->flags == 0;

    return want->at != NULL && (sqe->flags & ~known) == 0 && sqe->name_size != 0 &&
           sqe->name_size < SESSION_REGION_WHATS && sqe->data_size <= LIMIT_CALL_BYTES &&
           (!is_read || sqe->ref <= LIMIT_CALL_BYTES) && sqe->meta_size == 0;
}

void lane_region(struct lane *lane, uint32_t slot, const struct session_sqe *sqe)
{
    struct asked_for want = {.lane = lane,
                             .at = lane->regions,
                             .slot = slot,
                             .sqe = sqe,
                             .deadline_us = clock_deadline_us(lane->now_us, sqe->argument)};
    uint64_t most = sqe->data_size;
    const uint8_t *bytes = NULL;

    memcpy(&want.id, sqe->id, LIMIT_ID_BYTES);
    if (!is_sound(&want)) {
        complete(&want, NIGH_INVALID);
        return;
    }
    if (!lane->sessions[slot].seat->may_write && sqe->name_size != SESSION_REGION_LIST) {
        complete(&want, NIGH_DENIED);
        return;
    }
    if (!lane_regions_are_served(lane)) {
        complete(&want, NIGH_UNSUPPORTED);
        return;
    }
    if (sqe->name_size == SESSION_REGION_READ && sqe->flags == 0)
        most = max_u64(most, sqe->ref);
    if (sqe->name_size == SESSION_REGION_STAT)
        most = max_u64(most, sizeof(struct session_region_stat));
    if (sqe->name_size == SESSION_REGION_LIST)
        most = sizeof(struct session_region_page);
    if (most > 0) {
        bytes = lane_placed(lane, slot, sqe->offset, most);
        if (bytes == NULL) {
            complete(&want, NIGH_INVALID);
            return;
        }
    }
    if (want.at->has_limits && lane_region_need_handles(want.at, slot) == NULL) {
        complete(&want, NIGH_NO_RESOURCES); /* where its rates are */
        return;
    }
    ORDER_HEARD();
    switch ((enum session_region_what)sqe->name_size) {
    case SESSION_REGION_OPEN: answer_open(&want, bytes); break;
    case SESSION_REGION_CLOSE: answer_close(&want); break;
    case SESSION_REGION_LOCK: answer_lock(&want, bytes); break;
    case SESSION_REGION_COPY: answer_copy(&want, bytes); break;
    case SESSION_REGION_LIST: answer_list(&want, bytes); break;
    case SESSION_REGION_READ:
    case SESSION_REGION_WRITE:
    case SESSION_REGION_ADD:
    case SESSION_REGION_SWAP:
    case SESSION_REGION_BARRIER:
    case SESSION_REGION_FILL:
    case SESSION_REGION_MAP:
    case SESSION_REGION_STAT: answer_io(&want, bytes); break;
    case SESSION_REGION_UNMAP:
        complete(&want, lane_region_unmap(want.at, slot, want.id.number));
        break;
    default: answer_change(&want, bytes); break;
    }
    lane_regions_tell(lane->regions);
}

bool lane_cancel_region(struct lane *lane, uint32_t slot, uint32_t cookie)
{
    struct lane_regions *at = lane->regions;

    if (at == NULL)
        return false;
    LIST_FOREACH(node, &at->ios[slot])
    {
        struct region_io *io = container_of(node, struct region_io, link);

        if (io->is_told || io->piece != NULL || io->begun != lane->sessions[slot].begun ||
            io->cookie != cookie)
            continue;
        lane_region_io_end(at, io, NIGH_CANCELED);
        lane_regions_tell(at);
        return true;
    }
    return lane_region_copies_cancel(at, slot, cookie) ||
           lane_region_lists_cancel(at, slot, cookie) || lane_region_asks_cancel(at, slot, cookie);
}
