/* SPDX-License-Identifier: Apache-2.0 */
/* What two processes take to exchange 64 bytes through memory that both have, with nothing above.
 */
#ifndef BENCH_RPC_SHARED_H
#define BENCH_RPC_SHARED_H

#include <stdint.h>

/* Two rings, of records of 64 bytes and 16 that say what they are: one is copied in, seen, copied
 * out, and answered by another. Both spin; who serves does it for ever, and rests when it hears
 * nothing for so long. */
struct rings;

struct rings *rings_open(void);
void rings_serve(struct rings *rings, uint64_t rest_ns);
void rings_call(struct rings *rings);

/* Two event descriptors, on which both sides sleep. */
void events_open(int fds[2]);
void events_serve(const int fds[2]);
void events_call(const int fds[2]);

#endif
