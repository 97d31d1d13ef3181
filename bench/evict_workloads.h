/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traces that bench/evict_traces.c plays: which object is used when, and how large it is.
 *
 * A trace is made from a seed alone, so every policy sees the same one and every run makes it
 * again. No recorded trace is used: each of these states one behaviour, and says which.
 */
#ifndef BENCH_EVICT_WORKLOADS_H
#define BENCH_EVICT_WORKLOADS_H

#include <stdint.h>

/*
 * One step: the object used, and fetched again when it is gone. With a flag, instead: deleted; put,
 * which is not a use; or used although nobody could make it again, so that it stays gone.
 */
#define TRACE_DELETE 0x80000000u
#define TRACE_PUT    0x40000000u
#define TRACE_ONCE   0x20000000u
#define TRACE_OBJECT 0x1fffffffu

struct trace {
    uint32_t *steps;
    uint64_t *sizes; /* by object */
    uint32_t length;
    uint32_t objects;
    uint64_t capacity; /* what the store may hold, bytes */
};

struct workload {
    const char *name;
    /* Of the bytes of the objects that are used again, in percent: the store's capacities. In
     * evict_stores: the lag, of the store's capacity. */
    uint32_t percent[3];
    void (*fill)(struct trace *t, const struct workload *w, uint32_t percent, uint64_t seed);
    double alpha;  /* of the Zipf distribution, where there is one */
    uint32_t knob; /* what it sets is said at each fill function */
};

/* The policy was first chosen, and its constants set, by the first table alone; the second is the
 * check: other parameters, and not looked at before. The third came later, and with it three of the
 * constants. */
#define EVICT_WORKLOADS 12
#define EVICT_HELD_OUT  10
#define EVICT_STORES    2

extern const struct workload evict_held_out[EVICT_HELD_OUT];
extern const struct workload evict_workloads[EVICT_WORKLOADS];

/* What a store is for and a cache is not: what is gone before its use is lost. */
extern const struct workload evict_stores[EVICT_STORES];

void trace_init(struct trace *t, const struct workload *w, uint32_t percent, uint64_t seed);
void trace_fini(struct trace *t);

/* The generator of every random choice of the comparison (splitmix64). */
uint64_t trace_random(uint64_t *state);

#endif
