/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The word that tells a node's clients that it has ended, however it ended: a robust futex in the
 * node page, which the thread of lane 0 holds. When that thread ends, SIGKILL included, the kernel
 * sets SESSION_LIFE_ENDED in it; nobody else has to run for that.
 *
 * The thread's robust list is ours (set_robust_list(2)), not the C library's: a mutex of its kind
 * would have its links, addresses of this process, in a page that every client reads. So robust
 * mutexes of the C library that the thread of lane 0 holds when it dies are not found; nigh has
 * none, and nobody else's code runs there.
 */
#ifndef NODE_LIFE_H
#define NODE_LIFE_H

#include "memory/session.h"
#include "nigh/status.h"

struct life;

/* Books for one page, which outlives them. NIGH_NO_RESOURCES. */
nigh_status life_create(struct session_node_page *page, struct life **life);
void life_destroy(struct life *life); /* after the thread that began it has ended; or NULL */

/* The calling thread holds the word from now on, until it ends. Where the kernel cannot (a sandbox
 * that does not know the call) the page says nothing, as an older node's. */
void life_begin(struct life *life);

/* Says that the node has ended, whoever held the word: the end of a clean stop. */
void life_end(struct session_node_page *page);

#endif
