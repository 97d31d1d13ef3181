/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See doctor.h: whether what nighd is told can be done here: its directories, the files with its
 * secrets (which are looked at, and never opened), its ports. What options mean is nighd's: this
 * knows those that name something of the machine's.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/fd.h"
#include "cli/doctor.h"

enum {
    PATH_BYTES = 1200,
    LINE_BYTES = 512,
    WORDS_BYTES = 32768, /* of a command line */
    KEY_LEAST_BYTES = 32
};

#define UNHIDE "run nigh doctor as root, as the node's user, or in its container"

/* ---- what it is told ------------------------------------------------------ */

/* Options with a place in struct setup. */
static const struct {
    const char *name;
    size_t offset, room;
    bool is_path;
} places[] = {
#define PLACE(name, field, is_path)                                                       \
    {                                                                                     \
        name, offsetof(struct setup, field), sizeof((struct setup *)NULL)->field, is_path \
    }
    PLACE("state", state, true),
    PLACE("log-dir", log_dir, true),
    PLACE("spill", spill, true),
    PLACE("cluster-key", cluster_key, true),
    PLACE("directory-password", directory_password, true),
    PLACE("member", member, false),
    PLACE("listen", listen, false),
    PLACE("http", http, false),
    PLACE("join", join, false),
#undef PLACE
};

/* `folder`: where a path begins that does not begin at the root; "": here. */
static void take(struct setup *setup, const char *name, size_t name_bytes, const char *value,
                 const char *folder)
{
    if (setup->text_count < SETUP_TEXTS) {
        struct setup_text *text = &setup->texts[setup->text_count++];

        (void)snprintf(text->name, sizeof text->name, "%.*s", (int)name_bytes, name);
        (void)snprintf(text->value, sizeof text->value, "%s", value);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(places); i++) {
        if (strncmp(places[i].name, name, name_bytes) == 0 && places[i].name[name_bytes] == '\0') {
            bool begins = places[i].is_path && value[0] != '/' && folder[0] != '\0';

            (void)snprintf((char *)setup + places[i].offset, places[i].room, "%s%s%s",
                           begins ? folder : "", begins ? "/" : "", value);
        }
    }
}

/* What stands between blanks, in place. */
static char *trim(char *text)
{
    size_t length;

    while (isspace((unsigned char)*text)) {
        text++;
    }
    length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1])) {
        text[--length] = '\0';
    }
    return text;
}

/* Whether a process has another of what this one has, which its ns folder tells; where that may not
 * be looked at, it is not known, and taken for the same. */
static bool has_another(const char *root, pid_t pid, const char *what)
{
    char path[PATH_BYTES];
    struct stat mine, its;

    (void)snprintf(path, sizeof path, "%s/proc/%d/ns/%s", root, pid, what);
    if (stat(path, &its) != 0) {
        return false;
    }
    (void)snprintf(path, sizeof path, "%s/proc/self/ns/%s", root, what);
    return stat(path, &mine) == 0 && (mine.st_ino != its.st_ino || mine.st_dev != its.st_dev);
}

/* Where a path that begins in the node's folder lies, as the node sees it; false: not known. */
static bool find_from_folder(const char *root, const struct setup *setup, const char *path,
                             char full[PATH_BYTES])
{
    char folder[48], link[PATH_BYTES];
    size_t length = (size_t)snprintf(folder, sizeof folder, "/proc/%d/cwd", setup->process);
    ssize_t bytes;

    if (strncmp(path, folder, length) != 0) {
        (void)snprintf(full, PATH_BYTES, "%s", path);
        return true;
    }
    (void)snprintf(link, sizeof link, "%s%s", root, folder);
    bytes = readlink(link, full, PATH_BYTES - 1);
    full[bytes > 0 ? bytes : 0] = '\0';
    return full[0] == '/' &&
           bytes_copy_text(full + bytes, PATH_BYTES - (size_t)bytes, path + length) == NIGH_OK;
}

/* Opens what a path of the node's names. Of a node that sees other files it is one of those,
 * wherever links on the way lead: they are followed from the node's root. -1: errno. */
static int open_place(const char *root, const struct setup *setup, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)flags | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
    char full[PATH_BYTES], place[PATH_BYTES];
    int top, fd;

    if (!setup->is_elsewhere) {
        (void)snprintf(full, sizeof full, "%s%s", root, path);
        return open(full, flags | O_CLOEXEC);
    }
    if (!find_from_folder(root, setup, path, place)) {
        errno = EACCES;
        return -1;
    }
    (void)snprintf(full, sizeof full, "%s/proc/%d/root", root, setup->process);
    top = open(full, O_PATH | O_DIRECTORY | O_CLOEXEC);
    fd = top < 0 ? -1 : (int)syscall(SYS_openat2, top, place, &how, sizeof how);
    fd_close(&top);
    return fd;
}

/* The same, to be read; NULL: it cannot be. */
static FILE *read_place(const char *root, const struct setup *setup, const char *path)
{
    int fd = open_place(root, setup, path, O_RDONLY | O_NONBLOCK);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

    if (file == NULL) {
        fd_close(&fd);
    }
    return file;
}

/* ... looked at alone. */
static bool stat_place(const char *root, const struct setup *setup, const char *path,
                       struct stat *st)
{
    int fd = open_place(root, setup, path, O_PATH);
    bool found = fd >= 0 && fstat(fd, st) == 0;

    fd_close(&fd);
    return found;
}

/* Whether it says nothing of the file that it cannot be opened: it is others', or this kernel has
 * no openat2, or a filter of system calls. */
static bool is_hidden(int error)
{
    return error == EACCES || error == EPERM || error == ENOSYS;
}

/* Lines of an ini file; what stands behind " ;" is a comment, as nighd has it. */
static bool read_lines(const char *root, const char *path, const char *folder, struct setup *setup)
{
    char line[LINE_BYTES];
    bool of_node = false;
    FILE *file = read_place(root, setup, path);

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *key = trim(line), *value = strpbrk(key, "=:");

        if (key[0] == '[') {
            of_node = strncmp(key, "[node]", strlen("[node]")) == 0;
        } else if (of_node && value != NULL && key[0] != '#' && key[0] != ';') {
            char *comment = strstr(value, " ;");

            *value++ = '\0';
            if (comment != NULL) {
                *comment = '\0';
            }
            key = trim(key);
            take(setup, key, strlen(key), trim(value), folder);
        }
    }
    if (file == NULL) {
        return false;
    }
    fclose(file);
    return true;
}

bool setup_read_file(const char *root, const char *path, struct setup *setup)
{
    *setup = (struct setup){.source = ""};
    (void)snprintf(setup->source, sizeof setup->source, "%s", path);
    return read_lines(root, path, "", setup);
}

/* The words of a process, one behind the other. */
static size_t read_words(const char *root, pid_t pid, char words[WORDS_BYTES])
{
    char path[PATH_BYTES];
    size_t bytes = 0;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/proc/%d/cmdline", root, pid);
    file = fopen(path, "re");
    if (file != NULL) {
        bytes = fread(words, 1, WORDS_BYTES - 2, file);
        fclose(file);
    }
    words[bytes] = words[bytes + 1] = '\0';
    return bytes;
}

/* The value of "--name=value" or "--name value", or NULL, as for a flag that has none; *name_bytes:
 * of its name. */
static const char *value_of(const char *word, const char *end, size_t *name_bytes)
{
    const char *next = word + strlen(word) + 1;

    if (strncmp(word, "--", 2) != 0) {
        return NULL;
    }
    *name_bytes = strcspn(word + 2, "=");
    if (word[2 + *name_bytes] == '=') {
        return word + 2 + *name_bytes + 1;
    }
    return next < end && strncmp(next, "--", 2) != 0 ? next : NULL;
}

bool setup_read_process(const char *root, pid_t pid, struct setup *setup)
{
    static char words[WORDS_BYTES];
    size_t bytes = read_words(root, pid, words), name_bytes;
    const char *end = words + bytes, *name = strrchr(words, '/'), *value;
    char folder[48], config[PATH_BYTES];

    *setup = (struct setup){.is_live = true,
                            .process = pid,
                            .is_elsewhere = has_another(root, pid, "mnt"),
                            .has_own_net = has_another(root, pid, "net")};
    (void)snprintf(setup->source, sizeof setup->source, "process %d", pid);
    (void)snprintf(folder, sizeof folder, "/proc/%d/cwd", pid);
    if (strcmp(name == NULL ? words : name + 1, "nighd") != 0) {
        return false; /* a program with a node in it says nothing on its command line */
    }
    for (const char *word = words; word < end; word += strlen(word) + 1) {
        value = value_of(word, end, &name_bytes);
        if (value != NULL && strncmp(word + 2, "config", name_bytes) == 0 && name_bytes == 6) {
            (void)snprintf(config, sizeof config, "%s%s%s", value[0] == '/' ? "" : folder,
                           value[0] == '/' ? "" : "/", value);
            (void)read_lines(root, config, folder, setup);
        }
    }
    for (const char *word = words; word < end; word += strlen(word) + 1) {
        value = value_of(word, end, &name_bytes);
        if (value != NULL) {
            take(setup, word + 2, name_bytes, value, folder); /* flags win */
        }
    }
    return true;
}

/* ---- directories ---------------------------------------------------------- */

/* The path without links, as the node sees it. False: it is not known, as in a test's machine,
 * whose paths are longer. */
static bool find_real(const char *root, const struct setup *setup, const char *path,
                      char real[PATH_BYTES])
{
    int fd = root[0] == '\0' ? open_place(root, setup, path, O_PATH) : -1;
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
        char place[1024], options[256], kind[32];
        const char *behind = strstr(line, " - ");
        size_t length;

        if (behind == NULL || sscanf(line, "%*s %*s %*s %*s %1023s %255s", place, options) != 2 ||
            sscanf(behind, " - %31s", kind) != 1) {
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
    if (stat_place(doctor->root, setup, path, st)) {
        return true;
    }
    if (errno == ENOENT) { /* nighd makes the last folder of the path */
        find_parent(path, parent);
        *looked = parent;
        if (stat_place(doctor->root, setup, parent, st)) {
            return true;
        }
    }
    if (is_hidden(errno)) {
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
    if (!stat_place(doctor->root, setup, path, &st)) {
        bool hidden = is_hidden(errno);

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

/* Whether somebody listens on a port here, on whatever address. */
static bool is_taken(const struct doctor *doctor, const char *table, unsigned port)
{
    char path[PATH_BYTES], line[LINE_BYTES];
    bool found = false;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/proc/net/%s", doctor->root, table);
    file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        unsigned local, state;

        /* "0: 0100007F:1D2E 00000000:0000 0A ...": the address, the port, the other end, LISTEN. */
        found = sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", &local, &state) == 2 &&
                local == port && state == 0x0a;
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
                         const char *subject, const char *address)
{
    const char *colon = strrchr(address, ':');
    unsigned long port = strtoul(colon == NULL ? address : colon + 1, NULL, 10);

    if (port == 0 || port > UINT16_MAX) {
        return;
    }
    if (!setup->is_live &&
        (is_taken(doctor, "tcp", (unsigned)port) || is_taken(doctor, "tcp6", (unsigned)port))) {
        doctor_find(doctor, DOCTOR_BAD, subject,
                    "ss -ltnp shows who: stop that program, or give the node another port, in the "
                    "lists of all nodes",
                    "port %lu (%s) is taken by another program", port, setup->source);
    } else if (is_given_out(doctor, (unsigned)port)) {
        doctor_find(doctor, DOCTOR_NOTE, subject,
                    "sysctl net.ipv4.ip_local_reserved_ports=PORT, or a port outside of "
                    "net.ipv4.ip_local_port_range",
                    "port %lu (%s) is one that the system gives to connections of other programs: "
                    "while one has it the node does not start",
                    port, setup->source);
    } else {
        doctor_find(doctor, DOCTOR_GOOD, subject, "", "%lu", port);
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
        file = read_place(doctor->root, setup, named);
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
            look_at_port(doctor, setup, "port", address);
        }
    }
    if (setup->http[0] != '\0') {
        look_at_port(doctor, setup, "http port", setup->http);
    }
}

void doctor_look_at_setup(const struct doctor *doctor, const struct setup *setup)
{
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
