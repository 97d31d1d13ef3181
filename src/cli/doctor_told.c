/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See doctor.h: what nighd is told, read from its command line and its file, and files that this
 * names, opened as the node would see them. What options mean is nighd's: this knows those that
 * name something of the machine's.
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

#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* of UTF-8 */

enum {
    PATH_BYTES = 1200,
    LINE_BYTES = 512,
    LINE_MOST = 189,    /* of a configuration, as nighd has it */
    WORDS_BYTES = 32768 /* of a command line */
};

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

const char *setup_value(const struct setup *setup, const char *name)
{
    for (size_t i = setup->text_count; i-- > 0;) {
        if (strcmp(setup->texts[i].name, name) == 0) {
            return setup->texts[i].value;
        }
    }
    return NULL;
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
bool setup_has_another(const char *root, pid_t pid, const char *what)
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
int setup_open(const char *root, const struct setup *setup, const char *path, int flags)
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
FILE *setup_open_file(const char *root, const struct setup *setup, const char *path)
{
    int fd = setup_open(root, setup, path, O_RDONLY | O_NONBLOCK);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

    if (file == NULL) {
        fd_close(&fd);
    }
    return file;
}

/* ... looked at alone. */
bool setup_stat(const char *root, const struct setup *setup, const char *path, struct stat *st)
{
    int fd = setup_open(root, setup, path, O_PATH);
    bool found = fd >= 0 && fstat(fd, st) == 0;

    fd_close(&fd);
    return found;
}

/* Whether it says nothing of the file that it cannot be opened: it is others', or this kernel has
 * no openat2, or a filter of system calls. */
bool setup_is_hidden(int error)
{
    return error == EACCES || error == EPERM || error == ENOSYS;
}

/* Whether nighd could take it for a line, trimmed; whether there is such an option, it says. */
static bool is_line(const char *line, bool in_section)
{
    if (line[0] == '[') {
        return strchr(line, ']') != NULL &&
               (strncmp(line, "[node]", strlen("[node]")) == 0 || strncmp(line, "[pool ", 6) == 0);
    }
    return line[0] == '\0' || line[0] == '#' || line[0] == ';' ||
           (in_section && strpbrk(line, "=:") != NULL);
}

/* The next line, trimmed, or NULL; *fits: it is not too long for nighd, and begins with no blank,
 * or says nothing. What of it does not fit here is none that says anything. */
static char *next_line(FILE *file, char line[LINE_BYTES], bool *fits)
{
    size_t length;
    char *said;
    int c = '\n';

    if (fgets(line, LINE_BYTES, file) == NULL) {
        return NULL;
    }
    length = strlen(line);
    *fits = length <= LINE_MOST || (length == LINE_MOST + 1 && line[LINE_MOST] == '\n');
    if (length == LINE_BYTES - 1 && line[length - 1] != '\n') {
        do {
            c = fgetc(file);
        } while (c != '\n' && c != EOF);
    }
    said = trim(line);
    *fits = *fits && (said == line || strchr("#;", said[0]) != NULL);
    return said;
}

/* What a value ends with, as nighd has it: a semicolon behind a blank, and what follows; NULL. */
static char *find_comment(char *value)
{
    char *at = strchr(value, ';');

    while (at != NULL && (at == value || !isspace((unsigned char)at[-1]))) {
        at = strchr(at + 1, ';');
    }
    return at;
}

/* Lines of an ini file. */
static bool read_lines(const char *root, const char *path, const char *folder, struct setup *setup)
{
    char line[LINE_BYTES], *key;
    bool of_node = false, in_section = false, fits;
    FILE *file = setup_open_file(root, setup, path);

    (void)snprintf(setup->config, sizeof setup->config, "%s", path);
    for (unsigned n = 1; file != NULL && (key = next_line(file, line, &fits)) != NULL; n++) {
        char *value = strpbrk(key, "=:"), *comment;

        if (n == 1 && strncmp(key, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0) {
            key += strlen(BYTE_ORDER_MARK); /* which nighd passes over, too */
        }
        if (setup->wrong_line == 0 && (!fits || !is_line(key, in_section))) {
            setup->wrong_line = n;
        }
        if (key[0] == '[') {
            in_section = true;
            of_node = strncmp(key, "[node]", strlen("[node]")) == 0;
        } else if (of_node && value != NULL && key[0] != '#' && key[0] != ';') {
            comment = find_comment(value);
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

const char *setup_unreadable(const char *path)
{
    struct stat st;

    if (access(path, R_OK) != 0 || stat(path, &st) != 0) {
        return strerror(errno);
    }
    return S_ISREG(st.st_mode) ? NULL : "it is no file with text";
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

/* By what the process was started with: who keeps descriptors says where it listens, and systemd,
 * since 254, how many it keeps; who only waits for READY says the first alone. Who may not look,
 * which is all but root and the node's user, does not know. */
static enum setup_keeper read_keeper(const char *root, pid_t pid)
{
    static const char name[] = "NOTIFY_SOCKET=", store[] = "FDSTORE=";
    bool is_told = false, is_kept = false;
    enum setup_keeper keeper = SETUP_KEEPER_UNKNOWN;
    char path[PATH_BYTES], *word = NULL;
    size_t room = 0;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/proc/%d/environ", root, pid);
    file = fopen(path, "re");
    if (file == NULL) {
        return keeper;
    }
    while (getdelim(&word, &room, '\0', file) > 0) {
        is_told |= strncmp(word, name, sizeof name - 1) == 0;
        is_kept |= strncmp(word, store, sizeof store - 1) == 0 &&
                   strtoul(word + sizeof store - 1, NULL, 10) > 0;
        keeper = !is_told ? SETUP_KEEPER_NONE : is_kept ? SETUP_KEEPER_THERE : SETUP_KEEPER_MAYBE;
    }
    free(word);
    fclose(file);
    return keeper;
}

bool setup_read_process(const char *root, pid_t pid, struct setup *setup)
{
    static char words[WORDS_BYTES];
    size_t bytes = read_words(root, pid, words), name_bytes;
    const char *end = words + bytes, *name = strrchr(words, '/'), *value;
    char folder[48], config[PATH_BYTES];

    *setup = (struct setup){.is_live = true,
                            .process = pid,
                            .is_elsewhere = setup_has_another(root, pid, "mnt"),
                            .has_own_net = setup_has_another(root, pid, "net"),
                            .has_own_time = setup_has_another(root, pid, "time"),
                            .keeper = read_keeper(root, pid)};
    (void)snprintf(setup->source, sizeof setup->source, "process %d", pid);
    (void)snprintf(folder, sizeof folder, "/proc/%d/cwd", pid);
    (void)snprintf(setup->called, sizeof setup->called, "%.63s", name == NULL ? words : name + 1);
    if (strcmp(setup->called, "nighd") != 0) {
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
        } else if (strcmp(word, "--hold") == 0) {
            setup->keeper = SETUP_KEEPER_THERE; /* its child has the same words */
        }
    }
    return true;
}
