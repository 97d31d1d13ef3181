/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Space table: a hash table in a space, which processes at all nodes read and change. No process
 * serves it: what one reads often its node has cached, and reads of that ask nobody.
 * (GAM's distributed hash table, PVLDB 11(11), on locks and reads of blocks.)
 *
 *   NIGH_NODE_FLAGS='--space-memory 64M' examples/three-nodes build/release \
 *       build/release/examples/example-space_table
 *   example-space_table [OPTIONS] [SOCKET...]     sockets of nodes; else those of $NIGH_SOCKETS
 *
 *   cc space_table.c $(pkg-config --cflags --libs nigh) -o example-space_table
 *
 * A bucket is a block, and others that hang on it where it is full. Buckets go round the nodes.
 *
 *   get         reads block by block without a lock: each read is of one moment, and no entry ever
 *               moves to another block; it waits for who has the lock of a block just then
 *   put, delete lock the bucket's first block, find the entry, write its 16 bytes, let go: whoever
 *               reads sees all of that or nothing, also if the writer dies behind any of it
 *   increment   likewise: read and written under the lock
 *   to grow     a block is written, and behind a store fence the word that leads to it: who dies
 *               between leaves a block that nobody finds, and no block that is half there
 *
 * What is written is seen by others when the thread flushes, or lets go of a lock that they get.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <nigh/nigh.h>
#include <nigh/space.h>

enum {
    WORKERS_MAX = 60,
    NODES_MAX = 16,
    COUNTERS_MAX = 1024,
    ENTRIES = 31, /* of a block */
    BLOCK_BYTES = 512,
    TAIL_ROOM = 4 /* a key is deleted when this many came behind it */
};

enum operation {
    PUT,
    GET,
    DELETE,
    INCREMENT,
    OPERATIONS
};

static const char *const operation_names[OPERATIONS] = {"put", "get", "delete", "increment"};

#define KEYS_MAX   UINT64_C(100000000)
#define SECOND_US  UINT64_C(1000000)
#define TIMEOUT_US (30 * SECOND_US)
#define PATIENCE_S 30.0 /* for a cluster that was just formed */

struct entry {
    uint64_t key; /* 0: free */
    uint64_t value;
};

struct block {
    uint64_t next;   /* where the bucket goes on; 0: nowhere */
    uint64_t bucket; /* whose it is, and 1 */
    struct entry entries[ENTRIES];
};

_Static_assert(sizeof(struct block) == BLOCK_BYTES, "a block of the space");

/* What the first block of the space says: where the table is. */
struct root {
    uint64_t buckets, parts;
    uint64_t part[NODES_MAX]; /* the buckets of which it is the number, by `parts` */
};

struct table {
    nigh_client *client;
    nigh_space *space;
    struct root root;
};

/* What a worker says; lies in memory that the processes share. */
struct report {
    double begin_s, end_s;
    double seconds[OPERATIONS];
    uint64_t count[OPERATIONS];
    _Atomic uint64_t put; /* so many of its keys all can find, but for those that it deleted */
    _Atomic uint64_t incremented;
    uint64_t grown; /* blocks that it hung on a bucket */
};

static struct shared {
    uint64_t root;
    struct report workers[WORKERS_MAX];
} * shared;

static struct {
    uint64_t keys, buckets, workers, counters, gets;
    int kill, json;
    const char *sockets[NODES_MAX];
    uint32_t nodes;
} options = {.keys = 3000, .buckets = 300, .workers = 3, .counters = 8, .gets = 4};

static char table_name[NIGH_SPACE_NAME_BYTES + 1];

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "space_table: %s: %s\n", what, why);
    exit(1);
}

/* ---- the space ------------------------------------------------------------ */

static void check(const struct table *table, nigh_status status, const char *what)
{
    char why[256] = "";

    if (status != NIGH_OK) {
        nigh_client_error(table->client, why, sizeof why);
        fail(what, why[0] != 0 ? why : nigh_status_string(status));
    }
}

static void open_client(struct table *table, uint64_t node)
{
    nigh_client_options client_options = {.struct_size = sizeof client_options,
                                          .socket_path = options.sockets[node],
                                          .name = "space_table"};

    if (nigh_client_open(&client_options, &table->client) != NIGH_OK) {
        fail(options.sockets[node], nigh_open_error());
    }
}

/* The members have not agreed yet on who is there, or have not met. */
static bool may_pass(nigh_status status, double begin_s)
{
    if ((status != NIGH_NO_QUORUM && status != NIGH_BUSY && status != NIGH_TIMEOUT &&
         status != NIGH_PEER_LOST) ||
        now_s() - begin_s >= PATIENCE_S) {
        return false;
    }
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return true;
}

static void open_space(struct table *table)
{
    double begin_s = now_s();
    nigh_status status;

    while (may_pass(status = nigh_space_open(table->client, table_name, NIGH_SPACE_ALL, TIMEOUT_US,
                                             &table->space),
                    begin_s)) {
    }
    check(table, status, "open the space");
}

static void create_space(struct table *table, uint64_t home_size)
{
    nigh_space_spec spec = {.struct_size = sizeof spec,
                            .name = table_name,
                            .home_size = home_size,
                            .block_size = BLOCK_BYTES};
    double begin_s = now_s();
    nigh_status status;

    snprintf(table_name, sizeof table_name, "table-%ld-%.6f", (long)getpid(), begin_s);
    while (may_pass(status = nigh_space_create(table->client, &spec, TIMEOUT_US, &table->space),
                    begin_s)) {
    }
    if (status == NIGH_EXISTS) { /* an earlier try, of which this was not known */
        open_space(table);
    } else {
        check(table, status, "create the space");
    }
}

static uint64_t allocate(struct table *table, uint64_t size, uint64_t near)
{
    uint64_t address;

    check(table, nigh_space_alloc(table->space, size, near, TIMEOUT_US, &address),
          "allocate blocks (--buckets says how many there are to begin with)");
    return address;
}

static void read_bytes(struct table *table, uint64_t address, void *bytes, uint64_t size)
{
    check(table, nigh_space_read(table->space, address, bytes, size, TIMEOUT_US), "read");
}

static void write_bytes(struct table *table, uint64_t address, const void *bytes, uint64_t size)
{
    check(table, nigh_space_write(table->space, address, bytes, size, TIMEOUT_US), "write");
}

/* What was written until now all see. */
static void flush(struct table *table)
{
    check(table, nigh_space_flush(table->space, TIMEOUT_US, NULL), "flush");
}

static void lock(struct table *table, uint64_t address)
{
    check(table, nigh_space_lock_write(table->space, address, 1, TIMEOUT_US), "lock a bucket");
}

static void unlock(struct table *table, uint64_t address)
{
    check(table, nigh_space_unlock(table->space, address, 1, TIMEOUT_US), "unlock a bucket");
}

static void open_table(struct table *table, uint64_t node)
{
    open_client(table, node);
    open_space(table);
    read_bytes(table, shared->root, &table->root, sizeof table->root);
}

static void close_table(struct table *table)
{
    nigh_space_close(table->space);
    nigh_client_close(table->client); /* no child has a part of it */
}

/* ---- the table ------------------------------------------------------------ */

static uint64_t bucket_of(const struct table *table, uint64_t key)
{
    uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);

    return (hash ^ hash >> 32) % table->root.buckets;
}

static uint64_t bucket_address(const struct table *table, uint64_t bucket)
{
    return table->root.part[bucket % table->root.parts] + bucket / table->root.parts * BLOCK_BYTES;
}

static uint64_t entry_address(uint64_t block, uint64_t entry)
{
    return block + offsetof(struct block, entries) + entry * sizeof(struct entry);
}

/* Where a key is, or could be. */
struct place {
    uint64_t found; /* its entry; 0: it is not there */
    uint64_t free;  /* the first entry that is free; 0: none */
    uint64_t last;  /* the bucket's last block */
    uint64_t value;
};

static void look_through(const struct block *block, uint64_t at, uint64_t key, struct place *place)
{
    for (uint64_t i = 0; i < ENTRIES && place->found == 0; i++) {
        if (block->entries[i].key == key) {
            place->found = entry_address(at, i);
            place->value = block->entries[i].value;
        } else if (block->entries[i].key == 0 && place->free == 0) {
            place->free = entry_address(at, i);
        }
    }
}

static struct place find(struct table *table, uint64_t key)
{
    uint64_t bucket = bucket_of(table, key);
    struct place place = {0};
    struct block block;

    for (uint64_t at = bucket_address(table, bucket); at != 0 && place.found == 0;
         at = block.next) {
        read_bytes(table, at, &block, sizeof block);
        if (block.bucket != bucket + 1) {
            fail("a bucket", "has a block that is not its own");
        }
        look_through(&block, at, key, &place);
        place.last = at;
    }
    return place;
}

static bool table_get(struct table *table, uint64_t key, uint64_t *value)
{
    struct place place = find(table, key);

    *value = place.value;
    return place.found != 0;
}

/* A bucket that is full has another block, with this entry. */
static void grow(struct table *table, uint64_t last, const struct entry *entry, uint64_t bucket)
{
    uint64_t address = allocate(table, BLOCK_BYTES, last);
    struct block block = {.bucket = bucket + 1, .entries = {*entry}};

    write_bytes(table, address, &block, sizeof block);
    check(table,
          nigh_space_put(table->space, last + offsetof(struct block, next), address, TIMEOUT_US),
          "lead to a block");
}

/* Under the bucket's lock; whether it took a block more. */
static bool set(struct table *table, const struct place *place, uint64_t key, uint64_t value)
{
    struct entry entry = {key, value};

    if (place->found == 0 && place->free == 0) {
        grow(table, place->last, &entry, bucket_of(table, key));
        return true;
    }
    write_bytes(table, place->found != 0 ? place->found : place->free, &entry, sizeof entry);
    return false;
}

static bool table_put(struct table *table, uint64_t key, uint64_t value)
{
    uint64_t head = bucket_address(table, bucket_of(table, key));
    struct place place;
    bool is_grown;

    lock(table, head);
    place = find(table, key);
    is_grown = set(table, &place, key, value);
    unlock(table, head);
    return is_grown;
}

/* Whether it was there. */
static bool table_delete(struct table *table, uint64_t key)
{
    uint64_t head = bucket_address(table, bucket_of(table, key));
    struct place place;

    lock(table, head);
    place = find(table, key);
    if (place.found != 0) {
        write_bytes(table, place.found, &(struct entry){0}, sizeof(struct entry));
    }
    unlock(table, head);
    return place.found != 0;
}

/* dies: with the lock, behind the write. */
static void table_increment(struct table *table, uint64_t key, bool dies, struct report *report)
{
    uint64_t head = bucket_address(table, bucket_of(table, key));
    struct place place;

    lock(table, head);
    place = find(table, key);
    (void)set(table, &place, key, place.value + 1);
    if (dies) {
        flush(table);
        atomic_fetch_add(&report->incremented, 1);
        raise(SIGKILL);
    }
    unlock(table, head);
    atomic_fetch_add(&report->incremented, 1);
}

/* The buckets of each node lie there; they are made by a client of it. */
static void make_part(struct root *root, uint32_t node)
{
    uint64_t count = (root->buckets + options.nodes - 1 - node) / options.nodes;
    struct table table = {0};

    open_client(&table, node);
    open_space(&table);
    root->part[node] = count > 0 ? allocate(&table, count * BLOCK_BYTES, 0) : 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bucket = i * options.nodes + node + 1;

        write_bytes(&table, root->part[node] + i * BLOCK_BYTES + offsetof(struct block, bucket),
                    &bucket, sizeof bucket);
    }
    flush(&table);
    close_table(&table);
}

/* Room for what is put, and as much again, where buckets are not filled alike. */
static uint64_t home_size(void)
{
    uint64_t entries = options.keys * 2 + options.counters;
    uint64_t blocks = options.buckets + entries / ENTRIES + options.workers;

    return (blocks / options.nodes + 64) * 2 * BLOCK_BYTES;
}

static void create_table(void)
{
    struct root root = {.buckets = options.buckets, .parts = options.nodes};
    struct table table = {0};

    open_client(&table, 0);
    create_space(&table, home_size());
    shared->root = allocate(&table, sizeof root, 0);
    for (uint32_t node = 0; node < options.nodes; node++) {
        make_part(&root, node);
    }
    write_bytes(&table, shared->root, &root, sizeof root);
    flush(&table);
    close_table(&table);
}

static void delete_table(void)
{
    struct table table = {0};

    open_client(&table, 0);
    check(&table, nigh_space_delete(table.client, table_name, TIMEOUT_US), "delete the space");
    nigh_client_close(table.client);
}

/* ---- workers -------------------------------------------------------------- */

/* How many of the keys are this worker's. */
static uint64_t share_of(uint64_t worker)
{
    return options.keys / options.workers + (worker < options.keys % options.workers);
}

static uint64_t key_of(uint64_t worker, uint64_t number)
{
    return (worker + 1) << 32 | number;
}

static uint64_t value_of(uint64_t key)
{
    return (key ^ UINT64_C(0x5bd1e995)) * UINT64_C(0xd6e8feb86659fd93);
}

/* Every fourth is deleted, when others came behind it. */
static bool is_deleted(uint64_t number, uint64_t put)
{
    return number % 4 == 2 && number + TAIL_ROOM < put;
}

static uint64_t random_below(uint64_t *seed, uint64_t bound)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*seed >> 33) % bound;
}

/* A key that some worker has put, of which it is known whether it is there. */
static void look_up_one(struct table *table, uint64_t *seed)
{
    uint64_t worker = random_below(seed, options.workers), value;
    uint64_t put = atomic_load(&shared->workers[worker].put);
    uint64_t number = put > 0 ? random_below(seed, put) : 0, key = key_of(worker, number);
    bool is_there = table_get(table, key, &value);

    /* Its last few it may be deleting now. */
    if (put == 0 || (number % 4 == 2 && number + 4 * TAIL_ROOM >= put)) {
        return;
    }
    if (is_there == is_deleted(number, put) || (is_there && value != value_of(key))) {
        fail("a key", is_there ? "that was deleted is there, or has a value of another"
                               : "that was put is not there");
    }
}

static double count_time(struct report *report, enum operation operation, double begin_s)
{
    double end_s = now_s();

    report->seconds[operation] += end_s - begin_s;
    report->count[operation]++;
    return end_s;
}

/* One key of the worker, and what goes with it. */
static void do_round(struct table *table, uint64_t worker, uint64_t number, uint64_t *seed)
{
    struct report *report = &shared->workers[worker];
    bool dies = options.kill && worker == 0 && number == share_of(0) / 2;
    uint64_t key = key_of(worker, number);
    double at_s = now_s();

    report->grown += table_put(table, key, value_of(key));
    at_s = count_time(report, PUT, at_s);
    if (number >= TAIL_ROOM && is_deleted(number - TAIL_ROOM, number + 1)) {
        if (!table_delete(table, key_of(worker, number - TAIL_ROOM))) {
            fail("a key", "that was put is not there to be deleted");
        }
        at_s = count_time(report, DELETE, at_s);
    }
    flush(table);
    atomic_store(&report->put, number + 1);
    at_s = now_s();
    table_increment(table, 1 + random_below(seed, options.counters), dies, report);
    at_s = count_time(report, INCREMENT, at_s);
    for (uint64_t i = 0; i < options.gets; i++) {
        look_up_one(table, seed);
        at_s = count_time(report, GET, at_s);
    }
}

static void run_worker(uint64_t worker)
{
    struct report *report = &shared->workers[worker];
    uint64_t seed = worker + 1;
    struct table table = {0};

    open_table(&table, worker % options.nodes);
    report->begin_s = now_s();
    for (uint64_t number = 0; number < share_of(worker); number++) {
        do_round(&table, worker, number, &seed);
        report->end_s = now_s();
    }
    flush(&table);
    close_table(&table);
}

/* ---- what is in the end --------------------------------------------------- */

/* Seen from a node: each key that was put and not deleted is there, with its value, and no other;
 * and what the counters have is as many increments as there were. */
static void run_checker(uint64_t node)
{
    uint64_t expected = 0, found = 0, value;
    struct table table = {0};

    open_table(&table, node);
    for (uint64_t worker = 0; worker < options.workers; worker++) {
        uint64_t put = atomic_load(&shared->workers[worker].put);

        expected += atomic_load(&shared->workers[worker].incremented);
        for (uint64_t number = 0; number < share_of(worker); number++) {
            uint64_t key = key_of(worker, number);
            bool is_there = table_get(&table, key, &value);

            if (is_there != (number < put && !is_deleted(number, put)) ||
                (is_there && value != value_of(key))) {
                fail("a key in the end", is_there ? "should not be there, or has another value"
                                                  : "that was put is not there");
            }
        }
    }
    for (uint64_t counter = 1; counter <= options.counters; counter++) {
        found += table_get(&table, counter, &value) ? value : 0;
    }
    if (found != expected) {
        fail("the counters", "are not what was added to them");
    }
    close_table(&table);
}

/* ---- processes ------------------------------------------------------------ */

static pid_t start(void (*run)(uint64_t), uint64_t number)
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

static bool run_processes(void)
{
    pid_t pids[WORKERS_MAX];
    bool is_well = true;

    for (uint64_t i = 0; i < options.workers; i++) {
        pids[i] = start(run_worker, i);
    }
    for (uint64_t i = 0; i < options.workers; i++) {
        is_well &= ended_well(pids[i], options.kill && i == 0);
    }
    for (uint32_t i = 0; is_well && i < options.nodes; i++) {
        pids[i] = start(run_checker, i);
    }
    for (uint32_t i = 0; is_well && i < options.nodes; i++) {
        is_well &= ended_well(pids[i], false);
    }
    return is_well;
}

/* ---- figures -------------------------------------------------------------- */

/* The same entries in memory of this process, with open addressing: for one to be found, and put
 * where it is not there. */
static struct entry *memory_find(struct entry *entries, uint64_t mask, uint64_t key)
{
    uint64_t at = key * UINT64_C(0x9e3779b97f4a7c15) >> 20;

    while (entries[at & mask].key != 0 && entries[at & mask].key != key) {
        at++;
    }
    return &entries[at & mask];
}

/* Seconds of a put, and of a get. */
static void time_memory(double *put_s, double *get_s)
{
    uint64_t size = 1024, seed = 1, sum = 0, gets = options.keys * options.gets;
    struct entry *entries;
    double begin_s;

    while (size < options.keys * 2) {
        size *= 2;
    }
    entries = calloc(size, sizeof *entries);
    if (entries == NULL) {
        fail("memory", strerror(errno));
    }
    begin_s = now_s();
    for (uint64_t i = 0; i < options.keys; i++) {
        uint64_t key = key_of(0, i);

        *memory_find(entries, size - 1, key) = (struct entry){key, value_of(key)};
    }
    *put_s = (now_s() - begin_s) / (double)options.keys;
    begin_s = now_s();
    for (uint64_t i = 0; i < gets; i++) {
        sum += memory_find(entries, size - 1, key_of(0, random_below(&seed, options.keys)))->value;
    }
    *get_s = gets > 0 ? (now_s() - begin_s) / (double)gets : 0;
    if (gets > 0 && sum == 0) {
        fail("the table in memory", "is empty");
    }
    free(entries);
}

static double run_seconds(void)
{
    double begin_s = 0, end_s = 0;

    for (uint64_t i = 0; i < options.workers; i++) {
        const struct report *worker = &shared->workers[i];

        if (worker->begin_s > 0 && (begin_s <= 0 || worker->begin_s < begin_s)) {
            begin_s = worker->begin_s;
        }
        end_s = worker->end_s > end_s ? worker->end_s : end_s;
    }
    return end_s - begin_s;
}

static void print_operation(enum operation operation)
{
    uint64_t count = 0;
    double seconds = 0;

    for (uint64_t i = 0; i < options.workers; i++) {
        count += shared->workers[i].count[operation];
        seconds += shared->workers[i].seconds[operation];
    }
    printf(options.json ? ", \"%s\": {\"count\": %" PRIu64 ", \"us\": %.3f}"
                        : "%-10s %12" PRIu64 " %12.3f\n",
           operation_names[operation], count, count > 0 ? seconds / (double)count * 1e6 : 0);
}

static void print_report(double put_s, double get_s)
{
    uint64_t put = 0, incremented = 0, grown = 0;

    for (uint64_t i = 0; i < options.workers; i++) {
        put += atomic_load(&shared->workers[i].put);
        incremented += atomic_load(&shared->workers[i].incremented);
        grown += shared->workers[i].grown;
    }
    printf(options.json ? "{\"nodes\": %" PRIu32 ", \"workers\": %" PRIu64 ", \"buckets\": %" PRIu64
                          ", \"put_keys\": %" PRIu64 ", \"incremented\": %" PRIu64
                          ", \"grown\": %" PRIu64 ", \"seconds\": %.3f"
                        : "%" PRIu32 " nodes, %" PRIu64 " workers, %" PRIu64 " buckets: %" PRIu64
                          " keys put, %" PRIu64 " increments, %" PRIu64
                          " blocks hung on, in %.3f s\n",
           options.nodes, options.workers, options.buckets, put, incremented, grown, run_seconds());
    if (!options.json) {
        printf("%-10s %12s %12s\n", "", "COUNT", "us EACH");
    }
    for (int operation = 0; operation < OPERATIONS; operation++) {
        print_operation((enum operation)operation);
    }
    printf(options.json ? ", \"memory_put_us\": %.3f, \"memory_get_us\": %.3f}\n"
                        : "one process alone, in its own memory: put %.3f us, get %.3f us\n",
           put_s * 1e6, get_s * 1e6);
}

/* ---- words of the command line -------------------------------------------- */

static void usage(FILE *to)
{
    fprintf(to,
            "usage: example-space_table [OPTIONS] [SOCKET...]\n"
            "Processes at all nodes put, get, delete and count in one hash table in a space, and\n"
            "look whether all is found.\n"
            "SOCKET: of a node, up to %d; none: those of $NIGH_SOCKETS (examples/three-nodes).\n"
            "  --keys N      keys that all put together (default 3000; 1 to %" PRIu64 ")\n"
            "  --buckets B   blocks to begin with (default 300; 1 to %" PRIu64 ")\n"
            "  --workers W   processes (default 3; 1 to %d)\n"
            "  --gets N      gets beside each put (default 4; 0 to 1000)\n"
            "  --counters N  that all count (default 8; 1 to %d)\n"
            "  --kill        the first worker dies half-way, with a lock that it has\n"
            "  --json        one JSON object\n"
            "Exit status: 0: the table is as it should be; 1: it is not, or something failed; 2: "
            "usage.\n",
            NODES_MAX, KEYS_MAX, KEYS_MAX, WORKERS_MAX, COUNTERS_MAX);
}

static void refuse(const char *why, const char *word)
{
    fprintf(stderr, "space_table: %s%s (--help says more)\n", why, word);
    exit(2);
}

static uint64_t number_of(const char *word, uint64_t least, uint64_t most)
{
    char *end;

    errno = 0;
    uint64_t value = strtoull(word, &end, 10);

    if (errno != 0 || word[0] < '0' || word[0] > '9' || *end != 0 || value < least ||
        value > most) {
        refuse("no such number here: ", word);
    }
    return value;
}

static void add_socket(const char *path)
{
    if (options.nodes == NODES_MAX) {
        refuse("too many sockets: ", path);
    }
    options.sockets[options.nodes++] = path;
}

static void take_sockets(char **words, int count)
{
    char *list = getenv("NIGH_SOCKETS");

    for (int i = 0; i < count; i++) {
        add_socket(words[i]);
    }
    if (count == 0 && list != NULL) {
        for (char *word = strtok(list, " "); word != NULL; word = strtok(NULL, " ")) {
            add_socket(word);
        }
    }
    if (options.nodes == 0) {
        refuse("no socket of a node is given, nor $NIGH_SOCKETS", "");
    }
}

static void take_options(int argc, char **argv)
{
    const struct option known[] = {{"keys", required_argument, NULL, 'k'},
                                   {"buckets", required_argument, NULL, 'b'},
                                   {"workers", required_argument, NULL, 'w'},
                                   {"gets", required_argument, NULL, 'g'},
                                   {"counters", required_argument, NULL, 'c'},
                                   {"help", no_argument, NULL, 'h'},
                                   {"kill", no_argument, &options.kill, 1},
                                   {"json", no_argument, &options.json, 1},
                                   {0}};
    int found;

    while ((found = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (found) {
        case 0: break;
        case 'k': options.keys = number_of(optarg, 1, KEYS_MAX); break;
        case 'b': options.buckets = number_of(optarg, 1, KEYS_MAX); break;
        case 'w': options.workers = number_of(optarg, 1, WORKERS_MAX); break;
        case 'g': options.gets = number_of(optarg, 0, 1000); break;
        case 'c': options.counters = number_of(optarg, 1, COUNTERS_MAX); break;
        case 'h': usage(stdout); exit(0);
        default: usage(stderr); exit(2);
        }
    }
    take_sockets(argv + optind, argc - optind);
    if (options.keys < options.workers) {
        refuse("fewer keys than workers", "");
    }
}

int main(int argc, char **argv)
{
    double put_s, get_s;
    bool is_well;

    take_options(argc, argv);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        fail("memory", strerror(errno));
    }
    time_memory(&put_s, &get_s);
    create_table();
    is_well = run_processes();
    delete_table();
    if (!is_well) {
        fprintf(stderr, "space_table: the table is not as it should be\n");
        return 1;
    }
    print_report(put_s, get_s);
    return 0;
}
