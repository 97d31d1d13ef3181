/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The synthetic traces of the eviction comparison; see evict_workloads.h and docs/eviction.md. */
#include "evict_workloads.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/check.h"

#define STEPS 200000u
#define HOT   20000u /* objects of the set that is used again and again */
#define EQUAL (64u << 10)
#define STORE 4000u /* objects that the store of a pipeline has room for */

uint64_t trace_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double uniform(uint64_t *state)
{
    return (double)(trace_random(state) >> 11) * 0x1p-53;
}

static uint32_t below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(((trace_random(state) >> 32) * n) >> 32);
}

/* ---- Zipf ranks by their cumulative distribution ---- */

struct zipf {
    double *upto;
    uint32_t n;
};

static void zipf_init(struct zipf *z, uint32_t n, double alpha)
{
    z->upto = malloc(n * sizeof *z->upto);
    z->n = n;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        z->upto[i] = sum += pow((double)(i + 1), -alpha);
    for (uint32_t i = 0; i < n; i++)
        z->upto[i] /= sum;
}

static uint32_t zipf_next(const struct zipf *z, uint64_t *state)
{
    double u = uniform(state);
    uint32_t low = 0;
    uint32_t high = z->n - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (z->upto[middle] < u)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- sizes ---- */

static uint64_t log_uniform(uint64_t *state, double low, double high)
{
    return (uint64_t)exp(log(low) + uniform(state) * (log(high) - log(low)));
}

/* 64 B to 1 GiB: nine in ten small, one in a thousand large; the large ones are most of the bytes.
 */
static uint64_t mixed_size(uint64_t *state)
{
    uint32_t kind = below(state, 1000);
    if (kind < 900)
        return log_uniform(state, 64, 64 << 10);
    if (kind < 999)
        return log_uniform(state, 64 << 10, 16 << 20);
    return log_uniform(state, 16 << 20, 1 << 30);
}

static void equal_sizes(struct trace *t)
{
    for (uint32_t i = 0; i < t->objects; i++)
        t->sizes[i] = EQUAL;
}

static void capacity_from_hot(struct trace *t, uint32_t hot, uint32_t percent)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < hot; i++)
        bytes += t->sizes[i];
    t->capacity = bytes / 100 * percent;
}

static uint32_t fresh(struct trace *t, uint64_t size_bytes)
{
    t->sizes[t->objects] = size_bytes;
    return t->objects++;
}

static void use(struct trace *t, uint32_t object)
{
    if (t->length < STEPS)
        t->steps[t->length++] = object;
}

/* ---- the workloads ---- */

static void start(struct trace *t, uint32_t percent)
{
    t->objects = HOT;
    equal_sizes(t);
    capacity_from_hot(t, HOT, percent);
}

static void fill_zipf(struct trace *t, const struct workload *w, uint32_t percent, uint64_t seed)
{
    struct zipf z;

    zipf_init(&z, HOT, w->alpha);
    start(t, percent);
    while (t->length < STEPS) {
        use(t, zipf_next(&z, &seed));
    }
    free(z.upto);
}

/* A hot set in Zipf use; every second 20,000 steps a reader passes once over objects that nobody
 * uses again. knob: of how many steps then one is the others'. */
static void fill_scan(struct trace *t, const struct workload *w, uint32_t percent, uint64_t seed)
{
    struct zipf z;

    zipf_init(&z, HOT, w->alpha);
    start(t, percent);
    while (t->length < STEPS) {
        bool scanning = (t->length / 20000) % 2 == 1;

        if (scanning && below(&seed, w->knob) != 0) {
            use(t, fresh(t, EQUAL));
        } else {
            use(t, zipf_next(&z, &seed));
        }
    }
    free(z.upto);
}

/* The same objects in the same order, again and again; `percent` of the loop fits. */
static void fill_loop(struct trace *t, const struct workload *w, uint32_t percent, uint64_t seed)
{
    (void)w;
    (void)seed;
    start(t, percent);
    while (t->length < STEPS) {
        use(t, t->length % HOT);
    }
}

/* A loop in the background of a Zipf set: an epoch of training beside serving. knob: of how many
 * steps one is the Zipf set's. */
static void fill_loop_zipf(struct trace *t, const struct workload *w, uint32_t percent,
                           uint64_t seed)
{
    struct zipf z;
    uint32_t at = 0;

    zipf_init(&z, HOT / 2, w->alpha);
    start(t, percent);
    while (t->length < STEPS) {
        if (below(&seed, w->knob) != 0) {
            use(t, HOT / 2 + at++ % (HOT / 2));
        } else {
            use(t, zipf_next(&z, &seed));
        }
    }
    free(z.upto);
}

/* Zipf use of objects of 64 B to 1 GiB, size and popularity unrelated. */
static void fill_mixed(struct trace *t, const struct workload *w, uint32_t percent, uint64_t seed)
{
    struct zipf z;

    zipf_init(&z, HOT, w->alpha);
    t->objects = HOT;
    for (uint32_t i = 0; i < HOT; i++) {
        t->sizes[i] = mixed_size(&seed);
    }
    capacity_from_hot(t, HOT, percent);
    while (t->length < STEPS) {
        use(t, zipf_next(&z, &seed));
    }
    free(z.upto);
}

/* Objects of 4 KiB to 1 MiB in Zipf use while large ones (4 to 64 MiB) pass through, each used
 * once. knob: of how many steps one is a large object's. */
static void fill_ingest(struct trace *t, const struct workload *w, uint32_t percent, uint64_t seed)
{
    struct zipf z;

    zipf_init(&z, HOT, w->alpha);
    t->objects = HOT;
    for (uint32_t i = 0; i < HOT; i++) {
        t->sizes[i] = log_uniform(&seed, 4 << 10, 1 << 20);
    }
    capacity_from_hot(t, HOT, percent);
    while (t->length < STEPS) {
        if (below(&seed, w->knob) == 0) {
            use(t, fresh(t, log_uniform(&seed, 4 << 20, 64 << 20)));
        } else {
            use(t, zipf_next(&z, &seed));
        }
    }
    free(z.upto);
}

/* Objects used two or three times right after their creation, then never; a third of them is then
 * deleted. knob: of how many steps one is a hot set's, in Zipf use. */
static void fill_burst(struct trace *t, const struct workload *w, uint32_t percent, uint64_t seed)
{
    struct zipf z;
    uint32_t live[8];
    uint32_t left[8] = {0};

    zipf_init(&z, HOT, w->alpha);
    start(t, percent);
    while (t->length < STEPS) {
        uint32_t i;

        if (below(&seed, w->knob) == 0) {
            use(t, zipf_next(&z, &seed));
            continue;
        }
        i = below(&seed, 8);
        if (left[i] == 0) {
            live[i] = fresh(t, EQUAL);
            left[i] = 3 + below(&seed, 2);
        }
        use(t, live[i]);
        if (--left[i] == 0 && below(&seed, 3) == 0) {
            use(t, live[i] | TRACE_DELETE);
        }
    }
    free(z.upto);
}

/* A producer and a consumer: each object is used a second and last time after as many others as
 * knob percent of the store hold; half the steps are a hot set's, in Zipf use. */
static void fill_lag(struct trace *t, const struct workload *w, uint32_t percent, uint64_t seed)
{
    struct zipf z;
    uint32_t lag;

    zipf_init(&z, HOT, w->alpha);
    start(t, percent);
    lag = (uint32_t)(t->capacity / EQUAL * w->knob / 100);
    while (t->length < STEPS) {
        uint32_t made;

        if (below(&seed, 2) != 0) {
            use(t, zipf_next(&z, &seed));
            continue;
        }
        made = fresh(t, EQUAL);
        use(t, made);
        if (made - HOT >= lag) {
            use(t, made - lag);
        }
    }
    free(z.upto);
}

/* The hot set is another one after every `knob` steps. */
static void fill_shift(struct trace *t, const struct workload *w, uint32_t percent, uint64_t seed)
{
    struct zipf z;
    uint32_t sets = (STEPS + w->knob - 1) / w->knob;
    uint32_t set = 2 * HOT / sets;

    zipf_init(&z, set, w->alpha);
    t->objects = set * sets;
    equal_sizes(t);
    capacity_from_hot(t, set, percent);
    while (t->length < STEPS) {
        use(t, t->length / w->knob * set + zipf_next(&z, &seed));
    }
    free(z.upto);
}

/* Popularity that drifts: the newest objects are the most used, as with the outputs of a pipeline.
 * knob: of how many steps one creates an object. */
static void fill_recent(struct trace *t, const struct workload *w, uint32_t percent, uint64_t seed)
{
    struct zipf z;

    zipf_init(&z, HOT, w->alpha);
    start(t, percent);
    while (t->length < STEPS) {
        if (below(&seed, w->knob) == 0) {
            use(t, fresh(t, EQUAL));
        } else {
            use(t, t->objects - 1 - zipf_next(&z, &seed));
        }
    }
    free(z.upto);
}

/* Objects are put, and each is used once, in order, after as many others as `percent` of the store
 * hold; one that is gone by then is lost. knob: how large a set is that is read over and over
 * beside them, at random, half of the steps; percent of the store. */
static void fill_pipeline(struct trace *t, const struct workload *w, uint32_t percent,
                          uint64_t seed)
{
    uint32_t hot = STORE * w->knob / 100;
    uint32_t lag = STORE * percent / 100;

    t->objects = hot;
    equal_sizes(t);
    t->capacity = (uint64_t)STORE * EQUAL;
    for (uint32_t object = 0; object < hot; object++) {
        use(t, object | TRACE_PUT);
    }
    while (t->length < STEPS) {
        uint32_t made;

        if (hot > 0 && below(&seed, 2) != 0) {
            use(t, below(&seed, hot));
            continue;
        }
        made = fresh(t, EQUAL);
        use(t, made | TRACE_PUT);
        if (made - hot >= lag) {
            use(t, (made - lag) | TRACE_ONCE);
        }
    }
}

const struct workload evict_workloads[EVICT_WORKLOADS] = {
    {"zipf-0.8", {5, 20, 60}, fill_zipf, 0.8, 0},
    {"zipf-1.0", {5, 20, 60}, fill_zipf, 1.0, 0},
    {"zipf-1.2", {5, 20, 60}, fill_zipf, 1.2, 0},
    {"scan", {5, 20, 60}, fill_scan, 1.0, 5},
    {"loop", {50, 67, 91}, fill_loop, 0, 0},
    {"loop+zipf", {20, 50, 80}, fill_loop_zipf, 1.0, 2},
    {"mixed", {10, 20, 60}, fill_mixed, 1.0, 0},
    {"ingest", {5, 20, 60}, fill_ingest, 1.0, 50},
    {"burst", {5, 20, 60}, fill_burst, 1.0, 2},
    {"lag", {5, 20, 60}, fill_lag, 1.0, 50},
    {"shift", {20, 50, 80}, fill_shift, 1.0, 25000},
    {"recent", {5, 20, 60}, fill_recent, 1.0, 10},
};

const struct workload evict_held_out[EVICT_HELD_OUT] = {
    {"zipf-0.9", {10, 30, 75}, fill_zipf, 0.9, 0},
    {"zipf-1.1", {2, 10, 40}, fill_zipf, 1.1, 0},
    {"scan-2", {10, 30, 75}, fill_scan, 0.9, 10},
    {"loop-2", {40, 75, 83}, fill_loop, 0, 0},
    {"loop+zipf-2", {30, 60, 90}, fill_loop_zipf, 0.8, 3},
    {"mixed-2", {15, 30, 50}, fill_mixed, 0.8, 0},
    {"ingest-2", {10, 30, 75}, fill_ingest, 0.9, 20},
    {"burst-2", {10, 30, 75}, fill_burst, 0.9, 3},
    {"lag-2", {10, 30, 75}, fill_lag, 0.9, 30},
    {"shift-2", {10, 40, 70}, fill_shift, 0.9, 10000},
};

const struct workload evict_stores[EVICT_STORES] = {
    {"pipeline", {30, 60, 90}, fill_pipeline, 0, 0},
    {"pipeline+hot", {30, 60, 90}, fill_pipeline, 0, 20},
};

void trace_init(struct trace *t, const struct workload *w, uint32_t percent, uint64_t seed)
{
    *t = (struct trace){0};
    t->steps = malloc(STEPS * sizeof(*t->steps));
    t->sizes = malloc((2 * HOT + STEPS) * sizeof(*t->sizes));
    NIGH_ASSERT(t->steps != NULL && t->sizes != NULL);
    w->fill(t, w, percent, seed);
}

void trace_fini(struct trace *t)
{
    free(t->steps);
    free(t->sizes);
}
