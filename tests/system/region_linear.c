/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of a region that many use while scripts break what is below (region_linear.py):
 *
 *   region-linear NAME SEED VICTIM AWAY SOCKET...
 *
 * At each node some threads, with a client each, read and write words, or add to and swap others:
 * of plain reads and writes of a word that atomics change no order is promised. Two words of a
 * chunk are the first and the last of MiB that are read and written at once, now and then, which
 * takes longer than a chunk stays where it is. Now and then all do so under a lock, which others
 * want, too. Meanwhile the region's chunks move, and rights that
 * nobody uses are given and taken, so that its handles change. The first AWAY of its 4 chunks stay
 * away from the node VICTIM, so that they do not go with it. A node that is not there is waited
 * for, and its clients are opened anew.
 *
 * Until its standard input ends it says in a line, again and again, how many operations ended well
 * at each node, and how many chunks have moved: "at N N N moves N". Then it looks whether what was
 * found can have been one after the other (support/linear.h), and says how it was. Exit 0: it can;
 * 1: it cannot, with what was found around there; 2: something else.
 */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nigh/nigh.h"
#include "nigh/region.h"
#include "support/linear.h"
#include "support/support.h"

enum {
    NODES = 8, /* at most */
    SHARE = 2, /* threads of a node */
    CHUNKS = 4,
    PLAIN = 2,  /* words of a chunk that are read and written, side by side */
    ATOMIC = 2, /* behind them, for atomics */
    FIRST = 3,  /* of what is long */
    LAST = 4,   /* of that */
    EACH = 5,   /* words of a chunk */
    WORDS = CHUNKS * EACH,
    LOCKS = 2,
    RARE = 32,      /* of so many operations one is under a lock */
    LONG_RARE = 32, /* of so many of a word of what is long one is of all of it */
    STATUSES = 64
};

/* What is long is more than what is under way to a node at a time, or moved in one turn of it. */
#define LONG_AT          UINT64_C(4096)
#define LONG_BYTES       (UINT64_C(3) << 20)
#define CHUNK_BYTES      (LONG_AT + LONG_BYTES)
#define SECOND_US        UINT64_C(1000000)
#define PATIENCE_US      (SECOND_US / 4)
#define LONG_PATIENCE_US SECOND_US
#define PERIOD_NS        UINT64_C(200000) /* no more than one a thread: histories are kept whole */

static const char *name;
static char **sockets;
static uint32_t nodes, victim, away;
static uint64_t seed;
static _Atomic bool is_over;
static pthread_barrier_t has_ended; /* for all who use it, and who changes it */
static _Atomic uint64_t done[NODES], moves;

struct user {
    uint32_t number;
    uint64_t random, last_value, begun_ns;
    nigh_client *client;
    nigh_region *region;
    nigh_bulk *bulk;
    uint8_t *memory; /* LONG_BYTES, of that */
    struct linear_history history, locks;
    uint64_t seen[WORDS];
    bool may_be_lost[WORDS]; /* until it is read, nothing more is done to it */
    uint64_t ended[STATUSES];
};

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

/* ---- clients -------------------------------------------------------------- */

/* A client of the node, as soon as it is there; NULL: it is over. */
static nigh_client *open_client(uint32_t node)
{
    nigh_client_options options = {
        .struct_size = sizeof options, .socket_path = sockets[node], .name = "region-linear"};
    nigh_client *client;

    while (!atomic_load(&is_over)) {
        if (nigh_client_open(&options, &client) == NIGH_OK)
            return client;
        pause_briefly(10);
    }
    return NULL;
}

static bool open_region(nigh_client **client, nigh_region **region, uint32_t node, uint32_t access)
{
    while ((*client = open_client(node)) != NULL) {
        while (!atomic_load(&is_over)) {
            nigh_status status = nigh_region_open(*client, name, access, 2 * SECOND_US, region);

            if (status == NIGH_OK)
                return true;
            if (status != NIGH_NO_QUORUM && status != NIGH_BUSY && status != NIGH_TIMEOUT)
                break;
            pause_briefly(5);
        }
        nigh_client_close(*client);
    }
    return false;
}

/* The region itself; where members have just changed it may have been made by an earlier try. */
static bool create(void)
{
    nigh_region_spec spec = {.struct_size = sizeof spec,
                             .name = name,
                             .size = CHUNKS * CHUNK_BYTES,
                             .chunk_size = CHUNK_BYTES};
    nigh_client *client = open_client(0);
    nigh_region *region;
    nigh_status status;

    while ((status = nigh_region_create(client, &spec, 2 * SECOND_US, &region)) == NIGH_NO_QUORUM ||
           status == NIGH_BUSY || status == NIGH_TIMEOUT)
        pause_briefly(5);
    nigh_client_close(client);
    return status == NIGH_OK || status == NIGH_EXISTS;
}

/* ---- an operation --------------------------------------------------------- */

static uint64_t place_of(uint32_t word)
{
    uint64_t chunk = word / EACH * CHUNK_BYTES;

    switch (word % EACH) {
    case FIRST: return chunk + LONG_AT;
    case LAST: return chunk + LONG_AT + LONG_BYTES - 8;
    default: return chunk + word % EACH * 8;
    }
}

static bool is_plain(uint32_t word)
{
    return word % EACH != ATOMIC;
}

/* What these say that has not happened. */
static bool did_nothing(nigh_status status)
{
    return status == NIGH_DENIED || status == NIGH_NOT_FOUND || status == NIGH_INVALID;
}

/* What the client's connection, or its node, may be the reason for. */
static bool is_of_client(nigh_status status)
{
    return status != NIGH_OK && status != NIGH_PEER_LOST && status != NIGH_TIMEOUT &&
           status != NIGH_NO_QUORUM && status != NIGH_BUSY && status != NIGH_OVERLOADED &&
           status != NIGH_LOCK_LOST;
}

static void record_end(struct user *user, size_t number, uint32_t word, nigh_status status,
                       uint64_t found, uint64_t now)
{
    const struct linear_op *op = &user->history.ops[number];
    bool looks = op->kind == LINEAR_READ || (op->kind == LINEAR_ADD && op->given == 0);

    if (status == NIGH_OK) {
        linear_end(&user->history, number, found, now);
        user->seen[word] = found;
        user->may_be_lost[word] = false;
    } else if (looks || did_nothing(status)) {
        linear_cancel(&user->history, number);
    } else {
        user->may_be_lost[word] = true;
    }
}

static size_t record(struct linear_history *history, struct linear_op op, uint64_t now)
{
    size_t number = linear_begin(history, op, now);

    if (number == SIZE_MAX)
        _exit(2);
    return number;
}

static size_t record_begin(struct user *user, uint32_t word, enum linear_kind kind, uint64_t given,
                           uint64_t compare)
{
    struct linear_op op = {
        .word = word, .kind = kind, .given = given, .compare = compare, .who = user->number};

    return record(&user->history, op, now_ns());
}

/* Of one word, or of all that lie side by side. */
static nigh_status use_plain(struct user *user, uint32_t word, bool reads)
{
    uint32_t count = word % EACH == 0 && below(&user->random, 4) == 0 ? PLAIN : 1;
    uint64_t words[PLAIN] = {0};
    size_t numbers[PLAIN];
    nigh_status status;
    uint64_t now;

    for (uint32_t n = 0; n < count; n++)
        reads = reads || user->may_be_lost[word + n];
    for (uint32_t n = 0; n < count; n++) {
        words[n] = reads ? 0 : (uint64_t)(user->number + 1) << 48 | ++user->last_value;
        numbers[n] = record_begin(user, word + n, reads ? LINEAR_READ : LINEAR_WRITE, words[n], 0);
    }
    status = reads ? nigh_region_read(user->region, place_of(word), words, count * 8, PATIENCE_US)
                   : nigh_region_write(user->region, place_of(word), words, count * 8, PATIENCE_US);
    now = now_ns();
    for (uint32_t n = 0; n < count; n++)
        record_end(user, numbers[n], word + n, status, words[n], now);
    return status;
}

/* All that is long in a chunk, of which two words are looked at. Bytes of one before may go on to
 * be moved, after its end: that is waited for. */
static nigh_status use_long(struct user *user, uint32_t word, bool reads)
{
    nigh_bulk_part part = {.bulk = user->bulk, .size = LONG_BYTES};
    uint8_t *at[2] = {user->memory, user->memory + LONG_BYTES - 8};
    nigh_status status = nigh_bulk_wait(user->bulk, LONG_PATIENCE_US);
    uint64_t values[2] = {0};
    size_t numbers[2];
    uint64_t now;

    if (status != NIGH_OK)
        return status;
    word = word - word % EACH + FIRST;
    reads = reads || user->may_be_lost[word] || user->may_be_lost[word + 1];
    for (uint32_t n = 0; n < 2; n++) {
        values[n] = reads ? 0 : (uint64_t)(user->number + 1) << 48 | ++user->last_value;
        memcpy(at[n], &values[n], 8);
        numbers[n] = record_begin(user, word + n, reads ? LINEAR_READ : LINEAR_WRITE, values[n], 0);
    }
    status = reads ? nigh_region_read_into(user->region, place_of(word), &part, LONG_PATIENCE_US)
                   : nigh_region_write_from(user->region, place_of(word), &part, LONG_PATIENCE_US);
    now = now_ns();
    for (uint32_t n = 0; n < 2; n++) {
        memcpy(&values[n], at[n], 8);
        record_end(user, numbers[n], word + n, status, values[n], now);
    }
    return status;
}

static nigh_status use_atomic(struct user *user, uint32_t word, bool reads)
{
    uint64_t old = 0, added = (support_random(&user->random) >> 24) | 1;
    uint64_t value = (uint64_t)(user->number + 1) << 48 | ++user->last_value;
    nigh_status status;
    size_t number;

    reads = reads || user->may_be_lost[word];
    if (reads || below(&user->random, 2) == 0) {
        added = reads ? 0 : added;
        number = record_begin(user, word, LINEAR_ADD, added, 0);
        status = nigh_region_fetch_add(user->region, place_of(word), added, PATIENCE_US, &old);
    } else {
        number = record_begin(user, word, LINEAR_SWAP, value, user->seen[word]);
        status = nigh_region_compare_swap(user->region, place_of(word), user->seen[word], value,
                                          PATIENCE_US, &old);
    }
    record_end(user, number, word, status, old, now_ns());
    return status;
}

static nigh_status use_word(struct user *user, uint32_t word, bool reads)
{
    nigh_status status;

    if (word % EACH >= FIRST && below(&user->random, LONG_RARE) == 0)
        status = use_long(user, word, reads);
    else
        status = is_plain(word) ? use_plain(user, word, reads) : use_atomic(user, word, reads);
    user->ended[(uint32_t)-status % STATUSES]++;
    if (status == NIGH_OK)
        atomic_fetch_add(&done[user->number / SHARE], 1);
    return status;
}

/* ---- under a lock --------------------------------------------------------- */

/* It was let go now; or was handed on at any time since it was asked for, and until now, if that is
 * all that is known: its term may have been over before this thread went on with it. */
static void record_unlock(struct user *user, uint32_t lock, nigh_status status, uint64_t asked_ns,
                          uint64_t begun_ns)
{
    struct linear_op op = {
        .word = lock, .kind = LINEAR_UNLOCK, .given = user->number, .who = user->number};
    size_t number = record(&user->locks, op, status == NIGH_OK ? begun_ns : asked_ns);

    if (status == NIGH_OK || status == NIGH_LOCK_LOST)
        linear_end(&user->locks, number, 1, now_ns());
}

/* What failed has nothing, or what nobody saw. */
static nigh_status use_lock(struct user *user)
{
    bool reads = below(&user->random, 2) == 0;
    uint32_t lock = below(&user->random, LOCKS), word = below(&user->random, WORDS);
    struct linear_op op = {.word = lock,
                           .kind = reads ? LINEAR_SHARE : LINEAR_LOCK,
                           .given = user->number,
                           .who = user->number};
    nigh_region *held, *plain = user->region;
    uint64_t asked_ns = now_ns(), begun_ns;
    size_t number = record(&user->locks, op, asked_ns);
    nigh_status status =
        nigh_region_lock(user->region, lock, reads ? NIGH_REGION_SHARED : NIGH_REGION_EXCLUSIVE,
                         PATIENCE_US / 4, PATIENCE_US, &held);

    if (status != NIGH_OK) {
        linear_cancel(&user->locks, number);
        return status;
    }
    linear_end(&user->locks, number, 1, now_ns());
    user->region = held;
    (void)use_word(user, reads ? word - word % EACH : word, reads);
    user->region = plain;
    begun_ns = now_ns();
    status = nigh_region_unlock(held);
    record_unlock(user, lock, status, asked_ns, begun_ns);
    return status;
}

/* A client, the region, and memory for what is long. False: it is over. */
static bool open_all(struct user *user)
{
    while (open_region(&user->client, &user->region, user->number / SHARE,
                       NIGH_REGION_READ | NIGH_REGION_WRITE)) {
        void *memory;

        if (nigh_bulk_alloc(user->client, LONG_BYTES, NIGH_BULK_READ | NIGH_BULK_WRITE, &memory,
                            &user->bulk) == NIGH_OK) {
            user->memory = memory;
            return true;
        }
        nigh_client_close(user->client);
        pause_briefly(5);
    }
    return false;
}

static void *use(void *context)
{
    struct user *user = context;
    bool is_open = open_all(user);

    user->begun_ns = now_ns();
    while (is_open && !atomic_load(&is_over)) {
        nigh_status status =
            below(&user->random, RARE) == 0
                ? use_lock(user)
                : use_word(user, below(&user->random, WORDS), below(&user->random, 2) == 0);

        if (is_of_client(status)) {
            nigh_client_close(user->client);
            is_open = open_all(user);
        } else if (status != NIGH_OK ||
                   user->history.count > (now_ns() - user->begun_ns) / PERIOD_NS) {
            pause_briefly(1);
        }
    }
    for (uint32_t word = 0; word < WORDS && is_open; word++)
        (void)use_word(user, word, true);
    if (is_open)
        nigh_client_close(user->client);
    (void)pthread_barrier_wait(&has_ended);
    return NULL;
}

/* ---- what changes below --------------------------------------------------- */

static void change(nigh_region *region, uint64_t *random)
{
    uint32_t chunk = below(random, CHUNKS), rank = below(random, nodes);
    uint32_t gives = below(random, 2) * NIGH_REGION_READ;

    if (below(random, 8) == 0) {
        (void)nigh_region_grant(region, NIGH_REGION_OTHERS, 0, gives, NIGH_REGION_READ - gives,
                                SECOND_US);
        return;
    }
    if (chunk < away && rank == victim)
        rank = 0;
    if (nigh_region_move(region, chunk, rank, SECOND_US) == NIGH_OK)
        atomic_fetch_add(&moves, 1);
    pause_briefly(below(random, 3));
}

static void *change_it(void *context)
{
    uint64_t random = seed ^ 0x5555;
    nigh_client *client;
    nigh_region *region;

    (void)context;
    if (!open_region(&client, &region, 0, NIGH_REGION_ALL)) {
        (void)pthread_barrier_wait(&has_ended);
        return NULL;
    }
    while (!atomic_load(&is_over))
        change(region, &random);
    (void)pthread_barrier_wait(&has_ended);
    (void)nigh_region_free(region, 10 * SECOND_US); /* so that no round has another's */
    nigh_client_close(client);
    return NULL;
}

/* ---- all of it ------------------------------------------------------------ */

static void say_progress(void)
{
    printf("at");
    for (uint32_t n = 0; n < nodes; n++)
        printf(" %" PRIu64, atomic_load(&done[n]));
    printf(" moves %" PRIu64 "\n", atomic_load(&moves));
    (void)fflush(stdout);
}

static void wait_for_the_end(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

    while (poll(&input, 1, 20) == 0)
        say_progress();
    atomic_store(&is_over, true);
}

static void say_statuses(const struct user *users)
{
    for (int n = 0; n < STATUSES; n++) {
        uint64_t count = 0;

        for (uint32_t m = 0; m < nodes * SHARE; m++)
            count += users[m].ended[n];
        if (count > 0)
            printf("# %s: %" PRIu64 "\n", nigh_status_name((nigh_status)-n), count);
    }
}

/* Whether all of it can have been; what it was. */
static bool judge(struct linear_history *all, const char *what, linear_model model)
{
    struct linear_result result = linear_check(all->ops, all->count, model, 0, LINEAR_STEPS);
    size_t ended = 0, open = 0;

    for (size_t n = 0; n < all->count; n++) {
        ended += all->ops[n].kind != LINEAR_OUT && all->ops[n].ended != LINEAR_NEVER;
        open += all->ops[n].kind != LINEAR_OUT && all->ops[n].ended == LINEAR_NEVER;
    }
    printf("# %s: %zu operations, %zu without a known end\n", what, ended, open);
    linear_say(stdout, all->ops, all->count, &result);
    linear_free(all);
    return result.verdict == LINEAR_YES;
}

static int judge_all(struct user *users)
{
    struct linear_history words = {0}, locks = {0};
    bool are_fine;

    for (uint32_t n = 0; n < nodes * SHARE; n++) {
        if (!linear_append(&words, &users[n].history) || !linear_append(&locks, &users[n].locks))
            return 2;
        linear_free(&users[n].history);
        linear_free(&users[n].locks);
    }
    printf("# %" PRIu64 " moves\n", atomic_load(&moves));
    say_statuses(users);
    are_fine = judge(&words, "words", linear_register);
    are_fine = judge(&locks, "locks", linear_lock) && are_fine;
    return are_fine ? 0 : 1;
}

int main(int argc, char **argv)
{
    static struct user users[NODES * SHARE];
    pthread_t threads[NODES * SHARE], changes;

    if (argc < 6 || argc > 5 + NODES) {
        (void)fprintf(stderr, "usage: region-linear NAME SEED VICTIM AWAY SOCKET...\n");
        return 2;
    }
    name = argv[1];
    seed = strtoull(argv[2], NULL, 10);
    victim = (uint32_t)strtoul(argv[3], NULL, 10);
    away = (uint32_t)strtoul(argv[4], NULL, 10);
    sockets = argv + 5;
    nodes = (uint32_t)argc - 5;
    if (!create() || pthread_barrier_init(&has_ended, NULL, nodes * SHARE + 1) != 0)
        return 2;
    for (uint32_t n = 0; n < nodes * SHARE; n++) {
        users[n] = (struct user){.number = n, .random = seed * 1000 + n + 1};
        if (pthread_create(&threads[n], NULL, use, &users[n]) != 0)
            return 2;
    }
    if (pthread_create(&changes, NULL, change_it, NULL) != 0)
        return 2;
    wait_for_the_end();
    (void)pthread_join(changes, NULL);
    for (uint32_t n = 0; n < nodes * SHARE; n++)
        (void)pthread_join(threads[n], NULL);
    return judge_all(users);
}
