/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Litmus tests of spaces, end to end (docs/spaces.md, "The order of a thread"): threads that use
 * the public interface, clients of three nighds that are each other's peers, over TCP, or in a
 * guest that has RDMA devices (RDMA_GUEST_HOSTS) over these. What comes out is what may, always.
 *
 * A batch is some rounds of a cell, side by side, each in words of its own: some teams of threads
 * go through them. NIGH_BUDGET_SECONDS says for how long; NIGH_LITMUS=GLOB takes the tests of such
 * names alone.
 */
#include <fnmatch.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "nigh/space.h"
#include "support/node_fixture.h"
#include "support/space_litmus.h"

#define WAIT_US UINT64_C(20000000)
#define NODES   3u
#define BLOCK   64u
#define TEAMS   4u  /* of threads, that run rounds of a batch side by side */
#define TURNS   32u /* rounds of a team */
#define ROUNDS  (TEAMS * TURNS)
#define WORKERS (TEAMS * LITMUS_THREADS)
#define FILLERS 16u /* blocks of each home that evict others */
#define SPACES  2u  /* with caches in which all has room, and with such of 60 frames */
#define PLACES  (LITMUS_MEMORIES * LITMUS_PLACES * 2) /* of a test with its fences, in a row */
#define LAG_US  100u
#define TRY_US  2000u /* a lock that is tried */
#define TAG     256u  /* words are what the program wrote, and so often which batch it was */

struct world {
    struct node_fixture node[NODES];
    nigh_client *client[NODES];
    nigh_space *spaces[SPACES][NODES];
    nigh_space_address blocks[SPACES][NODES];  /* ROUNDS * LITMUS_VARIABLES, side by side */
    nigh_space_address fillers[SPACES][NODES]; /* FILLERS */
    char members[128], key[108], state[NODES][108], rank[NODES][12];
};

struct worker;

/* Of a batch: what all threads of it know. */
struct batch {
    void (*job)(struct worker *worker); /* that all do now; NULL: they end */
    const struct litmus_cell *cell;
    uint64_t number;
    uint32_t used;                      /* variables that the program has, a bit each, */
    uint32_t readers[LITMUS_VARIABLES]; /* and who has copies, nodes */
    nigh_space *const *spaces;
    nigh_space_address addresses[ROUNDS][LITMUS_VARIABLES];
    _Atomic uint32_t told[ROUNDS];
    const nigh_space_address *fillers; /* NULL: nothing is evicted */
    uint64_t ends[ROUNDS];             /* outcomes: what the variables are */
};

struct worker {
    pthread_t thread;
    uint32_t number, team; /* as which thread of a program it runs, and with whom */
    uint64_t random;
    nigh_space *space; /* NULL: it has no part in the batch */
    _Atomic uint32_t turn;
    bool is_without; /* the lock that it tried to have */
    uint64_t outcomes[TURNS];
    nigh_status status; /* the first that was not well */
    bool is_odd;        /* it saw what nobody wrote */
};

static struct world world;
static struct batch batch;
static struct worker workers[WORKERS];
static pthread_barrier_t begun, ended;

/* ---- nodes ---------------------------------------------------------------- */

static void start_node(uint32_t n)
{
    const char *flags[] = {"--lanes",
                           "1",
                           "--space-memory",
                           "16M",
                           "--join",
                           world.members,
                           "--member",
                           world.rank[n],
                           "--cluster-key",
                           world.key,
                           "--state",
                           world.state[n],
                           "--fabric",
                           node_fixture_fabric(),
                           NULL};
    nigh_client_options options = {.struct_size = sizeof options};

    node_fixture_start(&world.node[n], "32M", flags);
    options.socket_path = world.node[n].socket;
    assert_int_equal(nigh_client_open(&options, &world.client[n]), NIGH_OK);
}

static void claim(uint32_t n, nigh_status status)
{
    if (status != NIGH_OK) {
        char why[256];

        nigh_client_error(world.client[n], why, sizeof why);
        fail_msg("%s: %s", nigh_status_name(status), why);
    }
}

static nigh_space_address alloc(uint32_t which, uint32_t home, uint32_t blocks)
{
    nigh_space_address address = 0;

    claim(0, nigh_space_alloc(world.spaces[which][0], (uint64_t)blocks * BLOCK, NIGH_SPACE_ON(home),
                              WAIT_US, &address));
    return address;
}

static void make_space(uint32_t which, const char *name, uint64_t cache_size)
{
    nigh_space_spec spec = {.struct_size = sizeof spec,
                            .name = name,
                            .home_size = 128 * 1024,
                            .cache_size = cache_size,
                            .block_size = BLOCK};
    nigh_status status = NIGH_BUSY;

    /* Where the nodes have just met it may be that they do not know it yet. */
    assert_true(SUPPORT_WAIT(
        (status = nigh_space_create(world.client[0], &spec, WAIT_US, &world.spaces[which][0]),
         status != NIGH_NO_QUORUM && status != NIGH_PEER_LOST && status != NIGH_BUSY),
        60000));
    claim(0, status == NIGH_EXISTS ? NIGH_OK : status);
    for (uint32_t n = status == NIGH_EXISTS ? 0 : 1; n < NODES; n++) {
        claim(n, nigh_space_open(world.client[n], name, NIGH_SPACE_ALL, WAIT_US,
                                 &world.spaces[which][n]));
    }
    for (uint32_t home = 0; home < NODES; home++) {
        world.blocks[which][home] = alloc(which, home, ROUNDS * LITMUS_VARIABLES);
        world.fillers[which][home] = alloc(which, home, FILLERS);
    }
}

static void begin_world(void)
{
    support_path(world.key, sizeof world.key, "key");
    support_put_file(support_dir(), "/key",
                     "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n");
    assert_int_equal(chmod(world.key, 0600), 0);
    node_fixture_members(world.members, sizeof world.members, NODES);
    for (uint32_t n = 0; n < NODES; n++) {
        char name[32];

        snprintf(name, sizeof name, "state-%u", n);
        support_path(world.state[n], sizeof world.state[n], name);
        snprintf(world.rank[n], sizeof world.rank[n], "%u", n);
        start_node(n);
    }
    make_space(0, "roomy", 256 * 1024);
    make_space(1, "tight", 60 * BLOCK);
}

static void end_world(void)
{
    for (uint32_t n = 0; n < NODES; n++) {
        nigh_client_close(world.client[n]);
    }
    for (uint32_t n = 0; n < NODES; n++) {
        node_fixture_stop(&world.node[n]);
    }
}

/* ---- a thread ------------------------------------------------------------- */

static void fail_worker(struct worker *worker, nigh_status status)
{
    if (worker->status == NIGH_OK) {
        worker->status = status;
    }
}

/* A word as the program wrote it. */
static bool value_of(uint64_t word, uint64_t *value)
{
    *value = word % TAG;
    return *value < 16 && (word / TAG == 0 || word / TAG == batch.number);
}

static nigh_status try_lock(struct worker *worker, nigh_space_address at, uint64_t *had)
{
    nigh_status status = nigh_space_try_lock_write(worker->space, at, 1, TRY_US);

    worker->is_without = status != NIGH_OK;
    *had = status == NIGH_OK;
    return status == NIGH_BUSY || status == NIGH_TIMEOUT ? NIGH_OK : status;
}

static nigh_status do_op(struct worker *worker, const struct litmus_op *op, uint32_t round,
                         uint64_t *word)
{
    nigh_space *space = worker->space;
    nigh_space_address at = batch.addresses[round][op->variable];
    uint64_t written = batch.number * TAG + op->value;

    switch (op->kind) {
    case LITMUS_WRITE: return nigh_space_write(space, at, &written, sizeof written, WAIT_US);
    case LITMUS_READ: return nigh_space_read(space, at, word, sizeof *word, WAIT_US);
    case LITMUS_PUT: return nigh_space_put(space, at, written, WAIT_US);
    case LITMUS_GET: return nigh_space_get(space, at, WAIT_US, word);
    case LITMUS_STORE_FENCE: return nigh_space_store_fence(space, WAIT_US);
    case LITMUS_FENCE: return nigh_space_fence(space, WAIT_US);
    case LITMUS_FLUSH: return nigh_space_flush(space, WAIT_US, NULL);
    case LITMUS_ADD: return nigh_space_fetch_add(space, at, op->value, WAIT_US, word);
    case LITMUS_EXCHANGE: return nigh_space_exchange(space, at, written, WAIT_US, word);
    case LITMUS_SWAP_ZERO: return nigh_space_compare_swap(space, at, 0, written, WAIT_US, word);
    case LITMUS_TRY_LOCK: return try_lock(worker, at, word);
    case LITMUS_LOCK_READ: return nigh_space_lock_read(space, at, 1, WAIT_US);
    case LITMUS_LOCK_WRITE: return nigh_space_lock_write(space, at, 1, WAIT_US);
    case LITMUS_UNLOCK:
        return worker->is_without ? NIGH_OK : nigh_space_unlock(space, at, 1, WAIT_US);
    case LITMUS_TELL: batch.told[round] = 1; return NIGH_OK;
    default: *word = batch.told[round]; return NIGH_OK;
    }
}

/* Sometimes something comes between two ops: a block that evicts another, or time. */
static void dawdle(struct worker *worker)
{
    uint64_t what = support_random(&worker->random), word;

    if (batch.fillers != NULL && what % 3 == 0) {
        nigh_space_address at = batch.fillers[what / 3 % NODES] + what / 9 % FILLERS * BLOCK;

        fail_worker(worker, nigh_space_read(worker->space, at, &word, sizeof word, WAIT_US));
    } else if (what % 16 == 1) {
        sched_yield();
    }
}

static void run_turn(struct worker *worker, uint32_t turn)
{
    const struct litmus_program *program = &batch.cell->program;
    uint32_t round = worker->team * TURNS + turn, read = 0;

    worker->outcomes[turn] = 0;
    worker->is_without = false;
    for (uint32_t n = 0; n < program->counts[worker->number]; n++) {
        const struct litmus_op *op = &program->ops[worker->number][n];
        uint64_t word = 0, value = 0;

        fail_worker(worker, do_op(worker, op, round, &word));
        if (litmus_is_read(op->kind)) {
            worker->is_odd |= !value_of(word, &value);
            worker->outcomes[turn] |= litmus_saw(program, worker->number, read++, value);
        }
        dawdle(worker);
    }
}

/* Until the whole team is at a turn, or for a moment: so that they meet there. */
static void meet(struct worker *worker, uint32_t turn)
{
    const struct worker *team = &workers[worker->team * LITMUS_THREADS];
    uint64_t until_us = support_now_us() + LAG_US;
    uint32_t there = 0;

    atomic_store(&worker->turn, turn);
    while (there < batch.cell->program.threads && support_now_us() < until_us) {
        there = 0;
        for (uint32_t n = 0; n < batch.cell->program.threads; n++) {
            there += atomic_load(&team[n].turn) >= turn;
        }
        if (there < batch.cell->program.threads) {
            sched_yield();
        }
    }
}

static void run_turns(struct worker *worker)
{
    if (worker->space == NULL) {
        return;
    }
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        if (turn % 4 == 0) {
            meet(worker, turn);
        }
        run_turn(worker, turn);
    }
    fail_worker(worker, nigh_space_flush(worker->space, WAIT_US, NULL));
}

static uint64_t read_word(struct worker *worker, uint32_t node, uint32_t round, uint32_t variable)
{
    uint64_t word = 0;

    fail_worker(worker, nigh_space_read(batch.spaces[node], batch.addresses[round][variable], &word,
                                        sizeof word, WAIT_US));
    return word;
}

static uint32_t index_of(const struct worker *worker)
{
    return worker->team * LITMUS_THREADS + worker->number;
}

/* Some nodes have copies of what is written. Each looks at some of the rounds. */
static void make_copies(struct worker *worker)
{
    for (uint32_t round = index_of(worker); round < ROUNDS; round += WORKERS) {
        for (uint32_t n = 0; n < LITMUS_VARIABLES * NODES; n++) {
            uint32_t variable = n / NODES, node = n % NODES;

            if ((batch.used >> variable & batch.readers[variable] >> node & 1) != 0) {
                worker->is_odd |= read_word(worker, node, round, variable) != 0;
            }
        }
    }
}

/* What the variables are at the end, by one node and, now and then, by all. */
static void look_at_ends(struct worker *worker)
{
    for (uint32_t round = index_of(worker); round < ROUNDS; round += WORKERS) {
        batch.ends[round] = 0;
        for (uint32_t variable = 0; variable < LITMUS_VARIABLES; variable++) {
            uint32_t first = (uint32_t)(support_random(&worker->random) % NODES);
            uint32_t count = support_random(&worker->random) % 8 == 0 ? NODES : 1;
            uint64_t word = 0, value = 0;

            for (uint32_t n = 0; n < count && (batch.used >> variable & 1) != 0; n++) {
                uint64_t seen = read_word(worker, (first + n) % NODES, round, variable);

                word = n == 0 ? seen : word;
                worker->is_odd |= seen != word || !value_of(word, &value);
            }
            batch.ends[round] |= litmus_ends(variable, value);
        }
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;

    for (;;) {
        pthread_barrier_wait(&begun);
        if (batch.job == NULL) {
            return NULL;
        }
        batch.job(worker);
        pthread_barrier_wait(&ended);
    }
}

static void do_all(void (*job)(struct worker *worker))
{
    batch.job = job;
    pthread_barrier_wait(&begun);
    pthread_barrier_wait(&ended);
    for (uint32_t n = 0; n < WORKERS; n++) {
        char words[128];

        litmus_cell_words(batch.cell, words, sizeof words);
        if (workers[n].status != NIGH_OK || workers[n].is_odd) {
            fail_msg("%s: thread %u: %s%s", words, workers[n].number,
                     nigh_status_name(workers[n].status),
                     workers[n].is_odd ? ", and it read what nobody wrote" : "");
        }
    }
}

/* ---- a batch -------------------------------------------------------------- */

static uint32_t node_of(const struct litmus_cell *cell, uint32_t home, uint32_t first, uint32_t n)
{
    switch (cell->place) {
    case LITMUS_APART: return (first + n) % NODES;
    case LITMUS_AT_HOME: return home;
    default: return (home + NODES - 1) % NODES;
    }
}

static void place(const struct litmus_cell *cell, uint64_t *seed)
{
    uint32_t which = cell->evicts ? 1 : 0;
    uint32_t home = (uint32_t)(support_random(seed) % NODES);
    uint32_t first = (uint32_t)(support_random(seed) % NODES);

    batch.cell = cell;
    batch.number++;
    batch.spaces = world.spaces[which];
    batch.used = 0;
    batch.fillers = cell->evicts ? world.fillers[which] : NULL;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t n = 0; n < LITMUS_VARIABLES; n++) {
            uint32_t at = cell->memory == LITMUS_HOMES ? (home + n) % NODES : home;

            batch.addresses[round][n] = world.blocks[which][at] +
                                        (uint64_t)round * LITMUS_VARIABLES * BLOCK +
                                        n * (cell->memory == LITMUS_A_BLOCK ? 8 : BLOCK);
        }
        batch.told[round] = 0;
    }
    for (uint32_t n = 0; n < LITMUS_THREADS * LITMUS_STEPS; n++) {
        const struct litmus_op *op = &cell->program.ops[n / LITMUS_STEPS][n % LITMUS_STEPS];

        batch.used |= (op->kind != LITMUS_NONE ? 1u : 0u) << op->variable;
    }
    for (uint32_t n = 0; n < WORKERS; n++) {
        uint32_t node = node_of(cell, home, first, workers[n].number);

        workers[n].space =
            workers[n].number < cell->program.threads ? world.spaces[which][node] : NULL;
        workers[n].turn = 0;
    }
}

/* All words are 0: of one node alone, or of all that have read them since. */
static void set_up(uint64_t *seed)
{
    for (uint32_t n = 0; n < LITMUS_VARIABLES; n++) {
        uint32_t owner = (uint32_t)(support_random(seed) % NODES);
        uint64_t word = 0;

        batch.readers[n] =
            support_random(seed) % 2 == 0 ? 0 : (uint32_t)(support_random(seed) % (1u << NODES));
        for (uint32_t round = 0; round < ROUNDS && (batch.used >> n & 1) != 0; round++) {
            claim(owner, nigh_space_write(batch.spaces[owner], batch.addresses[round][n], &word,
                                          sizeof word, WAIT_US));
        }
        claim(owner, nigh_space_flush(batch.spaces[owner], WAIT_US, NULL));
    }
    do_all(make_copies);
}

/* What a round came to, unless no such thing may be. */
static void judge(struct litmus_cell *cell, uint32_t round)
{
    uint64_t outcome = batch.ends[round];

    for (uint32_t n = 0; n < cell->program.threads; n++) {
        outcome |= workers[round / TURNS * LITMUS_THREADS + n].outcomes[round % TURNS];
    }
    if (!litmus_note(cell, outcome)) {
        char words[128], came[128];

        litmus_cell_words(cell, words, sizeof words);
        litmus_words(&cell->program, outcome, came, sizeof came);
        fail_msg("%s: forbidden: %s", words, came);
    }
}

static void run_batch(struct litmus_cell *cell, uint64_t *seed)
{
    place(cell, seed);
    set_up(seed);
    do_all(run_turns);
    do_all(look_at_ends);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        judge(cell, round);
    }
}

/* ---- all of them ---------------------------------------------------------- */

static void start_workers(uint64_t seed)
{
    assert_int_equal(pthread_barrier_init(&begun, NULL, WORKERS + 1), 0);
    assert_int_equal(pthread_barrier_init(&ended, NULL, WORKERS + 1), 0);
    for (uint32_t n = 0; n < WORKERS; n++) {
        workers[n].number = n % LITMUS_THREADS;
        workers[n].team = n / LITMUS_THREADS;
        workers[n].random = seed + n + 1;
        assert_int_equal(pthread_create(&workers[n].thread, NULL, work, &workers[n]), 0);
    }
}

static void stop_workers(void)
{
    batch.job = NULL;
    pthread_barrier_wait(&begun);
    for (uint32_t n = 0; n < WORKERS; n++) {
        assert_int_equal(pthread_join(workers[n].thread, NULL), 0);
    }
}

static bool is_wanted(const struct litmus_cell *cell)
{
    const char *names = getenv("NIGH_LITMUS");

    return names == NULL || fnmatch(names, cell->row->name, 0) == 0;
}

/* Each test with each fences in one cell at least, and then in all others in turn, until the time
 * is over: which is first the seed says. */
static void what_comes_out_may(void **state)
{
    uint64_t first = support_seed(), seed = first | 1;
    uint64_t end_us = support_now_us() + support_budget_ms(1000) * 1000;
    struct litmus_table table;
    uint32_t kinds;

    (void)state;
    litmus_table_make(&table);
    kinds = table.count / PLACES;
    begin_world();
    start_workers(seed);
    for (uint64_t n = 0; n < kinds || support_now_us() < end_us; n++) {
        uint64_t place = (first + n / kinds + n) % PLACES;
        struct litmus_cell *cell = &table.cells[n % kinds * PLACES + place];

        if (is_wanted(cell)) {
            run_batch(cell, &seed);
        }
    }
    stop_workers();
    litmus_print(&table);
    end_world();
    litmus_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_out_may),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
