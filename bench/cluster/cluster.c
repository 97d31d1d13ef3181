/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many nodes, one a rank of MPI, which get objects from each other: pairs in turn (the time of a
 * get), all pairs at once, and all from all; each against MPI moving the same bytes between the
 * same ranks, in alternating rounds. Rank 0 prints readable lines and writes the rows.
 *
 *   mpirun -n RANKS bench-cluster [FLAG...] OUT.json        (flags.c says which; `run` starts it)
 *
 * The first round, in which every byte is looked at, does not count.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"

#define RANK_BYTES   (UINT64_C(128) << 20) /* of a rank's objects, where more than one a pair */
#define MOST_OBJECTS 64
#define SPIN_US      50

struct world {
    struct flags flags;
    struct workload workloads[CLUSTER_MAX_SIZES];
    struct puller *puller;
    int *others; /* the ranks after this one, around */
    char path[256];
};

/* A way to move a size's bytes. */
struct series {
    const char *name;
    const char *against[2]; /* what it is held against; MPI is against nothing */
    void (*run)(struct world *world, const struct workload *workload, uint32_t round,
                struct samples *samples);
    bool pulls;                       /* copies lie there after it */
    bool has_rate;                    /* all ranks are at it, with the same number of objects */
    struct samples all;               /* of all rounds that count; rank 0 alone */
    double round[CLUSTER_MAX_ROUNDS]; /* medians */
    struct samples rates;             /* MB/s of all ranks together */
};

/* ---- series --------------------------------------------------------------- */

static uint32_t pings_of(const struct workload *workload)
{
    return workload->objects < CLUSTER_PINGS ? workload->objects : CLUSTER_PINGS;
}

static int partner_of_this(void)
{
    int partner = ranks.rank ^ 1;

    return partner < ranks.count ? partner : -1; /* the last of an odd number has none */
}

/* Pairs take turns, and directions with the rounds; everybody else sleeps. */
static void each_pair(struct world *world, const struct workload *workload, uint32_t round,
                      bool by_mpi, struct samples *samples)
{
    uint32_t count = pings_of(workload);

    for (int a = 0; a < ranks.count; a++) {
        for (int b = a + 1; b < ranks.count; b++) {
            int getter = round % 2 == 0 ? a : b, holder = a + b - getter;

            ranks_meet("a pair's turn");
            if (by_mpi) {
                baseline_ping(workload, getter, holder, count, samples);
            } else if (ranks.rank == getter) {
                puller_ping(world->puller, workload, holder, count, round == 0, samples);
            }
        }
    }
}

static void ping_nigh(struct world *world, const struct workload *workload, uint32_t round,
                      struct samples *samples)
{
    each_pair(world, workload, round, false, samples);
}

static void ping_mpi(struct world *world, const struct workload *workload, uint32_t round,
                     struct samples *samples)
{
    each_pair(world, workload, round, true, samples);
}

static void pairs_nigh(struct world *world, const struct workload *workload, uint32_t round,
                       struct samples *samples)
{
    int partner = partner_of_this();

    puller_pull(world->puller, workload, &partner, partner < 0 ? 0 : 1, round == 0, samples);
}

static void pairs_sendrecv(struct world *world, const struct workload *workload, uint32_t round,
                           struct samples *samples)
{
    (void)world;
    (void)round;
    baseline_sendrecv(workload, partner_of_this(), samples);
}

static void pairs_window(struct world *world, const struct workload *workload, uint32_t round,
                         struct samples *samples)
{
    (void)world;
    (void)round;
    baseline_window(workload, partner_of_this(), samples);
}

static void all_nigh(struct world *world, const struct workload *workload, uint32_t round,
                     struct samples *samples)
{
    puller_pull(world->puller, workload, world->others, ranks.count - 1, round == 0, samples);
}

static void all_mpi(struct world *world, const struct workload *workload, uint32_t round,
                    struct samples *samples)
{
    (void)world;
    (void)round;
    baseline_alltoall(workload, samples);
}

static struct series series[] = {
    {.name = "ping/nigh",
     .against = {"ping/MPI_Send and MPI_Recv"},
     .run = ping_nigh,
     .pulls = true},
    {.name = "ping/MPI_Send and MPI_Recv", .run = ping_mpi},
    {.name = "pairwise/nigh",
     .against = {"pairwise/MPI_Sendrecv", "pairwise/MPI_Isend and MPI_Irecv"},
     .run = pairs_nigh,
     .pulls = true,
     .has_rate = true},
    {.name = "pairwise/MPI_Sendrecv", .run = pairs_sendrecv, .has_rate = true},
    {.name = "pairwise/MPI_Isend and MPI_Irecv", .run = pairs_window, .has_rate = true},
    {.name = "all-to-all/nigh",
     .against = {"all-to-all/MPI_Alltoall"},
     .run = all_nigh,
     .pulls = true,
     .has_rate = true},
    {.name = "all-to-all/MPI_Alltoall", .run = all_mpi, .has_rate = true},
};

#define SERIES ((int)(sizeof series / sizeof series[0]))

/* ---- rounds --------------------------------------------------------------- */

/* The bytes of all ranks over the time of the slowest, in MB/s. slowest_ns: an object of it. */
static double rate_of(const struct workload *workload, double slowest_ns, size_t ranks_that_got)
{
    return slowest_ns > 0 ? (double)workload->bytes * (double)ranks_that_got * 1e3 / slowest_ns : 0;
}

static void measure(struct world *world, struct series *one, const struct workload *workload,
                    uint32_t round)
{
    struct samples mine = {0}, all = {0};
    double slowest;

    ranks_start("the start of a round");
    one->run(world, workload, round, &mine);
    ranks_meet("the end of a round");
    ranks_collect(&mine, &all, &slowest);
    if (round > 0 && ranks.rank == 0) {
        one->round[round - 1] = samples_quantile(&all, 0.5);
        samples_append(&one->all, &all);
        if (one->has_rate) {
            samples_add(&one->rates, rate_of(workload, slowest, all.count));
        }
    }
    samples_free(&mine);
    samples_free(&all);
    if (one->pulls) {
        puller_forget(world->puller);
    }
}

/* Odd rounds go backwards, so that nobody always follows the same. */
static void run_rounds(struct world *world, const struct workload *workload)
{
    for (uint32_t round = 0; round <= world->flags.rounds; round++) {
        for (int i = 0; i < SERIES; i++) {
            measure(world, &series[round % 2 == 0 ? i : SERIES - 1 - i], workload, round);
        }
    }
}

/* ---- rows ----------------------------------------------------------------- */

static struct bench_row row_of(const struct world *world, struct series *one)
{
    return (struct bench_row){.unit = "us",
                              .median = samples_quantile(&one->all, 0.5) / 1000,
                              .p99 = samples_quantile(&one->all, 0.99) / 1000,
                              .least = samples_quantile(&one->all, 0) / 1000,
                              .most = samples_quantile(&one->all, 1) / 1000,
                              .path = world->path};
}

/* Of rates the slow end is the bad one: p99 is what 99 in 100 reach. */
static void write_rate(const struct world *world, const struct workload *workload,
                       struct series *one)
{
    char name[128];

    snprintf(name, sizeof name, "%s/%s/rate", workload->label, one->name);
    bench_row_write(&(struct bench_row){.name = name,
                                        .unit = "MB/s",
                                        .median = samples_quantile(&one->rates, 0.5),
                                        .p99 = samples_quantile(&one->rates, 0.01),
                                        .least = samples_quantile(&one->rates, 0),
                                        .most = samples_quantile(&one->rates, 1),
                                        .path = world->path});
}

static struct series *series_called(const char *name)
{
    for (int i = 0; i < SERIES; i++) {
        if (strcmp(series[i].name, name) == 0) {
            return &series[i];
        }
    }
    ranks_fail("no series is called %s", name);
}

static void compare(const struct world *world, const struct workload *workload, struct series *ours,
                    struct series *theirs)
{
    struct bench_row row = row_of(world, ours), baseline = row_of(world, theirs);
    struct samples ratios = {0};
    char name[160];

    for (uint32_t i = 0; i < world->flags.rounds; i++) {
        samples_add(&ratios, ours->round[i] / theirs->round[i]);
    }
    snprintf(name, sizeof name, "%s/%s against %s", workload->label, ours->name,
             strchr(theirs->name, '/') + 1);
    row.name = name;
    row.baseline_name = theirs->name;
    row.baseline = baseline.median;
    bench_row_set_ratios(&row, &ratios);
    bench_row_write(&row);
    samples_free(&ratios);
}

static void write_rows(const struct world *world, const struct workload *workload)
{
    for (int i = 0; i < SERIES; i++) {
        struct bench_row row = row_of(world, &series[i]);
        char name[128];

        snprintf(name, sizeof name, "%s/%s", workload->label, series[i].name);
        row.name = name;
        bench_row_write(&row);
        if (series[i].has_rate) {
            write_rate(world, workload, &series[i]);
        }
    }
    for (int i = 0; i < SERIES; i++) {
        for (int k = 0; k < 2 && series[i].against[k] != NULL; k++) {
            compare(world, workload, &series[i], series_called(series[i].against[k]));
        }
    }
}

/* ---- the run -------------------------------------------------------------- */

static void run(struct world *world, const struct workload *workload)
{
    if (ranks.rank == 0) {
        printf("\n%s: %u objects a pair of ranks, window %u, %u rounds\n", workload->label,
               workload->objects, workload->window, world->flags.rounds);
        fflush(stdout);
    }
    baseline_open(workload);
    puller_fill(world->puller, workload);
    run_rounds(world, workload);
    puller_expect_pulls(world->puller, workload);
    if (ranks.rank == 0) {
        write_rows(world, workload);
    }
    for (int i = 0; i < SERIES; i++) {
        samples_free(&series[i].all);
        samples_free(&series[i].rates);
    }
    puller_drop(world->puller, workload);
    baseline_close();
}

static void plan(struct world *world)
{
    for (uint32_t i = 0; i < world->flags.size_count; i++) {
        struct workload *workload = &world->workloads[i];
        uint64_t others = (uint64_t)ranks.count - 1, objects;

        workload->bytes = world->flags.sizes[i];
        workload->window = world->flags.window;
        flags_size_text(workload->bytes, workload->label);
        objects = RANK_BYTES / others / workload->bytes;
        workload->objects = (uint32_t)(objects > MOST_OBJECTS ? MOST_OBJECTS : objects);
        workload->objects += workload->objects == 0 ? 1 : 0;
    }
    world->others = calloc((size_t)ranks.count, sizeof *world->others);
    if (world->others == NULL) {
        ranks_fail("no memory");
    }
    for (int i = 1; i < ranks.count; i++) {
        world->others[i - 1] = (ranks.rank + i) % ranks.count;
    }
    if (world->flags.spin_us == UINT32_MAX) {
        world->flags.spin_us = bench_cores() >= 2 * ranks.here ? SPIN_US : 0;
    }
    snprintf(
        world->path, sizeof world->path,
        "%d ranks on %d machine%s (%d cores for %d of them); embedded, %s, transfer %s, %u lane%s, "
        "spins %u us; MPI spins",
        ranks.count, ranks.machines, ranks.machines == 1 ? "" : "s", bench_cores(), ranks.here,
        world->flags.fabric_name, world->flags.transfer_name, world->flags.lanes,
        world->flags.lanes == 1 ? "" : "s", world->flags.spin_us);
}

/* Known before anything starts, rather than after it has run. */
static void check_out(const char *path)
{
    FILE *file = ranks.rank == 0 ? fopen(path, "w") : NULL;
    bool fits = ranks.rank != 0 || file != NULL;

    if (!fits) {
        fprintf(stderr, "bench-cluster: rank 0 is on %s and cannot write %s there: %s\n",
                ranks.host, path, strerror(errno));
    }
    if (file != NULL) {
        fclose(file);
    }
    if (!ranks_agree(fits, "the file for the rows")) {
        ranks_end();
        exit(1);
    }
}

/* All ranks see the same flags, so all end; one says why. */
static void refuse(const char *why, const char *more)
{
    if (ranks.rank == 0) {
        fprintf(stderr, "bench-cluster: %s\n%s", why, more);
    }
    ranks_end();
    exit(2);
}

static void run_all(struct world *world)
{
    uint64_t memory_bytes = puller_memory_bytes(world->workloads, world->flags.size_count);

    if (ranks.rank == 0) {
        bench_rows_open(world->flags.out);
        printf("%s; %llu MiB a node\n", world->path, (unsigned long long)memory_bytes >> 20);
        fflush(stdout);
    }
    world->puller = puller_start(&world->flags, memory_bytes);
    for (uint32_t i = 0; i < world->flags.size_count; i++) {
        run(world, &world->workloads[i]);
    }
    puller_stop(world->puller);
    if (ranks.rank == 0) {
        bench_rows_close();
    }
}

int main(int argc, char **argv)
{
    static struct world world;
    char why[256];

    ranks_begin(&argc, &argv);
    if (!flags_parse(argc, argv, &world.flags, why, sizeof why)) {
        refuse(why, flags_usage);
    }
    if (ranks.count < 2) {
        refuse("one rank has nobody to get from: start it with mpirun -n 2, or more", "");
    }
    ranks.timeout_s = world.flags.timeout_s;
    check_out(world.flags.out);
    plan(&world);
    run_all(&world);
    free(world.others);
    ranks_end();
    return 0;
}
