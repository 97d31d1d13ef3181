/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node that says anything, as libnigh meets it: any welcome with any descriptors, then, while a
 * program makes every call there is, any grants, pokes, byes, completions, events and words in the
 * memory that both share; deaths, and other welcomes after them.
 *
 * What must hold: no crash, no descriptor left, every call ends, and what a call gives can be
 * touched. Time is the fuzzer's: whenever the client would sleep, the node takes its next step, and
 * when it has none left it closes the connection, and takes no other.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/futex.h"
#include "base/hash.h"
#include "fuzz_input.h"
#include "memory/index.h"
#include "memory/memfd.h"
#include "memory/session.h"
#include "nigh/object.h"
#include "object/index_writer.h"

#define LANES        2u
#define ENTRIES      24u
#define EXTENTS      2u
#define EXTENT_BYTES LIMIT_EXTENT_BYTES_MIN
#define IDS          16u
#define VIEWS        8u
#define OPS          4u
#define STEPS        500u

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);
nigh_status __wrap_attach_connect(const char *path, uint64_t timeout_us, int *socket_fd,
                                  char *text);
nigh_status __wrap_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_us);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
                 const sigset_t *mask);

/* A memory file that a node shares. */
struct file {
    int fd, read_fd;
    uint64_t bytes;
    void *memory;
};

static struct fuzz_input input;
static uint64_t now_us;

static struct file page, session, indexes[LANES], extents[EXTENTS];
static void *index_template[LANES]; /* an index of a few sealed objects */

static int node_fd = -1; /* the node's end; -1: it has gone */
static uint32_t sq_head[LANES], cq_tail[LANES], event_tail[LANES];

static nigh_client *client;
static nigh_view views[VIEWS], async_views[OPS];
static nigh_op ops[OPS];
static nigh_id op_ids[OPS];
static nigh_writer writer;
static bool writing;
static nigh_op put_op;
static nigh_put_item put_items[3];
static nigh_create_options put_options;
static const uint8_t put_data[300 << 10]; /* more than is copied under the client's lock */

/* ---- what there is to share ----------------------------------------------- */

static void make_file(struct file *file, uint64_t bytes)
{
    file->bytes = bytes;
    NIGH_ASSERT(memfd_create_sealed("fuzz", bytes, 0, &file->fd) == NIGH_OK);
    NIGH_ASSERT(memfd_reopen_read_only(file->fd, &file->read_fd) == NIGH_OK);
    NIGH_ASSERT(memfd_map(file->fd, bytes, MEMFD_WRITABLE, &file->memory) == NIGH_OK);
}

static nigh_id id_of(uint8_t number)
{
    nigh_id id = {{number}};

    return id;
}

/* Objects 0 to 7 are there, of 64 to 1024 bytes; one lies across both extents. */
static void make_index(uint32_t lane)
{
    struct index_writer writer_of_lane;
    struct index index;

    index_format(indexes[lane].memory, 0, lane, LANES, ENTRIES, &index);
    NIGH_ASSERT(index_writer_init(&writer_of_lane, &index) == NIGH_OK);
    for (uint8_t i = 0; i < 8; i++) {
        nigh_id id = id_of(i);
        uint64_t hash = hash_id20(id.bytes);
        struct index_fill fill = {.id = id.bytes,
                                  .incarnation = 1,
                                  .data_size = UINT64_C(64) << i % 5,
                                  .meta_size = i,
                                  .offset = i == 7 ? EXTENT_BYTES - 64 : i * UINT64_C(4096)};
        uint32_t number;

        if (index_hash_lane(hash, LANES) != lane) {
            continue;
        }
        NIGH_ASSERT(index_take(&writer_of_lane, &number) == NIGH_OK);
        (void)index_entry_fill(&writer_of_lane, number, &fill, INDEX_SEALED);
        index_insert(&writer_of_lane, hash, number);
    }
    index_writer_fini(&writer_of_lane);
    index_template[lane] = malloc(indexes[lane].bytes);
    memcpy(index_template[lane], indexes[lane].memory, indexes[lane].bytes);
}

static uint64_t fuzz_now_us(struct clock *clock)
{
    (void)clock;
    now_us += 500; /* so that whoever waits for time to pass does not for ever */
    return now_us;
}

static void make_all(void)
{
    make_file(&page, sizeof(struct session_node_page));
    make_file(&session, session_memory_bytes(LANES));
    for (uint32_t i = 0; i < EXTENTS; i++) {
        make_file(&extents[i], EXTENT_BYTES);
    }
    for (uint32_t i = 0; i < LANES; i++) {
        make_file(&indexes[i], index_size_bytes(ENTRIES));
        make_index(i);
    }
    clock_monotonic.now_us = fuzz_now_us;
}

/* A descriptor that is not what the client expects. The caller's. */
static int odd_descriptor(uint8_t kind)
{
    int fd = -1;

    switch (kind % 6) {
    case 0: fd = open("/dev/null", O_RDWR | O_CLOEXEC); break;
    case 1: fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); break;
    case 2: NIGH_ASSERT(memfd_create_sealed("short", 1, 0, &fd) == NIGH_OK); break;
    case 3: /* may shrink under whoever maps it */
        fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        NIGH_ASSERT(ftruncate(fd, (off_t)session.bytes) == 0);
        break;
    case 4: fd = dup(node_fd); break;
    default: fd = dup(session.read_fd);
    }
    NIGH_ASSERT(fd >= 0);
    return fd;
}

/* ---- what the node says --------------------------------------------------- */

static void node_close(void)
{
    if (node_fd >= 0) {
        (void)shutdown(node_fd, SHUT_RDWR); /* the client may hold a duplicate */
    }
    fd_close(&node_fd);
}

static void node_send(const void *bytes, size_t size, const int *fds, size_t fd_count)
{
    if (node_fd >= 0 && size > 0) {
        (void)fd_send_message(node_fd, bytes, size, fds, fd_count);
    }
}

static struct session_welcome good_welcome(void)
{
    struct session_welcome welcome = {
        .header = {.magic = SESSION_MAGIC, .kind = SESSION_WELCOME},
        .version = SESSION_VERSION_MAX,
        .rights = SESSION_MAY_WRITE,
        .lanes = LANES,
        .slot = 3,
        .session = 7,
        .extent_bytes = EXTENT_BYTES,
        .arena_bytes = LIMIT_EXTENTS * EXTENT_BYTES,
        .session_bytes = session_memory_bytes(LANES),
        .incarnation = 1,
        .pool = "fuzz",
    };

    return welcome;
}

static void node_say_welcome(void)
{
    struct session_welcome welcome = good_welcome();
    uint8_t what = fuzz_byte(&input);
    size_t size = sizeof(welcome), count = 0;
    int fds[SESSION_WELCOME_FDS(LANES) + 1];

    fds[count++] = dup(page.read_fd);
    fds[count++] = dup(session.fd);
    for (uint32_t i = 0; i < LANES; i++) {
        fds[count++] = dup(indexes[i].read_fd);
        fds[count++] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    fds[count++] = dup(page.read_fd);
    for (uint8_t i = 0; i < (what & 3); i++) {
        fuzz_patch(&input, &welcome, sizeof(welcome));
    }
    if ((what & 0x0c) == 0x0c) {
        uint8_t place = fuzz_byte(&input) % (uint8_t)count;

        fd_close(&fds[place]);
        fds[place] = odd_descriptor(fuzz_byte(&input));
    }
    if ((what & 0x30) == 0x30) {
        size = fuzz_byte(&input);
    }
    node_send(&welcome, size, fds,
              (what & 0xc0) == 0xc0 ? fuzz_byte(&input) % (count + 1) : count - 1);
    for (size_t i = 0; i < count; i++) {
        fd_close(&fds[i]);
    }
}

/* The next request for an extent; hellos are passed over. */
static bool node_receive(struct session_extent *request)
{
    uint8_t bytes[LIMIT_SESSION_MESSAGE_BYTES];
    size_t size = 0, count;

    while (node_fd >= 0 &&
           fd_recv_message(node_fd, bytes, sizeof(bytes), &size, NULL, 0, &count) == NIGH_OK) {
        NIGH_ASSERT(size >= sizeof(*request));
        memcpy(request, bytes, sizeof(*request));
        if (request->header.kind == SESSION_EXTENT) {
            return true;
        }
    }
    return false;
}

/* Answers a request for an extent, if there is one. */
static void node_grant(void)
{
    struct session_grant grant = {.header = {.magic = SESSION_MAGIC, .kind = SESSION_GRANT}};
    struct session_extent request;
    uint8_t what = fuzz_byte(&input);
    int fd = -1;

    if (!node_receive(&request)) {
        return;
    }
    grant.extent = request.extent;
    grant.status = request.extent < EXTENTS ? NIGH_OK : NIGH_NOT_FOUND;
    if (grant.status == NIGH_OK) {
        const struct file *extent = &extents[request.extent];

        fd = dup(request.writable != 0 ? extent->fd : extent->read_fd);
    }
    if ((what & 3) == 3) {
        fuzz_patch(&input, &grant, sizeof(grant));
    }
    if ((what & 0x0c) == 0x0c) {
        fd_close(&fd);
        fd = odd_descriptor(fuzz_byte(&input));
    }
    node_send(&grant, sizeof(grant), &fd, fd >= 0 ? 1 : 0);
    fd_close(&fd);
}

static void node_say_bye(void)
{
    struct session_welcome bye = good_welcome();

    bye.header.kind = SESSION_BYE;
    bye.status = -(int32_t)fuzz_byte(&input);
    fuzz_fill(&input, bye.sentence, 16);
    node_send(&bye, sizeof(bye) - fuzz_byte(&input) / 64, NULL, 0);
}

static void node_say_rubbish(void)
{
    uint8_t bytes[LIMIT_SESSION_MESSAGE_BYTES + 8] = {0};
    struct session_message_header header = {.magic = SESSION_MAGIC};
    uint8_t what = fuzz_byte(&input);
    int fds[2] = {odd_descriptor(1), odd_descriptor(2)};

    header.kind = fuzz_byte(&input) % 8;
    memcpy(bytes, &header, sizeof(header));
    fuzz_fill(&input, bytes + sizeof(header) * (what & 1), 24);
    node_send(bytes, (what & 0x80) != 0 ? sizeof(bytes) : 1 + fuzz_byte(&input), fds,
              (what >> 1) % 3);
    fd_close(&fds[0]);
    fd_close(&fds[1]);
}

static const struct index_header *template_header(uint32_t lane)
{
    return index_template[lane];
}

/* ---- what the node writes ------------------------------------------------- */

static void node_complete(uint32_t lane, const struct session_cqe *cqe)
{
    struct session_lane *ring = session_lane_of(session.memory, lane);

    ring->cq[cq_tail[lane]++ % LIMIT_RING_ENTRIES] = *cqe;
    shared_store_release(&ring->cq_tail.value, cq_tail[lane]);
}

static bool node_take(uint32_t lane, struct session_sqe *sqe)
{
    struct session_lane *ring = session_lane_of(session.memory, lane);

    if (shared_load_acquire(&ring->sq_tail.value) == sq_head[lane]) {
        return false;
    }
    *sqe = ring->sq[sq_head[lane]++ % LIMIT_RING_ENTRIES];
    return true;
}

/* What a node would say, about. */
static void node_answer(uint32_t lane, uint8_t how)
{
    struct session_cqe cqe = {.pin = SESSION_NO_PIN};
    struct session_sqe sqe;

    if (!node_take(lane, &sqe)) {
        return;
    }
    cqe.cookie = sqe.cookie;
    switch (sqe.op) {
    case SESSION_OP_GET:
        cqe.pin = how % 32;
        cqe.ref = how % ENTRIES;
        cqe.data_size = how * UINT64_C(16);
        shared_store_relaxed(&session_lane_of(session.memory, lane)->pin_entry[cqe.pin],
                             pin_ref(lane, cqe.ref));
        break;
    case SESSION_OP_LEASE: cqe.lease_bytes = how % 2 == 0 ? LIMIT_LEASE_BYTES_MIN : 0; break;
    case SESSION_OP_SEAL:
        cqe.lease_bytes = (sqe.flags & SESSION_FLAG_RENEW) != 0 ? LIMIT_LEASE_BYTES_MIN : 0;
        break;
    case SESSION_OP_CREATE: cqe.offset = how * UINT64_C(64); break;
    default: cqe.data_size = how; break;
    }
    cqe.lease_offset = lane * EXTENT_BYTES + how * UINT64_C(1024) / 64 * 64;
    if (how >= 0xc0) {
        cqe.status = -(int32_t)(fuzz_byte(&input) % 40);
    }
    if (how >= 0x80 && how < 0xc0) {
        fuzz_patch(&input, &cqe, sizeof(cqe));
    }
    node_complete(lane, &cqe);
}

static void node_put_event(uint32_t lane)
{
    struct session_lane *ring = session_lane_of(session.memory, lane);
    struct session_event event = {.kind_meta = fuzz_byte(&input) % 8, .data_size = 1};

    ring->events[event_tail[lane]++ % LIMIT_EVENT_ENTRIES] = event;
    shared_store_release(&ring->event_tail.value, event_tail[lane]);
}

static void node_scribble(uint8_t where)
{
    struct file *files[] = {&session, &session, &indexes[0], &indexes[1], &page, NULL};
    struct session_lane *ring = session_lane_of(session.memory, where >> 7);
    struct file *file = files[where % ARRAY_LENGTH(files)];

    if (where % ARRAY_LENGTH(files) == 0) {
        struct session_index *index[] = {&ring->cq_tail, &ring->event_tail, &ring->sq_head};

        shared_store_release(&index[where / 8 % 3]->value, (uint32_t)fuzz_number(&input));
    } else if (file == NULL) {
        /* What lies behind the words of an entry. */
        struct index_entry *entries = (void *)((uint8_t *)indexes[where >> 7].memory +
                                               template_header(where >> 7)->entries_offset);

        fuzz_patch(&input, &entries[where % 8].offset, 24);
    } else {
        uint64_t place = fuzz_number(&input) % (file->bytes / sizeof(uint64_t));

        ((uint64_t *)file->memory)[place] = fuzz_number(&input);
    }
}

static void node_step(void)
{
    uint8_t what = fuzz_byte(&input), how = fuzz_byte(&input);
    uint32_t lane = what >> 7;

    if (input.left == 0) {
        node_close();
        return;
    }
    switch (what & 15) {
    case 0: node_scribble(how); break;
    case 1: node_say_rubbish(); break;
    case 2: node_put_event(lane); break;
    case 3: {
        struct session_message_header poke = {.magic = SESSION_MAGIC, .kind = SESSION_POKE};
        node_send(&poke, sizeof(poke), NULL, 0);
        break;
    }
    case 4:
        if (how < 32) {
            node_say_bye();
        } else if (how >= 224) {
            node_close(); /* it may be back when the client connects again */
        }
        break;
    case 5:
        if (how < 32) {
            shared_store_release(&session_front_of(session.memory)->ended, -(int32_t)how);
        }
        break;
    case 6: fuzz_fill(&input, session_lane_of(session.memory, lane)->reply, how); break;
    case 7:
    case 8:
    case 9: node_grant(); break;
    default: node_answer(lane, how);
    }
}

/* ---- where the client would connect, or sleep ------------------------------------------ */

/* At first, and when it resumes: a node that was there before begins its rings anew. */
nigh_status __wrap_attach_connect(const char *path, uint64_t timeout_us, int *socket_fd, char *text)
{
    int pair[2];

    (void)path;
    (void)timeout_us;
    text[0] = '\0';
    if (input.left == 0) {
        return NIGH_UNREACHABLE;
    }
    node_close();
    for (uint32_t i = 0; i < LANES; i++) {
        struct session_lane *ring = session_lane_of(session.memory, i);

        memset(&ring->sq_tail, 0, 7 * sizeof(ring->sq_tail));
        sq_head[i] = cq_tail[i] = event_tail[i] = 0;
    }
    NIGH_ASSERT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    node_fd = pair[0];
    *socket_fd = pair[1];
    node_say_welcome();
    return NIGH_OK;
}

nigh_status __wrap_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_us)
{
    (void)word;
    (void)expected;
    node_step();
    now_us += min_u64(timeout_us, 1000000);
    return NIGH_TIMEOUT;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    int ready = __real_poll(fds, n, 0);

    if (ready != 0) {
        return ready;
    }
    node_step();
    now_us += (uint64_t)max_u32((uint32_t)timeout_ms, 1) * 1000;
    return __real_poll(fds, n, 0);
}

int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    (void)timeout;
    (void)mask;
    return __wrap_poll(fds, n, 1000);
}

/* ---- the program ---------------------------------------------------------- */

/* What was given can be touched, at both ends. */
static void touch(const void *bytes, uint64_t size)
{
    const volatile uint8_t *at = bytes;

    if (size > 0) {
        (void)at[0];
        (void)at[size - 1];
    }
}

static void touch_view(const nigh_view *view)
{
    NIGH_ASSERT(view->status != NIGH_PENDING);
    if (view->status == NIGH_OK) {
        touch(view->data, view->data_size);
        touch(view->meta, view->meta_size);
    }
}

static void call_get(uint8_t how)
{
    nigh_id ids[2] = {id_of(how % IDS), id_of(fuzz_byte(&input) % IDS)};
    nigh_view *pair = &views[how % (VIEWS - 1)];

    (void)nigh_release(client, &pair[0]);
    (void)nigh_release(client, &pair[1]);
    (void)nigh_get(client, ids, 2, (how & 0x80) != 0 ? 3000 : 0, pair);
    touch_view(&pair[0]);
    touch_view(&pair[1]);
}

/* Puts that go on while other calls are made. */
static void call_put_async(uint8_t how)
{
    if (nigh_op_status(&put_op) == NIGH_PENDING) {
        (void)((how & 0x80) != 0 ? nigh_cancel(client, &put_op) : nigh_wait(client, &put_op, 2000));
        NIGH_ASSERT((how & 0x80) == 0 || nigh_op_status(&put_op) != NIGH_PENDING);
        return;
    }
    put_options = (nigh_create_options){.meta = put_data, .meta_size = how, .timeout_us = 1000};
    put_items[0] =
        (nigh_put_item){.id = id_of(how % IDS), .data = put_data, .data_size = sizeof(put_data)};
    put_items[1] = (nigh_put_item){.id = id_of(9), .data = put_data, .data_size = how};
    put_items[2] = put_items[0];
    put_items[2].id = id_of(10);
    put_items[2].options = &put_options;
    if (nigh_put_many_start(client, put_items, 3, &put_op) != NIGH_OK) {
        memset(&put_op, 0, sizeof(put_op));
    }
}

static void call_write(uint8_t how)
{
    static const uint8_t data[70000];
    nigh_create_options options = {.data_size = how * UINT64_C(300),
                                   .meta = data,
                                   .meta_size = how,
                                   .flags = how >> 6,
                                   .timeout_us = 1000};
    nigh_id id = id_of(how % IDS);

    if (writing) {
        writing = false;
        (void)((how & 1) != 0 ? nigh_seal(client, &writer) : nigh_abort(client, &writer));
        return;
    }
    if ((how & 0x43) == 0x41) {
        call_put_async(how);
    } else if ((how & 3) == 0) {
        (void)nigh_put(client, &id, data, options.data_size % sizeof(data), NULL);
    } else if ((how & 3) == 1) {
        nigh_put_item items[3] = {{.id = id_of(1), .data = data, .data_size = 10},
                                  {.id = id_of(9), .data = data, .data_size = sizeof(data)},
                                  {.id = id, .data = data, .options = &options}};

        (void)nigh_put_many(client, items, 3);
    } else if (nigh_create(client, &id, &options, &writer) == NIGH_OK) {
        writing = true;
        if (writer.data_size > 0) {
            ((volatile uint8_t *)writer.data)[0] = 1;
            ((volatile uint8_t *)writer.data)[writer.data_size - 1] = 1;
        }
    }
}

static void call_look(uint8_t how)
{
    nigh_object_info infos[4];
    nigh_holder holders[3];
    nigh_node_stats stats = {.struct_size = sizeof(stats)};
    nigh_id id = id_of(how % IDS);
    uint64_t cursor = how >= 0xf0 ? fuzz_number(&input) : 0;
    size_t count = 0;
    uint32_t crc;
    bool found;

    switch (how >> 4 & 7) {
    case 0: (void)nigh_stat(client, &id, &infos[0]); break;
    case 1:
        for (int i = 0;
             i < 20 && nigh_list(client, &cursor, infos, 4, &count) == NIGH_OK && count > 0; i++) {
            touch(infos[0].name, strlen(infos[0].name));
        }
        break;
    case 2: (void)nigh_who(client, &id, holders, 3, &count); break;
    case 3: (void)nigh_holders(client, holders, 3, &count); break;
    case 4: (void)nigh_stats(client, &stats); break;
    case 5: (void)nigh_checksum(client, &id, &crc); break;
    case 6: (void)nigh_contains(client, &id, &found); break;
    default: (void)nigh_set_quota(client, how);
    }
}

static void call_manage(uint8_t how)
{
    nigh_id ids[2] = {id_of(how % IDS), id_of(3)};
    nigh_status statuses[2];
    uint64_t freed;

    switch (how >> 4 & 3) {
    case 0: (void)nigh_delete(client, ids, 2, statuses); break;
    case 1: (void)nigh_evict(client, how, &freed); break;
    case 2: (void)nigh_refresh(client, ids, 2); break;
    default: (void)((how & 0x80) != 0 ? nigh_pin(client, ids) : nigh_unpin(client, ids));
    }
}

static void call_watch(uint8_t how)
{
    nigh_event event;

    switch (how & 7) {
    case 0: (void)nigh_subscribe(client, how >> 7); break;
    case 1: (void)nigh_unsubscribe(client); break;
    case 2: (void)nigh_client_arm(client); break;
    case 3: (void)nigh_next_event(client, 2000, &event); break;
    default: (void)nigh_next_event(client, 0, &event);
    }
}

static void call_async(uint8_t how)
{
    nigh_op *op = &ops[how % OPS];
    nigh_view *view = &async_views[how % OPS];

    if (nigh_op_status(op) == NIGH_PENDING) {
        if ((how & 0x80) != 0) {
            (void)nigh_cancel(client, op);
            NIGH_ASSERT(nigh_op_status(op) != NIGH_PENDING);
            touch_view(view);
        } else {
            (void)nigh_wait(client, op, (how & 0x40) != 0 ? 5000 : 0);
        }
        return;
    }
    (void)nigh_release(client, view);
    op_ids[how % OPS] = id_of(8 + how % 8);
    if (nigh_get_start(client, &op_ids[how % OPS], 1, how * UINT64_C(1000), view, op) != NIGH_OK) {
        memset(view, 0, sizeof(*view));
        memset(op, 0, sizeof(*op));
    }
}

static void call(void)
{
    uint8_t what = fuzz_byte(&input), how = fuzz_byte(&input);

    switch (what % 16) {
    case 0:
    case 1:
    case 2: node_step(); break;
    case 3: (void)nigh_poll(client); break;
    case 4: (void)nigh_release(client, &views[how % VIEWS]); break;
    case 5:
    case 6:
    case 7: call_get(how); break;
    case 8:
    case 9: call_write(how); break;
    case 10: call_look(how); break;
    case 11: call_manage(how); break;
    case 12: call_watch(how); break;
    case 13:
    case 14: call_async(how); break;
    default: {
        char text[64];
        (void)nigh_client_error(client, text, sizeof(text));
    }
    }
}

/* ---- one input ------------------------------------------------------------ */

static void begin(void)
{
    struct session_front *front = session_front_of(session.memory);
    struct session_node_page *first = page.memory;

    memset(session.memory, 0, session.bytes);
    memset(page.memory, 0, page.bytes);
    for (uint32_t i = 0; i < LANES; i++) {
        memcpy(indexes[i].memory, index_template[i], indexes[i].bytes);
        sq_head[i] = cq_tail[i] = event_tail[i] = 0;
    }
    front->magic = first->magic = SESSION_MAGIC;
    front->lanes = first->lanes = LANES;
    front->session = good_welcome().session;
    memset(views, 0, sizeof(views));
    memset(async_views, 0, sizeof(async_views));
    memset(ops, 0, sizeof(ops));
    memset(&put_op, 0, sizeof(put_op));
    writing = false;
    now_us = 1000000;
}

/* The lowest number that is free, after all is closed: one that stays open moves it, sooner or
 * later. */
static int lowest_descriptor(void)
{
    int fd = dup(page.fd);
    int number = fd;

    fd_close(&fd);
    return number;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    nigh_client_options options = {
        .struct_size = sizeof(options), .socket_path = "fuzz", .timeout_us = 100000};
    uint8_t what;
    int lowest;

    if (page.memory == NULL) {
        make_all();
    }
    input = (struct fuzz_input){bytes, size_bytes};
    begin();
    lowest = lowest_descriptor();
    what = fuzz_byte(&input);
    for (uint8_t i = 0; i < (what & 3); i++) {
        node_scribble(fuzz_byte(&input)); /* before it is looked at */
    }
    options.flags = (what & 0x0c) == 0x0c ? NIGH_OPEN_READ_ONLY : 0;
    options.prefault_bytes = (what & 0x30) == 0x30 ? fuzz_number(&input) : 0;
    if (nigh_client_open(&options, &client) == NIGH_OK) {
        for (uint32_t i = 0; i < STEPS && input.left > 0; i++) {
            call();
        }
        nigh_client_close(client);
        for (uint32_t i = 0; i < OPS; i++) {
            NIGH_ASSERT(nigh_op_status(&ops[i]) != NIGH_PENDING);
        }
        NIGH_ASSERT(nigh_op_status(&put_op) != NIGH_PENDING);
    }
    node_close();
    NIGH_ASSERT(lowest_descriptor() == lowest);
    return 0;
}
