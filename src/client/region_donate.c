/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of memory that is there already: a memory file, which goes to the node over the socket,
 * and is a region's by the question that names it; or, at an embedded node, memory of this process.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "client/error.h"
#include "client/region.h"
#include "client/socket.h"
#include "memory/memfd.h"

_Static_assert(NIGH_REGION_DONATED == SESSION_REGION_DONATED, "it is public");

#define DONATES_FILE   "nigh_region_donate"
#define DONATES_MEMORY "nigh_region_donate_memory"

/* Of what was asked for, how it ended, as far as it means something else than of other regions. */
static nigh_status tell(const struct client_op *op, bool is_file, nigh_status status)
{
    const char *call = is_file ? DONATES_FILE : DONATES_MEMORY;

    switch (status) {
    case NIGH_CLOSED:
        return error_set(op->client, status, "%s: the connection to the node ended meanwhile",
                         call);
    case NIGH_INVALID:
        return error_set(op->client, status, "%s: %s", call,
                         is_file ? "the memfd was sealed against writing meanwhile"
                                 : "the memory is not all mapped, or may not be written");
    case NIGH_OUT_OF_MEMORY:
        return error_set(op->client, status, "%s: %s", call,
                         is_file ? "not all of its pages can be there: the node's machine, or its "
                                   "control group, has not so much memory left"
                                 : "the node has not so much left of its --region-memory, for "
                                   "which this counts, too, or its machine of its memory");
    case NIGH_LIMIT:
        return error_set(op->client, status, "%s: a node has as many regions as it may", call);
    case NIGH_BUSY:
        return error_set(op->client, status,
                         "%s: the members of the cluster have just changed, or a region of this "
                         "name is about to go: see whether it is there, and try again",
                         call);
    default: return region_explain(op, status);
    }
}

static nigh_status check(nigh_client *client, const nigh_region_spec *spec, const void *out,
                         const char *call)
{
    nigh_status status = region_check_open(client, spec == NULL ? NULL : spec->name, out, call);

    if (status == NIGH_OK) {
        status = region_check_spec(client, spec, call);
    }
    if (status != NIGH_OK) {
        return status;
    }
    if (spec->struct_size < sizeof(*spec)) {
        return error_set(client, NIGH_INVALID, "%s: set struct_size to sizeof(nigh_region_spec)",
                         call);
    }
    if (spec->where != NIGH_REGION_LOCAL || spec->rank != 0 || spec->chunk_size != 0 ||
        spec->flags != 0 || spec->near != NULL) {
        return error_set(client, NIGH_INVALID,
                         "%s: the memory is where it is, in one chunk, and nobody else maps it: a "
                         "name, a size and rights are all there is to say",
                         call);
    }
    if (((spec->group_access | spec->other_access) & ~NIGH_REGION_ALL) != 0) {
        return error_set(client, NIGH_INVALID, "%s: there are no such rights", call);
    }
    return NIGH_OK;
}

/* `which` is what `how` says: a number, of this connection, or an address, of any (NULL). */
static nigh_status create(nigh_client *client, const nigh_region_spec *spec, uint32_t how,
                          uint64_t which, const uint32_t *connection, uint64_t deadline_us,
                          struct client_op *op)
{
    uint8_t question[sizeof(struct session_region_make) + LIMIT_REGION_NAME_BYTES];
    struct session_region_make make = {.size_bytes = spec->size,
                                       .chunk_bytes = which,
                                       .where = SESSION_REGION_LOCAL | how,
                                       .group_rights = spec->group_access,
                                       .other_rights = spec->other_access};
    size_t name_bytes = strlen(spec->name);

    memcpy(question, &make, sizeof(make));
    memcpy(question + sizeof(make), spec->name, name_bytes);
    region_init(op, client, NULL, SESSION_REGION_CREATE, 0);
    op->deadline_us = deadline_us;
    op->u.region.connection = connection;
    op->u.place.bytes = question;
    op->u.place.count = (uint32_t)(sizeof(make) + name_bytes);
    return op_run(op);
}

/* The region is there: what would say that it is not, and that its memory is free, is not said. */
static nigh_status open_created(const struct client_op *op, const char *name, nigh_region **region)
{
    nigh_status status =
        region_open_named(op->client, name, NIGH_REGION_ALL, op_remaining_us(op), region);

    switch (status) {
    case NIGH_INVALID:
    case NIGH_EXISTS:
    case NIGH_UNSUPPORTED:
    case NIGH_DENIED:
    case NIGH_OVERLOADED:
        return error_set(op->client, NIGH_BUSY,
                         "%s: the region was created, and could not be opened now (%s): open it, "
                         "or have it freed",
                         op->u.region.connection != NULL ? DONATES_FILE : DONATES_MEMORY,
                         nigh_status_name(status));
    default: return status;
    }
}

/* Which seals it lacks, and how one comes to have them. */
static nigh_status tell_seals(nigh_client *client, int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    bool shrinks = (seals & F_SEAL_SHRINK) == 0, grows = (seals & F_SEAL_GROW) == 0;

    return error_set(client, NIGH_INVALID,
                     DONATES_FILE ": the memfd is not sealed against %s%s%s: it lacks %s%s%s%s",
                     shrinks ? "shrinking" : "", shrinks && grows ? " and " : "",
                     grows ? "growing" : "", shrinks ? "F_SEAL_SHRINK" : "",
                     shrinks && grows ? " and " : "", grows ? "F_SEAL_GROW" : "",
                     seals >= 0 && (seals & F_SEAL_SEAL) != 0
                         ? ", and takes no more seals (memfd_create with MFD_ALLOW_SEALING)"
                         : " (fcntl F_ADD_SEALS)");
}

/* What of a descriptor keeps it from being donated, as the caller's own system tells. */
static nigh_status check_file(nigh_client *client, int fd, uint64_t bytes)
{
    struct stat st = {.st_size = 0};

    switch (memfd_look_at_given(fd, bytes)) {
    case MEMFD_LACKS_NOTHING: return NIGH_OK;
    case MEMFD_LACKS_FILE:
        return error_set(client, NIGH_INVALID, DONATES_FILE ": %d is no open descriptor", fd);
    case MEMFD_LACKS_SEALS:
        return error_set(client, NIGH_INVALID,
                         DONATES_FILE ": the descriptor is not one of a memfd (memfd_create)");
    case MEMFD_LACKS_PAGES:
        return error_set(client, NIGH_INVALID,
                         DONATES_FILE ": the memfd is of huge pages (MFD_HUGETLB), and is to be of "
                                      "ordinary ones");
    case MEMFD_LACKS_MODE:
        return error_set(client, NIGH_INVALID,
                         DONATES_FILE ": the descriptor is not open to read and write (O_RDWR)");
    case MEMFD_LACKS_SIZE:
        (void)fstat(fd, &st);
        return error_set(client, NIGH_INVALID,
                         DONATES_FILE ": the memfd has %llu bytes, and the region %llu",
                         (unsigned long long)st.st_size, (unsigned long long)bytes);
    case MEMFD_LACKS_BOUNDS: return tell_seals(client, fd);
    case MEMFD_LACKS_WRITING:
        return error_set(client, NIGH_INVALID,
                         DONATES_FILE ": the memfd is sealed against writing (F_SEAL_WRITE, "
                                      "F_SEAL_FUTURE_WRITE), and regions are written");
    }
    return NIGH_INVALID;
}

static nigh_status check_size(nigh_client *client, uint64_t bytes)
{
    if (bytes == 0 || bytes % LIMIT_REGION_UNIT_BYTES != 0 || bytes > LIMIT_REGION_CHUNK_BYTES) {
        return error_set(client, NIGH_INVALID,
                         DONATES_FILE ": the size is a multiple of %d, and at most a TiB; not %llu",
                         LIMIT_REGION_UNIT_BYTES, (unsigned long long)bytes);
    }
    return NIGH_OK;
}

static nigh_status offer(nigh_client *client, int fd, uint64_t bytes, struct donated *donated)
{
    nigh_status status;

    client_lock(client);
    status = socket_donate(client, fd, bytes, donated);
    client_unlock(client);
    switch (status) {
    case NIGH_UNSUPPORTED:
        return error_set(client, status,
                         DONATES_FILE ": the node is older than this libnigh, or one of a "
                                      "cluster whose nodes agree on nothing (nighd --state)");
    case NIGH_OVERLOADED:
        return error_set(client, status, DONATES_FILE ": %d others of this client are under way",
                         LIMIT_SESSION_DONATIONS);
    case NIGH_OUT_OF_MEMORY:
        return error_set(client, status,
                         DONATES_FILE ": the node has not so much left of its "
                                      "--region-memory, for which this counts, too");
    case NIGH_LIMIT:
        if (!donated->is_answered) {
            return error_set(client, status,
                             DONATES_FILE ": this user has too many descriptors in messages "
                                          "that nobody has read (ulimit -n)");
        }
        return error_set(client, status,
                         DONATES_FILE ": the node has %d chunks that are files, which is all "
                                      "there may be",
                         LIMIT_REGION_FILES);
    case NIGH_NO_RESOURCES:
        return error_set(client, status,
                         donated->is_answered
                             ? DONATES_FILE ": the node may not have one more descriptor, or "
                                            "is closing too many that clients sent: try again"
                             : DONATES_FILE ": the system has no room for the message");
    case NIGH_INVALID:
        return error_set(client, status,
                         DONATES_FILE ": the memfd was changed meanwhile: its size, its seals");
    default: return status == NIGH_OK ? status : error_note_end(client, status);
    }
}

/* The question may have come to the node, or not. */
static void take_back(nigh_client *client, const struct donated *donated)
{
    client_lock(client);
    socket_donate_drop(client, donated);
    client_unlock(client);
}

nigh_status nigh_region_donate(nigh_client *client, const nigh_region_spec *spec, int fd,
                               uint64_t timeout_us, nigh_region **region)
{
    uint64_t deadline_us = op_deadline_us(timeout_us);
    nigh_status status = check(client, spec, region, DONATES_FILE);
    struct donated donated;
    struct client_op op;

    if (status == NIGH_OK) {
        status = check_size(client, spec->size);
    }
    if (status == NIGH_OK) {
        status = check_file(client, fd, spec->size);
    }
    if (status == NIGH_OK) {
        status = offer(client, fd, spec->size, &donated);
    }
    if (status != NIGH_OK) {
        return status;
    }
    status = create(client, spec, SESSION_REGION_DONATED, donated.number, &donated.connection,
                    deadline_us, &op);
    if (status != NIGH_OK) {
        take_back(client, &donated);
        return tell(&op, true, status);
    }
    return open_created(&op, spec->name, region);
}

nigh_status nigh_region_donate_memory(nigh_client *client, const nigh_region_spec *spec,
                                      void *memory, uint64_t timeout_us, nigh_region **region)
{
    uint64_t deadline_us = op_deadline_us(timeout_us);
    uint64_t address = (uint64_t)(uintptr_t)memory;
    nigh_status status = check(client, spec, region, DONATES_MEMORY);
    struct client_op op;

    if (status != NIGH_OK) {
        return status;
    }
    if (address == 0 || address % sizeof(uint64_t) != 0 || spec->size == 0 ||
        spec->size > LIMIT_REGION_CHUNK_BYTES) {
        return error_set(client, NIGH_INVALID,
                         DONATES_MEMORY ": the memory begins at a multiple of 8, and has "
                                        "1 byte to a TiB");
    }
    if (client->driver == NULL) {
        return error_set(client, NIGH_UNSUPPORTED,
                         DONATES_MEMORY ": only for clients of an embedded node: "
                                        "nigh_region_donate, of a memfd, is for all");
    }
    status = create(client, spec, SESSION_REGION_OWN, address, NULL, deadline_us, &op);
    return status == NIGH_OK ? open_created(&op, spec->name, region) : tell(&op, false, status);
}
