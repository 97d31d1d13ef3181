/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the benchmark programs share: time, samples, rows of JSON, pinned processes, a private node
 * and a private Redis. A benchmark that cannot set itself up says why and exits 1: there is no
 * error handling to return to.
 */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "nigh/nigh.h"

/* Monotonic nanoseconds. */
uint64_t bench_now_ns(void);

/* Prints a sentence and exits 1. */
_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A word of the command line that is a whole number of 1 to `most`; else as bench_fail. */
uint32_t bench_number(const char *word, uint32_t most);

/* Exits with the status's sentence unless it is NIGH_OK. */
void bench_check(nigh_status status, const char *what);

/* Puts the calling thread (and its children to come) on one core; core < 0 gives it all cores back.
 */
void bench_pin(int core);
int bench_cores(void);

/* ---- samples: nanoseconds, sorted on demand ---- */
struct samples {
    double *value;
    size_t count, capacity;
};

void samples_add(struct samples *samples, double value);
double samples_quantile(struct samples *samples, double quantile); /* 0.5 is the median */
void samples_append(struct samples *samples, const struct samples *more);
void samples_free(struct samples *samples);

/* ---- rows ---- */
enum bench_on {
    BENCH_NO_TARGET,
    BENCH_ON_RATIO,
    BENCH_ON_MEDIAN
};

struct bench_row {
    const char *name;
    const char *unit;
    double median, p99;
    double least, most;           /* of all samples; both 0: not told */
    const char *baseline_name;    /* NULL: none */
    double baseline;              /* its median */
    double ratio;                 /* how it compares: what `on` = ratio is held against */
    size_t pairs;                 /* 0, or the ratio is the median of so many pairs' ratios, */
    double ratio_low, ratio_high; /* and these are the least and the greatest of them */
    enum bench_on on;
    double target;
    const char *better; /* "lower" or "higher" */
    const char *path;   /* whose path, which placement, spinning or blocking */
    bool is_silent;     /* to the file alone */
};

/* Fills ratio, pairs, ratio_low and ratio_high. */
void bench_row_set_ratios(struct bench_row *row, struct samples *ratios);

void bench_rows_open(const char *path);
/* Writes the row to the file and a readable line to standard output. */
void bench_row_write(const struct bench_row *row);
/* Ends the file; returns how many rows missed their target. */
int bench_rows_close(void);

/* ---- processes ---- */
/* A child that dies with its parent, on one core (< 0: on any), with its standard output thrown
 * away. */
pid_t bench_spawn(const char *const arguments[], int core);
/* As fork: the child dies with its parent, and is on one core. */
pid_t bench_fork(int core);
/* A word that processes share: to set it wakes who waits while it is some value. */
void bench_word_set(_Atomic uint32_t *word, uint32_t value);
void bench_word_wait(_Atomic uint32_t *word, uint32_t value);
/* Ends it and removes its directory. */
void bench_stop(pid_t pid, const char *directory);

struct bench_node {
    pid_t pid;
    char directory[64];
    char socket_path[96];
};

struct bench_node_options {
    const char *memory;      /* "2G" */
    const char *max_objects; /* NULL: default */
    int core;                /* < 0: not pinned */
    int spin_us;
    const char *members; /* NULL: alone; else --join, --member, --cluster-key */
    const char *member;
    const char *key_path;
    const char *fabric;   /* NULL: default */
    const char *transfer; /* a word of --transfer; NULL: default */
    const char *spaces;   /* --space-memory; NULL: none */
    bool has_logs;        /* --log-dir, beside its socket */
};

/* A port of the loopback that nobody has now. */
int bench_free_port(void);

/* A plain connection over the loopback, whose small messages leave at once: a socket that listens,
 * its port, and both ends. */
int bench_tcp_listen(int *port);
int bench_tcp_accept(int listen_fd);
int bench_tcp_connect(int port);

/* Where nighd lies; set once at start. */
extern const char *bench_nighd_path;

void bench_node_start(struct bench_node *node, const struct bench_node_options *options);
/* Where one was that was killed. */
void bench_node_start_again(struct bench_node *node, const struct bench_node_options *options);
void bench_node_stop(struct bench_node *node);

/* Opens a client of the node; spin_us as nigh_client_options has it. */
nigh_client *bench_client(const struct bench_node *node, uint32_t spin_us, uint32_t flags,
                          uint64_t prefault_bytes);

/*
 * Populated memory of the kind that a node's is: a memory file, shared, plain pages. Where its
 * pages lie in the machine is luck, and decides how fast it is copied to, as it does for a node's.
 */
void *bench_memory_create(uint64_t size_bytes);
void bench_memory_destroy(void *memory, uint64_t size_bytes);

/* Exits unless the bytes that came from other nodes between two looks came as `transfer`
 * (nigh_transfer) has it. Objects of up to 8 KiB come in the answer also where they are pushed. */
void bench_check_transfer(const nigh_node_stats *before, const nigh_node_stats *after,
                          uint32_t transfer, uint64_t object_bytes);

/* harness_redis.c: what uses these needs hiredis. */
struct bench_redis {
    pid_t pid;
    char directory[64];
    char socket_path[96];
    int port; /* 0: none */
};

void bench_redis_start(struct bench_redis *redis, int core);
/* The same, reachable over TCP too, at an address of this machine. */
void bench_redis_start_tcp(struct bench_redis *redis, const char *address, int core);
void bench_redis_stop(struct bench_redis *redis);

/* The id of a counter: cheap to make, spread over all shards. */
static inline nigh_id bench_id(uint64_t number)
{
    nigh_id id = {{0}};

    __builtin_memcpy(id.bytes, &number, sizeof number);
    id.bytes[19] = 0x5a;
    return id;
}

#endif
