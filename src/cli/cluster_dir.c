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
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/fd.h"
#include "base/random.h"
#include "cli/cluster.h"

#define LIST "nodes"
#define KEY  "key"
#define MADE "made"
#define LOGS "logs"

enum {
    KEY_BYTES = 32,
    DEPTH_MOST = 8, /* of what nodes keep */
    LIST_BYTES = CLUSTER_NODES * 32
};

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

    return fstatvfs(cluster->dir_fd, &room) == 0 && (room.f_bavail == 0 || room.f_favail == 0)
               ? "; its file system is full: make room there (df), or name another with --dir"
               : "";
}

/* ---- which ---------------------------------------------------------------- */

/* The whole path of one that is there, or of one whose folder is. */
static bool resolve(const char *given, char *path)
{
    char folder[4096];
    const char *slash = strrchr(given, '/'), *name = slash == NULL ? given : slash + 1;
    size_t length = slash == NULL ? 0 : (size_t)(slash - given);

    if (realpath(given, path) != NULL) {
        return true;
    }
    if (errno != ENOENT || name[0] == '\0' || length >= sizeof folder) {
        return false;
    }
    memcpy(folder, given, length);
    folder[length] = '\0';
    if (realpath(slash == NULL ? "." : length == 0 ? "/" : folder, path) == NULL) {
        return false;
    }
    length = strlen(path);
    (void)snprintf(path + length, PATH_MAX - length, "%s%s", length > 1 ? "/" : "", name);
    return true;
}

int cluster_place(struct cluster *cluster, const char *given)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char named[PATH_MAX], path[PATH_MAX];

    if (given != NULL) {
        (void)snprintf(named, sizeof named, "%s", given);
    } else if (runtime != NULL && runtime[0] == '/') {
        (void)snprintf(named, sizeof named, "%s/nigh-cluster", runtime);
    } else {
        (void)snprintf(named, sizeof named, "/tmp/nigh-cluster-%u", (unsigned)geteuid());
    }
    for (size_t length = strlen(named); length > 1 && named[length - 1] == '/'; length--) {
        named[length - 1] = '\0';
    }
    if (!resolve(named, path)) {
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
    return CLI_OK;
}

/* ---- opened --------------------------------------------------------------- */

static int refuse(struct cluster *cluster, const char *why)
{
    cli_error(cluster->cli, "%s %s", cluster->dir, why);
    cluster_close(cluster);
    return CLI_FAILED;
}

/* Nobody else may have put into it what nodes read. */
static int check_owner(struct cluster *cluster)
{
    struct stat here, there;

    if (fstat(cluster->dir_fd, &here) != 0 || stat(cluster->dir, &there) != 0 ||
        here.st_ino != there.st_ino || here.st_dev != there.st_dev) {
        return refuse(cluster, "was just removed by another 'nigh cluster': try again");
    }
    if (here.st_uid != geteuid()) {
        return refuse(cluster, "is another user's: name a folder of your own with --dir");
    }
    if ((here.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return refuse(cluster, "may be written to by other users: chmod go-w it, or name another "
                               "with --dir");
    }
    return CLI_OK;
}

/* The list; count stays 0 where there is none. False: it is none of this program's. */
static bool read_list(struct cluster *cluster)
{
    char text[LIST_BYTES + 1], *line = text, *end;
    int fd = openat(cluster->dir_fd, LIST, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t bytes;

    if (fd < 0) {
        return errno == ENOENT;
    }
    bytes = read(fd, text, sizeof text - 1);
    close(fd);
    if (bytes < 0) {
        return false;
    }
    text[bytes] = '\0';
    for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        unsigned port;

        if (cluster->count >= CLUSTER_NODES || sscanf(line, "127.0.0.1:%u\n", &port) != 1 ||
            port > UINT16_MAX) {
            return false;
        }
        cluster->nodes[cluster->count++].port = (uint16_t)port;
    }
    /* One that was cut short, by a full disk, is a cluster none of whose nodes was started. */
    cluster->count = cluster->count == 0 ? 1 : cluster->count;
    return true;
}

static bool is_empty(const struct cluster *cluster)
{
    int fd = openat(cluster->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    bool empty = folder != NULL;

    while (empty && (entry = readdir(folder)) != NULL) {
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                strcmp(entry->d_name, MADE) == 0;
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

int cluster_open(struct cluster *cluster, enum cluster_use use)
{
    bool makes = use == CLUSTER_STARTS;
    bool is_new = makes && mkdir(cluster->dir, S_IRWXU) == 0;
    int exit_code;

    cluster->dir_fd = open(cluster->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (cluster->dir_fd < 0) {
        if (errno == ENOENT && !makes) {
            return no_cluster(cluster);
        }
        cli_error(cluster->cli, "%s: %s: name another folder with --dir", cluster->dir,
                  strerror(errno));
        return CLI_FAILED;
    }
    if (flock(cluster->dir_fd, (use == CLUSTER_LOOKS ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
        return refuse(cluster, "is in use: another 'nigh cluster' starts or stops what is there; "
                               "try again when it has ended");
    }
    exit_code = check_owner(cluster);
    if (exit_code != CLI_OK) {
        return exit_code;
    }
    if (is_new) {
        int fd = openat(cluster->dir_fd, MADE, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        fd_close(&fd); /* what is not marked stays when the cluster goes */
    }
    cluster->is_made = faccessat(cluster->dir_fd, MADE, F_OK, 0) == 0;
    if (!read_list(cluster) || (makes && cluster->count == 0 && !is_empty(cluster))) {
        return refuse(cluster, "holds something else than a cluster of 'nigh cluster start': name "
                               "a folder that is empty, or not there, with --dir");
    }
    if (!makes && cluster->count == 0) {
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

static bool write_file(const struct cluster *cluster, const char *name, const char *text)
{
    size_t length = strlen(text);
    int fd =
        openat(cluster->dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    ssize_t written = fd < 0 ? -1 : write(fd, text, length);

    if (written >= 0 && (size_t)written < length) {
        errno = ENOSPC;
    }
    fd_close(&fd);
    return written >= 0 && (size_t)written == length;
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
    if (!write_file(cluster, LIST, list) || !write_file(cluster, KEY, key)) {
        cli_error(cluster->cli, "cannot write into %s: %s%s", cluster->dir, strerror(errno),
                  cluster_full(cluster));
        return CLI_FAILED;
    }
    return CLI_OK;
}

/* ---- removed -------------------------------------------------------------- */

/* A folder of a node's, and what is in it. What cannot be removed is left. */
static void remove_folder(int above, const char *name, int depth)
{
    int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (unlinkat(fd, entry->d_name, 0) != 0 && errno == EISDIR && depth > 0) {
            remove_folder(fd, entry->d_name, depth - 1);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    } else {
        fd_close(&fd);
    }
    (void)unlinkat(above, name, AT_REMOVEDIR);
}

void cluster_clear(struct cluster *cluster)
{
    char name[32];

    for (uint32_t rank = 0; rank < CLUSTER_NODES; rank++) {
        for (size_t i = 0; i < ARRAY_LENGTH(suffixes); i++) {
            (void)snprintf(name, sizeof name, "node%u%s", rank, suffixes[i]);
            (void)unlinkat(cluster->dir_fd, name, 0);
        }
        (void)snprintf(name, sizeof name, "state%u", rank);
        remove_folder(cluster->dir_fd, name, DEPTH_MOST);
    }
    remove_folder(cluster->dir_fd, LOGS, DEPTH_MOST);
    (void)unlinkat(cluster->dir_fd, KEY, 0);
    (void)unlinkat(cluster->dir_fd, LIST, 0);
    if (cluster->is_made) {
        (void)unlinkat(cluster->dir_fd, MADE, 0);
        if (rmdir(cluster->dir) != 0 && errno != ENOENT) {
            cli_error(cluster->cli, "%s is left: %s: remove what else lies there", cluster->dir,
                      strerror(errno));
        }
    }
}
