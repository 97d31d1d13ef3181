/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a local cluster: see cluster.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/random.h"
#include "cli/cluster.h"

#define MARK  "cluster"
#define LIST  "nodes"
#define KEY   "key"
#define MADE  "cluster.made"
#define LOGS  "logs"
#define NEW   ".new" /* behind the name of a file that is not whole yet */
#define MAGIC "nigh cluster 1: 'nigh cluster stop' removes what lies here\n"

#define LOCK_US      UINT64_C(5000000) /* for another that is at work here */
#define LOCK_LOOK_NS 20000000

enum {
    KEY_BYTES = 32,
    DEPTH_MOST = 8, /* of what nodes keep */
    LIST_BYTES = CLUSTER_NODES * 32
};

static const char *const files[] = {LIST, KEY};

/* What a node has, behind "nodeR". */
static const char *const suffixes[] = {".sock", ".sock.lock", ".pid", ".log"};

void cluster_path(const struct cluster *cluster, uint32_t rank, const char *suffix,
                  char path[CLUSTER_PATH_BYTES])
{
    (void)snprintf(path, CLUSTER_PATH_BYTES, "%s/node%u%s", cluster->dir, rank, suffix);
}

const char *cluster_full(const struct cluster *cluster)
{
    struct statvfs room;

    /* A file system that counts no files (btrfs) has none left, either. */
    return fstatvfs(cluster->dir_fd, &room) == 0 &&
                   (room.f_bavail == 0 || (room.f_files > 0 && room.f_favail == 0))
               ? "; its file system is full: make room there (df), or name another with --dir"
               : "";
}

/* ---- which ---------------------------------------------------------------- */

/* The whole path of it, and of the folder that it lies in. That one's links are followed, and its
 * own name is not, as somebody else may have made it: but "." and ".." name what is there. */
static bool resolve(const char *given, char *above, char *path)
{
    char folder[PATH_MAX + sizeof "/.."];
    const char *slash = strrchr(given, '/'), *name = slash == NULL ? given : slash + 1;
    int length = slash == NULL ? 0 : (int)(slash - given);

    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        if (realpath(given, path) == NULL) {
            return false;
        }
        (void)snprintf(folder, sizeof folder, "%s/..", path);
        return realpath(folder, above) != NULL;
    }
    (void)snprintf(folder, sizeof folder, "%.*s", length, given);
    if (realpath(slash == NULL ? "." : length == 0 ? "/" : folder, above) == NULL) {
        return false;
    }
    length = snprintf(path, PATH_MAX, "%s%s%s", above, above[1] != '\0' ? "/" : "", name);
    errno = length < PATH_MAX ? 0 : ENAMETOOLONG;
    return length < PATH_MAX;
}

/* Whether somebody else could put another folder in the place of one in here: who owns it, and who
 * may write to it where only owners may not rename. */
static bool is_anybodys(const char *folder)
{
    struct stat st;
    mode_t others;

    if (stat(folder, &st) != 0 || (st.st_uid != 0 && st.st_uid != geteuid())) {
        return true;
    }
    others = S_IWOTH | (st.st_gid != 0 && st.st_gid != getegid() ? S_IWGRP : 0);
    return (st.st_mode & others) != 0 && (st.st_mode & S_ISVTX) == 0;
}

/* ... or of one that it lies in: `above` has no links, and is cut to the folder that is. */
static bool is_way_anybodys(char *above)
{
    bool found = is_anybodys(above);

    while (!found && above[1] != '\0') {
        char *slash = strrchr(above, '/');

        slash[slash == above ? 1 : 0] = '\0';
        found = is_anybodys(above);
    }
    return found;
}

/* $XDG_RUNTIME_DIR, if it is what it should be; NULL: it is not, or another user's (sudo). */
static const char *runtime_folder(void)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct stat st;

    return runtime != NULL && runtime[0] == '/' && lstat(runtime, &st) == 0 &&
                   S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
                   (st.st_mode & (S_IRWXG | S_IRWXO)) == 0
               ? runtime
               : NULL;
}

/* For a shell: what a start refuses cannot be said so. */
static void name_place(struct cluster *cluster)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
    const char *quote = cluster->dir[strspn(cluster->dir, plain)] == '\0' ? "" : "'";

    (void)snprintf(cluster->words, sizeof cluster->words, " --dir %s%s%s", quote, cluster->dir,
                   quote);
}

int cluster_check_name(const struct cluster *cluster)
{
    for (const char *c = cluster->dir; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7f || strchr("'\"\\*?[", *c) != NULL) {
            return cli_wrong(cluster->cli,
                             "%s: a shell would not take $NIGH_SOCKETS apart: name a folder "
                             "without blanks, quotes, \\, *, ? and [ with --dir",
                             cluster->dir);
        }
    }
    return CLI_OK;
}

int cluster_place(struct cluster *cluster, const char *given)
{
    const char *runtime = runtime_folder();
    char named[PATH_MAX], above[PATH_MAX], path[PATH_MAX];

    if (given != NULL) {
        (void)snprintf(named, sizeof named, "%s", given);
    } else if (runtime != NULL) {
        (void)snprintf(named, sizeof named, "%s/nigh-cluster", runtime);
    } else {
        (void)snprintf(named, sizeof named, "/tmp/nigh-cluster-%u", (unsigned)geteuid());
    }
    for (size_t length = strlen(named); length > 1 && named[length - 1] == '/'; length--) {
        named[length - 1] = '\0';
    }
    if (!resolve(named, above, path)) {
        cli_error(cluster->cli,
                  "%s: %s: make the folder that it is to lie in, or name another with "
                  "--dir",
                  named, strerror(errno));
        return CLI_FAILED;
    }
    if (bytes_copy_text(cluster->dir, sizeof cluster->dir, path) != NIGH_OK) {
        return cli_wrong(cluster->cli,
                         "%s is too long for sockets to lie in, %d bytes at most: name another "
                         "with --dir",
                         path, CLUSTER_DIR_BYTES - 1);
    }
    if (given != NULL) {
        name_place(cluster);
    }
    if (is_way_anybodys(above)) {
        cli_error(cluster->cli,
                  "%s, in which it would lie, is another user's, or everybody's, or a group's: "
                  "name a folder in one of your own with --dir",
                  above);
        return CLI_FAILED;
    }
    return CLI_OK;
}

/* ---- opened --------------------------------------------------------------- */

static int refuse(struct cluster *cluster, const char *why)
{
    cli_error(cluster->cli, "%s %s", cluster->dir, why);
    cluster_close(cluster);
    return CLI_FAILED;
}

/* The folder of this name is the one that is locked. */
static int check_place(struct cluster *cluster)
{
    struct stat here, there;

    if (fstat(cluster->dir_fd, &here) != 0 || lstat(cluster->dir, &there) != 0 ||
        here.st_ino != there.st_ino || here.st_dev != there.st_dev) {
        return refuse(cluster, "was just removed by another 'nigh cluster': try again");
    }
    return CLI_OK;
}

/* Nobody else may have put into it what nodes read, nor have it locked for ever. */
static int check_owner(struct cluster *cluster)
{
    struct stat st;

    if (fstat(cluster->dir_fd, &st) != 0 || st.st_uid != geteuid()) {
        return refuse(cluster, "is another user's: name a folder of your own with --dir");
    }
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return refuse(cluster, "may be written to by other users: chmod go-w it, or name another "
                               "with --dir");
    }
    return CLI_OK;
}

/* A file's text. False: errno; ENOENT where there is none. */
static bool read_text(const struct cluster *cluster, const char *name, char *text, size_t bytes)
{
    int fd = openat(cluster->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, text, bytes - 1);

    text[n > 0 ? n : 0] = '\0';
    fd_close(&fd);
    return n >= 0;
}

/* Whether a cluster is here: the mark says so, and nothing else does. Its list is there as soon as
 * a node may be. False: it is none of this program's. */
static bool read_list(struct cluster *cluster)
{
    char text[LIST_BYTES + 1], *line = text, *end;

    if (!read_text(cluster, MARK, text, sizeof text)) {
        return errno == ENOENT;
    }
    if (strcmp(text, MAGIC) != 0) {
        return false;
    }
    cluster->is_there = true;
    if (!read_text(cluster, LIST, text, sizeof text)) {
        return errno == ENOENT;
    }
    for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        unsigned port;

        if (cluster->count >= CLUSTER_NODES || sscanf(line, "127.0.0.1:%u\n", &port) != 1 ||
            port > UINT16_MAX) {
            return false;
        }
        cluster->nodes[cluster->count++].port = (uint16_t)port;
    }
    return *line == '\0';
}

static bool is_empty(const struct cluster *cluster)
{
    int fd = openat(cluster->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    bool empty = folder != NULL;

    while (empty && (entry = readdir(folder)) != NULL) {
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                strcmp(entry->d_name, MADE) == 0 || strcmp(entry->d_name, MARK NEW) == 0;
    }
    if (folder != NULL) {
        closedir(folder);
    } else {
        fd_close(&fd);
    }
    return empty;
}

static int no_cluster(const struct cluster *cluster)
{
    cli_error(cluster->cli,
              "no cluster is in %s: 'nigh cluster start' makes one, or --dir says "
              "where it is",
              cluster->dir);
    return CLI_NOT_FOUND;
}

/* Who works here has it locked. */
static int lock(struct cluster *cluster, int how)
{
    const struct timespec pause = {.tv_nsec = LOCK_LOOK_NS};
    uint64_t until_us = clock_deadline_us(clock_now_us(&clock_monotonic), LOCK_US);

    while (flock(cluster->dir_fd, how | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            cli_error(cluster->cli,
                      "%s cannot be locked: %s: its file system has no locks, or no more of them: "
                      "name a folder on another with --dir",
                      cluster->dir, strerror(errno));
            cluster_close(cluster);
            return CLI_FAILED;
        }
        if (clock_now_us(&clock_monotonic) >= until_us) {
            return refuse(cluster, "is in use: another 'nigh cluster' starts or stops what is "
                                   "there; try again when it has ended");
        }
        (void)nanosleep(&pause, NULL);
    }
    return CLI_OK;
}

static int open_folder(struct cluster *cluster, bool makes)
{
    bool is_new = makes && mkdir(cluster->dir, S_IRWXU) == 0;
    int unmade = makes && !is_new ? errno : 0;
    struct stat st;

    cluster->dir_fd = open(cluster->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (cluster->dir_fd < 0) {
        int why = errno == ENOENT && makes ? unmade : errno;
        bool is_link = lstat(cluster->dir, &st) == 0 && S_ISLNK(st.st_mode);

        if (why == ENOENT && !makes) {
            return no_cluster(cluster);
        }
        cli_error(cluster->cli, "%s: %s: name %s with --dir", cluster->dir,
                  is_link ? "it is a link" : strerror(why),
                  is_link ? "the folder itself" : "another folder");
        return CLI_FAILED;
    }
    if (is_new) {
        /* At once, and not when it is locked: another start may come in between, and the folder
         * goes with that one's cluster then. What is not marked stays. */
        int fd = openat(cluster->dir_fd, MADE, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

        fd_close(&fd);
    }
    return CLI_OK;
}

int cluster_open(struct cluster *cluster, enum cluster_use use)
{
    bool makes = use == CLUSTER_STARTS;
    int exit_code = open_folder(cluster, makes);

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    exit_code = check_owner(cluster);
    exit_code =
        exit_code == CLI_OK ? lock(cluster, use == CLUSTER_LOOKS ? LOCK_SH : LOCK_EX) : exit_code;
    exit_code = exit_code == CLI_OK ? check_place(cluster) : exit_code;
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    if (!read_list(cluster) || (makes && !cluster->is_there && !is_empty(cluster))) {
        return refuse(cluster, "holds something else than a cluster of 'nigh cluster start': name "
                               "a folder that is empty, or not there, with --dir");
    }
    if (!makes && !cluster->is_there) {
        cluster_close(cluster);
        return no_cluster(cluster);
    }
    return CLI_OK;
}

void cluster_close(struct cluster *cluster)
{
    fd_close(&cluster->dir_fd);
}

/* ---- written -------------------------------------------------------------- */

/* It has its name when it is whole. */
static bool write_file(const struct cluster *cluster, const char *name, const char *text)
{
    size_t length = strlen(text);
    char made[32];
    ssize_t written;
    int fd;

    (void)snprintf(made, sizeof made, "%s" NEW, name);
    fd = openat(cluster->dir_fd, made, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    written = fd < 0 ? -1 : write(fd, text, length);
    if (written >= 0 && (size_t)written < length) {
        errno = ENOSPC;
    }
    fd_close(&fd);
    return written >= 0 && (size_t)written == length &&
           renameat(cluster->dir_fd, made, cluster->dir_fd, name) == 0;
}

int cluster_write(struct cluster *cluster)
{
    char list[LIST_BYTES] = "", key[2 * KEY_BYTES + 1];
    uint8_t bytes[KEY_BYTES];
    size_t length = 0;

    for (uint32_t rank = 0; rank < cluster->count; rank++) {
        length += (size_t)snprintf(list + length, sizeof list - length, "127.0.0.1:%u\n",
                                   cluster->nodes[rank].port);
    }
    if (random_system_fill(bytes, sizeof bytes) != NIGH_OK) {
        cli_error(cluster->cli, "the system gives no random bytes for a key: %s", strerror(errno));
        return CLI_FAILED;
    }
    bytes_hex(bytes, sizeof bytes, key);
    /* The mark first: without it nothing here is ever removed. */
    if (!write_file(cluster, MARK, MAGIC) || !write_file(cluster, KEY, key) ||
        !write_file(cluster, LIST, list)) {
        cli_error(cluster->cli, "cannot write into %s: %s%s", cluster->dir, strerror(errno),
                  cluster_full(cluster));
        return CLI_FAILED;
    }
    return CLI_OK;
}

/* ---- removed -------------------------------------------------------------- */

/* A folder of a node's, and what is in it. False: some of it cannot be removed, and is left. */
static bool remove_folder(int above, const char *name, int depth)
{
    int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (unlinkat(fd, entry->d_name, 0) != 0 && errno == EISDIR && depth > 0) {
            (void)remove_folder(fd, entry->d_name, depth - 1);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    } else {
        fd_close(&fd);
    }
    return unlinkat(above, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

/* Says of the first that is left why it is. */
static bool note_left(const struct cluster *cluster, const char *name, bool is_gone, bool all_are)
{
    if (!is_gone && all_are) {
        cli_error(cluster->cli,
                  "%s/%s is left: %s: remove it, then nigh cluster stop%s removes the rest",
                  cluster->dir, name, strerror(errno), cluster->words);
    }
    return is_gone && all_are;
}

static bool remove_file(const struct cluster *cluster, const char *name, bool all_are)
{
    bool is_gone = unlinkat(cluster->dir_fd, name, 0) == 0 || errno == ENOENT;

    return note_left(cluster, name, is_gone, all_are);
}

static bool remove_node(const struct cluster *cluster, uint32_t rank, bool all_are)
{
    char name[32];

    for (size_t i = 0; i < ARRAY_LENGTH(suffixes); i++) {
        (void)snprintf(name, sizeof name, "node%u%s", rank, suffixes[i]);
        all_are = remove_file(cluster, name, all_are);
    }
    (void)snprintf(name, sizeof name, "state%u", rank);
    return note_left(cluster, name, remove_folder(cluster->dir_fd, name, DEPTH_MOST), all_are);
}

/* The mark goes last: what is not removed yet can be, by another 'nigh cluster stop'. */
bool cluster_empty(struct cluster *cluster)
{
    bool all_are = true;
    char name[32];

    for (uint32_t rank = 0; rank < CLUSTER_NODES; rank++) {
        all_are = remove_node(cluster, rank, all_are);
    }
    all_are = note_left(cluster, LOGS, remove_folder(cluster->dir_fd, LOGS, DEPTH_MOST), all_are);
    for (size_t i = 0; i < ARRAY_LENGTH(files); i++) {
        (void)snprintf(name, sizeof name, "%s" NEW, files[i]);
        all_are = remove_file(cluster, name, all_are);
        all_are = remove_file(cluster, files[i], all_are);
    }
    all_are = remove_file(cluster, MARK NEW, all_are);
    all_are = all_are && remove_file(cluster, MARK, true);
    cluster->is_there = !all_are;
    cluster->count = 0;
    return all_are;
}

bool cluster_clear(struct cluster *cluster)
{
    if (!cluster_empty(cluster)) {
        return false;
    }
    if (unlinkat(cluster->dir_fd, MADE, 0) != 0) {
        return errno == ENOENT; /* it was there before */
    }
    if (rmdir(cluster->dir) != 0 && errno != ENOENT) {
        cli_error(cluster->cli, "%s is left: %s: remove what else lies there", cluster->dir,
                  strerror(errno));
        return false;
    }
    return true;
}
