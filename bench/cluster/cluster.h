/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the cluster benchmark share: flags, the ranks (MPI, which starts the processes
 * and is what they are held against), and the puller (this rank's node, which is measured).
 */
#ifndef BENCH_CLUSTER_H
#define BENCH_CLUSTER_H

#include "../harness.h"

#define CLUSTER_MAX_SIZES  32
#define CLUSTER_MAX_ROUNDS 100
#define CLUSTER_MAX_WINDOW 64
#define CLUSTER_PINGS      16 /* of a pair, a round */
#define CLUSTER_KEY_BYTES  32
#define CLUSTER_TEXT_BYTES 80 /* a host's name, an address: as nigh's */

/* One size, and how many objects of it every rank has for every other. */
struct workload {
    char label[32]; /* "64 KiB" */
    uint64_t bytes;
    uint32_t objects;
    uint32_t window; /* gets under way at once, at most */
};

/* ---- flags.c ---- */
struct flags {
    uint32_t transfer; /* nigh_transfer */
    const char *transfer_name;
    uint32_t fabric; /* nigh_fabric */
    const char *fabric_name;
    uint64_t sizes[CLUSTER_MAX_SIZES];
    uint32_t size_count;
    uint32_t rounds; /* that count */
    uint32_t window;
    uint32_t lanes;
    uint32_t spin_us;      /* UINT32_MAX: by the cores that a rank has */
    uint32_t timeout_s;    /* for a get, and for the other ranks */
    const char *interface; /* or several, with commas; NULL: the loopback on one machine, else the
                              first other one */
    const char *out;
};

extern const char flags_usage[];

/* False: `why` is a sentence. */
bool flags_parse(int argc, char **argv, struct flags *flags, char *why, size_t why_bytes);

/* "64 KiB" of bytes. */
void flags_size_text(uint64_t bytes, char text[32]);

/* ---- ranks.c ---- */
struct ranks {
    int rank, count;
    int machines;
    int here; /* ranks on this machine */
    char host[CLUSTER_TEXT_BYTES];
    uint32_t timeout_s;
};

extern struct ranks ranks;

void ranks_begin(int *argc, char ***argv);
void ranks_end(void);

/* Says who fails and why, and exits 1: mpirun ends the other ranks. */
_Noreturn void ranks_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * All ranks call these, in the same order. Who waits in one sleeps: the cores are left to the nodes
 * that are measured. Others that do not come within timeout_s are a failure.
 */
void ranks_meet(const char *what);
void ranks_start(const char *what); /* the same, but all go on within microseconds of each other */
bool ranks_agree(bool yes, const char *what);    /* whether all say yes */
void ranks_share(void *data, size_t size_bytes); /* rank 0's, to all */
void ranks_gather_text(const char *mine, char (*all)[CLUSTER_TEXT_BYTES]);
/* At rank 0: all ranks' samples, and the largest sum of one rank's. Elsewhere nothing. */
void ranks_collect(const struct samples *mine, struct samples *all, double *slowest);

/* ---- puller.c ---- */
struct puller;

/* Memory of a node for the largest of these. */
uint64_t puller_memory_bytes(const struct workload *workloads, uint32_t count);
/* Returns when every rank's node has started and sees all others; else all ranks exit 1, who failed
 * says why. */
struct puller *puller_start(const struct flags *flags, uint64_t memory_bytes);
void puller_stop(struct puller *puller);

void puller_fill(struct puller *puller, const struct workload *workload);
void puller_drop(struct puller *puller, const struct workload *workload);
/* Lets all copies go, so that the next gets cross the network again. */
void puller_forget(struct puller *puller);

/* `count` gets from one holder, one after another, a sample each. whole: looks at every byte. */
void puller_ping(struct puller *puller, const struct workload *workload, int holder, uint32_t count,
                 bool whole, struct samples *samples);
/* Every object from every holder, `window` at once; one sample: nanoseconds an object. */
void puller_pull(struct puller *puller, const struct workload *workload, const int *holders,
                 int holder_count, bool whole, struct samples *samples);
/* Fails unless every get since the last call has come from another node, in the way that the flags
 * say. */
void puller_expect_pulls(struct puller *puller, const struct workload *workload);

/* ---- baseline.c: the same bytes by MPI itself ---- */
void baseline_open(const struct workload *workload);
void baseline_close(void);
void baseline_ping(const struct workload *workload, int getter, int holder, uint32_t count,
                   struct samples *samples);
/* With a partner, both ways at once; partner < 0: nothing to do. */
void baseline_sendrecv(const struct workload *workload, int partner, struct samples *samples);
void baseline_window(const struct workload *workload, int partner, struct samples *samples);
void baseline_alltoall(const struct workload *workload, struct samples *samples);

#endif
