/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `nighd --hold`: a small process that keeps a node's descriptors while no node lives.
 *
 * It starts nighd as its child, takes what the child stores (as systemd does: sd_notify(3) with
 * FDSTORE), and when the child dies by a signal starts it again with all of it. It has no threads,
 * reads no memory and knows nothing of objects: little that could fail. When the child ends by
 * itself, it ends with the same exit code, and the memory is gone.
 */
#ifndef DAEMON_HOLDER_H
#define DAEMON_HOLDER_H

/*
 * Runs as the holder of a nighd with these very arguments. ready_fd (-1: none) is for the first
 * child only. Returns the exit code of the program.
 */
int holder_run(char **argv, int ready_fd);

#endif
