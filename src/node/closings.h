/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that end with something unread that brings descriptors. The kernel lets go of these
 * when the connection is closed, in the thread that closes it, and to let go of the last one may
 * wait: for a peer that reads nothing (a TCP socket with SO_LINGER), or for as long as much memory
 * takes. So that is left to a thread that is about to end, of which the kernel asks no such wait.
 *
 * One thread; those that close end by themselves.
 */
#ifndef NODE_CLOSINGS_H
#define NODE_CLOSINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"

struct closings;

/* For so many connections at once, beside those that wait. Makes a thread: before clients are let
 * in, as what is open in the process is closed once more by that. NIGH_NO_RESOURCES. */
nigh_status closings_create(uint32_t connections, struct closings **closings);

/* Waits for no connection: those that nobody could be had for are left open. NULL is allowed. */
void closings_destroy(struct closings *closings);

/* Closes a connection over a unix socket, whatever its peer sent that nobody reads; *fd is -1 then.
 * The peer is told the end at once. Waits for nobody. -1 is allowed. */
void closings_close(struct closings *closings, int *fd);

/* What waits is closed as far as there is room. True: some wait still. */
bool closings_turn(struct closings *closings);

/* Whether one more connection may be let in: few wait to be closed. */
bool closings_has_place(const struct closings *closings);

#endif
