/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of a local cluster's nodes: see cluster.h. Each has a file of its own open and locked
 * (nodeR.pid) from before it is nighd until it has ended, and its number in it: so whoever finds
 * the file locked knows that the number is its node's, and nobody else's by now.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cli/cluster.h"

enum {
    CHILD_READY = 3, /* its descriptors */
    CHILD_LOCK = 4,
    CHILD_FIRST_FREE = 10, /* above those, while they are put in their places */
    WORDS_MOST = 24,       /* what every node is told */
    TAIL_BYTES = 4096,
    LOOK_NS = 5000000,
    PID_LOOKS = 200 /* for a number that is about to be written, or a process to end: a second */
};

#define KILLED_US UINT64_C(5000000) /* until what was killed is gone */

/* What a node inherits would take it for systemd's, or for one that a holder starts. */
static const char *const not_inherited[] = {"NOTIFY_SOCKET",  "LISTEN_FDS",  "LISTEN_PID",
                                            "LISTEN_FDNAMES", "NIGH_HOLDER", "NIGH_SOCKET"};

/* ---- the program ---------------------------------------------------------- */

static bool is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static bool find_in_path(char *path, size_t path_bytes)
{
    const char *at = getenv("PATH");

    while (at != NULL && *at != '\0') {
        size_t length = strcspn(at, ":");

        (void)snprintf(path, path_bytes, "%.*s/nighd", (int)length, at);
        if (length > 0 && is_program(path)) {
            return true;
        }
        at += length + (at[length] == ':' ? 1 : 0);
    }
    return false;
}

bool cluster_program(const char *given, char *path, size_t path_bytes)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash;

    if (given != NULL) {
        return bytes_copy_text(path, path_bytes, given) == NIGH_OK && is_program(path);
    }
    self[length > 0 ? length : 0] = '\0';
    slash = strrchr(self, '/');
    if (slash != NULL) {
        *slash = '\0';
        /* Installed they lie side by side; where they were built, in two folders. */
        (void)snprintf(path, path_bytes, "%s/nighd", self);
        if (is_program(path)) {
            return true;
        }
        (void)snprintf(path, path_bytes, "%s/../daemon/nighd", self);
        if (is_program(path)) {
            return true;
        }
    }
    return find_in_path(path, path_bytes);
}

/* ---- looked at ------------------------------------------------------------ */

/* The number in a locked file, once it is there. */
static pid_t read_pid(int fd)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};

    for (int n = 0; n < PID_LOOKS; n++) {
        char text[16] = "";
        ssize_t bytes = pread(fd, text, sizeof text - 1, 0);

        if (bytes > 0 && text[bytes - 1] == '\n') {
            return (pid_t)strtol(text, NULL, 10);
        }
        (void)nanosleep(&pause, NULL);
    }
    return 0;
}

/* Whether the process of this number has the file open where a node has it. Of a container's
 * process, whose number is another here, it is not so. */
static bool has_open(pid_t pid, int fd)
{
    struct stat mine, its;
    char path[48];

    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, CHILD_LOCK);
    return fstat(fd, &mine) == 0 && stat(path, &its) == 0 && mine.st_ino == its.st_ino &&
           mine.st_dev == its.st_dev;
}

/* A file of a node's, in the folder that is locked. */
static int open_of(const struct cluster *cluster, uint32_t rank, const char *suffix, int flags)
{
    char name[32];

    (void)snprintf(name, sizeof name, "node%u%s", rank, suffix);
    return openat(cluster->dir_fd, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
}

/* The one that a node has locked. Where it is not there, its node was never started, or its files
 * are gone; one that cannot be opened for another reason may well be locked. -1: none. */
static int open_locked(const struct cluster *cluster, uint32_t rank, bool *may_be_held)
{
    int fd = open_of(cluster, rank, ".pid", O_RDWR);

    *may_be_held = fd < 0 && errno != ENOENT;
    return fd;
}

/* Whether nobody has it: shared, so that who looks meanwhile is not taken for a node. */
static bool is_free(int fd)
{
    return flock(fd, LOCK_SH | LOCK_NB) == 0;
}

/* Of a child, by its own number, which is nobody else's until it is waited for. */
static bool child_has_ended(pid_t pid)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
}

/* Holds one of a node's processes, if it is one. Asked after it was opened: then both are the same
 * process. */
static bool hold(struct cluster_node *node, pid_t pid, int fd)
{
    node->pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (pid > 0 && has_open(pid, fd)) {
        node->pid = pid;
        return true;
    }
    fd_close(&node->pidfd);
    return false;
}

/* A node may be several processes: a program of the user's that runs nighd, and nighd. All have the
 * file open, and are of the session that the first of them began; a number that a session has is no
 * other process's, also where the first is gone. The next of them, but for node->pid; 0: no more.
 */
static pid_t next_of(const struct cluster_node *node, DIR *processes, int fd)
{
    const struct dirent *entry;

    while (processes != NULL && (entry = readdir(processes)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

        if (isdigit((unsigned char)entry->d_name[0]) && pid != node->pid &&
            getsid(pid) == node->first && has_open(pid, fd)) {
            return pid;
        }
    }
    return 0;
}

/* The first, or another one where that was killed alone. */
static bool find_process(struct cluster_node *node, int fd)
{
    DIR *processes;
    pid_t pid;
    bool found;

    node->first = read_pid(fd);
    if (node->first == 0 || hold(node, node->first, fd)) {
        return node->first > 0;
    }
    processes = opendir("/proc");
    do {
        pid = next_of(node, processes, fd);
        found = pid > 0 && hold(node, pid, fd);
    } while (pid > 0 && !found);
    if (processes != NULL) {
        closedir(processes);
    }
    return found;
}

/* Whether a node serves whose file was removed: it has its socket's lock, too. */
static bool is_nameless(const struct cluster *cluster, uint32_t rank)
{
    int fd = open_of(cluster, rank, ".sock.lock", O_RDWR);
    bool is_held = fd >= 0 && !is_free(fd);

    fd_close(&fd);
    return is_held;
}

static void look_at(const struct cluster *cluster, uint32_t rank, struct cluster_node *node)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    bool is_held, may_be_held;
    int fd;

    if (node->is_own) {
        node->life = child_has_ended(node->pid) ? CLUSTER_DIED : CLUSTER_LIVES;
        return;
    }
    fd = open_locked(cluster, rank, &may_be_held);
    is_held = fd >= 0 && !is_free(fd);
    fd_close(&node->pidfd);
    node->pid = node->first = 0;
    /* Of one that is just ending nothing is open to be seen, and the lock is there for a moment. */
    for (int n = 0; is_held && !find_process(node, fd) && node->first > 0 && n < PID_LOOKS; n++) {
        (void)nanosleep(&pause, NULL);
        is_held = !is_free(fd);
    }
    node->is_nameless = fd < 0 && !may_be_held && is_nameless(cluster, rank);
    node->life = is_held || may_be_held || node->is_nameless ? CLUSTER_LIVES
                 : fd < 0                                    ? CLUSTER_NEVER
                                                             : CLUSTER_DIED;
    fd_close(&fd);
}

void cluster_look(struct cluster *cluster)
{
    for (uint32_t rank = 0; rank < cluster->count; rank++) {
        look_at(cluster, rank, &cluster->nodes[rank]);
    }
}

/* Whether it has ended, as the lock tells; a child that lives has not, whatever became of its file.
 */
static bool has_ended(const struct cluster *cluster, uint32_t rank)
{
    const struct cluster_node *node = &cluster->nodes[rank];
    bool may_be_held;
    int fd = open_locked(cluster, rank, &may_be_held);
    bool ended = fd < 0 ? !may_be_held : is_free(fd);

    fd_close(&fd);
    return ended && (!node->is_own || child_has_ended(node->pid));
}

/* ---- started -------------------------------------------------------------- */

/* In the child: what it is run with. Each word of the user's may have the rank in it. */
static char *with_rank(const char *word, uint32_t rank)
{
    size_t length = strlen(word), at = 0;
    char *made = malloc(length + 1);

    if (made == NULL) { /* with fewer words it would be another node than was asked for */
        dprintf(STDERR_FILENO, "nighd: no memory for what it is told\n");
        _exit(127);
    }
    for (size_t i = 0; i <= length; i++) {
        bool is_rank = word[i] == '%' && word[i + 1] == 'r';

        made[at++] = is_rank ? (char)('0' + rank) : word[i];
        i += is_rank || (word[i] == '%' && word[i + 1] == '%') ? 1 : 0;
    }
    return made;
}

static _Noreturn void run(const struct cluster *cluster, uint32_t rank, const char *program,
                          char **words)
{
    static char socket[CLUSTER_PATH_BYTES], list[CLUSTER_PATH_BYTES], key[CLUSTER_PATH_BYTES],
        state[CLUSTER_PATH_BYTES], logs[CLUSTER_PATH_BYTES], member[4];
    /* One lane, as each has its share of the memory, and no object is larger than a share: by
     * itself nighd takes one for two processors. */
    const char *own[] = {
        "nighd", "--memory", "64M",  "--lanes",   "1",  "--region-memory", "256M", "--space-memory",
        "256M",  "--socket", socket, "--join",    list, "--member",        member, "--cluster-key",
        key,     "--state",  state,  "--log-dir", logs, "--ready-fd",      "3",    NULL};
    size_t count = 0, more = 0;
    const char **all;

    cluster_path(cluster, rank, ".sock", socket);
    (void)snprintf(list, sizeof list, "@%s/nodes", cluster->dir);
    (void)snprintf(key, sizeof key, "%s/key", cluster->dir);
    (void)snprintf(state, sizeof state, "%s/state%u", cluster->dir, rank);
    (void)snprintf(logs, sizeof logs, "%s/logs", cluster->dir);
    (void)snprintf(member, sizeof member, "%u", rank);
    while (words[more] != NULL) {
        more++;
    }
    all = calloc(ARRAY_LENGTH(own) + more, sizeof *all);
    for (; all != NULL && own[count] != NULL; count++) {
        all[count] = own[count];
    }
    for (size_t n = 0; all != NULL && n < more; n++) {
        all[count++] = with_rank(words[n], rank); /* of two alike the last one counts */
    }
    if (all != NULL) {
        execv(program, (char *const *)all);
    }
    dprintf(STDERR_FILENO, "nighd: %s cannot be run: %s\n", program, strerror(errno));
    _exit(127);
}

/* The child's descriptors: nothing of who started it, log, readiness, lock. */
static bool place_descriptors(int log_fd, int ready_fd, int lock_fd)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int log = fcntl(log_fd, F_DUPFD_CLOEXEC, CHILD_FIRST_FREE);
    int ready = fcntl(ready_fd, F_DUPFD_CLOEXEC, CHILD_FIRST_FREE);
    int lock = fcntl(lock_fd, F_DUPFD_CLOEXEC, CHILD_FIRST_FREE);
    int nothing = fcntl(null, F_DUPFD_CLOEXEC, CHILD_FIRST_FREE);

    if (dup2(nothing, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 ||
        dup2(log, STDERR_FILENO) < 0 || dup2(ready, CHILD_READY) < 0 ||
        dup2(lock, CHILD_LOCK) < 0) {
        return false;
    }
    if (syscall(SYS_close_range, CHILD_LOCK + 1, ~0U, 0) != 0) {
        for (int fd = CHILD_LOCK + 1; fd < 1024; fd++) {
            (void)close(fd);
        }
    }
    return true;
}

static _Noreturn void be_node(const struct cluster *cluster, uint32_t rank, const char *program,
                              char **words, const int fds[3])
{
    static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ};
    sigset_t none;

    for (size_t i = 0; i < ARRAY_LENGTH(handled); i++) {
        (void)signal(handled[i], SIG_DFL);
    }
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setsid();
    for (size_t i = 0; i < ARRAY_LENGTH(not_inherited); i++) {
        unsetenv(not_inherited[i]);
    }
    if (!place_descriptors(fds[0], fds[1], fds[2]) ||
        dprintf(CHILD_LOCK, "%d\n", (int)getpid()) < 0) {
        _exit(127);
    }
    run(cluster, rank, program, words);
}

bool cluster_spawn(struct cluster *cluster, uint32_t rank, const char *program, char **words)
{
    struct cluster_node *node = &cluster->nodes[rank];
    int fds[3] = {-1, -1, -1}, ready[2] = {-1, -1};
    sigset_t all, before;
    pid_t pid = -1;

    fds[0] = open_of(cluster, rank, ".log", O_WRONLY | O_CREAT | O_APPEND);
    fds[2] = open_of(cluster, rank, ".pid", O_RDWR | O_CREAT | O_EXCL);
    if (fds[0] >= 0 && fds[2] >= 0 && flock(fds[2], LOCK_EX | LOCK_NB) == 0 &&
        pipe2(ready, O_CLOEXEC | O_NONBLOCK) == 0) {
        fds[1] = ready[1];
        /* A signal that comes to the child before it is itself would be noted, and forgotten. */
        sigfillset(&all);
        (void)sigprocmask(SIG_BLOCK, &all, &before);
        pid = fork();
        if (pid != 0) {
            (void)sigprocmask(SIG_SETMASK, &before, NULL);
        }
    }
    if (pid == 0) {
        be_node(cluster, rank, program, words, fds);
    }
    if (pid > 0) {
        node->life = CLUSTER_LIVES;
        node->pid = node->first = pid;
        node->is_own = true;
        node->ready_fd = ready[0];
        node->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    } else {
        fd_close(&ready[0]);
    }
    fd_close(&ready[1]);
    fd_close(&fds[0]);
    fd_close(&fds[2]); /* the child's copy is locked, too */
    return pid > 0;
}

/* ---- why it does not serve ------------------------------------------------ */

/* The sentence of a start that was refused, or what a node calls an error. */
static bool is_telling(const char *line)
{
    return strncmp(line, "nighd: ", 7) == 0 || strstr(line, "level=error") != NULL;
}

void cluster_last_words(const struct cluster *cluster, uint32_t rank, char why[CLUSTER_WHY_BYTES])
{
    char text[TAIL_BYTES + 1], *next;
    const char *told = NULL;
    int fd = open_of(cluster, rank, ".log", O_RDONLY);
    off_t size;
    ssize_t bytes;

    size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    bytes = fd < 0 ? 0 : pread(fd, text, TAIL_BYTES, size > TAIL_BYTES ? size - TAIL_BYTES : 0);
    fd_close(&fd);
    text[bytes > 0 ? bytes : 0] = '\0';
    for (char *line = text; *line != '\0'; line = next) {
        next = line + strcspn(line, "\n");
        next += *next == '\n' ? 1 : 0;
        if (next > line && next[-1] == '\n') {
            next[-1] = '\0';
        }
        told = is_telling(line) ? line : told;
    }
    (void)snprintf(why, CLUSTER_WHY_BYTES, "%.260s%s",
                   told == NULL ? "its log does not say why" : told, cluster_full(cluster));
}

/* ---- ended ---------------------------------------------------------------- */

/* To one process that has the file open, and nobody else: its number is held while it is asked. */
static void tell_holder(pid_t pid, int fd, int number)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

    if (has_open(pid, fd)) {
        if (pidfd >= 0) {
            (void)syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0U);
        } else {
            (void)kill(pid, number);
        }
    }
    fd_close(&pidfd);
}

/* To all of its processes; a child is told in any case. */
static void tell(const struct cluster *cluster, uint32_t rank, int number)
{
    const struct cluster_node *node = &cluster->nodes[rank];
    int fd = open_of(cluster, rank, ".pid", O_RDWR);
    DIR *processes = fd < 0 ? NULL : opendir("/proc");
    pid_t pid;

    while ((pid = next_of(node, processes, fd)) > 0) {
        tell_holder(pid, fd, number);
    }
    if (processes != NULL) {
        closedir(processes);
    }
    if (node->pidfd >= 0) {
        (void)syscall(SYS_pidfd_send_signal, node->pidfd, number, NULL, 0U);
    } else if (node->is_own) {
        (void)kill(node->pid, number);
    } else if (fd >= 0 && node->pid > 0) {
        tell_holder(node->pid, fd, number);
    }
    fd_close(&fd);
}

/* False: it has not, until then. */
static bool await_end(const struct cluster *cluster, uint32_t rank, uint64_t until_us)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};

    while (!has_ended(cluster, rank)) {
        if (clock_now_us(&clock_monotonic) >= until_us) {
            return false;
        }
        (void)nanosleep(&pause, NULL);
    }
    return true;
}

/* False: it lives on. */
static bool end(const struct cluster *cluster, uint32_t rank, uint64_t timeout_us, uint32_t *killed)
{
    tell(cluster, rank, SIGTERM);
    if (await_end(cluster, rank, clock_deadline_us(clock_now_us(&clock_monotonic), timeout_us))) {
        return true;
    }
    (*killed)++;
    tell(cluster, rank, SIGKILL);
    return await_end(cluster, rank, clock_deadline_us(clock_now_us(&clock_monotonic), KILLED_US));
}

uint32_t cluster_end(struct cluster *cluster, uint64_t timeout_us, uint32_t *killed, uint32_t *left)
{
    uint32_t left_count = 0;

    *killed = 0;
    for (uint32_t rank = cluster->count; rank-- > 0;) {
        struct cluster_node *node = &cluster->nodes[rank];

        /* What a child has begun may be there when the child is not. */
        if (node->life == CLUSTER_NEVER || (node->life == CLUSTER_DIED && !node->is_own)) {
            continue;
        }
        if (node->pid == 0 || !end(cluster, rank, timeout_us, killed)) {
            *left = rank;
            left_count++;
            continue;
        }
        if (node->is_own) {
            (void)waitpid(node->pid, NULL, WNOHANG);
            node->is_own = false;
        }
        node->life = CLUSTER_DIED;
        fd_close(&node->pidfd);
        fd_close(&node->ready_fd);
    }
    return left_count;
}
