/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Space TPC-C: the New-Order and Payment transactions of TPC-C, on tables in a space, by processes
 * at all nodes; with strict two-phase locking by locks of the space, as GAM has it (PVLDB 11(11)).
 * No process serves the tables: who needs a row locks it, has it at its node, and changes it there.
 *
 *   NIGH_NODE_FLAGS='--space-memory 128M' examples/three-nodes build/release \
 *       build/release/examples/example-space_tpcc
 *   example-space_tpcc [OPTIONS] [SOCKET...]     sockets of nodes; else those of $NIGH_SOCKETS
 *
 *   cc space_tpcc/<all>.c -pthread $(pkg-config --cflags --libs nigh) -o example-space_tpcc
 *
 * rows.h has the tables, database.h where they are, load.h what is in them to begin with, work.h
 * the terminals; transaction.h the locks, store.h what a change is that dies with nobody, and
 * space_store.c all that calls nigh. check.h says whether the database is as it should be.
 *
 * This is no TPC-C result: three of its five transactions are missing, and its pauses.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "common.h"
#include "load.h"
#include "options.h"
#include "work.h"

/* What the processes share. */
static struct shared {
    struct database database;
    struct store_logs logs;
    char space[SPACE_NAME_BYTES];
    struct work_report reports[WORKERS_MAX];
    struct check_sums sums[NODES_MAX];
} * shared;

/* Of threads in memory of this process. */
static struct alone {
    struct database database;
    struct memory *memory;
    struct work_report reports[WORKERS_MAX];
} alone;

static struct chance chance_of_worker(uint64_t worker)
{
    return chance_of(options.seed, 1000 + worker);
}

static uint32_t warehouse_of(uint64_t worker)
{
    return (uint32_t)(worker % options.warehouses) + 1;
}

/* A warehouse's rows lie there, and so do its terminals work there. */
static uint32_t node_of(uint32_t warehouse)
{
    return (warehouse - 1) % options.nodes;
}

static void init_database(struct database *database)
{
    struct chance chance = chance_of(options.seed, 0);
    uint64_t workers = (options.workers + options.warehouses - 1) / options.warehouses;

    database_init(database, options.warehouses, options.items, options.customers,
                  workers * options.transactions, &chance);
}

/* ---- one process alone ---------------------------------------------------- */

static void load_alone(struct store *store)
{
    struct chance chance = chance_of(options.seed, 1);

    database_place_items(&alone.database, store);
    load_items(&alone.database, store, &chance);
    for (uint32_t warehouse = 1; warehouse <= options.warehouses; warehouse++) {
        chance = chance_of(options.seed, 1 + warehouse);
        database_place_warehouse(&alone.database, store, warehouse);
        load_warehouse(&alone.database, store, warehouse, &chance);
    }
}

static void *work_alone(void *argument)
{
    uint64_t worker = (uint64_t)((struct work_report *)argument - alone.reports);
    struct terminal terminal = {.database = &alone.database,
                                .store = memory_store_open(alone.memory),
                                .chance = chance_of_worker(worker),
                                .warehouse = warehouse_of(worker),
                                .report = argument};

    work(&terminal, options.transactions, DEATH_NONE);
    terminal.store->close(terminal.store);
    return NULL;
}

static bool is_consistent_alone(struct store *store)
{
    struct check_sums all = {0}, one;

    for (uint32_t warehouse = 1; warehouse <= options.warehouses; warehouse++) {
        one = check_warehouse(&alone.database, store, warehouse);
        check_add(&all, &one);
    }
    return check_all(&all) == 0;
}

/* The same by threads of this process, with mutexes. */
static bool run_alone(void)
{
    pthread_t threads[WORKERS_MAX];
    struct store *store;
    bool is_well;

    init_database(&alone.database);
    alone.memory = memory_create(database_item_bytes(&alone.database) +
                                 options.warehouses * database_warehouse_bytes(&alone.database));
    store = memory_store_open(alone.memory);
    load_alone(store);
    for (uint64_t i = 0; i < options.workers; i++) {
        if (pthread_create(&threads[i], NULL, work_alone, &alone.reports[i]) != 0) {
            fail("a thread", "cannot be started");
        }
    }
    for (uint64_t i = 0; i < options.workers; i++) {
        pthread_join(threads[i], NULL);
    }
    is_well = is_consistent_alone(store);
    store->close(store);
    memory_destroy(alone.memory);
    return is_well;
}

/* ---- processes ------------------------------------------------------------ */

static struct store *open_at(uint32_t node, uint32_t worker)
{
    return space_store_open(options.sockets[node], shared->space, &shared->logs, worker,
                            options.lock_us);
}

/* The warehouses of a node. */
static void run_loader(uint32_t node)
{
    struct store *store = open_at(node, WORKERS_MAX);
    struct chance chance = chance_of(options.seed, 1);

    if (node == options.nodes - 1) {
        database_place_items(&shared->database, store);
        load_items(&shared->database, store, &chance);
    }
    for (uint32_t warehouse = node + 1; warehouse <= options.warehouses;
         warehouse += options.nodes) {
        chance = chance_of(options.seed, 1 + warehouse);
        database_place_warehouse(&shared->database, store, warehouse);
        load_warehouse(&shared->database, store, warehouse, &chance);
    }
    store->close(store);
}

static void run_worker(uint32_t worker)
{
    uint32_t warehouse = warehouse_of(worker);
    struct terminal terminal = {.database = &shared->database,
                                .store = open_at(node_of(warehouse), worker),
                                .chance = chance_of_worker(worker),
                                .warehouse = warehouse,
                                .report = &shared->reports[worker]};

    work(&terminal, options.transactions, worker == 0 ? options.death : DEATH_NONE);
    terminal.store->close(terminal.store);
}

/* The warehouses of the next node: what others changed is seen from here. */
static void run_checker(uint32_t node)
{
    struct store *store = open_at(node, WORKERS_MAX);
    struct check_sums one;

    for (uint32_t warehouse = 1; warehouse <= options.warehouses; warehouse++) {
        if (node_of(warehouse) == (node + 1) % options.nodes) {
            one = check_warehouse(&shared->database, store, warehouse);
            check_add(&shared->sums[node], &one);
        }
    }
    store->close(store);
}

static pid_t start(void (*run)(uint32_t), uint32_t number)
{
    pid_t parent = getpid(), pid = fork();

    if (pid < 0) {
        fail("fork", strerror(errno));
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
        run(number);
        _exit(0);
    }
    return pid;
}

/* Whether it ended well; is_to_die: whether that is how it was to end. */
static bool ended_well(pid_t pid, bool is_to_die)
{
    int status;

    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return false;
        }
    }
    return is_to_die ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0;
}

/* The first of them is one that dies, perhaps. */
static bool run_all(void (*run)(uint32_t), uint32_t count, bool first_dies)
{
    pid_t pids[WORKERS_MAX];
    bool is_well = true;

    for (uint32_t i = 0; i < count; i++) {
        pids[i] = start(run, i);
    }
    for (uint32_t i = 0; i < count; i++) {
        is_well &= ended_well(pids[i], first_dies && i == 0);
    }
    return is_well;
}

/* A node's share of all rows, and of the logs. */
static uint64_t home_bytes(void)
{
    uint64_t most = (options.warehouses + options.nodes - 1) / options.nodes;

    return most * database_warehouse_bytes(&shared->database) +
           database_item_bytes(&shared->database) +
           (options.workers + 1) * (uint64_t)(16 * ROW_BYTES);
}

static bool run_in_space(void)
{
    bool is_well;

    init_database(&shared->database);
    space_store_create(options.sockets[0], home_bytes(), shared->space);
    is_well = run_all(run_loader, options.nodes, false) &&
              run_all(run_worker, options.workers, options.death != DEATH_NONE) &&
              run_all(run_checker, options.nodes, false);
    space_store_delete(options.sockets[0], shared->space);
    return is_well;
}

/* ---- what came of it ------------------------------------------------------ */

static struct work_report sum_of(const struct work_report *reports)
{
    struct work_report all = reports[0];

    for (uint64_t i = 1; i < options.workers; i++) {
        const struct work_report *one = &reports[i];

        all.begin_s = one->begin_s < all.begin_s ? one->begin_s : all.begin_s;
        all.end_s = one->end_s > all.end_s ? one->end_s : all.end_s;
        all.new_orders += one->new_orders;
        all.payments += one->payments;
        all.rolled_back += one->rolled_back;
        all.aborted += one->aborted;
        all.total += one->total;
    }
    return all;
}

/* All that a terminal was told is done is there, and no more; but of who died what was committed.
 */
static bool is_as_reported(const struct work_report *work, const struct check_sums *found)
{
    bool is_more = options.death == DEATH_COMMITTED || options.death == DEATH_APPLIED;
    uint64_t more = found->orders + found->payments - work->new_orders - work->payments;

    if (found->orders < work->new_orders || found->payments < work->payments ||
        (options.death == DEATH_ANY ? more > 1 : more != is_more)) {
        fprintf(stderr,
                "space_tpcc: %" PRIu64 " orders and %" PRIu64 " payments are there, %" PRIu64
                " and %" PRIu64 " were told to be done\n",
                found->orders, found->payments, work->new_orders, work->payments);
        return false;
    }
    return true;
}

static bool is_consistent(const struct work_report *work)
{
    struct check_sums all = {0};

    for (uint32_t i = 0; i < options.nodes; i++) {
        check_add(&all, &shared->sums[i]);
    }
    return check_all(&all) == 0 && is_as_reported(work, &all);
}

static void print_work(const char *what, const struct work_report *work)
{
    double seconds = work->end_s - work->begin_s;
    double rate = seconds > 0 ? (double)(work->new_orders + work->payments) / seconds : 0;

    printf(options.json ? ", \"%s\": {\"new_orders\": %" PRIu64 ", \"payments\": %" PRIu64
                          ", \"rolled_back\": %" PRIu64 ", \"aborted\": %" PRIu64
                          ", \"seconds\": %.3f, \"per_s\": %.1f}"
                        : "%-8s %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64
                          " %10.3f %12.1f\n",
           what, work->new_orders, work->payments, work->rolled_back, work->aborted, seconds, rate);
}

static void print_report(const struct work_report *work)
{
    struct work_report memory = sum_of(alone.reports);
    uint64_t settled = atomic_load(&shared->logs.settled);

    printf(options.json
               ? "{\"nodes\": %" PRIu32 ", \"workers\": %" PRIu32 ", \"warehouses\": %" PRIu32
                 ", \"items\": %" PRIu32 ", \"customers\": %" PRIu32 ", \"settled\": %" PRIu64
               : "%" PRIu32 " nodes, %" PRIu32 " terminals, %" PRIu32 " warehouses, %" PRIu32
                 " items, %" PRIu32
                 " customers a district; rows settled that a dead one left: %" PRIu64 "\n",
           options.nodes, options.workers, options.warehouses, options.items, options.customers,
           settled);
    if (!options.json) {
        printf("%-8s %12s %12s %12s %12s %10s %12s\n", "", "NEW-ORDERS", "PAYMENTS", "ROLLED BACK",
               "ABORTED", "SECONDS", "DONE/s");
    }
    print_work("space", work);
    print_work("memory", &memory);
    printf(options.json ? "}\n"
                        : "memory: the same by as many threads of one process, with mutexes\n");
}

int main(int argc, char **argv)
{
    struct work_report work;
    bool is_well;

    options_take(argc, argv);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        fail("memory", strerror(errno));
    }
    is_well = run_alone() && run_in_space();
    work = sum_of(shared->reports);
    is_well = is_well && is_consistent(&work);
    if (!is_well) {
        fprintf(stderr, "space_tpcc: the database is not as it should be\n");
        return 1;
    }
    print_report(&work);
    return 0;
}
