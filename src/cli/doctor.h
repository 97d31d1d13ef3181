/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nigh doctor looks at. Each looker hands its findings, every one that is not good with its
 * remedy, to a function; `root` stands before every path that is read ("" but in tests, where a
 * folder plays the machine).
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "memory/admission.h"
#include "nigh/nigh.h"

enum doctor_severity {
    DOCTOR_GOOD,
    DOCTOR_NOTE, /* works, and could be better; or a node that is started would be in trouble */
    DOCTOR_BAD
};

#define DOCTOR_FINDING_BYTES 2048 /* a longer one is cut */

struct doctor {
    const char *root;
    void (*take)(void *context, enum doctor_severity severity, const char *subject,
                 const char *finding, const char *remedy);
    void *context;
};

/* One finding: what was looked at, what was found, and the remedy ("" when there is nothing to do).
 */
void doctor_find(const struct doctor *doctor, enum doctor_severity severity, const char *subject,
                 const char *remedy, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ---- the machine, and what a process may: doctor_machine.c ---- */

enum doctor_call {
    DOCTOR_PIDFD_OPEN = 1,
    DOCTOR_PIDFD_GETFD = 2,
    DOCTOR_CLOSE_RANGE = 4,
    DOCTOR_EPOLL_PWAIT2 = 8
};

/* Which system calls this process may not make: bits of enum doctor_call. */
uint32_t doctor_missing_calls(void);

/* The limits in the facts are those of a node's process, or, limited 0, of this one. */
void doctor_look_at_machine(const struct doctor *doctor, const struct admission_facts *facts,
                            pid_t limited);
void doctor_look_at_kernel(const struct doctor *doctor, uint32_t missing_calls);

/* ---- the installation: doctor_install.c ---- */

/* Whether programs find the library that this one has, and Python its package. */
void doctor_look_at_install(const struct doctor *doctor);

/* ---- what a node counts: doctor_node.c ---- */

void doctor_look_at_counts(const struct doctor *doctor, const nigh_node_stats *stats);

/* Where members see otherwise than this one does, though they are up; has_state: it is known that
 * the node was told a --state. */
void doctor_look_at_members(const struct doctor *doctor, const nigh_node_info *nodes, size_t count,
                            const nigh_node_stats *stats, bool has_state);

/* Whether others have more lanes, as the links to them tell. */
void doctor_look_at_links(const struct doctor *doctor, const nigh_link_info *links, size_t count,
                          const nigh_node_stats *stats);

/* Whether the clock went back behind the start that this number is of; now_s: since 1970. */
void doctor_look_at_life(const struct doctor *doctor, uint32_t incarnation, uint64_t now_s);

/* What is to be done where a handshake was refused for this reason. */
const char *doctor_refusal_remedy(nigh_status refused);

/* ---- the network: doctor_network.c ---- */

/* Settings of the system that TCP between nodes goes by. */
void doctor_look_at_tcp(const struct doctor *doctor);

/* Dials the first few that are not up: half a second for each of their addresses. */
void doctor_look_at_reach(const struct doctor *doctor, const nigh_node_info *nodes, size_t count);

/* ---- what a node is told: doctor_told.c ---- */

#define SETUP_PATH_BYTES  512
#define SETUP_LIST_BYTES  4096
#define SETUP_VALUE_BYTES 256 /* a longer one is cut */
#define SETUP_TEXTS       96

/* Whether somebody keeps the node's memory while no node lives (systemd, nighd --hold). */
enum setup_keeper {
    SETUP_KEEPER_UNKNOWN,
    SETUP_KEEPER_NONE,
    SETUP_KEEPER_MAYBE, /* there is a supervisor: what it keeps is not known */
    SETUP_KEEPER_THERE
};

/* Options of nighd; "": not given. */
struct setup {
    char source[SETUP_PATH_BYTES]; /* whose they are, for a sentence */
    char state[SETUP_PATH_BYTES], log_dir[SETUP_PATH_BYTES], spill[SETUP_PATH_BYTES];
    char cluster_key[SETUP_PATH_BYTES], directory_password[SETUP_PATH_BYTES];
    char config[SETUP_PATH_BYTES]; /* the file, where one says them */
    unsigned wrong_line;           /* ... the first of its lines that is none for nighd; 0: none */
    char member[128], listen[128], http[64];
    char join[SETUP_LIST_BYTES];
    struct setup_text { /* all options, those among them */
        char name[24], value[SETUP_VALUE_BYTES];
    } texts[SETUP_TEXTS];
    size_t text_count;
    uid_t uid; /* of the node, if that is known: a file does not say it */
    bool knows_uid;
    bool is_live;      /* it runs: its ports are its own */
    bool is_elsewhere; /* ... and sees other files (a container, a service): those of `process` */
    bool has_own_net;  /* ... and other ports */
    bool has_own_time; /* ... and another clock since the boot */
    enum setup_keeper keeper;
    pid_t process;   /* 0: not known */
    char called[64]; /* ... as its command line has it; "": that cannot be read */
};

/* Why a path names no file with text that this user may read; NULL: it does. */
const char *setup_unreadable(const char *path);

/* Whether a process has another of what this one has ("net", "mnt", "time"), which its ns folder
 * tells; where that may not be looked at, it is not known, and taken for the same. */
bool setup_has_another(const char *root, pid_t pid, const char *what);

/* From a file as nighd --config takes it. False: it cannot be read (errno). */
bool setup_read_file(const char *root, const char *path, struct setup *setup);

/* From the command line of a process, and from the file that it names. False: it is none of nighd.
 */
bool setup_read_process(const char *root, pid_t pid, struct setup *setup);

/* What is said of an option; NULL: nothing. What stands last counts. */
const char *setup_value(const struct setup *setup, const char *name);

/* Opens what a path of the node's names. Of a node that sees other files it is one of those,
 * wherever links on the way lead: they are followed from the node's root. -1: errno. */
int setup_open(const char *root, const struct setup *setup, const char *path, int flags);
/* The same, to be read; NULL: it cannot be. */
FILE *setup_open_file(const char *root, const struct setup *setup, const char *path);
/* ... looked at alone. */
bool setup_stat(const char *root, const struct setup *setup, const char *path, struct stat *st);
/* Whether it says nothing of the file that it cannot be opened. */
bool setup_is_hidden(int error);

/* ---- whether it could do it: doctor_setup.c ---- */

void doctor_look_at_setup(const struct doctor *doctor, const struct setup *setup);

/* ---- whether there is enough for it, and what of it outlives the node: doctor_fit.c ---- */

/* What a disk has left. */
struct doctor_disk {
    uint64_t free_bytes;
    bool takes_no_file; /* it has no inode left */
};

void doctor_look_at_disk(const struct doctor *doctor, const char *subject, const char *path,
                         const struct doctor_disk *disk, uint64_t wanted_bytes, const char *lost);

/* What of a directory's room a node that stands still has taken already; 0 of one that runs. */
uint64_t doctor_held_bytes(const char *root, const struct setup *setup, const char *path);

/* The disks of its directories, its keeper, its lives, its clock. */
void doctor_look_at_fit(const struct doctor *doctor, const struct setup *setup);

/* Whether there is room for more sessions; setup NULL: what it was told is not known. */
void doctor_look_at_sessions(const struct doctor *doctor, const struct setup *setup,
                             const nigh_node_stats *stats);

#endif
