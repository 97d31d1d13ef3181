/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See doctor.h: whether what nighd is told can be done here: its directories, the files with its
 * secrets (which are looked at, and never opened), its ports.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/doctor.h"
#include "memory/admission_parse.h"

enum {
    PATH_BYTES = 1200,
    LINE_BYTES = 512,
    KEY_LEAST_BYTES = 32
};

#define UNHIDE "run nigh doctor as root, as the node's user, or in its container"

/* ---- directories ---------------------------------------------------------- */

/* The path without links, as the node sees it. False: it is not known, as in a test's machine,
 * whose paths are longer. */
static bool find_real(const char *root, const struct setup *setup, const char *path,
                      char real[PATH_BYTES])
{
    int fd = root[0] == '\0' ? setup_open(root, setup, path, O_PATH) : -1;
    ssize_t bytes = -1;
    char link[48];

    if (fd >= 0) {
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        bytes = readlink(link, real, PATH_BYTES - 1);
    }
    fd_close(&fd);
    real[bytes > 0 ? bytes : 0] = '\0';
    return real[0] == '/';
}

/* What the file system is that a path lies in, by the longest place that it lies below. */
static void find_mount(const char *root, const struct setup *setup, const char *path, char type[32],
                       bool *is_read_only)
{
    char full[PATH_BYTES], line[4096], real[PATH_BYTES];
    size_t most = 0;
    FILE *file;

    strcpy(type, "");
    *is_read_only = false;
    if (find_real(root, setup, path, real)) {
        path = real; /* links lead elsewhere than the words say */
    }
    if (setup->is_elsewhere) {
        (void)snprintf(full, sizeof full, "%s/proc/%d/mountinfo", root, setup->process);
    } else {
        (void)snprintf(full, sizeof full, "%s/proc/self/mountinfo", root);
    }
    file = fopen(full, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char word[1024], place[1024], options[256], kind[32];
        const char *behind = strstr(line, " - ");
        size_t length;

        if (behind == NULL || sscanf(line, "%*s %*s %*s %*s %1023s %255s", word, options) != 2 ||
            sscanf(behind, " - %31s", kind) != 1 ||
            !admission_copy_escaped(word, strlen(word), place, sizeof place)) {
            continue;
        }
        length = strcmp(place, "/") == 0 ? 0 : strlen(place);
        if (strncmp(path, place, length) == 0 && (path[length] == '/' || path[length] == '\0') &&
            length >= most) {
            most = length;
            (void)snprintf(type, 32, "%s", kind);
            *is_read_only = strncmp(options, "ro,", 3) == 0 || strcmp(options, "ro") == 0;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

/* Whether the mode lets the node's user write, if it is known who that is; of groups the file says
 * which, and not who is in them. */
static bool may_write(const struct stat *st, const struct setup *setup)
{
    uid_t uid = setup->uid;

    return !setup->knows_uid || uid == 0 ||
           (st->st_uid == uid ? (st->st_mode & S_IWUSR) != 0
                              : (st->st_mode & (S_IWGRP | S_IWOTH)) != 0);
}

/* The folder that a path lies in. */
static void find_parent(const char *path, char parent[PATH_BYTES])
{
    char *slash;

    (void)snprintf(parent, PATH_BYTES, "%s", path);
    slash = strrchr(parent, '/');
    if (slash == NULL) {
        strcpy(parent, ".");
    } else {
        slash[slash == parent ? 1 : 0] = '\0';
    }
}

/* The folder, or the one that it is to be made in, whose path is *looked. False: it is said why
 * that is not to be had. */
static bool find_folder(const struct doctor *doctor, const struct setup *setup, const char *subject,
                        const char *path, char parent[PATH_BYTES], const char **looked,
                        struct stat *st)
{
    *looked = path;
    if (setup_stat(doctor->root, setup, path, st)) {
        return true;
    }
    if (errno == ENOENT) { /* nighd makes the last folder of the path */
        find_parent(path, parent);
        *looked = parent;
        if (setup_stat(doctor->root, setup, parent, st)) {
            return true;
        }
    }
    if (setup_is_hidden(errno)) {
        doctor_find(doctor, DOCTOR_NOTE, subject, UNHIDE, "%s (%s) is not for this user to look at",
                    *looked, setup->source);
    } else {
        doctor_find(
            doctor, DOCTOR_BAD, subject,
            errno == ENOTDIR ? "name a folder, or move the file away"
                             : "mkdir -p what it is to lie in, and let the node's user write there",
            "%s (%s) cannot be made: %s: %s", path, setup->source, *looked, strerror(errno));
    }
    return false;
}

static void look_at_place(const struct doctor *doctor, const struct setup *setup,
                          const char *subject, const char *path, const char *lost)
{
    char parent[PATH_BYTES], type[32];
    const char *looked;
    bool is_read_only;
    struct stat st;

    if (path[0] == '\0' || !find_folder(doctor, setup, subject, path, parent, &looked, &st)) {
        return;
    }
    find_mount(doctor->root, setup, looked, type, &is_read_only);
    if (!S_ISDIR(st.st_mode)) {
        doctor_find(doctor, DOCTOR_BAD, subject, "name a folder, or move the file away",
                    "%s (%s) is no folder", looked, setup->source);
    } else if (is_read_only) {
        doctor_find(doctor, DOCTOR_BAD, subject,
                    "mount -o remount,rw, or name a folder on another disk",
                    "%s (%s) cannot be written to: it is mounted read-only", looked, setup->source);
    } else if (!may_write(&st, setup)) {
        doctor_find(doctor, DOCTOR_BAD, subject,
                    "chown it to the node's user (under nighd.service: StateDirectory=), or name "
                    "another",
                    "%s (%s) cannot be written to by user %u", looked, setup->source,
                    (unsigned)setup->uid);
    } else if (strcmp(type, "tmpfs") == 0 || strcmp(type, "ramfs") == 0) {
        doctor_find(doctor, DOCTOR_NOTE, subject, "name a folder on a disk",
                    "%s (%s) lies in memory (%s): %s", path, setup->source, type, lost);
    } else {
        doctor_find(doctor, DOCTOR_GOOD, subject, "",
                    setup->knows_uid ? "%s can be written to"
                                     : "%s is no file, and not mounted read-only",
                    path);
    }
}

/* ---- secrets -------------------------------------------------------------- */

static void look_at_secret(const struct doctor *doctor, const struct setup *setup,
                           const char *subject, const char *path, off_t least_bytes)
{
    struct stat st;

    if (path[0] == '\0' || (strncmp(path, "/run/credentials/", 17) == 0 && !setup->is_live)) {
        return; /* those are there while the service is */
    }
    if (!setup_stat(doctor->root, setup, path, &st)) {
        bool hidden = setup_is_hidden(errno);

        doctor_find(doctor, hidden ? DOCTOR_NOTE : DOCTOR_BAD, subject,
                    hidden ? UNHIDE : "copy it to this machine (docs/operations.md, A cluster)",
                    "%s (%s): %s", path, setup->source, strerror(errno));
    } else if (S_ISREG(st.st_mode) && (st.st_mode & S_IROTH) != 0) {
        doctor_find(doctor, DOCTOR_BAD, subject,
                    "chmod 600 it, and make another at all nodes: it may have been read",
                    "everybody may read %s (%s): whoever has it has all objects", path,
                    setup->source);
    } else if (setup->knows_uid && setup->uid != 0 && st.st_uid != setup->uid &&
               (st.st_mode & S_IRGRP) == 0) {
        doctor_find(doctor, DOCTOR_BAD, subject,
                    "chown it to the node's user (under nighd.service: LoadCredential=)",
                    "%s (%s) cannot be read by user %u, whom the node runs as", path, setup->source,
                    (unsigned)setup->uid);
    } else if (S_ISREG(st.st_mode) && st.st_size < least_bytes) {
        doctor_find(
            doctor, DOCTOR_BAD, subject,
            "make it anew: od -An -v -tx1 -N32 /dev/urandom | tr -d ' \\n', the same at all "
            "nodes",
            "%s (%s) has %lld bytes, and no key", path, setup->source, (long long)st.st_size);
    } else {
        doctor_find(doctor, DOCTOR_GOOD, subject, "", "others may not read %s", path);
    }
}

/* ---- ports ---------------------------------------------------------------- */

/* Where somebody listens, or is to: of IPv4 as IPv6 has it, words as the kernel prints them. */
struct listened {
    uint32_t words[4];
    unsigned port;
    bool is_known; /* else it is a name, of whatever address */
};

static bool is_v4(const struct listened *at)
{
    return at->words[0] == 0 && at->words[1] == 0 && at->words[2] == htonl(0xffff);
}

/* All of IPv6 (which has IPv4 with it, but for who asks for less), or of IPv4. */
static bool is_any(const struct listened *at)
{
    return at->words[3] == 0 &&
           (is_v4(at) || (at->words[0] == 0 && at->words[1] == 0 && at->words[2] == 0));
}

/* "7707" (of the loopback), "10.0.0.1:7470", "[::1]:7470", "*:7470", "node1:7470". */
static bool parse_listened(const char *text, struct listened *at)
{
    const char *colon = strrchr(text, ':');
    unsigned long port = strtoul(colon == NULL ? text : colon + 1, NULL, 10);
    char host[128];

    *at = (struct listened){.words = {0, 0, htonl(0xffff), 0}, .is_known = true};
    (void)snprintf(host, sizeof host, "%.*s", colon == NULL ? 0 : (int)(colon - text), text);
    if (colon == NULL) {
        at->words[3] = htonl(INADDR_LOOPBACK);
    } else if (host[0] == '[') {
        host[strcspn(host, "%]")] = '\0';
        at->is_known = inet_pton(AF_INET6, host + 1, at->words) == 1;
    } else if (host[0] != '\0' && strcmp(host, "*") != 0) {
        at->is_known = inet_pton(AF_INET, host, &at->words[3]) == 1;
    }
    at->port = (unsigned)port;
    return port > 0 && port <= UINT16_MAX;
}

/* "0: 0100007F:1D2E 00000000:0000 0A ...": the address, the port, the other end, LISTEN. */
static bool read_listened(const char *line, struct listened *at)
{
    char text[33];
    unsigned state;

    *at = (struct listened){.words = {0, 0, htonl(0xffff), 0}, .is_known = true};
    if (sscanf(line, " %*u: %32[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", text, &at->port, &state) !=
            3 ||
        state != 0x0a) {
        return false;
    }
    return strlen(text) == 8 ? sscanf(text, "%8x", &at->words[3]) == 1
                             : sscanf(text, "%8x%8x%8x%8x", &at->words[0], &at->words[1],
                                      &at->words[2], &at->words[3]) == 4;
}

/* Whether one has what the other is to have. */
static bool is_same_place(const struct listened *one, const struct listened *other)
{
    if (one->port != other->port) {
        return false;
    }
    return !one->is_known || !other->is_known || memcmp(one->words, other->words, 16) == 0 ||
           (is_any(one) && (is_v4(other) || !is_v4(one))) ||
           (is_any(other) && (is_v4(one) || !is_v4(other)));
}

/* Whether somebody listens there. */
static bool is_taken(const struct doctor *doctor, const char *table, const struct listened *wanted)
{
    char path[PATH_BYTES], line[LINE_BYTES];
    bool found = false;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/proc/net/%s", doctor->root, table);
    file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        struct listened at;

        found = read_listened(line, &at) && is_same_place(&at, wanted);
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

/* Whether connections of other programs are given it: within the range, and not reserved. */
static bool is_given_out(const struct doctor *doctor, unsigned port)
{
    char path[PATH_BYTES], line[4096] = "";
    unsigned first = 1, last = 0;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/proc/sys/net/ipv4/ip_local_port_range", doctor->root);
    file = fopen(path, "re");
    if (file == NULL || fscanf(file, "%u %u", &first, &last) != 2 || port < first || port > last) {
        if (file != NULL) {
            fclose(file);
        }
        return false;
    }
    fclose(file);
    (void)snprintf(path, sizeof path, "%s/proc/sys/net/ipv4/ip_local_reserved_ports", doctor->root);
    file = fopen(path, "re");
    if (file != NULL) {
        (void)fgets(line, sizeof line, file);
        fclose(file);
    }
    for (char *part = line, *next; part != NULL && *part != '\0'; part = next) {
        int count = sscanf(part, "%u-%u", &first, &last);

        if (count >= 1 && port >= first && port <= (count == 2 ? last : first)) {
            return false;
        }
        next = strchr(part, ',');
        next = next == NULL ? NULL : next + 1;
    }
    return true;
}

static void look_at_port(const struct doctor *doctor, const struct setup *setup,
                         const char *subject, const char *address, const char *remedy)
{
    struct listened wanted;

    if (!parse_listened(address, &wanted)) {
        return;
    }
    if (!setup->is_live &&
        (is_taken(doctor, "tcp", &wanted) || is_taken(doctor, "tcp6", &wanted))) {
        doctor_find(doctor, DOCTOR_BAD, subject, remedy, "port %u (%s) is taken by another program",
                    wanted.port, setup->source);
    } else if (is_given_out(doctor, wanted.port)) {
        doctor_find(doctor, DOCTOR_NOTE, subject,
                    "sysctl net.ipv4.ip_local_reserved_ports=PORT, or a port outside of "
                    "net.ipv4.ip_local_port_range",
                    "port %u (%s) is one that the system gives to connections of other programs: "
                    "while one has it the node does not start",
                    wanted.port, setup->source);
    } else {
        doctor_find(doctor, DOCTOR_GOOD, subject, "", "%u", wanted.port);
    }
}

/* The address of this place in the list, which may stand in a file. */
static void find_in_list(const struct doctor *doctor, const struct setup *setup, unsigned long rank,
                         char address[128])
{
    static char list[SETUP_LIST_BYTES];
    FILE *file;

    address[0] = '\0';
    (void)snprintf(list, sizeof list, "%s", setup->join);
    if (setup->join[0] == '@') {
        char named[SETUP_PATH_BYTES];
        size_t bytes;

        (void)snprintf(named, sizeof named, "%.*s", SETUP_PATH_BYTES - 1, setup->join + 1);
        file = setup_open_file(doctor->root, setup, named);
        bytes = file == NULL ? 0 : fread(list, 1, sizeof list - 1, file);
        list[bytes] = '\0';
        if (file != NULL) {
            fclose(file);
        }
    }
    for (char *word = strtok(list, ", \t\n"); word != NULL; word = strtok(NULL, ", \t\n")) {
        if (rank-- == 0) {
            (void)snprintf(address, 128, "%s", word);
            return;
        }
    }
}

static void look_at_ports(const struct doctor *doctor, const struct setup *setup)
{
    char address[128], *end;
    unsigned long rank = strtoul(setup->member, &end, 10);

    if (setup->has_own_net) {
        return; /* its ports are not this machine's */
    }
    if (setup->listen[0] != '\0' || setup->member[0] != '\0') {
        (void)snprintf(address, sizeof address, "%s",
                       setup->listen[0] != '\0' ? setup->listen : setup->member);
        if (setup->listen[0] == '\0' && *end == '\0') {
            find_in_list(doctor, setup, rank, address);
        }
        if (strchr(address, ':') != NULL) {
            look_at_port(doctor, setup, "port", address,
                         "ss -ltnp shows who: stop that program, or give the node another port, in "
                         "the lists of all nodes");
        }
    }
    if (setup->http[0] != '\0') {
        look_at_port(doctor, setup, "http port", setup->http,
                     "ss -ltnp shows who: stop that program, or give the page another port "
                     "(--http)");
    }
}

void doctor_look_at_setup(const struct doctor *doctor, const struct setup *setup)
{
    if (setup->wrong_line != 0) {
        doctor_find(doctor, DOCTOR_BAD, "config", "nighd --check, with that --config, says why",
                    "%s:%u: nighd refuses this line", setup->config, setup->wrong_line);
    }
    look_at_place(doctor, setup, "state dir", setup->state,
                  "what this node says in votes is lost when the machine is started anew, and one "
                  "of too many such nodes cannot be let in again");
    look_at_place(doctor, setup, "log dir", setup->log_dir,
                  "spaces that are durable are lost when the machine is started anew");
    look_at_place(doctor, setup, "spill dir", setup->spill,
                  "what is spilled takes the memory that it should free");
    look_at_secret(doctor, setup, "cluster key", setup->cluster_key, KEY_LEAST_BYTES);
    look_at_secret(doctor, setup, "password", setup->directory_password, 1);
    look_at_ports(doctor, setup);
}
