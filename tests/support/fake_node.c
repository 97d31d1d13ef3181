/* SPDX-License-Identifier: Apache-2.0 */
/* See fake_node.h. One thread, one session, one lock; memory is only ever taken, never given back.
 */
#include "support/fake_node.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/futex.h"
#include "base/hash.h"
#include "memory/memfd.h"
#include "nigh/object.h"
#include "support/support.h"

#define FAKE_ENTRIES 4096

static void fake_need(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "fake node: %s: %s\n", what, strerror(errno));
        abort();
    }
}

void fake_node_lock(struct fake_node *fake)
{
    (void)pthread_mutex_lock(&fake->lock);
}

void fake_node_unlock(struct fake_node *fake)
{
    (void)pthread_mutex_unlock(&fake->lock);
}

static void fake_poke_thread(struct fake_node *fake)
{
    const uint64_t one = 1;

    (void)!write(fake->control_fd, &one, sizeof(one));
}

void fake_node_look(struct fake_node *fake)
{
    fake_poke_thread(fake);
}

/* ---- memory -----------------------------------------------------------------------------------
 */

static void fake_make_memory(struct fake_node *fake)
{
    void *memory;

    fake_need(memfd_reserve(FAKE_EXTENTS * FAKE_EXTENT_BYTES, &memory) == NIGH_OK, "reserve");
    fake->arena = memory;
    for (uint32_t i = 0; i < FAKE_EXTENTS; i++) {
        fake_need(memfd_create_sealed("fake-extent", FAKE_EXTENT_BYTES, 0, &fake->extent_fds[i]) ==
                          NIGH_OK &&
                      memfd_reopen_read_only(fake->extent_fds[i], &fake->extent_read_fds[i]) ==
                          NIGH_OK &&
                      memfd_map_at(fake->arena + i * FAKE_EXTENT_BYTES, fake->extent_fds[i],
                                   FAKE_EXTENT_BYTES, MEMFD_WRITABLE) == NIGH_OK,
                  "extent");
    }
    fake_need(memfd_create_sealed("fake-page", sizeof(*fake->page), 0, &fake->page_fd) == NIGH_OK &&
                  memfd_reopen_read_only(fake->page_fd, &fake->page_read_fd) == NIGH_OK &&
                  memfd_map(fake->page_fd, sizeof(*fake->page), MEMFD_WRITABLE,
                            (void **)&fake->page) == NIGH_OK,
              "node page");
    fake->page->magic = SESSION_MAGIC;
    fake->page->lanes = fake->options.lanes;
    shared_store_relaxed(&fake->page->spaces_until_us, UINT64_MAX);
    for (uint32_t i = 0; i < fake->options.lanes; i++) {
        struct fake_lane *lane = &fake->lane[i];
        struct index index;

        lane->doorbell = -1;
        lane->index_bytes = index_size_bytes(FAKE_ENTRIES);
        fake_need(
            memfd_create_sealed("fake-index", lane->index_bytes, 0, &lane->index_fd) == NIGH_OK &&
                memfd_reopen_read_only(lane->index_fd, &lane->index_read_fd) == NIGH_OK &&
                memfd_map(lane->index_fd, lane->index_bytes, MEMFD_WRITABLE, &lane->index_memory) ==
                    NIGH_OK,
            "index");
        index_format(lane->index_memory, 0, i, fake->options.lanes, FAKE_ENTRIES, &index);
        fake_need(index_writer_init(&lane->writer, &index) == NIGH_OK, "index writer");
        shared_store_relaxed(&fake->page->lane[i].asleep, 1);
    }
}

static void fake_free_memory(struct fake_node *fake)
{
    memfd_unmap(fake->arena, FAKE_EXTENTS * FAKE_EXTENT_BYTES);
    for (uint32_t i = 0; i < FAKE_EXTENTS; i++) {
        fd_close(&fake->extent_fds[i]);
        fd_close(&fake->extent_read_fds[i]);
    }
    memfd_unmap(fake->page, sizeof(*fake->page));
    fd_close(&fake->page_fd);
    fd_close(&fake->page_read_fd);
    for (uint32_t i = 0; i < fake->options.lanes; i++) {
        index_writer_fini(&fake->lane[i].writer);
        memfd_unmap(fake->lane[i].index_memory, fake->lane[i].index_bytes);
        fd_close(&fake->lane[i].index_fd);
        fd_close(&fake->lane[i].index_read_fd);
        fd_close(&fake->lane[i].doorbell);
    }
}

/* Bytes for an object or a lease, in one extent; 0: none left. */
static bool fake_alloc(struct fake_node *fake, uint64_t bytes, uint64_t *offset)
{
    if (fake->bump / FAKE_EXTENT_BYTES != (fake->bump + bytes - 1) / FAKE_EXTENT_BYTES) {
        fake->bump = (fake->bump / FAKE_EXTENT_BYTES + 1) * FAKE_EXTENT_BYTES;
    }
    if (bytes > FAKE_EXTENT_BYTES || fake->bump + bytes > FAKE_EXTENTS * FAKE_EXTENT_BYTES) {
        return false;
    }
    *offset = fake->bump;
    fake->bump += bytes;
    return true;
}

/* ---- saying -----------------------------------------------------------------------------------
 */

void fake_node_wake(struct fake_node *fake)
{
    struct session_front *front = session_front_of(fake->memory);

    shared_fence();
    if (shared_load_relaxed(&front->waiting) != 0) {
        atomic_fetch_add(&front->wake, 1);
        (void)futex_wake(&front->wake, INT_MAX);
    }
    if (atomic_exchange(&front->poke_wanted, 0) != 0) {
        const struct session_message_header poke = {.magic = SESSION_MAGIC, .kind = SESSION_POKE};

        (void)fd_send_message(fake->socket_fd, &poke, sizeof(poke), NULL, 0);
    }
}

void fake_node_complete(struct fake_node *fake, uint32_t number, const struct session_cqe *cqe)
{
    struct fake_lane *lane = &fake->lane[number];
    struct session_lane *shared = session_lane_of(fake->memory, number);

    shared->cq[lane->cq_tail % LIMIT_RING_ENTRIES] = *cqe;
    shared_store_release(&shared->cq_tail.value, ++lane->cq_tail);
    fake_node_wake(fake);
}

void fake_node_event(struct fake_node *fake, uint32_t number, const struct session_event *event)
{
    struct fake_lane *lane = &fake->lane[number];
    struct session_lane *shared = session_lane_of(fake->memory, number);

    shared->events[lane->event_tail % LIMIT_EVENT_ENTRIES] = *event;
    shared_store_release(&shared->event_tail.value, ++lane->event_tail);
    fake_node_wake(fake);
}

/* ---- objects ----------------------------------------------------------------------------------
 */

static bool fake_find(struct fake_node *fake, uint32_t lane, const uint8_t *id, uint32_t *entry)
{
    return index_find(&fake->lane[lane].writer, id, hash_id20(id), entry);
}

/* Answers a GET of an object that is there: a lane pin, and where it is. */
static void fake_answer_get(struct fake_node *fake, uint32_t number, uint32_t cookie,
                            uint32_t entry)
{
    struct session_lane *shared = session_lane_of(fake->memory, number);
    const struct index_entry *from = &fake->lane[number].writer.index.entries[entry];
    struct session_cqe cqe = {
        .cookie = cookie,
        .offset = from->offset,
        .data_size = from->data_size,
        .meta_size = from->meta_size,
        .name_size = from->name_size,
        .ref = entry,
        .generation = index_word_generation(shared_load_relaxed(&from->word)),
    };

    for (cqe.pin = 0; shared_load_relaxed(&shared->pin_entry[cqe.pin]) != 0; cqe.pin++) {
    }
    shared_store_relaxed(&shared->pin_generation[cqe.pin], cqe.generation);
    shared_store_release(&shared->pin_entry[cqe.pin], pin_ref(number, entry));
    fake_node_complete(fake, number, &cqe);
}

static void fake_drop_held(struct fake_node *fake, uint32_t i)
{
    fake->held[i] = fake->held[--fake->held_count];
}

/* Gets that wait: their object came, or their time. Returns when to look again. */
static uint64_t fake_look_at_held(struct fake_node *fake, uint64_t now_us)
{
    uint64_t next_us = UINT64_MAX;

    for (uint32_t i = 0; i < fake->held_count;) {
        struct fake_held *held = &fake->held[i];
        struct session_cqe late = {
            .cookie = held->cookie, .status = NIGH_TIMEOUT, .pin = SESSION_NO_PIN};
        uint32_t entry;

        if (fake_find(fake, held->lane, held->id, &entry)) {
            fake_answer_get(fake, held->lane, held->cookie, entry);
        } else if (now_us >= held->deadline_us) {
            fake_node_complete(fake, held->lane, &late);
        } else {
            next_us = next_us < held->deadline_us ? next_us : held->deadline_us;
            i++;
            continue;
        }
        fake_drop_held(fake, i);
    }
    return next_us;
}

static void fake_insert(struct fake_node *fake, uint32_t number, const struct index_fill *fill,
                        enum index_state state, uint32_t *entry, uint64_t *generation)
{
    struct fake_lane *lane = &fake->lane[number];

    fake_need(index_take(&lane->writer, entry) == NIGH_OK, "index entry");
    *generation = index_entry_fill(&lane->writer, *entry, fill, state);
}

static void fake_serve_seal(struct fake_node *fake, uint32_t number, const struct session_sqe *sqe,
                            struct session_cqe *cqe)
{
    struct fake_lane *lane = &fake->lane[number];
    uint32_t entry;
    uint64_t generation;

    atomic_fetch_add(&fake->seals, 1);
    if (fake_find(fake, number, sqe->id, &entry)) {
        cqe->status = NIGH_EXISTS;
    } else if ((sqe->flags & SESSION_FLAG_LEASED) != 0) {
        struct index_fill fill = {.id = sqe->id,
                                  .incarnation = 1,
                                  .offset = sqe->offset,
                                  .data_size = sqe->data_size,
                                  .meta_size = sqe->meta_size,
                                  .name_size = sqe->name_size};

        fake_insert(fake, number, &fill, INDEX_SEALED, &entry, &generation);
        index_insert(&lane->writer, hash_id20(sqe->id), entry);
    } else {
        index_seal(&lane->writer, (uint32_t)sqe->ref, 1);
        index_insert(&lane->writer, hash_id20(sqe->id), (uint32_t)sqe->ref);
    }
}

static void fake_grant_lease(struct fake_node *fake, uint64_t asked, struct session_cqe *cqe)
{
    uint64_t bytes =
        fake->options.lease_bytes != 0 ? fake->options.lease_bytes : LIMIT_LEASE_BYTES_MIN;

    if (bytes > asked && bytes != LIMIT_LEASE_BYTES_MIN) {
        bytes = asked;
    }
    if (bytes > 1 && fake_alloc(fake, bytes, &cqe->lease_offset)) {
        cqe->lease_bytes = bytes;
        atomic_fetch_add(&fake->leases, 1);
    }
}

static void fake_serve_create(struct fake_node *fake, uint32_t number,
                              const struct session_sqe *sqe, struct session_cqe *cqe)
{
    struct index_fill fill = {.id = sqe->id,
                              .incarnation = 1,
                              .data_size = sqe->data_size,
                              .meta_size = sqe->meta_size,
                              .name_size = sqe->name_size};
    uint64_t bytes = index_object_bytes(sqe->data_size, sqe->meta_size, sqe->name_size);

    if (!fake_alloc(fake, bytes, &fill.offset)) {
        cqe->status = NIGH_OUT_OF_MEMORY;
        return;
    }
    fake_insert(fake, number, &fill, INDEX_CREATED, &cqe->ref, &cqe->generation);
    cqe->offset = fill.offset;
}

/* Answered later, or at once. True: a completion is due now. */
static bool fake_serve_get(struct fake_node *fake, uint32_t number, const struct session_sqe *sqe,
                           struct session_cqe *cqe)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);
    uint32_t entry;

    if (fake_find(fake, number, sqe->id, &entry)) {
        fake_answer_get(fake, number, sqe->cookie, entry);
        return false;
    }
    if (sqe->argument == 0 || fake->held_count == FAKE_HELD_MAX) {
        cqe->status = sqe->argument == 0 ? NIGH_TIMEOUT : NIGH_LIMIT;
        return true;
    }
    fake->held[fake->held_count] = (struct fake_held){
        .lane = number,
        .cookie = sqe->cookie,
        .deadline_us = clock_deadline_us(now_us, sqe->argument),
    };
    memcpy(fake->held[fake->held_count++].id, sqe->id, LIMIT_ID_BYTES);
    return false;
}

static void fake_serve_cancel(struct fake_node *fake, uint32_t number,
                              const struct session_sqe *sqe, struct session_cqe *cqe)
{
    struct session_cqe ended = {
        .cookie = (uint32_t)sqe->argument, .status = NIGH_CANCELED, .pin = SESSION_NO_PIN};

    atomic_fetch_add(&fake->cancels, 1);
    cqe->status = NIGH_NOT_FOUND;
    for (uint32_t i = 0; i < fake->held_count; i++) {
        if (fake->held[i].lane == number && fake->held[i].cookie == ended.cookie) {
            fake_drop_held(fake, i);
            fake_node_complete(fake, number, &ended);
            cqe->status = NIGH_OK;
            return;
        }
    }
}

static void fake_serve_known(struct fake_node *fake, uint32_t number, const struct session_sqe *sqe,
                             struct session_cqe *cqe)
{
    struct fake_lane *lane = &fake->lane[number];
    uint32_t entry = 0;

    if (!fake_find(fake, number, sqe->id, &entry)) {
        cqe->status = NIGH_NOT_FOUND;
        return;
    }
    cqe->ref = entry;
    cqe->generation = index_word_generation(index_word_at(&lane->writer, entry));
    if (sqe->op == SESSION_OP_DELETE) {
        index_remove(&lane->writer, hash_id20(sqe->id), entry);
        index_release(&lane->writer, entry);
    } else if (sqe->op == SESSION_OP_CHECKSUM) {
        cqe->data_size = 0x1234;
    } else if (sqe->op == SESSION_OP_STAT) {
        cqe->data_size = 7;
    }
}

/* Two sessions hold what anybody asks for; the first in every lane. */
static void fake_serve_holders(struct fake_node *fake, uint32_t number, struct session_cqe *cqe)
{
    struct session_holder records[2] = {
        {.session = 1,
         .pid = 4711,
         .uid = 1,
         .views = 3,
         .size_bytes = 900 << 20,
         .name = "trainer"},
        {.session = 2 + number,
         .pid = 42,
         .uid = 2,
         .views = 1,
         .size_bytes = 60 << 20,
         .name = "loader"},
    };

    memcpy(session_lane_of(fake->memory, number)->reply, records, sizeof(records));
    cqe->data_size = 2;
    cqe->generation = (UINT64_C(196) << 20) >> number;
}

static void fake_serve_stats(struct fake_node *fake, uint32_t number, struct session_cqe *cqe)
{
    nigh_node_stats stats = {.memory_bytes = 512 << 20,
                             .used_bytes = 480 << 20,
                             .pinned_bytes = 30 << 20,
                             .objects = fake->lane[number].writer.taken,
                             .index_entries = 1000,
                             .index_used = 500,
                             .index_full = 1, /* once */
                             .uptime_us = 5};

    cqe->data_size = sizeof(stats) - offsetof(nigh_node_stats, memory_bytes);
    memcpy(session_lane_of(fake->memory, number)->reply,
           (const uint8_t *)&stats + offsetof(nigh_node_stats, memory_bytes), cqe->data_size);
}

static bool fake_serve(struct fake_node *fake, uint32_t number, const struct session_sqe *sqe,
                       struct session_cqe *cqe)
{
    switch (sqe->op) {
    case SESSION_OP_LEASE:
        fake_grant_lease(fake, sqe->argument, cqe);
        cqe->status = cqe->lease_bytes != 0 ? NIGH_OK : NIGH_OUT_OF_MEMORY;
        return true;
    case SESSION_OP_LEASE_CLOSE: atomic_fetch_add(&fake->lease_closes, 1); return true;
    case SESSION_OP_CREATE: fake_serve_create(fake, number, sqe, cqe); return true;
    case SESSION_OP_SEAL:
        fake_serve_seal(fake, number, sqe, cqe);
        if ((sqe->flags & SESSION_FLAG_RENEW) != 0) {
            fake_grant_lease(fake, sqe->argument, cqe);
        }
        return true;
    case SESSION_OP_ABORT:
        atomic_fetch_add(&fake->aborts, 1);
        index_release(&fake->lane[number].writer, (uint32_t)sqe->ref);
        return true;
    case SESSION_OP_GET: return fake_serve_get(fake, number, sqe, cqe);
    case SESSION_OP_CANCEL: fake_serve_cancel(fake, number, sqe, cqe); return true;
    case SESSION_OP_DELETE:
    case SESSION_OP_KEEP:
    case SESSION_OP_UNKEEP:
    case SESSION_OP_CHECKSUM:
    case SESSION_OP_STAT:
    case SESSION_OP_CONTAINS: fake_serve_known(fake, number, sqe, cqe); return true;
    case SESSION_OP_EVICT: cqe->data_size = sqe->argument; return true;
    case SESSION_OP_WHO:
    case SESSION_OP_HOLDERS: fake_serve_holders(fake, number, cqe); return true;
    case SESSION_OP_STATS: fake_serve_stats(fake, number, cqe); return true;
    case SESSION_OP_RESERVE:
        cqe->data_size = FAKE_EXTENTS * FAKE_EXTENT_BYTES / fake->options.lanes;
        return true;
    default: return true;
    }
}

/* ---- the rings --------------------------------------------------------------------------------
 */

static void fake_take(struct fake_node *fake, uint32_t number, const struct session_sqe *sqe)
{
    struct session_cqe cqe = {.cookie = sqe->cookie, .pin = SESSION_NO_PIN};
    enum fake_action action = FAKE_SERVE;

    atomic_fetch_add(&fake->submissions, 1);
    if (fake->options.hook != NULL) {
        action = fake->options.hook(fake->options.context, fake, number, sqe, &cqe);
    }
    if (action == FAKE_SERVE) {
        cqe = (struct session_cqe){.cookie = sqe->cookie, .pin = SESSION_NO_PIN};
        if (!fake_serve(fake, number, sqe, &cqe)) {
            return;
        }
    } else if (action == FAKE_ANSWER) {
        cqe.cookie = sqe->cookie;
    } else if (action == FAKE_KEEP) {
        return;
    }
    fake_node_complete(fake, number, &cqe);
}

/* Whether there was something. */
static bool fake_look_at_rings(struct fake_node *fake)
{
    bool taken = false;

    for (uint32_t i = 0; i < fake->options.lanes && fake->attached; i++) {
        struct session_lane *shared = session_lane_of(fake->memory, i);
        struct fake_lane *lane = &fake->lane[i];

        shared_store_relaxed(session_ready(shared, 0), 0);
        shared_fence();
        while (lane->sq_head != shared_load_acquire(&shared->sq_tail.value)) {
            struct session_sqe sqe = shared->sq[lane->sq_head % LIMIT_RING_ENTRIES];

            shared_store_release(&shared->sq_head.value, ++lane->sq_head);
            fake_take(fake, i, &sqe);
            taken = true;
        }
    }
    return taken;
}

/* ---- the socket -------------------------------------------------------------------------------
 */

static void fake_make_session(struct fake_node *fake)
{
    struct session_front *front;

    if (fake->memory != NULL) {
        memfd_unmap(fake->memory, fake->memory_bytes);
        fd_close(&fake->session_fd);
    }
    fake->memory_bytes = (fake->options.rights & SESSION_HAS_PLACES) != 0
                             ? session_file_bytes(fake->options.lanes)
                             : session_memory_bytes(fake->options.lanes);
    fake_need(memfd_create_sealed("fake-session", fake->memory_bytes, 0, &fake->session_fd) ==
                      NIGH_OK &&
                  memfd_map(fake->session_fd, fake->memory_bytes, MEMFD_WRITABLE, &fake->memory) ==
                      NIGH_OK,
              "session");
    fake->session++;
    front = session_front_of(fake->memory);
    front->magic = SESSION_MAGIC;
    front->lanes = fake->options.lanes;
    front->session = fake->session;
}

static void fake_reset_rings(struct fake_node *fake)
{
    fake->held_count = 0;
    for (uint32_t i = 0; i < fake->options.lanes; i++) {
        struct session_lane *shared = session_lane_of(fake->memory, i);
        struct fake_lane *lane = &fake->lane[i];

        lane->sq_head = lane->cq_tail = lane->event_tail = 0;
        shared_store_relaxed(&shared->sq_tail.value, 0);
        shared_store_relaxed(&shared->sq_head.value, 0);
        shared_store_relaxed(&shared->cq_tail.value, 0);
        shared_store_relaxed(&shared->cq_head.value, 0);
        shared_store_relaxed(&shared->event_tail.value, 0);
        shared_store_relaxed(&shared->event_head.value, 0);
        fd_close(&lane->doorbell);
        lane->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    }
}

static void fake_welcome(struct fake_node *fake, int32_t status)
{
    struct session_welcome welcome = {
        .header = {.magic = SESSION_MAGIC, .kind = SESSION_WELCOME},
        .status = status,
        .version = fake->options.version != 0 ? fake->options.version : SESSION_VERSION_MAX,
        .rights = fake->options.read_only ? 0 : SESSION_MAY_WRITE | fake->options.rights,
        .lanes = fake->options.lanes,
        .session = fake->session,
        .extent_bytes = FAKE_EXTENT_BYTES,
        .arena_bytes = LIMIT_EXTENTS * FAKE_EXTENT_BYTES,
        .session_bytes = session_memory_bytes(fake->options.lanes),
        .spin_us = fake->options.spin_us,
        .incarnation = shared_load_relaxed(&fake->page->incarnation),
        .pool = "fake",
    };
    int fds[SESSION_WELCOME_FDS(FAKE_LANES_MAX)];
    size_t count = 0;

    memset(welcome.token, 0x5a, sizeof(welcome.token));
    if (fake->options.bad_welcome) {
        welcome.extent_bytes = 4096 * 3;
    }
    if (fake->options.sentence != NULL) {
        (void)snprintf(welcome.sentence, sizeof(welcome.sentence), "%s", fake->options.sentence);
    }
    if (status == NIGH_OK) {
        fds[count++] = fake->page_read_fd;
        fds[count++] = fake->session_fd;
        for (uint32_t i = 0; i < fake->options.lanes; i++) {
            fds[count++] = fake->lane[i].index_read_fd;
            fds[count++] = fake->lane[i].doorbell;
        }
    }
    (void)fd_send_message(fake->socket_fd, &welcome, sizeof(welcome), fds, count);
    fake->attached = status == NIGH_OK;
    if (status != NIGH_OK) {
        fd_close(&fake->socket_fd);
    }
}

static void fake_take_hello(struct fake_node *fake, const struct session_hello *hello)
{
    bool resumes = (hello->flags & SESSION_HELLO_RESUME) != 0;

    atomic_store(&fake->last_flags, hello->flags);
    atomic_fetch_add(&fake->hellos, 1);
    if (fake->options.refuse != 0) {
        fake_welcome(fake, fake->options.refuse);
        return;
    }
    if (resumes && (fake->options.forget_sessions || hello->session != fake->session ||
                    hello->token[0] != 0x5a)) {
        fake_welcome(fake, NIGH_NOT_FOUND);
        return;
    }
    if (resumes) {
        atomic_fetch_add(&fake->resumes, 1);
    } else {
        fake_make_session(fake);
    }
    fake_reset_rings(fake);
    fake_welcome(fake, NIGH_OK);
}

static void fake_grant_extent(struct fake_node *fake, const struct session_extent *request)
{
    struct session_grant grant = {
        .header = {.magic = SESSION_MAGIC, .kind = SESSION_GRANT},
        .status = request->extent < FAKE_EXTENTS ? NIGH_OK : NIGH_DENIED,
        .extent = request->extent,
    };
    const int *fds = request->writable != 0 ? fake->extent_fds : fake->extent_read_fds;

    (void)fd_send_message(fake->socket_fd, &grant, sizeof(grant),
                          grant.status == NIGH_OK ? &fds[request->extent] : NULL,
                          grant.status == NIGH_OK ? 1 : 0);
}

static void fake_take_extent(struct fake_node *fake, const struct session_extent *request)
{
    atomic_fetch_add(&fake->extents_asked, 1);
    if (fake->late_count < fake->options.late_grants) {
        fake->late[fake->late_count++] = *request;
        return;
    }
    for (uint32_t i = 0; i < fake->late_count; i++) {
        fake_grant_extent(fake, &fake->late[i]);
    }
    fake->late_count = 0;
    fake->options.late_grants = 0;
    fake_grant_extent(fake, request);
}

/* Any memory, and any chunk, is the first extent. */
static void fake_give_file(struct fake_node *fake, const struct session_bulk_file *request,
                           uint16_t kind)
{
    struct session_bulk_file file = *request;

    file.header.kind = kind;
    if (kind == SESSION_BULK && fake->options.bulks_lost > 0) {
        fake->options.bulks_lost--;
        file.status = NIGH_NOT_FOUND;
    }
    (void)fd_send_message(fake->socket_fd, &file, sizeof(file), fake->extent_fds,
                          file.status == NIGH_OK ? 1 : 0);
}

static void fake_give_space(struct fake_node *fake, const struct session_bulk_file *request)
{
    struct session_bulk_file file = *request;
    int fd =
        fake->options.file != NULL ? fake->options.file(fake->options.context, file.number) : -1;

    file.header.kind = SESSION_SPACE_FILE;
    file.status = fd >= 0 ? NIGH_OK : NIGH_NOT_FOUND;
    (void)fd_send_message(fake->socket_fd, &file, sizeof(file), &fd, fd >= 0 ? 1 : 0);
}

void fake_node_donated(struct fake_node *fake)
{
    struct session_donation donated = {
        .header = {.magic = SESSION_MAGIC, .kind = SESSION_DONATED},
        .status = fake->options.donation_status,
        .serial = fake->donated.serial,
        .number = atomic_load(&fake->donations),
    };

    (void)fd_send_message(fake->socket_fd, &donated, sizeof(donated), NULL, 0);
}

static void fake_take_donation(struct fake_node *fake, const struct session_donation *donation)
{
    if (donation->header.kind == SESSION_DONATE_DROP) {
        fake->dropped = *donation;
        atomic_fetch_add(&fake->drops, 1);
        return;
    }
    if (fake->options.begins_anew) {
        fake->options.begins_anew = false;
        shared_store_release(&fake->page->incarnation,
                             shared_load_relaxed(&fake->page->incarnation) + 1);
    }
    fake->donated = *donation;
    atomic_fetch_add(&fake->donations, 1);
    if (!fake->options.keeps_donations) {
        fake_node_donated(fake);
    }
}

static void fake_look_at_socket(struct fake_node *fake)
{
    union {
        struct session_message_header header;
        struct session_hello hello;
        struct session_extent extent;
        struct session_bulk_file bulk;
        struct session_donation donation;
        uint8_t bytes[LIMIT_SESSION_MESSAGE_BYTES];
    } message;
    size_t size_bytes, fd_count;
    int fd;

    while (fake->socket_fd >= 0 && !fake->options.silent) {
        nigh_status status = fd_recv_message(fake->socket_fd, &message, sizeof(message),
                                             &size_bytes, &fd, 1, &fd_count);

        if (status == NIGH_BUSY) {
            return;
        }
        if (status != NIGH_OK) {
            fake->attached = false;
            fd_close(&fake->socket_fd);
            return;
        }
        if (message.header.kind == SESSION_HELLO) {
            fake_take_hello(fake, &message.hello);
        } else if (message.header.kind == SESSION_EXTENT) {
            fake_take_extent(fake, &message.extent);
        } else if (message.header.kind == SESSION_BULK_ASK) {
            fake_give_file(fake, &message.bulk, SESSION_BULK);
        } else if (message.header.kind == SESSION_MAP_ASK) {
            fake_give_file(fake, &message.bulk, SESSION_MAP);
        } else if (message.header.kind == SESSION_SPACE_ASK) {
            fake_give_space(fake, &message.bulk);
        } else if (message.header.kind == SESSION_DONATE ||
                   message.header.kind == SESSION_DONATE_DROP) {
            fake_take_donation(fake, &message.donation);
        }
        if (fd_count > 0) {
            fd_close(&fd);
        }
    }
}

static void fake_look_at_listener(struct fake_node *fake)
{
    int fd;

    while (fake->listen_fd >= 0 &&
           (fd = accept4(fake->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        if (fake->options.closes_first > 0) {
            fake->options.closes_first--;
            fd_close(&fd);
            continue;
        }
        fd_close(&fake->socket_fd);
        fake->socket_fd = fd;
        fake->attached = false;
    }
}

static void fake_listen(struct fake_node *fake)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    (void)unlink(fake->path);
    memcpy(address.sun_path, fake->path, strlen(fake->path) + 1);
    fake->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    fake_need(bind(fake->listen_fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
                  listen(fake->listen_fd, 16) == 0,
              "socket");
}

/* ---- the thread -------------------------------------------------------------------------------
 */

static void *fake_run(void *context)
{
    struct fake_node *fake = context;

    while (!atomic_load(&fake->stop)) {
        struct pollfd fds[3 + FAKE_LANES_MAX];
        struct timespec wait;
        uint64_t now_us, next_us, rung;
        nfds_t count = 0;

        fake_node_lock(fake);
        fake_look_at_listener(fake);
        fake_look_at_socket(fake);
        (void)fake_look_at_rings(fake);
        now_us = clock_now_us(&clock_monotonic);
        next_us = fake->memory != NULL ? fake_look_at_held(fake, now_us) : UINT64_MAX;
        fds[count++] = (struct pollfd){.fd = fake->control_fd, .events = POLLIN};
        fds[count++] = (struct pollfd){.fd = fake->listen_fd, .events = POLLIN};
        fds[count++] =
            (struct pollfd){.fd = fake->options.silent ? -1 : fake->socket_fd, .events = POLLIN};
        for (uint32_t i = 0; i < fake->options.lanes; i++) {
            (void)!read(fake->lane[i].doorbell, &rung, sizeof(rung));
            fds[count++] = (struct pollfd){.fd = fake->lane[i].doorbell, .events = POLLIN};
        }
        (void)!read(fake->control_fd, &rung, sizeof(rung));
        if (fake_look_at_rings(fake)) { /* what came before the doorbell was emptied: */
            next_us = 0;                /* what is held may wait for that */
        }
        if (fake->options.turn != NULL) {
            next_us = min_u64(next_us, fake->options.turn(fake->options.context, fake, now_us));
        }
        fake_node_unlock(fake);
        if (atomic_load(&fake->stop)) {
            break; /* the poke that said so may be among what was read away above */
        }
        next_us = next_us == UINT64_MAX ? 10000000 : next_us > now_us ? next_us - now_us : 0;
        wait.tv_sec = (time_t)(next_us / 1000000);
        wait.tv_nsec = (long)(next_us % 1000000) * 1000;
        (void)ppoll(fds, count, &wait, NULL);
    }
    return NULL;
}

void fake_node_start(struct fake_node *fake, const struct fake_options *options)
{
    static unsigned number;
    char name[32];

    memset(fake, 0, sizeof(*fake));
    fake->options = *options;
    fake->options.lanes = options->lanes != 0 ? options->lanes : 1;
    fake->listen_fd = fake->socket_fd = fake->session_fd = -1;
    (void)pthread_mutex_init(&fake->lock, NULL);
    (void)snprintf(name, sizeof(name), "node%u", number++);
    support_path(fake->path, sizeof(fake->path), name);
    fake->control_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fake_make_memory(fake);
    fake_listen(fake);
    fake_need(pthread_create(&fake->thread, NULL, fake_run, fake) == 0, "thread");
}

void fake_node_stop(struct fake_node *fake)
{
    atomic_store(&fake->stop, true);
    fake_poke_thread(fake);
    (void)pthread_join(fake->thread, NULL);
    fd_close(&fake->listen_fd);
    fd_close(&fake->socket_fd);
    fd_close(&fake->control_fd);
    if (fake->memory != NULL) {
        memfd_unmap(fake->memory, fake->memory_bytes);
        fd_close(&fake->session_fd);
    }
    fake_free_memory(fake);
    (void)unlink(fake->path);
    (void)pthread_mutex_destroy(&fake->lock);
}

void fake_node_die(struct fake_node *fake, bool gone)
{
    fake_node_lock(fake);
    fake->attached = false;
    fd_close(&fake->socket_fd);
    if (gone) {
        /* The thread sleeps on it, and while it does a close alone lets clients connect. */
        (void)shutdown(fake->listen_fd, SHUT_RDWR);
        fd_close(&fake->listen_fd);
    }
    fake_node_unlock(fake);
    fake_poke_thread(fake);
}

void fake_node_return(struct fake_node *fake)
{
    fake_node_lock(fake);
    fake_listen(fake);
    fake_node_unlock(fake);
    fake_poke_thread(fake);
}

void fake_node_say_bye(struct fake_node *fake, int32_t status, const char *sentence)
{
    struct session_welcome bye = {.header = {.magic = SESSION_MAGIC, .kind = SESSION_BYE},
                                  .status = status};

    (void)snprintf(bye.sentence, sizeof(bye.sentence), "%s", sentence);
    fake_node_lock(fake);
    if (status == NIGH_EXPELLED) {
        shared_store_release(&session_front_of(fake->memory)->ended, status);
    }
    (void)fd_send_message(fake->socket_fd, &bye, sizeof(bye), NULL, 0);
    fd_close(&fake->socket_fd);
    fake_node_unlock(fake);
    fake_poke_thread(fake);
}

void fake_node_seal(struct fake_node *fake, const uint8_t id[LIMIT_ID_BYTES], const void *data,
                    uint64_t size)
{
    uint32_t lane = index_hash_lane(hash_id20(id), fake->options.lanes);
    struct index_fill fill = {.id = id, .incarnation = 1, .data_size = size};
    uint32_t entry;
    uint64_t generation;

    fake_node_lock(fake);
    fake_need(fake_alloc(fake, index_object_bytes(size, 0, 0), &fill.offset), "memory");
    memcpy(fake->arena + fill.offset, data, size);
    fake_insert(fake, lane, &fill, INDEX_SEALED, &entry, &generation);
    index_insert(&fake->lane[lane].writer, hash_id20(id), entry);
    fake_node_unlock(fake);
    fake_poke_thread(fake);
}

uint32_t fake_node_pins(struct fake_node *fake)
{
    struct pin_chunk *chunks = session_chunks_of(fake->memory, fake->options.lanes);
    uint32_t pins = 0;

    for (uint32_t i = 0; i < LIMIT_PIN_CHUNKS; i++) {
        for (uint32_t slot = 0; slot < LIMIT_PINS_A_CHUNK; slot++) {
            pins += shared_load_relaxed(&chunks[i].entry[slot]) != 0;
        }
    }
    for (uint32_t lane = 0; lane < fake->options.lanes; lane++) {
        for (uint32_t i = 0; i < LIMIT_LANE_PINS; i++) {
            pins += shared_load_relaxed(&session_lane_of(fake->memory, lane)->pin_entry[i]) != 0;
        }
    }
    return pins;
}
