/* SPDX-License-Identifier: Apache-2.0 */
/* See members_file.h. "members": a title, "ranks R listed L rank N", an address a line by rank, an
 * empty line for a seat that is struck off, "end". */
#include "node/members_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "node/settings.h"

#define MEMBERS_FILE "members"
#define FILE_NEW     "members.new"
#define TITLE        "nigh members 2"
#define TITLE_OLD    "nigh members 1" /* in which no seat is struck off */

static nigh_status read_members(FILE *file, struct members *members)
{
    char(*addresses)[MEMBERS_ADDRESS_BYTES] = calloc(LIMIT_NODES, MEMBERS_ADDRESS_BYTES);
    char line[MEMBERS_ADDRESS_BYTES + 64];
    uint32_t ranks = 0, listed = 0, self = 0, present = 0;
    nigh_status status = NIGH_CORRUPT;

    if (addresses == NULL) {
        return NIGH_NO_RESOURCES;
    }
    if (fgets(line, sizeof(line), file) == NULL ||
        (strcmp(line, TITLE "\n") != 0 && strcmp(line, TITLE_OLD "\n") != 0) ||
        fgets(line, sizeof(line), file) == NULL ||
        sscanf(line, "ranks %u listed %u rank %u", &ranks, &listed, &self) != 3) {
        goto done;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        size_t length = strcspn(line, "\n");

        if (strcmp(line, "end\n") == 0) {
            status = members_make((const char(*)[MEMBERS_ADDRESS_BYTES])addresses, listed, present,
                                  ranks, self, members);
            status = status == NIGH_INVALID ? NIGH_CORRUPT : status;
            break;
        }
        if (present == LIMIT_NODES || length >= MEMBERS_ADDRESS_BYTES) {
            break;
        }
        memcpy(addresses[present++], line, length);
    }

done:
    free(addresses);
    return status;
}

nigh_status members_file_read(const char *directory, struct members *members, char *why,
                              size_t why_bytes)
{
    char path[SETTINGS_PATH_BYTES + 16];
    nigh_status status;
    FILE *file;

    snprintf(path, sizeof(path), "%s/" MEMBERS_FILE, directory);
    file = fopen(path, "re");
    if (file == NULL && errno == ENOENT) {
        return NIGH_NOT_FOUND;
    }
    if (file == NULL) {
        snprintf(why, why_bytes, "cannot read %.200s, which says which rank this node has: %s",
                 path, strerror(errno));
        return errno == EACCES ? NIGH_DENIED : NIGH_DISK;
    }
    status = read_members(file, members);
    (void)fclose(file);
    if (status == NIGH_NO_RESOURCES) {
        snprintf(why, why_bytes, "no memory to read %.200s, which says which rank this node has",
                 path);
    } else if (status != NIGH_OK) {
        snprintf(why, why_bytes,
                 "%.200s is not what this node kept there; remove it to ask the members anew: they "
                 "remember its rank, too",
                 path);
    }
    return status;
}

static bool write_members(FILE *file, const struct members *members)
{
    uint32_t present = members->count;

    fprintf(file, TITLE "\nranks %u listed %u rank %u\n", members->count, members->listed,
            members->self);
    while (members->addresses[present - 1][0] == '\0') {
        present--;
    }
    for (uint32_t rank = 0; rank < present; rank++) {
        fprintf(file, "%s\n", members->addresses[rank]);
    }
    fprintf(file, "end\n");
    return fflush(file) == 0 && fsync(fileno(file)) == 0;
}

nigh_status members_file_write(const char *directory, const struct members *members, char *why,
                               size_t why_bytes)
{
    int fd = -1, directory_fd = -1;
    FILE *file = NULL;
    bool is_kept;

    if (mkdir(directory, 0700) == 0 || errno == EEXIST) {
        directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (directory_fd >= 0) {
        fd = openat(directory_fd, FILE_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                    0600);
    }
    file = fd >= 0 ? fdopen(fd, "w") : NULL;
    is_kept = file != NULL && write_members(file, members) &&
              renameat(directory_fd, FILE_NEW, directory_fd, MEMBERS_FILE) == 0 &&
              fsync(directory_fd) == 0;
    if (!is_kept) {
        snprintf(why, why_bytes,
                 "cannot keep in %.200s which rank this node has (%s): give the directory to this "
                 "user, or name another with --state",
                 directory, strerror(errno));
    }
    if (file != NULL) {
        (void)fclose(file);
    } else {
        fd_close(&fd);
    }
    fd_close(&directory_fd);
    return is_kept ? NIGH_OK : NIGH_DISK;
}
