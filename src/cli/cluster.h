/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A local cluster for trying things: nodes of this machine's loopback whose files lie in one
 * directory. What is kept there:
 *
 *   cluster              the mark, a line of this program's; without it nothing is removed here
 *   nodes                the list, an address a line
 *   key                  the cluster's key
 *   cluster.made         the directory was made for it, and goes with it
 *   nodeR.pid            R's process, which has it locked as long as it lives
 *   nodeR.sock, .log     where clients of R connect, and what it says
 *   stateR, logs         what nodes keep (--state, --log-dir)
 *
 * Who works on a cluster has the directory locked. A number of a process says nothing by itself,
 * as it may be another's by now: only who has the locked file open is signalled, or a child of this
 * program's.
 */
#ifndef CLI_CLUSTER_H
#define CLI_CLUSTER_H

#include <stdint.h>
#include <sys/types.h>

#include "cli/cli.h"

enum {
    CLUSTER_NODES = 8,
    CLUSTER_NODES_DEFAULT = 3,
    CLUSTER_DIR_BYTES = 96, /* that a socket's path has room for */
    CLUSTER_PATH_BYTES = CLUSTER_DIR_BYTES + 32,
    CLUSTER_WHY_BYTES = 400
};

/* What is known of a node's process. */
enum cluster_life {
    CLUSTER_NEVER, /* it was not started, or its files are gone */
    CLUSTER_LIVES,
    CLUSTER_DIED
};

struct cluster_node {
    enum cluster_life life;
    pid_t first; /* the number in its file, while it lives: all its processes are of that session */
    pid_t pid;   /* ... that one, or another of them where it is gone; 0: not known */
    int pidfd;   /* -1: none */
    int ready_fd; /* where it says that it serves; -1: it did, or is not waited for */
    uint16_t port;
    bool is_nameless; /* it lives, and nothing says which process it is: its file is gone */
    bool is_own;      /* a child of this process, not waited for before its end is dealt with */
};

struct cluster {
    struct cli *cli;
    char dir[CLUSTER_DIR_BYTES];
    char words[CLUSTER_DIR_BYTES + 16]; /* that name it where one was given: " --dir DIR" */
    int dir_fd;
    uint32_t count;
    bool is_there; /* the mark was */
    struct cluster_node nodes[CLUSTER_NODES];
};

/* ---- the directory: cluster_dir.c; each says what is wrong and returns an exit code ---- */

/* Where it is: `given`, or $XDG_RUNTIME_DIR/nigh-cluster, or /tmp/nigh-cluster-UID. */
int cluster_place(struct cluster *cluster, const char *given);

/* Whether words of sockets in it are taken apart by a shell as they were put together. */
int cluster_check_name(const struct cluster *cluster);

/* Opens it, locked, and reads the mark and the list: count is 0 where there is none. For a start it
 * is made where it is not there; else that is CLI_NOT_FOUND, as is one without a cluster. */
enum cluster_use {
    CLUSTER_LOOKS, /* others may look meanwhile */
    CLUSTER_ENDS,
    CLUSTER_STARTS
};
int cluster_open(struct cluster *cluster, enum cluster_use use);
void cluster_close(struct cluster *cluster);

/* The mark, a key, and the list of `ports`, which are set. */
int cluster_write(struct cluster *cluster);

/* Removes all that a cluster made, the mark last. Its nodes have ended. False: something is left,
 * and the mark; that is said. */
bool cluster_empty(struct cluster *cluster);

/* ... and the directory, where it was made for it. */
bool cluster_clear(struct cluster *cluster);

/* DIR/nodeRANK and what follows. */
void cluster_path(const struct cluster *cluster, uint32_t rank, const char *suffix,
                  char path[CLUSTER_PATH_BYTES]);

/* "": it is not full, else a sentence's end that says so. */
const char *cluster_full(const struct cluster *cluster);

/* ---- its nodes: cluster_node.c ---- */

/* The program that nodes are: `given`, beside this one, or in $PATH. False: there is none. */
bool cluster_program(const char *given, char *path, size_t path_bytes);

/* Looks what has become of each. */
void cluster_look(struct cluster *cluster);

/* Starts one: `words` are what nighd is told beside what every node here is. False: errno. */
bool cluster_spawn(struct cluster *cluster, uint32_t rank, const char *program, char **words);

/* What it said last: why it does not serve, as a sentence. */
void cluster_last_words(const struct cluster *cluster, uint32_t rank, char why[CLUSTER_WHY_BYTES]);

/* Ends those that live, in order: the last first, and all processes that have a node's file open.
 * Each has timeout_us, so that one that stands still takes no time of the others. *killed: how many
 * had to be. How many live on though they were, or are not to be seen: the first of them is *left.
 */
uint32_t cluster_end(struct cluster *cluster, uint64_t timeout_us, uint32_t *killed,
                     uint32_t *left);

#endif
