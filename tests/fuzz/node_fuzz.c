/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole node, and clients that do whatever a process of the machine can do to it: any messages
 * and descriptors, hellos right and wrong, any words in the memory that they share with it, holes
 * in that memory, and ends of every kind, by word, by closing, by death, and coming back.
 *
 * Input: commands, each a byte that says which, a byte that says who, and what the command needs.
 * After it everybody leaves; then the node must be as it was (world_settle).
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/fd.h"
#include "base/hash.h"
#include "fuzz_input.h"
#include "memory/session.h"
#include "node/pool.h"
#include "node_spaces.h"
#include "node_world.h"

#define PROCESSES    4u
#define CLIENTS      8u /* sockets; client i is of process i % PROCESSES */
#define CROWD        96u
#define CROWDS       2u    /* an input */
#define WAITS        1000u /* turns for threads of the node, an input */
#define OPENS        12u   /* whole ways to a session, an input: each costs its memory */
#define IDS          16u
#define COMMANDS_MAX 96u        /* of one input; what comes after is not looked at */
#define PID_FIRST    0x40000000 /* above every real one */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

struct client {
    int fd;      /* -1: not connected */
    int32_t pid; /* of whom it connected: a socket may survive its process */
    bool said;   /* something, over this connection */
    bool lied;   /* the first of it was a resume with a token that is none */
    /* What the last welcome brought, kept until the next. */
    int memory_fd;
    void *memory; /* NULL: none yet */
    uint64_t memory_bytes;
    int doorbell_fds[WORLD_LANES];
    struct session_welcome welcome;
    int32_t welcome_pid; /* of whom it welcomed */
    uint32_t tail[WORLD_LANES];
    struct client_spaces spaces;
};

struct fuzz {
    struct world *world;
    struct fuzz_input input;
    struct world_peer processes[PROCESSES];
    struct client clients[CLIENTS];
    int crowd[CROWD];
    uint32_t crowds;
    uint32_t opens, waits;
    int graves[COMMANDS_MAX + PROCESSES]; /* life descriptors of processes that are dead */
    uint32_t grave_count;
    int32_t next_pid;
};

static struct world_peer *process_of(struct fuzz *fuzz, const struct client *client)
{
    return &fuzz->processes[(uint32_t)(client - fuzz->clients) % PROCESSES];
}

static uint32_t any_lane(struct fuzz *fuzz)
{
    return fuzz_byte(&fuzz->input) % WORLD_LANES;
}

/* ---- processes ------------------------------------------------------------ */

static void process_begin(struct fuzz *fuzz, uint32_t number)
{
    static const uint32_t uids[PROCESSES - 1] = {WORLD_UID_A, WORLD_UID_B, WORLD_UID_A};
    struct world_peer *process = &fuzz->processes[number];

    if (number == PROCESSES - 1) { /* the node's own */
        *process = (struct world_peer){.uid = geteuid(), .pid = getpid(), .life_fd = -1};
        return;
    }
    process->uid = uids[number];
    process->pid = fuzz->next_pid++;
    process->life_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    NIGH_ASSERT(process->life_fd >= 0);
}

/* Its pidfds become readable. They may still be asked for: the node may not have met it yet. */
static void process_end(struct fuzz *fuzz, uint32_t number)
{
    struct world_peer *process = &fuzz->processes[number];

    if (process->life_fd < 0)
        return;
    NIGH_ASSERT(eventfd_write(process->life_fd, 1) == 0);
    NIGH_ASSERT(fuzz->grave_count < ARRAY_LENGTH(fuzz->graves));
    fuzz->graves[fuzz->grave_count++] = process->life_fd;
    process->life_fd = -1;
}

/* ---- clients -------------------------------------------------------------- */

static void client_forget(struct client *client)
{
    if (client->memory != NULL)
        munmap(client->memory, client->memory_bytes);
    client->memory = NULL;
    spaces_forget(&client->spaces);
    fd_close(&client->memory_fd);
    for (uint32_t i = 0; i < WORLD_LANES; i++)
        fd_close(&client->doorbell_fds[i]);
}

static bool is_read_only(int fd)
{
    return (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
}

/* Whether the user may be in the pool that a welcome names. */
static bool may_be_in(const struct world_peer *process, const char *pool)
{
    char own[LIMIT_POOL_NAME_BYTES + 1];

    pool_own_name(process->uid, own);
    return strcmp(pool, WORLD_POOL_OPEN) == 0 || strcmp(pool, WORLD_POOL_STRICT) == 0 ||
           strcmp(pool, WORLD_POOL_READ) == 0 || strcmp(pool, own) == 0 || process->uid == 0;
}

/* A session is one process's for ever, and nobody's without its token. */
static bool may_have(const struct fuzz *fuzz, const struct client *client, int32_t pid,
                     uint64_t session)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (fuzz->clients[i].welcome.session == session && fuzz->clients[i].welcome_pid != pid)
            return false;
    }
    return !client->lied;
}

static void take_welcome(struct fuzz *fuzz, struct client *client,
                         const struct session_welcome *welcome, int *fds, size_t fd_count)
{
    const struct world_peer *process = process_of(fuzz, client);

    if (welcome->status != NIGH_OK) {
        NIGH_ASSERT(fd_count == 0 && memchr(welcome->sentence, 0, sizeof(welcome->sentence)));
        return;
    }
    NIGH_ASSERT(fd_count == SESSION_WELCOME_FDS(WORLD_LANES));
    NIGH_ASSERT(may_be_in(process, welcome->pool));
    NIGH_ASSERT(may_have(fuzz, client, client->pid, welcome->session));
    NIGH_ASSERT(is_read_only(fds[0]) && is_read_only(fds[2]) && is_read_only(fds[4]));
    if (strcmp(welcome->pool, WORLD_POOL_READ) == 0 && process->uid == WORLD_UID_B)
        NIGH_ASSERT((welcome->rights & SESSION_MAY_WRITE) == 0);
    client_forget(client);
    client->welcome = *welcome;
    client->welcome_pid = client->pid;
    /* Also of who is not told that there are places. */
    client->memory_bytes = session_file_bytes(WORLD_LANES);
    client->memory =
        mmap(NULL, client->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    NIGH_ASSERT(client->memory != MAP_FAILED);
    client->memory_fd = fds[1];
    fds[1] = -1;
    for (uint32_t i = 0; i < WORLD_LANES; i++) {
        client->tail[i] = 0;
        client->doorbell_fds[i] = fds[3 + 2 * i];
        fds[3 + 2 * i] = -1;
    }
}

/* Writes into an extent, makes holes in it, and tries what must fail. */
static void use_extent(struct fuzz *fuzz, int fd)
{
    uint64_t place = fuzz_byte(&fuzz->input) * UINT64_C(8192);
    int access = is_read_only(fd) ? PROT_READ : PROT_READ | PROT_WRITE;
    uint8_t *bytes = mmap(NULL, WORLD_EXTENT_BYTES, access, MAP_SHARED, fd, 0);

    NIGH_ASSERT(bytes != MAP_FAILED && ftruncate(fd, 4096) != 0);
    if (access == PROT_READ) {
        NIGH_ASSERT(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    } else if ((place & 8192) != 0) {
        (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)place, 65536);
    } else {
        memset(bytes + place, 0xa5, 64);
    }
    munmap(bytes, WORLD_EXTENT_BYTES);
}

/* One message of the node. False: there is none. */
static bool client_read(struct fuzz *fuzz, struct client *client)
{
    union {
        struct session_message_header header;
        struct session_welcome welcome;
        struct session_grant grant;
        struct session_bulk_file bulk;
        uint8_t bytes[LIMIT_SESSION_MESSAGE_BYTES];
    } message;
    int fds[LIMIT_SESSION_FDS];
    size_t size = 0, fd_count = 0;

    if (client->fd < 0 || fd_recv_message(client->fd, &message, sizeof(message), &size, fds,
                                          LIMIT_SESSION_FDS, &fd_count) != NIGH_OK)
        return false;
    NIGH_ASSERT(size >= sizeof(message.header) && message.header.magic == SESSION_MAGIC);
    switch ((enum session_message_kind)message.header.kind) {
    case SESSION_WELCOME:
        NIGH_ASSERT(size == sizeof(message.welcome));
        take_welcome(fuzz, client, &message.welcome, fds, fd_count);
        break;
    case SESSION_GRANT:
        NIGH_ASSERT(size == sizeof(message.grant));
        NIGH_ASSERT(fd_count == (message.grant.status == NIGH_OK ? 1 : 0));
        if (fd_count == 1) {
            NIGH_ASSERT(world_may_grant(fuzz->world, message.grant.extent, client->welcome.pool,
                                        process_of(fuzz, client)->uid, !is_read_only(fds[0])));
            use_extent(fuzz, fds[0]);
        }
        break;
    case SESSION_BULK:
    case SESSION_MAP:
        NIGH_ASSERT(size == sizeof(message.bulk));
        NIGH_ASSERT(fd_count == (message.bulk.status == NIGH_OK ? 1 : 0));
        /* Holes are its own affair; its size is not. */
        if (fd_count == 1) {
            NIGH_ASSERT(ftruncate(fds[0], 1) != 0 && ftruncate(fds[0], INT32_MAX) != 0);
            (void)fallocate(fds[0], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 65536);
        }
        break;
    case SESSION_SPACE_FILE:
        NIGH_ASSERT(size == sizeof(message.bulk));
        NIGH_ASSERT(fd_count == (message.bulk.status == NIGH_OK ? 1 : 0));
        if (fd_count == 1)
            spaces_take_file(&fuzz->input, &client->spaces, fuzz->world, process_of(fuzz, client),
                             message.bulk.number, fds[0]);
        break;
    case SESSION_POKE:
    case SESSION_BYE:
    case SESSION_DONATED: NIGH_ASSERT(fd_count == 0); break;
    case SESSION_PAIR: break; /* granted, with descriptors, or refused */
    case SESSION_HELLO:
    case SESSION_PAIR_ASK:
    case SESSION_PAIR_DROP:
    case SESSION_BULK_ASK:
    case SESSION_MAP_ASK:
    case SESSION_SPACE_ASK:
    case SESSION_DONATE:
    case SESSION_DONATE_DROP:
    case SESSION_EXTENT: NIGH_ASSERT(!"what a node says");
    }
    for (size_t i = 0; i < fd_count; i++)
        fd_close(&fds[i]);
    return true;
}

/* ---- commands: the socket ------------------------------------------------- */

static void do_connect(struct fuzz *fuzz, struct client *client)
{
    fd_close(&client->fd);
    client->said = client->lied = false;
    client->pid = process_of(fuzz, client)->pid;
    client->fd =
        world_connect(fuzz->world, process_of(fuzz, client), fuzz_byte(&fuzz->input) % 4 == 0);
}

/* A message that may be empty, too long, or bring descriptors, its own socket among them. */
static void send_any(struct client *client, const void *bytes, size_t size_bytes, size_t fd_count)
{
    int passed[3] = {0, client->fd, client->memory_fd >= 0 ? client->memory_fd : 1};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(passed))];
    } control = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size_bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (client->fd < 0)
        return;
    if (fd_count > 0) {
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), passed, fd_count * sizeof(int));
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    }
    (void)sendmsg(client->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    client->said = true;
}

static void do_garbage(struct fuzz *fuzz, struct client *client)
{
    uint8_t bytes[2 * LIMIT_SESSION_MESSAGE_BYTES];
    struct session_message_header header = {.magic = SESSION_MAGIC,
                                            .kind = fuzz_byte(&fuzz->input) % 8};
    size_t size_bytes = fuzz_byte(&fuzz->input) * (size_t)4;
    uint8_t shape = fuzz_byte(&fuzz->input);

    memset(bytes, shape, sizeof(bytes));
    if ((shape & 4) != 0)
        memcpy(bytes, &header, sizeof(header));
    fuzz_fill(&fuzz->input, bytes + sizeof(header), shape % 16);
    send_any(client, bytes, size_bytes, shape % 4);
}

static void make_hello(struct fuzz *fuzz, struct session_hello *hello)
{
    static const char *const pools[] = {"",     WORLD_POOL_OPEN, WORLD_POOL_STRICT, WORLD_POOL_READ,
                                        "none", "uid-71001",     "uid-71002",       "uid-0"};
    uint8_t shape = fuzz_byte(&fuzz->input);

    memset(hello, 0, sizeof(*hello));
    hello->header = (struct session_message_header){.magic = SESSION_MAGIC, .kind = SESSION_HELLO};
    hello->version_min = SESSION_VERSION_MIN;
    hello->version_max = SESSION_VERSION_MAX;
    hello->flags = (shape & 8) != 0 ? SESSION_HELLO_READ_ONLY : 0;
    memcpy(hello->pool, pools[shape % 8], strlen(pools[shape % 8]));
    memset(hello->name, 'a' + shape % 8, shape >> 4);
    hello->quota_bytes = (shape & 16) != 0 ? fuzz_number(&fuzz->input) : 0;
}

static void do_hello(struct fuzz *fuzz, struct client *client)
{
    struct session_hello hello;

    make_hello(fuzz, &hello);
    send_any(client, &hello, sizeof(hello), 0);
}

/* A node of another age, a field that cannot be, too short, too long. */
static void do_odd_hello(struct fuzz *fuzz, struct client *client)
{
    struct session_hello hello[3]; /* longer than a length of one byte */
    uint8_t shape;

    memset(hello, 0, sizeof(hello));
    make_hello(fuzz, &hello[0]);
    shape = fuzz_byte(&fuzz->input);
    if ((shape & 1) != 0)
        hello[0].version_min = hello[0].version_max = fuzz_byte(&fuzz->input);
    if ((shape & 2) != 0)
        fuzz_patch(&fuzz->input, &hello[0], sizeof(hello[0]));
    send_any(client, hello, (shape & 4) != 0 ? fuzz_byte(&fuzz->input) : sizeof(hello[0]),
             (shape & 8) != 0);
}

/* With the token of any client, right or a bit beside. */
static void do_resume(struct fuzz *fuzz, struct client *client)
{
    uint8_t shape = fuzz_byte(&fuzz->input);
    const struct client *other = (shape & 1) != 0 ? client : &fuzz->clients[shape / 4 % CLIENTS];
    struct session_hello hello;

    if (client->fd < 0)
        do_connect(fuzz, client);
    make_hello(fuzz, &hello);
    hello.flags |= SESSION_HELLO_RESUME;
    hello.session = other->welcome.session;
    memcpy(hello.token, other->welcome.token, sizeof(hello.token));
    if ((shape & 0x82) == 0x82) {
        hello.token[fuzz_byte(&fuzz->input) % 16] ^= 1;
        client->lied = !client->said;
    }
    send_any(client, &hello, sizeof(hello), 0);
}

static void do_bye(struct fuzz *fuzz, struct client *client)
{
    struct session_message_header bye = {.magic = SESSION_MAGIC, .kind = SESSION_BYE};

    (void)fuzz;
    send_any(client, &bye, sizeof(bye), 0);
}

static void do_ask_extents(struct fuzz *fuzz, struct client *client)
{
    uint8_t count = fuzz_byte(&fuzz->input) % 32;
    struct session_extent request = {
        .header = {.magic = SESSION_MAGIC, .kind = SESSION_EXTENT},
        .writable = fuzz_byte(&fuzz->input) % 2,
    };

    for (uint8_t i = 0; i <= count; i++) {
        request.extent = i % 2 == 0 ? i / 2 : LIMIT_EXTENTS / WORLD_LANES + i / 2;
        if (count == 0)
            request.extent = (uint32_t)fuzz_number(&fuzz->input);
        send_any(client, &request, sizeof(request), 0);
    }
}

static void do_read(struct fuzz *fuzz, struct client *client)
{
    for (uint8_t n = fuzz_byte(&fuzz->input) % 32; client_read(fuzz, client) && n > 0; n--)
        ;
}

static void do_close(struct fuzz *fuzz, struct client *client)
{
    (void)fuzz;
    fd_close(&client->fd);
}

static void do_shutdown(struct fuzz *fuzz, struct client *client)
{
    if (client->fd >= 0)
        (void)shutdown(client->fd, fuzz_byte(&fuzz->input) % 3);
}

/* The process dies: its sockets close before its death is seen, or after, or not at all (a child
 * has them). */
static void do_die(struct fuzz *fuzz, struct client *client)
{
    uint32_t number = (uint32_t)(client - fuzz->clients) % PROCESSES;
    uint8_t shape = fuzz_byte(&fuzz->input);

    if ((shape & 1) != 0)
        (void)world_turn(fuzz->world, 0);
    if ((shape & 2) != 0)
        process_end(fuzz, number);
    for (uint32_t i = number; i < CLIENTS && (shape & 12) != 0; i += PROCESSES)
        fd_close(&fuzz->clients[i].fd);
    if ((shape & 1) != 0)
        (void)world_turn(fuzz->world, 0);
    process_end(fuzz, number);
    process_begin(fuzz, number);
}

/* Many at once, who say hello, or nothing. */
static void do_crowd(struct fuzz *fuzz, struct client *client)
{
    uint8_t shape = fuzz_byte(&fuzz->input);
    uint32_t count = fuzz_byte(&fuzz->input) % CROWD;

    if (fuzz->crowds++ >= CROWDS)
        return;
    for (uint32_t i = 0; i < count; i++) {
        struct session_hello hello = {.header = {.magic = SESSION_MAGIC, .kind = SESSION_HELLO},
                                      .version_min = SESSION_VERSION_MIN,
                                      .version_max = SESSION_VERSION_MAX};
        int fd = world_connect(fuzz->world, process_of(fuzz, client), (shape & 1) != 0);

        if (fd >= 0 && (shape & 6) == 6 && i % 16 == 0)
            (void)fd_send_message(fd, &hello, sizeof(hello), NULL, 0);
        if ((shape & 8) != 0)
            fd_close(&fd);
        fd_close(&fuzz->crowd[i]);
        fuzz->crowd[i] = fd;
    }
}

/* ---- commands: shared memory ---------------------------------------------- */

static struct session_lane *ring_of(const struct client *client, uint32_t lane)
{
    return session_lane_of(client->memory, lane);
}

static void make_ready(struct client *client, uint32_t lane)
{
    shared_store_release(session_ready(ring_of(client, lane), client->welcome.slot), 1);
}

/* Any word, or one that matters. */
static void do_scribble(struct fuzz *fuzz, struct client *client)
{
    uint8_t where = fuzz_byte(&fuzz->input);
    uint64_t value = fuzz_number(&fuzz->input);
    uint64_t words = client->memory_bytes / sizeof(uint32_t);
    uint32_t *word = client->memory;

    switch (where % 4) {
    case 0: word += fuzz_number(&fuzz->input) % words; break;
    case 1: word += where / 4; break; /* the front */
    case 2:                           /* the indices, and what comes before and after them */
        word = (uint32_t *)(void *)&ring_of(client, any_lane(fuzz))->sq_tail;
        word += (where / 4 % 8) * 16;
        break;
    default: memset(word + fuzz_number(&fuzz->input) % (words - 1024), where, 4096); return;
    }
    *word = (uint32_t)value;
    make_ready(client, 0);
    make_ready(client, 1);
}

/* Indices that say so many, or that many fewer, are there. */
static void do_forge(struct fuzz *fuzz, struct client *client)
{
    uint32_t lane = any_lane(fuzz);
    struct session_lane *ring = ring_of(client, lane);
    uint8_t which = fuzz_byte(&fuzz->input);
    uint32_t value = (uint32_t)fuzz_number(&fuzz->input);

    switch (which % 4) {
    case 0:
        client->tail[lane] += value % 300;
        shared_store_release(&ring->sq_tail.value, client->tail[lane]);
        break;
    case 1:
        shared_store_release(&ring->cq_head.value,
                             shared_load_relaxed(&ring->cq_tail.value) - value);
        break;
    case 2:
        shared_store_release(&ring->event_head.value,
                             shared_load_relaxed(&ring->event_tail.value) - value);
        break;
    default: shared_store_release(&session_front_of(client->memory)->chunks_used, value);
    }
    make_ready(client, lane);
}

/* Pin words that name entries as a reader would leave them, and hints. */
static void do_pin(struct fuzz *fuzz, struct client *client)
{
    struct pin_chunk *chunks = session_chunks_of(client->memory, WORLD_LANES);
    uint8_t place = fuzz_byte(&fuzz->input);
    struct pin_chunk *chunk = &chunks[place % 4 == 3 ? LIMIT_PIN_CHUNKS - 1 : place % 4];
    uint32_t lane = any_lane(fuzz);
    uint32_t entry = (uint32_t)fuzz_number(&fuzz->input);

    shared_store_release(&session_front_of(client->memory)->chunks_used,
                         place % 4 == 3 ? LIMIT_PIN_CHUNKS : 3);
    pin_leave_hint(chunk, lane, entry);
    pin_publish(chunk, place / 4 % LIMIT_PINS_A_CHUNK, entry == 0 ? 0 : pin_ref(lane, entry - 1),
                fuzz_byte(&fuzz->input));
}

/* Clears the pins that a lane set. */
static void do_unpin(struct fuzz *fuzz, struct client *client)
{
    struct session_lane *ring = ring_of(client, any_lane(fuzz));
    uint32_t count = fuzz_byte(&fuzz->input);

    for (uint32_t i = 0; i < count; i++)
        shared_store_release(&ring->pin_entry[i], 0);
}

/* Takes the completions in, or acts as if; asks to be poked, or acts as if it slept. */
static void do_consume(struct fuzz *fuzz, struct client *client)
{
    struct session_lane *ring = ring_of(client, any_lane(fuzz));
    struct session_front *front = session_front_of(client->memory);
    uint8_t shape = fuzz_byte(&fuzz->input);

    shared_store_release(&ring->cq_head.value, shared_load_relaxed(&ring->cq_tail.value));
    if ((shape & 1) != 0)
        shared_store_release(&ring->event_head.value, shared_load_relaxed(&ring->event_tail.value));
    shared_store_release(&front->poke_wanted, (shape >> 1) & 1);
    shared_store_release(&front->waiting, (shape >> 2) & 1);
}

/* Holes in the session's memory under the node's feet; a length that may not change; a doorbell
 * that is full. */
static void do_damage(struct fuzz *fuzz, struct client *client)
{
    uint8_t shape = fuzz_byte(&fuzz->input);
    uint64_t page = fuzz_byte(&fuzz->input) % (client->memory_bytes / SESSION_PAGE);

    NIGH_ASSERT(ftruncate(client->memory_fd, SESSION_PAGE) != 0);
    if ((shape & 1) != 0)
        (void)fallocate(client->memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        (off_t)(page * SESSION_PAGE), (shape >> 4) * (off_t)SESSION_PAGE + 1);
    if ((shape & 2) != 0)
        (void)eventfd_write(client->doorbell_fds[shape / 4 % WORLD_LANES], UINT64_MAX - 1);
    if ((shape & 4) != 0) {
        eventfd_t count;

        (void)fcntl(client->doorbell_fds[shape / 8 % WORLD_LANES], F_SETFL, 0);
        if ((shape & 2) != 0)
            (void)eventfd_read(client->doorbell_fds[shape / 4 % WORLD_LANES], &count);
    }
}

/* What the lane said last: numbers that a client would use next. */
static const struct session_cqe *last_of(const struct client *client, uint32_t lane, uint8_t back)
{
    struct session_lane *ring = ring_of(client, lane);

    return &ring->cq[(shared_load_relaxed(&ring->cq_tail.value) - 1 - back % 4) %
                     LIMIT_RING_ENTRIES];
}

/* A submission made of input: what fits the last answer is likely, everything is possible. */
static void make_sqe(struct fuzz *fuzz, const struct client *client, struct session_sqe *sqe,
                     uint32_t *lane)
{
    struct fuzz_input *input = &fuzz->input;
    uint8_t shape = fuzz_byte(input);
    const struct session_cqe *last;

    memset(sqe, 0, sizeof(*sqe));
    sqe->op = fuzz_byte(input) % (SESSION_OPS + 1);
    sqe->id[0] = fuzz_byte(input) % IDS;
    sqe->cookie = shape % 8;
    *lane = (shape & 1) != 0 ? index_hash_lane(hash_id20(sqe->id), WORLD_LANES) : any_lane(fuzz);
    last = last_of(client, *lane, shape >> 6);
    sqe->ref = last->ref;
    sqe->offset = last->lease_bytes != 0 ? last->lease_offset : last->offset;
    sqe->data_size = fuzz_byte(input) * UINT64_C(64);
    sqe->argument = (shape & 2) != 0 ? fuzz_number(input) : UINT64_C(1) << 18;
    sqe->flags = fuzz_byte(input) % 16;
    if (sqe->op == SESSION_OP_SEAL && (shape & 4) != 0)
        sqe->flags |= SESSION_FLAG_LEASED;
    if (sqe->op == SESSION_OP_RECEIVE && (shape & 4) != 0) {
        sqe->flags |= SESSION_FLAG_ANSWER;
        memcpy(sqe->id + 8, &last->generation, sizeof(last->generation));
    }
    if (sqe->op == SESSION_OP_BULK_MAKE && (shape & 4) != 0) {
        sqe->flags = 0;
        sqe->meta_size = 1 + shape % 3;
        *lane = 0;
    }
    if (sqe->op == SESSION_OP_BULK_WAIT && (shape & 4) != 0) {
        sqe->flags &= SESSION_FLAG_END;
        memcpy(sqe->id, &last->generation, sizeof(last->generation));
    }
    if ((shape & 8) != 0) {
        sqe->meta_size = (uint32_t)fuzz_number(input);
        sqe->data_size = fuzz_number(input);
    }
    if ((shape & 16) != 0)
        sqe->offset += fuzz_number(input);
    if ((shape & 32) != 0)
        fuzz_patch(input, sqe, sizeof(*sqe));
}

static void submit(struct client *client, uint32_t lane, const struct session_sqe *sqe)
{
    struct session_lane *ring = ring_of(client, lane);

    ring->sq[client->tail[lane] % LIMIT_RING_ENTRIES] = *sqe;
    shared_store_release(&ring->sq_tail.value, ++client->tail[lane]);
    make_ready(client, lane);
}

static void do_submit(struct fuzz *fuzz, struct client *client)
{
    struct session_sqe sqe;
    uint32_t lane;

    make_sqe(fuzz, client, &sqe, &lane);
    submit(client, lane, &sqe);
}

/* As a client does it: asks, and takes the answer in before it asks again. */
static void do_ask(struct fuzz *fuzz, struct client *client)
{
    struct session_sqe sqe;
    struct session_lane *ring;
    uint32_t lane, before;

    make_sqe(fuzz, client, &sqe, &lane);
    ring = ring_of(client, lane);
    before = shared_load_relaxed(&ring->cq_tail.value);
    submit(client, lane, &sqe);
    (void)world_turn(fuzz->world, lane);
    /* A thread is at that, in its own time. */
    for (int n = 0; sqe.op == SESSION_OP_BULK_MAKE && n < 2000 &&
                    shared_load_relaxed(&ring->cq_tail.value) == before;
         n++) {
        (void)sched_yield();
        (void)world_turn(fuzz->world, lane);
    }
    shared_store_release(&ring->cq_head.value, shared_load_relaxed(&ring->cq_tail.value));
}

static void do_burst(struct fuzz *fuzz, struct client *client)
{
    struct session_sqe sqe;
    uint32_t lane, count = fuzz_byte(&fuzz->input);

    make_sqe(fuzz, client, &sqe, &lane);
    for (uint32_t i = 0; i < count; i++) {
        sqe.cookie++;
        sqe.id[1] = (uint8_t)(i % IDS);
        sqe.offset += sqe.data_size;
        submit(client, lane, &sqe);
    }
}

/* What was made last, if something was; or whatever. */
static void do_ask_bulk(struct fuzz *fuzz, struct client *client)
{
    struct session_bulk_file request = {
        .header = {.magic = SESSION_MAGIC, .kind = SESSION_BULK_ASK},
        .number = fuzz_number(&fuzz->input),
    };

    if (request.number % 16 == 15)
        request.header.kind = SESSION_MAP_ASK;
    if (client->memory != NULL && request.number < 8)
        request.number = last_of(client, 0, (uint8_t)request.number)->generation;
    send_any(client, &request, sizeof(request), 0);
}

/* ---- commands: spaces ----------------------------------------------------- */

/* As do_ask, or without waiting for the answer, and then all at once. */
static void do_space(struct fuzz *fuzz, struct client *client)
{
    uint8_t *places = session_places_of(client->memory, WORLD_LANES, 0);
    struct session_lane *ring = ring_of(client, 0);
    uint32_t before = shared_load_relaxed(&ring->cq_tail.value);
    struct session_sqe sqe;

    spaces_make_question(&fuzz->input, &client->spaces, places, &sqe);
    submit(client, 0, &sqe);
    if (fuzz_byte(&fuzz->input) % 8 == 7)
        return;
    (void)world_turn(fuzz->world, 0);
    /* Memory of one is made by a thread, in its own time. */
    while (client->fd >= 0 && sqe.name_size == SESSION_SPACE_CREATE && fuzz->waits < WAITS &&
           shared_load_relaxed(&ring->cq_tail.value) == before) {
        fuzz->waits++;
        (void)sched_yield();
        (void)world_turn(fuzz->world, 0);
    }
    if (shared_load_relaxed(&ring->cq_tail.value) - before == 1)
        spaces_take_answer(&client->spaces, process_of(fuzz, client), &sqe,
                           &ring->cq[before % LIMIT_RING_ENTRIES], places);
    shared_store_release(&ring->cq_head.value, shared_load_relaxed(&ring->cq_tail.value));
}

static void do_space_file(struct fuzz *fuzz, struct client *client)
{
    struct session_bulk_file request = {
        .header = {.magic = SESSION_MAGIC, .kind = SESSION_SPACE_ASK},
        .number = spaces_file_number(&fuzz->input, &client->spaces),
    };

    send_any(client, &request, sizeof(request), 0);
    if (fuzz_byte(&fuzz->input) % 8 == 7)
        return;
    (void)world_turn(fuzz->world, 0);
    while (client_read(fuzz, client))
        ;
}

static void do_window(struct fuzz *fuzz, struct client *client)
{
    uint8_t shape = fuzz_byte(&fuzz->input);

    for (uint8_t n = shape % 4; n < 4; n++)
        spaces_say(&fuzz->input, &client->spaces);
    for (uint8_t n = shape / 4 % 4; n > 0; n--)
        (void)world_turn(fuzz->world, 0);
}

/* ---- commands: time ------------------------------------------------------- */

static void do_turn(struct fuzz *fuzz, struct client *client)
{
    uint8_t shape = fuzz_byte(&fuzz->input);

    (void)client;
    for (uint8_t n = shape / 2 % 8; n > 0; n--)
        (void)world_turn(fuzz->world, shape % WORLD_LANES);
    (void)world_turn(fuzz->world, shape % WORLD_LANES);
}

static void do_pass(struct fuzz *fuzz, struct client *client)
{
    (void)client;
    world_pass(fuzz->world, UINT64_C(1) << fuzz_byte(&fuzz->input) % 25);
}

/* The whole way to an open session. */
static void do_open(struct fuzz *fuzz, struct client *client)
{
    if (fuzz->opens++ >= OPENS)
        return;
    do_connect(fuzz, client);
    do_hello(fuzz, client);
    for (int n = 0; n < 4; n++) {
        (void)world_turn(fuzz->world, 0);
        (void)world_turn(fuzz->world, 1);
    }
    (void)client_read(fuzz, client);
}

/* ---- one input ------------------------------------------------------------ */

static const struct {
    void (*run)(struct fuzz *fuzz, struct client *client);
    bool needs_memory;
} commands[] = {
    {do_open, false},      {do_connect, false}, {do_garbage, false},   {do_hello, false},
    {do_odd_hello, false}, {do_resume, false},  {do_bye, false},       {do_ask_extents, false},
    {do_read, false},      {do_close, false},   {do_shutdown, false},  {do_die, false},
    {do_crowd, false},     {do_turn, false},    {do_ask_bulk, false},  {do_pass, false},
    {do_scribble, true},   {do_forge, true},    {do_pin, true},        {do_unpin, true},
    {do_consume, true},    {do_damage, true},   {do_submit, true},     {do_submit, true},
    {do_ask, true},        {do_ask, true},      {do_ask, true},        {do_burst, true},
    {do_space, true},      {do_space, true},    {do_space_file, true}, {do_window, true},
    {do_window, true},     {do_window, true},
};

static void begin(struct fuzz *fuzz, const uint8_t *data, size_t size_bytes)
{
    memset(fuzz, 0, sizeof(*fuzz));
    fuzz->world = world_get();
    fuzz->input = (struct fuzz_input){data, size_bytes};
    fuzz->next_pid = PID_FIRST;
    for (uint32_t i = 0; i < PROCESSES; i++)
        process_begin(fuzz, i);
    for (uint32_t i = 0; i < CROWD; i++)
        fuzz->crowd[i] = -1;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        struct client *client = &fuzz->clients[i];

        client->fd = client->memory_fd = -1;
        for (uint32_t lane = 0; lane < WORLD_LANES; lane++)
            client->doorbell_fds[lane] = -1;
    }
}

static void end(struct fuzz *fuzz)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        fd_close(&fuzz->clients[i].fd);
        client_forget(&fuzz->clients[i]);
    }
    for (uint32_t i = 0; i < CROWD; i++)
        fd_close(&fuzz->crowd[i]);
    for (uint32_t i = 0; i < PROCESSES; i++)
        process_end(fuzz, i);
    /* The node still asks for who waits at its door: descriptors of the dead close afterwards. */
    world_settle(fuzz->world, fuzz->graves, fuzz->grave_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static struct fuzz fuzz;

    begin(&fuzz, data, size_bytes);
    for (uint32_t n = 0; n < COMMANDS_MAX && fuzz.input.left > 0; n++) {
        uint8_t what = fuzz_byte(&fuzz.input) % ARRAY_LENGTH(commands);
        struct client *client = &fuzz.clients[fuzz_byte(&fuzz.input) % CLIENTS];

        if (!commands[what].needs_memory || client->memory != NULL)
            commands[what].run(&fuzz, client);
    }
    end(&fuzz);
    return 0;
}
