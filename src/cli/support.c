/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nigh support: one text file for whoever is to help: versions, what nigh doctor finds, what the
 * node counts, what it was told, limits, and the end of its log. Nothing of objects, regions and
 * spaces is asked for but counts; secrets are not opened; what else names something goes
 * (redact.h). What is in it is said, so that it can be looked through before it is sent.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <netdb.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/doctor.h"
#include "cli/redact.h"

enum {
    TEXT_BYTES = 4 << 20, /* of what one part brings */
    LOG_BYTES = 128 << 10,
    PARTS_MOST = 16
};

/* All that one part may take, whatever stands still meanwhile. */
#define VERB_US UINT64_C(30000000)
#define HTTP_US UINT64_C(5000000)

struct job {
    const char *output, *log, *config;
    bool keeps_names;
};

struct report {
    struct cli *cli;
    const struct job *job;
    FILE *out;
    struct setup setup;
    pid_t pid;     /* of the node; 0: not known */
    bool is_nighd; /* that is its program: it says what nigh says, and its log is the node's */
    struct redact redact;
    struct {
        const char *name;
        uint64_t bytes;
    } parts[PARTS_MOST];
    size_t part_count;
    char text[TEXT_BYTES + 1];
};

/* ---- parts ---------------------------------------------------------------- */

/* What stands in report->text, as a part. */
static void write_part(struct report *report, const char *name, size_t bytes)
{
    long before = ftell(report->out);

    NIGH_ASSERT(report->part_count < PARTS_MOST);
    report->text[bytes] = '\0';
    fprintf(report->out, "\n== %s\n", name);
    redact_write(&report->redact, report->text, bytes, report->out);
    if (bytes == 0 || report->text[bytes - 1] != '\n') {
        fputc('\n', report->out);
    }
    report->parts[report->part_count].name = name;
    report->parts[report->part_count++].bytes = (uint64_t)(ftell(report->out) - before);
}

/* A file from its beginning, or so much of its end. */
static size_t read_file(struct report *report, const char *path, off_t end_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t bytes = 0;
    struct stat st;
    ssize_t n = 1;

    if (fd >= 0 && end_bytes > 0 && fstat(fd, &st) == 0 && st.st_size > end_bytes) {
        (void)lseek(fd, -end_bytes, SEEK_END);
    }
    while (fd >= 0 && n > 0 && bytes < TEXT_BYTES) {
        n = read(fd, report->text + bytes, TEXT_BYTES - bytes);
        bytes += n > 0 ? (size_t)n : 0;
    }
    fd_close(&fd);
    return bytes;
}

/* Until something is there to be read, or can be written. False: it is over. */
static bool await(int fd, short events, uint64_t until_us)
{
    struct pollfd look = {.fd = fd, .events = events};
    uint64_t now_us = clock_now_us(&clock_monotonic);

    return now_us < until_us && poll(&look, 1, (int)((until_us - now_us + 999) / 1000)) > 0;
}

/* What comes until its end, or until then; *in_time: the end came. */
static size_t read_until(struct report *report, int fd, uint64_t until_us, bool *in_time)
{
    size_t bytes = 0;
    ssize_t n = 1;

    *in_time = true;
    while (n > 0 && bytes < TEXT_BYTES) {
        *in_time = await(fd, POLLIN, until_us);
        n = *in_time ? read(fd, report->text + bytes, TEXT_BYTES - bytes) : 0;
        bytes += n > 0 ? (size_t)n : 0;
    }
    return bytes;
}

/* All that a process of ours says, and its end. */
static size_t hear(struct report *report, pid_t pid, int *end, bool *in_time)
{
    size_t bytes = read_until(report, *end, clock_now_us(&clock_monotonic) + VERB_US, in_time);

    fd_close(end);
    (void)kill(pid, SIGKILL); /* it has said all, or stands still */
    (void)waitpid(pid, NULL, 0);
    return bytes;
}

/* A sentence behind what is there. */
static size_t add_sentence(struct report *report, size_t bytes, const char *sentence)
{
    size_t length = strlen(sentence), room = TEXT_BYTES - bytes;

    length = length < room ? length : room;
    memcpy(report->text + bytes, sentence, length);
    return bytes + length;
}

/* Runs this program; what it prints comes out of *end. */
static pid_t run_self(const char *const *words, int *end)
{
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    pid = fork();
    if (pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)dup2(ends[1], STDERR_FILENO);
        execv("/proc/self/exe", (char **)words);
        _exit(127);
    }
    fd_close(&ends[1]);
    if (pid < 0) {
        fd_close(&ends[0]);
    }
    *end = ends[0];
    return pid;
}

/* What this program prints for another verb. */
static size_t ask_verb(struct report *report, const char *const *words)
{
    const char *all[12] = {"nigh"};
    size_t count = 1, bytes;
    bool in_time;
    int end = -1;
    pid_t pid;

    for (; *words != NULL; words++) {
        all[count++] = *words;
    }
    if (report->cli->socket_path != NULL) {
        all[count++] = "--socket";
        all[count++] = report->cli->socket_path;
    }
    if (report->job->config != NULL && strcmp(all[1], "doctor") == 0) {
        all[count++] = "--config";
        all[count++] = report->job->config;
    }
    all[count] = NULL;
    pid = run_self(all, &end);
    if (pid < 0) {
        return add_sentence(report, 0, "none: this machine has no room for another process\n");
    }
    bytes = hear(report, pid, &end, &in_time);
    return in_time ? bytes : add_sentence(report, bytes, "\nit did not end in time\n");
}

/* None of it is a name: of the kernel's release only what numbers it, as who built it may have
 * added words. */
static void add_versions(struct report *report)
{
    bool keeps_names = report->redact.keeps_names;
    struct utsname machine;
    int length;

    (void)uname(&machine);
    length = snprintf(report->text, TEXT_BYTES,
                      "nigh %s\nlibc %s\nkernel %s %.*s on %s\nprocessors %ld of %ld\n",
                      NIGH_VERSION_STRING, gnu_get_libc_version(), machine.sysname,
                      (int)strspn(machine.release, "0123456789."), machine.release, machine.machine,
                      sysconf(_SC_NPROCESSORS_ONLN), sysconf(_SC_NPROCESSORS_CONF));
    report->redact.keeps_names = true;
    write_part(report, "versions", (size_t)length);
    report->redact.keeps_names = keeps_names;
}

static void add_machine(struct report *report)
{
    static const struct {
        const char *name, *path;
    } files[] = {{"memory of the machine", "/proc/meminfo"},
                 {"limits of this process", "/proc/self/limits"},
                 {"overcommit", "/proc/sys/vm/overcommit_memory"},
                 {"most mappings", "/proc/sys/vm/max_map_count"},
                 {"load", "/proc/loadavg"}};
    char path[48];

    for (size_t i = 0; i < ARRAY_LENGTH(files); i++) {
        write_part(report, files[i].name, read_file(report, files[i].path, 0));
    }
    if (report->pid > 0) {
        (void)snprintf(path, sizeof path, "/proc/%d/limits", report->pid);
        write_part(report, "limits of the node", read_file(report, path, 0));
    }
}

/* ---- what the node was told ----------------------------------------------- */

/* Where a directory is, behind what may be its password, which a file that nighd refuses may have
 * with blanks; all of it may be, where a value was cut. */
static const char *behind_password(const struct setup_text *option)
{
    const char *at = strrchr(option->value, '@'), *end = option->value + strlen(option->value);

    if (strcmp(option->name, "directory") != 0) {
        return option->value;
    }
    return at != NULL ? at : end - option->value < SETUP_VALUE_BYTES - 1 ? option->value : end;
}

/* In quotes, so that it is one value, whatever is in it. */
static int write_option(const struct setup_text *option, char *text, size_t room)
{
    const char *from = behind_password(option);
    bool is_unix = strncmp(option->value, "unix:", strlen("unix:")) == 0;
    /* What stands for a password is taken out as one. */
    int length = snprintf(text, room, "%s=\"%s", option->name,
                          from == option->value ? ""
                          : is_unix             ? "unix://-"
                                                : "redis://-");

    for (const char *c = from; *c != '\0'; c++) {
        length += snprintf(text + length, room - (size_t)length, "%s%c",
                           *c == '"' || *c == '\\' ? "\\" : "", *c);
    }
    return length + snprintf(text + length, room - (size_t)length, "\"\n");
}

/* Options as lines of name="value". Those of secrets name files, which stay closed. */
static void add_setup(struct report *report)
{
    const struct setup *setup = &report->setup;
    int length = 0;

    if (setup->source[0] == '\0') {
        length =
            snprintf(report->text, TEXT_BYTES, "not known: no node answers, and no --config\n");
    }
    for (size_t i = 0; i < setup->text_count; i++) {
        length +=
            write_option(&setup->texts[i], report->text + length, TEXT_BYTES - (size_t)length);
    }
    write_part(report, "options of the node", (size_t)length);
}

/* ---- metrics -------------------------------------------------------------- */

/* The socket, connected; or -1. */
static int connect_until(const struct addrinfo *to, uint64_t until_us)
{
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t bytes = sizeof error;

    if (fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) != 0 &&
        (errno != EINPROGRESS || !await(fd, POLLOUT, until_us) ||
         getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0 || error != 0)) {
        fd_close(&fd);
    }
    return fd;
}

/* Where the node listens for HTTP, as PORT or ADDRESS:PORT says; on all addresses, on the
 * loopback's. A descriptor, or -1. */
static int connect_http(const char *http, uint64_t until_us)
{
    const char *colon = strrchr(http, ':'), *port = colon == NULL ? http : colon + 1;
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char host[64];
    int fd;

    (void)snprintf(host, sizeof host, "%.*s", colon == NULL ? 0 : (int)(colon - http), http);
    if (host[0] == '[') {
        host[strcspn(host, "]")] = '\0';
        memmove(host, host + 1, strlen(host));
    }
    if (host[0] == '\0' || strcmp(host, "*") == 0 || strcmp(host, "0.0.0.0") == 0) {
        strcpy(host, "127.0.0.1");
    } else if (strcmp(host, "::") == 0) {
        strcpy(host, "::1");
    }
    if (port[0] == '\0' || getaddrinfo(host, port, &hints, &found) != 0) {
        return -1;
    }
    fd = connect_until(found, until_us);
    freeaddrinfo(found);
    return fd;
}

/* An answer's body, moved to the text's beginning. */
static size_t without_head(char *text, size_t bytes)
{
    const char *end = memmem(text, bytes, "\r\n\r\n", 4);
    size_t head = end == NULL ? 0 : (size_t)(end + 4 - text);

    memmove(text, text + head, bytes - head);
    return bytes - head;
}

/* What the node answers at the port of --http; 0: nothing. */
static size_t ask_metrics(struct report *report)
{
    static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
    uint64_t until_us = clock_now_us(&clock_monotonic) + HTTP_US;
    int fd = connect_http(report->setup.http, until_us);
    size_t bytes = 0;
    bool in_time = true;

    if (fd >= 0 && send(fd, request, sizeof request - 1, MSG_NOSIGNAL) > 0) {
        bytes = read_until(report, fd, until_us, &in_time);
        bytes = without_head(report->text, bytes);
    }
    fd_close(&fd);
    return in_time || bytes == 0 ? bytes
                                 : add_sentence(report, bytes, "\nit did not end in time\n");
}

static void add_metrics(struct report *report)
{
    size_t bytes = report->setup.has_own_net ? 0 : ask_metrics(report);

    if (report->setup.has_own_net) { /* at this port another program listens here, or nobody */
        bytes = add_sentence(report, 0,
                             "none: the node has a network of its own, as a container has: ask for "
                             "its /metrics there\n");
    } else if (bytes == 0) {
        bytes =
            add_sentence(report, 0, "none: the node has no --http, or it does not answer there\n");
    }
    write_part(report, "metrics", bytes);
}

/* ---- log ------------------------------------------------------------------ */

/* Whether a process may write to one of its descriptors. Any other one says nothing of what it
 * may: an O_PATH descriptor names files that only who asks here may read. */
static bool may_write(pid_t pid, int fd)
{
    char path[48], line[128];
    unsigned flags = O_RDONLY;
    bool found = false;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", pid, fd);
    file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        found = sscanf(line, "flags: %o", &flags) == 1;
    }
    if (file != NULL) {
        fclose(file);
    }
    return found && (flags & O_PATH) == 0 &&
           ((flags & O_ACCMODE) == O_WRONLY || (flags & O_ACCMODE) == O_RDWR);
}

/* The file that the node writes to; false: it writes to none, or it is one of several things in a
 * program, which may write whatever it has there. */
static bool find_log(const struct report *report, char path[64])
{
    struct stat st;

    if (!report->is_nighd || !may_write(report->pid, STDERR_FILENO)) {
        return false;
    }
    (void)snprintf(path, 64, "/proc/%d/fd/%d", report->pid, STDERR_FILENO);
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static void add_log(struct report *report)
{
    char found[64];
    const char *path = report->job->log != NULL  ? report->job->log
                       : find_log(report, found) ? found
                                                 : NULL;
    size_t bytes = path == NULL ? 0 : read_file(report, path, LOG_BYTES);
    /* What the node wrote to may be something else by now, which was read then. */
    bool is_still = path != found || find_log(report, found);
    char *line = bytes >= LOG_BYTES ? memchr(report->text, '\n', bytes) : NULL;

    if (line != NULL) { /* the first one is cut */
        bytes -= (size_t)(line + 1 - report->text);
        memmove(report->text, line + 1, bytes);
    }
    if (path == NULL || !is_still) {
        bytes = (size_t)snprintf(report->text, TEXT_BYTES,
                                 "none: the node writes to no file: journalctl -u nighd >FILE, and "
                                 "nigh support --log FILE\n");
    }
    write_part(report, "log", bytes);
}

/* ---- names ---------------------------------------------------------------- */

/* A host, and what stands before its first point. */
static void learn_host(struct redact *redact, const char *host)
{
    char first[256];

    redact_name(redact, host);
    (void)snprintf(first, sizeof first, "%.*s", (int)strcspn(host, "."), host);
    redact_name(redact, first);
}

/* A line each for its name and its address. In a process of its own: a question to a node that
 * stands still has no end. */
static _Noreturn void tell_members(struct cli *cli, int end)
{
    nigh_client_options options = {.struct_size = sizeof options,
                                   .socket_path = cli->socket_path,
                                   .name = "nigh support",
                                   .timeout_us = cli_open_timeout_us(cli),
                                   .flags = NIGH_OPEN_READ_ONLY};
    const nigh_node_info *nodes;
    size_t count = 0;

    if (nigh_client_open(&options, &cli->client) == NIGH_OK) {
        nodes = cli_look_at_nodes(cli) == NIGH_OK ? cli_nodes_seen(&count) : NULL;
        for (size_t i = 0; i < count; i++) {
            (void)dprintf(end, "%s\n%s\n", nodes[i].name, nodes[i].address);
        }
        nigh_client_close(cli->client);
    }
    _exit(0);
}

static void learn_members(struct report *report)
{
    char *line = report->text, *end, host[256];
    int ends[2];
    bool in_time;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return;
    }
    pid = fork();
    if (pid == 0) {
        tell_members(report->cli, ends[1]);
    }
    fd_close(&ends[1]);
    if (pid < 0) {
        fd_close(&ends[0]);
        return;
    }
    report->text[hear(report, pid, &ends[0], &in_time)] = '\0';
    for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        const char *colon = memrchr(line, ':', (size_t)(end - line));

        *end = '\0';
        redact_name(&report->redact, line);
        if (colon != NULL) {
            (void)snprintf(host, sizeof host, "%.*s", (int)(colon - line), line);
            learn_host(&report->redact, host);
        }
    }
}

/* These have numbers, and the kernel's words for them. */
static const char *const kernels[] = {"/proc/meminfo", "/proc/self/limits"};

static void learn_user(struct redact *redact, uid_t uid)
{
    const struct passwd *passwd = getpwuid(uid);

    redact_name(redact, passwd == NULL ? "" : passwd->pw_name);
}

static void learn_users(struct report *report)
{
    static const char *const told[] = {"USER", "LOGNAME", "SUDO_USER"};

    for (size_t i = 0; i < ARRAY_LENGTH(told); i++) {
        const char *user = getenv(told[i]);

        redact_name(&report->redact, user == NULL ? "" : user);
    }
    learn_user(&report->redact, getuid());
    learn_user(&report->redact, geteuid());
    learn_user(&report->redact, report->setup.uid);
}

/* What nigh says, and what are names here, where it says these, too. */
static void learn(struct report *report)
{
    struct utsname machine;
    char path[48];
    Dl_info library;

    (void)redact_learn_program(&report->redact, "/proc/self/exe");
    for (size_t i = 0; i < ARRAY_LENGTH(kernels); i++) {
        redact_learn(&report->redact, report->text, read_file(report, kernels[i], 0));
    }
    if (dladdr((void *)(uintptr_t)nigh_client_open, &library) != 0) {
        (void)redact_learn_program(&report->redact, library.dli_fname);
    }
    (void)snprintf(path, sizeof path, "/proc/%d/exe", report->pid);
    if (report->is_nighd) { /* another program with a node in it says what is its own */
        (void)redact_learn_program(&report->redact, path);
    }
    if (uname(&machine) == 0) {
        learn_host(&report->redact, machine.nodename);
    }
    learn_users(report);
    learn_members(report);
}

/* ---- the file ------------------------------------------------------------- */

static void say_what_is_in_it(const struct report *report, const char *path)
{
    struct json json = {0};
    const struct redact *redact = &report->redact;

    if (report->cli->json) {
        json_object_open(&json, NULL);
        json_string(&json, "file", path);
        json_array_open(&json, "parts");
        for (size_t i = 0; i < report->part_count; i++) {
            json_object_open(&json, NULL);
            json_string(&json, "part", report->parts[i].name);
            json_u64(&json, "bytes", report->parts[i].bytes);
            json_object_close(&json);
        }
        json_array_close(&json);
        json_bool(&json, "names", redact->keeps_names);
        json_u64(&json, "words_hashed", redact->hashed);
        json_u64(&json, "secrets_removed", redact->secrets);
        json_object_close(&json);
        return;
    }
    printf("%s has\n", path);
    for (size_t i = 0; i < report->part_count; i++) {
        printf("  %8llu bytes  %s\n", (unsigned long long)report->parts[i].bytes,
               report->parts[i].name);
    }
    printf("Not in it: what objects and regions hold or are called, what spaces hold, and keys and "
           "passwords (%llu found in texts and removed).\n",
           (unsigned long long)redact->secrets);
    if (redact->keeps_names) {
        printf("With --names it has the names of hosts, nodes, users, pools, spaces, files and "
               "addresses.\n");
    } else {
        printf("%llu words that nigh does not say itself (hosts, nodes, users, pools, spaces, "
               "files, addresses) became ~ and eight digits.\n",
               (unsigned long long)redact->hashed);
    }
    printf("Look through it before you send it.\n");
}

static void write_all(struct report *report)
{
    static const char *const doctor[] = {"doctor", "--json", "--timeout", "5s", NULL};
    static const char *const nodes[] = {"nodes", "--json", "--timeout", "5s", NULL};
    static const char *const top[] = {"top", "--once", "--json", "--timeout", "5s", NULL};
    char now[LOG_TIME_BYTES];
    struct timespec wall;

    clock_gettime(CLOCK_REALTIME, &wall);
    (void)log_format_time((uint64_t)wall.tv_sec * 1000000000, now);
    fprintf(report->out,
            "nigh support, made %s by nigh %s\nnames: %s\n"
            "~ and eight digits stand for a word that was taken out, the same for the same word of "
            "this file;\n<removed> for what may be a secret.\n",
            now, NIGH_VERSION_STRING, report->redact.keeps_names ? "kept (--names)" : "taken out");
    add_versions(report);
    write_part(report, "nigh doctor", ask_verb(report, doctor));
    write_part(report, "nigh nodes", ask_verb(report, nodes));
    write_part(report, "nigh top", ask_verb(report, top));
    add_metrics(report);
    add_setup(report);
    add_machine(report);
    add_log(report);
}

/* The node that lives, if one does, and what it was told. */
static void find_node(struct report *report)
{
    uid_t uid = geteuid();

    /* One that lets nobody in is who is most in need of a report. */
    report->is_nighd = cli_find_process(report->cli, &report->pid, &uid) && report->pid > 0 &&
                       setup_read_process("", report->pid, &report->setup);
    if (!report->is_nighd) {
        report->setup = (struct setup){.source = ""};
    }
    if (report->job->config != NULL) {
        bool has_own_net = report->setup.has_own_net;

        (void)setup_read_file("", report->job->config, &report->setup);
        report->setup.has_own_net = has_own_net;
    }
    report->setup.uid = uid;
    report->setup.knows_uid = report->pid > 0;
}

static int make(struct report *report, const char *path)
{
    bool to_stdout = strcmp(path, "-") == 0;
    int fd = to_stdout ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool is_written;

    report->out = to_stdout ? tmpfile() : fd < 0 ? NULL : fdopen(fd, "w");
    if (report->out == NULL) {
        int why = errno;

        cli_error(report->cli, "%s: %s", path,
                  why == EEXIST ? "it is there already: name another with --output"
                                : strerror(why));
        fd_close(&fd);
        return why == EEXIST ? CLI_EXISTS : CLI_FAILED;
    }
    find_node(report);
    learn(report);
    write_all(report);
    is_written = fflush(report->out) == 0 && !ferror(report->out);
    if (is_written && to_stdout) {
        size_t n;

        rewind(report->out);
        while ((n = fread(report->text, 1, TEXT_BYTES, report->out)) > 0) {
            fwrite(report->text, 1, n, stdout);
        }
    } else if (is_written) {
        say_what_is_in_it(report, path);
    }
    fclose(report->out);
    if (!is_written) {
        cli_error(report->cli, "%s: it cannot be written: is the disk full?",
                  to_stdout ? "the report, which is put together in /tmp" : path);
        if (!to_stdout) {
            (void)unlink(path);
        }
        return CLI_FAILED;
    }
    return CLI_OK;
}

int cli_support(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"log", required_argument, NULL, 'l'},
                                            {"config", required_argument, NULL, 'c'},
                                            {"names", no_argument, NULL, 'N'},
                                            CLI_COMMON_OPTIONS,
                                            {0}};
    static struct report report;
    struct job job = {0};
    char own[64];
    time_t now = time(NULL);
    int option, exit_code = CLI_OK;
    const char *why;

    while ((option = cli_next_option(cli, argc, argv, ":o:l:c:" CLI_COMMON_SHORT, options)) != -1) {
        switch (option) {
        case 'o': job.output = optarg; break;
        case 'l': job.log = optarg; break;
        case 'c': job.config = optarg; break;
        case 'N': job.keeps_names = true; break;
        default:
            if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
                return exit_code;
            }
        }
    }
    if (argc > optind) {
        return cli_usage(cli, "support takes no argument");
    }
    why = job.log == NULL ? NULL : setup_unreadable(job.log);
    why = why == NULL && job.config != NULL ? setup_unreadable(job.config) : why;
    if (why != NULL) {
        cli_error(cli, "--log, or --config: it cannot be read: %s", why);
        return CLI_FAILED;
    }
    report.cli = cli;
    report.job = &job;
    if (!redact_init(&report.redact, job.keeps_names)) {
        cli_error(cli, "the system gives no random bytes to hide names with");
        return CLI_FAILED;
    }
    (void)strftime(own, sizeof own, "nigh-support-%Y%m%d-%H%M%S.txt", gmtime(&now));
    return make(&report, job.output != NULL ? job.output : own);
}
