/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of a space that many use while scripts break what is below (space_linear.py):
 *
 *   space-linear NAME SEED SOCKET...
 *
 * At each node some processes, with a client each, of which some threads read and write words, add
 * to, exchange and swap them, all of them beside each other. A write ends with its flush; several
 * may be under way with one. Now and then a block is locked, and used by who has it. The words lie
 * in few blocks of all homes, and a node's cache has few frames, which blocks in between take
 * again and again. A node that is not there is waited for, and its clients are opened anew.
 *
 * What a thread does it writes down in memory that outlives its process, before and behind: for
 * each byte 'k' of the standard input a process is killed, and another begun in its place. What it
 * was about may have happened or not, and what it held is let go some time.
 *
 * A word that is lost with a node is done with; its place is taken by a new one, which is 0.
 *
 * Until its standard input ends it says in a line, again and again, how many operations ended well
 * at each node, and how many processes were killed: "at N N N kills N". Then it looks whether what
 * was found can have been one after the other, and who held blocks (support/linear.h), and says how
 * it was. Exit 0: it can; 1: it cannot, with what was found around there; 2: something else.
 */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
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

#include "nigh/nigh.h"
#include "nigh/space.h"
#include "support/linear.h"
#include "support/support.h"

enum {
    NODES = 4,     /* at most */
    PROCESSES = 2, /* of a node */
    THREADS = 2,   /* of a process */
    PLACES = NODES * PROCESSES,
    SLOTS = 32, /* of threads that ever were: locks know no more holders */
    BLOCK = 64,
    BLOCKS = 4,   /* of a home, that are looked at, */
    WORDS = 2,    /* of each, */
    FILLERS = 24, /* and others, that take their frames */
    HOME = 512,
    FRAMES = 15, /* of a cache: the fewest that there are */
    LOOKS = 4,   /* while something is not flushed yet */
    BATCH = 3,   /* writes of one flush, at most */
    LOCKED = 2,  /* of those of a home are locked, too, */
    RARE = 8,    /* of so many operations one is under a lock */
    HISTORY = 1 << 16,
    STATUSES = 64
};

#define SECOND_US   UINT64_C(1000000)
#define PATIENCE_US (SECOND_US / 4)
#define FLUSH_US    (SECOND_US / 50)
#define PERIOD_NS   UINT64_C(400000) /* no more than one a thread: histories are kept whole */

/* Of a thread: what it did, for who comes after it. */
struct slot {
    struct linear_history words, locks;
    uint64_t ended[STATUSES];
    bool is_full;
};

/* Of all processes. */
struct shared {
    _Atomic bool is_ready, is_over;
    _Atomic uint64_t blocks[NODES * BLOCKS];
    _Atomic bool is_lost[NODES * BLOCKS];
    _Atomic uint64_t fillers[NODES]; /* FILLERS, side by side */
    _Atomic uint64_t done[NODES], made;
    struct slot slots[SLOTS];
};

/* Of one process, which its threads share. */
struct process {
    uint32_t node;
    pthread_rwlock_t lock; /* to read: the handles are used */
    uint64_t opened;       /* so often */
    nigh_client *client;
    nigh_space *space;
};

struct user {
    struct process *process;
    struct slot *slot;
    uint32_t number;
    uint64_t random, last_value, begun_ns;
    uint64_t seen[NODES * BLOCKS * WORDS];
    uint64_t written[BATCH]; /* and not flushed */
    uint32_t writes;
};

static const char *name;
static char **sockets;
static uint32_t nodes;
static uint64_t seed;
static struct shared *shared;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint32_t below(uint64_t *random, uint32_t bound)
{
    return (uint32_t)(support_random(random) >> 20) % bound;
}

static void pause_briefly(uint32_t ms)
{
    (void)poll(NULL, 0, (int)ms);
}

static bool is_over(void)
{
    return atomic_load(&shared->is_over);
}

/* ---- clients -------------------------------------------------------------- */

/* A client of the node, as soon as it is there; NULL: it is over. */
static nigh_client *open_client(uint32_t node)
{
    nigh_client_options options = {
        .struct_size = sizeof options, .socket_path = sockets[node], .name = "space-linear"};
    nigh_client *client;

    while (!is_over()) {
        if (nigh_client_open(&options, &client) == NIGH_OK)
            return client;
        pause_briefly(10);
    }
    return NULL;
}

static bool open_all(struct process *process)
{
    while ((process->client = open_client(process->node)) != NULL) {
        for (uint32_t n = 0; n < 100 && !is_over(); n++) {
            if (nigh_space_open(process->client, name, NIGH_SPACE_ALL, 2 * SECOND_US,
                                &process->space) == NIGH_OK)
                return true;
            pause_briefly(5);
        }
        nigh_client_close(process->client);
    }
    return false;
}

static void close_all(struct process *process)
{
    if (process->client != NULL)
        nigh_client_close(process->client);
    process->client = NULL;
}

/* Handles that were opened so often are of no use any more: whichever thread is first opens others.
 */
static void open_again(struct process *process, uint64_t opened)
{
    (void)pthread_rwlock_wrlock(&process->lock);
    if (process->opened == opened) {
        close_all(process);
        (void)open_all(process);
        process->opened++;
    }
    (void)pthread_rwlock_unlock(&process->lock);
}

/* What the client's connection, or its node, may be the reason for. */
static bool is_of_client(nigh_status status)
{
    return status != NIGH_OK && status != NIGH_PEER_LOST && status != NIGH_TIMEOUT &&
           status != NIGH_NO_QUORUM && status != NIGH_BUSY && status != NIGH_NOT_FOUND &&
           status != NIGH_LIMIT && status != NIGH_LOCK_LOST;
}

/* ---- an operation --------------------------------------------------------- */

static size_t record(struct linear_history *history, struct linear_op op)
{
    return linear_begin(history, op, now_ns());
}

static bool has_room(struct user *user)
{
    user->slot->is_full |= user->slot->words.count + 2 * BATCH > user->slot->words.room ||
                           user->slot->locks.count + 2 > user->slot->locks.room;
    return !user->slot->is_full;
}

static nigh_status count(struct user *user, nigh_status status, uint32_t block)
{
    user->slot->ended[(uint32_t)-status % STATUSES]++;
    if (status == NIGH_OK)
        atomic_fetch_add(&shared->done[user->process->node], 1);
    if (status == NIGH_PEER_LOST || status == NIGH_NOT_FOUND)
        atomic_store(&shared->is_lost[block], true);
    return status;
}

/* What these say that has not happened. */
static bool did_nothing(nigh_status status)
{
    return status == NIGH_DENIED || status == NIGH_NOT_FOUND || status == NIGH_INVALID;
}

static nigh_status read_word(struct user *user, uint32_t block, uint32_t word, uint64_t timeout_us)
{
    uint64_t at = atomic_load(&shared->blocks[block]) + word * 8, found = 0;
    struct linear_op op = {.word = at, .kind = LINEAR_READ, .who = user->number};
    size_t number = record(&user->slot->words, op);
    nigh_status status = nigh_space_get(user->process->space, at, timeout_us, &found);

    if (status == NIGH_OK) {
        linear_end(&user->slot->words, number, found, now_ns());
        user->seen[block * WORDS + word] = found;
    } else {
        linear_cancel(&user->slot->words, number);
    }
    return count(user, status, block);
}

/* Of words that the thread does not write now, what is here: others may have gone on meanwhile. */
static void look_around(struct user *user)
{
    for (uint32_t n = 0; n < LOOKS && has_room(user); n++) {
        uint32_t block = below(&user->random, nodes * BLOCKS), word = below(&user->random, WORDS);
        uint64_t at = atomic_load(&shared->blocks[block]) + word * 8;
        bool is_own = false;

        for (uint32_t m = 0; m < user->writes; m++)
            is_own = is_own || user->written[m] == at;
        if (!is_own)
            (void)read_word(user, block, word, 0);
    }
}

/* Until it is known what became of all that the thread has written: it would see it before others
 * do. */
static nigh_status flush(struct user *user)
{
    nigh_status status;

    while ((status = nigh_space_flush(user->process->space, FLUSH_US, NULL)) == NIGH_TIMEOUT)
        look_around(user);
    user->writes = 0;
    return status;
}

/* Some words, each of another block if the block is not said to be all. */
static nigh_status write_words(struct user *user, uint32_t block, bool is_all)
{
    uint32_t writes = 1 + below(&user->random, is_all ? WORDS : BATCH);
    size_t numbers[BATCH];
    nigh_status status = NIGH_OK, ended;
    uint64_t now;

    for (uint32_t n = 0; n < writes; n++) {
        uint32_t which = is_all ? block : (block + n) % (nodes * BLOCKS);
        uint32_t word = is_all ? n : below(&user->random, WORDS);
        uint64_t at = atomic_load(&shared->blocks[which]) + word * 8;
        uint64_t value = (uint64_t)(user->number + 1) << 48 | ++user->last_value;
        struct linear_op op = {
            .word = at, .kind = LINEAR_WRITE, .given = value, .who = user->number};
        nigh_status one;

        numbers[n] = record(&user->slot->words, op);
        user->written[user->writes++] = at;
        one = nigh_space_write(user->process->space, at, &value, sizeof value, PATIENCE_US);
        status = status == NIGH_OK ? one : status;
    }
    ended = flush(user);
    status = status == NIGH_OK ? ended : status;
    now = now_ns();
    for (uint32_t n = 0; n < writes && status == NIGH_OK; n++)
        linear_end(&user->slot->words, numbers[n], 0, now);
    return count(user, status, block);
}

static nigh_status do_atomic(struct user *user, uint32_t block, uint32_t word)
{
    static const enum linear_kind kinds[] = {LINEAR_ADD, LINEAR_EXCHANGE, LINEAR_SWAP};
    uint64_t at = atomic_load(&shared->blocks[block]) + word * 8, old = 0;
    uint64_t seen = user->seen[block * WORDS + word];
    struct linear_op op = {.word = at,
                           .kind = kinds[below(&user->random, 3)],
                           .given = (uint64_t)(user->number + 1) << 48 | ++user->last_value,
                           .compare = seen,
                           .who = user->number};
    nigh_space *space = user->process->space;
    nigh_status status;
    size_t number;

    if (op.kind == LINEAR_ADD)
        op.given = (support_random(&user->random) >> 24) | 1;
    number = record(&user->slot->words, op);
    if (op.kind == LINEAR_ADD)
        status = nigh_space_fetch_add(space, at, op.given, PATIENCE_US, &old);
    else if (op.kind == LINEAR_EXCHANGE)
        status = nigh_space_exchange(space, at, op.given, PATIENCE_US, &old);
    else
        status = nigh_space_compare_swap(space, at, seen, op.given, PATIENCE_US, &old);
    if (status == NIGH_OK) {
        linear_end(&user->slot->words, number, old, now_ns());
        user->seen[block * WORDS + word] = old;
    } else if (did_nothing(status)) {
        linear_cancel(&user->slot->words, number);
    }
    return count(user, status, block);
}

static nigh_status use_word(struct user *user, uint32_t block, bool reads, bool is_all)
{
    uint32_t word = below(&user->random, WORDS), what = below(&user->random, 8);

    if (reads || what < 3)
        return read_word(user, block, word, PATIENCE_US);
    return what < 5 ? write_words(user, block, is_all) : do_atomic(user, block, word);
}

/* A block that nobody writes, for whose copy another is given up. */
static nigh_status read_filler(struct user *user)
{
    uint32_t home = below(&user->random, nodes);
    uint64_t at = atomic_load(&shared->fillers[home]), found;

    at += below(&user->random, FILLERS) * UINT64_C(64);
    (void)nigh_space_get(user->process->space, at, PATIENCE_US, &found);
    return NIGH_OK;
}

/* ---- under a lock --------------------------------------------------------- */

/* It is let go from now on; where the node was taken for dead it may have been since it was seen to
 * be held. */
static nigh_status let_go(struct user *user, uint64_t at, uint64_t held_ns)
{
    struct linear_op op = {
        .word = at, .kind = LINEAR_UNLOCK, .given = user->number, .who = user->number};
    struct linear_history *locks = &user->slot->locks;
    size_t number = record(locks, op);
    nigh_status status = nigh_space_unlock(user->process->space, at, 1, PATIENCE_US);
    nigh_status flushed = flush(user);

    status = status == NIGH_OK ? flushed : status;
    if (status == NIGH_OK)
        linear_end(locks, number, 1, now_ns());
    else if (is_of_client(status))
        locks->ops[number].begun = held_ns;
    return status;
}

/* What failed has nothing, or what nobody saw. Who holds a block wants no other. */
static nigh_status use_lock(struct user *user)
{
    bool reads = below(&user->random, 2) == 0, tries = below(&user->random, 4) == 0;
    uint32_t block = below(&user->random, nodes * LOCKED), ops = below(&user->random, 4);
    uint64_t at = atomic_load(&shared->blocks[block]), held_ns;
    nigh_status (*lock)(nigh_space *, nigh_space_address, uint64_t, uint64_t) =
        reads ? (tries ? nigh_space_try_lock_read : nigh_space_lock_read)
              : (tries ? nigh_space_try_lock_write : nigh_space_lock_write);
    struct linear_op op = {.word = at,
                           .kind = reads ? LINEAR_SHARE : LINEAR_LOCK,
                           .given = user->number,
                           .who = user->number};
    size_t number = record(&user->slot->locks, op);
    nigh_status status = lock(user->process->space, at, 1, PATIENCE_US);

    if (status != NIGH_OK) {
        linear_cancel(&user->slot->locks, number);
        return count(user, status, block);
    }
    held_ns = user->slot->locks.ops[number].begun;
    linear_end(&user->slot->locks, number, 1, now_ns());
    for (uint32_t n = 0; n < ops && status == NIGH_OK && has_room(user); n++) {
        uint64_t begun_ns = now_ns();

        status = atomic_load(&shared->blocks[block]) == at ? use_word(user, block, reads, true)
                                                           : NIGH_PEER_LOST;
        held_ns = status == NIGH_OK ? begun_ns : held_ns;
    }
    return let_go(user, at, held_ns);
}

/* ---- a process ------------------------------------------------------------ */

static nigh_status use_once(struct user *user)
{
    if (below(&user->random, RARE) == 0)
        return use_lock(user);
    if (below(&user->random, 4) == 0)
        return read_filler(user);
    return use_word(user, below(&user->random, nodes * BLOCKS), false, false);
}

static void *use(void *context)
{
    struct user *user = context;
    struct process *process = user->process;

    user->begun_ns = now_ns();
    while (!is_over() && has_room(user)) {
        uint64_t opened;
        nigh_status status;

        (void)pthread_rwlock_rdlock(&process->lock);
        opened = process->opened;
        status = process->client == NULL ? NIGH_CLOSED : use_once(user);
        (void)pthread_rwlock_unlock(&process->lock);
        if (is_of_client(status))
            open_again(process, opened);
        else if (status != NIGH_OK ||
                 user->slot->words.count > (now_ns() - user->begun_ns) / PERIOD_NS)
            pause_briefly(1);
    }
    (void)pthread_rwlock_rdlock(&process->lock);
    for (uint32_t n = 0; n < nodes * BLOCKS * WORDS && process->client != NULL; n++) {
        if (has_room(user))
            (void)read_word(user, n / WORDS, n % WORDS, PATIENCE_US);
    }
    (void)pthread_rwlock_unlock(&process->lock);
    return NULL;
}

/* Its threads have the slots from this one on. */
static void run_process(uint32_t node, uint32_t first)
{
    struct process process = {.node = node};
    struct user users[THREADS];
    pthread_t threads[THREADS];

    if (pthread_rwlock_init(&process.lock, NULL) != 0)
        _exit(2);
    (void)open_all(&process);
    for (uint32_t n = 0; n < THREADS; n++) {
        users[n] = (struct user){.process = &process,
                                 .number = first + n,
                                 .slot = &shared->slots[first + n],
                                 .random = seed * 1000 + first + n + 1};
        if (pthread_create(&threads[n], NULL, use, &users[n]) != 0)
            _exit(2);
    }
    for (uint32_t n = 0; n < THREADS; n++)
        (void)pthread_join(threads[n], NULL);
    close_all(&process);
    _exit(0);
}

/* ---- the space ------------------------------------------------------------ */

/* At that home, or, if that is not there, at the first. 0: not now. */
static uint64_t make_blocks(nigh_space *space, uint32_t home, uint32_t blocks)
{
    nigh_space_address at = 0;
    uint64_t size = (uint64_t)blocks * BLOCK;

    if (nigh_space_alloc(space, size, NIGH_SPACE_ON(home), SECOND_US, &at) == NIGH_OK ||
        nigh_space_alloc(space, size, NIGH_SPACE_ON(0), SECOND_US, &at) == NIGH_OK)
        return at;
    return 0;
}

static bool create(struct process *process)
{
    nigh_space_spec spec = {.struct_size = sizeof spec,
                            .name = name,
                            .home_size = HOME * BLOCK,
                            .cache_size = FRAMES * BLOCK,
                            .block_size = BLOCK};

    process->client = open_client(process->node);
    while (process->client != NULL && !is_over()) {
        nigh_status status =
            nigh_space_create(process->client, &spec, 2 * SECOND_US, &process->space);

        if (status == NIGH_EXISTS)
            status = nigh_space_open(process->client, name, NIGH_SPACE_ALL, 2 * SECOND_US,
                                     &process->space);
        if (status == NIGH_OK)
            return true;
        pause_briefly(5);
    }
    return false;
}

/* Blocks that are not there any more get others in their places. */
static void mend(struct process *process)
{
    for (uint32_t n = 0; n < nodes * BLOCKS; n++) {
        if (atomic_exchange(&shared->is_lost[n], false)) {
            uint64_t at = make_blocks(process->space, n % nodes, 1);

            atomic_store(&shared->made, atomic_load(&shared->made) + (at != 0));
            if (at != 0)
                atomic_store(&shared->blocks[n], at);
        }
    }
}

/* Makes the space, and what is in it. */
static void run_maker(void)
{
    struct process process = {.node = 0};
    bool is_whole;

    if (!create(&process))
        _exit(2);
    do {
        is_whole = true;
        for (uint32_t n = 0; n < nodes; n++)
            atomic_store(&shared->fillers[n], make_blocks(process.space, n, FILLERS));
        for (uint32_t n = 0; n < nodes * BLOCKS; n++) {
            atomic_store(&shared->blocks[n], make_blocks(process.space, n % nodes, 1));
            is_whole = is_whole && atomic_load(&shared->blocks[n]) != 0;
        }
    } while (!is_whole && !is_over());
    atomic_store(&shared->is_ready, true);
    while (!is_over()) {
        mend(&process);
        pause_briefly(50);
    }
    nigh_client_close(process.client);
    _exit(0);
}

/* ---- all of it ------------------------------------------------------------ */

static struct {
    pid_t pid;
    uint32_t slot; /* first of its threads */
} places[PLACES];

static uint32_t slots_used;
static uint64_t kills;

/* One that does not outlive this one. */
static pid_t begin_child(void)
{
    pid_t pid = fork();

    if (pid < 0 || (pid == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) != 0))
        _exit(2);
    return pid;
}

static void begin_process(uint32_t place)
{
    pid_t pid = begin_child();

    if (pid == 0)
        run_process(place % nodes, slots_used);
    places[place].pid = pid;
    places[place].slot = slots_used;
    slots_used += THREADS;
}

/* What it held, if it did, is let go some time from then on. */
static void note_death(struct slot *slot, uint32_t number, uint64_t when_ns)
{
    struct linear_op op = {.kind = LINEAR_UNLOCK, .given = number, .who = number};

    for (size_t n = slot->locks.count; n-- > 0;) {
        if (slot->locks.ops[n].kind == LINEAR_UNLOCK)
            return;
        if (slot->locks.ops[n].kind != LINEAR_OUT) {
            op.word = slot->locks.ops[n].word;
            (void)linear_begin(&slot->locks, op, when_ns);
            return;
        }
    }
}

static void kill_one(uint64_t *random)
{
    uint32_t place = below(random, nodes * PROCESSES);
    uint64_t when_ns = now_ns();

    if (slots_used + THREADS > SLOTS)
        return;
    (void)kill(places[place].pid, SIGKILL);
    (void)waitpid(places[place].pid, NULL, 0);
    for (uint32_t n = places[place].slot; n < places[place].slot + THREADS; n++)
        note_death(&shared->slots[n], n, when_ns);
    kills++;
    begin_process(place);
}

static void say_progress(void)
{
    printf("at");
    for (uint32_t n = 0; n < nodes; n++)
        printf(" %" PRIu64, atomic_load(&shared->done[n]));
    printf(" kills %" PRIu64 "\n", kills);
    (void)fflush(stdout);
}

static void do_as_told(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    uint64_t random = seed ^ 0x5555;

    for (;;) {
        char byte;

        if (poll(&input, 1, 20) > 0) {
            if (read(STDIN_FILENO, &byte, 1) != 1)
                return;
            kill_one(&random);
        }
        say_progress();
    }
}

static void say_statuses(void)
{
    for (int n = 0; n < STATUSES; n++) {
        uint64_t sum = 0;

        for (uint32_t m = 0; m < slots_used; m++)
            sum += shared->slots[m].ended[n];
        if (sum > 0)
            printf("# %s: %" PRIu64 "\n", nigh_status_name((nigh_status)-n), sum);
    }
    printf("# %" PRIu64 " words were lost, and made anew\n", atomic_load(&shared->made) * WORDS);
}

/* Whether all of it can have been; what it was. */
static bool judge(const struct linear_history *all, const char *what, linear_model model)
{
    struct linear_result result = linear_check(all->ops, all->count, model, 0, LINEAR_STEPS);
    size_t ended = 0, open = 0;

    for (size_t n = 0; n < all->count; n++) {
        ended += all->ops[n].kind != LINEAR_OUT && all->ops[n].ended != LINEAR_NEVER;
        open += all->ops[n].kind != LINEAR_OUT && all->ops[n].ended == LINEAR_NEVER;
    }
    printf("# %s: %zu operations, %zu without a known end\n", what, ended, open);
    linear_say(stdout, all->ops, all->count, &result);
    return result.verdict == LINEAR_YES;
}

static int judge_all(void)
{
    struct linear_history words = {0}, locks = {0};
    bool are_fine;

    for (uint32_t n = 0; n < slots_used; n++) {
        if (!linear_append(&words, &shared->slots[n].words) ||
            !linear_append(&locks, &shared->slots[n].locks))
            return 2;
    }
    say_statuses();
    are_fine = judge(&words, "words", linear_register);
    are_fine = judge(&locks, "locks", linear_lock) && are_fine;
    linear_free(&words);
    linear_free(&locks);
    return are_fine ? 0 : 1;
}

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        _exit(2);
    return memory;
}

static void make_shared(void)
{
    shared = map(sizeof *shared);
    for (uint32_t n = 0; n < SLOTS; n++) {
        struct slot *slot = &shared->slots[n];

        slot->words.room = HISTORY;
        slot->locks.room = HISTORY / RARE;
        slot->words.ops = map(slot->words.room * sizeof(struct linear_op));
        slot->locks.ops = map(slot->locks.room * sizeof(struct linear_op));
    }
}

static bool end_all(pid_t maker)
{
    bool are_fine = true;
    int status;

    atomic_store(&shared->is_over, true);
    for (uint32_t n = 0; n < nodes * PROCESSES; n++)
        are_fine = waitpid(places[n].pid, &status, 0) > 0 && status == 0 && are_fine;
    return waitpid(maker, &status, 0) > 0 && status == 0 && are_fine;
}

int main(int argc, char **argv)
{
    pid_t maker;

    if (argc < 4 || argc > 3 + NODES) {
        (void)fprintf(stderr, "usage: space-linear NAME SEED SOCKET...\n");
        return 2;
    }
    name = argv[1];
    seed = strtoull(argv[2], NULL, 10);
    sockets = argv + 3;
    nodes = (uint32_t)argc - 3;
    make_shared();
    maker = begin_child();
    if (maker == 0)
        run_maker();
    while (!atomic_load(&shared->is_ready)) {
        if (waitpid(maker, NULL, WNOHANG) != 0)
            return 2;
        pause_briefly(5);
    }
    for (uint32_t n = 0; n < nodes * PROCESSES; n++)
        begin_process(n);
    do_as_told();
    if (!end_all(maker)) {
        printf("# a process failed\n");
        return 2;
    }
    return judge_all();
}
