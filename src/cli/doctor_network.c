/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See doctor.h: what of the system's settings holds TCP up (docs/tuning.md says why), and whether
 * members that are not up can be reached from here: their control port is dialled, and nothing is
 * said there.
 */
#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cli/doctor.h"

/* Twice what is under way at half a millisecond there and back, of a megabit a second. */
#define BYTES_A_MEGABIT 125u

#define BACKLOG_WANTED 10000u
#define DROPPED_SHARE  10000u /* one packet of so many that is dropped is worth a look */

#define REACHED_MOST 4   /* members that are dialled */
#define DIAL_MS      500 /* one address of them */
#define DIAL_ALL_US \
    UINT64_C(5000000) /* after so long no further one: looking up names takes time */

enum {
    PATH_BYTES = 1200,
    FILE_BYTES = 400, /* of a file of /proc or /sys, as its machine has it */
    LINE_BYTES = 512,
    NAME_BYTES = 64
};

/* The first line of a file, without its end; "": there is none. */
static bool read_first(const struct doctor *doctor, const char *path, char line[LINE_BYTES])
{
    char full[PATH_BYTES];
    FILE *file;

    (void)snprintf(full, sizeof full, "%s%s", doctor->root, path);
    line[0] = '\0';
    file = fopen(full, "re");
    if (file != NULL) {
        if (fgets(line, LINE_BYTES, file) == NULL) { /* so answers an interface that is down */
            line[0] = '\0';
        }
        fclose(file);
    }
    line[strcspn(line, "\n")] = '\0';
    return line[0] != '\0';
}

/* ---- buffers -------------------------------------------------------------- */

/* Megabits a second of the fastest interface, and its name; 0: none says. */
static unsigned long find_fastest(const struct doctor *doctor, char name[NAME_BYTES])
{
    char full[PATH_BYTES], path[FILE_BYTES], line[LINE_BYTES];
    const struct dirent *entry;
    unsigned long most = 0;
    DIR *folder;

    name[0] = '\0';
    (void)snprintf(full, sizeof full, "%s/sys/class/net", doctor->root);
    folder = opendir(full);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        long speed;

        if (entry->d_name[0] == '.') {
            continue;
        }
        (void)snprintf(path, sizeof path, "/sys/class/net/%s/speed", entry->d_name);
        speed = read_first(doctor, path, line) ? strtol(line, NULL, 10) : 0;
        if (speed > 0 && (unsigned long)speed > most) {
            most = (unsigned long)speed;
            (void)snprintf(name, NAME_BYTES, "%.60s", entry->d_name);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return most;
}

static void look_at_buffers(const struct doctor *doctor)
{
    static const char *const settings[] = {"tcp_rmem", "tcp_wmem"};
    char name[NAME_BYTES], path[FILE_BYTES], line[LINE_BYTES], most_text[BYTES_SIZE_TEXT],
        wanted_text[BYTES_SIZE_TEXT];
    unsigned long speed = find_fastest(doctor, name);
    uint64_t wanted = (uint64_t)speed * BYTES_A_MEGABIT;

    for (size_t i = 0; i < 2; i++) {
        unsigned long long most;

        (void)snprintf(path, sizeof path, "/proc/sys/net/ipv4/%s", settings[i]);
        if (read_first(doctor, path, line) && sscanf(line, "%*u %*u %llu", &most) == 1 &&
            most < wanted) {
            bytes_format_size(most, most_text);
            bytes_format_size(wanted, wanted_text);
            doctor_find(doctor, DOCTOR_NOTE, settings[i],
                        "sysctl, its third number: twice what is under way at the network's "
                        "speed, there and back (docs/tuning.md)",
                        "net.ipv4.%s lets %s be under way; %s has %lu Mbit/s, of which a network "
                        "with half a millisecond there and back wants %s",
                        settings[i], most_text, name, speed, wanted_text);
        }
    }
}

/* ---- congestion control --------------------------------------------------- */

static bool has_word(char *line, const char *wanted)
{
    for (char *word = strtok(line, " \t"); word != NULL; word = strtok(NULL, " \t")) {
        if (strcmp(word, wanted) == 0) {
            return true;
        }
    }
    return false;
}

/* One that paces holds back what nodes send; they ask for cubic then, which may be forbidden. */
static void look_at_congestion(const struct doctor *doctor)
{
    char now[LINE_BYTES], allowed[LINE_BYTES];

    if (read_first(doctor, "/proc/sys/net/ipv4/tcp_congestion_control", now) &&
        strncmp(now, "bbr", 3) == 0 &&
        read_first(doctor, "/proc/sys/net/ipv4/tcp_allowed_congestion_control", allowed) &&
        !has_word(allowed, "cubic")) {
        doctor_find(doctor, DOCTOR_NOTE, "congestion",
                    "sysctl net.ipv4.tcp_allowed_congestion_control=\"reno cubic\" (and what else "
                    "there is), where tcp_available_congestion_control has it; else modprobe "
                    "tcp_cubic",
                    "net.ipv4.tcp_congestion_control is %.16s, which holds gets back by its "
                    "pacing, and nodes may not take cubic in its place",
                    now);
    }
}

/* ---- packets that the system drops ---------------------------------------- */

/* The first columns of each processor's line: packets since the start, and how many of them were
 * dropped. */
static unsigned long long read_dropped(const struct doctor *doctor, unsigned long long *packets)
{
    char path[PATH_BYTES], line[LINE_BYTES];
    unsigned long long all = 0;
    unsigned taken, dropped;
    FILE *file;

    *packets = 0;
    (void)snprintf(path, sizeof path, "%s/proc/net/softnet_stat", doctor->root);
    file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%x %x", &taken, &dropped) == 2) {
            *packets += taken;
            all += dropped;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return all;
}

static void look_at_backlog(const struct doctor *doctor)
{
    unsigned long long packets, dropped = read_dropped(doctor, &packets);
    char line[LINE_BYTES];

    if (dropped > packets / DROPPED_SHARE &&
        read_first(doctor, "/proc/sys/net/core/netdev_max_backlog", line) &&
        strtoul(line, NULL, 10) < BACKLOG_WANTED) {
        doctor_find(doctor, DOCTOR_NOTE, "backlog",
                    "sysctl net.core.netdev_max_backlog=10000 (for rxe over virtual links 100000)",
                    "packets that were dropped since the machine's start, as a processor's queue "
                    "of them was full (net.core.netdev_max_backlog is %.20s): %llu",
                    line, dropped);
    }
}

void doctor_look_at_tcp(const struct doctor *doctor)
{
    look_at_buffers(doctor);
    look_at_congestion(doctor);
    look_at_backlog(doctor);
}

/* ---- members that are not up ---------------------------------------------- */

/* 0, or why there is no connection: errno. */
static int dial(const struct addrinfo *to)
{
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    socklen_t bytes = sizeof error;

    if (fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen) != 0) {
        error = errno;
    }
    if (error == EINPROGRESS) {
        error = poll(&wait, 1, DIAL_MS) != 1 ? ETIMEDOUT : 0;
        if (error == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) {
            error = errno;
        }
    }
    fd_close(&fd);
    return error;
}

/* "host:port", "[::1]:port". False: it has no address, and *error is getaddrinfo's; else *error is
 * dial's, of the last of its addresses where none takes connections. */
static bool dial_all(const char *address, int *error)
{
    const char *colon = strrchr(address, ':');
    size_t length = colon == NULL ? 0 : (size_t)(colon - address);
    bool has_brackets = length >= 2 && address[0] == '[' && address[length - 1] == ']';
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char host[128];

    (void)snprintf(host, sizeof host, "%.*s", (int)(has_brackets ? length - 2 : length),
                   has_brackets ? address + 1 : address);
    *error = colon == NULL ? EAI_NONAME : getaddrinfo(host, colon + 1, &wanted, &found);
    if (*error != 0) {
        return false;
    }
    *error = EADDRNOTAVAIL;
    for (const struct addrinfo *to = found; to != NULL && *error != 0; to = to->ai_next) {
        *error = dial(to);
    }
    freeaddrinfo(found);
    return true;
}

static void say_unreached(const struct doctor *doctor, unsigned rank, const char *address,
                          int error)
{
    switch (error) {
    case 0:
        doctor_find(doctor, DOCTOR_NOTE, "reach",
                    "nigh doctor there, and the logs of both: it may be about to come, or it is "
                    "stopped (kill -CONT), or ss -ltnp there shows that another program has the "
                    "port; else the same --join, in the same order, each its own --member",
                    "node %u (%s) is not up, and its port takes connections", rank, address);
        return;
    case ECONNREFUSED:
        doctor_find(doctor, DOCTOR_NOTE, "reach",
                    "start nighd there; if it runs, see what it listens at (--listen, ss -ltnp), "
                    "and whether a firewall rejects its port",
                    "nobody listens at the port of node %u (%s)", rank, address);
        return;
    default:
        doctor_find(doctor, DOCTOR_NOTE, "reach",
                    "see whether the machine is up (ping), its route (ip route get), and let the "
                    "control port, TCP and UDP, and the ports of lanes through its firewall",
                    "the port of node %u (%s) is not reached from here: %s", rank, address,
                    strerror(error));
    }
}

void doctor_look_at_reach(const struct doctor *doctor, const nigh_node_info *nodes, size_t count)
{
    uint64_t end_us = clock_now_us(&clock_monotonic) + DIAL_ALL_US;
    unsigned dialled = 0;

    for (size_t i = 0; i < count && dialled < REACHED_MOST; i++) {
        char address[4 * sizeof nodes[i].address];
        int error;

        if (nodes[i].state == NIGH_NODE_IS_UP || nodes[i].is_self != 0 ||
            nodes[i].refused != NIGH_OK || nodes[i].address[0] == '\0') {
            continue;
        }
        if (clock_now_us(&clock_monotonic) >= end_us) {
            return;
        }
        dialled++;
        bytes_printable(nodes[i].address, strlen(nodes[i].address), address, sizeof address);
        if (dial_all(nodes[i].address, &error)) {
            say_unreached(doctor, nodes[i].rank, address, error);
        } else {
            doctor_find(doctor, DOCTOR_NOTE, "reach",
                        "/etc/hosts or DNS at this machine, or another address in the list of "
                        "nodes",
                        "node %u (%s) has no address here: %s", nodes[i].rank, address,
                        gai_strerror(error));
        }
    }
}
