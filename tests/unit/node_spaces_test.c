/* SPDX-License-Identifier: Apache-2.0 */
/* Spaces as sessions may ask for them (node/lane_space_sessions.c), of a lane that is alone: what
 * is wrong is refused, numbers are their session's and of what they were made for, who has no right
 * sees nothing, and a session leaves nothing; what becomes of messages that no link takes, and of a
 * space whose log cannot be used. */
#include "support/support.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "memory/session_space.h"
#include "node/lane_spaces.h"
#include "node/space_log_folder.h"
#include "node_echo_store.h"
#include "space/engine_internal.h"

#define SLOTS   4u
#define OFFSET  UINT64_C(65536)
#define MOST    (UINT64_C(4) << 20)
#define WAIT_MS 20000
#define ALL     (SESSION_SPACE_READ | SESSION_SPACE_WRITE)

static struct session_node_page page;
static struct lane *lane;
static struct lane_seat seats[SLOTS];
static _Alignas(8) uint8_t memory[LIMIT_CALL_BYTES];
static uint64_t now_us = 1000;
static struct space_log_folder logs; /* fd -1: it keeps none */

/* Slots 0 and 1 are one user's, 2 one of the same group, 3 a stranger. */
static int begin(void **state)
{
    static const uint32_t uids[SLOTS] = {70, 70, 71, 72}, gids[SLOTS] = {7, 7, 7, 8};
    struct lane_config config = {.lanes = 1,
                                 .max_sessions = SLOTS,
                                 .page = &page,
                                 .space_memory_bytes = MOST,
                                 .space_logs = logs.fd < 0 ? NULL : &logs,
                                 .store = {.incarnation = 1}};

    (void)state;
    memset(&page, 0, sizeof(page));
    assert_int_equal(lane_create(&config, &lane), NIGH_OK);
    lane_store(lane)->pools = UINT64_MAX;
    echo_leased = (struct echo_leased){.offset = OFFSET, .bytes = sizeof(memory), .at = memory};
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        seats[slot] = (struct lane_seat){.slot = slot,
                                         .session_id = slot + 1,
                                         .uid = uids[slot],
                                         .gid = gids[slot],
                                         .may_write = true,
                                         .socket_fd = -1};
        seats[slot].memory = mmap(NULL, session_memory_bytes(1), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(seats[slot].memory != MAP_FAILED);
        assert_int_equal(lane_session_open(lane, &seats[slot]), NIGH_OK);
    }
    return 0;
}

static int set_up(void **state)
{
    logs.fd = -1;
    return begin(state);
}

/* ... of a node that has a log of three quarters of its memory, which is not to be used. */
static int set_up_with_logs(void **state)
{
    struct space_info info = {.birth = 7,
                              .home_bytes = MOST / 2,
                              .cache_bytes = MOST / 8,
                              .block_bytes = 512,
                              .durability = SPACE_DURABLE_SYNC,
                              .uid = 70,
                              .gid = 7,
                              .name = "old",
                              .name_bytes = 3};
    char path[256];
    int space_fd;

    info.id = space_name_id(info.name, info.name_bytes);
    support_path(path, sizeof(path), "logs");
    (void)mkdir(path, 0700);
    logs.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(logs.fd >= 0);
    assert_int_equal(space_log_folder_make(logs.fd, &info, &space_fd), NIGH_OK);
    assert_int_equal(space_log_folder_refuse(space_fd), NIGH_OK);
    close(space_fd);
    return begin(state);
}

static int tear_down(void **state)
{
    (void)state;
    lane_destroy(lane);
    fd_close(&logs.fd);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        munmap(seats[slot].memory, session_memory_bytes(1));
    }
    return 0;
}

static struct session_lane *ring_of(uint32_t slot)
{
    return session_lane_of(seats[slot].memory, 0);
}

static bool has_ended(uint32_t slot)
{
    (void)lane_turn(lane, ++now_us);
    return atomic_load(&ring_of(slot)->cq_tail.value) == atomic_load(&ring_of(slot)->sq_tail.value);
}

static struct session_cqe ask(uint32_t slot, const struct session_sqe *sqe)
{
    struct session_lane *ring = ring_of(slot);
    uint32_t tail = atomic_load(&ring->sq_tail.value);

    atomic_store(&ring->cq_head.value, atomic_load(&ring->cq_tail.value));
    ring->sq[tail % LIMIT_RING_ENTRIES] = *sqe;
    atomic_store(&ring->sq_tail.value, tail + 1);
    atomic_store(session_ready(ring, slot), 1);
    assert_true(SUPPORT_WAIT(has_ended(slot), WAIT_MS));
    return ring->cq[tail % LIMIT_RING_ENTRIES];
}

static struct session_sqe a_question(enum session_space_what what, uint64_t number,
                                     uint64_t argument, uint64_t count)
{
    struct session_space_id id = {.number = number, .argument = argument};
    struct session_sqe sqe = {.op = SESSION_OP_SPACE,
                              .name_size = (uint16_t)what,
                              .offset = OFFSET,
                              .data_size = count,
                              .argument = UINT64_MAX};

    memcpy(sqe.id, &id, LIMIT_ID_BYTES);
    return sqe;
}

static struct session_cqe ask_of(uint32_t slot, enum session_space_what what, const char *name,
                                 uint64_t argument)
{
    struct session_sqe sqe = a_question(what, 0, argument, strlen(name));

    memcpy(memory, name, strlen(name));
    return ask(slot, &sqe);
}

static struct session_cqe ask_number(uint32_t slot, enum session_space_what what, uint64_t number)
{
    struct session_sqe sqe = a_question(what, number, 0, 0);

    return ask(slot, &sqe);
}

static struct session_cqe ask_make(uint32_t slot, const struct session_space_make *like,
                                   const void *name, size_t name_bytes)
{
    struct session_sqe sqe = a_question(SESSION_SPACE_CREATE, 0, 0, sizeof(*like) + name_bytes);

    memcpy(memory, like, sizeof(*like));
    memcpy(memory + sizeof(*like), name, name_bytes);
    return ask(slot, &sqe);
}

static nigh_status make(uint32_t slot, const struct session_space_make *like, const void *name,
                        size_t name_bytes)
{
    return ask_make(slot, like, name, name_bytes).status;
}

static nigh_status create(uint32_t slot, const char *name, uint32_t group, uint32_t others)
{
    struct session_space_make like = {
        .home_bytes = 8192, .group_rights = group, .other_rights = others};

    return make(slot, &like, name, strlen(name));
}

/* Its number; *cache_file, if it is wanted. */
static uint64_t open_space(uint32_t slot, const char *name, uint32_t rights, uint64_t *cache_file)
{
    struct session_cqe cqe = ask_of(slot, SESSION_SPACE_OPEN, name, rights);
    struct session_space_opened opened;

    assert_int_equal(cqe.status, NIGH_OK);
    assert_int_equal(cqe.flags, SESSION_CQE_OPENED);
    memcpy(&opened, memory, sizeof(opened));
    if (cache_file != NULL) {
        *cache_file = opened.cache_file;
    }
    return cqe.generation;
}

static nigh_status look_for_file(uint32_t slot, uint64_t number)
{
    int fd = -1;
    nigh_status status = lane_space_file_open(lane, slot, number, &fd);

    assert_int_equal(status == NIGH_OK, fd >= 0);
    fd_close(&fd);
    return status;
}

/* ---- what is refused ------------------------------------------------------ */

static void what_is_wrong_is_refused(void **state)
{
    struct session_sqe sqe = a_question(SESSION_SPACE_LIST, 0, 0, 0);
    struct session_sqe wrong;

    (void)state;
    assert_int_equal(ask(0, &sqe).status, NIGH_OK);
    for (uint32_t what = 0; what < 70000; what += what < 20 ? 1 : 9973) {
        wrong = sqe;
        wrong.name_size = (uint16_t)what;
        if (wrong.name_size == 0 || wrong.name_size >= SESSION_SPACE_WHATS) {
            assert_int_equal(ask(0, &wrong).status, NIGH_INVALID);
        }
    }
    wrong = sqe;
    wrong.flags = 1;
    assert_int_equal(ask(0, &wrong).status, NIGH_INVALID);
    wrong = sqe;
    wrong.meta_size = 1;
    assert_int_equal(ask(0, &wrong).status, NIGH_INVALID);
    wrong = sqe;
    wrong.offset = OFFSET + 1000; /* the answer would not fit */
    assert_int_equal(ask(0, &wrong).status, NIGH_INVALID);
    wrong = sqe;
    wrong.data_size = LIMIT_SPACE_NAME_BYTES + 1;
    assert_int_equal(ask(0, &wrong).status, NIGH_INVALID);
    wrong.data_size = LIMIT_CALL_BYTES + 1;
    assert_int_equal(ask(0, &wrong).status, NIGH_INVALID);
    assert_int_equal(create(0, "s", 0, 0), NIGH_OK);
    assert_int_equal(ask_of(0, SESSION_SPACE_OPEN, "s", 0).status, NIGH_INVALID);
    assert_int_equal(ask_of(0, SESSION_SPACE_OPEN, "s", 4).status, NIGH_INVALID);
    assert_int_equal(ask_of(0, SESSION_SPACE_OPEN, "s", UINT64_MAX).status, NIGH_INVALID);
    for (uint64_t number = 0; number < 2000; number++) {
        assert_int_equal(ask_number(0, SESSION_SPACE_CLOSE, number).status, NIGH_INVALID);
        assert_int_equal(ask_number(0, SESSION_SPACE_WINDOW_END, number).status, NIGH_INVALID);
        assert_int_equal(look_for_file(0, number), NIGH_NOT_FOUND);
    }
}

static void no_space_is_made_that_cannot_be(void **state)
{
    static const char longest[LIMIT_SPACE_NAME_BYTES + 1] =
        "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn";
    struct session_space_make good = {.home_bytes = 8192}, like;

    (void)state;
    assert_int_equal(make(0, &good, "", 0), NIGH_INVALID);
    assert_int_equal(make(0, &good, "a\0b", 3), NIGH_INVALID);
    assert_int_equal(make(0, &good, longest, sizeof(longest)), NIGH_INVALID);
    assert_int_equal(make(0, &good, longest, sizeof(longest) - 1), NIGH_OK);
    for (uint32_t rights = 0; rights < 4; rights++) {
        like = good;
        like.group_rights = rights;
        assert_int_equal(make(0, &like, (const char[]){(char)('g' + rights)}, 1),
                         rights == SESSION_SPACE_WRITE ? NIGH_INVALID : NIGH_OK);
        like = good;
        like.other_rights = rights;
        assert_int_equal(make(0, &like, (const char[]){(char)('o' + rights)}, 1),
                         rights == SESSION_SPACE_WRITE ? NIGH_INVALID : NIGH_OK);
    }
    like = good;
    like.group_rights = 4;
    assert_int_equal(make(0, &like, "x", 1), NIGH_INVALID);
    like = good;
    like.durability = SESSION_SPACE_DURABLE_SYNC + 1;
    assert_int_equal(make(0, &like, "x", 1), NIGH_INVALID);
    for (uint32_t bytes = 1; bytes < 16384; bytes += bytes < 70 ? 1 : 1021) {
        like = good;
        like.block_bytes = bytes;
        assert_int_equal(make(0, &like, "x", 1), bytes == 64 ? NIGH_OK : NIGH_INVALID);
    }
    like = good;
    like.home_bytes = UINT64_MAX - 511;
    assert_int_equal(make(0, &like, "y", 1), NIGH_INVALID);
    like.home_bytes = 2 * MOST;
    assert_int_equal(make(0, &like, "y", 1), NIGH_OUT_OF_MEMORY);
    assert_int_equal(make(0, &good, "x", 1), NIGH_EXISTS);
}

/* ---- who may what --------------------------------------------------------- */

static uint32_t listed(uint32_t slot)
{
    struct session_space_page spaces;

    assert_int_equal(ask_of(slot, SESSION_SPACE_LIST, "", 0).status, NIGH_OK);
    memcpy(&spaces, memory, sizeof(spaces));
    return spaces.count;
}

static void who_has_no_right_does_not_see(void **state)
{
    (void)state;
    assert_int_equal(create(0, "own", 0, 0), NIGH_OK);
    assert_int_equal(create(0, "group", SESSION_SPACE_READ, 0), NIGH_OK);
    assert_int_equal(create(0, "others", 0, ALL), NIGH_OK);
    assert_int_equal(listed(0), 3);
    assert_int_equal(listed(1), 3);
    assert_int_equal(listed(2), 2);
    assert_int_equal(listed(3), 1);
    assert_int_equal(ask_of(1, SESSION_SPACE_STAT, "own", 0).status, NIGH_OK);
    assert_int_equal(ask_of(2, SESSION_SPACE_STAT, "own", 0).status, NIGH_DENIED);
    assert_int_equal(ask_of(2, SESSION_SPACE_STAT, "group", 0).status, NIGH_OK);
    assert_int_equal(ask_of(3, SESSION_SPACE_STAT, "group", 0).status, NIGH_DENIED);
    for (uint64_t rights = 1; rights <= ALL; rights++) {
        assert_int_equal(ask_of(2, SESSION_SPACE_OPEN, "own", rights).status, NIGH_DENIED);
        assert_int_equal(ask_of(2, SESSION_SPACE_OPEN, "group", rights).status,
                         rights == SESSION_SPACE_READ ? NIGH_OK : NIGH_DENIED);
        assert_int_equal(ask_of(3, SESSION_SPACE_OPEN, "others", rights).status, NIGH_OK);
    }
    assert_int_equal(ask_of(3, SESSION_SPACE_DELETE, "others", 0).status, NIGH_DENIED);
    assert_int_equal(ask_of(1, SESSION_SPACE_DELETE, "others", 0).status, NIGH_OK);
    assert_int_equal(ask_of(1, SESSION_SPACE_DELETE, "others", 0).status, NIGH_NOT_FOUND);
}

/* ---- numbers -------------------------------------------------------------- */

static void a_number_is_of_what_it_was_made_for(void **state)
{
    uint64_t number, again, file, other;

    (void)state;
    assert_int_equal(create(0, "s", 0, ALL), NIGH_OK);
    number = open_space(0, "s", SESSION_SPACE_READ, &file);
    assert_int_equal(open_space(0, "s", ALL, &other), number);
    assert_int_equal(other, file);
    assert_int_equal(look_for_file(0, file), NIGH_OK);
    assert_int_equal(look_for_file(1, file), NIGH_NOT_FOUND);
    assert_int_equal(ask_number(1, SESSION_SPACE_CLOSE, number).status, NIGH_INVALID);
    assert_int_equal(ask_number(0, SESSION_SPACE_CLOSE, number).status, NIGH_OK);
    assert_int_equal(look_for_file(0, file), NIGH_OK);
    assert_int_equal(ask_number(0, SESSION_SPACE_CLOSE, number).status, NIGH_OK);
    assert_int_equal(ask_number(0, SESSION_SPACE_CLOSE, number).status, NIGH_INVALID);
    assert_int_equal(look_for_file(0, file), NIGH_NOT_FOUND);
    again = open_space(0, "s", ALL, &other);
    assert_true(again != number && other != file);
    assert_int_equal(look_for_file(0, file), NIGH_NOT_FOUND);
    assert_int_equal(ask_number(0, SESSION_SPACE_CLOSE, number).status, NIGH_INVALID);
    file = other;
    assert_int_equal(ask_of(0, SESSION_SPACE_DELETE, "s", 0).status, NIGH_OK);
    assert_int_equal(create(0, "s", 0, 0), NIGH_OK);
    assert_int_equal(look_for_file(0, file), NIGH_NOT_FOUND);
    number = open_space(0, "s", ALL, &other);
    assert_true(number != again && other != file);
    assert_int_equal(look_for_file(0, other), NIGH_OK);
}

static struct session_cqe open_birth(uint32_t slot, const char *name, uint64_t birth)
{
    struct session_sqe sqe = a_question(SESSION_SPACE_OPEN, birth, ALL, strlen(name));

    memcpy(memory, name, strlen(name));
    return ask(slot, &sqe);
}

/* Who has made one opens that, and not what another makes when it is deleted. */
static void a_birth_is_opened_and_no_other(void **state)
{
    const struct session_space_make like = {.home_bytes = 8192};
    struct session_space_opened opened;
    struct session_cqe first, second;

    (void)state;
    first = ask_make(0, &like, "s", 1);
    assert_int_equal(first.status, NIGH_OK);
    assert_true(first.generation != 0);
    assert_int_equal(ask_make(1, &like, "s", 1).generation, 0);
    assert_int_equal(open_birth(0, "s", first.generation).status, NIGH_OK);
    memcpy(&opened, memory, sizeof(opened));
    assert_true(opened.stat.birth == first.generation);
    assert_int_equal(ask_of(0, SESSION_SPACE_DELETE, "s", 0).status, NIGH_OK);
    second = ask_make(3, &like, "s", 1);
    assert_true(second.generation != 0 && second.generation != first.generation);
    assert_int_equal(open_birth(0, "s", first.generation).status, NIGH_NOT_FOUND);
    assert_int_equal(open_birth(3, "s", second.generation).status, NIGH_OK);
    assert_int_equal(open_birth(0, "s", 0).status, NIGH_DENIED);
}

/* It could not open what is made. */
static void who_can_open_no_more_makes_none(void **state)
{
    uint64_t number = 0;
    char name[8];

    (void)state;
    for (uint32_t n = 0; n < LIMIT_SPACES; n++) {
        snprintf(name, sizeof(name), "n%u", n);
        assert_int_equal(create(0, name, 0, 0), NIGH_OK);
        number = open_space(0, name, ALL, NULL);
        assert_int_equal(ask_of(0, SESSION_SPACE_DELETE, name, 0).status, NIGH_OK);
    }
    assert_int_equal(create(1, "others", 0, 0), NIGH_OK);
    assert_int_equal(ask_of(0, SESSION_SPACE_OPEN, "others", ALL).status, NIGH_LIMIT);
    assert_int_equal(create(0, "others", 0, 0), NIGH_EXISTS);
    assert_int_equal(create(0, "more", 0, 0), NIGH_LIMIT);
    assert_int_equal(ask_of(0, SESSION_SPACE_STAT, "more", 0).status, NIGH_NOT_FOUND);
    assert_int_equal(create(1, "more", 0, 0), NIGH_OK);
    assert_int_equal(ask_number(0, SESSION_SPACE_CLOSE, number).status, NIGH_OK);
    assert_int_equal(create(0, "again", 0, 0), NIGH_OK);
    (void)open_space(0, "again", ALL, NULL);
}

static void a_session_has_so_many_windows_and_leaves_none(void **state)
{
    uint64_t numbers[LIMIT_SESSION_WINDOWS];
    nigh_node_stats stats = {0};

    (void)state;
    for (uint32_t n = 0; n < LIMIT_SESSION_WINDOWS; n++) {
        struct session_cqe cqe = ask_number(0, SESSION_SPACE_WINDOW, 0);

        assert_int_equal(cqe.status, NIGH_OK);
        assert_int_equal(cqe.flags, SESSION_CQE_MAPPED);
        numbers[n] = cqe.generation;
        assert_int_equal(look_for_file(0, numbers[n]), NIGH_OK);
        assert_int_equal(look_for_file(1, numbers[n]), NIGH_NOT_FOUND);
    }
    assert_int_equal(ask_number(0, SESSION_SPACE_WINDOW, 0).status, NIGH_LIMIT);
    assert_int_equal(ask_number(1, SESSION_SPACE_WINDOW_END, numbers[3]).status, NIGH_INVALID);
    assert_int_equal(ask_number(0, SESSION_SPACE_WINDOW_END, numbers[3]).status, NIGH_OK);
    assert_int_equal(ask_number(0, SESSION_SPACE_WINDOW_END, numbers[3]).status, NIGH_INVALID);
    assert_true(ask_number(0, SESSION_SPACE_WINDOW, 0).generation != numbers[3]);
    lane_spaces_count(lane, &stats);
    assert_int_equal(stats.space_windows, LIMIT_SESSION_WINDOWS);
    lane_spaces_forget(lane, 0, true);
    stats = (nigh_node_stats){0};
    lane_spaces_count(lane, &stats);
    assert_int_equal(stats.space_windows, 0);
    assert_int_equal(look_for_file(0, numbers[5]), NIGH_NOT_FOUND);
}

/* ---- numbers of what was done --------------------------------------------- */

static uint32_t find_window(uint32_t slot)
{
    struct session_cqe cqe = ask_number(slot, SESSION_SPACE_WINDOW, 0);

    assert_int_equal(cqe.status, NIGH_OK);
    return (uint32_t)(cqe.generation >> 2 & 0xff) - 1;
}

static struct space_window *window_of(uint32_t slot, uint32_t window)
{
    return lane->spaces->sessions[slot]->windows[window].memory;
}

/* What a thread says of a space, by the number that it has for it. */
static void say(struct space_window *window, uint64_t number, enum space_count what, uint64_t count)
{
    atomic_store(&window->counts[space_place_of((uint32_t)number)][what], count);
}

static struct session_space_counts count(uint32_t slot, const char *name)
{
    struct session_space_counts counts;
    struct session_cqe cqe = ask_of(slot, SESSION_SPACE_COUNT, name, 0);

    assert_int_equal(cqe.status, NIGH_OK);
    assert_int_equal(cqe.data_size, sizeof(counts));
    memcpy(&counts, memory, sizeof(counts));
    return counts;
}

static void what_threads_count_is_summed(void **state)
{
    struct session_space_counts counts;
    nigh_node_stats stats = {0};
    struct space_window *windows[3];
    uint64_t s, t, other;
    uint32_t first, second;

    (void)state;
    assert_int_equal(create(0, "t", 0, 0), NIGH_OK);
    assert_int_equal(create(0, "s", 0, 0), NIGH_OK);
    first = find_window(0);
    second = find_window(0);
    windows[0] = window_of(0, first);
    windows[1] = window_of(0, second);
    windows[2] = window_of(1, find_window(1));
    t = open_space(0, "t", ALL, NULL);
    s = open_space(0, "s", ALL, NULL);
    other = open_space(1, "s", SESSION_SPACE_READ, NULL);
    assert_int_not_equal(space_place_of((uint32_t)s), space_place_of((uint32_t)other));
    say(windows[0], s, SPACE_COUNT_HITS, 100);
    say(windows[0], s, SPACE_COUNT_MISSES, 20);
    say(windows[0], t, SPACE_COUNT_HITS, 3);
    say(windows[1], s, SPACE_COUNT_HITS, 1);
    say(windows[1], s, SPACE_COUNT_KEPT, 7);
    say(windows[2], other, SPACE_COUNT_HITS, 1000);
    say(windows[2], other, SPACE_COUNT_LOCKS, 5);
    counts = count(0, "s");
    assert_int_equal(counts.hits, 1101);
    assert_int_equal(counts.reads, 1121);
    assert_int_equal(counts.kept, 7);
    assert_int_equal(counts.locks, 12);
    assert_int_equal(count(0, "s").reads, 1121);
    assert_int_equal(count(0, "t").reads, 3);
    say(windows[0], s, SPACE_COUNT_HITS, 150);
    lane_spaces_count(lane, &stats);
    assert_int_equal(stats.space_hits, 1154);
    assert_int_equal(stats.space_client_reads, 1174);
    assert_int_equal(stats.space_locks_kept, 7);
    assert_int_equal(ask_of(2, SESSION_SPACE_COUNT, "s", 0).status, NIGH_DENIED);
    assert_int_equal(ask_of(0, SESSION_SPACE_COUNT, "none", 0).status, NIGH_NOT_FOUND);
    assert_int_equal(ask_of(0, SESSION_SPACE_COUNT, "", 0).status, NIGH_INVALID);
}

/* Of a window, a space that is closed, a session: what was said until then stays said; and what
 * has the place next begins with nothing. */
static void what_was_counted_stays_when_who_counted_goes(void **state)
{
    struct space_window *window;
    struct session_cqe ended;
    uint64_t s, t;

    (void)state;
    assert_int_equal(create(0, "s", 0, 0), NIGH_OK);
    assert_int_equal(create(0, "t", 0, 0), NIGH_OK);
    s = open_space(0, "s", ALL, NULL);
    ended = ask_number(0, SESSION_SPACE_WINDOW, 0);
    say(window_of(0, 0), s, SPACE_COUNT_HITS, 10);
    assert_int_equal(ask_number(0, SESSION_SPACE_WINDOW_END, ended.generation).status, NIGH_OK);
    assert_int_equal(count(0, "s").hits, 10);
    window = window_of(0, find_window(0));
    say(window, s, SPACE_COUNT_HITS, 4);
    assert_int_equal(ask_number(0, SESSION_SPACE_CLOSE, s).status, NIGH_OK);
    assert_int_equal(count(0, "s").hits, 14);
    say(window, s, SPACE_COUNT_HITS, 1000); /* of nothing that it has open */
    t = open_space(0, "t", ALL, NULL);
    assert_int_equal(space_place_of((uint32_t)t), space_place_of((uint32_t)s));
    assert_int_equal(count(0, "s").hits, 14);
    assert_int_equal(count(0, "t").hits, 0);
    say(window, t, SPACE_COUNT_HITS, 1002);
    assert_int_equal(count(0, "t").hits, 2);
    say(window, t, SPACE_COUNT_HITS, 1005);
    lane_spaces_forget(lane, 0, true);
    assert_int_equal(count(1, "t").hits, 5);
    assert_int_equal(ask_of(1, SESSION_SPACE_DELETE, "t", 0).status, NIGH_OK);
    assert_int_equal(create(0, "t", 0, 0), NIGH_OK);
    assert_int_equal(count(1, "t").hits, 0);
}

/* A client may write there what it likes: it is counted within bounds, and harms nobody's. */
static void what_cannot_be_counted_is_not(void **state)
{
    struct space_window *window;
    struct session_space_counts counts;
    uint64_t s;

    (void)state;
    assert_int_equal(create(0, "s", 0, 0), NIGH_OK);
    s = open_space(0, "s", ALL, NULL);
    window = window_of(0, find_window(0));
    say(window, s, SPACE_COUNT_HITS, UINT64_MAX);
    assert_int_equal(count(0, "s").hits, 0);
    say(window, s, SPACE_COUNT_HITS, 5); /* less than it was */
    assert_int_equal(count(0, "s").hits, 0);
    say(window, s, SPACE_COUNT_HITS, 8);
    assert_int_equal(count(0, "s").hits, 3);
    for (uint64_t n = 1; n <= 600; n++) {
        say(window, s, SPACE_COUNT_HITS, n % 2 * LIMIT_SPACE_COUNT_STEP);
        say(window, s, SPACE_COUNT_MISSES, n % 2 * LIMIT_SPACE_COUNT_STEP);
        counts = count(0, "s");
        assert_true(counts.reads >= counts.hits && counts.locks >= counts.kept);
    }
    assert_int_equal(counts.hits, UINT64_MAX);
    assert_int_equal(counts.reads, UINT64_MAX);
    memset(window->counts, 0xa5, sizeof(window->counts));
    counts = count(0, "s");
    assert_int_equal(counts.kept, 0);
}

/* ---- logs ----------------------------------------------------------------- */

static uint64_t memory_used(void)
{
    nigh_node_stats stats = {0};

    (void)lane_turn(lane, ++now_us);
    lane_spaces_count(lane, &stats);
    return stats.space_memory_bytes;
}

/* A space whose log cannot be used takes no memory from others. */
static void what_takes_no_part_takes_no_memory(void **state)
{
    struct session_space_make like = {.home_bytes = MOST / 2, .cache_bytes = MOST / 8};

    (void)state;
    assert_int_equal(ask_of(0, SESSION_SPACE_OPEN, "old", SESSION_SPACE_READ).status, NIGH_CORRUPT);
    assert_true(SUPPORT_WAIT(memory_used() == 0, WAIT_MS));
    assert_int_equal(make(0, &like, "new", 3), NIGH_OK);
    assert_int_equal(ask_of(0, SESSION_SPACE_OPEN, "old", SESSION_SPACE_READ).status, NIGH_CORRUPT);
    assert_int_equal(ask_of(0, SESSION_SPACE_DELETE, "old", 0).status, NIGH_OK);
    assert_int_equal(create(0, "old", 0, 0), NIGH_OK);
}

/* ---- links ---------------------------------------------------------------- */

/* Of a link that is to be broken, or is not there, a message stays the engine's, which ends it with
 * the link; one that the lane took would have no end. */
static void what_no_link_takes_stays_the_engines(void **state)
{
    struct space_send send = {.seat = 3, .wants_end = true, .cookie = 3};
    struct lane_spaces *at = lane->spaces;
    static char link[4096];
    struct space_here *here;

    (void)state;
    assert_int_equal(create(0, "s", 0, 0), NIGH_OK);
    here = container_of(list_first(&at->here), struct space_here, link);
    assert_false(here->engine->config.shell.send(here, &send));
    at->links[3] = (struct link *)(void *)link;
    lane_spaces_cut(at, 3, NIGH_PROTOCOL);
    assert_false(here->engine->config.shell.send(here, &send));
    assert_int_equal(here->under_way, 0);
    at->links[3] = NULL;
    at->is_ending = true; /* there are no links any more, nor ends: the engine goes as it is */
    assert_true(here->engine->config.shell.send(here, &send));
    at->is_ending = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_wrong_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_space_is_made_that_cannot_be, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_has_no_right_does_not_see, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_number_is_of_what_it_was_made_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_birth_is_opened_and_no_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_can_open_no_more_makes_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_session_has_so_many_windows_and_leaves_none, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_threads_count_is_summed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_counted_stays_when_who_counted_goes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_counted_is_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_takes_no_part_takes_no_memory, set_up_with_logs,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_no_link_takes_stays_the_engines, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
