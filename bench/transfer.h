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
    NIGH_PATH = 3, /* mask: nigh_transfer */
    NIGH_BLOCKS = 4,
    NIGH_SAME_CORE = 8,
    NIGH_DAEMON = 16 /* the puller is nighd; else embedded */
};
extern const struct series_kind transfer_nigh;

/* transfer_peers.c. Redis: the server's core; MPI: none. */
extern const struct series_kind transfer_redis, transfer_mpi;
extern const char *transfer_mpi_helper;

#endif
