/* SPDX-License-Identifier: Apache-2.0 */
/* What `nigh bench` measures besides objects of its own node (bench.c, bench_transfer.c). */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/cli.h"

/* Puts what another node's bench_transfer will get. All return an exit code. */
int bench_offer(struct cli *cli);
/* Deletes what is left of it, on every node. */
int bench_withdraw(struct cli *cli);
int bench_transfer(struct cli *cli);

#endif
