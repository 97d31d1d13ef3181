/* SPDX-License-Identifier: Apache-2.0 */
/* A file system that has no locks, for tests: flock is the program's own. */
#ifndef TESTS_LOCK_FAULT_H
#define TESTS_LOCK_FAULT_H

/* What flock fails with; 0: the machine's locks. */
extern int lock_fault;

#endif
