/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs that a space is durable (docs/spaces.md, "Durability"): a write and a flush by one
 * thread, and by many at once, with and without a log, beside an fdatasync of the same disk; and
 * how long a node that was killed takes until what it had is there.
 */
#ifndef BENCH_SPACE_DURABLE_H
#define BENCH_SPACE_DURABLE_H

/* A nighd of its own, whose logs lie in /tmp. Writes its rows. */
void durable_measure(int rounds);

#endif
