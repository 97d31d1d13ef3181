/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A private nighd for a test: its own socket in the test's folder, gone with the test's process.
 *
 * Knows how to start and stop the program that $NIGHD names; nothing about what it serves.
 */
#ifndef TESTS_NODE_FIXTURE_H
#define TESTS_NODE_FIXTURE_H

#include "support/support.h"

struct node_fixture {
    pid_t pid;
    char socket[108];
};

/*
 * Starts nighd with --memory `memory` and the flags of the list (ends with NULL; may be NULL), and
 * returns once it serves. Fails the test when it does not. Its messages go to <socket>.log, which
 * is printed when it ends otherwise than with 0.
 */
void node_fixture_start(struct node_fixture *node, const char *memory, const char *const *flags);

/* The same on the socket of one that has ended. */
void node_fixture_start_again(struct node_fixture *node, const char *memory,
                              const char *const *flags);

/* Asks it to stop, and fails the test unless it ends with exit code 0. */
void node_fixture_stop(struct node_fixture *node);

/* The process that nighd --hold runs as its node, as of any parent its first child; 0: none now. */
pid_t node_fixture_child(pid_t holder);

/* Whether it is still running. */
bool node_fixture_lives(const struct node_fixture *node);

/* For --join: so many addresses with ports of their own. In a guest that has RDMA devices
 * (RDMA_GUEST_HOSTS, of tools/rdma-guest) each is of a host that has one. */
void node_fixture_members(char *members, size_t size, uint32_t count);

/* For --fabric: what reaches those. */
const char *node_fixture_fabric(void);

/* For --dead-ms: longer than anything stands still here that is not dead. */
const char *node_fixture_dead_ms(void);

#endif
