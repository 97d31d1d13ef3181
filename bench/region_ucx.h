/* SPDX-License-Identifier: Apache-2.0 */
/* What UCX takes for a get or put over TCP. It makes them of active messages there, which the
 * target's program carries out when it polls: a target on its core that does so, or computes. */
#ifndef BENCH_REGION_UCX_H
#define BENCH_REGION_UCX_H

#include <stdint.h>
#include <sys/types.h>

#define UCX_COMPUTES_US 20000 /* how long the target computes, before it polls again */

enum ucx_mode {
    UCX_SLEEPS,
    UCX_POLLS,
    UCX_COMPUTES
};

/* Before anything of UCX is used: forks the target, and connects. */
void ucx_open(uint64_t most_bytes, int core);
/* What the target does from now on; returns when it does. */
void ucx_set_target(enum ucx_mode mode);
void ucx_read(uint64_t bytes);
/* Until they are at the target. */
void ucx_write(uint64_t bytes);
/* While the target computes, and polls no sooner than after UCX_COMPUTES_US. */
void ucx_read_from_computing(uint64_t bytes);
void ucx_close(void);

#endif
