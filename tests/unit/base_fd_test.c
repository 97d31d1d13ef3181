/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: messages that carry them, what is refused, and that none is ever left over. */
#include "base/check.h"
#include "base/fd.h"
#include "base/limits.h"
#include "support/support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Descriptors this process has open. */
static int open_count(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

struct pair {
    int ends[2];
    int open_before;
};

static struct pair open_pair(void)
{
    struct pair pair = {.open_before = open_count()};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.ends), 0);
    return pair;
}

/* Closes both ends; no descriptor may then be open that was not before. */
static void close_pair(struct pair *pair)
{
    fd_close(&pair->ends[0]);
    fd_close(&pair->ends[1]);
    assert_int_equal(open_count(), pair->open_before);
}

static void close_forgets_the_descriptor_and_keeps_errno(void **state)
{
    (void)state;
    int fd = dup(0), before = fd;
    errno = ENOENT;
    fd_close(&fd);
    assert_int_equal(fd, -1);
    fd_close(&fd);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(fcntl(before, F_GETFD), -1);
    fd = 100000;
    errno = ENOENT;
    fd_close(&fd);
    assert_int_equal(errno, ENOENT);
}

static void flags_are_added(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_APPEND), 0);
    assert_int_equal(fd_set_nonblock(ends[1]), NIGH_OK);
    assert_int_equal(fcntl(ends[1], F_GETFL) & (O_NONBLOCK | O_APPEND), O_NONBLOCK | O_APPEND);
    assert_int_equal(fd_set_cloexec(ends[1]), NIGH_OK);
    assert_int_equal(fcntl(ends[1], F_GETFD), FD_CLOEXEC);
    fd_close(&ends[0]);
    fd_close(&ends[1]);
    assert_int_not_equal(fd_set_nonblock(-1), NIGH_OK);
}

/* Receives into room for `capacity` bytes and `fd_capacity` descriptors; outputs start as 99. */
struct received {
    char bytes[64];
    size_t size_bytes;
    int fds[LIMIT_SESSION_FDS];
    size_t fd_count;
};

static nigh_status receive(int socket, struct received *received, size_t capacity,
                           size_t fd_capacity)
{
    memset(received, 0, sizeof(*received));
    received->size_bytes = received->fd_count = 99;
    return fd_recv_message(socket, received->bytes, capacity, &received->size_bytes, received->fds,
                           fd_capacity, &received->fd_count);
}

static void message_arrives_without_descriptors(void **state)
{
    (void)state;
    struct pair pair = open_pair();
    struct received received;
    assert_int_equal(receive(pair.ends[1], &received, 64, 4), NIGH_BUSY);
    assert_int_equal(fd_send_message(pair.ends[0], "hello", 5, NULL, 0), NIGH_OK);
    assert_int_equal(fd_send_message(pair.ends[0], "you", 3, NULL, 0), NIGH_OK);
    assert_int_equal(receive(pair.ends[1], &received, 64, 4), NIGH_OK);
    assert_int_equal(received.size_bytes, 5);
    assert_int_equal(received.fd_count, 0);
    assert_memory_equal(received.bytes, "hello", 5);
    assert_int_equal(receive(pair.ends[1], &received, 3, 0), NIGH_OK);
    assert_memory_equal(received.bytes, "you", 3);
    assert_int_equal(receive(pair.ends[1], &received, 64, 0), NIGH_BUSY);
    assert_int_equal(received.size_bytes, 99);
    close_pair(&pair);
}

static void descriptors_arrive_in_order_and_close_on_exec(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 2, 3, LIMIT_SESSION_FDS - 1, LIMIT_SESSION_FDS};
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++) {
        struct pair pair = open_pair();
        struct received received;
        int sent[LIMIT_SESSION_FDS];
        for (size_t j = 0; j < counts[i]; j++)
            sent[j] = j % 2 == 0 ? STDIN_FILENO : pair.ends[0];
        assert_int_equal(fd_send_message(pair.ends[0], "x", 1, sent, counts[i]), NIGH_OK);
        assert_int_equal(receive(pair.ends[1], &received, 64, counts[i]), NIGH_OK);
        assert_int_equal(received.fd_count, counts[i]);
        for (size_t j = 0; j < counts[i]; j++) {
            struct stat there, here;
            assert_int_equal(fstat(sent[j], &there), 0);
            assert_int_equal(fstat(received.fds[j], &here), 0);
            assert_true(there.st_ino == here.st_ino && there.st_dev == here.st_dev);
            assert_int_equal(fcntl(received.fds[j], F_GETFD), FD_CLOEXEC);
            fd_close(&received.fds[j]);
        }
        close_pair(&pair);
    }
}

static void excess_descriptors_are_closed_and_refused(void **state)
{
    (void)state;
    static const struct {
        size_t sent, capacity;
    } cases[] = {{1, 0}, {2, 1}, {3, 1}, {3, 2}, {4, 3}, {LIMIT_SESSION_FDS, 7}, {250, 249}};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct pair pair = open_pair();
        struct received received;
        int sent[LIMIT_SESSION_FDS];
        for (size_t j = 0; j < cases[i].sent; j++)
            sent[j] = pair.ends[0];
        assert_int_equal(fd_send_message(pair.ends[0], "x", 1, sent, cases[i].sent), NIGH_OK);
        assert_int_equal(fd_send_message(pair.ends[0], "next", 4, NULL, 0), NIGH_OK);
        assert_int_equal(receive(pair.ends[1], &received, 64, cases[i].capacity), NIGH_PROTOCOL);
        assert_int_equal(received.fd_count, 99);
        assert_int_equal(receive(pair.ends[1], &received, 64, 4), NIGH_OK);
        assert_int_equal(received.size_bytes, 4);
        close_pair(&pair);
    }
}

/* A message with that many descriptors, of which the sender keeps none that counts here. */
static void send_descriptors(const struct pair *pair, size_t bytes, size_t count)
{
    int sent[LIMIT_SESSION_FDS];
    char text[70] = "abc";

    for (size_t i = 0; i < count; i++)
        sent[i] = pair->ends[0];
    assert_int_equal(fd_send_message(pair->ends[0], text, bytes, sent, count), NIGH_OK);
}

/* Of who is not trusted nothing is received before it is asked for, and then one alone. */
static void what_is_looked_at_stays(void **state)
{
    static const struct {
        size_t sent, bytes;
        nigh_status seen, taken;
    } cases[] = {{0, 3, NIGH_OK, NIGH_NO_RESOURCES},       {1, 3, NIGH_OK, NIGH_OK},
                 {2, 3, NIGH_OK, NIGH_PROTOCOL},           {3, 3, NIGH_OK, NIGH_PROTOCOL},
                 {250, 3, NIGH_OK, NIGH_PROTOCOL},         {1, 70, NIGH_PROTOCOL, NIGH_OK},
                 {0, 70, NIGH_PROTOCOL, NIGH_NO_RESOURCES}};
    char bytes[64];
    size_t size = 0;
    bool brings = true;

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct pair pair = open_pair();
        int before = open_count(), fd;

        assert_int_equal(fd_peek_message(pair.ends[1], bytes, sizeof(bytes), &size, &brings),
                         NIGH_BUSY);
        send_descriptors(&pair, cases[i].bytes, cases[i].sent);
        for (int n = 0; n < 2; n++) {
            assert_int_equal(fd_peek_message(pair.ends[1], bytes, sizeof(bytes), &size, &brings),
                             cases[i].seen);
            assert_int_equal(brings, cases[i].sent > 0);
            assert_int_equal(size, min_size(cases[i].bytes, sizeof(bytes)));
            assert_memory_equal(bytes, "abc", 3);
        }
        assert_int_equal(open_count(), before);
        assert_int_equal(fd_recv_one(pair.ends[1], &fd), cases[i].taken);
        assert_int_equal(open_count(), before + (cases[i].sent > 0 ? 1 : 0));
        assert_int_equal(fd >= 0, cases[i].sent > 0);
        if (fd >= 0)
            assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
        fd_close(&fd);
        assert_int_equal(fd_peek_message(pair.ends[1], bytes, sizeof(bytes), &size, &brings),
                         cases[i].taken == NIGH_OK ? NIGH_BUSY : cases[i].seen);
        fd_close(&pair.ends[0]);
        close_pair(&pair);
    }
}

static void an_empty_message_is_not_the_end(void **state)
{
    static const int one = 1;
    struct pair pair = open_pair();
    char byte;

    (void)state;
    assert_int_equal(setsockopt(pair.ends[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)), 0);
    assert_int_equal(fd_next(pair.ends[1]), FD_NEXT_NONE);
    assert_int_equal(send(pair.ends[0], NULL, 0, 0), 0);
    send_descriptors(&pair, 1, 1);
    send_descriptors(&pair, 70, 0);
    assert_int_equal(fd_next(pair.ends[1]), FD_NEXT_PLAIN);
    assert_int_equal(send(pair.ends[1], "unread", 6, 0), 6);
    fd_close(&pair.ends[0]); /* of that it is told first */
    assert_int_equal(fd_next(pair.ends[1]), FD_NEXT_PLAIN);
    assert_int_equal(recv(pair.ends[1], &byte, 1, MSG_DONTWAIT), 0);
    assert_int_equal(fd_next(pair.ends[1]), FD_NEXT_BRINGS);
    assert_int_equal(recv(pair.ends[1], &byte, 1, MSG_DONTWAIT), 1);
    assert_int_equal(fd_next(pair.ends[1]), FD_NEXT_PLAIN);
    assert_int_equal(recv(pair.ends[1], &byte, 1, MSG_DONTWAIT), 1);
    assert_int_equal(fd_next(pair.ends[1]), FD_NEXT_NONE);
    close_pair(&pair);
}

/* Whoever has too many open is not sent too much. */
static void descriptors_without_a_place_are_a_status(void **state)
{
    (void)state;
    struct pair pair = open_pair();
    struct received received;
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(fd_send_message(pair.ends[0], "x", 1, (int[]){0, 0}, 2), NIGH_OK);
    small = before;
    small.rlim_cur = 1; /* what is open stays open */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    nigh_status status = receive(pair.ends[1], &received, 64, 2);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, NIGH_NO_RESOURCES);
    assert_int_equal(received.fd_count, 99);
    assert_int_equal(received.size_bytes, 1);
    assert_memory_equal(received.bytes, "x", 1);
    close_pair(&pair);
}

/* And what may stay where it is is not lost. */
static void a_descriptor_without_a_place_stays(void **state)
{
    struct pair pair = open_pair();
    struct rlimit before, small;
    nigh_status status;
    int fd;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    send_descriptors(&pair, 1, 1);
    small = before;
    small.rlim_cur = 1; /* what is open stays open */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    status = fd_recv_one(pair.ends[1], &fd);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, NIGH_NO_RESOURCES);
    assert_int_equal(fd, -1);
    assert_int_equal(fd_recv_one(pair.ends[1], &fd), NIGH_OK);
    fd_close(&fd);
    close_pair(&pair);
}

static void long_message_is_refused_and_its_descriptors_closed(void **state)
{
    (void)state;
    struct pair pair = open_pair();
    struct received received;
    assert_int_equal(fd_send_message(pair.ends[0], "123456", 6, (int[]){0, 0}, 2), NIGH_OK);
    assert_int_equal(receive(pair.ends[1], &received, 5, 4), NIGH_PROTOCOL);
    assert_int_equal(received.size_bytes, 99);
    close_pair(&pair);
}

static void empty_message_counts_as_the_end(void **state)
{
    (void)state;
    struct pair pair = open_pair();
    struct received received;
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
    } control = {.header = {
                     .cmsg_len = CMSG_LEN(sizeof(int)),
                     .cmsg_level = SOL_SOCKET,
                     .cmsg_type = SCM_RIGHTS,
                 }};
    struct iovec nothing = {NULL, 0};
    struct msghdr message = {.msg_iov = &nothing,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    assert_int_equal(sendmsg(pair.ends[0], &message, 0), 0);
    assert_int_equal(receive(pair.ends[1], &received, 64, 4), NIGH_CLOSED);
    assert_int_equal(received.fd_count, 99);
    close_pair(&pair);
}

static void gone_peer_is_a_status_and_no_signal(void **state)
{
    (void)state;
    struct pair pair = open_pair();
    struct received received;
    fd_close(&pair.ends[0]);
    assert_int_equal(receive(pair.ends[1], &received, 64, 4), NIGH_CLOSED);
    assert_int_equal(fd_send_message(pair.ends[1], "x", 1, NULL, 0), NIGH_CLOSED);
    close_pair(&pair);
}

static void full_queue_is_a_status(void **state)
{
    (void)state;
    static char big[1 << 20];
    struct pair pair = open_pair();
    nigh_status status = NIGH_OK;
    for (int i = 0; i < 100000 && status == NIGH_OK; i++)
        status = fd_send_message(pair.ends[0], big, 1000, NULL, 0);
    assert_int_equal(status, NIGH_BUSY);
    assert_int_equal(fd_send_message(pair.ends[0], big, sizeof(big), NULL, 0), NIGH_LIMIT);
    close_pair(&pair);
}

static void bad_descriptor_is_a_status(void **state)
{
    (void)state;
    struct pair pair = open_pair();
    assert_int_not_equal(fd_send_message(pair.ends[0], "x", 1, (int[]){100000}, 1), NIGH_OK);
    assert_int_not_equal(fd_send_message(-1, "x", 1, NULL, 0), NIGH_OK);
    close_pair(&pair);
}

static int open_file(void)
{
    int fd = memfd_create("file", MFD_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void files_are_written_and_read_whole(void **state)
{
    (void)state;
    int fd = open_file();
    char bytes[16];
    size_t read_bytes = 99;
    assert_int_equal(fd_write_full(fd, "0123456789", 10), NIGH_OK);
    assert_int_equal(fd_pwrite_full(fd, "ab", 2, 4), NIGH_OK);
    assert_int_equal(fd_pread_full(fd, bytes, 4, 3, &read_bytes), NIGH_OK);
    assert_int_equal(read_bytes, 4);
    assert_memory_equal(bytes, "3ab6", 4);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 10);
    assert_int_equal(fd_read_full(fd, bytes, 4, &read_bytes), NIGH_OK);
    assert_int_equal(read_bytes, 0);
    assert_int_equal(lseek(fd, 7, SEEK_SET), 7);
    assert_int_equal(fd_read_full(fd, bytes, sizeof(bytes), &read_bytes), NIGH_OK);
    assert_int_equal(read_bytes, 3);
    assert_memory_equal(bytes, "789", 3);
    assert_int_equal(fd_pread_full(fd, bytes, 1, UINT64_MAX, &read_bytes), NIGH_INVALID);
    assert_int_equal(read_bytes, 3);
    fd_close(&fd);
}

static void failed_write_is_a_status(void **state)
{
    (void)state;
    struct rlimit before, small;
    int fd = open_file();
    assert_int_equal(fd_read_full(-1, NULL, 1, NULL), NIGH_NO_RESOURCES);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    small = before;
    small.rlim_cur = 100;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    static const char bytes[200];
    nigh_status whole = fd_write_full(fd, bytes, 200);
    nigh_status at_offset = fd_pwrite_full(fd, bytes, 200, 0);
    nigh_status fitting = fd_pwrite_full(fd, bytes, 100, 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(whole, NIGH_DISK);
    assert_int_equal(at_offset, NIGH_DISK);
    assert_int_equal(fitting, NIGH_OK);
    fd_close(&fd);
}

static _Atomic unsigned signals_seen;

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals_seen, 1);
}

/* A thread that reads a pipe, which stands in for a slow file, and what it saw. */
struct reading {
    int ends[2];
    pthread_t thread;
    _Atomic pid_t tid;
    _Atomic bool is_done;
    char bytes[8];
    size_t read_bytes;
    nigh_status status;
};

static void *read_all(void *argument)
{
    struct reading *reading = argument;
    atomic_store(&reading->tid, gettid());
    reading->status = fd_read_full(reading->ends[0], reading->bytes, sizeof(reading->bytes),
                                   &reading->read_bytes);
    atomic_store(&reading->is_done, true);
    return NULL;
}

static void start_reading(struct reading *reading)
{
    struct sigaction action = {.sa_handler = count_signal};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    assert_int_equal(pipe(reading->ends), 0);
    assert_int_equal(pthread_create(&reading->thread, NULL, read_all, reading), 0);
}

static void end_reading(struct reading *reading)
{
    fd_close(&reading->ends[1]);
    pthread_join(reading->thread, NULL);
    fd_close(&reading->ends[0]);
}

/* Whether the thread sleeps in the kernel's read, as its "syscall" file tells. */
static bool is_in_read(struct reading *reading)
{
    char path[64], text[64] = "", expected[16];
    snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", atomic_load(&reading->tid));
    snprintf(expected, sizeof(expected), "%d 0x", SYS_read);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, text, sizeof(text) - 1);
    fd_close(&fd);
    return length > 0 && strncmp(text, expected, strlen(expected)) == 0;
}

/* Sends a signal while the thread waits in read, and sees it handled; false when the read has
 * ended. */
static bool interrupt(struct reading *reading)
{
    unsigned before = atomic_load(&signals_seen);
    if (!SUPPORT_WAIT(is_in_read(reading) || atomic_load(&reading->is_done), 10000) ||
        atomic_load(&reading->is_done))
        return false;
    pthread_kill(reading->thread, SIGUSR1);
    return SUPPORT_WAIT(atomic_load(&signals_seen) > before, 10000);
}

static void interrupted_and_short_reads_go_on(void **state)
{
    (void)state;
    struct reading reading = {.status = NIGH_CORRUPT};
    start_reading(&reading);
    unsigned written = 0;
    while (written < 8 && interrupt(&reading) &&
           write(reading.ends[1], &"01234567"[written], 1) == 1)
        written++;
    end_reading(&reading);
    assert_int_equal(written, 8);
    assert_int_equal(reading.status, NIGH_OK);
    assert_int_equal(reading.read_bytes, 8);
    assert_memory_equal(reading.bytes, "01234567", 8);
}

static void endless_interruption_ends(void **state)
{
    (void)state;
    struct reading reading = {.status = NIGH_CORRUPT, .read_bytes = 99};
    start_reading(&reading);
    unsigned interrupts = 0;
    while (interrupts <= FD_INTERRUPTS_MAX && interrupt(&reading))
        interrupts++;
    end_reading(&reading);
    assert_int_equal(interrupts, FD_INTERRUPTS_MAX);
    assert_int_equal(reading.status, NIGH_BUSY);
    assert_int_equal(reading.read_bytes, 99);
}

struct holder {
    int fd;
    pid_t waiter;
};

static bool sleeps(pid_t thread)
{
    char path[64], state = 0;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
    file = fopen(path, "r");
    if (file != NULL) {
        (void)!fscanf(file, "%*d %*s %c", &state);
        (void)fclose(file);
    }
    return state == 'S';
}

static void *let_go_when_it_waits(void *context)
{
    struct holder *holder = context;

    while (!sleeps(holder->waiter)) {
    }
    fd_close(&holder->fd);
    return NULL;
}

static void a_lock_is_waited_for_and_not_for_ever(void **state)
{
    struct holder holder = {.waiter = (pid_t)syscall(SYS_gettid)};
    pthread_t thread;
    char path[128];
    int fd;

    (void)state;
    support_path(path, sizeof(path), "lock");
    holder.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(holder.fd >= 0 && fd >= 0);
    assert_true(fd_lock(holder.fd));
    assert_false(fd_lock(fd));
    assert_int_equal(pthread_create(&thread, NULL, let_go_when_it_waits, &holder), 0);
    assert_true(fd_lock(fd));
    assert_int_equal(pthread_join(thread, NULL), 0);
    fd_close(&fd);
    assert_false(fd_lock(-1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(close_forgets_the_descriptor_and_keeps_errno),
        cmocka_unit_test(flags_are_added),
        cmocka_unit_test(message_arrives_without_descriptors),
        cmocka_unit_test(descriptors_arrive_in_order_and_close_on_exec),
        cmocka_unit_test(excess_descriptors_are_closed_and_refused),
        cmocka_unit_test(what_is_looked_at_stays),
        cmocka_unit_test(an_empty_message_is_not_the_end),
        cmocka_unit_test(long_message_is_refused_and_its_descriptors_closed),
        cmocka_unit_test(empty_message_counts_as_the_end),
        cmocka_unit_test(gone_peer_is_a_status_and_no_signal),
        cmocka_unit_test(full_queue_is_a_status),
        cmocka_unit_test(bad_descriptor_is_a_status),
        cmocka_unit_test(files_are_written_and_read_whole),
        cmocka_unit_test(failed_write_is_a_status),
        cmocka_unit_test(interrupted_and_short_reads_go_on),
        cmocka_unit_test(endless_interruption_ends),
        cmocka_unit_test(descriptors_without_a_place_are_a_status),
        cmocka_unit_test(a_descriptor_without_a_place_stays),
        cmocka_unit_test(a_lock_is_waited_for_and_not_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
