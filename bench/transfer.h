/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the transfer benchmark's files share: a workload (a size, and how many objects of it), and
 * series: ways to bring such an object here, each measured in alternating rounds with the others.
 */
#ifndef BENCH_TRANSFER_H
#define BENCH_TRANSFER_H

#include "harness.h"

#define TRANSFER_HERE      0 /* the core of whoever gets */
#define TRANSFER_THERE     1 /* the other one */
#define TRANSFER_SPIN_US   1000
#define TRANSFER_REQUEST   64 /* bytes of a raw request */
#define TRANSFER_CHUNK     (UINT64_C(1) << 20)
#define TRANSFER_MAX_ROUND 32

struct workload {
    const char *label;
    uint64_t bytes;
    uint32_t objects; /* different ones: each is got once a round, by everybody */
    uint32_t rounds;
};

struct series;

/* A way to get: what its series have in common. Sets itself up for one workload, measures rounds of
 * it, and is gone. */
struct series_kind {
    void (*open)(struct series *series, const struct workload *workload);
    /* Gets every object once; one sample of nanoseconds each. */
    void (*round)(struct series *series, const struct workload *workload, struct samples *samples);
    void (*close)(struct series *series);
    void (*after)(struct series *series); /* a round, not measured; NULL: nothing to do */
    /* What else was counted; NULL: nothing. */
    void (*write_rows)(struct series *series, const struct workload *workload);
};

struct series {
    const char *name;
    const char *path; /* whose path, which placement, spinning or blocking */
    const struct series_kind *kind;
    int variant;
    uint64_t least_bytes, most_bytes; /* sizes that it is run at */
    bool counts_sleeps;

    void *state;
    pid_t pids[4]; /* whose sleeps count; 0: none */
    struct samples all;
    double round[TRANSFER_MAX_ROUND];  /* medians */
    double sleeps[TRANSFER_MAX_ROUND]; /* a get, of all its processes */
};

/* transfer_rounds.c. Of who gets and who holds; both the loopback's unless main says otherwise. */
extern const char *transfer_address_here, *transfer_address_there;

struct table {
    struct series *series;
    int count;
    void (*compare)(const struct workload *workload); /* after the rounds */
};

struct transfer_options {
    const char *out;    /* the file of rows; not opened for options that make no sense */
    uint32_t rounds;    /* 0: as the workloads have it */
    char *const *sizes; /* "8 KiB", or 8K; none: all */
    int size_count;
};

/* All series of the table that are run at a size, and their rows, for each of the sizes; returns
 * how many rows missed their target. Exits 2 for sizes that are none of the workloads', and more
 * rounds than there may be. */
int transfer_run(const struct table *table, const struct workload *workloads, size_t count,
                 const struct transfer_options *options);
bool transfer_is_run(const struct series *one, const struct workload *workload);

/* After the rounds: the median of their medians; p99 of all gets; half of the rounds lie within so
 * much of each other, as a share of their median; the faster of two, a peer in its best placement.
 */
double transfer_median_us(const struct workload *workload, const struct series *one);
double transfer_p99_us(struct series *one);
double transfer_spread(const struct series *one, uint32_t count);
struct series *transfer_better(const struct workload *workload, struct series *a, struct series *b);

/* Writes ours against theirs, round by round; `faster`: theirs / ours, else ours / theirs. target
 * 0: there is none. */
void transfer_compare(const struct workload *workload, const char *what, struct series *ours,
                      struct series *theirs, bool faster, double target);

/* transfer_raw.c. Variants are flags. */
enum {
    RAW_SPINS = 1,
    RAW_SAME_CORE = 2,
    RAW_SUMS = 4,
    RAW_EPOLL = 8, /* sleeps on an epoll of several descriptors, as who has several peers must */
};
extern const struct series_kind transfer_raw, transfer_memcpy;

/* transfer_nigh.c */
enum {
    NIGH_PATH = 15, /* mask: nigh_transfer, of both nodes */
    NIGH_BLOCKS = 16,
    NIGH_SAME_CORE = 32,
    NIGH_DAEMON = 64, /* the puller is nighd; else embedded */
    NIGH_VERBS = 128  /* joined by RDMA; else by TCP */
};
extern const struct series_kind transfer_nigh;
extern uint64_t transfer_spare_bytes; /* of a node's memory, beyond its objects */

/* transfer_peers.c. Redis: the server's core; MPI: none. */
extern const struct series_kind transfer_redis, transfer_mpi;
extern const char *transfer_mpi_helper;

/* transfer_perftest.c. Its programs, between the RDMA devices of the two addresses. */
enum {
    PERFTEST_SEND_LATENCY = 0,
    PERFTEST_READ_BANDWIDTH,
    PERFTEST_WRITE_BANDWIDTH
};
extern const struct series_kind transfer_perftest;
/* Of who gets and who holds. */
extern const char *transfer_device_here, *transfer_device_there;

#endif
