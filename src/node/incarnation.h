/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of a node's life, which births and other nodes know it by: greater than that of every
 * life before it.
 *
 * It is the clock's eighths of a second since 2023, or more where something remembers a greater
 * one: the spill directory (a file "incarnation" in it), or what a keeper kept. Where nothing does,
 * the clock alone says it, and a node of a cluster tells nobody its number before that eighth is
 * over: the next life, which begins later, has another.
 */
#ifndef NODE_INCARNATION_H
#define NODE_INCARNATION_H

#include <stdint.h>

#include "nigh/status.h"

/* At least 1. wall_ns: of CLOCK_REALTIME. */
uint32_t incarnation_of_clock(uint64_t wall_ns);

/*
 * The number of a life that begins now: above `above`, and above what `directory` remembers (""
 * : there is none), which remembers it from now on. A directory that cannot be read or written,
 * or has something else for a number, is in the log, and remembers nothing. NIGH_LIMIT: no number
 * is left; `why` says so.
 */
nigh_status incarnation_begin(const char *directory, uint32_t above, uint64_t wall_ns,
                              uint32_t *incarnation, char *why, uint64_t why_bytes);

/* How long it is until the clock's number is above this one; 0: it is, or that takes longer than an
 * eighth of a second (something remembered it, and does so again). */
uint64_t incarnation_wait_ns(uint32_t incarnation, uint64_t wall_ns);

#endif
