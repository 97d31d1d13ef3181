/* SPDX-License-Identifier: Apache-2.0 */
/* What `nigh bench` measures besides objects of its own node (bench.c, bench_transfer.c,
 * bench_rpc.c, bench_region.c, bench_space.c). */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/cli.h"

/* Puts what another node's bench_transfer will get. All return an exit code. */
int bench_offer(struct cli *cli);
/* Deletes what is left of it, on every node. */
int bench_withdraw(struct cli *cli);
int bench_transfer(struct cli *cli);

/* Of calls; zeros and NULL: not given. */
struct bench_rpc {
    const char *node; /* where `serve` runs; NULL: a server of its own, at this node */
    uint32_t at_once; /* 0: one, and then BENCH_RPC_AT_ONCE */
    uint32_t size;    /* of request and reply */
    bool serve;
};

#define BENCH_RPC_AT_ONCE 64   /* most, and as many as a pair has places for */
#define BENCH_RPC_SIZE    64   /* unless another is asked for */
#define BENCH_RPC_MOST    8160 /* bytes, with memory that a call brings beside them */

int bench_rpc(struct cli *cli, const struct bench_rpc *wanted);
/* Answers such calls of anybody: until interrupted, or for --timeout. */
int bench_serve(struct cli *cli);

/* Of a region; 0 and NULL: not given. */
struct bench_region {
    const char *node; /* where its chunk lies; NULL: here */
    uint32_t size;    /* of reads and writes; 0: several */
};

#define BENCH_REGION_MOST (1u << 20) /* bytes */

int bench_region(struct cli *cli, const struct bench_region *wanted);

/* Of a space whose home is there; NULL: here. */
int bench_space(struct cli *cli, const char *node);

/* What these make is called so (bench_left.c). */
#define BENCH_REGION_PREFIX "nigh-bench-"
#define BENCH_REGION_NAME   65 /* with a 0 at its end */
#define BENCH_SPACE_NAME    48 /* likewise */

/* What the one of this process is called. */
nigh_status bench_region_name(char name[BENCH_REGION_NAME]);
nigh_status bench_space_name(char name[BENCH_SPACE_NAME]);

/* Frees what runs of the same user on this machine have left, whose processes have ended, as far as
 * there is time for it: what is left then is for the next run. */
void bench_remove_left(nigh_client *client, uint64_t timeout_us);
void bench_remove_left_spaces(nigh_client *client, uint64_t timeout_us);

#endif
